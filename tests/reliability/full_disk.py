#!/usr/bin/env python3
"""The disk under the daemon's log is full, and has room again later."""

import contextlib
import ctypes
import os
import re
import resource
import tempfile
import time

import figure
from daemon import PATIENCE_S, Daemon
from full_shared_memory import CLONE_NEWNS, MS_PRIVATE_ALL
from wire import Wire, exchange, request

GOOD = request("POST", "/gemm?m=2&n=2&k=2", [("Content-Type", "application/octet-stream"),
                                             ("Content-Length", 32)], bytes(32))
LIMIT = 64 * 1024


def make_small(folder):
    """Makes the folder's disk small. Returns how: "a small disk" or "a limit of file sizes"."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) == 0 and libc.mount(b"none", b"/", None, MS_PRIVATE_ALL, None) == 0 \
            and libc.mount(b"tmpfs", folder.encode(), b"tmpfs", 0, f"size={LIMIT}".encode()) == 0:
        return "a small disk"
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, resource.RLIM_INFINITY))
    return "a limit of file sizes"


def dropped(path):
    text = exchange(path, request("GET", "/metrics")).body.decode()
    return int(re.search(r"^gemmd_log_dropped_lines_total (\d+)$", text, re.MULTILINE)[1])


def send(path, count):
    """Returns how many were not answered with 200."""
    failed = 0
    with Wire(path) as wire:
        for _ in range(count):
            wire.send(GOOD)
            failed += wire.receive().status != 200
    return failed


def measure(options):
    """Requests that fail, and lines that are counted as lost."""
    count = 500 if options.quick else 20_000
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as sockets:
        how = make_small(folder)
        log, path = f"{folder}/log", f"{sockets}/gemmd"
        daemon = Daemon(options.gemmd, listen=(f"unix:{path}",),
                        wrapper=("bash", "-c", f'exec "$@" >>{log}', "bash"))
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not os.path.exists(path) and time.monotonic() < deadline:
                time.sleep(0.02)
            failed = send(path, count)
            with contextlib.suppress(OSError):
                os.sync()
            lost = dropped(path)
            length = os.path.getsize(log)
            os.truncate(log, 0)  # room again
            failed += send(path, 10)
            time.sleep(0.5)
            written = os.path.getsize(log)
            daemon.stop()
        finally:
            daemon.close()
        if os.path.ismount(folder):
            ctypes.CDLL(None).umount(folder.encode())
    return [figure.Figure(
        "Disk", f"{count} requests with {how} of {LIMIT // 1024} KiB: {failed} failed, {lost} lines "
        f"counted as lost after {length // 1024} KiB; with room again lines are written: "
        f"{'yes' if written else 'no'}", failed == 0 and lost > 0 and written > 0)]


if __name__ == "__main__":
    figure.main(measure)
