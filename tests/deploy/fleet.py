"""HAProxy with the configuration of deploy/haproxy, the daemons behind it, and a load by libgemmd."""

import csv
import io
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

from conftest import DEPLOY
from daemon import Daemon
from patience import PATIENCE_S, wait_until
from reserved_port import ReservedPort

CONFIGURATION = DEPLOY / "haproxy" / "haproxy.cfg"
SERVERS = re.compile(r"^    server gemmd\d .*\n", re.M)


class HAProxy:
    """HAProxy as a service manager runs it: a master, which starts a new worker at a reload.

    The configuration is the file of deploy/haproxy with other addresses and other servers, and with more time
    for a health check, which a daemon on a loaded machine may need. `servers` holds the numbers of the
    servers and their addresses. `edit` changes the configuration's text, and `variables` are those of the
    environment."""

    def __init__(self, folder, servers, edit=lambda text: text, variables=None):
        self.folder, self.servers, self.edit = folder, dict(servers), edit
        self.file, self.socket = folder / "haproxy.cfg", folder / "admin.sock"
        self.ports = [ReservedPort() for _ in range(3)]
        self.port, self.statistics, metrics = (port.number for port in self.ports)
        self.places = {":8080\n    # TLS": f"127.0.0.1:{self.port}\n    # TLS",
                       "bind 127.0.0.1:8404": f"bind 127.0.0.1:{self.statistics}",
                       "bind :8404": f"bind 127.0.0.1:{self.statistics}",
                       "127.0.0.1:8405": f"127.0.0.1:{metrics}",
                       "    timeout check 2s\n": f"    timeout check {PATIENCE_S}s\n",
                       "/run/haproxy/admin.sock mode": f"{self.socket} mode",
                       "/dev/log local0": "stdout format raw local0",
                       "    user haproxy\n    group haproxy\n": ""}
        self.write()
        self.log = open(folder / "haproxy.log", "w+", encoding="utf-8")
        self.process = subprocess.Popen(["haproxy", "-W", "-f", self.file], stdout=self.log, stderr=self.log,
                                        stdin=subprocess.DEVNULL, env={**os.environ, **(variables or {})})
        try:
            self.wait_for_worker(None)
        except BaseException:
            self.stop()
            raise

    def write(self):
        text = CONFIGURATION.read_text()
        for shipped, here in self.places.items():
            assert text.count(shipped) == 1, shipped
            text = text.replace(shipped, here)
        backends = re.split(r"^(?=backend )", text, flags=re.M)
        for index, (head, tracks) in enumerate((("backend gemmd\n", False),
                                                ("backend gemmd_tensors\n", True)), 1):
            assert backends[index].startswith(head) and len(SERVERS.findall(backends[index])) == 3
            lines = "".join(f"    server gemmd{number} {address} id {number}"
                            + (f" track gemmd/gemmd{number}" if tracks else "") + "\n"
                            for number, address in sorted(self.servers.items()))
            at = SERVERS.search(backends[index]).start()
            backends[index] = (backends[index][:at] + lines
                               + SERVERS.sub("", backends[index][at:]))
        self.file.write_text(self.edit("".join(backends)))

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def ask(self, command):
        """Sends a command to the runtime socket."""
        with socket.socket(socket.AF_UNIX) as wire:
            wire.settimeout(PATIENCE_S)
            wire.connect(str(self.socket))
            wire.sendall(command.encode() + b"\n")
            parts = []
            while part := wire.recv(65536):
                parts.append(part)
        return b"".join(parts).decode()

    def worker(self):
        """The pid of the worker that serves now; None while there is none."""
        try:
            return re.search(r"^Pid: (\d+)", self.ask("show info"), re.M)[1]
        except (OSError, TypeError):
            return None

    def wait_for_worker(self, before):
        def is_there():
            assert self.process.poll() is None, self.log_text()
            return self.worker() not in (None, before)
        wait_until(is_there, "a worker of HAProxy")

    def reload(self):
        """What `systemctl reload haproxy` does."""
        before = self.worker()
        self.write()
        self.process.send_signal(signal.SIGUSR2)
        self.wait_for_worker(before)

    def show(self):
        """The statistics of every server, by backend and server."""
        rows = csv.DictReader(io.StringIO(self.ask("show stat").lstrip("# ")))
        return {(row["pxname"], row["svname"]): row for row in rows}

    def requests_by_server(self):
        """How many requests with resident tensors each server has had from this worker."""
        return {number: int(self.show()["gemmd_tensors", f"gemmd{number}"]["stot"])
                for number in self.servers}

    def in_flight(self, number):
        rows = self.show()
        return sum(int(rows[backend, f"gemmd{number}"]["scur"])
                   for backend in ("gemmd", "gemmd_tensors"))

    def wait_for_status(self, number, *statuses):
        wait_until(lambda: all(self.show()[backend, f"gemmd{number}"]["status"].startswith(statuses)
                               for backend in ("gemmd", "gemmd_tensors")),
                   f"gemmd{number} to be {statuses}")

    def log_text(self):
        self.log.flush()
        return (self.folder / "haproxy.log").read_text(encoding="utf-8")

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.log.close()
            for port in self.ports:
                port.close()


