"""Prefer: respond-async: every state of a job, its result, its limits and its end."""

import random
import re
import threading
import time

import numpy as np
import pytest
import requests

from daemon import PATIENCE_S
from matrices import Problem, random_operands
from problem import assert_problem
from test_formats import NPY, RAW, SAFETENSORS, encode, parameters_for
from wire import Wire, exchange, request

ASYNC = {"Prefer": "respond-async"}
BODY = np.arange(8, dtype=np.float32).tobytes()
RIGHT = np.array([6, 7, 26, 31], np.float32).tobytes()
TARGET = "/gemm?m=2&n=2&k=2"
JOB = request("POST", TARGET, [("Content-Length", 32), ("Prefer", "respond-async")], BODY)
UNKNOWN = "0" * 32
# Of each exchange, or of each run: not the same twice.
OWN = {"date", "x-request-id", "server-timing", "gemmd-verify", "connection", "keep-alive"}


class Jobs:
    """The jobs of one daemon. Matrices of the side `long` take long enough to look at what waits
    behind them, on one thread."""

    long = 700

    def __init__(self, url, session, **headers):
        self.url, self.session, self.headers = url, session, headers

    def send(self, method, path, headers=None, **keywords):
        return self.session.request(method, self.url + path, timeout=PATIENCE_S,
                                    headers={**self.headers, **(headers or {})}, **keywords)

    def post(self, parameters=None, body=BODY, media_type=RAW, headers=None):
        parameters = {"m": 2, "n": 2, "k": 2} if parameters is None else parameters
        return self.send("POST", "/gemm", params=parameters, data=body,
                         headers={"Content-Type": media_type, **(headers or ASYNC)})

    def make(self, *arguments, **keywords):
        """The path of a new job."""
        answer = self.post(*arguments, **keywords)
        assert answer.status_code == 202, answer.content
        return answer.headers["Location"]

    def make_long(self, wait=True):
        """One that keeps the device busy; it runs by now."""
        side = self.long
        body = np.ones(2 * side * side, np.float32).tobytes()
        path = self.make({"m": side, "n": side, "k": side, "kernel": "naive"}, body)
        while wait and self.state(path) == "queued":
            time.sleep(0.005)
        return path

    def make_endless(self):
        """One that keeps the device busy for minutes, longer than any patience here, unless it is cancelled;
        it runs by now."""
        m, k = 16384, 512
        path = self.make({"m": m, "n": m, "k": k, "dtype": "bf16", "kernel": "naive", "timeout_ms": 600_000},
                         bytes(2 * 2 * m * k))
        eventually(lambda: self.state(path) == "running", "it does not run")
        return path

    def get(self, path, **keywords):
        return self.send("GET", path, **keywords)

    def view(self, path):
        answer = self.get(path)
        assert answer.status_code == 200, answer.content
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.headers["Cache-Control"] == "no-store"
        return answer.json()

    def state(self, path):
        return self.view(path)["state"]

    def result(self, path, wait_ms=PATIENCE_S * 1000, **keywords):
        return self.get(f"{path}/result?wait_ms={wait_ms}", **keywords)

    def delete(self, path):
        return self.send("DELETE", path)

    def metrics(self):
        """name{labels} -> value"""
        lines = self.get("/metrics").text.splitlines()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
                for line in lines if line and line[0] != "#"}

    def held(self):
        """What jobs and requests hold, where it is not nothing."""
        names = r"gemmd_(jobs\{|job_bytes$|queue_bytes|pinned_memory_used|requests_(wait|run))"
        return {name: value for name, value in self.metrics().items()
                if re.match(names, name) and value}

    def kernels_run(self):
        return self.metrics()['gemmd_stage_duration_seconds_count{stage="kernel"}']


@pytest.fixture
def jobs(url, session):
    """Those of the shared daemon."""
    return Jobs(url, session)


@pytest.fixture
def start_jobs(start, instrumented):
    """Starts a daemon whose device does one thing at a time."""

    def starter(*arguments):
        daemon = start("--cpu-threads", "1", "--no-cpu-pauses", "--drain-timeout", "600s", *arguments)
        jobs = Jobs(daemon.url, daemon.session)
        if instrumented:
            jobs.long = 350
        return daemon, jobs

    return starter


