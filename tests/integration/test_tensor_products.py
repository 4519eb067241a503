"""POST /gemm with a=, b= and store=: the bytes are those of the same product with all in the body."""

import io
from dataclasses import replace

import numpy as np
import pytest

from daemon import PATIENCE_S
from matrices import NUMPY, OUTS, Problem, random_operands
from test_formats import NPY, RAW, SAFETENSORS, npy_body, safetensors_body, squeeze
from test_jobs import eventually
from test_metrics import scrape, total
from test_tensors import PAGE, Tensors, etag, values
from wire import Wire, request

BODIES = {RAW: lambda operands: operands.raw(), NPY: npy_body, SAFETENSORS: safetensors_body}


@pytest.fixture
def tensors(url):
    """The shared daemon's, emptied of what the test left there."""
    tensors = Tensors(url)
    before = set(tensors.names())
    yield tensors
    for name in set(tensors.names()) - before:
        assert tensors.send("DELETE", name).status_code == 204


def put(tensors, **arrays):
    for name, array in arrays.items():
        answer = tensors.put(name, array)
        assert answer.status_code in (200, 201), answer.text


def product(tensors, parameters, body=b"", media_type=RAW, **headers):
    return tensors.session.post(tensors.url.replace("/tensors", "/gemm"), params=parameters,
                                data=body, timeout=PATIENCE_S,
                                headers={"Content-Type": media_type, **headers})


def whole(tensors, problem, operands):
    """The raw answer to the product with everything in the body."""
    answer = product(tensors, problem.parameters(), operands.raw())
    assert answer.status_code == 200, answer.text
    return answer.content


def left(problem, *names):
    """The parameters, without those that resident operands say."""
    parameters = problem.parameters()
    for name in names:
        parameters.pop(name, None)
    return parameters


SHAPES = [(1, 64, 64), (5, 7, 3), (64, 64, 64), (33, 255, 129), (300, 200, 101), (257, 512, 384)]


@pytest.mark.matrix
@pytest.mark.parametrize("m, n, k", SHAPES)
@pytest.mark.parametrize("dtype, out", [(d, o) for d, outs in OUTS.items() for o in outs])
def test_bytes_are_those_of_the_body(m, n, k, dtype, out, tensors, rng):
    problem = Problem(m, n, k, dtype=dtype, out=out)
    operands = random_operands(problem, rng)
    expected = whole(tensors, problem, operands)
    put(tensors, a=operands.a[0], b=operands.b[0])
    a_there = product(tensors, left(problem, "m", "k", "dtype") | {"a": "a"}, operands.b.tobytes())
    b_there = product(tensors, left(problem, "n", "k", "dtype") | {"b": "b"}, operands.a.tobytes())
    both = product(tensors, left(problem, "m", "n", "k", "dtype") | {"a": "a", "b": "b"})
    for answer in (a_there, b_there, both):
        assert answer.status_code == 200, answer.text
        assert answer.content == expected, answer.headers
        assert answer.headers["Gemmd-Shape"] == f"{m},{n}"
    stored = product(tensors, left(problem, "m", "n", "k", "dtype") | {"a": "a", "b": "b",
                                                                       "store": "c"})
    assert stored.status_code == 201, stored.text
    answer = tensors.get("c")
    assert answer.content == expected
    assert answer.headers["ETag"] == etag(np.frombuffer(expected, NUMPY[out]).reshape(m, n))


@pytest.mark.matrix
@pytest.mark.parametrize("sent", [RAW, NPY, SAFETENSORS])
@pytest.mark.parametrize("resident", ["a", "b", "ab"])
@pytest.mark.parametrize("problem", [
    Problem(5, 7, 3, transa=True, transb=True), Problem(40, 30, 20, dtype="bf16", batch=3),
    Problem(5, 70, 33, dtype="f16", bias=True, beta=2, act="relu", transb=True),
    Problem(300, 21, 65, dtype="bf16", out="f32", beta=-1, transa=True),
    Problem(9, 9, 9, dtype="i8", batch=2, bias=True)], ids=str)
