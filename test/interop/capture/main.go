package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "capture:", err)
		os.Exit(1)
	}
}

func run() error {
	var upstreams []string
	flag.Func("upstream", "`HOST:PORT` of a name server or broker; clients are given the first as name server, the last as broker", func(s string) error {
		upstreams = append(upstreams, s)
		return nil
	})
	client := flag.String("client", "", "name and version of the client, e.g. java-5.5.0")
	broker := flag.String("broker", "", "name and version of the broker, e.g. rocketmq-5.5.0")
	prefix := flag.String("prefix", "", "how the written files' names begin, e.g. java-json")
	out := flag.String("out", "", "directory to write to")
	clientOnly := flag.Bool("client-only", false, "write what the client sends, over older files, and leave the broker's side as it is")
	flag.Parse()
	if len(upstreams) == 0 || *client == "" || *broker == "" || *prefix == "" || *out == "" || flag.NArg() == 0 {
		flag.Usage()
		return errors.New("-upstream, -client, -broker, -prefix, -out and a command are needed")
	}

	g := &golden{client: *client, broker: *broker, prefix: *prefix, clientOnly: *clientOnly, frames: map[string]captured{}}
	p, err := newProxy(upstreams, g.keep)
	if err != nil {
		return err
	}
	cmd := exec.Command(flag.Arg(0), flag.Args()[1:]...)
	cmd.Env = append(os.Environ(), "TIDEMQ_INTEROP_ADDR="+p.Addr(upstreams[0]),
		"TIDEMQ_INTEROP_BROKER="+p.Addr(upstreams[len(upstreams)-1]))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	// Closed before the files are written: then no frame is under way.
	if err := errors.Join(cmd.Run(), p.Close()); err != nil {
		return fmt.Errorf("%s: %w", flag.Arg(0), err)
	}
	names, err := g.write(*out)
	if err != nil {
		return err
	}
	fmt.Printf("%d frames of %s written to %s\n", len(names), *client, *out)
	return nil
}

// isReset tells that the peer closed without reading everything, as a killed
// client does.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
