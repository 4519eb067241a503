"""Every kernel that /info names, asked for by its name."""

import re
import subprocess

import pytest

from daemon import PATIENCE_S
from matrices import ACTS, OUTS, Problem, assert_right, random_operands
from problem import assert_problem

SHAPES = [(1, 1, 1), (1, 65, 33), (65, 1, 33), (65, 33, 1), (31, 33, 63), (127, 65, 129)]


def problems(name, kernel):
    for dtype, outs in kernel["dtypes"].items():
        for i, out in enumerate(outs):
            integer = out == "i32"
            for j, (m, n, k) in enumerate(SHAPES):
                act = ACTS[(i + j) % (2 if integer else len(ACTS))]
                yield Problem(m, n, k, dtype=dtype, out=out, transa=bool(j & 1),
                              transb=bool(j & 2), alpha=3 if integer else 0.3,
                              beta=(-7 if integer else 0.7) * (j % 2), bias=j % 3 == 0, act=act,
                              batch=1 + j % 2, kernel=name)


@pytest.fixture
def kernels(url, session):
    return {kernel["name"]: kernel for kernel in session.get(f"{url}/info").json()["kernels"]
            if kernel["op"] == "gemm"}


# The names on either backend; a name that this daemon's /info lacks has nothing to test here,
# and one that this list lacks is an error.
NAMES = ["naive", "tiled", "tiled_padded", "double_buffered", "register_tiled", "tensor_core",
         "openblas", "cublas", "grouped", "wgmma", "scaled", "packed"]


def test_all_names_are_known(kernels):
    assert set(kernels) <= set(NAMES), "a kernel that the test below does not ask for"
    assert len(kernels) >= 3


# The types of operands with scales, which only a kernel that takes no others lists.
SCALED = {"f8_e4m3": {"bf16", "f16", "f32"}, "i8": {"bf16", "f16", "f32"}}
FLOATS = {dtype: outs for dtype, outs in OUTS.items() if dtype in ("f64", "f32", "f16", "bf16")}
LISTED = {"naive": OUTS, "openblas": {dtype: outs for dtype, outs in OUTS.items() if dtype != "i8"},
          "cublas": OUTS, "grouped": OUTS, "scaled": SCALED,
          "packed": {dtype: OUTS[dtype] for dtype in ("f16", "bf16")}}


def test_kernels_list_the_types_that_they_compute(kernels):
    on_gpu = {"naive": FLOATS} if "cublas" in kernels else {}
    for name, types in (LISTED | on_gpu).items():
        if name in kernels:
            listed = {dtype: set(outs) for dtype, outs in kernels[name]["dtypes"].items()}
            assert listed == {dtype: set(outs) for dtype, outs in types.items()}, name


@pytest.mark.parametrize("name", NAMES)
def test_kernel_by_name(name, kernels, post, rng):
    if name in ("scaled", "packed"):
        pytest.skip("the kernel computes special operands only: test_scales.py, test_packed.py")
    for problem in problems(name, kernels.get(name, {"dtypes": {}})):
        operands = random_operands(problem, rng)
        answer = post(problem.parameters(), operands.raw())
        assert answer.status_code == 200, answer.text
        assert answer.headers["Gemmd-Kernel"] == name
        assert_right(problem, operands, answer.content, rng)


def test_a_kernel_that_cannot(kernels, post):
    """What a kernel does not list it refuses, and says who can."""
    for name, kernel in kernels.items():
        for dtype in OUTS:
            if dtype in kernel["dtypes"]:
                continue
            problem = Problem(1, 1, 1, dtype=dtype, kernel=name)
            size = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2}.get(dtype, 1)
            answer = post(problem.parameters(), bytes(2 * size))
            assert answer.status_code == 422, answer.text
            able = [other for other in kernels if dtype in kernels[other]["dtypes"]]
            assert any(other in answer.json()["detail"] for other in able), answer.text
    unknown = post({"m": 1, "n": 1, "k": 1, "kernel": "nosuch"}, bytes(8))
    assert unknown.status_code == 422


def test_kernels_are_left_out_by_name(start):
    daemon = start("--without-kernels", "tiled", "--no-access-log")
    info = daemon.session.get(f"{daemon.url}/info").json()
    left_out = info["kernels_left_out"]
    assert {"attention", "gemm"} <= {kernel["op"] for kernel in left_out} <= {"attention", "conv2d", "gemm"}
    assert {kernel["name"] for kernel in left_out} == {"tiled"}
    assert "tiled" not in {kernel["name"] for kernel in info["kernels"]}
    assert f"gemmd_kernels_left_out {len(left_out)}" in daemon.session.get(f"{daemon.url}/metrics").text.split("\n")
    answer = daemon.session.post(f"{daemon.url}/gemm?m=1&n=1&k=1&kernel=tiled", data=bytes(8))
    assert answer.status_code == 422, answer.text
    assert daemon.session.post(f"{daemon.url}/gemm?m=1&n=1&k=1", data=bytes(8)).content == bytes(4)


@pytest.mark.parametrize("op, query, size", [
    ("gemm", "m=1&n=1&k=1", 8), ("attention", "heads=1&sq=1&skv=1&d=16&dtype=f32", 192),
    ("reduce", "op=sum&shape=2", 8),
    ("softmax", "shape=2", 8), ("conv2d", "channels=1&height=1&width=1&filters=1&filter_h=1&filter_w=1", 8),
    ("experts", "m=1&n=1&k=1&count=1", 12)])
def test_an_unknown_kernel_is_answered_with_those_of_the_operation(op, query, size, url, session):
    info = session.get(f"{url}/info").json()
    names = [kernel["name"] for kernel in info["kernels"] if kernel["op"] == op]
    answer = session.post(f"{url}/{op}?{query}&kernel=nosuch", data=bytes(size))
    assert_problem(answer, 422, field="kernel")
    assert answer.json()["detail"] == (f"the {info['devices'][0]['backend']} backend has no kernel 'nosuch' for {op}; "
                                       f"it has: {', '.join(['auto', *names])}")


def test_a_kernel_that_cannot_be_left_out(gemmd):
    """The start ends with the names that --without-kernels may have."""
    result = subprocess.run([gemmd, "--listen", "127.0.0.1:0", "--backend", "cpu", "--without-kernels", "naive,nosuch"],
                            capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert result.returncode == 1
    assert re.search("the cpu backend has no kernel 'nosuch' for --without-kernels; it has: .*tiled", result.stderr)
