"""What instructions read, write and post, told from the names of their fields.

A field that is an access and is called `target` or `result` is written; every other access is read;
with `accumulate` the result is read as well. A field that is an access or a number is read once per
lane, unless it is the first operand. A new instruction that keeps to these names needs
nothing here. When things happen is not said here (`systolic.isa.lint.guarantees`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from systolic.isa.access import Access
from systolic.isa.instruction import Instruction, MatMul, Post
from systolic.isa.opcodes import OPCODES, Kind, Opcode

WRITTEN = ("target", "result")


@dataclass(frozen=True, slots=True)
class _Names:
    """Names of the fields of a class that are operands (the first one first) or results.

    An operand is read per lane or per element.
    """

    operands: tuple[str, ...]
    per_lane: tuple[str, ...]
    per_element: tuple[str, ...]
    results: tuple[str, ...]


def _names(opcode: Opcode) -> _Names:
    kinds = {f.name: f.kind for f in opcode.fields if f.kind in (Kind.ACCESS, Kind.OPERAND)}
    operands = tuple(name for name in kinds if name not in WRITTEN)
    per_lane = tuple(name for name in operands[1:] if kinds[name] is Kind.OPERAND)
    return _Names(
        operands,
        per_lane,
        tuple(name for name in operands if name not in per_lane),
        tuple(name for name in kinds if name in WRITTEN),
    )


_NAMES: dict[type, _Names] = {opcode.cls: _names(opcode) for opcode in OPCODES}


def _accesses(instruction: Instruction, names: Iterable[str]) -> tuple[Access, ...]:
    return tuple([v for name in names if isinstance(v := getattr(instruction, name), Access)])


def reads(instruction: Instruction) -> tuple[Access, ...]:
    """Return the accesses an instruction reads, its first operand first."""
    names = _NAMES[type(instruction)]
    found = _accesses(instruction, names.operands)
    if getattr(instruction, "accumulate", False):
        found += _accesses(instruction, names.results)
    return found


def reads_per_lane(instruction: Instruction) -> tuple[Access, ...]:
    """Return the operands of an engine's instruction that have one element in each partition."""
    return _accesses(instruction, _NAMES[type(instruction)].per_lane)


def reads_per_element(instruction: Instruction) -> tuple[Access, ...]:
    """Return the operands of an engine's instruction that are read element by element."""
    return _accesses(instruction, _NAMES[type(instruction)].per_element)


def writes(instruction: Instruction) -> tuple[Access, ...]:
    """Return the accesses an instruction writes."""
    return _accesses(instruction, _NAMES[type(instruction)].results)


def lanes(instruction: Instruction) -> tuple[int, int]:
    """Return the lanes an engine's instruction holds: its first operand's, else its target's."""
    access = (reads_per_element(instruction) or writes(instruction))[0]
    return access.partition, access.partition + access.partitions


def times(instruction: Instruction, post: Post) -> int:
    """Return how often an instruction makes a post."""
    if post.on == "done" or not isinstance(instruction, MatMul):
        return 1
    return instruction.moving.elements if post.on == "row" else instruction.result.partitions
