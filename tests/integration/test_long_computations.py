"""Requests with few bytes and many operations: the limit on them, their share of the device, and the
device that goes on at once when nobody waits for their results any more."""

import select
import time

import numpy as np
import pytest
from safetensors.numpy import save

from daemon import PATIENCE_S, Daemon
from memory import Connection, Memory
from oip import Input, infer
from test_leaving import begin_ms, metrics, wait_for, wait_until_idle
from wire import Wire, exchange, request

OCTETS = ("Content-Type", "application/octet-stream")
GOOD = request("POST", "/gemm?m=2&n=2&k=2", [OCTETS, ("Content-Length", 32)],
               np.arange(8, dtype=np.float32).tobytes())
RIGHT = np.array([6, 7, 26, 31], np.float32).tobytes()


def gemm(m, n, k, query="", headers=(), batch=1):
    length = 2 * batch * (m * k + k * n)
    return request("POST", f"/gemm?m={m}&n={n}&k={k}&batch={batch}&dtype=bf16{query}",
                   [OCTETS, ("Content-Length", length), *headers], bytes(length))


def attention(positions, width, query="", headers=()):
    length = 2 * 3 * positions * width
    return request("POST", f"/attention?heads=1&sq={positions}&d={width}&dtype=f16{query}",
                   [OCTETS, ("Content-Length", length), *headers], bytes(length))


def conv2d(side, taps, filters, query="", headers=()):
    length = 2 * (side * side + filters * taps * taps)
    return request("POST", f"/conv2d?channels=1&height={side}&width={side}&filters={filters}"
                   f"&filter_h={taps}&filter_w={taps}&padding=same&dtype=bf16{query}",
                   [OCTETS, ("Content-Length", length), *headers], bytes(length))


# Each takes minutes, more than PATIENCE_S: on two threads of a CPU, and on a GPU. No product that
# the default limits allow takes a GPU as long.
LONG = {
    "cpu": {
        "attention": lambda query: attention(400_000, 1, query),
        "attention_naive": lambda query: attention(400_000, 1, query + "&kernel=naive"),
        "gemm_naive": lambda query: gemm(16384, 16384, 320, query + "&kernel=naive"),
        "gemm_tiled": lambda query: gemm(16384, 16384, 1600, query + "&kernel=tiled"),
        "conv2d": lambda query: conv2d(1024, 256, 256, query),
        "conv2d_naive": lambda query: conv2d(1024, 64, 128, query + "&kernel=naive"),
    },
    "cuda": {
        "attention": lambda query: attention(15_000_000, 1, query),
        "attention_naive": lambda query: attention(15_000_000, 1, query + "&kernel=naive"),
    },
}
NAMES = LONG["cpu"].keys()


@pytest.fixture(scope="module")
def daemon(gemmd):
    with_two = Daemon(gemmd, "--cpu-threads", "2", "--timeout", "600s")
    try:
        with_two.wait_until_listening()
        with_two.wait_until_ready()
        with_two.backend = with_two.session.get(with_two.url + "/info").json()["devices"][0]["backend"]
        yield with_two
        with_two.stop()
    finally:
        with_two.close()


def long_request(daemon, name, query=""):
    if name not in LONG[daemon.backend]:
        pytest.skip("takes a GPU seconds")
    return LONG[daemon.backend][name](query)


@pytest.mark.parametrize("name", NAMES)
def test_the_device_goes_on_after_a_deadline(daemon, name):
    answer = exchange(daemon.address, long_request(daemon, name, "&timeout_ms=1000"))
    assert answer.status == 504
    assert exchange(daemon.address, GOOD).body == RIGHT
    wait_until_idle(daemon)


@pytest.mark.parametrize("name", NAMES)
def test_the_device_goes_on_after_a_client_has_left(daemon, name):
    with Wire(daemon.address) as wire:
        wire.send(long_request(daemon, name))
        wait_for(daemon, requests_running=1)
    assert exchange(daemon.address, GOOD).body == RIGHT
    wait_until_idle(daemon)


def test_the_device_goes_on_after_a_job_was_cancelled(daemon):
    positions = 400_000 if daemon.backend == "cpu" else 15_000_000
    job = attention(positions, 1, headers=[("Prefer", "respond-async")])
    path = exchange(daemon.address, job).headers["location"]
    wait_for(daemon, requests_running=1)
    assert daemon.session.delete(daemon.url + path).json()["state"] == "cancelled"
    assert exchange(daemon.address, GOOD).body == RIGHT
    wait_until_idle(daemon)


def test_a_batch_stops_between_its_products(daemon):
    """Each product is small enough to be computed by one thread."""
    answer = exchange(daemon.address,
                      gemm(1, 1, 1, "&kernel=naive&timeout_ms=1", batch=1_000_000))
    assert answer.status == 504
    assert exchange(daemon.address, GOOD).body == RIGHT
    wait_until_idle(daemon)