def eventually(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.01)
    return found


def listed(jobs, **parameters):
    answer = jobs.get("/jobs", params=parameters)
    assert answer.status_code == 200, answer.content
    assert answer.headers["Cache-Control"] == "no-store"
    document = answer.json()
    return [f"/jobs/{job['id']}" for job in document["jobs"]], document


def assert_nothing_held(jobs):
    eventually(lambda: not jobs.held(), f"held in the end: {jobs.held()}")


def in_background(call):
    """Starts `call` on a thread; join() gives what it returned."""
    results = []
    thread = threading.Thread(target=lambda: results.append(call()), daemon=True)
    thread.start()

    def join():
        thread.join(PATIENCE_S)
        assert results, "no answer"
        return results[0]

    return join


def waiting(address, path, wait_ms=PATIENCE_S * 1000):
    """A connection that waits for a result; the daemon has its request, and has not answered."""
    wire = Wire(address)
    wire.send(request("GET", f"{path}/result?wait_ms={wait_ms}"))
    wire.wait_until_read()
    return wire


# ---- the answer ---------------------------------------------------------------------------------

PROBLEMS = [
    Problem(3, 5, 7),
    Problem(33, 17, 65, dtype="bf16", out="f32", transb=True, bias=True, act="gelu"),
    Problem(8, 8, 8, dtype="i8", batch=3),
    Problem(300, 200, 100, dtype="f16", beta=1),
]


@pytest.mark.parametrize("media_type", [RAW, NPY, SAFETENSORS], ids=["raw", "npy", "safetensors"])
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: f"{p.dtype}-{p.m}x{p.n}x{p.k}")
def test_result_is_the_synchronous_answer(problem, media_type, jobs, rng):
    body = encode(media_type, random_operands(problem, rng))
    parameters = parameters_for(media_type, problem)
    alone = jobs.post(parameters, body, media_type, headers={"X-Request-Id": "alone"})
    assert alone.status_code == 200, alone.content
    path = jobs.make(parameters, body, media_type)
    for _ in range(2):  # as often as one likes
        result = jobs.result(path)
        assert result.status_code == 200
        assert result.content == alone.content
        assert names_and_values(result) == names_and_values(alone)
        stages = [stage.split(";")[0].strip() for stage in
                  result.headers["Server-Timing"].split(",")]
        assert stages == ["recv", "queue", "h2d", "kernel", "d2h", "total"]
    assert jobs.delete(path).status_code == 200


@pytest.mark.parametrize("n", [1024, 1025, 2500], ids=["one_piece", "two_pieces", "three_pieces"])
def test_long_result_is_the_synchronous_answer(n, start_jobs, rng):
    """Results are copied in pieces of 4 MiB."""
    _, jobs = start_jobs()
    parameters, body = {"m": 1024, "n": n, "k": 1}, rng.standard_normal(1024 + n).astype("f4").tobytes()
    path = jobs.make(parameters, body)
    result = jobs.get(f"{path}/result", params={"wait_ms": PATIENCE_S * 1000})
    expected = jobs.post(parameters, body, headers={"Content-Type": RAW})
    assert (result.status_code, expected.status_code) == (200, 200)
    assert result.content == expected.content and len(result.content) == 4 * 1024 * n


def names_and_values(answer):
    headers = {name.lower(): value for name, value in answer.headers.items()}
    return sorted(headers), {name: value for name, value in headers.items() if name not in OWN}


def test_format_is_chosen_by_the_first_request(jobs):
    path = jobs.make(headers={**ASYNC, "Accept": NPY})
    result = jobs.result(path, headers={"Accept": SAFETENSORS})
    assert result.headers["Content-Type"] == NPY
    assert result.content == jobs.post(headers={"Accept": NPY}).content
    jobs.delete(path)


def test_verified_result(jobs):
    path = jobs.make({"m": 2, "n": 2, "k": 2, "verify": "freivalds"})
    assert jobs.result(path).headers["Gemmd-Verify"].startswith("pass; residual=")
    jobs.delete(path)


