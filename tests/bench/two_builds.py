"""Two builds of the daemon beside each other: the same bytes, then rates in turns.

    python tests/bench/two_builds.py OLD_GEMMD NEW_GEMMD [--backend cuda] [--seconds 2] [--turns 5]

First both daemons get the same requests (products, attentions, the inference protocol, tensors,
errors), and every answer is compared: status, headers and body. Then wrk loads them in turns, so
that whatever else the machine does meets both alike. Needs wrk and NumPy.
"""

import argparse
import http.client
import json
import os
import random
import statistics
import subprocess
import tempfile
import time

from serving import bodies

# These differ from answer to answer, whichever build gives it.
VARYING = {"x-request-id", "date", "server-timing", "gemmd-verify"}
OCTETS = {"Content-Type": "application/octet-stream"}
SAFETENSORS = {"Content-Type": "application/vnd.safetensors"}
PORTS = (18101, 18102)
SIDES = [1, 2, 3, 7, 8, 16, 17, 33, 64, 65, 100, 128, 200, 255, 256, 384, 512, 777]
PATHS = ["/tensors", "/tensors/w", "/tensors/none", "/livez", "/readyz", "/nothing", "/jobs/nothing",
         "/v2", "/v2/models/gemm_fp32", "/v2/models/linear.w", "/v2/models/none", "/v2/health/ready",
         "/v2/health/live", "/v2/models/gemm_fp32/config", "/v2/trace/setting", "/v2/logging",
         "/tensors?limit=0", "/jobs/x/result?wait_ms=abc", "/v2/systemsharedmemory/status"]
BAD = [("/gemm", b""), ("/gemm?m=2", b"xx"), ("/gemm?m=2&n=2&k=2", b"x" * 31),
       ("/gemm?m=2&n=2&k=2", b"x" * 33), ("/gemm?m=0&n=2&k=2", b"x"),
       ("/gemm?m=2&n=2&k=2&dtype=none", b"x" * 32), ("/gemm?m=2&n=2&k=2&m=3", b"x" * 32),
       ("/gemm?what=1", b"x"), ("/gemm?m=2&n=2&k=2&kernel=none", b"x" * 32),
       ("/gemm?m=99999999&n=99999999&k=99999999", b"x"),
       ("/attention?heads=1&sq=2&skv=2&d=3", b"x" * 5), ("/gemm?a=none&m=2&n=2&k=2", b"x"),
       ("/v2/models/gemm_fp32/infer", b"{}"), ("/v2/models/gemm_fp32/infer", b"{"),
       ("/v2/models/linear.w/infer", b'{"inputs":[]}'), ("/v2/repository/index", b'{"ready":1}')]


def start(program, port, backend):
    """A daemon that is ready; two of them share a GPU's memory."""
    command = [program, "--listen", f"127.0.0.1:{port}", "--backend", backend, "--no-access-log",
               "--pinned-bytes", "2GiB"]
    if backend == "cuda":
        command += ["--device-bytes", "8GiB", "--tensor-bytes", "1GiB"]
    daemon = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    for _ in range(600):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return daemon
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit(f"{program} does not become ready")


def without_id(data):
    """The body of a problem document without the id of its request."""
    try:
        document = json.loads(data)
    except ValueError:
        return data
    return {key: value for key, value in document.items() if key != "request_id"} if (
        isinstance(document, dict) and "request_id" in document) else data


class Comparison:
    """Sends each request to both daemons and counts the answers that are not the same."""

    def __init__(self):
        self.connections = [http.client.HTTPConnection("127.0.0.1", port, timeout=120)
                            for port in PORTS]
        self.same = self.different = 0

    def ask(self, method, path, body=None, headers=None):
        def answer(connection):
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            kept = [pair for pair in response.getheaders() if pair[0].lower() not in VARYING]
            return response.status, kept, without_id(response.read())

        old, new = map(answer, self.connections)
        if old == new:
            self.same += 1
            return
        self.different += 1
        print("DIFFERENT", method, path[:120], old[0], new[0], str(old[2])[:160], str(new[2])[:160], flush=True)


def safetensors(**matrices):
    head, data = {}, b""
    for name, (shape, raw) in matrices.items():
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head).encode()
    return len(text).to_bytes(8, "little") + text + data


def inference(m, n, k, binary):
    """The JSON of an inference, and its headers."""
    inputs = [{"name": name, "shape": shape, "datatype": "FP32",
               "parameters": {"binary_data_size": 4 * shape[0] * shape[1]}}
              for name, shape in (("A", [m, k]), ("B", [k, n]))]
    text = json.dumps({"inputs": inputs,
                       "outputs": [{"name": "C", "parameters": {"binary_data": binary}}]},
                      separators=(",", ":")).encode()
    return text, {"Inference-Header-Content-Length": str(len(text))}


