"""Compressed bodies on every endpoint that takes one, and compressed answers where they are
configured."""

import gzip
import json
import zlib

import numpy as np
import pytest
import requests
import tritonclient.http as http

from attention import Attention, random_operands, raw
from daemon import PATIENCE_S, PATIENT
from matrices import Problem, random_operands as random_matrices
from oip import Input, body, infer, split
from patience import wait_until
from problem import assert_problem
from test_formats import NPY, RAW, npy_body
from test_metrics import scrape, total, values
from test_tensors import Tensors
from wire import Wire, exchange, request

PACK = {"gzip": lambda data: gzip.compress(data, 1), "deflate": lambda data: zlib.compress(data, 1)}
CODINGS = tuple(PACK)
BINARY = {"binary_data_output": True}
SQUARE = {"m": 64, "n": 64, "k": 64}
A = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
B = np.array([[1, -1], [0.5, 2], [3, 0.25]], np.float32)


@pytest.fixture
def send(url, session):
    """send(path, bytes, coding, type=…, pieces=…) -> the answer."""
    def sender(path, data, coding, media_type=RAW, pieces=False, method="POST", **parameters):
        packed = PACK[coding](data)
        return session.request(
            method, url + path, params=parameters, timeout=PATIENCE_S,
            data=(packed[i:i + 997] for i in range(0, len(packed), 997)) if pieces else packed,
            headers={"Content-Type": media_type, "Content-Encoding": coding})
    return sender


def matrices(rng):
    """Operands of SQUARE that shrink to a half or so."""
    return rng.integers(-9, 9, (2, 64, 64)).astype(np.float32)


# ---- bodies ----

@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("pieces", [False, True], ids=["length", "chunked"])
def test_gemm(coding, pieces, send, rng):
    operands = matrices(rng)
    answer = send("/gemm", operands.tobytes(), coding, pieces=pieces, **SQUARE)
    assert answer.status_code == 200, answer.text
    assert answer.content == (operands[0] @ operands[1]).tobytes()


@pytest.mark.parametrize("coding", CODINGS)
def test_gemm_in_a_format_that_says_its_shapes(coding, send, url, session, rng):
    """Longer than what a body of unknown length starts with."""
    problem = Problem(200, 100, 150)
    data = npy_body(random_matrices(problem, rng))
    answer = send("/gemm", data, coding, NPY)
    assert answer.status_code == 200, answer.text
    assert answer.content == session.post(f"{url}/gemm", data=data, timeout=PATIENCE_S,
                                          headers={"Content-Type": NPY}).content


@pytest.mark.parametrize("coding", CODINGS)
def test_attention(coding, send, url, session, rng):
    problem = Attention(2, 9, 8, dtype="f32")
    data = raw(problem, random_operands(problem, rng))
    answer = send("/attention", data, coding, **problem.parameters())
    assert answer.status_code == 200, answer.text
    assert answer.content == session.post(f"{url}/attention", params=problem.parameters(),
                                          data=data, timeout=PATIENCE_S).content


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("media_type", [RAW, NPY])
def test_tensors(coding, media_type, send, url, rng):
    array = rng.integers(-9, 9, (300, 100)).astype(np.float32)
    data = npy_body([array]) if media_type == NPY else array.tobytes()
    shape = {} if media_type == NPY else {"shape": "300,100"}
    tensors = Tensors(url)
    answer = send("/tensors/compressed", data, coding, media_type, method="PUT", **shape)
    try:
        assert answer.status_code == 201, answer.text
        assert tensors.get("compressed").content == array.tobytes()
        etag = answer.headers["ETag"]
        assert tensors.put("compressed", array).headers["ETag"] == etag
    finally:
        tensors.send("DELETE", "compressed")


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("binary", [True, False])
def test_infer(coding, binary, send, url, session):
    """Inference-Header-Content-Length counts what is not compressed any more."""
    data, headers = body([Input("A", A, binary=binary), Input("B", B, binary=binary)],
                         parameters=BINARY)
    answer = session.post(f"{url}/v2/models/gemm_fp32/infer", data=PACK[coding](data),
                          headers=headers | {"content-encoding": coding}, timeout=PATIENCE_S)
    assert answer.status_code == 200, answer.text
    assert split(answer)[1] == (A @ B).tobytes()
    index = send("/v2/repository/index", b'{"ready":true}', coding)
    assert index.status_code == 200 and index.json()


