package main

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// brokerFor answers each frame that comes in on the first connection by the
// next of answers.
func brokerFor(t *testing.T, answers func(addr string) [][]byte) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		for _, a := range answers(l.Addr().String()) {
			if _, err := readFrame(c); err != nil {
				return
			}
			c.Write(a)
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

func TestProxyRecordsAndRedirects(t *testing.T) {
	ask := frameOf(0, `{"code":105,"language":"JAVA","version":513,"opaque":1,"flag":0,"extFields":{"topic":"t"}}`, "")
	var sent []byte // what the broker wrote
	upstream := brokerFor(t, func(addr string) [][]byte {
		sent = frameOf(0, `{"code":0,"language":"JAVA","version":513,"opaque":1,"flag":1}`, `{"brokerAddrs":{0:"`+addr+`"}}`)
		return [][]byte{sent}
	})
	g := &golden{client: "c-1", broker: "b-1", prefix: "p", frames: map[string]captured{}}
	p, err := newProxy([]string{upstream}, g.keep)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", p.Addr(upstream))
	if err != nil {
		t.Fatal(err)
	}
	c.Write(ask)
	got, err := readFrame(c)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}

	_, body, err := describe(got)
	if want := `{"brokerAddrs":{0:"` + p.Addr(upstream) + `"}}`; err != nil || string(body) != want {
		t.Errorf("the client got %q, %v, want %q", body, err, want)
	}
	dir := t.TempDir()
	stale := filepath.Join(dir, "p-999-request.bin")
	if err := os.WriteFile(stale, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	names, err := g.write(dir)
	if want := []string{"p-105-request", "p-105-response-0"}; err != nil || !slices.Equal(names, want) {
		t.Fatalf("written %q, %v, want %q", names, err, want)
	}
	if _, err := os.Stat(stale); !os.IsNotExist(err) {
		t.Errorf("a file of an earlier run is still there: %v", err)
	}
	for name, want := range map[string][]byte{"p-105-request.bin": ask, "p-105-response-0.bin": sent} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(b, want) {
			t.Errorf("%s holds %q, %v, want %q", name, b, err, want)
		}
	}
}

func TestNames(t *testing.T) {
	g := &golden{prefix: "go"}
	for want, d := range map[string]description{
		"go-010-request":           {Sender: "client", Request: 10, Code: 10},
		"go-011-response-19":       {Sender: "broker", Request: 11, Code: 19, Flag: flagResponse},
		"go-040-broker-request":    {Sender: "broker", Request: 40, Code: 40, Flag: flagOneway},
		"go-307-broker-response-0": {Sender: "client", Request: 307, Code: 0, Flag: flagResponse},
	} {
		if got := g.name(d); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestClientOnlyKeepsTheBrokersSide(t *testing.T) {
	g := &golden{prefix: "go", clientOnly: true, frames: map[string]captured{}}
	g.keep([]byte("r"), description{Sender: "broker", Request: 10, Flag: flagResponse})
	g.keep([]byte("q"), description{Sender: "client", Request: 10, Code: 10})
	dir := t.TempDir()
	kept := filepath.Join(dir, "go-010-response-0.bin")
	if err := os.WriteFile(kept, []byte("apache"), 0o644); err != nil {
		t.Fatal(err)
	}
	if names, err := g.write(dir); err != nil || !slices.Equal(names, []string{"go-010-request"}) {
		t.Fatalf("written %q, %v", names, err)
	}
	if b, err := os.ReadFile(kept); err != nil || string(b) != "apache" {
		t.Errorf("the broker's side is %q, %v", b, err)
	}
}
