package client

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/tidemq/tidemq/internal/message"
)

// Dialer makes a connection to addr ("host:port"). net.Dialer.DialContext is
// one; a tls.Dialer's too.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// Option changes a default of [New].
type Option func(*config) error

type config struct {
	clientID       string
	dial           Dialer
	log            *slog.Logger
	requestTimeout time.Duration
	heartbeat      time.Duration
	routeRefresh   time.Duration
	defaultQueues  int
}

func defaultConfig() config {
	return config{
		dial:           (&net.Dialer{Timeout: 3 * time.Second}).DialContext,
		log:            slog.New(slog.DiscardHandler),
		requestTimeout: 3 * time.Second,
		heartbeat:      30 * time.Second,
		routeRefresh:   30 * time.Second,
		defaultQueues:  4,
	}
}

// WithClientID names the client towards brokers: 1 to 200 printable ASCII
// characters without spaces, unique among the members of a group. The default
// is address, process id and a random number, like RocketMQ's "ip@name".
func WithClientID(id string) Option {
	return func(c *config) error {
		for i := range len(id) {
			if id[i] <= ' ' || id[i] > '~' {
				return optionError("WithClientID", fmt.Sprintf("%q", id), "printable ASCII without spaces")
			}
		}
		if id == "" || len(id) > 200 {
			return optionError("WithClientID", fmt.Sprintf("%q", id), "1 to 200 characters")
		}
		c.clientID = id
		return nil
	}
}

// WithDialer makes connections by dial: for TLS, proxies or tests. The default
// is a net.Dialer with a timeout of 3 s.
func WithDialer(dial Dialer) Option {
	return func(c *config) error {
		if dial == nil {
			return optionError("WithDialer", "nil", "a function")
		}
		c.dial = dial
		return nil
	}
}

// WithLogger writes what goes on in the background – reconnects, rebalances,
// failed commits – to log. The default discards it.
func WithLogger(log *slog.Logger) Option {
	return func(c *config) error {
		if log == nil {
			return optionError("WithLogger", "nil", "a logger")
		}
		c.log = log
		return nil
	}
}

// WithRequestTimeout is how long one request may take, when the caller's
// context does not end sooner; a send with retries makes several. Default 3 s,
// from 1 ms to 1 h. Long polls add the time they ask the broker to wait.
func WithRequestTimeout(d time.Duration) Option {
	return duration("WithRequestTimeout", d, time.Millisecond, time.Hour, func(c *config) { c.requestTimeout = d })
}

// WithHeartbeat is the interval of heartbeats to every broker in use. Default
// 30 s, from 1 s to 100 s: brokers forget a silent client after 120 s.
func WithHeartbeat(d time.Duration) Option {
	return duration("WithHeartbeat", d, time.Second, 100*time.Second, func(c *config) { c.heartbeat = d })
}

// WithRouteRefresh is how old the known queues of a topic in use may get before
// they are asked for again; a failed request asks at once. Default 30 s, from
// 100 ms to 1 h.
func WithRouteRefresh(d time.Duration) Option {
	return duration("WithRouteRefresh", d, 100*time.Millisecond, time.Hour, func(c *config) { c.routeRefresh = d })
}

// WithDefaultQueues is how many queues a topic gets that is created by the
// first send to it, where the broker allows that; it may give fewer. Default
// 4, as RocketMQ's producers, from 1 to 65 535.
func WithDefaultQueues(n int) Option {
	return func(c *config) error {
		if n < 1 || n > 65535 {
			return optionError("WithDefaultQueues", n, "1 to 65535")
		}
		c.defaultQueues = n
		return nil
	}
}

func duration(name string, d, low, high time.Duration, set func(*config)) Option {
	return func(c *config) error {
		if d < low || d > high {
			return optionError(name, d, fmt.Sprintf("%v to %v", low, high))
		}
		set(c)
		return nil
	}
}

// ProducerOption changes a default of [Client.NewProducer].
type ProducerOption func(*producerConfig) error

type producerConfig struct {
	group          string
	retries        int
	selector       Selector
	compression    Compression
	compressOver   int
	maxMessageSize int
	maxInFlight    int
}

func defaultProducerConfig() producerConfig {
	return producerConfig{
		group:          "TIDEMQ_PRODUCER",
		retries:        2,
		compression:    Zlib,
		compressOver:   4096,
		maxMessageSize: 4 << 20,
		maxInFlight:    1024,
	}
}

// WithProducerGroup names the group the producer belongs to, 1 to 120 bytes of
// a topic's characters. Brokers use it to find producers of transactions; for
// other messages it only shows in their tables. Default "TIDEMQ_PRODUCER".
func WithProducerGroup(group string) ProducerOption {
	return func(c *producerConfig) error {
		if err := message.ValidateGroup(group); err != nil {
			return fmt.Errorf("%w: WithProducerGroup: %w", ErrInvalidOption, err)
		}
		c.group = group
		return nil
	}
}

