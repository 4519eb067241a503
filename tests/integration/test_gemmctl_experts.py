"""gemmctl experts and bench experts against a real daemon: files in and out, residents, random operands, refusals."""

import io
import json

import numpy as np
import pytest
import safetensors.numpy

from test_experts import Experts
from test_formats import npy
from test_gemmctl import FAILED, USAGE, succeed


@pytest.fixture
def problem(rng, tmp_path):
    """A problem, whose operands are files of their names."""
    problem = Experts(rng, 10, 12, 14, 3, 2, glu=True, weights=True, bias=True, act="silu")
    for name, array in problem.arrays().items():
        (tmp_path / f"{name}.npy").write_bytes(npy(array))
        (tmp_path / f"{name}.bin").write_bytes(array.tobytes())
    return problem


OPTIONS = ["--glu", "--act", "silu"]


def test_every_format(problem, run, tmp_path):
    own = [*OPTIONS, "--weights", "weights.npy", "--bias", "bias.npy"]
    succeed(run("experts", "a.npy", "w.npy", "experts.npy", "-o", "c.npy", *own))
    expected = np.load(tmp_path / "c.npy")
    problem.assert_close(expected)
    piped = succeed(run("experts", "-", "-", "-", *OPTIONS, "--weights", "-", "--bias", "-",
                        stdin=b"".join(map(npy, problem.arrays().values())))).stdout
    assert np.array_equal(np.load(io.BytesIO(piped)), expected)
    (tmp_path / "all.safetensors").write_bytes(safetensors.numpy.save(problem.arrays()))
    succeed(run("experts", "all.safetensors", "-o", "c.safetensors", *OPTIONS))
    assert np.array_equal(safetensors.numpy.load_file(tmp_path / "c.safetensors")["c"], expected)
    succeed(run("experts", "a.bin", "w.bin", "experts.bin", "-o", "c.bin", *OPTIONS, "--weights", "weights.bin",
                "--bias", "bias.bin", "-m", 10, "-n", 12, "-k", 14, "--count", 3, "--topk", 2))
    assert (tmp_path / "c.bin").read_bytes() == expected.tobytes()


def test_column_major_files(problem, run, tmp_path):
    for name, array in problem.arrays().items():
        (tmp_path / f"{name}.f.npy").write_bytes(npy(np.asfortranarray(array)))
    own = [*OPTIONS, "--weights", "weights.f.npy", "--bias", "bias.f.npy"]
    succeed(run("experts", "a.f.npy", "w.f.npy", "experts.f.npy", "-o", "c.npy", *own))
    problem.assert_close(np.load(tmp_path / "c.npy"))


def test_a_resident_stack_a_stored_result_and_a_job(problem, run, tmp_path):
    own = [*OPTIONS, "--weights", "weights.npy", "--bias", "bias.npy"]
    succeed(run("tensor", "put", "gemmctl.experts", "w.npy"))
    try:
        succeed(run("experts", "a.npy", "tensor:gemmctl.experts", "experts.npy", "-o", "c.npy", *own))
        problem.assert_close(np.load(tmp_path / "c.npy"))
        succeed(run("experts", "a.npy", "tensor:gemmctl.experts", "experts.npy", "--store", "gemmctl.c", *own))
        succeed(run("tensor", "get", "gemmctl.c", "-o", "stored.npy"))
        assert np.array_equal(np.load(tmp_path / "stored.npy"), np.load(tmp_path / "c.npy"))
        job = succeed(run("experts", "a.npy", "tensor:gemmctl.experts", "experts.npy", "--async", *own))
        job = job.stdout.decode().strip()
        succeed(run("job", "result", job, "-o", "job.npy"))
        succeed(run("job", "cancel", job))
        assert np.array_equal(np.load(tmp_path / "job.npy"), np.load(tmp_path / "c.npy"))
    finally:
        run("tensor", "rm", "gemmctl.experts", "gemmctl.c")


def test_random_operands(run, tmp_path):
    """The daemon refuses numbers that no expert has."""
    for options in ([], ["--glu", "--topk", "3", "--dtype", "bf16"], ["--transb"]):
        succeed(run("experts", "--random", "20x30", "-n", 7, "--count", 4, *options, "-o", "c.npy"))
        assert np.load(tmp_path / "c.npy").shape == (20, 7)


def test_a_measurement(run):
    report = json.loads(succeed(run("bench", "experts", "-m", 4, "-n", 16, "-k", 16, "--count", 3, "--topk", 2,
                                    "--requests", 20, "--connections", 2, "--json")).stdout)
    assert report["op"] == "experts" and report["count"] == 3 and report["topk"] == 2
    printed = succeed(run("bench", "experts", "-m", 4, "-n", 16, "-k", 16, "--requests", 20)).stdout.decode()
    assert "4x16x16, 1 of 8 experts a row, f32 to f32" in printed


@pytest.mark.parametrize("arguments, text", [
    (["--random", "20x30"], "--n and --count"),
    (["--random", "20x30x4", "-n", 7, "--count", 4], "two sizes of A"),
    (["--random", "20x30", "-m", 20, "-n", 7, "--count", 4], "leave out --m and --k"),
    (["a.npy", "w.npy"], "experts"),
    (["a.bin", "w.bin", "experts.bin"], "--m, --n, --k and --count"),
    (["a.npy", "w.npy", "experts.npy"], "bias"),
    (["a.npy", "w.npy", "wrong.npy"], "row 9 has expert 3 at place 1"),
], ids=str)
def test_refusals(arguments, text, problem, run, tmp_path):
    wrong = problem.experts.copy()
    wrong[9, 1] = 3
    (tmp_path / "wrong.npy").write_bytes(npy(wrong))
    options = ["--bias", "weights.npy"] if text == "bias" else []
    answer = run("experts", *arguments, *options, "-o", "c.npy")
    assert answer.returncode == USAGE and text in answer.stderr.decode(), answer.stderr
    assert not (tmp_path / "c.npy").exists()


def test_an_unknown_stack(problem, run):
    answer = run("experts", "a.npy", "tensor:nothing.there", "experts.npy")
    assert answer.returncode == FAILED and b"there is no tensor 'nothing.there'" in answer.stderr
