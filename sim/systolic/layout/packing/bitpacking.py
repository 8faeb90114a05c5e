"""Packing and unpacking layouts whose elements are less than a byte (``E(4)``, ``E(1)``).

If no byte is shared between strided boxes, elements go straight to their bytes. Otherwise they are
laid out one to a byte first. Not here: the bits of one byte (``subbyte``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from systolic.arrays import Array
from systolic.layout.packing import subbyte
from systolic.layout.packing.copying import gather_bits, scatter_bits
from systolic.layout.packing.items import pack_items, unpack_items
from systolic.layout.packing.memory import one_per_item
from systolic.layout.packing.strided_boxes import StridedBox, in_array, strided_boxes
from systolic.layout.shape import Shape


def pack_packed(
    source: Array, shape: Shape, fill: Any, buffer: Array, *, bits: int, order: subbyte.BitOrder
) -> None:
    """Join elements into bytes box by box; if boxes share bytes, lay the elements out first."""
    subbyte.check(bits, order)
    legacy = shape.layout.padded_dimensions not in (None, shape.dims)
    parts = None if legacy else _boxes_apart(shape, bits)
    if parts is None:
        whole = one_per_item(shape)
        spread = np.empty(whole.padded_elements(), shape.dtype)
        pack_items(source, whole, fill, spread, fresh=False)
        subbyte.pack_bits(spread, bits, order, out=buffer)
        return
    _fill_bytes(buffer, shape, fill, bits, order)
    values = source.view(np.uint8)
    for part in parts:
        _Joint(buffer, part, values, bits, order).join()


def unpack_packed(
    memory: Array, shape: Shape, array: Array, *, bits: int, order: subbyte.BitOrder
) -> None:
    """Read the packed elements in ``memory`` into ``array``."""
    subbyte.check(bits, order)
    parts = _boxes_apart(shape, bits)
    # s1 without a numpy type of its own is held in int8, whose sign `unpack_bits` extends.
    if parts is None or shape.dtype == np.int8:
        whole = one_per_item(shape)
        spread = subbyte.unpack_bits(memory, bits, whole.padded_elements(), shape.type, order)
        unpack_items(spread, whole, array)
        return
    values = array.view(np.uint8)
    for part in parts:
        _Joint(memory, part, values, bits, order).split()


def _boxes_apart(shape: Shape, bits: int) -> tuple[StridedBox, ...] | None:
    """Return the shape's boxes; None if a step along any but the fastest axis stays in a byte."""
    parts = strided_boxes(shape)
    apart = parts is not None and all(
        stride % (8 // bits) == 0 for part in parts for stride in part.strides if stride != 1
    )
    return parts if apart else None


def _fill_bytes(buffer: Array, shape: Shape, fill: Any, bits: int, order: subbyte.BitOrder) -> None:
    """Write bytes full of ``fill``; the last byte holds it only up to the last element."""
    places = shape.padded_elements()
    if not places:
        return
    pattern = np.full(8 // bits, fill).astype(shape.dtype)
    buffer[...] = subbyte.pack_bits(pattern, bits, order)[0]
    ragged = places % (8 // bits)
    buffer[-1] = subbyte.pack_bits(pattern[: ragged or None], bits, order)[0]


class _Joint:
    """One strided box: the bytes of the memory and the elements of the array that belong together.

    ``whole`` bytes along the fastest axis hold elements of the box only. The elements in other
    bytes are moved one by one.
    """

    def __init__(
        self, memory: Array, part: StridedBox, values: Array, bits: int, order: subbyte.BitOrder
    ) -> None:
        self.memory, self.base = memory, part.base
        self.per_byte = 8 // bits
        self.mask = np.uint8((1 << bits) - 1)
        self.shifts = [subbyte.shift_of(at, bits, order) for at in range(self.per_byte)]
        elements = in_array(values, part.box)
        strides = [stride // self.per_byte for stride in part.strides]
        if 1 in part.strides:
            axis = part.strides.index(1)
            elements = np.moveaxis(elements, axis, -1)
            del strides[axis]
        else:
            elements = elements[..., np.newaxis]
        self.elements, self.strides = elements, strides
        aligned = part.base % self.per_byte == 0
        self.whole = elements.shape[-1] // self.per_byte if aligned else 0

    def join(self) -> None:
        """Write the elements to the bytes."""
        if self.whole:
            gather_bits(self._bytes(), self._bytewise(), self.shifts, int(self.mask))
        for place in self._rest():
            target, shift = self._byte_of(place)
            value = (self.elements[..., place] & self.mask) << shift
            target[...] = (target & ~(self.mask << shift)) | value

    def split(self) -> None:
        """Write the bytes to the elements."""
        if self.whole:
            scatter_bits(self._bytewise(), self._bytes(), self.shifts, int(self.mask))
        for place in self._rest():
            source, shift = self._byte_of(place)
            self.elements[..., place] = (source >> shift) & self.mask

    def _bytes(self) -> Array:
        sizes = (*self.elements.shape[:-1], self.whole)
        return as_strided(self.memory[self.base // self.per_byte :], sizes, (*self.strides, 1))

    def _bytewise(self) -> Array:
        """Return the elements of whole bytes with a last axis along each byte."""
        step = self.elements.strides[-1]
        sizes = (*self.elements.shape[:-1], self.whole, self.per_byte)
        strides = (*self.elements.strides[:-1], step * self.per_byte, step)
        return as_strided(self.elements, sizes, strides)

    def _rest(self) -> range:
        return range(self.whole * self.per_byte, self.elements.shape[-1])

    def _byte_of(self, place: int) -> tuple[Array, np.uint8]:
        number, inside = divmod(self.base + place, self.per_byte)
        found = as_strided(self.memory[number:], self.elements.shape[:-1], self.strides)
        return found, np.uint8(self.shifts[inside])
