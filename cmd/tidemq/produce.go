package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tidemq/tidemq/client"
	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/schedule"
)

const (
	// maxBody bounds what is read as one body; the broker has a limit of its
	// own, maxMessageSize.
	maxBody = 15 << 20
	// sendAhead is how many sends may wait for their answers.
	sendAhead = 256
)

func produceCommand() *cli.Command {
	return &cli.Command{
		Name:      "produce",
		Usage:     "send messages",
		ArgsUsage: "[BODY]",
		Description: `Sends BODY, or a file's content (--file), or each line of standard input that is
not empty as a message of its own. The topic is made by its first message, where
the broker allows that. One line per stored message goes to standard output.

A delayed message waits at a delay level: --level 3, or --delay 10s when the
broker's table has a level of that length. When --retries is used and an answer
is lost, a message may be stored twice.

Examples:
   tidemq produce --topic orders 'hello'
   tidemq produce --topic orders --level 3 --tag paid --key A-17 '{"id":17}'
   tidemq produce --topic orders --delay 10s --count 100 'in ten seconds'
   tail -F app.log | tidemq produce --topic logs --quiet`,
		Flags: []cli.Flag{
			addrFlag(), topicFlag("send to `TOPIC`"),
			&cli.IntFlag{Name: "level", Usage: "delay `LEVEL`, 1 is the shortest; above the broker's table its last one", DefaultText: "at once"},
			&cli.StringFlag{Name: "delay", Usage: "delay of `LENGTH`, one of the broker's levels, such as 10s, 5m or 2h"},
			&cli.StringFlag{Name: "tag", Usage: "`TAG` that consumers select by"},
			&cli.StringSliceFlag{Name: "key", Usage: "business `KEY`, may be repeated"},
			&cli.StringSliceFlag{Name: "property", Aliases: []string{"p"}, Usage: "property `NAME=VALUE`, may be repeated"},
			&cli.StringFlag{Name: "sharding-key", Usage: "messages of one `KEY` go to one queue"},
			&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "send the content of `FILE` as one message, '-' for standard input"},
			&cli.IntFlag{Name: "count", Aliases: []string{"n"}, Value: 1, Usage: "send BODY or the file `N` times"},
			&cli.IntFlag{Name: "retries", Value: 2, Usage: "`N` further attempts for a send that failed"},
			&cli.BoolFlag{Name: "quiet", DisableDefaultText: true, Usage: "no line per message"},
			jsonFlag(),
		},
		Action: produce,
	}
}

// sent is what produce prints for a stored message.
type sent struct {
	MessageID  string `json:"messageId"`
	OffsetID   string `json:"offsetId"`
	Topic      string `json:"topic"`
	Broker     string `json:"broker"`
	QueueID    int    `json:"queueId"`
	DelayLevel int    `json:"delayLevel"`
	// QueueOffset is the number in the queue, or in its delay level's queue.
	QueueOffset int64  `json:"queueOffset"`
	Status      string `json:"status"`
}

func produce(c *cli.Context) error {
	template, err := messageTemplate(c)
	if err != nil {
		return err
	}
	next, err := bodies(c)
	if err != nil {
		return err
	}
	if n := c.Int("retries"); n < 0 || n > 100 {
		return usagef("produce: --retries is %d: 0 to 100 is allowed", n)
	}
	cl, addrs, closeClient, err := connect(c)
	if err != nil {
		return err
	}
	defer closeClient()
	if c.IsSet("delay") {
		if template.DelayLevel, err = levelOf(c, cl.Admin(), addrs); err != nil {
			return err
		}
	}
	p, err := cl.NewProducer(client.WithRetries(c.Int("retries")), client.WithMaxMessageSize(maxBody))
	if err != nil {
		return err
	}
	return sendAll(c, p, template, next)
}

