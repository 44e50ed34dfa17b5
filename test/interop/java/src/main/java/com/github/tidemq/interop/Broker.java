package com.github.tidemq.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.Assumptions;

/**
 * The broker under test: a {@code tidemq serve} of our own, from the binary that TIDEMQ_BIN names, or the endpoint that
 * TIDEMQ_INTEROP_ADDR names, which cannot be stopped; cases that need that are skipped there.
 */
final class Broker implements AutoCloseable {
    /** The shortened table of the shared broker: level n is due after n seconds. */
    static final int LEVELS = 8;
    private static final String CONF = "messageDelayLevel=1s 2s 3s 4s 5s 6s 7s 8s\nbrokerName=broker-a\ndefaultTopicQueueNums=8\n"
        + "transactionTimeOut=1000\ntransactionCheckInterval=1000\n";
    private static final String ENDPOINT = System.getenv("TIDEMQ_INTEROP_ADDR");
    private static final String BINARY = System.getenv("TIDEMQ_BIN");

    private final Path dir;
    private String addr;
    private Process process;
    private int starts;

    private Broker(Path dir, String addr) {
        this.dir = dir;
        this.addr = addr;
    }

    /** The running endpoint if one is named, else a broker of the caller's own. */
    static Broker open(String name) throws Exception {
        if (isForeign()) {
            return new Broker(null, ENDPOINT);
        }
        return own(name);
    }

    /** A broker of the caller's own, to stop and kill; skips the case when the tests run against a named endpoint. */
    static Broker own(String name) throws Exception {
        Assumptions.assumeFalse(isForeign(), "the broker at TIDEMQ_INTEROP_ADDR is not ours to stop");
        if (BINARY == null) {
            throw new IllegalStateException("TIDEMQ_BIN names the tidemq binary, or TIDEMQ_INTEROP_ADDR a running broker");
        }
        Broker b = new Broker(Files.createTempDirectory("broker-" + name + "-"), "127.0.0.1:0");
        Files.writeString(b.dir.resolve("broker.conf"), CONF);
        b.start();
        return b;
    }

    /** Whether the tests run against somebody else's broker, which may support more than TideMQ. */
    static boolean isForeign() {
        return ENDPOINT != null && !ENDPOINT.isEmpty();
    }

    /** HOST:PORT, of the broker and of its name server; the same after a restart. */
    String addr() {
        return addr;
    }

    void start() throws Exception {
        starts++;
        process = new ProcessBuilder(BINARY, "serve", "--data", dir.resolve("data").toString(), "--listen", addr,
            "--config", dir.resolve("broker.conf").toString())
            .redirectError(ProcessBuilder.Redirect.appendTo(log().toFile())).start();
        Process p = process;
        Runtime.getRuntime().addShutdownHook(new Thread(p::destroyForcibly));
        CompletableFuture<String> ready = new CompletableFuture<>();
        Thread reader = new Thread(() -> {
            try (BufferedReader out = p.inputReader(StandardCharsets.UTF_8)) {
                for (String line = out.readLine(); line != null; line = out.readLine()) {
                    if (line.startsWith("tidemq ready on ")) {
                        ready.complete(line.substring("tidemq ready on ".length()));
                    }
                }
            } catch (IOException e) {
                // The process is gone; the line below says so to who waits.
            }
            ready.completeExceptionally(new IOException("the broker ended before it was ready"));
        }, "broker-output");
        reader.setDaemon(true);
        reader.start();
        try {
            addr = ready.get(60, TimeUnit.SECONDS);
        } catch (Exception e) {
            p.destroyForcibly();
            throw new AssertionError("start " + starts + " of the broker in " + dir + ": " + e + "\n" + logTail(), e);
        }
    }

    /** SIGTERM; fails unless it ends with 0. */
    void terminate() throws Exception {
        process.destroy();
        if (!process.waitFor(60, TimeUnit.SECONDS)) {
            process.destroyForcibly();
            throw new AssertionError("the broker did not end within 60 s of SIGTERM\n" + logTail());
        }
        Assertions.assertEquals(0, process.exitValue(), () -> "exit code after SIGTERM\n" + logTail());
    }

    /** SIGKILL. */
    void kill() throws Exception {
        process.destroyForcibly().waitFor();
    }

    /** Stops a broker of our own, the clean way, and removes its files unless it failed. */
    @Override
    public void close() throws Exception {
        if (process == null) {
            return;
        }
        if (process.isAlive()) {
            terminate();
        }
        try (var files = Files.walk(dir)) {
            for (Path f : files.sorted((a, b) -> b.compareTo(a)).toList()) {
                Files.delete(f);
            }
        }
    }

    private Path log() {
        return dir.resolve("broker.log");
    }

    private String logTail() {
        try {
            List<String> lines = Files.readAllLines(log());
            return "end of " + log() + ":\n" + String.join("\n", lines.subList(Math.max(0, lines.size() - 20), lines.size()));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
