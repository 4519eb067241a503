"""Products on memory that a client shares with its connection (Gemmd-Memory)."""

import fcntl
import os
import threading

import numpy as np
import pytest

from attention import Attention
from attention import random_operands as attention_operands
from daemon import PATIENCE_S, Daemon
from matrices import Problem, random_operands
from memory import GROW, HEADER, Connection, Memory, maps
from problem import assert_problem
from test_leaving import metrics, wait_for

SIZE = 1 << 20
A = np.array([[1, 2], [3, 4]], np.float32)
SQUARE = "/gemm?m=2&n=2&k=2"


class Answer:
    """What assert_problem looks at."""

    def __init__(self, answer):
        self.status, self.headers, self.body = answer


@pytest.fixture(scope="module")
def daemon(gemmd, tmp_path_factory):
    path = tmp_path_factory.mktemp("memory") / "s"
    daemon = Daemon(gemmd, "--shm-bytes", "16M", "--shm-regions", "4",
                    listen=("127.0.0.1:0", f"unix:{path}"))
    try:
        daemon.wait_until_listening(2).wait_until_ready()
        daemon.unix = f"unix:{path}"
        yield daemon
        daemon.stop()
    finally:
        daemon.close()


@pytest.fixture
def memory():
    with Memory(SIZE) as memory:
        yield memory


@pytest.fixture
def connection(daemon, memory):
    with Connection(daemon.unix, [memory.fd]) as connection:
        yield connection
    wait_for(daemon, shared_memories=0)  # which counts against the limits of the next test


def settled(daemon):
    """Once nothing is shared and the only connection is the one that asks: the descriptors."""
    wait_for(daemon, connections=1, shared_memories=0, shared_memory_used_bytes=0)
    assert maps(daemon.pid, "memfd:test") == []
    return daemon.descriptors()


def lay_out(memory, arrays, start=0, gap=0):
    """Puts them one after another; {name: offset}, and the first byte that is free."""
    places = {}
    for name, array in arrays.items():
        memory.put(start, array)
        places[name] = start
        start += array.nbytes + gap
    return places, (start + 63) // 64 * 64


def header(places):
    return {"Gemmd_Memory": ", ".join(f"{name}={offset}" for name, offset in places.items())}


def query(parameters):
    return "&".join(f"{name}={value}" for name, value in parameters.items())


@pytest.mark.parametrize("problem, gap", [
    (Problem(33, 17, 65), 0),
    (Problem(33, 17, 65, dtype="i8", out="f32", bias=True), 3),
    (Problem(8, 24, 16, dtype="bf16", batch=3, beta=0.5, bias=True, transb=True), 0),
    (Problem(7, 5, 3, dtype="f64", beta=1.0), 1)], ids=str)
def test_the_same_bytes_as_by_http(problem, gap, connection, memory, daemon, rng):
    operands = random_operands(problem, rng)
    arrays = {name: array for name, array in
              zip(("a", "b", "bias", "c0"), (operands.a, operands.b, operands.bias, operands.c0))
              if array is not None}
    target = "/gemm?" + query(problem.parameters())
    status, _, expected = connection.post(target, operands.raw(),
                                          Content_Type="application/octet-stream")
    assert status == 200, expected
    places, free = lay_out(memory, arrays, gap=gap)
    status, headers, body = connection.post(target, **header(places | {"c": free}))
    assert (status, body) == (200, b""), body
    assert headers["Gemmd-Dtype"] == problem.result
    assert memory.map[free:free + len(expected)] == expected
    # The result in the answer, and an operand in the body.
    assert connection.post(target, **header(places))[2] == expected
    first = arrays.pop("a")
    places.pop("a")
    assert connection.post(target, first.tobytes(), Content_Type="application/octet-stream",
                           **header(places))[2] == expected


