"""The Python client of client/python, over plain HTTP and over libgemmd, against real daemons."""

import importlib.util
import multiprocessing
import os
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import conv2d
from conv2d import Conv2d
from daemon import PATIENCE_S
from matrices import NUMPY, OUTS, Problem, assert_right, random_operands
from scaling import ScaledProblem, exact_scaled, truth

CLIENT = Path(__file__).resolve().parents[2] / "client/python/src"
sys.path.insert(0, str(CLIENT))

from gemmd_client import Client, ConnectionFailed  # noqa: E402
from gemmd_client.errors import Malformed, NoRoom, NotFound, Unauthorized  # noqa: E402


@pytest.fixture(params=["http", "library"])
def transport(request, gemmd, monkeypatch, instrumented):
    if request.param == "library":
        if instrumented:
            pytest.skip("Python cannot load a library that a sanitizer is built into")
        monkeypatch.setenv("LIBGEMMD", str(gemmd.parents[1] / "lib/libgemmd.so.0"))
    return request.param


@pytest.fixture
def client(url, transport):
    with Client(url, transport=transport) as made:
        assert made.transport == transport
        yield made


@pytest.mark.parametrize("dtype,out", [(dtype, out) for dtype in OUTS for out in OUTS[dtype]])
def test_every_type(client, rng, dtype, out):
    problem = Problem(9, 17, 33, dtype, out=out)
    operands = random_operands(problem, rng)
    a, b = (np.asarray(part).reshape(shape) for part, shape in
            ((operands.a, (9, 33)), (operands.b, (33, 17))))
    product = client.gemm(a, b, out_dtype=out)
    assert product.dtype == NUMPY[out] and product.shape == (9, 17)
    assert_right(problem, operands, product.tobytes(), rng)


def whole(rng, *shape):
    """Numbers whose products and sums are exact in f32."""
    return rng.integers(-8, 9, shape).astype(np.float32)


@pytest.mark.parametrize("a,b", [((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)),
                                 ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((2, 3, 4), (2, 4, 5)),
                                 ((6, 1, 3, 4), (2, 4, 5)), ((2, 3, 4), (4,))])
def test_shapes_are_those_of_matmul(client, rng, a, b):
    a, b = whole(rng, *a), whole(rng, *b)
    assert np.array_equal(client.gemm(a, b), a @ b)


def test_views_of_other_arrays(client, rng):
    a, b = whole(rng, 6, 8), whole(rng, 8, 10)
    for left in (a, a[::2], a[:, ::-1], np.asfortranarray(a)):
        assert np.array_equal(client.gemm(left, b), left @ b)
    assert np.array_equal(client.gemm(b.T, a.T), b.T @ a.T)
    stack = whole(rng, 3, 8, 6).swapaxes(1, 2)
    assert np.array_equal(client.gemm(stack, b), stack @ b)
    assert np.array_equal(client.gemm(a.T, stack), a.T @ stack)
    square = whole(rng, 2, 8, 8)
    assert np.array_equal(client.gemm(b[:, :8].copy().T, square), b[:, :8].T @ square)
    big_endian = a.astype(">f4")
    assert np.array_equal(client.gemm(big_endian, b), a @ b)


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f8_e4m3", "i8"])
def test_calls_that_differ_only_in_the_operands(client, rng, dtype):
    """The client keeps the parameters of a call for the next one of the same kind."""
    kind, out = NUMPY[dtype], OUTS[dtype][0]
    b = rng.integers(-3, 4, (8, 5)).astype(kind)
    weights = client.put("again", b)
    turned = b.T.copy().T
    sealed = b.copy()
    sealed.flags.writeable = False
    for _ in range(3):
        a = rng.integers(-3, 4, (6, 8)).astype(kind)
        wanted = a.astype(np.float64) @ b.astype(np.float64)
        for right in (b, weights, turned, sealed):
            found = client.gemm(a, right)
            assert found.dtype == NUMPY[out] and np.array_equal(found.astype(np.float64), wanted)
            assert np.array_equal(client.gemm(a, right, alpha=2).astype(np.float64), 2 * wanted)
        assert np.array_equal(client.gemm(a[:, ::-1], b).astype(np.float64),
                              a[:, ::-1].astype(np.float64) @ b.astype(np.float64))
    client.delete(weights)
    with pytest.raises(NotFound):
        client.gemm(a, weights)
    assert np.array_equal(client.gemm(a, b).astype(np.float64), wanted)


