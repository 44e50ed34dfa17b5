package broker

import (
	"context"
	"strings"
	"testing"

	"github.com/tidemq/tidemq/internal/remoting"
)

func TestOptions(t *testing.T) {
	for _, test := range []struct {
		name string
		opts Options
		want string // part of the error, "" for none
	}{
		{"defaults", Options{Dir: "d"}, ""},
		{"no directory", Options{}, "Dir is empty"},
		{"listen without port", Options{Dir: "d", Listen: []string{"127.0.0.1"}}, `"127.0.0.1" is not HOST:PORT`},
		{"listen port too large", Options{Dir: "d", Listen: []string{"127.0.0.1:65536"}}, `port "65536": 0 to 65535`},
		{"advertise port 0", Options{Dir: "d", Advertise: "example.org:0"}, `port "0": 1 to 65535`},
		{"advertise any address", Options{Dir: "d", Advertise: "0.0.0.0:10911"}, "no address a client can dial"},
		{"advertise any IPv6 address", Options{Dir: "d", Advertise: "[::]:10911"}, "no address a client can dial"},
		{"advertise no host", Options{Dir: "d", Advertise: ":10911"}, "no address a client can dial"},
		{"broker name", Options{Dir: "d", BrokerName: "a,b"}, `"a,b" has the character ','`},
		{"cluster name", Options{Dir: "d", ClusterName: strings.Repeat("x", 128)}, "128 bytes long, at most 127"},
		{"broker id", Options{Dir: "d", BrokerID: -1}, "BrokerID is -1"},
		{"levels", Options{Dir: "d", DelayLevels: "1s 5x"}, `"5x"`},
		{"queues", Options{Dir: "d", DefaultTopicQueues: 8193}, "DefaultTopicQueues is 8193: 1 to 8192"},
		{"message size", Options{Dir: "d", MaxMessageSize: 16 << 20}, "MaxMessageSize is 16777216: 1 to 15728640"},
		{"flush", Options{Dir: "d", Flush: 7}, "Flush is 7"},
		{"idle", Options{Dir: "d", IdleTimeout: -1}, "IdleTimeout is -1ns"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := New(test.opts)
			switch {
			case test.want == "" && err != nil:
				t.Errorf("got %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestSecondBrokerOnDirectory(t *testing.T) {
	b := startBroker(t, nil)
	second, err := New(Options{Dir: b.opts.Dir, Listen: []string{"127.0.0.1:0"}, Logger: b.log})
	if err != nil {
		t.Fatal(err)
	}
	err = second.Start(context.Background())
	if err == nil || !strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), b.opts.Dir) {
		t.Errorf("got %v, want the directory to be in use", err)
	}
	if err := second.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	dial(t, b).createTopic("still-there", 1)
}

func TestAddressInUse(t *testing.T) {
	b := startBroker(t, nil)
	second, err := New(Options{Dir: t.TempDir(), Listen: []string{"127.0.0.1:0", b.Addr()}, Logger: b.log})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Start(context.Background()); err == nil || !strings.Contains(err.Error(), b.Addr()) {
		t.Errorf("got %v, want %s in it", err, b.Addr())
	}
	if err := second.Start(context.Background()); err == nil {
		t.Error("started again after a failure")
	}
}

func TestAdvertise(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.Advertise = "192.0.2.7:1234" })
	c := dial(t, b)
	body := string(c.ok(remoting.ReqGetRouteInfoByTopic, fields("topic", "TBW102"), nil).Body)
	if !strings.Contains(body, `"brokerAddrs":{"0":"192.0.2.7:1234"}`) {
		t.Errorf("route %s", body)
	}
	c.send("t", 0, "", "x")
	m := c.pullAll("g", "t", 0, 1)[0]
	if m.StoreHost.String() != "192.0.2.7:1234" {
		t.Errorf("store host %v", m.StoreHost)
	}
}

// TestEveryListenerServesAll: each address answers as name server and as
// broker, and tells its own address.
func TestEveryListenerServesAll(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.Listen = []string{"127.0.0.1:0", "127.0.0.1:0"} })
	addrs := b.Addrs()
	if len(addrs) != 2 {
		t.Fatalf("addresses %v", addrs)
	}
	for i, addr := range addrs {
		c := dialAddr(t, addr.String())
		body := string(c.ok(remoting.ReqGetBrokerClusterInfo, nil, nil).Body)
		want := `{"brokerAddrTable":{"tidemq":{"brokerAddrs":{"0":"` + addr.String() + `"},"brokerName":"tidemq","cluster":"DefaultCluster","enableActingMaster":false}},"clusterAddrTable":{"DefaultCluster":["tidemq"]}}`
		if body != want {
			t.Errorf("cluster info %s, want %s", body, want)
		}
		c.send("t", i, "", "x")
		if m := c.pullAll("g", "t", i, 1)[0]; m.StoreHost.String() != addr.String() {
			t.Errorf("store host %v, want %v", m.StoreHost, addr)
		}
	}
}