def test_empty_bodies_are_empty(address):
    """Whatever they are said to be compressed with."""
    with Wire(address) as wire:
        for headers in ([], [("Content-Length", 0)]):
            wire.send(request("POST", "/v2/repository/index", [("Content-Encoding", "gzip"),
                                                               *headers]))
            assert wire.receive().status == 200


def test_members_of_gzip_follow_each_other(url, session, rng):
    operands = matrices(rng)
    packed = b"".join(gzip.compress(operand.tobytes()) for operand in operands)
    answer = session.post(f"{url}/gemm", params=SQUARE, data=packed, timeout=PATIENCE_S,
                          headers={"Content-Encoding": "x-gzip"})
    assert answer.content == (operands[0] @ operands[1]).tobytes(), answer.text


# ---- bodies that are refused ----

@pytest.mark.parametrize("coding, words", [
    ("br", "gzip, deflate or identity"), ("compress", "gzip, deflate or identity"),
    ("gzip, gzip", "more than once"), ("deflate, gzip", "more than once"),
    ("gzip;q=1", "gzip, deflate or identity")])
@pytest.mark.parametrize("path", ["/gemm?m=2&n=2&k=2", "/attention?heads=1&sq=2&d=2",
                                  "/v2/models/gemm_fp32/infer", "/v2/repository/index"])
def test_codings_that_are_not_taken(coding, words, path, url, session):
    answer = session.post(url + path, data=b"x" * 32, timeout=PATIENCE_S,
                          headers={"Content-Encoding": coding})
    assert_problem(answer, 415, words)
    assert answer.headers["Accept-Encoding"] == "gzip, deflate"


def test_a_media_type_is_another_matter(url, session):
    answer = session.post(f"{url}/gemm", data=b"{}", headers={"Content-Type": "application/json"},
                          timeout=PATIENCE_S)
    assert answer.status_code == 415
    assert "Accept-Encoding" not in answer.headers


def test_two_headers_are_two_codings(address):
    with Wire(address) as wire:
        wire.send(request("POST", "/gemm?m=2&n=2&k=2", [
            ("Content-Encoding", "gzip"), ("Content-Encoding", "deflate"),
            ("Content-Length", 2)], b"xx"))
        assert wire.receive().status == 415


DATA = np.arange(2 * 64 * 64, dtype=np.float32).tobytes()


@pytest.mark.parametrize("packed, words", [
    (gzip.compress(DATA)[:-1], "ends in the middle"),
    (gzip.compress(DATA)[:5], "ends in the middle"),
    (gzip.compress(DATA)[:-8] + bytes(8), "not gzip"), (b"x" * 100, "not gzip"),
    (gzip.compress(DATA) + b"x", "ends in the middle|not gzip"),
    (gzip.compress(DATA[:-4]), "the body is 32764 bytes"),
    (gzip.compress(DATA + b"x"), "more than the 32768 bytes"),
    (zlib.compress(DATA), "not gzip"), (DATA, "not gzip")], ids=range(9))
def test_what_is_not_right_inside(packed, words, url, session):
    answer = session.post(f"{url}/gemm", params=SQUARE, data=packed, timeout=PATIENCE_S,
                          headers={"Content-Encoding": "gzip"})
    assert_problem(answer, 400, words)


