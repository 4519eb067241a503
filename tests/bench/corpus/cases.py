"""A computation and the ways to ask for it: formats of bodies and answers, codings, the inference protocol."""

import gzip
import json
import zlib
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from .units import OCTETS, Request

NPY, SAFETENSORS = "application/x-npy", "application/vnd.safetensors"
NUMPY = {"f64": "<f8", "f32": "<f4", "f16": "<f2", "bf16": "|V2", "f8_e4m3": "|V1", "i8": "|i1", "i32": "<i4"}
STORED = {"f64": "F64", "f32": "F32", "f16": "F16", "bf16": "BF16", "f8_e4m3": "F8_E4M3", "i8": "I8", "i32": "I32"}
DATATYPE = {"f64": "FP64", "f32": "FP32", "f16": "FP16", "bf16": "BF16", "f8_e4m3": "UINT8", "i8": "INT8",
            "i32": "INT32"}
# What the JSON of an inference may hold, as NumPy reads it.
IN_JSON = {"f64": "<f8", "f32": "<f4", "i8": "|i1", "i32": "<i4", "f8_e4m3": "|u1"}
# Parameters that are true or false in JSON, and those that are numbers.
FLAGS = {"transa", "transb", "causal", "lse", "keepdims", "log"}
NUMBERS = {"alpha", "beta", "scale", "softcap", "window", "groups", "axis"}
# In JSON, operands are called so; the others by their own name in capitals.
INFER_NAMES = {"c": "C0"}
HEADER = "Inference-Header-Content-Length"


class Operand(NamedTuple):
    name: str  # in a safetensors body
    dtype: str
    shape: tuple
    data: bytes

    def npy(self, version=1, fortran=False):
        """A .npy file. In Fortran order the bytes are taken as they are."""
        dims = "".join(f"{size}, " for size in self.shape)
        head = f"{{'descr': '{NUMPY[self.dtype]}', 'fortran_order': {fortran}, 'shape': ({dims}), }}"
        length_bytes = 2 if version == 1 else 4
        length = -(-(len(head) + 9 + length_bytes) // 64) * 64 - 8 - length_bytes
        return (b"\x93NUMPY" + bytes([version, 0]) + length.to_bytes(length_bytes, "little")
                + head.ljust(length - 1).encode() + b"\n" + self.data)

    def input(self, name, binary):
        """The member of `inputs` of an inference."""
        entry = {"name": name, "shape": self.shape, "datatype": DATATYPE[self.dtype]}
        if binary:
            return entry | {"parameters": {"binary_data_size": len(self.data)}}
        return entry | {"data": np.frombuffer(self.data, IN_JSON[self.dtype]).tolist()}


def safetensors(operands):
    head, data = {}, b""
    for operand in operands:
        head[operand.name] = {"dtype": STORED[operand.dtype], "shape": operand.shape,
                              "data_offsets": [len(data), len(data) + len(operand.data)]}
        data += operand.data
    text = json.dumps(head).encode()
    return len(text).to_bytes(8, "little") + text + data


def query(path, parameters):
    text = "&".join(f"{name}={value}" for name, value in parameters.items())
    return f"{path}?{text}" if text else path


@dataclass
class Case:
    """`sizes` are the parameters that arrays determine; `options` are all others."""

    path: str
    sizes: dict
    options: dict
    operands: list
    model: str = ""
    outputs: tuple = ()
    headers: dict = field(default_factory=dict)

    def raw(self, **more):
        body = b"".join(operand.data for operand in self.operands)
        return Request("POST", query(self.path, self.sizes | self.options | more), body,
                       {"Content-Type": OCTETS} | self.headers)

    def npy(self, version=1, **more):
        body = b"".join(operand.npy(version) for operand in self.operands)
        return Request("POST", query(self.path, self.options | more), body, {"Content-Type": NPY} | self.headers)

    def safetensors(self, **more):
        return Request("POST", query(self.path, self.options | more), safetensors(self.operands),
                       {"Content-Type": SAFETENSORS} | self.headers)

    def infer(self, binary=True, binary_out=True, **members):
        """`binary` says how the inputs are sent, where their type can be JSON, and `binary_out` the outputs."""
        inputs, data = [], b""
        for operand in self.operands:
            behind = binary or operand.dtype not in IN_JSON
            inputs.append(operand.input(INFER_NAMES.get(operand.name, operand.name.upper()), behind))
            data += operand.data if behind else b""
        parameters = {name: parameter(name, value) for name, value in self.options.items()
                      if name not in ("bias", "lens", "timeout_ms", "priority")}
        document = {"inputs": inputs, "parameters": parameters | {"binary_data_output": binary_out}} | members
        text = json.dumps(document, separators=(",", ":")).encode()
        headers = {HEADER: str(len(text))} if data else {}
        return Request("POST", f"/v2/models/{self.model}/infer", text + data, headers | self.headers)


def parameter(name, value):
    """The value of a parameter of an inference, from that of a query."""
    if name in FLAGS:
        return value in (1, "1")
    return value if name in NUMBERS else str(value)


def coded(draw, request):
    """The request with a content coding or chunks, or as it is."""
    kind = draw.random()
    if kind < 0.06:
        request.body = gzip.compress(request.body, 1, mtime=0)
        request.headers["Content-Encoding"] = "gzip"
    elif kind < 0.1:
        request.body = zlib.compress(request.body, 1)
        request.headers["Content-Encoding"] = "deflate"
    elif kind < 0.2:
        length = max(2, len(request.body))
        request.parts = tuple(draw.randrange(1, length) for _ in range(draw.randrange(1, 5)))
    return request


def ways(draw, case):
    """Requests for one computation: raw, as arrays, and as an inference. Headers and codings are drawn."""
    asked = [case.raw(), draw.choice([case.npy(), case.npy(2), case.npy(3), case.safetensors()])]
    if case.model:
        small = sum(len(operand.data) for operand in case.operands) < 20000
        binary = not small or draw.likely(0.6)
        asked.append(case.infer(binary, binary or draw.likely(0.5)))
    for request in asked:
        if draw.likely(0.3) and request.path.startswith(case.path):
            request.headers["Accept"] = draw.choice([OCTETS, NPY, SAFETENSORS, "*/*", "application/json",
                                                     f"{NPY};q=0.5, {SAFETENSORS}"])
        if draw.likely(0.05):
            request.headers["Want-Content-Digest"] = draw.choice(["sha-256=1", "sha-512=3, sha-256=1"])
        if draw.likely(0.05):
            request.headers["Want-Repr-Digest"] = "sha-256=1"
        if draw.likely(0.1) and request.path.startswith(case.path):
            more = draw.choice(["priority=0", "priority=9", "timeout_ms=600000"])
            request.path += ("&" if "?" in request.path else "?") + more
        yield coded(draw, request)
