package store

import (
	"errors"
	"maps"
	"os"
	"strings"
	"testing"
)

// Configuration values survive a clean stop, and a start that has the log
// alone.
func TestKVConfigs(t *testing.T) {
	dir := t.TempDir()
	s := openUnchecked(t, testOptions(dir))
	put := func(namespace, key, value string) {
		t.Helper()
		if err := s.PutKVConfig(namespace, key, value); err != nil {
			t.Fatal(err)
		}
	}
	put("ORDER_TOPIC_CONFIG", "orders", "tidemq:4")
	put("ORDER_TOPIC_CONFIG", "orders", "tidemq:8")
	put("ORDER_TOPIC_CONFIG", "gone", "tidemq:1")
	put("other", "orders", "1s 2s 3s")
	put("other", "empty", "")
	if ok, err := s.DeleteKVConfig("ORDER_TOPIC_CONFIG", "gone"); !ok || err != nil {
		t.Errorf("delete: %v, %v", ok, err)
	}
	if ok, err := s.DeleteKVConfig("ORDER_TOPIC_CONFIG", "never"); ok || err != nil {
		t.Errorf("delete of what is not there: %v, %v", ok, err)
	}
	check := func() {
		t.Helper()
		if got, want := s.KVConfigs("ORDER_TOPIC_CONFIG"), map[string]string{"orders": "tidemq:8"}; !maps.Equal(got, want) {
			t.Errorf("values %v, want %v", got, want)
		}
		if got, want := s.KVConfigs("other"), map[string]string{"orders": "1s 2s 3s", "empty": ""}; !maps.Equal(got, want) {
			t.Errorf("values %v, want %v", got, want)
		}
		if v, ok := s.KVConfig("other", "empty"); !ok || v != "" {
			t.Errorf("empty value %q, %v", v, ok)
		}
	}
	check()
	for _, without := range []string{"", "the checkpoint"} {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if without != "" { // a start that replays the log
			if err := os.Remove(s.checkpointPath()); err != nil {
				t.Fatal(err)
			}
		}
		if r, err := Check(dir); err != nil || r.Err() != nil {
			t.Errorf("closed store: %v, %v", err, r.Err())
		}
		s = openUnchecked(t, testOptions(dir))
		check()
	}

	for _, name := range []string{"", strings.Repeat("n", MaxKVName+1)} {
		if s.PutKVConfig(name, "k", "v") == nil || s.PutKVConfig("n", name, "v") == nil {
			t.Errorf("a name of %d bytes was taken", len(name))
		}
	}
	if s.PutKVConfig("n", "k", strings.Repeat("v", MaxKVValue+1)) == nil {
		t.Error("a value over the limit was taken")
	}
	s.tables.mu.Lock()
	for i := range MaxKVs { // as if they had been put
		s.tables.kvs[kvKey{"n", strings.Repeat("k", i%200) + string(rune('a'+i/200))}] = KVConfig{}
	}
	s.tables.mu.Unlock()
	if err := s.PutKVConfig("n", "one more", "v"); !errors.Is(err, ErrTooManyKVs) {
		t.Errorf("one value too many: %v", err)
	}
	if err := s.PutKVConfig("other", "orders", "changed"); err != nil {
		t.Errorf("a value that was there: %v", err)
	}
}
