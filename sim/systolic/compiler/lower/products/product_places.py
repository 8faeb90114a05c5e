"""Operands of batched products on the chip that lie in reach of the array, and need not move.

The array takes an element of each partition in a cycle. Not here: operands in DRAM (`batches`), and
changes of view of all matrices (`builder`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from systolic.compiler.ir.nodes import GIVEN, Axes, Matrix, Source
from systolic.compiler.ir.on_chip.chip_places import ChipPlaces, in_rows, row_groups
from systolic.compiler.ir.on_chip.chip_tiles import block_rows, whole_banks
from systolic.compiler.ir.on_chip.rows_at_places import rows_at_places
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.room import bytes_at_home
from systolic.hw.spec import Chip
from systolic.workload import Tensor

LEFT = 4
"""One of this many parts of the state buffer is left to what the product needs meanwhile."""


def lies_in_reach(builder: LayerBuilder, tensor: str, axes: Axes) -> bool:
    """Let an input on the chip lie so that a product takes its matrices as they are, if it can.

    axes: the view [batch..., K, columns] that the product takes. Its rows may lie on partitions,
    and its columns and matrices at any distances along the address. Return whether they do.
    """
    if not _is_alone(builder, tensor, axes) or builder.is_packed(tensor):
        return False
    if builder.batches.may_lie_for(tensor, axes):
        return False  # with its matrices side by side, or as they are
    home, p = builder.graph.tensor(tensor), block_rows(builder.chip)
    found = [
        places
        for places in _places(builder.chip, home)
        if rows_at_places(places, axes, p, tensor) and _may_lie(builder, tensor, places)
    ]
    if not found:
        return False
    places = min(found, key=lambda each: each.columns)
    builder.choose(f"{tensor} lies in reach of a product, its columns at a distance")
    held = _holder(builder, tensor, places, GIVEN)
    builder.batches.lies_as(tensor, axes, _matrices(builder, held, places, axes))
    return True


def _may_lie(builder: LayerBuilder, tensor: str, places: ChipPlaces) -> bool:
    """Return whether an input has room at some places, beside all that is at home on the chip."""
    chip, size = builder.chip, places.columns * places.shape.dtype.itemsize
    if (bank := whole_banks(chip)) and size > bank:
        return False
    taken = bytes_at_home(builder.graph, chip) + size
    return LEFT * taken <= (LEFT - 1) * chip.state_buffer.bytes_per_partition


def _is_alone(builder: LayerBuilder, tensor: str, axes: Axes) -> bool:
    """Return whether an operand is of one product that takes one of several matrices at a time."""
    home = builder.graph.tensor(tensor)
    lone = builder.is_unplaced(tensor) and builder.uses(tensor) == 1
    *batch, _, cols = axes
    asked = builder.options.via or builder.options.block or builder.options.tile_columns
    return bool(lone and not asked and not home.partition and any(batch) and len(cols) == 1)


def _places(chip: Chip, tensor: Tensor) -> Iterator[ChipPlaces]:
    """Yield the places in which a tensor may lie: in its tiles, or in any unbroken rows."""
    shape = tensor.shape
    if not shape.layout.tiles:
        yield from in_rows(chip, shape, row_groups(shape))
        return
    found = ChipPlaces.of(shape, chip.state_buffer.partitions)
    if found is not None and found.rows <= block_rows(chip):
        yield found


def _holder(builder: LayerBuilder, tensor: str, places: ChipPlaces, source: Source) -> Matrix:
    """Return the matrix of all places of a tensor where it lives, one tile."""
    builder.placed(tensor)
    matrix = replace(_matrix(builder, tensor, places), source=source)
    builder.homes.lies_at(tensor, places.shape, matrix)
    return builder.fixed(matrix, tensor, places.columns)


def _matrix(builder: LayerBuilder, tensor: str, places: ChipPlaces) -> Matrix:
    """Return a new matrix of all places in which a tensor lies between two moves, one tile."""
    name, dtype = builder.new_name(tensor), places.shape.element_type
    block = block_rows(builder.chip), places.columns
    dims = places.rows, places.columns
    return builder.add(Matrix(name, tensor, dtype, dims, ((), ()), block=block))


def _matrices(builder: LayerBuilder, held: Matrix, places: ChipPlaces, axes: Axes) -> Matrix:
    """Return the matrices of a view, as `rows_at_places` finds them within all places."""
    window = rows_at_places(places, axes, block_rows(builder.chip), held.name)
    assert window is not None, "matrices lie at no distance"
    rows, cols = (math.prod(places.dims[axis] for axis in group) for group in axes[-2:])
    return builder.at_digits(held, window, rows, cols)