def test_accepted(jobs):
    answer = jobs.post(headers={**ASYNC, "X-Request-Id": 'a"b\\c'})
    assert answer.status_code == 202
    assert answer.headers["Preference-Applied"] == "respond-async"
    assert answer.headers["X-Request-Id"] == 'a"b\\c'
    document = answer.json()
    assert re.fullmatch("[0-9a-f]{32}", document["id"])
    assert answer.headers["Location"] == f"/jobs/{document['id']}"
    assert (document["state"], document["op"], document["request_id"]) == ("queued", "gemm",
                                                                           'a"b\\c')
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", document["created"])
    assert document["queued_ms"] == 0
    result = jobs.result(answer.headers["Location"], headers={"X-Request-Id": "another"})
    assert result.headers["X-Request-Id"] == "another", "each exchange has its own"
    jobs.delete(answer.headers["Location"])


@pytest.mark.parametrize("value", ["respond-async", "Respond-Async", "wait=1, respond-async",
                                   "handling=lenient; a=\"b, c\" , respond-async"])
def test_spellings_of_the_preference(value, jobs):
    path = jobs.make(headers={"Prefer": value})
    assert jobs.result(path).content == RIGHT
    jobs.delete(path)


@pytest.mark.parametrize("value", ["respond-synchronously", "return=minimal", "",
                                   'x="respond-async"'])
def test_other_preferences(value, jobs):
    answer = jobs.post(headers={"Prefer": value})
    assert (answer.status_code, answer.content) == (200, RIGHT)
    assert "Preference-Applied" not in answer.headers


def test_head(jobs):
    path = jobs.make()
    body = jobs.result(path)
    for place in (path, f"{path}/result"):
        answer = jobs.send("HEAD", place)
        assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["Content-Length"]) == len(body.content)
    jobs.delete(path)


def without_id(answer):
    """A problem document without the member that names its request."""
    return {**answer.json(), "request_id": ""}


# ---- errors -------------------------------------------------------------------------------------

@pytest.mark.parametrize("parameters, body, media_type, status", [
    ({"m": 0, "n": 2, "k": 2}, BODY, RAW, 400),
    ({"m": 2, "n": 2, "k": 3}, BODY, RAW, 400),
    ({"m": 2, "n": 2, "k": 2, "out": "i32"}, BODY, RAW, 422),
    ({"m": 2, "n": 2, "k": 2}, BODY, "text/plain", 415),
    ({}, BODY, NPY, 400),
    ({"m": 2, "n": 2, "k": 2, "a": "nosuch"}, BODY, RAW, 404),
])
def test_what_is_refused_is_no_job(parameters, body, media_type, status, jobs):
    before = jobs.metrics()["gemmd_jobs_created_total"]
    wanted = jobs.post(parameters, body, media_type, headers={"X-Other": "1"})
    answer = jobs.post(parameters, body, media_type)
    assert_problem(answer, status, field=answer.json().get("field"))
    assert without_id(answer) == without_id(wanted)
    assert jobs.metrics()["gemmd_jobs_created_total"] == before
    assert_nothing_held(jobs)


def test_failed_job(start_jobs):
    """Its deadline passes while it is queued: what the synchronous call says is the result."""
    _, jobs = start_jobs()
    blocker = jobs.make_endless()
    late = {"m": 2, "n": 2, "k": 2, "timeout_ms": 1}
    path = jobs.make(late)
    result = jobs.result(path)
    assert_problem(result, 504, "deadline")
    view = jobs.view(path)
    assert (view["state"], view["status"], view["bytes"]) == ("failed", 504, 0)
    assert "expires" in view and "running_ms" not in view
    refused = jobs.post(late, headers={"X-Other": "1"})
    assert without_id(jobs.get(f"{path}/result")) == without_id(refused)
    assert jobs.metrics()['gemmd_jobs{state="failed"}'] == 1
    assert jobs.delete(path).json()["state"] == "failed"
    assert jobs.delete(blocker).status_code == 200
    assert_nothing_held(jobs)


@pytest.mark.parametrize("path", [UNKNOWN, "x", "A" * 32, "%2e%2e", "0" * 200])
@pytest.mark.parametrize("place", ["", "/result", "/result?wait_ms=1000"])
def test_unknown_job(path, place, jobs):
    assert_problem(jobs.get(f"/jobs/{path}{place}"), 404)
    if not place:
        assert_problem(jobs.delete(f"/jobs/{path}"), 404)


