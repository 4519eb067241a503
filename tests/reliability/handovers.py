#!/usr/bin/env python3
"""Hand-overs to a new process by SIGUSR2, under a steady load of kept and new connections."""

import http.client
import os
import signal
import time

import figure
import load
from daemon import PATIENCE_S, Daemon
from test_handover import Load, replace


def measure(options):
    """How many requests fail while the daemon is replaced over and over."""
    count = 3 if options.quick else options.count
    daemon = Daemon(options.gemmd, "--no-access-log", "--pinned-bytes", "64M")
    pid, times = daemon.pid, []
    try:
        daemon.wait_until_listening().wait_until_ready()
        daemon.session.close()
        clients = Load(lambda: http.client.HTTPConnection(*daemon.address, timeout=PATIENCE_S))
        try:
            clients.wait_for_progress()
            for _ in range(count):
                begun = time.monotonic()
                pid = replace(daemon, pid)
                times.append(time.monotonic() - begun)
                clients.wait_for_progress()
        finally:
            clients.stop()
        os.kill(pid, signal.SIGTERM)
        status = daemon.wait()
        drained = daemon.messages().count("drained")
    finally:
        daemon.close()
    return [figure.Figure(
        "F12", f"{count} hand-overs, {sum(clients.counts)} requests, {len(clients.failures)} failed; a "
        f"new process has the sockets after {load.percentile(times, 0.5):.2f} s (p50), "
        f"{max(times):.2f} s at most; {drained} processes drained",
        not clients.failures and status == 0 and drained == count + 1,
        f"the first failures: {clients.failures[:3]}" if clients.failures else "")]


if __name__ == "__main__":
    figure.main(measure, [("--count", {"type": int, "default": 100})])
