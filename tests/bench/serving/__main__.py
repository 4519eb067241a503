"""python -m serving: runs the rows, writes table, data and plot. See tests/bench/serve.sh."""

import argparse
import datetime
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time

from . import rows


def read_arguments():
    parser = argparse.ArgumentParser(prog="serve.sh")
    parser.add_argument("--build", default="build")
    parser.add_argument("--out", default="tests/bench/results")
    parser.add_argument("--backend", choices=("auto", "cuda", "cpu"), default="auto")
    parser.add_argument("--seconds", type=int, default=9)
    parser.add_argument("--rows", type=lambda text: text.split(","), default=list(rows.ROWS))
    arguments = parser.parse_args()
    wrong = set(arguments.rows) - set(rows.ROWS)
    if wrong:
        parser.error(f"no such row: {', '.join(sorted(wrong))}; there are {', '.join(rows.ROWS)}")
    return arguments


def first_line(command):
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip().split("\n")[0]
    except OSError:
        return ""


def processor():
    for line in open("/proc/cpuinfo", encoding="utf-8"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def verdict(ratio, target):
    if isinstance(target, (int, float)) and ratio is not None:
        return f"≥ {target}: {'reached' if ratio >= target else 'not reached'}"
    return str(target)


def write_table(path, facts, measured):
    with open(path, "w", encoding="utf-8") as out:
        out.write(f"# Serving, {facts['device']}, {facts['date']}\n\n| | |\n|---|---|\n")
        for name, value in facts.items():
            out.write(f"| {name} | {value} |\n")
        out.write("\nClients on the same machine, over loopback. Measured in turns of a second with the "
                  "baseline where\nthere is one: medians of the turns' figures and of their ratios.\n\n"
                  "| what | gemmd | baseline | ratio | target | more |\n|---|---|---|---|---|---|\n")
        for what, own, baseline, ratio, target, more in measured:
            number = "" if ratio is None else f"{ratio:.2f}"
            out.write(f"| {what} | {own} | {baseline} | {number} | {verdict(ratio, target)} | "
                      f"{more} |\n")


def plot(points, data, image, title):
    with open(data, "w", encoding="ascii") as out:
        out.write("# asked_per_s answered_per_s p50_us p99_us p999_us\n")
        for point in points:
            out.write(" ".join(f"{value:.1f}" for value in point) + "\n")
    if shutil.which("gnuplot") is None:
        print("no gnuplot: the data is written, the plot is not")
        return
    script = f"""
set terminal svg size 720,420 background rgb "white"
set output "{image}"
set title "{title}"
set xlabel "f32 64x64x64 products answered per second, 128 connections"
set ylabel "latency, us"
set logscale y
set grid
set key left top
plot "{data}" using 2:3 with linespoints title "p50", \\
     "" using 2:4 with linespoints title "p99", \\
     "" using 2:5 with linespoints title "p99.9"
"""
    subprocess.run(["gnuplot"], input=script, text=True, check=True)


def main():
    arguments = read_arguments()
    began = time.monotonic()
    failed = 0
    measured = []
    with tempfile.TemporaryDirectory() as folder:
        bench = rows.Bench(arguments.build, folder, arguments.backend, arguments.seconds)
        info = rows.backend_of(bench)
        device = info["devices"][0]
        bench.backend = device["backend"]
        facts = {
            "gemmd": first_line([bench.program("gemmd"), "--version"]).removeprefix("gemmd "),
            "device": device["name"],
            "driver": first_line(["nvidia-smi", "--query-gpu=driver_version",
                                  "--format=csv,noheader"]) or "none",
            "host": f"{os.cpu_count()} cores, {processor()}",
            "date": datetime.date.today().isoformat(),
        }
        kind = "".join(c if c.isalnum() else "-" for c in facts["device"].lower()).strip("-")
        base = os.path.join(arguments.out, f"serve-{facts['date']}-{kind}")
        os.makedirs(arguments.out, exist_ok=True)
        for name in arguments.rows:
            try:
                new = rows.ROWS[name](bench)
            except Exception as error:  # whatever is wrong with one row, the others are measured
                print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
                failed += 1
                continue
            measured += new
            write_table(f"{base}.md", facts, measured)
            for row in new:
                print(f"[{time.monotonic() - began:5.0f} s] " + " | ".join(
                    f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in row),
                    flush=True)
        if bench.points:
            plot(bench.points, f"{base}.dat", f"{base}.svg", facts["device"])
    print(f"{base}.md")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
