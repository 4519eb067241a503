"""POST /reduce against f64: every operation, type, axis and format, exact integers, and refusals.

A sum may have an error of ceil(log2(length)) + 8 roundings of the sum of the magnitudes, as
PROTOCOL.md says, and one rounding to the type of the result.
"""

import io
from typing import NamedTuple

import numpy as np
import pytest

from daemon import PATIENCE_S
from matrices import NUMPY, ROUNDING, random_array

OPS = ("sum", "mean", "max", "min", "norm2", "logsumexp", "argmax")
FLOATS = ("f64", "f32", "f16", "bf16")
LEAST_HALF = np.longdouble(2)**-1075  # of the least number of f64 that is not 0
SHAPES = [((1,), 0), ((7,), -1), ((64, 64), 1), ((64, 64), 0), ((3, 5, 1001), -1), ((3, 129, 5), 1),
          ((2, 3, 4, 5, 2, 2, 3, 2), 2), ((1, 4099), 1), ((4099, 3), 0), ((5, 1), 0), ((2, 70, 1), 1)]


def post(daemon, path, body, params, content_type="application/octet-stream", **headers):
    return daemon.session.post(f"{daemon.url}{path}", params=params, data=body,
                               headers={"Content-Type": content_type, **headers},
                               timeout=PATIENCE_S)


class Served(NamedTuple):
    """A daemon, and connections to it."""
    url: str
    session: object


@pytest.fixture
def daemon(url, session):
    return Served(url, session)


def stored(values, dtype):
    """The bytes of an array, and its values as f64."""
    array = values.astype(NUMPY[dtype])
    return array.tobytes(), array.astype(np.float64)


def read(answer):
    """The values of a raw answer, as f64."""
    dtype = answer.headers["Gemmd-Dtype"]
    shape = [int(dim) for dim in answer.headers["Gemmd-Shape"].split(",")]
    return np.frombuffer(answer.content, NUMPY[dtype]).astype(np.float64).reshape(shape)


def reference(x, op, axis):
    """The result, and how large its error may be before it is rounded, in f32. NumPy sums an axis before the
    last one term after another, so that sums of f64 need a longer type."""
    n = x.shape[axis]
    x = x.astype(np.longdouble)
    unit = (np.ceil(np.log2(n)) + 8) * 2.0**-24
    magnitude = np.abs(x).sum(axis)
    if op == "sum":
        return x.sum(axis), unit * magnitude
    if op == "mean":
        return x.mean(axis), (unit + 2.0**-22) * magnitude / n
    if op == "norm2":
        value = np.sqrt((x * x).sum(axis))
        return value, (unit + 2.0**-22) * value
    if op == "logsumexp":
        most = x.max(axis, keepdims=True)
        value = np.log(np.exp(x - most).sum(axis)) + most.squeeze(axis)
        return value, 4 * unit + 2.0**-22 * (np.abs(value) + np.abs(most.squeeze(axis)))
    return {"max": x.max, "min": x.min, "argmax": x.argmax}[op](axis).astype(np.float64), 0


