package com.github.tidemq.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/** Clients with a namespace see their own topics and groups alone, by the names without it. */
@ExtendWith(SharedBroker.class)
class NamespaceTest {
    @Test
    void namespaces(Clients clients) throws Exception {
        String topic = Clients.unique("namespace");
        String group = Clients.unique("namespace");
        for (String namespace : List.of("ns1", "ns2")) {
            DefaultMQProducer producer = clients.producer(p -> p.setNamespace(namespace));
            List<MessageQueue> queues = clients.topic(producer, topic, 2);
            Inbox inbox = new Inbox() {
                @Override
                protected ConsumeConcurrentlyStatus answer(Delivery d, int tries, ConsumeConcurrentlyContext context) {
                    context.setDelayLevelWhenNextConsume(1);
                    return tries == 1 ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                }
            };
            clients.push(group, topic, "*", inbox, c -> {
                c.setNamespace(namespace);
                c.subscribe(topic, "*");
            });
            Message late = new Message(topic, "Tag", "late " + namespace, "late".getBytes(StandardCharsets.UTF_8));
            late.setDelayTimeLevel(1);
            producer.send(late);
            producer.send(new Message(topic, "Tag", "now " + namespace, "now".getBytes(StandardCharsets.UTF_8)));
            inbox.awaitCount("messages of " + namespace, 4); // each comes again from the retry topic
            assertEquals(List.of("late " + namespace, "now " + namespace), inbox.keys().stream().distinct().sorted().toList());
            for (Inbox.Delivery d : inbox.all()) {
                assertEquals(topic, d.topic(), "topic without the namespace");
            }
            long records = 0;
            for (MessageQueue q : queues) {
                records += producer.maxOffset(q);
            }
            assertEquals(2, records, "records in the topic of " + namespace);
        }
    }
}
