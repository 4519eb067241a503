"""Every limit, reached: what is refused, how, and that the daemon goes on."""

import contextlib
import io
import re
import signal
import socket
import struct
import threading
import time

import numpy as np
import pytest
import safetensors.numpy

from daemon import PATIENCE_S
from problem import assert_problem
from test_leaving import endless
from wire import Wire, exchange, request

OCTETS = ("Content-Type", "application/octet-stream")
BODY = np.arange(8, dtype=np.float32).tobytes()
RIGHT = np.array([6, 7, 26, 31], np.float32).tobytes()
TARGET = "/gemm?m=2&n=2&k=2"
GOOD = request("POST", TARGET, [OCTETS, ("Content-Length", 32)], BODY)


def ask(target, length, *headers):
    """The head of a request that waits for 100 Continue."""
    return request("POST", target, [OCTETS, ("Content-Length", length), ("Expect", "100-continue"),
                                    *headers])


def eventually(address, data, status):
    """The first answer with that status; places come back when connections are seen to end."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        answer = exchange(address, data)
        if answer.status == status or time.monotonic() > deadline:
            assert answer.status == status, answer
            return answer
        time.sleep(0.02)


def test_body_longer_than_the_limit(start):
    daemon = start("--max-body", "1M")
    target = "/gemm?m=1024&n=1&k=1024"
    with Wire(daemon.address) as wire:
        wire.send(ask(target, 4 * (1024 * 1024 + 1024)))
        assert_problem(wire.receive(), 413, "A would be 4 MiB; --max-body is 1 MiB")
    npy = request("POST", "/gemm", [("Content-Type", "application/x-npy"),
                                    ("Content-Length", 1048577), ("Expect", "100-continue")])
    with Wire(daemon.address) as wire:
        wire.send(npy)
        assert_problem(wire.receive(), 413, r"the body would be 1.00 MiB \(1048577 bytes\); --max-body is 1 MiB")
    assert exchange(daemon.address, GOOD).body == RIGHT


def test_chunked_body_longer_than_the_limit(start):
    """Its length is not announced, so it is cut off where it passes the limit."""
    daemon = start("--max-body", "1M")
    head = request("POST", "/gemm", [("Content-Type", "application/x-npy"),
                                     ("Transfer-Encoding", "chunked")])
    chunk = b"10000\r\n" + bytes(0x10000) + b"\r\n"
    with Wire(daemon.address) as wire:
        wire.send(head)
        wire.send(chunk * 36)  # 2.25 MiB: the daemon discards 1 MiB behind the limit before it answers
        assert_problem(wire.receive(), 413, "longer than --max-body, which is 1 MiB")
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            for _ in range(4096):  # 256 MiB, if they were taken
                wire.send(chunk)
    assert exchange(daemon.address, GOOD).body == RIGHT


def test_result_longer_than_the_limit(start):
    """Two vectors of 16 KiB make a matrix of 64 MiB."""
    daemon = start("--max-result", "1M")
    with Wire(daemon.address) as wire:
        wire.send(ask("/gemm?m=4096&n=4096&k=1", 2 * 4096 * 4))
        assert_problem(wire.receive(), 413, "the result would be 64 MiB; --max-result is 1 MiB")
    assert exchange(daemon.address, GOOD).body == RIGHT


def test_queue_full_by_count(start):
    """A place is taken at the headers; the next request is refused before its body."""
    daemon = start("--queue-requests", "1")
    with Wire(daemon.address) as first:
        first.send(ask(TARGET, 32))
        assert first.receive().status == 100
        with Wire(daemon.address) as second:
            second.send(ask(TARGET, 32))
            answer = second.receive()
            assert_problem(answer, 429)
            assert int(answer.headers["retry-after"]) >= 1
        first.send(BODY)
        assert first.receive().body == RIGHT, "the one that had its place"
    assert eventually(daemon.address, GOOD, 200).body == RIGHT, "the place is free again"


def test_a_long_list_takes_a_place(start):
    """... until the client has read it, so that clients that never read lists cannot take the host's memory."""
    daemon = start("--queue-requests", "1")
    with Wire(daemon.address) as wire:
        for i in range(300):
            wire.send(request("PUT", f"/tensors/{i:0128}?dtype=i8&shape=1,1", [("Content-Length", "1")], b"x"))
            assert wire.receive().status == 201
    lists = {name: request(method, path, [("Content-Length", "0")]) for name, method, path in (
        ("long", "GET", "/tensors"), ("short", "GET", "/tensors?limit=10"), ("stats", "GET", "/v2/models/stats"))}
    assert all(exchange(daemon.address, data).status == 200 for data in lists.values())
    with Wire(daemon.address) as first:
        first.send(ask(TARGET, 32))
        assert first.receive().status == 100
        for name, data in lists.items():
            answer = exchange(daemon.address, data)
            assert answer.status == (200 if name == "short" else 429), name
        first.send(BODY)
        assert first.receive().body == RIGHT
    assert eventually(daemon.address, lists["long"], 200).body.count(b'"etag"') == 300


