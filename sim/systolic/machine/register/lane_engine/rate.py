"""Twin of `event.lane_engine.pace`: elements that an engine takes together, and their steps.

An engine's list of rates is gone through from its top; the first that fits the instruction holds. A
group that does not pass the ports of the state buffer in one step is divided: n elements of it have
their part of the steps of the whole group, but one at least.
"""

from __future__ import annotations

from typing import NamedTuple

from systolic.hw.spec import Engine, Rate
from systolic.isa import Access, Buffer, LocalGather, Memset, OnEngine
from systolic.isa.effects import (
    calculation,
    capability,
    reads_beside,
    reads_per_element,
    target_of,
    window,
)


class GroupRate(NamedTuple):
    """How many elements a group has, and from when to when its steps are.

    elements: of a group; groups, steps: the groups that take these steps, and any others in
    proportion, up to a whole step; fixed_cycles: before the first step of all; apart_cycles: from
    the start of the instruction to the next one's, at least.
    """

    elements: int
    groups: int
    steps: int
    fixed_cycles: int
    apart_cycles: int

    def steps_of(self, group: int) -> int:
        """Return the steps of a group; the first one has number 0."""
        return self._steps_before(group + 1) - self._steps_before(group)

    def _steps_before(self, group: int) -> int:
        return (group * self.steps + self.groups - 1) // self.groups


def group_rate(instruction: OnEngine, spec: Engine, width: int) -> GroupRate:
    """Return how an engine takes the elements of an instruction. width: bytes that pass a port."""
    found = [row for row in spec.rates if not _misfits(row, instruction)]
    elements, steps, fixed, apart = (
        spec.elements_per_cycle,
        1,
        spec.fixed_cycles,
        spec.min_interval_cycles,
    )
    if found:
        row = found[0]
        elements, steps = row.elements, row.cycles
        fixed = row.fixed_cycles if row.fixed_cycles is not None else fixed
        fixed += (row.cycles_per_result or 0) * target_of(instruction).elements
        apart = row.min_interval_cycles if row.min_interval_cycles is not None else apart
    if isinstance(instruction, LocalGather) and (cost := spec.gathers) is not None:
        size, each = instruction.source.element_bytes, instruction.each
        steps = cost.element_cycles * each * min(cost.word_bytes, size * each)
        elements = (cost.index_cycles + cost.element_cycles * each) * size
        return _small_groups(instruction, GroupRate(elements, 1, steps, fixed, apart), width)
    part = _elements_per_step(instruction, elements, width)
    if part * steps <= elements:
        return GroupRate(part, 1, 1, fixed, apart)
    return GroupRate(part, elements, part * steps, fixed, apart)


def _small_groups(gather: LocalGather, rate: GroupRate, width: int) -> GroupRate:
    """Return the rate with groups of the fewest elements that take a step or more."""
    fewest = -(-rate.elements // rate.steps)
    part = _elements_per_step(gather, fewest, width)
    if part * rate.steps <= rate.elements:
        return rate._replace(elements=part, groups=1, steps=1)
    return rate._replace(elements=part, groups=rate.elements, steps=part * rate.steps)


def _elements_per_step(instruction: OnEngine, most: int, width: int) -> int:
    """Return the most elements per lane, up to `most`, that pass every port in one step."""
    target = target_of(instruction)
    sources = (*reads_beside(instruction), *reads_per_element(instruction))

    def passes(access: Access, elements: int) -> bool:
        return access.buffer is not Buffer.STATE or elements * access.element_bytes <= width

    return next(
        count
        for count in range(most, 0, -1)
        if all(passes(access, count) for access in sources)
        and passes(target, -(-count // window(instruction)))
    )


def _misfits(row: Rate, instruction: OnEngine) -> bool:
    """Return whether a key of the row excludes the instruction."""
    read, written = list(reads_per_element(instruction)), [target_of(instruction)]
    places = sorted(str(access.buffer) for access in read)
    return any(
        (
            len(row.does) > 0 and capability(instruction) not in row.does,
            len(row.functions) > 0 and calculation(instruction) not in row.functions,
            row.value is not None
            and not (isinstance(instruction, Memset) and row.value == instruction.value),
            row.operands is not None and places != sorted(row.operands),
            row.target is not None and any(str(a.buffer) != row.target for a in written),
            len(row.types) > 0 and any(a.dtype not in row.types for a in read + written),
            row.stride_bytes is not None
            and any(_apart(a) > row.stride_bytes for a in read + written),
        )
    )


def _apart(access: Access) -> int:
    """Return how many bytes the elements of the innermost pair that has several are apart."""
    several = [step for step, count in access.pattern if count != 1]
    return abs(several[-1]) * access.element_bytes if several else 0