def test_attention(connection, memory, rng):
    problem = Attention(heads=4, sq=9, d=16, skv=20, kv_heads=2, causal=True)
    q, k, v = (np.ascontiguousarray(array) for array in attention_operands(problem, rng)[:3])
    target = "/attention?" + query(problem.parameters()) + "&lens=1"
    lens = np.array([7, 15], np.int32).tobytes()
    octets = {"Content_Type": "application/octet-stream"}
    status, _, expected = connection.post(target, lens + b"".join(x.tobytes() for x in (q, k, v)),
                                          **octets)
    assert status == 200, expected
    places, free = lay_out(memory, {"q": q, "k": k, "v": v})
    status, _, body = connection.post(target, lens, **octets, **header(places | {"o": free}))
    assert (status, body) == (200, b"")
    assert memory.map[free:free + len(expected)] == expected
    # What says how far the daemon reads is no client's to change meanwhile.
    assert_problem(Answer(connection.post(target, **header(places | {"lens_q": 0}))), 400,
                   "only come in the body")


def test_a_stored_result(connection, memory, daemon):
    memory.put(0, A)
    status, _, body = connection.post(SQUARE + "&store=kept", **header({"a": 0, "b": 0}))
    assert status == 201, body
    assert_problem(Answer(connection.post(SQUARE + "&store=kept",
                                          **header({"a": 0, "b": 0, "c": 64}))), 400,
                   "not both", "store")
    assert daemon.session.delete(f"{daemon.url}/tensors/kept").status_code == 204
    # Nothing outlives the connection: no job is made.
    assert connection.post(SQUARE, Prefer="respond-async", **header({"a": 0, "b": 0}))[0] == 200


@pytest.mark.parametrize("places, says", [
    ("", "not a list"), ("a", "not a list"), ("a=", "not a list"), ("a=-1", "not a list"),
    ("a=0x10, b=0", "not a list"), ("a=99999999999999999999, b=0", "not a list"),
    (", ".join(f"a{i}=0" for i in range(9)), "not a list"), ("a=0, b=0, a=0", "names a twice"),
    ("a=0, b=0, x=0", "does not have"), ("a=0, b=0, bias=0", "does not have"),
    ("a=0", "the body is 0 bytes"), ("c=0", "the body is 0 bytes"),
    (f"a=0, b={SIZE - 15}", "b: 16 bytes from offset 1048561"),
    (f"a={SIZE}, b=0", "a: 16 bytes from offset 1048576"),
    (f"a={2**64 - 8}, b=0", "a: 16 bytes from offset"),
    (f"a=0, b=0, c={SIZE - 12}", "c: 16 bytes"),
    ("a=0, b=0, c=66", "multiple of the 4 bytes"),
    ("a=0, b=16, c=12", "overwrite an operand"), ("a=0, b=16, c=28", "overwrite an operand")])
def test_wrong_places(places, says, connection):
    assert_problem(Answer(connection.post(SQUARE, Gemmd_Memory=places)), 400, says)
    assert connection.post(SQUARE, **header({"a": 0, "b": 0}))[0] == 200


@pytest.mark.slow
def test_more_than_2_gib(start, tmp_path, rng):
    """A of 2 GiB and 256 KiB; its last row is where 32 bits would not reach."""
    rows, k = (1 << 13) + 1, 1 << 15
    b, last = rng.uniform(-1, 1, (2, k))
    daemon = start("--shm-bytes", "3G", listen=(f"unix:{tmp_path / 's'}",))
    end = rows * k * 8
    with Memory(end + b.nbytes + rows * 8) as memory:
        memory.put(end - last.nbytes, last)
        memory.put(end, b)
        with Connection(daemon.addresses[0], [memory.fd]) as connection:
            status, _, body = connection.post(
                f"/gemm?m={rows}&n=1&k={k}&dtype=f64",
                **header({"a": 0, "b": end, "c": end + b.nbytes}))
        assert status == 200, body
        c = memory.get(end + b.nbytes, (rows,), np.float64)
    assert not c[:-1].any()
    assert abs(c[-1] - last @ b) <= np.abs(last) @ np.abs(b) * k * np.finfo(np.float64).eps


