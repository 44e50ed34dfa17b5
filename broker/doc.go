// Package broker is a RocketMQ broker and name server in one: clients of
// RocketMQ's remoting protocol send, delay, pull and commit, and find the way
// to it by asking itself.
package broker
