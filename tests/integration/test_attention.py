"""POST /attention: numbers, formats, layouts, options, bad input and the way of a request."""

import concurrent.futures
import io
import itertools

import numpy as np
import pytest
import safetensors
import safetensors.numpy

from attention import (Attention, assert_right, mask_parameters, random_mask, random_operands,
                       raw)
from daemon import PATIENCE_S, PATIENT
from matrices import NUMPY
from patience import wait_until
from problem import assert_problem
from test_formats import NPY, RAW, SAFETENSORS, npy
from test_leaving import OCTETS, wait_for, wait_until_idle
from wire import Wire, request

DTYPES = ("f32", "f16", "bf16")
KERNELS = ("naive", "tiled")


@pytest.fixture(autouse=True)
def offered(url, session):
    kernels = session.get(f"{url}/info", timeout=PATIENCE_S).json()["kernels"]
    if not any(kernel["op"] == "attention" for kernel in kernels):
        pytest.skip("this daemon's device has no attention kernels")


@pytest.fixture
def attend(url, session):
    def send(parameters, body, media_type=RAW, **headers):
        return session.post(f"{url}/attention", params=parameters, data=body, timeout=PATIENCE_S,
                            headers={"Content-Type": media_type, **headers})
    return send


def check(attend, problem, operands, lens=None):
    parameters = problem.parameters()
    if lens is not None:
        parameters["lens"] = 1
    answer = attend(parameters, raw(problem, operands, lens))
    assert answer.status_code == 200, answer.text
    assert_right(problem, operands, answer.content, lens)
    return answer


# --- Numbers

LENGTHS = [(1, 1), (1, 131), (113, 203), (108, 256), (203, 113), (799, 3), (1023, 1024)]
MASKS = [(False, None), (True, None), (False, 64), (True, 0), (True, 100)]


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_masks_lengths_and_shared_heads(dtype, lengths, mask, attend, rng):
    sq, skv = lengths
    causal, window = mask
    kv_heads = (4, 2, 1)[(LENGTHS.index(lengths) + MASKS.index(mask)) % 3]
    problem = Attention(4, sq, 40, kv_heads=kv_heads, skv=skv, dv=24, dtype=dtype, causal=causal,
                        window=window)
    check(attend, problem, random_operands(problem, rng))


@pytest.mark.matrix
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("widths", [(1, 1), (1, 256), (256, 1), (64, 64), (96, 128), (129, 257 - 2),
                                    (192, 65), (256, 256)], ids=str)
def test_head_sizes(kernel, dtype, widths, attend, rng):
    problem = Attention(2, 130, widths[0], dv=widths[1], skv=150, dtype=dtype, kernel=kernel,
                        causal=True)
    answer = check(attend, problem, random_operands(problem, rng))
    assert answer.headers["Gemmd-Kernel"] == kernel


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("options", [dict(scale=0.5), dict(scale=-2), dict(scale=0),
                                     dict(softcap=2), dict(softcap=0),
                                     dict(scale=3, softcap=5, causal=True, window=9),
                                     dict(scale=100, softcap=1e-37), dict(scale=1e-30, softcap=1e30)], ids=str)
def test_scale_and_softcap(kernel, options, attend, rng):
    problem = Attention(3, 70, 32, skv=90, dtype="f32", kernel=kernel, **options)
    check(attend, problem, random_operands(problem, rng))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("causal, window", MASKS)
def test_lengths_of_each_entry(kernel, causal, window, attend, rng):
    """Each entry is aligned by its own lengths; what lies beyond them has no influence."""
    problem = Attention(2, 50, 16, batch=7, skv=300, dtype="f32", causal=causal, window=window,
                        kernel=kernel, kv_heads=1)
    operands = random_operands(problem, rng)
    lens = ([50, 0, 1, 33, 50, 17, 50], [300, 300, 1, 0, 7, 129, 256])
    for b, (sq, skv) in enumerate(zip(*lens)):
        operands[0][b, :, sq:] = np.nan
        operands[1][b, :, skv:] = np.nan
        operands[2][b, :, skv:] = np.inf
    answer = check(attend, problem, operands, lens)
    rows = np.frombuffer(answer.content, np.float32).reshape(7, 2, 50, 16)
    for b, sq in enumerate(lens[0]):
        assert not rows[b, :, sq:].any(), f"padding rows of entry {b} are not zeros"


