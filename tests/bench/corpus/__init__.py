"""The requests of tests/bench/same_answers.py: units of requests that are the same for the same seed."""

import random

from . import crowds, mistakes, operations, products, services


def units(kernels, backend):
    """All units, for the kernels {operation: names} of a daemon."""
    for part in (services, products, operations, crowds, mistakes):
        yield from part.units(kernels, backend)
    yield from services.last_units()


def chosen(kernels, backend, seed, share, only):
    """A share of the units of the groups that have the text `only` in their name."""
    draw = random.Random(seed)
    return [unit for unit in units(kernels, backend) if draw.random() < share and only in unit.group]
