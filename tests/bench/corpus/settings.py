"""The options that the daemons run with, and the units for daemons with other options than most."""

import os
from typing import NamedTuple

from . import operations, products, services
from .cases import Case, Operand, query, ways
from .products import TINY, product, put
from .services import cases_of
from .units import OCTETS, Request, Unit

# Enough for the corpus, and for two daemons on one host or one GPU.
MEMORY = ["--no-access-log", "--pinned-bytes", "1GiB", "--device-bytes", "2GiB", "--tensor-bytes", "512M"]
LIMITS = {"max-body": "16K", "max-result": "8K", "max-json": "4K", "max-work": "300000", "max-inflation": "2",
          "queue-requests": "64", "queue-bytes": "32K", "max-jobs": "2", "job-bytes": "16K", "timeout": "20s",
          "max-timeout": "30s", "max-wait": "1s", "tensor-bytes": "64K", "shm-regions": "2", "shm-bytes": "2M",
          "connection-buffer": "8K", "max-batch": "4"}
# Tokens by what they may do. `other` belongs to another tenant.
TOKENS = {"all": "corpus:token-of-all\n", "compute": "corpus:token-of-compute scopes=compute\n",
          "tensors": "corpus:token-of-tensors scopes=tensors\n", "metrics": "watch:token-of-metrics scopes=metrics\n",
          "admin": "watch:token-of-admin scopes=admin\n", "low": "corpus:token-of-low max-priority=2\n",
          "old": "corpus:token-of-old expires=2020-01-01\n", "other": "other:token-of-other\n"}


def bearer(name):
    return {"Authorization": f"Bearer token-of-{name}"}


class Setting(NamedTuple):
    options: list
    headers: dict = {}  # of a request that may ask for everything


def settings(backend, folder):
    """{name: Setting}. The folder is where files that the options name are written."""
    path = os.path.join(folder, "tokens")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
        file.write("".join(TOKENS.values()))
    # One device, which on a GPU is the first one, so that no answer depends on where requests are computed.
    one = [*MEMORY, "--devices", "0"]
    limits = [word for name, value in LIMITS.items() for word in (f"--{name}", value)]
    return {"plain": Setting([*one, "--shm-system"]), "limits": Setting([*one, "--compress-answers", *limits]),
            "tokens": Setting([*one, "--token-file", path, "--metrics-tenant", "watch"], bearer("all")),
            "devices": Setting([*MEMORY, "--devices", "2" if backend == "cpu" else "all"])}


def at_the_limits(draw):
    """Sizes around --max-body, --max-result, --max-json, --max-work and --job-bytes, and too many jobs."""
    for edge in (20, 44, 45, 46, 62, 63, 64, 65, 90):
        for case in (product(draw, "f32", edge, edge, edge), product(draw, "f16", edge, edge, 30, "f32")):
            for request in (case.raw(), case.npy(), case.safetensors(), case.infer(), case.infer(False, False)):
                yield request
            request = case.raw()
            request.headers["Prefer"] = "respond-async"
            yield request
            yield Request("GET", "{location}/result?wait_ms=60000")
            yield Request("DELETE", "{location}")
            operand = case.operands[0]
            yield put("t", operand)
            yield Request("GET", "/tensors/t", headers={"Accept-Encoding": "gzip"})
        yield product(draw, "f32", edge, edge, 3).raw()
        yield product(draw, "f32", 3, 3, edge * edge).raw()
    for count in range(3):
        request = product(draw, "f32", 5, 5, 5).raw()
        request.headers["Prefer"] = "respond-async"
        yield request
    for name in "tuvwxyz":
        operand = Operand("a", "f32", (40, 90), draw.operands("f32", (40, 90)))
        yield put(name, operand, evictable=1 if name < "w" else 0)
    yield Request("GET", "/tensors")
    case = product(draw, "f32", 40, 44, 90)
    yield products.resident_case(case, "a", "z").raw()
    yield products.resident_case(case, "a", "z").npy()
    for case in cases_of(draw):
        yield from ways(draw, case)
    for path in ("/info", "/openapi.json", "/", "/metrics", "/v2/models/stats", "/tensors/x?x=" + "a" * 9000):
        for coding in ("gzip", "deflate", "identity;q=0, gzip;q=0.5", "br", "*"):
            yield Request("GET", path, headers={"Accept-Encoding": coding})
    yield Request("POST", "/gemm?m=1&n=1&k=1&timeout_ms=30001", bytes(8), {"Content-Type": OCTETS})
    for name in "tuvwxyz":
        yield Request("DELETE", f"/tensors/{name}")