def read_safetensors(answer):
    return {name: np.frombuffer(t["data"], NUMPY[t["dtype"].lower()]).reshape(t["shape"])
            for name, t in safetensors.deserialize(answer.content)}


@pytest.mark.parametrize("kernel", KERNELS)
def test_rows_that_see_no_key(kernel, attend, rng):
    """Zeros, and minus infinity in lse."""
    problem = Attention(2, 9, 8, skv=4, dtype="f32", causal=True, kernel=kernel)
    q, k, v = random_operands(problem, rng)
    answer = attend({"causal": 1, "lse": 1, "kernel": kernel},
                    safetensors.numpy.save({"q": q, "k": k, "v": v}), SAFETENSORS)
    assert answer.status_code == 200, answer.text
    got = read_safetensors(answer)
    assert not got["o"][:, :, :5].any()
    assert np.isneginf(got["lse"][:, :, :5]).all()
    assert np.isfinite(got["lse"][:, :, 5:]).all()


@pytest.mark.matrix
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf], ids=str)
@pytest.mark.parametrize("operand", range(3), ids="qkv".__getitem__)
@pytest.mark.parametrize("causal", [False, True])
def test_what_is_not_finite(kernel, value, operand, causal, attend, rng):
    """It reaches the rows that see it, as IEEE arithmetic has it, and no other."""
    problem = Attention(1, 150, 8, dtype="f32", causal=causal, kernel=kernel)
    operands = random_operands(problem, rng)
    operands[operand][0, 0, 77, 3] = value
    check(attend, problem, operands)


@pytest.mark.parametrize("kernel", KERNELS)
def test_scores_of_minus_infinity_only(kernel, attend):
    """A row that sees keys, all of which have no weight, is 0 / 0."""
    q = np.ones((1, 1, 2, 1), np.float32)
    k = np.full((1, 1, 2, 1), -np.inf, np.float32)
    answer = attend({"heads": 1, "sq": 2, "d": 1, "dtype": "f32", "kernel": kernel},
                    q.tobytes() + k.tobytes() + q.tobytes())
    assert np.isnan(np.frombuffer(answer.content, np.float32)).all()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_very_large_scores(kernel, dtype, attend, rng):
    """exp of them would overflow; the largest wins. No row has two that are nearly the largest, because rounding
    decides how much each of these weighs."""
    problem = Attention(2, 40, 64, skv=200, dtype=dtype, scale=1000, kernel=kernel)
    distance = 0
    while distance < 100:
        operands = random_operands(problem, rng, spread=8)
        q, k = (array.astype(np.float64) for array in operands[:2])
        largest = np.sort(1000 * q @ k.swapaxes(2, 3))[..., -2:]
        distance = np.diff(largest).min()
    answer = check(attend, problem, operands)
    assert np.isfinite(np.frombuffer(answer.content, NUMPY[dtype]).astype(np.float32)).all()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("score", [3e8, -3e8, 1e10, 1e30, -3e38, 3e38])
def test_equal_scores_far_from_zero(kernel, score, attend, rng):
    """The rounding error of such a score is a large number itself, or its product with log2 e is out of range."""
    for dtype in DTYPES:
        problem = Attention(2, 70, 64, skv=201, dtype=dtype, causal=True, scale=score, kernel=kernel)
        operands = random_operands(problem, rng)
        operands[0][:], operands[1][:] = 0, 0
        operands[0][..., 0], operands[1][..., 0] = 1, 1
        answer = check(attend, problem, operands)
        assert np.isfinite(np.frombuffer(answer.content, NUMPY[dtype]).astype(np.float32)).all()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("causal, window", MASKS)
