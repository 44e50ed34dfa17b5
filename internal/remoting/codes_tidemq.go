package remoting

// TideMQ's own request codes, above every range that RocketMQ uses. A
// RocketMQ broker answers them with code 3 (not supported). Requests have JSON
// headers, as a ROCKETMQ header has 16 bits for the code. Bodies are JSON.
const (
	// ReqTideLevels asks for the state of every delay level. No fields.
	// Answer: 0 with a LevelsBody.
	ReqTideLevels = 900001
	// ReqTideOffsets asks for a consumer group's offsets. Fields: "group", and
	// optionally "topic" to see that topic alone, subscribed or not. Answer: 0
	// with an OffsetsBody; 26 when the group does not exist, 17 when the named
	// topic does not.
	ReqTideOffsets = 900002
	// ReqTideResetOffsets moves a group's offsets. Fields: "group", "topic",
	// "to" (one of ResetTo…), "value" (ms since the epoch for ResetToTime, a
	// queue offset for ResetToOffset), optionally "queueId" (absent or -1: all
	// queues) and "dryRun" ("true": say what would happen, change nothing).
	// Answer: 0 with a ResetBody, durable when it is given; 17 and 26 as above,
	// 29 for a field that is missing or out of range.
	ReqTideResetOffsets = 900003
)

// Values of the field "to" of ReqTideResetOffsets.
const (
	ResetToEarliest = "earliest"
	ResetToLatest   = "latest"
	ResetToTime     = "time"
	ResetToOffset   = "offset"
)

// LevelsBody is the answer to ReqTideLevels.
type LevelsBody struct {
	// NowUs is the broker's clock, in µs since the epoch: due times are on it.
	NowUs  int64        `json:"nowUs"`
	Levels []LevelState `json:"levels"`
}

// LevelState is one delay level: a length and the messages waiting for it.
type LevelState struct {
	// Level is the number senders use, 1-based; 0 for a length that left the
	// level table and still has messages waiting.
	Level int `json:"level"`
	// QueueID is the level's queue in SCHEDULE_TOPIC_XXXX, level - 1; -1 for a
	// length that left the table.
	QueueID int32 `json:"queueId"`
	// Delay is the length as the table writes it ("1s", "2h"), DelayMs the same
	// in ms.
	Delay   string `json:"delay"`
	DelayMs int64  `json:"delayMs"`
	// Pending counts the messages not delivered yet: MaxOffset - Offset.
	Pending int64 `json:"pending"`
	// Offset is the next entry to deliver, MaxOffset one past the last.
	Offset    int64 `json:"offset"`
	MaxOffset int64 `json:"maxOffset"`
	// NextDueUs is when the next entry is due, in µs since the epoch; 0 when
	// nothing is pending.
	NextDueUs int64 `json:"nextDueUs"`
	// LateByUs is how long the next entry has been due and not delivered; 0
	// when it is not due yet.
	LateByUs int64 `json:"lateByUs"`
}

// OffsetsBody is the answer to ReqTideOffsets.
type OffsetsBody struct {
	Group string `json:"group"`
	// Members are the clients on-line, by client id.
	Members []GroupMember `json:"members"`
	// Topics are the topics the group has offsets in or subscribes to, by name.
	Topics []TopicOffsets `json:"topics"`
}

// GroupMember is one client of a consumer group.
type GroupMember struct {
	ClientID string `json:"clientId"`
	Addr     string `json:"addr"`
	Language string `json:"language"`
	Version  int    `json:"version"`
}

// TopicOffsets is a group's position in one topic.
type TopicOffsets struct {
	Topic string `json:"topic"`
	// Lag is the sum over the queues.
	Lag    int64          `json:"lag"`
	Queues []QueueOffsets `json:"queues"`
}

// QueueOffsets is a group's position in one queue.
type QueueOffsets struct {
	QueueID int32 `json:"queueId"`
	// Min and Max bound the queue: the first entry and one past the last.
	Min int64 `json:"min"`
	Max int64 `json:"max"`
	// Committed is the next offset the group will read, -1 when it never
	// committed one.
	Committed int64 `json:"committed"`
	// Lag is Max - Committed, never negative; counted from Min when nothing
	// was committed.
	Lag int64 `json:"lag"`
}

// ResetBody is the answer to ReqTideResetOffsets.
type ResetBody struct {
	Group  string `json:"group"`
	Topic  string `json:"topic"`
	DryRun bool   `json:"dryRun"`
	// Told counts the members on-line that were sent the new offsets (220).
	Told   int          `json:"told"`
	Queues []QueueReset `json:"queues"`
}

// QueueReset is one queue of a reset.
type QueueReset struct {
	QueueID int32 `json:"queueId"`
	Min     int64 `json:"min"`
	Max     int64 `json:"max"`
	// From is the committed offset before, -1 when there was none.
	From int64 `json:"from"`
	// To is the new offset, within [Min, Max].
	To int64 `json:"to"`
}
