"""Rows of many requests on one resident B, computed in one launch: the bytes of each are those it
has alone, whoever else waits, leaves or is late."""

import threading

import numpy as np
import pytest
import safetensors.numpy

from daemon import PATIENCE_S
from matrices import NUMPY, random_array
from problem import assert_problem
from scaling import ScaledProblem, assert_scaled, random_scaled
from test_leaving import OCTETS, endless, metrics, wait_for, wait_until_idle
from test_tensors import Tensors
from wire import Wire, request

N, K = 200, 300
DTYPE = "bf16"
# The daemons of these tests use the CPU backend on machines with a GPU too: no product that the limits
# allow keeps a GPU busy for as long.


def rows(m, a, b="b", kernel="tiled", query=""):
    """A request of m rows."""
    return request("POST", f"/gemm?m={m}&b={b}&dtype={DTYPE}&kernel={kernel}{query}",
                   [OCTETS, ("Content-Length", len(a))], a)


def random_rows(rng, m):
    return random_array(rng, DTYPE, (m, K)).tobytes()


@pytest.fixture
def daemon(start, rng):
    """With two resident B of one shape, `b` and `other`."""
    daemon = start("--backend", "cpu", "--cpu-threads", "2", "--no-cpu-pauses", "--io-threads", "2")
    daemon.tensors = Tensors(daemon.url)
    for name in ("b", "other"):
        assert daemon.tensors.put(name, random_array(rng, DTYPE, (K, N))).status_code == 201
    yield daemon
    wait_until_idle(daemon)


class Clients:
    """Requests that wait while the device is busy, each on a connection of its own. The device is busy
    with a product whose client leaves when the answers are asked for."""

    def __init__(self, daemon, requests):
        self.wires = [Wire(daemon.address)]
        self.wires[0].send(endless())
        wait_for(daemon, requests_running=1)
        for data in requests:
            self.wires.append(Wire(daemon.address))
            self.wires[-1].send(data)
        wait_for(daemon, requests_running=1, requests_waiting=len(requests))

    def receive(self):
        """All answers."""
        self.wires[0].socket.close()
        return [wire.receive() for wire in self.wires[1:]]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for wire in self.wires:
            wire.socket.close()


def alone(daemon, data):
    """The bytes of a request with nobody beside it."""
    with Wire(daemon.address) as wire:
        wire.send(data)
        answer = wire.receive()
    assert answer.status == 200, answer.body
    assert answer.headers["gemmd-batch"] == "1"
    return answer.body


def assert_answers(answers, expected, batches):
    for i, (answer, body, batch) in enumerate(zip(answers, expected, batches, strict=True)):
        assert answer.status == 200, answer.body
        assert answer.body == body, f"request {i} of {len(answers)} has other bytes than alone"
        assert int(answer.headers["gemmd-batch"]) == batch, f"request {i}"


def test_those_that_wait_share_a_launch(daemon, rng):
    requests = [rows(m, random_rows(rng, m)) for m in [1] * 20 + [2, 3, 64, 1, 128]]
    expected = [alone(daemon, data) for data in requests]
    before = metrics(daemon)
    with Clients(daemon, requests) as clients:
        answers = clients.receive()
    assert_answers(answers, expected, [25] * 25)
    assert len({answer.headers["server-timing"].split("kernel;")[1].split(",")[0]
                for answer in answers}) == 1, "one launch, one time"
    after = metrics(daemon)
    # A launch that is ended early, as that of the product whose client leaves, is not counted.
    assert after["gemmd_batch_size_count"] - before["gemmd_batch_size_count"] == 1
    assert after["gemmd_batch_size_sum"] - before["gemmd_batch_size_sum"] == 25


