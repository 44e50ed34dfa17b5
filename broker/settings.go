package broker

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/magiconair/properties"

	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/store"
)

// settings are the options that can change while the broker runs. A change
// makes a new one; readers take what is in force.
type settings struct {
	autoTopic, autoGroup bool
	autoQueues           int32
	maxMessage           int
	// orderMessage: routes name the order configuration of a topic (updateOrderConf).
	orderMessage bool
}

func (o *Options) settings() *settings {
	return &settings{
		autoTopic: !o.DisableAutoCreateTopic, autoGroup: !o.DisableAutoCreateGroup,
		autoQueues: int32(o.DefaultTopicQueues), maxMessage: o.MaxMessageSize, orderMessage: true,
	}
}

// liveSettings are the settings in force.
type liveSettings struct {
	atomic.Pointer[settings]
	change sync.Mutex // one change at a time
}

// configKey is one key of RocketMQ's that shows in GET_BROKER_CONFIG or
// GET_NAMESRV_CONFIG.
type configKey struct {
	name string
	// namesrv: of the name server's configuration, not the broker's.
	namesrv bool
	// get returns the value in force; c is who asks.
	get func(b *Broker, c *conn) string
	// set puts a value into s; nil for what needs a new start. The error says
	// what is allowed.
	set func(s *settings, value string) error
}

var configKeys = []configKey{
	{name: "autoCreateSubscriptionGroup",
		get: func(b *Broker, _ *conn) string { return strconv.FormatBool(b.settings.Load().autoGroup) },
		set: func(s *settings, v string) error { return setBool(&s.autoGroup, v) }},
	{name: "autoCreateTopicEnable",
		get: func(b *Broker, _ *conn) string { return strconv.FormatBool(b.settings.Load().autoTopic) },
		set: func(s *settings, v string) error { return setBool(&s.autoTopic, v) }},
	{name: "brokerClusterName", get: func(b *Broker, _ *conn) string { return b.opts.ClusterName }},
	{name: "brokerId", get: func(b *Broker, _ *conn) string { return b.brokerIDText }},
	{name: "brokerIP1", get: func(_ *Broker, c *conn) string { return c.host.Addr().String() }},
	{name: "brokerName", get: func(b *Broker, _ *conn) string { return b.opts.BrokerName }},
	{name: "brokerPermission", get: func(*Broker, *conn) string { return strconv.Itoa(permRead | permWrite) }},
	{name: "brokerRole", get: func(*Broker, *conn) string { return "ASYNC_MASTER" }},
	{name: "defaultTopicQueueNums",
		get: func(b *Broker, _ *conn) string { return strconv.Itoa(int(b.settings.Load().autoQueues)) },
		set: func(s *settings, v string) error {
			n, err := intWithin(v, 1, maxQueues)
			s.autoQueues = int32(n)
			return err
		}},
	{name: "enablePropertyFilter", get: func(*Broker, *conn) string { return "true" }},
	{name: "flushDiskType", get: func(b *Broker, _ *conn) string {
		if b.opts.Flush == AsyncFlush {
			return store.AsyncFlush.String()
		}
		return store.SyncFlush.String()
	}},
	{name: "listenPort", get: func(_ *Broker, c *conn) string { return strconv.Itoa(int(c.host.Port())) }},
	{name: "maxMessageSize",
		get: func(b *Broker, _ *conn) string { return strconv.Itoa(b.settings.Load().maxMessage) },
		set: func(s *settings, v string) (err error) {
			s.maxMessage, err = intWithin(v, 1, maxMessageSizeLimit)
			return err
		}},
	{name: "messageDelayLevel", get: func(b *Broker, _ *conn) string { return b.levels.String() }},
	{name: "namesrvAddr", get: func(b *Broker, _ *conn) string { return strings.Join(b.opts.NameServers, ";") }},
	{name: "serverChannelMaxIdleTimeSeconds", get: func(b *Broker, _ *conn) string { return strconv.Itoa(int(b.opts.IdleTimeout.Seconds())) }},
	{name: "storePathRootDir", get: func(b *Broker, _ *conn) string { return b.opts.Dir }},

	{name: "listenPort", namesrv: true, get: func(_ *Broker, c *conn) string { return strconv.Itoa(int(c.host.Port())) }},
	{name: "orderMessageEnable", namesrv: true,
		get: func(b *Broker, _ *conn) string { return strconv.FormatBool(b.settings.Load().orderMessage) },
		set: func(s *settings, v string) error { return setBool(&s.orderMessage, v) }},
}

func setBool(to *bool, v string) error {
	switch strings.ToLower(v) {
	case "true":
		*to = true
	case "false":
		*to = false
	default:
		return fmt.Errorf("true and false are allowed")
	}
	return nil
}

func intWithin(v string, lo, hi int) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil || n < lo || n > hi {
		return 0, fmt.Errorf("%d to %d is allowed", lo, hi)
	}
	return n, nil
}

func findConfigKey(name string, namesrv bool) *configKey {
	for i := range configKeys {
		if k := &configKeys[i]; k.name == name && k.namesrv == namesrv {
			return k
		}
	}
	return nil
}

// changedNamespace is where changed settings are kept in the store, by key.
const changedNamespace = "tidemq.settings"

// changedSetting is the value of an entry there. It counts for as long as the
// configuration that the broker starts with says what it said when the setting
// was changed: of file, flag and change the last one wins.
type changedSetting struct {
	Value string `json:"value"`
	Over  string `json:"over"`
}

