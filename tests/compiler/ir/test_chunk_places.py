"""Is the value right? Tensors in DRAM in chunks of their bytes, one to a partition."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from systolic.compiler.ir.chip_places import LANE, ChipPlaces
from systolic.compiler.ir.chunk_places import chunk_places
from systolic.layout import Shape

TILES = "", ":T(2,4)", ":T(4,8)(2,1)", ":T(8,8)(4,1)"


def indices(shape: Shape) -> list[np.ndarray]:
    return list(np.meshgrid(*(np.arange(size) for size in shape.dims), indexing="ij"))


def chunks_of(places: ChipPlaces) -> tuple[int, int]:
    return places.rows, places.columns


@pytest.mark.parametrize("seed", range(60))
def test_a_partition_has_neighbouring_bytes(seed: int) -> None:
    """The place in memory of every element is its partition's chunk and its column in it."""
    rng = Random(seed)
    dims = [rng.randint(1, 12) for _ in range(rng.randint(2, 4))]
    order = ",".join(map(str, rng.sample(range(len(dims)), len(dims))))
    shape = Shape.parse(f"s8[{','.join(map(str, dims))}]{{{order}{rng.choice(TILES)}}}")
    for places in chunk_places(shape, 32):
        assert places.rows * places.columns == shape.padded_elements()
        assert 8 <= places.rows <= 32
        found = places.linear_index(indices(shape))
        memory = found // LANE * places.columns + found % LANE
        np.testing.assert_array_equal(memory, shape.linear_index(indices(shape)))


def test_the_most_partitions_come_first() -> None:
    shape = Shape.parse("s8[16,24]")
    assert [*map(chunks_of, chunk_places(shape, 128))] == [
        (128, 3), (96, 4), (64, 6), (48, 8), (32, 12), (16, 24), (8, 48)
    ]  # fmt: skip


def test_chunks_end_where_rows_do_that_have_no_parts() -> None:
    assert [*map(chunks_of, chunk_places(Shape.parse("s8[2,16,197,197]"), 128))] == [
        (32, 197 * 197), (16, 2 * 197 * 197), (8, 4 * 197 * 197)
    ]  # fmt: skip
    assert chunk_places(Shape.parse("s8[197,197]"), 128) == []
