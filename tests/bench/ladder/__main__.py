"""The rungs in CuPy and Triton, ours, cuBLAS and cuDNN beside each other in one run on a GPU.

    python3 tests/bench/ladder --library build/lib/libgemmd_bench_ladder.so --out FILE.md

Tables go to FILE.md and the curves to FILE.svg. Every result is checked against f64 before it is
timed: all of a product, two heads of an attention. Launches over operands that do not fit in the
L2 are recorded in a CUDA graph, so that nobody's host code is in the figures, and the graphs are
replayed in turns; a figure is the median over the rounds. Needs PyTorch with CUDA. Without CuPy or
Triton their rows are left out, and without a GPU nothing is measured and the status is 0.
"""

import argparse
import datetime
import importlib
import importlib.util
import pathlib
import sys
import time

import plot

SIZES = (256, 512, 1024, 2048, 4096)
TOKENS, HEADS, HEAD = 16384, 16, 128
ROUNDS = 5
L2_BYTES, SETS_MAX = 50 << 20, 64
OWN = {
    "f32": ("naive", "tiled", "tiled_padded", "double_buffered", "register_tiled", "wgmma"),
    "f16": ("naive", "tiled", "tensor_core", "wgmma"),
}


def torch_with_gpu():
    """PyTorch, or None after a line that says what is missing."""
    if importlib.util.find_spec("torch") is None:
        print("ladder: there is no PyTorch here, so nothing is measured")
        return None
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        print("ladder: PyTorch finds no GPU here, so nothing is measured")
        return None
    return torch


