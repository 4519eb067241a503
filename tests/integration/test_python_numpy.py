"""NumPy's manners in the Python client: axes, names, types, arrays that are filled, and sums of products."""

import warnings

import ml_dtypes
import numpy as np
import pytest

from test_python_client import client, transport, whole  # noqa: F401 (fixtures)

from gemmd_client import Client
from gemmd_client.errors import NotFound, Unsupported
from gemmd_client.results import Result

BF16, F8 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
NUMPY_REDUCES = {"sum": np.sum, "max": np.max, "amax": np.amax, "min": np.min, "amin": np.amin, "mean": np.mean,
                 "prod": np.prod}


@pytest.fixture
def plain(url):
    with Client(url, transport="http") as made:
        yield made


@pytest.fixture
def resident(plain):
    """Puts tensors that are deleted in the end."""
    kept = []

    def put(array):
        kept.append(plain.put(f"numpy-{len(kept)}", array))
        return kept[-1]

    yield put
    for tensor in kept:
        plain.delete(tensor)


def same(found, wanted):
    """Whether an array is NumPy's, bit for bit."""
    wanted = np.asarray(wanted)
    assert type(found) is np.ndarray
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("axis", [None, 0, 1, -1, -3, (0,), (0, 1), (1, 2), (0, 2), (-1, 0), (0, 1, 2), ()], ids=str)
@pytest.mark.parametrize("keepdims", [False, True])
def test_axes_of_reductions(plain, rng, axis, keepdims):
    x = whole(rng, 4, 3, 2)
    for op, numpy in NUMPY_REDUCES.items():
        if op == "mean" and axis in (1, (0, 1), (1, 2), (0, 1, 2), None):
            continue  # not exact: a number of elements that is no power of two
        same(plain.reduce(x, op, axis=axis, keepdims=keepdims), numpy(x, axis=axis, keepdims=keepdims))
    largest = np.max(np.abs(x), axis=axis, keepdims=keepdims)
    norm = plain.reduce(x, "norm2", axis=axis, keepdims=keepdims)
    assert norm.shape == largest.shape and (norm >= largest * (1 - 2**-20)).all()
    if axis is None or isinstance(axis, int):
        for op, numpy in (("argmax", np.argmax), ("argmin", np.argmin)):
            same(plain.reduce(x, op, axis=axis, keepdims=keepdims),
                 numpy(x, axis=axis, keepdims=keepdims).astype(np.int32))


def test_arrays_of_many_dimensions_and_of_none(plain, rng):
    x = whole(rng, 2, 1, 2, 1, 3, 2, 1, 2, 2, 2)
    for axis in (None, 0, 4, -1, (2, 5), (0, 9), ()):
        for keepdims in (False, True):
            same(plain.reduce(x, axis=axis, keepdims=keepdims), x.sum(axis, keepdims=keepdims))
    assert plain.softmax(x, axis=4).shape == x.shape
    for axis in (None, 0, -1, ()):
        same(plain.reduce(np.float32(3), axis=axis), np.float32(3))
    same(plain.softmax(np.float32(3)), np.float32(1))
    same(plain.gemm(x.reshape(-1), x.reshape(-1)), np.float32((x * x).sum()))
    same(plain.reduce_job(x, "max", axis=(0, 3)).result(), x.max((0, 3)))
    same(plain.reduce_job(x.reshape(-1)).result(), x.sum())


def test_views_are_reduced_as_they_look(plain, rng):
    x = whole(rng, 4, 6)
    for view in (np.asfortranarray(x), x[::2, ::-1], x.T, np.broadcast_to(x[0], (5, 6))):
        for axis in (None, 0, 1):
            same(plain.reduce(view, axis=axis), view.sum(axis))
            same(plain.reduce(view, "argmax", axis=axis), view.argmax(axis).astype(np.int32))


