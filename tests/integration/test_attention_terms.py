"""POST /attention with what not every kernel computes: windows to the right, ALiBi, sinks, and
entries whose rows follow one another without padding; and how a daemon refuses what no kernel takes."""

import numpy as np
import pytest
import safetensors.numpy

from attention import Attention, assert_right, random_mask, random_operands, raw
from daemon import PATIENCE_S, Daemon
from failing_cuda import program_of
from test_formats import NPY, RAW, SAFETENSORS, npy

KERNELS = ("naive", "tiled")  # of every device
FAST = "flash_mma"  # of GPUs, for 16 bits
PROPERTIES = ["mask", "offset", "window_right", "lens=ragged", "alibi", "sinks"]
DTYPES = ("f32", "f16", "bf16")


@pytest.fixture(autouse=True)
def offered(url, session):
    kernels = session.get(f"{url}/info", timeout=PATIENCE_S).json()["kernels"]
    if not any("sinks" in kernel.get("properties", []) for kernel in kernels):
        pytest.skip("no kernel of this daemon's device takes sinks")


@pytest.fixture
def attend(url, session):
    def send(parameters, body, media_type=RAW, **headers):
        return session.post(f"{url}/attention", params=parameters, data=body, timeout=PATIENCE_S,
                            headers={"Content-Type": media_type, **headers})
    return send


def random_vectors(rng, heads):
    """Slopes and sinks, with a slope of 0 and a sink that takes no part of the weights."""
    vectors = {"slopes": rng.uniform(0, 0.5, heads).astype(np.float32),
               "sinks": rng.uniform(-2, 4, heads).astype(np.float32)}
    vectors["slopes"][0], vectors["sinks"][-1] = 0, -np.inf
    return vectors


def test_info_says_what_each_kernel_takes(url, session):
    kernels = session.get(f"{url}/info", timeout=PATIENCE_S).json()["kernels"]
    wanted = dict.fromkeys(KERNELS, PROPERTIES)
    properties = {kernel["name"]: kernel["properties"] for kernel in kernels if kernel["op"] == "attention"}
    if FAST in properties:
        wanted |= {FAST: PROPERTIES[1:], "decode": []}
        properties.pop("flash_wgmma", None)  # of GPUs of one generation
    assert properties == wanted
    assert not any("properties" in kernel for kernel in kernels if kernel["op"] != "attention")


@pytest.mark.matrix
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("options", [dict(), dict(window=7), dict(offset=0), dict(causal=True)], ids=str)
@pytest.mark.parametrize("right", [0, 5, 300])
def test_windows_to_the_right(kernel, options, right, attend, rng):
    problem = Attention(2, 70, 16, skv=150, dtype="f32", window_right=right, kernel=kernel, **options)
    operands = random_operands(problem, rng)
    answer = attend(problem.parameters(), raw(problem, operands))
    assert answer.status_code == 200, answer.text
    assert_right(problem, operands, answer.content)


def test_no_window_to_the_right_is_causal(attend, rng):
    problem = Attention(2, 70, 16, skv=150)
    body = raw(problem, random_operands(problem, rng))
    answers = [attend({**problem.parameters(), **more}, body)
               for more in ({"causal": 1}, {"window_right": 0}, {"causal": 1, "window_right": 9})]
    assert answers[0].status_code == 200, answers[0].text
    assert len({answer.content for answer in answers}) == 1


@pytest.mark.matrix
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("names", [("slopes",), ("slopes", "sinks")], ids="-".join)
@pytest.mark.parametrize("options", [dict(), dict(causal=True, layout="bshd"),
                                     dict(causal=True, offset=3, softcap=2)], ids=str)
