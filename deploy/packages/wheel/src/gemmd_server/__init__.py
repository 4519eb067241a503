"""Runs the programs gemmd and gemmctl that lie in this package, in place of the Python process."""

import os
import sys
from typing import NoReturn


def _execute(name: str) -> NoReturn:
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", name)
    os.execv(program, [name, *sys.argv[1:]])


def gemmd() -> NoReturn:
    _execute("gemmd")


def gemmctl() -> NoReturn:
    _execute("gemmctl")
