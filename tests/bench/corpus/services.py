"""Requests that compute nothing: tensors, jobs, the paths of the inference protocol, pages and metrics."""

import hashlib

from . import operations
from .cases import NPY, SAFETENSORS, Case, Operand, query, safetensors
from .products import product, put, resident_case
from .units import OCTETS, Request, Unit

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
PAGES = ["/", "/docs", "/openapi.json", "/info", "/version", "/livez", "/healthz", "/readyz", "/health", "/ping",
         "/metrics", "/tensors", "/jobs", "/dashboard/history", "/dashboard/history?after=0", "/dashboard/requests",
         "/dashboard/kernels", "/favicon.ico", "/nothing", "/gemm", "/tensors/none", "/jobs/none", "/jobs/none/result",
         "/tensors?limit=1", "/tensors?limit=0", "/tensors?after=x", "/jobs?limit=1", "/jobs?after=x", "/jobs?limit=x",
         "/v2", "/v2/", "/v2/health/live", "/v2/health/ready", "/v2/models/stats", "/v2/logging", "/v2/trace/setting",
         "/v2/systemsharedmemory/status", "/v2/cudasharedmemory/status", "/v2/systemsharedmemory/region/r/status",
         "/v2/nothing", "/v2/models", "/v2/models/none", "/v2/models/linear.none", "/v2/models/conv.none"]
MODELS = ["gemm_fp64", "gemm_fp32", "gemm_fp16", "gemm_bf16", "gemm_fp8", "gemm_int8", "conv2d_fp32", "conv2d_fp16",
          "conv2d_bf16", "conv2d_int8", "attention_fp32", "attention_fp16", "attention_bf16", "reduce_fp64",
          "reduce_fp32", "reduce_fp16", "reduce_bf16", "reduce_int8", "reduce_int32", "softmax_fp64", "softmax_fp32",
          "softmax_fp16", "softmax_bf16"]
POSTS = [("/v2/repository/index", b""), ("/v2/repository/index", b'{"ready":true}'), ("/v2/repository/index", b"{"),
         ("/v2/repository/index", b'{"ready":1}'), ("/v2/repository/models/x/load", b"{}"),
         ("/v2/repository/models/x/unload", b"{}"), ("/v2/logging", b'{"log_verbose_level":1}'),
         ("/v2/trace/setting", b"{}"), ("/v2/models/gemm_fp32/trace/setting", b"{}"),
         ("/v2/systemsharedmemory/region/r/register", b'{"key":"/none","byte_size":8}'),
         ("/v2/systemsharedmemory/region/r/register", b'{"key":"none"}'),
         ("/v2/systemsharedmemory/region/r/register", b"[]"), ("/v2/systemsharedmemory/region/r/unregister", b""),
         ("/v2/systemsharedmemory/unregister", b""), ("/v2/cudasharedmemory/region/r/register", b"{}"),
         ("/v2/cudasharedmemory/unregister", b"")]


def pages(draw):
    del draw
    for path in PAGES:
        yield Request("GET", path)
        yield Request("HEAD", path)
        yield Request("GET", path, id=None)
    for accept in (OPENMETRICS, "text/plain", "text/html", "application/json"):
        for path in ("/metrics", "/", "/info", "/openapi.json"):
            yield Request("GET", path, headers={"Accept": accept})
    for path in ("/", "/docs", "/openapi.json"):
        yield Request("GET", path, headers={"If-None-Match": "*"})
        yield Request("GET", path, headers={"Accept-Encoding": "gzip"})
        yield Request("GET", path, headers={"Want-Content-Digest": "sha-256=1", "Want-Repr-Digest": "sha-512=1"})


def models(draw):
    del draw
    for model in MODELS:
        for path in ("", "/ready", "/config", "/stats", "/versions/1", "/versions/1/stats", "/versions/2", "/nothing",
                     "/trace/setting"):
            yield Request("GET", f"/v2/models/{model}{path}")
    for path, body in POSTS:
        yield Request("POST", path, body, {"Content-Type": "application/json"})


