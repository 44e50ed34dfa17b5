package com.github.tidemq.interop;

import java.time.Duration;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.function.Supplier;

/** Waits for a condition; how long it took never decides a test, only that it came at all. */
final class Await {
    /** Far above anything a working broker and these clients need, below the suite's own limit. */
    static final Duration LIMIT = Duration.ofMinutes(4);

    private Await() {
    }

    /** Returns once condition holds; fails with what and state when it does not within {@link #LIMIT}. */
    static void until(String what, Callable<Boolean> condition, Supplier<String> state) throws Exception {
        long end = System.nanoTime() + LIMIT.toNanos();
        while (!condition.call()) {
            if (System.nanoTime() > end) {
                throw new AssertionError(what + ": not within " + LIMIT.toSeconds() + " s; " + state.get());
            }
            Thread.sleep(20);
        }
    }

    static void until(String what, Callable<Boolean> condition) throws Exception {
        until(what, condition, () -> "no more is known");
    }

    /** Waits for latch whatever interrupts: a client that shuts down interrupts its listeners and sends back what they had. */
    static void uninterruptibly(CountDownLatch latch) {
        boolean interrupted = false;
        while (true) {
            try {
                latch.await();
                break;
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** Calls again until the call does not throw: for brokers that are just coming up. */
    static <T> T success(String what, Callable<T> call) throws Exception {
        Exception[] last = new Exception[1];
        Object[] result = new Object[1];
        until(what, () -> {
            try {
                result[0] = call.call();
                return true;
            } catch (InterruptedException e) {
                throw e;
            } catch (Exception e) {
                last[0] = e;
                return false;
            }
        }, () -> "last failure: " + last[0]);
        @SuppressWarnings("unchecked")
        T value = (T) result[0];
        return value;
    }
}