// messageTemplate is the message without its body.
func messageTemplate(c *cli.Context) (client.Message, error) {
	m := client.Message{Tags: c.String("tag"), Keys: c.StringSlice("key"), ShardingKey: c.String("sharding-key")}
	var err error
	if m.Topic, err = needTopic(c); err != nil {
		return m, err
	}
	if c.IsSet("level") {
		if c.IsSet("delay") {
			return m, usagef("produce: --level and --delay are both given: one is expected")
		}
		if m.DelayLevel = c.Int("level"); m.DelayLevel < 0 {
			return m, usagef("produce: --level is %d: 1 or more is allowed, or 0 to deliver at once", m.DelayLevel)
		}
	}
	for _, p := range c.StringSlice("property") {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" || v == "" {
			return m, usagef("produce: --property is %q: NAME=VALUE is expected", p)
		}
		if m.Properties == nil {
			m.Properties = map[string]string{}
		}
		m.Properties[k] = v
	}
	return m, nil
}

// levelOf finds the level of --delay in the broker's table.
func levelOf(c *cli.Context, admin *client.Admin, addrs []string) (int, error) {
	text := c.String("delay")
	length, err := schedule.ParseLevels(text)
	if err != nil || len(length) != 1 {
		return 0, usagef("produce: --delay is %q: a length such as 30s, 5m, 2h or 1d is expected", text)
	}
	var body remoting.LevelsBody
	if err := callAny(c.Context, admin, addrs, remoting.ReqTideLevels, nil, &body); err != nil {
		return 0, err
	}
	var table []string
	for _, l := range body.Levels {
		if l.Level == 0 {
			continue
		}
		if l.DelayMs == length.Delay(1).Milliseconds() {
			return l.Level, nil
		}
		table = append(table, l.Delay)
	}
	return 0, fmt.Errorf("--delay is %q, and the broker has no level of that length: %s are its levels (messageDelayLevel)", text, strings.Join(table, " "))
}

// bodySource gives the bodies one after the other, io.EOF after the last. It
// may wait for input, as long as ctx lives.
type bodySource func(ctx context.Context) ([]byte, error)

// bodies returns the source that the command line names.
func bodies(c *cli.Context) (bodySource, error) {
	count := c.Int("count")
	if count < 1 {
		return nil, usagef("produce: --count is %d: 1 or more is allowed", count)
	}
	if c.Args().Len() > 1 {
		return nil, usagef("produce: %d bodies are given, one is expected: put it in quotes, and flags before it", c.Args().Len())
	}
	var body []byte
	var err error
	switch file := c.String("file"); {
	case c.Args().Present() && c.IsSet("file"):
		return nil, usagef("produce: BODY and --file are both given: one is expected")
	case c.Args().Present():
		body = []byte(c.Args().First())
	case file == "-":
		body, err = readBody(c.App.Reader, "standard input")
	case c.IsSet("file"):
		var f *os.File
		if f, err = os.Open(file); err == nil {
			body, err = readBody(f, file)
			f.Close()
		}
	default:
		if c.IsSet("count") {
			return nil, usagef("produce: --count goes with BODY or --file, not with lines of standard input")
		}
		return lines(c.Context, c.App.Reader), nil
	}
	if err != nil {
		return nil, err
	}
	if len(body) == 0 {
		return nil, usagef("produce: the body is empty: at least one byte is expected")
	}
	return func(context.Context) ([]byte, error) {
		if count--; count < 0 {
			return nil, io.EOF
		}
		return body, nil
	}, nil
}

func readBody(r io.Reader, name string) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, maxBody+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(body) > maxBody {
		return nil, fmt.Errorf("%s is over %d bytes, the most a message may have", name, maxBody)
	}
	return body, nil
}

