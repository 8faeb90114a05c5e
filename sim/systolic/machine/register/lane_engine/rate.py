"""How many elements of a lane an engine takes together, and in how many steps: chip data.

An engine's list of rates is gone through from its top; the first that fits the instruction holds.
"""

from __future__ import annotations

from typing import NamedTuple

from systolic.hw.spec import Engine, Rate
from systolic.isa import Access, OnEngine
from systolic.isa.effects import capability, reads_per_element, writes


class GroupRate(NamedTuple):
    """elements: of a group; steps: of each group; fixed_cycles: before the first step of all."""

    elements: int
    steps: int
    fixed_cycles: int


def group_rate(instruction: OnEngine, spec: Engine) -> GroupRate:
    """Return how an engine takes the elements of an instruction."""
    found = [row for row in spec.rates if not _misfits(row, instruction)]
    if not found:
        return GroupRate(spec.elements_per_cycle, 1, spec.fixed_cycles)
    row = found[0]
    fixed = row.fixed_cycles if row.fixed_cycles is not None else spec.fixed_cycles
    return GroupRate(row.elements, row.cycles, fixed)


def _misfits(row: Rate, instruction: OnEngine) -> bool:
    """Return whether a key of the row excludes the instruction."""
    read, written = list(reads_per_element(instruction)), list(writes(instruction))
    places = sorted(str(access.buffer) for access in read)
    return any((
        len(row.does) > 0 and capability(instruction) not in row.does,
        row.operands is not None and places != sorted(row.operands),
        row.target is not None and any(str(a.buffer) != row.target for a in written),
        len(row.types) > 0 and any(a.dtype not in row.types for a in read + written),
        row.stride_bytes is not None
        and any(_apart(a) > row.stride_bytes for a in read + written),
    ))  # fmt: skip


def _apart(access: Access) -> int:
    """Return how many bytes the elements of the innermost pair that has several are apart."""
    several = [step for step, count in access.pattern if count != 1]
    return abs(several[-1]) * access.element_bytes if several else 0
