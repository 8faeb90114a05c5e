"""Moves on the chip in up to three legs: runs go by DMA, and elements change their order in lanes.

An index along a dimension is written in digits; each counts partitions or columns, before
the move and after it. DMA brings a run of bytes from any partition to any other, but each element
of its own costs a descriptor. An engine puts the elements of all partitions in any order at once,
but leaves them in their partitions. So a *relay* sends long runs to partitions in which elements
may stay while their order changes, lets an engine change it, and sends runs of the new order to the
places of the result. Not here: which digits lie in the partitions meanwhile (`lower`), and cycles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from systolic.arrays import Integers
from systolic.compiler.ir.change_of_view import MOST_PAIRS, Piece
from systolic.compiler.ir.chip_places import LANE, ChipPlaces
from systolic.compiler.ir.stretches import dimension_groups, places_along
from systolic.isa.access import Pattern
from systolic.spans import Span

MOST_BOXES = 16
"""The most boxes of a relay: a digit whose last line is shorter makes another one."""


class RelayDigit(NamedTuple):
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


@dataclass(frozen=True, eq=False, slots=True)
class RelayPlaces:
    """Where all elements lie before, between or after the legs of a relay.

    offsets: for each group of dimensions, what each index along it adds to the place, int64. rows,
    columns: the partitions, and the element places in each of them, padding included.
    """

    offsets: tuple[Integers, ...]
    rows: int
    columns: int

    @property
    def dims(self) -> tuple[int, ...]:
        """The sizes of the groups of dimensions."""
        return tuple(map(len, self.offsets))

    @property
    def first(self) -> int:
        """The place of the first element."""
        return sum(int(offsets[0]) for offsets in self.offsets)

    def sizes(self) -> tuple[int, int, int]:
        """Return how many matrices there are, one, and its rows and columns."""
        return 1, self.rows, self.columns

    def logical(self, number: int, rows: Span, cols: Span) -> Integers:
        """Return the row-major index of each element of a block, -1 where there is none."""
        found = np.full((self.rows, self.columns), -1, np.int64)
        down, across = np.divmod(self._places(), LANE)
        found[down, across] = np.arange(len(down))
        return found[rows.first : rows.stop, cols.first : cols.stop]

    def locate(self, logical: Integers) -> tuple[Integers, Integers, Integers]:
        """Return number of the matrix, row and column of elements given by row-major index."""
        down, across = np.divmod(self._places()[logical], LANE)
        return np.zeros_like(logical), down, across

    def _places(self) -> Integers:
        found = np.zeros(1, np.int64)
        for offsets in self.offsets:
            found = (found[:, None] + offsets).ravel()
        return found


@dataclass(frozen=True, slots=True)
class RelayEnds:
    """Source and result of a relay, with the same groups of dimensions, and the digits of both."""

    source: RelayPlaces
    result: RelayPlaces
    digits: tuple[RelayDigit, ...]


class BoxStep(NamedTuple):
    """A digit of a box, on both sides of one leg."""

    size: int
    source: int
    result: int


def relay_ends(
    source: ChipPlaces, result: ChipPlaces, permutation: Sequence[int] | None
) -> RelayEnds | None:
    """Return both ends of a move in digits; None if the digits of one side cut the other's."""
    groups = dimension_groups(source.dims, result.dims, permutation)
    if permutation is not None:
        groups = sorted(groups)
    here = _from_first([places_along(source, group[0]) for group in groups])
    there = _from_first([places_along(result, group[1]) for group in groups])
    digits: list[RelayDigit] = []
    for number, (before, after) in enumerate(zip(here, there, strict=True)):
        found = _digits(number, before, after)
        if found is None:
            return None
        digits += found
    if not all(_is_straight(step) for digit in digits for step in digit[3:]):
        return None
    return RelayEnds(
        RelayPlaces(tuple(here), source.rows, source.columns),
        RelayPlaces(tuple(there), result.rows, result.columns),
        tuple(digits),
    )


def _from_first(lines: Sequence[Integers]) -> list[Integers]:
    """Return lines of places; only the first line begins with the first element's place."""
    return [line if not number else line - line[0] for number, line in enumerate(lines)]


def _digits(group: int, before: Integers, after: Integers) -> list[RelayDigit] | None:
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
            found.append(RelayDigit(group, worth, count, *steps))
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