def test_lse(kernel, causal, window, attend, rng):
    problem = Attention(4, 113, 24, kv_heads=2, skv=203, batch=2, dtype="f32", causal=causal,
                        window=window)
    q, k, v = random_operands(problem, rng)
    answer = attend({**problem.parameters(sizes=False), "lse": 1, "kernel": kernel},
                    safetensors.numpy.save({"q": q, "k": k, "v": v}), SAFETENSORS)
    got = read_safetensors(answer)
    assert set(got) == {"o", "lse"} and got["lse"].shape == (2, 4, 113)
    assert_right(problem, (q, k, v), got["o"].tobytes(), lse=got["lse"])


def test_memory_does_not_grow_with_the_product_of_the_lengths(start):
    """131,072 queries and keys: the scores of one head would be 64 GiB. A window, so that there is
    little to compute; a limit on the device's memory, so that nobody takes it."""
    daemon = start("--backend", "cpu", "--device-bytes", "16M")
    length = 131072
    ones = np.ones((length, 1), np.float16)
    v = (np.arange(length) % 1024).astype(np.float16).reshape(-1, 1)
    for causal in (0, 1):
        answer = daemon.session.post(
            f"{daemon.url}/attention", timeout=PATIENCE_S,
            params={"heads": 1, "sq": length, "d": 1, "causal": causal, "window": 1 if causal else
                    length, "kernel": "tiled" if causal else "naive"},
            data=ones.tobytes() + ones.tobytes() + v.tobytes())
        if not causal:  # a block of rows of scores at a time, and more than there is
            assert_problem(answer, 413, says="device memory")
            continue
        assert answer.status_code == 200, answer.text
        got = np.frombuffer(answer.content, np.float16).astype(np.float64)
        wide = v[:, 0].astype(np.float64)
        exact = (wide + np.concatenate([wide[:1], wide[:-1]])) / 2
        np.testing.assert_array_equal(got, exact.astype(np.float16).astype(np.float64))


def test_what_is_held_grows_with_the_sum_of_the_lengths(start):
    """A full attention of 131,072 queries and keys, when it is let in and before its body comes:
    operands and result count, and no scores."""
    daemon = start("--backend", "cpu", *PATIENT)
    length = 131072
    with Wire(daemon.address) as wire:
        wire.send(request("POST", f"/attention?heads=1&sq={length}&d=1&dtype=f16",
                          [OCTETS, ("Content-Length", 3 * 2 * length),
                           ("Expect", "100-continue")]))
        assert wire.receive().status == 100
        now = wait_for(daemon, queue_requests=1, queue_bytes=4 * 2 * length)
        # In blocks of the pool's sizes, with what the thread has at hand for the next requests.
        assert now["gemmd_pinned_memory_used_bytes"] < 64 * length
        assert now["gemmd_device_memory_used_bytes"] < 64 * length
    wait_until_idle(daemon)


# --- Formats and layouts

@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("sent, wanted", list(itertools.product([RAW, NPY, SAFETENSORS],
                                                            repeat=2)))
