"""Operands of a product that engines move to rows in its reach, before it begins.

Not here: which way an operand moves (`product_places`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from systolic.compiler.ir.change_of_view import ChangeOfView
from systolic.compiler.ir.chip_places import ChipPlaces
from systolic.compiler.ir.chip_tiles import block_rows
from systolic.compiler.ir.nodes import Matrix
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.digit_moves import (
    emit_pieces,
    holder_of_places,
    matrices_at_places,
    matrix_of_places,
)
from systolic.compiler.lower.product_places import MovedOperand, rows_side_by_side
from systolic.compiler.lower.relays import lanes_between


def bring_operands(builder: LayerBuilder, moved: Sequence[MovedOperand]) -> None:
    """Place the operands of a product that engines may move, and add their moves.

    moved: operands that may be moved; the array may turn some of them instead.
    """
    for operand in moved:
        if operand.is_sooner_moved:
            _emit(builder, operand)
        else:
            builder.batches.place(operand.tensor, operand.axes)


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
    source, last = _held_ends(builder, operand)
    if way.move is None:
        _emit_legs(builder, source, last, way.legs)
    else:
        held = _emit_legs(builder, source, None, way.legs)
        emit_pieces(builder, held, last, way.move.moves[0])
    _note_matrices(builder, operand, last, way.rows)


def _held_ends(builder: LayerBuilder, operand: MovedOperand) -> tuple[Matrix, Matrix]:
    """Return the matrices of all places of an operand, at home and in its rows."""
    source = holder_of_places(builder, operand.tensor, operand.way.source, "state_buffer")
    last = matrix_of_places(builder, operand.tensor, operand.way.rows)
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
