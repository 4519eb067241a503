"""Products that are verified: because a request asks for it, or by the sample of --verify-share."""

import contextlib
import json
import re
import signal

import numpy as np
import pytest

from daemon import PATIENCE_S
from matrices import NUMPY
from problem import assert_problem
from test_leaving import endless, wait_for
from test_tensors import Tensors
from wire import Wire, request

WRONG = {"m": 77, "n": 30, "k": 40}  # what tests/faults/wrong_product.c computes wrongly
RIGHT = {"m": 78, "n": 30, "k": 40}


@pytest.fixture(name="wrong")
def wrong_products(start, gemmd, instrumented):
    """Starts a daemon whose products of one shape are wrong."""
    if instrumented:
        pytest.skip("a sanitizer's runtime must be loaded first")
    library = gemmd.parent.parent / "tests" / "wrong_product.so"
    if not library.exists():
        pytest.skip("the build has no tests/wrong_product.so")

    def begin(*arguments):
        return start("--backend", "cpu", *arguments, environment={"LD_PRELOAD": str(library)})

    return begin


def operands(shape, seed=1):
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, shape["m"] * shape["k"] + shape["k"] * shape["n"]).astype("f4")


def post(daemon, shape, headers=None, **parameters):
    return daemon.session.post(
        f"{daemon.url}/gemm", params=shape | parameters, data=operands(shape).tobytes(),
        headers={"Content-Type": "application/octet-stream"} | (headers or {}), timeout=PATIENCE_S)


def assert_wrong(answer):
    document = assert_problem(answer, 500, "failed verification", field="verify")
    assert document["type"] == "urn:gemmd:error:verification-failed"


def counted(daemon, by, result):
    text = daemon.session.get(f"{daemon.url}/metrics", timeout=PATIENCE_S).text
    found = re.search(rf'^gemmd_verifications_total{{by="{by}",result="{result}"}} (\d+)$', text,
                      re.MULTILINE)
    return int(found[1]) if found else 0


def computed(daemon):
    text = daemon.session.get(f"{daemon.url}/metrics", timeout=PATIENCE_S).text
    return sum(map(int, re.findall(r'^gemmd_kernel_works_total{op="gemm",.*} (\d+)$', text, re.MULTILINE)))


def test_a_wrong_product_is_not_sent(wrong):
    daemon = wrong()
    assert post(daemon, WRONG).status_code == 200, "nobody looks"
    answer = post(daemon, WRONG, verify="freivalds")
    assert_wrong(answer)
    assert answer.headers["Retry-After"] == "1"
    assert post(daemon, RIGHT, verify="freivalds").headers["Gemmd-Verify"].startswith("pass")
    assert counted(daemon, "request", "fail") == counted(daemon, "request", "pass") == 1
    assert counted(daemon, "sample", "fail") == counted(daemon, "sample", "pass") == 0


def test_the_sample_finds_wrong_products(wrong):
    daemon = wrong("--verify-share", "1")
    answer = post(daemon, WRONG, headers={"X-Request-Id": "looked-at"})
    assert_wrong(answer)
    lines = daemon.wait_for(lambda all: [line for line in all
                                         if "wrong result" in str(line.get("message"))], "the line")
    assert lines[0]["level"] == "error"
    for part in ("request looked-at", "f32 to f32, m 77, n 30, k 40", "kernel openblas", "device "):
        assert part in lines[0]["message"]
    right = post(daemon, RIGHT)
    assert right.status_code == 200
    assert "Gemmd-Verify" not in right.headers, "its client has not asked"
    assert post(daemon, WRONG, act="relu").status_code == 200, "such products are not verified"
    assert counted(daemon, "sample", "fail") == counted(daemon, "sample", "pass") == 1


def test_the_sample_finds_wrong_results_of_jobs_and_inferences(wrong):
    daemon = wrong("--verify-share", "1")
    job = post(daemon, WRONG, headers={"Prefer": "respond-async"})
    assert job.status_code == 202
    result = daemon.session.get(f"{daemon.url}{job.headers['Location']}/result",
                                params={"wait_ms": PATIENCE_S * 1000}, timeout=PATIENCE_S)
    assert_wrong(result)
    a, b = np.split(operands(WRONG), [WRONG["m"] * WRONG["k"]])
    inputs = [{"name": name, "shape": shape, "datatype": "FP32", "data": data.tolist()}
              for name, shape, data in (("A", [WRONG["m"], WRONG["k"]], a),
                                        ("B", [WRONG["k"], WRONG["n"]], b))]
    answer = daemon.session.post(f"{daemon.url}/v2/models/gemm_fp32/infer", json={"inputs": inputs},
                                 timeout=PATIENCE_S)
    assert_wrong(answer)
    assert counted(daemon, "sample", "fail") == 2
    daemon.wait_for(lambda _: len([m for m in daemon.messages() if m.startswith("wrong result: request ")]) == 2,
                    "a line about each")


@pytest.mark.parametrize("great, small", [(-300, 0), (-150, -155), (0, -300), (-307, 0), (150, -310), (-290, -16),
                                          (300, 0), (-36, 0), (-20, -20), (0, -38), (37, 0)])
