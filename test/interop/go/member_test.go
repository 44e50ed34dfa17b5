package interop

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// memberCommand makes the test binary a push consumer, so that it can die as
// processes do.
const memberCommand = "interop-member"

// runMember consumes topic and writes "got KEY QUEUE@OFFSET" for each message
// until its standard input ends, as it would when its parent is gone.
func runMember(addr, group, topic string) {
	var mu sync.Mutex
	c, err := startPush(addr, group, topic, "*", func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		mu.Lock()
		defer mu.Unlock()
		for _, m := range messages {
			fmt.Printf("got %s %d@%d\n", m.GetKeys(), m.Queue.QueueId, m.QueueOffset)
		}
		return consumer.ConsumeSuccess, nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "member:", err)
		os.Exit(1)
	}
	io.Copy(io.Discard, os.Stdin)
	c.Shutdown()
}

// member is a consumer in another process, of this client or of Java's.
type member struct {
	cmd   *exec.Cmd
	stdin io.Closer
	done  chan struct{}

	mu     sync.Mutex
	places map[string]string // key → place
	twice  []string
}

func goMember(t *testing.T, group, topic string) *member {
	t.Helper()
	return startMember(t, exec.Command(os.Args[0], memberCommand, sharedAddr, group, topic))
}

// javaMember starts the Java suite's ConsumerProcess.
func javaMember(t *testing.T, group, topic string) *member {
	t.Helper()
	classPath := os.Getenv("TIDEMQ_INTEROP_JAVA_CP")
	if classPath == "" {
		t.Fatal("TIDEMQ_INTEROP_JAVA_CP is the class path of the Java suite; run.sh sets it")
	}
	return startMember(t, exec.Command("java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.home="+t.TempDir(),
		"-cp", classPath, "com.github.tidemq.interop.ConsumerProcess", sharedAddr, group, topic))
}

func startMember(t *testing.T, cmd *exec.Cmd) *member {
	t.Helper()
	m := &member{cmd: cmd, done: make(chan struct{}), places: map[string]string{}}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if m.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(m.done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if words := strings.Fields(lines.Text()); len(words) == 3 && words[0] == "got" {
				m.take(words[1], words[2])
			}
		}
		cmd.Wait()
	}()
	t.Cleanup(m.kill)
	return m
}

func (m *member) take(key, place string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if before, ok := m.places[key]; ok {
		m.twice = append(m.twice, fmt.Sprintf("%s at %s and %s", key, before, place))
	}
	m.places[key] = place
}

// kill ends the member by SIGKILL; it leaves nothing and says nothing.
func (m *member) kill() {
	m.cmd.Process.Kill()
	<-m.done
}

// got returns key → place of the keys that begin with prefix.
func (m *member) got(prefix string) map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	got := maps.Clone(m.places)
	maps.DeleteFunc(got, func(key, _ string) bool { return !strings.HasPrefix(key, prefix) })
	return got
}

// queuesOf returns the sorted queue ids in the places of got.
func queuesOf(got map[string]string) []string {
	var ids []string
	for _, place := range got {
		id, _, _ := strings.Cut(place, "@")
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
