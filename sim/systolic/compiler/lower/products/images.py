"""Images as matrices: channels on rows, pixels in columns, whole images in each tile.

Windows of pixels then lie at steps from one another within a tile, whichever engine reads them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from systolic.arrays import Integers
from systolic.compiler.ir.gathers import (
    GatheredBox,
    around,
    part_of,
)
from systolic.compiler.ir.nodes import Axes, GatherNode, Matrix, MultiplyNode
from systolic.compiler.ir.on_chip.chip_tiles import LARGEST_COLUMNS, block_rows
from systolic.compiler.ir.pixels import Pixels, PixelWindow
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.views import lies_as, swap
from systolic.hw.spec import Chip
from systolic.layout import Shape
from systolic.workload.operations.image_windows import ImageWindows

CHANNELS_ON_ROWS: Axes = ((3,), (0, 1, 2))
"""The view of images [images, height, width, channels]."""
MOST_COLUMNS = 8192
"""The most columns of a tile of several images."""
WORD = 4
"""So many elements of any type fill whole words."""
TILES_AT_ONCE = 12
"""How many such tiles have room on the chip: of a few layers, with operands of the next ones."""


@dataclass(frozen=True, slots=True)
class Images:
    """The images of a tensor: their windows, and how many images a tile has.

    phases: the order of rows of pixels in a padded image. 1: as they are. Otherwise first every
    `phases`-th row from the first on, then every `phases`-th from the second on, and so on. Windows
    that step over this many rows then lie side by side, and each tap takes rows side by side.
    """

    source: Shape
    windows: ImageWindows
    in_a_tile: int
    phases: int = 1

    @property
    def pixels(self) -> Pixels:
        """Return where the first pixels of windows lie in padded images."""
        down, across = self.windows.stride
        (height, width), made = self.windows.padded(self.source), self.windows.made(self.source)
        many, image = self.in_a_tile, (-(-height // self.phases) * self.phases, width)
        return Pixels(image, made, (down // self.phases, across), many, many * prod(image))

    @property
    def first_pixels(self) -> Pixels:
        """Return where the first pixels of windows lie if a tile ends behind the last of them.

        Where rows are in phases, the other phases are behind the last, and a tile has whole words.
        """
        pixels = self.pixels
        columns = pixels.tile_columns - max(self.taps)
        if self.phases > 1:
            last = pixels.column(self.in_a_tile * pixels.made_columns - 1)
            columns = min(columns, last // WORD * WORD + WORD)
        return replace(pixels, tile_columns=columns)

    def in_phases(self, columns: Integers) -> Integers:
        """Return what each column of padded images holds, given that for rows as they are."""
        height, width = self.pixels.image
        rows = columns.reshape(-1, height // self.phases, self.phases, width)
        found: Integers = rows.swapaxes(1, 2).ravel()
        return found

    def inner(self, padded: str) -> PixelWindow:
        """Return where the images lie within the matrix of that name, which has their padding."""
        (height, width), (_, down, across, channels) = self.pixels.image, self.source.dims
        top, _, left, _ = self.windows.padding
        columns = self.in_a_tile * height * width
        pixels = Pixels((height, width), (down, across), (1, 1), self.in_a_tile, columns)
        return PixelWindow(padded, pixels, (top * width + left,), channels)

    @property
    def taps(self) -> tuple[int, ...]:
        """Return the column of each pixel of a window, counted from its first."""
        height, width = self.pixels.image
        each = height // self.phases
        return tuple(
            (y % self.phases * each + y // self.phases) * width + x for y, x in self.windows.taps()
        )

    @property
    def dilation(self) -> tuple[int, int]:
        """Return the distance of a window's pixels."""
        down, across = self.windows.dilation
        return down, across

    @property
    def results(self) -> int:
        """Return the columns of all results."""
        return self.source.dims[0] * self.pixels.made_columns

    def block(self, chip: Chip) -> tuple[int, int]:
        """Return the tiles of padded images."""
        return block_rows(chip), self.in_a_tile * self.pixels.image_columns

    def made_block(self, chip: Chip) -> tuple[int, int]:
        """Return the tiles of the results."""
        return block_rows(chip), self.in_a_tile * self.pixels.made_columns


