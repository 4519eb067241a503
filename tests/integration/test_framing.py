"""How a request is framed: lengths, encodings and connections that no good client makes."""

import re
import socket
import struct

import numpy as np
import pytest

from daemon import PATIENT
from problem import assert_problem
from wire import Wire, exchange, request

pytestmark = pytest.mark.hostile

OCTETS = ("Content-Type", "application/octet-stream")
BODY = np.arange(8, dtype=np.float32).tobytes()
RIGHT = np.array([6, 7, 26, 31], np.float32).tobytes()
TARGET = "/gemm?m=2&n=2&k=2"


@pytest.fixture(name="lenient", scope="module")
def is_lenient(session, url):
    """Whether libmicrohttpd is older than 1.0, so that the daemon checks heads itself. A newer one refuses most
    of these requests before the daemon sees them, with a short page."""
    return session.get(f"{url}/info").json()["build"]["libmicrohttpd"].startswith("0.")


def assert_refused(answer, status, says, lenient):
    """`answer` is a problem document with that status; or a page of libmicrohttpd's own, if the library is not
    lenient or says nothing, whose status may be less exact."""
    if says is not None and (lenient or "problem" in answer.headers.get("content-type", "")):
        assert_problem(answer, status, says)
        assert answer.headers.get("x-request-id"), answer.headers
    elif lenient:
        assert answer.status == status, answer
    else:
        assert answer.status in (status, 400, 501), answer


def good(body=BODY):
    return request("POST", TARGET, [OCTETS, ("Content-Length", len(body))], body)


def refusals(daemon, reason):
    """How many requests the daemon has counted as refused for that reason."""
    text = daemon.session.get(f"{daemon.url}/metrics").text
    return int(re.search(rf'^gemmd_rejected_total{{reason="{reason}"}} (\d+)$', text, re.M)[1])


def logged(daemon, answer):
    """The line of the access log about the request that was answered so."""
    name = answer.headers["x-request-id"]
    return daemon.wait_for(
        lambda lines: [line for line in lines if line.get("request_id") == name],
        f"the log line of {name}")[0]


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


@pytest.fixture(params=["first", "later", "behind another", "in pieces"])
def refused(request, address, lenient):
    """refused(data, status, says): `data` gets a problem document, and the connection ends; as the
    first request of a connection, as a later one, sent together with one before, cut anywhere.
    Without `says` the answer is libmicrohttpd's own: a short page of the same status."""

    def refused(data, status, says=None):
        with Wire(address) as wire:
            if request.param == "later":
                wire.send(good())
                assert wire.receive().body == RIGHT
            if request.param == "behind another":
                data = good() + data
            step = 7 if request.param == "in pieces" and len(data) < 1000 else len(data)
            for i in range(0, len(data), step):
                wire.try_to_send(data[i:i + step])
            if request.param == "behind another":
                assert wire.receive().body == RIGHT
            answer = wire.receive()
            if answer.status == 100:
                answer = wire.receive()
            assert_refused(answer, status, says, lenient)
            assert answer.headers.get("connection") == "close", answer.headers
            assert wire.closed()
        return answer

    return refused


@pytest.mark.parametrize("headers", [
    [("Content-Length", 32), ("Content-Length", 32)],
    [("Content-Length", 32), ("Content-Length", 31)],
    [("Content-Length", 0), ("Content-Length", 32)],
    [("Content-Length", 32), ("content-length", 32)],
], ids=["the same", "another", "zero first", "other case"])
def test_content_length_twice(headers, refused):
    refused(request("POST", TARGET, [OCTETS, *headers], BODY), 400, "more than one Content-Length")


@pytest.mark.parametrize("value", ["-1", "-32", "abc", "32abc", "0x20", "3.2e1", "32, 32", "+32",
                                   "", "-99999999999999999999999999"])
def test_content_length_is_no_number(value, refused):
    refused(request("POST", TARGET, [OCTETS, ("Content-Length", value)], BODY), 400, "Content-Length is not a number")


