#!/usr/bin/env python3
"""Plants one small fault at a time, and looks whether a test notices it.

    tests/mutations/mutate.py [--count N] [--seed N] [--results FILE] [--minutes M] [--tests unit|likely|all]

The sample is drawn from the C files of proto/, server/ and client/ with a seed. Each fault is planted
in a copy of the committed tree, and the copy is built and tested: first the unit tests, then the
integration tests of the file's room, then all others. The first test that fails ends the fault. A
fault that does not compile, or compiles to the same object code, is drawn again.

Results are written after each fault, a JSON object a line, and a second run goes on behind the last
one. The summary is printed at the end. A fault that no test notices is no proof of a missing test, but
it has to be looked at.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

from faults import faults_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOMS = ("proto", "server", "client")
# The integration tests that are most likely to notice a fault in a folder, the longest name first.
LIKELY = {
    "client/gemmctl": ["test_gemmctl*.py"],
    "client": ["test_client*.py", "test_gemmctl_[jst]*.py", "test_python_client.py"],
    "proto": ["test_http.py", "test_bad_*.py", "test_formats.py", "test_v2*.py"],
    "server/api/v2": ["test_v2*.py", "test_regions.py"],
    "server/api/jobs": ["test_jobs*.py"], "server/api/tensors": ["test_tensor*.py"],
    "server/api/dashboard": ["test_dashboard_data.py", "test_dashboard.py"],
    "server/api": ["test_http.py", "test_bad_bodies.py", "test_bad_parameters.py", "test_info.py",
                   "test_tensor_products.py", "test_divided.py"],
    "server/config": ["test_bad_starts.py", "test_reload.py", "test_limits.py"],
    "server/device": ["test_cuda_faults.py", "test_devices.py", "test_device_loss.py", "test_verification.py"],
    "server/http": ["test_http.py", "test_framing.py", "test_hostile.py", "test_limits.py",
                    "test_compression.py", "test_tls.py", "test_leaving.py", "test_digests.py"],
    "server/jobs": ["test_jobs*.py"], "server/tensors": ["test_tensor*.py"],
    "server/net": ["test_lifecycle.py", "test_handover.py", "test_crowds.py", "test_systemd.py"],
    "server/observe": ["test_metrics.py", "test_log*.py", "test_traces.py", "test_gpu_metrics.py",
                       "test_dashboard_data.py"],
    "server/scheduler": ["test_limits.py", "test_shares.py", "test_long_computations.py", "test_leaving.py",
                         "test_stacking.py"],
    "server/shm": ["test_memory.py", "test_regions.py"],
    "server": ["test_http.py", "test_lifecycle.py", "test_handover.py"],
}
UNIT_S, FILE_S, BUILD_S = 600, 600, 900


def run(command, folder, seconds, **options):
    """The exit status of a command, 124 if it did not end in time."""
    try:
        return subprocess.run(command, cwd=folder, timeout=seconds, check=False,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              **options).returncode
    except subprocess.TimeoutExpired:
        return 124


class Copy:
    """A copy of the committed tree with a build of its own, in which faults are planted."""

    def __init__(self, folder):
        self.folder = folder
        self.build = folder / "build-cpu"
        revision = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True,
                                  capture_output=True, text=True).stdout.strip()
        if not (folder / ".git").exists():
            subprocess.run(["git", "clone", "-q", "--shared", str(ROOT), str(folder)], check=True)
        subprocess.run(["git", "checkout", "-q", "--force", revision], cwd=folder, check=True)
        subprocess.run(["cmake", "--preset", "cpu", "-DGEMMD_TESTS=ON"], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL)
        if not self.make():
            sys.exit("mutate.py: the tree does not build")

    def make(self):
        return run(["ninja", "-C", str(self.build)], self.folder, BUILD_S) == 0

    def object_of(self, path):
        """The bytes that a file compiles to; None: it does not compile."""
        name = f"CMakeFiles/*/{path.relative_to(path.parts[0])}.o"
        found = list((self.build / path.parts[0]).glob(name)) or list(self.build.glob(f"**/{path.name}.o"))
        if not found:
            return None
        target = str(found[0].relative_to(self.build))
        if run(["ninja", "-C", str(self.build), target], self.folder, BUILD_S) != 0:
            return None
        return found[0].read_bytes()


def likely(path, folder, others):
    """The files of integration tests that are likely to notice a fault in `path`; the others behind them,
    if they are asked for."""
    tests = folder / "tests" / "integration"
    first = []
    for prefix in sorted(LIKELY, key=len, reverse=True):
        if str(path).startswith(prefix + "/"):
            for pattern in LIKELY[prefix]:
                first += sorted(tests.glob(pattern))
    everything = sorted(tests.glob("test_*.py")) if others else []
    return list(dict.fromkeys(first + everything))


def notice(copy, path, python, extent):
    """The test that notices the fault that is in the copy; None: there is none."""
    if not copy.make():
        sys.exit("mutate.py: a file compiles, but the programs do not link")
    environment = {**os.environ, "CK_TIMEOUT_MULTIPLIER": "10"}
    units = ["ctest", "--test-dir", str(copy.build), "-j2"]
    # A test that fails only once has failed for the load of the machine.
    if (run(units, copy.folder, UNIT_S, env=environment) != 0
            and run([*units, "--rerun-failed"], copy.folder, UNIT_S, env=environment) != 0):
        failed = copy.build / "Testing" / "Temporary" / "LastTestsFailed.log"
        names = [line.partition(":")[2] for line in failed.read_text().split()] if failed.exists() else []
        return f"unit: {', '.join(names) or 'did not end in time'}"
    for test in [] if extent == "unit" else likely(path, copy.folder, extent == "all"):
        command = [python, "-m", "pytest", "-c", "tests/pytest.ini", "--rootdir", "tests", "-x", "-q", "-m",
                   "not slow", "--gemmd", str(copy.build / "bin" / "gemmd"), str(test)]
        fine = (0, 5)  # 5: no test was selected
        if run(command, copy.folder, FILE_S) not in fine and run(command, copy.folder, FILE_S) not in fine:
            return test.name
    return None


def plant_one(copy, draw, python, extent):
    """Plants a fault that changes the program, and returns what came of it."""
    files = [path.relative_to(copy.folder) for room in ROOMS
             for path in sorted((copy.folder / room).rglob("*.c")) if "examples" not in path.parts]
    weights = [(copy.folder / path).stat().st_size for path in files]
    while True:
        path = draw.choices(files, weights)[0]
        file = copy.folder / path
        text = file.read_text()
        faults = faults_of(text)
        if not faults:
            continue
        kind = draw.choice(sorted({fault.kind for fault in faults}))
        fault = draw.choice([fault for fault in faults if fault.kind == kind])
        before = copy.object_of(path)
        try:
            file.write_text(fault.planted(text))
            after = copy.object_of(path)
            if before is None or after is None or before == after:
                continue
            began = time.monotonic()
            return {"file": str(path), "line": text.count("\n", 0, fault.start) + 1, "kind": kind,
                    "was": text[fault.start:fault.end].strip(), "is": fault.replacement.strip(),
                    "noticed": notice(copy, path, python, extent),
                    "seconds": round(time.monotonic() - began, 1)}
        finally:
            file.write_text(text)


def summarize(results):
    by_room = collections.defaultdict(collections.Counter)
    for result in results:
        noticed = result["noticed"]
        how = "survived" if not noticed else "unit" if noticed.startswith("unit") else "integration"
        for room in (result["file"].split("/")[0], "all"):
            by_room[room][how] += 1
    print("| room | faults | noticed by unit tests | by integration tests | survived | noticed |")
    print("|---|---|---|---|---|---|")
    for room, counts in sorted(by_room.items()):
        total = sum(counts.values())
        print(f"| {room} | {total} | {counts['unit']} | {counts['integration']} | {counts['survived']} "
              f"| {1 - counts['survived'] / total:.2f} |")
    for result in results:
        if not result["noticed"]:
            print(f"survived: {result['file']}:{result['line']}: {result['kind']}: "
                  f"{result['was']} -> {result['is']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--count", type=int, default=200, help="faults in all (default 200)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default 1)")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "build" / "mutations.jsonl")
    parser.add_argument("--copy", type=pathlib.Path, default=ROOT / "build" / "mutations",
                        help="folder of the copy of the tree")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no fault later")
    parser.add_argument("--tests", choices=("unit", "likely", "all"), default="all", dest="extent",
                        help="the integration tests to run: none, those that are likely to notice the fault, "
                             "or all (default)")
    parser.add_argument("--python", default=str(ROOT / "build-tests" / "venv" / "bin" / "python"),
                        help="with the packages of the integration tests")
    options = parser.parse_args()
    # A daemon that is started by nohup ignores SIGHUP, and tests of reloads fail without a fault.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    options.results.parent.mkdir(parents=True, exist_ok=True)
    results = []
    if options.results.exists():
        results = [json.loads(line) for line in options.results.read_text().splitlines()]
    copy = Copy(options.copy)
    until = time.monotonic() + options.minutes * 60
    with options.results.open("a") as file:
        while len(results) < options.count and time.monotonic() < until:
            # A seed for each fault, so that a run that goes on draws what one run would have drawn.
            draw = random.Random(f"{options.seed}/{len(results)}")
            results.append(plant_one(copy, draw, options.python, options.extent))
            file.write(json.dumps(results[-1]) + "\n")
            file.flush()
            print(json.dumps(results[-1]), file=sys.stderr)
    if results:
        summarize(results)


if __name__ == "__main__":
    main()
