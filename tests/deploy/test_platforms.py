"""Platforms that are not the host's: the scripts of tests/platforms, each in a clean root of its own."""

import os
import subprocess

import pytest

from conftest import ROOT, need

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def roots(tmp_path_factory):
    need("mmdebstrap")
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], check=False).returncode != 0:
        pytest.skip("a clean root needs root and mounts")
    return tmp_path_factory.mktemp("roots")


def run_script(name, *arguments):
    done = subprocess.run([ROOT / "tests/platforms" / name, *arguments], capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stdout.splitlines()[-1] == f"{name.partition('.')[0]}: products checked"


def test_arm64(roots):
    run_script("arm64.sh", roots)


def test_musl(roots, daemon):
    run_script("musl.sh", roots, daemon.url)
