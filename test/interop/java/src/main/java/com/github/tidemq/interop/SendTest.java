package com.github.tidemq.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

@ExtendWith(SharedBroker.class)
class SendTest {
    private static Message message(String topic, String key) {
        return new Message(topic, "Tag", key, ("body of " + key).getBytes(StandardCharsets.UTF_8));
    }

    /** The first send makes the topic; the route then has as many queues as the producer asked for. */
    @Test
    void createsTheTopic(Clients clients) throws Exception {
        DefaultMQProducer producer = clients.producer();
        producer.setDefaultTopicQueueNums(6);
        String topic = Clients.unique("auto");
        SendResult r = producer.send(message(topic, "first"));
        Await.until("route", () -> {
            try {
                producer.getDefaultMQProducerImpl().getMqClientFactory().updateTopicRouteInfoFromNameServer(topic);
                return producer.fetchPublishMessageQueues(topic).size() == 6;
            } catch (MQClientException e) {
                return false;
            }
        });
        Inbox inbox = new Inbox();
        clients.push(Clients.unique("auto"), topic, "*", inbox);
        inbox.awaitCount("the first message", 1);
        assertEquals(List.of(r.getMsgId()), inbox.all().stream().map(Inbox.Delivery::id).toList());
    }

    @Test
    void syncAsyncOnewayBatch(Clients clients) throws Exception {
        DefaultMQProducer producer = clients.producer();
        String topic = Clients.unique("send");
        List<MessageQueue> queues = clients.topic(producer, topic, 4);
        Inbox inbox = new Inbox();
        clients.push(Clients.unique("send"), topic, "*", inbox);

        Map<String, SendResult> results = new HashMap<>();
        for (int i = 0; i < 20; i++) {
            results.put("sync-" + i, producer.send(message(topic, "sync-" + i)));
        }
        Map<String, CompletableFuture<SendResult>> futures = new HashMap<>();
        for (int i = 0; i < 20; i++) {
            CompletableFuture<SendResult> f = new CompletableFuture<>();
            futures.put("async-" + i, f);
            Message m = message(topic, "async-" + i);
            m.setDelayTimeLevel(i % 2);
            producer.send(m, new SendCallback() {
                @Override
                public void onSuccess(SendResult r) {
                    f.complete(r);
                }

                @Override
                public void onException(Throwable e) {
                    f.completeExceptionally(e);
                }
            });
        }
        for (Map.Entry<String, CompletableFuture<SendResult>> e : futures.entrySet()) {
            results.put(e.getKey(), e.getValue().get(60, TimeUnit.SECONDS));
        }
        for (int i = 0; i < 20; i++) {
            Message m = message(topic, "oneway-" + i);
            m.setDelayTimeLevel(i % 2);
            producer.sendOneway(m);
        }
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            batch.add(message(topic, "batch-" + i));
        }
        SendResult b = producer.send(batch, queues.get(2));
        List<String> batchIds = List.of(b.getMsgId().split(","));
        assertEquals(20, batchIds.size(), b.getMsgId());
        inbox.awaitCount("all sends", 80);

        Map<String, Inbox.Delivery> got = new HashMap<>();
        for (Inbox.Delivery d : inbox.all()) {
            assertNull(got.put(d.key(), d), () -> d.key() + " came twice");
            assertEquals("body of " + d.key(), new String(d.message().getBody(), StandardCharsets.UTF_8));
        }
        results.forEach((key, r) -> {
            Inbox.Delivery d = got.get(key);
            assertEquals(r.getMsgId(), d.id(), key + " unique id");
            assertEquals(r.getMessageQueue().getQueueId(), d.queueId(), key + " queue");
        });
        // A batch is laid down as one: its messages are neighbours, in their order, in the queue it was sent to.
        for (int i = 0; i < 20; i++) {
            Inbox.Delivery d = got.get("batch-" + i);
            assertEquals(batchIds.get(i), d.id(), "batch-" + i + " unique id");
            assertEquals(2, d.queueId(), "batch-" + i + " queue");
            assertEquals(b.getQueueOffset() + i, d.queueOffset(), "batch-" + i + " queue offset");
        }
        for (int i = 0; i < 20; i++) {
            assertTrue(got.containsKey("oneway-" + i), "oneway-" + i);
        }
    }
}
