package crash

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestKill sends at several levels from 8 producers and consumes, while the
// broker is killed with SIGKILL at random moments, at least 5 times in each
// flush mode.
func TestKill(t *testing.T) {
	seed := newSeed(t)
	kills := number(t, "TIDEMQ_CRASH_KILLS", 8)
	for i, flush := range []string{"sync", "async"} {
		t.Run(flush, func(t *testing.T) {
			t.Parallel()
			testKill(t, seed+uint64(i), flush, int(kills))
		})
	}
}

func testKill(t *testing.T, seed uint64, flush string, kills int) {
	rng := rand.New(rand.NewPCG(seed, 0))
	b := newBroker(t, rng, flush)
	b.start()
	l := startLoad(t, seed, b.addr, "broker is starting")
	w := startWatch(t, b.addr)
	atStart := 0
	for i := range kills {
		// A number of sends, or of deliveries from levels, from now on.
		if i%2 == 0 {
			n := l.acks() + 100 + rng.IntN(1500)
			until(t, "sends are acknowledged", func() bool { return l.acks() >= n })
		} else {
			n := w.delivered.Load() + 50 + rng.Int64N(700)
			until(t, "messages are delivered", func() bool { return w.delivered.Load() >= n })
		}
		b.kill()
		back := func() {}
		if rng.IntN(2) == 0 {
			back = w.leave()
		}
		if rng.IntN(3) == 0 { // and again while it recovers, or just after
			b.launch()
			time.Sleep(time.Duration(rng.IntN(60)) * time.Millisecond)
			b.kill()
			atStart++
		}
		b.start()
		back()
	}
	l.stop()
	a := newAccount(t, b.addr, l)
	a.await()
	a.verdict()
	w.await(a.records())
	w.close()
	a.read() // nothing came meanwhile
	w.compare(w.all(), a.records())
	b.stop()

	// The log alone tells the same.
	b.removeDerived()
	b.start()
	again := a.anew()
	again.read()
	if diff := cmp.Diff(a.records(), again.records(), cmp.AllowUnexported(place{}, view{})); diff != "" {
		t.Errorf("derived from the log again, the topic has changed:\n%.4000s", diff)
	}
	b.stop()
	b.checkLog()
	t.Logf("%d kills, %d of them during a start; %v", kills+atStart, atStart, w)
}
