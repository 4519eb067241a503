"""gemmctl gemm --random and --check: products that are right, and answers that are not."""

import json
import os
import re
import socket
import subprocess
import threading

import ml_dtypes
import numpy as np
import pytest

from daemon import PATIENCE_S
from test_formats import npy
from test_gemmctl import DONE, USAGE, succeed

MISMATCH = 5


@pytest.mark.parametrize("options", [
    ["--dtype", "f64"], ["--dtype", "f32"], ["--dtype", "f16"], ["--dtype", "bf16", "--out", "f32"],
    ["--dtype", "i8"], ["--dtype", "i8", "--alpha", "-123456", "--act", "relu"],
    ["--dtype", "i8", "--out", "f32", "--act", "silu"], ["--transa", "--batch", "3", "--alpha", "0.3"],
    ["--transb", "--act", "gelu"], ["--dtype", "f16", "--act", "gelu_tanh", "--transa", "--transb"],
    ["--precision", "tf32"], ["--dtype", "bf16"], ["--dtype", "f8_e4m3", "--out", "f32"],
    ["--dtype", "f8_e4m3", "--precision", "f8"]], ids=" ".join)
def test_right(options, run):
    report = json.loads(succeed(run("gemm", "--random", "37x29x300", *options, "--check", "--json")).stdout)
    rows = 37 * int(options[options.index("--batch") + 1]) if "--batch" in options else 37
    assert report["output"] is None
    check = report["check"]
    assert (check["elements"], check["skipped"], check["rows_checked"]) == (rows * 29, 0, rows)
    assert 0 <= check["largest_error"] <= 1


@pytest.mark.parametrize("command", [
    "gemm --random 5x6x7 --alpha 1e17", "gemm --random 5x6x7 --dtype f64 --alpha 2.5e+30",
    "conv --random 1x2x5x5 --filters 3 --filter-h 3 --filter-w 3 --alpha 1e17",
    "softmax --random 3x40 --scale 1e17"])
def test_numbers_whose_exponent_has_a_sign(command, run):
    """In a query a "+" that is not percent-encoded is a space."""
    result = run(*command.split(), "--check")
    assert result.returncode == DONE and b"checked" in result.stderr, result.stderr


def test_beta_with_an_exponent(run, tmp_path):
    for name in ("A", "B", "c0"):
        (tmp_path / f"{name}.npy").write_bytes(npy(np.ones((2, 2))))
    succeed(run("gemm", "A.npy", "B.npy", "-o", "C.npy", "--c0", "c0.npy", "--beta", "1e17"))
    np.testing.assert_array_equal(np.load(tmp_path / "C.npy"), np.full((2, 2), 1e17 + 2))


def test_bias_c0_and_files(run, tmp_path, rng):
    for name, shape in (("A", (2, 6, 40)), ("B", (2, 40, 9)), ("c0", (2, 6, 9)), ("bias", (9,))):
        (tmp_path / f"{name}.npy").write_bytes(npy(rng.uniform(-1, 1, shape).astype(np.float32)))
    result = succeed(run("gemm", "A.npy", "B.npy", "-o", "C.npy", "--bias", "bias.npy", "--c0", "c0.npy",
                         "--beta", "-1.5", "--act", "silu", "--check"))
    assert b"C.npy: 2x6x9 f32" in result.stderr and b"checked" in result.stderr


@pytest.mark.parametrize("dtype, bits, not_finite", [
    (np.float16, 16, 2 * 1024), (ml_dtypes.bfloat16, 16, 2 * 128)])
def test_every_number(dtype, bits, not_finite, run, tmp_path):
    """Each number of a type, times 1, is the same number in f32. What is not finite is left out."""
    numbers = np.arange(2 ** bits, dtype=np.uint32).astype(np.uint16)
    (tmp_path / "a.bin").write_bytes(numbers.tobytes())
    (tmp_path / "b.bin").write_bytes(np.ones(1, dtype).tobytes())
    name = "f16" if dtype is np.float16 else "bf16"
    report = json.loads(succeed(run("gemm", "a.bin", "b.bin", "-o", "c.npy", "-m", 2 ** bits, "-n", 1,
                                    "-k", 1, "--dtype", name, "--out", "f32", "--check",
                                    "--json")).stdout)
    assert report["check"]["skipped"] == not_finite
    assert report["check"]["elements"] == 2 ** bits - not_finite
    finite = np.isfinite(numbers.view(dtype).astype(np.float32))
    assert np.array_equal(np.load(tmp_path / "c.npy").ravel()[finite],
                          numbers.view(dtype).astype(np.float32)[finite])


def test_seeds(run, tmp_path):
    """The same seed makes the same product, another seed another one."""
    for name, options in (("C", []), ("D", ["--seed", "1"]), ("E", ["--seed", "2"])):
        succeed(run("gemm", "--random", "8x9x10", "-o", f"{name}.npy", *options))
    c, d, e = (np.load(tmp_path / f"{name}.npy") for name in "CDE")
    assert np.array_equal(c, d) and not np.array_equal(c, e)
    assert np.unique(c).size == c.size


