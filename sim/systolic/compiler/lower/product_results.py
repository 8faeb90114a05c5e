"""Results of batched products that are made where they live on the chip: nothing is moved after.

The places of a result in tiles have digits (`ir.chip_places`). If its rows lie on partitions, in
order, and its columns at one distance along the address, as its matrices do, an engine that copies
sums out of the result buffer writes them there at once, whatever lies between them. Not here: tiles
whose rows are the rows of a product side by side (`batches`), and results that change their view.
"""

from __future__ import annotations

import math

import numpy as np

from systolic.compiler.ir.chip_places import LANE, ChipPlaces
from systolic.compiler.ir.chip_tiles import block_rows, whole_banks
from systolic.compiler.ir.homes import as_rows
from systolic.compiler.ir.nodes import Axes, Matrix
from systolic.compiler.ir.windows import DigitWindow
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.digit_moves import holder_of_places, places_at_home
from systolic.compiler.lower.views import swap


def made_at_home(builder: LayerBuilder, tensor: str, axes: Axes) -> Matrix | None:
    """Return the matrices of an output within its places on the chip; None if they have none there.

    axes: the view [batch..., rows, columns] that a product makes.
    """
    places = _home(builder, tensor, axes)
    found = None if places is None else _rows_at(places, axes, block_rows(builder.chip))
    if places is None or found is None:
        return None
    builder.choose(f"{tensor} is made where its tiles lie, matrix by matrix at a distance")
    held = holder_of_places(builder, tensor, places, "node")
    builder.keep_matrix(tensor, held, held.axes)
    rows, cols = (math.prod(places.dims[axis] for axis in group) for group in axes[-2:])
    tall, along = found
    steps = [tuple((places.dims[a], _step(places, a)) for a in group) for group in axes]
    batch = tuple(step for group in steps[:-2] for step in group)
    window = DigitWindow(held.name, 0, 0, batch, steps[-1], tall, along)
    return builder.at_digits(held, window, rows, cols)


def may_be_made_at_home(builder: LayerBuilder, tensor: str, axes: Axes) -> bool:
    """Return whether an output can be made where it lives if a product makes it as this view."""
    places = _home(builder, tensor, axes)
    return places is not None and _rows_at(places, axes, block_rows(builder.chip)) is not None


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


def _rows_at(places: ChipPlaces, axes: Axes, p: int) -> tuple[int, int] | None:
    """Return how the rows of a view lie: how many on partitions, and the columns to those after.

    None if the rows, the columns or the matrices lie otherwise.
    """
    *batch, rows, cols = axes
    for axis in (*(axis for group in batch for axis in group), *cols):
        steps = np.diff(places.offsets[axis])
        if np.any(steps != steps[:1]) or np.any(steps >= LANE):
            return None
    lanes, columns = np.divmod(places.offsets[rows[0]], LANE)
    size = len(lanes)
    tall = min(size, p)
    along = int(columns[tall]) if size > tall else 0
    number = np.arange(size)
    in_order = np.array_equal(lanes, number % tall)
    return (tall, along) if in_order and np.array_equal(columns, number // tall * along) else None


def _step(places: ChipPlaces, axis: int) -> int:
    offsets = places.offsets[axis]
    return int(offsets[1] - offsets[0]) if len(offsets) > 1 else 1
