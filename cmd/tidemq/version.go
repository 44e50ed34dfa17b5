package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

// version is set by the linker for a release.
var version = "dev"

// buildInfo is what version prints.
type buildInfo struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	// Modified: the tree had changes that are not in Commit.
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func readBuildInfo() buildInfo {
	b := buildInfo{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if b.Version == "dev" && info.Main.Version != "" && info.Main.Version != "(devel)" {
		b.Version = info.Main.Version // go install …@version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// versionText is version and commit in a few letters.
func versionText() string {
	b := readBuildInfo()
	if b.Commit == "" {
		return b.Version
	}
	text := fmt.Sprintf("%s (%.12s", b.Version, b.Commit)
	if b.Modified {
		text += ", changed"
	}
	return text + ")"
}

func versionCommand() *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "print the version",
		Flags: []cli.Flag{jsonFlag()},
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			b := readBuildInfo()
			if c.Bool("json") {
				return json.NewEncoder(c.App.Writer).Encode(b)
			}
			_, err := fmt.Fprintf(c.App.Writer, "tidemq %s %s %s\n", versionText(), b.Go, b.Platform)
			return err
		},
	}
}
