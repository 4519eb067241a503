"""The simulation of the placement of requests on devices: it repeats itself, and the daemon's policy
is better than the others where they are known to be bad."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench" / "serving"))

import placement  # noqa: E402

REQUESTS = 4000


def run(mix, policy, seed=1, devices=4):
    return placement.simulate(placement.MIXES[mix], devices, placement.POLICIES[policy], 0.7,
                              REQUESTS, seed)


def test_the_same_seed_gives_the_same_figures():
    mix, policy = "mixed", "done first, copies pay"
    assert run(mix, policy) == run(mix, policy)
    assert run(mix, policy) != run(mix, policy, seed=2)


def test_a_hot_tensor_is_copied_and_not_all_tensors_are():
    chosen = run("one hot tensor", "done first, copies pay")
    assert chosen["p99_us"] < run("one hot tensor", "at its tensor")["p99_us"]
    assert chosen["imbalance"] < run("one hot tensor", "at its tensor")["imbalance"]
    many = "layers of many models"
    assert run(many, "done first, copies pay")["moved_mib"] < run(many, "in turn")["moved_mib"]
    assert run(many, "at its tensor")["moved_mib"] == 0


def test_work_is_conserved():
    """Without resident operands every policy computes the same work."""
    for policy in placement.POLICIES:
        found = run("small products", policy)
        assert found["moved_mib"] == found["copies"] == 0
        assert found["imbalance"] >= 1
