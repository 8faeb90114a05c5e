"""Tiles whose partitions become columns, and columns partitions: a leg of the array.

A tile is loaded in the order of the source's memory and stored in the order of the result's, so
both have long runs. Between them it is turned piece by piece: elements of `inside` modes, which lie
on partitions, by elements of `outside` modes, which lie in columns. A piece is stationary in the
array while an identity moves. The other modes lie in columns on both sides, in either order.

Where a mode on partitions has more indices than these, a partition has several of them, in columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
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
    """Indices of a mode that lie evenly on partitions, all from partition 0 on.

    first: the first index. columns, lanes: how many columns have them on how many partitions.
    """

    mode: int
    first: int
    columns: int
    lanes: int


class LaneSpread(NamedTuple):
    """How indices of a mode lie on partitions and in columns, and the distances of either."""

    lanes: int
    columns: int
    lane_step: int
    column_step: int

    @classmethod
    def of(cls, count: int, lanes: int, *, in_runs: bool) -> LaneSpread:
        """Spread `count` indices over about `lanes` partitions."""
        lanes = min(lanes, count)
        columns = -(-count // lanes)
        if in_runs and lanes > 1:
            return cls(-(-count // columns), columns, columns, 1)
        return cls(lanes, columns, 1, lanes)

    def column(self, index: int) -> int:
        """Return the column of an index."""
        return index % self.columns if self.column_step == 1 else index // self.lanes

    def parts(self, mode: int, count: int) -> list[LanePart]:
        """Return what lies evenly: columns that are on all partitions, and the others."""
        if self.column_step == 1:
            whole, rest = divmod(count, self.columns)
            found = [(0, rest, whole + 1), (rest, self.columns - rest, whole)]
        else:
            whole, rest = divmod(count, self.lanes)
            found = [(0, whole, self.lanes), (whole * self.lanes, 1, rest)]
        return [LanePart(mode, *each) for each in found if each[1] and each[2]]


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
    """The tiles of a frame with the same number of indices of each mode: they are all alike.

    parts: in how many parts of each element, neighbours in memory, the array turns it. All steps
    and places here count such parts; bank: how many fit a partition of a bank. gap: of every `gap`
    columns of the source one has an element, the others the padding that came with it.
    """

    frame: StreamFrame
    cut: TurnCut
    counts: tuple[int, ...]
    parts: int = 1
    bank: int = 0
    gap: int = field(init=False)
    modes: Modes = field(init=False)
    spread: tuple[list[LaneSpread], list[LaneSpread]] = field(init=False)
    held: tuple[ColumnPlaces, ColumnPlaces] = field(init=False)

    def __post_init__(self) -> None:
        """Lay out both sides."""
        own = [
            Mode(count, mode.times(self.parts))
            for count, mode in zip(self.counts, self.frame.modes, strict=True)
        ]
        outside, inside = list(self.cut.outside), list(self.cut.inside)
        if self.parts > 1:
            own, outside, inside = [*own, Mode(self.parts, (1, 1))], [*outside, 1], [*inside, 1]
        self.modes = tuple(own)
        self.gap = source_gap(self.frame, self.parts)
        result, source = (
            [
                LaneSpread.of(mode.extent, most, in_runs=self.cut.in_runs)
                for mode, most in zip(own, lanes, strict=True)
            ]
            for lanes in (outside, inside)
        )
        self.spread = result, source
        self.held = self._lay(RESULT), self._lay(SOURCE)

    def _lay(self, side: int) -> ColumnPlaces:
        """Return the columns of a side: compact, in the order of its memory.

        But columns of further indices on the same partitions come outermost, unless runs go through
        them: a turn reads, or makes, a block of columns that is loaded or stored by itself.
        """
        steps, size, spread = [0] * len(self.modes), self._gap(side), self.spread[side]
        order = sorted(self._order(side), key=lambda n: spread[n].lanes == 1 or self.cut.in_runs)
        inside = [n for n in order if spread[n].lanes == 1 or not self.cut.in_banks]
        for n in reversed(inside):
            steps[n] = size
            size *= spread[n].columns
        banks = self.bank
        for n in reversed(order[: len(order) - len(inside)]):
            steps[n] = banks
            banks *= spread[n].columns
        return ColumnPlaces(tuple(steps), size)

    def banks(self, side: int) -> int:
        """Return in how many banks the columns of a side lie."""
        if not self.cut.in_banks:
            return 1
        return math.prod(each.columns for each in self.spread[side] if each.lanes > 1)

    def _order(self, side: int) -> list[int]:
        """Return the modes in the order of a side's memory, the outermost first."""

        def step(n: int) -> int:
            return -abs(self.modes[n].steps[side]) * self.spread[side][n].column_step

        return sorted(range(len(self.modes)), key=step)

    def block(self, side: int) -> int:
        """Return the columns that are loaded, or stored, without the others."""
        if self.cut.in_banks:
            return self.bank
        if self.cut.in_runs:
            return self.held[side].elements
        alone = math.prod(each.columns for each in self.spread[side] if each.lanes == 1)
        return alone * self._gap(side)

    def _gap(self, side: int) -> int:
        return self.gap if side == SOURCE else 1

    def parts_on(self, side: int) -> Iterator[tuple[LanePart, ...]]:
        """Yield what lies evenly on partitions."""
        order = sorted(range(len(self.modes)), key=lambda n: -abs(self.modes[n].steps[side]))
        options = [
            self.spread[side][n].parts(n, self.modes[n].extent)
            for n in order
            if self.spread[side][n].lanes > 1
        ]
        return product(*options)

    def filled(self, side: int) -> Iterator[tuple[int, int, StridePairs]]:
        """Yield (partitions, first column, columns) of what a tile has on a side, part by part."""
        for parts in self.parts_on(side):
            _, chip_at, columns = self._columns(side, parts)
            yield math.prod(p.lanes for p in parts), chip_at, [(s, n) for _, n, s in columns]

    def copies(self, side: int, ways: int) -> list[TileCopy]:
        """Return the copies that load the source, or store the result, about `ways` of them."""
        found: list[TileCopy] = []
        for partition, parts in self._copied(side):
            lanes = tuple(
                (self.modes[p.mode].steps[side] * self.spread[side][p.mode].lane_step, p.lanes)
                for p in parts
            )
            several = next((p for p in parts if p.columns >= max(ways, 2)), None)
            if self.cut.in_runs:
                several = None
            for some in self._shared(side, parts, several, ways) if several else [parts]:
                at, chip_at, columns = self._columns(side, some)
                begin = CopyBegin(partition, chip_at, at)
                if self._gap(side) > 1:
                    columns.append((1, self.gap, 1))
                found += tile_copies(lanes, columns, begin, 1 if several else ways)
        return found

    def _copied(self, side: int) -> Iterator[tuple[int, tuple[LanePart, ...]]]:
        """Yield what is copied together, with its first partition.

        Runs through the columns of a lone mode go on to its last index, on a partition by itself.
        """
        every = list(self.parts_on(side))
        if self.cut.in_runs and len(every) == 2 and len(every[0]) == 1:
            ((long,), (short,)) = every
            yield 0, (long._replace(columns=long.columns + short.columns, lanes=short.lanes),)
            first = short.lanes * (long.columns + short.columns)
            yield short.lanes, (long._replace(first=first, lanes=1),)
            return
        for parts in every:
            yield 0, parts

    def _shared(
        self, side: int, parts: tuple[LanePart, ...], several: LanePart, ways: int
    ) -> Iterator[tuple[LanePart, ...]]:
        """Yield parts with the columns of one of them shared among some copies."""
        step = self.spread[side][several.mode].column_step
        for way in range(ways):
            first, stop = several.columns * way // ways, several.columns * (way + 1) // ways
            here = several._replace(first=several.first + first * step, columns=stop - first)
            yield tuple(here if part is several else part for part in parts)

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
                step = self.spread[side][n].column_step if n in of else 1
                columns.append((steps[n] * step, count, held[n]))
        at = sum(part.first * steps[part.mode] for part in parts)
        chip_at = sum(self._column(side, part) for part in parts)
        return at, chip_at, columns

    def _column(self, side: int, part: LanePart) -> int:
        """Return the column of the first index of a part."""
        return self.spread[side][part.mode].column(part.first) * self.held[side].steps[part.mode]

    def turns(self, together: Callable[[int, int], int]) -> Iterator[Turned]:
        """Yield the turns of a tile, a block of the result's columns after another.

        together: how many pieces of a number of rows and columns are copied out together.
        """
        for outside, inside in product(self.parts_on(RESULT), self.parts_on(SOURCE)):
            yield from self._turns(inside, outside, together)

    def _turns(
        self,
        inside: tuple[LanePart, ...],
        outside: tuple[LanePart, ...],
        most: Callable[[int, int], int],
    ) -> Iterator[Turned]:
        there, here = self.held[RESULT].steps, self.held[SOURCE].steps
        spread = [
            inner if inner.lanes > 1 else outer for outer, inner in zip(*self.spread, strict=True)
        ]
        ins, outs = ({part.mode: part for part in parts} for parts in (inside, outside))
        loops = []
        for n, mode in enumerate(self.modes):
            part = ins.get(n) or outs.get(n)
            count = part.columns if part else mode.extent
            if count > 1:
                to = there[n] * (spread[n].column_step if n in ins else 1)
                start = here[n] * (spread[n].column_step if n in outs else 1)
                loops.append((to, start, count))
        # Outermost are the blocks of columns of the result, so that each is complete soon.
        loops.sort(reverse=True)
        first = sum(self._column(SOURCE, part) for part in inside)
        first += sum(part.first * here[part.mode] for part in outside)
        at = sum(self._column(RESULT, part) for part in outside)
        at += sum(part.first * there[part.mode] for part in inside)
        rows, columns = (math.prod(p.lanes for p in parts) for parts in (inside, outside))
        taken = pairs_of([(here[p.mode] * spread[p.mode].lane_step, p.lanes) for p in outside])
        made = [(there[p.mode] * spread[p.mode].lane_step, p.lanes) for p in inside]
        *outer, inner = loops or [(0, 0, 1)]
        together = min(inner[2], most(rows, columns))
        for index in product(*(range(count) for *_, count in outer)):
            result, source = (
                begin + sum(n * loop[which] for n, loop in zip(index, outer, strict=True))
                for which, begin in ((0, at), (1, first))
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


def source_gap(frame: StreamFrame, parts: int = 1) -> int:
    """Return how many elements are brought for each that the array turns in `parts` parts."""
    return frame.sides[SOURCE].brought if parts == 1 else 1


class TurnedSpans(NamedTuple):
    """Elements of a tensor that an array multiplies by an identity to turn them.

    tensor: as the operation `reader` reads it. at: the first element in memory. spans: a mode for
    each index of what is turned at a time, terms: the elements that are summed, in their order; the
    step is the step of the tensor's elements in memory.
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
            of, spread = {part.mode: part for part in together}, shape.spread[SOURCE]
            spans = [
                Mode(of[n].columns, (steps[n] * spread[n].column_step,))
                if n in of
                else Mode(mode.extent, (steps[n],))
                for n, mode in enumerate(shape.modes)
            ]
            at = first + sum(part.first * steps[part.mode] for part in together)
            terms = tuple(
                Mode(p.lanes, (steps[p.mode] * spread[p.mode].lane_step,)) for p in together
            )
            tensor = frame.sides[SOURCE].tensor
            yield TurnedSpans(reader, tensor, at, coalesce(spans), terms)
