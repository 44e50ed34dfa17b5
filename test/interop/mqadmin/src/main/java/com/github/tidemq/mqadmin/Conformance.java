package com.github.tidemq.mqadmin;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Runs every command of mqadmin against a broker and writes what became of each as a table.
 *
 * <pre>Conformance NAMESRV BROKER FOLDER</pre>
 *
 * FOLDER is for the files of commands, and gets table.md. The exit code is 0 when every command did what {@link Cases} says.
 */
public final class Conformance {
    /** What a command prints when it fails, unless its case allows it. */
    private static final Pattern FAILED =
        Pattern.compile("(?m)^\\s+at [\\w.$/]+\\(|command failed|interrupted after|^The sub command|^usage: mqadmin");
    private static final Pattern REMARK = Pattern.compile("(?:CODE: \\d+\\s+DESC:\\s*|response code \\d+, response remark: )?(\\w+ \\(\\d+\\) is not supported(?:: [^\\n]*?)?)(?:\\s*(?:BROKER|For more information)[^\\n]*)?(?=\\n|$)");

    private Conformance() {
    }

    public static void main(String[] args) throws Exception {
        Fixture fixture = new Fixture(args[0], args[1], Path.of(args[2]));
        List<String> rows = new ArrayList<>();
        List<String> failures = new ArrayList<>();
        Set<String> seen = new LinkedHashSet<>();
        Map<Case.State, Integer> counts = new EnumMap<>(Case.State.class);
        fixture.start();
        for (Case c : Cases.all()) {
            String only = System.getProperty("only", ".*");
            seen.add(c.name());
            if (!c.name().matches(only)) {
                continue;
            }
            long began = System.nanoTime();
            List<String> argv = fixture.fill(c.args());
            String printed = Mqadmin.run(argv, c.endless() ? out -> c.expect().matcher(out).find() : out -> false, 40_000);
            long ms = (System.nanoTime() - began) / 1_000_000;
            String fault = c.state() == Case.State.WORKS ? faultOfWork(c, printed) : faultOfAnswer(c, printed);
            System.out.printf("%s %s (%d ms)%n", fault == null ? "ok  " : "FAIL", c.args(), ms);
            if (fault != null || Boolean.getBoolean("verbose")) {
                System.out.println("     " + fault + "\n" + printed.indent(8));
            }
            if (fault != null) {
                failures.add(c.name() + ": " + fault);
            }
            if (!c.again()) {
                counts.merge(c.state(), 1, Integer::sum);
                rows.add(row(c, printed));
            }
        }
        Set<String> missing = new TreeSet<>(Mqadmin.names());
        int all = missing.size();
        missing.removeAll(seen);
        if (!missing.isEmpty()) {
            failures.add("commands without a case: " + missing);
        }
        String head = String.format("Of mqadmin's %d commands %d work, %d answer why not, and %d are to come.%n%n| command | | what was asked |%n|---|---|---|%n", all,
            counts.getOrDefault(Case.State.WORKS, 0), counts.getOrDefault(Case.State.WHY_NOT, 0), counts.getOrDefault(Case.State.NOT_YET, 0));
        Files.writeString(Path.of(args[2], "table.md"), head + String.join("\n", rows) + "\n", StandardCharsets.UTF_8);
        failures.forEach(f -> System.out.println("FAILED " + f));
        System.out.printf("%d tests successful, %d failed%n", rows.size(), failures.size());
        System.exit(failures.isEmpty() ? 0 : 1); // startMonitoring never ends
    }

    private static String faultOfWork(Case c, String printed) {
        Matcher failed = FAILED.matcher(printed);
        if (failed.find()) {
            return "it printed \"" + failed.group() + "\"";
        }
        return c.expect().matcher(printed).find() ? null : "it did not print " + c.expect();
    }

    private static String faultOfAnswer(Case c, String printed) {
        return c.expect().matcher(printed).find() ? null : "it did not answer " + c.expect();
    }

    private static String row(Case c, String printed) {
        String state = "works";
        if (c.state() != Case.State.WORKS) {
            Matcher m = REMARK.matcher(printed);
            state = (c.state() == Case.State.NOT_YET ? "not yet: " : "answers why not: ") + (m.find() ? m.group(1) : c.note());
        } else if (!c.note().isEmpty()) {
            state = "works: " + c.note();
        }
        return "| " + c.name() + " | " + state.replace("|", "\\|") + " | `" + c.args().replace("|", "\\|") + "` |";
    }
}
