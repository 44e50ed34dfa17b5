// Package crash kills a real broker with SIGKILL under load, again and again,
// and accounts for every message.
package crash

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	// The broker is built and run as a process; by this import the test counts
	// as changed, and is not answered from the cache, when the broker changes.
	_ "github.com/tidemq/tidemq/broker"
	"github.com/tidemq/tidemq/client"
)

const (
	producers = 8
	queues    = 4
	topic     = "crash"
	kills     = 5
	levels    = "1s 2s 3s"
)

// broker is one `tidemq serve`, killed and started again on the same data.
type broker struct {
	t         *testing.T
	bin, dir  string
	addr      string
	flush     string
	cmd       *exec.Cmd
	starts    int
	stderrLog *os.File
}

func (b *broker) start() {
	b.t.Helper()
	b.cmd = exec.Command(b.bin, "serve", "--data", filepath.Join(b.dir, "data"), "--listen", b.addr, "--flush", b.flush, "--config", filepath.Join(b.dir, "broker.conf"))
	b.cmd.Stderr = b.stderrLog
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.starts++
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "tidemq ready on ") {
		b.t.Fatalf("start %d: %q, %v; see %s", b.starts, line, err, b.stderrLog.Name())
	}
}

func (b *broker) kill() {
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
}

// sent is one message and what became of its send.
type sent struct {
	level int
	sum   [32]byte
	acked bool
}

// TestKill sends at several levels from 8 producers, while the broker is
// killed at random moments, at least 5 times in each flush mode: every
// acknowledged message is exactly once in its real topic, one without an
// answer at most once, none early, bodies and properties whole, offsets dense.
func TestKill(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "tidemq")
	if out, err := exec.Command("go", "build", "-o", bin, "github.com/tidemq/tidemq/cmd/tidemq").CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	for _, mode := range []string{"sync", "async"} {
		t.Run(mode, func(t *testing.T) { killRun(t, bin, mode) })
	}
}

func killRun(t *testing.T, bin, mode string) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "broker.conf"), []byte("messageDelayLevel="+levels+"\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	logFile, err := os.Create(filepath.Join(dir, "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer logFile.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	b := &broker{t: t, bin: bin, dir: dir, addr: addr, flush: mode, stderrLog: logFile}
	b.start()
	defer func() { b.kill() }()

	quiet := client.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	c, err := client.New([]string{addr}, quiet, client.WithRequestTimeout(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	defer c.Close(ctx)
	if err := c.Admin().CreateTopic(ctx, client.TopicConfig{Name: topic, ReadQueues: queues, WriteQueues: queues}); err != nil {
		t.Fatal(err)
	}
	p, err := c.NewProducer(client.WithRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(ctx)

	var stop atomic.Bool
	var acks atomic.Int64
	all := make([][]sent, producers)
	var wg sync.WaitGroup
	for n := range producers {
		r := rand.New(rand.NewPCG(seed, uint64(n)+2))
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				body := make([]byte, 16+r.IntN(3000))
				for j := range body {
					body[j] = byte(r.Uint32())
				}
				m := sent{level: r.IntN(5), sum: sha256.Sum256(body)}
				msg := &client.Message{Topic: topic, Body: body, Tags: "t" + strconv.Itoa(m.level), DelayLevel: m.level,
					Properties: map[string]string{"producer": strconv.Itoa(n), "seq": strconv.Itoa(i), "sentMs": strconv.FormatInt(time.Now().UnixMilli(), 10)}}
				sendCtx, cancel := context.WithTimeout(ctx, 2*time.Second)
				_, err := p.Send(sendCtx, msg)
				cancel()
				m.acked = err == nil
				all[n] = append(all[n], m)
				if m.acked {
					acks.Add(1)
				} else {
					time.Sleep(5 * time.Millisecond) // the broker is away
				}
			}
		})
	}
	for range kills {
		// Let a random number of sends be acknowledged, then kill.
		for want := acks.Load() + 200 + int64(rng.IntN(600)); acks.Load() < want; {
			time.Sleep(time.Millisecond)
		}
		b.kill()
		b.start()
	}
	stop.Store(true)
	wg.Wait()
	account(ctx, t, c, all)
}

// account reads the real topic's records until every acknowledged message is
// there, and checks each.
func account(ctx context.Context, t *testing.T, c *client.Client, all [][]sent) {
	t.Helper()
	pc, err := c.NewPullConsumer("accounting")
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close(ctx)
	qs, err := pc.Queues(ctx, topic)
	if err != nil || len(qs) != queues {
		t.Fatalf("queues %v, %v", qs, err)
	}
	acked := 0
	for _, ms := range all {
		for _, m := range ms {
			if m.acked {
				acked++
			}
		}
	}
	seen := map[string]int{}
	next := make([]int64, len(qs))
	found, extra := 0, 0
	read := func() {
		for i, q := range qs {
			for {
				r, err := pc.Pull(ctx, q, next[i], 32, 0, "*")
				if err != nil {
					t.Fatalf("pull %v at %d: %v", q, next[i], err)
				}
				for _, m := range r.Messages {
					if m.QueueOffset != next[i] {
						t.Fatalf("%v: offset %d where %d was expected", q, m.QueueOffset, next[i])
					}
					next[i]++
					n, _ := strconv.Atoi(m.Properties["producer"])
					seq, _ := strconv.Atoi(m.Properties["seq"])
					sentMs, _ := strconv.ParseInt(m.Properties["sentMs"], 10, 64)
					if n < 0 || n >= len(all) || seq < 0 || seq >= len(all[n]) {
						t.Fatalf("%v at %d: a message nobody sent: %v", q, m.QueueOffset, m.Properties)
					}
					want := all[n][seq]
					if m.Topic != topic || sha256.Sum256(m.Body) != want.sum || m.Tags != "t"+strconv.Itoa(want.level) {
						t.Errorf("%d/%d came back changed", n, seq)
					}
					if early := sentMs + int64(min(want.level, 3))*1000 - m.StoreTime.UnixMilli(); early > 0 {
						t.Errorf("%d/%d is %d ms early", n, seq, early)
					}
					key := fmt.Sprintf("%d/%d", n, seq)
					if seen[key]++; seen[key] > 1 {
						t.Errorf("%s is there %d times", key, seen[key])
						continue
					}
					if want.acked {
						found++
					} else {
						extra++
					}
				}
				if len(r.Messages) == 0 {
					break
				}
			}
		}
	}
	// A bounded wait for the last level; what decides is the count.
	for deadline := time.Now().Add(30 * time.Second); found < acked && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		read()
	}
	read()
	t.Logf("%d acknowledged, %d found; %d more were stored without an answer", acked, found, extra)
	if found != acked {
		t.Errorf("%d acknowledged messages are lost", acked-found)
	}
}