def test_queue_full_by_bytes(start):
    daemon = start("--queue-bytes", "8M", "--pinned-bytes", "64M")
    size = 800
    length = 2 * size * size * 4
    target = f"/gemm?m={size}&n={size}&k={size}"
    # A request at its limits fits: half of the bytes each for body and result.
    with Wire(daemon.address) as first:
        head = ask("/gemm?m=700&n=700&k=700", 2 * 700 * 700 * 4)
        first.send(head)
        assert first.receive().status == 100
        with Wire(daemon.address) as second:
            second.send(head)
            answer = second.receive()
            assert_problem(answer, 429)
            assert int(answer.headers["retry-after"]) >= 1
    assert exchange(daemon.address, ask(target, length)).status == 413
    assert eventually(daemon.address, GOOD, 200).body == RIGHT, "the bytes are free again"


def outer(size, media_type, chunked):
    """A column times a row: a small body whose result is large, which only its shapes tell."""
    a, b = np.ones((size, 1), np.float32), np.ones((1, size), np.float32)
    if media_type == "application/x-npy":
        out = io.BytesIO()
        np.save(out, a)
        np.save(out, b)
        body = out.getvalue()
    else:
        body = safetensors.numpy.save({"a": a, "b": b})
    length = ("Transfer-Encoding", "chunked") if chunked else ("Content-Length", len(body))
    if chunked:
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    return request("POST", "/gemm", [("Content-Type", media_type), length], body)


def holds_nothing(daemon):
    """A request holds its bytes a little longer than until its client has the whole answer."""
    return "gemmd_queue_bytes 0\n" in daemon.session.get(f"{daemon.url}/metrics", timeout=PATIENCE_S).text


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
@pytest.mark.parametrize("media_type", ["application/x-npy", "application/vnd.safetensors"])
def test_queue_counts_results_of_bodies_that_tell_their_shapes(media_type, chunked, start):
    daemon = start("--queue-bytes", "1M")
    large = outer(350, media_type, chunked)
    with Wire(daemon.address) as first, Wire(daemon.address) as second:
        first.send(ask("/gemm?m=220&n=220&k=220", 2 * 220 * 220 * 4))
        assert first.receive().status == 100, "580,800 of 1,048,576 bytes are taken"
        second.send(large)
        answer = second.receive()
        assert_problem(answer, 429, r"567 KiB \(580800 bytes\) of 1 MiB are taken, this request needs 48.*--queue-bytes")
        assert int(answer.headers["retry-after"]) >= 1
        first.send(bytes(2 * 220 * 220 * 4))
        assert first.receive().status == 200
        wait_until(lambda: holds_nothing(daemon), "the first request keeps its bytes")
        if chunked:  # the connection may have been closed
            assert exchange(daemon.address, large).status == 200, "it fits when it is alone"
        else:
            second.send(large)  # on the same connection
            assert second.receive().status == 200, "it fits when it is alone"
    assert_problem(exchange(daemon.address, outer(600, media_type, chunked)), 413, "the result")
    wait_until(lambda: holds_nothing(daemon), "a request keeps its bytes")


