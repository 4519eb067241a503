"""SIGHUP with a token file that names other tenants: each tenant has its share at once."""

import contextlib
import json
from multiprocessing import shared_memory

import numpy as np
import pytest

from problem import assert_problem
from test_reload import reload
from test_shares import SMALL, TOKENS, as_job, signed, slow, with_tensors
from wire import Wire, exchange


class Shared:
    """A daemon whose tenants change."""

    def __init__(self, start, folder, tenants, *arguments):
        self.tokens = folder / "tokens"
        self.write(tenants)
        self.daemon = start("--token-file", self.tokens, *arguments, ready=False)
        self.daemon.wait_until_listening()

    def write(self, tenants):
        self.tokens.write_text("".join(f"{name}:{TOKENS[name]}\n" for name in tenants))

    def change(self, *tenants):
        self.write(tenants)
        reload(self.daemon)

    def ask(self, *arguments, **keywords):
        return exchange(self.daemon.address, signed(*arguments, **keywords))

    def limits(self, tenant="alice"):
        return json.loads(self.ask(tenant, "GET", "/info").body)["limits"]


@pytest.fixture(name="shared")
def serve(start, tmp_path):
    return lambda tenants, *arguments: Shared(start, tmp_path, tenants, *arguments)


def test_jobs(shared):
    served = shared(["alice"], "--max-jobs", "8")

    def job(tenant):
        return exchange(served.daemon.address, as_job(tenant))

    def result(answer):
        return served.ask("alice", "GET", f"{answer.headers['location']}/result?wait_ms=60000")

    jobs = [job("alice") for _ in range(8)]
    assert {answer.status for answer in jobs} == {202}, "a tenant alone has all of them"
    assert [result(answer).status for answer in jobs] == [200] * 8
    served.change("alice", "bob")
    assert_problem(job("alice"), 429, "this tenant has 8 jobs")
    assert served.ask("alice", "DELETE", jobs[0].headers["location"]).status == 200
    assert [job("bob").status for _ in range(4)] == [202] * 4, "alice's oldest results give way"
    for answer in jobs[1:4]:
        assert_problem(result(answer), 410, "expired early: another tenant's job needed its place")
    assert [result(answer).status for answer in jobs[4:]] == [200] * 4, "the share of the old tenant"
    assert_problem(job("bob"), 429, "this tenant has 4 jobs")
    assert served.ask("alice", "DELETE", jobs[4].headers["location"]).status == 200
    assert job("alice").status == 202
    assert_problem(job("alice"), 429, "this tenant has 4 jobs")


def test_unfinished_jobs_beyond_a_lowered_share(shared, instrumented):
    """They are computed to their ends, and only finished ones give way to another tenant's."""
    served = shared(["alice", "bob"], "--max-jobs", "6")
    with_tensors(served.daemon, instrumented)
    served.change("alice")

    def job(tenant):
        return exchange(served.daemon.address, slow(tenant, headers=[("Prefer", "respond-async")]))

    quick = exchange(served.daemon.address, as_job("alice"))
    assert served.ask("alice", "GET", f"{quick.headers['location']}/result?wait_ms=60000").status == 200
    jobs = [job("alice") for _ in range(5)]
    served.change("alice", "bob")
    assert exchange(served.daemon.address, as_job("bob")).status == 202
    assert_problem(served.ask("alice", "GET", quick.headers["location"]), 410, "expired early")
    for answer in jobs:
        result = served.ask("alice", "GET", f"{answer.headers['location']}/result?wait_ms=60000")
        assert result.status == 200, result.body


def test_bytes_of_jobs(shared):
    served = shared(["alice"], "--job-bytes", "64K")  # a result has 16 KiB

    def job(tenant):
        return exchange(served.daemon.address, as_job(tenant, 64))

    def result(answer):
        return served.ask("alice", "GET", f"{answer.headers['location']}/result?wait_ms=60000")

    jobs = [job("alice") for _ in range(4)]
    assert [result(answer).status for answer in jobs] == [200] * 4
    served.change("alice", "bob")
    assert_problem(job("alice"), 429, "take 64 KiB of 32 KiB")
    assert served.ask("alice", "DELETE", jobs[0].headers["location"]).status == 200
    assert [job("bob").status for _ in range(2)] == [202, 202]
    assert_problem(job("bob"), 429, "take 32 KiB of 32 KiB")
    assert_problem(result(jobs[1]), 410, "expired early")
    assert [result(answer).status for answer in jobs[2:]] == [200, 200]


def put(served, tenant, name, more=""):
    return served.ask(tenant, "PUT", f"/tensors/{name}?shape=64,64{more}", [("Content-Length", 16384)], bytes(16384))


def test_tensors(shared):
    served = shared(["alice"], "--tensor-bytes", "64K")  # of four tensors
    for name in ("a1", "a2", "a3"):
        assert put(served, "alice", name).status == 201
    served.change("alice", "bob")
    assert served.limits()["tenant-tensor-bytes"] == 32 << 10
    assert_problem(put(served, "alice", "a4"), 507, "0 bytes free of this tenant's 32 KiB")
    assert put(served, "bob", "b1").status == 201
    for name in ("a1", "a2"):
        assert served.ask("alice", "GET", f"/tensors/{name}").status == 200
        assert served.ask("alice", "DELETE", f"/tensors/{name}").status == 204
    assert put(served, "alice", "a4").status == 201
    assert_problem(put(served, "alice", "a5"), 507, "")
    assert put(served, "bob", "b2").status == 201, "the share of the tenant that was added"


