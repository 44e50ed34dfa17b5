package conf

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemq/tidemq/broker"
	"github.com/tidemq/tidemq/schedule"
)

// key is a setting that is read. apply checks the value, already without blanks
// around it, and takes it over; its error says what is allowed, its warning
// what of it is not there.
type key struct {
	apply func(f *File, value string) (warning string, err error)
}

// keys are the names that are applied or need a remark, as RocketMQ's
// BrokerConfig, MessageStoreConfig, NettyServerConfig and AuthConfig call them.
var keys = map[string]key{
	// What the broker is called and where it is found.
	"brokerName":        set(name, func(f *File, v string) { f.name = v }),
	"brokerClusterName": set(name, func(f *File, v string) { f.cluster = v }),
	"brokerId":          {apply: brokerID},
	"brokerRole":        {apply: brokerRole},
	"brokerIP1":         set(host, func(f *File, v string) { f.ip = v }),
	"listenPort":        set(number(1, 65535, "port"), func(f *File, v int) { f.listenPort = v }),
	"bindAddress":       set(bindAddress, func(f *File, v string) { f.bind = v }),
	"namesrvAddr":       {apply: nameServer},

	"serverChannelMaxIdleTimeSeconds": set(number(1, 86400, "seconds"), func(f *File, v int) { f.idle = time.Duration(v) * time.Second }),

	// The store.
	"storePathRootDir": set(text("a directory"), func(f *File, v string) { f.dir = v }),
	"flushDiskType":    set(flushMode, func(f *File, v broker.FlushMode) { f.flush = &v }),
	"flushIntervalCommitLog": set(number(1, 3_600_000, "milliseconds"), func(f *File, v int) {
		f.flushInterval = time.Duration(v) * time.Millisecond
	}),
	// RocketMQ's choice between a fixed and an early background flush; ours is
	// as early as bytes or time demand.
	"flushCommitLogTimed":     set(boolean, func(*File, bool) {}),
	"storePathCommitLog":      {apply: elsewhere},
	"storePathConsumeQueue":   {apply: elsewhere},
	"storePathEpochFile":      {apply: elsewhere},
	"storePathBrokerIdentity": {apply: elsewhere},
	"storePathIndex":          {apply: elsewhere},
	"storeCheckpoint":         {apply: elsewhere},
	"abortFile":               {apply: elsewhere},
	"mappedFileSizeCommitLog": {apply: segmentSize},

	// What may be deleted. fileReservedBytes is ours.
	"fileReservedTime": set(number(1, 1_000_000, "hours"), func(f *File, v int) {
		f.retention.Age = time.Duration(v) * time.Hour
	}),
	"fileReservedBytes":           set(reservedBytes, func(f *File, v int64) { f.retention.MaxBytes = v }),
	"deleteWhen":                  set(hours, func(f *File, v []int) { f.retention.Hours = v }),
	"diskMaxUsedSpaceRatio":       set(number(0, 100, "per cent"), func(f *File, v int) { f.diskRatio = &v }),
	"diskSpaceCleanForciblyRatio": set(number(0, 100, "per cent"), func(f *File, v int) { f.retention.DiskForceRatio = v }),
	"cleanFileForciblyEnable":     set(boolean, func(f *File, v bool) { f.noForce = !v }),

	// Messages, topics, groups.
	"messageDelayLevel":           set(delayLevels, func(f *File, v string) { f.levels = v }),
	"maxMessageSize":              set(number(1, 15<<20, "bytes"), func(f *File, v int) { f.maxMessage = v }),
	"defaultTopicQueueNums":       set(number(1, 8192, "queues"), func(f *File, v int) { f.topicQueues = v }),
	"autoCreateTopicEnable":       set(boolean, func(f *File, v bool) { f.noAutoTopic = !v }),
	"autoCreateSubscriptionGroup": set(boolean, func(f *File, v bool) { f.noAutoGroup = !v }),

	// Transactions.
	"transactionTimeOut":       set(number(1, 86_400_000, "milliseconds"), func(f *File, v int) { f.transTimeout = time.Duration(v) * time.Millisecond }),
	"transactionCheckInterval": set(number(1, 86_400_000, "milliseconds"), func(f *File, v int) { f.transInterval = time.Duration(v) * time.Millisecond }),
	"transactionCheckMax":      set(number(1, 1000, "times"), func(f *File, v int) { f.transChecks = v }),

	// What would be dangerous to ignore: the file asks to keep somebody out.
	"aclEnable":             only("false", "access control is not there yet, everybody who connects may do everything"),
	"authenticationEnabled": only("false", "authentication is not there yet, everybody who connects may do everything"),
	"authorizationEnabled":  only("false", "authorization is not there yet, everybody who connects may do everything"),
	"brokerPermission":      only("6", "a broker that may only be read or only be written is not there yet"),

	// Replicas. One broker alone does what it can.
	"enableDLegerCommitLog": {apply: noReplicas},
	"enableControllerMode":  {apply: noReplicas},
}

// set makes a key that parses a value and takes it over.
func set[T any](parse func(string) (T, error), take func(*File, T)) key {
	return key{apply: func(f *File, value string) (string, error) {
		v, err := parse(value)
		if err == nil {
			take(f, v)
		}
		return "", err
	}}
}

// only makes a key with a single allowed value.
func only(allowed, why string) key {
	return key{apply: func(_ *File, value string) (string, error) {
		if !strings.EqualFold(value, allowed) {
			return "", fmt.Errorf("%s; only %s is allowed", why, allowed)
		}
		return "", nil
	}}
}

