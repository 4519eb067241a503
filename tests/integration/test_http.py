"""What every HTTP client may expect: methods, negotiation, headers, connections."""

import os
import re
import time

import numpy as np
import pytest

from patience import wait_until
from problem import assert_problem
from wire import Wire, exchange, request

BODY = np.arange(8, dtype=np.float32).tobytes()
RIGHT = np.array([6, 7, 26, 31], np.float32).tobytes()
TARGET = "/gemm?m=2&n=2&k=2"
OCTETS = ("Content-Type", "application/octet-stream")
GOOD = request("POST", TARGET, [OCTETS, ("Content-Length", 32)], BODY)
PLACES = ["/gemm", "/", "/livez", "/readyz", "/metrics", "/info", "/openapi.json"]
READABLE = PLACES[1:]


@pytest.mark.parametrize("path", READABLE)
def test_get(path, url, session):
    answer = session.get(url + path)
    assert answer.status_code == 200
    assert answer.content
    assert answer.headers["X-Request-Id"]


def test_health_documents(url, session):
    assert session.get(f"{url}/livez").json() == {"live": True}
    assert session.get(f"{url}/readyz").json() == {"ready": True}


@pytest.mark.parametrize("path", READABLE)
def test_head(path, address):
    """The headers of GET, and no body: what follows on the connection is the next answer."""
    with Wire(address) as wire:
        wire.send(request("HEAD", path) + request("GET", path))
        head = wire.receive(head=True)
        full = wire.receive()
    assert (head.status, full.status) == (200, 200)
    assert head.headers["content-type"] == full.headers["content-type"]
    if path not in ("/info", "/metrics"):  # whose numbers change from one call to the next
        assert head.headers["content-length"] == full.headers["content-length"]


@pytest.mark.parametrize("path", PLACES)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"])
def test_methods(path, method, address):
    allowed = ["POST"] if path == "/gemm" else ["GET", "HEAD"]
    if method in allowed:
        return
    answer = exchange(address, request(method, path, [("Content-Length", 0)]))
    assert_problem(answer, 405, "takes")
    assert re.split(r",\s*", answer.headers["allow"]) == allowed


def test_head_of_gemm(address):
    answer = exchange(address, request("HEAD", "/gemm"), head=True)
    assert answer.status == 405
    assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize("path", ["/nosuch", "/gemm/", "/GEMM", "//gemm", "/gemm/x", "/../gemm",
                                  "/%00", "/tensorsx", "/v2/nope"])
def test_not_found(path, address):
    answer = exchange(address, request("GET", path))
    assert_problem(answer, 404, "openapi.json")


@pytest.mark.parametrize("target, status", [
    ("http://gemmd/livez", 200), ("HTTP://gemmd:80/livez?x", 200), ("http://gemmd", 200),
    ("http://gemmd?x", 200), ("http://gemmd/nosuch", 404), ("http:/livez", 404),
    ("ftp://gemmd/livez", 404), ("livez", 404)])
def test_absolute_form(target, status, address):
    """What a client sends that takes the daemon for its proxy (RFC 9112, 3.2.2)."""
    assert exchange(address, request("GET", target)).status == status


def test_product_by_absolute_form(address):
    answer = exchange(address, request("POST", "http://gemmd" + TARGET, [("Content-Length", 32)], BODY))
    assert answer.body == RIGHT


@pytest.mark.parametrize("media_type", ["application/json", "text/plain", "image/png", "nonsense",
                                        "multipart/form-data; boundary=x"])
def test_unknown_media_type(media_type, post):
    assert_problem(post({"m": 2, "n": 2, "k": 2}, BODY, media_type), 415, "octet-stream")


@pytest.mark.parametrize("media_type", ["application/octet-stream", "Application/Octet-Stream",
                                        "application/octet-stream; charset=binary",
                                        "application/x-www-form-urlencoded"])
def test_raw_media_types(media_type, post):
    assert post({"m": 2, "n": 2, "k": 2}, BODY, media_type).content == RIGHT


def test_no_media_type_is_raw(address):
    assert exchange(address, request("POST", TARGET, [("Content-Length", 32)], BODY)).body == RIGHT


