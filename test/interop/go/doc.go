// Package interop runs the unmodified Go client of Apache RocketMQ against a
// broker; see ../run.sh.
package interop