@pytest.mark.parametrize("value", ["18446744073709551616", "99999999999999999999999999"])
def test_content_length_is_over_64_bits(value, refused):
    refused(request("POST", TARGET, [OCTETS, ("Content-Length", value)], BODY), 413,
            "Content-Length does not fit in 64 bits")


@pytest.mark.parametrize("cookies", [b"a=" + b"c" * 31000, b"a=b; " * 900, b"a=" + b"c" * 20000 + b"; d=e" * 900],
                         ids=["one long", "many", "both"])
def test_cookies_that_do_not_fit(cookies, refused):
    refused(request("GET", "/livez", [("Cookie", cookies.decode())]), 431, "cookies do not fit")


def test_a_refusal_reaches_the_connection_that_it_belongs_to(start):
    """The heads of many connections of one I/O thread are incomplete at the same time. Which of them
    libmicrohttpd refuses is only known from the answers: each has the id that its own request named."""
    daemon = start("--io-threads", "1", "--header-timeout", "10m")
    heads = [b"POST %s HTTP/1.1\r\nHost: x\r\nX-Request-Id: request-%d\r\nContent-Length: %s\r\n"
             % (TARGET.encode(), i, b"abc" if i % 2 else b"32") for i in range(40)]
    wires = [Wire(daemon.address) for _ in heads]
    for wire, head in zip(wires, heads):
        wire.send(head)
    order = [*range(0, 40, 3), *range(1, 40, 3), *range(2, 40, 3)]
    for i in order:
        wires[i].send(b"Content-Type: application/octet-stream\r\n\r\n" + (b"" if i % 2 else BODY))
        with wires[i] as wire:
            answer = wire.receive()
            assert answer.headers.get("x-request-id", f"request-{i}") == f"request-{i}"
            assert (answer.status, answer.body == RIGHT) == ((400, False) if i % 2 else (200, True))
            assert wire.closed() if i % 2 else not wire.buffer


def test_a_malformed_length_is_logged_and_counted(start, lenient):
    if not lenient:
        pytest.skip("libmicrohttpd answers, without an id that the log would have")
    daemon = start()
    answer = exchange(daemon.address, request("POST", TARGET, [OCTETS, ("Content-Length", "abc")]))
    line = logged(daemon, answer)
    assert (line["error"], line["status"]) == ("malformed", 400), line
    assert refusals(daemon, "malformed") == 1


def test_neither_length_nor_chunks(address):
    assert_problem(exchange(address, request("POST", TARGET, [OCTETS])), 400, "0 bytes|Content-Len")


@pytest.mark.parametrize("first", ["length", "encoding"])
def test_length_and_chunks(first, refused):
    headers = [("Content-Length", 32), ("Transfer-Encoding", "chunked")]
    if first == "encoding":
        headers.reverse()
    refused(request("POST", TARGET, [OCTETS, *headers], chunked(BODY)), 400,
            "Content-Length and Transfer-Encoding")


@pytest.mark.parametrize("encoding", ["gzip", "xchunked", "chunked, gzip", "identity"])
def test_unknown_transfer_encoding(encoding, refused):
    refused(request("POST", TARGET, [OCTETS, ("Transfer-Encoding", encoding)], chunked(BODY)), 400,
            "Transfer-Encoding")


def test_two_hosts(refused):
    refused(request("POST", TARGET, [OCTETS, ("Host", "other"), ("Content-Length", 32)], BODY), 400,
            "more than one Host")


@pytest.mark.parametrize("name, values", [
    ("Authorization", ("Bearer one-token", "Bearer another-token")), ("X-Request-Id", ("one", "another")),
    ("Inference-Header-Content-Length", ("1", "2")), ("Content-Type", ("application/x-npy", OCTETS[1])),
    ("If-Match", ('"one"', '"another"')), ("If-None-Match", ("*", '"another"')), ("Gemmd-Memory", ("a", "b")),
    ("Expect", ("100-continue", "other")), ("X-REQUEST-ID", ("the-same", "the-same")),
], ids=lambda value: value if isinstance(value, str) else "")
def test_a_field_twice(name, values, refused):
    """The first of two headers is not more the client's than the second one, so neither of them counts."""
    headers = [*([] if name == "Content-Type" else [OCTETS]), *((name, value) for value in values),
               ("Content-Length", len(BODY))]
    answer = refused(request("POST", TARGET, headers, BODY), 400, f"(?i)more than one {name} header")
    assert answer.headers["x-request-id"] not in values