@pytest.mark.parametrize("shape, axis", [((0,), 0), ((0,), None), ((3, 0), 1), ((3, 0), 0), ((0, 0), None)])
def test_empty_arrays(plain, shape, axis):
    x = np.ones(shape, np.float32)
    same(plain.reduce(x, axis=axis), x.sum(axis))
    same(plain.reduce(x, "norm2", axis=axis), np.sqrt((x * x).sum(axis)))
    same(plain.reduce(x, "prod", axis=axis), x.prod(axis))
    assert plain.softmax(x, axis=axis).shape == shape
    total = x.sum(axis)
    with np.errstate(all="ignore"):
        same(plain.reduce(x, "mean", axis=axis), total / np.float32(0))
    if total.size:
        with pytest.raises(ValueError, match="not defined where there are no elements"):
            plain.reduce(x, "max", axis=axis)
    else:
        same(plain.reduce(x, "max", axis=axis), total)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, BF16, np.int8, np.uint16, np.int64, bool])
@pytest.mark.parametrize("axis, ddof", [(None, 0), (1, 1), ((0, 2), 0.5)], ids=str)
def test_deviations(plain, rng, resident, dtype, axis, ddof):
    """A mean that is far from 0 does not spoil them."""
    x = (3 * rng.normal(size=(6, 40, 5)) + 70).astype(dtype)
    exact = x.astype(np.longdouble)
    unit = 2.0**-53 if dtype in (np.float64, np.int8, np.uint16, np.int64, bool) else 2.0**-24
    bound = (np.ceil(np.log2(x.size)) + 8) * unit * (exact.std(axis, ddof=ddof) + np.abs(exact).mean(axis))
    forms = [x] if dtype in (np.uint16, np.int64, bool) else [x, resident(x)]
    for form in forms:
        for op, error in (("std", bound), ("var", 2 * bound * (exact.std(axis, ddof=ddof) + bound))):
            wanted = getattr(exact, op)(axis, ddof=ddof)
            found = plain.reduce(form, op, axis=axis, ddof=ddof)
            final = np.dtype(np.float64 if unit == 2.0**-53 else dtype)
            assert (found.shape, found.dtype) == (wanted.shape, final)
            rounding = float(ml_dtypes.finfo(final).eps)
            assert (np.abs(found.astype(np.longdouble) - wanted) <= error + rounding * wanted).all(), op
    kept = plain.reduce(x, "std", axis=axis, keepdims=True)
    assert kept.shape == exact.sum(axis, keepdims=True).shape


def test_types_of_deviations_and_products(plain):
    x = np.array([[1, 2], [3, 6]], np.float16)
    assert plain.reduce(x, "var", axis=None, out_dtype="f32").dtype == np.float32
    assert plain.reduce(x, "std", axis=None).dtype == np.float16
    same(plain.reduce(x.astype(BF16), "prod", axis=0), np.array([3, 12], BF16))
    same(plain.reduce(x.astype(np.int8), "prod", axis=0, out_dtype="f32"), np.array([3, 12], np.float32))
    same(plain.reduce([[2, 3], [5, 7]], "prod", axis=None), np.int64(210))
    with pytest.raises(ValueError, match="ddof is 1; it belongs to std and var"):
        plain.reduce(x, "mean", ddof=1)


def test_indices_of_the_least(plain, resident):
    for x in (np.array([3, -128, 127, -128], np.int8), np.array([3, -2**31, 5], np.int32),
              np.array([3, 0, 255, 0], np.uint8), np.array([2**40, -2**40, 7]), np.array([1, 0, -np.inf, np.inf], BF16),
              np.array([2, np.nan, 1, np.nan], np.float32), np.array([0.0, -0.0]), np.array([True, False])):
        same(plain.reduce(x, "argmin"), np.int32(np.argmin(x.astype(np.float32) if x.dtype == BF16 else x)))
        if x.dtype not in (np.uint8, np.int64, np.bool_):
            assert plain.reduce(resident(x), "argmin") == plain.reduce(x, "argmin")
    x = np.array([[3, 1], [0, 2]], np.float32)
    same(plain.reduce_job(x, "argmin", axis=0).result(), np.array([1, 0], np.int32))


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
                                   np.bool_])