@pytest.mark.parametrize("sent", [0, 1, 31])
@pytest.mark.parametrize("how", ["close", "reset", "half"])
def test_places_of_lost_clients_come_back(sent, how, start):
    """A client that leaves in the middle is noticed by its leaving, not by a time that runs out."""
    daemon = start("--queue-requests", "1", "--body-timeout", "600s", "--min-body-rate", "0")
    for _ in range(3):
        wire = Wire(daemon.address)
        wire.send(ask(TARGET, 32))
        assert wire.receive().status == 100, "its place is taken"
        wire.send(BODY[:sent])
        if how == "reset":
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if how == "half":
            wire.socket.shutdown(socket.SHUT_WR)
        else:
            wire.socket.close()
        assert eventually(daemon.address, GOOD, 200).body == RIGHT
        wire.socket.close()


def test_clients_that_leave_while_their_product_is_computed(start):
    """Neither memory nor place is given back before the work has ended. An upload keeps the only
    I/O thread busy, so that most of the connections are not suspended when they end."""
    daemon = start("--io-threads", "1")
    size, long = 400, 1 << 22
    product = request("POST", f"/gemm?m={size}&n={size}&k={size}",
                      [OCTETS, ("Content-Length", 8 * size * size)], bytes(8 * size * size))
    upload = request("POST", f"/gemm?m=1&n=1&k={long}", [OCTETS, ("Content-Length", 8 * long)],
                     bytes(8 * long))
    stop = threading.Event()
    statuses = set()

    def keep_busy():
        with Wire(daemon.address) as wire:
            while not (statuses and stop.is_set()):
                wire.send(upload)
                statuses.add(wire.receive().status)

    other = threading.Thread(target=keep_busy)
    other.start()
    try:
        for i in range(50):
            wire = Wire(daemon.address)
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            wire.send(product)
            time.sleep(i % 10 * 0.0004)
            wire.socket.close()
    finally:
        stop.set()
        other.join()
    assert statuses == {200}
    assert exchange(daemon.address, GOOD).body == RIGHT
    idle = r"^gemmd_pinned_memory_used_bytes 0$"
    wait_until(lambda: re.search(idle, exchange(daemon.address, request("GET", "/metrics")).body.decode(),
                                 re.MULTILINE), "memory is not given back")


def test_out_of_pinned_memory(start):
    """Bodies that are announced reserve their bytes; past the last one it is 503, not a crash."""
    daemon = start("--pinned-bytes", "8M", "--queue-bytes", "1G", "--max-body", "4M",
                   "--max-result", "4M")
    wires = []
    try:
        for _ in range(6):
            wire = Wire(daemon.address)
            wires.append(wire)
            wire.send(ask("/gemm?m=700&n=700&k=700", 2 * 700 * 700 * 4))
            answer = wire.receive()
            if answer.status != 100:
                break
        assert_problem(answer, 503, r"\d+ bytes.*\d+.*free|needed")
        assert int(answer.headers["retry-after"]) >= 1
    finally:
        for wire in wires:
            wire.socket.close()
    assert eventually(daemon.address, GOOD, 200).body == RIGHT


def test_memory_for_operands_that_lie_askew(start):
    """Behind an odd number of halves the bias is copied before it is used: that takes memory too,
    at the headers."""
    daemon = start("--backend", "cpu", "--pinned-bytes", "1M")
    target = "/gemm?m=1&n=80000&k=1&dtype=f16&out=f32"
    with Wire(daemon.address) as wire:
        wire.send(ask(f"{target}&bias=1", 2 * 80001 + 4 * 80000))
        assert_problem(wire.receive(), 503, r"pinned host memory: 312 KiB \(320000 bytes\) needed, .* free \(--pinned-bytes\)")
    with Wire(daemon.address) as wire:
        wire.send(ask(target, 2 * 80001))
        assert wire.receive().status == 100
        wire.send(bytes(2 * 80001))
        assert wire.receive().body == bytes(4 * 80000)


