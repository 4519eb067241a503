"""What a server says never reaches the terminal as control characters, whichever command prints it."""

import http.server
import json
import os
import pty
import re
import subprocess
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
import safetensors.numpy

from daemon import PATIENCE_S
from test_formats import npy
from test_gemmctl_elsewhere import serving

# A title, a clear, a colour by C1, DEL, C1 as UTF-8; and what is no control character. C1 alone is not UTF-8.
SAID = "a\x1b]0;owned\x07\x1b[2J\r\x7f\x9b31m\x85é"
IN_A_HEADER = b"a\x1b]0;owned\x07\x1b[2J\x7f\xc2\x9b31m\x9b"
SIZES = {"f16": 2, "bf16": 2, "f32": 4}
JOB = {"id": "abc", "state": "running", "op": SAID, "created": SAID, "expires": SAID, "request_id": SAID}
TENSOR = {"name": SAID, "dtype": "f32", "shape": [2, 2], "bytes": 16, "etag": SAID, "evictable": True}
SEQUENCE = {"name": SAID, "dtype": "f32", "kv_heads": 1, "d": 2, "dv": 2, "layers": 1, "length": 3, "lengths": [3],
            "etag": SAID, "memory_bytes": 4096}
INFO = {"version": SAID, SAID: [SAID, {SAID: SAID}], "uptime_seconds": 1, "limits": {SAID: {SAID: SAID}},
        "devices": [{"index": 0, "name": SAID, SAID: SAID}],
        "kernels": [{"name": "naive", "op": "gemm", "dtypes": {"f32": {}}},
                    {"name": SAID, "op": f"{SAID[:9]}", "dtypes": {"f32": {}}}]}
METRICS = (f"# HELP gemmd_ready {SAID}\ngemmd_ready 1\n"
           f'gemmd_requests_total{{op="{SAID[:9]}",code="200"}} 7\n').replace("\r", "")


