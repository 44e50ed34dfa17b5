package crash

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemq/tidemq/client"
	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

// auditors is the group that reads the topic for the account.
const auditors = "auditors"

// account reads the real topic record by record, as they are stored, and sets
// them against the books of a load.
type account struct {
	t     *testing.T
	addr  string
	admin *client.Admin
	load  *load
	found [queues][]record // by queue offset
}

// record is one of the real topic. What it says has been checked against what
// its sender sent.
type record struct {
	producer, seq, level int
	view                 view
	id, offsetID         string
}

func newAccount(t *testing.T, addr string, l *load) *account {
	t.Helper()
	return &account{t: t, addr: addr, admin: newClient(t, addr).Admin(), load: l}
}

// anew is an account that has read nothing yet.
func (a *account) anew() *account {
	return &account{t: a.t, addr: a.addr, admin: a.admin, load: a.load}
}

// read goes on reading to the end of every queue.
func (a *account) read() {
	a.t.Helper()
	for q := range queues {
		for {
			next := int64(len(a.found[q]))
			reply, err := a.admin.Call(context.Background(), a.addr, remoting.ReqPullMessage, map[string]string{
				"consumerGroup": auditors, "topic": topic, "queueId": strconv.Itoa(q), "queueOffset": strconv.FormatInt(next, 10),
				"maxMsgNums": "256", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0", "expressionType": "TAG",
			}, nil)
			if err != nil && reply != nil && reply.Code == remoting.PullNotFound {
				break
			}
			if err != nil {
				a.t.Fatalf("pull of queue %d at %d: %v", q, next, err)
			}
			a.take(q, reply.Body)
		}
	}
}

// take adds the records of one pull.
func (a *account) take(q int, records []byte) {
	a.t.Helper()
	for len(records) > 0 {
		m, n, err := message.DecodeRecord(records)
		if err == nil {
			err = m.VerifyBody()
		}
		if err != nil {
			a.t.Fatalf("queue %d at %d: %v", q, len(a.found[q]), err)
		}
		records = records[n:]
		if m.QueueOffset != int64(len(a.found[q])) {
			a.t.Fatalf("queue %d: offset %d where %d was expected", q, m.QueueOffset, len(a.found[q]))
		}
		r, err := a.check(q, &m)
		if err != nil {
			a.t.Fatalf("queue %d at %d: %v: %+v", q, m.QueueOffset, err, m)
		}
		a.found[q] = append(a.found[q], r)
	}
}

// check compares a record with what its sender sent.
func (a *account) check(q int, m *message.Message) (record, error) {
	props := message.ParseProperties(m.Properties)
	if n := strings.Count(m.Properties, "\x01"); n != len(props) {
		return record{}, fmt.Errorf("%d properties, of which %d have a key of their own", n, len(props))
	}
	r := record{id: props[message.PropertyUniqueKey], offsetID: message.OffsetID(m.StoreHost, m.PhysicalOffset)}
	var err error
	for key, to := range map[string]*int{"producer": &r.producer, "seq": &r.seq, "level": &r.level} {
		if *to, err = strconv.Atoi(props[key]); err != nil {
			return r, fmt.Errorf("property %s: %w", key, err)
		}
	}
	if r.producer < 0 || r.producer >= producers || r.seq < 0 {
		return r, errors.New("nobody sent that")
	}
	want, queue := a.load.message(r.producer, r.seq)

	// The sender's properties and those that its client adds; DELAY and the
	// schedule's own are gone.
	wantProps := maps.Clone(want.Properties)
	wantProps[message.PropertyUniqueKey] = r.id
	wantProps[message.PropertyWaitStoreMsgOK] = "true"
	for k, v := range map[string]string{message.PropertyTags: want.Tags, message.PropertyKeys: strings.Join(want.Keys, " "), message.PropertyShardingKey: want.ShardingKey} {
		if v != "" {
			wantProps[k] = v
		}
	}
	if len(r.id) != 32 || !maps.Equal(props, wantProps) {
		return r, fmt.Errorf("properties %q, sent %q", props, wantProps)
	}
	body, err := uncompressed(m)
	if err != nil {
		return r, err
	}
	switch {
	case m.Topic != topic:
		return r, fmt.Errorf("it is one of topic %q", m.Topic)
	case int(m.QueueID) != q || queue != q:
		return r, fmt.Errorf("the record says queue %d, it was sent to queue %d", m.QueueID, queue)
	case !bytes.Equal(body, want.Body):
		return r, fmt.Errorf("body has changed: %d bytes, sent %d", len(body), len(want.Body))
	case m.Flag != want.Flag:
		return r, fmt.Errorf("flag %d, sent %d", m.Flag, want.Flag)
	case m.ReconsumeTimes != 0:
		return r, fmt.Errorf("reconsumed %d times", m.ReconsumeTimes)
	case m.StoreHost.String() != a.addr || !m.BornHost.Addr().IsLoopback() || m.BornHost.Port() == 0:
		return r, fmt.Errorf("born at %v, stored at %v; want a loopback port, and %s", m.BornHost, m.StoreHost, a.addr)
	}
	r.view = view{
		physical: m.PhysicalOffset, born: m.BornTime, stored: m.StoreTime, flag: m.Flag, sysFlag: m.SysFlag, reconsumed: int(m.ReconsumeTimes),
		bornHost: m.BornHost.String(), storeHost: m.StoreHost.String(), properties: sorted(props), body: sha256.Sum256(body),
	}
	return r, nil
}

