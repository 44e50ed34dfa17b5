package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemq/tidemq/internal/remoting"
)

func TestServeReadyOnEveryListener(t *testing.T) {
	t.Parallel()
	s := startServe(t, 2, "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--listen", "127.0.0.1:0")
	if s.addrs[0] == s.addrs[1] {
		t.Fatalf("both listeners are on %s", s.addrs[0])
	}
	for _, addr := range s.addrs {
		// Each is broker and name server: the route and the send go there.
		must(t, "", "produce", "--addr", addr, "--topic", "t", "x")
	}
}

func TestServeStopsCleanly(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		dir := t.TempDir()
		s := startServe(t, 1, "--data", dir, "--listen", "127.0.0.1:0")
		must(t, s.addrs[0], "produce", "--topic", "t", "--level", "18", "pending")
		if code := s.end(t, sig); code != exitOK {
			t.Errorf("exit code after %v is %d, want 0\n%s", sig, code, s.logText())
		}
		s = startServe(t, 1, "--data", dir, "--listen", "127.0.0.1:0")
		body := decode[remoting.LevelsBody](t, must(t, s.addrs[0], "levels", "--pending", "--json"))
		if len(body.Levels) != 1 || body.Levels[0].Level != 18 || body.Levels[0].Pending != 1 {
			t.Errorf("after %v and a restart levels are %+v, want one message at level 18", sig, body.Levels)
		}
	}
}

func TestServeDefaultDirectory(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	r := tidemq(t, "", "serve", "--data", "", "--listen", "127.0.0.1:0")
	if r.code != exitUsage {
		t.Errorf("an empty --data gives exit code %d, want 2: %s", r.code, r.stderr)
	}
	conf := writeFile(t, "broker.conf", "storePathRootDir="+filepath.Join(work, "from-file")+"\n")
	startServe(t, 1, "--listen", "127.0.0.1:0", "--config", conf)
	if _, err := os.Stat(filepath.Join(work, "from-file")); err != nil {
		t.Errorf("storePathRootDir was not used: %v", err)
	}
	startServe(t, 1, "--listen", "127.0.0.1:0", "--config", conf, "--data", filepath.Join(work, "from-flag"))
	if _, err := os.Stat(filepath.Join(work, "from-flag")); err != nil {
		t.Errorf("--data did not win over storePathRootDir: %v", err)
	}
}

func TestServeSecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServe(t, 1, "--data", dir, "--listen", "127.0.0.1:0")
	// With other ports and with the same ones, as two plain "serve" have: the
	// directory is what the second one is told of.
	for _, listen := range []string{"127.0.0.1:0", s.addrs[0]} {
		r := tidemq(t, "", "serve", "--data", dir, "--listen", listen)
		if r.code != exitFailed || r.stdout != "" {
			t.Errorf("the second process on %s ended with %d and printed %q, want 1 and nothing", listen, r.code, r.stdout)
		}
		wantAll(t, "standard error", r.stderr, dir, "in use by another process", fmt.Sprintf("process %d", s.cmd.Process.Pid))
	}

	r := tidemq(t, "", "serve", "--data", t.TempDir(), "--listen", s.addrs[0])
	if r.code != exitFailed {
		t.Errorf("a taken address gives exit code %d, want 1", r.code)
	}
	wantAll(t, "standard error", r.stderr, s.addrs[0], "address already in use", "--listen")
	must(t, s.addrs[0], "produce", "--topic", "t", "the first one is not harmed")

	// A kill leaves nothing behind that would keep the next one out.
	s.end(t, syscall.SIGKILL)
	startServe(t, 1, "--data", dir, "--listen", "127.0.0.1:0")
}

func TestServeConfigurationFile(t *testing.T) {
	t.Parallel()
	conf := writeFile(t, "broker.conf", `
# what Apache's sample has
brokerClusterName = DefaultCluster
brokerName = broker-a
brokerId = 0
deleteWhen = 04
fileReservedTime = 48
brokerRole = ASYNC_MASTER
flushDiskType = ASYNC_FLUSH
messageDelayLevel = 3s 1d
sendMessageThreadPoolNums = 16
messageDelayLevels = 1s
`)
	s := startServe(t, 1, "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--config", conf)
	var delays []string
	for _, l := range decode[remoting.LevelsBody](t, must(t, s.addrs[0], "levels", "--json")).Levels {
		delays = append(delays, l.Delay)
	}
	if diff := cmp.Diff([]string{"3s", "1d"}, delays); diff != "" {
		t.Errorf("levels (-want +got):\n%s", diff)
	}
	sent := decode[sent](t, must(t, s.addrs[0], "produce", "--topic", "t", "--json", "x"))
	if sent.Broker != "broker-a" {
		t.Errorf("the broker is called %q, want broker-a", sent.Broker)
	}
	s.end(t, syscall.SIGTERM)
	wantAll(t, "the log", s.logText(), "flush=ASYNC_FLUSH",
		"unknown key messageDelayLevels", "is messageDelayLevel meant?", "without effect here: sendMessageThreadPoolNums")
	if n := strings.Count(s.logText(), "level=WARN"); n != 1 {
		t.Errorf("the log has %d warnings, want 1 (the unknown key):\n%s", n, s.logText())
	}

	s = startServe(t, 1, "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--config", conf, "--flush", "sync")
	s.end(t, syscall.SIGTERM)
	wantAll(t, "the log", s.logText(), "flush=SYNC_FLUSH")
}

