#!/usr/bin/env python3
"""Three times the load that the daemon can take, with the load on the same cores."""

import statistics

import figure
import load
import process


def rounds(square, daemon, seconds, count):
    """Goodput at the capacity and at three times the capacity, in turns; the medians."""
    rate = square.capacity(daemon, seconds)
    square.send(daemon, 256, 3 * rate, 1)  # what is touched once is not growth
    before = process.resident_bytes(daemon.pid)
    turns = [(square.send(daemon, 8, 1.05 * rate, seconds), square.send(daemon, 256, 3 * rate, seconds))
             for _ in range(count)]
    grown = process.resident_bytes(daemon.pid) - before
    peak = statistics.median(at_rate.goodput for at_rate, _ in turns)
    return peak, [over for _, over in turns], grown


def measure(options):
    """Goodput at three times the capacity, beside the goodput at the capacity."""
    seconds, count = (1, 1) if options.quick else (4, 3)
    figures = []
    for name, n, resident in (("512³ of resident operands", 512, True),
                              ("223³, bodies of 400 kB", 223, False),
                              ("612³, bodies of 3 MB", 612, False)):
        square = load.Square(options.gemmd, n, "tiled", resident)
        with load.running(options.gemmd, "--queue-requests", "16", "--tensor-bytes", "256M",
                          "--max-connections-per-address", "0") as daemon:
            if resident:
                square.put_operands(daemon)
            peak, overs, grown = rounds(square, daemon, seconds, count)
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
            f"{name}: {sum(over.refused for over in overs)} refused, {lost} lost; the clients run on the "
            "same cores, and a latency counts from when the request was due, so that it includes the "
            "client's own backlog"))
        if options.quick:
            break
    return figures


if __name__ == "__main__":
    figure.main(measure)