@pytest.mark.parametrize("path", ["/jobs/", f"/jobs/{UNKNOWN}/", "/jobs//result",
                                  f"/jobs/{UNKNOWN}/result/", f"/jobs/{UNKNOWN}/other"])
def test_nothing_at_other_paths(path, jobs):
    assert_problem(jobs.get(path), 404, "nothing at this path")


@pytest.mark.parametrize("method, place, allow", [
    ("PUT", "", "GET, HEAD, DELETE"), ("POST", "", "GET, HEAD, DELETE"),
    ("DELETE", "/result", "GET, HEAD"), ("POST", "/result", "GET, HEAD")])
def test_other_methods(method, place, allow, jobs):
    answer = jobs.send(method, f"/jobs/{UNKNOWN}{place}")
    assert_problem(answer, 405)
    assert answer.headers["Allow"] == allow


@pytest.mark.parametrize("query, field", [
    ("/result?wait_ms=-1", "wait_ms"), ("/result?wait_ms=", "wait_ms"),
    ("/result?wait_ms=1s", "wait_ms"), ("/result?wait_ms=1&wait_ms=2", "wait_ms"),
    ("/result?wait_ms", "wait_ms"), ("/result?wait=5", "wait"), ("?wait_ms=5", "wait_ms"),
    ("/result?wait_ms=99999999999999999999999", "wait_ms")])
def test_wrong_parameters(query, field, jobs):
    path = jobs.make()
    assert_problem(jobs.get(path + query), 400, "wait_ms|no parameters", field=field)
    jobs.delete(path)


# ---- states, waiting ----------------------------------------------------------------------------

def test_states(start_jobs):
    _, jobs = start_jobs()
    endless = jobs.make_endless()
    long = jobs.make_long(wait=False)
    short = jobs.make()
    view = jobs.view(endless)
    assert view["state"] == "running" and view["running_ms"] >= 0 and "status" not in view
    view = jobs.view(short)
    assert view["state"] == "queued" and "running_ms" not in view
    for path, state in ((endless, "running"), (long, "queued"), (short, "queued")):
        answer = jobs.get(f"{path}/result")
        assert_problem(answer, 409, state)
        assert int(answer.headers["Retry-After"]) >= 1
    metrics = jobs.metrics()
    assert (metrics['gemmd_jobs{state="queued"}'], metrics['gemmd_jobs{state="running"}']) == (2, 1)

    assert jobs.delete(endless).json()["state"] == "cancelled"
    assert jobs.result(short).content == RIGHT
    view = jobs.view(short)
    assert (view["state"], view["status"], view["bytes"]) == ("done", 200, len(RIGHT))
    assert view["queued_ms"] > 0 and view["running_ms"] > 0
    assert view["expires"] > view["created"]
    assert jobs.result(long).headers["Gemmd-Kernel"] == "naive"
    metrics = eventually(lambda: not (now := jobs.metrics())['gemmd_jobs{state="cancelled"}'] and now,
                         "what was cancelled is still held")
    assert metrics['gemmd_jobs{state="done"}'] == 2
    assert metrics["gemmd_job_bytes"] == len(RIGHT) + 4 * jobs.long**2
    assert metrics["gemmd_pinned_memory_used_bytes"] == 0, "results lie in ordinary memory"
    for path in (long, short):
        assert jobs.delete(path).json()["state"] == "done"
        assert_problem(jobs.get(path), 404)
        assert_problem(jobs.delete(path), 404)
    assert_nothing_held(jobs)


@pytest.mark.parametrize("headers, place", [({}, "/result?wait_ms=0"), ({}, "/result?wait_ms=30"),
                                            ({"Prefer": "wait=0"}, "/result"),
                                            ({"Prefer": "wait=60"}, "/result?wait_ms=30")])
def test_a_wait_ends_without_a_result(headers, place, start_jobs):
    _, jobs = start_jobs()
    path = jobs.make_endless()
    answer = jobs.get(path + place, headers=headers)
    assert_problem(answer, 409, "running")
    assert int(answer.headers["Retry-After"]) >= 1
    jobs.delete(path)


