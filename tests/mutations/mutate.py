#!/usr/bin/env python3
"""Plants one small fault at a time, and looks whether a test notices it.

    tests/mutations/mutate.py [--count N] [--seed N] [--results FILE] [--minutes M] [--reach FOLDER]
                              [--tests hinted|unit|likely|all] [--hints FILE] [--again]
                              [--equivalent PLACE REASON] [--table]

The sample is drawn from the C files of proto/, server/, client/ and kernels/cpu/ with a seed. Each fault is planted
in a copy of the committed tree, and the copy is built and tested in stages: the unit tests whose program
contains the object of the file; then the integration tests that are likely to notice a fault in the
file's folder; then all other integration tests. With --reach, a folder that reach.py has written, the
last two stages leave out the files of tests that never execute the line of the fault. The first failing
test ends the fault. A test counts as failing if it fails twice with the fault and passes without the
fault. A fault that does not compile, or compiles to the same object code, is drawn again.

Results are written after each fault, a JSON object a line, and a second run goes on behind the last
one of its seed. --again runs the faults that survived once more, with the tests that there are now, and goes on with
faults that a run with --tests unit or --tests likely has left. It finds a fault by its line, which may
have moved since. Each line of the file --hints names a place of the results, such as
client/outcome.c:50, and the tests that probably notice a fault there: names of unit tests, or files of
integration tests such as test_http.py or test_http.py::test_name. They run before all others. With
--tests hinted no other tests run, and a fault that they do not notice keeps its result. --table writes
the results as tests/mutations/RESULTS.md. A fault that no test notices is no proof of a missing test, but
it has to be looked at; if no behaviour can differ, --equivalent records the reason.
"""

import argparse
import collections
import difflib
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time

