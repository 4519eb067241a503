#!/usr/bin/env python3
"""File descriptors are exhausted by connections, and are free again later."""

import time

import crowd
import figure
import load
import process
from daemon import PATIENCE_S
from wire import Wire, exchange, request

GOOD = request("POST", "/gemm?m=2&n=2&k=2", [("Content-Type", "application/octet-stream"),
                                             ("Content-Length", 32)], bytes(32))


def measure(options):
    """What becomes of open connections while no new one can be accepted."""
    turns = 2 if options.quick else 20
    served, cpu, again = 0, [], 0
    crowd.allow_descriptors(2000)
    with load.running(options.gemmd, "--io-threads", "1", "--bulk-connections", "0",
                      "--max-connections-per-address", "0", "--max-connections", "4096",
                      wrapper=("bash", "-c", 'ulimit -n 256; exec "$@"', "bash")) as daemon:
        daemon.session.close()
        before = process.descriptors(daemon.pid)
        with Wire(daemon.address) as kept:
            for _ in range(turns):
                sockets = crowd.connect(daemon, 400)  # more than descriptors; the rest wait
                time.sleep(0.2)
                for _ in range(20):
                    kept.send(GOOD)
                    served += kept.receive().status == 200
                used, begun = process.cpu_seconds(daemon.pid), time.monotonic()
                time.sleep(0.5)
                cpu.append((process.cpu_seconds(daemon.pid) - used) / (time.monotonic() - begun))
                for one in sockets:
                    one.close()
                deadline = time.monotonic() + PATIENCE_S
                while process.descriptors(daemon.pid) > before + 2 and time.monotonic() < deadline:
                    time.sleep(0.02)
                again += exchange(daemon.address, GOOD).status == 200
        crowd.wait_until(lambda: process.descriptors(daemon.pid) <= before)
        left = process.descriptors(daemon.pid) - before
    return [figure.Figure(
        "Descriptors", f"{turns} times 400 connections with 256 descriptors: {served} of {20 * turns} "
        f"requests of an open connection served meanwhile, at most {100 * max(cpu):.0f} % of a core "
        f"used for the wait, {again} of {turns} new connections served afterwards, {max(left, 0)} "
        "descriptors more at the end",
        served == 20 * turns and again == turns and left <= 0
        and (options.quick or max(cpu) < 0.2))]


if __name__ == "__main__":
    figure.main(measure)
