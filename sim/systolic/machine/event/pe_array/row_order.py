"""Twin of `register.pe_array.grid`: the product of the grid, added in the order of its rows.

Column c of vector m is accumulated over rows 0, 1, ..., K - 1 from +0, one rounding per addition
(timing model, section 2). Two forms give the same bits: numpy for small work, numba for large.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from systolic.arrays import Array

SMALL_PRODUCTS = 50_000_000
"""Below this many products in all, importing numba costs more than it saves."""

EXACT_IN_FLOAT32 = 1 << 24
"""Integers up to this have a float32 each, so sums that stay below it are exact in any order."""

ProductForm = Callable[[Array, Array, Array], None]
"""Adds w [N, K] times x [K, M] to sums [N, M], row by row."""


def in_numpy(w: Array, x: Array, sums: Array) -> None:
    """Add w [N, K] times x [K, M] to sums [N, M], row by row: the form for small work."""
    with np.errstate(all="ignore"):
        for row in range(w.shape[1]):
            sums += w[:, row, None] * x[row]


def form_for(products: int) -> ProductForm:
    """Return the form for a run of that many products; without numba it is numpy's."""
    if products < SMALL_PRODUCTS:
        return in_numpy
    try:
        from systolic.machine.event.pe_array import row_order_numba
    except ImportError:
        return in_numpy
    form: ProductForm = row_order_numba.product
    return form


def row_order_product(
    moving: Array,
    weights: Array,
    accumulator: str,
    *,
    fused: bool = False,
    form: ProductForm = in_numpy,
) -> Array:
    """Return the column sums [N, M], float32 or int32: column c of vector m at [c, m].

    They lie as PSUM holds them, a partition per column, so that nothing is turned on the way: the
    kernel works on columns of weights and whole rows of moving elements.

    Args:
        moving: [K, M], element r of vector m at [r, m], any type of the datapath.
        weights: [K, N]; quickest if its columns are contiguous.
        accumulator: "f32" or "s32".
        fused: round once per multiply-add instead of after the product and after the sum.
        form: numpy's or the compiled one; a fused product is always numpy's.

    """
    wanted = np.float32 if accumulator == "f32" else np.int32
    dtype = np.float32 if _exact_in_float32(moving, weights) else wanted
    if fused and accumulator == "f32":
        return _fused(weights.T.astype(dtype), moving.astype(dtype))
    w, x = np.ascontiguousarray(weights.T, dtype), np.ascontiguousarray(moving, dtype)
    sums = np.zeros((w.shape[0], x.shape[1]), dtype)
    form(w, x, sums)
    return sums.astype(wanted, copy=False)


def _exact_in_float32(moving: Array, weights: Array) -> bool:
    """Return whether these are integers so small that float32, which is faster, loses nothing."""
    if moving.dtype.itemsize > 1 or moving.dtype.kind not in "iu" or weights.dtype.kind not in "iu":
        return False
    return weights.dtype.itemsize == 1 and moving.shape[0] * 255 * 255 < EXACT_IN_FLOAT32


def _fused(w: Array, x: Array) -> Array:
    """Return sums rounded once per step: the exact sum is rounded to odd in float64 first.

    The product of two float32 is exact in float64. Adding with round-to-odd keeps the last
    rounding, to float32, the only one (Boldo and Melquiond, 2008).
    """
    sums = np.zeros((w.shape[0], x.shape[1]), np.float32)
    with np.errstate(all="ignore"):
        for row in range(w.shape[1]):
            product = w[:, row, None].astype(np.float64) * x[row].astype(np.float64)
            sums = _add_to_odd(sums.astype(np.float64), product).astype(np.float32)
    return sums


def _add_to_odd(a: Array, b: Array) -> Array:
    """Return a + b in float64, an inexact result forced to an odd last bit (toward the error)."""
    total = a + b
    part = total - a
    error = (a - (total - part)) + (b - part)
    inexact = np.isfinite(total) & (error != 0)
    bits = total.view(np.int64)
    even = (bits & 1) == 0
    away = (error > 0) == (total > 0)
    step = np.where(away, 1, -1)
    result: Array = np.where(inexact & even, bits + step, bits).view(np.float64)
    return result
