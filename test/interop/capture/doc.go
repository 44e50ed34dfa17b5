// Capture records the frames that real RocketMQ clients exchange with a broker.
//
//	capture -upstream HOST:PORT [-upstream HOST:PORT …] -client java-5.5.0 -prefix java-json \
//	        -broker rocketmq-5.5.0 -out testdata/remoting -- COMMAND ARG…
//
// It listens on one free port of 127.0.0.1 for each upstream, starts COMMAND
// with TIDEMQ_INTEROP_ADDR set to the first listener (the name server),
// TIDEMQ_INTEROP_BROKER to the last (the broker), and passes bytes both ways. Answers to route and cluster requests name the upstreams; on the way to
// the client those addresses become the listeners', so that the client's whole
// traffic comes through. What is kept is what was sent, before that change.
//
// When COMMAND ends with 0, the first request and the first response of each
// kind are written; otherwise nothing is, and capture exits with 1. With
// -client-only the frames a broker sent stay as they were captured before, so
// that answers of Apache RocketMQ are kept when clients talk to TideMQ. A kind is
// the request code, who sent it and, of a response, its response code:
//
//	PREFIX-CODE-request.bin       PREFIX-CODE-response-RC.bin
//	PREFIX-CODE-broker-request.bin, when the broker is the one who asks
//
// Each .bin is one whole frame with its 4-byte length; the .json beside it is
// this program's own reading of it. That reading shares no code with
// TideMQ's codec, so that the two check each other.
package main