def refused(address):
    """Whether a new connection is turned away; with an answer, or by its end."""
    try:
        answer = exchange(address, request("GET", "/livez"))
    except ConnectionResetError:
        return True
    if answer.status == 200:
        return False
    assert answer.status in (429, 503)
    assert_problem(answer, answer.status, "connections")
    assert int(answer.headers["retry-after"]) >= 1
    return True


def let_in(address):
    """A new connection that has been answered; earlier ones may be seen to end a little late, and short
    limits may end one for whose request this process is too slow."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        wire = Wire(address)
        try:
            wire.send(GOOD)
            if wire.receive().status == 200:
                return wire
        except ConnectionError:
            pass
        wire.socket.close()
        assert time.monotonic() < deadline, "no connection is let in"
        time.sleep(0.02)


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_connection_limit(start):
    daemon = start("--max-connections", "8", "--max-connections-per-address", "0")
    daemon.session.close()
    wires = []
    try:
        for _ in range(8):
            wires.append(let_in(daemon.address))
        assert refused(daemon.address), "more connections than the limit are taken"
        wires[0].send(GOOD)
        assert wires[0].receive().body == RIGHT, "one within the limit"
        wires.pop().socket.close()
        wires.pop().socket.close()
        wait_until(lambda: not refused(daemon.address), "a freed place is not given again")
    finally:
        for wire in wires:
            wire.socket.close()


def limits_and_metrics(daemon):
    metrics = daemon.session.get(f"{daemon.url}/metrics").text
    files = re.search(r"^process_max_fds (\S+)$", metrics, re.MULTILINE)
    return daemon.session.get(f"{daemon.url}/info").json()["limits"], float(files[1])


def test_open_files_are_raised_to_the_connection_limit(start):
    daemon = start("--max-connections", "300",
                   wrapper=("bash", "-c", 'ulimit -Sn 100; exec "$@"', "bash"))
    limits, files = limits_and_metrics(daemon)
    assert limits["max-connections"] == 300
    assert files > 300


def test_too_few_open_files_for_the_connection_limit(start):
    """Who would get no descriptor is told so, as over any limit, and does not wait."""
    daemon = start("--max-connections", "300", "--max-connections-per-address", "200",
                   "--io-threads", "1",
                   wrapper=("bash", "-c", 'ulimit -n 200; exec "$@"', "bash"))
    limits, files = limits_and_metrics(daemon)
    daemon.session.close()
    assert files == 200
    assert limits["max-connections"] == limits["max-connections-per-address"] == 100
    assert any("--max-connections is 300 and is lowered to 100" in line
               for line in daemon.messages())
    wires = []
    try:
        for _ in range(100):
            wires.append(let_in(daemon.address))
        assert refused(daemon.address), "more connections than files are left for are taken"
    finally:
        for wire in wires:
            wire.socket.close()


def test_connection_limit_per_address(start):
    daemon = start("--max-connections-per-address", "2")
    daemon.session.close()
    with let_in(daemon.address) as one, let_in(daemon.address) as two:
        assert refused(daemon.address)
        for wire in (one, two):
            wire.send(GOOD)
            assert wire.receive().body == RIGHT
        # Another address of the same machine has its own count.
        with socket.create_connection(daemon.address, source_address=("127.0.0.2", 0)) as other:
            other.sendall(request("GET", "/livez"))
            assert b" 200 " in other.recv(100)
    wait_until(lambda: not refused(daemon.address), "a freed place is not given again")


def test_slow_headers(start):
    daemon = start("--header-timeout", "300ms")
    with Wire(daemon.address) as wire:
        wire.send(GOOD[:20])
        assert_problem(wire.receive(), 408, "headers")
        assert wire.closed()
    with Wire(daemon.address) as wire:
        wire.drip(GOOD[:-1], 0.1)
        assert_problem(wire.receive(), 408, "headers")
        assert wire.closed()
    let_in(daemon.address).socket.close()


def test_silent_connection(start):
    """One that never says anything does not stay for ever."""
    daemon = start("--header-timeout", "300ms", "--idle-timeout", "300ms")
    with Wire(daemon.address) as wire:
        assert_problem(wire.receive(), 408, "headers")
        assert wire.closed()
    let_in(daemon.address).socket.close()


def test_time_limits_of_many_connections(start):
    """An I/O thread checks its connections a few at a time; each of them ends in its time, and those
    that leave meanwhile are no obstacle."""
    daemon = start("--idle-timeout", "1s", "--header-timeout", "10m", "--io-threads", "1",
                   "--bulk-connections", "0", "--max-connections-per-address", "0")
    wires = [Wire(daemon.address) for _ in range(400)]
    try:
        for wire in wires:
            wire.send(GOOD)
        for wire in wires:
            assert wire.receive().body == RIGHT
        for wire in wires[::3]:
            wire.socket.close()
        for number, wire in enumerate(wires):
            assert number % 3 == 0 or wire.closed(), f"connection {number} stays"
    finally:
        for wire in wires:
            wire.socket.close()
    assert exchange(daemon.address, GOOD).body == RIGHT


def test_idle_connection(start):
    daemon = start("--idle-timeout", "300ms")
    with Wire(daemon.address) as wire:
        wire.send(GOOD)
        assert wire.receive().body == RIGHT
        assert wire.closed()
    assert exchange(daemon.address, GOOD).body == RIGHT


def test_connections_that_stay_idle(start, tmp_path):
    """The daemon looks rarely at connections that have been idle for a while. They are served all the
    same, their clients' ends are noticed, and a shorter limit ends them."""
    config = tmp_path / "gemmd.json"
    config.write_text('{"idle-timeout": "10m"}')
    daemon = start("--io-threads", "1", "--config", config, "--max-connections-per-address", "0")
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(daemon.address)) for _ in range(100)]
        for again in range(2):
            for wire in wires:
                wire.send(GOOD)
            for wire in wires:
                assert wire.receive().body == RIGHT, again
            time.sleep(1)  # several checks
        for wire in wires[::2]:
            wire.socket.shutdown(socket.SHUT_WR)
            assert wire.closed()
        config.write_text('{"idle-timeout": "300ms"}')
        daemon.process.send_signal(signal.SIGHUP)
        for wire in wires[1::2]:
            assert wire.closed()
        assert exchange(daemon.address, GOOD).body == RIGHT


