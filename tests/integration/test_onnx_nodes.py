"""ONNX' own node tests of the operations that gemmd has, asked of a running daemon.

The package `onnx` generates the operands and the right answers. A client may rearrange operands and
answers (reshape, transpose, pad, concatenate, cut), as a runtime for ONNX does, but all arithmetic
is the daemon's. NOT_ASKED says why the other tests of these operators cannot be asked.
"""

import importlib

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from daemon import PATIENCE_S
from matrices import NUMPY

onnx = pytest.importorskip("onnx", reason="the package onnx is for --all")

MODULES = ("attention", "matmul", "matmulinteger", "qlinearmatmul", "gemm", "conv", "convinteger",
           "qlinearconv", "softmax", "logsoftmax", "argmax", "argmin", "reduce_log_sum",
           "reduce_log_sum_exp", "reducel1", "reducel2", "reducemax", "reducemean", "reducemin",
           "reduceprod", "reducesum", "reducesumsquare")
UINT8 = "operands of uint8 with zero points"
KIND = "a reduction of this kind"
EMPTY = "an operand without elements"
# What keeps a test from being asked, by the operator or by the start of the test's name; the
# longest start counts.
NOT_ASKED = {
    "test_convinteger": UINT8,
    "test_qlinearconv": UINT8,
    "test_matmulinteger": UINT8,
    "test_qlinearmatmul": "results of uint8 or int8 with a zero point",
    "test_argmin": KIND,
    "test_reduce_l1": KIND,
    "test_reduce_prod": KIND,
    "test_reduce_sum_square": KIND,
    "test_reduce_log_sum_": KIND,
    "test_reduce_log_sum_exp": None,
    "test_reduce_log_sum_exp_empty_set": EMPTY,
    "test_reduce_sum_empty_axes": "a reduction over no axis",
    "test_reduce_sum_empty_set": EMPTY,
    "test_reduce_l2_empty_set": EMPTY,
    "test_reduce_max_empty_set": EMPTY,
    "test_reduce_min_empty_set": EMPTY,
    "test_reduce_max_bool_inputs": "operands of bool",
    "test_reduce_min_bool_inputs": "operands of bool",
}


def reason(name):
    starts = [start for start in NOT_ASKED if name.startswith(start)]
    if "select_last_index" in name:
        return "the last index of the greatest element"
    return NOT_ASKED[max(starts, key=len)] if starts else None


def collect():
    node = importlib.import_module("onnx.backend.test.case.node")
    for module in MODULES:
        importlib.import_module(f"onnx.backend.test.case.node.{module}")
    cases = [case for case in node._NodeTestCases
             if len(case.model.graph.node) == 1 and not case.name.endswith("_expanded")]
    return {case.name: case for case in cases}


CASES = collect()


class Daemon:
    """Sends raw bodies, and reads answers as arrays."""

    def __init__(self, url, session):
        self.url, self.session = url, session

    def ask(self, path, parameters, operands, dtype, shape):
        return np.frombuffer(self.post(path, parameters, operands), NUMPY[dtype]).reshape(shape)

    def lse(self, path, parameters, operands):
        return safetensors.numpy.load(self.post(path, parameters, operands,
                                                "application/vnd.safetensors"))["lse"]

    def post(self, path, parameters, operands, accept="*/*"):
        body = b"".join(np.ascontiguousarray(array).tobytes() for array in operands)
        answer = self.session.post(f"{self.url}{path}", params=parameters, data=body,
                                   timeout=PATIENCE_S,
                                   headers={"Content-Type": "application/octet-stream", "Accept": accept})
        assert answer.status_code == 200, answer.text
        return answer.content


def name_of(dtype):
    return next(name for name, kind in NUMPY.items() if kind == dtype)


def node_of(case):
    node = case.model.graph.node[0]
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    given = iter(case.data_sets[0][0])
    operands = {name: next(given) for name in node.input if name}
    return node.op_type, attributes, operands, [name for name in node.output]


def product(daemon, a, b, alpha=1.0, beta=0.0, c0=None, **more):
    """One product for each index of the first dimensions, which are equal."""
    batch, dtype = int(np.prod(a.shape[:-2], dtype=int)), name_of(a.dtype)
    (m, k), n = a.shape[-2:], b.shape[-1]
    if more.get("transb"):
        n = b.shape[-2]
    if more.get("transa"):
        m, k = k, m
    parameters = dict(m=m, n=n, k=k, batch=batch, dtype=dtype, alpha=alpha, beta=beta, **more)
    return daemon.ask("/gemm", parameters, [a, b] + ([] if c0 is None else [c0]), dtype,
                      (*a.shape[:-2], m, n))


def matmul(daemon, _, operands):
    a, b = operands.values()
    whole_a = a[None, :] if a.ndim == 1 else a
    whole_b = b[:, None] if b.ndim == 1 else b
    lead = np.broadcast_shapes(whole_a.shape[:-2], whole_b.shape[:-2])
    got = product(daemon, np.broadcast_to(whole_a, (*lead, *whole_a.shape[-2:])),
                  np.broadcast_to(whole_b, (*lead, *whole_b.shape[-2:])))
    got = got[..., 0] if b.ndim == 1 else got
    return [got[..., 0, :] if a.ndim == 1 and b.ndim > 1 else got[..., 0] if a.ndim == 1 else got]


