"""The row-order product: what the grid computes, in the order in which it computes it.

Column c of vector m is accumulated over rows 0, 1, ..., K - 1 from +0, one rounding per addition
(timing model, section 2). Two forms give the same bits: numpy for small work, numba for large.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
SMALL_PRODUCTS = 50_000_000
"""Below this many products in all, importing numba costs more than it saves."""

_compiled: dict[str, Callable[..., None]] = {}


def use_compiled(products: int) -> None:
    """Choose the form for a run of that many products; without numba it stays numpy's."""
    if products < SMALL_PRODUCTS or _compiled:
        return
    try:
        from sim.machine.event import kernel_numba
    except ImportError:
        return
    _compiled.update(f32=kernel_numba.product_f32, s32=kernel_numba.product_s32)


def row_order_product(
    moving: Array, weights: Array, accumulator: str, *, fused: bool = False
) -> Array:
    """Return the column sums [M, N], float32 or int32.

    Args:
        moving: [K, M], element r of vector m at [r, m], any type of the datapath.
        weights: [K, N].
        accumulator: "f32" or "s32".
        fused: round once per multiply-add instead of after the product and after the sum.

    """
    dtype = np.float32 if accumulator == "f32" else np.int32
    x, w = moving.astype(dtype), weights.astype(dtype)
    if fused and accumulator == "f32":
        return _fused(x, w)
    sums = np.zeros((x.shape[1], w.shape[1]), dtype)
    if accumulator in _compiled:
        _compiled[accumulator](np.ascontiguousarray(x.T), np.ascontiguousarray(w), sums)
        return sums
    with np.errstate(all="ignore"):
        for row in range(x.shape[0]):
            sums += x[row, :, None] * w[row]
    return sums


def _fused(x: Array, w: Array) -> Array:
    """Return sums rounded once per step: the exact sum is rounded to odd in float64 first.

    The product of two float32 is exact in float64. Adding with round-to-odd keeps the last
    rounding, to float32, the only one (Boldo and Melquiond, 2008).
    """
    sums = np.zeros((x.shape[1], w.shape[1]), np.float32)
    with np.errstate(all="ignore"):
        for row in range(x.shape[0]):
            product = x[row, :, None].astype(np.float64) * w[row].astype(np.float64)
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