def test_credentials_twice(start, tmp_path):
    """Two Authorization headers are refused, whichever of them has a valid token."""
    tokens = tmp_path / "tokens"
    tokens.write_text("tenant:the-valid-token\n")
    tokens.chmod(0o600)
    daemon = start("--token-file", str(tokens), ready=False).wait_until_listening()
    for pair in (("the-valid-token", "guessed-token"), ("guessed-token", "the-valid-token"), ("the-valid-token",) * 2):
        headers = [("Authorization", f"Bearer {token}") for token in pair]
        assert_problem(exchange(daemon.address, request("GET", "/info", headers)), 400,
                       "more than one Authorization header")


NPY, SAFETENSORS = "application/x-npy", "application/vnd.safetensors"


@pytest.mark.parametrize("values, expected", [
    ([f"{NPY};q=0.1", SAFETENSORS], SAFETENSORS), ([SAFETENSORS, f"{NPY};q=0.1"], SAFETENSORS),
    (["text/html", NPY], NPY), (["", NPY], NPY), ([f"{NPY};q=0", "*/*", ""], "application/octet-stream"),
    # 4 KiB is the longest list of several fields.
    ([f"{NPY};q=0.1", "text/html," * 400, SAFETENSORS], SAFETENSORS), ([f"{NPY};q=0.1"] + [SAFETENSORS] * 151, NPY)],
    ids=["worse first", "better first", "unknown first", "empty first", "none of one", "long", "too long"])
def test_fields_with_lists_count_together(values, expected, address):
    headers = [OCTETS, *(("Accept", value) for value in values), ("Content-Length", len(BODY))]
    answer = exchange(address, request("POST", TARGET, headers, BODY))
    assert (answer.status, answer.headers["content-type"]) == (200, expected)


def test_accept_of_a_scraper_in_two_fields(address):
    accept = [("Accept", "text/plain;q=0.5"), ("Accept", "application/openmetrics-text; version=1.0.0")]
    answer = exchange(address, request("GET", "/metrics", accept))
    assert answer.headers["content-type"].startswith("application/openmetrics-text")


@pytest.mark.parametrize("version", ["HTTP/1.2", "HTTP/1.9"])
def test_later_minor_versions_are_served_as_1_1(version, address):
    """RFC 9110, 2.5: a request of a higher minor version is processed as one of HTTP/1.1, with all rules of
    HTTP/1.1: connections stay open, chunks are taken, and a Host is needed."""
    def of(data):
        return data.replace(b"HTTP/1.1", version.encode(), 1)

    with Wire(address) as wire:
        for _ in range(2):
            wire.send(of(good()))
            answer = wire.receive()
            assert (answer.status, answer.body) == (200, RIGHT)
            assert "close" not in answer.headers.get("connection", "")
        wire.send(of(request("POST", TARGET, [OCTETS, ("Transfer-Encoding", "chunked")], chunked(BODY))))
        assert wire.receive().body == RIGHT
    with Wire(address) as wire:
        wire.send(f"GET /livez {version}\r\n\r\n".encode())
        assert wire.receive().status == 400


@pytest.mark.parametrize("version", ["HTTP/2.0", "HTTP/0.9", "HTTP/3.0"])
def test_other_major_versions_are_refused(version, address):
    with Wire(address) as wire:
        wire.send(f"GET /livez {version}\r\nHost: x\r\n\r\n".encode())
        assert wire.receive().status == 505
        assert wire.closed()


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
        wire.send(request("POST", TARGET, headers, chunked(*pieces)))
        answer = wire.receive()
        assert (answer.status, answer.body) == (200, RIGHT)


