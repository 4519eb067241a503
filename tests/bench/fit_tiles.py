#!/usr/bin/env python3
"""Fits the constants of the model by which wgmma and convolutions choose their tiles to measured times.

Usage: tests/bench/fit_tiles.py [--held-out] [--rates FILE] [TABLE...]

Each TABLE was written by `gemmd-bench kernels --list FILE` or `gemmd-bench conv --list FILE`, which time every tile of
a type on every shape of a list. Without a TABLE, the tables in tests/bench/results of the lists `check`, `cut`, `fit`,
`more`, `odd` and `odd40` are taken. The script replaces the constants that it fits in FILE, which is kernels/cuda/sm90/gemm/rates.c without
--rates, and prints how far the choice is behind the best tile. A constant that the script does not fit stays as it is
in FILE.

The model is the C code of the daemon, which the script compiles, so a C compiler and the headers of CUDA are needed,
but no GPU and no library of CUDA. The same tables give the same constants.

With --held-out, nothing is written. The constants are fitted to three quarters of the shapes and judged by the
fourth, four times.
"""

import argparse
import ctypes
import functools
import glob
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
LISTS = ("check", "cut", "fit", "more", "odd", "odd40")
SOURCES = ("tests/bench/fit_tiles.c", "tests/bench/tile_name.c", "kernels/cuda/sm90/gemm/model.c",
           "kernels/cuda/sm90/gemm/split_k.c", "kernels/cuda/sm90/grid.c",
           "kernels/cuda/sm90/conv/estimate.c", "proto/dtype.c", "proto/nearest.c")

# The files with the names of the tiles of a type. Tables may have older tiles too.
KERNELS = ROOT / "kernels/cuda/sm90"
RATES = KERNELS / "gemm/rates.c"
TILES = {"bf16": "gemm/table_16bit.cuh", "f16": "gemm/table_16bit.cuh", "bf16_f32": "gemm/table_16bit.cuh",
         "i8": "gemm/i8.cu", "f8_e4m3": "gemm/f8.cu", "tf32": "gemm/tf32.cu", "tf32t": "gemm/tf32.cu",
         "f32": "gemm/f32.cu", "f32t": "gemm/f32.cu", "conv_bf16": "conv/conv.cuh", "conv_f16": "conv/conv.cuh",
         "conv_i8": "conv/i8.cu", "conv_f32": "conv/tf32.cu"}
# As conv.cuh has them: the bytes of k of a stage, and of an element.
LINE_BYTES = 128
TYPE_BYTES = {"bf16": 2, "f16": 2, "i8": 1, "f32": 4}

# Where the search for a constant begins.
START = {"launch_us": 1.5, "cluster_us": 1.5, "split_us": 4, "store_us": 3.5, "epilogue_us": 1.5, "tile_us": 0.5,
         "multiply_us": 0.6, "gaps": 0.4, "half_box": 1.1, "shared_bytes_per_us": 270e3, "l2_bytes_per_us": 15e6,
         "dram_bytes_per_us": 3.3e6, "one_producer": 0.1, "far_share": 0.4, "empty_half": 0.5,
         "patches": 1.5, "unaligned_a": 1.3}
BASIC = ("store_us", "multiply_us", "shared_bytes_per_us", "l2_bytes_per_us", "dram_bytes_per_us")
# The constants that are fitted for each kind of products: those that its tables tell apart.
FITTED = {
    "16_bit": ("launch_us", "cluster_us", *BASIC, "tile_us", "epilogue_us", "gaps", "half_box", "one_producer"),
    "16_bit_chunks": ("split_us", *BASIC, "tile_us"),
    "f8": ("launch_us", "cluster_us", *BASIC, "tile_us", "gaps"),
    "i8": ("launch_us", "cluster_us", *BASIC),
    "tf32": ("launch_us", "cluster_us", "split_us", *BASIC, "tile_us", "gaps", "far_share"),
    "f32": ("launch_us", *BASIC, "gaps"),
    "16_bit_to_32": ("launch_us", *BASIC, "tile_us", "gaps"),
    "conv_16_bit": ("launch_us", "cluster_us", *BASIC, "tile_us", "unaligned_a", "patches"),
    "conv_i8": ("launch_us", "cluster_us", *BASIC, "unaligned_a"),
    "conv_tf32": ("launch_us", "cluster_us", *BASIC, "unaligned_a", "patches"),
    "tf32_swapped": ("launch_us", "cluster_us", "split_us", *BASIC, "empty_half"),
}

