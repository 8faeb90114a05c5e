"""What instructions read, write and post, told from their rows in `systolic.isa.opcodes`.

A new instruction needs nothing here. When things happen is not said here
(`systolic.isa.lint.guarantees`).
"""

from __future__ import annotations

from collections.abc import Iterable

from systolic.hw.functions import THEN
from systolic.isa.access import Access
from systolic.isa.instruction import Instruction, MatMul, OnEngine, Post
from systolic.isa.opcodes import BY_CLASS, Rhythm
from systolic.spans import Interval


def reads(instruction: Instruction) -> tuple[Access, ...]:
    """Return what an instruction reads: by element, per lane, beside, accumulated, kept."""
    operands = BY_CLASS[type(instruction)].operands
    found = _accesses(instruction, operands.reads + operands.per_lane + operands.beside)
    if isinstance(instruction, OnEngine):
        return (*found, target_of(instruction)) if keeps(instruction) else found
    return found + writes(instruction) if accumulates(instruction) else found


def reads_per_lane(instruction: Instruction) -> tuple[Access, ...]:
    """Return the operands of an engine's instruction that have one element in each partition."""
    return _accesses(instruction, BY_CLASS[type(instruction)].operands.per_lane)


def reads_beside(instruction: Instruction) -> tuple[Access, ...]:
    """Return the operand that is read beside the first elements of another; it has few."""
    names = BY_CLASS[type(instruction)].operands.beside
    return _accesses(instruction, names) if names else ()  # it is asked often, and most have none


def few_per_lane(instruction: Instruction) -> list[tuple[str, Access, int]]:
    """Return what has a fixed number of elements in each partition: (field, access, number).

    What is written element by element is not among it.
    """
    operands = BY_CLASS[type(instruction)].operands
    single = _named(instruction, operands.per_lane)
    several = _named(instruction, operands.beside + operands.results)
    return [(*one, 1) for one in single] + [(*one, operands.few) for one in several]


def per_element_operands(instruction: Instruction) -> list[tuple[str, Access]]:
    """Return what is read element by element, with the names of the fields."""
    return _named(instruction, BY_CLASS[type(instruction)].operands.reads)


def accesses(instruction: Instruction) -> list[tuple[str, Access]]:
    """Return all that an instruction reads and writes, with the names of the fields."""
    return _named(instruction, [field.name for field in BY_CLASS[type(instruction)].fields])


def _named(instruction: Instruction, names: Iterable[str]) -> list[tuple[str, Access]]:
    values = [(name, getattr(instruction, name)) for name in names]
    return [(name, value) for name, value in values if isinstance(value, Access)]


def reads_per_element(instruction: Instruction) -> tuple[Access, ...]:
    """Return the operands of an engine's instruction that are read element by element."""
    return _accesses(instruction, BY_CLASS[type(instruction)].operands.reads)


def writes(instruction: Instruction) -> tuple[Access, ...]:
    """Return the accesses an instruction writes: element by element, then once per lane."""
    operands = BY_CLASS[type(instruction)].operands
    return _accesses(instruction, operands.writes + operands.results)


def target_of(instruction: OnEngine) -> Access:
    """Return what an engine's instruction writes element by element."""
    (target,) = _accesses(instruction, BY_CLASS[type(instruction)].operands.writes)
    return target


def results_per_lane(instruction: Instruction) -> tuple[Access, ...]:
    """Return what an engine's instruction writes once per lane, behind its target."""
    return _accesses(instruction, BY_CLASS[type(instruction)].operands.results)


def elements_taken(instruction: OnEngine) -> int:
    """Return how many elements of each lane an engine takes, one group after another.

    They are those of an operand that is read element by element; without one, of the target.
    """
    return (*reads_per_element(instruction), target_of(instruction))[0].elements


def accumulates(instruction: Instruction) -> bool:
    """Return whether an instruction adds to what it writes, and so reads it as well."""
    flag = BY_CLASS[type(instruction)].operands.accumulate
    return flag is not None and bool(getattr(instruction, flag))


def keeps(instruction: OnEngine) -> bool:
    """Return whether an engine's instruction leaves some of what it writes as it is."""
    rule = BY_CLASS[type(instruction)].operands.keeps
    return rule is not None and rule(instruction)


def reads_its_target(instruction: Instruction) -> bool:
    """Return whether an instruction takes what it writes into account: it adds to it, or keeps."""
    if isinstance(instruction, OnEngine):
        return keeps(instruction)
    return accumulates(instruction)


def block(instruction: OnEngine) -> tuple[int, int]:
    """Return (read, made): so many elements of each operand make so many of the target."""
    operands = BY_CLASS[type(instruction)].operands
    if operands.block is not None:
        side = int(getattr(instruction, operands.block))
        return side, side
    if operands.made is not None:
        return elements_taken(instruction), operands.made
    return window(instruction), 1


def is_running(instruction: OnEngine) -> bool:
    """Return whether an element of the target depends on those before it."""
    return BY_CLASS[type(instruction)].operands.is_running


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


def calculation(instruction: Instruction) -> str:
    """Return the words of what it calculates, joined if they are two; "" if it only moves."""
    return THEN.join(steps(instruction))


def steps(instruction: Instruction) -> list[str]:
    """Return the words of what it calculates, one for each step; none if it only moves."""
    row = BY_CLASS[type(instruction)]
    words = [getattr(instruction, field.name) for field in row.fields if field.words]
    return [word for word in words if word is not None]


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
    return instruction.vectors if post.on == "row" else instruction.result.partitions
