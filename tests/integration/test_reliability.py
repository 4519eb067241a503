"""The scripts of tests/reliability run, briefly, so that they do not rot; their figures count only in
a full run. tests/RELIABILITY.md is what the scripts' rows say."""

import json
import subprocess
import sys

import pytest

from conftest import ROOT

FOLDER = ROOT / "tests/reliability"
PARTS = {"figure", "load", "process", "crowd", "drips"}  # imported or started by the scripts
# These take longer than a test may, or are tests themselves.
LONG = {"overload", "soak", "dripping", "idle", "by_tests", "report", "branches", "same_builds"}
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


@pytest.mark.parametrize("row, says", [
    ("F1", "1181 tests passed, 2 failed, 5 skipped"),  # the last section has not ended
    ("F7", "1 tests passed, 1 failed"), ("F5", "the log has no part fuzz")])
def test_figures_from_the_output_of_an_earlier_run(row, says, gemmd, tmp_path):
    log = tmp_path / "log"
    log.write_text(LOG)
    ran = run("by_tests", "--gemmd", gemmd, "--only", row, "--log", log)
    assert says in ran.stdout + ran.stderr
