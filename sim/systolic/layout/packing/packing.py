"""Data in and out of memory: ``pack`` an array into a layout, ``unpack`` it again, or view it.

Not here: how the copies are made (``items``, ``bitpacking``), moving data from one layout to
another (``relayout``), buffers of the accelerator (``placement``).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from systolic.arrays import Array
from systolic.layout.errors import LayoutError
from systolic.layout.packing import subbyte
from systolic.layout.packing.bitpacking import pack_packed, unpack_packed
from systolic.layout.packing.items import pack_items, unpack_items
from systolic.layout.packing.memory import (
    NUMPY_RANK,
    checked_array,
    checked_buffer,
    checked_out,
    new_buffer,
    packed_bits,
)
from systolic.layout.packing.strided_boxes import as_plain, logical_strides
from systolic.layout.shape import Shape


def pack(
    array: Array,
    shape: Shape,
    fill: Any = 0,
    out: Array | None = None,
    *,
    order: subbyte.BitOrder = "low",
    copy: bool | None = None,
) -> Array:
    """Return the memory of ``shape`` that holds ``array``: a flat buffer, padding included.

    ``array`` has ``shape.dims`` and ``shape.dtype``. The buffer has ``shape.padded_elements()``
    items of ``shape.dtype``; if ``E(n)`` is less than the type's whole bytes, it has
    ``shape.size_bytes()`` bytes (uint8). Padding holds ``fill`` (the legacy padding of
    ``padded_dimensions`` holds ``padding_value``). ``out`` is a buffer to fill instead of a new
    one. ``order`` says which bits of a byte come first. ``copy`` is as in numpy: None returns a
    view of ``array`` if its memory is in this layout already, True always copies, False never does
    and raises LayoutError instead. LayoutError also for an array or buffer that does not match.
    """
    source = checked_array(array, shape)
    if out is None and copy is not True:
        viewed = _as_packed(source, shape)
        if viewed is not None:
            return viewed
    if copy is False:
        raise LayoutError(f"{shape} cannot be packed without a copy")
    bits = packed_bits(shape)
    buffer = new_buffer(shape) if out is None else checked_out(out, shape)
    if bits:
        pack_packed(source, shape, fill, buffer, bits=bits, order=order)
    else:
        pack_items(source, shape, fill, buffer, fresh=out is None)
    return buffer if out is None else out


def unpack(
    buffer: Array,
    shape: Shape,
    out: Array | None = None,
    *,
    order: subbyte.BitOrder = "low",
    copy: bool | None = None,
) -> Array:
    """Return the array (``shape.dims``, ``shape.dtype``) that lies in ``buffer``.

    ``buffer`` is what ``pack`` makes, or the same memory as bytes (uint8). ``out`` is an array to
    fill instead of a new one. With ``copy=None`` the result is a view of the buffer if strides can
    express the layout, or else a new array. True always copies; False never does and raises
    LayoutError instead. LayoutError also for a buffer of another size.
    """
    bits = packed_bits(shape)
    memory = checked_buffer(buffer, shape)
    if copy is not True and not bits and out is None:
        viewed = view(memory, shape)
        if viewed is not None:
            return viewed
    if copy is False:
        raise LayoutError(f"{shape} cannot be unpacked without a copy")
    array = np.empty(shape.dims, shape.dtype) if out is None else checked_array(out, shape)
    if bits:
        unpack_packed(memory, shape, array, bits=bits, order=order)
    else:
        unpack_items(memory, shape, array)
    return array


def view(buffer: Array, shape: Shape) -> Array | None:
    """Return the array in ``buffer`` without a copy, or None if strides cannot express it."""
    memory = checked_buffer(buffer, shape)
    if packed_bits(shape) or memory.dtype != shape.dtype:
        return None
    if 0 in shape.dims:
        return np.empty(shape.dims, shape.dtype)
    strides = logical_strides(shape)
    if strides is None:
        return None
    steps = [stride * memory.strides[0] for stride in strides]
    seen = as_strided(as_plain(memory), shape.dims, steps, writeable=memory.flags.writeable)
    return seen.view(shape.dtype)


def tiled_view(buffer: Array, shape: Shape) -> Array:
    """Return ``buffer`` seen in its physical dimensions (tile numbers, then places), no copy."""
    memory = checked_buffer(buffer, shape)
    dims = shape.physical_dims()
    if packed_bits(shape) or memory.dtype != shape.dtype:
        raise LayoutError(f"{shape} packs several elements in a byte: it has no such view")
    if len(dims) > NUMPY_RANK:
        raise LayoutError(f"numpy holds {NUMPY_RANK} dimensions, {shape} has {len(dims)}")
    return memory[: math.prod(dims)].reshape(dims)


def _as_packed(source: Array, shape: Shape) -> Array | None:
    """Return ``source`` flat if its memory already is the layout's, else None."""
    if packed_bits(shape) or shape.padded_elements() != shape.num_elements():
        return None
    strides = logical_strides(shape)
    if strides is None or source.size == 0:
        return None
    same = all(
        size == 1 or have == stride * source.itemsize
        for size, have, stride in zip(source.shape, source.strides, strides, strict=True)
    )
    if not same:
        return None
    flat = as_strided(as_plain(source), (source.size,), (source.itemsize,))
    return flat.view(source.dtype)
