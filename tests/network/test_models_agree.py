"""Do the event model and the stepped one say the same of random systems, with trains and without?

A part of the sweep runs every time, a tenth in the slow tier, and all of it if
SYSTOLIC_ALL_NETWORKS is set; docs/verification.md has the last full run.
"""

from __future__ import annotations

import os

import pytest

from support.both_networks import event_run, stepped_run, train_run
from support.random_networks import random_system
from support.tiers import quick_first

ALL, TENTH, QUICK, PER_TEST = 10_000, 1_000, 100, 50
COUNT = ALL if os.environ.get("SYSTOLIC_ALL_NETWORKS") else TENTH


@pytest.mark.parametrize("first", quick_first(range(0, COUNT, PER_TEST), QUICK // PER_TEST))
def test_random_systems(first: int) -> None:
    for seed in range(first, first + PER_TEST):
        network, traffic = random_system(seed)
        expected = stepped_run(network, traffic)
        assert event_run(network, traffic) == expected, f"seed {seed}"
        del expected["hops"]
        for fewest in (1, 3):
            assert train_run(network, traffic, fewest) == expected, f"seed {seed}, trains"


def test_the_sweep_has_every_rule_in_it() -> None:
    """A sweep in which nobody ever waits, or nothing ever deadlocks, would prove little."""
    waited = deadlocks = clocks = oldest = stored = trains = 0
    for seed in range(QUICK):
        network, traffic = random_system(seed)
        found = event_run(network, traffic)
        deadlocks += "deadlock" in found
        waited += any(found.get("blocked", ()))
        clocks += network.ticks_mhz is not None
        oldest += network.arbitration == "oldest"
        stored += network.forwarding == "store"
        trains += max((len(each) for each in found.get("arrivals", [])), default=0) > 8
    assert min(waited, clocks, oldest, stored, trains) >= 10
    assert deadlocks >= 1
