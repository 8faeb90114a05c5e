"""Operands of a product whose neighbouring rows share partitions, where that brings them sooner.

An operand in DRAM is brought as a matrix of longer and fewer rows. If its rows are rows of the
contraction, the product takes it through a window; if they are columns of the product, the array
turns them first, a matrix for each of the neighbours. The estimates decide for both operands
together (`cost.folded_rows`), because rows of the contraction must lie in one order in both. Not
here: the views themselves (`ir.folded_rows`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from systolic.compiler.cost.dma import queues_of_tile
from systolic.compiler.cost.folded_rows import (
    NOTHING,
    Coming,
    end_of_product,
    in_pieces,
    run_cycles,
    there_and_done,
)
from systolic.compiler.cost.turns import carrier, turn_cost
from systolic.compiler.ir.batch_rows import whole_rows
from systolic.compiler.ir.change_of_view import Spread
from systolic.compiler.ir.folded_rows import (
    RowFold,
    folded_contraction,
    turned_rows,
)
from systolic.compiler.ir.nodes import Axes, Matrix, TurnNode
from systolic.compiler.ir.on_chip.chip_tiles import block_rows, whole_banks
from systolic.compiler.ir.windows import FoldedWindow, MatrixWindow
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.views import physical, swap
from systolic.layout import Shape

ROOM = 8
"""A piece that is brought takes at most this part of a partition; what is made of it does too."""
ROOM_TURNED = 4
"""All that is turned takes at most this part of a partition."""
TILE_COLUMNS = 512
"""About how many columns a tile has that is brought as the compilation cuts it."""


@dataclass(frozen=True, slots=True)
class _Way:
    """A way in which an operand comes. fold: neighbours on a partition (0: not by this module).

    rows: the order of the contraction in it. turned: its rows are columns of the product.
    """

    coming: Coming
    rows: RowFold
    fold: int = 0
    turned: bool = False


class FoldedRows:
    """The operands of one product, and how they come."""

    def __init__(self, builder: LayerBuilder, names: tuple[str, str], views: tuple[Axes, Axes]):
        """Note the operands. views: lhs as [.., K, M], rhs as [.., K, N]."""
        self._builder, self._names, self._views = builder, names, views
        self._chip, self._p = builder.chip, block_rows(builder.chip)
        self._ways: tuple[_Way, _Way] | None = None
        self._cycles = 0, 0

    def choose(self, work_cycles: int, stored_bytes: int) -> RowFold:
        """Choose the ways of both operands; return the order in which the contraction is taken.

        Rows lie as usual where DRAM has one burst in hand: descriptors hardly count there.

        work_cycles: of the array, for the product alone. stored_bytes: of its result, in DRAM.
        """
        in_order = RowFold(self._p)
        options = self._builder.options
        free = options.via is None and options.block is None and options.tile_columns is None
        parts = self._chip.dram.organisation
        rows_count = parts is not None and parts.outstanding == 1
        if not free or rows_count or self._names[0] == self._names[1]:
            return in_order
        left, right = (self._best_of(self._ways_of(place)) for place in (0, 1))
        ends = {
            (one, other): end_of_product(
                self._chip, (one.coming, other.coming), work_cycles, stored_bytes
            )
            for one, other in product(left, right)
            if one.rows == other.rows
        }
        best = min(ends, key=lambda pair: ends[pair])
        as_usual = min(ends[pair] for pair in ends if not any(way.fold for way in pair))
        if ends[best] >= as_usual:
            return in_order
        self._ways, self._cycles = best, (ends[best], as_usual)
        return best[0].rows

    def _best_of(self, ways: Iterator[_Way]) -> list[_Way]:
        """Return the ways of an operand that may be the best: sooner to begin, or sooner to end."""
        alike: dict[tuple[RowFold, bool, bool], list[_Way]] = {}
        for way in ways:
            key = way.rows, bool(way.fold), way.coming.at_once
            alike.setdefault(key, []).append(way)
        found = list[_Way]()
        for some in alike.values():
            ends = {way: there_and_done(self._chip, way.coming) for way in some}
            first = math.inf
            for way in sorted(some, key=lambda way: ends[way][::-1]):
                if ends[way][0] < first:
                    first = ends[way][0]
                    found.append(way)
        return found

    def bring(self, place: int) -> Matrix | None:
        """Return the matrices of an operand if it comes folded; None if it comes as usual."""
        if self._ways is None or not (way := self._ways[place]).fold:
            return None
        name, axes = self._names[place], self._views[place]
        rows = f"{way.fold} rows" if way.fold > 1 else "a row"
        self._builder.choose(
            f"{name} is brought with {rows} on a partition{', and turned' if way.turned else ''} "
            f"(about {self._cycles[0]} cycles with the product; as usual: {self._cycles[1]})"
        )
        return (self._turned if way.turned else self._contracted)(name, axes, way)

    # Which ways there are

    def _ways_of(self, place: int) -> Iterator[_Way]:
        builder, name, axes = self._builder, self._names[place], self._views[place]
        in_order, dram = RowFold(self._p), builder.dram
        comes = dram.holds(name) and not builder.is_shown(name)
        if not comes:
            yield _Way(NOTHING, in_order)
            return
        shape = dram.shape(name)
        for seen in (axes, swap(axes)) if builder.can_turn(shape.element_type) else (axes,):
            turn = 0 if seen == axes else builder.cost_of_turning(shape, seen)
            for way in self._as_usual(shape, seen, turn, first=place == 0):
                yield _Way(way, in_order)
        dense = not shape.layout.tiles and shape.padded_elements() == shape.num_elements()
        if not dense or builder.uses(name) > 1 or len(axes[-2]) != 1:
            return
        minor = physical(shape)[-1][-1:]
        in_memory = tuple(axis for axis in shape.layout.major_to_minor if axis in axes[-1])
        if minor == axes[-2] and in_memory == axes[-1]:
            yield from self._turned_ways(shape, axes)
        elif minor == axes[-1]:  # columns of several dimensions would not lie at one distance
            yield from self._contracted_ways(shape, axes)

    def _as_usual(self, shape: Shape, seen: Axes, turn: int, *, first: bool) -> Iterator[Coming]:
        """Yield how a tensor may come in tiles of a row on each partition."""
        *batch, rows, cols = (math.prod(shape.dims[d] for d in group) for group in seen)
        tall, wide = -(-rows // self._p), -(-cols // TILE_COLUMNS)
        queues, matrices = self._chip.dma.useful_queues, math.prod(batch)
        half = max(1, queues // 2) if first else 1
        cycles = run_cycles(self._chip, shape, seen)
        if turn and not batch and wide > 1:  # the product begins with the first columns of all rows
            share = min(queues, tall * half)
            yield in_pieces(self._chip, cycles, wide, share, turn_cycles=turn)
        else:
            pieces, once = matrices * tall * wide, bool(turn) and not batch
            yield in_pieces(self._chip, cycles, pieces, half, turn_cycles=turn, at_once=once)
        if len(seen[-1]) == 1 and any(seen[:-2]):
            cycles = run_cycles(self._chip, shape, whole_rows(shape, seen))
            share = queues_of_tile(self._chip)
            yield in_pieces(self._chip, cycles, tall, share, turn_cycles=turn, at_once=True)

    def _turned_ways(self, shape: Shape, axes: Axes) -> Iterator[_Way]:
        """Yield the ways of an operand with its rows along the address."""
        chip, (contracted,) = self._chip, axes[-2]
        K, others = shape.dims[contracted], shape.num_elements() // shape.dims[contracted]
        if carrier(chip, shape.element_type) is None:
            return
        in_order = RowFold(self._p)
        for fold in self._folds(others):
            lanes = others // fold
            if not self._turns_fit(shape, K, (fold, others)):
                continue
            turn = turn_cost(chip, (fold, lanes, K), shape.element_type)
            made = turned_rows(shape, contracted, in_order, fold)
            cycles, tall = run_cycles(chip, made.shape, made.brought), -(-lanes // self._p)
            for rows, share in product(self._row_folds(K), self._shares()):
                comes = in_pieces(chip, cycles, tall, share, turn_cycles=turn, at_once=True)
                yield _Way(comes, rows, fold, turned=True)

    def _folds(self, rows: int) -> list[int]:
        """Return how many neighbours a partition may have: for each power of two of tiles, one."""
        sizes = _divisors(rows)
        tall = [1 << n for n in range(max(1, (rows // self._p).bit_length()))]
        return [*dict.fromkeys(next(n for n in sizes if rows // n <= t * self._p) for t in tall)]

    def _contracted_ways(self, shape: Shape, axes: Axes) -> Iterator[_Way]:
        """Yield the ways of an operand with its columns along the address."""
        K, size = shape.dims[axes[-2][0]], shape.dtype.itemsize
        for rows in self._row_folds(K):
            found = folded_contraction(shape, axes, rows)
            wide = math.prod(found.shape.dims[n] for n in found.tiles[-1]) * size
            if rows.fold == 1 or not self._has_room(wide):
                continue
            cycles = run_cycles(self._chip, found.shape, found.tiles)
            tall, at_once = K // (rows.fold * self._p), any(axes[:-2])
            for share in self._shares():
                comes = in_pieces(self._chip, cycles, tall, share, at_once=at_once)
                yield _Way(comes, rows, rows.fold)

    def _row_folds(self, K: int) -> Iterator[RowFold]:
        yield RowFold(self._p)
        for fold in _divisors(K // self._p) if K % self._p == 0 else ():
            if fold > 1:
                yield RowFold(self._p, fold)

    def _shares(self) -> list[int]:
        queues = queues_of_tile(self._chip)
        return [*dict.fromkeys((queues, max(1, queues // 2), 1))]

    def _turns_fit(self, shape: Shape, K: int, cut: tuple[int, int]) -> bool:
        (fold, others), size = cut, shape.dtype.itemsize
        made = others * size
        tall = -(-(others // fold) // self._p)
        every = tall * fold * K * size + -(-K // self._p) * made
        have = self._chip.state_buffer.bytes_per_partition
        return (
            self._has_room(fold * K * size) and self._has_room(made) and every * ROOM_TURNED <= have
        )

    def _has_room(self, size: int) -> bool:
        room = self._chip.state_buffer.bytes_per_partition // ROOM
        return size <= min(room, whole_banks(self._chip) or room)

    # How they come

    def _contracted(self, name: str, axes: Axes, way: _Way) -> Matrix:
        """Bring rows of the contraction, several to a partition."""
        builder = self._builder
        found = folded_contraction(builder.dram.shape(name), axes, way.rows)
        held = self._brought(name, found.shape, found.tiles, way)
        dims = found.shape.dims
        window = FoldedWindow(held.name, Spread(dims, found.tiles), Spread(dims, found.matrices))
        return builder.within(held, window)

    def _turned(self, name: str, axes: Axes, way: _Way) -> Matrix:
        """Bring rows that are columns of the product, and turn them, neighbour by neighbour."""
        builder, shape = self._builder, self._builder.dram.shape(name)
        rows = turned_rows(shape, axes[-2][0], way.rows, way.fold)
        held = builder.carried(self._brought(name, rows.shape, rows.brought, way))
        tiles = whole_rows(shape, axes)
        made = builder.place_matrix(shape, tiles, name, shared=1, height=self._p)
        dims = rows.shape.dims
        source, target = (
            builder.within(
                holder, MatrixWindow(holder.name, Spread(dims, outer), Spread(dims, inner))
            )
            for holder, outer, inner in (
                (held, rows.brought, rows.source),
                (made, rows.holds, rows.made),
            )
        )
        builder.node(TurnNode, (source,), target)
        dims = shape.dims
        window = MatrixWindow(made.name, Spread(dims, tiles), Spread(dims, axes))
        return builder.within(made, window)

    def _brought(self, name: str, shape: Shape, axes: Axes, way: _Way) -> Matrix:
        place = f"{name}, {way.fold} rows on a partition"
        self._builder.dram.alias(place, self._builder.dram.of(name), shape)
        share = way.coming.sharing
        return self._builder.place_matrix(
            shape, axes, name, dram=place, shared=share, height=self._p
        )


def _divisors(number: int) -> list[int]:
    """Return the divisors of a number, the least first."""
    low = [part for part in range(1, math.isqrt(number) + 1) if number % part == 0]
    return sorted({*low, *(number // part for part in low)})
