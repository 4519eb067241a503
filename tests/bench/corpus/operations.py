"""Attentions, convolutions, reductions and softmaxes: their types, kernels, shapes and parameters."""

import numpy as np

from .cases import Case, Operand, query, ways
from .products import ACTS, kernel_option, put, resident_case
from .units import Request, Unit

DATATYPES = {"f64": "fp64", "f32": "fp32", "f16": "fp16", "bf16": "bf16", "i8": "int8", "i32": "int32"}


def model(operation, dtype):
    return f"{operation}_{DATATYPES[dtype]}" if dtype in DATATYPES else ""


def arrays(draw, dtype, *named):
    return [Operand(name, dtype, shape, draw.operands(dtype, shape)) for name, shape in named]


def lengths(draw, name, shape, largest):
    """A vector of lengths; some are 0, and some are the largest."""
    counts = draw.numbers.integers(0, largest, int(np.prod(shape)), endpoint=True).astype("<i4")
    counts[draw.randrange(counts.size)] = draw.choice([0, largest])
    return Operand(name, "i32", tuple(shape), counts.tobytes())


# Queries, keys, heads of Q and of K and V, head sizes.
ATTENTIONS = {"one": ([1], [1], [(1, 1)], [1, 8, 64]), "decode": ([1, 2], [77, 300, 513], [(8, 2), (4, 4)], [64, 128]),
              "short": ([5, 16, 33], [17, 64, 80], [(3, 1), (2, 2)], [8, 20, 32]),
              "odd": ([95, 97, 129], [96, 127, 130], [(6, 3), (4, 1)], [40, 64, 72]),
              "wide": ([33, 64], [65, 128], [(2, 1)], [160, 192, 256]),
              "long": ([130, 200], [384, 513], [(2, 1)], [64, 128])}


def attention(draw, dtype, shape, **options):
    sq, skv, heads, d = (draw.choice(values) for values in shape)
    heads, kv_heads = heads
    if draw.likely(0.25):
        skv = sq
    batch = draw.choice([1, 1, 2, 3])
    dv = d if draw.likely(0.7) else draw.choice([8, 32, 64])
    masks = {"causal": 1, "window": draw.choice([0, 3, 40]), "softcap": draw.choice([0.5, 20]),
             "scale": draw.choice([0.125, -0.5, 1]), "layout": "bshd"}
    options |= {name: value for name, value in masks.items() if draw.likely(0.3)}
    bshd = options.get("layout") == "bshd"
    named = [("q", heads, sq, d), ("k", kv_heads, skv, d), ("v", kv_heads, skv, dv)]
    operands = arrays(draw, dtype, *((name, (batch, count, h, size) if bshd else (batch, h, count, size))
                                     for name, h, count, size in named))
    if draw.likely(0.3):
        options["lens"] = 1
        operands = [lengths(draw, "lens_q", (batch,), sq), lengths(draw, "lens_kv", (batch,), skv), *operands]
    sizes = {"batch": batch, "heads": heads, "kv_heads": kv_heads, "sq": sq, "skv": skv, "d": d, "dv": dv,
             "dtype": dtype}
    return Case("/attention", sizes, options, operands, model("attention", dtype) if dtype != "f8_e4m3" else "")


def attentions(dtype, kernel, shape):
    def make(draw):
        case = attention(draw, dtype, shape, **kernel_option(kernel))
        yield from ways(draw, case)
        yield case.safetensors(lse=1)
        case.options["lse"] = 1
        yield case.raw()
        if case.model:
            yield case.infer()
    return make


def any_bits(draw):
    """Operands of random bits, NaNs and infinities among them. The bits of a NaN may depend on the compiler."""
    for dtype in ("f32", "f16", "bf16"):
        x = Operand("x", dtype, (9, 300), draw.randbytes(9 * 300 * (4 if dtype == "f32" else 2)))
        cases = [Case("/reduce", sizes_of(x), {"op": op}, [x]) for op in REDUCE_OPS]
        cases += [Case("/softmax", sizes_of(x), {"log": log}, [x]) for log in (0, 1)]
        cases += [attention(draw, dtype, ATTENTIONS["short"]), convolution(draw, dtype, dtype, CONVOLUTIONS["three"])]
        for case in cases:
            case.operands = [operand if operand.name.startswith("lens") else
                             operand._replace(data=draw.randbytes(len(operand.data))) for operand in case.operands]
            yield case.raw()


