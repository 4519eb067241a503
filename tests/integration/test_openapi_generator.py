"""Clients that openapi-generator writes from the daemon's own openapi.json, for Python, Go and TypeScript.

The program of each language is in the folder `generated`. All of them do the same."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from daemon import PATIENCE_S

PROGRAMS = Path(__file__).parent / "generated"
PACKAGE = importlib.util.find_spec("openapi_generator_cli")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PACKAGE is None or shutil.which("java") is None,
                       reason="openapi-generator or Java is not installed"),
]


def run(*command, cwd, **environment):
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True,
                          env={**os.environ, **environment}, timeout=4 * PATIENCE_S, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def daemon(start):
    return start()


@pytest.fixture
def generate(daemon, tmp_path):
    """Writes a client from the document that a daemon serves."""

    def write(language, folder, *options):
        document = tmp_path / "openapi.json"
        document.write_bytes(daemon.session.get(f"{daemon.url}/openapi.json").content)
        archive = Path(PACKAGE.origin).with_name("openapi-generator.jar")
        run("java", "-jar", archive, "generate", "-i", document, "-g", language, "-o", folder, *options,
            cwd=tmp_path)
    return write


def check(printed):
    lines = printed.splitlines()
    assert lines[:3] == ["19 22 43 50"] * 3, "in JSON, of raw operands, with a resident tensor"
    assert "32 bytes" in lines[3], "the sentence of the refusal"
    assert len(lines) == 4


def test_python(generate, daemon, tmp_path):
    generate("python", tmp_path / "client", "--package-name", "gemmd_generated")
    check(run(sys.executable, PROGRAMS / "product.py", daemon.url, cwd=tmp_path,
              PYTHONPATH=str(tmp_path / "client")))


@pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed")
def test_go(generate, daemon, tmp_path):
    client = tmp_path / "client"
    generate("go", client, "--additional-properties=packageName=gemmd,enumClassPrefix=true",
             "--git-host=example", "--git-user-id=gemmd", "--git-repo-id=client")
    shutil.rmtree(client / "test")  # needs packages that are not installed
    run("go", "mod", "edit", "-go=1.19", cwd=client)  # the generator asks for a newer Go than it needs
    (client / "product").mkdir()
    shutil.copy(PROGRAMS / "product.go", client / "product")
    check(run("go", "run", "./product", daemon.url, cwd=client, GOPROXY="off", GOTOOLCHAIN="local",
              GOCACHE=str(tmp_path / "cache"), GOFLAGS="-mod=mod"))


@pytest.mark.skipif(shutil.which("tsc") is None or shutil.which("node") is None,
                    reason="TypeScript or Node.js is not installed")
def test_typescript(generate, daemon, tmp_path):
    generate("typescript-fetch", tmp_path / "client")
    shutil.copy(PROGRAMS / "product.ts", tmp_path)
    run("tsc", "--target", "es2020", "--lib", "es2020,dom", "--module", "commonjs", "--skipLibCheck",
        "--outDir", "out", "product.ts", cwd=tmp_path)
    check(run("node", "out/product.js", daemon.url, cwd=tmp_path))
