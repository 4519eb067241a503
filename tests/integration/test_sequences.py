"""/sequences: keys and values that grow, fork and are cut; appends are whole or nothing and safe to repeat."""

import concurrent.futures
import io
import random

import ml_dtypes
import numpy as np
import pytest
import requests
import safetensors.numpy

from daemon import PATIENCE_S, Daemon
from failing_cuda import program_of
from test_metrics import total
from wire import Wire, request

RAW = "application/octet-stream"
NPY = "application/x-npy"
SAFETENSORS = "application/vnd.safetensors"
NUMPY = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}
PAGE = 64


class Sequences:
    """Requests to one daemon's /sequences, as one tenant."""

    def __init__(self, url, token=None):
        self.url = f"{url}/sequences"
        self.session = requests.Session()
        if token:
            self.session.headers["Authorization"] = f"Bearer {token}"

    def ask(self, method, path, body=None, headers=None, **parameters):
        return self.session.request(method, f"{self.url}{path}", params=parameters, data=body,
                                    headers=headers, timeout=PATIENCE_S)

    def put(self, name, headers=None, **parameters):
        return self.ask("PUT", f"/{name}", headers=headers, **parameters)

    def get(self, name):
        return self.ask("GET", f"/{name}").json()

    def append(self, name, k, v, position, media_type=RAW, **parameters):
        return self.ask("POST", f"/{name}/append", encode(media_type, k, v),
                        {"Content-Type": media_type}, position=position, **parameters)

    def read(self, name, shape, dtype="f16", **parameters):
        """K and V of a sequence, as arrays; `shape` is kv_heads, d, dv."""
        heads, d, dv = shape
        answer = self.ask("GET", f"/{name}/kv", **parameters)
        assert answer.status_code == 200, answer.text
        assert answer.headers["Gemmd-Dtype"] == dtype
        flat = np.frombuffer(answer.content, NUMPY[dtype])
        count = flat.size // (heads * (d + dv))
        order = (count, heads) if parameters.get("layout") == "bshd" else (heads, count)
        return (flat[:heads * count * d].reshape(*order, d), flat[heads * count * d:].reshape(*order, dv))

    def delete(self, name):
        assert self.ask("DELETE", f"/{name}").status_code == 204


def encode(media_type, *arrays):
    """K and V, or with .npy any arrays."""
    if media_type == RAW:
        return b"".join(array.tobytes() for array in arrays)
    if media_type == SAFETENSORS:
        return safetensors.numpy.save({name: np.ascontiguousarray(array) for name, array in zip("kv", arrays)})
    out = io.BytesIO()
    for array in arrays:
        np.lib.format.write_array(out, array)
    return out.getvalue()


def rows(rng, shape, count, dtype="f16"):
    heads, d, dv = shape
    return (rng.standard_normal((heads, count, d)).astype(NUMPY[dtype]),
            rng.standard_normal((heads, count, dv)).astype(NUMPY[dtype]))


def same(arrays, others):
    return all(one.shape == other.shape and one.tobytes() == other.tobytes()
               for one, other in zip(arrays, others))


def problem(answer, status, *words):
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    for word in words:
        assert word in answer.json()["detail"], answer.json()["detail"]


@pytest.fixture(scope="module", params=["the daemon under test", "a simulated GPU"])
def sequences(request, gemmd):
    """Of the daemon under test, and of one whose copies are those of a simulated GPU, which refuses what CUDA does."""
    if request.param == "the daemon under test":
        yield Sequences(request.getfixturevalue("url"))
        return
    program = program_of(gemmd)
    if program is None or program.name != "gemmd-simulated-cuda":
        pytest.skip("there is no build with a simulated GPU")
    daemon = Daemon(program, "--backend", "cuda", "--streams", "1", "--device-bytes", "64M", "--tensor-bytes", "64M",
                    "--pinned-bytes", "128M")
    try:
        yield Sequences(daemon.wait_until_listening().wait_until_ready().url)
        daemon.stop()
    finally:
        daemon.close()


def metric(sequences, name):
    text = sequences.session.get(sequences.url.replace("/sequences", "/metrics"), timeout=PATIENCE_S).text
    return total(text, name)


SHAPE = (2, 8, 4)
PARAMETERS = {"kv_heads": 2, "d": 8, "dv": 4}


