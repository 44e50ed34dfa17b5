package com.github.tidemq.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/** Push consumers that leave the division of queues to the broker, which has them pop. */
@ExtendWith(SharedBroker.class)
class PopTest {
    @Test
    void twoMembersPop(Clients clients) throws Exception {
        if ("ROCKETMQ".equals(System.getProperty("rocketmq.serialize.type"))) {
            return; // that header has 16 bits for a code: no client can pop with it
        }
        DefaultMQProducer producer = clients.producer();
        String topic = Clients.unique("pop");
        String group = Clients.unique("pop");
        List<MessageQueue> queues = clients.topic(producer, topic, 4);
        MQClientAPIImpl api = producer.getDefaultMQProducerImpl().getMqClientFactory().getMQClientAPIImpl();
        String broker = producer.getDefaultMQProducerImpl().getMqClientFactory().findBrokerAddressInPublish(queues.get(0).getBrokerName());
        SubscriptionGroupConfig config = new SubscriptionGroupConfig();
        config.setGroupName(group);
        api.createSubscriptionGroup(broker, config, 60_000);
        api.setMessageRequestMode(broker, topic, group, MessageRequestMode.POP, 0, 60_000);

        // The first try of one message fails: it comes again after the first step of the client's pop delays, 10 s.
        List<Inbox> inboxes = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            Inbox inbox = new Inbox() {
                @Override
                protected ConsumeConcurrentlyStatus answer(Delivery d, int tries, ConsumeConcurrentlyContext context) {
                    return d.key().equals("k7") && d.reconsumeTimes() == 0 ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                        : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                }
            };
            inboxes.add(inbox);
            clients.push(group, topic, "*", inbox, c -> c.setClientRebalance(false));
        }
        List<String> keys = new ArrayList<>();
        for (int i = 0; i < 40; i++) {
            Message m = new Message(topic, "Tag", "k" + i, "popped".getBytes(StandardCharsets.UTF_8));
            m.setDelayTimeLevel(i % 2);
            producer.send(m);
            keys.add("k" + i);
        }
        keys.add("k7");
        Await.until("all messages, one of them twice", () -> inboxes.stream().mapToInt(Inbox::size).sum() >= 41);
        List<Inbox.Delivery> all = inboxes.stream().flatMap(x -> x.all().stream()).toList();
        assertEquals(keys.stream().sorted().toList(), all.stream().map(Inbox.Delivery::key).sorted().toList());
        assertTrue(all.stream().anyMatch(d -> d.key().equals("k7") && d.reconsumeTimes() == 1), "a second try of k7");
        // Nothing is left: the group's offsets are at the ends of the queues.
        DefaultMQPullConsumer pull = clients.pull(group);
        for (MessageQueue q : queues) {
            long end = producer.maxOffset(q);
            Await.until("all acknowledged in " + q, () -> pull.fetchConsumeOffset(q, true) == end);
        }
    }
}