# The fit takes constants with DIGITS digits. A search starts anew from KICKS places around the best constants.
DIGITS, KICKS, SEED = 3, 32, 1
STEP_FIRST, STEP_LEAST = 0.3, 0.012
# Tiles whose estimates differ by NEAR, as a part of them, count as chosen with about the same probability.
NEAR = 0.02
# A choice that is TWICE behind the best tile counts twice, and one that is further behind more.
TWICE = 0.1
# What an error of the estimate of a good tile counts, against as large a loss by the choice. With less weight, the
# constants are further from the GPU's, and what is chosen on other cards becomes worse.
ERROR_WEIGHT = 0.1
GOOD = 0.1


def headers_of_cuda():
    """The folder with the headers of CUDA: of a toolkit, or of the package of Python that has them."""
    packaged = glob.glob(sysconfig.get_path("purelib") + "/nvidia/cu*/include")
    for folder in (os.environ.get("CUDA_HOME", "") + "/include", "/usr/local/cuda/include", *packaged):
        if (Path(folder) / "cuda_runtime_api.h").exists():
            return folder
    raise FileNotFoundError("cuda_runtime_api.h is in no folder that is looked into; set CUDA_HOME")


def compiled(folder, rates):
    """The model, with the constants of the file `rates`, as a library."""
    path = Path(folder) / "model.so"
    # Without contraction, all machines compute the same estimates.
    subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-o", path,
                    *(ROOT / source for source in SOURCES), rates, f"-I{ROOT}", f"-I{ROOT / 'proto/include'}",
                    "-isystem", headers_of_cuda(), "-lm"], check=True)
    library = ctypes.CDLL(str(path))
    library.fit_cell_bytes.restype = ctypes.c_size_t
    library.fit_cell_set.restype = ctypes.c_bool
    library.fit_cell_set.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_bool, *[ctypes.c_uint64] * 3,
                                     ctypes.c_char_p]
    library.fit_cell_set_conv.restype = ctypes.c_bool
    library.fit_cell_set_conv.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64 * 7, ctypes.c_char_p]
    library.fit_rates_of.restype = ctypes.c_void_p
    library.fit_rates_of.argtypes = [ctypes.c_void_p]
    library.fit_estimate.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p]
    return library


def constants():
    """The names of the members of struct sm90_rates, in their order."""
    text = re.sub(r"/\*.*?\*/", "", (ROOT / "kernels/cuda/sm90/gemm/model.h").read_text(), flags=re.DOTALL)
    members = re.search(r"struct sm90_rates \{(.*?)\};", text, re.DOTALL)[1]
    return re.findall(r"\w+", members.replace("double", ""))


def read_table(path):
    """For each shape of a table: the type, whether an epilogue was computed, the shape, and the time of each tile in
    microseconds. Of the best tile the table has the time with more digits."""
    kind, epilogue, tiles, best = None, False, None, {}
    for line in Path(path).read_text().splitlines():
        if heading := re.match(r"## ([^,]+),", line):
            kind, epilogue, tiles, best = heading[1], False, None, {}
        epilogue |= line.startswith("Own kernels add a bias")
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == "m×n×k":
            tiles = None if cells[1].startswith("cuBLASLt") else cells[1:]
        elif line.startswith("|") and re.match(r"\d+×\d+×\d+$", cells[0]):
            shape = tuple(int(size) for size in cells[0].split("×"))
            if tiles is None:
                best[shape] = (float(cells[1].split()[0]), cells[4], float(cells[5]))
                continue
            tera, fastest, ratio = best[shape]
            library_us = 2 * shape[0] * shape[1] * shape[2] / (tera * 1e6)
            ratios = {tile: float(cell) / 100 for tile, cell in zip(tiles, cells[1:]) if cell and float(cell) > 0}
            yield kind, epilogue, shape, {tile: library_us / (ratio if tile == fastest else of)
                                          for tile, of in ratios.items()}


def may_merge_taps(kind, layer):
    """Whether `implicit` may merge the taps of a filter (kernels/cuda/conv/implicit.c), which makes another product."""
    _, channels, _, _, taps, _, padding = layer
    line_bytes = channels * TYPE_BYTES[kind]
    return line_bytes < LINE_BYTES or (taps > 1 and padding == 0 and line_bytes % LINE_BYTES != 0)


