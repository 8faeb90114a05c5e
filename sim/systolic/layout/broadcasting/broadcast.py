"""Broadcasting by XLA's rules: ranks are matched explicitly, and sizes of 1 are stretched.

The checks, their order and the sentences of the errors are XLA's (seed 003; order of the checks as
compiled). Results without arithmetic are numpy views. Not here: when an engine executes such an
operation, or in which precision it accumulates.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np

from systolic.arrays import Array
from systolic.layout.element_types import element_type_of
from systolic.layout.errors import LayoutError
from systolic.layout.tile import INT64_MAX

Dims = Sequence[int]


def broadcast_shapes(
    lhs: Dims, rhs: Dims, broadcast_dimensions: Dims = (), element_type: str = "f32"
) -> tuple[int, ...]:
    """Return the dimensions of an element-wise operation's result.

    ``broadcast_dimensions[i]`` is the dimension of the higher-rank operand with which dimension i
    of the lower-rank operand is matched; operands of different ranks need it, except scalars. Sizes
    must be equal or 1, and the result has "the one that is not 1". ``element_type`` shows in
    messages only.
    """
    given = tuple(operator.index(number) for number in broadcast_dimensions)
    left, right = _dims(lhs), _dims(rhs)
    if len(left) == len(right):
        return _equal_rank(left, right, given, element_type)
    lower, higher = sorted((left, right), key=len)
    widened = _widened(lower, higher, given, element_type)
    return tuple(_wider(a, b) for a, b in zip(widened, higher, strict=True))


def broadcast_in_dim(operand: Array, out_dims: Dims, broadcast_dimensions: Dims) -> Array:
    """Return ``operand`` as a read-only view of ``out_dims``: BroadcastInDim.

    Dimension i of the operand becomes dimension ``broadcast_dimensions[i]`` of the result. Its size
    must be that dimension's, or 1. The numbers strictly increase.
    """
    out, given = (
        tuple(map(operator.index, out_dims)),
        tuple(map(operator.index, broadcast_dimensions)),
    )
    if any(size < 0 for size in out):
        raise LayoutError(f"invalid shape: dims={_list(out)} has a negative size")
    _check_in_dim(operand.shape, out, given)
    placed = [1] * len(out)
    for size, number in zip(operand.shape, given, strict=True):
        placed[number] = size
    return _stretched(operand.reshape(placed), out)


def broadcast(operand: Array, sizes: Dims) -> Array:
    """Return ``operand`` repeated along new leading dimensions of ``sizes``: Broadcast."""
    out = (*map(operator.index, sizes), *operand.shape)
    first = len(out) - operand.ndim
    return broadcast_in_dim(operand, out, range(first, len(out)))


def operands(
    name: str, lhs: Array, rhs: Array, broadcast_dimensions: Dims = ()
) -> tuple[Array, Array]:
    """Return both operands of operation ``name`` as views of the result's dimensions, no copy."""
    left_type, right_type = element_type_of(lhs.dtype).name, element_type_of(rhs.dtype).name
    if left_type != right_type:
        raise LayoutError(
            f"Binary op {name} with different element types: "
            f"{left_type}{_list(lhs.shape)} and {right_type}{_list(rhs.shape)}."
        )
    out = broadcast_shapes(lhs.shape, rhs.shape, broadcast_dimensions, left_type)
    return (
        _placed(lhs, out, broadcast_dimensions),
        _placed(rhs, out, broadcast_dimensions),
    )


# -- the checks, in XLA's order -------------------------------------------------------------------


def _equal_rank(
    left: tuple[int, ...], right: tuple[int, ...], given: tuple[int, ...], kind: str
) -> tuple[int, ...]:
    if given not in ((), tuple(range(len(left)))):
        raise LayoutError(
            "Broadcast dimensions field must either be not set or be the identity on binary "
            "operations with operands of the same rank."
        )
    for a, b in zip(left, right, strict=True):
        if a != b and 1 not in (a, b):
            raise LayoutError(
                f"Binary op with incompatible shapes: {kind}{_list(left)} and {kind}{_list(right)}."
            )
    return tuple(_wider(a, b) for a, b in zip(left, right, strict=True))


