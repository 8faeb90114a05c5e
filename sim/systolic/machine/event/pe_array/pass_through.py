"""Twin of `register.pe_array.pass_through`: weights that vectors select, all their bits kept.

Of the rows whose moving element is not 0 the last one passes; without any, 0.
"""

from __future__ import annotations

import numpy as np

from systolic.arrays import Array


def passed_through(moving: Array, weights: Array) -> Array:
    """Return [N, M], of the weights' type, what vectors [K, M] make pass of weights [K, N]."""
    selects = moving != 0
    last = len(selects) - 1 - selects[::-1].argmax(axis=0)
    bits = _bits(weights)[last].T
    found = np.where(selects.any(axis=0), bits, bits.dtype.type(0))
    return np.ascontiguousarray(found).view(weights.dtype)


def words_of(values: Array) -> Array:
    """Return the words of the result buffer, int32, whose lowest bits are the values' bits."""
    words: Array = _bits(values).astype(np.uint32).view(np.int32)
    return words


def _bits(values: Array) -> Array:
    bits: Array = np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")
    return bits
