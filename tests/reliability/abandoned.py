#!/usr/bin/env python3
"""Clients that leave at random points while their requests are queued."""

import random
import socket
import struct
import time

import crowd
import figure
import load
from wire import Wire, request

OCTETS = ("Content-Type", "application/octet-stream")
SIDE = 64


def blocker(n):
    return request("POST", f"/gemm?m={n}&n={n}&k={n}&kernel=naive",
                   [OCTETS, ("Content-Length", 8 * n * n)], bytes(8 * n * n))


def leave(wire, how):
    if how == "reset":
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    elif how == "half":
        wire.half_close()
        return
    wire.socket.close()


def measure(options):
    """How many products of clients that left are computed all the same."""
    count, side = (40, 768) if options.quick else (400, 1536)
    chance = random.Random(7)
    body = bytes(8 * SIDE * SIDE)
    data = request("POST", f"/gemm?m={SIDE}&n={SIDE}&k={SIDE}", [OCTETS, ("Content-Length", len(body))],
                   body)
    with load.running(options.gemmd, "--cpu-threads", "1", "--no-cpu-pauses", "--max-connections-per-address", "0",
                      "--timeout", "600s") as daemon, Wire(daemon.address) as first:
        first.send(blocker(side))
        crowd.wait_until(lambda: load.metric(daemon, "gemmd_requests_running") == 1)
        wires, partial = [], 0
        for number in range(count):
            wire = Wire(daemon.address)
            wires.append(wire)
            if number % 4 == 0:  # leaves in the middle of the request
                wire.send(data[:chance.randrange(1, len(data))])
                partial += 1
            else:
                wire.send(data)
        queued = crowd.wait_until(
            lambda: load.metric(daemon, "gemmd_requests_waiting") >= count - partial and count - partial)
        busy = load.metric(daemon, "gemmd_requests_running") == 1
        for wire in wires:
            leave(wire, chance.choice(("close", "reset", "half")))
            time.sleep(0.001 * chance.random())
        before = load.metric(daemon, "gemmd_flops_total")
        answer = first.receive().status
        crowd.wait_until(lambda: not load.metric(daemon, "gemmd_queue_requests"))
        computed = round((load.metric(daemon, "gemmd_flops_total") - before) / (2 * SIDE**3))
        # The product that kept the device busy is counted when it ends.
        computed -= round(side**3 / SIDE**3)
        held = load.metric(daemon, "gemmd_pinned_memory_used_bytes")
        for wire in wires:
            wire.socket.close()
    if not busy or not queued:
        raise figure.CannotRun("the device was free before all requests were queued.")
    share = 1 - computed / queued
    return [figure.Figure(
        "F15", f"{computed} of {queued:.0f} abandoned products were computed ({100 * share:.1f} % were "
        f"not); {partial} clients left in the middle of their request; {held:.0f} bytes held afterwards",
        share >= 0.99 and held == 0 and answer == 200,
        "the clients close, reset or half-close their connections at random times")]


if __name__ == "__main__":
    figure.main(measure)
