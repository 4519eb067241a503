"""The protocol's own clients against the daemon: every method that tritonclient's http and http.aio
have, and KServe's way of asking for health."""

import asyncio

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


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False, None])
def test_json_and_binary(binary_in, binary_out, client):
    outputs = None
    if binary_out is not None:
        outputs = [http.InferRequestedOutput("C", binary_data=binary_out)]
    result = client.infer("gemm_fp32", [given(http, "A", A, binary=binary_in),
                                        given(http, "B", B, binary=not binary_in)],
                          model_version="1", outputs=outputs, priority=1, timeout=5000000)
    assert np.array_equal(result.as_numpy("C"), A @ B)


def test_async_infer(client):
    inputs = [given(http, "A", A), given(http, "B", B)]
    requests = [client.async_infer("gemm_fp32", inputs) for _ in range(16)]
    for request in requests:
        assert np.array_equal(request.get_result().as_numpy("C"), A @ B)


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
            with pytest.raises(InferenceServerException):
                await client.load_model("gemm_fp32")

    asyncio.run(asyncio.wait_for(everything(), PATIENCE_S))


def test_health_as_kserve_reads_it(url, session):
    """Its client looks into the body."""
    assert session.get(f"{url}/v2/health/live", timeout=PATIENCE_S).json()["live"] is True
    assert session.get(f"{url}/v2/health/ready", timeout=PATIENCE_S).json()["ready"] is True
