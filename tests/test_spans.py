"""Do the two ways to name a stretch of numbers agree, and do they never pass for each other?"""

from __future__ import annotations

import dataclasses

import pytest

from systolic.spans import Interval, Span


@pytest.mark.parametrize(("first", "count"), [(0, 0), (0, 1), (4, 3), (-2, 5)])
def test_a_span_and_an_interval_of_the_same_numbers_have_the_same_ends(first, count):
    span, interval = Span(first, count), Interval(first, first + count)
    assert (span.first, span.count, span.stop) == (interval.first, interval.count, interval.stop)
    assert len(range(span.first, span.stop)) == span.count


def test_a_span_is_no_interval():
    assert Span(4, 7) != Interval(4, 7)
    assert Span(4, 7).stop == 11
    assert Interval(4, 7).count == 3


def test_they_are_values():
    assert len({Span(1, 2), Span(1, 2)}) == 1
    assert sorted([Span(3, 1), Span(1, 9)]) == [Span(1, 9), Span(3, 1)]
    with pytest.raises(dataclasses.FrozenInstanceError):
        Interval(1, 2).first = 0
