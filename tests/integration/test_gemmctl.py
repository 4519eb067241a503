"""gemmctl against a real daemon: files in and out, pipes, reports, exit codes."""

import io
import json
import os
import pty
import re
import select
import signal
import stat
import subprocess
import time
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import requests
import safetensors
import safetensors.numpy

from daemon import PATIENCE_S, PATIENT
from matrices import NUMPY, OUTS, Operands, Problem, assert_right, random_operands
from reserved_port import ReservedPort
from test_formats import CARRIER, npy, safetensors_body, squeeze
from test_limits import TARGET, ask
from wire import Wire

DONE, FAILED, USAGE, REFUSED, NETWORK = 0, 1, 2, 3, 4


def write(tmp_path, operands):
    """Every operand in its own .npy file; returns the arguments that name them."""
    arguments = []
    for name, array in zip(("A", "B", "bias", "C0"), squeeze(operands)):
        if array is not None:
            (tmp_path / f"{name}.npy").write_bytes(npy(array))
            arguments += {"A": ["A.npy"], "B": ["B.npy"], "bias": ["--bias", "bias.npy"],
                          "C0": ["--c0", "C0.npy"]}[name]
    return arguments


def options(problem):
    """What the files do not say."""
    words = []
    for name, value in problem.parameters().items():
        if name in ("transa", "transb"):
            words.append(f"--{name}")
        elif name not in ("m", "n", "k", "batch", "bias", "dtype"):
            words.append(f"--{name}={value}")
    return words


def succeed(result):
    assert result.returncode == DONE, result.stderr.decode()
    return result


@pytest.mark.parametrize("dtype, out", [(d, o) for d, outs in OUTS.items() for o in outs])
def test_npy_files(dtype, out, run, tmp_path, rng):
    problem = Problem(31, 17, 9, dtype=dtype, out=out, transa=True, alpha=2, beta=-1, bias=True,
                      act="relu", batch=2)
    operands = random_operands(problem, rng)
    succeed(run("gemm", *write(tmp_path, operands), "-o", "C.npy", *options(problem)))
    got = np.load(tmp_path / "C.npy", allow_pickle=False)
    assert got.dtype == np.dtype(CARRIER.get(out, NUMPY[out])) and got.shape == (2, 31, 17)
    assert_right(problem, operands, got.tobytes(), rng)


def test_safetensors_file(run, tmp_path, rng):
    problem = Problem(5, 7, 3, dtype="bf16", bias=True, beta=1)
    operands = random_operands(problem, rng)
    (tmp_path / "in.safetensors").write_bytes(safetensors_body(operands))
    succeed(run("gemm", "in.safetensors", "-o", "out.safetensors", "--beta", "1"))
    # safetensors.numpy reads no bf16, though it writes it.
    ((name, got),) = safetensors.deserialize((tmp_path / "out.safetensors").read_bytes())
    assert (name, got["dtype"], got["shape"]) == ("c", "BF16", [5, 7])
    assert_right(problem, operands, got["data"], rng)


def test_raw_files(run, tmp_path, rng):
    problem = Problem(5, 7, 3, dtype="f16", transb=True)
    operands = random_operands(problem, rng)
    (tmp_path / "a.bin").write_bytes(operands.a.tobytes())
    (tmp_path / "b.bin").write_bytes(operands.b.tobytes())
    succeed(run("gemm", "a.bin", "b.bin", "-o", "c.bin", "-m5", "-n", 7, "--k=3", "--dtype", "f16",
                "--transb"))
    assert_right(problem, operands, (tmp_path / "c.bin").read_bytes(), rng)


def test_from_one_format_to_another(run, tmp_path, rng):
    problem = Problem(5, 7, 3)
    operands = random_operands(problem, rng)
    files = write(tmp_path, operands)
    for output in ("C.safetensors", "C.bin"):
        succeed(run("gemm", *files, "-o", output))
    assert_right(problem, operands, (tmp_path / "C.bin").read_bytes(), rng)
    got = safetensors.numpy.load_file(tmp_path / "C.safetensors")["c"]
    assert_right(problem, operands, got.tobytes(), rng)


