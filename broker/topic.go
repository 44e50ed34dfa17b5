package broker

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/store"
)

// Permission bits of a topic, as RocketMQ `PermName`.
const (
	permInherit = 1 << 0 // topics may be created from it
	permWrite   = 1 << 1
	permRead    = 1 << 2
	permAll     = permInherit | permWrite | permRead
)

const (
	singleTag = "SINGLE_TAG"
	multiTag  = "MULTI_TAG"
	// dlqQueues is the number of queues of a dead-letter topic, as RocketMQ.
	dlqQueues = 1
)

// metaStore is what tables needs of the store.
type metaStore interface {
	Topic(name string) (store.Topic, bool)
	Topics() []store.Topic
	PutTopic(t store.Topic) error
	DeleteTopic(name string) error
	Group(name string) (store.Group, bool)
	Groups() []store.Group
	PutGroup(g store.Group) error
	DeleteGroup(name string) error
}

// tables are topics and consumer groups as requests look them up: immutable
// copies of what the store keeps. Every change goes through here, one at a
// time; reads never wait for one.
type tables struct {
	store    metaStore
	settings *liveSettings
	// replyTopic is the cluster's topic of replies.
	replyTopic string

	// version grows with every change of a topic, and onChange, when it is
	// set, is called after it; it must not block.
	version  atomic.Uint64
	onChange func()

	// change is held from the look to the end of a change.
	change sync.Mutex

	mu     sync.RWMutex
	topics map[string]*store.Topic
	groups map[string]*store.Group
}

func newTables(s metaStore, o *Options, settings *liveSettings) *tables {
	t := &tables{
		store:      s,
		settings:   settings,
		replyTopic: o.ClusterName + replyTopicSuffix,
		topics:     make(map[string]*store.Topic),
		groups:     make(map[string]*store.Group),
	}
	for _, topic := range s.Topics() {
		t.topics[topic.Name] = &topic
	}
	for _, g := range s.Groups() {
		t.groups[g.Name] = &g
	}
	return t
}

// autoGroup reports whether a group's first use creates it.
func (t *tables) autoGroup() bool { return t.settings.Load().autoGroup }

