package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/tidemq/tidemq/store"
)

// FlushMode says when a send is answered, as RocketMQ's flushDiskType.
type FlushMode int

const (
	// SyncFlush answers a send, and shows the message to consumers, only after
	// the fsync that covers it. The default.
	SyncFlush FlushMode = iota
	// AsyncFlush answers after the write; a machine that loses power may lose
	// what was answered within the last FlushInterval.
	AsyncFlush
)

// Defaults and limits of Options.
const (
	// DefaultAddr and DefaultNameServerAddr are where RocketMQ's clients expect
	// a broker and a name server.
	DefaultAddr           = "127.0.0.1:10911"
	DefaultNameServerAddr = "127.0.0.1:9876"
	DefaultBrokerName     = "tidemq"
	DefaultClusterName    = "DefaultCluster"
	DefaultTopicQueues    = 8
	DefaultMaxMessageSize = 4 << 20
	DefaultIdleTimeout    = 120 * time.Second

	// maxMessageSizeLimit leaves room for headers and properties in a frame of
	// 16 MiB.
	maxMessageSizeLimit = 15 << 20
	// maxQueues bounds the queues of one topic.
	maxQueues = 8192
	// Bounds of SegmentBytes: the WAL holds a segment in memory.
	minSegmentBytes = 64 << 10
	maxSegmentBytes = 64 << 20
	// maxName bounds the names of broker and cluster, in bytes.
	maxName = 127
)

// Retention says what may be deleted; the zero value keeps everything. Whole
// segments of the log go, oldest first. A message that is still pending stays,
// however old: it is carried forward.
type Retention struct {
	// Age is how long messages are kept at least, by their store time
	// (RocketMQ's fileReservedTime); 0: age deletes nothing.
	Age time.Duration
	// Hours are the hours of the day, 0 to 23 of the machine's clock, in which
	// Age deletes (deleteWhen); none: at any time.
	Hours []int
	// MaxBytes bounds the log; 0: its size deletes nothing. The log is larger
	// when more than two thirds of that are pending: up to half as much again
	// as what is pending.
	MaxBytes int64
	// DiskRatio is the part of the file system in use, in per cent, above which
	// Age deletes at any hour (diskMaxUsedSpaceRatio); 0: none.
	DiskRatio int
	// DiskForceRatio is the part in use, in per cent, above which the oldest
	// goes whatever its age (diskSpaceCleanForciblyRatio); 0: none.
	DiskForceRatio int
}

func (r *Retention) check() error {
	switch {
	case r.Age < 0:
		return fmt.Errorf("broker: Retention.Age is %v: 0 or more is allowed", r.Age)
	case r.MaxBytes < 0:
		return fmt.Errorf("broker: Retention.MaxBytes is %d: 0 or more is allowed", r.MaxBytes)
	case r.DiskRatio < 0 || r.DiskRatio > 100:
		return fmt.Errorf("broker: Retention.DiskRatio is %d: 0 to 100 is allowed", r.DiskRatio)
	case r.DiskForceRatio < 0 || r.DiskForceRatio > 100:
		return fmt.Errorf("broker: Retention.DiskForceRatio is %d: 0 to 100 is allowed", r.DiskForceRatio)
	}
	for _, h := range r.Hours {
		if h < 0 || h > 23 {
			return fmt.Errorf("broker: Retention.Hours has %d: 0 to 23 is allowed", h)
		}
	}
	return nil
}

