"""gemmctl conv, reduce and softmax against a real daemon: files in and out, residents, --check, refusals."""

import io
import json
import os
import re
import signal
import socket
import subprocess
import threading
import types

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

import conv2d
from conv2d import Conv2d
from daemon import PATIENCE_S, PATIENT
from matrices import NUMPY
from test_formats import npy
from test_gemmctl import DONE, FAILED, NETWORK, REFUSED, USAGE, succeed
from test_limits import TARGET, ask
from test_reduce import OPS, assert_reduced
from test_softmax import assert_softmax
from wire import Wire

MISMATCH, INTERRUPTED = 5, 130
NAMES = {np.dtype(kind): name for name, kind in NUMPY.items()}


def load(path, dtype=None):
    """NumPy has no name for bf16."""
    array = np.load(path, allow_pickle=False)
    return array.view(ml_dtypes.bfloat16) if dtype == "bf16" else array


def as_answer(array):
    """A result as the oracles of the endpoints take it."""
    return types.SimpleNamespace(status_code=200, content=array.tobytes(), text="", headers={
        "Gemmd-Dtype": NAMES[array.dtype], "Gemmd-Shape": ",".join(map(str, array.shape))})


def wide(array):
    return array.astype(np.float64)


def write(folder, **arrays):
    for name, array in arrays.items():
        (folder / f"{name}.npy").write_bytes(npy(array))


# ---- reduce ----


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
@pytest.mark.parametrize("op", OPS)
def test_reduce(op, dtype, run, tmp_path, rng):
    x = rng.normal(size=(5, 70, 3)).astype(NUMPY[dtype])
    write(tmp_path, x=x)
    out = "i32" if op == "argmax" else dtype
    for axis in (0, -2, 2):
        succeed(run("reduce", "x.npy", "-o", "y.npy", "--op", op, "--axis", axis, "--check", "--dtype", dtype))
        got = load(tmp_path / "y.npy", out)
        assert got.shape == tuple(np.delete(x.shape, axis))
        assert_reduced(as_answer(got), wide(x), op, axis, dtype)


def test_keepdims_out_and_whole_arrays(run, tmp_path, rng):
    x = rng.integers(-128, 128, (4, 6)).astype(np.int8)
    write(tmp_path, x=x, v=x[0])
    succeed(run("reduce", "x.npy", "-o", "y.npy", "--axis", "0", "--keepdims", "--out", "f64"))
    got = np.load(tmp_path / "y.npy")
    assert got.shape == (1, 6) and np.array_equal(got[0], x.sum(0, dtype=np.float64))
    succeed(run("reduce", "v.npy", "-o", "y.npy"))
    assert np.load(tmp_path / "y.npy").tolist() == [x[0].sum(dtype=np.int64)]


@pytest.mark.parametrize("order", ["C", "F"])
def test_reduce_in_every_format(order, run, tmp_path, rng):
    x = np.asarray(rng.normal(size=(6, 5, 4)).astype(np.float32), order=order)
    write(tmp_path, x=x)
    (tmp_path / "x.bin").write_bytes(x.tobytes())
    (tmp_path / "any.safetensors").write_bytes(safetensors.numpy.save({"any.name": np.ascontiguousarray(x)}))
    options = ["--op", "mean", "--axis", "1"]
    piped = succeed(run("reduce", "-", *options, stdin=npy(x))).stdout
    expected = np.load(io.BytesIO(piped))
    assert_reduced(as_answer(expected), wide(x), "mean", 1, "f32")
    succeed(run("reduce", "x.bin", "-o", "y.bin", "--shape", "6,5,4", *options))
    assert (tmp_path / "y.bin").read_bytes() == expected.tobytes()
    succeed(run("reduce", "any.safetensors", "-o", "y.safetensors", *options))
    assert np.array_equal(safetensors.numpy.load_file(tmp_path / "y.safetensors")["y"], expected)
    succeed(run("reduce", "x.npy", "-o", "z.npy", *options))
    assert np.array_equal(np.load(tmp_path / "z.npy"), expected)


