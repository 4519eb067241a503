"""/v2, call by call, and inference: the bytes are those of POST /gemm."""

import json

import numpy as np
import pytest

from daemon import PATIENCE_S
from matrices import ACTS, NUMPY, OUTS, Problem, random_operands
from oip import ARRAYS, ATTENTION, CONV2D, DATATYPE, EXPERTS, HEADER, MODEL, Input, body, infer, split
from test_jobs import eventually
from test_leaving import endless, wait_for
from test_metrics import scrape, total
from test_tensors import Tensors
from wire import Wire, request

BINARY = {"binary_data_output": True}
A = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
B = np.array([[1, -1], [0.5, 2], [3, 0.25]], np.float32)


@pytest.fixture
def v2(url, session):
    def get(path, method="GET", **keywords):
        return session.request(method, f"{url}/v2{path}", timeout=PATIENCE_S, **keywords)
    return get


@pytest.fixture
def weights(url):
    """put(name, array): resident for this test."""
    tensors, names = Tensors(url), []

    def put(name, array):
        assert tensors.put(name, array).status_code == 201
        names.append(name)

    yield put
    for name in names:
        tensors.send("DELETE", name)


def guarded(start, folder, *tokens):
    file = folder / "tokens"
    file.write_text("\n".join(tokens) + "\n")
    file.chmod(0o600)
    return start("--token-file", file)


def squeeze(array):
    return array[0] if array is not None and array.ndim == 3 and len(array) == 1 else array


def inputs_of(problem, operands, binary=True):
    """Those of a model gemm_…; results' types are those of BIAS and C0."""
    found = [Input("A", squeeze(operands.a), problem.dtype, binary),
             Input("B", squeeze(operands.b), problem.dtype, binary)]
    if operands.bias is not None:
        found.append(Input("BIAS", operands.bias, problem.result, binary))
    if operands.c0 is not None:
        found.append(Input("C0", squeeze(operands.c0), problem.result, binary))
    return found


def options_of(problem):
    known = ("transa", "transb", "alpha", "beta", "act", "out", "precision")
    return {name: value for name, value in problem.parameters().items() if name in known}


def product(url, session, problem, operands):
    answer = session.post(f"{url}/gemm", params=problem.parameters(), data=operands.raw(),
                          headers={"Content-Type": "application/octet-stream"}, timeout=PATIENCE_S)
    assert answer.status_code == 200, answer.text
    return answer.content


# ---- inference ----

@pytest.mark.parametrize("dtype, out", [(d, o) for d, outs in OUTS.items() for o in outs])
@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (5, 7, 3), (33, 31, 65), (128, 96, 100)])
def test_bytes_are_those_of_gemm(m, n, k, dtype, out, url, session, rng):
    problem = Problem(m, n, k, dtype=dtype, out=out)
    operands = random_operands(problem, rng)
    answer = infer(url, MODEL[dtype], inputs_of(problem, operands), session,
                   parameters=BINARY | options_of(problem), id="one")
    assert answer.status_code == 200, answer.text
    said, data = split(answer)
    assert data == product(url, session, problem, operands)
    assert said == {"model_name": MODEL[dtype], "model_version": "1", "id": "one",
                    "outputs": [{"name": "C", "datatype": DATATYPE[out], "shape": [m, n],
                                 "parameters": {"binary_data_size": len(data)}}]}
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Gemmd-Kernel"]


@pytest.mark.parametrize("problem", [
    Problem(5, 6, 7, transa=True, alpha=0.5), Problem(5, 6, 7, transb=True, alpha=-1.25e-3),
    Problem(5, 6, 7, bias=True, act="relu"), Problem(5, 6, 7, beta=2), Problem(5, 6, 7, batch=3),
    Problem(5, 6, 7, batch=3, beta=0.5, bias=True), Problem(5, 6, 7, dtype="i8", alpha=3, beta=-2),
    Problem(5, 6, 7, dtype="bf16", out="f32", bias=True, beta=1),
    *(Problem(5, 6, 7, act=act) for act in ACTS)], ids=str)
