#!/usr/bin/env python3
"""How much code one request runs through, and what the tree is made of.

    python tests/bench/code_path.py [--sequence] [--first 100] [--tree]

Builds gemmd with the CPU backend in build-code-path, so that each call of a function is recorded
(record_calls.c), starts it on loopback, sends products of f32 64x64x64 over one connection, and prints what
one of them called, on all threads: functions, files, rooms, calls, returns and climbs. A room is the folder of
the file that defines a function, or the file itself directly in server/. Of several requests, the script takes
the one with the median number of calls.

- A return is a call into a room (or a file) other than that of the call before it, if an earlier call was into it.
- A climb is a call from a function to a function whose room stands further up in CONTRIBUTING.md: server before
  kernels before proto, and within server in the order of the table of its rooms.

Functions that the compiler inlines count like others, so that the numbers are those of the source. Calls count
in the order in which they begin, but a call that a thread makes outside of any other call of the window comes
with all that it calls, so that threads that run at the same time do not take turns. The window is from just
before the request is sent until 20 ms after the last byte of the answer, so that it has what the daemon does to
count and log the request. What threads also do in a window of the same length without a request is left out.
--sequence prints every call instead, indented by depth.

--tree prints counts over the tracked files instead, without a build. The product is proto, kernels, server and
client, and its C sources are counted without those of CUDA. A function has as many lines as stand between its
braces.
"""

import argparse
import http.client
import mmap
import os
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter, namedtuple
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build-code-path"
SIDE = 64
WARM_UP = 50  # requests before those that are recorded
REQUESTS = 9  # that are recorded
AFTER_S = 0.02  # how long after the answer calls are recorded
PATIENCE_S = 60

# As record_calls.c has them.
THREADS, CALLS = 64, 1 << 18
HEADER, CALL = struct.Struct("4Q"), struct.Struct("2Q")
PART_BYTES = 8 + CALLS * CALL.size

Call = namedtuple("Call", "time_ns address calls")  # a call, and the calls that it makes itself
Function = namedtuple("Function", "name file")


class CannotCount(Exception):
    """The message says what is missing."""


# From records to numbers.

def forest(records, begin_ns, end_ns):
    """The calls of a thread between two times that no other call between them contains.

    Records are (time, address) at a call, and (time, 0) at a return."""
    outermost, open_calls = [], []
    for time_ns, address in records:
        if not begin_ns <= time_ns < end_ns:
            continue
        if address:
            call = Call(time_ns, address, [])
            (open_calls[-1].calls if open_calls else outermost).append(call)
            open_calls.append(call)
        elif open_calls:  # else it returns from a call that began before the window
            open_calls.pop()
    return outermost


def shape(call):
    """What a call and all that it calls are, but for their times."""
    return call.address, tuple(shape(inner) for inner in call.calls)


def without_idle(busy, quiet):
    """The outermost calls of a window but those that the quiet window has too, once for each time it has them."""
    idle, kept = Counter(map(shape, quiet)), []
    for call in busy:
        if idle[shape(call)]:
            idle[shape(call)] -= 1
        else:
            kept.append(call)
    return kept


def flatten(calls, depth=0, caller=None):
    """(depth, address, address of the caller or None) of each call, in order."""
    for call in calls:
        yield depth, call.address, caller
        yield from flatten(call.calls, depth + 1, call.address)


def room(file):
    """The folder of a file, or the file without its ending where it stands in server/ itself."""
    folder, _, name = file.rpartition("/")
    return f"server/{name.rsplit('.', 1)[0]}" if folder == "server" else folder


def read_order(text):
    """{room: height} of CONTRIBUTING.md's table of the server's rooms; rooms of one line have the same height."""
    section = text.split("### The rooms of the server")[1].split("\n## ")[0]
    lines = [re.findall(r"`(\w+)(?:\.c|/)`", line.split("|")[1])
             for line in section.splitlines() if line.startswith("| `")]
    return {f"server/{name}": len(lines) - place for place, names in enumerate(lines) for name in names}


def height(of_room, order):
    """How far up a room stands: proto is lowest, then kernels, then the rooms of the server."""
    top, _, below = of_room.partition("/")
    if top == "server":
        return 1 + order[f"server/{below.split('/')[0]}"]
    return {"proto": 0, "kernels": 1}[top]


def count_returns(rooms):
    """How many rooms of a sequence differ from the one before and were there already."""
    seen, returns, last = set(), 0, None
    for now in rooms:
        returns += now != last and now in seen
        seen.add(now)
        last = now
    return returns


def count_climbs(pairs, order):
    """How many pairs of (caller's room, callee's room) lead up."""
    return sum(height(callee, order) > height(caller, order) for caller, callee in pairs)


