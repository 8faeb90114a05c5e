"""A convolution or a product as lines of results, a partition each: where its elements lie.

A line is some results side by side in a row of an image. Its partition gets the rows of pixels that
its windows see, padding included, one after another. A stretch of neighbouring windows sees pixels
that overlap the pixels of the next one; turned, they are the stationary operand, and the weights of
the stretch, one window beside the next and zeros elsewhere, move. A product is a convolution with
windows of one pixel: its rows are pixels. Not here: instructions (`convolved`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from systolic.arrays import Integers
from systolic.hw.formulas.timing import load_reads
from systolic.hw.spec import Chip
from systolic.layout import Layout, Shape
from systolic.workload.operations.image_windows import ImageWindows

TILES = (0, 1, 4, 12)
"""The least number of tiles that lines are put into, for each way that is tried; 0: whole rows."""
SHORT = 8
"""A tile of lines takes about as long as if each line had this many results more."""


def lies_in_order(shape: Shape, *axes: int) -> bool:
    """Return whether `axes` lie from major to minor; an axis of size 1 may lie anywhere."""
    padded = shape.layout.padded_dimensions or shape.dims
    order = [axis for axis in reversed(shape.layout.minor_to_major) if padded[axis] > 1]
    return not shape.layout.tiles and order == [axis for axis in axes if padded[axis] > 1]


def as_images(shape: Shape) -> Shape | None:
    """Return matrices [..., pixels, channels] as images of one row; of four dimensions as they are.

    None if there are fewer than two dimensions or more than four, or tiles.
    """
    more, layout = 4 - shape.rank, shape.layout
    if not 0 <= more <= 2 or layout.tiles:
        return None
    at, padded = shape.rank - 2, layout.padded_dimensions or shape.dims
    order = tuple(axis + more if axis >= at else axis for axis in layout.minor_to_major)
    dims, padded = ((*each[:at], *(1,) * more, *each[at:]) for each in (shape.dims, padded))
    made = Shape(shape.element_type, dims, Layout((*order, *range(at, at + more))))
    return made if padded == dims else made.with_padding(padded)


class RowCopy(NamedTuple):
    """Elements between DRAM and lines: partitions, runs of each, and steps and places.

    lane, lanes: the partitions. at, step: in DRAM the first element, and from line to line. to: the
    first element in each partition. elements: of each run, side by side. runs: of each line, one of
    every channel where channels are planes.
    """

    lane: int
    lanes: int
    at: int
    step: int
    to: int
    elements: int
    runs: int


@dataclass(frozen=True, slots=True)
class ImagesInDram:
    """How images lie in DRAM: their sizes, and the elements from image to image, row to row.

    plane: the elements from channel to channel; 0 where the channels of a pixel are side by side.
    """

    count: int
    height: int
    width: int
    channels: int
    image_step: int
    row_step: int
    plane: int

    @classmethod
    def of(cls, shape: Shape) -> ImagesInDram | None:
        """Return how images lie whose channels, or pixels of a row, are side by side."""
        padded = shape.layout.padded_dimensions or shape.dims
        count, high, wide, channels = shape.dims
        _, height, width, deep = padded
        if lies_in_order(shape, 0, 1, 2, 3) and deep == channels:
            row = width * channels
            return cls(count, high, wide, channels, height * row, row, 0)
        if lies_in_order(shape, 0, 3, 1, 2):
            plane = height * width
            return cls(count, high, wide, channels, deep * plane, width, plane)
        return None

    @property
    def pixel(self) -> int:
        """Return the elements from pixel to pixel of a row."""
        return 1 if self.plane else self.channels

    @property
    def has_dense_rows(self) -> bool:
        """Return whether the pixels of an image, or of a plane, follow one another."""
        row = self.width * self.pixel
        return self.row_step == row and self.plane in (0, self.height * row)

    @property
    def is_dense(self) -> bool:
        """Return whether all pixels follow one another."""
        return self.has_dense_rows and self.image_step == self.height * self.row_step

    def in_rows(self, width: int, *, as_one: bool) -> ImagesInDram:
        """Return the same pixels in rows of `width`; all images as one if they are dense."""
        row, count = width * self.pixel, 1 if as_one else self.count
        height = self.count // count * self.height * self.width // width
        image = height * row if as_one else self.image_step
        return ImagesInDram(count, height, width, self.channels, image, row, self.plane)


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of `width` results; `stretch` windows are multiplied at a time.

    rows: of windows that are one K-tile, all of their pixels. most: lines in a tile. groups: of
    channels; between a group's channels and the filters of another the weights are zeros.
    """

    source: ImagesInDram
    result: ImagesInDram
    windows: ImageWindows
    width: int
    stretch: int
    rows: int
    channels: int
    most: int
    groups: int = 1

    @property
    def strips(self) -> int:
        """Return the lines of a row of results."""
        return self.result.width // self.width

    @property
    def reach(self) -> int:
        """Return the pixels of a row that the windows of a stretch see."""
        return (self.stretch - 1) * self.windows.stride[1] + self.windows.extents[1]

    @property
    def seen(self) -> int:
        """Return the pixels of a row that the windows of a line see."""
        return (self.width - 1) * self.windows.stride[1] + self.windows.extents[1]

    @property
    def beyond(self) -> int:
        """Return the pixels behind a row that the windows of its last stretch would see."""
        more = -(-self.width // self.stretch) * self.stretch - self.width
        return more * self.windows.stride[1]

    @property
    def plane(self) -> int:
        """Return the elements from channel to channel in a partition; 0 if side by side."""
        return self.seen + self.beyond if self.source.plane else 0

    @property
    def row_elements(self) -> int:
        """Return the elements of a row of pixels in a partition."""
        return (self.plane or self.seen) * self.source.channels

    @property
    def held(self) -> int:
        """Return the elements of a line's pixels."""
        more = 0 if self.plane else self.beyond * self.source.channels
        return self.windows.size[0] * self.row_elements + more

    @property
    def count(self) -> int:
        """Return how many lines there are."""
        return self.result.count * self.result.height * self.strips

    def array_cycles(self, chip: Chip, dtype: str) -> int:
        """Return for how many cycles the array loads and multiplies, at least."""
        stretches, v = -(-self.width // self.stretch), chip.pe_array.vector_cycles(dtype)
        total = 0
        for lanes in map(len, self.tiles()):
            for k_tile in k_tiles_of(self):
                rows = k_tile.taps * self.reach * k_tile.channels
                loads = load_reads(chip, lanes, rows, dtype) + load_reads(chip, rows, lanes, dtype)
                moving = (lanes * stretches + self.width * self.result.channels) * v
                both = loads * stretches, moving
                total += max(both) if chip.pe_array.weight_buffer == "double" else sum(both)
        return total

    def tiles(self) -> Iterator[range]:
        """Yield the numbers of the lines of each tile."""
        number = -(-self.count // self.most)
        size = -(-self.count // number)
        for first in range(0, self.count, size):
            yield range(first, min(first + size, self.count))

    def _blocks(self, tile: range) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield (first partition, lines, image, strip, first row) of lines one below another."""
        first, height = tile.start, self.result.height
        while first < tile.stop:
            block, row = divmod(first, height)
            count = min(tile.stop - first, height - row)
            image, strip = divmod(block, self.strips)
            yield first - tile.start, count, image, strip, row
            first += count

    def loads(self, tile: range, tap: int) -> Iterator[RowCopy]:
        """Yield what brings the pixels of one row of the windows; padding is left out."""
        windows, source = self.windows, self.source
        (down, across), (top, _, left, _) = windows.stride, windows.padding
        for lane, count, image, strip, row in self._blocks(tile):
            above = row * down + tap * windows.dilation[0] - top
            skip = max(0, -(above // down)) if above < 0 else 0
            fit = (source.height - 1 - above) // down + 1
            lines = min(count, fit) - skip
            begin = strip * self.width * across - left
            first, stop = max(0, begin), min(source.width, begin + self.seen)
            if lines <= 0 or stop <= first:
                continue
            at = image * source.image_step + (above + skip * down) * source.row_step
            to = tap * self.row_elements + (first - begin) * source.pixel
            yield RowCopy(
                lane + skip, lines, at + first * source.pixel, down * source.row_step, to,
                (stop - first) * source.pixel, source.channels if source.plane else 1,
            )  # fmt: skip

    def stores(self, tile: range) -> Iterator[RowCopy]:
        """Yield what takes the results of a tile to DRAM."""
        out = self.result
        for lane, count, image, strip, row in self._blocks(tile):
            elements, runs = self.width * out.pixel, out.channels if out.plane else 1
            at = image * out.image_step + row * out.row_step + strip * elements
            yield RowCopy(lane, count, at, out.row_step, 0, elements, runs)


class KTile(NamedTuple):
    """A K-tile: rows of the windows, or channels of a window of one pixel."""

    tap: int
    taps: int
    channel: int
    channels: int


def k_tiles_of(lines: Lines) -> list[KTile]:
    """Return the K-tiles of a stretch."""
    height, channels = lines.windows.size[0], lines.source.channels
    if lines.channels < channels:
        size = lines.channels
        return [KTile(0, 1, n, min(size, channels - n)) for n in range(0, channels, size)]
    return [
        KTile(n, min(lines.rows, height - n), 0, channels) for n in range(0, height, lines.rows)
    ]


def k_bounds(lines: Lines) -> tuple[int, ...]:
    """Return the boundaries of the K-tiles in the rows of a group's contraction."""
    across = lines.windows.size[1]
    sizes = (each.taps * across * each.channels // lines.groups for each in k_tiles_of(lines))
    return (0, *accumulate(sizes))


def k_order(lines: Lines, rows: int) -> Integers:
    """Return the rows of a group's contraction in the order in which the array adds them."""
    numbers: Integers = np.arange(rows)
    if not lines.plane:
        return numbers
    height, across = lines.windows.size
    return numbers.reshape(height, across, -1).swapaxes(1, 2).reshape(-1)


def lines_of(
    chip: Chip, source: Shape, result: Shape, windows: ImageWindows, groups: int
) -> Iterator[Lines]:
    """Yield ways to make lines of a convolution; none if its channels are too many.

    A line's pixels, and its results, fill a bank at most. Shorter lines are more tiles: less is
    left to store behind the last, but runs in DRAM are shorter.
    """
    images, made = ImagesInDram.of(source), ImagesInDram.of(result)
    side = min(chip.pe_array.rows, chip.pe_array.cols, chip.state_buffer.partitions)
    if images is None or made is None or made.channels > chip.result_buffer.bank_words:
        return
    pixel = max(
        images.channels * source.dtype.itemsize * windows.size[0] * windows.stride[1],
        made.channels * result.dtype.itemsize,
    )
    most = max(1, chip.state_buffer.bank_bytes // pixel)
    single = windows.size == (1, 1) and windows.stride == (1, 1) and not any(windows.padding)
    if single and images.has_dense_rows and made.has_dense_rows:
        as_one = images.is_dense and made.is_dense
        every = images.height * images.width * (images.count if as_one else 1)
        fitting = [n for n in range(1, min(every, most) + 1) if every % n == 0]
        width = min(fitting, key=lambda n: -(-every // n // side) * (n + SHORT))
        images, made = (each.in_rows(width, as_one=as_one) for each in (images, made))
    fitting = [n for n in range(min(most, made.width), 0, -1) if made.width % n == 0]
    rows = made.count * made.height
    for tiles in TILES:
        wanted = max(fitting[-1], rows * made.width // (tiles * side) if tiles else most)
        width = next(n for n in fitting if n <= wanted)
        yield from _of_width(chip, Lines(images, made, windows, width, 1, 1, 0, side, groups))


def _of_width(chip: Chip, lines: Lines) -> Iterator[Lines]:
    """Yield the lines with the stretch and the K-tiles that take the array the fewest cycles."""
    height, channels = lines.windows.size[0], lines.source.channels
    stride, extent = lines.windows.stride[1], lines.windows.extents[1]
    best: tuple[float, Lines] | None = None
    for rows in range(1, height + 1):
        most = (lines.most // (rows * channels) - extent) // stride + 1
        stretch = min(most, chip.result_buffer.bank_words // lines.result.channels, lines.width)
        if stretch >= 1:
            found = replace(lines, stretch=stretch, rows=rows, channels=channels)
            turned = -(-height // rows) * (lines.most / stretch + lines.result.channels)
            best = min(best or (turned, found), (turned, found), key=lambda each: each[0])
    if best is not None:
        yield best[1]
    elif lines.windows.size == (1, 1) and lines.groups == 1:
        yield replace(lines, channels=lines.most)
