"""The protocol's own clients against the daemon: every method that tritonclient's http and http.aio
have, and byte for byte what KServe's REST client and perf_analyzer send."""

import asyncio
import json

import numpy as np
import pytest
import tritonclient.http as http
import tritonclient.http.aio as aio
from tritonclient.utils import InferenceServerException

from daemon import PATIENCE_S
from matrices import NUMPY, OUTS, Problem, random_operands
from oip import DATATYPE, MODEL
from test_tensors import Tensors
from test_v2 import inputs_of, options_of, product
from wire import exchange

A = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
B = np.array([[1, -1], [0.5, 2], [3, 0.25]], np.float32)


def given(kind, name, array, dtype="f32", binary=True):
    """An InferInput. Where the client would convert or does not know a type, its bytes as they are."""
    tensor = kind.InferInput(name, list(array.shape), DATATYPE[dtype])
    if dtype == "bf16":
        tensor._raw_data = array.tobytes()  # the client's own way takes float32 and cuts it
        tensor._parameters["binary_data_size"] = array.nbytes
    else:
        tensor.set_data_from_numpy(array.view(np.uint8) if dtype == "f8_e4m3" else array,
                                   binary_data=binary)
    return tensor


@pytest.fixture
def client(address):
    host, port = address
    with http.InferenceServerClient(f"{host}:{port}", concurrency=4,
                                    network_timeout=PATIENCE_S) as client:
        yield client


@pytest.mark.parametrize("dtype, out", [(d, o) for d, outs in OUTS.items() for o in outs])
def test_every_type(dtype, out, client, url, session, rng):
    problem = Problem(17, 5, 33, dtype=dtype, out=out, bias=out != "bf16")
    operands = random_operands(problem, rng)
    inputs = [given(http, i.name, i.array, i.dtype) for i in inputs_of(problem, operands)]
    result = client.infer(MODEL[dtype], inputs, request_id="9", parameters=options_of(problem))
    response = result.get_response()
    assert response["id"] == "9"
    got = result.as_numpy("C")  # float32 for BF16, which holds the same values
    expected = np.frombuffer(product(url, session, problem, operands), NUMPY[out])
    assert got.shape == (17, 5)
    assert got.astype(expected.dtype).tobytes() == expected.tobytes()


def test_bf16_as_integers(client, url, session, rng):
    """What the client can send as it is: its own way to BF16 is element by element."""
    problem = Problem(9, 5, 17, dtype="bf16")
    operands = random_operands(problem, rng)
    inputs = []
    for name, array, _, _ in inputs_of(problem, operands):
        inputs.append(http.InferInput(name, list(array.shape), "UINT16"))
        inputs[-1].set_data_from_numpy(array.view(np.uint16))
    got = client.infer("gemm_bf16", inputs).as_numpy("C")
    expected = np.frombuffer(product(url, session, problem, operands), NUMPY["bf16"])
    assert got.astype(expected.dtype).tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("binary_in", [True, False])
def test_nan_and_infinity_in_json(binary_in, dtype, client):
    """The client reads and writes the words of Triton's JSON."""
    a = np.array([[np.nan], [np.inf], [-np.inf], [1]], NUMPY[dtype])
    b = np.array([[2, -3]], NUMPY[dtype])
    result = client.infer(MODEL[dtype], [given(http, "A", a, dtype, binary_in), given(http, "B", b, dtype, binary_in)],
                          outputs=[http.InferRequestedOutput("C", binary_data=False)])
    assert np.array_equal(result.as_numpy("C"), a @ b, equal_nan=True)


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False, None])
def test_json_and_binary(binary_in, binary_out, client):
    outputs = None
    if binary_out is not None:
        outputs = [http.InferRequestedOutput("C", binary_data=binary_out)]
    result = client.infer("gemm_fp32", [given(http, "A", A, binary=binary_in),
                                        given(http, "B", B, binary=not binary_in)],
                          model_version="1", outputs=outputs, priority=1, timeout=500_000_000)
    assert np.array_equal(result.as_numpy("C"), A @ B)


def test_async_infer(client):
    inputs = [given(http, "A", A), given(http, "B", B)]
    requests = [client.async_infer("gemm_fp32", inputs) for _ in range(16)]
    for request in requests:
        assert np.array_equal(request.get_result().as_numpy("C"), A @ B)


def test_bodies_made_by_themselves(client, url, session):
    """For those who send with another library."""
    inputs = [given(http, "A", A), given(http, "B", B)]
    data, length = client.generate_request_body(inputs)
    headers = {} if length is None else {"Inference-Header-Content-Length": str(length)}
    answer = session.post(f"{url}/v2/models/gemm_fp32/infer", data=data, headers=headers,
                          timeout=PATIENCE_S)
    length = answer.headers.get("Inference-Header-Content-Length")
    result = client.parse_response_body(answer.content,
                                        header_length=None if length is None else int(length))
    assert np.array_equal(result.as_numpy("C"), A @ B)


