#!/usr/bin/env python3
"""1,000 connections that send a body at a byte a second, beside normal service."""

import contextlib
import threading
import time

import crowd
import figure
import load
from wire import request


PARTS = 50  # of the connections send at a time, spread over each second


class Drip(threading.Thread):
    """Sends a byte a second on every connection, and opens each connection that ends again."""

    def __init__(self, daemon, count):
        super().__init__(daemon=True)
        self.target, self.count = daemon, count
        self.stopping, self.cut, self.sockets = threading.Event(), 0, []

    def open(self, count):
        fresh = crowd.connect(self.target, count)
        for one in fresh:
            one.send(request("POST", "/gemm?m=100&n=100&k=100", [("Content-Length", 80000)]))
        return fresh

    def run(self):
        self.sockets, turn = self.open(self.count), 0
        while not self.stopping.wait(1 / PARTS):
            part, turn = self.sockets[turn::PARTS], (turn + 1) % PARTS
            for one in part:
                with contextlib.suppress(OSError):
                    one.send(b"\0")
            gone = set(crowd.ended(part)[0])
            left = [one for one in self.sockets if one not in gone] if gone else self.sockets
            self.cut += len(gone)
            for one in gone:
                one.close()
            self.sockets = left + self.open(len(gone))

    def stop(self):
        self.stopping.set()
        self.join()
        for one in self.sockets:
            one.close()


def beside(square, served, dripped, count, rate, seconds):
    """A run of normal requests to one daemon while connections drip at one, perhaps another."""
    drip = Drip(dripped, count)
    drip.start()
    time.sleep(0.5)
    run = square.send(served, 16, rate, seconds)
    drip.stop()
    return run, drip.cut


def cut_after_s(daemon, count):
    """How long it takes until all of so many drips are cut; None: some stay."""
    begun, opened = time.monotonic(), Drip(daemon, count).open(count)
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
    """The p99 of normal requests: alone, beside drips at another daemon, and beside drips at the same
    daemon, in turns. The second tells what the drips take from the machine rather than the daemon."""
    count, seconds, turns, body_timeout = (100, 2, 1, 4) if options.quick else (1000, 6, 4, 4)
    crowd.allow_descriptors(2 * count + 500)
    square = load.Square(options.gemmd, 64)
    arguments = ("--max-connections-per-address", "0", "--max-connections", "4096", "--body-timeout",
                 f"{body_timeout}s")
    alone, elsewhere, same, cut = [], [], [], 0
    with load.running(options.gemmd, *arguments) as daemon, \
            load.running(options.gemmd, *arguments) as other:
        rate = square.capacity(daemon, 2) / 5
        for _ in range(turns):
            alone.append(square.send(daemon, 16, rate, seconds))
            elsewhere.append(beside(square, daemon, other, count, rate, seconds)[0])
            run, cut_now = beside(square, daemon, daemon, count, rate, seconds)
            same.append(run)
            cut += cut_now
        cut_s = cut_after_s(daemon, count)
    # Neighbours on the machine only add to a p99, so that the quietest turns are compared.
    p99 = [min(run.p99 for run in runs) for runs in (alone, elsewhere, same)]
    failed = sum(run.sent - run.good for run in alone + elsewhere + same)
    return [figure.Figure(
        "F14", f"{count} drips: p99 {p99[2]:.2f} ms beside them, {p99[1]:.2f} ms beside as many drips at "
        f"another daemon of the machine, {p99[0]:.2f} ms alone ({100 * (p99[2] / p99[0] - 1):+.0f} %); "
        f"{cut} cut meanwhile, "
        + (f"all {count} ended after {cut_s:.1f} s" if cut_s else "some were not cut")
        + f" of a body time-out of {body_timeout} s, {failed} requests failed",
        None if options.quick else p99[2] <= 1.1 * p99[0] and cut_s is not None and failed == 0,
        f"{rate:.0f} requests a second, a fifth of the capacity; p99 of the quietest of {turns} turns; "
        "all programs share the machine's cores, and the drips elsewhere show that part")]


if __name__ == "__main__":
    figure.main(measure)
