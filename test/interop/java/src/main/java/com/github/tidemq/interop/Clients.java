package com.github.tidemq.interop;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.MessageListener;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.store.OffsetStore;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/**
 * Clients of one test case, with their defaults unless said otherwise; close shuts all of them down.
 *
 * <p>Each has an instance name of its own, so that several in one JVM are as separate as processes are: own connections,
 * own client id.
 */
final class Clients implements AutoCloseable {
    private static final AtomicInteger NUMBER = new AtomicInteger();
    private static final String RUN = Long.toString(ThreadLocalRandom.current().nextLong(1 << 30), 36);

    /** Instead of 3 s for an answer: a busy machine must not make a client send again what the broker has. */
    private static final int PATIENCE_MS = 60_000;

    private final String addr;
    private final Deque<Runnable> shutdowns = new ArrayDeque<>();

    Clients(String addr) {
        this.addr = addr;
    }

    /** A topic or group name that no other case, header type or run uses. */
    static String unique(String name) {
        return "j_" + name + "_" + RUN + "_" + NUMBER.incrementAndGet();
    }

    private void configure(ClientConfig c) {
        c.setNamesrvAddr(addr);
        c.setMqClientApiTimeout(PATIENCE_MS);
        c.setInstanceName("interop-" + ProcessHandle.current().pid() + "-" + NUMBER.incrementAndGet());
    }

    DefaultMQProducer producer() throws MQClientException {
        DefaultMQProducer p = new DefaultMQProducer(unique("producer"));
        return start(p);
    }

    DefaultMQProducer producer(Setup<DefaultMQProducer> setup) throws Exception {
        DefaultMQProducer p = new DefaultMQProducer(unique("producer"));
        setup.apply(p);
        return start(p);
    }

    /** One whose sends are tried once, so that the test knows each attempt's outcome. */
    DefaultMQProducer singleAttemptProducer() throws MQClientException {
        DefaultMQProducer p = new DefaultMQProducer(unique("producer"));
        p.setRetryTimesWhenSendFailed(0);
        p.setRetryTimesWhenSendAsyncFailed(0);
        return start(p);
    }

    TransactionMQProducer transactionProducer(TransactionListener listener) throws MQClientException {
        TransactionMQProducer p = new TransactionMQProducer(unique("producer"));
        p.setTransactionListener(listener);
        return start(p);
    }

    private synchronized <P extends DefaultMQProducer> P start(P p) throws MQClientException {
        configure(p);
        p.setSendMsgTimeout(PATIENCE_MS);
        p.start();
        shutdowns.push(p::shutdown);
        return p;
    }

    /** Further settings of a consumer, before it starts. */
    interface Setup<C> {
        void apply(C consumer) throws Exception;
    }

    synchronized DefaultMQPushConsumer push(String group, String topic, String tags, MessageListener listener,
        Setup<DefaultMQPushConsumer> setup) throws Exception {
        DefaultMQPushConsumer c = new DefaultMQPushConsumer(group);
        configure(c);
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        c.subscribe(topic, tags);
        if (listener instanceof MessageListenerOrderly) {
            c.registerMessageListener((MessageListenerOrderly) listener);
        } else {
            c.registerMessageListener((MessageListenerConcurrently) listener);
        }
        setup.apply(c);
        c.start();
        shutdowns.push(c::shutdown);
        return c;
    }

    DefaultMQPushConsumer push(String group, String topic, String tags, MessageListener listener) throws Exception {
        return push(group, topic, tags, listener, c -> {
        });
    }

    synchronized DefaultMQPullConsumer pull(String group) throws MQClientException {
        return pull(group, MessageModel.CLUSTERING);
    }

    synchronized DefaultMQPullConsumer pull(String group, MessageModel model) throws MQClientException {
        DefaultMQPullConsumer c = new DefaultMQPullConsumer(group);
        configure(c);
        c.setMessageModel(model);
        c.start();
        shutdowns.push(c::shutdown);
        return c;
    }

    /** One that subscribes to topic, or, with topic null, is to be given its queues by assign. */
    synchronized DefaultLitePullConsumer lite(String group, String topic, String tags) throws MQClientException {
        DefaultLitePullConsumer c = new DefaultLitePullConsumer(group);
        configure(c);
        c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        c.setAutoCommit(false);
        if (topic != null) {
            c.subscribe(topic, tags);
        }
        c.start();
        shutdowns.push(c::shutdown);
        return c;
    }

    /** Creates topic with so many queues and returns them once the route says so. */
    List<MessageQueue> topic(DefaultMQProducer p, String topic, int queues) throws Exception {
        p.createTopic("TBW102", topic, queues, Map.of());
        Await.until("route of " + topic + " with " + queues + " queues", () -> {
            try {
                return p.fetchPublishMessageQueues(topic).size() == queues;
            } catch (MQClientException e) {
                return false;
            }
        });
        return p.fetchPublishMessageQueues(topic).stream().sorted().toList();
    }

    /**
     * Waits until consumer has noted that it consumed queues up to offset. A listener's return and that note are two
     * moments, and the client's shutdown does not wait for the second.
     */
    static void awaitOffsets(DefaultMQPushConsumer consumer, List<MessageQueue> queues, long offset) throws Exception {
        OffsetStore store = consumer.getDefaultMQPushConsumerImpl().getOffsetStore();
        Await.until("the client's offsets at " + offset,
            () -> queues.stream().allMatch(q -> store.readOffset(q, ReadOffsetType.READ_FROM_MEMORY) == offset));
    }

    /** Shuts down what is still running, last started first. Shutting one down twice does nothing. */
    @Override
    public void close() {
        List<Runnable> all;
        synchronized (this) {
            all = List.copyOf(shutdowns);
            shutdowns.clear();
        }
        // Side by side: some of them wait a second inside.
        all.parallelStream().forEach(Runnable::run);
    }
}
