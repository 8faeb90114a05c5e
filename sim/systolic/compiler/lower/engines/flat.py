"""The bytes of a place in DRAM as tiles: their number, each with rows of bytes on partitions.

Work on bytes one after another, whatever the bytes mean, takes them in this shape. If the number of
bytes has no suitable factors, the place is made larger, up to whole rows and tiles.
"""

from __future__ import annotations

from collections.abc import Iterator

from systolic.compiler.ir.on_chip.chip_tiles import whole_banks
from systolic.hw.spec import Chip
from systolic.layout import Shape

LEAST_ROW_BYTES = 8
MOST_ROW_BYTES = 512
ROOM = 16
"""The elements of a row take no more than this part of a partition."""
TILE_CYCLES = 64
"""About how many cycles a tile costs besides its bytes: latencies of copies and instructions."""


def flat_shape(packed: Shape, chip: Chip, *, exact: bool) -> Shape:
    """Return [tiles, rows, bytes of a row] of a packed shape, u8.

    exact: bytes beyond the shape's cost as much again as all of the shape's.
    """
    size, most = packed.size_bytes(), _most_row_bytes(packed, chip)
    ways = [_rounded(size, most, chip), *_factored(size, most, chip)]
    costs = [
        tiles * (cols + TILE_CYCLES) * (2 if exact and tiles * rows * cols != size else 1)
        for tiles, rows, cols in ways
    ]
    return Shape("u8", ways[costs.index(min(costs))])


def _most_row_bytes(packed: Shape, chip: Chip) -> int:
    room = chip.state_buffer.bytes_per_partition // ROOM
    room = min(room, whole_banks(chip) or room)
    return max(1, min(MOST_ROW_BYTES, room * packed.element_bits // 8))


def _rounded(size: int, most: int, chip: Chip) -> tuple[int, int, int]:
    """Return tiles whose rows are as long as all partitions together need them."""
    lanes = chip.state_buffer.partitions
    cols = min(most, max(LEAST_ROW_BYTES, -(-size // lanes)))
    rows = min(lanes, -(-size // cols))
    return -(-size // (rows * cols)), rows, cols


def _factored(size: int, most: int, chip: Chip) -> Iterator[tuple[int, int, int]]:
    """Yield the tiles that have just these bytes, of the most rows for each length of a row."""
    for cols in range(1, min(size, most) + 1):
        if size % cols == 0:
            lines = size // cols
            lanes = range(min(lines, chip.state_buffer.partitions), 0, -1)
            rows = next(rows for rows in lanes if lines % rows == 0)
            yield lines // rows, rows, cols