def test_idle_connections_end_with_the_daemon(start):
    daemon = start("--io-threads", "1", "--idle-timeout", "10m", "--max-connections-per-address", "0")
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(daemon.address)) for _ in range(100)]
        for wire in wires:
            wire.send(GOOD)
            assert wire.receive().body == RIGHT
        time.sleep(1)  # several checks
        daemon.stop()
        for wire in wires:
            assert wire.closed()


@pytest.mark.parametrize("pause", [0.05, None], ids=["drips", "stops"])
def test_slow_body(pause, start):
    """A client that sends a byte now and then, and one that stops sending."""
    daemon = start("--body-timeout", "500ms")
    with Wire(daemon.address) as wire:
        wire.send(request("POST", TARGET, [OCTETS, ("Content-Length", 32)], BODY[:2]))
        if pause:
            wire.drip(BODY[2:-1], pause)
        assert_problem(wire.receive(), 408, "body")
        assert wire.closed()
    assert exchange(daemon.address, GOOD).body == RIGHT


def test_body_below_the_least_rate(start):
    """The rate counts after 5 seconds; a byte a second is too slow by then."""
    daemon = start("--min-body-rate", "10K")
    with Wire(daemon.address) as wire:
        wire.send(request("POST", TARGET, [OCTETS, ("Content-Length", 32)]))
        wire.drip(BODY[:-1], 0.5)
        assert_problem(wire.receive(), 408, "10240 bytes a second")
        assert wire.closed()
    assert exchange(daemon.address, GOOD).body == RIGHT


