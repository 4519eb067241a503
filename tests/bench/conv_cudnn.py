"""Convolutions next to cuDNN, as PyTorch offers it, in one process.

    python3 tests/bench/conv_cudnn.py --library build-cuda/lib/libgemmd_bench_conv.so \
        --dtype bf16,f16 --out tests/bench/results/conv-DATE-GPU.md

cuDNN has channels-last tensors and its benchmark mode on, in which it tries its algorithms and keeps
the fastest. Every participant's launches over rotating operands are recorded in a CUDA graph, so
that no one's host code is in the figures; then the graphs are replayed in turns, and a participant's
figure is the median over the rounds. Needs PyTorch with CUDA; nothing else.
"""

import argparse
import ctypes
import math
import sys
import time

import beside_cudnn
import torch

ROWS = ("layers", "pointwise layers", "depthwise layers")


class Own:
    """Our kernels, through conv_library.c."""

    def __init__(self, path, stream):
        self.library = ctypes.CDLL(path)
        self.library.gemmd_bench_conv_open.restype = ctypes.c_void_p
        self.library.gemmd_bench_conv_revision.restype = ctypes.c_char_p
        self.library.gemmd_bench_conv_open.argtypes = [ctypes.c_void_p]
        self.library.gemmd_bench_conv.argtypes = [
            ctypes.c_void_p,
            ctypes.c_char_p,
            ctypes.c_int,
            ctypes.c_int,
        ] + [ctypes.c_void_p] * 3
        self.handle = self.library.gemmd_bench_conv_open(stream.cuda_stream)
        if not self.handle:
            sys.exit("conv_cudnn.py: no memory or no GPU for our kernels")
        self.revision = self.library.gemmd_bench_conv_revision().decode()

    def layers(self):
        name, shape = ctypes.create_string_buffer(48), (ctypes.c_uint64 * 9)()
        for index in range(self.library.gemmd_bench_conv_layers()):
            self.library.gemmd_bench_conv_layer(index, name, shape)
            yield index, name.value.decode(), list(shape)

    def kernels(self, bf16, index):
        """Names; the first is the one that is chosen."""
        names, name = [], ctypes.create_string_buffer(64)
        while self.library.gemmd_bench_conv_kernel(bf16, index, len(names), name) == 0:
            names.append(name.value.decode())
        return names

    def enqueue(self, kernel, bf16, index, x, w, y):
        code = self.library.gemmd_bench_conv(
            self.handle, kernel.encode(), bf16, index, x.data_ptr(), w.data_ptr(), y.data_ptr()
        )
        if code != 0:
            raise RuntimeError(f"{kernel}: error {code}")


def parts(text):
    return text.split(",")


def contains(name, texts):
    return any(text in name for text in texts)


def out_side(shape):
    _, _, _, side, _, taps, _, stride, padding = shape
    return (side + 2 * padding - taps) // stride + 1


