"""Images once for each tap of a window, so that several taps share the partitions.

A tile of rows of the product has as many taps as there is room for. The images of each stand below
one another, shifted, so that what a tap multiplies lies in the column of its window's first pixel.
Where taps fill a tile exactly, two tiles often differ in one shift of all their taps: of 3 x 3 taps
of 64 channels, the second and third tap of the second and third row lie apart as the first and
second tap of the first row do. Such tiles are one in memory, and are read at a distance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from systolic.arrays import Integers
from systolic.compiler.ir.chip_tiles import block_rows
from systolic.compiler.ir.gathers import NOWHERE, Gather, GatherPart
from systolic.compiler.ir.nodes import Matrix
from systolic.compiler.ir.pixels import PixelWindow
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.images import Images, only


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
        every = _TapTiles((taps,), ((0, 0),))
        made = _gathered(builder, padded, images, groups, every)
        return made, PixelWindow(made.name, images.first_pixels)
    made = _gathered(builder, padded, images, groups, tiles)
    builder.choose(f"{tensor} is there {tiles.taps} times for {len(taps)} taps of its windows")
    pixels = replace(images.pixels, tile_columns=_columns(images, tiles))
    firsts = tuple(number * p for number, _ in tiles.read)
    return made, PixelWindow(made.name, pixels, tuple(d for _, d in tiles.read), p, firsts)


def _shared_tiles(taps: tuple[int, ...], many: int) -> _TapTiles:
    """Return the tiles of so many taps each, of which those that are alike lie in memory once."""
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


def _gathered(
    builder: LayerBuilder, padded: Matrix, images: Images, groups: int, tiles: _TapTiles
) -> Matrix:
    """Return the tiles in memory. What would lie behind the end of images is 0, and is not read."""
    channels, whole, short = (
        padded.rows // groups,
        images.pixels.tile_columns,
        _columns(images, tiles),
    )
    short_by = whole - short
    firsts = range(0, padded.cols, whole)
    places = [np.arange(n, min(n + whole, padded.cols) - short_by) for n in firsts]
    ends = [np.full(len(each), n + whole) for n, each in zip(firsts, places, strict=True)]
    columns, stops = np.concatenate(places), np.minimum(np.concatenate(ends), padded.cols)
    shifts = [tap for held in tiles.held for tap in held]
    sizes = groups, len(shifts) * channels, len(columns)
    made = builder.scratch(padded.tensor, padded.dtype, sizes, (block_rows(builder.chip), short))
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
    builder.node("gather", (padded,), made, gather=Gather(tuple(parts)))
    return made


def _rows(sizes: tuple[int, int, int], place: int, group: int, channels: int) -> Integers:
    """Return where the rows of a tap come from: the channels of a group."""
    rows = np.full(sizes[1], NOWHERE)
    first = place * channels
    rows[first : first + channels] = group * channels + np.arange(channels)
    return rows
