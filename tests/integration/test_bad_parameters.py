"""Parameters that POST /gemm refuses: the status, the field and what the sentence must say."""

import numpy as np
import pytest

from problem import assert_problem

GOOD = {"m": 2, "n": 2, "k": 2}
BODY = np.arange(8, dtype=np.float32).tobytes()
DIM = r"whole number from 1 to 2147483647"


@pytest.fixture(autouse=True)
def goes_on(post):
    """Whatever was refused, the next request is answered."""
    yield
    answer = post(GOOD, BODY)
    assert answer.status_code == 200, answer.text
    np.testing.assert_array_equal(np.frombuffer(answer.content, np.float32), [6, 7, 26, 31])


@pytest.mark.parametrize("name", ["m", "n", "k"])
def test_missing_dimension(name, post):
    rest = {other: value for other, value in GOOD.items() if other != name}
    assert_problem(post(rest, BODY), 400, rf"{name} is missing.*Content-Type", field=name)


@pytest.mark.parametrize("name", ["m", "n", "k", "batch"])
@pytest.mark.parametrize("value", ["-1", "0", "1.5", "2.0", "2147483648", "9223372036854775808",
                                   "1000000000000000000000000000000", "1e30", "", " 2", "2 ", "+2",
                                   "0x2", "two", "2\u0662", "nan", "inf"])
def test_bad_dimension(name, value, post):
    assert_problem(post({**GOOD, name: value}, BODY), 400, DIM, field=name)


@pytest.mark.parametrize("name, value, says", [
    ("dtype", "f128", "f64, f32, f16, bf16, f8_e4m3, i8"),
    ("dtype", "F32", "f64, f32, f16, bf16, f8_e4m3, i8"),
    ("dtype", "i32", "f64, f32, f16, bf16, f8_e4m3, i8"),
    ("dtype", "", "f64, f32, f16, bf16, f8_e4m3, i8"),
    ("out", "f8_e4m3", "f64, f32, f16, bf16, i32"),
    ("precision", "half", "full, tf32, f8"),
    ("transa", "2", "0 or 1"),
    ("transb", "true", "0 or 1"),
    ("bias", "-1", "0 or 1"),
    ("alpha", "nan", "finite"),
    ("alpha", "inf", "finite"),
    ("alpha", "1e999", "finite"),
    ("alpha", "0x1p3", "decimal"),
    ("alpha", "1,5", "decimal"),
    ("alpha", "", "decimal"),
    ("beta", "-inf", "finite"),
    ("alpha", "1e39", "decimal that f32 can hold"),
    ("beta", "-3.4028236e38", "for results of f32"),
    ("beta", "1 ", "decimal"),
    ("act", "tanh", "none, relu, gelu, gelu_tanh, silu"),
    ("verify", "yes", "none, freivalds"),
    ("priority", "10", "0 to 9"),
    ("priority", "-1", "0 to 9"),
    ("timeout_ms", "0", "whole number"),
    ("timeout_ms", "1.5", "whole number"),
    ("a", "no/slash", "characters"),
    ("a", "x" * 129, "128"),
    ("store", "", "characters"),
    ("kernel", "NO SUCH", "/info"),
])
def test_bad_value(name, value, says, post):
    assert_problem(post({**GOOD, name: value}, BODY), 400, says, field=name)


@pytest.mark.parametrize("parameters, name", [
    ([("m", 2), ("n", 2), ("k", 2), ("m", 2)], "m"),
    ([("m", 2), ("n", 2), ("k", 2), ("act", "relu"), ("act", "none")], "act"),
    ([("alpha", 1), ("m", 2), ("n", 2), ("k", 2), ("alpha", "")], "alpha"),
])
def test_repeated(parameters, name, post):
    assert_problem(post(parameters, BODY), 400, rf"{name} is given twice", field=name)


@pytest.mark.parametrize("name", ["M", "alhpa", "m ", "x" * 300, "%00", "m%00"])
def test_unknown(name, post, url, session):
    """The sentence names the parameters there are."""
    if name.startswith(("%", "m%")):
        answer = session.post(f"{url}/gemm?m=2&n=2&k=2&{name}=1", data=BODY,
                              headers={"Content-Type": "application/octet-stream"})
        assert answer.status_code == 400, answer.text
    else:
        answer = post({**GOOD, name: 1}, BODY)
        document = assert_problem(answer, 400, "m, n, k, dtype", field=name[:31])
        assert name[:16] in document["detail"]


