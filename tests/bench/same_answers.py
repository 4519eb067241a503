#!/usr/bin/env python3
"""Compares the answers of two builds of the daemon: statuses, headers and every byte of the bodies.

    tests/bench/same_answers.py OLD_GEMMD NEW_GEMMD [--backend cuda] [--seed N] [--share 0.1] [--only GROUP] [--show]

Both daemons run at the same time with the same options, and get the same requests, of which
tests/bench/corpus draws thousands from tables of types, shapes, kernels, formats and mistakes. The requests
are sent one at a time, but for those that are meant to meet in the queue. What may differ between two answers
of one build is masked (tests/bench/corpus/masks.py), which the script shows for itself: it finds no difference
if both builds are the same program. The exit status is 1 if an answer differs. Needs NumPy.
"""

import argparse
import collections
import json
import sys
import tempfile
import time

import corpus
from corpus import exchange, masks

# Enough for the corpus, and for two daemons on one host or one GPU.
OPTIONS = ["--no-access-log", "--pinned-bytes", "1GiB", "--device-bytes", "2GiB", "--tensor-bytes", "512M",
           "--shm-system"]
SHOWN = 20


def excerpt(value, around=None):
    """Some of a body, from where it begins to differ."""
    text = value if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False).encode()
    at = 0 if around is None else max(0, around - 60)
    return f"{'…' if at else ''}{text[at:at + 160]!r}"


def first_difference(old, new):
    """What differs between two comparable answers, as a sentence."""
    if old[0] != new[0]:
        return f"status {old[0]} became {new[0]}: {excerpt(old[2])} became {excerpt(new[2])}"
    said = [f"status {old[0]}"]
    if old[1] != new[1]:
        changed = [pair for pair in old[1] if pair not in new[1]], [pair for pair in new[1] if pair not in old[1]]
        said.append(f"headers {changed[0]} became {changed[1]}" if any(changed)
                    else f"the order of headers {old[1]} became {new[1]}")
    if old[2] != new[2]:
        old, new = (body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
                    for body in (old[2], new[2]))
        at = next((i for i, pair in enumerate(zip(old, new)) if pair[0] != pair[1]), min(len(old), len(new)))
        count = sum(a != b for a, b in zip(old, new)) + abs(len(old) - len(new))
        said.append(f"body from byte {at}, {count} of {len(old)} bytes: {excerpt(old, at)} became {excerpt(new, at)}")
    return "; ".join(said)


class Comparison:
    """Sends units to both daemons, and counts the answers that differ."""

    def __init__(self, sides, show):
        self.sides, self.show = sides, show
        self.requests = self.same = self.crowds = 0
        self.different = []
        self.statuses = collections.Counter()
        self.shared = [0, 0]

    def unit(self, unit, seed, way):
        for count, asked in enumerate(unit.requests(seed)):
            crowd = asked if isinstance(asked, list) else [asked]
            for number, request in enumerate(crowd):
                if request.id == "":
                    request.id = f"{unit.group}-{count}-{number}"
            for side in self.sides:
                for number, request in enumerate(crowd):
                    side.send(request, way, number)
            for request in crowd:
                self.judge(unit, request, [side.receive() for side in self.sides], len(crowd) > 1)

    def judge(self, unit, request, answers, crowded):
        old, new = (masks.comparable(request, answer, crowded) for answer in answers)
        self.requests += 1
        self.statuses[old[0]] += 1
        if crowded:
            for i, answer in enumerate(answers):
                self.shared[i] += any(name == "Gemmd-Batch" and value != "1" for name, value in answer.headers)
        if self.show:
            said = f": {answers[0].body[:1000]!r}" if old[0] >= 300 else ""
            print(f"{old[0]} {unit.group}: {request}{said}", flush=True)
        if old == new:
            self.same += 1
            return
        said = f"{unit.group}, {unit.name}: {request}\n    {first_difference(old, new)}"
        self.different.append(said)
        if len(self.different) <= SHOWN or self.show:
            print(f"DIFFERENT {said}", flush=True)


def kernels_of(side):
    """{operation: names of its kernels}"""
    found = collections.defaultdict(list)
    for kernel in json.loads(side.get("/info"))["kernels"]:
        found[kernel["op"]].append(kernel["name"])
    return found


def compare(sides, options):
    comparison = Comparison(sides, options.show)
    chosen = corpus.chosen(kernels_of(sides[0]), options.backend, options.seed, options.share, options.only)
    for number, unit in enumerate(chosen):
        comparison.unit(unit, options.seed, number % 2)
    return comparison


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--backend", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share", type=float, default=1, help="of the corpus, from 0 to 1")
    parser.add_argument("--only", default="", help="send only the groups with this text in their name")
    parser.add_argument("--show", action="store_true", help="print every request, and every difference")
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        sides = []
        try:
            for program, name in ((options.old, "old"), (options.new, "new")):
                sides.append(exchange.Side(program, ["--backend", options.backend, *OPTIONS], folder, name))
            comparison = compare(sides, options)
        finally:
            ends = [side.stop() for side in sides]
    counts = ", ".join(f"{count} of {status}" for status, count in sorted(comparison.statuses.items()))
    print(f"statuses: {counts}; answers of shared launches: {comparison.shared[0]} old, {comparison.shared[1]} new; "
          f"{time.monotonic() - began:.0f} s")
    print(f"{comparison.requests} requests, {comparison.same} answers equal, {len(comparison.different)} differ")
    if any(ends):
        print(f"the daemons ended with the statuses {ends[0]} and {ends[1]}")
    sys.exit(1 if comparison.different or any(ends) or not comparison.requests else 0)


if __name__ == "__main__":
    main()
