"""Memory shared with the daemon, as a client on its Unix socket does it."""

import fcntl
import http.client
import mmap
import os
import socket

import numpy as np

from daemon import PATIENCE_S

HEADER = "Gemmd-Memory"
SHRINK, GROW = fcntl.F_SEAL_SHRINK, fcntl.F_SEAL_GROW


class Memory:
    """A memfd, sealed unless told otherwise."""

    def __init__(self, size, seals=SHRINK | GROW):
        self.fd = os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, size)
        if seals:
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, seals)
        self.map = mmap.mmap(self.fd, size)

    def put(self, offset, array):
        self.map[offset:offset + array.nbytes] = array.tobytes()

    def get(self, offset, shape, dtype=np.float32):
        count = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return np.frombuffer(self.map[offset:offset + count], dtype).reshape(shape)

    def close(self):
        self.map.close()
        os.close(self.fd)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Connection(http.client.HTTPConnection):
    """Over a Unix socket ("unix:PATH", "unix:@NAME"); `fds` go with its first line."""

    def __init__(self, address, fds=()):
        super().__init__("localhost", timeout=PATIENCE_S)
        self.path = address.removeprefix("unix:").replace("@", "\0", 1)
        self.fds = list(fds)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(self.path)
        if self.fds:
            socket.send_fds(self.sock, [b"\r\n"], self.fds)

    def post(self, target, body=b"", **headers):
        """(status, headers, bytes)"""
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.request("POST", target, body, headers)
        answer = self.getresponse()
        return answer.status, answer.headers, answer.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def maps(pid, name):
    """Those of a process that have `name` in their file's."""
    with open(f"/proc/{pid}/maps", encoding="ascii") as file:
        return [line for line in file if name in line]
