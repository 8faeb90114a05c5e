"""Closed formulas of the timing model: how long things take when nothing gets in their way.

The second oracle: the machine never imports this module, so where both agree, two derivations
agree. Lower bounds built from these formulas tell how good a schedule is. All in array cycles of
a chip with one clock, unless a docstring says otherwise. Source: docs/timing_model.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sim.hw.dram import least_cycles, run_cycles
from sim.hw.spec import Chip, Engine, PEArray


def load_reads(array: PEArray, K: int, N: int) -> int:
    """Return L, the reads of a K x N weight load: ceil(N / f) left, ceil(K / f) top."""
    lanes = N if array.weight_path == "left" else K
    return -(-lanes // array.fast_load)


def right_cycles(array: PEArray, col: int) -> int:
    """Return the cycles a vector takes from column 0 to column `col`."""
    return array.hop[1] * (col // array.cell[1])


def result_depth(chip: Chip) -> int:
    """Return D, the cycles from a vector's injection to its result in PSUM partition 0."""
    array = chip.pe_array
    down = array.hop[0] * (array.rows // array.cell[0])
    return array.entry_cycles + down - 1 + chip.result_buffer.write_latency_cycles


def result_cycles(chip: Chip, N: int) -> int:
    """Return the cycles from a vector's injection to its result in the last of N partitions."""
    return result_depth(chip) + right_cycles(chip.pe_array, N - 1)


def engine_reads(engine: Engine, elements: int) -> int:
    """Return the cycles an engine needs to read that many elements per lane."""
    return -(-elements // engine.elements_per_cycle)


def dma_cycles(
    chip: Chip, descriptor_bytes: Sequence[tuple[int, int]], *, dram: bool, within: bool = False
) -> int:
    """Return the cycles of one DmaCopy alone: (count, bytes) of its descriptors.

    latency + sum over descriptors of (descriptor_cycles + ceil(bytes / rate)). dram: one end lies
    in DRAM; within: the other as well, so that every byte is moved twice. For DRAM with an
    organisation this is the least: every run begins with a burst, every row is open
    (`sim.hw.dram.lone_copy_cycles` knows addresses).
    """
    fetch, rate = chip.dma.descriptor_cycles, chip.dma.bytes_per_cycle
    if not dram:
        moving = sum(count * (fetch - (-size // rate)) for count, size in descriptor_bytes)
        return chip.dma.latency_cycles + moving
    moving = sum(
        count * (fetch + run_cycles(chip, size, within=within)) for count, size in descriptor_bytes
    )
    return chip.dma.latency_cycles + chip.dram.latency_cycles + moving


def transpose_block_cycles(chip: Chip, K: int, N: int, dtype: str, drain: str, unit: str) -> int:
    """Return the cycles of one K x N block, in the state buffer at both ends, identity stored.

    drain: "block", "row" or "partition"; unit: "activation" or "pooling". Section 8 of the
    timing model; holds for engines without fixed_cycles and min_interval_cycles, dispatch 0.
    """
    engine: Engine = getattr(chip, unit)
    v = chip.pe_array.cycles_per_vector[dtype]
    last_injection = load_reads(chip.pe_array, K, N) + (K - 1) * v
    complete = last_injection + result_cycles(chip, N)
    seen = complete + chip.semaphore_cycles
    if drain == "row":
        last_read = seen
    elif drain == "block" or engine.independent_lanes:
        last_read = seen + engine_reads(engine, K) - 1
    else:
        first = last_injection + result_depth(chip) + chip.semaphore_cycles
        each = engine_reads(engine, K)
        last_read = max(first + c_delay + (N - i) * each - 1 for i, c_delay in _delays(chip, N))
    return last_read + engine.latency_cycles + 1


def _delays(chip: Chip, N: int) -> list[tuple[int, int]]:
    return [(c, right_cycles(chip.pe_array, c)) for c in range(N)]


@dataclass(frozen=True, slots=True)
class Bound:
    """No schedule can take fewer cycles, because of the resource named."""

    cycles: int
    why: str


def transpose_bound(
    chip: Chip, tiles: Sequence[tuple[int, int]], dtype: str, unit: str, dram_bytes: int = 0
) -> Bound:
    """Return the best possible cycle count for transposing these K x N tiles on the array.

    Each resource must be busy for its work; before it can begin and after it has ended stands the
    least that any tile needs. `dram_bytes` are moved in and moved out as well (0: on chip).
    """
    array, engine = chip.pe_array, getattr(chip, unit)
    v = array.cycles_per_vector[dtype]
    loads = [load_reads(array, K, N) for K, N in tiles]
    vectors = [K for K, _ in tiles]
    first_load = min(loads)
    tail = min(result_cycles(chip, N) for _, N in tiles) + chip.semaphore_cycles
    tail += engine.latency_cycles + 1
    head = chip.dma.latency_cycles + chip.dram.latency_cycles if dram_bytes else 0
    ports = sum(loads) + sum(vectors) if chip.state_buffer.banks == 1 else 0
    drains = sum(engine_reads(engine, K) for K in vectors)
    drained_from = first_load + result_depth(chip) + chip.semaphore_cycles
    bounds = [
        Bound(head + first_load + (sum(vectors) - 1) * v + tail, "moving vectors of pe_array"),
        Bound(head + sum(loads) + (min(vectors) - 1) * v + tail, "weight loads of pe_array"),
        Bound(head + drained_from + drains + engine.latency_cycles, f"drain by {unit}"),
        Bound(ports and head + ports - 1 + tail, "read port of the state buffer's only bank"),
    ]
    if dram_bytes:
        bounds.append(dram_bound(chip, 2 * dram_bytes))
    return max(bounds, key=lambda bound: bound.cycles)


def dram_bound(chip: Chip, bytes_moved: int) -> Bound:
    """Return the least cycles in which DRAM and the DMA queues can move that many bytes."""
    rate = min(chip.dram.bytes_per_cycle, chip.dma.queues * chip.dma.bytes_per_cycle)
    latency = chip.dma.latency_cycles + chip.dram.latency_cycles
    clocks = Fraction(chip.period("dma"), chip.period("pe_array"))
    moving = -(-bytes_moved // rate)
    if chip.dram.organisation is not None:
        moving = least_cycles(chip, bytes_moved)
    cycles = (latency + moving) * clocks
    return Bound(-(-cycles.numerator // cycles.denominator), "DRAM bandwidth")