// WithRetries is how many further attempts a failed send gets, each at another
// queue and broker where there is one. Default 2, from 0 to 100. An attempt
// whose answer was lost may have stored the message: with retries it can be
// stored more than once.
func WithRetries(n int) ProducerOption {
	return func(c *producerConfig) error {
		if n < 0 || n > 100 {
			return optionError("WithRetries", n, "0 to 100")
		}
		c.retries = n
		return nil
	}
}

// WithSelector chooses the queue of messages without a ShardingKey. Default
// [RoundRobin].
func WithSelector(s Selector) ProducerOption {
	return func(c *producerConfig) error {
		if s == nil {
			return optionError("WithSelector", "nil", "a selector")
		}
		c.selector = s
		return nil
	}
}

// WithCompression compresses bodies of at least size bytes by kind, where that
// makes them smaller. Default Zlib from 4096 on; size from 1 to 1 GiB.
// RocketMQ's clients before 5.0 read only Zlib. Batches are not compressed.
func WithCompression(kind Compression, size int) ProducerOption {
	return func(c *producerConfig) error {
		if kind < Zlib || kind > NoCompression {
			return optionError("WithCompression", kind, "Zlib, LZ4, Zstd or NoCompression")
		}
		if size < 1 || size > 1<<30 {
			return optionError("WithCompression", size, "1 to 1073741824 bytes")
		}
		c.compression, c.compressOver = kind, size
		return nil
	}
}

// WithMaxMessageSize is the largest body the producer takes, in bytes before
// compression. Default 4 MiB, from 1 to 15 MiB. The broker has a limit of its
// own, 4 MiB by default.
func WithMaxMessageSize(n int) ProducerOption {
	return func(c *producerConfig) error {
		if n < 1 || n > 15<<20 {
			return optionError("WithMaxMessageSize", n, "1 to 15728640 bytes")
		}
		c.maxMessageSize = n
		return nil
	}
}

// WithMaxInFlight is how many sends of SendAsync may wait for their answers;
// further ones wait before they are sent. Default 1024, from 1 to 1 000 000.
func WithMaxInFlight(n int) ProducerOption {
	return func(c *producerConfig) error {
		if n < 1 || n > 1_000_000 {
			return optionError("WithMaxInFlight", n, "1 to 1000000")
		}
		c.maxInFlight = n
		return nil
	}
}

// ConsumerOption changes a default of [Client.NewPushConsumer].
type ConsumerOption func(*consumerConfig) error

type consumerConfig struct {
	subscriptions map[string]subscription
	from          startAt
	orderly       bool
	broadcast     bool
	offsetFile    string
	concurrency   int
	maxReconsume  int // -1: RocketMQ's default for the mode
	batch         int
	poll          time.Duration
	maxCached     int
	maxCachedSize int
	maxSpan       int64
	commitEvery   time.Duration
	rebalance     time.Duration
	suspend       time.Duration
}

func defaultConsumerConfig() consumerConfig {
	return consumerConfig{
		subscriptions: map[string]subscription{},
		concurrency:   20,
		maxReconsume:  -1,
		batch:         32,
		poll:          15 * time.Second,
		maxCached:     1000,
		maxCachedSize: 100 << 20,
		maxSpan:       2000,
		commitEvery:   5 * time.Second,
		rebalance:     20 * time.Second,
		suspend:       time.Second,
	}
}

// WithSubscription subscribes to a topic; it may be given for several topics.
// tags selects messages by tag: "*" or "" takes all, "a || b" those tagged a
// or b. All members of a group must have the same subscriptions, or messages
// are missed.
func WithSubscription(topic, tags string) ConsumerOption {
	return func(c *consumerConfig) error {
		if err := message.ValidateTopic(topic); err != nil {
			return fmt.Errorf("%w: WithSubscription: %w", ErrInvalidOption, err)
		}
		s, err := parseTags(tags)
		if err != nil {
			return fmt.Errorf("%w: WithSubscription(%q): %w", ErrInvalidOption, topic, err)
		}
		c.subscriptions[topic] = s
		return nil
	}
}

// WithSQLSubscription subscribes to a topic's messages whose properties match
// an SQL92 expression ("region = 'eu' AND price BETWEEN 5 AND 10"), which the
// broker evaluates. A wrong expression shows when the consumer pulls: the
// broker's code 23, in the log. It may be given for several topics; all
// members of a group must have the same subscriptions.
func WithSQLSubscription(topic, expression string) ConsumerOption {
	return func(c *consumerConfig) error {
		if err := message.ValidateTopic(topic); err != nil {
			return fmt.Errorf("%w: WithSQLSubscription: %w", ErrInvalidOption, err)
		}
		if strings.TrimSpace(expression) == "" {
			return fmt.Errorf("%w: WithSQLSubscription(%q): the expression is empty", ErrInvalidOption, topic)
		}
		c.subscriptions[topic] = subscription{kind: sqlFilter, expr: expression}
		return nil
	}
}

