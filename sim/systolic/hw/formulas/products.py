"""How few cycles a matrix product can take, from its sizes and layouts alone. Closed formulas.

The array contracts over partitions, so both operands must lie with K on partitions; one that does
not is turned, by identity products or by DMA. Source: docs/timing_model.md; docs/bounds.md
spells the formulas out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product as choices
from typing import Literal

from systolic.hw.datatypes import data_type
from systolic.hw.formulas.dram import buses_at_once, queue_rate
from systolic.hw.formulas.engines import (
    copiers,
    drainers,
    fastest,
    lead_cycles,
    serial_cycles,
    start_distance,
)
from systolic.hw.formulas.ticks import UnitRate, least_end
from systolic.hw.formulas.timing import (
    ArrayWork,
    Bound,
    array_bound,
    columns_per_read,
    cut_finer,
    descriptor_cycles,
    dram_bound,
    largest,
    load_reads,
    right_cycles,
)
from systolic.hw.spec import Chip

Dimension = Literal["M", "N"]
TYPES_OF_BYTES = ("u8", "bf16", "f16", "f32")
"""The types that have every number of a byte, so that the array can turn bytes in one of them."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Matrices to be transposed: each [rows, cols] with its rows on partitions, of a type.

    beside: so many rows lie side by side, element by element.
    """

    matrices: int
    rows: int
    cols: int
    dtype: str
    beside: int = 1


@dataclass(frozen=True, slots=True)
class Product:
    """The sizes of a batched product M x K x N; `dtype` of its operands.

    turns: operands that do not lie with K on partitions. minor: the result's dimension whose
    elements must lie one after another (None: either); out_dtype: the result's type. diagonal: of
    result (m, n) only those with n <= m + diagonal are wanted (None: all). out_beside: rows of the
    result that lie side by side.
    """

    matrices: int
    M: int
    K: int
    N: int
    dtype: str
    turns: tuple[Turn, ...] = ()
    minor: Dimension | None = None
    out_dtype: str = ""
    diagonal: int | None = None
    out_beside: int = 1

    @property
    def multiply_adds(self) -> int:
        """Return the multiply-adds of all results that are wanted."""
        return self.matrices * self.K * sum(self.wanted(self.N, self.M))

    def wanted(self, P: int, Q: int) -> Sequence[int]:
        """Return how many results of each of Q moving vectors are wanted, of P stationary columns.

        If M is N, both mappings have the same numbers, in another order.
        """
        if self.diagonal is None:
            return [P] * Q
        if P == self.N:
            return [min(max(m + self.diagonal + 1, 0), P) for m in range(Q)]
        return [min(max(P - n + self.diagonal, 0), P) for n in range(Q)]

    def streamed(self, P: int, Q: int, width: int) -> int:
        """Return the vectors that one K-tile of a matrix streams through tiles of `width` columns.

        However the columns are cut, a vector passes as many tiles as its results take.
        """
        if self.diagonal is None:
            return -(-P // width) * Q
        return sum(-(-count // width) for count in self.wanted(P, Q))

    def mappings(self) -> Iterator[tuple[int, int, tuple[Turn, ...]]]:
        """Yield (P, Q, turns) with rhs and with lhs stationary: [P, Q] is what the array gives."""
        for P, Q, along in ((self.N, self.M, "M"), (self.M, self.N, "N")):
            wrong = self.minor is not None and self.minor != along
            result = Turn(self.matrices, P, Q, self.out_dtype, self.out_beside)
            yield P, Q, (*self.turns, result) if wrong else self.turns


def product_bound(
    chip: Chip, product: Product, *, dram_bytes: int = 0, to_dram: bool = False
) -> Bound:
    """Return the best possible time of a product: with the better operand stationary.

    Stationary [K, P], moving [K, Q], (P, Q) = (N, M) or (M, N); the array runs ceil(K / R) x
    ceil(P / C) tiles, partial or not, and streams Q vectors through each. To turn [rows, cols] it
    runs ceil(cols / C) tiles of as many identity vectors as there are rows.

        multiply  head + first load + all vectors * v - v + tail
        weights   head + the reads of every tile, each loaded once + tail
        port      head + reads + vectors - 1 + tail, if the state buffer has a single bank
        drain     head + first load + D + semaphore + words of a lane, by all engines + last write
        turning   what is not turned by the array: elements one by one, by DMA and engines

    Matrices of a type that the array does not take are turned as so many of their bytes.

    head: latency of DMA and DRAM if operands come from there (`dram_bytes` of them and of the
    result move); tail: from the last injection to the last write, and to DRAM (`to_dram`). The
    largest of these, for the best mapping and the best choice of how each matrix is turned. Each
    step is in the clock of its unit and begins at one of its edges. A schedule that cuts a tile
    more than need be may load fewer columns first, or end with fewer, and has the vectors of that
    tile more to stream (`cut_finer`): if that is less, it counts.
    """
    bounds = [
        largest([_at_best(chip, way, from_dram=bool(dram_bytes), to_dram=to_dram), way.moved])
        for way in _product_ways(chip, product)
    ]
    best = min(bounds, key=lambda bound: bound.ticks)
    return largest([best, dram_bound(chip, dram_bytes)]) if dram_bytes else best


def products_bound(
    chip: Chip, products: Sequence[Product], *, from_dram: bool, to_dram: bool
) -> Bound:
    """Return the best possible time of several products, in any order and beside one another.

    The array streams the vectors of all of them, and engines copy all their words out. Each may
    have its own mapping, and its own ways to turn. from_dram: all operands come from there, so the
    latencies stand in front of the first product that begins; to_dram: all results go there, behind
    the last one. What is turned for several products is to be among the turns of one of them.
    Weights count only for the product that has most, as two products may share them.

    Some matrices may be turned without the array, which takes a time of its own. For each such time
    there is a bound: that time, or what the array takes if each product goes a way that needs no
    more of it. The least of these bounds counts.
    """
    every = [_product_ways(chip, product) for product in products]
    found = []
    for moved in sorted({way.moved for ways in every for way in ways}, key=lambda each: each.ticks):
        some = [[way for way in ways if way.moved.ticks <= moved.ticks] for ways in every]
        if all(some):
            least = _least_of_all(chip, some)
            both = _at_best(chip, least, from_dram=from_dram, to_dram=to_dram)
            found.append(largest([both, moved]))
    return min(found, key=lambda bound: bound.ticks)


def product_vectors(chip: Chip, product: Product, P: int, Q: int) -> int:
    """Return the moving vectors of a product with P stationary and Q moving columns."""
    array = chip.pe_array
    tiles = -(-product.K // array.rows)
    return product.matrices * tiles * product.streamed(P, Q, array.cols)


def _turn_ways(chip: Chip, turn: Turn) -> list[Turn | None]:
    """Return what the array may turn in place of matrices; None: they are moved without it.

    It turns them, or every byte of their elements in a type that has all numbers of a byte. Rows
    that lie side by side in a word pass through it as one row of words, if words can.
    """
    known = chip.pe_array.cycles_per_vector
    if turn.dtype in known:
        word_bytes = turn.beside * data_type(turn.dtype).size_bytes
        words = [
            replace(turn, rows=-(-turn.rows // turn.beside), dtype=dtype)
            for dtype in chip.pe_array.pass_through
            if turn.beside > 1 and data_type(dtype).size_bytes == word_bytes
        ]
        return [turn, *words, None]
    every = turn.matrices * data_type(turn.dtype).size_bytes
    kinds = [dtype for dtype in TYPES_OF_BYTES if dtype in known]
    return [*(replace(turn, matrices=every, dtype=dtype) for dtype in kinds), None]


@dataclass(frozen=True, slots=True)
class _Tiles:
    """Stationary tiles of one size: rows, cols, how many, and the vectors streamed through each.

    v: cycles of a vector of the type.
    """

    rows: int
    cols: int
    count: int
    vectors: int
    v: int
    dtype: str


@dataclass(frozen=True, slots=True)
class _ProductWay:
    """What one way to make a product takes: of the array, and of what turns without it.

    any_tile, last_tile: the vectors and cycles of the tile that takes least, of all tiles and of
    those that may come last. busy: cycles of all vectors. slowest: those of one, at most. moved:
    the bound of what is turned by DMA and engines. whole: no diagonal cuts the tiles.
    """

    work: ArrayWork
    any_tile: tuple[int, int]
    last_tile: tuple[int, int]
    busy: int
    slowest: int
    moved: Bound
    whole: bool


def _product_ways(chip: Chip, product: Product) -> list[_ProductWay]:
    """Return the work of each mapping, for each choice of how each matrix is turned."""
    return [
        _product_way(chip, product, sizes, turns, ways)
        for *sizes, turns in product.mappings()
        for ways in choices(*(_turn_ways(chip, turn) for turn in turns))
    ]


def _product_way(
    chip: Chip,
    product: Product,
    sizes: Sequence[int],
    turns: Sequence[Turn],
    ways: Sequence[Turn | None],
) -> _ProductWay:
    """Return the work of one mapping; ways: what the array turns for each turn, if it does."""
    by_array = [way for way in ways if way is not None]
    moved = [turn for turn, way in zip(turns, ways, strict=True) if way is None]
    operands = len(product.turns) - ways[: len(product.turns)].count(None)
    own = [*_product_tiles(chip, product, *sizes)]
    tiles = [*own, *_turn_tiles(chip, by_array)]
    work = _work(chip, tiles, product, sizes, by_array)
    # The last injection is of the product or of its result being turned, never of an operand.
    last = [*own, *_turn_tiles(chip, by_array[operands:])]
    whole = product.diagonal is None
    if not whole:  # tiles at the diagonal are cut as small as may be
        work = replace(work, first=1, ends=1, width=1)
    return _ProductWay(
        work,
        _least(tiles),
        _least(last),
        sum(tile.count * tile.vectors * tile.v for tile in tiles),
        max(tile.v for tile in tiles),
        _moved_bound(chip, moved),
        whole=whole,
    )


def _at_best(chip: Chip, way: _ProductWay, *, from_dram: bool, to_dram: bool) -> Bound:
    """Return the bound of the array's work, which may be cut more finely than need be."""
    finer = cut_finer(chip, way.work, way.any_tile, way.last_tile) if way.whole else []
    found = [
        array_bound(chip, each, drainers(chip), from_dram=from_dram, to_dram=to_dram)
        for each in (way.work, *finer)
    ]
    return min(found, key=lambda bound: bound.ticks)


