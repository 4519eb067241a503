"""CONTRIBUTING.md names files, and functions in them, that are there; server/THREATS.md tests;
kernels/LADDER.md files."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
PLACE = r"`((?:client|deploy|kernels|proto|server|tests)/[\w./*-]*)`"


def test_named_paths_are_there():
    paths = re.findall(PLACE, TEXT)
    assert len(paths) > 50
    # NAME stands for any name.
    assert [path for path in paths if not any(ROOT.glob(path.replace("NAME", "*")))] == []


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


def test_threats_are_tested():
    text = (ROOT / "server/THREATS.md").read_text()
    tests = ROOT / "tests/integration"
    named = re.findall(r"`(test_\w+\.py)(?:::(\w+))?`", text)
    assert len(named) > 30
    assert [(file, function) for file, function in named
            if not (tests / file).exists()
            or function and f"def {function}(" not in (tests / file).read_text()] == []
    assert [path for path in re.findall(PLACE, text) if not (ROOT / path).exists()] == []
