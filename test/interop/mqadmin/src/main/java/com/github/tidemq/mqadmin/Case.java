package com.github.tidemq.mqadmin;

import java.util.regex.Pattern;

/**
 * One command line of mqadmin and what it has to print.
 *
 * @param args    the command line, with the places that {@link Fixture#fill} fills
 * @param expect  found in what it prints
 * @param state   whether it works
 * @param endless it runs until it is interrupted, which is done once it printed what is expected
 * @param again   a further case of a command that has one in the table
 * @param note    for the table
 */
record Case(String args, Pattern expect, State state, boolean endless, boolean again, String note) {
    /** WORKS; WHY_NOT: nothing here will ever serve it, and it says so; NOT_YET: it will. */
    enum State { WORKS, WHY_NOT, NOT_YET }

    static Case works(String args, String expect) {
        return new Case(args, Pattern.compile(expect, Pattern.DOTALL), State.WORKS, false, false, "");
    }

    /** A command that is not supported: the broker's answer says why. */
    static Case whyNot(String args, String expect) {
        return new Case(args, Pattern.compile(expect), State.WHY_NOT, false, false, "");
    }

    /** A command that will work, and fails until then. */
    static Case notYet(String args, String expect) {
        return new Case(args, Pattern.compile(expect), State.NOT_YET, false, false, "");
    }

    Case untilPrinted() {
        return new Case(args, expect, state, true, again, note);
    }

    Case oneMore() {
        return new Case(args, expect, state, endless, true, note);
    }

    Case note(String text) {
        return new Case(args, expect, state, endless, again, text);
    }

    String name() {
        return args.split(" ", 2)[0];
    }
}
