"""Which engines of a chip may execute an instruction, and how fast: for legality, lint, compiler.

The two engines that simulate the machine find the rate of an instruction on their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from systolic.hw.spec import Chip, Engine, Rate
from systolic.isa.access import Access, Buffer
from systolic.isa.effects import capability, reads_per_element, window, writes
from systolic.isa.instruction import OnEngine
from systolic.isa.opcodes import BY_CLASS


class Pace(NamedTuple):
    """An instruction takes groups of `elements` elements, each in `cycles` cycles.

    cycles: 1 or more; those of several groups are rounded up together. fixed_cycles: before the
    first.
    """

    elements: int
    cycles: Fraction
    fixed_cycles: int

    def cycles_for(self, elements: int) -> int:
        """Return the cycles that so many elements of a lane take."""
        return math.ceil(-(-elements // self.elements) * self.cycles)


def able_engines(instruction: OnEngine, chip: Chip) -> list[str]:
    """Return the engines of the chip that do what the instruction is, in the chip's order."""
    word = capability(instruction)
    return [name for name, engine in chip.lane_engines.items() if word in engine.does]


def out_of_reach(instruction: OnEngine, engine: Engine) -> Iterator[tuple[str, str, Access]]:
    """Yield (field, "reads" or "writes", access) of what lies where the engine does not reach."""
    operands = BY_CLASS[type(instruction)].operands
    for verb, names, buffers in (
        ("reads", operands.reads + operands.per_lane, engine.reads),
        ("writes", operands.writes, engine.writes),
    ):
        for name in names:
            value = getattr(instruction, name)
            if isinstance(value, Access) and value.buffer.value not in buffers:
                yield name, verb, value


def pace_of(instruction: OnEngine, engine: Engine, chip: Chip) -> Pace:
    """Return how fast an engine of the chip executes an instruction.

    The first rate that fits it counts, and what passes the ports of the state buffer in a cycle: a
    group of more elements is cut into such as pass, which are no faster together.
    """
    row = next((row for row in engine.rates if _fits(row, instruction)), None)
    most, cycles, fixed = engine.elements_per_cycle, 1, engine.fixed_cycles
    if row is not None:
        most, cycles = row.elements, row.cycles
        fixed = engine.fixed_cycles if row.fixed_cycles is None else row.fixed_cycles
    elements = min([most, *_passing(instruction, chip)])
    return Pace(elements, max(Fraction(1), Fraction(cycles * elements, most)), fixed)


def _passing(instruction: OnEngine, chip: Chip) -> Iterator[int]:
    """Yield how many elements pass each port of the state buffer that the instruction needs."""
    parts = [(access, 1) for access in reads_per_element(instruction)]
    parts += [(access, window(instruction)) for access in writes(instruction)]
    for access, elements in parts:
        if access.buffer is Buffer.STATE:
            yield chip.port_width_bytes // access.element_bytes * elements


def _fits(row: Rate, instruction: OnEngine) -> bool:
    if row.does and capability(instruction) not in row.does:
        return False
    operands, targets = reads_per_element(instruction), writes(instruction)
    if row.operands is not None:
        found = sorted(access.buffer.value for access in operands)
        if found != sorted(row.operands):
            return False
    every = operands + targets
    return (
        (row.target is None or all(access.buffer.value == row.target for access in targets))
        and (not row.types or all(access.dtype in row.types for access in every))
        and (row.stride_bytes is None or max(map(stride_bytes, every)) <= row.stride_bytes)
    )


def stride_bytes(access: Access) -> int:
    """Return the bytes from an element to the next in the innermost pair of more than one."""
    steps = [abs(step) for step, count in access.pattern if count > 1]
    return steps[-1] * access.element_bytes if steps else 0
