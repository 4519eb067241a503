"""Waiting for what must happen sooner or later, on a machine of any speed and load."""

import time

# How long a thing that must happen may take, on a loaded machine under a sanitizer. Nothing is
# measured by it: a test that passes does not wait for it.
PATIENCE_S = 60


def wait_until(condition, what, pause_s=0.02):
    """Calls `condition` until it gives something true, and returns that. `what` is what the test waits
    for, as a text or as a function that tells how far it has come."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, what() if callable(what) else f"waited for {what}"
        time.sleep(pause_s)
    return found