def test_whole_numbers_are_reduced_as_numpy_does(plain, dtype):
    ends = (0, 1) if dtype == np.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    x = np.array([[max(ends[0], -2**40), min(ends[1], 2**50), 1], [0, 1, 0]], dtype)
    for axis in (None, 0, 1):
        for op in ("sum", "max", "min", "prod", "mean"):
            same(plain.reduce(x, op, axis=axis), NUMPY_REDUCES[op](x, axis=axis))
        same(plain.reduce(x, "argmax", axis=axis), x.argmax(axis).astype(np.int32))
    assert plain.reduce(x, "norm2", axis=None).dtype == np.float64
    job = plain.reduce_job(x, "sum", axis=None)
    same(job.result(), x.sum())


def test_sums_of_whole_numbers_beyond_f64(plain, resident):
    most = np.full(2**23, 2**31 - 1, np.int32)
    with pytest.raises(OverflowError, match="out_dtype='f64'"):
        plain.reduce(most)
    assert plain.reduce(most, out_dtype="f64") == float(2**31 - 1) * 2**23
    for x in ([2**53 + 1], [2**52, 2**52, 1]):
        with pytest.raises(OverflowError, match=r"astype\(float64\)"):
            plain.reduce(x)
    with pytest.raises(OverflowError, match="a number beyond 2"):
        plain.reduce(np.array([2**64 - 1], np.uint64), "max")
    eights = np.full(2**17, -128, np.int8)
    for x in (eights, resident(eights)):
        same(plain.reduce(x), np.int64(-2**24))
        same(plain.reduce(x, out_dtype="i32"), np.int32(-2**24))


def test_resident_tensors_are_reduced(plain, rng, resident):
    x = whole(rng, 4, 3, 2)
    held = resident(x)
    for axis in (None, 0, -1, (0, 1), (0, 2)):
        for op in ("sum", "max", "prod"):
            same(plain.reduce(held, op, axis=axis, keepdims=True), NUMPY_REDUCES[op](x, axis=axis, keepdims=True))
    stays = plain.reduce_store("numpy-stays", held, "max", axis=(0, 2), keepdims=True)
    assert stays.shape == (1, 3, 1)
    same(plain.get(stays), x.max((0, 2), keepdims=True))
    assert plain.reduce_store("numpy-stays", x.astype(np.int8)).dtype == np.int32
    assert plain.reduce_store("numpy-stays", x, axis=None).shape == (1,)
    plain.delete(stays)
    same(plain.softmax(held), plain.softmax(x))
    for store in (plain.reduce_store, plain.softmax_store):
        with pytest.raises(Unsupported, match="f64"):
            store("numpy-stays", [2**40], out_dtype="f32")
    for call in (lambda: plain.softmax(held, axis=0), lambda: plain.softmax_store("numpy-stays", x, axis=None)):
        with pytest.raises(ValueError, match="over the last dimension"):
            call()


@pytest.mark.parametrize("axis, kind, sentence", [
    (3, IndexError, "axis 3 is out of bounds for array of dimension 3"), (-4, ValueError, "out of bounds"),
    ((0, 0), ValueError, "names a dimension twice"), ((0, -3), ValueError, "names a dimension twice"),
    (1.0, TypeError, "interpreted as an integer"), ("x", TypeError, "interpreted as an integer")], ids=str)
