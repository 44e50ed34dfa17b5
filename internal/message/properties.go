package message

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Names of properties, as RocketMQ `MessageConst`.
const (
	PropertyKeys                           = "KEYS" // words to find the message by, separated by KeySeparator
	PropertyTags                           = "TAGS"
	PropertyWaitStoreMsgOK                 = "WAIT"
	PropertyDelay                          = "DELAY"       // delay level
	PropertyRetryTopic                     = "RETRY_TOPIC" // topic a sent-back message first had
	PropertyRealTopic                      = "REAL_TOPIC"  // target of a pending message
	PropertyRealQueueID                    = "REAL_QID"
	PropertyTransactionPrepared            = "TRAN_MSG"
	PropertyProducerGroup                  = "PGROUP"
	PropertyMinOffset                      = "MIN_OFFSET"
	PropertyMaxOffset                      = "MAX_OFFSET"
	PropertyBuyerID                        = "BUYER_ID"
	PropertyOriginMessageID                = "ORIGIN_MESSAGE_ID"
	PropertyTransferFlag                   = "TRANSFER_FLAG"
	PropertyCorrectionFlag                 = "CORRECTION_FLAG"
	PropertyMQ2Flag                        = "MQ2_FLAG"
	PropertyReconsumeTime                  = "RECONSUME_TIME"
	PropertyMsgRegion                      = "MSG_REGION"
	PropertyTraceSwitch                    = "TRACE_ON"
	PropertyUniqueKey                      = "UNIQ_KEY" // the sender's message id
	PropertyExtendUniqInfo                 = "EXTEND_UNIQ_INFO"
	PropertyMaxReconsumeTimes              = "MAX_RECONSUME_TIMES"
	PropertyConsumeStartTime               = "CONSUME_START_TIME"
	PropertyInnerNum                       = "INNER_NUM"
	PropertyInnerBase                      = "INNER_BASE"
	PropertyDupInfo                        = "DUP_INFO"
	PropertyCheckImmunityTime              = "CHECK_IMMUNITY_TIME_IN_SECONDS"
	PropertyTransactionPreparedQueueOffset = "TRAN_PREPARED_QUEUE_OFFSET"
	PropertyTransactionID                  = "__transactionId__"
	PropertyTransactionCheckTimes          = "TRANSACTION_CHECK_TIMES"
	PropertyInstanceID                     = "INSTANCE_ID"
	PropertyCorrelationID                  = "CORRELATION_ID"
	PropertyReplyToClient                  = "REPLY_TO_CLIENT"
	PropertyMessageTTL                     = "TTL"
	PropertyArriveTime                     = "ARRIVE_TIME"
	PropertyPushReplyTime                  = "PUSH_REPLY_TIME"
	PropertyCluster                        = "CLUSTER"
	PropertyMessageType                    = "MSG_TYPE"
	PropertyPopCK                          = "POP_CK"
	PropertyPopCKOffset                    = "POP_CK_OFFSET"
	PropertyFirstPopTime                   = "1ST_POP_TIME"
	PropertyShardingKey                    = "__SHARDINGKEY"
	PropertyForwardQueueID                 = "PROPERTY_FORWARD_QUEUE_ID"
	PropertyRedirect                       = "REDIRECT"
	PropertyInnerMultiDispatch             = "INNER_MULTI_DISPATCH"
	PropertyInnerMultiQueueOffset          = "INNER_MULTI_QUEUE_OFFSET"
	PropertyTraceContext                   = "TRACE_CONTEXT"
	PropertyBornHost                       = "__BORNHOST"
	PropertyBornTimestamp                  = "BORN_TIMESTAMP"
	PropertyCRC32                          = "__CRC32#"
	PropertyDLQOriginTopic                 = "DLQ_ORIGIN_TOPIC"
	PropertyDLQOriginMessageID             = "DLQ_ORIGIN_MESSAGE_ID"

	PropertyTimerDeliverMs  = "TIMER_DELIVER_MS" // due at this time, ms since the epoch
	PropertyTimerDelayMs    = "TIMER_DELAY_MS"   // due so many ms after it was stored
	PropertyTimerDelaySec   = "TIMER_DELAY_SEC"  // due so many seconds after it was stored
	PropertyTimerEnqueueMs  = "TIMER_ENQUEUE_MS"
	PropertyTimerDequeueMs  = "TIMER_DEQUEUE_MS"
	PropertyTimerOutMs      = "TIMER_OUT_MS"
	PropertyTimerRollTimes  = "TIMER_ROLL_TIMES"
	PropertyTimerDelUniqKey = "TIMER_DEL_UNIQKEY"
	PropertyTimerDelayLevel = "TIMER_DELAY_LEVEL"

	// PropertyTransientPrefix begins the names of properties that a client
	// keeps for itself and never stores.
	PropertyTransientPrefix = "__RMQ.TRANSIENT."

	// KeySeparator stands between the words of PropertyKeys.
	KeySeparator = " "
)