def test_resident_weights(client, url):
    tensors = Tensors(url)
    assert tensors.put("clients.w", B).status_code == 201
    try:
        assert client.is_model_ready("linear.clients.w")
        result = client.infer("linear.clients.w", [given(http, "X", A)])
        assert np.array_equal(result.as_numpy("Y"), A @ B)
    finally:
        tensors.send("DELETE", "clients.w")
    assert not client.is_model_ready("linear.clients.w")


def test_what_it_asks_about(client):
    assert client.is_server_live() and client.is_server_ready()
    assert client.is_model_ready("gemm_fp32") and client.is_model_ready("gemm_fp32", "1")
    assert not client.is_model_ready("nope") and not client.is_model_ready("gemm_fp32", "2")
    assert client.get_server_metadata()["name"] == "gemmd"
    assert client.get_model_metadata("gemm_fp32")["name"] == "gemm_fp32"
    assert client.get_model_config("gemm_fp32", "1")["max_batch_size"] == 0
    assert {model["name"] for model in client.get_model_repository_index()} >= set(MODEL.values())
    assert len(client.get_inference_statistics()["model_stats"]) >= len(MODEL)
    entry, = client.get_inference_statistics("gemm_fp32")["model_stats"]
    assert entry["name"] == "gemm_fp32"
    assert client.get_log_settings()["log_error"] is True
    assert client.get_trace_settings()["trace_level"] == ["OFF"]
    assert client.get_system_shared_memory_status() == []
    assert client.get_cuda_shared_memory_status() == []


@pytest.mark.parametrize("status, call", [
    ("501", lambda c: c.load_model("gemm_fp32")), ("501", lambda c: c.unload_model("gemm_fp32")),
    ("501", lambda c: c.update_log_settings({"log_info": False})),
    ("501", lambda c: c.update_trace_settings(settings={"trace_rate": "1"})),
    ("501", lambda c: c.register_system_shared_memory("r", "/r", 64)),
    ("501", lambda c: c.unregister_system_shared_memory()),
    ("501", lambda c: c.register_cuda_shared_memory("r", b"AAAA", 0, 64)),
    ("501", lambda c: c.unregister_cuda_shared_memory()),
    ("404", lambda c: c.get_model_metadata("nope")),
    ("404", lambda c: c.infer("nope", [given(http, "A", A)])),
    ("400", lambda c: c.infer("gemm_fp32", [given(http, "A", A)])),
    ("400", lambda c: c.infer("gemm_fp32", [given(http, "A", A), given(http, "B", B)],
                              outputs=[http.InferRequestedOutput("D")]))])
def test_errors_are_understood(status, call, client):
    with pytest.raises(InferenceServerException) as caught:
        call(client)
    assert caught.value.status() == status
    assert "{" not in caught.value.message(), "it is the sentence, not the document"


def test_too_large_is_understood(start):
    """The answer is read although the body is not: the client sends all of it first."""
    daemon = start("--max-body", "1M")
    large = np.zeros((2048, 1024), np.float32)
    with http.InferenceServerClient("{}:{}".format(*daemon.address)) as client:
        with pytest.raises(InferenceServerException) as caught:
            client.infer("gemm_fp32", [given(http, "A", large), given(http, "B", large.T)])
    assert caught.value.status() == "413"


def test_aio(address, url):
    async def everything():
        async with aio.InferenceServerClient("{}:{}".format(*address)) as client:
            assert await client.is_server_live() and await client.is_server_ready()
            assert await client.is_model_ready("gemm_fp32")
            assert not await client.is_model_ready("nope")
            assert (await client.get_server_metadata())["name"] == "gemmd"
            assert (await client.get_model_metadata("gemm_fp32"))["name"] == "gemm_fp32"
            assert (await client.get_model_config("gemm_fp32"))["name"] == "gemm_fp32"
            assert len(await client.get_model_repository_index()) >= len(MODEL)
            assert (await client.get_inference_statistics("gemm_fp32"))["model_stats"]
            assert await client.get_log_settings() and await client.get_trace_settings()
            inputs = [given(aio, "A", A), given(aio, "B", B)]
            results = await asyncio.gather(*(client.infer("gemm_fp32", inputs)
                                             for _ in range(16)))
            for result in results:
                assert np.array_equal(result.as_numpy("C"), A @ B)
            compressed = await client.infer("gemm_fp32", inputs,
                                            request_compression_algorithm="deflate")
            assert np.array_equal(compressed.as_numpy("C"), A @ B)
            for call in (client.load_model("gemm_fp32"), client.unload_model("gemm_fp32"),
                         client.update_log_settings({"log_info": False}),
                         client.update_trace_settings(settings={"trace_rate": "1"}),
                         client.get_model_metadata("nope"), client.infer("gemm_fp32", inputs[:1])):
                with pytest.raises(InferenceServerException):
                    await call

    asyncio.run(asyncio.wait_for(everything(), PATIENCE_S))


# ---- what other clients send, byte for byte: test_v2_kserve.py and test_perf_analyzer.py have them
# themselves, where they are installed ----

