"""Data in and out of memory: ``pack`` an array into a layout, ``unpack`` it again.

A layout that needs no folding is a few strided copies (``boxes``); the rest goes through
``chain``. Elements of less than a byte (``E(4)``, ``E(1)``) are packed by ``subbyte``. Not here:
moving data from one layout to another (``relayout``), buffers of the accelerator (``placement``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from sim.layout import chain, subbyte
from sim.layout.boxes import Box, boxes, units
from sim.layout.copying import copy_strided, gather_bits
from sim.layout.errors import LayoutError
from sim.layout.layout import Layout
from sim.layout.shape import Shape
from sim.layout.steps import ordered_dims

Array = NDArray[Any]

_NUMPY_RANK = 64


@dataclass(frozen=True, slots=True)
class Piece:
    """One strided copy: elements from ``origin`` along ``dims`` to ``base`` along ``strides``."""

    box: Box
    base: int
    strides: tuple[int, ...]


@lru_cache(maxsize=256)
def _pieces(shape: Shape) -> tuple[Piece, ...] | None:
    """Return the strided copies that fill the memory of ``shape``; None if it folds."""
    digits = units(shape)
    parts = None if digits is None else boxes(shape.dims, digits)
    if parts is None:
        return None
    return tuple(Piece(box, box.base(shape), box.strides(shape)) for box in parts)


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
    items of ``shape.dtype``, or, where ``E(n)`` is less than the type's whole bytes,
    ``shape.size_bytes()`` bytes (uint8). Padding holds ``fill`` (the legacy padding of
    ``padded_dimensions`` holds ``padding_value``). ``out`` is a buffer to fill instead of a new
    one. ``order`` says which bits of a byte come first. As in numpy, ``copy=None`` returns a view
    of ``array`` where its memory is already in this layout, True never does, False refuses to copy.
    Raises LayoutError for an array or buffer that does not match.
    """
    source = _checked_array(array, shape)
    if out is None and copy is not True:
        viewed = _as_packed(source, shape)
        if viewed is not None:
            return viewed
    if copy is False:
        raise LayoutError(f"{shape} cannot be packed without a copy")
    bits = packed_bits(shape)
    buffer = _new_buffer(shape) if out is None else _checked_out(out, shape)
    if bits:
        _pack_bits(source, shape, fill, buffer, bits, order)
    else:
        _pack_items(source, shape, fill, buffer, fresh=out is None)
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
    fill instead of a new one. With ``copy=None`` the
    result is a view of the buffer where strides can express the layout, else a new array; True
    always copies, False refuses to. Raises LayoutError for a buffer of another size.
    """
    bits = packed_bits(shape)
    memory = _checked_buffer(buffer, shape)
    if copy is not True and not bits and out is None:
        viewed = view(memory, shape)
        if viewed is not None:
            return viewed
    if copy is False:
        raise LayoutError(f"{shape} cannot be unpacked without a copy")
    array = np.empty(shape.dims, shape.dtype) if out is None else _checked_array(out, shape)
    if bits:
        _unpack_bits(memory, shape, array, bits, order)
    else:
        _unpack_items(memory, shape, array)
    return array


def view(buffer: Array, shape: Shape) -> Array | None:
    """Return the array in ``buffer`` without a copy, or None where strides cannot express it."""
    memory = _checked_buffer(buffer, shape)
    if packed_bits(shape) or memory.dtype != shape.dtype:
        return None
    if 0 in shape.dims:
        return np.empty(shape.dims, shape.dtype)
    strides = _logical_strides(shape)
    if strides is None:
        return None
    steps = [stride * memory.strides[0] for stride in strides]
    return as_strided(memory, shape.dims, steps, writeable=memory.flags.writeable)


def tiled_view(buffer: Array, shape: Shape) -> Array:
    """Return ``buffer`` seen in its physical dimensions (tile numbers, then places), no copy."""
    memory = _checked_buffer(buffer, shape)
    dims = shape.physical_dims()
    if packed_bits(shape) or memory.dtype != shape.dtype:
        raise LayoutError(f"{shape} packs several elements in a byte: it has no such view")
    if len(dims) > _NUMPY_RANK:
        raise LayoutError(f"numpy holds {_NUMPY_RANK} dimensions, {shape} has {len(dims)}")
    return memory[: math.prod(dims)].reshape(dims)


def packed_bits(shape: Shape) -> int:
    """Return the bits of an element packed below a byte, or 0 where elements are whole items.

    Raises LayoutError where ``E(n)`` cannot hold the type's values.
    """
    kind, bits = shape.type, shape.element_bits
    if bits == kind.storage_bits:
        return 0
    if bits in (1, 2, 4) and kind.bits <= bits:
        return bits
    fit = ", ".join(str(b) for b in (1, 2, 4) if kind.bits <= b < kind.storage_bits)
    fit = f"{fit} or {kind.storage_bits}" if fit else str(kind.storage_bits)
    raise LayoutError(f"{kind} elements can be held in E({fit}), found E({bits})")


# -- whole items ----------------------------------------------------------------------------------


def _pack_items(source: Array, shape: Shape, fill: Any, buffer: Array, *, fresh: bool) -> None:
    legacy = shape.layout.padded_dimensions not in (None, shape.dims)
    pieces = None if legacy else _pieces(shape)
    if pieces is None:
        folded = None if legacy else without_fold(shape)
        if folded is None:
            buffer[...] = chain.into_memory(source, shape, fill) if shape.padded_elements() else 0
            return
        ordered = source.transpose(shape.layout.major_to_minor).reshape(folded.dims)
        _pack_items(ordered, folded, fill, buffer, fresh=fresh)
        return
    _fill_padding(buffer, shape, fill, fresh=fresh)
    for piece in pieces:
        copy_strided(_in_memory(buffer, piece), _in_array(source, piece.box))


def _unpack_items(memory: Array, shape: Shape, array: Array) -> None:
    pieces = _pieces(shape)
    if pieces is not None:
        for piece in pieces:
            copy_strided(_in_array(array, piece.box), _in_memory(memory, piece))
        return
    folded = without_fold(shape)
    if folded is None:
        array[...] = chain.out_of_memory(memory, shape)
        return
    ordered = array.transpose(shape.layout.major_to_minor)
    merged = np.empty(folded.dims, shape.dtype)
    _unpack_items(memory, folded, merged)
    ordered[...] = merged.reshape(ordered.shape)


@lru_cache(maxsize=256)
def without_fold(shape: Shape) -> Shape | None:
    """Return the same memory as a row-major shape whose first tile has no ``*``.

    Its dimensions are the folded physical ones. None where a later tile folds, or legacy padding
    lies inside the folded dimensions.
    """
    steps = shape.steps()
    if shape.layout.padded_dimensions not in (None, shape.dims):
        return None
    if not steps or not steps[0].folds or any(step.folds for step in steps[1:]):
        return None
    first = steps[0]
    dims = first.before[: first.untouched] + first.covered
    tiles: Sequence[Sequence[int]] = [first.sizes, *(step.sizes for step in steps[1:])]
    kept = shape.layout
    order = range(len(dims) - 1, -1, -1)
    layout = Layout(
        order, tiles, element_bits=kept.element_bits, tail_align=kept.tail_align
    )
    return Shape(shape.element_type, dims, layout)


def _fill_padding(buffer: Array, shape: Shape, fill: Any, *, fresh: bool) -> None:
    """Write ``fill`` wherever padding may lie; real elements are written over it later."""
    if shape.padded_elements() == shape.num_elements():
        return
    if fresh and _is_zero(fill, buffer.dtype):
        return
    steps = shape.steps()
    only_first = (
        steps
        and shape.layout.tail_align == 1
        and not any(step.pads or len(step.sizes) > len(steps[0].sizes) for step in steps[1:])
        and len(steps[0].after) <= _NUMPY_RANK
    )
    if not only_first:
        buffer[...] = fill
        return
    first = steps[0]
    tiles = buffer.reshape((*first.before[: first.untouched], *first.counts, -1))
    for axis, (dim, size) in enumerate(zip(first.covered, first.sizes, strict=True)):
        if dim % size:
            edge: list[slice | int] = [slice(None)] * (first.untouched + axis)
            tiles[(*edge, -1)] = fill


def _is_zero(fill: Any, dtype: np.dtype[Any]) -> bool:
    return not np.asarray(fill).astype(dtype).tobytes().strip(b"\0")


def _in_memory(buffer: Array, piece: Piece) -> Array:
    sizes = [axis.size for axis in piece.box.axes]
    steps = [stride * buffer.strides[0] for stride in piece.strides]
    return as_strided(buffer[piece.base :], sizes, steps)


def _in_array(array: Array, box: Box) -> Array:
    corner = array[tuple(slice(start, start + 1) for start in box.origin)]
    sizes = [axis.size for axis in box.axes]
    return as_strided(corner, sizes, [array.strides[axis.dim] * axis.unit for axis in box.axes])


# -- elements of less than a byte -----------------------------------------------------------------


def _pack_bits(
    source: Array, shape: Shape, fill: Any, buffer: Array, bits: int, order: subbyte.BitOrder
) -> None:
    """Join elements into bytes piece by piece, or, where bytes are shared, after laying them out."""
    subbyte.check(bits, order)
    legacy = shape.layout.padded_dimensions not in (None, shape.dims)
    pieces = None if legacy else _pieces(shape)
    if pieces is None or not all(_keeps_bytes_apart(piece, 8 // bits) for piece in pieces):
        whole = one_per_item(shape)
        spread = np.empty(whole.padded_elements(), shape.dtype)
        _pack_items(source, whole, fill, spread, fresh=False)
        subbyte.pack_bits(spread, bits, order, out=buffer)
        return
    places = shape.padded_elements()
    if places:
        # Whole bytes of fill, and a last one that ends where the elements do.
        pattern = np.full(8 // bits, fill).astype(shape.dtype)
        buffer[...] = subbyte.pack_bits(pattern, bits, order)[0]
        ragged = places % (8 // bits)
        buffer[-1] = subbyte.pack_bits(pattern[: ragged or None], bits, order)[0]
    values = source.view(np.uint8)
    for piece in pieces:
        _join_piece(buffer, piece, values, bits, order)


def _keeps_bytes_apart(piece: Piece, per_byte: int) -> bool:
    """Whether only steps along the memory's fastest axis stay within a byte."""
    return all(stride % per_byte == 0 for stride in piece.strides if stride != 1)


