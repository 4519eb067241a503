#!/usr/bin/env python3
"""The size and the cost of /metrics, and what promtool says of it."""

import shutil
import subprocess
import time

import figure
import load


def measure(options):
    """Series, time of an answer, and promtool check metrics."""
    turns = 20 if options.quick else 500
    square, times = load.Square(options.gemmd, 32), []
    with load.running(options.gemmd) as daemon:
        square.send(daemon, 4, 200, 1)
        for _ in range(turns):
            begun = time.monotonic()
            text = daemon.session.get(f"{daemon.url}/metrics", timeout=60).text
            times.append(time.monotonic() - begun)
    series = sum(not line.startswith("#") for line in text.splitlines() if line)
    checked = "promtool is not installed"
    if shutil.which("promtool"):
        run = subprocess.run(["promtool", "check", "metrics"], input=text, text=True,
                             capture_output=True, check=False)
        checked = "promtool reports nothing" if run.returncode == 0 and not run.stderr else \
            f"promtool: {run.stderr.strip()[:200]}"
    p50, p99 = (load.percentile(times, share) * 1e3 for share in (0.5, 0.99))
    return [figure.Figure(
        "F22", f"{series} series, {len(text)} bytes, {p50:.2f} ms (p50), {p99:.2f} ms (p99); {checked}",
        series <= 500 and (options.quick or p50 <= 5) and checked == "promtool reports nothing",
        "the median is judged; the time includes the Python client's")]


if __name__ == "__main__":
    figure.main(measure)
