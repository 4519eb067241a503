"""What one tenant or one slow client can hold: others must be served all the same."""

import json
import re
import select
import threading
import time
from multiprocessing import shared_memory

import numpy as np
import pytest

from daemon import PATIENCE_S
from problem import assert_problem
from test_reload import reload
from wire import Wire, exchange, request

OCTETS = ("Content-Type", "application/octet-stream")
SMALL = "/gemm?m=2&n=2&k=2"
BODY = np.arange(8, dtype=np.float32).tobytes()
RIGHT = np.array([6, 7, 26, 31], np.float32).tobytes()
TOKENS = {name: f"the-token-of-{name}" for name in ("alice", "bob", "watcher")}
LOW_TOKEN = "the-low-token-of-alice"
# The daemon judges rates from 5 seconds on.
GRACE_S = 5


def signed(tenant, method, target, headers=(), body=b"", announced=None, token=None):
    """A request of a tenant; `announced` is the Content-Length of a body that is sent later."""
    length = len(body) if announced is None else announced
    if method == "POST":
        headers = [*headers, ("Content-Length", length)]
    return request(method, target,
                   [("Authorization", f"Bearer {token or TOKENS[tenant]}"), OCTETS, *headers], body)


@pytest.fixture
def shared(start, tmp_path):
    """Starts a daemon that three tenants share."""
    def start_shared(*arguments):
        tokens = tmp_path / "tokens"
        tokens.write_text("".join(f"{name}:{token}\n" for name, token in TOKENS.items())
                          + f"alice:{LOW_TOKEN} max-priority=1\n")
        tokens.chmod(0o600)
        daemon = start("--token-file", tokens, *arguments, ready=False)
        daemon.wait_until_listening().wait_until_ready()
        daemon.session.headers["Authorization"] = f"Bearer {TOKENS['watcher']}"
        return daemon
    return start_shared


def scrape(daemon, tenant="watcher"):
    return exchange(daemon.address, signed(tenant, "GET", "/metrics")).body.decode()


def value(text, name):
    return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)[1])


def eventually(condition, what):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def serves(daemon, tenant):
    answer = exchange(daemon.address, signed(tenant, "POST", SMALL, body=BODY))
    return answer.status == 200 and answer.body == RIGHT


def test_answers_that_nobody_reads(shared, tmp_path):
    """Three of them are the tenant's share. Another tenant is served, and a client of that tenant
    reads a large answer slowly to its end, while the unread answers are ended, over TCP and over a
    Unix socket."""
    config = tmp_path / "gemmd.json"
    config.write_text('{"min-answer-rate": 0}')  # until all of them are seen
    daemon = shared("--pinned-bytes", "64M", "--max-body", "1M", "--max-result", "20M",
                    "--config", config, "--listen", f"unix:{tmp_path}/gemmd")
    rows, columns = 2048, 1024
    target = f"/gemm?m={rows}&n={columns}&k=1"
    operands = np.ones(rows + columns, np.float32).tobytes()
    ask = signed("alice", "POST", target, body=operands)
    wires = [Wire(daemon.address) for _ in range(3)]
    slow = Wire(daemon.address)
    try:
        for wire in wires:
            wire.send(ask)
        eventually(lambda: value(scrape(daemon), "gemmd_queue_bytes") == 3 * rows * columns * 4,
                   "the answers that are being sent do not count as held")
        answer = exchange(daemon.address, ask)
        assert_problem(answer, 429, "this tenant's part of the queue.*tenant-bytes")
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        assert serves(daemon, "alice"), "a request within the share"

        config.write_text('{"min-answer-rate": "64K", "body-timeout": "60s"}')
        reload(daemon)
        wires.append(Wire(f"{tmp_path}/gemmd"))
        wires[-1].send(signed("watcher", "POST", target, body=operands))
        slow.send(signed("bob", "POST", f"/gemm?m={2 * rows}&n={columns}&k=1",
                         body=np.ones(2 * rows + columns, np.float32).tobytes()))
        begun, total = time.monotonic(), 2 * rows * columns * 4
        while len(slow.buffer) < total:
            due = total * (time.monotonic() - begun) / (GRACE_S + 1.5)
            if len(slow.buffer) < due:
                slow.buffer += slow.socket.recv(256 * 1024)
            else:
                time.sleep(0.05)
        answer = slow.receive()
        assert answer.status == 200
        assert np.all(np.frombuffer(answer.body, np.float32) == 1)
        eventually(lambda: value(scrape(daemon), "gemmd_queue_bytes") == 0,
                   "the unread answers keep their places")
        eventually(lambda: value(scrape(daemon), "gemmd_pinned_memory_used_bytes") < rows * columns,
                   "the unread answers keep their memory")
        assert exchange(daemon.address, ask).status == 200
    finally:
        for wire in (*wires, slow):
            wire.socket.close()


