package com.github.tidemq.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.body.LockBatchRequestBody;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

@ExtendWith(SharedBroker.class)
class OrderlyTest {
    /** Keeps each queue's order, and counts how many handlers work on one queue at a time. */
    private static final class Ledger {
        final Map<Integer, List<Integer>> consumed = new ConcurrentHashMap<>();
        final Map<Integer, AtomicInteger> busy = new ConcurrentHashMap<>();
        final AtomicInteger tooMany = new AtomicInteger();
        final AtomicInteger suspended = new AtomicInteger();

        MessageListenerOrderly listener() {
            return this::consume;
        }

        private ConsumeOrderlyStatus consume(List<MessageExt> messages, ConsumeOrderlyContext context) {
            int queue = context.getMessageQueue().getQueueId();
            AtomicInteger working = busy.computeIfAbsent(queue, q -> new AtomicInteger());
            if (working.incrementAndGet() > 1) {
                tooMany.incrementAndGet();
            }
            try {
                for (MessageExt m : messages) {
                    int n = Integer.parseInt(m.getKeys());
                    // Once in a while not yet: the queue then waits and gives the same message again.
                    if (n % 25 == 7 && m.getReconsumeTimes() == 0) {
                        suspended.incrementAndGet();
                        context.setSuspendCurrentQueueTimeMillis(10);
                        return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                    }
                    List<Integer> list = consumed.computeIfAbsent(queue, q -> new ArrayList<>());
                    synchronized (list) {
                        list.add(n);
                    }
                }
                return ConsumeOrderlyStatus.SUCCESS;
            } finally {
                working.decrementAndGet();
            }
        }

        int total() {
            return consumed.values().stream().mapToInt(List::size).sum();
        }
    }

    private static void send(DefaultMQProducer producer, List<MessageQueue> queues, int from, int to) throws Exception {
        for (int i = from; i < to; i++) {
            MessageQueue q = queues.get(i % queues.size());
            producer.send(new Message(q.getTopic(), "Tag", Integer.toString(i), "in order".getBytes(StandardCharsets.UTF_8)), q);
        }
    }

    /** One handler a queue, in the order of sending, over two members, and on when one of them leaves. */
    @Test
    void orderOverTwoMembers(Clients clients) throws Exception {
        DefaultMQProducer producer = clients.producer();
        String topic = Clients.unique("orderly");
        String group = Clients.unique("orderly");
        List<MessageQueue> queues = clients.topic(producer, topic, 4);
        Ledger ledger = new Ledger();
        DefaultMQPushConsumer a = clients.push(group, topic, "*", ledger.listener());
        DefaultMQPushConsumer b = clients.push(group, topic, "*", ledger.listener());
        // A queue is only held once the broker has granted its lock.
        Await.until("the two members holding two queues each",
            () -> ConsumerProcess.queues(a, topic).size() == 2 && ConsumerProcess.queues(b, topic).size() == 2,
            () -> ConsumerProcess.queues(a, topic) + " and " + ConsumerProcess.queues(b, topic));

        send(producer, queues, 0, 200);
        Await.until("the first 200", () -> ledger.total() >= 200, () -> "got " + ledger.total());
        // The lock is the member's: another one is not granted any of its queues.
        LockBatchRequestBody request = new LockBatchRequestBody();
        request.setConsumerGroup(group);
        request.setClientId("an-other-client");
        request.setMqSet(Set.copyOf(queues));
        String broker = producer.getDefaultMQProducerImpl().getMqClientFactory().findBrokerAddressInPublish(queues.get(0).getBrokerName());
        assertEquals(Set.of(), producer.getDefaultMQProducerImpl().getMqClientFactory().getMQClientAPIImpl()
            .lockBatchMQ(broker, request, 5_000), "queues granted to another client");

        Clients.awaitOffsets(b, queues.stream().filter(q -> ConsumerProcess.queues(b, topic).contains(q.getQueueId())).toList(), 50);
        b.shutdown();
        Await.until("the other member holding all queues", () -> ConsumerProcess.queues(a, topic).size() == 4,
            () -> ConsumerProcess.queues(a, topic).toString());
        send(producer, queues, 200, 400);
        Await.until("the other 200", () -> ledger.total() >= 400, () -> "got " + ledger.total());

        assertEquals(0, ledger.tooMany.get(), "times that two handlers worked on one queue");
        assertTrue(ledger.suspended.get() > 0, "no handler asked to wait");
        assertEquals(400, ledger.total(), "each message once");
        new TreeMap<>(ledger.consumed).forEach((queue, order) ->
            assertEquals(order.stream().sorted().toList(), order, "order in queue " + queue));
    }
}
