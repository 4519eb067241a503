"""Two builds of the daemon beside each other: rates in turns.

    python tests/bench/two_builds.py OLD_GEMMD NEW_GEMMD [--backend cuda] [--seconds 2] [--turns 5]

wrk loads both daemons in turns, so that whatever else the machine does meets both alike. Needs wrk and
NumPy. tests/bench/same_answers.py compares the answers of two builds.
"""

import argparse
import contextlib
import http.client
import os
import statistics
import subprocess
import tempfile

from corpus.products import product
from corpus.units import Draw
from serving import bodies, servers

OCTETS = {"Content-Type": "application/octet-stream"}


def start(program, backend, log):
    """A daemon; two of them share a GPU's memory."""
    command = [program, "--listen", "127.0.0.1:0", "--backend", backend, "--no-access-log", "--pinned-bytes", "2GiB"]
    if backend == "cuda":
        command += ["--device-bytes", "8GiB", "--tensor-bytes", "1GiB"]
    return servers.Server(command, log)


def wrk(address, target, body, headers, connections, seconds):
    threads = min(connections, max(1, min(6, os.cpu_count() // 3)))
    more = [word for name, value in headers.items() for word in ("-H", f"{name}: {value}")]
    text = subprocess.run(
        [os.environ.get("WRK", "wrk"), f"-t{threads}", f"-c{connections}", f"-d{seconds}s", "-s",
         "tests/bench/post.lua", *more, f"http://{address}{target}", "--", body],
        capture_output=True, text=True, check=True).stdout
    values = dict(line.split() for line in text.splitlines() if len(line.split()) == 2)
    if float(values["refused"]) or float(values["broken"]):
        raise SystemExit(f"{address}: refusals or broken connections\n{text}")
    return float(values["rate"]), float(values["p50_us"]), float(values["p99_us"])


def measure(addresses, name, row, connections, seconds, turns):
    found = ([], [])
    for turn in range(turns + 1):
        for which in (0, 1) if turn % 2 else (1, 0):
            result = wrk(addresses[which], *row, connections, seconds)
            if turn > 0:  # the first turn warms up
                found[which].append(result)
    old, new = ([statistics.median(column) for column in zip(*results)] for results in found)
    pairs = " ".join(f"{after[0] / before[0]:.3f}" for before, after in zip(*found))
    print(f"| {name}, {connections} | {old[0]:.0f}/s | {new[0]:.0f}/s | {new[0] / old[0]:.3f} ({pairs}) "
          f"| {old[1]:.0f}, {new[1]:.0f} | {old[2]:.0f}, {new[2]:.0f} |", flush=True)


def resident_edge(backend):
    """Rows and columns of the resident matrix."""
    return 4096 if backend == "cuda" else 512


def rows_to_measure(folder, backend):
    """The rows of the table: name, request (target, body file, headers), connections."""
    small = product(Draw(1), "f32", 64, 64, 64)
    gemm, infer = ((request.path, bodies.write(folder, name, request.body), request.headers)
                   for name, request in (("raw", small.raw()), ("infer", small.infer())))
    rows = [("/gemm f32 64³", gemm, 128), ("infer f32 64³", infer, 128), ("/gemm f32 64³", gemm, 1),
            ("infer f32 64³", infer, 1), ("/gemm f32 64³", gemm, 32)]
    gpu = backend == "cuda"
    for edge, connections in ((1024, 16), (4096, 8)) if gpu else ((512, 4),):
        rows.append((f"/gemm f32 {edge}³", (f"/gemm?m={edge}&n={edge}&k={edge}",
                                            bodies.product(folder, "f32", edge, edge, edge), {}), connections))
    edge = resident_edge(backend)
    rows.append((f"/gemm, a bf16 row on a resident {edge}×{edge}",
                 ("/gemm?m=1&b=resident", bodies.write(folder, "row", bodies.operands("bf16", edge)), {}), 256))
    return rows


def load(addresses, options):
    edge = resident_edge(options.backend)
    resident = bodies.operands("bf16", edge * edge)
    for address in addresses:
        connection = http.client.HTTPConnection(address, timeout=120)
        connection.request("PUT", f"/tensors/resident?shape={edge},{edge}&dtype=bf16", resident, OCTETS)
        response = connection.getresponse()
        response.read()
        if response.status not in (200, 201):
            raise SystemExit(f"{address}: the tensor is answered with {response.status}")
        connection.close()
    with tempfile.TemporaryDirectory() as folder:
        print("| row, connections | before | after | ratio (of each pair of turns) | p50 us | p99 us |\n"
              "|---|---|---|---|---|---|")
        for name, row, connections in rows_to_measure(folder, options.backend):
            if options.rows in name:
                measure(addresses, name, row, connections, options.seconds, options.turns)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--backend", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--seconds", type=int, default=2, help="of each turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rows", default="", help="measure only the rows with this text in their name")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        daemons = [stack.enter_context(start(program, options.backend, os.path.join(folder, name)))
                   for program, name in ((options.old, "old"), (options.new, "new"))]
        load([daemon.address for daemon in daemons], options)
        if any([daemon.stop() for daemon in daemons]):
            raise SystemExit("a daemon did not end with status 0")


if __name__ == "__main__":
    main()