def test_formats_and_layouts(dtype, layout, sent, wanted, attend, rng):
    problem = Attention(4, 9, 5, kv_heads=2, skv=11, dv=7, batch=3, dtype=dtype, layout=layout)
    operands = random_operands(problem, rng)
    arrays = [problem.stored(array) for array in operands]
    if sent == RAW:
        body = raw(problem, operands)
    elif sent == NPY:
        body = b"".join(map(npy, arrays))
    else:
        body = safetensors.numpy.save(dict(zip("qkv", arrays)))
    answer = attend(problem.parameters(sizes=sent == RAW), body, sent, Accept=wanted)
    assert answer.status_code == 200, answer.text
    shape = (3, 4, 9, 7) if layout == "bhsd" else (3, 9, 4, 7)
    assert answer.headers["Gemmd-Shape"] == ",".join(map(str, shape))
    assert answer.headers["Gemmd-Dtype"] == dtype
    assert answer.headers["Content-Type"] == wanted
    content = answer.content
    if wanted == NPY:
        got = np.lib.format.read_array(io.BytesIO(content))
        assert got.shape == shape
        content = got.tobytes()
    elif wanted == SAFETENSORS:
        got = read_safetensors(answer)
        assert set(got) == {"o"} and got["o"].shape == shape
        content = got["o"].tobytes()
    assert_right(problem, operands, content)


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("rank", [2, 3])
def test_leading_dimensions_may_be_left_out(layout, rank, attend, rng):
    problem = Attention(1 if rank == 2 else 3, 6, 4, skv=5, dv=2, dtype="f32", layout=layout)
    operands = random_operands(problem, rng)
    arrays = [problem.stored(array)[0] if rank == 3 else array[0, 0] for array in operands]
    answer = attend({"layout": layout}, b"".join(map(npy, arrays)), NPY)
    assert answer.status_code == 200, answer.text
    got = np.lib.format.read_array(io.BytesIO(answer.content))
    assert got.shape == arrays[0].shape[:-1] + (2,)
    assert_right(problem, operands, got.tobytes())


def test_fortran_order_and_lengths_in_npy(attend, rng):
    problem = Attention(2, 6, 4, batch=2, dtype="f32")
    operands = random_operands(problem, rng)
    lens = ([6, 3], [2, 6])
    body = b"".join(npy(np.array(x, np.int32)) for x in lens)
    body += b"".join(npy(np.asfortranarray(array)) for array in operands)
    answer = attend({"lens": 1}, body, NPY, Accept=RAW)
    assert answer.status_code == 200, answer.text
    assert_right(problem, operands, answer.content, lens)


def test_lengths_in_safetensors(attend, rng):
    problem = Attention(2, 6, 4, batch=2, dtype="f32")
    operands = random_operands(problem, rng)
    lens = ([6, 3], [2, 6])
    tensors = dict(zip("qkv", operands), lens_q=np.array(lens[0], np.int32),
                   lens_kv=np.array(lens[1], np.int32))
    answer = attend({}, safetensors.numpy.save(tensors), SAFETENSORS, Accept=RAW)
    assert answer.status_code == 200, answer.text
    assert_right(problem, operands, answer.content, lens)


def test_lse_is_left_out_where_it_has_no_place(attend, rng):
    problem = Attention(1, 3, 2, dtype="f32")
    operands = random_operands(problem, rng)
    answer = attend({**problem.parameters(), "lse": 1}, raw(problem, operands))
    assert_right(problem, operands, answer.content)


# --- Resident K and V

@pytest.fixture
def resident(url, session):
    names = []

    def put(name, array, dtype="f32"):
        answer = session.put(f"{url}/tensors/{name}", data=array.tobytes(), timeout=PATIENCE_S,
                             params={"dtype": dtype, "shape": ",".join(map(str, array.shape))},
                             headers={"Content-Type": RAW})
        assert answer.status_code in (200, 201), answer.text
        names.append(name)
        return name
    yield put
    for name in names:
        session.delete(f"{url}/tensors/{name}", timeout=PATIENCE_S)


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("which", ["k", "v", "kv"])
@pytest.mark.parametrize("media_type", [RAW, NPY])
def test_resident_k_and_v(layout, which, media_type, attend, resident, rng):
    problem = Attention(4, 6, 5, kv_heads=2, skv=9, dv=3, batch=2, dtype="f32", layout=layout)
    operands = random_operands(problem, rng)
    arrays = dict(zip("qkv", map(problem.stored, operands)))
    parameters = {name: resident(f"attention-{name}", arrays.pop(name)) for name in which}
    parameters["layout"] = layout
    if media_type == RAW:
        parameters.update(heads=4, sq=6, skv=9, kv_heads=2, d=5, dv=3)
        body = b"".join(array.tobytes() for array in arrays.values())
    else:
        body = b"".join(map(npy, arrays.values()))
    answer = attend(parameters, body, media_type, Accept=RAW)
    assert answer.status_code == 200, answer.text
    assert_right(problem, operands, answer.content)


