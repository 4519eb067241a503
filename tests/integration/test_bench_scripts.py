"""The scripts that measure on a GPU: what they do without one, and how they read the profiler."""

import importlib.util
import os
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent


def load(path):
    """A script as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("script", "says"),
    [("bench/ladder", "nothing is measured"), ("gpu/counters.py", "nothing is counted")],
)
def test_says_that_there_is_no_gpu(script, says):
    """No program is found and no GPU is visible, also where the host has one."""
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PATH": "/nonexistent"}
    run = subprocess.run(
        [sys.executable, TESTS / script], env=hidden, capture_output=True, text=True, check=False,
        timeout=120,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert says in run.stdout


counters = load(TESTS / "gpu" / "counters.py")


def ncu_log(kernels):
    """What `ncu --csv --page raw` writes for a list of (name, {metric: value})."""
    metrics = counters.SUMS + counters.STATES
    columns = ["ID", "Kernel Name", *metrics]
    units = ["", "", *("byte" if "bytes" in metric else "" for metric in metrics)]
    rows = [
        [str(i), name, *(values.get(metric, "0") for metric in metrics)]
        for i, (name, values) in enumerate(kernels)
    ]
    quoted = [",".join(f'"{cell}"' for cell in row) for row in [columns, units, *rows]]
    return "\n".join(["==PROF== Connected to process 7", *quoted, "==PROF== Disconnected"])


def kernel(ms, dram, registers, limits=(8, 16, 2, 32)):
    """Counters of one kernel, with the thousands separated as ncu does."""
    values = {
        "gpu__time_duration.sum": f"{ms * 1000000:,}",
        "dram__bytes_read.sum": f"{dram:,}",
        "launch__registers_per_thread": str(registers),
    }
    return values | dict(zip(counters.LIMITS, map(str, limits)))


def test_counters_of_a_launch_are_those_of_its_kernels():
    log = ncu_log([
        ("counters_marker()", {}),
        ("parts_kernel", kernel(1, 1_000_000, 40)),
        ("wgmma_kernel", kernel(5, 2_500_000, 168)),
        ("(anonymous namespace)::counters_marker()", {}),
        ("naive_kernel", kernel(9, 7, 32)),
    ])  # fmt: skip
    found = counters.launches_of(counters.kernels_of(log), ["wgmma", "naive"])
    assert found["wgmma"]["kernels"] == 2
    assert found["wgmma"]["dram__bytes_read.sum"] == 3_500_000
    assert found["wgmma"]["launch__registers_per_thread"] == 168
    assert found["naive"]["dram__bytes_read.sum"] == 7
    assert counters.occupancy_limit(found["naive"]) == (2, "threads")


def test_two_limits_of_the_occupancy_are_both_named():
    log = ncu_log([("counters_marker", {}), ("k", kernel(1, 1, 1, limits=(4, 4, 8, 32)))])
    found = counters.launches_of(counters.kernels_of(log), ["k"])
    assert counters.occupancy_limit(found["k"]) == (4, "registers, shared memory")


@pytest.mark.parametrize(
    ("kernels", "names", "reason"),
    [
        ([("counters_marker", {}), ("k", {})], ["k", "l"], "2 launches were made, and ncu lists 1"),
        ([("counters_marker", {}), ("counters_marker", {})], ["k", "l"], "no kernel of k"),
    ],
)
def test_counters_that_do_not_fit_the_launches_are_refused(kernels, names, reason):
    with pytest.raises(ValueError, match=reason):
        counters.launches_of(counters.kernels_of(ncu_log(kernels)), names)


def test_a_log_without_a_table_is_refused_with_its_end():
    with pytest.raises(ValueError, match="ERR_NVGPUCTRPERM"):
        counters.kernels_of("==ERROR== ERR_NVGPUCTRPERM - no permission")


PROGRAM = """#!/bin/sh
case "$*" in
--version) echo "gemmd 1 (abc)" ;;
*--time*patterns) printf 'row, read\\t0.5\\ncolumn, read\\t16\\n' ;;
*--time*) printf 'naive, f32\\t50\\n' ;;
*patterns) printf 'row, read\\t10\\ncolumn, read\\t10\\n' ;;
*) printf 'naive, f32\\t0\\n' ;;
esac
"""
# Knows no optional metric. The log's name is the argument after --log-file, and the program is last.
NCU = """#!/bin/sh
case "$*" in --version) echo "Version 1.2"; exit ;; *lts__t_bytes*) echo "no such metric"; exit 1 ;; esac
while [ "$1" != --log-file ]; do shift; done
log=$2
shift 4
case "$*" in *patterns) cat "{0}/patterns" ;; *) cat "{0}/products" ;; esac >"$log"
exec "$@"
"""


def test_tables_are_those_of_a_profiler_without_the_optional_metrics(tmp_path):
    ratio = {f"{counters.SHARED}_op_ld.sum": "320", f"{counters.CONFLICTS}_op_ld.sum": "310"}
    marker = ("counters_marker", {})
    naive = kernel(50, 4_000_000, 32) | {counters.ACHIEVED: "97.4"}
    (tmp_path / "patterns").write_text(
        ncu_log([marker, ("r", {f"{counters.SHARED}_op_ld.sum": "10"}), marker, ("c", ratio)])
    )
    (tmp_path / "products").write_text(ncu_log([marker, ("naive", naive)]))
    (tmp_path / "bin").mkdir()
    for name, text in [("gemmd-bench-counters", PROGRAM), ("ncu", NCU.format(tmp_path)),
                       ("nvidia-smi", "#!/bin/sh\necho a GPU")]:  # fmt: skip
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    out = tmp_path / "counters.md"
    run = subprocess.run(
        [sys.executable, TESTS / "gpu/counters.py", "--build", tmp_path, "--out", out],
        env={**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    text = out.read_text()
    assert "| column, read | 32.00 | 31.00 | 0 | 0 % | 32.00 |" in text
    assert "| naive, f32 | 2.75 | 0 | 0 | 0 | 4 | 0 | – | 97 % | 0 % | 2 (threads) | – |" in text
    assert "| naive, f32 | 0 | 32 | 0.0 | 2 (threads) | 0.0 % | 97.4 % | – | 2.75 |" in text


def test_curves_have_a_point_for_each_measured_size():
    plot = load(TESTS / "bench" / "ladder" / "plot.py")
    curves = {"gemmd naive": [1.0, 2.0, 4.0], "a < b & c": [3.0, None, 5.0]}
    text = plot.svg([("f32, C = A·B", "TFLOP/s", (256, 512, 1024), curves)] * 2)
    tree = xml.etree.ElementTree.fromstring(text)
    name = "{http://www.w3.org/2000/svg}"
    points = [path.get("d").count("L") + 1 for path in tree.iter(f"{name}path")
              if path.get("class") == "curve" and "h" not in path.get("d")]  # fmt: skip
    assert points == [2, 3] * 2  # the curve that ends higher is first
    assert sum("a < b & c" in (each.text or "") for each in tree.iter(f"{name}text")) == 2
