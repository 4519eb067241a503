#!/usr/bin/env python3
"""Compares the answers of two builds of the daemon: statuses, headers and every byte of the bodies.

    tests/bench/same_answers.py OLD_GEMMD NEW_GEMMD [--backend cuda] [--seed N] [--share 0.1] [--only GROUP] [--show]

Both daemons run at the same time with the same options, and get the same requests, of which
tests/bench/corpus draws thousands from tables of types, shapes, kernels, formats and mistakes. The requests
are sent one at a time, but for those that are meant to meet in the queue. After most of them, further daemons
with low limits, with tokens and with several devices get requests of their own (tests/bench/corpus/settings.py).
What may differ between two answers of one build is masked (tests/bench/corpus/masks.py): the script finds no
difference if both builds are the same program. The exit status is 1 if an answer differs or a daemon fails.
Needs NumPy.
"""

import argparse
import collections
import json
import sys
import tempfile
import time

import corpus
from corpus import exchange, masks, settings

SHOWN = 2  # differences of a unit's answers of one status


def excerpt(body, at=0):
    """Some of a body, around a byte."""
    begin = max(0, at - 60)
    return f"{'…' if begin else ''}{body[begin:begin + 160]!r}"


def first_difference(old, new):
    """What differs between two comparable answers, as a sentence."""
    if old[0] != new[0]:
        return f"status {old[0]} became {new[0]}: {excerpt(old[2])} became {excerpt(new[2])}"
    said = [f"status {old[0]}"]
    if old[1] != new[1]:
        changed = [pair for pair in old[1] if pair not in new[1]], [pair for pair in new[1] if pair not in old[1]]
        said.append(f"headers {changed[0]} became {changed[1]}" if any(changed)
                    else f"the order of headers {old[1]} became {new[1]}")
    old, new = old[2], new[2]
    if old != new:
        at = next((i for i, pair in enumerate(zip(old, new)) if pair[0] != pair[1]), min(len(old), len(new)))
        count = sum(a != b for a, b in zip(old, new)) + abs(len(old) - len(new))
        said.append(f"body from byte {at}, {count} of {len(old)} bytes: {excerpt(old, at)} became {excerpt(new, at)}")
    return "; ".join(said)


class Comparison:
    """Sends units to both daemons, and counts the answers that differ."""

    def __init__(self, show):
        self.sides, self.show = [], show
        self.requests = self.same = self.crowds = 0
        self.different = collections.Counter()  # by unit and status
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
        kind = f"{unit.group}, {unit.name}, {old[0]}"
        self.different[kind] += 1
        if self.different[kind] <= SHOWN or self.show:
            print(f"DIFFERENT {said}", flush=True)


def kernels_of(side):
    """{operation: names of its kernels}"""
    found = collections.defaultdict(list)
    for kernel in json.loads(side.get("/info"))["kernels"]:
        found[kernel["op"]].append(kernel["name"])
    return found


def compare(comparison, options, name, setting, folder):
    """Starts both daemons with the options of a setting, and sends the units of the setting. Returns the daemons'
    statuses, and how many units each setting has."""
    try:
        for program, letter in ((options.old, "a"), (options.new, "b")):
            comparison.sides.append(exchange.Side(program, ["--backend", options.backend, *setting.options], folder,
                                                  letter, setting.headers))
        for side in comparison.sides:
            side.await_ready()
        chosen = corpus.chosen(kernels_of(comparison.sides[0]), options)
        for number, unit in enumerate(unit for unit in chosen if unit.setting == name):
            comparison.unit(unit, options.seed, number % 2)
    finally:
        ends = [side.stop() for side in comparison.sides]
        comparison.sides.clear()
    return ends, collections.Counter(unit.setting for unit in chosen)


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
    comparison, ends = Comparison(options.show), []
    with tempfile.TemporaryDirectory() as folder:
        units = {"plain": 1}  # how many units each setting has
        for name, setting in settings.settings(options.backend, folder).items():
            if not units.get(name):
                continue
            try:
                ended, units = compare(comparison, options, name, setting, folder)
                ends += ended
            except RuntimeError as error:  # a daemon does not start; the other settings are compared all the same
                print(f"setting {name}: {error}", flush=True)
                ends.append("not started")
    counts = ", ".join(f"{count} of {status}" for status, count in sorted(comparison.statuses.items()))
    print(f"statuses: {counts}; answers of shared launches: {comparison.shared[0]} old, {comparison.shared[1]} new; "
          f"{time.monotonic() - began:.0f} s")
    for kind, count in comparison.different.items():
        print(f"{count} differ: {kind}")
    print(f"{comparison.requests} requests, {comparison.same} answers equal, {comparison.different.total()} differ")
    if any(ends):
        print(f"the daemons ended with the statuses {ends}")
    sys.exit(1 if comparison.different or any(ends) or not comparison.requests else 0)


if __name__ == "__main__":
    main()
