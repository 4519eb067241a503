"""Many connections of one process, without a thread for each."""

import resource
import socket
import time

import figure
from daemon import PATIENCE_S


def allow_descriptors(count):
    """Raises this process's limit, which the daemon inherits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        if hard != resource.RLIM_INFINITY and hard < count:
            raise figure.CannotRun(f"{count} file descriptors are needed, and the limit is {hard}.")
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def connect(daemon, count):
    sockets = []
    for _ in range(count):
        sockets.append(socket.create_connection(daemon.address, timeout=PATIENCE_S))
        sockets[-1].setblocking(False)
    return sockets


def ended(sockets):
    """Those that the daemon has closed or answered with an error, and those that are open."""
    gone, left = [], []
    for one in sockets:
        try:
            data = one.recv(4096)
            (gone if not data or b"HTTP/1.1 4" in data else left).append(one)
        except BlockingIOError:
            left.append(one)
        except OSError:
            gone.append(one)
    return gone, left


def wait_until(condition, seconds=PATIENCE_S):
    deadline = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found
