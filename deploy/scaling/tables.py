#!/usr/bin/env python3
"""Writes the tables of deploy/SCALING.md, each between two comments that name the table.

    deploy/scaling/tables.py                writes all tables; takes some minutes on two cores
    deploy/scaling/tables.py --most 100     only prints the rows of up to 100 daemons

Needs Python 3.11 and NumPy.
"""

import argparse
import concurrent.futures
import pathlib
import re

import capacity
import placement

DOCUMENT = pathlib.Path(__file__).resolve().parents[1] / "SCALING.md"
SEED = 20261123
DAEMONS = (10, 100, 1000, 10000)
FACTORS = (1.1, 1.25, 1.5, 2.0, None)
POPULARITIES = ("uniform", "Zipf")
STEPS = (1, 5, 10, 25)  # percent of the daemons that a rollout restarts at a time


def balance_row(case):
    daemons, popularity, factor = case
    o = placement.simulate(daemons, popularity, factor, SEED)
    return (f"| {daemons:,} | {popularity} | {factor or 'none'} | {o.hottest:.2f} | {o.p99:.2f} | "
            f"{o.hit_rate:.3f} | {o.copies:.2f} | {o.most_copies:,} | {o.most_held:.2f} | "
            f"{o.rollout_uploads:.2f} | {o.rack_uploads:.2f} | {o.rack_most:.2f} |")


def balance_table(most):
    yield ("| daemons | popularity | factor | hottest / mean | p99 / mean | hit rate | copies of a tensor "
           "| most copies | fullest daemon | rollout | rack | rack, busiest |")
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|"
    cases = [(daemons, popularity, factor) for daemons in DAEMONS if daemons <= most
             for popularity in POPULARITIES for factor in FACTORS]
    with concurrent.futures.ProcessPoolExecutor() as executor:
        yield from executor.map(balance_row, cases)


def rollout_table(most):
    yield "| daemons | at a time | steps | uploads of each tensor | busiest daemon in a step |"
    yield "|---|---|---|---|---|"
    for daemons in DAEMONS:
        for percent in STEPS:
            at_a_time = daemons * percent // 100
            if at_a_time < 1 or daemons > most:
                continue
            outcome = placement.roll_out(daemons, at_a_time, SEED)
            yield (f"| {daemons:,} | {at_a_time:,} ({percent} %) | {outcome.steps} | "
                   f"{outcome.uploads:.2f} | {outcome.busiest:.2f} |")


def tables(most):
    """Name and lines of every table."""
    return {"limits": list(capacity.limits_table()), "sources": list(capacity.sources_table()),
            "shared memory": list(capacity.shared_table()),
            "intensity": list(capacity.intensity_table()),
            "cost": list(capacity.cost_table(price=2.0, use=0.6)),
            "upload": list(capacity.upload_table()), "balance": list(balance_table(most)),
            "rollout": list(rollout_table(most))}


def between(name):
    return re.compile(rf"(<!-- table: {name} -->\n).*?(<!-- end: {name} -->)", re.DOTALL)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=int, help="daemons at most; prints the tables only")
    most = parser.parse_args().most
    made = tables(most or DAEMONS[-1])
    if most is not None:
        for name, lines in made.items():
            print(f"<!-- table: {name} -->", *lines, sep="\n")
        return
    text = DOCUMENT.read_text(encoding="utf-8")
    for name, lines in made.items():
        text, count = between(name).subn(
            lambda match, lines=lines: match[1] + "\n".join(lines) + "\n" + match[2], text)
        if count != 1:
            raise SystemExit(f"{DOCUMENT}: no place for the table '{name}'")
    DOCUMENT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
