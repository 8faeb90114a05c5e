"""Operands that engines move to rows in reach of a product: all at once, or the batch in two parts.

The array is idle while an operand is moved, and engines are while the product goes on, but for the
one that takes sums out. So a batch may be cut in two: all engines move the first matrices, and an
engine that is idle then moves the others while the first ones are multiplied. Not here: how an
operand moves (`product_places`), and which engine that is (`idle_engines`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from systolic.compiler.cost.engines import drain_engine
from systolic.compiler.cost.lane_rounds import SHARED, independent_engines, lone_ticks
from systolic.compiler.ir.change_of_view import ChangeOfView
from systolic.compiler.ir.chip_places import ChipPlaces
from systolic.compiler.ir.chip_tiles import block_rows, whole_banks
from systolic.compiler.ir.nodes import Axes, Matrix
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.digit_moves import (
    emit_pieces,
    holder_of_places,
    in_rows,
    matrices_at_places,
    matrix_of_places,
)
from systolic.compiler.lower.product_places import (
    MovedOperand,
    OperandWay,
    OperandWays,
    is_in_rounds,
    rows_side_by_side,
)
from systolic.compiler.lower.relays import lanes_between
from systolic.layout import Layout, Shape
from systolic.spans import Span

FEWER = 1.05
"""A batch is moved in two parts if all at once takes so many times the cycles with the product."""


@dataclass(frozen=True, slots=True)
class _InParts:
    """The legs of an operand's first part and of its second, and the rows to which both go.

    early_cycles: about how many the first part takes.
    """

    operand: MovedOperand
    rows: ChipPlaces
    legs: tuple[tuple[ChangeOfView, ...], tuple[ChangeOfView, ...]]
    early_cycles: int


@dataclass(frozen=True, slots=True)
class BatchWork:
    """About how many cycles of the array a product takes, all matrices in turn.

    passes: so many times it goes over all matrices; each time it makes a part of every one.
    """

    cycles: int
    passes: int = 1


def bring_operands(
    builder: LayerBuilder, output: str, moved: Sequence[MovedOperand], work: BatchWork | None
) -> None:
    """Place the operands of a product that engines move, and add their moves.

    output: what the product makes. moved: those that may be moved, some of which the array may turn
    instead. work: None if it goes over all matrices several times and may turn others the first
    time: then nothing is moved in parts.
    """
    sooner = [operand for operand in moved if operand.is_sooner_moved]
    parts = list[_InParts]()
    if work is not None:
        planner = _PartsPlanner(builder, output, tuple(moved), work)
        parts = planner.parts(planner.all_at_once(sooner))
    in_parts = [each.operand for each in parts]
    for operand in moved:
        if operand in in_parts:
            continue
        if operand in sooner:
            _emit(builder, operand)
        else:
            builder.batches.place(operand.tensor, operand.axes)
    _emit_parts(builder, parts)


def _emit_parts(builder: LayerBuilder, parts: Sequence[_InParts]) -> None:
    """Place operands, and add the moves of the first parts of all of them, then of the others."""
    ends = [_held_ends(builder, each.operand, each.rows) for each in parts]
    for number in (1, 2):
        for each, (source, last) in zip(parts, ends, strict=True):
            _emit_legs(builder, source, last, _as_part(each.legs[number - 1], number))
    for each, (_, last) in zip(parts, ends, strict=True):
        _note_matrices(builder, each.operand, last, each.rows)


def _as_part(legs: Sequence[ChangeOfView], part: int) -> list[ChangeOfView]:
    """Return the legs of a part of a batch; the last one makes a part of its target."""
    return [replace(leg, part=part, in_part=leg is legs[-1]) for leg in legs]


def _emit(builder: LayerBuilder, operand: MovedOperand) -> None:
    """Place an operand, and add the legs and the move to its rows."""
    way = operand.way
    count = len(way.legs)
    ways = [f"as a relay of {count} leg{'s' if count > 1 else ''}"] if count else []
    ways += ["from place to place"] if way.move else []
    builder.choose(
        f"{operand.tensor} goes {' and '.join(ways)} on the chip, to rows in reach of a product "
        f"(about {way.cycles} cycles)"
    )
    source, last = _held_ends(builder, operand, way.rows)
    if way.move is None:
        _emit_legs(builder, source, last, way.legs)
    else:
        held = _emit_legs(builder, source, None, way.legs)
        emit_pieces(builder, held, last, way.move.moves[0])
    _note_matrices(builder, operand, last, way.rows)


def _held_ends(
    builder: LayerBuilder, operand: MovedOperand, rows: ChipPlaces
) -> tuple[Matrix, Matrix]:
    """Return the matrices of all places of an operand, at home and in its rows."""
    source = holder_of_places(builder, operand.tensor, operand.way.source, "state_buffer")
    last = matrix_of_places(builder, operand.tensor, rows)
    return source, builder.add(replace(last, axes=rows_side_by_side(operand.axes)))


def _emit_legs(
    builder: LayerBuilder, source: Matrix, last: Matrix | None, legs: Sequence[ChangeOfView]
) -> Matrix:
    """Add legs from one matrix to another, or to a new one; return where the last one leads."""
    between = legs if last is None else legs[:-1]
    held = [source]
    held += [lanes_between(builder, source.tensor, source.dtype, leg.target) for leg in between]
    held += [] if last is None else [last]
    for (before, after), leg in zip(pairwise(held), legs, strict=True):
        builder.node("move", (before,), after, leg)
    return held[-1]


def _note_matrices(
    builder: LayerBuilder, operand: MovedOperand, last: Matrix, rows: ChipPlaces
) -> None:
    """Note the matrices that a product takes within the rows of an operand."""
    if builder.size(operand.tensor, operand.axes[-2]) <= block_rows(builder.chip):
        builder.batches.lies_within(operand.tensor, operand.axes, last)
        return
    matrices = matrices_at_places(builder, last, rows, operand.axes)
    builder.batches.lies_as(operand.tensor, operand.axes, matrices)


@dataclass(frozen=True, slots=True)
class _PartsPlanner:
    """A product, the operands that engines may move, and what the product takes of the array.

    Of the operands some may be moved in two parts, while the array turns the others if it can.
    """

    builder: LayerBuilder
    output: str
    operands: tuple[MovedOperand, ...]
    work: BatchWork

    def all_at_once(self, moved: Sequence[MovedOperand]) -> int:
        """Return about how many cycles all takes if these operands are moved before the product."""
        return sum(each.way.cycles for each in moved) + self._of_array(moved)

    def _of_array(self, moved: Sequence[MovedOperand]) -> int:
        """Return the array's cycles for the product, and to turn the operands that do not move."""
        others = (each for each in self.operands if each not in moved)
        turned = sum(each.turned or 0 for each in others if not each.is_sooner_moved)
        return self.work.cycles + turned

    def parts(self, others: int) -> list[_InParts]:
        """Return the operands that are moved in parts, if that is cheaper; else none.

        others: about how many cycles it takes to move all matrices before the product.
        """
        engine = self._late_engine()
        if engine is None or whole_banks(self.builder.chip):
            return []
        ways = [
            (self._estimate(some, first), first, some)
            for some in self._choices()
            for first in range(1, self._count)
        ]
        if not ways:
            return []
        cycles, first, some = min(ways, key=lambda way: way[0])
        if FEWER * cycles > others:
            return []
        for at in dict.fromkeys((first, self._whole_lines(first), self._count // 2)):
            found = [self._parts_of(operand, at) for operand in some] if at else []
            planned = [each for each in found if each is not None]
            if planned and (cheaper := self._if_cheaper(planned, at, engine, others)):
                return cheaper
        return []

    def _late_engine(self) -> str | None:
        """Return an engine that is idle during the product; None without two engines for rounds."""
        chip, options = self.builder.chip, self.builder.options
        engines = independent_engines(chip, options)
        idle = (name for name in engines if name != drain_engine(chip, options))
        return next(idle, None) if len(engines) > 1 else None

    def _choices(self) -> list[tuple[MovedOperand, ...]]:
        """Return which operands may be moved in parts: those that would move all at once, or one.

        Of more operands not all have room across two banks, where engines share their moves.
        """
        may = [each for each in self.operands if is_in_rounds(each.way) and self._has_all(each)]
        sooner = tuple(each for each in may if each.is_sooner_moved)
        if sooner or any(each.is_sooner_moved for each in self.operands):
            return [sooner] if sooner else []
        return [(each,) for each in may]

    @property
    def _batch(self) -> tuple[int, ...]:
        return self.builder.graph.shape(self.output).dims[:-2]

    @property
    def _count(self) -> int:
        return math.prod(self._batch)

    def _has_all(self, operand: MovedOperand) -> bool:
        """Return whether an operand has a matrix for each one of the result."""
        return self.builder.graph.shape(operand.tensor).dims[:-2] == self._batch

    def _whole_lines(self, first: int) -> int:
        """Return the matrices of whole lines of the minor dimensions that are nearest to some."""
        major = next((n for n, size in enumerate(self._batch) if size > 1), 0)
        line = math.prod(self._batch[major + 1 :])
        lines = min(max(1, round(first / line)), self._batch[major] - 1)
        return lines * line

    def _estimate(self, some: Sequence[MovedOperand], first: int) -> float:
        """Return about how many cycles all takes if so many matrices are moved first."""
        part = first / self._count
        moved = sum(each.way.cycles for each in some)
        early, late = moved * part, moved * (1 - part) / SHARED
        return self._before(some) + early + self._rest(some, part, late)

    def _before(self, some: Sequence[MovedOperand]) -> int:
        """Return about how many cycles operands take that can only be moved as a whole."""
        whole = (each for each in self.operands if each.is_sooner_moved and each not in some)
        return sum(each.way.cycles for each in whole)

    def _rest(self, some: Sequence[MovedOperand], part: float, late: float) -> float:
        """Return the cycles behind the first part: its work and the late moves, then the rest."""
        work, first = self._of_array(some), part / self.work.passes
        return max(late, work * first) + work * (1 - first)

    def _if_cheaper(
        self, planned: list[_InParts], first: int, engine: str, others: int
    ) -> list[_InParts]:
        """Return parts if their copies take as little time as was thought; else none."""
        builder, some = self.builder, [each.operand for each in planned]
        chip, part = builder.chip, first / self._count
        early = sum(each.early_cycles for each in planned)
        late = sum(
            lone_ticks(chip, replace(leg, engine=engine), each.rows.shape.element_type)
            for each in planned
            for leg in each.legs[1]
        )
        cycles = self._before(some) + early
        cycles += int(self._rest(some, part, late // chip.period("pe_array")))
        if FEWER * cycles > others:
            return []
        names = " and ".join(operand.tensor for operand in some)
        go = "go" if len(some) > 1 else "goes"
        builder.choose(
            f"{names} {go} to rows in reach of a product in two parts, {first} of {self._count} "
            f"matrices before it (about {cycles} cycles with the product; otherwise {others})"
        )
        return planned

    def _parts_of(self, operand: MovedOperand, first: int) -> _InParts | None:
        """Return the legs of so many matrices, and of the others; None if there are none."""
        chip, home = self.builder.chip, self.builder.graph.shape(operand.tensor)
        plain = home.with_layout(Layout(home.layout.minor_to_major))
        stop = next(in_rows(chip, plain, [_matrix_by_matrix(operand.axes)]), None)
        if stop is None:
            return None
        ways = list[OperandWay]()
        for span in (Span(0, first), Span(first, self._count - first)):
            ends = ((_part(end, span),) for end in (operand.way.source, stop))
            relays = OperandWays(self.builder, *ends).relayed(operand.tensor, operand.way.cycles)
            best = min(filter(is_in_rounds, relays), key=lambda way: way.cycles, default=None)
            if best is None:
                return None
            ways.append(best)
        return _InParts(operand, stop, (ways[0].legs, ways[1].legs), ways[0].cycles)


def _matrix_by_matrix(axes: Axes) -> Axes:
    """Return the view in which all rows of a matrix come before those of the next one."""
    *batch, rows, cols = axes
    return (*((axis,) for group in batch for axis in group), rows, cols)


def _part(places: ChipPlaces, span: Span) -> ChipPlaces:
    """Return the places of some matrices of a batch [batch..., rows, columns], as [some, ...]."""
    *batch, rows, cols = places.offsets
    line = np.zeros(1, np.int64)
    for offsets in batch:
        line = (line[:, None] + offsets).ravel()
    kept = line[span.first : span.stop], rows, cols
    return replace(places, shape=Shape(places.shape.element_type, [*map(len, kept)]), offsets=kept)