def test_fortran_order(run, tmp_path, rng):
    problem = Problem(5, 7, 3, beta=1)
    operands = random_operands(problem, rng)
    turned = Operands(*(None if array is None else np.asarray(array, order="F")
                        for array in squeeze(operands)))
    files = write(tmp_path, turned)
    succeed(run("gemm", *files, "-o", "C.npy", "--beta=1"))
    assert_right(problem, operands, np.load(tmp_path / "C.npy").tobytes(), rng)


def test_pipes(run, rng):
    """cat A.npy B.npy | gemmctl gemm - - > C.npy"""
    problem = Problem(300, 200, 250)
    operands = random_operands(problem, rng)
    a, b = squeeze(operands)[:2]
    result = succeed(run("gemm", "-", "-", stdin=npy(a) + npy(b)))
    assert_right(problem, operands, np.load(io.BytesIO(result.stdout)).tobytes(), rng)


def test_result_that_cannot_be_written(run, tmp_path, rng):
    files = write(tmp_path, random_operands(Problem(5, 7, 3), rng))
    result = run("gemm", *files, "-o", "no/such/folder/C.npy")
    assert result.returncode == FAILED
    assert b"no/such/folder/C.npy" in result.stderr


def test_a_failure_leaves_the_old_result(run, tmp_path, rng):
    files = write(tmp_path, random_operands(Problem(5, 7, 3), rng))
    (tmp_path / "C.npy").write_bytes(b"old")
    assert run("gemm", *files, "-o", "C.npy", "--kernel", "nosuch").returncode == FAILED
    assert (tmp_path / "C.npy").read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["A.npy", "B.npy", "C.npy"], "nothing else stays behind"


def test_a_link_stays_a_link(run, tmp_path, rng):
    files = write(tmp_path, random_operands(Problem(5, 7, 3), rng))
    (tmp_path / "real.npy").write_bytes(b"old")
    (tmp_path / "real.npy").chmod(0o640)
    (tmp_path / "C.npy").symlink_to("real.npy")
    succeed(run("gemm", *files, "-o", "C.npy"))
    assert (tmp_path / "C.npy").is_symlink()
    assert np.load(tmp_path / "real.npy").shape == (5, 7)
    assert stat.S_IMODE((tmp_path / "real.npy").stat().st_mode) == 0o640


@pytest.mark.parametrize("arguments, says", [
    ([], "command"),
    (["gem"], "gemm"),
    (["gemm"], "operand"),
    (["gemm", "A.npy", "B.npy", "more.npy"], "more.npy"),
    (["gemm", "A.npy", "B.npy", "-o", "C.npy", "--alpa", "2"], "--alpha"),
    (["gemm", "A.npy", "B.npy", "-o", "C.npy", "--act", "tanh"], "gelu_tanh"),
    (["gemm", "A.npy", "B.npy", "-o", "C.npy", "--alpha", "nan"], "finite"),
    (["gemm", "A.npy", "B.npy", "-o", "C.npy", "-m", "6"], "m is"),
    (["gemm", "A.npy", "A.npy", "-o", "C.npy"], "k is"),
    (["gemm", "A.npy", "nosuch.npy", "-o", "C.npy"], "nosuch.npy"),
    (["gemm", "A.npy", "text.npy", "-o", "C.npy"], "NUMPY"),
    (["gemm", "A.npy", "-o", "C.npy"], "B is missing"),
    (["gemm", "A.npy", "B.npy", "--json"], "standard output"),
    (["info", "--url", "ftp://nowhere"], "http"),
    (["info", "--alpha", "1"], "--alpha"),
    (["info", "--timeout", "soon"], "time"),
])
def test_wrong_usage(arguments, says, run, tmp_path, rng):
    write(tmp_path, random_operands(Problem(5, 7, 3), rng))
    (tmp_path / "text.npy").write_text("1 2 3")
    result = run(*arguments)
    assert result.returncode == USAGE, result
    assert says in result.stderr.decode()
    if "--json" in arguments:
        assert says in json.loads(result.stdout)["error"]["message"]
    else:
        assert result.stdout == b""


@pytest.mark.parametrize("operand, code, json_code", [("nosuch.npy", USAGE, "MALFORMED"),
                                                      ("--nosuch", USAGE, "USAGE")])
