"""The models attention_… of /v2: the bytes are those of POST /attention."""

import json

import numpy as np
import pytest
import tritonclient.http as http

from attention import Attention, assert_right, random_mask, random_operands, raw
from daemon import PATIENCE_S
from oip import ATTENTION, DATATYPE, HEADER, Input, body, infer, split
from test_formats import RAW

BINARY = {"binary_data_output": True}
SMALL = Attention(2, 3, 4, skv=5, dv=6, dtype="f32")
NAMES = ("Q", "K", "V")


@pytest.fixture(autouse=True)
def offered(url, session):
    kernels = session.get(f"{url}/info", timeout=PATIENCE_S).json()["kernels"]
    if not any(kernel["op"] == "attention" for kernel in kernels):
        pytest.skip("this daemon's device has no attention kernels")


@pytest.fixture
def ask(url, session):
    """ask(problem, inputs, members of the JSON) -> the answer."""
    def asker(problem, inputs, **members):
        return infer(url, ATTENTION[problem.dtype], inputs, session, **members)
    return asker


def options_of(problem):
    return {name: value for name, value in problem.parameters(sizes=False).items()
            if name != "dtype"}


def inputs_of(problem, operands, lens=None, binary=True):
    found = [Input(name, problem.stored(array), problem.dtype, binary)
             for name, array in zip(NAMES, operands)]
    if lens is not None:
        found += [Input(name, np.asarray(values, np.int32), "i32", binary)
                  for name, values in zip(("LENS_Q", "LENS_KV"), lens)]
    return found


def attention(url, session, problem, operands, lens=None, said=None):
    parameters = problem.parameters() | ({} if lens is None else {"lens": 1}) | (said or {})
    answer = session.post(f"{url}/attention", params=parameters, timeout=PATIENCE_S,
                          data=raw(problem, operands, lens), headers={"Content-Type": RAW})
    assert answer.status_code == 200, answer.text
    return answer.content


def test_an_additive_mask(url, session, ask, rng):
    problem = Attention(4, 9, 16, kv_heads=2, skv=13, dtype="f32", causal=True, offset=2)
    operands = random_operands(problem, rng)
    mask = random_mask(problem, rng, (1, 4, 9, 13), False)
    inputs = [*inputs_of(problem, operands), Input("MASK", mask[0], "f32", True)]
    answer = ask(problem, inputs, id="one", parameters=BINARY | options_of(problem))
    assert answer.status_code == 200, answer.text
    assert_right(problem, operands, split(answer)[1], mask=mask)


def test_slopes_sinks_and_a_window_to_the_right(ask, rng):
    problem = Attention(4, 9, 16, kv_heads=2, skv=13, dtype="f16", window_right=2)
    operands = random_operands(problem, rng)
    vectors = {name: rng.random(4).astype(np.float32) for name in ("slopes", "sinks")}
    inputs = [*inputs_of(problem, operands), *(Input(name.upper(), values, "f32", True)
                                               for name, values in vectors.items())]
    answer = ask(problem, inputs, id="one", parameters=BINARY | options_of(problem))
    assert answer.status_code == 200, answer.text
    assert_right(problem, operands, split(answer)[1], vectors=vectors)


def test_ragged_entries(url, session, ask, rng):
    problem = Attention(2, 9, 16, skv=13, dtype="f32", causal=True)
    operands, starts = random_operands(problem, rng), ([0, 4, 9], [0, 5, 13])
    answer = ask(problem, inputs_of(problem, operands, starts), id="one",
                 parameters=BINARY | options_of(problem) | {"lens": "ragged"})
    assert answer.status_code == 200, answer.text
    assert split(answer)[1] == attention(url, session, problem, operands, starts,
                                         {"batch": 2, "lens": "ragged"})


@pytest.mark.parametrize("problem, lens", [
    *((Attention(4, 9, 16, batch=2, kv_heads=2, skv=13, dv=8, dtype=dtype), None)
      for dtype in ATTENTION),
    (Attention(2, 9, 8, dtype="f32", causal=True, window=3), None),
    (Attention(2, 9, 8, dtype="f32", scale=0.25, softcap=5.5), None),
    (Attention(2, 9, 8, dtype="f32", layout="bshd"), None),
    (Attention(2, 9, 8, dtype="f32", kernel="naive"), None),
    (Attention(2, 9, 8, batch=3, dtype="bf16"), ([9, 0, 4], [1, 9, 5]))], ids=str)
