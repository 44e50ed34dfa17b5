package com.github.tidemq.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.message.MessageExt;

/** A listener that keeps what it was given, in the order of arrival. */
class Inbox implements MessageListenerConcurrently {
    /** One handing-over of a message: what it was like then, as later ones change the same object. */
    record Delivery(MessageExt message, String id, String topic, int queueId, long queueOffset, int reconsumeTimes,
                    long storeTime, long at) {
        static Delivery of(MessageExt m) {
            return new Delivery(m, m.getMsgId(), m.getTopic(), m.getQueueId(), m.getQueueOffset(), m.getReconsumeTimes(),
                m.getStoreTimestamp(), System.currentTimeMillis());
        }

        String key() {
            return message.getKeys();
        }

        /** A record's place in its topic: the same place twice is re-reading, two places with one key are two records. */
        String place() {
            return queueId + "@" + queueOffset;
        }
    }

    private final List<Delivery> deliveries = new ArrayList<>();
    private final Map<String, Integer> tries = new ConcurrentHashMap<>();

    /** The answer to one handing-over; tries counts from 1 for each unique id. */
    protected ConsumeConcurrentlyStatus answer(Delivery d, int tries, ConsumeConcurrentlyContext context) {
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
    }

    @Override
    public ConsumeConcurrentlyStatus consumeMessage(List<MessageExt> messages, ConsumeConcurrentlyContext context) {
        ConsumeConcurrentlyStatus status = ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        for (MessageExt m : messages) {
            Delivery d = Delivery.of(m);
            synchronized (deliveries) {
                deliveries.add(d);
            }
            status = answer(d, tries.merge(d.id(), 1, Integer::sum), context);
        }
        return status;
    }

    List<Delivery> all() {
        synchronized (deliveries) {
            return List.copyOf(deliveries);
        }
    }

    int size() {
        synchronized (deliveries) {
            return deliveries.size();
        }
    }

    List<String> keys() {
        return all().stream().map(Delivery::key).collect(Collectors.toList());
    }

    void clear() {
        synchronized (deliveries) {
            deliveries.clear();
        }
    }

    void awaitCount(String what, int n) throws Exception {
        Await.until(what, () -> size() >= n, () -> "got " + size() + " of " + n + ": " + keys());
    }
}
