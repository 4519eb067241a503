"""gemmctl on a terminal: the progress line, colours, and tokens that no command line shows."""

import os
import pty
import select
import signal
import socket
import subprocess

import numpy as np
import pytest

from daemon import PATIENCE_S
from test_formats import npy

SIDE = 1500


class Terminal:
    """A program whose standard error is a terminal."""

    def __init__(self, command, folder, **environment):
        self.master, slave = pty.openpty()
        self.seen = b""
        clean = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "GEMMD_URL")}
        self.process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=slave,
                                        stderr=slave, env={**clean, "TERM": "xterm", **environment})
        os.close(slave)

    def read(self):
        """False once the program has closed the terminal."""
        ready, _, _ = select.select([self.master], [], [], PATIENCE_S)
        assert ready, f"nothing more after {self.seen!r}"
        try:
            data = os.read(self.master, 65536)
        except OSError:
            data = b""
        self.seen += data
        return bool(data)

    def wait_for(self, text):
        while text not in self.seen:
            assert self.read(), f"{text!r} is not in {self.seen!r}"

    def finish(self):
        while self.read():
            pass
        os.close(self.master)
        return self.process.wait(PATIENCE_S)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "A.npy").write_bytes(npy(np.ones((SIDE, SIDE), np.float32)))
    return ["A.npy", "A.npy"]


def test_progress(gemmctl, files, tmp_path):
    """Sending, computing, receiving, and an empty line at the end."""
    half = SIDE * SIDE * 2
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_S)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        terminal = Terminal([gemmctl, "gemm", *files, "-o", "C.npy", "--url", url], tmp_path)
        connection, _ = server.accept()
        connection.settimeout(PATIENCE_S)
        with connection:
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(1)
            assert b"expect: 100-continue" in head.lower()
            terminal.wait_for(b"sending")
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            left = 2 * SIDE * SIDE * 4
            while left > 0:
                left -= len(connection.recv(1 << 20))
                if left < SIDE * SIDE * 4:
                    terminal.wait_for(b"iB/s, ")
                    terminal.wait_for(b" left")
            terminal.wait_for(b"computing")
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nGemmd-Dtype: f32\r\n"
                               b"Gemmd-Shape: %d,%d\r\n\r\n" % (2 * half, SIDE, SIDE))
            connection.sendall(bytes(half))
            terminal.wait_for(b"receiving")
            connection.sendall(bytes(half))
            assert terminal.finish() == 0, terminal.seen
    assert b"C.npy: 1500x1500 f32" in terminal.seen.rsplit(b"\x1b[K", 1)[-1]
    assert not np.load(tmp_path / "C.npy").any()


@pytest.mark.slow  # the sanitizers run the ladder in test_gemmctl.py
def test_progress_of_the_ladder(gemmctl, url, tmp_path):
    """It takes minutes on a CPU: which rung it is at, and an empty line before each table."""
    terminal = Terminal([gemmctl, "--url", url, "bench", "ladder", "-n", "256"], tmp_path)
    assert terminal.finish() == 0
    assert b"\r\x1b[Kbf16, C = A\xc2\xb7B: naive, N = 256 ... " in terminal.seen
    assert terminal.seen.count(b"\r\x1b[K\r\n### ") + terminal.seen.count(b"\r\x1b[K### ") == 3
    quiet = Terminal([gemmctl, "--url", url, "--quiet", "bench", "ladder", "-n", "256"], tmp_path)
    assert quiet.finish() == 0
    assert b"\x1b[K" not in quiet.seen


def test_progress_of_a_measurement(gemmctl, url, tmp_path):
    """How far it is, how fast, and how long it takes yet; the line is empty before the report."""
    terminal = Terminal([gemmctl, "--url", url, "bench", "--duration", "10m"], tmp_path)
    for text in (b"measuring [", b" requests/s, ", b" left"):
        terminal.wait_for(text)
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.finish() == 130
    assert b"\r\x1b[Kproduct " in terminal.seen
    counted = Terminal([gemmctl, "--url", url, "-q", "bench", "--requests", "10"], tmp_path)
    assert counted.finish() == 0
    assert b"measuring" not in counted.seen


def test_colours(gemmctl, tmp_path):
    command = [gemmctl, "info", "--url", "http://127.0.0.1:1", "--retries", "0"]
    for options, environment, colours in (([], {}, True), (["--no-color"], {}, False),
                                          ([], {"NO_COLOR": "1"}, False),
                                          ([], {"TERM": "dumb"}, False)):
        terminal = Terminal([*command, *options], tmp_path, **environment)
        assert terminal.finish() == 4
        assert (b"\x1b[" in terminal.seen) == colours, (options, environment, terminal.seen)


def test_token(start, gemmctl, tmp_path):
    """From a file or the environment; without it there is no product."""
    (tmp_path / "tokens").write_text("somebody:open-sesame\n")
    (tmp_path / "mine").write_text("open-sesame\n")
    (tmp_path / "none").write_text("\n")
    (tmp_path / "A.npy").write_bytes(npy(np.ones((2, 2), np.float32)))
    daemon = start("--token-file", str(tmp_path / "tokens"))
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GEMMD_")}

    def run(*options, **environment):
        return subprocess.run([gemmctl, "gemm", "A.npy", "A.npy", "-o", "C.npy", "--url",
                               daemon.url, *options], cwd=tmp_path, env={**clean, **environment},
                              capture_output=True, timeout=PATIENCE_S, check=False)

    assert run().returncode == 1
    assert run(GEMMD_TOKEN="wrong").returncode == 1
    assert run(GEMMD_TOKEN="open-sesame").returncode == 0
    assert run("--token-file", "mine").returncode == 0
    for name in ("none", "nosuch"):
        result = run("--token-file", name)
        assert result.returncode == 2
        assert name in result.stderr.decode()
