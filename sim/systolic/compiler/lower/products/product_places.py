"""Operands of batched products on the chip that lie in reach of the array, and need not move.

The array takes an element of each partition in a cycle. Not here: operands in DRAM (`batches`), and
changes of view of all matrices (`builder`).
"""

from __future__ import annotations

from systolic.compiler.ir.nodes import GIVEN, Axes
from systolic.compiler.ir.on_chip.chip_places import ChipPlaces
from systolic.compiler.ir.on_chip.chip_tiles import block_rows, whole_banks
from systolic.compiler.ir.on_chip.rows_at_places import rows_at_places
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.moves.digit_moves import (
    holder_of_places,
    matrices_at_places,
    places_at_home,
)
from systolic.compiler.lower.room import bytes_at_home

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
        for places in places_at_home(builder.chip, home, seen=False)
        if rows_at_places(places, axes, p, tensor) and _may_lie(builder, tensor, places)
    ]
    if not found:
        return False
    places = min(found, key=lambda each: each.columns)
    builder.choose(f"{tensor} lies in reach of a product, its columns at a distance")
    held = holder_of_places(builder, tensor, places, GIVEN)
    builder.batches.lies_as(tensor, axes, matrices_at_places(builder, held, places, axes))
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
