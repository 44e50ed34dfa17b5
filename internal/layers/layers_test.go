// Package layers holds the tree to the directions in which its packages may
// depend on each other.
package layers

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	root   = "../.."
	module = "github.com/tidemq/tidemq"
)

// layer is what a package may import of this module besides itself; "*" is
// all of it.
type layer struct {
	code list
	// tests may import these besides; nobody depends on a test.
	tests list
}

type list []string

func (l list) allow(dir string) bool { return slices.Contains(l, dir) || slices.Contains(l, "*") }

// layers, by package, or by tree (DIR/...): dependencies point one way, cmd → broker → schedule → store →
// internal/message. broker and client share internal/remoting and never import
// each other, so that the client stays small in a program that uses it.
var layers = map[string]layer{
	"internal/message":   {},
	"internal/vfs":       {},
	"internal/remoting":  {},
	"internal/layers":    {},
	"internal/sqlfilter": {code: list{"internal/message"}},

	"store":           {code: list{"internal/message", "internal/vfs"}},
	"store/storetest": {code: list{"store", "internal/vfs"}, tests: list{"internal/message"}},
	"schedule":        {code: list{"store", "internal/message"}, tests: list{"store/storetest"}},
	"broker": {
		code:  list{"schedule", "store", "internal/message", "internal/remoting", "internal/sqlfilter"},
		tests: list{"store/storetest", "internal/vfs"},
	},
	"client": {code: list{"internal/message", "internal/remoting"}},

	// The top: commands, and what is internal to them. Nobody can import it.
	"cmd/...": {code: list{"*"}},

	// Tests of the whole see everything.
	"test/...": {tests: list{"*"}},
}

// banned imports say what to use instead. The value's second half names where
// an exception is made.
var banned = map[string]struct{ instead, except string }{
	"log":                    {"log/slog: logs have levels and fields here, and come in through Options", ""},
	"math/rand":              {"math/rand/v2", ""},
	"io/ioutil":              {"io and os", ""},
	"testing":                {"a _test.go file: the program must not carry the testing package", "store/storetest"},
	"github.com/tidwall/wal": {"package store: its commit log alone writes the WAL, whose own reads race with its writes", "store"},
}

func TestLayers(t *testing.T) {
	seen := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path == root {
				return nil
			}
			_, err := os.Stat(filepath.Join(path, "go.mod"))
			if err == nil || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" {
				return fs.SkipDir // another module, or none of ours
			}
			return nil
		}
		if strings.HasSuffix(path, ".go") {
			dir, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			dir = filepath.ToSlash(dir)
			name := dir
			if _, ok := layers[dir]; !ok {
				top, _, _ := strings.Cut(dir, "/")
				name = top + "/..."
			}
			seen[name] = true
			checkFile(t, dir, name, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir := range layers {
		if !seen[dir] {
			t.Errorf("%s has a layer and no Go file: take it out of layers", dir)
		}
	}
}

func checkFile(t *testing.T, dir, name, path string) {
	t.Helper()
	l, known := layers[name]
	if !known {
		t.Errorf("package %s has no layer: say in layers what it may import", dir)
		return
	}
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	inTest := strings.HasSuffix(path, "_test.go")
	for _, spec := range f.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if b, ok := banned[name]; ok && !inTest && dir != b.except {
			t.Errorf("%s imports %s: use %s", path, name, b.instead)
		}
		of, ours := strings.CutPrefix(name, module+"/")
		if !ours || of == dir || l.code.allow(of) || inTest && l.tests.allow(of) {
			continue
		}
		t.Errorf("%s imports %s: package %s may import %v (in tests also %v) of this module; dependencies point cmd → broker → schedule → store → internal/message",
			path, of, dir, l.code, l.tests)
	}
}
