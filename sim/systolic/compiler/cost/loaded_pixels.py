"""Whether the pixels of images should be loaded into the array, and the weights stream.

The weights of few filters leave columns of the array idle, each for as many vectors as there are
pixels. Where weights load fast, as many pixels as the array has columns are loaded instead, and the
few filters stream. The sums then have pixels on partitions: they are copied out as they are, and an
identity product turns them, as many blocks of pixels at once as fit side by side.

These are estimates. Not here: the tasks (`tile.loaded_pixels`) and the instructions
(`schedule.loaded_pixels`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from systolic.compiler.cost.products import array_cycles
from systolic.hw.datatypes import PSUM_WORD_BYTES, data_type
from systolic.hw.formulas.timing import load_reads, result_cycles
from systolic.hw.spec import Chip

MOST_LAG = 3
"""The most groups of blocks whose sums wait to be turned."""
MOST_OF_ROOM = 8
"""The sums that wait take at most this part of the state buffer: one of so many."""
GAIN = 0.9
"""How long the array may take with loaded pixels, as a part of the usual time."""
BUSY = 0.6
"""How much of this time one engine would be busy with the sums: they are copied out twice.

The engines have other work too: of ResNet-50 on an array of 128 x 128, products of five K-tiles
gain a third, while those of two K-tiles (90 % busy) wait for engines and lose.
"""


@dataclass(frozen=True, slots=True)
class LoadedPixels:
    """How a product is run whose pixels are loaded.

    abreast: blocks of pixels whose sums are turned together. lag: how many groups of so many blocks
    are multiplied before the sums of one are turned. cycles: about how long the array takes.
    """

    abreast: int
    lag: int
    cycles: int


@dataclass(frozen=True, slots=True)
class PixelsToLoad:
    """A product with images: filters, K rows of each sum, and the pixels of each block.

    dtype: of both operands. room_bytes: the bytes of each partition of the state buffer.
    """

    filters: int
    K: int
    blocks: Sequence[int]
    dtype: str
    room_bytes: int


def loaded_pixels(chip: Chip, work: PixelsToLoad, usual: int) -> LoadedPixels | None:
    """Return how to run a product with loaded pixels; None if that is not possible, or no faster.

    usual: about how many cycles the array takes with the weights loaded.

    Sums are turned in the accumulator's type, so that every bit stays; the array must take it. On
    the top path a load takes a row of one partition at a time, so pixels at steps would not load
    fast. Sums of several blocks lie on neighbouring columns, from where an engine takes them to the
    partitions of the filters: all blocks begin where the chip lets an access begin.
    """
    array, sums = chip.pe_array, data_type(work.dtype).accumulator
    if array.weight_path != "left" or array.weight_buffer != "double":
        return None
    if sums not in array.cycles_per_vector or work.filters > array.cols:
        return None
    abreast = _abreast(chip, work)
    each = _block_cycles(chip, work, max(work.blocks))
    group = abreast * each + _turn_cycles(chip, work, max(work.blocks), abreast)
    waits = result_cycles(chip, array.cols) + array.rows + work.filters
    lag = min(MOST_LAG, -(-waits // (abreast * each)))
    bytes_waiting = ((lag + 1) * abreast * work.filters + array.rows) * PSUM_WORD_BYTES
    if bytes_waiting * MOST_OF_ROOM > work.room_bytes or max(work.blocks) > chip.multiply_vectors:
        return None
    streamed = -(-len(work.blocks) // abreast) * group
    copied = len(work.blocks) * work.filters + sum(work.blocks)
    if copied > streamed * BUSY:
        return None
    cycles = streamed + waits
    return LoadedPixels(abreast, lag, cycles) if cycles < usual * GAIN else None


def usual_cycles(chip: Chip, work: PixelsToLoad) -> int:
    """Return about how many cycles the array takes with the weights loaded."""
    sizes = work.filters, sum(work.blocks), work.K
    return array_cycles(chip, sizes, work.dtype, chip.result_buffer.banks)


def _abreast(chip: Chip, work: PixelsToLoad) -> int:
    """Return how many blocks of sums are turned together: as many as the array's columns hold.

    Their sums take a bank each, and as many banks stay free for what is turned and copied out.
    """
    most = min(chip.pe_array.cols // work.filters, max(1, chip.result_buffer.banks // 2))
    most = min(most, len(work.blocks))
    while most > 1 and _fault(chip, work.filters, most):
        most -= 1
    return most


def _fault(chip: Chip, filters: int, abreast: int) -> bool:
    """Return whether an access to the sums of some block may not begin where they do."""
    pattern = ((1, 1),)
    return any(chip.access.fault(n * filters, filters, pattern) for n in range(abreast))


def _block_cycles(chip: Chip, work: PixelsToLoad, pixels: int) -> int:
    """Return the cycles of the loads and streams of a block of pixels, the longer of each two."""
    array, total = chip.pe_array, 0
    vectors = max(work.filters, min(array.min_vectors, pixels))
    whole, rest = divmod(work.K, array.rows)
    for rows, times in ((array.rows, whole), (rest, 1 if rest else 0)):
        if times:
            load = load_reads(chip, rows, pixels, work.dtype)
            total += times * max(load, vectors * array.vector_cycles(work.dtype))
    return total


def _turn_cycles(chip: Chip, work: PixelsToLoad, pixels: int, abreast: int) -> int:
    """Return the cycles in which the array turns the sums of some blocks."""
    array, sums = chip.pe_array, data_type(work.dtype).accumulator
    load = load_reads(chip, pixels, abreast * work.filters, sums)
    vectors = max(pixels, min(array.min_vectors, abreast * work.filters))
    return max(load, vectors * array.turn_cycles(sums))