def _least_of_all(chip: Chip, every: Sequence[Sequence[_ProductWay]]) -> _ProductWay:
    """Return the least work of the array for all products. every: the ways open to each of them.

    It need not be the work of any choice of ways: each number is the least that any way has, and
    so are the first load and the last tile, of whichever product. The last vector counts as one of
    the type that takes longest.
    """
    ways = [way for some in every for way in some]
    first, width = (min(getattr(w.work, name) for w in ways) for name in ("first", "width"))
    slowest = max(way.slowest for way in ways)
    busy = sum(min(way.busy for way in some) for some in every)
    work = ArrayWork(
        first=first,
        ends=first + right_cycles(chip.pe_array, width - 1),
        reads=max(min(way.work.reads for way in some) for some in every),
        vectors=sum(min(way.work.vectors for way in some) for some in every),
        stream=busy - slowest,
        width=width,
        words=sum(min(way.work.words for way in some) for some in every),
    )
    any_tile, last_tile = (
        (min(cut[0] for cut in cuts), min(cut[1] for cut in cuts))
        for cuts in ([way.any_tile for way in ways], [way.last_tile for way in ways])
    )
    moved = Bound(0, "nothing is moved", chip.period("pe_array"))
    whole = all(way.whole for way in ways)
    return _ProductWay(work, any_tile, last_tile, busy, slowest, moved, whole=whole)


