"""Requests that are wrong: parameters, bodies of every format, headers, paths, and requests that are not HTTP."""

import gzip
import json

from .cases import HEADER, NPY, SAFETENSORS, Case, Operand, query
from .products import put
from .services import cases_of
from .units import OCTETS, Request, Unit

# Deadlines that may pass before the answer, or not.
SHORT = ["1", "2", "9", "10", "00012"]
COMMON = ["kernel", "timeout_ms", "priority"]
PARAMETERS = {
    "/gemm": ["m", "n", "k", "dtype", "out", "precision", "scales", "transa", "transb", "alpha", "beta", "batch",
              "bias", "act", "a", "b", "store", "verify", *COMMON],
    "/attention": ["batch", "heads", "kv_heads", "sq", "skv", "d", "dv", "layout", "dtype", "causal", "window", "scale",
                   "softcap", "lens", "k", "v", "lse", *COMMON],
    "/conv2d": ["batch", "channels", "height", "width", "filters", "filter_h", "filter_w", "groups", "stride",
                "dilation", "padding", "layout", "w_layout", "dtype", "out", "precision", "alpha", "act", "bias", "x",
                "w", "store", *COMMON],
    "/reduce": ["shape", "op", "axis", "keepdims", "dtype", "out", "x", "store", *COMMON],
    "/softmax": ["shape", "dtype", "out", "scale", "log", "lens", "x", "store", *COMMON],
}
VALUES = ["", "0", "1", "2", "-1", "1.5", "x", "none", "auto", "f32", "float32", "F32", "i8", "f8_e4m3", "bf16",
          "block", "freivalds", "1e3", "1e999", "nan", "inf", "+1", "1e%2B1", "0x10", "%201", "1%20", "2147483647",
          "2147483648",
          "18446744073709551616", "999999", "9", "10", "true", "%00", "%zz", "%", "1,2", "1,2,3,4,5", "a" * 129,
          "..", "same", "naive", "nhwc", "-0", "00012"]
HEADERS = [("Content-Type", "application/json"), ("Content-Type", "text/plain"), ("Content-Type", ""),
           ("Content-Type", "application/x-www-form-urlencoded"), ("Content-Type", NPY), ("Content-Type", SAFETENSORS),
           ("Content-Type", "application/octet-stream; charset=x"), ("Accept", "text/html"), ("Accept", "*/*;q=0"),
           ("Accept", "image/png, application/json"), ("Accept", ";;;"), ("Content-Encoding", "br"),
           ("Content-Encoding", "gzip"), ("Content-Encoding", "deflate"), ("Content-Encoding", "gzip, gzip"),
           ("Content-Encoding", "identity"), ("Content-Digest", "sha-256=:AAAA:"), ("Content-Digest", "x"),
           ("Content-Digest", "md5=:AAAA:"), ("Repr-Digest", "sha-512=:!:"), ("Want-Content-Digest", "x="),
           ("Prefer", "wait=x"), ("Prefer", "handling=lenient"), ("Expect", "100-continue"), ("Expect", "x"),
           ("Gemmd-Memory", "a=0"), ("Gemmd-Memory", ""), ("Authorization", "Bearer x"), ("Authorization", "x"),
           (HEADER, "2"), (HEADER, "x"), (HEADER, "99999999"),
           ("traceparent", "00-" + "a" * 32 + "-" + "b" * 16 + "-01"), ("traceparent", "x"), ("If-Match", "*"),
           ("If-None-Match", "*"), ("Range", "bytes=0-1"), ("Cookie", "a=b"),
           ("X-Request-Id", "another"), ("Upgrade", "h2c"), ("Connection", "close"), ("Accept-Encoding", "gzip")]
LEFT_OUT = object()
METHODS = ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "POST", "TRACE", "gemm", "CONNECT"]


def asked(draw, case):
    return draw.choice([case.raw, case.npy, case.safetensors])()


