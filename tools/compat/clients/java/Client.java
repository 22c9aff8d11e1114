import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Kafka's Java client, run from source. The scenarios are those of
 * ../python/scenarios.py, with the same arguments and the same conversation with
 * the runner.
 */
public class Client {
    static final int PER_ROUND = 100;
    static final Map<String, String> ARGS = new HashMap<>();
    static final BufferedReader IN = new BufferedReader(new InputStreamReader(System.in));

    static String arg(String name) { return ARGS.getOrDefault(name, ""); }
    static int number(String name) { return Integer.parseInt(ARGS.getOrDefault(name, "0")); }
    static String key(int i) { return String.format("k%06d", i); }
    static String value(int i) { return String.format("v%06d-", i) + "x".repeat(200); }

    static List<String> values(int begin, int end) {
        return IntStream.range(begin, end).mapToObj(Client::value).collect(Collectors.toList());
    }

    static void ask(String what) throws Exception {
        System.out.println("ask " + what);
        System.out.flush();
        String line = IN.readLine();
        if (!"done".equals(line)) throw new Exception("the runner could not " + what + ": " + line);
    }

    static void until(Supplier<String> what, int seconds, BooleanSupplier holds) throws Exception {
        long end = System.nanoTime() + seconds * 1_000_000_000L;
        while (!holds.getAsBoolean()) {
            if (System.nanoTime() > end) throw new Exception("no " + what.get() + " within " + seconds + " s");
            Thread.sleep(20);
        }
    }

    static void expect(List<String> got, List<String> want, String what) throws Exception {
        for (int i = 0; i < Math.min(got.size(), want.size()); i++) {
            if (!got.get(i).equals(want.get(i)))
                throw new Exception(what + ": record " + i + " is " + got.get(i).substring(0, 8) + ", want " + want.get(i).substring(0, 8));
        }
        if (got.size() != want.size()) throw new Exception(what + ": " + got.size() + " records, want " + want.size());
    }

    static Properties properties(String... more) {
        Properties p = new Properties();
        p.put("bootstrap.servers", arg("brokers"));
        for (int i = 0; i < more.length; i += 2) p.put(more[i], more[i + 1]);
        return p;
    }

    static KafkaProducer<String, String> producer(String... more) {
        return new KafkaProducer<>(properties(more), new StringSerializer(), new StringSerializer());
    }

    static KafkaConsumer<String, String> consumer(String... more) {
        Properties p = properties(more);
        p.put("enable.auto.commit", "false");
        p.put("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer());
    }

    /** A consumer polled by a thread of its own. */
    static class Reader {
        final KafkaConsumer<String, String> consumer;
        final List<String> received = Collections.synchronizedList(new ArrayList<>());
        volatile Set<Integer> partitions = Set.of();
        volatile boolean stop;
        volatile Exception failure;
        final boolean commits;
        final Thread thread = new Thread(this::run);

        Reader(KafkaConsumer<String, String> consumer, boolean commits) {
            this.consumer = consumer;
            this.commits = commits;
            thread.start();
        }

        void run() {
            try {
                while (!stop) {
                    for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofMillis(100))) received.add(r.value());
                    if (commits) consumer.commitSync();
                    partitions = consumer.assignment().stream().map(TopicPartition::partition).collect(Collectors.toSet());
                }
                consumer.close();
            } catch (Exception e) {
                failure = e;
            }
            partitions = Set.of();
        }

