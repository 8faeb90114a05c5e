"""Views of folded rows: every element lies where memory has it, by numpy's transposes."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from systolic.compiler.ir.change_of_view import Spread
from systolic.compiler.ir.folded_rows import RowFold, folded_contraction, turned_rows
from systolic.compiler.ir.windows import FoldedWindow, MatrixWindow
from systolic.layout import Layout, Shape
from systolic.spans import Span


def test_the_order_of_rows_by_hand() -> None:
    assert RowFold(4).order(6).tolist() == [0, 1, 2, 3, 4, 5]
    assert RowFold(4, 2).order(8).tolist() == [0, 2, 4, 6, 1, 3, 5, 7]
    assert RowFold(2, 2).order(8).tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def seen(memory: np.ndarray, dims: tuple[int, ...], axes) -> np.ndarray:
    """Return memory of `dims` as [matrices, rows, columns]."""
    *batch, rows, cols = axes
    flat = tuple(axis for group in batch for axis in group)
    sizes = [math.prod(dims[axis] for axis in group) for group in (flat, rows, cols)]
    return memory.reshape(dims).transpose((*flat, *rows, *cols)).reshape(sizes)


@pytest.mark.parametrize("order", [(2, 1, 0), (2, 0, 1)])
@pytest.mark.parametrize("rows", [RowFold(2, 3), RowFold(4, 3), RowFold(2, 2)])
def test_a_product_finds_folded_rows_in_what_is_brought(rows, order) -> None:
    """Matrix b has row k of the tensor in the row of its window that comes k-th in the order."""
    shape = Shape("f32", (4, 12, 5), Layout(order))
    found = folded_contraction(shape, ((0,), (1,), (2,)), rows)
    memory = np.arange(shape.num_elements())
    held = seen(memory, found.shape.dims, found.tiles)
    dims = found.shape.dims
    window = FoldedWindow("held", Spread(dims, found.tiles), Spread(dims, found.matrices))
    index = np.indices(shape.dims)
    numbered = memory[np.asarray(shape.linear_index([*index]))]
    for number, (place, k) in product(range(4), enumerate(rows.order(12))):
        columns = window.columns(number, place, Span(0, 5))
        row = held[window.number(number), window.row(place)]
        assert row[columns].tolist() == numbered[number, k].tolist()
        (segment,) = window.segments(number, place, Span(0, 5))
        assert (segment.base, segment.count) == (columns[0], 5)


def test_rows_that_the_array_takes_together_lie_on_partitions_side_by_side() -> None:
    found = folded_contraction(Shape("f32", (24, 5)), ((0,), (1,)), RowFold(4, 3))
    dims = found.shape.dims
    window = FoldedWindow("held", Spread(dims, found.tiles), Spread(dims, found.matrices))
    taken = [window.row(row) for row in range(24)]
    assert taken == [*range(4)] * 3 + [*range(4, 8)] * 3
    assert {window.column(row, 0) for row in range(4, 8)} == {5}


def test_rows_to_turn_lie_at_a_step_and_come_back_in_the_order_of_memory() -> None:
    """Rows 0, 3, .. are one matrix; the columns made of them are 0, 3, .. too."""
    shape, rows = Shape("f32", (4, 6, 8)), RowFold(2, 2)
    found = turned_rows(shape, 2, rows, 3)
    dims, memory = found.shape.dims, np.arange(shape.num_elements())
    held = seen(memory, dims, found.brought)
    source = MatrixWindow("held", Spread(dims, found.brought), Spread(dims, found.source))
    made = MatrixWindow("made", Spread(dims, found.holds), Spread(dims, found.made))
    result = np.zeros((8, 24), np.int64)
    for number in range(3):
        for row in range(8):
            line = held[source.number(number), row][source.columns(number, row, Span(0, 8))]
            column = made.columns(number, 0, Span(row, 1))[0]
            result[:, column] = line
    flat = memory.reshape(24, 8)[:, rows.order(8)]
    assert result.tolist() == flat.T.tolist()
