#!/usr/bin/env python3
"""Instructions that the daemon executes for a request, counted by callgrind: speed without a clock.

    python tests/bench/instructions.py GEMMD [--write] [--runs 10]

Runs gemmd under valgrind with one I/O thread, one thread that computes, and OpenBLAS's kernels for Haswell, so that the
way of a request does not depend on the host. For each kind of request, sends requests over one kept connection of a
Unix socket, and divides the instructions of all threads but the main thread by the number of requests. The main thread
serves no request, and its timers depend on how long the run takes. So does notable_add: the daemon keeps 16 slow and 16
failed requests of each second for the dashboard. It is not counted.

Compares the counts with the table instructions.json. The table also says what it was made with: compiler, options of the
build, libraries, valgrind and instruction set, on which the counts depend, too. Exits with 0 if every count is within
the tolerance of the table, with 1 if one is larger or smaller, and with 2 if nothing can be compared, because the table
was made with something else. After a change that is meant to change counts, --write writes the table anew: the median of
--runs runs for each kind of request, and as the tolerance twice the largest deviation of a run from its median, but
between 1 % and 5 %.
"""

import argparse
import contextlib
import ctypes
import http.client
import json
import os
import platform
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TABLE = Path(__file__).with_name("instructions.json")
REQUESTS, WARM_UP = 100, 20
NOT_COUNTED = "notable_add"
PATIENCE_S = 300
LEAST_TOLERANCE, MOST_TOLERANCE = 0.01, 0.05
# One place in the queue, which serves for 429.
OPTIONS = ("--backend", "cpu", "--cpu-threads", "1", "--io-threads", "1", "--bulk-connections", "0", "--streams", "1",
           "--busy-poll-us", "0", "--pinned-bytes", "64M", "--touch-share", "0", "--queue-requests", "1",
           "--min-body-rate", "0", "--idle-timeout", "1h", "--timeout", "1h", "--max-timeout", "1h", "--log-format", "json")
PINNED = {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "1"}
SIDE = 64


class CannotCount(Exception):
    """The message says what is missing."""


def missing_programs():
    missing = [program for program in ("valgrind", "callgrind_control", "readelf", "nm") if shutil.which(program) is None]
    return f"{', '.join(missing)} not installed" if missing else None


def run(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True).stdout


def made_with(gemmd):
    """What the counts depend on besides the code of the daemon."""
    libraries = re.findall(r"=> (\S+)", run("ldd", gemmd))
    flags = re.search(r"^flags\s*:(.*)", Path("/proc/cpuinfo").read_text(), re.M)
    cache = Path(gemmd).resolve().parents[1] / "CMakeCache.txt"
    options = re.findall(r"^CMAKE_(?:BUILD_TYPE|C_FLAGS|C_FLAGS_RELEASE):\w+=.*",
                         cache.read_text() if cache.exists() else "", re.M)
    return {
        "options": [re.sub(":\\w+=", "=", option) for option in options],
        "compiler": sorted(set(re.findall(r"GCC: .*|clang .*", run("readelf", "-p", ".comment", gemmd)))),
        "libraries": sorted({os.path.basename(os.path.realpath(path)) for path in libraries}),
        "libc": os.confstr("CS_GNU_LIBC_VERSION"),
        "valgrind": run("valgrind", "--version").strip(),
        "machine": platform.machine(),
        "instruction set": [name for name in ("avx2", "bmi2", "fma", "f16c") if flags and name in flags[1].split()],
    }


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(self.path)

    def ask(self, status, method, path, body=None, headers=None):
        self.request(method, path, body, headers or {})
        answer = self.getresponse()
        text = answer.read()
        if answer.status != status:
            raise CannotCount(f"{method} {path}: {answer.status}, not {status}: {text[:300]!r}")


@contextlib.contextmanager
def held_place(connection):
    """A second connection whose request has the only place of the queue until the body arrives."""
    with contextlib.closing(Connection(connection.path)) as holder:
        holder.connect()
        holder.sock.sendall(f"POST /gemm?m={SIDE}&n={SIDE}&k={SIDE} HTTP/1.1\r\nHost: localhost\r\n"
                            f"Content-Length: {SIDE * SIDE * 8}\r\nExpect: 100-continue\r\n\r\n".encode())
        if b" 100 " not in holder.sock.recv(1000):
            raise CannotCount("the request that is to hold the place in the queue is refused")
        yield


@contextlib.contextmanager
def resident_matrix(connection):
    connection.ask(201, "PUT", "/tensors/w?dtype=f32&shape=256,256", bytes(256 * 256 * 4))
    yield


def infer_request():
    front = json.dumps({"inputs": [{"name": name, "shape": [SIDE, SIDE], "datatype": "FP32",
                                    "parameters": {"binary_data_size": SIDE * SIDE * 4}} for name in "AB"],
                        "parameters": {"binary_data_output": True}}).encode()
    return (200, "POST", "/v2/models/gemm_fp32/infer", front + bytes(SIDE * SIDE * 8),
            {"Inference-Header-Content-Length": str(len(front)), "Content-Type": "application/octet-stream"})


PRODUCT = ("POST", f"/gemm?m={SIDE}&n={SIDE}&k={SIDE}", bytes(SIDE * SIDE * 8))
# {name: (the request, what must be there meanwhile)}
KINDS = {
    "GET /livez": ((200, "GET", "/livez"), contextlib.nullcontext),
    "POST /gemm, f32 64x64x64": ((200, *PRODUCT), contextlib.nullcontext),
    "POST /gemm, an f32 row times a resident 256x256": ((200, "POST", "/gemm?m=1&b=w", bytes(256 * 4)),
                                                        resident_matrix),
    "POST /v2/models/gemm_fp32/infer, 64x64x64": (infer_request(), contextlib.nullcontext),
    "POST /gemm, answered with 429": ((429, *PRODUCT), held_place),
}


