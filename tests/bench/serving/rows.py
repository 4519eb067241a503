"""The serving rows of the targets, one function each.

Each takes a Bench and returns rows for the table: (what, gemmd, baseline, ratio, target, more).
"""

import ctypes
import dataclasses
import importlib.util
import json
import os
import socket
import statistics
import sys
import time
import urllib.request

import numpy as np

from . import bodies, load
from .servers import Server


class Bench:
    """What all rows need: where the programs are, the backend, how long to measure."""

    def __init__(self, build, folder, backend, seconds):
        self.build, self.folder, self.backend, self.seconds = build, folder, backend, seconds
        self.single = max(1, seconds // 3)  # of what is not measured in turns
        self.threads = max(1, min(16, os.cpu_count() // 2))  # the daemon's own default
        self.points = []  # (load asked for, rate, p50, p99, p99.9), for the plot
        self._logs = 0

    def log(self, name):
        self._logs += 1
        return os.path.join(self.folder, f"{name}-{self._logs}.log")

    def program(self, name):
        return os.path.join(self.build, "bin", name)

    def gemmd(self, *options):
        """The daemon, ready."""
        log = self.log("gemmd")
        path = log.removesuffix(".log") + ".sock"
        server = Server(
            [self.program("gemmd"), "--backend", self.backend, "--listen", "127.0.0.1:0",
             "--listen", f"unix:{path}", "--no-access-log", *options], log)
        server.unix = f"unix:{path}"
        began = time.monotonic()
        while True:
            try:
                urllib.request.urlopen(f"http://{server.address}/readyz", timeout=5).close()
                break
            except OSError:
                if time.monotonic() - began > 30:
                    server.stop()
                    raise
                time.sleep(0.01)
        server.started_s += time.monotonic() - began
        return server

    def alone(self, connections, buffer_bytes, body_bytes, answer_bytes):
        # With 128 connections on one of its epoll threads libmicrohttpd 0.9.75 loses wake-ups and
        # nearly stops (measured: 15 ... 1,128 requests/s; 36,000 on two), which is no baseline.
        threads = max(self.threads, -(-connections // 64))
        return Server(
            [self.program("gemmd-bench-mhd-alone"), "0", str(threads), str(buffer_bytes),
             str(body_bytes), str(answer_bytes)], self.log("alone"))

    def in_turn(self, *measurements, turn_s=1):
        """Measures each for `self.seconds` in short turns, after one to warm up; returns the
        turns of each. What else the machine does meanwhile meets all alike, and so does what came
        before: every other round goes backwards."""
        for measure in measurements:
            measure(1)
        turns = [[] for _ in measurements]
        for i in range(max(1, self.seconds // turn_s)):
            order = list(enumerate(measurements))
            for at, measure in reversed(order) if i % 2 else order:
                turns[at].append(measure(turn_s))
        return turns


def middle_of(turns):
    """Of results: the median of each of their figures."""
    return load.Result(*(statistics.median(getattr(turn, field.name) for turn in turns)
                         for field in dataclasses.fields(load.Result)))


def ratio(ours, theirs, figure="rate"):
    """Of what was measured in turn: the median of the turns' ratios, and the least and largest."""
    each = [getattr(one, figure) / getattr(other, figure) for one, other in zip(ours, theirs)]
    return statistics.median(each), f"ratios {min(each):.2f} … {max(each):.2f}"


def latency(result):
    return f"p50 / p99 / p99.9 {result.p50_us:.0f} / {result.p99_us:.0f} / {result.p999_us:.0f} µs"


def square(n, dtype="f32"):
    return f"/gemm?m={n}&n={n}&k={n}" + ("" if dtype == "f32" else f"&dtype={dtype}")


def check(server, target, body):
    """What is measured must be a product: checked once by the daemon's own arithmetic check."""
    request = urllib.request.Request(f"http://{server.address}{target}&verify=freivalds",
                                     data=open(body, "rb").read())
    with urllib.request.urlopen(request, timeout=60) as answer:
        answer.read()
        if not answer.headers["Gemmd-Verify"].startswith("pass"):
            raise RuntimeError("a wrong product")


def against_alone(bench, what, n, connections, buffer_bytes, target, turn_s=1):
    body = bodies.product(bench.folder, "f32", n, n, n)
    with bench.gemmd("--pinned-bytes", "4G") as own, \
            bench.alone(connections, buffer_bytes, 2 * n * n * 4, n * n * 4) as alone:
        check(own, square(n), body)
        cpu_us = {own: [], alone: []}

        def run(server, path, seconds):
            before = server.cpu_seconds()
            result = load.wrk(server.address, path, body, connections, seconds)
            used = server.cpu_seconds() - before
            cpu_us[server].append(used / result.requests * 1e6)
            return result

        ours, theirs = bench.in_turn(lambda s: run(own, square(n), s),
                                     lambda s: run(alone, "/", s), turn_s=turn_s)
    share, spread = ratio(ours, theirs)
    mine, other = middle_of(ours), middle_of(theirs)
    rows = [(f"{what}, {connections} connections", f"{mine.rate:,.0f}/s",
             f"{other.rate:,.0f}/s (libmicrohttpd alone)", share, target,
             f"{spread}; {latency(mine)}; alone {latency(other)}")]
    return rows, mine, [statistics.median(cpu_us[server][1:]) for server in (own, alone)]


def small(bench):
    """f32 64³ over 128 connections; CPU time a request."""
    rows, ours, (own_us, alone_us) = against_alone(bench, "f32 64³", 64, 128, 49152,
                                                   0.95 if bench.backend == "cuda" else 0.5)
    bench.peak = ours.rate
    rows.append(("CPU time of the daemon per f32 64³", f"{own_us:.1f} µs",
                 f"{alone_us:.1f} µs (libmicrohttpd alone)", None, "≤ 28 µs", ""))
    return rows


def check_answer(server, target, body, expected):
    """An answer that is measured must be right: compared once with NumPy's."""
    request = urllib.request.Request(f"http://{server.address}{target}", data=body)
    with urllib.request.urlopen(request, timeout=60) as answer:
        got = np.frombuffer(answer.read(), np.float32).reshape(expected.shape)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def small_rows(bench):
    """Reductions and softmaxes of f32 64×64, beside products of f32 64³, over 128 connections."""
    x = np.frombuffer(bodies.operands("f32", 64 * 64), np.float32).reshape(64, 64)
    exponentials = np.exp(x.astype(np.float64))
    operations = {
        "sum of rows": ("/reduce?op=sum&shape=64,64&axis=1", x.sum(1, np.float64)),
        "sum of columns": ("/reduce?op=sum&shape=64,64&axis=0", x.sum(0, np.float64)),
        "softmax": ("/softmax?shape=64,64", exponentials / exponentials.sum(1, keepdims=True)),
    }
    body = bodies.write(bench.folder, "64x64", x.tobytes())
    factors = bodies.product(bench.folder, "f32", 64, 64, 64)
    with bench.gemmd("--pinned-bytes", "4G") as own:
        check(own, square(64), factors)
        for target, expected in operations.values():
            check_answer(own, target, x.tobytes(), expected)

        def measure(target, file):
            return lambda seconds: load.wrk(own.address, target, file, 128, seconds)

        products, *others = bench.in_turn(
            measure(square(64), factors),
            *(measure(target, body) for target, _ in operations.values()))
    rows = []
    for name, turns in zip(operations, others):
        share, spread = ratio(turns, products)
        rows.append((f"f32 64×64, {name}, 128 connections", f"{middle_of(turns).rate:,.0f}/s",
                     f"{middle_of(products).rate:,.0f}/s (f32 64³)", share, 1.0,
                     f"{spread}; {latency(middle_of(turns))}"))
    return rows


def today(bench):
    """The same through aiohttp and PyTorch or NumPy."""
    if importlib.util.find_spec("aiohttp") is None:
        return [("f32 64³ through aiohttp", "", "not measured: no aiohttp here", None, "", "")]
    library = "PyTorch" if importlib.util.find_spec("torch") else "NumPy"
    body = bodies.product(bench.folder, "f32", 64, 64, 64)
    script = os.path.join(os.path.dirname(__file__), "aiohttp_torch.py")
    with bench.gemmd() as own, Server([sys.executable, script], bench.log("aiohttp")) as theirs:
        ours, others = bench.in_turn(
            lambda s: load.wrk(own.address, square(64), body, 128, s),
            lambda s: load.wrk(theirs.address, "/?n=64", body, 128, s))
    share, spread = ratio(ours, others)
    mine, other = middle_of(ours), middle_of(others)
    return [("f32 64³, 128 connections", f"{mine.rate:,.0f}/s",
             f"{other.rate:,.0f}/s (aiohttp + {library})", share,
             60 if bench.backend == "cuda" else "", f"{spread}; theirs {latency(other)}")]


def one_client(bench):
    """One request at a time, over TCP and over a Unix socket."""
    body = bodies.product(bench.folder, "f32", 64, 64, 64)
    program = bench.program("gemmd-bench-one-client")
    with bench.gemmd() as own, bench.alone(1, 49152, 2 * 64 * 64 * 4, 64 * 64 * 4) as alone:
        tcp, unix, theirs = bench.in_turn(
            lambda s: load.one_client(program, own.address, square(64), body, s),
            lambda s: load.one_client(program, own.unix, square(64), body, s),
            lambda s: load.one_client(program, alone.address, "/", body, s))
    tcp, unix, theirs = (middle_of(turns) for turns in (tcp, unix, theirs))
    beside = f"{theirs.p50_us:.0f} µs (libmicrohttpd alone, TCP)"
    return [("f32 64³, one client, TCP, p50", f"{tcp.p50_us:.1f} µs", beside, None, "≤ 50 µs",
             latency(tcp)),
            ("f32 64³, one client, Unix socket, p50", f"{unix.p50_us:.1f} µs", beside, None,
             "≤ 50 µs", latency(unix))]


def inference(n):
    """The head of an f32 product's inference with binary tensors, and its headers."""
    inputs = [{"name": name, "shape": [n, n], "datatype": "FP32",
               "parameters": {"binary_data_size": 4 * n * n}} for name in ("A", "B")]
    text = json.dumps({"inputs": inputs,
                       "outputs": [{"name": "C", "parameters": {"binary_data": True}}]}).encode()
    return text, {"Inference-Header-Content-Length": str(len(text))}


def infer(bench):
    """The inference protocol with binary tensors next to /gemm: 128 connections, and one."""
    operands = bodies.operands("f32", 2 * 64 * 64)
    text, headers = inference(64)
    raw = bodies.write(bench.folder, "raw", operands)
    wrapped = bodies.write(bench.folder, "infer", text + operands)
    with bench.gemmd("--pinned-bytes", "4G") as own:
        check(own, square(64), raw)

        def measure(target, file, connections, headers=None):
            return lambda s: load.wrk(own.address, target, file, connections, s, headers)

        path = "/v2/models/gemm_fp32/infer"
        many, products, one, product = bench.in_turn(
            measure(path, wrapped, 128, headers), measure(square(64), raw, 128),
            measure(path, wrapped, 1, headers), measure(square(64), raw, 1))
    share, spread = ratio(many, products)
    return [("f32 64³ by infer, 128 connections", f"{middle_of(many).rate:,.0f}/s",
             f"{middle_of(products).rate:,.0f}/s (/gemm)", share, 0.8,
             f"{spread}; {latency(middle_of(many))}"),
            ("f32 64³ by infer, one client, p50", f"{middle_of(one).p50_us:.1f} µs",
             f"{middle_of(product).p50_us:.1f} µs (/gemm)", None, "≤ 65 µs", latency(middle_of(one)))]


def mixed(bench):
    """All dtypes, sides 16 ... 256, shuffled."""
    own_list, alone_list = bodies.mixed(bench.folder, 384)
    with bench.gemmd("--pinned-bytes", "4G") as own, \
            bench.alone(128, 49152, 2 * 256 * 256 * 8, 256 * 256 * 8) as alone:
        ours, theirs = bench.in_turn(
            lambda s: load.wrk_list(own.address, own_list, 128, s),
            lambda s: load.wrk_list(alone.address, alone_list, 128, s))
    share, spread = ratio(ours, theirs)
    mine, other = middle_of(ours), middle_of(theirs)
    return [("sides 16 … 256, all dtypes, 128 connections", f"{mine.rate:,.0f}/s",
             f"{other.rate:,.0f}/s (libmicrohttpd alone)", share, 1.0,
             f"{spread}; {latency(mine)}")]


def middle(bench):
    return against_alone(bench, "f32 1024³", 1024, 16, 262144, 0.95)[0]


def large(bench):
    n = 4096 if bench.backend == "cuda" else 2048
    return against_alone(bench, f"f32 {n}³", n, 8, 1048576, 0.93, turn_s=3)[0]


def put_tensor(server, name, dtype, shape):
    """Uploads a random resident tensor."""
    shape_text = ",".join(str(side) for side in shape)
    request = urllib.request.Request(
        f"http://{server.address}/tensors/{name}?dtype={dtype}&shape={shape_text}", method="PUT",
        data=bodies.operands(dtype, int(np.prod(shape))),
        headers={"Content-Type": "application/octet-stream"})
    urllib.request.urlopen(request, timeout=60).close()


def resident(bench):
    """One row times a resident matrix, from many clients."""
    n = 4096 if bench.backend == "cuda" else 512
    body = bodies.write(bench.folder, "row", bodies.operands("bf16", n))
    target = f"/gemm?m=1&n={n}&k={n}&dtype=bf16&b=weights"
    with bench.gemmd() as own, bench.alone(256, 49152, 2 * n, 2 * n) as alone:
        put_tensor(own, "weights", "bf16", (n, n))
        ours, theirs = bench.in_turn(
            lambda s: load.wrk(own.address, target, body, 256, s),
            lambda s: load.wrk(alone.address, "/", body, 256, s))
    share, spread = ratio(ours, theirs)
    mine, other = middle_of(ours), middle_of(theirs)
    return [(f"one bf16 row × resident {n}×{n}, 256 connections", f"{mine.rate:,.0f}/s",
             f"{other.rate:,.0f}/s (libmicrohttpd alone)", share,
             "≥ 300,000/s" if bench.backend == "cuda" else "", f"{spread}; {latency(mine)}")]


def server_timing(connection, request):
    """Sends one request over a socket; returns its Server-Timing as {stage: ms}."""
    connection.sendall(request)
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += connection.recv(65536)
    head, _, rest = answer.partition(b"\r\n\r\n")
    lines = {line.split(b":")[0].strip().lower(): line.split(b":", 1)[1].strip()
             for line in head.split(b"\r\n")[1:]}
    left = int(lines[b"content-length"]) - len(rest)
    while left > 0:
        left -= len(connection.recv(min(left, 1 << 20)))
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(head.decode())
    stages = (stage.split(";dur=") for stage in lines[b"server-timing"].decode().split(","))
    return {name.strip(): float(ms) for name, ms in stages}


def idle_device(bench):
    """From a request's arrival to its launch; start to ready; the first request."""
    body = open(bodies.product(bench.folder, "f32", 64, 64, 64), "rb").read()
    request = (f"POST {square(64)} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
               .encode() + body)
    with bench.gemmd() as own:
        host, port = own.address.split(":")

        def on_a_connection(count):
            with socket.create_connection((host, int(port))) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return [server_timing(connection, request) for _ in range(count)]

        timings = on_a_connection(2000)
        rested = []
        for _ in range(9):  # threads asleep and a connection of its own, as for the first
            time.sleep(0.3)
            rested += on_a_connection(1)
        started_s = own.started_s
    first, later = timings[0], timings[999:]
    queue_us = statistics.median(timing["queue"] for timing in later) * 1e3
    total_us = statistics.median(timing["total"] for timing in later) * 1e3
    rested_us = statistics.median(timing["total"] for timing in rested) * 1e3
    return [("arrival to launch on an idle device, median", f"{queue_us:.1f} µs", "", None,
             "≤ 15 µs", ""),
            ("start to ready", f"{started_s:.2f} s", "", None,
             "≤ 2.5 s" if bench.backend == "cuda" else "", ""),
            ("first request, received to answered", f"{first['total'] * 1e3:.0f} µs",
             f"{rested_us:.0f} µs (later ones, each after 0.3 s of rest on a new connection)", None,
             "as fast", f"{total_us:.0f} µs the 1,000th on, without rest")]


def overload(bench):
    """Three times what the device can do: products of resident operands, so that neither bodies
    nor answers are what is short."""
    n = 2048 if bench.backend == "cuda" else 512
    empty = bodies.write(bench.folder, "empty", b"")
    target = f"/gemm?m={n}&n={n}&k={n}&a=left&b=right&kernel=tiled&store=out"
    # Each of the 64 has a result to keep.
    with bench.gemmd("--queue-requests", "64", "--tensor-bytes", "2G") as own:
        put_tensor(own, "left", "f32", (n, n))
        put_tensor(own, "right", "f32", (n, n))
        program = bench.program("gemmd-bench-paced")
        capacity = load.wrk(own.address, target, empty, 16, bench.single).rate
        # What is touched for the first time is not growth: on the CPU results are kept in memory of
        # the daemon's.
        load.paced(program, own.address, target, empty, 512, 3 * capacity, 1)
        before_bytes = own.resident_bytes()
        seconds = 2 * bench.single
        over = load.paced(program, own.address, target, empty, 512, 3 * capacity, seconds)
        after_bytes = own.resident_bytes()
    goodput = over.good[0] / seconds
    grown = (after_bytes - before_bytes) / 2**20
    return [(f"3× overload, f32 {n}³ of resident operands: goodput", f"{goodput:,.0f}/s",
             f"{capacity:,.0f}/s (peak)", goodput / capacity, 0.98,
             f"sent {over.sent / seconds:,.0f}/s: {over.good[0]} good, {over.refused[0]} refused, "
             f"{over.other[0]} otherwise, {over.broken} broken"),
            ("3× overload: refusals, p99", f"{over.refused[2] / 1e3:.2f} ms", "", None, "≤ 5 ms",
             f"p50 {over.refused[1] / 1e3:.2f} ms"),
            ("3× overload: resident memory", f"{grown:+.1f} MiB", "", None, "flat", "")]


def idle_connections(bench):
    """4,096 connections that say nothing, beside requests at a fifth of the rate that is
    possible: as fast as possible, p99 is of what waits for a core, and varies fourfold."""
    body = bodies.product(bench.folder, "f32", 64, 64, 64)
    count = 4096
    options = ("--max-connections", "8192", "--max-connections-per-address", "8192",
               "--idle-timeout", "600s")
    program = bench.program("gemmd-bench-paced")

    def at_ease(address, rate, seconds):
        run = load.paced(program, address, square(64), body, 32, rate, seconds)
        if run.good[0] != run.sent:
            raise load.Broken(f"{run.sent - run.good[0]} answers were not 200")
        return load.Result(run.good[0] / seconds, *run.good[1:])

    with bench.gemmd(*options) as own, bench.gemmd(*options) as without:
        rate = load.wrk(own.address, square(64), body, 32, bench.single).rate / 5
        before_bytes = own.resident_bytes()
        host, port = own.address.split(":")
        idle = []
        try:
            for _ in range(count):
                idle.append(socket.create_connection((host, int(port))))
                idle[-1].sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
                idle[-1].recv(4096)
            each_kib = (own.resident_bytes() - before_bytes) / count / 1024
            beside, alone = bench.in_turn(lambda s: at_ease(own.address, rate, s),
                                          lambda s: at_ease(without.address, rate, s))
        finally:
            for connection in idle:
                connection.close()
    share, spread = ratio(beside, alone, "p99_us")
    return [(f"{count:,} idle connections: p99 of the others", f"{middle_of(beside).p99_us:.0f} µs",
             f"{middle_of(alone).p99_us:.0f} µs (without)", share, "≤ 1.10",
             f"{rate:,.0f} requests/s; {spread}"),
            ("an idle connection's memory", f"{each_kib:.1f} KiB", "", None, "≤ 64 KiB", "")]


def curve(bench):
    """Latency against load, for the plot."""
    body = bodies.product(bench.folder, "f32", 64, 64, 64)
    peak = getattr(bench, "peak", None)
    with bench.gemmd() as own:
        if peak is None:
            peak = load.wrk(own.address, square(64), body, 128, bench.single).rate
        for share in (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9):
            run = load.paced(bench.program("gemmd-bench-paced"), own.address, square(64), body,
                             128, share * peak, 2)
            if run.good[0] != run.sent:
                raise load.Broken(f"{run.sent - run.good[0]} answers were not 200")
            bench.points.append((share * peak, run.good[0] / 2, *run.good[1:]))
    return []


def openblas(bench):
    """A large product on the CPU, next to a direct call of the same library."""
    if bench.backend != "cpu":
        return []
    n, runs = 2048, 9
    body = bodies.product(bench.folder, "f32", n, n, n)
    both = np.fromfile(body, np.float32).reshape(2, n, n)
    c = np.empty((n, n), np.float32)

    def pointer(array):
        return array.ctypes.data_as(ctypes.c_void_p)

    def direct():
        began = time.perf_counter()
        library.cblas_sgemm(101, 111, 111, n, n, n, ctypes.c_float(1), pointer(both[0]), n,
                            pointer(both[1]), n, ctypes.c_float(0), pointer(c), n)
        return (time.perf_counter() - began) * 1e3

    raw = open(body, "rb").read()
    request = (f"POST {square(n)} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(raw)}\r\n\r\n"
               .encode() + raw)
    with bench.gemmd() as own:
        # The same code for the same CPU ("... NO_AFFINITY Haswell MAX_THREADS=64").
        os.environ["OPENBLAS_CORETYPE"] = info_of(own)["build"]["library"].split()[-2]
        library = ctypes.CDLL("libopenblas.so.0")
        host, port = own.address.split(":")
        with socket.create_connection((host, int(port))) as connection:
            server_timing(connection, request)
            direct()
            times = [(server_timing(connection, request)["kernel"], direct()) for _ in range(runs)]
    ours, theirs = (statistics.median(column) for column in zip(*times))
    return [(f"f32 {n}³ on the CPU", f"{ours:.1f} ms", f"{theirs:.1f} ms (OpenBLAS called)",
             theirs / ours, 0.95, "")]


ROWS = {function.__name__: function
        for function in (small, small_rows, today, one_client, infer, mixed, middle, large, resident,
                         idle_device, overload, idle_connections, openblas, curve)}


def info_of(server):
    with urllib.request.urlopen(f"http://{server.address}/info", timeout=10) as answer:
        return json.load(answer)


def backend_of(bench):
    """What `auto` turns out to be, and the daemon's description of itself."""
    with bench.gemmd() as own:
        return info_of(own)
