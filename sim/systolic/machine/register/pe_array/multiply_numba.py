"""The compiled form of a plain step of all PEs. Imported only for large work; cached on disk.

The compiled form makes one pass over the planes instead of two. Without fast-math no product is
contracted with its sum: the two are rounded one after the other, as by numpy. Int32 wraps.
"""

from __future__ import annotations

import numba

from systolic.arrays import Array


@numba.njit(cache=True, fastmath=False, nogil=True, boundscheck=False, error_model="numpy")
def step(moving: Array, weight: Array, sums: Array) -> None:
    """Add moving * weight to sums, flat and of one type."""
    for pe in range(sums.size):
        sums[pe] += moving[pe] * weight[pe]
