// Package demo shows TideMQ's promise on a person's own machine: delayed
// messages arrive on time and exactly once, through a kill -9 of the broker.
//
// [Run] starts a broker as a process of its own in a temporary folder, sends
// messages at several delay levels, shows them arriving, kills the broker with
// SIGKILL while it is delivering and many are pending, lets some of them come
// due while it is down, starts it again, and counts.
//
// Nothing is believed that can be counted: what was delivered is read from the
// records of the real topic, queue by queue, after the end. When each of them
// was due comes from the pending record that the broker stored and answered
// (its store time plus the level's length), and a message is known by the
// number that it carries.
package demo
