"""GET /dashboard/...: the history, its events, the requests of late and the kernels."""

import contextlib
import itertools
import json
import os
import time

import pytest
import requests

from daemon import PATIENCE_S, PATIENT, Daemon
from oracle import LONG_DRAIN
from patience import wait_until
from problem import assert_problem
from test_leaving import wait_for
from wire import Wire, request

STREAMS_MAX = 64
TOKENS = {"alice": "the-token-of-alice", "bob": "the-token-of-bob"}


@pytest.fixture(scope="module")
def daemon(gemmd):
    one = Daemon(gemmd, "--backend=cpu")
    try:
        yield one.wait_until_listening().wait_until_ready()
        one.stop()
    finally:
        one.close()


def get(daemon, path, **keywords):
    return requests.get(f"{daemon.url}/dashboard/{path}", timeout=PATIENCE_S, **keywords)


def multiply(daemon, m=8, n=8, k=8, **headers):
    return requests.post(f"{daemon.url}/gemm?m={m}&n={n}&k={k}", data=bytes(4 * (m * k + k * n)),
                         headers=headers, timeout=PATIENCE_S)


def events(answer):
    """The samples of a stream, as they come."""
    for line in answer.iter_lines():
        if line.startswith(b"data: "):
            yield json.loads(line.removeprefix(b"data: "))


def samples_with(daemon, wanted):
    return [sample for sample in get(daemon, "history").json()["samples"] if wanted(sample)]


def test_the_history_counts_requests(start):
    daemon = start()
    for _ in range(3):
        assert multiply(daemon).status_code == 200
    found, sums = [], {}

    def is_counted():
        # A sample may be taken between two counters of one request, which then are in two samples.
        found[:] = get(daemon, "history").json()["samples"]
        sums["requests"] = sum(sample["requests"]["gemm"] for sample in found)
        sums["latencies"] = sum(sum(sample.get("latency", [])) for sample in found)
        sums["flops"] = sum(sample["flops"] for sample in found)
        return sums == {"requests": 3, "latencies": 3, "flops": 3 * 2 * 8**3}

    wait_until(is_counted, lambda: f"3 products: {sums}")
    history = get(daemon, "history").json()
    assert {len(sample["latency"]) for sample in found if "latency" in sample} == {
        len(history["latency_bounds"]) + 1}
    kernel = history["stages"].index("kernel")

    def stages():
        return [sample["stages_ms"]["gemm"] for sample in get(daemon, "history").json()["samples"]
                if "gemm" in sample.get("stages_ms", {})]

    wait_until(lambda: sum(times[kernel] for times in stages()) > 0, "the time of the kernel")
    assert {len(times) for times in stages()} == {len(history["stages"])}


def test_samples_follow_each_other_and_start_after_one(daemon):
    samples = wait_until(lambda: (lambda found: found if len(found) >= 3 else None)(
        get(daemon, "history").json()["samples"]), "3 samples")
    numbers = [sample["number"] for sample in samples]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert all(later["time"] > earlier["time"] for earlier, later in zip(samples, samples[1:]))
    rest = get(daemon, "history", params={"after": numbers[1]}).json()["samples"]
    assert [sample["number"] for sample in rest][:len(numbers) - 2] == numbers[2:]
    assert get(daemon, "history", params={"after": 2**63 - 1}).json()["samples"] == []


def test_the_processors_and_the_memory_of_daemon_and_host(daemon):
    with open("/proc/meminfo", encoding="ascii") as file:
        kib = {name: int(rest.split()[0]) for name, rest in (line.split(":") for line in file)}
    capacity = kib["MemTotal"] * 1024
    newest = wait_until(lambda: get(daemon, "history").json()["samples"], "a sample")[-1]
    assert newest["memory"]["capacity"] == capacity
    assert 0 < newest["memory"]["process"] < newest["memory"]["host"] < capacity
    assert newest["cpu"]["processors"] == os.sysconf("SC_NPROCESSORS_ONLN")
    # A busy thread of this process is seen among those of the host, and not in the daemon.
    number = newest["number"]

    def busy_samples():
        sum(range(10**6))
        return [sample["cpu"] for sample in get(daemon, f"history?after={number}").json()["samples"]
                if sample["cpu"]["host"] > sample["cpu"]["process"]]

    wait_until(busy_samples, "a busy host")