def test_kserve(address):
    """Its REST client's requests, and that it finds what it reads in the answers."""
    def ask(head, body=b""):
        lines = [*head, b"Host: gemmd", b"Accept: */*", b"Accept-Encoding: gzip, deflate, br",
                 b"Connection: keep-alive", b"User-Agent: python-httpx/0.28.1"]
        if body:
            lines.append(b"Content-Length: %d" % len(body))
        return exchange(address, b"\r\n".join(lines) + b"\r\n\r\n" + body)

    assert json.loads(ask([b"GET /v2/health/live HTTP/1.1"]).body)["live"] is True
    assert json.loads(ask([b"GET /v2/health/ready HTTP/1.1"]).body)["ready"] is True
    assert ask([b"GET /v2/models/gemm_fp32/ready HTTP/1.1"]).status == 200
    answer = ask([b"POST /v2/models/gemm_fp32/infer HTTP/1.1", b"content-type: application/json"],
                 b'{"id":"5","model_name":"gemm_fp32","inputs":[{"name":"A","shape":[1,2],'
                 b'"datatype":"FP32","data":[1.0,2.0]},{"name":"B","shape":[2,1],"datatype":'
                 b'"FP32","data":[3.0,4.0]}],"parameters":{"binary_data_output":false}}')
    said = json.loads(answer.body)
    assert (said["model_name"], said["id"]) == ("gemm_fp32", "5")
    assert said["outputs"][0]["data"] == [11]
    text = (b'{"id":"5","model_name":"gemm_fp32","inputs":[{"name":"A","shape":[1,2],"datatype":'
            b'"FP32","parameters":{"binary_data_size":8}},{"name":"B","shape":[2,1],"datatype":'
            b'"FP32","parameters":{"binary_data_size":8}}],"parameters":'
            b'{"binary_data_output":true}}')
    answer = ask([b"POST /v2/models/gemm_fp32/infer HTTP/1.1",
                  b"inference-header-content-length: %d" % len(text),
                  b"content-type: application/octet-stream"],
                 text + np.array([1, 2, 3, 4], np.float32).tobytes())
    length = int(answer.headers["inference-header-content-length"])
    output = json.loads(answer.body[:length])["outputs"][0]
    assert output["parameters"]["binary_data_size"] == 4
    assert answer.body[length:] == np.float32(11).tobytes()


@pytest.mark.parametrize("model", ["gemm_fp16", "attention_fp32"])
def test_what_perf_analyzer_looks_at(model, start):
    """Its calls in their order, and every member that it takes for granted."""
    daemon = start()

    def ask(path, **keywords):
        method = "POST" if keywords else "GET"
        answer = daemon.session.request(method, f"{daemon.url}/v2{path}", timeout=PATIENCE_S,
                                        **keywords)
        assert answer.status_code == 200, answer.text
        return answer

    def window():
        entry, = ask(f"/models/{model}/versions/1/stats").json()["model_stats"]
        assert entry["name"] == model and int(entry["version"]) == 1
        phases = entry["inference_stats"]
        for name in ("success", "queue", "compute_input", "compute_infer", "compute_output",
                     "cache_hit", "cache_miss"):
            for member in ("count", "ns"):
                assert isinstance(phases[name][member], int) and phases[name][member] >= 0
        return [entry["inference_count"], entry["execution_count"], phases["success"]["count"],
                phases["queue"]["count"]]

    metadata = ask(f"/models/{model}").json()
    names = [tensor["name"] for tensor in metadata["inputs"] + metadata["outputs"]]
    for tensor in metadata["inputs"] + metadata["outputs"]:
        assert all(isinstance(extent, int) for extent in tensor["shape"])
        assert tensor["datatype"] in DATATYPE.values()
    config = ask(f"/models/{model}/config").json()
    assert config["max_batch_size"] == 0
    assert not {"dynamic_batching", "sequence_batching"} & set(config)
    assert config["model_transaction_policy"]["decoupled"] is False
    assert config["response_cache"]["enable"] is False
    assert config["platform"] != "ensemble"
    for tensor in config["input"]:
        assert tensor["name"] in names
        assert isinstance(tensor["optional"], bool) and isinstance(tensor["is_shape_tensor"], bool)
    assert "statistics" in ask("").json()["extensions"]
    before = window()
    rank = 4 if model.startswith("attention") else 2
    inputs = [tensor["name"] for tensor in config["input"] if not tensor["optional"]]
    size = np.dtype(np.float16 if model.endswith("16") else np.float32).itemsize
    text = json.dumps({"id": "", "inputs": [
        {"name": tensor["name"], "shape": [2] * rank, "datatype": tensor["datatype"],
         "parameters": {"binary_data_size": 2**rank * size}}
        for tensor in metadata["inputs"] if tensor["name"] in inputs],
        "outputs": [{"name": tensor["name"], "parameters": {"binary_data": True}}
                    for tensor in metadata["outputs"]]}).encode()
    for _ in range(3):
        ask(f"/models/{model}/infer", data=text + bytes(len(inputs) * 2**rank * size),
            headers={"Inference-Header-Content-Length": str(len(text)),
                     "Content-Type": "application/octet-stream"})
    assert [new - old for new, old in zip(window(), before)] == [3] * 4