def tag(operand):
    """The entity tag of a tensor."""
    dims = ",".join(map(str, operand.shape))
    return '"' + hashlib.sha256(f"{operand.dtype}:{dims}\n".encode() + operand.data).hexdigest() + '"'


def tensors(dtype, shape):
    def make(draw):
        operand = Operand("tensor", dtype, shape, draw.operands(dtype, shape))
        other = operand._replace(data=draw.operands(dtype, shape))
        mine, another = tag(operand), tag(other)
        yield put("t", operand)
        yield Request("PUT", "/tensors/t", operand.npy(), {"Content-Type": NPY})
        yield Request("PUT", query("/tensors/t", {"dtype": dtype}), other.npy(2, True), {"Content-Type": NPY})
        yield Request("GET", "/tensors/t")
        yield Request("PUT", "/tensors/t?evictable=1", safetensors([operand]), {"Content-Type": SAFETENSORS})
        for accept in (OCTETS, NPY, SAFETENSORS, "application/json", "text/html"):
            for method in ("GET", "HEAD"):
                yield Request(method, "/tensors/t", headers={"Accept": accept})
        for condition in ("If-Match", "If-None-Match"):
            for value in (mine, another, "*", f'"x", W/{mine}', "x"):
                yield Request("GET", "/tensors/t", headers={condition: value})
                yield Request("PUT", put("t", operand).path, operand.data, {"Content-Type": OCTETS, condition: value})
        yield Request("GET", "/tensors/t", headers={"Want-Content-Digest": "sha-256=1"})
        for parameters in ({"contiguous": 1}, {"replicate": "all"}, {"evictable": 2}, {"replicate": "some"}):
            yield put("t", operand, **parameters)
        yield put("u", other)
        for path in ("/tensors", "/tensors?limit=1", "/tensors?after=t", "/v2/models/linear.t", "/v2/models/conv.t",
                     "/v2/models/linear.t/config", "/v2/models/conv.t/config", "/v2/models/linear.t/stats"):
            yield Request("GET", path)
        yield Request("POST", "/v2/repository/index", b"{}")
        for parameters in ({"shape": "3"}, {"shape": "3,x", "dtype": dtype}, {"dtype": dtype},
                           {"shape": "1", "what": 1}):
            yield Request("PUT", query("/tensors/t", parameters), operand.data, {"Content-Type": OCTETS})
        yield Request("DELETE", "/tensors/t", headers={"If-Match": another})
        for name in ("t", "t", "u", "none"):
            yield Request("DELETE", f"/tensors/{name}")
    return make


def tensors_with_scales(dtype, kind):
    def make(draw):
        n, k = 130, 257
        options = {"scales": kind} | ({"transb": 1} if draw.likely(0.5) else {})
        case = product(draw, dtype, 9, n, k, **options)
        a, b, a_scale, b_scale = case.operands
        yield Request("PUT", "/tensors/q", safetensors([b._replace(name="tensor"), b_scale._replace(name="scale")]),
                      {"Content-Type": SAFETENSORS})
        for accept in (OCTETS, SAFETENSORS):
            yield Request("GET", "/tensors/q", headers={"Accept": accept})
        case.operands = [a, a_scale]
        case.options["b"] = "q"
        for request in (case.raw(), case.npy(), case.safetensors(), case.raw(out="f32"), case.raw(scales="none")):
            yield request
        parameters = {name: value for name, value in case.options.items() if name != "b"}
        yield Case("", {}, parameters, [a._replace(name="x"), a_scale], "linear.q").infer()
        yield Request("DELETE", "/tensors/q")
    return make


def cases_of(draw):
    """A small computation of each operation."""
    x = operations.array(draw, "f32", (33, 65))
    return [product(draw, "f32", 20, 30, 40), product(draw, "i8", 5, 6, 7, "f32", bias=1),
            operations.attention(draw, "f16", operations.ATTENTIONS["short"]),
            operations.convolution(draw, "f32", "f32", operations.CONVOLUTIONS["three"]),
            Case("/reduce", operations.sizes_of(x), {"op": "sum"}, [x], "reduce_fp32"),
            Case("/softmax", operations.sizes_of(x), {}, [x], "softmax_fp32")]