@pytest.mark.parametrize("parameters, packed, words", [
    ({"shape": "64,64"}, zlib.compress(DATA), "more than the 16384 bytes"),
    ({"shape": "64,64,64"}, zlib.compress(DATA), "32768 bytes; its shape takes 1048576"),
    ({"shape": "2,64,64"}, zlib.compress(DATA)[:-1], "ends in the middle"),
    ({"shape": "2,64,64"}, zlib.compressobj(wbits=-15).flush(), "not deflate")])
def test_tensors_that_are_not_right_inside(parameters, packed, words, url, session):
    answer = session.put(f"{url}/tensors/compressed", params=parameters, data=packed,
                         headers={"Content-Encoding": "deflate"}, timeout=PATIENCE_S)
    assert_problem(answer, 400, words)
    assert Tensors(url).get("compressed").status_code == 404


def bomb(mebibytes):
    packer = zlib.compressobj(9)
    return b"".join(packer.compress(bytes(1 << 20)) for _ in range(mebibytes)) + packer.flush()


def test_bombs(start):
    """Refused at the ratio or at the longest body, whichever is first, with nothing kept."""
    daemon = start("--max-body", "4M", "--max-json", "256K", "--pinned-bytes", "64M")

    def post(path, packed, media_type=NPY):
        return daemon.session.post(daemon.url + path, data=packed, timeout=PATIENCE_S, headers={
            "Content-Encoding": "deflate", "Content-Type": media_type})

    small = bomb(16)
    for path in ("/gemm", "/attention"):
        assert_problem(post(path, small), 413, "the limit is 100 times as many .--max-inflation")
    assert_problem(post("/v2/models/gemm_fp32/infer", small), 413,
                   "JSON is longer than --max-json, which is 256 KiB")
    answer = daemon.session.put(f"{daemon.url}/tensors/w", data=small, timeout=PATIENCE_S,
                                headers={"Content-Encoding": "deflate", "Content-Type": NPY})
    assert_problem(answer, 413, "the limit is 100 times as many .--max-inflation")
    assert_problem(post("/gemm?m=64&n=64&k=64", small, RAW), 400, "more than the 32768 bytes")
    noise = zlib.compress(np.random.default_rng(1).bytes(1 << 20) + bytes(8 << 20), 1)
    assert_problem(post("/gemm", noise), 413, "longer than --max-body, which is 4 MiB")
    wait_until(lambda: used(daemon) == [0, 0], "the memory and the places of requests that are over")


ENDLESS = {
    "blocks": ("deflate", zlib.compressobj().flush(zlib.Z_SYNC_FLUSH)[:2], b"\0\0\0\xff\xff"),
    "members": ("gzip", b"", gzip.compress(b"")),
    "name": ("gzip", b"\x1f\x8b\x08\x08\0\0\0\0\0\x03", b"name"),
}


