"""Input and output calls of a serving daemon fail in turn. Each request ends
with an answer or the end of its connection, the daemon goes on, and nothing is left behind."""

import errno
import mmap
import re
import socket
import ssl
import struct
import uuid

import numpy as np
import pytest

from certificates import Authority
from daemon import PATIENCE_S, PATIENT
from oracle import LONG_DRAIN, Oracle, answers
from patience import wait_until
from wire import Wire, exchange, request

# The numbers of tests/faults/fail_io.c.
ACCEPT, RECEIVE, SEND, WAIT, LOG = range(5)
SHORT = 0  # the call transfers one byte
ALL = 1 << 40  # more calls than a request causes
SIDE = 160  # the answer of 100 KiB is sent in parts
OCTETS, CLOSE = ("Content-Type", "application/octet-stream"), ("Connection", "close")
BODY = np.ones(2 * SIDE * SIDE, np.float32).tobytes()
PRODUCT = request("POST", f"/gemm?m={SIDE}&n={SIDE}&k={SIDE}",
                  [OCTETS, CLOSE, ("Content-Length", len(BODY))], BODY)
RESULT = np.full(SIDE * SIDE, SIDE, np.float32).tobytes()


class Plan:
    """The plan of tests/faults/fail_io.c."""

    def __init__(self, path):
        path.write_bytes(bytes(40))
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 40)

    def arm(self, call, error, left, to_fail):
        self.map[:24] = struct.pack("3q", call, error, left)
        self.map[32:40] = bytes(8)
        self.map[24:32] = struct.pack("q", to_fail)

    def disarm(self):
        """Returns how many calls have failed."""
        self.map[24:32] = bytes(8)
        return struct.unpack("q", self.map[32:40])[0]


@pytest.fixture
def plan(tmp_path):
    return Plan(tmp_path / "plan")


@pytest.fixture
def daemon(start, gemmd, plan, tmp_path, sanitized):
    if sanitized:
        pytest.skip("a sanitizer replaces the same calls")
    library = gemmd.parent.parent / "tests/fail_io.so"
    assert library.exists(), f"there is no {library}; the build has to have GEMMD_TESTS"
    return start("--io-threads", "1", *PATIENT, *LONG_DRAIN,
                 listen=("127.0.0.1:0", f"unix:@gemmd-test-{uuid.uuid4().hex}"),
                 environment={"LD_PRELOAD": str(library), "FAIL_IO": str(tmp_path / "plan")})


def product(daemon):
    with Wire(daemon.address) as wire:
        wire.try_to_send(PRODUCT)
        try:
            return answers(wire)
        except ConnectionError:
            return b""


def is_result(received):
    return received.startswith(b"HTTP/1.1 200") and received.endswith(b"\r\n\r\n" + RESULT)


# The errors that a call may end with, after which a connection goes on; and those that end it. A
# short transfer over a socket is not among them: epoll(7) promises that the socket is empty or full
# after one, so test_short_transfers makes the kernel do them.
FAULTS = {
    "accept": (ACCEPT, (errno.EMFILE, errno.ENFILE, errno.ECONNABORTED, errno.EINTR, errno.ENOMEM), ()),
    "receive": (RECEIVE, (errno.EINTR,), (errno.ECONNRESET,)),
    "send": (SEND, (errno.EINTR,), (errno.ECONNRESET, errno.EPIPE)),
    "wait": (WAIT, (errno.EINTR,), ()),
}


def dropped_lines(daemon):
    body = exchange(daemon.address, request("GET", "/metrics", [CLOSE])).body.decode()
    return float(re.search(r"^gemmd_log_dropped_lines_total (\S+)$", body, re.M)[1])


@pytest.mark.parametrize("call", FAULTS)
def test_a_failed_call(call, daemon, plan):
    """A fault that is not fatal to the connection changes no byte of the answer."""
    number, passing, fatal = FAULTS[call]
    oracle, all_failed = Oracle(daemon), 0
    for error in passing + fatal:
        lost = 0
        for left in range(4):
            plan.arm(number, error, left, 1)
            received = product(daemon)
            failed = plan.disarm()
            all_failed += failed
            if error in passing or not failed:
                assert is_result(received), (error, left, failed, received[:400])
            else:
                assert received == b"" or received.startswith(b"HTTP/1.1 200"), (error, left, received[:400])
                lost += not is_result(received)  # the call may follow the answer
        assert lost > 0 or error in passing, (error, "no fault had an effect")
    assert all_failed > 0, "no call was reached"
    assert is_result(product(daemon))
    oracle.check()
    oracle.check_exit()


