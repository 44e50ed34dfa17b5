package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/tidemq/tidemq/cmd/tidemq/internal/demo"
)

func demoCommand() *cli.Command {
	return &cli.Command{
		Name:  "demo",
		Usage: "send delayed messages through a kill -9 of the broker, and count",
		Description: `Starts a broker as a process of its own in a temporary folder and on a free port,
sends messages at five delay levels, shows them arriving, kills the broker with
SIGKILL while it delivers and at least 1 000 are pending, some of which come due
before it is started again, and ends with a table counted from the records of the
real topic. Takes about 15 seconds, changes nothing on the machine.

Exit code 1 if a message was lost, duplicated, early or changed.

Examples:
   tidemq demo
   tidemq demo --messages 20000
   tidemq demo --json`,
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "messages", Aliases: []string{"n"}, Value: demo.DefaultMessages, Usage: fmt.Sprintf("send `N` messages, %d to %d", demo.MinMessages, demo.MaxMessages)},
			&cli.BoolFlag{Name: "keep", DisableDefaultText: true, Usage: "leave the broker's folder"},
			jsonFlag(),
		},
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			n := c.Int("messages")
			if n < demo.MinMessages || n > demo.MaxMessages {
				return usagef("demo: --messages is %d: %d to %d is allowed", n, demo.MinMessages, demo.MaxMessages)
			}
			binary, err := os.Executable()
			if err != nil {
				return fmt.Errorf("demo: own program not found: %w", err)
			}
			// "tidemq demo | head" must still clean up.
			signal.Ignore(syscall.SIGPIPE)
			out := c.App.Writer
			if c.Bool("json") {
				out = c.App.ErrWriter // what happens is still worth seeing
			}
			report, err := demo.Run(c.Context, demo.Options{Binary: binary, Out: out, Color: colored(out), Messages: n, Keep: c.Bool("keep")})
			if err != nil {
				return fmt.Errorf("demo: %w", err)
			}
			if c.Bool("json") {
				if err := printJSON(c.App.Writer, report); err != nil {
					return err
				}
			}
			if len(report.Broken) > 0 {
				return errReported
			}
			return nil
		},
	}
}

// colored reports whether w is a terminal whose user has nothing against
// colours (https://no-color.org).
func colored(w io.Writer) bool {
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}
