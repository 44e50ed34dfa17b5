package schedule

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/store"
)

// Errors about what a sender asks for.
var (
	// ErrBadDelay: a DELAY property that is not a whole number.
	ErrBadDelay = errors.New("bad delay level")
	// ErrPropertiesTooLong: no room is left for the properties of the schedule.
	ErrPropertiesTooLong = errors.New("properties too long")
)

// ParseDelay reads the value of a DELAY property: the level asked for, which
// Levels.Clamp brings into the table. A whole number beyond any range counts
// as the greatest or least; anything else is ErrBadDelay, never a delivery at
// once in silence.
func ParseDelay(value string) (int, error) {
	n, err := strconv.ParseInt(value, 10, 32)
	if errors.Is(err, strconv.ErrRange) {
		return int(n), nil // ParseInt answers the nearest value
	}
	if err != nil {
		return 0, fmt.Errorf("%w: property %s is %.40q, a whole number is expected", ErrBadDelay, message.PropertyDelay, value)
	}
	return int(n), nil
}

// Pending makes the message that waits at a level (1 … len) in the place of m,
// whose topic and queue are the real target: its record is appended to dst. It
// keeps body, flags, born time and host, unique id and all properties of the
// sender but REAL_TOPIC and REAL_QID, which are the schedule's own.
//
// Errors: ErrPropertiesTooLong, or what message.AppendRecord answers.
func (l Levels) Pending(dst []byte, m *message.Message, level int) (store.Message, error) {
	p := *m
	p.Topic, p.QueueID = message.ScheduleTopic, QueueID(level)
	p.Properties = pendingProperties(m, level)
	if len(p.Properties) > message.MaxProperties {
		return store.Message{}, fmt.Errorf("%w: %d bytes with %s and %s, at most %d", ErrPropertiesTooLong, len(p.Properties),
			message.PropertyRealTopic, message.PropertyRealQueueID, message.MaxProperties)
	}
	at := len(dst)
	dst, err := message.AppendRecord(dst, &p)
	if err != nil {
		return store.Message{}, err
	}
	return store.Message{Topic: m.Topic, QueueID: m.QueueID, Record: dst[at:], Delay: l.Delay(level)}, nil
}

func pendingProperties(m *message.Message, level int) string {
	own := message.RemoveProperties(m.Properties, message.PropertyRealTopic, message.PropertyRealQueueID, message.PropertyDelay)
	var b strings.Builder
	b.Grow(len(own) + len(m.Topic) + 48)
	b.WriteString(own)
	if own != "" && own[len(own)-1] != '\x02' {
		b.WriteByte('\x02')
	}
	write := func(k, v string) {
		b.WriteString(k)
		b.WriteByte('\x01')
		b.WriteString(v)
		b.WriteByte('\x02')
	}
	write(message.PropertyDelay, strconv.Itoa(level))
	write(message.PropertyRealTopic, m.Topic)
	write(message.PropertyRealQueueID, strconv.Itoa(int(m.QueueID)))
	return b.String()
}
