"""POST /attention?sequence=NAME: keys and values that a request appends, or that lie in a sequence, give the
bits of the same keys and values in the body; an attention and its append are one, whole or not at all."""

import concurrent.futures
import json

import numpy as np
import pytest
import requests
import safetensors.numpy

from daemon import PATIENCE_S
from test_jobs import eventually
from test_sequences import NPY, NUMPY, RAW, SAFETENSORS, Sequences, encode, problem, same
from wire import Wire, request

HEADS, KV_HEADS, D, DV = 6, 2, 16, 24
SHAPE = (KV_HEADS, D, DV)
MADE = {"kv_heads": KV_HEADS, "d": D, "dv": DV}
PAGE = 64


class Attention(Sequences):
    """Requests to one daemon's /attention and /sequences."""

    def __init__(self, url, token=None):
        super().__init__(url, token)
        self.base = url

    def attend(self, body, media_type=RAW, headers=None, **parameters):
        return self.session.post(f"{self.base}/attention", params=parameters, data=body, timeout=PATIENCE_S,
                                 headers={"Content-Type": media_type, **(headers or {})})

    def whole(self, q, k, v, **parameters):
        """The bytes of O, from K and V in the body."""
        answer = self.attend(q.tobytes() + k.tobytes() + v.tobytes(), heads=q.shape[0], kv_heads=k.shape[0],
                             sq=q.shape[1], skv=k.shape[1], d=q.shape[2], dv=v.shape[2], **parameters)
        assert answer.status_code == 200, answer.text
        return answer.content

    def step(self, name, q, k, v, position, **parameters):
        """Appends K and V, and attends to all positions."""
        return self.attend(q.tobytes() + k.tobytes() + v.tobytes(), heads=q.shape[0], sq=q.shape[1],
                           sequence=name, append=1, position=position, **parameters)


@pytest.fixture(scope="module")
def attention(url):
    return Attention(url)


def operands(rng, sq, dtype="f16", d=D, dv=DV):
    return (rng.standard_normal((HEADS, sq, d)).astype(NUMPY[dtype]),
            rng.standard_normal((KV_HEADS, sq, d)).astype(NUMPY[dtype]),
            rng.standard_normal((KV_HEADS, sq, dv)).astype(NUMPY[dtype]))


def none(dtype="f16", d=D, dv=DV):
    return np.empty((KV_HEADS, 0, d), NUMPY[dtype]), np.empty((KV_HEADS, 0, dv), NUMPY[dtype])


@pytest.mark.parametrize("parameters", [{"causal": 1}, {}, {"causal": 1, "window": 40, "softcap": 20}])
@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("d, dv", [(D, DV), (5, 7)])
def test_steps_have_the_bits_of_keys_in_the_body(attention, rng, dtype, d, dv, parameters):
    """Prefills and steps of one token, over pages, alone and with the pages of another sequence between
    them, so that the daemon has to gather them."""
    for name in ("s", "other"):
        attention.put(name, kv_heads=KV_HEADS, d=d, dv=dv, dtype=dtype)
    k, v = none(dtype, d, dv)
    for sq in (1, 30, 33, 1, 1, 64, 70, 1):
        q, one, two = operands(rng, sq, dtype, d, dv)
        answer = attention.step("s", q, one, two, k.shape[1], **parameters)
        assert answer.status_code == 200, answer.text
        k, v = np.concatenate([k, one], 1), np.concatenate([v, two], 1)
        assert answer.content == attention.whole(q, k, v, dtype=dtype, **parameters)
        length = attention.get("other")["length"]
        assert attention.append("other", one, two, length).status_code == 200
    assert same(attention.read("s", (KV_HEADS, d, dv), dtype), (k, v))
    q, _, _ = operands(rng, 3, dtype, d, dv)
    for skv in (k.shape[1], 100):
        answer = attention.attend(q.tobytes(), heads=HEADS, sq=3, sequence="s", skv=skv, **parameters)
        assert answer.content == attention.whole(q, k[:, :skv], v[:, :skv], dtype=dtype, **parameters)
    answer = attention.attend(q.tobytes(), heads=HEADS, sq=3, sequence="s", **parameters)
    assert answer.content == attention.whole(q, k, v, dtype=dtype, **parameters)
    attention.delete("s")
    attention.delete("other")


def test_forks_attend_to_what_they_share(attention, rng):
    attention.put("s", **MADE)
    q, k, v = operands(rng, PAGE + 20)
    assert attention.step("s", q, k, v, 0, causal=1).status_code == 200
    attention.put("fork", fork="s")
    grown = {}
    for name in ("s", "fork", "s", "fork"):
        before = grown.get(name, (k, v))
        q, one, two = operands(rng, 50)
        grown[name] = np.concatenate([before[0], one], 1), np.concatenate([before[1], two], 1)
        answer = attention.step(name, q, one, two, before[0].shape[1], causal=1)
        assert answer.content == attention.whole(q, *grown[name], causal=1)
    for name, arrays in grown.items():
        assert same(attention.read(name, SHAPE), arrays)
        attention.delete(name)


