package remoting

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// goldenDir holds frames captured from RocketMQ's own clients: NAME.bin is one
// frame, NAME.json describes it. Its README tells how they were captured.
const goldenDir = "../../testdata/remoting"

// golden is the description beside a captured frame.
type golden struct {
	Client     string            `json:"client"`
	HeaderType byte              `json:"headerType"`
	Code       int               `json:"code"`
	Flag       int               `json:"flag"`
	Version    int               `json:"version"`
	Language   string            `json:"language"`
	Fields     map[string]string `json:"fields"`
	BodySHA256 string            `json:"bodySHA256"`
}

func goldenNames(tb testing.TB) []string {
	tb.Helper()
	names, err := filepath.Glob(filepath.Join(goldenDir, "*.bin"))
	if err != nil {
		tb.Fatal(err)
	}
	return names
}

// goldenFrames are the captured frames, as seeds.
func goldenFrames(tb testing.TB) [][]byte {
	var frames [][]byte
	for _, name := range goldenNames(tb) {
		b, err := os.ReadFile(name)
		if err != nil {
			tb.Fatal(err)
		}
		frames = append(frames, b)
	}
	return frames
}

func describe(tb testing.TB, c *Command) golden {
	tb.Helper()
	g := golden{HeaderType: c.HeaderType, Code: c.Code, Flag: c.Flag, Version: c.Version, Language: LanguageName(c.Language), Fields: map[string]string{}}
	for _, f := range c.Fields {
		if old, twice := g.Fields[f.Key]; twice {
			tb.Errorf("field %q is there twice: %q and %q", f.Key, old, f.Value)
		}
		g.Fields[f.Key] = f.Value
	}
	sum := sha256.Sum256(c.Body)
	g.BodySHA256 = hex.EncodeToString(sum[:])
	return g
}

// Each captured frame is decoded and compared with its description, encoded
// (a header's key order is its sender's, so its bytes may differ) and decoded
// again to the same; bodies byte for byte.
func TestGolden(t *testing.T) {
	if _, err := os.Stat(goldenDir); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is missing: the captured frames belong to the tree", goldenDir)
	}
	names := goldenNames(t)
	if len(names) == 0 {
		t.Fatalf("%s has no frames (*.bin)", goldenDir)
	}
	described, err := filepath.Glob(filepath.Join(goldenDir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range described {
		if frame := strings.TrimSuffix(name, ".json") + ".bin"; !slices.Contains(names, frame) {
			t.Errorf("%s describes a frame that is missing", filepath.Base(name))
		}
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".bin"), func(t *testing.T) {
			frame, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(strings.TrimSuffix(name, ".bin") + ".json")
			if err != nil {
				t.Fatalf("the frame has no description: %v", err)
			}
			var want golden
			d := json.NewDecoder(strings.NewReader(string(text)))
			d.DisallowUnknownFields()
			if err := d.Decode(&want); err != nil {
				t.Fatalf("description: %v", err)
			}
			if want.Client == "" {
				t.Error("the description names no client")
			}
			first := decode(t, frame)
			checkGolden(t, "decoded", first, want)
			same(t, "read from a connection", first, read(t, frame))
			again := decode(t, encode(t, first))
			checkGolden(t, "encoded and decoded again", again, want)
			same(t, "encoded and decoded again", first, again)
			if frame[4] == HeaderRocketMQ && string(encode(t, first)) != string(frame) {
				t.Error("a ROCKETMQ header has one form, and ours differs")
			}
		})
	}
}

func checkGolden(t *testing.T, what string, c *Command, want golden) {
	t.Helper()
	got := describe(t, c)
	got.Client = want.Client
	sameFields := maps.Equal(got.Fields, want.Fields)
	if !sameFields {
		t.Errorf("%s: fields\n got %q\nwant %q", what, got.Fields, want.Fields)
	}
	got.Fields, want.Fields = nil, nil
	if g, w := asJSON(t, got), asJSON(t, want); g != w {
		t.Errorf("%s:\n got %s\nwant %s", what, g, w)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
