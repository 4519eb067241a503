"""POST /gemm with scales: every type, kind and layout, in the three body formats, and refusals."""

import numpy as np
import pytest
import safetensors.numpy

from covering import covering
from problem import assert_problem
from scaling import ScaledProblem, assert_scaled, decode, exact_scaled, random_scaled, truth
from test_formats import NPY, RAW, SAFETENSORS, npy

KINDS = [("f8_e4m3", "full", "rowcol"), ("f8_e4m3", "f8", "rowcol"), ("f8_e4m3", "full", "block"),
         ("f8_e4m3", "f8", "block"), ("i8", "full", "rowcol")]


def problem(kind, scalars=(1, 0), **rest):
    dtype, precision, scales = kind
    return ScaledProblem(dtype=dtype, precision=precision, scales=scales, alpha=scalars[0],
                         beta=scalars[1], **rest)


MATRIX = [problem(**case) for case in covering({
    "kind": KINDS, "out": ["f32", "f16", "bf16"], "m": [1, 3, 65, 130], "n": [1, 33, 127, 257],
    "k": [1, 100, 129, 300], "transa": [False, True], "transb": [False, True],
    "scalars": [(1, 0), (0.3, 0), (-1.25, 0.7)], "bias": [False, True],
    "act": ["none", "relu", "silu"], "batch": [1, 2]})]


@pytest.mark.matrix
@pytest.mark.parametrize("problem", MATRIX, ids=str)
def test_matrix(problem, post, rng):
    scaled = random_scaled(problem, rng)
    answer = post(problem.parameters(), scaled.raw())
    assert answer.status_code == 200, answer.text
    assert_scaled(problem, scaled, answer.content)


@pytest.mark.parametrize("kind", KINDS, ids=" ".join)
@pytest.mark.parametrize("kernel", ["auto", "tiled", "naive"])
def test_exact(kind, kernel, url, session, post, rng):
    """Where no sum is rounded, the result is what f64 says, to the last bit."""
    names = [k["name"] for k in session.get(f"{url}/info").json()["kernels"]]
    if kernel != "auto" and (kernel not in names or "openblas" not in names):
        pytest.skip("a kernel of the CPU")
    case = problem(kind, m=70, n=200, k=300, out="f32", kernel=kernel)
    scaled = exact_scaled(case, rng)
    answer = post(case.parameters(), scaled.raw())
    assert answer.status_code == 200, answer.text
    np.testing.assert_array_equal(decode(case, answer.content), truth(case, scaled)[0])


def body(media_type, scaled, order="C", **changes):
    """The arrays without the batch of one; `changes` replaces some (None: leaves one out)."""
    o = scaled.operands
    arrays = {"a": o.a[0], "b": o.b[0], "bias": o.bias, "c": None if o.c0 is None else o.c0[0],
              "a_scale": scaled.a_scale[0], "b_scale": scaled.b_scale[0]} | changes
    arrays = {name: array for name, array in arrays.items() if array is not None}
    if media_type == RAW:
        return b"".join(array.tobytes() for array in arrays.values())
    if media_type == NPY:
        return b"".join(npy(np.asarray(array, order=order)) for array in arrays.values())
    return safetensors.numpy.save({name: np.ascontiguousarray(array)
                                   for name, array in arrays.items()})


def query(case, media_type):
    parameters = case.parameters()
    if media_type != RAW:
        for name in ("m", "n", "k", "batch") + (("dtype",) if media_type == SAFETENSORS else ()):
            parameters.pop(name, None)
    if media_type == SAFETENSORS:
        parameters.pop("bias", None)
    return parameters


@pytest.mark.parametrize("kind", KINDS, ids=" ".join)
@pytest.mark.parametrize("transposed", [False, True])
def test_formats_have_the_same_bytes(kind, transposed, post, rng):
    case = problem(kind, (2, 1), m=33, n=131, k=257, bias=True, transa=transposed,
                   transb=transposed)
    scaled = random_scaled(case, rng)
    raw = post(case.parameters(), scaled.raw())
    assert raw.status_code == 200, raw.text
    for media_type, order in ((NPY, "C"), (NPY, "F"), (SAFETENSORS, "C")):
        answer = post(query(case, media_type), body(media_type, scaled, order), media_type,
                      Accept=RAW)
        assert answer.status_code == 200, answer.text
        assert answer.content == raw.content, (media_type, order)


def test_scales_of_weights_may_have_sizes_of_one(post, rng):
    """Frameworks keep the scales of rows as [n, 1]."""
    case = problem(KINDS[0], m=3, n=9, k=40, transb=True)
    scaled = random_scaled(case, rng)
    raw = post(case.parameters(), scaled.raw()).content
    answer = post(query(case, SAFETENSORS), body(SAFETENSORS, scaled,
                                                 a_scale=scaled.a_scale[0][:, None],
                                                 b_scale=scaled.b_scale[0][:, None]),
                  SAFETENSORS, Accept=RAW)
    assert answer.status_code == 200, answer.text
    assert answer.content == raw