def steps_of_digits(digits: Sequence[RelayDigit], unit: int) -> dict[RelayDigit, int]:
    """Return how far apart the values of each digit lie, major to minor and the last by `unit`."""
    found, step = dict[RelayDigit, int](), unit
    for digit in reversed(digits):
        found[digit], step = step, step * digit.size
    return found


def split_digit(digit: RelayDigit, size: int) -> tuple[RelayDigit, RelayDigit]:
    """Return the major and the minor part of a digit; the minor part has `size` values."""
    major = digit._replace(
        worth=digit.worth * size,
        size=-(-digit.size // size),
        before=digit.before * size,
        after=digit.after * size,
    )
    return major, digit._replace(size=size)


def places_between(
    dims: Sequence[int], lanes: Sequence[RelayDigit], columns: Sequence[RelayDigit]
) -> RelayPlaces:
    """Return places in which some digits count partitions and the others columns, major to minor.

    dims: the sizes of the groups of dimensions.
    """
    offsets = [np.zeros(size, np.int64) for size in dims]
    sizes = []
    for digits, unit in ((lanes, LANE), (columns, 1)):
        step = 1
        for digit in reversed(digits):
            index = np.arange(dims[digit.group]) // digit.worth % digit.size
            offsets[digit.group] += index * (step * unit)
            step *= digit.size
        sizes.append(step)
    return RelayPlaces(tuple(offsets), sizes[0], sizes[1])


def leg_pieces(
    source: RelayPlaces,
    result: RelayPlaces,
    digits: Sequence[RelayDigit],
    most: int,
) -> tuple[Piece, ...] | None:
    """Return the pieces of one leg of a relay; None if there are more than `most`.

    digits: of the relay. Every one of them is straight in both places.
    """
    found: list[Piece] = []
    groups = [
        list(_boxes(size, [digit for digit in digits if digit.group == group]))
        for group, size in enumerate(source.dims)
    ]
    if math.prod(map(len, groups)) > MOST_BOXES:
        return None
    for box in product(*groups):
        starts = [
            sum(int(offsets[first]) for offsets, (first, _) in zip(of.offsets, box, strict=True))
            for of in (source, result)
        ]
        steps = [
            BoxStep(size, *(_step(of.offsets[digit.group], digit.worth) for of in (source, result)))
            for _, sizes in box
            for digit, size in sizes
            if size > 1
        ]
        for piece in _box_pieces(starts, steps):
            found.append(piece)
            if len(found) > most:
                return None
    return tuple(found)


def _step(offsets: Integers, worth: int) -> int:
    return int(offsets[worth] - offsets[0])


def _boxes(
    size: int, digits: Sequence[RelayDigit]
) -> Iterator[tuple[int, list[tuple[RelayDigit, int]]]]:
    """Yield the first index of a box, and how many values each digit has in it."""
    ordered = sorted(digits, key=lambda digit: -digit.worth)
    first = 0
    while first < size:
        left = size - first
        whole = next((at for at, d in enumerate(ordered) if d.worth <= left), None)
        if whole is None:
            yield first, []
            return
        major, *minor = ordered[whole:]
        count = min(left // major.worth, major.size)
        yield first, [(major, count), *((digit, digit.size) for digit in minor)]
        first += count * major.worth


def _box_pieces(starts: Sequence[int], steps: Sequence[BoxStep]) -> Iterator[Piece]:
    """Yield the pieces of a box, given the places of its first element on both sides."""
    lanes = [step for step in steps if step.source >= LANE or step.result >= LANE]
    inside = [step for step in steps if step not in lanes]
    down, spread, gathered, apart = _lanes(lanes)
    rows = math.prod(step.size for step in down)
    columns = sorted(inside, key=lambda step: -step.result)
    if all(step.source == step.result for step in lanes):
        columns = nearest_last(columns)
    ahead = [*spread, *gathered]
    while True:
        pairs, runs = box_patterns([*ahead, *columns], spread)
        if max(len(pairs), len(runs)) <= MOST_PAIRS:
            break
        least = min(columns, key=lambda step: (goes_on(step, columns), step.size))
        columns.remove(least)
        apart = [*apart, least]
    run = runs[-1] if runs and runs[-1][0] == 1 else (1, 1)
    outer = runs[:-1] if runs and runs[-1][0] == 1 else runs
    across = math.prod(step.size for step in spread)
    back = math.prod(step.size for step in gathered)
    for index in product(*(range(step.size) for step in apart)):
        at = [
            start + sum(n * step[side] for n, step in zip(index, apart, strict=True))
            for side, start in enumerate(starts, 1)
        ]
        (source_row, source_col), (row, col) = (divmod(place, LANE) for place in at)
        yield Piece(
            row, rows * across, col, run[1], source_row, rows * back, source_col,
            pairs or ((1, 1),), outer,
        )  # fmt: skip


def nearest_last(columns: list[BoxStep]) -> list[BoxStep]:
    """Return digits in an order whose last one has the shortest steps, if they fit in one copy.

    An engine may take longer for neighbours of an access that lie far apart on either side.
    """
    nearest = min(columns, key=lambda step: max(step[1:]), default=None)
    if nearest is None or max(nearest[1:]) == max(columns[-1][1:]):
        return columns
    found = [*(step for step in columns if step != nearest), nearest]
    return found if max(map(len, box_patterns(found, ()))) <= MOST_PAIRS else columns


def goes_on(step: BoxStep, columns: Sequence[BoxStep]) -> bool:
    """Return whether a digit goes on from another one on both sides, so that it needs no pair."""
    return any(
        (other.source * other.size, other.result * other.size) == (step.source, step.result)
        for other in columns
    ) or (step.source == step.result == 1)


def _lanes(
    lanes: Sequence[BoxStep],
) -> tuple[list[BoxStep], list[BoxStep], list[BoxStep], list[BoxStep]]:
    """Return digits that count partitions on both sides, that spread, that gather, and the rest.

    One copy takes consecutive partitions on either side, and all elements of one before any of
    the next. So what lies on partitions on both sides is major; minor to it a digit may go from
    columns to partitions, or from partitions to columns. Each value of the rest is a copy.
    """
    both = sorted(
        (step for step in lanes if step.source >= LANE and step.result >= LANE),
        key=lambda step: step.source,
    )
    spread = sorted((step for step in lanes if step.source < LANE), key=lambda step: step.result)
    gathered = sorted((step for step in lanes if step.result < LANE), key=lambda step: step.source)
    best: tuple[list[BoxStep], list[BoxStep], list[BoxStep]] = ([], [], [])
    for minor, side in (([], 1), (_chain(spread, 2, 1), 2), (_chain(gathered, 1, 1), 1)):
        across = math.prod(step.size for step in minor)
        sizes = {1: 1, 2: 1, side: across}
        down: list[BoxStep] = []
        for step in both:
            if (step.source, step.result) == (sizes[1] * LANE, sizes[2] * LANE):
                down.append(step)
                sizes = {at: size * step.size for at, size in sizes.items()}
        found = (down[::-1], minor[::-1] if side == 2 else [], minor[::-1] if side == 1 else [])
        if _lanes_of(found) > _lanes_of(best):
            best = found
    used = [step for some in best for step in some]
    return (*best, [step for step in lanes if step not in used])


def _lanes_of(found: Sequence[Sequence[BoxStep]]) -> int:
    return math.prod(step.size for some in found for step in some)


def copies_of_lanes(steps: Sequence[BoxStep]) -> int:
    """Return how many copies it takes to bring all lanes of a box to theirs, if rows have runs."""
    lanes = [step for step in steps if max(step.source, step.result) >= LANE]
    return math.prod(step.size for step in _lanes(lanes)[3])


def _chain(steps: Sequence[BoxStep], side: int, first: int) -> list[BoxStep]:
    """Return digits that count partitions one by one from the first on, minor to major."""
    found, next_ = [], first * LANE
    for step in steps:
        if step[side] == next_:
            found.append(step)
            next_ *= step.size
    return found


def box_patterns(steps: Sequence[BoxStep], spread: Sequence[BoxStep]) -> tuple[Pattern, Pattern]:
    """Return the pairs of source and of result of an access to these digits, major to minor.

    spread: those that count partitions of the result, which are in no pair of it; digits that
    count partitions of the source are in no pair of it.
    """
    source = [(step.source, step.size) for step in steps if step.source < LANE]
    result = [(step.result, step.size) for step in steps if step not in spread]
    return _merged(source), _merged(result)


def _merged(pairs: Sequence[tuple[int, int]]) -> Pattern:
    found: list[tuple[int, int]] = []
    for step, count in pairs:
        if found and found[-1][0] == step * count:
            found[-1] = (step, found[-1][1] * count)
        else:
            found.append((step, count))
    return tuple(found)


def _is_straight(step: int) -> bool:
    """Return whether a step goes up by partitions or on by columns, not both, and never back."""
    lanes = (step + LANE // 2) // LANE
    return step >= 0 and (lanes == 0 or step == lanes * LANE)