@pytest.mark.parametrize("body", [
    chunked(BODY), b"20\n" + BODY + b"\r\n0\r\n\r\n", b"20\r\n" + BODY + b"\n0\r\n\r\n",
    b"20\r\n" + BODY + b"\r\n0\n\r\n", b"20\r\n" + BODY + b"\r\n0\r\n\n",
    b"20;\n\r\n" + BODY + b"\r\n0\r\n\r\n", b"20;x=\0\r\n" + BODY + b"\r\n0\r\n\r\n",
], ids=["good", "size line", "behind the data", "last chunk", "end", "extension", "zero byte"])
def test_nothing_is_read_behind_chunks_that_were_not_verified(body, lenient, address):
    """libmicrohttpd before 1.0 takes LF alone for the end of a line between chunks. What follows such
    a request on its connection is never taken for a request."""
    with Wire(address) as wire:
        wire.try_to_send(request("POST", TARGET, [OCTETS, ("Transfer-Encoding", "chunked")], body)
                         + good())
        answer = wire.receive()
        assert (answer.status, answer.body == RIGHT) in ((200, True), (400, False))
        if not lenient and answer.status == 200:
            return
        assert answer.headers.get("connection") == "close", answer.headers
        assert wire.closed()


@pytest.mark.parametrize("keeps", [(), (("Connection", "keep-alive"),)], ids=["plain", "kept"])
def test_chunks_in_http_1_0(keeps, refused):
    data = request("POST", TARGET, [OCTETS, ("Transfer-Encoding", "chunked"), *keeps], chunked(BODY))
    refused(data.replace(b"HTTP/1.1", b"HTTP/1.0") + good(), 400, "Transfer-Encoding")


@pytest.mark.parametrize("header", [
    b"Content-Length: 8\x009", b"Content-Length: \x0032", b"Content-Length: 32\0",
    b"Content-Length: 32\0\0", b"X: a\0b", b"X:\0", b"\0X: a", b"\0", b"X\0: a", b"X: a\rb", b"X: a\r",
    b"X:\r", b"X: \r\r", b"Transfer-Encoding: chunked\0x", b"Transfer-Encoding: x\r\nX: \rchunked",
    b"X: a\nContent-Length: 32", b"X: a\n", b"X: a\n\nGET /livez HTTP/1.1", b"X: a\r\n b",
    b"X: a\r\n\tb", b"X: a\r\n \r\nY: b",
], ids=repr)
@pytest.mark.parametrize("last", [b"Y: b\r\n", b""], ids=["in the middle", "at the end"])
def test_header_line_that_others_may_read_differently(header, last, address):
    """A zero byte, a bare CR, a bare LF and a continued line are refused wherever they are. What
    follows is never taken for a request."""
    with Wire(address) as wire:
        wire.send(good())
        assert wire.receive().body == RIGHT
        wire.try_to_send(b"POST " + TARGET.encode() + b" HTTP/1.1\r\nHost: x\r\n" + header + b"\r\n"
                         + last + b"\r\n" + request("GET", "/livez"))
        answer = wire.receive()
        assert answer.status == 400, answer
        assert b" 200 " not in wire.rest()


@pytest.mark.parametrize("line", [
    b"GET  /livez HTTP/1.1", b"GET   /livez HTTP/1.1", b"GET /li vez HTTP/1.1",
    b"GET /livez  HTTP/1.1", b"GET /livez?a b HTTP/1.1", b"GET /livez HTTP/1.1 HTTP/1.1",
    b"GET /livez\0 HTTP/1.1", b"GET /livez\0x HTTP/1.1", b"GET /\0 /livez HTTP/1.1",
    b"GET /livez\r HTTP/1.1", b"GET /livez\x7f HTTP/1.1", b"GET /livez\t HTTP/1.1",
    b"GET\t /livez HTTP/1.1", b"G\0ET /livez HTTP/1.1", b"G(T /livez HTTP/1.1",
], ids=repr)
def test_bad_request_line_on_a_kept_connection(line, address, lenient):
    """The client gets an answer, and what follows is never taken for a request. libmicrohttpd 1.0 closes the
    connection without an answer at a zero byte."""
    with Wire(address) as wire:
        wire.send(good())
        assert wire.receive().body == RIGHT
        wire.try_to_send(line + b"\r\nHost: x\r\n\r\n" + request("GET", "/livez"))
        if lenient or b"\0" not in line:
            assert_refused(wire.receive(), 400, "request line is malformed", lenient)
        assert b" 200 " not in wire.rest()


