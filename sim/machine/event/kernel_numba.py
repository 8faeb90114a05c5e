"""The compiled form of the row-order product. Imported only for large work; cached on disk.

No fast-math and no contraction: each product and each sum is rounded by itself, so the bits are
those of the numpy form.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

BLOCK = 4
"""Vectors worked on together, so that a row of weights is loaded once for all of them."""


@numba.njit(cache=True, fastmath=False, nogil=True, boundscheck=False, error_model="numpy")
def product_f32(x: npt.NDArray[Any], w: npt.NDArray[Any], sums: npt.NDArray[Any]) -> None:
    """Add x [M, K] times w [K, N] to sums [M, N] in row order, float32."""
    M, K = x.shape
    N = w.shape[1]
    whole = M - M % BLOCK
    for m in range(0, whole, BLOCK):
        for k in range(K):
            a, b, c, d = x[m, k], x[m + 1, k], x[m + 2, k], x[m + 3, k]
            for n in range(N):
                weight = w[k, n]
                sums[m, n] += np.float32(a * weight)
                sums[m + 1, n] += np.float32(b * weight)
                sums[m + 2, n] += np.float32(c * weight)
                sums[m + 3, n] += np.float32(d * weight)
    for m in range(whole, M):
        for k in range(K):
            a = x[m, k]
            for n in range(N):
                sums[m, n] += np.float32(a * w[k, n])


@numba.njit(cache=True, nogil=True, boundscheck=False)
def product_s32(x: npt.NDArray[Any], w: npt.NDArray[Any], sums: npt.NDArray[Any]) -> None:
    """Add x [M, K] times w [K, N] to sums [M, N], int32, wrapping."""
    M, K = x.shape
    N = w.shape[1]
    for m in range(M):
        for k in range(K):
            a = x[m, k]
            for n in range(N):
                sums[m, n] += a * w[k, n]