def wrong_parameters(path):
    """Each parameter with each value, in place of the right one or in addition."""
    def make(draw):
        for name in PARAMETERS[path]:
            for value in VALUES:
                if name == "timeout_ms" and value in SHORT:
                    continue
                case = draw.choice([case for case in cases_of(draw) if case.path == path])
                request = draw.choice([case.raw, case.raw, case.npy, case.safetensors])()
                target, _, text = request.path.partition("?")
                pairs = [pair for pair in text.split("&") if pair and not pair.startswith(name + "=")]
                request.path = f"{target}?{'&'.join([*pairs, f'{name}={value}'])}"
                yield request
            for text in ("", name, f"{name}=1&{name}=1", f"{name.upper()}=1", f"{name}x=1", f"{name[:-1]}=1",
                         f"{name}==1", f"&{name}=1&", f"{name};=1"):
                yield Request("POST", f"{path}?{text}", bytes(8), {"Content-Type": OCTETS})
    return make


def missing(draw):
    """Each parameter of a raw body left out, and each size changed by one."""
    for case in cases_of(draw):
        for name, value in case.sizes.items():
            sizes = {key: size for key, size in case.sizes.items() if key != name}
            yield Case(case.path, sizes, case.options, case.operands).raw()
            if isinstance(value, int):
                for changed in (value + 1, value - 1, 2 * value):
                    yield Case(case.path, sizes | {name: changed}, case.options, case.operands).raw()
                    yield Case(case.path, {}, case.options | {name: changed}, case.operands).npy()


def cut(draw, data):
    """Bodies like `data` that are not right: cut, longer, with bytes that differ."""
    yield b""
    for _ in range(6):
        yield data[:draw.randrange(len(data))]
    yield data[:-1]
    yield data + b"\0"
    yield data + data
    for _ in range(12):
        at = draw.randrange(min(len(data), 256))
        yield data[:at] + bytes([draw.randrange(256)]) + data[at + 1:]
    for _ in range(4):
        at = draw.randrange(min(len(data), 256))
        yield data[:at] + draw.randbytes(draw.randrange(1, 9)) + data[at:]


def wrong_bodies(draw):
    for case in cases_of(draw):
        for request in (case.raw(), case.npy(), case.npy(2), case.safetensors(), case.infer(),
                        case.infer(False, False)):
            for body in cut(draw, request.body):
                yield Request("POST", request.path, body, dict(request.headers))
            packed = gzip.compress(request.body, 1, mtime=0)
            for body in cut(draw, packed):
                yield Request("POST", request.path, body, request.headers | {"Content-Encoding": "gzip"})


def wrong_arrays(draw):
    """Arrays that are right by themselves and wrong together: types, ranks, names, order."""
    for case in cases_of(draw):
        for operand in case.operands:
            for changed in (operand._replace(shape=(1, *operand.shape)), operand._replace(shape=operand.shape[1:]),
                            operand._replace(shape=tuple(reversed(operand.shape))), operand._replace(shape=(0, 3)),
                            operand._replace(name="other"), *(operand._replace(dtype=dtype) for dtype in
                                                              ("f64", "f32", "f16", "bf16", "i8", "i32", "f8_e4m3"))):
                operands = [changed if one is operand else one for one in case.operands]
                both = Case(case.path, case.sizes, case.options, operands, case.model)
                for request in (both.npy(), both.safetensors(), both.infer()):
                    yield request
        given = case.operands
        for operands in (given[:-1], given[1:], given[::-1], given + given[-1:]):
            both = Case(case.path, case.sizes, case.options, operands, case.model)
            yield both.npy()
            yield both.safetensors()
            yield both.infer()


def members(document, path=()):
    """The paths of all members and elements of a JSON document."""
    if isinstance(document, dict):
        pairs = list(document.items())
    elif isinstance(document, list):
        pairs = list(enumerate(document[:3]))
    else:
        return
    for name, value in pairs:
        yield path + (name,)
        yield from members(value, path + (name,))


def changed(document, path, value):
    """A copy of the document with another value at a path, or without it if the value is LEFT_OUT."""
    copy = document.copy()
    if len(path) > 1:
        copy[path[0]] = changed(document[path[0]], path[1:], value)
    elif value is LEFT_OUT:
        del copy[path[0]]
    else:
        copy[path[0]] = value
    return copy