def test_deadline_passes_while_the_body_arrives(start):
    daemon = start()
    with Wire(daemon.address) as wire:
        wire.send(request("POST", TARGET + "&timeout_ms=300", [OCTETS, ("Content-Length", 32)],
                          BODY[:8]))
        assert_problem(wire.receive(), 504, "deadline")
    assert exchange(daemon.address, GOOD).body == RIGHT


def test_deadline_longer_than_the_longest(start):
    daemon = start("--max-timeout", "500s")
    answer = exchange(daemon.address, request("POST", TARGET + "&timeout_ms=500001",
                                              [OCTETS, ("Content-Length", 32)], BODY))
    assert_problem(answer, 400, "at most 500000", field="timeout_ms")
    answer = exchange(daemon.address, request("POST", TARGET + "&timeout_ms=500000",
                                              [OCTETS, ("Content-Length", 32)], BODY))
    assert answer.body == RIGHT


@pytest.mark.parametrize("options", [("--max-timeout", "0"),
                                     ("--max-timeout", "0", "--timeout", "0")])
def test_any_deadline(options, start):
    daemon = start(*options)
    for timeout in ("", "&timeout_ms=600001", f"&timeout_ms={2**31 - 1}"):
        answer = exchange(daemon.address, request("POST", TARGET + timeout,
                                                  [OCTETS, ("Content-Length", 32)], BODY))
        assert answer.body == RIGHT
    matrix = {"shape": [1, 1], "datatype": "FP32", "data": [2]}
    for timeout, status in ((0, 200), (2147483647000, 200), (2147483647001, 400)):
        asked = {"inputs": [{"name": "A", **matrix}, {"name": "B", **matrix}],
                 "parameters": {"timeout": timeout}}
        answer = daemon.session.post(f"{daemon.url}/v2/models/gemm_fp32/infer", json=asked,
                                     timeout=PATIENCE_S)
        assert answer.status_code == status, answer.text


def test_deadline_passes_in_the_queue(start):
    """A request waits behind a long one until its time is up: 504, and it was not computed."""
    daemon = start("--streams", "1", "--cpu-threads", "1", "--no-cpu-pauses", "--timeout", "600s",
                   "--drain-timeout", "0")
    with Wire(daemon.address) as wire:
        wire.send(endless())
        wait_until(lambda: running(daemon) >= 1, "the long request does not start")
        late = exchange(daemon.address, request("POST", TARGET + "&timeout_ms=1",
                                                [OCTETS, ("Content-Length", 32)], BODY))
        assert_problem(late, 504, "deadline", field=None)


def running(daemon):
    text = daemon.session.get(f"{daemon.url}/metrics").text
    return sum(float(line.split()[-1]) for line in text.splitlines()
               if line.startswith("gemmd_requests_running"))