def _join_piece(
    buffer: Array, piece: Piece, values: Array, bits: int, order: subbyte.BitOrder
) -> None:
    per_byte = 8 // bits
    source = _in_array(values, piece.box)
    run = 1
    strides = [stride // per_byte for stride in piece.strides]
    if 1 in piece.strides:
        axis = piece.strides.index(1)
        run = source.shape[axis]
        source = np.moveaxis(source, axis, -1)
        del strides[axis]
    else:
        source = source[..., np.newaxis]
    whole = run // per_byte if piece.base % per_byte == 0 else 0
    if whole:
        sizes = (*source.shape[:-1], whole, per_byte)
        steps = (*source.strides[:-1], source.strides[-1] * per_byte, source.strides[-1])
        target = as_strided(buffer[piece.base // per_byte :], sizes[:-1], (*strides, 1))
        shifts = [subbyte.shift_of(place, bits, order) for place in range(per_byte)]
        gather_bits(target, as_strided(source, sizes, steps), shifts, (1 << bits) - 1)
    for place in range(whole * per_byte, run):
        number, inside = divmod(piece.base + place, per_byte)
        target = as_strided(buffer[number:], source.shape[:-1], strides)
        mask = np.uint8((1 << bits) - 1)
        shift = np.uint8(subbyte.shift_of(inside, bits, order))
        target[...] = (target & ~(mask << shift)) | ((source[..., place] & mask) << shift)


def _unpack_bits(
    memory: Array, shape: Shape, array: Array, bits: int, order: subbyte.BitOrder
) -> None:
    whole = one_per_item(shape)
    spread = subbyte.unpack_bits(memory, bits, whole.padded_elements(), shape.type, order)
    _unpack_items(spread, whole, array)


@lru_cache(maxsize=256)
def one_per_item(shape: Shape) -> Shape:
    """Return the same layout with whole bytes for each element, without ``E(n)``."""
    kept = shape.layout
    layout = Layout(
        kept.minor_to_major,
        kept.tiles,
        tail_align=kept.tail_align,
        padded_dimensions=kept.padded_dimensions,
        padding_value=kept.padding_value,
    )
    return shape.with_layout(layout)


# -- views ----------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _logical_strides(shape: Shape) -> tuple[int, ...] | None:
    """Return one stride (in elements) per logical dimension if the layout is that simple."""
    pieces = _pieces(shape)
    if pieces is None or len(pieces) != 1:
        return None
    strides = [0] * shape.rank
    covered = [1] * shape.rank
    digits = sorted(zip(pieces[0].box.axes, pieces[0].strides, strict=True), key=_unit)
    for axis, stride in digits:
        if covered[axis.dim] == 1:
            strides[axis.dim] = stride
        elif stride != strides[axis.dim] * covered[axis.dim]:
            return None
        covered[axis.dim] *= axis.size
    return tuple(strides)


def _unit(digit: tuple[Any, int]) -> int:
    return int(digit[0].unit)


def _as_packed(source: Array, shape: Shape) -> Array | None:
    """Return ``source`` flat if its memory already is the layout's, else None."""
    if packed_bits(shape) or shape.padded_elements() != shape.num_elements():
        return None
    strides = _logical_strides(shape)
    if strides is None or source.size == 0:
        return None
    same = all(
        size == 1 or have == stride * source.itemsize
        for size, have, stride in zip(source.shape, source.strides, strides, strict=True)
    )
    return as_strided(source, (source.size,), (source.itemsize,)) if same else None


# -- checks ---------------------------------------------------------------------------------------


def _checked_array(array: Array, shape: Shape) -> Array:
    source = np.asarray(array)
    if source.shape != shape.dims:
        raise LayoutError(f"an array for {shape} must have dimensions {_list(shape.dims)}, "
                          f"found {_list(source.shape)}")
    if source.dtype != shape.dtype:
        raise LayoutError(f"an array for {shape} must be {shape.dtype}, found {source.dtype}")
    return source


def _new_buffer(shape: Shape) -> Array:
    if packed_bits(shape):
        return np.zeros(shape.size_bytes(), np.uint8)
    padded = shape.padded_elements() != shape.num_elements()
    make = np.zeros if padded else np.empty
    return make(shape.padded_elements(), shape.dtype)


def _checked_out(out: Array, shape: Shape) -> Array:
    memory = _checked_buffer(out, shape)
    if not memory.flags.writeable or not memory.flags.c_contiguous:
        raise LayoutError("out must be writeable and contiguous")
    return memory


def _checked_buffer(buffer: Array, shape: Shape) -> Array:
    """Return ``buffer`` as items of the shape's type (or bytes below that), checked for size."""
    if _numpy_cannot_hold(shape):
        raise LayoutError(f"numpy holds arrays of {_NUMPY_RANK} dimensions, found {shape.rank}")
    wanted = np.dtype(np.uint8) if packed_bits(shape) else shape.dtype
    memory = buffer
    if memory.dtype != wanted and memory.dtype == np.uint8 and memory.flags.c_contiguous:
        if memory.nbytes != shape.size_bytes():
            raise LayoutError(f"a buffer for {shape} must have {shape.size_bytes()} bytes, "
                              f"found {memory.nbytes}")
        memory = memory.reshape(-1).view(wanted)
    if memory.dtype != wanted:
        raise LayoutError(f"a buffer for {shape} must be {wanted}, found {memory.dtype}")
    items = shape.size_bytes() if packed_bits(shape) else shape.padded_elements()
    if memory.shape != (items,):
        raise LayoutError(f"a buffer for {shape} must be flat with {items} items, "
                          f"found dimensions {_list(memory.shape)}")
    return memory


def _numpy_cannot_hold(shape: Shape) -> bool:
    return shape.rank > _NUMPY_RANK


def _list(sizes: Sequence[int]) -> str:
    return "[" + ",".join(map(str, sizes)) + "]"