def test_what_differs_is_apart(daemon, rng):
    """Another B, kernel, type, activation or factor, a bias, many rows: launches of their own."""
    few, many = random_rows(rng, 2), random_rows(rng, 129)
    c0 = random_array(rng, DTYPE, (2, N)).tobytes()
    bias = random_array(rng, DTYPE, (N,)).tobytes()
    requests = [
        rows(2, few), rows(2, few, b="other"), rows(2, few, kernel="naive"),
        rows(2, few, query="&out=f32"), rows(2, few, query="&act=relu"),
        rows(2, few, query="&alpha=-1"), rows(2, few + c0, query="&beta=1"),
        rows(2, few + bias, query="&bias=1"), rows(2, few + bias, query="&bias=1"),
        rows(2, few, kernel="openblas"), rows(2, few, kernel="openblas"),
        rows(129, many), rows(129, many)]
    expected = [alone(daemon, data) for data in requests]
    with Clients(daemon, 2 * requests) as clients:
        answers = clients.receive()
    assert_answers(answers, 2 * expected, 2 * ([2] * 7 + [1] * 6))


@pytest.mark.parametrize("dtype, scales", [("f8_e4m3", "rowcol"), ("f8_e4m3", "block"),
                                           ("i8", "rowcol")])
def test_rows_with_scales_share_a_launch(dtype, scales, daemon, rng):
    """Rows with scales of their own on a weight that has been uploaded with its scales."""
    case = ScaledProblem(30, N, K, dtype=dtype, scales=scales, transb=True)
    scaled = random_scaled(case, rng)
    body = safetensors.numpy.save({"tensor": np.ascontiguousarray(scaled.operands.b[0]),
                                   "scale": np.ascontiguousarray(scaled.b_scale[0])})
    headers = {"Content-Type": "application/vnd.safetensors"}
    assert daemon.tensors.send("PUT", "scaled", body, headers).status_code == 201
    requests, first = [], 0
    for m in (1, 1, 3, 1, 9, 15):
        part = slice(first, first + m)
        data = scaled.operands.a[0][part].tobytes() + scaled.a_scale[0][part].tobytes()
        requests.append(request("POST", f"/gemm?m={m}&b=scaled&transb=1&kernel=tiled&scales={scales}",
                                [OCTETS, ("Content-Length", len(data))], data))
        first += m
    expected = [alone(daemon, data) for data in requests]
    assert_scaled(case, scaled, b"".join(expected))
    with Clients(daemon, requests) as clients:
        answers = clients.receive()
    assert_answers(answers, expected, [6] * 6)


def test_max_batch_bounds_a_stack(start, rng):
    daemon = start("--backend", "cpu", "--cpu-threads", "2", "--no-cpu-pauses", "--max-batch", "4")
    assert Tensors(daemon.url).put("b", random_array(rng, DTYPE, (K, N))).status_code == 201
    requests = [rows(1, random_rows(rng, 1)) for _ in range(10)]
    expected = [alone(daemon, data) for data in requests]
    with Clients(daemon, requests) as clients:
        answers = clients.receive()
    assert [answer.body for answer in answers] == expected
    assert sorted(int(answer.headers["gemmd-batch"]) for answer in answers) == [2] * 2 + [4] * 8


def test_priorities_rule_who_comes_first(start, rng):
    daemon = start("--backend", "cpu", "--cpu-threads", "2", "--no-cpu-pauses", "--max-batch", "3")
    assert Tensors(daemon.url).put("b", random_array(rng, DTYPE, (K, N))).status_code == 201
    priorities = [0, 4, 9, 9, 1]
    requests = [rows(1, random_rows(rng, 1), query=f"&priority={p}") for p in priorities]
    expected = [alone(daemon, data) for data in requests]
    with Clients(daemon, requests) as clients:
        assert_answers(clients.receive(), expected, [2, 3, 3, 3, 2])


def test_those_that_leave_or_are_late(daemon, rng):
    requests = [rows(1, random_rows(rng, 1)) for _ in range(12)]
    expected = [alone(daemon, data) for data in requests]
    with Clients(daemon, requests) as clients:
        for wire in clients.wires[1:7]:
            wire.socket.close()
        wait_for(daemon, requests_waiting=6, client_gone_total=6)
        with Wire(daemon.address) as late:
            late.send(rows(1, random_rows(rng, 1), query="&timeout_ms=1"))
            assert_problem(late.receive(), 504, "deadline passed while the request was queued")
        del clients.wires[1:7]
        assert_answers(clients.receive(), expected[6:], [6] * 6)


