"""The log where standard output does not take it: a reader that does not read, a disk that is full."""

import contextlib
import json
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


def test_a_disk_that_has_room_again(start, tmp_path):
    """The log of a file that was full goes on with whole lines, and says how many are missing. A limit
    on the file's size stands for the disk."""
    path, log = str(tmp_path / "gemmd.sock"), tmp_path / "log"
    with log.open("ab") as file:
        start(listen=(f"unix:{path}",), ready=False, pass_fds=(file.fileno(),),
              wrapper=("bash", "-c", f'exec "$@" >&{file.fileno()} {file.fileno()}>&-', "bash",
                       "prlimit", "--fsize=9000"))
        wait_for_socket(path)
    deadline = time.monotonic() + PATIENCE_S
    while lost_lines(path) < 2:
        assert exchange(path, request("GET", LONG)).status == 404
        assert time.monotonic() < deadline, "lost lines are not counted"
    os.truncate(log, 0)
    while True:
        assert exchange(path, request("GET", "/livez")).status == 200
        lines = [line for line in log.read_text().split("\n")[:-1] if line]
        if any("lines of the log were lost" in line for line in lines):
            break
        assert time.monotonic() < deadline, "the log does not go on"
        time.sleep(0.02)
    assert [json.loads(line)["message"] for line in lines]


def line_of(daemon, request_id, message="request"):
    return daemon.wait_for(lambda lines: next(
        (line for line in lines if line.get("request_id") == request_id
         and line["message"] == message), None), f"the line of {request_id}")


def test_text_on_a_terminal_has_the_names_of_the_json(start, tmp_path):
    """auto is text on a terminal and JSON elsewhere."""
    path = str(tmp_path / "gemmd.sock")
    body = bytes(32)
    data = request("POST", "/gemm?m=2&n=2&k=2", [("Content-Length", 32), ("X-Request-Id", "same")],
                   body)
    with output("terminal") as (reader, writer):
        start_on(start, path, writer)
        assert exchange(path, data).status == 200
        text = read_until(reader, r"request_id=same\s")
    daemon = start()
    assert exchange(daemon.address, data).status == 200
    line = line_of(daemon, "same")
    words = next(line for line in text.splitlines() if "request_id=same" in line).split()
    assert words[1:3] == ["info", "request"]
    names = [word.partition("=")[0] for word in words[3:]]
    assert set(names) == set(line) - {"time", "level", "message"}


def test_the_line_of_a_job_has_its_real_stages(start):
    daemon = start()
    answer = exchange(daemon.address, request(
        "POST", "/gemm?m=256&n=256&k=256", [("Content-Length", 2 * 4 * 256 * 256),
                                            ("Prefer", "respond-async"), ("X-Request-Id", "mine")],
        bytes(2 * 4 * 256 * 256)))
    assert answer.status == 202
    line = line_of(daemon, "mine", "job")
    assert line["job"] in answer.headers["location"]
    assert (line["op"], line["dtype"], line["m"], line["status"]) == ("gemm", "f32", 256, 200)
    assert line["kernel_ms"] > 0 and line["receive_ms"] > 0
    assert line["queue_ms"] + line["kernel_ms"] <= line["total_ms"]
    assert line["response_bytes"] == 4 * 256 * 256
    assert line_of(daemon, "mine")["status"] == 202


def test_copies_of_tensors_tell_their_stages(start):
    """An upload has them in its answer too, and a request that copies nothing has none."""
    daemon = start()
    body = bytes(4 * 512 * 512)
    put = exchange(daemon.address, request("PUT", "/tensors/w?shape=512,512&dtype=f32", [
        ("Content-Length", len(body)), ("X-Request-Id", "put")], body))
    assert put.status == 201
    stages = dict(stage.split(";dur=") for stage in put.headers["server-timing"].split(", "))
    assert list(stages) == ["recv", "queue", "copy", "total"]
    ms = {name: float(value) for name, value in stages.items()}
    assert ms["recv"] > 0 and ms["copy"] > 0 and ms["recv"] + ms["queue"] + ms["copy"] <= ms["total"]
    line = line_of(daemon, "put")
    assert (line["receive_ms"], line["queue_ms"], line["h2d_ms"]) == (ms["recv"], ms["queue"], ms["copy"])
    assert line["d2h_ms"] == 0 and "kernel_ms" not in line and "op" not in line
    assert exchange(daemon.address, request("DELETE", "/tensors/w", [("X-Request-Id", "delete")])).status == 204
    assert "receive_ms" not in line_of(daemon, "delete")


