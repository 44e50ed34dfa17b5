package com.github.tidemq.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

@ExtendWith(SharedBroker.class)
class PullTest {
    private static void send(DefaultMQProducer producer, MessageQueue q, String tag, String key) throws Exception {
        producer.send(new Message(q.getTopic(), tag, key, key.getBytes(StandardCharsets.UTF_8)), q);
    }

    private static List<String> keys(List<MessageExt> messages) {
        return messages.stream().map(Message::getKeys).toList();
    }

    @Test
    void pullConsumer(Clients clients) throws Exception {
        DefaultMQProducer producer = clients.producer();
        String topic = Clients.unique("pull");
        List<MessageQueue> queues = clients.topic(producer, topic, 2);
        MessageQueue q = queues.get(1);
        DefaultMQPullConsumer pull = clients.pull(Clients.unique("pull"));
        assertEquals(new TreeSet<>(queues), new TreeSet<>(pull.fetchSubscribeMessageQueues(topic)));

        long start = System.currentTimeMillis();
        for (int i = 0; i < 10; i++) {
            send(producer, q, i % 2 == 0 ? "Even" : "Odd", "k" + i);
        }
        assertEquals(0, pull.minOffset(q));
        assertEquals(10, pull.maxOffset(q));
        assertEquals(0, pull.maxOffset(queues.get(0)));

        PullResult all = pull.pull(q, "*", 0, 32);
        assertEquals(PullStatus.FOUND, all.getPullStatus());
        assertEquals(List.of("k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9"), keys(all.getMsgFoundList()));
        assertEquals(10, all.getNextBeginOffset());
        assertEquals(0, all.getMinOffset());
        assertEquals(10, all.getMaxOffset());
        for (int i = 0; i < 10; i++) {
            assertEquals(i, all.getMsgFoundList().get(i).getQueueOffset());
        }
        PullResult some = pull.pull(q, "*", 4, 3);
        assertEquals(List.of("k4", "k5", "k6"), keys(some.getMsgFoundList()));
        assertEquals(7, some.getNextBeginOffset());
        assertEquals(List.of("k1", "k3", "k5", "k7", "k9"), keys(pull.pull(q, "Odd", 0, 32).getMsgFoundList()));

        PullResult none = pull.pull(q, "Neither", 0, 32);
        assertEquals(PullStatus.NO_MATCHED_MSG, none.getPullStatus());
        assertEquals(10, none.getNextBeginOffset());
        PullResult end = pull.pull(q, "*", 10, 32);
        assertEquals(PullStatus.NO_NEW_MSG, end.getPullStatus());
        assertEquals(10, end.getNextBeginOffset());
        PullResult beyond = pull.pull(q, "*", 1000, 32);
        assertEquals(PullStatus.OFFSET_ILLEGAL, beyond.getPullStatus());
        assertEquals(10, beyond.getNextBeginOffset());

        long first = all.getMsgFoundList().get(0).getStoreTimestamp();
        assertTrue(first >= start, () -> "stored at " + first + ", sent at " + start);
        assertEquals(first, pull.earliestMsgStoreTime(q));
        assertEquals(0, pull.searchOffset(q, first));
        assertEquals(0, pull.searchOffset(q, start - 60_000));
        assertEquals(10, pull.searchOffset(q, System.currentTimeMillis() + 60_000));

        // A held pull is answered by what arrives, tags included. One that comes when k10 is there already is sent on to 11.
        CompletableFuture<PullResult> held = CompletableFuture.supplyAsync(() -> {
            try {
                PullResult r = pull.pullBlockIfNotFound(q, "Awaited", 10, 32);
                while (r.getPullStatus() != PullStatus.FOUND) {
                    r = pull.pullBlockIfNotFound(q, "Awaited", r.getNextBeginOffset(), 32);
                }
                return r;
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        });
        send(producer, q, "Other", "k10");
        Message late = new Message(topic, "Awaited", "k11", "late".getBytes(StandardCharsets.UTF_8));
        late.setDelayTimeLevel(1);
        producer.send(late, q);
        PullResult found = held.get(60, TimeUnit.SECONDS);
        assertEquals(List.of("k11"), keys(found.getMsgFoundList()));
        assertEquals(12, found.getNextBeginOffset());
    }

    /** Offsets of a group are kept by the broker, for each queue, and are another group's business not at all. */
    @Test
    void pullConsumerOffsets(Clients clients) throws Exception {
        DefaultMQProducer producer = clients.producer();
        String topic = Clients.unique("offsets");
        List<MessageQueue> queues = clients.topic(producer, topic, 2);
        for (int i = 0; i < 5; i++) {
            send(producer, queues.get(0), "Tag", "k" + i);
        }
        String group = Clients.unique("offsets");
        DefaultMQPullConsumer pull = clients.pull(group);
        // The anchor says 0 while the queue's first record is still at hand, whatever the group wants; TideMQ that there is none.
        long none = Broker.isForeign() ? 0 : -1;
        assertEquals(none, pull.fetchConsumeOffset(queues.get(0), true), "offset of a new group");
        pull.updateConsumeOffset(queues.get(0), 3);
        pull.getDefaultMQPullConsumerImpl().getOffsetStore().persistAll(Set.of(queues.get(0)));
        Await.until("the committed offset", () -> pull.fetchConsumeOffset(queues.get(0), true) == 3);
        assertEquals(none, clients.pull(Clients.unique("offsets")).fetchConsumeOffset(queues.get(0), true), "another group's offset");
    }

    @Test
    void litePullSubscribes(Clients clients) throws Exception {
        DefaultMQProducer producer = clients.producer();
        String topic = Clients.unique("lite");
        List<MessageQueue> queues = clients.topic(producer, topic, 4);
        String group = Clients.unique("lite");
        Set<String> want = new TreeSet<>();
        for (int i = 0; i < 40; i++) {
            send(producer, queues.get(i % 4), i % 4 == 3 ? "Other" : "Tag", "k" + i);
            if (i % 4 != 3) {
                want.add("k" + i);
            }
        }
        DefaultLitePullConsumer lite = clients.lite(group, topic, "Tag || Tug");
        Set<String> got = new TreeSet<>();
        Await.until("the subscribed messages", () -> {
            for (MessageExt m : lite.poll(200)) {
                assertTrue(got.add(m.getKeys()), () -> m.getKeys() + " came twice");
            }
            return got.containsAll(want);
        }, () -> "got " + got);
        assertEquals(want, got);
        assertEquals(Set.copyOf(queues), lite.assignment());
        lite.commit(Set.copyOf(queues), true);
        Await.until("the committed offsets", () -> {
            for (MessageQueue q : queues.subList(0, 3)) {
                if (lite.committed(q) != 10) {
                    return false;
                }
            }
            return true;
        });
        lite.shutdown();

        // The next member of the group goes on where this one was.
        send(producer, queues.get(0), "Tag", "next");
        DefaultLitePullConsumer second = clients.lite(group, topic, "Tag || Tug");
        List<String> rest = new ArrayList<>();
        Await.until("the message behind the commit", () -> {
            rest.addAll(keys(second.poll(200)));
            return rest.contains("next");
        }, () -> "got " + rest);
        assertEquals(List.of("next"), rest);
    }

    private interface Seek {
        void run() throws MQClientException;
    }

    /**
     * Seeks until exactly want comes from there to the queue's end. Once is not always enough: this client's seek may be
     * overtaken by the pull that was under way, whose messages then come as well and whose end it goes on from.
     */
    private static void awaitFrom(DefaultLitePullConsumer lite, String where, Seek seek, List<String> want) throws Exception {
        List<List<String>> rounds = new ArrayList<>();
        Await.until("the messages from " + where + " on", () -> {
            seek.run();
            List<String> got = new ArrayList<>();
            for (List<MessageExt> more = lite.poll(2000); !more.isEmpty() && got.size() < want.size(); more = lite.poll(2000)) {
                got.addAll(keys(more));
                if (got.equals(want)) {
                    return true;
                }
            }
            rounds.add(got);
            return false;
        }, () -> "rounds: " + rounds);
    }

    @Test
    void litePullSeeks(Clients clients) throws Exception {
        DefaultMQProducer producer = clients.producer();
        String topic = Clients.unique("seek");
        MessageQueue q = clients.topic(producer, topic, 1).get(0);
        for (int i = 0; i < 10; i++) {
            send(producer, q, "Tag", "k" + i);
        }
        DefaultLitePullConsumer lite = clients.lite(Clients.unique("seek"), null, null);
        lite.assign(List.of(q));
        awaitFrom(lite, "7", () -> lite.seek(q, 7), List.of("k7", "k8", "k9"));
        awaitFrom(lite, "the beginning", () -> lite.seekToBegin(q),
            List.of("k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9"));
        awaitFrom(lite, "8", () -> lite.seek(q, 8), List.of("k8", "k9"));
        assertEquals(10, lite.offsetForTimestamp(q, System.currentTimeMillis() + 60_000));
    }
}
