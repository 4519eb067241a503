#!/usr/bin/env python3
"""Clients and the daemon are stopped and continued, over and over, under load."""

import os
import random
import signal
import time

import crowd
import figure
import load
import process


def storm(pids, seconds, chance):
    """Stops one of the processes at a time, for up to 0.3 s. Returns how often."""
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        pid = chance.choice(pids)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.3 * chance.random())
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.05 * chance.random())
        count += 1
    return count


def measure(options):
    """What becomes of the requests of stopped clients and of a stopped daemon."""
    seconds = 2 if options.quick else 20
    chance = random.Random(11)
    square = load.Square(options.gemmd, 128)
    with load.running(options.gemmd, "--max-connections-per-address", "0") as daemon:
        before = process.descriptors(daemon.pid)
        clients = [square.start(daemon, 8, 100, seconds + 2) for _ in range(4)]
        time.sleep(1)
        count = storm([client.pid for client in clients] + [daemon.pid], seconds, chance)
        runs = [square.result(client, seconds) for client in clients]
        daemon.session.close()
        crowd.wait_until(lambda: process.descriptors(daemon.pid) <= before)
        left = process.descriptors(daemon.pid) - before
        # Work whose client has left ends after its connection.
        crowd.wait_until(lambda: load.metric(daemon, "gemmd_pinned_memory_used_bytes") == 0)
        held = load.metric(daemon, "gemmd_pinned_memory_used_bytes")
    sent, good = sum(run.sent for run in runs), sum(run.good for run in runs)
    wrong = sum(run.other + run.broken for run in runs)
    return [figure.Figure(
        "Stopped processes", f"{count} stops of 4 clients and the daemon: {good} of {sent} requests "
        f"answered with 200, {sum(run.refused for run in runs)} refused, {wrong} failed; "
        f"{max(left, 0)} descriptors and {held:.0f} bytes held afterwards",
        wrong == 0 and left <= 0 and held == 0 and good > 0)]


if __name__ == "__main__":
    figure.main(measure)
