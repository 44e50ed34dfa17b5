// Command tidemq is the broker and the command line of TideMQ.
//
//	serve     the broker, which is its own name server
//	produce   sends messages, at once or at a delay level
//	consume   prints messages, for a group or just to look
//	levels    what is pending at each delay level
//	offsets   a consumer group's position, and moving it
//	demo      delayed messages through a kill -9, counted at the end
//	version
//
// One file per command. A command that talks to a broker takes --addr; one
// whose output a program may read takes --json. What is asked for goes to
// standard output, everything else to standard error.
//
// Exit codes: 0 when it was done, 1 when it failed or a promise was broken, 2
// when the command line cannot be understood. A first SIGINT or SIGTERM ends
// every command in good order, a second one at once.
package main
