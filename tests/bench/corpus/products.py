"""Products: every type, kernel and shape, by POST /gemm and as an inference."""

from .cases import Case, Operand, query, ways
from .units import OCTETS, Request, Unit

OUTS = {"f64": ["f64"], "f32": ["f32", "f16", "bf16"], "f16": ["f16", "f32"], "bf16": ["bf16", "f32"],
        "f8_e4m3": ["bf16", "f16", "f32"], "i8": ["i32", "f32"]}
MODELS = {"f64": "gemm_fp64", "f32": "gemm_fp32", "f16": "gemm_fp16", "bf16": "gemm_bf16", "f8_e4m3": "gemm_fp8",
          "i8": "gemm_int8"}
ACTS = ["none", "relu", "gelu", "gelu_tanh", "silu"]
TINY, SMALL = [1, 2, 3, 5, 7, 8], [15, 16, 17, 31, 32, 33, 48]
ODD, MEDIUM = [63, 65, 77, 97, 127, 129, 131], [64, 96, 100, 128, 192, 200, 255, 256, 257]
LARGE = [384, 512, 640, 777]
# m, n and k are each drawn from a list.
SHAPES = {"one": ([1], [1], [1]), "row": ([1], MEDIUM, MEDIUM), "column": (MEDIUM, [1], MEDIUM),
          "outer": (MEDIUM, MEDIUM, [1]), "dot": ([1], [1], LARGE), "tiny": (TINY, TINY, TINY),
          "small": (SMALL, SMALL, SMALL), "64": ([64], [64], [64]), "odd": (ODD, ODD, ODD),
          "tall": ([1000, 1537], SMALL, SMALL), "wide": (SMALL, [1000, 1537], SMALL),
          "deep": (SMALL, SMALL, [2048, 4099]), "medium": (MEDIUM, MEDIUM, MEDIUM)}
LARGE_SHAPES = {"large": (LARGE, LARGE, LARGE)}
# On a GPU: large enough for the kernels of large products, and for sums that are split over k.
HUGE_SHAPES = {"huge": ([1100, 1536, 2048], [1100, 1536, 2048], [1024, 1536]),
               "split": ([64, 100], [64, 128], [8192, 16384])}
# A product that the kernel `naive` computes in two launches on a GPU.
CUT = (3712, 4096, 4096)


def kernel_option(kernel):
    return {} if kernel == "auto" else {"kernel": kernel}


def epilogue(draw, case_out, options):
    """alpha, beta, bias and act, drawn: those that the type of the result allows."""
    whole = case_out == "i32"
    if draw.likely(0.4):
        options["alpha"] = draw.choice([2, -3] if whole else [2, -0.5, 0.125, 0])
    if draw.likely(0.4):
        options["beta"] = draw.choice([1, -2] if whole else [1, 0.5, -1.25])
    if draw.likely(0.4):
        options["bias"] = 1
    if draw.likely(0.5):
        options["act"] = draw.choice(["none", "relu"] if whole else ACTS)


def product(draw, dtype, m, n, k, out=None, batch=1, **options):
    """A product with random operands; `options` are parameters of the query."""
    transa, transb = options.get("transa"), options.get("transb")
    default = options.get("scales") and "bf16" or {"f8_e4m3": "bf16", "i8": "i32"}.get(dtype, dtype)
    result = out or default
    lead = (batch,) if batch > 1 else ()
    shapes = [("a", dtype, lead + ((k, m) if transa else (m, k))), ("b", dtype, lead + ((n, k) if transb else (k, n)))]
    if options.get("bias"):
        shapes.append(("bias", result, (n,)))
    if options.get("beta"):
        shapes.append(("c", result, lead + (m, n)))
    operands = [Operand(name, kind, shape, draw.operands(kind, shape)) for name, kind, shape in shapes]
    if "scales" in options:
        operands += scales_of(draw, options, lead, m, n, k)
    sizes = {"m": m, "n": n, "k": k, "dtype": dtype} | ({"batch": batch} if batch > 1 else {})
    return Case("/gemm", sizes, options | ({"out": out} if out else {}), operands, MODELS[dtype])


