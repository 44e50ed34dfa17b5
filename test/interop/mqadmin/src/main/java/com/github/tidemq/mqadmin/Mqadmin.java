package com.github.tidemq.mqadmin;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import org.apache.rocketmq.tools.command.MQAdminStartup;
import org.apache.rocketmq.tools.command.SubCommand;

/** Runs mqadmin's commands in this process and returns what they print. */
final class Mqadmin extends MQAdminStartup {
    private static final PrintStream OUT = System.out;
    private static final PrintStream ERR = System.err;

    private Mqadmin() {
    }

    /** The names of all commands, in mqadmin's order. */
    static List<String> names() {
        SUB_COMMANDS.clear();
        initCommand();
        List<String> names = new ArrayList<>();
        for (SubCommand command : SUB_COMMANDS) {
            names.add(command.commandName());
        }
        return names;
    }

    /** What a command printed at its end; of one that was enough before, what was enough. */
    private static String ended(String text, ByteArrayOutputStream printed, Predicate<String> enough) {
        return enough.test(text) ? text : printed.toString(StandardCharsets.UTF_8);
    }

    /**
     * Runs a command until it ends, its output is enough, or the time is over; then it is interrupted.
     *
     * @return all that it printed, standard error included
     */
    static String run(List<String> args, Predicate<String> enough, long millis) throws InterruptedException {
        SUB_COMMANDS.clear(); // main0 adds them all each time
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream stream = new PrintStream(printed, true, StandardCharsets.UTF_8);
        System.setOut(stream);
        System.setErr(stream);
        try {
            Thread thread = new Thread(() -> main0(args.toArray(new String[0]), null), "mqadmin " + args.get(0));
            thread.setDaemon(true);
            thread.start();
            long end = System.nanoTime() + millis * 1_000_000;
            while (thread.isAlive() && System.nanoTime() < end && !enough.test(printed.toString(StandardCharsets.UTF_8))) {
                thread.join(50);
            }
            String text = printed.toString(StandardCharsets.UTF_8);
            if (thread.isAlive() && !enough.test(text)) {
                text += "\ninterrupted after " + millis + " ms";
            }
            thread.interrupt();
            thread.join(5000);
            return thread.isAlive() || text.contains("interrupted after") ? text : ended(text, printed, enough);
        } finally {
            System.setOut(OUT);
            System.setErr(ERR);
        }
    }
}