def test_idle_tensors_beyond_a_lowered_share(shared):
    """They stay until evicting them is enough to be within the share."""
    served = shared(["alice"], "--tensor-bytes", "64K")
    for name, more in (("a1", ""), ("a2", ""), ("a3", "&evictable=1")):
        assert put(served, "alice", name, more).status == 201
    served.change("alice", "bob")
    assert_problem(put(served, "alice", "a4"), 507, "")
    assert served.ask("alice", "GET", "/tensors/a3").status == 200
    assert served.ask("alice", "DELETE", "/tensors/a1").status == 204
    assert put(served, "alice", "a4").status == 201
    assert served.ask("alice", "GET", "/tensors/a3").status == 404


def test_requests(shared):
    served = shared(["alice"], "--queue-requests", "4", "--min-body-rate", "0")
    assert served.limits()["tenant-requests"] == 0

    def begin(tenant):
        wire = wires.enter_context(Wire(served.daemon.address))
        wire.send(signed(tenant, "POST", SMALL, [("Expect", "100-continue")], announced=32))
        return wire, wire.receive()

    with contextlib.ExitStack() as wires:
        begun = [begin("alice") for _ in range(3)]
        assert {answer.status for _, answer in begun} == {100}
        served.change("alice", "bob")
        assert served.limits("bob")["tenant-requests"] == 2
        assert_problem(begin("alice")[1], 429, "tenant-requests")
        assert begin("bob")[1].status == 100
        for wire, _ in begun:
            wire.send(bytes(32))
            assert wire.receive().status == 200, "an accepted request keeps its place"
        assert begin("bob")[1].status == 100
        assert_problem(begin("bob")[1], 429, "tenant-requests")
        served.change("bob")
        assert [begin("bob")[1].status for _ in range(2)] == [100, 100], "alone again"


def test_bytes_of_requests(shared):
    side = 1024
    served = shared(["alice"], "--pinned-bytes", "64M", "--queue-bytes", "16M", "--max-body", "8M",
                    "--max-result", "8M", "--min-body-rate", "0")

    def begin(tenant):
        wire = wires.enter_context(Wire(served.daemon.address))
        wire.send(signed(tenant, "POST", f"/gemm?m={side}&n=1&k={side}", [("Expect", "100-continue")],
                         announced=4 * (side * side + side)))  # more than 4 of 16 MiB
        return wire.receive()

    with contextlib.ExitStack() as wires:
        assert [begin("alice").status for _ in range(2)] == [100, 100]
        served.change("alice", "bob")
        assert_problem(begin("alice"), 429, "tenant-bytes")
        assert begin("bob").status == 100
        assert_problem(begin("bob"), 429, "tenant-bytes")


def test_regions(shared):
    served = shared(["alice"], "--shm-system", "--shm-regions", "4")
    memory = shared_memory.SharedMemory(create=True, size=4096)
    kind = "/v2/systemsharedmemory/region"
    try:
        def register(tenant, name):
            body = json.dumps({"key": f"/{memory.name.lstrip('/')}", "byte_size": 4096}).encode()
            return served.ask(tenant, "POST", f"{kind}/{name}/register", body=body)

        assert [register("alice", name).status for name in ("a1", "a2", "a3")] == [200] * 3
        served.change("alice", "bob")
        assert_problem(register("alice", "a4"), 507, "this tenant's shared memory")
        assert register("bob", "b1").status == 200
        for name in ("a1", "a2"):
            assert served.ask("alice", "POST", f"{kind}/{name}/unregister").status == 200
        assert register("bob", "b2").status == 200
        assert_problem(register("bob", "b3"), 507, "this tenant's shared memory")
        assert register("alice", "a4").status == 200
    finally:
        memory.close()
        memory.unlink()


def test_streams(shared):
    """There are 64 streams of events."""
    served = shared(["alice"])

    def stream(tenant):
        wire = wires.enter_context(Wire(served.daemon.address))
        wire.send(signed(tenant, "GET", "/dashboard/events"))
        return int(wire.socket.recv(15)[9:12])

    with contextlib.ExitStack() as wires:
        assert [stream("alice") for _ in range(33)] == [200] * 33
        served.change("alice", "bob")
        assert stream("alice") == 429, "beyond the share"
        assert [stream("bob") for _ in range(31)] == [200] * 31


def test_tenants_that_are_taken_away_share_nothing(shared):
    """A tenant that the file names alone may have all that is free."""
    served = shared(["alice", "bob"], "--max-jobs", "4", "--tensor-bytes", "64K")
    assert exchange(served.daemon.address, as_job("bob")).status == 202
    assert put(served, "bob", "b1").status == 201
    for _ in range(2):
        assert exchange(served.daemon.address, as_job("alice")).status == 202
    assert exchange(served.daemon.address, as_job("alice")).status == 429
    served.change("alice")
    assert exchange(served.daemon.address, as_job("bob")).status == 401
    assert exchange(served.daemon.address, as_job("alice")).status == 202
    assert_problem(exchange(served.daemon.address, as_job("alice")), 429, "there are 4 jobs")
    assert [put(served, "alice", f"a{i}").status for i in range(4)] == [201, 201, 201, 507]
    assert served.limits()["tenant-tensor-bytes"] == 0
    served.change("bob", "alice")
    assert np.frombuffer(served.ask("bob", "GET", "/tensors/b1").body, np.uint8).size == 16384
