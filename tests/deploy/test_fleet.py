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

# A drain is longer than HAProxy needs to notice it: two health checks with a second between them.
SMALL = ("--pinned-bytes", "256M", "--device-bytes", "256M", "--tensor-bytes", "64M",
         "--no-access-log", "--drain-delay", "4s")
# Answers between two events at least, whatever the machine's speed: the hit rate below depends on
# how many requests there are for each event.
ANSWERS = 4000


class Fleet:
    def __init__(self, gemmd, folder, seconds):
        self.gemmd, self.seconds = gemmd, seconds
        self.members, self.events, self.requests = {}, [], {}
        self.cleanup = contextlib.ExitStack()
        with contextlib.ExitStack() as stack:
            for number in (1, 2, 3):
                self.members[number] = stack.enter_context(self.member())
            self.proxy = HAProxy(folder, {number: member.address
                                          for number, member in self.members.items()})
            stack.callback(self.proxy.stop)
            self.load = Load(pathlib.Path(gemmd).parent / "gemmd-fleet-load", self.proxy.url)
            stack.callback(self.load.stop)
            self.cleanup = stack.pop_all()

    @contextlib.contextmanager
    def member(self):
        member = Member(self.gemmd, SMALL)
        try:
            yield member
        finally:
            member.stop()

    def settle(self):
        self.load.wait_for_answers(ANSWERS, self.seconds)

    @contextlib.contextmanager
    def event(self, name):
        """Notes what the load counted while something happened to the fleet."""
        before, begun = dict(self.load.counts), time.monotonic()
        yield
        self.settle()
        now = self.load.counts
        self.events.append((name, time.monotonic() - begun,
                            {key: now[key] - before[key] for key in now}))

    def serve_steadily(self):
        """All three daemons serve, and nothing happens to them."""
        before = self.proxy.requests_by_server()
        with self.event("nothing"):
            pass
        now = self.proxy.requests_by_server()
        for number in (1, 2, 3):
            self.requests[number] = self.requests.get(number, 0) + now[number] - before[number]

    def kill(self, number):
        with self.event("kill -9"):
            self.members[number].kill()
            self.proxy.wait_for_status(number, "DOWN")
        with self.event("start again"):
            self.members[number].start()
            self.proxy.wait_for_status(number, "UP")

    def drain_by_signal(self, number):
        with self.event("SIGTERM"):
            self.members[number].stop()
        with self.event("start again"):
            self.members[number].start()
            self.proxy.wait_for_status(number, "UP")

    def replace(self, number):
        with self.event("SIGUSR2"):
            self.members[number].replace()

    def add(self, number):
        with self.event("add a server"):
            member = self.cleanup.enter_context(self.member())
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

    def report(self):
        counts = self.load.counts
        lines = [f"| {name} | {seconds:.1f} | {c['answered']} | {c['misses']} | {c['uploads']} "
                 f"| {c['repeats']} | {c['lost'] + c['wrong']} |" for name, seconds, c in self.events]
        return "\n".join(["| event | s | answered | met no tensor | uploads | repeats | lost or wrong |",
                          "|---|---|---|---|---|---|---|", *lines, f"all: {counts}",
                          f"resident requests by daemon, all serving: {self.requests}"])


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
    counts = fleet.load.counts
    hits = counts["resident"] - counts["misses"]
    assert counts["uploads"] > 0
    assert hits / (hits + counts["misses"]) >= 0.95, fleet.report()


def test_no_daemon_has_much_more_than_its_share(fleet):
    """Of the requests with resident tensors, whose names follow Zipf's law."""
    mean = sum(fleet.requests.values()) / 3
    assert max(fleet.requests.values()) <= 1.25 * mean, fleet.report()
