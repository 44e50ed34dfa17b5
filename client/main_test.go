package client

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain gives the examples a broker to talk to, and looks for goroutines
// that were left.
func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	c, err := startFakeCluster(1)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	c.auto = true
	c.createTopic("orders", 4)
	os.Setenv("TIDEMQ_ADDR", c.brokers[0].addr)
	code := m.Run()
	c.close()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// newTestClient returns a client of the cluster that logs to t and is closed
// at its end.
func newTestClient(t testing.TB, c *fakeCluster, opts ...Option) *Client {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	cl, err := New(c.addrs(), append([]Option{WithLogger(log)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := cl.Close(ctx); err != nil {
			t.Errorf("close client: %v", err)
		}
	})
	return cl
}

// newTestProducer returns a producer of a client of its own.
func newTestProducer(t testing.TB, c *fakeCluster, opts ...ProducerOption) *Producer {
	t.Helper()
	p, err := newTestClient(t, c).NewProducer(opts...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
