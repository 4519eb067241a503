#!/usr/bin/env python3
"""Three times the load that the daemon can take, beside the load that it can take, from as many clients. The
clients run on the same cores as the daemon unless --daemon-cores and --client-cores give each cores of its own, on
a machine that has enough of them. Goodput is judged with cores of their own only."""

import contextlib
import os
import resource
import socket
import statistics
import subprocess
import sys
import time

import figure
import load
import process


CONNECTIONS = 256
REFUSALS_MS, GROWTH_BYTES = 10, 16 << 20
# What decides the figure, by (resident, expect).
WHY = {
    (True, False): "",
    (False, True): "; a refusal before the body ends the connection, so that it costs a new one",
    (False, False): "; a refusal costs what the system takes to send and receive the body",
}


class Cores(frozenset):
    """Cores by their numbers, from a text as taskset reads: 0-3,6."""

    def __new__(cls, text):
        numbers = set()
        for part in text.split(","):
            first, _, last = part.partition("-")
            numbers |= set(range(int(first), int(last or first) + 1))
        cores = super().__new__(cls, numbers)
        cores.text = text
        return cores

    def __str__(self):
        return f"the cores {self.text}"


@contextlib.contextmanager
def on(cores):
    """Runs the block, and the processes that it starts, on these cores alone; None: where it runs already."""
    before = os.sched_getaffinity(0)
    if cores and not cores <= before:
        raise figure.CannotRun(f"this process may use the cores {sorted(before)}, and not all of {cores.text}.")
    os.sched_setaffinity(0, cores or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


# Receives until its peer ends the connection, and prints the CPU time that a byte took.
RECEIVER = """
import resource, socket, sys
with socket.create_server(("127.0.0.1", 0)) as listener:
    print(listener.getsockname()[1], flush=True)
    peer, _ = listener.accept()
room, received = bytearray(1 << 16), 0
while count := peer.recv_into(room):
    received += count
usage = resource.getrusage(resource.RUSAGE_SELF)
print((usage.ru_utime + usage.ru_stime) / received)
"""
RECEIVED_BYTES = 1 << 30


def receiving_s(body_bytes, daemon_cores, client_cores):
    """CPU time that the daemon's cores take to receive a body from loopback, without any daemon."""
    with on(daemon_cores):
        # The process closes its output when it ends.
        receiver = subprocess.Popen(  # pylint: disable=consider-using-with
            [sys.executable, "-c", RECEIVER], stdout=subprocess.PIPE, text=True)
    with receiver, on(client_cores), \
            socket.create_connection(("127.0.0.1", int(receiver.stdout.readline()))) as sender:
        body = bytes(body_bytes)
        for _ in range(RECEIVED_BYTES // body_bytes):
            sender.sendall(body)
        sender.shutdown(socket.SHUT_WR)
        return float(receiver.stdout.readline()) * body_bytes


class Costs:
    """CPU time of the daemon and of its clients while requests are sent, and the time that passes."""

    def __init__(self, daemon):
        self.daemon, self.daemon_s, self.client_s, self.passed_s = daemon, 0, 0, 0

    def send(self, square, rate, seconds):
        begun = time.monotonic()
        before, daemon_s = resource.getrusage(resource.RUSAGE_CHILDREN), process.cpu_seconds(self.daemon.pid)
        outcome = square.send(self.daemon, CONNECTIONS, rate, seconds)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.daemon_s += process.cpu_seconds(self.daemon.pid) - daemon_s
        self.passed_s += time.monotonic() - begun
        self.client_s += after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return outcome


def each(at_capacity, overs, capacity_s, overload_s):
    """The daemon's CPU time for a served and for a refused request, from its CPU time at the capacity and under
    overload, in which the two have different parts."""
    good, refused = sum(one.good for one in at_capacity), sum(one.refused for one in at_capacity)
    good_over, refused_over = sum(over.good for over in overs), max(1, sum(over.refused for over in overs))
    determinant = good * refused_over - good_over * refused
    if determinant <= 0:  # no fewer are refused at the capacity
        return capacity_s / max(1, good + refused), overload_s / (good_over + refused_over)
    return (max(0, capacity_s * refused_over - overload_s * refused) / determinant,
            max(0, overload_s * good - capacity_s * good_over) / determinant)


def rounds(square, daemon, seconds, count):
    """Goodput at the capacity and at three times the capacity, in turns; the medians."""
    rate = square.capacity(daemon, seconds)
    square.send(daemon, CONNECTIONS, 3 * rate, 1)  # what is touched once is not growth
    before = process.resident_bytes(daemon.pid)
    at_capacity, at_overload = Costs(daemon), Costs(daemon)
    turns = [(at_capacity.send(square, 1.05 * rate, seconds), at_overload.send(square, 3 * rate, seconds))
             for _ in range(count)]
    grown = process.resident_bytes(daemon.pid) - before
    peak = statistics.median(at_rate.goodput for at_rate, _ in turns)
    # The second before the seconds counts in CPU time, and not in requests.
    stretch = seconds / (seconds + 1)
    overs = [over for _, over in turns]
    served_s, refusal_s = each([one for one, _ in turns], overs, at_capacity.daemon_s * stretch,
                               at_overload.daemon_s * stretch)
    client_s = at_overload.client_s * stretch / (seconds * count)
    # Of the time of the daemon's cores for requests that are served, the part that refusals and clients leave.
    beside_s = at_capacity.client_s * stretch / (seconds * count)
    cores = os.sched_getaffinity(daemon.pid)
    if cores.isdisjoint(os.sched_getaffinity(0)):
        client_s_there = beside_s = 0
    else:
        client_s_there = client_s
    refusals_s = refusal_s * sum(over.refused for over in overs) / (seconds * count)
    left = max(0, len(cores) - client_s_there - refusals_s) / (len(cores) - beside_s)
    used = at_overload.daemon_s / at_overload.passed_s / len(cores)
    return peak, overs, grown, (served_s, refusal_s, client_s, left, used, len(cores))


def measure(options):
    """Goodput at three times the capacity, beside the goodput at the capacity."""
    seconds, count = (1, 1) if options.quick else (4, 3)
    if (options.daemon_cores is None) != (options.client_cores is None):
        raise figure.CannotRun("--daemon-cores and --client-cores are given together.")
    where, threads = "which are the daemon's too", 1
    if options.daemon_cores:
        where = f"pinned to {options.client_cores}; the daemon is pinned to {options.daemon_cores}"
        threads = min(4, len(options.client_cores))
    figures = []
    for name, n, resident, expect, least in (
            ("512³ of resident operands", 512, True, False, 0.95),
            ("612³, bodies of 3 MB after 100 Continue", 612, False, True, 0.95),
            ("612³, bodies of 3 MB without asking", 612, False, False, 0.90),
            ("223³, bodies of 400 kB after 100 Continue", 223, False, True, 0.90),
            ("223³, bodies of 400 kB without asking", 223, False, False, 0.85)):
        square = load.Square(options.gemmd, n, "tiled", resident, expect, threads)
        with contextlib.ExitStack() as stack:
            with on(options.daemon_cores):
                daemon = stack.enter_context(load.running(
                    options.gemmd, "--queue-requests", "16", "--tensor-bytes", "256M",
                    "--max-connections-per-address", "0"))
            if resident:
                square.put_operands(daemon)
            stack.enter_context(on(options.client_cores))
            peak, overs, grown, (served_s, refusal_s, client_s, left, used, cores) = rounds(
                square, daemon, seconds, count)
        wanted, received = least * peak, ""
        if options.daemon_cores and not resident and not expect:
            # Whatever the daemon does, its cores receive the bodies that it refuses.
            body_s = receiving_s(square.body_bytes, options.daemon_cores, options.client_cores)
            beside_s = body_s * sum(over.refused for over in overs) / (seconds * count)
            wanted = min(wanted, max(0, cores - beside_s) / served_s)
            received = (f"; a process that does nothing else takes {body_s * 1e6:.0f} us of CPU time to receive such a "
                        f"body, {beside_s:.2f} cores for those that are refused, which leaves the time of "
                        f"{max(0, cores - beside_s) / served_s / peak:.2f} of the peak")
        goodput = statistics.median(over.goodput for over in overs)
        refused_ms = statistics.median(over.refused_p99 for over in overs)
        lost = sum(over.broken + over.other for over in overs)
        sound = grown < GROWTH_BYTES and lost == 0
        bar = (None if options.quick or (sound and not options.daemon_cores) else
               sound and goodput >= wanted and refused_ms <= REFUSALS_MS)
        spread = ", ".join(f"{over.goodput:.0f}" for over in overs)
        figures.append(figure.Figure(
            "F13", f"{name}: goodput {goodput:.0f}/s ({spread}) of {peak:.0f}/s "
            f"({goodput / peak:.2f} of {wanted / peak:.2f}), refusals p99 {refused_ms:.1f} ms, memory "
            f"{grown / 2**20:+.1f} MiB", bar,
            f"{name}: {sum(over.refused for over in overs)} refused, {lost} lost; the daemon takes "
            f"{served_s * 1e6:.0f} us of CPU time for a served request and about {refusal_s * 1e6:.0f} us "
            f"for a refused one, and uses {used:.2f} of its cores; the clients take {client_s:.2f} cores, {where}: {left:.2f} of the time of "
            "the daemon's cores is left for served requests; a latency counts from when the request was due, so that "
            "it includes the client's own backlog" + WHY[resident, expect] + received))
        if options.quick:
            break
    return figures


if __name__ == "__main__":
    figure.main(measure, [
        ("--daemon-cores", {"type": Cores, "metavar": "LIST", "help": "pin the daemon to these cores, such as 0-1"}),
        ("--client-cores", {"type": Cores, "metavar": "LIST", "help": "pin its clients to these cores, such as 2-15"}),
    ])
