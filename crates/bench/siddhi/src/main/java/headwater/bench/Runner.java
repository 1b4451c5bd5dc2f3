package headwater.bench;

import com.sun.management.OperatingSystemMXBean;
import io.siddhi.core.SiddhiAppRuntime;
import io.siddhi.core.SiddhiManager;
import io.siddhi.core.event.Event;
import io.siddhi.core.stream.input.InputHandler;
import io.siddhi.core.stream.output.StreamCallback;
import io.siddhi.query.api.definition.Attribute;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Runs one scenario at a time on siddhi-core, told what to do by lines on standard input and answering each with a line
 * on standard output. Events are made in blocks before each timed stretch, so that only the engine is measured.
 *
 * load APP EVENTS OUTPUT   the app's text, the events (stream, timestamp, values; tabs between), what is looked at
 * verify CHUNK FILE        one pass; what came out goes into the file, a row a line
 * pass CHUNK               one measured pass: thread ns, process ns, wall ns, rows out
 *
 * CHUNK 1 sends events one by one, a larger one sends arrays of that many.
 */
public final class Runner {
    /** Events prepared before a timed stretch: few enough that they are still in the cache, as if just decoded. */
    private static final int BLOCK = 2_000;

    private final PrintStream answers;
    private String app;
    private List<String> events;
    private String output;

