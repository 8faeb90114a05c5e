"""Where an instruction reads and writes whose places are numbers that it reads as well. No time.

The chip checks such a number as it executes the instruction: a place beyond those that the
instruction names ends the run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from systolic.arrays import Array, Integers
from systolic.errors import SimulationError
from systolic.isa import LocalGather, OnEngine
from systolic.isa.effects import moved_access
from systolic.isa.opcodes import MOST, OFFSET


def offset_in(program: str, index: int, instruction: OnEngine, values: Array) -> int:
    """Return the offset that was read. values: [1, 1], int32; program, index: for messages.

    Raises:
        SimulationError: it is none that the instruction may have.

    """
    found, most = int(values[0, 0]), getattr(instruction, MOST)
    if not 0 <= found <= most:
        raise _beyond(program, index, instruction, f"{OFFSET}: needed 0 to {most} ({MOST})", found)
    return found


def _beyond(program: str, index: int, instruction: OnEngine, needed: str, found: int) -> Exception:
    where = f"{program}: instruction {index} ({type(instruction).__name__})"
    return SimulationError(f"{where}: {needed}, found {found}")


def moved(instruction: OnEngine, offset: int) -> OnEngine:
    """Return the instruction with what an offset moves at the place that it has then."""
    found = moved_access(instruction)
    assert found is not None
    name, access, _ = found
    place = replace(access, start=access.start + offset * access.element_bytes)
    changes: dict[str, Any] = {name: place}
    return replace(instruction, **changes)


def picked(
    program: str, index: int, gather: LocalGather, values: Array, part: slice = slice(None)
) -> Integers:
    """Return which elements of its partition a gather reads, [partitions, elements].

    values: the indices that were read, [partitions, elements of each], int32; part: for which
    elements of the target; program, index: for messages.

    Raises:
        SimulationError: an index is none of the source's elements, or too near to the last one.

    """
    elements = np.arange(gather.target.elements)[part]
    number, which = elements // gather.each, elements % gather.each
    first = np.arange(len(values)) // gather.group * gather.group
    found = values[first[:, None] + number % gather.group, number // gather.group]
    most = gather.source.elements - gather.each
    wrong = np.argwhere((found < 0) | (found > most))
    if len(wrong):
        lane, place = wrong[0]
        group = gather.source.partition + first[lane]
        needed = f"index {number[place]} of the partitions from {group} on: needed 0 to {most}"
        raise _beyond(program, index, gather, needed, int(found[lane, place]))
    columns: Integers = gather.source.offsets()[found + which]
    return columns
