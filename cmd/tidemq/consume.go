package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/tidemq/tidemq/client"
)

const (
	// lookGroup is the group that looks at a topic without a group of the
	// user's. It commits nothing.
	lookGroup = "TIDEMQ_CLI"
	// lookAgain is how long it waits after a failed pull or for a topic that
	// does not exist yet.
	lookAgain = 500 * time.Millisecond
	// commitOften is how often a member commits.
	commitOften = 100 * time.Millisecond
	// shownBody is how much of a body a line shows, in bytes.
	shownBody = 400
)

func consumeCommand() *cli.Command {
	return &cli.Command{
		Name:  "consume",
		Usage: "print messages as they arrive",
		Description: `Prints the messages of a topic until it is interrupted, --count are printed or
--timeout is over. With --group it is a member of that consumer group: it shares
the queues with the others, and what it printed is committed. Without a group it
only looks: nothing is committed, nobody's messages are taken.

--from says where to begin in queues in which the group has no offset: first,
last, or ` + timeFormats + `.

Examples:
   tidemq consume --topic orders
   tidemq consume --topic orders --from last --tags 'paid || sent'
   tidemq consume --topic orders --group billing --count 10 --timeout 30s --json`,
		Flags: []cli.Flag{
			addrFlag(), topicFlag("read `TOPIC`"), groupFlag(),
			&cli.StringFlag{Name: "tags", Value: "*", Usage: "only messages with one of these `TAGS`: 'a || b', '*' for all"},
			&cli.StringFlag{Name: "from", Value: "first", Usage: "begin at `PLACE`: first, last or a time"},
			&cli.IntFlag{Name: "count", Aliases: []string{"n"}, Usage: "end after `N` messages", DefaultText: "no end"},
			&cli.DurationFlag{Name: "timeout", Usage: "end after this `TIME`; exit code 1 when --count was not reached", DefaultText: "no end"},
			jsonFlag(),
		},
		Action: consume,
	}
}

// received is what consume prints for a message.
type received struct {
	Topic          string            `json:"topic"`
	Broker         string            `json:"broker"`
	QueueID        int               `json:"queueId"`
	QueueOffset    int64             `json:"queueOffset"`
	MessageID      string            `json:"messageId"`
	OffsetID       string            `json:"offsetId"`
	Tags           string            `json:"tags,omitempty"`
	Keys           []string          `json:"keys,omitempty"`
	Properties     map[string]string `json:"properties,omitempty"`
	ReconsumeTimes int               `json:"reconsumeTimes"`
	BornTime       time.Time         `json:"bornTime"`
	StoreTime      time.Time         `json:"storeTime"`
	// WaitedMs is from the send to this record: for a delayed message its delay
	// and how late it was.
	WaitedMs int64 `json:"waitedMs"`
	// Body is the body if it is text (UTF-8), BodyBase64 if it is not.
	Body       string `json:"body,omitempty"`
	BodyBase64 string `json:"bodyBase64,omitempty"`
	BodyError  string `json:"bodyError,omitempty"`
}

// start is where --from begins.
type start struct {
	first, last bool
	time        time.Time
}

// printer prints messages until there are enough. Safe for concurrent use.
type printer struct {
	c     *cli.Context
	count int // 0: no end
	stop  context.CancelFunc

	mu      sync.Mutex
	printed int
	err     error
	next    map[client.Queue]int64 // offset behind the last one printed
}

// print prints m and reports whether it did: not when there are enough.
func (p *printer) print(m *client.Message) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil || p.count > 0 && p.printed >= p.count {
		return false
	}
	if p.err = printReceived(p.c, m); p.err != nil {
		p.stop()
		return false
	}
	if p.next == nil {
		p.next = map[client.Queue]int64{}
	}
	p.next[m.Queue] = max(p.next[m.Queue], m.QueueOffset+1)
	if p.printed++; p.printed == p.count {
		p.stop()
	}
	return true
}

// enough reports whether all that were asked for are printed.
func (p *printer) enough() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count > 0 && p.printed >= p.count
}