func number(low, high int, unit string) func(string) (int, error) {
	return func(value string) (int, error) {
		n, err := strconv.Atoi(value)
		if err != nil || n < low || n > high {
			return 0, fmt.Errorf("a whole number from %d to %d (%s) is allowed", low, high, unit)
		}
		return n, nil
	}
}

func boolean(value string) (bool, error) {
	switch strings.ToLower(value) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("true and false are allowed")
}

func text(what string) func(string) (string, error) {
	return func(value string) (string, error) {
		if value == "" {
			return "", fmt.Errorf("it is empty; %s is expected", what)
		}
		return value, nil
	}
}

// name checks as the broker does: RocketMQ's clients take the bodies that hold
// these names apart by hand.
func name(value string) (string, error) {
	const most = 127
	ok := value != "" && len(value) <= most
	for _, c := range []byte(value) {
		ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.')
	}
	if !ok {
		return "", fmt.Errorf("1 to %d letters, digits, '_', '-' and '.' are allowed", most)
	}
	return value, nil
}

// host is an address or a host name that clients can dial.
func host(value string) (string, error) {
	ip, err := netip.ParseAddr(value)
	if err == nil && !ip.IsUnspecified() {
		return value, nil
	}
	if err != nil && value != "" && !strings.ContainsAny(value, ":/ \t[]@") {
		return value, nil
	}
	return "", fmt.Errorf("an IP address or host name that clients can dial is expected, without a port")
}

func bindAddress(value string) (string, error) {
	if value == "localhost" {
		return value, nil
	}
	if _, err := netip.ParseAddr(value); err != nil {
		return "", fmt.Errorf("an IP address of this machine is expected, or 0.0.0.0 for all of them")
	}
	return value, nil
}

func flushMode(value string) (broker.FlushMode, error) {
	switch value {
	case "SYNC_FLUSH":
		return broker.SyncFlush, nil
	case "ASYNC_FLUSH":
		return broker.AsyncFlush, nil
	}
	return 0, fmt.Errorf("SYNC_FLUSH and ASYNC_FLUSH are allowed")
}

func delayLevels(value string) (string, error) {
	levels, err := schedule.ParseLevels(value)
	if err != nil {
		return "", err
	}
	return levels.String(), nil
}

// hours is RocketMQ's deleteWhen: hours of the day, divided by semicolons.
func hours(value string) ([]int, error) {
	var list []int
	for word := range strings.SplitSeq(value, ";") {
		n, err := number(0, 23, "")(strings.TrimSpace(word))
		if err != nil {
			return nil, fmt.Errorf("hours of the day from 00 to 23 are allowed, several divided by ';'")
		}
		list = append(list, n)
	}
	return list, nil
}

// minReserved is the least that a bound by size may be, in bytes.
const minReserved = 1 << 20

func reservedBytes(value string) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n != 0 && n < minReserved {
		return 0, fmt.Errorf("0 for no bound is allowed, and %d bytes or more", minReserved)
	}
	return n, nil
}

// segmentSize: RocketMQ maps its files of 1 GiB into memory; here a file is
// what is deleted as a whole, and its size costs memory.
func segmentSize(f *File, value string) (string, error) {
	const least, most = 64 << 10, 64 << 20
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < least {
		return "", fmt.Errorf("%d bytes or more are allowed", least)
	}
	if n > most {
		return fmt.Sprintf("files of the log have at most %d bytes here, the default of 4194304 is used", most), nil
	}
	f.segmentBytes = int(n)
	return "", nil
}

// brokerID: a master's id is 0, as RocketMQ sets it for every master whatever
// its file says.
func brokerID(_ *File, value string) (string, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 {
		return "", fmt.Errorf("a whole number of 0 or more is allowed; a master's is 0")
	}
	if n > 0 {
		return "a master's id is 0, and 0 is used", nil
	}
	return "", nil
}

func brokerRole(_ *File, value string) (string, error) {
	switch value {
	case "ASYNC_MASTER":
		return "", nil
	case "SYNC_MASTER":
		return "there are no replicas yet: sends are answered when this broker alone has stored them, as with ASYNC_MASTER", nil
	case "SLAVE":
		return "", fmt.Errorf("there are no replicas yet, this broker cannot follow another; ASYNC_MASTER is allowed, and SYNC_MASTER with a warning")
	}
	return "", fmt.Errorf("ASYNC_MASTER is allowed, and SYNC_MASTER with a warning")
}

func nameServer(f *File, value string) (string, error) {
	var err error
	f.nameServers, err = NameServers(value)
	return "", err
}

// NameServers divides HOST:PORT[;HOST:PORT…]; none in an empty text.
func NameServers(text string) ([]string, error) {
	var list []string
	for addr := range strings.SplitSeq(text, ";") {
		if addr = strings.TrimSpace(addr); addr == "" {
			continue
		}
		_, port, err := net.SplitHostPort(addr)
		if n, numErr := strconv.Atoi(port); err != nil || numErr != nil || n < 1 || n > 65535 {
			return nil, fmt.Errorf("%.100q: HOST:PORT is expected, several divided by ';'", addr)
		}
		list = append(list, addr)
	}
	return list, nil
}

func elsewhere(_ *File, value string) (string, error) {
	return "ignored: everything is kept in the data directory (storePathRootDir, --data)", nil
}

func noReplicas(_ *File, value string) (string, error) {
	on, err := boolean(value)
	if on {
		return "there are no replicas yet: this broker runs alone", nil
	}
	return "", err
}

// Keys returns the names of the keys that are read, sorted.
func Keys() []string {
	list := make([]string, 0, len(keys))
	for k := range keys {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}