from faults import faults_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOMS = ("proto", "server", "client", "kernels/cpu")
# The integration tests that are most likely to notice a fault in a folder, the longest name first.
LIKELY = {
    "client/gemmctl": ["test_gemmctl*.py"],
    "client": ["test_client*.py", "test_gemmctl_[jst]*.py", "test_python_client*.py"],
    "kernels/cpu": ["test_gemm_numpy.py", "test_attention.py", "test_conv2d.py", "test_reduce.py", "test_softmax.py",
                    "test_scales.py", "test_long_computations.py"],
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
# Files of tests that take less than this are likely ones too, if they execute the line.
QUICK_S = 3
# Most faults are noticed by one of the first unit tests. So many are linked before they run, and then three times as
# many each time.
FIRST_UNITS = 2
# The simulation has a share of its seeds for each fault.
SEEDS = "100"
# A unit test takes a few seconds, and one that runs for this long hangs.
UNIT_S, PYTEST_S, BUILD_S = 120, 1500, 900
LINK_FAILS = "the unit tests do not link"


def end_session(session):
    """Ends what is left of a session. The children of a unit test have process groups of their own."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                os.kill(int(stat.parent.name), signal.SIGKILL)
        except (OSError, ValueError):  # the process has ended meanwhile
            pass


def run(command, folder, seconds, **options):
    """The exit status of a command, 124 if it did not end in time; the standard output too with
    stdout=PIPE. What the command started ends with the command."""
    with subprocess.Popen([str(word) for word in command], cwd=folder, stderr=subprocess.DEVNULL,
                          start_new_session=True, text=True,
                          **{"stdout": subprocess.DEVNULL, **options}) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
            status = process.returncode
        except subprocess.TimeoutExpired:
            status, output = 124, ""
        end_session(process.pid)
    return (status, output) if "stdout" in options else status


def output_of(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True,
                          **options).stdout


def symbols_of(path, kinds):
    """The symbols of some kinds that an object or a program defines, by the letters of nm."""
    return {line.split()[-1] for line in output_of("nm", "--defined-only", path).splitlines()
            if line.split()[-2] in kinds}


class Copy:
    """A copy of the committed tree with a build of its own, in which faults are planted."""

    def __init__(self, folder, reach):
        self.folder, self.reach = folder, reach
        self.build = folder / "build-cpu"
        self.revision = output_of("git", "rev-parse", "--short=12", "HEAD", cwd=ROOT).strip()
        if not (folder / ".git").exists():
            subprocess.run(["git", "clone", "-q", "--shared", str(ROOT), str(folder)], check=True)
        subprocess.run(["git", "checkout", "-q", "--force", self.revision], cwd=folder, check=True)
        launcher = shutil.which("ccache")
        subprocess.run(["cmake", "--preset", "cpu", "-DGEMMD_TESTS=ON",
                        *([f"-DCMAKE_C_COMPILER_LAUNCHER={launcher}"] if launcher else [])],
                       cwd=folder, check=True, stdout=subprocess.DEVNULL)
        os.environ.update(CCACHE_BASEDIR=str(folder), CCACHE_NOHASHDIR="1")
        if not self.make():
            sys.exit("mutate.py: the tree does not build")
        self.objects = collections.defaultdict(list)
        for command in json.loads((self.build / "compile_commands.json").read_text()):
            self.objects[command["file"]].append(re.search(r" -o (\S+)", command["command"]).group(1))
        listed = json.loads(output_of("ctest", "--test-dir", self.build, "--show-only=json-v1"))["tests"]
        # The tests that are programs of this build; the others are scripts.
        self.units = {test["name"]: [SEEDS if word == "1000" else word for word in test["command"]] for test in listed
                      if pathlib.Path(test["command"][0]).is_relative_to(self.build)}
        self.symbols = {name: symbols_of(command[0], "TDBRtdbr")  # hidden symbols become local
                        for name, command in self.units.items()}
        linked = [line.partition(": ") for line in
                  output_of("ninja", "-C", self.build, "-t", "targets", "all").splitlines()]
        own = {str(pathlib.Path(command[0]).relative_to(self.build)) for command in self.units.values()}
        self.programs = [name for name, _, rule in linked if name not in own
                         and ("EXECUTABLE_LINKER" in rule or "SHARED_LIBRARY_LINKER" in rule)]
        self.failing = set()  # tests that fail without a fault

    def make(self, *targets):
        return run(["ninja", "-C", self.build, *targets], self.folder, BUILD_S) == 0

    def make_programs(self, files):
        """Builds what is installed, and the other programs that files of integration tests or what they import name."""
        texts = "".join((self.folder / str(file).partition("::")[0]).read_text() for file in files)
        texts += "".join(module.read_text() for module in (self.folder / "tests" / "integration").glob("*.py")
                         if re.search(rf"^(from|import) {module.stem}\b", texts, re.M))
        return self.make(*[name for name in self.programs if pathlib.Path(name).name in texts
                           or name.startswith("lib/") or name in ("bin/gemmd", "bin/gemmctl")])

    def object_path(self, path):
        """The object that a file is compiled to; None: this build leaves the file out."""
        found = self.objects.get(str(self.folder / path), [])
        own = [name for name in found if name.startswith(path.parts[0] + "/")] or found
        return self.build / own[0] if own else None

    def object_of(self, path):
        """The bytes that a file compiles to; None: it does not compile."""
        found = self.object_path(path)
        if not found or not self.make(found.relative_to(self.build)):
            return None
        return found.read_bytes()

    def units_of(self, path, line):
        """The unit tests whose program contains the object of a file and executes the line: first the tests that are
        named after the file, then those that take least."""
        mine = symbols_of(self.object_path(path), "TDBR") - {"main"}  # which every program has
        names = [name for name in self.units if self.symbols[name] & mine]
        seconds = self.reach.seconds if self.reach else {}
        names.sort(key=lambda name: (path.stem not in name, seconds.get(name, UNIT_S), len(self.symbols[name])))
        compiled = self.object_path(path).relative_to(self.build)
        return (name for name in names if not self.reach or self.reach.executes(name, path, line, compiled))

    def make_units(self, names):
        return self.make(*[pathlib.Path(self.units[name][0]).relative_to(self.build) for name in names])

    def unit_fails(self, name):
        environment = {**os.environ, "CK_DEFAULT_TIMEOUT": "100"}
        return run(self.units[name], self.build, UNIT_S, env=environment) != 0


def likely_files(path, folder):
    """The files of integration tests that are likely to notice a fault in `path`, by its folder."""
    first = []
    for prefix in sorted(LIKELY, key=len, reverse=True):
        if str(path).startswith(prefix + "/"):
            for pattern in LIKELY[prefix]:
                first += sorted(folder.glob(pattern))
    return list(dict.fromkeys(first))


class Reach:
    """What reach.py has counted."""

    def __init__(self, folder):
        self.folder, self.seconds = folder, {}
        for log in folder.glob("*.log"):
            took = re.findall(r" in ([\d.]+)s", log.read_text())
            self.seconds[log.stem] = float(took[-1]) if took else 0.0

    def executes(self, test, path, line, compiled):
        """Whether a file of tests executes a line. `compiled` is the object's name in a build. A line
        without a count belongs to the one before it. True if the counts are missing, as they are of
        a test that could not run, or that starts its programs with an environment of its own."""
        folder = self.folder / test
        name = compiled.with_suffix(".gcda")
        found = list(folder.glob(f"**/{name.parts[0]}/{name.relative_to(name.parts[0])}"))
        if not found:
            return not any(folder.glob("**/*.gcda"))
        notes = pathlib.Path("/", found[0].relative_to(folder)).with_suffix(".gcno")
        beside = found[0].with_suffix(".gcno")
        if not beside.exists():
            beside.symlink_to(notes)
        report = json.loads(output_of("gcov", "--json-format", "--stdout", found[0]))
        counts = collections.Counter()
        for file in report["files"]:
            if file["file"].endswith(str(path)):
                for one in file["lines"]:
                    counts[one["line_number"]] += one["count"]
        before = [number for number in counts if number <= line]
        return bool(before) and counts[max(before)] > 0


def pytest_failures(copy, python, files, without):
    """The failing tests of some files, of which the first one ends the run; None: it did not end in time."""
    command = [python, "-m", "pytest", "-c", "tests/pytest.ini", "--rootdir", "tests", "-x", "-m", "not slow",
               "--gemmd", copy.build / "bin" / "gemmd"]
    for test in without:
        command += ["--deselect", test]
    if len(files) > 1:
        command += ["-n", os.cpu_count() or 1, "--dist", "worksteal"]
    status, output = run([*command, *files], copy.folder, PYTEST_S, stdout=subprocess.PIPE)
    if status == 124:
        return None
    return re.findall(r"^(?:FAILED|ERROR) (\S+\.py(?:::[^\s\[]+(?:\[.*?\](?= - |$))?)?)", output, re.M)


def integration_notice(copy, python, files, planted):
    """The integration test that notices the fault that is in the copy; None: there is none."""
    without = set(copy.failing)
    while files:
        failed = pytest_failures(copy, python, files, without)
        if failed is None:
            return "the tests did not end in time"
        if not failed:
            return None
        test = failed[0]
        # A test that fails only once has failed for the load of the machine.
        alone = f"tests/{test}" if not test.startswith("tests/") else test
        if pytest_failures(copy, python, [alone], ()) != []:
            with planted.removed():
                if copy.make_programs([alone]) and pytest_failures(copy, python, [alone], ()) == []:
                    return test
                copy.failing.add(test)
            copy.make_programs(files)
        without.add(test)
    return None


class Planted:
    """A fault in a file of the copy."""

    def __init__(self, file, fault):
        self.file, self.fault, self.text = file, fault, file.read_text()

    def __enter__(self):
        self.file.write_text(self.fault.planted(self.text))
        return self

    def __exit__(self, *_):
        self.file.write_text(self.text)

    def removed(self):
        return Removed(self)


class Removed:
    """Takes a fault out of the copy for a while."""

    def __init__(self, planted):
        self.planted = planted

    def __enter__(self):
        self.planted.__exit__()

    def __exit__(self, *_):
        self.planted.__enter__()


def unit_notice(copy, units, planted):
    """The unit test that notices the fault that is in the copy; None: there is none."""
    units, size = iter(units), FIRST_UNITS
    while group := list(itertools.islice(units, size)):
        size *= 3
        if not copy.make_units(group):
            return LINK_FAILS
        for name in group:
            if name in copy.failing or not copy.unit_fails(name) or not copy.unit_fails(name):
                continue
            with planted.removed():
                if copy.make_units([name]) and not copy.unit_fails(name):
                    return name
                copy.failing.add(name)
            copy.make_units(group)
    return None


def hinted_notice(copy, planted, options, hinted):
    """The hinted test that notices the fault that is in the copy; None: there is none."""
    test = unit_notice(copy, [name for name in hinted if name in copy.units], planted)
    files = [f"tests/integration/{name}" for name in hinted if name not in copy.units]
    if test or not files or not copy.make_programs(files):
        return test
    return integration_notice(copy, options.python, files, planted)


def notice(copy, path, line, planted, options, units_passed, hinted):
    """The stage and the test that notice the fault that is in the copy."""
    test = hinted_notice(copy, planted, options, hinted)
    if test:
        return "build" if test == LINK_FAILS else "unit" if test in copy.units else "hinted", test
    if options.extent == "hinted":
        return None, None
    test = None if units_passed else unit_notice(copy, copy.units_of(path, line), planted)
    if test:
        return ("build" if test == LINK_FAILS else "unit"), test
    if options.extent == "unit":
        return None, None
    folder = copy.folder / "tests" / "integration"
    first, files = likely_files(path, folder), sorted(folder.glob("test_*.py"))
    if not copy.make_programs(files):
        return "build", "the programs do not link"
    if copy.reach:
        compiled = copy.object_path(path).relative_to(copy.build)
        files = [file for file in files if copy.reach.executes(file.stem, path, line, compiled)]
        files.sort(key=lambda file: copy.reach.seconds.get(file.stem, 0))
        first = [file for file in files
                 if file in first or copy.reach.seconds.get(file.stem, QUICK_S) < QUICK_S]
    test = integration_notice(copy, options.python, first, planted)
    if test:
        return "likely", test
    if options.extent == "all":
        others = [file for file in files if file not in first]
        test = integration_notice(copy, options.python, others, planted)
    return ("integration", test) if test else (None, None)


def result_of(copy, path, fault, options, units_passed=False, hinted=()):
    """Plants a fault; None: it does not compile, or changes nothing. With units_passed, the unit tests are
    left out. The tests of `hinted` run first."""
    before = copy.object_of(path)
    with Planted(copy.folder / path, fault) as planted:
        after = copy.object_of(path)
        if before is None or after is None or before == after:
            return None
        began = time.monotonic()
        line = planted.text.count("\n", 0, fault.start) + 1
        stage, test = notice(copy, path, line, planted, options, units_passed, hinted)
        unfinished = {"only": options.extent} if stage is None and options.extent != "all" else {}
        return {"file": str(path), "line": line, "kind": fault.kind,
                "was": planted.text[fault.start:fault.end].strip(), "is": fault.replacement.strip(),
                "stage": stage, "noticed": test, "revision": copy.revision,
                "seconds": round(time.monotonic() - began, 1), **unfinished}


def plant_one(copy, draw, options):
    """Plants a fault that changes the program, and returns what came of it."""
    files = [path.relative_to(copy.folder) for room in ROOMS
             for path in sorted((copy.folder / room).rglob("*.c")) if "examples" not in path.parts]
    weights = [(copy.folder / path).stat().st_size for path in files]
    while True:
        path = draw.choices(files, weights)[0]
        faults = faults_of((copy.folder / path).read_text())
        if not faults:
            continue
        kind = draw.choice(sorted({fault.kind for fault in faults}))
        fault = draw.choice([fault for fault in faults if fault.kind == kind])
        result = result_of(copy, path, fault, options)
        if result:
            return result


def line_now(result, text):
    """The number that the line of a fault has in the text of today; None: the line has changed."""
    old = output_of("git", "show", f"{result['revision']}:{result['file']}", cwd=ROOT)
    same = difflib.SequenceMatcher(None, old.splitlines(), text.splitlines(), autojunk=False)
    for block in same.get_matching_blocks():
        if block.a < result["line"] <= block.a + block.size:
            return result["line"] - block.a + block.b
    return None


def plant_again(copy, result, options, hinted):
    """What comes of a fault that has survived before, or has not met all tests."""
    begun = result.get("only")
    path = pathlib.Path(result["file"])
    text = (copy.folder / path).read_text()
    line = line_now(result, text)
    for fault in faults_of(text):
        if (text.count("\n", 0, fault.start) + 1, fault.kind, text[fault.start:fault.end].strip(),
                fault.replacement.strip()) == (line, *(result[name] for name in ("kind", "was", "is"))):
            new = result_of(copy, path, fault, options, begun == "unit" and result["revision"] == copy.revision,
                            hinted)
            if new and not new["stage"] and options.extent == "hinted":
                return result
            kept = {name: result[name] for name in ("seed", "remark", "survived_at") if name in result}
            if not begun:
                kept.setdefault("survived_at", result["revision"])
            return {**new, **kept} if new else result
    return result


def table(results):
    """The lines of a table of the faults in each room."""
    yield ("| room | faults | by unit tests | by integration tests | equivalent | survive | left | noticed of all "
           "but the equivalent |")
    yield "|---|---|---|---|---|---|---|---|"
    by_room = collections.defaultdict(collections.Counter)
    for result in results:
        how = {None: "equivalent" if result.get("equivalent") else "left" if "only" in result else "survive",
               "unit": "unit", "build": "unit"}.get(result["stage"], "integration")
        for room in (result["file"].split("/")[0] + "/", "all"):
            by_room[room][how] += 1
    for room, counts in sorted(by_room.items(), key=lambda item: (item[0] == "all", item[0])):
        total = sum(counts.values())
        rest = total - counts["equivalent"]
        yield (f"| {room} | {total} | {counts['unit']} | {counts['integration']} | {counts['equivalent']} "
               f"| {counts['survive']} | {counts['left']} "
               f"| {100 * (counts['unit'] + counts['integration']) / max(rest, 1):.0f} % |")


def row(result, last):
    cells = (place_of(result), result["revision"], result["kind"], f"`{result['was']}`", f"`{result['is']}`", last)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def write_table(results, file):
    revisions = ", ".join(dict.fromkeys(result.get("survived_at", result["revision"]) for result in results))
    finished = [result for result in results if "only" not in result]
    text = f"""
`tests/mutations/mutate.py --table` writes this file from `tests/mutations/results.jsonl`; edit neither. Each seed
gives a sample of its own. The faults were run in the code of {"revisions" if "," in revisions else "revision"}
{revisions}. A fault counts as noticed if a test fails twice with
the fault and passes without the fault. A fault that survives was run with all unit tests whose program contains
the file and all integration tests that execute the line, except those that are marked `slow`. A fault that is left
({len(results) - len(finished)} of the faults) was noticed by none of the tests that it was run with, which are not yet
all that execute the line. Faults that are left count as not noticed. Tests were added for faults of these samples
that no test noticed, so the tests notice fewer faults of another sample. A place below is the line of a file in the
revision that `results.jsonl` has for the fault; the file may have been renamed or folded into another since."""
    print("# Faults that the tests notice\n", textwrap.fill(" ".join(text.split()), 115, break_on_hyphens=False),
          sep="\n", file=file)
    for seed in sorted({one["seed"] for one in results}):
        print(f"\nThe sample of seed {seed}:\n", *table([one for one in results if one["seed"] == seed]), sep="\n",
              file=file)
    later = [result for result in results if result["stage"] and "survived_at" in result]
    for title, chosen, last, what in (
            ("Faults that no test notices", [one for one in finished if not one["stage"] and not one.get("equivalent")],
             "remark", lambda one: one.get("remark", "")),
            ("Faults that are left", [one for one in results if "only" in one], "remark",
             lambda one: one.get("remark", "")),
            ("Faults that survived at first, and the tests that notice them now", later, "noticed by",
             lambda one: one["noticed"]),
            ("Equivalent faults", [one for one in results if one.get("equivalent")], "why no behaviour differs",
             lambda one: one["equivalent"])):
        if chosen:
            print(f"\n## {title}\n\n| place | revision | kind | code | fault | {last} |\n|---|---|---|---|---|---|",
                  file=file)
            for result in chosen:
                print(row(result, what(result)), file=file)


def place_of(result):
    return f"{result['file']}:{result['line']}"


def read_hints(path):
    """The tests that each line of a file names, by the place that the line begins with."""
    lines = [line.split() for line in path.read_text().splitlines() if line.strip()]
    return {place: tests for place, *tests in lines}


def record_equivalent(results, place, reason):
    """Gives the reason to the faults at a place that no test has noticed."""
    found = [one for one in results if place_of(one) == place and not one["stage"]]
    if not found:
        sys.exit(f"mutate.py: every fault at {place} is noticed, or there is none")
    for result in found:
        result["equivalent"] = reason
        result.pop("only", None)


def write_results(results, path):
    path.write_text("".join(json.dumps(result) + "\n" for result in results))


def main():
    here = pathlib.Path(__file__).parent
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--count", type=int, default=200, help="faults of the seed (default 200)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default 1)")
    parser.add_argument("--results", type=pathlib.Path, default=here / "results.jsonl")
    parser.add_argument("--copy", type=pathlib.Path, default=ROOT / "build" / "mutations",
                        help="folder of the copy of the tree")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no fault later")
    parser.add_argument("--tests", choices=("hinted", "unit", "likely", "all"), default="all", dest="extent",
                        help="the tests to run: those of --hints alone; unit tests alone; also the integration "
                             "tests that are likely to notice the fault; or all (default)")
    parser.add_argument("--hints", type=pathlib.Path, metavar="FILE",
                        help="names for each fault the tests to run first")
    parser.add_argument("--reach", type=pathlib.Path, metavar="FOLDER",
                        help="run only integration tests that execute the line, as counted by reach.py")
    parser.add_argument("--again", action="store_true", help="run the faults that survived once more")
    parser.add_argument("--equivalent", nargs=2, metavar=("PLACE", "REASON"),
                        help="record why no behaviour differs with the faults at a place, such as "
                             "client/outcome.c:50, that no test notices, and run nothing")
    parser.add_argument("--table", action="store_true", help="write RESULTS.md, and run nothing")
    parser.add_argument("--python", default=str(ROOT / "build-tests" / "venv" / "bin" / "python"),
                        help="with the packages of the integration tests")
    options = parser.parse_args()
    # A daemon that is started by nohup ignores SIGHUP, and tests of reloads fail without a fault.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    options.results.parent.mkdir(parents=True, exist_ok=True)
    results = []
    if options.results.exists():
        results = [json.loads(line) for line in options.results.read_text().splitlines()]
    if options.equivalent:
        record_equivalent(results, *options.equivalent)
        write_results(results, options.results)
        return
    if options.table:
        with (here / "RESULTS.md").open("w") as file:
            write_table(results, file)
        return
    copy = Copy(options.copy.resolve(), Reach(options.reach) if options.reach else None)
    until = time.monotonic() + options.minutes * 60
    if options.again:
        hints = read_hints(options.hints) if options.hints else {}
        for number, result in enumerate(results):
            hinted = hints.get(place_of(result), ())
            if not result["stage"] and not result.get("equivalent") and time.monotonic() < until \
                    and (hinted or options.extent != "hinted"):
                results[number] = plant_again(copy, result, options, hinted)
                write_results(results, options.results)
                print(json.dumps(results[number]), file=sys.stderr)
    drawn = sum(one["seed"] == options.seed for one in results)
    for number in range(drawn, 0 if options.again else options.count):
        if time.monotonic() >= until:
            break
        # A seed for each fault, so that a run that goes on draws what one run would have drawn.
        draw = random.Random(f"{options.seed}/{number}")
        results.append({"seed": options.seed, **plant_one(copy, draw, options)})
        write_results(results, options.results)
        print(json.dumps(results[-1]), file=sys.stderr)
    print("\n".join(table(results)))


if __name__ == "__main__":
    main()