@pytest.mark.parametrize("parameters, field, says", [
    ({"out": "i32"}, "out", "f32, f16, bf16"),
    ({"dtype": "f16", "out": "bf16"}, "out", "f32, f16"),
    ({"dtype": "bf16", "out": "f16"}, "out", "f32, bf16"),
    ({"dtype": "f64", "out": "f32"}, "out", "f64"),
    ({"dtype": "f8_e4m3", "out": "f64"}, "out", "bf16"),
    ({"dtype": "i8", "out": "f64"}, "out", "f32"),
    ({"dtype": "i8", "alpha": 0.5}, "alpha", "whole numbers"),
    ({"dtype": "i8", "beta": 0.5}, "beta", "whole numbers"),
    ({"dtype": "i8", "act": "gelu"}, "act", "none and relu"),
    ({"dtype": "i8", "act": "silu"}, "act", "none and relu"),
    ({"dtype": "f16", "precision": "tf32"}, "precision", "f32"),
    ({"dtype": "f16", "precision": "f8"}, "precision", "f8_e4m3"),
    ({"dtype": "i8", "precision": "f8"}, "precision", "f8_e4m3"),
    ({"kernel": "nosuch"}, "kernel", "naive"),
])
def test_well_formed_but_not_offered(parameters, field, says, post):
    assert_problem(post({**GOOD, **parameters}, BODY), 422, says, field=field)


@pytest.mark.parametrize("parameters", [
    {"m": 2147483647, "n": 1, "k": 2147483647, "dtype": "f64"},
    {"m": 1, "n": 2147483647, "k": 2147483647, "dtype": "f32", "batch": 2147483647},
    {"m": 2147483647, "n": 2147483647, "k": 1, "dtype": "i8", "batch": 2147483647},
])
def test_sizes_that_overflow(parameters, post):
    assert_problem(post(parameters, BODY), 413, "(EiB|64 bits).*; --max-body is 1 GiB")


@pytest.mark.parametrize("name, value, meant", [
    ("dtype", "float32", "f32"), ("dtype", "float", "f32"), ("dtype", "torch.float32", "f32"),
    ("dtype", "fp16", "f16"), ("dtype", "half", "f16"), ("dtype", "np.double", "f64"),
    ("dtype", "BF16", "bf16"), ("dtype", "bfloat16", "bf16"), ("dtype", "fp8", "f8_e4m3"),
    ("dtype", "<f8", "f64"), ("dtype", "int8", "i8"), ("out", "int32", "i32"), ("out", "F32", "f32"),
    ("transa", "True", "1"), ("bias", "no", "0"), ("act", "ReLU", "relu"), ("act", "gelu_tan", "gelu_tanh"),
    ("precision", "TF32", "tf32"), ("verify", "freivald", "freivalds"),
    ("verify", "None", "none")])
def test_a_value_that_is_nearly_right(name, value, meant, post):
    """A form and the value it stands for in other programs."""
    assert_problem(post({**GOOD, name: value}, BODY), 400,
                   f"{name} is '{value}'; it must be .*; did you mean {meant}[?]$", field=name)


@pytest.mark.parametrize("name, value", [("dtype", "True"), ("dtype", "complex64"), ("out", "int8"),
                                         ("dtype", "int32"), ("act", "tanh"), ("transa", "2")])
def test_a_value_that_nothing_is_near(name, value, post):
    """No guess is better than a wrong one."""
    answer = post({**GOOD, name: value}, BODY)
    assert_problem(answer, 400, f"{name} is '{value}'; it must be ", field=name)
    assert "did you mean" not in answer.text


@pytest.mark.parametrize("name, meant", [
    ("type", "dtype"), ("transA", "transa"), ("activation", "act"), ("timeout", "timeout_ms"),
    ("M", "m"), ("prio", "priority"), ("batches", "batch"), ("out_dtype", "out")])
def test_a_name_that_is_nearly_right(name, meant, post):
    assert_problem(post({**GOOD, name: "1"}, BODY), 400,
                   f"no parameter '{name}'; .*; did you mean {meant}[?]$", field=name)


@pytest.mark.parametrize("query, field, meant", [
    ("shape=4&dtype=float64", "dtype", "f64"), ("shape=4&evictable=true", "evictable", "1"),
    ("shapes=4", "shapes", "shape")])
def test_a_parameter_of_a_tensor_that_is_nearly_right(query, field, meant, session, url):
    assert_problem(session.put(f"{url}/tensors/x?{query}", data=bytes(16)), 400,
                   f"did you mean {meant}[?]$", field=field)


def infer(session, url, model="gemm_fp32", name="A", parameters=None):
    tensor = {"shape": [1, 1], "datatype": "FP32", "data": [2]}
    return session.post(f"{url}/v2/models/{model}/infer", json={
        "parameters": parameters or {}, "inputs": [{"name": name, **tensor}, {"name": "B", **tensor}]})


def test_names_in_json_that_are_nearly_right(session, url):
    assert_problem(infer(session, url, model="gemm_float32"), 404, "mean gemm_fp32[?]$")
    assert_problem(infer(session, url, name="a"), 400, "mean A[?]$")
    assert_problem(infer(session, url, parameters={"activation": "relu"}), 400, "mean act[?]$",
                   field="activation")
    assert_problem(infer(session, url, parameters={"act": "Relu"}), 400, "mean relu[?]$", field="act")
    assert infer(session, url).status_code == 200
