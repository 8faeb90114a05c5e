"""Changes of view on the chip: an engine copies a piece if its lanes can, DMA the others.

An engine copies a piece whose rows all go the same number of partitions up or down: each lane
then reads one partition and writes one. Example: rows 0 to 3 may go to rows 8 to 11. A piece whose
rows are spread or gathered is copied by a DMA queue, with a descriptor for each run. DRAM is not
touched.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from systolic.arrays import Integers
from systolic.compiler.cost.engines import in_best_words
from systolic.compiler.cost.moves import moving_engine
from systolic.compiler.ir.access_cuts import faults_left
from systolic.compiler.ir.change_of_view import ChangeOfView, Piece, pieces
from systolic.compiler.ir.drafts import Drafts
from systolic.compiler.ir.nodes import MoveNode
from systolic.compiler.ir.tasks import MatrixTile, Task
from systolic.compiler.place.residency import Resident
from systolic.compiler.place.tiles import OnChip
from systolic.compiler.schedule.transfers import CopyMaker
from systolic.isa import Access, Copy
from systolic.layout import Block
from systolic.spans import Span
from systolic.workload.options import Options


class MoveMaker:
    """Makes the instructions of moves whose tiles are in place.

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

    def move(self, task: Task, node: MoveNode) -> None:
        """Copy the elements that one tile has of another."""
        source, target = (self._tiles.memory.resident[t] for t in (*task.reads, *task.writes))
        for piece in self._pieces(node.change, source.tile, target.tile):
            out_of, into = self._source(source, piece), self._target(target, piece)
            engine = self._engine(piece, out_of.dtype)
            copy = Copy(engine=engine or "", source=out_of, target=into)
            if engine is None or faults_left(copy, self._tiles.chip):
                self._transfers.within(out_of, into, source.region, target.region)
                continue
            copy = in_best_words(self._tiles.chip, copy)
            self._drafts.add(copy, (source.region,), (target.region,))

    def _engine(self, piece: Piece, dtype: str) -> str | None:
        """Return the engine that copies a piece; None if DMA does."""
        return moving_engine(self._tiles.chip, self._options, piece, dtype, self._busy)

    def _pieces(
        self, change: ChangeOfView, source: MatrixTile, target: MatrixTile
    ) -> tuple[Piece, ...]:
        """Return the pieces in rows and columns of the two tiles."""
        here, there = (_Cut(t.number, self._tiles.block(t)) for t in (source, target))
        return _pieces(change, here, there)

    def _source(self, place: Resident, piece: Piece) -> Access:
        rows = Span(piece.source_row, piece.source_rows)
        first = self._tiles.part(place, rows, Span(piece.source_col, 1))
        return replace(first, pattern=piece.pairs)

    def _target(self, place: Resident, piece: Piece) -> Access:
        rows = Span(piece.row, piece.rows)
        self._tiles.made(place.tile).add_columns(rows, piece.target_columns())
        first = self._tiles.part(place, rows, Span(piece.col, 1))
        return replace(first, pattern=piece.into)


class _Cut(NamedTuple):
    """A tile, whatever its matrix is called: the number of the matrix, and the block of it."""

    number: int
    block: Block


@lru_cache(maxsize=4096)
def _pieces(change: ChangeOfView, source: _Cut, target: _Cut) -> tuple[Piece, ...]:
    """Return what a tile has of another; equal changes of view and other plans share it."""
    (down_to, across_to), (rows, cols) = source.block.origin, source.block.extents
    is_any, number, down, across = _places(change, target)
    down, across = down - down_to, across - across_to
    mine = (number == source.number) & is_any
    for index, size in ((down, rows), (across, cols)):
        mine &= (index >= 0) & (index < size)
    return tuple(pieces(down, across, mine))


@lru_cache(maxsize=8)
def _places(
    change: ChangeOfView, target: _Cut
) -> tuple[npt.NDArray[np.bool_], Integers, Integers, Integers]:
    """Return where each place of a tile has an element, and its matrix, row and column before.

    The tiles that its elements come from follow one another.
    """
    logical = change.target.logical(target.number, target.block.rows, target.block.columns)
    return logical >= 0, *change.source.locate(logical)