def test_tokens(start, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("alice:a-secret-of-alice\na-plain-secret-01\n")
    tokens.chmod(0o600)
    daemon = start("--token-file", tokens, ready=False).wait_until_listening().wait_until_ready()
    body = request("POST", TARGET, [OCTETS, ("Content-Length", 32)], BODY)
    answer = exchange(daemon.address, body)
    assert_problem(answer, 401, "Bearer")
    assert answer.headers["www-authenticate"] == "Bearer"
    for wrong in ("Bearer nonsense", "Bearer a-secret-of-alic", "Bearer a-secret-of-alicex",
                  "Basic YTpi", "a-secret-of-alice", "Bearer", "Bearer alice:a-secret-of-alice"):
        data = body.replace(b"Host:", b"Authorization: " + wrong.encode() + b"\r\nHost:")
        assert_problem(exchange(daemon.address, data), 401)
    for right in ("Bearer a-secret-of-alice", "bearer a-plain-secret-01"):
        data = body.replace(b"Host:", b"Authorization: " + right.encode() + b"\r\nHost:")
        assert exchange(daemon.address, data).body == RIGHT
    for path in ("/livez", "/readyz"):
        assert exchange(daemon.address, request("GET", path)).status == 200, "open to probes"
    daemon.terminate()
    daemon.wait()
    said = f"{daemon.lines}{daemon.stderr()}"
    assert "secret" not in said.replace(str(tokens), ""), "a token is in the log"


@pytest.mark.parametrize("size", [300_000, 1 << 20])
def test_a_refused_body_keeps_the_connection(size, address):
    """Up to 1 MiB, which is read and dropped."""
    with Wire(address) as wire:
        for _ in range(3):
            wire.send(request("POST", "/nowhere", [("Content-Length", size)], bytes(size)))
            assert wire.receive().status == 404


@pytest.mark.parametrize("options, asked, status, says", [
    (["--max-body", "1M"], ("PUT", "/tensors/x?shape=1024,1024"), 413,
     "the body would be 4 MiB; --max-body is 1 MiB"),
    (["--max-body", "1M"], ("POST", "/gemm?m=500&n=500&k=500"), 413,
     r"the body would be 1.91 MiB \(2000000 bytes\); --max-body is 1 MiB"),
    (["--max-body", "1G"], ("POST", "/gemm?m=1&n=100000&k=200000"), 413,
     r"^B would be 74.5 GiB \(80000000000 bytes\); --max-body is 1 GiB$"),
    (["--max-body", "1G"], ("POST", "/gemm?m=2147483647&n=2147483647&k=2147483647&batch=4"), 413,
     "does not fit in 64 bits; --max-body is 1 GiB"),
    (["--tensor-bytes", "1M"], ("PUT", "/tensors/x?shape=1024,1024"), 507,
     "4 MiB needed, 1 MiB free .--tensor-bytes."),
    (["--max-work", "2000000000"], ("POST", "/gemm?m=1000&n=1000&k=1001"), 413,
     "would take 2.002 GFLOP; --max-work is 2 GFLOP .floating-point operations."),
])
def test_a_refusal_for_size_has_both_numbers_and_the_option(options, asked, status, says, start):
    """In units, before the body is sent."""
    daemon = start(*options)
    method, target = asked
    sizes = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)(?=&|$)", target)}
    length = 4 * 1024 * 1024 if method == "PUT" else min(
        4 * sizes.get("batch", 1) * sizes["k"] * (sizes["m"] + sizes["n"]), 2**63)
    with Wire(daemon.address) as wire:
        wire.send(request(method, target, [OCTETS, ("Content-Length", length), ("Expect", "100-continue")]))
        assert_problem(wire.receive(), status, says)
    assert exchange(daemon.address, GOOD).body == RIGHT


def test_a_tensor_larger_than_an_answer_may_be(start):
    daemon = start("--max-result", "4K")
    assert daemon.session.put(f"{daemon.url}/tensors/x?shape=2048", data=bytes(8192)).status_code == 201
    assert_problem(daemon.session.get(f"{daemon.url}/tensors/x"), 413, "the tensor is 8.*; --max-result is 4 KiB")


def test_jobs_beyond_their_limits(start):
    daemon = start("--max-jobs", "1", "--job-bytes", "4K", "--max-result", "4K")
    headers = {"Prefer": "respond-async"}
    target = f"{daemon.url}/gemm?m=2&n=2&k=2"
    assert daemon.session.post(target, data=BODY, headers=headers).status_code == 202
    assert_problem(daemon.session.post(target, data=BODY, headers=headers), 429,
                   "1 jobs, which is the limit .--max-jobs.")