def test_random_operands_travel_everywhere(run):
    """As a job, to a tensor on the daemon, and dropped: nothing on standard output."""
    job = succeed(run("gemm", "--random", "4x5x6", "--async")).stdout.decode().strip()
    succeed(run("job", "wait", job))
    succeed(run("job", "cancel", job))
    assert b"stored, 4x5 f32" in succeed(run("gemm", "--random", "4x5x6", "--store", "random.c")).stdout
    succeed(run("tensor", "rm", "random.c"))
    dropped = succeed(run("gemm", "--random", "4x5x6", "--timing"))
    assert dropped.stdout == b""
    assert re.search(r"4x5 f32 by \w+ in [0-9.]+ ms, [0-9.]+ [kMGT]?FLOP/s", dropped.stderr.decode())
    assert re.search(r"kernel .* ms( +[0-9.]+ [kMGT]?FLOP/s)?\n", dropped.stderr.decode())


@pytest.mark.parametrize("arguments, says", [
    (["--random", "3x4"], "MxNxK"), (["--random", "0x4x5"], "MxNxK"), (["--random", "3x4x5x6"], "MxNxK"),
    (["--random", "3x4x5", "A.npy"], "name no files"), (["--random", "3x4x5", "-m", "3"], "leave out --m"),
    (["--seed", "3", "A.npy", "A.npy", "-o", "C.npy"], "--seed needs --random"),
    (["--random", "3x4x5", "--seed", "-1"], "whole number"), ([], "an operand is missing"),
    (["--random", "3x4x5", "--check", "--async"], "leave out --async"),
    (["--random", "3x4x5", "--check", "--store", "x"], "--store"),
    (["A.npy", "tensor:x", "-o", "C.npy", "--check"], "--check needs the operands")])
def test_mistakes(arguments, says, run, tmp_path):
    (tmp_path / "A.npy").write_bytes(npy(np.ones((2, 2), np.float32)))
    result = run("gemm", *arguments)
    assert result.returncode == USAGE and says in result.stderr.decode(), result


class Liar:
    """A daemon that answers POST /gemm of raw f32 operands of one shape with `answer`(a, b)."""

    def __init__(self, m, n, k, answer):
        self.shape, self.answer = (m, n, k), answer
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
        m, n, k = self.shape
        connection, _ = self.server.accept()
        connection.settimeout(PATIENCE_S)
        with connection:
            stream = connection.makefile("rb")
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += stream.readline()
            if b"100-continue" in head.lower():
                connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            values = np.frombuffer(stream.read(4 * (m * k + k * n)), np.float32)
            c = self.answer(values[:m * k].reshape(m, k), values[m * k:].reshape(k, n))
            body = np.ascontiguousarray(c, np.float32).tobytes()
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nGemmd-Dtype: f32\r\n"
                               b"Gemmd-Shape: %d,%d\r\n\r\n" % (len(body), m, n) + body)


def one_wrong(a, b):
    c = (a.astype(np.float64) @ b).astype(np.float32)
    # More than rounding explains: k + 8 units of f32 relative to the sum of magnitudes.
    c[7, 3] += 1.01 * (a.shape[1] + 8 + 1) * 2.0 ** -24 * (np.abs(a[7]) @ np.abs(b[:, 3])) + 1e-30
    return c


@pytest.mark.parametrize("answer, wrong", [
    (lambda a, b: a.astype(np.float64) @ b, 0),
    (one_wrong, 1),
    (lambda a, b: np.where(np.arange(9) == 2, np.nan, a @ b), 20),
    (lambda a, b: np.where(np.arange(9) == 2, np.inf, a @ b), 20),
    (lambda a, b: np.zeros((20, 9)), 180)], ids=["right", "one", "nan", "inf", "zeros"])
def test_wrong_answers(answer, wrong, gemmctl, tmp_path):
    """They are found, no file is left, and 5 is the exit status."""
    with Liar(20, 9, 50, answer) as liar:
        result = subprocess.run([gemmctl, "gemm", "--random", "20x9x50", "--check", "-o", "C.npy",
                                 "--retries", "0", "--url", liar.url], cwd=tmp_path, capture_output=True,
                                timeout=PATIENCE_S, check=False, env={**os.environ, "GEMMD_TOKEN": ""})
    if wrong == 0:
        assert result.returncode == DONE, result
        return
    assert result.returncode == MISMATCH, result
    assert f"{wrong} of 180 elements of C are wrong" in result.stderr.decode()
    if wrong == 1:
        assert "in row 7 and column 3 of problem 0" in result.stderr.decode()
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_large_products_are_checked_in_part(run):
    """More than 2^32 multiply-adds: every second row."""
    report = json.loads(succeed(run("gemm", "--random", "1050x2048x2048", "--check", "--json",
                                    "--timeout", "30m")).stdout)
    assert (report["check"]["rows_checked"], report["check"]["rows"]) == (525, 1050)
