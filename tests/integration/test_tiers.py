"""tiers.txt, and what conftest.py makes of it: which tests a tier runs."""

import json
import re
import subprocess
import sys
from collections import Counter

import tiers
from conftest import ROOT

FOLDER = ROOT / "tests/integration"


def test_the_table_names_files_that_are_there():
    assert [name for name in tiers.TABLE if not (FOLDER / name).exists()] == []
    for name, (tier, sanitizers) in tiers.TABLE.items():
        assert tier in tiers.TIERS, name
        assert set(sanitizers) <= set(tiers.SANITIZERS), name
        assert (tier, sanitizers) != tiers.DEFAULT, f"{name} is what a file is without a line"


def test_a_new_file_runs_in_all_and_under_sanitizers():
    new = FOLDER / "test_new.py"
    assert [tier for tier in tiers.TIERS if tiers.runs(new, tier)] == ["all", "nightly"]
    assert all(tiers.runs(new, "all", sanitizer) for sanitizer in tiers.SANITIZERS)


def test_a_sanitizer_runs_more_by_night():
    """But none of the files that no sanitizer runs."""
    formats = FOLDER / "test_formats.py"
    assert [tier for tier in tiers.TIERS if tiers.runs(formats, tier, "tsan")] == ["nightly"]
    assert not any(tiers.runs(FOLDER / "test_arrows.py", tier, "asan") for tier in tiers.TIERS)


def test_all_runs_what_promises_lean_on():
    """The files that server/THREATS.md and the rows of tests/RELIABILITY.md name."""
    rows = json.loads((ROOT / "tests/reliability/figures.json").read_text())
    text = (ROOT / "server/THREATS.md").read_text() + (ROOT / "tests/reliability/by_tests.py").read_text() \
        + " ".join(row["by"] for row in rows.values())
    named = set(re.findall(r"\btest_\w+\.py\b", text))
    assert len(named) > 30
    assert [name for name in sorted(named) if not tiers.runs(FOLDER / name, "all")] == []


def test_a_promise_is_guarded_in_the_tier_that_the_table_says():
    """The table of promises in CONTRIBUTING.md: a file stands in the column of the first tier that runs it."""
    table = (ROOT / "CONTRIBUTING.md").read_text().split("| promise | first tier |")[1].split("\n\n")[0]
    columns = [line.strip("|").split("|")[1:] for line in table.splitlines()[2:]]
    named = [(name, tier) for texts in columns for tier, text in zip(tiers.TIERS, texts, strict=True)
             for name in re.findall(r"\btest_\w+\.py\b", text)]
    assert len(named) > 30
    assert [(name, tier) for name, tier in named if tiers.TABLE.get(name, tiers.DEFAULT)[0] != tier] == []


def collected(*arguments):
    ran = subprocess.run([sys.executable, "-m", "pytest", "-c", ROOT / "tests/pytest.ini", "--rootdir", ROOT / "tests",
                          "--collect-only", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return [line for line in ran.stdout.splitlines() if "::" in line]


def test_files_outside_the_tier_are_not_collected():
    names = {test.partition("::")[0].rpartition("/")[2]
             for test in collected("--tier", "first", "--sanitizer", "tsan", "--thin", FOLDER)}
    assert names == {path.name for path in FOLDER.glob("test_*.py") if tiers.runs(path, "first", "tsan")}
    assert 5 < len(names) < 30


def test_a_thinned_matrix_has_every_type():
    """And one case of it. No other test is left out."""
    whole, thin = collected(FOLDER / "test_conv2d.py"), collected("--thin", FOLDER / "test_conv2d.py")
    matrix = [test for test in whole if "test_types_shapes_and_layouts" in test]
    assert [test for test in whole if test not in matrix] == [test for test in thin if test not in matrix]
    kept = [test for test in thin if test in matrix]

    types = [test.split("-")[-3:] for test in kept]
    assert sorted(types) == sorted({tuple(test.split("-")[-3:]): test.split("-")[-3:] for test in matrix}.values())


def test_a_sanitizer_thins_what_is_not_hostile():
    """Other cases with another seed. ThreadSanitizer leaves no test out, and AddressSanitizer half of those that
    ThreadSanitizer has."""
    files = ["--thin", FOLDER / "test_http.py", FOLDER / "test_framing.py"]
    options = ["--sanitizer", "asan", *files]
    whole, thin = collected(*files), collected("--seed", "1", *options)
    threads = collected("--seed", "1", "--sanitizer", "tsan", *files)

    def tests(cases, name):
        return Counter(case.partition("[")[0] for case in cases if f"test_{name}.py" in case)

    assert tests(thin, "framing") == tests(whole, "framing")
    assert tests(threads, "http") == {test: min(count, 3) for test, count in tests(whole, "http").items()}
    assert tests(thin, "http") < tests(threads, "http")
    assert len(tests(thin, "http")) == (len(tests(whole, "http")) + 1) // 2
    assert sorted(thin) != sorted(collected("--seed", "2", *options))