# ---- softmax ----


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
def test_softmax(dtype, log, run, tmp_path, rng):
    x = (3 * rng.normal(size=(4, 5, 33))).astype(NUMPY[dtype])
    lens = rng.integers(0, 34, (4, 5)).astype(np.int32)
    write(tmp_path, x=x, lens=lens)
    options = ["--scale", "0.5", "--dtype", dtype, "--check"] + (["--log"] if log else [])
    succeed(run("softmax", "x.npy", "-o", "y.npy", *options))
    assert_softmax(as_answer(load(tmp_path / "y.npy", dtype)), wide(x), dtype, 0.5, log=log)
    succeed(run("softmax", "x.npy", "-o", "y.npy", "--lens", "lens.npy", *options))
    assert_softmax(as_answer(load(tmp_path / "y.npy", dtype)), wide(x), dtype, 0.5, lens, log)


def test_softmax_in_every_format(run, tmp_path, rng):
    x = rng.normal(size=(6, 9)).astype(np.float32)
    lens = rng.integers(0, 10, 6).astype(np.int32)
    (tmp_path / "x.bin").write_bytes(x.tobytes())
    (tmp_path / "lens.bin").write_bytes(lens.tobytes())
    (tmp_path / "both.safetensors").write_bytes(safetensors.numpy.save({"x": x, "lens": lens}))
    (tmp_path / "one.safetensors").write_bytes(safetensors.numpy.save({"logits": x}))
    piped = succeed(run("softmax", "-", "--lens", "-", stdin=npy(lens) + npy(x))).stdout
    expected = np.load(io.BytesIO(piped))
    assert_softmax(as_answer(expected), wide(x), "f32", lens=lens)
    succeed(run("softmax", "x.bin", "-o", "y.bin", "--lens", "lens.bin", "--shape", "6,9"))
    assert (tmp_path / "y.bin").read_bytes() == expected.tobytes()
    succeed(run("softmax", "both.safetensors", "-o", "y.safetensors"))
    assert np.array_equal(safetensors.numpy.load_file(tmp_path / "y.safetensors")["y"], expected)
    succeed(run("softmax", "one.safetensors", "-o", "y.npy"))
    assert_softmax(as_answer(np.load(tmp_path / "y.npy")), wide(x), "f32")
    # What reduce and conv write is what softmax reads.
    succeed(run("softmax", "y.safetensors", "-o", "z.npy"))
    assert_softmax(as_answer(np.load(tmp_path / "z.npy")), wide(expected), "f32")


# ---- conv ----

CONVS = {
    "plain": Conv2d(6, 9, 8, 4, 3, 2),
    "batch": Conv2d(4, 7, 7, 6, 3, 3, batch=3, groups=2, padding="same", bias=True, act="relu", alpha=-0.5),
    "nhwc": Conv2d(8, 9, 10, 8, 3, 3, groups=8, layout="nhwc", w_layout="krsc", stride=(2, 1), bias=True),
    "dilated": Conv2d(3, 12, 11, 5, 2, 3, dilation=(3, 2), padding=(2, 1, 0, 3), w_layout="krsc", act="gelu"),
    "i8": Conv2d(5, 6, 6, 3, 3, 3, dtype="i8", bias=True),
    "i8 to f32": Conv2d(5, 6, 6, 3, 3, 3, dtype="i8", out="f32", alpha=0.25, bias=True, layout="nhwc"),
    "f16": Conv2d(6, 6, 6, 3, 1, 1, dtype="f16", batch=2, act="silu"),
    "bf16": Conv2d(6, 6, 6, 3, 3, 3, dtype="bf16", bias=True),
}


def conv_options(problem):
    """What the files do not tell."""
    told = problem.options()
    given = ["groups", "stride", "dilation", "padding", "layout", "w_layout", "alpha", "act"]
    given += ["out"] if problem.out else []
    return [f"--{name.replace('_', '-')}={told[name]}" for name in given] + [f"--dtype={problem.dtype}"]


def conv_files(folder, operands):
    """Each operand in a file; the words that name them."""
    x, w, bias = operands
    write(folder, x=x, w=w, **({} if bias is None else {"bias": bias}))
    return ["x.npy", "w.npy"] + ([] if bias is None else ["--bias", "bias.npy"])


