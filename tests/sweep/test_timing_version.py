"""Has a number moved? Then the timing version must have gone up, for stored results are of other
rules."""

from __future__ import annotations

from sweep.timing_counts import fault, pinned, recorded
from systolic.sweep.key import TIMING_VERSION


def test_no_pinned_count_moves_under_one_version() -> None:
    assert recorded()[0] == TIMING_VERSION, "run `make pins`"
    assert not fault(TIMING_VERSION, pinned(), recorded())


def test_a_count_that_moves_needs_a_new_version() -> None:
    before = (3, {"a": 1, "b": 2})
    assert "b: 2 -> 7" in fault(3, {"a": 1, "b": 7}, before)
    assert not fault(4, {"a": 1, "b": 7}, before)
    assert not fault(3, {"a": 1, "b": 2, "new": 9}, before)