// Separators of the property string; neither may occur in a key or value.
const (
	nameValueSeparator = '\x01'
	propertySeparator  = '\x02'
)

// Property returns the value of key in a property string "k\x01v\x02…",
// without allocating; the value borrows from props. As RocketMQ
// `MessageDecoder.string2messageProperties`, the last of several entries
// counts, an entry without a value counts as absent, and the last entry needs
// no separator behind it.
func Property(props, key string) (value string, ok bool) {
	if key == "" {
		return "", false
	}
	for at := 0; ; {
		i := strings.Index(props[at:], key)
		if i < 0 {
			return value, ok
		}
		i += at
		end := i + len(key)
		at = i + 1
		if end >= len(props) || props[end] != nameValueSeparator || i > 0 && props[i-1] != propertySeparator {
			continue
		}
		v := props[end+1:]
		if j := strings.IndexByte(v, propertySeparator); j >= 0 {
			v = v[:j]
		}
		at = end + 1 + len(v)
		if v != "" {
			value, ok = v, true
		}
	}
}

// AppendProperty appends one property to the property string in dst and
// returns it. dst holds a property string and nothing else: when it does not
// end with a separator, one is put before the new entry. Key and value are not
// checked; see [ValidateProperty].
func AppendProperty(dst []byte, key, value string) []byte {
	if n := len(dst); n > 0 && dst[n-1] != propertySeparator {
		dst = append(dst, propertySeparator)
	}
	dst = append(dst, key...)
	dst = append(dst, nameValueSeparator)
	dst = append(dst, value...)
	return append(dst, propertySeparator)
}

// RemoveProperties returns props without every entry of the keys; the other
// entries keep order and bytes. It returns props itself when none occurs.
func RemoveProperties(props string, keys ...string) string {
	var out []byte
	changed := false
	for at := 0; at < len(props); {
		end := len(props)
		if i := strings.IndexByte(props[at:], propertySeparator); i >= 0 {
			end = at + i + 1
		}
		entry := props[at:end]
		name, _, found := strings.Cut(entry, "\x01")
		switch {
		case found && slices.Contains(keys, name):
			if !changed {
				changed = true
				out = append(make([]byte, 0, len(props)), props[:at]...)
			}
		case changed:
			out = append(out, entry...)
		}
		at = end
	}
	if !changed {
		return props
	}
	return borrow(out)
}

// ParseProperties decodes a property string by the rules of [Property]. The
// values borrow from props. The map is never nil.
func ParseProperties(props string) map[string]string {
	m := make(map[string]string, strings.Count(props, "\x02")+1)
	for entry := range strings.SplitSeq(props, "\x02") {
		if k, v, _ := strings.Cut(entry, "\x01"); k != "" && v != "" {
			m[k] = v
		}
	}
	return m
}

// FormatProperties encodes properties in the order of their keys. Entries
// that would not survive the way back, with an empty key or value, are left
// out, as RocketMQ drops them when it reads.
func FormatProperties(properties map[string]string) string {
	n := 0
	for k, v := range properties {
		n += len(k) + len(v) + 2
	}
	dst := make([]byte, 0, n)
	for _, k := range slices.Sorted(maps.Keys(properties)) {
		if v := properties[k]; k != "" && v != "" {
			dst = AppendProperty(dst, k, v)
		}
	}
	return string(dst)
}

// ValidateProperty reports why a property could not be stored and read back:
// an empty key or value, or one of the separators \x01 and \x02 in them. The
// error wraps [ErrInvalidProperty].
func ValidateProperty(key, value string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: empty key (value %q)", ErrInvalidProperty, value)
	case strings.ContainsAny(key, "\x01\x02"):
		return fmt.Errorf("%w: key %q contains \\x01 or \\x02", ErrInvalidProperty, key)
	case value == "":
		return fmt.Errorf("%w: %s has an empty value", ErrInvalidProperty, key)
	case strings.ContainsAny(value, "\x01\x02"):
		return fmt.Errorf("%w: value %q of %s contains \\x01 or \\x02", ErrInvalidProperty, value, key)
	}
	return nil
}