def test_options_are_those_of_gemm(problem, url, session, rng):
    operands = random_operands(problem, rng)
    answer = infer(url, MODEL[problem.dtype], inputs_of(problem, operands), session,
                   parameters=BINARY | options_of(problem))
    assert answer.status_code == 200, answer.text
    assert split(answer)[1] == product(url, session, problem, operands)


@pytest.mark.parametrize("dtype, out", [("f32", "f32"), ("f64", "f64"), ("i8", "i32"),
                                        ("f8_e4m3", "f32")])
def test_json_there_and_back(dtype, out, url, session, rng):
    """Numbers as text name the same values: all bytes are the same again."""
    problem = Problem(9, 4, 11, dtype=dtype, out=out, bias=True)
    operands = random_operands(problem, rng)
    answer = infer(url, MODEL[dtype], inputs_of(problem, operands, binary=False), session,
                   parameters=options_of(problem))
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == "application/json"
    output = answer.json()["outputs"][0]
    assert output.keys() == {"name", "datatype", "shape", "data"}
    data = np.array(output["data"], NUMPY[out])
    assert data.tobytes() == product(url, session, problem, operands)


def test_long_json_comes_whole(url, session, rng):
    a = rng.uniform(-1, 1, (300, 2)).astype(np.float32)
    b = rng.uniform(-1, 1, (2, 301)).astype(np.float32)
    inputs = [Input("A", a), Input("B", b)]
    text = np.array(infer(url, "gemm_fp32", inputs, session).json()["outputs"][0]["data"],
                    np.float32)
    data = split(infer(url, "gemm_fp32", inputs, session, parameters=BINARY))[1]
    assert text.tobytes() == data


def test_flat_and_nested_and_mixed(url, session):
    expected = (A @ B).ravel().tolist()
    flat = {"name": "B", "shape": [3, 2], "datatype": "FP32", "data": B.ravel().tolist()}
    nested = {"name": "A", "shape": [2, 3], "datatype": "FP32", "data": A.tolist()}
    binary = {"name": "A", "shape": [2, 3], "datatype": "FP32",
              "parameters": {"binary_data_size": 24}}
    for first, tail in ((nested, b""), (binary, A.tobytes())):
        text = json.dumps({"inputs": [flat, first]}).encode()
        answer = session.post(f"{url}/v2/models/gemm_fp32/versions/1/infer", data=text + tail,
                              headers={HEADER.lower(): str(len(text))}, timeout=PATIENCE_S)
        assert answer.status_code == 200, answer.text
        assert answer.json()["outputs"][0]["data"] == expected


@pytest.mark.parametrize("outputs, default, binary", [
    ([], False, False), ([], True, True), ([{"name": "C"}], True, True),
    ([{"name": "C", "parameters": {"binary_data": True}}], False, True),
    ([{"name": "C", "parameters": {"binary_data": False}}], True, False)])
def test_outputs_go_as_they_are_asked_for(outputs, default, binary, url, session):
    answer = infer(url, "gemm_fp32", [Input("A", A), Input("B", B)], session, outputs=outputs,
                   parameters={"binary_data_output": default})
    assert answer.status_code == 200
    assert (HEADER in answer.headers) == binary


def test_chunked_bodies_are_taken(url, session):
    data, headers = body([Input("A", A), Input("B", B)], parameters=BINARY)
    pieces = (data[i:i + 7] for i in range(0, len(data), 7))
    answer = session.post(f"{url}/v2/models/gemm_fp32/infer", data=pieces, headers=headers,
                          timeout=PATIENCE_S)
    assert answer.status_code == 200, answer.text
    assert split(answer)[1] == (A @ B).tobytes()


