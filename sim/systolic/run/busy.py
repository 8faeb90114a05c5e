"""How long each unit must be busy with a program, whatever waits for what: bounds for its table.

A unit's bound is the cycles in which its own instructions move operands, one after the other. The
waits, the latencies and the ports of the program are left out, so no order of its instructions on
that unit, and no other semaphores, can make the run shorter. Not here: the bounds of what a graph
means (`systolic.bounds`), since a program does not say it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from systolic.hw.formulas.dram import queue_rate
from systolic.hw.formulas.timing import Bound, load_reads
from systolic.hw.spec import Chip
from systolic.hw.units import kind_of, unit_of
from systolic.isa import Buffer, DmaCopy, Instruction, LoadWeights, MatMul, OnEngine, Program
from systolic.isa.array_tile import ArrayTile
from systolic.isa.effects import elements_taken, lanes, reads_per_lane
from systolic.isa.engines import pace_of
from systolic.isa.streaming import streaming
from systolic.isa.tiling import array_tile


def busy_cycles(chip: Chip, program: Program) -> dict[str, int]:
    """Return the least cycles, in its own clock, for which each queue of a program is busy."""
    instructions = program.instructions
    found = {}
    for queue, indices in program.queues().items():
        work = [instructions[index] for index in indices]
        found[queue] = OF_KIND[kind_of(queue)](chip, work)
    return found


def busy_bound(chip: Chip, busy: dict[str, int]) -> Bound:
    """Return the bound of the run: of the unit which is busy for longest; of equals the first.

    busy: as of `busy_cycles`.
    """
    ticks = {queue: cycles * chip.period(unit_of(queue)) for queue, cycles in busy.items()}
    longest = max(ticks, key=lambda queue: ticks[queue], default="")
    why = f"{longest} is busy that long" if longest else "no instructions"
    return Bound(ticks.get(longest, 0), why, chip.period("pe_array"))


def _array(chip: Chip, work: Sequence[Instruction]) -> int:
    """Return the cycles of the array: of the busiest among the first PEs of all tiles."""
    mine = [i for i in work if isinstance(i, LoadWeights | MatMul)]
    if all(each.tile is None for each in mine):
        return _one_tile(chip, mine)
    tiles = [array_tile(each, chip.pe_array) for each in mine]
    corners = {ArrayTile(tile.row, tile.col, 1, 1) for tile in tiles}
    return max(
        _one_tile(chip, [i for i, tile in zip(mine, tiles, strict=True) if tile.meets(corner)])
        for corner in corners
    )


def _one_tile(chip: Chip, work: Sequence[LoadWeights | MatMul]) -> int:
    """Return the cycles of loads, or the cycles of vectors, or both where they cannot overlap.

    Each vector keeps its distance from the next, also from the first of the next multiply.
    """
    array = chip.pe_array
    loads = sum(
        load_reads(chip, i.weights.partitions, i.columns, i.weights.dtype)
        for i in work
        if isinstance(i, LoadWeights)
    )
    multiplies = [i for i in work if isinstance(i, MatMul)]
    how = [streaming(i, array) for i in multiplies]
    spacing = [each.spacing for each in how]
    vectors = [i.vectors * h.passes for i, h in zip(multiplies, how, strict=True)]
    between = sum((n - 1) * apart for n, apart in zip(vectors, spacing, strict=True))
    if array.weight_buffer != "double":  # a load waits for the last vector of the multiply before
        return loads + between
    last = spacing[-1] - 1 if spacing else 0
    return max(loads, between + sum(spacing) - last)


def _engine(chip: Chip, work: Sequence[Instruction]) -> int:
    """Return the cycles of all steps; if lanes are independent, of those in the busiest lane."""
    steps = Counter[int]()
    for instruction in work:
        assert isinstance(instruction, OnEngine)
        engine = chip.engine(instruction.engine)
        shared = range(*lanes(instruction)) if engine.independent_lanes else range(1)
        cycles = _steps(chip, instruction)
        steps.update(dict.fromkeys(shared, cycles))
    return max(steps.values(), default=0)


def _steps(chip: Chip, instruction: OnEngine) -> int:
    pace = pace_of(instruction, chip.engine(instruction.engine), chip)
    steps = len(reads_per_lane(instruction)) + pace.cycles_for(elements_taken(instruction))
    return pace.fixed_cycles + steps


def _dma(chip: Chip, work: Sequence[Instruction]) -> int:
    """Return the cycles that the bytes of each copy take at the full rate of the queue."""
    return sum(_moving(chip, copy) for copy in work if isinstance(copy, DmaCopy))


def _moving(chip: Chip, copy: DmaCopy) -> int:
    ends = (copy.source.buffer, copy.target.buffer)
    rate = chip.dma.lone_bytes_per_cycle
    if Buffer.STATE in ends:  # its ports may be narrower
        rate = queue_rate(chip, chip.dma.most_beside)
    if Buffer.DRAM in ends and chip.dram.organisation is None:
        rate = min(rate, chip.dram.bytes_per_cycle)
    return -(-copy.source.size_bytes // rate)


OF_KIND = {"array": _array, "engine": _engine, "dma": _dma}
"""The busy cycles of a queue, by the kind of its unit."""
