"""SIGHUP: new values of options and tokens, while requests are served."""

import json
import os
import re
import signal
import socket
import subprocess
import time

import pytest

from daemon import PATIENCE_S
from problem import assert_problem
from wire import Wire, exchange, request

OCTETS = ("Content-Type", "application/octet-stream")
GEMM = "/gemm?m=2&n=2&k=2"
GOOD = request("POST", GEMM, [OCTETS, ("Content-Length", 32)], b"\0" * 32)
ASK = request("POST", GEMM, [OCTETS, ("Content-Length", 32), ("Expect", "100-continue")])


@pytest.fixture(name="config")
def config_file(tmp_path):
    def write(**options):
        file.write_text(json.dumps({name.replace("_", "-"): value
                                    for name, value in options.items()}))
        return file

    file = tmp_path / "gemmd.json"
    return write


def reload(daemon, says="reloaded"):
    """Sends SIGHUP, and returns the lines that the daemon has logged since then, up to the line that `says` so.

    Lines of the access log may stand between them, and after them."""
    def last(lines):
        return next((i for i in range(before, len(lines)) if says in str(lines[i].get("message"))), None)

    before = len(daemon.lines)
    daemon.process.send_signal(signal.SIGHUP)
    daemon.wait_for(lambda lines: last(lines) is not None, f"the line '{says}'")
    return daemon.lines[before:last(daemon.lines) + 1]


def metric(daemon, name):
    text = daemon.session.get(f"{daemon.url}/metrics", timeout=PATIENCE_S).text
    return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)[1])


def limits(daemon):
    return daemon.session.get(f"{daemon.url}/info", timeout=PATIENCE_S).json()["limits"]


def test_a_reload_applies_reloadable_options(start, config):
    daemon = start("--config", config(max_body="1K", log_level="info"))
    assert exchange(daemon.address, GOOD).status == 200
    config(max_body=16, log_level="warning", queue_requests=7)
    lines = [line["message"] for line in reload(daemon, "--max-body is now")]
    assert "--max-body is now 16; it was 1024" in lines
    assert_problem(exchange(daemon.address, GOOD), 413, "16")
    daemon.wait_for(lambda _: limits(daemon)["queue-requests"] == 7, "the new --queue-requests")
    # At level warning there is no line for a request with status 200.
    assert exchange(daemon.address, request("GET", "/livez", [("X-Request-Id", "quiet")])).status == 200
    config(max_body="1K", log_level="info")
    reload(daemon)
    assert exchange(daemon.address, GOOD).status == 200
    assert exchange(daemon.address, request("GET", "/livez", [("X-Request-Id", "loud")])).status == 200
    daemon.wait_for(lambda lines: any(line.get("request_id") == "loud" for line in lines), "the line")
    assert not any(line.get("request_id") == "quiet" for line in daemon.lines)


def test_the_limit_of_requests_changes(start, config):
    """The admission keeps limits of its own."""
    daemon = start("--config", config(queue_requests=1))
    with Wire(daemon.address) as first, Wire(daemon.address) as second:
        first.send(ASK)
        assert first.receive().status == 100
        assert exchange(daemon.address, GOOD).status == 429
        config(queue_requests=2)
        reload(daemon)
        second.send(ASK)
        assert second.receive().status == 100, "the second place"
        config(queue_requests=1)
        reload(daemon)
        for wire in (first, second):
            wire.send(b"\0" * 32)
            assert wire.receive().status == 200, "an accepted request keeps its place"


def test_a_reload_touches_no_request_in_flight(start, config):
    daemon = start("--config", config(max_body="1K", body_timeout="300s"))
    with Wire(daemon.address) as wire:
        wire.send(request("POST", GEMM, [OCTETS, ("Transfer-Encoding", "chunked")]))
        wire.send(b"10\r\n" + b"\0" * 16 + b"\r\n")
        daemon.wait_for(lambda _: metric(daemon, "gemmd_queue_requests") == 1, "the request")
        config(max_body=8)
        reload(daemon)
        wire.send(b"10\r\n" + b"\0" * 16 + b"\r\n0\r\n\r\n")
        assert wire.receive().status == 200, "the limit is that of the request's start"
    assert exchange(daemon.address, GOOD).status == 413


def test_options_that_need_a_new_process_are_named(start, config):
    daemon = start("--config", config(streams=3, io_threads=1, max_connections=100))
    config(streams=4, io_threads=1, max_connections=100, pinned_bytes="4G", listen="127.0.0.1:1")
    lines = reload(daemon)
    warnings = {line["message"] for line in lines if line["level"] == "warning"}
    assert warnings == {
        f"--{name} stays {old}; the new value {new} needs a new process (SIGUSR2)"
        for name, old, new in [("streams", 3, 4), ("pinned-bytes", 2 << 30, 4 << 30),
                               ("listen", "127.0.0.1:0", "127.0.0.1:1")]
        if name != "listen"}, "the flag --listen wins over the file"
    assert limits(daemon)["streams"] == 3
    # They are named again by the next reload.
    assert any("--streams stays 3" in line["message"] for line in reload(daemon))


def test_a_default_follows_what_is_in_force(start, config):
    """--max-body is half of --pinned-bytes by default: of those in force, not of the file's."""
    daemon = start("--config", config(pinned_bytes="64M"))
    config(pinned_bytes="1G")
    reload(daemon)
    assert limits(daemon)["max-body"] == 32 << 20


