package com.github.tidemq.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

@ExtendWith(SharedBroker.class)
class RetryTest {
    /** Fails until a message was given so many times. */
    private static Inbox failing(int times, int delayLevel) {
        return new Inbox() {
            @Override
            protected ConsumeConcurrentlyStatus answer(Delivery d, int tries, ConsumeConcurrentlyContext context) {
                context.setDelayLevelWhenNextConsume(delayLevel);
                return tries <= times ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            }
        };
    }

    private static SendResult send(DefaultMQProducer producer, String topic, String key) throws Exception {
        return producer.send(new Message(topic, "Tag", key, ("body of " + key).getBytes(StandardCharsets.UTF_8)));
    }

    /** RECONSUME_LATER with the level left to the broker: 3, 4, … so the waits grow, and reconsumeTimes counts. */
    @Test
    void levelGrows(Clients clients) throws Exception {
        DefaultMQProducer producer = clients.producer();
        String topic = Clients.unique("retry");
        clients.topic(producer, topic, 2);
        Inbox inbox = failing(3, 0);
        String group = Clients.unique("retry");
        clients.push(group, topic, "Tag", inbox);
        SendResult sent = send(producer, topic, "again");
        inbox.awaitCount("the message and three redeliveries", 4);

        List<Inbox.Delivery> tries = inbox.all();
        assertEquals(List.of(0, 1, 2, 3), tries.stream().map(Inbox.Delivery::reconsumeTimes).toList());
        for (int i = 0; i < 4; i++) {
            Inbox.Delivery d = tries.get(i);
            assertEquals(sent.getMsgId(), d.id(), "unique id of try " + i);
            assertEquals(topic, d.message().getTopic(), "topic of try " + i);
            assertEquals("again", d.key());
            assertEquals("Tag", d.message().getTags());
            assertEquals("body of again", new String(d.message().getBody(), StandardCharsets.UTF_8));
            if (i > 0) {
                assertEquals(sent.getOffsetMsgId(), d.message().getProperty("ORIGIN_MESSAGE_ID"), "origin of try " + i);
                assertEquals(topic, d.message().getProperty("RETRY_TOPIC"), "retry topic of try " + i);
                long wait = d.storeTime() - tries.get(i - 1).at();
                long level = 2 + i;
                assertTrue(wait >= 1000 * level, () -> "a redelivery at level " + level + " is early: stored " + wait + " ms after the failure");
            }
        }
    }

    /** A level of the listener's choice goes before the broker's. */
    @Test
    void levelOfTheListener(Clients clients) throws Exception {
        DefaultMQProducer producer = clients.producer();
        String topic = Clients.unique("retry_level");
        clients.topic(producer, topic, 1);
        Inbox inbox = failing(2, 1);
        clients.push(Clients.unique("retry_level"), topic, "*", inbox);
        send(producer, topic, "again");
        inbox.awaitCount("the message and two redeliveries", 3);
        List<Inbox.Delivery> tries = inbox.all();
        assertEquals(List.of(0, 1, 2), tries.stream().map(Inbox.Delivery::reconsumeTimes).toList());
        for (int i = 1; i < 3; i++) {
            long wait = tries.get(i).storeTime() - tries.get(i - 1).at();
            assertTrue(wait >= 1000, () -> "a redelivery at level 1 is early: stored " + wait + " ms after the failure");
        }
    }

    /** Failing more often than the group allows leads to %DLQ%group, once, readable by a plain pull. */
    @Test
    void deadLetterAfterTheLastRetry(Clients clients) throws Exception {
        DefaultMQProducer producer = clients.producer();
        String topic = Clients.unique("dead");
        clients.topic(producer, topic, 1);
        String group = Clients.unique("dead");
        Inbox inbox = failing(Integer.MAX_VALUE, 1);
        clients.push(group, topic, "*", inbox, c -> c.setMaxReconsumeTimes(2));
        SendResult sent = send(producer, topic, "hopeless");
        MessageExt dead = deadLetter(clients, group);
        assertEquals("hopeless", dead.getKeys());
        assertEquals(sent.getMsgId(), dead.getMsgId(), "unique id");
        assertEquals("body of hopeless", new String(dead.getBody(), StandardCharsets.UTF_8));
        assertEquals(topic, dead.getProperty("RETRY_TOPIC"));
        assertEquals(sent.getOffsetMsgId(), dead.getProperty("ORIGIN_MESSAGE_ID"));
        assertEquals(List.of(0, 1, 2), inbox.all().stream().map(Inbox.Delivery::reconsumeTimes).toList());
    }

    /** Level -1 means: to the dead letters at once. */
    @Test
    void deadLetterAtOnce(Clients clients) throws Exception {
        DefaultMQProducer producer = clients.producer();
        String topic = Clients.unique("dead_now");
        clients.topic(producer, topic, 1);
        String group = Clients.unique("dead_now");
        Inbox inbox = failing(Integer.MAX_VALUE, -1);
        clients.push(group, topic, "*", inbox);
        send(producer, topic, "unwanted");
        MessageExt dead = deadLetter(clients, group);
        assertEquals("unwanted", dead.getKeys());
        assertEquals(List.of(0), inbox.all().stream().map(Inbox.Delivery::reconsumeTimes).toList());
    }

    /** The one record of the group's dead-letter topic. */
    private static MessageExt deadLetter(Clients clients, String group) throws Exception {
        DefaultMQPullConsumer pull = clients.pull(Clients.unique("dead_reader"));
        String topic = "%DLQ%" + group;
        Set<MessageQueue> queues = new HashSet<>();
        Await.until("route of " + topic, () -> {
            try {
                queues.addAll(pull.fetchSubscribeMessageQueues(topic));
                return true;
            } catch (MQClientException e) {
                return false;
            }
        });
        assertEquals(1, queues.size(), "queues of " + topic);
        MessageQueue q = queues.iterator().next();
        Await.until("a dead letter of " + group, () -> pull.maxOffset(q) > 0);
        PullResult r = pull.pull(q, "*", 0, 32);
        assertEquals(PullStatus.FOUND, r.getPullStatus());
        assertEquals(1, r.getMsgFoundList().size(), "records of " + topic);
        return r.getMsgFoundList().get(0);
    }
}
