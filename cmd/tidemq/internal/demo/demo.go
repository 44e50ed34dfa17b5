package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemq/tidemq/client"
	"github.com/tidemq/tidemq/internal/remoting"
)

const (
	// DefaultMessages and MinMessages: how many are sent when nothing else is
	// said, and how many there must be for many to be pending at the kill.
	DefaultMessages = 3000
	MinMessages     = 2500
	MaxMessages     = 50_000

	// minPending is what must be pending at the kill.
	minPending = 1000
	// spread is how long sending takes, so that each level is in delivery for
	// about that long.
	spread = 1200 * time.Millisecond
	// down is how long the broker stays away: until messages came due, and then
	// some.
	down = 2 * time.Second
	// limit bounds everything up to the count.
	limit = 26 * time.Second
	// grace is how long after the last due time an arrival is waited for.
	grace = 5 * time.Second
	// countLimit bounds the count.
	countLimit = 3 * time.Second
	// redraw is how often arrivals are shown.
	redraw = 250 * time.Millisecond
)

// Options of Run.
type Options struct {
	// Binary is the tidemq program that serves.
	Binary string
	// Out receives what a person reads; Color uses ANSI colours in it.
	Out   io.Writer
	Color bool
	// Messages is how many are sent, MinMessages to MaxMessages.
	Messages int
	// Keep leaves the broker's folder, and says where it is.
	Keep bool
}

// run is one demo on its way.
type run struct {
	opts   Options
	screen screen
	began  time.Time

	dir     string
	config  string
	log     *os.File
	process *process
	client  *client.Client

	addr     string
	consumer *client.PullConsumer
	queues   []client.Queue
	watcher  *watcher
	sent     map[int]*outgoing
	down     outage
}

// Run shows the demo and counts. It starts and ends its own broker and removes
// its folder, also when ctx ends early. An error means that the demo could not
// be shown to its end; broken promises are in the report.
func Run(ctx context.Context, opts Options) (report Report, err error) {
	if opts.Messages < MinMessages || opts.Messages > MaxMessages {
		return Report{}, fmt.Errorf("demo: %d messages: %d to %d are allowed", opts.Messages, MinMessages, MaxMessages)
	}
	r := &run{opts: opts, screen: screen{out: opts.Out, color: opts.Color}, began: time.Now(), sent: map[int]*outgoing{}}
	ctx, cancel := context.WithTimeoutCause(ctx, limit+countLimit, errors.New("the demo took too long"))
	defer cancel()
	defer func() {
		if cerr := r.cleanUp(err != nil); err == nil {
			err = cerr
		}
	}()
	if err := r.setUp(ctx); err != nil {
		return Report{}, err
	}
	return r.show(ctx)
}