# NumPy and its reader of safetensors do not know bf16.
@pytest.mark.parametrize("media_type, dtype", [(RAW, "bf16"), *((media_type, dtype) for dtype in ("f16", "f32")
                                                                for media_type in (RAW, NPY, SAFETENSORS))])
def test_what_is_appended_is_read_back(sequences, rng, media_type, dtype):
    """In steps of any length, across pages, in both layouts, with heads that are padded."""
    shape = (3, 5, 7)
    made = sequences.put("s", kv_heads=3, d=5, dv=7, dtype=dtype)
    assert made.status_code == 201 and made.headers["Location"] == "/sequences/s"
    assert made.json() | {"etag": None} == {
        "name": "s", "dtype": dtype, "kv_heads": 3, "d": 5, "dv": 7, "layers": 1, "length": 0, "lengths": [0],
        "etag": None, "memory_bytes": 4096, "devices": [0]}
    k, v = np.empty((3, 0, 5), NUMPY[dtype]), np.empty((3, 0, 7), NUMPY[dtype])
    for number, count in enumerate([1, 1, 61, 2, 64, 130, 3]):
        one, other = rows(rng, shape, count, dtype)
        length = k.shape[1]
        if number % 2 == 0:
            answer = sequences.append("s", one, other, length, media_type)
        else:
            answer = sequences.append("s", np.ascontiguousarray(one.transpose(1, 0, 2)),
                                      np.ascontiguousarray(other.transpose(1, 0, 2)), length, media_type,
                                      layout="bshd")
        assert answer.status_code == 200, answer.text
        k, v = np.concatenate([k, one], 1), np.concatenate([v, other], 1)
        assert answer.json()["length"] == k.shape[1]
        assert answer.headers["ETag"] == answer.json()["etag"]
        assert same(sequences.read("s", shape, dtype), (k, v))
    assert same(sequences.read("s", shape, dtype, position=60, count=70), (k[:, 60:130], v[:, 60:130]))
    back = sequences.read("s", shape, dtype, layout="bshd")
    assert same((back[0].transpose(1, 0, 2), back[1].transpose(1, 0, 2)), (k, v))
    if dtype != "bf16":
        answer = sequences.ask("GET", "/s/kv", headers={"Accept": SAFETENSORS}, position=5)
        read = safetensors.numpy.load(answer.content)
        assert same((read["k"], read["v"]), (k[:, 5:], v[:, 5:]))
    assert sequences.ask("HEAD", "/s/kv").headers["Content-Length"] == str(k.nbytes + v.nbytes)
    sequences.delete("s")


def test_column_major_arrays_are_transposed(sequences, rng):
    sequences.put("s", **PARAMETERS)
    k, v = rows(rng, SHAPE, 70)
    assert sequences.append("s", np.asfortranarray(k), v, 0, NPY).status_code == 200
    assert same(sequences.read("s", SHAPE), (k, v))
    assert sequences.append("s", k, np.asfortranarray(v), 0, NPY).status_code == 200  # again
    assert sequences.get("s")["length"] == 70
    sequences.delete("s")


def test_an_append_is_safe_to_repeat(sequences, rng):
    sequences.put("s", **PARAMETERS)
    k, v = rows(rng, SHAPE, 100)
    first = sequences.append("s", k, v, 0)
    again = sequences.append("s", k, v, 0)
    assert again.status_code == 200 and again.json() == first.json()
    part = sequences.append("s", k[:, 10:75], v[:, 10:75], 10)
    assert part.status_code == 200 and part.json() == first.json()
    problem(sequences.append("s", k[:, 10:75], v[:, 11:76], 10), 412, "other keys or values", "10 to 74")
    problem(sequences.append("s", k, v, 1), 412, "has 100 positions", "1 to 100")
    problem(sequences.append("s", k, v, 101), 412, "has 100 positions")
    assert sequences.get("s") == first.json()
    assert same(sequences.read("s", SHAPE), (k, v))
    sequences.delete("s")


