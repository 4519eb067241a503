"""Operands and results in shared memory: memory of a connection, and regions of the inference protocol."""

import json

from . import products
from .cases import INFER_NAMES, Case
from .exchange import MEMORY_BYTES
from .products import product
from .services import cases_of
from .units import Request, Shared, Unit

# Where the result of a request with shared memory is, and how much of the memory is compared.
RESULT, COMPARED = MEMORY_BYTES // 2, 1 << 16


def placed(draw, case):
    """Some operands of a case with offsets in shared memory; the last one is often left in the body."""
    found, at = [], 0
    for operand in case.operands:
        if not operand.name.startswith("lens") and not operand.name.endswith("_scale") and draw.likely(0.8):
            found.append((operand, at))
            at += -(-len(operand.data) // 64) * 64
    return found


def computations(draw):
    yield from cases_of(draw)
    for dtype, outs in products.OUTS.items():
        options = {"transb": 1} if draw.likely(0.5) else {}
        products.epilogue(draw, outs[-1], options)
        yield product(draw, dtype, 17, 30, 40, outs[-1], draw.choice([1, 2]), **options)


def memory_of_a_connection(draw):
    result = {"/gemm": "c", "/attention": "o"}
    for case in computations(draw):
        for place_result in (True, False):
            inside = placed(draw, case)
            names = [(("c0" if operand.name == "c" else operand.name), at) for operand, at in inside]
            if place_result:
                names.append((result.get(case.path, "y"), RESULT))
            left = [operand for operand in case.operands if all(operand is not one for one, _ in inside)]
            request = Case(case.path, case.sizes, case.options, left).raw()
            if names:
                request.headers["Gemmd-Memory"] = ", ".join(f"{name}={at}" for name, at in names)
            request.shared = Shared("memfd", [(at, operand.data) for operand, at in inside], (RESULT, COMPARED))
            yield request
    for text in ("a=0, b=0, c=0", f"a={MEMORY_BYTES}", "a=0, b=4, c=1", "c=-1", "z=0", "a", "", "a=0, a=0"):
        yield Request("POST", "/gemm?m=2&n=2&k=2", b"", {"Gemmd-Memory": text}, shared=Shared("memfd", [], (0, 64)))


def regions(draw):
    body = json.dumps({"key": "{key}", "byte_size": MEMORY_BYTES}).encode()
    status = "/v2/systemsharedmemory/status"
    yield Request("POST", "/v2/systemsharedmemory/region/r/register", body)
    yield Request("POST", "/v2/systemsharedmemory/region/r/register", body)
    yield Request("GET", status)
    for case in computations(draw):
        if not case.model:
            continue
        for place_result in (True, False):
            inside = placed(draw, case)
            request = Case(case.path, case.sizes, case.options, [one for one, _ in inside]).infer()
            document = json.loads(request.body[:int(request.headers.get("Inference-Header-Content-Length",
                                                                        len(request.body)))])
            for entry, (operand, at) in zip(document["inputs"], inside):
                entry["parameters"] = {"shared_memory_region": "r", "shared_memory_offset": at,
                                       "shared_memory_byte_size": len(operand.data)}
            left, data = [one for one in case.operands if all(one is not other for other, _ in inside)], b""
            for operand in left:
                document["inputs"].append(operand.input(INFER_NAMES.get(operand.name, operand.name.upper()), True))
                data += operand.data
            if place_result:
                name = {"/gemm": "C", "/attention": "O"}.get(case.path, "Y")
                document["outputs"] = [{"name": name, "parameters": {
                    "shared_memory_region": "r", "shared_memory_offset": RESULT, "shared_memory_byte_size": COMPARED}}]
            text = json.dumps(document).encode()
            headers = {"Inference-Header-Content-Length": str(len(text))} if data else {}
            yield Request("POST", f"/v2/models/{case.model}/infer", text + data, headers,
                          shared=Shared("object", [(at, one.data) for one, at in inside], (RESULT, COMPARED)))
    for action in ("region/r/unregister", "region/r/unregister", "unregister"):
        yield Request("POST", f"/v2/systemsharedmemory/{action}")
    yield Request("GET", status)


def units(kernels, backend):
    del kernels, backend
    for turn in range(3):
        yield Unit("memory-connection", f"{turn}", memory_of_a_connection)
        yield Unit("memory-regions", f"{turn}", regions)
