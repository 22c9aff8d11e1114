import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

/** The commands that produce. */
final class Producing {
    private final String brokers;
    private KafkaProducer<String, String> producer;
    private Stream stream;

    Producing(String brokers) { this.brokers = brokers; }

    private static KafkaProducer<String, String> producer(Properties p) {
        return new KafkaProducer<>(p, new StringSerializer(), new StringSerializer());
    }

    void open(Client.Arguments a) {
        Properties p = Client.properties(brokers, "compression.type", a.get("codec", "none"), "acks", a.get("acks", "all"),
            "enable.idempotence", String.valueOf(a.get("idempotent").equals("yes")),
            "max.block.ms", Client.LIMIT_MS, "request.timeout.ms", 15_000, "delivery.timeout.ms", Client.LIMIT_MS);
        // A record takes about 220 bytes.
        if (a.number("batch") > 0) p.put("batch.size", a.integer("batch") * 230);
        producer = producer(p);
    }

    void close() {
        producer.close();
    }

    void send(Client.Arguments a) throws Exception {
        Long timestamp = a.number("timestamp") > 0 ? a.number("timestamp") : null;
        List<Future<RecordMetadata>> sent = send(producer, a, timestamp);
        for (Future<RecordMetadata> f : sent) f.get(Client.LIMIT_MS, TimeUnit.MILLISECONDS);
    }

    private static List<Future<RecordMetadata>> send(KafkaProducer<String, String> p, Client.Arguments a, Long timestamp) {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (long n = a.number("first"); n < a.number("first") + a.number("count"); n++)
            sent.add(p.send(new ProducerRecord<>(a.get("topic"), 0, timestamp, Output.key(n), Output.value(n, a.integer("size")))));
        return sent;
    }

    void transact(Client.Arguments a) throws Exception {
        Properties p = Client.properties(brokers, "transactional.id", a.get("id"), "max.block.ms", 20_000);
        try (KafkaProducer<String, String> t = producer(p)) {
            t.initTransactions();
            t.beginTransaction();
            for (Future<RecordMetadata> f : send(t, a, null)) f.get(20, TimeUnit.SECONDS);
            t.commitTransaction();
        }
    }

    /** A thread that sends one record after the other. */
    private final class Stream extends Thread {
        private final String topic;
        private volatile boolean stop;
        private volatile Exception failure;
        private long sent; // valid after join

        Stream(String topic) {
            this.topic = topic;
            setDaemon(true);
        }

        @Override
        public void run() {
            try {
                for (; !stop; sent++, sleep(10)) {
                    long n = sent;
                    producer.send(new ProducerRecord<>(topic, Output.key(n), Output.value(n, 0)), (metadata, e) -> {
                        if (e == null) Output.line("acked " + n);
                        else failure = e;
                    });
                }
            } catch (Exception e) {
                failure = e;
            }
        }
    }

    /** Produces with the client's own defaults, which acknowledge by all and are idempotent. */
    void stream(String topic) {
        producer = producer(Client.properties(brokers));
        stream = new Stream(topic);
        stream.start();
    }

    long stop() throws Exception {
        stream.stop = true;
        stream.join();
        producer.flush();
        if (stream.failure != null) throw stream.failure;
        return stream.sent;
    }
}
