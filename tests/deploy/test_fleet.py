"""A fleet on one machine: HAProxy before three daemons, with a load by libgemmd while daemons are
killed, restarted, drained, replaced, added and removed.

`--fleet-seconds` makes the load run longer between two events, for the figures of
deploy/haproxy/README.md."""

import contextlib
import pathlib
import shutil
import time

import pytest

from conftest import need
from fleet import HAProxy, Load, Member

# Each of the load's 60 tensors takes 32 KiB. A daemon holds 52 of them: enough for the tensors that
# HAProxy sends to the daemon while another daemon is away, but not for all.
SMALL = ("--pinned-bytes", "256M", "--device-bytes", "256M", "--tensor-bytes", "1664K",
         "--no-access-log")
# HAProxy notices a drain by two health checks, which takes 1.3 s at most. A daemon without a delay
# closes its listening sockets before HAProxy has noticed.
DRAIN_DELAYS = {1: "2s", 2: "2s", 3: "2s", 4: "0"}
# Answers between two events at least, whatever the machine's speed: the hit rate below depends on
# how many requests there are for each event.
ANSWERS = 4000
HIT_RATE_MIN, HOTTEST_MAX = 0.95, 1.25
AWAY = ("kill -9", "SIGTERM")  # events in which a daemon is away


class Fleet:
    def __init__(self, gemmd, folder, seconds, drain_delays=DRAIN_DELAYS, edit=lambda text: text):
        self.gemmd, self.seconds, self.drain_delays = gemmd, seconds, drain_delays
        self.members, self.events, self.folder = {}, [], folder
        self.cleanup = contextlib.ExitStack()
        with contextlib.ExitStack() as stack:
            for number in (1, 2, 3):
                self.members[number] = stack.enter_context(self.member(number))
            self.proxy = HAProxy(folder, {number: member.address
                                          for number, member in self.members.items()}, edit)
            stack.callback(self.proxy.stop)
            self.load = Load(pathlib.Path(gemmd).parent / "gemmd-fleet-load", self.proxy.url)
            stack.callback(self.load.stop)
            self.cleanup = stack.pop_all()

    @contextlib.contextmanager
    def member(self, number):
        program = self.folder / f"gemmd{number}"
        shutil.copy2(self.gemmd, program)
        member = Member(program, (*SMALL, "--drain-delay", self.drain_delays[number]))
        try:
            yield member
        finally:
            member.stop()
            member.port.close()

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

    def hottest(self, without=()):
        """The requests with resident tensors of the daemon that had the most of them, divided by
        the mean of the three, but for events of the names in `without`."""
        sums = dict.fromkeys((1, 2, 3), 0)
        for event in self.events:
            if event["name"] in without:
                continue
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
        with self.event("SIGTERM" if self.drain_delays[number] != "0" else "SIGTERM, no --drain-delay"):
            self.members[number].stop()
        with self.event("start again"):
            self.members[number].start()
            self.proxy.wait_for_status(number, "UP")

    def upgrade(self, number):
        with self.event("upgrade"):
            self.members[number].upgrade(self.gemmd)

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
                          f"hottest daemon / mean: {self.hottest():.3f}, while all three were there "
                          f"{self.hottest(AWAY):.3f}"])


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
            fleet.upgrade(number)
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
    assert fleet.hit_rate() >= HIT_RATE_MIN, fleet.report()


def test_no_daemon_has_much_more_than_its_share(fleet):
    """Of the requests with resident tensors, which are drawn by Zipf's law."""
    assert fleet.hottest(AWAY) <= HOTTEST_MAX, fleet.report()
    assert fleet.hottest() <= HOTTEST_MAX, fleet.report()


PLACEMENT = """    balance hash var(txn.tensor)
    hash-type consistent
    hash-balance-factor 125
"""


@pytest.mark.parametrize("fault, instead", [
    ("another key", PLACEMENT.replace("txn.tensor", "txn.id")),
    ("no placement", "    balance leastconn\n"),
    ("no bounded load", PLACEMENT.replace("    hash-balance-factor 125\n", "")),
], ids=("another-key", "no-placement", "no-bounded-load"))
def test_the_figures_show_a_wrong_placement(fault, instead, request, tmp_path):
    """The bounds above notice a haproxy.cfg that places tensors in another way."""
    need("haproxy")

    def edit(text):
        assert text.count(PLACEMENT) == 1
        return text.replace(PLACEMENT, instead)

    fleet = Fleet(request.config.getoption("--gemmd"), tmp_path, 0, dict.fromkeys((1, 2, 3), "0"), edit)
    with fleet.cleanup:
        fleet.serve_steadily()
        fleet.load.stop()
    assert fleet.load.counts["lost"] == fleet.load.counts["wrong"] == 0
    if fault == "no bounded load":
        assert fleet.hottest() > HOTTEST_MAX, fleet.report()
    else:
        assert fleet.hit_rate() < HIT_RATE_MIN, fleet.report()