def test_layers_have_lengths_of_their_own(sequences, rng):
    sequences.put("s", layers=3, **PARAMETERS)
    filled = [rows(rng, SHAPE, count) for count in (3, 90, 64)]
    for layer, (k, v) in enumerate(filled):
        assert sequences.append("s", k, v, 0, layer=layer).status_code == 200
    assert sequences.get("s")["lengths"] == [3, 90, 64] and sequences.get("s")["length"] == 3
    for layer, arrays in enumerate(filled):
        assert same(sequences.read("s", SHAPE, layer=layer), arrays)
    problem(sequences.append("s", *filled[0], 0, layer=3), 400, "layer is 3", "0 to 2")
    problem(sequences.append("s", *filled[0], 0, layer=2**31 - 1), 400, "layer")
    cut = sequences.ask("POST", "/s/truncate", length=64)
    assert cut.json()["lengths"] == [3, 64, 64]
    problem(sequences.ask("POST", "/s/truncate", length=65), 412, "has 64 positions")
    sequences.delete("s")


def test_forks_share_memory_and_grow_apart(start, rng):
    sequences = Sequences(start().url)

    def used():
        return metric(sequences, "gemmd_tensor_memory_used_bytes")

    before = used()
    sequences.put("s", **PARAMETERS)
    k, v = rows(rng, SHAPE, 2 * PAGE + 10)
    sequences.append("s", k, v, 0)
    page = (used() - before - 4096) // 3
    assert sequences.put("a", fork="s").status_code == 201
    assert sequences.put("b", fork="a", length=PAGE + 1).json()["length"] == PAGE + 1
    assert sequences.get("a")["memory_bytes"] == sequences.get("s")["memory_bytes"]
    assert used() - before == 3 * page + 3 * 4096
    assert metric(sequences, "gemmd_tensor_names") == 3
    one, other = rows(rng, SHAPE, 1)
    assert sequences.append("a", one, other, 2 * PAGE + 10).status_code == 200
    assert used() - before == 4 * page + 3 * 4096
    assert sequences.append("b", one, other, PAGE + 1).status_code == 200
    grown = np.concatenate([k, one], 1), np.concatenate([v, other], 1)
    short = np.concatenate([k[:, :PAGE + 1], one], 1), np.concatenate([v[:, :PAGE + 1], other], 1)
    assert same(sequences.read("s", SHAPE), (k, v))
    sequences.delete("s")
    assert same(sequences.read("a", SHAPE), grown)
    assert same(sequences.read("b", SHAPE), short)
    sequences.delete("a")
    assert same(sequences.read("b", SHAPE), short)
    sequences.delete("b")
    assert used() == before


def test_bad_requests(sequences, rng):
    problem(sequences.put("s", d=8), 400, "kv_heads is missing")
    problem(sequences.put("s", kv_heads=8), 400, "d is missing")
    problem(sequences.put("s", kv_heads=2, d=257), 422, "257")
    problem(sequences.put("s", kv_heads=2, d=8, layers=257), 400, "layers")
    problem(sequences.put("s", kv_heads=2, d=8, dtype="f64"), 400, "dtype")
    problem(sequences.put("s", kv_heads=2, d=8, length=3), 400, "without fork")
    problem(sequences.put("s", fork="nothing"), 404, "no sequence")
    problem(sequences.put("s", fork="nothing", d=8), 400, "fork")
    problem(sequences.ask("PUT", "/s", b"body", kv_heads=2, d=8), 400, "no body")
    problem(sequences.ask("PUT", "/a%20b", kv_heads=2, d=8), 400, "name")
    problem(sequences.ask("GET", "/s"), 404, "no sequence 's'")
    problem(sequences.append("s", *rows(rng, SHAPE, 1), 0), 404)
    sequences.put("s", **PARAMETERS)
    k, v = rows(rng, SHAPE, 2)
    problem(sequences.ask("POST", "/s/append", encode(RAW, k, v)), 400, "position is missing")
    problem(sequences.ask("POST", "/s/append", encode(RAW, k, v)[:-1], position=0), 400, "takes 48")
    problem(sequences.ask("POST", "/s/append", b"", position=0), 400, "takes 48")
    problem(sequences.ask("POST", "/s/append", b"{}", {"Content-Type": "application/json"}, position=0), 415)
    problem(sequences.append("s", k, v, 2**31), 400, "position")
    problem(sequences.append("s", k, v, 2**31 - 1), 413, "2147483649 positions")
    problem(sequences.append("s", k.astype(np.float32), v, 0, NPY), 400, "f32", "f16")
    problem(sequences.append("s", k[:, :, :4], v, 0, NPY), 400, "K has the shape")
    problem(sequences.append("s", k, v[:, :1], 0, NPY), 400, "V has the shape")
    problem(sequences.append("s", k[:1], v[:1], 0, SAFETENSORS), 400, "kv_heads=2")
    problem(sequences.ask("POST", "/s/append", safetensors.numpy.save({"k": k}),
                          {"Content-Type": SAFETENSORS}, position=0), 400)
    problem(sequences.ask("GET", "/s/kv"), 412, "has 0 positions")
    problem(sequences.ask("GET", "/s/kv", headers={"Accept": NPY}), 406)
    problem(sequences.ask("POST", "/s/truncate"), 400, "length is missing")
    problem(sequences.put("t", fork="s", length=1), 412, "has 0 positions")
    assert sequences.get("s")["length"] == 0
    assert sequences.ask("POST", "/s/append").status_code == 400
    problem(sequences.ask("POST", "/s"), 405)
    sequences.delete("s")


