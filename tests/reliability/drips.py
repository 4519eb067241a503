#!/usr/bin/env python3
"""Sends a byte a second of a body on each of many connections, until its standard input ends; then
prints how many connections the daemon has ended. Takes only CPU time that no other program wants, so
that what the connections cost the daemon can be told from what they cost their client.

Usage: drips.py HOST PORT COUNT"""

import contextlib
import os
import select
import sys
import time
from dataclasses import dataclass

import crowd
from wire import request

PARTS = 50  # of the connections send at a time, spread over each second
OPENING_S = 4  # the connections are opened over this time, so that they do not end together


@dataclass
class Target:
    address: tuple


def open_drips(daemon, count):
    """Connections on which the head of a request and no byte of its body was sent."""
    fresh = crowd.connect(daemon, count)
    for one in fresh:
        one.send(request("POST", "/gemm?m=100&n=100&k=100", [("Content-Length", 80000)]))
    return fresh


def drip(daemon, count):
    """Opens each connection that ends again. Returns how many were ended."""
    sockets, turn, cut = [], 0, 0
    for _ in range(count):
        sockets += open_drips(daemon, 1)
        time.sleep(OPENING_S / count)
    print("open", flush=True)
    while not select.select([sys.stdin], [], [], 1 / PARTS)[0]:
        part, turn = sockets[turn::PARTS], (turn + 1) % PARTS
        for one in part:
            with contextlib.suppress(OSError):
                one.send(b"\0")
        gone = set(crowd.ended(part)[0])
        for one in gone:
            one.close()
        if gone:
            sockets = [one for one in sockets if one not in gone] + open_drips(daemon, len(gone))
        cut += len(gone)
    return cut


def main():
    host, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    crowd.allow_descriptors(count + 100)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    print(drip(Target((host, port)), count))


if __name__ == "__main__":
    main()