def test_slopes_and_sinks(kernel, dtype, names, options, attend, rng):
    """In all formats, with the same bytes."""
    problem = Attention(4, 60, 24, batch=2, kv_heads=2, skv=150, dv=12, dtype=dtype, kernel=kernel, **options)
    operands = random_operands(problem, rng)
    vectors = {name: values for name, values in random_vectors(rng, 4).items() if name in names}
    said = {"alibi" if name == "slopes" else name: 1 for name in names}
    answer = attend({**problem.parameters(), **said}, raw(problem, operands, vectors=vectors))
    assert answer.status_code == 200, answer.text
    assert_right(problem, operands, answer.content, vectors=vectors)
    if dtype == "bf16":
        return  # NumPy has no name for the type
    named = {**vectors, **dict(zip("qkv", map(problem.stored, operands)))}
    for media_type, parameters, body in ((NPY, said, b"".join(map(npy, named.values()))),
                                         (SAFETENSORS, {}, safetensors.numpy.save(named))):
        same = attend({**problem.parameters(sizes=False), **parameters}, body, media_type, Accept=RAW)
        assert same.status_code == 200, same.text
        assert same.content == answer.content


@pytest.mark.parametrize("kernel", KERNELS)
def test_slopes_and_sinks_beside_a_mask_and_lengths(kernel, attend, rng):
    problem = Attention(4, 40, 8, batch=3, kv_heads=1, skv=50, dtype="f32", causal=True, kernel=kernel)
    operands, vectors = random_operands(problem, rng), random_vectors(rng, 4)
    mask, lens = random_mask(problem, rng, (1, 4, 40, 50), False), ([40, 0, 25], [50, 50, 3])
    named = {**dict(zip("qkv", operands)), **vectors, "mask": mask,
             **{name: np.array(values, np.int32) for name, values in zip(("lens_q", "lens_kv"), lens)}}
    answer = attend({"causal": 1, "lse": 1, "kernel": kernel}, safetensors.numpy.save(named), SAFETENSORS)
    assert answer.status_code == 200, answer.text
    got = safetensors.numpy.load(answer.content)
    assert_right(problem, operands, got["o"].tobytes(), lens, got["lse"], mask, vectors)


def test_a_sink_is_a_key_without_a_value(attend, rng):
    """A key whose score is the sink, and whose value is 0."""
    problem = Attention(2, 30, 8, skv=40, dtype="f32", scale=1)
    q, k, v = random_operands(problem, rng)
    q[..., 0], k[..., 0] = 1, 0
    wanted = attend(problem.parameters() | {"sinks": 1}, raw(problem, (q, k, v), vectors={"sinks": [0.75] * 2}))
    key, value = np.zeros((1, 2, 1, 8), np.float32), np.zeros((1, 2, 1, 8), np.float32)
    key[..., 0] = 0.75
    longer = Attention(2, 30, 8, skv=41, dtype="f32", scale=1)
    got = attend(longer.parameters(), raw(longer, (q, *(np.concatenate(pair, axis=2) for pair in
                                                        ((k, key), (v, value))))))
    assert wanted.status_code == got.status_code == 200
    np.testing.assert_allclose(np.frombuffer(got.content, np.float32), np.frombuffer(wanted.content, np.float32),
                               rtol=1e-5, atol=1e-6)


# --- Ragged entries

def ragged(lengths):
    """cu_seqlens."""
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)


SIZES_Q, SIZES_KV = (5, 0, 97, 1, 0, 130), (9, 4, 60, 0, 0, 200)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("dtype, options", [("f16", dict()), ("f32", dict(causal=True, window=20)),
                                            ("bf16", dict(causal=True, alibi=1, sinks=1))], ids=str)
