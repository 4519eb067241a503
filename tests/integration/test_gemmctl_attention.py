"""gemmctl attention against a real daemon: files in and out, lse, residents, jobs, refusals."""

import io
import json

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy

from attention import Attention, assert_right, random_mask, random_operands, raw
from daemon import PATIENCE_S
from matrices import NUMPY
from test_formats import npy
from test_gemmctl import DONE, FAILED, USAGE, succeed

FILES = ("Q.npy", "K.npy", "V.npy")


@pytest.fixture(autouse=True)
def offered(url, session):
    kernels = session.get(f"{url}/info", timeout=PATIENCE_S).json()["kernels"]
    if not any(kernel["op"] == "attention" for kernel in kernels):
        pytest.skip("this daemon's device has no attention kernels")


def write(folder, arrays, names=FILES):
    for name, array in zip(names, arrays):
        (folder / name).write_bytes(npy(array))
    return list(names)


def load(path, dtype):
    """NumPy has no name for bf16."""
    array = np.load(path, allow_pickle=False)
    return array.view(ml_dtypes.bfloat16) if dtype == "bf16" else array


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_npy_files(layout, dtype, run, tmp_path, rng):
    problem = Attention(4, 9, 5, kv_heads=2, skv=11, dv=7, batch=3, dtype=dtype, layout=layout,
                        causal=True, window=6, scale=0.5, softcap=3)
    operands = random_operands(problem, rng)
    files = write(tmp_path, map(problem.stored, operands))
    options = ["--layout", layout, "--causal", "--window", 6, "--scale=0.5", "--softcap", 3]
    succeed(run("attention", *files, "-o", "O.npy", "--lse", "lse.npy", *options))
    got, lse = load(tmp_path / "O.npy", dtype), np.load(tmp_path / "lse.npy")
    assert got.shape == ((3, 4, 9, 7) if layout == "bhsd" else (3, 9, 4, 7))
    assert lse.shape == (3, 4, 9) and lse.dtype == np.float32
    assert_right(problem, operands, got.tobytes(), lse=lse)


def test_slopes_sinks_and_a_window_to_the_right(run, tmp_path, rng):
    problem = Attention(4, 9, 5, kv_heads=2, skv=11, dtype="f32", window_right=2)
    operands = random_operands(problem, rng)
    vectors = {name: rng.random(4).astype(np.float32) for name in ("slopes", "sinks")}
    files = write(tmp_path, operands)
    options = ["--window-right", 2]
    for name, values in vectors.items():
        (tmp_path / f"{name}.npy").write_bytes(npy(values))
        options += [f"--{name}", f"{name}.npy"]
    succeed(run("attention", *files, "-o", "O.npy", *options))
    assert_right(problem, operands, np.load(tmp_path / "O.npy").tobytes(), vectors=vectors)
    named = {**dict(zip("qkv", operands)), **vectors}
    (tmp_path / "all.safetensors").write_bytes(safetensors.numpy.save(named))
    succeed(run("attention", "all.safetensors", "-o", "same.npy", "--window-right", 2))
    assert (tmp_path / "same.npy").read_bytes() == (tmp_path / "O.npy").read_bytes()


def test_ragged_entries(run, tmp_path, rng):
    """Two entries, of 4 queries of 6 keys and of 5 queries of 5 keys."""
    problem = Attention(2, 9, 8, skv=11, dtype="f32", causal=True)
    operands = random_operands(problem, rng)
    files = write(tmp_path, operands)
    for name, values in (("lens_q", (0, 4, 9)), ("lens_kv", (0, 6, 11))):
        (tmp_path / f"{name}.npy").write_bytes(npy(np.array(values, np.int32)))
    options = ["--causal", "--ragged", "--lens-q", "lens_q.npy", "--lens-kv", "lens_kv.npy"]
    succeed(run("attention", *files, "-o", "O.npy", *options))
    got = np.load(tmp_path / "O.npy")
    assert got.shape == (1, 2, 9, 8)
    for queries, keys in ((slice(0, 4), slice(0, 6)), (slice(4, 9), slice(6, 11))):
        its = [operands[0][:, :, queries], operands[1][:, :, keys], operands[2][:, :, keys]]
        alone = Attention(2, its[0].shape[2], 8, skv=its[1].shape[2], dtype="f32", causal=True)
        assert_right(alone, its, got[:, :, queries].tobytes())
    refused = run("attention", *files, "-o", "O.npy", "--ragged")
    assert refused.returncode != DONE and b"lengths" in refused.stderr


