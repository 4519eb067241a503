"""gemmctl gemm --async and gemmctl job, against a real daemon."""

import json
import os
import subprocess

import numpy as np
import pytest

from daemon import PATIENCE_S
from matrices import Problem, assert_right, random_operands
from test_gemmctl import DONE, FAILED, NETWORK, REFUSED, USAGE, succeed, write

# A product that takes one thread minutes.
ENDLESS = ("gemm", "--random", "8192x4096x2048", "--dtype", "bf16", "--kernel", "naive", "--async")
UNKNOWN = "0" * 32


TOKEN = "the-token-of-alice"


@pytest.fixture
def tokens(tmp_path):
    """The options of a daemon that requires TOKEN, without which lists of jobs have no ids."""
    path = tmp_path / "tokens"
    path.write_text(f"alice:{TOKEN}\n")
    path.chmod(0o600)
    return "--token-file", path


@pytest.fixture
def busy(start, gemmctl, tmp_path, tokens):
    """run(*arguments) against a daemon whose device is kept busy by the first job, whose id is
    busy.first."""
    daemon = start("--backend", "cpu", "--cpu-threads", "1", "--no-cpu-pauses", "--drain-timeout", "1s", *tokens)

    def runner(*arguments):
        return subprocess.run([gemmctl, *map(str, arguments)], cwd=tmp_path, capture_output=True,
                              env={**os.environ, "GEMMD_URL": daemon.url, "GEMMD_TOKEN": TOKEN},
                              timeout=PATIENCE_S, check=False)

    runner.first = succeed(runner(*ENDLESS)).stdout.decode().strip()
    yield runner
    runner("job", "cancel", runner.first)


def hand_in(run, *arguments):
    lines = succeed(run("gemm", *arguments, "--async")).stdout.decode().splitlines()
    assert len(lines) == 1
    return lines[0]


def test_from_hand_in_to_result(run, tmp_path, rng):
    problem = Problem(31, 17, 9)
    operands = random_operands(problem, rng)
    job = hand_in(run, *write(tmp_path, operands))
    assert succeed(run("job", "wait", job)).stdout == b"done\n"
    assert succeed(run("job", "status", job)).stdout == b"done\n"
    succeed(run("job", "result", job, "-o", "C.npy"))
    assert_right(problem, operands, np.load(tmp_path / "C.npy").tobytes(), rng)
    piped = succeed(run("job", "result", job, "--format", "raw")).stdout
    assert piped == np.load(tmp_path / "C.npy").tobytes()
    succeed(run("job", "cancel", job))
    assert run("job", "status", job).returncode == FAILED


def test_json(run, tmp_path, rng):
    files = write(tmp_path, random_operands(Problem(5, 7, 3), rng))
    taken = json.loads(succeed(run("gemm", *files, "--async", "--json")).stdout)
    job = taken["job"]
    status = json.loads(succeed(run("job", "wait", job, "--json")).stdout)
    assert (status["id"], status["state"], status["http_status"]) == (job, "done", 200)
    assert status["request_id"] == taken["request_id"]
    assert status["queued_ms"] >= 0 and status["created"].endswith("Z") and status["expires"].endswith("Z")
    report = json.loads(succeed(run("job", "result", job, "-o", "C.npy", "--json")).stdout)
    assert (report["shape"], report["dtype"]) == ([5, 7], "f32")
    assert json.loads(succeed(run("job", "cancel", job, "--json")).stdout)["cancelled"] is True


def test_not_there_yet(busy, tmp_path):
    np.save(tmp_path / "A.npy", np.ones((2, 2), np.float32))
    job = hand_in(busy, "A.npy", "A.npy")
    result = busy("job", "result", job, "-o", "C.npy")
    assert result.returncode == REFUSED, result
    assert not (tmp_path / "C.npy").exists()
    assert busy("job", "status", job).stdout in (b"queued\n", b"running\n")
    waited = busy("job", "wait", job, "--timeout", "1ms")
    assert waited.returncode == NETWORK, waited
    succeed(busy("job", "cancel", job))
    cancelled = busy("job", "wait", job)
    assert (cancelled.returncode, cancelled.stdout) == (FAILED, b"cancelled\n"), cancelled
    assert busy("job", "result", job, "-o", "C.npy").returncode == FAILED


def test_deadline_of_a_job(busy, tmp_path):
    """It fails on the daemon, and says so when it is asked."""
    np.save(tmp_path / "A.npy", np.ones((2, 2), np.float32))
    job = hand_in(busy, "A.npy", "A.npy", "--timeout", "1ms")
    waited = busy("job", "wait", job)
    assert (waited.returncode, waited.stdout) == (FAILED, b"failed\n"), waited
    result = busy("job", "result", job, "-o", "C.npy")
    assert result.returncode == NETWORK and b"504" in result.stderr, result


