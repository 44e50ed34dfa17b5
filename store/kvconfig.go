package store

import (
	"fmt"
	"slices"
	"strings"
)

// Limits of a KVConfig, in bytes, and of how many there may be: all of them
// are in memory and in every checkpoint.
const (
	MaxKVName  = 255
	MaxKVValue = 32 << 10
	MaxKVs     = 4096
)

// KVConfig is one named text of a namespace, as in the table of RocketMQ's
// name server (`KVConfigManager`): what an administrator sets while the broker
// runs and finds again after a start.
type KVConfig struct {
	Namespace string `json:"namespace"`
	Key       string `json:"key"`
	Value     string `json:"value"`
	// Changed is the WAL index of the last change; set by the store.
	Changed uint64 `json:"changed"`
}

// kvKey names a KVConfig.
type kvKey struct {
	Namespace string `json:"namespace"`
	Key       string `json:"key"`
}

func (t *tables) applyKV(c *tableChange, index uint64) {
	switch {
	case c.PutKVConfig != nil:
		n := *c.PutKVConfig
		k := kvKey{n.Namespace, n.Key}
		if old, ok := t.kvs[k]; ok && old.Changed >= index {
			return
		}
		n.Changed = index
		t.kvs[k] = n
	case c.DeleteKVConfig != nil:
		if old, ok := t.kvs[*c.DeleteKVConfig]; ok && old.Changed < index {
			delete(t.kvs, *c.DeleteKVConfig)
		}
	}
}

func (t *tables) allKVs() []KVConfig {
	t.mu.RLock()
	defer t.mu.RUnlock()
	all := make([]KVConfig, 0, len(t.kvs))
	for _, v := range t.kvs {
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b KVConfig) int {
		if n := strings.Compare(a.Namespace, b.Namespace); n != 0 {
			return n
		}
		return strings.Compare(a.Key, b.Key)
	})
	return all
}

func (t *tables) kv(k kvKey) (KVConfig, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	v, ok := t.kvs[k]
	return v, ok
}

// KVConfig returns one value; false when there is none.
func (s *Store) KVConfig(namespace, key string) (string, bool) {
	v, ok := s.tables.kv(kvKey{namespace, key})
	return v.Value, ok
}

// KVConfigs returns a namespace's values by key; empty when there are none.
func (s *Store) KVConfigs(namespace string) map[string]string {
	s.tables.mu.RLock()
	defer s.tables.mu.RUnlock()
	values := make(map[string]string)
	for k, v := range s.tables.kvs {
		if k.Namespace == namespace {
			values[k.Key] = v.Value
		}
	}
	return values
}

// PutKVConfig sets a value, durably in either flush mode. Namespace and key
// have 1 to MaxKVName bytes, the value at most MaxKVValue; ErrTooManyKVs when
// there is no room for another.
func (s *Store) PutKVConfig(namespace, key, value string) error {
	for _, name := range []string{namespace, key} {
		if name == "" || len(name) > MaxKVName {
			return fmt.Errorf("configuration value %.40q of %.40q: names of 1 to %d bytes expected", key, namespace, MaxKVName)
		}
	}
	if len(value) > MaxKVValue {
		return fmt.Errorf("configuration value %q of %q: %d bytes, at most %d", key, namespace, len(value), MaxKVValue)
	}
	s.tables.mu.RLock()
	_, known := s.tables.kvs[kvKey{namespace, key}]
	full := !known && len(s.tables.kvs) >= MaxKVs
	s.tables.mu.RUnlock()
	if full {
		return fmt.Errorf("configuration value %q of %q: %w: %d", key, namespace, ErrTooManyKVs, MaxKVs)
	}
	return s.changeTable(&tableChange{PutKVConfig: &KVConfig{Namespace: namespace, Key: key, Value: value}})
}

// DeleteKVConfig removes a value, durably; false when there was none.
func (s *Store) DeleteKVConfig(namespace, key string) (bool, error) {
	if _, ok := s.KVConfig(namespace, key); !ok {
		return false, nil
	}
	return true, s.changeTable(&tableChange{DeleteKVConfig: &kvKey{namespace, key}})
}
