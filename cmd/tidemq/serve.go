package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/tidemq/tidemq/broker"
	"github.com/tidemq/tidemq/cmd/tidemq/internal/conf"
)

const defaultDataDir = "./tidemq-data"

func serveCommand() *cli.Command {
	return &cli.Command{
		Name:  "serve",
		Usage: "run the broker",
		Description: `Runs one broker. Every address answers as broker and as name server, so clients
are given any of them as their name server. When all serve, one line per address
goes to standard output: "tidemq ready on HOST:PORT". Logs go to standard error.
SIGTERM and SIGINT stop it in good order, with exit code 0.

A configuration file is RocketMQ's broker.conf; flags win over it.

Examples:
   tidemq serve
   tidemq serve --data /var/lib/tidemq --listen 0.0.0.0:9876 --advertise mq.example.org:9876
   tidemq serve --config broker.conf --flush async
   tidemq serve --config broker-a.conf --namesrv 10.0.0.1:9876    # brokerName=broker-a: each its own`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "data", Aliases: []string{"d"}, Usage: "data `DIR`, made when missing; one process at a time (default: storePathRootDir, else " + defaultDataDir + ")"},
			&cli.StringSliceFlag{Name: "listen", Aliases: []string{"l"}, Usage: "`HOST:PORT` to listen on, may be repeated; port 0 takes a free one (default: " + broker.DefaultAddr + " and " + broker.DefaultNameServerAddr + ")"},
			&cli.StringFlag{Name: "advertise", Usage: "`HOST:PORT` that routes and message ids name (default: the address a client came in by)"},
			&cli.StringFlag{Name: "namesrv", Usage: "`HOST:PORT[;…]` of Apache RocketMQ name servers to register with, as one broker among several (default: namesrvAddr, else none)"},
			&cli.StringFlag{Name: "flush", Usage: "`MODE` sync answers a send when it is on disk, async when it is written (default: flushDiskType, else sync)"},
			&cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "read `FILE`, RocketMQ's broker.conf"},
			&cli.StringFlag{Name: "log-level", Value: "info", Usage: "`LEVEL` debug, info, warn or error"},
		},
		Action: serve,
	}
}

func serve(c *cli.Context) error {
	if err := noArguments(c); err != nil {
		return err
	}
	log, err := newLogger(c.App.ErrWriter, c.String("log-level"))
	if err != nil {
		return err
	}
	opts, err := serveOptions(c, log)
	if err != nil {
		return err
	}
	b, err := broker.New(opts)
	if err != nil {
		// What the file says was checked when it was read.
		return usagef("serve: %w", err)
	}
	return serveUntil(c.Context, b, c.App.Writer, log)
}

// serveUntil serves until ctx ends.
func serveUntil(ctx context.Context, b *broker.Broker, stdout io.Writer, log *slog.Logger) error {
	// A signal during a long start is heeded when the store has been loaded:
	// from there on stopping loses nothing and repeats no work.
	if err := b.Start(ctx); err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return nil // stopped while it looked up --advertise
		}
		return startError(err)
	}
	if ctx.Err() == nil {
		for _, addr := range b.Addrs() {
			fmt.Fprintf(stdout, "tidemq ready on %s\n", addr)
		}
	}
	<-ctx.Done()
	log.Info("stopping")
	if err := b.Close(); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	log.Info("stopped")
	return nil
}

func startError(err error) error {
	switch {
	case errors.Is(err, broker.ErrDirInUse):
		return fmt.Errorf("start: %w; stop that one, or name another --data", err)
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("start: %w; another broker or name server listens there: name other addresses with --listen", err)
	}
	return fmt.Errorf("start: %w", err)
}

// serveOptions puts defaults, file and flags together, the later over the
// earlier.
func serveOptions(c *cli.Context, log *slog.Logger) (broker.Options, error) {
	opts := broker.Options{Dir: defaultDataDir, Retention: conf.DefaultRetention(), Logger: log}
	file := &conf.File{}
	if path := c.String("config"); path != "" {
		var err error
		if file, err = conf.Load(path); err != nil {
			return opts, err
		}
		for _, w := range file.Warnings {
			log.Warn(w)
		}
		for _, n := range file.Notes {
			log.Info(n)
		}
	}
	if c.IsSet("namesrv") {
		list, err := conf.NameServers(c.String("namesrv"))
		if err != nil {
			return opts, usagef("serve: --namesrv: %w", err)
		}
		file.UseNameServers(list)
	}
	file.Apply(&opts)
	if c.IsSet("data") {
		if opts.Dir = c.String("data"); opts.Dir == "" {
			return opts, usagef("serve: --data is empty: a directory is expected")
		}
	}
	if c.IsSet("listen") {
		opts.Listen = c.StringSlice("listen")
	}
	if c.IsSet("flush") {
		switch mode := c.String("flush"); strings.ToLower(mode) {
		case "sync":
			opts.Flush = broker.SyncFlush
		case "async":
			opts.Flush = broker.AsyncFlush
		default:
			return opts, usagef("serve: --flush is %q: sync and async are allowed", mode)
		}
	}
	var err error
	if c.IsSet("advertise") {
		opts.Advertise = c.String("advertise")
	} else if opts.Advertise, err = file.Advertise(opts.Listen); err != nil {
		return opts, usagef("serve: %w", err)
	}
	return opts, nil
}

func newLogger(w io.Writer, level string) (*slog.Logger, error) {
	var l slog.Level
	switch strings.ToLower(level) {
	case "debug":
		l = slog.LevelDebug
	case "info":
		l = slog.LevelInfo
	case "warn":
		l = slog.LevelWarn
	case "error":
		l = slog.LevelError
	default:
		return nil, usagef("serve: --log-level is %q: debug, info, warn and error are allowed", level)
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: l})), nil
}