// Options of [New]. Only Dir is required; the zero value of every other field
// stands for the default named with it.
type Options struct {
	// Dir is the data directory, created when missing. One process at a time.
	Dir string
	// Listen are the addresses to listen on, HOST:PORT each; port 0 takes a
	// free one. Every one answers as broker and as name server. Default:
	// DefaultAddr and DefaultNameServerAddr.
	Listen []string
	// Advertise is the HOST:PORT that routes and offset message ids name.
	// Default: for each client the address it came in by.
	Advertise string
	// BrokerName, ClusterName and BrokerID are what routes and tools show.
	// Defaults: DefaultBrokerName, DefaultClusterName, 0 (a master).
	BrokerName  string
	ClusterName string
	BrokerID    int64
	// NameServers are Apache RocketMQ name servers, HOST:PORT each, that the
	// broker registers with as one among several; it needs a BrokerName of its
	// own then. Clients may be given them, or this broker, as name server. None
	// by default. With some, the default of Listen is DefaultAddr alone.
	NameServers []string
	// Flush is when sends are answered; SyncFlush by default. FlushInterval
	// bounds the age of unsynced bytes in AsyncFlush; 500 ms by default.
	Flush         FlushMode
	FlushInterval time.Duration
	// Retention says what may be deleted; nothing by default.
	Retention Retention
	// SegmentBytes is the size of the log's files, 64 KiB to 64 MiB; 4 MiB by
	// default. What is deleted is deleted in such pieces.
	SegmentBytes int
	// DelayLevels is the level table, as RocketMQ's messageDelayLevel: lengths
	// in s, m, h or d, separated by spaces. Default: 1s 5s 10s 30s 1m … 2h.
	DelayLevels string
	// DisableAutoCreateTopic refuses sends to topics that do not exist
	// (autoCreateTopicEnable=false).
	DisableAutoCreateTopic bool
	// DisableAutoCreateGroup refuses consumer groups that were not created by
	// an administrator (autoCreateSubscriptionGroup=false).
	DisableAutoCreateGroup bool
	// DefaultTopicQueues is the number of queues of a topic that is created by
	// its first send, at most 8192; DefaultTopicQueues (8) by default. A
	// producer that asks for fewer gets fewer.
	DefaultTopicQueues int
	// MaxMessageSize bounds a message's body in bytes, at most 15 MiB;
	// DefaultMaxMessageSize (4 MiB) by default.
	MaxMessageSize int
	// TransactionTimeout is how old a transaction is before its producer is
	// asked about it; 6 s by default. TransactionInterval is the time between
	// two questions; 30 s by default. After TransactionChecks of them, 15 by
	// default, the message goes to TRANS_CHECK_MAX_TIME_TOPIC.
	TransactionTimeout  time.Duration
	TransactionInterval time.Duration
	TransactionChecks   int
	// IdleTimeout closes connections on which nothing arrived for so long;
	// DefaultIdleTimeout (120 s, as RocketMQ) by default.
	IdleTimeout time.Duration
	// Logger receives what an operator should know; slog.Default by default.
	Logger *slog.Logger
	// Now reads the wall clock; time.Now by default. Store times and due times
	// come from it.
	Now func() time.Time

	// tuneStore lets tests in this package change the store's options.
	tuneStore func(*store.Options)
	// maxInFlight bounds the requests of one connection that are in hand.
	maxInFlight int
}

