package com.github.tidemq.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/** SQL92 expressions over properties. */
@ExtendWith(SharedBroker.class)
class FilterTest {
    private static final int SUBSCRIPTION_PARSE_FAILED = 23;

    private static final Map<String, List<String>> SELECTED = Map.of(
        "qty > 5", List.of("k2", "k4"),
        "qty BETWEEN 1 AND 6 AND TAGS = 'TagA'", List.of("k1"),
        "region IN ('eu', 'us') OR qty IS NULL", List.of("k1", "k2", "k3"),
        "region STARTSWITH 'e' and not (qty = 5)", List.of("k2"),
        "TRUE", List.of("k1", "k2", "k3", "k4"));

    private static Message message(String topic, String key, String tag, String... properties) {
        Message m = new Message(topic, tag, key, key.getBytes(StandardCharsets.UTF_8));
        for (int i = 0; i < properties.length; i += 2) {
            m.putUserProperty(properties[i], properties[i + 1]);
        }
        return m;
    }

    private static List<Message> messages(String topic) {
        return List.of(message(topic, "k1", "TagA", "qty", "5", "region", "eu"),
            message(topic, "k2", "TagB", "qty", "7", "region", "eu"), message(topic, "k3", "TagA"),
            message(topic, "k4", "TagB", "qty", "9", "region", "asia"));
    }

    /** Each push consumer gets what its expression selects and nothing else, sent at once or with a delay. */
    @Test
    void push(Clients clients) throws Exception {
        DefaultMQProducer producer = clients.producer();
        String topic = Clients.unique("sql");
        clients.topic(producer, topic, 2);
        Map<String, Inbox> inboxes = new TreeMap<>();
        for (String expression : SELECTED.keySet()) {
            Inbox inbox = new Inbox();
            inboxes.put(expression, inbox);
            clients.push(Clients.unique("sql"), topic, "*", inbox, c -> c.subscribe(topic, MessageSelector.bySql(expression)));
        }
        for (int level = 0; level <= 1; level++) {
            for (Message m : messages(topic)) {
                m.setDelayTimeLevel(level);
                producer.send(m);
            }
        }
        for (Map.Entry<String, List<String>> e : SELECTED.entrySet()) {
            inboxes.get(e.getKey()).awaitCount("messages for " + e.getKey(), 2 * e.getValue().size());
        }
        inboxes.forEach((expression, inbox) -> assertEquals(SELECTED.get(expression),
            inbox.keys().stream().distinct().sorted().toList(), () -> "what " + expression + " selects"));
        SELECTED.forEach((expression, keys) -> assertEquals(2 * keys.size(), inboxes.get(expression).size(), expression));
    }

    @Test
    void pull(Clients clients) throws Exception {
        DefaultMQProducer producer = clients.producer();
        String topic = Clients.unique("sql");
        MessageQueue q = clients.topic(producer, topic, 1).get(0);
        for (Message m : messages(topic)) {
            producer.send(m, q);
        }
        DefaultMQPullConsumer consumer = clients.pull(Clients.unique("sql"));
        // Only an answer to a heartbeat tells the client that the broker is new enough for expressions.
        consumer.pull(q, "*", 0, 1);
        consumer.getDefaultMQPullConsumerImpl().getRebalanceImpl().getmQClientFactory().sendHeartbeatToAllBrokerWithLock();
        for (Map.Entry<String, List<String>> e : SELECTED.entrySet()) {
            PullResult found = consumer.pull(q, MessageSelector.bySql(e.getKey()), 0, 32);
            assertEquals(PullStatus.FOUND, found.getPullStatus(), e.getKey());
            assertEquals(e.getValue(), found.getMsgFoundList().stream().map(Message::getKeys).toList(), e.getKey());
            assertEquals(4, found.getNextBeginOffset(), e.getKey());
        }
        assertEquals(PullStatus.NO_MATCHED_MSG, consumer.pull(q, MessageSelector.bySql("qty > 100"), 0, 32).getPullStatus());
        MQBrokerException e = assertThrows(MQBrokerException.class, () -> consumer.pull(q, MessageSelector.bySql("qty >"), 0, 32));
        assertEquals(SUBSCRIPTION_PARSE_FAILED, e.getResponseCode(), e.getErrorMessage());
    }

    /** A consumer with a wrong expression does not start: it has its subscriptions checked first. */
    @Test
    void wrongExpression(Clients clients) throws Exception {
        DefaultMQProducer producer = clients.producer();
        String topic = Clients.unique("sql");
        clients.topic(producer, topic, 1);
        MQClientException e = assertThrows(MQClientException.class, () -> clients.push(Clients.unique("sql"), topic, "*",
            new Inbox(), c -> c.subscribe(topic, MessageSelector.bySql("qty > > 5"))));
        assertEquals(SUBSCRIPTION_PARSE_FAILED, e.getResponseCode(), e.getErrorMessage());
    }
}
