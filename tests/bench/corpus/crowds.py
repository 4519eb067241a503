"""Requests that are sent at the same time, behind work that keeps the device busy, so that they share launches."""

from . import operations
from .cases import Case, Operand, query
from .products import MEDIUM, SMALL, TINY, epilogue, product, put, resident_case
from .units import Request, Unit

# Rows of a square matrix whose product with itself by the kernel `naive` keeps the device busy for some
# milliseconds, and how many such products keep all its streams busy.
BUSY = {"cpu": (200, 1), "cuda": (1280, 8)}
CROWD = 48


def crowd(backend, requests, before=(), after=()):
    """A unit's `make` whose requests are sent together. `requests`, `before` and `after` take a Draw."""
    edge, count = BUSY[backend]

    def make(draw):
        yield put("busy", Operand("busy", "f32", (edge, edge), draw.operands("f32", (edge, edge))))
        for request in before:
            yield request(draw)
        blockers = [Request("POST", query("/gemm", {"a": "busy", "b": "busy", "kernel": "naive", "store": f"busy{i}"}))
                    for i in range(count)]
        yield blockers + list(requests(draw))
        for request in after:
            yield request(draw)
        for i in range(count):
            yield Request("DELETE", f"/tensors/busy{i}")
        yield Request("DELETE", "/tensors/busy")
    return make


def urgent(draw, request):
    """The request with a priority and a deadline, or without."""
    if draw.likely(0.3):
        request.path += f"&priority={draw.randrange(10)}"
    if draw.likely(0.2):
        request.path += f"&timeout_ms={draw.choice([200000, 300000, 500000])}"
    return request


def small_products(dtypes):
    def requests(draw):
        for _ in range(CROWD):
            dtype = draw.choice(dtypes)
            options = {name: 1 for name in ("transa", "transb") if draw.likely(0.3)}
            epilogue(draw, "i32" if dtype == "i8" else dtype, options)
            m, n, k = (draw.choice(TINY + SMALL + [64]) for _ in range(3))
            yield urgent(draw, product(draw, dtype, m, n, k, batch=draw.choice([1, 1, 2]), **options).raw())
    return requests


def stack(backend, dtype, transb, kernel):
    """Rows on one resident B, of which some are verified and some have another epilogue."""
    def make(draw):
        n, k = draw.choice(MEDIUM), draw.choice(MEDIUM)
        shape = (n, k) if transb else (k, n)
        options = operations.kernel_option(kernel) | ({"transb": 1} if transb else {})

        def rows(draw):
            for _ in range(CROWD):
                more = dict(options)
                if draw.likely(0.2):
                    more["alpha"] = 2
                if draw.likely(0.15):
                    more["verify"] = "freivalds"
                if draw.likely(0.15):
                    more["beta"] = 1
                case = product(draw, dtype, draw.choice([1, 1, 1, 2, 5, 16, 33, 128]), n, k, **more)
                yield urgent(draw, resident_case(case, "b", "stacked").raw())

        def upload(draw):
            return put("stacked", Operand("b", dtype, shape, draw.operands(dtype, shape)))

        yield from crowd(backend, rows, [upload], [lambda _: Request("DELETE", "/tensors/stacked")])(draw)
    return make


def same_masks(dtype, masks, d, kernel):
    def requests(draw):
        for _ in range(CROWD):
            heads = draw.choice([1, 2, 4])
            sq, skv = draw.choice([1, 3, 17, 64, 97]), draw.choice([1, 20, 64, 129, 200])
            batch = draw.choice([1, 1, 2])
            shapes = [("q", (batch, heads, sq, d)), ("k", (batch, heads, skv, d)), ("v", (batch, heads, skv, d))]
            sizes = {"batch": batch, "heads": heads, "sq": sq, "skv": skv, "d": d, "dtype": dtype}
            case = Case("/attention", sizes, masks | operations.kernel_option(kernel),
                        operations.arrays(draw, dtype, *shapes))
            yield urgent(draw, case.raw())
    return requests


def small_convolutions(dtype, out):
    def requests(draw):
        for _ in range(CROWD):
            shape = operations.CONVOLUTIONS[draw.choice(["one", "pointwise", "three", "odd", "groups", "depthwise"])]
            yield urgent(draw, operations.convolution(draw, dtype, out, shape).raw())
    return requests


def small_arrays(draw):
    """Reductions and softmaxes of every type."""
    for _ in range(CROWD):
        dtype, shape = draw.choice(["f64", "f32", "f16", "bf16"]), draw.choice([(1,), (100,), (33, 129), (5, 37, 21)])
        x = operations.array(draw, dtype, shape)
        path, options = draw.choice([("/reduce", {"op": draw.choice(operations.REDUCE_OPS)}),
                                     ("/softmax", {"log": draw.choice([0, 1])})])
        yield urgent(draw, Case(path, operations.sizes_of(x), options, [x]).raw())


def everything(draw):
    """Requests of all operations, in every format."""
    shape = operations.ATTENTIONS["short"]
    for _ in range(CROWD // 4):
        dtype = draw.choice(["f32", "f16", "bf16"])
        x = operations.array(draw, dtype, (33, 129))
        cases = [product(draw, dtype, *(draw.choice(SMALL + MEDIUM) for _ in range(3))),
                 operations.attention(draw, dtype, shape),
                 operations.convolution(draw, dtype, dtype, operations.CONVOLUTIONS["three"]),
                 Case("/softmax", operations.sizes_of(x), {"scale": 0.5}, [x], operations.model("softmax", dtype))]
        for case in cases:
            yield draw.choice([case.raw, case.npy, case.safetensors, case.infer])()


def units(kernels, backend):
    for turn in range(2):
        for dtypes in (["f32"], ["f16", "bf16"], ["f64", "i8"], ["f32", "f16", "bf16", "f64", "i8", "f8_e4m3"]):
            yield Unit("crowd-gemm", f"{' '.join(dtypes)} {turn}", crowd(backend, small_products(dtypes)))
        for dtype, out in (("f32", "f32"), ("f16", "f16"), ("bf16", "bf16"), ("i8", "i32")):
            yield Unit("crowd-conv2d", f"{dtype} {turn}", crowd(backend, small_convolutions(dtype, out)))
        yield Unit("crowd-arrays", f"{turn}", crowd(backend, small_arrays))
        yield Unit("crowd-everything", f"{turn}", crowd(backend, everything))
    for dtype in ("f32", "f16", "bf16", "f8_e4m3", "i8", "f64"):
        for transb in (False, True):
            for kernel in ("auto", *kernels["gemm"]):
                yield Unit("crowd-stack", f"{dtype} {transb} {kernel}", stack(backend, dtype, transb, kernel))
    for dtype in ("f32", "f16", "bf16"):
        for masks in ({}, {"causal": 1}, {"causal": 1, "window": 40}, {"softcap": 20}):
            for kernel in ("auto", *kernels["attention"]):
                yield Unit("crowd-attention", f"{dtype} {masks} {kernel}",
                           crowd(backend, same_masks(dtype, masks, 64, kernel)))
