"""Labels of a unit: from claims that overlap to intervals, against a statement cycle by cycle."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from systolic.trace.labels import Claim, resolve, tally

KINDS = {
    "streaming": 0,
    "stalled by pooling": 1,
    "stalled by dma": 1,
    "loading": 2,
    "filling": 3,
    "draining": 4,
    "waiting for pe_array": 5,
    "waiting for issue": 5,
}
"""Labels, and the places of their kinds in the order of the timing model: the first one wins."""


def label_in(cycle: int, claims: list[Claim]) -> str:
    """Return the label of one cycle: of the claims on it the first kind, then the lowest order."""
    those = [
        (KINDS[label], order, label)
        for first, stop, label, order in claims
        if first <= cycle < stop
    ]
    return min(those)[2] if those else "idle"


def random_claims(rng: random.Random, total: int) -> list[Claim]:
    """Return claims that may begin before cycle 0 and stop behind the last."""
    firsts = [rng.randrange(-3, total) for _ in range(rng.randrange(9))]
    return [(f, f + rng.randint(1, 12), rng.choice([*KINDS]), rng.randrange(4)) for f in firsts]


@pytest.mark.parametrize("seed", range(300))
def test_each_cycle_carries_the_label_that_wins(seed: int) -> None:
    rng = random.Random(seed)
    total = rng.randint(1, 30)
    claims = random_claims(rng, total)
    intervals = resolve(claims, total)
    spread = [one.label for one in intervals for _ in range(one.first, one.stop)]
    assert spread == [label_in(cycle, claims) for cycle in range(total)]
    assert intervals[0].first == 0
    assert all(a.stop == b.first and a.label != b.label for a, b in pairwise(intervals))
    assert sum(tally(intervals, total, "pooling").values()) == total


def test_a_run_of_no_cycles_has_no_labels() -> None:
    assert resolve([(0, 4, "streaming", 0)], 0) == ()


def test_a_unit_without_claims_is_idle() -> None:
    assert [tuple(one) for one in resolve([], 7)] == [(0, 7, "idle")]
