"""KServe's own REST client against the daemon: every method that InferenceRESTClient has."""

import asyncio
import importlib.util

import numpy as np
import pytest

from attention import Attention
from attention import random_operands as attention_operands
from daemon import PATIENCE_S
from matrices import NUMPY, Problem, random_operands
from oip import ATTENTION, DATATYPE, MODEL
from test_tensors import Tensors
from test_v2 import inputs_of, options_of, product
from test_v2_attention import attention, lse_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("kserve") is None,
                       reason="tests/requirements-all.txt is not installed"),
]
BINARY = {"binary_data_output": True}


@pytest.fixture(scope="module")
def kserve():
    """Imported here, since that takes seconds."""
    import kserve
    return kserve


@pytest.fixture
def ask(kserve):
    """ask(method, ..., protocol="v2") -> what that method of the client gives."""

    def asker(method, *arguments, protocol="v2", **keywords):
        async def call():
            config = kserve.RESTConfig(protocol=protocol, timeout=PATIENCE_S)
            async with kserve.InferenceRESTClient(config) as client:
                return await getattr(client, method)(*arguments, **keywords)

        return asyncio.run(call())

    return asker


@pytest.fixture
def given(kserve):
    """given(name, array, dtype) -> an InferInput."""

    def maker(name, array, dtype="f32", binary=True):
        tensor = kserve.InferInput(name, list(array.shape), DATATYPE[dtype])
        tensor.set_data_from_numpy(array.view(np.uint8) if dtype == "f8_e4m3" else array,
                                   binary_data=binary)
        return tensor

    return maker


@pytest.fixture
def infer(ask, kserve, url):
    """infer(model, inputs, ...) -> an InferResponse."""

    def asker(model, inputs, **members):
        return ask("infer", url, kserve.InferRequest(model, inputs, **members), model_name=model)

    return asker


def test_what_it_asks_about(ask, url):
    assert ask("is_server_live", url) is True
    assert ask("is_server_ready", url) is True
    assert ask("is_server_ready", f"{url}/") is True, "an address that ends in a slash"
    assert ask("is_model_ready", url, "gemm_fp32") is True
    assert ask("is_model_ready", url, "nope") is False


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False])
def test_json_and_binary(binary_in, binary_out, given, infer, url, session, rng):
    problem = Problem(7, 5, 9, bias=True)
    operands = random_operands(problem, rng)
    inputs = [given(i.name, i.array, i.dtype, binary_in) for i in inputs_of(problem, operands)]
    result = infer("gemm_fp32", inputs, request_id="9",
                   parameters=options_of(problem) | {"binary_data_output": binary_out})
    assert (result.id, result.model_name) == ("9", "gemm_fp32")
    got = result.get_output_by_name("C").as_numpy()
    assert got.astype(np.float32).tobytes() == product(url, session, problem, operands)


# It knows no BF16.
@pytest.mark.parametrize("dtype, out", [("f64", "f64"), ("f16", "f16"), ("f8_e4m3", "f32"),
                                        ("i8", "i32")])
def test_every_type(dtype, out, given, infer, url, session, rng):
    problem = Problem(7, 5, 9, dtype=dtype, out=out)
    operands = random_operands(problem, rng)
    inputs = [given(i.name, i.array, i.dtype) for i in inputs_of(problem, operands)]
    result = infer(MODEL[dtype], inputs, parameters=options_of(problem) | BINARY)
    got = result.get_output_by_name("C").as_numpy()
    assert got.astype(NUMPY[out]).tobytes() == product(url, session, problem, operands)


def test_attention(given, infer, kserve, url, session, rng):
    problem = Attention(2, 3, 4, skv=5, dv=6, dtype="f32")
    operands = attention_operands(problem, rng)
    outputs = [kserve.protocol.infer_type.RequestedOutput(name, {"binary_data": name == "O"})
               for name in ("LSE", "O")]
    result = infer(ATTENTION["f32"], [given(name, array) for name, array in zip("QKV", operands)],
                   request_outputs=outputs)
    assert [output.name for output in result.outputs] == ["LSE", "O"]
    o = result.get_output_by_name("O").as_numpy().astype(np.float32)
    assert o.tobytes() == attention(url, session, problem, operands)
    assert np.allclose(result.get_output_by_name("LSE").as_numpy(), lse_of(operands), rtol=1e-5)


def test_resident_weights(ask, given, infer, url):
    x, w = np.ones((2, 3), np.float32), np.arange(6, dtype=np.float32).reshape(3, 2)
    tensors = Tensors(url)
    assert tensors.put("kserve.w", w).status_code == 201
    try:
        assert ask("is_model_ready", url, "linear.kserve.w") is True
        result = infer("linear.kserve.w", [given("X", x)])
        assert np.array_equal(result.get_output_by_name("Y").as_numpy(), x @ w)
    finally:
        tensors.send("DELETE", "kserve.w")
    assert ask("is_model_ready", url, "linear.kserve.w") is False


def test_errors_are_understood(given, infer):
    import httpx
    a, b = np.ones((2, 3), np.float32), np.ones((3, 2), np.float32)
    for model, inputs, status, word in (("nope", [given("A", a)], 404, "nope"),
                                        ("gemm_fp32", [given("A", a)], 400, "'B'"),
                                        ("gemm_fp16", [given("A", a), given("B", b)], 400, "FP32")):
        with pytest.raises(httpx.HTTPStatusError) as caught:
            infer(model, inputs, parameters=BINARY)
        assert caught.value.response.status_code == status
        assert word in caught.value.response.json()["error"]


def test_version_1_of_the_protocol_is_not_there(ask, url):
    """The client's default, and nothing that this daemon could be taken to speak."""
    import httpx
    with pytest.raises(httpx.HTTPStatusError) as caught:
        ask("infer", url, {"instances": [[1]]}, model_name="gemm_fp32", protocol="v1")
    assert caught.value.response.status_code == 404
    assert caught.value.response.json()["error"]
