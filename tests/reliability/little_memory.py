#!/usr/bin/env python3
"""The address space of a running daemon is exhausted, and is free again later."""

import collections
import concurrent.futures
import itertools
import resource

import crowd
import figure
import load
import process
from wire import exchange, request

OCTETS = ("Content-Type", "application/octet-stream")


def product(n, k, *headers):
    body = bytes(8 * n * k)
    return request("POST", f"/gemm?m={n}&n={n}&k={k}", [OCTETS, ("Content-Length", len(body)), *headers], body)


def measure(options):
    """What becomes of requests while the daemon can map no memory."""
    count = 50 if options.quick else 2000
    data = [product(n, n) for n in (2, 64, 300)] + [
        request("GET", "/info"), request("GET", "/metrics"),
        request("PUT", "/tensors/x?dtype=f32&shape=64,64", [OCTETS, ("Content-Length", 16384)],
                bytes(16384))]
    # The memory of other requests may be there already; a job's result of 16 MB needs memory of its own.
    starving = [*data, product(2000, 1, ("Prefer", "respond-async"))]
    seen = collections.Counter()

    def ask(text):
        try:
            return str(exchange(daemon.address, text).status)
        except OSError:
            return "closed"

    def ask_all(texts, number):
        return collections.Counter(pool.map(ask, itertools.islice(itertools.cycle(texts), number)))

    with load.running(options.gemmd, "--pinned-bytes", "32M") as daemon, \
            concurrent.futures.ThreadPoolExecutor(32) as pool:
        ask_all(data, 64)
        for extra in (-(64 << 20), 0, 1 << 20):
            limit = process.status(daemon.pid, "VmSize") + extra
            resource.prlimit(daemon.pid, resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
            seen.update(ask_all(starving, count))
            resource.prlimit(daemon.pid, resource.RLIMIT_AS,
                             (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        # The last jobs may still hold the pinned memory.
        crowd.wait_until(lambda: not load.metric(daemon, "gemmd_queue_requests"))
        again = ask_all(data, 100)
        crowd.wait_until(lambda: not load.metric(daemon, "gemmd_queue_requests"))
        held = load.metric(daemon, "gemmd_pinned_memory_used_bytes")
    said = ", ".join(f"{count} × {status}" for status, count in sorted(seen.items()))
    unexpected = set(seen) - {"200", "201", "202", "204", "503", "507", "429", "closed"}
    lacked = seen["503"] + seen["closed"] > 0  # else the limit took nothing from the daemon
    right = not unexpected and set(again) <= {"200", "201", "204"} and held == 0
    return [figure.Figure(
        "Memory", f"{3 * count} requests without address space: {said}; {sum(again.values())} requests "
        f"with it again: {sorted(again)}; {held:.0f} bytes held afterwards",
        None if right and options.quick and not lacked else right and lacked)]


if __name__ == "__main__":
    figure.main(measure)