def test_byte_for_byte(address):
    """A request and its answer as they stand on the wire."""
    text = (b'{"id":"7","inputs":[{"name":"A","shape":[1,2],"datatype":"INT8","parameters":'
            b'{"binary_data_size":2}},{"name":"B","shape":[2,1],"datatype":"INT8","parameters":'
            b'{"binary_data_size":2}}],"outputs":[{"name":"C","parameters":{"binary_data":true}}]}')
    data = text + bytes([1, 2, 3, 255])
    with Wire(address) as wire:
        wire.send(request("POST", "/v2/models/gemm_int8/infer",
                          [(HEADER.lower(), len(text)), ("content-length", len(data))], data))
        answer = wire.receive()
    head = (b'{"model_name":"gemm_int8","model_version":"1","id":"7","outputs":[{"name":"C",'
            b'"datatype":"INT32","shape":[1,1],"parameters":{"binary_data_size":4}}]}')
    assert answer.headers[HEADER.lower()] == str(len(head))
    assert answer.body == head + b"\x01\x00\x00\x00"


# ---- resident weights as models ----

@pytest.mark.parametrize("dtype", list(MODEL))
@pytest.mark.parametrize("transb", [False, True])
def test_a_resident_matrix_is_a_layer(dtype, transb, url, session, weights, rng):
    problem = Problem(6, 10, 33, dtype=dtype, transb=transb, beta=2, bias=True, act="relu")
    operands = random_operands(problem, rng)
    name = f"v2.{dtype}.{int(transb)}"
    weights(name, squeeze(operands.b))
    inputs = [Input("X", squeeze(operands.a), dtype), Input("BIAS", operands.bias, problem.result),
              Input("C0", squeeze(operands.c0), problem.result)]
    answer = infer(url, f"linear.{name}", inputs, session, parameters=BINARY | options_of(problem))
    assert answer.status_code == 200, answer.text
    said, data = split(answer)
    assert data == product(url, session, problem, operands)
    assert said["outputs"][0]["name"] == "Y"


def test_a_layer_of_a_batch(url, session, weights, rng):
    """As models have it: X of batch, sequence and features, W of features alone."""
    w = rng.uniform(-1, 1, (5, 4)).astype(np.float32)
    x = rng.uniform(-1, 1, (2, 3, 5)).astype(np.float32)
    weights("v2.sequence", w)
    said, data = split(infer(url, "linear.v2.sequence", [Input("X", x)], session,
                             parameters=BINARY))
    rows = split(infer(url, "linear.v2.sequence", [Input("X", x.reshape(6, 5))], session,
                       parameters=BINARY))
    assert said["outputs"][0]["shape"] == [2, 3, 4]
    assert data == rows[1]


@pytest.mark.parametrize("shape, parameters, status, says", [
    ((3, 6), {}, 400, "k is 6 by the shape of X"),
    ((3,), {}, 400, "X has 1 dimensions"),
    ((2, 5, 3), {"transa": True}, 422, "takes X row by row"),
])
def test_errors_call_the_input_x(shape, parameters, status, says, url, session, weights, rng):
    weights("v2.named", rng.uniform(-1, 1, (5, 4)).astype(np.float32))
    answer = infer(url, "linear.v2.named", [Input("X", np.ones(shape, np.float32))], session,
                   parameters=parameters)
    assert answer.status_code == status and says in answer.json()["error"], answer.text


def test_a_raw_request_is_the_rows(url, session, weights, rng):
    w = rng.uniform(-1, 1, (5, 4)).astype(np.float32)
    x = rng.uniform(-1, 1, (3, 5)).astype(np.float32)
    weights("v2.raw", w)
    answer = session.post(f"{url}/v2/models/linear.v2.raw/infer", data=x.tobytes(),
                          headers={HEADER: "0"}, timeout=PATIENCE_S)
    assert answer.status_code == 200, answer.text
    expected = split(infer(url, "linear.v2.raw", [Input("X", x)], session, parameters=BINARY))
    assert split(answer) == expected


