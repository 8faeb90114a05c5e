"""Is every byte of a tensor in the partition, bank and address the conventions say?"""

from __future__ import annotations

import math

import numpy as np
import pytest

from support.placement_law import PlacementLaw
from systolic.layout import (
    BufferGeometry,
    LayoutError,
    Placement,
    Shape,
    Spreading,
    accumulator_shape,
    in_rows,
    over_partitions,
    pack,
    place_in_dram,
    place_in_result_buffer,
    place_in_state_buffer,
)

STATE = BufferGeometry("state_buffer", 8, 4096, 4)
RESULT = BufferGeometry("result_buffer", 8, 2048, 2)
SHAPES = [
    "f32[5,7]",
    "bf16[2,3,9,11]",
    "bf16[33,20]{1,0:T(8,128)(2,1)}",
    "f32[6,5]{0,1}",
    "f32[6]",
    "f32[]",
    "s4[9,13]",
    "s4[9,13]{1,0:E(4)}",
    "pred[9,13]{1,0:E(1)}",
    "c64[3,4]",
]


def counted(shape: Shape) -> np.ndarray:
    numbers = np.arange(shape.num_elements()) % 2 ** min(shape.type.bits, 7)
    return numbers.reshape(shape.dims).astype(shape.dtype)


@pytest.mark.parametrize("text", SHAPES)
def test_state_buffer(text: str) -> None:
    shape = Shape.parse(text)
    block = None if shape.layout.tiles else (4, 3)
    placed = place_in_state_buffer(shape, STATE, block, base_partition=2, base_byte=8)
    law = PlacementLaw(placed.shape, 6)
    array = counted(shape)
    image = placed.image(array)
    bits = shape.element_bits
    assert image.shape == (placed.partitions_used, placed.bytes_per_partition_used)
    for index in np.ndindex(*shape.dims):
        partition, address = law.place(index)
        byte = 8 + address * bits // 8
        assert placed.partition_of(index) == 2 + partition
        assert placed.address_of(index) == address
        assert (placed.byte_of(index), placed.bit_of(index)) == (byte, address * bits % 8)
        assert placed.bank_of(index) == byte // 1024
        if bits >= 8:
            held = image[partition, byte - 8 : byte - 8 + bits // 8]
            assert held.tobytes() == array[index].tobytes()
            assert placed.element_at(2 + partition, byte) == index
        else:
            found = int(image[partition, byte - 8]) >> (address * bits % 8) & (2**bits - 1)
            assert found == int(array[index].view(np.uint8)) & (2**bits - 1)
    assert placed.elements_per_partition == law.addresses
    assert placed.array(image).tobytes() == array.tobytes()


def by_hand(shape: Shape, index: tuple[int, ...], p: int, q: int) -> tuple[int, int, int]:
    """(tile number, row in tile, column in tile) from the result buffer's own words."""
    *batch, rows, columns = (1,) * (2 - shape.rank) + shape.dims
    *lead, row, column = (0,) * (2 - shape.rank) + index
    matrix = 0
    for number, size in zip(lead, batch, strict=True):
        matrix = matrix * size + number
    down, across = math.ceil(rows / p), math.ceil(columns / q)
    tile = (matrix * down + row // p) * across + column // q
    return tile, row % p, column % q


@pytest.mark.parametrize("text", [t for t in SHAPES if "c64" not in t])
def test_result_buffer(text: str) -> None:
    shape, (p, q) = Shape.parse(text), (4, 3)
    placed = place_in_result_buffer(shape, RESULT, (p, q))
    array = counted(placed.shape)
    image = placed.image(array)
    assert placed.shape == accumulator_shape(shape).with_tiles((p, q))
    for index in np.ndindex(*shape.dims):
        tile, row, column = by_hand(shape, index, p, q)
        assert placed.partition_of(index) == column
        assert placed.byte_of(index) == 4 * (tile * p + row)
        assert placed.bank_of(index) == 4 * (tile * p + row) // 1024
        byte = placed.byte_of(index)
        assert image[column, byte : byte + 4].tobytes() == array[index].tobytes()
    np.testing.assert_array_equal(placed.array(image), array)


@pytest.mark.parametrize("text", [*SHAPES, "f32[3,4]{1,0:T(*,5)L(7)}"])
def test_dram_is_pack(text: str) -> None:
    shape = Shape.parse(text)
    placed = place_in_dram(shape, base_byte=64)
    array = counted(shape)
    assert placed.image(array).tobytes() == pack(array, shape).tobytes()
    assert placed.array(placed.image(array)).tobytes() == array.tobytes()
    for index in np.ndindex(*shape.dims):
        assert placed.partition_of(index) == 0
        assert placed.address_of(index) == shape.linear_index(index)
        assert placed.byte_of(index) == 64 + shape.linear_index(index) * shape.element_bits // 8
        if shape.element_bits >= 8:
            assert placed.element_at(0, placed.byte_of(index)) == index


def test_arrays_of_indices() -> None:
    shape = Shape("f32", (30, 40))
    placed = place_in_state_buffer(shape, STATE, (4, 16))
    index = np.ogrid[0:30, 0:40]
    for ask in (placed.partition_of, placed.address_of, placed.byte_of, placed.bank_of):
        found = ask(list(index))
        assert found.shape == (30, 40)
        assert found[29, 39] == ask((29, 39))
        assert found[7, 16] == ask((7, 16))


def test_places_without_an_element() -> None:
    placed = place_in_state_buffer(Shape("f32", (3, 5)), STATE, (4, 4), base_byte=16)
    assert placed.element_at(2, 16) == (2, 0)
    assert placed.element_at(3, 16) is None, "padding"
    assert placed.element_at(2, 17) is None, "inside an element"
    assert placed.element_at(2, 12) is None, "before the placement"
    assert placed.element_at(2, 48) is None, "behind it"
    assert placed.element_at(4, 16) is None, "a partition further"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: place_in_state_buffer(Shape("f32", (9, 9)), STATE, (9, 9)),
         "f32[9,9]{1,0:T(9,9)}: a tile has 9 rows, each in a partition of its own, but there are "
         "8 partitions"),
        (lambda: place_in_state_buffer(Shape("f32", (8, 9)), STATE, (8, 9), base_partition=1),
         "f32[8,9]{1,0:T(8,9)}: a tile has 8 rows, each in a partition of its own, but there are "
         "7 partitions"),
        (lambda: place_in_state_buffer(Shape.parse("f32[8,9]{1,0:T(4,4)}"), STATE, (4, 3)),
         "f32[8,9]{1,0:T(4,4)} has tiles, which say where it lies; a block cannot be chosen"),
        (lambda: place_in_state_buffer(Shape.parse("f32[8,9]{1,0:T(4,4)(*,2)}"), STATE),
         'f32[8,9]{1,0:T(4,4)(*,2)}: only the first tile of a tensor in a buffer may have "*": a '
         "later one would combine rows that lie in several partitions"),
        (lambda: over_partitions(Shape("f32", (8, 9)), 8),
         "f32[8,9]{1,0} has no tiles, so no rule says which partitions it lies in"),
        (lambda: place_in_state_buffer(Shape("f32", (8, 1025)), STATE, (8, 1025)),
         "f32[8,1025]{1,0:T(8,1025)} needs 4100 bytes per partition of state_buffer, "
         "which has 4096"),
        (lambda: place_in_dram(Shape("f32", (9,)), BufferGeometry("dram", 1, 32)),
         "f32[9]{0} needs 36 bytes per partition of dram, which has 32"),
        (lambda: place_in_result_buffer(Shape("f64", (2, 2)), RESULT, (2, 2)),
         "f64 does not fit the result buffer's 32-bit words"),
        (lambda: place_in_dram(Shape("f32", (1,)), base_byte=-1),
         "a placement begins at partition and byte 0 or later, found partition 0, byte -1"),
        (lambda: Placement(Shape("f32", (4, 4)), STATE, Spreading((4, 4), 0), base_byte=-4),
         "a placement begins at partition and byte 0 or later, found partition 0, byte -4"),
        (lambda: Placement(Shape("f32", (4, 4)), STATE, Spreading((4, 4), 0), base_partition=-1),
         "a placement begins at partition and byte 0 or later, found partition -1, byte 0"),
        (lambda: BufferGeometry("b", 0, 8), "b: partitions must be at least 1, found 0"),
        (lambda: BufferGeometry("b", 1, 9, 2),
         "b: 9 bytes per partition do not divide into 2 banks"),
        (lambda: place_in_dram(Shape("f32", (2,))).array(np.zeros((1, 4), np.uint8)),
         "an image of f32[2]{0} in dram is uint8 (1, 8), found uint8 (1, 4)"),
    ],
)  # fmt: skip
def test_refusals(build: object, message: str) -> None:
    with pytest.raises(LayoutError) as refused:
        build()  # type: ignore[operator]
    assert str(refused.value) == message


