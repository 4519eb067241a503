#!/usr/bin/env python3
"""16 connections on 4 I/O threads: how evenly the requests spread."""

import os
import time

import figure
import load
from wire import Wire, request

ASK = request("GET", "/livez")


def by_thread(pid):
    """CPU time in ns of each I/O thread that takes new connections."""
    times = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/comm", encoding="ascii") as file:
            name = file.read().strip()
        if name in ("io-0", "io-1", "io-2", "io-3"):
            with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as file:
                times[name] = int(file.read().split()[0])
    return times


def measure(options):
    """The CPU time of the busiest I/O thread beside the least busy one's."""
    count, turns = (100, 2) if options.quick else (2000, 5)
    worst = []
    with load.running(options.gemmd, "--io-threads", "4") as daemon:
        daemon.session.close()
        for _ in range(turns):
            time.sleep(0.2)
            before = by_thread(daemon.pid)
            wires = [Wire(daemon.address) for _ in range(16)]
            for _ in range(count):
                for wire in wires:
                    wire.send(ASK)
                for wire in wires:
                    assert wire.receive().status == 200
            spent = [now - before[name] for name, now in by_thread(daemon.pid).items()]
            for wire in wires:
                wire.socket.close()
            worst.append(max(spent) / max(1, min(spent)))
    return [figure.Figure(
        "F17", f"CPU time of the busiest of 4 threads to the least busy, in {turns} runs: "
        f"{min(worst):.2f} to {max(worst):.2f}", None if options.quick else max(worst) <= 2,
        f"each run sends {count} requests on each of 16 new connections")]


if __name__ == "__main__":
    figure.main(measure)
