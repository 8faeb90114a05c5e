"""The numpy meaning of every operation, one row each: what it takes, what it gives.

`check` says whether shapes go together; `reference` gives what the hardware rules give, bit for
bit; `exact` the same in float64 (or int64), unrounded. A further operation is one row here, and
one in `systolic.compiler.lower.table`. Nothing here knows a chip beyond `Rules`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.matmul import exact_product, reference_product


@dataclass(frozen=True, slots=True)
class Rules:
    """What the arithmetic of a chip depends on.

    k_tiles: boundaries of the K-tiles of a contraction of that length; fused: one rounding per
    multiply-add.
    """

    k_tiles: Callable[[int], Sequence[int]]
    fused: bool = False


@dataclass(frozen=True, slots=True)
class Meaning:
    """A row: number of inputs, and three functions of them.

    check(shapes, out, permutation) raises WorkloadError. reference(arrays, out, permutation,
    rules) and exact(arrays, out, permutation) return the result; arrays are in logical order.
    """

    arity: int
    check: Callable[[Sequence[Shape], Shape, Sequence[int]], None]
    reference: Callable[[Sequence[Array], Shape, Sequence[int], Rules], Array]
    exact: Callable[[Sequence[Array], Shape, Sequence[int]], Array]


def plain(shape: Shape) -> str:
    """Return type and dimensions of a shape without its layout."""
    return f"{shape.element_type}[{','.join(map(str, shape.dims))}]"


def convert(values: Array, dtype: np.dtype[Any]) -> Array:
    """Return values in another type: to a float rounded once, to nearest even; integers wrap.

    A float goes to an integer by truncation towards zero, saturating, NaN to 0.
    """
    if values.dtype == dtype:
        return values
    with np.errstate(all="ignore"):
        if dtype.kind in "iu" and values.dtype.kind not in "iu":
            low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
            whole = np.trunc(np.nan_to_num(values.astype(np.float64), nan=0.0))
            return np.clip(whole, low, high).astype(dtype)
        if values.dtype.kind in "iu" and dtype.name == "bfloat16":
            values = _with_eight_bits(values)
        return values.astype(dtype)


def _with_eight_bits(values: Array) -> Array:
    """Return integers rounded to the 8 bits of a bfloat16; ml_dtypes would round to 24 before."""
    fraction, exponent = np.frexp(values.astype(np.float64))
    rounded: Array = np.ldexp(np.rint(fraction * 256), exponent - 8)
    return rounded


def _broadcast(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the leading dimensions of a product, as numpy broadcasts them; None if it cannot."""
    try:
        return np.broadcast_shapes(left, right)
    except ValueError:
        return None


def _check_matmul(shapes: Sequence[Shape], out: Shape, permutation: Sequence[int]) -> None:
    lhs, rhs = shapes
    for shape in (lhs, rhs, out):
        if shape.rank < 2:
            raise WorkloadError(
                f"matmul needs at least 2 dimensions, found {plain(shape)}; a vector is a matrix "
                f"of one row or one column"
            )
    batch = _broadcast(lhs.dims[:-2], rhs.dims[:-2])
    if batch is None or lhs.dims[-1] != rhs.dims[-2]:
        raise WorkloadError(
            f"{plain(lhs)} and {plain(rhs)} cannot be multiplied: lhs [.., M, K] and rhs "
            f"[.., K, N] need the same K, and leading dimensions that are equal or 1 from the last"
        )
    dims = (*batch, lhs.dims[-2], rhs.dims[-1])
    if out.dims != dims:
        wanted = f"[{','.join(map(str, dims))}]"
        raise WorkloadError(
            f"{plain(lhs)} times {plain(rhs)} has dimensions {wanted}, but out is {plain(out)}"
        )
    kinds = {shape.dtype.kind in "iu" for shape in (lhs, rhs, out)}
    if len(kinds) > 1:
        raise WorkloadError(
            f"{plain(lhs)}, {plain(rhs)} and {plain(out)}: integers multiply with integers and "
            f"floats with floats, into the same"
        )


def _check_transpose(shapes: Sequence[Shape], out: Shape, permutation: Sequence[int]) -> None:
    (source,) = shapes
    if sorted(permutation) != list(range(source.rank)):
        raise WorkloadError(
            f"permutation: each axis from 0 to {source.rank - 1} must be named once, "
            f"found {list(permutation)}"
        )
    dims = tuple(source.dims[axis] for axis in permutation)
    _check_same(source.element_type, dims, out, plain(source))


def _check_relayout(shapes: Sequence[Shape], out: Shape, permutation: Sequence[int]) -> None:
    _check_same(shapes[0].element_type, shapes[0].dims, out, plain(shapes[0]))


def _check_cast(shapes: Sequence[Shape], out: Shape, permutation: Sequence[int]) -> None:
    _check_same(out.element_type, shapes[0].dims, out, plain(shapes[0]))


def _check_reshape(shapes: Sequence[Shape], out: Shape, permutation: Sequence[int]) -> None:
    (source,) = shapes
    if math.prod(source.dims) != math.prod(out.dims):
        raise WorkloadError(
            f"{plain(source)} has {math.prod(source.dims)} elements, "
            f"{plain(out)} {math.prod(out.dims)}"
        )
    _check_same(source.element_type, out.dims, out, plain(source))


def _check_same(element_type: str, dims: tuple[int, ...], out: Shape, source: str) -> None:
    if (out.element_type, out.dims) != (element_type, dims):
        wanted = f"{element_type}[{','.join(map(str, dims))}]"
        raise WorkloadError(f"{source} gives {wanted}, but out is {plain(out)}")


def _moved(function: Callable[[Array, Shape, Sequence[int]], Array]) -> dict[str, Any]:
    """Return both meanings of an operation that only moves elements."""

    def reference(arrays: Sequence[Array], out: Shape, axes: Sequence[int], _: Rules) -> Array:
        return function(arrays[0], out, axes)

    def exact(arrays: Sequence[Array], out: Shape, axes: Sequence[int]) -> Array:
        return function(arrays[0], out, axes)

    return {"reference": reference, "exact": exact}


def _product(arrays: Sequence[Array], out: Shape, axes: Sequence[int], rules: Rules) -> Array:
    lhs, rhs = arrays
    tiles = rules.k_tiles(lhs.shape[-1])
    return convert(reference_product(lhs, rhs, tiles, fused=rules.fused), out.dtype)


OPERATIONS: dict[str, Meaning] = {
    "matmul": Meaning(
        2, _check_matmul, _product, lambda arrays, out, axes: exact_product(arrays[0], arrays[1])
    ),
    "transpose": Meaning(
        1, _check_transpose, **_moved(lambda a, out, axes: np.ascontiguousarray(a.transpose(axes)))
    ),
    "relayout": Meaning(1, _check_relayout, **_moved(lambda a, out, axes: a)),
    "reshape": Meaning(1, _check_reshape, **_moved(lambda a, out, axes: a.reshape(out.dims))),
    "cast": Meaning(
        1,
        _check_cast,
        lambda arrays, out, axes, rules: convert(arrays[0], out.dtype),
        lambda arrays, out, axes: arrays[0],
    ),
}
