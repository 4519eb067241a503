"""The CPU backend on hosts that have little: one core, a part of a core, no AVX2, little memory; and numbers and shapes
that libraries treat in ways of their own."""

import itertools
import os
import shutil
import subprocess

import numpy as np
import pytest

import attention
import conv2d
from attention import Attention
from conv2d import Conv2d
from daemon import Daemon
from patience import PATIENCE_S
from problem import assert_problem
from test_lifecycle import WITH_QUOTA, flags_of_this_cpu

SMALL = ("--backend", "cpu", "--pinned-bytes", "64M", "--device-bytes", "64M", "--tensor-bytes", "16M")
OCTETS = {"Content-Type": "application/octet-stream"}
EMULATOR = shutil.which("qemu-x86_64")
# Sizes that fill no vector and no tile, and that `auto` gives to all kernels of products.
PRODUCTS = [(1, 1, 1), (1, 300, 77), (3, 5, 7), (64, 64, 64), (130, 70, 301)]
LAYERS = [dict(channels=1, height=1, width=1, filters=1, r=1, s=1),
          dict(channels=3, height=1, width=2, filters=5, r=1, s=2),
          dict(channels=7, height=2, width=3, filters=9, r=3, s=3, padding="same"),
          dict(channels=13, height=5, width=7, filters=13, r=3, s=3, groups=13, padding="same"),
          dict(channels=17, height=9, width=8, filters=31, r=3, s=3, batch=2)]


def post(daemon, path, body, **parameters):
    query = "&".join(f"{name}={value}" for name, value in parameters.items())
    answer = daemon.session.post(f"{daemon.url}/{path}?{query}", data=body, headers=OCTETS, timeout=PATIENCE_S)
    assert answer.status_code == 200, answer.text
    return answer.content


def multiply(daemon, a, b, **parameters):
    (m, k), n = a.shape, b.shape[1]
    dtype = {"float64": "f64", "float32": "f32", "float16": "f16", "int8": "i8"}[a.dtype.name]
    content = post(daemon, "gemm", a.tobytes() + b.tobytes(), m=m, n=n, k=k, dtype=dtype, **parameters)
    return np.frombuffer(content, np.int32 if dtype == "i8" else a.dtype).reshape(m, n)


def assert_computes(daemon, rng):
    """Computes with every operation, and compares the results with those of NumPy."""
    for (m, n, k), dtype in itertools.product(PRODUCTS, (np.float64, np.float32, np.float16, np.int8)):
        a, b = ((rng.integers(-100, 100, shape) if dtype == np.int8 else rng.standard_normal(shape)).astype(dtype)
                for shape in ((m, k), (k, n)))
        wide = np.int32 if dtype == np.int8 else np.float64
        exact = a.astype(wide) @ b.astype(wide)
        got = multiply(daemon, a, b)
        if dtype == np.int8:
            np.testing.assert_array_equal(got, exact)
        else:
            unit = {np.float64: 2.0 ** -53, np.float32: 2.0 ** -24, np.float16: 2.0 ** -11}[dtype]
            bound = (np.abs(a).astype(wide) @ np.abs(b).astype(wide)) * unit * (k + 2) + np.abs(exact) * unit
            assert (np.abs(got - exact) <= bound).all(), (m, n, k, dtype)
    for layer, layout in itertools.product(LAYERS, ("nchw", "nhwc")):
        problem = Conv2d(**layer, layout=layout)
        operands = conv2d.random_operands(problem, rng)
        conv2d.assert_right(problem, operands, post(daemon, "conv2d", conv2d.raw(operands), **problem.parameters()))
    problem = Attention(heads=3, sq=17, d=24, dtype="f32")
    operands = attention.random_operands(problem, rng)
    attention.assert_right(problem, operands,
                           post(daemon, "attention", attention.raw(problem, operands), **problem.parameters()))
    x = rng.standard_normal((7, 501)).astype(np.float32)
    weights = np.exp(x.astype(np.float64))
    weights /= weights.sum(axis=1, keepdims=True)
    got = np.frombuffer(post(daemon, "softmax", x.tobytes(), dtype="f32", shape="7,501"), np.float32)
    np.testing.assert_allclose(got.reshape(x.shape), weights, rtol=1e-5)
    for axis in (0, 1):
        got = np.frombuffer(post(daemon, "reduce", x.tobytes(), op="sum", dtype="f32", shape="7,501", axis=axis),
                            np.float32)
        np.testing.assert_allclose(got, x.astype(np.float64).sum(axis=axis), atol=1e-3)


