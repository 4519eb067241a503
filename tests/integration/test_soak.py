"""10,000 mixed good and bad requests from 64 connections: no wrong byte, no leak."""

import itertools
import random
import threading
import time

import numpy as np
import pytest

from daemon import PATIENCE_S
from matrices import ACTS, OUTS, Problem, random_operands
from test_formats import NPY, RAW, SAFETENSORS, encode, parameters_for
from wire import Wire, exchange, request

REQUESTS, PART, CONNECTIONS, PINNED_MIB = 10_000, 2_000, 64, 512


def message(problem, operands, media_type):
    query = "&".join(f"{name}={value}" for name, value in
                     parameters_for(media_type, problem).items())
    body = encode(media_type, operands)
    return request("POST", f"/gemm?{query}", [("Content-Type", media_type),
                                              ("Content-Length", len(body))], body)


def good_requests(rng):
    """Every type, format and activation, from 1 x 1 x 1 to 300 x 200 x 250."""
    sizes = [(1, 1, 1), (3, 31, 65), (33, 2, 127), (64, 64, 64), (100, 1, 1000), (300, 200, 250)]
    for i, (dtype, outs) in enumerate(OUTS.items()):
        for j, out in enumerate(outs):
            for s, (m, n, k) in enumerate(sizes):
                act = "none" if out == "i32" else ACTS[(i + j + s) % len(ACTS)]
                problem = Problem(m, n, k, dtype=dtype, out=out, transa=s % 2 == 1,
                                  bias=s % 3 == 0, beta=s % 2, batch=1 + s % 2, act=act)
                yield message(problem, random_operands(problem, rng),
                              (RAW, NPY, SAFETENSORS)[(i + j + s) % 3])


def bad_requests():
    """What is refused, and with which status; some of them end their connection."""
    good = request("POST", "/gemm?m=2&n=2&k=2", [("Content-Length", 32)], bytes(32))
    yield good.replace(b"m=2", b"m=0"), 400
    yield good.replace(b"k=2", b"k=3"), 400
    yield good.replace(b"/gemm", b"/nosuch"), 404
    yield good.replace(b"POST", b"PUT"), 405
    yield good.replace(b"k=2", b"k=2&out=i32"), 422
    yield good.replace(b"Host:", b"Content-Type: text/plain\r\nHost:"), 415
    yield good.replace(b"Host:", b"Content-Length: 31\r\nHost:"), 400
    yield request("POST", "/gemm", [("Content-Type", NPY), ("Content-Length", 100)], bytes(100)), 400
    yield request("POST", "/gemm", [("Content-Type", SAFETENSORS), ("Content-Length", 100)],
                  b"\xff" * 100), 400
    yield good.replace(b"Length: 32", b"Length: x"), 400
    yield good.replace(b"Host", b"Guest"), 400
    yield good.replace(b"HTTP/1.1", b"HTTP/9.9"), 505
    yield request("POST", "/gemm?m=2&n=2&k=2", [("Transfer-Encoding", "chunked")],
                  b"8\r\nabcdefgh\r\nno size\r\n"), 400
    yield good[:-7], None  # leaves in the middle
    yield good, None  # leaves without its answer


