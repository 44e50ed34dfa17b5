package conf

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tidemq/tidemq/broker"
)

// options returns what a file makes of the broker's options.
func options(t *testing.T, content string) (broker.Options, *File) {
	t.Helper()
	f, err := Parse("broker.conf", []byte(content))
	if err != nil {
		t.Fatalf("Parse(%q): %v", content, err)
	}
	var o broker.Options
	f.Apply(&o)
	return o, f
}

func TestValues(t *testing.T) {
	cases := []struct {
		name, content string
		want          broker.Options
	}{
		{"empty file", "", broker.Options{}},
		{"comments and blanks", "# a comment\n! another\n\n  \n", broker.Options{}},
		{"name", "brokerName=broker-a_1.x", broker.Options{BrokerName: "broker-a_1.x"}},
		{"spaces around", "  brokerName =  broker-a  ", broker.Options{BrokerName: "broker-a"}},
		{"colon divides too", "brokerName: broker-a", broker.Options{BrokerName: "broker-a"}},
		{"windows line ends", "brokerName=a\r\nmaxMessageSize=7\r\n", broker.Options{BrokerName: "a", MaxMessageSize: 7}},
		{"the last one counts", "brokerName=a\nbrokerName=b\n", broker.Options{BrokerName: "b"}},
		{"cluster", "brokerClusterName=C", broker.Options{ClusterName: "C"}},
		{"sync", "flushDiskType=SYNC_FLUSH", broker.Options{Flush: broker.SyncFlush}},
		{"async", "flushDiskType=ASYNC_FLUSH", broker.Options{Flush: broker.AsyncFlush}},
		{"flush interval", "flushIntervalCommitLog=250", broker.Options{FlushInterval: 250 * time.Millisecond}},
		{"data directory", "storePathRootDir=/var/lib/tide mq", broker.Options{Dir: "/var/lib/tide mq"}},
		{"data directory in UTF-8", "storePathRootDir=/srv/größe", broker.Options{Dir: "/srv/größe"}},
		{"no expansion", "storePathRootDir=${user.home}/store", broker.Options{Dir: "${user.home}/store"}},
		{"levels", "messageDelayLevel=1s  90s 2h 1d", broker.Options{DelayLevels: "1s 90s 2h 1d"}},
		{"levels over two lines", "messageDelayLevel=1s \\\n  5s", broker.Options{DelayLevels: "1s 5s"}},
		{"message size", "maxMessageSize=4194304", broker.Options{MaxMessageSize: 4 << 20}},
		{"largest message size", "maxMessageSize=15728640", broker.Options{MaxMessageSize: 15 << 20}},
		{"queues", "defaultTopicQueueNums=16", broker.Options{DefaultTopicQueues: 16}},
		{"transactions", "transactionTimeOut=1500\ntransactionCheckInterval=2000\ntransactionCheckMax=3", broker.Options{
			TransactionTimeout: 1500 * time.Millisecond, TransactionInterval: 2 * time.Second, TransactionChecks: 3,
		}},
		{"most queues", "defaultTopicQueueNums=8192", broker.Options{DefaultTopicQueues: 8192}},
		{"no topics by themselves", "autoCreateTopicEnable=false", broker.Options{DisableAutoCreateTopic: true}},
		{"topics by themselves", "autoCreateTopicEnable=TRUE", broker.Options{}},
		{"no groups by themselves", "autoCreateSubscriptionGroup=False", broker.Options{DisableAutoCreateGroup: true}},
		{"idle", "serverChannelMaxIdleTimeSeconds=30", broker.Options{IdleTimeout: 30 * time.Second}},
		{"port", "listenPort=20911", broker.Options{Listen: []string{"127.0.0.1:20911", "127.0.0.1:9876"}}},
		{"the name server's port", "listenPort=9876", broker.Options{Listen: []string{"127.0.0.1:9876"}}},
		{"bind", "bindAddress=0.0.0.0", broker.Options{Listen: []string{"0.0.0.0:10911", "0.0.0.0:9876"}}},
		{"bind IPv6", "bindAddress=::1\nlistenPort=1", broker.Options{Listen: []string{"[::1]:1", "[::1]:9876"}}},
		{"public address", "brokerIP1=10.1.2.3\nlistenPort=20911", broker.Options{Listen: []string{"0.0.0.0:20911", "0.0.0.0:9876"}}},
		{"public name", "brokerIP1=mq.example.org", broker.Options{Listen: []string{"0.0.0.0:10911", "0.0.0.0:9876"}}},
		{"public address, own bind", "brokerIP1=10.1.2.3\nbindAddress=127.0.0.1", broker.Options{Listen: []string{"127.0.0.1:10911", "127.0.0.1:9876"}}},
		{"loopback", "brokerIP1=127.0.0.1", broker.Options{}},
		{"master", "brokerRole=ASYNC_MASTER\nbrokerId=0", broker.Options{}},
		{"retention", "fileReservedTime=48\ndeleteWhen=04;16\ndiskMaxUsedSpaceRatio=60\nfileReservedBytes=1048576\ndiskSpaceCleanForciblyRatio=90", broker.Options{
			Retention: broker.Retention{Age: 48 * time.Hour, Hours: []int{4, 16}, DiskRatio: 60, MaxBytes: 1 << 20, DiskForceRatio: 90},
		}},
		{"never by force", "diskSpaceCleanForciblyRatio=90\ncleanFileForciblyEnable=false", broker.Options{}},
		{"segments", "mappedFileSizeCommitLog=65536", broker.Options{SegmentBytes: 64 << 10}},
		{"permission", "brokerPermission=6\naclEnable=false\nauthenticationEnabled=FALSE\nauthorizationEnabled=false", broker.Options{}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o, f := options(t, c.content)
			if diff := cmp.Diff(c.want, o, cmpopts.IgnoreUnexported(broker.Options{}), cmpopts.IgnoreFields(broker.Options{}, "Now")); diff != "" {
				t.Errorf("options of %q (-want +got):\n%s", c.content, diff)
			}
			if len(f.Warnings) > 0 {
				t.Errorf("warnings of %q: %q, want none", c.content, f.Warnings)
			}
			// What this package lets pass the broker must take.
			o.Dir = "unused"
			if _, err := broker.New(o); err != nil {
				t.Errorf("broker.New refuses what %q gives: %v", c.content, err)
			}
		})
	}
}

