"""Clients that leave, deadlines that pass and a daemon that ends, while the device is blocked; and
what tenants may hold. Afterwards everything has been given back."""

import datetime
import math
import re
import select
import signal
import socket
import struct
import threading
import time

import numpy as np
import pytest
import requests

from daemon import PATIENCE_S
from memory import Connection, Memory
from problem import assert_problem
from wire import Wire, exchange, request

OCTETS = ("Content-Type", "application/octet-stream")
BODY = np.arange(8, dtype=np.float32).tobytes()
RIGHT = np.array([6, 7, 26, 31], np.float32).tobytes()
GOOD = request("POST", "/gemm?m=2&n=2&k=2", [OCTETS, ("Content-Length", 32)], BODY)
ASK = request("POST", "/gemm?m=2&n=2&k=2",
              [OCTETS, ("Content-Length", 32), ("Expect", "100-continue")])


def product(m, n, k, query=""):
    length = 2 * (m * k + k * n)
    return request("POST", f"/gemm?m={m}&n={n}&k={k}&dtype=bf16&kernel=naive{query}",
                   [OCTETS, ("Content-Length", length)], bytes(length))


def endless(query=""):
    """Takes minutes, longer than any patience here: what waits for its end fails."""
    return product(16384, 16384, 512, f"&timeout_ms=600000{query}")


def metrics(daemon):
    text = daemon.session.get(f"{daemon.url}/metrics", timeout=PATIENCE_S).text
    return {name: float(value) for name, value in
            re.findall(r"^([a-z_]+(?:\{[^}]*\})?) (\S+)$", text, re.MULTILINE)}


