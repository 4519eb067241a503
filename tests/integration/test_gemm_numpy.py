"""POST /gemm against NumPy: every dtype, result type and option, at sizes no tile divides."""

import numpy as np
import pytest

from covering import covering
from matrices import ACTS, DEFAULT_OUT, OUTS, Problem, assert_right, decode, random_operands

TYPES = [(dtype, out, "full") for dtype, outs in OUTS.items() for out in outs]
TYPES.append(("f32", "f32", "tf32"))
TYPES += [("f8_e4m3", out, "f8") for out in OUTS["f8_e4m3"]]
SIZES = [1, 2, 3, 31, 33, 63, 65, 127, 1000]
SCALES = [(1, 0), (0.3, 0), (1, 1), (-1.25, 0.7)]
# What i8 to i32 takes instead: integers, large enough to wrap around.
INTEGER_SCALES = {(1, 0): (1, 0), (0.3, 0): (1000003, 0), (1, 1): (1, 1), (-1.25, 0.7): (-70001, -3)}
INTEGER_ACTS = {"gelu": "relu"}


def problem(types, scale, act, **rest):
    dtype, out, precision = types
    if out == "i32":
        scale = INTEGER_SCALES[scale]
        act = act if act in ("none", "relu") else INTEGER_ACTS.get(act, "none")
    return Problem(dtype=dtype, out=out, precision=precision, alpha=scale[0], beta=scale[1],
                   act=act, **rest)


MATRIX = [problem(**case) for case in covering({
    "types": TYPES, "m": SIZES, "n": SIZES, "k": SIZES, "transa": [False, True],
    "transb": [False, True], "scale": SCALES, "bias": [False, True], "act": list(ACTS),
    "batch": [1, 2, 5]})]
TRANSPOSES = [problem(types, (1, 0), "none", m=33, n=65, k=31, transa=transa, transb=transb, batch=2)
              for types in TYPES for transa in (False, True) for transb in (False, True)]
EPILOGUES = [problem(types, (-1.25, 0.7), act, m=17, n=63, k=65, bias=True)
             for types in TYPES for act in ACTS]

LARGE = [problem(types, (1, 0), "none", m=1000, n=1000, k=1000) for types in TYPES
         if types[0] != "f64"]


def check(problem, post, rng):
    operands = random_operands(problem, rng)
    answer = post(problem.parameters(), operands.raw())
    assert answer.status_code == 200, answer.text
    assert_right(problem, operands, answer.content, rng)


@pytest.mark.matrix
@pytest.mark.parametrize("problem", MATRIX, ids=str)
def test_matrix(problem, post, rng):
    check(problem, post, rng)


@pytest.mark.matrix
@pytest.mark.parametrize("problem", TRANSPOSES, ids=str)
def test_transposes(problem, post, rng):
    check(problem, post, rng)


@pytest.mark.matrix
@pytest.mark.parametrize("problem", EPILOGUES, ids=str)
def test_epilogues(problem, post, rng):
    check(problem, post, rng)


@pytest.mark.matrix
@pytest.mark.parametrize("problem", LARGE, ids=str)
def test_large(problem, post, rng):
    check(problem, post, rng)


@pytest.mark.parametrize("dtype", OUTS)
def test_default_result_type(dtype, post, rng):
    case = Problem(3, 5, 7, dtype=dtype)
    operands = random_operands(case, rng)
    answer = post(case.parameters(), operands.raw())
    assert answer.headers["Gemmd-Dtype"] == DEFAULT_OUT[dtype]
    assert_right(case, operands, answer.content, rng)


def test_same_request_same_bytes(post, rng):
    case = Problem(127, 65, 1000, bias=True, act="gelu")
    body = random_operands(case, rng).raw()
    first = post(case.parameters(), body).content
    assert all(post(case.parameters(), body).content == first for _ in range(3))


@pytest.mark.parametrize("dtype, out", [(dtype, out) for dtype, out, precision in TYPES
                                        if precision == "full" and dtype != "i8"])
def test_nan_and_infinity_propagate(dtype, out, post, rng):
    """NaN and infinity in row r of A make row r what IEEE arithmetic says, and no other row."""
    case = Problem(9, 11, 13, dtype=dtype, out=out)
    operands = random_operands(case, rng)
    a = operands.a
    a[0, 2, 5] = np.nan
    expected = {2: np.full(11, np.nan)}
    if dtype != "f8_e4m3":  # which has no infinity
        a[0, 4, 7] = np.inf
        expected[4] = np.where(np.signbit(operands.b[0, 7].astype(np.float64)), -np.inf, np.inf)
        operands.b[0, 7, operands.b[0, 7] == 0] = 1
    answer = post(case.parameters(), operands.raw())
    assert answer.status_code == 200, answer.text
    got = decode(case, answer.content)[0].astype(np.float64)
    for row in range(9):
        if row in expected:
            np.testing.assert_array_equal(got[row], expected[row], err_msg=f"row {row}")
        else:
            assert np.isfinite(got[row]).all(), f"row {row} has no such operand"


@pytest.mark.parametrize("act", ACTS)
def test_activations_pass_nan_on(act, post):
    case = Problem(1, 1, 1, act=act)
    body = np.array([np.nan, 1], np.float32).tobytes()
    got = np.frombuffer(post(case.parameters(), body).content, np.float32)
    assert np.isnan(got).all(), f"{act}(NaN) is {got}"
