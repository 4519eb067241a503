"""What the corpus consists of: units, which are lists of requests that belong together.

The requests of a unit are sent in order. They depend on the seed and on the unit's name alone, so that
a part of the corpus has the same requests as the whole.
"""

import random
from dataclasses import dataclass, field
from typing import Callable

import numpy as np

from serving import bodies

OCTETS = "application/octet-stream"


@dataclass
class Request:
    """One request. In `path`, {location} stands for the header Location of the last answer that had one.
    `parts` are the sizes of the chunks of a body that is sent chunked; `raw` is sent in place of everything
    else. `id`: the X-Request-Id that the request has; None: the client sends none."""

    method: str
    path: str
    body: bytes = b""
    headers: dict = field(default_factory=dict)
    parts: tuple = ()
    raw: bytes = None
    id: str = ""

    def __str__(self):
        named = " ".join(f"{name}: {value}" for name, value in self.headers.items())
        return f"{self.method} {self.path[:300]} [{len(self.body)} bytes] {named[:300]}"


class Draw(random.Random):
    """Random choices and random operands of one unit."""

    def __init__(self, seed):
        super().__init__(seed)
        self.numbers = np.random.default_rng(self.getrandbits(64))

    def operands(self, dtype, shape):
        return bodies.operands(dtype, int(np.prod(shape)), self.numbers)

    def scales(self, shape):
        return self.numbers.uniform(0.01, 2, int(np.prod(shape))).astype("<f4").tobytes()

    def likely(self, share):
        return self.random() < share


@dataclass
class Unit:
    """`make` takes a Draw and yields requests, or lists of requests that are sent at the same time."""

    group: str
    name: str
    make: Callable

    def requests(self, seed):
        return self.make(Draw(f"{seed} {self.group} {self.name}"))