def _least(tiles: Sequence[_Tiles]) -> tuple[int, int]:
    """Return the vectors and the cycles of the tile that takes least."""
    return min(tile.vectors for tile in tiles), min(tile.vectors * tile.v for tile in tiles)


def _work(
    chip: Chip,
    tiles: Sequence[_Tiles],
    product: Product,
    sizes: Sequence[int],
    turns: Sequence[Turn],
) -> ArrayWork:
    """Return what the array does if it runs these tiles: of one mapping, as wide as can be."""
    (P, Q), array = sizes, chip.pe_array
    words = product.matrices * product.streamed(P, Q, array.cols)
    words += sum(t.matrices * -(-t.cols // array.cols) * t.rows for t in turns)
    first = min(load_reads(chip, tile.rows, tile.cols, tile.dtype) for tile in tiles)
    if turns and array.weight_path == "top":
        first = 1  # rows of what is turned can be cut, which costs no vectors
    width = min(tile.cols for tile in tiles)
    return ArrayWork(
        first=first,
        ends=first + right_cycles(array, width - 1),
        reads=_reads(chip, product, P, turns),
        vectors=sum(tile.count * tile.vectors for tile in tiles),
        stream=sum(tile.count * tile.vectors * tile.v for tile in tiles) - min(t.v for t in tiles),
        width=width,
        words=words,
    )


def _reads(chip: Chip, product: Product, P: int, turns: Sequence[Turn]) -> int:
    """Return the reads of all weights, however they are cut into tiles."""
    taken = max(product.wanted(P, product.M if P == product.N else product.N), default=0)
    held = [(product.matrices, product.K, taken, product.dtype)]
    held += [(t.matrices, t.rows, t.cols, t.dtype) for t in turns]
    return sum(n * _least_reads(chip, rows, cols, dtype) for n, rows, cols, dtype in held)


def _least_reads(chip: Chip, rows: int, cols: int, dtype: str) -> int:
    """Return the reads of one matrix, each of as many columns as pass, from the top of f rows."""
    array, parts = chip.pe_array, -(-cols // columns_per_read(chip, dtype))
    along = array.rows if array.weight_path == "left" else array.fast_load
    return -(-rows // along) * parts


def _product_tiles(chip: Chip, product: Product, P: int, Q: int) -> Iterator[_Tiles]:
    array = chip.pe_array
    v = array.vector_cycles(product.dtype)
    for rows, n in extents(product.K, array.rows):
        if product.diagonal is not None:
            vectors = product.streamed(P, Q, array.cols)
            yield _Tiles(rows, 1, n * product.matrices, vectors, v, product.dtype)
            continue
        for cols, m in extents(P, array.cols):
            yield _Tiles(rows, cols, n * m * product.matrices, Q, v, product.dtype)


def _turn_tiles(chip: Chip, turns: Sequence[Turn]) -> Iterator[_Tiles]:
    """Yield the tiles of identity products: a tile of `rows` rows takes so many vectors."""
    array = chip.pe_array
    for turn in turns:
        v = array.turn_cycles(turn.dtype)
        for rows, n in extents(turn.rows, array.rows):
            for cols, m in extents(turn.cols, array.cols):
                yield _Tiles(rows, cols, n * m * turn.matrices, rows, v, turn.dtype)


def _moved_bound(chip: Chip, turns: Sequence[Turn]) -> Bound:
    """Return the least time in which engines and DMA queues turn matrices, element by element.

    Rows that lie side by side are moved together, an element of each as one. In one instruction an
    engine copies between lanes that are all equally far apart, and its two addresses are the same
    in every lane. So an instruction turns one element of a matrix, or the same element of every
    matrix of a batch. These lie in one lane, which reads them one after another, and no other
    instruction runs beside it unless the engine has lanes that are independent. Then all lanes of a
    batch may be at work at once. Not counted: rows of a lone matrix that share a lane, of which one
    instruction could turn several elements (docs/bounds.md).
    """
    dma, period = chip.dma, chip.period
    elements = sum(turn.matrices * turn.rows * turn.cols // turn.beside for turn in turns)
    if not elements:
        return Bound(0, "nothing is moved", period("pe_array"))
    together = max(turn.matrices for turn in turns)
    cost = min(_element_cycles(chip, data_type(t.dtype).size_bytes * t.beside) for t in turns)
    behind = serial_cycles(dma) + dma.latency_cycles + 1
    ways = [UnitRate(period("dma"), Fraction(dma.queues) / cost, behind)]
    for unit, engine in copiers(chip, "state_buffer").items():
        each = start_distance(engine)
        behind = lead_cycles(engine, "state_buffer") + engine.latency_cycles
        behind += 2 - each  # n cycles have room for ceil(n / each) starts
        rate, quickest = Fraction(together, each), fastest(engine, "state_buffer")
        if not engine.independent_lanes:
            rate = min(rate, quickest)
        elif together > 1:
            rate = chip.state_buffer.partitions * quickest
        ways.append(UnitRate(period(unit), rate, behind))
    ticks = least_end(0, elements, ways)
    return Bound(ticks, "elements turned one by one", period("pe_array"))


def _element_cycles(chip: Chip, size_bytes: int) -> Fraction:
    """Return the least cycles of a queue for an element that is turned.

    It has a descriptor of its own, unless DMA transposes elements of its size.
    """
    turns = chip.dma.transposes
    if turns is not None and size_bytes in turns.element_bytes:  # in rows as long as may be
        return Fraction(size_bytes, chip.dma.lone_bytes_per_cycle)
    return descriptor_of_element_cycles(chip, size_bytes)


def descriptor_of_element_cycles(chip: Chip, size_bytes: int) -> Fraction:
    """Return the least cycles of a queue for a descriptor of one element."""
    cost = Fraction(descriptor_cycles(chip, -(-size_bytes // queue_rate(chip))))
    rows = chip.dma.most_beside
    if rows > 1:  # then bytes of several elements may move in one cycle
        moving = Fraction(rows * size_bytes, queue_rate(chip, rows))
        cost = Fraction(descriptor_cycles(chip, moving, rows)) / rows
    parts = chip.dram.organisation
    if parts is not None and parts.outstanding > 1:  # descriptors are fetched while bursts move
        _, burst_cycles = chip.burst_cycles()
        fetch, bus = chip.dma.descriptor_cycles, Fraction(burst_cycles, buses_at_once(chip))
        cost = min(cost, max(Fraction(fetch), bus))
    return cost


def extents(size: int, tile: int) -> list[tuple[int, int]]:
    """Return (extent, how many) of the tiles of a dimension."""
    whole, rest = divmod(size, tile)
    return [(e, n) for e, n in ((tile, whole), (rest, 1 if rest else 0)) if n]