def test_layers_come_and_go_with_their_tensors(url, v2, weights):
    assert v2("/models/linear.v2.gone/ready").status_code == 404
    weights("v2.gone", np.ones((5, 4), np.float16))
    weights("v2.vector", np.ones(5, np.float32))
    assert v2("/models/linear.v2.gone/ready").status_code == 200
    names = [entry["name"] for entry in v2("/repository/index", "POST").json()]
    assert "linear.v2.gone" in names
    assert "linear.v2.vector" not in names, "a vector is no layer"
    assert v2("/models/linear.v2.vector").status_code == 404
    Tensors(url).send("DELETE", "v2.gone")
    assert v2("/models/linear.v2.gone").status_code == 404


def test_many_layers_are_all_listed(url, v2, weights):
    names = [f"v2.many.{i:03}" for i in range(130)]
    for name in names:
        weights(name, np.ones((2, 2), np.float32))
    listed = [entry["name"] for entry in v2("/repository/index", "POST").json()]
    assert [name for name in listed if name.startswith("linear.v2.many.")] == [
        f"linear.{name}" for name in names]


def test_layers_are_their_tenants(start, tmp_path):
    daemon = guarded(start, tmp_path, "one:aaaaaaaaaaaaaaaa", "two:bbbbbbbbbbbbbbbb")
    mine = Tensors(daemon.url, "aaaaaaaaaaaaaaaa")
    theirs = Tensors(daemon.url, "bbbbbbbbbbbbbbbb")
    assert mine.put("w", np.ones((2, 2), np.float32)).status_code == 201
    status = {"mine": 200, "theirs": 403}
    for who, tensors in (("mine", mine), ("theirs", theirs)):
        answer = tensors.session.get(f"{daemon.url}/v2/models/linear.w", timeout=PATIENCE_S)
        assert answer.status_code == status[who]
        index = tensors.session.post(f"{daemon.url}/v2/repository/index", timeout=PATIENCE_S)
        assert ("linear.w" in index.text) == (who == "mine")
        stats = tensors.session.get(f"{daemon.url}/v2/models/stats", timeout=PATIENCE_S)
        assert ("linear.w" in stats.text) == (who == "mine")


# ---- the other calls ----

def test_server(v2):
    for path in ("", "/"):
        said = v2(path).json()
        assert said["name"] == "gemmd"
        assert {"binary_tensor_data", "statistics"} <= set(said["extensions"])
        assert not {"system_shared_memory", "cuda_shared_memory"} & set(said["extensions"])
    assert v2("/health/live").json() == {"live": True}
    assert v2("/health/ready").json() == {"ready": True}


def test_metadata_and_config(v2, weights):
    weights("v2.meta", np.ones((5, 4), np.float16))
    said = v2("/models/linear.v2.meta").json()
    assert said["versions"] == ["1"]
    assert said["inputs"] == [{"name": "X", "datatype": "FP16", "shape": [-1, 5]}]
    assert said["outputs"] == [{"name": "Y", "datatype": "FP16", "shape": [-1, 4]}]
    for model in [*MODEL.values(), *ATTENTION.values(), *CONV2D.values(), "linear.v2.meta"]:
        metadata, config = v2(f"/models/{model}").json(), v2(f"/models/{model}/config").json()
        assert v2(f"/models/{model}/versions/1").json() == metadata
        assert v2(f"/models/{model}/versions/1/config").json() == config
        for tensors, described in (("inputs", "input"), ("outputs", "output")):
            assert [(t["name"], f"TYPE_{t['datatype']}", t["shape"])
                    for t in metadata[tensors]] == [
                (t["name"], t["data_type"], t["dims"]) for t in config[described]]
        assert config["max_batch_size"] == 0
        assert v2(f"/models/{model}/ready").content == b""


