"""The figures that users of a NeuronCore know from its profiler, of a finished run.

A chip asks for them by its key `metrics`. They bear the profiler's names; docs/neuroncore.md
defines each. They are counted from the program and from when its instructions were under way. Not
here: how they are shown (`systolic.report.summary.metrics`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from systolic.hw.spec import Chip
from systolic.hw.units import unit_of
from systolic.isa import Buffer, MatMul, Program
from systolic.isa.effects import reads, writes
from systolic.isa.streaming import streaming
from systolic.trace.records import Trace

TENSOR, DMA = "tensor_engine", "dma"


@dataclass(frozen=True, slots=True)
class CompiledWork:
    """What only the compiler knows of a program.

    multiply_adds: what the shapes of its products mean. turned: the multiply-adds of products with
    an identity, which transpose. spilled_bytes: written to DRAM for want of room on the chip.
    """

    multiply_adds: int
    turned: int
    spilled_bytes: int


def metrics(
    chip: Chip, program: Program, trace: Trace, work: CompiledWork | None = None
) -> dict[str, Any]:
    """Return the figures by name. Without `work` the figures that need the compiler are left out.

    Percentages are of the length of the run. A run without a cycle has 0 everywhere.
    """
    found: dict[str, Any] = {
        f"{name}_active_time_percent": _percent(ticks, trace.ticks)
        for name, ticks in _active(chip, trace)
    }
    found["matmul_instruction_count"] = sum(_multiplies(chip, program))
    made, moved = 2 * program.products(), _dram_bytes(program)
    found["hardware_flops"] = made
    found["hfu_estimated_percent"] = _percent(made, _most_flops(chip, trace))
    found["dram_bytes"] = moved
    found["mbu_estimated_percent"] = _percent(moved, _most_bytes(chip, trace))
    useful = made
    if work is not None:
        useful = 2 * work.multiply_adds
        found["model_flops"] = useful
        found["mfu_estimated_percent"] = _percent(useful, _most_flops(chip, trace))
        found["transpose_flops"] = 2 * work.turned
        found["spill_bytes"] = work.spilled_bytes
    if moved:
        found["arithmetic_intensity"] = useful / moved
    return found


def _percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0


def _active(chip: Chip, trace: Trace) -> Iterator[tuple[str, int]]:
    """Yield each engine, and all DMA queues together, with the ticks in which it was active."""
    under_way: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for each in trace.times:
        stop = each.done + trace.periods[each.unit]
        under_way[unit_of(each.unit)].append((each.start, stop))
    names = {"pe_array": TENSOR, **{name: f"{name}_engine" for name in chip.lane_engines}}
    for unit, name in {**names, "dma": DMA}.items():
        yield name, covered(under_way[unit])


def covered(spans: Iterable[tuple[int, int]]) -> int:
    """Return how many ticks lie in at least one of the spans, each (first, stop)."""
    ticks = end = 0
    for first, stop in sorted(spans):
        ticks += max(0, stop - max(first, end))
        end = max(end, stop)
    return ticks


def _multiplies(chip: Chip, program: Program) -> Iterator[int]:
    """Yield, for each MatMul, how many multiplies of the array it is: one for each pass."""
    for instruction in program.instructions:
        if isinstance(instruction, MatMul):
            yield streaming(instruction, chip.pe_array).passes


def _dram_bytes(program: Program) -> int:
    """Return the bytes of DRAM that the instructions read and write."""
    return sum(
        access.size_bytes
        for instruction in program.instructions
        for access in (*reads(instruction), *writes(instruction))
        if access.buffer is Buffer.DRAM
    )


def _most_flops(chip: Chip, trace: Trace) -> float:
    """Return the operations of a multiply-add in every PE in every cycle of the run."""
    array = chip.pe_array
    return 2 * array.rows * array.cols * trace.ticks / trace.periods["pe_array"]


def _most_bytes(chip: Chip, trace: Trace) -> float:
    """Return the bytes that DRAM moves at most in the time of the run."""
    return chip.dram.bytes_per_cycle * trace.ticks / chip.period("dma")