// uncompressed returns the body as it was sent.
func uncompressed(m *message.Message) ([]byte, error) {
	switch kind := message.CompressionOf(m.SysFlag); kind {
	case message.CompressionNone:
		return m.Body, nil
	case message.CompressionZlib:
		z, err := zlib.NewReader(bytes.NewReader(m.Body))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(z)
	default:
		return nil, fmt.Errorf("compressed by %v, which nobody asked for", kind)
	}
}

// records returns all that is there by its place.
func (a *account) records() map[place]view {
	all := map[place]view{}
	for q := range a.found {
		for n := range a.found[q] {
			all[place{q, int64(n)}] = a.found[q][n].view
		}
	}
	return all
}

// missing counts the acknowledged messages that are not there, and the records
// that are, in what was read so far.
func (a *account) missing() (missing, there int) {
	has := map[sending]bool{}
	for q := range a.found {
		for _, r := range a.found[q] {
			has[sending{r.producer, r.seq}] = true
			there++
		}
	}
	for n, sent := range a.load.books() {
		for seq, s := range sent {
			if s.outcome == acked && !has[sending{n, seq}] {
				missing++
			}
		}
	}
	return missing, there
}

// await reads until every acknowledged message is there. The load must not
// send meanwhile.
func (a *account) await() {
	a.t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		a.read()
		n, _ := a.missing()
		if n == 0 {
			return
		}
		if time.Now().After(deadline) {
			a.t.Errorf("%d acknowledged messages are not there after %v", n, limit)
			return
		}
	}
}

// verdict balances the account, after the load has ended and await.
func (a *account) verdict() {
	a.t.Helper()
	v := &verdict{account: a, books: a.load.books(), times: map[sending]int{}}
	for q := range a.found {
		v.queue(q)
	}
	v.senders()
	if v.faults > maxFaults {
		a.t.Errorf("%d faults in all", v.faults)
	}
	a.t.Logf("%d acknowledged, lost %d, early %d; %d without an answer, of which %d are stored; %d refused",
		v.sums[acked], v.lost, v.early, v.sums[unanswered], v.without, v.sums[refused])
}

// verdict is the balance in the making.
type verdict struct {
	*account
	books [producers][]sent
	times map[sending]int // how often each is in the topic

	sums                         [3]int // sends by outcome
	lost, early, without, faults int
}

// sending names one message of the load.
type sending struct{ producer, seq int }

func (s sending) String() string { return fmt.Sprintf("message %d of producer %d", s.seq, s.producer) }

// maxFaults is how many faults are told one by one.
const maxFaults = 20

func (v *verdict) faultf(format string, args ...any) {
	v.t.Helper()
	if v.faults++; v.faults <= maxFaults {
		v.t.Errorf(format, args...)
	}
}

// queue checks the records of a queue against what their senders were told:
// there once, not early, in the order of their sends.
func (v *verdict) queue(q int) {
	v.t.Helper()
	last := map[[2]int]int{} // producer and level → its last acknowledged message here
	for n, r := range v.found[q] {
		at := fmt.Sprintf("queue %d at %d", q, n)
		m := sending{r.producer, r.seq}
		if r.seq >= len(v.books[r.producer]) {
			v.faultf("%s: %v was never sent", at, m)
			continue
		}
		s := &v.books[r.producer][r.seq]
		if v.times[m]++; v.times[m] > 1 {
			v.faultf("%s: %v is there %d times", at, m, v.times[m])
		}
		if r.view.born < s.began || r.view.born > s.ended {
			v.faultf("%s: %v was born at %d, sent between %d and %d", at, m, r.view.born, s.began, s.ended)
		}
		if by := s.began + delayOf(r.level) - r.view.stored; by > 0 {
			v.faultf("%s: %v of level %d is %d ms early", at, m, r.level, by)
			v.early++
		}
		switch s.outcome {
		case unanswered:
			v.without++
			continue
		case refused:
			v.faultf("%s: %v was refused", at, m)
			continue
		}
		if r.id != s.result.MessageID {
			v.faultf("%s: %v has the id %s, its sender was told %s", at, m, r.id, s.result.MessageID)
		}
		if r.level == 0 && (s.result.QueueOffset != int64(n) || s.result.OffsetID != r.offsetID) {
			v.faultf("%s: %v is record %s; its sender was told %d, %s", at, m, r.offsetID, s.result.QueueOffset, s.result.OffsetID)
		}
		row := [2]int{r.producer, min(r.level, topLevel)} // what is above the table waits with its last level
		if before, ok := last[row]; ok && before > r.seq {
			v.faultf("%s: %v of level %d comes after its message %d", at, m, r.level, before)
		}
		last[row] = r.seq
	}
}

// senders checks that what was acknowledged is there, and that no two senders
// were told one place in a level.
func (v *verdict) senders() {
	v.t.Helper()
	type waiting struct {
		level  int
		number int64
	}
	taken := map[waiting]bool{}
	for n := range v.books {
		for seq := range v.books[n] {
			s := &v.books[n][seq]
			v.sums[s.outcome]++
			if s.outcome != acked {
				continue
			}
			if v.times[sending{n, seq}] == 0 {
				v.lost++
				v.faultf("%v is lost", sending{n, seq})
			}
			m, _ := v.load.message(n, seq)
			if level := min(m.DelayLevel, topLevel); level > 0 {
				at := waiting{level, s.result.QueueOffset}
				if taken[at] {
					v.faultf("two senders were told number %d of level %d", at.number, at.level)
				}
				taken[at] = true
			}
		}
	}
}