// withDefaults checks o and fills in the defaults. Errors name field, value
// and what is allowed.
func (o Options) withDefaults() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("broker: Dir is empty: name a data directory")
	}
	if len(o.Listen) == 0 {
		o.Listen = []string{DefaultAddr}
		if len(o.NameServers) == 0 {
			o.Listen = append(o.Listen, DefaultNameServerAddr)
		}
	}
	for _, addr := range o.NameServers {
		if err := checkHostPort(addr, 1); err != nil {
			return o, fmt.Errorf("broker: NameServers: %w", err)
		}
	}
	for _, addr := range o.Listen {
		if err := checkHostPort(addr, 0); err != nil {
			return o, fmt.Errorf("broker: Listen: %w", err)
		}
	}
	if o.Advertise != "" {
		if err := checkHostPort(o.Advertise, 1); err != nil {
			return o, fmt.Errorf("broker: Advertise: %w", err)
		}
		host, _, _ := net.SplitHostPort(o.Advertise)
		if a, err := netip.ParseAddr(host); host == "" || err == nil && a.IsUnspecified() {
			return o, fmt.Errorf("broker: Advertise: %q is no address a client can dial: name a host", o.Advertise)
		}
	}
	for _, n := range []struct {
		field, def string
		value      *string
	}{{"BrokerName", DefaultBrokerName, &o.BrokerName}, {"ClusterName", DefaultClusterName, &o.ClusterName}} {
		if *n.value == "" {
			*n.value = n.def
		}
		if err := checkName(*n.value); err != nil {
			return o, fmt.Errorf("broker: %s: %w", n.field, err)
		}
	}
	if o.BrokerID < 0 {
		return o, fmt.Errorf("broker: BrokerID is %d: 0 or more is allowed", o.BrokerID)
	}
	if o.Flush != SyncFlush && o.Flush != AsyncFlush {
		return o, fmt.Errorf("broker: Flush is %d: SyncFlush and AsyncFlush are allowed", o.Flush)
	}
	if o.DefaultTopicQueues == 0 {
		o.DefaultTopicQueues = DefaultTopicQueues
	}
	if o.DefaultTopicQueues < 1 || o.DefaultTopicQueues > maxQueues {
		return o, fmt.Errorf("broker: DefaultTopicQueues is %d: 1 to %d is allowed", o.DefaultTopicQueues, maxQueues)
	}
	if o.MaxMessageSize == 0 {
		o.MaxMessageSize = DefaultMaxMessageSize
	}
	if o.MaxMessageSize < 1 || o.MaxMessageSize > maxMessageSizeLimit {
		return o, fmt.Errorf("broker: MaxMessageSize is %d: 1 to %d is allowed", o.MaxMessageSize, maxMessageSizeLimit)
	}
	for _, n := range []struct {
		field string
		value *time.Duration
		def   time.Duration
	}{{"TransactionTimeout", &o.TransactionTimeout, defaultTransactionTimeout}, {"TransactionInterval", &o.TransactionInterval, defaultTransactionInterval}} {
		if *n.value == 0 {
			*n.value = n.def
		}
		if *n.value < 0 {
			return o, fmt.Errorf("broker: %s is %v: a positive duration is allowed", n.field, *n.value)
		}
	}
	if o.TransactionChecks == 0 {
		o.TransactionChecks = defaultTransactionChecks
	}
	if o.TransactionChecks < 0 {
		return o, fmt.Errorf("broker: TransactionChecks is %d: 1 or more is allowed", o.TransactionChecks)
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = DefaultIdleTimeout
	}
	if o.IdleTimeout < 0 {
		return o, fmt.Errorf("broker: IdleTimeout is %v: a positive duration is allowed", o.IdleTimeout)
	}
	if o.FlushInterval < 0 {
		return o, fmt.Errorf("broker: FlushInterval is %v: a positive duration is allowed", o.FlushInterval)
	}
	if err := o.Retention.check(); err != nil {
		return o, err
	}
	if o.SegmentBytes != 0 && (o.SegmentBytes < minSegmentBytes || o.SegmentBytes > maxSegmentBytes) {
		return o, fmt.Errorf("broker: SegmentBytes is %d: %d to %d is allowed", o.SegmentBytes, minSegmentBytes, maxSegmentBytes)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.maxInFlight == 0 {
		o.maxInFlight = defaultInFlight
	}
	return o, nil
}

// checkHostPort checks HOST:PORT; the port is a number from minPort to 65535.
func checkHostPort(addr string, minPort int) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%q is not HOST:PORT: %w", addr, err)
	}
	if n, err := strconv.Atoi(port); err != nil || n < minPort || n > 65535 {
		return fmt.Errorf("%q has port %q: %d to 65535 is allowed", addr, port, minPort)
	}
	return nil
}

// checkName checks a name that goes into JSON bodies which clients take apart
// by hand: the Go client cuts at commas, colons and quotes.
func checkName(name string) error {
	if len(name) > maxName {
		return fmt.Errorf("%.40q… is %d bytes long, at most %d", name, len(name), maxName)
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.' {
			continue
		}
		return fmt.Errorf("%q has the character %q: letters, digits, '_', '-' and '.' are allowed", name, c)
	}
	return nil
}

// advertised resolves Advertise. ok is false when it is not set.
func (o *Options) advertised(ctx context.Context) (addr netip.AddrPort, ok bool, err error) {
	if o.Advertise == "" {
		return netip.AddrPort{}, false, nil
	}
	host, portText, err := net.SplitHostPort(o.Advertise)
	if err != nil {
		return netip.AddrPort{}, false, err
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return netip.AddrPort{}, false, err
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return netip.AddrPort{}, false, fmt.Errorf("broker: Advertise %q: %w", o.Advertise, err)
		}
		ip = ips[0]
		for _, other := range ips { // a 32-digit message id is understood by every client
			if other.Unmap().Is4() {
				ip = other
				break
			}
		}
	}
	return netip.AddrPortFrom(ip.Unmap().WithZone(""), uint16(port)), true, nil
}
