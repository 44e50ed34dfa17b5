package com.github.tidemq.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.junit.jupiter.api.Test;

/** The broker stops, or is killed, in the middle of the work. Each case has a broker of its own. */
class RestartTest {
    /**
     * Producers that send at levels 0 to 3 until they are told to stop, and know what became of each message. Every message
     * has a key of its own and one attempt; a send that failed may or may not have been stored.
     */
    private static final class Load implements AutoCloseable {
        final Map<String, Integer> levels = new ConcurrentHashMap<>();
        final Map<String, SendResult> acknowledged = new ConcurrentHashMap<>();
        final Set<String> unanswered = ConcurrentHashMap.newKeySet();
        private final AtomicBoolean stop = new AtomicBoolean();
        private final List<Thread> threads = new ArrayList<>();
        private final DefaultMQProducer last;
        private final List<MessageQueue> queues;

        Load(Clients clients, List<MessageQueue> queues) throws Exception {
            this.queues = queues;
            last = clients.producer();
            for (int t = 0; t < 4; t++) {
                String name = "p" + t + "-";
                DefaultMQProducer producer = clients.singleAttemptProducer();
                Thread thread = new Thread(() -> run(producer, queues, name), "load-" + name);
                threads.add(thread);
                thread.start();
            }
        }

        private void run(DefaultMQProducer producer, List<MessageQueue> queues, String name) {
            for (int i = 0; !stop.get(); i++) {
                String key = name + i;
                MessageQueue q = queues.get(i % queues.size());
                Message m = new Message(q.getTopic(), "Tag", key, ("body of " + key).getBytes(StandardCharsets.UTF_8));
                m.setDelayTimeLevel(i % 4);
                levels.put(key, i % 4);
                try {
                    SendResult r = producer.send(m, q);
                    if (r.getSendStatus() == SendStatus.SEND_OK) {
                        acknowledged.put(key, r);
                    } else {
                        unanswered.add(key);
                    }
                    Thread.sleep(1);
                } catch (InterruptedException e) {
                    unanswered.add(key);
                    return;
                } catch (Exception e) {
                    unanswered.add(key);
                    try {
                        Thread.sleep(20);
                    } catch (InterruptedException interrupted) {
                        return;
                    }
                }
            }
        }

        /** Returns once so many more were acknowledged. */
        void more(int n) throws Exception {
            int want = acknowledged.size() + n;
            Await.until(n + " more acknowledged sends", () -> acknowledged.size() >= want,
                () -> acknowledged.size() + " acknowledged, " + unanswered.size() + " not");
        }

        /**
         * Stops and sends one more message at each level. Each level delivers in order, so that when these are in their
         * topic, whatever was stored of the others is there too.
         */
        @Override
        public void close() throws Exception {
            stop.set(true);
            for (Thread t : threads) {
                t.join();
            }
            for (int level = 0; level < 4; level++) {
                String key = "last-" + level;
                Message m = new Message(queues.get(0).getTopic(), "Tag", key, ("body of " + key).getBytes(StandardCharsets.UTF_8));
                m.setDelayTimeLevel(level);
                levels.put(key, level);
                acknowledged.put(key, last.send(m, queues.get(0)));
            }
        }
    }

    /** Every record of the queues, read by plain pulls; fails if offsets have a gap or a place holds another offset. */
    private static List<MessageExt> records(DefaultMQPullConsumer pull, List<MessageQueue> queues) throws Exception {
        List<MessageExt> all = new ArrayList<>();
        for (MessageQueue q : queues) {
            long next = pull.minOffset(q);
            assertEquals(0, next, "min offset of " + q);
            long max = pull.maxOffset(q);
            while (next < max) {
                PullResult r = pull.pull(q, "*", next, 32);
                assertEquals(PullStatus.FOUND, r.getPullStatus(), q + " at " + next);
                for (MessageExt m : r.getMsgFoundList()) {
                    assertEquals(next++, m.getQueueOffset(), "queue offset in " + q);
                    all.add(m);
                }
            }
        }
        return all;
    }

    /** Waits until all of keys are in the topic, then counts its records: keys once, maybe at most once, others never. */
    private static void exactlyOnce(DefaultMQPullConsumer pull, List<MessageQueue> queues, Load load) throws Exception {
        Set<String> keys = load.acknowledged.keySet();
        Await.until("all acknowledged messages in their topic", () -> {
            long sum = 0;
            for (MessageQueue q : queues) {
                sum += pull.maxOffset(q);
            }
            if (sum < keys.size()) {
                return false;
            }
            Set<String> there = new HashSet<>();
            records(pull, queues).forEach(m -> there.add(m.getKeys()));
            return there.containsAll(keys);
        }, () -> keys.size() + " acknowledged");
        Map<String, Integer> count = new HashMap<>();
        int unanswered = 0;
        for (MessageExt m : records(pull, queues)) {
            String key = m.getKeys();
            assertEquals(1, count.merge(key, 1, Integer::sum), () -> "records of " + key);
            assertEquals("body of " + key, new String(m.getBody(), StandardCharsets.UTF_8));
            SendResult r = load.acknowledged.get(key);
            if (r == null) {
                assertTrue(load.unanswered.contains(key), () -> "a record of " + key + ", which nobody sent");
                unanswered++;
            } else {
                assertEquals(r.getMsgId(), m.getMsgId(), () -> "unique id of " + key);
                assertEquals(r.getMessageQueue().getQueueId(), m.getQueueId(), () -> "queue of " + key);
            }
            assertTrue(m.getStoreTimestamp() >= m.getBornTimestamp() + 1000L * load.levels.get(key),
                () -> key + " is early: born " + m.getBornTimestamp() + ", in its topic " + m.getStoreTimestamp());
        }
        assertTrue(count.keySet().containsAll(keys), "acknowledged messages without a record");
        System.out.printf("restart: %d acknowledged, each once; %d unanswered, of them %d stored%n",
            keys.size(), load.unanswered.size(), unanswered);
    }