func TestServeAdvertise(t *testing.T) {
	t.Parallel()
	// The address is one that nobody can reach; it is only named.
	s := startServe(t, 1, "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--advertise", "192.0.2.7:4711")
	r := tidemq(t, s.addrs[0], "consume", "--topic", "t", "--timeout", "1s")
	if r.code != exitOK { // the topic does not exist, the route is asked of --addr
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
	if !strings.Contains(r.stderr, "does not exist yet") {
		t.Errorf("standard error is %q", r.stderr)
	}
}

func TestServeRefusesToStart(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "a-file", "x")
	taken := func(content string) []string {
		return []string{"--data", "unused", "--listen", "127.0.0.1:0", "--config", writeFile(t, "broker.conf", content)}
	}
	cases := []struct {
		name  string
		args  []string
		code  int
		parts []string
	}{
		{"bad value", taken("maxMessageSize=4M\n"), exitFailed, []string{"maxMessageSize=4M", "1 to 15728640 (bytes) is allowed"}},
		{"two bad values", taken("maxMessageSize=4M\nflushDiskType=NONE\n"), exitFailed, []string{"maxMessageSize=4M", "flushDiskType=NONE", "SYNC_FLUSH and ASYNC_FLUSH"}},
		{"bad level", taken("messageDelayLevel=1s 5q\n"), exitFailed, []string{"messageDelayLevel=1s 5q", `"5q"`, "s, m, h, d"}},
		{"replica", taken("brokerRole=SLAVE\n"), exitFailed, []string{"brokerRole=SLAVE", "ASYNC_MASTER is allowed"}},
		{"access control", taken("aclEnable=true\n"), exitFailed, []string{"aclEnable=true", "only false is allowed"}},
		{"no such file", []string{"--config", "/does/not/exist.conf"}, exitFailed, []string{"/does/not/exist.conf"}},
		{"data is a file", []string{"--data", file, "--listen", "127.0.0.1:0"}, exitFailed, []string{file}},
		{"address without port", []string{"--data", "unused", "--listen", "localhost"}, exitUsage, []string{`"localhost"`, "HOST:PORT"}},
		{"port too large", []string{"--data", "unused", "--listen", "127.0.0.1:65536"}, exitUsage, []string{"65536", "0 to 65535"}},
		{"nobody can dial it", []string{"--data", "unused", "--advertise", "0.0.0.0:1"}, exitUsage, []string{"0.0.0.0:1", "dial"}},
		{"flush", []string{"--flush", "often"}, exitUsage, []string{`"often"`, "sync and async"}},
		{"log level", []string{"--log-level", "loud"}, exitUsage, []string{`"loud"`, "debug, info, warn and error"}},
		{"a word too many", []string{"now"}, exitUsage, []string{`"now"`}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := tidemq(t, "", append([]string{"serve"}, c.args...)...)
			if r.code != c.code || r.stdout != "" {
				t.Errorf("exit code %d, standard output %q; want %d and nothing\n%s", r.code, r.stdout, c.code, r.stderr)
			}
			wantAll(t, "standard error", r.stderr, c.parts...)
		})
	}
	if _, err := os.Stat("unused"); err == nil {
		os.RemoveAll("unused")
		t.Error("a start that was refused made the data directory")
	}
}

func TestKillAndRestart(t *testing.T) {
	t.Parallel()
	for _, flush := range []string{"sync", "async"} {
		t.Run(flush, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			args := []string{"--data", dir, "--listen", "127.0.0.1:0", "--flush", flush, "--config", writeFile(t, "broker.conf", "messageDelayLevel=1s 2s\n")}
			s := startServe(t, 1, args...)
			var lines strings.Builder
			const n = 500
			for i := range n {
				fmt.Fprintf(&lines, "message %d\n", i)
			}
			r := tidemqWith(t, s.addrs[0], lines.String(), "produce", "--topic", "t", "--level", "1", "--quiet")
			if r.code != exitOK {
				t.Fatalf("produce: exit code %d: %s", r.code, r.stderr)
			}
			s.end(t, syscall.SIGKILL)
			s = startServe(t, 1, args...)
			out := must(t, s.addrs[0], "consume", "--topic", "t", "--group", "g", "--count", fmt.Sprint(n), "--timeout", patience.String(), "--json")
			seen := map[string]int{}
			for _, m := range decodeLines[received](t, out) {
				seen[m.Body]++
				if m.WaitedMs < 1000 {
					t.Errorf("%q is early: it waited %d ms at a level of 1s", m.Body, m.WaitedMs)
				}
			}
			for i := range n {
				if body := fmt.Sprintf("message %d", i); seen[body] != 1 {
					t.Errorf("%q came %d times, want once", body, seen[body])
				}
			}
			// Nothing is pending, and nothing more is in the topic.
			body := decode[remoting.OffsetsBody](t, must(t, s.addrs[0], "offsets", "show", "--group", "g", "--topic", "t", "--json"))
			var stored int64
			for _, q := range body.Topics[0].Queues {
				stored += q.Max - q.Min
			}
			if stored != n || body.Topics[0].Lag != 0 {
				t.Errorf("the topic has %d records and the group a lag of %d, want %d and 0", stored, body.Topics[0].Lag, n)
			}
		})
	}
}
