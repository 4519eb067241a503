"""deploy/SCALING.md: its tables are those that its script writes, from figures that were measured."""

import importlib
import math
import re
import subprocess
import sys

import pytest

from conftest import DEPLOY, ROOT

sys.path.insert(0, str(DEPLOY / "scaling"))
capacity, placement, tables = (importlib.import_module(name)
                               for name in ("capacity", "placement", "tables"))
TEXT = (DEPLOY / "SCALING.md").read_text()
MOST = 100  # daemons; the rows of more take minutes


def committed(name):
    return tables.between(name).search(TEXT)[0].splitlines()[1:-1]


def is_small(row):
    count = re.match(r"\| ([\d,]+) \|", row)
    return count is None or int(count[1].replace(",", "")) <= MOST


def test_the_tables_are_those_that_the_script_writes():
    result = subprocess.run([sys.executable, DEPLOY / "scaling" / "tables.py", "--most", str(MOST)],
                            capture_output=True, text=True, check=True)
    parts = re.split(r"<!-- table: (.+) -->\n", result.stdout)[1:]
    written = dict(zip(parts[::2], (part.splitlines() for part in parts[1::2]), strict=True))
    assert set(written) == set(re.findall("<!-- table: (.+) -->", TEXT)), "every table has its place"
    for name, lines in written.items():
        rows = committed(name)
        if name in ("balance", "rollout"):
            assert len(rows) > len(lines) > 2
            rows = list(filter(is_small, rows))
        assert rows == lines, f"run deploy/scaling/tables.py for the table '{name}'"


def result_named(name):
    """The table in tests/bench/results that a name in capacity.py stands for."""
    stem, _, kind = name.partition(" ")
    found = [path for path in (ROOT / "tests/bench/results").glob(f"{stem}*.md")
             if "few-columns" not in path.name and (not kind or path.stem.endswith(kind.strip("()")))]
    assert len(found) == 1, (name, found)
    return found[0].read_text()


@pytest.mark.parametrize("figure, name", [
    ("309,717/s", capacity.SERVE), ("1,454/s", capacity.SERVE), ("85/s", capacity.SERVE),
    ("291,591/s", capacity.SERVE), ("| 1024³ | 16 | 1551.7 ", capacity.WAYS),
    ("| 5492.1 (3.54)", capacity.WAYS), ("| 21431.3 (13.81)", capacity.WAYS),
    ("| 64³ | 16 | 65484.3 ", capacity.WAYS), ("| 86781.8 (1.33)", capacity.WAYS),
    ("| 57593.0 (0.88)", capacity.WAYS), ("| 4096³ | 8 | 87.0 ", capacity.WAYS),
    ("| 358.0 (4.11)", capacity.WAYS), ("| 731.5 (8.40)", capacity.WAYS),
    ("| 1024×1024×1024 | 74.2 |", capacity.SERVED), ("| 4096×4096×4096 | 121.6 |", capacity.SERVED),
    ("| 703.1 | 128x256_1x2 | 1.008 |", capacity.KERNELS), ("| 688.9 |", capacity.KERNELS),
    ("| 150.2 |", capacity.KERNELS), ("| 178.2 |", capacity.KERNELS), ("| 661.8 |", capacity.KERNELS),
    ("| decode 1x32 d128 S8192 | decode | 2711.5 |", capacity.CUDNN),
])
def test_figures_are_those_of_the_named_result(figure, name):
    assert figure in result_named(name)


def test_every_limit_is_what_its_arithmetic_says():
    shape = next(shape for shape in capacity.SHAPES if shape.name == "f32 4096³")
    assert (shape.received, shape.sent) == (128 << 20, 64 << 20)
    assert math.isclose(shape.network(12.5e9), 12.5e9 / (128 << 20))
    assert math.isclose(shape.bus, 55e9 / (128 << 20))
    assert math.isclose(shape.gpu * 2 * 4096 ** 3, 121.6e12)
    assert shape.binding("100 Gbit/s") == ("HTTP", 85)


@pytest.mark.parametrize("factor", [1.1, 1.25, 2.0])
def test_no_daemon_exceeds_its_bound(factor):
    outcome = placement.simulate(50, "Zipf", factor, 1)
    slots = math.ceil((placement.OUTSTANDING * 50 + 1) * factor / 50)
    assert outcome.hottest <= slots / placement.OUTSTANDING


def test_a_tensor_moves_only_if_its_daemon_stops():
    ring = placement.Ring(50, 800, 1)
    up = placement.np.ones(50, dtype=bool)
    before = ring.homes(up)
    up[7] = False
    after = ring.homes(up)
    assert (before == 7).any() and not (after == 7).any()
    assert (before[before != 7] == after[before != 7]).all()
