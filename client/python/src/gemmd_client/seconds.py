"""Times that callers give in seconds."""

from __future__ import annotations

LONGEST = (2**31 - 1) / 1000


def milliseconds(name: str, seconds: float) -> int:
    """Returns the whole milliseconds, at least 1, of a time that the caller passed as the argument `name`.
    ValueError: the time is none that the daemon takes."""
    if not 0 < seconds <= LONGEST:
        raise ValueError(f"{name} is {seconds}; it must be more than 0 and at most {LONGEST:.0f} seconds")
    return max(1, int(seconds * 1000))