def test_downloads_that_nobody_reads(shared):
    """They are held as well: a resident tensor that is sent, and the result of a deleted job."""
    daemon = shared("--metrics-tenant", "watcher")
    rows, columns = 4096, 1024
    tensor = np.zeros((rows, columns), np.float32)
    answer = exchange(daemon.address, signed(
        "alice", "PUT", f"/tensors/w?shape={rows},{columns}", [("Content-Length", tensor.nbytes)],
        tensor.tobytes()))
    assert answer.status == 201
    with Wire(daemon.address) as wire:
        wire.send(signed("alice", "GET", "/tensors/w"))
        eventually(lambda: value(scrape(daemon), 'gemmd_tenant_bytes{tenant="alice"}')
                   == tensor.nbytes, "the download does not count as held")
    eventually(lambda: value(scrape(daemon), "gemmd_queue_bytes") == 0, "it is held for ever")

    job = exchange(daemon.address, signed(
        "alice", "POST", f"/gemm?m={rows}&n={columns}&k=1", [("Prefer", "respond-async")],
        np.ones(rows + columns, np.float32).tobytes())).headers["location"]
    with Wire(daemon.address) as wire:
        wire.send(signed("alice", "GET", f"{job}/result?wait_ms=60000"))
        assert b" 200 " in wire.socket.recv(100)
        assert exchange(daemon.address, signed("alice", "DELETE", job)).status == 200
        assert value(scrape(daemon), 'gemmd_tenant_jobs{tenant="alice"}') == 0
        assert value(scrape(daemon), 'gemmd_tenant_job_bytes{tenant="alice"}') == tensor.nbytes
    eventually(lambda: value(scrape(daemon), "gemmd_job_bytes") == 0, "it is kept for ever")


def test_announced_bodies_that_hardly_arrive(shared, tmp_path):
    """Their reservations are the tenant's share at most, and end when the bodies cannot be complete
    in time. A slow body that can be complete in time is received."""
    config = tmp_path / "gemmd.json"
    config.write_text('{"min-body-rate": 0}')  # until the reservation is seen
    daemon = shared("--pinned-bytes", "64M", "--max-body", "24M", "--max-result", "8M", "--config", config)
    side = 2048
    head = signed("alice", "POST", f"/gemm?m={side}&n=1&k={side}", [("Expect", "100-continue")],
                  announced=4 * (side * side + side))  # more than 16 of 32 MiB
    honest_side = 256
    honest_body = np.ones((honest_side + 1) * honest_side, np.float32).tobytes()
    wire = Wire(daemon.address)
    honest = Wire(daemon.address)
    try:
        wire.send(head)
        assert wire.receive().status == 100
        refused = exchange(daemon.address, head)
        assert_problem(refused, 429, "tenant-bytes")
        assert serves(daemon, "bob"), "another tenant"

        config.write_text("{}")
        reload(daemon)
        honest.send(signed("bob", "POST", f"/gemm?m={honest_side}&n=1&k={honest_side}",
                           announced=len(honest_body)))
        begun, sent = time.monotonic(), 0
        while sent < len(honest_body):
            due = int(len(honest_body) * (time.monotonic() - begun) / (GRACE_S + 1.5))
            honest.send(honest_body[sent:due])
            sent = max(sent, min(due, len(honest_body)))
            if not select.select([wire.socket], [], [], 0)[0]:  # what is sent behind an answer could reset it
                wire.send(b"\0" * 550)
            time.sleep(0.25)
        answer = honest.receive()
        assert answer.status == 200
        assert np.all(np.frombuffer(answer.body, np.float32) == honest_side)
        assert_problem(wire.receive(), 408, "would miss its deadline")
        eventually(lambda: value(scrape(daemon), "gemmd_queue_requests") <= 1,
                   "a body that cannot be complete in time keeps its place")
        assert value(scrape(daemon), 'gemmd_queue_refused_total{limit="tenant-bytes"}') >= 1
    finally:
        wire.socket.close()
        honest.socket.close()


