"""Platforms that are not the host's: the scripts of tests/platforms, each in a clean root of its own, and clang."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from conftest import EPOCH, ROOT, need, run

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def roots(tmp_path_factory):
    need("mmdebstrap")
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], check=False).returncode != 0:
        pytest.skip("a clean root needs root and mounts")
    return tmp_path_factory.mktemp("roots")


@pytest.fixture(scope="module")
def files(roots, deb_folder, tmp_path_factory):
    """The Debian packages and, of the same build, the wheels."""
    if "VERSION_CODENAME=bookworm" not in pathlib.Path("/etc/os-release").read_text():
        pytest.skip("packages and wheels are made on Debian 12")
    folder = tmp_path_factory.mktemp("files")
    for file in deb_folder.glob("*.deb"):
        shutil.copy(file, folder)
    programs = pathlib.Path(sys.executable).parent
    run(sys.executable, ROOT / "deploy/release/wheels.py", ROOT / "build-tests/deb", folder,
        env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH, "PATH": f"{programs}:{os.environ['PATH']}"})
    return folder


def run_script(name, *arguments, unreachable=False):
    done = subprocess.run([ROOT / "tests/platforms" / name, *arguments], capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL)
    if unreachable and done.returncode == 77:
        pytest.skip("the archive cannot be reached")
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    lines = done.stdout.splitlines()
    assert lines[-1] == f"{name.partition('.')[0]}: products checked"
    return lines


@pytest.mark.parametrize("suite", ["bookworm", "trixie", "noble"])
def test_from_nothing(roots, files, suite, capsys):
    """To a checked product with packages, with wheels and with the quickstart. A host that reaches Debian's archive
    need not reach Ubuntu's."""
    lines = run_script("bare.sh", roots, suite, files, unreachable=suite == "noble")
    seconds = [line for line in lines if line.endswith(" seconds")]
    assert [line.split()[2] for line in seconds] == ["packages:", "wheel:", "quickstart:"]
    with capsys.disabled():
        print("", *seconds, sep="\n")


def test_arm64(roots):
    run_script("arm64.sh", roots)
    wheel, = roots.glob("arm64/build/wheel/*_aarch64.whl")
    run(sys.executable, "-m", "twine", "check", "--strict", wheel)


def test_clang(tmp_path):
    need("clang")
    run_script("clang.sh", tmp_path)


def test_musl(roots, daemon):
    run_script("musl.sh", roots, daemon.url)
