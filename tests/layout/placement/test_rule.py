"""Does a tiled tensor lie in a buffer with partitions as the rule says, in every tiling?"""

from __future__ import annotations

import numpy as np
import pytest

from support.placement_law import PlacementLaw
from systolic.layout import (
    BufferGeometry,
    Layout,
    LayoutError,
    Shape,
    over_partitions,
    place_in_state_buffer,
)


def buffer(partitions: int = 128) -> BufferGeometry:
    return BufferGeometry("state_buffer", partitions, 1 << 20, 4)


@pytest.mark.parametrize(
    ("text", "index", "partition", "address"),
    [
        # Row 130 is row 2 of the second tile along the rows; column 300 is column 44 of the third.
        ("f32[300,1000]{1,0:T(128,128)}", (130, 300), 2, (1 * 8 + 2) * 128 + 44),
        # Sixteen tiles of 8 rows fill the partitions: the same places.
        ("f32[300,1000]{1,0:T(8,128)}", (130, 300), 2, (1 * 8 + 2) * 128 + 44),
        # Column 183 is on partition 55, and the tiles of 128 hold the 16 rows with padding.
        ("f32[16,256]{0,1:T(128,128)}", (8, 183), 55, 136),
        # Rows 8 and 9 are one row of partition 4; 9 is the second of the pair.
        ("bf16[256,512]{1,0:T(8,128)(2,1)}", (9, 130), 4, (0 * 4 + 1) * 256 + 2 * 2 + 1),
        # Batch, height and width share the partitions.
        ("f32[2,14,14,32]{3,2,1,0:T(*,*,128,32)}", (1, 3, 8, 13), (196 + 42 + 8) % 128, 32 + 13),
    ],
)
def test_worked_by_hand(text: str, index: tuple[int, ...], partition: int, address: int) -> None:
    placed = place_in_state_buffer(Shape.parse(text), buffer())
    assert (placed.partition_of(index), placed.address_of(index)) == (partition, address)


def test_pairs_of_rows_are_neighbours_in_a_partition() -> None:
    placed = place_in_state_buffer(Shape.parse("bf16[256,512]{1,0:T(8,128)(2,1)}"), buffer())
    for row in range(0, 256, 2):
        for column in (0, 127, 128, 511):
            even, odd = (row, column), (row + 1, column)
            assert placed.partition_of(even) == placed.partition_of(odd) == row // 2
            assert placed.address_of(odd) == placed.address_of(even) + 1
            assert placed.address_of(even) % 2 == 0


@pytest.mark.parametrize(
    ("text", "partitions", "elements"),
    [
        ("f32[300,1000]{1,0:T(8,128)}", 128, 3 * 1024),  # 38 tiles, 16 on one another
        ("f32[20,1000]{1,0:T(8,128)}", 24, 1024),  # only three tiles
        ("f32[300,10]{1,0:T(100,10)}", 100, 30),  # a second tile does not fit on the first
        ("f32[10]{0:T(4)}", 1, 12),  # one virtual row
        ("f32[300,10]{1,0:T(4)}", 128, 3 * 12),  # each row is a tile
        ("f32[]{:T(128)}", 1, 128),
        ("f32[0,5]{1,0:T(8,128)}", 0, 0),
    ],
)
def test_room(text: str, partitions: int, elements: int) -> None:
    placed = place_in_state_buffer(Shape.parse(text), buffer())
    assert (placed.partitions_used, placed.elements_per_partition) == (partitions, elements)


def random_shape(rng: np.random.Generator) -> Shape:
    """A shape of rank 0 to 5 in up to three tiles; its first tile may combine dimensions."""
    rank = int(rng.integers(0, 6))
    most = (1, 40, 9, 5, 4, 3)[rank]
    dims = tuple(int(n) for n in rng.integers(1, most + 1, rank))
    tiles = []
    for level in range(int(rng.integers(1, 4))):
        sizes = [int(n) for n in rng.integers(1, 6, int(rng.integers(1, 5)))]
        for place in range(len(sizes) - 1):
            if level == 0 and rng.random() < 0.3:
                sizes[place] = -1
        tiles.append(sizes)
    order = [int(n) for n in rng.permutation(rank)]
    return Shape("s8", dims, Layout(order, tiles))


def check(shape: Shape, partitions: int) -> None:
    law = PlacementLaw(shape, partitions)
    placed = place_in_state_buffer(shape, buffer(partitions))
    indices = list(np.ndindex(*shape.dims))
    expected = [law.place(index) for index in indices]
    found = [(placed.partition_of(index), placed.address_of(index)) for index in indices]
    assert found == expected, shape
    assert len(set(found)) == len(found), f"{shape}: two elements share a place"
    assert placed.elements_per_partition == law.addresses
    assert placed.partitions_used <= partitions
    for partition, address in found:
        assert 0 <= partition < placed.partitions_used
        assert 0 <= address < placed.elements_per_partition
    if shape.rank:
        arrays = [np.asarray(part) for part in zip(*indices, strict=True)]
        assert placed.partition_of(arrays).tolist() == [p for p, _ in expected]
        assert placed.address_of(arrays).tolist() == [a for _, a in expected]
    at = dict(zip(expected, indices, strict=True))
    for partition in range(placed.partitions_used):
        for address in range(min(placed.elements_per_partition, 40)):
            assert placed.element_at(partition, address) == at.get((partition, address))
    data = rng_data(shape)
    image = placed.image(data, fill=77)
    for place, index in at.items():
        assert image[place] == data[index]
    assert np.count_nonzero(image == 77) == image.size - data.size
    np.testing.assert_array_equal(placed.array(image), data)


def rng_data(shape: Shape) -> np.ndarray:
    """Values without 77, which fills the padding."""
    return (np.arange(shape.num_elements()) % 77).reshape(shape.dims).astype(np.int8)


def sweep(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    done = 0
    while done < count:
        shape, partitions = random_shape(rng), int(rng.integers(1, 20))
        rows = PlacementLaw(shape, 1 << 20).rows
        if rows > partitions:
            with pytest.raises(LayoutError, match=f"a tile has {rows} rows"):
                over_partitions(shape, partitions)
            continue
        check(shape, partitions)
        done += 1


def test_random_layouts() -> None:
    sweep(seed=12, count=400)


@pytest.mark.slow
def test_thousands_of_random_layouts() -> None:
    sweep(seed=13, count=5000)
