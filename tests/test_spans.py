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


def test_the_ends_of_an_interval_are_taken_apart():
    low, high = Interval(4, 7)
    assert (low, high) == (4, 7)


@pytest.mark.parametrize("a", [Interval(0, 3), Interval(2, 4), Interval(3, 4), Interval(5, 6)])
@pytest.mark.parametrize("b", [Interval(0, 1), Interval(1, 5), Interval(3, 5), Interval(4, 9)])
def test_intervals_meet_if_they_have_a_number_in_common(a, b):
    assert a.meets(b) == bool({*range(*a)} & {*range(*b)})


def test_they_are_values():
    assert len({Span(1, 2), Span(1, 2)}) == 1
    assert sorted([Span(3, 1), Span(1, 9)]) == [Span(1, 9), Span(3, 1)]
    with pytest.raises(dataclasses.FrozenInstanceError):
        Interval(1, 2).first = 0
