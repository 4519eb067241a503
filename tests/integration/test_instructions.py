"""tests/bench/instructions.py: what requests cost, in instructions, and what the script makes of counts."""

import copy
import importlib.util
import json

import pytest

from conftest import ROOT

spec = importlib.util.spec_from_file_location("instructions", ROOT / "tests/bench/instructions.py")
instructions = importlib.util.module_from_spec(spec)
spec.loader.exec_module(instructions)

TABLE = json.loads(instructions.TABLE.read_text())


def test_requests_take_the_instructions_of_the_table(gemmd, sanitized, counted):
    """A change that is meant to change the counts writes the table anew: the script's --write."""
    if sanitized or counted:
        pytest.skip("the build counts or checks, in instructions of its own")
    if missing := instructions.missing_programs():
        pytest.skip(missing)
    if others := instructions.other_things(TABLE, instructions.made_with(gemmd)):
        pytest.skip(f"NOTHING WAS COMPARED. {'; '.join(others)}")
    found = instructions.differences(TABLE, instructions.count(gemmd))
    assert not found, "\n".join(found)


def test_the_table_has_every_request():
    assert list(TABLE["instructions"]) == list(instructions.KINDS)
    assert instructions.LEAST_TOLERANCE <= TABLE["tolerance"] <= instructions.MOST_TOLERANCE


@pytest.mark.parametrize("name", instructions.KINDS)
@pytest.mark.parametrize("factor", (0.9, 1.1))
def test_a_tenth_more_or_less_is_a_difference(name, factor):
    counts = TABLE["instructions"] | {name: round(TABLE["instructions"][name] * factor)}
    found, = instructions.differences(TABLE, counts)
    assert found.startswith(f"{name}: ") and f"{factor - 1:+.1%}" in found
    assert not instructions.differences(TABLE, TABLE["instructions"])


@pytest.mark.parametrize("name", TABLE["made with"])
def test_counts_of_another_compiler_or_library_are_not_compared(name):
    made = copy.deepcopy(TABLE["made with"])
    assert not instructions.other_things(TABLE, made)
    made[name] = "another"
    other, = instructions.other_things(TABLE, made)
    assert other.startswith(f"{name}: another")


def test_the_tolerance_is_twice_what_runs_differ():
    counts = TABLE["instructions"]
    runs = [{name: round(number * factor) for name, number in counts.items()} for factor in (0.98, 1, 1.01)]
    assert instructions.table_of({}, runs) == {"tolerance": pytest.approx(0.04, abs=1e-3), "instructions": counts,
                                               "made with": {}}
    with pytest.raises(instructions.CannotCount):
        instructions.table_of({}, [{name: round(number * 0.97) for name, number in counts.items()}, *runs[1:]])
