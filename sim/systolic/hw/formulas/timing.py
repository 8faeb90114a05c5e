"""Twin of the engines' timing: how long things take if nothing gets in their way, in closed form.

The second oracle: the machine never imports this module, so where both agree, two derivations
agree. Lower bounds built from these formulas tell how good a schedule is. Bounds are in ticks, as
runs are; the other formulas are in cycles of the unit they speak of, and those that speak of
several are for a chip with one clock. Source: docs/timing_model.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from systolic.hw.datatypes import data_type
from systolic.hw.formulas.dram import least_cycles, opened_cycles, queue_rate, run_cycles
from systolic.hw.formulas.engines import fastest, lead_cycles, serial_cycles
from systolic.hw.formulas.ticks import UnitRate, after, least_end
from systolic.hw.spec import Chip, Engine, PEArray


def columns_per_read(chip: Chip, dtype: str) -> int:
    """Return the most columns a read of weights brings: from the left f, from the top a row.

    Or as many as pass a port of the state buffer in a cycle.
    """
    array = chip.pe_array
    most = array.fast_load if array.weight_path == "left" else array.cols
    return min(most, chip.port_width_bytes // data_type(dtype).size_bytes)


def load_reads(chip: Chip, K: int, N: int, dtype: str) -> int:
    """Return L, the reads of a K x N weight load.

    ceil(N / columns) on the left path, ceil(K / f) * ceil(N / columns) on the top path.
    """
    parts = -(-N // columns_per_read(chip, dtype))
    if chip.pe_array.weight_path == "left":
        return parts
    return -(-K // chip.pe_array.fast_load) * parts


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


def drain_reads(chip: Chip, engine: Engine, elements: int, dtype: str) -> int:
    """Return the cycles of some results per lane, written to the state buffer as that type."""
    passing = chip.port_width_bytes // data_type(dtype).size_bytes
    return -(-elements // min(engine.elements_per_cycle, passing))


def turn_interval_cycles(
    chip: Chip, K: int, N: int, dtype: str, *, is_pass_through: bool = False
) -> int:
    """Return the cycles from one transpose of a K x N block to the next, in a chain of them.

    The block is loaded, an identity of K vectors moves: as a product or, if `is_pass_through`, so
    that the block passes through the array. For a double weight buffer, and operands that do not
    meet at a port.
    """
    array = chip.pe_array
    v = array.pass_through[dtype] if is_pass_through else array.vector_cycles(dtype)
    held = v * max(K, min(array.min_vectors, N))
    return max(load_reads(chip, K, N, dtype), held, array.min_interval_cycles)


def dma_latency_cycles(chip: Chip, *, dram: bool = True) -> int:
    """Return the cycles of a DmaCopy before its first descriptor. dram: one end lies in DRAM."""
    return chip.dma.latency_cycles + (chip.dram.latency_cycles if dram else 0)


def descriptor_cycles(chip: Chip, moving: int | Fraction, rows: int = 1) -> int | Fraction:
    """Return the cycles of `rows` descriptors whose bytes take `moving` cycles together.

    Where copies are spread, each descriptor has an engine of its own and the costs overlap.
    """
    fetch = (1 if chip.dma.is_spread else rows) * chip.dma.descriptor_cycles
    return max(fetch, moving) if chip.dma.descriptor_cost == "max" else fetch + moving


def dma_cycles(
    chip: Chip,
    descriptor_bytes: Sequence[tuple[int, int]],
    *,
    dram: bool,
    within: bool = False,
    rows: int = 1,
) -> int:
    """Return the cycles of one DmaCopy alone: (count, bytes) of its descriptors.

    latency + sum over descriptors of (descriptor_cycles + ceil(bytes / rate)), or of the greater of
    the two where descriptor_cost is "max". dram: one end lies in DRAM; within: the other as well,
    so that every byte is moved twice. rows: how many descriptors move side by side, each in a
    partition of its own (1: each alone). For DRAM with an organisation and one burst in hand this
    is the least: every run begins with a burst, every row is open (addresses are known to
    `hw.formulas.dram.lone_copy_cycles`).
    """
    cycles = dma_latency_cycles(chip, dram=dram)
    for count, size in descriptor_bytes:
        whole, rest = divmod(count, rows)
        for number, beside in ((whole, rows), (1, rest)):
            if beside:
                moving = _moving_cycles(chip, size, beside, dram=dram, within=within)
                cycles += number * int(descriptor_cycles(chip, moving, beside))
    return cycles


def _moving_cycles(chip: Chip, size: int, rows: int, *, dram: bool, within: bool) -> int:
    """Return the cycles in which the bytes of `rows` descriptors of `size` bytes move."""
    if not dram:
        return -(-rows * size // queue_rate(chip, rows))
    if chip.dram.organisation is not None:
        return rows * run_cycles(chip, size, within=within)
    return run_cycles(chip, rows * size, within=within, rows=rows)


def dma_transpose_cycles(
    chip: Chip, rows: int, cols: int, size_bytes: int, *, from_dram: bool, start: int = 0
) -> int:
    """Return the cycles of one DmaTranspose alone, of elements of `size_bytes`.

    rows, cols: of its source; its target is in partitions 0 to cols - 1, contiguous in each. Each
    partition is a descriptor of `rows` elements. start: the cycle in which the copy starts; in
    which cycles bytes move counts from cycle 0.
    """
    at = start + dma_latency_cycles(chip, dram=from_dram)
    for beside in _side_by_side(chip, cols):
        rate = queue_rate(chip, beside)
        if from_dram:
            rate = min(rate, chip.dram.bytes_per_cycle)
        begun = at
        if chip.dma.descriptor_cost == "sum":
            at += int(descriptor_cycles(chip, 0, beside))
        at += _turning_cycles(chip, -(-beside * rows * size_bytes // rate), at, from_dram=from_dram)
        at = max(at, begun + int(descriptor_cycles(chip, 0, beside)))
    return at - start


def _side_by_side(chip: Chip, partitions: int) -> list[int]:
    """Return how many of the first partitions' descriptors move at once, one after another."""
    dma = chip.dma
    if not dma.is_spread:
        whole, rest = divmod(partitions, dma.partitions_per_cycle)
        return [dma.partitions_per_cycle] * whole + [rest] * (rest > 0)
    mine = Counter(map(dma.engine_of, range(partitions)))
    return [sum(n > turn for n in mine.values()) for turn in range(max(mine.values()))]


