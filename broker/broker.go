package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/schedule"
	"github.com/tidemq/tidemq/store"
)

// States of a Broker.
const (
	stateNew int32 = iota
	stateStarting
	stateRunning
	stateClosing
)

const (
	// pullWorkers run pulls that an arrival or the time woke.
	pullWorkers = 4
	// housekeeping is how often silent clients and expired locks and resets
	// are looked for, as RocketMQ `ClientHousekeepingService`.
	housekeeping = 10 * time.Second
	// clientTimeout: a client without a heartbeat for so long is gone.
	clientTimeout = 120 * time.Second
	// closeGrace is how long Close waits for requests in hand before it goes
	// on to close the store, which answers the rest, and then for answers that
	// wait to be written.
	closeGrace = 5 * time.Second
)

// Broker is one broker with its name server. See the package comment.
//
// Goroutines of its own: one for housekeeping, one for the check-back of
// transactions. Those of its connections, held
// pulls, scheduler and store are started and ended with it.
type Broker struct {
	opts      Options
	log       *slog.Logger
	levels    schedule.Levels
	advertise netip.AddrPort // zero: the address the client came in by
	started   time.Time
	// brokerIDText is the broker's id as routes and pull answers write it.
	brokerIDText string

	state    atomic.Int32
	server   server
	hold     *holder
	registry registry
	locks    queueLocks
	resets   resets
	exprs    expressions
	checks   checks
	pops     popWaits
	sends    budget // bytes of sends in the store's hands
	stats    statistics
	names    registration
	settings liveSettings
	// configured are the changeable settings as the options have them.
	configured map[string]string
	// wiped: routes show topics without the permission to write.
	wiped     atomic.Bool
	lock      *store.DirLock // of the directory, until the store has it
	store     *store.Store
	tables    *tables
	scheduler *schedule.Scheduler

	stop chan struct{}
	work sync.WaitGroup

	startMu   sync.Mutex
	closeOnce sync.Once
	closeErr  error
}

// New checks the options and returns a broker that is not started. Errors name
// the field, its value and what is allowed.
func New(opts Options) (*Broker, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	levels := schedule.DefaultLevels()
	if opts.DelayLevels != "" {
		if levels, err = schedule.ParseLevels(opts.DelayLevels); err != nil {
			return nil, fmt.Errorf("broker: DelayLevels: %w", err)
		}
	}
	b := &Broker{opts: opts, log: opts.Logger, levels: levels, stop: make(chan struct{})}
	b.brokerIDText = strconv.FormatInt(opts.BrokerID, 10)
	b.server.b = b
	b.checks.wake = make(chan struct{}, 1)
	b.settings.Store(opts.settings())
	b.configured = b.configuredSettings()
	b.sends.init(maxSendBytes)
	return b, nil
}

// Start locks the directory, binds the addresses, opens the store and serves.
// While the store is loading, every request is answered with code 14 (service
// not available). When Start returns nil all is served; when it returns an
// error nothing is left running or open, and the broker cannot be started
// again. ctx ends waiting for name resolution; it does not stop a broker that
// runs.
//
// Errors: ErrStarted, ErrClosed, ErrDirInUse (another process holds the
// directory), or what the network or file system answered.
func (b *Broker) Start(ctx context.Context) error {
	b.startMu.Lock()
	defer b.startMu.Unlock()
	if !b.state.CompareAndSwap(stateNew, stateStarting) {
		if b.state.Load() == stateClosing {
			return ErrClosed
		}
		return ErrStarted
	}
	if err := b.start(ctx); err != nil {
		return errors.Join(err, b.close())
	}
	return nil
}

func (b *Broker) start(ctx context.Context) error {
	b.started = time.Now()
	b.stats.init(b.started)
	var err error
	if b.advertise, _, err = b.opts.advertised(ctx); err != nil {
		return err
	}
	// Before the ports: a second broker with the same settings is told that
	// the directory is in use, which is what it has to do something about.
	if b.lock, err = store.LockDir(b.opts.Dir); err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	if err = b.server.listen(b.opts.Listen); err != nil {
		return err
	}
	b.hold = newHolder(pullWorkers, b.resumePull)
	b.server.accept()
	if err = b.openStore(); err != nil {
		return err
	}
	b.loadSettings()
	b.tables = newTables(b.store, &b.opts, &b.settings)
	b.scheduler.Start(b.store)
	b.work.Go(b.housekeep)
	b.work.Go(b.checkTransactions)
	b.names.init(b)
	b.state.Store(stateRunning)
	// Not before it serves: clients come by what name servers say.
	b.names.start(b)
	for _, addr := range b.Addrs() {
		b.log.Info("serving", "addr", addr)
	}
	return nil
}