def test_request_line_that_ends_with_lf_alone(refused):
    refused(b"GET /livez HTTP/1.1\nHost: x\r\n\r\n" + good(), 400, "header line is malformed")


def test_missing_host(refused):
    refused(b"GET /livez HTTP/1.1\r\nX: y\r\n\r\n", 400, "no Host header")


def test_http_1_0_needs_no_host(address):
    assert exchange(address, b"GET /livez HTTP/1.0\r\n\r\n").status == 200


@pytest.mark.parametrize("value", [b"", b" ", b"  32", b"\t32", b"a\tb", b"\xff\x80", b"a:b", b"x" * 9000],
                         ids=["empty", "space", "spaces", "tab", "tab inside", "not ASCII", "colon",
                              "long"])
@pytest.mark.parametrize("step", [1 << 20, 1000, 50])
def test_sound_header_lines(value, step, address):
    """... are taken, however the head is cut, on a new connection and on a kept one."""
    headers = b"X:" + value + b"\r\nCookie: a=b; c=d\r\nX-2:" + value + b"\r\n"
    data = (b"POST " + TARGET.encode() + b"&alpha=%31 HTTP/1.1\r\n" + headers + b"Host: x\r\n"
            b"Content-Length: 32\r\n\r\n" + BODY)
    with Wire(address) as wire:
        for _ in range(2):
            for i in range(0, len(data), step):
                wire.send(data[i:i + step])
            assert wire.receive().body == RIGHT


@pytest.mark.parametrize("body", [BODY[:31], BODY + b"\0", b""], ids=["short", "long", "empty"])
def test_chunked_of_wrong_length(body, address):
    data = chunked(body) if body else b"0\r\n\r\n"
    answer = exchange(address, request("POST", TARGET, [OCTETS, ("Transfer-Encoding", "chunked")],
                                       data))
    assert_problem(answer, 400, rf"{len(body)} bytes|more than the 32 bytes")


@pytest.mark.parametrize("expects", [(), (("Expect", "100-continue"),)], ids=["sent", "expected"])
@pytest.mark.parametrize("data, status", [
    (b"zz\r\n", 400),
    (b"-5\r\nabcde\r\n0\r\n\r\n", 400),
    (b"5\r\nabcdeXX\r\n", 400),
    (chunked(BODY, last=b"0\r\nno colon\r\n\r\n"), 400),
    (b"ffffffffffffffffff\r\n", 413),
], ids=["no size", "negative", "no CRLF behind", "trailer", "over 64 bits"])
def test_bad_chunks(data, status, expects, refused):
    refused(request("POST", TARGET, [OCTETS, ("Transfer-Encoding", "chunked"), *expects], data),
            status)


