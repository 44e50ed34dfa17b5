package main

import (
	"os"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/tidemq/tidemq/cmd/tidemq/internal/conf"
	"github.com/tidemq/tidemq/schedule"
)

// The README's tables say all that can be set.
func TestReadmeIsComplete(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme := string(data)
	for _, key := range conf.Keys() {
		if !strings.Contains(readme, "`"+key+"`") {
			t.Errorf("README.md does not tell of the key %s", key)
		}
	}
	for _, f := range serveCommand().Flags {
		if name := "`--" + f.Names()[0]; !strings.Contains(readme, name) {
			t.Errorf("README.md does not tell of serve's flag %s", name)
		}
	}
	if !strings.Contains(readme, "`"+schedule.DefaultTable+"`") {
		t.Errorf("README.md names another default table than %s", schedule.DefaultTable)
	}
}

// Every example in a help text is a command line that exists: its command and
// its flags do.
func TestExamplesExist(t *testing.T) {
	t.Parallel()
	app := newApp()
	for _, c := range app.Commands {
		checkExamples(t, app, c)
	}
}

func checkExamples(t *testing.T, app *cli.App, c *cli.Command) {
	t.Helper()
	for line := range strings.Lines(c.Description) {
		_, words, ok := strings.Cut(strings.TrimSpace(line), "tidemq ")
		if !ok || !strings.HasPrefix(line, "   ") {
			continue
		}
		named := app.Command(strings.Fields(words)[0])
		if named == nil {
			t.Errorf("help of %s has an example of a command that does not exist: %s", c.Name, line)
			continue
		}
		flags := named.Flags
		for _, sub := range named.Subcommands {
			if sub.Name == strings.Fields(words)[1] {
				flags = sub.Flags
			}
		}
		known := map[string]bool{}
		for _, f := range flags {
			for _, n := range f.Names() {
				known["--"+n] = true
			}
		}
		for _, w := range strings.Fields(words) {
			if strings.HasPrefix(w, "--") && !known[w] {
				t.Errorf("help of %s has an example with %s, which %s does not take", c.Name, w, named.Name)
			}
		}
	}
	for _, sub := range c.Subcommands {
		checkExamples(t, app, sub)
	}
}
