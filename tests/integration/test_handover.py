"""SIGUSR2: a new process takes over the listening sockets, and no connection is lost."""

import contextlib
import http.client
import os
import pathlib
import re
import shutil
import signal
import socket
import stat
import threading
import time

import pytest

from daemon import PATIENCE_S
from oracle import wait_until
from wire import Wire, exchange, request

OCTETS = ("Content-Type", "application/octet-stream")
GEMM = "/gemm?m=2&n=2&k=2"
GOOD = request("POST", GEMM, [OCTETS, ("Content-Length", 32)], b"\0" * 32)
ASK = request("POST", GEMM, [OCTETS, ("Content-Length", 32), ("Expect", "100-continue")])
STAYS = "this process goes on serving"


def wait_for_line(daemon, says, after=0):
    """Waits for a line of the log, and returns its message."""
    return daemon.wait_for(
        lambda lines: next((str(line.get("message")) for line in lines[after:]
                            if says in str(line.get("message"))), None), f"the line '{says}'")


def replace(daemon, pid):
    """Has the process `pid` replaced; returns the new process's pid."""
    after = len(daemon.lines)
    os.kill(pid, signal.SIGUSR2)
    line = wait_for_line(daemon, "has the listening sockets", after)
    return int(re.search(r"pid (\d+)", line)[1])


@contextlib.contextmanager
def ending(daemon):
    """Ends every process that has taken over from the daemon."""
    try:
        yield
    finally:
        for message in daemon.messages():
            if found := re.search(r"the new process, pid (\d+), has the listening", message):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(found[1]), signal.SIGTERM)


