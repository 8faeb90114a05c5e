"""The multiply-add of a PE where not every PE takes part, and with a single rounding.

Planes are 32-bit words; which type they hold is the caller's business.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from systolic.arrays import Array

MANY_PRODUCTS = 50_000_000
"""From this number on in a run, loading numba costs less than it saves."""


def plain_step(products: int) -> Callable[[Array, Array, Array], None]:
    """Return what adds moving * weight to sums in every PE, in a run of that many products."""
    if products >= MANY_PRODUCTS:
        try:
            from systolic.machine.register.pe_array import multiply_numba
        except ImportError:
            return _step
        step: Callable[[Array, Array, Array], None] = multiply_numba.step
        return step
    return _step


def _step(moving: Array, weight: Array, sums: Array) -> None:
    np.add(sums, np.multiply(moving, weight), sums)


def multiply_add(total: Array, moving: Array, weight: Array, active: Array, fused: bool) -> None:
    """Add moving * weight to `total` where active; the rest keeps its bits, NaN weights or not."""
    if fused and total.dtype == np.float32:
        np.copyto(total, fused_multiply_add(moving, weight, total), where=active)
        return
    np.add(total, np.multiply(moving, weight), out=total, where=active)


def fused_multiply_add(moving: Array, weight: Array, total: Array) -> npt.NDArray[np.float32]:
    """Return total + moving * weight rounded once to float32, elements of any magnitude.

    The product is exact in float64. The sum is rounded to odd there (the last bit notes that
    something was lost), so that rounding it again to float32 cannot round twice.
    """
    product = moving.astype(np.float64) * weight.astype(np.float64)
    addend = total.astype(np.float64)
    near = product + addend
    back = near - product
    lost = (product - (near - back)) + (addend - back)
    bits = near.view(np.int64)
    towards_zero = (lost < 0) != (near < 0)
    odd = np.where(towards_zero, bits - 1, bits + 1)
    inexact = ((lost < 0) | (lost > 0)) & ((bits & 1) == 0)
    return np.where(inexact, odd, bits).view(np.float64).astype(np.float32)
