"""Is every byte of a tensor in the partition, bank and address the conventions say?"""

from __future__ import annotations

import math

import numpy as np
import pytest

from systolic.layout import (
    BufferGeometry,
    LayoutError,
    Placement,
    Shape,
    accumulator_shape,
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


def by_hand(shape: Shape, index: tuple[int, ...], p: int, q: int) -> tuple[int, int, int, int]:
    """(tile number, row in tile, column in tile, tiles) from the conventions' own words."""
    *batch, rows, columns = (1,) * (2 - shape.rank) + shape.dims
    *lead, row, column = (0,) * (2 - shape.rank) + index
    matrix = 0
    for number, size in zip(lead, batch, strict=True):
        matrix = matrix * size + number
    down, across = math.ceil(rows / p), math.ceil(columns / q)
    tile = (matrix * down + row // p) * across + column // q
    return tile, row % p, column % q, math.prod(batch) * down * across


@pytest.mark.parametrize("text", SHAPES)
def test_state_buffer(text: str) -> None:
    shape, (p, q) = Shape.parse(text), (4, 3)
    placed = place_in_state_buffer(shape, STATE, (p, q), base_partition=2, base_byte=8)
    array = counted(shape)
    image = placed.image(array)
    bits = shape.element_bits
    assert image.shape == (placed.partitions_used, placed.bytes_per_partition_used)
    for index in np.ndindex(*shape.dims):
        tile, row, column, tiles = by_hand(shape, index, p, q)
        address = tile * q + column
        byte = 8 + address * bits // 8
        assert placed.partition_of(index) == 2 + row
        assert placed.address_of(index) == address
        assert (placed.byte_of(index), placed.bit_of(index)) == (byte, address * bits % 8)
        assert placed.bank_of(index) == byte // 1024
        if bits >= 8:
            assert image[row, byte - 8 : byte - 8 + bits // 8].tobytes() == array[index].tobytes()
            assert placed.element_at(2 + row, byte) == index
        else:
            found = int(image[row, byte - 8]) >> (address * bits % 8) & (2**bits - 1)
            assert found == int(array[index].view(np.uint8)) & (2**bits - 1)
    assert placed.elements_per_partition == tiles * q
    assert placed.size_bytes == p * math.ceil(tiles * q * bits / 8)
    assert placed.array(image).tobytes() == array.tobytes()


@pytest.mark.parametrize("text", [t for t in SHAPES if "c64" not in t])
def test_result_buffer(text: str) -> None:
    shape, (p, q) = Shape.parse(text), (4, 3)
    placed = place_in_result_buffer(shape, RESULT, (p, q))
    array = counted(placed.shape)
    image = placed.image(array)
    assert placed.shape == accumulator_shape(shape).with_tiles((p, q))
    for index in np.ndindex(*shape.dims):
        tile, row, column, _ = by_hand(shape, index, p, q)
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
    placed = place_in_state_buffer(shape, STATE, (8, 16))
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
         "f32[9,9]{1,0:T(9,9)} needs 9 partitions of state_buffer, which has 8"),
        (lambda: place_in_state_buffer(Shape("f32", (8, 9)), STATE, (8, 9), base_partition=1),
         "f32[8,9]{1,0:T(8,9)} needs 9 partitions of state_buffer, which has 8"),
        (lambda: place_in_state_buffer(Shape("f32", (8, 1025)), STATE, (8, 1025)),
         "f32[8,1025]{1,0:T(8,1025)} needs 4100 bytes per partition of state_buffer, "
         "which has 4096"),
        (lambda: place_in_dram(Shape("f32", (9,)), BufferGeometry("dram", 1, 32)),
         "f32[9]{0} needs 36 bytes per partition of dram, which has 32"),
        (lambda: place_in_result_buffer(Shape("f64", (2, 2)), RESULT, (2, 2)),
         "f64 does not fit the result buffer's 32-bit words"),
        (lambda: place_in_dram(Shape("f32", (1,)), base_byte=-1),
         "a placement begins at partition and byte 0 or later, found partition 0, byte -1"),
        (lambda: Placement(Shape("f32", (2, 2)), STATE, (2,)),
         "partition_axes must be different physical dimensions of f32[2,2]{1,0} (0 to 1), "
         "found (2,)"),
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
