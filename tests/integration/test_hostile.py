"""Requests in combinations that no good client sends. Each is answered or its connection is closed,
and the daemon is idle and empty afterwards."""

import random
import signal

import numpy as np
import pytest

from oip import MODEL
from oracle import LONG_DRAIN, Oracle, answers
from wire import Wire, exchange, request

pytestmark = pytest.mark.hostile

OCTETS = ("Content-Type", "application/octet-stream")
EXPECT = ("Expect", "100-continue")
BODY = np.arange(8, dtype=np.float32).tobytes()
GEMM = "/gemm?m=2&n=2&k=2"
SHORT_LIMITS = ("--header-timeout", "400ms", "--idle-timeout", "400ms", "--body-timeout", "800ms")
LONG_LIMITS = ("--header-timeout", "10m", "--idle-timeout", "10m", "--body-timeout", "10m")
V2 = f"/v2/models/{MODEL['f32']}/infer"


def statuses(received):
    """The status codes of all final answers in the received bytes."""
    return [int(part[:3]) for part in received.split(b"HTTP/1.1 ")[1:] if not part.startswith(b"1")]


FIRST = [b"", request("GET", "/readyz"),
         request("POST", GEMM, [OCTETS, ("Content-Length", 32)], BODY)]
TAILS = [b"", b"G", b"\r\n", request("GET", "/livez"), bytes(5000)]
EXPECTING = [  # requests without a body, and the statuses of their answers
    (request("GET", "/livez", [EXPECT]), 200),
    (request("GET", "/readyz", [EXPECT]), 200),
    (request("GET", "/v2/health/live", [EXPECT]), 200),
    (request("GET", "/nothing", [EXPECT]), 404),
    (request("GET", "/jobs/none/result?wait_ms=1000", [EXPECT]), 404),
    (request("POST", GEMM, [EXPECT]), 400),
    (request("POST", GEMM, [EXPECT, ("Content-Length", 0)]), 400),
    (request("POST", V2, [EXPECT]), 400),
    (request("PUT", "/tensors/t?dtype=f32&shape=2,2", [EXPECT]), 400),
    (request("DELETE", "/tensors/t", [EXPECT]), 404),
    (request("POST", "/livez", [EXPECT]), 405),
]


def test_expectation_without_a_body(start, tmp_path):
    """libmicrohttpd sends 100 Continue even if the request has no body. What follows is the next
    request, not a body: the limits of headers and of idle connections, which become short when all have
    their answers, end the connections."""
    config = tmp_path / "gemmd.json"
    config.write_text('{"idle-timeout": "10m", "header-timeout": "10m"}')
    daemon = start("--io-threads", "1", "--body-timeout", "10m", "--config", config, *LONG_DRAIN)
    oracle = Oracle(daemon)
    sent = [(first, data, tail, status) for first in FIRST for data, status in EXPECTING
            for tail in TAILS]
    wires = [Wire(daemon.address) for _ in sent]
    for wire, (first, data, tail, _) in zip(wires, sent):
        wire.send(first + data + tail)
    rights = [([200] if first else []) + [status] for first, _, _, status in sent]
    for wire, right in zip(wires, rights):
        while len(statuses(wire.buffer)) < len(right):
            wire._more()
    config.write_text('{"idle-timeout": "400ms", "header-timeout": "400ms"}')
    daemon.process.send_signal(signal.SIGHUP)
    for wire, right, (first, data, tail, _) in zip(wires, rights, sent):
        with wire:
            found = statuses(answers(wire))
            assert found[:len(right)] == right, (first, data, tail[:20], found)
    oracle.check()
    oracle.check_exit()


METHODS = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "BREW"]
TARGETS = ["/livez", "/readyz", "/gemm", GEMM, GEMM + "&timeout_ms=50", "/attention", "/metrics", "/info",
           "/tensors", "/tensors/t", "/tensors/t?dtype=f32&shape=2,4", "/jobs", "/jobs/none",
           "/jobs/none/result?wait_ms=100", V2, "/v2", "/v2/health/ready", "/v2/repository/index",
           "/v2/systemsharedmemory/region/r/register", "/nothing", "/", "/%00", "/a b", "*",
           "http://x/livez", "/?" + "a&" * 400]
HEADERS = ["Expect: 100-continue", "Expect: 100-Continue", "Expect: more", "Content-Length: 0",
           "Content-Length: 32", "Content-Length: 31", "Content-Length: 300000",
           "Content-Length: 99999999", "Transfer-Encoding: chunked", "Transfer-Encoding: gzip",
           "Connection: close", "Connection: keep-alive", "Prefer: respond-async", "Prefer: wait=1",
           "Content-Type: application/octet-stream", "Content-Type: application/json",
           "Content-Encoding: gzip", "Content-Encoding: deflate", "Accept-Encoding: gzip",
           "If-None-Match: *", "Host: again", "Cookie: a=b", "X: a\0b", "X: a\rb", "X: a\n b", "X:",
           "no colon", " folded", "Inference-Header-Content-Length: 5", "Gemmd-Memory: a=0"]
