"""The requests of tests/bench/same_answers.py: units of requests that are the same for the same seed."""

import random

from . import products


def units(kernels, backend):
    """All units, for the kernels {operation: names} of a daemon."""
    yield from products.units(kernels, backend)


def chosen(kernels, backend, seed, share, only):
    """A share of the units of the groups that have the text `only` in their name."""
    draw = random.Random(seed)
    return [unit for unit in units(kernels, backend) if draw.random() < share and only in unit.group]