def read_conv_table(path):
    """For each layer of a table of convolutions: the type, the layer, and the time of each tile in microseconds.
    Layers whose taps may be merged are left out."""
    kind = None
    for line in Path(path).read_text().splitlines():
        if heading := re.match(r"## Convolutions, ([^,]+),", line):
            kind = heading[1]
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and re.match(r"(\d+ ){6}\d+$", cells[0]):
            layer = tuple(int(size) for size in cells[0].split())
            if may_merge_taps(kind, layer):
                continue
            words = cells[5].split()
            images, channels, side, filters, taps, stride, padding = layer
            out = (side + 2 * padding - taps) // stride + 1
            flops = 2 * images * out * out * filters * channels * taps * taps
            yield kind, layer, {name.partition("_")[2]: flops / (float(rate) * 1e6)
                                for name, rate in zip(words[::2], words[1::2]) if re.search(r"_\d+x", name)}


class Times:
    """The measured times of the tiles for shapes of one kind of products."""

    def __init__(self, model, rows):
        """`rows`: for each shape, a list of pairs of a cell of the model and a time."""
        self.model, self.rows = model, rows
        self.cells = b"".join(cell for row in rows for cell, _ in row)
        self.us = np.array([us for row in rows for _, us in row])
        sizes = np.array([len(row) for row in rows])
        self.start = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        self.shape = np.repeat(np.arange(len(rows)), sizes)
        self.behind = np.log(self.us / np.minimum.reduceat(self.us, self.start)[self.shape])
        self.cost = self.behind + self.behind**2 / TWICE
        self.good = np.exp(-self.behind / GOOD)

    def estimate(self, rates):
        us = np.empty(len(self.us))
        self.model.fit_estimate(self.cells, len(us), rates.ctypes.data, us.ctypes.data)
        return us

    def loss(self, rates):
        """How far the choice is behind, as a logarithm, with the error of the estimates."""
        logs = np.log(self.estimate(rates))
        weights = np.exp((np.minimum.reduceat(logs, self.start)[self.shape] - logs) / NEAR)
        lost = np.add.reduceat(weights * self.cost, self.start) / np.add.reduceat(weights, self.start)
        error = np.sum(self.good * np.abs(logs - np.log(self.us))) / np.sum(self.good)
        return lost.mean() + ERROR_WEIGHT * error

    def chosen_behind(self, rates):
        """For each shape, how far the chosen tile is behind the best, as a logarithm."""
        us = self.estimate(rates)
        return np.array([self.behind[first + np.argmin(us[first:first + len(row)])]
                         for first, row in zip(self.start, self.rows)])


@functools.cache
def tiles_of(kind):
    """The names of the tiles that there are for a type; none if the type is not fitted."""
    return set(re.findall(r'_(\d+x\d+\w*)"', (KERNELS / TILES[kind]).read_text())) if kind in TILES else set()


def cells_of(model, path):
    """For each row of a table: the cells of the model with the time of each, in tiles that there are."""
    cell = ctypes.create_string_buffer(model.fit_cell_bytes())
    for kind, layer, times in read_conv_table(path):
        sizes = (ctypes.c_uint64 * len(layer))(*layer)
        yield [(cell.raw, us) for tile, us in times.items()
               if tile in tiles_of(f"conv_{kind}") and model.fit_cell_set_conv(cell, kind.encode(), sizes, tile.encode())]
    for kind, epilogue, shape, times in read_table(path):
        yield [(cell.raw, us) for tile, us in times.items()
               if tile in tiles_of(kind) and model.fit_cell_set(cell, kind.encode(), epilogue, *shape, tile.encode())]


def measured(model, paths):
    """The times of all tables, for each kind of products that is fitted."""
    kinds = {ctypes.addressof(ctypes.c_double.in_dll(model, f"sm90_rates_{name}")): name for name in FITTED}
    rows = {name: [] for name in FITTED}
    for path in paths:
        for row in cells_of(model, path):
            name = kinds.get(model.fit_rates_of(row[0][0])) if len(row) > 1 else None
            if name is not None:
                rows[name].append(row)
    return {name: Times(model, some) for name, some in rows.items() if some}


def rounded(value):
    return float(f"{value:.{DIGITS}g}")


