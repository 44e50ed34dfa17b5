package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

// Admin looks after topics and groups. It belongs to no group, and brokers do
// not count it as anybody's member. Its methods may be called concurrently.
type Admin struct{ client *Client }

// Admin returns the administrator's view of the cluster.
func (c *Client) Admin() *Admin { return &Admin{client: c} }

// Broker is one broker of a cluster.
type Broker struct {
	Cluster string
	Name    string
	// Addrs holds "host:port" by broker id; id 0 is the master.
	Addrs map[int64]string
}

// Master returns the master's address, "" if there is none.
func (b Broker) Master() string { return b.Addrs[masterID] }

// Brokers returns the cluster's brokers by name.
func (a *Admin) Brokers(ctx context.Context) ([]Broker, error) {
	answer, err := a.client.nameServerRequest(ctx, func() *remoting.Command {
		return remoting.NewRequest(remoting.ReqGetBrokerClusterInfo)
	})
	if err != nil {
		return nil, err
	}
	var body struct {
		Brokers map[string]brokerData `json:"brokerAddrTable"`
	}
	if err := unmarshalLenient(answer.Body, &body); err != nil {
		return nil, fmt.Errorf("%w: cluster: %w", ErrBadAnswer, err)
	}
	var out []Broker
	for _, name := range slices.Sorted(maps.Keys(body.Brokers)) {
		b := Broker{Cluster: body.Brokers[name].Cluster, Name: name, Addrs: map[int64]string{}}
		for id, addr := range body.Brokers[name].Addrs {
			var n int64
			if _, err := fmt.Sscan(id, &n); err != nil {
				return nil, fmt.Errorf("%w: cluster: broker id %q", ErrBadAnswer, id)
			}
			b.Addrs[n] = addr
		}
		out = append(out, b)
	}
	return out, nil
}

// masters returns the addresses of all masters.
func (a *Admin) masters(ctx context.Context) ([]string, error) {
	brokers, err := a.Brokers(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, b := range brokers {
		if m := b.Master(); m != "" {
			out = append(out, m)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: no broker is registered", ErrNoQueue)
	}
	return out, nil
}

// TopicConfig describes a topic to create.
type TopicConfig struct {
	// Name is 1 to 127 bytes of letters, digits, '_', '-', '%' and '|'.
	Name string
	// ReadQueues and WriteQueues are how many queues each broker gets; 0 means
	// 8 each, RocketMQ's default for its command. At most 65 535.
	ReadQueues, WriteQueues int
	// ReadOnly and WriteOnly take the other permission away. Neither gives both.
	ReadOnly, WriteOnly bool
	// Ordered marks the topic for consumers that keep order.
	Ordered bool
}

// CreateTopic creates the topic at every master, or changes it there.
func (a *Admin) CreateTopic(ctx context.Context, t TopicConfig) error {
	if err := message.ValidateTopic(t.Name); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidOption, err)
	}
	if t.ReadQueues == 0 {
		t.ReadQueues = 8
	}
	if t.WriteQueues == 0 {
		t.WriteQueues = 8
	}
	for _, n := range []int{t.ReadQueues, t.WriteQueues} {
		if n < 1 || n >= maxQueues {
			return fmt.Errorf("%w: %d queues, want 1 to %d", ErrInvalidOption, n, maxQueues-1)
		}
	}
	perm := permRead | permWrite
	switch {
	case t.ReadOnly && t.WriteOnly:
		return fmt.Errorf("%w: topic %q both read-only and write-only", ErrInvalidOption, t.Name)
	case t.ReadOnly:
		perm = permRead
	case t.WriteOnly:
		perm = permWrite
	}
	return a.eachMaster(ctx, func(addr string) error {
		_, err := a.client.request(ctx, addr, remoting.NewRequest(remoting.ReqUpdateAndCreateTopic,
			remoting.Field{Key: "topic", Value: t.Name},
			remoting.Field{Key: "defaultTopic", Value: message.TBW102},
			remoting.Field{Key: "readQueueNums", Value: itoa(t.ReadQueues)},
			remoting.Field{Key: "writeQueueNums", Value: itoa(t.WriteQueues)},
			remoting.Field{Key: "perm", Value: itoa(perm)},
			remoting.Field{Key: "topicFilterType", Value: "SINGLE_TAG"},
			remoting.Field{Key: "topicSysFlag", Value: "0"},
			remoting.Field{Key: "order", Value: fmt.Sprint(t.Ordered)},
		))
		return err
	})
}

