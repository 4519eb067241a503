"""What no client of the Open Inference Protocol should send: an error that says so, and nothing
else happens."""

import contextlib
import json

import numpy as np
import pytest

from daemon import PATIENCE_S, PATIENT
from oip import HEADER, Input, infer
from test_jobs import eventually
from test_leaving import leave, wait_for
from test_metrics import scrape, values
from wire import Wire, exchange, request

pytestmark = pytest.mark.hostile

A = np.ones((2, 3), np.float32)
B = np.ones((3, 2), np.float32)
GOOD = [Input("A", A), Input("B", B)]


def described(name, shape=(2, 3), datatype="FP32", **more):
    return {"name": name, "shape": list(shape), "datatype": datatype} | more


def binary(name, size, shape=(2, 3), datatype="FP32"):
    return described(name, shape, datatype, parameters={"binary_data_size": size})


GOOD_A = described("A", data=[1] * 6)
GOOD_B = described("B", (3, 2), data=[1] * 6)


@pytest.fixture
def send(url, session):
    """send(JSON or text, bytes after it, the header's value) -> the answer."""

    def sender(said, tail=b"", header=None, model="gemm_fp32"):
        text = said if isinstance(said, bytes) else json.dumps(said).encode()
        headers = {} if header is None and not tail else {HEADER: str(header or len(text))}
        return session.post(f"{url}/v2/models/{model}/infer", data=text + tail, headers=headers,
                            timeout=PATIENCE_S)

    yield sender
    answer = infer(url, "gemm_fp32", GOOD, session)
    assert answer.json()["outputs"][0]["data"] == [3, 3, 3, 3], "what comes after is not served"


def refused(answer, status, *words):
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    for word in words:
        assert word in error, error


@pytest.mark.parametrize("text", ["[1}", "[[1]}", "[}"])
def test_array_that_ends_with_a_brace(text, send):
    """... is not JSON, also where gemmd ignores the member that holds it."""
    said = json.dumps({"inputs": [GOOD_A | {"other": [0]}, GOOD_B]}).replace('"other": [0]', f'"other": {text}')
    refused(send(said.encode()), 400, "is not closed")


@pytest.mark.parametrize("inputs, words", [
    ([], ("'A'", "missing")),
    ([GOOD_A], ("'B'", "missing")),
    ([GOOD_A, GOOD_A, GOOD_B], ("'A'", "twice")),
    ([GOOD_A, GOOD_B, described("D", data=[1] * 6)], ("'D'", "A, B, BIAS, C0")),
    ([GOOD_A, described("b", (3, 2), data=[1] * 6)], ("unexpected input 'b'",)),
    ([described("A", datatype="FP16", data=[1] * 6), GOOD_B], ("FP16", "expects FP32")),
    ([described("A", datatype="FP8", data=[1] * 6), GOOD_B], ("FP8", "expects FP32")),
    ([described("A", datatype="BYTES", data=["x"] * 6), GOOD_B], ("BYTES", "expects FP32")),
    ([described("A", (6,), data=[1] * 6), GOOD_B], ("dimensions",)),
    ([described("A", (1, 1, 2, 3), data=[1] * 6), described("B", (1, 1, 3, 2), data=[1] * 6)],
     ("dimensions",)),
    ([described("A", (1, 2, 3), data=[1] * 6), GOOD_B], ("3 dimensions and B 2",)),
    ([described("A", (), data=[1]), GOOD_B], ("scalar",)),
    ([described("A", (0, 3), data=[]), GOOD_B], ()),
    ([described("A", (3, 2), data=[1] * 6), GOOD_B], ("k is 3",)),
    ([described("A", (2**62, 2**62), data=[1] * 6), GOOD_B], ("whole numbers",)),
    ([described("A", (2**50, 2**50), data=[1] * 6), GOOD_B], ("64 bits",)),
    ([described("A", (2**31, 2**20), data=[1] * 6), GOOD_B], ("fewer elements",)),
    ([described("A", (-2, -3), data=[1] * 6), GOOD_B], ("whole numbers",)),
    ([described("A", data=[1] * 5), GOOD_B], ("5 elements, its shape 6",)),
    ([described("A", data=[1] * 7), GOOD_B], ("more elements",)),
    ([described("A", data=[[1, 2], [3, 4, 5, 6]]), GOOD_B], ("nested",)),
    ([described("A", data=[1, 2, 3, 4, 5, None]), GOOD_B], ("not a number",)),
    ([described("A", data=[1, 2, 3, 4, 5, 1e39]), GOOD_B], ("not a number of type FP32",)),
    ([described("A"), GOOD_B], ("either data",)),
    ([described("A", parameters={"shared_memory_region": "r", "shared_memory_byte_size": 24}),
      GOOD_B], ("shared memory",))])
