#!/usr/bin/env python3
"""Counts which lines each unit test and each file of integration tests executes, for mutate.py --reach.

    tests/mutations/reach.py [--gemmd build-coverage/bin/gemmd] [--jobs N] [--units] FOLDER [test_NAME.py ...]

The programs come from the preset `coverage`. Each file of integration tests runs alone and leaves the
counts of gcov in FOLDER/NAME_OF_THE_FILE, with its result in FOLDER/NAME_OF_THE_FILE.log. With --units, the unit
tests of the preset run instead, and leave the same under their names. A process that is killed leaves no counts.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The longest file of tests runs for minutes when all allocations of a start fail in turn.
FILE_S = 1200
LONGEST_FIRST = ("test_failed_starts.py", "test_no_memory.py", "test_stacking.py", "test_attention.py")


def count(test, options):
    folder = options.folder / test.stem
    folder.mkdir(parents=True, exist_ok=True)
    with (options.folder / f"{test.stem}.log").open("w") as log:
        status = subprocess.run(
            [sys.executable, "-m", "pytest", "-c", "tests/pytest.ini", "--rootdir", "tests", "-m", "not slow",
             "--thin", "--gemmd", str(options.gemmd), str(test)], cwd=ROOT, check=False, stdout=log,
            stderr=subprocess.STDOUT, timeout=FILE_S,
            env={**os.environ, "GCOV_PREFIX": str(folder)}).returncode
    return test.name, status


def count_unit(test, options):
    """Runs a unit test, a pair of its name and its command."""
    name, command = test
    folder = options.folder / name
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with (options.folder / f"{name}.log").open("w") as log:
        status = subprocess.run(command, cwd=options.build, check=False, stdout=log, stderr=subprocess.STDOUT,
                                timeout=FILE_S, env={**os.environ, "GCOV_PREFIX": str(folder),
                                                     "CK_DEFAULT_TIMEOUT": "600"}).returncode
        print(f"{name} ended in {time.monotonic() - began:.2f}s", file=log)
    return name, status


def units_of(build):
    """The unit tests of a build that are its own programs."""
    listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True)
    return [(test["name"], test["command"]) for test in json.loads(listed.stdout)["tests"]
            if pathlib.Path(test["command"][0]).is_relative_to(build)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--gemmd", type=pathlib.Path, default=ROOT / "build-coverage" / "bin" / "gemmd")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--units", action="store_true", help="run the unit tests of the build of --gemmd")
    parser.add_argument("tests", nargs="*", help="names of files of tests (default: all)")
    options = parser.parse_args()
    # A daemon that is started by nohup ignores SIGHUP, and tests of reloads fail without a fault.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    options.folder = options.folder.resolve()
    options.build = options.gemmd.resolve().parents[1]
    tests = sorted((ROOT / "tests" / "integration").glob("test_*.py"),
                   key=lambda test: (test.name not in LONGEST_FIRST, test.name))
    tests = [test for test in tests if not options.tests or test.name in options.tests]
    if options.units:
        tests = units_of(options.build)
    run = count_unit if options.units else count
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for name, status in pool.map(lambda test: run(test, options), tests):
            print(f"{name}: {'passed' if status in (0, 5) else 'failed'}", flush=True)


if __name__ == "__main__":
    main()