def test_a_request_larger_than_the_share(shared):
    """A tenant that holds nothing else may use all of the limits for one request."""
    daemon = shared("--pinned-bytes", "64M", "--max-body", "60M", "--max-result", "4M")
    rows = 12 * 1024
    body = np.ones(rows * 1024 + 1024, np.float32).tobytes()
    answer = exchange(daemon.address,
                      signed("alice", "POST", f"/gemm?m={rows}&n=1&k=1024", body=body))
    assert answer.status == 200
    assert np.all(np.frombuffer(answer.body, np.float32) == 1024)


def test_requests_of_one_tenant(shared):
    daemon = shared("--queue-requests", "4")
    limits = daemon.session.get(f"{daemon.url}/info").json()["limits"]
    assert (limits["tenant-share"], limits["tenant-requests"]) == (50, 2)
    head = [signed(tenant, "POST", SMALL, [("Expect", "100-continue")], announced=32)
            for tenant in ("alice", "bob")]
    with Wire(daemon.address) as one, Wire(daemon.address) as two, Wire(daemon.address) as other:
        for wire in (one, two):
            wire.send(head[0])
            assert wire.receive().status == 100
        assert_problem(exchange(daemon.address, head[0]), 429, "tenant-requests")
        other.send(head[1])
        assert other.receive().status == 100


def test_given_limits_of_a_tenant_are_kept(shared):
    """0 means what it meant before there was a share."""
    daemon = shared("--queue-requests", "2", "--tenant-requests", "0", "--tenant-bytes", "0")
    head = signed("alice", "POST", SMALL, [("Expect", "100-continue")], announced=32)
    with Wire(daemon.address) as one, Wire(daemon.address) as two:
        for wire in (one, two):
            wire.send(head)
            assert wire.receive().status == 100


def slow(tenant, priority=None, headers=(), token=None):
    """A request for a product of tensors that takes the CPU milliseconds, and has no body. A transposed A keeps the
    product out of stacks."""
    target = f"/gemm?a=a-of-{tenant}&b=b-of-{tenant}&transa=1&kernel=naive"
    return signed(tenant, "POST", target if priority is None else f"{target}&priority={priority}", headers,
                  token=token)


def with_tensors(daemon, instrumented):
    """Gives tenants the operands of `slow`, which a sanitizer makes slower by itself."""
    k = 4096 if instrumented else 32768
    body = np.ones(16 * k, np.float32).tobytes()
    for tenant in ("alice", "bob"):
        for name in "ab":
            answer = exchange(daemon.address, signed(
                tenant, "PUT", f"/tensors/{name}-of-{tenant}?shape={k},16", [("Content-Length", len(body))], body))
            assert answer.status == 201, answer.body


def state_of_jobs(daemon, tenant):
    answer = exchange(daemon.address, signed(tenant, "GET", "/jobs"))
    assert answer.status == 200
    return json.loads(answer.body)["jobs"]


def test_a_priority_takes_nothing_from_another_tenant(shared, instrumented):
    """Of 24 connections that ask at the highest priority without a pause, about one is answered for each request of
    another tenant. The flood ends by itself: if it goes first, it is over before the other has its answers."""
    daemon = shared("--backend", "cpu", "--tensor-bytes", "16M")
    with_tensors(daemon, instrumented)
    flooded, over = [], threading.Event()

    def flood():
        with Wire(daemon.address) as wire:
            for _ in range(20):
                if not over.is_set():
                    wire.send(slow("alice", 9))
                    flooded.append(wire.receive().status)

    threads = [threading.Thread(target=flood) for _ in range(24)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(flooded) >= 24, "the flood has begun")
    before = len(flooded)
    with Wire(daemon.address) as wire:
        for _ in range(20):
            wire.send(slow("bob"))
            assert wire.receive().status == 200
    between = len(flooded) - before
    over.set()
    for thread in threads:
        thread.join()
    assert set(flooded) == {200}
    assert between <= 3 * 20 + 24, "the flood had more than its share"


