"""Where the accelerator's memories hold a tensor: a convention, and a function, for each memory.

* state buffer: the tiles of the shape's layout, spread over the partitions by ``rule``;
* result buffer: the column inside the tile is the partition, and an element is a 32-bit word;
* DRAM: there is one partition, and the address is the linear index of the shape's own layout.

Source: seed 004, paragraphs 31-46 and 56-61. Not here: the arithmetic (``placement``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from systolic.layout.blocks import decompose
from systolic.layout.errors import LayoutError
from systolic.layout.placement.buffer import BufferGeometry
from systolic.layout.placement.placement import Placement
from systolic.layout.placement.rule import Spreading, over_partitions
from systolic.layout.shape import Shape
from systolic.layout.steps import ordered_dims
from systolic.layout.tile import COMBINE

_WORD_BITS = 32


def place_in_state_buffer(
    shape: Shape,
    buffer: BufferGeometry,
    block: Sequence[int] | None = None,
    *,
    base_partition: int = 0,
    base_byte: int = 0,
) -> Placement:
    """Place ``shape`` in the tiles of its layout.

    block: the tile T(p,q) of a shape without tiles; None: ``in_rows``'s. Raises LayoutError
    for a block beside tiles.
    """
    if block is not None and shape.layout.tiles:
        raise LayoutError(f"{shape} has tiles, which say where it lies; a block cannot be chosen")
    partitions = buffer.partitions - base_partition
    if block is not None:
        shape = shape.with_tiles(tuple(block))
    elif not shape.layout.tiles:
        shape = in_rows(shape, partitions)
    spreading = over_partitions(shape, partitions)
    return Placement(shape, buffer, spreading, base_partition, base_byte)


def in_rows(
    shape: Shape, partitions: int, *, shared: int = 1, along: int = 1, together: int = 1
) -> Shape:
    """Return a shape without tiles in tiles as wide as its matrices, so that rows are unbroken.

    The most minor ``along`` dimensions lie along the address, and the ``shared`` dimensions before
    them share the partitions. All others count matrices. A tile has as many rows as there are, at
    most one for each partition; or ``together`` of them, one behind the
    other in each partition.
    """
    sizes = ordered_dims(shape.dims, shape.layout)
    cut = max(0, len(sizes) - along)
    rows, columns = sizes[max(0, cut - shared) : cut], sizes[cut:]
    tile = [*_combined(rows, partitions * together), *_combined(columns, None)]
    inner = [(together, tile[-1])] if together > 1 else []
    return shape.with_tiles(tuple(tile), *inner)


def _combined(sizes: Sequence[int], most: int | None) -> list[int]:
    """Return the sizes of a tile over dimensions that count as one, of `most` elements at most."""
    size = max(1, math.prod(sizes))
    return [COMBINE] * (len(sizes) - 1) + [size if most is None else min(size, most)]


def place_in_result_buffer(
    shape: Shape,
    buffer: BufferGeometry,
    block: Sequence[int],
    *,
    base_partition: int = 0,
    base_byte: int = 0,
) -> Placement:
    """Place blocks of (p rows, q columns) with a partition for each column, in 32-bit words.

    The placement's shape is of the accumulator's type: f32 for floats, s32 or u32 for integers.
    """
    tiled = decompose(accumulator_shape(shape), block).tiled
    dims = tiled.physical_dims()
    return Placement(tiled, buffer, Spreading(dims, len(dims) - 1), base_partition, base_byte)


def place_in_dram(
    shape: Shape, buffer: BufferGeometry | None = None, *, base_byte: int = 0
) -> Placement:
    """Place ``shape`` in its own layout; without a buffer, in one that is just large enough."""
    room = buffer or BufferGeometry("dram", 1, max(1, base_byte + shape.size_bytes()))
    return Placement(shape, room, Spreading(shape.physical_dims()), 0, base_byte)


def accumulator_shape(shape: Shape) -> Shape:
    """Return ``shape`` in the 32-bit type that holds its sums."""
    kind = shape.type
    if kind.bits > _WORD_BITS:
        raise LayoutError(f"{kind} does not fit the result buffer's {_WORD_BITS}-bit words")
    if kind.name.startswith("u") or kind.name == "pred":
        return Shape("u32", shape.dims)
    return Shape("s32" if kind.name.startswith("s") else "f32", shape.dims)
