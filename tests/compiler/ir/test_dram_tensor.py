"""Do the accesses that reach a block of a matrix in DRAM reach its elements, where XLA puts them?

The places are those of `Shape.linear_index`, element by element.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from systolic.compiler.ir.dram_tensor import DramTensor, segments
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


@pytest.mark.parametrize("seed", range(8))
def test_rectangles_reach_the_elements_of_a_block(seed):
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
        for part in tensor.rectangles(which, (row, col), extents):
            assert len(part.access.pattern) <= MAX_PAIRS
            size = part.access.element_bytes
            reached = [int(element) * size for element in part.access.offsets()]
            pairs = [(r, c) for r in range(part.rows.first, part.rows.stop)
                     for c in range(part.cols.first, part.cols.stop)]  # fmt: skip
            assert not found.keys() & set(pairs)
            found.update(zip(pairs, reached, strict=True))
        wanted = {
            (r, c): place(shape, axes, [*which, row + r, col + c])
            for r in range(extents[0]) for c in range(extents[1])
        }  # fmt: skip
        assert found == wanted, (shape, axes)


def test_what_begins_within_a_run_is_cut_at_its_end() -> None:
    """Rows of 7 at a distance of 10, from the third element on: 5, and then all other rows."""
    offsets = (10 * np.arange(18)[:, None] + np.arange(7)).ravel()[2:]
    found = [(part.first, part.count, part.base, part.pairs) for part in segments(offsets)]
    assert found == [(0, 5, 2, ((1, 5),)), (5, 119, 10, ((10, 17), (1, 7)))]


@pytest.mark.parametrize("seed", range(20))
def test_segments_make_up_the_offsets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dims, steps = rng.integers(1, 5, 4), rng.integers(1, 60, 4)
    offsets = sum(np.ix_(*(n * step for n, step in zip(map(np.arange, dims), steps, strict=True))))
    offsets = offsets.ravel()[rng.integers(0, dims[-1]) :]
    made: list[int] = []
    for part in segments(offsets):
        assert part.first == len(made)
        places = [part.base]
        for step, count in part.pairs:
            places = [at + step * n for at in places for n in range(count)]
        assert len(places) == part.count
        made += places
    assert made == offsets.tolist()


def test_whole_rows_are_cut_along_their_columns() -> None:
    """Rows of three steps and columns of two are a step too many for an access."""
    plain = Shape("f16", (10, 4, 3, 14, 200), Layout((4, 2, 1, 0, 3)))
    shape = plain.with_padding((16, 8, 4, 14, 256))
    tensor = DramTensor(shape, BASE, [(0, 1, 2), (3, 4)])
    parts = {
        whole_rows: list(tensor.rectangles((), (0, 0), (120, 14 * 200), whole_rows=whole_rows))
        for whole_rows in (False, True)
    }
    assert {part.rows.count for part in parts[True]} == {120}
    assert {part.rows.count for part in parts[False]} == {12}
    for found in parts.values():
        reached = np.concatenate([part.access.offsets() for part in found])
        assert len(np.unique(reached)) == len(reached) == 120 * 14 * 200