def descend(times, rates, which):
    """Changes one constant after the other as long as that lessens the loss, in smaller and smaller steps."""
    rates, least, steps = rates.copy(), times.loss(rates), {i: STEP_FIRST for i in which}
    while max(steps.values()) >= STEP_LEAST:
        for i in which:
            if steps[i] < STEP_LEAST:
                continue
            value, steps[i] = rates[i], steps[i] / 2
            for factor in (1 + 2 * steps[i], 1 / (1 + 2 * steps[i])):
                rates[i] = rounded(value * factor)
                if (loss := times.loss(rates)) < least - 1e-7:
                    least, steps[i] = loss, min(0.6, 2.8 * steps[i])
                    break
                rates[i] = value
    return rates, least


def fit(times, rates, which):
    """The constants with the least loss that is found. `which`: the indices of those that may change."""
    random = np.random.default_rng(SEED)
    best, least = descend(times, rates, which)
    for kick in range(KICKS):
        start = best.copy()
        for i in which:
            start[i] = rounded(start[i] * np.exp(random.normal() * (0.1, 0.3)[kick % 2]))
        found, loss = descend(times, start, which)
        if loss < least - 1e-7:
            best, least = found, loss
    return best


def percent_behind(logs):
    return 100 * (np.exp(np.mean(logs)) - 1)


def fitted(times, rates, name):
    """The constants of a kind of products, of which `rates` has those that are not fitted."""
    names = constants()
    which = [names.index(constant) for constant in FITTED[name]]
    rates = rates.copy()
    rates[which] = [START[constant] for constant in FITTED[name]]
    return fit(times, rates, which)


def held_out(times, rates, name):
    """As chosen_behind, each quarter of the shapes with constants that were fitted to the others."""
    parts = []
    for quarter in range(4):
        train, judge = (Times(times.model, [row for i, row in enumerate(times.rows) if (i % 4 == quarter) == out])
                        for out in (False, True))
        parts.append(judge.chosen_behind(fitted(train, rates, name)))
    return np.concatenate(parts)


def replaced(text, name, rates):
    """The text of rates.c with the fitted constants of one kind of products."""
    table = re.search(rf"(?s)struct sm90_rates sm90_rates_{name} = \{{.*?\}};", text)
    block = table[0]
    for constant, value in zip(constants(), rates):
        if constant in FITTED[name]:
            exponent = next((e for e in (6, 3) if value >= 10**e), 0)
            number = f"{value / 10**exponent:.{DIGITS}g}" + (f"e{exponent}" if exponent else "")
            block, found = re.subn(rf"(\.{constant} = )[^,]*,", rf"\g<1>{number},", block)
            assert found == 1, f"sm90_rates_{name} has no .{constant}"
    return text[:table.start()] + block + text[table.end():]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--held-out", action="store_true", help="judge the fit by shapes that it has not seen")
    parser.add_argument("--rates", type=Path, default=RATES, help="the file with the constants")
    parser.add_argument("--only", nargs="+", choices=FITTED, default=list(FITTED), metavar="KIND",
                        help="fit the constants of these kinds of products, and keep the others")
    parser.add_argument("tables", nargs="*", type=Path)
    options = parser.parse_args()
    paths = options.tables or sorted(path for name in LISTS
                                     for path in (ROOT / "tests/bench/results").glob(f"*-{name}-h100-*.md"))
    text = options.rates.read_text()
    with tempfile.TemporaryDirectory() as folder:
        model = compiled(folder, options.rates)
        print("| products | shapes | tiles measured | behind before, % | behind now, % | at most, % |" +
              (" held out, % |" if options.held_out else "") + "\n|---|---|---|---|---|---|" + "---|" * options.held_out)
        for name, times in measured(model, paths).items():
            if name not in options.only:
                continue
            before = np.array((ctypes.c_double * len(constants())).in_dll(model, f"sm90_rates_{name}"))
            now = fitted(times, before, name)
            behind = times.chosen_behind(now)
            print(f"| {name} | {len(times.rows)} | {len(times.us)} | "
                  f"{percent_behind(times.chosen_behind(before)):.2f} | {percent_behind(behind):.2f} | "
                  f"{100 * np.expm1(behind.max()):.0f} |" +
                  (f" {percent_behind(held_out(times, before, name)):.2f} |" if options.held_out else ""), flush=True)
            text = replaced(text, name, now)
    if not options.held_out:
        options.rates.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