@pytest.mark.parametrize("data, status", [
    (b"POST /gemm\r\n\r\n", 400),
    (b"GET /livez HTTP/x.y\r\nHost: x\r\n\r\n", 400),
    (b"POST /gemm HTTP/9.9\r\nHost: x\r\n\r\n", 505),
    (b"GET /livez HTTP/1.1\r\n\r\n", 400),
    (b"GET /livez HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n", 400),
    (b"GET /" + b"x" * 100000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
    (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X-1: y\r\n" * 10000 + b"\r\n", 431),
], ids=["HTTP/0.9", "no version", "HTTP/9.9", "no host", "no colon", "long target", "many headers"])
def test_bad_head(data, status, refused):
    refused(data, status)


@pytest.mark.parametrize("data, says", [
    (b"GARBAGE\r\n\r\n", "request line is malformed"),
    (b"POST\r\n\r\n", "request line is malformed"),
    (b"xyz\r\n" + request("GET", "/livez"), "request line is malformed"),
    (b" " + request("GET", "/livez"), "request line is malformed"),
    (bytes(64) + b"\r\n\r\n", "request line is malformed"),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 8, "this is TLS"),
    (b"\x16\x03\x01\x02\x00" + bytes(1 << 20), "this is TLS"),
], ids=["one word", "no target", "a line before", "a space before", "zeros", "TLS", "long"])
def test_not_http(data, says, address):
    """At once, not when the headers are due, and whatever else the client is still sending."""
    with Wire(address) as wire:
        wire.try_to_send(data)
        answer = wire.receive()
        assert_problem(answer, 400, says)
        assert answer.headers["x-request-id"]
        assert wire.closed()


def test_not_http_is_logged_and_counted(start):
    daemon = start()
    line = logged(daemon, exchange(daemon.address, b"GARBAGE\r\n\r\n"))
    assert (line["error"], line["status"]) == ("malformed", 400), line
    assert refusals(daemon, "malformed") == 1


def test_not_http_without_a_token(start, tmp_path):
    """Such a request is kept for the dashboard, as one of no tenant."""
    tokens = tmp_path / "tokens"
    tokens.write_text("alice:the-token-of-alice\nbob:the-token-of-bob\n")
    tokens.chmod(0o600)
    daemon = start("--token-file", tokens, "--metrics-tenant", "alice")
    for data in (b"GARBAGE\r\n\r\n", b"\x16\x03\x01\x02\x00"):
        assert_problem(exchange(daemon.address, data), 400)
    kept = {name: exchange(daemon.address, request("GET", "/dashboard/requests", [
        ("Authorization", f"Bearer the-token-of-{name}")])) for name in ("alice", "bob")}
    assert kept["alice"].body.count(b'"error":"malformed"') == 2
    assert b"malformed" not in kept["bob"].body


@pytest.mark.parametrize("data", [b"\r\n\r\n", b"POST", b"GARBAGE"],
                         ids=["empty lines", "a method", "a word"])
def test_what_may_become_a_request_has_its_time(data, start, lenient):
    daemon = start("--header-timeout", "300ms")
    with daemon.suspended():  # the time of a connection begins when it is accepted, here with its bytes
        wire = Wire(daemon.address)
        wire.send(data)
    with wire:
        if lenient or data.strip():  # libmicrohttpd 1.0 skips one empty line alone, and closes the connection at two
            assert_problem(wire.receive(), 408, "headers did not arrive")
        assert wire.closed()


def test_garbage_behind_a_request_ends_the_connection(address):
    """libmicrohttpd does so without a word; nothing is taken for a request."""
    with Wire(address) as wire:
        wire.send(good())
        assert wire.receive().body == RIGHT
        wire.try_to_send(b"GARBAGE\r\n\r\n" + good())
        assert wire.closed()


@pytest.mark.parametrize("header", [
    b"Content-Length : 32", b"Content-Length\t: 32", b"Content-Length\x0b: 32",
    b"Transfer-Encoding : chunked", b"X y: z", b"Content-Length:\r\n 32",
    b"Content-Length: 3\r\n 2", b"Transfer-Encoding:\r\n chunked", b"X: a\r\n Content-Length: 32",
], ids=repr)
def test_name_that_others_may_read_differently(header, refused):
    """What follows such a head is never taken for a request: others may have seen a body there."""
    refused(b"POST " + TARGET.encode() + b" HTTP/1.1\r\nHost: x\r\n" + header + b"\r\n\r\n" +
            request("GET", "/livez"), 400, "header")


def test_refusal_keeps_the_clients_id(address):
    answer = exchange(address, request("POST", TARGET, [("X-Request-Id", "mine"), ("Content-Encoding", "br")]))
    assert_problem(answer, 415, "Content-Encoding")
    assert answer.headers["x-request-id"] == "mine"


def test_others_on_the_thread_go_on(start):
    """Of many requests that one thread is in the middle of reading, the bad one alone is refused."""
    daemon = start("--io-threads", "1", "--header-timeout", "10m", *PATIENT)
    heads = [(b"POST " + TARGET.encode() + b" HTTP/1.1\r\nHo", b"st: x\r\nContent-Length: 32\r\n\r\n"),
             (b"POST " + TARGET.encode() + b" HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
              None)]
    others = [Wire(daemon.address) for _ in range(12)]
    for i, wire in enumerate(others):  # in the first line, in the headers, in a chunked body, idle
        if i % 4 == 3:
            wire.send(good())
            assert wire.receive().body == RIGHT
        else:
            wire.send(heads[0][0][:9] if i % 4 == 0 else heads[i % 4 - 1][0])
    for bad, status in [(b"GET / HTTP/9.9\r\n\r\n", 505), (b"GET /livez HTTP/1.1\r\n\r\n", 400),
                        (heads[1][0] + b"zz\r\n", 400), (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400)]:
        with Wire(daemon.address) as wire:
            wire.send(bad)
            assert wire.receive().status == status
            assert b" 200 " not in wire.rest()
    for i, wire in enumerate(others):
        if i % 4 == 0:
            wire.send(heads[0][0][9:] + heads[0][1] + BODY)
        elif i % 4 == 1:
            wire.send(heads[0][1] + BODY)
        elif i % 4 == 2:
            wire.send(chunked(BODY))
        else:
            wire.send(good())
        assert wire.receive().body == RIGHT, f"connection {i}"
        wire.__exit__()


def test_what_the_library_refuses_is_logged_and_counted(start):
    """... from the request line on; a line that is none is not a request."""
    daemon = start()
    bad = {"/no-host": b"GET /no-host HTTP/1.1\r\n\r\n",
           "/gemm": request("POST", "/gemm?m=2&n=2&k=2", [("Transfer-Encoding", "chunked")],
                            b"zz\r\n")}
    for path, data in bad.items():
        assert exchange(daemon.address, data).status == 400
        line = daemon.wait_for(
            lambda lines: [line for line in lines if line.get("path", "").startswith(path)],
            f"the log line of {path}")[0]
        assert (line["error"], line["status"]) == ("malformed", 400), line
    assert refusals(daemon, "malformed") == len(bad)


def test_deadline_in_the_body_is_logged_as_such(start):
    daemon = start()
    with Wire(daemon.address) as wire:
        wire.send(request("POST", TARGET + "&timeout_ms=100", [OCTETS, ("Content-Length", 32)], BODY[:8]))
        answer = wire.receive()
    assert_problem(answer, 504, "deadline")
    line = logged(daemon, answer)
    assert (line["error"], line["status"]) == ("deadline", 504), line
    assert (refusals(daemon, "deadline"), refusals(daemon, "slow-client")) == (1, 0)


@pytest.mark.parametrize("sent", [0, 1, 16, 31])
@pytest.mark.parametrize("how", ["close", "reset", "half"])
def test_client_leaves_in_the_middle(sent, how, address):
    with Wire(address) as wire:
        wire.send(request("POST", TARGET, [OCTETS, ("Content-Length", 32)], BODY[:sent]))
        if how == "reset":
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif how == "half":
            wire.socket.shutdown(socket.SHUT_WR)
            assert wire.closed(), "a client that has half-closed its connection counts as disconnected"
    assert exchange(address, good()).body == RIGHT


def test_client_leaves_before_its_answer(address):
    size = 600
    body = np.ones((2, size, size), np.float32).tobytes()
    with Wire(address) as wire:
        wire.send(request("POST", f"/gemm?m={size}&n={size}&k={size}",
                          [OCTETS, ("Content-Length", len(body))], body))
    assert exchange(address, good()).body == RIGHT


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
