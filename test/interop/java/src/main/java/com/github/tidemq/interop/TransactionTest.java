package com.github.tidemq.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/** Half messages, their commit and rollback, and the broker's question about those whose producer did not know. */
@ExtendWith(SharedBroker.class)
class TransactionTest {
    @Test
    void commitRollbackAndCheckBack(Clients clients) throws Exception {
        Map<String, String> asked = new ConcurrentHashMap<>();
        TransactionMQProducer producer = clients.transactionProducer(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message m, Object arg) {
                return (LocalTransactionState) arg;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt m) {
                asked.put(m.getKeys(), m.getTransactionId());
                return m.getKeys().equals("ask-commit") ? LocalTransactionState.COMMIT_MESSAGE
                    : LocalTransactionState.ROLLBACK_MESSAGE;
            }
        });
        String topic = Clients.unique("transaction");
        List<MessageQueue> queues = clients.topic(producer, topic, 2);
        Inbox inbox = new Inbox();
        clients.push(Clients.unique("transaction"), topic, "*", inbox);
        Map<String, LocalTransactionState> decisions = Map.of("commit", LocalTransactionState.COMMIT_MESSAGE,
            "rollback", LocalTransactionState.ROLLBACK_MESSAGE, "ask-commit", LocalTransactionState.UNKNOW,
            "ask-rollback", LocalTransactionState.UNKNOW);
        Map<String, String> ids = new ConcurrentHashMap<>();
        for (Map.Entry<String, LocalTransactionState> e : decisions.entrySet()) {
            Message m = new Message(topic, "Tag", e.getKey(), e.getKey().getBytes(StandardCharsets.UTF_8));
            TransactionSendResult sent = producer.sendMessageInTransaction(m, e.getValue());
            assertEquals(e.getValue(), sent.getLocalTransactionState());
            assertNotNull(sent.getTransactionId(), "transaction id");
            ids.put(e.getKey(), sent.getTransactionId());
        }
        inbox.awaitCount("what was committed", 2);
        Await.until("the broker's questions", () -> asked.size() == 2);
        assertEquals(List.of("ask-commit", "commit"), inbox.keys().stream().sorted().toList());
        for (Inbox.Delivery d : inbox.all()) {
            assertEquals(ids.get(d.key()), d.message().getTransactionId(), "transaction id of " + d.key());
        }
        assertEquals(Map.of("ask-commit", ids.get("ask-commit"), "ask-rollback", ids.get("ask-rollback")), asked);
        long records = 0;
        for (MessageQueue q : queues) {
            records += producer.maxOffset(q);
        }
        assertEquals(2, records, "records in the topic");
    }
}