def wrong_inferences(number):
    """The JSON of an inference with one member left out or with another value."""
    def make(draw):
        case = cases_of(draw)[number]
        document = json.loads(case.infer(False, False).body) if case.operands[0].dtype == "f32" else None
        request = case.infer()
        length = int(request.headers[HEADER])
        kinds = [(json.loads(request.body[:length]), request.body[length:])] + ([(document, b"")] if document else [])
        for whole, data in kinds:
            for path in members(whole):
                for value in (LEFT_OUT, None, 0, -1, 1.5, "", "x", "FP32", [], {}, True, 1 << 70):
                    if draw.likely(0.4):
                        continue
                    text = json.dumps(changed(whole, path, value)).encode()
                    yield Request("POST", request.path, text + data, {HEADER: str(len(text))} if data else {})
            for more in ({"id": "x"}, {"id": 1}, {"outputs": []}, {"outputs": [{"name": "Z"}]},
                         {"parameters": {"x": 1}}, {"parameters": {"priority": 3, "timeout": 1000000000}},
                         {"parameters": {"sequence_id": 3}},
                         {"parameters": {"kernel": "none"}}, {"parameters": {"kernel": 3}}, {"unknown": {}},
                         {"parameters": {"priority": -1}}, {"parameters": {"timeout": "x"}}):
                text = json.dumps(whole | more).encode()
                yield Request("POST", request.path, text + data, {HEADER: str(len(text))} if data else {})
        for text in (b"", b"{", b"[]", b"null", b"{}", b"{}x", b'{"inputs":1}', b'{"inputs":[]}', b'{"inputs":[1]}',
                     b'{"inputs":[{"name":"A"}]}', b"\xff", b'{"a":"\xff"}', b"[" * 300, b'{"inputs":[],"inputs":[]}'):
            yield Request("POST", request.path, text)
            yield Request("POST", request.path, text, {HEADER: str(len(text))})
    return make


def wrong_headers(draw):
    for case in cases_of(draw):
        for name, value in HEADERS:
            request = asked(draw, case)
            request.headers[name] = value
            yield request
    operand = Operand("t", "f32", (4, 4), draw.operands("f32", (4, 4)))
    for name, value in HEADERS:
        for request in (put("t", operand), Request("GET", "/tensors/t"), Request("GET", "/info")):
            request.headers[name] = value
            yield request
    yield Request("DELETE", "/tensors/t")


def wrong_methods(draw):
    del draw
    for path in ("/", "/gemm", "/attention", "/conv2d", "/reduce", "/softmax", "/tensors", "/tensors/x", "/jobs",
                 "/jobs/x", "/jobs/x/result", "/info", "/metrics", "/livez", "/readyz", "/version", "/openapi.json",
                 "/docs",
                 "/v2", "/v2/models/gemm_fp32", "/v2/models/gemm_fp32/infer", "/v2/repository/index", "/v2/logging",
                 "/v2/systemsharedmemory/status", "/dashboard/history", "/nothing"):
        for method in METHODS:
            if method != "CONNECT":
                yield Request(method, path)
    for path in ("/gem", "/gemm/", "//gemm", "/Gemm", "/tensor/x", "/tensors/", "/tensors/a/b",
                 "/tensors/a%2Fb", "/tensors/%00", "/tensors/" + "a" * 129, "/tensors/a b", "/jobs/", "/v1",
                 "/v2/models/gemm_fp31", "/v2/models/gemm",
                 "/v2/models//infer", "/v2/models/linear./infer", "/v3", "/.", "/../etc", "/gemm%3Fm=1", "*",
                 "/health/", "/metric", "/openapi", "/a" * 200, "/?x=1", "/info?x=1", "/livez?x=1", "/metrics?x=1",
                 "/version?", "/v2?x=1", "/v2/models/gemm_fp32?x=1", "/v2/models/stats?x=1"):
        if " " not in path:
            yield Request("GET", path)
            yield Request("POST", path, b"x")
            yield Request("PUT", path, b"x")


EXPECTING = {"Content-Type": OCTETS, "Expect": "100-continue"}


