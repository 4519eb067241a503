#!/usr/bin/env python3
"""Row F6: the lines and branches of proto/, server/ and client/ that the tests execute.

Builds the preset `coverage`, runs the unit tests and the integration tests, and prints the coverage of
each room. gcovr (tests/coverage.txt) reads what the tests counted.

With --report, the script judges a report of gcovr, for example of counts that several runs left and gcovr has
merged, and runs nothing. A full run can be divided in this way: the unit tests of the preset, and each file of
integration tests as tests/mutations/reach.py runs it.

A branch is left out of the count if only a failing allocation takes the branch, or if no input can:

- the line that the branch belongs to, or one of the two lines after it, reports that there is no memory
  (GEMMD_ERR_OUT_OF_MEMORY, or a function named no_memory);
- the line compares a pointer with NULL, and one of the three lines before it, or the line itself,
  allocates;
- UNREACHABLE or BY_OTHERS has a pattern for the line, with the reason.
"""

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import figure

BUILD = figure.ROOT / "build-coverage"
ROOMS = {"proto": 100.0, "server": 90.0, "client": 90.0}  # the bar, in percent of the branches
NO_MEMORY = re.compile(r"OUT_OF_MEMORY|no_memory")
IS_NULL = re.compile(r"[!=]= NULL|if \(!\w+\)|\? \w")
ALLOCATES = re.compile(r"\b(malloc|calloc|realloc|strdup|strndup|aligned_alloc|posix_memalign|asprintf|json_object|"
                       r"json_array|json_string\w*|json_pack|json_integer|json_real|MHD_create_response\w*|"
                       r"json_dumps|alloc_lines|curl_easy_init|curl_multi_init|curl_url|curl_slist_append|"
                       r"open_memstream)\(")
# Conditions of which one side cannot happen.
UNREACHABLE = [
    r"json_object_foreach\(",   # the macro tests each value for NULL, which no value of an object is
    r"c_locale == \(locale_t\)0",  # the C library keeps this locale in static memory
    r"length < (capacity|sizeof (names|titles))",  # all names of a list fit in the text
    r"wanted < 0",              # vsnprintf fails for wide characters only
    r"json->length > 0 && json->out",  # an answer begins before its first output
    r"one == 0",                # the layout of the request itself was computed before
    r"json->value_count == OIP_VALUES_MAX",  # a value takes two bytes of the text, whose length is limited
    r"!tensor_init\(&operands->bias, request->out",  # n is at most GEMM_DIM_MAX here
]
# Conditions of which one side does not happen unless a library or the compiler changes. A note to the figures
# says what the figures are with these conditions counted too.
BY_OTHERS = [
    r"^\s*assert\(",           # input never fails an assertion
    # These functions of the C library always return 0.
    r"pthread_((mutex|cond|condattr)_init|condattr_setclock|mutexattr_settype)\(",
    # An option that the required version of libcurl has is refused for lack of memory only.
    r"\bSET\(CURLOPT_|easy_setopt\(|curl_multi_setopt\(",
]


def is_left_out(lines, index, left_out):
    """Whether an untaken branch of the line with an index is left out of the count."""
    line = lines[index]
    return bool(re.search("|".join(left_out), line)
                or any(NO_MEMORY.search(after) for after in lines[index:index + 3])
                or (IS_NULL.search(line)
                    and any(ALLOCATES.search(before) for before in lines[max(0, index - 3):index + 1])))


def count(report, left_out):
    """{room: (lines, executed lines, branches, taken branches)}, and the untaken branches of each line."""
    sums, untaken = defaultdict(lambda: [0, 0, 0, 0]), []
    for file in report["files"]:
        room = file["file"].split("/")[0]
        source = (figure.ROOT / file["file"]).read_text().splitlines()
        for line in file["lines"]:
            executed = line["count"] > 0
            taken = sum(branch["count"] > 0 for branch in line["branches"])
            missed = len(line["branches"]) - taken
            if missed and is_left_out(source, line["line_number"] - 1, left_out):
                missed = 0
            if missed:
                untaken.append((file["file"], line["line_number"], missed,
                                source[line["line_number"] - 1].strip()))
            for place, value in enumerate((1, executed, taken + missed, taken)):
                sums[room][place] += value
    return sums, untaken