def test_axes_that_are_none(plain, axis, kind, sentence):
    x = np.ones((2, 3, 4), np.float32)
    for call in (lambda: plain.reduce(x, axis=axis), lambda: plain.softmax(x, axis=axis),
                 lambda: plain.reduce(x, "std", axis=axis), lambda: plain.reduce(x, "prod", axis=axis),
                 lambda: plain.reduce_job(x, axis=axis)):
        with pytest.raises(kind, match=sentence):
            call()
    with pytest.raises(TypeError, match="argmax takes one axis"):
        plain.reduce(x, "argmax", axis=(0, 1))
    with pytest.raises(ValueError, match="std is made of several requests"):
        plain.reduce_job(x, "std")


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 1), (0, 2), (0, 1, 2)], ids=str)
def test_axes_of_softmax(plain, rng, axis):
    x = rng.normal(size=(4, 3, 5))
    weights = np.exp(x - x.max(axis, keepdims=True))
    wanted = weights / weights.sum(axis, keepdims=True)
    np.testing.assert_allclose(plain.softmax(x, axis=axis), wanted, rtol=1e-13)
    np.testing.assert_allclose(plain.softmax(x, axis=axis, log=True), np.log(wanted), rtol=1e-13)
    np.testing.assert_array_equal(plain.softmax_job(x, axis=axis).result(), plain.softmax(x, axis=axis))


def test_softmax_of_lengths_and_whole_numbers(plain):
    x = np.zeros((2, 4, 3), np.float32)
    found = plain.softmax(x, axis=1, lens=[1, 2])
    assert (found[0, 0] == 1).all() and (found[1, :2] == 0.5).all() and not found[1, 2:].any()
    with pytest.raises(ValueError, match="with lens it is one dimension"):
        plain.softmax(x, axis=None, lens=[1])
    found = plain.softmax([[0, 0], [5, 5]])
    assert found.dtype == np.float64 and (found == 0.5).all()
    assert plain.softmax(np.zeros(2, np.uint8), out_dtype="f32").dtype == np.float32


def test_arrays_that_are_filled(client, rng):
    a, b = whole(rng, 6, 4), whole(rng, 4, 5)
    for out in (np.empty((6, 5), np.float32), np.empty((6, 5)), np.empty((5, 6), np.float32).T,
                np.empty((12, 5), np.float32)[::2], np.empty((6, 5), np.float16)):
        assert client.gemm(a, b, out=out) is out
        assert np.array_equal(out, a @ b)
    square = whole(rng, 5, 5)
    wanted = square @ square
    assert client.gemm(square, square, out=square) is square and np.array_equal(square, wanted)
    wanted = square @ square
    client.matmul(square, square[:, ::-1], out=square[:, ::-1])
    assert np.array_equal(square, wanted)
    filled = np.empty((6, 5), np.float32)
    job = client.gemm_job(a, b, out=filled)
    assert job.result() is filled and np.array_equal(filled, a @ b)
    nothing = np.empty((2, 3), np.float32)
    assert client.gemm(np.ones((2, 0), np.float32), np.ones((0, 3), np.float32), out=nothing) is nothing
    assert not nothing.any()
    assert client.gemm(a.astype(BF16), b.astype(BF16), out=filled, out_dtype="f32") is filled
    assert np.array_equal(filled, a @ b)


def test_an_operand_is_not_overwritten_while_it_may_be_sent_again():
    a, b = np.ones((4, 4), np.float32), np.ones((4, 4), np.float32)
    result = Result((4, 4), a.dtype, a, b)
    assert result.room((4, 4), a.dtype, [b]) is a
    assert not np.may_share_memory(result.room((4, 4), a.dtype, [a[2:], b]), a)


def test_arrays_that_other_operations_fill(plain, rng):
    x, w = whole(rng, 2, 3, 5, 5), whole(rng, 4, 3, 3, 3)
    for call, wanted in (
            (lambda out: plain.reduce(x, "max", axis=(0, 2), out=out), x.max((0, 2))),
            (lambda out: plain.reduce(x, axis=None, out=out), x.sum()),
            (lambda out: plain.reduce(x, "std", axis=1, out=out), plain.reduce(x, "std", axis=1)),
            (lambda out: plain.reduce(x, "prod", axis=1, out=out), x.prod(1)),
            (lambda out: plain.softmax(x, axis=1, out=out), plain.softmax(x, axis=1)),
            (lambda out: plain.conv2d(x, w, out=out), plain.conv2d(x, w)),
            (lambda out: plain.einsum("bchw,kc->kbhw", x, w[:, :, 0, 0], out=out),
             np.einsum("bchw,kc->kbhw", x, w[:, :, 0, 0]))):
        out = np.empty(np.shape(wanted), np.float32)
        assert call(out) is out
        assert np.array_equal(out, wanted)
        with pytest.raises(ValueError, match="out has the shape"):
            call(np.empty((*np.shape(wanted), 2), np.float32))
        with pytest.raises(TypeError, match="out has the type int32"):
            call(np.empty(np.shape(wanted), np.int32))