def test_conditions(sequences, rng):
    tag = sequences.put("s", **PARAMETERS).headers["ETag"]
    problem(sequences.put("s", {"If-None-Match": "*"}, **PARAMETERS), 412)
    assert sequences.ask("GET", "/s", headers={"If-None-Match": tag}).status_code == 304
    k, v = rows(rng, SHAPE, 1)
    problem(sequences.ask("POST", "/s/append", encode(RAW, k, v), {"If-Match": '"other"'}, position=0), 412)
    grown = sequences.ask("POST", "/s/append", encode(RAW, k, v), {"If-Match": tag}, position=0).headers["ETag"]
    assert grown != tag
    assert sequences.ask("GET", "/s/kv", headers={"If-None-Match": grown}).status_code == 304
    problem(sequences.ask("POST", "/s/truncate", headers={"If-Match": tag}, length=0), 412)
    problem(sequences.ask("DELETE", "/s", headers={"If-Match": tag}), 412)
    replaced = sequences.put("s", **PARAMETERS)
    assert replaced.status_code == 200 and "Location" not in replaced.headers
    assert replaced.json()["length"] == 0
    assert sequences.ask("DELETE", "/s", headers={"If-Match": replaced.headers["ETag"]}).status_code == 204
    assert sequences.ask("DELETE", "/s").status_code == 404


def test_names_are_apart_from_those_of_tensors(sequences, url):
    sequences.put("same", **PARAMETERS)
    assert requests.get(f"{url}/tensors/same", timeout=PATIENCE_S).status_code == 404
    put = requests.put(f"{url}/tensors/same?shape=1&dtype=f32", data=b"\0" * 4, timeout=PATIENCE_S)
    assert put.status_code == 201
    assert requests.delete(f"{url}/tensors/same", timeout=PATIENCE_S).status_code == 204
    assert sequences.get("same")["name"] == "same"
    sequences.delete("same")


def test_lists_come_in_pages(sequences):
    for i in range(5):
        sequences.put(f"l{i}", **PARAMETERS)
    first = sequences.ask("GET", "", limit=3).json()
    assert [one["name"] for one in first["sequences"]] == ["l0", "l1", "l2"] and first["next"] == "l2"
    second = sequences.ask("GET", "", after="l2").json()
    assert [one["name"] for one in second["sequences"]] == ["l3", "l4"] and second["next"] is None
    for i in range(5):
        sequences.delete(f"l{i}")


def test_an_append_that_is_cut_off_appends_nothing(sequences, address, rng):
    sequences.put("s", **PARAMETERS)
    body = encode(RAW, *rows(rng, SHAPE, 1000))
    before = sequences.get("s")
    with Wire(address) as wire:
        wire.send(request("POST", "/sequences/s/append?position=0", [("Content-Length", len(body))], body[:-100]))
    assert sequences.get("s") == before
    assert sequences.append("s", *rows(rng, SHAPE, 1), 0).json()["length"] == 1
    sequences.delete("s")