def test_all_parameters_and_formats(problem, resident, sent, tensors, rng):
    operands = random_operands(problem, rng)
    expected = whole(tensors, problem, operands)
    a, b = squeeze(operands)[:2]
    put(tensors, a=a, b=b)
    in_body = operands._replace(**{name: None for name in resident})
    parameters = left(problem, "m", "n", "k", "batch", "dtype")
    if sent == RAW:
        needed = {"a": ("n",), "b": ("m",), "ab": ()}[resident]
        parameters |= {name: getattr(problem, name) for name in needed}
    if sent == SAFETENSORS:
        parameters.pop("bias", None)
    parameters |= {name: name for name in resident}
    body = BODIES[sent](in_body)
    if sent == SAFETENSORS and all(operand is None for operand in in_body):
        body = b"\x02\0\0\0\0\0\0\0{}"
    answer = product(tensors, parameters, body, sent, Accept=RAW)
    assert answer.status_code == 200, answer.text
    assert answer.content == expected


@pytest.mark.parametrize("sent", [RAW, NPY, SAFETENSORS])
@pytest.mark.parametrize("problem", [
    Problem(3, 4, 8, batch=5), Problem(40, 30, 70, dtype="bf16", batch=3, transb=True),
    Problem(1, 64, 64, dtype="f16", out="f32", batch=70, bias=True, beta=0.5, act="gelu"),
    Problem(129, 65, 33, dtype="i8", batch=2)], ids=str)
def test_one_matrix_for_a_batch(problem, sent, tensors, rng):
    """A resident B of two dimensions is every problem's; the bytes are those of one product of all
    rows."""
    operands = random_operands(problem, rng)
    b = operands.b[0]
    rows = replace(problem, m=problem.m * problem.batch, batch=1)
    of_rows = operands._replace(a=operands.a.reshape(1, -1, problem.k), b=operands.b[:1], c0=(
        None if operands.c0 is None else operands.c0.reshape(1, -1, problem.n)))
    expected = whole(tensors, rows, of_rows)
    put(tensors, b=b, a=operands.a)
    parameters = left(problem, "n", "k", "dtype") | {"b": "b"}
    if sent != RAW:
        parameters.pop("batch"), parameters.pop("m")
    if sent == SAFETENSORS:
        parameters.pop("bias", None)
    body = BODIES[sent](operands._replace(b=None))
    answer = product(tensors, parameters, body, sent, Accept=RAW)
    assert answer.status_code == 200, answer.text
    assert answer.content == expected
    assert answer.headers["Gemmd-Shape"] == f"{problem.batch},{problem.m},{problem.n}"
    if problem.act == "none":
        checked = product(tensors, parameters | {"verify": "freivalds"}, body, sent, Accept=RAW)
        assert checked.content == expected
    parameters = left(problem, "m", "n", "k", "batch", "dtype") | {"a": "a", "b": "b", "store": "c"}
    rest = operands._replace(a=None, b=None)
    stored = product(tensors, parameters, rest.raw())
    assert stored.status_code == 201, stored.text
    assert stored.json()["shape"] == [problem.batch, problem.m, problem.n]
    assert tensors.get("c").content == expected


