package store

import (
	"encoding/json"
	"fmt"
	"maps"
	"sort"
	"sync"
)

// tableChange is the payload of a table record, as JSON: exactly one field is
// set.
type tableChange struct {
	PutTopic    *Topic `json:"putTopic,omitempty"`
	DeleteTopic string `json:"deleteTopic,omitempty"`
	PutGroup    *Group `json:"putGroup,omitempty"`
	DeleteGroup string `json:"deleteGroup,omitempty"`

	PutKVConfig    *KVConfig `json:"putKVConfig,omitempty"`
	DeleteKVConfig *kvKey    `json:"deleteKVConfig,omitempty"`
}

// tables holds topics, groups and configuration values. Dispatch changes them, anyone reads.
type tables struct {
	mu     sync.RWMutex
	topics map[string]Topic
	groups map[string]Group
	kvs    map[kvKey]KVConfig
}

func newTables() *tables {
	return &tables{topics: map[string]Topic{}, groups: map[string]Group{}, kvs: map[kvKey]KVConfig{}}
}

// apply makes a change that stands in the log at index and address. A change
// older than the entry's last one is passed over.
func (t *tables) apply(c *tableChange, index uint64, address int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case c.PutTopic != nil:
		n := *c.PutTopic
		old, ok := t.topics[n.Name]
		if ok && old.Changed >= index {
			return
		}
		n.Created, n.Changed = address, index
		if ok {
			n.Created = old.Created
		}
		t.topics[n.Name] = n
	case c.DeleteTopic != "":
		if old, ok := t.topics[c.DeleteTopic]; ok && old.Changed < index {
			delete(t.topics, c.DeleteTopic)
		}
	case c.PutGroup != nil:
		n := *c.PutGroup
		if old, ok := t.groups[n.Name]; ok && old.Changed >= index {
			return
		}
		n.Changed = index
		t.groups[n.Name] = n
	case c.DeleteGroup != "":
		if old, ok := t.groups[c.DeleteGroup]; ok && old.Changed < index {
			delete(t.groups, c.DeleteGroup)
		}
	default:
		t.applyKV(c, index)
	}
}

// restore sets what was true at some point of the log over what is there.
func (t *tables) restore(topics []Topic, groups []Group, kvs []KVConfig) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, v := range topics {
		t.topics[v.Name] = v
	}
	for _, v := range groups {
		t.groups[v.Name] = v
	}
	for _, v := range kvs {
		t.kvs[kvKey{v.Namespace, v.Key}] = v
	}
}

func (t *tables) topic(name string) (Topic, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	v, ok := t.topics[name]
	return v, ok
}

func (t *tables) group(name string) (Group, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	v, ok := t.groups[name]
	return v, ok
}

func (t *tables) allTopics() []Topic {
	t.mu.RLock()
	defer t.mu.RUnlock()
	all := make([]Topic, 0, len(t.topics))
	for _, v := range t.topics {
		all = append(all, v)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}

func (t *tables) allGroups() []Group {
	t.mu.RLock()
	defer t.mu.RUnlock()
	all := make([]Group, 0, len(t.groups))
	for _, v := range t.groups {
		all = append(all, v)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}

// Topic returns one topic's configuration, a copy but for Attributes, which
// must not be changed.
func (s *Store) Topic(name string) (Topic, bool) { return s.tables.topic(name) }

// Topics returns all topics by name.
func (s *Store) Topics() []Topic { return s.tables.allTopics() }

// PutTopic creates a topic or changes its configuration. It is durable, in
// either flush mode, when PutTopic returns.
func (s *Store) PutTopic(t Topic) error {
	if t.Name == "" || len(t.Name) > 255 || t.ReadQueues < 0 || t.WriteQueues < 0 {
		return fmt.Errorf("topic %q: name of 1 to 255 bytes and queue counts of 0 or more expected", t.Name)
	}
	t.Attributes = maps.Clone(t.Attributes)
	return s.changeTable(&tableChange{PutTopic: &t})
}

// DeleteTopic removes a topic, its queues and the consumer offsets on it,
// durably. What is pending for it will not be delivered into a later topic of
// that name. ErrTopicNotFound when there is none.
func (s *Store) DeleteTopic(name string) error {
	if _, ok := s.Topic(name); !ok {
		return fmt.Errorf("%w: %q", ErrTopicNotFound, name)
	}
	return s.changeTable(&tableChange{DeleteTopic: name})
}

// Group returns one consumer group's configuration.
func (s *Store) Group(name string) (Group, bool) { return s.tables.group(name) }

// Groups returns all consumer groups by name.
func (s *Store) Groups() []Group { return s.tables.allGroups() }

// PutGroup creates a group or changes its configuration, durably.
func (s *Store) PutGroup(g Group) error {
	if g.Name == "" || len(g.Name) > 255 {
		return fmt.Errorf("group %q: name of 1 to 255 bytes expected", g.Name)
	}
	g.Attributes = maps.Clone(g.Attributes)
	return s.changeTable(&tableChange{PutGroup: &g})
}

// DeleteGroup removes a group and its offsets, durably. Deleting a group that
// does not exist changes nothing.
func (s *Store) DeleteGroup(name string) error {
	return s.changeTable(&tableChange{DeleteGroup: name})
}

func (s *Store) changeTable(c *tableChange) error {
	payload, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return s.appendState(kindTable, payload)
}
