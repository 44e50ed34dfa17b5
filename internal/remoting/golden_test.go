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

// golden is the description beside a captured frame, made by a decoder of its
// own. The first eight must be there.
type golden struct {
	Client     string            `json:"client"`
	HeaderType *byte             `json:"headerType"`
	Code       *int              `json:"code"`
	Flag       *int              `json:"flag"`
	Version    *int              `json:"version"`
	Language   string            `json:"language"`
	Fields     map[string]string `json:"fields"`
	BodySHA256 string            `json:"bodySHA256"`

	Opaque   *int32  `json:"opaque"`
	Remark   *string `json:"remark"`
	BodySize *int    `json:"bodySize"`
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

// Each captured frame is decoded and compared with its description, encoded
// (a header's key order is its sender's, so its bytes may differ) and decoded
// again to the same; bodies byte for byte.
func TestGolden(t *testing.T) {
	if _, err := os.Stat(goldenDir); errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s is missing: the captured frames belong to the tree", goldenDir)
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
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatalf("description: %v", err)
			}
			if want.Client == "" || want.HeaderType == nil || want.Code == nil || want.Flag == nil || want.Version == nil ||
				want.Language == "" || want.Fields == nil || want.BodySHA256 == "" {
				t.Fatalf("the description is not whole: %s", text)
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
	check := func(name string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %s %v, want %v", what, name, got, want)
		}
	}
	check("header type", c.HeaderType, *want.HeaderType)
	check("code", c.Code, *want.Code)
	check("flag", c.Flag, *want.Flag)
	check("version", c.Version, *want.Version)
	check("language", LanguageName(c.Language), want.Language)
	sum := sha256.Sum256(c.Body)
	check("body's SHA-256", hex.EncodeToString(sum[:]), want.BodySHA256)
	if want.Opaque != nil {
		check("opaque", c.Opaque, *want.Opaque)
	}
	if want.Remark != nil {
		check("remark", c.Remark, *want.Remark)
	}
	if want.BodySize != nil {
		check("body size", len(c.Body), *want.BodySize)
	}
	got := make(map[string]string)
	for _, f := range c.Fields {
		if old, twice := got[f.Key]; twice {
			t.Errorf("%s: field %q is there twice: %q and %q", what, f.Key, old, f.Value)
		}
		got[f.Key] = f.Value
	}
	if !maps.Equal(got, want.Fields) {
		t.Errorf("%s: fields\n got %q\nwant %q", what, got, want.Fields)
	}
}
