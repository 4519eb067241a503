"""What the profiler counts for the rungs of the ladder, for tiles, and for patterns of access.

    python3 tests/gpu/counters.py --build build --out tests/bench/results/counters-DATE-GPU.md

Runs gemmd-bench-counters alone, which checks every result and times it, and then under Nsight
Compute (ncu), which replays each kernel as often as its counters need. Clocks are left alone.
Without a GPU, or without ncu, nothing is counted and the status is 0.
"""

import argparse
import csv
import datetime
import glob
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

MARKER = "counters_marker"
TIMEOUT_S = 120

SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared"
LIMITS = {
    "launch__occupancy_limit_registers": "registers",
    "launch__occupancy_limit_shared_mem": "shared memory",
    "launch__occupancy_limit_warps": "threads",
    "launch__occupancy_limit_blocks": "blocks",
}
SUMS = (
    "gpu__time_duration.sum",
    f"{CONFLICTS}_op_ld.sum",
    f"{CONFLICTS}_op_st.sum",
    f"{SHARED}_op_ld.sum",
    f"{SHARED}_op_st.sum",
    f"{SHARED}.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
)
# What an ncu may not know under this name; its column is left empty then.
OPTIONAL_SUMS = ("lts__t_bytes.sum",)
STATES = (
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__maximum_warps_per_active_cycle_pct",
    "launch__registers_per_thread",
    "launch__shared_mem_per_block_static",
    "launch__shared_mem_per_block_dynamic",
    "launch__block_size",
    *LIMITS,
)
OPTIONAL_STATES = ("smsp__issue_active.avg.pct_of_peak_sustained_active",)
ACHIEVED, THEORETICAL = STATES[:2]
ISSUE = OPTIONAL_STATES[0]


