"""An I/O thread that has polled for the end of a product (--busy-poll-us) and now sleeps is woken when
the product has ended."""

import pathlib
import time

import requests

from daemon import PATIENCE_S

ROWS, DEPTH, PRODUCTS = 64, 2048, 40


def reads(task):
    """How often the thread has called read(), as it does for each message that wakes it."""
    line = next(line for line in (task / "io").read_text().splitlines() if line.startswith("syscr:"))
    return int(line.split()[1])


def test_a_thread_that_has_polled_is_woken(start):
    """The products take tens of milliseconds. A thread that sleeps before its request is suspended is not
    woken, but sleeps on for 10 ms. A thread that the system does not run until the product has ended has
    not slept, which happens to few products of some round."""
    daemon = start("--backend", "cpu", "--cpu-threads", "1", "--io-threads", "1",
                   "--bulk-connections", "0", "--busy-poll-us", "300")
    task = next(task for task in pathlib.Path(f"/proc/{daemon.pid}/task").iterdir()
                if (task / "comm").read_text().strip() == "io-0")
    with requests.Session() as session:
        for name, shape in (("A", f"{ROWS},{DEPTH}"), ("B", f"{DEPTH},{ROWS}")):
            stored = session.put(f"{daemon.url}/tensors/{name}?dtype=f32&shape={shape}",
                                 data=bytes(4 * ROWS * DEPTH), timeout=PATIENCE_S)
            assert stored.status_code == 201, stored.text
        deadline, woken = time.monotonic() + PATIENCE_S, 0
        while woken < 0.75 * PRODUCTS:
            assert time.monotonic() < deadline, f"woken by {woken} of {PRODUCTS} products"
            before = reads(task)
            for _ in range(PRODUCTS):
                answer = session.post(f"{daemon.url}/gemm?a=A&b=B&bias=1&kernel=naive", data=bytes(4 * ROWS),
                                      timeout=PATIENCE_S)
                assert answer.status_code == 200, answer.text
            woken = reads(task) - before
