"""Do the accesses that reach a block of a matrix in DRAM reach its elements, where XLA puts them?

The places are those of `Shape.linear_index`, element by element.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from systolic.compiler.ir.dram_tensor import DramTensor
from systolic.isa.access import MAX_PAIRS
from systolic.layout import COMBINE, Layout, Shape, Tile

BASE = 128


def drawn_shape(rng: Random) -> Shape:
    """Return a shape of two to four dimensions, in any order, with up to two tiles."""
    rank = rng.randint(2, 4)
    dims = [rng.randint(1, 6) for _ in range(rank)]
    tiles = []
    for _ in range(rng.randint(0, 2)):
        sizes = [rng.randint(1, 4) for _ in range(rng.randint(1, rank))]
        if len(sizes) > 1 and rng.random() < 0.3:
            sizes[rng.randrange(len(sizes) - 1)] = COMBINE
        tiles.append(Tile(sizes))
    layout = Layout(rng.sample(range(rank), rank), tiles)
    return Shape(rng.choice(["f32", "bf16", "s8"]), dims, layout)


def drawn_axes(rng: Random, rank: int) -> list[tuple[int, ...]]:
    """Return the dimensions of each axis [batch..., row, column]: two or more runs of a shuffle."""
    dims = rng.sample(range(rank), rank)
    cuts = sorted(rng.sample(range(1, rank), rng.randint(1, rank - 1)))
    return [tuple(dims[a:b]) for a, b in zip([0, *cuts], [*cuts, rank], strict=True)]


def place(shape: Shape, axes: list[tuple[int, ...]], numbers: list[int]) -> int:
    """Return the byte of the element at these places along the axes."""
    index = [0] * shape.rank
    for dims, number in zip(axes, numbers, strict=True):
        for dim in reversed(dims):
            number, index[dim] = divmod(number, shape.dims[dim])
    return BASE + int(shape.linear_index(index)) * shape.dtype.itemsize


@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_rectangles_reach_the_elements_of_a_block(seed, by_column):
    rng = Random(seed)
    for _ in range(25):
        shape = drawn_shape(rng)
        axes = drawn_axes(rng, shape.rank)
        *batch, rows, cols = (int(np.prod([shape.dims[d] for d in dims])) for dims in axes)
        which = [rng.randrange(size) for size in batch]
        row, col = rng.randrange(rows), rng.randrange(cols)
        extents = rng.randint(1, rows - row), rng.randint(1, cols - col)
        found: dict[tuple[int, int], int] = {}
        tensor = DramTensor(shape, BASE, axes)
        for part in tensor.rectangles(which, (row, col), extents, by_column=by_column):
            assert len(part.access.pattern) <= MAX_PAIRS
            size = part.access.element_bytes
            reached = [int(element) * size for element in part.access.offsets()]
            pairs = [(r, c) for r in range(part.rows.first, part.rows.stop)
                     for c in range(part.cols.first, part.cols.stop)]  # fmt: skip
            pairs = sorted(pairs, key=lambda p: p[::-1]) if by_column else pairs
            assert not found.keys() & set(pairs)
            found.update(zip(pairs, reached, strict=True))
        wanted = {
            (r, c): place(shape, axes, [*which, row + r, col + c])
            for r in range(extents[0]) for c in range(extents[1])
        }  # fmt: skip
        assert found == wanted, (shape, axes)