def resident_attentions(dtype, kernel):
    def make(draw):
        case = attention(draw, dtype, ATTENTIONS[draw.choice(["decode", "odd"])], **kernel_option(kernel))
        k, v = case.operands[-2:]
        yield put("keys", k)
        yield put("values", v)
        with_k = resident_case(case, "k", "keys")
        for asked in (with_k, resident_case(with_k, "v", "values")):
            yield asked.raw()
            yield asked.npy()
            yield asked.safetensors(lse=1)
            if case.model:
                asked.model = case.model
                yield asked.infer()
        for name in ("keys", "values"):
            yield Request("DELETE", f"/tensors/{name}")
    return make


# channels, height, width, filters, filter_h, filter_w, groups
CONVOLUTIONS = {"one": (1, 1, 1, 1, 1, 1, 1), "pointwise": (32, 9, 11, 16, 1, 1, 1), "three": (16, 14, 14, 24, 3, 3, 1),
                "odd": (5, 13, 7, 7, 3, 5, 1), "first": (3, 32, 32, 16, 7, 7, 1), "groups": (12, 10, 12, 18, 3, 3, 6),
                "depthwise": (24, 15, 17, 24, 3, 3, 24), "multiplied": (8, 9, 9, 16, 5, 5, 8),
                "strip": (1, 1, 300, 8, 1, 9, 1), "wide": (48, 20, 20, 40, 3, 3, 1)}
CONV_OUTS = {"f32": ["f32"], "f16": ["f16"], "bf16": ["bf16"], "i8": ["i32", "f32"]}


def convolution(draw, dtype, out, shape, **options):
    channels, height, width, filters, filter_h, filter_w, groups = shape
    batch = draw.choice([1, 1, 2, 4])
    if groups > 1:
        options["groups"] = groups
    drawn = {"stride": draw.choice(["2", "1,2", "3"]), "dilation": draw.choice(["2", "2,1"]),
             "padding": draw.choice(["same", "1", "1,2", "0,1,2,3"]), "layout": "nhwc", "w_layout": "krsc",
             "act": draw.choice(["relu"] if out == "i32" else ACTS), "alpha": draw.choice([2, -3]), "bias": 1}
    options |= {name: value for name, value in drawn.items() if draw.likely(0.35)}
    if dtype == "f32" and draw.likely(0.2):
        options["precision"] = "tf32"
    x = (batch, height, width, channels) if options.get("layout") else (batch, channels, height, width)
    per = channels // groups
    w = (filters, filter_h, filter_w, per) if options.get("w_layout") else (filters, per, filter_h, filter_w)
    operands = arrays(draw, dtype, ("x", x), ("w", w))
    if options.get("bias"):
        operands += arrays(draw, out, ("bias", (filters,)))
    sizes = {"batch": batch, "channels": channels, "height": height, "width": width, "filters": filters,
             "filter_h": filter_h, "filter_w": filter_w, "dtype": dtype}
    return Case("/conv2d", sizes, options | ({"out": out} if out != dtype else {}), operands, model("conv2d", dtype))


def convolutions(dtype, out, kernel, shape):
    def make(draw):
        yield from ways(draw, convolution(draw, dtype, out, shape, **kernel_option(kernel)))
        yield convolution(draw, dtype, out, shape, **kernel_option(kernel)).raw()
    return make


def resident_convolutions(dtype, out, kernel):
    def make(draw):
        case = convolution(draw, dtype, out, CONVOLUTIONS[draw.choice(["three", "groups", "wide"])],
                           **kernel_option(kernel))
        x, w = case.operands[:2]
        yield put("image", x, contiguous=1)
        yield put("filters", w)
        yield Request("GET", "/v2/models/conv.filters")
        for asked in (resident_case(case, "x", "image"), resident_case(case, "w", "filters"),
                      resident_case(resident_case(case, "x", "image"), "w", "filters")):
            yield asked.raw()
            yield asked.npy()
            asked.model = case.model
            yield asked.infer()
        both = resident_case(resident_case(case, "x", "image"), "w", "filters")
        yield both.raw(store="y")
        yield Request("GET", "/tensors/y")
        left = [operand for operand in case.operands if operand.name != "w"]
        yield Case("", {}, case.options, left, "conv.filters").infer()
        for name in ("image", "filters", "y"):
            yield Request("DELETE", f"/tensors/{name}")
    return make


ARRAYS = {"one": (1,), "vector": (1000,), "long": (70001,), "rows": (33, 129), "columns": (700, 16), "square": (64, 64),
          "middle": (5, 37, 21), "many": (2, 3, 4, 5, 6, 7), "eight": (1, 2, 1, 3, 2, 1, 2, 5), "wide": (3, 9000)}