class Member:
    """A daemon of the fleet, which keeps its port."""

    def __init__(self, gemmd, arguments):
        self.gemmd, self.arguments, self.port = gemmd, arguments, ReservedPort()
        self.daemon, self.pid = None, None
        self.start()

    @property
    def address(self):
        return self.port.address

    def start(self):
        self.daemon = Daemon(self.gemmd, "--backend", "cpu", *self.arguments, listen=(self.address,))
        self.daemon.wait_until_listening().wait_until_ready()
        self.daemon.session.close()
        self.pid = self.daemon.pid

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        self.daemon.process.wait(PATIENCE_S)
        self.daemon.close()

    def upgrade(self, program):
        """What installing a package does: a new file in place of the old one, then SIGUSR2. Returns
        once the old process has ended."""
        new = self.gemmd.with_suffix(".new")
        shutil.copy2(program, new)
        new.rename(self.gemmd)
        self.replace()
        assert os.stat(f"/proc/{self.pid}/exe").st_ino == self.gemmd.stat().st_ino

    def replace(self):
        """SIGUSR2: returns once the old process has ended."""
        after = len(self.daemon.lines)
        os.kill(self.pid, signal.SIGUSR2)

        def takeover(lines):
            found = (re.search(r"the new process, pid (\d+), has the listening sockets",
                               str(line.get("message"))) for line in lines[after:])
            return next((match for match in found if match), None)

        old, self.pid = self.pid, int(self.daemon.wait_for(takeover, "the new process")[1])
        wait_until(lambda: self.daemon.process.poll() is not None or not alive(old),
                   "the old process to end")

    def stop(self):
        """SIGTERM: the daemon drains and ends with status 0."""
        if self.pid == self.daemon.pid:
            self.daemon.stop()
        else:
            os.kill(self.pid, signal.SIGTERM)
            self.daemon.stop()  # returns when the last process has closed the log
        self.daemon.close()


def alive(pid):
    try:
        os.kill(pid, 0)
        return True
    except ProcessLookupError:
        return False


class Load:
    """gemmd-fleet-load, which compares every answer with the right one."""

    def __init__(self, program, url, threads=2, in_flight=16, tensors=60):
        assert pathlib.Path(program).exists(), f"{program} is not built (-DGEMMD_TESTS=ON)"
        self.process = subprocess.Popen(
            [program, url, str(threads), str(in_flight), str(tensors)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.counts, self.errors, self.news = {}, [], threading.Condition()
        self.readers = [threading.Thread(target=self.read_counts, daemon=True),
                        threading.Thread(target=self.read_errors, daemon=True)]
        for reader in self.readers:
            reader.start()
        self.wait_for_answers(1)

    def read_counts(self):
        for line in self.process.stdout:
            with self.news:
                self.counts = json.loads(line)
                self.news.notify_all()
        with self.news:
            self.news.notify_all()

    def read_errors(self):
        self.errors.extend(self.process.stderr)

    def wait_for_answers(self, count, seconds=0.0):
        """Waits for further answers, and for a time at least."""
        deadline = time.monotonic() + max(3 * PATIENCE_S, seconds)
        until = time.monotonic() + seconds
        with self.news:
            wanted = self.counts.get("answered", 0) + count
            while self.counts.get("answered", 0) < wanted or time.monotonic() < until:
                assert self.process.poll() is None, f"the load ended: {self.errors[-5:]}"
                assert time.monotonic() < deadline, f"the load stands still: {self.counts}"
                self.news.wait(0.1)

    def stop(self):
        """Ends the load once its requests in flight are answered, and returns the counts."""
        self.process.stdin.close()
        try:
            self.process.wait(6 * PATIENCE_S)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            for reader in self.readers:
                reader.join(PATIENCE_S)
            self.process.stdout.close()
            self.process.stderr.close()
        return self.counts
