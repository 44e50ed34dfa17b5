package remoting

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What a peer sent before it hung up can be read, also when its leaving is
// first noticed by a write.
func TestWriterPeerGone(t *testing.T) {
	client, server := tcpPair(t)
	w := NewWriter(server, WriterOptions{})
	const commits = 100
	for range commits {
		b, err := AppendCommand(nil, NewRequest(ReqUpdateConsumerOffset))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	// What is still with the peer's kernel when a write comes back to its closed
	// socket is dropped there.
	raw, err := client.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var outErr error
	for out := 1; out > 0 && outErr == nil; time.Sleep(time.Millisecond) {
		if err := raw.Control(func(fd uintptr) { out, outErr = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) }); err != nil {
			t.Fatal(err)
		}
	}
	if outErr != nil {
		t.Fatal(outErr)
	}
	client.Close()
	for end := time.Now().Add(20 * time.Second); err == nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
		err = w.Write(NewRequest(ReqNotifyConsumerIDsChanged))
	}
	if !PeerGone(err) {
		t.Fatalf("Write: %v, want that the peer is gone", err)
	}
	r := NewReader(server, 0)
	for n := range commits {
		if c, err := r.ReadCommand(); err != nil || c.Code != ReqUpdateConsumerOffset {
			t.Fatalf("after %d: %v, %v", n, c, err)
		}
	}
	if c, err := r.ReadCommand(); err == nil {
		t.Errorf("%v behind the end", c)
	}
	if err := w.Close(); !PeerGone(err) {
		t.Errorf("Close: %v", err)
	}
}