def wait_for(daemon, **expected):
    """Until the metrics are so; `gemmd_` is left out of their names."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        now = metrics(daemon)
        got = {name: now[f"gemmd_{name}"] for name in expected}
        if got == expected:
            return now
        assert time.monotonic() < deadline, f"{got} instead of {expected}"
        time.sleep(0.02)


def wait_until_idle(daemon):
    """Nothing waits, runs or holds anything."""
    return wait_for(daemon, requests_waiting=0, requests_running=0, queue_requests=0,
                    queue_bytes=0, pinned_memory_used_bytes=0, device_memory_used_bytes=0)


@pytest.fixture
def blocked(start, request):
    """A daemon of one thread each whose device computes for minutes; it must end all the same."""
    daemon = start("--cpu-threads", "1", "--no-cpu-pauses", "--io-threads", "1", "--drain-timeout", "0",
                   "--timeout", "600s", *getattr(request, "param", ()))
    with Wire(daemon.address) as blocker:
        blocker.send(endless())
        wait_for(daemon, requests_running=1)
        daemon.blocker = blocker
        yield daemon
        daemon.stop()


def leave(wire, how):
    if how == "reset":
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if how == "half":
        wire.socket.shutdown(socket.SHUT_WR)
    else:
        wire.socket.close()


SLEEPS, POLLS = ("--busy-poll-us", "0"), ("--busy-poll-us", "1000000")


@pytest.mark.parametrize("blocked", [SLEEPS, POLLS], ids=["sleeps", "polls"], indirect=True)
@pytest.mark.parametrize("how", ["close", "reset", "half"])
def test_leaving_the_queue(how, blocked):
    """Their work goes at once, whatever is running, and is never computed."""
    before = metrics(blocked)
    wires = [Wire(blocked.address) for _ in range(40)]
    try:
        for i, wire in enumerate(wires):
            wire.send(product(100, 100, 100, f"&priority={i % 10}"))
        wait_for(blocked, requests_waiting=40, queue_requests=41)
        for wire in wires[::2]:
            leave(wire, how)
        wait_for(blocked, requests_waiting=20, queue_requests=21, client_gone_total=20)
        for wire in wires[1::2]:
            leave(wire, how)
        wait_for(blocked, requests_waiting=0, queue_requests=1, client_gone_total=40, **{
            name: before[f"gemmd_{name}"] for name in (
                "queue_bytes", "pinned_memory_used_bytes", "device_memory_used_bytes", "requests_running")})
    finally:
        for wire in wires:
            wire.socket.close()


JOB = request("POST", "/gemm?m=2&n=2&k=2",
              [OCTETS, ("Content-Length", 32), ("Prefer", "respond-async")], BODY)


@pytest.mark.parametrize("how", ["close", "reset", "half"])
def test_leaving_while_waiting_for_a_job(how, blocked):
    """Nobody is left to tell of its end; the job itself stays, and whoever else waits for it."""
    path = exchange(blocked.address, JOB).headers["location"]
    wires = []
    try:
        for _ in range(10):
            wires.append(Wire(blocked.address))
            wires[-1].send(request("GET", f"{path}/result?wait_ms=600000"))
            wires[-1].wait_until_read()
        # The blocker's connection and ours are open as well.
        wait_for(blocked, connections=12, client_gone_total=0, requests_waiting=1)
        for wire in wires[1:]:
            leave(wire, how)
        wait_for(blocked, connections=3, client_gone_total=9)
        assert blocked.session.get(blocked.url + path).json()["state"] == "queued"
        assert blocked.session.delete(blocked.url + path).json()["state"] == "cancelled"
        assert wires[0].receive().status == 410
    finally:
        for wire in wires:
            wire.socket.close()


def test_retry_after_of_a_job_follows_the_rate(blocked):
    """Where nothing has ended for a while, it is no use to ask again after a second."""
    path = exchange(blocked.address, JOB).headers["location"]
    deadline = time.monotonic() + PATIENCE_S
    while True:
        answer = exchange(blocked.address, request("GET", f"{path}/result"))
        assert answer.status == 409
        seconds = int(answer.headers["retry-after"])
        assert 1 <= seconds <= 60
        if seconds > 1:
            break
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_leaving_with_the_next_request_sent(blocked):
    """Bytes of a further request do not hide that the client has gone."""
    wire = Wire(blocked.address)
    wire.send(GOOD)
    wait_for(blocked, requests_waiting=1)
    wire.send(GOOD)
    wire.socket.close()
    wait_for(blocked, requests_waiting=0, queue_requests=1)


def test_leaving_at_every_stage(start, instrumented):
    """In the head, before and within the body, in the queue, on the device, before and within the
    answer: what was held comes back, the daemon goes on, no descriptor is left."""
    daemon = start("--cpu-threads", "1", "--no-cpu-pauses", "--io-threads", "1")
    wait_until_idle(daemon)
    descriptors = daemon.descriptors()
    side = 250 if instrumented else 500
    running = product(side, side, side)  # some tenths of a second
    large = request("POST", "/gemm?m=1500&n=1500&k=1", [OCTETS, ("Content-Length", 12000)],
                    bytes(12000))
    for how in ("close", "reset", "half"):
        stages = [GOOD[:30], ASK, GOOD[:-7], large, running, running, GOOD]
        if how == "half":  # whoever has an answer on its way may half-close and read on
            stages.remove(large)
        wires = [Wire(daemon.address) for _ in stages]
        try:
            for wire, stage in zip(wires, stages):
                wire.send(stage)
                if stage is large:
                    wire.socket.recv(1)  # its answer has begun
            for wire in wires:
                leave(wire, how)
            wait_until_idle(daemon)
        finally:
            for wire in wires:
                wire.socket.close()
        assert exchange(daemon.address, GOOD).body == RIGHT
    daemon.assert_descriptors(descriptors)


def test_deadline_while_it_runs(start):
    """The answer comes at the deadline, and the product ends; the connection goes on."""
    daemon = start("--cpu-threads", "1", "--no-cpu-pauses", "--drain-timeout", "0")
    side = 16384
    shape = f"dtype=bf16&shape={side},512"
    with Wire(daemon.address) as wire:
        wire.send(request("PUT", f"/tensors/w?{shape}", [OCTETS, ("Content-Length", 1024 * side)],
                          bytes(1024 * side)))
        assert wire.receive().status == 201
        # Without a body, so that it is soon on the device. A deadline before which it was not seen there is too
        # short for this machine.
        for timeout_ms in (1000, 10_000, 50_000):
            wire.send(request("POST", "/gemm?a=w&b=w&transb=1&kernel=naive&dtype=bf16"
                              f"&timeout_ms={timeout_ms}"))
            ran = False
            while not select.select([wire.socket], [], [], 0.02)[0]:
                ran = ran or metrics(daemon)["gemmd_requests_running"] == 1
            answer = wire.receive()
            wait_for(daemon, requests_running=0, queue_requests=0)
            if ran:
                break
        assert ran, "it never ran"
        assert_problem(answer, 504, "deadline passed while the device worked on the request")
        wire.send(request("GET", "/livez"))
        assert wire.receive().status == 200


def test_deadline_behind_a_blocked_device(blocked):
    """Each at its own time, in no order, on kept connections."""
    with Wire(blocked.address) as late, Wire(blocked.address) as later:
        later.send(product(10, 10, 10, "&timeout_ms=500"))
        late.send(product(10, 10, 10, "&timeout_ms=1"))
        for wire in (late, later):
            assert_problem(wire.receive(), 504, "deadline passed while the request was queued")
            wire.send(request("GET", "/livez"))
            assert wire.receive().status == 200
        wait_for(blocked, requests_waiting=0, queue_requests=1)


def test_deadlines_of_tensors(start, tmp_path):
    """They cannot name one: the daemon's holds."""
    config = tmp_path / "gemmd.json"
    config.write_text('{"timeout": "600s"}')
    daemon = start("--backend", "cpu", "--cpu-threads", "1", "--no-cpu-pauses", "--drain-timeout", "0",
                   "--config", config)
    put = {"params": {"shape": "4"}, "data": bytes(16), "timeout": PATIENCE_S}
    assert daemon.session.put(f"{daemon.url}/tensors/w", **put).status_code == 201
    with Wire(daemon.address) as blocker:
        blocker.send(endless())
        wait_for(daemon, requests_running=1)
        config.write_text('{"timeout": "300ms"}')
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_for(lambda lines: any("reloaded" in str(line.get("message")) for line in lines), "the reload")
        npy = {"Accept": "application/x-npy"}  # the CPU backend sends a raw answer without a copy by the device
        for answer in (daemon.session.get(f"{daemon.url}/tensors/w", headers=npy, timeout=PATIENCE_S),
                       daemon.session.put(f"{daemon.url}/tensors/x", **put)):
            assert_problem(answer, 504, "deadline passed")
    wait_until_idle(daemon)
    assert daemon.session.get(f"{daemon.url}/tensors/x", timeout=PATIENCE_S).status_code == 404


