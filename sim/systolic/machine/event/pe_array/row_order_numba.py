"""The compiled form of the row-order product. Imported only for large work; cached on disk.

Four columns by four rows at a time: a sum is loaded and stored once for four additions, and a row
of moving elements serves four columns. The order of additions is untouched, and without fast-math
no product is contracted with its sum: each is rounded by itself, so the bits are the same as in the
numpy form.
"""

from __future__ import annotations

import numba

from systolic.arrays import Array

BLOCK = 4

_compile = numba.njit(
    cache=True, fastmath=False, nogil=True, boundscheck=False, error_model="numpy"
)


@_compile
def _rows_in_order(w: Array, x: Array, sums: Array, first: int, stop: int) -> None:
    """Add rows first <= k < stop, one at a time, for every column."""
    for n in range(w.shape[0]):
        for k in range(first, stop):
            a = w[n, k]
            for m in range(x.shape[1]):
                sums[n, m] += a * x[k, m]


@_compile
def product(w: Array, x: Array, sums: Array) -> None:
    """Add w [N, K] times x [K, M] to sums [N, M] in row order; all of one type, C-contiguous."""
    N, K = w.shape
    whole_n, whole_k = N - N % BLOCK, K - K % BLOCK
    for n in range(0, whole_n, BLOCK):
        for k in range(0, whole_k, BLOCK):
            a0, a1, a2, a3 = w[n, k], w[n, k + 1], w[n, k + 2], w[n, k + 3]
            b0, b1, b2, b3 = w[n + 1, k], w[n + 1, k + 1], w[n + 1, k + 2], w[n + 1, k + 3]
            c0, c1, c2, c3 = w[n + 2, k], w[n + 2, k + 1], w[n + 2, k + 2], w[n + 2, k + 3]
            d0, d1, d2, d3 = w[n + 3, k], w[n + 3, k + 1], w[n + 3, k + 2], w[n + 3, k + 3]
            for m in range(x.shape[1]):
                x0, x1, x2, x3 = x[k, m], x[k + 1, m], x[k + 2, m], x[k + 3, m]
                sums[n, m] = (((sums[n, m] + a0 * x0) + a1 * x1) + a2 * x2) + a3 * x3
                sums[n + 1, m] = (((sums[n + 1, m] + b0 * x0) + b1 * x1) + b2 * x2) + b3 * x3
                sums[n + 2, m] = (((sums[n + 2, m] + c0 * x0) + c1 * x1) + c2 * x2) + c3 * x3
                sums[n + 3, m] = (((sums[n + 3, m] + d0 * x0) + d1 * x1) + d2 * x2) + d3 * x3
    _rows_in_order(w[:whole_n], x, sums[:whole_n], whole_k, K)
    _rows_in_order(w[whole_n:], x, sums[whole_n:], 0, K)