@pytest.mark.parametrize("path", [
    "/models/nope", "/models/nope/ready", "/models/nope/config", "/models/nope/stats",
    "/models/nope/trace/setting", "/models/linear.nope", "/models/linear.", "/models/gemm_fp32/",
    "/models/gemm_fp32/versions/2", "/models/gemm_fp32/versions/1/nope", "/nope", "/models",
    "/models/linear.a%2Fb", "/models/" + 200 * "a"])
def test_what_is_not_there(path, v2):
    answer = v2(path)
    assert answer.status_code == 404
    assert answer.json()["error"]


@pytest.mark.parametrize("method, path, body", [
    ("POST", "/repository/models/gemm_fp32/load", {}),
    ("POST", "/repository/models/x/load", {"parameters": {"config": "{}", "file:../x": "eA=="}}),
    ("POST", "/repository/models/gemm_fp32/unload", {"parameters": {"unload_dependents": False}}),
    ("POST", "/logging", {"log_file": "/tmp/x"}), ("POST", "/trace/setting", {"trace_rate": "1"}),
    ("POST", "/models/gemm_fp32/trace/setting", {"trace_file": "/tmp/x"}),
    ("POST", "/systemsharedmemory/region/r/register", {"key": "/r", "byte_size": 4}),
    ("POST", "/systemsharedmemory/unregister", None),
    ("POST", "/cudasharedmemory/region/r/register", {"raw_handle": {"b64": ""}})])
def test_what_is_not_served(method, path, body, v2):
    answer = v2(path, method, json=body)
    assert answer.status_code == 501
    assert answer.json()["error"]


def test_settings(v2):
    assert v2("/logging").json()["log_error"] is True
    for path in ("/trace/setting", "/models/gemm_fp32/trace/setting"):
        assert v2(path).json()["trace_level"] == ["OFF"]
    for kind in ("system", "cuda"):
        assert v2(f"/{kind}sharedmemory/status").json() == []


def test_index(v2, address):
    everything = v2("/repository/index", "POST").json()
    assert {entry["name"] for entry in everything} >= {*MODEL.values(), *ATTENTION.values(),
                                                         *CONV2D.values()}
    assert {(entry["version"], entry["state"]) for entry in everything} == {("1", "READY")}
    for right in ({"ready": True}, {"ready": False}, {}):
        assert v2("/repository/index", "POST", json=right).json() == everything
    for wrong in (b"[]", b'{"ready":1}', b"{", b"[" * 200):
        assert v2("/repository/index", "POST", data=wrong).status_code == 400
    assert v2("/repository/index", "POST", data=b" " * 300).status_code == 413
    with Wire(address) as wire:  # some clients say nothing of a body that is not there
        wire.send(request("POST", "/v2/repository/index"))
        assert wire.receive().status == 200


def test_statistics_count_what_happened(start):
    daemon = start()

    def stats(model):
        entry, = daemon.session.get(f"{daemon.url}/v2/models/{model}/stats").json()["model_stats"]
        return entry

    Tensors(daemon.url).put("w", B)
    before = stats("gemm_fp32")
    assert before["inference_count"] == before["last_inference"] == 0
    for _ in range(3):
        assert infer(daemon.url, "gemm_fp32", [Input("A", A), Input("B", B)]).status_code == 200
    for _ in range(2):
        assert infer(daemon.url, "gemm_fp32", [Input("A", A)]).status_code == 400
    assert infer(daemon.url, "linear.w", [Input("X", A)]).status_code == 200
    after = stats("gemm_fp32")
    assert (after["inference_count"], after["execution_count"]) == (3, 3)
    assert after["last_inference"] > 0
    phases = after["inference_stats"]
    for name in ("success", "queue", "compute_input", "compute_infer", "compute_output"):
        assert phases[name]["count"] == 3, name
    assert phases["fail"]["count"] == 2 and phases["fail"]["ns"] > 0
    assert phases["cache_hit"] == phases["cache_miss"] == {"count": 0, "ns": 0}
    assert phases["success"]["ns"] >= sum(
        phases[name]["ns"] for name in ("queue", "compute_input", "compute_infer",
                                        "compute_output")) > 0
    assert stats("linear.w")["inference_count"] == 1
    everything = daemon.session.get(f"{daemon.url}/v2/models/stats").json()["model_stats"]
    assert {entry["name"]: entry["inference_count"] for entry in everything} == {
        **{model: 0 for model in (*MODEL.values(), *ATTENTION.values(), *CONV2D.values(), *EXPERTS.values(),
                               *ARRAYS)},
        "gemm_fp32": 3,
        "linear.w": 1}
    Tensors(daemon.url).put("w", A)
    assert stats("linear.w")["inference_count"] == 0, "what replaces it is another model"


