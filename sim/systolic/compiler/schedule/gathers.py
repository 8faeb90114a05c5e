"""Gathers on the chip: boxes are copied by engines, or by DMA where that is faster, and filled.

A copy takes rows that stay neighbours, and columns that one access reaches on either side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from systolic.arrays import Integers
from systolic.compiler.cost.engines import engines_able, in_best_words, on_cheapest
from systolic.compiler.cost.moves import lane_copy
from systolic.compiler.ir.drafts import Drafts
from systolic.compiler.ir.gathers import NOWHERE, ColumnRun, PlaceValues, runs_of, stretches
from systolic.compiler.ir.nodes import GatherNode
from systolic.compiler.ir.ranges import spans
from systolic.compiler.ir.tasks import Task
from systolic.compiler.place.residency import Resident
from systolic.compiler.place.tiles import OnChip
from systolic.compiler.schedule.transfers import CopyMaker
from systolic.hw.datatypes import data_type
from systolic.isa import Access
from systolic.isa.access import Pattern
from systolic.isa.instruction import Iota, Memset
from systolic.spans import Span
from systolic.workload.options import Options


class GatherMaker:
    """Makes the instructions of gathers whose tiles are in place.

    busy: the ticks that engines have been given so far, by all work of the array's results too.
    """

    def __init__(
        self,
        drafts: Drafts,
        tiles: OnChip,
        options: Options,
        transfers: CopyMaker,
        *,
        busy: dict[str, int],
    ) -> None:
        self._drafts, self._tiles, self._options = drafts, tiles, options
        self._transfers = transfers
        self._busy = busy

    def gather(self, task: Task, node: GatherNode) -> None:
        """Make what a tile has of one part, of the tile that the task reads if it reads one."""
        target = self._tiles.memory.resident[task.writes[0]]
        if task.reads:
            self._copy(self._tiles.memory.resident[task.reads[0]], target, task, node)
        else:
            self._fill(target, task, node)

    def _fill(self, target: Resident, task: Task, node: GatherNode) -> None:
        (rows,), (cols,), part = task.rows, task.cols, node.parts[task.number]
        across = np.flatnonzero(part.cols[cols.first : cols.stop] >= 0)
        across += cols.first - self._tiles.block(target.tile).origin[1]
        if isinstance(node.value, PlaceValues):
            self._number(target, rows, cols, node.value)
            return
        dtype = data_type(self._tiles.matrices[target.tile.matrix].dtype)
        whole = dtype.numpy.kind in "iu"
        step = partial(Memset, value=int(node.value) if whole else node.value)
        for down, _ in stretches(part.rows[rows.first : rows.stop]):
            self._tiles.made(target.tile).add_columns(down, across)
            for run in runs_of(across, across):
                made = self._access(target, down, run.target, run.target_pairs)
                if not engines_able(self._tiles.chip, step(engine="", target=made)):
                    self._fill_from_above(target, down, run, step)
                    continue
                filled = on_cheapest(self._tiles.chip, self._options, step, self._busy, target=made)
                self._drafts.add(filled, (), (target.region,))

    def _number(self, target: Resident, rows: Span, cols: Span, places: PlaceValues) -> None:
        """Number the elements of a tile by their columns, or of one column by their rows."""
        base, each = places
        down = self._tiles.matrices[target.tile.matrix].cols == 1
        first = rows.first if down else cols.first
        step = partial(
            Iota,
            base=base + each * first,
            per_partition=each if down else 0,
            per_element=0 if down else each,
        )
        whole = Span(0, rows.count)
        self._tiles.made(target.tile).add_columns(whole, np.arange(cols.count))
        made = self._access(target, whole, 0, ((1, cols.count),))
        filled = on_cheapest(self._tiles.chip, self._options, step, self._busy, target=made)
        self._drafts.add(filled, (), (target.region,))

    def _fill_from_above(
        self, target: Resident, down: Span, run: ColumnRun, step: Callable[..., Memset]
    ) -> None:
        """Fill rows that begin where no engine may begin, from a row above that one may.

        What is copied to the rows between comes later, and so does every other fill.
        """
        chip, column = self._tiles.chip, (run.target, run.target_pairs)
        spans = (Span(first, down.stop - first) for first in range(down.first - 1, -1, -1))
        wide = (self._access(target, rows, *column) for rows in spans)
        able = (made for made in wide if engines_able(chip, step(engine="", target=made)))
        made = next(able, self._access(target, down, *column))
        target.region.end_phase()
        filled = on_cheapest(chip, self._options, step, self._busy, target=made)
        self._drafts.add(filled, (), (target.region,))
        target.region.end_phase()

    def _copy(self, source: Resident, target: Resident, task: Task, node: GatherNode) -> None:
        (rows,), (cols,), part = task.rows, task.cols, node.parts[task.number]
        there = self._tiles.block(source.tile)
        down, across = (
            _within(index[span.first : span.stop], first, size)
            for index, span, first, size in zip(
                (part.rows, part.cols), (rows, cols), there.origin, there.extents, strict=True
            )
        )
        taken = np.flatnonzero(across >= 0)
        columns = taken + cols.first - self._tiles.block(target.tile).origin[1]
        runs = list(runs_of(columns, across[taken]))
        is_band = cols.count < self._tiles.block(target.tile).extents[1]
        for lines, first in stretches(down):
            self._tiles.made(target.tile).add_columns(lines, columns)
            for run in runs:
                out_of = self._access(
                    source, Span(first, lines.count), run.source, run.source_pairs
                )
                into = self._access(target, lines, run.target, run.target_pairs)
                if is_band:
                    self._transfers.within(out_of, into, source.region, target.region)
                else:
                    self._move(source, target, out_of, into)

    def _move(self, source: Resident, target: Resident, out_of: Access, into: Access) -> None:
        dma = self._transfers.done_within(out_of, into)
        copy = lane_copy(
            self._tiles.chip, self._options, out_of, into, busy=self._busy, dma_ticks=dma
        )
        if copy is not None:
            # Piece by piece, so that what reads the target need not wait for all of it.
            for one, other in _pieces(out_of, into, self._tiles.chip.multiply_vectors):
                part = in_best_words(self._tiles.chip, replace(copy, source=one, target=other))
                self._drafts.add(part, (source.region,), (target.region,))
        else:
            self._transfers.within(out_of, into, source.region, target.region)

    def _access(self, place: Resident, rows: Span, first: int, pairs: Pattern) -> Access:
        """Return the access to columns of rows of a tile, both counted from its first."""
        return replace(self._tiles.part(place, rows, Span(first, 1)), pattern=pairs)


def _within(index: Integers, first: int, size: int) -> Integers:
    """Return an index counted from the first of a tile, `NOWHERE` where it is not in the tile."""
    return np.where((index < first) | (index >= first + size), NOWHERE, index - first)


def _pieces(source: Access, target: Access, most: int) -> Iterator[tuple[Access, Access]]:
    """Cut two accesses in the same places, in pieces of at most `most` elements if steps allow."""
    (_, count), *inner = source.pattern
    many = max(1, most // math.prod(inside for _, inside in inner))
    for part in spans(0, count, count, many):
        yield _outer(source, part), _outer(target, part)


def _outer(access: Access, part: Span) -> Access:
    """Return the part of an access that takes some of its outermost steps."""
    (step, _), *inner = access.pattern
    start = access.start + part.first * step * access.element_bytes
    return replace(access, start=start, pattern=((step, part.count), *inner))