def test_a_wait_as_a_preference(start_jobs):
    _, jobs = start_jobs()
    path = jobs.make_long()
    result = jobs.get(f"{path}/result", headers={"Prefer": f"wait={PATIENCE_S}"})
    assert (result.status_code, len(result.content)) == (200, 4 * jobs.long**2)
    jobs.delete(path)


def test_longest_wait(start_jobs):
    """What is asked for beyond --max-wait is cut; the answer would not come in time otherwise."""
    _, jobs = start_jobs("--max-wait", "30ms")
    assert jobs.get("/info").json()["limits"]["max-wait"] == 30
    path = jobs.make_endless()
    assert_problem(jobs.get(f"{path}/result?wait_ms=600000"), 409, "running")
    assert_problem(jobs.get(f"{path}/result", headers={"Prefer": "wait=18446744073709551615"}),
                   409, "running")
    jobs.delete(path)


def test_those_who_wait_hold_up_nobody(start_jobs):
    """One I/O thread, many who wait: others are served, and in the end all have the same bytes."""
    daemon, jobs = start_jobs("--io-threads", "1", "--bulk-connections", "0")
    endless = jobs.make_endless()
    path = jobs.make_long(wait=False)
    wires = [waiting(daemon.address, path) for _ in range(20)]
    try:
        for _ in range(20):
            assert jobs.get("/livez").status_code == 200
        assert jobs.state(path) == "queued", "they were answered while the others waited"
        jobs.delete(endless)
        answers = [wire.receive() for wire in wires]
        assert {answer.status for answer in answers} == {200}
        assert len({answer.body for answer in answers}) == 1
        for wire in wires:  # and their connections go on
            wire.send(request("GET", "/livez"))
            assert wire.receive().status == 200
    finally:
        for wire in wires:
            wire.socket.close()
    jobs.delete(path)
    assert_nothing_held(jobs)


def test_a_body_with_a_wait(start_jobs):
    """A body that nobody asked for is answered at once, and does no harm."""
    daemon, jobs = start_jobs()
    path = jobs.make_endless()
    answer = exchange(daemon.address, request("GET", f"{path}/result?wait_ms=60000",
                                              [("Content-Length", 4)], b"body"))
    assert_problem(answer, 409)
    jobs.delete(path)


# ---- cancelling ---------------------------------------------------------------------------------

def test_cancel_what_is_queued(start_jobs):
    """It is not run, and who waits for it learns why there is no result."""
    daemon, jobs = start_jobs()
    blocker = jobs.make_endless()
    path = jobs.make()
    with waiting(daemon.address, path) as wire:
        answer = jobs.delete(path)
        assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")
        assert_problem(wire.receive(), 410, "cancelled")
    assert jobs.state(path) == "cancelled"
    assert_problem(jobs.get(f"{path}/result"), 410, "cancelled")
    assert jobs.delete(path).json()["state"] == "cancelled", "once more changes nothing"
    assert jobs.state(blocker) == "running"
    eventually(lambda: jobs.metrics()['gemmd_jobs{state="cancelled"}'] == 0, "it is still held")
    assert jobs.metrics()["gemmd_jobs_cancelled_total"] == 1
    jobs.delete(blocker)
    last = jobs.make()
    assert jobs.result(last).content == RIGHT
    assert jobs.kernels_run() == 1, "that of the last one"
    jobs.delete(last)
    assert_nothing_held(jobs)


def test_cancel_what_runs(start_jobs):
    """Its computation is ended early, and all that it holds is given back."""
    daemon, jobs = start_jobs()
    path = jobs.make_endless()
    with waiting(daemon.address, path) as wire:
        assert jobs.delete(path).json()["state"] == "cancelled"
        assert_problem(wire.receive(), 410, "cancelled")
    assert_problem(jobs.result(path), 410, "cancelled")
    assert_nothing_held(jobs)
    assert jobs.state(path) == "cancelled"
    assert jobs.kernels_run() == 0


def test_delete_while_the_result_is_sent(start_jobs):
    """Who has begun to fetch a result gets all of it."""
    daemon, jobs = start_jobs()
    columns = 1 << 22
    body = np.arange(1 + columns, dtype=np.float32).tobytes()
    path = jobs.make({"m": 1, "n": columns, "k": 1}, body)
    expected = jobs.result(path).content
    assert len(expected) == 4 * columns
    with Wire(daemon.address) as wire:
        wire.send(request("GET", f"{path}/result"))
        wire._more()  # the first bytes; the rest is more than the sockets hold
        assert jobs.delete(path).status_code == 200
        assert jobs.metrics()["gemmd_job_bytes"] == 4 * columns, "it is still being sent"
        assert wire.receive().body == expected
    assert_nothing_held(jobs)


