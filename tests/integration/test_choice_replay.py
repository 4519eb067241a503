"""gemmd-bench choice, which says from committed tables what the model of the choice of tiles chooses."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TABLES = ["kernels-2026-11-26-2327-check-h100-80gb-hbm3-bf16",
          "kernels-2026-11-26-2327-check-h100-80gb-hbm3-bf16-fused",
          "kernels-2026-11-27-0027-check-h100-80gb-hbm3-i8"]


def summary(text, who):
    """Shapes, geometric mean, median, 5th percentile and lowest of a line of a summary."""
    line = re.search(rf"^\| {who} \|(.*)\|$", text, re.M)[1]
    return [float(cell) for cell in line.split("|")[:5]]


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_read_as_it_was_written(name, gemmd):
    path = ROOT / "tests/bench/results" / f"{name}.md"
    run = subprocess.run([gemmd.parent / "gemmd-bench", "choice", path], capture_output=True, text=True, timeout=60,
                         check=False)
    if "built without CUDA" in run.stderr:
        pytest.skip("this gemmd-bench was built without CUDA")
    assert run.returncode == 0, run.stderr
    best = summary(path.read_text(), "the best kernel")
    assert best[0] == 200
    assert summary(run.stdout, "the best kernel") == pytest.approx(best, abs=0.0015)
    shapes, mean = summary(run.stdout, "what is chosen")[:2]
    assert shapes == 200
    assert 0.9 * best[1] < mean <= best[1] + 0.001
