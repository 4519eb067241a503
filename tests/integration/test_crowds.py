"""More than there is room or time for: a crowd of tensors, and three times the load that the daemon
can take. GEMMD_TINY_TENSORS and GEMMD_OVERLOAD_SECONDS make them as large as one likes."""

import hashlib
import os
import threading
import time

import numpy as np
import pytest

from daemon import PATIENCE_S
from patience import wait_until
from test_soak import PINNED_MIB, own_rss_bytes
from wire import Wire, request

PAGE, SENT_TOGETHER = 4096, 200
OCTETS = ("Content-Type", "application/octet-stream")


def memory_of(daemon):
    lines = daemon.session.get(f"{daemon.url}/metrics", timeout=PATIENCE_S).text.splitlines()
    return {line.split()[0].removeprefix("gemmd_"): float(line.split()[1]) for line in lines
            if line.startswith(("gemmd_tensor_", "gemmd_pinned_memory_used", "gemmd_queue_"))
            and "{" not in line}


def pipeline(wire, requests):
    """The answers, in their order; not all are sent before the first is read."""
    for first in range(0, len(requests), SENT_TOGETHER):
        part = requests[first:first + SENT_TOGETHER]
        wire.send(b"".join(part))
        for _ in part:
            yield wire.receive()


@pytest.mark.slow
def test_a_crowd_of_tiny_tensors(start):
    """All that fit are there, by name and with their own bytes; one more is refused with the bytes
    that it needs; all that go give their memory back."""
    count = int(os.environ.get("GEMMD_TINY_TENSORS", 5000))
    daemon = start("--no-access-log", "--tensor-bytes", str(count * PAGE), "--pinned-bytes", "64M")
    names = [f"t{hashlib.sha1(str(i).encode()).hexdigest()[:12]}" for i in range(count)]

    def put(name, number):
        return request("PUT", f"/tensors/{name}?dtype=i8&shape=1,4",
                       [OCTETS, ("Content-Length", 4)], number.to_bytes(4, "little"))

    with Wire(daemon.address) as wire:
        puts = [put(name, i) for i, name in enumerate(names)]
        assert {answer.status for answer in pipeline(wire, puts)} == {201}
        (full,) = pipeline(wire, [put("one-more", 0)])
        assert full.status == 507 and b"4 KiB needed" in full.body, full.body
        assert memory_of(daemon)["tensor_names"] == count
        gets = [request("GET", f"/tensors/{name}") for name in names]
        for i, answer in enumerate(pipeline(wire, gets)):
            assert int.from_bytes(answer.body, "little") == i, names[i]
        listed, after = [], ""
        while after is not None:
            page = daemon.session.get(f"{daemon.url}/tensors", params={"after": after} if after else
                                      {}, timeout=PATIENCE_S).json()
            listed += [tensor["name"] for tensor in page["tensors"]]
            after = page["next"]
        assert listed == sorted(names)
    with Wire(daemon.address) as wire:
        deletes = [request("DELETE", f"/tensors/{name}") for name in names]
        assert {answer.status for answer in pipeline(wire, deletes)} == {204}
    assert memory_of(daemon)["tensor_names"] == 0
    # Memory is given back when the last answer with the tensor's bytes is sent.
    wait_until(lambda: memory_of(daemon)["tensor_memory_used_bytes"] == 0, "the memory of all tensors")


@pytest.mark.slow
def test_overload(start, rng):
    """Clients that never pause, more than three times as many as there are places: each answer is
    the right product or a refusal that says when to come back, none is lost, and memory stays."""
    seconds = float(os.environ.get("GEMMD_OVERLOAD_SECONDS", 3))
    daemon = start("--no-access-log", "--cpu-threads", "1", "--queue-requests", "8",
                   "--pinned-bytes", f"{PINNED_MIB}M")
    a, b = (rng.integers(-8, 8, (150, 150)).astype(np.float32) for _ in range(2))
    right = (a @ b).tobytes()  # whole numbers, so exactly
    body = a.tobytes() + b.tobytes()
    data = request("POST", "/gemm?m=150&n=150&k=150", [OCTETS, ("Content-Length", len(body))], body)
    end = threading.Event()
    computed, refused, wrong, grown = [], [], [], []
    answered = [0] * 30

    def client(number):
        mine = [0, 0]
        try:
            with Wire(daemon.address) as wire:
                while not end.is_set():
                    wire.send(data)
                    answer = wire.receive()
                    answered[number] += 1
                    if answer.status == 200:
                        mine[0] += 1
                        assert answer.body == right, "another product"
                    else:
                        mine[1] += 1
                        assert answer.status == 429, answer.body
                        assert 1 <= int(answer.headers["retry-after"]) <= 60
        except Exception as error:  # whatever it is, the test must see it
            wrong.append(f"{type(error).__name__}: {error}")
        computed.append(mine[0])
        refused.append(mine[1])

    clients = [threading.Thread(target=client, args=(i,), daemon=True) for i in range(len(answered))]
    for thread in clients:
        thread.start()
    for _ in range(2):
        before = list(answered)
        time.sleep(seconds / 2)
        # The memory of a connection that the daemon has not served yet would look like a leak.
        wait_until(lambda before=before: wrong or all(new > old for new, old in zip(answered, before)),
                   "an answer for each client")
        grown.append(own_rss_bytes(daemon))
    end.set()
    for thread in clients:
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "a client still waits for its answer"
    assert not wrong, wrong[:5]
    assert sum(computed) > 0 and sum(refused) > 0
    text = daemon.session.get(f"{daemon.url}/metrics", timeout=PATIENCE_S).text
    assert f'gemmd_queue_refused_total{{limit="queue-requests"}} {sum(refused)}\n' in text
    assert grown[1] - grown[0] < 4 << 20, f"{grown[1] - grown[0]} bytes more"

    def is_idle():
        held = memory_of(daemon)
        return not held["queue_requests"] and not held["pinned_memory_used_bytes"]

    wait_until(is_idle, lambda: f"{memory_of(daemon)} is held")