def _widened(
    lower: tuple[int, ...], higher: tuple[int, ...], given: tuple[int, ...], kind: str
) -> tuple[int, ...]:
    """Return the lower operand's dimensions in the higher rank, 1 where it has none."""
    if not given and lower:
        raise LayoutError(
            f"Shapes must be equal rank, but are {kind}{_list(lower)} and {kind}{_list(higher)}"
        )
    if len(given) != len(lower):
        raise LayoutError(
            "Size of broadcast_dimensions has to match lower-rank operand's rank;  "
            f"lower-rank operand's rank is {len(lower)}, "
            f"size of broadcast_dimensions is {len(given)}."
        )
    widened = [1] * len(higher)
    for position, number in enumerate(given):
        _check_number(position, given, lower, higher, kind)
        widened[number] = lower[position]
    return tuple(widened)


def _check_number(
    position: int, given: tuple[int, ...], lower: Dims, higher: Dims, kind: str
) -> None:
    number = given[position]
    if number < 0:
        raise LayoutError(f"Broadcast dimension number ({number}) cannot be negative.")
    if number >= len(higher):
        raise LayoutError(
            f"Broadcast dimension number ({number}) too large; "
            f"higher-rank operand has rank {len(higher)}."
        )
    small, large = lower[position], higher[number]
    if small != large and 1 not in (small, large):
        raise LayoutError(
            f"Broadcast dimension {position} mismatch: {small} != {large}; "
            f"{kind}{_list(lower)} and {kind}{_list(higher)}."
        )
    _check_increasing(position, given)


def _check_increasing(position: int, given: tuple[int, ...]) -> None:
    if position and given[position - 1] >= given[position]:
        raise LayoutError(
            "Broadcast dimensions order is wrong: "
            f"{given[position]} comes after {given[position - 1]}."
        )


def _check_in_dim(dims: Dims, out: Dims, given: tuple[int, ...]) -> None:
    if len(given) != len(dims):
        raise LayoutError(
            "Size of broadcast_dimensions has to match operand's rank; "
            f"operand rank: {len(dims)}, size of broadcast_dimensions {len(given)}."
        )
    if len(dims) > len(out):
        raise LayoutError(
            "InDim style broadcast must be to an equal or higher ranked shape; "
            f"operand rank: {len(dims)}; output rank: {len(out)}"
        )
    for position, number in enumerate(given):
        if not 0 <= number < len(out):
            raise LayoutError(f"Broadcast dimension {number} is out of bound")
        if dims[position] not in (1, out[number]):
            raise LayoutError(
                "Input dimension should be either 1 or equal to the output dimension it is "
                f"broadcasting into; the {position}th operand dimension is {dims[position]}, "
                f"the {number}th output dimension is {out[number]}."
            )
        _check_increasing(position, given)


# -- views ----------------------------------------------------------------------------------------


def _placed(array: Array, out: tuple[int, ...], given: Dims) -> Array:
    """Return ``array`` stretched to ``out``: 1s where it has no dimension, then no copy."""
    if array.ndim < len(out):
        placed = [1] * len(out)
        for size, number in zip(array.shape, given, strict=True):
            placed[number] = size
        array = array.reshape(placed)
    return _stretched(array, out)


def _stretched(array: Array, out: tuple[int, ...]) -> Array:
    size = array.itemsize
    for part in out:
        size *= max(part, 1)
    if size > INT64_MAX:
        raise LayoutError(f"overflow in static extent product: dimensions={_list(out)}.")
    return np.broadcast_to(array, out)


def _dims(dims: Dims) -> tuple[int, ...]:
    found = tuple(operator.index(size) for size in dims)
    if any(size < 0 for size in found):
        raise LayoutError(f"a dimension must not be negative, found {_list(found)}")
    return found


def _wider(a: int, b: int) -> int:
    return b if a == 1 else a


def _list(dims: Dims) -> str:
    return "[" + ",".join(map(str, dims)) + "]"
