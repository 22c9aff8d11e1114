import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.protocol.Errors;

/**
 * Driver of Kafka's Java client. The commands that it takes are in ../README.md;
 * the same source is compiled against several versions of the client.
 */
public class Client {
    /** The name=value pairs of a command. */
    record Arguments(String verb, Map<String, String> values) {
        static Arguments parse(String line) {
            String[] words = line.split(" ");
            Map<String, String> values = new HashMap<>();
            for (int i = 1; i < words.length; i++) {
                int at = words[i].indexOf('=');
                if (at > 0) values.put(words[i].substring(0, at), words[i].substring(at + 1));
            }
            return new Arguments(words[0], values);
        }

        String get(String name) { return values.getOrDefault(name, ""); }

        String get(String name, String otherwise) { return values.getOrDefault(name, otherwise); }

        /** The number of that name, 0 when it is not given. */
        long number(String name) { return Long.parseLong(values.getOrDefault(name, "0")); }

        int integer(String name) { return Math.toIntExact(number(name)); }
    }

    /** A place in a partition: start, end, offset:N, timestamp:MS or shift:N. */
    record Position(String form, long value) {
        static Position parse(String text) {
            int at = text.indexOf(':');
            return at < 0 ? new Position(text, 0) : new Position(text.substring(0, at), Long.parseLong(text.substring(at + 1)));
        }
    }

    /** The most that one command takes, in milliseconds. */
    static final int LIMIT_MS = 30_000;

    static Properties properties(String brokers, Object... pairs) {
        Properties p = new Properties();
        p.put("bootstrap.servers", brokers);
        for (int i = 0; i < pairs.length; i += 2) p.put(pairs[i], pairs[i + 1]);
        return p;
    }

    /** The number of the Kafka error that an exception shows, or "-". */
    static String codeOf(Throwable e) {
        for (Throwable t = e; t != null; t = t.getCause()) {
            if (t instanceof ApiException && Errors.forException(t) != Errors.UNKNOWN_SERVER_ERROR)
                return String.valueOf(Errors.forException(t).code());
        }
        return "-";
    }

    private final Topics topics;
    private final Producing producing;
    private final Consuming consuming;

    private Client(String brokers) {
        topics = new Topics(brokers);
        producing = new Producing(brokers);
        consuming = new Consuming(brokers);
    }

    /** Carries out a command and returns what follows the answer's "ok". */
    private String run(Arguments a) throws Exception {
        switch (a.verb()) {
            case "create" -> topics.create(a);
            case "partitions" -> { return "count=" + topics.partitions(a.get("topic")); }
            case "delete" -> topics.delete(a.get("topic"));
            case "grow" -> topics.grow(a.get("topic"), a.integer("partitions"));
            case "trim" -> { return "low=" + topics.trim(a.get("topic"), a.integer("partition"), a.number("offset")); }
            case "delete-group" -> topics.deleteGroup(a.get("group"));
            case "reset" -> topics.reset(a);
            case "producer" -> producing.open(a);
            case "send" -> producing.send(a);
            case "stream" -> producing.stream(a.get("topic"));
            case "stop" -> { return "sent=" + producing.stop(); }
            case "close-producer" -> producing.close();
            case "transact" -> producing.transact(a);
            case "assign" -> consuming.assign(a);
            case "join" -> consuming.join(a);
            case "commit" -> consuming.commit();
            case "leave" -> consuming.leave();
            default -> throw new IllegalArgumentException("unknown command " + a.verb());
        }
        return "";
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 2 || !args[0].equals("--brokers")) throw new IllegalArgumentException("usage: Client --brokers host:port,...");
        Output.open();
        Client client = new Client(args[1]);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = ("ok " + client.run(Arguments.parse(line))).trim();
            } catch (Exception e) {
                e.printStackTrace();
                answer = "error " + codeOf(e) + " " + String.valueOf(e).replace('\n', ' ');
            }
            Output.line(answer);
        }
        Runtime.getRuntime().halt(0); // without leaving groups
    }
}