def run(*command, **more):
    return subprocess.run([str(word) for word in command], cwd=figure.ROOT, check=False, **more).returncode


def build():
    for command in (["cmake", "--preset", "coverage", "-DGEMMD_TESTS=ON", "--log-level=NOTICE"],
                    ["cmake", "--build", "--preset", "coverage", "--", "--quiet"]):
        if run(*command, stdout=subprocess.DEVNULL) != 0:
            sys.exit(f"branches.py: {' '.join(command)} failed")


def measure(options):
    """What the tests execute of each room, in percent. A full run takes about as long as the unit and the
    integration tests; --quick runs the unit tests of proto/ alone and judges proto/ alone."""
    if options.report:
        return figures_of(json.loads(options.report.read_text()), options, options.failed)
    parallel = os.cpu_count() or 1
    tests, failed = ["ctest", "--preset", "coverage", "-j", parallel, "--timeout", 900], []
    for stale in BUILD.rglob("*.gcda"):
        stale.unlink()
    environment = {**os.environ, "CK_TIMEOUT_MULTIPLIER": "30"}
    # The kernels are not counted, and their tests take long.
    if run(*tests, "-E", "test_(attention_cpu|freivalds|gemm_cpu|stacked|team)$", env=environment,
           stdout=subprocess.DEVNULL) != 0:
        failed.append("unit tests")
    if not options.quick and run(
            sys.executable, "-m", "pytest", "-c", "tests/pytest.ini", "--rootdir", "tests", "tests/integration",
            "--gemmd", options.gemmd, "--thin", "-m", "not slow", "-n", parallel, "--dist", "worksteal") != 0:
        failed.append("integration tests")
    path = BUILD / "coverage.json"
    if run(sys.executable, "-m", "gcovr", "--root", figure.ROOT, "-j", parallel,
           "--gcov-ignore-parse-errors", "suspicious_hits.warn_once_per_file",
           *[word for room in ROOMS for word in ("--filter", f"{figure.ROOT}/{room}/")],
           "--exclude", f"{figure.ROOT}/client/examples/", "--exclude-unreachable-branches",
           "--json", path, BUILD, stderr=subprocess.DEVNULL) != 0:
        raise figure.CannotRun("gcovr is not installed, or cannot read the counts")
    return figures_of(json.loads(path.read_text()), options, failed)


def figures_of(report, options, failed):
    sums, untaken = count(report, UNREACHABLE + BY_OTHERS)
    strict, _ = count(report, UNREACHABLE)
    for file, number, missed, text in untaken if options.untaken else []:
        print(f"{file}:{number}: {missed} not taken: {text}")
    figures = []
    for room, bar in ROOMS.items():
        lines, executed, branches, taken = sums[room]
        percent = 100 * taken / branches
        notes = [f"{100 * strict[room][3] / strict[room][2]:.1f} % with assertions, functions that always return 0 "
                 "and options of libcurl counted too"]
        if failed:
            notes.append("tests that failed: " + ", ".join(failed))
        judged = room == "proto" or not options.quick
        figures.append(figure.Figure(
            "F6", f"{room}/: {percent:.1f} % of {branches} branches, {100 * executed / lines:.1f} % of "
            f"{lines} lines", percent >= bar if judged else None, "; ".join(notes)))
    return figures


if __name__ == "__main__":
    if not {"--help", "-h", "--report"} & set(sys.argv):
        build()
    figure.main(measure, [
        ("--untaken", {"action": "store_true", "help": "list the branches that no test takes"}),
        ("--report", {"type": Path, "metavar": "FILE", "help": "judge a report of gcovr (--json), and run nothing"}),
        ("--failed", {"nargs": "*", "default": [], "metavar": "TEST", "help": "with --report: tests that failed"})],
                gemmd=BUILD / "bin/gemmd")
