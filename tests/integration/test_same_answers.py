"""The script that compares the answers of two builds finds what differs, and nothing else."""

import subprocess
import sys

import pytest

from conftest import ROOT

SCRIPT = ROOT / "tests/bench/same_answers.py"
sys.path.insert(0, str(SCRIPT.parent))

from corpus import exchange, masks, units  # noqa: E402


def compare(old, new, *options):
    return subprocess.run([sys.executable, SCRIPT, old, new, "--backend", "cpu", *options], capture_output=True,
                          text=True, check=False, timeout=600)


def test_a_build_has_the_answers_of_itself(gemmd):
    ran = compare(gemmd, gemmd, "--share", "0.02")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    requests, equal, different = (int(word) for word in ran.stdout.splitlines()[-1].split() if word.isdigit())
    assert requests == equal > 300 and different == 0


@pytest.mark.parametrize("option, says", [("--without-kernels openblas", "status 200 became 422"),
                                          ("--compress-answers", "Vary")])
def test_a_build_that_answers_otherwise_is_found(option, says, gemmd, tmp_path):
    other = tmp_path / "gemmd"
    other.write_text(f'#!/bin/sh\nexec "{gemmd}" {option} "$@"\n')
    other.chmod(0o755)
    ran = compare(gemmd, other, "--share", "0.1", "--only", "gemm")
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert says in ran.stdout and not ran.stdout.endswith(" 0 differ\n")


HEADERS = {"Date": "Fri, 27 Nov 2026 18:27:49 GMT", "Content-Type": "application/octet-stream", "Gemmd-Batch": "1",
           "Gemmd-Verify": "pass; residual=0.25", "Server-Timing": "recv;dur=0.041, total;dur=0.089",
           "Retry-After": "3", "X-Request-Id": "1", "Content-Length": "4"}
JOB = {"Content-Type": "application/json", "Content-Length": "90"}


def comparable(path="/gemm", status=200, body=b"\0\0\0\1", headers=None, **changed):
    """Of an answer with some headers changed; None leaves a header out."""
    given = (headers or HEADERS) | {name.replace("_", "-"): value for name, value in changed.items()}
    answer = exchange.Answer(status, [(name, value) for name, value in given.items() if value is not None], body)
    return masks.comparable(units.Request("GET", path, id="1"), answer)


@pytest.mark.parametrize("changed", [{"status": 201}, {"body": b"\0\0\0\2"}, {"body": b"\0\0\0\1\0"}, {"Date": None},
                                     {"Retry_After": None}, {"Content_Type": "application/x-npy"}, {"Gemmd_Batch": "2"},
                                     {"Gemmd_Verify": "fail; residual=0.25"}, {"X_Request_Id": "2"}, {"X": "new"},
                                     {"Server_Timing": "recv;dur=0.041, all;dur=0.089"}, {"Content_Length": "5"}])
def test_a_difference_counts(changed):
    assert comparable(**changed) != comparable()


@pytest.mark.parametrize("changed", [{"Date": "Fri, 27 Nov 2026 18:27:50 GMT"}, {"Retry_After": "9"},
                                     {"Gemmd_Verify": "pass; residual=1.5e-03"},
                                     {"Server_Timing": "recv;dur=1.041, total;dur=10"}])
def test_the_clock_and_random_numbers_do_not_count(changed):
    assert comparable(**changed) == comparable()


@pytest.mark.parametrize("path, old, new, same", [
    ("/jobs/1", b'{"id":"a","state":"done","running_ms":1}', b'{"id":"b","state":"done","running_ms":2.25}', True),
    ("/jobs/1", b'{"id":"a","state":"done"}', b'{"id":"a","state":"failed"}', False),
    ("/jobs/1", b'{"id":"a","state":"done"}', b'{"state":"done","id":"a"}', False),
    ("/info", b'{"uptime_seconds":1,"limits":{"streams":8}}', b'{"uptime_seconds":2,"limits":{"streams":8}}', True),
    ("/info", b'{"uptime_seconds":1,"limits":{"streams":8}}', b'{"uptime_seconds":1,"limits":{"streams":9}}', False),
    ("/v2", b'{"revision":"a"}', b'{"revision":"b"}', False)])
def test_members_of_documents(path, old, new, same):
    assert (comparable(path, body=old, headers=JOB) == comparable(path, body=new, headers=JOB)) == same


def test_an_answer_of_a_crowd_does_not_say_how_many_shared_its_launch():
    request = units.Request("POST", "/gemm", id="1")
    one, two = (exchange.Answer(200, [("Gemmd-Batch", batch)], b"") for batch in "12")
    assert masks.comparable(request, one, True) == masks.comparable(request, two, True)
