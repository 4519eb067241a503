#!/usr/bin/env python3
"""A steady load of 80 % of the capacity, or of another share, for as long as --minutes says."""

import math
import statistics
import time

import figure
import load
import process


def sample(daemon):
    return {"memory": process.resident_bytes(daemon.pid),
            "descriptors": process.descriptors(daemon.pid),
            "threads": process.threads(daemon.pid),
            "pinned": load.metric(daemon, "gemmd_pinned_memory_used_bytes")}


def growth(times, values):
    """By which factor the values have grown, by the least-squares line through their logarithms, less 1; and its
    standard error."""
    logs = [math.log(value) for value in values]
    slope = load.slope(times, logs)
    mean_time, mean_log = statistics.mean(times), statistics.mean(logs)
    residuals = [log - mean_log - slope * (at - mean_time) for at, log in zip(times, logs)]
    variance = sum(rest * rest for rest in residuals) / max(1, len(times) - 2)
    span = times[-1] - times[0]
    error = span * math.sqrt(variance / sum((at - mean_time) ** 2 for at in times))
    return math.expm1(slope * span), error


def measure(options):
    """Slopes of memory, descriptors, threads, pinned bytes and p99 under a steady load. Each piece of the load is
    followed by the same load on a daemon that has just started: what both p99s have in common comes from the
    machine. A daemon that gets slower with age takes more CPU time for a request, which other programs of the machine
    change less than they change the p99."""
    piece = 2 if options.quick else 10
    pieces = 3 if options.quick else max(6, round(options.minutes * 60 / (2 * piece + 3)))
    square = load.Square(options.gemmd, 128)
    with load.running(options.gemmd) as daemon:
        at_start = process.descriptors(daemon.pid)
        rate = options.share * square.capacity(daemon, piece / 2)

        def send(to):
            """The run, and the CPU time of a request in ms."""
            before = process.cpu_seconds(to.pid)
            run = square.send(to, 16, rate, piece)
            return run, 1e3 * (process.cpu_seconds(to.pid) - before) / (rate * (piece + load.WARM_S))

        send(daemon)  # fills what fills once
        begun, times, samples, runs, young = time.monotonic(), [], [], [], []
        for _ in range(pieces):
            runs.append(send(daemon))
            times.append((time.monotonic() - begun) / 3600)
            samples.append(sample(daemon))
            with load.running(options.gemmd) as other:
                young.append(send(other))
        daemon.session.close()
        time.sleep(2)
        at_end = process.descriptors(daemon.pid)
    slopes = {name: load.slope(times, [entry[name] for entry in samples]) for name in samples[0]}
    p99, p99_young = [run.p99 for run, _ in runs], [run.p99 for run, _ in young]
    drift, error = growth(times, [old / new for old, new in zip(p99, p99_young)])
    machine, _ = growth(times, p99_young)
    cost, cost_young = [cost for _, cost in runs], [cost for _, cost in young]
    cost_drift, cost_error = growth(times, [old / new for old, new in zip(cost, cost_young)])
    failed = sum(run.sent - run.good for run, _ in runs)
    minutes = times[-1] * 60
    grown = samples[-1]["memory"] - samples[0]["memory"]
    # A slope from minutes is no slope of hours: over less than an hour the growth itself counts.
    memory_ok = slopes["memory"] <= 1 << 20 or (minutes < 60 and grown <= 1 << 20)
    sound = memory_ok and at_end <= at_start and failed == 0 and slopes["threads"] <= 0.5
    return [figure.Figure(
        "F9", f"{minutes:.0f} min at {rate:.0f}/s: memory {grown / 2**20:+.2f} MiB "
        f"({slopes['memory'] / 2**20:+.2f} MiB/h), descriptors {at_start} before and {at_end} after "
        f"({slopes['descriptors']:+.1f}/h), threads {slopes['threads']:+.1f}/h, pinned "
        f"{slopes['pinned'] / 2**20:+.2f} MiB/h, p99 {statistics.median(p99):.1f} ms ({min(p99):.1f} to "
        f"{max(p99):.1f}), {statistics.median(p99_young):.1f} ms of daemons that have just started, drift against "
        f"them {100 * drift:+.0f} % (standard error {100 * error:.0f} %), CPU time of a request "
        f"{statistics.median(cost):.2f} ms, {statistics.median(cost_young):.2f} ms of daemons that have just started, "
        f"drift against them {100 * cost_drift:+.1f} % (standard error {100 * cost_error:.1f} %), {failed} failed of "
        f"{sum(run.sent for run, _ in runs)}",
        None if sound and (options.quick or minutes < 24 * 60) else sound and drift <= 0.05,
        f"{100 * options.share:.0f} % of the capacity; a run that is shorter than 24 hours can miss the bar and cannot "
        "meet it; the drift of the p99 is judged in a run of 24 hours only; the p99 of the daemons that have just started, whose drift is the "
        f"machine's, went by {100 * machine:+.0f} %")]


if __name__ == "__main__":
    figure.main(measure, [
        ("--minutes", {"type": float, "default": 10}),
        ("--share", {"type": float, "default": 0.8, "help": "of the capacity (default: 0.8)"}),
    ])