@pytest.mark.parametrize("media_type", [NPY, SAFETENSORS])
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_formats_and_layouts(attention, rng, media_type, layout):
    attention.put("s", layers=2, **MADE)
    k, v = none()
    for sq in (3, 90):
        q, one, two = operands(rng, sq)
        arrays = [array if layout == "bhsd" else np.ascontiguousarray(array.transpose(1, 0, 2))
                  for array in (q, one, two)]
        if media_type == NPY:
            body = encode(NPY, *arrays)
        else:
            body = safetensors.numpy.save(dict(zip("qkv", arrays)))
        answer = attention.attend(body, media_type, {"Accept": RAW}, sequence="s", append=1, position=k.shape[1],
                                  layer=1, layout=layout, causal=1)
        assert answer.status_code == 200, answer.text
        k, v = np.concatenate([k, one], 1), np.concatenate([v, two], 1)
        expected = np.frombuffer(attention.whole(q, k, v, causal=1), np.float16).reshape(HEADS, sq, DV)
        if layout == "bshd":
            expected = np.ascontiguousarray(expected.transpose(1, 0, 2))
        assert answer.content == expected.tobytes()
    assert attention.get("s")["lengths"] == [0, 93]
    attention.delete("s")


def test_a_mask_spans_all_keys(attention, rng):
    attention.put("s", **MADE)
    q, k, v = operands(rng, 80)
    attention.append("s", k, v, 0)
    q, one, two = operands(rng, 5)
    mask = rng.standard_normal((5, 85)).astype(np.float16)
    body = q.tobytes() + one.tobytes() + two.tobytes() + mask.tobytes()
    answer = attention.attend(body, heads=HEADS, sq=5, sequence="s", append=1, position=80, mask="add")
    whole = np.concatenate([k, one], 1), np.concatenate([v, two], 1)
    expected = attention.attend(q.tobytes() + whole[0].tobytes() + whole[1].tobytes() + mask.tobytes(),
                                heads=HEADS, kv_heads=KV_HEADS, sq=5, skv=85, d=D, dv=DV, mask="add")
    assert answer.status_code == 200 and answer.content == expected.content
    attention.delete("s")


def test_a_step_is_safe_to_repeat(attention, rng):
    attention.put("s", **MADE)
    first = operands(rng, 70)
    answer = attention.step("s", *first, 0, causal=1)
    state = attention.get("s")
    assert attention.step("s", *first, 0, causal=1).content == answer.content
    assert attention.get("s") == state
    q, k, v = operands(rng, 70)
    problem(attention.step("s", q, k, v, 0, causal=1), 412, "other keys or values", "0 to 69")
    problem(attention.step("s", q, first[1], v, 0, causal=1), 412, "other keys or values")
    assert attention.step("s", q, first[1], first[2], 0, causal=1).status_code == 200  # other queries
    problem(attention.step("s", q, k, v, 1, causal=1), 412, "has 70 positions")
    problem(attention.step("s", q, k, v, 71, causal=1), 412, "has 70 positions")
    assert attention.get("s") == state
    second = operands(rng, 2)
    assert attention.step("s", *second, 70, causal=1).status_code == 200
    assert attention.step("s", *first, 0, causal=1).content == answer.content  # before what was appended since
    attention.delete("s")


def test_bad_requests(attention, rng):
    q, k, v = operands(rng, 2)
    problem(attention.step("s", q, k, v, 0), 404, "no sequence")
    attention.put("s", **MADE)
    body = q.tobytes() + k.tobytes() + v.tobytes()

    def ask(body=body, **parameters):
        return attention.attend(body, **{"heads": HEADS, "sq": 2, "sequence": "s"} | parameters)

    problem(ask(q.tobytes()), 412, "has 0 positions")
    problem(ask(append=1), 400, "position is missing")
    problem(ask(position=0), 400, "without append")
    problem(ask(append=1, position=0, skv=2), 400, "skv")
    put = requests.put(f"{attention.base}/tensors/seqk?dtype=f16&shape=2,2,16", data=b"\0" * 128, timeout=PATIENCE_S)
    assert put.status_code == 201
    problem(ask(append=1, position=0, k="seqk"), 400, "K and V are those of the sequence")
    assert requests.delete(f"{attention.base}/tensors/seqk", timeout=PATIENCE_S).status_code == 204
    problem(ask(append=1, position=0, lens=1), 400, "lengths")
    problem(ask(append=1, position=0, batch=2), 400, "batch")
    problem(ask(append=1, position=0, d=8), 400, "d is 16 by the shape of the sequence and 8")
    problem(ask(append=1, position=0, kv_heads=3), 400, "kv_heads is 2 by the shape of the sequence and 3")
    problem(ask(append=1, position=0, heads=5), 400, "multiple")
    problem(ask(append=1, position=0, dtype="f32"), 400, "f16", "f32")
    problem(ask(append=1, position=0, layer=1), 400, "layer is 1")
    problem(ask(append=1, position=2**31 - 2), 413, "2147483648 positions")
    problem(ask(append=1, position=5), 412, "has 0 positions")
    problem(ask(body[:-2], append=1, position=0), 400)
    problem(attention.attend(body, heads=HEADS, sq=2, d=D, append=1), 400, "names no sequence")
    problem(attention.attend(safetensors.numpy.save({"q": q, "k": k, "v": v[:, :1]}), SAFETENSORS, sequence="s",
                             append=1, position=0), 400)
    assert attention.get("s")["length"] == 0
    attention.append("s", k, v, 0)
    problem(ask(q.tobytes(), skv=3), 412, "has 2 positions")
    problem(ask(body), 400)
    attention.delete("s")