def test_two_appends_at_once_are_one(sequences, rng):
    """Clients that append the same positions of other contents: one of them succeeds, and each other one
    is told that another one appends, or that it has appended."""
    sequences.put("s", **PARAMETERS)
    length = 0
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            offers = [rows(rng, SHAPE, 40) for _ in range(4)]
            answers = list(pool.map(lambda arrays: Sequences(sequences.url.removesuffix("/sequences"))
                                    .append("s", *arrays, length), offers))
            statuses = [answer.status_code for answer in answers]
            assert statuses.count(200) == 1 and set(statuses) <= {200, 409, 412}, statuses
            for answer in answers:
                assert answer.status_code != 409 or int(answer.headers["Retry-After"]) >= 1
            won = offers[statuses.index(200)]
            assert same(sequences.read("s", SHAPE, position=length), won)
            length += 40
    sequences.delete("s")


def test_memory_is_limited(start, tmp_path, rng):
    """A page of PARAMETERS takes one unit of 4096 bytes: two heads of 16 and 16 bytes, 64 times."""
    tokens = tmp_path / "tokens"
    tokens.write_text("alice:the-token-of-alice\nbob:the-token-of-bob\n")
    tokens.chmod(0o600)
    small = start("--tensor-bytes", "81920", "--tenant-share", "60", "--token-file", tokens)
    alice, bob = Sequences(small.url, "the-token-of-alice"), Sequences(small.url, "the-token-of-bob")
    assert alice.put("s", **PARAMETERS).status_code == 201
    k, v = rows(rng, SHAPE, 12 * PAGE)
    problem(alice.append("s", k, v, 0), 507, "--tenant-tensor-bytes")
    assert alice.get("s")["length"] == 0 and alice.get("s")["memory_bytes"] == 4096
    assert alice.append("s", k[:, :-PAGE], v[:, :-PAGE], 0).status_code == 200
    assert alice.get("s")["memory_bytes"] == 12 * 4096
    problem(alice.put("full", **PARAMETERS), 507)
    assert bob.put("t", **PARAMETERS).status_code == 201
    problem(bob.append("t", k[:, :8 * PAGE], v[:, :8 * PAGE], 0), 507, "--tensor-bytes")
    assert bob.append("t", k[:, :7 * PAGE], v[:, :7 * PAGE], 0).status_code == 200
    problem(bob.append("t", k[:, :1], v[:, :1], 7 * PAGE), 507)
    assert same(bob.read("t", SHAPE), (k[:, :7 * PAGE], v[:, :7 * PAGE]))
    problem(bob.append("s", k[:, :1], v[:, :1], 0), 403, "another tenant")
    problem(bob.put("s", **PARAMETERS), 403)
    problem(bob.put("mine", fork="s"), 403)
    alice.delete("s")
    assert bob.append("t", k[:, :1], v[:, :1], 7 * PAGE).status_code == 200


def test_random_changes_keep_the_contents(sequences, request, rng):
    """Appends, forks, cuts and deletions in random order, compared with arrays."""
    choice = random.Random(request.config.option.seed)
    models = {}
    for _ in range(150):
        name = choice.choice("abcd")
        if name not in models:
            other = choice.choice([*models, None])
            if other is None:
                sequences.put(f"r{name}", **PARAMETERS)
                models[name] = rows(rng, SHAPE, 0)
            else:
                length = choice.randint(0, models[other][0].shape[1])
                sequences.put(f"r{name}", fork=f"r{other}", length=length)
                models[name] = tuple(array[:, :length] for array in models[other])
            continue
        length = models[name][0].shape[1]
        action = choice.random()
        if action < 0.1:
            sequences.delete(f"r{name}")
            del models[name]
            continue
        if action < 0.25:
            length = choice.randint(0, length)
            assert sequences.ask("POST", f"/r{name}/truncate", length=length).status_code == 200
            models[name] = tuple(array[:, :length] for array in models[name])
        else:
            new = rows(rng, SHAPE, choice.choice([1, 2, 63, 64, 65, 200]))
            assert sequences.append(f"r{name}", *new, length).status_code == 200
            models[name] = tuple(np.concatenate(pair, 1) for pair in zip(models[name], new))
        if models[name][0].shape[1] > 0:
            assert same(sequences.read(f"r{name}", SHAPE), models[name])
    for name in models:
        sequences.delete(f"r{name}")
