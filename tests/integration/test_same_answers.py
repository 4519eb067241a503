"""The script that compares the answers of two builds finds what differs, and nothing else."""

import subprocess
import sys

import pytest

from conftest import ROOT

SCRIPT = ROOT / "tests/bench/same_answers.py"


def compare(old, new, *options):
    return subprocess.run([sys.executable, SCRIPT, old, new, "--backend", "cpu", *options], capture_output=True,
                          text=True, check=False, timeout=600)


def test_a_build_has_the_answers_of_itself(gemmd):
    ran = compare(gemmd, gemmd, "--share", "0.02")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    requests, equal, different = (int(word) for word in ran.stdout.splitlines()[-1].split() if word.isdigit())
    assert requests == equal > 50 and different == 0


@pytest.mark.parametrize("option, says", [("--without-kernels openblas", "status 200 became 422"),
                                          ("--compress-answers", "Vary")])
def test_a_build_that_answers_otherwise_is_found(option, says, gemmd, tmp_path):
    other = tmp_path / "gemmd"
    other.write_text(f'#!/bin/sh\nexec "{gemmd}" {option} "$@"\n')
    other.chmod(0o755)
    ran = compare(gemmd, other, "--share", "0.1", "--only", "gemm")
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert says in ran.stdout and not ran.stdout.endswith(" 0 differ\n")
