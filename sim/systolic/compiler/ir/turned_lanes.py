"""Moves on the chip of which the array turns all: partitions of the source become columns.

If no digit counts partitions before and after, one turn brings the elements of all partitions of
the source to those of the result, for each value of the digits that count columns on both sides: a
*band*. Not here: cycles, and nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product

from systolic.compiler.ir.chip_places import LANE
from systolic.compiler.ir.relays import RelayDigit, RelayEnds, steps_of_digits
from systolic.compiler.ir.windows import ColumnSteps, DigitWindow
from systolic.compiler.ir.word_relays import WordTurn
from systolic.isa.access import MAX_PAIRS

HALVES = 2


@dataclass(frozen=True, slots=True)
class TurnedLanes:
    """Both ends of a move, and its digits, all major to minor.

    source, result: those that count partitions before, and after. bands: all others.
    """

    ends: RelayEnds
    source: tuple[RelayDigit, ...]
    result: tuple[RelayDigit, ...]
    bands: tuple[RelayDigit, ...]

    @property
    def sides(self) -> tuple[int, int]:
        """The partitions before and after."""
        return math.prod(d.size for d in self.source), math.prod(d.size for d in self.result)

    @property
    def count(self) -> int:
        """How many bands there are."""
        return math.prod(digit.size for digit in self.bands)

    def turns(self) -> Iterator[tuple[WordTurn, tuple[int, ...]]]:
        """Yield the turn of each band, and in which halves of the result's columns it ends."""
        rows, cols = self.sides
        before = tuple((digit.size, digit.before) for digit in self.result)
        after = tuple((digit.size, digit.after) for digit in self.source)
        reach = sum(digit.after * (digit.size - 1) for digit in self.source)
        firsts = [end.first for end in (self.ends.source, self.ends.result)]
        for values in product(*(range(digit.size) for digit in self.bands)):
            here = firsts[0] + sum(n * d.before for n, d in zip(values, self.bands, strict=True))
            there = firsts[1] + sum(n * d.after for n, d in zip(values, self.bands, strict=True))
            halves = {HALVES * at // self.ends.result.columns for at in (there, there + reach)}
            windows = DigitWindow("", 0, here, (), before), DigitWindow("", 0, there, (), after)
            yield WordTurn(*windows, rows, cols), tuple(sorted(halves))


def turned_lanes(ends: RelayEnds, most: tuple[int, int]) -> TurnedLanes | None:
    """Return the bands of a move that turns do; None if it is no such move.

    most: partitions of the source, and of the result, that are turned together.
    """
    source = sorted((d for d in ends.digits if d.before >= LANE), key=lambda d: -d.before)
    result = sorted((d for d in ends.digits if d.after >= LANE), key=lambda d: -d.after)
    bands = sorted(
        (d for d in ends.digits if d not in source and d not in result), key=lambda d: -d.after
    )
    found = TurnedLanes(ends, tuple(source), tuple(result), tuple(bands))
    if not source or not result or any(digit in result for digit in source):
        return None
    if max(ends.source.first, ends.result.first) >= LANE:
        return None  # the array takes rows from the first partition on
    if steps_of_digits(source, LANE) != {d: d.before for d in source}:
        return None
    if steps_of_digits(result, LANE) != {d: d.after for d in result} or not _is_whole(ends):
        return None
    if any(many > room for many, room in zip(found.sides, most, strict=True)):
        return None
    steps = [(d.size, d.before) for d in result], [(d.size, d.after) for d in source]
    return None if max(map(_pairs, steps)) > MAX_PAIRS else found


def _is_whole(ends: RelayEnds) -> bool:
    """Return whether no digit has a last part that is smaller."""
    sizes: dict[int, int] = {}
    for digit in ends.digits:
        sizes[digit.group] = sizes.get(digit.group, 1) * digit.size
    return all(sizes.get(n, 1) == size for n, size in enumerate(ends.source.dims))


def _pairs(steps: ColumnSteps | list[tuple[int, int]]) -> int:
    return 1 + sum(step != size * minor for (_, step), (size, minor) in pairwise(steps))
