"""Where the accelerator's memories hold a tensor: a convention, and a function, for each memory.

* state buffer: under ``T(p,q)`` the row inside the tile is the partition, and the address is
  ``tile number * q + column inside the tile``; the tiles of all leading dimensions are numbered on;
* result buffer: the column inside the tile is the partition, and an element is a 32-bit word;
* DRAM: there is one partition, and the address is the linear index of the shape's own layout.

Source: seed 004, paragraphs 31-46 and 56-61. Not here: the arithmetic (``placement``).
"""

from __future__ import annotations

from collections.abc import Sequence

from systolic.layout.blocks import decompose
from systolic.layout.errors import LayoutError
from systolic.layout.placement.buffer import BufferGeometry
from systolic.layout.placement.placement import Placement
from systolic.layout.shape import Shape

_WORD_BITS = 32


def place_in_state_buffer(
    shape: Shape,
    buffer: BufferGeometry,
    block: Sequence[int],
    *,
    base_partition: int = 0,
    base_byte: int = 0,
) -> Placement:
    """Place the matrices of ``shape`` as blocks of (p partitions, q columns), row by row.

    The blocks are those of ``decompose``: the tensor's tiles in DRAM do not matter.
    """
    tiled = decompose(shape, block).tiled
    axis = len(tiled.physical_dims()) - 2
    return Placement(tiled, buffer, (axis,), base_partition, base_byte)


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
    axis = len(tiled.physical_dims()) - 1
    return Placement(tiled, buffer, (axis,), base_partition, base_byte)


def place_in_dram(
    shape: Shape, buffer: BufferGeometry | None = None, *, base_byte: int = 0
) -> Placement:
    """Place ``shape`` in its own layout; without a buffer, in one that is just large enough."""
    room = buffer or BufferGeometry("dram", 1, max(1, base_byte + shape.size_bytes()))
    return Placement(shape, room, (), 0, base_byte)


def accumulator_shape(shape: Shape) -> Shape:
    """Return ``shape`` in the 32-bit type that holds its sums."""
    kind = shape.type
    if kind.bits > _WORD_BITS:
        raise LayoutError(f"{kind} does not fit the result buffer's {_WORD_BITS}-bit words")
    if kind.name.startswith("u") or kind.name == "pred":
        return Shape("u32", shape.dims)
    return Shape("s32" if kind.name.startswith("s") else "f32", shape.dims)