def test_one_matrix_for_a_batch_takes_rows(tensors, rng):
    put(tensors, b=values(rng, "f32", (4, 5)))
    answer = product(tensors, {"b": "b", "m": 3, "batch": 2, "transa": 1}, b"\0" * 96)
    assert (answer.status_code, answer.json()["field"]) == (422, "transa"), answer.text
    answer = product(tensors, {"b": "b", "m": 2**31 - 1, "batch": 2, "store": "c"})
    assert answer.status_code == 413, answer.text
    many = values(rng, "f32", (2, 3, 4))
    body = io.BytesIO()
    np.save(body, np.asfortranarray(many))
    answer = product(tensors, {"b": "b"}, body.getvalue(), NPY, Accept=RAW)
    same = product(tensors, {"b": "b", "m": 3, "batch": 2}, many.tobytes())
    assert answer.status_code == 200 and answer.content == same.content


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_every_kernel(dtype, url, tensors, rng):
    """Whatever layout tensors have there, a kernel computes what it computes of a body."""
    kernels = tensors.session.get(f"{url}/info", timeout=PATIENCE_S).json()["kernels"]
    for kernel in [kernel["name"] for kernel in kernels
                   if kernel["op"] == "gemm" and dtype in kernel["dtypes"] and kernel["name"] != "packed"]:
        problem = Problem(65, 131, 257, dtype=dtype, kernel=kernel, beta=0.5)
        operands = random_operands(problem, rng)
        expected = whole(tensors, problem, operands)
        put(tensors, a=operands.a[0], b=operands.b[0])
        parameters = left(problem, "m", "n", "k") | {"a": "a", "b": "b", "store": "c"}
        stored = product(tensors, parameters, operands.c0.tobytes())
        assert stored.status_code == 201, stored.text
        assert stored.headers["Gemmd-Kernel"] == kernel
        assert tensors.get("c").content == expected, kernel


def test_a_chain_that_never_leaves(tensors, rng):
    """((A B) B) B, stored under two names in turn, and the same by way of the client."""
    a, b = values(rng, "f32", (130, 77)), values(rng, "f32", (77, 77))
    put(tensors, b=b, c0=a)
    x = a
    for step in range(3):
        stored = product(tensors, {"a": f"c{step}", "b": "b", "store": f"c{step + 1}"})
        assert stored.status_code == 201, stored.text
        answer = product(tensors, {"m": 130, "n": 77, "k": 77}, x.tobytes() + b.tobytes())
        x = np.frombuffer(answer.content, np.float32).reshape(130, 77)
    assert tensors.get("c3").content == x.tobytes()
    # In place: the operand is read to the end before its name changes hands.
    assert product(tensors, {"a": "c2", "b": "b", "store": "c2"}).status_code == 201
    assert tensors.get("c2").content == x.tobytes()


def test_what_a_stored_result_says(tensors, rng):
    array = values(rng, "f32", (200, 200))
    put(tensors, a=array)
    answer = product(tensors, {"a": "a", "b": "a", "store": "c", "out": "bf16"},
                     **{"Accept": "application/json", "X-Request-Id": "mine"})
    assert answer.status_code == 201, answer.text
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Location"] == "/tensors/c"
    assert answer.headers["X-Request-Id"] == "mine"
    assert {"Gemmd-Kernel", "Gemmd-Batch", "Server-Timing"} <= set(answer.headers)
    described = answer.json()
    assert described.pop("memory_bytes") >= 80000
    assert described.pop("devices") == [0]
    assert described == {"name": "c", "dtype": "bf16", "shape": [200, 200], "bytes": 80000,
                         "etag": None, "evictable": False}
    # Its tag is known from the first time that its bytes were looked at.
    head = tensors.send("HEAD", "c")
    got = tensors.get("c")
    assert head.headers["ETag"] == got.headers["ETag"]
    assert got.headers["ETag"] == etag(np.frombuffer(got.content, NUMPY["bf16"]).reshape(200, 200))
    assert next(t for t in tensors.get().json()["tensors"]
                if t["name"] == "c")["etag"] == got.headers["ETag"]


def test_a_stored_result_may_be_larger_than_an_answer(start, rng):
    daemon = start("--max-result", "1000")
    tensors = Tensors(daemon.url)
    array = values(rng, "f32", (40, 40))
    put(tensors, a=array)
    assert product(tensors, {"a": "a", "b": "a"}).status_code == 413
    assert product(tensors, {"a": "a", "b": "a", "store": "c"}).status_code == 201
    assert tensors.get("c").status_code == 413


def test_verified(tensors, rng):
    put(tensors, a=values(rng, "f32", (130, 77)), b=values(rng, "f32", (77, 90)))
    for more in ({}, {"store": "c"}):
        answer = product(tensors, {"a": "a", "b": "b", "verify": "freivalds"} | more)
        assert answer.status_code == (201 if more else 200), answer.text
        assert answer.headers["Gemmd-Verify"].startswith("pass; residual=")