def test_what_cannot_be_filled(client):
    a, out = np.ones((2, 2), np.float32), np.zeros((2, 2), np.float32)
    with pytest.raises(ValueError, match=r"out has the shape \(2, 3\); the result has \(2, 2\)"):
        client.gemm(a, a, out=np.empty((2, 3), np.float32))
    with pytest.raises(TypeError, match="does not convert a result of float32"):
        client.gemm(a, a, out=np.empty((2, 2), np.int32))
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        client.gemm(a, a, out=out)
    assert not out.any()
    with pytest.raises(TypeError, match="masked array"):
        client.gemm(a, a, out=np.ma.zeros((2, 2), np.float32))
    with pytest.raises(TypeError, match="stays on the daemon's device"):
        client.gemm_store("numpy-out", a, a, out=np.empty((2, 2), np.float32))
    with pytest.raises(NotFound):
        client.get("numpy-out")

    class Foreign:
        __dlpack__ = None

    with pytest.raises(TypeError, match="only arrays of NumPy are filled"):
        client.gemm(a, a, out=Foreign())


def test_types_in_out_are_deprecated(client):
    a = np.ones((2, 2), np.float32)
    for out in ("f16", np.float16, np.dtype(np.float16)):
        with pytest.warns(DeprecationWarning, match="out_dtype") as warned:
            assert client.gemm(a, a, out=out).dtype == np.float16
        assert [each.filename for each in warned] == [__file__]
    for call in (lambda: client.reduce(a, out="f32"), lambda: client.reduce(a, "std", out="f32"),
                 lambda: client.softmax(a, out="f32"), lambda: client.gemm_job(a, a, out="f32").result(),
                 lambda: client.conv2d(a[None, None], a[None, None], out="f32")):
        with pytest.warns(DeprecationWarning) as warned:
            assert call().dtype == np.float32
        assert [each.filename for each in warned] == [__file__]
    with pytest.raises(TypeError, match="out_dtype is given too"):
        client.gemm(a, a, out="f16", out_dtype="f16")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert client.gemm(a, a, out_dtype=np.float16).dtype == np.float16


@pytest.mark.parametrize("left, right", [(np.float32, np.float64), (np.float16, np.float32), (BF16, np.float32),
                                         (np.int8, np.float32), (np.int64, np.float32), (np.uint8, np.float16),
                                         (np.int32, np.float64), (F8, np.float32), (np.int8, BF16)])
def test_operands_of_two_types(client, rng, left, right):
    a, b = (rng.integers(0, 4, shape).astype(dtype) for shape, dtype in (((3, 4), left), ((4, 5), right)))
    common = np.result_type(left, right)
    wanted = (a.astype(np.float64) @ b.astype(np.float64)).astype(common)
    same(client.gemm(a, b), wanted)
    same(client.gemm(b.T, a.T), wanted.T)
    same(client.gemm_job(a, b).result(), wanted)