func (k *configKey) storedName() string {
	if k.namesrv {
		return "namesrv." + k.name
	}
	return k.name
}

// loadSettings puts what was changed before this start over the options.
func (b *Broker) loadSettings() {
	s := *b.settings.Load()
	changed := b.store.KVConfigs(changedNamespace)
	for i := range configKeys {
		k := &configKeys[i]
		text, ok := changed[k.storedName()]
		if !ok || k.set == nil {
			continue
		}
		var c changedSetting
		if json.Unmarshal([]byte(text), &c) != nil {
			continue
		}
		if configured := k.get(b, nil); configured != c.Over {
			b.log.Info("setting was changed while the broker ran, but the configuration was changed since", "key", k.name, "in force", configured, "passed over", c.Value)
			continue
		}
		if err := k.set(&s, c.Value); err != nil {
			b.log.Warn("changed setting cannot be used", "key", k.name, "value", c.Value, "error", err)
			continue
		}
		b.log.Info("setting was changed while the broker ran", "key", k.name, "value", c.Value, "configured", c.Over)
	}
	b.settings.Store(&s)
}

// configText writes what is in force, as lines of key=value.
func (b *Broker) configText(c *conn, namesrv bool) []byte {
	var text strings.Builder
	for i := range configKeys {
		if k := &configKeys[i]; k.namesrv == namesrv {
			fmt.Fprintf(&text, "%s=%s\n", k.name, k.get(b, c))
		}
	}
	return []byte(text.String())
}

// updateConfig changes settings as a body of key=value lines says: all of them
// or, when one is refused, none. It is durable when it returns.
func (b *Broker) updateConfig(c *conn, body []byte, namesrv bool) error {
	if len(body) > maxJSONBody {
		return refuse(remoting.InvalidParameter, "body is %d bytes, at most %d are allowed", len(body), maxJSONBody)
	}
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := loader.LoadBytes(body)
	if err != nil {
		return refuse(remoting.InvalidParameter, "body is not in key=value format: %v", err)
	}
	if p.Len() == 0 {
		return refuse(remoting.InvalidParameter, "body names no key")
	}
	b.settings.change.Lock()
	defer b.settings.change.Unlock()
	s := *b.settings.Load()
	changed := make(map[*configKey]string)
	for _, name := range slices.Sorted(slices.Values(p.Keys())) {
		value := strings.TrimSpace(p.GetString(name, ""))
		k := findConfigKey(name, namesrv)
		switch {
		case k == nil:
			return refuse(remoting.InvalidParameter, "%s=%.200s: there is no such key here; changed while the broker runs can be: %s", name, value, changeable(namesrv))
		case k.get(b, c) == value:
			continue
		case k.set == nil:
			return refuse(remoting.NoPermission, "%s=%.200s: cannot be changed while the broker runs, %s is in force; change the configuration and start again", name, value, k.get(b, c))
		}
		if err := k.set(&s, value); err != nil {
			return refuse(remoting.InvalidParameter, "%s=%.200s: %v", name, value, err)
		}
		changed[k] = value
	}
	for k, value := range changed {
		if err := b.storeSetting(k, value); err != nil {
			return err
		}
		b.log.Info("setting changed", "key", k.name, "from", k.get(b, c), "to", value, "by", c.remote)
	}
	b.settings.Store(&s)
	// Whether there is a topic to create others from is a matter of routes, too.
	b.tables.change.Lock()
	b.tables.topicsChanged()
	b.tables.change.Unlock()
	return nil
}

// storeSetting keeps a changed setting, or forgets it when it is again what
// the broker was started with.
func (b *Broker) storeSetting(k *configKey, value string) error {
	over := b.configured[k.storedName()]
	if value == over {
		_, err := b.store.DeleteKVConfig(changedNamespace, k.storedName())
		return err
	}
	text, err := json.Marshal(changedSetting{Value: value, Over: over})
	if err != nil {
		return err
	}
	return b.store.PutKVConfig(changedNamespace, k.storedName(), string(text))
}

// configuredSettings returns what the options alone say of every key that can
// change.
func (b *Broker) configuredSettings() map[string]string {
	m := make(map[string]string)
	for i := range configKeys {
		if k := &configKeys[i]; k.set != nil {
			m[k.storedName()] = k.get(b, nil)
		}
	}
	return m
}

// changeable lists the keys that updateConfig takes.
func changeable(namesrv bool) string {
	names := make(map[string]bool)
	for i := range configKeys {
		if k := &configKeys[i]; k.set != nil && k.namesrv == namesrv {
			names[k.name] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}

// brokerConfig serves GET_BROKER_CONFIG: what is in force, as lines of
// RocketMQ's keys.
func brokerConfig(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	version, err := json.Marshal(dataVersion{Timestamp: b.started.UnixMilli()})
	if err != nil {
		return err
	}
	resp := req.Reply(remoting.Success, "")
	resp.Fields.Set("version", string(version))
	resp.Body = b.configText(c, false)
	c.reply(req, resp)
	return nil
}

// updateBrokerConfig serves UPDATE_BROKER_CONFIG.
func updateBrokerConfig(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	if err := b.updateConfig(c, req.Body, false); err != nil {
		return err
	}
	c.reply(req, req.Reply(remoting.Success, ""))
	return nil
}