def test_what_residents_say_need_not_be_said(attend, resident, rng):
    problem = Attention(2, 3, 5, skv=9, dv=4, dtype="f32")
    q, k, v = random_operands(problem, rng)
    parameters = {"k": resident("attention-k", k), "v": resident("attention-v", v), "heads": 2,
                  "sq": 3}
    answer = attend(parameters, q.tobytes())
    assert answer.status_code == 200, answer.text
    assert_right(problem, (q, k, v), answer.content)


def test_a_resident_of_another_type(attend, resident, rng):
    name = resident("attention-k", np.ones((1, 1, 2, 2), np.float32))
    answer = attend({"k": name, "heads": 1, "sq": 2, "d": 2, "dtype": "f16"}, b"")
    assert_problem(answer, 400, says="the resident K is of type f32", field="dtype")


def test_a_resident_of_another_shape(attend, resident):
    """The sentence has the shapes of both."""
    k = resident("attention-k", np.ones((1, 1, 2, 4), np.float32))
    v = resident("attention-v", np.ones((1, 1, 3, 4), np.float32))
    answer = attend({"k": k, "v": v, "heads": 1, "sq": 2}, bytes(32))
    assert_problem(answer, 400, says="skv is 3 by .* the resident V and 2 .*; K is \\[1,1,2,4], V is \\[1,1,3,4]", field="skv")


def test_a_resident_that_is_not_there(attend):
    assert_problem(attend({"v": "nobody", "heads": 1, "sq": 2, "d": 2}, b""), 404, field="v")


# --- Masks as operands, and positions

@pytest.mark.matrix
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", [(2, 4, 70), (1, 1, 70), (2, 1, 1), (1, 4, 1)], ids=str)
@pytest.mark.parametrize("boolean", [False, True])
def test_masks_in_all_formats(kernel, dtype, sizes, boolean, attend, rng):
    problem = Attention(4, 70, 24, kv_heads=2, skv=150, dv=12, batch=2, dtype=dtype, softcap=3,
                        causal=boolean, layout="bshd" if boolean else "bhsd", kernel=kernel)
    operands = random_operands(problem, rng)
    mask = random_mask(problem, rng, (*sizes, 150), boolean)
    body = raw(problem, operands) + mask.tobytes()
    answer = attend({**problem.parameters(), **mask_parameters(mask)}, body)
    assert answer.status_code == 200, answer.text
    assert_right(problem, operands, answer.content, mask=mask)
    assert answer.headers["Gemmd-Kernel"] == kernel
    if dtype == "bf16":
        return  # NumPy has no name for the type
    named = dict(zip("qkv", map(problem.stored, operands)), mask=mask)
    arrays = {**problem.parameters(sizes=False), "mask": "bool" if boolean else "add"}
    for media_type, parameters, same in (
            (NPY, arrays, b"".join(map(npy, named.values()))),
            (SAFETENSORS, problem.parameters(sizes=False), safetensors.numpy.save(named))):
        found = attend(parameters, same, media_type, Accept=RAW)
        assert found.status_code == 200, found.text
        assert found.content == answer.content


def test_hidden_keys_have_no_influence(attend, rng):
    problem = Attention(1, 40, 8, skv=50, dtype="f32")
    q, k, v = random_operands(problem, rng)
    mask = random_mask(problem, rng, (1, 1, 1, 50), True)
    k[..., mask[0, 0, 0] == 0, :], v[..., mask[0, 0, 0] == 0, :] = np.nan, np.inf
    answer = attend({**problem.parameters(), **mask_parameters(mask)},
                    raw(problem, (q, k, v)) + mask.tobytes())
    assert answer.status_code == 200, answer.text
    assert np.isfinite(np.frombuffer(answer.content, np.float32)).all()
    seen = mask[0, 0, 0] != 0
    k[..., ~seen, :], v[..., ~seen, :] = 0, 0
    assert_right(problem, (q, k, v), answer.content, mask=mask)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("offset", [0, 30, 80, 200])
