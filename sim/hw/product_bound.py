"""How few cycles a matrix product can take, from its sizes and layouts alone. Closed formulas.

The array contracts over partitions, so both operands must lie with K on partitions; one that does
not is turned, by identity products or by DMA. Source: docs/timing_model.md; docs/compiler.md
spells the formulas out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product as choices
from typing import Literal

from sim.hw.datatypes import data_type
from sim.hw.spec import Chip
from sim.hw.timing import Bound, dram_bound, load_reads, result_cycles, result_depth

Dimension = Literal["M", "N"]


@dataclass(frozen=True, slots=True)
class Turn:
    """Matrices to be transposed: each [rows, cols] with its rows on partitions, of a type."""

    matrices: int
    rows: int
    cols: int
    dtype: str


@dataclass(frozen=True, slots=True)
class Product:
    """The sizes of a batched product M x K x N; `dtype` of its operands.

    turns: operands that do not lie with K on partitions. minor: the result's dimension whose
    elements must lie one after another (None: either); out_dtype: the result's type.
    """

    matrices: int
    M: int
    K: int
    N: int
    dtype: str
    turns: tuple[Turn, ...] = ()
    minor: Dimension | None = None
    out_dtype: str = ""

    def mappings(self) -> Iterator[tuple[int, int, tuple[Turn, ...]]]:
        """Yield (P, Q, turns) with rhs and with lhs stationary: [P, Q] is what the array gives."""
        for P, Q, along in ((self.N, self.M, "M"), (self.M, self.N, "N")):
            wrong = self.minor is not None and self.minor != along
            result = (Turn(self.matrices, P, Q, self.out_dtype),) if wrong else ()
            yield P, Q, self.turns + result


def product_bound(
    chip: Chip, product: Product, *, dram_bytes: int = 0, to_dram: bool = False
) -> Bound:
    """Return the best possible cycle count of a product: with the better operand stationary.

    Stationary [K, P], moving [K, Q], (P, Q) = (N, M) or (M, N); the array runs ceil(K / R) x
    ceil(P / C) tiles, partial or not, and streams Q vectors through each. To turn [rows, cols] it
    runs ceil(cols / C) tiles of as many identity vectors as there are rows.

        multiply  head + first load + all vectors * v - v + tail
        weights   head + the reads of every tile, each loaded once + tail
        port      head + reads + vectors - 1 + tail, if the state buffer has a single bank
        drain     head + first load + D + semaphore + words of a lane / rate of both engines + tail
        turning   elements * (descriptor + ceil(size / rate)) / queues, of what DMA turns instead

    head: latency of DMA and DRAM if operands come from there (`dram_bytes` of them and of the
    result move); tail: from the last injection to the last write, and to DRAM (`to_dram`). The
    largest of these, for the best mapping and the best choice of who turns each matrix.
    """
    bounds = [
        _bound(chip, product, (P, Q), turns, ways, head=bool(dram_bytes), to_dram=to_dram)
        for P, Q, turns in product.mappings()
        for ways in choices(("array", "dma"), repeat=len(turns))
        if all(w == "dma" or t.dtype in chip.pe_array.cycles_per_vector
               for w, t in zip(ways, turns, strict=True))
    ]  # fmt: skip
    best = min(bounds, key=lambda bound: bound.cycles)
    if dram_bytes:
        best = max(best, dram_bound(chip, dram_bytes), key=lambda bound: bound.cycles)
    return best


def product_vectors(chip: Chip, product: Product, P: int, Q: int) -> int:
    """Return the moving vectors of a product with P stationary and Q moving columns."""
    array = chip.pe_array
    return product.matrices * -(-product.K // array.rows) * -(-P // array.cols) * Q


@dataclass(frozen=True, slots=True)
class _Tiles:
    """Stationary tiles of one size: rows, cols, how many, and the vectors streamed through each."""

    rows: int
    cols: int
    count: int
    vectors: int
    v: int


def _bound(
    chip: Chip, product: Product, sizes: tuple[int, int], turns: Sequence[Turn],
    ways: Sequence[str], *, head: bool, to_dram: bool,
) -> Bound:  # fmt: skip
    """Return the bound of one mapping, each turn made in the way said."""
    (P, Q), array = sizes, chip.pe_array
    engines = (chip.activation, chip.pooling)
    by_array = [turn for turn, way in zip(turns, ways, strict=True) if way == "array"]
    tiles = [*_product_tiles(chip, product, P, Q), *_turn_tiles(chip, by_array)]
    loads = [load_reads(array, tile.rows, tile.cols) for tile in tiles]
    reads = sum(load * tile.count for load, tile in zip(loads, tiles, strict=True))
    vectors = sum(tile.count * tile.vectors for tile in tiles)
    stream = sum(tile.count * tile.vectors * tile.v for tile in tiles)
    transfer = chip.dma.latency_cycles + chip.dram.latency_cycles + 1
    begin = transfer if head else 0
    latency = min(engine.latency_cycles for engine in engines)
    tail = result_cycles(chip, min(tile.cols for tile in tiles)) + chip.semaphore_cycles
    tail += latency + 1 + (transfer if to_dram else 0)
    first = min(loads)
    words = product.matrices * -(-P // array.cols) * Q
    words += sum(t.matrices * -(-t.cols // array.cols) * t.rows for t in by_array)
    rate = sum(engine.elements_per_cycle for engine in engines)
    drained = begin + first + result_depth(chip) + chip.semaphore_cycles - (-words // rate)
    drained += latency + (transfer if to_dram else 0)
    ports = begin + reads + vectors - 1 + tail if chip.state_buffer.banks == 1 else 0
    by_dma = [turn for turn, way in zip(turns, ways, strict=True) if way == "dma"]
    last = min(tile.v for tile in tiles)
    return max(
        Bound(begin + first + stream - last + tail, "moving vectors of pe_array"),
        Bound(begin + reads + tail, "weight loads of pe_array"),
        Bound(ports, "read port of the state buffer's only bank"),
        Bound(drained, "drain by both engines"),
        Bound(_dma_cycles(chip, by_dma), "elements turned by DMA"),
        key=lambda bound: bound.cycles,
    )


def _product_tiles(chip: Chip, product: Product, P: int, Q: int) -> Iterator[_Tiles]:
    array = chip.pe_array
    v = array.cycles_per_vector[product.dtype]
    for rows, n in _cut(product.K, array.rows):
        for cols, m in _cut(P, array.cols):
            yield _Tiles(rows, cols, n * m * product.matrices, Q, v)


def _turn_tiles(chip: Chip, turns: Sequence[Turn]) -> Iterator[_Tiles]:
    """Yield the tiles of identity products: a tile of `rows` rows takes so many vectors."""
    array = chip.pe_array
    for turn in turns:
        v = array.cycles_per_vector[turn.dtype]
        for rows, n in _cut(turn.rows, array.rows):
            for cols, m in _cut(turn.cols, array.cols):
                yield _Tiles(rows, cols, n * m * turn.matrices, rows, v)


def _dma_cycles(chip: Chip, turns: Sequence[Turn]) -> int:
    """Return the least array cycles in which all queues move these matrices by single elements."""
    dma = chip.dma
    each = [
        turn.matrices * turn.rows * turn.cols
        * (dma.descriptor_cycles - (-data_type(turn.dtype).size_bytes // dma.bytes_per_cycle))
        for turn in turns
    ]  # fmt: skip
    cycles = Fraction(sum(each), dma.queues) * Fraction(chip.period("dma"), chip.period("pe_array"))
    return int(cycles)


def _cut(size: int, tile: int) -> list[tuple[int, int]]:
    """Return (extent, how many) of the tiles of a dimension."""
    whole, rest = divmod(size, tile)
    return [(e, n) for e, n in ((tile, whole), (rest, 1 if rest else 0)) if n]
