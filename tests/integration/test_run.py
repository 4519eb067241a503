"""tests/run.sh: its options, what it makes of the reports of ctest and pytest, and a test that hangs."""

import re
import subprocess
import sys

import pytest

from conftest import ROOT
from daemon import PATIENCE_S

CTEST = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="Linux-c++" tests="3" failures="1" disabled="0" skipped="0" time="3.5">
    <testcase name="test_queue" classname="test_queue" time="0.25" status="run"/>
    <testcase name="test_jobs" classname="test_jobs" time="2.5" status="fail">
        <failure message=""/>
    </testcase>
    <testcase name="test_log" classname="test_log" time="0.75" status="run"/>
</testsuite>
"""
PYTEST = """<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite name="pytest" errors="1" failures="0" skipped="1" \
tests="3" time="4"><testcase classname="integration.test_a" name="test_x[1-a b]" time="3.1"><error message="m">e</error>\
</testcase><testcase classname="integration.test_a" name="test_y" time="0.1" /><testcase \
classname="integration.test_b" name="test_z" time="0.0"><skipped message="s" /></testcase></testsuite></testsuites>
"""


def bash(script, folder, *arguments):
    return subprocess.run(["bash", "-uc", f"source {ROOT}/tests/run/report.sh\n{script}", "bash", *arguments],
                          cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_the_sum_counts_what_failed_and_says_how_to_repeat_it(tmp_path):
    (tmp_path / "ctest.xml").write_text(CTEST)
    (tmp_path / "pytest.xml").write_text(PYTEST)
    ran = bash("""seed=7
        section "unit (cpu)"
        tally "unit (cpu)" ctest.xml 8 "ctest -R"
        tally "integration (cpu)" pytest.xml 1 "pytest --seed 7"
        step "right" true
        sum""", tmp_path)
    lines = ran.stdout.splitlines()
    assert ran.returncode == 1, "something failed"
    begin = lines.index("| part | seconds (CPU seconds) |")
    assert [re.sub(r"\d+", "N", line) for line in lines[begin + 2:begin + 5]] == [
        "| unit (cpu) | N (N) |", "| all of it | N (N) |", "seed N"]
    assert lines[-1] == "4 passed, 2 failed", ran.stdout
    assert "unit (cpu): 2 passed, 1 failed, 0 skipped" in lines
    assert "integration (cpu): 1 passed, 1 failed, 1 skipped" in lines
    assert "    ctest -R 'test_jobs'" in lines
    assert "    pytest --seed 7 'tests/integration/test_a.py::test_x[1-a b]'" in lines
    slowest = lines.index("the slowest:")
    assert [line.split()[-1] for line in lines[slowest + 1:slowest + 4]] == ["test_jobs", "test_log", "test_queue"]


@pytest.mark.parametrize("report", [CTEST.replace('failures="1"', 'failures="0"').replace("fail", "run"), ""],
                         ids=["that all passed", "that is empty"])
def test_a_run_that_ends_badly_has_failed(report, tmp_path):
    """It crashed or hung, whatever the report says."""
    (tmp_path / "report.xml").write_text(report)
    ran = bash('tally "unit (cpu)" report.xml 124 "ctest -R"; sum', tmp_path)
    assert ran.returncode == 1 and ran.stdout.splitlines()[-1].endswith(" passed, 1 failed"), ran.stdout


@pytest.mark.parametrize("arguments, says", [(["unti"], "no part is called 'unti'"),
                                             (["lint unit"], "no part is called 'lint unit'"),
                                             (["--seed", "x"], "--seed takes a whole number, not 'x'"),
                                             (["--seed"], "--seed takes a whole number, not ''")])
def test_wrong_arguments(arguments, says):
    ran = subprocess.run([ROOT / "tests/run.sh", *arguments], capture_output=True, text=True, timeout=PATIENCE_S,
                         check=False)
    assert ran.returncode == 2 and says in ran.stderr, ran


def run_pytest(folder, *arguments):
    return subprocess.run([sys.executable, "-m", "pytest", "-c", ROOT / "tests/pytest.ini", "--rootdir", ROOT / "tests",
                           *arguments], cwd=folder, capture_output=True, text=True, timeout=4 * PATIENCE_S, check=False)


def test_a_run_says_its_seed(tmp_path):
    ran = run_pytest(tmp_path, "--seed", "1234", f"{ROOT}/tests/integration/test_tiers.py", "-k", "new_file")
    assert ran.returncode == 0 and "--seed 1234;" in ran.stdout, ran.stdout


def test_a_test_that_hangs_ends_and_the_run_goes_on(tmp_path):
    (tmp_path / "test_hangs.py").write_text(
        "import time\ndef test_hang():\n    time.sleep(3600)\ndef test_right():\n    pass\n")
    ran = run_pytest(tmp_path, "-n", "1", "-o", "faulthandler_timeout=1", tmp_path)
    assert "1 failed, 1 passed" in ran.stdout, ran.stdout
    assert "test_hangs.py::test_hang" in ran.stdout and "line 3 in test_hang" in ran.stdout + ran.stderr


NINJA = """rule make
  command = $before echo $out >> ../made && touch $out
build first: make
build second: make first
  before = test -e ../needed || sleep 3600;
"""


def test_the_next_build_begins_ahead_and_is_finished_when_it_is_needed(tmp_path):
    """The compiler that the second build has begun with hangs until the build is needed, and is ended then."""
    for preset in ("one", "two"):
        (tmp_path / "out" / preset).mkdir(parents=True)
        (tmp_path / "out" / preset / "build.ninja").write_text(
            NINJA if preset == "two" else "build all: phony\n")
    ran = bash(f"""source {ROOT}/tests/run/builds.sh
        set -o pipefail
        out=out root=$PWD jobs=2 tier=all seed=7
        configure() {{ :; }}
        presets=(one two)
        chrt() {{ :; }} # the test does not wait for a core that is idle
        trap stop_ahead EXIT
        need_build one
        until [[ -e out/made ]]; do sleep 0.1; done
        touch out/needed
        need_build two
        sum""", tmp_path)
    assert ran.returncode == 0 and ran.stdout.splitlines()[-1] == "2 passed, 0 failed", ran
    assert (tmp_path / "out" / "made").read_text().split() == ["first", "second"], ran
