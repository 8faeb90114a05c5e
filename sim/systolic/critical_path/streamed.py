"""How the vectors of each multiply of a finished run were streamed: slower by a cold array."""

from __future__ import annotations

from systolic.hw.formulas.warm_up import MadeMultiply, slow_multiplies
from systolic.hw.spec import Chip
from systolic.isa import MatMul, Program
from systolic.isa.streaming import Streaming, streaming
from systolic.trace.records import Trace


def streamed(program: Program, chip: Chip, trace: Trace, unit: str = "") -> dict[int, Streaming]:
    """Return of each multiply, by its index, how its vectors were streamed. unit: the array."""
    array = chip.pe_array
    found = {
        index: streaming(each, array)
        for index, each in enumerate(program.instructions)
        if isinstance(each, MatMul)
    }
    if array.warm_up_cycles:
        period = trace.periods[unit or trace.array]
        made = {
            each.instruction: MadeMultiply(
                each.start // period, each.last // period, found[each.instruction].spacing
            )
            for each in trace.times
            if each.instruction in found
        }
        in_order = sorted(made)  # one queue
        slow = slow_multiplies(array, [made[index] for index in in_order])
        for index, is_slow in zip(in_order, slow, strict=True):
            if is_slow:
                spacing, passes = found[index]
                found[index] = Streaming(spacing * array.warm_up_factor, passes)
    return found
