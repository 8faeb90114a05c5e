"""Reductions of a tile: the elements of a window, or segment by segment until one is left.

An engine reduces at most as many elements at once as a segment has, in their order: the reference
adds in the same order. The results of segments are reduced likewise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from systolic.compiler.streams.lying import Lying, pattern_access
from systolic.isa import Access
from systolic.isa.access import MAX_PAIRS

ReducedPairs = list[tuple[int, int]]


class Level(NamedTuple):
    """One instruction: windows of `window` elements of the source, each made one of the target."""

    source: Access
    target: Access
    window: int


def segments(count: int, most: int) -> list[int]:
    """Return how many elements are left for each result after each level; the last is 1."""
    found = []
    while True:
        count = -(-count // most)
        found.append(count)
        if count == 1:
            return found


def levels(
    source: Lying,
    target: Lying,
    kept: Sequence[tuple[int, int, int]],
    reduced: ReducedPairs,
    most: int,
) -> Iterator[Level]:
    """Yield the instructions of one level.

    kept: (step of the source, step of the target, count) of what is kept, and reduced: (step,
    count) of what is reduced, the last fastest. They are one mode if there are more elements than
    `most`. The target has the results of a window's segments side by side.
    """
    count = math.prod(n for _, n in reduced)
    if count <= most:
        yield from _windows(source, target, list(kept), reduced)
        return
    ((step, _),) = reduced
    whole, rest = divmod(count, most)
    outer = [*kept, (step * most, 1, whole)]
    yield from _windows(source, target, outer, [(step, most)])
    if rest:
        yield from _windows(
            source.moved(whole * most * step), target.moved(whole), list(kept), [(step, rest)]
        )


def _windows(
    source: Lying, target: Lying, kept: list[tuple[int, int, int]], reduced: ReducedPairs
) -> Iterator[Level]:
    read = pattern_access(source, [*((step, n) for step, _, n in kept), *reduced])
    written = pattern_access(target, [(step, n) for _, step, n in kept])
    if max(len(read.pattern), len(written.pattern)) <= MAX_PAIRS or not kept:
        yield Level(read, written, math.prod(n for _, n in reduced))
        return
    (step, there, count), *inner = kept
    for n in range(count):
        yield from _windows(source.moved(n * step), target.moved(n * there), inner, reduced)
