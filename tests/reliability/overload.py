#!/usr/bin/env python3
"""Three times the load that the daemon can take, with the load on the same cores."""

import os
import resource
import statistics

import figure
import load
import process


# What decides the figure, by (resident, expect).
WHY = {
    (True, False): "",
    (False, True): "; a refusal before the body ends the connection, so that it costs a new one",
    (False, False): "; a refusal costs what the system takes to send and receive the body",
}


class Costs:
    """CPU time of the daemon and of its clients while requests are sent."""

    def __init__(self, daemon):
        self.daemon, self.daemon_s, self.client_s = daemon, 0, 0

    def send(self, square, connections, rate, seconds):
        before, daemon_s = resource.getrusage(resource.RUSAGE_CHILDREN), process.cpu_seconds(self.daemon.pid)
        outcome = square.send(self.daemon, connections, rate, seconds)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.daemon_s += process.cpu_seconds(self.daemon.pid) - daemon_s
        self.client_s += after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return outcome


def rounds(square, daemon, seconds, count):
    """Goodput at the capacity and at three times the capacity, in turns; the medians."""
    rate = square.capacity(daemon, seconds)
    square.send(daemon, 256, 3 * rate, 1)  # what is touched once is not growth
    before = process.resident_bytes(daemon.pid)
    at_capacity, at_overload = Costs(daemon), Costs(daemon)
    turns = [(at_capacity.send(square, 8, 1.05 * rate, seconds),
              at_overload.send(square, 256, 3 * rate, seconds)) for _ in range(count)]
    grown = process.resident_bytes(daemon.pid) - before
    peak = statistics.median(at_rate.goodput for at_rate, _ in turns)
    # The second before the seconds counts in CPU time, and not in requests.
    stretch = seconds / (seconds + 1)
    served_s = at_capacity.daemon_s * stretch / max(1, sum(one.good for one, _ in turns))
    overs = [over for _, over in turns]
    refused = max(1, sum(over.refused for over in overs))
    refusal_s = (at_overload.daemon_s * stretch - served_s * sum(over.good for over in overs)) / refused
    client_s = at_overload.client_s * stretch / (seconds * count)
    # Of the cores' time for requests that are served, the part that refusals and clients leave.
    cores = len(os.sched_getaffinity(0))
    beside_s = at_capacity.client_s * stretch / (seconds * count)
    refusals_s = max(0, refusal_s) * refused / (seconds * count)
    left = max(0, cores - client_s - refusals_s) / (cores - beside_s)
    return peak, overs, grown, (served_s, refusal_s, client_s, left)


def measure(options):
    """Goodput at three times the capacity, beside the goodput at the capacity."""
    seconds, count = (1, 1) if options.quick else (4, 3)
    figures = []
    for name, n, resident, expect in (
            ("512³ of resident operands", 512, True, False),
            ("612³, bodies of 3 MB after 100 Continue", 612, False, True),
            ("612³, bodies of 3 MB without asking", 612, False, False),
            ("223³, bodies of 400 kB after 100 Continue", 223, False, True),
            ("223³, bodies of 400 kB without asking", 223, False, False)):
        square = load.Square(options.gemmd, n, "tiled", resident, expect)
        with load.running(options.gemmd, "--queue-requests", "16", "--tensor-bytes", "256M",
                          "--max-connections-per-address", "0") as daemon:
            if resident:
                square.put_operands(daemon)
            peak, overs, grown, (served_s, refusal_s, client_s, left) = rounds(square, daemon, seconds, count)
        goodput = statistics.median(over.goodput for over in overs)
        refused_ms = statistics.median(over.refused_p99 for over in overs)
        lost = sum(over.broken + over.other for over in overs)
        bar = (None if options.quick else
               goodput >= 0.95 * peak and refused_ms <= 10 and grown < 16 << 20 and lost == 0)
        spread = ", ".join(f"{over.goodput:.0f}" for over in overs)
        figures.append(figure.Figure(
            "F13", f"{name}: goodput {goodput:.0f}/s ({spread}) of {peak:.0f}/s "
            f"({goodput / peak:.2f}), refusals p99 {refused_ms:.1f} ms, memory "
            f"{grown / 2**20:+.1f} MiB", bar,
            f"{name}: {sum(over.refused for over in overs)} refused, {lost} lost; the daemon takes "
            f"{served_s * 1e6:.0f} us of CPU time for a served request and about {max(0, refusal_s) * 1e6:.0f} us "
            f"for a refused one, and the clients take {client_s:.2f} cores, which are the daemon's too: "
            f"{left:.2f} of the cores' time is left for served requests; a latency counts from when the request "
            "was due, so that it includes the client's own backlog" + WHY[resident, expect]))
        if options.quick:
            break
    return figures


if __name__ == "__main__":
    figure.main(measure)