def test_epilogue(client, rng):
    a, b, c, bias = whole(rng, 3, 4), whole(rng, 4, 5), whole(rng, 3, 5), whole(rng, 5)
    found = client.gemm(a, b, alpha=2, beta=-1, c=c, bias=bias, act="relu", priority=9)
    assert np.array_equal(found, np.maximum(2 * (a @ b) - c + bias, 0))
    assert np.array_equal(client.gemm(a, b, verify=True), a @ b)


@pytest.mark.parametrize("m,k,n", [(0, 4, 5), (3, 0, 5), (3, 4, 0), (0, 0, 0)])
def test_empty_arrays(client, m, k, n):
    product = client.gemm(np.ones((m, k), np.float32), np.ones((k, n), np.float32))
    assert product.shape == (m, n) and product.dtype == np.float32 and not product.any()
    biased = client.gemm(np.ones((m, k), np.float32), np.ones((k, n), np.float32),
                         bias=np.ones(n, np.float32))
    assert np.array_equal(biased, np.full((m, n), k + 1, np.float32))


def test_wrong_operands_are_named(client):
    ones = np.ones((3, 4), np.float32)
    for wrong in (np.ones((4, 5), complex), np.ones((4, 5), bool), np.array([["x"]]), "text", None, object()):
        with pytest.raises(TypeError):
            client.gemm(ones, wrong)
    with pytest.raises(ValueError, match="a has 4 columns and b has 3 rows"):
        client.gemm(ones, ones)
    with pytest.raises(ValueError, match="c is missing"):
        client.gemm(ones, ones.T, beta=1)
    with pytest.raises(Malformed) as caught:
        client.gemm(ones, ones.T, priority=10)
    assert caught.value.field == "priority"


def test_resident_tensors(client, rng):
    w, x = whole(rng, 8, 6), whole(rng, 3, 8)
    name = f"python-{client.transport}"
    tensor = client.put(name, w)
    assert (tensor.name, tensor.dtype, tensor.shape) == (name, np.float32, (8, 6))
    assert np.array_equal(client.gemm(x, tensor), x @ w)
    assert np.array_equal(client.get(tensor), w)
    assert name in [one.name for one in client.tensors()]
    client.delete(tensor)
    for call in (lambda: client.get(name), lambda: client.delete(name),
                 lambda: client.gemm(x, tensor)):
        with pytest.raises(NotFound):
            call()


def test_jobs(client, rng):
    a, b = whole(rng, 3, 4), whole(rng, 4, 5)
    job = client.gemm_job(a, b)
    assert np.array_equal(job.result(), a @ b)
    assert job.status().state == "done"
    job.cancel()
    with pytest.raises(NotFound):
        job.status()


def test_jobs_of_every_operation(client, rng):
    x, w = whole(rng, 2, 3, 6, 7), whole(rng, 4, 3, 3, 3)
    for job, wanted in (
            (client.conv2d_job(x, w, padding="same"), client.conv2d(x, w, padding="same")),
            (client.reduce_job(x, "max", axis=1), client.reduce(x, "max", axis=1)),
            (client.softmax_job(x, log=True, timeout=60), client.softmax(x, log=True)),
            (client.attention_job(x, x, x), client.attention(x, x, x))):
        assert np.array_equal(job.result(), wanted)


def test_results_that_stay(client, rng):
    """Each operation takes what another left on the device."""
    x, w, name = whole(rng, 2, 3, 6, 7), whole(rng, 4, 3, 3, 3), f"left-{client.transport}"
    y = client.conv2d_store(f"{name}-y", x, w, act="relu", timeout=60)
    wanted = client.conv2d(x, w, act="relu")
    assert (y.dtype, y.shape) == (np.float32, wanted.shape)
    assert np.array_equal(client.get(y), wanted)
    w2 = whole(rng, 2, 4, 2, 2)
    assert np.array_equal(client.conv2d(y, w2), client.conv2d(wanted, w2))
    most = client.reduce_store(f"{name}-most", y, "max", axis=1)
    assert np.array_equal(client.get(most), wanted.max(1))
    weights = client.softmax_store(f"{name}-weights", most, scale=0.5)
    assert np.array_equal(client.get(weights), client.softmax(wanted.max(1), scale=0.5))
    for tensor in (y, most, weights):
        client.delete(tensor)