def test_results_after_the_deadline_are_dropped(start):
    """The late one's memory stays until its product has ended, then goes."""
    daemon = start("--cpu-threads", "1", "--no-cpu-pauses")
    with Wire(daemon.address) as wire:
        wire.send(product(500, 500, 500, "&timeout_ms=50"))
        assert_problem(wire.receive(), 504)
        wire.send(GOOD)
        assert wire.receive().body == RIGHT, "and not the late result"
    wait_until_idle(daemon)


def test_a_drain_does_not_wait_for_a_running_product(blocked):
    """Past its time all are answered, those on the device too, and the daemon ends with status 0."""
    with Wire(blocked.address) as waiting:
        waiting.send(GOOD)
        wait_for(blocked, requests_waiting=1)
        blocked.terminate()
        for wire in (waiting, blocked.blocker):
            answer = wire.receive()
            assert_problem(answer, 503, "shutting down")
            assert int(answer.headers["retry-after"]) >= 1
        assert blocked.wait() == 0


def test_a_thousand_wait_and_one_reads_slowly(start):
    """Neither holds up the other, nor an upload, nor the daemon's word about itself."""
    daemon = start("--cpu-threads", "1", "--no-cpu-pauses", "--io-threads", "1", "--drain-timeout", "0",
                   "--timeout", "600s", "--header-timeout", "600s", "--min-answer-rate", "0")
    wires = []
    with Wire(daemon.address) as reader, Wire(daemon.address) as blocker:
        try:
            reader.send(product(3000, 3000, 1))  # 18 MB, more than sockets hold
            reader.socket.recv(1, socket.MSG_PEEK)
            blocker.send(endless())
            wait_for(daemon, requests_running=1)
            for _ in range(1000):
                wires.append(Wire(daemon.address))
                wires[-1].send(GOOD)
            wait_for(daemon, requests_waiting=1000)
            data = product(300, 300, 300)
            wires.append(Wire(daemon.address))
            for i in range(0, len(data), 10000):
                wires[-1].send(data[i:i + 10000])
            wait_for(daemon, requests_waiting=1001)
            assert exchange(daemon.address, request("GET", "/livez")).status == 200
            assert reader.receive().body == bytes(2 * 3000 * 3000)
            for wire in wires:
                wire.socket.close()
            wait_for(daemon, requests_waiting=0, queue_requests=1, client_gone_total=1001)
        finally:
            for wire in wires:
                wire.socket.close()