    private Runner(PrintStream answers) {
        this.answers = answers;
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        // Whatever the engine prints must not mix with the answers.
        System.setOut(System.err);
        Runner runner = new Runner(answers);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        answers.println("ready " + SiddhiManager.class.getPackage().getImplementationVersion()
                + "\t" + System.getProperty("java.vm.name") + " " + System.getProperty("java.version"));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split("\t");
            try {
                runner.run(words);
            } catch (Exception | Error failure) {
                answers.println("failed " + failure);
            }
            answers.flush();
        }
        System.exit(0);
    }

    private void run(String[] words) throws Exception {
        switch (words[0]) {
            case "load":
                app = Files.readString(Path.of(words[1]));
                events = Files.readAllLines(Path.of(words[2]));
                output = words[3];
                answers.println("loaded " + events.size());
                break;
            case "verify":
                long count;
                try (BufferedWriter rows = Files.newBufferedWriter(Path.of(words[2]))) {
                    count = pass(Integer.parseInt(words[1]), rows).rows;
                }
                answers.println("rows " + count);
                break;
            case "pass":
                Measured measured = pass(Integer.parseInt(words[1]), null);
                answers.println("pass " + measured.threadNs + " " + measured.processNs + " " + measured.wallNs + " "
                        + measured.rows);
                break;
            default:
                answers.println("failed unknown command " + words[0]);
        }
    }

    private static final class Measured {
        private long threadNs;
        private long processNs;
        private long wallNs;
        private long rows;
    }

    /** What comes out is counted, and written where a writer is given. */
    private static final class Collector extends StreamCallback {
        private final BufferedWriter rows;
        private long count;

        private Collector(BufferedWriter rows) {
            this.rows = rows;
        }

        @Override
        public void receive(Event[] events) {
            count += events.length;
            if (rows != null) {
                for (Event event : events) {
                    write(rows, event);
                }
            }
        }
    }

    private static void write(BufferedWriter rows, Event event) {
        StringBuilder line = new StringBuilder();
        line.append(event.getTimestamp());
        for (Object value : event.getData()) {
            line.append('\t').append(value);
        }
        try {
            rows.write(line.append('\n').toString());
        } catch (java.io.IOException failure) {
            throw new java.io.UncheckedIOException(failure);
        }
    }

    private static final class Target {
        private InputHandler handler;
        private Attribute.Type[] types;
    }

    private Measured pass(int chunk, BufferedWriter rows) throws Exception {
        SiddhiManager manager = new SiddhiManager();
        SiddhiAppRuntime runtime = manager.createSiddhiAppRuntime(app);
        boolean isTable = runtime.getTableDefinitionMap().containsKey(output);
        Collector collector = new Collector(rows);
        if (!isTable) {
            runtime.addCallback(output, collector);
        }
        runtime.start();
        Measured measured = new Measured();
        List<Target> targets = new ArrayList<>();
        List<String> names = new ArrayList<>();
        int at = 0;
        while (at < events.size()) {
            int end = Math.min(at + BLOCK, events.size());
            List<Target> to = new ArrayList<>();
            List<Object> what = new ArrayList<>();
            at = prepare(runtime, names, targets, at, end, chunk, to, what);
            measure(to, what, measured);
        }
        if (isTable) {
            Event[] found = runtime.query("from " + output + " select *");
            measured.rows = found == null ? 0 : found.length;
            if (rows != null && found != null) {
                for (Event event : found) {
                    write(rows, new Event(0, event.getData()));
                }
            }
        } else {
            measured.rows = collector.count;
        }
        runtime.shutdown();
        manager.shutdown();
        return measured;
    }

    /** Makes what is sent in the next timed stretch: single events, or arrays of one stream each. */
    private int prepare(SiddhiAppRuntime runtime, List<String> names, List<Target> targets, int from, int to, int chunk,
                        List<Target> receivers, List<Object> what) {
        int at = from;
        List<Event> open = new ArrayList<>();
        Target current = null;
        while (at < to) {
            String[] parts = events.get(at).split("\t", -1);
            Target target = target(runtime, names, targets, parts[0]);
            if (current != null && (target != current || open.size() == chunk)) {
                close(receivers, what, current, open, chunk);
            }
            current = target;
            Object[] data = new Object[target.types.length];
            for (int i = 0; i < data.length; i++) {
                data[i] = value(parts[i + 2], target.types[i]);
            }
            open.add(new Event(Long.parseLong(parts[1]), data));
            at++;
        }
        close(receivers, what, current, open, chunk);
        return at;
    }

    private static void close(List<Target> receivers, List<Object> what, Target target, List<Event> open, int chunk) {
        if (chunk == 1) {
            for (Event event : open) {
                receivers.add(target);
                what.add(event);
            }
        } else if (!open.isEmpty()) {
            receivers.add(target);
            what.add(open.toArray(new Event[0]));
        }
        open.clear();
    }

    private static Target target(SiddhiAppRuntime runtime, List<String> names, List<Target> targets, String name) {
        int known = names.indexOf(name);
        if (known >= 0) {
            return targets.get(known);
        }
        Target target = new Target();
        target.handler = runtime.getInputHandler(name);
        List<Attribute> attributes = runtime.getStreamDefinitionMap().get(name).getAttributeList();
        target.types = attributes.stream().map(Attribute::getType).toArray(Attribute.Type[]::new);
        names.add(name);
        targets.add(target);
        return target;
    }

    private static Object value(String text, Attribute.Type type) {
        switch (type) {
            case INT:
                return Integer.valueOf(text);
            case LONG:
                return Long.valueOf(text);
            case FLOAT:
                return Float.valueOf(text);
            case DOUBLE:
                return Double.valueOf(text);
            case BOOL:
                return Boolean.valueOf(text);
            default:
                return text;
        }
    }

    private static void measure(List<Target> receivers, List<Object> what, Measured measured) throws Exception {
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        int count = what.size();
        InputHandler[] handlers = new InputHandler[count];
        Object[] sent = what.toArray();
        long[] times = new long[count];
        for (int i = 0; i < count; i++) {
            handlers[i] = receivers.get(i).handler;
            if (sent[i] instanceof Event) {
                times[i] = ((Event) sent[i]).getTimestamp();
                sent[i] = ((Event) sent[i]).getData();
            }
        }
        boolean isArray = count > 0 && sent[0] instanceof Event[];
        long wall = System.nanoTime();
        long process = system.getProcessCpuTime();
        long thread = threads.getCurrentThreadCpuTime();
        if (isArray) {
            for (int i = 0; i < count; i++) {
                handlers[i].send((Event[]) sent[i]);
            }
        } else {
            for (int i = 0; i < count; i++) {
                handlers[i].send(times[i], (Object[]) sent[i]);
            }
        }
        measured.threadNs += threads.getCurrentThreadCpuTime() - thread;
        measured.processNs += system.getProcessCpuTime() - process;
        measured.wallNs += System.nanoTime() - wall;
    }
}
