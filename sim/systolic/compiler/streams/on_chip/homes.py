"""Where a tensor at home on the chip may lie, and the boxes of modes between two such homes.

A tensor with tiles lies as they say. One without tiles lies in unbroken rows of some view, as suits
its move. A place is one number: a partition counts `LANE`, a column one. So a move has boxes of
modes as it has in DRAM (`places.boxes`), with a step of lanes or of columns on each side.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from systolic.arrays import Integers
from systolic.compiler.ir.carried import carrier_shape
from systolic.compiler.ir.on_chip.chip_places import (
    LANE,
    MOST_TOGETHER,
    ChipPlaces,
    any_rows,
    in_rows,
    row_groups,
)
from systolic.compiler.ir.on_chip.homes import as_rows
from systolic.compiler.places.boxes import AlongDims, ModeBox, boxes
from systolic.compiler.places.modes import coalesce
from systolic.compiler.streams.on_chip.legs import ChipBox, straightened
from systolic.hw.datatypes import SIZE_BYTES
from systolic.hw.spec import Chip
from systolic.layout import Layout, Shape
from systolic.workload import Tensor

MOST_BOXES = 64
"""The most boxes of a move."""


@dataclass(frozen=True, slots=True)
class ChipHome:
    """The places of a tensor, and the partition and the byte from which on they count.

    byte: None if no byte is chosen yet. of_result: whether it has the dimensions of the
    move's result; otherwise it has the dimensions of the move's source.
    """

    tensor: str
    places: ChipPlaces
    of_result: bool
    partition: int = 0
    byte: int | None = None

    @property
    def dtype(self) -> str:
        """The type of the elements in memory."""
        return self.places.shape.element_type

    @property
    def size_bytes(self) -> int:
        """The bytes of a partition that it takes."""
        return self.places.columns * SIZE_BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class _AlongMemory(AlongDims):
    """How an own order of memory follows an index, whatever dimensions its tiles combine."""

    def period(self) -> int:
        if any(step.folds for step in self.shape.steps()):
            return max(1, math.prod(self.shape.dims[dim] for dim in self.dims))
        return super(_AlongMemory, self).period()


@dataclass(frozen=True, slots=True)
class _AlongHome(_AlongMemory):
    """How a home follows an index that runs through several dimensions."""

    home: ChipPlaces

    def places(self, count: int) -> Integers:
        sizes = [self.shape.dims[dim] for dim in self.dims]
        numbers = np.unravel_index(np.arange(count), sizes) if sizes else ()
        index = [np.zeros(1, np.int64)] * self.shape.rank
        for dim, number in zip(self.dims, numbers, strict=True):
            index[dim] = number
        return np.broadcast_to(self.home.linear_index(index), (count,))

    def period(self) -> int:
        return super(_AlongHome, self).period() * self.home.spreading.stack


def boxes_between(
    ends: Sequence[ChipHome], memory: Shape, groups: Sequence[tuple[tuple[int, ...], ...]]
) -> tuple[ChipBox, ...] | None:
    """Return the boxes of a move from one home to another; None if there are too many.

    ends: the result, and the source. memory: the first tensor in its own order. groups: dimensions
    of the result, and of the first tensor, that have the same indices.
    """
    for home in ends:
        if not home.places.is_sum([here if home.of_result else there for here, there in groups]):
            return None
    along: list[list[AlongDims]] = [
        [
            _AlongHome(home.places.shape, here if home.of_result else there, home.places)
            for here, there in groups
        ]
        for home in ends
    ]
    along.append([_AlongMemory(memory, there) for _, there in groups])
    counts = [math.prod(memory.dims[dim] for dim in there) for _, there in groups]
    found: list[ChipBox] = []
    for box in boxes(counts, along):
        if len(found) > MOST_BOXES:
            return None
        found += straightened(_box(box, ends))
    return tuple(found)


def _box(box: ModeBox, ends: Sequence[ChipHome]) -> ChipBox:
    *here, memory = box.at
    at = (*(n + end.partition * LANE for n, end in zip(here, ends, strict=True)), memory)
    modes = sorted(box.nest, key=lambda mode: (-mode.steps[1], -mode.steps[0]))
    return ChipBox(at, coalesce(modes))


def homes_of(
    name: str, tensor: Tensor, chip: Chip, beside: Sequence[Shape], *, of_result: bool
) -> Iterator[ChipHome]:
    """Yield where a tensor may lie: in its tiles, or in unbroken rows.

    beside: other tensors of the move; one without tiles may lie in their tiles.
    """
    shape = carrier_shape(tensor.shape)
    partitions = chip.state_buffer.partitions - tensor.partition
    if partitions <= 0:
        return
    found: list[ChipPlaces | None]
    if shape.layout.tiles:
        found = [ChipPlaces.of(shape, partitions)]
    else:
        inner = [n for other in beside for tile in other.layout.tiles for n in tile.dims]
        heights = {n for n in inner if 1 < n <= MOST_TOGETHER}
        found = [
            *in_rows(chip, shape, row_groups(shape), heights),
            *_as_beside(shape, tensor, chip, beside),
        ]
    for places in found:
        if places is not None:
            yield ChipHome(name, places, of_result, tensor.partition, tensor.byte)


def homes_between(name: str, shape: Shape, chip: Chip, *, of_result: bool) -> Iterator[ChipHome]:
    """Yield where a tensor may lie between two moves: each dimension in its rows."""
    plain = carrier_shape(shape)
    plain = plain.with_layout(Layout(plain.layout.minor_to_major))
    for places in in_rows(chip, plain, any_rows(plain)):
        yield ChipHome(name, places, of_result)


def _as_beside(
    shape: Shape, tensor: Tensor, chip: Chip, beside: Sequence[Shape]
) -> Iterator[ChipPlaces | None]:
    """Yield the places of a tensor without tiles in the tiles of others, as unbroken rows."""
    if tensor.byte is not None:
        return
    for other in beside:
        if not other.layout.tiles:
            continue
        tiled = shape.with_layout(replace(shape.layout, tiles=other.layout.tiles))
        if as_rows(replace(tensor, shape=tiled), chip) is not None:
            partitions = chip.state_buffer.partitions - tensor.partition
            yield ChipPlaces.of(tiled, partitions)


def is_still(boxes_: Sequence[ChipBox], ends: Sequence[ChipHome]) -> bool:
    """Return whether each element has one place in both homes, so that nothing moves."""
    result, source = ends
    given = {end.byte for end in ends if end.byte is not None}
    alike = result.places.columns == source.places.columns and len(given) < 2
    return alike and all(
        box.at[0] == box.at[1] and all(mode.steps[0] == mode.steps[1] for mode in box.modes)
        for box in boxes_
    )