def test_fifteen_seconds_are_a_sample_of_the_hours(start):
    daemon = start()
    assert multiply(daemon).status_code == 200
    hours = wait_until(lambda: get(daemon, "history?step=15").json()["samples"], "15 seconds")
    seconds = get(daemon, "history").json()["samples"][:15]
    assert hours[0]["number"] == 1 and hours[0]["time"] == seconds[-1]["time"]
    for name in ("client_errors", "refused", "failed", "flops", "received_bytes", "sent_bytes"):
        assert hours[0][name] == sum(sample[name] for sample in seconds), name
    assert hours[0]["requests"]["gemm"] == sum(sample["requests"]["gemm"] for sample in seconds)
    assert hours[0]["memory"]["process"] == max(sample["memory"]["process"] for sample in seconds)
    assert get(daemon, "history?step=15&after=1").json()["samples"] == []


@pytest.mark.parametrize("query", ["after=-1", "after=", "after=x", "after=1.5", "before=1",
                                   "after=9223372036854775808"])
@pytest.mark.parametrize("path", ["history", "events"])
def test_a_parameter_that_is_wrong(path, query, daemon):
    assert_problem(get(daemon, f"{path}?{query}"), 400, field=query.split("=")[0])


def test_failures_and_refusals_are_counted(start):
    daemon = start("--queue-requests=1", *PATIENT)
    with Wire(daemon.address) as held:
        held.send(b"POST /gemm?m=64&n=64&k=64 HTTP/1.1\r\nHost: x\r\nContent-Length: 32768\r\n"
                  b"Expect: 100-continue\r\n\r\n")
        assert held.receive().status == 100  # the request has the only place
        assert multiply(daemon).status_code == 429
        assert wait_until(lambda: samples_with(
            daemon, lambda sample: sample["refused"] and sample["queue"]["share"] > 0), "a sample")
        held.send(bytes(32768))
        assert held.receive().status == 200


def test_wrong_requests_are_counted(start):
    """With a 4xx that is not 429, whatever it is; such a request has neither failed nor been refused."""
    daemon = start()
    assert multiply(daemon, m=0).status_code == 400
    assert requests.get(f"{daemon.url}/nosuch", timeout=PATIENCE_S).status_code == 404
    assert requests.get(f"{daemon.url}/gemm", timeout=PATIENCE_S).status_code == 405

    def sums():
        samples = get(daemon, "history").json()["samples"]
        return {name: sum(sample[name] for sample in samples) for name in ("client_errors", "refused", "failed")}

    wait_until(lambda: sums()["client_errors"] == 3, "three wrong requests")
    assert sums() == {"client_errors": 3, "refused": 0, "failed": 0}


def test_events_are_samples(daemon):
    with get(daemon, "events", stream=True) as answer:
        assert answer.status_code == 200
        assert answer.headers["Content-Type"] == "text/event-stream"
        assert answer.headers["Cache-Control"] == "no-store"
        stream = events(answer)
        first, second = next(stream), next(stream)
    assert second["number"] == first["number"] + 1
    with get(daemon, "events", params={"after": first["number"]}, stream=True) as answer:
        assert next(events(answer)) == second
    kept = get(daemon, "history", params={"after": first["number"]}).json()["samples"]
    assert kept[0] == second


def test_a_drain_ends_streams(start):
    daemon = start(*LONG_DRAIN)
    with get(daemon, "events", stream=True) as answer:
        stream = events(answer)
        next(stream)
        daemon.stop()  # checks that the daemon ends, with status 0, long before it gives up on the stream
        list(stream)  # the answer has a proper end, else this raises


def test_a_daemon_that_drains_is_not_ready(start):
    daemon = start("--drain-delay", "600s")
    assert wait_until(lambda: samples_with(daemon, lambda sample: sample["ready"]), "a sample")
    daemon.terminate()
    draining = wait_until(lambda: samples_with(daemon, lambda sample: sample["draining"]), "a sample of the drain")
    assert not any(sample["ready"] for sample in draining)
    daemon.terminate()
    assert daemon.wait() == 0


