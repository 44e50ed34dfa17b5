package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tidemq/tidemq/broker"
	"github.com/tidemq/tidemq/client"
)

// addrFlag is for every command that talks to a broker.
func addrFlag() cli.Flag {
	return &cli.StringFlag{Name: "addr", Aliases: []string{"a"}, Value: broker.DefaultAddr, EnvVars: []string{"TIDEMQ_ADDR"},
		Usage: "broker or name server at `HOST:PORT`; several divided by commas, of which one must answer"}
}

func jsonFlag() cli.Flag {
	return &cli.BoolFlag{Name: "json", DisableDefaultText: true, Usage: "print JSON, for programs"}
}

// closeTimeout bounds the good-byes of a client.
const closeTimeout = 3 * time.Second

// connect returns a client of --addr, the addresses, and what closes the
// client. Nothing is dialled yet.
func connect(c *cli.Context, opts ...client.Option) (*client.Client, []string, func(), error) {
	var addrs []string
	for a := range strings.SplitSeq(c.String("addr"), ",") {
		a = strings.TrimSpace(a)
		host, port, err := net.SplitHostPort(a)
		if n, perr := strconv.Atoi(port); err != nil || host == "" || perr != nil || n < 1 || n > 65535 {
			return nil, nil, nil, usagef("%s--addr is %q: HOST:PORT is expected, with a port from 1 to 65535", commandPrefix(c), a)
		}
		addrs = append(addrs, a)
	}
	cl, err := client.New(addrs, opts...)
	if err != nil {
		return nil, nil, nil, usagef("%s%w", commandPrefix(c), err)
	}
	closeClient := func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err := cl.Close(ctx); err != nil {
			fmt.Fprintf(c.App.ErrWriter, "tidemq: while closing: %v\n", err)
		}
	}
	return cl, addrs, closeClient, nil
}

// call asks the first address that answers for something of TideMQ's own and
// reads the JSON of the answer into out.
func call(c *cli.Context, code int, fields map[string]string, out any) error {
	cl, addrs, closeClient, err := connect(c)
	if err != nil {
		return err
	}
	defer closeClient()
	return callAny(c.Context, cl.Admin(), addrs, code, fields, out)
}

func callAny(ctx context.Context, admin *client.Admin, addrs []string, code int, fields map[string]string, out any) error {
	var errs []error
	for _, addr := range addrs {
		reply, err := admin.Call(ctx, addr, code, fields, nil)
		var answered *client.BrokerError
		switch {
		case err == nil:
			if err := json.Unmarshal(reply.Body, out); err != nil {
				return fmt.Errorf("%s gave an answer that cannot be read: %w", addr, err)
			}
			return nil
		case errors.Is(err, client.ErrNotSupported):
			return fmt.Errorf("%s does not know this request: it is no TideMQ broker, or an older one (%w)", addr, err)
		case errors.As(err, &answered):
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// explain turns an error into a line a person can act on.
func explain(err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", "\n  ")
	var answered *client.BrokerError
	switch {
	case errors.As(err, &answered):
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case errors.Is(err, client.ErrConnection), errors.Is(err, client.ErrTimeout):
		text += "\nIs a broker running there? 'tidemq serve' starts one; --addr or TIDEMQ_ADDR names another address."
	}
	return text
}
