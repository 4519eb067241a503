"""POST /softmax against f64: types, lengths, logarithms, formats, and refusals.

An element y may have an error of the less of (ceil(log2(length)) + 24 + 4 * largest) * 2^-24, where
`largest` bounds the magnitude of the scaled scores, and (4 * ceil(log2(length)) + 24 + 4 * |log y|) * 2^-24
of itself, as PROTOCOL.md says, and one rounding to the type of the result.
"""

import io

import numpy as np
import pytest

from matrices import ROUNDING
from test_reduce import daemon, post, read, stored  # noqa: F401 (a fixture)

SHAPES = [(1,), (7,), (64, 64), (3, 5, 1001), (2, 1, 3, 1, 2, 1, 2, 33), (1, 4099), (5, 1), (300, 17),
          (2, 1500), (3, 16391)]
SMALLEST = 2.0**-126


def reference(x, scale, lens):
    """log(softmax) in a type longer than f64; minus infinity beyond the lengths. Only differences of elements
    are scaled, so that no rounding error is that of a large score."""
    there = np.ones(x.shape, bool)
    if lens is not None:
        there = np.arange(x.shape[-1]) < lens.reshape(lens.shape + (1,) * (x.ndim - lens.ndim))
        there = np.broadcast_to(there, x.shape)
    signed = np.where(there, x.astype(np.longdouble) * np.sign(scale), -np.inf)
    most = signed.max(-1, keepdims=True)
    scores = (np.where(there, signed, most) - np.where(np.isfinite(most), most, 0)) * abs(np.longdouble(scale))
    scores = np.where(there, scores, -np.inf)
    total = np.exp(scores).sum(-1, keepdims=True)
    return scores - np.log(np.where(total > 0, total, 1))


def assert_softmax(answer, x, dtype, scale=1.0, lens=None, log=False):
    assert answer.status_code == 200, answer.text
    expected = reference(x, scale, lens)
    largest = np.abs(x.astype(np.longdouble) * scale).max()
    levels = np.ceil(np.log2(x.shape[-1]))
    unit = np.minimum(levels + 24 + 4 * largest, 4 * levels + 24 + 4 * np.abs(expected)) * (
        2.0**-53 if dtype == "f64" else 2.0**-24)
    out = answer.headers["Gemmd-Dtype"]
    got = read(answer)
    assert got.shape == x.shape
    masked = np.isneginf(expected)
    if log:
        assert np.isneginf(got[masked]).all()
        wanted, got, unit = expected[~masked], got[~masked], unit[~masked]
        allowed = unit * (1 + np.abs(wanted)) + ROUNDING[out][0] * np.abs(wanted)
    else:
        assert (got[masked] == 0).all()
        wanted, got, unit = np.exp(expected[~masked]), got[~masked], unit[~masked]
        allowed = unit * (wanted + SMALLEST) + ROUNDING[out][0] * wanted + ROUNDING[out][1]
    assert np.all(np.abs(got - wanted) <= allowed)


@pytest.mark.parametrize("dtype", ("f64", "f32", "f16", "bf16"))
@pytest.mark.parametrize("kernel", ("auto", "naive"))
def test_softmax(daemon, rng, dtype, kernel):
    for shape in SHAPES:
        body, x = stored(3 * rng.normal(size=shape), dtype)
        for log in (0, 1):
            params = {"shape": ",".join(map(str, shape)), "dtype": dtype, "log": log,
                      "scale": 0.75, "kernel": kernel}
            assert_softmax(post(daemon, "/softmax", body, params), x.reshape(shape), dtype, 0.75,
                           log=bool(log))


@pytest.mark.parametrize("kernel", ("auto", "naive"))
def test_many_small_terms_count(daemon, kernel):
    """A sum that adds one term after another to a 1 loses all terms of 2^-54."""
    x = np.full((2, 49173), -54 * np.log(2))
    x[:, 0] = 0
    for log in (0, 1):
        answer = post(daemon, "/softmax", x.tobytes(), {"shape": "2,49173", "dtype": "f64", "log": log,
                                                        "kernel": kernel})
        assert_softmax(answer, x, "f64", log=bool(log))


@pytest.mark.parametrize("kernel", ("auto", "naive"))
@pytest.mark.parametrize("log", (0, 1))
@pytest.mark.parametrize("scale", (1, -1, 0.3, 1e-30))
@pytest.mark.parametrize("length", (2, 700, 20011))
def test_the_error_does_not_grow_with_the_scores(daemon, rng, length, scale, log, kernel):
    """Nor does a row become NaN where the rounding error of a score is large itself."""
    for dtype, offsets in (("f32", (1e8, -1e8, 1e30)), ("f64", (1e16, 1e300)), ("bf16", (1e8, 1e30))):
        for offset in offsets:
            step = {"f32": 2.0**-24, "f64": 2.0**-53, "bf16": 2.0**-8}[dtype] * abs(offset)
            body, x = stored(offset + 2 * step * rng.integers(-3, 4, length), dtype)
            assert_softmax(post(daemon, "/softmax", body, {
                "shape": length, "dtype": dtype, "log": log, "scale": scale, "kernel": kernel}), x, dtype,
                scale, log=bool(log))