@pytest.mark.parametrize("accept", ["text/html", "image/*", "application/json;q=0",
                                    "application/octet-stream;q=0"])
def test_not_acceptable(accept, post):
    assert_problem(post({"m": 2, "n": 2, "k": 2}, BODY, Accept=accept), 406, "octet-stream")


@pytest.mark.parametrize("accept", ["application/json", "application/problem+json, text/plain"])
def test_a_client_that_accepts_json_gets_the_bytes(accept, post, session, url):
    """Clients send this header by default, whatever they expect."""
    answer = post({"m": 2, "n": 2, "k": 2}, BODY, Accept=accept)
    assert (answer.status_code, answer.content) == (200, RIGHT)
    assert session.put(f"{url}/tensors/json?shape=4", data=BODY[:16]).status_code == 201
    answer = session.get(f"{url}/tensors/json", headers={"Accept": accept})
    assert (answer.status_code, answer.content) == (200, BODY[:16])
    assert session.delete(f"{url}/tensors/json").status_code == 204


def test_healthz_answers_as_livez(session, url):
    assert session.get(f"{url}/healthz").content == session.get(f"{url}/livez").content


def test_version(session, url):
    info = session.get(f"{url}/info").json()
    answer = session.get(f"{url}/version")
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json() == {"name": "gemmd", "version": info["version"],
                             "revision": info["build"]["revision"]}


@pytest.mark.parametrize("path, named", [
    ("/health", "GET /livez .* GET /readyz"), ("/ping", "GET /livez .* GET /readyz"),
    ("/versions", "mean /version[?]"), ("/Gemm", "mean /gemm[?]"), ("/metric", "mean /metrics[?]"),
    ("/openapi.yaml", "mean /openapi.json[?]"), ("/livez/", "mean /livez[?]"),
    ("/healt", "mean /healthz[?]")])
def test_a_path_that_is_not_there_is_pointed_elsewhere(path, named, session, url):
    assert_problem(session.get(url + path), 404, named)


@pytest.mark.parametrize("given", ["a", "order-66/b", "x" * 64])
def test_request_id_is_echoed(given, post):
    answer = post({"m": 2, "n": 2, "k": 2}, BODY, X_Request_Id=given)
    assert answer.headers["X-Request-Id"] == given
    assert post({}, BODY, X_Request_Id=given).headers["X-Request-Id"] == given, "on an error"


def test_request_id_is_made_up(post):
    ids = {post({"m": 2, "n": 2, "k": 2}, BODY).headers["X-Request-Id"] for _ in range(20)}
    assert len(ids) == 20


@pytest.mark.parametrize("given", [b"\x01\x02", b"a b", b"x" * 5000, b"\xff\xfe"])
def test_strange_request_id(given, address):
    """Not echoed, or refused; either way the answer is well-formed."""
    head = GOOD.replace(b"Host:", b"X-Request-Id: " + given + b"\r\nHost:")
    answer = exchange(address, head)
    assert answer.status == 200 and answer.body == RIGHT or answer.status == 400
    assert given.decode("latin-1") != answer.headers.get("x-request-id")


def test_answer_headers(post):
    answer = post({"m": 2, "n": 4, "k": 2, "batch": 3, "dtype": "f16", "out": "f32"},
                  np.ones(3 * 12, np.float16).tobytes())
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Gemmd-Shape"] == "3,2,4"
    assert answer.headers["Gemmd-Dtype"] == "f32"
    assert re.fullmatch(r"[a-z0-9_]+", answer.headers["Gemmd-Kernel"])
    assert int(answer.headers["Gemmd-Batch"]) >= 1
    assert "Gemmd-Verify" not in answer.headers


def test_server_timing(post):
    timing = post({"m": 2, "n": 2, "k": 2}, BODY).headers["Server-Timing"]
    entries = dict(re.fullmatch(r"(\w+);dur=(\d+(?:\.\d+)?)", entry).groups()
                   for entry in re.split(r",\s*", timing))
    assert list(entries) == ["recv", "queue", "h2d", "kernel", "d2h", "total"]
    parts = sum(float(value) for name, value in entries.items() if name != "total")
    # Each of the six is rounded to a microsecond.
    assert parts <= float(entries["total"]) + 0.006, timing


