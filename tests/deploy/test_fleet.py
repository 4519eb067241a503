"""A fleet on one machine: HAProxy before three daemons, with a load by libgemmd while daemons are
killed, restarted, drained, replaced, added and removed.

`--fleet-seconds` makes the load run longer between two events, for the figures of
deploy/haproxy/README.md."""

import contextlib
import pathlib
import time

import pytest

from conftest import need
from fleet import HAProxy, Load, Member

SMALL = ("--pinned-bytes", "256M", "--device-bytes", "256M", "--tensor-bytes", "64M",
         "--no-access-log")
# HAProxy notices a drain by two health checks, which takes 1.3 s at most. A daemon without a delay
# closes its listening sockets before HAProxy has noticed.
DRAIN_DELAYS = {1: "3s", 2: "3s", 3: "3s", 4: "0"}
# Answers between two events at least, whatever the machine's speed: the hit rate below depends on
# how many requests there are for each event.
ANSWERS = 4000


class Fleet:
    def __init__(self, gemmd, folder, seconds):
        self.gemmd, self.seconds = gemmd, seconds
        self.members, self.events = {}, []
        self.cleanup = contextlib.ExitStack()
        with contextlib.ExitStack() as stack:
            for number in (1, 2, 3):
                self.members[number] = stack.enter_context(self.member(number))
            self.proxy = HAProxy(folder, {number: member.address
                                          for number, member in self.members.items()})
            stack.callback(self.proxy.stop)
            self.load = Load(pathlib.Path(gemmd).parent / "gemmd-fleet-load", self.proxy.url)
            stack.callback(self.load.stop)
            self.cleanup = stack.pop_all()

    @contextlib.contextmanager
    def member(self, number):
        member = Member(self.gemmd, (*SMALL, "--drain-delay", DRAIN_DELAYS[number]))
        try:
            yield member
        finally:
            member.stop()

    def settle(self):
        self.load.wait_for_answers(ANSWERS, self.seconds)

    @contextlib.contextmanager
    def event(self, name):
        """Notes what the load counted while something happened to the fleet, and how many requests
        with resident tensors each daemon had meanwhile."""
        counts, worker, begun = dict(self.load.counts), self.proxy.worker(), time.monotonic()
        requests = self.proxy.requests_by_server()
        yield
        self.settle()
        event = {"name": name, "seconds": time.monotonic() - begun}
        for key, count in self.load.counts.items():
            event[key] = count - counts[key]
        # A new worker of HAProxy counts from 0.
        if self.proxy.worker() == worker:
            event["requests"] = {number: count - requests[number]
                                 for number, count in self.proxy.requests_by_server().items()}
        self.events.append(event)

    def serve_steadily(self):
        with self.event("nothing"):
            pass

    def hottest(self, *names):
        """The requests with resident tensors of the daemon that had the most of them, divided by
        the mean of the three that are there all the time, during the events of these names, or
        during all."""
        sums = dict.fromkeys((1, 2, 3), 0)
        for event in self.events:
            if not names or event["name"] in names:
                for number in sums:
                    sums[number] += event.get("requests", {}).get(number, 0)
        return max(sums.values()) / (sum(sums.values()) / len(sums))

    def kill(self, number):
        with self.event("kill -9"):
            self.members[number].kill()
            self.proxy.wait_for_status(number, "DOWN")
        with self.event("start again"):
            self.members[number].start()
            self.proxy.wait_for_status(number, "UP")

    def drain_by_signal(self, number):
        with self.event("SIGTERM" if DRAIN_DELAYS[number] != "0" else "SIGTERM, no --drain-delay"):
            self.members[number].stop()
        with self.event("start again"):
            self.members[number].start()
            self.proxy.wait_for_status(number, "UP")

    def replace(self, number):
        with self.event("SIGUSR2"):
            self.members[number].replace()

    def add(self, number):
        with self.event("add a server"):
            member = self.cleanup.enter_context(self.member(number))
            self.members[number] = member
            self.proxy.servers[number] = member.address
            self.proxy.reload()

    def remove(self, number):
        with self.event("remove a server"):
            self.proxy.ask(f"set server gemmd/gemmd{number} state drain")
            self.proxy.wait_for_status(number, "DRAIN")
            while self.proxy.in_flight(number):
                time.sleep(0.02)
            del self.proxy.servers[number]
            self.proxy.reload()

    def hit_rate(self):
        """The part of the requests with resident tensors that met a daemon with their tensor."""
        return 1 - self.load.counts["misses"] / self.load.counts["resident"]

    def report(self):
        columns = ("seconds", "answered", "resident", "misses", "uploads", "repeats", "lost", "wrong")
        lines = ["| event | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
        for event in self.events:
            lines.append(f"| {event['name']} | {event['seconds']:.1f} | "
                         + " | ".join(str(event[column]) for column in columns[1:]) + " |")
        return "\n".join([*lines, f"all: {self.load.counts}", f"hit rate: {self.hit_rate():.4f}",
                          f"hottest daemon / mean: {self.hottest():.3f}, while nothing happened "
                          f"{self.hottest('nothing'):.3f}"])


@pytest.fixture(scope="module")
def fleet(request, tmp_path_factory):
    """What has become of the load after everything has happened to the fleet."""
    need("haproxy")
    fleet = Fleet(request.config.getoption("--gemmd"), tmp_path_factory.mktemp("fleet"),
                  request.config.getoption("--fleet-seconds"))
    with fleet.cleanup:
        fleet.serve_steadily()
        for number in (1, 2, 3):
            fleet.kill(number)
        fleet.serve_steadily()
        for number in (1, 2, 3):
            fleet.drain_by_signal(number)
        fleet.serve_steadily()
        for number in (1, 2, 3):
            fleet.replace(number)
        fleet.serve_steadily()
        fleet.add(4)
        fleet.drain_by_signal(4)
        fleet.remove(4)
        fleet.serve_steadily()
        fleet.load.stop()
    print(fleet.report())
    return fleet


def test_every_request_is_answered(fleet):
    counts = fleet.load.counts
    assert counts["lost"] == 0, fleet.load.errors[:10]
    assert counts["sent"] == counts["answered"]
    assert counts["sent"] >= ANSWERS * len(fleet.events)


def test_every_answer_is_right(fleet):
    assert fleet.load.counts["wrong"] == 0, fleet.load.errors[:10]


def test_resident_tensors_are_found(fleet):
    """A request that meets a daemon without its tensor has the tensor uploaded again."""
    assert fleet.load.counts["uploads"] > 0
    assert fleet.hit_rate() >= 0.95, fleet.report()


def test_no_daemon_has_much_more_than_its_share(fleet):
    """Of the requests with resident tensors, whose names follow Zipf's law."""
    assert fleet.hottest("nothing") <= 1.25, fleet.report()
    assert fleet.hottest() <= 1.25, fleet.report()