def too_large(draw):
    """Refused by the headers, before a body is read."""
    del draw
    most = 2147483647
    for parameters in ({"m": most, "n": most, "k": most}, {"m": 100000, "n": 100000, "k": 1},
                       {"m": 1, "n": 1, "k": most}, {"m": 20000, "n": 20000, "k": 20000},
                       {"m": 1, "n": 1, "k": 1, "batch": most},
                       {"m": 50000, "n": 50000, "k": 100, "dtype": "f16"}, {"m": 1 << 16, "n": 1 << 16, "k": 1 << 16}):
        path = query("/gemm", parameters)
        for length in ("8", "2000000000", "99999999999999999999", "18446744073709551615"):
            yield Request("POST", path, b"", EXPECTING | {"Content-Length": length})
    for path in ("/attention?heads=60000&sq=60000&d=256", "/reduce?shape=2147483647,2147483647",
                 "/softmax?shape=60000,60000", "/reduce?shape=1,1,1,1,1,1,1,1,1",
                 "/conv2d?channels=60000&height=60000&width=60&filters=60000&filter_h=3&filter_w=3",
                 "/conv2d?channels=1&height=3&width=3&filters=1&filter_h=4&filter_w=4"):
        yield Request("POST", path, b"", EXPECTING | {"Content-Length": "8"})
    for path in ("/tensors/x?shape=2147483647,2147483647&dtype=f64", "/tensors/x?shape=20000,20000&dtype=f32",
                 "/tensors/x?shape=1,1,1,1,1,1,1,1,1&dtype=f32"):
        yield Request("PUT", path, b"", EXPECTING | {"Content-Length": "8"})


GET = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
HEAD_OF_POST = b"POST /gemm?m=1&n=1&k=1 HTTP/1.1\r\nHost: x\r\nX-Request-Id: r\r\n"


def not_http(draw):
    """Requests whose framing is wrong. The daemon closes the connection after most of the answers."""
    del draw
    for data in (GET.replace(b"1.1", b"1.0"), GET.replace(b"1.1", b"2.0"), GET.replace(b"1.1", b"9.9"),
                 GET.replace(b"Host: x\r\n", b""), GET.replace(b"Host: x", b"Host: x\r\nHost: y"),
                 GET.replace(b"Host: x", b"Host : x"), GET.replace(b"Host: x", b"Host: x\r\n folded"),
                 GET.replace(b"GET ", b"GET  "), GET.replace(b"/livez", b"http://x/livez"),
                 GET.replace(b"Host: x", b"Host: x\r\nno colon"), GET.replace(b"Host: x", b"Host: \0"),
                 GET.replace(b"Host: x", b"Host: x\r\nX: " + b"a" * 60000), GET.replace(b"/livez", b"/" + b"a" * 60000),
                 GET.replace(b"/livez", b"/gemm?" + b"m=1&" * 9000),
                 HEAD_OF_POST + b"Content-Length: 8\r\nContent-Length: 8\r\n\r\n" + bytes(8),
                 HEAD_OF_POST + b"Content-Length: 8\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                 HEAD_OF_POST + b"Content-Length: -1\r\n\r\n", HEAD_OF_POST + b"Content-Length: x\r\n\r\n",
                 HEAD_OF_POST + b"Transfer-Encoding: gzip\r\n\r\n",
                 HEAD_OF_POST + b"Transfer-Encoding: chunked\r\n\r\nz\r\n",
                 HEAD_OF_POST + b"Transfer-Encoding: chunked\r\n\r\n8\r\n" + bytes(8) + b"\r\n0\r\n\r\n",
                 HEAD_OF_POST + b"Transfer-Encoding: chunked\r\n\r\n8;x=y\r\n" + bytes(8) + b"\r\n0\r\nX: y\r\n\r\n",
                 HEAD_OF_POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                 HEAD_OF_POST + b"Content-Length: 8\r\n\r\n" + bytes(8), b"\r\n" + GET, b"\n" + GET):
        yield Request("GET", "/", raw=data, id="r" if b"X-Request-Id: r" in data else None)


def units(kernels, backend):
    del kernels, backend
    for path in PARAMETERS:
        yield Unit("mistakes-parameters", path, wrong_parameters(path))
    yield Unit("mistakes-parameters", "missing", missing)
    for number in range(6):
        yield Unit("mistakes-infer", f"{number}", wrong_inferences(number))
    for turn in range(2):
        yield Unit("mistakes-bodies", f"cut {turn}", wrong_bodies)
        yield Unit("mistakes-bodies", f"arrays {turn}", wrong_arrays)
    yield Unit("mistakes-headers", "", wrong_headers)
    yield Unit("mistakes-paths", "", wrong_methods)
    yield Unit("mistakes-large", "", too_large)
    yield Unit("mistakes-framing", "", not_http)
