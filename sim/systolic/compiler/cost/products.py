"""The cost model: closed forms that choose the mapping, the loops and the tiles of a product.

They are estimates for choosing between schedules. Not here: bounds (`systolic.hw.formulas.timing`)
and the machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from systolic.compiler.cost.engines import drain_cycles, drain_engine
from systolic.compiler.ir.tasks import Loops, Outer
from systolic.errors import CompileError
from systolic.hw.datatypes import data_type
from systolic.hw.formulas.dram import dram_rate
from systolic.hw.formulas.timing import load_reads, result_cycles
from systolic.hw.spec import Chip, Engine, PEArray
from systolic.workload.options import Options

Mapping = Literal["rhs", "lhs"]


def product_cost(
    chip: Chip, mapping: Mapping, batch: Sequence[int], sizes: tuple[int, int, int], dtype: str
) -> int:
    """Return about how many cycles a product takes in the array with this operand stationary.

    sizes: M rows of lhs, K of the contraction, N columns of rhs.
    """
    M, K, N = sizes
    P, Q = (N, M) if mapping == "rhs" else (M, N)
    return math.prod(batch) * array_cycles(chip, (P, Q, K), dtype, _chunks(chip, Q))


def products_in_turn_cost(
    chip: Chip, mapping: Mapping, batch: Sequence[int], sizes: tuple[int, int, int], dtype: str
) -> int:
    """Return what `product_cost` does, if only the last matrix's sums are waited for."""
    M, _, N = sizes
    wide, matrices = min(N if mapping == "rhs" else M, chip.pe_array.cols), math.prod(batch)
    each = product_cost(chip, mapping, (), sizes, dtype)
    return matrices * each - (matrices - 1) * (wide + result_cycles(chip, wide))