BODIES = [b"", b"", BODY, BODY[:31], BODY + b"x", b"{}", b"20\r\n" + BODY + b"\r\n0\r\n\r\n",
          b"20\r\n" + BODY + b"\r\n", b"20\n" + BODY + b"\n0\n\n", b"0\r\n\r\n", b"0\r\nX: y\r\n\r\n",
          b"zz\r\n", b"\r\n", b"\n", b"G", bytes(3000)]


def random_request(choose):
    """One request of random pieces, most of which do not belong together."""
    version = choose.choice(["HTTP/1.1"] * 8 + ["HTTP/1.0", "HTTP/1.2", "HTTP/2.0", ""])
    end = choose.choice(["\r\n"] * 9 + ["\n"])
    lines = [f"{choose.choice(METHODS[:3] * 3 + METHODS)} {choose.choice(TARGETS)} {version}"]
    lines += ["Host: x"] if choose.random() < 0.95 else []
    lines += [choose.choice(HEADERS) for _ in range(choose.choice([0, 1, 1, 2, 2, 3, 4]))]
    return (end.join(lines) + end + end).encode("latin-1") + choose.choice(BODIES)


@pytest.mark.parametrize("ends", ["by its limits", "by its client"])
def test_random_pieces(ends, start, request):
    """Each connection is sent everything at once, in two parts or in many. Then either the short
    limits of the daemon end the connection, or the limits are long and the client half-closes it."""
    daemon = start("--io-threads", "1", *LONG_DRAIN,
                   *(SHORT_LIMITS if ends == "by its limits" else LONG_LIMITS))
    choose = random.Random(request.config.option.seed)
    oracle = Oracle(daemon)
    for _ in range(2):
        wires = []
        for _ in range(120):
            data = b"".join(random_request(choose) for _ in range(choose.choice([1, 1, 2, 3])))
            wire = Wire(daemon.address)
            step = choose.choice([len(data), len(data), 1 + len(data) // 2, 97])
            for i in range(0, min(len(data), 50 * step), step):
                wire.try_to_send(data[i:i + step])
            if ends == "by its client":
                wire.half_close()
            wires.append((wire, data))
        for wire, data in wires:
            with wire:
                try:
                    answers(wire)
                except AssertionError as error:
                    raise AssertionError(f"{error}; sent: {data[:1000]!r}") from None
    oracle.check()
    oracle.check_exit()


@pytest.mark.parametrize("chunks", [b"20;" + bytes(100_000), b"0" * 100_000, b"20;" + b"x" * 49_000],
                         ids=["extension", "size", "hardly"])
def test_size_line_that_does_not_fit_in_the_buffer(chunks, start):
    """libmicrohttpd before 1.0 waits for the end of the line and cannot read it. The thread sleeps meanwhile and
    serves others, and the limits of the body end the connection. A newer one refuses the line."""
    daemon = start("--io-threads", "1", "--body-timeout", "1s", *LONG_DRAIN)
    oracle = Oracle(daemon)
    with Wire(daemon.address) as wire:
        wire.try_to_send(request("POST", GEMM, [OCTETS, ("Transfer-Encoding", "chunked")], chunks))
        oracle.check_idle()
        assert exchange(daemon.address, request("GET", "/livez")).status == 200
        assert statuses(answers(wire))[:1] in ([408], [413], [])
    oracle.check()
    oracle.check_exit()


@pytest.mark.parametrize("rest", [b"", b"Host: x\r\n\r\n", b"Host: x\r\nContent-Length: 32\r\n\r\n" + BODY,
                                  b"X: y\r\n" * 9000], ids=["no headers", "headers", "body", "more"])
def test_parameters_that_do_not_fit_in_the_buffer(rest, start):
    """libmicrohttpd drops the headers then, and waits for them. The client gets an answer at once."""
    daemon = start("--io-threads", "1", *LONG_LIMITS, *LONG_DRAIN)
    oracle = Oracle(daemon)
    for method in ("GET", "POST"):
        with Wire(daemon.address) as wire:
            wire.try_to_send(f"{method} /livez?{'a&' * 15000} HTTP/1.1\r\n".encode() + rest)
            assert statuses(answers(wire)) == [431]
    oracle.check()
    oracle.check_exit()


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "unix"])
def test_half_closed_connections_are_closed(listen, start, tmp_path):
    """... whenever the client ends its side, long before the connection's limits."""
    path = str(tmp_path / "socket")
    daemon = start(*LONG_LIMITS, *LONG_DRAIN, listen=("127.0.0.1:0", f"unix:{path}"))
    oracle = Oracle(daemon)
    live, wires = request("GET", "/livez"), []
    for i in range(80):
        wire = Wire(path if listen == "unix" else daemon.address)
        wires.append(wire)
        if i % 4 == 1:  # between requests
            wire.send(live)
            assert wire.receive().status == 200
        elif i % 4 == 2:  # together with a request
            wire.send(live)
        elif i % 4 == 3:  # in a request line that follows a request
            wire.send(live)
            assert wire.receive().status == 200
            wire.send(live[:6])
        wire.half_close()
    for i, wire in enumerate(wires):
        with wire:
            assert statuses(answers(wire)) == ([200] if i % 4 == 2 else []), i
    oracle.check()
    oracle.check_exit()
