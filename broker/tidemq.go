package broker

import (
	"maps"
	"slices"
	"time"

	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/schedule"
	"github.com/tidemq/tidemq/store"
)

// levelStates serves ReqTideLevels.
func levelStates(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	body := remoting.LevelsBody{NowUs: b.store.Now().UnixMicro()}
	body.Levels = b.levelTable(body.NowUs)
	return c.replyJSON(req, body)
}

// levelTable returns the state of every level of the table, then of every
// length that left it and still has messages.
func (b *Broker) levelTable(nowUs int64) []remoting.LevelState {
	list := []remoting.LevelState{}
	states := make(map[time.Duration]store.LevelState)
	for _, s := range b.store.Levels() {
		states[s.Delay] = s
	}
	for level := 1; level <= len(b.levels); level++ {
		delay := b.levels.Delay(level)
		state := levelState(states[delay], delay, nowUs)
		state.Level, state.QueueID = level, int32(level-1)
		list = append(list, state)
	}
	for level := 1; level <= len(b.levels); level++ { // levels may share a length
		delete(states, b.levels.Delay(level))
	}
	for _, delay := range slices.Sorted(maps.Keys(states)) {
		if s := states[delay]; s.Next > s.Head { // left the table, drains on
			state := levelState(s, delay, nowUs)
			state.QueueID = -1
			list = append(list, state)
		}
	}
	return list
}

func levelState(s store.LevelState, delay time.Duration, nowUs int64) remoting.LevelState {
	state := remoting.LevelState{
		Delay: schedule.FormatLength(delay), DelayMs: delay.Milliseconds(),
		Pending: s.Next - s.Head, Offset: s.Head, MaxOffset: s.Next, NextDueUs: s.HeadDueUs,
	}
	if state.Pending > 0 && nowUs > s.HeadDueUs {
		state.LateByUs = nowUs - s.HeadDueUs
	}
	return state
}

// groupOffsets serves ReqTideOffsets.
func groupOffsets(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	group, err := req.Fields.Require("group")
	if err != nil {
		return err
	}
	view, online := b.registry.consumerGroup(group)
	if b.tables.group(group) == nil && !online {
		return refuse(remoting.SubscriptionGroupNotExist, "subscription group [%s] does not exist", group)
	}
	offsets := b.store.GroupOffsets(group)
	body := remoting.OffsetsBody{Group: group, Members: []remoting.GroupMember{}, Topics: []remoting.TopicOffsets{}}
	for _, info := range view.clients {
		body.Members = append(body.Members, remoting.GroupMember{
			ClientID: info.id, Addr: info.conn.remote.String(), Language: remoting.LanguageName(info.language), Version: info.version,
		})
	}
	topics := slices.Collect(maps.Keys(offsets))
	for _, s := range view.subs {
		topics = append(topics, s.topic)
	}
	slices.Sort(topics)
	topics = slices.Compact(topics)
	if name := req.Fields.Value("topic"); name != "" {
		if b.tables.readable(name) == nil {
			return refuse(remoting.TopicNotExist, "topic[%s] does not exist", name)
		}
		topics = []string{name}
	}
	for _, name := range topics {
		if t := b.tables.readable(name); t != nil {
			body.Topics = append(body.Topics, b.topicOffsets(t, offsets[name]))
		}
	}
	return c.replyJSON(req, body)
}

// topicOffsets compares a group's offsets with a topic's queues.
func (b *Broker) topicOffsets(t *store.Topic, committed map[int32]int64) remoting.TopicOffsets {
	out := remoting.TopicOffsets{Topic: t.Name, Queues: []remoting.QueueOffsets{}}
	for q := range t.ReadQueues {
		lo, hi, _ := b.store.Offsets(t.Name, q)
		state := remoting.QueueOffsets{QueueID: q, Min: lo, Max: hi, Committed: -1, Lag: hi - lo}
		if at, ok := committed[q]; ok {
			state.Committed = at
			state.Lag = max(hi-max(at, lo), 0)
		}
		out.Lag += state.Lag
		out.Queues = append(out.Queues, state)
	}
	return out
}

// resetGroup serves ReqTideResetOffsets.
func resetGroup(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	f := req.Fields
	dryRun, err := f.BoolOr("dryRun", false)
	if err != nil {
		return err
	}
	target, err := b.parseResetTarget(f)
	if err != nil {
		return err
	}
	offsets, timestamp, err := b.resetTo(f, target.topic, target.queues)
	if err != nil {
		return err
	}
	body := remoting.ResetBody{Group: target.group, Topic: target.topic, DryRun: dryRun, Queues: []remoting.QueueReset{}}
	before := b.store.GroupOffsets(target.group)[target.topic]
	for _, q := range target.queues {
		lo, hi, _ := b.store.Offsets(target.topic, q)
		offsets[q] = min(max(offsets[q], lo), hi)
		from, ok := before[q]
		if !ok {
			from = -1
		}
		body.Queues = append(body.Queues, remoting.QueueReset{QueueID: q, Min: lo, Max: hi, From: from, To: offsets[q]})
	}
	if !dryRun {
		if body.Told, err = b.resetOffsets(target.group, target.topic, offsets, timestamp); err != nil {
			return err
		}
	}
	return c.replyJSON(req, body)
}

// resetTo reads where a reset goes. The timestamp is what the members are
// told, -1 for the end of the queues, as RocketMQ.
func (b *Broker) resetTo(f remoting.Fields, topic string, queues []int32) (offsets map[int32]int64, timestamp int64, err error) {
	to, err := f.Require("to")
	if err != nil {
		return nil, 0, err
	}
	var value int64
	if to == remoting.ResetToTime || to == remoting.ResetToOffset {
		if value, err = f.Int64("value"); err != nil {
			return nil, 0, err
		}
		if value < 0 {
			return nil, 0, refuse(remoting.InvalidParameter, "value is %d: 0 or more is allowed", value)
		}
	}
	offsets = make(map[int32]int64, len(queues))
	switch to {
	case remoting.ResetToLatest:
		offsets, err = b.offsetsAt(topic, queues, -1)
		return offsets, -1, err
	case remoting.ResetToTime:
		offsets, err = b.offsetsAt(topic, queues, value)
		return offsets, value, err
	case remoting.ResetToEarliest:
		for _, q := range queues {
			offsets[q], _, _ = b.store.Offsets(topic, q)
		}
		return offsets, 0, nil
	case remoting.ResetToOffset:
		for _, q := range queues {
			offsets[q] = value
		}
		return offsets, 0, nil
	}
	return nil, 0, refuse(remoting.InvalidParameter, "to is %q: %s, %s, %s and %s are allowed", to,
		remoting.ResetToEarliest, remoting.ResetToLatest, remoting.ResetToTime, remoting.ResetToOffset)
}
