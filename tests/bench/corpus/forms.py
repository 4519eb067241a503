"""Bodies in forms that few requests have: large ones, Fortran order, other names of types, metadata, no JSON."""

import gzip
import json

from . import operations
from .cases import HEADER, NPY, SAFETENSORS, Operand, query, safetensors
from .products import product, put, resident_case
from .units import OCTETS, Request, Unit

# Above 4 MiB a connection has a larger buffer, and above 256 KiB another thread computes digests.
LARGE = (500, 900, 1100)
# .npy files call a type so if a parameter says what it is.
CARRIERS = {"bf16": "<u2", "f8_e4m3": "|u1"}


def large_products(draw):
    for dtype in ("f32", "bf16", "i8", "f8_e4m3"):
        case = product(draw, dtype, *LARGE, bias=1)
        for request in (case.raw(), case.npy(), case.safetensors(), case.infer()):
            yield request
        for want in ("sha-256=1", "sha-512=1"):
            request = case.raw()
            request.headers |= {"Want-Content-Digest": want, "Want-Repr-Digest": want}
            yield request
        for parts in ((100000, 1, 3000000), (1 << 20,) * 9):
            for request in (case.raw(), case.npy(), case.safetensors()):
                request.parts = parts
                yield request
        request = case.npy()
        request.body = gzip.compress(request.body, 1, mtime=0)
        request.headers["Content-Encoding"] = "gzip"
        yield request


def large_tensors(draw):
    """Their bytes are sent while the device copies the rest."""
    for dtype, shape in (("f32", (1500, 1300)), ("bf16", (2001, 3003)), ("i8", (9, 999, 777))):
        operand = Operand("tensor", dtype, shape, draw.operands(dtype, shape))
        yield put("large", operand)
        for accept in (OCTETS, NPY, SAFETENSORS):
            yield Request("GET", "/tensors/large", headers={"Accept": accept})
            yield Request("GET", "/tensors/large", headers={"Accept": accept, "Want-Content-Digest": "sha-256=1"})
        for body, kind, path in ((operand.npy(), NPY, "/tensors/large"), (operand.npy(1, True), NPY, "/tensors/large"),
                                 (safetensors([operand]), SAFETENSORS, "/tensors/large"),
                                 (operand.data, OCTETS, put("large", operand).path)):
            yield Request("PUT", path, body, {"Content-Type": kind}, (1 << 19,) * 5)
            packed = gzip.compress(body, 1, mtime=0)
            yield Request("PUT", path, packed, {"Content-Type": kind, "Content-Encoding": "gzip"})
            yield Request("GET", "/tensors/large")
        yield Request("DELETE", "/tensors/large")


def fortran(dtype):
    """Arrays in Fortran order, alone and beside one in C order."""
    def make(draw):
        for options in ({}, {"transa": 1}, {"transb": 1, "bias": 1}, {"beta": 2}):
            case = product(draw, dtype, 33, 17, 65, batch=draw.choice([1, 3]), **options)
            for flipped in ((True, True), (True, False), (False, True)):
                orders = flipped + (True, True)
                body = b"".join(operand.npy(1, order) for operand, order in zip(case.operands, orders))
                yield Request("POST", query("/gemm", case.options), body, {"Content-Type": NPY})
        case = operations.convolution(draw, "f32", "f32", operations.CONVOLUTIONS["three"])
        body = b"".join(operand.npy(2, True) for operand in case.operands)
        yield Request("POST", query("/conv2d", case.options), body, {"Content-Type": NPY})
    return make


def other_names(draw):
    """bf16 and f8_e4m3 as unsigned integers, in .npy files and in the inference protocol, and metadata."""
    for dtype, carrier in CARRIERS.items():
        case = product(draw, dtype, 5, 6, 7)
        body = b""
        for operand in case.operands:
            whole = operand.npy()
            body += whole.replace({"bf16": b"'|V2'", "f8_e4m3": b"'|V1'"}[dtype], f"'{carrier}'".encode(), 1)
        for parameters in ({"dtype": dtype}, {}, {"dtype": "f32"}, {"out": "bf16"}, {"dtype": dtype, "out": "f32"}):
            yield Request("POST", query("/gemm", parameters), body, {"Content-Type": NPY})
        request = case.infer()
        length = int(request.headers[HEADER])
        text = request.body[:length].replace(b'"BF16"', b'"UINT16"')
        yield Request("POST", request.path, text + request.body[length:], {HEADER: str(len(text))})
    case = product(draw, "f32", 5, 6, 7)
    whole = safetensors(case.operands)
    length = int.from_bytes(whole[:8], "little")
    head = json.loads(whole[8:8 + length])
    for metadata in ({"format": "pt"}, {"a": "\u00e9\\\"\n"}, {"a": 1}, {}, "x", None):
        for ascii_only in (True, False):
            text = json.dumps({"__metadata__": metadata} | head, ensure_ascii=ascii_only).encode()
            yield Request("POST", "/gemm", len(text).to_bytes(8, "little") + text + whole[8 + length:],
                          {"Content-Type": SAFETENSORS})


def inferences(draw):
    """Rows without JSON, the parameters that all models take, and texts with escapes."""
    operand = Operand("b", "f32", (40, 30), draw.operands("f32", (40, 30)))
    yield put("rows", operand)
    for rows in (1, 3, 64):
        data = draw.operands("f32", (rows, 40))
        for body in (data, data[:-1], data + bytes(4)):
            yield Request("POST", "/v2/models/linear.rows/infer", body, {HEADER: "0"})
            yield Request("POST", "/v2/models/linear.rows/infer", body, {HEADER: "0"}, parts=(50,))
            yield Request("POST", "/v2/models/gemm_fp32/infer", body, {HEADER: "0"})
    for case in (product(draw, "f32", 5, 40, 7), operations.attention(draw, "f32", operations.ATTENTIONS["short"])):
        whole = json.loads(case.infer(False, False).body)
        for parameters in ({"priority": 0}, {"priority": 1}, {"priority": 10}, {"priority": 300}, {"timeout": 60000000},
                           {"sequence_id": 1, "sequence_start": True}, {"binary_data_output": True}):
            text = json.dumps(whole | {"parameters": whole["parameters"] | parameters}).encode()
            yield Request("POST", f"/v2/models/{case.model}/infer", text)
        for name in ("caf\u00e9", "a\"b\\c", "\U0001f600", "tab\t", "x" * 200):
            for ascii_only in (True, False):
                text = json.dumps(whole | {"id": name}, ensure_ascii=ascii_only).encode()
                yield Request("POST", f"/v2/models/{case.model}/infer", text)
        for spaced in (json.dumps(whole, indent=3), json.dumps(whole, separators=(" ,\t", " :\n"))):
            yield Request("POST", f"/v2/models/{case.model}/infer", spaced.encode())
    yield resident_case(product(draw, "f32", 3, 30, 40), "b", "rows").raw()
    yield Request("DELETE", "/tensors/rows", b"body")
    yield Request("DELETE", "/tensors/rows")


def units(kernels, backend):
    del kernels, backend
    yield Unit("forms-large", "products", large_products)
    yield Unit("forms-large", "tensors", large_tensors)
    for dtype in ("f64", "f32", "f16", "bf16", "i8", "f8_e4m3"):
        yield Unit("forms-fortran", dtype, fortran(dtype))
    yield Unit("forms-names", "", other_names)
    yield Unit("forms-infer", "", inferences)