def test_random_operands(run, tmp_path):
    """They depend on the seed, and K and V on their own sizes, too."""
    def attend(*options):
        succeed(run("attention", "--random", "2x4x9x8", "--dtype", "f32", "-o", "O.npy", *options))
        return np.load(tmp_path / "O.npy", allow_pickle=False)

    o = attend()
    assert o.shape == (2, 4, 9, 8) and np.isfinite(o).all() and np.unique(o).size > 100
    assert np.array_equal(attend("--seed", 1), o)
    assert not np.array_equal(attend("--seed", 2), o)
    assert attend("--kv-heads", 2, "--skv", 30, "--dv", 5).shape == (2, 4, 9, 5)
    dropped = run("attention", "--random", "2x4x9x8", "--causal")
    succeed(dropped)
    assert b"O (dropped): 2x4x9x8 f16" in dropped.stderr and dropped.stdout == b""


@pytest.mark.parametrize("arguments, says", [
    (["--random", "4x9x8"], b"--random is '4x9x8'; it must be BATCHxHEADSxLENGTHxSIZE"),
    (["--random", "1x4x9x8", "Q.npy"], b"--random makes Q, K and V; name no files and no sequence besides"),
    (["--random", "1x4x9x8", "--mask", "mask.npy"], b"name no files and no sequence besides"),
    (["--random", "1x4x9x8", "--sequence", "chat"], b"name no files and no sequence besides"),
    (["--random", "1x4x9x8", "--d", "8"], b"leave out --batch, --heads, --sq and --d"),
    (["--random", "1x4x9x8", "--kv-heads", "3"], b"heads must be a multiple of kv_heads"),
    (["--seed", "3", *FILES], b"--seed needs --random"),
    ([], b"an operand is missing; usage: gemmctl attention Q [K V] [-o O], or gemmctl attention --random"),
])
def test_random_operands_that_are_wrong(arguments, says, run):
    result = run("attention", *arguments)
    assert result.returncode == USAGE and says in result.stderr, result


@pytest.mark.parametrize("boolean", [False, True])
def test_a_mask_and_an_offset(boolean, run, tmp_path, rng):
    problem = Attention(4, 9, 5, kv_heads=2, skv=11, batch=3, dtype="f32", causal=True, offset=1)
    operands = random_operands(problem, rng)
    mask = random_mask(problem, rng, (3, 1, 9, 11), boolean)
    files = write(tmp_path, operands)
    (tmp_path / "mask.npy").write_bytes(npy(mask))
    succeed(run("attention", *files, "-o", "O.npy", "--mask", "mask.npy", "--causal", "--offset", 1))
    assert_right(problem, operands, np.load(tmp_path / "O.npy").tobytes(), mask=mask)


@pytest.mark.parametrize("options", [["--scale", "1e17"], ["--softcap", "1e17"]], ids=" ".join)
def test_numbers_whose_exponent_has_a_sign(options, run, tmp_path, rng):
    """Without scores, a row is the mean of V. In a query a "+" that is not percent-encoded is a space."""
    v = rng.uniform(-1, 1, (1, 2, 8, 4)).astype(np.float32)
    files = write(tmp_path, [np.zeros_like(v), np.ones_like(v), v])
    succeed(run("attention", *files, "-o", "O.npy", *options))
    mean = np.broadcast_to(v.mean(2, keepdims=True), v.shape)
    np.testing.assert_allclose(np.load(tmp_path / "O.npy"), mean, atol=1e-6)


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("rank", [2, 3])
def test_leading_dimensions_may_be_left_out(layout, rank, run, tmp_path, rng):
    problem = Attention(1 if rank == 2 else 3, 6, 4, skv=5, dv=2, dtype="f32", layout=layout)
    operands = random_operands(problem, rng)
    arrays = [problem.stored(array)[0] if rank == 3 else array[0, 0] for array in operands]
    files = write(tmp_path, arrays)
    report = json.loads(succeed(run("attention", *files, "-o", "O.npy", "--lse", "lse.npy",
                                    "--layout", layout, "--json")).stdout)
    got = np.load(tmp_path / "O.npy")
    assert got.shape == arrays[0].shape[:-1] + (2,)
    assert report["shape"] == list(got.shape) and report["lse"] == "lse.npy"
    assert np.load(tmp_path / "lse.npy").shape == ((6,) if rank == 2 else (3, 6))
    assert_right(problem, operands, got.tobytes())


