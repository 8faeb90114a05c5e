"""Copies that follow one another at equal distances, joined to one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from systolic.isa import Copy
from systolic.isa.access import MAX_PAIRS, coalesced


def joined(copies: Sequence[Copy]) -> list[Copy]:
    """Return copies with those that follow one another at equal distances as one, in their order.

    A series of series is one copy as well, as long as an access has pairs enough.
    """
    found = list(copies)
    while True:
        fewer = [copy for series in _series(found) for copy in _as_one(series)]
        if len(fewer) == len(found):
            return fewer
        found = fewer


def _series(copies: Sequence[Copy]) -> list[list[Copy]]:
    """Return lists of neighbours that are alike but for their starts, at equal distances."""
    found: list[list[Copy]] = []
    distance: tuple[int, int] | None = None
    for copy in copies:
        last = found[-1][-1] if found else None
        gap = None if last is None else _distance(last, copy)
        if gap is not None and (len(found[-1]) == 1 or gap == distance):
            found[-1].append(copy)
            distance = gap
        else:
            found.append([copy])
    return found


def _distance(one: Copy, other: Copy) -> tuple[int, int] | None:
    """Return the bytes from a copy's source and target to a like copy's."""
    source = replace(one.source, start=other.source.start)
    target = replace(one.target, start=other.target.start)
    if replace(one, source=source, target=target) != other:
        return None
    gaps = []
    for here, there in ((one.source, other.source), (one.target, other.target)):
        gap = there.start - here.start
        if gap <= 0 or gap % here.element_bytes:
            return None
        gaps.append(gap)
    return gaps[0], gaps[1]


def _as_one(series: Sequence[Copy]) -> Sequence[Copy]:
    if len(series) == 1:
        return series
    first, second = series[:2]
    ends = []
    for here, there in ((first.source, second.source), (first.target, second.target)):
        step = (there.start - here.start) // here.element_bytes
        pattern = coalesced(((step, len(series)), *here.pattern))
        if len(pattern) > MAX_PAIRS:
            return series
        ends.append(replace(here, pattern=pattern))
    return [replace(first, source=ends[0], target=ends[1])]