def test_correct_products_at_the_edge_of_the_range_pass(url, session, rng, great, small):
    """Sums with r, or the squares that bound their errors, are subnormal or out of range in f64."""
    for dtype, at_most in (("f64", 300), ("f32", 38), ("bf16", 38)):
        if max(abs(great), abs(small)) > at_most:
            continue
        for k, n in ((1, 1), (40, 30), (700, 3)):
            a, b, c0 = (rng.uniform(-1, 1, size) * 10.0**e for size, e in (
                ((12, k), great), ((k, n), small), ((12, n), great + small)))
            body = b"".join(x.astype(NUMPY[dtype]).tobytes() for x in (a, b, c0))
            answer = session.post(f"{url}/gemm", data=body, timeout=PATIENCE_S, params={
                "m": 12, "n": n, "k": k, "dtype": dtype, "beta": 0.75, "alpha": -1.25, "verify": "freivalds"})
            assert answer.status_code == 200, (dtype, k, n, answer.text)


def test_a_computed_product_is_already_verified(start):
    """No product waits for its check after it was computed: a backlog of checks would be outside the queue's order,
    fairness, deadlines and withdrawals."""
    side, count = 2048, 40
    daemon = start("--backend", "cpu", "--max-batch", "1")
    assert Tensors(daemon.url).put("b", np.ones((side, side), "f4")).status_code == 201
    row = np.ones(side, "f4").tobytes()
    line = (f"POST /gemm?m=1&n={side}&k={side}&b=b&verify=freivalds HTTP/1.1\r\nHost: gemmd\r\n"
            f"Content-Type: application/octet-stream\r\nContent-Length: {len(row)}\r\n\r\n").encode()
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Wire(daemon.address)) for _ in range(count)]
        for client in clients:
            client.send(line + row)
        while computed(daemon) < count:
            pass
        # The metrics may be read between the end of the last launch and the count of its check.
        assert counted(daemon, "request", "pass") >= count - 1
        for client in clients:
            assert client.receive().headers["gemmd-verify"].startswith("pass")


@contextlib.contextmanager
def rows_that_wait(start, *arguments):
    """The clients of 40 rows on a resident B that are to be verified, behind a computation without an end."""
    daemon = start("--backend", "cpu", "--cpu-threads", "1", "--no-cpu-pauses", "--io-threads", "1",
                   "--timeout", "600s", *arguments)
    assert Tensors(daemon.url).put("b", np.ones((64, 64), "f4")).status_code == 201
    with contextlib.ExitStack() as stack:
        blocker = stack.enter_context(Wire(daemon.address))
        blocker.send(endless())
        wait_for(daemon, requests_running=1)
        clients = [stack.enter_context(Wire(daemon.address)) for _ in range(40)]
        for client in clients:
            client.send(request("POST", "/gemm?m=1&b=b&verify=freivalds", [("Content-Length", 256)],
                                np.ones(64, "f4").tobytes()))
        wait_for(daemon, requests_waiting=len(clients))
        yield daemon, blocker, clients


def test_rows_whose_clients_have_left_are_not_verified(start):
    with rows_that_wait(start) as (daemon, blocker, clients):
        for client in clients:
            client.socket.close()
        wait_for(daemon, requests_waiting=0)
        blocker.socket.close()
        assert post(daemon, RIGHT, verify="freivalds").status_code == 200
        assert counted(daemon, "request", "pass") == 1


def test_a_drain_does_not_wait_for_rows_to_be_verified(start):
    with rows_that_wait(start, "--drain-timeout", "0") as (daemon, _, clients):
        daemon.stop()
        assert [client.receive().status for client in clients] == [503] * len(clients)


def test_a_share_of_the_products_is_verified(start):
    daemon = start("--backend", "cpu", "--verify-share", "0.5")
    for _ in range(200):
        assert post(daemon, {"m": 2, "n": 2, "k": 2}).status_code == 200
    # 200 draws of probability 1/2 lie in this range with probability 1 - 1e-12.
    assert 50 <= counted(daemon, "sample", "pass") <= 150
    assert counted(daemon, "sample", "fail") == 0


def test_the_share_is_reloadable(start, tmp_path):
    file = tmp_path / "gemmd.json"
    file.write_text(json.dumps({"backend": "cpu"}))
    daemon = start("--config", file)
    assert post(daemon, RIGHT).status_code == 200
    assert counted(daemon, "sample", "pass") == 0
    file.write_text(json.dumps({"backend": "cpu", "verify-share": 1.0}))
    daemon.process.send_signal(signal.SIGHUP)
    daemon.wait_for(lambda _: "--verify-share is now 1; it was 0" in daemon.messages(), "the reload")
    assert post(daemon, RIGHT).status_code == 200
    assert counted(daemon, "sample", "pass") == 1
    info = daemon.session.get(f"{daemon.url}/info", timeout=PATIENCE_S).json()
    assert info["limits"]["verify-share"] == 1
