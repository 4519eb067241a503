#!/usr/bin/env python3
"""Figures that tests answer: runs the tests of each row, and writes how many passed.

With --libmicrohttpd, the row F8 is measured a second time, with the libmicrohttpd.so.12 of that folder in
the place of the system's. With --log, the file that a run of tests/run.sh has printed to, the parts of
tests/run.sh are not run again.
"""

import ctypes
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import figure


@dataclass
class Tests:
    """The tests of a row, each with an assertion."""

    integration: tuple = ()  # files of tests/integration
    unit: str = ""  # a pattern of ctest
    parts: tuple = ()  # of tests/run.sh --nightly, which takes long; only with --only
    rows: tuple = ()  # of the report, which are parts of this one: all have to be met too
    without_gpu: str = ""  # what the bar asks beyond these tests where there is no GPU
    note: str = ""  # what a reader of the figure should know besides
    not_tested: str = ""  # what the bar asks beyond these tests. Such a row can be missed and not met

    def names(self):
        """What the note of the row names."""
        return ", ".join([*(f"tests/integration/{file}" for file in self.integration),
                          *([f"ctest -R '{self.unit}'"] if self.unit else []),
                          *([f"tests/run.sh --nightly {' '.join(self.parts)}"] if self.parts else []),
                          *(f"the row {row}" for row in self.rows)])

    def beyond(self):
        return self.not_tested or (self.without_gpu if not figure.gpu() else "")


ROWS = {
    "F1": Tests(parts=("asan", "tsan")),
    "F2": Tests(("test_no_memory.py", "test_failed_starts.py"), "^test_client_memory$"),
    "F3": Tests(("test_failed_io.py", "test_failed_starts.py"),
                rows=("Disk", "Shared memory", "Descriptors", "Memory")),
    "F4": Tests(("test_cuda_faults.py",),
                without_gpu="without a GPU these tests run on a simulated one, which has no kernels of CUDA"),
    "F7": Tests(parts=("lint",)),
    "F8": Tests(("test_framing.py", "test_hostile.py")),
    "F20": Tests(("test_watchdog.py",),
                 note="the packaged unit allows no core (LimitCORE=0), because a core has the data of all tenants"),
    "F23": Tests(unit="^packaging_(exports|layout|header|version)$"),
    "F24": Tests(("test_hardening.py",), note="PIE, RELRO, FORTIFY and stack protector"),
    "Clock": Tests(("test_clock.py",)),
}
QUICK = ["F23"]


def command(words, **variables):
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, cwd=figure.ROOT,
                          env={**os.environ, **variables}).stdout


def run_integration(options, files, **variables):
    """(passed, failed, skipped) of the tests in the files."""
    out = command([sys.executable, "-m", "pytest", "-q", "-c", "tests/pytest.ini", "--rootdir", "tests",
                   "--gemmd", options.gemmd, *(f"tests/integration/{file}" for file in files)], **variables)
    # pytest is quiet here: it prints a letter for each test, and names those that failed.
    letters = "".join(re.findall(r"^([.FEsxX]+)(?: +\[.*)?$", out, re.MULTILINE))
    return letters.count("."), letters.count("F") + letters.count("E"), letters.count("s")


def version_of(library):
    found = ctypes.CDLL(str(library)).MHD_get_version
    found.restype = ctypes.c_char_p
    return found().decode()


def with_another_libmicrohttpd(options, tests, sums):
    """The figure of a row whose tests run with two versions of libmicrohttpd. `sums` are those of the system's."""
    versions = [version_of("libmicrohttpd.so.12")]
    runs = [sums]
    if options.libmicrohttpd:
        folder = options.libmicrohttpd.resolve()
        versions.append(version_of(folder / "libmicrohttpd.so.12"))
        runs.append(run_integration(options, tests.integration, LD_LIBRARY_PATH=str(folder)))
    failed = any(run[1] or not run[0] for run in runs)
    return figure.Figure(
        "F8", "; ".join(f"with libmicrohttpd {version}: {counts(run)}" for version, run in zip(versions, runs)),
        False if failed else None if len(set(versions)) < 2 else True,
        tests.names() + ("" if options.libmicrohttpd else "; these tests ran with one version of libmicrohttpd, and "
                         "--libmicrohttpd names the folder of another"))