func TestBadValues(t *testing.T) {
	long := strings.Repeat("x", 128)
	cases := []struct{ line, allowed string }{
		{"flushDiskType=sync", "SYNC_FLUSH and ASYNC_FLUSH"},
		{"flushDiskType=", "SYNC_FLUSH and ASYNC_FLUSH"},
		{"flushIntervalCommitLog=0", "1 to 3600000 (milliseconds)"},
		{"flushIntervalCommitLog=5.5", "1 to 3600000 (milliseconds)"},
		{"flushCommitLogTimed=yes", "true and false"},
		{"maxMessageSize=4M", "1 to 15728640 (bytes)"},
		{"maxMessageSize=0", "1 to 15728640 (bytes)"},
		{"maxMessageSize=-1", "1 to 15728640 (bytes)"},
		{"maxMessageSize=15728641", "1 to 15728640 (bytes)"},
		{"maxMessageSize=99999999999999999999", "1 to 15728640 (bytes)"},
		{"defaultTopicQueueNums=0", "1 to 8192"},
		{"transactionTimeOut=0", "1 to 86400000"},
		{"transactionCheckMax=1001", "1 to 1000"},
		{"defaultTopicQueueNums=8193", "1 to 8192"},
		{"autoCreateTopicEnable=1", "true and false"},
		{"autoCreateSubscriptionGroup=", "true and false"},
		{"listenPort=0", "1 to 65535"},
		{"listenPort=65536", "1 to 65535"},
		{"listenPort=10911 # main", "1 to 65535"},
		{"bindAddress=example.org", "IP address"},
		{"brokerIP1=", "that clients can dial"},
		{"brokerIP1=0.0.0.0", "that clients can dial"},
		{"brokerIP1=::", "that clients can dial"},
		{"brokerIP1=10.0.0.1:10911", "without a port"},
		{"brokerName=", "letters, digits"},
		{"brokerName=a b", "letters, digits"},
		{"brokerName=a\"b", "letters, digits"},
		{"brokerName=" + long, "1 to 127"},
		{"brokerClusterName=größe", "letters, digits"},
		{"brokerId=-1", "0 or more"},
		{"brokerId=one", "0 or more"},
		{"brokerRole=SLAVE", "ASYNC_MASTER is allowed"},
		{"brokerRole=MASTER", "ASYNC_MASTER is allowed"},
		{"storePathRootDir=", "a directory is expected"},
		{"messageDelayLevel=", "1 to 1000 words"},
		{"messageDelayLevel=1s 5x", `level 2: "5x"`},
		{"messageDelayLevel=1s 0s", `level 2: "0s"`},
		{"messageDelayLevel=1s -5s", `level 2: "-5s"`},
		{"messageDelayLevel=1s,5s", `level 1: "1s,5s"`},
		{"messageDelayLevel=10001d", "at most 10000d"},
		{"fileReservedTime=two", "1 to 1000000 (hours)"},
		{"fileReservedTime=0", "1 to 1000000 (hours)"},
		{"fileReservedBytes=1048575", "1048576 bytes or more"},
		{"diskSpaceCleanForciblyRatio=-1", "0 to 100"},
		{"mappedFileSizeCommitLog=65535", "65536 bytes or more"},
		{"deleteWhen=24", "from 00 to 23"},
		{"deleteWhen=04;x", "from 00 to 23"},
		{"diskMaxUsedSpaceRatio=101", "0 to 100"},
		{"serverChannelMaxIdleTimeSeconds=0", "1 to 86400 (seconds)"},
		{"namesrvAddr=localhost", "HOST:PORT"},
		{"aclEnable=true", "only false is allowed"},
		{"authenticationEnabled=true", "only false is allowed"},
		{"authorizationEnabled=true", "only false is allowed"},
		{"brokerPermission=4", "only 6 is allowed"},
		{"enableDLegerCommitLog=ja", "true and false"},
	}
	for _, c := range cases {
		t.Run(c.line, func(t *testing.T) {
			_, err := Parse("broker.conf", []byte(c.line+"\n"))
			if err == nil {
				t.Fatalf("Parse(%q) succeeded, want an error with %q", c.line, c.allowed)
			}
			key, value, _ := strings.Cut(c.line, "=")
			for _, part := range []string{"broker.conf: ", key + "=" + value[:min(len(value), 60)], c.allowed} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("Parse(%q): %q, want it to say %q", c.line, err, part)
				}
			}
		})
	}
}

