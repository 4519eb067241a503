"""Arguments of gemmctl that are refused before anything is sent, and what short answers look like."""

import json
import os
import re
import subprocess

import numpy as np
import pytest
import requests

from daemon import PATIENCE_S
from patience import wait_until
from test_gemmctl import DONE, NETWORK, USAGE


NOWHERE = "http://127.0.0.1:1"


@pytest.fixture
def ask(gemmctl, url, tmp_path):
    """ask(*arguments): gemmctl with the shared daemon, in an empty folder."""

    def asker(*arguments, **environment):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("GEMMD_", "XDG_", "HOME"))}
        return subprocess.run([gemmctl, *arguments], cwd=tmp_path, capture_output=True, text=True,
                              env={**clean, "GEMMD_URL": url, **environment}, timeout=PATIENCE_S,
                              check=False)

    return asker


@pytest.mark.parametrize("sizes", ["", "8", "8x8", "8x8x8x8", "8x8x", "0x8x8", "8x8x0", "x8x8", "8x-8x8",
                                   "8x8x2147483648", "8x8x" + "9" * 30, "8x8x99999999999999999999",
                                   "8 x8x8", "8x8x8 "])
def test_random_sizes_are_three_numbers(sizes, ask):
    result = ask("gemm", "--random", sizes)
    assert result.returncode == USAGE, result
    assert "it must be MxNxK" in result.stderr


@pytest.mark.parametrize("arguments, says", [
    (("--random", "8x8x8", "--m", "8"), "leave out --m"),
    (("--random", "8x8x8", "--n", "8"), "leave out --m"),
    (("--random", "8x8x8", "--k", "8"), "leave out --m"),
    (("--random", "8x8x8", "A.npy"), "name no files besides"),
    (("--random", "8x8x8", "--seed", "one"), "must be a whole number"),
    (("--seed", "1", "A.npy", "B.npy"), "--seed needs --random"),
    (("--random", "2147483647x8x2147483647", "--batch", "2147483647", "--dtype", "f64"), "2^63 bytes"),
    (("--random", "8x2147483647x2147483647", "--batch", "2147483647", "--dtype", "f64"), "2^63 bytes"),
])
def test_random_operands_are_made_of_sizes_and_a_seed(arguments, says, ask):
    result = ask("gemm", *arguments)
    assert result.returncode == USAGE and says in result.stderr, result


def test_a_seed_repeats_the_operands(ask, tmp_path):
    def product(*arguments):
        result = ask("gemm", "--random", "3x4x5", "-o", "C.npy", *arguments)
        assert result.returncode == DONE, result
        return (tmp_path / "C.npy").read_bytes()

    assert product() == product("--seed", "1") != product("--seed", "2")


def test_ready_in_three_lengths(ask):
    assert ask("ready").stdout == "ready\n"
    assert ask("ready", "--quiet").stdout == ""
    assert json.loads(ask("ready", "--json").stdout)["ready"] is True
    series = json.loads(ask("metrics", "--json").stdout)["metrics"]
    assert series["gemmd_ready"] == 1
    assert not [name for name in series if name.startswith("#")]


def test_ping(ask):
    """The times of four answers, in order, and whether the daemon accepts work."""
    assert re.fullmatch(r"4 answers: \S+ at best, \S+ in the median, \S+ at worst; ready\n", ask("ping").stdout)
    pinged = json.loads(ask("ping", "--json").stdout)
    assert pinged["ready"] is True and pinged["reason"] is None and pinged["answers"] == 4
    assert 0 < pinged["best_ms"] <= pinged["median_ms"] <= pinged["worst_ms"]
    lost = ask("ping", "--url", NOWHERE)
    assert lost.returncode == NETWORK and lost.stdout == "" and "no daemon answers" in lost.stderr


def test_a_daemon_that_drains_answers_a_ping(start, gemmctl):
    daemon = start("--drain-delay", "600s")
    daemon.terminate()
    wait_until(lambda: daemon.session.get(f"{daemon.url}/readyz", timeout=PATIENCE_S).status_code == 503, "the drain")
    pinged = subprocess.run([gemmctl, "ping", "--json", "--url", daemon.url], capture_output=True, timeout=PATIENCE_S,
                            check=True)
    assert json.loads(pinged.stdout)["ready"] is False and json.loads(pinged.stdout)["reason"]
    daemon.terminate()
    assert daemon.wait() == 0


def test_the_versions_of_both_sides(ask, url):
    own = ask("--version").stdout.split()[1]
    daemon = requests.get(f"{url}/version", timeout=PATIENCE_S).json()
    lines = dict(line.split(maxsplit=1) for line in ask("version").stdout.splitlines())
    assert lines == {"gemmctl": own, "libgemmd": own, "gemmd": f"{daemon['version']} ({daemon['revision']})"}
    versions = json.loads(ask("version", "--json").stdout)
    assert (versions["gemmctl"], versions["gemmd"], versions["revision"]) == (own, daemon["version"], daemon["revision"])
    alone = ask("version", "--url", NOWHERE, "--retries", "0")
    assert alone.returncode == NETWORK and f"gemmctl   {own}\n" in alone.stdout and "gemmd     " not in alone.stdout
    alone = ask("version", "--url", NOWHERE, "--retries", "0", "--json")
    assert alone.returncode == NETWORK and list(json.loads(alone.stdout)) == ["version", "error"]