def test_verify(post):
    answer = post({"m": 2, "n": 2, "k": 2, "verify": "freivalds"}, BODY)
    match = re.fullmatch(r"pass; residual=([0-9.e+-]+)", answer.headers["Gemmd-Verify"])
    assert match and 0 <= float(match[1]) <= 1
    assert answer.content == RIGHT
    refused = post({"m": 2, "n": 2, "k": 2, "verify": "freivalds", "act": "relu"}, BODY)
    assert_problem(refused, 422, "act=none", field="verify")


@pytest.mark.parametrize("bad", [
    request("GET", "/nosuch"),
    request("POST", "/gemm", [OCTETS, ("Content-Length", 32)], BODY),
    request("POST", TARGET + "&x=1", [OCTETS, ("Content-Length", 32)], BODY),
    request("POST", TARGET, [OCTETS, ("Content-Length", 31)], BODY[:31]),
    request("POST", TARGET, [OCTETS, ("Content-Length", 0)]),
    request("POST", TARGET, [("Content-Type", "text/plain"), ("Content-Length", 32)], BODY),
    request("POST", "/gemm", [("Content-Type", "application/x-npy"), ("Content-Length", 32)], BODY),
], ids=["404", "no parameters", "unknown", "short", "empty", "415", "not npy"])
def test_connection_is_kept_after_an_error(bad, address):
    """An error in a small request costs its sender no new connection."""
    with Wire(address) as wire:
        for _ in range(3):
            wire.send(bad)
            assert 400 <= wire.receive().status < 500
            wire.send(GOOD)
            assert wire.receive().body == RIGHT


def test_connection_close_is_honoured(address):
    with Wire(address) as wire:
        wire.send(GOOD.replace(b"Host:", b"Connection: close\r\nHost:"))
        answer = wire.receive()
        assert answer.body == RIGHT
        assert wire.closed()


