"""/v2 as HTTP: methods, paths in every spelling, versions, and what a daemon that leaves says."""

import json

import numpy as np
import pytest

from daemon import PATIENCE_S
from oip import HEADER, Input, body, infer
from problem import assert_problem
from test_jobs import eventually
from wire import Wire, exchange, request

GETS = ["", "/", "/health/live", "/health/ready", "/models/stats", "/models/gemm_fp32",
        "/models/gemm_fp32/versions/1", "/models/gemm_fp32/ready", "/models/gemm_fp32/config",
        "/models/gemm_fp32/versions/1/ready", "/models/gemm_fp32/versions/1/config",
        "/models/gemm_fp32/stats", "/models/gemm_fp32/versions/1/stats",
        "/models/attention_fp16", "/logging", "/trace/setting",
        "/models/gemm_fp32/trace/setting", "/systemsharedmemory/status",
        "/cudasharedmemory/status"]
POSTS = ["/models/gemm_fp32/infer", "/models/gemm_fp32/versions/1/infer", "/repository/index",
         "/repository/models/gemm_fp32/load", "/repository/models/gemm_fp32/unload",
         *(f"/{kind}sharedmemory/{path}" for kind in ("system", "cuda")
           for path in ("region/r/register", "region/r/unregister", "unregister"))]
BOTH = ["/logging", "/trace/setting", "/models/gemm_fp32/trace/setting"]
GOOD = [Input("A", np.ones((2, 3), np.float32)), Input("B", np.ones((3, 2), np.float32))]


@pytest.fixture
def v2(url, session):
    def send(path, method="GET", **keywords):
        return session.request(method, f"{url}/v2{path}", timeout=PATIENCE_S, **keywords)
    return send


@pytest.mark.parametrize("path", GETS)
def test_head_is_get_without_the_body(path, v2):
    get, head = v2(path), v2(path, "HEAD")
    assert (get.status_code, head.status_code) == (200, 200)
    assert head.headers["Content-Type"] == get.headers["Content-Type"]
    assert head.content == b""


@pytest.mark.parametrize("method, path", [
    *((method, path) for path in GETS for method in ("PUT", "DELETE", "PATCH")
      if path not in ("", "/")),
    *(("POST", path) for path in GETS if path not in (*BOTH, "", "/")),
    *((method, path) for path in POSTS for method in ("GET", "HEAD", "PUT", "DELETE"))])
def test_other_methods(method, path, v2):
    answer = v2(path, method)
    assert answer.status_code == 405
    assert method not in answer.headers["Allow"].split(", ")
    assert method == "HEAD" or answer.json()["error"]


@pytest.mark.parametrize("method, path", [
    ("GET", "//"), ("GET", "/health"), ("GET", "/health/"), ("GET", "/health/live/"),
    ("GET", "/models/"), ("GET", "/models/gemm_fp32/"), ("GET", "/models//ready"),
    ("GET", "/models/GEMM_FP32"), ("GET", "/models/gemm_fp32%20"),
    ("GET", "/models/gemm_fp32%2Fconfig"), ("GET", "/models%2fgemm_fp32"),
    ("GET", "/models/%2e%2e"), ("GET", "/models/..%2f..%2fetc%2fpasswd"),
    ("GET", "/models/linear.%2e%2e%2fx"), ("GET", "/models/%ff%fe"), ("GET", "/models/gemm_fp32%"),
    ("GET", "/models/gemm_fp32/versions/"), ("GET", "/models/gemm_fp32/versions/0"),
    ("GET", "/models/gemm_fp32/versions/01"), ("GET", "/models/gemm_fp32/versions/-1"),
    ("GET", "/models/gemm_fp32/versions/1/"), ("GET", "/models/gemm_fp32/versions/x/ready"),
    ("GET", "/models/gemm_fp32/versions/99999999999999999999/config"),
    ("POST", "/models/gemm_fp32/versions/2/infer"), ("POST", "/models/gemm_fp32/infer/"),
    ("POST", "/models/nope/infer"), ("POST", "/models//infer"), ("POST", "/repository"),
    ("POST", "/models/gemm_fp32/generate"), ("POST", "/models/gemm_fp32/generate_stream")])
def test_paths_that_are_not_there(method, path, address):
    """As they are written: nothing tidies them on their way."""
    answer = exchange(address, request(method, f"/v2{path}", [("Content-Length", 2)], b"{}"))
    assert answer.status == 404, answer
    assert json.loads(answer.body)["error"]


@pytest.mark.parametrize("path", ["/v2/models/gemm_fp32%00", "/v2/models/gemm_fp32%00/config",
                                  "/v2%00/models/nope", "/livez%00x", "/tensors/w%00",
                                  "/tensors%2Fw", "/jobs%2Fx"])
