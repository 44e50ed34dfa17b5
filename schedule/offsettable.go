package schedule

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// saveEvery is how often a changed offset table is written for people.
const saveEvery = 5 * time.Second

// offsetFile is config/delayOffset.json, where a RocketMQ operator looks for
// the progress of the levels: {"offsetTable":{"3":17}}, level → next entry to
// deliver. It is written for people and tools and never read: the log knows
// the heads, so that whatever becomes of this file changes nothing.
type offsetFile struct {
	path string
	last []byte
}

// offsetTable is the file's content. Levels are the numbers of the table in
// force; a length the table does not name any more is shown by itself ("90s").
type offsetTable struct {
	Offsets map[string]int64 `json:"offsetTable"`
}

// save writes the table when it changed, by way of a temporary file. The write
// is not synced: nothing depends on it.
func (f *offsetFile) save(levels Levels, st Store) error {
	t := offsetTable{Offsets: map[string]int64{}}
	for _, l := range st.Levels() {
		if n := levels.LevelOf(l.Delay); n > 0 {
			t.Offsets[strconv.Itoa(n)] = l.Head
		} else {
			t.Offsets[FormatLength(l.Delay)] = l.Head
		}
	}
	b, err := json.MarshalIndent(t, "", "\t")
	if err != nil {
		return err
	}
	if bytes.Equal(b, f.last) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o750); err != nil {
		return err
	}
	tmp := f.path + ".tmp"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o640); err != nil {
		return err
	}
	if err := os.Rename(tmp, f.path); err != nil {
		return err
	}
	f.last = b
	return nil
}
