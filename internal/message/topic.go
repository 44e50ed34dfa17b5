package message

import (
	"fmt"
	"strings"
)

// System topics, as RocketMQ `TopicValidator`, and our own.
const (
	// ScheduleTopic holds what is pending at a delay level; queue id = level − 1.
	ScheduleTopic = "SCHEDULE_TOPIC_XXXX"
	// UndeliverableTopic keeps, with the reason, what was accepted and could
	// not be delivered to its real topic.
	UndeliverableTopic = "TIDEMQ_UNDELIVERABLE"
	// TBW102 is the topic that auto-created topics take their settings from.
	TBW102             = "TBW102"
	TimerTopic         = "rmq_sys_wheel_timer"
	BenchmarkTopic     = "BenchmarkTest"
	TransHalfTopic     = "RMQ_SYS_TRANS_HALF_TOPIC"
	TransOpHalfTopic   = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
	TransCheckMaxTopic = "TRANS_CHECK_MAX_TIME_TOPIC"
	TraceTopic         = "RMQ_SYS_TRACE_TOPIC"
	SelfTestTopic      = "SELF_TEST_TOPIC"
	OffsetMovedEvent   = "OFFSET_MOVED_EVENT"
	CheckpointTopic    = "CHECKPOINT_TOPIC"

	retryPrefix      = "%RETRY%"
	dlqPrefix        = "%DLQ%"
	systemPrefix     = "rmq_sys_"
	ownPrefix        = "TIDEMQ_"
	transPrefix      = "RMQ_SYS_TRANS_"
	rocksTransPrefix = "RMQ_SYS_ROCKSDB_TRANS_"
	systemGroup      = "CID_RMQ_SYS_"
)

// Limits of names, in bytes.
const (
	MaxTopic      = 127
	MaxRetryTopic = 255 // %RETRY% and %DLQ% topics
	MaxGroup      = 120
)

// RetryTopic is the topic a group's sent-back messages come again from.
func RetryTopic(group string) string { return retryPrefix + group }

// DLQTopic is the topic of the messages a group gave up.
func DLQTopic(group string) string { return dlqPrefix + group }

// IsRetryTopic reports whether topic is a group's retry topic.
func IsRetryTopic(topic string) bool { return strings.HasPrefix(topic, retryPrefix) }

// IsDLQTopic reports whether topic is a group's dead-letter topic.
func IsDLQTopic(topic string) bool { return strings.HasPrefix(topic, dlqPrefix) }

// IsSystemTopic reports whether a topic belongs to the broker: users may
// neither create nor delete it.
func IsSystemTopic(topic string) bool {
	switch topic {
	case ScheduleTopic, TBW102, BenchmarkTopic, TransCheckMaxTopic, TraceTopic, SelfTestTopic, OffsetMovedEvent, CheckpointTopic:
		return true
	}
	return strings.HasPrefix(topic, systemPrefix) || strings.HasPrefix(topic, ownPrefix) ||
		strings.HasPrefix(topic, transPrefix) || strings.HasPrefix(topic, rocksTransPrefix)
}

// SystemTopics returns the names of the system topics; prefixes that make one
// come on top.
func SystemTopics() []string {
	return []string{
		BenchmarkTopic, CheckpointTopic, OffsetMovedEvent, TraceTopic, TransHalfTopic, TransOpHalfTopic, ScheduleTopic, SelfTestTopic,
		TBW102, UndeliverableTopic, TransCheckMaxTopic, TimerTopic,
	}
}

// IsSendForbidden reports whether clients may not send to a topic: those the
// broker writes itself. Trace and retry topics are not among them.
func IsSendForbidden(topic string) bool {
	switch topic {
	case ScheduleTopic, TransCheckMaxTopic, SelfTestTopic, OffsetMovedEvent, TimerTopic:
		return true
	}
	return strings.HasPrefix(topic, ownPrefix) || strings.HasPrefix(topic, transPrefix) || strings.HasPrefix(topic, rocksTransPrefix)
}

// IsSystemGroup reports whether a group belongs to the broker, as RocketMQ
// `MixAll.isSysConsumerGroup`.
func IsSystemGroup(group string) bool { return strings.HasPrefix(group, systemGroup) }

const allowed = "^[%|a-zA-Z0-9_-]+$"

// ValidateTopic reports why name is no topic: empty, over 127 bytes (255 for
// %RETRY% and %DLQ% topics), or with other characters than
// ^[%|a-zA-Z0-9_-]+$. The error wraps [ErrInvalidTopic]. System topics are
// valid names.
func ValidateTopic(name string) error {
	limit := MaxTopic
	if IsRetryTopic(name) || IsDLQTopic(name) {
		limit = MaxRetryTopic
	}
	return validateName(name, limit, ErrInvalidTopic)
}

// ValidateGroup reports why name is no group: empty, over 120 bytes, or with
// other characters than a topic may have. The error wraps [ErrInvalidGroup].
func ValidateGroup(name string) error { return validateName(name, MaxGroup, ErrInvalidGroup) }

func validateName(name string, limit int, kind error) error {
	if name == "" {
		return fmt.Errorf("%w: empty name", kind)
	}
	if len(name) > limit {
		return fmt.Errorf("%w: %.40q… is %d bytes long, at most %d", kind, name, len(name), limit)
	}
	for i := 0; i < len(name); i++ {
		if !nameByte(name[i]) {
			return fmt.Errorf("%w: %q contains characters other than %s", kind, name, allowed)
		}
	}
	return nil
}

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '%' || c == '|'
}