def test_more_rows_than_a_product_has(start, tmp_path):
    """A batch with one resident B is one product of all rows. Nothing is written to the 10 GiB."""
    daemon = start("--shm-bytes", "16G", listen=("127.0.0.1:0", f"unix:{tmp_path / 's'}",))
    assert daemon.session.put(f"{daemon.url}/tensors/b?dtype=i8&shape=1,1", data=b"\1").ok
    with Memory(5 << 31) as memory, Connection(daemon.addresses[1], [memory.fd]) as connection:
        answer = connection.post("/gemm?m=65536&batch=32768&b=b", **header({"a": 0, "c": 1 << 31}))
    assert_problem(Answer(answer), 422, "2147483647 rows of A; it has 32768 times 65536", "batch")


def test_other_formats(connection):
    answer = connection.post("/gemm", Content_Type="application/x-npy", **header({"a": 0, "b": 0}))
    assert_problem(Answer(answer), 415, "raw")


def test_no_memory(daemon):
    with Connection(daemon.unix) as connection:
        assert_problem(Answer(connection.post(SQUARE, **header({"a": 0, "b": 0}))), 400,
                       "first line is empty")
    answer = daemon.session.post(daemon.url + SQUARE, headers={HEADER: "a=0, b=0"},
                                 timeout=PATIENCE_S)
    assert_problem(answer, 400, "Unix socket")


def open_file(path):
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


@pytest.mark.parametrize("kind", ["unsealed", "grows only", "file", "pipe", "folder"])
def test_not_a_sealed_memfd(kind, daemon, tmp_path):
    before = settled(daemon)
    fds = {"unsealed": lambda: [Memory(4096, seals=0).fd],
           "grows only": lambda: [Memory(4096, seals=GROW).fd],
           "file": lambda: [open_file(tmp_path / "file")],
           "pipe": lambda: list(os.pipe())[:1],
           "folder": lambda: [os.open(tmp_path, os.O_RDONLY)]}[kind]()
    with Connection(daemon.unix, fds) as connection:
        for _ in range(2):
            assert_problem(Answer(connection.post(SQUARE, **header({"a": 0, "b": 0}))), 400,
                           "sealed against shrinking")
        assert connection.post(SQUARE, 2 * A.tobytes(),
                               Content_Type="application/octet-stream")[0] == 200
    os.close(fds[0])
    settled(daemon)
    daemon.assert_descriptors(before)


@pytest.mark.parametrize("kind", ["sealed against writing", "open for reading only"])
def test_a_memfd_that_cannot_be_written(kind, daemon):
    """400, since no repetition helps. Another client's use of the same memfd changes nothing."""
    before = settled(daemon)
    with Memory(4096) as memory, Connection(daemon.unix, [memory.fd]) as owner:
        assert owner.post(SQUARE, **header({"a": 0, "b": 0}))[0] == 200
        if kind == "open for reading only":
            fd = os.open(f"/proc/self/fd/{memory.fd}", os.O_RDONLY)
        else:
            fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
            os.ftruncate(fd, 4096)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_WRITE)
        with Connection(daemon.unix, [fd]) as connection:
            assert_problem(Answer(connection.post(SQUARE, **header({"a": 0, "b": 0}))), 400,
                           "writ")
        os.close(fd)
    settled(daemon)
    daemon.assert_descriptors(before)


@pytest.mark.parametrize("count", [2, 3, 200])
def test_more_than_one_descriptor(count, daemon, memory):
    before = settled(daemon)
    with Connection(daemon.unix, [memory.fd] * count) as connection:
        assert_problem(Answer(connection.post(SQUARE, **header({"a": 0, "b": 0}))), 400,
                       "more than one descriptor")
    settled(daemon)
    daemon.assert_descriptors(before)