def test_daemon_without_jobs(start, gemmctl, tmp_path, rng):
    daemon = start("--max-jobs", "0")
    files = write(tmp_path, random_operands(Problem(5, 7, 3), rng))
    result = subprocess.run([gemmctl, "gemm", *files, "--async", "--url", daemon.url],
                            cwd=tmp_path, capture_output=True, timeout=PATIENCE_S, check=False)
    assert result.returncode == FAILED
    assert b"accepts no jobs" in result.stderr and result.stdout == b""


@pytest.mark.parametrize("arguments, status, says", [
    (["job", "status", UNKNOWN], FAILED, "404"),
    (["job", "wait", UNKNOWN], FAILED, "404"),
    (["job", "result", UNKNOWN, "-o", "C.npy"], FAILED, "404"),
    (["job", "cancel", UNKNOWN], FAILED, "404"),
    (["job", "status", "a/b"], USAGE, "not the id"),
    (["job", "result", UNKNOWN, "--json"], USAGE, "standard output"),
    (["job", "result", UNKNOWN, "-o", "C.npy", "--format", "png"], USAGE, "png"),
    (["job"], USAGE, "missing"),
    (["gemm", "A.npy", "B.npy", "--async", "-o", "C.npy"], USAGE, "job result"),
    (["gemm", "A.npy", "B.npy", "--async", "--timeout", "soon"], USAGE, "soon"),
])
def test_mistakes(arguments, status, says, run, tmp_path, rng):
    write(tmp_path, random_operands(Problem(5, 7, 3), rng))
    result = run(*arguments)
    assert result.returncode == status, result
    assert says in result.stderr.decode()


def test_job_result_that_cannot_be_written(run, tmp_path, rng):
    job = hand_in(run, *write(tmp_path, random_operands(Problem(5, 7, 3), rng)))
    succeed(run("job", "wait", job))
    result = run("job", "result", job, "-o", "no/such/folder/C.npy")
    assert result.returncode == FAILED and b"no/such/folder" in result.stderr
    assert succeed(run("job", "result", job, "-o", "C.npy", "--timing")).returncode == DONE
    succeed(run("job", "cancel", job))


def test_list(busy, tmp_path):
    """The newest first: a job that is done, one that computes and one that waits."""
    np.save(tmp_path / "A.npy", np.ones((2, 2), np.float32))
    waiting = hand_in(busy, "A.npy", "A.npy")
    title, *lines = succeed(busy("job", "ls")).stdout.decode().splitlines()
    assert title.split() == ["ID", "STATE", "OP", "AGE", "QUEUED", "RUNNING", "BYTES", "EXPIRES", "IN"]
    assert [line.split()[:3:2] for line in lines] == [[waiting, "gemm"], [busy.first, "gemm"]]
    assert lines[0].split()[1] in ("queued", "running")
    document = json.loads(succeed(busy("job", "ls", "--json")).stdout)
    assert [(job["id"], job["op"]) for job in document["jobs"]] == [(waiting, "gemm"),
                                                                     (busy.first, "gemm")]
    assert "http_status" not in document["jobs"][0]


def test_list_without_tokens(run, tmp_path):
    """The daemon keeps the ids secret."""
    np.save(tmp_path / "A.npy", np.ones((2, 2), np.float32))
    job = hand_in(run, "A.npy", "A.npy")
    succeed(run("job", "wait", job))
    lines = succeed(run("job", "ls")).stdout.decode().splitlines()[1:]
    assert lines[0].split()[:3] == ["-", "done", "gemm"]
    assert json.loads(succeed(run("job", "ls", "--json")).stdout)["jobs"][0]["id"] == ""
    succeed(run("job", "cancel", job))


def test_list_of_none_and_of_one_that_is_done(start, gemmctl, tmp_path, tokens):
    daemon = start(*tokens)

    def run(*arguments):
        return succeed(subprocess.run([gemmctl, *arguments, "--url", daemon.url], cwd=tmp_path,
                                      env={**os.environ, "GEMMD_TOKEN": TOKEN}, capture_output=True,
                                      timeout=PATIENCE_S, check=False))

    empty = run("job", "ls")
    assert (empty.stdout, empty.stderr) == (b"", b"there are no jobs\n")
    assert run("job", "ls", "--quiet").stderr == b""
    np.save(tmp_path / "A.npy", np.ones((2, 2), np.float32))
    job = hand_in(run, "A.npy", "A.npy")
    run("job", "wait", job)
    words = run("job", "ls").stdout.decode().splitlines()[1].split()
    assert words[:3] == [job, "done", "gemm"] and words[6] == "16"
    listed, = json.loads(run("job", "ls", "--json").stdout)["jobs"]
    described = json.loads(run("job", "status", job, "--json").stdout)
    assert {"version": described["version"], **listed} == described
    run("job", "cancel", job)
    assert run("job", "ls").stdout == b""