def test_a_path_does_not_end_at_a_zero_nor_part_at_an_escaped_slash(path, address):
    answer = exchange(address, request("GET", path))
    assert answer.status == 404, answer
    assert json.loads(answer.body)["error"]


@pytest.mark.parametrize("path", ["/models/gemm%5Ffp32", "/models/gemm_fp32?x=1&x=2",
                                  "/models/gemm_fp32?", "/health/ready?verbose=%00"])
def test_other_spellings_of_paths(path, v2):
    """Escapes mean what they stand for; what is asked besides means nothing."""
    assert v2(path).status_code == 200


def test_infer_ignores_what_it_does_not_know(url, session):
    """Query strings, headers, media types, members of the JSON."""
    data, headers = body(GOOD, id="", parameters={"sequence_id": 7, "sequence_start": True,
                                                  "sequence_end": False}, model_name="x")
    for media_type in (None, "application/json", "text/plain", "x"):
        answer = session.post(f"{url}/v2/models/gemm_fp32/infer?m=9&timeout_ms=x", data=data,
                              timeout=PATIENCE_S,
                              headers=headers | {"Content-Type": media_type, "triton-x": "1"})
        assert answer.status_code == 200, answer.text
        assert "id" not in answer.json(), "an empty id is none"


def test_data_and_bytes_exclude_each_other(url, session):
    entry = GOOD[0].describe() | {"data": [1] * 6}
    text = json.dumps({"inputs": [entry, GOOD[1].describe()]}).encode()
    answer = session.post(f"{url}/v2/models/gemm_fp32/infer", data=text + bytes(48),
                          headers={HEADER: str(len(text))}, timeout=PATIENCE_S)
    assert answer.status_code == 400
    assert "either data" in answer.json()["error"]


@pytest.mark.parametrize("datatype", ["BOOL", "UINT16", "UINT64", "INT16", "FP16", "BF16", "FP64",
                                      "FP4", "fp32", "FP32 "])
def test_other_types_than_the_models(datatype, url, session):
    entry = GOOD[0].describe() | {"datatype": datatype}
    text = json.dumps({"inputs": [entry, GOOD[1].describe()]}).encode()
    answer = session.post(f"{url}/v2/models/gemm_fp32/infer", data=text + bytes(48),
                          headers={HEADER: str(len(text))}, timeout=PATIENCE_S)
    assert answer.status_code == 400
    assert "expects FP32" in answer.json()["error"]


def test_very_many_chunks(address, instrumented):
    """A million, of one byte each; what they cost is the bytes."""
    side = 100 if instrumented else 500
    data, headers = body([Input("A", np.ones((side, side), np.float32)),
                          Input("B", np.ones((side, 1), np.float32))])
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in data) + b"0\r\n\r\n"
    answer = exchange(address, request("POST", "/v2/models/gemm_fp32/infer",
                                       [("Transfer-Encoding", "chunked"), *headers.items()],
                                       chunks))
    assert answer.status == 200
    assert json.loads(answer.body)["outputs"][0]["data"] == [side] * side


def test_a_daemon_that_leaves(start):
    """Alive, not ready, and its models neither; what it still takes it computes."""
    daemon = start("--drain-delay", "600s")
    with Wire(daemon.address) as wire:
        wire.send(request("GET", "/v2/health/ready"))
        assert wire.receive().status == 200
        daemon.process.terminate()
        eventually(lambda: daemon.session.get(f"{daemon.url}/v2/health/ready",
                                              timeout=PATIENCE_S).status_code == 503, "ready")
        answer = daemon.session.get(f"{daemon.url}/v2/health/ready", timeout=PATIENCE_S)
        assert answer.json()["error"]
        assert daemon.session.get(f"{daemon.url}/v2/health/live",
                                  timeout=PATIENCE_S).status_code == 200
        assert infer(daemon.url, "gemm_fp32", GOOD).status_code == 200
    daemon.process.terminate()


@pytest.mark.parametrize("path", [
    "/v2/health/live", "/v2/models/gemm_fp32", "/v2/models/gemm_fp32/infer", "/v2/models/gemm_fp32/versions/1/ready",
    "/v2/models/stats", "/v2/repository/index", "/gemm", "/jobs", "/jobs/1/result", "/info"])
@pytest.mark.parametrize("slashes", ["/", "//"])
def test_a_slash_too_many_is_suggested_away(path, slashes, url, session):
    for method in ("GET", "POST"):
        answer = session.request(method, url + path + slashes)
        assert_problem(answer, 404, f"did you mean {path}[?]$")


def test_a_job_that_is_not_there_is_named(url, session):
    for method, path in (("GET", ""), ("GET", "/result"), ("DELETE", "")):
        assert_problem(session.request(method, f"{url}/jobs/no-such-one{path}"), 404, "there is no job 'no-such-one'")