    /** Queues of a new topic, by a broker of the case's own. */
    private static List<MessageQueue> topic(Clients clients, String name) throws Exception {
        return clients.topic(clients.producer(), Clients.unique(name), 4);
    }

    /**
     * A group that left goes on behind the restart exactly where it was: nothing again, nothing left out.
     *
     * <p>What the client leaves when it shuts down is what its listeners have returned from and it has noted; what a listener
     * still works on it leaves to the next one.
     */
    @Test
    void offsetsGoOnExactly() throws Exception {
        CountDownLatch left = new CountDownLatch(1);
        try (Broker broker = Broker.own("offsets"); Clients clients = new Clients(broker.addr())) {
            List<MessageQueue> queues = topic(clients, "offsets");
            String topic = queues.get(0).getTopic();
            String group = Clients.unique("offsets");
            DefaultMQProducer producer = clients.producer();
            Set<String> sent = new TreeSet<>();
            for (int i = 0; i < 300; i++) {
                producer.send(new Message(topic, "Tag", "first-" + i, new byte[10]), queues.get(i % 4));
                sent.add("first-" + i);
            }
            Inbox before = new Inbox();
            DefaultMQPushConsumer first = clients.push(group, topic, "*", (MessageListenerConcurrently) (messages, context) -> {
                if (messages.get(0).getKeys().startsWith("second-")) {
                    Await.uninterruptibly(left); // due before the shutdown, if that is slow in coming
                    return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                }
                return before.consumeMessage(messages, context);
            });
            before.awaitCount("what was sent first", 300);
            Clients.awaitOffsets(first, queues, 75);
            Set<String> rest = new TreeSet<>();
            for (int i = 0; i < 100; i++) {
                Message m = new Message(topic, "Tag", "second-" + i, new byte[10]);
                m.setDelayTimeLevel(4);
                producer.send(m, queues.get(i % 4));
                rest.add("second-" + i);
            }
            first.shutdown(); // commits its offsets, with the delayed ones on the way
            left.countDown();
            broker.terminate();
            broker.start();
            DefaultMQPullConsumer asks = clients.pull(group);
            for (MessageQueue q : queues) {
                assertEquals(75, Await.success("the offset of " + q, () -> asks.fetchConsumeOffset(q, true)), () -> "offset of " + q);
            }
            asks.shutdown();
            Inbox after = new Inbox();
            clients.push(group, topic, "*", after);
            after.awaitCount("the rest", rest.size());
            assertEquals(sent, new TreeSet<>(before.keys()));
            assertEquals(sent.size(), before.size(), "messages before the restart");
            assertEquals(rest, new TreeSet<>(after.keys()));
            assertEquals(rest.size(), after.size(), "messages after the restart");
        } finally {
            left.countDown();
        }
    }

    /** SIGTERM under load, with producers and a consumer that live through it. */
    @Test
    void terminatedUnderLoad() throws Exception {
        underLoad("terminated", Broker::terminate, 2);
    }

    /** SIGKILL under load. */
    @Test
    void killedUnderLoad() throws Exception {
        underLoad("killed", Broker::kill, 3);
    }

    private interface Blow {
        void to(Broker broker) throws Exception;
    }

    private static void underLoad(String name, Blow blow, int times) throws Exception {
        try (Broker broker = Broker.own(name); Clients clients = new Clients(broker.addr())) {
            List<MessageQueue> queues = topic(clients, name);
            String topic = queues.get(0).getTopic();
            Inbox inbox = new Inbox();
            clients.push(Clients.unique(name), topic, "*", inbox);
            Load load = new Load(clients, queues);
            try (load) {
                for (int i = 0; i < times; i++) {
                    load.more(400);
                    blow.to(broker);
                    broker.start();
                }
                load.more(400);
            }
            DefaultMQPullConsumer pull = clients.pull(Clients.unique(name + "_count"));
            exactlyOnce(pull, queues, load);

            Await.until("the consumer having seen everything", () -> new HashSet<>(inbox.keys()).containsAll(load.acknowledged.keySet()),
                () -> inbox.size() + " of " + load.acknowledged.size());
            Map<String, Set<String>> places = new HashMap<>();
            AtomicInteger again = new AtomicInteger();
            for (Inbox.Delivery d : inbox.all()) {
                if (!places.computeIfAbsent(d.key(), k -> new HashSet<>()).add(d.place())) {
                    again.incrementAndGet();
                }
            }
            places.forEach((key, where) -> assertEquals(1, where.size(), () -> key + " was consumed from " + where));
            System.out.printf("restart: %s %d times, the consumer read %d of %d again%n", name, times, again.get(), inbox.size());
        }
    }
}