def test_ragged_entries_have_the_bits_of_requests_of_their_own(kernel, layout, dtype, options, attend, rng):
    vectors = random_vectors(rng, 4) if "sinks" in options else {}
    starts = ragged(SIZES_Q), ragged(SIZES_KV)
    kinds = {name: value for name, value in options.items() if name not in ("alibi", "sinks")}
    said = {name: 1 for name in ("alibi", "sinks") if name in options}
    whole = Attention(4, int(starts[0][-1]), 16, kv_heads=2, skv=int(starts[1][-1]), dv=8, dtype=dtype,
                      layout=layout, kernel=kernel, **kinds)
    operands = random_operands(whole, rng)
    answer = attend({**whole.parameters(), **said, "batch": len(SIZES_Q), "lens": "ragged"},
                    raw(whole, operands, starts, vectors))
    assert answer.status_code == 200, answer.text
    got = np.frombuffer(answer.content, operands[0].dtype).reshape(whole.stored(operands[0]).shape[:-1] + (8,))
    got = got if layout == "bhsd" else got.swapaxes(1, 2)
    for entry, (sq, skv) in enumerate(zip(SIZES_Q, SIZES_KV)):
        rows = [slice(start[entry], start[entry + 1]) for start in starts]
        if sq == 0:
            continue
        if skv == 0:
            assert not got[:, :, rows[0]].any()
            continue
        alone = Attention(4, sq, 16, kv_heads=2, skv=skv, dv=8, dtype=dtype, layout=layout, kernel=kernel, **kinds)
        its = [operands[0][:, :, rows[0]], operands[1][:, :, rows[1]], operands[2][:, :, rows[1]]]
        one = attend({**alone.parameters(), **said}, raw(alone, its, vectors=vectors))
        assert one.status_code == 200, one.text
        assert_right(alone, its, one.content, vectors=vectors)
        assert alone.stored(got[:, :, rows[0]]).tobytes() == one.content, f"entry {entry} has other bits"


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("options", [dict(causal=True), dict(window=9, window_right=5, alibi=1, sinks=1),
                                     dict(causal=True, softcap=2, alibi=1, sinks=1), dict(window_right=40)], ids=str)
def test_tensor_cores(dtype, options, url, session, attend, rng):
    """The kernel that a GPU chooses for 16 bits."""
    if not any(kernel["name"] == FAST for kernel in session.get(f"{url}/info", timeout=PATIENCE_S).json()["kernels"]):
        pytest.skip(f"this daemon's device has no kernel {FAST}")
    test_ragged_entries_have_the_bits_of_requests_of_their_own(FAST, "bshd", dtype, options, attend, rng)
    problem = Attention(4, 5, 16, skv=9, dtype=dtype, window_right=2)
    answer = attend({**problem.parameters(), "sinks": 1},
                    raw(problem, random_operands(problem, rng), vectors={"sinks": [0] * 4}))
    assert answer.status_code == 200 and answer.headers["Gemmd-Kernel"] == FAST


def test_ragged_entries_in_other_formats(attend, rng):
    starts = ragged((3, 0, 4)), ragged((5, 2, 6))
    problem = Attention(2, 7, 8, skv=13, layout="bshd", dtype="f32", causal=True)
    operands = [array[0] for array in map(problem.stored, random_operands(problem, rng))]  # (total, heads, d)
    named = dict(zip(("lens_q", "lens_kv", "q", "k", "v"), (*starts, *operands)))
    options = {"layout": "bshd", "causal": 1, "lens": "ragged"}
    answer = attend({**options, "lse": 1}, safetensors.numpy.save(named), SAFETENSORS)
    assert answer.status_code == 200, answer.text
    got = safetensors.numpy.load(answer.content)
    assert got["o"].shape == (7, 2, 8) and got["lse"].shape == (2, 7)
    same = attend(options, b"".join(map(npy, named.values())), NPY, Accept=RAW)
    assert same.status_code == 200, same.text
    assert same.content == got["o"].tobytes()
    flat = attend({**options, "batch": 3, "heads": 2, "sq": 7, "skv": 13, "d": 8, "dtype": "f32"},
                  b"".join(array.tobytes() for array in named.values()))
    assert flat.status_code == 200, flat.text
    assert flat.content == same.content