@pytest.mark.parametrize("which", CONVS)
def test_conv(which, run, tmp_path, rng):
    problem = CONVS[which]
    operands = conv2d.random_operands(problem, rng)
    succeed(run("conv", *conv_files(tmp_path, operands), "-o", "y.npy", "--check", *conv_options(problem)))
    got = load(tmp_path / "y.npy", problem.result)
    assert got.ndim == 4 and got.dtype == NUMPY[problem.result]
    conv2d.assert_right(problem, operands, got.tobytes())


@pytest.mark.parametrize("which", ["batch", "nhwc"])
def test_conv_in_every_format(which, run, tmp_path, rng):
    problem = CONVS[which]
    operands = conv2d.random_operands(problem, rng)
    options = conv_options(problem)
    succeed(run("conv", *conv_files(tmp_path, operands), "-o", "y.npy", *options))
    expected = np.load(tmp_path / "y.npy").tobytes()
    tensors = dict(zip(("x", "w", "bias"), operands))
    (tmp_path / "all.safetensors").write_bytes(safetensors.numpy.save(tensors))
    succeed(run("conv", "all.safetensors", "-o", "y.safetensors", *options))
    assert safetensors.numpy.load_file(tmp_path / "y.safetensors")["y"].tobytes() == expected
    for name, array in tensors.items():
        (tmp_path / f"{name}.bin").write_bytes(array.tobytes())
    sizes = [f"--{name}={getattr(problem, field)}" for name, field in (
        ("batch", "batch"), ("channels", "channels"), ("height", "height"), ("width", "width"),
        ("filters", "filters"), ("filter-h", "r"), ("filter-w", "s"))]
    succeed(run("conv", "x.bin", "w.bin", "--bias", "bias.bin", "-o", "y.bin", *sizes, *options))
    assert (tmp_path / "y.bin").read_bytes() == expected
    piped = succeed(run("conv", "-", "-", "--bias", "-", "--out-format", "raw", *options,
                        stdin=b"".join(map(npy, operands)))).stdout
    assert piped == expected


# ---- all of them ----


def test_residents_and_stores(run, tmp_path, rng):
    """X of reduce and softmax, X and W of conv; results of all three stay on the daemon."""
    problem = CONVS["batch"]
    operands = conv2d.random_operands(problem, rng)
    files = conv_files(tmp_path, operands)
    succeed(run("tensor", "put", "ctl.arrays.w", "w.npy"))
    succeed(run("tensor", "put", "ctl.arrays.x", "x.npy", "--contiguous"))
    try:
        files[1] = "tensor:ctl.arrays.w"
        succeed(run("conv", *files, "-o", "y.npy", *conv_options(problem)))
        conv2d.assert_right(problem, operands, np.load(tmp_path / "y.npy").tobytes())
        succeed(run("conv", "tensor:ctl.arrays.x", *files[1:], "-o", "again.npy", *conv_options(problem)))
        assert (tmp_path / "again.npy").read_bytes() == (tmp_path / "y.npy").read_bytes()
        assert b"stored, " in succeed(
            run("conv", *files, "--store", "ctl.arrays.v", *conv_options(problem))).stdout
        succeed(run("tensor", "get", "ctl.arrays.v", "-o", "v.npy"))
        assert (tmp_path / "v.npy").read_bytes() == (tmp_path / "y.npy").read_bytes()
        assert b"stored, 3x4x7x7 f32" in succeed(
            run("softmax", "tensor:ctl.arrays.x", "--store", "ctl.arrays.y")).stdout
        stored = succeed(run("reduce", "tensor:ctl.arrays.y", "--store", "ctl.arrays.z", "--json")).stdout
        assert json.loads(stored)["shape"] == [3, 4, 7]
        succeed(run("tensor", "get", "ctl.arrays.z", "-o", "z.npy"))
        assert np.allclose(np.load(tmp_path / "z.npy"), 1, rtol=1e-5)
    finally:
        run("tensor", "rm", *(f"ctl.arrays.{name}" for name in "vwxyz"))