// WithConsumeFromFirst lets a group that has no committed offset in a queue
// start at the queue's first message. Without it the group starts behind the
// last one, and only in topics that appear later at the first.
func WithConsumeFromFirst() ConsumerOption {
	return func(c *consumerConfig) error {
		c.from = startAt{where: fromFirst}
		return nil
	}
}

// WithConsumeFromTime lets a group that has no committed offset in a queue
// start at the first message stored at t or later. The default is the end.
func WithConsumeFromTime(t time.Time) ConsumerOption {
	return func(c *consumerConfig) error {
		if t.IsZero() || t.UnixMilli() < 0 {
			return optionError("WithConsumeFromTime", t, "1970 or later")
		}
		c.from = startAt{where: fromTime, time: t}
		return nil
	}
}

// WithOrderly hands over the messages of a queue one after the other, in queue
// order, the next only when the one before succeeded. The consumer locks its
// queues at the broker. Default: as many at a time as WithConcurrency says,
// in any order.
func WithOrderly() ConsumerOption {
	return func(c *consumerConfig) error {
		c.orderly = true
		return nil
	}
}

// WithBroadcast hands every message to every member of the group instead of to
// one of them. Offsets are kept in file, written with every commit; with ""
// they are not kept, and each start begins where WithConsumeFrom… says. Failed
// messages are not retried, as in RocketMQ.
func WithBroadcast(file string) ConsumerOption {
	return func(c *consumerConfig) error {
		c.broadcast, c.offsetFile = true, file
		return nil
	}
}

// WithConcurrency is how many handlers run at a time. Default 20, as RocketMQ's
// consumers, from 1 to 10 000.
func WithConcurrency(n int) ConsumerOption {
	return func(c *consumerConfig) error {
		if n < 1 || n > 10_000 {
			return optionError("WithConcurrency", n, "1 to 10000")
		}
		c.concurrency = n
		return nil
	}
}

// WithMaxReconsumeTimes is how often a message is retried before it goes to
// %DLQ%group: 0 to 1 000 000. Default 16; in orderly consumers without end.
func WithMaxReconsumeTimes(n int) ConsumerOption {
	return func(c *consumerConfig) error {
		if n < 0 || n > 1_000_000 {
			return optionError("WithMaxReconsumeTimes", n, "0 to 1000000")
		}
		c.maxReconsume = n
		return nil
	}
}

// WithPullBatch is how many messages one pull asks for. Default 32, from 1 to
// 1024; brokers give at most 32 by default.
func WithPullBatch(n int) ConsumerOption {
	return func(c *consumerConfig) error {
		if n < 1 || n > 1024 {
			return optionError("WithPullBatch", n, "1 to 1024")
		}
		c.batch = n
		return nil
	}
}

// WithLongPolling is how long the broker holds a pull that finds nothing.
// Default 15 s, from 1 s to 60 s.
func WithLongPolling(d time.Duration) ConsumerOption {
	return consumerDuration("WithLongPolling", d, time.Second, time.Minute, func(c *consumerConfig) { c.poll = d })
}

// WithQueueLimits bounds what is pulled from one queue and not yet consumed:
// messages, default 1000, from 1 to 65 535; and bytes of bodies, default
// 100 MiB, from 1 MiB to 1 GiB. Pulling pauses above.
func WithQueueLimits(messages, bytes int) ConsumerOption {
	return func(c *consumerConfig) error {
		if messages < 1 || messages > 65535 {
			return optionError("WithQueueLimits", messages, "1 to 65535 messages")
		}
		if bytes < 1<<20 || bytes > 1<<30 {
			return optionError("WithQueueLimits", bytes, "1048576 to 1073741824 bytes")
		}
		c.maxCached, c.maxCachedSize = messages, bytes
		return nil
	}
}

// WithCommitInterval is how often consumed offsets are committed; closing and
// losing a queue commit too. Default 5 s, from 10 ms to 1 min. After a crash
// what was consumed since the last commit comes again.
func WithCommitInterval(d time.Duration) ConsumerOption {
	return consumerDuration("WithCommitInterval", d, 10*time.Millisecond, time.Minute, func(c *consumerConfig) { c.commitEvery = d })
}

// WithRebalanceInterval is how often the group's queues are divided anew when
// no broker says that members changed. Default 20 s, from 100 ms to 10 min.
func WithRebalanceInterval(d time.Duration) ConsumerOption {
	return consumerDuration("WithRebalanceInterval", d, 100*time.Millisecond, 10*time.Minute, func(c *consumerConfig) { c.rebalance = d })
}

// WithSuspend is how long an orderly consumer waits before it hands over a
// failed message again. Default 1 s, from 10 ms to 30 s.
func WithSuspend(d time.Duration) ConsumerOption {
	return consumerDuration("WithSuspend", d, 10*time.Millisecond, 30*time.Second, func(c *consumerConfig) { c.suspend = d })
}

func consumerDuration(name string, d, low, high time.Duration, set func(*consumerConfig)) ConsumerOption {
	return func(c *consumerConfig) error {
		if d < low || d > high {
			return optionError(name, d, fmt.Sprintf("%v to %v", low, high))
		}
		set(c)
		return nil
	}
}