def _turning_cycles(chip: Chip, moving: int, at: int, *, from_dram: bool) -> int:
    """Return the cycles from `at` to the end of the last one in which a transpose moves."""
    turns = chip.dma.transposes
    assert turns is not None
    m, n = turns.working(outside=from_dram)
    before = at // n * m + min(at % n, m)
    whole, rest = divmod(before + moving - 1, m)
    return whole * n + rest + 1 - at


def transpose_block_cycles(chip: Chip, K: int, N: int, dtype: str, *, drain: str, unit: str) -> int:
    """Return the cycles of one K x N block, in the state buffer at both ends, identity stored.

    drain: "block", "row" or "partition"; unit: an engine. Section 8 of the
    timing model; holds for engines without rates, fixed_cycles and min_interval_cycles, dispatch 0.
    """
    engine = chip.engine(unit)
    array = chip.pe_array
    v, passes = array.cycles_per_vector[dtype], array.passes.get(dtype, 1)
    if array.turns_by_passing(dtype):
        v, passes = array.turn_cycles(dtype), 1
    last_injection = load_reads(chip, K, N, dtype) + (passes * K - 1) * v
    complete = last_injection + result_cycles(chip, N)
    seen = complete + chip.post_cycles("pe_array")
    if drain == "row":
        last_read = seen
    elif drain == "block" or engine.independent_lanes:
        last_read = seen + drain_reads(chip, engine, K, dtype) - 1
    else:
        first = last_injection + result_depth(chip) + chip.post_cycles("pe_array")
        each = drain_reads(chip, engine, K, dtype)
        last_read = max(first + c_delay + (N - i) * each - 1 for i, c_delay in _delays(chip, N))
    return last_read + engine.latency_cycles + 1


def _delays(chip: Chip, N: int) -> list[tuple[int, int]]:
    return [(c, right_cycles(chip.pe_array, c)) for c in range(N)]