def test_inputs(inputs, words, send):
    status = 501 if words == ("shared memory",) else 400
    refused(send({"inputs": inputs}), status, *words)


@pytest.mark.parametrize("size, tail, words", [
    (24, 23, ("23 bytes of the body are left",)), (24, 25, ("1 bytes more",)),
    (23, 23, ("23 bytes, expected 24",)), (0, 0, ("0 bytes, expected 24",)),
    (2**63 - 1, 24, ("24 bytes of the body",)), (2**64, 24, ("not JSON",)),
    (-1, 24, ("whole number",))])
def test_binary_sizes(size, tail, words, send):
    refused(send({"inputs": [binary("A", size), GOOD_B]}, bytes(tail), header=None if tail else ""),
            400, *words)


def test_half_precision_is_not_json(send):
    inputs = [described("A", datatype="FP16", data=[1] * 6),
              described("B", (3, 2), "FP16", data=[1] * 6)]
    refused(send({"inputs": inputs, "parameters": {"binary_data_output": True}}, model="gemm_fp16"),
            400, "FP16", "binary")
    inputs = [binary("A", 12, datatype="FP16"), binary("B", 12, (3, 2), "FP16")]
    refused(send({"inputs": inputs}, bytes(24), model="gemm_fp16"), 400, "'C'", "FP16", "binary")


@pytest.mark.parametrize("outputs, status, words", [
    ([{"name": "D"}], 400, ("'D'",)),
    ([{"name": "C"}, {"name": "C"}], 400, ("twice",)),
    ([{"name": "C"}] * 9, 400, ("more outputs",)),
    ([{"name": "C"}] * 65536, 400, ("longer than 16384",)),
    ([{"name": "C", "parameters": {"classification": 2}}], 501, ("classification",)),
    ([{"name": "C", "parameters": {"shared_memory_region": "r"}}], 400, ("shared memory",)),
    ([{"name": "C", "parameters": {"shared_memory_region": "r", "shared_memory_byte_size": 24}}],
     501, ("shared memory",)),
    ([{"name": "C", "parameters": {"binary_data": "yes"}}], 400, ("binary_data",))])
def test_outputs(outputs, status, words, send):
    refused(send({"inputs": [GOOD_A, GOOD_B], "outputs": outputs}), status, *words)


@pytest.mark.parametrize("parameters, status, words", [
    ({"alhpa": 2}, 400, ("alhpa",)), ({"triton_x": 1}, 400, ("triton_x",)),
    ({"m": 2}, 400, ("'m'",)), ({"b": "w"}, 400, ("'b'",)), ({"store": "w"}, 400, ("'store'",)),
    ({"alpha": "NaN"}, 400, ("alpha",)), ({"alpha": [1]}, 400, ("alpha",)),
    ({"act": "tanh"}, 400, ("act",)), ({"transa": 2}, 400, ("transa",)),
    ({"out": "i32"}, 422, ("i32",)), ({"kernel": "nope"}, 422, ("nope",)),
    ({"beta": 1}, 400, ("C0",)), ({"timeout": 2**62}, 400, ("timeout",)),
    ({"timeout": 1.5}, 400, ("timeout",)), ({"priority": -1}, 400, ("priority",))])
def test_parameters(parameters, status, words, send):
    refused(send({"inputs": [GOOD_A, GOOD_B], "parameters": parameters}), status, *words)


