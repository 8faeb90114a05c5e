"""Unbroken rows that end within a dimension, where the other end of a move has a digit.

A tensor without tiles may lie in any unbroken rows. Those of whole dimensions give each index of a
dimension a partition of its own, or none does. If the other tensor has several indices in one
partition, as T(8,128)(4,1) has four rows, so may this one: then none of them need change its
partition. Not here: moves, and what they take.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from systolic.compiler.ir.on_chip.chip_places import ChipPlaces, places_of, row_groups
from systolic.compiler.ir.on_chip.chip_tiles import block_rows
from systolic.compiler.ir.on_chip.homes import in_unbroken_rows, lies_unbroken, tile_groups
from systolic.compiler.ir.on_chip.place_digits import place_digits
from systolic.compiler.ir.stretches import dimension_groups
from systolic.hw.spec import Chip
from systolic.layout import COMBINE, Shape


def places_beside(
    chip: Chip,
    starts: Sequence[ChipPlaces],
    stops: Sequence[ChipPlaces],
    permutation: Sequence[int] | None,
    free: tuple[bool, bool],
) -> tuple[list[ChipPlaces], list[ChipPlaces]]:
    """Return the places of source and result in rows that end where the other has a digit.

    starts, stops: in which both may lie anyway. free: which of them have no tiles. permutation: as
    of `place_digits`.
    """
    if not starts or not stops or free[0] == free[1]:
        return [], []
    digits = place_digits(starts[0], stops[0], permutation)
    if digits is None:
        return [], []
    groups = dimension_groups(starts[0].dims, stops[0].dims, permutation)
    groups = sorted(groups) if permutation is not None else groups
    side = free.index(True)
    shape = (starts, stops)[side][0].shape
    cuts = dict[int, set[int]]()
    for digit in digits:
        left = digit.worth
        for axis in reversed(groups[digit.group][side]):
            size = shape.dims[axis]
            if left < size:
                if left > 1 and size % left == 0:
                    cuts.setdefault(axis, set()).add(left)
                break
            if left % size:
                break
            left //= size
    found = [*_in_rows_together(chip, shape, cuts)]
    return (found, []) if free[0] else ([], found)


def _in_rows_together(chip: Chip, shape: Shape, cuts: dict[int, set[int]]) -> Iterator[ChipPlaces]:
    """Yield the places in unbroken rows that end in one of some dimensions.

    cuts: how many indices of a dimension a row may have.
    """
    partitions, p = chip.state_buffer.partitions, block_rows(chip)
    for view in row_groups(shape):
        rows = math.prod(shape.dims[axis] for axis in view[-2])
        for together in sorted(cuts.get(view[-2][-1], ())):
            if not lies_unbroken(rows // together, p, chip):
                continue
            lies = in_unbroken_rows(shape, view, p, together)
            found = places_of(lies, partitions, view[-2])
            if found is not None and found.rows <= p:
                yield found


def rows_of_tiles(shape: Shape) -> tuple[int, ...]:
    """Return the dimensions that make up the rows of such tiles; none if a shape has others."""
    tiles = [tile.dims for tile in shape.layout.tiles]
    if not 0 < len(tiles) <= 2 or COMBINE not in tiles[0]:
        return ()
    *_, rows, columns = tile_groups(shape)
    width = math.prod(shape.dims[axis] for axis in columns)
    whole = tiles[0][-1] == width and (len(tiles) == 1 or tiles[1][1:] == (width,))
    return rows if whole else ()
