"""Simulates how requests are placed on the devices of one daemon (server/scheduler/executor.h).

Usage: python3 tests/bench/serving/placement.py [--requests N] [--seed N] [--out FILE]

Requests of a mix arrive at random at a given share of what all devices can compute. Each takes the
time of its work on the device that a policy chooses, after the requests that were placed there
before; a resident operand that the device lacks is copied there first and kept. The table says, for
each policy, how late requests end, how evenly the devices are used, and how many bytes of tensors
were copied. No daemon and no GPU is involved. The mixes are made up; the times of their works are of
the order that an H100 takes, and the link, whose speed the daemon measures when it starts, is as fast
as that of two H200s.
"""

import argparse
import bisect
import itertools
import random
from dataclasses import dataclass, field

MIB = 1 << 20
LINK_S, LINK_BYTES_PER_S = 20e-6, 387e9  # the link's start, and NVLink as measured


@dataclass
class Kind:
    """Requests of one kind: their share, the seconds on a device, and the tensors that they use."""

    share: float
    seconds: float
    tensors: int = 0  # how many there are; 0: no resident operand
    tensor_bytes: int = 0
    skew: float = 0.0  # of the tensors' popularity (Zipf)


MIXES = {
    "small products": [Kind(1.0, 3e-6)],
    "products of all sizes": [Kind(0.90, 3e-6), Kind(0.09, 60e-6), Kind(0.01, 2.2e-3)],
    "layers of few models": [Kind(0.8, 30e-6, 12, 32 * MIB, 1.1), Kind(0.2, 300e-6, 12, 128 * MIB, 1.1)],
    "layers of many models": [Kind(1.0, 40e-6, 400, 32 * MIB, 0.8)],
    "one hot tensor": [Kind(0.7, 50e-6, 1, 64 * MIB), Kind(0.3, 50e-6, 50, 32 * MIB, 0.5)],
    "mixed": [Kind(0.6, 3e-6), Kind(0.25, 40e-6, 60, 32 * MIB, 1.0), Kind(0.1, 60e-6),
              Kind(0.05, 800e-6, 8, 128 * MIB, 1.0)],
}


@dataclass
class Devices:
    count: int
    free_at: list = field(default_factory=list)
    busy: list = field(default_factory=list)
    moved: int = 0
    places: dict = field(default_factory=dict)  # tensor -> the devices that have it
    turn: int = 0

    def __post_init__(self):
        self.free_at, self.busy = [0.0] * self.count, [0.0] * self.count

    def waiting(self, device, now):
        return max(0.0, self.free_at[device] - now)


def place_daemon(devices, now, tensor, tensor_bytes):
    """Done first, with the time of a copy: what the daemon does."""
    home = devices.places.get(tensor)

    def cost(device):
        missing = tensor is not None and device not in home
        return devices.waiting(device, now) + (
            LINK_S + tensor_bytes / LINK_BYTES_PER_S if missing else 0.0)
    return min(range(devices.count), key=cost)


def place_home(devices, now, tensor, _):
    """Where the tensor was uploaded, always; else done first."""
    if tensor is not None:
        return min(devices.places[tensor])
    return min(range(devices.count), key=lambda device: devices.waiting(device, now))


def place_in_turn(devices, *_):
    """One device after another, as separate daemons behind a proxy would be used."""
    devices.turn += 1
    return devices.turn % devices.count


POLICIES = {"done first, copies pay": place_daemon, "at its tensor": place_home,
            "in turn": place_in_turn}


def arrivals(mix, devices, load, requests, generator):
    """(time, kind, tensor) of each request, in the order of time."""
    mean = sum(kind.share * kind.seconds for kind in mix)
    rate = load * devices / mean
    kinds = list(itertools.accumulate(kind.share for kind in mix))
    popular = [list(itertools.accumulate(1 / (rank + 1) ** kind.skew for rank in range(kind.tensors)))
               for kind in mix]
    now = 0.0
    for _ in range(requests):
        now += generator.expovariate(rate)
        number = bisect.bisect_left(kinds, generator.random() * kinds[-1])
        tensor = None
        if mix[number].tensors:
            weights = popular[number]
            tensor = number, bisect.bisect_left(weights, generator.random() * weights[-1])
        yield now, mix[number], tensor


def simulate(mix, count, policy, load, requests, seed):
    generator = random.Random(seed)
    devices = Devices(count)
    homes = itertools.cycle(range(count))
    for number, kind in enumerate(mix):
        for tensor in range(kind.tensors):
            devices.places[number, tensor] = {next(homes)}
    late = []
    for now, kind, tensor in arrivals(mix, count, load, requests, generator):
        device = policy(devices, now, tensor, kind.tensor_bytes)
        seconds = kind.seconds
        if tensor is not None and device not in devices.places[tensor]:
            devices.places[tensor].add(device)
            devices.moved += kind.tensor_bytes
            seconds += LINK_S + kind.tensor_bytes / LINK_BYTES_PER_S
        devices.free_at[device] = max(now, devices.free_at[device]) + seconds
        devices.busy[device] += seconds
        late.append(devices.free_at[device] - now)
    late.sort()
    mean = sum(devices.busy) / count
    return {"p50_us": late[len(late) // 2] * 1e6, "p99_us": late[len(late) * 99 // 100] * 1e6,
            "imbalance": max(devices.busy) / mean, "moved_mib": devices.moved / MIB,
            "copies": sum(map(len, devices.places.values())) - len(devices.places)}


def table(requests, load, seed):
    lines = [f"Load {load:.0%} of all devices, {requests:,} requests, seed {seed}.", "",
             "| mix | devices | policy | p50, µs | p99, µs | busiest / mean | copied, MiB |",
             "|---|---|---|---|---|---|---|"]
    for name, mix in MIXES.items():
        for count in (2, 4, 8):
            for policy_name, policy in POLICIES.items():
                found = simulate(mix, count, policy, load, requests, seed)
                lines.append(f"| {name} | {count} | {policy_name} | {found['p50_us']:,.0f} | "
                             f"{found['p99_us']:,.0f} | {found['imbalance']:.2f} | "
                             f"{found['moved_mib']:,.0f} |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--requests", type=int, default=50000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out")
    arguments = parser.parse_args()
    lines = ["# Placement of requests on the devices of one daemon, simulated", "",
             *__doc__.strip().split("\n\n")[2].split("\n"), ""]
    for load in (0.7, 0.9):
        lines += [*table(arguments.requests, load, arguments.seed), ""]
    text = "\n".join(lines).rstrip() + "\n"
    if arguments.out:
        with open(arguments.out, "w", encoding="utf-8") as out:
            out.write(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
