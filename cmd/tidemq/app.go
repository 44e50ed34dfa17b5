package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // it failed, or a promise was broken
	exitUsage  = 2 // the command line cannot be understood
)

// usageError is a command line that cannot be understood.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// errReported ends a command with exit code 1 when everything has been said.
var errReported = errors.New("failed")

// run runs one command line and returns its exit code. ctx ends it in good
// order.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	app := newApp()
	app.Reader, app.Writer, app.ErrWriter = stdin, stdout, stderr
	err := app.RunContext(ctx, args)
	var usage *usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errReported):
		return exitFailed
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "tidemq: %v\nRun 'tidemq help' or 'tidemq COMMAND --help' for what is possible.\n", err)
		return exitUsage
	}
	fmt.Fprintf(stderr, "tidemq: %s\n", explain(err))
	return exitFailed
}

func newApp() *cli.App {
	app := &cli.App{
		Name:    "tidemq",
		Usage:   "scheduled messages for RocketMQ's clients, in one binary",
		Version: versionText(),
		Description: `TideMQ stores messages, keeps them until their delay level is over, and hands
them to consumers exactly once per stored send, also across a kill -9.

Try:
   tidemq demo
   tidemq serve                                          # in one terminal
   tidemq produce --topic orders --delay 10s 'hello'     # in another
   tidemq consume --topic orders

Exit codes: 0 done · 1 failed, or a promise was broken · 2 the command line
cannot be understood.`,
		Commands: []*cli.Command{
			serveCommand(), produceCommand(), consumeCommand(), levelsCommand(), offsetsCommand(), demoCommand(), versionCommand(),
		},
		Action: chooseCommand,
		// A comma belongs to a property's value.
		DisableSliceFlagSeparator: true,
		ExitErrHandler:            func(*cli.Context, error) {}, // exit codes are run's
		OnUsageError:              onUsageError,
	}
	setUsageErrors(app.Commands)
	return app
}

// setUsageErrors gives every command the same handling of a bad command line.
func setUsageErrors(commands []*cli.Command) {
	for _, c := range commands {
		c.OnUsageError = onUsageError
		// "help" is a body to send, not a command of produce.
		c.HideHelpCommand = true
		setUsageErrors(c.Subcommands)
	}
}

func onUsageError(c *cli.Context, err error, _ bool) error {
	return usagef("%s%w", commandPrefix(c), err)
}

// commandPrefix is "produce: " in the command of that name.
func commandPrefix(c *cli.Context) string {
	if c.Command == nil || c.Command.HelpName == "" || c.Command.HelpName == c.App.Name {
		return ""
	}
	return strings.TrimPrefix(c.Command.HelpName, c.App.Name+" ") + ": "
}

// chooseCommand is what a command with subcommands does on its own: help, or
// an error when the name is not one of them.
func chooseCommand(c *cli.Context) error {
	root := commandPrefix(c) == ""
	name := c.Args().First()
	switch {
	case name != "":
	case root:
		return cli.ShowAppHelp(c)
	default:
		return cli.ShowSubcommandHelp(c)
	}
	commands := c.App.Commands
	if !root {
		commands = c.Command.Subcommands
	}
	hint := ""
	for _, sub := range commands { // far-fetched guesses are worse than none
		if sub.Name[0] == name[0] {
			hint = ". " + cli.SuggestCommand(commands, name)
		}
	}
	return usagef("%sthere is no command %q%s", commandPrefix(c), name, hint)
}

// noArguments refuses words that no flag took.
func noArguments(c *cli.Context) error {
	if c.Args().Present() {
		return usagef("%s%q is not expected; flags come before, each with '--'", commandPrefix(c), c.Args().First())
	}
	return nil
}

// need returns a flag's value, which must not be empty.
func need(c *cli.Context, flag string) (string, error) {
	v := c.String(flag)
	if v == "" {
		return "", usagef("%s--%s is missing", commandPrefix(c), flag)
	}
	return v, nil
}
