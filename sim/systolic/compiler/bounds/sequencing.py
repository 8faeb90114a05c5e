"""How many instructions work of the array needs at least, and what their bytes take to come.

The forms are in `systolic.hw.formulas.sequencing`; here is what only the instruction set knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from systolic.hw.formulas.products import Product, product_vectors
from systolic.hw.formulas.sequencing import (
    Instructions,
    array_queue_bound,
    behind_fetch,
    fetch_bound,
)
from systolic.hw.formulas.timing import Bound, largest
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, Copy, DmaCopy, LoadWeights, MatMul, instruction_bytes

_OPERAND = Access(Buffer.STATE, "f32", 0, 1, 0, ((1, 1),))
_RESULT = Access(Buffer.RESULT, "f32", 0, 1, 0, ((1, 1),))
LOAD_BYTES = instruction_bytes(LoadWeights(weights=_OPERAND))
"""Of a load with one pair, without waits and posts: as few as any instruction with an access."""
MULTIPLY_BYTES = instruction_bytes(MatMul(moving=_OPERAND, result=_RESULT))
DRAIN_BYTES = instruction_bytes(Copy(engine="activation", source=_RESULT, target=_OPERAND))
"""Of the shortest instruction that an engine has for results: they are copied, and no more."""
TRANSFER_BYTES = instruction_bytes(DmaCopy(dma_queue=0, source=_OPERAND, target=_OPERAND))


class ArrayInstructions(NamedTuple):
    """The instructions that work of the array has at least; drains: of engines, for its results."""

    loads: int
    multiplies: int
    drains: int


def fetched(chip: Chip, bound: Bound) -> Bound:
    """Return a bound, and in front of it the fetch of the least instruction there is."""
    return behind_fetch(chip, bound, LOAD_BYTES)


def queue_bound(chip: Chip, work: Sequence[ArrayInstructions], transfers: int) -> Bound:
    """Return the least time in which queues can start what this work of the array needs.

    transfers: copies from and to DRAM, besides.
    """
    loads, multiplies, drains = (sum(column) for column in zip(*work, strict=True))
    array = Instructions(loads, LOAD_BYTES), Instructions(multiplies, MULTIPLY_BYTES)
    others = Instructions(drains, DRAIN_BYTES), Instructions(transfers, TRANSFER_BYTES)
    return largest([array_queue_bound(chip, *array), fetch_bound(chip, [*array, *others])])


def of_product(chip: Chip, product: Product) -> ArrayInstructions:
    """Return what a product needs at least: of each kind, whichever operand is stationary.

    A tile is loaded once at least, a multiply has no more vectors than the chip allows, and an
    engine's instruction takes no more words of a lane than the result buffer has.
    """
    words, array = chip.multiply_vectors, chip.pe_array
    vectors = [(product_vectors(chip, product, p, q), q) for p, q, _ in product.mappings()]
    tiles = [(all_ // q, q) for all_, q in vectors]
    results = [
        product.matrices * product.streamed(p, q, array.cols) for p, q, _ in product.mappings()
    ]
    if product.diagonal is not None:  # the vectors of a tile are cut as the mask wants it
        loads, multiplies = min(n for n, _ in tiles), min(n for n, _ in vectors)
        return ArrayInstructions(loads, -(-multiplies // words), _drains(chip, min(results)))
    return ArrayInstructions(
        min(n for n, _ in tiles),
        min(n * -(-q // words) for n, q in tiles),
        _drains(chip, min(results)),
    )


def of_transpose(chip: Chip, tiles: Sequence[tuple[int, int]], *, whole: bool) -> ArrayInstructions:
    """Return what identity products of these K x N tiles need at least.

    whole: the tiles are those of every schedule; else there may be others, but no fewer.
    """
    words, vectors = chip.multiply_vectors, sum(K for K, _ in tiles)
    multiplies = sum(-(-K // words) for K, _ in tiles)
    if not whole:
        multiplies = max(len(tiles), -(-vectors // words))
    return ArrayInstructions(len(tiles), multiplies, _drains(chip, vectors))


def _drains(chip: Chip, words: int) -> int:
    """Return the least instructions of engines that take so many words of a lane."""
    return -(-words // (chip.result_buffer.banks * chip.result_buffer.bank_words))
