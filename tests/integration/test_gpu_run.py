"""tests/gpu/run.sh sums what the check programs say, on a machine where all of them are scripts."""

import os
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WELL = 'echo "10 passed, 0 failed"'
PROGRAMS = {
    "gemmd": 'echo "gemmd 0"',
    "nvidia-smi": 'echo "A GPU"',
    "gemmd-bench-mhd-alone": "",
    "gemmd-gpu-check": WELL,
    "gemmd-gpu-group-check": WELL,
    "gemmd-gpu-conv-check": WELL,
    "gemmd-gpu-copy-check": WELL,
    "gemmd-gpu-reduce-check": WELL,
    "gemmd-gpu-verify-check": WELL,
    "gemmd-gpu-attention-check": WELL,
}


@pytest.fixture
def gpu_run(tmp_path):
    """Runs parts, with other scripts than those above; its status, output and folder of tables."""
    def run(*parts, **scripts):
        programs = tmp_path / "build/bin"
        programs.mkdir(parents=True)
        for name, script in {**PROGRAMS, **scripts}.items():
            (programs / name).write_text(f"#!/usr/bin/env bash\n{script}\n")
            (programs / name).chmod(0o755)
        done = subprocess.run(
            [ROOT / "tests/gpu/run.sh", "--build", programs.parent, "--out", tmp_path / "out", *parts],
            env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False)
        return done.returncode, done.stdout, tmp_path / "out"
    return run


def shares(**others):
    """A check of products whose shares do well, but for some."""
    cases = "".join(f'*" {number[1:]}/8") {script};;\n' for number, script in others.items())
    return f'case "$*" in\n{cases}*) {WELL};;\nesac'


def test_products_are_checked_in_shares_and_for_bytes_only(gpu_run):
    status, said, out = gpu_run("products", **{
        "gemmd-gpu-check": f'echo "given $*"; {WELL}',
        "gemmd-gpu-group-check": f'echo "given $*"; {WELL}'})
    assert status == 0, said
    assert "products: 80 passed, 0 failed\n" in said
    assert "groups: 40 passed, 0 failed\n" in said
    assert said.endswith("\n130 passed, 0 failed\n")
    with tarfile.open(out / "logs-products.tar.gz") as logs:
        given = [line for name in logs.getnames() if name.endswith(".log")
                 for line in re.findall(rb"given (.*)", logs.extractfile(name).read())]
    assert sorted(given) == [*(b"--bytes --share %d/4" % share for share in range(4)),
                             *(b"--share %d/8" % share for share in range(8))]


def test_a_share_that_fails_is_named(gpu_run):
    status, said, _ = gpu_run("products", **{"gemmd-gpu-check": shares(
        _3='echo "first: 3 x 5 x 7"; echo "8 passed, 2 failed"; exit 1')})
    assert status == 1, said
    assert "products: 78 passed, 2 failed\nshare 3 of 8:\nstatus 1\nfirst: 3 x 5 x 7\n" in said


def test_a_share_that_faults_counts_as_failed(gpu_run):
    status, said, _ = gpu_run("products", **{"gemmd-gpu-check": shares(_5="kill -KILL $$")})
    assert status == 1, said
    assert "products: 70 passed, 1 failed\nshare 5 of 8:\n" in said


def test_a_kernel_that_faults_in_the_smoke_is_left_out(gpu_run):
    status, said, _ = gpu_run("smoke", **{"gemmd-gpu-attention-check":
                                          f'[[ $* != *decode*bf16* ]] || kill -SEGV $$; {WELL}'})
    assert status == 1, said
    assert "left out from here on: decode\n" in said
