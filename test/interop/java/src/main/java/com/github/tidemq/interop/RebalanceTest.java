package com.github.tidemq.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

@ExtendWith(SharedBroker.class)
class RebalanceTest {
    private static final Set<Integer> ALL = Set.of(0, 1, 2, 3, 4, 5, 6, 7);

    private static Set<String> send(DefaultMQProducer producer, List<MessageQueue> queues, String prefix, int n) throws Exception {
        Set<String> keys = new TreeSet<>();
        for (int i = 0; i < n; i++) {
            MessageQueue q = queues.get(i % queues.size());
            Message m = new Message(q.getTopic(), "Tag", prefix + i, prefix.getBytes(StandardCharsets.UTF_8));
            m.setDelayTimeLevel(i % 3 == 0 ? 1 : 0);
            producer.send(m, q);
            keys.add(prefix + i);
        }
        return keys;
    }

    private static Set<String> keysWith(String prefix, Inbox... inboxes) {
        Set<String> keys = new TreeSet<>();
        for (Inbox inbox : inboxes) {
            inbox.keys().stream().filter(k -> k.startsWith(prefix)).forEach(keys::add);
        }
        return keys;
    }

    private static void shares(DefaultMQPushConsumer a, DefaultMQPushConsumer b, String topic) throws Exception {
        Await.until("the two members having four queues each", () -> {
            Set<Integer> one = ConsumerProcess.queues(a, topic);
            Set<Integer> two = ConsumerProcess.queues(b, topic);
            Set<Integer> both = new HashSet<>(one);
            both.addAll(two);
            return one.size() == 4 && two.size() == 4 && both.equals(ALL);
        }, () -> ConsumerProcess.queues(a, topic) + " and " + ConsumerProcess.queues(b, topic));
    }

    /** Two members have four of eight queues each and see each message once; the rest goes to one when the other leaves. */
    @Test
    void twoShareAndOneLeaves(Clients clients) throws Exception {
        DefaultMQProducer producer = clients.producer();
        String topic = Clients.unique("share");
        String group = Clients.unique("share");
        List<MessageQueue> queues = clients.topic(producer, topic, 8);
        Inbox inboxA = new Inbox();
        Inbox inboxB = new Inbox();
        DefaultMQPushConsumer a = clients.push(group, topic, "*", inboxA);
        DefaultMQPushConsumer b = clients.push(group, topic, "*", inboxB);
        shares(a, b, topic);

        Set<String> first = send(producer, queues, "shared-", 160);
        Await.until("the shared messages", () -> keysWith("shared-", inboxA, inboxB).equals(first));
        assertEquals(160, inboxA.size() + inboxB.size(), "each message once");
        assertEquals(80, inboxA.size(), "messages in four of eight queues");

        Clients.awaitOffsets(b, queues.stream().filter(q -> ConsumerProcess.queues(b, topic).contains(q.getQueueId())).toList(), 20);
        b.shutdown();
        Await.until("the other member having all queues", () -> ConsumerProcess.queues(a, topic).equals(ALL),
            () -> ConsumerProcess.queues(a, topic).toString());
        int before = inboxA.size();
        Set<String> second = send(producer, queues, "alone-", 80);
        Await.until("the messages to one member", () -> keysWith("alone-", inboxA).equals(second));
        // b committed what it had consumed before it left.
        assertEquals(before + 80, inboxA.size(), "each message once, none of the old ones again");
    }