@pytest.mark.parametrize("kernel", ("auto", "naive"))
@pytest.mark.parametrize("length", (2, 700, 20011))
def test_results_below_the_least_normal_number_are_kept(daemon, length, kernel):
    for dtype, least in (("f32", -103.0), ("bf16", -92.0)):
        body, x = stored(np.linspace(least, 0, length), dtype)
        answer = post(daemon, "/softmax", body, {"shape": length, "dtype": dtype, "out": "f32", "kernel": kernel})
        assert_softmax(answer, x, dtype)
        assert read(answer)[0] > 0 or length > 2


@pytest.mark.parametrize("kernel", ("auto", "naive"))
@pytest.mark.parametrize("scale", (1, 1e-38, 3e38, 0, -1e-38))
def test_differences_out_of_range(daemon, scale, kernel):
    """The difference of two elements is not in the range of f32, but its product with the scale may be."""
    for dtype, most in (("f32", 3e38), ("f64", 1.5e308)):
        body, x = stored(np.array([-most, 0, most / 2, most]), dtype)
        scale_here = scale if dtype == "f32" or abs(scale) != 1e-38 else np.sign(scale) * 1e-308
        if scale_here > 1:
            continue  # the scores themselves are infinite
        for log in (0, 1):
            answer = post(daemon, "/softmax", body, {"shape": 4, "dtype": dtype, "log": log, "kernel": kernel,
                                                     "scale": scale_here})
            if log and scale == 1:  # the logarithm is out of range too
                assert read(answer).tolist()[::3] == [-np.inf, 0]
            else:
                assert_softmax(answer, x, dtype, scale_here, log=bool(log))


def test_the_sum_of_a_long_row_of_equal_elements(daemon):
    """Adding one number many times to a large sum rounds in one direction."""
    x = np.full(1 << 22, -0.357, np.float32)
    x[0] = 0
    assert_softmax(post(daemon, "/softmax", x.tobytes(), {"shape": x.size}), x.astype(np.float64), "f32")


@pytest.mark.parametrize("kernel", ("auto", "naive"))
def test_lengths_mask_what_is_behind_them(daemon, rng, kernel):
    """Also NaN has no influence there."""
    x = rng.normal(size=(3, 4, 70)).astype(np.float32)
    for dims, lens in ((1, [70, 33, 0]), (2, [[1, 2, 3, 70], [0, 69, 5, 64], [16, 17, 32, 31]])):
        lens = np.array(lens, np.int32)
        whole = np.broadcast_to(lens.reshape(lens.shape + (1,) * (3 - lens.ndim)), x.shape)
        poisoned = np.where(np.arange(70) < whole, x, np.nan).astype(np.float32)
        for log in (0, 1):
            answer = post(daemon, "/softmax", lens.tobytes() + poisoned.tobytes(), {
                "shape": "3,4,70", "lens": dims, "log": log, "kernel": kernel})
            assert_softmax(answer, x.astype(np.float64), "f32", lens=lens, log=bool(log))
    arrays = io.BytesIO()
    np.save(arrays, lens)
    np.save(arrays, x)
    answer = post(daemon, "/softmax", arrays.getvalue(), {"lens": 2, "kernel": kernel},
                  "application/x-npy", Accept="application/octet-stream")
    assert_softmax(answer, x.astype(np.float64), "f32", lens=lens)


@pytest.mark.parametrize("length", (1003, 16401, 70001))
def test_the_bits_do_not_depend_on_the_other_rows(daemon, rng, length):
    x = rng.normal(size=(40, length)).astype(np.float32)
    whole = post(daemon, "/softmax", x.tobytes(), {"shape": f"40,{length}"}).content
    for row in (0, 17, 39):
        alone = post(daemon, "/softmax", x[row].tobytes(), {"shape": str(length)}).content
        assert whole[4 * length * row:4 * length * (row + 1)] == alone


@pytest.mark.parametrize("kernel", ("auto", "naive"))
def test_nan_and_infinity(daemon, kernel):
    inf, nan = np.inf, np.nan
    x = np.array([[1, nan, 2], [inf, 1, 0], [-inf, -inf, -inf], [-inf, 0, -inf]], np.float32)
    got = read(post(daemon, "/softmax", x.tobytes(), {"shape": "4,3", "kernel": kernel}))
    np.testing.assert_array_equal(got[:3], np.full((3, 3), nan))
    np.testing.assert_array_equal(got[3], [0, 1, 0])