def with_token(name):
    """Requests of every kind with one of the tokens, or with none."""
    headers = bearer(name) if name else {}

    def make(draw):
        for case in cases_of(draw):
            for request in (case.raw(), case.infer(), case.raw(priority=3)):
                yield request
        operand = Operand("a", "f32", (4, 4), draw.operands("f32", (4, 4)))
        for request in (put("mine", operand), put(f"of-{name}", operand), Request("GET", "/tensors/mine"),
                        Request("POST", "/gemm?a=mine&b=mine"), Request("POST", "/reduce?x=mine&store=of-all")):
            yield request
        job = product(draw, "f32", 4, 4, 4).raw()
        job.headers["Prefer"] = "respond-async"
        for request in (job, Request("GET", "{location}/result?wait_ms=60000"), Request("GET", "/jobs")):
            yield request
        for path in services.PAGES:
            yield Request("GET", path)
        for path, body in services.POSTS:
            yield Request("POST", path, body)
        yield Request("DELETE", "/tensors/mine")

    def authorized(draw):
        for request in make(draw):
            request.headers = request.headers | headers
            yield request
    return authorized


def divided(draw):
    """Computations that are large enough for two devices."""
    for dtype in ("f32", "bf16", "i8"):
        yield product(draw, dtype, 2560, 400, 400, kernel="tiled").raw()
        yield product(draw, dtype, 200, 180, 160, batch=64, kernel="tiled").raw()
    case = product(draw, "f32", 2560, 400, 400, kernel="tiled")
    yield put("w", case.operands[1])
    for _ in range(4):
        yield products.resident_case(case, "b", "w").raw()
    yield Request("GET", "/tensors")
    x = operations.array(draw, "f32", (3000, 700))
    for path, options in (("/softmax", {}), ("/reduce", {"op": "logsumexp"}), ("/reduce", {"op": "sum", "axis": 0})):
        yield Case(path, operations.sizes_of(x), options, [x]).raw()
    for dtype in ("f32", "f16"):
        yield operations.convolution(draw, dtype, dtype, (32, 60, 60, 32, 3, 3, 1), layout="nhwc").raw()
        yield operations.attention(draw, dtype, ([700], [700], [(4, 2)], [64])).raw()
    for tensor in "abcdef":
        operand = Operand("a", "f32", (33, 129), draw.operands("f32", (33, 129)))
        yield put(tensor, operand, replicate=draw.choice(["one", "all"]))
        yield Request("POST", query("/reduce", {"x": tensor, "store": "r"}))
        yield Request("GET", "/tensors/r")
    for path in ("/tensors", "/info", "/metrics", "/readyz"):
        yield Request("GET", path)
    for tensor in (*"abcdefrw",):
        yield Request("DELETE", f"/tensors/{tensor}")


def small(dtype):
    def make(draw):
        for _ in range(4):
            yield from ways(draw, product(draw, dtype, *(draw.choice(TINY) for _ in range(3))))
    return make


def units(kernels, backend):
    del kernels, backend
    yield Unit("limits", "sizes", at_the_limits, "limits")
    yield Unit("limits", "pages", services.pages, "limits")
    yield Unit("limits", "jobs", services.jobs, "limits")
    for dtype in products.OUTS:
        yield Unit("limits", dtype, small(dtype), "limits")
    for name in ("all", *(token for token in TOKENS if token != "all"), "nobody", ""):
        yield Unit("tokens", name or "none", with_token(name), "tokens")
    for turn in range(3):
        yield Unit("devices", f"{turn}", divided, "devices")