@dataclass(frozen=True, slots=True)
class Bound:
    """No schedule can take fewer ticks, because of the resource named.

    ticks: the time of a run, from tick 0 to the end of its last cycle of whatever unit.
    ticks_per_cycle: a cycle of the array's clock, the one in which runs are reported.
    """

    ticks: int
    why: str
    ticks_per_cycle: int = 1

    @property
    def cycles(self) -> int:
        """Return the same in cycles of the array's clock, rounded up."""
        return -(-self.ticks // self.ticks_per_cycle)


def largest(bounds: Iterable[Bound]) -> Bound:
    """Return the bound that says most; of equals the first."""
    return max(bounds, key=lambda bound: bound.ticks)


@dataclass(frozen=True, slots=True)
class ArrayWork:
    """What the array must do whatever the schedule, behind a load of one read at least.

    vectors: all moving vectors. stream: the cycles of its clock from the first injection to the
    last. words: results of the lane that has most.
    """

    vectors: int
    stream: int
    words: int


def array_bound(
    chip: Chip, work: ArrayWork, units: Sequence[str], *, from_dram: bool, to_dram: bool
) -> Bound:
    """Return the bound of work of the array whose results `units` (engines) copy out.

    Each resource must be busy for its work; before it can begin and after it has ended stands the
    least that any tile needs, each step in the clock of its unit. Where the array's dispatch is
    serial, the times of a load and of a multiply come one after the other at least.
    """
    begin = first_byte(chip) if from_dram else 0
    array = chip.period("pe_array")
    ways = [_drain_way(chip, unit, to_dram=to_dram) for unit in units]
    behind = result_depth(chip) + chip.post_cycles("pe_array") + 2 * serial_cycles(chip.pe_array)

    def until_out(cycles: int, words: int) -> int:
        seen = after(chip, begin, "pe_array", cycles + behind)
        copied = least_end(seen, words, ways)
        return last_byte(chip, copied) if to_dram else copied

    name = {1: units[0], 2: "both engines"}.get(len(units), f"{len(units)} engines")
    found = [
        Bound(until_out(1 + work.stream, 1), "moving vectors of pe_array", array),
        Bound(until_out(1, work.words), f"drain by {name}", array),
    ]
    if ports := _port_cycles(chip, work.vectors):
        why = "read port of the state buffer's only bank"
        found.append(Bound(until_out(ports, 1), why, array))
    return largest(found)


def _port_cycles(chip: Chip, vectors: int) -> int:
    """Return the cycles from the first to the last use of a bank's read port by moving vectors.

    0 if there are several banks. Tiles begin in partition 0, R, 2R, ...: where partitions have
    ports of their own, the vectors of each such group take the port of its first partition, and
    groups work side by side. For rows from the top no such bound is known: 0.
    """
    if chip.state_buffer.banks > 1:
        return 0
    if not chip.state_buffer.is_split:
        return vectors - 1
    if chip.pe_array.weight_path == "top":
        return 0
    groups = -(-chip.state_buffer.partitions // chip.pe_array.rows)
    return -(-vectors // groups) - 1


def _drain_way(chip: Chip, unit: str, *, to_dram: bool) -> UnitRate:
    """Return how an engine takes words of a lane: until written, or until DMA sees them written.

    The first instruction waits for them, and is dispatched and gets ready to read behind that.
    """
    engine = chip.engine(unit)
    behind = lead_cycles(engine, "result_buffer") + engine.latency_cycles
    behind += chip.post_cycles(unit) if to_dram else 1
    return UnitRate(chip.period(unit), fastest(engine, "result_buffer"), behind)


def lone_latency_cycles(chip: Chip) -> int:
    """Return the cycles from when a copy from or to DRAM could start to its first byte's."""
    return serial_cycles(chip.dma) + dma_latency_cycles(chip)


def first_byte(chip: Chip) -> int:
    """Return the tick at which the array can first see that DMA has brought a byte from DRAM."""
    return after(chip, 0, "dma", lone_latency_cycles(chip) + chip.post_cycles("dma"))


def last_byte(chip: Chip, tick: int) -> int:
    """Return the end of the least copy to DRAM that could start at `tick`."""
    return after(chip, tick, "dma", lone_latency_cycles(chip) + 1)


def dram_bound(chip: Chip, bytes_moved: int, copied_bytes: int = 0) -> Bound:
    """Return the least time in which DRAM and the DMA queues can move that many bytes.

    copied_bytes: of these, how many may be written by a copy from DRAM to DRAM. Such a copy takes
    a byte out of DRAM and into it, but once through a DMA engine.
    """
    engines = chip.dma.engine_count * chip.dma.bytes_per_cycle
    moving = max(
        -(-bytes_moved // chip.dram.bytes_per_cycle), -(-(bytes_moved - copied_bytes) // engines)
    )
    if chip.dram.organisation is not None:
        moving = max(least_cycles(chip, bytes_moved), opened_cycles(chip, bytes_moved))
    ticks = after(chip, 0, "dma", lone_latency_cycles(chip) + moving)
    return Bound(ticks, "DRAM bandwidth", chip.period("pe_array"))
