"""Turns: the array, or an engine, makes the transpose of a tile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from systolic.compiler.cost.engines import drain_interval
from systolic.compiler.ir.drafts import Drafts
from systolic.compiler.ir.nodes import Matrix, TurnNode
from systolic.compiler.ir.ranges import spans
from systolic.compiler.ir.tasks import Task
from systolic.compiler.place.tiles import OnChip
from systolic.compiler.schedule.engine_work import EngineWork, HeldAccess, MadeMatrix
from systolic.compiler.schedule.identities import Identities
from systolic.compiler.schedule.sums import SumBanks
from systolic.hw.datatypes import PSUM_WORD_BYTES, data_type
from systolic.isa import Access, LoadWeights, MatMul, PassThrough, Transpose
from systolic.isa.instruction import Event
from systolic.spans import Span
from systolic.workload.options import Options

MOST_HALVED = 16
"""The most tiles that go in halves: of more tiles the time of half a tile is a small part."""


class TurnMaker:
    """Makes the instructions of turns whose tiles are all in place.

    turned: the multiply-adds of the array's turns.
    """

    def __init__(
        self,
        drafts: Drafts,
        tiles: OnChip,
        options: Options,
        made_by: tuple[EngineWork, SumBanks, Identities],
    ) -> None:
        """Begin with no turns. made_by: engines, banks and identities."""
        self._drafts, self._tiles, self._options = drafts, tiles, options
        self._chip, self._matrices = tiles.chip, tiles.matrices
        self._engines, self._sums, self._identities = made_by
        self.turned = 0

    def turn(self, task: Task, node: TurnNode) -> None:
        """Transpose a tile: each sub-block is stationary, the identity moves.

        Where that is not slower the array passes the sub-block on, and its bits stay as they are.
        """
        matrix, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        if side := self._identities.by_engine.get(task.node):
            self._turn_by_engine(task, (matrix, out), side)
            return
        identity, held = self._identities.of(matrix.dtype)
        kind, dtype = MatMul, data_type(matrix.dtype).accumulator
        if self._chip.pe_array.turns_by_passing(matrix.dtype):
            kind, dtype = PassThrough, matrix.dtype
        for rows in task.rows:
            most = self._words_at_once(matrix, (out, task.number), rows)
            for cols in task.cols:
                source, weights = self._tiles.reach(matrix, task.number, rows, cols)
                self._drafts.add(LoadWeights(weights=weights), (source.region,), ())
                for some in _pieces(rows, most):
                    target, made = self._tiles.make_reach(out, task.number, cols, some)
                    bank = self._sums.free()
                    sums, region = self._sums.access(dtype, made.partitions, some.count, bank)
                    start = identity.start + (some.first - rows.first) * identity.element_bytes
                    ones = replace(
                        identity, partitions=rows.count, start=start, pattern=((1, some.count),)
                    )
                    multiply = kind(moving=ones, result=sums)
                    self.turned += rows.count * cols.count * some.count
                    self._drafts.add(multiply, (held,), (region,), parts=self._posted(sums))
                    if self._options.drain == "block":
                        copy = self._engines.copy_of_sums(sums, made)
                        self._engines.add(copy, (region,), (target.region,))
                    else:
                        self._drain_turned((sums, region), (out, task.number), cols, some)

    def _words_at_once(self, matrix: Matrix, made: MadeMatrix, span: Span) -> int:
        """Return how many words of a turned tile are copied out together: all, or half of them.

        The first half of a product is there sooner. So few tiles that one engine casts and another
        copies out go in halves, if that takes the engine no longer: then neither waits. Each half
        must be one access of the result.
        """
        (out, number), rows = made, span.count
        tall, array = self._identities.rows(matrix), self._chip.pe_array
        words, half = self._chip.result_buffer.bank_words, -(-rows // 2)
        casts = matrix.holder in self._identities.casts and self._options.drain == "block"
        tiles = matrix.matrices * -(-matrix.rows // tall) * -(-matrix.cols // array.cols)
        if not casts or not 1 < tiles <= MOST_HALVED or half < array.min_vectors:
            return words
        if out.window is not None and any(
            len(out.window.segments(number, 0, part)) > 1 for part in _pieces(span, half)
        ):
            return words
        one, both = (
            drain_interval(self._chip, self._options, out.dtype, many) for many in (half, rows)
        )
        return min(half, words) if 2 * one <= both else words

    def _turn_by_engine(self, task: Task, ends: tuple[Matrix, Matrix], side: int) -> None:
        """Transpose a tile block by block: block (i, j) becomes block (j, i)."""
        ((rows,), (cols,)), (matrix, out) = (task.rows, task.cols), ends
        step = partial(Transpose, side=side)
        for row in spans(rows.first, rows.stop, rows.stop, side):
            for col in spans(cols.first, cols.stop, cols.stop, side):
                source, taken = self._tiles.reach(matrix, task.number, row, col)
                target, made = self._tiles.make_reach(out, task.number, col, row)
                regions = (source.region,), (target.region,)
                self._engines.do(step, *regions, source=taken, target=made)

    def _posted(self, sums: Access) -> tuple[Event, int] | None:
        """Return the event on which a multiply posts, and how often, if not once at its end."""
        if self._options.drain == "row":
            return "row", sums.elements
        return ("partition", sums.partitions) if self._options.drain == "partition" else None

    def _drain_turned(self, held: HeldAccess, out: MadeMatrix, rows: Span, cols: Span) -> None:
        """Copy every row or partition of a sub-block as soon as it is complete."""
        sums, region = held
        if self._options.drain == "row":
            for row in range(cols.count):
                start = sums.start + row * PSUM_WORD_BYTES
                part = replace(sums, start=start, pattern=((1, 1),))
                column = Span(cols.first + row, 1)
                self._engines.drain((part, region), out, rows, column, part=row + 1)
        else:
            for lane in range(rows.count):
                part = replace(sums, partition=lane, partitions=1)
                line = Span(rows.first + lane, 1)
                self._engines.drain((part, region), out, line, cols, part=lane + 1)


def _pieces(span: Span, most: int) -> Iterator[Span]:
    """Cut a span into spans of at most `most`, counted from its first."""
    firsts = range(span.first, span.stop, most)
    return (Span(first, min(most, span.stop - first)) for first in firsts)
