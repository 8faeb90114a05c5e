"""Digits of places on the chip: what each digit of the indices counts before a move and after it.

An index along a dimension is written in digits; each counts partitions or columns, before the move
and after it. Not here: how elements get from one place to the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from systolic.arrays import Integers
from systolic.compiler.ir.on_chip.chip_places import LANE, ChipPlaces
from systolic.compiler.ir.stretches import dimension_groups, places_along


class PlaceDigit(NamedTuple):
    """A digit of the indices along a group of dimensions, and what it counts on either side.

    group: the number of its group of dimensions. worth: the indices that it counts. size: its
    values; the major-most digit of a group may have fewer of the minor ones behind its last.
    before, after: places from one value to the next, as in `ChipPlaces`.
    """

    group: int
    worth: int
    size: int
    before: int
    after: int


def place_digits(
    source: ChipPlaces, result: ChipPlaces, permutation: Sequence[int] | None
) -> tuple[PlaceDigit, ...] | None:
    """Return the digits of both ends of a move; None if a digit of one end would cut the other's.

    permutation: axis i of the result is axis permutation[i] of the source; None: a reshape.
    """
    groups = dimension_groups(source.dims, result.dims, permutation)
    if permutation is not None:
        groups = sorted(groups)
    digits: list[PlaceDigit] = []
    for number, (here, there) in enumerate(groups):
        found = _digits(number, places_along(source, here), places_along(result, there))
        if found is None:
            return None
        digits += found
    if not all(_is_straight(step) for digit in digits for step in digit[3:]):
        return None
    return tuple(digits)


def _digits(group: int, before: Integers, after: Integers) -> list[PlaceDigit] | None:
    """Return the digits of both lines of places; None if there are none."""
    ones, others = _worths(before), _worths(after)
    if ones is None or others is None:
        return None
    worths = sorted({*ones, *others})
    size, found = len(before), []
    for worth, next_ in zip(worths, [*worths[1:], 0], strict=True):
        if next_ % worth:
            return None
        count = next_ // worth if next_ else -(-size // worth)
        if count > 1:
            steps = (int(places[worth] - places[0]) for places in (before, after))
            found.append(PlaceDigit(group, worth, count, *steps))
    return found


def _worths(places: Integers) -> list[int] | None:
    """Return how many indices each digit of a line of places counts, minor to major."""
    found, worth = [1], 1
    while len(places) > 1:
        step = int(places[1] - places[0])
        breaks = np.flatnonzero(np.diff(places) != step)
        if not len(breaks):
            break
        size = int(breaks[0]) + 1
        heads = places[::size]
        lines = heads[:, None] + step * np.arange(size)
        if (places != lines.ravel()[: len(places)]).any():
            return None
        places, worth = heads, worth * size
        found.append(worth)
    return found


def _is_straight(step: int) -> bool:
    """Return whether a step goes up by partitions or on by columns, not both, and never back."""
    lanes = (step + LANE // 2) // LANE
    return step >= 0 and (lanes == 0 or step == lanes * LANE)
