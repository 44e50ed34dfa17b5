package broker

import (
	"fmt"
	"strings"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/store"
)

// Defaults of a group, as RocketMQ `SubscriptionGroupConfig`.
const (
	defaultRetryQueues = 1
	defaultRetryTimes  = 16
	// slowBroker is the broker that a group reads from when it lags, in
	// RocketMQ's words; nothing here acts on it.
	slowBroker = 1
)

func defaultGroup(name string) *store.Group {
	return &store.Group{
		Name:                 name,
		ConsumeEnable:        true,
		ConsumeFromMinEnable: true,
		BroadcastEnable:      true,
		RetryQueues:          defaultRetryQueues,
		RetryMaxTimes:        defaultRetryTimes,
		WhichBrokerWhenSlow:  slowBroker,
		NotifyChange:         true,
	}
}

// group returns a consumer group that exists, nil otherwise.
func (t *tables) group(name string) *store.Group {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.groups[name]
}

// useGroup returns a group, created when this is its first use. Creating may
// block; without mayBlock, errApart says that it has to.
func (t *tables) useGroup(name string, mayBlock bool) (*store.Group, error) {
	if g := t.group(name); g != nil {
		return g, nil
	}
	if err := message.ValidateGroup(name); err != nil {
		return nil, refuse(remoting.InvalidParameter, "%v", err)
	}
	if !t.autoGroup() {
		return nil, refuse(remoting.SubscriptionGroupNotExist, "subscription group [%s] does not exist and is not created by its first use", name)
	}
	if !mayBlock {
		return nil, errApart
	}
	t.change.Lock()
	defer t.change.Unlock()
	if g := t.group(name); g != nil {
		return g, nil
	}
	return t.putGroupLocked(*defaultGroup(strings.Clone(name)))
}

// putGroup creates or changes a group. It may block.
func (t *tables) putGroup(g store.Group) error {
	t.change.Lock()
	defer t.change.Unlock()
	_, err := t.putGroupLocked(g)
	return err
}

func (t *tables) putGroupLocked(g store.Group) (*store.Group, error) {
	if err := t.store.PutGroup(g); err != nil {
		return nil, fmt.Errorf("group [%s]: %w", g.Name, err)
	}
	if found, ok := t.store.Group(g.Name); ok {
		g = found
	}
	t.mu.Lock()
	t.groups[g.Name] = &g
	t.mu.Unlock()
	return &g, nil
}

// deleteGroup removes a group with its offsets; nil when there is none.
func (t *tables) deleteGroup(name string) error {
	t.change.Lock()
	defer t.change.Unlock()
	if t.group(name) == nil {
		return nil
	}
	if err := t.store.DeleteGroup(name); err != nil {
		return fmt.Errorf("group [%s]: %w", name, err)
	}
	t.mu.Lock()
	delete(t.groups, name)
	t.mu.Unlock()
	return nil
}
