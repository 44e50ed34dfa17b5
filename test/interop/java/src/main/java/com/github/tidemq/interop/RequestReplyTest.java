package com.github.tidemq.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/** A producer waits for the reply that a consumer sends to its message. */
@ExtendWith(SharedBroker.class)
class RequestReplyTest {
    @Test
    void request(Clients clients) throws Exception {
        DefaultMQProducer asker = clients.producer();
        DefaultMQProducer replier = clients.producer();
        String topic = Clients.unique("request");
        clients.topic(asker, topic, 1);
        clients.push(Clients.unique("request"), topic, "*", (MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt m : messages) {
                try {
                    byte[] body = ("reply to " + new String(m.getBody(), StandardCharsets.UTF_8)).getBytes(StandardCharsets.UTF_8);
                    replier.send(MessageUtil.createReplyMessage(m, body));
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        for (String question : List.of("first", "second")) {
            Message reply = asker.request(new Message(topic, question.getBytes(StandardCharsets.UTF_8)), 60_000);
            assertEquals("reply to " + question, new String(reply.getBody(), StandardCharsets.UTF_8));
        }
    }
}