def counts(sums):
    passed, failed, skipped = sums
    return f"{passed} tests passed, {failed} failed" + (f", {skipped} skipped" if skipped else "")


def run_unit(options, pattern):
    out = command(["ctest", "--test-dir", options.gemmd.parent.parent, "-R", pattern])
    found = re.search(r"(\d+) tests failed out of (\d+)", out)
    if found is None:
        return 0, 1, 0
    return int(found[2]) - int(found[1]), int(found[1]), 0


def read_parts(log, parts):
    """(passed, failed, skipped) of the steps and tests of some parts, from the output of tests/run.sh. A section
    without any counts as failed, because its run has not ended."""
    sums, seen = [0, 0, 0], set()
    pieces = re.split(r"^==== (.*) \(\d+s\)$", log, flags=re.MULTILINE)
    for title, text in zip(pieces[1::2], pieces[2::2]):
        if not (of := seen_in(title, parts)):
            continue
        seen |= of
        counts = [(1, 0, 0)] * len(re.findall(r"^ok: ", text, re.MULTILINE))
        counts += [(0, 1, 0)] * len(re.findall(r"^FAILED: ", text, re.MULTILINE))
        counts += [tuple(map(int, found)) for found in re.findall(
            r"^[a-z]+ \([a-z]+\): (\d+) passed, (\d+) failed, (\d+) skipped$", text, re.MULTILINE)]
        sums = [sum(column) for column in zip(sums, *(counts or [(0, 1, 0)]))]
    if missing := set(parts) - seen:
        raise figure.CannotRun(f"the log has no part {', '.join(sorted(missing))} of tests/run.sh.")
    return sums


def seen_in(title, parts):
    """The parts that a section of the output belongs to: `lint`, `unit (asan)`, `fuzz, 4 s each`."""
    return set(re.findall(r"[a-z]+", title)) & set(parts)


def run_parts(options, parts):
    if options.log:
        return read_parts(options.log.read_text(errors="replace"), parts)
    found = re.findall(r"^(\d+) passed, (\d+) failed", command(["tests/run.sh", "--nightly", *parts]), re.MULTILINE)
    return (int(found[-1][0]), int(found[-1][1]), 0) if found else (0, 1, 0)


def run(options, tests):
    sums = [0, 0, 0]
    for runner, what in ((run_integration, tests.integration), (run_unit, tests.unit), (run_parts, tests.parts)):
        if what:
            sums = [total + more for total, more in zip(sums, runner(options, what))]
    return sums


def verdict_of(options, row):
    """Whether the recorded figures of another row meet its bar; None: none is recorded, or not all are judged."""
    folder = options.rows or Path(__file__).parent / "rows"
    verdicts = [one["met"] for path in sorted(folder.glob("*.json")) for one in json.loads(path.read_text())["figures"]
                if one["row"] == row]
    return False if False in verdicts else None if not verdicts or None in verdicts else True


def measure(options):
    """How many of the tests of each row pass."""
    wanted = options.only.split(",") if options.only else QUICK if options.quick else [
        row for row, tests in ROWS.items() if not tests.parts]
    if unknown := set(wanted) - ROWS.keys():
        raise figure.CannotRun(f"no tests are known for {', '.join(sorted(unknown))}.")
    figures = []
    for row in wanted:
        tests = ROWS[row]
        sums = run(options, tests)
        if row == "F8":
            figures.append(with_another_libmicrohttpd(options, tests, sums))
            continue
        passed, failed, _ = sums
        parts = {part: verdict_of(options, part) for part in tests.rows}
        figures.append(figure.Figure(
            row, counts(sums),
            False if failed or not passed or False in parts.values() else
            None if tests.beyond() or None in parts.values() else True,
            "; ".join(filter(None, (tests.names(), tests.note, tests.beyond())))))
    return figures


if __name__ == "__main__":
    figure.main(measure, [
        ("--only", {"metavar": "ROW,...", "help": "run the tests of these rows"}),
        ("--libmicrohttpd", {"type": Path, "metavar": "FOLDER", "help": "with another libmicrohttpd.so.12 for F8"}),
        ("--log", {"type": Path, "metavar": "FILE", "help": "what tests/run.sh has printed: read, and not run again"}),
    ], split=True)
