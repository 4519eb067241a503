"""Random conversations with a live daemon, several at a time, beside clients that ask for what is
right. Each conversation has a number; a failure names the seed and the number that repeat it:

    pytest tests/integration/test_fuzzing.py --seed SEED --fuzz-number NUMBER
"""

import contextlib
import itertools
import json
import os
import socket
import threading
import time

import numpy as np
import pytest
import requests

from daemon import PATIENCE_S
from http_grammar import SHARED_KEY, Grammar
from oracle import LONG_DRAIN, Oracle, ask

CONVERSATIONS_AT_A_TIME = 12
# Either the daemon's limits end a connection that its client leaves open, or the client ends it
# and the limits are so long that a connection which stays is noticed.
ENDINGS = {
    "by its limits": ("--header-timeout", "300ms", "--idle-timeout", "300ms", "--body-timeout", "600ms"),
    "by its client": ("--header-timeout", "10m", "--idle-timeout", "10m", "--body-timeout", "10m"),
}
GUARDED = "by its limits, with tokens"
ENDINGS[GUARDED] = ENDINGS["by its limits"]
TOKENS = {"alice": "the-token-of-alice", "bob": "the-token-of-bob"}
LIMITS = ("--timeout", "2s", "--max-timeout", "4s", "--max-wait", "50ms", "--job-ttl", "100ms", "--max-jobs", "16",
          "--max-body", "1M", "--max-json", "64K", "--max-work", "100000000", "--pinned-bytes", "64M",
          "--tensor-bytes", "1M", "--device-bytes", "64M", "--bulk-connections", "4", "--shm-system",
          "--compress-answers", "--no-access-log", "--io-threads", "2")


class Replies:
    """Parses what a daemon sent on one connection. The last answer may be cut off."""

    def __init__(self, data):
        self.rest = data

    def head(self):
        head, end, self.rest = self.rest.partition(b"\r\n\r\n")
        if not end:
            self.rest = b""
            return None
        status, *lines = head.decode("latin-1").split("\r\n")
        assert status.startswith(("HTTP/1.1 ", "HTTP/1.0 ")), status
        headers = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
        return int(status[9:12]), headers

    def skip_chunks(self):
        while self.rest:
            size, end, after = self.rest.partition(b"\r\n")
            count = int(size, 16) if end else 0
            if len(after) < count + 2:
                self.rest = b""
                return
            assert after[count:count + 2] == b"\r\n", after[count:count + 20]
            self.rest = after[count + 2:]
            if count == 0:
                return

    def check(self):
        while self.rest:
            head = self.head()
            if head is None:
                return
            status, headers = head
            assert 100 <= status < 600 and status != 500, head
            if status < 200 or status in (204, 304):
                continue
            if headers.get("transfer-encoding") == "chunked":
                self.skip_chunks()
            else:
                length = headers.get("content-length")
                self.rest = self.rest[int(length):] if length is not None else b""


def connect(daemon, path, is_unix):
    if not is_unix:
        return socket.create_connection(daemon.address, PATIENCE_S)
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(PATIENCE_S)
    connection.connect(path)
    return connection


