package com.github.tidemq.mqadmin;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** What the commands find: a topic with messages, a producer and a consumer on-line, a group that is off-line. */
final class Fixture {
    static final int MESSAGES = 8;
    private static final Pattern PLACE = Pattern.compile("<([a-z-]+)>");

    final String namesrv;
    final String broker;
    private final Path folder;
    private final Map<String, String> places = new TreeMap<>();

    Fixture(String namesrv, String broker, Path folder) {
        this.namesrv = namesrv;
        this.broker = broker;
        this.folder = folder;
    }

    void start() throws Exception {
        System.setProperty("rocketmq.namesrv.addr", namesrv);
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(namesrv);
        admin.start();
        admin.createTopic("TBW102", "orders", 4, Map.of());
        admin.createTopic("TBW102", "to-delete", 1, Map.of());

        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("billing");
        consumer.setNamesrvAddr(namesrv);
        consumer.subscribe("orders", "*");
        CountDownLatch consumed = new CountDownLatch(MESSAGES);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(m -> consumed.countDown());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();

        DefaultMQProducer producer = new DefaultMQProducer("shop");
        producer.setNamesrvAddr(namesrv);
        producer.start();
        for (int i = 0; i < MESSAGES; i++) {
            Message message = new Message("orders", "paid", "order-" + i, ("order " + i).getBytes(StandardCharsets.UTF_8));
            SendResult sent = producer.send(message);
            places.put("msg-id", sent.getOffsetMsgId());
            places.put("unique-key", sent.getMsgId());
            places.put("queue", String.valueOf(sent.getMessageQueue().getQueueId()));
            places.put("offset", String.valueOf(sent.getQueueOffset()));
        }
        if (!consumed.await(30, TimeUnit.SECONDS)) {
            throw new IllegalStateException("the consumer did not get all messages");
        }
        consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
        producer.getDefaultMQProducerImpl().getMqClientFactory().sendHeartbeatToAllBrokerWithLock();

        places.put("ns", namesrv);
        places.put("broker", broker);
        places.put("dir", folder.toString());
        places.put("client-id", consumer.buildMQClientId());
        file("topics.json", "[{\"topicName\":\"list-a\",\"readQueueNums\":2,\"writeQueueNums\":2,\"perm\":6},{\"topicName\":\"list-b\"}]");
        file("groups.json", "[{\"groupName\":\"list-group-a\"},{\"groupName\":\"list-group-b\",\"retryMaxTimes\":3}]");
        admin.shutdown();
    }

    private void file(String name, String text) throws IOException {
        Files.createDirectories(folder);
        Files.writeString(folder.resolve(name), text, StandardCharsets.UTF_8);
    }

    /** The arguments of a command line: divided at blanks, '…' kept together, places filled. */
    List<String> fill(String line) {
        List<String> args = new ArrayList<>();
        Matcher words = Pattern.compile("'([^']*)'|(\\S+)").matcher(line);
        while (words.find()) {
            String word = words.group(1) != null ? words.group(1) : words.group(2);
            args.add(PLACE.matcher(word).replaceAll(m -> {
                String value = places.get(m.group(1));
                if (value == null) {
                    throw new IllegalArgumentException("nothing is known of " + m.group());
                }
                return Matcher.quoteReplacement(value);
            }));
        }
        return args;
    }
}