def test_added_arrays_of_another_type(client, rng):
    a, b, bias, c = whole(rng, 3, 4), whole(rng, 4, 5), whole(rng, 5), whole(rng, 3, 5)
    for dtype in (np.float64, np.float16, np.int8, np.int64, np.float32):
        wanted = (a @ b + bias.astype(dtype)).astype(np.result_type(np.float32, dtype))
        same(client.gemm(a, b, bias=bias.astype(dtype)), wanted)
        same(client.gemm(a, b, beta=1, c=c.astype(dtype)), (a @ b + c).astype(wanted.dtype))
    same(client.gemm(a, b, bias=list(map(int, bias))), a @ b + bias.astype(np.float64))
    same(client.gemm(a, b, bias=bias.astype(np.float64), out_dtype="f32"), a @ b + bias)
    for half in (np.float16, BF16):
        same(client.gemm(a.astype(half), b.astype(half), bias=bias), a @ b + bias)
    eights = (a.astype(np.int8), b.astype(np.int8))
    same(client.gemm(*eights, bias=[1, 2, 3, 4, 5]), (a @ b).astype(np.int32) + np.int32([1, 2, 3, 4, 5]))
    with pytest.raises(TypeError, match="bias has the type float32, which NumPy does not convert to .* int32"):
        client.gemm(*eights, bias=bias, out_dtype="i32")
    with pytest.raises(TypeError, match="no common one"):
        client.gemm(a.astype(BF16), b.astype(BF16), bias=bias.astype(np.float16))
    x, w = whole(rng, 1, 2, 4, 4), whole(rng, 3, 2, 3, 3)
    found = client.conv2d(x.astype(np.float16), w, bias=[1, 2, 3], out_dtype="f32")
    assert found.dtype == np.float32 and np.array_equal(found, client.conv2d(x, w, bias=np.float32([1, 2, 3])))
    with pytest.raises(TypeError, match="the convolution has the type float32 and bias has the type float64"):
        client.conv2d(x, w, bias=bias[:3].astype(np.float64))


def test_types_without_a_common_one(client, resident):
    ones = np.ones((2, 2))
    for left, right in ((np.float16, BF16), (F8, np.int8), (F8, BF16), (np.int64, BF16)):
        with pytest.raises(TypeError, match="a has the type .* and b has the type .* no common one; convert"):
            client.gemm(ones.astype(left), ones.astype(right))
    held = resident(ones.astype(np.float32))
    same(client.gemm(ones.astype(np.float16), held), 2 * ones.astype(np.float32))
    with pytest.raises(TypeError, match=r"cannot be converted: convert the other operands with astype\(\) to float32"):
        client.gemm(ones, held)
    with pytest.raises(TypeError, match="cannot be converted"):
        client.gemm(ones.astype(np.float32), held, bias=ones[0])
    four = np.ones((1, 2, 3, 4), np.float32)
    same(client.attention(four, four.astype(np.float16), four), client.attention(four, four, four))
    with pytest.raises(TypeError, match="q has the type int64.* one of float32, float16, bfloat16$"):
        client.attention(np.ones((1, 2, 3, 4), int), four, four)
    with pytest.raises(TypeError, match="x has the type int16.* one of float32, float16, bfloat16, int8$"):
        client.conv2d(np.ones((1, 2, 3, 4), np.int16), four)
    with pytest.raises(TypeError, match="a has the type complex128.* float8_e4m3fn, int8$"):
        client.gemm(ones.astype(complex), ones)


@pytest.mark.parametrize("left", [np.int8, np.int32, np.int64, np.uint8, np.uint16, np.uint64])
@pytest.mark.parametrize("right", [np.int16, np.int32, np.int64, np.uint8])
def test_products_of_whole_numbers_are_those_of_numpy(client, rng, left, right):
    for least, most in ((0, 100), (0, 255), (-100, 1), (-30000, 30000)):
        a, b = (rng.integers(max(least, np.iinfo(dtype).min), min(most, np.iinfo(dtype).max), shape).astype(dtype)
                for shape, dtype in (((3, 4), left), ((4, 5), right)))
        if np.result_type(left, right).kind == "f":  # int64 and uint64
            np.testing.assert_allclose(client.gemm(a, b), a.astype(float) @ b.astype(float), rtol=1e-15)
        else:
            same(client.gemm(a, b), a @ b)