# A row of zeros, and what it is reduced to. Each takes a thread seconds.
ROWS = {
    "softmax": (64 << 20, 2, b""),
    "reduce": (128 << 20, 4, np.log(np.float32(128 << 20)).tobytes()),
}


@pytest.mark.parametrize("operation", ROWS)
def test_one_long_row_is_not_computed_to_its_end(operation, start, tmp_path):
    """The memory that the client shares for the result shows whether it was computed."""
    elements, last_bytes, complete = ROWS[operation]
    daemon = start("--backend", "cpu", "--cpu-threads", "1", "--shm-bytes", "1G", "--timeout", "600s",
                   ready=False, listen=("127.0.0.1:0", f"unix:{tmp_path / 's'}"))
    daemon.wait_until_listening(2).wait_until_ready()
    x_bytes = 2 * elements
    y_bytes = x_bytes if operation == "softmax" else 4
    more = "" if operation == "softmax" else "&op=logsumexp&out=f32"
    poison = b"\xff" * last_bytes
    with Memory(x_bytes + y_bytes) as memory:
        # A client that leaves too late, because it is held up itself, leaves again.
        deadline = time.monotonic() + PATIENCE_S
        while True:
            memory.map[-last_bytes:] = poison
            with Connection(daemon.addresses[1], [memory.fd]) as connection:
                connection.request("POST", f"/{operation}?shape={elements}&dtype=bf16&kernel=naive{more}",
                                   headers={"Gemmd-Memory": f"x=0, y={x_bytes}"})
                while metrics(daemon)["gemmd_requests_running"] != 1:
                    if select.select([connection.sock], [], [], 0.01)[0]:
                        break
            wait_for(daemon, connections=1)
            wait_until_idle(daemon)
            last = memory.map[-last_bytes:]
            if last != complete if complete else last == poison:
                break
            assert time.monotonic() < deadline, "the row is computed to its end"
    wait_for(daemon, client_gone_total=1)


def test_an_early_end_is_no_error_of_the_device(daemon):
    assert wait_for(daemon, device_errors_total=0)


@pytest.fixture(scope="module")
def limited(gemmd):
    one = Daemon(gemmd, "--max-work", "1000000")
    try:
        one.wait_until_listening()
        one.wait_until_ready()
        yield one
        one.stop()
    finally:
        one.close()


@pytest.mark.parametrize("within, beyond, operations", [
    (gemm(100, 100, 50), lambda h: gemm(100, 100, 51, headers=h), 1020000),
    (gemm(10, 10, 50, batch=100), lambda h: gemm(10, 10, 50, batch=101, headers=h), 1010000),
    (attention(100, 25), lambda h: attention(100, 26, headers=h), 1040000),
    (attention(100, 49, "&causal=1"), lambda h: attention(100, 50, "&causal=1", h), 1010000),
], ids=["gemm", "batch", "attention", "causal"])
def test_a_request_with_too_many_operations_is_refused(limited, within, beyond, operations):
    """At its headers, and with both numbers."""
    assert exchange(limited.address, within).status == 200
    head = beyond([("Expect", "100-continue")]).split(b"\r\n\r\n")[0] + b"\r\n\r\n"
    answer = exchange(limited.address, head)
    assert answer.status == 413
    assert f"would take {operations / 1e6:g} MFLOP; --max-work is 1 MFLOP".encode() \
        in answer.body
    wait_until_idle(limited)


def test_shapes_in_the_body_are_limited_too(limited):
    for k, status in ((50, 200), (51, 413)):
        body = save({"a": np.zeros((100, k), np.float32), "b": np.zeros((k, 100), np.float32)})
        answer = exchange(limited.address, request(
            "POST", "/gemm", [("Content-Type", "application/vnd.safetensors"),
                              ("Content-Length", len(body))], body))
        assert answer.status == status, answer.body
    wait_until_idle(limited)


def test_operations_are_counted_before_memory_of_tensors_is_taken(start):
    """A result that the memory of tensors has no room for is refused for its operations."""
    daemon = start("--max-work", "1000000", "--tensor-bytes", "1M")
    answer = exchange(daemon.address, gemm(1000, 1000, 1, "&store=c"))
    assert answer.status == 413
    assert b"would take 2 MFLOP; --max-work is 1 MFLOP" in answer.body


@pytest.mark.parametrize("k, status", [(50, 200), (51, 413)])
def test_inferences_are_limited_too(limited, k, status):
    inputs = [Input("A", np.zeros((100, k), np.float32)), Input("B", np.zeros((k, 100), np.float32))]
    answer = infer(limited.url, "gemm_fp32", inputs, limited.session)
    assert answer.status_code == status, answer.text
    wait_until_idle(limited)


def test_no_limit(start):
    daemon = start("--max-work", "0")
    assert exchange(daemon.address, gemm(100, 100, 51)).status == 200