// lines gives the lines of r that are not empty, without their ends. Being
// interrupted (life ends) is their end too. Reading happens on a goroutine of
// its own, which outlives life until r gives something: a terminal does not
// give up a read.
func lines(life context.Context, r io.Reader) bodySource {
	type line struct {
		body []byte
		err  error
	}
	read := make(chan line)
	go func() {
		s := bufio.NewScanner(r)
		s.Buffer(nil, maxBody+2)
		for s.Scan() {
			if len(s.Bytes()) == 0 {
				continue
			}
			select {
			case read <- line{body: append([]byte(nil), s.Bytes()...)}:
			case <-life.Done():
				return
			}
		}
		err := s.Err()
		switch {
		case err == nil:
			err = io.EOF
		case errors.Is(err, bufio.ErrTooLong):
			err = fmt.Errorf("standard input has a line of over %d bytes, the most a message may have", maxBody)
		default:
			err = fmt.Errorf("read standard input: %w", err)
		}
		select {
		case read <- line{err: err}:
		case <-life.Done():
		}
	}()
	return func(ctx context.Context) ([]byte, error) {
		select {
		case l := <-read:
			return l.body, l.err
		case <-life.Done():
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// answer is what became of one send.
type answer struct {
	result client.SendResult
	err    error
}

// sendAll sends the bodies, some ahead of their answers, and prints the answers
// in the order of the sends. It stops at the first failure.
func sendAll(c *cli.Context, p *client.Producer, template client.Message, next bodySource) error {
	ctx, cancel := context.WithCancel(c.Context)
	defer cancel()
	started := time.Now()
	answers := make(chan chan answer, sendAhead)
	stored, failed := 0, 0
	var failure, unprinted error
	done := make(chan struct{})
	go func() { // ends when answers is closed, which happens below
		defer close(done)
		for pending := range answers {
			a := <-pending
			if a.err != nil {
				failed++
				failure = cmp.Or(failure, a.err)
				cancel()
				continue
			}
			stored++
			if unprinted == nil {
				if unprinted = printSent(c, template, a.result); unprinted != nil {
					cancel()
				}
			}
		}
	}()
	var stopped error
	for stopped == nil && ctx.Err() == nil {
		var body []byte
		if body, stopped = next(ctx); stopped != nil {
			break
		}
		m := template
		m.Body = body
		pending := make(chan answer, 1)
		// What was begun is finished: its answer tells whether it is stored.
		err := p.SendAsync(context.WithoutCancel(ctx), &m, func(r client.SendResult, err error) { pending <- answer{r, err} })
		if err != nil {
			pending <- answer{err: err}
		}
		answers <- pending
	}
	close(answers)
	<-done
	if stored > 1 && !c.Bool("json") {
		took := time.Since(started)
		fmt.Fprintf(c.App.ErrWriter, "%d messages stored in %s, %.0f/s\n", stored, shortDuration(took), float64(stored)/took.Seconds())
	}
	switch {
	case failed == 1 && stored == 0:
		return failure
	case failed > 0:
		return fmt.Errorf("%d stored, %d not: %w", stored, failed, failure)
	case unprinted != nil:
		return unprinted
	case errors.Is(stopped, io.EOF):
		return nil
	case c.Context.Err() != nil:
		return fmt.Errorf("interrupted when %d were stored", stored)
	}
	return fmt.Errorf("%d stored: %w", stored, stopped)
}

func printSent(c *cli.Context, template client.Message, r client.SendResult) error {
	if c.Bool("json") {
		return printJSONLine(c.App.Writer, sent{
			MessageID: r.MessageID, OffsetID: r.OffsetID, Topic: r.Queue.Topic, Broker: r.Queue.Broker, QueueID: r.Queue.ID,
			DelayLevel: template.DelayLevel, QueueOffset: r.QueueOffset, Status: r.Status.String(),
		})
	}
	if c.Bool("quiet") {
		return nil
	}
	where := fmt.Sprintf("offset %d", r.QueueOffset)
	if template.DelayLevel > 0 {
		where = fmt.Sprintf("pending at delay level %d", template.DelayLevel)
	}
	note := ""
	if r.Status != client.SendOK {
		note = ", " + r.Status.String()
	}
	_, err := fmt.Fprintf(c.App.Writer, "%s  %s  %s%s\n", r.MessageID, r.Queue, where, note)
	return err
}
