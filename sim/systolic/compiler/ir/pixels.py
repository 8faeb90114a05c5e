"""The windows of images as a matrix: what a convolution multiplies lies within the images.

Images lie in the columns of a matrix, padded, one behind the other, with channels on the rows. The
results of a convolution are columns too. For one pixel of all windows (a tap) the columns that the
results need are at steps from one another, so one access reaches them: nothing is copied. Not here:
addresses.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TypeVar

import numpy as np

from systolic.arrays import Integers
from systolic.compiler.ir.dram_tensor import Segment, segments
from systolic.compiler.ir.ranges import spans
from systolic.isa.access import Pattern, coalesced
from systolic.spans import Span

_Numbers = TypeVar("_Numbers", int, Integers)


@dataclass(frozen=True, slots=True)
class Pixels:
    """Where the first pixels of windows lie.

    image: height and width of an image, padded. made: windows down and across. stride: pixels from
    window to window. in_a_tile: how many images a tile has, in tile_columns columns.
    """

    image: tuple[int, int]
    made: tuple[int, int]
    stride: tuple[int, int]
    in_a_tile: int
    tile_columns: int

    @property
    def image_columns(self) -> int:
        """Return the columns of an image."""
        return self.image[0] * self.image[1]

    @property
    def made_columns(self) -> int:
        """Return the columns of the results of an image."""
        return self.made[0] * self.made[1]

    def columns(self, cols: Span) -> Integers:
        """Return, for each of some results, the column of its window's first pixel."""
        return self._column(np.arange(cols.first, cols.stop))

    def column(self, result: int) -> int:
        """Return, for one result, the column of its window's first pixel."""
        return self._column(result)

    def _column(self, result: _Numbers) -> _Numbers:
        number, place = divmod(result, self.made_columns)
        down, across = divmod(place, self.made[1])
        tile, within = divmod(number, self.in_a_tile)
        image = tile * self.tile_columns + within * self.image_columns
        return image + down * self.stride[0] * self.image[1] + across * self.stride[1]

    def chunks(self, count: int, tile: int, most: int) -> list[Span]:
        """Cut `count` results into spans of at most `most` that one access each reaches.

        tile: columns of a tile of results, whole images. A span has whole images, whole rows of
        one image, or a part of one row.
        """
        images, width = most // self.made_columns, self.made[1]
        if images:
            return list(spans(0, count, tile, images * self.made_columns))
        if width <= most:
            return list(spans(0, count, self.made_columns, most // width * width))
        return list(spans(0, count, width, most))


@dataclass(frozen=True, slots=True)
class PooledPixels:
    """Windows of `size` pixels, at `dilation` from one another, that an engine reads whole."""

    pixels: Pixels
    size: tuple[int, int]
    dilation: tuple[int, int]

    @property
    def columns_down(self) -> int:
        """Return how many columns the windows of the next row of results are further on."""
        return self.pixels.stride[0] * self.pixels.image[1]

    def is_large(self, most: int) -> bool:
        """Return whether an image has more than `most` results: more than fill a bank of sums."""
        return self.pixels.made_columns > most

    def rows_at_once(self, most: int) -> int:
        """Return for how many rows of results of an image at most `most` pixels are read.

        At least one row, and all of them if the image is not large.
        """
        height, width = self.pixels.made
        if not self.is_large(most):
            return height
        return max(1, most // (prod(self.size) * width))

    def pairs(self, images: int, rows: int = 0) -> Pattern:
        """Return the steps through all windows of some images, and through each window.

        rows: of results of an image; 0: all.
        """
        width, (height, across) = self.pixels.image[1], self.pixels.made
        (_, right), (below, beside) = self.pixels.stride, self.dilation
        return coalesced(
            (
                (self.pixels.image_columns, images),
                (self.columns_down, rows or height),
                (right, across),
                (below * width, self.size[0]),
                (beside, self.size[1]),
            )
        )


@dataclass(frozen=True, slots=True)
class PixelWindow:
    """A matrix [taps and channels, results] within images, the holder.

    taps: for each tap its column, counted from the window's first. channels: of an image; the
    holder has these rows. No taps: the holder has rows for all taps, and each lies there so that
    it needs no distance. firsts: for each tap, which may stand for the several taps that fill a
    tile of rows, the holder's first row (none: 0).
    """

    holder: str
    pixels: Pixels
    taps: tuple[int, ...] = ()
    channels: int = 0
    firsts: tuple[int, ...] = ()

    def number(self, number: int) -> int:
        """Return which of the holder's matrices holds this matrix."""
        return number

    def row(self, row: int) -> int:
        """Return the holder's row of a row."""
        first = self.firsts[row // self.channels] if self.firsts else 0
        return first + row % self.channels if self.taps else row

    def column(self, row: int, col: int) -> int:
        """Return the holder's column of an element."""
        return self.pixels.column(col) + self._distance(row)

    def columns(self, number: int, row: int, cols: Span) -> Integers:
        """Return the holder's column of each of these columns, in a row."""
        return self.pixels.columns(cols) + self._distance(row)

    def segments(self, number: int, row: int, cols: Span) -> list[Segment]:
        """Return the holder's columns as regular segments; `first` counts from `cols.first`."""
        distance = self._distance(row)
        return [
            Segment(part.first, part.count, part.base + distance, part.pairs)
            for part in _segments(self.pixels, cols)
        ]

    def _distance(self, row: int) -> int:
        return self.taps[row // self.channels] if self.taps else 0


@lru_cache(maxsize=65536)
def _segments(pixels: Pixels, cols: Span) -> tuple[Segment, ...]:
    return tuple(segments(pixels.columns(cols)))