def test_jobs(run, tmp_path, rng):
    x = rng.normal(size=(5, 40)).astype(np.float32)
    write(tmp_path, x=x, image=x.reshape(1, 1, 5, 40), w=np.full((1, 1, 1, 1), 2, np.float32))
    for command, right in ((["conv", "image.npy", "w.npy"], lambda got: np.array_equal(got[0, 0], 2 * x)),
                           (["reduce", "x.npy", "--op", "max"], lambda got: np.array_equal(got, x.max(1))),
                           (["softmax", "x.npy"], lambda got: np.allclose(got.sum(1), 1, rtol=1e-5))):
        (job,) = succeed(run(*command, "--async", "--timeout", "1m")).stdout.decode().split()
        assert succeed(run("job", "wait", job)).stdout == b"done\n"
        succeed(run("job", "result", job, "-o", "y.npy"))
        assert right(np.load(tmp_path / "y.npy"))
        succeed(run("job", "cancel", job))


RANDOM = {
    "reduce": (["reduce", "--random", "37x1001", "--op", "norm2"], "37 f32", "B/s", 37),
    "softmax": (["softmax", "--random", "4x5x300", "--dtype", "f16"], "4x5x300 f16", "B/s", 20),
    "conv": (["conv", "--random", "2x16x12x12", "--filters", "8", "--filter-h", "3", "--filter-w", "3",
              "--padding", "1"], "2x8x12x12 f32", "FLOP/s", 2 * 8 * 12),
}


@pytest.mark.parametrize("command", RANDOM)
def test_random_operands_and_reports(command, run, tmp_path):
    words, shape, unit, rows = RANDOM[command]
    dropped = succeed(run(*words, "--check", "--timing"))
    said = dropped.stderr.decode()
    assert dropped.stdout == b""
    assert re.search(rf"Y \(dropped\): {shape} by \w+ in [0-9.]+ ms, [0-9.]+ [kMGT]?{unit}, checked", said), said
    assert re.search(rf"kernel .* ms( +[0-9.]+ [kMGT]?{unit})?\n", said), said
    report = json.loads(succeed(run(*words, "--check", "--json", "--kernel", "naive", "--priority", "9")).stdout)
    assert (report["kernel"], report["output"]) == ("naive", None)
    check = report["check"]
    assert (check["rows_checked"], check["rows"], check["skipped"]) == (rows, rows, 0)
    assert check["elements"] == np.prod([int(dim) for dim in shape.split()[0].split("x")])
    assert report["gigaflops_per_second" if command == "conv" else "gigabytes_per_second"] > 0
    for name, seed in (("a", []), ("b", ["--seed", "1"]), ("c", ["--seed", "2"])):
        succeed(run(*words, "-o", f"{name}.npy", "-q", *seed))
    a, b, c = ((tmp_path / f"{name}.npy").read_bytes() for name in "abc")
    assert a == b and a != c