class Client(threading.Thread):
    """One connection at a time, opened again where the daemon ended it."""

    def __init__(self, address, jobs, seed):
        super().__init__(daemon=True)
        self.address, self.jobs, self.random = address, jobs, random.Random(seed)
        self.wire, self.wrong, self.good = None, [], 0

    def ask(self, data):
        for _ in range(3):
            fresh = self.wire is None
            if fresh:
                self.wire = Wire(self.address)
            try:
                self.wire.send(data)
                answer = self.wire.receive()
            except (ConnectionResetError, BrokenPipeError):
                # An earlier bad request may have ended the connection; a fresh one has no excuse.
                self.drop()
                if fresh:
                    raise
                continue
            if answer.headers.get("connection", "").lower() == "close":
                self.drop()
            return answer
        raise ConnectionResetError("three times in a row")

    def drop(self):
        if self.wire:
            self.wire.socket.close()
        self.wire = None

    def run(self):
        try:
            while True:
                try:
                    data, status, expected = self.jobs.pop()
                except IndexError:
                    break
                if status is None:
                    with Wire(self.address) as leaver:
                        leaver.try_to_send(data)
                    continue
                answer = self.ask(data)
                if answer.status != status:
                    self.wrong.append(f"status {answer.status}, not {status}: {data[:80]!r}")
                elif expected is not None:
                    self.good += 1
                    if answer.body != expected:
                        self.wrong.append(f"other bytes than alone: {data[:120]!r}")
        except Exception as error:  # whatever it is, the test must see it
            self.wrong.append(f"{type(error).__name__}: {error}")
        finally:
            self.drop()


def soak(address, jobs):
    """Runs them all from CONNECTIONS connections; returns how many good answers were compared."""
    clients = [Client(address, jobs, seed) for seed in range(CONNECTIONS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join(600)
        assert not client.is_alive(), "a client still waits for its answer"
    wrong = [line for client in clients for line in client.wrong]
    assert not wrong, f"{len(wrong)} wrong, the first ones: {wrong[:5]}"
    return sum(client.good for client in clients)


def own_rss_bytes(daemon):
    """Resident memory but for the pool of pinned memory: that is taken whole at the start, and
    becomes resident page by page as bodies come to lie at new places."""
    resident, counts = 0, False
    with open(f"/proc/{daemon.pid}/smaps") as smaps:
        for line in smaps:
            if line.startswith("Size:"):
                counts = int(line.split()[1]) < PINNED_MIB * 1024
            elif line.startswith("Rss:") and counts:
                resident += int(line.split()[1]) * 1024
    return resident


def occupied(daemon):
    """What the daemon says it holds for requests."""
    values = (line.rpartition(" ") for line in
              daemon.session.get(f"{daemon.url}/metrics").text.splitlines())
    return {name: float(value) for name, _, value in values
            if name in ("gemmd_requests_waiting", "gemmd_requests_running", "gemmd_queue_bytes")}


def settle(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


@pytest.mark.slow
def test_soak(start, request):
    rng = np.random.default_rng(request.config.option.seed)
    daemon = start("--no-access-log", "--cpu-threads", "2", "--pinned-bytes", f"{PINNED_MIB}M")
    fds_at_start = daemon.descriptors()
    good = list(good_requests(rng))
    alone = []
    for data in good:
        answer = exchange(daemon.address, data)
        assert answer.status == 200, answer.body
        alone.append((data, 200, answer.body))
    mixture = [(data, status, None) for data, status in bad_requests()]

    chooser = random.Random(request.config.option.seed)

    def jobs(count):
        return [chooser.choice(mixture if chooser.random() < 0.3 else alone) for _ in range(count)]

    # The first part fills what fills once (thread stacks, the allocator's arenas). After it a leak grows in every part,
    # and what more connections at the same time take grows in some.
    compared = soak(daemon.address, jobs(PART))
    sizes = [own_rss_bytes(daemon)]
    for _ in range(REQUESTS // PART - 1):
        compared += soak(daemon.address, jobs(PART))
        sizes.append(own_rss_bytes(daemon))
    assert compared > REQUESTS // 2

    # Less than any structure a request could leave behind: 64 bytes for each of a part's.
    assert min(later - earlier for earlier, later in itertools.pairwise(sizes)) < 64 * PART, (
        f"RSS grew in every part: {sizes} bytes")
    daemon.session.close()
    assert settle(lambda: daemon.descriptors() <= fds_at_start), (
        f"{daemon.descriptors()} file descriptors, {fds_at_start} at the start")
    # Work whose client has left ends after its connection.
    settle(lambda: not any(occupied(daemon).values()))
    assert not any(occupied(daemon).values()), f"{occupied(daemon)} with nothing to do"
