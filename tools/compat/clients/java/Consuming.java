import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.StringDeserializer;

/** The commands that consume. */
final class Consuming {
    private final String brokers;
    private Poller poller;

    Consuming(String brokers) { this.brokers = brokers; }

    /** A consumer and the thread that polls it, which alone touches it. */
    private static final class Poller extends Thread {
        private final KafkaConsumer<String, String> consumer;
        private final BlockingQueue<FutureTask<Void>> tasks = new LinkedBlockingQueue<>();
        private boolean closed;
        private boolean fenced; // polled again, it would join in place of the other

        Poller(KafkaConsumer<String, String> consumer) {
            this.consumer = consumer;
            setDaemon(true);
        }

        @Override
        public void run() {
            while (!closed) {
                try {
                    if (fenced) pause();
                    else poll();
                } catch (Exception e) {
                    fenced = e instanceof FencedInstanceIdException;
                    e.printStackTrace();
                    Output.line("fault " + Client.codeOf(e));
                    pause();
                }
                for (FutureTask<Void> t = tasks.poll(); t != null; t = tasks.poll()) t.run();
            }
        }

        private void poll() {
            for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofMillis(50))) Output.got(r);
        }

        private void pause() {
            try {
                sleep(50);
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }

        private void call(Runnable r) throws Exception {
            FutureTask<Void> t = new FutureTask<>(r, null);
            tasks.add(t);
            t.get(Client.LIMIT_MS, TimeUnit.MILLISECONDS);
        }

        /** A member that has to join first, again perhaps, is polled before it commits. */
        private void commit() {
            for (long end = System.nanoTime() + Client.LIMIT_MS * 1_000_000L; ; poll()) {
                try {
                    consumer.commitSync();
                    return;
                } catch (RebalanceInProgressException | CommitFailedException e) {
                    if (System.nanoTime() > end) throw e;
                }
            }
        }

        private void close() {
            consumer.close();
            closed = true;
        }
    }

    private KafkaConsumer<String, String> consumer(Properties p) {
        p.putIfAbsent("auto.offset.reset", "earliest");
        p.put("enable.auto.commit", "false");
        p.put("default.api.timeout.ms", Client.LIMIT_MS);
        p.put("request.timeout.ms", 15_000);
        return new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer());
    }

    void assign(Client.Arguments a) {
        KafkaConsumer<String, String> c = consumer(Client.properties(brokers));
        TopicPartition tp = new TopicPartition(a.get("topic"), 0);
        c.assign(List.of(tp));
        Client.Position from = Client.Position.parse(a.get("from"));
        switch (from.form()) {
            case "start" -> c.seekToBeginning(List.of(tp));
            case "end" -> c.seekToEnd(List.of(tp));
            case "offset" -> c.seek(tp, from.value());
            case "timestamp" -> {
                OffsetAndTimestamp found = c.offsetsForTimes(Map.of(tp, from.value())).get(tp);
                c.seek(tp, found.offset());
            }
            default -> throw new IllegalArgumentException("unknown position " + from.form());
        }
        c.position(tp);
        begin(c);
    }

    void join(Client.Arguments a) {
        Properties p = Client.properties(brokers, "group.id", a.get("group"), "metadata.max.age.ms", 1000,
            "session.timeout.ms", a.get("session", "6000"), "heartbeat.interval.ms", 500,
            "auto.offset.reset", a.get("reset").equals("end") ? "latest" : "earliest");
        switch (a.get("assignor")) {
            case "range" -> p.put("partition.assignment.strategy", RangeAssignor.class.getName());
            case "cooperative-sticky" -> p.put("partition.assignment.strategy", CooperativeStickyAssignor.class.getName());
            default -> { }
        }
        if (!a.get("static").isEmpty()) p.put("group.instance.id", a.get("static"));
        KafkaConsumer<String, String> c = consumer(p);
        Output.Assignment held = new Output.Assignment();
        c.subscribe(List.of(a.get("topic")), new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> parts) { held.add(parts); }

            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> parts) { held.remove(parts); }
        });
        begin(c);
    }

    private void begin(KafkaConsumer<String, String> c) {
        poller = new Poller(c);
        poller.start();
    }

    void commit() throws Exception { poller.call(poller::commit); }

    void leave() throws Exception { poller.call(poller::close); }
}
