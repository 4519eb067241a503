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
class Shared:
    """Shared memory that a request uses, of one of the kinds in exchange.MEMORY: what the client writes to it before,
    as (offset, bytes), and the offset and the length of what it reads from it after the answer."""

    kind: str
    written: list
    read: tuple


@dataclass
class Request:
    """One request. In `path`, {location} stands for the header Location of the last answer that had one, and in
    `body` {key} for the name of the daemon's own shared memory object. `parts` are the sizes of the chunks of a
    body that is sent chunked; `raw` is sent in place of everything else. `id`: the X-Request-Id that the request
    has; None: the client sends none."""

    method: str
    path: str
    body: bytes = b""
    headers: dict = field(default_factory=dict)
    parts: tuple = ()
    raw: bytes = None
    id: str = ""
    shared: Shared = None

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
    """`make` takes a Draw and yields requests, or lists of requests that are sent at the same time. `setting`: the
    name of the options in corpus/settings.py that the daemons run with."""

    group: str
    name: str
    make: Callable
    setting: str = "plain"

    def requests(self, seed):
        return self.make(Draw(f"{seed} {self.group} {self.name}"))