def test_one_safetensors_file_with_lengths(run, tmp_path, rng):
    problem = Attention(2, 6, 4, batch=2, dtype="f32")
    operands = random_operands(problem, rng)
    lens = ([6, 3], [2, 6])
    tensors = dict(zip("qkv", operands), lens_q=np.array(lens[0], np.int32),
                   lens_kv=np.array(lens[1], np.int32))
    (tmp_path / "in.safetensors").write_bytes(safetensors.numpy.save(tensors))
    succeed(run("attention", "in.safetensors", "-o", "out.safetensors", "--lse",
                "lse.safetensors"))
    got = safetensors.numpy.load_file(tmp_path / "out.safetensors")
    lse = safetensors.numpy.load_file(tmp_path / "lse.safetensors")
    assert set(got) == {"o"} and set(lse) == {"lse"}
    assert_right(problem, operands, got["o"].tobytes(), lens, lse["lse"])


def test_raw_files(run, tmp_path, rng):
    problem = Attention(4, 6, 5, kv_heads=2, skv=7, dv=3, batch=2, dtype="bf16", layout="bshd")
    operands = random_operands(problem, rng)
    files = [f"{name}.bin" for name in "qkv"]
    for name, array in zip(files, operands):
        (tmp_path / name).write_bytes(problem.stored(array).tobytes())
    words = [f"--{name.replace('_', '-')}={value}"
             for name, value in problem.parameters().items()]
    succeed(run("attention", *files, "-o", "o.bin", *words))
    assert_right(problem, operands, (tmp_path / "o.bin").read_bytes())


def test_pipes_and_lengths_of_entries(run, tmp_path, rng):
    """In the order of a request's body: the lengths, Q, K, V."""
    problem = Attention(2, 6, 4, batch=2, dtype="f32")
    operands = random_operands(problem, rng)
    lens = ([6, 3], [2, 6])
    arrays = [np.array(x, np.int32) for x in lens] + operands
    result = succeed(run("attention", "-", "-", "-", "--lens-q", "-", "--lens-kv=-",
                         stdin=b"".join(map(npy, arrays))))
    assert_right(problem, operands, np.load(io.BytesIO(result.stdout)).tobytes(), lens)
    files = write(tmp_path, operands) + ["--lens-q", "lq.npy", "--lens-kv", "lkv.npy"]
    write(tmp_path, arrays[:2], ("lq.npy", "lkv.npy"))
    piped = succeed(run("attention", *files, "--out-format", "raw")).stdout
    assert piped == np.load(io.BytesIO(result.stdout)).tobytes()


def test_fortran_order(run, tmp_path, rng):
    problem = Attention(2, 6, 4, batch=2, dtype="f32")
    operands = random_operands(problem, rng)
    files = write(tmp_path, map(np.asfortranarray, operands))
    succeed(run("attention", *files, "-o", "O.npy"))
    assert_right(problem, operands, np.load(tmp_path / "O.npy").tobytes())


@pytest.mark.parametrize("which", ["k", "v", "kv"])
def test_resident_k_and_v(which, run, tmp_path, rng):
    problem = Attention(4, 6, 5, kv_heads=2, skv=9, dv=3, batch=2, dtype="f32")
    operands = random_operands(problem, rng)
    files = write(tmp_path, operands)
    try:
        for name in which:
            place = "qkv".index(name)
            succeed(run("tensor", "put", f"ctl-attention-{name}", files[place]))
            files[place] = f"tensor:ctl-attention-{name}"
        succeed(run("attention", *files, "-o", "O.npy", "--lse", "lse.npy"))
    finally:
        for name in which:
            run("tensor", "rm", f"ctl-attention-{name}")
    assert_right(problem, operands, np.load(tmp_path / "O.npy").tobytes(),
                 lse=np.load(tmp_path / "lse.npy"))


