#!/usr/bin/env python3
"""Measures the CPU backend beside NumPy, ONNX Runtime and oneDNN, in one run and in turns.

Usage: tests/bench/cpu.py [--threads N] [--cases TEXT] [--rounds N] [--out FILE] BUILD...

BUILD is a build folder of gemmd, whose bin/gemmd-bench-cpu runs the kernels that the daemon chooses. The first build
is compared with the other programs. NumPy, onnxruntime and onnx are Python packages; oneDNN is Debian's libdnnl-dev,
for which the script compiles tests/bench/cpu_onednn.c. What is not installed is left out.

With --threads 1, the default, times are CPU times of the one thread that computes, so that other programs on the
machine change the table less. With more threads, times are of the clock, and the machine must be idle. Inputs and
outputs have the layout of a request. Weights of ONNX Runtime and oneDNN are laid out beforehand; oneDNN has the faster
of plain layouts, and its own layouts with the conversions of X and Y.
"""

import argparse
import contextlib
import datetime
import math
import os
import pathlib
import platform
import re
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SETS = ("sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "amx_tile")


# ---- cases ----

def product(dtype, m, n, k):
    return {"name": f"{dtype} {m}×{n}×{k}", "group": f"products {dtype}", "op": "gemm", "dtype": dtype,
            "query": {"m": m, "n": n, "k": k}, "shapes": [(m, k), (k, n)], "line": f"matmul {dtype} {m} {n} {k}"}


def conv(name, group, channels, side, filters, taps, stride=1, groups=1, nhwc=False, batch=1):
    pad = (taps - 1) // 2
    query = {"batch": batch, "channels": channels, "height": side, "width": side, "filters": filters,
             "filter_h": taps, "filter_w": taps, "groups": groups, "stride": stride, "padding": pad}
    x, w = (batch, channels, side, side), (filters, channels // groups, taps, taps)
    if nhwc:
        query |= {"layout": "nhwc", "w_layout": "krsc"}
        x, w = (batch, side, side, channels), (filters, taps, taps, channels // groups)
    return {"name": f"{name}{' nhwc' if nhwc else ''}", "group": group + (" nhwc" if nhwc else ""), "op": "conv2d",
            "dtype": "f32", "query": query, "shapes": [x, w], "nhwc": nhwc,
            "line": f"conv {batch} {channels} {side} {filters} {taps} {stride} {pad} {groups} {int(nhwc)}"}


def attention(heads, sq, skv, d):
    shape = {"heads": heads, "sq": sq, "skv": skv, "d": d}
    return {"name": f"{heads} heads of {d}, {sq} queries, {skv} keys", "group": "attention", "op": "attention",
            "dtype": "f32", "query": shape, "shapes": [(1, heads, sq, d), (1, heads, skv, d), (1, heads, skv, d)],
            "line": f"attention {heads} {sq} {skv} {d}"}


def softmax(rows, length):
    return {"name": f"{rows}×{length}", "group": "softmax", "op": "softmax", "dtype": "f32",
            "query": {}, "shapes": [(rows, length)], "line": f"softmax {rows} {length}"}


def reduction(op, axis, rows, length):
    return {"name": f"{op}, axis {axis}, {rows}×{length}", "group": "argmax" if op == "argmax" else "reductions",
            "op": "reduce", "dtype": "f32", "query": {"op": op, "axis": axis}, "shapes": [(rows, length)],
            "line": f"reduce {op} {axis} {rows} {length}"}


def all_cases():
    for dtype in ("f32", "f16", "bf16", "i8"):
        for side in (64, 256, 512, 1024, 2048):
            yield product(dtype, side, side, side)
        for rows in (1, 8, 64):
            yield product(dtype, rows, 1024, 1024)
    layers = [("7×7/2, 3 to 64, 224²", 3, 224, 64, 7, 2), ("3×3, 64, 56²", 64, 56, 64, 3, 1),
              ("3×3/2, 128, 56²", 128, 56, 128, 3, 2), ("3×3, 128, 28²", 128, 28, 128, 3, 1),
              ("3×3, 256, 14²", 256, 14, 256, 3, 1), ("3×3, 512, 7²", 512, 7, 512, 3, 1),
              ("1×1, 64 to 256, 56²", 64, 56, 256, 1, 1), ("1×1, 256 to 64, 56²", 256, 56, 64, 1, 1),
              ("1×1/2, 256 to 512, 56²", 256, 56, 512, 1, 2), ("1×1, 1024 to 256, 14²", 1024, 14, 256, 1, 1),
              ("5×5, 32 to 64, 28²", 32, 28, 64, 5, 1), ("3×3, 16, 160²", 16, 160, 16, 3, 1)]
    for nhwc in (False, True):
        for layer in layers:
            yield conv(layer[0], "convolution", *layer[1:], nhwc=nhwc)
        for name, channels, side, taps, stride in (("3×3, 128, 56²", 128, 56, 3, 1), ("3×3/2, 96, 112²", 96, 112, 3, 2),
                                                   ("5×5, 576, 14²", 576, 14, 5, 1), ("7×7, 96, 56²", 96, 56, 7, 1)):
            yield conv(f"depthwise {name}", "depthwise", channels, side, channels, taps, stride, channels, nhwc)
    for sq, skv in ((128, 128), (512, 512), (2048, 2048), (1, 1024), (1, 8192)):
        yield attention(8, sq, skv, 64)
    for rows, length in ((1024, 1024), (32, 32000), (4096, 64)):
        yield softmax(rows, length)
    for op in ("sum", "mean", "max", "norm2", "logsumexp", "argmax"):
        for axis in (0, 1):
            yield reduction(op, axis, 1024, 1024)
    yield reduction("sum", 1, 32, 32000)
    yield reduction("argmax", 1, 32, 32000)


# ---- who is measured; each measure() returns milliseconds ----

def operands_of(case, numpy):
    """Uniform in [-1, 1], as arrays of f32, or of small integers."""
    random = numpy.random.default_rng(1)
    if case["dtype"] == "i8":
        return [random.integers(-100, 100, shape, dtype=numpy.int8) for shape in case["shapes"]]
    return [random.uniform(-1, 1, shape).astype(numpy.float32) for shape in case["shapes"]]


class Program:
    """gemmd-bench-cpu or cpu_onednn, which reads cases and answers with times."""

    def __init__(self, *words, **environment):
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **environment})

    def prepare(self, case):
        self.line = case["line"]
        return self.measure(0) > 0

    def measure(self, least_ms):
        self.process.stdin.write(f"{least_ms} {self.line}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Called:
    """A function of this process."""

    def __init__(self, threads, numpy):
        self.threads, self.numpy = threads, numpy
        self.now = time.thread_time if threads == 1 else time.perf_counter

    def prepare(self, case):
        self.call = self.find(case, operands_of(case, self.numpy))
        return self.call is not None

    def measure(self, least_ms):
        count, start = 0, self.now()
        while (elapsed := (self.now() - start) * 1e3) < least_ms or count == 0:
            self.call()
            count += 1
        return elapsed / count

    def close(self):
        pass


class NumPy(Called):
    def find(self, case, x):
        numpy, query = self.numpy, case["query"]
        if case["op"] == "gemm" and case["dtype"] == "f32":
            return lambda: x[0] @ x[1]
        if case["op"] == "softmax":
            def softmax():
                e = numpy.exp(x[0] - x[0].max(axis=-1, keepdims=True))
                return e / e.sum(axis=-1, keepdims=True)
            return softmax
        functions = {"sum": numpy.sum, "mean": numpy.mean, "max": numpy.max, "argmax": numpy.argmax,
                     "norm2": numpy.linalg.norm}
        if case["op"] == "reduce" and query["op"] in functions:
            return lambda: functions[query["op"]](x[0], axis=query["axis"])
        return None


class OnnxRuntime(Called):
    def find(self, case, x):
        import onnx
        import onnxruntime
        helper, query, op = onnx.helper, case["query"], case["op"]
        kind = {"f32": onnx.TensorProto.FLOAT, "f16": onnx.TensorProto.FLOAT16, "i8": onnx.TensorProto.INT8}
        if case["dtype"] not in kind or case.get("nhwc"):
            return None
        if case["dtype"] == "f16":
            x = [array.astype(self.numpy.float16) for array in x]
        constants, result = [], kind[case["dtype"]]
        if op == "gemm":
            node = ("MatMul", ["a", "b"], {})
            if case["dtype"] == "i8":
                node, result = ("MatMulInteger", ["a", "b"], {}), onnx.TensorProto.INT32
            constants = [("b", x[1])]
        elif op == "conv2d":
            taps = query["filter_h"]
            node = ("Conv", ["a", "b"], {"group": query["groups"], "kernel_shape": [taps, taps],
                                         "strides": [query["stride"]] * 2, "pads": [query["padding"]] * 4})
            constants = [("b", x[1])]
        elif op == "softmax":
            node = ("Softmax", ["a"], {"axis": -1})
        elif op == "reduce":
            axes = ("axes", self.numpy.array([query["axis"]], dtype=self.numpy.int64))
            name = {"sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax", "norm2": "ReduceL2",
                    "logsumexp": "ReduceLogSumExp", "argmax": "ArgMax"}[query["op"]]
            node = (name, ["a", "axes"], {"keepdims": 0})
            constants = [axes]
            if query["op"] == "argmax":
                node, constants = (name, ["a"], {"keepdims": 0, "axis": query["axis"]}), []
                result = onnx.TensorProto.INT64
        else:  # attention, as the operator of transformers that are exported to ONNX
            def heads_together(array):
                return self.numpy.ascontiguousarray(array.transpose(1, 0, 2).reshape(1, array.shape[1], -1))
            x = [heads_together(array[0]) for array in x]
            node = ("MultiHeadAttention", ["a", "k", "v"], {"num_heads": query["heads"], "domain": "com.microsoft"})
            constants = [("k", x[1]), ("v", x[2])]
        graph = helper.make_graph(
            [helper.make_node(node[0], node[1], ["y"], **node[2])], "case",
            [helper.make_tensor_value_info("a", kind[case["dtype"]], x[0].shape)],
            [helper.make_tensor_value_info("y", result, None)],
            [onnx.numpy_helper.from_array(array, name) for name, array in constants])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20),
                                                        helper.make_opsetid("com.microsoft", 1)], ir_version=10)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = self.threads, 1
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        return lambda: session.run(None, {"a": x[0]})