def optional(name, missing):
    """A module, or None after a line that says which rows are left out."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        print(f"ladder: {missing} left out: {error}", file=sys.stderr)
        return None


class Bench:
    """One run: who takes part, and the tables so far."""

    def __init__(self, torch, arguments):
        self.torch, self.stream = torch, torch.cuda.Stream()
        self.end = time.monotonic() + arguments.seconds
        with torch.cuda.stream(self.stream):
            self.own = importlib.import_module("own").Own(arguments.library, self.stream)
        self.shared = importlib.import_module("beside_cudnn")
        self.attention = importlib.import_module("attention_cudnn")
        self.cupy = optional("cupy", "CuPy's rungs are")
        self.triton = optional("triton_rungs", "Triton's rungs are")
        # Partial sums of f16 products stay in f32, as in our kernels.
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        self.count, self.wrong, self.panels = 0, 0, []
        self.out = self.shared.Table(arguments.out)

    def sets(self, each_bytes):
        return max(2, min(SETS_MAX, -(-2 * L2_BYTES // each_bytes)))

    def uniform(self, dtype, *size):
        return (self.torch.rand(*size, device="cuda") * 2 - 1).to(dtype)

    def measure(self, calls, check):
        """{name: (ms, error)} of calls that succeed; `check` runs after set 0 was computed."""
        participants, results = [], {}
        for name, call in calls.items():
            participant = self.shared.Participant(name, call, self.count)
            try:
                error = check(name, call)
                participant.record(self.stream)
            except Exception as problem:  # a library's own, of any kind: the row is left out
                reason = str(problem).strip().splitlines() or [type(problem).__name__]
                print(f"ladder: {name} left out: {reason[0]}", file=sys.stderr)
                self.torch.cuda.synchronize()
                continue
            participants.append(participant)
            results[name] = error
        for _ in range(ROUNDS):
            for participant in participants:
                participant.times.append(participant.replay(self.stream))
        return {p.name: (p.median(), results[p.name]) for p in participants}

    def product_check(self, a, b, c, reference, bound):
        """A check that poisons C, computes set 0 and compares all of it with f64."""

        def check(name, call):
            c.fill_(float("nan"))
            returned = call(0)
            self.stream.synchronize()
            got = (c[0] if returned is None else returned).double()
            error = (got - reference).abs()
            bad = int((~(error <= bound)).sum())
            if bad:
                self.wrong += 1
                raise RuntimeError(f"wrong in {bad} elements")
            return float((error.square().sum() / reference.square().sum()).sqrt())

        return check

    def products(self, kind, fused):
        """Rows for squares of one type."""
        torch = self.torch
        dtype = torch.float32 if kind == "f32" else torch.float16
        rows = {}
        for n in SIZES:
            if time.monotonic() > self.end:
                break
            self.count = self.sets(3 * n * n * dtype.itemsize)
            a, b = (self.uniform(dtype, self.count, n, n) for _ in range(2))
            c = torch.empty_like(a)
            bias = self.uniform(dtype, n) if fused else None
            reference = a[0].double() @ b[0].double()
            if fused:
                reference = torch.nn.functional.gelu(reference + bias.double(), approximate="tanh")
            rounding = 2.0**-23 if kind == "f32" else 2.0**-10
            bound = 16 * 2.0**-24 * n + rounding * reference.abs()
            calls = self.product_calls(kind, a, b, c, bias)
            check = self.product_check(a, b, c, reference, bound)
            self.note(rows, n, self.measure(calls, check))
            del calls, check, a, b, c, reference, bound
            torch.cuda.empty_cache()
        title = f"{kind}, gelu_tanh(A·B + bias)" if fused else f"{kind}, C = A·B"
        self.table(title, "N", rows, lambda n: 2.0 * n**3, "cuBLAS" if not fused else "cuBLASLt")

    def product_calls(self, kind, a, b, c, bias):
        torch = self.torch
        calls = {}
        for name in OWN[kind] if bias is None else ("wgmma",):
            calls[f"gemmd {name}"] = self.own.product_call(name, a, b, c, bias)
        if self.cupy and bias is None:
            cupy_rungs = importlib.import_module("cupy_rungs")
            rungs = cupy_rungs.Rungs(self.cupy, self.stream)
            for name in cupy_rungs.RUNGS:
                calls[f"CuPy {name}"] = rungs.call(name, a, b, c)
        if self.triton:
            name = "Triton tl.dot" + (", tf32x3" if kind == "f32" else "")
            calls[name] = self.triton.product_call(a, b, c, bias)
        if bias is None:
            calls["cuBLAS"] = lambda i: torch.mm(a[i], b[i], out=c[i])
        else:
            calls["cuBLASLt, fused"] = lambda i: torch._addmm_activation(
                bias, a[i], b[i], use_gelu=True
            )
            calls["cuBLAS, then PyTorch's gelu"] = lambda i: torch.nn.functional.gelu(
                torch.addmm(bias, a[i], b[i]), approximate="tanh"
            )
        return calls

    def attentions(self, causal):
        """Rows for f16, 16 heads of 128, as many entries as make 16,384 queries."""
        torch = self.torch
        rows = {}
        for n in SIZES:
            if time.monotonic() > self.end:
                break
            batch = TOKENS // n
            self.count = self.sets(4 * 2 * TOKENS * HEADS * HEAD)
            q, k, v = (
                self.uniform(torch.float16, self.count, batch, HEADS, n, HEAD) for _ in range(3)
            )
            o = torch.empty_like(q)
            calls = {"gemmd flash_wgmma": self.own.attention_call(q, k, v, o, causal)}
            if self.triton:
                calls["Triton tl.dot"] = self.triton.attention_call(q, k, v, o, causal)
            shape = [batch, HEADS, HEADS, n, n, HEAD, causal]
            for name, backend in self.attention.LIBRARIES.items():
                calls[name] = self.attention.library_call(backend, q, k, v, shape)
            self.note(rows, n, self.measure(calls, self.attention_check(q, k, v, o, causal)))
            del calls, q, k, v, o
            torch.cuda.empty_cache()
        title = f"f16, attention, 16 heads of 128, {'causal' if causal else 'full'}"

        def flops(n):
            pairs = n * (n + 1) / 2 if causal else n * n
            return 4.0 * TOKENS // n * HEADS * HEAD * pairs

        self.table(title, "keys", rows, flops, "cuDNN")

    def attention_check(self, q, k, v, o, causal):
        """A check of the first head and the last against f64. The bound is that of an attention
        whose weights and result are rounded to f16, sums of weighted values in f32."""
        torch = self.torch
        heads = [(0, 0), (q.shape[1] - 1, q.shape[2] - 1)]
        wanted = []
        for entry, head in heads:
            query, key, value = (t[0, entry, head].double() for t in (q, k, v))
            scores = query @ key.T * HEAD**-0.5
            if causal:
                n = scores.shape[0]
                later = torch.ones(n, n, dtype=torch.bool, device="cuda").triu(1)
                scores.masked_fill_(later, float("-inf"))
            weights = scores.softmax(-1)
            wanted.append((weights @ value, weights @ value.abs()))

        def check(name, call):
            o.fill_(float("nan"))
            returned = call(0)
            self.stream.synchronize()
            got = o[0] if returned is None else returned
            errors = 0.0
            for (entry, head), (value, size) in zip(heads, wanted):
                error = (got[entry, head].double() - value).abs()
                if not bool((error <= 2.0**-9 * size + 2.0**-14).all()):
                    self.wrong += 1
                    raise RuntimeError("wrong result")
                errors = max(errors, float((error.square().sum() / value.square().sum()).sqrt()))
            return errors

        return check

    @staticmethod
    def note(rows, n, results):
        for name, result in results.items():
            rows.setdefault(name, {})[n] = result

    def table(self, title, what, rows, flops, library):
        """Prints the rows as TFLOP/s, and keeps them for the curves."""
        if not rows:
            return
        base = next((name for name in rows if name.startswith(library)), None)

        def rate(name, n):
            return flops(n) / (rows[name][n][0] * 1e9) if n in rows[name] else None

        def cell(value, form):
            return form.format(value) if value is not None else "–"

        head = " | ".join(f"{what} = {n}" for n in SIZES)
        lines = [
            f"\n### {title}\n\nTFLOP/s; error: root mean square, relative to the result.\n",
            f"| kernel | {head} | of {base or library}, largest | error, largest |",
            "|---|" + "---|" * (len(SIZES) + 2),
        ]
        last = SIZES[-1]
        for name in rows:
            ratio = None
            if base and rate(name, last) and rate(base, last):
                ratio = rate(name, last) / rate(base, last)
            error = rows[name][last][1] if last in rows[name] else None
            speeds = " | ".join(cell(rate(name, n), "{:.3g}") for n in SIZES)
            lines.append(
                f"| {name} | {speeds} | {cell(ratio, '{:.3f}')} | {cell(error, '{:.1e}')} |"
            )
        self.out.append("\n".join(lines))
        curves = {name: [rate(name, n) for n in SIZES] for name in rows}
        self.panels.append((title, "TFLOP/s", SIZES, curves))

    def heading(self):
        torch = self.torch
        state = self.shared.output_of(
            "nvidia-smi",
            "--id=0",
            "--query-gpu=driver_version,clocks.sm,power.draw",
            "--format=csv,noheader",
        )
        versions = [f"PyTorch {torch.__version__}", f"cuDNN {torch.backends.cudnn.version()}"]
        for module in (self.cupy, sys.modules.get("triton")):
            if module:
                versions.append(f"{module.__name__} {module.__version__}")
        now = datetime.datetime.now(datetime.timezone.utc)
        self.out.append(
            f"## The rungs in CuPy and Triton beside ours, {now:%Y-%m-%d %H:%M} UTC\n\n"
            f"{torch.cuda.get_device_name()}; gemmd {self.own.revision}; {', '.join(versions)}; "
            f"driver, clock and watts: {state}. Operands uniform in [-1, 1]. cuBLAS and cuDNN as "
            "PyTorch calls them."
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", default="build/lib/libgemmd_bench_ladder.so")
    parser.add_argument("--seconds", type=float, default=120, help="no new size after that")
    parser.add_argument("--out", help="a file that ends in .md; the curves are beside it")
    arguments = parser.parse_args()
    torch = torch_with_gpu()
    if torch is None:
        return 0
    sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
    bench = Bench(torch, arguments)
    with torch.cuda.stream(bench.stream), torch.no_grad():
        bench.shared.warm_up(bench.stream)
        bench.heading()
        bench.products("f32", fused=False)
        bench.products("f16", fused=False)
        bench.products("f16", fused=True)
        bench.attentions(causal=False)
        bench.attentions(causal=True)
    if arguments.out and bench.panels:
        pathlib.Path(arguments.out).with_suffix(".svg").write_text(
            plot.svg(bench.panels), encoding="utf-8"
        )
    if bench.wrong:
        print(f"ladder: {bench.wrong} results were wrong", file=sys.stderr)
    return 1 if bench.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
