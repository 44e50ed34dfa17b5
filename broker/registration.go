package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/store"
)

const (
	// namesrvBeat is how often a name server is told that the broker is alive;
	// each third time it is asked whether it knows the topics as they are.
	namesrvBeat = 10 * time.Second
	// namesrvForget is how long a name server keeps a broker that says nothing.
	// One whose connection ends is forgotten at once.
	namesrvForget = 30 * time.Second
	// namesrvCall bounds one request, and connecting.
	namesrvCall = 5 * time.Second
	// namesrvLeave bounds what is left to say when the broker closes.
	namesrvLeave = time.Second
	// namesrvPause and namesrvMaxPause are between attempts that fail.
	namesrvPause    = 500 * time.Millisecond
	namesrvMaxPause = 10 * time.Second
	// changePause gathers topics that are created together.
	changePause = 20 * time.Millisecond
)

// errNameTaken: a name server has another broker of the same name and id.
var errNameTaken = errors.New("another broker is registered by this name and id: give each broker a brokerName of its own")

// registration makes the broker known to Apache RocketMQ name servers: on
// start, when topics change, and every 30 s, as RocketMQ `BrokerOuterAPI`. A
// name server that cannot be reached is tried again for ever.
//
// Goroutines: one per name server, ended by close.
type registration struct {
	cancel  context.CancelFunc
	work    sync.WaitGroup
	servers []*nameServer
}

// nameServer is one name server and the connection to it.
type nameServer struct {
	b    *Broker
	addr string
	log  *slog.Logger
	// changed asks for the topics to be registered again; capacity 1.
	changed chan struct{}
	// state is "registered", or why it is not; for tools.
	state atomic.Pointer[string]

	nc     net.Conn
	reader *remoting.Reader
	opaque int32
	sent   uint64 // version of the topics that were registered last
}

// init makes what tools may ask for.
func (r *registration) init(b *Broker) {
	for _, addr := range b.opts.NameServers {
		n := &nameServer{b: b, addr: addr, log: b.log.With("namesrv", addr), changed: make(chan struct{}, 1)}
		n.say("connecting")
		r.servers = append(r.servers, n)
	}
}

// start begins to register.
func (r *registration) start(b *Broker) {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	b.tables.change.Lock()
	defer b.tables.change.Unlock()
	b.tables.onChange = func() {
		for _, n := range r.servers {
			select {
			case n.changed <- struct{}{}:
			default:
			}
		}
	}
	for _, n := range r.servers {
		r.work.Go(func() { n.run(ctx) })
	}
}

// close takes the broker out of the name servers, so that clients turn to
// others, and waits for that.
func (r *registration) close() {
	if r.cancel != nil {
		r.cancel()
		r.work.Wait()
	}
}

func (n *nameServer) say(state string) { n.state.Store(&state) }

// run registers again and again until ctx ends.
func (n *nameServer) run(ctx context.Context) {
	pause, told := namesrvPause, ""
	for ctx.Err() == nil {
		registered, err := n.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if registered {
			pause = namesrvPause
		}
		n.say(err.Error())
		if text := err.Error(); text != told || registered {
			n.log.Warn("not registered with the name server, trying again", "error", err)
			told = text
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		pause = min(2*pause, namesrvMaxPause)
	}
}

// session registers over one connection and keeps it so. It returns whether
// the broker was registered, and why it ended.
func (n *nameServer) session(ctx context.Context) (registered bool, err error) {
	dialer := net.Dialer{Timeout: namesrvCall}
	if n.nc, err = dialer.DialContext(ctx, "tcp", n.addr); err != nil {
		return false, err
	}
	defer n.nc.Close()
	n.reader = remoting.NewReader(n.nc, 0)
	// A request in hand when the broker closes is not waited for as long.
	nc := n.nc
	defer context.AfterFunc(ctx, func() { nc.SetDeadline(time.Now().Add(namesrvLeave)) })()
	if err := n.nameFree(); err != nil {
		return false, err
	}
	if err := n.register(); err != nil {
		return false, err
	}
	n.say("registered")
	n.log.Info("registered with the name server", "broker", n.b.opts.BrokerName, "addr", n.own())
	if ip, err := netip.ParseAddrPort(n.own()); err == nil && ip.Addr().IsLoopback() && !addrPort(n.nc.RemoteAddr()).Addr().IsLoopback() {
		n.log.Warn("the name server hands out an address of this machine alone: listen elsewhere, or advertise another", "addr", n.own())
	}
	beat := time.NewTicker(namesrvBeat)
	defer beat.Stop()
	for beats := 1; ; {
		select {
		case <-ctx.Done():
			n.unregister()
			return true, ctx.Err()
		case <-n.changed:
			time.Sleep(changePause)
			err = n.register()
		case <-beat.C:
			if beats++; beats%3 == 0 {
				err = n.refresh()
			} else {
				_, err = n.call(n.request(remoting.ReqBrokerHeartbeat))
			}
		}
		if err != nil {
			return true, err
		}
	}
}

// own is the broker's address as the name server hands it out: the advertised
// one, else the first that is listened on, by the address that leads to the
// name server where that is none of its own.
func (n *nameServer) own() string {
	if n.b.opts.Advertise != "" {
		return n.b.opts.Advertise
	}
	a := addrPort(n.b.server.listeners[0].Addr())
	if a.Addr().IsUnspecified() {
		a = netip.AddrPortFrom(addrPort(n.nc.LocalAddr()).Addr(), a.Port())
	}
	return a.String()
}

// request is a request with the fields that name this broker.
func (n *nameServer) request(code int) *remoting.Command {
	return remoting.NewRequest(code,
		remoting.Field{Key: "brokerName", Value: n.b.opts.BrokerName}, remoting.Field{Key: "brokerAddr", Value: n.own()},
		remoting.Field{Key: "clusterName", Value: n.b.opts.ClusterName}, remoting.Field{Key: "brokerId", Value: n.b.brokerIDText})
}

// call sends a request and waits for its answer, which must be a success.
func (n *nameServer) call(cmd *remoting.Command) (*remoting.Command, error) {
	n.opaque++
	cmd.Opaque = n.opaque
	frame, err := remoting.AppendCommand(nil, cmd)
	if err != nil {
		return nil, err
	}
	if err := n.nc.SetDeadline(time.Now().Add(namesrvCall)); err != nil {
		return nil, err
	}
	if _, err := n.nc.Write(frame); err != nil {
		return nil, err
	}
	for {
		resp, err := n.reader.ReadCommand()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", remoting.RequestName(cmd.Code), err)
		}
		if !resp.IsResponse() || resp.Opaque != cmd.Opaque {
			continue // NOTIFY_MIN_BROKER_ID_CHANGE is for brokers with replicas
		}
		if resp.Code != remoting.Success {
			return nil, fmt.Errorf("%s: answered %s (%d): %.200s", remoting.RequestName(cmd.Code), remoting.ResponseName(resp.Code), resp.Code, resp.Remark)
		}
		return resp, nil
	}
}

