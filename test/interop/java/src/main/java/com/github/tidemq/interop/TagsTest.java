package com.github.tidemq.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

@ExtendWith(SharedBroker.class)
class TagsTest {
    /** "Aa" and "BB" have the same hash, the last ones are hashed over UTF-16 units, one of them a surrogate pair. */
    private static final List<String> TAGS = List.of("TagA", "TagB", "TagC", "Aa", "BB", "标签", "größe", "🌊", "");

    private static final Map<String, List<String>> SUBSCRIPTIONS = Map.of(
        "TagA || TagB", List.of("TagA", "TagB"),
        "标签", List.of("标签"),
        "größe || 🌊", List.of("größe", "🌊"),
        "Aa", List.of("Aa"),
        "*", TAGS);

    /** Each subscription gets its tags and no other, sent at once or with a delay. */
    @Test
    void subscriptions(Clients clients) throws Exception {
        DefaultMQProducer producer = clients.producer();
        String topic = Clients.unique("tags");
        clients.topic(producer, topic, 2);
        Map<String, Inbox> inboxes = new TreeMap<>();
        for (String expression : SUBSCRIPTIONS.keySet()) {
            Inbox inbox = new Inbox();
            inboxes.put(expression, inbox);
            clients.push(Clients.unique("tags"), topic, expression, inbox);
        }
        for (int level = 0; level <= 1; level++) {
            for (String tag : TAGS) {
                Message m = new Message(topic, tag, level + tag, "tagged".getBytes(StandardCharsets.UTF_8));
                m.setDelayTimeLevel(level);
                producer.send(m);
            }
        }
        // Behind everything else, and for all: when it is there, what came before it was offered to the consumer.
        for (Map.Entry<String, Inbox> e : inboxes.entrySet()) {
            List<String> tags = SUBSCRIPTIONS.get(e.getKey());
            e.getValue().awaitCount("messages for " + e.getKey(), 2 * tags.size());
        }
        Inbox all = inboxes.get("*");
        assertEquals(2 * TAGS.size(), all.size());
        inboxes.forEach((expression, inbox) -> {
            List<String> want = SUBSCRIPTIONS.get(expression).stream().flatMap(t -> Stream.of("0" + t, "1" + t))
                .sorted().toList();
            assertEquals(want, inbox.keys().stream().sorted().toList(), () -> "keys that the subscription " + expression + " got");
        });
    }
}