def test_bytes_are_those_of_attention(problem, lens, url, session, ask, rng):
    operands = random_operands(problem, rng)
    answer = ask(problem, inputs_of(problem, operands, lens), id="one",
                 parameters=BINARY | options_of(problem))
    assert answer.status_code == 200, answer.text
    said, data = split(answer)
    assert data == attention(url, session, problem, operands, lens)
    batch, heads, _, sq, _, _, dv = problem.sizes()
    shape = [batch, heads, sq, dv] if problem.layout == "bhsd" else [batch, sq, heads, dv]
    assert said == {"model_name": ATTENTION[problem.dtype], "model_version": "1", "id": "one",
                    "outputs": [{"name": "O", "datatype": DATATYPE[problem.dtype], "shape": shape,
                                 "parameters": {"binary_data_size": len(data)}}]}
    assert answer.headers["Gemmd-Kernel"]


def lse_of(operands):
    q, k = (array.astype(np.float64) for array in operands[:2])
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[3])
    return np.log(np.exp(scores).sum(axis=3))


@pytest.mark.parametrize("outputs, names", [
    ([], ["O", "LSE"]), (["O"], ["O"]), (["LSE"], ["LSE"]), (["LSE", "O"], ["LSE", "O"])])
def test_outputs_come_as_they_are_asked_for(outputs, names, url, session, ask, rng):
    """In this order; one that is not asked for is left out."""
    operands = random_operands(SMALL, rng)
    said, data = split(ask(SMALL, inputs_of(SMALL, operands), parameters=BINARY | {"lse": True},
                           outputs=[{"name": name} for name in outputs]))
    assert [output["name"] for output in said["outputs"]] == names
    for output in said["outputs"]:
        size = output["parameters"]["binary_data_size"]
        piece, data = data[:size], data[size:]
        if output["name"] == "O":
            assert piece == attention(url, session, SMALL, operands)
        else:
            assert (output["datatype"], output["shape"]) == ("FP32", [1, 2, 3])
            lse = np.frombuffer(piece, np.float32).reshape(1, 2, 3)
            assert np.allclose(lse, lse_of(operands), rtol=1e-5)
    assert data == b""


def test_json_and_binary_in_one_answer(url, session, ask, rng):
    problem = Attention(2, 3, 4, dtype="bf16")
    operands = random_operands(problem, rng)
    outputs = [{"name": "LSE", "parameters": {"binary_data": False}},
               {"name": "O", "parameters": {"binary_data": True}}]
    said, data = split(ask(problem, inputs_of(problem, operands), outputs=outputs))
    lse, o = said["outputs"]
    assert np.allclose(np.reshape(lse["data"], lse["shape"]), lse_of(operands), rtol=1e-5)
    assert o["parameters"] == {"binary_data_size": len(data)}
    assert data == attention(url, session, problem, operands)


def test_json_there_and_back(url, session, ask, rng):
    problem = Attention(2, 3, 4, batch=2, dtype="f32")
    operands, lens = random_operands(problem, rng), ([3, 3], [1, 3])
    answer = ask(problem, inputs_of(problem, operands, lens, binary=False),
                 parameters={"lse": True})
    assert answer.status_code == 200, answer.text
    o, lse = answer.json()["outputs"]
    assert np.array(o["data"], np.float32).tobytes() == attention(url, session, problem, operands,
                                                                  lens)
    assert lse.keys() == {"name", "datatype", "shape", "data"}


def test_rows_that_see_no_key_have_minus_infinity(ask, rng):
    problem = Attention(1, 9, 4, skv=4, dtype="f32", causal=True)
    answer = ask(problem, inputs_of(problem, random_operands(problem, rng)),
                 parameters={"causal": True, "lse": True})
    assert answer.status_code == 200, answer.text
    lse = next(output for output in answer.json()["outputs"] if output["name"] == "LSE")
    assert lse["data"][:5] == 5 * [-np.inf]
    assert np.isfinite(lse["data"][5:]).all()