def test_lists(client):
    same(client.gemm([[1, 2]], [[3], [4]]), np.array([[11]]))
    same(client.gemm([[0.5, 2]], [[3], [4]]), np.array([[9.5]]))
    same(client.gemm([1, 2], [3, 4]), np.int64(11))
    same(client.gemm([[2**26]], [[2**26]]), np.array([[2**52]]))
    same(client.gemm_job([[1, 2]], [[3], [4]]).result(), np.array([[11]]))
    for a, b in (([[2**27]], [[2**27]]), ([[2**53, 1]], [[1], [1]])):
        with pytest.raises(OverflowError, match="beyond 2.53"):
            client.gemm(a, b)
    least = np.full((1, 2**17), -128)  # i32 does not have the sum
    same(client.gemm(least, least.T), np.array([[2**31]]))
    for options in ({"alpha": 2}, {"bias": [1]}, {"act": "relu"}, {"beta": 1, "c": [[1]]}):
        with pytest.raises(TypeError, match="convert a and b"):
            client.gemm([[1]], [[2]], **options)
    with pytest.raises(TypeError, match="which no resident tensor has"):
        client.gemm_store("numpy-whole", [[1]], [[2]])
    stays = client.gemm_store("numpy-whole", [[1]], [[2]], out_dtype="i32")
    assert stays.dtype == np.int32 and client.get(stays) == 2
    client.delete(stays)
    with pytest.raises(TypeError, match="which the daemon does not multiply"):
        client.gemm([[1]], client.put("numpy-whole", np.ones((1, 1), np.int32)))
    client.put("numpy-whole", np.full((1, 1), 7, np.int8))
    same(client.gemm([[3]], [one for one in client.tensors() if one.name == "numpy-whole"][0]), np.array([[21]]))
    client.delete("numpy-whole")


class Metres(np.ndarray):
    """An array that means more than its numbers."""


@pytest.mark.parametrize("kind, sentence", [
    (np.ma.MaskedArray, "masked array"), (np.matrix, "is a matrix, a subclass"), (Metres, "is a Metres, a subclass")])
def test_subclasses_are_not_stripped(client, kind, sentence):
    ones = np.ones((2, 2), np.float32)
    odd = np.ma.array(ones, mask=ones > 2) if kind is np.ma.MaskedArray else ones.view(kind)
    lens = np.ma.array([1, 1]) if kind is np.ma.MaskedArray else np.array([1, 1]).view(kind)
    four = np.ones((2, 1, 1, 2), np.float32)
    calls = [lambda: client.gemm(odd, ones), lambda: client.gemm(ones, odd), lambda: client.gemm(ones, ones, bias=odd),
             lambda: client.gemm(ones, ones, beta=1, c=odd), lambda: client.put("numpy-odd", odd),
             lambda: client.reduce(odd), lambda: client.reduce(odd, "std"), lambda: client.reduce(odd, "prod"),
             lambda: client.softmax(odd), lambda: client.einsum("ij,jk", ones, odd),
             lambda: client.attention(four, four, four, mask=odd), lambda: client.gemm_job(odd, ones),
             lambda: client.gemm([odd, odd], ones), lambda: client.softmax([[odd[0], odd[1]]])]
    if kind is not np.matrix:
        calls += [lambda: client.softmax(ones, lens=lens), lambda: client.conv2d(four, four, bias=lens),
                  lambda: client.attention(four, four, four, lens_q=lens, lens_kv=lens)]
    for call in calls:
        with pytest.raises(TypeError, match=sentence):
            call()


SUMS = ["ij,jk->ik", "ij,jk", "ij,kj->ik", "ji,jk->ki", "bij,bjk->bik", "ijb,kjb->bik", "i,j->ij", "i,i->", "i,i",
        "ij,ij->", "ij,ij->i", "ij,ij->ij", "ijk,kjl->il", "abc,cd->dab", "...ij,...jk->...ik", "...ij,jk",
        "ij,...j->...i", "iij,j->i", "ijj,jk->ik", "ij,jk->ki", ",ij->ij", "ba,bcd->cad"]


