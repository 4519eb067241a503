"""Attention next to cuDNN and FlashAttention-2, as PyTorch offers them, and FlashAttention-3, in one process.

    python3 tests/bench/attention_cudnn.py --library build-cuda/lib/libgemmd_bench_attention.so \
        --dtype bf16,f16 --out tests/bench/results/attention-DATE-GPU.md

Every participant's launches over rotating operands are recorded in a CUDA graph, so that no one's
host code is in the figures; then the graphs are replayed in turns, and a participant's figure is
the median over the rounds. Needs PyTorch with CUDA. FlashAttention-3 takes part where Python finds the
module of its wheel, `fa3-fwd`. The ratio is to the fastest of the others.

With --before, the chosen kernel of another build of the library is measured in the same turns, and
the table has its figure and whether its result has the same bits. The option may be given several times.

With --list, the cells are those of a file: a line each with batch, heads, heads of K and V, queries, keys,
size of a head, and 1 for a causal mask or 0. Empty lines and lines that begin with # are ignored.
"""

import argparse
import ctypes
import math
import sys
import time

import beside_cudnn
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

try:
    import fa3_fwd_interface
except ImportError:
    fa3_fwd_interface = None

OTHERS = ["cuDNN", "FA2"] + (["FA3"] if fa3_fwd_interface else [])
BACKENDS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "FA2": SDPBackend.FLASH_ATTENTION}


class Own:
    """Our kernels, through attention_library.c."""

    def __init__(self, path, stream):
        self.library = ctypes.CDLL(path)
        self.library.gemmd_bench_attention_open.restype = ctypes.c_void_p
        self.library.gemmd_bench_attention_revision.restype = ctypes.c_char_p
        self.library.gemmd_bench_attention_open.argtypes = [ctypes.c_void_p]
        self.library.gemmd_bench_attention.argtypes = [
            ctypes.c_void_p,
            ctypes.c_char_p,
            ctypes.c_int,
        ] + [ctypes.c_void_p] * 5
        self.handle = self.library.gemmd_bench_attention_open(stream.cuda_stream)
        if not self.handle:
            sys.exit("attention_cudnn.py: no memory or no GPU for our kernels")
        self.revision = self.library.gemmd_bench_attention_revision().decode()

    def cells(self):
        name, shape = ctypes.create_string_buffer(48), (ctypes.c_uint64 * 7)()
        for index in range(self.library.gemmd_bench_attention_cells()):
            self.library.gemmd_bench_attention_cell(index, name, shape)
            yield name.value.decode(), list(shape)

    def kernels(self, bf16, shape):
        """Names; the first is the one that is chosen."""
        names, name = [], ctypes.create_string_buffer(64)
        numbers = (ctypes.c_uint64 * 7)(*shape)
        while self.library.gemmd_bench_attention_kernel(bf16, numbers, len(names), name) == 0:
            names.append(name.value.decode())
        return names

    def enqueue(self, kernel, bf16, shape, q, k, v, o):
        code = self.library.gemmd_bench_attention(
            self.handle,
            kernel.encode(),
            bf16,
            (ctypes.c_uint64 * 7)(*shape),
            q.data_ptr(),
            k.data_ptr(),
            v.data_ptr(),
            o.data_ptr(),
        )
        if code != 0:
            raise RuntimeError(f"{kernel}: error {code}")


def flops(shape):
    batch, heads, _, sq, skv, d, causal = shape
    pairs = sq * (sq + 1) / 2 + sq * (skv - sq) if causal else sq * skv
    return 4.0 * batch * heads * d * pairs


def rate(shape, ms):
    """TFLOP/s, or GB/s where reading K and V is all there is."""
    batch, _, kv_heads, sq, skv, d, _ = shape
    if sq == 1:
        return 4.0 * batch * kv_heads * skv * d / (ms * 1e6)
    return flops(shape) / (ms * 1e9)


def operands(shape, dtype):
    batch, heads, kv_heads, sq, skv, d, _ = shape
    q_bytes, k_bytes = 2 * batch * heads * sq * d, 2 * batch * kv_heads * skv * d
    sets = max(2, min(48, math.ceil(2 * beside_cudnn.L2_BYTES / (2 * (q_bytes + k_bytes)))))

    def uniform(*size):
        return (torch.rand(sets, *size, device="cuda") * 2 - 1).to(dtype)

    q = uniform(batch, heads, sq, d)
    k, v = uniform(batch, kv_heads, skv, d), uniform(batch, kv_heads, skv, d)
    return q, k, v, torch.full_like(q, float("nan")), sets


