"""The wheel and the source distribution of client/python, installed, and their types."""

import json
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


def test_the_notebook_of_the_examples(start, tmp_path):
    """Its code, as jupytext writes it to a program. The notebook that is kept has no outputs, which would grow old."""
    notebook = PROJECT / "examples/tour.ipynb"
    for cell in json.loads(notebook.read_text())["cells"]:
        assert not cell.get("outputs") and cell.get("execution_count") is None, cell["id"]
    program = tmp_path / "tour.py"
    command(sys.executable, "-m", "jupytext", "--to", "py", "--output", program, notebook)
    daemon = start()
    printed = command(sys.executable, "-Werror", program, env={**os.environ, "PYTHONPATH": str(PROJECT / "src"),
                                                               "GEMMD_URL": daemon.url})
    assert printed.splitlines() == ["a has 128 columns and b has 32 rows; the numbers must be equal",
                                    "not-found 404 there is no tensor 'tour-nothing'"]


CONSUMER = """
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

from gemmd_client import AsyncClient, AsyncJob, Client, Job, Tensor


class Foreign:
    def __dlpack__(self, *, stream: int | None = None) -> object:
        return object()


client = Client()
host, other = np.ones((2, 2), np.float32), Foreign()
tensor = client.put("W", host)
assert_type(tensor, Tensor)
assert_type(tensor.dtype, np.dtype[Any])
assert_type(client.gemm(host, host, act="relu", out_dtype="f32"), NDArray[Any])
assert_type(client.gemm([[1, 2]], other, scales="none"), NDArray[Any])
assert_type(client.gemm(other, host), Foreign)
assert_type(client.gemm(other, tensor, bias=host), Foreign)
assert_type(client.gemm(tensor, other), Foreign)
assert_type(client.matmul(tensor, tensor), NDArray[Any])
assert_type(client.tensordot(other, host, 1), Foreign)
assert_type(client.einsum("ij,jk", host, tensor), NDArray[Any])
assert_type(client.conv2d(host, tensor, padding="same"), NDArray[Any])
assert_type(client.attention(host, tensor, tensor), NDArray[Any])
assert_type(client.attention(other, tensor, tensor, lse=True), tuple[Foreign, Foreign])
assert_type(client.reduce(tensor, "std", axis=(0, 1)), NDArray[Any])
assert_type(client.softmax(other, axis=None), Foreign)
assert_type(client.gemm_job(host, tensor), Job)
assert_type(client.reduce_store("sum", host), Tensor)


async def coroutines() -> None:
    async with AsyncClient() as made:
        assert_type(await made.put("W", host), Tensor)
        assert_type(await made.get(tensor), NDArray[Any])
        job = await made.gemm_job(host, tensor)
        assert_type(job, AsyncJob)
        assert_type(await job.wait(3), bool)

client.gemm("x", 3)  # type: ignore[call-overload]
client.gemm(host, "x")  # type: ignore[call-overload]
client.gemm(host, 3)  # type: ignore[call-overload]
client.gemm(host, host, act="relu6")  # type: ignore[call-overload]
client.gemm(host, host, precision="half")  # type: ignore[call-overload]
client.gemm(host, host, scale=1)  # type: ignore[call-overload]
client.einsum(host, host)  # type: ignore[call-overload]
client.conv2d(host, host, layout="hwc")  # type: ignore[call-overload]
client.conv2d_job(host, host, layout="hwc")  # type: ignore[arg-type]
client.attention(host, host, host, layout="hwc")  # type: ignore[call-overload]
client.reduce(host, "median")  # type: ignore[call-overload]
client.reduce(host, axis="x")  # type: ignore[arg-type]
client.softmax("x")  # type: ignore[call-overload]
client.softmax_job("x")  # type: ignore[arg-type]
client.gemm_job("x", 3)  # type: ignore[arg-type]
client.gemm_job(host, host, precision="half")  # type: ignore[arg-type]
started = AsyncClient().gemm("x", 3)  # type: ignore[arg-type]
started = AsyncClient().gemm(host, host, act="relu6")  # type: ignore[arg-type]
client.put("W", 3)  # type: ignore[arg-type]
client.nothing()  # type: ignore[attr-defined]
"""


@pytest.mark.slow
def test_the_types_that_a_consumer_sees(tmp_path):
    """Each line is of the type that it says, or is the error that it says."""
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = true\n[mypy-ml_dtypes.*]\nignore_missing_imports = true\n")
    (tmp_path / "consumer.py").write_text(CONSUMER)
    command(sys.executable, "-m", "mypy", "--cache-dir", tmp_path / "cache", "consumer.py", cwd=tmp_path,
            env={**os.environ, "MYPYPATH": str(PROJECT / "src")})


def install(wheel, folder):
    """Makes an environment with the wheel, whose requirements are those of the tests. Returns its Python
    and the variables to run it with."""
    command(sys.executable, "-m", "venv", folder)
    command(folder / "bin/python", "-m", "pip", "install", "--no-index", "--no-deps", wheel)
    environment = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}
    environment.pop("LIBGEMMD", None)
    return folder / "bin/python", environment


def readme_blocks():
    """The programs of the README."""
    return re.findall(r"^```python\n(.*?)^```$", (PROJECT / "README.md").read_text(), re.M | re.S)


def run_readme(python, environment, daemon, folder):
    """Without the program that needs PyTorch, which test_python_torch.py runs."""
    host, port = daemon.address
    blocks = [block for block in readme_blocks() if "import torch" not in block]
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