@pytest.mark.parametrize("subscripts", SUMS)
def test_einsum(client, rng, subscripts):
    lengths = dict(zip("abcdijkl", (2, 3, 4, 5, 3, 4, 6, 2)))
    if "ii" in subscripts or "jj" in subscripts:
        lengths["j" if "jj" in subscripts else "i"] = 4
    terms = subscripts.split("->", maxsplit=1)[0].split(",")
    a, b = (whole(rng, *(2,) * ("..." in term), *(lengths[letter] for letter in term.replace("...", "")))
            for term in terms)
    same(client.einsum(subscripts, a, b), np.einsum(subscripts, a, b))
    wanted = np.einsum(subscripts, a, b)
    out = np.empty(wanted.shape)
    assert client.einsum(subscripts, a, b, out=out, alpha=2) is out and np.array_equal(out, 2 * wanted)


@pytest.mark.parametrize("axes", [0, 1, 2, (1, 0), ([1, 0], [0, 1]), ((0, -1), (1, 0)), ((), ())], ids=str)
def test_tensordot(client, rng, axes):
    a, b = whole(rng, 3, 3, 3), whole(rng, 3, 3, 2)
    same(client.tensordot(a, b, axes), np.tensordot(a, b, axes))
    same(client.tensordot(a.astype(np.int64), b.astype(np.int64), axes=axes),
         np.tensordot(a.astype(np.int64), b.astype(np.int64), axes))


def test_matmul_and_sums_with_resident_tensors(client, rng, resident):
    a, b = whole(rng, 3, 4), whole(rng, 4, 5)
    held = resident(b)
    for found in (client.matmul(a, held), client.einsum("ij,jk", a, held), client.tensordot(a, held, 1),
                  client.einsum("ij,jk->ki", a, held).T, client.tensordot(resident(a), b, 1)):
        same(found, a @ b)
    same(client.einsum("aij,jk", np.stack([a, a]), held), np.stack([a @ b, a @ b]))
    for call in (lambda: client.einsum("ij,kj", b.T[:2, :], held), lambda: client.tensordot(a, held, ((0, 1), (1, 0))),
                 lambda: client.einsum("i,jk->ijk", a[0], held)):
        with pytest.raises(ValueError, match="get.. it first|have the lengths"):
            call()


@pytest.mark.parametrize("subscripts, sentence", [
    ("ij", "two arrays"), ("ij,jk,kl", "two arrays"), ("ij,jk->iz", "letters of the arrays"),
    ("ij,jk->ii", "each once"), ("i,jk", "a has 2 dimensions, and 'i' names 1"),
    ("ijk,jk", "a has 2 dimensions, and 'ijk' names 3"),
    ("i1,jk", "than letters"), ("....i,jk", "than letters"), ("ik,jk", "lengths 4 and 5"),
    ("ij,jk->i", "'k' is in one array"), ("ii,jk", "two different dimensions i")])
def test_subscripts_that_are_none(plain, subscripts, sentence):
    a, b = np.ones((3, 4), np.float32), np.ones((4, 5), np.float32)
    with pytest.raises(ValueError, match=sentence):
        plain.einsum(subscripts, a, b)


def test_sums_that_are_none(plain):
    a, b = np.ones((3, 4), np.float32), np.ones((4, 5), np.float32)
    for axes, kind, sentence in ((3, ValueError, "axes is 3"), (2, ValueError, "lengths"),
                                 (((0, 1), (0,)), ValueError, "equal"), ((2, 0), IndexError, "out of bounds"),
                                 (((0, 0), (0, 1)), ValueError, "twice"),
                                 ((1.5, 0), TypeError, "integer")):
        with pytest.raises(kind, match=sentence):
            plain.tensordot(a, b, axes)
    for call in (lambda: plain.einsum("ij,jk", a, b, bias=b[0]), lambda: plain.tensordot(a, b, 1, beta=1)):
        with pytest.raises(TypeError, match="is no argument; those are out, out_dtype"):
            call()
    with pytest.raises(TypeError, match="subscripts is a list"):
        plain.einsum([0, 1], a, b)
