"""What every script of this folder shares: its options, and its figures as a row of the report.

A script calls `main` with a function that measures and returns figures. Each figure is printed with
its bar and a verdict, and with --rows it is written as JSON, from which report.py writes
tests/RELIABILITY.md. The exit status is 1 if a figure misses its bar.
"""

import argparse
import datetime
import json
import os
import platform
import shlex
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration"))


class CannotRun(Exception):
    """The script cannot run on this machine; the message is a sentence that says why."""


@dataclass
class Figure:
    """One measured figure. `row` is a key of figures.json; `met` is None for a figure that has no
    bar on this machine."""

    row: str
    figure: str
    met: bool | None
    note: str = ""


def gpu():
    """The name of the first GPU; None: there is none that answers."""
    try:
        listed = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True,
                                text=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return listed.split("\n", maxsplit=1)[0].strip() or None


def machine():
    model = platform.processor() or platform.machine()
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    return ", ".join([*([gpu()] if gpu() else []), model, f"{len(os.sched_getaffinity(0))} cores",
                      f"Linux {platform.release()}"])


def options_of(description, arguments, gemmd):
    parser = argparse.ArgumentParser(description=description)
    if gemmd:
        parser.add_argument("--gemmd", type=Path, default=gemmd,
                            help="the daemon (its benchmarks and libraries are looked for beside it)")
    parser.add_argument("--quick", action="store_true",
                        help="a few seconds: shows that the script works, not how good the daemon is")
    parser.add_argument("--rows", type=Path, metavar="FOLDER",
                        help="where to write the figures as JSON, for report.py")
    for names, keywords in arguments:
        parser.add_argument(names, **keywords)
    options = parser.parse_args()
    if gemmd:
        options.gemmd = options.gemmd.resolve()
        if not os.access(options.gemmd, os.X_OK):
            parser.error(f"there is no daemon at {options.gemmd}")
    return options


def write_row(folder, name, options, figures, why):
    script = Path(sys.argv[0]).stem
    folder.mkdir(parents=True, exist_ok=True)
    shown = [Path(argument).name if argument.startswith("/") else argument for argument in sys.argv[1:]
             if argument not in ("--rows", str(options.rows), "--gemmd")
             and not argument.endswith("bin/gemmd")]
    row = {"script": f"tests/reliability/{script}.py", "machine": machine(),
           "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
           "command": shlex.join([f"tests/reliability/{script}.py", *shown]),
           "quick": options.quick, "load_average": round(os.getloadavg()[1], 1),
           "why_not_run": why, "figures": [asdict(figure) for figure in figures]}
    (folder / f"{name}.json").write_text(json.dumps(row, indent=1, ensure_ascii=False) + "\n")


def bars():
    """The rows of the report: what each figure means, and its bar."""
    return json.loads((Path(__file__).parent / "figures.json").read_text())


def main(measure, arguments=(), gemmd=ROOT / "build/bin/gemmd", split=False):
    """Runs a script: `measure(options)` returns its figures, or raises CannotRun. `gemmd` is the daemon that
    the script measures if the option --gemmd names no other; None: the script measures no daemon and does not
    have the option. `split`: each figure has a row file of its own, so that a run of some of them keeps the
    others."""
    script = Path(sys.argv[0]).stem
    known = bars()
    options = options_of(measure.__doc__ or script, arguments, gemmd)
    figures, why = [], ""
    try:
        figures = measure(options)
    except CannotRun as reason:
        why = str(reason)
        print(f"{script}: cannot run here: {why}")
    for figure in figures:
        verdict = {True: "met", False: "MISSED", None: "no bar here"}[figure.met]
        print(f"{figure.row}: {figure.figure} (bar: {known[figure.row]['bar']}): {verdict}"
              + (f". {figure.note}" if figure.note else ""), flush=True)
    if options.rows and split:
        for one in figures:
            name = f"{script}_{one.row.lower()}" + ("_gpu" if gpu() else "")
            write_row(options.rows, name, options, [one], why)
    elif options.rows:
        write_row(options.rows, script, options, figures, why)
    sys.exit(1 if any(figure.met is False for figure in figures) else 0)