@pytest.mark.parametrize("parameters, status, field", [
    ({"a": "none", "n": 3}, 404, "a"),
    ({"b": "none", "m": 3}, 404, "b"),
    ({"a": "a", "b": "none"}, 404, "b"),
    ({"a": "a b", "n": 3}, 400, "a"),
    ({"store": "a/b", "m": 1, "n": 1, "k": 1}, 400, "store"),
    ({"a": "a"}, 400, "n"),
    ({"a": "a", "n": 3, "k": 6}, 400, "k"),
    ({"a": "a", "n": 3, "m": 5}, 400, "m"),
    ({"a": "a", "n": 3, "batch": 2}, 400, "batch"),
    ({"a": "a", "n": 3, "dtype": "f16"}, 400, "dtype"),
    ({"a": "a", "b": "a"}, 400, "k"),
    ({"a": "half", "b": "a"}, 400, "dtype"),
    ({"a": "vector", "n": 3}, 400, None),
    ({"a": "sums", "n": 3}, 422, "dtype"),
    ({"a": "deep", "n": 3}, 400, None),
])
def test_bad_operands(parameters, status, field, tensors, rng):
    put(tensors, a=values(rng, "f32", (4, 5)), half=values(rng, "f16", (4, 4)),
        vector=values(rng, "f32", (5,)), sums=values(rng, "i32", (4, 5)),
        deep=values(rng, "f32", (2, 2, 4, 5)))
    answer = product(tensors, parameters, b"\0" * 60)
    assert (answer.status_code, answer.json().get("field")) == (status, field), answer.text


def test_shapes_that_disagree_are_named(tensors, rng):
    put(tensors, W=values(rng, "f32", (5, 6)))
    body = io.BytesIO()
    np.save(body, values(rng, "f32", (3, 4)))
    answer = product(tensors, {"b": "W"}, body.getvalue(), NPY)
    assert answer.status_code == 400
    assert answer.json()["detail"] == \
        "k is 4 by the shape of A and 5 by that of the tensor 'W'"


def test_operands_that_are_in_the_body_too(tensors, rng):
    array = values(rng, "f32", (4, 4))
    put(tensors, a=array)
    both = Problem(4, 4, 4)
    operands = random_operands(both, rng)
    for sent, body in BODIES.items():
        parameters = {"a": "a"} | ({"n": 4} if sent == RAW else {})
        answer = product(tensors, parameters, body(operands), sent)
        assert answer.status_code == 400, (sent, answer.text)


# --- what happens to names meanwhile ---

def open_product(wire, target, body):
    """A product whose headers are accepted and whose body is not sent yet."""
    wire.send(request("POST", target, [("Content-Length", len(body)), ("Expect", "100-continue")]))
    assert wire.receive().status == 100


@pytest.mark.parametrize("what", ["delete", "replace", "evict", "overwrite all"])
def test_a_tensor_in_use_stays(what, start, rng):
    daemon = start("--tensor-bytes", str(4 * PAGE))
    tensors = Tensors(daemon.url)
    weights, other = values(rng, "f32", (32, 32)), values(rng, "f32", (32, 32))
    row = values(rng, "f32", (3, 32))
    assert tensors.put("w", weights, evictable=1).status_code == 201
    expected = product(tensors, {"m": 3, "b": "w"}, row.tobytes()).content
    with Wire(daemon.address) as wire:
        open_product(wire, "/gemm?m=3&b=w", row.tobytes())
        if what == "delete":
            assert tensors.send("DELETE", "w").status_code == 204
        if what == "replace":
            assert tensors.put("w", other).status_code == 200
        if what == "evict":  # is not, while it is in use
            for i in range(3):
                assert tensors.put(f"o{i}", other, evictable=1).status_code == 201
            assert tensors.put("o3", other).status_code == 201
            assert tensors.names() == ["o1", "o2", "o3", "w"]
        if what == "overwrite all":
            assert tensors.send("DELETE", "w").status_code == 204
            statuses = [tensors.put(f"o{i}", other).status_code for i in range(4)]
            assert statuses == [201, 201, 201, 507]
        wire.send(row.tobytes())
        answer = wire.receive()
    assert (answer.status, answer.body) == (200, expected)
    # Its memory is free, or its own again, when the request is over: soon after its client has the answer.
    if what == "overwrite all":
        eventually(lambda: tensors.put("o3", other).status_code == 201, "its memory is not free")
    if what == "replace":
        assert tensors.get("w").content == other.tobytes()
    eventually(lambda: total(scrape(daemon), "gemmd_tensor_memory_used_bytes") == PAGE * len(tensors.names()),
               "memory is held that no tensor has")