// setUp makes the folder and starts the broker and a client.
func (r *run) setUp(ctx context.Context) error {
	var err error
	if r.dir, err = os.MkdirTemp("", "tidemq-demo-"); err != nil {
		return err
	}
	words := make([]string, len(lengths))
	names := make([]string, len(lengths))
	for i, d := range lengths {
		words[i] = d.String()
		names[i] = fmt.Sprintf("%d = %s", i+1, d)
	}
	r.config = filepath.Join(r.dir, "broker.conf")
	conf := "brokerName=demo\nflushDiskType=SYNC_FLUSH\nmessageDelayLevel=" + strings.Join(words, " ") + "\n"
	if err := os.WriteFile(r.config, []byte(conf), 0o600); err != nil {
		return err
	}
	if r.log, err = os.OpenFile(filepath.Join(r.dir, "broker.log"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600); err != nil {
		return err
	}
	if r.process, err = r.serve(ctx, "127.0.0.1:0"); err != nil {
		return err
	}
	r.addr = r.process.addr
	r.screen.printf("%s\n\n", r.screen.paint(bold, fmt.Sprintf("%s delayed messages through a kill -9", grouped(r.opts.Messages))))
	r.screen.printf("   broker   process %d on %s, data in %s\n", r.process.pid(), r.addr, r.dir)
	r.screen.printf("   levels   %s\n", strings.Join(names, "   "))
	r.screen.printf("   flush    sync: a send is answered when it is on disk\n\n")

	if r.client, err = client.New([]string{r.addr}); err != nil {
		return err
	}
	if err := r.client.Admin().CreateTopic(ctx, client.TopicConfig{Name: topic, ReadQueues: queues, WriteQueues: queues}); err != nil {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	if r.consumer, err = r.client.NewPullConsumer("demo_reader"); err != nil {
		return err
	}
	r.queues, err = r.consumer.Queues(ctx, topic)
	return err
}

func (r *run) serve(ctx context.Context, addr string) (*process, error) {
	return start(ctx, r.opts.Binary, filepath.Join(r.dir, "data"), r.config, addr, r.log)
}

// show plays the demo from the first send to the count.
func (r *run) show(ctx context.Context) (Report, error) {
	watching, stopWatching := context.WithCancel(ctx)
	r.watcher = watch(watching, r.consumer, r.queues)
	defer r.watcher.readers.Wait()
	defer stopWatching()

	r.screen.zero = time.Now()
	if err := r.sendMore(ctx, r.opts.Messages, spread); err != nil {
		return Report{}, err
	}
	r.screen.arrivalHeader()
	pending, err := r.untilMidway(ctx)
	if err != nil {
		return Report{}, err
	}
	delivered, _ := r.watcher.count(1)
	r.down.from = time.Now()
	r.process.kill()
	r.screen.event(r.down.from, red, fmt.Sprintf("kill -9 %d", r.process.pid()),
		fmt.Sprintf("%s pending, %s delivered", grouped(pending), grouped(delivered)))

	if err := r.untilOverdue(ctx); err != nil {
		return Report{}, err
	}
	restarted := time.Now()
	if r.process, err = r.serve(ctx, r.addr); err != nil {
		return Report{}, fmt.Errorf("after the kill: %w", err)
	}
	r.down.to = time.Now()
	r.screen.event(r.down.to, green, "started again",
		fmt.Sprintf("process %d, ready after %s", r.process.pid(), milliseconds(r.down.to.Sub(restarted).Milliseconds())))

	if err := r.untilArrived(ctx); err != nil {
		return Report{}, err
	}
	stopWatching()
	r.watcher.readers.Wait()
	counting, cancel := context.WithTimeout(ctx, countLimit)
	defer cancel()
	records, err := readAll(counting, r.consumer, r.queues)
	if err != nil {
		return Report{}, fmt.Errorf("count the records: %w", err)
	}
	report := count(r.sent, records, r.down)
	report.PendingAtKill = pending
	report.DownMs = r.down.to.Sub(r.down.from).Milliseconds()
	report.StartMs = r.down.to.Sub(restarted).Milliseconds()
	report.TookMs = time.Since(r.began).Milliseconds()
	report.judge()
	r.screen.report(&report)
	return report, nil
}

// sendMore sends n messages and learns when they are due.
func (r *run) sendMore(ctx context.Context, n int, over time.Duration) error {
	p, err := r.client.NewProducer(client.WithRetries(0))
	if err != nil {
		return err
	}
	defer p.Close(context.WithoutCancel(ctx))
	began := time.Now()
	sent, err := send(ctx, p, len(r.sent), n, over)
	if err != nil {
		return err
	}
	took := time.Since(began)
	if err := lookUpDue(ctx, r.client.Admin(), r.addr, sent); err != nil {
		return err
	}
	for i := range sent {
		r.sent[sent[i].seq] = &sent[i]
	}
	r.screen.printf("sent %s messages, all answered as stored, in %.2f s\n\n", grouped(n), took.Seconds())
	return nil
}

// untilMidway waits until deliveries are under way at the second level and
// returns how many messages are pending then, minPending at least.
func (r *run) untilMidway(ctx context.Context) (int64, error) {
	const level = 2
	half := r.opts.Messages / len(lengths) / 2
	err := r.until(ctx, r.deadline(), func() bool {
		_, n := r.watcher.count(level)
		return n >= half
	})
	if err != nil {
		return 0, err
	}
	for {
		pending, err := r.pending(ctx)
		if err != nil || pending >= minPending {
			return pending, err
		}
		// A slow machine has delivered too much by now.
		if len(r.sent) > MaxMessages {
			return 0, fmt.Errorf("only %d messages are pending, at least %d are wanted: this machine is too busy", pending, minPending)
		}
		if err := r.sendMore(ctx, MinMessages, 0); err != nil {
			return 0, err
		}
	}
}

// pending asks the broker how many messages wait.
func (r *run) pending(ctx context.Context) (int64, error) {
	reply, err := r.client.Admin().Call(ctx, r.addr, remoting.ReqTideLevels, nil, nil)
	if err != nil {
		return 0, err
	}
	var body remoting.LevelsBody
	if err := json.Unmarshal(reply.Body, &body); err != nil {
		return 0, fmt.Errorf("levels: %w", err)
	}
	var n int64
	for _, l := range body.Levels {
		n += l.Pending
	}
	return n, nil
}

// untilOverdue waits until the broker has been away for a while and messages
// have come due meanwhile.
func (r *run) untilOverdue(ctx context.Context) error {
	back := r.down.from.Add(down)
	overdue := func() int {
		n, now := 0, time.Now()
		for _, o := range r.sent {
			if !o.due.Before(r.down.from) && o.due.Before(now) {
				n++
			}
		}
		return n
	}
	n := 0
	err := r.until(ctx, r.deadline(), func() bool {
		if time.Now().Before(back) {
			return false
		}
		n = overdue()
		return n > 0
	})
	if err != nil {
		return err
	}
	if n == 0 {
		return errors.New("no message came due while the broker was away: this machine is too busy")
	}
	r.screen.event(time.Now(), amber, "still away", grouped(n)+" messages have come due meanwhile")
	return nil
}

// untilArrived waits until every message was seen, or should have been.
func (r *run) untilArrived(ctx context.Context) error {
	last := time.Now()
	for _, o := range r.sent {
		if o.due.After(last) {
			last = o.due
		}
	}
	deadline := last.Add(grace)
	if d := r.deadline(); d.Before(deadline) {
		deadline = d
	}
	return r.until(ctx, deadline, func() bool {
		n, _ := r.watcher.count(1)
		return n >= len(r.sent)
	})
}

func (r *run) deadline() time.Time { return r.began.Add(limit) }

// until shows what arrives until done says so or the deadline has passed.
func (r *run) until(ctx context.Context, deadline time.Time, done func() bool) error {
	const look = 5 * time.Millisecond
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	shown := time.Now()
	for !done() && time.Now().Before(deadline) {
		select {
		case <-ticker.C:
		case <-r.process.exited:
			// Dead on purpose while it is away.
			if r.down.from.IsZero() || !r.down.to.IsZero() {
				return fmt.Errorf("the broker has ended: %v", r.process.err)
			}
			<-ticker.C
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if time.Since(shown) >= redraw {
			shown = time.Now()
			r.screen.arrivals(shown, batches(r.watcher.take(), r.sent, r.down))
		}
	}
	r.screen.arrivals(time.Now(), batches(r.watcher.take(), r.sent, r.down))
	return nil
}

// cleanUp ends what was started and removes the folder. After a failure it
// shows the end of the broker's log.
func (r *run) cleanUp(failed bool) error {
	var err error
	if r.client != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_ = r.client.Close(ctx) // only reading was left
		cancel()
	}
	if r.process != nil {
		err = r.process.stop()
	}
	if r.log != nil {
		if failed || err != nil {
			r.showLog()
		}
		r.log.Close()
	}
	if r.dir == "" {
		return err
	}
	if r.opts.Keep {
		r.screen.printf("The broker's folder is %s\n", r.dir)
		return err
	}
	return errors.Join(err, os.RemoveAll(r.dir))
}

// showLog prints the last lines of the broker's log.
func (r *run) showLog() {
	const most, lines = 16 << 10, 15
	st, err := r.log.Stat()
	if err != nil {
		return
	}
	buf := make([]byte, min(st.Size(), most))
	n, _ := r.log.ReadAt(buf, st.Size()-int64(len(buf)))
	all := bytes.Split(bytes.TrimSpace(buf[:n]), []byte("\n"))
	r.screen.printf("\nThe end of the broker's log:\n")
	for _, l := range all[max(0, len(all)-lines):] {
		r.screen.printf("   %s\n", l)
	}
}
