"""The wheel and the source distribution of client/python, installed, and their types."""

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2] / "client/python"


def command(*arguments, **keywords):
    done = subprocess.run([str(argument) for argument in arguments], capture_output=True, text=True,
                          timeout=300, check=False, **keywords)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_types_are_strict(tmp_path):
    command(sys.executable, "-m", "mypy", "--cache-dir", tmp_path, cwd=PROJECT)


@pytest.mark.slow
def test_readme_with_the_installed_wheel(start, tmp_path):
    """The wheel is made of the source distribution. Its requirements are those of the tests."""
    command(sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path, PROJECT)
    wheel, = tmp_path.glob("*.whl")
    assert len(list(tmp_path.glob("*.tar.gz"))) == 1
    command(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    command(python, "-m", "pip", "install", "--no-index", "--no-deps", wheel)
    environment = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}
    host, port = start().address
    blocks = re.findall(r"^```python\n(.*?)^```$", (PROJECT / "README.md").read_text(), re.M | re.S)
    printed = [command(python, "-c", block.replace("127.0.0.1:8080", f"{host}:{port}"),
                       cwd=tmp_path, env=environment) for block in blocks]
    assert printed[0].split() == "[[19. 22.] [43. 50.]]".split() * 3
    assert printed[1].split() == ["600.0"]