@pytest.mark.parametrize("text", [
    b"[" * 100000, b'{"a":' * 100000, b'{"inputs":' + b"[" * 100000,
    b'{"inputs":[{"name":"A","shape":' + b"[" * 100000,
    b'{"inputs":[{"name":"A","datatype":"FP32","shape":[1],"data":' + b"[" * 50000 + b"]" * 50000
    + b"}]}",
    b"\x00" * 1000, b"\xff\xfe{}", b"{}" * 10, b'{"inputs":[],"inputs":[]}', b"null", b'"' + b"x" * 9000,
    b'{"id":"' + b"x" * 300 + b'","inputs":[]}', b'{"\\ud800":1}'])
def test_text(text, send):
    refused(send(text), 400)


def test_nan_is_json_in_arrays_alone(send):
    """Triton reads NaN and infinity in `data`. Parameters are numbers of JSON's grammar."""
    refused(send(b'{"inputs":[],"parameters":{"alpha":NaN}}'), 400, "not JSON")
    inputs = [described("A", datatype="INT8", data=[float("nan")] * 6), described("B", (3, 2), "INT8", data=[1] * 6)]
    refused(send({"inputs": inputs}, model="gemm_int8"), 400, "NaN, which is not a number of type INT8")


@pytest.mark.parametrize("value, words", [
    ("-1", "not a number"), ("+5", "not a number"), ("5x", "not a number"), ("", "not a number"),
    ("0x10", "not a number"), ("99999999999999999999", "not a number"), ("1000", "more than the"),
    ("0", "more than one input"), ("1", "not JSON")])
def test_header(value, words, address):
    body = b'{"inputs":[]}'
    answer = exchange(address, request("POST", "/v2/models/gemm_fp32/infer",
                                       [(HEADER, value), ("Content-Length", len(body))], body))
    assert answer.status == 400
    assert words in json.loads(answer.body)["error"]


@pytest.mark.parametrize("headers, body, status", [
    ([], b"", 400), ([("Content-Length", 0)], b"", 400),
    ([("Content-Length", 2), ("Content-Encoding", "br")], b"{}", 415),
    ([("Content-Length", 1 << 62)], b"", 413),
    ([("Content-Length", 8 << 20)], b"", 413),
    ([("Content-Length", 8 << 20), (HEADER, 5 << 20)], b"", 413)])
def test_bodies_refused_at_the_headers(headers, body, status, address):
    answer = exchange(address, request("POST", "/v2/models/gemm_fp32/infer", headers, body))
    assert answer.status == status
    assert json.loads(answer.body)["error"]


def test_more_json_than_the_limit(start):
    daemon = start("--max-json", "1024")
    inputs = [Input("A", np.ones((300, 1), np.float32), binary=False),
              Input("B", np.ones((1, 1), np.float32), binary=False)]
    refused(infer(daemon.url, "gemm_fp32", inputs), 413, "--max-json is 1 KiB", "binary")
    binary_inputs = [i._replace(binary=True) for i in inputs]
    refused(infer(daemon.url, "gemm_fp32", binary_inputs), 413, "result as JSON", "--max-json, which is 1 KiB")
    answer = infer(daemon.url, "gemm_fp32", binary_inputs, parameters={"binary_data_output": True})
    assert answer.status_code == 200
    text = (b"x" for _ in range(3000))
    answer = daemon.session.post(f"{daemon.url}/v2/models/gemm_fp32/infer", data=text,
                                 timeout=PATIENCE_S)
    refused(answer, 413, "--max-json, which is 1 KiB")


@pytest.mark.parametrize("how", ["close", "reset", "half"])
def test_leaving_the_queue_and_the_device(how, start):
    """What waits goes at once, what runs is counted as left; both give back what they had."""
    daemon = start("--cpu-threads", "1", "--no-cpu-pauses", "--drain-timeout", "0", "--timeout", "600s",
                   "--header-timeout", "600s")
    shapes = {"A": (16384, 512), "B": (512, 16384)}  # takes minutes
    text = json.dumps({"parameters": {"kernel": "naive", "binary_data_output": True}, "inputs": [
        binary(name, 2 << 23, shape, "BF16") for name, shape in shapes.items()]}).encode()
    endless = request("POST", "/v2/models/gemm_bf16/infer",
                      [(HEADER, len(text)), ("Content-Length", len(text) + (2 << 24))],
                      text + bytes(2 << 24))
    text = json.dumps({"inputs": [GOOD_A, GOOD_B]}).encode()
    small = request("POST", "/v2/models/gemm_fp32/infer", [("Content-Length", len(text))], text)
    with Wire(daemon.address) as running, Wire(daemon.address) as waiting:
        running.send(endless)
        wait_for(daemon, requests_running=1)
        waiting.send(small)
        wait_for(daemon, requests_waiting=1, queue_requests=2)
        leave(waiting, how)
        wait_for(daemon, requests_waiting=0, queue_requests=1, client_gone_total=1)
        leave(running, how)
        wait_for(daemon, client_gone_total=2)
    daemon.stop()


