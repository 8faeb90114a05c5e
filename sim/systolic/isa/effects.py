"""What instructions read, write and post, told from their rows in `systolic.isa.opcodes`.

A new instruction needs nothing here. When things happen is not said here
(`systolic.isa.lint.guarantees`).
"""

from __future__ import annotations

from collections.abc import Iterable

from systolic.isa.access import Access
from systolic.isa.instruction import Instruction, MatMul, Post
from systolic.isa.opcodes import BY_CLASS, Rhythm
from systolic.spans import Interval


def reads(instruction: Instruction) -> tuple[Access, ...]:
    """Return the accesses an instruction reads: element by element, per lane, accumulated."""
    operands = BY_CLASS[type(instruction)].operands
    found = _accesses(instruction, operands.reads + operands.per_lane)
    return found + writes(instruction) if accumulates(instruction) else found


def reads_per_lane(instruction: Instruction) -> tuple[Access, ...]:
    """Return the operands of an engine's instruction that have one element in each partition."""
    return _accesses(instruction, BY_CLASS[type(instruction)].operands.per_lane)


def per_lane_operands(instruction: Instruction) -> list[tuple[str, Access]]:
    """Return those operands with the names of their fields."""
    return _named(instruction, BY_CLASS[type(instruction)].operands.per_lane)


def per_element_operands(instruction: Instruction) -> list[tuple[str, Access]]:
    """Return what is read element by element, with the names of the fields."""
    return _named(instruction, BY_CLASS[type(instruction)].operands.reads)


def _named(instruction: Instruction, names: Iterable[str]) -> list[tuple[str, Access]]:
    values = [(name, getattr(instruction, name)) for name in names]
    return [(name, value) for name, value in values if isinstance(value, Access)]


def reads_per_element(instruction: Instruction) -> tuple[Access, ...]:
    """Return the operands of an engine's instruction that are read element by element."""
    return _accesses(instruction, BY_CLASS[type(instruction)].operands.reads)


def writes(instruction: Instruction) -> tuple[Access, ...]:
    """Return the accesses an instruction writes."""
    return _accesses(instruction, BY_CLASS[type(instruction)].operands.writes)


def accumulates(instruction: Instruction) -> bool:
    """Return whether an instruction adds to what it writes, and so reads it as well."""
    flag = BY_CLASS[type(instruction)].operands.accumulate
    return flag is not None and bool(getattr(instruction, flag))


def window(instruction: Instruction) -> int:
    """Return how many elements of its operand an engine's instruction makes one result of."""
    name = BY_CLASS[type(instruction)].operands.window
    return 1 if name is None else int(getattr(instruction, name))


def rhythm(instruction: Instruction) -> Rhythm:
    """Return in which rhythm an engine reads and writes for one of its instructions."""
    found = BY_CLASS[type(instruction)].operands.rhythm
    assert found is not None, f"{type(instruction).__name__} is of no engine"
    return found


def capability(instruction: Instruction) -> str:
    """Return what an engine must be able to do to execute the instruction: its mnemonic."""
    return BY_CLASS[type(instruction)].mnemonic


def lanes(instruction: Instruction) -> Interval:
    """Return the lanes an engine's instruction holds: its first operand's, else its target's."""
    return (reads_per_element(instruction) or writes(instruction))[0].lanes


def _accesses(instruction: Instruction, names: Iterable[str]) -> tuple[Access, ...]:
    """Return what these fields hold, without the numbers among it."""
    return tuple([v for name in names if isinstance(v := getattr(instruction, name), Access)])


def times(instruction: Instruction, post: Post) -> int:
    """Return how often an instruction makes a post."""
    if post.on == "done" or not isinstance(instruction, MatMul):
        return 1
    return instruction.moving.elements if post.on == "row" else instruction.result.partitions
