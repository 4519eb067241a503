"""/tensors: what goes in comes out, conditions are kept, tenants kept apart, memory bounded."""

import hashlib
import io
import json
import random
import socket
import time

import ml_dtypes
import numpy as np
import pytest
import requests
import safetensors
import safetensors.numpy

from daemon import PATIENCE_S, PATIENT
from matrices import NUMPY
from test_jobs import eventually
from test_metrics import scrape, total
from wire import Wire, request

RAW = "application/octet-stream"
NPY = "application/x-npy"
SAFETENSORS = "application/vnd.safetensors"
PAGE = 4096
DTYPE = {kind: name for name, kind in NUMPY.items()}


def etag(array):
    """As PROTOCOL.md says any client can compute it."""
    head = f"{DTYPE[array.dtype]}:{','.join(map(str, array.shape))}\n"
    return f'"{hashlib.sha256(head.encode() + np.ascontiguousarray(array).tobytes()).hexdigest()}"'


def encode(media_type, array):
    if media_type == RAW:
        return np.ascontiguousarray(array).tobytes()
    if media_type == NPY:
        out = io.BytesIO()
        np.lib.format.write_array(out, array)
        return out.getvalue()
    return safetensors.numpy.save({"weights": np.ascontiguousarray(array)})


def parameters(media_type, array, **more):
    if media_type == RAW:
        more |= {"dtype": DTYPE[array.dtype], "shape": ",".join(map(str, array.shape))}
    return more


class Tensors:
    """Requests to one daemon's /tensors, as one tenant."""

    def __init__(self, url, token=None):
        self.url = f"{url}/tensors"
        self.session = requests.Session()
        if token:
            self.session.headers["Authorization"] = f"Bearer {token}"

    def put(self, name, array, media_type=RAW, headers=None, **more):
        return self.session.put(f"{self.url}/{name}", params=parameters(media_type, array, **more),
                                data=encode(media_type, array), timeout=PATIENCE_S,
                                headers={"Content-Type": media_type, **(headers or {})})

    def send(self, method, name="", body=None, headers=None, **params):
        return self.session.request(method, f"{self.url}/{name}" if name else self.url,
                                    data=body, params=params, headers=headers, timeout=PATIENCE_S)

    def get(self, name="", **headers):
        return self.send("GET", name, headers=headers)

    def names(self):
        return [tensor["name"] for tensor in self.get().json()["tensors"]]


@pytest.fixture(scope="module")
def shared(url):
    with requests.Session():
        yield Tensors(url)


@pytest.fixture
def name(request, shared):
    """A name of the test's own on the shared daemon; nothing is left under it."""
    name = "t." + hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:16]
    yield name
    shared.send("DELETE", name)


def values(rng, dtype, shape):
    kind = NUMPY[dtype]
    if kind.kind == "i":
        return rng.integers(-100, 100, shape).astype(kind)
    return rng.uniform(-1, 1, shape).astype(kind)


def read(answer, dtype, shape):
    """The array, after checking that the format says what it is."""
    media_type = answer.headers["Content-Type"]
    if media_type == NPY:
        array = np.lib.format.read_array(io.BytesIO(answer.content))
        assert array.dtype == np.dtype({"bf16": "V2", "f8_e4m3": "V1"}.get(dtype, NUMPY[dtype]))
        array = array.view(NUMPY[dtype])
    elif media_type == SAFETENSORS:
        ((_, tensor),) = safetensors.deserialize(answer.content)
        array = np.frombuffer(tensor["data"], NUMPY[dtype]).reshape(tensor["shape"])
    else:
        assert media_type == RAW
        array = np.frombuffer(answer.content, NUMPY[dtype]).reshape(shape)
    assert array.shape == shape
    return array


# --- what goes in comes out ---

