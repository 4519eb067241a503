"""CONTRIBUTING.md names files, and functions in them, that are there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
PLACE = r"`((?:client|deploy|kernels|proto|server|tests)/[\w./*-]*)`"


def test_named_paths_are_there():
    paths = re.findall(PLACE, TEXT)
    assert len(paths) > 50
    assert [path for path in paths if not any(ROOT.glob(path))] == []


def is_defined(function, path):
    source = (ROOT / path).read_text()
    return re.search(rf"^\w[^;=\n]*\b{function}\([^;]*?\)\n\{{", source, re.M)


def test_named_functions_are_in_the_file_before_them():
    named = [(function, path)
             for path, functions in re.findall(PLACE + r" \(([^)]*)\)", TEXT) if path.endswith(".c")
             for function in re.findall(r"`(\w+)`", functions)]
    assert len(named) > 10
    assert [pair for pair in named if not is_defined(*pair)] == []
