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


def measure(options):
    """CPU time and wake-ups of an idle daemon, and the p99 of requests beside idle connections."""
    count, seconds, turns = (500, 2, 1) if options.quick else (10_000, 6, 4)
    try:
        crowd.allow_descriptors(count + 1000)
    except figure.CannotRun:
        count = 4000
        crowd.allow_descriptors(count + 1000)
    square = load.Square(options.gemmd, 64)
    with load.running(options.gemmd, "--max-connections", "16384", "--max-connections-per-address",
                      "0", "--idle-timeout", "600s") as daemon:
        daemon.session.close()
        time.sleep(1)
        idle, woken = cpu_share(daemon, 2 * seconds)
        figures = [figure.Figure("F18", f"{100 * idle:.2f} % of a core, {woken:.0f} wake-ups a second",
                                 idle < 0.005)]
        rate = square.capacity(daemon, 2) / 5
        without, beside = [], []
        for _ in range(turns):
            without.append(square.send(daemon, 16, rate, seconds).p99)
            before = process.resident_bytes(daemon.pid)
            sockets = crowd.connect(daemon, count)
            for one in sockets:  # a connection is idle after a request
                one.send(b"GET /livez HTTP/1.1\r\nHost: gemmd\r\n\r\n")
            unanswered = list(sockets)
            crowd.wait_until(lambda rest=unanswered: all_answered(rest), 30)
            grown = process.resident_bytes(daemon.pid) - before
            time.sleep(1)
            with_idle = cpu_share(daemon, seconds)[0]
            beside.append(square.send(daemon, 16, rate, seconds).p99)
            open_now = load.metric(daemon, "gemmd_connections")
            for one in sockets:
                one.close()
            crowd.wait_until(lambda: load.metric(daemon, "gemmd_connections") < 100)
    # Neighbours on the machine only add to a p99, so that the quietest turns are compared.
    alone, now = min(without), min(beside)
    spread = ", ".join(f"{was:.2f} → {is_now:.2f}" for was, is_now in zip(without, beside))
    figures.append(figure.Figure(
        "Idle connections", f"{open_now:.0f} open: p99 {alone:.2f} ms without, {now:.2f} ms beside "
        f"them ({100 * (now / alone - 1):+.0f} %; {spread}), {grown / count / 1024:.1f} KiB of "
        f"resident memory each, {100 * with_idle:.1f} % of a core for all of them",
        None if options.quick else now <= 1.1 * alone and open_now >= count and with_idle < 0.05,
        f"{rate:.0f} requests a second, a fifth of the capacity; p99 of the quietest of {turns} "
        "turns; where the p99 without them is above 1 ms, other programs hide what they cost"))
    return figures


if __name__ == "__main__":
    figure.main(measure)
