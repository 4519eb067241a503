"""gemmctl top: a report without a terminal, and a view that follows the terminal."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading

import numpy as np
import pytest

from daemon import PATIENCE_S
from test_formats import npy
from test_gemmctl import NETWORK, USAGE, succeed

ENTER, LEAVE, HOME = b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[H"


class View:
    """gemmctl top on a terminal of its own."""

    def __init__(self, gemmctl, url, rows, columns, *options):
        self.seen = b""
        reading, writing = os.pipe()
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.read(reading, 1)  # until the terminal has its size
            environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
            os.execve(gemmctl, [gemmctl, "top", "--url", url, *options], {**environment, "TERM": "xterm"})
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.terminal)
        os.write(writing, b"x")
        os.close(reading)
        os.close(writing)

    def resize(self, rows, columns):
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        ready, _, _ = select.select([self.terminal], [], [], PATIENCE_S)
        assert ready, f"nothing more after {self.seen!r}"
        try:
            data = os.read(self.terminal, 65536)
        except OSError:
            data = b""
        self.seen += data
        return bool(data)

    def next_frame(self):
        """The lines of a frame that begins after what has been read so far."""
        start = len(self.seen)
        while True:
            frames = self.seen[start:].split(HOME)
            if len(frames) > 1 and any(b"\x1b[J" in frame for frame in frames[1:]):
                frame = next(frame for frame in frames[1:] if b"\x1b[J" in frame)
                text = re.sub(r"\x1b\[[0-9;]*[mKJ]", "", frame[:frame.index(b"\x1b[J")].decode())
                return [line.rstrip("\r") for line in text.split("\n")]
            assert self.read(), f"it has ended: {self.seen!r}"

    def frame_that(self, accepts):
        while True:
            frame = self.next_frame()
            if accepts(frame):
                return frame

    def end(self):
        """The exit status; the terminal is as it was."""
        while LEAVE not in self.seen:
            assert self.read(), self.seen
        _, status = os.waitpid(self.pid, 0)
        assert self.seen.index(ENTER) < self.seen.index(b"\x1b[?25l") < self.seen.index(b"\x1b[?25h")
        assert termios.tcgetattr(self.terminal) == self.before
        os.close(self.terminal)
        return os.waitstatus_to_exitcode(status)


@pytest.fixture
def tensors(run, tmp_path):
    (tmp_path / "W.npy").write_bytes(npy(np.ones((3, 5), np.float32)))
    (tmp_path / "V.npy").write_bytes(npy(np.ones((300, 500), np.float32)))
    succeed(run("tensor", "put", "top.small", "W.npy"))
    succeed(run("tensor", "put", "top.large", "V.npy"))
    yield
    run("tensor", "rm", "top.small", "top.large")


def test_one_report(run, tensors, gemmctl, url):
    del tensors
    text = succeed(run("top", "--once", "--interval", "200ms")).stdout.decode()
    assert "\x1b" not in text
    for word in ("requests", "latency", "queue", "jobs", "DEVICE", "BUSY", "ready"):
        assert word in text
    assert text.index("top.large") < text.index("top.small")
    assert re.search(r"(?m)^top\.large +f32 +300x500 +585\.9 KiB$", text)


def test_json_counts_what_happened_between_the_looks(start, gemmctl, tmp_path):
    daemon = start()
    load = subprocess.Popen([gemmctl, "bench", "--duration", "10m", "--url", daemon.url], cwd=tmp_path,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        # Requests of the load have ended between the looks, and so have launches; top's own requests count too.
        found = None
        while not (found and found["operations"]["gemm"]["latency_ms"]["p50"] and found["devices"][0]["busy"]):
            assert load.poll() is None
            result = subprocess.run([gemmctl, "top", "--json", "--interval", "300ms", "--url", daemon.url],
                                    capture_output=True, timeout=PATIENCE_S, check=False)
            found = json.loads(succeed(result).stdout)
    finally:
        load.send_signal(signal.SIGTERM)
        load.wait(PATIENCE_S)
    gemm = found["operations"]["gemm"]
    assert 0 < gemm["requests_per_second"] <= found["requests_per_second"]
    assert 0 < gemm["latency_ms"]["p50"] <= gemm["latency_ms"]["p90"] <= gemm["latency_ms"]["p99"]
    assert found["gigaflops_per_second"] > 0 and found["interval_s"] >= 0.3
    kernels = daemon.session.get(f"{daemon.url}/info", timeout=PATIENCE_S).json()["kernels"]
    operations = {kernel["op"] for kernel in kernels}
    assert {"gemm", "softmax"} < operations
    assert set(found["operations"]) == operations | {"infer", "tensor", "other"}
    for name in operations - {"gemm"}:
        assert found["operations"][name]["latency_ms"]["p50"] is None
    assert [device["index"] for device in found["devices"]] == [0]
    assert 0 < found["devices"][0]["busy"] <= 1


def test_wrong_requests_are_told_apart(start, gemmctl):
    """A request with a 4xx other than 429 has neither been refused nor has it failed."""
    daemon = start()
    stop = threading.Event()

    def be_wrong():
        while not stop.is_set():
            daemon.session.post(f"{daemon.url}/gemm?m=0", data=b"", timeout=PATIENCE_S)

    sender = threading.Thread(target=be_wrong)
    sender.start()
    try:
        arguments = [gemmctl, "top", "--interval", "300ms", "--url", daemon.url]
        for shown in ("--json", "--once"):
            output = succeed(subprocess.run([*arguments, shown], capture_output=True, timeout=PATIENCE_S,
                                            check=False)).stdout
            if shown == "--json":
                found = json.loads(output)
                rates = [found[f"{name}_per_second"] for name in ("wrong", "refused", "failed")]
            else:
                rates = [float(rate) for rate in re.search(
                    rb"([0-9.]+)/s wrong \(4xx\), ([0-9.]+)/s refused \(429\), ([0-9.]+)/s failed", output).groups()]
            assert rates[0] > 0 and rates[1:] == [0, 0], (shown, rates)
    finally:
        stop.set()
        sender.join()


@pytest.mark.parametrize("scopes", ["metrics", "metrics,tensors"])
def test_own_requests_do_not_count(scopes, start, gemmctl, tmp_path):
    """Where nobody else asks, nothing is asked; a list of tensors that the token may not see is no failure."""
    (tmp_path / "tokens").write_text(f"me:open-sesame scopes={scopes}\n")
    (tmp_path / "tokens").chmod(0o600)
    (tmp_path / "mine").write_text("open-sesame\n")
    (tmp_path / "mine").chmod(0o600)
    daemon = start("--token-file", str(tmp_path / "tokens"))
    found = json.loads(succeed(subprocess.run([gemmctl, "top", "--json", "--interval", "50ms", "--token-file",
                                               tmp_path / "mine", "--url", daemon.url],
                                              capture_output=True, timeout=PATIENCE_S, check=False)).stdout)
    rates = {name: found[name] for name in ("requests_per_second", "wrong_per_second", "failed_per_second")}
    assert set(rates.values()) == {0}, rates
    assert {kind["requests_per_second"] for kind in found["operations"].values()} == {0}


def test_several_devices(start, gemmctl):
    daemon = start("--devices", "2")
    result = succeed(subprocess.run([gemmctl, "top", "--json", "--interval", "1ms", "--url", daemon.url],
                                    capture_output=True, timeout=PATIENCE_S, check=False))
    devices = json.loads(result.stdout)["devices"]
    assert [(device["index"], device["busy"]) for device in devices] == [(0, 0), (1, 0)]


def test_token_without_the_scope_of_tensors(start, gemmctl, tmp_path):
    """The list is left out; the rest is there."""
    (tmp_path / "tokens").write_text("me:open-sesame scopes=metrics\n")
    (tmp_path / "tokens").chmod(0o600)
    (tmp_path / "mine").write_text("open-sesame\n")
    daemon = start("--token-file", str(tmp_path / "tokens"))
    result = subprocess.run([gemmctl, "top", "--once", "--interval", "1ms", "--token-file", "mine", "--url",
                             daemon.url], cwd=tmp_path, capture_output=True, timeout=PATIENCE_S, check=False)
    assert b"requests" in succeed(result).stdout


def test_no_daemon_and_mistakes(run):
    assert run("top", "--once", "--url", "http://127.0.0.1:1").returncode == NETWORK
    assert run("top", "--once", "--interval", "0").returncode == USAGE


@pytest.mark.parametrize("rows, columns", [(50, 120), (24, 80), (7, 33), (1, 1)])
def test_view_fits_the_terminal(rows, columns, gemmctl, url):
    view = View(gemmctl, url, rows, columns, "--interval", "50ms")
    for _ in range(3):
        frame = view.next_frame()
        assert len(frame) <= rows and max(map(len, frame)) <= columns, frame
    assert "gemmd"[:columns] in frame[0]
    os.write(view.terminal, b"q")
    assert view.end() == 0


def test_view_follows_the_size(gemmctl, url):
    """Without waiting for the interval."""
    view = View(gemmctl, url, 50, 120, "--interval", "10m")
    assert len(view.next_frame()) > 9
    view.resize(5, 20)
    frame = view.frame_that(lambda frame: len(frame) <= 5)
    assert max(map(len, frame)) <= 20
    view.resize(50, 100)
    assert "q leaves" in view.frame_that(lambda frame: len(frame) > 9)
    os.write(view.terminal, b"xq")
    assert view.end() == 0


@pytest.mark.parametrize("key", [b"\x03", signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_interrupted_view(key, gemmctl, url):
    view = View(gemmctl, url, 24, 80, "--interval", "10m")
    view.next_frame()
    if isinstance(key, bytes):
        os.write(view.terminal, key)
    else:
        os.kill(view.pid, key)
    assert view.end() == 130


def test_view_survives_the_daemon(start, gemmctl):
    """The figures stay, with a sentence, while no daemon answers."""
    daemon = start()
    view = View(gemmctl, daemon.url, 30, 100, "--interval", "50ms")
    view.next_frame()
    stopping = threading.Thread(target=daemon.stop)
    stopping.start()
    frame = view.frame_that(lambda frame: "no daemon answers" in frame[1])
    stopping.join()
    assert any(line.startswith("requests") for line in frame)
    os.write(view.terminal, b"q")
    assert view.end() == 0