def flops(shape):
    _, batch, channels, _, filters, taps, groups, _, _ = shape
    return 2.0 * batch * filters * out_side(shape) ** 2 * (channels // groups) * taps * taps


def operands(shape, dtype):
    """Sets of X and Y and one W, all with channels last."""
    _, batch, channels, side, filters, taps, groups, _, _ = shape
    out = out_side(shape)
    x_bytes, y_bytes = 2 * batch * channels * side**2, 2 * batch * filters * out**2
    sets = max(2, min(16, math.ceil(2 * beside_cudnn.L2_BYTES / (x_bytes + y_bytes))))

    def uniform(*size):
        values = (torch.rand(size, device="cuda") * 2 - 1).to(dtype)
        return values.contiguous(memory_format=torch.channels_last)

    x = [uniform(batch, channels, side, side) for _ in range(sets)]
    w = uniform(filters, channels // groups, taps, taps)
    y = [uniform(batch, filters, out, out) for _ in range(sets)]
    return x, w, y, sets


def measure(own, index, shape, bf16, others, stream):
    """{name: median ms}, the name of what is chosen, and how far its result is from cuDNN's."""
    x, w, y, sets = operands(shape, torch.bfloat16 if bf16 else torch.float16)
    groups, stride, padding = shape[6:9]
    names = own.kernels(bf16, index)
    names = names[:1] + [name for name in names[1:] if contains(name, others)]
    calls, difference = {}, float("nan")
    for name in names:
        calls[name] = lambda i, name=name: own.enqueue(name, bf16, index, x[i], w, y[i])

    def library(i):
        return torch.nn.functional.conv2d(x[i], w, None, stride, padding, 1, groups)

    calls["cuDNN"] = library
    participants = beside_cudnn.recorded(calls, sets, stream)
    try:
        y[0].fill_(float("nan"))
        calls[names[0]](0)
        theirs = library(0).float()
        scale = theirs.square().mean().sqrt().item()
        difference = (y[0].float() - theirs).abs().max().item() / scale
    except RuntimeError:
        pass
    return beside_cudnn.in_turns(participants, stream), names[0], difference


def heading(out, dtype, revision):
    out.append(
        f"## Convolutions next to cuDNN, {dtype}, {beside_cudnn.now()}\n\n"
        f"{beside_cudnn.machine(revision)}. Channels last, operands uniform in [-1, 1], TFLOP/s.\n\n"
        "| layer | chosen | ms | own | best own | cuDNN | own / cuDNN | best / cuDNN | largest "
        "difference / root mean square |\n|---|---|---|---|---|---|---|---|---|"
    )


def line_of(out, name, shape, times, chosen, difference):
    """Appends a layer's line; own / cuDNN, or None."""
    ours = {n: ms for n, ms in times.items() if n != "cuDNN"}
    best = min(ours, key=ours.get) if ours else "none"
    theirs, mine = times.get("cuDNN", math.nan), ours.get(chosen, math.nan)
    fastest, work = ours.get(best, math.nan), flops(shape) / 1e9
    out.append(
        f"| {name} | {chosen} | {mine:.4f} | {work / mine:.1f} | {best} {work / fastest:.1f} | "
        f"{work / theirs:.1f} | {theirs / mine:.3f} | {theirs / fastest:.3f} | {difference:.1e} |"
    )
    for kernel, ms in ours.items():
        print(f"    {kernel}: {ms:.4f} ms, {work / ms:.1f}", file=sys.stderr)
    return theirs / mine if theirs / mine == theirs / mine else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--dtype", default="bf16,f16")
    parser.add_argument(
        "--layers", type=parts, default=[""], help="only layers with one of these in their name"
    )
    parser.add_argument(
        "--every",
        type=parts,
        nargs="?",
        const=[""],
        default=[],
        help="besides the chosen kernel every other, or those with one of these in their name",
    )
    parser.add_argument("--seconds", type=float, default=270)
    parser.add_argument("--out")
    arguments = parser.parse_args()
    end, out = time.monotonic() + arguments.seconds, beside_cudnn.Table(arguments.out)
    stream = torch.cuda.Stream()
    torch.backends.cudnn.benchmark = True
    with torch.cuda.stream(stream), torch.no_grad():
        own = Own(arguments.library, stream)
        beside_cudnn.warm_up(stream)
        for dtype in arguments.dtype.split(","):
            heading(out, dtype, own.revision)
            ratios = [[], [], []]
            for index, name, shape in own.layers():
                if not contains(name, arguments.layers) or time.monotonic() > end:
                    continue
                measured = measure(own, index, shape, dtype == "bf16", arguments.every, stream)
                ratio = line_of(out, name, shape, *measured)
                if ratio is not None:
                    ratios[shape[0]].append(ratio)
                torch.cuda.empty_cache()
            for row, values in zip(ROWS, ratios):
                if values:
                    mean = math.exp(sum(map(math.log, values)) / len(values))
                    out.append(
                        f"\nGeometric mean of own / cuDNN: {mean:.3f} over {len(values)} {row}, "
                        f"lowest {min(values):.3f}.\n"
                    )


if __name__ == "__main__":
    main()
