import java.io.PrintStream;
import java.util.Collection;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;

/** The answers and events of the driver, and the suite's records. Safe for concurrent use. */
final class Output {
    private static PrintStream out;

    private Output() {}

    /** Takes standard output for the driver; whatever else writes to it goes to standard error. */
    static synchronized void open() {
        out = System.out;
        System.setOut(System.err);
    }

    static synchronized void line(String line) {
        out.println(line);
        out.flush();
    }

    static String key(long n) { return String.format("k%06d", n); }

    /** The value of record n; size in bytes, 0: the usual one. */
    static String value(long n, int size) {
        String head = String.format("v%06d-", n);
        return head + "x".repeat(size == 0 ? 200 : size - head.length());
    }

    /** Reports a record that the consumer handed over. */
    static void got(ConsumerRecord<String, String> r) {
        String number = "?" + String.valueOf(r.value()).substring(0, Math.min(20, String.valueOf(r.value()).length()));
        if (r.key() != null && r.key().matches("k\\d{6,}")) {
            long n = Long.parseLong(r.key().substring(1));
            if (value(n, 0).equals(r.value())) number = String.valueOf(n);
        }
        line("got " + r.partition() + " " + r.offset() + " " + number);
    }

    /** The partitions that a consumer holds; each change of them is reported. */
    static final class Assignment {
        private final TreeSet<Integer> held = new TreeSet<>();

        void add(Collection<TopicPartition> parts) {
            if (held.addAll(numbers(parts))) report();
        }

        void remove(Collection<TopicPartition> parts) {
            if (held.removeAll(numbers(parts))) report();
        }

        private static Collection<Integer> numbers(Collection<TopicPartition> parts) {
            return parts.stream().map(TopicPartition::partition).toList();
        }

        private void report() {
            line(("assigned " + held.stream().map(String::valueOf).collect(Collectors.joining(","))).trim());
        }
    }
}
