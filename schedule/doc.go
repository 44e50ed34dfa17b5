// Package schedule makes delayed messages arrive: it turns a message with a
// delay level into one that waits in SCHEDULE_TOPIC_XXXX, and, the moment it
// is due, into one of its real topic.
//
// # The life of a delayed message
//
// The sender's DELAY property selects a level of the table ([Levels]).
// [Levels.Pending] keeps the target in the properties REAL_TOPIC and REAL_QID
// and gives the message to the store with the level's length; the writer sets
// the due time, store time + length, and the message takes the next entry of
// that length's queue. One length, one queue: the queue id, level − 1, is only
// a view of the table in force, so that a changed table never touches what is
// pending.
//
// [Scheduler] sleeps exactly until the earliest head of a level is due. It
// reads what is due in log order, rewrites it ([rewrite]) and proposes it to
// the writer as steps, each naming the entry it leaves. The writer accepts a
// step only while that entry is the head of its level, and the stored record
// is what moves the head: the log itself is the offset table, so that a crash
// at any moment repeats nothing and skips nothing.
//
// # What cannot be delivered
//
// A message whose topic is gone, or is a later one of the same name, goes to
// TIDEMQ_UNDELIVERABLE with the reason. A record that the log cannot give back
// is stepped over by a record that says so. Neither ever stops its level.
package schedule
