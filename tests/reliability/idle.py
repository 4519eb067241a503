#!/usr/bin/env python3
"""An idle daemon, and a daemon with 10,000 idle connections beside normal service."""

import time

import crowd
import figure
import load
import process


def cpu_share(daemon, seconds):
    before, begun, woken = process.cpu_seconds(daemon.pid), time.monotonic(), process.wakeups(daemon.pid)
    time.sleep(seconds)
    past = time.monotonic() - begun
    return ((process.cpu_seconds(daemon.pid) - before) / past,
            (process.wakeups(daemon.pid) - woken) / past)


def all_answered(unanswered):
    """Reads the answers that have come, and takes their connections off the list. True: all."""
    while unanswered:
        try:
            unanswered[-1].recv(4096)
        except BlockingIOError:
            return False
        unanswered.pop()
    return True


def open_idle(daemon, count):
    """Connections that are idle after a request."""
    sockets = crowd.connect(daemon, count)
    for one in sockets:
        one.send(b"GET /livez HTTP/1.1\r\nHost: gemmd\r\n\r\n")
    unanswered = list(sockets)
    crowd.wait_until(lambda: all_answered(unanswered), 30)
    return sockets


def measure(options):
    """CPU time and wake-ups of an idle daemon, and the p99 of requests beside idle connections."""
    count, seconds, turns = (500, 1, 1) if options.quick else (10_000, 2, 10)
    try:
        crowd.allow_descriptors(count + 1000)
    except figure.CannotRun:
        count = 4000
        crowd.allow_descriptors(count + 1000)
    square = load.Square(options.gemmd, 64)
    arguments = ("--max-connections", "16384", "--max-connections-per-address", "0", "--idle-timeout", "600s")
    beside = load.Beside()
    with load.running(options.gemmd, *arguments) as first:
        first.session.close()
        time.sleep(1)
        idle, woken = cpu_share(first, 6 * seconds)
        with load.running(options.gemmd, *arguments) as second:
            rate = square.capacity(first, 2) / 5
            alone = [square.send(first, 16, rate, seconds) for _ in range(turns)]
            for burdened, other in ((first, second), (second, first)):
                before = process.resident_bytes(burdened.pid)
                sockets = open_idle(burdened, count)
                grown = process.resident_bytes(burdened.pid) - before
                time.sleep(1)
                with_idle = cpu_share(burdened, 6 * seconds)[0]
                beside.take_turns(square, burdened, other, rate, seconds, turns)
                open_now = load.metric(burdened, "gemmd_connections")
                for one in sockets:
                    one.close()
                crowd.wait_until(lambda daemon=burdened: load.metric(daemon, "gemmd_connections") < 100)
    return [
        figure.Figure("F18", f"{100 * idle:.2f} % of a core, {woken:.0f} wake-ups a second", idle < 0.005),
        figure.Figure(
            "Idle connections", f"{open_now:.0f} open: {beside.text('at another daemon')}; {load.median_p99(alone):.2f} "
            f"ms without them; {grown / count / 1024:.1f} KiB of resident memory each, {100 * with_idle:.1f} % of a "
            "core for all of them",
            None if options.quick else beside.growth <= 0.1 and open_now >= count and with_idle < 0.05,
            f"{rate:.0f} requests a second, a fifth of the capacity; median p99 of {2 * turns} turns of {seconds} s "
            "each"),
    ]


if __name__ == "__main__":
    figure.main(measure)