REDUCE_OPS = ["sum", "mean", "max", "min", "norm2", "logsumexp", "argmax"]


def array(draw, dtype, shape):
    return Operand("x", dtype, shape, draw.operands(dtype, shape))


def sizes_of(operand):
    return {"shape": ",".join(map(str, operand.shape)), "dtype": operand.dtype}


def reduce_outs(dtype, op):
    """The types that a result can have, the default first; none if the operation does not take the type."""
    if op == "argmax":
        return ["i32"]
    if dtype in ("i8", "i32"):
        return {"sum": ["i32", "f64"], "mean": ["f64", "f32"], "max": [dtype], "min": [dtype]}.get(op)
    return [dtype] if dtype in ("f64", "f32") or op in ("max", "min") else [dtype, "f32"]


def reductions(dtype, op, kernel):
    outs = reduce_outs(dtype, op)

    def make(draw):
        for name, shape in ARRAYS.items():
            options = {"op": op} | kernel_option(kernel)
            axis = draw.randrange(-len(shape), len(shape))
            if draw.likely(0.7):
                options["axis"] = axis
            if draw.likely(0.3):
                options["keepdims"] = 1
            if draw.likely(0.3):
                options["out"] = draw.choice(outs)
            x = array(draw, dtype, shape)
            case = Case("/reduce", sizes_of(x), options, [x], model("reduce", dtype))
            yield from ways(draw, case)
            if name == "middle":
                yield from kept(case)
    return make


def softmaxes(dtype, kernel, shape):
    def make(draw):
        options = kernel_option(kernel)
        drawn = {"scale": draw.choice([0.125, -2, 0]), "log": 1, "out": dtype if dtype == "f64" else "f32"}
        options |= {name: value for name, value in drawn.items() if draw.likely(0.35)}
        x = array(draw, dtype, shape)
        operands = [x]
        if len(shape) > 1 and draw.likely(0.5):
            options["lens"] = draw.randrange(1, len(shape))
            operands = [lengths(draw, "lens", shape[:options["lens"]], shape[-1]), x]
        case = Case("/softmax", sizes_of(x), options, operands, model("softmax", dtype) if dtype != "i8" else "")
        yield from ways(draw, case)
        if "lens" not in options:
            yield from kept(case)
    return make


def kept(case):
    """The case with a resident X, and with a result that is stored."""
    yield put("x", case.operands[0])
    asked = resident_case(case, "x", "x")
    yield asked.raw()
    asked.model = case.model
    yield asked.infer()
    yield Request("POST", query(case.path, asked.options | {"store": "y"}))
    yield Request("GET", "/tensors/y")
    yield Request("DELETE", "/tensors/x")
    yield Request("DELETE", "/tensors/y")


def units(kernels, backend):
    del backend
    for turn in range(4):
        yield Unit("nan", f"operations {turn}", any_bits)
    for dtype in ("f32", "f16", "bf16", "f8_e4m3"):
        for kernel in ("auto", *kernels["attention"]):
            for name, shape in ATTENTIONS.items():
                for turn in range(2):
                    yield Unit("attention", f"{dtype} {kernel} {name} {turn}", attentions(dtype, kernel, shape))
            for turn in range(2):
                yield Unit("attention-resident", f"{dtype} {kernel} {turn}", resident_attentions(dtype, kernel))
    for dtype, outs in CONV_OUTS.items():
        for out in outs:
            for kernel in ("auto", *kernels["conv2d"]):
                for name, shape in CONVOLUTIONS.items():
                    for turn in range(2):
                        yield Unit("conv2d", f"{dtype} {out} {kernel} {name} {turn}",
                                   convolutions(dtype, out, kernel, shape))
                yield Unit("conv2d-resident", f"{dtype} {out} {kernel}", resident_convolutions(dtype, out, kernel))
    for dtype in ("f64", "f32", "f16", "bf16", "i8", "i32"):
        for op in REDUCE_OPS:
            for kernel in ("auto", *kernels["reduce"]) if reduce_outs(dtype, op) else ():
                yield Unit("reduce", f"{dtype} {op} {kernel}", reductions(dtype, op, kernel))
    for dtype in ("f64", "f32", "f16", "bf16"):
        for kernel in ("auto", *kernels["softmax"]):
            for name, shape in ARRAYS.items():
                for turn in range(2):
                    yield Unit("softmax", f"{dtype} {kernel} {name} {turn}", softmaxes(dtype, kernel, shape))