// DeleteTopic deletes the topic and its messages at every master, and makes
// the name servers forget it.
func (a *Admin) DeleteTopic(ctx context.Context, topic string) error {
	field := remoting.Field{Key: "topic", Value: topic}
	err := a.eachMaster(ctx, func(addr string) error {
		_, err := a.client.request(ctx, addr, remoting.NewRequest(remoting.ReqDeleteTopicInBroker, field))
		return err
	})
	if err != nil {
		return err
	}
	var errs []error
	for _, addr := range a.client.nameServers {
		_, err := a.client.request(ctx, addr, remoting.NewRequest(remoting.ReqDeleteTopicInNamesrv, field))
		// A broker that is its own name server has nothing more to forget.
		if err != nil && !errors.Is(err, ErrNotSupported) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (a *Admin) eachMaster(ctx context.Context, f func(addr string) error) error {
	masters, err := a.masters(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, addr := range masters {
		errs = append(errs, f(addr))
	}
	return errors.Join(errs...)
}

// Topics returns the names of all topics, sorted, those of the system and of
// retries included. [ErrNotSupported] if the server keeps no such list.
func (a *Admin) Topics(ctx context.Context) ([]string, error) {
	answer, err := a.client.nameServerRequest(ctx, func() *remoting.Command {
		return remoting.NewRequest(remoting.ReqGetAllTopicListFromNameserver)
	})
	if err != nil {
		return nil, err
	}
	var body struct {
		Topics []string `json:"topicList"`
	}
	if err := unmarshalLenient(answer.Body, &body); err != nil {
		return nil, fmt.Errorf("%w: topics: %w", ErrBadAnswer, err)
	}
	slices.Sort(body.Topics)
	return slices.Compact(body.Topics), nil
}

// Queues returns the topic's queues that may be read, sorted.
func (a *Admin) Queues(ctx context.Context, topic string) ([]Queue, error) {
	r, err := a.client.fetchRoute(ctx, topic)
	if err != nil {
		return nil, err
	}
	return r.readable(), nil
}

// MinOffset returns the offset of the queue's first message.
func (a *Admin) MinOffset(ctx context.Context, q Queue) (int64, error) {
	return a.client.minOffset(ctx, q)
}

// MaxOffset returns the offset one past the queue's last message.
func (a *Admin) MaxOffset(ctx context.Context, q Queue) (int64, error) {
	return a.client.maxOffset(ctx, q)
}

// SearchOffset returns the offset of the first message stored at t or later,
// in ms; the queue's maximum if there is none.
func (a *Admin) SearchOffset(ctx context.Context, q Queue, t time.Time) (int64, error) {
	return a.client.searchOffset(ctx, q, t)
}

// EarliestStoreTime returns when the queue's first message was stored, in ms;
// the zero time for an empty queue.
func (a *Admin) EarliestStoreTime(ctx context.Context, q Queue) (time.Time, error) {
	ms, err := a.client.queueOffset(ctx, remoting.ReqGetEarliestMsgStoreTime, q, "timestamp")
	if err != nil || ms < 0 {
		return time.Time{}, err
	}
	return time.UnixMilli(ms), nil
}

// ConsumerIDs returns the client ids of the group's members on-line, sorted,
// of all brokers. Nobody on-line is an empty list.
func (a *Admin) ConsumerIDs(ctx context.Context, group string) ([]string, error) {
	masters, err := a.masters(ctx)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, addr := range masters {
		ids, err := a.client.consumerIDsAt(ctx, addr, group)
		if err != nil && !errors.Is(err, ErrNoMembers) {
			return nil, err
		}
		all = append(all, ids...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// Reply is an answer to [Admin.Call].
type Reply struct {
	Code   int // 0 is success
	Remark string
	Fields map[string]string
	Body   []byte
}

// Call sends any request to addr ("host:port") and returns the answer. fields
// may be nil. It is for what has no method of its own; codes are RocketMQ's, or
// TideMQ's own. With an answer other than success the error is a
// *[BrokerError], and the reply is returned as well. The answer's body is the
// caller's.
func (a *Admin) Call(ctx context.Context, addr string, code int, fields map[string]string, body []byte) (*Reply, error) {
	if err := validateAddr(addr); err != nil {
		return nil, err
	}
	req := remoting.NewRequest(code)
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		req.Fields = append(req.Fields, remoting.Field{Key: k, Value: fields[k]})
	}
	req.Body = slices.Clone(body)
	answer, err := a.client.roundTrip(ctx, addr, req)
	if err != nil {
		return nil, err
	}
	r := &Reply{Code: answer.Code, Remark: strings.Clone(answer.Remark), Fields: map[string]string{}, Body: answer.Body}
	for _, f := range answer.Fields {
		r.Fields[strings.Clone(f.Key)] = strings.Clone(f.Value)
	}
	return r, brokerError(addr, code, answer)
}