func TestBadValuesAreReportedTogether(t *testing.T) {
	_, err := Parse("x.conf", []byte("maxMessageSize=none\nbrokerName=ok\nflushDiskType=none\n"))
	if err == nil {
		t.Fatal("Parse succeeded")
	}
	if got := strings.Split(err.Error(), "\n"); len(got) != 2 || !strings.Contains(got[0], "maxMessageSize") || !strings.Contains(got[1], "flushDiskType") {
		t.Errorf("errors are %q, want one about each of the two keys", got)
	}
}

func TestFormat(t *testing.T) {
	if _, err := Parse("broker.conf", []byte(`brokerName=\u12`)); err == nil || !strings.Contains(err.Error(), "broker.conf: not in key=value format") {
		t.Errorf("a broken escape gave %v", err)
	}
}

func TestWarnings(t *testing.T) {
	cases := []struct {
		name, content string
		want          []string // one part of each warning, in order
	}{
		{"unknown", "whatever.this=1", []string{"unknown key whatever.this, ignored"}},
		{"misspelt", "messageDelayLevels=1s", []string{"unknown key messageDelayLevels, ignored; is messageDelayLevel meant?"}},
		{"wrong case", "BrokerName=a", []string{"is brokerName meant?"}},
		{"sync master", "brokerRole=SYNC_MASTER", []string{"brokerRole=SYNC_MASTER: there are no replicas yet"}},
		{"id", "brokerId=3", []string{"brokerId=3: a master's id is 0"}},
		{"name servers", "namesrvAddr=10.0.0.1:9876;10.0.0.2:9876", nil},
		{"no name server", "namesrvAddr=", nil},
		{"retention", "fileReservedTime=72\ndeleteWhen=04;16\ndiskMaxUsedSpaceRatio=75", nil},
		{"RocketMQ's files", "mappedFileSizeCommitLog=1073741824", []string{"at most 67108864 bytes here"}},
		{"other paths", "storePathCommitLog=/x", []string{"everything is kept in the data directory"}},
		{"dledger", "enableDLegerCommitLog=true", []string{"runs alone"}},
		{"no dledger", "enableDLegerCommitLog=false", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, f := options(t, c.content)
			if len(f.Warnings) != len(c.want) {
				t.Fatalf("warnings are %q, want %d", f.Warnings, len(c.want))
			}
			for i, part := range c.want {
				if !strings.Contains(f.Warnings[i], part) {
					t.Errorf("warning %d is %q, want it to say %q", i, f.Warnings[i], part)
				}
			}
		})
	}
}

