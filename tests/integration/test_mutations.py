"""The faults that tests/mutations plants are in code, and are what they say."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "mutations"))

from faults import blanked, faults_of  # noqa: E402  # pylint: disable=wrong-import-position

TEXT = """/* a < b */
#define LIMIT (1 + 2)
static const char *const text = "x == y";

static bool fits(uint64_t size, uint64_t limit)
{
    /* 3 && 4 */
    if (size < limit && size != 7)
        return true;
    log_line("a + b", 'c');
    return false;
}
"""


def test_faults_are_in_the_code_of_functions():
    found = {(fault.kind, TEXT[fault.start:fault.end].strip(), fault.replacement.strip())
             for fault in faults_of(TEXT)}
    assert found == {
        ("comparison", "<", "<="), ("comparison", "!=", "=="), ("logic", "&&", "||"),
        ("constant", "7", "8"), ("result", "return true;", "return false;"),
        ("result", "return false;", "return true;"),
        ("negation", "size < limit && size != 7", "!(size < limit && size != 7)"),
        ("missing call", """log_line("a + b", 'c');""", ";")}


def test_a_planted_fault_changes_one_line():
    lines = TEXT.splitlines()
    for fault in faults_of(TEXT):
        planted = fault.planted(TEXT).splitlines()
        assert len(planted) == len(lines)
        assert sum(a != b for a, b in zip(planted, lines)) == 1, fault


def test_what_is_not_code_becomes_blank():
    assert len(blanked(TEXT)) == len(TEXT)
    assert "LIMIT" not in blanked(TEXT) and "x == y" not in blanked(TEXT)