def test_short_transfers(daemon):
    """The request arrives in pieces, and the client's receive buffer is small."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.settimeout(PATIENCE_S)
        client.connect(daemon.address)
        sent = 0
        while sent < len(PRODUCT):
            size = 1 if sent < 200 else 3001
            client.sendall(PRODUCT[sent:sent + size])
            sent += size
        received = b""
        while piece := client.recv(1000):
            received += piece
    assert is_result(received)
    daemon.stop()


def test_accepting_begins_again(daemon, plan):
    """While no descriptor is left, connections wait in the backlog."""
    plan.arm(ACCEPT, errno.EMFILE, 0, 3)
    assert is_result(product(daemon))
    assert plan.disarm() == 3
    daemon.wait_for(lambda lines: any("cannot accept" in str(line["message"]) for line in lines), "the line about it")
    daemon.stop()


def test_a_full_disk_loses_lines_of_the_log_only(daemon, plan):
    for error in (errno.ENOSPC, errno.EIO):
        before = dropped_lines(daemon)
        plan.arm(LOG, error, 0, ALL)
        for _ in range(3):
            assert is_result(product(daemon))
        wait_until(lambda: dropped_lines(daemon) > before, "a line to be dropped")
        assert plan.disarm() > 0
    daemon.wait_for(lambda lines: any("lines of the log were lost" in str(line["message"])
                                      for line in lines), "the line about lost lines")
    daemon.stop()


def test_short_writes_of_the_log_lose_nothing(daemon, plan):
    plan.arm(LOG, SHORT, 0, 100)
    assert is_result(product(daemon))
    daemon.wait_for(lambda lines: any("/gemm" in str(line) for line in lines), "the product's line")
    assert plan.disarm() == 100
    assert dropped_lines(daemon) == 0
    assert not any(line.get("text") for line in daemon.lines), "each line is whole"
    daemon.stop()


def test_a_408_follows_a_record_that_the_socket_did_not_take(start, gemmd, plan, tmp_path, sanitized):
    """The socket does not take the record of 100 Continue. Since nothing tells the daemon that the socket has room
    again, that record waits in GnuTLS until the body is late. The client receives it, and then the answer."""
    if sanitized:
        pytest.skip("a sanitizer replaces the same calls")
    authority = Authority(tmp_path)
    certificate, key = authority.server()
    daemon = start("--io-threads", "1", "--body-timeout", "2s", "--min-body-rate", "0", *LONG_DRAIN,
                   "--tls-cert", certificate, "--tls-key", key, ready=False,
                   environment={"LD_PRELOAD": str(gemmd.parent.parent / "tests/fail_io.so"),
                                "FAIL_IO": str(tmp_path / "plan")}).wait_until_listening()
    context = ssl.create_default_context(cafile=authority.certificate)
    with socket.create_connection(daemon.address, timeout=PATIENCE_S) as plain, \
            context.wrap_socket(plain, server_hostname="localhost") as client:
        client.sendall(request("GET", "/livez"))
        received = b""
        while not received.endswith(b"}\n"):
            received += client.recv(1 << 16)
        plan.arm(SEND, errno.EAGAIN, 0, 1)
        client.sendall(request("POST", f"/gemm?m={SIDE}&n={SIDE}&k={SIDE}", [
            OCTETS, ("Expect", "100-continue"), ("Content-Length", len(BODY))]))
        received = b""
        try:
            while piece := client.recv(1 << 16):
                received += piece
        except ssl.SSLEOFError:
            pass  # the daemon closes the connection without another record
        assert plan.disarm() == 1, "the call was not reached"
    assert received.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 408 "), received
    assert b"the body did not arrive" in received
    daemon.stop()