@pytest.fixture
def tenants(start, tmp_path):
    """A daemon with two of them, who may hold two requests and 200 KiB each."""
    tokens = tmp_path / "tokens"
    tokens.write_text("alice:the-token-of-alice\nbob:the-token-of-bob\nalice:another-of-alice\n")
    tokens.chmod(0o600)
    daemon = start("--token-file", tokens, "--tenant-requests", "2", "--tenant-bytes", "200K",
                   "--queue-requests", "3", "--metrics-tenant", "bob", ready=False)
    daemon.wait_until_listening().wait_until_ready()
    daemon.session.headers["Authorization"] = "Bearer the-token-of-bob"
    return daemon


def signed(data, token):
    return data.replace(b"\r\n", f"\r\nAuthorization: Bearer {token}\r\n".encode(), 1)


def test_tenants_are_held_to_their_own_limits(tenants):
    """By count, whichever of his tokens he uses; others have their places all the same."""
    wires = []

    def ask(token, status):
        wires.append(Wire(tenants.address))
        wires[-1].send(signed(ASK, token))
        answer = wires[-1].receive()
        assert answer.status == status
        return answer

    try:
        ask("the-token-of-alice", 100)
        ask("another-of-alice", 100)
        answer = ask("the-token-of-alice", 429)
        assert_problem(answer, 429, "tenant-requests")
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        ask("the-token-of-bob", 100)
        assert_problem(ask("the-token-of-bob", 429), 429, "queue-requests")
        now = metrics(tenants)
        assert now['gemmd_tenant_requests{tenant="alice"}'] == 2
        assert now['gemmd_tenant_requests{tenant="bob"}'] == 1
        assert now['gemmd_tenant_bytes{tenant="alice"}'] == 2 * (32 + 16)
        assert now['gemmd_queue_refused_total{limit="tenant-requests"}'] == 1
        assert now['gemmd_queue_refused_total{limit="queue-requests"}'] == 1
        for wire in (wires[0], wires[1], wires[3]):
            wire.send(BODY)
            assert wire.receive().body == RIGHT
        wait_for(tenants, queue_requests=0, **{'tenant_requests{tenant="alice"}': 0, 'tenant_bytes{tenant="bob"}': 0})
    finally:
        for wire in wires:
            wire.socket.close()


def test_tenants_are_held_to_their_own_bytes(tenants):
    half = request("POST", "/gemm?m=100&n=100&k=120",
                   [OCTETS, ("Content-Length", 96000), ("Expect", "100-continue")])
    with Wire(tenants.address) as first, Wire(tenants.address) as second, \
            Wire(tenants.address) as other:
        first.send(signed(half, "the-token-of-alice"))
        assert first.receive().status == 100
        second.send(signed(half, "the-token-of-alice"))
        assert_problem(second.receive(), 429, "133 KiB .136000 bytes. of 200 KiB are taken.*--tenant-bytes")
        other.send(signed(half, "the-token-of-bob"))
        assert other.receive().status == 100
    limits = tenants.session.get(f"{tenants.url}/info").json()["limits"]
    assert (limits["tenant-requests"], limits["tenant-bytes"]) == (2, 200 * 1024)


def begin_ms(line):
    """When the device began with the request of a line of the log."""
    if "queue_ms" not in line:
        return 0.0
    ended = datetime.datetime.fromisoformat(line["time"].replace("Z", "+00:00")).timestamp() * 1000
    return ended - line["total_ms"] + line["receive_ms"] + line["queue_ms"]


