"""Attention next to cuDNN and FlashAttention-2, as PyTorch offers them, in one process.

    python3 tests/bench/attention_cudnn.py --library build-cuda/lib/libgemmd_bench_attention.so \
        --dtype bf16,f16 --out tests/bench/results/attention-DATE-GPU.md

Every participant's launches over rotating operands are recorded in a CUDA graph, so that no one's
host code is in the figures; then the graphs are replayed in turns, and a participant's figure is
the median over the rounds. Needs PyTorch with CUDA; nothing else.

With --before, the chosen kernel of another build of the library is measured in the same turns, and
the table has its figure and whether its result has the same bits.
"""

import argparse
import ctypes
import math
import sys
import time

import beside_cudnn
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

LIBRARIES = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "FA2": SDPBackend.FLASH_ATTENTION}


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
            ctypes.c_int,
        ] + [ctypes.c_void_p] * 4
        self.handle = self.library.gemmd_bench_attention_open(stream.cuda_stream)
        if not self.handle:
            sys.exit("attention_cudnn.py: no memory or no GPU for our kernels")
        self.revision = self.library.gemmd_bench_attention_revision().decode()

    def cells(self):
        name, shape = ctypes.create_string_buffer(48), (ctypes.c_uint64 * 7)()
        for index in range(self.library.gemmd_bench_attention_cells()):
            self.library.gemmd_bench_attention_cell(index, name, shape)
            yield index, name.value.decode(), list(shape)

    def kernels(self, bf16, index):
        """Names; the first is the one that is chosen."""
        names, name = [], ctypes.create_string_buffer(64)
        while self.library.gemmd_bench_attention_kernel(bf16, index, len(names), name) == 0:
            names.append(name.value.decode())
        return names

    def enqueue(self, kernel, bf16, index, q, k, v, o):
        code = self.library.gemmd_bench_attention(
            self.handle,
            kernel.encode(),
            bf16,
            index,
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


def library_call(backend, q, k, v, shape):
    causal, grouped = bool(shape[6]), shape[1] != shape[2]

    def call(i):
        extra = {"enable_gqa": True} if grouped else {}
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(
                q[i], k[i], v[i], is_causal=causal, **extra
            )

    return call


def measure(own, before, index, shape, bf16, every, stream):
    """{name: median ms}, the name of what is chosen, how far its result is from cuDNN's, and whether
    the other build's result has the same bits.
    """
    q, k, v, o, sets = operands(shape, torch.bfloat16 if bf16 else torch.float16)
    names = [n for n in own.kernels(bf16, index) if n not in ("naive", "tiled")]
    names = names if every else names[:1]
    calls, difference, same = {}, float("nan"), False
    for name in names:
        calls[name] = lambda i, name=name: own.enqueue(name, bf16, index, q[i], k[i], v[i], o[i])
    if before:
        chosen = before.kernels(bf16, index)[0]
        calls["before"] = lambda i: before.enqueue(chosen, bf16, index, q[i], k[i], v[i], o[i])
    for name, backend in LIBRARIES.items():
        calls[name] = library_call(backend, q, k, v, shape)
    participants = beside_cudnn.recorded(calls, sets, stream)
    try:
        o.fill_(float("nan"))
        calls[names[0]](0)
        difference = (o[0].float() - calls["cuDNN"](0).float()).abs().max().item()
        if before:
            result = o[0].clone()
            o.fill_(float("nan"))
            calls["before"](0)
            same = torch.equal(result.view(torch.int16), o[0].view(torch.int16))
    except RuntimeError:
        pass
    return beside_cudnn.in_turns(participants, stream), names[0], difference, same


def heading(out, dtype, revision, before):
    more = " before | own / before | same bits |" if before else ""
    if before:
        revision += f", before {before.revision}"
    out.append(
        f"## Attention next to cuDNN, {dtype}, {beside_cudnn.now()}\n\n"
        f"{beside_cudnn.machine(revision)}. Operands uniform in [-1, 1], TFLOP/s of the pairs "
        "that the mask leaves, GB/s of K and V for decode.\n\n"
        "| cell | chosen | own | best own | cuDNN | FA2 | own / cuDNN | best / cuDNN | largest "
        f"difference |{more}\n|---|---|---|---|---|---|---|---|---|{'---|' * more.count('|')}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--before", help="the library of another build, measured in the same turns")
    parser.add_argument("--dtype", default="bf16,f16")
    parser.add_argument("--cells", default="", help="only cells with one of these in their name")
    parser.add_argument("--every", action="store_true", help="every kernel, not only the chosen")
    parser.add_argument("--seconds", type=float, default=270)
    parser.add_argument("--out")
    arguments = parser.parse_args()
    end, out, stream = time.monotonic() + arguments.seconds, beside_cudnn.Table(arguments.out), torch.cuda.Stream()
    with torch.cuda.stream(stream), torch.no_grad():
        own = Own(arguments.library, stream)
        before = Own(arguments.before, stream) if arguments.before else None
        beside_cudnn.warm_up(stream)
        for dtype in arguments.dtype.split(","):
            heading(out, dtype, own.revision, before)
            ratios, gains = [], []
            for index, name, shape in own.cells():
                if not any(part in name for part in arguments.cells.split(",")) or time.monotonic() > end:
                    continue
                times, chosen, difference, same = measure(
                    own, before, index, shape, dtype == "bf16", arguments.every, stream
                )
                ours = {n: ms for n, ms in times.items() if n not in LIBRARIES and n != "before"}
                best = min(ours, key=ours.get) if ours else "none"
                theirs = {n: times.get(n, math.nan) for n in LIBRARIES}
                mine = ours.get(chosen, math.nan)
                ratio = theirs["cuDNN"] / mine
                if ratio == ratio:
                    ratios.append(ratio)
                more = ""
                if before:
                    gains.append(times["before"] / mine)
                    more = f" {rate(shape, times['before']):.1f} | {gains[-1]:.3f} | {'yes' if same else 'no'} |"
                out.append(
                    f"| {name} | {chosen} | {rate(shape, mine):.1f} | "
                    f"{best} {rate(shape, ours.get(best, math.nan)):.1f} | "
                    f"{rate(shape, theirs['cuDNN']):.1f} | {rate(shape, theirs['FA2']):.1f} | "
                    f"{ratio:.3f} | {theirs['cuDNN'] / ours.get(best, math.nan):.3f} | "
                    f"{difference:.1e} |{more}"
                )
                for kernel, ms in ours.items():
                    print(f"    {kernel}: {ms:.4f} ms, {rate(shape, ms):.1f}", file=sys.stderr)
                torch.cuda.empty_cache()
            if ratios:
                mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
                out.append(
                    f"\nGeometric mean of own / cuDNN: {mean:.3f} over {len(ratios)} cells, "
                    f"lowest {min(ratios):.3f}.\n"
                )
            if gains:
                mean = math.exp(sum(map(math.log, gains)) / len(gains))
                out.append(f"Geometric mean of own / before: {mean:.3f}, lowest {min(gains):.3f}.\n")


if __name__ == "__main__":
    main()
