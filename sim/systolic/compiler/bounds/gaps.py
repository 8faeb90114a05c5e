"""The gaps that a tile over the edge of a tensor leaves in memory, for bounds.

Only gaps along the most minor dimension are counted. A bound may do so, because more gaps cost no
less. If that dimension has n indices and a tile t of them, the last tile has v = n mod t indices,
unless that is 0. A second tile (s, 1) puts s rows side by side, element by element. So s rows of
the tensor are a line: the full tiles, v columns of the last one, and (t - v) x s places without an
element. Not here: what a gap costs (`systolic.hw.formulas.moves`).
"""

from __future__ import annotations

import math

from systolic.compiler.ir.carried import memory_bytes
from systolic.element_types import BYTE_BITS
from systolic.hw.formulas.moves import GappedBytes
from systolic.layout import COMBINE, Shape

MATRIX = 2
"""The sizes of a tile that has rows and columns."""


def gapped_bytes(shape: Shape, *, stored: bool) -> GappedBytes | None:
    """Return the lines of a tensor in DRAM; None if its tiles are others, or leave no gap.

    stored: the tensor is written there, not read.
    """
    sizes = [tile.dims for tile in shape.layout.tiles]
    plain = shape.rank >= MATRIX and shape.layout.padded_dimensions is None
    if not plain or len(sizes) not in (1, MATRIX) or any(len(each) != MATRIX for each in sizes):
        return None
    (tall, wide), (deep, one) = sizes[0], (sizes[1] if len(sizes) == MATRIX else (1, 1))
    if COMBINE in (tall, wide, deep) or one != 1 or tall % deep or shape.element_bits % BYTE_BITS:
        return None
    return _lines(shape, wide, deep, stored=stored)


def _lines(shape: Shape, wide: int, deep: int, *, stored: bool) -> GappedBytes | None:
    minor, second, *others = shape.layout.minor_to_major
    size, rows = shape.element_bits // BYTE_BITS, shape.dims[second]
    lines = -(-rows // deep) * math.prod(shape.dims[axis] for axis in others)
    whole, last = divmod(shape.dims[minor], wide)
    if not last or not lines:
        return None
    fewest = rows % deep or deep
    return GappedBytes(
        size_bytes=memory_bytes(shape),
        lines=lines,
        tile_bytes=wide * deep * size,
        whole_tiles=whole,
        last_bytes=((last - 1) * deep + fewest) * size,
        gap_bytes=(wide - last) * deep * size,
        stored=stored,
    )
