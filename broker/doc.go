// Package broker is a RocketMQ broker and its name server in one: clients of
// RocketMQ's remoting protocol send, delay, pull and commit, and find the way
// here by asking here. It can be used as a library:
//
//	b, err := broker.New(broker.Options{Dir: dir, Listen: []string{"127.0.0.1:0"}})
//	…
//	if err := b.Start(ctx); err != nil { … }
//	defer b.Close()
//	fmt.Println(b.Addr())
//
// [Broker] and [Options] are the types to know.
//
// # What it promises
//
// A send is answered with success only when the store has it as the flush mode
// promises. A delay level is honoured or refused, never dropped: what the
// broker cannot do yet – TIMER_ properties – is refused with code 13. An answer other than success names the value and what is allowed. What
// is not known is answered with code 3, and the connection goes on; bytes that
// are no frame end it. While the store is loading, everything is answered with
// 14, never with "no offset", which makes clients begin anew.
//
// Topics, groups, committed offsets and messages are in the store and survive
// whatever the store survives. Members of groups, queue locks, held pulls and
// resets that members have not followed yet are in memory: after a restart,
// heartbeats, locks and pulls bring them back.
//
// # The life of a request
//
// One goroutine per connection reads frames into memory that it uses again,
// and serves each request itself unless it has to wait for the disk; those run
// apart, so that neither the connection nor the store's writer waits. A send
// becomes a record and goes to the store's writer; the writer's callback puts
// the answer on the connection's writer, which sends all that waits at once.
// Answers may overtake each other; sends and commits of one connection do not:
// when one has to wait, because its topic or group is being created, those
// behind it wait in its lane. A connection that has too much in hand, or does not take its answers,
// is not read on.
//
// A pull that finds nothing is held (longpolling.go) until something arrives
// in its queue that its filter may want, its time is over, its connection ends
// or the broker closes.
//
// A broker that closes reads what has arrived on its connections and no more:
// offsets are noted, as clients leave them by one-way requests and hang up,
// everything else is refused with 14.
//
// # Request codes
//
// The names are RocketMQ's; handlers.go and handlers_admin.go have the table
// itself. Every other code of RocketMQ's is answered with what it is and why
// not (unsupported.go), and counted.
//
//	10 310 320   SEND_MESSAGE, _V2, SEND_BATCH_MESSAGE                   send.go
//	11 361       PULL_MESSAGE, LITE_PULL_MESSAGE                         pull.go
//	14 15        QUERY_, UPDATE_CONSUMER_OFFSET                          offset.go
//	17 18        UPDATE_AND_CREATE_TOPIC, …_LIST                         route.go
//	215 216      DELETE_TOPIC_IN_BROKER, _IN_NAMESRV (nothing to forget) route.go
//	21 351       GET_ALL_TOPIC_CONFIG, GET_TOPIC_CONFIG                  admin.go
//	25 26        UPDATE_, GET_BROKER_CONFIG                              settings.go
//	28 315       GET_BROKER_RUNTIME_INFO, VIEW_BROKER_STATS_DATA         runtimeinfo.go
//	29 30 31 32  SEARCH_OFFSET_BY_TIMESTAMP, GET_MAX_OFFSET,
//	             GET_MIN_OFFSET, GET_EARLIEST_MSG_STORETIME              offset.go
//	33           VIEW_MESSAGE_BY_ID                                      view.go
//	34 35 46     HEART_BEAT, UNREGISTER_CLIENT, CHECK_CLIENT_CONFIG      heartbeat.go
//	36           CONSUMER_SEND_MSG_BACK                                  sendback.go
//	37 39        END_TRANSACTION; CHECK_TRANSACTION_STATE is sent to the
//	             producers                        transaction.go checkback.go
//	38 40        GET_CONSUMER_LIST_BY_GROUP; NOTIFY_CONSUMER_IDS_CHANGED
//	             is sent to the members                                  heartbeat.go
//	41 42        LOCK_BATCH_MQ, UNLOCK_BATCH_MQ                          heartbeat.go
//	43 45        GET_ALL_CONSUMER_OFFSET, GET_ALL_DELAY_OFFSET           consumestats.go
//	100 101 102  PUT_, GET_, DELETE_KV_CONFIG,
//	219          GET_KVLIST_BY_NAMESPACE                                 namesrv.go
//	205 327      WIPE_, ADD_WRITE_PERM_OF_BROKER                         namesrv.go
//	304 305      GET_SYSTEM_TOPIC_LIST_FROM_NS, _FROM_BROKER             namesrv.go
//	311 312 313  GET_UNIT_TOPIC_LIST and its like                        namesrv.go
//	318 319      UPDATE_, GET_NAMESRV_CONFIG                             namesrv.go
//	105 106      GET_ROUTEINFO_BY_TOPIC, GET_BROKER_CLUSTER_INFO         route.go
//	200 207 225  UPDATE_AND_CREATE_, DELETE_SUBSCRIPTIONGROUP, …_LIST    admin.go
//	201 352      GET_ALL_SUBSCRIPTIONGROUP_CONFIG, GET_…_CONFIG          admin.go
//	202          GET_TOPIC_STATS_INFO                                    stats.go
//	208 317      GET_CONSUME_STATS, GET_BROKER_CONSUME_STATS             consumestats.go
//	203 204 328  GET_CONSUMER_, GET_PRODUCER_CONNECTION_LIST,
//	             GET_ALL_PRODUCER_INFO                                   stats.go
//	206 224      GET_ALL_TOPIC_LIST_FROM_NAMESERVER, GET_TOPICS_BY_…     route.go
//	220 222      INVOKE_BROKER_TO_RESET_OFFSET; members on-line are sent
//	             RESET_CONSUMER_CLIENT_OFFSET                            reset.go
//	324 325 326  SEND_REPLY_MESSAGE, _V2; PUSH_REPLY_MESSAGE_TO_CLIENT is
//	             sent to the client that asked                        reply.go
//	221 223      INVOKE_BROKER_TO_GET_CONSUMER_STATUS; members are asked
//	             GET_CONSUMER_STATUS_FROM_CLIENT                         consumestats.go
//	300 343 345  QUERY_TOPIC_CONSUME_BY_WHO, QUERY_TOPICS_BY_CONSUMER,
//	             QUERY_SUBSCRIPTION_BY_CONSUMER                          consumestats.go
//	303 308 314  QUERY_CONSUME_TIME_SPAN, QUERY_CORRECTION_OFFSET,
//	             CLONE_GROUP_OFFSET                                      consumestats.go
//	306 316      CLEAN_EXPIRED_CONSUMEQUEUE, CLEAN_UNUSED_TOPIC (there is
//	             never anything to clean)                                logadmin.go
//	321 907      QUERY_CONSUME_QUEUE, GET_BROKER_HA_STATUS               logadmin.go
//	307 309      GET_CONSUMER_RUNNING_INFO, CONSUME_MESSAGE_DIRECTLY,
//	             asked of the client                                     relay.go
//	400 401 402  QUERY_ASSIGNMENT, SET_, GET_ALL_MESSAGE_REQUEST_MODE    assignment.go
//	200050-54    POP_, ACK_, PEEK_MESSAGE, CHANGE_MESSAGE_INVISIBLETIME,
//	200055       NOTIFICATION, POLLING_INFO,
//	200151       BATCH_ACK_MESSAGE             pop.go popack.go poplook.go
//	900001       levels: state of the delay levels                       tidemq.go
//	900002       offsets: a group's offsets                              tidemq.go
//	900003       reset: moves a group's offsets                          tidemq.go
//
// Sent to name servers: REGISTER_BROKER (103), UNREGISTER_BROKER (104),
// QUERY_DATA_VERSION (322), BROKER_HEARTBEAT (904), and GET_BROKER_CLUSTER_INFO
// (106) to see whether the name is free: registration.go.
//
// Codes from 900001 on are TideMQ's own; fields and bodies are described in
// internal/remoting, codes_tidemq.go.
//
// # Where it differs from RocketMQ
//
//   - Properties are stored as the sender wrote them, and a request for a reply
//     with CLUSTER. RocketMQ adds UNIQ_KEY, CLUSTER, MSG_REGION and TRACE_ON. REAL_TOPIC, REAL_QID and POP_CK of a
//     sender are taken out: they are the broker's own.
//   - A commit beyond the queue's end, or negative, is refused (29), so that
//     nobody's backlog is negative.
//   - A group without a committed offset is told so, and begins where its
//     members want to, unless the queue appeared after they subscribed the
//     topic. RocketMQ tells it 0 while the queue's first message is in memory.
//   - A pull whose subscription no heartbeat brought yet, or a newer one than the
//     last did, gets everything, as clients compare tags themselves. RocketMQ
//     refuses it (24, 25) until the next heartbeat; here only SQL92 waits.
//   - SQL92 filters need no setting (enablePropertyFilter).
//   - A popped message is not written again when it comes again; an
//     acknowledgement that is too late says so (208).
//   - A transaction ends once: what ends it again is refused (1). RocketMQ stores
//     a second commit as a second message. Half messages are not written again
//     at each check; a batch cannot be prepared (13).
//   - A reset tells the members (220) as well as sending their pulls to the new
//     position (21), and ignores commits until one is there.
//   - A group's first commit creates it, as its first pull does.
//   - Of a client with two connections, its id is listed once.
//   - Deleting a group always deletes its offsets.
//   - A group without retry queues has its failures in the dead-letter topic;
//     RocketMQ drops them.
//   - A pull whose filter turned down all there is is held; RocketMQ answers
//     at once and is asked again.
package broker