# ---- the table ----

def contenders(arguments, folder):
    import numpy
    threads = arguments.threads
    for number, build in enumerate(arguments.builds):
        program = Program(build / "bin/gemmd-bench-cpu", str(threads), OPENBLAS_NUM_THREADS=str(threads))
        yield "gemmd" if number == 0 else f"other gemmd {number}", program
    yield f"NumPy {numpy.__version__}", NumPy(threads, numpy)
    with contextlib.suppress(ImportError):
        import onnx
        import onnxruntime
        yield f"ONNX Runtime {onnxruntime.__version__}", OnnxRuntime(threads, numpy)
        del onnx
    program = pathlib.Path(folder) / "cpu_onednn"
    built = subprocess.run(["cc", "-O2", "-o", program, ROOT / "tests/bench/cpu_onednn.c", "-ldnnl"],
                           capture_output=True, check=False)
    if built.returncode == 0:
        version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
        yield f"oneDNN {version}", Program(program, OMP_NUM_THREADS=str(threads))


def measure(case, names, programs, arguments):
    able = [name for name in names if programs[name].prepare(case)]
    times = {name: [] for name in able}
    for _ in range(arguments.rounds):
        for name in able:
            times[name].append(programs[name].measure(arguments.least_ms))
    return {name: min(values) for name, values in times.items()}


