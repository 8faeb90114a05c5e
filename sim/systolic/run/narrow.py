"""Elements of narrow types as memory holds them: bytes whose low bits count, zeros above.

Not here: several elements in a byte (`systolic.layout.packing`).
"""

from __future__ import annotations

import numpy as np

from systolic.arrays import Array
from systolic.compiler.ir.carried import NARROW_BITS, is_packed
from systolic.layout import Shape
from systolic.layout.packing.subbyte import as_element


def in_memory(items: Array, shape: Shape) -> Array:
    """Return items of a shape's type as memory has them: of a narrow type as u8."""
    if shape.element_type not in NARROW_BITS:
        return items
    found = np.asarray(items, order="C").view(np.uint8)
    return found if is_packed(shape) else found & np.uint8((1 << shape.type.bits) - 1)


def from_memory(items: Array, shape: Shape) -> Array:
    """Return items that were read from memory, in the shape's type; packed ones stay bytes."""
    if shape.element_type not in NARROW_BITS:
        return items
    found = np.asarray(items, order="C")
    if is_packed(shape):
        return found[: shape.size_bytes()]
    return as_element(found, shape.type.bits, shape.type)
