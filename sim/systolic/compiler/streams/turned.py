"""Tiles whose partitions become columns, and columns partitions: a leg of the array.

A tile is loaded in the order of the source's memory and stored in that of the result's, so both
have long runs. Between them it is turned piece by piece: elements of `inside` modes, which lie on
partitions, by elements of `outside` modes, which lie in columns. A piece is stationary in the array
while an identity moves. The other modes lie in columns on both sides, in either order.

Where a mode on partitions has more indices than these, its further ones lie in further columns of
the same partitions; the last of them may be fewer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

from systolic.compiler.places.modes import Mode, Modes, coalesce
from systolic.compiler.streams.tiling import (
    ColumnPlaces,
    CopyBegin,
    TileCopy,
    TurnCut,
    pairs_of,
    tile_copies,
    tiles,
)
from systolic.compiler.streams.work import StreamFrame
from systolic.isa.access import Pattern

RESULT, SOURCE = 0, 1
StridePairs = list[tuple[int, int]]


class LanePart(NamedTuple):
    """Indices of a mode that lie on the same partitions: the first, and how many columns have them.

    lanes: neighbours, each on a partition of its own.
    """

    mode: int
    first: int
    columns: int
    lanes: int


class Turned(NamedTuple):
    """Pieces that are turned one after the other and lie side by side in a bank of results.

    rows, columns: of each piece. taken: its columns, from each of `firsts` on; made: where the rows
    of all of them go, from `at` on.
    """

    rows: int
    columns: int
    firsts: tuple[int, ...]
    taken: Pattern
    at: int
    made: Pattern


@dataclass(slots=True)
class TurnShape:
    """The tiles of a frame that have so many indices of each mode: they are all alike.

    parts: in how many parts of each element, neighbours in memory, the array turns it. All steps
    and places here count such parts.
    """

    frame: StreamFrame
    cut: TurnCut
    counts: tuple[int, ...]
    parts: int = 1
    modes: Modes = field(init=False)
    lanes: tuple[tuple[int, ...], tuple[int, ...]] = field(init=False)
    held: tuple[ColumnPlaces, ColumnPlaces] = field(init=False)

    def __post_init__(self) -> None:
        """Lay out both sides."""
        own = [
            Mode(n, m.times(self.parts)) for n, m in zip(self.counts, self.frame.modes, strict=True)
        ]
        outside, inside = list(self.cut.outside), list(self.cut.inside)
        if self.parts > 1:
            own, outside, inside = [*own, Mode(self.parts, (1, 1))], [*outside, 1], [*inside, 1]
        self.modes = tuple(own)
        most = [mode.extent for mode in own]
        self.lanes = tuple(map(min, outside, most)), tuple(map(min, inside, most))
        self.held = self._lay(RESULT), self._lay(SOURCE)

    def _lay(self, side: int) -> ColumnPlaces:
        """Return the columns of a side: compact, in the order of its memory."""
        steps, size = [0] * len(self.modes), 1
        for n in reversed(self._order(side)):
            steps[n] = size
            size *= -(-self.modes[n].extent // self.lanes[side][n])
        return ColumnPlaces(tuple(steps), size)

    def _order(self, side: int) -> list[int]:
        def step(n: int) -> int:
            return -abs(self.modes[n].steps[side]) * self.lanes[side][n]

        return sorted(range(len(self.modes)), key=step)

    def parts_on(self, side: int) -> Iterator[tuple[LanePart, ...]]:
        """Yield what lies on the same partitions: whole columns of each mode, or the rest."""
        options = []
        for n in sorted(range(len(self.modes)), key=lambda n: -self.modes[n].steps[side]):
            lanes = self.lanes[side][n]
            if lanes == 1:
                continue
            whole, rest = divmod(self.modes[n].extent, lanes)
            mine = [LanePart(n, 0, whole, lanes)]
            options.append(mine + [LanePart(n, whole * lanes, 1, rest)] * (rest > 0))
        return product(*options)

    def filled(self, side: int) -> Iterator[tuple[int, int, StridePairs]]:
        """Yield (partitions, first column, columns) of what a tile has on a side, by LanePart."""
        for parts in self.parts_on(side):
            _, chip_at, columns = self._columns(side, parts)
            yield math.prod(p.lanes for p in parts), chip_at, [(s, n) for _, n, s in columns]

    def copies(self, side: int, ways: int) -> list[TileCopy]:
        """Return the copies that load the source, or store the result."""
        found: list[TileCopy] = []
        for parts in self.parts_on(side):
            at, chip_at, columns = self._columns(side, parts)
            lanes = tuple((self.modes[p.mode].steps[side], p.lanes) for p in parts)
            found += tile_copies(lanes, columns, CopyBegin(0, chip_at, at), ways)
        return found

    def _columns(
        self, side: int, parts: tuple[LanePart, ...]
    ) -> tuple[int, int, list[tuple[int, int, int]]]:
        """Return the first place in DRAM, the first column, and (step, count, step of columns)."""
        of = {part.mode: part for part in parts}
        steps, held = [mode.steps[side] for mode in self.modes], self.held[side].steps
        columns = []
        for n in self._order(side):
            count = of[n].columns if n in of else self.modes[n].extent
            if count > 1:
                columns.append((steps[n] * self.lanes[side][n], count, held[n]))
        at = sum(part.first * steps[part.mode] for part in parts)
        chip_at = sum(p.first // self.lanes[side][p.mode] * held[p.mode] for p in parts)
        return at, chip_at, columns

    def turns(self, bank_words: int) -> Iterator[Turned]:
        """Yield the turns of a tile; the results of some together fill a bank."""
        for inside, outside in product(self.parts_on(SOURCE), self.parts_on(RESULT)):
            yield from self._turns(inside, outside, bank_words)

    def _turns(
        self, inside: tuple[LanePart, ...], outside: tuple[LanePart, ...], bank_words: int
    ) -> Iterator[Turned]:
        there, here = self.held[RESULT].steps, self.held[SOURCE].steps
        of = {part.mode: part for part in (*inside, *outside)}
        loops = []
        for n, mode in enumerate(self.modes):
            count = of[n].columns if n in of else mode.extent
            if count > 1:
                taken, made = here[n] * self.lanes[RESULT][n], there[n] * self.lanes[SOURCE][n]
                loops.append((made, taken, count))
        loops.sort(reverse=True)
        first = [p.first // self.lanes[SOURCE][p.mode] * here[p.mode] for p in inside]
        first += [p.first * here[p.mode] for p in outside]
        at = [p.first // self.lanes[RESULT][p.mode] * there[p.mode] for p in outside]
        at += [p.first * there[p.mode] for p in inside]
        rows, columns = (math.prod(p.lanes for p in parts) for parts in (inside, outside))
        taken = pairs_of([(here[p.mode], p.lanes) for p in outside])
        made = [(there[p.mode], p.lanes) for p in inside]
        *outer, inner = loops or [(0, 0, 1)]
        together = min(inner[2], max(1, bank_words // rows))
        for index in product(*(range(count) for *_, count in outer)):
            source, result = (
                sum(firsts) + sum(n * loop[which] for n, loop in zip(index, outer, strict=True))
                for which, firsts in ((1, first), (0, at))
            )
            for begin in range(0, inner[2], together):
                some = range(begin, min(begin + together, inner[2]))
                yield Turned(
                    rows,
                    columns,
                    tuple(source + n * inner[1] for n in some),
                    taken,
                    result + begin * inner[0],
                    pairs_of([(inner[0], len(some)), *made]),
                )


class TurnedSpans(NamedTuple):
    """Elements of a tensor that an array multiplies by an identity to turn them.

    tensor: as the operation `reader` reads it. at: the first element in memory. spans: a mode for
    each index of what is turned at a time, terms: the elements that are summed, in their order; the
    step is that of the tensor's elements in memory.
    """

    reader: str
    tensor: str
    at: int
    spans: Modes
    terms: Modes


def turned_spans(frame: StreamFrame, cut: TurnCut, reader: str) -> Iterator[TurnedSpans]:
    """Yield what is turned of a frame, span by span."""
    shapes: dict[tuple[int, ...], TurnShape] = {}
    for tile in tiles(frame, cut):
        shape = shapes.setdefault(tile.counts, TurnShape(frame, cut, tile.counts))
        steps = [mode.steps[SOURCE] for mode in shape.modes]
        first = frame.at[SOURCE] + sum(n * step for n, step in zip(tile.starts, steps, strict=True))
        for together in shape.parts_on(SOURCE):
            of = {part.mode: part for part in together}
            spans = []
            for n, mode in enumerate(shape.modes):
                if n in of:
                    spans.append(Mode(of[n].columns, (steps[n] * shape.lanes[SOURCE][n],)))
                else:
                    spans.append(Mode(mode.extent, (steps[n],)))
            at = first + sum(part.first * steps[part.mode] for part in together)
            terms = tuple(Mode(part.lanes, (steps[part.mode],)) for part in together)
            tensor = frame.sides[SOURCE].tensor
            yield TurnedSpans(reader, tensor, at, coalesce(spans), terms)