def numbers(sequence, functions, order):
    """[(what, number)] of a sequence from `flatten`; `functions` has the function of each address."""
    called = {functions[address] for _, address, _ in sequence}
    visited = [functions[address].file for _, address, _ in sequence]
    rooms = [room(file) for file in visited]
    pairs = [(room(functions[caller].file), to) for (_, _, caller), to in zip(sequence, rooms) if caller]
    return [
        ("calls", len(sequence)),
        ("functions", len(called)),
        (".c files that define them", len({file for file in visited if file.endswith(".c")})),
        ("headers that define them", len({file for file in visited if file.endswith(".h")})),
        ("rooms", len(set(rooms))),
        ("returns to a room", count_returns(rooms)),
        ("returns to a file", count_returns(visited)),
        ("climbs", count_climbs(pairs, order)),
    ]


# The build, the daemon and its requests.

def run(*words, **more):
    ran = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **more)
    if ran.returncode != 0:
        raise CannotCount(f"{' '.join(map(str, words))[:200]} failed: {(ran.stderr or ran.stdout).strip()[-2000:]}")
    return ran.stdout


def build():
    run("cmake", "--preset", "cpu", "-B", BUILD, "-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DGEMMD_TESTS=ON",
        "-DCMAKE_C_FLAGS=-finstrument-functions -Wno-error=maybe-uninitialized", cwd=ROOT)
    run("cmake", "--build", BUILD, "-j", len(os.sched_getaffinity(0)), "--target", "gemmd", "record_calls")


class Recording:
    """The file that the daemon's threads write their calls to."""

    def __init__(self, path):
        with open(path, "w+b") as file:
            file.truncate(HEADER.size + THREADS * PART_BYTES)
            self.bytes = mmap.mmap(file.fileno(), 0)

    def record(self, on):
        self.bytes[:8] = struct.pack("Q", on)

    def threads(self):
        """[(time, address)] of each thread."""
        _, threads, lost, _ = HEADER.unpack_from(self.bytes)
        if not threads or lost:
            raise CannotCount(f"{threads} threads recorded calls, and {lost} calls were lost")
        for part in range(threads):
            start = HEADER.size + part * PART_BYTES
            count, = struct.unpack_from("Q", self.bytes, start)
            yield list(CALL.iter_unpack(self.bytes[start + 8:start + 8 + count * CALL.size]))


def wait_for(condition, what):
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if (found := condition()) is not None:
            return found
        time.sleep(0.05)
    raise CannotCount(f"waited {PATIENCE_S} s for {what}")


def port_of(log):
    """The port in the daemon's log, once it listens."""
    found = re.search(r"listening on 127\.0\.0\.1:(\d+)", log.read_text())
    return int(found[1]) if found else None


def ask(connection, method, path, body=None):
    connection.request(method, path, body)
    answer = connection.getresponse()
    answer.read()
    return answer.status


def window(body):
    """The times before and after `body`, on the clock of the recording, and AFTER_S more."""
    begin_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    body()
    time.sleep(AFTER_S)
    return begin_ns, time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def record_requests(recording, port):
    """The windows with a request each, and one without, as long as the longest of them."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    wait_for(lambda: ask(connection, "GET", "/readyz") == 200 or None, "the daemon to be ready")
    path, body = f"/gemm?m={SIDE}&n={SIDE}&k={SIDE}", bytes(SIDE * SIDE * 8)
    statuses = []

    def send():
        statuses.append(ask(connection, "POST", path, body))

    for _ in range(WARM_UP):
        send()
    time.sleep(1)
    recording.record(1)
    busy = [window(send) for _ in range(REQUESTS)]
    longest_ns = max(end_ns - begin_ns for begin_ns, end_ns in busy)
    quiet, _ = window(lambda: time.sleep(longest_ns / 1e9))
    recording.record(0)
    time.sleep(0.1)
    if set(statuses) != {200}:
        raise CannotCount(f"the daemon answered with {set(statuses)}")
    return busy, (quiet, quiet + longest_ns)


def load_address(pid):
    """Where the program is in the memory of a process."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        if line.endswith("/bin/gemmd"):
            return int(line.split("-")[0], 16)
    raise CannotCount("the daemon has ended")


def name_functions(addresses, base):
    """{address: Function}, asked of the program's debug information."""
    output = run("addr2line", "-f", "-e", BUILD / "bin/gemmd", *(hex(address - base) for address in addresses))
    lines = output.splitlines()
    names = zip(addresses, lines[::2], lines[1::2])
    return {address: Function(name, os.path.relpath(place.rpartition(":")[0], ROOT))
            for address, name, place in names}