def test_dimension_0_on_the_partitions() -> None:
    """As the rows of one tile, and as the numbers of tiles of one row that stand on one another."""
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    for spreading in (Spreading((3, 4), row=0), Spreading((3, 4), grid=0, stack=8)):
        placed = Placement(Shape("f32", (3, 4)), STATE, spreading)
        assert (placed.partitions_used, placed.elements_per_partition) == (3, 4)
        assert (placed.partition_of((2, 1)), placed.address_of((2, 1))) == (2, 1)
        assert placed.element_at(2, 4) == (2, 1)
        assert placed.image(array).tobytes() == array.tobytes()
        assert placed.image(array).shape == (3, 16)
        np.testing.assert_array_equal(placed.array(placed.image(array)), array)


def test_accumulators() -> None:
    names = {
        "bf16": "f32",
        "f8e4m3fn": "f32",
        "f32": "f32",
        "s8": "s32",
        "u4": "u32",
        "pred": "u32",
    }
    assert {name: accumulator_shape(Shape(name, (2,))).element_type for name in names} == names


@pytest.mark.parametrize(
    ("text", "tiles"),
    [
        ("f32[300,1000]", "{1,0:T(128,1000)}"),
        ("f32[60,1000]", "{1,0:T(60,1000)}"),
        ("f32[60,1000]{0,1}", "{0,1:T(128,60)}"),
        ("f32[7,300,5]", "{2,1,0:T(128,5)}"),
        ("f32[9]", "{0:T(1,9)}"),
        ("f32[]", "{:T(1,1)}"),
    ],
)
def test_tiles_of_a_shape_without(text: str, tiles: str) -> None:
    assert str(in_rows(Shape.parse(text), 128)) == text.split("{")[0] + tiles


def test_dimensions_that_share_partitions_or_the_address() -> None:
    shape = Shape("f32", (2, 14, 14, 32))
    assert str(in_rows(shape, 128, shared=2)) == "f32[2,14,14,32]{3,2,1,0:T(*,128,32)}"
    assert str(in_rows(shape, 128, along=2)) == "f32[2,14,14,32]{3,2,1,0:T(14,*,448)}"
    assert str(in_rows(shape, 128, shared=3)) == "f32[2,14,14,32]{3,2,1,0:T(*,*,128,32)}"


def test_rows_that_lie_together_in_a_partition() -> None:
    shape = Shape("u8", (4, 12, 128, 64))
    lies = in_rows(shape, 128, shared=2, together=4)
    assert str(lies) == "u8[4,12,128,64]{3,2,1,0:T(*,512,64)(4,64)}"
    few = in_rows(shape, 128, together=4)
    assert str(few) == "u8[4,12,128,64]{3,2,1,0:T(128,64)(4,64)}"