def test_a_stream_does_not_outlive_its_client(start):
    """The reader leaves without a word while its connection is suspended."""
    daemon = start()
    wait_for(daemon, connections=1)  # the one that reads the metrics
    with Wire(daemon.address) as wire:
        wire.send(request("GET", "/dashboard/events"))
        assert b"200" in wire.socket.recv(4096)
        wait_for(daemon, connections=2)
    wait_for(daemon, connections=1)


def test_there_are_64_streams_at_most(start):
    daemon = start("--max-connections-per-address=200")
    wires = [Wire(daemon.address) for _ in range(STREAMS_MAX)]
    try:
        for wire in wires:
            wire.send(request("GET", "/dashboard/events"))
        for wire in wires:
            assert wire.socket.recv(15) == b"HTTP/1.1 200 OK"
        with get(daemon, "events", stream=True) as refused:  # a stream that is served never ends
            assert refused.status_code == 429, "more streams than the limit are served"
            assert_problem(refused, 429)
            assert "Retry-After" in refused.headers
        with get(daemon, "history", stream=True) as refused:
            assert refused.status_code == 429, "a history takes no place among the streams"
            assert_problem(refused, 429)
        assert multiply(daemon).status_code == 200
    finally:
        for wire in wires:
            wire.socket.close()
    def served():
        with get(daemon, "events", stream=True) as answer:
            return answer.status_code == 200
    wait_until(served, "a stream that is free again")


def test_head_of_events_has_no_body(daemon):
    answer = requests.head(f"{daemon.url}/dashboard/events", timeout=PATIENCE_S)
    assert answer.status_code == 200 and answer.content == b""
    assert get(daemon, "kernels").status_code == 200


def test_a_request_that_failed_is_kept_with_its_sentence(start):
    daemon = start()
    answer = multiply(daemon, m=0, **{"X-Request-Id": "the-failed-one"})
    assert answer.status_code == 400
    kept = wait_until(lambda: get(daemon, "requests").json()["failed"], "the request")[0]
    assert kept["request_id"] == "the-failed-one"
    assert (kept["status"], kept["method"], kept["error"]) == (400, "POST", "malformed")
    assert kept["path"].startswith("/gemm?m=0")
    assert kept["detail"] == answer.json()["detail"]


@pytest.mark.parametrize("query", ["m=%ff", "m=1&act=a" + 40 * "%c3%a9"], ids=["byte", "cut"])
def test_bytes_that_are_not_utf8_do_not_drop_the_request(query, start):
    """A value may have them, and a sentence may cut a character off."""
    daemon = start()
    answer = requests.post(f"{daemon.url}/gemm?{query}", timeout=PATIENCE_S)
    assert answer.status_code == 400
    kept = wait_until(lambda: get(daemon, "requests").json()["failed"], "the request")[0]
    assert kept["path"].startswith("/gemm?m=") and kept["detail"] == answer.json()["detail"]


def begin_slowly(wire):
    """Sends the head of a product, whose time begins when the daemon has read the head."""
    wire.send(b"POST /gemm?m=8&n=8&k=8 HTTP/1.1\r\nHost: x\r\nContent-Length: 512\r\nExpect: 100-continue\r\n\r\n")
    assert wire.receive().status == 100


def test_a_slow_computation_is_kept_with_its_stages(start):
    daemon = start(*PATIENT)
    assert get(daemon, "requests").json()["slow_ms"] == 100
    with Wire(daemon.address) as wire:  # its body takes longer
        begin_slowly(wire)
        time.sleep(0.3)
        wire.send(bytes(512))
        assert wire.receive().status == 200
    kept = wait_until(lambda: get(daemon, "requests").json()["slow"], "the request")[0]
    assert kept["shape"] == [8, 8, 8, 1] and kept["op"] == "gemm" and kept["kernel"]
    assert kept["total_ms"] > 200 and kept["stages_ms"]["receive"] > 200
    assert kept["error"] is None


def test_slow_is_what_one_in_a_hundred_exceeds(start):
    """Of the last minute's requests, once there are enough of them: one in ten takes 150 ms here."""
    daemon = start(*PATIENT)
    quick = b"POST /gemm?m=8&n=8&k=8 HTTP/1.1\r\nHost: x\r\nContent-Length: 512\r\n\r\n" + bytes(512)
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(daemon.address)) for _ in range(12)]
        for wire in wires:
            begin_slowly(wire)
        time.sleep(0.15)
        for wire in wires:
            wire.send(bytes(512))
            assert wire.receive().status == 200
        for _ in range(108):
            wires[0].send(quick)
            assert wires[0].receive().status == 200
    wait_until(lambda: get(daemon, "requests").json()["slow_ms"] >= 150, "the time of a slow request")