// openStore opens the store with a scheduler that it can wake.
func (b *Broker) openStore() error {
	opts := store.Options{
		Dir:           b.opts.Dir,
		Lock:          b.lock,
		FlushInterval: b.opts.FlushInterval,
		SegmentBytes:  b.opts.SegmentBytes,
		Retention: store.Retention{
			Age: b.opts.Retention.Age, Hours: b.opts.Retention.Hours, MaxBytes: b.opts.Retention.MaxBytes,
			DiskRatio: b.opts.Retention.DiskRatio, DiskForceRatio: b.opts.Retention.DiskForceRatio,
		},
		Now:      b.opts.Now,
		Logger:   b.log,
		OnArrive: b.arrived,
	}
	if b.opts.Flush == AsyncFlush {
		opts.Flush = store.AsyncFlush
	}
	if b.opts.tuneStore != nil {
		b.opts.tuneStore(&opts)
	}
	scheduler := schedule.New(schedule.Options{
		Levels: b.levels,
		Logger: b.log,
		Alarm:  schedule.NewAlarm,
		// A table for operators; the log is the truth.
		OffsetFile: filepath.Join(b.opts.Dir, "config", "delayOffset.json"),
	})
	opts.OnPending = scheduler.Wake
	b.lock = nil // the store's from now on
	s, err := store.Open(opts)
	if err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	b.store, b.scheduler = s, scheduler
	return nil
}

// arrived is told of new entries of queues. It runs on the store's writer.
func (b *Broker) arrived(arrivals []store.Arrival) {
	b.stats.arrived(arrivals)
	b.hold.arrive(arrivals)
	b.pops.arrive(arrivals)
}

// Addrs returns the addresses that are listened on, in the order of
// Options.Listen; none before Start.
func (b *Broker) Addrs() []net.Addr {
	addrs := make([]net.Addr, len(b.server.listeners))
	for i, l := range b.server.listeners {
		addrs[i] = l.Addr()
	}
	return addrs
}

// Addr returns the first address as HOST:PORT, "" before Start.
func (b *Broker) Addr() string {
	if len(b.server.listeners) == 0 {
		return ""
	}
	return b.server.listeners[0].Addr().String()
}

// Healthy returns nil, or why sends are refused now: the broker is not
// running, or the store cannot write.
func (b *Broker) Healthy() error {
	if b.state.Load() != stateRunning {
		return b.notRunning()
	}
	return b.store.Healthy()
}

func (b *Broker) notRunning() error {
	if b.state.Load() == stateClosing {
		return refuse(remoting.ServiceNotAvailable, "broker is stopping")
	}
	return refuse(remoting.ServiceNotAvailable, "broker is starting")
}

// Close stops serving and closes the store: everything answered is synced, and
// the directory is released. It continues past failures and returns them
// joined. Idempotent; concurrent calls wait for the same.
func (b *Broker) Close() error {
	b.startMu.Lock() // a start in progress ends first
	defer b.startMu.Unlock()
	return b.close()
}

func (b *Broker) close() error {
	b.closeOnce.Do(func() { b.closeErr = b.shutDown() })
	return b.closeErr
}

func (b *Broker) shutDown() error {
	b.state.Store(stateClosing)
	close(b.stop)
	// First of all, so that clients turn to other brokers.
	b.names.close()
	// No new connections, so that what follows comes to an end.
	b.server.stopAccepting()
	// Held pulls would keep their connections for up to their hold time.
	if b.hold != nil {
		b.hold.close()
	}
	// Requests in hand finish while the store still takes them.
	b.server.stopReading()
	b.server.waitFor(closeGrace)
	b.work.Wait()
	var errs []error
	// Deliveries stop before the store they are proposed to.
	if b.scheduler != nil {
		errs = append(errs, b.scheduler.Close())
	}
	// The store logs the consumer offsets, flushes, syncs and releases the
	// directory. It answers what still waits in it.
	if b.store != nil {
		errs = append(errs, b.store.Close())
	}
	if b.lock != nil { // a start that did not come as far as the store
		errs = append(errs, b.lock.Close())
	}
	// Peers that do not take their answers are not waited for.
	if !b.server.waitFor(closeGrace) {
		b.server.cut()
	}
	b.server.serving.Wait()
	return errors.Join(errs...)
}

// housekeep closes the connections of silent clients and forgets what expired.
func (b *Broker) housekeep() {
	ticker := time.NewTicker(housekeeping)
	defer ticker.Stop()
	for {
		select {
		case <-b.stop:
			return
		case now := <-ticker.C:
			for _, c := range b.registry.silent(now.Add(-clientTimeout)) {
				b.log.Warn("client sent no heartbeat, closing its connection", "remote", c.remote, "for", clientTimeout)
				c.nc.Close()
			}
			b.locks.expire(now)
			b.resets.expire(now)
			b.stats.sample(now)
		}
	}
}
