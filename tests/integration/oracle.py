"""Checks that hostile input has left nothing behind in a daemon."""

import os
import time

from daemon import PATIENCE_S
from wire import exchange, request

# What returns to its value from before when all connections of a test have ended.
GAUGES = (
    "gemmd_connections", "gemmd_requests_running", "gemmd_requests_waiting", "gemmd_queue_requests",
    "gemmd_queue_bytes", "gemmd_pinned_memory_used_bytes", "gemmd_device_memory_used_bytes",
    "gemmd_shared_memories", "gemmd_shared_memory_regions", "gemmd_shared_memory_used_bytes",
)
# A thread that never waits uses about 1.0 of this on an idle machine; an idle daemon uses about 0.01.
IDLE_SHARE, IDLE_STRETCH_S = 0.2, 0.3


def gauges(daemon, names=GAUGES):
    """The values of the gauges, read over a connection that ends with the answer."""
    data = request("GET", "/metrics", [("Connection", "close")])
    lines = exchange(daemon.address, data).body.decode().splitlines()
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


def wait_until(passes, describe):
    deadline = time.monotonic() + PATIENCE_S
    while not passes():
        assert time.monotonic() < deadline, describe()
        time.sleep(0.05)


class Oracle:
    """Made before the input. `check` is called when the test has closed its own connections, or when
    the daemon must have closed them."""

    def __init__(self, daemon, names=GAUGES):
        self.daemon = daemon
        daemon.session.close()  # its connections would be counted
        self.names = names
        exchange(daemon.address, request("GET", "/metrics", [("Connection", "close")]))
        self.before = self._settled()

    def _settled(self):
        """The gauges when they have stayed the same for a moment."""
        last = gauges(self.daemon, self.names)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            time.sleep(0.1)
            now = gauges(self.daemon, self.names)
            if now == last:
                return now
            assert time.monotonic() < deadline, f"the gauges do not settle: {last}, {now}"
            last = now

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