def test_rows_have_the_bits_that_they_have_alone(post, rng):
    case = problem(KINDS[2], m=70, n=130, k=300, kernel="tiled")
    scaled = random_scaled(case, rng)
    whole = decode(case, post(case.parameters(), scaled.raw()).content)
    one = problem(KINDS[2], m=1, n=130, k=300, kernel="tiled")
    o = scaled.operands
    row = o.a[0, 41].tobytes() + o.b.tobytes() + scaled.a_scale[0, 41].tobytes()
    answer = post(one.parameters(), row + scaled.b_scale.tobytes())
    assert answer.status_code == 200, answer.text
    np.testing.assert_array_equal(decode(one, answer.content)[0, 0], whole[0, 41])


@pytest.mark.parametrize("value", [0, -1, -0.0, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["a_scale", "b_scale"])
@pytest.mark.parametrize("media_type", [RAW, NPY, SAFETENSORS])
def test_bad_values(value, name, media_type, post, rng):
    case = problem(KINDS[0], m=4, n=6, k=8)
    scaled = random_scaled(case, rng)
    getattr(scaled, name)[0, 2] = value
    answer = post(query(case, media_type), body(media_type, scaled), media_type)
    assert_problem(answer, 400, rf"element 2 of {name} is .*positive and finite", field=name)


@pytest.mark.parametrize("dtype, scales, says", [
    ("f32", "rowcol", "f8_e4m3 and i8, not of f32"), ("bf16", "block", "f8_e4m3, not of bf16"),
    ("i8", "block", "f8_e4m3, not of i8")])
def test_types_without_scales(dtype, scales, says, post):
    answer = post({"m": 1, "n": 1, "k": 1, "dtype": dtype, "scales": scales}, b"")
    assert_problem(answer, 422, f"scales={scales} is offered for operands of {says}",
                   field="scales")


@pytest.mark.parametrize("parameters, status, field, says", [
    ({"dtype": "i8", "out": "i32"}, 422, "out", "with scales; it can be f32, f16, bf16"),
    ({"dtype": "i8", "precision": "f8"}, 422, "precision", "f8_e4m3, not of i8"),
    ({"dtype": "f8_e4m3", "verify": "freivalds"}, 422, "verify", "not with scales=rowcol"),
    ({"dtype": "f8_e4m3", "scales": "rows"}, 400, "scales", "one of none, rowcol, block")])
def test_refusals(parameters, status, field, says, post):
    answer = post({"m": 1, "n": 1, "k": 1, "scales": "rowcol"} | parameters, b"")
    assert_problem(answer, status, says, field=field)


@pytest.mark.parametrize("changes, field, says", [
    ({"a_scale": None}, "a_scale", "scales=block needs the array a_scale"),
    ({"b_scale": None}, "b_scale", "scales=block needs the array b_scale"),
    ({"a_scale": np.ones((3, 4), np.float32)}, "a_scale", "has the shape 3,4.*must be 4,3"),
    ({"b_scale": np.ones(200, np.float32)}, "b_scale", "has the shape 200.*must be 3,2"),
    ({"a_scale": np.ones((4, 3), np.float16)}, "a_scale", "of type f16; scales must be f32"),
    ({"b_scale": np.ones((3, 2), np.float64)}, "b_scale", "of type f64; scales must be f32")])
def test_bad_arrays(changes, field, says, post, rng):
    case = problem(KINDS[2], m=4, n=200, k=300)
    scaled = random_scaled(case, rng)
    answer = post(query(case, SAFETENSORS), body(SAFETENSORS, scaled, **changes), SAFETENSORS)
    assert_problem(answer, 400, says, field=field)


def test_scales_must_be_asked_for(post, rng):
    case = problem(KINDS[0], m=4, n=6, k=8)
    scaled = random_scaled(case, rng)
    answer = post({}, body(SAFETENSORS, scaled), SAFETENSORS)
    assert_problem(answer, 400, "a_scale needs scales=rowcol or scales=block", field="scales")
    parameters = case.parameters()
    del parameters["scales"]
    assert_problem(post(parameters, scaled.raw()), 400, "is scales=rowcol missing")


def test_scales_are_missing_from_the_body(post, rng):
    case = problem(KINDS[0], m=4, n=6, k=8)
    scaled = random_scaled(case, rng)
    assert_problem(post(case.parameters(), scaled._replace(b_scale=None).raw()), 400,
                   "is b_scale missing")
    arrays = body(NPY, scaled, b_scale=None)
    assert_problem(post(query(case, NPY), arrays, NPY), 400, "b_scale is missing")
