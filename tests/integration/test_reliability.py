"""The scripts of tests/reliability run, briefly, so that they do not rot; their figures count only in
a full run. tests/RELIABILITY.md is what the scripts' rows say."""

import json
import os
import subprocess
import sys

import pytest

from conftest import ROOT

FOLDER = ROOT / "tests/reliability"
PARTS = {"figure", "load", "process", "crowd", "drips"}  # imported or started by the scripts
# These take longer than a test may, or are tests themselves.
LONG = {"overload", "soak", "dripping", "tenants", "by_tests", "report", "branches", "same_builds", "fuzzing"}
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in PARTS | LONG)


def run(script, *arguments):
    return subprocess.run([sys.executable, FOLDER / f"{script}.py", *map(str, arguments)], text=True,
                          capture_output=True, timeout=600, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_quick_run_meets_its_bar(script, gemmd, tmp_path):
    ran = run(script, "--gemmd", gemmd, "--quick", "--rows", tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    row = json.loads((tmp_path / f"{script}.json").read_text())
    assert row["quick"] and bool(row["figures"]) != bool(row["why_not_run"]), row
    assert all(one["met"] is not False for one in row["figures"])


@pytest.mark.parametrize("script", sorted(LONG - {"report"}))
def test_a_long_script_explains_itself(script):
    ran = run(script, "--help")
    assert ran.returncode == 0 and "--quick" in ran.stdout, ran.stderr


def test_the_report_is_what_the_rows_say(tmp_path):
    out = tmp_path / "RELIABILITY.md"
    ran = run("report", "--out", out)
    assert ran.returncode == 0, ran.stderr
    assert out.read_text() == (ROOT / "tests/RELIABILITY.md").read_text(), \
        "run tests/reliability/report.py"
    bars = json.loads((FOLDER / "figures.json").read_text())
    assert [f"F{number}" for number in range(1, 25)] == list(bars)[:24]
    assert all(f"| {row} | " in out.read_text() for row in bars)


def test_a_figure_without_a_row_is_an_error(tmp_path):
    (tmp_path / "x.json").write_text(json.dumps(
        {"script": "x", "machine": "m", "date": "d", "command": "c",
         "figures": [{"row": "F99", "figure": "1", "met": True, "note": ""}]}))
    ran = run("report", "--rows", tmp_path, "--out", tmp_path / "out")
    assert ran.returncode != 0 and "F99" in ran.stderr


LOG = """
==== packages (0s)
ok: packages

==== unit (cpu) (90s)
unit (cpu): 180 passed, 7 failed, 0 skipped

==== build (asan) (100s)
ok: build (asan)

==== unit (asan) (200s)
unit (asan): 180 passed, 1 failed, 2 skipped

==== integration (asan) (300s)
integration (asan): 1000 passed, 0 failed, 3 skipped

==== lint (900s)
ok: clang-format
FAILED: clang-tidy

==== integration (tsan) (1000s)
"""


@pytest.mark.parametrize("row, log_has, says", [
    ("F1", LOG, "1181 tests passed, 2 failed, 5 skipped"),  # the last section has not ended
    ("F7", LOG, "1 tests passed, 1 failed"), ("F7", LOG.replace("lint", "unit"), "the log has no part lint")])
def test_figures_from_the_output_of_an_earlier_run(row, log_has, says, gemmd, tmp_path):
    log = tmp_path / "log"
    log.write_text(log_has)
    ran = run("by_tests", "--gemmd", gemmd, "--only", row, "--log", log)
    assert says in ran.stdout + ran.stderr


@pytest.mark.parametrize("cores, says", [
    (["--daemon-cores", "0"], "--daemon-cores and --client-cores are given together"),
    (["--daemon-cores", "0", "--client-cores", "1022-1023"], "not all of 1022-1023")])
def test_overload_needs_the_cores_that_it_is_given(cores, says, gemmd, tmp_path):
    ran = run("overload", "--gemmd", gemmd, "--quick", "--rows", tmp_path, *cores)
    row = json.loads((tmp_path / "overload.json").read_text())
    assert ran.returncode == 0 and says in row["why_not_run"], ran.stdout + ran.stderr


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this process may use one core")
def test_overload_keeps_the_daemon_and_its_clients_apart(gemmd, tmp_path):
    mine, theirs = sorted(os.sched_getaffinity(0))[:2]
    ran = run("overload", "--gemmd", gemmd, "--quick", "--rows", tmp_path,
              "--daemon-cores", mine, "--client-cores", theirs)
    [figure] = json.loads((tmp_path / "overload.json").read_text())["figures"]
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"pinned to the cores {theirs}; the daemon is pinned to the cores {mine}" in figure["note"]


FUZZER = """#!/bin/sh
# In the place of a harness that libFuzzer runs.
printf '%s\\n' "$@" >arguments
"""
COUNT = "echo 'stat::number_of_executed_units: {}'\n"
CRASH = "echo 'artifact_prefix=./; Test unit written to ./crash-0123'; exit 77\n"


@pytest.fixture
def fuzzing(tmp_path):
    """Runs fuzzing.py with scripts for harnesses; a script counts 1000 executions if no other is given."""
    def run_fuzzing(*arguments, **scripts):
        programs = tmp_path / "build/tests"
        programs.mkdir(parents=True, exist_ok=True)
        for corpus in (ROOT / "tests/fuzz/corpus").iterdir():
            program = programs / f"fuzz_{corpus.name}"
            program.write_text(FUZZER + scripts.get(corpus.name, COUNT.format(1000)))
            program.chmod(0o755)
        ran = run("fuzzing", "--build", programs.parent, "--rows", tmp_path, "--found", tmp_path / "found", *arguments)
        return ran, json.loads((tmp_path / "fuzzing.json").read_text())
    return run_fuzzing


def test_fuzzing_sums_the_executions_of_all_runs(fuzzing, tmp_path):
    fuzzing("--seconds", 7, npy=COUNT.format(30))
    ran, row = fuzzing("--seconds", 7)
    count = len(list((ROOT / "tests/fuzz/corpus").iterdir()))
    change = row["figures"][0]
    assert ran.returncode == 0 and change["met"] is None, ran.stdout + ran.stderr  # it did not take 600 s
    assert change["figure"].endswith(f"in 2 runs: {2000 * count - 970:,} executions, at least 1,030 of one (fuzz_npy), "
                                     "0 open findings")
    arguments = (tmp_path / "found/fuzz_http/arguments").read_text().splitlines()
    assert {"-max_total_time=7", "-detect_leaks=0", f"-dict={ROOT}/tests/fuzz/http.dict",
            f"{ROOT}/tests/fuzz/corpus/http"} <= set(arguments)


@pytest.mark.parametrize("script, says", [
    (COUNT.format(9) + CRASH, "1 open findings, 1 crashes"), ("exit 3", "1 open findings, 1 other failures"),
    ("true", "1 open findings, 1 other failures")])
def test_fuzzing_misses_its_bar_if_a_harness_fails(fuzzing, script, says):
    ran, row = fuzzing("--quick", oip=script)
    assert ran.returncode == 1 and all(one["met"] is False for one in row["figures"]), ran.stdout + ran.stderr
    assert all(says in one["figure"] for one in row["figures"]), row


def test_fuzzing_begins_anew_after_a_finding(fuzzing):
    fuzzing("--quick", oip=COUNT.format(9) + CRASH)
    ran, row = fuzzing("--quick", "--only", "npy")
    assert "1 open findings, 1 crashes" in row["figures"][0]["figure"], ran.stdout + ran.stderr
    ran, row = fuzzing("--quick", "--only", "oip,npy", oip=COUNT.format(12))
    assert "at least 12 of one (fuzz_oip), 0 open findings" in row["figures"][0]["figure"], ran.stdout + ran.stderr
    ran, row = fuzzing("--quick", "--only", "nosuch")
    assert "there is no fuzz_nosuch" in row["why_not_run"]


def test_fuzzing_says_that_harnesses_are_missing(tmp_path):
    ran = run("fuzzing", "--quick", "--build", tmp_path, "--rows", tmp_path)
    row = json.loads((tmp_path / "fuzzing.json").read_text())
    assert ran.returncode == 0 and "has no fuzz_answer, " in row["why_not_run"], ran.stdout + ran.stderr
