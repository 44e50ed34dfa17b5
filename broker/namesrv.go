package broker

import (
	"errors"
	"strconv"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/store"
)

// What tools ask of a name server besides routes, as RocketMQ
// `DefaultRequestProcessor` of the name server answers it.

// orderNamespace holds, by topic, which brokers and queues an ordered topic
// has ("broker-a:4;broker-b:4"); routes hand it to clients.
const orderNamespace = "ORDER_TOPIC_CONFIG"

// kvFields reads the fields that name a configuration value. The broker's own
// namespace is nobody else's.
func kvFields(f remoting.Fields) (namespace, key string, err error) {
	if namespace, err = kvNamespace(f); err != nil {
		return
	}
	key, err = f.Require("key")
	return
}

func kvNamespace(f remoting.Fields) (string, error) {
	namespace, err := f.Require("namespace")
	if err == nil && namespace == changedNamespace {
		err = refuse(remoting.NoPermission, "namespace %s is the broker's own: updateBrokerConfig changes settings", namespace)
	}
	return namespace, err
}

// putKV serves PUT_KV_CONFIG.
func putKV(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	namespace, key, err := kvFields(req.Fields)
	if err != nil {
		return err
	}
	if len(namespace) > store.MaxKVName || len(key) > store.MaxKVName {
		return refuse(remoting.InvalidParameter, "namespace %.40q and key %.40q: names of at most %d bytes are allowed", namespace, key, store.MaxKVName)
	}
	value := req.Fields.Value("value")
	if len(value) > store.MaxKVValue {
		return refuse(remoting.InvalidParameter, "value is %d bytes, at most %d are allowed", len(value), store.MaxKVValue)
	}
	err = b.store.PutKVConfig(namespace, key, value)
	if errors.Is(err, store.ErrTooManyKVs) {
		return refuse(remoting.InvalidParameter, "%v", err)
	}
	if err != nil {
		return err
	}
	c.reply(req, req.Reply(remoting.Success, ""))
	return nil
}

// getKV serves GET_KV_CONFIG.
func getKV(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	namespace, key, err := kvFields(req.Fields)
	if err != nil {
		return err
	}
	value, ok := b.store.KVConfig(namespace, key)
	if !ok {
		return refuse(remoting.QueryNotFound, "No config item, Namespace: %s Key: %s", namespace, key)
	}
	resp := req.Reply(remoting.Success, "")
	resp.Fields.Set("value", value)
	c.reply(req, resp)
	return nil
}

// deleteKV serves DELETE_KV_CONFIG. Deleting what is not there succeeds, as in
// RocketMQ.
func deleteKV(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	namespace, key, err := kvFields(req.Fields)
	if err != nil {
		return err
	}
	if _, err := b.store.DeleteKVConfig(namespace, key); err != nil {
		return err
	}
	c.reply(req, req.Reply(remoting.Success, ""))
	return nil
}

// listKV serves GET_KVLIST_BY_NAMESPACE.
func listKV(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	namespace, err := kvNamespace(req.Fields)
	if err != nil {
		return err
	}
	values := b.store.KVConfigs(namespace)
	if len(values) == 0 {
		return refuse(remoting.QueryNotFound, "No config item, Namespace: %s", namespace)
	}
	return c.replyJSON(req, map[string]any{"table": values})
}

// writePerm serves WIPE_WRITE_PERM_OF_BROKER and ADD_WRITE_PERM_OF_BROKER:
// routes show the broker's topics without, or with, the permission to write,
// so that producers turn elsewhere. As in RocketMQ until the next start, and
// sends that come all the same are taken.
func writePerm(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	name, err := req.Fields.Require("brokerName")
	if err != nil {
		return err
	}
	count := 0
	if name == b.opts.BrokerName {
		count = len(b.tables.topicNames())
		b.wiped.Store(req.Code == remoting.ReqWipeWritePermOfBroker)
		b.log.Info("write permission in routes", "wiped", b.wiped.Load(), "by", c.remote)
	}
	resp := req.Reply(remoting.Success, "")
	key := "addTopicCount"
	if req.Code == remoting.ReqWipeWritePermOfBroker {
		key = "wipeTopicCount"
	}
	resp.Fields.Set(key, strconv.Itoa(count))
	c.reply(req, resp)
	return nil
}

// systemTopics serves GET_SYSTEM_TOPIC_LIST_FROM_NS and
// GET_SYSTEM_TOPIC_LIST_FROM_BROKER. The first lists cluster and broker, which
// are topics in RocketMQ, and names the broker to ask for the others.
func systemTopics(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	if req.Code == remoting.ReqGetSystemTopicListFromNS {
		return c.replyJSON(req, topicList{Topics: []string{b.opts.ClusterName, b.opts.BrokerName}, Addr: c.hostText})
	}
	return c.replyJSON(req, topicList{Topics: message.SystemTopics()})
}

// unitTopics serves the three requests for topics of units, by the bits of
// their system flags: 1 a unit's own, 2 with subscriptions of units.
func unitTopics(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	list := topicList{Topics: []string{}}
	for _, t := range b.store.Topics() {
		unit, sub := t.SysFlag&1 != 0, t.SysFlag&2 != 0
		if req.Code == remoting.ReqGetUnitTopicList && unit ||
			req.Code == remoting.ReqGetHasUnitSubTopicList && sub ||
			req.Code == remoting.ReqGetHasUnitSubUnunitTopicList && sub && !unit {
			list.Topics = append(list.Topics, t.Name)
		}
	}
	return c.replyJSON(req, list)
}

// namesrvConfig serves GET_NAMESRV_CONFIG.
func namesrvConfig(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	resp := req.Reply(remoting.Success, "")
	resp.Body = b.configText(c, true)
	c.reply(req, resp)
	return nil
}

// updateNamesrvConfig serves UPDATE_NAMESRV_CONFIG.
func updateNamesrvConfig(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	if err := b.updateConfig(c, req.Body, true); err != nil {
		return err
	}
	c.reply(req, req.Reply(remoting.Success, ""))
	return nil
}