GOOD = {"batch": 2, "heads": 1, "sq": 4, "skv": 6, "d": 2, "dtype": "f32", "lens": "ragged"}
OPERANDS = bytes(4 * 2 * (4 + 2 * 6))


@pytest.mark.parametrize("starts, says", [
    (((1, 2, 4), (0, 3, 6)), "of the lengths of Q, number 0 is 1; with lens=ragged they ascend from 0 to sq=4"),
    (((0, 3, 2), (0, 3, 6)), "of the lengths of Q, number 2 is 2"),
    (((0, -1, 4), (0, 3, 6)), "of the lengths of Q, number 1 is -1"),
    (((0, 2, 3), (0, 3, 6)), "of the lengths of Q, number 2 is 3"),
    (((0, 2, 5), (0, 3, 6)), "of the lengths of Q, number 2 is 5"),
    (((0, 2, 4), (0, 7, 6)), "of the lengths of K and V, number 2 is 6"),
    (((0, 2, 4), (0, 2**31 - 1, 6)), "of the lengths of K and V, number 2 is 6"),
    (((0, 2, 4), (0, 3, 2**31 - 1)), "of the lengths of K and V, number 2 is 2147483647")])
def test_rows_that_ragged_entries_do_not_have(starts, says, attend):
    answer = attend(GOOD, b"".join(np.array(each, "<i4").tobytes() for each in starts) + OPERANDS)
    assert answer.status_code == 400, answer.text
    assert answer.json()["field"] == "lens" and says in answer.json()["detail"]


@pytest.mark.parametrize("parameters, field, says", [
    ({"lens": 2}, "lens", "0, 1, ragged"),
    ({"mask": "bool"}, "mask", "ragged entries have no mask"),
    ({"batch": 3}, None, "bytes"),
    ({"alibi": 2}, "alibi", "0 or 1"),
    ({"window_right": -1}, "window_right", "whole number from 0"),
    ({"sinks": 1}, None, "bytes"),
    ({"sequence": "none-of-these"}, None, "")])
def test_what_does_not_fit(parameters, field, says, attend):
    starts = np.array((0, 2, 4, 0, 3, 6), "<i4").tobytes()
    answer = attend({**GOOD, **parameters}, starts + OPERANDS)
    assert answer.status_code == (404 if "sequence" in parameters else 400), answer.text
    assert answer.json().get("field") == field or field is None
    assert says in answer.json()["detail"]


@pytest.mark.parametrize("change, field, says", [
    ({"slopes": np.zeros(3, np.float32)}, "alibi", "heads=2"),
    ({"sinks": np.zeros(2, np.float16)}, "sinks", "elements of f32"),
    ({"sinks": np.zeros((1, 2), np.float32)}, "sinks", "one vector"),
    ({"lens_q": np.zeros(1, np.int32)}, "lens", "one more"),
    ({"lens_q": np.zeros((2, 2), np.int32)}, "lens", "one vector"),
    ({"lens_kv": np.zeros(4, np.int32)}, "lens", "batch+1=3"),
    ({"q": np.zeros((2, 2, 4, 8), np.float32)}, "lens", "a batch of 1")])
def test_arrays_that_do_not_fit(change, field, says, attend):
    named = {"q": np.zeros((1, 2, 4, 8), np.float32), "k": np.zeros((1, 2, 4, 8), np.float32),
             "v": np.zeros((1, 2, 4, 8), np.float32), "lens_q": np.array((0, 1, 4), np.int32),
             "lens_kv": np.array((0, 1, 4), np.int32)}
    answer = attend({"lens": "ragged"}, safetensors.numpy.save({**named, **change}), SAFETENSORS)
    assert answer.status_code == 400, answer.text
    assert answer.json()["field"] == field and says in answer.json()["detail"]