class Run:
    """Conversations from several threads, until the time is over or one fails."""

    def __init__(self, daemon, path, waits, tokens, seed, numbers, seconds):
        self.daemon, self.path, self.waits, self.seed, self.numbers = daemon, path, waits, seed, numbers
        self.tokens = tokens
        self.until = time.monotonic() + seconds
        self.count, self.failure = 0, None
        self.lock = threading.Lock()

    def goes_on(self):
        return self.failure is None and time.monotonic() < self.until

    def converse(self, number):
        grammar = Grammar(f"{self.seed}/{number}", self.tokens)
        is_unix = grammar.some(0.4)
        with connect(self.daemon, self.path, is_unix) as connection:
            received = grammar.converse(connection, is_unix, self.waits, PATIENCE_S)
        if received is not None:
            Replies(received).check()

    def conversations(self):
        while self.goes_on():
            with self.lock:
                number = next(self.numbers, None)
                self.count += number is not None
            if number is None:
                return
            try:
                self.converse(number)
            except Exception as error:  # of any kind: the seed has to be reported
                self.failure = f"--seed {self.seed} --fuzz-number {number}: {error!r}"

    def right_requests(self):
        """Products with random operands, whose results are compared. The daemon may refuse them for
        the moment, since others use up its limits."""
        choose = np.random.default_rng(self.seed)
        with requests.Session() as session:
            session.headers.update(self.daemon.session.headers)
            while self.goes_on():
                m, n, k = choose.integers(1, 40, 3)
                a, b = choose.integers(-9, 9, (m, k)), choose.integers(-9, 9, (k, n))
                body = a.astype(np.float32).tobytes() + b.astype(np.float32).tobytes()
                try:
                    answer = session.post(f"{self.daemon.url}/gemm?m={m}&n={n}&k={k}", data=body, timeout=PATIENCE_S,
                                          headers={"Content-Type": "application/octet-stream"})
                except requests.ConnectionError:
                    continue  # the limit of an idle connection
                right = answer.status_code == 200 and answer.content == (a @ b).astype(np.float32).tobytes()
                if not right and answer.status_code not in (408, 429, 503):
                    self.failure = f"--seed {self.seed}: a right request got {answer.status_code} {answer.content[:99]}"

    def finish(self):
        threads = [threading.Thread(target=self.conversations) for _ in range(CONVERSATIONS_AT_A_TIME)]
        threads.append(threading.Thread(target=self.right_requests))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert self.failure is None, self.failure


def use_token(daemon, tokens):
    for token in tokens:
        daemon.session.headers["Authorization"] = f"Bearer {token}"


def remove_what_was_asked_for(daemon):
    """Removes the tenant's tensors and regions, which stay until they are deleted. Jobs expire."""
    while names := [tensor["name"] for tensor in json.loads(ask(daemon, "/tensors").body)["tensors"]]:
        for name in names:
            ask(daemon, f"/tensors/{name}", "DELETE", (204, 404))
    ask(daemon, "/v2/systemsharedmemory/unregister", "POST")


@pytest.fixture
def shared_object():
    path = f"/dev/shm{SHARED_KEY}"
    with open(path, "wb") as file:
        file.truncate(4096)
    yield
    with contextlib.suppress(FileNotFoundError):  # another process runs this test with another ending
        os.unlink(path)


@pytest.mark.parametrize("ends", ENDINGS)
def test_random_conversations(ends, start, request, instrumented, tmp_path, shared_object):
    """Each conversation ends within the daemon's limits, right requests get right results meanwhile,
    and afterwards the daemon is as before, idle, and exits when it is told to."""
    option = request.config.option
    path = str(tmp_path / "socket")
    guarded = ()
    if ends == GUARDED:
        file = tmp_path / "tokens"
        file.write_text("".join(f"{tenant}:{token}\n" for tenant, token in TOKENS.items()))
        file.chmod(0o600)
        guarded = ("--token-file", file)
    daemon = start(*LIMITS, *ENDINGS[ends], *LONG_DRAIN, *guarded, listen=("127.0.0.1:0", f"unix:{path}"))
    tokens = list(TOKENS.values()) if guarded else []
    use_token(daemon, tokens[:1])
    oracle = Oracle(daemon)
    one = option.fuzz_number
    seconds = (option.fuzz_seconds or (20 if instrumented else 6)) / len(ENDINGS)
    run = Run(daemon, path, ends != "by its client", tokens, option.seed,
              itertools.count() if one is None else iter([one]), seconds)
    run.finish()
    print(f"{run.count} conversations in {seconds} s")
    for token in reversed(tokens or [None]):
        use_token(daemon, [token] if token else [])
        remove_what_was_asked_for(daemon)
    oracle.check()
    ask(daemon, "/readyz")
    oracle.check_exit()
