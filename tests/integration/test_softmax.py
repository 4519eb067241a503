"""POST /softmax against f64: types, lengths, logarithms, formats, and refusals.

An element y may have an error of (ceil(log2(length)) + 24 + 4 * largest) * 2^-24 of itself, where
`largest` bounds the magnitude of the scaled scores, and one rounding to the type of the result.
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
    """log(softmax) in f64; minus infinity beyond the lengths."""
    scores = x * scale
    if lens is not None:
        whole = np.broadcast_to(lens.reshape(lens.shape + (1,) * (x.ndim - lens.ndim)), x.shape)
        scores = np.where(np.arange(x.shape[-1]) < whole, scores, -np.inf)
    with np.errstate(invalid="ignore"):
        most = scores.max(-1, keepdims=True)
        most = np.where(np.isfinite(most), most, 0)
        total = np.exp(scores - most).sum(-1, keepdims=True)
        return scores - most - np.log(np.where(total > 0, total, 1))


def assert_softmax(answer, x, dtype, scale=1.0, lens=None, log=False):
    assert answer.status_code == 200, answer.text
    expected = reference(x, scale, lens)
    largest = np.abs(x * scale).max()
    unit = (np.ceil(np.log2(x.shape[-1])) + 24 + 4 * largest) * (2.0**-53 if dtype == "f64"
                                                                  else 2.0**-24)
    out = answer.headers["Gemmd-Dtype"]
    got = read(answer)
    assert got.shape == x.shape
    masked = np.isneginf(expected)
    if log:
        assert np.isneginf(got[masked]).all()
        wanted, got = expected[~masked], got[~masked]
        allowed = unit * (1 + np.abs(wanted)) + ROUNDING[out][0] * np.abs(wanted)
    else:
        assert (got[masked] == 0).all()
        wanted, got = np.exp(expected[~masked]), got[~masked]
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
