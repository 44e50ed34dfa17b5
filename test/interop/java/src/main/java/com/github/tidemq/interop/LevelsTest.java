package com.github.tidemq.interop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

@ExtendWith(SharedBroker.class)
class LevelsTest {
    private static final int PER_LEVEL = 10;

    private record Sent(int level, long at, MessageQueue queue, String id, byte[] body) {
    }

    /** Every level, none, a negative one and one above the table: each message once, whole, where it belongs, never early. */
    @Test
    void everyLevel(Clients clients) throws Exception {
        DefaultMQProducer producer = clients.producer();
        String topic = Clients.unique("levels");
        List<MessageQueue> queues = clients.topic(producer, topic, 4);
        Inbox inbox = new Inbox();
        clients.push(Clients.unique("levels"), topic, "*", inbox);

        Map<String, Sent> sent = new ConcurrentHashMap<>();
        Random random = new Random(5);
        for (int i = 0; i < PER_LEVEL; i++) {
            for (int level = -1; level <= Broker.LEVELS + 1; level++) {
                String key = "L" + level + "-" + i;
                // Above 4 KiB the client compresses.
                byte[] body = new byte[i == 0 ? 10_000 : 100];
                random.nextBytes(body);
                Arrays.fill(body, body.length / 2, body.length, (byte) 'x');
                Message m = new Message(topic, "Tag" + i % 3, key, body);
                m.setFlag(1000 + i);
                m.putUserProperty("näme", "välue " + i);
                if (level != 0) {
                    m.setDelayTimeLevel(level);
                }
                MessageQueue q = queues.get(i % queues.size());
                long at = System.currentTimeMillis();
                SendResult r = producer.send(m, q);
                assertEquals(SendStatus.SEND_OK, r.getSendStatus(), key);
                sent.put(key, new Sent(level, at, q, r.getMsgId(), body));
            }
        }
        inbox.awaitCount("all levels", sent.size());

        Map<String, Inbox.Delivery> got = new HashMap<>();
        for (Inbox.Delivery d : inbox.all()) {
            assertNull(got.put(d.key(), d), () -> d.key() + " came twice");
        }
        assertEquals(sent.keySet(), got.keySet());
        List<Long> late = new ArrayList<>();
        got.forEach((key, d) -> {
            Sent s = sent.get(key);
            MessageExt m = d.message();
            int i = Integer.parseInt(key.substring(key.indexOf('-', 2) + 1));
            assertEquals(topic, d.topic(), key);
            assertEquals(s.queue().getQueueId(), d.queueId(), key + " queue");
            assertEquals(s.id(), d.id(), key + " unique id at send and at consume");
            assertEquals("Tag" + i % 3, m.getTags(), key);
            assertEquals(1000 + i, m.getFlag(), key);
            assertEquals("välue " + i, m.getUserProperty("näme"), key);
            assertEquals(0, d.reconsumeTimes(), key);
            assertArrayEquals(s.body(), m.getBody(), key);
            long delay = 1000L * Math.min(Math.max(s.level(), 0), Broker.LEVELS);
            if (delay > 0 && !Broker.isForeign()) { // Apache leaves the last two in
                for (String property : List.of("DELAY", "REAL_TOPIC", "REAL_QID")) {
                    assertNull(m.getProperty(property), key + " property " + property);
                }
            }
            assertTrue(m.getBornTimestamp() >= s.at(), () -> key + " born at " + m.getBornTimestamp() + ", sent at " + s.at());
            assertTrue(d.storeTime() >= m.getBornTimestamp() + delay,
                () -> key + " is early: born " + m.getBornTimestamp() + ", in its topic " + d.storeTime());
            assertTrue(d.at() >= s.at() + delay, () -> key + " is early: sent " + s.at() + ", here " + d.at());
            if (delay > 0) {
                late.add(d.at() - m.getBornTimestamp() - delay);
            }
        });
        late.sort(null);
        System.out.printf("levels: %d delayed messages, received late by p50 %d ms, max %d ms (for reading only)%n",
            late.size(), late.get(late.size() / 2), late.get(late.size() - 1));
        inOrder(got.values());
    }

    /** What one level delivers into one queue keeps the order of its sends. */
    private static void inOrder(Iterable<Inbox.Delivery> deliveries) {
        Map<String, Map<Long, Integer>> sequences = new HashMap<>();
        for (Inbox.Delivery d : deliveries) {
            int dash = d.key().indexOf('-', 2);
            sequences.computeIfAbsent(d.key().substring(0, dash) + " queue " + d.queueId(), k -> new TreeMap<>())
                .put(d.queueOffset(), Integer.parseInt(d.key().substring(dash + 1)));
        }
        sequences.forEach((where, byOffset) -> {
            List<Integer> order = new ArrayList<>(byOffset.values());
            assertEquals(order.stream().sorted().toList(), order, where);
        });
    }
}