class Load:
    """Clients that send products until they are told to stop. Every answer must be a result."""

    def __init__(self, connect, clients=3):
        self.connect, self.failures, self.counts = connect, [], []
        self.stopping = threading.Event()
        self.threads = []
        for keeps_alive in (False, True):
            for _ in range(clients):
                self.counts.append(0)
                self.threads.append(threading.Thread(
                    target=self.run, args=(len(self.counts) - 1, keeps_alive)))
        for thread in self.threads:
            thread.start()

    def run(self, index, keeps_alive):
        connection = None
        while not self.stopping.is_set():
            try:
                connection = connection or self.connect()
                connection.request("POST", GEMM, b"\0" * 32, dict([OCTETS]))
                answer = connection.getresponse()
                body = answer.read()
                if (answer.status, len(body)) != (200, 16):
                    self.failures.append((answer.status, body))
                if not keeps_alive or answer.getheader("Connection") == "close":
                    connection.close()
                    connection = None
                self.counts[index] += 1
            except OSError as error:  # refused, reset, or closed without an answer
                self.failures.append(error)
                connection = None
        if connection:
            connection.close()

    def wait_for_progress(self):
        """Waits until every client has had further answers."""
        before = list(self.counts)
        deadline = time.monotonic() + PATIENCE_S
        while any(now < was + 3 for now, was in zip(self.counts, before)):
            assert time.monotonic() < deadline, (self.counts, self.failures[:5])
            time.sleep(0.01)

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("gemmd", timeout=PATIENCE_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(self.path)


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_no_connection_is_lost(kind, start, tmp_path):
    """Two replacements in a row, with clients that keep their connections and clients that do not."""
    path = str(tmp_path / "gemmd.sock")
    daemon = start(listen=("127.0.0.1:0",) if kind == "tcp" else (f"unix:{path}",), ready=False)
    daemon.wait_until_listening()
    load = Load(lambda: UnixConnection(path) if kind == "unix" else
                http.client.HTTPConnection(*daemon.address, timeout=PATIENCE_S))
    with ending(daemon):
        try:
            load.wait_for_progress()
            pid = daemon.pid
            for _ in range(2):
                pid = replace(daemon, pid)
                load.wait_for_progress()
        finally:
            load.stop()
        assert load.failures == []
        assert daemon.process.wait(PATIENCE_S) == 0, "the first process has drained"
        if kind == "unix":
            assert stat.S_ISSOCK(os.stat(path).st_mode), "the new process's file"
            assert exchange(path, GOOD).status == 200
    assert daemon.wait() == 0  # the processes share their output, which all have closed now
    assert daemon.messages().count("drained") == 3
    assert kind == "tcp" or not os.path.exists(path), "the last process removes its file"


def test_open_connections_are_served_to_their_end(start):
    """A body that arrives after the handover, and connections that were idle at it."""
    daemon = start("--header-timeout", "60s", "--body-timeout", "60s")
    with ending(daemon), Wire(daemon.address) as idle, Wire(daemon.address) as fresh, \
            Wire(daemon.address) as busy:
        idle.send(GOOD)
        assert idle.receive().headers.get("connection") != "close"
        busy.send(ASK)
        assert busy.receive().status == 100
        replace(daemon, daemon.pid)
        for wire, data in ((busy, b"\0" * 32), (idle, GOOD), (fresh, GOOD)):
            wire.send(data)
            answer = wire.receive()
            assert (answer.status, answer.headers.get("connection")) == (200, "close")
        daemon.session.close()
        assert daemon.process.wait(PATIENCE_S) == 0
        assert exchange(daemon.address, request("GET", "/readyz")).status == 200


def test_idle_connections_hold_the_old_process_up_for_a_drain_timeout(start):
    daemon = start("--drain-timeout", "300ms")
    with ending(daemon), Wire(daemon.address) as idle:
        idle.send(GOOD)
        assert idle.receive().status == 200
        replace(daemon, daemon.pid)
        assert daemon.process.wait(PATIENCE_S) == 0


def test_the_old_process_is_ready_until_its_connections_end(start):
    """A prober that keeps its connection is not told that the service goes away."""
    daemon = start()
    with ending(daemon), Wire(daemon.address) as prober:
        prober.send(request("GET", "/readyz"))
        assert prober.receive().headers.get("connection") != "close"
        replace(daemon, daemon.pid)
        prober.send(request("GET", "/readyz"))
        answer = prober.receive()
        assert (answer.status, answer.headers.get("connection")) == (200, "close")


def test_the_new_process_reads_its_options_again(start, tmp_path):
    """Other addresses included: an old one is closed, a new one is opened."""
    file, first, second = tmp_path / "gemmd.json", tmp_path / "first", tmp_path / "second"
    file.write_text(f'{{"listen": ["unix:{first}"], "streams": 2}}')
    daemon = start("--config", file, listen=(), ready=False)
    daemon.wait_until_listening()
    file.write_text(f'{{"listen": ["unix:{second}"], "streams": 3}}')
    with ending(daemon):
        replace(daemon, daemon.pid)
        assert b'"streams": 3' in exchange(str(second), request("GET", "/info")).body
        assert daemon.process.wait(PATIENCE_S) == 0
        with pytest.raises(OSError):
            exchange(str(first), GOOD)


def test_the_new_process_sets_the_permissions_of_its_socket(start, tmp_path):
    file, path = tmp_path / "gemmd.json", tmp_path / "gemmd.sock"
    file.write_text(f'{{"listen": ["unix:{path}"], "socket-mode": "0600"}}')
    daemon = start("--config", file, listen=(), ready=False)
    daemon.wait_until_listening()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    file.write_text(f'{{"listen": ["unix:{path}"], "socket-mode": "0660"}}')
    with ending(daemon):
        replace(daemon, daemon.pid)
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o660
        assert daemon.process.wait(PATIENCE_S) == 0
        assert exchange(str(path), GOOD).status == 200


def test_the_program_that_runs_is_the_file_of_now(start, gemmd, tmp_path):
    program = tmp_path / "gemmd"
    shutil.copy(gemmd, program)
    daemon = start(wrapper=("bash", "-c", f'shift; exec {program} "$@"', "bash"))
    program.unlink()
    program.write_text(f"#!/bin/sh\necho '{{\"message\": \"the upgraded program\"}}'\nexec {gemmd} \"$@\"\n")
    program.chmod(0o755)
    with ending(daemon):
        replace(daemon, daemon.pid)
        wait_for_line(daemon, "the upgraded program")


@pytest.mark.parametrize("script, says", [
    ("exit 7", "exited with status 7"),
    ("kill -SEGV $$", "was ended by signal 11"),
    ("exec sleep 600", "was not ready within --takeover-timeout"),
    (None, "cannot start"),
    ('exec {gemmd} "$@" --nosuch', "--nosuch is not an option"),
    ('exec {gemmd} "$@" --listen 127.0.0.1:1', "127.0.0.1:1"),
])
def test_a_program_that_does_not_start_changes_nothing(script, says, start, gemmd, tmp_path):
    program, path = tmp_path / "gemmd", str(tmp_path / "gemmd.sock")
    if says == "127.0.0.1:1":
        taken = socket.create_server(("127.0.0.1", 0))
        says = "127.0.0.1:%d" % taken.getsockname()[1]
        script = script.replace("127.0.0.1:1", says)
    shutil.copy(gemmd, program)
    hangs = "sleep" in str(script)
    daemon = start("--takeover-timeout", "500ms" if hangs else "600s",
                   listen=("127.0.0.1:0", f"unix:{path}"),
                   wrapper=("bash", "-c", f'shift; exec {program} "$@"', "bash"))
    program.unlink()
    if script is None:
        program.write_bytes(b"\x7fELF, but not a program")
    else:
        program.write_text("#!/bin/bash\n" + script.format(gemmd=gemmd) + "\n")
    program.chmod(0o755)
    daemon.process.send_signal(signal.SIGUSR2)
    line = wait_for_line(daemon, STAYS)
    assert says in line
    assert exchange(daemon.address, GOOD).status == 200
    assert exchange(path, GOOD).status == 200, "its file is still there"
    assert b"\ngemmd_handover_failures_total 1\n" in exchange(daemon.address, request("GET", "/metrics")).body
    if hangs:
        return  # the time limit may be too short for the program under a sanitizer
    shutil.copy(gemmd, tmp_path / "good")
    os.replace(tmp_path / "good", program)
    with ending(daemon):
        replace(daemon, daemon.pid)  # the next attempt succeeds
        assert exchange(path, GOOD).status == 200


def has_ended(pid):
    """Whether a process is gone, or waits for whoever has inherited it to ask for its status."""
    try:
        stat_line = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return True
    return stat_line.rpartition(")")[2].split()[0] in ("Z", "X")


def test_a_drain_ends_the_new_process(start, gemmd, tmp_path):
    program = tmp_path / "gemmd"
    shutil.copy(gemmd, program)
    daemon = start(wrapper=("bash", "-c", f'shift; exec {program} "$@"', "bash"))
    program.unlink()
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    daemon.process.send_signal(signal.SIGUSR2)
    pid = int(re.search(r"as pid (\d+)", wait_for_line(daemon, "to take over"))[1])
    daemon.process.send_signal(signal.SIGUSR2)
    wait_for_line(daemon, "SIGUSR2 is ignored: the daemon is starting a new process already")
    daemon.stop()
    wait_until(lambda: has_ended(pid), lambda: f"process {pid} goes on")


def test_the_service_manager_learns_the_main_process(start, tmp_path):
    path = str(tmp_path / "notify.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(PATIENCE_S)
        daemon = start(environment={"NOTIFY_SOCKET": path})
        assert "READY=1" in manager.recv(4096).decode()
        with ending(daemon):
            pid = replace(daemon, daemon.pid)
            # The new process says nothing before it is the main process.
            assert manager.recv(4096).decode().splitlines()[:2] == [f"MAINPID={pid}", "READY=1"]
            daemon.session.close()
            assert daemon.process.wait(PATIENCE_S) == 0
            # STOPPING=1 of the old process would end the service.
            os.kill(pid, signal.SIGTERM)
            assert "STOPPING=1" in manager.recv(4096).decode()
            daemon.wait_for(lambda lines: [line.get("message") for line in lines].count("drained") == 2,
                            "the ends of both processes")


def test_sockets_of_the_service_manager_are_handed_on(start):
    """They are served in place of the default address, by every process in turn."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        fd = listener.fileno()
        script = f'exec 3<&{fd}; LISTEN_FDS=1 LISTEN_PID=$$ exec "$@"'
        daemon = start(listen=None, wrapper=("bash", "-c", script, "bash"), pass_fds=(fd,),
                       ready=False)
        daemon.wait_until_listening()
        address = listener.getsockname()
        with ending(daemon):
            pid = replace(daemon, replace(daemon, daemon.pid))
            assert exchange(address, GOOD).status == 200
            os.kill(pid, signal.SIGHUP)
            wait_for_line(daemon, "reloaded")  # which the last process says after its other lines
            listening = [line for line in daemon.messages() if line.startswith("listening on")]
            assert listening == ["listening on 127.0.0.1:%d" % address[1]] * 3
            assert not any("--listen" in line for line in daemon.messages())
