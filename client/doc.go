// Package client sends and receives messages of TideMQ, and of Apache RocketMQ
// (4.x and 5.x brokers), by their remoting protocol. Its exported names are
// stable.
//
// A [Client] holds the connections and what is known about topics. From it come
//
//   - [Producer]: sends one message or a batch, waits for the answer or not,
//     delays by level ([Message.DelayLevel]), chooses the queue in turn, by key
//     or by the caller's rule, tries again elsewhere;
//   - [PushConsumer]: hands a group's messages to a [Handler], several at a time
//     or in queue order, retries what failed, shares the queues with the
//     group's other members, or gets all of them (broadcast);
//   - [PullConsumer]: reads queues where and when the caller wants;
//   - [Admin]: topics, members, offsets and their reset.
//
// # Contexts and closing
//
// Every call that talks to a server takes a context and ends with it. A single
// request takes at most [WithRequestTimeout] besides. Close waits for what is
// under way as long as its context allows, so do not give it one that was
// cancelled to stop the program:
//
//	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
//	defer cancel()
//	err := c.Close(ctx)
//
// # What may happen twice
//
// Sending and consuming are at least once. A send whose answer was lost is
// repeated ([WithRetries]) and may be stored twice; both copies have the same
// [Message.ID], as has every retry of a message, so consumers can tell. A message
// is handed over again after a crash before its offset was committed
// ([WithCommitInterval]), and when its queue moves to another member while it
// is handled. TideMQ's own part, the delivery of a delayed message into its
// topic, happens exactly once.
//
// # Errors
//
// Compare with errors.Is: [ErrConnection], [ErrTimeout], [ErrTopicNotFound] and
// the others of this package. A broker's refusal is a *[BrokerError] with the
// code, its name and the broker's remark.
package client
