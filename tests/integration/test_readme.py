"""Runs the README: its shell, Python and C blocks, in their order, in one folder.

The daemon is one of the test's own, so its address takes the place of 127.0.0.1:8080, and `build`
is a link to the build under test.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from daemon import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.M | re.S)
TWO_COMMANDS = ["deploy/quickstart.sh", "tests/run.sh"]  # which run this test, so it runs not them


def commands(block):
    """The first word of each line that is not only a comment."""
    return [line.split()[0] for line in block.splitlines() if line.split("#")[0].strip()]


@pytest.mark.slow
def test_every_block(start, gemmd, tmp_path):
    daemon = start()
    host, port = daemon.address
    here = f"{host}:{port}"
    (tmp_path / "build").symlink_to(gemmd.parent.parent)
    environment = {**os.environ, "GEMMD_URL": f"http://{here}",
                   "PYTHONPATH": str(ROOT / "client/python/src"),
                   "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    kernels = daemon.session.get(f"{daemon.url}/info").json()["kernels"]
    attends = any(kernel["op"] == "attention" for kernel in kernels)
    printed = []
    built = None  # the block that builds and runs the C program
    ran = 0
    for language, text in BLOCKS:
        text = text.replace("127.0.0.1:8080", here)
        if language == "sh" and commands(text) == TWO_COMMANDS:
            continue
        if "/attention" in text and not attends:  # this device has no kernels for it
            continue
        if language == "sh":
            command = ["bash", "-euo", "pipefail", "-c", text]
        elif language == "python":
            command = [sys.executable, "-c", text]
        elif language == "c":
            (tmp_path / "product.c").write_text(text)
            built = len(printed)
            continue
        else:
            assert language == "", f"a block of '{language}' is run by nobody"
            continue
        result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True,
                                text=True, timeout=2 * PATIENCE_S, check=False)
        assert result.returncode == 0, f"{text}\n{result.stdout}\n{result.stderr}"
        printed.append(result.stdout.split())
        ran += 1
    assert ran >= 7, "blocks were not found"
    assert printed[0] == ["19", "22", "43", "50"], "the product of the first block"
    assert printed[built] == ["19", "22", "43", "50"], "the product in C"


def test_two_commands():
    blocks = [text for language, text in BLOCKS if language == "sh"]
    assert commands(blocks[0]) == TWO_COMMANDS
    for command in TWO_COMMANDS:
        assert os.access(ROOT / command, os.X_OK), command


def test_links_lead_somewhere():
    for file in ("README.md", "CONTRIBUTING.md", "SECURITY.md"):
        for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / file).read_text()):
            assert (ROOT / target).exists(), f"{file} names {target}, which is not there"


def test_options_named_here_exist(gemmd):
    """Of the daemon, where README says how it is run and what it limits, and in SECURITY.md."""
    text = subprocess.run([gemmd, "--help"], capture_output=True, text=True, check=True).stdout
    table = README.partition("## Running it")[2].partition("## License")[0]
    security = (ROOT / "SECURITY.md").read_text()
    for option in ("ca", "cert", "key"):  # which are gemmctl's
        security = security.replace(f"`--{option}-file`", "")
    options = set(re.findall(r"`(--[a-z-]+)`", table + security))
    assert len(options) >= 10
    for option in options:
        assert option in text, option


def test_the_tables_say_what_the_kernels_offer(url, session):
    """The table of types against /info: what any kernel takes is there, and nothing else."""
    rows = re.findall(r"^\| `(\w+)`(?: \(default\))? \| \w+ \| (.*) \|$", README, re.M)
    table = {dtype: set(re.findall(r"`(\w+)`", outs)) for dtype, outs in rows}
    offered = {}
    kernels = session.get(f"{url}/info").json()["kernels"]
    for kernel in [kernel for kernel in kernels if kernel["op"] == "gemm"]:
        for dtype, outs in kernel["dtypes"].items():
            offered.setdefault(dtype, set()).update(outs)
    assert table == offered