class Counted:
    """A daemon under callgrind."""

    def __init__(self, gemmd, folder):
        self.folder, self.dumps = Path(folder), 0
        # PR_SET_PTRACER: where Yama restricts ptrace, callgrind_control may wake the daemon's threads.
        self.process = subprocess.Popen(
            ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes",
             f"--toggle-collect={NOT_COUNTED}", "--collect-atstart=yes", f"--callgrind-out-file={folder}/out",
             str(gemmd), "--listen", f"unix:{folder}/socket", *OPTIONS],
            stdin=subprocess.DEVNULL, stdout=open(self.folder / "log", "wb"), stderr=subprocess.STDOUT,
            env={**os.environ, **PINNED}, preexec_fn=lambda: ctypes.CDLL(None).prctl(0x59616d61, -1, 0, 0, 0))
        self.socket = f"{folder}/socket"
        self.wait_until_ready()

    def wait_until_ready(self):
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until and self.process.poll() is None:
            with contextlib.suppress(OSError, CannotCount), contextlib.closing(Connection(self.socket)) as connection:
                connection.ask(200, "GET", "/readyz")
                return
            time.sleep(0.1)
        raise CannotCount("gemmd does not start under valgrind: "
                          + (self.folder / "log").read_text(errors="replace")[-1000:])

    def control(self, *words):
        ran = subprocess.run(["callgrind_control", *words, str(self.process.pid)], capture_output=True, text=True,
                             check=False, timeout=PATIENCE_S)
        if ran.returncode != 0 or "OK" not in ran.stdout:
            raise CannotCount(f"callgrind_control {' '.join(words)}: {ran.stdout}{ran.stderr}")

    def dump(self):
        """{number of a thread: its instructions since the last dump}"""
        self.dumps += 1
        self.control("--dump")
        return {int(file.name.rpartition("-")[2]): int(re.search(r"^totals: (\d+)", file.read_text(), re.M)[1])
                for file in self.folder.glob(f"out.{self.dumps}-*")}

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def count(gemmd):
    """{kind: instructions of a request}"""
    counts = {}
    if not re.search(rf" {NOT_COUNTED}$", run("nm", gemmd), re.M):
        raise CannotCount(f"{gemmd} has no symbol {NOT_COUNTED}")
    with tempfile.TemporaryDirectory(prefix="gemmd-instructions") as folder:
        daemon = Counted(gemmd, folder)
        try:
            daemon.control("--instr=on")
            with contextlib.closing(Connection(daemon.socket)) as connection:
                for name, (request, around) in KINDS.items():
                    with around(connection):
                        for _ in range(WARM_UP):
                            connection.ask(*request)
                        daemon.dump()
                        for _ in range(REQUESTS):
                            connection.ask(*request)
                        threads = daemon.dump()
                    counts[name] = round(sum(number for thread, number in threads.items() if thread > 1) / REQUESTS)
        finally:
            daemon.stop()
    return counts


def differences(table, counts):
    """A sentence for each count that is outside the table's tolerance."""
    found = []
    for name, now in counts.items():
        before = table["instructions"].get(name)
        if before is None:
            found.append(f"{name}: {now:,} instructions; the table does not have this request")
        elif abs(now / before - 1) > table["tolerance"]:
            found.append(f"{name}: {now:,} instructions, {now / before - 1:+.1%} of {before:,} in the table")
    return found


def other_things(table, made):
    """What the table was made with that differs from what there is now."""
    return [f"{name}: {made[name]}, and the table was made with {table['made with'].get(name)}"
            for name in made if made[name] != table["made with"].get(name)]


def table_of(made, runs):
    """The table of the counts of several runs."""
    medians = {name: round(statistics.median(counts[name] for counts in runs)) for name in KINDS}
    spread = max(abs(counts[name] / medians[name] - 1) for counts in runs for name in KINDS)
    if 2 * spread > MOST_TOLERANCE:
        raise CannotCount(f"the runs differ by {spread:.1%} from their median, which no tolerance of "
                          f"{MOST_TOLERANCE:.0%} allows")
    return {"tolerance": round(max(LEAST_TOLERANCE, 2 * spread), 4), "instructions": medians, "made with": made}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("gemmd")
    parser.add_argument("--write", action="store_true", help="write the table anew instead of comparing with it")
    parser.add_argument("--runs", type=int, default=10, help="runs of which --write takes the medians (10)")
    options = parser.parse_args()
    try:
        if missing := missing_programs():
            raise CannotCount(missing)
        made = made_with(options.gemmd)
        if options.write:
            TABLE.write_text(json.dumps(table_of(made, [count(options.gemmd) for _ in range(options.runs)]),
                                        indent=2) + "\n")
            print(TABLE.read_text(), end="")
            return 0
        table = json.loads(TABLE.read_text())
        if others := other_things(table, made):
            raise CannotCount("\n".join(others))
        counts = count(options.gemmd)
    except CannotCount as reason:
        print(f"instructions.py: {reason}", file=sys.stderr)
        return 2
    for name, number in counts.items():
        print(f"{number:>11,}  {name}")
    print("\n".join(found := differences(table, counts)))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
