"""gemmctl gemm with scales: files of their own, one file for all, and a weight on the daemon."""

import json

import numpy as np
import pytest
import safetensors.numpy

from scaling import ScaledProblem, assert_scaled, random_scaled
from test_formats import npy
from test_tensors import Tensors


def files(tmp_path, case, scaled):
    """Each operand in a file of raw bytes."""
    o = scaled.operands
    for name, array in (("a", o.a), ("b", o.b), ("a_scale", scaled.a_scale),
                        ("b_scale", scaled.b_scale)):
        (tmp_path / f"{name}.bin").write_bytes(array.tobytes())
    return ("-m", case.m, "-n", case.n, "-k", case.k, "--dtype", case.dtype, "--transb",
            "--scales", case.scales, "--out-format", "raw", "-o", "c.bin")


@pytest.mark.parametrize("dtype, scales", [("f8_e4m3", "rowcol"), ("f8_e4m3", "block"),
                                           ("i8", "rowcol")])
def test_files_and_tensors(dtype, scales, run, url, tmp_path, rng):
    case = ScaledProblem(7, 200, 300, dtype=dtype, scales=scales, transb=True)
    scaled = random_scaled(case, rng)
    options = files(tmp_path, case, scaled)
    done = run("gemm", "a.bin", "b.bin", "--a-scale", "a_scale.bin", "--b-scale", "b_scale.bin",
               *options)
    assert done.returncode == 0, done.stderr
    alone = (tmp_path / "c.bin").read_bytes()
    assert_scaled(case, scaled, alone)

    arrays = {"a": scaled.operands.a[0], "b": scaled.operands.b[0],
              "a_scale": scaled.a_scale[0], "b_scale": scaled.b_scale[0]}
    arrays_of_b = [np.ascontiguousarray(arrays[which]) for which in ("b", "b_scale")]
    for which, array in zip(("b", "b_scale"), arrays_of_b):
        (tmp_path / f"{which}.npy").write_bytes(npy(array))
    (tmp_path / "all.safetensors").write_bytes(safetensors.numpy.save(
        {name: np.ascontiguousarray(array) for name, array in arrays.items()}))
    done = run("gemm", "all.safetensors", "--transb", "--scales", scales, "--out-format", "raw",
               "-o", "c.bin")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "c.bin").read_bytes() == alone

    body = safetensors.numpy.save({"tensor": arrays_of_b[0], "scale": arrays_of_b[1]})
    (tmp_path / "b.safetensors").write_bytes(body)
    name = f"gemmctl.scaled.{dtype}.{scales}"
    try:
        for what, arguments in (
                ("uploaded,", ["b.safetensors"]), ("already there", ["b.safetensors"]),
                ("already there", ["b.npy", "--dtype", dtype, "--scale", "b_scale.npy"])):
            done = run("tensor", "put", name, *arguments)
            assert done.returncode == 0 and what in done.stdout.decode(), done
        (there,) = [tensor for tensor in Tensors(url).get().json()["tensors"]
                    if tensor["name"] == name]
        assert there["scale_shape"] == list(scaled.b_scale[0].shape)
        done = run("gemm", "a.bin", f"tensor:{name}", "--a-scale", "a_scale.bin", *options)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "c.bin").read_bytes() == alone
    finally:
        run("tensor", "rm", name)


def test_refusals(run, tmp_path, rng):
    case = ScaledProblem(3, 5, 7, dtype="i8", transb=True)
    options = files(tmp_path, case, random_scaled(case, rng))
    done = run("gemm", "a.bin", "b.bin", "--a-scale", "a_scale.bin", *options)
    assert done.returncode != 0 and b"needs the array b_scale" in done.stderr


@pytest.mark.parametrize("dtype, scales, out, transposed", [
    ("f8_e4m3", "rowcol", "bf16", True), ("f8_e4m3", "block", "f32", False),
    ("f8_e4m3", "block", "f32", True), ("i8", "rowcol", "f16", False), ("i8", "rowcol", "f32", True)])
def test_check(dtype, scales, out, transposed, run, tmp_path, rng):
    case = ScaledProblem(9, 200, 300, dtype=dtype, scales=scales, transa=transposed,
                         transb=transposed, batch=2)
    scaled = random_scaled(case, rng)
    files(tmp_path, case, scaled)
    options = ["-m", case.m, "-n", case.n, "-k", case.k, "--batch", case.batch, "--dtype", dtype,
               "--scales", scales, "--out", out, "-o", "c.bin", "--a-scale", "a_scale.bin",
               "--b-scale", "b_scale.bin"]
    options += ["--transa", "--transb"] if transposed else []
    done = run("gemm", "a.bin", "b.bin", "--check", "--json", *options)
    assert done.returncode == 0, done.stderr
    check = json.loads(done.stdout)["check"]
    assert (check["elements"], check["skipped"]) == (2 * 9 * 200, 0)
    assert 0 < check["largest_error"] <= 1


@pytest.mark.parametrize("arguments, says", [
    (["W.npy", "--scale", "s.npy"], "f32"), (["W8.npy", "--scale", "long.npy"], "scale"),
    (["W8.npy", "--scale", "zero.npy"], "positive"), (["W8.npy", "--scale", "nosuch.npy"], "nosuch.npy"),
    (["two.safetensors", "--scale", "s.npy"], "scales of its own"),
    (["W8.npy", "--scale", "odd.bin"], "no vector of f32")])
def test_tensors_that_take_no_scales(arguments, says, run, tmp_path):
    """They are refused before anything is sent."""
    w8, s = np.ones((2, 3), np.int8), np.ones(2, np.float32)
    for name, array in (("W", w8.astype(np.float32)), ("W8", w8), ("s", s), ("zero", 0 * s),
                        ("long", np.ones(7, np.float32))):
        (tmp_path / f"{name}.npy").write_bytes(npy(array))
    (tmp_path / "odd.bin").write_bytes(bytes(7))
    (tmp_path / "two.safetensors").write_bytes(safetensors.numpy.save({"tensor": w8, "scale": s}))
    done = run("tensor", "put", "gemmctl.no.scales", *arguments, "--url", "127.0.0.1:1")
    assert done.returncode == 2 and says in done.stderr.decode(), done