// nameFree asks whether another live broker has this one's name and id: the
// name server would let the two take it from each other.
func (n *nameServer) nameFree() error {
	resp, err := n.call(remoting.NewRequest(remoting.ReqGetBrokerClusterInfo))
	if err != nil {
		return err
	}
	var info struct {
		Brokers map[string]brokerData `json:"brokerAddrTable"`
	}
	if err := decodeJSON(resp.Body, &info); err != nil {
		return err
	}
	if addr := info.Brokers[n.b.opts.BrokerName].Addrs[n.b.brokerIDText]; addr != "" && addr != n.own() {
		return fmt.Errorf("brokerName %s, brokerId %s, at %s: %w", n.b.opts.BrokerName, n.b.brokerIDText, addr, errNameTaken)
	}
	return nil
}

// register sends the broker with all its topics.
func (n *nameServer) register() error {
	version := n.b.topicsVersion()
	table := make(map[string]topicConfig)
	for _, t := range n.b.store.Topics() {
		table[t.Name] = topicConfigOf(&t)
	}
	for _, t := range n.b.tables.unrecorded() {
		if _, ok := table[t.Name]; !ok {
			table[t.Name] = topicConfigOf(t)
		}
	}
	body, err := json.Marshal(map[string]any{
		"filterServerList": []string{},
		"topicConfigSerializeWrapper": map[string]any{
			"dataVersion": version, "topicConfigTable": table, "topicQueueMappingDetailMap": struct{}{}, "topicQueueMappingInfoMap": struct{}{},
		},
	})
	if err != nil {
		return err
	}
	cmd := n.request(remoting.ReqRegisterBroker)
	cmd.Fields.Set("haServerAddr", "")
	cmd.Fields.SetInt("heartbeatTimeoutMillis", namesrvForget.Milliseconds())
	cmd.Fields.Set("enableActingMaster", "false")
	cmd.Fields.Set("compressed", "false")
	cmd.Fields.Set("bodyCrc32", "0") // the connection's own checksum is enough
	cmd.Body = body
	if _, err := n.call(cmd); err != nil {
		return err
	}
	n.sent = version.Counter
	return nil
}

// refresh asks whether the name server knows the topics as they are, which
// also tells it that the broker is alive, and registers them if it does not.
func (n *nameServer) refresh() error {
	cmd := n.request(remoting.ReqQueryDataVersion)
	body, err := json.Marshal(n.b.topicsVersion())
	if err != nil {
		return err
	}
	cmd.Body = body
	resp, err := n.call(cmd)
	if err != nil {
		return err
	}
	if resp.Fields.Value("changed") == "false" {
		return nil
	}
	return n.register()
}

// unregister takes the broker out. What becomes of that nobody needs to know:
// the name server does the same when the connection ends.
func (n *nameServer) unregister() {
	cmd := n.request(remoting.ReqUnregisterBroker)
	cmd.Opaque = n.opaque + 1
	frame, err := remoting.AppendCommand(nil, cmd)
	if err != nil {
		return
	}
	n.nc.SetDeadline(time.Now().Add(namesrvLeave))
	if _, err := n.nc.Write(frame); err != nil {
		return
	}
	for {
		if resp, err := n.reader.ReadCommand(); err != nil || resp.Opaque == cmd.Opaque {
			return
		}
	}
}

// topicsVersion is the version of the topics, as name servers compare it.
func (b *Broker) topicsVersion() dataVersion {
	return dataVersion{Counter: b.tables.version.Load(), Timestamp: b.started.UnixMilli()}
}

// unrecorded are the topics that clients find although nothing is stored of
// them: the one that topics are created from, and those of replies and traces.
func (t *tables) unrecorded() []*store.Topic {
	var list []*store.Topic
	if topic := t.defaultTopic(); topic != nil {
		list = append(list, topic)
	}
	for _, name := range []string{message.TraceTopic, t.replyTopic} {
		if topic := t.builtin(name); topic != nil {
			list = append(list, topic)
		}
	}
	return list
}