def jobs(draw):
    """Jobs of every operation: their result, their description, and that they can be deleted."""
    for case in cases_of(draw):
        for request in (case.raw(), case.npy(), case.safetensors()):
            request.headers["Prefer"] = "respond-async"
            yield request
            yield Request("GET", "{location}/result?wait_ms=60000")
            yield Request("GET", "{location}/result", headers={"Accept": NPY})
            yield Request("GET", "{location}/result", headers={"Prefer": "wait=10", "Want-Content-Digest": "sha-256=1"})
            yield Request("HEAD", "{location}/result")
            yield Request("GET", "{location}/result?wait_ms=x")
            yield Request("GET", "{location}")
            yield Request("GET", "/jobs")
            yield Request("DELETE", "{location}")
            yield Request("GET", "{location}")
            yield Request("GET", "{location}/result")
        wrong = case.raw(timeout_ms=0)
        wrong.headers["Prefer"] = "respond-async"
        yield wrong
        inference = case.infer()
        inference.headers["Prefer"] = "respond-async"
        yield inference
    for preference in ("respond-async, wait=5", "wait=5", "RESPOND-ASYNC", "respond-async;x=1", "return=minimal", ""):
        request = cases_of(draw)[0].raw(store="kept")
        request.headers["Prefer"] = preference
        yield request
        yield Request("GET", "{location}/result?wait_ms=60000")
        yield Request("GET", "/tensors/kept")
    yield Request("DELETE", "/tensors/kept")


def late(edge):
    """Requests and jobs that cannot be computed by their deadline, and a job that is cancelled."""
    def make(draw):
        yield put("late", Operand("late", "f32", (edge, edge), draw.operands("f32", (edge, edge))))
        path = query("/gemm", {"a": "late", "b": "late", "kernel": "naive", "timeout_ms": 1})
        yield Request("POST", path)
        yield Request("POST", path, headers={"Prefer": "respond-async"})
        yield Request("GET", "{location}/result?wait_ms=60000")
        yield Request("GET", "{location}")
        yield Request("DELETE", "{location}")
        yield Request("POST", path.replace("timeout_ms=1", "timeout_ms=60000"), headers={"Prefer": "respond-async"})
        yield Request("GET", "{location}/result")
        yield Request("DELETE", "{location}")
        yield Request("GET", "{location}/result")
        yield Request("DELETE", "/tensors/late")
    return make


def stored(draw):
    """Results that stay on the device and are operands of the next request."""
    for case in cases_of(draw):
        if case.path == "/attention":
            continue
        yield case.raw(store="r")
        yield Request("GET", "/tensors/r", headers={"Accept": SAFETENSORS})
        yield Request("GET", "/tensors")
        yield Request("POST", "/reduce?x=r&op=max")
        yield Request("POST", "/reduce?x=r&op=max&store=s")
        yield Request("GET", "/tensors/s")
        yield Request("DELETE", "/tensors/s")
    case = product(draw, "bf16", 20, 30, 40)
    yield put("w", case.operands[1])
    for way in (case.raw, case.npy, case.safetensors):
        yield resident_case(case, "b", "w").raw(store="r")
        yield way(store="w")
    yield Request("DELETE", "/tensors/w")
    yield Request("DELETE", "/tensors/r")


def units(kernels, backend):
    del kernels
    yield Unit("pages", "first", pages)
    yield Unit("pages", "models", models)
    for dtype in ("f64", "f32", "f16", "bf16", "f8_e4m3", "i8", "i32"):
        for shape in ((1,), (33, 129), (5, 7, 9), (3, 4, 5, 6)):
            yield Unit("tensors", f"{dtype} {shape}", tensors(dtype, shape))
    for dtype, kind in (("f8_e4m3", "rowcol"), ("f8_e4m3", "block"), ("i8", "rowcol")):
        yield Unit("tensors", f"{dtype} {kind}", tensors_with_scales(dtype, kind))
    yield Unit("jobs", "of each operation", jobs)
    yield Unit("jobs", "late", late(1000 if backend == "cpu" else 4096))
    yield Unit("stored", "", stored)


def last_units():
    yield Unit("pages", "last", pages)
