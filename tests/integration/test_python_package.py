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


def install(wheel, folder):
    """Makes an environment with the wheel, whose requirements are those of the tests. Returns its Python
    and the variables to run it with."""
    command(sys.executable, "-m", "venv", folder)
    command(folder / "bin/python", "-m", "pip", "install", "--no-index", "--no-deps", wheel)
    environment = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}
    environment.pop("LIBGEMMD", None)
    return folder / "bin/python", environment


def run_readme(python, environment, daemon, folder):
    host, port = daemon.address
    blocks = re.findall(r"^```python\n(.*?)^```$", (PROJECT / "README.md").read_text(), re.M | re.S)
    printed = [command(python, "-c", block.replace("127.0.0.1:8080", f"{host}:{port}"),
                       cwd=folder, env=environment) for block in blocks]
    assert printed[0].split() == "[[19. 22.] [43. 50.]]".split() * 3
    assert printed[-1].split() == ["600.0"]


@pytest.mark.slow
def test_readme_with_the_installed_wheel(start, tmp_path):
    """The wheel is made of the source distribution."""
    command(sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path, PROJECT)
    wheel, = tmp_path.glob("*.whl")
    assert len(list(tmp_path.glob("*.tar.gz"))) == 1 and wheel.name.endswith("-py3-none-any.whl")
    run_readme(*install(wheel, tmp_path / "venv"), start(), tmp_path)


@pytest.mark.slow
def test_readme_with_a_wheel_that_carries_the_library(start, tmp_path, gemmd, instrumented):
    if instrumented:
        pytest.skip("Python cannot load a library that a sanitizer is built into")
    library = gemmd.parents[1] / "lib/libgemmd.so.0"
    command(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", tmp_path, PROJECT,
            env={**os.environ, "GEMMD_LIBRARY": str(library)})
    wheel, = tmp_path.glob("*.whl")
    assert "-py3-none-linux_" in wheel.name
    python, environment = install(wheel, tmp_path / "venv")
    daemon = start()
    carried = command(python, "-c", "import gemmd_client, pathlib\n"
                      "print(pathlib.Path(gemmd_client.__file__).with_name('libgemmd.so.0').is_file(),"
                      f" gemmd_client.Client('{daemon.url}').transport)", env=environment)
    assert carried.split() == ["True", "library"]
    run_readme(python, environment, daemon, tmp_path)
