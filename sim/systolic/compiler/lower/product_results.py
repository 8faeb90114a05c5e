"""Results of batched products that are made where they live on the chip: nothing is moved after.

The places of a result in tiles have digits (`ir.chip_places`). If its rows lie on partitions, in
order, and its columns at one distance along the address, as its matrices do, an engine that copies
sums out of the result buffer writes them there at once, whatever lies between them. Not here: tiles
whose rows are the rows of a product side by side (`batches`), and results that change their view.
"""

from __future__ import annotations

from systolic.compiler.ir.chip_places import ChipPlaces
from systolic.compiler.ir.chip_tiles import block_rows, whole_banks
from systolic.compiler.ir.homes import as_rows
from systolic.compiler.ir.nodes import Axes, Matrix
from systolic.compiler.ir.rows_at_places import rows_at_places
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.digit_moves import (
    holder_of_places,
    matrices_at_places,
    places_at_home,
)
from systolic.compiler.lower.views import swap


def made_at_home(builder: LayerBuilder, tensor: str, axes: Axes) -> Matrix | None:
    """Return the matrices of an output within its places on the chip; None if they have none there.

    axes: the view [batch..., rows, columns] that a product makes.
    """
    places = _home(builder, tensor, axes)
    if places is None or not may_be_made_at_home(builder, tensor, axes):
        return None
    builder.choose(f"{tensor} is made where its tiles lie, matrix by matrix at a distance")
    held = holder_of_places(builder, tensor, places, "node")
    builder.keep_matrix(tensor, held, held.axes)
    return matrices_at_places(builder, held, places, axes)


def may_be_made_at_home(builder: LayerBuilder, tensor: str, axes: Axes) -> bool:
    """Return whether an output can be made where it lives if a product makes it as this view."""
    places, p = _home(builder, tensor, axes), block_rows(builder.chip)
    return places is not None and rows_at_places(places, axes, p, tensor) is not None


def _home(builder: LayerBuilder, tensor: str, axes: Axes) -> ChipPlaces | None:
    """Return the places of an output in tiles on the chip; None if it has a usual view there."""
    graph, chip, options = builder.graph, builder.chip, builder.options
    if tensor not in graph.outputs or builder.uses(tensor) or builder.is_packed(tensor):
        return None
    home = graph.tensor(tensor)
    asked = options.via or options.block or options.tile_columns
    if asked or home.home != "state_buffer" or home.partition or not home.shape.layout.tiles:
        return None
    if not any(axes[:-2]) or any(len(group) != 1 for group in axes[-2:]):
        return None
    lies = as_rows(home, chip)
    if lies is not None and lies.axes in (axes, swap(axes)):
        return None
    places, bank = next(iter(places_at_home(chip, home)), None), whole_banks(chip)
    if places is None or (bank and places.columns * home.shape.dtype.itemsize > bank):
        return None
    return places
