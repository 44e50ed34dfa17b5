package store

import (
	"encoding/binary"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/vfs"
)

// LogInfo is the extent of the log, as tools show it.
type LogInfo struct {
	// First is the log address of the first record that is kept, End that of
	// the next one.
	First, End int64
	// Unsynced counts the bytes that a loss of power would cost now.
	Unsynced int64
}

// LogInfo returns the extent of the log as it is now.
func (s *Store) LogInfo() LogInfo {
	unsynced, _ := s.log.unsynced()
	return LogInfo{First: s.segs.snapshot()[0].base, End: s.visible.Load(), Unsynced: unsynced}
}

// Space returns the bytes of the file system that holds the data directory:
// those that may still be written, and all.
func (s *Store) Space() (free, total int64, err error) { return vfs.Space(s.opts.Dir) }

// earliestProbe is how much of the log EarliestMessageTime looks at, in bytes:
// what precedes the first message are records of topics and offsets.
const earliestProbe = 1 << 20

// EarliestMessageTime returns the store time of the log's first message, in
// ms; -1 when there is none near the log's beginning.
func (s *Store) EarliestMessageTime() int64 {
	first := s.segs.snapshot()[0].base
	end := min(s.visible.Load(), first+earliestProbe)
	for at := first; at < end; {
		h, payload, err := s.segs.readEntry(at, s.visible.Load())
		if err != nil {
			return -1
		}
		if (h.kind == kindMessage || h.kind == kindStep) && h.flags&flagNoMessage == 0 {
			return message.View(payload).StoreTime()
		}
		size := uint64(headerSize + len(payload))
		var prefix [binary.MaxVarintLen64]byte
		at += int64(binary.PutUvarint(prefix[:], size)) + int64(size)
	}
	return -1
}