def test_positions_begin_at_an_offset(kernel, offset, attend, rng):
    check(attend, Attention(2, 70, 16, skv=150, dtype="f32", causal=True, offset=offset,
                            kernel=kernel), random_operands(Attention(2, 70, 16, skv=150,
                                                                      dtype="f32"), rng))


def test_an_offset_that_changes_nothing_changes_no_bit(attend, rng):
    problem = Attention(2, 70, 16, skv=150, causal=True, window=20)
    body = raw(problem, random_operands(problem, rng))
    plain, said = (attend({**problem.parameters(), **more}, body) for more in ({}, {"offset": 80}))
    assert plain.content == said.content
    assert plain.headers["Gemmd-Kernel"] == said.headers["Gemmd-Kernel"]


# --- Bad input

GOOD = {"heads": 4, "sq": 2, "d": 2}


@pytest.mark.parametrize("parameters, status, field, says", [
    ({"kv_heads": 3}, 400, "kv_heads", "multiple of kv_heads"),
    ({"kv_heads": 8}, 400, "kv_heads", "multiple of kv_heads"),
    ({"window": -1}, 400, "window", "whole number from 0"),
    ({"scale": "inf"}, 400, "scale", "decimal"),
    ({"scale": "nan"}, 400, "scale", "decimal"),
    ({"scale": "1e39"}, 400, "scale", "f32"),
    ({"softcap": -1}, 400, "softcap", "positive"),
    ({"softcap": "inf"}, 400, "softcap", "positive"),
    ({"d": 257}, 422, "d", "1 to 256"),
    ({"dv": 300}, 422, "dv", "1 to 256"),
    ({"d": 0}, 400, "d", "whole number"),
    ({"heads": 0}, 400, "heads", "whole number"),
    ({"layout": "sbhd"}, 400, "layout", "bhsd, bshd"),
    ({"dtype": "f64"}, 400, "dtype", "f32, f16, bf16"),
    ({"dtype": "f8_e4m3", "sq": 4}, 422, "dtype", "f32, f16, bf16"),
    ({"causal": 2}, 400, "causal", "0 or 1"),
    ({"offset": -1}, 400, "offset", "whole number from 0"),
    ({"mask": "i8"}, 400, "mask", "none, add, bool"),
    ({"mask": "add", "mask_heads": 2}, 400, "mask_heads", "1 or heads=4"),
    ({"mask_sq": 1}, 400, "mask_sq", "has no mask"),
    ({"mask": "add"}, 400, None, "is the mask missing"),
    ({"kernel": "flash"}, 422, "kernel", "tiled, naive"),
    ({"priority": 10}, 400, "priority", "0 to 9"),
    ({"timeout_ms": 0}, 400, "timeout_ms", "whole number"),
    ({"verify": "freivalds"}, 400, "verify", "no parameter 'verify'; those of /attention are"),
    ({"m": 3}, 400, "m", "no parameter 'm'"),
    ({"heads": None}, 400, "heads", "heads is missing"),
    ({"sq": None}, 400, "sq", "sq is missing"),
    ({"sq": 3}, 400, None, "the body is 96 bytes"),
    ({"sq": 2**31 - 1, "heads": 2**31 - 1, "batch": 2**31 - 1}, 413, None, "64 bits"),
])
def test_bad_parameters(parameters, status, field, says, attend):
    query = {**GOOD, **parameters}
    answer = attend({name: value for name, value in query.items() if value is not None},
                    bytes(96))
    assert_problem(answer, status, says=says, field=field)


def test_a_parameter_twice(attend):
    assert_problem(attend([("heads", 1), ("heads", 1)], b""), 400, says="twice", field="heads")