class Friendly(http.server.BaseHTTPRequestHandler):
    """Answers every request as a daemon does, but for the names."""

    protocol_version = "HTTP/1.1"

    def answer(self, status, body, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        for name in (b"X-Request-Id", b"Gemmd-Kernel"):
            self._headers_buffer.append(name + b": " + IN_A_HEADER + b"\r\n")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def document(self, value, status=200):
        self.answer(status, json.dumps(value).encode(), Content_Type="application/json")

    def array(self, shape, dtype, file=None):
        self.answer(200, file or bytes(int(np.prod(shape)) * SIZES[dtype]), Gemmd_Dtype=dtype,
                    Gemmd_Shape=",".join(map(str, shape)),
                    Content_Type=f"application/{'vnd.safetensors' if file else 'octet-stream'}")

    def do_GET(self):
        path = urlsplit(self.path).path
        if path in ("/metrics", "/readyz"):
            self.answer(200, METRICS.encode())
        elif path == "/info":
            self.document(INFO)
        elif path == "/tensors":
            self.document({"tensors": [TENSOR], "next": None})
        elif path == "/sequences":
            self.document({"sequences": [SEQUENCE], "next": None})
        elif path.endswith("/kv"):
            self.array((3, 1, 4), "f32")
        elif path.startswith("/sequences/"):
            self.document(SEQUENCE)
        elif path == "/jobs":
            self.document({"jobs": [{**JOB, "id": SAID}], "next": None})
        elif path == "/jobs/abc":
            self.document(JOB)
        elif "safetensors" in self.headers.get("Accept", ""):
            self.array((2, 2), "f32", safetensors.numpy.save({"tensor": np.ones((2, 2), np.float32)}))
        else:
            self.array((2, 2), "f32")

    do_HEAD = do_GET

    def do_DELETE(self):
        if self.path.startswith("/sequences/"):
            self.answer(204, b"")
        else:
            self.document({})

    def do_PUT(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.document(SEQUENCE if self.path.startswith("/sequences/") else {**TENSOR, "etag": ""}, 201)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        split = urlsplit(self.path)
        if split.path.startswith("/sequences/"):
            self.document(SEQUENCE)
            return
        query = {name: values[0] for name, values in parse_qs(split.query).items()}
        whole = tuple(map(int, query.get("shape", "2,2").split(",")))
        rows = int(query.get("m", 2)), int(query.get("n", 2))
        shape = {"/gemm": rows, "/experts": rows, "/reduce": whole[:-1], "/softmax": whole,
                 "/attention": (1, 1, 2, 2), "/conv2d": (1, 1, 2, 2)}[split.path]
        if "respond-async" in self.headers.get("Prefer", ""):
            self.answer(202, b"", Location="/jobs/abc")
        else:
            self.array(shape, query.get("out", query["dtype"]))

    def log_message(self, *_):
        pass


class Refusing(Friendly):
    """Refuses every request with a sentence."""

    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.document({"type": "x/unsupported", "title": SAID, "detail": SAID, "field": SAID}, 422)

    do_HEAD = do_DELETE = do_PUT = do_POST = do_GET


CASES = {
    "gemm": ["gemm A.npy A.npy -o C.npy --timing", "gemm A.npy A.npy --async"],
    "attention": ["attention Q.npy Q.npy Q.npy -o O.npy", "attention Q.npy --sequence A -o O.npy",
                  "attention Q.npy Q.npy Q.npy --sequence A --append -o O.npy"],
    "conv": ["conv Q.npy W.npy -o Y.npy"],
    "reduce": ["reduce A.npy -o Y.npy"],
    "softmax": ["softmax A.npy -o Y.npy"],
    "experts": ["experts A.npy S.npy N.npy -o C.npy"],
    "tensor put": ["tensor put A A.npy"],
    "tensor get": ["tensor get A -o T.npy"],
    "tensor ls": ["tensor ls"],
    "tensor rm": ["tensor rm A B"],
    "sequence put": ["sequence put A --kv-heads 1 --d 2"],
    "sequence fork": ["sequence fork A B"],
    "sequence append": ["sequence append A Q.npy Q.npy"],
    "sequence get": ["sequence get A Q.npy V.npy"],
    "sequence truncate": ["sequence truncate A 3"],
    "sequence ls": ["sequence ls", "sequence ls A"],
    "sequence rm": ["sequence rm A B"],
    "job ls": ["job ls"],
    "job status": ["job status abc"],
    "job wait": ["job wait abc"],
    "job result": ["job result abc -o R.npy"],
    "job cancel": ["job cancel abc"],
    "bench": ["bench -m 2 -n 2 -k 2 --requests 9"],
    "bench attention": ["bench attention --heads 1 --sq 2 --skv 2 --d 2 --requests 9"],
    "bench conv": ["bench conv --channels 1 --filters 1 --height 2 --width 2 --filter-h 1 --filter-w 1 --requests 9"],
    "bench reduce": ["bench reduce --shape 2,2 --requests 9"],
    "bench softmax": ["bench softmax --shape 2,2 --requests 9"],
    "bench experts": ["bench experts -m 2 -n 2 -k 2 --count 1 --requests 9"],
    "bench ladder": ["bench ladder -n 256"],
    "info": ["info"],
    "metrics": ["metrics"],
    "top": ["top --once --interval 10ms"],
    "ready": ["ready"],
    "ping": ["ping"],
    "version": ["version"],
}


@pytest.fixture
def files(tmp_path):
    for name, shape in (("A", (2, 2)), ("Q", (1, 1, 2, 2)), ("W", (1, 1, 1, 1)), ("S", (1, 2, 2))):
        (tmp_path / f"{name}.npy").write_bytes(npy(np.ones(shape, np.float32)))
    (tmp_path / "N.npy").write_bytes(npy(np.zeros(2, np.int32)))
    return tmp_path


def assert_visible(printed):
    text = printed.decode()  # a byte of C1 alone is no UTF-8
    found = re.search(r"[^\n\x20-\x7e\xa0-\U0010ffff]", text)
    assert found is None, f"{found[0]!r} in {text!r}"


def test_every_command_is_tested():
    table = (Path(__file__).parents[2] / "client/gemmctl/commands.c").read_text()
    assert set(re.findall(r'^    \{"([^"]+)"', table, re.M)) == {*CASES, "completion", "help"}


@pytest.mark.parametrize("form", ["", "--json"])
@pytest.mark.parametrize("command", [case for cases in CASES.values() for case in cases])
def test_names_and_headers(command, form, gemmctl, files):
    with serving(Friendly) as url:
        result = subprocess.run([gemmctl, *command.split(), *form.split(), "--url", url], cwd=files,
                                capture_output=True, timeout=PATIENCE_S, check=False)
    assert result.returncode == 0 or command.startswith("job wait"), result.stderr
    if form:
        assert json.loads(result.stdout)["version"] >= 2, "the document is there although a header is not UTF-8"
    assert_visible(result.stdout)
    assert_visible(result.stderr)


@pytest.mark.parametrize("form", ["", "--json"])
@pytest.mark.parametrize("command", [case for cases in CASES.values() for case in cases])
def test_sentences(command, form, gemmctl, files):
    with serving(Refusing) as url:
        result = subprocess.run([gemmctl, *command.split(), *form.split(), "--url", url], cwd=files,
                                capture_output=True, timeout=PATIENCE_S, check=False)
    assert result.returncode == 1
    assert rb"a\x1b]0;owned\x07" in result.stderr
    assert_visible(result.stdout)
    assert_visible(result.stderr)


@pytest.mark.parametrize("command", ["info", "tensor ls", "job ls", "top", "gemm A.npy A.npy -o C.npy"])
@pytest.mark.parametrize("handler", [Friendly, Refusing])
def test_on_a_terminal(command, handler, gemmctl, files):
    """Only gemmctl's own sequences: colours, and those of the view and of the line of progress."""
    own, seen = rb"\x1b\[(\d*(;\d+)?m|[HJK]|\?(1049|25)[hl])|\r", b""
    with serving(handler) as url:
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(files)
            os.execve(gemmctl, [gemmctl, *command.split(), "--url", url], {"TERM": "xterm"})
        try:
            while data := os.read(terminal, 65536):
                seen += data
                if b"q leaves" in seen:
                    os.write(terminal, b"q")
        except OSError:
            pass  # the program has ended
        os.waitpid(pid, 0)
        os.close(terminal)
    assert rb"\x1b]0;owned\x07" in seen
    assert_visible(re.sub(own, b"", seen))
