"""Progress bars of tqdm for uploads, downloads and jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

DELAY_SECONDS = 0.5  # What takes less shows no bar.
_ASK_SECONDS = 1.0  # between two questions for a job's state
PIECE_BYTES = 1 << 20  # that are sent or received before a bar moves


class Progress:
    """Shows bars if they are wanted, and nothing otherwise. ImportError: bars are wanted, and there is no tqdm."""

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted
        if wanted:
            try:
                self._auto: Any = import_module("tqdm.auto")
            except ImportError as error:
                raise ImportError("progress is True, and the bars are those of the package tqdm, which is not "
                                  "installed") from error

    @contextmanager
    def _bar(self, **options: Any) -> Iterator[Any]:
        with self._auto.tqdm(leave=False, delay=DELAY_SECONDS, **options) as bar:
            yield bar

    @contextmanager
    def transfer(self, title: str, total_bytes: int) -> Iterator[Callable[[int], Any]]:
        """Yields a function to call with the number of bytes that were transferred."""
        if not self.wanted or not total_bytes:
            yield lambda count: None
            return
        with self._bar(desc=title, total=total_bytes, unit="B", unit_scale=True, unit_divisor=1024) as bar:
            yield bar.update

    @contextmanager
    def waiting(self, title: str) -> Iterator[Callable[[str], Any]]:
        """Yields a function to call with the state of what is waited for."""
        if not self.wanted:
            yield lambda state: None
            return
        with self._bar(bar_format=f"{title}: {{desc}}{{elapsed}}") as bar:
            yield bar.set_description

    def ask_seconds(self, longest: float) -> float:
        """Returns how long one question for the state may take, if it may take `longest` without bars."""
        return min(longest, _ASK_SECONDS) if self.wanted else longest