def test_nothing_is_kept(start):
    """Clients that leave at every byte of a request, and requests refused at every stage."""
    daemon = start("--pinned-bytes", "64M")
    text = json.dumps({"inputs": [binary("A", 24), binary("B", 24, (3, 2))]}).encode()
    whole = request("POST", "/v2/models/gemm_fp32/infer",
                    [(HEADER, len(text)), ("Content-Length", len(text) + 48)], text + bytes(48))
    for end in range(1, len(whole), 3):
        with Wire(daemon.address) as wire:
            wire.send(whole[:end])
    for broken in (text[:-1] + b"]", text.replace(b"24", b"25"), text.replace(b"FP32", b"FP64")):
        assert exchange(daemon.address, request(
            "POST", "/v2/models/gemm_fp32/infer",
            [(HEADER, len(text)), ("Content-Length", len(text) + 48)],
            broken + bytes(48))).status == 400
    assert infer(daemon.url, "gemm_fp32", GOOD).status_code == 200
    eventually(lambda: values(scrape(daemon))["gemmd_pinned_memory_used_bytes"] == 0,
               "memory of requests that are over is in use")


def test_lists_of_many_models(start):
    """Each resident matrix is a model. Their lists are as long as --max-json at most, since an I/O thread serves
    nothing else while it writes a list."""
    daemon = start("--max-json", "1K")
    address = daemon.address
    for path in ("/v2/repository/index", "/v2/models/stats"):
        method = "POST" if path.endswith("index") else "GET"
        assert exchange(address, request(method, path, [("Content-Length", "0")])).status == 200
    count = 400
    with Wire(address) as wire:
        for i in range(count):
            wire.send(request("PUT", f"/tensors/{i:0128}?dtype=i8&shape=1,1", [("Content-Length", "1")], b"x"))
            assert wire.receive().status == 201
    for path in ("/v2/repository/index", "/v2/models/stats"):
        method = "POST" if path.endswith("index") else "GET"
        answer = exchange(address, request(method, path, [("Content-Length", "0")]))
        assert answer.status == 413 and b"longer than 64 KiB" in answer.body
    one = json.loads(exchange(address, request("GET", f"/v2/models/linear.{7:0128}/stats")).body)
    assert one["model_stats"][0]["inference_stats"]["success"] == {"count": 0, "ns": 0}


def test_long_json_of_many_clients_holds_up_no_other_request(start):
    """An I/O thread reads one long JSON in each turn of its loop. The last bytes of all requests come at once."""
    daemon = start("--backend", "cpu", "--io-threads", "1", *PATIENT, ready=False).wait_until_listening()
    text = b'{"id": "' + b"x" * (70 << 10)  # is not closed, so that the answer follows at once
    head = request("POST", "/v2/models/gemm_fp32/infer", [("Content-Length", len(text) + 1)])
    turns = 8
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(daemon.address)) for _ in range(4 * turns)]
        other = stack.enter_context(Wire(daemon.address))
        for wire in wires:
            wire.send(head + text)
            wire.wait_until_read()
        with daemon.suspended():
            for wire in wires:
                wire.send(b"x")
            other.send(turns * request("GET", "/version"))
        for _ in range(turns):
            assert other.receive().status == 200
        for wire in wires:
            assert wire.receive().status == 400
    daemon.stop()
    paths = [line["path"] for line in daemon.lines if line.get("message") == "request"]
    before = len(paths) - turns - paths[::-1].index("/version")
    assert before <= 2 * turns, f"{before} bodies were read in {turns} turns"
