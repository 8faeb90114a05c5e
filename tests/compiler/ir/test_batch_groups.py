"""A batch in groups is the same bytes, and tiles and matrices of it show each element once.

`Shape.linear_index` is the oracle: where an element lies, of the tensor and of the finer shape.
"""

from __future__ import annotations

import itertools
from random import Random

import pytest

from systolic.compiler.ir.batch_groups import batch_groups, group_counts
from systolic.layout import Layout, Shape


def drawn(seed: int) -> tuple[Shape, tuple[tuple[int, ...], ...]]:
    """Return a tensor in some order, and a view of it as a batch of matrices."""
    rng = Random(seed)
    rank = rng.randint(3, 5)
    dims = tuple(rng.choice([1, 2, 3, 4, 6]) for _ in range(rank))
    shape = Shape("f32", dims, Layout(tuple(rng.sample(range(rank), rank))))
    axes = rng.sample(range(rank), rank)
    return shape, tuple((axis,) for axis in axes)


@pytest.mark.parametrize("seed", range(60))
def test_every_element_lies_where_it_did_in_every_number_of_groups(seed: int) -> None:
    shape, axes = drawn(seed)
    for count in group_counts(shape, axes):
        groups = batch_groups(shape, axes, count)
        before = {shape.linear_index(index): logical for logical, index in
                  enumerate(itertools.product(*map(range, shape.dims)))}  # fmt: skip
        after = {groups.shape.linear_index(index): logical for logical, index in
                 enumerate(itertools.product(*map(range, groups.shape.dims)))}  # fmt: skip
        assert before == after
        assert groups.tiles[0] == () or count == 1 or groups.shape.dims[groups.tiles[0][0]] == count


@pytest.mark.parametrize("seed", range(60))
def test_tiles_and_matrices_have_every_dimension_once_and_the_same_rows(seed: int) -> None:
    shape, axes = drawn(seed)
    for count in group_counts(shape, axes):
        groups = batch_groups(shape, axes, count)
        for view in (groups.tiles, groups.matrices):
            dims = sorted(axis for group in view for axis in group)
            assert dims == list(range(groups.shape.rank))
        assert groups.tiles[-2] == groups.matrices[-2]
        rows, cols = (shape.dims[axis] for group in axes[-2:] for axis in group)
        assert groups.columns * count * rows == shape.num_elements()
        assert groups.shape.dims[groups.matrices[-1][0]] == cols


def test_a_batch_by_hand() -> None:
    # f32[6,4,5] row by row, 3 groups of 2: a tile has rows of 4, each of 2 matrices of 5 columns.
    groups = batch_groups(Shape("f32", (6, 4, 5)), ((0,), (1,), (2,)), 3)
    assert groups.shape.dims == (3, 2, 4, 5)
    assert groups.tiles == ((0,), (2,), (1, 3))
    assert groups.matrices == ((0, 1), (2,), (3,))
    assert groups.columns == 10