def test_leading_dimensions_may_be_left_out(url, session, ask, rng):
    problem = Attention(1, 3, 4, dtype="f32")
    operands = random_operands(problem, rng)
    flat = [Input(name, array[0, 0]) for name, array in zip(NAMES, operands)]
    said, data = split(ask(problem, flat, parameters=BINARY))
    assert said["outputs"][0]["shape"] == [3, 4]
    assert data == attention(url, session, problem, operands)


def test_resident_k_and_v(url, session, ask, rng):
    """They are named, and their inputs left out."""
    operands = random_operands(SMALL, rng)
    names = {"k": "v2-k", "v": "v2-v"}
    for name, array in zip(names.values(), operands[1:]):
        answer = session.put(f"{url}/tensors/{name}", data=array.tobytes(), timeout=PATIENCE_S,
                             params={"dtype": "f32", "shape": ",".join(map(str, array.shape))})
        assert answer.status_code in (200, 201), answer.text
    q, k, v = inputs_of(SMALL, operands)
    try:
        answer = ask(SMALL, [q], parameters=BINARY | names)
        assert answer.status_code == 200, answer.text
        assert split(answer)[1] == attention(url, session, SMALL, operands)
        answer = ask(SMALL, [q, v], parameters=BINARY | {"k": "v2-k"})
        assert split(answer)[1] == attention(url, session, SMALL, operands)
        answer = ask(SMALL, [q, k, v], parameters=BINARY | {"k": "v2-k"})
        assert answer.status_code == 400 and "resident" in answer.json()["error"]
        answer = ask(SMALL, [q], parameters=BINARY | {"k": "v2-k", "v": "nobody"})
        assert answer.status_code == 404
    finally:
        for name in names.values():
            session.delete(f"{url}/tensors/{name}", timeout=PATIENCE_S)


def ones(name, *shape, dtype="f32"):
    return Input(name, np.ones(shape, np.int32 if dtype == "i32" else np.float32), dtype)


GOOD = [ones("Q", 1, 2, 3, 4), ones("K", 1, 2, 3, 4), ones("V", 1, 2, 3, 4)]


@pytest.mark.parametrize("inputs, members, status, words", [
    (GOOD[:2], {}, 400, ("'V'", "missing")),
    ([*GOOD, ones("LENS_Q", 1, dtype="i32")], {}, 400, ("lacks the lengths of K and V",)),
    ([*GOOD, ones("LENS_Q", 1), ones("LENS_KV", 1)], {}, 400, ("FP32", "expects INT32")),
    ([*GOOD, ones("LENS_Q", 2, dtype="i32"), ones("LENS_KV", 2, dtype="i32")], {}, 400,
     ("batch=1",)),
    ([*GOOD, ones("A", 2, 2)], {}, 400, ("'A'", "Q, K, V, LENS_Q, LENS_KV, MASK, SLOPES, SINKS")),
    ([*GOOD[:2], ones("V", 1, 2, 2, 4)], {}, 400, ("skv",)),
    ([ones("Q", 1, 1, 2, 3, 4), *GOOD[1:]], {}, 400, ("dimensions",)),
    ([ones("Q", 1, 2, 3, 0), *GOOD[1:]], {}, 400, ("d",)),
    (GOOD, {"parameters": {"heads": 2}}, 400, ("'heads'", "layout, causal")),
    (GOOD, {"parameters": {"lens": 1}}, 400, ("lacks the lengths of Q",)),
    ([*GOOD, ones("SINKS", 3)], {}, 400, ("the sinks", "heads=2")),
    (GOOD, {"parameters": {"alpha": 2}}, 400, ("'alpha'",)),
    (GOOD, {"parameters": {"window": -1}}, 400, ("window",)),
    (GOOD, {"parameters": {"kernel": "nope"}}, 422, ("nope",)),
    (GOOD, {"parameters": {"timeout": 2**62}}, 400, ("timeout",)),
    (GOOD, {"outputs": [{"name": "C"}]}, 400, ("'C'", "O, LSE")),
    (GOOD, {"outputs": [{"name": "O"}, {"name": "O"}]}, 400, ("twice",))])
