#!/usr/bin/env python3
"""Row F5: runs each libFuzzer harness of a build of the preset `fuzz` for some time, from the corpus of
tests/fuzz/corpus.

With --found, the inputs that reach new code are kept in that folder, and a later run with the same folder
begins with them. The figures are then the sums of all runs of that folder, which runs.json in it records. A
harness that finds something is mended or makes the program under test be mended, so its sums begin anew with
the run after the finding. That run begins with the input that failed; a finding is open until a run of its
harness finds nothing. With --only, a run has the named harnesses alone.
"""

import json
import os
import re
import resource
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import figure

ONE = figure.ROOT / "tests/fuzz/run_one.sh"
CORPUS = figure.ROOT / "tests/fuzz/corpus"
CHANGE_S = 600  # of each harness, for a change
RELEASE_HOURS = 24  # of processors, for a release
KINDS = {"crash": "crashes", "timeout": "time-outs", "leak": "leaks", "oom": "inputs that need too much memory",
         "other": "other failures"}


def fuzz(program, seconds, found):
    """Runs one harness. Returns how long it ran, its executions, and what it found: a key of KINDS, or None."""
    begun = time.monotonic()
    log = found / f"{program.name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen([ONE, program, str(seconds), found / program.name], stdout=out,
                                   stderr=subprocess.STDOUT)
        try:
            status = process.wait(timeout=seconds + 300)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
    text = log.read_text(errors="replace")
    executions = re.findall(r"^stat::number_of_executed_units: (\d+)$", text, re.MULTILINE)
    kinds = re.findall(r"Test unit written to (?:.*/)?(crash|timeout|leak|oom)-", text)
    kind = kinds[-1] if kinds else "other" if status != 0 or not executions else None
    if kind:
        print(f"{program.name}: {KINDS[kind]} (status {status}), see {log}", flush=True)
    return {"seconds": time.monotonic() - begun, "executions": int(executions[-1]) if executions else 0, "found": kind}


def harnesses_of(build):
    """The programs of all harnesses."""
    programs = [build.resolve() / "tests" / f"fuzz_{corpus.name}" for corpus in sorted(CORPUS.iterdir())]
    if missing := [program.name for program in programs if not os.access(program, os.X_OK)]:
        raise figure.CannotRun(f"{build} has no {', '.join(missing)}; the preset `fuzz` builds them.")
    if without := [program.name for program in programs if b"libFuzzer" not in program.read_bytes()]:
        raise figure.CannotRun(f"{', '.join(without)} of {build} are not linked with libFuzzer.")
    return programs


def run(programs, jobs, seconds, found):
    """Runs all harnesses, `jobs` at a time; a record for runs.json."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(lambda program: fuzz(program, seconds, found), programs))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            "harnesses": {program.name: result for program, result in zip(programs, results)}}


def figures_of(records):
    """The figures of all runs together: what the bar asks of a change, and what it asks of a release."""
    sums, latest = {}, {}
    for record in records:
        for name, result in record["harnesses"].items():
            seconds, executions = (0, 0) if latest.get(name) else sums.get(name, (0, 0))
            sums[name] = seconds + result["seconds"], executions + result["executions"]
            latest[name] = result["found"]
    found = [kind for kind in latest.values() if kind]
    seconds = min(seconds for seconds, _ in sums.values())
    least = min(sums, key=lambda name: sums[name][1])
    hours = sum(record["cpu_s"] for record in records) / 3600
    findings = f"{len(found)} open findings" + "".join(
        f", {found.count(kind)} {words}" for kind, words in KINDS.items() if kind in found)
    runs = f", in {len(records)} runs" if len(records) > 1 else ""
    return [
        figure.Figure(
            "F5", f"a change: {len(sums)} harnesses, each for {seconds:.0f} s or longer{runs}: "
            f"{sum(executions for _, executions in sums.values()):,} executions, at least {sums[least][1]:,} of one "
            f"({least}), {findings}",
            False if found else True if seconds >= CHANGE_S else None,
            "libFuzzer with AddressSanitizer and UndefinedBehaviorSanitizer, CPU backend, from the corpus of "
            "tests/fuzz/corpus; a finding is a crash, a time-out of 60 s for one input, a leak, or more than 4 GiB"),
        figure.Figure("F5", f"a release: {hours:.2f} processor hours, {findings}",
                      False if found else True if hours >= RELEASE_HOURS else None,
                      f"fewer than {RELEASE_HOURS} processor hours can miss the bar of a release and cannot meet it")]


def measure(options):
    """Executions and findings of every harness of tests/fuzz with libFuzzer."""
    programs = harnesses_of(options.build)
    found = options.found.resolve() if options.found else Path(tempfile.mkdtemp(prefix="gemmd-fuzzing"))
    found.mkdir(parents=True, exist_ok=True)
    runs = found / "runs.json"
    records = json.loads(runs.read_text()) if runs.exists() else []
    if options.only:
        names = [f"fuzz_{name}" for name in options.only.split(",")]
        if unknown := set(names) - {program.name for program in programs}:
            raise figure.CannotRun(f"there is no {', '.join(sorted(unknown))}.")
        programs = [program for program in programs if program.name in names]
    records.append(run(programs, options.jobs, 1 if options.quick else options.seconds, found))
    runs.write_text(json.dumps(records, indent=1) + "\n")
    if not options.found and not any(result["found"] for result in records[-1]["harnesses"].values()):
        shutil.rmtree(found)
    return figures_of(records)


if __name__ == "__main__":
    figure.main(measure, [
        ("--build", {"type": Path, "metavar": "FOLDER", "default": figure.ROOT / "build-fuzz",
                     "help": "a build of the preset `fuzz`"}),
        ("--seconds", {"type": int, "default": CHANGE_S, "help": "for each harness"}),
        ("--jobs", {"type": int, "default": len(os.sched_getaffinity(0)), "help": "harnesses at a time"}),
        ("--only", {"metavar": "NAME,...", "help": "run these harnesses alone, such as client,files"}),
        ("--found", {"type": Path, "metavar": "FOLDER",
                     "help": "keep inputs and counts there (default: a new folder, which stays if an input fails)"}),
    ], gemmd=None)
