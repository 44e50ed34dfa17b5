package conf

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/magiconair/properties"

	"github.com/tidemq/tidemq/broker"
)

// maxFileSize bounds a configuration file, in bytes; Apache's are under 4 KiB.
const maxFileSize = 1 << 20

// File is what one broker.conf says. A zero field was not in it.
type File struct {
	// Warnings are what an operator should know before the broker serves:
	// unknown keys, promises that the file asks for and that are not kept yet.
	// Notes are harmless: keys without effect here.
	Warnings []string
	Notes    []string

	dir           string
	flush         *broker.FlushMode
	flushInterval time.Duration
	levels        string
	name, cluster string
	maxMessage    int
	topicQueues   int
	noAutoTopic   bool
	noAutoGroup   bool
	transTimeout  time.Duration
	transInterval time.Duration
	transChecks   int
	idle          time.Duration
	retention     broker.Retention
	diskRatio     *int
	noForce       bool
	segmentBytes  int
	listenPort    int
	bind          string
	ip            string
	nameServers   []string
}

// Load reads the file at path. Errors name the file; those about values also
// name key, value and what is allowed, all of them joined.
func Load(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("configuration file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("configuration file: %w", err)
	}
	if info.IsDir() {
		return nil, fmt.Errorf("configuration file %s is a directory: a file of key=value lines is expected", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("configuration file: %w", err)
	}
	if len(data) > maxFileSize {
		return nil, fmt.Errorf("configuration file %s is over %d bytes, the most that is read", path, maxFileSize)
	}
	return Parse(path, data)
}

// Parse reads a file's content; name stands for it in errors and warnings.
func Parse(name string, data []byte) (*File, error) {
	// Java's format, but UTF-8 where Java reads Latin-1, so that a path may
	// have any letter. "${…}" is text, as in Java.
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	props, err := loader.LoadBytes(data)
	if err != nil {
		return nil, fmt.Errorf("%s: not in key=value format: %w", name, err)
	}
	f := &File{}
	var errs []error
	var unaffected []string
	for _, key := range props.Keys() {
		value, _ := props.Get(key)
		value = strings.TrimSpace(value) // Java keeps blanks at the end; they never mean anything
		k, known := keys[key]
		switch {
		case known:
			warning, err := k.apply(f, value)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %s=%s: %w", name, key, shorten(value), err))
			}
			if warning != "" {
				f.Warnings = append(f.Warnings, fmt.Sprintf("%s: %s=%s: %s", name, key, shorten(value), warning))
			}
		case hasNoEffect(key):
			unaffected = append(unaffected, key)
		default:
			f.Warnings = append(f.Warnings, unknown(name, key))
		}
	}
	if len(unaffected) > 0 {
		slices.Sort(unaffected)
		f.Notes = append(f.Notes, fmt.Sprintf("%s: without effect here: %s", name, strings.Join(unaffected, ", ")))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return f, nil
}

// UseNameServers replaces the name servers that the file names.
func (f *File) UseNameServers(list []string) { f.nameServers = list }

// Apply sets in o what the file says. Fields that the command line decides are
// set by the caller afterwards, Advertise last of all with [File.Advertise].
func (f *File) Apply(o *broker.Options) {
	if f.dir != "" {
		o.Dir = f.dir
	}
	if f.flush != nil {
		o.Flush = *f.flush
	}
	if f.flushInterval > 0 {
		o.FlushInterval = f.flushInterval
	}
	if f.levels != "" {
		o.DelayLevels = f.levels
	}
	if f.name != "" {
		o.BrokerName = f.name
	}
	if f.cluster != "" {
		o.ClusterName = f.cluster
	}
	if f.maxMessage > 0 {
		o.MaxMessageSize = f.maxMessage
	}
	if f.topicQueues > 0 {
		o.DefaultTopicQueues = f.topicQueues
	}
	if f.idle > 0 {
		o.IdleTimeout = f.idle
	}
	o.NameServers = f.nameServers
	f.applyRetention(&o.Retention)
	if f.segmentBytes > 0 {
		o.SegmentBytes = f.segmentBytes
	}
	o.DisableAutoCreateTopic = f.noAutoTopic
	o.DisableAutoCreateGroup = f.noAutoGroup
	o.TransactionTimeout, o.TransactionInterval, o.TransactionChecks = f.transTimeout, f.transInterval, f.transChecks
	if listen := f.listen(); len(listen) > 0 {
		o.Listen = listen
	}
}

// DefaultRetention is RocketMQ's: what is older than three days is deleted at
// four in the morning, or at any hour when more than 75 % of the disk are in
// use. Unlike RocketMQ's, it never deletes what is younger, for want of room.
func DefaultRetention() broker.Retention {
	return broker.Retention{Age: 72 * time.Hour, Hours: []int{4}, DiskRatio: 75}
}

func (f *File) applyRetention(r *broker.Retention) {
	if f.retention.Age > 0 {
		r.Age = f.retention.Age
	}
	if f.retention.Hours != nil {
		r.Hours = f.retention.Hours
	}
	if f.diskRatio != nil {
		r.DiskRatio = *f.diskRatio
	}
	r.MaxBytes, r.DiskForceRatio = f.retention.MaxBytes, f.retention.DiskForceRatio
	if f.noForce {
		r.DiskForceRatio = 0
	}
}

// listen returns the addresses the file asks for: the broker's port and, as
// clients look there, the name server's. nil when it says nothing about it.
//
// RocketMQ listens on every address of the machine. We do so only when the
// file makes clear that other machines shall come in: by bindAddress, or by a
// brokerIP1 that is not this machine's own loopback.
func (f *File) listen() []string {
	if f.listenPort == 0 && f.bind == "" && !f.public() {
		return nil
	}
	host := f.bind
	if host == "" {
		host = "127.0.0.1"
		if f.public() {
			host = "0.0.0.0"
		}
	}
	_, brokerPort, _ := net.SplitHostPort(broker.DefaultAddr)
	_, namePort, _ := net.SplitHostPort(broker.DefaultNameServerAddr)
	if f.listenPort != 0 {
		brokerPort = strconv.Itoa(f.listenPort)
	}
	list := []string{net.JoinHostPort(host, brokerPort)}
	if brokerPort != namePort && len(f.nameServers) == 0 {
		list = append(list, net.JoinHostPort(host, namePort))
	}
	return list
}

// public reports whether brokerIP1 is an address that other machines use.
func (f *File) public() bool {
	if f.ip == "" || f.ip == "localhost" {
		return false
	}
	ip, err := netip.ParseAddr(f.ip)
	return err != nil || !ip.IsLoopback()
}

// Advertise returns the address that routes and message ids shall name:
// brokerIP1 with the port of the first listener, "" when the file has none. An
// error when that port is not known beforehand.
func (f *File) Advertise(listen []string) (string, error) {
	if f.ip == "" {
		return "", nil
	}
	_, port, _ := net.SplitHostPort(broker.DefaultAddr)
	if len(listen) > 0 {
		var err error
		if _, port, err = net.SplitHostPort(listen[0]); err != nil {
			return "", fmt.Errorf("listen address %q: %w", listen[0], err)
		}
	}
	if n, err := strconv.Atoi(port); err == nil && n == 0 {
		return "", fmt.Errorf("brokerIP1=%s needs a fixed port to be advertised with, %s takes any free one", f.ip, listen[0])
	}
	return net.JoinHostPort(f.ip, port), nil
}

// shorten keeps a value readable in a message.
func shorten(value string) string {
	const most = 80
	if len(value) <= most {
		return strings.Map(printable, value)
	}
	return strings.Map(printable, value[:most]) + "…"
}

func printable(r rune) rune {
	if strconv.IsPrint(r) {
		return r
	}
	return '?'
}