def number(text):
    """A value of ncu's CSV, None for "n/a" and the like."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def kernels_of(log):
    """The kernels in a log of `ncu --csv --page raw`: a dictionary for each, in their order."""
    lines = log.splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith('"ID"')]
    if not starts:
        raise ValueError("ncu has written no table:\n" + "\n".join(lines[-8:]))
    table = "\n".join(line for line in lines[starts[0] :] if line.startswith('"'))
    return [row for row in csv.DictReader(io.StringIO(table)) if row["ID"]]


def launches_of(kernels, names):
    """{name: counters}: the kernels between two markers belong to one launch. Sums are added, and
    states are those of the kernel that took longest."""
    launches, current = [], None
    for kernel in kernels:
        if MARKER in kernel["Kernel Name"]:
            current = []
            launches.append(current)
        elif current is not None:
            current.append(kernel)
    if len(launches) != len(names):
        raise ValueError(f"{len(names)} launches were made, and ncu lists {len(launches)}")
    counters = {}
    for name, own in zip(names, launches):
        if not own:
            raise ValueError(f"ncu lists no kernel of {name}")
        longest = max(own, key=lambda kernel: number(kernel["gpu__time_duration.sum"]) or 0)
        values = {state: number(longest.get(state, "")) for state in STATES + OPTIONAL_STATES}
        for each in SUMS + OPTIONAL_SUMS:
            parts = [number(kernel.get(each, "")) for kernel in own]
            values[each] = None if None in parts else sum(parts)
        counters[name] = {**values, "kernels": len(own)}
    return counters


def occupancy_limit(counters):
    """The blocks that fit on a multiprocessor, and what allows no more."""
    known = {text: counters[key] for key, text in LIMITS.items() if counters[key] is not None}
    if not known:
        return None, "–"
    least = min(known.values())
    return least, ", ".join(text for text, blocks in known.items() if blocks == least)


class Counters:
    """The program and the profiler."""

    def __init__(self, program, ncu, side):
        self.program, self.ncu, self.side = program, ncu, str(side)

    def run(self, command):
        return subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )

    def times(self, which):
        """{name: milliseconds}, after every result was checked."""
        run = self.run([self.program, "--time", "--n", self.side, which])
        if run.returncode != 0:
            raise RuntimeError(f"{which}: {run.stderr.strip()}")
        return {name: float(ms) for name, ms in (l.split("\t") for l in run.stdout.splitlines())}

    def count(self, which):
        """{name: counters}, with the number of instructions that a pattern consists of."""
        for optional in (OPTIONAL_SUMS + OPTIONAL_STATES, ()):
            with tempfile.TemporaryDirectory() as folder:
                log = pathlib.Path(folder, "log")
                run = self.run(
                    [self.ncu, "--csv", "--page", "raw", "--print-units", "base"]
                    + ["--clock-control", "none", "--profile-from-start", "off"]
                    + ["--log-file", str(log), "--metrics", ",".join(SUMS + STATES + optional)]
                    + [self.program, "--n", self.side, which]
                )
                text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
            if run.returncode == 0 and '"ID"' in text:
                break
            print(f"counters: {which}: ncu: {(text or run.stderr)[-400:]}", file=sys.stderr)
        lines = [line.split("\t") for line in run.stdout.splitlines() if "\t" in line]
        counters = launches_of(kernels_of(text), [name for name, _ in lines])
        for name, instructions in lines:
            counters[name]["instructions"] = int(instructions)
        return counters


def cell(value, form="{:.3g}"):
    return form.format(value) if value is not None else "–"


def table(columns, rows):
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def pattern_table(times, counters):
    """Reads are counted as reads and writes as writes; the time is next to that of whole rows."""
    rows = []
    for name, counted in counters.items():
        op = "ld" if name.endswith("read") else "st"
        row = "row, read" if op == "ld" else "row, written"
        each = counted["instructions"]
        rows.append([
            name,
            cell(counted[f"{SHARED}_op_{op}.sum"] / each, "{:.2f}"),
            cell(counted[f"{CONFLICTS}_op_{op}.sum"] / each, "{:.2f}"),
            cell(counted["dram__bytes_read.sum"] + counted["dram__bytes_write.sum"]),
            cell(counted[ACHIEVED], "{:.0f} %"),
            cell(times[name] / times[row], "{:.2f}"),
        ])  # fmt: skip
    return table(
        ["pattern", "wavefronts an instruction", "bank conflicts an instruction",
         "bytes of device memory", "occupancy", "time, of whole rows'"],
        rows,
    )  # fmt: skip


def rung_table(times, counters, side):
    """Megabytes are 10^6 bytes; conflicts and wavefronts are millions."""
    rows = []
    for name, counted in counters.items():
        blocks, limit = occupancy_limit(counted)
        rows.append([
            name,
            cell(2e-9 * side**3 / times[name]),
            cell(counted[f"{SHARED}.sum"] / 1e6),
            cell(counted[f"{CONFLICTS}_op_ld.sum"] / 1e6),
            cell(counted[f"{CONFLICTS}_op_st.sum"] / 1e6),
            cell(counted["dram__bytes_read.sum"] / 1e6, "{:.0f}"),
            cell(counted["dram__bytes_write.sum"] / 1e6, "{:.0f}"),
            cell(counted["lts__t_bytes.sum"] and counted["lts__t_bytes.sum"] / 1e6, "{:.0f}"),
            cell(counted[ACHIEVED], "{:.0f} %"),
            cell(counted[THEORETICAL], "{:.0f} %"),
            f"{cell(blocks, '{:.0f}')} ({limit})",
            cell(counted[ISSUE], "{:.0f} %"),
        ])  # fmt: skip
    return table(
        ["rung", "TFLOP/s", "shared wavefronts, 10⁶", "conflicts of reads, 10⁶",
         "conflicts of writes, 10⁶", "device memory read, MB", "written, MB", "through L2, MB",
         "occupancy", "at most", "blocks that fit (limit)", "cycles that issue"],
        rows,
    )  # fmt: skip


def tile_table(times, counters, side):
    rows = []
    for name, counted in counters.items():
        blocks, limit = occupancy_limit(counted)
        shared = sum(counted[f"launch__shared_mem_per_block_{kind}"] or 0
                     for kind in ("static", "dynamic"))  # fmt: skip
        rows.append([
            name,
            cell(counted["launch__block_size"], "{:.0f}"),
            cell(counted["launch__registers_per_thread"], "{:.0f}"),
            cell(shared / 1024, "{:.1f}"),
            f"{cell(blocks, '{:.0f}')} ({limit})",
            cell(counted[THEORETICAL], "{:.1f} %"),
            cell(counted[ACHIEVED], "{:.1f} %"),
            cell(counted[ISSUE], "{:.0f} %"),
            cell(2e-9 * side**3 / times[name]),
        ])  # fmt: skip
    return table(
        ["tile", "threads", "registers", "shared memory, KiB", "blocks that fit (limit)",
         "occupancy at most", "achieved", "cycles that issue", "TFLOP/s"],
        rows,
    )  # fmt: skip


def first_line(*command):
    """What a program that may not be there prints last on standard output."""
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    lines = [line.strip() for line in run.stdout.splitlines() if line.strip()]
    return lines[-1] if lines else "unknown"


def profiler():
    """The path of ncu, or None."""
    installed = sorted(glob.glob("/opt/nvidia/nsight-compute/*/ncu"), reverse=True)
    for path in [shutil.which("ncu"), "/usr/local/cuda/bin/ncu", *installed]:
        if path and os.access(path, os.X_OK):
            return path
    return None


def report(counters, side, tables):
    smi = first_line("nvidia-smi", "--id=0", "--query-gpu=name,driver_version,clocks.sm,power.draw",
                     "--format=csv,noheader")  # fmt: skip
    now = datetime.datetime.now(datetime.timezone.utc)
    return "\n\n".join([
        f"## What the profiler counts, {now:%Y-%m-%d %H:%M} UTC",
        f"{smi} (GPU, driver, clock, power); {first_line(counters.program, '--version')}; Nsight "
        f"Compute: {first_line(counters.ncu, '--version')}. Times are medians without the "
        "profiler; counters are of one launch with cold caches (ncu --clock-control none).",
        f"### Patterns of access to shared memory\n\n{tables['patterns']}",
        f"### Rungs, products of {side}×{side}×{side}\n\nA rung that consists of several kernels "
        f"has the sums of all, and the occupancy of the longest.\n\n{tables['rungs']}",
        f"### Tiles, products of {side}×{side}×{side}\n\n{tables['tiles']}\n",
    ])  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--n", type=int, default=4096, help="side of the products")
    parser.add_argument("--out", help="file for the tables (Markdown)")
    arguments = parser.parse_args()
    program = os.path.join(arguments.build, "bin", "gemmd-bench-counters")
    ncu = profiler()
    if first_line("nvidia-smi", "-L") == "unknown":
        print("counters: there is no NVIDIA GPU here, so nothing is counted")
        return 0
    if ncu is None:
        print("counters: there is no ncu here, so nothing is counted")
        return 0
    counters = Counters(program, ncu, arguments.n)
    makers = {
        "patterns": pattern_table,
        "rungs": lambda times, counted: rung_table(times, counted, arguments.n),
        "tiles": lambda times, counted: tile_table(times, counted, arguments.n),
    }
    tables, failed = {}, 0
    for which, make in makers.items():
        try:
            times = counters.times(which)
            tables[which] = make(times, counters.count(which))
        except (RuntimeError, ValueError, subprocess.TimeoutExpired) as problem:
            print(f"counters: {which}: {problem}", file=sys.stderr)
            tables[which] = "Not counted."
            failed += 1
    text = report(counters, arguments.n, tables)
    print(text)
    if arguments.out:
        pathlib.Path(arguments.out).write_text(text, encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