def test_jobs_of_a_high_priority_take_nothing_from_another_tenant(shared, instrumented):
    daemon = shared("--backend", "cpu", "--tensor-bytes", "16M", "--max-jobs", "400", "--queue-requests", "1000")
    with_tensors(daemon, instrumented)
    with Wire(daemon.address) as flood, Wire(daemon.address) as wire:
        for _ in range(200):
            flood.send(slow("alice", 9, [("Prefer", "respond-async")]))
            assert flood.receive().status == 202
        before = sum(job["state"] == "done" for job in state_of_jobs(daemon, "alice"))
        for _ in range(10):
            wire.send(slow("bob"))
            assert wire.receive().status == 200
        after = sum(job["state"] == "done" for job in state_of_jobs(daemon, "alice"))
    assert before < 160, "the jobs were done before the other tenant asked"
    assert after - before <= 2 * 10 + 10, "the jobs had more than their share"


@pytest.mark.parametrize("low, high, token", [(2, 7, None), (None, 2, LOW_TOKEN)], ids=["named", "of_the_token"])
def test_a_priority_orders_the_requests_of_its_tenant(shared, instrumented, low, high, token):
    """While another tenant has requests of a higher priority. A request that names no priority has the highest that
    its token allows, if that is lower than the default."""
    daemon = shared("--backend", "cpu", "--tensor-bytes", "16M", "--max-jobs", "240")
    with_tensors(daemon, instrumented)

    def push(tenant, priority, name, count, token=None):
        for _ in range(count):
            headers = [("Prefer", "respond-async"), ("X-Request-Id", name)]
            assert exchange(daemon.address, slow(tenant, priority, headers, token)).status == 202

    push("bob", 9, "other", 40)
    push("alice", low, "low", 20, token)
    push("alice", high, "high", 20)
    eventually(lambda: all(job["state"] == "done" for job in state_of_jobs(daemon, "alice")), "the jobs of alice")
    waited = {name: sorted(job["queued_ms"] for job in state_of_jobs(daemon, "alice") if job["request_id"] == name)
              for name in ("low", "high")}
    # Those of the low priority that began before the first of the high one had come do not count.
    assert waited["high"][10] < waited["low"][10], "the later ones of a higher priority did not go first"


def as_job(tenant, side=2):
    return signed(tenant, "POST", f"/gemm?m={side}&n={side}&k=1", [("Prefer", "respond-async")],
                  body=np.ones(2 * side, np.float32).tobytes())


def test_gathered_sequences_count_for_their_tenant(shared):
    """Attentions that wait for the device hold the memory in which the pages of their sequence are gathered. Pages
    of heads of 24 elements do not follow one another without gaps, so that they are always gathered."""
    daemon = shared("--tensor-bytes", "64M", "--cpu-threads", "1", "--no-cpu-pauses", "--timeout", "600s")
    positions, side = 1 << 16, 640
    answer = exchange(daemon.address, signed("alice", "PUT", "/sequences/s?kv_heads=1&d=24", [("Content-Length", 0)]))
    assert answer.status == 201
    rows = bytes(positions * 2 * 24 * 2)  # 6 MiB, of whose pages 8 MiB are allocated
    assert exchange(daemon.address, signed("alice", "POST", "/sequences/s/append?position=0",
                                           body=rows)).status == 200
    later = [("Prefer", "respond-async")]
    blockers = [exchange(daemon.address, signed(
        "alice", "POST", f"/gemm?m={side}&n={side}&k={side}&kernel=naive&priority=9", later,
        bytes(8 * side * side))).headers["location"] for _ in range(3)]
    asked = [exchange(daemon.address, signed("alice", "POST", "/attention?sequence=s&heads=1&sq=1&priority=0", later,
                                             bytes(48))) for _ in range(8)]
    assert [answer.status for answer in asked] == [202] * 3 + [507] * 5
    assert_problem(asked[-1], 507, "gathers the pages of the sequence.*of this tenant's 32 MiB")
    answer = exchange(daemon.address, signed("bob", "PUT", f"/tensors/t?shape={30 << 20}&dtype=i8",
                                             [("Content-Length", 30 << 20)], bytes(30 << 20)))
    assert answer.status == 201, answer.body
    for job in blockers:
        assert exchange(daemon.address, signed("alice", "DELETE", job)).status == 200
    for answer in asked[:3]:
        result = exchange(daemon.address, signed("alice", "GET",
                                                 f"{answer.headers['location']}/result?wait_ms=60000"))
        assert result.status == 200
    answer = exchange(daemon.address, signed("alice", "POST", "/attention?sequence=s&heads=1&sq=1", body=bytes(48)))
    assert answer.status == 200, "the memory is free again"