def test_http_1_0(address):
    with Wire(address) as wire:
        wire.send(GOOD.replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert wire.receive().body == RIGHT
        assert wire.closed()


def test_expect_continue(address):
    headers = [OCTETS, ("Content-Length", 32), ("Expect", "100-continue")]
    with Wire(address) as wire:
        for _ in range(2):
            wire.send(request("POST", TARGET, headers))
            assert wire.receive().status == 100
            wire.send(BODY)
            answer = wire.receive()
            assert (answer.status, answer.body) == (200, RIGHT)


@pytest.mark.parametrize("target, headers, status", [
    ("/nosuch", [], 404),
    ("/gemm", [], 400),
    (TARGET + "&act=tanh", [], 400),
    (TARGET + "&out=i32", [], 422),
    (TARGET, [("Content-Type", "text/plain")], 415),
    (TARGET, [("Accept", "text/plain")], 406),
    ("/gemm?m=100000&n=100000&k=100000", [], 413),
])
def test_refused_before_the_body(target, headers, status, address):
    """With Expect: 100-continue nothing is uploaded for what is going to be refused."""
    headers = [*headers, ("Content-Length", 80_000_000_000 if status == 413 else 32),
               ("Expect", "100-continue")]
    with Wire(address) as wire:
        wire.send(request("POST", target, headers))
        assert_problem(wire.receive(), status, field=None if status in (404, 413, 415, 406) else
                       {400: "act" if "act" in target else "m", 422: "out"}[status])


def test_refused_without_expect(address):
    """The answer arrives although the client goes on sending a long body for a while."""
    size = 16 << 20
    with Wire(address) as wire:
        wire.send(request("POST", "/gemm?m=1&n=1&k=1", [OCTETS, ("Content-Length", size)]))
        try:
            for _ in range(4):
                wire.socket.sendall(bytes(1 << 18))
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert wire.receive().status == 400


@pytest.mark.parametrize("pause_s", [0, 0.002, 0.02])
def test_a_body_that_is_sent_although_it_was_refused(pause_s, address):
    """The client asks and does not wait for long enough, or does not look: the daemon reads its body, and does not
    end the connection with a reset."""
    size = 4 << 20
    with Wire(address) as wire:
        wire.send(request("POST", "/gemm?m=1&n=1&k=1", [OCTETS, ("Content-Length", size), ("Expect", "100-continue")]))
        time.sleep(pause_s)
        wire.send(bytes(size))
        assert wire.receive().status == 400
        assert wire.closed()


def test_refused_connections_do_not_stay(start):
    """More of them than are left alone at a time, half of which their clients close at once."""
    daemon = start()
    ask = request("POST", "/gemm?m=1&n=1&k=1", [OCTETS, ("Content-Length", 1 << 20), ("Expect", "100-continue")])
    folder = f"/proc/{daemon.pid}/fd"
    assert exchange(daemon.address, ask).status == 400
    before = len(os.listdir(folder))
    kept = []
    for number in range(200):
        wire = Wire(daemon.address)
        wire.send(ask)
        assert wire.receive().status == 400
        if number % 2:
            wire.socket.close()
        else:
            kept.append(wire)
    for wire in kept:
        wire.socket.close()
    wait_until(lambda: len(os.listdir(folder)) <= before, lambda: f"{before} descriptors: {os.listdir(folder)}")


def test_percent_encoding(address):
    target = "/gemm?%6d=2&n=%32&k=2&dtype=f3%32&act=gelu%5Ftanh"
    answer = exchange(address, request("POST", target, [OCTETS, ("Content-Length", 32)], BODY))
    assert answer.status == 200, answer.body


def test_info(url, session):
    info = session.get(f"{url}/info").json()
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", info["version"])
    assert info["devices"][0]["backend"] in ("cpu", "cuda")
    assert info["devices"][0]["name"]
    kernels = {(kernel["op"], kernel["name"]): kernel for kernel in info["kernels"]}
    assert {("gemm", "naive"), ("gemm", "tiled")} <= set(kernels)
    assert len(kernels) == len(info["kernels"])
    for kernel in kernels.values():
        assert kernel["description"] and kernel["dtypes"]
    assert info["limits"]["max-body"] > 0


def test_info_says_for_how_long_the_daemon_runs(start):
    before = time.monotonic()
    daemon = start()
    uptimes = [daemon.session.get(f"{daemon.url}/info").json()["uptime_seconds"] for _ in range(2)]
    assert 0 < uptimes[0] < uptimes[1] < time.monotonic() - before


def test_openapi(url, session):
    document = session.get(f"{url}/openapi.json").json()
    assert document["openapi"].startswith("3.")
    assert "post" in document["paths"]["/gemm"]
    described = set()
    for parameter in document["paths"]["/gemm"]["post"]["parameters"]:
        for name in parameter.get("$ref", "#").split("/")[1:]:
            parameter = document[name] if name in document else parameter[name]
        described.add(parameter["name"])
    assert {"m", "n", "k", "dtype", "out", "alpha", "beta", "act", "kernel"} <= described


def test_readyz_takes_no_body(address):
    for sent in (b"", b"ready?"):
        answer = exchange(address, request("GET", "/readyz", [("Content-Length", len(sent))], sent))
        if sent:
            assert_problem(answer, 400, "no body")
        else:
            assert (answer.status, answer.body) == (200, b'{"ready":true}\n')


def test_many_ask_at_once_whether_it_is_ready(start):
    """All share a probe, and none holds up the thread that serves them."""
    daemon = start("--io-threads", "1", ready=False).wait_until_listening()
    wires = [Wire(daemon.address) for _ in range(20)]
    for wire in wires:
        wire.send(request("GET", "/readyz") + request("GET", "/livez"))
    for wire in wires:
        assert wire.receive().body == b'{"ready":true}\n'
        assert wire.receive().body == b'{"live":true}\n'
        wire.__exit__()


def test_who_asks_may_leave(start):
    daemon = start("--io-threads", "1", ready=False).wait_until_listening()
    for _ in range(50):
        with Wire(daemon.address) as wire:
            wire.send(request("GET", "/readyz"))
    assert exchange(daemon.address, request("GET", "/readyz")).status == 200