@pytest.mark.parametrize("where", ["resident", "memory"])
def test_operands_that_do_not_travel_count_as_well(where, start, tmp_path, rng):
    """The same products: who has the operands on the device, or in memory that it shares with the
    daemon, does not pass the other who sends them."""
    side, each = 192, 8
    tokens = tmp_path / "tokens"
    tokens.write_text("alice:the-token-of-alice\nbob:the-token-of-bob\ncarol:the-token-of-carol\n")
    tokens.chmod(0o600)
    daemon = start("--backend", "cpu", "--cpu-threads", "1", "--no-cpu-pauses", "--token-file", tokens,
                   "--timeout", "600s", ready=False,
                   listen=("127.0.0.1:0", f"unix:{tmp_path / 's'}"))
    daemon.wait_until_listening(2).wait_until_ready()
    daemon.session.headers["Authorization"] = alice = "Bearer the-token-of-alice"
    operands = rng.uniform(-1, 1, (2, side, side)).astype(np.float32)
    target = f"/gemm?m={side}&n={side}&k={side}&kernel=naive"
    for name in "ab":
        daemon.session.put(f"{daemon.url}/tensors/{name}?shape={side},{side}",
                           operands[0].tobytes())
    wrong = []

    def elsewhere(number):
        name = f"alice-{number}"
        if where == "resident":
            answer = requests.post(f"{daemon.url}{target}&a=a&b=b&store=c{number}", timeout=PATIENCE_S,
                                   headers={"Authorization": alice, "X-Request-Id": name})
            wrong.extend([name] * (answer.status_code != 201))
        else:
            with Memory(3 * operands[0].nbytes) as memory, \
                    Connection(daemon.addresses[1], [memory.fd]) as connection:
                memory.put(0, operands)
                places = f"a=0, b={operands[0].nbytes}, c={operands.nbytes}"
                status = connection.post(target, Authorization=alice, Gemmd_Memory=places, X_Request_Id=name)[0]
                wrong.extend([name] * (status != 200))

    def sent(number):
        name = f"bob-{number}"
        answer = requests.post(f"{daemon.url}{target}", operands.tobytes(), timeout=PATIENCE_S, headers={
            "Authorization": "Bearer the-token-of-bob", "X-Request-Id": name})
        wrong.extend([name] * (answer.status_code != 200))

    blocker = Wire(daemon.address)
    blocker.send(signed(endless(), "the-token-of-carol"))
    wait_for(daemon, requests_running=1)
    threads = [threading.Thread(target=call, args=(i,)) for call in (elsewhere, sent)
               for i in range(each)]
    for thread in threads:
        thread.start()
    wait_for(daemon, requests_waiting=2 * each)
    blocker.socket.close()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not wrong
    daemon.stop()
    begun = [name.partition("-")[0] for line in sorted(daemon.lines, key=begin_ms)
             if (name := str(line.get("request_id"))).startswith(("alice-", "bob-"))]
    assert len(begun) == 2 * each and 3 <= begun[:each].count("bob") <= 5, begun


def test_retry_after_follows_the_rate(start):
    """Behind a device that takes its time the daemon does not say one second, and not the same to
    all: up to half of its estimate is added at random."""
    daemon = start("--cpu-threads", "1", "--no-cpu-pauses", "--io-threads", "1", "--queue-requests", "1",
                   "--drain-timeout", "0")

    def asked():
        answer = exchange(daemon.address, GOOD)
        assert_problem(answer, 429, "queue-requests")
        return int(answer.headers["retry-after"])

    with Wire(daemon.address) as blocker:
        begun = time.monotonic()
        blocker.send(endless())
        wait_for(daemon, requests_running=1)
        said = [0]
        deadline = time.monotonic() + PATIENCE_S
        while said[-1] < 6:  # nothing has ever ended: as long again as it has been by now
            assert time.monotonic() < deadline, f"it said {said}"
            said.append(asked())
            assert said[-1] >= max(said) * 2 // 3, f"it said {said}"
            time.sleep(0.1)
        together = [asked() for _ in range(60)]
        assert len(set(together)) >= 3, f"clients that are refused together were told {together}"
        assert max(together) <= math.ceil(time.monotonic() - begun) * 3 // 2, "more than a half is added"


def test_many_leave_while_others_stay(start):
    """A storm of clients of whom every second leaves: the others' answers are right."""
    daemon = start("--cpu-threads", "1", "--no-cpu-pauses", "--io-threads", "2")
    answers = []

    def client(number):
        for i in range(40):
            with Wire(daemon.address) as wire:
                wire.send(product(60, 60, 60))
                if (number + i) % 2 == 0:
                    time.sleep((number * 7 + i) % 10 * 0.003)
                else:
                    answers.append(wire.receive())

    threads = [threading.Thread(target=client, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 16 * 20
    assert all(answer.status == 200 and answer.body == bytes(7200) for answer in answers)
    wait_until_idle(daemon)
