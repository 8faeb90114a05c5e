"""The compiled form of the row-order product. Imported only for large work; cached on disk.

Four vectors by four rows at a time: a sum is loaded and stored once for four additions, and a row
of weights serves four vectors. The order of additions is untouched, and without fast-math nothing
is contracted: each product and each sum is rounded by itself, so the bits are those of the numpy
form.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy.typing as npt

Array = npt.NDArray[Any]
BLOCK = 4

_compile = numba.njit(
    cache=True, fastmath=False, nogil=True, boundscheck=False, error_model="numpy"
)


@_compile
def _rows_in_order(x: Array, w: Array, sums: Array, first: int, stop: int) -> None:
    """Add rows first <= k < stop, one at a time, for every vector."""
    for m in range(x.shape[0]):
        for k in range(first, stop):
            a = x[m, k]
            for n in range(w.shape[1]):
                sums[m, n] += a * w[k, n]


@_compile
def product(x: Array, w: Array, sums: Array) -> None:
    """Add x [M, K] times w [K, N] to sums [M, N] in row order; all of one type, C-contiguous."""
    M, K = x.shape
    whole_m, whole_k = M - M % BLOCK, K - K % BLOCK
    for m in range(0, whole_m, BLOCK):
        for k in range(0, whole_k, BLOCK):
            a0, a1, a2, a3 = x[m, k], x[m, k + 1], x[m, k + 2], x[m, k + 3]
            b0, b1, b2, b3 = x[m + 1, k], x[m + 1, k + 1], x[m + 1, k + 2], x[m + 1, k + 3]
            c0, c1, c2, c3 = x[m + 2, k], x[m + 2, k + 1], x[m + 2, k + 2], x[m + 2, k + 3]
            d0, d1, d2, d3 = x[m + 3, k], x[m + 3, k + 1], x[m + 3, k + 2], x[m + 3, k + 3]
            for n in range(w.shape[1]):
                w0, w1, w2, w3 = w[k, n], w[k + 1, n], w[k + 2, n], w[k + 3, n]
                sums[m, n] = (((sums[m, n] + a0 * w0) + a1 * w1) + a2 * w2) + a3 * w3
                sums[m + 1, n] = (((sums[m + 1, n] + b0 * w0) + b1 * w1) + b2 * w2) + b3 * w3
                sums[m + 2, n] = (((sums[m + 2, n] + c0 * w0) + c1 * w1) + c2 * w2) + c3 * w3
                sums[m + 3, n] = (((sums[m + 3, n] + d0 * w0) + d1 * w1) + d2 * w2) + d3 * w3
    _rows_in_order(x[:whole_m], w, sums[:whole_m], whole_k, K)
    _rows_in_order(x[whole_m:], w, sums[whole_m:], 0, K)
