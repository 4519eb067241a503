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
import datetime
import math
import statistics
import subprocess
import sys
import time

import torch

ROUNDS = 9
BLOCK_MS = 6.0
L2_BYTES = 50 << 20
ROWS = ("layers", "pointwise layers", "depthwise layers")


class Table:
    """Lines that are printed, and in a file as soon as they are known."""

    def __init__(self, path):
        self.path = path
        if path:
            open(path, "w", encoding="utf-8").close()

    def append(self, line):
        print(line, flush=True)
        if self.path:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(line + "\n")


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


def out_side(shape):
    _, _, _, side, _, taps, _, stride, padding = shape
    return (side + 2 * padding - taps) // stride + 1


def flops(shape):
    _, batch, channels, _, filters, taps, groups, _, _ = shape
    return 2.0 * batch * filters * out_side(shape) ** 2 * (channels // groups) * taps * taps


class Participant:
    """Something that computes set `i`, and its time."""

    def __init__(self, name, call, sets):
        self.name, self.call, self.sets = name, call, sets
        self.times, self.graph, self.launches = [], None, 1

    def record(self, stream):
        """Runs it once, then records as many launches as last for BLOCK_MS."""
        for i in range(self.sets):
            self.call(i)
        stream.synchronize()
        each = max(self.direct(stream, 3), 1e-3)
        self.launches = max(1, min(400, round(BLOCK_MS / each)))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for i in range(self.launches):
                self.call(i % self.sets)
        self.graph = graph
        self.replay(stream)

    def direct(self, stream, count):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record(stream)
        for i in range(count):
            self.call(i % self.sets)
        end.record(stream)
        end.synchronize()
        return start.elapsed_time(end) / count

    def replay(self, stream):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record(stream)
        self.graph.replay()
        end.record(stream)
        end.synchronize()
        return start.elapsed_time(end) / self.launches

    def median(self):
        return statistics.median(self.times)


def operands(shape, dtype):
    """Sets of X and Y and one W, all with channels last."""
    _, batch, channels, side, filters, taps, groups, _, _ = shape
    out = out_side(shape)
    x_bytes, y_bytes = 2 * batch * channels * side**2, 2 * batch * filters * out**2
    sets = max(2, min(16, math.ceil(2 * L2_BYTES / (x_bytes + y_bytes))))

    def uniform(*size):
        values = (torch.rand(size, device="cuda") * 2 - 1).to(dtype)
        return values.contiguous(memory_format=torch.channels_last)

    x = [uniform(batch, channels, side, side) for _ in range(sets)]
    w = uniform(filters, channels // groups, taps, taps)
    y = [uniform(batch, filters, out, out) for _ in range(sets)]
    return x, w, y, sets


def measure(own, index, shape, bf16, every, stream):
    """{name: median ms}, the name of what is chosen, and how far its result is from cuDNN's."""
    x, w, y, sets = operands(shape, torch.bfloat16 if bf16 else torch.float16)
    groups, stride, padding = shape[6:9]
    names = own.kernels(bf16, index)
    names = names if every else names[:1]
    participants, calls, difference = [], {}, float("nan")
    for name in names:
        calls[name] = lambda i, name=name: own.enqueue(name, bf16, index, x[i], w, y[i])

    def library(i):
        return torch.nn.functional.conv2d(x[i], w, None, stride, padding, 1, groups)

    calls["cuDNN"] = library
    for name, call in calls.items():
        participant = Participant(name, call, sets)
        try:
            participant.record(stream)
        except RuntimeError as error:
            print(f"{name} left out: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        participants.append(participant)
    try:
        y[0].fill_(float("nan"))
        calls[names[0]](0)
        theirs = library(0).float()
        scale = theirs.square().mean().sqrt().item()
        difference = (y[0].float() - theirs).abs().max().item() / scale
    except RuntimeError:
        pass
    for _ in range(ROUNDS):
        for participant in participants:
            participant.times.append(participant.replay(stream))
    return {p.name: p.median() for p in participants}, names[0], difference


def output_of(*command):
    """What a program that may not be there prints."""
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return run.stdout.strip() or "unknown"


def heading(out, dtype, revision):
    smi = output_of(
        "nvidia-smi", "--query-gpu=driver_version,clocks.sm,power.draw", "--format=csv,noheader"
    )
    now = datetime.datetime.now(datetime.timezone.utc)
    out.append(
        f"## Convolutions next to cuDNN, {dtype}, {now:%Y-%m-%d %H:%M} UTC\n\n"
        f"{torch.cuda.get_device_name()}; gemmd {revision}; PyTorch "
        f"{torch.__version__}, cuDNN {torch.backends.cudnn.version()}; driver, clock and watts: "
        f"{smi}. Channels last, operands uniform in [-1, 1], TFLOP/s.\n\n"
        "| layer | chosen | ms | own | best own | cuDNN | own / cuDNN | best / cuDNN | largest "
        "difference / root mean square |\n|---|---|---|---|---|---|---|---|---|"
    )


def warm_up(stream):
    """Three seconds of work, so that the clock has settled."""
    a = torch.rand(8192, 8192, device="cuda").to(torch.bfloat16)
    end = time.monotonic() + 3
    while time.monotonic() < end:
        for _ in range(20):
            a @ a
        stream.synchronize()


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
    parser.add_argument("--layers", default="", help="only layers with this in their name")
    parser.add_argument("--every", action="store_true", help="every kernel, not only the chosen")
    parser.add_argument("--seconds", type=float, default=270)
    parser.add_argument("--out")
    arguments = parser.parse_args()
    end, out = time.monotonic() + arguments.seconds, Table(arguments.out)
    stream = torch.cuda.Stream()
    torch.backends.cudnn.benchmark = True
    with torch.cuda.stream(stream), torch.no_grad():
        own = Own(arguments.library, stream)
        warm_up(stream)
        for dtype in arguments.dtype.split(","):
            heading(out, dtype, own.revision)
            ratios = [[], [], []]
            for index, name, shape in own.layers():
                if arguments.layers not in name or time.monotonic() > end:
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