def test_jobs_of_one_tenant(shared):
    daemon = shared("--max-jobs", "8", "--metrics-tenant", "watcher")
    for _ in range(4):
        assert exchange(daemon.address, as_job("alice")).status == 202
    answer = exchange(daemon.address, as_job("alice"))
    assert_problem(answer, 429, "this tenant has 4 jobs")
    assert 1 <= int(answer.headers["retry-after"]) <= 60
    for _ in range(4):
        answer = exchange(daemon.address, as_job("bob"))
        assert answer.status == 202
    seen = scrape(daemon)
    assert value(seen, 'gemmd_tenant_jobs{tenant="alice"}') == 4
    assert value(seen, 'gemmd_queue_refused_total{limit="tenant-jobs"}') == 1
    job = answer.headers["location"]
    assert exchange(daemon.address, signed("bob", "DELETE", job)).status == 200
    eventually(lambda: exchange(daemon.address, as_job("bob")).status == 202,
               "a deleted job keeps its place")


def test_bytes_of_jobs_of_one_tenant(shared):
    daemon = shared("--job-bytes", "64K", "--metrics-tenant", "watcher")
    for _ in range(2):
        assert exchange(daemon.address, as_job("alice", 64)).status == 202
    assert_problem(exchange(daemon.address, as_job("alice", 64)), 429,
                   "results of this tenant's jobs take 32 KiB of 32 KiB .--tenant-share of --job-bytes.")
    assert exchange(daemon.address, as_job("bob", 100)).status == 429, "no room is left for this"
    assert exchange(daemon.address, as_job("bob", 64)).status == 202
    assert value(scrape(daemon), 'gemmd_tenant_job_bytes{tenant="alice"}') == 2 * 64 * 64 * 4


def test_tensors_of_one_tenant(shared):
    daemon = shared("--tensor-bytes", "64K")

    def put(tenant, name):
        data = signed(tenant, "PUT", f"/tensors/{name}?shape=64,64",
                      [("Content-Length", 16384)], bytes(16384))
        return exchange(daemon.address, data)

    assert put("alice", "a1").status == 201
    assert put("alice", "a2").status == 201
    assert_problem(put("alice", "a3"), 507)
    assert put("bob", "b1").status == 201


def test_regions_of_one_tenant(shared):
    daemon = shared("--shm-system", "--shm-regions", "4")
    memory = shared_memory.SharedMemory(create=True, size=4096)
    try:
        def register(tenant, name):
            body = json.dumps({"key": f"/{memory.name.lstrip('/')}", "byte_size": 4096}).encode()
            return exchange(daemon.address, signed(
                tenant, "POST", f"/v2/systemsharedmemory/region/{name}/register", body=body))

        for tenant in ("alice", "bob"):
            assert register(tenant, "one").status == 200
            assert register(tenant, "two").status == 200
            if tenant == "alice":
                assert_problem(register(tenant, "three"), 507, "this tenant's shared memory")
    finally:
        memory.close()
        memory.unlink()


def test_streams_of_one_tenant(shared):
    """A tenant may have half of the 64 streams of events."""
    daemon = shared()
    wires = []

    def stream(tenant):
        wires.append(Wire(daemon.address))
        wires[-1].send(signed(tenant, "GET", "/dashboard/events"))
        return int(wires[-1].socket.recv(15)[9:12])

    try:
        assert [stream("alice") for _ in range(32)] == [200] * 32
        assert stream("alice") == 429, "a tenant has more streams than its share"  # an answer of 200 would never end
        refusal = exchange(daemon.address, signed("alice", "GET", "/dashboard/events"))
        assert_problem(refusal, 429)
        assert b"--tenant-share" in refusal.body
        assert [stream("bob") for _ in range(32)] == [200] * 32
        assert stream("watcher") == 429, "there are 64"
    finally:
        for wire in wires:
            wire.socket.close()
    eventually(lambda: stream("alice") == 200, "the streams are free again")