@pytest.mark.parametrize("media_type", [RAW, NPY])
@pytest.mark.parametrize("kind", ENDLESS)
def test_compressed_bodies_that_go_on_for_ever(kind, media_type, start):
    """They decompress to nothing, so that no other limit ends them: they are refused after 1 MiB."""
    daemon = start()
    coding, begin, repeat = ENDLESS[kind]
    piece = repeat * ((64 << 10) // len(repeat))
    with Wire(daemon.address) as wire:
        wire.send(request("POST", "/gemm?m=64&n=64&k=64", [
            ("Content-Encoding", coding), ("Content-Type", media_type), ("Transfer-Encoding", "chunked")]))
        sent = 0
        try:
            for data in [begin, *[piece] * 160]:
                wire.send(f"{len(data):x}\r\n".encode() + data + b"\r\n" if data else b"")
                sent += len(data)
        except (BrokenPipeError, ConnectionResetError):
            pass
        answer = wire.receive()
    assert_problem(answer, 413, "become only 0")
    wait_until(lambda: used(daemon) == [0, 0], "nothing is held")
    assert values(scrape(daemon))["gemmd_request_bytes_total"] < 4 << 20


def test_a_compressed_body_that_is_announced_too_long(start):
    daemon = start("--max-body", "4M")
    for length, status in ((2 * (4 << 20) + (1 << 20), 100), (2 * (4 << 20) + (1 << 20) + 1, 413)):
        with Wire(daemon.address) as wire:
            wire.send(request("POST", "/gemm?m=64&n=64&k=64", [
                ("Content-Encoding", "gzip"), ("Content-Type", RAW), ("Content-Length", length),
                ("Expect", "100-continue")]))
            answer = wire.receive()
            assert answer.status == status
            if status == 413:
                assert_problem(answer, 413, "up to 9 MiB")


def used(daemon):
    now = values(scrape(daemon))
    return [now["gemmd_pinned_memory_used_bytes"], now["gemmd_queue_bytes"]]


def test_zeros_are_taken_if_they_may(start):
    daemon = start("--max-inflation", "0")
    answer = daemon.session.post(f"{daemon.url}/gemm", params={"m": 1024, "n": 1024, "k": 1024},
                                 data=bomb(8), headers={"Content-Encoding": "deflate"},
                                 timeout=PATIENCE_S)
    assert answer.content == bytes(4 << 20)
    info = daemon.session.get(f"{daemon.url}/info", timeout=PATIENCE_S).json()["limits"]
    assert info["max-inflation"] == 0


def test_places_are_exact(start):
    """A raw body counts what it will be, from its headers on; others what memory they have."""
    daemon = start("--queue-bytes", "1M", *PATIENT)
    packed = gzip.compress(bytes(2 * 220 * 220 * 4))

    def head(path, media_type):
        return request("POST", path, [
            ("Content-Encoding", "gzip"), ("Content-Type", media_type),
            ("Content-Length", len(packed)), ("Expect", "100-continue")])

    def queued():
        return values(scrape(daemon))["gemmd_queue_bytes"]

    with Wire(daemon.address) as first, Wire(daemon.address) as second:
        first.send(head("/gemm?m=220&n=220&k=220", RAW))
        assert first.receive().status == 100
        assert queued() == 3 * 220 * 220 * 4, "operands and result"
        second.send(head("/gemm?m=220&n=220&k=220", RAW))
        assert second.receive().status == 429
        first.send(packed)
        assert first.receive().status == 200
    wait_until(lambda: queued() == 0, "the place of a request whose answer is sent")
    with Wire(daemon.address) as wire:
        wire.send(head("/gemm", NPY))
        assert wire.receive().status == 100
        assert queued() == 64 * 1024, "what such a body starts with"
    wait_until(lambda: queued() == 0, "the place of a request whose client has left")


def test_large_bodies_that_are_refused_late_are_read_on(start):
    """The answer is read although most of the body is not needed any more."""
    daemon = start("--max-body", "1M")
    noise = zlib.compress(np.random.default_rng(1).bytes(6 << 20))
    with Wire(daemon.address) as wire:
        wire.try_to_send(request("POST", "/gemm", [
            ("Content-Encoding", "deflate"), ("Content-Type", NPY),
            ("Content-Length", len(noise))], noise))
        assert wire.receive().status == 413


def test_metrics(start, rng):
    daemon = start()
    packed = gzip.compress(matrices(rng).tobytes())
    for _ in range(2):
        answer = daemon.session.post(f"{daemon.url}/gemm", params=SQUARE, data=packed,
                                     headers={"Content-Encoding": "gzip"}, timeout=PATIENCE_S)
        assert answer.status_code == 200
    wanted = [2, 2 * 2 * 64 * 64 * 4, 2 * len(packed)]
    now = []

    def is_counted():
        text = scrape(daemon)
        now[:] = [total(text, f"gemmd_{name}_total")
                  for name in ("inflated_bodies", "inflated_bytes", "request_bytes")]
        return now == wanted

    wait_until(is_counted, lambda: f"{now} instead of {wanted}")


# ---- answers ----

def get(daemon, path, accept, **keywords):
    """The answer with its bytes as they came: nothing is decoded."""
    method = keywords.pop("method", "GET")
    headers = keywords.pop("headers", {}) | {"Accept-Encoding": accept}
    answer = daemon.session.request(method, daemon.url + path, headers=headers, stream=True,
                                    timeout=PATIENCE_S, **keywords)
    return answer, answer.raw.read(decode_content=False)


def unpack(answer, data):
    coding = answer.headers.get("Content-Encoding")
    return {"gzip": gzip.decompress, "deflate": zlib.decompress, None: bytes}[coding](data)


def test_answers_are_as_they_are_by_default(url, session, rng):
    operands = matrices(rng)
    answer = session.post(f"{url}/gemm", params=SQUARE, data=operands.tobytes(),
                          headers={"Accept-Encoding": "gzip"}, timeout=PATIENCE_S)
    assert "Content-Encoding" not in answer.headers
    assert "Vary" not in answer.headers
    assert int(answer.headers["Content-Length"]) == 64 * 64 * 4


@pytest.fixture
def compressing(start):
    return start("--compress-answers")


@pytest.mark.parametrize("accept, coding", [
    ("gzip", "gzip"), ("deflate", "deflate"), ("gzip, deflate", "gzip"),
    ("gzip;q=0.5, deflate;q=0.8", "deflate"), ("identity", None), ("gzip;q=0", None),
    ("br", None), ("*", "gzip")])
def test_answers_are_compressed_if_configured(accept, coding, compressing, rng):
    operands = rng.integers(-9, 9, (2, 300, 300)).astype(np.float32)
    size = {"m": 300, "n": 300, "k": 300}
    answer, data = get(compressing, "/gemm", accept, method="POST", params=size,
                       data=operands.tobytes())
    assert answer.status_code == 200
    assert answer.headers.get("Content-Encoding") == coding
    assert answer.headers["Vary"] == "Accept-Encoding"
    assert answer.headers["Gemmd-Shape"] == "300,300"
    assert unpack(answer, data) == (operands[0] @ operands[1]).tobytes()


def test_every_kind_of_answer(compressing, rng):
    operands = matrices(rng)
    product = (operands[0] @ operands[1]).tobytes()
    for path in ("/openapi.json", "/metrics", "/info"):
        answer, data = get(compressing, path, "gzip")
        assert answer.headers["Content-Encoding"] == "gzip", path
        assert unpack(answer, data)
    answer, data = get(compressing, "/livez", "gzip")
    assert "Content-Encoding" not in answer.headers, "it is too short"
    inputs = [Input("A", operands[0]), Input("B", operands[1])]
    for parameters in (BINARY, {}):
        said, headers = body(inputs, parameters=parameters)
        answer, data = get(compressing, "/v2/models/gemm_fp32/infer", "deflate", method="POST",
                           data=said, headers=headers)
        assert answer.headers["Content-Encoding"] == "deflate"
        whole = unpack(answer, data)
        length = int(answer.headers.get("Inference-Header-Content-Length", len(whole)))
        output = json.loads(whole[:length])["outputs"][0]
        numbers = (np.array(output["data"], np.float32).tobytes() if "data" in output
                   else whole[length:])
        assert numbers == product
    # JSON with O as numbers, and behind it lse as bytes: the daemon has them in two places.
    problem = Attention(8, 16, 8, dtype="f32")
    inputs = [Input(name, problem.stored(array)) for name, array in zip("QKV", random_operands(problem, rng))]
    outputs = [{"name": "O"}, {"name": "LSE", "parameters": {"binary_data": True}}]
    said, headers = body(inputs, parameters={"lse": True}, outputs=outputs)
    pieces = []
    for accept in ("identity", "gzip"):
        answer, data = get(compressing, "/v2/models/attention_fp32/infer", accept, method="POST", data=said,
                           headers=headers)
        assert answer.headers.get("Content-Encoding", "identity") == accept, data
        whole = unpack(answer, data)
        length = int(answer.headers["Inference-Header-Content-Length"])
        pieces.append((json.loads(whole[:length])["outputs"], whole[length:]))
    assert pieces[0] == pieces[1] and len(pieces[0][1]) == 4 * 8 * 16
    Tensors(compressing.url).put("w", operands[0])
    answer, data = get(compressing, "/tensors/w", "gzip")
    assert "Content-Encoding" not in answer.headers, "its entity tag names these bytes"
    answer, data = get(compressing, "/gemm", "gzip", method="POST", params=SQUARE,
                       data=operands.tobytes(), headers={"Prefer": "respond-async"})
    answer, data = get(compressing, f"{answer.headers['Location']}/result?wait_ms=60000", "gzip")
    assert answer.headers["Content-Encoding"] == "gzip"
    assert unpack(answer, data) == product
    answer, data = get(compressing, "/gemm?m=x", "gzip", method="POST", data=b"x")
    assert answer.status_code == 400 and b"error" in data


def test_codings_in_two_fields_count_together(compressing):
    accept = [("Accept-Encoding", "gzip;q=0.1"), ("Accept-Encoding", "deflate")]
    answer = exchange(compressing.address, request("GET", "/openapi.json", accept))
    assert answer.headers["content-encoding"] == "deflate"


def test_a_client_that_leaves_in_the_middle_of_one(start, rng):
    daemon = start("--compress-answers", "--pinned-bytes", "256M")
    data = rng.uniform(-1, 1, (2, 1000, 1000)).astype(np.float32).tobytes()
    with Wire(daemon.address) as wire:
        wire.send(request("POST", "/gemm?m=1000&n=1000&k=1000",
                          [("Content-Length", len(data)), ("Accept-Encoding", "gzip")], data))
        assert wire.socket.recv(100)
    wait_until(lambda: used(daemon) == [0, 0], "the memory of an answer that nobody reads")


def test_tritonclient(start):
    """Both directions, as its options say it."""
    daemon = start("--compress-answers")
    a, b = np.ones((40, 40), np.float32), np.full((40, 40), 2, np.float32)
    with http.InferenceServerClient("{}:{}".format(*daemon.address),
                                    network_timeout=PATIENCE_S) as client:
        for sent in (None, "gzip", "deflate"):
            for wanted in (None, "gzip", "deflate"):
                for binary in (True, False):
                    inputs = [http.InferInput(name, [40, 40], "FP32") for name in "AB"]
                    for tensor, array in zip(inputs, (a, b)):
                        tensor.set_data_from_numpy(array, binary_data=binary)
                    outputs = [http.InferRequestedOutput("C", binary_data=binary)]
                    result = client.infer("gemm_fp32", inputs, outputs=outputs,
                                          request_compression_algorithm=sent,
                                          response_compression_algorithm=wanted)
                    assert np.array_equal(result.as_numpy("C"), a @ b), (sent, wanted, binary)
    wait_until(lambda: total(scrape(daemon), "gemmd_inflated_bodies_total") == 12, "twelve bodies to be counted")


def test_tritonclient_asks_for_what_is_not_configured(url, address):
    """It gets the plain answer."""
    with http.InferenceServerClient("{}:{}".format(*address)) as client:
        inputs = [http.InferInput(name, list(array.shape), "FP32")
                  for name, array in (("A", A), ("B", B))]
        for tensor, array in zip(inputs, (A, B)):
            tensor.set_data_from_numpy(array)
        result = client.infer("gemm_fp32", inputs, request_compression_algorithm="gzip",
                              response_compression_algorithm="gzip")
        assert np.array_equal(result.as_numpy("C"), A @ B)
    assert requests.get(f"{url}/livez", timeout=PATIENCE_S).status_code == 200
