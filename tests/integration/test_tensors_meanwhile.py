"""GET of a large tensor whose answer is sent while the device copies the rest: every byte is right, and whatever ends
the answer in the middle ends the connection and gives everything back."""

import io
import re
import time

import numpy as np
import pytest
import requests
import safetensors.numpy

from daemon import PATIENCE_S, Daemon
from test_device_loss import GOOD, LOSING, losing, wait_for_starts
from test_leaving import OCTETS, endless, leave, metrics, product, wait_for, wait_until_idle
from test_tensors import NPY, SAFETENSORS
from wire import Wire, exchange, request

assert losing  # a fixture

# About 16 MiB of f32 each: rows without gaps between them on the device, one row, and rows with gaps, many and few.
SHAPES = [(2048, 2048), (1 << 22,), (4, 1021, 1027), (4099, 1023), (5, 839999)]
LARGE = np.random.default_rng(20).standard_normal((2048, 2048)).astype(np.float32)
ASK = request("GET", "/tensors/x", [("Accept", NPY)])  # the CPU backend sends a raw answer without a copy


def loaded(body):
    """The array of a whole answer."""
    return np.load(io.BytesIO(body))


def is_prefix(part):
    """Whether these are the first bytes of the answer for LARGE."""
    header = 10 + int.from_bytes(part[8:10], "little")
    return LARGE.tobytes().startswith(part[header:])


def put(daemon, array):
    shape = ",".join(map(str, array.shape))
    answer = daemon.session.put(f"{daemon.url}/tensors/x?dtype=f32&shape={shape}", data=array.tobytes(),
                                headers=dict([OCTETS]), timeout=PATIENCE_S)
    assert answer.status_code in (200, 201, 204), answer.text


@pytest.mark.parametrize("shape", [(4, 2048, 2048), (1 << 24,), (16, 1021, 1027), (16396, 1023)], ids=str)
def test_all_bytes_of_some_rows_are_right(shape, start):
    """Of a tensor of 64 MiB, of which three quarters are sent."""
    daemon = start()
    array = np.random.default_rng(22).standard_normal(shape).astype(np.float32)
    put(daemon, array)
    first, count = shape[0] // 4, shape[0] - shape[0] // 4
    answer = daemon.session.get(f"{daemon.url}/tensors/x?row={first}&rows={count}", headers={"Accept": NPY},
                                timeout=PATIENCE_S)
    assert answer.status_code == 200 and np.array_equal(loaded(answer.content), array[first:])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_all_bytes_are_right(shape, start):
    daemon = start()
    array = np.random.default_rng(21).standard_normal(shape).astype(np.float32)
    put(daemon, array)
    for accept in (NPY, SAFETENSORS):
        for _ in range(3):
            got = requests.get(f"{daemon.url}/tensors/x", headers={"Accept": accept}, timeout=PATIENCE_S)
            assert got.status_code == 200
            assert int(got.headers["content-length"]) == len(got.content)
            result = loaded(got.content) if accept == NPY else safetensors.numpy.load(got.content)["tensor"]
            assert np.array_equal(result, array)
    wait_until_idle(daemon)


def test_a_connection_goes_on_afterwards(start):
    """The next request on the connection, sent before the first answer is read, has its answer."""
    daemon = start()
    put(daemon, LARGE)
    with Wire(daemon.address) as wire:
        wire.send(ASK + request("GET", "/livez") + ASK)
        bodies = [wire.receive() for _ in range(3)]
    assert [answer.status for answer in bodies] == [200, 200, 200]
    for answer in (bodies[0], bodies[2]):
        assert np.array_equal(loaded(answer.body), LARGE)
    wait_until_idle(daemon)


def test_a_digest_needs_all_bytes_first(start):
    daemon = start()
    put(daemon, LARGE)
    with Wire(daemon.address) as wire:
        wire.send(request("GET", "/tensors/x", [("Accept", NPY), ("Want-Repr-Digest", "sha-256=1")]))
        answer = wire.receive()
    assert "repr-digest" in answer.headers
    assert np.array_equal(loaded(answer.body), LARGE)


@pytest.fixture
def halfway(start, request, instrumented):
    """A daemon whose device has copied the first part of an answer, and computes until its deadline before the rest.
    The client, `daemon.reader`, has the answer's head. The parameter is the time-out of all in seconds: equal ones
    keep the works in their order."""
    daemon = start("--backend", "cpu", "--cpu-threads", "1", "--no-cpu-pauses", "--io-threads", "1",
                   "--drain-timeout", "0",
                   "--min-answer-rate", "4M", "--timeout", f"{request.param}s")
    put(daemon, LARGE)
    with Wire(daemon.address) as before, Wire(daemon.address) as reader, Wire(daemon.address) as blocker:
        # Some tenths of a second, in which the others come to wait.
        before.send(product(1024, 1024, 256 if instrumented else 512, "&timeout_ms=600000"))
        wait_for(daemon, requests_running=1)
        reader.send(ASK)
        wait_for(daemon, requests_waiting=1)
        blocker.send(product(16384, 16384, 512, f"&timeout_ms={1000 * request.param}"))
        wait_for(daemon, requests_waiting=2)
        assert before.receive().status == 200
        head = reader._until(b"\r\n\r\n").decode()
        assert head.startswith("HTTP/1.1 200 "), head
        wait_for(daemon, requests_running=1, requests_waiting=1)
        daemon.length = int(re.search(r"(?i)content-length: (\d+)", head)[1])
        daemon.reader = reader
        daemon.blocker = blocker
        yield daemon


