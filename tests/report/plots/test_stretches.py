"""Are the columns of a picture true: sums exact, and nothing short lost?"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from systolic.report.plots.stretches import Stretches, coverage, even_edges, runs_of
from systolic.spans import Interval


def by_hand(pairs: list[tuple[int, int]], edges: list[float]) -> list[float]:
    """Ticks of each column, one overlap at a time."""
    return [
        sum(max(0.0, min(stop, right) - max(first, left)) for first, stop in pairs)
        for left, right in pairwise(edges)
    ]


@pytest.mark.parametrize("seed", range(40))
def test_columns_against_one_overlap_at_a_time(seed: int) -> None:
    random = np.random.default_rng(seed)
    ends = random.integers(0, 60, (random.integers(0, 12), 2))
    pairs = [(int(min(p)), int(max(p)) + 1) for p in ends]
    found, edges = Stretches.of(pairs), even_edges(Interval(0, 61), int(random.integers(1, 30)))
    expected = by_hand(pairs, list(edges))
    np.testing.assert_allclose(found.per_column(edges), expected, atol=1e-9)
    assert list(found.touched(edges)) == [ticks > 0 for ticks in expected]
    on = {t for first, stop in pairs for t in range(first, stop)}
    assert found.merged.ticks == len(on)
    window = Interval(7, 31)
    assert found.within(window).ticks == sum(by_hand(pairs, [7, 31]))


def test_one_tick_in_ten_million_touches_one_column() -> None:
    edges = even_edges(Interval(0, 10_000_000), 1200)
    for tick in (0, 4_999_999, 8_000_010, 9_999_999):
        touched = Stretches.of([(tick, tick + 1)]).touched(edges)
        assert touched.sum() == 1
        assert edges[touched.argmax()] <= tick < edges[touched.argmax() + 1]


def test_a_stretch_that_crosses_an_edge_touches_both_columns() -> None:
    edges = even_edges(Interval(0, 100), 10)
    assert list(runs_of(Stretches.of([(9, 11)]).touched(edges))) == [(0, 2)]
    assert list(runs_of(Stretches.of([(9, 10)]).touched(edges))) == [(0, 1)]
    assert list(runs_of(Stretches.of([(10, 11), (95, 200)]).touched(edges))) == [(1, 2), (9, 10)]


def test_few_stretches_are_drawn_as_they_are() -> None:
    found = coverage({"a": Stretches.of([(0, 3), (5, 9)])}, Interval(0, 20), 100)
    assert found.is_exact
    assert (list(found.edges), list(found.shares["a"])) == ([0, 3, 5, 9, 20], [1, 0, 1, 0])
    many = Stretches.of([(2 * n, 2 * n + 1) for n in range(100)])
    sampled = coverage({"a": many}, Interval(0, 200), 10)
    assert not sampled.is_exact
    assert list(sampled.shares["a"]) == [0.5] * 10
