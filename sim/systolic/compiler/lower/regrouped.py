"""Lowering of a reshape between two operations whose rows become other rows, or other columns.

Whole rows of a tensor lie on the chip, all columns of each in one partition. The dimensions that
are to be the result's rows are some of these columns, at one distance; of the other columns there
is a matrix for each index. The array turns each matrix, and what it makes are columns of the
result: [32 groups, 1024 pixels, 4] becomes [1024 pixels, 32 groups x 4] by turning four matrices of
32 x 1024. If the rows are the same before and after, engines put the columns in order lane by lane.
Not here: other changes of view (`reshape`), tensors that nothing but one operation takes
(`chip_moves`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from systolic.compiler.cost.dma import store_cost
from systolic.compiler.cost.moves import move_cost
from systolic.compiler.cost.turns import turn_cost
from systolic.compiler.ir.change_of_view import ChangeOfView, Spread
from systolic.compiler.ir.chip_tiles import block_rows, whole_banks
from systolic.compiler.ir.nodes import Axes, Matrix
from systolic.compiler.ir.windows import MatrixWindow
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.chip_moves import factor_sizes
from systolic.compiler.lower.views import home_views, swap
from systolic.hw.datatypes import data_type
from systolic.layout import Shape

ROOM = 8
"""Whole rows take no more than this part of a partition."""

_Group = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Regrouping:
    """A way from a matrix of a tensor to a view of the reshaped one.

    cycles: about how many it takes. seen: the factors of the matrix's batch, rows and columns.
    held: those of whole rows in which the columns are in order. rest: the columns of which there
    is a matrix to turn for each index (None: nothing is turned). last: the view of the result.
    """

    cycles: int
    source: Matrix
    seen: Axes
    held: Axes
    rest: _Group | None
    last: Axes


class Regrouper:
    """The ways of one reshape by whole rows.

    names: of source and result. nested: the factors of each dimension before and after, as
    `common_factors` has them.
    """

    def __init__(
        self, builder: LayerBuilder, names: tuple[str, str], nested: tuple[Axes, Axes]
    ) -> None:
        self._builder, (self._source, self._output) = builder, names
        before, after = (builder.graph.shape(name) for name in names)
        self._old, self._new = nested
        self._sizes = factor_sizes((before.dims, self._old), (after.dims, self._new))
        self._result = Shape(before.element_type, after.dims)

    def cheapest(self, *, stored: bool = False) -> Regrouping | None:
        """Return the way of least cycles; None if none suits.

        stored: the result goes to DRAM, there in logical order; cycles are those with the store.
        """
        homes = [
            home
            for home in home_views(self._result)
            if not any(_factors(self._new, home[:-2])) and all(_factors(self._new, home[-2:]))
        ]
        ways = [
            way
            for matrix, axes in self._builder.views(self._source)
            for last in (homes if stored else [*homes, *map(swap, homes)])
            if matrix.window is None
            for way in self._ways(matrix, _factors(self._old, axes), last, stored=stored)
        ]
        return min(ways, key=lambda way: way.cycles, default=None)

    def emit(self, way: Regrouping) -> None:
        """Add the nodes that make the result."""
        builder, (rows, cols) = self._builder, way.held
        made = _factors(self._new, way.last)
        if way.rest is None:
            change = self._change(way.seen, made)
            builder.moved(way.source, change, self._output, way.last)
            return
        held, tall = way.source, block_rows(builder.chip)
        if self._is_moved(way.source, way.seen, way.held):
            wide = self._count(cols)
            held = builder.scratch(
                self._source, self._dtype, (1, self._count(rows), wide), (tall, wide)
            )
            builder.node("move", (way.source,), held, self._change(way.seen, way.held))
        result = builder.place_matrix(self._result, way.last, self._output, shared=1, height=tall)
        batch, down = tuple((n,) for n in way.rest), made[-2]
        builder.turn(
            self._within(held, way.held, (*batch, rows, down)),
            self._within(result, made, (*batch, down, rows)),
        )
        builder.rename(result, self._output, way.last)

    def _ways(
        self, matrix: Matrix, seen: Axes, last: Axes, *, stored: bool
    ) -> Iterator[Regrouping]:
        builder, chip = self._builder, self._builder.chip
        made = _factors(self._new, last)
        *batch, rows, across = seen
        *_, down, cols = made
        if rows == down and not stored:
            cycles = self._cycles(self._change(seen, made))
            yield Regrouping(cycles, matrix, seen, (rows, across), None, last)
        if not rows or not _is_stretch(rows, cols) or not builder.can_turn(self._dtype):
            return
        if not (self._has_room(rows) and self._has_room(down)):
            return
        rest = tuple(n for n in cols if n not in rows)
        held: Axes = (rows, (*rest, *down))
        if matrix.shared and not any(batch) and _is_stretch(down, across):
            held = seen = (rows, across)
        cycles = turn_cost(chip, [self._count(group) for group in (rest, rows, down)], self._dtype)
        if self._is_moved(matrix, seen, held):
            cycles += self._cycles(self._change(seen, held))
        cycles += store_cost(chip, self._result, last) if stored else 0
        yield Regrouping(cycles, matrix, seen, held, rest, last)

    @staticmethod
    def _is_moved(matrix: Matrix, seen: Axes, held: Axes) -> bool:
        """Return whether elements are put in order first, or brought to tiles of whole rows."""
        return seen != held or matrix.block is None or matrix.block[1] < matrix.cols

    @property
    def _dtype(self) -> str:
        return self._result.element_type

    def _cycles(self, change: ChangeOfView) -> int:
        return move_cost(self._builder.chip, self._builder.options, change, self._dtype)

    def _change(self, before: Axes, after: Axes) -> ChangeOfView:
        return ChangeOfView(Spread(self._sizes, before), Spread(self._sizes, after))

    def _has_room(self, rows: _Group) -> bool:
        """Return whether whole rows take a small part of a partition, and a row no two banks."""
        chip, size = self._builder.chip, data_type(self._dtype).size_bytes
        room = chip.state_buffer.bytes_per_partition // ROOM
        row = math.prod(self._sizes) // self._count(rows) * size
        tiles = -(-self._count(rows) // block_rows(chip))
        return tiles * row <= room and row <= (whole_banks(chip) or room)

    def _count(self, factors: _Group) -> int:
        return math.prod(self._sizes[n] for n in factors)

    def _within(self, held: Matrix, lies: Axes, seen: Axes) -> Matrix:
        """Return matrices within one of whole rows; lies, seen: the factors of both."""
        outer, inner = Spread(self._sizes, lies), Spread(self._sizes, seen)
        return self._builder.within(held, MatrixWindow(held.name, outer, inner))


def _factors(nest: Axes, axes: Axes) -> Axes:
    """Return the factors of groups of dimensions."""
    return tuple(tuple(n for dim in group for n in nest[dim]) for group in axes)


def _is_stretch(some: _Group, factors: _Group) -> bool:
    """Return whether factors follow one another among others: their indices have one distance."""
    starts = range(len(factors) - len(some) + 1)
    return any(factors[first : first + len(some)] == some for first in starts)
