#!/usr/bin/env python3
"""Products over TLS next to products over plain TCP: rate, latency and CPU time.

Bare servers, which receive a request and send a result of the same lengths and compute nothing, are measured with the
same clients, so that a reader sees which part of the difference TLS itself makes.

Usage: tests/bench/tls.py [--gemmd FILE] [--backend auto|cuda|cpu] [--n 1024] [--clients 1,4,16]
                          [--seconds 1] [--turns 5] [--cert FILE --key FILE] [--out FOLDER] [-- OPTION...]

Two daemons run on this machine, one of them with a certificate, and two bare servers. A bare server is Python with
OpenSSL, and has a process for each connection. Clients send f32 products n x n by n x n with both operands in the
body. Each client is a process with one connection, and sends the next request when it has read the result. The
daemons and the servers are measured in turns, and the ratio is the median of the ratios of the turns. The clients
encrypt on the same cores as the servers. The results over TLS and over plain TCP are compared first. OPTIONs go to
both daemons. The defaults take about two minutes. The script needs the openssl command, unless --cert and --key name
the files of a certificate, and no Python package.
"""

import argparse
import contextlib
import datetime
import multiprocessing
import os
import random
import re
import socket
import ssl
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def certificate(folder):
    """The files of a new certificate for 127.0.0.1 and of its key."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    return cert, key


@contextlib.contextmanager
def running(gemmd, *arguments):
    """A daemon that listens; its process id and its port."""
    command = [gemmd, "--listen", "127.0.0.1:0", "--no-access-log", "--max-connections-per-address", "0", *arguments]
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True) as process:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if found := re.search(r"listening on 127\.0\.0\.1:(\d+)", line):
                break
        else:
            sys.exit(f"tls.py: the daemon does not start: {''.join(lines[-3:])}")
        threading.Thread(target=process.stdout.read, daemon=True).start()
        try:
            yield process.pid, int(found[1])
        finally:
            process.terminate()


def bare_connection(connection, pair, lengths):
    """A process of a bare server: receives requests and sends results of the given lengths."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if pair:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*pair)
        connection = context.wrap_socket(connection, server_side=True)
    request, result = lengths
    head = b"HTTP/1.1 200 OK\r\n\r\n"
    answer, room = head + bytes(result), memoryview(bytearray(1 << 20))
    with contextlib.suppress(ConnectionError):
        while True:
            left = request
            while left:
                if not (got := connection.recv_into(room[:min(left, len(room))])):
                    return
                left -= got
            connection.sendall(answer)


def bare_accept(listener, pair, lengths):
    while True:
        connection, _ = listener.accept()
        multiprocessing.Process(target=bare_connection, args=(connection, pair, lengths)).start()
        connection.close()


@contextlib.contextmanager
def bare(pair, lengths):
    """A bare server; None in the place of its process id, and its port."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        process = multiprocessing.Process(target=bare_accept, args=(listener, pair, lengths))
        process.start()
        try:
            yield None, listener.getsockname()[1]
        finally:
            process.terminate()


def request_of(n, body):
    return (f"POST /gemm?m={n}&n={n}&k={n} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/octet-stream\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


class Client:
    """One connection; `cert` is the certificate to trust, or None for plain TCP."""

    def __init__(self, port, cert, n, body):
        self.n = n
        self.request = request_of(n, body)
        self.result = bytearray(4 * n * n)
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if cert:
            context = ssl.create_default_context(cafile=str(cert))
            context.check_hostname = False
            self.socket = context.wrap_socket(self.socket)

    def product(self):
        """Sends one request and reads its result."""
        self.socket.sendall(self.request)
        head = b""
        while b"\r\n\r\n" not in head:
            if not (got := self.socket.recv(1 << 16)):
                raise ConnectionError("the daemon has closed the connection")
            head += got
        head, _, first = head.partition(b"\r\n\r\n")
        if b" 200 " not in head.split(b"\r\n", 1)[0]:
            raise ConnectionError(head.decode("latin-1"))
        self.result[:len(first)] = first
        view, at = memoryview(self.result), len(first)
        while at < len(view):
            if not (got := self.socket.recv_into(view[at:])):
                raise ConnectionError("the daemon has closed the connection")
            at += got


def load(pipe, barrier, arguments, seconds):
    """A client's process: sends (requests, seconds of each) of one measurement."""
    client = Client(*arguments)
    client.product()
    barrier.wait()
    end, times = time.monotonic() + seconds, []
    while (begun := time.monotonic()) < end:
        client.product()
        times.append(time.monotonic() - begun)
    pipe.send(times)


def cpu_s(pid):
    if pid is None:  # a bare server
        return 0
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(daemon, cert, options, clients, body):
    """(rate, median latency in s, CPU time of the daemon a request in s) of one turn."""
    pid, port = daemon
    barrier = multiprocessing.Barrier(clients + 1)
    ends, processes = [], []
    for _ in range(clients):
        end, other = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.Process(target=load, args=(other, barrier, (port, cert, options.n, body),
                                                             options.seconds))
        process.start()
        other.close()
        ends.append(end)
        processes.append(process)
    barrier.wait(60)
    begun, cpu = time.monotonic(), cpu_s(pid)
    times = [one for end in ends for one in end.recv()]
    took, cpu = time.monotonic() - begun, cpu_s(pid) - cpu
    for process in processes:
        process.join()
    return len(times) / took, statistics.median(times), cpu / len(times)


