// Package conf reads broker.conf, RocketMQ's key=value file, into what the
// broker takes.
//
// The names are RocketMQ's. A key is one of four things: applied (the table in
// keys.go); accepted with a remark, because what it asks for is not there yet
// or is done differently; known to RocketMQ and without effect here
// (tuning.txt); or unknown, which is a warning. A bad value of the first two
// kinds is an error that names key, value and what is allowed; all of them are
// reported at once.
//
// RocketMQ itself ignores in silence what it cannot parse. We do not: a broker
// that starts with another flush mode than the file asks for is worse than one
// that does not start.
package conf
