"""Scales that are part of a resident tensor, and scales over the Open Inference Protocol."""

import json

import numpy as np
import pytest
import safetensors.numpy

from oip import MODEL, Input, infer, split
from problem import assert_problem
from scaling import ScaledProblem, random_scaled
from test_formats import RAW, SAFETENSORS
from test_tensors import Tensors

KINDS = [("f8_e4m3", "rowcol"), ("f8_e4m3", "block"), ("i8", "rowcol")]


@pytest.fixture
def put(url, request):
    """put(tensor, scale) -> the name of the resident tensor, which goes with the test."""
    tensors, names = Tensors(url), []

    def putter(tensor, scale, status=201):
        name = f"scaled.{len(names)}.{abs(hash(request.node.nodeid))}"
        body = safetensors.numpy.save({"tensor": np.ascontiguousarray(tensor),
                                       "scale": np.ascontiguousarray(scale)})
        answer = tensors.send("PUT", name, body, {"Content-Type": SAFETENSORS})
        assert answer.status_code == status, answer.text
        names.append(name)
        return name if status == 201 else answer

    yield putter
    for name in names:
        tensors.send("DELETE", name)


def case_of(kind, m=5, **rest):
    return ScaledProblem(m, 260, 300, dtype=kind[0], scales=kind[1], transb=True, **rest)


def left(case, *names):
    return {name: value for name, value in case.parameters().items() if name not in names}


@pytest.mark.parametrize("kind", KINDS, ids=" ".join)
@pytest.mark.parametrize("m", [1, 5, 140])
def test_a_weight_is_served_as_it_is(kind, m, put, post, rng):
    """The weight is [n, k] with its scales beside it, as frameworks save it."""
    case = case_of(kind, m)
    scaled = random_scaled(case, rng)
    expected = post(case.parameters(), scaled.raw())
    assert expected.status_code == 200, expected.text
    weight = put(scaled.operands.b[0], scaled.b_scale[0])
    answer = post(left(case, "n", "k", "dtype") | {"b": weight},
                  scaled.operands.a.tobytes() + scaled.a_scale.tobytes())
    assert answer.status_code == 200, answer.text
    assert answer.content == expected.content


@pytest.mark.parametrize("kind", KINDS, ids=" ".join)
def test_both_operands_resident(kind, put, post, rng):
    case = case_of(kind)
    scaled = random_scaled(case, rng)
    expected = post(case.parameters(), scaled.raw()).content
    a, b = put(scaled.operands.a[0], scaled.a_scale[0]), put(scaled.operands.b[0], scaled.b_scale[0])
    answer = post(left(case, "m", "n", "k", "dtype") | {"a": a, "b": b}, b"")
    assert answer.status_code == 200, answer.text
    assert answer.content == expected


def test_one_weight_for_a_batch(put, post, rng):
    case = case_of(KINDS[1], 3, batch=2)
    scaled = random_scaled(case, rng)
    scaled.operands.b[1] = scaled.operands.b[0]
    scaled.b_scale[1] = scaled.b_scale[0]
    expected = post(case.parameters(), scaled.raw()).content
    weight = put(scaled.operands.b[0], scaled.b_scale[0])
    answer = post(left(case, "n", "k", "dtype") | {"b": weight},
                  scaled.operands.a.tobytes() + scaled.a_scale.tobytes())
    assert answer.status_code == 200, answer.text
    assert answer.content == expected


def test_a_resident_without_scales_takes_them_from_the_body(url, post, rng):
    case = case_of(KINDS[0])
    scaled = random_scaled(case, rng)
    expected = post(case.parameters(), scaled.raw()).content
    tensors = Tensors(url)
    assert tensors.put("bare", scaled.operands.b[0]).status_code == 201
    try:
        answer = post(left(case, "n", "k", "dtype") | {"b": "bare"},
                      scaled.operands.a.tobytes() + scaled.a_scale.tobytes() +
                      scaled.b_scale.tobytes())
        assert answer.status_code == 200, answer.text
        assert answer.content == expected
    finally:
        tensors.send("DELETE", "bare")


def test_what_was_uploaded_comes_back(url, put, rng):
    case = case_of(KINDS[1])
    scaled = random_scaled(case, rng)
    name = put(scaled.operands.b[0], scaled.b_scale[0])
    tensors = Tensors(url)
    whole = tensors.get(name, Accept=SAFETENSORS)
    found = {key: bytes(entry["data"]) for key, entry in safetensors.deserialize(whole.content)}
    assert found == {"tensor": scaled.operands.b[0].tobytes(), "scale": scaled.b_scale[0].tobytes()}
    assert tensors.get(name, Accept=RAW).content == scaled.operands.b[0].tobytes()
    entry = next(e for e in tensors.get().json()["tensors"] if e["name"] == name)
    assert entry["scale_shape"] == [3, 3]
    other = scaled.b_scale[0].copy()
    other[0, 0] *= 2
    assert tensors.get(put(scaled.operands.b[0], other)).headers["ETag"] != whole.headers["ETag"]