# ---- expiry -------------------------------------------------------------------------------------

TTL_S = 1


def test_expiry(start_jobs):
    _, jobs = start_jobs("--job-ttl", f"{TTL_S}s")
    made = []

    def expired(ask):
        """The answer to `ask` about a job that has expired. The daemon may forget a job that is asked about
        late, but not before the time."""
        while True:
            kept = time.monotonic()
            path = jobs.make()
            made.append(path)
            deadline = time.monotonic() + PATIENCE_S
            while (asked := time.monotonic()) and jobs.get(path).status_code == 200:
                assert asked < deadline, "it does not expire"
                kept = asked
                time.sleep(0.01)
            answer = ask(path)
            if answer.status_code != 404:
                return answer
            assert time.monotonic() - kept >= TTL_S, "it is forgotten at once"

    for ask in (jobs.get, lambda path: jobs.get(f"{path}/result"), jobs.result, jobs.delete):
        assert_problem(expired(ask), 410, "expired")
    assert jobs.metrics()["gemmd_jobs_expired_total"] == len(made)
    assert_nothing_held(jobs)
    eventually(lambda: jobs.get(made[-1]).status_code == 404, "it is not forgotten")


def test_a_fetched_result_is_kept_until_it_expires(start_jobs):
    _, jobs = start_jobs("--job-ttl", f"{TTL_S}s")
    fetched = 0
    while fetched < 2:  # in one lifetime of a job
        begun, fetched = time.monotonic(), 0
        path = jobs.make()
        while (answer := jobs.result(path)).status_code == 200:
            assert answer.content == RIGHT
            fetched += 1
            assert time.monotonic() - begun < PATIENCE_S, "it does not expire"
            time.sleep(0.01)
        assert answer.status_code in (404, 410)  # forgotten, if it is asked for late
        assert time.monotonic() - begun >= TTL_S, "it is gone too early"


# ---- tenants ------------------------------------------------------------------------------------

