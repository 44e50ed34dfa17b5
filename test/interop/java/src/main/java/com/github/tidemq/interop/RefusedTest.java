package com.github.tidemq.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.function.Consumer;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/** What TideMQ cannot do yet it refuses with code 13 and the reason, and never delivers at once in silence. */
@ExtendWith(SharedBroker.class)
class RefusedTest {
    private static final int MESSAGE_ILLEGAL = 13;

    @BeforeEach
    void onlyTideMQ() {
        Assumptions.assumeFalse(Broker.isForeign(), "Apache RocketMQ supports timers");
    }

    private static Message message(String topic, String key) {
        return new Message(topic, "Tag", key, ("body of " + key).getBytes(StandardCharsets.UTF_8));
    }

    private static MQBrokerException brokerException(Throwable e) {
        for (Throwable t = e; t != null; t = t.getCause()) {
            if (t instanceof MQBrokerException) {
                return (MQBrokerException) t;
            }
        }
        throw new AssertionError("no answer of the broker in " + e, e);
    }

    @Test
    void timers(Clients clients) throws Exception {
        DefaultMQProducer producer = clients.producer();
        String topic = Clients.unique("timer");
        List<MessageQueue> queues = clients.topic(producer, topic, 1);
        List<Consumer<Message>> timers = List.of(m -> m.setDelayTimeMs(2_000), m -> m.setDelayTimeSec(2),
            m -> m.setDeliverTimeMs(System.currentTimeMillis() + 2_000));
        for (Consumer<Message> timer : timers) {
            Message m = message(topic, "timer");
            timer.accept(m);
            MQBrokerException e = brokerException(assertThrows(Exception.class, () -> producer.send(m), m.getProperties()::toString));
            assertEquals(MESSAGE_ILLEGAL, e.getResponseCode(), e.getErrorMessage());
            assertTrue(e.getErrorMessage().contains("TIMER_"), "the reason names the property: " + e.getErrorMessage());
        }
        producer.send(message(topic, "plain"));
        assertEquals(1, producer.maxOffset(queues.get(0)), "only the plain message is there");
    }
}