def request_sequence():
    """The calls of one request as from `flatten`, and the functions."""
    with tempfile.TemporaryDirectory(prefix="gemmd-code-path") as folder:
        path, log = Path(folder) / "calls", Path(folder) / "log"
        recording = Recording(path)
        environment = {**os.environ, "LD_PRELOAD": str(BUILD / "tests/record_calls.so"), "RECORD_CALLS": str(path)}
        with open(log, "wb") as output:
            daemon = subprocess.Popen([BUILD / "bin/gemmd", "--listen", "127.0.0.1:0"], stdin=subprocess.DEVNULL,
                                      stdout=output, stderr=output, env=environment)
        try:
            port = wait_for(lambda: port_of(log), "the daemon to listen")
            base = load_address(daemon.pid)
            busy, quiet = record_requests(recording, port)
            threads = list(recording.threads())
        finally:
            daemon.terminate()
            daemon.wait(PATIENCE_S)
    idle = [forest(records, *quiet) for records in threads]
    sequences = []
    for times in busy:
        outermost = [call for records, own_idle in zip(threads, idle)
                     for call in without_idle(forest(records, *times), own_idle)]
        sequences.append(list(flatten(sorted(outermost))))
    sequence = sorted(sequences, key=len)[REQUESTS // 2]
    return sequence, name_functions(sorted({address for _, address, _ in sequence}), base)


# Counts over the tree.

PRODUCT = ("proto", "kernels", "server", "client")
C_SOURCE = re.compile(r"\.[ch]$")
SOURCE = re.compile(r"\.(c|h|cu|cuh)$")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def function_lines(text):
    """How many lines each function of a source has between its braces, as clang-format sets them."""
    return [len(body.splitlines()) for body in re.findall(r"\)(?: const)?\n\{\n(.*?)^\}$", text, re.M | re.S)]


def users(files):
    """{header: files that include it, but for the .c of its own name}, of {file: text}."""
    of_headers = {name: set() for name in files if name.endswith(".h")}
    for name, text in files.items():
        for included in INCLUDE.findall(text):
            if included in of_headers and name[:-2] != included[:-2]:
                of_headers[included].add(name)
    return of_headers


def tree_numbers(files):
    """[(what, number)] of {file: text} of the whole tree."""
    product = {name: text for name, text in files.items() if name.split("/")[0] in PRODUCT}
    in_c = {name: text for name, text in product.items() if C_SOURCE.search(name)}
    lengths = [length for text in in_c.values() for length in function_lines(text)]
    lines = {name: len(text.splitlines()) for name, text in files.items()}
    in_server = [lines[name] for name in in_c if name.startswith("server/") and name.endswith(".c")]
    return [
        ("functions", len(lengths)),
        ("median of their lines", statistics.median(lengths)),
        ("functions of three lines or fewer, in percent", round(100 * sum(n <= 3 for n in lengths) / len(lengths))),
        ("C sources", len(in_c)),
        ("C sources under 40 lines", sum(lines[name] < 40 for name in in_c)),
        ("headers with one user besides their own .c", sum(len(files) == 1 for files in users(in_c).values())),
        ("median of the lines of a .c of server/", statistics.median(in_server)),
        ("lines of the product's sources, with CUDA", sum(lines[name] for name in product if SOURCE.search(name))),
        ("lines of all text files of the tree", sum(lines.values())),
    ]


def tracked_texts():
    names = run("git", "ls-files", "-z", cwd=ROOT).split("\0")[:-1]
    texts = {}
    for name in names:
        if (ROOT / name).is_file():
            content = (ROOT / name).read_bytes()
            if b"\0" not in content:
                texts[name] = content.decode(errors="replace")
    return texts


def show(rows):
    for what, number in rows:
        print(f"{number:>9,}  {what}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sequence", action="store_true", help="print every call, indented by depth")
    parser.add_argument("--first", type=int, default=100, help="count the first N calls by themselves, too (100)")
    parser.add_argument("--tree", action="store_true", help="print counts over the tree, without a build")
    options = parser.parse_args()
    try:
        if options.tree:
            show(tree_numbers(tracked_texts()))
            return 0
        build()
        sequence, functions = request_sequence()
    except CannotCount as reason:
        print(f"code_path.py: {reason}", file=sys.stderr)
        return 1
    if options.sequence:
        for depth, address, _ in sequence:
            print("  " * depth + f"{functions[address].name}  {functions[address].file}")
        return 0
    order = read_order((ROOT / "CONTRIBUTING.md").read_text())
    print(f"One POST /gemm of f32 {SIDE}x{SIDE}x{SIDE}, warm, over a kept connection:")
    show(numbers(sequence, functions, order))
    print(f"The first {options.first} calls:")
    show(numbers(sequence[:options.first], functions, order))
    return 0


if __name__ == "__main__":
    sys.exit(main())
