"""Rows of memory with their gaps: where each element is in them, against the layout's own places.

`Shape.linear_index`, which layouts are tested by, is the oracle.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from systolic.compiler.ir.change_of_view import Spread
from systolic.compiler.ir.covered_rows import (
    CoveredRows,
    CoveredWindow,
    gap_choices,
    is_regular,
    may_be_covered,
)
from systolic.layout import Shape
from systolic.spans import Span

PAIRS = Shape.parse("bf16[3,5,9]{2,1,0:T(4,4)(2,1)}")


def drawn(rng: Random) -> Shape:
    order = ",".join(map(str, rng.sample(range(3), 3)))
    tile = rng.choice(["T(2,4)", "T(4,4)(2,1)", "T(8,4)(4,1)"])
    dims = ",".join(str(rng.randint(1, 9)) for _ in range(3))
    return Shape.parse(f"bf16[{dims}]{{{order}:{tile}}}")


@pytest.mark.parametrize("seed", range(40))
def test_every_element_is_in_its_row_and_column(seed: int) -> None:
    rng = Random(seed)
    shape = drawn(rng)
    axes = ((0,), (1,), (2,)) if rng.random() < 0.5 else ((0,), (2,), (1,))
    for gap in gap_choices(shape, axes[1]):
        rows = CoveredRows(shape, axes[1], axes[2], gap)
        columns = rows.columns_of(axes)
        for index in np.ndindex(shape.dims):
            batch, row, col = (index[group[0]] for group in axes)
            found = rows.linear_index([np.asarray(row), columns[batch, col]])
            assert found == shape.linear_index([np.asarray(i) for i in index])
        every = rows.linear_index([np.arange(rows.dims[0])[:, None], np.arange(rows.dims[1])])
        assert every.min() >= 0
        assert every.max() < shape.padded_elements()


def test_without_gaps_a_row_has_its_elements_only() -> None:
    assert CoveredRows(PAIRS, (1,), (2,), 0).dims == (5, 27)


def test_with_gaps_a_row_is_a_run_for_each_tile_and_all_runs_are_as_long() -> None:
    # 9 columns are tiles of 4, 4 and 1; every second element is the neighbouring row's. A run of
    # the first tile has 4 elements and 3 gaps, and a gap behind it, so the columns go on with a
    # step of 2. Runs of single columns are as long, but the last one of all: behind the last
    # element of the tensor there is no room in its tile for a run that begins in row 5.
    rows = CoveredRows(PAIRS, (1,), (2,), 1)
    assert rows.dims == (5, 8 * 9)
    found = rows.columns_of(((0,), (1,), (2,)))
    assert found.tolist()[1] == list(range(24, 42, 2))
    assert is_regular(rows, ((0,), (1,), (2,)))


def test_columns_of_one_distance_are_one_segment() -> None:
    shape = Shape.parse("bf16[3,5,9]{0,2,1:T(4,4)}")  # tiles of 4 columns by 4 matrices
    rows = CoveredRows(shape, (1,), (2,), 0)
    assert is_regular(rows, ((0,), (1,), (2,)))
    window = CoveredWindow("x", rows, Spread(shape.dims, ((0,), (1,), (2,))))
    assert [part.pairs for part in window.segments(1, 0, Span(2, 4))] == [((3, 4),)]
    assert window.columns(1, 0, Span(2, 2)).tolist() == [7, 10]


def test_columns_with_another_matrix_between_their_tiles_have_no_one_distance() -> None:
    shape = Shape.parse("bf16[3,5,9]{2,0,1:T(2,4)}")  # columns 0 to 3 of two matrices, then 4 to 7
    assert not is_regular(CoveredRows(shape, (1,), (2,), 0), ((0,), (1,), (2,)))


def test_long_gaps_are_no_choice() -> None:
    shape = Shape.parse("f32[2,8,4]{0,2,1:T(8,1024)}")
    assert gap_choices(shape, (1,)) == [0]  # 1022 elements of padding behind each pair


def test_combined_dimensions_have_no_such_rows() -> None:
    assert may_be_covered(PAIRS)
    assert not may_be_covered(Shape.parse("bf16[3,5,9]{2,1,0:T(*,4,4)}"))
