"""Elements of less than a byte: several in each byte, by default from the low bits on.

Compiled XLA puts the first element into the low bits today (jaxlib 0.10.2) and put it into the high
bits before (0.4.30), so both orders are offered. No order has been published for 1-bit pred, which
follows the others here. Not here: tiling, which comes before (``packing``).
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from systolic.layout.element_types import ElementType
from systolic.layout.errors import LayoutError

BitOrder: TypeAlias = Literal["low", "high"]


def shift_of(position: int, bits: int, order: BitOrder) -> int:
    """Return how far left element ``position`` of a byte is shifted."""
    return position * bits if order == "low" else 8 - bits * (position + 1)


def pack_bits(
    items: NDArray[Any],
    bits: int,
    order: BitOrder = "low",
    out: NDArray[np.uint8] | None = None,
) -> NDArray[np.uint8]:
    """Return flat one-byte ``items`` squeezed to ``bits`` (1, 2 or 4) each: ceil(n*bits/8) bytes.

    The bits behind the last element are 0.
    """
    check(bits, order)
    values = np.ascontiguousarray(items).view(np.uint8)
    if bits == 1:
        packed = np.packbits(values & 1, bitorder="little" if order == "low" else "big")
    else:
        packed = _shifted_together(values, bits, order)
    if out is None:
        return packed
    out[...] = packed
    return out


def _shifted_together(values: NDArray[np.uint8], bits: int, order: BitOrder) -> NDArray[np.uint8]:
    per_byte = 8 // bits
    packed = np.zeros(-(-values.size // per_byte), np.uint8)
    for position in range(per_byte):
        part = values[position::per_byte] & np.uint8((1 << bits) - 1)
        packed[: part.size] |= part << np.uint8(shift_of(position, bits, order))
    return packed


def unpack_bits(
    packed: NDArray[np.uint8],
    bits: int,
    count: int,
    element: ElementType,
    order: BitOrder = "low",
) -> NDArray[Any]:
    """Return the first ``count`` elements in ``packed``, one byte each, of ``element``'s dtype."""
    check(bits, order)
    per_byte = 8 // bits
    values = np.empty(count, np.uint8)
    for position in range(per_byte):
        part = values[position::per_byte]
        shift = np.uint8(shift_of(position, bits, order))
        part[...] = (packed[: part.size] >> shift) & np.uint8((1 << bits) - 1)
    return as_element(values, bits, element)


def as_element(values: NDArray[np.uint8], bits: int, element: ElementType) -> NDArray[Any]:
    """Return the low bits of bytes as elements; in plain int8 their sign is extended."""
    if element.dtype == np.int8:
        unused = np.int8(8 - bits)
        return (values.view(np.int8) << unused) >> unused
    return values.view(element.dtype)


def check(bits: int, order: str) -> None:
    """Raise LayoutError for a width or a bit order that is not packed."""
    if bits not in (1, 2, 4):
        raise LayoutError(f"elements are packed at 1, 2 or 4 bits, found {bits}")
    if order not in ("low", "high"):
        raise LayoutError(f'the order of bits must be "low" or "high", found "{order}"')
