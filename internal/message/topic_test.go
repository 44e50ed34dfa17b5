package message

import (
	"errors"
	"strings"
	"testing"
)

func TestTopicNames(t *testing.T) {
	for _, tt := range []struct {
		name string
		want string // part of the error, "" for valid
	}{
		{"TopicTest", ""},
		{"a", ""},
		{"%RETRY%group", ""},
		{"under_score-dash|pipe%percent09AZaz", ""},
		{strings.Repeat("t", 127), ""},
		{strings.Repeat("t", 128), "128 bytes long, at most 127"},
		{"%RETRY%" + strings.Repeat("g", 248), ""},
		{"%RETRY%" + strings.Repeat("g", 249), "256 bytes long, at most 255"},
		{"%DLQ%" + strings.Repeat("g", 250), ""},
		{"%DLQ%" + strings.Repeat("g", 251), "256 bytes long, at most 255"},
		{"%RETRY", ""},
		{ScheduleTopic, ""},
		{"", "empty name"},
		{" ", "contains characters other than"},
		{"a b", "contains characters other than"},
		{"a.b", "contains characters other than"},
		{"a/b", "contains characters other than"},
		{"tópico", "contains characters other than"},
		{"nul\x00", "contains characters other than"},
	} {
		checkName(t, "ValidateTopic", tt.name, ValidateTopic(tt.name), ErrInvalidTopic, tt.want)
	}
	for _, tt := range []struct{ name, want string }{
		{"group", ""},
		{strings.Repeat("g", 120), ""},
		{strings.Repeat("g", 121), "121 bytes long, at most 120"},
		{"", "empty name"},
		{"a b", "contains characters other than"},
	} {
		checkName(t, "ValidateGroup", tt.name, ValidateGroup(tt.name), ErrInvalidGroup, tt.want)
	}
}

func checkName(t *testing.T, f, name string, err, kind error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s(%.30q, %d bytes) = %v, want valid", f, name, len(name), err)
	case want != "" && (!errors.Is(err, kind) || !strings.Contains(err.Error(), want)):
		t.Errorf("%s(%.30q, %d bytes) = %v, want %v with %q", f, name, len(name), err, kind, want)
	}
}

// The longest group's retry and dead-letter topics are valid topics.
func TestGroupTopics(t *testing.T) {
	group := strings.Repeat("g", MaxGroup)
	for _, topic := range []string{RetryTopic(group), DLQTopic(group)} {
		if err := ValidateTopic(topic); err != nil {
			t.Errorf("topic of a group of %d bytes: %v", MaxGroup, err)
		}
	}
	if !IsRetryTopic("%RETRY%g") || IsRetryTopic("RETRY%g") || IsRetryTopic("%DLQ%g") || !IsDLQTopic("%DLQ%g") || IsDLQTopic("%RETRY%g") {
		t.Error("retry and dead-letter topics are not told apart")
	}
}

func TestSystemTopics(t *testing.T) {
	for _, tt := range []struct {
		topic           string
		system, refused bool
	}{
		{"TopicTest", false, false},
		{"%RETRY%g", false, false},
		{"%DLQ%g", false, false},
		{"schedule_topic_xxxx", false, false},
		{"TBW102", true, false},
		{"BenchmarkTest", true, false},
		{"RMQ_SYS_TRACE_TOPIC", true, false},
		{"rmq_sys_TRACE_DATA_x", true, false},
		{"SCHEDULE_TOPIC_XXXX", true, true},
		{"RMQ_SYS_TRANS_HALF_TOPIC", true, true},
		{"RMQ_SYS_TRANS_OP_HALF_TOPIC", true, true},
		{"RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", true, true},
		{"RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC", true, true},
		{"TRANS_CHECK_MAX_TIME_TOPIC", true, true},
		{"SELF_TEST_TOPIC", true, true},
		{"OFFSET_MOVED_EVENT", true, true},
		{"CHECKPOINT_TOPIC", true, false},
		{"rmq_sys_wheel_timer", true, true},
		{UndeliverableTopic, true, true},
	} {
		if got := IsSystemTopic(tt.topic); got != tt.system {
			t.Errorf("IsSystemTopic(%q) = %v, want %v", tt.topic, got, tt.system)
		}
		if got := IsSendForbidden(tt.topic); got != tt.refused {
			t.Errorf("IsSendForbidden(%q) = %v, want %v", tt.topic, got, tt.refused)
		}
	}
	if !IsSystemGroup("CID_RMQ_SYS_TRANS") || IsSystemGroup("group") {
		t.Error("system groups are not told apart")
	}
}
