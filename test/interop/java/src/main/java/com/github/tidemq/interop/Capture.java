package com.github.tidemq.interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/**
 * Makes the Java client send at least one request of each code it has for TideMQ's work, for the recording proxy in
 * ../capture. The first frame of a kind is the one that is kept, so the first of each is a telling one. What a broker
 * refuses is recorded too and does not end the scenario.
 */
public final class Capture {
    private Capture() {
    }

    public static void main(String[] args) throws Exception {
        run(args);
        // The client's orderly consumers leave a thread behind that would keep the JVM alive.
        System.exit(0);
    }

    private static void run(String[] args) throws Exception {
        String addr = System.getenv("TIDEMQ_INTEROP_ADDR");
        try (Clients clients = new Clients(addr)) {
            DefaultMQProducer producer = clients.producer();
            String topic = Clients.unique("golden");
            List<MessageQueue> queues = clients.topic(producer, topic, 4);
            if (args.length > 0 && args[0].equals("plain-send")) {
                // With -Dorg.apache.rocketmq.client.sendSmartMsg=false: code 10 in place of 310.
                producer.send(message(topic, "plain", 2), queues.get(0));
                return;
            }
            sends(producer, topic, queues);
            pulls(clients, topic, queues);
            push(clients, producer, topic);
            orderly(clients, producer);
            refusals(clients, producer, topic);
            admin(producer, topic);
        }
    }

    private static Message message(String topic, String key, int level) {
        Message m = new Message(topic, "TagA", key, ("body of " + key).getBytes(StandardCharsets.UTF_8));
        m.setFlag(7);
        m.putUserProperty("color", "grün");
        if (level > 0) {
            m.setDelayTimeLevel(level);
        }
        return m;
    }

