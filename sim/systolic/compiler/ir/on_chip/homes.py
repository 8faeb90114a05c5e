"""Tensors at home in the state buffer: the tiles that say where each lies, and its matrix there.

A tensor lies in unbroken rows, which are a view that all work can use; or several of its rows lie
in one unbroken row, column by column, each at a distance that an access can step; or only moves can
read and write it, element by element, at the places that its tiles give. Not here: bytes (`place`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from systolic.arrays import Integers
from systolic.compiler.ir.nodes import Axes
from systolic.compiler.ir.on_chip.chip_tiles import block_rows, whole_banks
from systolic.errors import CompileError
from systolic.hw.spec import Chip
from systolic.layout import Layout, Shape, Spreading, in_rows, over_partitions
from systolic.layout.tile import COMBINE
from systolic.spans import Span
from systolic.workload import Tensor


@dataclass(frozen=True, slots=True)
class Rows:
    """A tensor that lies in unbroken rows.

    axes: its view. width: elements of a partition from one row of tiles to the next.
    """

    axes: Axes
    width: int


@dataclass(frozen=True, slots=True)
class Interleaved:
    """A tensor with `ways` rows in one unbroken row, column by column: T(8,128)(2,1).

    axes: its view; row r is in unbroken row r // `ways`, in every `ways`-th column from
    r mod `ways` on. width: elements of a partition from one row of tiles to the next.
    """

    axes: Axes
    width: int
    ways: int


def as_rows(tensor: Tensor, chip: Chip) -> Rows | None:
    """Return the rows in which a tiled tensor lies; None if its tiles break or mix them.

    Row r of a matrix is in partition r mod p, for tiles of p rows of the compilation, counted from
    the tensor's partition. The array takes rows from every R-th partition on. A row of a tile that
    must lie in one bank is no part of unbroken rows.
    """
    shape = tensor.shape
    if len(shape.layout.tiles) != 1 or not _in_order(tensor, chip, ways=1):
        return None
    (step,) = shape.steps()
    return Rows(tile_groups(shape), step.counts[-1] * step.sizes[-1])


def as_interleaved(tensor: Tensor, chip: Chip) -> Interleaved | None:
    """Return how a tensor's rows share unbroken rows; None if its tiles do not say so.

    The second tile must take some rows of the first, a column at a time: T(8,128)(2,1).
    """
    shape = tensor.shape
    if len(shape.layout.tiles) != 2 or len(shape.layout.tiles[1].dims) != 2:
        return None
    (ways, column), (step, _) = shape.layout.tiles[1].dims, shape.steps()
    if ways < 2 or column != 1 or len(step.sizes) < 2 or step.sizes[-2] % ways:
        return None
    if not _in_order(tensor, chip, ways):
        return None
    return Interleaved(tile_groups(shape), ways * step.counts[-1] * step.sizes[-1], ways)


def _in_order(tensor: Tensor, chip: Chip, ways: int) -> bool:
    """Return whether each group of `ways` rows of a tensor is in the partition of its number."""
    shape, p = tensor.shape, block_rows(chip)
    partitions = chip.state_buffer.partitions - tensor.partition
    padded = shape.layout.padded_dimensions not in (None, shape.dims)
    if whole_banks(chip) or padded or tensor.partition % chip.pe_array.rows:
        return False
    step = shape.steps()[0]
    if any(size > 1 for size in step.sizes[:-2]):
        return False
    rows = -(-math.prod(shape.dims[axis] for axis in tile_groups(shape)[-2]) // ways)
    tall = step.sizes[-2] // ways if len(step.sizes) > 1 else 1
    together = partitions // tall * tall
    return rows <= min(p, together) or together == p


def lies_unbroken(rows: int, p: int, chip: Chip) -> bool:
    """Return whether the tiles of a matrix, p rows high, may lie as unbroken rows.

    They may not if several of them would stand on one another in the partitions, or if a tile must
    lie in one bank.
    """
    stacked = rows > p and chip.state_buffer.partitions // p > 1
    return not stacked and not whole_banks(chip)


def in_unbroken_rows(shape: Shape, axes: Axes, p: int, together: int = 1) -> Shape:
    """Return a shape in the tiles that say how it lies as rows of a view, p rows in partitions.

    together: how many rows of the view lie in a partition one behind the other, as one.
    """
    order = tuple(axis for group in axes for axis in group)
    lies = shape.with_layout(Layout(order[::-1]))
    return in_rows(lies, p, shared=len(axes[-2]), along=len(axes[-1]), together=together)


def tile_groups(shape: Shape) -> Axes:
    """Return the dimensions of the batch, of the rows and of the columns of the first tile."""
    order, tile = shape.layout.major_to_minor, shape.layout.tiles[0].dims
    missing = max(0, len(tile) - len(order))
    untouched = len(order) + missing - len(tile)
    groups: list[tuple[int, ...]] = [(axis,) for axis in order[: max(0, untouched)]]
    pending: tuple[int, ...] = ()
    for place, size in enumerate(tile, untouched):
        pending += (order[place - missing],) if place >= missing else ()
        if size != COMBINE:
            groups.append(pending)
            pending = ()
    while len(groups) < 2:
        groups.insert(0, ())
    return (*(group for group in groups[:-2] if group), *groups[-2:])


@dataclass(frozen=True)
class Scattered:
    """A tensor at the places of its tiles, as one matrix [partitions, addresses].

    It takes the place of a `Spread` in a change of view. Places of padding have no element.
    columns: of the matrix, 0 for the columns of the rule.
    """

    shape: Shape
    spreading: Spreading
    columns: int = 0

    @classmethod
    def of(cls, tensor: Tensor, chip: Chip) -> Scattered:
        """Return the places of a tensor in tiles, counted from its partition."""
        partitions = chip.state_buffer.partitions - tensor.partition
        if partitions <= 0:
            raise CompileError(
                f"partition {tensor.partition} is not in the state buffer of {chip.name}, which "
                f"has {chip.state_buffer.partitions}"
            )
        return cls(tensor.shape, over_partitions(tensor.shape, partitions))

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions of the tensor."""
        return self.shape.dims

    def sizes(self) -> tuple[int, int, int]:
        """Return how many matrices there are, and their rows and columns."""
        return 1, self.spreading.partitions, self.columns or self.spreading.elements

    def logical(self, number: int, rows: Span, cols: Span) -> Integers:
        """Return the row-major index of each element of a block, -1 for padding."""
        return self._held[rows.first : rows.stop, cols.first : cols.stop]

    def locate(self, logical: Integers) -> tuple[Integers, Integers, Integers]:
        """Return number of the matrix, row and column of elements given by row-major index."""
        index = list(np.unravel_index(np.maximum(logical, 0), self.dims))
        offset = self.shape.linear_index(index) if index else np.zeros_like(logical)
        partition, address = self.spreading.place(offset)
        return np.zeros_like(logical), partition, address

    @cached_property
    def _held(self) -> Integers:
        held = np.full(self.sizes()[1:], -1, np.int64)
        every = np.arange(self.shape.num_elements())
        _, partition, address = self.locate(every)
        held[partition, address] = every
        return held