def test_reduce_and_softmax(client, rng):
    x = rng.normal(size=(4, 6, 50)).astype(np.float32)
    np.testing.assert_allclose(client.reduce(x), x.sum(-1), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(client.reduce(x, "mean", axis=0, keepdims=True),
                               x.mean(0, keepdims=True), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(client.reduce(x, "argmax", axis=1), x.argmax(1))
    eights = np.full((3, 1000), -128, np.int8)
    np.testing.assert_array_equal(client.reduce(eights, out_dtype="f64"), [-128000.0] * 3)
    scaled = 0.5 * x
    expected = np.exp(scaled) / np.exp(scaled).sum(-1, keepdims=True)
    np.testing.assert_allclose(client.softmax(x, scale=0.5), expected, rtol=1e-5)
    np.testing.assert_allclose(client.softmax(x, scale=0.5, log=True), np.log(expected), rtol=1e-5)
    masked = client.softmax(x, lens=[50, 3, 0, 1])
    assert (masked[1, :, 3:] == 0).all() and (masked[2] == 0).all() and (masked[3, :, 0] == 1).all()


def test_attention(client, rng):
    q, k, v = (rng.standard_normal((2, heads, 5, 8)).astype(np.float32) for heads in (4, 2, 2))
    scores = q @ k.repeat(2, 1).swapaxes(-1, -2) / np.sqrt(np.float32(8))
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ v.repeat(2, 1)
    np.testing.assert_allclose(client.attention(q, k, v), expected, rtol=0, atol=1e-5)
    for k_part, v_part, says in (
            (k[:, :, :, :4], v, r"k has the shape \(2, 2, 5, 4\), and q has \(2, 4, 5, 8\).*: 2 and 8"),
            (k[:1], v, "k has the shape .*the same batch and head size: 2 and 8"),
            (k, v[:, :, :3], r"v has the shape \(2, 2, 3, 8\), and k has \(2, 2, 5, 8\).*: 2, 2 and 5"),
            (k, v[:, :1], "v has the shape .*heads and length: 2, 2 and 5")):
        with pytest.raises(ValueError, match=says):
            client.attention(q, k_part, v_part)


def test_conv2d(client, rng):
    x, w, bias = whole(rng, 2, 4, 6, 7), whole(rng, 6, 2, 3, 2), whole(rng, 6)
    problem = Conv2d(4, 6, 7, 6, 3, 2, batch=2, groups=2, stride=(2, 1), padding=(1, 0, 2, 0),
                     bias=True, act="relu")
    options = {"groups": 2, "stride": (2, 1), "padding": (1, 0, 2, 0), "bias": bias, "act": "relu"}
    y = client.conv2d(x, w, **options)
    assert y.shape == (2, 6, 3, 8)
    conv2d.assert_right(problem, (x, w, bias), y.tobytes())
    resident = client.put(f"filters-{client.transport}", w)
    assert np.array_equal(client.conv2d(x, resident, **options), y)
    client.delete(resident)
    turned = client.conv2d(x.transpose(0, 2, 3, 1), w.transpose(0, 2, 3, 1), layout="nhwc",
                           w_layout="krsc", **options)
    assert np.array_equal(turned.transpose(0, 3, 1, 2), y)
    assert client.conv2d(x, whole(rng, 3, 4, 3, 3), padding="same").shape == (2, 3, 6, 7)
    with pytest.raises(ValueError, match="filters of 2 channels"):
        client.conv2d(x, w)
    with pytest.raises(ValueError, match="bias"):
        client.conv2d(x, w, groups=2, bias=bias[:5])
    with pytest.raises(Malformed, match="covers 7 x 2"):
        client.conv2d(x, whole(rng, 6, 4, 7, 2))


def attend(q, k, v, causal=False, window=None, scale=None, softcap=0.0):
    """The attention of one entry in f64, and the logarithms of its sums."""
    k, v = (part.astype(np.float64).repeat(q.shape[1] // part.shape[1], 1) for part in (k, v))
    scores = q.astype(np.float64) @ k.swapaxes(-1, -2)
    scores *= 1 / np.sqrt(q.shape[-1]) if scale is None else scale
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    position = np.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
    key = np.arange(k.shape[2])[None, :]
    seen = np.ones(scores.shape[-2:], bool)
    if causal:
        seen &= key <= position
    if window is not None:
        seen &= key >= position - window
    scores = np.where(seen, scores, -np.inf)
    most = scores.max(-1, keepdims=True)
    weights = np.exp(scores - most)
    sums = weights.sum(-1, keepdims=True)
    return weights / sums @ v, (most + np.log(sums))[..., 0]


@pytest.mark.parametrize("options", [
    {}, {"causal": True}, {"causal": True, "window": 3}, {"scale": 0.25}, {"softcap": 2.0},
    {"kernel": "naive"}, {"priority": 7, "timeout": 60},
], ids=str)
def test_options_of_attention(client, rng, options):
    q, k, v = (rng.standard_normal((2, heads, rows, 16)).astype(np.float32)
               for heads, rows in ((4, 6), (2, 9), (2, 9)))
    wanted, wanted_sums = attend(q, k, v, **{name: value for name, value in options.items()
                                             if name in ("causal", "window", "scale", "softcap")})
    found, sums = client.attention(q, k, v, lse=True, **options)
    assert found.shape == (2, 4, 6, 16) and sums.shape == (2, 4, 6)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)
    np.testing.assert_allclose(sums, wanted_sums, rtol=0, atol=1e-5)
    assert np.array_equal(client.attention(q, k, v, **options), found)
    turned = [part.swapaxes(1, 2) for part in (q, k, v)]
    assert np.array_equal(client.attention(*turned, layout="bshd", **options).swapaxes(1, 2), found)


def test_attention_with_a_mask(client, rng):
    q, k, v = (rng.standard_normal((2, heads, rows, 8)).astype(np.float32)
               for heads, rows in ((4, 5), (2, 7), (2, 7)))
    plain = client.attention(q, k, v)
    top_left = np.tri(5, 7, dtype=bool)
    wanted = client.attention(q, k, v, causal=True, offset=0)
    assert not np.array_equal(wanted, plain)
    added = np.where(top_left, np.float32(0), np.float32(-np.inf))
    for mask in (top_left, top_left.astype(np.int8), added, added[None, None],
                 np.broadcast_to(added, (2, 4, 5, 7)), np.broadcast_to(added, (2, 1, 5, 7))):
        assert np.array_equal(client.attention(q, k, v, mask=mask), wanted)
    assert np.array_equal(client.attention_job(q, k, v, mask=top_left).result(), wanted)
    with pytest.raises(ValueError, match="the mask has the shape"):
        client.attention(q, k, v, mask=top_left.T)
    with pytest.raises(TypeError, match="the mask has the type"):
        client.attention(q, k, v, mask=top_left.astype(np.float16))


def test_attention_of_entries_with_lengths(client, rng):
    q, k, v = (rng.standard_normal((2, 2, rows, 8)).astype(np.float16) for rows in (5, 7, 7))
    found = client.attention(q, k, v, lens_q=[2, 5], lens_kv=np.array([3, 7]))
    first, _ = attend(q[:1, :, :2], k[:1, :, :3], v[:1, :, :3])
    np.testing.assert_allclose(found[:1, :, :2].astype(np.float64), first, rtol=0, atol=1e-3)
    assert not found[0, :, 2:].any() and found[1, :, 4].any()
    for one, both in (({"lens_q": [2, 5]}, {"lens_kv": [7, 7]}), ({"lens_kv": [3, 7]}, {"lens_q": [5, 5]})):
        assert np.array_equal(client.attention(q, k, v, **one), client.attention(q, k, v, **one, **both))
    for wrong in ({"lens_q": [2], "lens_kv": [3]},
                  {"lens_q": [2, 6], "lens_kv": [3, 7]}, {"lens_q": [0.5, 1], "lens_kv": [3, 7]}):
        with pytest.raises(ValueError, match="lens_"):
            client.attention(q, k, v, **wrong)


def test_attention_with_slopes_and_sinks(client, rng):
    q, k, v = (rng.standard_normal((2, heads, rows, 8)).astype(np.float32)
               for heads, rows in ((4, 5), (2, 7), (2, 7)))
    slopes = np.array([0, 0.25, 0.5, 1], np.float32)
    bias = -slopes[:, None, None] * np.abs(np.arange(7) - np.arange(5)[:, None] - 2).astype(np.float32)
    found = client.attention(q, k, v, slopes=slopes)
    np.testing.assert_allclose(found, client.attention(q, k, v, mask=bias), rtol=1e-5, atol=1e-6)
    assert np.array_equal(client.attention_job(q, k, v, slopes=slopes).result(), found)
    sinks = np.array([-np.inf, -1, 0, 3], np.float32)
    sunk, sums = client.attention(q, k, v, sinks=sinks, lse=True)
    plain, without = client.attention(q, k, v, lse=True)
    np.testing.assert_allclose(sums, np.logaddexp(without, sinks[:, None]), rtol=1e-5)
    np.testing.assert_allclose(sunk, plain * np.exp(without - sums)[..., None], rtol=1e-4, atol=1e-6)
    for wrong in ({"slopes": slopes[:3]}, {"sinks": slopes[None]}):
        with pytest.raises(ValueError, match="a number for each head"):
            client.attention(q, k, v, **wrong)


def test_attention_of_ragged_entries(client, rng):
    q, k, v = (rng.standard_normal((1, 2, rows, 8)).astype(np.float16) for rows in (9, 12, 12))
    starts = {"lens_q": [0, 4, 4, 9], "lens_kv": np.array([0, 6, 7, 12])}
    found, sums = client.attention(q, k, v, ragged=True, window_right=1, lse=True, **starts)
    assert found.shape == q.shape and sums.shape == (1, 2, 9)
    for queries, keys in ((slice(0, 4), slice(0, 6)), (slice(4, 9), slice(7, 12))):
        alone, its = client.attention(q[:, :, queries], k[:, :, keys], v[:, :, keys], window_right=1, lse=True)
        assert np.array_equal(found[:, :, queries], alone) and np.array_equal(sums[:, :, queries], its)
    assert np.array_equal(client.attention_job(q, k, v, ragged=True, window_right=1, **starts).result(), found)
    for wrong in ({}, {"lens_q": [0, 9], "lens_kv": [0, 13]}, {"lens_q": [1, 9], "lens_kv": [0, 12]},
                  {"lens_q": [0, 5, 4, 9], "lens_kv": [0, 6, 7, 12]}, {**starts, "mask": np.ones((9, 12), bool)}):
        with pytest.raises(ValueError, match="ragged|lens_"):
            client.attention(q, k, v, ragged=True, **wrong)


def test_attention_with_resident_keys(client, rng):
    q, k, v = (rng.standard_normal((1, 2, rows, 8)).astype(np.float32) for rows in (5, 7, 7))
    wanted = client.attention(q, k, v)
    keys = client.put(f"keys-{client.transport}", k)
    values = client.put(f"values-{client.transport}", v)
    for pair in ((keys, values), (k, values), (keys, v)):
        assert np.array_equal(client.attention(q, *pair), wanted)
    job = client.attention_job(q, keys, values)
    assert np.array_equal(job.result(), wanted)
    assert job.status().op == "attention"
    assert (client.jobs()[0].id, client.jobs()[0].op) == (None, "attention"), "ids are secrets without tokens"
    client.job(job.id).cancel()
    for tensor in (keys, values):
        client.delete(tensor)
    with pytest.raises(NotFound):
        client.attention(q, keys, values)
    with pytest.raises(TypeError, match="v has the type float64, which together are float64; the daemon does"):
        client.attention(q, k, v.astype(np.float64))
    with pytest.raises(TypeError, match="^q and k and v have the type float64; the daemon does this with float32, "):
        client.attention(*(array.astype(np.float64) for array in (q, k, v)))
    with pytest.raises(ValueError, match="v has 3 dimensions"):
        client.attention(q, k, v[0])


def test_a_product_that_stays(client, rng):
    a, b = whole(rng, 3, 4), whole(rng, 4, 5)
    stored = client.gemm_store(f"stays-{client.transport}", a, b, act="relu")
    assert stored.shape == (3, 5) and stored.dtype == np.float32
    assert np.array_equal(client.get(stored), np.maximum(a @ b, 0))
    assert np.array_equal(client.gemm(b, client.gemm_store(stored.name, b.T, a.T)),
                          b @ (a @ b).T)
    client.delete(stored)


@pytest.mark.slow
def test_operands_in_a_file(client, tmp_path, rng):
    """The operand is read from the file while it is sent, and is not copied first."""
    rows = np.lib.format.open_memmap(tmp_path / "rows.npy", "w+", np.float32, (40000, 1000))
    rows[:] = 1
    rows[123] = 2
    rows.flush()
    del rows
    column = np.ones((1000, 1), np.float32)
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    tracemalloc.start()
    product = client.gemm(rows, column)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < rows.nbytes / 10
    assert product[0] == 1000 and product[123] == 2000


def test_an_array_of_another_library(client, rng):
    class Other:
        def __init__(self, array):
            self.array = array
            self.__dlpack__ = array.__dlpack__
            self.__dlpack_device__ = array.__dlpack_device__

    a, b = whole(rng, 3, 4), whole(rng, 4, 5)
    assert np.array_equal(client.gemm(Other(a), b), a @ b)


WITH_JAX = """
import sys
import jax
import numpy as np
from gemmd_client import Client

client = Client(sys.argv[1], transport=sys.argv[2])
for dtype in ("float32", "bfloat16", "int8"):
    a = jax.numpy.arange(12, dtype=dtype).reshape(3, 4)
    b = jax.numpy.ones((4, 5), dtype)
    tensor = client.put("of-jax", b)
    for right in (b, tensor):
        product = client.gemm(a, right)
        assert isinstance(product, jax.Array), type(product)
        assert product.dtype == ("int32" if dtype == "int8" else dtype)
        assert np.array_equal(np.asarray(product, np.float64), np.asarray(a, np.float64) @ np.ones((4, 5)))
    assert isinstance(client.gemm(np.asarray(a), b), np.ndarray)
client.delete(tensor)
"""


def test_arrays_of_jax(url, transport):
    """In a process of its own: JAX starts threads, and other tests fork."""
    if importlib.util.find_spec("jax") is None:
        pytest.skip("JAX is not installed")
    done = subprocess.run([sys.executable, "-c", WITH_JAX, url, transport], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(CLIENT)}, timeout=4 * PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_arrays_of_torch(client, dtype):
    torch = pytest.importorskip("torch")
    a = torch.arange(12).reshape(3, 4).to(getattr(torch, dtype))
    b = torch.ones((5, 4), dtype=a.dtype)
    product = client.gemm(a, b.T)
    assert isinstance(product, torch.Tensor)
    assert product.dtype == (torch.int32 if dtype == "int8" else a.dtype)
    assert torch.equal(product.double(), a.double() @ b.T.double())


def test_threads_share_a_client(client, rng):
    b = whole(rng, 16, 8)
    wrong = []

    def multiply(seed):
        random = np.random.default_rng(seed)
        for _ in range(10):
            a = whole(random, 4, 16)
            if not np.array_equal(client.gemm(a, b), a @ b):
                wrong.append(seed)

    threads = [threading.Thread(target=multiply, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_forked_process_goes_on(client, rng):
    a, b = whole(rng, 3, 4), whole(rng, 4, 5)
    client.gemm(a, b)
    client.info()
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(
        target=lambda: answers.put((client.gemm(a, b), client.info()["version"])))
    child.start()
    product, version = answers.get(timeout=60)
    child.join(60)
    assert np.array_equal(product, a @ b) and version == client.info()["version"]
    assert np.array_equal(client.gemm(a, b), a @ b)


def test_unix_socket(start, tmp_path, transport, rng):
    path = f"unix:{tmp_path}/gemmd.sock"
    start(listen=(path,))
    a, b = whole(rng, 300, 300), whole(rng, 300, 300)
    with Client(path, transport=transport) as client:
        assert np.array_equal(client.gemm(a, b), a @ b)
        assert client.info()["version"]


def test_tokens(start, tmp_path, transport):
    tokens = tmp_path / "tokens"
    tokens.write_text("secret-of-the-client\n")
    daemon = start("--token-file", tokens)
    one = np.ones((1, 1), np.float32)
    with Client(daemon.url, token="secret-of-the-client", transport=transport) as client:
        assert client.gemm(one, one) == 1
        jobs = [client.gemm_job(one, one) for _ in range(3)]
        assert [listed.id for listed in client.jobs()] == [job.id for job in reversed(jobs)]
        assert jobs[-1].result() == 1  # a job that has ended is deleted; another stays, cancelled
        client.job(client.jobs()[0].id).cancel()
        assert [listed.id for listed in client.jobs()] == [jobs[1].id, jobs[0].id]
    with Client(daemon.url, token="wrong", transport=transport) as client:
        with pytest.raises(Unauthorized) as caught:
            client.gemm(one, one)
    assert caught.value.status == 401 and caught.value.request_id


def test_a_daemon_that_dies(start, transport):
    daemon = start()
    big = np.ones((3000, 3000), np.float64)
    with Client(daemon.url, transport=transport, retries=1) as client:
        client.gemm(np.ones((1, 1)), np.ones((1, 1)))
        killer = threading.Timer(0.1, daemon.process.kill)
        killer.start()
        with pytest.raises(ConnectionFailed):
            for _ in range(1000):
                client.gemm(big, big)
        killer.join()
        daemon.process.wait()
        with pytest.raises(ConnectionFailed):
            client.gemm(big, big)


def test_errors_of_the_daemon(start, transport):
    daemon = start("--tensor-bytes", "1MiB")
    with Client(daemon.url, transport=transport) as client:
        with pytest.raises(NoRoom) as caught:
            client.put("W", np.zeros((1024, 1024), np.float32))
        assert caught.value.code == "no-room" and caught.value.status == 507
        with pytest.raises(TimeoutError):
            client.gemm(np.ones((3000, 3000)), np.ones((3000, 3000)), timeout=0.001)


def test_bad_addresses():
    for wrong in ("ftp://host:1", "http://", ""):
        if wrong:
            with pytest.raises(ValueError, match="is not an address"):
                Client(wrong, transport="http")
    with pytest.raises(ConnectionFailed):
        Client("http://127.0.0.1:1", transport="http", retries=0).info()


@pytest.mark.parametrize("dtype, scales", [("f8_e4m3", "rowcol"), ("f8_e4m3", "block"),
                                           ("i8", "rowcol")])
@pytest.mark.parametrize("turned", [False, True])
def test_scales(client, rng, dtype, scales, turned):
    """Scales have the shapes of the matrices as they are passed, however these lie in memory."""
    problem = ScaledProblem(5, 260, 300, dtype=dtype, out="f32", scales=scales)
    scaled = exact_scaled(problem, rng)
    a, b = scaled.operands.a[0], scaled.operands.b[0]
    if turned:
        a, b = np.asfortranarray(a), np.asfortranarray(b)
    options = {"scales": scales, "out_dtype": "f32", "a_scale": scaled.a_scale[0]}
    got = client.gemm(a, b, b_scale=scaled.b_scale[0], **options)
    assert np.array_equal(got, truth(problem, scaled)[0][0])
    weight = client.put("scaled", scaled.operands.b[0], scale=scaled.b_scale[0])
    try:
        assert np.array_equal(client.gemm(a, weight, **options), got)
        tensor, scale = client.get_scaled(weight)
        again = client.put("scaled", tensor, scale=scale)
        assert again.etag == weight.etag
        client.put("scaled", tensor)
        assert client.get_scaled("scaled")[1] is None
    finally:
        client.delete(weight)
    with pytest.raises(ValueError, match="b_scale is missing"):
        client.gemm(a, b, **options)
    with pytest.raises(ValueError, match="a_scale has the shape"):
        client.gemm(a, b, b_scale=scaled.b_scale[0], **options | {"a_scale": np.ones((3, 7), "f4")})
