// Package remoting is RocketMQ's remoting protocol: frames, their two header
// encodings, and the codes. It holds no policy; broker and client share it.
//
// A frame is
//
//	0  length         u32  of what follows, at least 4, at most MaxFrame − 4
//	4  header type    u8   0 JSON, 1 ROCKETMQ
//	5  header length  u24
//	8  header
//	…  body
//
// [Command] is a decoded frame, request or response; [Fields] are its
// extFields. [Reader] takes frames from a connection, one goroutine at a time.
// [Writer] puts them on one, from many goroutines, and joins what waits into
// one write.
//
// Every error of decoding is a [*FrameError]: the bytes behind a bad frame
// have no meaning, so the connection must be closed. No memory is taken for a
// length before the bytes have arrived.
package remoting
