"""Twin of `register.lane_engine.rate`: how fast an engine takes the elements of an instruction.

The first of the engine's rates that fits the instruction holds; without one the engine takes
`elements_per_cycle` in every cycle. If fewer elements pass a port of the state buffer in a cycle
than a group has, groups are as small as that, and follow one another at no faster a rate.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from systolic.hw.datatypes import SIZE_BYTES
from systolic.hw.spec import Chip, Engine, Gathers, Rate
from systolic.isa import Access, Buffer, LocalGather, Memset, OnEngine
from systolic.isa.effects import (
    calculation,
    capability,
    reads_beside,
    reads_per_element,
    target_of,
    window,
)

ONE_SLOT = Fraction(1)
WIDEST_BYTES = max(SIZE_BYTES.values())


@dataclass(frozen=True, slots=True)
class SlotPace:
    """Groups of `group` elements, each in `slots` slots, after `fixed_cycles` before the first.

    slots: 1 or more; of n groups, rounded up when they are counted together. interval_cycles: the
    least distance from its start to the next instruction's start.
    """

    group: int
    slots: Fraction
    fixed_cycles: int
    interval_cycles: int


def pace_of(instruction: OnEngine, spec: Engine, chip: Chip) -> SlotPace:
    """Return the pace of an instruction on an engine of the chip."""
    group, slots, fixed = spec.elements_per_cycle, 1, spec.fixed_cycles
    interval = spec.min_interval_cycles
    for rate in spec.rates:
        if _holds(rate, instruction):
            group, slots = rate.elements, rate.cycles
            fixed = spec.fixed_cycles if rate.fixed_cycles is None else rate.fixed_cycles
            if rate.cycles_per_result:
                fixed += rate.cycles_per_result * target_of(instruction).elements
            if rate.min_interval_cycles is not None:
                interval = rate.min_interval_cycles
            break
    if isinstance(instruction, LocalGather) and spec.gathers is not None:
        group, taken = _of_a_gather(instruction, spec.gathers, chip.port_width_bytes)
        return SlotPace(group, taken, fixed, max(1, interval))
    passing = _passing(instruction, group, chip.port_width_bytes)
    # Most instructions take a slot for a group, and arithmetic of fractions is dear.
    taken = ONE_SLOT if slots * passing <= group else Fraction(slots * passing, group)
    return SlotPace(passing, taken, fixed, max(1, interval))


def _of_a_gather(gather: LocalGather, cost: Gathers, width: int) -> tuple[int, Fraction]:
    """Return as few elements as take a slot or more, or as pass a port, and their slots."""
    whole = cost.element_cycles * gather.each
    part = min(Fraction(cost.word_bytes, gather.source.element_bytes), Fraction(gather.each))
    one = part * Fraction(whole, cost.index_cycles + whole)
    group = _passing(gather, ceil(1 / one), width)
    return group, max(ONE_SLOT, one * group)


def _passing(instruction: OnEngine, group: int, width: int) -> int:
    """Return how many elements of a group pass the ports of the state buffer in a cycle."""
    if group * WIDEST_BYTES <= width:
        return group
    target = target_of(instruction)
    read = reads_per_element(instruction) + reads_beside(instruction)
    sources = [a for a in read if a.buffer is Buffer.STATE]
    counts = [group, *(width // a.element_bytes for a in sources)]
    if target.buffer is Buffer.STATE:
        counts.append(width // target.element_bytes * window(instruction))
    return min(counts)


def _holds(rate: Rate, instruction: OnEngine) -> bool:
    """Return whether the instruction is all that the rate asks for."""
    operands, target = reads_per_element(instruction), target_of(instruction)
    if rate.does and capability(instruction) not in rate.does:
        return False
    if rate.functions and calculation(instruction) not in rate.functions:
        return False
    if rate.value is not None and _memset_value(instruction) != rate.value:
        return False
    if rate.operands is not None and Counter(rate.operands) != Counter(_buffers(operands)):
        return False
    if rate.target is not None and rate.target != target.buffer.value:
        return False
    touched = (*operands, target)
    if rate.types and not {access.dtype for access in touched}.issubset(rate.types):
        return False
    return rate.stride_bytes is None or all(_step(a) <= rate.stride_bytes for a in touched)


def _memset_value(instruction: OnEngine) -> int | float | None:
    return instruction.value if isinstance(instruction, Memset) else None


def _buffers(accesses: tuple[Access, ...]) -> list[str]:
    return [access.buffer.value for access in accesses]


def _step(access: Access) -> int:
    """Return the bytes between neighbours in the innermost pair that has any."""
    for step, count in reversed(access.pattern):
        if count > 1:
            return abs(step * access.element_bytes)
    return 0