def gemm(daemon, attributes, operands):
    a, b, c = (list(operands.values()) + [None])[:3]
    transa, transb = attributes.get("transA", 0), attributes.get("transB", 0)
    shape = (a.shape[1 if transa else 0], b.shape[0 if transb else 1])
    c0 = None if c is None else np.broadcast_to(c, shape)
    return [product(daemon, a, b, attributes.get("alpha", 1.0),
                    0.0 if c is None else attributes.get("beta", 1.0), c0,
                    transa=transa, transb=transb)]


def conv(daemon, attributes, operands):
    x, w = operands.values()
    pads = attributes.get("pads", [0, 0, 0, 0])
    stride = attributes.get("strides", [1, 1])
    if attributes.get("auto_pad") == b"SAME_LOWER":
        whole = [max(0, (-(-size // step) - 1) * step + filter_ - size)
                 for size, step, filter_ in zip(x.shape[2:], stride, w.shape[2:])]
        pads = [whole[0] - whole[0] // 2, whole[1] - whole[1] // 2, whole[0] // 2, whole[1] // 2]
    top, left, bottom, right = pads
    height, width = ((x.shape[2 + i] + pads[i] + pads[2 + i] - w.shape[2 + i]) // stride[i] + 1
                     for i in range(2))
    parameters = dict(batch=x.shape[0], channels=x.shape[1], height=x.shape[2], width=x.shape[3],
                      filters=w.shape[0], filter_h=w.shape[2], filter_w=w.shape[3],
                      stride=",".join(map(str, stride)), padding=f"{top},{bottom},{left},{right}",
                      dtype="f32")
    return [daemon.ask("/conv2d", parameters, [x, w], "f32", (x.shape[0], w.shape[0], height, width))]


def softmax_of(daemon, x, log=0):
    dtype = name_of(x.dtype)
    return daemon.ask("/softmax", dict(shape=",".join(map(str, x.shape)), dtype=dtype, log=log), [x],
                      dtype, x.shape)


def softmax(log):
    def ask(daemon, attributes, operands):
        x, = operands.values()
        axis = attributes.get("axis", -1)
        return [np.moveaxis(softmax_of(daemon, np.moveaxis(x, axis, -1), log), -1, axis)]
    return ask


def reduction(op):
    def ask(daemon, attributes, operands):
        x = operands["data"]
        axes = operands.get("axes", attributes.get("axes", attributes.get("axis", 0)
                                                   if op == "argmax" else np.arange(x.ndim)))
        axes = np.atleast_1d(axes) % x.ndim
        axes = axes if axes.size else np.arange(x.ndim)
        kept = [axis for axis in range(x.ndim) if axis not in axes]
        rows = x.transpose(kept + list(axes)).reshape([x.shape[i] for i in kept] + [-1])
        dtype = name_of(x.dtype)
        got = daemon.ask("/reduce", dict(shape=",".join(map(str, rows.shape)), op=op, dtype=dtype),
                         [rows], "i32" if op == "argmax" else dtype, rows.shape[:-1])
        return [np.expand_dims(got, tuple(axes)) if attributes.get("keepdims", 1) else got]
    return ask


def heads_first(x, heads):
    """[batch, length, heads * size] as [batch, heads, length, size]."""
    return x if x.ndim == 4 else x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def whole_mask(mask, keys):
    """A mask of four dimensions for all keys; keys that it does not reach are hidden."""
    hidden = False if mask.dtype == bool else -np.inf
    room = [(0, 0)] * (mask.ndim - 1) + [(0, keys - mask.shape[-1])]
    mask = np.pad(mask, room, constant_values=hidden)
    return mask.reshape((1,) * (4 - mask.ndim) + mask.shape)


def attention(daemon, attributes, operands):
    q, k, v = (heads_first(operands[name], attributes.get(heads, 0)) for name, heads in
               (("Q", "q_num_heads"), ("K", "kv_num_heads"), ("V", "kv_num_heads")))
    past = operands["past_key"].shape[2] if "past_key" in operands else 0
    if past:
        k = np.concatenate((operands["past_key"], k), axis=2)
        v = np.concatenate((operands["past_value"], v), axis=2)
    (batch, heads, sq, d), (kv_heads, skv), dv = q.shape, k.shape[1:3], v.shape[3]
    dtype = name_of(q.dtype)
    parameters = dict(batch=batch, heads=heads, kv_heads=kv_heads, sq=sq, skv=skv, d=d, dv=dv,
                      dtype=dtype, causal=attributes.get("is_causal", 0),
                      softcap=attributes.get("softcap", 0))
    if "scale" in attributes:
        parameters["scale"] = attributes["scale"]
    for side, name in (("left", "window"), ("right", "window_right")):
        if attributes.get(f"{side}_window_size", -1) >= 0:
            parameters[name] = attributes[f"{side}_window_size"]
    lens, sent = [], [q, k, v]
    if "nonpad_kv_seqlen" in operands:
        parameters["lens"] = 1
        lens = [np.full(batch, sq, "<i4"), operands["nonpad_kv_seqlen"].astype("<i4")]
    else:
        parameters["offset"] = past
    mask = whole_mask(operands["attn_mask"], skv) if "attn_mask" in operands else None
    if mask is not None:
        parameters.update(mask="bool" if mask.dtype == bool else "add", mask_batch=mask.shape[0],
                          mask_heads=mask.shape[1], mask_sq=mask.shape[2])
        sent.append(mask)
    out = daemon.ask("/attention", parameters, lens + sent, dtype, (batch, heads, sq, dv))
    if operands["Q"].ndim == 3:
        out = out.swapaxes(1, 2).reshape(batch, sq, -1)
    mode, scores = attributes.get("qk_matmul_output_mode", 0), None
    if attributes["scores"] and mode == 3:  # the weights: what an identity as V gives
        sent[2] = np.broadcast_to(np.eye(skv, dtype=v.dtype), (batch, kv_heads, skv, skv))
        scores = daemon.ask("/attention", {**parameters, "dv": skv}, lens + sent, dtype,
                            (batch, heads, sq, skv))
    elif attributes["scores"]:
        causal = np.where(np.tri(sq, skv, past, bool), 0, -np.inf).astype(q.dtype)
        if attributes.get("is_causal"):
            mask = causal if mask is None else mask + causal
        scores = (capped_scores_of(daemon, attributes, q, k) if mode == 1 and parameters["softcap"]
                  else scores_of(daemon, mode, attributes.get("scale", 1 / np.sqrt(d)), q, k, mask))
    return [out, k, v, scores]


def capped_scores_of(daemon, attributes, q, k):
    """The scores of an attention after the soft cap: lse of attentions to one key each."""
    (batch, heads, sq, d), (kv_heads, skv) = q.shape, k.shape[1:3]
    parameters = dict(batch=batch * skv, heads=heads, kv_heads=kv_heads, sq=sq, skv=1, d=d, lse=1,
                      dtype=name_of(q.dtype), softcap=attributes["softcap"])
    if "scale" in attributes:
        parameters["scale"] = attributes["scale"]
    keys = k.swapaxes(1, 2).reshape(batch * skv, kv_heads, 1, d)
    lse = daemon.lse("/attention", parameters, [np.repeat(q, skv, axis=0), keys, keys])
    return np.moveaxis(lse.reshape(batch, skv, heads, sq), 1, 3).astype(q.dtype)


def scores_of(daemon, mode, scale, q, k, mask):
    """The scores of an attention without a soft cap: products, with the mask as C0."""
    rows, shape = np.repeat(k, q.shape[1] // k.shape[1], axis=1), (*q.shape[:3], k.shape[2])
    added = None if mode == 0 or mask is None else np.broadcast_to(mask, shape)
    return product(daemon, q, rows, scale, 0.0 if added is None else 1.0, added, transb=1)


ASK = {"MatMul": matmul, "Gemm": gemm, "Conv": conv, "Softmax": softmax(0), "LogSoftmax": softmax(1),
       "Attention": attention, "ReduceSum": reduction("sum"), "ReduceMean": reduction("mean"),
       "ReduceMax": reduction("max"), "ReduceMin": reduction("min"), "ReduceL2": reduction("norm2"),
       "ReduceLogSumExp": reduction("logsumexp"), "ArgMax": reduction("argmax")}


@pytest.mark.parametrize("name", [name for name in CASES if reason(name) is None])
def test_asked(name, url, session):
    case = CASES[name]
    operator, attributes, operands, outputs = node_of(case)
    if operator == "Attention":
        attributes["scores"] = "qk_matmul_output" in outputs
    got = ASK[operator](Daemon(url, session), attributes, operands)
    expected = iter(case.data_sets[0][1])
    for output, array in zip(outputs, got):
        if output:
            right = np.asarray(next(expected))
            assert array.shape == right.shape, output
            # ONNX' reference rounds scores, weights and sums to the operands' type.
            rounding = 2 * float(ml_dtypes.finfo(right.dtype).eps) if right.dtype.kind != "i" else 0
            np.testing.assert_allclose(array.astype(np.float64), right.astype(np.float64),
                                       max(case.rtol, rounding), case.atol, err_msg=output)


def test_every_reason_keeps_a_test_from_being_asked():
    named = {start for start in NOT_ASKED if any(case.startswith(start) for case in CASES)}
    assert named == set(NOT_ASKED), "NOT_ASKED names tests that onnx does not have"
    attentions = [name for name in CASES if "attention" in name]
    assert len(attentions) == 93, "proto/PROTOCOL.md says how many tests of Attention there are"
    assert [name for name in attentions if reason(name)] == [], "all tests of Attention can be asked"
