"""Starts that cannot succeed: one sentence that names the reason, and a status."""

import json
import pathlib
import re
import subprocess

import pytest

from daemon import PATIENCE_S


@pytest.mark.skipif(pathlib.Path("/proc/driver/nvidia").exists(), reason="this host has a GPU")
def test_no_gpu_where_one_is_demanded(gemmd, tmp_path):
    path = tmp_path / "gemmd.sock"
    result = subprocess.run([gemmd, "--backend", "cuda", "--listen", f"unix:{path}"],
                            capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith("gemmd: ") and result.stderr.count("\n") == 1
    # One of both: that the host has no device, or that the build could not use one.
    assert re.search("(there is no CUDA device|this build of gemmd has no CUDA); --backend cpu", result.stderr)
    assert not path.exists(), "the file of its socket stays behind"


@pytest.mark.parametrize("mode, starts", [(0o644, False), (0o604, False), (0o640, True)])
def test_tokens_that_every_user_can_read(mode, starts, gemmd, start, tmp_path):
    file = tmp_path / "tokens"
    file.write_text("alice:a-token-of-some-length\n")
    file.chmod(mode)
    if starts:
        start("--token-file", file)
        return
    result = subprocess.run([gemmd, "--token-file", file, "--listen", "127.0.0.1:0"],
                            capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert result.returncode == 1
    assert result.stderr == (f"gemmd: --token-file {str(file)[:120]} can be read by every user of "
                             "this host; chmod it to 0640 or 0600\n")


def test_config_that_is_missing(gemmd, tmp_path):
    result = subprocess.run([gemmd, "--config", tmp_path / "none.json"], capture_output=True, text=True,
                            timeout=PATIENCE_S, check=False)
    assert result.returncode == 2
    assert result.stderr == (f"gemmd: {str(tmp_path / 'none.json')[:120]} cannot be read: "
                             "No such file or directory (--config)\n")


@pytest.mark.parametrize("content, says", [
    ("alice:alice-token-1\n", ""),
    ("alice:short\n", ", line 1: a token is 8 to 255"),
    ("", " has no token"),
    (None, " cannot be read: No such file or directory (--token-file)"),
])
def test_check_config_reads_the_files(content, says, gemmd, tmp_path):
    file = tmp_path / "tokens"
    if content is not None:
        file.write_text(content)
        file.chmod(0o600)
    result = subprocess.run([gemmd, "--token-file", file, "--check-config"], capture_output=True, text=True,
                            timeout=PATIENCE_S, check=False)
    assert json.loads(result.stdout)["token-file"] == str(file)
    assert result.returncode == (1 if says else 0)
    errors = [line for line in result.stderr.splitlines() if line.startswith("gemmd: ")]
    assert len(errors) == bool(says) and says in "".join(errors)


HEADER = "Authorization: Bearer the-collectors-token\n"
COLLECTOR = ("--otlp-endpoint", "https://collector.example:4318")


@pytest.mark.parametrize("check", [["--check-config"], []], ids=["check-config", "start"])
@pytest.mark.parametrize("arguments, content, says", [
    (("--otlp-header-file", "{file}"), "no header\n", "line 1 of {file} is not NAME: VALUE"),
    (("--otlp-header-file", "{file}"), None, "{file} cannot be read: No such file or directory (--otlp-header-file)"),
    (("--otlp-ca-file", "{file}"), "no certificate\n", "{file}"),
    (("--listen", "127.0.0.1:0", "--listen", "0.0.0.0:0"), None, "other hosts may reach 0.0.0.0:"),
    (("--listen", "[::]:0"), None, "other hosts may reach [::]:"),
], ids=["header", "no header file", "authorities", "IPv4", "IPv6"])
def test_check_config_finds_what_a_start_finds(arguments, content, says, check, gemmd, tmp_path):
    file = tmp_path / "file"
    if content is not None:
        file.write_text(content)
        file.chmod(0o600)
    if not arguments[0].startswith("--listen"):
        arguments = (*COLLECTOR, *arguments, "--listen", "127.0.0.1:0")
    result = subprocess.run([gemmd, *(text.format(file=file) for text in arguments), *check], capture_output=True,
                            text=True, timeout=PATIENCE_S, check=False)
    assert result.returncode == 1
    [error] = [line for line in result.stderr.splitlines() if line.startswith("gemmd: ")]
    assert says.format(file=file) in error


@pytest.mark.parametrize("arguments", [
    (*COLLECTOR, "--otlp-header-file", "{file}"), ("--listen", "0.0.0.0:0", "--allow-insecure-network"),
    ("--listen", "0.0.0.0:0", "--token-file", "{tokens}"), ("--listen", "[::1]:0"),
    ("--listen", "127.0.0.5:0"), ("--listen", "unix:{tokens}.socket")], ids=range(6))
def test_check_config_takes_what_a_start_would_take(arguments, gemmd, tmp_path):
    for name, content in (("file", HEADER), ("tokens", "alice:alice-token-1\n")):
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o600)
    result = subprocess.run([gemmd, *(text.format(file=tmp_path / "file", tokens=tmp_path / "tokens")
                                      for text in arguments), "--check-config"], capture_output=True, text=True,
                            timeout=PATIENCE_S, check=False)
    assert result.returncode == 0, result.stderr
    assert not any(line.startswith("gemmd: ") for line in result.stderr.splitlines()), result.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"file", "tokens"}


@pytest.mark.parametrize("check", [["--check-config"], []], ids=["check-config", "start"])
@pytest.mark.parametrize("option, value", [("--without-kernels", b"\xff"), ("--listen", b"unix:/tmp/\xe4")])
def test_options_that_are_not_utf8(option, value, check, gemmd):
    """--check-config and /info write the options as JSON, which is UTF-8."""
    result = subprocess.run([gemmd, *check, "--listen", "127.0.0.1:0", option, value],
                            capture_output=True, timeout=PATIENCE_S, check=False)
    assert result.returncode == 2
    assert result.stderr == f"gemmd: {option} is not valid UTF-8\n".encode()


def test_limits_that_do_not_fit_name_the_value_that_is_enough(gemmd):
    def check(*arguments):
        return subprocess.run([gemmd, "--check-config", *arguments], capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)

    asked = ["--max-body", "3G", "--max-result", "1G"]
    for option in ("pinned-bytes", "queue-bytes", "tenant-bytes"):
        refused = check(*asked, f"--{option}", "1G")
        assert refused.returncode == 2, refused.stderr
        found = re.search(r"; --(\S+) of (\d+) is enough", refused.stderr)
        assert found, refused.stderr
        assert found[1] == option
        asked += [f"--{found[1]}", found[2]]
    assert check(*asked).returncode == 0
