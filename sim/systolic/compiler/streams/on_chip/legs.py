"""Legs on the chip: what an engine, the array or a DMA queue does to a box of modes at once.

Each mode of a box has a step of lanes or of columns on either side. Engines copy what keeps its
lanes, or goes up or down with all of them; the array makes columns of lanes, and lanes of columns;
a DMA queue copies anything, run by run. Not here: instructions (`on_chip.emit`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from systolic.compiler.ir.on_chip.chip_places import LANE
from systolic.compiler.places.modes import Mode, Modes, size
from systolic.compiler.streams.tiling import pairs_of
from systolic.isa.access import MAX_PAIRS

RESULT, SOURCE, MEMORY = range(3)
PlaceOnSides = tuple[int, ...]
"""A place on each side."""


class ChipBox(NamedTuple):
    """A box of elements: the places of the first one, and modes; in result, source and memory.

    memory: the element of the first tensor in the order of its own memory.
    """

    at: PlaceOnSides
    modes: Modes

    def lanes(self, side: int) -> list[Mode]:
        """Return the modes that count lanes on a side, the outermost first."""
        found = [mode for mode in self.modes if mode.steps[side] >= LANE]
        return sorted(found, key=lambda mode: -mode.steps[side])

    def in_parts(self, parts: int) -> ChipBox:
        """Return the box with each element in some parts, side by side in its column."""
        if parts == 1:
            return self

        def scaled(places: PlaceOnSides) -> PlaceOnSides:
            here = (place // LANE * LANE + place % LANE * parts for place in places[:MEMORY])
            return (*here, *places[MEMORY:])

        modes = [mode._replace(steps=scaled(mode.steps)) for mode in self.modes]
        return ChipBox(scaled(self.at), (*modes, Mode(parts, (1, 1, 0))))


@dataclass(frozen=True, slots=True)
class LaneCopies:
    """Copies of one rectangle: `rows` lanes that go together, columns by four pairs an access.

    firsts: the first element of each copy. columns: the modes of each.
    """

    rows: int
    firsts: tuple[PlaceOnSides, ...]
    columns: Modes


@dataclass(frozen=True, slots=True)
class Turns:
    """Turns of one rectangle: lanes `rows` become columns, columns `cols` become lanes.

    apart: modes that count lanes on both sides, among `rows`: each index is copied out by itself.
    inside: the modes that are gone through turn by turn.
    """

    at: PlaceOnSides
    rows: Modes
    cols: Modes
    apart: Modes
    inside: Modes

    @property
    def count(self) -> int:
        """Return how many turns there are."""
        return size(self.inside)

    def taken(self) -> tuple[tuple[int, int], ...]:
        """Return the columns of the source that a turn takes."""
        return pairs_of([(mode.steps[SOURCE], mode.extent) for mode in self.cols])

    def words(self) -> list[tuple[Mode, int]]:
        """Return the modes of `rows`, and the words from one index to the next."""
        found, step = [], 1
        for mode in reversed(self.rows):
            found.append((mode, step))
            step *= mode.extent
        return found[::-1]


def starts(at: PlaceOnSides, modes: Sequence[Mode]) -> Iterator[PlaceOnSides]:
    """Yield the places of the first element for each index of some modes."""
    for index in product(*(range(mode.extent) for mode in modes)):
        yield tuple(
            first + sum(n * mode.steps[side] for n, mode in zip(index, modes, strict=True))
            for side, first in enumerate(at)
        )


def straightened(box: ChipBox) -> Iterator[ChipBox]:
    """Yield a box in parts whose modes all go on by lanes or by columns, never back."""

    def is_straight(mode: Mode) -> bool:
        return all(
            0 <= step < LANE // 2 or (step > 0 and step % LANE == 0) for step in mode.steps[:MEMORY]
        )

    crooked = [mode for mode in box.modes if not is_straight(mode)]
    straight = tuple(mode for mode in box.modes if is_straight(mode))
    for at in starts(box.at, crooked):
        yield ChipBox(at, straight)


def _follow(lanes: Sequence[Mode], side: int) -> bool:
    """Return whether lanes of modes, the outermost first, follow one another without gaps."""
    next_ = LANE
    for mode in reversed(lanes):
        if mode.steps[side] != next_:
            return False
        next_ *= mode.extent
    return True


def lane_copies(box: ChipBox) -> LaneCopies | None:
    """Return a box as copies by engines; None if elements change lanes among themselves."""
    here = box.lanes(SOURCE)
    if here != box.lanes(RESULT) and {*here} != {*box.lanes(RESULT)}:
        return None
    rows, apart = 1, list[Mode]()
    for mode in reversed(here):
        if mode.steps[RESULT] == mode.steps[SOURCE] == rows * LANE:
            rows *= mode.extent
        else:
            apart.append(mode)
    columns = in_column_order([mode for mode in box.modes if mode not in here])
    kept, looped = by_four(columns)
    return LaneCopies(rows, tuple(starts(box.at, [*apart, *looped])), kept)


def in_column_order(modes: Sequence[Mode]) -> list[Mode]:
    """Return modes of columns in the order of one side: in which neighbours lie less far apart."""
    orders = [sorted(modes, key=lambda mode: -mode.steps[side]) for side in (RESULT, SOURCE)]
    return min(orders, key=lambda order: max(order[-1].steps[:MEMORY]) if order else 0)


def by_four(modes: Sequence[Mode]) -> tuple[Modes, list[Mode]]:
    """Return the modes that an access can name on both sides, and those left to loops."""
    kept, looped = list(modes), list[Mode]()
    while _pairs(kept) > MAX_PAIRS:
        least = min(kept[:-1], key=lambda mode: mode.extent)
        kept.remove(least)
        looped.append(least)
    return tuple(kept), looped


def _pairs(modes: Sequence[Mode]) -> int:
    sides = ([(mode.steps[side], mode.extent) for mode in modes] for side in (RESULT, SOURCE))
    return max(len(pairs_of(pairs)) for pairs in sides)


def turns(box: ChipBox, most_rows: int, most_cols: int) -> list[Turns] | None:
    """Return a box as turns by the array; None if it is none, or reaches other lanes.

    most_rows, most_cols: the rows of the array, at whose multiples its rows begin, and its columns.
    """
    rows, there = box.lanes(SOURCE), box.lanes(RESULT)
    cols = [mode for mode in there if mode not in rows]
    if not (cols and any(mode not in there for mode in rows)):
        return None
    if not _follow(rows, SOURCE) or not _follow(cols, RESULT):
        return None
    found: list[Turns] = []
    for each in _cut(box, rows[0], most_rows // (size(tuple(rows)) // rows[0].extent)):
        for one in _cut(each, cols[0], most_cols // (size(tuple(cols)) // cols[0].extent)):
            made = _turns(one)
            if made is None or made.at[SOURCE] // LANE % most_rows:
                return None
            found.append(made)
    return found


def _turns(box: ChipBox) -> Turns | None:
    rows, there = box.lanes(SOURCE), box.lanes(RESULT)
    cols = tuple(mode for mode in there if mode not in rows)
    apart = tuple(mode for mode in there if mode in rows)
    rest = [mode for mode in box.modes if mode not in rows and mode not in cols]
    found = Turns(box.at, tuple(rows), cols, apart, tuple(sorted(rest, key=lambda m: -m.steps[0])))
    made = [(m.steps[RESULT], m.extent) for m in rows if m not in apart]
    taken = [(step, m.extent) for m, step in found.words() if m not in apart]
    fits = max(len(found.taken()), len(pairs_of(made)), len(pairs_of(taken))) <= MAX_PAIRS
    return found if fits else None


def cut_mode(at: PlaceOnSides, mode: Mode, most: int) -> Iterator[tuple[PlaceOnSides, Mode]]:
    """Yield the first place and the indices of each part of a mode; a part has at most `most`."""
    for first in range(0, mode.extent, most):
        begin = tuple(n + first * step for n, step in zip(at, mode.steps, strict=True))
        yield begin, mode._replace(extent=min(most, mode.extent - first))


def _cut(box: ChipBox, mode: Mode, most: int) -> Iterator[ChipBox]:
    """Yield the parts of a box, each with at most `most` indices of a mode; none if that is 0."""
    if most < 1:
        return
    place = box.modes.index(mode)
    for at, some in cut_mode(box.at, mode, most):
        yield ChipBox(at, (*box.modes[:place], some, *box.modes[place + 1 :]))


@dataclass(frozen=True, slots=True)
class QueueCopies:
    """Copies by DMA: lanes of one side, in their order, and columns.

    lanes: how many lanes there are on each side. A side with one lane has the elements of all
    lanes of the other side in it.
    """

    firsts: tuple[PlaceOnSides, ...]
    lanes: tuple[int, int]
    patterns: tuple[Modes, Modes]


def queue_copies(box: ChipBox) -> QueueCopies:
    """Return a box as copies within the state buffer by DMA, as few as can be."""
    ways: list[tuple[list[Mode], tuple[int, int]]] = []
    for side, other in ((SOURCE, RESULT), (RESULT, SOURCE)):
        chain, step = list[Mode](), LANE
        for mode in reversed(box.lanes(side)):
            if mode.steps[side] == step and mode.steps[other] < LANE:
                chain.insert(0, mode)
                step *= mode.extent
        count = size(tuple(chain))
        ways.append((chain, (1, count) if side == SOURCE else (count, 1)))
    both, step = list[Mode](), LANE
    for mode in reversed(box.lanes(SOURCE)):
        if mode.steps[SOURCE] == mode.steps[RESULT] == step:
            both.insert(0, mode)
            step *= mode.extent
    ways.append((both, (size(tuple(both)),) * 2))
    chain, lanes = max(ways, key=lambda way: size(tuple(way[0])))
    apart = [m for m in dict.fromkeys((*box.lanes(SOURCE), *box.lanes(RESULT))) if m not in chain]
    inside = [mode for mode in box.modes if mode not in chain and mode not in apart]
    columns, looped = in_column_order(inside), list[Mode]()
    crossed = [side for side in (RESULT, SOURCE) if lanes[side] == 1]

    def nest(side: int) -> Modes:
        return (*chain, *columns) if side in crossed else tuple(columns)

    def pairs(side: int) -> int:
        return len(pairs_of([(mode.steps[side], mode.extent) for mode in nest(side)]))

    while columns and max(pairs(RESULT), pairs(SOURCE)) > MAX_PAIRS:
        least = min(columns, key=lambda mode: mode.extent)
        columns.remove(least)
        looped.append(least)
    firsts = tuple(starts(box.at, [*apart, *looped]))
    return QueueCopies(firsts, lanes, (nest(RESULT), nest(SOURCE)))


def queue_count(box: ChipBox) -> int:
    """Return about in how many copies DMA copies a box."""
    lanes = box.lanes(SOURCE), box.lanes(RESULT)
    return math.prod(mode.extent for mode in {*lanes[0], *lanes[1]})