    private static void sends(DefaultMQProducer producer, String topic, List<MessageQueue> queues) throws Exception {
        SendResult first = producer.send(message(topic, "first", 1), queues.get(1));
        CountDownLatch async = new CountDownLatch(1);
        producer.send(message(topic, "async", 0), queues.get(0), new SendCallback() {
            @Override
            public void onSuccess(SendResult r) {
                async.countDown();
            }

            @Override
            public void onException(Throwable e) {
                async.countDown();
            }
        });
        async.await();
        producer.sendOneway(message(topic, "oneway", 0), queues.get(0));
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            batch.add(message(topic, "batch-" + i, 0));
        }
        producer.send(batch, queues.get(0));
        Await.until("the delayed message in its queue", () -> producer.maxOffset(queues.get(1)) > 0);
        producer.minOffset(queues.get(0));
        producer.earliestMsgStoreTime(queues.get(0));
        producer.searchOffset(queues.get(0), System.currentTimeMillis());
        attempt("view " + first.getOffsetMsgId(), () -> producer.viewMessage(topic, first.getOffsetMsgId()));
        attempt("query", () -> producer.queryMessage(topic, "async", 8, 0, System.currentTimeMillis() + 60_000));
    }

    private static void pulls(Clients clients, String topic, List<MessageQueue> queues) throws Exception {
        DefaultMQPullConsumer pull = clients.pull(Clients.unique("golden_pull"));
        MessageQueue q = queues.get(0);
        pull.pull(q, "TagA", 0, 32);
        pull.pull(q, "TagNone", 0, 32); // answered by 20: look further on
        pull.pull(q, "*", pull.maxOffset(q), 32); // 19: nothing there yet
        pull.pull(q, "*", 1_000_000, 32); // 21: moved
        pull.updateConsumeOffset(q, 2);
        pull.getDefaultMQPullConsumerImpl().getRebalanceImpl().getmQClientFactory().sendHeartbeatToAllBrokerWithLock();
        pull.persist(q);
        pull.fetchConsumeOffset(q, true);
        pull.fetchConsumeOffset(queues.get(2), true); // 22: none yet
        DefaultLitePullConsumer lite = clients.lite(Clients.unique("golden_lite"), null, null);
        lite.assign(queues);
        lite.seekToBegin(q);
        Await.until("a lite pull", () -> !lite.poll(500).isEmpty());
        lite.commit(Set.of(q), true);
        lite.committed(q);
    }

    private static void push(Clients clients, DefaultMQProducer producer, String topic) throws Exception {
        String group = Clients.unique("golden_push");
        Inbox inbox = new Inbox() {
            @Override
            protected ConsumeConcurrentlyStatus answer(Delivery d, int tries, ConsumeConcurrentlyContext context) {
                context.setDelayLevelWhenNextConsume(tries < 3 ? tries : 0);
                return d.key().equals("first") && tries < 3
                    ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            }
        };
        DefaultMQPushConsumer one = clients.push(group, topic, "TagA || TagB", inbox);
        Await.until("a message and its redelivery",
            () -> inbox.all().stream().anyMatch(d -> d.key().equals("first") && d.reconsumeTimes() == 2));
        // A second member: the broker tells the first one (40).
        clients.push(group, topic, "TagA || TagB", new Inbox());
        Await.until("the first member sharing", () ->
            one.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet().stream()
                .filter(q -> q.getTopic().equals(topic)).count() == 2);
        // As a console would: these make the broker ask the client (307, 220, 221).
        MQClientAPIImpl api = api(producer);
        String broker = broker(producer, topic);
        String id = one.buildMQClientId();
        attempt("running info", () -> api.getConsumerRunningInfo(broker, group, id, false, 5_000));
        attempt("consumer status", () -> api.invokeBrokerToGetConsumerStatus(broker, topic, group, id, 5_000));
        attempt("reset", () -> api.invokeBrokerToResetOffset(broker, topic, group, System.currentTimeMillis(), true, 5_000));
        attempt("connections", () -> api.getConsumerConnectionList(broker, group, 5_000));
        attempt("consume stats", () -> api.getConsumeStats(broker, group, 5_000));
    }

    private static void orderly(Clients clients, DefaultMQProducer producer) throws Exception {
        String topic = Clients.unique("golden_orderly");
        MessageQueue q = clients.topic(producer, topic, 1).get(0);
        producer.send(message(topic, "in-order", 0), q);
        CountDownLatch got = new CountDownLatch(1);
        DefaultMQPushConsumer c = clients.push(Clients.unique("golden_orderly"), topic, "*",
            (MessageListenerOrderly) (messages, context) -> {
                got.countDown();
                return ConsumeOrderlyStatus.SUCCESS;
            });
        got.await();
        c.shutdown(); // unlocks (42) and unregisters (35)
        DefaultMQPushConsumer b = clients.push(Clients.unique("golden_broadcast"), topic, "*", new Inbox(),
            x -> x.setMessageModel(MessageModel.BROADCASTING));
        b.shutdown();
    }

    private static void refusals(Clients clients, DefaultMQProducer producer, String topic) throws Exception {
        Message timer = message(topic, "timer", 0);
        timer.setDelayTimeMs(2_000);
        attempt("a timer", () -> producer.send(timer));
        TransactionMQProducer t = clients.transactionProducer(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message m, Object arg) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt m) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        attempt("a transaction", () -> t.sendMessageInTransaction(message(topic, "transaction", 0), null));
        attempt("a route that is not there", () -> producer.fetchPublishMessageQueues("no_such_topic_" + topic));
    }

    private static void admin(DefaultMQProducer producer, String topic) throws Exception {
        MQClientAPIImpl api = api(producer);
        String broker = broker(producer, topic);
        attempt("cluster", () -> api.getBrokerClusterInfo(5_000));
        attempt("topic stats", () -> api.getTopicStatsInfo(broker, topic, 5_000));
        attempt("delete topic", () -> {
            api.deleteTopicInBroker(broker, topic, 5_000);
            return null;
        });
    }

    private static MQClientAPIImpl api(DefaultMQProducer producer) {
        return producer.getDefaultMQProducerImpl().getMqClientFactory().getMQClientAPIImpl();
    }

    private static String broker(DefaultMQProducer producer, String topic) throws MQClientException {
        MessageQueue q = producer.fetchPublishMessageQueues(topic).get(0);
        return producer.getDefaultMQProducerImpl().getMqClientFactory().findBrokerAddressInPublish(q.getBrokerName());
    }

    private interface Step {
        Object run() throws Exception;
    }

    private static void attempt(String what, Step step) {
        try {
            step.run();
        } catch (Exception e) {
            System.out.println("answered with a refusal: " + what + ": " + e.getMessage());
        }
    }
}
