#!/usr/bin/env python3
"""Figures that tests answer: runs the tests of each row, and writes how many passed."""

import re
import subprocess
import sys

import figure

# Rows that the named tests check, each with an assertion.
TESTS = {
    "F2": ["test_no_memory.py", "test_failed_starts.py"],
    "F4": ["test_cuda_faults.py"],
    "F8": ["test_framing.py", "test_hostile.py"],
    "F20": ["test_watchdog.py"],
    "F21": ["test_systemd.py"],
    "Clock": ["test_clock.py"],
}
QUICK = ["F20"]
# What the bar of a row asks beyond these tests. Such a row can be missed and not met.
NOT_TESTED = {
    "F2": "the allocations of the client are not among these tests",
    "F4": "without a GPU these tests run on a simulated one, which has no kernels of CUDA",
    "F8": "these tests ran with one version of libmicrohttpd",
    "F20": "these tests do not look for a dump of the threads",
    "F21": "CUDA under the unit is not among these tests",
}


def run(options, files):
    """(passed, failed, skipped) of the tests in the files."""
    command = [sys.executable, "-m", "pytest", "-q", "-c", figure.ROOT / "tests/pytest.ini",
               "--rootdir", figure.ROOT / "tests", "--gemmd", options.gemmd,
               *(figure.ROOT / "tests/integration" / file for file in files)]
    out = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False).stdout
    # pytest is quiet here: it prints a letter for each test, and names those that failed.
    letters = "".join(re.findall(r"^([.FEsxX]+)(?: +\[.*)?$", out, re.MULTILINE))
    return letters.count("."), letters.count("F") + letters.count("E"), letters.count("s")


def measure(options):
    """How many of the tests of each row pass."""
    figures = []
    for row, files in TESTS.items():
        if options.quick and row not in QUICK:
            continue
        passed, failed, skipped = run(options, files)
        figures.append(figure.Figure(
            row, f"{passed} tests passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""),
            False if failed or not passed else None if row in NOT_TESTED else True,
            ", ".join(f"tests/integration/{file}" for file in files)
            + (f"; {NOT_TESTED[row]}" if row in NOT_TESTED else "")))
    return figures


if __name__ == "__main__":
    figure.main(measure)
