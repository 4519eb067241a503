"""A gemmd process of a test's own: started on a free port, stopped by SIGTERM, checked at its end."""

import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time

import requests

from patience import PATIENCE_S, wait_until

SANITIZER = re.compile(
    r"(AddressSanitizer|LeakSanitizer|ThreadSanitizer|UndefinedBehaviorSanitizer|runtime error:)"
)
# Variables that set the size of tests. The daemon refuses variables that it does not know.
OWN_VARIABLES = ("GEMMD_OVERLOAD_SECONDS", "GEMMD_SAME_BYTES_REQUESTS", "GEMMD_TINY_TENSORS")
# For a daemon that must wait for a body while a test does other things. By default the daemon ends a request
# of which little has arrived after 5 seconds.
PATIENT = ("--min-body-rate", "0")


class DaemonFailed(Exception):
    """The daemon did something no test asked it to do; the message holds what it wrote."""


class Daemon:
    """`arguments` follow --listen; `listen` is None where the daemon must choose by itself."""

    def __init__(self, gemmd, *arguments, listen=("127.0.0.1:0",), environment=None, pass_fds=(),
                 wrapper=()):
        command = [*wrapper, str(gemmd)]
        for address in listen or ():
            command += ["--listen", address]
        command += [str(argument) for argument in arguments]
        self.command = command
        self.lines = []  # what it logged, parsed where it is JSON
        self._news = threading.Condition()
        self._stderr = tempfile.TemporaryFile(mode="w+", errors="replace")
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._stderr,
            text=True, errors="replace", pass_fds=pass_fds,
            env={**{name: value for name, value in os.environ.items() if name not in OWN_VARIABLES},
                 "GEMMD_TOUCH_SHARE": "0",  # memory that no test uses would be allocated in each of thousands of daemons
                 **(environment or {})})
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.addresses = []
        self.session = requests.Session()

    def _read(self):
        for line in self.process.stdout:
            try:
                entry = json.loads(line)
            except ValueError:
                entry = {"message": line.rstrip("\n"), "text": True}
            with self._news:
                self.lines.append(entry)
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    @property
    def pid(self):
        return self.process.pid

    def stderr(self):
        self._stderr.seek(0)
        return self._stderr.read()

    def messages(self):
        with self._news:
            return [str(line.get("message", "")) for line in self.lines]

    def wait_for(self, condition, what):
        """Waits until `condition(self.lines)` gives something true, and returns it."""
        deadline = time.monotonic() + PATIENCE_S
        with self._news:
            while True:
                found = condition(self.lines)
                if found:
                    return found
                # Nothing comes any more once the reader has ended.
                if not self._reader.is_alive() or time.monotonic() > deadline:
                    raise DaemonFailed(f"waited for {what}; {self._report()}")
                self._news.wait(0.1)

    def wait_until_listening(self, count=1):
        def addresses(lines):
            found = [re.search(r"listening on (\S+)", str(line.get("message", "")))
                     for line in lines]
            found = [match.group(1) for match in found if match]
            return found if len(found) >= count else None

        self.addresses = self.wait_for(addresses, f"{count} listening line(s)")
        return self

    def wait_until_ready(self):
        """Waits until /readyz answers with 200. A daemon that replaces itself may end the connection without an
        answer, and so may one whose limits this process is too slow for."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                status = self.session.get(f"{self.url}/readyz", timeout=PATIENCE_S).status_code
            except requests.ConnectionError as error:
                status = error
            if status == 200:
                return self
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise DaemonFailed(f"/readyz stays {status}; {self._report()}")
            time.sleep(0.05)

    @property
    def address(self):
        """(host, port) of the first TCP address."""
        for address in self.addresses:
            if not address.startswith("unix:"):
                host, _, port = address.rpartition(":")
                return host.strip("[]"), int(port)
        raise DaemonFailed(f"no TCP address among {self.addresses}")

    @property
    def url(self):
        host, port = self.address
        return f"http://{host}:{port}" if ":" not in host else f"http://[{host}]:{port}"

    def descriptors(self, kind=""):
        """The number of open descriptors whose target in /proc begins with `kind`, "socket:" for instance."""
        count = 0
        for name in os.listdir(f"/proc/{self.pid}/fd"):
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                count += os.readlink(f"/proc/{self.pid}/fd/{name}").startswith(kind)
        return count

    def assert_descriptors(self, expected, kind=""):
        """No more are open than `expected`, once the connections that have ended are closed too:
        the metrics stop counting a connection just before its descriptor is closed."""
        wait_until(lambda: self.descriptors(kind) <= expected,
                   lambda: f"{self.descriptors(kind)} descriptors ({kind or 'of any kind'}) instead of {expected}")

    @contextlib.contextmanager
    def suspended(self):
        """No thread of the daemon runs meanwhile. A connection that is made and written to waits in the
        backlog with its bytes, so that no time passes for the daemon between the two."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            wait_until(self._is_suspended, "the daemon's threads to stop")
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def _is_suspended(self):
        states = set()
        with contextlib.suppress(FileNotFoundError):  # a thread has ended
            for thread in os.listdir(f"/proc/{self.pid}/task"):
                with open(f"/proc/{self.pid}/task/{thread}/stat", encoding="ascii", errors="replace") as stat:
                    states.add(stat.read().rpartition(")")[2].split()[0])
            return states == {"T"}
        return False

    def _report(self):
        code = self.process.poll()
        state = "still running" if code is None else f"exit status {code}"
        return (f"{' '.join(self.command)}: {state}\n"
                + "\n".join(str(line) for line in self.lines[-20:]) + "\n" + self.stderr()[-8000:])

    def wait(self):
        """Waits for the process to end by itself; returns its exit status."""
        try:
            code = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise DaemonFailed(f"does not end; {self._report()}") from None
        self._reader.join(PATIENCE_S)
        self.check_sanitizers()
        return code

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def stop(self):
        """SIGTERM; whatever the test did, the daemon ends with status 0 and a clean report."""
        self.session.close()
        if self.process.poll() is None:
            self.terminate()
        code = self.wait()
        if code != 0:
            raise DaemonFailed(f"did not end with status 0; {self._report()}")

    def check_sanitizers(self):
        if SANITIZER.search(self.stderr()):
            raise DaemonFailed(f"a sanitizer reported; {self._report()}")

    def close(self):
        """The fixture's last act, after stop() or a failure."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._reader.join(PATIENCE_S)
        self.process.stdout.close()
        self._stderr.close()