def compare(port, tls_port, cert, n, body):
    """Ends the program if the two daemons give different bytes. Returns the cipher."""
    plain, encrypted = Client(port, None, n, body), Client(tls_port, cert, n, body)
    plain.product()
    encrypted.product()
    if plain.result != encrypted.result:
        sys.exit("tls.py: the results over TLS and over plain TCP differ")
    cipher, version, _ = encrypted.socket.cipher()
    return f"{version}, {cipher}"


def device():
    """The GPU, or else the processor, and the number of cores."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        listed = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True,
                                text=True, check=True, timeout=60).stdout
        return listed.split("\n")[0].strip().removeprefix("NVIDIA ")
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(errors="replace"), re.MULTILINE)
    return found[1].strip() if found else "unknown processor"


def operands_of(n):
    values = [random.Random(1).uniform(-1, 1) for _ in range(997)]
    count = 2 * n * n
    return struct.pack(f"<{count}f", *(values[i % 997] for i in range(count)))


def table(options, servers, cert, body):
    """The lines of the table; `servers` are the daemon and the bare server, each without and with TLS."""
    cipher = compare(servers[0][1], servers[1][1], cert, options.n, body)
    version = subprocess.run([options.gemmd, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    yield f"# f32 {options.n}³ over TLS next to plain TCP, {device()}, {len(os.sched_getaffinity(0))} cores, {now}\n"
    yield (f"{version}. {cipher}. Medians of {options.turns} turns of {options.seconds:g} s; the clients encrypt on "
           "the same cores. A bare server receives the bytes of a request, sends those of a result and computes "
           f"nothing. Load average of the machine before: {os.getloadavg()[0]:.2f}.\n")
    yield ("| clients | plain, requests/s | TLS, requests/s | ratio (of single turns) | plain p50 | TLS p50 | "
           "daemon's CPU time a request, plain | TLS | bare plain, requests/s | bare TLS, requests/s | ratio | "
           "bare plain p50 | bare TLS p50 |")
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    for clients in options.clients:
        turns = [[measure(server, given, options, clients, body)
                  for server, given in zip(servers, (None, cert, None, cert))] for _ in range(options.turns)]
        ratios = sorted(turn[1][0] / turn[0][0] for turn in turns)
        (rate, p50, cpu), (tls_rate, tls_p50, tls_cpu), (bare_rate, bare_p50, _), (bare_tls_rate, bare_tls_p50, _) = (
            [statistics.median(turn[which][column] for turn in turns) for column in range(3)] for which in range(4))
        bare_ratio = statistics.median(turn[3][0] / turn[2][0] for turn in turns)
        yield (f"| {clients} | {rate:.1f} | {tls_rate:.1f} | {statistics.median(ratios):.2f} ({ratios[0]:.2f} to "
               f"{ratios[-1]:.2f}) | {p50 * 1e3:.2f} ms | {tls_p50 * 1e3:.2f} ms | {cpu * 1e3:.2f} ms | "
               f"{tls_cpu * 1e3:.2f} ms | {bare_rate:.1f} | {bare_tls_rate:.1f} | {bare_ratio:.2f} | "
               f"{bare_p50 * 1e3:.2f} ms | {bare_tls_p50 * 1e3:.2f} ms |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--gemmd", type=Path, default=ROOT / "build/bin/gemmd")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--n", type=int, default=1024)
    parser.add_argument("--clients", type=lambda text: list(map(int, text.split(","))), default=[1, 4, 16])
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--cert", type=Path, help="of the daemon, with --key (default: made with openssl)")
    parser.add_argument("--key", type=Path)
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where to write the table as tls-….md")
    parser.add_argument("options", nargs="*", help="options of both daemons, after --")
    options = parser.parse_args()
    if (options.cert is None) != (options.key is None):
        parser.error("--cert and --key are given together")
    with tempfile.TemporaryDirectory() as folder:
        cert, key = (options.cert, options.key) if options.cert else certificate(Path(folder))
        common = ("--backend", options.backend, *options.options)
        body = operands_of(options.n)
        lengths = len(request_of(options.n, body)), 4 * options.n * options.n
        with running(options.gemmd, *common) as plain, \
                running(options.gemmd, *common, "--tls-cert", cert, "--tls-key", key) as encrypted, \
                bare(None, lengths) as bare_plain, bare((cert, key), lengths) as bare_tls:
            lines = []
            for line in table(options, (plain, encrypted, bare_plain, bare_tls), cert, body):
                print(line, flush=True)
                lines.append(line + "\n")
    if options.out:
        name = re.sub(r"[^a-z0-9-]", "", device().lower().replace(" ", "-"))
        stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d-%H%M")
        (options.out / f"tls-{stamp}-{name}.md").write_text("".join(lines))


if __name__ == "__main__":
    main()
