"""Checks that hostile input has left nothing behind in a daemon."""

import os
import time

from patience import PATIENCE_S, wait_until
from wire import exchange, request

# What returns to its value from before when all connections of a test have ended.
GAUGES = (
    "gemmd_connections", "gemmd_requests_running", "gemmd_requests_waiting", "gemmd_queue_requests",
    "gemmd_queue_bytes", "gemmd_pinned_memory_used_bytes", "gemmd_device_memory_used_bytes",
    "gemmd_shared_memories", "gemmd_shared_memory_regions", "gemmd_shared_memory_used_bytes",
)
# The values of a daemon with no other connection than the one that reads them.
IDLE = {"gemmd_connections": 1, "gemmd_requests_running": 0, "gemmd_requests_waiting": 0,
        "gemmd_queue_requests": 0, "gemmd_queue_bytes": 0}
# A thread that never waits uses about 1.0 of this on an idle machine; an idle daemon uses about 0.01.
IDLE_SHARE, IDLE_STRETCH_S = 0.2, 0.3


def ask(daemon, path, method="GET", statuses=(200,)):
    """The answer with one of the statuses to a request without a body, on a connection of its own. The request
    is repeated if the limits of the daemon, for which this process may be too slow, end the connection. It has the
    token of `daemon.session`, if that has one."""
    token = [(name, value) for name, value in daemon.session.headers.items() if name == "Authorization"]
    data = request(method, path,
                   [("Connection", "close"), *token, *([] if method == "GET" else [("Content-Length", 0)])])

    def answer():
        try:
            received = exchange(daemon.address, data)
        except ConnectionError:
            if daemon.process.poll() is not None:
                raise
            return None
        return received if received.status in statuses else None

    return wait_until(answer, f"{method} {path}")


def gauges(daemon, names=GAUGES):
    """The values of the gauges, read over a connection that ends with the answer."""
    lines = ask(daemon, "/metrics").body.decode().splitlines()
    values = dict(line.split(" ") for line in lines if line.startswith(names) and "{" not in line)
    return {name: float(values[name]) for name in names}


def _cpu_s(daemon):
    with open(f"/proc/{daemon.pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _cpu_share(daemon):
    before, since = _cpu_s(daemon), time.monotonic()
    time.sleep(IDLE_STRETCH_S)
    return (_cpu_s(daemon) - before) / (time.monotonic() - since)


class Oracle:
    """Made before the input, while the test has no connection. `check` is called when the test has closed its
    own connections, or when the daemon must have closed them."""

    def __init__(self, daemon, names=GAUGES):
        self.daemon = daemon
        daemon.session.close()  # its connections would be counted
        self.names = names
        now = {}

        def is_idle():
            now.update(gauges(daemon))
            return all(now[name] == value for name, value in IDLE.items())

        wait_until(is_idle, lambda: f"the daemon is not idle: {now}")
        self.before = {name: now[name] for name in names}

    def check(self):
        """All gauges return to their values from before, and no thread of the daemon is busy."""
        now = {}

        def is_as_before():
            now.update(gauges(self.daemon, self.names))
            return now == self.before

        wait_until(is_as_before, lambda: f"left behind: {now}; before: {self.before}")
        self.check_idle()

    def check_idle(self):
        wait_until(lambda: _cpu_share(self.daemon) < IDLE_SHARE,
                   lambda: "a thread of the daemon stays busy")

    def check_exit(self):
        """The daemon exits when it is told to. The test starts it with `LONG_DRAIN`, so that a
        request that never ends makes this fail."""
        self.daemon.stop()


LONG_DRAIN = ("--drain-delay", "0", "--drain-timeout", f"{10 * PATIENCE_S}s")


def answers(wire):
    """Reads until the daemon ends the connection, and returns all bytes. Fails if the daemon keeps
    the connection open and silent."""
    try:
        return wire.rest()
    except TimeoutError:
        raise AssertionError("the connection got no answer and was not closed: "
                             f"{wire.buffer[-200:]!r}") from None
