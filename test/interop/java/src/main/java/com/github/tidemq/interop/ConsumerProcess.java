package com.github.tidemq.interop;

import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;

/**
 * A push consumer that is a process of its own, so that it can die as processes do. Writes lines to standard output:
 * {@code queues 0 3 5} whenever the queues it holds have changed, and {@code got KEY QUEUE@OFFSET}. Ends when its standard
 * input does, as it would when its parent is gone.
 */
public final class ConsumerProcess {
    private ConsumerProcess() {
    }

    /** ADDR GROUP TOPIC. */
    public static void main(String[] args) throws Exception {
        String topic = args[2];
        Clients clients = new Clients(args[0]);
        DefaultMQPushConsumer consumer = clients.push(args[1], topic, "*", new Inbox() {
            @Override
            protected ConsumeConcurrentlyStatus answer(Delivery d, int tries, ConsumeConcurrentlyContext context) {
                print("got " + d.key() + " " + d.place());
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            }
        });
        Thread watch = new Thread(() -> {
            Set<Integer> last = null;
            while (true) {
                Set<Integer> now = queues(consumer, topic);
                if (!now.equals(last)) {
                    print("queues " + now.stream().map(String::valueOf).collect(Collectors.joining(" ")));
                    last = now;
                }
                try {
                    Thread.sleep(50);
                } catch (InterruptedException e) {
                    return;
                }
            }
        });
        watch.setDaemon(true);
        watch.start();
        while (System.in.read() >= 0) {
            // nothing is said on it
        }
        clients.close();
        System.exit(0);
    }

    /** The ids of the queues of topic that consumer holds. */
    static Set<Integer> queues(DefaultMQPushConsumer consumer, String topic) {
        return consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet().stream()
            .filter(q -> q.getTopic().equals(topic)).map(q -> q.getQueueId()).collect(Collectors.toCollection(TreeSet::new));
    }

    private static synchronized void print(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