def test_one_core_of_several(start, rng):
    core = max(os.sched_getaffinity(0))
    daemon = start(*SMALL, wrapper=("taskset", "--cpu-list", str(core)))
    assert os.sched_getaffinity(daemon.pid) == {core}
    assert_computes(daemon, rng)


def test_more_threads_than_cores(start, rng):
    core = max(os.sched_getaffinity(0))
    daemon = start(*SMALL, "--cpu-threads", "7", wrapper=("taskset", "--cpu-list", str(core)))
    assert_computes(daemon, rng)


@pytest.mark.skipif(subprocess.run([*WITH_QUOTA, "1", "true"], capture_output=True, check=False).returncode != 0,
                    reason="the system does not let this user mount a file system")
def test_half_a_core(start, rng):
    assert_computes(start(*SMALL, wrapper=(*WITH_QUOTA, "50000")), rng)


@pytest.mark.skipif(EMULATOR is None, reason="no qemu-x86_64")
@pytest.mark.skipif("pni" not in flags_of_this_cpu(), reason="no x86")  # pni: SSE3
def test_no_avx(gemmd, rng, sanitized):
    """A processor of 2008, emulated. The emulator does not end a process of several threads cleanly."""
    if sanitized:
        pytest.skip("the emulator has no addresses for the memory of a sanitizer")
    daemon = Daemon(gemmd, *SMALL, "--cpu-threads", "2", wrapper=(EMULATOR, "-cpu", "Nehalem"))
    try:
        daemon.wait_until_listening().wait_until_ready()
        info = daemon.session.get(f"{daemon.url}/info", timeout=PATIENCE_S).json()
        assert "Nehalem" in info["build"]["library"]
        assert info["kernels_left_out"] == []
        assert_computes(daemon, rng)
    finally:
        daemon.process.kill()
        daemon.close()


@pytest.mark.parametrize("kernel, dtype", [("openblas", np.float64), ("naive", np.float64), ("openblas", np.float32),
                                           ("tiled", np.float32), ("naive", np.float32)])
@pytest.mark.parametrize("m, n, k", [(1, 33, 5), (70, 80, 90), (300, 310, 320)])
def test_subnormal_numbers(m, n, k, dtype, kernel, start, rng):
    """As IEEE 754 says: neither subnormal operands nor subnormal sums count as 0."""
    least = float(np.finfo(dtype).smallest_subnormal)
    units, b = rng.integers(1, 8, (m, k)), rng.integers(1, 4, (k, n))
    got = multiply(start(*SMALL), (units * least).astype(dtype), b.astype(dtype), kernel=kernel)
    np.testing.assert_array_equal(got.astype(np.float64) / least, units @ b)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_memory_short_for_a_workspace(dtype, start):
    """A product whose operands are widened into more memory than there is."""
    daemon = start("--backend", "cpu", "--pinned-bytes", "64M", "--device-bytes", "2M", "--tensor-bytes", "16M")
    body = bytes(2 * 2 * 1024 * 1024)
    address = f"{daemon.url}/gemm?m=1024&n=1024&k=1024&dtype={dtype}&kernel="
    answer = daemon.session.post(address + "openblas", data=body, headers=OCTETS, timeout=PATIENCE_S)
    assert_problem(answer, 413, "--device-bytes")
    answer = daemon.session.post(address + "tiled", data=body, headers=OCTETS, timeout=PATIENCE_S)
    assert answer.status_code == 200, answer.text
    assert answer.content == bytes(2 * 1024 * 1024)