def test_metrics_and_log(start):
    daemon = start()
    infer(daemon.url, "gemm_fp32", [Input("A", A), Input("B", B)])
    infer(daemon.url, "nope", [Input("A", A), Input("B", B)])
    line = daemon.wait_for(lambda lines: next(
        (line for line in lines if line.get("op") == "infer" and line["status"] == 200), None), "the request's line")
    assert (line["m"], line["n"], line["k"], line["dtype"]) == (2, 2, 3, "f32")

    def counts():
        text = scrape(daemon)
        return [total(text, "gemmd_requests_total", op="infer", code="200"),
                total(text, "gemmd_requests_total", op="infer", code="404"),
                total(text, "gemmd_request_duration_seconds_count", op="infer")]

    eventually(lambda: counts() == [1, 1, 2], "they are not counted")


def test_every_call_wants_the_token(start, tmp_path):
    daemon = guarded(start, tmp_path, "one:aaaaaaaaaaaaaaaa")
    calls = [("POST", "/models/attention_fp16/infer"), ("POST", "/repository/models/x/unload"),
             ("POST", "/logging"), ("POST", "/models/gemm_fp32/trace/setting"),
             ("GET", "/models/linear.w"), ("GET", "/models/gemm_fp32%2Finfer"),
             ("GET", ""), ("GET", "/"), ("GET", "/models/stats"), ("GET", "/models/gemm_fp32"),
             ("GET", "/models/gemm_fp32/ready"), ("GET", "/models/gemm_fp32/config"),
             ("GET", "/models/gemm_fp32/versions/1/stats"), ("POST", "/models/gemm_fp32/infer"),
             ("POST", "/models/gemm_fp32/versions/1/infer"), ("POST", "/repository/index"),
             ("POST", "/repository/models/x/load"), ("GET", "/logging"), ("GET", "/trace/setting"),
             ("POST", "/trace/setting"), ("GET", "/nope"),
             *(("GET" if path.endswith("status") else "POST", f"/{kind}sharedmemory/{path}")
               for kind in ("system", "cuda") for path in (
                   "status", "region/r/status", "region/r/register", "region/r/unregister",
                   "unregister"))]
    for method, path in calls:
        answer = daemon.session.request(method, f"{daemon.url}/v2{path}", timeout=PATIENCE_S)
        assert answer.status_code == 401, path
    for path in ("/health/live", "/health/ready"):
        assert daemon.session.get(f"{daemon.url}/v2{path}").status_code == 200


# ---- time ----

def test_timeout_and_priority(start):
    """A request that waits for longer than its microseconds ends with 504; priority 1 is first."""
    daemon = start("--backend", "cpu", "--cpu-threads", "1", "--no-cpu-pauses")
    with Wire(daemon.address) as holder:
        holder.send(endless())
        wait_for(daemon, requests_running=1)
        answer = infer(daemon.url, "gemm_fp32", [Input("A", A), Input("B", B)],
                       parameters={"timeout": 2000, "priority": 1})
    assert answer.status_code == 504
    assert answer.json()["error"]
    entry, = daemon.session.get(f"{daemon.url}/v2/models/gemm_fp32/stats").json()["model_stats"]
    assert entry["inference_stats"]["success"]["count"] == 0
