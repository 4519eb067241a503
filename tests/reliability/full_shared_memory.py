#!/usr/bin/env python3
"""/dev/shm is full: a client registers a region with holes that no page can fill any more."""

import contextlib
import ctypes
import os

import crowd
import figure
import load
import process
from daemon import PATIENCE_S
from wire import exchange, request

CLONE_NEWNS, MS_PRIVATE_ALL = 0x20000, (1 << 18) | (1 << 14)
SIDE = 256
BYTES = 4 * SIDE * SIDE


def mount_small(size):
    """Mounts a small /dev/shm that only this process and its children see."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) or libc.mount(b"none", b"/", None, MS_PRIVATE_ALL, None) or \
            libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, f"size={size}".encode()):
        reason = os.strerror(ctypes.get_errno())
        raise figure.CannotRun(f"this user may not mount a small /dev/shm ({reason}).")


def tensor(name, offset):
    return {"name": name, "shape": [SIDE, SIDE], "datatype": "FP32",
            "parameters": {"shared_memory_region": "holes", "shared_memory_byte_size": BYTES,
                           "shared_memory_offset": offset}}


def infer(daemon):
    """The status of a product whose operands and result lie in the region; None: no answer."""
    ask = {"inputs": [tensor("A", 0), tensor("B", BYTES)], "outputs": [tensor("C", 2 * BYTES)]}
    ask["outputs"][0] = {"name": "C", "parameters": ask["outputs"][0]["parameters"]}
    return daemon.session.post(f"{daemon.url}/v2/models/gemm_fp32/infer", json=ask,
                               timeout=PATIENCE_S).status_code


def register(daemon):
    return daemon.session.post(f"{daemon.url}/v2/systemsharedmemory/region/holes/register",
                               json={"key": "/holes", "byte_size": 3 * BYTES},
                               timeout=PATIENCE_S).status_code


def measure(options):
    """What becomes of products in shared memory, and of other requests meanwhile."""
    turns = 5 if options.quick else 100
    mount_small(1 << 20)
    path, fill = "/dev/shm/holes", "/dev/shm/fill"
    good = request("POST", "/gemm?m=2&n=2&k=2", [("Content-Type", "application/octet-stream"),
                                                 ("Content-Length", 32)], bytes(32))
    statuses, others = [], []
    with load.running(options.gemmd, "--shm-system") as daemon:
        before = process.descriptors(daemon.pid)
        for _ in range(turns):
            with open(path, "wb") as file:
                file.truncate(3 * BYTES)
            os.chmod(path, 0o666)
            with contextlib.suppress(OSError), open(fill, "wb", buffering=0) as file:
                while file.write(bytes(4096)):
                    pass
            if register(daemon) == 200:
                statuses.append(infer(daemon))
            others.append(exchange(daemon.address, good).status)
            daemon.session.post(f"{daemon.url}/v2/systemsharedmemory/unregister",
                                timeout=PATIENCE_S)
            os.unlink(fill)
            os.unlink(path)
        with open(path, "wb") as file:  # with room again
            file.truncate(3 * BYTES)
        os.chmod(path, 0o666)
        again = (register(daemon), infer(daemon))
        daemon.session.post(f"{daemon.url}/v2/systemsharedmemory/unregister", timeout=PATIENCE_S)
        daemon.session.close()
        crowd.wait_until(lambda: process.descriptors(daemon.pid) <= before)
        left = process.descriptors(daemon.pid) - before
    said = {status: statuses.count(status) for status in sorted(set(statuses))}
    return [figure.Figure(
        "Shared memory", f"{turns} times: products in holes answered with {said}, other requests with "
        f"{sorted(set(others))}; with room again {again[1]}; {max(left, 0)} descriptors more",
        bool(statuses) and 200 not in said and set(others) == {200} and again == (200, 200)
        and left <= 0)]


if __name__ == "__main__":
    figure.main(measure)
