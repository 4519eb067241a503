"""Simulates daemons behind a proxy that places requests by consistent hashing with bounded load.

The model follows HAProxy's `hash-type consistent` with `hash-balance-factor`. Every daemon has POINTS
points on a ring of 32 bits. A request goes to the daemon of the first point at or after the hash of
the request's tensor. With a factor, a daemon that already has its share of the outstanding requests,
times the factor, is passed over, and the request goes to the next daemon on the ring that has room.

The number of outstanding requests is constant and every request takes equally long, so that a request
ends whenever another one begins. A daemon keeps every tensor that it was given until it restarts. A
request whose tensor is not on its daemon counts as one upload.
"""

import copy
import dataclasses
import math

import numpy as np

POINTS = 256  # of a daemon on the ring: HAProxy makes 16 for each unit of a server's weight
TENSORS = 16  # for each daemon
OUTSTANDING = 32  # requests for each daemon
WARM_UP, MEASURED, AFTERWARDS = 24, 8, 4  # phases, in rounds of all outstanding requests
SEARCH = 4096  # points of the ring that are looked at in one step


def mix(numbers):
    """The finalizer of SplitMix64: a hash of 64 bits for each number."""
    z = np.asarray(numbers, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def hashes(numbers, salt):
    return mix(mix(numbers) ^ mix([salt])) >> np.uint64(32)


def shares(popularity, tensors):
    """The part of all requests that each tensor gets, the most popular first."""
    weights = 1 / np.arange(1, tensors + 1) if popularity == "Zipf" else np.ones(tensors)
    return weights / weights.sum()


class Ring:
    """The points of all daemons in order, and where on the ring each tensor begins."""

    def __init__(self, daemons, tensors, seed):
        points = hashes(np.arange(daemons * POINTS), 2 * seed)
        order = np.argsort(points, kind="stable")
        self.daemons = daemons
        self.points = points[order]
        self.owners = order // POINTS
        self.of_daemon = np.argsort(self.owners, kind="stable").reshape(daemons, POINTS)
        self.starts = np.searchsorted(self.points, hashes(np.arange(tensors), 2 * seed + 1))
        self.starts %= len(self.points)

    def homes(self, up):
        """The daemon of each tensor while only the daemons of the mask `up` serve."""
        serving = np.flatnonzero(up[self.owners])
        return self.owners[serving[np.searchsorted(serving, self.starts) % len(serving)]]


class Fleet:
    """Outstanding requests, and which daemon holds which tensor."""

    def __init__(self, ring, share, factor, seed):
        self.ring, self.factor = ring, factor
        self.owners, self.starts = ring.owners.tolist(), ring.starts.tolist()
        self.cumulative = np.cumsum(share)
        self.random = np.random.Generator(np.random.PCG64(seed))
        self.up = np.ones(ring.daemons, dtype=bool)
        self.open = np.ones(len(ring.owners), dtype=bool)  # points of daemons that have room
        self.load = [0] * ring.daemons
        self.held = [set() for _ in range(ring.daemons)]
        self.requests = OUTSTANDING * ring.daemons
        self.outstanding = [-1] * self.requests  # the daemon of each request; -1: none yet
        self.next = 0
        self.set_bound()

    def set_bound(self):
        """HAProxy rounds a daemon's slots up to at least one; so does this model."""
        serving = int(self.up.sum())
        self.bound = (math.inf if self.factor is None
                      else max(1, math.ceil((self.requests + 1) * self.factor / serving)))

    def stop(self, daemons):
        """The daemons lose their tensors and get no more requests. The model does not repeat the
        requests that were outstanding there."""
        self.up[daemons] = False
        for daemon in daemons:
            self.held[daemon].clear()
        self.set_bound()
        self.renew_open()

    def start(self, daemons):
        self.up[daemons] = True
        self.set_bound()
        self.renew_open()

    def renew_open(self):
        self.open = (self.up & (np.array(self.load) < self.bound))[self.ring.owners]

    def place(self, start):
        """The daemon of the first point with room at or after `start`."""
        point, points = start, len(self.owners)
        for _ in range(points // SEARCH + 2):
            found = int(self.open[point:point + SEARCH].argmax())
            if self.open[point + found]:
                return self.owners[point + found]
            point = point + SEARCH if point + SEARCH < points else 0
        raise RuntimeError("no daemon has room")

    def run(self, rounds):
        """Serves so many rounds of requests. Returns requests and uploads of each daemon."""
        served, uploads = [0] * self.ring.daemons, [0] * self.ring.daemons
        load, held, bound, of_daemon = self.load, self.held, self.bound, self.ring.of_daemon
        for _ in range(rounds):
            names = np.searchsorted(self.cumulative, self.random.random(self.requests))
            for name in names.tolist():
                ended = self.outstanding[self.next]
                if ended >= 0:
                    if load[ended] == bound and self.up[ended]:
                        self.open[of_daemon[ended]] = True
                    load[ended] -= 1
                start = self.starts[name]
                daemon = self.owners[start] if self.open[start] else self.place(start)
                load[daemon] += 1
                if load[daemon] == bound:
                    self.open[of_daemon[daemon]] = False
                self.outstanding[self.next] = daemon
                self.next = (self.next + 1) % self.requests
                served[daemon] += 1
                if name not in held[daemon]:
                    held[daemon].add(name)
                    uploads[daemon] += 1
        return np.array(served), np.array(uploads)


@dataclasses.dataclass
class Outcome:
    hottest: float  # requests of the busiest daemon, of the mean
    p99: float  # the same at the 99th percentile
    hit_rate: float  # requests whose tensor was on their daemon, after the warm-up
    copies: float  # daemons that hold a tensor, in the mean
    most_copies: int  # daemons that hold the tensor with the most copies
    most_held: float  # tensors on the fullest daemon, of TENSORS
    rollout_uploads: float  # uploads for each daemon that restarted, of TENSORS
    rack_uploads: float  # uploads after a rack's death for each lost daemon, of TENSORS
    rack_most: float  # uploads to the daemon that got the most of them, of TENSORS


def rack_of(daemons):
    """Daemons of a rack: 1 of 10, 4 of 100, 40 of 1,000 and of 10,000."""
    return max(1, min(40, daemons // 25))


def restarting(daemons):
    """Daemons that a rollout replaces at a time: 1 in 100, at least one."""
    return max(1, daemons // 100)


def simulate(daemons, popularity, factor, seed):
    tensors = TENSORS * daemons
    ring = Ring(daemons, tensors, seed)
    fleet = Fleet(ring, shares(popularity, tensors), factor, seed)
    fleet.run(WARM_UP)
    served, uploads = fleet.run(MEASURED)
    held = np.array([len(names) for names in fleet.held])
    copies = np.bincount(np.fromiter((name for names in fleet.held for name in names), dtype=np.int64))

    # The same requests are served by a fleet without an event; the difference is the event's.
    group, rack = np.arange(restarting(daemons)), np.arange(rack_of(daemons))
    rollout, death = copy.deepcopy(fleet), copy.deepcopy(fleet)
    usual = [fleet.run(AFTERWARDS)[1].sum() for _ in range(2)]
    rollout.stop(group)
    restarted = rollout.run(AFTERWARDS)[1].sum()
    rollout.start(group)
    restarted += rollout.run(AFTERWARDS)[1].sum()
    death.stop(rack)
    lost = death.run(AFTERWARDS)[1]
    return Outcome(
        hottest=served.max() / served.mean(), p99=np.percentile(served, 99) / served.mean(),
        hit_rate=1 - uploads.sum() / served.sum(), copies=held.sum() / np.count_nonzero(copies),
        most_copies=int(copies.max()), most_held=held.max() / TENSORS,
        rollout_uploads=(restarted - sum(usual)) / len(group) / TENSORS,
        rack_uploads=(lost.sum() - usual[0]) / len(rack) / TENSORS, rack_most=lost.max() / TENSORS)


@dataclasses.dataclass
class Rollout:
    steps: int
    uploads: float  # of every tensor once
    busiest: float  # uploads to one daemon in one step, of TENSORS


def roll_out(daemons, at_a_time, seed):
    """Restarts all daemons, so many at a time. Tensors follow the ring alone, without a bound, and a
    tensor is uploaded wherever its requests arrive without it."""
    tensors = TENSORS * daemons
    ring = Ring(daemons, tensors, seed)
    up = np.ones(daemons, dtype=bool)
    homes = ring.homes(up)
    held = [set() for _ in range(daemons)]
    for name, daemon in enumerate(homes.tolist()):
        held[daemon].add(name)
    total = busiest = steps = 0

    def move():
        nonlocal homes, total, busiest
        now = ring.homes(up)
        new = {}
        for name in np.flatnonzero((now != homes) | ~up[homes]).tolist():
            daemon = int(now[name])
            if name not in held[daemon]:
                held[daemon].add(name)
                new[daemon] = new.get(daemon, 0) + 1
        homes = now
        total += sum(new.values())
        busiest = max(busiest, max(new.values(), default=0))

    for first in range(0, daemons, at_a_time):
        group = range(first, min(first + at_a_time, daemons))
        up[group.start:group.stop] = False
        for daemon in group:
            held[daemon].clear()
        move()
        up[group.start:group.stop] = True
        move()
        steps += 1
    return Rollout(steps, total / tensors, busiest / TENSORS)
