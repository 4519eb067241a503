"""Content-Digest and Repr-Digest (RFC 9530), of bodies and of answers."""

import base64
import gzip
import hashlib
import json
import re
import select
import socket
import subprocess
import threading

import numpy as np
import pytest

from daemon import PATIENCE_S, Daemon
from patience import wait_until
from problem import assert_problem
from wire import Wire, exchange, request

SMALL = {"m": 2, "n": 3, "k": 4}
# 4 MiB and 1 MiB: more than one thread hashes while it serves others.
LARGE = {"m": 1024, "n": 1024, "k": 1}
LONG_BODY = {"m": 1, "n": 1024, "k": 256}
ALGORITHMS = {"sha-256": hashlib.sha256, "sha-512": hashlib.sha512}


def digest(algorithm, data):
    return f"{algorithm}=:{base64.b64encode(ALGORITHMS[algorithm](data).digest()).decode()}:"


def body_of(shape):
    count = shape["m"] * shape["k"] + shape["k"] * shape["n"]
    return np.random.default_rng(3).uniform(-1, 1, count).astype("f4").tobytes()


@pytest.fixture(scope="module", name="ask")
def asks(shared_daemon):
    """Sends a POST to /gemm, or another request, with headers."""
    def send(shape, headers=None, body=None, method="POST", path="/gemm"):
        return shared_daemon.session.request(
            method, f"{shared_daemon.url}{path}", params=shape,
            data=body_of(shape) if body is None else body,
            headers={"Content-Type": "application/octet-stream"} | (headers or {}),
            timeout=PATIENCE_S)
    return send


@pytest.fixture(scope="module", name="shared_daemon")
def daemon_of_the_module(gemmd):
    daemon = Daemon(gemmd, "--backend", "cpu", "--compress-answers", "--tensor-bytes", "16M")
    try:
        yield daemon.wait_until_listening().wait_until_ready()
        daemon.stop()
    finally:
        daemon.close()