// The settings that Apache's sample files have, in files of our own.
func TestFilesAsApacheShipsThem(t *testing.T) {
	master := "brokerClusterName = DefaultCluster\nbrokerName = broker-a\nbrokerId = 0\ndeleteWhen = 04\n" +
		"fileReservedTime = 48\nbrokerRole = %ROLE%\nflushDiskType = ASYNC_FLUSH\n"
	cases := []struct {
		name, content string
		warnings      int
	}{
		{"broker.conf and 2m-noslave", strings.ReplaceAll(master, "%ROLE%", "ASYNC_MASTER"), 0},
		{"2m-2s-sync, master", strings.ReplaceAll(master, "%ROLE%", "SYNC_MASTER"), 1},
		{"dledger", "brokerClusterName = RaftCluster\nbrokerName=RaftNode00\nlistenPort=30911\nnamesrvAddr=127.0.0.1:9876\n" +
			"storePathRootDir=/data/node00\nstorePathCommitLog=/data/node00/commitlog\nenableDLegerCommitLog=true\n" +
			"dLegerGroup=RaftNode00\ndLegerPeers=n0-127.0.0.1:40911;n1-127.0.0.1:40912\ndLegerSelfId=n0\nsendMessageThreadPoolNums=16\n", 2},
		{"in a container", "brokerName=a\nbrokerId=0\nbrokerRole=SYNC_MASTER\nlistenPort=10911\nhaListenPort=10912\ntotalReplicas=2\n" +
			"inSyncReplicas=2\nminInSyncReplicas=1\nenableAutoInSyncReplicas=true\nslaveReadEnable=true\nenableSlaveActingMaster=true\n", 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o, f := options(t, c.content)
			if len(f.Warnings) != c.warnings {
				t.Errorf("warnings are %q, want %d", f.Warnings, c.warnings)
			}
			if slices.ContainsFunc(f.Warnings, func(w string) bool { return strings.Contains(w, "unknown key") }) {
				t.Errorf("keys of a sample file are unknown: %q", f.Warnings)
			}
			o.Dir = "unused"
			if _, err := broker.New(o); err != nil {
				t.Errorf("broker.New: %v", err)
			}
		})
	}
	if _, err := Parse("broker.conf", []byte(strings.ReplaceAll(master, "%ROLE%", "SLAVE"))); err == nil {
		t.Error("a replica's file was accepted")
	}
}

func TestNotes(t *testing.T) {
	_, f := options(t, "sendMessageThreadPoolNums=16\nhaListenPort=10912\n")
	want := []string{"broker.conf: without effect here: haListenPort, sendMessageThreadPoolNums"}
	if diff := cmp.Diff(want, f.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

func TestAdvertise(t *testing.T) {
	cases := []struct {
		name, content string
		listen        []string
		want          string
		fails         bool
	}{
		{"not named", "", []string{"127.0.0.1:1"}, "", false},
		{"default port", "brokerIP1=10.0.0.9", nil, "10.0.0.9:10911", false},
		{"the listener's port", "brokerIP1=10.0.0.9", []string{"0.0.0.0:20911", "0.0.0.0:9876"}, "10.0.0.9:20911", false},
		{"IPv6", "brokerIP1=fd00::1", []string{"[::]:20911"}, "[fd00::1]:20911", false},
		{"any port", "brokerIP1=10.0.0.9", []string{"127.0.0.1:0"}, "", true},
		{"no port", "brokerIP1=10.0.0.9", []string{"127.0.0.1"}, "", true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, f := options(t, c.content)
			got, err := f.Advertise(c.listen)
			if got != c.want || (err != nil) != c.fails {
				t.Errorf("Advertise(%q) = %q, %v; want %q, error %v", c.listen, got, err, c.want, c.fails)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "my.conf")
	if err := os.WriteFile(file, []byte("brokerName=ok\nmaxMessageSize=x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(dir, "large.conf")
	if err := os.WriteFile(large, make([]byte, maxFileSize+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, part := range map[string]string{
		file:                            file + ": maxMessageSize=x",
		dir:                             "is a directory",
		large:                           "is over 1048576 bytes",
		filepath.Join(dir, "none.conf"): "no such file",
	} {
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("Load(%s): %v, want it to say %q", path, err, part)
		}
	}
}

func TestTuningKeysAreApart(t *testing.T) {
	for key := range keys {
		if hasNoEffect(key) {
			t.Errorf("%s is read and also listed as without effect", key)
		}
	}
	list := strings.Split(strings.TrimSuffix(tuningText, "\n"), "\n")
	if !slices.IsSorted(list) || len(slices.Compact(slices.Clone(list))) != len(list) {
		t.Error("tuning.txt is not sorted or repeats a key")
	}
}
