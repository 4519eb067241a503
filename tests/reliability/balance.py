#!/usr/bin/env python3
"""16 connections on 4 I/O threads: how evenly they spread."""

import os
import re
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


def connections_by_thread(pid, wires):
    """How many of the connections each I/O thread has: a thread's connections are those that its instance of
    epoll watches."""
    ports = {wire.socket.getsockname()[1] for wire in wires}
    sockets = set()
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}", encoding="ascii") as file:
            for line in list(file)[1:]:
                fields = line.split()
                if int(fields[2].rpartition(":")[2], 16) in ports:
                    sockets.add(fields[9])
    watched = []
    for number in os.listdir(f"/proc/{pid}/fd"):
        if os.readlink(f"/proc/{pid}/fd/{number}") != "anon_inode:[eventpoll]":
            continue
        with open(f"/proc/{pid}/fdinfo/{number}", encoding="ascii") as file:
            targets = re.findall(r"^tfd:\s+(\d+)", file.read(), re.MULTILINE)
        count = sum(os.readlink(f"/proc/{pid}/fd/{target}") in {f"socket:[{inode}]" for inode in sockets}
                    for target in targets)
        watched += [count] if count else []
    return watched


def measure(options):
    """The connections of the I/O thread with the most beside those of the one with the fewest, and their CPU time."""
    count, turns = (100, 2) if options.quick else (2000, 5)
    worst, spreads = [], []
    with load.running(options.gemmd, "--io-threads", "4", "--busy-poll-us", "0") as daemon:
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
            spreads.append(connections_by_thread(daemon.pid, wires))
            spent = [now - before[name] for name, now in by_thread(daemon.pid).items()]
            for wire in wires:
                wire.socket.close()
            worst.append(max(spent) / max(1, min(spent)))
    even = all(len(spread) == 4 and sum(spread) == 16 and max(spread) <= 2 * min(spread) for spread in spreads)
    shown = ", ".join("+".join(map(str, sorted(spread, reverse=True))) for spread in spreads)
    return [figure.Figure(
        "F17", f"connections of the 4 threads, in {turns} runs: {shown}", even,
        f"each run opens 16 connections and sends {count} requests on each; CPU time of the busiest thread to the "
        f"least busy: {min(worst):.2f} to {max(worst):.2f}, to which other programs of the machine belong")]


if __name__ == "__main__":
    figure.main(measure)
