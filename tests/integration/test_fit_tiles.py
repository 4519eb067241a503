"""tests/bench/fit_tiles.py, which fits the constants by which wgmma and convolutions choose their tiles to committed tables."""

import importlib.util
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests/bench/fit_tiles.py"
RATES = ROOT / "kernels/cuda/sm90/gemm/rates.c"

spec = importlib.util.spec_from_file_location("fit_tiles", SCRIPT)
fit_tiles = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fit_tiles)


@pytest.fixture(scope="module")
def kinds(request):
    """Kinds of products: by night all of them, or else a third, since a fit takes seconds."""
    kinds = sorted(fit_tiles.FITTED)
    if request.config.option.tier == "nightly":
        return kinds
    return random.Random(request.config.option.seed).sample(kinds, (len(kinds) + 2) // 3)


@pytest.fixture(scope="module")
def written(tmp_path_factory, kinds):
    """The constants that the script writes, and what it prints, where the fitted constants were lost before."""
    rates = tmp_path_factory.mktemp("rates") / "rates.c"
    text = RATES.read_text()
    for name in kinds:
        blank = np.array([fit_tiles.START.get(constant, 0) for constant in fit_tiles.constants()])
        text = fit_tiles.replaced(text, name, blank)
    rates.write_text(text)
    run = subprocess.run([sys.executable, SCRIPT, "--rates", rates, "--only", *kinds], capture_output=True, text=True,
                         timeout=1800, check=False)
    assert run.returncode == 0, run.stderr
    return rates.read_text(), run.stdout


def test_the_committed_constants_are_those_that_the_script_fits(written):
    assert written[0] == RATES.read_text(), "run tests/bench/fit_tiles.py and commit what it changes"


def test_the_choice_is_hardly_behind_the_best_tile(written, kinds):
    """The constants with which the search begins are 1 to 10 % behind."""
    rows = re.findall(r"^\| (\w+) \| (\d+) \| \d+ \| ([\d.]+) \| ([\d.]+) \|", written[1], re.MULTILINE)
    assert {name for name, *_ in rows} == set(kinds)
    for name, shapes, before, now in rows:
        assert int(shapes) > 50
        assert float(now) < min(1.5, float(before)), name


def test_every_fitted_constant_is_a_member_and_has_a_start():
    for constants in fit_tiles.FITTED.values():
        assert set(constants) <= set(fit_tiles.constants()) & set(fit_tiles.START)


def test_tiles_that_are_in_no_table_of_kernels_are_left_out():
    tiles = fit_tiles.tiles_of("bf16")
    assert "128x256_1x2" in tiles
    assert "128x192_chunks" not in tiles, "older tables have it"
    assert fit_tiles.tiles_of("conv_i8") == {"128x256_1x2", "128x128_pp_2x1", "128x64", "64x64"}
    assert not fit_tiles.tiles_of("f64")


def test_a_layer_whose_taps_may_be_merged_is_left_out(tmp_path):
    """Such a layer is another product: kernels/cuda/conv/implicit.c."""
    table = tmp_path / "table.md"
    table.write_text("""
## Convolutions, bf16, nhwc, gemmd 0.2.0 (0123456789ab)

| layer | chosen | ms | TFLOP/s | best | all |
|---|---|---|---|---|---|
| 2 64 10 32 3 1 1 | implicit | 0.0022 | 3.4 | bf16_64x64 3.7 | implicit 3.4 product 1.0 bf16_64x64 3.6864 |
| 2 3 10 32 3 1 1 | implicit | 0.0022 | 3.4 | bf16_64x64 3.7 | implicit 3.4 bf16_64x64 3.7 |
| 2 96 10 32 2 2 0 | implicit | 0.0022 | 3.4 | bf16_64x64 3.7 | implicit 3.4 bf16_64x64 3.7 |
""")
    assert list(fit_tiles.read_conv_table(table)) == [
        ("bf16", (2, 64, 10, 32, 3, 1, 1), {"64x64": pytest.approx(2 * 2 * 100 * 32 * 64 * 9 / 3.6864e6)})]


def test_the_time_of_the_best_tile_is_taken_with_all_its_digits(tmp_path):
    table = tmp_path / "table.md"
    table.write_text("""
## bf16, 2026-11-26 23:28 UTC

Own kernels add a bias and an activation, cuBLASLt does not.

| m×n×k | cuBLASLt best (of) | first | own best | kernel | ratio |
|---|---|---|---|---|---|
| 100×200×300 | 24.0 (8) | 20.0 | 30.0 | 64x64 | 1.254 |

Every kernel, percent of cuBLASLt's best:

| m×n×k | 128x64 | 64x64 | 64x96 |
|---|---|---|---|
| 100×200×300 | 50.0 | 125.0 | |
""")
    (kind, epilogue, shape, times), = fit_tiles.read_table(table)
    assert (kind, epilogue, shape) == ("bf16", True, (100, 200, 300))
    assert times == {"128x64": pytest.approx(1.0), "64x64": pytest.approx(0.5 / 1.254)}