SHORT = {
    "gemm": lambda headers: gemm(64, 64, 64, headers=headers),
    "gemm in f64": lambda headers: request("POST", "/gemm?m=96&n=96&k=96&dtype=f64",
                                           [OCTETS, ("Content-Length", 2 * 8 * 96 * 96), *headers],
                                           np.random.default_rng(2).random((2, 96, 96)).tobytes()),
    "attention": lambda headers: attention(64, 64, headers=headers),
    "conv2d": lambda headers: conv2d(16, 3, 4, headers=headers),
    "softmax": lambda headers: request("POST", "/softmax?shape=8,100", [OCTETS, ("Content-Length", 3200), *headers],
                                       bytes(3200)),
    "reduce": lambda headers: request("POST", "/reduce?shape=8,100&op=sum",
                                      [OCTETS, ("Content-Length", 3200), *headers], bytes(3200)),
    "stored": lambda headers: gemm(64, 64, 64, "&store=c", headers),
    "on a resident matrix": lambda headers: request(
        "POST", "/gemm?m=1&n=64&k=64&dtype=bf16&b=b&verify=freivalds", [OCTETS, ("Content-Length", 128), *headers],
        bytes(128)),
}


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("name", ["attention", "gemm_naive", "gemm_tiled", "conv2d", "blas"])
def test_short_requests_pass_a_long_one(start, tmp_path, name, threads):
    """Of other tenants, while the long computation goes on, with the bytes that each has on an idle device."""
    tokens = tmp_path / "tokens"
    tokens.write_text("heavy:the-token-of-heavy\nlight:the-token-of-light\n")
    daemon = start("--backend", "cpu", "--token-file", tokens, "--cpu-threads", threads, "--timeout", "600s",
                   "--max-timeout", "600s", "--drain-timeout", "0")
    light = [("Authorization", "Bearer the-token-of-light")]
    daemon.session.headers["Authorization"] = "Bearer the-token-of-light"
    matrix = request("PUT", "/tensors/b?dtype=bf16&shape=64,64", [OCTETS, ("Content-Length", 8192), *light],
                     np.random.default_rng(1).bytes(8192))
    assert exchange(daemon.address, matrix).status == 201
    alone = {what: exchange(daemon.address, make(light)).body for what, make in SHORT.items()}
    data = gemm(16384, 16384, 4096, "&kernel=openblas") if name == "blas" else LONG["cpu"][name]("")
    data = data.replace(b"\r\n\r\n", b"\r\nAuthorization: Bearer the-token-of-heavy\r\n\r\n", 1)
    with Wire(daemon.address) as wire:
        wire.send(data)
        wait_for(daemon, requests_running=1)
        for what, make in SHORT.items():
            answer = exchange(daemon.address, make(light))
            assert answer.status in (200, 201), (what, answer.body)
            assert what == "stored" or answer.body == alone[what], what
        assert not select.select([wire.socket], [], [], 0)[0], "the long computation has ended"
        assert metrics(daemon)["gemmd_requests_running"] == 1
    wait_until_idle(daemon)


def test_many_operations_take_a_tenant_no_more_than_its_share(start, tmp_path):
    """One tenant sends attentions, another products with as many bytes and far fewer
    operations. The products, which cost less together than one attention, do not wait for more
    than two attentions."""
    tokens = tmp_path / "tokens"
    tokens.write_text("heavy:the-token-of-heavy\nlight:the-token-of-light\nblocker:blocker-token\n")
    daemon = start("--backend", "cpu", "--token-file", tokens, "--cpu-threads", "1", "--no-cpu-pauses",
                   "--io-threads", "1",
                   "--timeout", "600s")
    daemon.session.headers["Authorization"] = "Bearer blocker-token"

    def of(name):
        return [("Authorization", f"Bearer {name}")]
    wires = []
    blocker = Wire(daemon.address)
    try:
        blocker.send(attention(400_000, 1, headers=of("blocker-token")))
        wait_for(daemon, requests_running=1)
        for token, data, count in (
                ("the-token-of-heavy", attention(2048, 2, "&kernel=naive",
                                                 of("the-token-of-heavy")), 5),
                ("the-token-of-light", gemm(64, 64, 64, "&kernel=naive",
                                            of("the-token-of-light")), 10)):
            for _ in range(count):
                wires.append(Wire(daemon.address))
                wires[-1].send(data)
        wait_for(daemon, requests_waiting=15)
        blocker.socket.close()
        for wire in wires:
            assert wire.receive().status == 200
    finally:
        for wire in (blocker, *wires):
            wire.socket.close()
    daemon.stop()
    lines = sorted((line for line in daemon.lines if line.get("status") == 200 and "op" in line), key=begin_ms)
    order = [line["op"] for line in lines if line["op"] in ("attention", "gemm")]
    assert len(order) == len(wires)
    last = max(i for i, op in enumerate(order) if op == "gemm")
    assert order[:last].count("attention") <= 2, order