def test_a_full_memory_appends_nothing(start, rng):
    """Room for the record, and for four pages of 64 rows of 160 bytes."""
    attention = Attention(start("--tensor-bytes", str(4096 + 4 * 12288)).url)
    attention.put("s", **MADE)
    first, more = operands(rng, 2 * PAGE), operands(rng, 3 * PAGE)
    assert attention.step("s", *first, 0, causal=1).status_code == 200
    problem(attention.step("s", *more, 2 * PAGE, causal=1), 507, "--tensor-bytes")
    assert attention.get("s")["length"] == 2 * PAGE
    assert same(attention.read("s", SHAPE), first[1:])
    attention.delete("s")


def test_a_job_appends(attention, rng):
    attention.put("s", **MADE)
    q, k, v = operands(rng, 100)
    accepted = attention.attend(q.tobytes() + k.tobytes() + v.tobytes(), headers={"Prefer": "respond-async"},
                                heads=HEADS, sq=100, sequence="s", append=1, position=0, causal=1)
    assert accepted.status_code == 202
    result = requests.get(f"{attention.base}{accepted.headers['Location']}/result?wait_ms=60000",
                          timeout=PATIENCE_S)
    assert result.content == attention.whole(q, k, v, causal=1)
    assert same(attention.read("s", SHAPE), (k, v))
    other = attention.attend(q.tobytes() + v.tobytes() + k.tobytes(), headers={"Prefer": "respond-async"},
                             heads=HEADS, sq=100, sequence="s", append=1, position=0, causal=1)
    result = requests.get(f"{attention.base}{other.headers['Location']}/result?wait_ms=60000", timeout=PATIENCE_S)
    problem(result, 412, "other keys or values")
    attention.delete("s")


def test_a_request_that_ends_early_appends_nothing(attention, address, rng):
    """A body that is cut off, a deadline that passes, and a sequence that is deleted meanwhile."""
    attention.put("s", kv_heads=8, d=128)
    sq = 1500
    q = rng.standard_normal((32, sq, 128)).astype(np.float16)
    k, v = (rng.standard_normal((8, sq, 128)).astype(np.float16) for _ in range(2))
    body = q.tobytes() + k.tobytes() + v.tobytes()
    path = f"/attention?heads=32&sq={sq}&sequence=s&append=1&position=0&causal=1"
    with Wire(address) as wire:
        wire.send(request("POST", path, [("Content-Length", len(body))], body[:-1]))
    eventually(lambda: attention.append("s", k[:, :1], v[:, :1], 0).status_code == 200,
               "an append after one that was cut off")
    assert attention.ask("POST", "/s/truncate", length=0).status_code == 200
    answer = attention.attend(body, heads=32, sq=sq, sequence="s", append=1, position=0, causal=1, timeout_ms=1)
    problem(answer, 504)
    assert attention.get("s")["length"] == 0
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(Attention(attention.base).attend, body, heads=32, sq=sq, sequence="s", append=1,
                              position=0, causal=1)
        eventually(lambda: running.done() or attention.append("s", k[:, :1], v[:, :1], 0).status_code == 409
                   or attention.ask("POST", "/s/truncate", length=0).status_code == 409, "an append that runs")
        assert attention.ask("DELETE", "/s").status_code == 204
        assert running.result().status_code in (200, 409, 412)
    assert attention.ask("GET", "/s").status_code == 404


def test_an_inference_appends(attention, rng):
    attention.put("s", kv_heads=1, d=4, dtype="f32")
    q, k, v = (rng.standard_normal((1, 1, 3, 4)).astype(np.float32) for _ in range(3))
    inputs = [{"name": name, "datatype": "FP32", "shape": [1, 1, 3, 4], "data": array.ravel().tolist()}
              for name, array in zip(("Q", "K", "V"), (q, k, v))]
    answer = requests.post(f"{attention.base}/v2/models/attention_fp32/infer", timeout=PATIENCE_S,
                           data=json.dumps({"inputs": inputs, "parameters": {"sequence": "s", "append": 1,
                                                                             "position": 0}}))
    assert answer.status_code == 200, answer.text
    assert attention.get("s")["length"] == 3
    assert same(attention.read("s", (1, 4, 4), "f32"), (k[0], v[0]))
    attention.delete("s")