// topic returns a topic that exists, nil otherwise.
func (t *tables) topic(name string) *store.Topic {
	t.mu.RLock()
	topic := t.topics[name]
	t.mu.RUnlock()
	if topic != nil {
		return topic
	}
	// The broker's own parts create topics in the store directly. Looking
	// again under the mutex keeps a topic that is being deleted from staying
	// here: deleteTopic takes it out of the store first.
	if _, ok := t.store.Topic(name); !ok {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if topic = t.topics[name]; topic != nil {
		return topic
	}
	found, ok := t.store.Topic(name)
	if !ok {
		return nil
	}
	t.topics[found.Name] = &found
	return &found
}

// defaultTopic is TBW102, which topics take their settings from when a send
// creates them. It exists while that is allowed.
func (t *tables) defaultTopic() *store.Topic {
	s := t.settings.Load()
	if !s.autoTopic {
		return nil
	}
	return &store.Topic{Name: message.TBW102, ReadQueues: s.autoQueues, WriteQueues: s.autoQueues, Perm: permAll, FilterType: singleTag}
}

// routed returns what a route request is answered with: topics that exist,
// TBW102, and the retry topic of a group before it is recorded, so that a
// consumer that starts finds it at once.
func (t *tables) routed(name string) *store.Topic {
	if topic := t.topic(name); topic != nil {
		return topic
	}
	if name == message.TBW102 {
		return t.defaultTopic()
	}
	if topic := t.builtin(name); topic != nil {
		return topic
	}
	return t.unrecordedRetry(name)
}

// builtin returns a topic that clients count upon, and which is there by its
// first use: that of traces, and that of replies.
func (t *tables) builtin(name string) *store.Topic {
	if name != message.TraceTopic && name != t.replyTopic {
		return nil
	}
	topic := internalTopic(strings.Clone(name))
	return &topic
}

// readable returns a topic that may be pulled from.
func (t *tables) readable(name string) *store.Topic {
	if topic := t.topic(name); topic != nil {
		return topic
	}
	return t.unrecordedRetry(name)
}

// unrecordedRetry returns the retry topic that a group has or may get.
func (t *tables) unrecordedRetry(name string) *store.Topic {
	group, ok := retryGroup(name)
	if !ok {
		return nil
	}
	if g := t.group(group); g != nil {
		return retryTopic(g)
	}
	if !t.autoGroup() {
		return nil
	}
	return retryTopic(defaultGroup(group))
}

// retryGroup returns the group whose retry topic name is. Longer names of that
// prefix, up to 255 bytes, are topics of their own: RocketMQ's pop consumers
// put a topic's name behind the group's.
func retryGroup(name string) (string, bool) {
	if !message.IsRetryTopic(name) {
		return "", false
	}
	group := strings.TrimPrefix(name, message.RetryTopic(""))
	return group, message.ValidateGroup(group) == nil
}

func retryTopic(g *store.Group) *store.Topic {
	n := min(max(g.RetryQueues, 1), maxQueues)
	return &store.Topic{Name: message.RetryTopic(g.Name), ReadQueues: n, WriteQueues: n, Perm: permRead | permWrite, FilterType: singleTag}
}

// createForSend returns the topic of a send that found none, created from its
// default topic as RocketMQ `TopicConfigManager.createTopicInSendMessageMethod`.
// It may block until the topic is durable.
func (t *tables) createForSend(name, defaultTopic string, queues int32) (*store.Topic, error) {
	if topic := t.builtin(name); topic != nil {
		return t.createTopic(*topic)
	}
	from := t.topic(defaultTopic)
	if defaultTopic == message.TBW102 || defaultTopic == "" {
		from = t.defaultTopic()
	}
	if from == nil || from.Perm&permInherit == 0 {
		return nil, refuse(remoting.TopicNotExist, "topic[%s] does not exist and is not created by a send (default topic %q)", name, defaultTopic)
	}
	if queues <= 0 {
		queues = 1
	}
	queues = min(queues, max(from.WriteQueues, 1))
	return t.createTopic(store.Topic{
		Name: strings.Clone(name), ReadQueues: queues, WriteQueues: queues,
		Perm: from.Perm &^ permInherit, FilterType: from.FilterType,
	})
}

// recordRetry returns a group's retry topic, recorded. It may block.
func (t *tables) recordRetry(g *store.Group) (*store.Topic, error) {
	name := message.RetryTopic(g.Name)
	if topic := t.topic(name); topic != nil {
		return topic, nil
	}
	return t.createTopic(*retryTopic(g))
}

// recordDLQ returns a group's dead-letter topic, recorded: readable at once,
// one queue. It may block.
func (t *tables) recordDLQ(group string) (*store.Topic, error) {
	name := message.DLQTopic(group)
	if topic := t.topic(name); topic != nil {
		return topic, nil
	}
	return t.createTopic(store.Topic{Name: name, ReadQueues: dlqQueues, WriteQueues: dlqQueues, Perm: permRead | permWrite, FilterType: singleTag})
}

// createTopic stores a topic unless one of that name exists by now.
func (t *tables) createTopic(topic store.Topic) (*store.Topic, error) {
	t.change.Lock()
	defer t.change.Unlock()
	if found := t.topic(topic.Name); found != nil {
		return found, nil
	}
	return t.putTopicLocked(topic)
}

// putTopicLocked stores a topic and shows it. The caller holds change.
func (t *tables) putTopicLocked(topic store.Topic) (*store.Topic, error) {
	if err := t.store.PutTopic(topic); err != nil {
		return nil, fmt.Errorf("topic[%s]: %w", topic.Name, err)
	}
	if found, ok := t.store.Topic(topic.Name); ok {
		topic = found
	}
	t.mu.Lock()
	t.topics[topic.Name] = &topic
	t.mu.Unlock()
	t.topicsChanged()
	return &topic, nil
}

// updateTopic creates or changes a topic: change is given a copy of what
// exists, or the zero Topic. It may block.
func (t *tables) updateTopic(name string, change func(*store.Topic)) error {
	t.change.Lock()
	defer t.change.Unlock()
	topic := store.Topic{Name: strings.Clone(name)}
	if old := t.topic(name); old != nil {
		topic = *old
		topic.Attributes = maps.Clone(old.Attributes)
	}
	change(&topic)
	_, err := t.putTopicLocked(topic)
	return err
}

// deleteTopic removes a topic with its queues; nil when there is none.
func (t *tables) deleteTopic(name string) error {
	t.change.Lock()
	defer t.change.Unlock()
	if t.topic(name) == nil {
		return nil
	}
	if err := t.store.DeleteTopic(name); err != nil {
		return fmt.Errorf("topic[%s]: %w", name, err)
	}
	t.mu.Lock()
	delete(t.topics, name)
	t.mu.Unlock()
	t.topicsChanged()
	return nil
}

// topicsChanged tells of a change. The caller holds change.
func (t *tables) topicsChanged() {
	t.version.Add(1)
	if t.onChange != nil {
		t.onChange()
	}
}

// names returns the names of all topics that exist.
func (t *tables) topicNames() []string {
	list := t.store.Topics()
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Name
	}
	return names
}
