#!/usr/bin/env python3
"""The address space of a running daemon is exhausted, and is free again later."""

import collections
import concurrent.futures
import resource

import crowd
import figure
import load
import process
from wire import exchange, request

OCTETS = ("Content-Type", "application/octet-stream")


def product(n):
    body = bytes(8 * n * n)
    return request("POST", f"/gemm?m={n}&n={n}&k={n}", [OCTETS, ("Content-Length", len(body))], body)


def measure(options):
    """What becomes of requests while the daemon can map no memory."""
    count = 50 if options.quick else 2000
    data = [product(n) for n in (2, 64, 300)] + [
        request("GET", "/info"), request("GET", "/metrics"),
        request("PUT", "/tensors/x?dtype=f32&shape=64,64", [OCTETS, ("Content-Length", 16384)],
                bytes(16384))]
    seen = collections.Counter()

    def ask(number):
        try:
            return str(exchange(daemon.address, data[number % len(data)]).status)
        except OSError:
            return "closed"

    with load.running(options.gemmd, "--pinned-bytes", "32M") as daemon, \
            concurrent.futures.ThreadPoolExecutor(32) as pool:
        list(pool.map(ask, range(64)))
        for extra in (-(64 << 20), 0, 1 << 20):
            limit = process.status(daemon.pid, "VmSize") + extra
            resource.prlimit(daemon.pid, resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
            seen.update(pool.map(ask, range(count)))
            resource.prlimit(daemon.pid, resource.RLIMIT_AS,
                             (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        again = collections.Counter(pool.map(ask, range(100)))
        crowd.wait_until(lambda: not load.metric(daemon, "gemmd_queue_requests"))
        held = load.metric(daemon, "gemmd_pinned_memory_used_bytes")
    said = ", ".join(f"{count} × {status}" for status, count in sorted(seen.items()))
    unexpected = set(seen) - {"200", "201", "204", "503", "507", "429", "closed"}
    return [figure.Figure(
        "Memory", f"{3 * count} requests without address space: {said}; {sum(again.values())} requests "
        f"with it again: {sorted(again)}; {held:.0f} bytes held afterwards",
        not unexpected and set(again) <= {"200", "201", "204"} and held == 0)]


if __name__ == "__main__":
    figure.main(measure)
