"""A tensor on the chip whose result lies where it is: nothing moves.

Where both have tiles, these may give each element one place: merged dimensions in front of tiles
leave it. A tensor without tiles may lie in the other one's tiles, if its rows stay unbroken, with
gaps behind them: the compiler chooses how far apart they lie, and prints it. Not here: views, which
other work may take too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from systolic.compiler.ir.on_chip.chip_places import places_of
from systolic.compiler.ir.on_chip.homes import as_rows
from systolic.compiler.ir.on_chip.place_digits import place_digits
from systolic.compiler.lower.builder import LayerBuilder
from systolic.hw.spec import Chip
from systolic.layout import Shape
from systolic.workload import Operation, Tensor
from systolic.workload.options import Options


def stays_in_place(builder: LayerBuilder, op: Operation, permutation: Sequence[int] | None) -> bool:
    """Let a result on the chip lie where its source is; return whether it can.

    Both lie there, and no other operation takes either. permutation: as of `lies_alike`.
    """
    names = (source, output) = op.inputs[0], op.output
    packed = any(builder.is_packed(name) for name in names)
    if packed or builder.uses(output) or not builder.is_unplaced(source):
        return False
    ends = builder.graph.tensor(source), builder.graph.tensor(output)
    lies = lies_alike(ends, permutation, builder.chip, builder.options)
    if lies is None:
        return False
    builder.homes.share_place(names, lies, output if ends[1].byte is not None else source)
    builder.choose(f"{output} lies where {source} is, and nothing moves")
    return True


def lies_alike(
    ends: tuple[Tensor, Tensor],
    permutation: Sequence[int] | None,
    chip: Chip,
    options: Options,
) -> tuple[Shape, Shape] | None:
    """Return the shapes in tiles by which each element has one place in both tensors on the chip.

    None if neither has tiles, some element has two places, or the options say how to move.
    permutation: axis i of the result is axis permutation[i] of the source (None: a reshape).
    """
    if options.via is not None or options.block is not None:
        return None
    given = {end.byte for end in ends if end.byte is not None}
    lies = _both_in_tiles(ends, chip)
    if lies is None or len(given) > 1 or ends[0].partition != ends[1].partition:
        return None
    partitions = chip.state_buffer.partitions - ends[0].partition
    if partitions <= 0 or any(shape.num_elements() == 0 for shape in lies):
        return None
    before, after = (places_of(shape, partitions) for shape in lies)
    if before is None or after is None or before.columns != after.columns:
        return None
    digits = place_digits(before, after, permutation)
    alike = digits is not None and all(digit.before == digit.after for digit in digits)
    return lies if alike else None


def _both_in_tiles(ends: tuple[Tensor, Tensor], chip: Chip) -> tuple[Shape, Shape] | None:
    """Return both shapes, one without tiles in the other's; None if neither has tiles."""
    one, other = (end.shape for end in ends)
    if one.layout.tiles and other.layout.tiles:
        return one, other
    if not one.layout.tiles and not other.layout.tiles:
        return None
    free, tiles = (ends[1], one.layout.tiles) if one.layout.tiles else (ends[0], other.layout.tiles)
    shape = free.shape.with_layout(replace(free.shape.layout, tiles=tiles))
    if free.byte is not None or as_rows(replace(free, shape=shape), chip) is None:
        return None
    return (one, shape) if one.layout.tiles else (shape, other)
