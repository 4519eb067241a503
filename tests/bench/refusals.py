#!/usr/bin/env python3
"""Measures what a refused product costs the daemon and its client, in CPU time, by size of the body.

Usage: tests/bench/refusals.py [--seconds N] [--bytes N,...] [--expect] GEMMD...

Each daemon has one place in its queue, which a request without its body holds, so that every other
request is answered with 429. One client sends requests in a closed loop, on one connection for as
long as the daemon keeps the connection open. With --expect, the client asks with Expect: 100-continue and
sends no body. Several daemons are measured in turns.
"""

import argparse
import contextlib
import math
import os
import re
import socket
import subprocess
import threading
import time

OPTIONS = ("--listen", "127.0.0.1:0", "--backend", "cpu", "--cpu-threads", "1", "--io-threads", "1",
           "--queue-requests", "1", "--pinned-bytes", "64M", "--busy-poll-us", "0",
           "--min-body-rate", "0")


def cpu_us(pid):
    """CPU time of all threads of a process."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as file:
                total += int(file.read().split()[0])
    return total / 1e3


@contextlib.contextmanager
def running(gemmd):
    with subprocess.Popen([gemmd, *OPTIONS], stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if found := re.search(r"listening on 127\.0\.0\.1:(\d+)", line):
                break
        threading.Thread(target=process.stdout.read, daemon=True).start()
        try:
            yield process.pid, ("127.0.0.1", int(found[1]))
        finally:
            process.terminate()


def exchange(connection, data):
    """Returns whether the daemon keeps the connection; None if the answer was lost."""
    answer = b""
    try:
        connection.sendall(data)
    except OSError:
        pass  # the daemon has answered and closed
    try:
        while b"\r\n\r\n" not in answer:
            if not (got := connection.recv(1 << 16)):
                return None
            answer += got
    except OSError:
        return None
    head, _, rest = answer.partition(b"\r\n\r\n")
    assert head.split()[1] == b"429", head
    left = int(re.search(rb"(?i)content-length: (\d+)", head)[1]) - len(rest)
    while left > 0:
        left -= len(connection.recv(left))
    return b"onnection: close" not in head


def measure(gemmd, size, seconds, expect):
    """Returns the refusals, connections and lost answers, and the daemon's and client's us each."""
    n = math.isqrt(size // 8)
    head = (f"POST /gemm?m={n}&n={n}&k={n} HTTP/1.1\r\nHost: bench\r\nContent-Length: {8 * n * n}\r\n"
            "Content-Type: application/octet-stream\r\n").encode()
    data = head + (b"Expect: 100-continue\r\n\r\n" if expect else b"\r\n" + bytes(8 * n * n))
    refused = connections = lost = 0
    connection = None
    with running(gemmd) as (pid, address), socket.create_connection(address) as holder:
        holder.sendall(head + b"Expect: 100-continue\r\n\r\n")
        assert b" 100 " in holder.recv(1000)
        daemon_us, client_s = cpu_us(pid), time.process_time()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if connection is None:
                connection = socket.create_connection(address)
                connections += 1
            kept = exchange(connection, data)
            refused += kept is not None
            lost += kept is None
            if not kept:
                connection.close()
                connection = None
        daemon_us, client_s = cpu_us(pid) - daemon_us, time.process_time() - client_s
        if connection is not None:
            connection.close()
    each = max(refused, 1)
    return refused, connections, lost, daemon_us / each, client_s * 1e6 / each


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--bytes", default="1000,100000,250000,400000,1000000,3000000")
    parser.add_argument("--expect", action="store_true")
    parser.add_argument("gemmd", nargs="+")
    options = parser.parse_args()
    print("    bytes  refused  connections  lost  daemon us  client us  gemmd")
    for size in map(int, options.bytes.split(",")):
        for gemmd in options.gemmd:
            refused, connections, lost, daemon, client = measure(gemmd, size, options.seconds, options.expect)
            print(f"{size:9} {refused:8} {connections:12} {lost:5} {daemon:10.1f} {client:10.1f}  {gemmd}",
                  flush=True)


if __name__ == "__main__":
    main()
