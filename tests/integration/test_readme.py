"""Runs the documents for users: their shell, Python and C blocks, in their order, in one shell.

The daemon is one of the test's own, so its address takes the place of 127.0.0.1:8080, and the folder
that a document calls the source tree has a link `build` to the build under test. Packages of Python come from the
environment of the tests, and not from where `pip install` would fetch them.
"""

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from daemon import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
TWO_COMMANDS = ["deploy/quickstart.sh", "tests/run.sh"]  # which run this test, so it runs not them
PRODUCT = ["19", "22", "43", "50"]


def blocks(text):
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)


def commands(block):
    """The first word of each line that is not only a comment."""
    return [line.split()[0] for line in block.splitlines() if line.split("#")[0].strip()]


def script_of(found, attends):
    """One shell script of all blocks, which writes a line before the output of each."""
    script = ["set -euo pipefail"]
    for number, (language, text) in enumerate(found):
        if language == "sh" and commands(text) == TWO_COMMANDS:
            continue
        if "/attention" in text and not attends:  # this device has no kernels for it
            continue
        quoted = f"<<'END_OF_BLOCK'\n{text}END_OF_BLOCK"
        script.append(f"echo; echo '@ block {number}'")
        if language == "sh":
            script.append(re.sub(r"^pip install .*\n", "", text, flags=re.M))
        elif language == "python":
            script.append(f"python3 - {quoted}")
        elif language == "c":
            script.append(f"cat > product.c {quoted}")
        else:
            assert language == "", f"a block of '{language}' is run by nobody"
    return "\n".join(script)


def run_blocks(document, daemon, gemmd, folder):
    """Runs a document from a folder that stands for the source tree. Returns what the blocks printed,
    as lists of words."""
    host, port = daemon.address
    kernels = daemon.session.get(f"{daemon.url}/info").json()["kernels"]
    script = script_of(blocks((ROOT / document).read_text()),
                       any(kernel["op"] == "attention" for kernel in kernels))
    (folder / "build").symlink_to(gemmd.parent.parent)
    (folder / "scratch").mkdir()
    environment = {**os.environ, "TMPDIR": str(folder / "scratch"),
                   "PYTHONPATH": f"{ROOT / 'client/python/src'}:{sysconfig.get_path('purelib')}",
                   "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script.replace("127.0.0.1:8080", f"{host}:{port}")], cwd=folder,
                          env=environment, capture_output=True, text=True, timeout=4 * PATIENCE_S,
                          check=False)
    assert done.returncode == 0, f"{document}\n{done.stdout}\n{done.stderr}"
    printed = re.split(r"^@ block \d+\n", done.stdout, flags=re.M)[1:]
    assert len(printed) == script.count("echo '@ block")
    return [words.split() for words in printed]


@pytest.mark.slow
def test_every_block_of_the_readme(start, gemmd, tmp_path):
    printed = run_blocks("README.md", start(), gemmd, tmp_path)
    assert len(printed) >= 9, "blocks were not found"
    assert '"data":[19,22,43,50]' in printed[0][0], "the first product"
    assert "must" in printed[1] and printed[1][-2:] == ["with", "22"], "the error"
    assert PRODUCT in printed, "the product of raw operands"
    assert "(1, 4, 8, 6) 27.0 32.0".split() in printed, "the convolution, the softmax and the sum"


@pytest.mark.slow
def test_every_block_of_the_clients(start, gemmd, tmp_path):
    printed = run_blocks("client/README.md", start(), gemmd, tmp_path)
    assert len(printed) >= 7, "blocks were not found"
    assert printed[-1] == PRODUCT, "the product in C"


def test_two_commands():
    found = [text for language, text in blocks(README) if language == "sh"]
    assert commands(found[0]) == TWO_COMMANDS
    for command in TWO_COMMANDS:
        assert os.access(ROOT / command, os.X_OK), command


def test_links_lead_somewhere():
    documents = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True,
                               check=True).stdout.split()
    assert "README.md" in documents
    for file in documents:
        folder = (ROOT / file).parent
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", (ROOT / file).read_text()):
            if "://" not in target:
                assert (folder / target).exists(), f"{file} names {target}, which is not there"


def test_options_named_here_exist(gemmd):
    """Of the daemon, where the documents say how it is run and what it limits."""
    text = subprocess.run([gemmd, "--help"], capture_output=True, text=True, check=True).stdout
    named = README.partition("## Running it")[2]
    named += (ROOT / "deploy/OPERATING.md").read_text() + (ROOT / "SECURITY.md").read_text()
    for option in ("ca", "cert", "key"):  # which are gemmctl's
        named = named.replace(f"`--{option}-file`", "")
    options = set(re.findall(r"`(--[a-z-]+)`", named))
    assert len(options) >= 40
    for option in options - {"--help", "--check-config"}:
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
