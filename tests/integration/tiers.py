"""Which files of tests/integration a tier and a sanitizer run: the table in tiers.txt."""

from pathlib import Path

TIERS = ("first", "all", "nightly")  # each runs what those before it run
SANITIZERS = ("asan", "tsan")
# Of a file that is not in the table.
DEFAULT = ("all", SANITIZERS)


def read():
    """{name of a file: (the first tier that runs it, the sanitizers that run it)}"""
    table = {}
    for line in Path(__file__).with_name("tiers.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, tier, sanitizers = line.split()
            assert name not in table, f"tiers.txt has {name} twice"
            table[name] = (tier, tuple(sanitizers.split(",")) if sanitizers != "-" else ())
    return table


TABLE = read()


def is_test(path):
    return path.parent == Path(__file__).parent and path.name.startswith("test_") and path.suffix == ".py"


def runs(path, tier, sanitizer=None):
    """Whether the tier runs the file, or its part with the sanitizer. By night a sanitizer runs every file
    that any sanitizer runs."""
    first, sanitizers = TABLE.get(path.name, DEFAULT)
    if sanitizer is not None and not (sanitizers if tier == "nightly" else sanitizer in sanitizers):
        return False
    return TIERS.index(first) <= TIERS.index(tier)