def listed(path):
    """(name, shape) of the cells of a file."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            if not line.strip() or line.startswith("#"):
                continue
            shape = [int(number) for number in line.split()]
            batch, heads, kv_heads, sq, skv, d, causal = shape
            grouped = "" if heads == kv_heads else f"/{kv_heads}"
            queries = "" if sq == skv else f" q{sq}"
            mask = "causal" if causal else "full"
            yield f"{batch}x{heads}{grouped} d{d} S{skv}{queries} {mask}", shape


def other_call(name, q, k, v, shape):
    causal, grouped = bool(shape[6]), shape[1] != shape[2]

    def flash_3(i):
        q_i, k_i, v_i = (x[i].transpose(1, 2) for x in (q, k, v))
        return fa3_fwd_interface.flash_attn_func(q_i, k_i, v_i, causal=causal, num_splits=0)

    def pytorch(i):
        extra = {"enable_gqa": True} if grouped else {}
        with sdpa_kernel(BACKENDS[name]):
            return torch.nn.functional.scaled_dot_product_attention(
                q[i], k[i], v[i], is_causal=causal, **extra
            )

    return flash_3 if name == "FA3" else pytorch


def measure(own, befores, shape, bf16, every, stream):
    """{name: median ms}, the name of what is chosen, how far its result is from cuDNN's, and for each
    other build whether its result has the same bits. The name of another build is its number.
    """
    q, k, v, o, sets = operands(shape, torch.bfloat16 if bf16 else torch.float16)
    names = [n for n in own.kernels(bf16, shape) if n not in ("naive", "tiled")]
    names = names if every else names[:1]
    calls, difference, same = {}, float("nan"), []

    def own_call(library, name):
        return lambda i: library.enqueue(name, bf16, shape, q[i], k[i], v[i], o[i])

    for name in names:
        calls[name] = own_call(own, name)
    for number, before in enumerate(befores):
        calls[number] = own_call(before, before.kernels(bf16, shape)[0])
    for name in OTHERS:
        calls[name] = other_call(name, q, k, v, shape)
    participants = beside_cudnn.recorded(calls, sets, stream)
    try:
        o.fill_(float("nan"))
        calls[names[0]](0)
        result = o[0].clone()
        for number in range(len(befores)):
            o.fill_(float("nan"))
            calls[number](0)
            same.append(torch.equal(result.view(torch.int16), o[0].view(torch.int16)))
        difference = (result.float() - calls["cuDNN"](0).float()).abs().max().item()
    except RuntimeError:
        pass
    return beside_cudnn.in_turns(participants, stream), names[0], difference, same


def heading(out, dtype, revision, befores):
    more = " before | own / before | same bits |" * len(befores)
    for before in befores:
        revision += f", before {before.revision}"
    out.append(
        f"## Attention next to others, {dtype}, {beside_cudnn.now()}\n\n"
        f"{beside_cudnn.machine(revision)}. Operands uniform in [-1, 1], TFLOP/s of the pairs "
        "that the mask leaves, GB/s of K and V for decode.\n\n"
        f"| cell | chosen | own | best own | {' | '.join(OTHERS)} | own / best other | "
        f"largest difference |{more}\n|---|---|---|---|---|---|{'---|' * (len(OTHERS) + more.count('|'))}"
    )


def summary(out, what, ratios):
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        out.append(
            f"\nGeometric mean of {what}: {mean:.3f} over {len(ratios)} cells, lowest {min(ratios):.3f}."
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument(
        "--before", action="append", default=[], help="the library of another build, in the same turns"
    )
    parser.add_argument("--dtype", default="bf16,f16")
    parser.add_argument("--list", help="a file of cells, instead of the library's")
    parser.add_argument("--cells", default="", help="only cells with one of these in their name")
    parser.add_argument("--every", action="store_true", help="every kernel, not only the chosen")
    parser.add_argument("--seconds", type=float, default=270)
    parser.add_argument("--out")
    arguments = parser.parse_args()
    end, out, stream = time.monotonic() + arguments.seconds, beside_cudnn.Table(arguments.out), torch.cuda.Stream()
    with torch.cuda.stream(stream), torch.no_grad():
        own = Own(arguments.library, stream)
        befores = [Own(path, stream) for path in arguments.before]
        beside_cudnn.warm_up(stream)
        for dtype in arguments.dtype.split(","):
            heading(out, dtype, own.revision, befores)
            ratios, gains = [], [[] for _ in befores]
            for name, shape in listed(arguments.list) if arguments.list else own.cells():
                if not any(part in name for part in arguments.cells.split(",")) or time.monotonic() > end:
                    continue
                times, chosen, difference, same = measure(
                    own, befores, shape, dtype == "bf16", arguments.every, stream
                )
                theirs = [times.get(n, math.nan) for n in OTHERS]
                ours = {n: ms for n, ms in times.items() if isinstance(n, str) and n not in OTHERS}
                best = min(ours, key=ours.get) if ours else "none"
                mine = ours.get(chosen, math.nan)
                ratio = min((ms for ms in theirs if ms == ms), default=math.nan) / mine
                if ratio == ratio:
                    ratios.append(ratio)
                more = ""
                for number, same_bits in enumerate(same):
                    gains[number].append(times[number] / mine)
                    more += (
                        f" {rate(shape, times[number]):.1f} | {gains[number][-1]:.3f} | "
                        f"{'yes' if same_bits else 'no'} |"
                    )
                out.append(
                    f"| {name} | {chosen} | {rate(shape, mine):.1f} | "
                    f"{best} {rate(shape, ours.get(best, math.nan)):.1f} | "
                    f"{' | '.join(f'{rate(shape, ms):.1f}' for ms in theirs)} | "
                    f"{ratio:.3f} | {difference:.1e} |{more}"
                )
                for kernel, ms in ours.items():
                    print(f"    {kernel}: {ms:.4f} ms, {rate(shape, ms):.1f}", file=sys.stderr)
                torch.cuda.empty_cache()
            summary(out, "own / best other", ratios)
            for gain in gains:
                summary(out, "own / before", gain)


if __name__ == "__main__":
    main()
