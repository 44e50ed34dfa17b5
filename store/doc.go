// Package store keeps messages: one commit log, and everything derived from it.
//
// # Promise
//
// What an append was answered for is in the log as the flush mode says, and
// stays; a pending message leaves its level exactly once. Everything but the
// log (consume queues, level queues, topics, groups, consumer offsets, the
// checkpoint) is derived by one idempotent function, dispatch, live and in
// replay alike: without those files a start gives the same state.
//
// The types to know: [Store], opened by [Open]; [Batch], what is appended
// together; [ReadResult] and [DueBatch], what is read.
//
// # The life of a message
//
// Append hands a Batch to the writer. The one writer goroutine takes what
// waits, deliveries first, judges each against the tables and all it has given
// out before (first wins), assigns index, address, queue offset, store time
// and due time, writes one group into the WAL, syncs once (SyncFlush),
// dispatches the group, tells who waits, and then answers.
//
// # What a crash leaves, and what Open does
//
// Assumed of disk and file system: a sync that succeeds covers all bytes
// written before it; a rename is atomic; what was not synced may be there, be
// missing or be zeros.
//
//   - A torn or garbage tail: cut behind the last whole record (magic,
//     checksum, expected index, address and epoch), a copy kept in damaged/.
//   - Damage before whole records: a hole. In the tail segment it is filled
//     with empty WAL entries, one for each lost record; in a sealed segment it
//     is left as it is. Reported once, with file and offset ([Store.Damages]).
//   - Stray files, which the WAL would act upon: moved to damaged/.
//   - Overlapping segments, left by a recovery that was cut short: a segment
//     ends where the next one begins.
//   - A missing, damaged or foreign checkpoint, or a queue file shorter than it
//     says: everything is derived from the log again.
//
// # What goes, and what stays
//
// With [Options].Retention whole segments are deleted from the log's front.
// Before one goes, what waits in it is carried forward (carry.go), the copies
// are synced, and the queues' minimums move; a crash in between leaves the
// segment, or a minimum that the next Open moves again. The tables stay in the
// log as state parts (state.go), the newest complete round of which never
// goes, nor does the segment that a start from the checkpoint begins with.
//
// # Errors while running
//
// After a failed write the log is cut back to where the group began. A failed
// sync is never trusted again, nor the page cache behind it: what lies above
// the last synced address is kept in memory, written to a fresh segment and
// synced under another name before the old bytes are cut off. Both go by
// commitLog.recover, again and again until it succeeds; sends are refused
// meanwhile, and nothing is answered before.
//
// Lock order: syncMu, mu of commitLog; flushMu, mu of queue; writer.mu alone.
package store