@pytest.mark.matrix
@pytest.mark.parametrize("dtype", sorted(NUMPY))
@pytest.mark.parametrize("sent", [RAW, NPY, SAFETENSORS])
@pytest.mark.parametrize("wanted", [None, RAW, NPY, SAFETENSORS])
def test_in_and_out(dtype, sent, wanted, shared, name, rng):
    array = values(rng, dtype, (5, 7))
    answer = shared.put(name, array, sent)
    assert answer.status_code == 201, answer.text
    assert answer.headers["ETag"] == etag(array)
    assert answer.headers["Location"] == f"/tensors/{name}"
    described = answer.json()
    assert described.pop("memory_bytes") % PAGE == 0
    assert described.pop("devices") == [0]
    assert described == {"name": name, "dtype": dtype, "shape": [5, 7], "bytes": array.nbytes,
                         "etag": etag(array), "evictable": False}

    headers = {"Accept": wanted} if wanted else {}
    answer = shared.get(name, **headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == (wanted or RAW)
    assert answer.headers["Gemmd-Shape"] == "5,7"
    assert answer.headers["Gemmd-Dtype"] == dtype
    assert answer.headers["ETag"] == etag(array)
    assert read(answer, dtype, (5, 7)).tobytes() == array.tobytes()

    head = shared.send("HEAD", name, headers=headers)
    assert head.status_code == 200 and head.content == b""
    for header in ("Content-Type", "Content-Length", "ETag", "Gemmd-Shape", "Gemmd-Dtype"):
        assert head.headers[header] == answer.headers[header]


@pytest.mark.parametrize("shape", [(1,), (17,), (3, 1), (1, 3), (2, 3, 5), (2, 2, 3, 5),
                                   (1, 2, 1, 3, 1, 2, 1, 2)])
@pytest.mark.parametrize("sent", [RAW, NPY, SAFETENSORS])
def test_any_rank(shape, sent, shared, name, rng):
    array = values(rng, "f16", shape)
    answer = shared.put(name, array, sent)
    assert (answer.status_code, answer.headers["ETag"]) == (201, etag(array)), answer.text
    assert read(shared.get(name, Accept=NPY), "f16", shape).tobytes() == array.tobytes()


@pytest.mark.parametrize("shape", [(17,), (5, 7), (1, 3), (6, 3, 5), (4, 2, 3, 5)])
@pytest.mark.parametrize("wanted", [RAW, NPY, SAFETENSORS])
def test_some_rows(shape, wanted, shared, name, rng):
    """The elements of the first dimension that row and rows ask for, with the entity tag of the whole."""
    array = values(rng, "f16", shape)
    shared.put(name, array)
    for query, first, end in (("row=0", 0, None), ("rows=1", 0, 1), (f"row={shape[0] - 1}", shape[0] - 1, None),
                              (f"row={shape[0] // 2}&rows=1", shape[0] // 2, shape[0] // 2 + 1),
                              (f"row=0&rows={shape[0]}", 0, None)):
        part = array[first:end]
        answer = shared.session.get(f"{shared.url}/{name}?{query}", headers={"Accept": wanted}, timeout=PATIENCE_S)
        assert (answer.status_code, answer.headers["ETag"]) == (200, etag(array)), answer.text
        assert answer.headers["Gemmd-Shape"] == ",".join(map(str, part.shape))
        assert read(answer, "f16", part.shape).tobytes() == part.tobytes(), query
        head = shared.session.head(f"{shared.url}/{name}?{query}", headers={"Accept": wanted}, timeout=PATIENCE_S)
        assert head.headers["Content-Length"] == answer.headers["Content-Length"] and not head.content
    same = shared.session.get(f"{shared.url}/{name}?row=0", headers={"If-None-Match": etag(array)}, timeout=PATIENCE_S)
    assert same.status_code == 304


@pytest.mark.parametrize("query, field, says", [
    ("row=5", "row", "row is 5, and the tensor has 5 rows, which are numbered from 0"),
    ("row=4&rows=2", "rows", "has 5 rows"), ("rows=6", "rows", "has 5 rows"),
    ("rows=0", "rows", "rows is '0'"), ("row=-1", "row", "row is '-1'"), ("row=1&row=1", "row", "given twice"),
    ("rows=18446744073709551615&row=1", "rows", "has 5 rows"), ("row=x", "row", "row is 'x'"),
    ("column=1", "column", "the parameters are row and rows"),
])
def test_rows_that_are_not_there(query, field, says, shared, name, rng):
    shared.put(name, values(rng, "f32", (5, 7)))
    answer = shared.session.get(f"{shared.url}/{name}?{query}", timeout=PATIENCE_S)
    assert (answer.status_code, answer.json()["field"]) == (400, field) and says in answer.json()["detail"], answer.text


def test_rows_have_no_scales_and_a_result_no_tag(shared, name, url, rng):
    """A result has a tag once it was fetched as a whole. Rows of a scaled tensor are those of the tensor alone."""
    a, b = values(rng, "f32", (3, 4)), values(rng, "f32", (4, 5))
    stored = shared.session.post(f"{url}/gemm?m=3&n=5&k=4&store={name}", data=a.tobytes() + b.tobytes(),
                                 headers={"Content-Type": RAW}, timeout=PATIENCE_S)
    assert stored.status_code in (200, 201), stored.text
    some = shared.send("GET", name, row=1)
    assert "ETag" not in some.headers and shared.send("HEAD", name, row=1).status_code == 200
    whole = shared.get(name)
    assert some.content == whole.content[4 * 5:]
    assert shared.send("GET", name, row=1).headers["ETag"] == whole.headers["ETag"]
    scaled = safetensors.numpy.save({"tensor": values(rng, "i8", (4, 5)), "scale": np.ones(5, np.float32)})
    assert shared.send("PUT", name, scaled, {"Content-Type": SAFETENSORS}).status_code in (200, 201)
    for accept in (SAFETENSORS, RAW):
        assert read(shared.send("GET", name, headers={"Accept": accept}, row=1, rows=2), "i8", (2, 5)).shape == (2, 5)


@pytest.mark.parametrize("shape", [(5, 7), (3, 4, 5), (301, 203)])
def test_fortran_order_comes_back_row_by_row(shape, shared, name, rng):
    array = values(rng, "f32", shape)
    answer = shared.put(name, np.asfortranarray(array), NPY)
    assert (answer.status_code, answer.headers["ETag"]) == (201, etag(array)), answer.text
    assert read(shared.get(name), "f32", shape).tobytes() == array.tobytes()


@pytest.mark.parametrize("sent", [RAW, NPY, SAFETENSORS])
def test_a_chunked_body(sent, shared, name, rng):
    array = values(rng, "f32", (700, 901))  # larger than what a chunked body starts with
    body = encode(sent, array)
    answer = shared.send("PUT", name, headers={"Content-Type": sent},
                         body=(body[i:i + 99991] for i in range(0, len(body), 99991)),
                         **parameters(sent, array))
    assert (answer.status_code, answer.headers["ETag"]) == (201, etag(array)), answer.text
    assert shared.get(name).content == array.tobytes()


def test_types_of_curl_and_none(shared, name, rng):
    array = values(rng, "f32", (2, 3))
    for media_type in ("application/x-www-form-urlencoded", None):
        headers = {"Content-Type": media_type} if media_type else {}
        answer = shared.send("PUT", name, body=array.tobytes(), headers=headers, shape="2,3")
        assert answer.headers["ETag"] == etag(array), answer.text  # dtype is f32 by default


def test_replacing_and_removing(shared, name, rng):
    first, second = values(rng, "f32", (4, 4)), values(rng, "i8", (3, 2))
    assert shared.put(name, first).status_code == 201
    answer = shared.put(name, second, evictable=1)
    assert answer.status_code == 200
    assert answer.json()["shape"] == [3, 2] and answer.json()["evictable"] is True
    assert "Location" not in answer.headers
    assert shared.get(name).content == second.tobytes()
    answer = shared.send("DELETE", name)
    assert (answer.status_code, answer.content) == (204, b"")
    for method in ("GET", "HEAD", "DELETE"):
        assert shared.send(method, name).status_code == 404


# --- conditions ---

def test_conditional_get(shared, name, rng):
    array = values(rng, "f32", (2, 3))
    tag = shared.put(name, array).headers["ETag"]
    for method in ("GET", "HEAD"):
        for listed in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            answer = shared.send(method, name, headers={"If-None-Match": listed})
            assert (answer.status_code, answer.content) == (304, b""), listed
            assert answer.headers["ETag"] == tag
        assert shared.send(method, name, headers={"If-None-Match": '"other"'}).status_code == 200
        assert shared.send(method, name, headers={"If-Match": tag}).status_code == 200
        assert shared.send(method, name, headers={"If-Match": '"other"'}).status_code == 412


def test_safe_replacing(shared, name, rng):
    first, second = values(rng, "f32", (2, 3)), values(rng, "f32", (2, 3))
    assert shared.put(name, first, headers={"If-Match": "*"}).status_code == 412
    assert shared.put(name, first, headers={"If-None-Match": "*"}).status_code == 201
    answer = shared.put(name, second, headers={"If-None-Match": "*"})
    assert (answer.status_code, answer.json()["field"]) == (412, "If-None-Match")
    assert shared.put(name, second, headers={"If-Match": etag(second)}).status_code == 412
    assert shared.put(name, second, headers={"If-Match": etag(first)}).status_code == 200
    assert shared.send("DELETE", name, headers={"If-Match": etag(first)}).status_code == 412
    assert shared.send("DELETE", name, headers={"If-Match": etag(second)}).status_code == 204


@pytest.mark.parametrize("header", ["If-Match", "If-None-Match"])
def test_what_is_no_entity_tag_is_refused(header, shared, name, rng):
    answer = shared.put(name, values(rng, "f32", (2, 3)), headers={header: "abcdef"})
    assert (answer.status_code, answer.json()["field"]) == (400, header)


def test_what_is_there_is_not_uploaded_again(shared, name, address, rng):
    """The probe: 412 before any byte of the body, or 100 Continue."""
    array = values(rng, "f32", (64, 64))
    target = f"/tensors/{name}?dtype=f32&shape=64,64"
    headers = [("Content-Length", array.nbytes), ("Expect", "100-continue"),
               ("If-None-Match", etag(array))]
    with Wire(address) as wire:
        wire.send(request("PUT", target, headers))
        assert wire.receive().status == 100
        wire.send(array.tobytes())
        assert wire.receive().status == 201
        wire.send(request("PUT", target, headers))
        assert wire.receive().status == 412  # nothing of the body was sent


# --- what is refused ---

@pytest.mark.parametrize("bad", ["a b", "a%2Fb", "%C3%A9", "a/b", "x" * 129, "a+b", ""])
def test_bad_names(bad, url, address):
    for method in ("PUT", "GET", "HEAD", "DELETE"):
        target = f"/tensors/{bad.replace(' ', '%20')}?shape=1"
        if method != "PUT":
            target = target.partition("?")[0]
        with Wire(address) as wire:
            headers = [("Content-Length", 4)] if method == "PUT" else []
            wire.send(request(method, target, headers, b"1234" if method == "PUT" else b""))
            assert wire.receive(head=method == "HEAD").status == 400, (method, bad)


def test_the_longest_name(shared, rng):
    name = "A-z_0.9" + "x" * 121
    assert shared.put(name, values(rng, "f32", (1,))).status_code == 201
    assert name in shared.names()
    assert shared.send("DELETE", name).status_code == 204


@pytest.mark.parametrize("query, body, field", [
    ("dtype=f32", 4, "shape"), ("shape=2,3&dtype=f33", 24, "dtype"), ("shape=0", 0, "shape"),
    ("shape=2,3&m=2", 24, "m"), ("shape=2&shape=2", 8, "shape"), ("shape=1,1,1,1,1,1,1,1,1", 4, "shape"),
    ("shape=2,3", 23, None), ("shape=2,3", 25, None), ("shape=2,3", 0, None),
    ("shape=2,3&evictable=2", 24, "evictable"),
])
def test_bad_parameters(query, body, field, shared, name):
    answer = shared.session.put(f"{shared.url}/{name}?{query}", data=b"\0" * body,
                                timeout=PATIENCE_S)
    assert (answer.status_code, answer.json().get("field")) == (400, field), answer.text
    assert shared.get(name).status_code == 404


@pytest.mark.parametrize("cut", [1, 5, 64, 120])
@pytest.mark.parametrize("sent", [NPY, SAFETENSORS])
def test_arrays_cut_short_or_grown(cut, sent, shared, name, rng):
    body = encode(sent, values(rng, "f32", (2, 3)))
    for wrong in (body[:-cut], body + b"\0" * cut):
        for chunks in (wrong, iter([wrong])):
            answer = shared.send("PUT", name, body=chunks, headers={"Content-Type": sent})
            assert answer.status_code == 400, answer.text
    assert shared.get(name).status_code == 404


def test_an_upload_takes_its_time(start):
    """The daemon's deadline does not count while it arrives."""
    daemon = start("--timeout", "3s")
    with Wire(daemon.address) as wire:
        wire.send(request("PUT", "/tensors/w?dtype=i8&shape=4", [("Content-Length", 4)], b"ab"))
        time.sleep(3.5)
        wire.send(b"cd")
        assert wire.receive().status == 201
    assert Tensors(daemon.url).get("w").content == b"abcd"


def test_other_refusals(shared, name, rng):
    array = values(rng, "f32", (2, 3))
    assert shared.put(name, array, "text/plain").status_code == 415
    two = safetensors.numpy.save({"a": array, "b": array})
    answer = shared.send("PUT", name, body=two, headers={"Content-Type": SAFETENSORS})
    assert answer.status_code == 400
    assert shared.send("PUT", name, body=encode(NPY, array.astype(">f4")),
                       headers={"Content-Type": NPY}).status_code == 422
    assert shared.put(name, array, NPY, shape="3,2").json()["field"] == "shape"
    assert shared.put(name, array, NPY, dtype="f16").json()["field"] == "dtype"
    assert shared.put(name, array).status_code == 201
    assert shared.get(name, Accept="text/html").status_code == 406
    for method in ("GET", "DELETE"):
        assert shared.send(method, name, body=b"body").status_code == 400
    for method, target in (("POST", name), ("PATCH", name), ("PUT", ""), ("DELETE", "")):
        answer = shared.send(method, target)
        assert answer.status_code == 405
        assert answer.headers["Allow"] == ("GET, HEAD, PUT, DELETE" if target else "GET, HEAD")


def test_a_body_over_the_limit(start, rng):
    daemon = start("--max-body", "1000", "--max-result", "500")
    tensors = Tensors(daemon.url)
    assert tensors.put("a", values(rng, "i8", (1001,))).status_code == 413
    answer = tensors.send("PUT", "a", body=iter([b"\0" * 1001]), shape="1001", dtype="i8")
    assert answer.status_code == 413
    assert tensors.put("a", values(rng, "i8", (501,))).status_code == 201
    assert tensors.get("a").status_code == 413
    assert tensors.send("HEAD", "a").status_code == 413
    assert tensors.put("a", values(rng, "i8", (500,))).status_code == 200
    assert len(tensors.get("a").content) == 500


def test_the_memory_of_a_body_of_unknown_length_doubles(start, rng):
    """The last step is up to --max-body."""
    daemon = start("--max-body", "320K", *PATIENT)
    body = encode(NPY, values(rng, "i8", (300 * 1024,)))
    with Wire(daemon.address) as wire:
        wire.send(request("PUT", "/tensors/w", [("Content-Type", NPY), ("Transfer-Encoding", "chunked")],
                          b"%x\r\n" % len(body)))
        for more, memory in ((60, 64), (40, 128), (100, 256), (70, 320)):
            wire.send(body[:more * 1024])
            body = body[more * 1024:]
            eventually(lambda memory=memory: total(scrape(daemon), "gemmd_queue_bytes") == memory * 1024,
                       f"{memory} KiB are not taken")


# --- the list ---

def test_the_list(start, rng):
    daemon = start()
    tensors = Tensors(daemon.url)
    assert tensors.get().json() == {"tensors": [], "next": None}
    names = [f"n{i:02}" for i in range(12)]
    shuffled = names[:]
    random.Random(1).shuffle(shuffled)
    described = {name: tensors.put(name, values(rng, "f16", (2, 3))).json() for name in shuffled}
    answer = tensors.get()
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json() == {"tensors": [described[name] for name in names], "next": None}
    pages, after = [], {}
    while True:
        page = tensors.send("GET", **after, limit=5).json()
        pages.append([tensor["name"] for tensor in page["tensors"]])
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert pages == [names[:5], names[5:10], names[10:]]
    assert tensors.send("HEAD").headers["Content-Length"] == str(len(answer.content))
    for params, field in (({"limit": 0}, "limit"), ({"limit": 1001}, "limit"),
                          ({"after": "a b"}, "after"), ({"page": 1}, "page")):
        wrong = tensors.send("GET", **params)
        assert (wrong.status_code, wrong.json()["field"]) == (400, field)


# --- memory ---

def memory_of(daemon):
    text = scrape(daemon)
    return {name: total(text, f"gemmd_tensor_{name}") for name in
            ("memory_used_bytes", "memory_capacity_bytes", "names", "evictions_total")}


def test_the_budget(start, rng):
    daemon = start("--tensor-bytes", str(8 * PAGE))
    tensors = Tensors(daemon.url)
    page = values(rng, "i8", (PAGE,))
    assert tensors.put("a", np.concatenate([page] * 6)).status_code == 201
    answer = tensors.put("b", np.concatenate([page] * 3))
    assert answer.status_code == 507
    assert answer.json()["detail"].endswith(f"{3 * PAGE // 1024} KiB needed, {2 * PAGE // 1024} KiB free (--tensor-bytes)")
    assert answer.json()["type"] == "urn:gemmd:error:no-room"
    assert tensors.put("b", np.concatenate([page] * 2)).status_code == 201
    assert memory_of(daemon) == {"memory_used_bytes": 8 * PAGE, "memory_capacity_bytes": 8 * PAGE,
                                 "names": 2, "evictions_total": 0}
    # A refused one leaves nothing behind, and the old tensor in place.
    assert tensors.put("b", np.concatenate([page] * 3)).status_code == 507
    assert tensors.get("b").content == page.tobytes() * 2
    assert tensors.send("DELETE", "a").status_code == 204
    eventually(lambda: memory_of(daemon)["memory_used_bytes"] == 2 * PAGE, "its memory is not free")


def test_no_room_is_said_before_the_body(start):
    daemon = start("--tensor-bytes", str(PAGE))
    with Wire(daemon.address) as wire:
        wire.send(request("PUT", f"/tensors/a?dtype=i8&shape={PAGE + 1}",
                          [("Content-Length", PAGE + 1), ("Expect", "100-continue")]))
        assert wire.receive().status == 507


def test_without_memory_nothing_stays(start, rng):
    daemon = start("--tensor-bytes", "0")
    tensors = Tensors(daemon.url)
    assert tensors.put("a", values(rng, "f32", (1,))).status_code == 507
    assert tensors.get().json()["tensors"] == []
    assert daemon.session.get(f"{daemon.url}/info").json()["limits"]["tensor-bytes"] == 0


def test_eviction(start, rng):
    daemon = start("--tensor-bytes", str(4 * PAGE))
    tensors = Tensors(daemon.url)
    page = values(rng, "i8", (PAGE,))
    assert tensors.put("kept", page).status_code == 201
    for name in "abc":
        assert tensors.put(name, page, evictable=1).status_code == 201
    assert tensors.get("a").status_code == 200  # used: b is the oldest now
    assert tensors.put("d", page, evictable=1).status_code == 201
    assert tensors.names() == ["a", "c", "d", "kept"]
    assert tensors.put("e", np.concatenate([page] * 3)).status_code == 201
    assert tensors.names() == ["e", "kept"]
    assert tensors.put("f", page).status_code == 507
    assert memory_of(daemon)["evictions_total"] == 4


def test_many_tiny_ones_and_none_left(start):
    """As many as fit, and memory back to nothing when they are gone."""
    daemon = start("--tensor-bytes", str(500 * PAGE))
    tensors = Tensors(daemon.url)
    one = np.zeros(1, np.int8)
    statuses = [tensors.put(f"t{i}", one).status_code for i in range(510)]
    assert statuses == [201] * 500 + [507] * 10
    assert memory_of(daemon)["names"] == 500
    for name in tensors.names():
        assert tensors.send("DELETE", name).status_code == 204
    eventually(lambda: memory_of(daemon)["memory_used_bytes"] == 0, "memory is held that no tensor has")


# --- tenants ---

@pytest.fixture
def tenants(start, tmp_path):
    file = tmp_path / "tokens"
    file.write_text("alice:a-secret-of-alice\nbob:a-secret-of-bob\n")
    file.chmod(0o600)
    daemon = start("--token-file", str(file), "--tensor-bytes", str(16 * PAGE), ready=False)
    daemon.wait_until_listening().wait_until_ready()
    return daemon, Tensors(daemon.url, "a-secret-of-alice"), Tensors(daemon.url, "a-secret-of-bob")


def test_another_tenants_tensor(tenants, rng):
    daemon, alice, bob = tenants
    array = values(rng, "f32", (2, 2))
    assert Tensors(daemon.url).put("w", array).status_code == 401
    assert alice.put("w", array).status_code == 201
    for method in ("GET", "HEAD", "DELETE"):
        assert bob.send(method, "w").status_code == 403
    assert bob.put("w", array).status_code == 403
    assert bob.put("w", array, headers={"If-None-Match": etag(array)}).status_code == 403
    product = {"a": "w", "b": "w"}
    answer = bob.session.post(f"{daemon.url}/gemm", params=product, data=b"", timeout=PATIENCE_S)
    assert (answer.status_code, answer.json()["field"]) == (403, "a")
    answer = bob.session.post(f"{daemon.url}/gemm", params={"m": 2, "n": 2, "k": 2, "store": "w"},
                              data=array.tobytes() * 2, timeout=PATIENCE_S)
    assert (answer.status_code, answer.json()["field"]) == (403, "store")
    assert bob.names() == [] and alice.names() == ["w"]
    answer = alice.session.post(f"{daemon.url}/gemm", params=product, data=b"", timeout=PATIENCE_S)
    assert answer.status_code == 200
    assert alice.send("DELETE", "w").status_code == 204
    assert bob.put("w", array).status_code == 201


def test_nobody_evicts_anothers(tenants, rng):
    _, alice, bob = tenants
    half = values(rng, "i8", (8 * PAGE,))
    assert alice.put("a", half, evictable=1).status_code == 201
    assert bob.put("b", half, evictable=1).status_code == 201
    assert bob.put("c", np.concatenate([half, half[:1]])).status_code == 507
    assert bob.put("c", half).status_code == 201
    assert (alice.names(), bob.names()) == (["a"], ["c"])


def test_each_has_a_part(start, tmp_path, rng):
    """Of --tensor-bytes no tenant has more than --tenant-tensor-bytes."""
    tokens = tmp_path / "tokens"
    tokens.write_text("alice:the-token-of-alice\nbob:the-token-of-bob\n")
    tokens.chmod(0o600)
    daemon = start("--token-file", tokens, "--tensor-bytes", str(8 * PAGE),
                   "--tenant-tensor-bytes", str(5 * PAGE), ready=False).wait_until_listening()
    alice, bob = (Tensors(daemon.url, f"the-token-of-{name}") for name in ("alice", "bob"))
    pages = values(rng, "i8", (3 * PAGE,))
    assert alice.put("a", pages).status_code == 201
    refused = alice.put("b", pages)
    assert refused.status_code == 507, refused.text
    assert "8 KiB free of this tenant's 20 KiB (--tenant-tensor-bytes)" in refused.json()["detail"]
    assert bob.put("b", pages).status_code == 201
    text = bob.session.get(f"{daemon.url}/metrics", timeout=PATIENCE_S).text
    assert f'gemmd_tenant_tensor_bytes{{tenant="bob"}} {3 * PAGE}\n' in text
    assert f"gemmd_tenant_tensor_capacity_bytes {5 * PAGE}\n" in text


# --- the end ---

def test_what_draining_leaves(start, rng):
    """Tensors are gone with the daemon; what is refused meanwhile is told so."""
    daemon = start("--drain-delay", "600s")
    tensors = Tensors(daemon.url)
    assert tensors.put("a", values(rng, "f32", (2, 3))).status_code == 201
    daemon.terminate()
    daemon.wait_for(lambda lines: any("draining" in str(line.get("message")) for line in lines), "the drain")
    answer = tensors.put("b", values(rng, "f32", (2, 3)))  # still accepting
    assert answer.status_code == 201
    daemon.terminate()
    assert daemon.wait() == 0


def test_the_log_names_them(start, rng):
    daemon = start()
    Tensors(daemon.url).put("weights", values(rng, "f32", (2, 3)))
    line = daemon.wait_for(lambda lines: [line for line in lines if "weights" in
                                          str(line.get("path", ""))], "the access log")[0]
    assert (line["method"], line["status"], line["request_bytes"]) == ("PUT", 201, 24)
    assert json.dumps(line)


def test_a_tensor_that_is_replaced_and_deleted_while_it_is_sent(start):
    """The client that reads slowly gets the bytes of the tensor that it asked for."""
    daemon = start("--tensor-bytes", "64M", "--min-answer-rate", "0")
    tensors = Tensors(daemon.url)
    old = np.arange(1 << 22, dtype=np.float32)
    assert tensors.put("w", old).status_code == 201
    with Wire(daemon.address) as wire:
        wire.send(request("GET", "/tensors/w"))
        assert wire.socket.recv(1, socket.MSG_PEEK) == b"H"
        for i in range(5):  # 16 MiB each, of 64
            assert tensors.put("w", np.full_like(old, i)).status_code == 200
        assert tensors.send("DELETE", "w").status_code == 204
        assert tensors.put("other", np.zeros(1 << 23, np.float32)).status_code == 201
        answer = wire.receive()
    assert answer.status == 200
    np.testing.assert_array_equal(np.frombuffer(answer.body, np.float32), old)
    assert tensors.send("DELETE", "other").status_code == 204
    large = np.zeros(14 << 20, np.float32)  # 56 MiB, beside which the old 16 would find no room
    eventually(lambda: tensors.put("large", large).status_code == 201, "the memory of the old tensor is not free")
