"""Contexts of gemmctl: the file, and which of options, environment and contexts comes first."""

import os
import subprocess

import pytest

from daemon import PATIENCE_S
from test_gemmctl import DONE, FAILED, NETWORK, USAGE

NOWHERE = "http://127.0.0.1:1"




@pytest.fixture
def guarded(start, tmp_path):
    """A daemon that wants the token in tmp_path/mine."""
    (tmp_path / "tokens").write_text("me:open-sesame\n")
    (tmp_path / "tokens").chmod(0o600)
    (tmp_path / "mine").write_text("open-sesame\n")
    return start("--token-file", str(tmp_path / "tokens"))


@pytest.fixture
def ask(gemmctl, tmp_path):
    """ask(config, *arguments, **environment): gemmctl info with this file of contexts."""

    def asker(config, *arguments, command=("info",), **environment):
        folder = tmp_path / "config" / "gemmd"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config").unlink(missing_ok=True)
        if config is not None:
            (folder / "config").write_text(config)
        clean = {k: v for k, v in os.environ.items() if not k.startswith("GEMMD_")}
        return subprocess.run([gemmctl, *command, *arguments], cwd=tmp_path, capture_output=True,
                              env={**clean, "XDG_CONFIG_HOME": str(tmp_path / "config"), **environment},
                              timeout=PATIENCE_S, check=False)

    return asker


def test_context_has_address_and_token(guarded, ask, tmp_path):
    config = f"""# a comment
  [default]
url={guarded.url}
token-file = {tmp_path / "mine"}

[ nowhere ]
url = {NOWHERE}
"""
    no_retry = ["--retries", "0"]
    assert ask(config).returncode == DONE
    assert ask(config, "--context", "default").returncode == DONE
    assert ask(config, GEMMD_CONTEXT="default").returncode == DONE
    assert ask(config, *no_retry, GEMMD_CONTEXT="nowhere").returncode == NETWORK
    assert ask(config, *no_retry, "--context", "nowhere").returncode == NETWORK
    assert ask(config, "--context", "default", GEMMD_CONTEXT="nowhere").returncode == DONE
    assert ask(config, *no_retry, "--context", "nowhere", "--url", guarded.url).returncode == FAILED
    assert ask(config, command=("completion", "contexts")).stdout.split() == [b"default", b"nowhere"]


def test_option_environment_context(guarded, ask, tmp_path):
    """The first that has a value wins; what --context names takes the place of the environment."""
    config = f"[default]\nurl = {guarded.url}\ntoken-file = {tmp_path / 'wrong'}\n"
    (tmp_path / "wrong").write_text("open-barley\n")
    mine = ["--token-file", str(tmp_path / "mine")]
    assert ask(config).returncode == FAILED
    assert ask(config, *mine).returncode == DONE
    assert ask(config, GEMMD_TOKEN="open-sesame").returncode == DONE
    assert ask(config, "--context", "default", GEMMD_TOKEN="open-sesame").returncode == FAILED
    assert ask(config, "--context", "default", *mine).returncode == DONE
    nowhere = {"GEMMD_URL": NOWHERE}
    assert ask(config, "--retries", "0", **nowhere).returncode == NETWORK
    assert ask(config, "--context", "default", *mine, **nowhere).returncode == DONE


def test_a_token_that_every_user_can_read(guarded, ask, tmp_path):
    """Refused by name and with the command that mends it, from an option and from a context."""
    config = f"[default]\nurl = {guarded.url}\ntoken-file = {tmp_path / 'mine'}\n"
    for mode in (0o644, 0o602):
        (tmp_path / "mine").chmod(mode)
        for result in (ask(config), ask(None, "--url", guarded.url, "--token-file", "mine")):
            assert result.returncode == USAGE
            assert b"mine can be read or written by every user; 'chmod 600 " in result.stderr, result
    (tmp_path / "mine").chmod(0o640)
    assert ask(config).returncode == DONE


def test_token_of_a_context_stays_with_its_address(guarded, ask, tmp_path):
    """--url and GEMMD_URL name another address: the context's token is not sent there."""
    config = f"[default]\nurl = {NOWHERE}\ntoken-file = {tmp_path / 'mine'}\n"
    for arguments, environment in ((["--url", guarded.url], {}), ([], {"GEMMD_URL": guarded.url}),
                                   (["--url", guarded.url], {"GEMMD_CONTEXT": "default"})):
        result = ask(config, *arguments, **environment)
        assert result.returncode == FAILED and b"401" in result.stderr, result
    assert ask(config, "--context", "default", "--url", guarded.url).returncode == DONE


def test_paths(guarded, ask, tmp_path):
    """In the home directory, and beside the file of contexts."""
    (tmp_path / "config" / "gemmd").mkdir(parents=True)
    (tmp_path / "config" / "gemmd" / "near").write_text("open-sesame\n")
    for path in ("near", "~/mine", str(tmp_path / "mine")):
        config = f"[default]\nurl = {guarded.url}\ntoken-file = {path}\n"
        assert ask(config, HOME=str(tmp_path)).returncode == DONE


def test_home_without_xdg(url, gemmctl, tmp_path):
    (tmp_path / ".config" / "gemmd").mkdir(parents=True)
    (tmp_path / ".config" / "gemmd" / "config").write_text(f"[default]\nurl = {url}\n")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("GEMMD_", "XDG_"))}
    result = subprocess.run([gemmctl, "ready"], env={**clean, "HOME": str(tmp_path)}, capture_output=True,
                            timeout=PATIENCE_S, check=False)
    assert result.returncode == DONE, result


@pytest.mark.parametrize("config, arguments, says", [
    (None, ["--context", "x"], "cannot be read"), ("[y]\n", ["--context", "x"], "there is no context 'x'"),
    ("[x]\n", ["--context", "x"], "has no url"), ("[x]\nurl\n", ["--context", "x"], "line 2"),
    ("[x]\nport = 1\n", ["--context", "x"], "line 2: 'port' is not a key"),
    ("[x]\nurl = a:1\nurl = b:1\n", ["--context", "x"], "line 3: 'url' is given twice"),
    ("url = a:1\n", ["--context", "x"], "line 1"), ("[x\n", ["--context", "x"], "line 1"),
    ("[]\n", ["--context", "x"], "line 1"), ("[x]\nurl =\n", ["--context", "x"], "line 2"),
    ("[default]\nport = 1\n", [], "line 2")])
def test_mistakes(config, arguments, says, ask):
    result = ask(config, *arguments)
    assert result.returncode == USAGE and says in result.stderr.decode(), result


def test_nothing_is_needed(url, ask):
    """No file, or a file without the context 'default'."""
    for config in (None, "", "[other]\nurl = nosuch.invalid:1\n"):
        assert ask(config, "--url", url).returncode == DONE
    assert ask("[other]\nport = 1\n", "--url", url).returncode == DONE
    assert ask(None, GEMMD_CONTEXT="x").returncode == USAGE