        void leave() throws Exception {
            stop = true;
            thread.join(30_000);
            if (failure != null) throw failure;
        }
    }

    static Reader member() {
        KafkaConsumer<String, String> c = consumer("group.id", arg("group"), "session.timeout.ms", "10000", "heartbeat.interval.ms", "1000");
        c.subscribe(List.of(arg("topic")));
        return new Reader(c, true);
    }

    static void create() throws Exception {
        try (Admin admin = Admin.create(properties())) {
            admin.createTopics(List.of(new NewTopic(arg("topic"), 3, (short) 1))).all().get();
            until(() -> "metadata with three partitions", 10, () -> {
                try {
                    return admin.describeTopics(List.of(arg("topic"))).allTopicNames().get().get(arg("topic")).partitions().size() == 3;
                } catch (Exception e) {
                    return false;
                }
            });
        }
    }

    static void delete() throws Exception {
        try (Admin admin = Admin.create(properties())) {
            admin.deleteTopics(List.of(arg("topic"))).all().get();
        }
    }

    static void produce(String topic, String... more) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<String, String> p = producer(more)) {
            for (int i = 0; i < number("count"); i++) sent.add(p.send(new ProducerRecord<>(topic, key(i), value(i))));
            p.flush();
        }
        for (Future<RecordMetadata> f : sent) f.get();
    }

    static void read(List<String> want, int seekTo) throws Exception {
        TopicPartition tp = new TopicPartition(arg("topic"), 0);
        List<String> got = new ArrayList<>();
        try (KafkaConsumer<String, String> c = consumer()) {
            c.assign(List.of(tp));
            if (seekTo == 0) c.seekToBeginning(List.of(tp));
            else c.seek(tp, c.offsetsForTimes(Map.of(tp, Long.parseLong(arg("timestamp")))).get(tp).offset());
            long end = System.nanoTime() + 20_000_000_000L;
            while (got.size() < want.size() && System.nanoTime() < end) {
                for (ConsumerRecord<String, String> r : c.poll(Duration.ofMillis(500))) {
                    if (!("k" + r.value().substring(1, 7)).equals(r.key())) throw new Exception("key " + r.key() + " of " + r.value().substring(0, 8));
                    got.add(r.value());
                }
            }
        }
        expect(got, want, "partition 0");
    }

    static List<String> sorted(Collection<String> values) {
        return values.stream().sorted().collect(Collectors.toList());
    }

    static void group() throws Exception {
        Reader one = member(), two = member();
        until(() -> "split of four partitions (have " + one.partitions + " and " + two.partitions + ")", 40,
            () -> one.partitions.size() == 2 && two.partitions.size() == 2);
        ask("more");
        until(() -> "first hundred", 20, () -> one.received.size() + two.received.size() >= PER_ROUND);
        List<String> both = new ArrayList<>(one.received);
        both.addAll(two.received);
        expect(sorted(both), values(0, PER_ROUND), "both members");
        int before = one.received.size();
        if (before == 0 || before == PER_ROUND) throw new Exception("one member received everything");
        two.leave();
        until(() -> "takeover of all partitions", 40, () -> one.partitions.size() == 4);
        ask("more");
        until(() -> "second hundred", 20, () -> one.received.size() - before >= PER_ROUND);
        expect(sorted(one.received.subList(before, one.received.size())), values(PER_ROUND, 2 * PER_ROUND), "the member that stayed");
        one.leave();
        Reader three = member();
        until(() -> "assignment of a later member", 40, () -> three.partitions.size() == 4);
        ask("more");
        until(() -> "third hundred", 20, () -> three.received.size() >= PER_ROUND);
        expect(sorted(three.received), values(2 * PER_ROUND, 3 * PER_ROUND), "a member that resumes");
        three.leave();
    }

    static void restart() throws Exception {
        KafkaProducer<String, String> p = producer("acks", "all");
        KafkaConsumer<String, String> c = consumer();
        List<TopicPartition> all = List.of(new TopicPartition(arg("topic"), 0), new TopicPartition(arg("topic"), 1));
        c.assign(all);
        c.seekToBeginning(all);
        Reader tail = new Reader(c, false);
        Set<String> acked = Collections.synchronizedSet(new HashSet<>());
        List<String> errors = Collections.synchronizedList(new ArrayList<>());
        boolean[] stop = {false};
        Thread producing = new Thread(() -> {
            try {
                for (int i = 0; !stop[0]; i++, Thread.sleep(10)) {
                    String v = value(i);
                    p.send(new ProducerRecord<>(arg("topic"), key(i), v), (m, e) -> {
                        if (e == null) acked.add(v); else errors.add(e.toString());
                    });
                }
            } catch (InterruptedException e) {
                errors.add(e.toString());
            }
        });
        producing.start();
        until(() -> "50 records through the broker before its restart", 40, () -> tail.received.size() >= 50);
        ask("restart");
        int mark = acked.size();
        until(() -> "records acknowledged after the restart " + errors, 60, () -> acked.size() >= mark + 50);
        stop[0] = true;
        producing.join();
        p.close();
        if (!errors.isEmpty()) throw new Exception(errors.size() + " sends failed: " + errors.get(0));
        until(() -> "delivery of all acknowledged records", 40, () -> new HashSet<>(new ArrayList<>(tail.received)).containsAll(acked));
        tail.leave();
    }

    static void run(String scenario) throws Exception {
        switch (scenario) {
            case "create" -> create();
            case "delete" -> delete();
            case "produce" -> {
                for (String acks : List.of("0", "1", "all"))
                    produce(arg("topic") + "-" + acks, "acks", acks, "enable.idempotence", "false", "compression.type", arg("codec"), "linger.ms", "20");
            }
            case "idempotent" -> produce(arg("topic"), "enable.idempotence", "true");
            case "consume" -> read(values(0, number("count")), 0);
            case "seek" -> read(values(number("first"), number("count")), 1);
            case "group" -> group();
            case "restart" -> restart();
            default -> throw new Exception("unknown scenario " + scenario);
        }
    }

    public static void main(String[] args) {
        for (int i = 0; i + 1 < args.length; i += 2) ARGS.put(args[i].substring(2), args[i + 1]);
        int code = 0;
        try {
            run(arg("scenario"));
            System.out.println("ok");
        } catch (Throwable e) {
            e.printStackTrace();
            System.out.println("fail: " + e.toString().replace('\n', ' '));
            code = 1;
        }
        System.out.flush();
        System.exit(code);
    }
}