def scales_of(draw, options, lead, m, n, k):
    """The operands a_scale and b_scale."""
    if options["scales"] == "rowcol":
        a, b = (m,), (n,)
    else:
        steps, columns = -(-k // 128), -(-n // 128)
        a = (steps, m) if options.get("transa") else (m, steps)
        b = (columns, steps) if options.get("transb") else (steps, columns)
    return [Operand(name, "f32", lead + shape, draw.scales(lead + shape))
            for name, shape in (("a_scale", a), ("b_scale", b))]


def layout(draw, options):
    for name in ("transa", "transb"):
        if draw.likely(0.35):
            options[name] = 1


def dims(draw, shape):
    return [draw.choice(sizes) for sizes in shape]


def by_type(dtype, out, kernel, shape):
    def make(draw):
        options = kernel_option(kernel)
        layout(draw, options)
        epilogue(draw, out, options)
        if draw.likely(0.15):
            options["verify"] = "freivalds"
            options.pop("act", None)
        if dtype == "f32" and draw.likely(0.25):
            options["precision"] = "tf32"
        if dtype == "f8_e4m3" and draw.likely(0.4):
            options["precision"] = "f8"
        m, n, k = dims(draw, shape)
        batch = draw.choice([1, 1, 2, 5]) if m * n * k < 300000 else 1
        yield from ways(draw, product(draw, dtype, m, n, k, out, batch, **options))
    return make


def any_bits(dtype, out, kernel):
    """Operands of random bits, NaNs and infinities among them. The bits of a NaN may depend on the compiler."""
    def make(draw):
        for shape in ("tiny", "row", "small", "odd"):
            case = product(draw, dtype, *dims(draw, SHAPES[shape]), out, **kernel_option(kernel))
            case.operands = [operand._replace(data=draw.randbytes(len(operand.data))) for operand in case.operands]
            yield case.raw()
            yield case.raw(act="gelu" if out != "i32" else "relu")
    return make


def scaled(dtype, kind, out, kernel, shape):
    def make(draw):
        options = {"scales": kind} | kernel_option(kernel)
        layout(draw, options)
        epilogue(draw, out, options)
        if dtype == "f8_e4m3" and draw.likely(0.3):
            options["precision"] = "f8"
        m, n, k = dims(draw, shape)
        batch = draw.choice([1, 1, 3]) if m * n * k < 300000 else 1
        yield from ways(draw, product(draw, dtype, m, n, k, out, batch, **options))
    return make


def cut(draw):
    """A product of two launches, whose result is read by rows and by its sum."""
    case = product(draw, "i8", *CUT)
    yield put("a", case.operands[0])
    yield put("b", case.operands[1])
    yield Request("POST", "/gemm?a=a&b=b&kernel=naive&store=c")
    yield Request("POST", "/reduce?x=c&op=sum&axis=0")
    yield Request("POST", "/reduce?x=c&op=sum&axis=1")
    for name in "abc":
        yield Request("DELETE", f"/tensors/{name}")


def put(name, operand, **parameters):
    return Request("PUT", query(f"/tensors/{name}", {"shape": ",".join(map(str, operand.shape)),
                                                     "dtype": operand.dtype} | parameters),
                   operand.data, {"Content-Type": OCTETS})


def resident_case(case, name, tensor):
    """The case with an operand that is a resident tensor: the body has the others."""
    left = [operand for operand in case.operands if operand.name != name]
    return Case(case.path, case.sizes, case.options | {name: tensor}, left)


def resident(dtype, out, kernel):
    """Rows on a resident B, a resident A, both, batches of one B, and results that are stored."""
    def make(draw):
        options = kernel_option(kernel)
        if draw.likely(0.4):
            options["transb"] = 1
        n, k = draw.choice(MEDIUM + ODD), draw.choice(MEDIUM + ODD)
        case = product(draw, dtype, 1, n, k, out, **options)
        b = case.operands[1]
        yield put("w", b)
        yield Request("GET", "/tensors/w")
        yield Request("GET", "/v2/models/linear.w")
        for m in draw.sample([1, 2, 3, 8, 16, 33, 64, 100, 128, 129, 200], 4):
            more = dict(options)
            epilogue(draw, out, more)
            rows = resident_case(product(draw, dtype, m, n, k, out, **more), "b", "w")
            yield rows.raw()
            yield draw.choice([rows.npy(), rows.safetensors()])
            rows.sizes = {"m": m}
            yield rows.raw()
        stored = product(draw, dtype, 33, n, k, out, **options)
        yield put("x", stored.operands[0])
        for parameters in ({"a": "x", "b": "w"}, {"a": "x", "b": "w", "store": "y"}):
            yield Request("POST", query("/gemm", parameters | stored.options))
        yield Request("GET", "/tensors/y")
        yield Request("GET", "/tensors")
        yield resident_case(product(draw, dtype, 33, n, k, out, **options), "a", "x").raw()
        if not options.get("transa"):
            several = product(draw, dtype, 9, n, k, out, 3, **options)
            several.operands[1] = b
            yield resident_case(several, "b", "w").raw()
        inference = Case("/gemm", {}, stored.options, [stored.operands[0]._replace(name="x")], "linear.w")
        yield inference.infer()
        yield inference.infer(False, dtype not in ("f32", "f64"))
        for name in ("w", "x", "y"):
            yield Request("DELETE", f"/tensors/{name}")
    return make


def units(kernels, backend):
    names = ["auto", *kernels["gemm"]]
    shapes = SHAPES | LARGE_SHAPES | (HUGE_SHAPES if backend == "cuda" else {})
    for dtype, outs in OUTS.items():
        for out in outs:
            for kernel in names:
                for name, shape in shapes.items():
                    if kernel in ("auto", names[1], "wgmma", "cublas") or name in SHAPES:
                        yield Unit("gemm", f"{dtype} {out} {kernel} {name}", by_type(dtype, out, kernel, shape))
                yield Unit("nan", f"{dtype} {out} {kernel}", any_bits(dtype, out, kernel))
                yield Unit("resident", f"{dtype} {out} {kernel}", resident(dtype, out, kernel))
    if backend == "cuda":
        yield Unit("gemm", "cut", cut)
    for dtype, kind in (("f8_e4m3", "rowcol"), ("f8_e4m3", "block"), ("i8", "rowcol")):
        for out in ("bf16", "f16", "f32"):
            for kernel in names:
                for name, shape in SHAPES.items():
                    yield Unit("scales", f"{dtype} {kind} {out} {kernel} {name}",
                               scaled(dtype, kind, out, kernel, shape))