@pytest.mark.parametrize("kernel", ("auto", "naive"))
@pytest.mark.parametrize("length", (20000, 131072))
def test_nan_and_infinity_in_a_part_of_a_long_row(daemon, kernel, length):
    """Kernels divide such rows into parts, some of which have minus infinity only here."""
    x = np.full((5, length), -np.inf, np.float32)
    x[0, 5] = np.nan
    x[1, length - 2] = np.inf
    x[3, length // 2], x[3, length - 1] = 3, 3
    x[4, :7000] = 1
    got = read(post(daemon, "/softmax", x.tobytes(), {"shape": f"5,{length}", "kernel": kernel}))
    assert np.isnan(got[:3]).all()
    wanted = np.zeros((2, length))
    wanted[0, [length // 2, length - 1]] = 0.5
    wanted[1, :7000] = 1 / 7000
    np.testing.assert_allclose(got[3:], wanted, rtol=1e-5)


def test_resident_stored_and_models(daemon, rng):
    x = rng.normal(size=(5, 3, 33)).astype(np.float32)
    whole = post(daemon, "/softmax", x.tobytes(), {"shape": "5,3,33"}).content
    put = daemon.session.put(f"{daemon.url}/tensors/softmax.x", data=x.tobytes(),
                             params={"dtype": "f32", "shape": "5,3,33"},
                             headers={"Content-Type": "application/octet-stream"})
    assert put.status_code in (200, 201), put.text
    assert post(daemon, "/softmax", b"", {"x": "softmax.x"}).content == whole
    stored_answer = post(daemon, "/softmax", b"", {"x": "softmax.x", "store": "softmax.y"})
    assert stored_answer.status_code == 201, stored_answer.text
    assert daemon.session.get(f"{daemon.url}/tensors/softmax.y").content == whole
    model = daemon.session.post(f"{daemon.url}/v2/models/softmax_fp32/infer", json={
        "inputs": [{"name": "LENS", "datatype": "INT32", "shape": [5], "data": [33] * 5}],
        "parameters": {"x": "softmax.x"}})
    assert model.status_code == 200, model.text
    assert np.array(model.json()["outputs"][0]["data"], np.float32).tobytes() == whole
    for name in ("softmax.x", "softmax.y"):
        daemon.session.delete(f"{daemon.url}/tensors/{name}")
    model = daemon.session.post(f"{daemon.url}/v2/models/softmax_fp32/infer", json={"inputs": [
        {"name": "X", "datatype": "FP32", "shape": [5, 3, 33], "data": x.ravel().tolist()}]})
    assert model.status_code == 200, model.text
    assert np.array(model.json()["outputs"][0]["data"], np.float32).tobytes() == whole


@pytest.mark.parametrize("query, body, status, field, text", [
    ({}, 4, 400, "shape", "raw bodies need it"),
    ({"shape": "2,3", "lens": 2}, 24, 400, "lens", "must leave the last"),
    ({"shape": "2,3", "lens": 8}, 24, 400, "lens", "from 0 to 7"),
    ({"shape": "2,3", "scale": "inf"}, 24, 400, "scale", "a decimal that f32 can hold"),
    ({"shape": "2,3", "scale": "1e39"}, 24, 400, "scale", "a decimal that f32 can hold"),
    ({"shape": "2,3", "dtype": "i8"}, 6, 400, "dtype", "one of f64"),
    ({"shape": "2,3", "out": "f64"}, 24, 422, "out", "not offered"),
    ({"shape": "2,3", "lens": 1}, 24, 400, "", "take 32"),
    ({"shape": "2,0"}, 0, 400, "shape", "1 to 8 whole numbers"),
    ({"shape": "2147483647,2147483647,2147483647"}, 4, 413, "", "does not fit in 64 bits"),
])
def test_refusals(daemon, query, body, status, field, text):
    answer = post(daemon, "/softmax", bytes(body), query)
    assert answer.status_code == status, answer.text
    assert text in answer.json()["detail"] and field in str(answer.json()), answer.text


@pytest.mark.parametrize("length", (-1, 4, 2**31 - 1))
def test_lengths_beyond_the_row(daemon, length):
    body = np.array([3, length], np.int32).tobytes() + bytes(24)
    answer = post(daemon, "/softmax", body, {"shape": "2,3", "lens": 1})
    assert answer.status_code == 400
    assert "number 1 is" in answer.json()["detail"] and "from 0 to 3" in answer.json()["detail"]