def machine():
    text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    flags = set(re.search(r"^flags\s*: (.*)$", text, re.MULTILINE)[1].split())
    model = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)[1]
    return f"{model}, {os.cpu_count()} cores, {' '.join(name for name in SETS if name in flags)}"


def table(rows, names):
    """Lines of a Markdown table: milliseconds, and the time of the fastest other program divided by gemmd's."""
    others = [name for name in names if "gemmd" not in name]
    lines = ["| case | " + " | ".join(f"{name}, ms" for name in names) + " | best of the others / gemmd |",
             "|---|" + "---:|" * (len(names) + 1)]
    ratios = {}
    for case, times in rows:
        best = min((times[name] for name in others if name in times), default=None)
        cells = [f"{times[name]:.4g}" if name in times else "–" for name in names]
        ratio = best / times["gemmd"] if best else None
        if ratio:
            ratios.setdefault(case["group"], []).append(ratio)
        lines.append(f"| {case['group']}: {case['name']} | " + " | ".join(cells) +
                     f" | {f'{ratio:.2f}' if ratio else '–'} |")
    lines += ["", "| group | cases | geometric mean | lowest |", "|---|---:|---:|---:|"]
    for group, values in ratios.items():
        mean = math.exp(statistics.fmean(math.log(value) for value in values))
        lines.append(f"| {group} | {len(values)} | {mean:.2f} | {min(values):.2f} |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cases", default="", help="only cases with this text in `group: name`; | separates several")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--least-ms", type=float, default=20, help="the time of a program in a round")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("builds", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = str(arguments.threads)
    cases = [case for case in all_cases()
             if any(text in f"{case['group']}: {case['name']}" for text in arguments.cases.split("|"))]
    with tempfile.TemporaryDirectory() as folder:
        programs = dict(contenders(arguments, folder))
        names = list(programs)
        rows = []
        try:
            for case in cases:
                rows.append((case, measure(case, names, programs, arguments)))
                print(table(rows[-1:], names)[2], flush=True)
        finally:
            for program in programs.values():
                program.close()
    versions = [subprocess.run([build / "bin/gemmd", "--version"], capture_output=True, text=True,
                               check=True).stdout.split("\n")[0] for build in arguments.builds]
    kind = "CPU time of one thread" if arguments.threads == 1 else f"time of the clock, {arguments.threads} threads"
    lines = [f"# The CPU backend beside other programs, {datetime.date.today()}", "",
             (f"{machine()}; Linux {platform.release()}. {'; '.join(versions)}. The least of {arguments.rounds} rounds in "
              f"turns; {kind}."), "", *table(rows, names)]
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    else:
        print("\n".join(lines))


if __name__ == "__main__":
    main()