def test_rate_of_a_convolution(run):
    """Two operations for each multiply-add, of the groups that a filter sees."""
    report = json.loads(succeed(run("conv", "--random", "2x8x10x10", "--filters", "4", "--filter-h", "3",
                                    "--filter-w", "3", "--groups", "2", "--json")).stdout)
    flops = 2 * (8 // 2 * 3 * 3) * (2 * 4 * 8 * 8)
    assert report["gigaflops_per_second"] == pytest.approx(flops / report["elapsed_ms"] / 1e6)


# Words of gemmctl bench, members of the report, the line of the report, bytes and operations of a request.
BENCH = {
    "conv": (["--batch=2", "--channels=8", "--height=10", "--width=12", "--filters=4", "--filter-h=3", "--filter-w=5",
              "--groups=2", "--stride=1,2", "--layout=nhwc", "--w-layout=krsc", "--dtype=f16", "--act=relu"],
             {"op": "conv2d", "batch": 2, "channels": 8, "height": 10, "width": 12, "filters": 4, "filter_h": 3,
              "filter_w": 5, "groups": 2, "stride": [1, 2], "dilation": [1, 1], "padding": [0, 0, 0, 0],
              "layout": "nhwc", "dtype": "f16", "out": "f16"},
             "conv       2x8x10x12, 4 filters of 3x5 in 2 groups f16 to f16 by ",
             2 * (2 * 8 * 10 * 12 + 4 * 4 * 3 * 5 + 2 * 4 * 8 * 4), 2 * (4 * 3 * 5) * (2 * 4 * 8 * 4)),
    "reduce": (["--shape=3,40,5", "--op=argmax", "--axis=-2", "--dtype=bf16"],
               {"op": "reduce", "shape": [3, 40, 5], "reduction": "argmax", "axis": 1, "dtype": "bf16", "out": "i32"},
               "reduce     argmax over axis 1 of 3x40x5 bf16 to i32 by ", 2 * 3 * 40 * 5 + 4 * 3 * 5, None),
    "softmax": (["--shape=7,30", "--log", "--scale=0.5", "--dtype=f16", "--out=f32"],
                {"op": "softmax", "shape": [7, 30], "log": True, "dtype": "f16", "out": "f32"},
                "softmax    logarithm, 7x30 f16 to f32 by ", (2 + 4) * 7 * 30, None),
}


@pytest.mark.parametrize("command", BENCH)
def test_bench(command, run):
    """The rates are those of the request's operands, result and multiply-adds."""
    words, members, line, size, flops = BENCH[command]
    report = json.loads(succeed(run("bench", command, *words, "--requests=30", "--connections=3", "--json")).stdout)
    assert {name: report[name] for name in members} == members
    assert (report["requests"], report["errors"], report["connections"]) == (30, {}, 3)
    rate = report["requests_per_second"]
    assert report["gigabytes_per_second"] == pytest.approx(rate * size / 1e9)
    if flops is None:
        assert "gigaflops_per_second" not in report
    else:
        assert report["gigaflops_per_second"] == pytest.approx(rate * flops / 1e9)
    said = succeed(run("bench", command, *words, "--requests=8", "--kernel=naive")).stdout.decode()
    assert said.startswith(line + "naive, 8 connections\nanswered   8 in "), said
    rates = r"rate +[0-9.]+ requests/s, [0-9.]+ [kMG]?B/s" + ("" if flops is None else ", [0-9.]+ [kMGT]?FLOP/s") + "\n"
    assert re.search(rates, said), said


@pytest.mark.parametrize("command, line", [("conv", "conv       1x64x56x56, 64 filters of 3x3 f32 to f32 by "),
                                           ("reduce", "reduce     sum over axis 1 of 1024x1024 f32 to f32 by "),
                                           ("softmax", "softmax    1024x1024 f32 to f32 by ")])
def test_bench_without_sizes(command, line, run):
    assert succeed(run("bench", command, "--requests=1", "--connections=1")).stdout.decode().startswith(line)


@pytest.mark.parametrize("words, says", [
    (["conv", "--groups=3"], "must be a multiple of groups"), (["conv", "--heads=3"], "is not an option of bench conv"),
    (["conv", "--dtype=f64"], "--dtype is 'f64'"), (["reduce", "--axis=2"], "axis must be from -2 to 1"),
    (["softmax", "--shape=0"], "--shape is '0'"), (["softmax", "--lens=x.npy"], "is not an option of bench softmax"),
], ids=str)
def test_bench_of_what_is_not_offered(words, says, run):
    """Refused before a daemon is asked."""
    result = run("bench", *words, "--url=127.0.0.1:1")
    assert (result.returncode, says in result.stderr.decode()) == (USAGE, True), result


def test_numbers_that_are_not_finite_are_left_out_of_the_check(run, tmp_path):
    x = np.ones((4, 6), np.float32)
    x[1, 2], x[2, 3] = np.nan, np.inf
    write(tmp_path, x=x, image=x.reshape(1, 1, 4, 6), w=np.ones((1, 1, 1, 1), np.float32))
    for words, elements, skipped in ((["reduce", "x.npy"], 2, 2), (["softmax", "x.npy"], 12, 12),
                                     (["conv", "image.npy", "w.npy"], 22, 2)):
        check = json.loads(succeed(run(*words, "-o", "y.npy", "--check", "--json")).stdout)["check"]
        assert (check["elements"], check["skipped"]) == (elements, skipped), words


USAGES = [
    (["reduce"], "an operand is missing"), (["conv"], "--random SHAPE"), (["softmax"], "an operand is missing"),
    (["reduce", "x.npy", "x.npy"], "one too many"), (["reduce", "x.npy", "-o", "y.txt"], "suffix"),
    (["reduce", "x.npy", "-o", "y.npy", "--axis", "2"], "axis is 2"),
    (["reduce", "x.npy", "-o", "y.npy", "--axis", "-3"], "must be from -2 to 1"),
    (["reduce", "x.npy", "-o", "y.npy", "--axis", "rows"], "--axis"),
    (["reduce", "x.npy", "-o", "y.npy", "--op", "summ"], "did you mean sum"),
    (["reduce", "x.npy", "-o", "y.npy", "--shape", "3,5"], "shape"),
    (["reduce", "x.npy", "-o", "y.npy", "--out", "i32"], "not offered"),
    (["reduce", "x.bin", "-o", "y.npy"], "give --shape"),
    (["reduce", "x.bin", "-o", "y.npy", "--shape", "3,4,5"], "has 48 bytes"),
    (["reduce", "x.bin", "-o", "y.npy", "--shape", "3"], "more than its operand takes"),
    (["reduce", "two.safetensors", "-o", "y.npy"], "two.safetensors"),
    (["reduce", "x.npy", "--json"], "standard output"),
    (["reduce", "x.npy", "--check", "--async"], "leave out --async"),
    (["reduce", "x.npy", "--check", "--store", "a"], "--store"),
    (["reduce", "tensor:a", "-o", "y.npy", "--check"], "--check needs the operands"),
    (["reduce", "--random", "3x0"], "shape"), (["reduce", "--random", "3x4", "x.npy"], "name no files"),
    (["reduce", "--random", "3x4", "--shape", "3,4"], "leave out --shape"),
    (["softmax", "x.npy", "-o", "y.npy", "--seed", "1"], "--seed needs --random"),
    (["softmax", "i8.npy", "-o", "y.npy"], "offered in f64, f32, f16 and bf16"),
    (["softmax", "x.npy", "-o", "y.npy", "--lens", "x.npy"], "the lengths must be of type i32"),
    (["softmax", "x.npy", "-o", "y.npy", "--lens", "long.npy"], "number 1 is 5"),
    (["softmax", "two.safetensors", "-o", "y.npy"], "the tensors of a softmax are lens, x"),
    (["softmax", "x.npy", "-o", "y.npy", "--scale", "wide"], "--scale"),
    (["conv", "image.npy", "-o", "y.npy"], "W is missing; only a safetensors file"),
    (["conv", "image.npy", "w.npy", "-o", "y.npy", "--groups", "2"], "groups"),
    (["conv", "image.npy", "w.npy", "-o", "y.npy", "--padding", "1,2,3"], "--padding"),
    (["conv", "image.npy", "w.npy", "-o", "y.npy", "--stride", "0"], "--stride"),
    (["conv", "image.npy", "w.npy", "-o", "y.npy", "--layout", "bhsd"], "one of nchw, nhwc"),
    (["conv", "image.npy", "w.npy", "-o", "y.npy", "--filter-h", "3"], "filter"),
    (["conv", "x.npy", "w.npy", "-o", "y.npy"], "X has 2 dimensions"),
    (["conv", "image.npy", "w.npy", "-o", "y.npy", "--bias", "x.npy"], "the bias must be one vector"),
    (["conv", "image.npy", "large.npy", "-o", "y.npy"], "the filter covers 6 x 2"),
    (["conv", "x.bin", "x.bin", "-o", "y.npy"], "give --channels"),
    (["conv", "--random", "3x4"], "four sizes of X"), (["conv", "--random", "1x2x3x4"], "--filters"),
    (["conv", "--random", "1x2x3x4", "--height", "3"], "leave out --batch"),
]


@pytest.mark.parametrize("arguments, says", USAGES, ids=str)
def test_wrong_usage(arguments, says, run, tmp_path):
    """Nothing is sent: no daemon answers at this address."""
    x = np.ones((3, 4), np.float32)
    write(tmp_path, x=x, i8=x.astype(np.int8), long=np.array([1, 5, 2], np.int32),
          image=np.ones((1, 1, 5, 5), np.float32), w=np.ones((1, 1, 2, 2), np.float32),
          large=np.ones((1, 1, 6, 2), np.float32))
    (tmp_path / "x.bin").write_bytes(x.tobytes())
    (tmp_path / "two.safetensors").write_bytes(safetensors.numpy.save({"x": x, "y": x}))
    before = sorted(os.listdir(tmp_path))
    result = run(*arguments, "--url", "127.0.0.1:1", "--retries", "0")
    assert (result.returncode, says in result.stderr.decode()) == (USAGE, True), result
    assert sorted(os.listdir(tmp_path)) == before, "something stays behind"


COMMANDS = {"reduce": ["reduce", "x.npy"], "softmax": ["softmax", "x.npy"], "conv": ["conv", "image.npy", "w.npy"]}


@pytest.fixture
def files(tmp_path):
    write(tmp_path, x=np.ones((3, 4), np.float32), image=np.ones((1, 1, 5, 5), np.float32),
          w=np.ones((1, 1, 2, 2), np.float32))
    return sorted(os.listdir(tmp_path))


@pytest.mark.parametrize("command", COMMANDS)
def test_what_the_daemon_refuses(command, run, files, tmp_path):
    result = run(*COMMANDS[command], "-o", "y.npy", "--kernel", "nosuch", "--json")
    error = json.loads(result.stdout)["error"]
    assert (result.returncode, error["code"], error["http_status"]) == (FAILED, "UNSUPPORTED", 422)
    missing = [*COMMANDS[command][:-1], "tensor:ctl.not.there", "-o", "y.npy"]
    result = run(*missing)
    assert result.returncode == FAILED and b"there is no tensor 'ctl.not.there'" in result.stderr
    result = run(*COMMANDS[command], "-o", "no/such/y.npy")
    assert result.returncode == FAILED and b"no/such/y.npy" in result.stderr
    assert sorted(os.listdir(tmp_path)) == files


@pytest.mark.parametrize("command", COMMANDS)
def test_refused_for_a_while_and_out_of_reach(command, start, gemmctl, files, tmp_path):
    daemon = start("--queue-requests", "1", *PATIENT)
    words = [gemmctl, *COMMANDS[command], "-o", "y.npy"]
    with Wire(daemon.address) as first:
        first.send(ask(TARGET, 32))
        assert first.receive().status == 100
        result = subprocess.run([*words, "--retries", "1", "--url", daemon.url], cwd=tmp_path,
                                capture_output=True, timeout=PATIENCE_S, check=False)
    assert result.returncode == REFUSED and b"2 attempts" in result.stderr
    with socket.create_server(("127.0.0.1", 0)) as server:
        result = subprocess.run([*words, "--timeout", "200ms", "--url",
                                 f"127.0.0.1:{server.getsockname()[1]}"], cwd=tmp_path, capture_output=True,
                                timeout=PATIENCE_S, check=False)
    assert result.returncode == NETWORK and b"200 ms" in result.stderr
    assert sorted(os.listdir(tmp_path)) == files


@pytest.mark.parametrize("command", COMMANDS)
def test_reader_that_leaves(command, gemmctl, url, files, tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        result = subprocess.run([gemmctl, "--url", url, *COMMANDS[command]], cwd=tmp_path, stdout=writing,
                                stderr=subprocess.PIPE, timeout=PATIENCE_S, check=False)
    finally:
        os.close(writing)
    assert (result.returncode, result.stderr) == (-signal.SIGPIPE, b"")
    with open("/dev/full", "wb") as full:
        result = subprocess.run([gemmctl, "--url", url, *COMMANDS[command]], cwd=tmp_path, stdout=full,
                                stderr=subprocess.PIPE, timeout=PATIENCE_S, check=False)
    assert result.returncode == FAILED and b"No space left on device" in result.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_interrupt(command, gemmctl, files, tmp_path):
    """The request ends on both sides, and no half of a file stays."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_S)
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with subprocess.Popen([gemmctl, *COMMANDS[command], "-o", "y.npy", "--url", url], cwd=tmp_path,
                              stderr=subprocess.PIPE) as process:
            connection, _ = server.accept()
            connection.settimeout(PATIENCE_S)
            with connection:
                assert connection.recv(4) == b"POST"
                process.send_signal(signal.SIGINT)
                while connection.recv(65536):
                    pass
            said = process.communicate(timeout=PATIENCE_S)[1]
    assert process.returncode == INTERRUPTED
    assert b"interrupted; the request was cancelled" in said
    assert sorted(os.listdir(tmp_path)) == files


class Liar:
    """A daemon that passes one request on to a real one, and answers with another result."""

    def __init__(self, address, spoil):
        self.address, self.spoil = address, spoil
        self.server = socket.create_server(("127.0.0.1", 0))
        self.server.settimeout(PATIENCE_S)
        self.url = f"127.0.0.1:{self.server.getsockname()[1]}"
        self.thread = threading.Thread(target=self.serve)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.thread.join()
        self.server.close()

    def serve(self):
        connection, _ = self.server.accept()
        connection.settimeout(PATIENCE_S)
        with connection, socket.create_connection(self.address, PATIENCE_S) as daemon:
            client, answer = connection.makefile("rb"), daemon.makefile("rb")
            head = self.head(client)
            body = client.read(int(re.search(rb"(?i)content-length: (\d+)", head)[1]))
            daemon.sendall(head + body)
            head = self.head(answer)
            result = answer.read(int(re.search(rb"(?i)content-length: (\d+)", head)[1]))
            array = np.frombuffer(result, np.float32).copy()
            self.spoil(array)
            connection.sendall(head + array.tobytes())

    @staticmethod
    def head(stream):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += stream.readline()
        return head


@pytest.mark.parametrize("command, where", [("reduce", "[17]"), ("softmax", "[0, 0, 17]"),
                                            ("conv", "[0, 0, 1, 5]")])
@pytest.mark.parametrize("factor, wrong", [(1, 0), (1.001, 1), (np.nan, 1), (np.inf, 1)])
def test_wrong_answers(command, where, factor, wrong, gemmctl, url, tmp_path):
    """They are found, no file is left, and 5 is the exit status."""
    host, port = url.removeprefix("http://").split(":")

    def spoil(array):
        array[17] *= factor

    with Liar((host, int(port)), spoil) as liar:
        words = [word.replace("f16", "f32") for word in RANDOM[command][0]]
        result = subprocess.run([gemmctl, *words, "--check", "-o", "y.npy", "--retries", "0", "--url",
                                 liar.url], cwd=tmp_path, capture_output=True, timeout=PATIENCE_S,
                                check=False, env={**os.environ, "GEMMD_TOKEN": ""})
    if wrong == 0:
        assert result.returncode == DONE, result
        return
    assert result.returncode == MISMATCH, result
    said = result.stderr.decode()
    assert f"{wrong} of " in said and f"elements of Y are wrong; the first, at {where}, is " in said
    assert os.listdir(tmp_path) == []


def test_every_value_may_be_wrong(gemmctl, url, tmp_path):
    """Zeros in place of the result are no result."""
    host, port = url.removeprefix("http://").split(":")
    with Liar((host, int(port)), lambda array: array.fill(0)) as liar:
        result = subprocess.run([gemmctl, "reduce", "--random", "20x30", "--op", "argmax", "--check", "-o",
                                 "y.npy", "--url", liar.url], cwd=tmp_path, capture_output=True,
                                timeout=PATIENCE_S, check=False, env={**os.environ, "GEMMD_TOKEN": ""})
    assert result.returncode == MISMATCH and b"with an error of at most 0" in result.stderr