func consume(c *cli.Context) error {
	if err := noArguments(c); err != nil {
		return err
	}
	topic, err := needTopic(c)
	if err != nil {
		return err
	}
	from := start{first: c.String("from") == "first", last: c.String("from") == "last"}
	if !from.first && !from.last {
		if from.time, err = parseTime(c.String("from"), time.Now()); err != nil {
			return usagef("consume: --from: %w; first and last are allowed too", err)
		}
	}
	if c.IsSet("count") && c.Int("count") < 1 {
		return usagef("consume: --count is %d: 1 or more is allowed", c.Int("count"))
	}
	if c.IsSet("timeout") && c.Duration("timeout") <= 0 {
		return usagef("consume: --timeout is %v: a positive time is allowed", c.Duration("timeout"))
	}
	if c.IsSet("group") {
		if _, err := needGroup(c); err != nil {
			return err
		}
	}
	log := slog.New(slog.NewTextHandler(c.App.ErrWriter, &slog.HandlerOptions{Level: slog.LevelWarn}))
	cl, _, closeClient, err := connect(c, client.WithLogger(log))
	if err != nil {
		return err
	}
	defer closeClient()

	ctx, stop := context.WithCancel(c.Context)
	defer stop()
	if c.IsSet("timeout") {
		ctx, stop = context.WithTimeout(ctx, c.Duration("timeout"))
		defer stop()
	}
	p := &printer{c: c, count: c.Int("count"), stop: stop}
	queues, err := awaitTopic(ctx, c, cl, topic)
	if err == nil {
		if c.IsSet("group") {
			if err = beginGroup(ctx, cl, c.String("group"), queues, from); err == nil {
				err = consumeAsMember(ctx, c, cl, topic, p)
			}
		} else {
			err = look(ctx, c, cl, queues, from, p)
		}
	}
	if err != nil && ctx.Err() == nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return p.err
	}
	if p.printed < p.count && c.Context.Err() == nil {
		return fmt.Errorf("%d of %d messages came within %v", p.printed, p.count, c.Duration("timeout"))
	}
	return nil
}

// awaitTopic returns the topic's queues, waiting for the topic to be made.
func awaitTopic(ctx context.Context, c *cli.Context, cl *client.Client, topic string) ([]client.Queue, error) {
	said := false
	for {
		queues, err := cl.Admin().Queues(ctx, topic)
		if !errors.Is(err, client.ErrTopicNotFound) {
			return queues, err
		}
		if !said {
			said = true
			fmt.Fprintf(c.App.ErrWriter, "topic %q does not exist yet, waiting for it\n", topic)
		}
		if !pause(ctx, lookAgain) {
			return nil, ctx.Err()
		}
	}
}

