"""gemmctl with a server that is no gemmd: canned refusals, one that never answers, one behind TLS."""

import contextlib
import http.server
import json
import os
import signal
import socket
import ssl
import subprocess
import threading

import numpy as np
import pytest

from daemon import PATIENCE_S
from test_formats import npy


@pytest.fixture
def files(tmp_path):
    for name in ("A.npy", "B.npy"):
        (tmp_path / name).write_bytes(npy(np.ones((4, 4), np.float32)))
    return ["A.npy", "B.npy"]


@contextlib.contextmanager
def serving(handler):
    """A server whose requests a class answers; gives its URL."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def serve(*answers):
    """A server that gives the answers in turn, each a status, a body and headers, and then the last one again and
    again; gives its URL."""
    left = list(answers)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, body, *headers = left.pop(0) if len(left) > 1 else left[0]
            self.send_response(status)
            for header in headers:
                self.send_header(*header)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_):
            pass

    return serving(Handler)


@pytest.mark.parametrize("status, problem, code", [
    (401, {"type": "x/unauthorized", "detail": "no token"}, 1),
    (422, {"type": "x/unsupported", "detail": "not here"}, 1),
    (500, {"type": "x/internal", "detail": "a fault"}, 1),
    (200, {"no": "result"}, 1),
    (429, {"type": "x/queue-full", "detail": "full"}, 3),
    (503, {"type": "x/draining", "detail": "going down"}, 3),
    (503, None, 3),
    (504, {"type": "x/deadline", "detail": "too late"}, 4),
    (502, None, 4),
    (500, {"type": "x/internal", "detail": "wrong result", "field": "verify"}, 5),
])
def test_exit_codes(status, problem, code, gemmctl, files, tmp_path):
    body = b"<html>" if problem is None else json.dumps(problem).encode()
    with serve((status, body)) as url:
        result = subprocess.run([gemmctl, "gemm", *files, "-o", "C.npy", "--retries", "0", "--url",
                                 url], cwd=tmp_path, capture_output=True, timeout=PATIENCE_S,
                                check=False)
    assert result.returncode == code, result.stderr
    if problem and "detail" in problem:
        assert problem["detail"] in result.stderr.decode()
    assert sorted(os.listdir(tmp_path)) == ["A.npy", "B.npy"], "nothing is left behind"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt(number, gemmctl, files, tmp_path):
    """The request ends on both sides, and no half of a file stays."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_S)
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with subprocess.Popen([gemmctl, "gemm", *files, "-o", "C.npy", "--url", url], cwd=tmp_path,
                              stderr=subprocess.PIPE) as process:
            connection, _ = server.accept()
            connection.settimeout(PATIENCE_S)
            with connection:
                assert connection.recv(4) == b"POST"
                process.send_signal(number)
                while connection.recv(65536):
                    pass
            said = process.communicate(timeout=PATIENCE_S)[1]
    assert process.returncode == 130
    assert b"interrupted; the request was cancelled" in said
    assert sorted(os.listdir(tmp_path)) == ["A.npy", "B.npy"]


@pytest.mark.parametrize("options, repeats", [([], 4), (["--retries", "1"], 1)])
def test_repeats_of_a_refused_wait(options, repeats, gemmctl, tmp_path):
    """The command waits with HEAD, and asks for the state of the job with GET."""
    refused = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self):
            refused.append(self.command)
            self.send_response(503)
            self.send_header("Retry-After", "0")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_HEAD

        def log_message(self, *_):
            pass

    with serving(Handler) as url:
        result = subprocess.run([gemmctl, "job", "wait", "0" * 32, *options, "--url", url], cwd=tmp_path,
                                capture_output=True, timeout=PATIENCE_S, check=False)
    assert result.returncode == 3, result.stderr
    assert refused == ["HEAD"] * (1 + repeats) + ["GET"] * (1 + repeats)


def test_time_runs_out(gemmctl, files, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        result = subprocess.run([gemmctl, "gemm", *files, "-o", "C.npy", "--timeout", "200ms",
                                 "--url", url], cwd=tmp_path, capture_output=True,
                                timeout=PATIENCE_S, check=False)
    assert result.returncode == 4
    assert b"200 ms" in result.stderr


def pump(source, target):
    """Copies until one side ends, and then ends the other."""
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for side in (source, target):
        with contextlib.suppress(OSError):
            side.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def tls_front(backend, certificate, key):
    """Ends TLS in front of a daemon, as a proxy would; gives its URL."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def forward(plain):
        with contextlib.suppress(OSError), context.wrap_socket(plain, server_side=True) as front, \
                socket.create_connection(backend) as back:
            thread = threading.Thread(target=pump, args=(back, front))
            thread.start()
            pump(front, back)
            thread.join()

    def accept(server):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=forward, args=server.accept()[:1]).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=accept, args=(server,))
        thread.start()
        try:
            yield f"https://localhost:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_https(gemmctl, address, files, tmp_path):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "key.pem", "-out",
                    "cert.pem", "-days", "1", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=DNS:localhost"], cwd=tmp_path, check=True, capture_output=True)
    command = [gemmctl, "gemm", *files, "-o", "C.npy", "--retries", "0"]
    with tls_front(address, tmp_path / "cert.pem", tmp_path / "key.pem") as front:
        result = subprocess.run([*command, "--url", front], cwd=tmp_path, capture_output=True,
                                timeout=PATIENCE_S, check=False)
        assert result.returncode == 4
        assert b"not trusted" in result.stderr
        assert not (tmp_path / "C.npy").exists()
        subprocess.run([*command, "--url", front, "--ca-file", "cert.pem"], cwd=tmp_path,
                       check=True, timeout=PATIENCE_S)
    assert np.array_equal(np.load(tmp_path / "C.npy"), np.full((4, 4), 4, np.float32))


def test_bench_counts_errors_by_their_code(gemmctl):
    """The first request warms up and counts nowhere."""
    result = (200, bytes(4 * 4 * 4), ("Gemmd-Shape", "4,4"), ("Gemmd-Dtype", "f32"))
    refusals = [json.dumps({"type": f"x/{code}", "detail": "no"}).encode() for code in ("too-large", "internal")]
    with serve(result, (413, refusals[0]), result, (413, refusals[0]), (500, refusals[1])) as url:
        ran = subprocess.run([gemmctl, "bench", "-m4", "-n4", "-k4", "--requests=4", "--connections=1", "--retries=0",
                              "--json", "--url", url], capture_output=True, timeout=PATIENCE_S, check=False)
    report = json.loads(ran.stdout)
    assert (ran.returncode, report.get("requests")) == (1, 1), ran
    assert report["errors"] == {"TOO_LARGE": 2, "INTERNAL": 1}


def test_info_of_a_list_of_objects(gemmctl):
    """Empty lines are between the objects, and the values that are neither lists nor objects come first."""
    info = {"devices": [{"index": 0}, {"index": 1}, {"index": 2}], "version": "1"}
    with serve((200, json.dumps(info).encode())) as url:
        ran = subprocess.run([gemmctl, "info", "--url", url], capture_output=True, text=True, timeout=PATIENCE_S,
                             check=True)
    lines = [" ".join(line.split()) for line in ran.stdout.splitlines()]
    assert lines[lines.index("devices") - 1:] == ["", "devices", "index 0", "", "index 1", "", "index 2"]