def test_lines_say_whose_request_it_was_and_why_it_failed(start, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("alice:alice-token-1\np:prom-token-12 scopes=metrics\np:an-old-token expires=2020-01-01\n")
    tokens.chmod(0o600)
    daemon = start("--token-file", str(tokens))

    def ask(name, token, *fields, m=2):
        answer = exchange(daemon.address, request("POST", f"/gemm?m={m}&n=2&k=2", [
            ("Content-Length", 32), ("X-Request-Id", name), ("Authorization", f"Bearer {token}"), *fields], bytes(32)))
        line = line_of(daemon, name)
        assert line["status"] == answer.status
        if answer.status >= 400:
            assert line["reason"] == json.loads(answer.body)["detail"]
        else:
            assert "reason" not in line
        return answer.status, line.get("tenant")

    assert ask("served", "alice-token-1") == (200, "alice")
    assert ask("wrong", "alice-token-1", m=0) == (400, "alice")
    assert ask("no-scope", "prom-token-12") == (403, "p")
    assert ask("expired", "an-old-token") == (401, "p")
    assert ask("unknown", "none-of-them") == (401, None)
    assert ask("job", "alice-token-1", ("Prefer", "respond-async")) == (202, "alice")
    assert line_of(daemon, "job", "job")["tenant"] == "alice"


def test_lines_have_the_time_in_the_queue(start):
    """It takes a microsecond at least to wake the thread that starts the work of one of several requests."""
    daemon = start()
    for number in range(8):
        assert exchange(daemon.address, request("POST", "/gemm?m=2&n=2&k=2", [
            ("Content-Length", 32), ("X-Request-Id", f"number-{number}")], bytes(32))).status == 200
    lines = [line_of(daemon, f"number-{number}") for number in range(8)]
    assert max(line["queue_ms"] for line in lines) > 0
    assert all(line["queue_ms"] <= line["total_ms"] for line in lines)


def test_the_line_of_a_client_that_left_says_so(start):
    daemon = start()
    with Wire(daemon.address) as wire:
        wire.send(request("POST", "/gemm?m=2&n=2&k=2", [("Content-Length", 32), ("X-Request-Id", "left"),
                                                        ("Expect", "100-continue")]))
        assert wire.receive().status == 100
        wire.send(bytes(8))
    line = line_of(daemon, "left")
    assert (line["status"], line["error"]) == (499, "cancelled")
    assert line["reason"] == "the client disconnected while its body was received"


def test_clients_that_close_a_unix_socket_after_the_answer_were_served(start, tmp_path):
    """Such a client may be gone before libmicrohttpd has noticed that it has sent everything."""
    path = str(tmp_path / "gemmd.sock")
    daemon = start(listen=(f"unix:{path}",), ready=False)
    wait_for_socket(path)
    data = request("POST", "/gemm?m=2&n=2&k=2", [("Content-Length", 32)], bytes(32))
    for _ in range(300):
        assert exchange(path, data).status == 200
    lines = daemon.wait_for(lambda lines: found if len(found := [
        line for line in lines if line.get("path", "").startswith("/gemm")]) == 300 else None,
        "all lines")
    assert {line["status"] for line in lines} == {200}
    assert not any("reason" in line or "error" in line for line in lines)
    assert re.search(r"^gemmd_client_gone_total 0$", exchange(path, request(
        "GET", "/metrics")).body.decode(), re.MULTILINE)


@pytest.mark.parametrize("bytes_read", [0, 100])
def test_a_client_that_closes_a_unix_socket_with_an_answer_unread_has_left(bytes_read, start,
                                                                           tmp_path):
    path = str(tmp_path / "gemmd.sock")
    daemon = start(listen=(f"unix:{path}",), ready=False)
    wait_for_socket(path)
    size = 1024
    with Wire(path) as wire:
        wire.send(request("POST", f"/gemm?m={size}&n={size}&k=1&dtype=f32", [
            ("Content-Length", 8 * size), ("X-Request-Id", "left")], bytes(8 * size)))
        select.select([wire.socket], [], [])
        wire.socket.recv(bytes_read)
    line = line_of(daemon, "left")
    assert (line["error"], line["reason"]) == ("cancelled",
                                               "the client disconnected while the answer was sent")


def test_the_line_of_an_attention_has_heads_and_lengths(start):
    daemon = start()
    sizes = 4 * 3 * 16, 2 * 5 * 16, 2 * 5 * 16
    body = bytes(4 * sum(sizes))
    answer = exchange(daemon.address, request(
        "POST", "/attention?heads=4&kv_heads=2&sq=3&skv=5&d=16&dtype=f32",
        [("Content-Length", len(body)), ("X-Request-Id", "heads")], body))
    assert answer.status == 200, answer.body
    line = line_of(daemon, "heads")
    assert [line[name] for name in ("heads", "kv_heads", "sq", "skv", "d", "dv")] == [4, 2, 3, 5, 16,
                                                                                      16]


@pytest.mark.parametrize("option, value", [
    ("--pinned-bytes", "15T"), ("--device-bytes", "15T"), ("--tensor-bytes", "15T"),
    ("--token-file", "/nonexistent/tokens"), ("--otlp-endpoint", "nowhere"),
    ("--listen", "192.0.2.1:1"), ("--listen", "unix:/nonexistent/gemmd.sock"),
])
def test_an_error_at_the_start_names_the_option(option, value, gemmd, instrumented):
    """The address space of the process is limited, so that memory is refused."""
    if instrumented and value == "15T":
        pytest.skip("a sanitizer takes more address space than the limit")
    limit = "ulimit -v 8000000; " if value == "15T" else ""
    others = {"--listen": "127.0.0.1:0", "--device-bytes": "16M", "--tensor-bytes": "16M"}
    others.pop(option, None)
    result = subprocess.run(["bash", "-c", f'{limit}exec "$@"', "bash", gemmd,
                             *(word for pair in others.items() for word in pair),
                             "--backend", "cpu", option, value],
                            capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert result.returncode in (1, 2)
    assert option in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_failed_start_is_told_once_in_one_file(gemmd, tmp_path):
    """Where standard error is the log's own file, the log alone tells why the daemon does not start."""
    path = tmp_path / "file"
    path.write_text("")
    for redirection, lines in (("", 2), ("2>&1 ", 1)):
        result = subprocess.run(["sh", "-c", f'exec "$0" "$@" {redirection}', gemmd, "--listen", f"unix:{path}"],
                                capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert result.returncode == 1
        assert (result.stdout + result.stderr).count("is not a socket") == lines


def test_the_last_line_before_a_failed_start_is_written(gemmd, tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    result = subprocess.run([gemmd, "--listen", f"unix:{path}"], capture_output=True, text=True,
                            timeout=PATIENCE_S, check=False)
    assert result.returncode == 1
    assert "is not a socket" in result.stderr
    assert "cannot start" in result.stdout.splitlines()[-1]
