package message

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync/atomic"
	"time"
)

// OffsetID is the id a broker gives a message: store host and physical offset
// in upper-case hex, 32 digits for an IPv4 host and 56 for IPv6, as RocketMQ
// `MessageDecoder.createMessageId`. Admin tools dial the host they find in it.
func OffsetID(host netip.AddrPort, physicalOffset int64) string {
	var buf [hostV6 + 8]byte
	b := appendHost(buf[:0], host.Addr().Unmap(), host.Port())
	b = binary.BigEndian.AppendUint64(b, uint64(physicalOffset))
	return upperHex(b)
}

// ParseOffsetID takes an offset id apart; digits of either case. The error
// wraps [ErrInvalidID].
func ParseOffsetID(id string) (host netip.AddrPort, physicalOffset int64, err error) {
	var buf [hostV6 + 8]byte
	if len(id) != 2*(hostV4+8) && len(id) != 2*(hostV6+8) {
		return netip.AddrPort{}, 0, fmt.Errorf("%w: %.60q has %d digits, want %d or %d", ErrInvalidID, id, len(id), 2*(hostV4+8), 2*(hostV6+8))
	}
	n, err := hex.Decode(buf[:], []byte(id))
	if err != nil {
		return netip.AddrPort{}, 0, fmt.Errorf("%w: %q: %v", ErrInvalidID, id, err)
	}
	host, err = hostAt(buf[:n], 0, n == hostV6+8)
	if err != nil {
		return netip.AddrPort{}, 0, fmt.Errorf("%w: %q: %v", ErrInvalidID, id, err)
	}
	return host, int64(binary.BigEndian.Uint64(buf[n-8:])), nil
}

const upperDigits = "0123456789ABCDEF"

func upperHex(b []byte) string {
	var buf [2 * (hostV6 + 8)]byte
	for i, c := range b {
		buf[2*i] = upperDigits[c>>4]
		buf[2*i+1] = upperDigits[c&15]
	}
	return string(buf[:2*len(b)])
}

// UniqueIDs makes the ids that senders give messages (UNIQ_KEY): 32 upper-case
// hex digits in the shape of RocketMQ `MessageClientIDSetter`, that is IPv4
// address 4, process id 2, a number of this generator 4, ms since the month
// began 4, counter 2. Safe for concurrent use.
type UniqueIDs struct {
	prefix  [10]byte
	counter atomic.Uint32
}

// NewUniqueIDs returns a generator of its own random number. An address that is
// not IPv4 is replaced by four random bytes.
func NewUniqueIDs(ip netip.Addr) *UniqueIDs {
	g := new(UniqueIDs)
	var addr [4]byte
	if ip = ip.Unmap(); ip.Is4() {
		addr = ip.As4()
	} else {
		binary.BigEndian.PutUint32(addr[:], rand.Uint32())
	}
	copy(g.prefix[:], addr[:])
	binary.BigEndian.PutUint16(g.prefix[4:], uint16(os.Getpid()))
	binary.BigEndian.PutUint32(g.prefix[6:], rand.Uint32())
	return g
}

// UniqueID returns an id that no other call returns, as long as fewer than
// 65 536 are made within one millisecond. now is the sender's clock.
func (g *UniqueIDs) UniqueID(now time.Time) string {
	var b [16]byte
	copy(b[:], g.prefix[:])
	y, m, _ := now.Date()
	ms := now.Sub(time.Date(y, m, 1, 0, 0, 0, 0, now.Location())).Milliseconds()
	binary.BigEndian.PutUint32(b[10:], uint32(ms)) // a month has fewer than 2³² ms
	binary.BigEndian.PutUint16(b[14:], uint16(g.counter.Add(1)-1))
	return upperHex(b[:])
}

// UniqueIDTime is when a unique id was made, to the millisecond: the newest
// time up to now that its "ms since the month began" can mean, as RocketMQ
// `MessageClientIDSetter.getNearlyTimeFromID`. now's location is taken for the
// sender's. The error wraps [ErrInvalidID].
func UniqueIDTime(id string, now time.Time) (time.Time, error) {
	var b [28]byte
	if len(id) != 32 && len(id) != 56 {
		return time.Time{}, fmt.Errorf("%w: %.60q has %d digits, want 32 or 56", ErrInvalidID, id, len(id))
	}
	n, err := hex.Decode(b[:], []byte(id))
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: %q: %v", ErrInvalidID, id, err)
	}
	span := time.Duration(binary.BigEndian.Uint32(b[n-6:])) * time.Millisecond
	y, m, _ := now.Date()
	t := time.Date(y, m, 1, 0, 0, 0, 0, now.Location()).Add(span)
	if t.After(now) {
		t = time.Date(y, m-1, 1, 0, 0, 0, 0, now.Location()).Add(span)
	}
	return t, nil
}