def test_metrics_name_no_other_tenant(shared):
    daemon = shared("--metrics-tenant", "watcher")
    for tenant in ("alice", "bob"):
        seen = scrape(daemon, tenant)
        assert set(re.findall(r'tenant="([^"]*)"', seen)) == {tenant}
        assert value(seen, "gemmd_queue_requests") == 0, "the totals of the daemon"
    assert set(re.findall(r'tenant="([^"]*)"', scrape(daemon))) == set(TOKENS)


def test_requests_and_device_time_by_tenant(shared):
    """Of all that has ended, and of the device's time as a whole, each tenant has its own part."""
    daemon = shared("--metrics-tenant", "watcher")
    before = scrape(daemon)
    for tenant, requests in (("alice", 5), ("bob", 2)):
        for i in range(requests):
            answer = exchange(daemon.address, signed(tenant, "POST", SMALL, body=BODY))
            assert (answer.status, answer.body) == (200, RIGHT), i
    assert exchange(daemon.address, signed("bob", "GET", "/tensors/none")).status == 404

    def counted(name, tenant):
        now, then = (value(text, f'gemmd_tenant_{name}{{tenant="{tenant}"}}') for text in (scrape(daemon), before))
        return now - then

    eventually(lambda: counted("ended_requests_total", "alice") == 5, "the requests of alice")
    eventually(lambda: counted("ended_requests_total", "bob") == 3, "the requests of bob")
    seconds = {tenant: counted("device_seconds_total", tenant) for tenant in TOKENS}
    assert seconds["alice"] > 0 and seconds["bob"] > 0 and seconds["watcher"] == 0
    busy = value(scrape(daemon), "gemmd_device_busy_seconds_total") - value(before, "gemmd_device_busy_seconds_total")
    assert sum(seconds.values()) == pytest.approx(busy, abs=1e-6)
    assert 'gemmd_tenant_device_seconds_total{tenant="bob"}' not in scrape(daemon, "alice")


def test_metrics_tenant_that_is_unknown(start, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("alice:the-token-of-alice\n")
    tokens.chmod(0o600)
    daemon = start("--token-file", tokens, "--metrics-tenant", "alice,nobody", ready=False)
    assert daemon.wait() == 1
    assert "nobody" in daemon.stderr() + "".join(daemon.messages())


def test_an_address_leaves_connections_to_others(start):
    daemon = start("--max-connections", "16")
    assert daemon.session.get(f"{daemon.url}/info").json()["limits"][
        "max-connections-per-address"] == 14


def test_a_late_tenant_sees_its_own_errors(start, tmp_path):
    """Also behind the 64 tenants that a viewer of all would be shown by name."""
    tokens = tmp_path / "tokens"
    tokens.write_text("".join(f"tenant-{i}:the-token-of-tenant-{i}\n" for i in range(67)))
    tokens.chmod(0o600)
    daemon = start("--token-file", tokens, "--metrics-tenant", "tenant-0", ready=False)
    daemon.wait_until_listening()

    def get(path, tenant):
        return daemon.session.get(daemon.url + path, timeout=PATIENCE_S,
                                  headers={"Authorization": f"Bearer the-token-of-tenant-{tenant}"})

    for tenant in (64, 65, 65, 66):
        assert get("/tensors/none", tenant).status_code == 404
    for tenant, errors in ((63, 0), (64, 1), (65, 2), (66, 1)):
        counted = re.findall(r'gemmd_tenant_errors_total\{tenant="([^"]*)",reason="[^"]*"\} (\d+)',
                             get("/metrics", tenant).text)
        assert counted == ([(f"tenant-{tenant}", str(errors))] if errors else [])
    everyone = re.findall(r'gemmd_tenant_errors_total\{tenant="([^"]*)",reason="[^"]*"\} (\d+)',
                          get("/metrics", 0).text)
    assert everyone == [("(others)", "4")]