def test_from_hand_in_to_result(run, tmp_path, rng):
    problem = Attention(2, 30, 16, dtype="f32", causal=True)
    operands = random_operands(problem, rng)
    files = write(tmp_path, operands)
    (job,) = succeed(run("attention", *files, "--causal", "--async", "--timeout",
                         "1m")).stdout.decode().split()
    assert succeed(run("job", "wait", job)).stdout == b"done\n"
    succeed(run("job", "result", job, "-o", "O.npy"))
    assert_right(problem, operands, np.load(tmp_path / "O.npy").tobytes())
    succeed(run("job", "cancel", job))


def test_a_job_that_was_handed_in_with_lse(run, url, session, tmp_path, rng):
    """Its answer is a safetensors file with both; the result is what is fetched."""
    problem = Attention(2, 3, 4, dtype="f32")
    operands = random_operands(problem, rng)
    answer = session.post(f"{url}/attention", params={**problem.parameters(), "lse": 1},
                          data=raw(problem, operands), timeout=PATIENCE_S,
                          headers={"Accept": "application/vnd.safetensors",
                                   "Prefer": "respond-async"})
    assert answer.status_code == 202, answer.text
    job = answer.headers["Location"].rsplit("/", 1)[1]
    assert succeed(run("job", "wait", job)).stdout == b"done\n"
    succeed(run("job", "result", job, "-o", "O.npy"))
    assert_right(problem, operands, np.load(tmp_path / "O.npy").tobytes())
    succeed(run("job", "cancel", job))


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_lse_of_a_job(layout, run, tmp_path, rng):
    """Asked for when it is handed in, fetched with the result, in any format."""
    problem = Attention(4, 5, 8, kv_heads=2, skv=7, dv=3, batch=2, dtype="f32", layout=layout)
    operands = random_operands(problem, rng)
    files = write(tmp_path, map(problem.stored, operands))
    (job,) = succeed(run("attention", *files, "--layout", layout, "--async",
                         "--with-lse")).stdout.decode().split()
    succeed(run("job", "wait", job))
    report = json.loads(succeed(run("job", "result", job, "-o", "O.npy", "--lse", "lse.safetensors",
                                    "--json")).stdout)
    lse = safetensors.numpy.load_file(tmp_path / "lse.safetensors")["lse"]
    assert lse.shape == (2, 4, 5) and report["lse"] == "lse.safetensors"
    assert_right(problem, operands, np.load(tmp_path / "O.npy").tobytes(), lse=lse)
    assert succeed(run("job", "result", job, "-o", "o.bin", "--lse", "-", "--format",
                       "raw")).stdout == lse.tobytes()
    succeed(run("job", "cancel", job))


@pytest.mark.parametrize("lse, says", [("lse.npy", "--with-lse"), ("O.npy", "same file")])
def test_lse_that_a_job_does_not_have(lse, says, run, tmp_path, rng):
    files = write(tmp_path, random_operands(Attention(2, 3, 4, dtype="f32"), rng))
    (job,) = succeed(run("attention", *files, "--async")).stdout.decode().split()
    succeed(run("job", "wait", job))
    before = sorted(path.name for path in tmp_path.iterdir())
    result = run("job", "result", job, "-o", "O.npy", "--lse", lse)
    assert (result.returncode, says in result.stderr.decode()) == (USAGE, True), result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == before, "something stays behind"
    succeed(run("job", "cancel", job))


def test_report(run, tmp_path, rng):
    problem = Attention(2, 3, 4, batch=2)
    files = write(tmp_path, random_operands(problem, rng))
    said = succeed(run("attention", *files, "-o", "O.npy", "--timing"))
    assert b"O.npy: 2x2x3x4 f16 by tiled in" in said.stderr and b"kernel" in said.stderr
    report = json.loads(succeed(run("attention", *files, "-o", "O.npy", "--json",
                                    "--kernel=naive", "--priority=9")).stdout)
    assert report["kernel"] == "naive" and report["shape"] == [2, 2, 3, 4]
    assert report["bytes"] == np.load(tmp_path / "O.npy").nbytes == 2 * 2 * 3 * 4 * 2
    assert "lse" not in report and report["batch"] == 1


