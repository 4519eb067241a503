#!/usr/bin/env python3
"""1,000 connections that send a body at a byte a second, beside normal service."""

import contextlib
import subprocess
import sys
import time
from pathlib import Path

import crowd
import drips
import figure
import load


class Drip:
    """A process of drips.py, and the number of connections that were cut when it has stopped."""

    def __init__(self, daemon, count):
        host, port = daemon.address
        self.cut = 0
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            [sys.executable, Path(__file__).with_name("drips.py"), host, str(port), str(count)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != "open":
            raise figure.CannotRun("drips.py did not open its connections.")

    def stop(self):
        self.cut = int(self.process.communicate("\n", timeout=30)[0])


@contextlib.contextmanager
def dripping(daemon, count):
    drip = Drip(daemon, count)
    try:
        yield drip
    finally:
        drip.stop()


def cut_after_s(daemon, count):
    """How long it takes until all of so many drips are cut; None: some stay."""
    begun, opened = time.monotonic(), drips.open_drips(daemon, count)
    left = opened

    def all_cut():
        nonlocal left
        left = crowd.ended(left)[1]
        return not left

    crowd.wait_until(all_cut, 30)
    for one in opened:
        one.close()
    return None if left else time.monotonic() - begun


def measure(options):
    """The p99 of normal requests beside drips at the same daemon, and beside drips at another daemon
    of the machine, which tells what the drips take from the machine rather than from their daemon."""
    count, seconds, turns, body_timeout = (100, 1, 1, 4) if options.quick else (1000, 2, 10, 4)
    crowd.allow_descriptors(2 * count + 500)
    square = load.Square(options.gemmd, 64)
    arguments = ("--max-connections-per-address", "0", "--max-connections", "4096", "--body-timeout",
                 f"{body_timeout}s")
    beside = load.Beside()
    with load.running(options.gemmd, *arguments) as first, \
            load.running(options.gemmd, *arguments) as second:
        rate = square.capacity(first, 2) / 5
        alone = [square.send(first, 16, rate, seconds) for _ in range(turns)]
        cut = 0
        for dripped, other in ((first, second), (second, first)):
            with dripping(dripped, count) as drip:
                beside.take_turns(square, dripped, other, rate, seconds, turns)
            cut += drip.cut
        cut_s = cut_after_s(first, count)
    failed = sum(run.sent - run.good for run in alone + beside.runs)
    return [figure.Figure(
        "F14", f"{count} drips: {beside.text('at another daemon')}; {load.median_p99(alone):.2f} ms without "
        f"drips; {cut} cut meanwhile, " + (f"all {count} ended after {cut_s:.1f} s" if cut_s else "some were not cut")
        + f" of a body time-out of {body_timeout} s, {failed} requests failed",
        None if options.quick else beside.growth <= 0.1 and cut_s is not None and failed == 0,
        f"{rate:.0f} requests a second, a fifth of the capacity; median p99 of {2 * turns} turns of {seconds} s "
        "each; the drips' own program takes only CPU time that no other wants")]


if __name__ == "__main__":
    figure.main(measure)
