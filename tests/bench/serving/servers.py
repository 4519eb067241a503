"""Servers under load: started on a free port, watched through /proc, stopped."""

import os
import re
import subprocess
import time


class Server:
    """A server that prints "listening on ADDRESS" once it listens.

    Attributes: address ("127.0.0.1:PORT"), unix ("unix:PATH" or None), pid, started_s (how long
    it took to listen).
    """

    def __init__(self, command, log):
        began = time.monotonic()
        self._log = open(log, "wb")
        self._process = subprocess.Popen(command, stdout=self._log, stderr=subprocess.STDOUT)
        self.pid = self._process.pid
        self.address, self.unix = None, None
        while self.address is None:
            text = open(log, encoding="utf-8", errors="replace").read()
            found = re.search(r"listening on (127\.0\.0\.1:\d+)", text)
            if found:
                self.address = found.group(1)
            elif self._process.poll() is not None or time.monotonic() - began > 60:
                raise RuntimeError(f"{command[0]} does not start: {text[-400:]}")
            else:
                time.sleep(0.005)
        self.started_s = time.monotonic() - began

    def cpu_seconds(self):
        """User and system time of all its threads so far."""
        fields = open(f"/proc/{self.pid}/stat", encoding="ascii").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self):
        pages = int(open(f"/proc/{self.pid}/statm", encoding="ascii").read().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def stop(self):
        """Asks it to end; returns its status (a daemon that drained: 0)."""
        self._process.terminate()
        try:
            status = self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        self._log.close()
        return status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