// beginGroup commits where the group begins in queues in which it has no
// offset. Left to the broker, a group that is new to a young topic would begin
// at its first message whatever it asked for, as in RocketMQ.
func beginGroup(ctx context.Context, cl *client.Client, group string, queues []client.Queue, from start) error {
	if from.first {
		return nil
	}
	consumer, err := cl.NewPullConsumer(group)
	if err != nil {
		return err
	}
	defer consumer.Close(ctx)
	for _, q := range queues {
		_, err := consumer.Committed(ctx, q)
		if errors.Is(err, client.ErrOffsetNotFound) {
			var offset int64
			if offset, err = beginAt(ctx, consumer, q, from); err == nil {
				err = consumer.Commit(ctx, q, offset)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// consumeAsMember consumes for a group until ctx ends.
func consumeAsMember(ctx context.Context, c *cli.Context, cl *client.Client, topic string, p *printer) error {
	opts := []client.ConsumerOption{
		client.WithSubscription(topic, c.String("tags")),
		client.WithConcurrency(1),
		client.WithCommitInterval(commitOften),
		client.WithConsumeFromFirst(), // beginGroup saw to the rest
	}
	// A message that is one too many is held until the consumer has gone,
	// which leaves it to the next one.
	handler := func(handling context.Context, m *client.Message) client.Result {
		if !p.print(m) {
			<-handling.Done()
		}
		return client.Success
	}
	consumer, err := cl.NewPushConsumer(ctx, c.String("group"), handler, opts...)
	if err != nil {
		if errors.Is(err, client.ErrInvalidOption) {
			return usagef("consume: %w", err)
		}
		return err
	}
	<-ctx.Done()
	closing, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if p.enough() {
		// A handler may hold a message that is one too many: closing must not
		// wait for it, and so what was printed has to be committed before.
		if err := awaitCommitted(closing, cl.Admin(), c.String("group"), p.next); err != nil {
			fmt.Fprintf(c.App.ErrWriter, "tidemq: not all that was printed is committed: %v\n", err)
		}
		cancel()
	}
	if err := consumer.Close(closing); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("leaving group %s: %w", c.String("group"), err)
	}
	return nil
}

// awaitCommitted waits until the group's offsets are behind what was printed;
// the consumer commits them every commitOften.
func awaitCommitted(ctx context.Context, admin *client.Admin, group string, next map[client.Queue]int64) error {
	topics := map[string]bool{} // a retried message comes from another topic
	for q := range next {
		topics[q.Topic] = true
	}
	for {
		left := len(next)
		for topic := range topics {
			offsets, err := admin.GroupOffsets(ctx, group, topic)
			if err != nil {
				return err
			}
			for _, o := range offsets {
				if want, ok := next[o.Queue]; ok && o.Committed >= want {
					left--
				}
			}
		}
		if left == 0 {
			return nil
		}
		if !pause(ctx, commitOften) {
			return fmt.Errorf("%d queues behind: %w", left, ctx.Err())
		}
	}
}

// look prints the messages of all queues without committing, until ctx ends.
func look(ctx context.Context, c *cli.Context, cl *client.Client, queues []client.Queue, from start, p *printer) error {
	consumer, err := cl.NewPullConsumer(lookGroup)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var readers sync.WaitGroup
	for _, q := range queues {
		readers.Go(func() {
			if err := lookAt(ctx, c, consumer, q, from, p); err != nil {
				cancel(err)
			}
		})
	}
	readers.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// lookAt prints the messages of one queue. It returns an error that trying
// again would not mend.
func lookAt(ctx context.Context, c *cli.Context, consumer *client.PullConsumer, q client.Queue, from start, p *printer) error {
	const batch, hold = 32, 15 * time.Second
	offset, said := int64(-1), false
	for ctx.Err() == nil {
		var r client.PullResult
		var err error
		if offset < 0 {
			offset, err = beginAt(ctx, consumer, q, from)
		}
		if err == nil {
			r, err = consumer.Pull(ctx, q, offset, batch, hold, c.String("tags"))
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, client.ErrInvalidOption):
			return usagef("consume: %w", err)
		case errors.Is(err, client.ErrConnection), errors.Is(err, client.ErrTimeout), errors.Is(err, client.ErrBusy):
			if !said {
				said = true
				fmt.Fprintf(c.App.ErrWriter, "tidemq: %v; trying again\n", err)
			}
			if !pause(ctx, lookAgain) {
				return nil
			}
			continue
		case err != nil:
			return err
		}
		said = false
		for _, m := range r.Messages {
			if !p.print(m) {
				return nil
			}
		}
		offset = r.NextOffset
	}
	return nil
}

func beginAt(ctx context.Context, consumer *client.PullConsumer, q client.Queue, from start) (int64, error) {
	switch {
	case from.first:
		return consumer.MinOffset(ctx, q)
	case from.last:
		return consumer.MaxOffset(ctx, q)
	}
	return consumer.SearchOffset(ctx, q, from.time)
}

// pause waits and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func printReceived(c *cli.Context, m *client.Message) error {
	waited := m.StoreTime.Sub(m.BornTime)
	if c.Bool("json") {
		r := received{
			Topic: m.Topic, Broker: m.Queue.Broker, QueueID: m.Queue.ID, QueueOffset: m.QueueOffset,
			MessageID: m.ID, OffsetID: m.OffsetID, Tags: m.Tags, Keys: m.Keys, Properties: m.Properties, ReconsumeTimes: m.ReconsumeTimes,
			BornTime: m.BornTime.UTC(), StoreTime: m.StoreTime.UTC(), WaitedMs: waited.Milliseconds(),
		}
		if utf8.Valid(m.Body) {
			r.Body = string(m.Body)
		} else {
			r.BodyBase64 = base64.StdEncoding.EncodeToString(m.Body)
		}
		if m.BodyErr != nil {
			r.BodyError = m.BodyErr.Error()
		}
		return printJSONLine(c.App.Writer, r)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  queue %d offset %d", m.StoreTime.Format(timeLayout), m.Queue.ID, m.QueueOffset)
	// Below a second it is the way to the broker, not a delay.
	if waited >= time.Second {
		fmt.Fprintf(&b, "  waited %s", shortDuration(waited.Round(time.Millisecond)))
	}
	if m.Tags != "" {
		fmt.Fprintf(&b, "  tag %s", m.Tags)
	}
	if len(m.Keys) > 0 {
		fmt.Fprintf(&b, "  keys %s", strings.Join(m.Keys, " "))
	}
	if m.ReconsumeTimes > 0 {
		fmt.Fprintf(&b, "  retry %d", m.ReconsumeTimes)
	}
	fmt.Fprintf(&b, "  %s", printable(m.Body, shownBody))
	if m.BodyErr != nil {
		fmt.Fprintf(&b, "  (%v)", m.BodyErr)
	}
	_, err := fmt.Fprintln(c.App.Writer, b.String())
	return err
}
