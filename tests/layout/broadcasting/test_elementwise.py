"""Does an element-wise operation mean what XLA means, and copy nothing it need not?"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from systolic.layout import (
    LayoutError,
    binary,
    broadcast,
    broadcast_in_dim,
    broadcast_shapes,
    operands,
)

MATRIX = np.array([[1, 2, 3], [4, 5, 6]], np.int32)


# -- every worked example of seed 003 -------------------------------------------------------------


def test_vector_to_matrix() -> None:
    vector = np.array([7, 8, 9], np.int32)
    assert binary("add", MATRIX, vector, (1,)).tolist() == [[8, 10, 12], [11, 13, 15]]
    assert binary("add", vector, MATRIX, (1,)).tolist() == [[8, 10, 12], [11, 13, 15]]


def test_scalar() -> None:
    assert binary("add", MATRIX, np.int32(7)).tolist() == [[8, 9, 10], [11, 12, 13]]


def test_both_ways_into_a_square() -> None:
    vector, square = np.array([7, 8, 9]), np.zeros((3, 3), np.int64)
    assert binary("add", square, vector, (1,)).tolist() == [[7, 8, 9]] * 3
    assert binary("add", square, vector, (0,)).tolist() == [[7] * 3, [8] * 3, [9] * 3]


def test_matrix_to_cuboid() -> None:
    cuboid, matrix = np.zeros((2, 3, 4), np.float32), np.ones((3, 4), np.float32)
    assert binary("add", cuboid, matrix, (1, 2)).shape == (2, 3, 4)


@pytest.mark.parametrize(
    ("lhs", "rhs", "result"),
    [
        ((2, 1), (2, 3), (2, 3)),
        ((1, 2, 5), (7, 2, 5), (7, 2, 5)),
        ((7, 2, 5), (7, 1, 5), (7, 2, 5)),
        ((2, 1), (1, 3), (2, 3)),
        ((1,), (0,), (0,)),
        ((0, 3), (1, 3), (0, 3)),
    ],
)
def test_degenerate_dimensions(
    lhs: tuple[int, ...], rhs: tuple[int, ...], result: tuple[int, ...]
) -> None:
    assert broadcast_shapes(lhs, rhs) == broadcast_shapes(rhs, lhs) == result


def test_incompatible() -> None:
    with pytest.raises(LayoutError, match=r"^Binary op with incompatible shapes: f32\[7,2,5\] and"):
        broadcast_shapes((7, 2, 5), (7, 2, 6))


def test_composition() -> None:
    column, row = np.array([1, 2, 3, 4]), np.array([[5, 6]])
    assert binary("add", column, row, (0,)).tolist() == [[6, 7], [7, 8], [8, 9], [9, 10]]
    assert broadcast_shapes((1, 2), (4, 3, 1), (1, 2)) == (4, 3, 2)


@pytest.mark.parametrize(("given", "size"), [((0,), 2), ((1,), 3), ((2,), 4), ((3,), 5)])
def test_formal_definition_of_vectors(given: tuple[int, ...], size: int) -> None:
    assert broadcast_shapes((2, 3, 4, 5), (size,), given) == (2, 3, 4, 5)


@pytest.mark.parametrize("given", [(2, 3), (1, 2), (0, 3)])
def test_formal_definition_of_matrices(given: tuple[int, int]) -> None:
    sizes = (2, 3, 4, 5)
    assert broadcast_shapes(sizes, [sizes[number] for number in given], given) == sizes


# -- what else there is to say --------------------------------------------------------------------


def test_zero_copies() -> None:
    vector = np.array([7, 8, 9], np.int32)
    left, right = operands("add", MATRIX, vector, (1,))
    assert np.shares_memory(left, MATRIX)
    assert np.shares_memory(right, vector)
    assert right.strides[0] == 0
    huge = broadcast(np.ones(1, np.int8), (2**40,))
    assert huge.shape == (2**40, 1)
    assert not huge.flags.writeable


def test_overflow_of_a_broadcast() -> None:
    with pytest.raises(LayoutError, match=r"^overflow in static extent product: dimensions=\["):
        broadcast_in_dim(np.ones(1, np.int32), (2**40, 2**40), (1,))


@pytest.mark.parametrize(
    ("long", "short", "result"),
    [
        ("subtract", "sub", [[-6, -6, -6]]),
        ("multiply", "mul", [[7, 16, 27]]),
        ("divide", "div", [[0, 0, 0]]),
        ("maximum", "max", [[7, 8, 9]]),
        ("minimum", "min", [[1, 2, 3]]),
        ("power", "pow", [[1, 256, 19683]]),
        ("and", "and", [[1, 0, 1]]),
        ("or", "or", [[7, 10, 11]]),
        ("xor", "xor", [[6, 10, 10]]),
        ("eq", "EQ", [[False, False, False]]),
        ("ne", "ne", [[True, True, True]]),
        ("lt", "lt", [[True, True, True]]),
        ("le", "le", [[True, True, True]]),
        ("gt", "gt", [[False, False, False]]),
        ("ge", "ge", [[False, False, False]]),
    ],
)
def test_names(long: str, short: str, result: list[list[int]]) -> None:
    row, other = np.array([[1, 2, 3]], np.int32), np.array([[7, 8, 9]], np.int32)
    for name in (long, short):
        found = binary(name, row, other)
        assert found.tolist() == result
        assert found.dtype == (np.bool_ if long in ("eq", "ne", "lt", "le", "gt", "ge") else "i4")


def test_integer_division_truncates_and_never_warns() -> None:
    left = np.array([7, -7, 7, -7, 5, -128], np.int8)
    right = np.array([2, 2, -2, -2, 0, -1], np.int8)
    assert binary("div", left, right).tolist() == [3, -3, -3, 3, -1, -128]
    assert binary("div", np.array([5], np.uint8), np.array([0], np.uint8)).tolist() == [255]
    assert binary("add", np.int32(2**31 - 1), np.int32(1)).tolist() == -(2**31)
    with np.errstate(all="raise"):
        assert np.isinf(binary("div", np.float32(1), np.float32(0)))


def test_small_floats() -> None:
    array = np.array([1, 2, 4], ml_dtypes.bfloat16)
    assert binary("mul", array, ml_dtypes.bfloat16(3)).tolist() == [3, 6, 12]


def test_refusals() -> None:
    with pytest.raises(
        LayoutError,
        match=r'^unknown element-wise operation "mult" \(known: add, .*\); perhaps "mul" was',
    ):
        binary("mult", MATRIX, MATRIX)
    with pytest.raises(LayoutError, match=r"^and is not defined on these f32 operands"):
        binary("and", np.float32(1), np.float32(1))
    with pytest.raises(
        LayoutError, match=r"^Binary op add with different element types: s32\[2,3\]"
    ):
        binary("add", MATRIX, MATRIX.astype(np.int64))
    with pytest.raises(LayoutError, match=r"^a dimension must not be negative, found \[-1\]$"):
        broadcast_shapes((-1,), (1,))