def images_of(
    builder: LayerBuilder, tensor: str, windows: ImageWindows, *, as_it_lies: bool = True
) -> Images:
    """Return the images of a tensor: in the tiles that it has, if these need no padding.

    Else a tile has as many images as fill a bank of sums, or several. One image is never cut: a
    tile has all of its pixels. as_it_lies: its tiles may be taken over.
    """
    source, words = builder.graph.shape(tensor), builder.chip.multiply_vectors
    one, results = prod(windows.padded(source)), prod(windows.made(source))
    there = builder.known(tensor, CHANNELS_ON_ROWS)
    if (
        as_it_lies
        and there
        and there.block
        and not any(windows.padding)
        and there.block[1] % one == 0
    ):
        return Images(source, windows, there.block[1] // one)
    room = builder.chip.state_buffer.bytes_per_partition // TILES_AT_ONCE
    most = min(MOST_COLUMNS, room // source.dtype.itemsize)
    fill = max(1, min(words // results, most // one))
    many = fill * max(1, most // (fill * one))
    return Images(source, windows, min(many, source.dims[0]))


def padded_images(builder: LayerBuilder, tensor: str, images: Images, value: float = 0.0) -> Matrix:
    """Return a tensor as padded images in their tiles; as it lies, if it lies like that."""
    matrix = channels_on_rows(builder, tensor)
    block = images.block(builder.chip)
    if not any(images.windows.padding) and matrix.block == block:
        return matrix
    count, channels = images.source.dims[0], images.source.dims[3]
    top, _, left, _ = images.windows.padding
    dims = (count, *images.pixels.image, channels)
    inner = GatheredBox((0, top, left, 0), images.source.dims, 0, (0,) * 4, (1,) * 4)
    boxes = (*around(inner, dims), inner)
    parts = tuple(part_of(box, CHANNELS_ON_ROWS, dims, images.source.dims) for box in boxes)
    parts = tuple(replace(part, cols=images.in_phases(part.cols)) for part in parts)
    sizes = 1, channels, count * images.pixels.image_columns
    padded = builder.scratch(tensor, images.source.element_type, sizes, block)
    if images.phases == 1 and can_be_made_within(builder, tensor, matrix, images):
        builder.make_within(matrix, images.inner(padded.name), parts[:-1], value)
        builder.choose(f"{tensor} is made where its padding lies already")
    else:
        builder.node(GatherNode, (matrix,), padded, parts, value)
    return padded


def can_be_made_within(builder: LayerBuilder, tensor: str, matrix: Matrix, images: Images) -> bool:
    """Return whether the sums of a convolution can be taken out to where their padding lies.

    Nothing else takes them, and they lie in tiles of as many whole images.
    """
    maker = builder.maker(tensor)
    if maker is None or not isinstance(maker, MultiplyNode) or tensor in builder.graph.outputs:
        return False
    if not any(images.windows.padding):
        return False
    moving, (_, height, width, _) = builder.matrix(maker.inputs[1]), images.source.dims
    alike = (block_rows(builder.chip), images.in_a_tile * height * width)
    return isinstance(moving.window, PixelWindow) and matrix.block == alike


def channels_on_rows(builder: LayerBuilder, tensor: str) -> Matrix:
    """Return a tensor with channels on rows, in whichever tiles."""
    shape = builder.graph.shape(tensor)
    if builder.unplaced(tensor):
        for axes in (CHANNELS_ON_ROWS, swap(CHANNELS_ON_ROWS)):
            if lies_as(shape, axes):
                builder.place(tensor, axes)
                break
    builder.settle(tensor)
    if there := builder.known(tensor, CHANNELS_ON_ROWS):
        return there
    columns = _columns_of_a_copy(builder, tensor)
    if columns > LARGEST_COLUMNS and not builder.turn_is_cheaper(tensor, CHANNELS_ON_ROWS):
        return builder.load(tensor, CHANNELS_ON_ROWS, (block_rows(builder.chip), columns))
    return builder.view(tensor, CHANNELS_ON_ROWS)


def _columns_of_a_copy(builder: LayerBuilder, tensor: str) -> int:
    """Return how many pixels of few channels a copy from DRAM takes; 0 if they lie otherwise.

    A copy has enough pixels that it moves for as long as it waits, but few enough that each queue
    has a part and that many copies have room.
    """
    if not builder.dram.holds(tensor):
        return 0
    chip, shape = builder.chip, builder.dram.shape(tensor)
    images, height, width, channels = shape.dims
    if shape.layout.tiles or shape.layout.major_to_minor[-2:] != (1, 2):
        return 0
    size = shape.dtype.itemsize
    waits = chip.dma.latency_cycles + chip.dram.latency_cycles
    moved = waits * chip.dma.lone_bytes_per_cycle // (channels * size)
    share = -(-images * height * width // chip.dma.useful_queues)
    room = chip.state_buffer.bytes_per_partition // TILES_AT_ONCE // size
    return min(moved, share, room) // block_rows(chip) * block_rows(chip)


def only(groups: int, group: int) -> Integers:
    """Return that one matrix of a result comes from the only matrix of a source."""
    return np.where(np.arange(groups) == group, 0, -1)
