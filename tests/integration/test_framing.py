"""How a request is framed: lengths, encodings and connections that no good client makes."""

import socket
import struct

import numpy as np
import pytest

from problem import assert_problem
from wire import Wire, exchange, request

OCTETS = ("Content-Type", "application/octet-stream")
BODY = np.arange(8, dtype=np.float32).tobytes()
RIGHT = np.array([6, 7, 26, 31], np.float32).tobytes()
TARGET = "/gemm?m=2&n=2&k=2"


def good(body=BODY):
    return request("POST", TARGET, [OCTETS, ("Content-Length", len(body))], body)


def chunked(*chunks, last=b"0\r\n\r\n"):
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + last


@pytest.fixture
def kept(address):
    """A connection that is there before the bad one comes, and must outlive it."""
    with Wire(address) as wire:
        wire.send(good())
        assert wire.receive().body == RIGHT
        yield wire


@pytest.fixture(autouse=True)
def goes_on(kept, address):
    """Whatever was refused, a connection from before and a new one are served."""
    yield
    kept.send(good())
    assert kept.receive().body == RIGHT, "the connection from before"
    assert exchange(address, good()).body == RIGHT, "a new connection"


@pytest.mark.parametrize("headers", [
    [("Content-Length", 32), ("Content-Length", 32)],
    [("Content-Length", 32), ("Content-Length", 31)],
    [("Content-Length", 0), ("Content-Length", 32)],
    [("Content-Length", 32), ("content-length", 32)],
], ids=["the same", "another", "zero first", "other case"])
def test_content_length_twice(headers, address):
    assert_problem(exchange(address, request("POST", TARGET, [OCTETS, *headers], BODY)), 400,
                   "Content-Length")


@pytest.mark.parametrize("value", ["-1", "-32", "abc", "32abc", "0x20", "3.2e1", "32, 32", "+32",
                                   "", "99999999999999999999999999"])
def test_content_length_is_no_number(value, address):
    answer = exchange(address, request("POST", TARGET, [OCTETS, ("Content-Length", value)], BODY))
    assert answer.status in (400, 413), answer
    assert answer.status == 400 or value.isdigit()


def test_neither_length_nor_chunks(address):
    assert_problem(exchange(address, request("POST", TARGET, [OCTETS])), 400, "0 bytes|Content-Len")


@pytest.mark.parametrize("first", ["length", "encoding"])
def test_length_and_chunks(first, address):
    headers = [("Content-Length", 32), ("Transfer-Encoding", "chunked")]
    if first == "encoding":
        headers.reverse()
    answer = exchange(address, request("POST", TARGET, [OCTETS, *headers], chunked(BODY)))
    assert_problem(answer, 400, "Content-Length.*Transfer-Encoding|Transfer-Encoding.*Content-Len")


@pytest.mark.parametrize("encoding", ["gzip", "xchunked", "chunked, gzip", "identity"])
def test_unknown_transfer_encoding(encoding, address):
    answer = exchange(address, request("POST", TARGET, [OCTETS, ("Transfer-Encoding", encoding)],
                                       chunked(BODY)))
    assert answer.status in (400, 501)
    assert_problem(answer, answer.status, "Transfer-Encoding")


def test_two_hosts(address):
    answer = exchange(address, request("POST", TARGET, [
        OCTETS, ("Host", "other"), ("Content-Length", 32)], BODY))
    assert_problem(answer, 400, "Host")


def test_nothing_is_smuggled(address):
    """What follows a refused request on its connection is never taken for another one."""
    with Wire(address) as wire:
        wire.try_to_send(request("POST", TARGET, [
            OCTETS, ("Content-Length", 32), ("Content-Length", 0)], BODY + good()))
        assert wire.receive().status == 400
        assert wire.closed()