def test_limits(daemon):
    settled(daemon)
    with Memory(17 << 20) as large, Connection(daemon.unix, [large.fd]) as connection:
        assert_problem(Answer(connection.post(SQUARE, **header({"a": 0, "b": 0}))), 507,
                       "17 MiB needed, 16 MiB free of 16 MiB .--shm-bytes")
    memories = [Memory(4096) for _ in range(5)]
    connections = [Connection(daemon.unix, [memory.fd]) for memory in memories]
    statuses = [connection.post(SQUARE, **header({"a": 0, "b": 0}))[0]
                for connection in connections]
    assert statuses == [200] * 4 + [507]
    for thing in connections + memories:
        thing.close()
    settled(daemon)


def test_off(start, tmp_path, memory):
    daemon = start("--no-shm-memfd", listen=("127.0.0.1:0", f"unix:{tmp_path}/s"))
    before = daemon.descriptors()
    with Connection(daemon.addresses[1], [memory.fd]) as connection:
        assert_problem(Answer(connection.post(SQUARE, **header({"a": 0, "b": 0}))), 501, "is off")
        assert daemon.descriptors() == before + 1  # the connection's
    assert daemon.session.get(f"{daemon.url}/info").json()["limits"]["shm-memfd"] is False


def test_connections_that_bring_the_same_memory_share_it(daemon, memory):
    """And nothing of them is left, whether or not they have used it."""
    before = settled(daemon)
    memory.put(0, A)
    connections = [Connection(daemon.unix, [memory.fd]) for _ in range(32)]
    for i, connection in enumerate(connections):
        assert connection.post(SQUARE, **header({"a": 0, "b": 0, "c": 64 * (i + 1)}))[0] == 200
        assert memory.get(64 * (i + 1), (2, 2)).tolist() == (A @ A).tolist()
    assert len(maps(daemon.pid, "memfd:test")) == 1
    assert metrics(daemon)["gemmd_shared_memory_used_bytes"] == SIZE
    idle = Connection(daemon.unix, [memory.fd])
    idle.connect()
    wait_for(daemon, connections=len(connections) + 2)  # it is accepted; one asks for the metrics
    for connection in [*connections, idle]:
        connection.close()
    settled(daemon)
    daemon.assert_descriptors(before)


def test_a_client_that_leaves_a_product_running(daemon):
    """Its memory stays for as long as the device computes with it."""
    side = 256
    with Memory(4 << 20) as memory:
        with Connection(daemon.unix, [memory.fd]) as connection:
            connection.request("POST", f"/gemm?m={side}&n={side}&k={side}&kernel=naive",
                               headers={HEADER: f"a=0, b={1 << 20}, c={2 << 20}"})
            # A connection that is closed before the daemon has accepted it would prove nothing.
            wait_for(daemon, shared_memories=1)
        settled(daemon)
    assert daemon.session.get(f"{daemon.url}/livez").status_code == 200


def test_operands_that_change_while_they_are_read(connection, memory, rng):
    """Only the result of those who change them may suffer."""
    side, stop = 128, threading.Event()
    noise = [(rng.standard_normal((side, side)) * 10.0**i).astype(np.float32) for i in range(-9, 9)]

    def change():
        while not stop.wait(1e-4):
            memory.put(0, noise[rng.integers(len(noise))])

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(10):
            status, _, body = connection.post(
                f"/gemm?m={side}&n={side}&k={side}&verify=freivalds",
                **header({"a": 0, "b": 1 << 18, "c": 2 << 18}))
            assert status in (200, 500), body
    finally:
        stop.set()
        thread.join()
    a = rng.standard_normal((side, side)).astype(np.float32)
    memory.put(0, a)
    memory.put(1 << 18, np.eye(side, dtype=np.float32))
    status, headers, body = connection.post(f"/gemm?m={side}&n={side}&k={side}&verify=freivalds",
                                            **header({"a": 0, "b": 1 << 18, "c": 2 << 18}))
    assert (status, body) == (200, b"")
    assert headers["Gemmd-Verify"].startswith("pass")
    assert memory.get(2 << 18, a.shape).tobytes() == a.tobytes()