def test_a_tensor_deleted_and_replaced_meanwhile(daemon, rng):
    """What was accepted has its B; what comes later has the new one, though the name is the same."""
    requests = [rows(1, random_rows(rng, 1)) for _ in range(5)]
    expected = [alone(daemon, data) for data in requests]
    replacement = random_array(rng, DTYPE, (K, N))
    with Clients(daemon, requests) as clients:
        assert daemon.tensors.send("DELETE", "b").status_code == 204
        with Wire(daemon.address) as wire:
            wire.send(requests[0])
            assert_problem(wire.receive(), 404, field="b")
        put = threading.Thread(target=daemon.tensors.put, args=("b", replacement))
        put.start()
        wait_for(daemon, requests_waiting=6)  # it waits for the device, too
        assert_answers(clients.receive(), expected, [5] * 5)
        put.join(PATIENCE_S)
        assert not put.is_alive()
    changed = [alone(daemon, data) for data in requests]
    assert all(one != other for one, other in zip(expected, changed))
    with Clients(daemon, requests) as clients:
        assert_answers(clients.receive(), changed, [5] * 5)


def test_a_result_may_stay(daemon, rng):
    """store= writes into tensor memory, also from within a stack."""
    a = [random_rows(rng, 3) for _ in range(4)]
    expected = [alone(daemon, rows(3, one)) for one in a]
    with Clients(daemon, [rows(3, one, query=f"&store=c{i}") for i, one in enumerate(a)]) as clients:
        for answer in clients.receive():
            assert answer.status == 201
    for i, body in enumerate(expected):
        assert daemon.tensors.get(f"c{i}").content == body


def test_a_check_of_each(daemon, rng):
    requests = [rows(2, random_rows(rng, 2), query="&verify=freivalds") for _ in range(5)]
    expected = [alone(daemon, data) for data in requests]
    with Clients(daemon, requests) as clients:
        answers = clients.receive()
    assert_answers(answers, expected, [5] * 5)
    for answer in answers:
        assert answer.headers["gemmd-verify"].startswith("pass")


def test_under_load(daemon, rng, instrumented):
    """Many requests of all sorts at once have the same bytes, whichever requests share a launch."""
    sorts = [rows(m, random_rows(rng, m), b=b, kernel=kernel, query=f"&priority={m % 10}")
             for m in (1, 2, 7, 130) for b in ("b", "other") for kernel in ("tiled", "naive", "auto")]
    whole = random_array(rng, DTYPE, (40, K)).tobytes(), random_array(rng, DTYPE, (K, N)).tobytes()
    sorts.append(request("POST", f"/gemm?m=40&n={N}&k={K}&dtype={DTYPE}",
                         [OCTETS, ("Content-Length", sum(map(len, whole)))], b"".join(whole)))
    expected = [alone(daemon, data) for data in sorts]
    wrong, batches = [], []
    turns = 10 if instrumented else 60

    def client(number):
        with Wire(daemon.address) as wire:
            for i in range(turns):
                sort = (number * 7 + i) % len(sorts)
                wire.send(sorts[sort])
                answer = wire.receive()
                batches.append(int(answer.headers.get("gemmd-batch", 0)))
                if answer.body != expected[sort]:
                    wrong.append((sort, answer.status))

    clients = [threading.Thread(target=client, args=(number,)) for number in range(24)]
    with Wire(daemon.address) as blocker:
        blocker.send(endless())
        wait_for(daemon, requests_running=1)
        for thread in clients:
            thread.start()
        wait_for(daemon, requests_waiting=len(clients))  # of which some can share a launch
    for thread in clients:
        thread.join()
    assert len(batches) == 24 * turns
    assert not wrong
    assert max(batches) > 1, "nothing was ever stacked"


def test_info_tells_the_memory(start):
    daemon = start("--device-bytes", "64M")
    device = daemon.session.get(f"{daemon.url}/info", timeout=PATIENCE_S).json()["devices"][0]
    assert device["stack_memory_bytes"] == 2 << 20
    assert device["memory_capacity_bytes"] == (64 - 2 * 2) << 20
    daemon = start("--device-bytes", "64M", "--tensor-bytes", "0")
    device = daemon.session.get(f"{daemon.url}/info", timeout=PATIENCE_S).json()["devices"][0]
    assert device["stack_memory_bytes"] == 0
    assert device["memory_capacity_bytes"] == 64 << 20