@pytest.mark.parametrize("sizes", [[32], [1] * 32, [5, 20, 7], [31, 1]], ids=str)
def test_chunked(sizes, address):
    """Chunked bodies are taken, whatever their cuts."""
    pieces, rest = [], BODY
    for size in sizes:
        pieces.append(rest[:size])
        rest = rest[size:]
    headers = [OCTETS, ("Transfer-Encoding", "chunked")]
    with Wire(address) as wire:
        for _ in range(2):  # and the connection is kept
            wire.send(request("POST", TARGET, headers, chunked(*pieces)))
            answer = wire.receive()
            assert (answer.status, answer.body) == (200, RIGHT)


@pytest.mark.parametrize("body", [BODY[:31], BODY + b"\0", b""], ids=["short", "long", "empty"])
def test_chunked_of_wrong_length(body, address):
    data = chunked(body) if body else b"0\r\n\r\n"
    answer = exchange(address, request("POST", TARGET, [OCTETS, ("Transfer-Encoding", "chunked")],
                                       data))
    assert_problem(answer, 400, rf"{len(body)} bytes|more than the 32 bytes")


@pytest.mark.parametrize("data", [b"zz\r\n", b"-5\r\nabcde\r\n0\r\n\r\n",
                                  b"ffffffffffffffffff\r\n", b"5\r\nabcdeXX\r\n"])
def test_bad_chunks(data, address):
    """No answer is promised for what cannot be read, but the connection ends."""
    with Wire(address) as wire:
        wire.try_to_send(request("POST", TARGET, [OCTETS, ("Transfer-Encoding", "chunked")], data))
        try:
            assert wire.receive().status in (400, 413)
        except ConnectionResetError:
            return
        assert wire.closed()


@pytest.mark.parametrize("data", [
    b"\r\n\r\n", b"GARBAGE\r\n\r\n", b"POST\r\n\r\n", b"POST /gemm\r\n\r\n", bytes(64) + b"\r\n\r\n",
    b"POST /gemm HTTP/9.9\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 8,
    b"GET /livez HTTP/1.1\r\n\r\n", b"GET " + b"/" * 100000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X-%d: y\r\n" % 1 * 10000 + b"\r\n",
], ids=["empty lines", "one word", "no target", "HTTP/0.9", "zeros", "HTTP/9.9", "TLS", "no host",
        "long target", "many headers"])
def test_not_http(data, start):
    """Refused or ended, at the latest when the headers are due; never answered with a 2xx."""
    daemon = start("--header-timeout", "300ms")
    with Wire(daemon.address) as wire:
        wire.try_to_send(data)
        try:
            assert wire.receive().status >= 400
        except (ConnectionResetError, BrokenPipeError):
            pass
    assert exchange(daemon.address, good()).body == RIGHT


@pytest.mark.parametrize("sent", [0, 1, 16, 31])
@pytest.mark.parametrize("how", ["close", "reset", "half"])
def test_client_leaves_in_the_middle(sent, how, address):
    with Wire(address) as wire:
        wire.send(request("POST", TARGET, [OCTETS, ("Content-Length", 32)], BODY[:sent]))
        if how == "reset":
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif how == "half":
            wire.socket.shutdown(socket.SHUT_WR)
            try:
                assert wire.receive().status >= 400
            except ConnectionResetError:
                pass


def test_client_leaves_before_its_answer(address):
    size = 600
    body = np.ones((2, size, size), np.float32).tobytes()
    with Wire(address) as wire:
        wire.send(request("POST", f"/gemm?m={size}&n={size}&k={size}",
                          [OCTETS, ("Content-Length", len(body))], body))


def test_body_in_small_pieces(address):
    with Wire(address) as wire:
        data = good()
        for i in range(0, len(data), 3):
            wire.send(data[i:i + 3])
        assert wire.receive().body == RIGHT


def test_pipelined_requests(address):
    """Answers come in the order of the requests."""
    scaled = request("POST", TARGET + "&alpha=2", [OCTETS, ("Content-Length", 32)], BODY)
    with Wire(address) as wire:
        wire.send((good() + scaled) * 3)
        for _ in range(3):
            assert wire.receive().body == RIGHT
            assert wire.receive().body == (2 * np.frombuffer(RIGHT, np.float32)).tobytes()
