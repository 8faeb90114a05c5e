"""Packing and unpacking layouts whose elements are less than a byte (``E(4)``, ``E(1)``).

Where no byte is shared between strided pieces, elements go straight to their bytes; elsewhere they
are laid out one to a byte first. Not here: the bits of one byte (``subbyte``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from sim.layout import subbyte
from sim.layout.copying import gather_bits
from sim.layout.items import pack_items, unpack_items
from sim.layout.memory import one_per_item
from sim.layout.pieces import Piece, in_array, pieces_of
from sim.layout.shape import Shape

Array = NDArray[Any]


def pack_packed(
    source: Array, shape: Shape, fill: Any, buffer: Array, bits: int, order: subbyte.BitOrder
) -> None:
    """Join elements into bytes piece by piece; where pieces share bytes, lay them out first."""
    subbyte.check(bits, order)
    legacy = shape.layout.padded_dimensions not in (None, shape.dims)
    pieces = None if legacy else pieces_of(shape)
    if pieces is None or not all(_keeps_bytes_apart(piece, 8 // bits) for piece in pieces):
        whole = one_per_item(shape)
        spread = np.empty(whole.padded_elements(), shape.dtype)
        pack_items(source, whole, fill, spread, fresh=False)
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
    """Write one piece: whole bytes at once, elements of bytes it only touches one by one."""
    per_byte = 8 // bits
    source = in_array(values, piece.box)
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


def unpack_packed(
    memory: Array, shape: Shape, array: Array, bits: int, order: subbyte.BitOrder
) -> None:
    """Read the packed elements in ``memory`` into ``array``."""
    whole = one_per_item(shape)
    spread = subbyte.unpack_bits(memory, bits, whole.padded_elements(), shape.type, order)
    unpack_items(spread, whole, array)