@pytest.mark.parametrize("lens, says", [
    (([3, 2], [2, 2]), "the lengths of Q, number 0 is 3; it must be from 0 to sq=2"),
    (([2, 2], [2, 5]), "the lengths of K and V, number 1 is 5; it must be from 0 to skv=2"),
    (([2, -1], [2, 2]), "number 1 is -1"),
])
def test_bad_lengths(lens, says, attend, rng):
    problem = Attention(1, 2, 2, batch=2)
    body = raw(problem, random_operands(problem, rng), lens)
    answer = attend({**problem.parameters(), "lens": 1}, body)
    assert_problem(answer, 400, says=says, field="lens")


ONES = np.ones((1, 2, 3, 4), np.float32)


@pytest.mark.parametrize("arrays, parameters, status, field, says", [
    ((ONES, ONES, ONES[:, :, :2]), {}, 400, "skv", "skv is 2 by the shape of V and 3 .*; Q is \\[1,2,3,4], K is \\[1,2,3,4], V is \\[1,2,2,4]"),
    ((ONES, ONES, ONES[:, :1]), {}, 400, "kv_heads", "kv_heads is 1 by the shape of V and 2"),
    ((ONES, ONES[..., :3].copy(), ONES), {}, 400, "d", "d is 3 by the shape of K and 4 .*K is \\[1,2,3,3]"),
    ((ONES, ONES.repeat(2, 0), ONES), {}, 400, "batch", "batch is 2 by the shape of K and 1"),
    ((ONES, ONES, ONES), {"d": 5}, 400, "d", "d is 4 by the shape of Q and 5"),
    ((ONES, ONES.astype(np.float16), ONES), {}, 400, "dtype", "K is of type f16"),
    ((ONES, ONES, ONES), {"dtype": "f16"}, 400, "dtype", "Q is of type f32"),
    ((ONES.astype(np.float64),) * 3, {}, 422, "dtype", "f32, f16, bf16"),
    ((ONES, ONES), {}, 400, None, "ends before the .npy array of V"),
    ((ONES,) * 4, {}, 400, None, "its .npy arrays take"),
    ((ONES, ONES, ONES), {"lens": 1}, 400, None, "ends before|must be one vector"),
    ((ONES[0, 0, 0], ONES, ONES), {}, 400, None, "Q has 1 dimensions"),
])
def test_arrays_that_disagree(arrays, parameters, status, field, says, attend):
    answer = attend(parameters, b"".join(map(npy, arrays)), NPY)
    assert_problem(answer, status, says=says, field=field)


@pytest.mark.parametrize("tensors, field, says", [
    ({"q": ONES, "k": ONES}, "v", "'v' is missing"),
    ({"q": ONES, "k": ONES, "v": ONES, "o": ONES}, None, "there is a tensor 'o'"),
    ({"q": ONES, "k": ONES, "v": ONES, "lens_q": np.ones(1, np.int32)}, "lens", "'lens_kv'"),
    ({"q": ONES, "k": ONES, "v": ONES, "lens_q": np.ones(1, np.int32),
      "lens_kv": np.ones(1, np.float32)}, "lens", "one vector of batch=1"),
])
def test_safetensors_that_disagree(tensors, field, says, attend):
    answer = attend({}, safetensors.numpy.save(tensors), SAFETENSORS)
    assert_problem(answer, 400, says=says, field=field)


def test_methods_and_types(url, session, attend):
    answer = session.get(f"{url}/attention", timeout=PATIENCE_S)
    assert_problem(answer, 405, says="POST")
    assert answer.headers["Allow"] == "POST"
    assert_problem(attend(GOOD, b"", "text/plain"), 415, says="octet-stream")
    assert_problem(attend(GOOD, bytes(96), Accept="text/plain"), 406, says="octet-stream")


# --- The way of a request

def test_headers(attend, rng):
    problem = Attention(2, 3, 4, dtype="f32", batch=2)
    answer = attend(problem.parameters(), raw(problem, random_operands(problem, rng)),
                    **{"X-Request-Id": "attention-1"})
    assert answer.headers["X-Request-Id"] == "attention-1"
    assert answer.headers["Gemmd-Kernel"] == "tiled"
    assert answer.headers["Gemmd-Batch"] == "1"
    assert [stage.split(";")[0].strip() for stage in answer.headers["Server-Timing"].split(",")] \
        == ["recv", "queue", "h2d", "kernel", "d2h", "total"]


