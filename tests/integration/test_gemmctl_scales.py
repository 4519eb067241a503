"""gemmctl gemm with scales: files of their own, one file for all, and a weight on the daemon."""

import json
import re

import numpy as np
import pytest
import safetensors.numpy

from scaling import ScaledProblem, assert_scaled, random_scaled
from test_formats import npy
from test_gemmctl import succeed
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


@pytest.fixture
def scaled_tensor(run, tmp_path, rng):
    """The name of a tensor with scales that is on the daemon, the tensor and the scales."""
    name, tensor = "gemmctl.get.scaled", rng.integers(-128, 128, (5, 7), np.int8)
    scale = rng.uniform(0.5, 2, 7).astype(np.float32)
    for file, array in (("put", tensor), ("put_scale", scale)):
        (tmp_path / f"{file}.npy").write_bytes(npy(array))
    succeed(run("tensor", "put", name, "put.npy", "--scale", "put_scale.npy"))
    yield name, tensor, scale
    run("tensor", "rm", name, "gemmctl.get.again")


def test_tensor_comes_back_with_its_scales(scaled_tensor, run, url, tmp_path):
    """Put, get, put, get: the content stays the same, byte for byte, and so does the entity tag."""
    name, tensor, scale = scaled_tensor
    done = succeed(run("tensor", "get", name, "-o", "first.safetensors"))
    assert re.search(rb"^first.safetensors: 5x7 i8 with scales 7 in [0-9.]+ ms\n$", done.stderr), done.stderr
    file = (tmp_path / "first.safetensors").read_bytes()
    got = safetensors.numpy.load(file)
    assert set(got) == {"tensor", "scale"}
    assert (got["tensor"].dtype, got["scale"].dtype) == (np.int8, np.float32)
    assert got["tensor"].shape == (5, 7) and got["tensor"].tobytes() == tensor.tobytes()
    assert got["scale"].shape == (7,) and got["scale"].tobytes() == scale.tobytes()
    assert b"already there" in succeed(run("tensor", "put", name, "first.safetensors")).stdout
    succeed(run("tensor", "put", "gemmctl.get.again", "first.safetensors"))
    there = {tensor["name"]: tensor for tensor in Tensors(url).get().json()["tensors"]}
    assert there["gemmctl.get.again"]["etag"] == there[name]["etag"]
    assert succeed(run("tensor", "get", "gemmctl.get.again", "--format", "safetensors")).stdout == file
    report = json.loads(succeed(run("tensor", "get", name, "--json", "-o", "first.safetensors")).stdout)
    assert (report["scale_shape"], report["scale"]) == ([7], "first.safetensors")
    # The upload of any HTTP client takes the file as well.
    answer = Tensors(url).send("PUT", name, file, {"Content-Type": "application/vnd.safetensors"})
    assert (answer.status_code, answer.json()["etag"]) == (200, there[name]["etag"])


@pytest.mark.parametrize("suffix", ["npy", "bin", "safetensors"])
def test_scales_in_a_file_of_their_own(suffix, scaled_tensor, run, tmp_path):
    name, tensor, scale = scaled_tensor
    done = succeed(run("tensor", "get", name, "-o", f"w.{suffix}", "--scale", f"s.{suffix}"))
    assert re.search(rf"^w.{suffix}: 5x7 i8 with scales 7 in [0-9.]+ ms\n$", done.stderr.decode()), done.stderr
    files = [(tmp_path / f"{which}.{suffix}").read_bytes() for which in "ws"]
    assert [file[-array.nbytes:] for file, array in zip(files, (tensor, scale))] == [
        tensor.tobytes(), scale.tobytes()]
    shape = ["--shape", "5,7", "--dtype", "i8"] if suffix == "bin" else []
    done = succeed(run("tensor", "put", name, f"w.{suffix}", "--scale", f"s.{suffix}", *shape))
    assert b"already there" in done.stdout


@pytest.mark.parametrize("output", [["-o", "w.npy"], ["-o", "w.bin"], []], ids=str)
def test_formats_without_a_place_for_scales(output, scaled_tensor, run, tmp_path):
    """The tensor is written, and the user is told of the scales."""
    name, tensor, _ = scaled_tensor
    done = succeed(run("tensor", "get", name, *output))
    says = f"gemmctl: {output[-1] if output else 'standard output'} has the tensor without its scales"
    assert says in done.stderr.decode() and b"--scale" in done.stderr, done
    written = (tmp_path / output[-1]).read_bytes() if output else done.stdout
    assert written[-tensor.nbytes:] == tensor.tobytes()
    assert succeed(run("tensor", "get", name, *output, "-q")).stderr == b""
    if output:
        report = json.loads(succeed(run("tensor", "get", name, *output, "--json")).stdout)
        assert (report["scale_shape"], report["scale"]) == ([7], None)


def test_tensors_without_scales(run, tmp_path, rng):
    tensor = rng.integers(-128, 128, (5, 7), np.int8)
    (tmp_path / "w.npy").write_bytes(npy(tensor))
    name = "gemmctl.get.plain"
    succeed(run("tensor", "put", name, "w.npy"))
    try:
        done = succeed(run("tensor", "get", name, "-o", "back.npy"))
        assert b"scale" not in done.stderr and np.array_equal(np.load(tmp_path / "back.npy"), tensor)
        succeed(run("tensor", "get", name, "-o", "back.safetensors"))
        assert list(safetensors.numpy.load((tmp_path / "back.safetensors").read_bytes())) == [name]
        done = run("tensor", "get", name, "-o", "not.npy", "--scale", "scale.npy")
        assert done.returncode == 2 and b"the tensor has no scales" in done.stderr
        assert not list(tmp_path.glob("not*")) + list(tmp_path.glob("scale*"))
        done = run("tensor", "get", name, "-o", "same.npy", "--scale", "same.npy")
        assert done.returncode == 2 and b"--scale and --output name the same file" in done.stderr
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
