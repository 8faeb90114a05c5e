"""Which physical dimensions of a tiled tensor are spread over the partitions of a buffer.

XLA's memory is linear, so it has no rule for a buffer with partitions. This is the rule here:

* The *row* dimension is the one of the second most minor size of the first tile. Its size is a.
* The *grid* dimension counts tiles along the rows. Its size is I.
* Where later tiles split one of them, its most major part counts.
* Tiles stand on one another while they fit: s = P // a of them in P partitions. Row r of tile i is
  in partition (i mod s) * a + r.
* The address is the row-major number of all other physical dimensions, with i // s for i.

A first tile of one size has one virtual row; the dimension before the tile's own is the grid. A
tensor of rank 0 or 1 counts as a matrix of one row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from systolic.layout.errors import LayoutError
from systolic.layout.shape import Shape
from systolic.layout.steps import tile_steps
from systolic.layout.tile import COMBINE


@dataclass(frozen=True, slots=True)
class Spreading:
    """The physical dimensions ``dims``; ``row`` and ``grid`` give the partition.

    Both are numbers of a physical dimension, or None if there is only one (virtual) row or one tile
    along the rows. ``stack`` is how many tiles stand on one another.
    """

    dims: tuple[int, ...]
    row: int | None = None
    grid: int | None = None
    stack: int = 1

    @property
    def rows(self) -> int:
        """Rows of a tile: a."""
        return 1 if self.row is None else self.dims[self.row]

    @property
    def partitions(self) -> int:
        """How many partitions the tiles span, ragged tiles included."""
        tiles = 1 if self.grid is None else self.dims[self.grid]
        return min(self.stack, tiles) * self.rows

    @property
    def address_dims(self) -> tuple[int, ...]:
        """Sizes of the dimensions that make the address, one for each physical dimension."""
        sizes = list(self.dims)
        if self.row is not None:
            sizes[self.row] = 1
        if self.grid is not None:
            sizes[self.grid] = -(-sizes[self.grid] // self.stack)
        return tuple(sizes)

    @property
    def elements(self) -> int:
        """Element places in each partition, padding included."""
        return math.prod(self.address_dims)

    def place(self, offset: Any) -> tuple[Any, Any]:
        """Return partition and address of linear indices: integers, or arrays of them."""
        partition = self._digit(offset, self.row)
        address = offset * 0
        for axis, size in enumerate(self.address_dims):
            if axis == self.grid:
                tile = self._digit(offset, axis)
                partition = partition + tile % self.stack * self.rows
                address = address * size + tile // self.stack
            elif size > 1:
                address = address * size + self._digit(offset, axis)
        return partition, address

    def offset(self, partition: int, address: int) -> int | None:
        """Return the linear index at a partition and address; None if there is none."""
        level, row = divmod(partition, self.rows)
        found = 0
        for axis in reversed(range(len(self.dims))):
            address, digit = divmod(address, self.address_dims[axis])
            if axis == self.grid:
                digit = digit * self.stack + level
            elif axis == self.row:
                digit = row
            if digit >= self.dims[axis]:
                return None
            found += digit * math.prod(self.dims[axis + 1 :])
        return found

    def _digit(self, offset: Any, axis: int | None) -> Any:
        if axis is None:
            return offset * 0
        return offset // math.prod(self.dims[axis + 1 :]) % self.dims[axis]


def over_partitions(shape: Shape, partitions: int) -> Spreading:
    """Return how a tiled shape is spread over some partitions.

    Raises LayoutError if the shape has no tiles, a later tile has ``*``, or a tile has more rows
    than there are partitions.
    """
    if not shape.layout.tiles:
        raise LayoutError(f"{shape} has no tiles, so no rule says which partitions it lies in")
    if any(COMBINE in tile.dims for tile in shape.layout.tiles[1:]):
        raise LayoutError(
            f'{shape}: only the first tile of a tensor in a buffer may have "*": a later one would '
            "combine rows that lie in several partitions"
        )
    first, *later = tile_steps(shape.dims, shape.layout)
    sides = len(first.sizes)
    row = first.untouched + sides + (sides - 2) if sides > 1 else None
    grid: int | None = first.untouched + max(sides - 2, -1)
    # A later tile replaces a dimension by its number of tiles, in the same position, and appends
    # the sizes of the tile. So the most major part of a dimension keeps its position.
    missing = sum(step.missing for step in later)
    row = None if row is None else row + missing
    grid = None if grid is None or grid < 0 else grid + missing
    dims = shape.physical_dims()
    rows = 1 if row is None else dims[row]
    if rows > partitions:
        raise LayoutError(
            f"{shape}: a tile has {rows} rows, each in a partition of its own, but there are "
            f"{partitions} partitions"
        )
    return Spreading(dims, row, grid, partitions // rows)