def test_without_a_home_there_are_no_contexts(ask):
    """The file of contexts is looked for in XDG_CONFIG_HOME if that path is absolute, else in HOME."""
    assert ask("ready").returncode == DONE
    for environment in ({}, {"XDG_CONFIG_HOME": "relative"}, {"XDG_CONFIG_HOME": "/" + 5000 * "x"},
                        {"HOME": "/" + 5000 * "x"}):
        result = ask("ready", "--context", "x", **environment)
        assert result.returncode == USAGE and "cannot be read" in result.stderr, result
        assert ask("completion", "contexts", **environment).stdout == ""


@pytest.mark.parametrize("mistake", [("gem",), ("gemm", "--nothing"), ("info", "--m", "3"), ("gemm", "A", "B", "C")])
@pytest.mark.parametrize("first", [False, True])
def test_a_mistake_is_json_wherever_json_stands(mistake, first, ask):
    result = ask(*(("--json", *mistake) if first else (*mistake, "--json")))
    assert result.returncode == USAGE
    error = json.loads(result.stdout)["error"]
    assert error["code"] == "USAGE" and result.stderr == f"gemmctl: {error['message']}\n"


def test_a_second_word_alone_is_completed(ask):
    """'get' alone is no command, and several commands end in it or in 'ls'."""
    for word, meant in (("get", "tensor get or sequence get"), ("ls", "tensor ls or sequence ls or job ls"),
                        ("cancel", "job cancel")):
        result = ask(word, "x")
        assert result.returncode == USAGE
        assert result.stderr == f"gemmctl: there is no command '{word}'; did you mean {meant}?\n"


@pytest.mark.parametrize("words, says", [
    (("tensor", "list"), "there is no command 'tensor list'; did you mean tensor ls?"),
    (("tensor", "delete", "W"), "there is no command 'tensor delete'; did you mean tensor rm?"),
    (("tensor", "upload", "W"), "there is no command 'tensor upload'; did you mean tensor put?"),
    (("job", "delete", "x"), "there is no command 'job delete'; did you mean job cancel?"),
    (("job", "get", "x"), "there is no command 'job get'; did you mean job result?"),
    (("sequence", "create", "x"), "there is no command 'sequence create'; did you mean sequence put?"),
    (("context", "ls"), "there is no command 'context'; --context NAME chooses a context of ~/.config/gemmd/config")])
def test_words_of_other_programs(words, says, ask):
    result = ask(*words)
    assert result.returncode == USAGE and result.stderr.startswith(f"gemmctl: {says}")


def test_the_summaries_of_the_help_are_apart_from_the_names(ask):
    """The longest name of a command decides where the summaries begin."""
    for line in ask("--help").stdout.partition("Commands\n")[2].partition("\n\n")[0].splitlines():
        assert re.fullmatch(r"  [a-z]+( [a-z]+)?  +\S.*|  +\S.*", line), line
    assert "  sequence truncate  drop the last positions" in ask("sequence", "--help").stdout


def test_letters_in_one_word(ask, tmp_path):
    result = ask("gemm", "--random", "3x4x5", "-qo", "C.npy")
    assert (result.returncode, result.stderr) == (DONE, "")
    assert (tmp_path / "C.npy").exists()


def test_https_to_a_daemon_without_it(ask, url):
    result = ask("ready", "--url", url.replace("http:", "https:"))
    assert result.returncode == NETWORK
    assert "there is no TLS connection" in result.stderr and "begins with http://" in result.stderr


def test_files_of_certificates_that_are_missing(ask):
    for option in ("--ca-file", "--cert-file"):
        result = ask("ready", option, "none.pem")
        assert result.returncode == USAGE and "none.pem cannot be read: No such file" in result.stderr, result


def test_a_proxy_that_does_not_answer(ask, url):
    result = ask("ready", http_proxy="http://127.0.0.1:1")
    assert result.returncode == NETWORK
    assert f"no daemon answers at {url}" in result.stderr and "no_proxy" in result.stderr
    assert ask("ready", http_proxy="http://127.0.0.1:1", no_proxy="127.0.0.1").returncode == DONE


def test_shapes_that_contradict_each_other_are_no_options(ask, tmp_path):
    for name in ("A.npy", "B.npy"):
        np.save(tmp_path / name, np.ones((4, 3), np.float32))
    result = ask("gemm", "A.npy", "B.npy", "-o", "C.npy")
    assert (result.returncode, result.stderr) == (USAGE, "gemmctl: k is 4 by the shape of B and 3 by that of A\n")
    result = ask("gemm", "A.npy", "B.npy", "-o", "C.npy", "-k", "5", "--transb")
    assert (result.returncode, result.stderr) == (USAGE, "gemmctl: --k is 3 by the shape of A and 5 by the parameter\n")


def test_arrays_whose_type_is_not_offered(ask, tmp_path):
    for dtype, says in (("<i8", "an array of '<i8' is not offered; offered are <f8 (f64)"),
                        (">f4", "an array of '>f4' is big-endian; offered are <f8 (f64)")):
        np.save(tmp_path / "A.npy", np.ones((2, 2), dtype))
        result = ask("gemm", "A.npy", "A.npy", "-o", "C.npy")
        assert result.returncode == USAGE and says in result.stderr, result