@pytest.mark.parametrize("halfway", [600], indirect=True)
def test_the_first_part_is_sent(halfway):
    """And no byte of the rest, which the device has not copied."""
    part = halfway.reader._exactly(halfway.length - LARGE.nbytes // 8 * 7)
    assert is_prefix(part)
    halfway.reader.socket.settimeout(0.2)
    with pytest.raises(TimeoutError):
        halfway.reader._exactly(1)
    halfway.reader.socket.settimeout(PATIENCE_S)
    halfway.blocker.socket.close()  # the device goes on with the rest
    body = part + halfway.reader._exactly(halfway.length - len(part))
    assert np.array_equal(loaded(body), LARGE)
    halfway.reader.send(request("GET", "/livez"))
    assert halfway.reader.receive().status == 200
    wait_until_idle(halfway)
    halfway.stop()


@pytest.mark.parametrize("halfway", [600], indirect=True)
def test_a_client_is_not_slow_while_it_has_to_wait(halfway):
    """The time in which the device works for others does not count for the least rate, which holds from 5 s on."""
    part = halfway.reader._exactly(halfway.length - LARGE.nbytes // 8 * 7)
    time.sleep(7)
    halfway.blocker.socket.close()
    body = part + halfway.reader._exactly(halfway.length - len(part))
    assert np.array_equal(loaded(body), LARGE)
    halfway.stop()


@pytest.mark.parametrize("how", ["close", "reset", "half"])
@pytest.mark.parametrize("halfway", [600], indirect=True)
def test_a_client_leaves_in_the_middle(how, halfway):
    gone = metrics(halfway)["gemmd_client_gone_total"]
    halfway.reader._exactly(LARGE.nbytes // 8)
    leave(halfway.reader, how)
    wait_for(halfway, requests_waiting=0, queue_requests=1, client_gone_total=gone + 1)
    halfway.stop()


@pytest.mark.slow
@pytest.mark.parametrize("halfway", [20], indirect=True)
def test_the_deadline_passes_in_the_middle(halfway):
    """The client gets less than was announced, and the end of the connection."""
    with Wire(halfway.address) as second:
        second.send(endless("&priority=9"))  # runs when the first blocker's deadline has passed
        wait_for(halfway, requests_waiting=2)
        part = halfway.reader.rest()
        assert LARGE.nbytes // 8 <= len(part) < LARGE.nbytes
        assert is_prefix(part)
        wait_for(halfway, requests_waiting=0, queue_requests=1)
    halfway.stop()


@pytest.mark.parametrize("halfway", [600], indirect=True)
def test_the_daemon_stops_in_the_middle(halfway):
    halfway.reader._exactly(LARGE.nbytes // 8)
    halfway.terminate()
    assert len(halfway.reader.rest()) < LARGE.nbytes
    assert halfway.wait() == 0


def test_a_client_that_does_not_read_holds_nobody_up(start):
    """The device is free while an answer waits for its client."""
    daemon = start("--io-threads", "1")
    put(daemon, LARGE)
    with Wire(daemon.address) as lazy:
        lazy.send(ASK)
        lazy.socket.recv(1)
        assert np.array_equal(loaded(exchange(daemon.address, ASK).body), LARGE)
        wait_for(daemon, requests_running=0, requests_waiting=0, queue_requests=1)
    wait_until_idle(daemon)


def test_the_device_is_lost_in_the_middle(losing, tmp_path, instrumented):
    """The answer ends with the connection, and the daemon replaces itself as ever."""
    fault = tmp_path / "lose"
    daemon = Daemon(losing, "--backend", "cpu", "--cpu-threads", "1", "--no-cpu-pauses", "--io-threads", "1",
                    "--timeout", "600s",
                    environment={"LOSE_DEVICE": str(fault)})
    try:
        daemon.wait_until_listening().wait_until_ready()
        put(daemon, LARGE)
        with Wire(daemon.address) as before, Wire(daemon.address) as reader, Wire(daemon.address) as last:
            before.send(product(1024, 1024, 64 if instrumented else 512))
            wait_for(daemon, requests_running=1)
            reader.send(ASK)
            wait_for(daemon, requests_waiting=1)
            last.send(LOSING)  # runs between the first part and the rest
            wait_for(daemon, requests_waiting=2)
            daemon.session.close()
            fault.touch()
            part = reader.rest()
        assert part.startswith(b"HTTP/1.1 200 ")
        part = part.split(b"\r\n\r\n", 1)[1]
        assert LARGE.nbytes // 8 <= len(part) < LARGE.nbytes
        assert is_prefix(part)
        wait_for_starts(daemon, 2)
        daemon.wait_until_ready()
        assert exchange(daemon.address, GOOD).status == 200
        daemon.stop()
    finally:
        daemon.close()