def test_scales_count_for_the_limit_of_an_answer(start, rng):
    tensors = Tensors(start("--max-result", "500").url)
    tensor, scale = np.zeros((10, 40), np.int8), np.ones(40, np.float32)
    body = safetensors.numpy.save({"tensor": tensor, "scale": scale})
    assert tensors.send("PUT", "w", body, {"Content-Type": SAFETENSORS}).status_code == 201
    assert tensors.get("w", Accept=SAFETENSORS).status_code == 413
    assert tensors.get("w", Accept=RAW).content == tensor.tobytes()


def test_scales_of_another_kind(put, post, rng):
    case = case_of(KINDS[1])
    scaled = random_scaled(case, rng)
    weight = put(scaled.operands.b[0], scaled.b_scale[0])
    rowcol = left(case, "n", "k", "dtype") | {"b": weight, "scales": "rowcol"}
    assert_problem(post(rowcol, b""), 400,
                   "scale of the resident B has the shape 3,3; with scales=rowcol it must be 260",
                   field="b_scale")
    none = left(case, "n", "k", "dtype", "scales") | {"b": weight}
    assert_problem(post(none, b""), 400, "scales is none; it must be rowcol or block",
                   field="scales")


@pytest.mark.parametrize("change, says", [
    (lambda scale: scale[:2], "has the shape 2,3"),
    (lambda scale: scale.astype(np.float64), "of type f64; scales must be f32"),
    (lambda scale: np.where(scale == scale[1, 1], np.float32(0), scale), "positive and finite"),
    (lambda scale: np.where(scale == scale[1, 1], np.float32(np.nan), scale),
     "positive and finite")])
def test_bad_uploads(change, says, put, rng):
    case = case_of(KINDS[1])
    scaled = random_scaled(case, rng)
    answer = put(scaled.operands.b[0], change(scaled.b_scale[0]), 400)
    assert_problem(answer, 400, says, field="scale")


def test_types_without_scales(put):
    answer = put(np.ones((4, 4), np.float16), np.ones(4, np.float32), 422)
    assert_problem(answer, 422, "tensor of f16 has no scale", field="scale")


def test_other_names(url):
    body = safetensors.numpy.save({"weight": np.ones((4, 4), np.int8),
                                   "weight_scale": np.ones(4, np.float32)})
    answer = Tensors(url).send("PUT", "w", body, {"Content-Type": SAFETENSORS})
    assert_problem(answer, 400, "'tensor' and 'scale'")


@pytest.mark.parametrize("kind", KINDS, ids=" ".join)
@pytest.mark.parametrize("binary", [True, False])
def test_inference(kind, binary, url, session, post, rng):
    case = case_of(kind)
    scaled = random_scaled(case, rng)
    expected = post(case.parameters(), scaled.raw()).content
    inputs = [Input("A", scaled.operands.a[0], case.dtype), Input("B", scaled.operands.b[0],
                                                                  case.dtype),
              Input("A_SCALE", scaled.a_scale[0], "f32", binary),
              Input("B_SCALE", scaled.b_scale[0], "f32", binary)]
    answer = infer(url, MODEL[case.dtype], inputs, session, parameters={
        "binary_data_output": True, "transb": True, "scales": case.scales})
    assert answer.status_code == 200, answer.text
    assert split(answer)[1] == expected


def test_inference_of_a_layer(url, session, put, post, rng):
    case = ScaledProblem(5, 260, 300, dtype="f8_e4m3", scales="block")
    scaled = random_scaled(case, rng)
    expected = post(case.parameters(), scaled.raw()).content
    layer = put(scaled.operands.b[0], scaled.b_scale[0])
    inputs = [Input("X", scaled.operands.a[0], case.dtype),
              Input("A_SCALE", scaled.a_scale[0], "f32")]
    options = {"binary_data_output": True, "scales": "block"}
    answer = infer(url, f"linear.{layer}", inputs, session, parameters=options)
    assert answer.status_code == 200, answer.text
    assert split(answer)[1] == expected
    answer = infer(url, f"linear.{layer}", inputs[:1], session, parameters=options)
    assert answer.status_code == 400
    assert "a_scale" in json.loads(answer.content)["error"]


def test_inference_refuses_scales_that_were_not_asked_for(url, session, rng):
    case = case_of(KINDS[0])
    scaled = random_scaled(case, rng)
    inputs = [Input("A", scaled.operands.a[0], case.dtype),
              Input("B", scaled.operands.b[0], case.dtype),
              Input("A_SCALE", scaled.a_scale[0], "f32")]
    answer = infer(url, MODEL[case.dtype], inputs, session, parameters={
        "binary_data_output": True, "transb": True})
    assert answer.status_code == 400
    assert "needs scales=rowcol or scales=block" in json.loads(answer.content)["error"]
