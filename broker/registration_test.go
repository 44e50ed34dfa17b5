package broker

import (
	"encoding/json"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemq/tidemq/internal/remoting"
)

// fakeNamesrv answers as a RocketMQ name server does and notes what it was
// asked.
type fakeNamesrv struct {
	t        *testing.T
	listener net.Listener
	asked    chan *remoting.Command
	work     sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
	// brokers is the body of GET_BROKER_CLUSTER_INFO.
	brokers string
}

func startNamesrv(t *testing.T) *fakeNamesrv {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeNamesrv{t: t, listener: l, asked: make(chan *remoting.Command, 1000), conns: map[net.Conn]bool{}, brokers: `{"brokerAddrTable":{},"clusterAddrTable":{}}`}
	f.work.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.conns[nc] = true
			f.mu.Unlock()
			f.work.Go(func() { f.serve(nc) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		f.cut()
		f.work.Wait()
	})
	return f
}

func (f *fakeNamesrv) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for nc := range f.conns {
		nc.Close()
	}
}

func (f *fakeNamesrv) setBrokers(body string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.brokers = body
}

func (f *fakeNamesrv) serve(nc net.Conn) {
	defer nc.Close()
	r := remoting.NewReader(nc, 0)
	for {
		req, err := r.ReadCommand()
		if err != nil {
			return
		}
		resp := req.Reply(remoting.Success, "")
		if req.Code == remoting.ReqGetBrokerClusterInfo {
			f.mu.Lock()
			resp.Body = []byte(f.brokers)
			f.mu.Unlock()
		}
		frame, err := remoting.AppendCommand(nil, resp)
		if err != nil {
			f.t.Error(err)
			return
		}
		f.asked <- req
		if _, err := nc.Write(frame); err != nil {
			return
		}
	}
}

// await returns the next request of a code.
func (f *fakeNamesrv) await(code int) *remoting.Command {
	f.t.Helper()
	limit := time.After(answerLimit)
	for {
		select {
		case req := <-f.asked:
			if req.Code == code {
				return req
			}
		case <-limit:
			f.t.Fatalf("the name server was not asked %s", remoting.RequestName(code))
		}
	}
}

// registered waits for a registration that has a topic.
func (f *fakeNamesrv) registered(topic string) *remoting.Command {
	f.t.Helper()
	for {
		req := f.await(remoting.ReqRegisterBroker)
		var body struct {
			Wrapper struct {
				DataVersion dataVersion            `json:"dataVersion"`
				Topics      map[string]topicConfig `json:"topicConfigTable"`
			} `json:"topicConfigSerializeWrapper"`
		}
		if err := json.Unmarshal(req.Body, &body); err != nil {
			f.t.Fatal(err)
		}
		if c, ok := body.Wrapper.Topics[topic]; ok {
			if c.Name != topic || c.ReadQueues == 0 {
				f.t.Errorf("topic %s is registered as %+v", topic, c)
			}
			return req
		}
	}
}

// TestRegistration: on start, when a topic is created, after the name server
// went and came, and out again when the broker closes.
func TestRegistration(t *testing.T) {
	f := startNamesrv(t)
	b := startBroker(t, func(o *Options) {
		o.NameServers, o.BrokerName, o.ClusterName = []string{f.listener.Addr().String()}, "broker-a", "c1"
	})
	req := f.registered("TBW102")
	for key, want := range map[string]string{"brokerName": "broker-a", "brokerAddr": b.Addr(), "clusterName": "c1", "brokerId": "0", "compressed": "false"} {
		if got := req.Fields.Value(key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	c := dial(t, b)
	c.createTopic("orders", 3)
	f.registered("orders")
	f.cut()
	f.registered("orders")
	if body := string(c.ok(remoting.ReqGetBrokerRuntimeInfo, nil, nil).Body); !strings.Contains(body, `"namesrv_`+f.listener.Addr().String()+`":`) {
		t.Errorf("runtime information does not tell of the name server: %s", body)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if req := f.await(remoting.ReqUnregisterBroker); req.Fields.Value("brokerAddr") != b.Addr() {
		t.Errorf("unregistered %v", req.Fields)
	}
}

// TestRegistrationNameTaken: a broker does not take another's routes.
func TestRegistrationNameTaken(t *testing.T) {
	f := startNamesrv(t)
	f.setBrokers(`{"brokerAddrTable":{"tidemq":{"brokerAddrs":{0:"10.9.9.9:10911"},"brokerName":"tidemq","cluster":"DefaultCluster"}},"clusterAddrTable":{}}`)
	startBroker(t, func(o *Options) { o.NameServers = []string{f.listener.Addr().String()} })
	f.await(remoting.ReqGetBrokerClusterInfo)
	f.await(remoting.ReqGetBrokerClusterInfo) // it asked again and did not register
	select {
	case req := <-f.asked:
		if req.Code == remoting.ReqRegisterBroker {
			t.Errorf("registered all the same: %v", req)
		}
	default:
	}
	f.setBrokers(`{"brokerAddrTable":{},"clusterAddrTable":{}}`)
	f.registered("TBW102")
}

// TestRegistrationWithoutNamesrv: a name server that is not there keeps nobody
// from starting, serving or closing.
func TestRegistrationWithoutNamesrv(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	b := startBroker(t, func(o *Options) { o.NameServers = []string{l.Addr().String()} })
	dial(t, b).createTopic("t", 1)
	if _, err := New(Options{Dir: t.TempDir(), NameServers: []string{"nowhere"}}); err == nil || !strings.Contains(err.Error(), `"nowhere"`) {
		t.Errorf("a name server without a port: %v", err)
	}
}