def test_requests_are_shown_to_their_tenant(start, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("alice:the-token-of-alice\nbob:the-token-of-bob\nops:the-token-of-ops\n"
                      "ops:the-poor-token-of-ops scopes=metrics\n", encoding="utf-8")
    daemon = start("--token-file", str(tokens), "--metrics-tenant=ops")
    def bearer(token):
        return {"Authorization": f"Bearer {token}"}
    for name, token in TOKENS.items():
        assert multiply(daemon, m=0, **bearer(token), **{"X-Request-Id": name}).status_code == 400
    assert multiply(daemon, **{"X-Request-Id": "nobody"}).status_code == 401
    def seen(token):
        answer = get(daemon, "requests", headers=bearer(token))
        assert answer.status_code == 200
        return {kept["request_id"] for kept in answer.json()["failed"]}
    wait_until(lambda: seen("the-token-of-ops") == {"alice", "bob", "nobody"}, "all requests")
    assert seen("the-token-of-alice") == {"alice"}
    assert seen("the-token-of-bob") == {"bob"}
    assert seen("the-poor-token-of-ops") == set()


def test_a_flood_of_failures_hides_no_other_tenant(start, tmp_path):
    """One tenant fails until its list is full; what another failed with before and meanwhile is kept."""
    tokens = tmp_path / "tokens"
    tokens.write_text("".join(f"{name}:{token}\n" for name, token in TOKENS.items()) + "ops:the-token-of-ops\n",
                      encoding="utf-8")
    daemon = start("--token-file", str(tokens), "--metrics-tenant=ops")

    def fail(session, name, request_id):
        answer = session.get(f"{daemon.url}/tensors/none", timeout=PATIENCE_S,
                             headers={"Authorization": f"Bearer {TOKENS[name]}", "X-Request-Id": request_id})
        assert answer.status_code == 404

    def seen(token):
        answer = get(daemon, "requests", headers={"Authorization": f"Bearer {token}"})
        return [kept["request_id"] for kept in answer.json()["failed"]]

    with requests.Session() as session:
        fail(session, "bob", "before")
        rounds = itertools.count()

        def is_full():
            number = next(rounds)
            for _ in range(40):  # more than are kept of one second
                fail(session, "alice", f"flood-{number}")
            if number < 20:
                fail(session, "bob", f"meanwhile-{number}")
            return len(seen(TOKENS["alice"])) == 100

        wait_until(is_full, "a full list")
    assert all(kept.startswith("flood-") for kept in seen(TOKENS["alice"]))
    of_bob = seen(TOKENS["bob"])
    assert of_bob[-1] == "before" and len(of_bob) > 1
    assert all(kept.startswith("meanwhile-") for kept in of_bob[:-1])
    everything = seen("the-token-of-ops")
    assert len(everything) == 100 and set(of_bob) <= set(everything)


def test_a_flood_of_failures_is_bounded(start):
    daemon = start()
    with requests.Session() as session:
        for _ in range(150):
            session.get(f"{daemon.url}/nothing", timeout=PATIENCE_S)
    assert 16 <= len(get(daemon, "requests").json()["failed"]) <= 100


def test_kernels_are_told_apart_by_shape(start):
    daemon = start()
    assert multiply(daemon, 8, 8, 8).status_code == 200
    assert multiply(daemon, 200, 8, 2).status_code == 200
    answer = wait_until(lambda: (lambda found: found if len(found["kernels"]) == 2 else None)(
        get(daemon, "kernels").json()), "2 kinds of products")
    cells = {tuple(cell["up_to"]): cell for cell in answer["kernels"]}
    assert set(cells) == {(16, 16, 16), (1024, 16, 16)}
    assert cells[16, 16, 16]["flops"] == 2 * 8**3
    assert cells[16, 16, 16]["bytes"] == 4 * 3 * 64
    assert all(cell["works"] == 1 and cell["dtype"] == "f32" and cell["op"] == "gemm"
               and cell["busy_seconds"] > 0 for cell in cells.values())
