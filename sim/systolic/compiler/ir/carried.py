"""Narrow types: pred and integers of 4, 2 or 1 bits; the machine sees only their bytes.

The machine has no such types. An element is carried as a u8 that holds it in its low bits, with
zeros above: that is how it lies in memory where it has a byte of its own. Where several share a
byte (`E(4)`, `E(2)`, `E(1)`), they are unpacked before work and packed after it. Not here: how.
"""

from __future__ import annotations

from dataclasses import replace

from systolic.element_types import BYTE_BITS, ELEMENT_TYPES
from systolic.layout import Shape
from systolic.layout.packing.memory import packed_bits

CARRIER = "u8"
NARROW_BITS = {name: kind.bits for name, kind in ELEMENT_TYPES.items() if kind.is_narrow}
"""The bits of each narrow type."""


def is_packed(shape: Shape) -> bool:
    """Return whether several elements share a byte.

    Raises LayoutError for bits of an element that are neither the bits of its type nor whole bytes.
    """
    return shape.element_type in NARROW_BITS and packed_bits(shape) > 0


def carrier_shape(shape: Shape) -> Shape:
    """Return a shape with a u8 for each element of a narrow type; any other shape as it is."""
    if shape.element_type not in NARROW_BITS:
        return shape
    layout = shape.layout.with_number("E", 0)
    if layout.padded_dimensions is not None:
        value = int(layout.padding_value) & ((1 << shape.type.bits) - 1)
        layout = replace(layout, padding_value=value)
    return Shape(CARRIER, shape.dims, layout)


def user_shape(carrier: Shape, element_type: str) -> Shape:
    """Return the shape of a narrow type that is carried as this one."""
    layout = carrier.layout
    if layout.padded_dimensions is not None:
        bits, value = NARROW_BITS[element_type], int(layout.padding_value)
        sign = 1 << (bits - 1) if element_type[0] == "s" else 0
        layout = replace(layout, padding_value=(value ^ sign) - sign)
    return Shape(element_type, carrier.dims, layout)


def memory_bytes(shape: Shape) -> int:
    """Return the bytes of a shape's elements, padding not counted."""
    return -(-shape.num_elements() * shape.element_bits // BYTE_BITS)