def test_bad_requests(inputs, members, status, words, ask):
    answer = ask(SMALL, inputs, **members)
    assert answer.status_code == status, answer.text
    for word in words:
        assert word in answer.json()["error"]


def test_half_precision_is_not_json(url, session, ask):
    problem = Attention(1, 2, 2, dtype="f16")
    halves = [Input(name, np.ones((1, 1, 2, 2), np.float16), "f16") for name in NAMES]
    answer = ask(problem, halves)
    assert answer.status_code == 400 and "'O'" in answer.json()["error"]
    text = [{"name": name, "shape": [1, 1, 2, 2], "datatype": "FP16", "data": [1] * 4}
            for name in NAMES]
    answer = session.post(f"{url}/v2/models/attention_fp16/infer", timeout=PATIENCE_S,
                          data=json.dumps({"inputs": text, "parameters": BINARY}))
    assert answer.status_code == 400 and "'Q'" in answer.json()["error"]


def test_a_raw_request_has_too_many_inputs(url, session):
    answer = session.post(f"{url}/v2/models/attention_fp32/infer", data=bytes(64),
                          headers={HEADER: "0"}, timeout=PATIENCE_S)
    assert answer.status_code == 400
    assert "more than one input" in answer.json()["error"]


def test_metadata_and_config(url, session):
    for dtype, model in ATTENTION.items():
        path = f"{url}/v2/models/{model}"
        metadata = session.get(path, timeout=PATIENCE_S).json()
        config = session.get(f"{path}/config", timeout=PATIENCE_S).json()
        own, four = DATATYPE[dtype], [-1] * 4
        assert [(t["name"], t["datatype"], t["shape"]) for t in metadata["inputs"]] == [
            ("Q", own, four), ("K", own, four), ("V", own, four), ("LENS_Q", "INT32", [-1]),
            ("LENS_KV", "INT32", [-1])]
        assert [(t["name"], t["datatype"], t["shape"]) for t in metadata["outputs"]] == [
            ("O", own, four), ("LSE", "FP32", [-1] * 3)]
        assert [t["optional"] for t in config["input"]] == [False] * 3 + [True] * 2
        assert [t["name"] for t in config["output"]] == ["O", "LSE"]


def test_statistics_and_log(start):
    daemon = start()
    answer = infer(daemon.url, "attention_fp32", GOOD, parameters=BINARY)
    assert answer.status_code == 200, answer.text
    assert infer(daemon.url, "attention_fp32", GOOD[:1]).status_code == 400
    everything = daemon.session.get(f"{daemon.url}/v2/models/stats",
                                    timeout=PATIENCE_S).json()["model_stats"]
    counts = {entry["name"]: (entry["inference_count"], entry["inference_stats"]["fail"]["count"])
              for entry in everything}
    assert counts.pop("attention_fp32") == (1, 1)
    assert set(counts.values()) == {(0, 0)}, "they count under other models, too"
    line = daemon.wait_for(lambda lines: next(
        (line for line in lines if line.get("status") == 200 and line.get("op") == "infer"), None),
        "the request's line")
    assert (line["m"], line["n"], line["k"], line["dtype"]) == (3, 3, 4, "f32")


def test_tritonclient(address, url, session, rng):
    operands = random_operands(SMALL, rng)
    with http.InferenceServerClient("{}:{}".format(*address),
                                    network_timeout=PATIENCE_S) as client:
        tensors = []
        for name, array in zip(NAMES, operands):
            tensors.append(http.InferInput(name, list(array.shape), "FP32"))
            tensors[-1].set_data_from_numpy(array)
        result = client.infer("attention_fp32", tensors, parameters={"causal": False, "lse": True})
        assert result.as_numpy("O").tobytes() == attention(url, session, SMALL, operands)
        assert np.allclose(result.as_numpy("LSE"), lse_of(operands), rtol=1e-5)
