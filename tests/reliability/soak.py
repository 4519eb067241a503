#!/usr/bin/env python3
"""A steady load of 80 % of the capacity, for as long as --minutes says."""

import time

import figure
import load
import process


def sample(daemon):
    return {"memory": process.resident_bytes(daemon.pid),
            "descriptors": process.descriptors(daemon.pid),
            "threads": process.threads(daemon.pid),
            "pinned": load.metric(daemon, "gemmd_pinned_memory_used_bytes")}


def measure(options):
    """Slopes of memory, descriptors, threads, pinned bytes and p99 under a steady load."""
    piece = 2 if options.quick else 10
    pieces = 3 if options.quick else max(6, round(options.minutes * 60 / (piece + 1)))
    square = load.Square(options.gemmd, 128)
    with load.running(options.gemmd) as daemon:
        at_start = process.descriptors(daemon.pid)
        capacity = square.capacity(daemon, piece / 2)
        square.send(daemon, 16, 0.8 * capacity, piece)  # fills what fills once
        begun, times, samples, runs = time.monotonic(), [], [], []
        for _ in range(pieces):
            runs.append(square.send(daemon, 16, 0.8 * capacity, piece))
            times.append((time.monotonic() - begun) / 3600)
            samples.append(sample(daemon))
        daemon.session.close()
        time.sleep(2)
        at_end = process.descriptors(daemon.pid)
    slopes = {name: load.slope(times, [entry[name] for entry in samples]) for name in samples[0]}
    p99 = [run.p99 for run in runs]
    drift = load.slope(times, p99) * (times[-1] - times[0]) / (sum(p99) / len(p99))
    failed = sum(run.sent - run.good for run in runs)
    minutes = times[-1] * 60
    grown = samples[-1]["memory"] - samples[0]["memory"]
    # A slope from minutes is no slope of hours: over less than an hour the growth itself counts.
    memory_ok = slopes["memory"] <= 1 << 20 or (minutes < 60 and grown <= 1 << 20)
    sound = memory_ok and at_end <= at_start and failed == 0 and slopes["threads"] <= 0.5
    return [figure.Figure(
        "F9", f"{minutes:.0f} min at {0.8 * capacity:.0f}/s: memory {grown / 2**20:+.2f} MiB "
        f"({slopes['memory'] / 2**20:+.2f} MiB/h), descriptors {at_start} before and {at_end} after "
        f"({slopes['descriptors']:+.1f}/h), threads {slopes['threads']:+.1f}/h, pinned "
        f"{slopes['pinned'] / 2**20:+.2f} MiB/h, p99 {min(p99):.1f} to {max(p99):.1f} ms, drift "
        f"{100 * drift:+.0f} %, {failed} failed of {sum(run.sent for run in runs)}",
        None if sound and (options.quick or minutes < 24 * 60) else sound and abs(drift) <= 0.05,
        "a run that is shorter than 24 hours can miss the bar and cannot meet it; the drift of the p99 is "
        "judged in a run of 24 hours only")]


if __name__ == "__main__":
    figure.main(measure, [("--minutes", {"type": float, "default": 10})])
