"""Twin of `event.pe_array.pass_through`: what a PE does with weights that pass through it.

Words of weights and sums are bits here; an element of fewer bytes lies in the lowest of its word.
"""

from __future__ import annotations

import numpy as np

from systolic.arrays import Array
from systolic.hw.datatypes import data_type


def bits_of(elements: Array) -> Array:
    """Return the elements as words, int32."""
    words: Array = elements.view(f"u{elements.dtype.itemsize}").astype(np.uint32).view(np.int32)
    return words


def elements_of(words: Array, dtype: str) -> Array:
    """Return what the words, int32, hold of elements of that type."""
    element = data_type(dtype).numpy
    found: Array = words.view(np.uint32).astype(f"u{element.itemsize}").view(element)
    return found


def pass_on(sums: Array, moving: Array, bits: Array, active: Array) -> None:
    """Replace a sum by its PE's weight where active and the moving element is not 0."""
    np.copyto(sums, bits, where=active & (moving != 0))