def test_json_of_an_error_before_the_daemon_is_asked(operand, code, json_code, run, tmp_path, rng):
    write(tmp_path, random_operands(Problem(5, 7, 3), rng))
    result = run("gemm", "--json", "A.npy", operand, "-o", "C.npy")
    assert result.returncode == code
    error = json.loads(result.stdout)["error"]
    assert (error["code"], error["http_status"]) == (json_code, 0)
    assert error["message"] in result.stderr.decode()


def no_operands():
    """name -> bytes of files that hold no operand, and what is said of them"""
    matrix = np.ones((3, 7), np.float32)
    return {"a folder": (None, "Is a directory"),
            "nothing": (b"", "ends before B"),
            "text": (b"1 2 3\n", "NUMPY"),
            "a scalar": (npy(np.float32(3)), "scalar"),
            "no rows": (npy(matrix[:0]), "k is 0"),
            "a vector": (npy(matrix[0]), "dimensions"),
            "big-endian": (npy(matrix.astype(">f4")), "big-endian"),
            "complex": (npy(matrix.astype(complex)), "not offered"),
            "half of it": (npy(matrix)[:-40], "there are 44"),
            "another type": (npy(matrix.astype(np.float16)), "must be the same")}


@pytest.mark.parametrize("what", no_operands())
def test_file_that_holds_no_operand(what, run, tmp_path, rng):
    data, says = no_operands()[what]
    write(tmp_path, random_operands(Problem(5, 7, 3), rng))
    if data is None:
        (tmp_path / "other.npy").mkdir()
    else:
        (tmp_path / "other.npy").write_bytes(data)
    result = run("gemm", "A.npy", "other.npy", "-o", "C.npy")
    assert result.returncode == USAGE, result
    assert says in result.stderr.decode()
    assert not (tmp_path / "C.npy").exists()


@pytest.mark.parametrize("arguments", [["info"], ["metrics"], ["tensor", "ls", "--json"], ["--help"],
                                       ["gemm", "A.npy", "B.npy"],
                                       ["gemm", "A.npy", "B.npy", "-o", "/dev/full"],
                                       ["gemm", "A.npy", "B.npy", "-o", "C.npy", "--json"]],
                         ids=" ".join)
def test_disk_that_is_full(arguments, gemmctl, url, tmp_path, rng):
    write(tmp_path, random_operands(Problem(5, 7, 3), rng))
    with open("/dev/full", "wb") as full:
        result = subprocess.run([gemmctl, "--url", url, *arguments], cwd=tmp_path, stdout=full,
                                stderr=subprocess.PIPE, timeout=PATIENCE_S, check=False)
    assert result.returncode == FAILED, result
    assert (b"No space left on device" in result.stderr
            or b"could not be written completely" in result.stderr)


@pytest.mark.parametrize("arguments", [["info"], ["metrics"], ["--help"], ["tensor", "ls", "--json"],
                                       ["bench", "--requests", "1"]], ids=" ".join)
