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
    assert_problem(post(parameters, BODY), 413, r"larger|fit|limit")
