"""The log where standard output does not take it: a reader that does not read, a disk that is full."""

import contextlib
import os
import pty
import re
import select
import socket
import subprocess
import time

import pytest

from daemon import PATIENCE_S
from wire import Wire, exchange, request

LONG = "/" + "x" * 1500  # makes a line of the log of about 1,900 bytes


@contextlib.contextmanager
def output(kind):
    """The two ends of a standard output: the reader's and the daemon's."""
    if kind == "terminal":
        reader, writer = pty.openpty()
    elif kind == "pipe":
        reader, writer = os.pipe()
    else:
        pair = socket.socketpair()
        reader, writer = (end.detach() for end in pair)
    try:
        yield reader, writer
    finally:
        os.close(reader)
        os.close(writer)


def wait_for_socket(path):
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return exchange(path, request("GET", "/livez"))
        except (FileNotFoundError, ConnectionRefusedError):
            assert time.monotonic() < deadline, "the daemon does not start"
            time.sleep(0.02)


def start_on(start, path, writer):
    start(listen=(f"unix:{path}",), ready=False, pass_fds=(writer,),
          wrapper=("bash", "-c", f'exec "$@" >&{writer} {writer}>&-', "bash"))
    wait_for_socket(path)


def lost_lines(path):
    text = exchange(path, request("GET", "/metrics")).body.decode()
    return int(re.search(r"^gemmd_log_dropped_lines_total (\d+)$", text, re.MULTILINE)[1])


def read_until(reader, pattern):
    """What the daemon wrote, up to the first line that matches."""
    seen, deadline = b"", time.monotonic() + PATIENCE_S
    while not re.search(pattern, seen.decode(errors="replace")):
        assert time.monotonic() < deadline, f"nothing like {pattern} after {seen[-1000:]}"
        if select.select([reader], [], [], 0.1)[0]:
            seen += os.read(reader, 1 << 16)
    return seen.decode(errors="replace")


@pytest.mark.parametrize("kind", ["terminal", "pipe", "socket"])
def test_output_that_nobody_reads(kind, start, tmp_path):
    """All requests are answered; the log says later how many of its lines are missing."""
    path = str(tmp_path / "gemmd.sock")
    with output(kind) as (reader, writer):
        start_on(start, path, writer)
        sent = 0
        with Wire(path) as wire:
            while sent < 8000 and (sent % 100 or lost_lines(path) == 0):
                wire.send(request("GET", LONG, [("X-Request-Id", f"number-{sent}-")]))
                assert wire.receive().status == 404
                sent += 1
        assert lost_lines(path) > 0
        text = read_until(reader, r"\d+ lines of the log were lost")
        before, lost = re.search(r"^(.*?)(\d+) lines of the log were lost", text, re.DOTALL).groups()
        numbers = [int(number) for number in re.findall(r"number-(\d+)-", before)]
        assert numbers == list(range(len(numbers))), "lines of one connection are in order"
        assert 0 < int(lost) <= lost_lines(path)


def test_the_end_of_a_daemon_whose_output_nobody_reads(start, tmp_path):
    path = str(tmp_path / "gemmd.sock")
    with output("terminal") as (_, writer):
        start_on(start, path, writer)
        for _ in range(10):
            assert exchange(path, request("GET", LONG)).status == 404
        # The fixture `start` ends the daemon, which must exit with status 0.


def test_lines_that_a_full_disk_refuses_are_counted(start, tmp_path):
    path = str(tmp_path / "gemmd.sock")
    with open("/dev/full", "wb") as full:
        start_on(start, path, full.fileno())
    deadline = time.monotonic() + PATIENCE_S
    while lost_lines(path) < 2:
        assert time.monotonic() < deadline, "lost lines are not counted"


def test_the_last_line_before_a_failed_start_is_written(gemmd, tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    result = subprocess.run([gemmd, "--listen", f"unix:{path}"], capture_output=True, text=True,
                            timeout=PATIENCE_S, check=False)
    assert result.returncode == 1
    assert "is not a socket" in result.stderr
    assert "cannot start" in result.stdout.splitlines()[-1]
