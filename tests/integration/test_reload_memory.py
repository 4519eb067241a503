"""Thousands of reloads, each of which changes something, leave no memory behind."""

import itertools
import json
import re
import signal
import time

import pytest

from certificates import Authority
from patience import wait_until
from wire import Wire, request

# The memory that a reload may leave, and the reloads in each of the parts that are measured. Memory that something
# else takes once, such as a buffer of an I/O thread, is in one part only, so that the part that grew least counts.
BYTES, PART, PARTS, WARM_UP = 10, 600, 3, 400
# The daemon keeps a sample of 250 bytes each second, for 15 minutes (server/observe/history.h).
HISTORY_BYTES = 300


def resident_bytes(daemon):
    with open(f"/proc/{daemon.pid}/status", encoding="ascii") as status:
        return int(re.search(r"^RssAnon:\s+(\d+) kB$", status.read(), re.MULTILINE)[1]) << 10


class Reloads:
    def __init__(self, start, folder, authority):
        self.config, self.tokens = folder / "gemmd.json", folder / "tokens"
        self.pair = folder / "tls.pem", folder / "tls.key"
        self.pairs = [tuple(file.read_bytes() for file in authority.server()) for _ in range(2)]
        self.turns = itertools.count()
        self.done = 0
        self.write(next(self.turns))
        self.daemon = start("--config", self.config, "--token-file", self.tokens, "--tls-cert", self.pair[0],
                            "--tls-key", self.pair[1], listen=("127.0.0.1:0", f"unix:{folder}/gemmd"), ready=False)
        self.daemon.wait_until_listening(2)
        self.wire = Wire(f"{folder}/gemmd")

    def write(self, turn):
        """Another limit in each turn, other tokens in every second, and other certificates in every eighth."""
        self.config.write_text(json.dumps({"max-body": 4096 + turn, "access-log": False,
                                           "log-level": "error" if turn > 0 else "info"}))
        if turn % 2 == 0:
            self.tokens.write_text("alice:the-token-of-alice\n" + "bob:the-token-of-bob\n" * (turn // 2 % 2))
            self.tokens.chmod(0o600)
        if turn % 8 == 0:
            for file, content in zip(self.pair, self.pairs[turn // 8 % 2]):
                file.write_bytes(content)
                file.chmod(0o600)

    def ask(self, path):
        self.wire.send(request("GET", path, [("Authorization", "Bearer the-token-of-alice")]))
        return self.wire.receive().body.decode()

    def counted(self):
        return int(re.search(r'^gemmd_config_reloads_total\{result="success"\} (\d+)$', self.ask("/metrics"),
                             re.MULTILINE)[1])

    def run(self, count):
        for _ in range(count):
            self.write(next(self.turns))
            self.daemon.process.send_signal(signal.SIGHUP)
            self.done += 1
            wait_until(lambda: self.counted() == self.done, f"reload {self.done}", pause_s=0.001)


def test_reloads_leave_nothing(start, sanitized, tmp_path):
    if sanitized:
        pytest.skip("a sanitizer keeps freed memory for a while")
    reloads = Reloads(start, tmp_path, Authority(tmp_path))
    with reloads.wire:
        reloads.run(WARM_UP)
        growths = []
        for _ in range(PARTS):
            before, begun = resident_bytes(reloads.daemon), time.monotonic()
            reloads.run(PART)
            history = HISTORY_BYTES * (time.monotonic() - begun)
            growths.append(resident_bytes(reloads.daemon) - before - history)
        limits = json.loads(reloads.ask("/info"))["limits"]
        assert limits["max-body"] == 4096 + WARM_UP + PARTS * PART
    assert min(growths) <= BYTES * PART, f"bytes that {PART} reloads left, three times: {growths}"
