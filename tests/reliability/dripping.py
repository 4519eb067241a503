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


def measure(options):
    """The p99 of normal requests without and with dripping connections, in turns."""
    count, seconds, turns = (100, 2, 1) if options.quick else (1000, 6, 4)
    crowd.allow_descriptors(2 * count + 500)
    square = load.Square(options.gemmd, 64)
    body_timeout = 4
    with load.running(options.gemmd, "--max-connections-per-address", "0", "--max-connections",
                      "4096", "--body-timeout", f"{body_timeout}s") as daemon:
        rate = square.capacity(daemon, 2) / 5
        without, beside, cut = [], [], 0
        for _ in range(turns):
            without.append(square.send(daemon, 16, rate, seconds))
            drip = Drip(daemon, count)
            drip.start()
            time.sleep(0.5)
            beside.append(square.send(daemon, 16, rate, seconds))
            drip.stop()
            cut += drip.cut
        begun = time.monotonic()
        last = drip.open(count)
        left = last

        def all_cut():
            nonlocal left
            left = crowd.ended(left)[1]
            return not left

        crowd.wait_until(all_cut, 30)
        cut_s = time.monotonic() - begun
        for one in last:
            one.close()
    # Neighbours on the machine only add to a p99, so that the quietest turns are compared.
    alone = min(run.p99 for run in without)
    now = min(run.p99 for run in beside)
    failed = sum(run.sent - run.good for run in without + beside)
    spread = ", ".join(f"{was.p99:.2f} → {run.p99:.2f}" for was, run in zip(without, beside))
    return [figure.Figure(
        "F14", f"{count} drips: p99 {alone:.2f} ms without, {now:.2f} ms beside them "
        f"({100 * (now / alone - 1):+.0f} %; {spread}), {cut} cut meanwhile, all {count} ended after "
        f"{cut_s:.1f} s of a body time-out of {body_timeout} s, {failed} failed",
        None if options.quick else now <= 1.1 * alone and not left and failed == 0,
        f"{rate:.0f} requests a second, a fifth of the capacity; p99 of the quietest of {turns} turns; "
        "the program that drips is on the same cores")]


if __name__ == "__main__":
    figure.main(measure)
