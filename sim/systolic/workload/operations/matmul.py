"""What a matrix product must give: bit for bit by the contract, and in float64.

The contract (docs/timing_model.md, "Values"): the rows K of a K-tile are added one by one from +0
in the accumulator's type; the sums of the K-tiles are then added to the stored word, one rounding
each, in the order of the tiles. Which rows share a tile is therefore part of the question, and so
is their order, where several neighbouring rows lie on a partition (`Rules.k_order`).

This is plain numpy that shares no code with any kernel, the compiler or the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.operations.cast import convert
from systolic.workload.operations.row import Attributes, Operand, Row, Rules, plain

# Rows of the result that are computed together, few enough for their sums to stay in the cache.
ROWS_AT_ONCE = 64


def exact_product(lhs: Array, rhs: Array) -> Array:
    """Return lhs [.., M, K] times rhs [.., K, N] in float64 (integers: in int64)."""
    if lhs.dtype.kind in "iu":
        whole: Array = np.matmul(lhs.astype(np.int64), rhs.astype(np.int64))
        return whole
    with np.errstate(all="ignore"):
        wide: Array = np.matmul(lhs.astype(np.float64), rhs.astype(np.float64))
    return wide


def reference_product(
    lhs: Array, rhs: Array, tiles: Sequence[int], *, fused: bool = False
) -> Array:
    """Return the accumulated sums of lhs [.., M, K] times rhs [.., K, N]: float32 or int32.

    Args:
        lhs: floats of 32 bits or fewer, or integers of 8 bits.
        rhs: the same family; leading dimensions broadcast with lhs's, as in numpy.
        tiles: boundaries of the K-tiles, such as (0, 128, 256, 300).
        fused: round once per multiply-add.

    """
    wanted = np.int32 if lhs.dtype.kind in "iu" else np.float32
    batch = np.broadcast_shapes(lhs.shape[:-2], rhs.shape[:-2])
    found = np.zeros((*batch, lhs.shape[-2], rhs.shape[-1]), wanted)
    left = np.broadcast_to(lhs, (*batch, *lhs.shape[-2:]))
    right = np.broadcast_to(rhs, (*batch, *rhs.shape[-2:]))
    for index in np.ndindex(batch):
        a, b = left[index].astype(wanted), right[index].astype(wanted)
        for first in range(0, a.shape[0], ROWS_AT_ONCE):
            rows = slice(first, first + ROWS_AT_ONCE)
            found[index][rows] = _tiles_in_order(a[rows], b, tiles, fused)
    return found


def product_by_rules(lhs: Array, rhs: Array, rules: Rules) -> Array:
    """Return `reference_product` with the K-tiles, the order of K and the rounding of `rules`."""
    tiles = rules.k_tiles(lhs.shape[-1])
    if rules.k_order is not None:
        order = rules.k_order(lhs.shape[-1])
        lhs, rhs = lhs[..., order], rhs[..., order, :]
    return reference_product(lhs, rhs, tiles, fused=rules.fused)


def _tiles_in_order(a: Array, b: Array, tiles: Sequence[int], fused: bool) -> Array:
    total: Array | None = None
    with np.errstate(all="ignore"):
        for first, stop in pairwise(tiles):
            sums = np.zeros((a.shape[0], b.shape[1]), a.dtype)
            for k in range(first, stop):
                if fused and a.dtype == np.float32:
                    sums = _fused_step(sums, a[:, k, None], b[None, k])
                else:
                    sums += a[:, k, None] * b[None, k]
            total = sums if total is None else total + sums
    assert total is not None
    return total


def _fused_step(sums: Array, a: Array, b: Array) -> Array:
    """Return sums + a * b rounded once, also where the float64 sum lies between two float32."""
    product = a.astype(np.float64) * b.astype(np.float64)  # exact: 24 + 24 bits
    wide = product + sums
    lost = np.where(
        np.abs(product) > np.abs(sums), sums - (wide - product), product - (wide - sums)
    )
    near = wide.astype(np.float32)
    # The float64 sum is a tie though the true sum is not: one float64 step toward the part that
    # was lost breaks it.
    tie = (wide.view(np.int64) & ((1 << 29) - 1)) == (1 << 28)
    broken = np.nextafter(wide, np.where(lost > 0, np.inf, -np.inf)).astype(np.float32)
    result: Array = np.where(np.isfinite(wide) & tie & (lost != 0), broken, near)
    return result


def _broadcast(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the leading sizes of a product, broadcast as in numpy; None if they do not fit."""
    try:
        return np.broadcast_shapes(left, right)
    except ValueError:
        return None


def _check(shapes: Sequence[Shape], out: Shape, attributes: Attributes) -> None:
    lhs, rhs = shapes
    for shape in (lhs, rhs, out):
        if shape.rank < 2:
            raise WorkloadError(
                f"matmul needs at least 2 dimensions, found {plain(shape)}; a vector is a matrix "
                f"of one row or one column, or an operand of dot"
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


def _exact(arrays: Sequence[Array], out: Shape, attributes: Attributes) -> Array:
    lhs, rhs = arrays
    return exact_product(lhs, rhs)


def _reference(arrays: Sequence[Array], out: Shape, attributes: Attributes, rules: Rules) -> Array:
    lhs, rhs = arrays
    return convert(product_by_rules(lhs, rhs, rules), out.dtype)


MATMUL = Row(
    operands=(
        Operand("lhs", "XLA shape [.., M, K] of a matmul's left"),
        Operand("rhs", "XLA shape [.., K, N] of a matmul's right"),
    ),
    attributes=Attributes,
    check=_check,
    reference=_reference,
    exact=_exact,
    computes=True,
)
