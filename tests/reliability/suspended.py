#!/usr/bin/env python3
"""1,000 requests wait in the queue while one client goes on asking."""

import time

import crowd
import figure
import load
from abandoned import OCTETS, SIDE, blocker
from wire import Wire, request

READER = request("GET", "/livez")


def measure(options):
    """The longest time that a reader waits while many suspended connections are answered."""
    count = 100 if options.quick else 1000
    body = bytes(8 * SIDE * SIDE)
    data = request("POST", f"/gemm?m={SIDE}&n={SIDE}&k={SIDE}", [OCTETS, ("Content-Length", len(body))],
                   body)
    crowd.allow_descriptors(2 * count + 500)
    with load.running(options.gemmd, "--cpu-threads", "1", "--no-cpu-pauses", "--io-threads", "1",
                      "--bulk-connections", "0", "--max-connections-per-address", "0",
                      "--timeout", "600s") as daemon, \
            Wire(daemon.address) as first, Wire(daemon.address) as reader:
        first.send(blocker(768 if options.quick else 2048))
        crowd.wait_until(lambda: load.metric(daemon, "gemmd_requests_running") == 1)
        waiting = [Wire(daemon.address) for _ in range(count)]
        for wire in waiting:
            wire.send(data)
        crowd.wait_until(lambda: load.metric(daemon, "gemmd_requests_waiting") >= count, 5)
        queued = load.metric(daemon, "gemmd_requests_waiting")
        pauses, good = [], 0
        pending = [wire.socket for wire in waiting]
        for wire in waiting:
            wire.socket.setblocking(False)
        end = time.monotonic() + 120
        while pending and time.monotonic() < end:
            begun = time.monotonic()
            reader.send(READER)
            assert reader.receive().status == 200
            pauses.append(time.monotonic() - begun)
            left = []
            for one in pending[:50]:
                try:
                    good += one.recv(1 << 16).startswith(b"HTTP/1.1 200")
                except BlockingIOError:
                    left.append(one)
            pending = pending[50:] + left
        assert first.receive().status == 200
        for wire in waiting:
            wire.socket.close()
    longest = max(pauses) * 1e3
    return [figure.Figure(
        "F16", f"{len(pauses)} requests of one reader beside {count} that wait ({queued:.0f} queued "
        f"at first): longest {longest:.1f} ms, p99 {load.percentile(pauses, 0.99) * 1e3:.1f} ms, {good} "
        f"of {count} answered with 200",
        None if options.quick else longest <= 100 and good == count,
        "one I/O thread serves them all; the reader is a Python program on the same cores")]


if __name__ == "__main__":
    figure.main(measure)
