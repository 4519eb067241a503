"""gemmctl gemm with scales: files of their own, one file for all, and a weight on the daemon."""

import numpy as np
import pytest
import safetensors.numpy

from scaling import ScaledProblem, assert_scaled, random_scaled
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
    (tmp_path / "all.safetensors").write_bytes(safetensors.numpy.save(
        {name: np.ascontiguousarray(array) for name, array in arrays.items()}))
    done = run("gemm", "all.safetensors", "--transb", "--scales", scales, "--out-format", "raw",
               "-o", "c.bin")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "c.bin").read_bytes() == alone

    tensors = Tensors(url)
    body = safetensors.numpy.save({"tensor": np.ascontiguousarray(scaled.operands.b[0]),
                                   "scale": np.ascontiguousarray(scaled.b_scale[0])})
    name = f"gemmctl.scaled.{dtype}.{scales}"
    answer = tensors.send("PUT", name, body, {"Content-Type": "application/vnd.safetensors"})
    assert answer.status_code == 201, answer.text
    try:
        done = run("gemm", "a.bin", f"tensor:{name}", "--a-scale", "a_scale.bin", *options)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "c.bin").read_bytes() == alone
    finally:
        tensors.send("DELETE", name)


def test_refusals(run, tmp_path, rng):
    case = ScaledProblem(3, 5, 7, dtype="i8", transb=True)
    options = files(tmp_path, case, random_scaled(case, rng))
    done = run("gemm", "a.bin", "b.bin", "--a-scale", "a_scale.bin", *options)
    assert done.returncode != 0 and b"needs the array b_scale" in done.stderr
    done = run("gemm", "a.bin", "b.bin", "--a-scale", "a_scale.bin", "--b-scale", "b_scale.bin",
               "--check", *options)
    assert done.returncode != 0 and b"--check knows no scales" in done.stderr