@pytest.mark.parametrize("arguments, status, says", [
    (["Q.npy", "K.npy", "-o", "O.npy"], USAGE, "V is missing"),
    (["Q.npy", "-o", "O.npy"], USAGE, "K is missing; only a safetensors file"),
    (["Q.npy", "K.npy", "V.npy", "-o", "O.npy", "--lens-q", "lens.npy"], USAGE,
     "the request lacks the lengths of K and V"),
    (["Q.npy", "K.npy", "V.npy", "-o", "O.npy", "--lens-q", "Q.npy", "--lens-kv", "lens.npy"],
     USAGE, "the lengths of Q must be one vector"),
    (["Q.npy", "K.npy", "V.npy", "-o", "O.npy", "--lens-q", "lens.npy", "--lens-kv", "long.npy"],
     USAGE, "number 0 is 9"),
    (["Q.npy", "K.npy", "V.npy", "-o", "O.npy", "--layout", "sbhd"], USAGE, "bhsd"),
    (["Q.npy", "K.npy", "V.npy", "-o", "O.npy", "--heads", "3"], USAGE, "heads is 2"),
    (["Q.npy", "K.npy", "V.npy", "-o", "O.npy", "--alpha", "3"], USAGE,
     "not an option of attention"),
    (["Q.npy", "K.npy", "V.npy", "-o", "O.npy", "--lse", "O.npy"], USAGE, "same file"),
    (["Q.npy", "K.npy", "V.npy", "--async", "--lse", "lse.npy"], USAGE, "--with-lse"),
    (["Q.npy", "K.npy", "V.npy", "-o", "O.npy", "--with-lse"], USAGE,
     "--with-lse needs --async"),
    (["Q.npy", "K.npy", "wide.npy", "-o", "O.npy"], USAGE, "heads of 1 to 256"),
    (["Q.npy", "K.npy", "V.npy", "-o", "O.npy", "--kernel", "nosuch"], FAILED, "nosuch"),
    (["Q.npy", "tensor:not-there", "V.npy", "-o", "O.npy"], FAILED, "404"),
    (["Q.bin", "K.npy", "V.npy", "-o", "O.npy"], USAGE,
     "give --heads, --sq and --d"),
    (["Q.npy", "K.npy", "V.npy", "-o", "O.npy", "--lse", "no/such/lse.npy"], FAILED, "no/such"),
], ids=str)
def test_refusals(arguments, status, says, run, tmp_path, rng):
    write(tmp_path, random_operands(Attention(2, 3, 4, skv=5, dtype="f32"), rng))
    np.save(tmp_path / "lens.npy", np.ones(1, np.int32))
    np.save(tmp_path / "long.npy", np.full(1, 9, np.int32))
    np.save(tmp_path / "wide.npy", np.ones((1, 2, 5, 257), np.float32))
    (tmp_path / "Q.bin").write_bytes(bytes(96))
    before = sorted(path.name for path in tmp_path.iterdir())
    result = run("attention", *arguments)
    assert (result.returncode, says in result.stderr.decode()) == (status, True), result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == before, "something stays behind"


def test_dtypes_have_names(run, tmp_path, rng):
    """A file of plain bytes is f16 unless --dtype says another."""
    problem = Attention(1, 3, 4)
    operands = random_operands(problem, rng)
    for name, array in zip("qkv", operands):
        (tmp_path / f"{name}.bin").write_bytes(array.tobytes())
    result = run("attention", "q.bin", "k.bin", "v.bin", "-o", "O.npy", "--heads=1", "--sq=3",
                 "--d=4")
    assert result.returncode == DONE, result.stderr
    got = np.load(tmp_path / "O.npy")
    assert got.dtype == NUMPY["f16"] and got.shape == (1, 1, 3, 4)


def test_bench(run):
    report = json.loads(succeed(run("bench", "attention", "--heads=2", "--sq=40", "--skv=60",
                                    "--d=16", "--causal", "--requests", "30", "--connections", "3",
                                    "--json")).stdout)
    assert (report["op"], report["requests"], report["errors"]) == ("attention", 30, {})
    assert (report["heads"], report["sq"], report["skv"], report["dv"]) == (2, 40, 60, 16)
    assert report["requests_per_launch"] >= 1 and report["causal"] is True
    flops = 2 * 2 * 2 * 16 * sum(range(21, 61))  # two products over the pairs that are seen
    assert report["gigaflops_per_second"] == pytest.approx(
        report["requests_per_second"] * flops / 1e9)
    assert b"attention  8 heads on 8, 5 queries" in succeed(
        run("bench", "attention", "--sq=5", "--d=8", "--requests", "8")).stdout
    assert run("bench", "attention", "-m", "3", "--requests", "8").returncode == USAGE