def test_a_client_that_leaves_gives_its_tensors_back(start, rng):
    daemon = start("--tensor-bytes", str(2 * PAGE))
    tensors = Tensors(daemon.url)
    array = values(rng, "f32", (32, 32))
    assert tensors.put("w", array).status_code == 201
    with Wire(daemon.address) as wire:
        open_product(wire, "/gemm?m=32&b=w&store=c", array.tobytes())
        assert tensors.send("DELETE", "w").status_code == 204
        assert tensors.put("x", array).status_code == 507  # w is in use, c reserved
        wire.send(array.tobytes()[:100])
    daemon.wait_for(lambda lines: any(line.get("error") == "cancelled" for line in lines),
                    "the abandoned request")
    eventually(lambda: tensors.put("x", array).status_code == 201, "what it held is not free")
    assert tensors.put("y", array).status_code == 201
    assert tensors.get("c").status_code == 404


def test_a_result_without_room_is_refused_at_the_headers(start, rng):
    daemon = start("--tensor-bytes", str(PAGE))
    with Wire(daemon.address) as wire:
        wire.send(request("POST", "/gemm?m=64&n=64&k=64&store=c",
                          [("Content-Length", 32768), ("Expect", "100-continue")]))
        assert wire.receive().status == 507
    assert Tensors(daemon.url).names() == []


def test_hits_and_misses(start, rng):
    daemon = start()
    tensors = Tensors(daemon.url)
    put(tensors, a=values(rng, "f32", (4, 4)))
    for parameters in ({"a": "a", "b": "a"}, {"a": "a", "b": "none"}, {"a": "none", "b": "a"}):
        product(tensors, parameters)
    text = scrape(daemon)
    assert total(text, "gemmd_tensor_hits_total") == 3
    assert total(text, "gemmd_tensor_misses_total") == 2
    assert total(text, "gemmd_tensor_names") == 1
    assert total(text, "gemmd_requests_total", op="tensor", code="200") == 1


@pytest.mark.parametrize("sent", [RAW, NPY])
def test_a_job_that_stores(sent, tensors, rng):
    """The job's result is the description; the tensor is there when the job is done."""
    a, b = values(rng, "f32", (40, 30)), values(rng, "f32", (30, 20))
    put(tensors, b=b)
    expected = product(tensors, {"m": 40, "n": 20, "k": 30}, a.tobytes() + b.tobytes()).content
    body = npy_body([a]) if sent == NPY else a.tobytes()
    parameters = {"b": "b", "store": "c"} | ({"m": 40} if sent == RAW else {})
    accepted = product(tensors, parameters, body, sent, Prefer="respond-async")
    assert accepted.status_code == 202, accepted.text
    location = tensors.url.replace("/tensors", accepted.headers["Location"])
    result = tensors.session.get(f"{location}/result", params={"wait_ms": 60000},
                                 timeout=PATIENCE_S)
    assert result.status_code == 201, result.text
    assert result.headers["Location"] == "/tensors/c"
    assert result.json()["shape"] == [40, 20]
    assert tensors.get("c").content == expected
    assert tensors.session.delete(location, timeout=PATIENCE_S).status_code == 200