def test_job(url, session, attend, rng):
    problem = Attention(2, 30, 16, dtype="f32", causal=True)
    operands = random_operands(problem, rng)
    answer = attend({**problem.parameters(), "priority": 9}, raw(problem, operands),
                    Prefer="respond-async")
    assert answer.status_code == 202, answer.text
    path = answer.headers["Location"]
    result = session.get(f"{url}{path}/result", params={"wait_ms": 30000}, timeout=PATIENCE_S)
    assert result.status_code == 200, result.text
    assert result.headers["Gemmd-Kernel"] == "tiled"
    assert_right(problem, operands, result.content)
    assert session.get(f"{url}{path}", timeout=PATIENCE_S).json()["op"] == "attention"
    session.delete(f"{url}{path}", timeout=PATIENCE_S)


def test_deadline(attend):
    """Seconds of work with a millisecond for it."""
    answer = attend({"heads": 8, "sq": 2048, "d": 64, "dtype": "f32", "timeout_ms": 1,
                     "kernel": "naive"}, bytes(3 * 8 * 2048 * 64 * 4))
    assert_problem(answer, 504)


def test_metrics_and_info(url, session, attend, rng):
    def answered():
        text = session.get(f"{url}/metrics", timeout=PATIENCE_S).text
        name = 'gemmd_requests_total{op="attention",dtype="bf16",code="200"} '
        lines = [line for line in text.splitlines() if line.startswith(name)]
        return sum(int(line[len(name):]) for line in lines)  # no line before the first such request
    before = answered()
    problem = Attention(1, 2, 2, dtype="bf16")
    check(attend, problem, random_operands(problem, rng))
    wait_until(lambda: answered() > before, "the request to be counted, which it is after its last byte")
    kernels = session.get(f"{url}/info", timeout=PATIENCE_S).json()["kernels"]
    mine = {kernel["name"]: kernel for kernel in kernels if kernel["op"] == "attention"}
    assert set(mine) >= set(KERNELS)
    assert set(mine["tiled"]["dtypes"]) == set(DTYPES)


def problems_of_all_kinds():
    for i, (dtype, (sq, skv)) in enumerate(itertools.product(DTYPES, LENGTHS[:-1])):
        causal, window = MASKS[i % len(MASKS)]
        yield Attention(4, sq, 16 + i, kv_heads=(1, 2, 4)[i % 3], skv=skv, dtype=dtype,
                        causal=causal, window=window, layout=("bhsd", "bshd")[i % 2])


def test_same_bytes_in_a_shared_launch(url, attend, rng):
    """Alone and among others, a request's answer is the same bytes."""
    bodies = [(p.parameters(), raw(p, random_operands(p, rng))) for p in problems_of_all_kinds()]
    alone = [attend(*body).content for body in bodies]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        rounds = list(pool.map(lambda i: (i % len(bodies), attend(*bodies[i % len(bodies)])),
                               range(10 * len(bodies))))
    for i, answer in rounds:
        assert answer.content == alone[i], f"{bodies[i][0]}: other bytes in a shared launch"


def test_same_bytes_with_any_number_of_threads(start, rng):
    bodies = [(p.parameters(), raw(p, random_operands(p, rng))) for p in problems_of_all_kinds()]
    answers = []
    for threads in (1, 3):
        daemon = start("--backend", "cpu", "--cpu-threads", str(threads))
        answers.append([daemon.session.post(f"{daemon.url}/attention", params=parameters,
                                            data=body, timeout=PATIENCE_S).content
                        for parameters, body in bodies])
    for (parameters, _), one, other in zip(bodies, *answers):
        assert one == other, f"{parameters}: other bytes on three threads than on one"