def test_a_resident_k_of_ragged_entries(url, session, attend, rng):
    starts = ragged((3, 0, 4)), ragged((5, 2, 6))
    problem = Attention(2, 7, 8, skv=13, dtype="f32")
    operands = random_operands(problem, rng)
    parameters = {**problem.parameters(), "batch": 3, "lens": "ragged"}
    wanted = attend(parameters, raw(problem, operands, starts))
    assert wanted.status_code == 200, wanted.text
    put = session.put(f"{url}/tensors/ragged-k", params={"shape": "1,2,13,8", "dtype": "f32"},
                      data=operands[1].tobytes(), timeout=PATIENCE_S)
    assert put.status_code in (200, 201), put.text
    got = attend({**parameters, "k": "ragged-k"}, raw(problem, [operands[0], operands[2]], starts))
    session.delete(f"{url}/tensors/ragged-k", timeout=PATIENCE_S)
    assert got.status_code == 200, got.text
    assert got.content == wanted.content


def test_work_is_the_most_that_ragged_entries_can_be(gemmd, rng):
    """64 entries of 64 rows count as one of 4096, and with a window as 4096 rows of 9 keys."""
    starts = ragged([64] * 64)
    problem = Attention(1, 4096, 8, dtype="f16")
    body = raw(problem, random_operands(problem, rng), (starts, starts))
    parameters = {**problem.parameters(), "batch": 64, "lens": "ragged"}
    daemon = Daemon(gemmd, "--max-work", str(10**8))
    try:
        url = daemon.wait_until_listening().wait_until_ready().url
        for more, status in (({}, 413), ({"causal": 1, "window": 8}, 200)):
            answer = daemon.session.post(f"{url}/attention", params=parameters | more, data=body, timeout=PATIENCE_S,
                                         headers={"Content-Type": RAW})
            assert answer.status_code == status, answer.text
        daemon.stop()
    finally:
        daemon.close()


def test_a_device_refuses_what_its_kernels_do_not_take(gemmd, rng):
    """The simulated CUDA device, whose only kernel takes masks and offsets, but none of the others."""
    program = program_of(gemmd)
    if program is None or program.name != "gemmd-simulated-cuda":
        pytest.skip("there is no build with a simulated GPU")
    problem = Attention(2, 4, 8, skv=6, dtype="f32")
    operands = random_operands(problem, rng)
    vectors, starts = {"sinks": np.zeros(2, np.float32)}, ((0, 4), (0, 6))
    bias = {"slopes": vectors["sinks"]}
    daemon = Daemon(program, "--backend", "cuda", "--device-bytes", "16M", "--tensor-bytes", "1M", "--pinned-bytes",
                    "64M")
    try:
        url = daemon.wait_until_listening().wait_until_ready().url
        kernels = daemon.session.get(f"{url}/info", timeout=PATIENCE_S).json()["kernels"]
        assert [kernel["properties"] for kernel in kernels if kernel["op"] == "attention"] == [PROPERTIES[:2]]
        for more, body, field in (({"window_right": 2}, raw(problem, operands), "window_right"),
                                  ({"lens": "ragged"}, raw(problem, operands, starts), "lens"),
                                  ({"alibi": 1}, raw(problem, operands, vectors=bias), "alibi"),
                                  ({"sinks": 1}, raw(problem, operands, vectors=vectors), "sinks"),
                                  ({"sinks": 1, "kernel": "attention"}, raw(problem, operands, vectors=vectors),
                                   "sinks"),
                                  ({"window_right": 0}, raw(problem, operands), None),
                                  ({"window_right": 2, "causal": 1}, raw(problem, operands), None)):
            answer = daemon.session.post(f"{url}/attention", params={**problem.parameters(), **more}, data=body,
                                         timeout=PATIENCE_S, headers={"Content-Type": RAW})
            assert answer.status_code == (422 if field else 200), answer.text
            if field:
                fault = answer.json()
                assert fault["type"].endswith("unsupported") and fault["field"] == field
                assert "is not offered on the cuda backend" in fault["detail"]
        daemon.stop()
    finally:
        daemon.close()