def assert_reduced(answer, x, op, axis, dtype):
    assert answer.status_code == 200, answer.text
    expected, error = reference(x, op, axis)
    out = answer.headers["Gemmd-Dtype"]
    got = read(answer)
    assert got.shape == (expected.shape or (1,))
    allowed = error * (2.0**-29 if dtype == "f64" else 1) + (
        0 if op in ("max", "min", "argmax") else ROUNDING[out][0] * np.abs(expected) + max(ROUNDING[out][1], LEAST_HALF))
    assert np.all(np.abs(got.reshape(expected.shape) - expected) <= allowed), (op, axis, dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kernel", ("auto", "naive"))
def test_all_operations_of_floats(daemon, rng, dtype, kernel):
    for shape, axis in SHAPES:
        body, x = stored(rng.normal(size=shape), dtype)
        x = x.reshape(shape)
        for op in OPS:
            answer = post(daemon, "/reduce", body, {
                "shape": ",".join(map(str, shape)), "axis": axis, "op": op, "dtype": dtype,
                "kernel": kernel})
            assert_reduced(answer, x, op, axis, dtype)


@pytest.mark.parametrize("kernel", ("auto", "naive"))
@pytest.mark.parametrize("op, great, small", [("sum", 1, 2.0**-54), ("mean", 1, 2.0**-54), ("norm2", 1, 2.0**-27),
                                              ("logsumexp", 0, -54 * np.log(2))])
def test_many_small_terms_of_f64_count(daemon, kernel, op, great, small):
    """A sum that adds one term after another to a 1 loses all terms of 2^-54."""
    for shape, axis in (((2, 49173), 1), ((49173, 2), 0)):
        x = np.full(shape, small)
        x[(slice(None), 0) if axis == 1 else 0] = great
        answer = post(daemon, "/reduce", x.tobytes(), {
            "shape": ",".join(map(str, shape)), "axis": axis, "op": op, "dtype": "f64", "kernel": kernel})
        assert_reduced(answer, x, op, axis, "f64")


@pytest.mark.parametrize("kernel", ("auto", "naive"))
@pytest.mark.parametrize("dtype, great, small", [("f32", 3e38, 1e-30), ("f32", 3e38, 1e-40), ("bf16", 3e38, 1e-30),
                                                 ("f64", 1.5e308, 1e-200), ("f64", 1.5e308, 1e-310)])
@pytest.mark.parametrize("length", (2, 3, 1000, 70001))
def test_sums_that_leave_the_range_in_between(daemon, length, dtype, great, small, kernel):
    """The result is in range, but a sum of the elements, or of their squares, is not."""
    alternating = np.where(np.arange(length) % 3 == 1, -1.0, 1.0)
    single = np.where(np.arange(length) == length // 2, 1.0, 0.0)
    cases = [("mean", great * np.ones(length)), ("mean", great * alternating), ("mean", small * alternating),
             ("norm2", small * np.ones(length)), ("norm2", great / np.sqrt(length) * alternating),
             ("norm2", small * (1 + 1e9 * single)), ("norm2", great * single + small), ("norm2", np.zeros(length))]
    if length > 2:
        cases += [("sum", great * (single - np.roll(single, 1)) + great * np.roll(single, 2))]
    if daemon.session.get(f"{daemon.url}/info", timeout=PATIENCE_S).json()["devices"][0]["backend"] != "cpu":
        cases = [case for case in cases if case[0] == "norm2"]  # GPUs are an exception for the others
    for op, values in cases:
        body, x = stored(values, dtype)
        for shape, axis in (((length,), 0), ((length, 3), 0)):
            columns = np.repeat(x, 3).reshape(shape) if len(shape) > 1 else x
            if len(shape) > 1:
                columns[:, 1] = 1
                body = stored(columns, dtype)[0]
            answer = post(daemon, "/reduce", body, {"shape": ",".join(map(str, shape)), "axis": axis, "op": op,
                                                    "dtype": dtype, "kernel": kernel})
            assert_reduced(answer, columns, op, axis, dtype)


def test_sums_of_integers_are_exact(daemon, rng):
    i8 = rng.integers(-128, 128, (3, 5003)).astype(np.int8)
    i32 = rng.integers(-2**31, 2**31, (70, 9)).astype(np.int32)
    for x, dtype in ((i8, "i8"), (i32, "i32")):
        shape = ",".join(map(str, x.shape))
        for axis in (0, 1):
            total = x.astype(object).sum(axis)
            params = {"shape": shape, "axis": axis, "dtype": dtype}
            wrapped = read(post(daemon, "/reduce", x.tobytes(), params))
            assert [(int(value) + 2**31) % 2**32 - 2**31 for value in total] == wrapped.tolist()
            exact = read(post(daemon, "/reduce", x.tobytes(), {**params, "out": "f64"}))
            assert [float(value) for value in total] == exact.tolist()
            for op in ("max", "min", "argmax"):
                got = read(post(daemon, "/reduce", x.tobytes(), {**params, "op": op}))
                assert getattr(x, op)(axis).tolist() == got.tolist()
            mean = read(post(daemon, "/reduce", x.tobytes(), {**params, "op": "mean"}))
            assert [float(value) / x.shape[axis] for value in total] == mean.tolist()


def test_the_bits_do_not_depend_on_the_other_rows(daemon, rng):
    x = rng.normal(size=(40, 3001)).astype(np.float32)
    for op in OPS:
        whole = post(daemon, "/reduce", x.tobytes(), {"shape": "40,3001", "op": op}).content
        for row in (0, 17, 39):
            alone = post(daemon, "/reduce", x[row].tobytes(), {"shape": "3001", "op": op}).content
            assert whole[4 * row:4 * row + 4] == alone, (op, row)


@pytest.mark.parametrize("kernel", ("auto", "naive"))
def test_nan_and_infinity(daemon, kernel):
    inf, nan = np.inf, np.nan
    x = np.array([[1, nan, inf, 2], [inf, 1, -inf, 0], [-inf, -inf, -inf, -inf], [inf, 1, 2, inf],
                  [0, -0.0, nan, nan]], np.float32)
    expected = {"sum": [nan, nan, -inf, inf, nan], "max": [nan, inf, -inf, inf, nan],
                "min": [nan, -inf, -inf, 1, nan], "norm2": [nan, inf, inf, inf, nan],
                "logsumexp": [nan, inf, -inf, inf, nan], "argmax": [1, 0, 0, 0, 2]}
    for op, wanted in expected.items():
        for array, axis in ((x, 1), (np.ascontiguousarray(x.T), 0)):
            answer = post(daemon, "/reduce", array.tobytes(), {
                "shape": ",".join(map(str, array.shape)), "axis": axis, "op": op, "kernel": kernel})
            np.testing.assert_array_equal(read(answer), wanted, err_msg=f"{op} over {axis}")


def test_formats_keepdims_and_stored_results(daemon, rng):
    x = rng.normal(size=(6, 10, 33)).astype(np.float32)
    array = io.BytesIO()
    np.save(array, x)
    answer = post(daemon, "/reduce", array.getvalue(), {"axis": 1, "keepdims": 1},
                  "application/x-npy", Accept="application/x-npy")
    assert answer.status_code == 200, answer.text
    got = np.load(io.BytesIO(answer.content))
    assert got.shape == (6, 1, 33)
    np.testing.assert_allclose(got, x.sum(1, keepdims=True), rtol=1e-4, atol=1e-5)
    put = daemon.session.put(f"{daemon.url}/tensors/reduce.x", data=x.tobytes(),
                             params={"dtype": "f32", "shape": "6,10,33"},
                             headers={"Content-Type": "application/octet-stream"})
    assert put.status_code in (200, 201), put.text
    for axis in (0, 1, 2):
        whole = post(daemon, "/reduce", x.tobytes(), {"shape": "6,10,33", "axis": axis})
        resident = post(daemon, "/reduce", b"", {"x": "reduce.x", "axis": axis})
        assert resident.status_code == 200, resident.text
        assert resident.content == whole.content
        stored_answer = post(daemon, "/reduce", b"", {"x": "reduce.x", "axis": axis,
                                                      "store": "reduce.y"})
        assert stored_answer.status_code == 201, stored_answer.text
        get = daemon.session.get(f"{daemon.url}/tensors/reduce.y")
        assert get.content == whole.content
    for name in ("reduce.x", "reduce.y"):
        daemon.session.delete(f"{daemon.url}/tensors/{name}")


def test_a_job_and_a_model_give_the_same_bytes(daemon, rng):
    x = rng.normal(size=(9, 50)).astype(np.float32)
    whole = post(daemon, "/reduce", x.tobytes(), {"shape": "9,50", "op": "norm2"}).content
    job = post(daemon, "/reduce", x.tobytes(), {"shape": "9,50", "op": "norm2"},
               Prefer="respond-async")
    assert job.status_code == 202, job.text
    result = daemon.session.get(daemon.url + job.headers["Location"] + "/result",
                                params={"wait_ms": PATIENCE_S * 1000}, timeout=PATIENCE_S)
    assert result.content == whole
    model = daemon.session.post(f"{daemon.url}/v2/models/reduce_fp32/infer", json={
        "inputs": [{"name": "X", "datatype": "FP32", "shape": [9, 50], "data": x.ravel().tolist()}],
        "parameters": {"op": "norm2"}}, timeout=PATIENCE_S)
    assert model.status_code == 200, model.text
    data = np.array(model.json()["outputs"][0]["data"], np.float32)
    assert data.tobytes() == whole


@pytest.mark.parametrize("dtype, model, datatype", [("f64", "fp64", "FP64"), ("f32", "fp32", "FP32"),
                                                    ("i8", "int8", "INT8"), ("i32", "int32", "INT32")])
def test_a_model_answers_in_json(dtype, model, datatype, daemon, rng):
    x = random_array(rng, dtype, (7, 11))
    answer = daemon.session.post(f"{daemon.url}/v2/models/reduce_{model}/infer", json={
        "inputs": [{"name": "X", "datatype": datatype, "shape": [7, 11], "data": x.ravel().tolist()}],
        "parameters": {"op": "max"}}, timeout=PATIENCE_S)
    assert answer.status_code == 200, answer.text
    output = answer.json()["outputs"][0]
    assert output["datatype"] == datatype
    assert np.array(output["data"], NUMPY[dtype]).tolist() == x.max(axis=1).tolist()


@pytest.mark.parametrize("query, body, status, field, text", [
    ({}, 4, 400, "shape", "raw bodies need it"),
    ({"shape": "2,3,"}, 24, 400, "shape", "1 to 8 whole numbers"),
    ({"shape": "1,1,1,1,1,1,1,1,1"}, 4, 400, "shape", "1 to 8 whole numbers"),
    ({"shape": "4,0"}, 0, 400, "shape", "1 to 8 whole numbers"),
    ({"shape": "4,-1"}, 0, 400, "shape", "1 to 8 whole numbers"),
    ({"shape": "2147483648"}, 0, 400, "shape", "1 to 8 whole numbers"),
    ({"shape": "2,3", "axis": 2}, 24, 400, "axis", "must be from -2 to 1"),
    ({"shape": "2,3", "axis": -3}, 24, 400, "axis", "must be from -2 to 1"),
    ({"shape": "2,3", "axis": "0,1"}, 24, 400, "axis", "from -8 to 7"),
    ({"shape": "2,3", "axis": "-0"}, 24, 400, "axis", "from -8 to 7"),
    ({"shape": "2,3", "op": "median"}, 24, 400, "op", "one of sum, mean"),
    ({"shape": "2,3", "dtype": "f8_e4m3"}, 6, 400, "dtype", "one of f64"),
    ({"shape": "2,3", "dtype": "i8", "op": "norm2"}, 6, 422, "dtype", "not offered"),
    ({"shape": "2,3", "op": "argmax", "out": "f32"}, 24, 422, "out", "not offered"),
    ({"shape": "2,3"}, 23, 400, "", "take 24"),
    ({"shape": "2,3"}, 12, 400, "", "are the operands f16 or bf16"),
    ({"shape": "2147483647,2147483647,2147483647"}, 4, 413, "", "does not fit in 64 bits"),
    ({"shape": "2,3", "x": "nobody"}, 0, 404, "x", "nobody"),
    ({"shape": "2,3", "kernel": "fast"}, 24, 422, "kernel", "kernel 'fast' for reduce; it has: "),
])
def test_refusals(daemon, query, body, status, field, text):
    answer = post(daemon, "/reduce", bytes(body), query)
    assert answer.status_code == status, answer.text
    problem = answer.json()
    assert text in problem["detail"], problem
    if field:
        assert problem.get("field") == field or field in str(problem), problem