    /** A member that is killed says nothing; the broker sees its connection end and the others take over. */
    @Test
    void oneDies(Clients clients) throws Exception {
        DefaultMQProducer producer = clients.producer();
        String topic = Clients.unique("dies");
        String group = Clients.unique("dies");
        List<MessageQueue> queues = clients.topic(producer, topic, 8);
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer living = clients.push(group, topic, "*", inbox);
        try (Other other = new Other(living.getNamesrvAddr(), group, topic)) {
            Await.until("the two members having four queues each",
                () -> other.queues().size() == 4 && ConsumerProcess.queues(living, topic).size() == 4,
                () -> ConsumerProcess.queues(living, topic) + " and " + other.queues());
            Set<String> first = send(producer, queues, "shared-", 80);
            Await.until("the shared messages", () -> {
                Set<String> keys = keysWith("shared-", inbox);
                keys.addAll(other.places().keySet());
                return keys.equals(first);
            });
            assertEquals(80, inbox.size() + other.places().size(), "each message once while both lived");
            other.kill();
            Await.until("the living member having all queues", () -> ConsumerProcess.queues(living, topic).equals(ALL),
                () -> ConsumerProcess.queues(living, topic).toString());
            Set<String> second = send(producer, queues, "alone-", 80);
            Await.until("the messages to the living member", () -> keysWith("alone-", inbox).equals(second));
            // What the dead one had not committed is read again: the same records, reported apart.
            Map<String, String> places = new HashMap<>(other.places());
            int again = 0;
            Set<String> seen = new HashSet<>();
            for (Inbox.Delivery d : inbox.all()) {
                assertTrue(seen.add(d.place()), () -> "the living member read " + d.key() + " at " + d.place() + " twice");
                String place = places.put(d.key(), d.place());
                if (place != null) {
                    again++;
                    assertEquals(place, d.place(), "place of " + d.key() + ": a second record");
                }
            }
            System.out.printf("rebalance: the death of one member made %d of 40 messages be read again%n", again);
        }
    }

    /** Broadcast: every member gets everything, from each member's own offset. */
    @Test
    void broadcast(Clients clients) throws Exception {
        DefaultMQProducer producer = clients.producer();
        String topic = Clients.unique("broadcast");
        String group = Clients.unique("broadcast");
        List<MessageQueue> queues = clients.topic(producer, topic, 8);
        List<Inbox> inboxes = List.of(new Inbox(), new Inbox());
        for (Inbox inbox : inboxes) {
            clients.push(group, topic, "*", inbox, c -> c.setMessageModel(MessageModel.BROADCASTING));
        }
        Set<String> keys = send(producer, queues, "all-", 80);
        for (Inbox inbox : inboxes) {
            inbox.awaitCount("all messages at each member", 80);
            assertEquals(keys, keysWith("all-", inbox));
            assertEquals(80, inbox.size(), "each message once");
        }
    }

    /** A member in another JVM. */
    private static final class Other implements AutoCloseable {
        private final Process process;
        private final Thread reader;
        private final Map<String, String> places = new HashMap<>();
        private final List<String> lines = new ArrayList<>();
        private Set<String> queues = Set.of();

        Other(String addr, String group, String topic) throws IOException {
            process = new ProcessBuilder(ProcessHandle.current().info().command().orElse("java"), "-Xmx128m", "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1", "-Duser.home=" + System.getProperty("user.home"),
                "-Drocketmq.serialize.type=" + System.getProperty("rocketmq.serialize.type", "JSON"),
                "-cp", System.getProperty("java.class.path"), ConsumerProcess.class.getName(), addr, group, topic)
                .redirectError(ProcessBuilder.Redirect.INHERIT).start();
            reader = new Thread(() -> {
                try (BufferedReader out = process.inputReader(StandardCharsets.UTF_8)) {
                    for (String line = out.readLine(); line != null; line = out.readLine()) {
                        take(line);
                    }
                } catch (IOException e) {
                    // killed
                }
            });
            reader.start();
        }

        private synchronized void take(String line) {
            lines.add(line);
            String[] words = line.split(" ");
            if (words[0].equals("queues")) {
                queues = Set.of(List.of(words).subList(1, words.length).toArray(new String[0]));
            } else if (words[0].equals("got")) {
                String before = places.put(words[1], words[2]);
                if (before != null) {
                    throw new IllegalStateException(words[1] + " at " + before + " and " + words[2]);
                }
            }
        }

        synchronized Set<String> queues() {
            return queues;
        }

        synchronized Map<String, String> places() {
            return Map.copyOf(places);
        }

        void kill() throws Exception {
            process.destroyForcibly().waitFor();
            reader.join();
        }

        @Override
        public void close() throws Exception {
            kill();
        }
    }
}
