"""Inference requests of the Open Inference Protocol by hand, as its binary tensor extension has it."""

import json
from typing import NamedTuple

import numpy as np
import requests

from daemon import PATIENCE_S

HEADER = "Inference-Header-Content-Length"
# What the protocol calls the types of the matrices; f8 travels as bytes.
DATATYPE = {"f64": "FP64", "f32": "FP32", "f16": "FP16", "bf16": "BF16", "f8_e4m3": "UINT8",
            "i8": "INT8", "i32": "INT32"}
MODEL = {"f64": "gemm_fp64", "f32": "gemm_fp32", "f16": "gemm_fp16", "bf16": "gemm_bf16",
         "f8_e4m3": "gemm_fp8", "i8": "gemm_int8"}
# The models of reductions and softmaxes.
ARRAYS = (*(f"reduce_{name}" for name in ("fp64", "fp32", "fp16", "bf16", "int8", "int32")),
          *(f"softmax_{name}" for name in ("fp64", "fp32", "fp16", "bf16")))
ATTENTION = {"f32": "attention_fp32", "f16": "attention_fp16", "bf16": "attention_bf16"}
EXPERTS = {"f64": "experts_fp64", "f32": "experts_fp32", "f16": "experts_fp16", "bf16": "experts_bf16"}
CONV2D = {"f32": "conv2d_fp32", "f16": "conv2d_fp16", "bf16": "conv2d_bf16", "i8": "conv2d_int8"}


class Input(NamedTuple):
    name: str
    array: np.ndarray
    dtype: str = "f32"
    binary: bool = True

    def describe(self):
        entry = {"name": self.name, "shape": list(self.array.shape),
                 "datatype": DATATYPE[self.dtype]}
        if self.binary:
            return entry | {"parameters": {"binary_data_size": self.array.nbytes}}
        plain = self.array.view(np.uint8) if self.dtype == "f8_e4m3" else self.array
        return entry | {"data": plain.tolist()}


def body(inputs, **members):
    """(bytes, headers) of a request; `members` are those of its JSON besides the inputs."""
    text = json.dumps(members | {"inputs": [i.describe() for i in inputs]}).encode()
    data = b"".join(i.array.tobytes() for i in inputs if i.binary)
    return text + data, {HEADER: str(len(text))} if data else {}


def infer(url, model, inputs, session=requests, **members):
    data, headers = body(inputs, **members)
    return session.post(f"{url}/v2/models/{model}/infer", data=data, headers=headers,
                        timeout=PATIENCE_S)


def split(answer):
    """(JSON, bytes) of an answer."""
    if HEADER not in answer.headers:
        return answer.json(), b""
    length = int(answer.headers[HEADER])
    return json.loads(answer.content[:length]), answer.content[length:]