@pytest.mark.parametrize("shape", [SMALL, LARGE], ids=["short", "long"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_answers_have_the_digests_that_are_wanted(ask, shape, algorithm):
    plain = ask(shape)
    assert "Content-Digest" not in plain.headers and "Repr-Digest" not in plain.headers
    content = ask(shape, {"Want-Content-Digest": f"{algorithm}=5"})
    assert content.headers["Content-Digest"] == digest(algorithm, content.content)
    assert "Repr-Digest" not in content.headers
    both = ask(shape, {"Want-Content-Digest": f"{algorithm}=1", "Want-Repr-Digest": f"{algorithm}"
                       "=10, unixsum=10"})
    assert both.headers["Content-Digest"] == both.headers["Repr-Digest"] == digest(
        algorithm, both.content)
    assert both.content == content.content == plain.content


@pytest.mark.parametrize("wish, algorithm", [
    ("sha-256=1, sha-512=2", "sha-512"), ("sha-512=3;q=1,sha-256=3", "sha-256"),
    ("sha-256=0, sha-512=1", "sha-512"), ("sha-256=1, sha-256=0", None), ("md5=10", None),
    ("sha-256=11", None), ("sha-256", None), ("sha-256=1,", None), ("SHA-256=1", None),
    ("sha-256=1 sha-512=1", None), ("sha-256=-1", None), ("", None),
    ('a="x, sha-512=9", sha-256=4', "sha-256"), ("a;b=:AA==:;c, sha-256=4", "sha-256"),
    ('a="x', None)])
def test_wishes_are_weighed_and_malformed_ones_ignored(ask, wish, algorithm):
    answer = ask(SMALL, {"Want-Content-Digest": wish})
    assert answer.status_code == 200
    assert answer.headers.get("Content-Digest") == (
        None if algorithm is None else digest(algorithm, answer.content))


def test_an_answer_with_a_digest_is_not_compressed(ask):
    shape = {"m": 64, "n": 64, "k": 1}
    assert ask(shape, {"Accept-Encoding": "gzip"}).headers["Content-Encoding"] == "gzip"
    answer = ask(shape, {"Accept-Encoding": "gzip", "Want-Repr-Digest": "sha-256=1"})
    assert "Content-Encoding" not in answer.headers
    assert answer.headers["Repr-Digest"] == digest("sha-256", answer.content)


@pytest.mark.parametrize("field", ["Content-Digest", "Repr-Digest"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("shape", [SMALL, LONG_BODY], ids=["short", "long"])
def test_a_body_is_compared_with_its_digest(ask, shape, field, algorithm):
    body = body_of(shape)
    right = digest(algorithm, body)
    for header in (right, f"md5=:AAAA:, {right}", f"{right};x=1", f"{digest(algorithm, b'')}, {right}"):
        assert ask(shape, {field: header}).status_code == 200
    changed = bytes([body[0] ^ 1]) + body[1:]
    document = assert_problem(ask(shape, {field: right}, changed), 400, field=field)
    assert right in document["detail"] and digest(algorithm, changed) in document["detail"]


@pytest.mark.parametrize("value", [
    "sha-256=:AAAA:", "sha-256=AAAA", "sha-256", "sha-512=:????:", "sha-256=:AAAA", "=", "sha-256=1"])
def test_a_malformed_digest_is_refused(ask, value):
    assert_problem(ask(SMALL, {"Content-Digest": value}), 400, "sha-256=:BASE64:")


def test_unknown_algorithms_are_ignored(ask):
    for value in ("md5=:AAAA:", "crc32c=:AA==:, sha=:AA==:", "new"):
        assert ask(SMALL, {"Content-Digest": value, "Repr-Digest": value}).status_code == 200


def test_the_digest_of_a_compressed_body_is_that_of_the_coded_bytes(ask):
    plain = body_of(SMALL)
    coded = gzip.compress(plain)
    for field in ("Content-Digest", "Repr-Digest"):
        headers = {"Content-Encoding": "gzip", field: digest("sha-256", coded)}
        assert ask(SMALL, headers, coded).status_code == 200
        assert_problem(ask(SMALL, headers | {field: digest("sha-256", plain)}, coded), 400,
                       field=field)


def test_chunked_and_empty_bodies_have_digests(shared_daemon, ask):
    body = body_of(SMALL)
    parts = iter([body[:5], body[5:]])
    assert ask(SMALL, {"Content-Digest": digest("sha-512", body)}, parts).status_code == 200
    assert_problem(ask(SMALL, {"Content-Digest": digest("sha-512", body[1:])},
                       iter([body[:5], body[5:]])), 400, field="Content-Digest")
    matrix = np.ones((2, 2), "f4")
    for name in ("a", "b"):
        shared_daemon.session.put(
            f"{shared_daemon.url}/tensors/{name}", params={"dtype": "f32", "shape": "2,2"},
            data=matrix.tobytes(), headers={"Content-Type": "application/octet-stream"},
            timeout=PATIENCE_S)
    assert ask({"a": "a", "b": "b"}, {"Content-Digest": digest("sha-256", b"")}, b"").status_code == 200
    assert_problem(ask({"a": "a", "b": "b"}, {"Content-Digest": digest("sha-256", b"x")}, b""), 400,
                   field="Content-Digest")


def test_other_paths_have_digests_too(shared_daemon, ask):
    body = body_of(LONG_BODY)
    wish = {"Want-Content-Digest": "sha-256=1", "Want-Repr-Digest": "sha-256=1"}
    put = shared_daemon.session.put(
        f"{shared_daemon.url}/tensors/long", params={"dtype": "f32", "shape": f"1,{len(body) // 4}"},
        data=body, timeout=PATIENCE_S,
        headers={"Content-Type": "application/octet-stream", "Content-Digest": digest("sha-256", body)})
    assert put.status_code in (200, 201), put.text
    for path in ("/tensors/long", "/openapi.json", "/info"):
        headers = wish | ({"Accept": "application/octet-stream"} if "tensors" in path else {})
        got = ask({}, headers, b"", "GET", path)
        assert got.status_code == 200
        assert got.headers["Content-Digest"] == got.headers["Repr-Digest"] == digest(
            "sha-256", got.content)
    job = ask(LARGE, {"Prefer": "respond-async"})
    result = ask({"wait_ms": 60000}, wish, b"", "GET", f"{job.headers['Location']}/result")
    assert result.headers["Content-Digest"] == digest("sha-256", result.content)
    inputs = [{"name": name, "shape": [2, 2], "datatype": "FP32", "data": [1, 2, 3, 4]}
              for name in "AB"]
    answer = ask({}, wish | {"Content-Type": "application/json"},
                 json.dumps({"inputs": inputs}).encode(), path="/v2/models/gemm_fp32/infer")
    assert answer.headers["Repr-Digest"] == digest("sha-256", answer.content)


def test_an_error_has_no_digest(ask):
    answer = ask(SMALL, {"Want-Content-Digest": "sha-256=1"}, b"too short")
    assert_problem(answer, 400)
    assert "Content-Digest" not in answer.headers


def test_a_connection_serves_on_after_long_answers_with_digests(shared_daemon):
    """Pipelined: the next request begins only when the digest of the answer before it is sent."""
    headers = [("Content-Type", "application/octet-stream"), ("Content-Length", 8192),
               ("Want-Content-Digest", "sha-256=1")]
    asked = request("POST", "/gemm?m=1024&n=1024&k=1", headers, body_of(LARGE))
    with Wire(shared_daemon.address) as wire:
        wire.send(asked * 3)
        answers = [wire.receive() for _ in range(3)]
    for answer in answers:
        assert answer.status == 200
        sent = {name.lower(): value for name, value in answer.headers.items()}
        assert sent["content-digest"] == digest("sha-256", answer.body)


def test_clients_may_leave_while_their_answer_is_hashed(start):
    daemon = start("--backend", "cpu")
    headers = [("Content-Type", "application/octet-stream"), ("Content-Length", 8 * 4096),
               ("Want-Content-Digest", "sha-512=1")]
    shape = {"m": 4096, "n": 4096, "k": 1}
    asked = request("POST", "/gemm?m=4096&n=4096&k=1", headers, body_of(shape))
    for _ in range(6):
        with Wire(daemon.address) as wire:
            wire.send(asked)
    answer = daemon.session.post(
        f"{daemon.url}/gemm", params=shape, data=body_of(shape), timeout=PATIENCE_S,
        headers={"Content-Type": "application/octet-stream", "Want-Content-Digest": "sha-512=1"})
    assert answer.headers["Content-Digest"] == digest("sha-512", answer.content)

    def is_idle(_):
        text = daemon.session.get(f"{daemon.url}/metrics", timeout=PATIENCE_S).text
        return re.search(r"^gemmd_pinned_memory_used_bytes 0$", text, re.MULTILINE)

    daemon.wait_for(is_idle, "the memory of the answers")


def backlog(start, tmp_path, *arguments):
    """Starts a daemon with two tenants, and has it hash 24 times 64 MiB for one of them. Returns the daemon, the
    connections that wait, and a function that makes requests."""
    tokens = tmp_path / "tokens"
    tokens.write_text("alice:the-token-of-alice\nbob:the-token-of-bob\n")
    tokens.chmod(0o600)
    daemon = start("--backend", "cpu", "--tensor-bytes", "256M", "--queue-bytes", "8G", "--token-file", tokens,
                   *arguments, ready=False)
    daemon.wait_until_listening().wait_until_ready()

    def signed(tenant, method, path, headers=(), body=b""):
        return request(method, path, [("Authorization", f"Bearer the-token-of-{tenant}"),
                                      ("Accept", "application/octet-stream"), *headers], body)

    for name, rows in (("large", 16384), ("small", 128)):
        tenant, body = {"large": "alice", "small": "bob"}[name], bytes(rows * 4096)
        answer = exchange(daemon.address, signed(
            tenant, "PUT", f"/tensors/{name}?shape={rows},1024", [("Content-Length", len(body))], body))
        assert answer.status == 201, answer.body
    wires = [Wire(daemon.address) for _ in range(24)]
    for wire in wires:
        wire.send(signed("alice", "GET", "/tensors/large", [("Want-Repr-Digest", "sha-512=1")]))
    for wire in wires:
        wire.wait_until_read()
    return daemon, wires, signed


def is_answered(wire):
    return bool(select.select([wire.socket], [], [], 0)[0])


def test_long_digests_of_one_tenant_delay_no_other_tenant(start, tmp_path):
    daemon, wires, signed = backlog(start, tmp_path)
    with Wire(daemon.address) as other:
        for _ in range(5):
            other.send(signed("bob", "GET", "/tensors/small", [("Want-Repr-Digest", "sha-512=1")]))
            answer = other.receive()
            assert answer.status == 200, answer.body
            assert answer.headers["repr-digest"] == digest("sha-512", answer.body)
        answered = sum(is_answered(wire) for wire in wires)
    expected = digest("sha-512", bytes(64 << 20))
    for wire in wires:
        assert wire.receive(head=True).headers["repr-digest"] == expected
        wire.socket.close()
    assert answered <= 12, "the other tenant waited for them"


def test_an_answer_is_not_hashed_for_a_client_that_has_left(start, tmp_path):
    """Its place is free before the digests of those who stay are ready. (These keep their places, as long as nobody
    reads their answers.)"""
    daemon, wires, signed = backlog(start, tmp_path)
    for wire in wires[12:]:
        wire.socket.close()

    def places():
        text = exchange(daemon.address, signed("alice", "GET", "/metrics")).body.decode()
        return int(re.search(r'^gemmd_tenant_requests\{tenant="alice"\} (\d+)$', text, re.MULTILINE)[1])

    wait_until(lambda: places() <= 12, "the places of those who have left")
    answered = sum(is_answered(wire) for wire in wires[:12])
    for wire in wires[:12]:
        wire.socket.close()
    assert answered <= 6, "the digests were computed for those who have left, too"


def test_the_end_waits_for_no_backlog_of_digests(start, tmp_path):
    daemon, wires, _ = backlog(start, tmp_path, "--drain-delay", "0", "--drain-timeout", "1ms")
    daemon.terminate()
    statuses = []
    for wire in wires:
        statuses.append(wire.receive(head=True).status)
        wire.socket.close()
    assert daemon.wait() == 0
    assert set(statuses) <= {200, 503}
    assert statuses.count(503) >= 12, "the digests were computed all the same"


def test_an_answer_at_the_headers_is_not_hashed_for_long(start):
    """A request for a result that has a body itself is answered at its headers, on the thread that serves others."""
    daemon = start("--backend", "cpu")
    for shape, has_digest in ((SMALL, True), (LARGE, False)):
        job = daemon.session.post(
            f"{daemon.url}/gemm", params=shape, data=body_of(shape), timeout=PATIENCE_S,
            headers={"Content-Type": "application/octet-stream", "Prefer": "respond-async"}).headers["Location"]
        result = daemon.session.get(f"{daemon.url}{job}/result?wait_ms=60000", timeout=PATIENCE_S)
        with Wire(daemon.address) as wire:
            wire.send(request("GET", f"{job}/result", [("Content-Length", 1), ("Want-Content-Digest", "sha-256=1")],
                              b"x"))
            answer = wire.receive()
        assert answer.status == 200 and answer.body == result.content
        assert ("content-digest" in answer.headers) == has_digest


class Meddler(threading.Thread):
    """A proxy for one connection at a time, which changes what the daemon sends."""

    def __init__(self, daemon, change):
        super().__init__(daemon=True)
        self.target, self.change = daemon.address, change
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.start()

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            with client, socket.create_connection(self.target) as server:
                threading.Thread(target=self.forward, args=(client, server, bytes),
                                 daemon=True).start()
                self.forward(server, client, self.change)

    @staticmethod
    def forward(source, sink, change):
        try:
            while data := source.recv(1 << 16):
                sink.sendall(change(data))
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


@pytest.fixture(name="files")
def matrices(tmp_path):
    np.save(tmp_path / "A.npy", np.ones((64, 8), "f4"))
    np.save(tmp_path / "B.npy", np.ones((8, 32), "f4"))
    return tmp_path


def gemmctl_gemm(gemmctl, files, url, *options):
    return subprocess.run(
        [gemmctl, "gemm", files / "A.npy", files / "B.npy", "-o", files / "C.npy", "--url", url,
         "--retries", "0", *options], capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_gemmctl_compares_the_digest(gemmctl, files, shared_daemon):
    result = gemmctl_gemm(gemmctl, files, shared_daemon.url, "--check-digest")
    assert result.returncode == 0, result.stderr
    assert (np.load(files / "C.npy") == 8).all()


def test_gemmctl_notices_a_changed_answer(gemmctl, files, shared_daemon):
    eight = np.float32(8).tobytes()
    meddler = Meddler(shared_daemon, lambda data: data.replace(eight * 2, eight + bytes(4)))
    assert gemmctl_gemm(gemmctl, files, meddler.url).returncode == 0, "nobody looks"
    assert not (np.load(files / "C.npy") == 8).all()
    result = gemmctl_gemm(gemmctl, files, meddler.url, "--check-digest")
    assert result.returncode != 0
    assert "changed on its way" in result.stderr
    meddler.listener.close()


def test_gemmctl_notices_a_missing_digest(gemmctl, files, shared_daemon):
    meddler = Meddler(shared_daemon, lambda data: data.replace(b"Content-Digest", b"Content-Nothin"))
    result = gemmctl_gemm(gemmctl, files, meddler.url, "--check-digest")
    assert result.returncode != 0
    assert "no Content-Digest" in result.stderr
    meddler.listener.close()