def compare(cases):
    both = Comparison()
    for _ in range(cases):
        m, n, k = random.choices(SIDES, k=3)
        dtype, batch = random.choice(list(bodies.ELEMENT_BYTES)), random.choice([1, 1, 1, 3])
        query = "".join(part for part in ("&transa=1", "&transb=1", "&alpha=2") if random.random() < 0.3)
        if dtype == "f32" and random.random() < 0.3:
            query += "&precision=tf32"
        both.ask("POST", f"/gemm?m={m}&n={n}&k={k}&dtype={dtype}&batch={batch}{query}",
                 bodies.operands(dtype, batch * (m * k + k * n)), OCTETS)
    for i in range(cases // 4):
        m, n, k = random.choices(SIDES, k=3)
        a, b = bodies.operands("f32", m * k), bodies.operands("f32", k * n)
        body = safetensors(a=([m, k], a), b=([k, n], b))
        both.ask("POST", "/gemm", body, SAFETENSORS)
        both.ask("POST", "/gemm?act=relu", body, SAFETENSORS | {"Accept": "application/x-npy"})
        text, headers = inference(m, n, k, bool(i % 3))
        both.ask("POST", "/v2/models/gemm_fp32/infer", text + a + b, headers)
        heads, d = random.choice([1, 2, 8]), random.choice([32, 64, 128])
        dtype = random.choice(["f32", "f16", "bf16"])
        both.ask("POST", f"/attention?heads={heads}&sq={m}&skv={n}&d={d}&dtype={dtype}"
                         f"&causal={i % 2}", bodies.operands(dtype, heads * d * (m + 2 * n)), OCTETS)
    both.ask("PUT", "/tensors/w?shape=512,384&dtype=bf16", bodies.operands("bf16", 512 * 384), OCTETS)
    for rows in (1, 3, 16, 100):
        both.ask("POST", f"/gemm?m={rows}&b=w", bodies.operands("bf16", rows * 512), OCTETS)
    for path in PATHS:
        both.ask("GET", path)
        both.ask("HEAD", path)
    for path, body in BAD:
        for headers in (OCTETS, SAFETENSORS, {"Content-Type": "text/plain"}):
            both.ask("POST", path, body, headers)
    print(f"{both.same} answers are the same, {both.different} are not", flush=True)


def wrk(port, target, body, headers, connections, seconds):
    threads = min(connections, max(1, min(6, os.cpu_count() // 3)))
    more = [word for name, value in headers.items() for word in ("-H", f"{name}: {value}")]
    text = subprocess.run(
        [os.environ.get("WRK", "wrk"), f"-t{threads}", f"-c{connections}", f"-d{seconds}s", "-s",
         "tests/bench/post.lua", *more, f"http://127.0.0.1:{port}{target}", "--", body],
        capture_output=True, text=True, check=True).stdout
    values = dict(line.split() for line in text.splitlines() if len(line.split()) == 2)
    if float(values["refused"]) or float(values["broken"]):
        raise SystemExit(f"port {port}: refusals or broken connections\n{text}")
    return float(values["rate"]), float(values["p50_us"]), float(values["p99_us"])


def measure(name, row, connections, seconds, turns):
    found = ([], [])
    for turn in range(turns + 1):
        for which in (0, 1) if turn % 2 else (1, 0):
            result = wrk(PORTS[which], *row, connections, seconds)
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
    operands = bodies.operands("f32", 2 * 64 * 64)
    text, headers = inference(64, 64, 64, True)
    gemm = ("/gemm?m=64&n=64&k=64", bodies.write(folder, "raw", operands), {})
    infer = ("/v2/models/gemm_fp32/infer", bodies.write(folder, "infer", text + operands), headers)
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


def load(options):
    edge = resident_edge(options.backend)
    resident = bodies.operands("bf16", edge * edge)
    for port in PORTS:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        connection.request("PUT", f"/tensors/resident?shape={edge},{edge}&dtype=bf16", resident, OCTETS)
        response = connection.getresponse()
        response.read()
        if response.status not in (200, 201):
            raise SystemExit(f"port {port}: the tensor is answered with {response.status}")
        connection.close()
    with tempfile.TemporaryDirectory() as folder:
        print("| row, connections | before | after | ratio (of each pair of turns) | p50 us | p99 us |\n"
              "|---|---|---|---|---|---|")
        for name, row, connections in rows_to_measure(folder, options.backend):
            if options.rows in name:
                measure(name, row, connections, options.seconds, options.turns)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--backend", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--cases", type=int, default=200, help="random products that are compared")
    parser.add_argument("--seconds", type=int, default=2, help="of each turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rows", default="", help="measure only the rows with this text in their name")
    options = parser.parse_args()
    daemons = []
    try:
        for program, port in zip((options.old, options.new), PORTS):
            daemons.append(start(program, port, options.backend))
        compare(options.cases)
        load(options)
        for daemon in daemons:
            daemon.terminate()
        if any(daemon.wait(60) != 0 for daemon in daemons):
            raise SystemExit("a daemon did not end with status 0")
    finally:
        for daemon in daemons:
            daemon.kill()


if __name__ == "__main__":
    main()
