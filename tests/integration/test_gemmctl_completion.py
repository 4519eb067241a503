"""gemmctl completion: each shell reads the script and completes options, commands and the daemon's names."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from daemon import PATIENCE_S
from patience import wait_until
from test_formats import npy
from test_gemmctl import NETWORK, USAGE, succeed

BASH = r"""
source <("$1" completion bash)
shift
COMP_LINE=$*
read -ra COMP_WORDS <<<"$(sed 's/\([:=]\)/ \1 /g' <<<"$COMP_LINE")"
[[ $COMP_LINE == *' ' ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_gemmctl
printf '%s\n' "${COMPREPLY[@]}"
"""
FISH = """
$argv[1] completion fish | source
complete -C $argv[2] | string replace -r '\\t.*' ''
"""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script(shell, run):
    script = succeed(run("completion", shell)).stdout
    assert b"--check-digest" in script or b"-l check-digest" in script
    if shutil.which(shell) is not None:
        checked = subprocess.run([shell, "-n"], input=script, capture_output=True, timeout=PATIENCE_S,
                                 check=False)
        assert (checked.returncode, checked.stderr) == (0, b"")


def test_other_shells(run):
    result = run("completion", "tcsh")
    assert result.returncode == USAGE and b"bash, zsh and fish" in result.stderr


@pytest.fixture
def complete(request, gemmctl, url, tmp_path):
    """complete(line): what the shell completes at the end of the line."""
    shell = request.param
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    (tmp_path / "gemmctl").symlink_to(Path(gemmctl).resolve())
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path),
                   "GEMMD_URL": url}

    def completer(line, **more):
        command = ([shell, "-c", BASH, "bash", "gemmctl", line] if shell == "bash"
                   else [shell, "-N", "-c", FISH, "gemmctl", line])
        result = subprocess.run(command, cwd=tmp_path, env={**environment, **more}, capture_output=True,
                                timeout=PATIENCE_S, check=False)
        assert result.stderr == b"", result
        return result.stdout.decode().split()

    return completer


@pytest.fixture
def offered(complete):
    """offered(line): names of the daemon, which the shell completes if the daemon answers within a second. A
    machine that is too slow for that is asked again."""
    return lambda line, **more: wait_until(lambda: complete(line, **more), f"names after {line!r}")


@pytest.mark.parametrize("complete", ["bash", "fish"], indirect=True)
def test_names_of_the_daemon(complete, offered, run, url, tmp_path):
    (tmp_path / "W.npy").write_bytes(npy(np.ones((2, 2), np.float32)))
    names = ["completion.one", "completion.two"]
    for name in names:
        succeed(run("tensor", "put", name, "W.npy"))
    try:
        assert offered("gemmctl tensor rm completion.") == names
        assert offered("gemmctl tensor rm completion.one completion.t") == names[1:]
        assert offered("gemmctl tensor get -q completion.o") == names[:1]
        assert {"naive", "openblas"} <= set(offered("gemmctl bench --kernel "))
        assert {"depthwise", "implicit", "naive", "product"} == set(offered("gemmctl conv W.npy --kernel "))
        assert {"depthwise", "implicit", "naive", "product"} == set(offered("gemmctl bench conv --kernel "))
        assert offered("gemmctl bench softmax --kernel ") == offered("gemmctl softmax W.npy --kernel ")
        assert [name.removeprefix("tensor:") for name in offered("gemmctl gemm W.npy tensor:completion.")] == names
        # Another daemon, which the line names, is asked in place of the environment's.
        assert complete("gemmctl --url http://127.0.0.1:1 tensor rm completion.") == []
        nowhere = {"GEMMD_URL": "http://127.0.0.1:1"}
        assert complete("gemmctl tensor rm completion.", **nowhere) == []
        assert offered(f"gemmctl --url {url} tensor rm completion.", **nowhere) == names
    finally:
        run("tensor", "rm", *names)


@pytest.mark.parametrize("complete", ["bash", "fish"], indirect=True)
def test_names_of_sequences(offered, run, tmp_path):
    names = ["completion.one", "completion.two"]
    for name in names:
        succeed(run("sequence", "put", name, "--kv-heads", "1", "--d", "8"))
    (tmp_path / "completion.npy").touch()
    try:
        assert offered("gemmctl sequence rm completion.") == names
        assert offered("gemmctl sequence fork completion.t") == names[1:]
        assert {*names, "completion.npy"} == set(offered("gemmctl sequence append completion."))
    finally:
        run("sequence", "rm", *names)


@pytest.mark.parametrize("complete", ["bash", "fish"], indirect=True)
def test_ids_of_jobs(offered, start, gemmctl, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("alice:the-token-of-alice\n")
    tokens.chmod(0o600)
    np.save(tmp_path / "W.npy", np.ones((2, 2), np.float32))
    there = {"GEMMD_URL": start("--token-file", tokens).url, "GEMMD_TOKEN": "the-token-of-alice"}
    made = subprocess.run([gemmctl, "gemm", "W.npy", "W.npy", "--async"], env={**os.environ, **there},
                          cwd=tmp_path, capture_output=True, timeout=PATIENCE_S, check=False)
    assert offered("gemmctl job wait ", **there) == [succeed(made).stdout.decode().strip()]


@pytest.mark.parametrize("complete", ["bash", "fish"], indirect=True)
def test_commands_and_options(complete):
    assert complete("gemmctl ten") == ["tensor"]
    assert sorted(complete("gemmctl sequence ")) == ["append", "fork", "get", "ls", "put", "rm", "truncate"]
    assert complete("gemmctl sequence put --lay") == ["--layers"]
    assert sorted(complete("gemmctl job ")) == ["cancel", "ls", "result", "status", "wait"]
    assert complete("gemmctl -q bench at") == ["attention"]
    assert sorted(complete("gemmctl bench ")) == ["attention", "conv", "experts", "ladder", "reduce", "softmax"]
    assert complete("gemmctl bench conv --layout ") == ["nchw", "nhwc"]
    assert complete("gemmctl bench reduce --keep") == ["--keepdims"]
    assert complete("gemmctl bench reduce --conn") == ["--connections"]
    assert complete("gemmctl bench softmax --ax") == []
    assert complete("gemmctl conv --sto") == ["--store"] and complete("gemmctl bench conv --sto") == []
    assert complete("gemmctl gemm --che") == ["--check"] or complete("gemmctl gemm --che") == [
        "--check", "--check-digest"]
    assert complete("gemmctl info --conn") == []
    assert complete("gemmctl attention --layout b") == ["bhsd", "bshd"]
    assert complete("gemmctl conv X.npy W.npy --layout ") == ["nchw", "nhwc"]
    assert complete("gemmctl reduce --op m") == ["max", "mean", "min"] or complete(
        "gemmctl reduce --op m") == ["mean", "max", "min"]
    assert complete("gemmctl softmax --ax") == []


def test_names_alone(run, url, session):
    """What the scripts call; without a daemon there is a sentence and a status."""
    assert b"naive" in succeed(run("completion", "kernels")).stdout.splitlines()
    names = succeed(run("completion", "kernels")).stdout.splitlines()
    assert len(names) == len(set(names))
    kernels = session.get(f"{url}/info").json()["kernels"]
    by_operation = [succeed(run("completion", f"kernels:{op}")).stdout.splitlines()
                    for op in {kernel["op"] for kernel in kernels}]
    assert set().union(*by_operation) == set(names)
    assert all(0 < len(of) == len(set(of)) < len(names) for of in by_operation)
    assert succeed(run("completion", "kernels:nosuch")).stdout == b""
    assert run("completion", "tensors:gemm").returncode == USAGE
    result = run("completion", "tensors", "--url", "127.0.0.1:1", "--retries", "0")
    assert result.returncode == NETWORK and result.stdout == b""