@pytest.mark.parametrize("text, says", [
    ("{", "line 1"), ("[]", "one JSON object"), ('{"nosuch": 1}', '"nosuch" in'),
    ('{"max-body": "many"}', '"max-body" in'), ('{"queue-requests": 0}', '"queue-requests" in'),
    ('{"max-body": "3G"}', "too small for one request"), (None, "cannot be read"),
    ("pipe", "is not a regular file"),
])
def test_a_broken_file_keeps_all_settings(text, says, start, config):
    file = config(max_body="1K", access_log=False)
    daemon = start("--config", file)
    assert metric(daemon, "gemmd_config_last_reload_successful") == 1
    file.unlink()
    if text == "pipe":
        os.mkfifo(file)
    elif text is not None:
        # A valid change before the mistake must not be applied either.
        file.write_text(text.replace("{", '{"max-json": 2048, ', 1) if ":" in text else text)
    before = limits(daemon)
    lines = reload(daemon, "cannot reload, and all settings stay as they were: ")
    assert lines[-1]["level"] == "error"
    assert says in lines[-1]["message"] and str(file)[:40] in lines[-1]["message"] or (
        text == '{"max-body": "3G"}' and says in lines[-1]["message"])
    assert limits(daemon) == before
    assert metric(daemon, "gemmd_config_last_reload_successful") == 0
    assert metric(daemon, 'gemmd_config_reloads_total{result="failure"}') == 1
    file.unlink(missing_ok=True)
    config(max_body="2K")
    reload(daemon)
    assert limits(daemon)["max-body"] == 2048
    assert metric(daemon, "gemmd_config_last_reload_successful") == 1
    assert metric(daemon, 'gemmd_config_reloads_total{result="success"}') == 1
    assert abs(metric(daemon, "gemmd_config_last_reload_success_timestamp_seconds")
               - time.time()) < PATIENCE_S


def test_a_reload_without_a_file(start):
    daemon = start()
    assert "reloaded" in [line["message"] for line in reload(daemon)]
    assert exchange(daemon.address, GOOD).status == 200


def test_the_service_manager_is_told(start, config, tmp_path):
    path = str(tmp_path / "notify.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(PATIENCE_S)
        daemon = start("--config", config(), environment={"NOTIFY_SOCKET": path})
        assert "READY=1" in manager.recv(4096).decode()
        for break_it in (False, True):
            if break_it:
                config(nosuch=1)
            began_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
            daemon.process.send_signal(signal.SIGHUP)
            state = dict(line.split("=", 1) for line in manager.recv(4096).decode().splitlines())
            assert state["RELOADING"] == "1"
            ended_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
            assert began_us <= int(state["MONOTONIC_USEC"]) <= ended_us
            state = manager.recv(4096).decode().splitlines()
            assert "READY=1" in state
            assert any("reload failed" in line for line in state) == break_it


def test_hang_ups_during_load_lose_no_request(start, config):
    """Reloads swap the options while all threads read them (the run under ThreadSanitizer)."""
    daemon = start("--config", config(max_body="1K"))
    with Wire(daemon.address) as wire:
        for i in range(60):
            config(max_body=1024 + i % 2, queue_requests=10 + i % 2, idle_timeout=75000 + i % 2)
            daemon.process.send_signal(signal.SIGHUP)
            wire.send(GOOD)
            assert wire.receive().status == 200


def test_a_hang_up_during_the_drain_is_no_second_signal(start):
    daemon = start("--drain-timeout", "600s")
    with Wire(daemon.address) as wire:
        wire.send(ASK)
        assert wire.receive().status == 100
        daemon.terminate()
        daemon.wait_for(lambda lines: any("draining" in str(line.get("message")) for line in lines),
                        "the line that it drains")
        daemon.process.send_signal(signal.SIGHUP)
        wire.send(b"\0" * 32)
        assert wire.receive().status == 200
    assert daemon.wait() == 0
    assert not any("second signal" in message for message in daemon.messages())


def test_tokens_are_read_again(start, tmp_path):
    file = tmp_path / "tokens"
    file.write_text("alice:the-first-token-of-alice\n")
    file.chmod(0o600)
    daemon = start("--token-file", file, ready=False)
    daemon.wait_until_listening()

    def status(token):
        return exchange(daemon.address, request(
            "GET", "/info", [("Authorization", f"Bearer {token}")])).status

    assert (status("the-first-token-of-alice"), status("the-next-token-of-alice")) == (200, 401)
    # Both are valid while clients change from one to the other.
    file.write_text("alice:the-first-token-of-alice\nalice:the-next-token-of-alice\n")
    reload(daemon)
    assert (status("the-first-token-of-alice"), status("the-next-token-of-alice")) == (200, 200)
    file.write_text("alice:the-next-token-of-alice\n")
    reload(daemon)
    assert (status("the-first-token-of-alice"), status("the-next-token-of-alice")) == (401, 200)
    file.write_text("alice\n" * 2)
    reload(daemon, "cannot reload")
    assert status("the-next-token-of-alice") == 200


def test_help_marks_reloadable_options(gemmd):
    text = subprocess.run([gemmd, "--help"], capture_output=True, text=True, check=True).stdout
    entries = re.split(r"\n  (?=--)", text)
    marked = {re.match(r"--([a-z-]+)", entry)[1] for entry in entries[1:]
              if "Reloadable." in entry.split("\n\n")[0]}
    assert {"max-body", "log-level", "queue-requests", "drain-timeout"} <= marked
    assert not marked & {"listen", "pinned-bytes", "streams", "io-threads", "backend", "config"}