def test_tenants(start, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("alice:a-secret-of-alice\nalice:another-of-alice\nbob:a-secret-of-bob\n")
    tokens.chmod(0o600)
    daemon = start("--token-file", tokens)
    alice, other_alice, bob = (
        Jobs(daemon.url, daemon.session, Authorization=f"Bearer {token}")
        for token in ("a-secret-of-alice", "another-of-alice", "a-secret-of-bob"))
    path = alice.make()
    for answer in (bob.get(path), bob.get(f"{path}/result"), bob.result(path), bob.delete(path)):
        assert_problem(answer, 403, "another tenant")
    for answer in (bob.get(f"/jobs/{UNKNOWN}"), bob.delete(f"/jobs/{UNKNOWN}")):
        assert_problem(answer, 404)
    nobody = Jobs(daemon.url, daemon.session)
    for answer in (nobody.get(path), nobody.result(path), nobody.delete(path)):
        assert_problem(answer, 401)
    bobs = bob.make()
    assert [listed(tenant)[0] for tenant in (alice, other_alice, bob)] == [[path], [path], [bobs]]
    assert_problem(nobody.get("/jobs"), 401)
    assert other_alice.result(path).content == RIGHT, "a tenant may have several tokens"
    assert other_alice.delete(path).status_code == 200


# ---- limits -------------------------------------------------------------------------------------

def ask(target, length, *headers):
    """The head of a job that waits for 100 Continue."""
    return request("POST", target, [("Content-Length", length), ("Prefer", "respond-async"),
                                    ("Expect", "100-continue"), *headers])


def test_too_many_jobs(start_jobs):
    daemon, jobs = start_jobs("--max-jobs", "2")
    kept = jobs.make()
    assert jobs.result(kept).status_code == 200
    with Wire(daemon.address) as receiving:
        receiving.send(ask(TARGET, 32))
        assert receiving.receive().status == 100
        assert jobs.metrics()['gemmd_jobs{state="receiving"}'] == 1
        refused = exchange(daemon.address, ask(TARGET, 32))
        assert_problem(refused, 429, "2 jobs")
        assert int(refused.headers["retry-after"]) >= 1
        assert jobs.post(headers={"X-Other": "1"}).content == RIGHT, "others are not concerned"
        jobs.delete(kept)
        assert exchange(daemon.address, JOB).status == 202
    # The one that was being received has left without its body.
    eventually(lambda: exchange(daemon.address, JOB).status == 202, "its place is not free")
    assert_problem(exchange(daemon.address, JOB), 429)


def test_too_many_bytes(start_jobs):
    daemon, jobs = start_jobs("--job-bytes", "64K")
    half = "/gemm?m=128&n=64&k=1"  # a result of 32 KiB
    paths = [jobs.make({"m": 128, "n": 64, "k": 1}, bytes(4 * 192)) for _ in range(2)]
    refused = exchange(daemon.address, ask(half, 4 * 192))
    assert_problem(refused, 429, "64 KiB of 64 KiB")
    assert int(refused.headers["retry-after"]) >= 1
    assert_problem(exchange(daemon.address, ask("/gemm?m=129&n=128&k=1", 4 * 257)), 413, "64 KiB")
    npy = encode(NPY, random_operands(Problem(127, 64, 1), np.random.default_rng(1)))
    assert_problem(jobs.post({}, npy, NPY), 429, "64 KiB of 64 KiB")
    jobs.delete(paths[0])  # it may be running still, and has its bytes until it has ended
    eventually(lambda: jobs.post({}, npy, NPY).status_code == 202, "its bytes are not free")


def test_no_jobs(start_jobs):
    """The preference is not heeded, which is not an error."""
    _, jobs = start_jobs("--max-jobs", "0")
    answer = jobs.post()
    assert (answer.status_code, answer.content) == (200, RIGHT)
    assert "Preference-Applied" not in answer.headers


def test_limits_are_told(jobs):
    limits = jobs.get("/info").json()["limits"]
    assert (limits["max-jobs"], limits["job-bytes"]) == (1024, 1 << 30)
    assert (limits["job-ttl"], limits["max-wait"]) == (600_000, 60_000)
    metrics = jobs.metrics()
    assert metrics["gemmd_jobs_capacity"] == 1024
    assert metrics["gemmd_job_capacity_bytes"] == 1 << 30


# ---- clients that leave -------------------------------------------------------------------------

def test_client_leaves_after_its_job_is_accepted(start_jobs):
    daemon, jobs = start_jobs()
    with Wire(daemon.address) as wire:
        wire.send(JOB)
        path = wire.receive().headers["location"]
    assert jobs.result(path).content == RIGHT
    with Wire(daemon.address) as wire:  # and before it has read that
        wire.send(JOB)
        eventually(lambda: jobs.metrics()["gemmd_jobs_created_total"] == 2, "it is not accepted")
    eventually(lambda: jobs.metrics()['gemmd_jobs{state="done"}'] == 2, "it is not computed")


def test_clients_leave_while_they_wait(start_jobs):
    daemon, jobs = start_jobs("--io-threads", "1")
    path = jobs.make_long()
    for _ in range(10):
        waiting(daemon.address, path).socket.close()
    with waiting(daemon.address, path) as wire:
        assert wire.receive().status == 200
    jobs.delete(path)
    assert_nothing_held(jobs)
    eventually(lambda: jobs.metrics()["gemmd_connections"] == 1, "connections stay behind")


def test_mixture(start_jobs, rng):
    """Many clients make, wait for, fetch, cancel and forget jobs: no wrong byte, nothing held."""
    daemon, _ = start_jobs("--job-ttl", f"{TTL_S}s", "--max-jobs", "40")
    problems = [Problem(*size) for size in ((2, 3, 4), (64, 64, 64), (200, 300, 100))]
    cases = []
    for problem in problems:
        body = random_operands(problem, rng).raw()
        with_session = Jobs(daemon.url, daemon.session)
        cases.append((problem.parameters(), body,
                      with_session.post(problem.parameters(), body,
                                        headers={"X-Other": "1"}).content))
    wrong = []

    def use(jobs, chooser):
        parameters, body, expected = chooser.choice(cases)
        begun = time.monotonic()

        def is_late(answer):
            """Whether the job may have expired, or been forgotten, before the client came."""
            return answer.status_code in (404, 410) and time.monotonic() - begun >= TTL_S

        answer = jobs.post(parameters, body)
        if answer.status_code == 429:
            return
        assert answer.status_code == 202, answer.content
        path = answer.headers["Location"]
        act = chooser.choice(("fetch", "fetch", "cancel", "forget", "leave"))
        if act == "fetch":
            result = jobs.result(path)
            if is_late(result):
                return
            assert result.status_code == 200 and result.content == expected
            answer = jobs.delete(path)
            assert is_late(answer) or answer.json()["state"] == "done"
        elif act == "cancel":
            answer = jobs.delete(path)
            if is_late(answer):
                return
            state = answer.json()["state"]
            answer = jobs.get(f"{path}/result")
            assert is_late(answer) or answer.status_code == {"cancelled": 410, "done": 404}[state]
        elif act == "leave":
            waiting(daemon.address, path).socket.close()

    def client(seed):
        try:
            with requests.Session() as session:
                jobs, chooser = Jobs(daemon.url, session), random.Random(seed)
                for _ in range(60):
                    use(jobs, chooser)
        except Exception as error:  # whatever it is, the test must see it
            wrong.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=client, args=(int(seed),), daemon=True)
               for seed in rng.integers(1 << 30, size=8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10 * PATIENCE_S)
        assert not thread.is_alive(), "a client still waits for its answer"
    assert not wrong, wrong[:5]
    assert_nothing_held(Jobs(daemon.url, daemon.session))


