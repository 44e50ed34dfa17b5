package client

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