def strand_products_cost(
    chip: Chip,
    mapping: Mapping,
    batch: Sequence[int],
    sizes: tuple[int, int, int],
    dtype: str,
    *,
    ways: int,
) -> int:
    """Return what `product_cost` does, if the stationary columns are taken in `ways` parts.

    The parts of a matrix follow one another, so that only the last one's sums are waited for.
    """
    M, K, N = sizes
    P = -(-(N if mapping == "rhs" else M) // ways)
    some = (M, K, P) if mapping == "rhs" else (P, K, N)
    each, wide = product_cost(chip, mapping, (), some, dtype), min(P, chip.pe_array.cols)
    waited = wide + result_cycles(chip, wide)
    return math.prod(batch) * (ways * each - (ways - 1) * waited)


def array_cycles(chip: Chip, sizes: tuple[int, int, int], dtype: str, chunks: int) -> int:
    """Return the cycles of streams and loads; with a double buffer the longer hides the other.

    sizes: P stationary and Q moving columns, K rows of both. chunks: how many chunks of moving
    vectors are streamed for each load.
    """
    P, Q, K = sizes
    array = chip.pe_array
    v = array.vector_cycles(dtype)
    total = 0
    vectors = min(Q, chunks * chip.multiply_vectors)
    sweeps = -(-Q // vectors)
    for rows, times in _cut(K, array.rows):
        for cols, also in _cut(P, array.cols):
            vectors_held = max(Q, sweeps * min(array.min_vectors, cols))
            load, stream = load_reads(chip, rows, cols, dtype) * sweeps, vectors_held * v
            hidden = array.weight_buffer == "double"
            total += times * also * (max(load, stream) if hidden else load + stream)
    return total + min(P, array.cols) + result_cycles(chip, min(P, array.cols))


def turning_banks(chip: Chip, options: Options, dtype: str) -> int:
    """Return the number of banks in which identity products take turns: at most half of all.

    A bank is in use while a block streams in, its last sum arrives, and it is copied out.
    """
    array = chip.pe_array
    engine = chip.engine(drain_engine(chip, options))
    stream = array.rows * array.vector_cycles(dtype)
    taken = stream + result_cycles(chip, array.cols) + chip.post_cycles("pe_array")
    taken += drain_cycles(chip, options, dtype, array.rows) + engine.latency_cycles
    return max(1, min(-(-taken // stream), chip.result_buffer.banks // 2))


LEAST_PART = 4
"""Fewest vectors of a part: smaller parts gain next to nothing for their instructions."""


def part_of_last(
    chip: Chip, options: Options, sizes: tuple[int, int, int], dtype: str, banks: int
) -> int:
    """Return how many vectors a part should have if the last sums are made and copied in parts.

    sizes: vectors, rows of the contraction, stationary columns. banks: how many may be used.

    After the last vector the copy of one part remains to be done, so parts should be small. Each
    part takes a bank, since accumulating holds a bank's read port. Each load hides behind the last
    part of the task before it. With f cycles for the instructions of a part, the remainder is about
    s + vectors / s * f, least for s = sqrt(vectors * f).
    """
    (vectors, K, cols), array = sizes, chip.pe_array
    engine = chip.engine(drain_engine(chip, options))
    tiles = -(-K // array.rows)
    fixed = engine.fixed_cycles + _dispatched(engine) + tiles * _dispatched(array)
    load = load_reads(chip, min(K, array.rows), cols, dtype) if tiles > 1 else 0
    v = array.vector_cycles(dtype)
    least = max(-(-vectors // banks), min(array.min_vectors, cols))
    return max(LEAST_PART, -(-load // v), least, math.isqrt(vectors * fixed))


def _dispatched(unit: Engine | PEArray) -> int:
    """Return the cycles that dispatch adds to every instruction: overlapped, it hides."""
    return unit.dispatch_cycles if unit.dispatch == "serial" else 0


def _chunks(chip: Chip, Q: int) -> int:
    return min(chip.result_buffer.banks, -(-Q // chip.multiply_vectors))


def _cut(size: int, tile: int) -> list[tuple[int, int]]:
    """Return (extent, how many) of the tiles of a dimension."""
    whole, rest = divmod(size, tile)
    return [(e, n) for e, n in ((tile, whole), (rest, 1 if rest else 0)) if n]


@dataclass(frozen=True, slots=True)
class ProductToCut:
    """A product to be cut: stationary [K, P], moving [K, Q], result [P, Q], and its tiles.

    tile: T(p,q); sizes in bytes; streamed: operands come from DRAM; chunk: vectors of one multiply;
    counts: how many stationary tiles and chunks there are; layer: the operation; room_bytes: the
    bytes of each partition of the state buffer to plan with; pooled: windows of the result are
    reduced by an engine, which should begin early.
    """

    P: int
    Q: int
    K: int
    dtype: str
    out_bytes: int
    tile: tuple[int, int]
    streamed: bool
    chunk: int
    counts: tuple[int, int]
    layer: str
    room_bytes: int
    pooled: bool = False


def choose_loops(
    chip: Chip, options: Options, work: ProductToCut, *, spare_banks: int = 0
) -> Loops:
    """Return the cheapest loops whose tiles have room in the state buffer together.

    spare_banks: how many banks of the result buffer to leave unused if possible.

    Raises CompileError if the options ask for an impossible group.
    """
    chunk = work.chunk
    groups = _groups(chip, options, work, spare_banks)
    have = work.room_bytes * 3 // 4  # the rest: an identity, gaps
    fitting = [group for group in groups if _group_bytes(chip, work, group, chunk) <= have]
    asked = options.of(work.layer).outer
    outers: tuple[Outer, ...] = (asked,) if asked else ("stationary", "moving")
    found = [
        _rated(chip, work, group, chunk, outer)
        for group in fitting or groups[:1]
        for outer in outers
    ]
    return min(found, key=lambda item: item[0])[1]


def _rated(
    chip: Chip, work: ProductToCut, group: tuple[int, int], chunk: int, outer: Outer
) -> tuple[tuple[int, int, int], Loops]:
    """Return the loops and their cost: first the cycles, then how few sums stand side by side.

    What is pooled has few of them: its first pixels are there sooner then, and an engine needs more
    cycles for the windows than the array for the sums.
    """
    p, q = group
    cycles = array_cycles(chip, (work.P, work.Q, work.K), work.dtype, q)
    second, preference = -p * q, -q
    if work.streamed:
        moved = _traffic(chip, work, (p, q * chunk), outer)
        cycles = max(cycles, moved + p * q * chunk)
        preference = abs(p * chip.pe_array.cols - q * chunk)  # squares share the most
    if work.pooled:
        second, preference = q, -p
    return (cycles, second, preference), Loops(group, chunk, outer, cycles)


def _group_bytes(chip: Chip, work: ProductToCut, group: tuple[int, int], chunk: int) -> int:
    """Return the bytes of each partition that the tiles of one task of a group take."""
    rows, columns = work.tile
    size = data_type(work.dtype).size_bytes
    stationary = min(work.P, -(-group[0] * chip.pe_array.cols // columns) * columns)
    moving = min(work.Q, -(-group[1] * chunk // columns) * columns)
    results = -(-min(work.P, group[0] * chip.pe_array.cols) // rows)
    return (stationary + moving) * size + results * moving * work.out_bytes


def _groups(chip: Chip, options: Options, work: ProductToCut, spare: int) -> list[tuple[int, int]]:
    tiles, chunks = work.counts
    banks = chip.result_buffer.banks
    if (asked := options.of(work.layer).group) is not None:
        p, q = asked
        if p > tiles or q > chunks or p * q > banks:
            raise CompileError(
                f'operation "{work.layer}": {options.key_of_group(work.layer)} asks for {p} '
                f"stationary tiles x {q} chunks of {work.chunk} vectors: there are {tiles} x "
                f"{chunks}, and each of p * q sums needs one of {banks} banks"
            )
        return [(p, q)]
    most = max(1, banks - spare)
    return [
        (p, q) for p in range(1, min(most, tiles) + 1) for q in range(1, min(most // p, chunks) + 1)
    ]


def _traffic(chip: Chip, work: ProductToCut, group: tuple[int, int], outer: Outer) -> int:
    """Return about how many cycles DRAM takes for the operands, some of them brought repeatedly."""
    P, Q, K, dtype = work.P, work.Q, work.K, work.dtype
    room_bytes = work.room_bytes * 3 // 4
    size, R = data_type(dtype).size_bytes, min(chip.pe_array.rows, chip.state_buffer.partitions)
    blocks = -(-K // R)
    stationary, moving = blocks * P * size, blocks * Q * size
    p_groups = -(-P // (group[0] * chip.pe_array.cols))
    q_groups = -(-Q // group[1])
    if stationary + moving > room_bytes:
        inner = moving if outer == "stationary" else stationary
        if inner > room_bytes // 2:
            if outer == "stationary":
                moving *= p_groups
            else:
                stationary *= q_groups
    rate = dram_rate(chip, max(1, chip.dma.useful_queues // 2))
    return (stationary + moving) * R // rate