# ---- the end ------------------------------------------------------------------------------------

def drains(daemon):
    daemon.wait_for(lambda lines: any("draining" in str(line.get("message", ""))
                                      for line in lines), "the line that it drains")


def test_jobs_are_finished_when_it_ends(start_jobs):
    """Running and queued ones; who waits gets what he waits for."""
    daemon, jobs = start_jobs()
    paths = [jobs.make_long(), jobs.make(), jobs.make()]
    with waiting(daemon.address, paths[0]) as first, waiting(daemon.address, paths[2]) as last:
        eventually(lambda: jobs.metrics()["gemmd_connections"] == 3, "they are not let in")
        assert jobs.get("/livez").status_code == 200
        daemon.terminate()
        drains(daemon)
        assert len(first.receive().body) == 4 * jobs.long**2
        answer = last.receive()
        assert (answer.status, answer.body) == (200, RIGHT)
    assert daemon.wait() == 0
    assert "drained" in daemon.messages()


def test_results_nobody_fetched_do_not_hold_it_up(start_jobs):
    daemon, jobs = start_jobs()
    jobs.delete(jobs.make())
    assert jobs.result(jobs.make()).status_code == 200
    jobs.make_long(wait=False)
    daemon.terminate()
    assert daemon.wait() == 0
    assert "the results of 2 jobs that nobody has deleted are lost" in daemon.messages()


def test_jobs_during_the_drain_delay(start_jobs):
    """What is there can be fetched; what comes is answered at once."""
    daemon, jobs = start_jobs("--drain-delay", "600s")
    path = jobs.make()
    daemon.terminate()
    drains(daemon)
    assert jobs.result(path).content == RIGHT
    answer = jobs.post()
    assert (answer.status_code, answer.content) == (200, RIGHT)
    assert "Preference-Applied" not in answer.headers
    assert jobs.delete(path).status_code == 200
    daemon.terminate()
    assert daemon.wait() == 0


def test_second_signal_with_jobs_and_those_who_wait(start_jobs):
    """Everybody is answered, whatever it is."""
    daemon, jobs = start_jobs("--drain-delay", "600s")
    paths = [jobs.make_long(), *(jobs.make() for _ in range(5))]
    wires = [waiting(daemon.address, path) for path in paths]
    eventually(lambda: jobs.metrics()["gemmd_connections"] == 7, "they are not let in")
    daemon.terminate()
    drains(daemon)
    daemon.terminate()
    try:
        for wire in wires:
            answer = wire.receive()
            assert answer.status in (200, 503), answer
    finally:
        for wire in wires:
            wire.socket.close()
    assert daemon.wait() == 0
