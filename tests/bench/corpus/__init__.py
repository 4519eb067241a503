"""The requests of tests/bench/same_answers.py: units of requests that are the same for the same seed."""

import random

from . import crowds, forms, mistakes, operations, products, services, settings, shared_memory


def all_units(kernels, backend):
    """All units, for the kernels {operation: names} of a daemon."""
    for part in (services, products, operations, crowds, forms, mistakes, shared_memory, settings):
        yield from part.units(kernels, backend)
    yield from services.last_units()


def chosen(kernels, options):
    """A share of the units of the groups that have the text of the option --only in their name."""
    draw = random.Random(options.seed)
    return [unit for unit in all_units(kernels, options.backend)
            if draw.random() < options.share and options.only in unit.group]
