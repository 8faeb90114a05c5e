"""Images once for each tap of a window, so that several taps share the partitions.

A tile of rows of the product has as many taps as there is room for. The images of each stand below
one another, shifted, so that what a tap multiplies lies in the column of its window's first pixel.
Where taps fill a tile exactly, two tiles often differ in one shift of all their taps: of 3 x 3 taps
of 64 channels, the second and third tap of the second and third row lie apart as the first and
second tap of the first row do. Such tiles are one in memory, and are read at a distance.

Where taps do not fill a tile exactly, all of them are there. Images of few channels are copied for
the first row of a window first, and then the taps of a row by one copy: of 7 x 7 taps by 14 copies,
not by 49.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from systolic.arrays import Integers
from systolic.compiler.cost.moves import copy_ticks
from systolic.compiler.ir.gathers import NOWHERE, GatherPart
from systolic.compiler.ir.nodes import GatherNode, Matrix
from systolic.compiler.ir.on_chip.chip_tiles import block_rows
from systolic.compiler.ir.pixels import PixelWindow
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.products.images import (
    Images,
    can_be_made_within,
    channels_on_rows,
    only,
)
from systolic.hw.datatypes import data_type

MOST_FILLED = 0.85
"""How much of the state buffer the tiles of taps may take together."""


@dataclass(frozen=True, slots=True)
class _TapTiles:
    """Tiles of taps that lie in memory, and which of them each tile of the product reads.

    held: for each tile in memory its taps, as columns counted from the first of them. read: for
    each tile of the product the number of a tile in memory, and how many columns further on it is
    read.
    """

    held: tuple[tuple[int, ...], ...]
    read: tuple[tuple[int, int], ...]

    @property
    def taps(self) -> int:
        """Return how many taps lie in memory."""
        return sum(map(len, self.held))

    @property
    def farthest(self) -> int:
        """Return how many columns further on a tile in memory is read at most."""
        return max(distance for _, distance in self.read)


def rows_of_all_taps(
    builder: LayerBuilder, tensor: str, padded: Matrix, images: Images, groups: int
) -> tuple[Matrix, PixelWindow]:
    """Return padded images once for each tap, a matrix for each group, and where the rows lie.

    Taps that lie apart as others do are not there again.
    """
    p, channels, taps = block_rows(builder.chip), padded.rows // groups, images.taps
    tiles = _shared_tiles(taps, p // channels) if p % channels == 0 else None
    if tiles is None or tiles.taps == len(taps):
        made = _every_tap(builder, padded, images, groups)
        return made, PixelWindow(made.name, images.first_pixels)
    shifts = tuple(tap for held in tiles.held for tap in held)
    sides = images.pixels.tile_columns, _columns(images, tiles)
    made = _gathered(builder, padded, groups, sides, shifts)
    builder.choose(f"{tensor} is there {tiles.taps} times for {len(taps)} taps of its windows")
    pixels = replace(images.pixels, tile_columns=_columns(images, tiles))
    firsts = tuple(number * p for number, _ in tiles.read)
    return made, PixelWindow(made.name, pixels, tuple(d for _, d in tiles.read), p, firsts)


def steps_in_phases(builder: LayerBuilder, tensor: str, images: Images) -> bool:
    """Return whether rows of padded images should lie in phases: first all that one tap takes.

    If windows step over rows, copies of taps then take half of them, or fewer, side by side. Images
    are padded row by row, so that is no further work; results that are made within their padding,
    and taps that are there once for several, have rows as they are.
    """
    p, channels = block_rows(builder.chip), images.source.dims[3]
    if images.windows.stride[0] == 1 or not any(images.windows.padding):
        return False
    tiles = _shared_tiles(images.taps, p // channels) if p % channels == 0 else None
    if tiles is not None and tiles.taps < len(images.taps):
        return False
    matrix = channels_on_rows(builder, tensor)
    return not can_be_made_within(builder, tensor, matrix, images)


def _shared_tiles(taps: tuple[int, ...], many: int) -> _TapTiles:
    """Return the tiles of `many` taps each; tiles that are alike lie in memory once."""
    held: list[tuple[int, ...]] = []
    read: list[tuple[int, int]] = []
    for first in range(0, len(taps), many):
        some = tuple(tap - taps[first] for tap in taps[first : first + many])
        alike = (n for n, others in enumerate(held) if others[: len(some)] == some)
        number = next(alike, len(held))
        if number == len(held):
            held.append(some)
        read.append((number, taps[first]))
    return _TapTiles(tuple(held), tuple(read))


def _columns(images: Images, tiles: _TapTiles) -> int:
    """Return the columns of a tile in memory: up to the last that the farthest reader takes."""
    return images.first_pixels.tile_columns + tiles.farthest


def _every_tap(builder: LayerBuilder, padded: Matrix, images: Images, groups: int) -> Matrix:
    """Return images once for each tap: of a window's first row first, and from these of all rows.

    The taps of a row come by one copy then. Copies straight from the images are made instead if
    that is sooner, or if there is no room for all of it.
    """
    taps, across = images.taps, images.windows.size[1]
    whole, short = images.pixels.tile_columns, images.first_pixels.tile_columns
    beside = whole - taps[across - 1]
    if groups > 1 or not _row_by_row(builder, padded, images, (beside, short)):
        return _gathered(builder, padded, groups, (whole, short), taps)
    row = _gathered(builder, padded, 1, (whole, beside), taps[:across])
    return _gathered(builder, row, 1, (beside, short), taps[::across])


def _row_by_row(
    builder: LayerBuilder, padded: Matrix, images: Images, sides: tuple[int, int]
) -> bool:
    """Return whether taps should be copied for a row of a window first.

    sides: the columns of tiles with the taps of one row, and with all.
    """
    chip, (down, across), channels = builder.chip, images.windows.size, padded.rows
    size_bytes, p = data_type(padded.dtype).size_bytes, block_rows(chip)
    if down == 1 or across == 1 or across * channels > p:
        return False
    beside, short = sides
    tiles = -(-down * across * channels // p)
    if (beside + tiles * short) * size_bytes > chip.state_buffer.bytes_per_partition * MOST_FILLED:
        return False
    each, row, rows = (
        copy_ticks(chip, *copy, size_bytes)
        for copy in ((channels, short), (channels, beside), (across * channels, short))
    )
    return across * row + down * rows < down * across * each


def _gathered(
    builder: LayerBuilder,
    source: Matrix,
    groups: int,
    sides: tuple[int, int],
    shifts: tuple[int, ...],
) -> Matrix:
    """Return tiles that have a source's tiles once for each shift.

    sides: the columns of the source's tiles, and of these. What would lie behind the end of images
    is 0, and is not read.
    """
    channels, (whole, short) = source.rows // groups, sides
    short_by = whole - short
    firsts = range(0, source.cols, whole)
    places = [np.arange(n, min(n + whole, source.cols) - short_by) for n in firsts]
    ends = [np.full(len(each), n + whole) for n, each in zip(firsts, places, strict=True)]
    columns, stops = np.concatenate(places), np.minimum(np.concatenate(ends), source.cols)
    sizes = groups, len(shifts) * channels, len(columns)
    made = builder.scratch(source.tensor, source.dtype, sizes, (block_rows(builder.chip), short))
    parts = list[GatherPart]()
    for place, shift in enumerate(shifts):
        inside = columns + shift < stops
        for group in range(groups):
            rows = _rows(sizes, place, group, channels)
            there = np.where(inside, columns + shift, NOWHERE)
            parts.append(GatherPart(0, only(groups, group), rows, there))
            if not inside.all():
                rest = np.where(inside, NOWHERE, 0)
                parts.append(GatherPart(None, only(groups, group), rows, rest))
    # Fills come first: an engine that may not begin at a fill's first row begins above it.
    parts.sort(key=lambda part: part.source is not None)
    builder.node(GatherNode, (source,), made, tuple(parts))
    return made


def _rows(sizes: tuple[int, int, int], place: int, group: int, channels: int) -> Integers:
    """Return where the rows of a tap come from: the channels of a group."""
    rows = np.full(sizes[1], NOWHERE)
    first = place * channels
    rows[first : first + channels] = group * channels + np.arange(channels)
    return rows
