import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs Kafka's command-line tools one after the other in one JVM, since starting
 * one takes longer than most of them. A line {"tool": class, "args": [...]} on
 * standard input is answered by {"exit": n, "out": text, "err": text}. A tool that
 * ends the JVM by System.exit has its output written before the end.
 */
public class Driver {
    /** Ends a tool where it would end its process. */
    static class Ended extends RuntimeException {
        final int status;

        Ended(int status) {
            super("exit " + status, null, false, false);
            this.status = status;
        }
    }

    static final ByteArrayOutputStream OUT = new ByteArrayOutputStream();
    static final ByteArrayOutputStream ERR = new ByteArrayOutputStream();
    static volatile boolean running;
    static volatile Integer status; // of the first exit: tools may catch Ended and exit again

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(new PrintStream(OUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERR, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure((code, message) -> end(code));
        Exit.setHaltProcedure((code, message) -> end(code));
        ObjectMapper json = new ObjectMapper();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            if (running) {
                answer(answers, json, null);
            }
        }));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode order = json.readTree(line);
            String[] toolArgs = new String[order.get("args").size()];
            for (int i = 0; i < toolArgs.length; i++) {
                toolArgs[i] = order.get("args").get(i).asText();
            }
            OUT.reset();
            ERR.reset();
            status = null;
            running = true;
            int code = run(order.get("tool").asText(), toolArgs);
            running = false;
            answer(answers, json, code);
        }
    }

    static void end(int code) {
        if (status == null) {
            status = code;
        }
        throw new Ended(code);
    }

    static int run(String tool, String[] args) {
        int code = 0;
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) args);
        } catch (InvocationTargetException e) {
            if (e.getCause() instanceof Ended) {
                code = ((Ended) e.getCause()).status;
            } else {
                e.getCause().printStackTrace();
                code = 1;
            }
        } catch (ReflectiveOperationException e) {
            e.printStackTrace();
            code = 1;
        }
        return status != null ? status : code;
    }

    /** Without a status: the JVM is ending, and its exit status is the tool's. */
    static void answer(PrintStream answers, ObjectMapper json, Integer code) {
        ObjectNode o = json.createObjectNode();
        if (code != null) {
            o.put("exit", code);
        }
        o.put("out", OUT.toString(StandardCharsets.UTF_8));
        o.put("err", ERR.toString(StandardCharsets.UTF_8));
        answers.println(o);
        answers.flush();
    }
}
