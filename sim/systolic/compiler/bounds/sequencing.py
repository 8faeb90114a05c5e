"""How many instructions the array needs for a product at least, and what their bytes take to come.

The forms are in `systolic.hw.formulas.sequencing`; here is what only the instruction set knows.
"""

from __future__ import annotations

from systolic.hw.formulas.products import Product, product_vectors
from systolic.hw.formulas.sequencing import Instructions, array_queue_bound, behind_fetch
from systolic.hw.formulas.timing import Bound
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, LoadWeights, MatMul, instruction_bytes

_OPERAND = Access(Buffer.STATE, "f32", 0, 1, 0, ((1, 1),))
_RESULT = Access(Buffer.RESULT, "f32", 0, 1, 0, ((1, 1),))
LOAD_BYTES = instruction_bytes(LoadWeights(weights=_OPERAND))
"""Of a load with one pair, without waits and posts: as few as any instruction with an access."""
MULTIPLY_BYTES = instruction_bytes(MatMul(moving=_OPERAND, result=_RESULT))


def fetched(chip: Chip, bound: Bound) -> Bound:
    """Return a bound, and in front of it the fetch of the least instruction there is."""
    return behind_fetch(chip, bound, LOAD_BYTES)


def queue_bound(chip: Chip, products: list[Product]) -> Bound:
    """Return the least time in which the array's queue can start what these products need."""
    counts = [_counts(chip, product) for product in products]
    loads, multiplies = (sum(column) for column in zip(*counts, strict=True))
    return array_queue_bound(
        chip, Instructions(loads, LOAD_BYTES), Instructions(multiplies, MULTIPLY_BYTES)
    )


def _counts(chip: Chip, product: Product) -> tuple[int, int]:
    """Return the loads and multiplies of a product: whichever operand is stationary, the least.

    A tile is loaded once at least, and a multiply has no more vectors than a bank has words.
    """
    words = chip.result_buffer.bank_words
    tiles = [(product_vectors(chip, product, p, q) // q, q) for p, q, _ in product.mappings()]
    return min(n for n, _ in tiles), min(n * -(-q // words) for n, q in tiles)
