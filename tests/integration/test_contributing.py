"""CONTRIBUTING.md names files, and functions in them, that are there; server/THREATS.md tests;
kernels/LADDER.md files; sources files. Tables of measurements are there if a file names them, and only then."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
RESULTS = "tests/bench/results"
PLACE = r"`((?:client|deploy|kernels|proto|server|tests)/[\w./*-]*)`"


def test_named_paths_are_there():
    paths = re.findall(PLACE, TEXT)
    assert len(paths) > 50
    # NAME stands for any name.
    assert [path for path in paths if not any(ROOT.glob(path.replace("NAME", "*")))] == []


def test_paths_in_sources_are_there():
    sources = [ROOT / name for name in subprocess.run(
        ["git", "ls-files", "*.c", "*.h", "*.cu", "*.cuh"], cwd=ROOT, capture_output=True, text=True,
        check=True).stdout.split()]
    path = re.compile(r"(?<![\w./-])((?:client|deploy|kernels|proto|server|tests)/[\w./-]*\.(?:c|h|cu|cuh|py|md|sh))\b")
    named = [(str(source.relative_to(ROOT)), name) for source in sources if source.exists()
             for name in path.findall(source.read_text())]
    assert len(named) > 3000
    assert [pair for pair in named if not (ROOT / pair[1]).exists()] == []


def test_links_of_the_ladder_lead_to_files():
    page = ROOT / "kernels/LADDER.md"
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text())
    assert len(links) > 15
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_headings_of_the_ladder_are_those_that_its_table_links_to():
    text = (ROOT / "kernels/LADDER.md").read_text()
    headings = {re.sub(r"[`.]", "", line).lower().replace(" ", "-")
                for line in re.findall(r"^## (.*)$", text, re.M)}
    assert [link for link in re.findall(r"\]\(#([^)]+)\)", text) if link not in headings] == []


def is_defined(function, path):
    source = (ROOT / path).read_text()
    return re.search(rf"^\w[^;=\n]*\b{function}\([^;]*?\)\n\{{", source, re.M)


def test_named_functions_are_in_the_file_before_them():
    named = [(function, path)
             for path, functions in re.findall(PLACE + r" \(([^)]*)\)", TEXT) if path.endswith(".c")
             for function in re.findall(r"`(\w+)`", functions)]
    assert len(named) > 10
    assert [pair for pair in named if not is_defined(*pair)] == []


def tables_named_elsewhere():
    """The tables of tests/bench/results that tracked files outside of it name, as patterns of their stems.

    A name may leave out the GPU at its end, … stands for any text, and a type may follow in brackets."""
    lines = subprocess.run(["git", "grep", "-IhE", "-e", "-20[0-9]{2}-[0-9]{2}-[0-9]{2}|results/", "--", ".",
                            f":!{RESULTS}"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    named = set(re.findall(r"([a-z][a-z0-9-]*-20\d\d-\d\d-\d\d[\w…-]*)(?: \((bf16|f16|f32|i8)\))?", lines))
    patterns = {" ".join(name): re.compile("-".join(filter(None, (
        re.escape(name[0]).replace("…", ".*") + "(?:-(?:nvidia-)?h100-80gb-hbm3)?", name[1])))) for name in named}
    return lines, patterns


def test_each_table_of_measurements_is_named_by_a_file():
    lines, patterns = tables_named_elsewhere()
    tables = [path for path in (ROOT / RESULTS).iterdir() if path.name != "README.md"]
    assert len(tables) > 10
    assert [path.name for path in tables if f"results/{path.name}" not in lines
            and not any(pattern.fullmatch(path.stem) for pattern in patterns.values())] == []


def test_tables_of_measurements_that_are_named_are_there():
    stems = [path.stem for path in (ROOT / RESULTS).iterdir()]
    assert [name for name, pattern in tables_named_elsewhere()[1].items() if not any(map(pattern.fullmatch, stems))] == []


def test_threats_are_tested():
    text = (ROOT / "server/THREATS.md").read_text()
    tests = ROOT / "tests/integration"
    named = re.findall(r"`(test_\w+\.py)(?:::(\w+))?`", text)
    assert len(named) > 30
    assert [(file, function) for file, function in named
            if not (tests / file).exists()
            or function and f"def {function}(" not in (tests / file).read_text()] == []
    assert [path for path in re.findall(PLACE, text) if not (ROOT / path).exists()] == []
