"""The numpy arrays that stand for a shape's array and for its memory, made and checked.

Not here: moving data between the two (``packing``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from systolic.arrays import Array
from systolic.layout.errors import LayoutError
from systolic.layout.shape import Shape

NUMPY_RANK = 64
"""The most dimensions that a numpy array can have."""


def packed_bits(shape: Shape) -> int:
    """Return the bits of an element packed below a byte, or 0 where elements are whole items.

    Raises LayoutError if ``E(n)`` cannot hold the type's values.
    """
    kind, bits = shape.type, shape.element_bits
    if bits == kind.storage_bits:
        return 0
    if bits in (1, 2, 4) and kind.bits <= bits:
        return bits
    fit = ", ".join(str(b) for b in (1, 2, 4) if kind.bits <= b < kind.storage_bits)
    fit = f"{fit} or {kind.storage_bits}" if fit else str(kind.storage_bits)
    raise LayoutError(f"{kind} elements can be held in E({fit}), found E({bits})")


@lru_cache(maxsize=256)
def one_per_item(shape: Shape) -> Shape:
    """Return the same layout with whole bytes for each element, without ``E(n)``."""
    return shape.with_layout(shape.layout.with_number("E", 0))


def checked_array(array: Array, shape: Shape) -> Array:
    """Return ``array``; LayoutError unless its dimensions and dtype are the shape's."""
    source = np.asarray(array)
    if source.shape != shape.dims:
        raise LayoutError(
            f"an array for {shape} must have dimensions {_list(shape.dims)}, "
            f"found {_list(source.shape)}"
        )
    if source.dtype != shape.dtype:
        raise LayoutError(f"an array for {shape} must be {shape.dtype}, found {source.dtype}")
    return source


def new_buffer(shape: Shape) -> Array:
    """Return a buffer for ``shape``, zeroed where it will have padding."""
    padded = shape.padded_elements() != shape.num_elements()
    try:
        if packed_bits(shape):
            return np.zeros(shape.size_bytes(), np.uint8)
        return (np.zeros if padded else np.empty)(shape.padded_elements(), shape.dtype)
    except (MemoryError, ValueError):
        raise LayoutError(f"{shape} needs {shape.size_bytes()} bytes, too many here") from None


def checked_out(out: Array, shape: Shape) -> Array:
    """Return ``out`` as ``checked_buffer`` does; LayoutError if it cannot be written to."""
    memory = checked_buffer(out, shape)
    if not memory.flags.writeable or not memory.flags.c_contiguous:
        raise LayoutError("out must be writeable and contiguous")
    return memory


def checked_buffer(buffer: Array, shape: Shape) -> Array:
    """Return ``buffer`` as items of the shape's type, or as bytes that hold several elements.

    Raises LayoutError if its size or type is wrong.
    """
    if shape.rank > NUMPY_RANK:
        raise LayoutError(f"numpy holds arrays of {NUMPY_RANK} dimensions, found {shape.rank}")
    wanted = np.dtype(np.uint8) if packed_bits(shape) else shape.dtype
    memory = buffer
    if memory.dtype != wanted and memory.dtype == np.uint8 and memory.flags.c_contiguous:
        if memory.nbytes != shape.size_bytes():
            raise LayoutError(
                f"a buffer for {shape} must have {shape.size_bytes()} bytes, found {memory.nbytes}"
            )
        memory = memory.reshape(-1).view(wanted)
    if memory.dtype != wanted:
        raise LayoutError(f"a buffer for {shape} must be {wanted}, found {memory.dtype}")
    items = shape.size_bytes() if packed_bits(shape) else shape.padded_elements()
    if memory.shape != (items,):
        raise LayoutError(
            f"a buffer for {shape} must be flat with {items} items, "
            f"found dimensions {_list(memory.shape)}"
        )
    return memory


def _list(sizes: Sequence[int]) -> str:
    return "[" + ",".join(map(str, sizes)) + "]"