def test_reader_of_a_text_that_leaves(arguments, gemmctl, url, tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        result = subprocess.run([gemmctl, *(["--url", url] if "--help" not in arguments else []),
                                 *arguments], cwd=tmp_path, stdout=writing, stderr=subprocess.PIPE,
                                timeout=PATIENCE_S, check=False)
    finally:
        os.close(writing)
    assert result.returncode == -signal.SIGPIPE, result
    assert result.stderr == b""


def test_reader_that_leaves(gemmctl, url, tmp_path, rng):
    write(tmp_path, random_operands(Problem(5, 7, 3), rng))
    reading, writing = os.pipe()
    os.close(reading)
    try:
        result = subprocess.run([gemmctl, "--url", url, "gemm", "A.npy", "B.npy", "-o", "-"],
                                cwd=tmp_path, stdout=writing, stderr=subprocess.PIPE,
                                timeout=PATIENCE_S, check=False)
    finally:
        os.close(writing)
    assert result.returncode == -signal.SIGPIPE, result
    assert result.stderr == b""


def test_host_that_has_no_address(run):
    result = run("info", "--url", "http://nosuch.invalid", "--retries", "0")
    assert result.returncode == NETWORK
    assert "no daemon answers at http://nosuch.invalid: Could not resolve" in result.stderr.decode()


def test_what_the_daemon_refuses(run, tmp_path, rng):
    files = write(tmp_path, random_operands(Problem(5, 7, 3), rng))
    result = run("gemm", *files, "-o", "C.npy", "--kernel", "nosuch", "--json")
    assert result.returncode == FAILED
    error = json.loads(result.stdout)["error"]
    assert (error["code"], error["http_status"]) == ("UNSUPPORTED", 422)
    assert error["message"] in result.stderr.decode()


def test_no_daemon(run):
    with ReservedPort() as port:
        result = run("info", "--url", f"http://{port.address}", "--retries", "0")
    assert result.returncode == NETWORK
    assert result.stderr.count(b"\n") == 1


def test_refused_for_a_while(start, gemmctl, tmp_path, rng):
    """429 is repeated, and 3 if it stays."""
    daemon = start("--queue-requests", "1", *PATIENT)
    files = write(tmp_path, random_operands(Problem(5, 7, 3), rng))
    with Wire(daemon.address) as first:
        first.send(ask(TARGET, 32))
        assert first.receive().status == 100
        result = subprocess.run([gemmctl, "gemm", *files, "-o", "C.npy", "--retries", "1", "--url",
                                 daemon.url], cwd=tmp_path, capture_output=True,
                                timeout=PATIENCE_S, check=False)
    assert result.returncode == REFUSED, result.stderr
    assert b"2 attempts" in result.stderr


def test_a_daemon_whose_deadlines_are_short(start, gemmctl, tmp_path, rng):
    """Who waits longer than its longest deadline gets the daemon's own."""
    daemon = start("--max-timeout", "20s")
    problem = Problem(5, 7, 3)
    operands = random_operands(problem, rng)
    subprocess.run([gemmctl, "gemm", *write(tmp_path, operands), "-o", "C.npy", "--retries", "0",
                    "--url", daemon.url], cwd=tmp_path, check=True, timeout=PATIENCE_S)
    assert_right(problem, operands, np.load(tmp_path / "C.npy").tobytes(), rng)


def test_unix_socket(start, gemmctl, tmp_path, rng):
    path = tmp_path / "gemmd.sock"
    start(listen=(f"unix:{path}",))
    problem = Problem(5, 7, 3)
    operands = random_operands(problem, rng)
    subprocess.run([gemmctl, "gemm", *write(tmp_path, operands), "-o", "C.npy", "--url",
                    f"unix:{path}"], cwd=tmp_path, check=True, capture_output=True,
                   timeout=PATIENCE_S)
    assert_right(problem, operands, np.load(tmp_path / "C.npy").tobytes(), rng)


def test_json_report(run, tmp_path, rng):
    files = write(tmp_path, random_operands(Problem(5, 7, 3), rng))
    result = succeed(run("gemm", *files, "-o", "C.npy", "--json", "--verify", "freivalds"))
    report = json.loads(result.stdout)
    assert (report["shape"], report["dtype"], report["bytes"]) == ([5, 7], "f32", 140)
    assert report["verify"]["verdict"] == "pass"
    assert set(report["timing_ms"]) == {"recv", "queue", "h2d", "kernel", "d2h", "total"}


def test_timing_and_quiet(run, tmp_path, rng):
    files = write(tmp_path, random_operands(Problem(5, 7, 3), rng))
    timed = succeed(run("gemm", *files, "-o", "C.npy", "--timing")).stderr.decode()
    for stage in ("recv", "queue", "h2d", "kernel", "d2h", "total"):
        assert stage in timed
    assert succeed(run("gemm", *files, "-o", "C.npy", "--quiet")).stderr == b""


def test_info(run):
    text = succeed(run("info")).stdout.decode()
    assert "naive" in text and "gemmd" in text
    assert "\033" not in text  # which only terminals get
    assert json.loads(succeed(run("info", "--json")).stdout)["info"]["version"]


def test_metrics(run):
    assert b"gemmd_requests_total" in succeed(run("metrics")).stdout


def test_ready(run):
    assert run("ready").returncode == DONE


def test_bench(run):
    report = json.loads(succeed(run("bench", "-m64", "-n64", "-k64", "--requests", "50",
                                    "--connections", "4", "--json")).stdout)
    assert report["requests"] == 50
    assert succeed(run("bench", "-m16", "-n16", "-k16", "--duration", "200ms")).stdout


def test_bench_plots(run, tmp_path):
    """--plot draws to an SVG file, which appears whole or not at all, or after the report."""
    load = ("bench", "-m16", "-n16", "-k16", "--requests=40", "--connections=2")
    path = tmp_path / "latencies.svg"
    report = json.loads(succeed(run(*load, "--plot", path, "--json")).stdout)
    drawing = ElementTree.parse(path).getroot()
    texts = ["".join(text.itertext()) for text in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert "product 16x16x16 f32 to f32 by " in " ".join(texts[0].split())
    assert {"p50", "p90", "p99", "p99.9", "max"} <= {text.split()[0] for text in texts}
    assert report["requests"] == 40
    said = succeed(run(*load, "--plot", "-")).stdout.decode()
    assert "answers over time" in said and " p50" in said and max(map(len, said.splitlines())) <= 80
    before = path.read_bytes()
    nowhere = tmp_path / "missing" / "x.svg"
    for words, says in [(["--plot", nowhere], "cannot be written"), (["--plot", "x.png"], "ends in .svg"),
                        (["--plot", "-", "--json"], "--json"), (["--plot", path, "--url=127.0.0.1:1"], "no daemon answers")]:
        refused = run(*load, *words)
        assert refused.returncode != DONE and says in refused.stderr.decode(), words
    assert path.read_bytes() == before and [file.name for file in tmp_path.iterdir()].count(path.name) == 1
    assert not list(tmp_path.glob("latencies.svg.*"))


def test_bench_ladder(run):
    """Every kernel of the daemon that takes the table's type has a time."""
    info = json.loads(succeed(run("info", "--json")).stdout)["info"]
    tables = json.loads(succeed(run("bench", "ladder", "-n", "256", "--json")).stdout)["tables"]
    assert [table["dtype"] for table in tables] == ["f32", "f32", "bf16"]
    for table in tables:
        able = {k["name"] for k in info["kernels"]
                if k["op"] == "gemm" and table["dtype"] in k["dtypes"]}
        rows = {row["kernel"]: row["kernel_ms"] for row in table["rows"]}
        assert set(rows) == able - {"grouped"}
        for name, times in rows.items():
            assert list(times) == ["256"] and times["256"] > 0, name
    text = succeed(run("bench", "ladder", "-n", "256")).stdout.decode()
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(line) for line in lines[:2]} == {len(lines[0])} and "| naive " in text and "N = 4096" in text


PAGES = Path(__file__).resolve().parents[2] / "client" / "man"
OPERANDS = {"gemm": 2, "attention": 3, "tensor put": 2, "tensor get": 1, "tensor rm": 1,
            "job status": 1, "job wait": 1, "job result": 1, "job cancel": 1, "completion": 1}
COMMANDS = ["gemm", "attention", "conv", "reduce", "softmax", "tensor put", "tensor get", "tensor ls", "tensor rm", "job ls",
            "job status", "job wait", "job result", "job cancel", "bench", "bench attention",
            "bench conv", "bench reduce", "bench softmax", "bench ladder", "info", "metrics", "top", "ready", "ping", "version", "completion", "help"]


@pytest.mark.parametrize("command", ["", "tensor", "job", *COMMANDS])
def test_help_fits_a_terminal(command, run):
    """80 columns; how to call it comes first, examples follow the options, and the manual page is named last."""
    text = succeed(run(*command.split(), "--help")).stdout.decode()
    assert max(map(len, text.splitlines())) <= 80, text
    assert text.startswith("gemmctl")
    if command in COMMANDS:
        assert text.index("\nUsage\n") < text.index("\nCommon options\n") < text.index("\nExamples\n")
        assert f"  gemmctl {command}" in text[text.index("\nExamples\n"):]
        _, heading, own = text[:text.index("\nCommon options\n")].partition("\nOptions\n")
        assert bool(heading) == ("--" in own), "a heading without options"
    if command not in ("", "help"):
        page = f"gemmctl-{command.split()[0]}"
        assert text.endswith(f"'man {page}' says more.\n")
        assert (PAGES / f"{page}.1").exists()


@pytest.fixture(scope="module")
def first_command(gemmctl):
    """Of every option that a command's help names, the first command whose help does."""
    first = {}
    for command in COMMANDS:
        for option in re.findall(r"--([a-z0-9-]+)", subprocess.run(
                [gemmctl, *command.split(), "--help"], check=True, capture_output=True, text=True).stdout):
            first.setdefault(option, command)
    return first


@pytest.mark.parametrize("command", COMMANDS)
def test_help_offers_what_the_command_takes(command, first_command, sanitized, run, rng, request):
    """Every option that the help names is taken, and no other, which are thousands of processes: of the options that
    are refused, only --nightly tries more than a fifth, and a sanitizer sees each option with one of the commands that
    take it."""
    text = succeed(run(*command.split(), "--help")).stdout.decode()
    listed = text[text.index("\nUsage\n"):text.index("\nExamples\n")]
    own = listed[:listed.index("\nCommon options\n")]
    if command in ("gemm", "conv", "reduce", "softmax", "tensor put"):
        assert "bench" not in own and "attention" not in own
    assert ("bench" in own) == command.startswith("bench")
    named = set(re.findall(r"(?m)^ +(?:-.,)? +--([a-z0-9-]+)", listed))
    named |= set(re.findall(r"--([a-z0-9-]+)[,.]", listed[listed.index("describes"):]))
    if sanitized:
        tried = {option for option, first in first_command.items() if first == command}
    else:
        others = sorted(first_command.keys() - named)
        if request.config.option.tier != "nightly":
            others = rng.choice(others, len(others) // 5, replace=False)
        tried = named.union(others)
    for option in sorted(tried - {"help", "version"}):
        url = ["--url=127.0.0.1:1", "--retries=0"] if command != "help" else []
        refused = run(*command.split(), *(["x"] * OPERANDS.get(command, 0)), f"--{option}=0",
                      *(word for word in url if not word.startswith(f"--{option}=")))
        assert (b"is not an option of" in refused.stderr) == (option not in named), (option, refused)


def test_address_without_a_scheme(gemmctl, url, tmp_path):
    for address in (url.removeprefix("http://"), url.removeprefix("http://") + "/"):
        for arguments, environment in ((["--url", address], {}), ([], {"GEMMD_URL": address})):
            succeed(subprocess.run([gemmctl, "ready", *arguments], cwd=tmp_path, capture_output=True,
                                   env={**os.environ, **environment}, timeout=PATIENCE_S,
                                   check=False))
    for address in ("localhost", "localhost:", ":8080", "localhost:http", "ftp://localhost:1"):
        result = subprocess.run([gemmctl, "ready", "--url", address], cwd=tmp_path,
                                capture_output=True, timeout=PATIENCE_S, check=False)
        assert result.returncode == USAGE and b"HOST:PORT" in result.stderr, result


def test_suffix_of_no_format(run, tmp_path, rng):
    """Refused before anything is computed: no daemon is asked."""
    files = write(tmp_path, random_operands(Problem(5, 7, 3), rng))
    for name in ("C.csv", "C.npz", "folder.npy/C.txt"):
        result = run("gemm", *files, "-o", name, "--url", "http://127.0.0.1:1")
        assert result.returncode == USAGE, result
        for word in (name, ".npy", ".safetensors", ".bin", ".raw", "--format"):
            assert word in result.stderr.decode()
    result = run("attention", *files, files[0], "-o", "O.npy", "--lse", "lse.txt", "--url",
                 "http://127.0.0.1:1")
    assert result.returncode == USAGE and b"lse.txt" in result.stderr, result
    for name, options in (("C.csv", ["--format", "npy"]), ("C", []), (".hidden", [])):
        succeed(run("gemm", *files, "-o", name, *options))
        assert np.load(tmp_path / name).shape == (5, 7)


@pytest.mark.parametrize("arguments, says", [
    (["gemm", "A.npy", "B.npy", "-o", "C.npy", "--priority", "11"], "--priority is '11'"),
    (["gemm", "A.npy", "B.npy", "-o", "C.npy", "--out", "i32"], "--out=i32 is not offered"),
    (["gemm", "A.npy", "B.npy", "-o", "C.npy", "--shm"], "--shm needs the address of a Unix socket"),
    (["bench", "-m", "0"], "--m is '0'"),
    (["bench", "attention", "--kv-heads", "0"], "--kv-heads is '0'"),
    (["tensor", "rm", "none.such"], "'gemmctl tensor ls' lists the tensors"),
    (["job", "status", "0" * 32], "'gemmctl job ls' lists the jobs"),
])
def test_errors_speak_of_options_and_commands(arguments, says, run, tmp_path, rng):
    write(tmp_path, random_operands(Problem(5, 7, 3), rng))
    result = run(*arguments)
    assert result.returncode in (USAGE, FAILED) and says in result.stderr.decode(), result


def test_hints_about_the_daemon(start, gemmctl, tmp_path):
    (tmp_path / "tokens").write_text("somebody:open-sesame\n")
    (tmp_path / "wrong").write_text("open-barley\n")
    daemon = start("--token-file", str(tmp_path / "tokens"))
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GEMMD_")}

    def says(*arguments):
        result = subprocess.run([gemmctl, "info", "--retries", "0", *arguments], cwd=tmp_path, env=clean,
                                capture_output=True, timeout=PATIENCE_S, check=False)
        assert result.returncode in (FAILED, NETWORK) and result.stderr.count(b"\n") == 1
        return result.stderr.decode()

    assert "name the file of a token with --token-file, or set GEMMD_TOKEN" in says("--url", daemon.url)
    assert "accepts none of the tokens" in says("--url", daemon.url, "--token-file", "wrong")
    assert "--url" not in says("--url", "http://127.0.0.1:1")


def test_interrupted_bench(gemmctl, start, tmp_path):
    """Ctrl-C ends the measurement: the report so far, and 130."""
    url = start().url  # a daemon that has served many kinds of requests counts further kinds together
    process = subprocess.Popen([gemmctl, "bench", "--duration", "10m", "--url", url], cwd=tmp_path,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with requests.Session() as session:
        deadline = time.monotonic() + PATIENCE_S
        before = after = None
        while before is None or after <= before + 50:
            assert time.monotonic() < deadline and process.poll() is None
            lines = session.get(f"{url}/metrics", timeout=PATIENCE_S).text.splitlines()
            after = sum(float(line.split()[-1]) for line in lines
                        if line.startswith('gemmd_requests_total{op="gemm"'))
            before = after if before is None else before
            time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert b"requests/s" in out


def test_help_and_version(run):
    assert succeed(run("--version")).stdout.startswith(b"gemmctl 0.")
    text = succeed(run("--help")).stdout.decode()
    for command in ("gemm", "bench", "info", "metrics", "ready"):
        assert command in text
        assert f"gemmctl {command}" in succeed(run(command, "--help")).stdout.decode()


def test_a_terminal_gets_no_binary(gemmctl, url, tmp_path, rng):
    """On a terminal C does not go there; with a file it goes to the file."""
    size = 2500
    body = npy(np.ones((size, size), np.float32))
    (tmp_path / "A.npy").write_bytes(body)

    def on_terminal(*arguments, stdout=None):
        master, slave = pty.openpty()
        process = subprocess.Popen(
            [gemmctl, "gemm", "A.npy", "A.npy", "--url", url, *arguments], cwd=tmp_path,
            stdin=subprocess.DEVNULL, stdout=slave if stdout is None else stdout, stderr=slave,
            env={**os.environ, "TERM": "xterm"})
        os.close(slave)
        seen = b""
        while True:
            ready, _, _ = select.select([master], [], [], PATIENCE_S)
            assert ready, "gemmctl says nothing and does not end"
            try:
                data = os.read(master, 65536)
            except OSError:  # the other side is closed
                break
            if not data:
                break
            seen += data
        os.close(master)
        return process.wait(PATIENCE_S), seen

    code, seen = on_terminal()
    assert code == USAGE and b"terminal" in seen
    code, seen = on_terminal("-o", "C.npy", stdout=subprocess.DEVNULL)
    assert code == DONE, seen
    assert np.load(tmp_path / "C.npy").shape == (size, size)
