"""What instructions read, write and post, told from their rows in `systolic.isa.opcodes`.

A new instruction needs nothing here. When things happen is not said here
(`systolic.isa.lint.guarantees`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from systolic.hw.functions import THEN
from systolic.hw.spec import Chip
from systolic.isa.access import Access
from systolic.isa.instruction import DmaCopy, Instruction, MatMul, OnEngine, Post
from systolic.isa.opcodes import BY_CLASS, MOST, OFFSET, Rhythm
from systolic.isa.program import Program
from systolic.isa.scales import scale_parts
from systolic.spans import Interval

Effects = Sequence[tuple[tuple[Access, ...], tuple[Access, ...]]]
"""Of each instruction of a program, what it reads (`reads`) and what it writes (`writes`)."""


def reads(instruction: Instruction) -> tuple[Access, ...]:
    """Return what an instruction reads: by element, per lane, beside, scales, accumulated, kept.

    Of what an offset moves these are all places that it may have.
    """
    operands = BY_CLASS[type(instruction)].operands
    found = _accesses(instruction, operands.all_read)
    if isinstance(instruction, OnEngine):
        if operands.moved is not None and operands.moved in operands.reads:
            found = _with_reach(instruction, operands.all_read)
        return (*found, writes(instruction)[0]) if keeps(instruction) else found
    if operands.scales:
        found += scales_touched(instruction)
    return found + writes(instruction) if accumulates(instruction) else found


def _with_reach(instruction: OnEngine, names: Iterable[str]) -> tuple[Access, ...]:
    """Return what these fields hold, and all places of the one that an offset moves."""
    moved = BY_CLASS[type(instruction)].operands.moved
    named = _named(instruction, names)
    return tuple([_swept(a, instruction) if name == moved else a for name, a in named])


def _swept(access: Access, instruction: OnEngine) -> Access:
    """Return the elements of all places that an access may be moved to, in no order."""
    most: int = getattr(instruction, MOST)
    *outer, (step, count) = access.pattern
    further = [(1, count + most)] if step == 1 else [(step, count), (1, most + 1)]
    return replace(access, pattern=(*outer, *further))


def moved_access(instruction: Instruction) -> tuple[str, Access, Access] | None:
    """Return what an offset moves: (field, its place at offset 0, all that it may reach)."""
    name = BY_CLASS[type(instruction)].operands.moved
    if name is None:
        return None
    assert isinstance(instruction, OnEngine)
    access: Access = getattr(instruction, name)
    return name, access, _swept(access, instruction)


def reads_per_lane(instruction: Instruction) -> tuple[Access, ...]:
    """Return the operands of an engine's instruction that have one element in each partition."""
    return _accesses(instruction, BY_CLASS[type(instruction)].operands.per_lane)


def reads_beside(instruction: Instruction) -> tuple[Access, ...]:
    """Return the operand that is read beside the first elements of another; it has few."""
    names = BY_CLASS[type(instruction)].operands.beside
    return _accesses(instruction, names) if names else ()  # it is asked often, and most have none


def few_per_lane(instruction: Instruction) -> list[tuple[str, Access, int]]:
    """Return what has a fixed number of elements in each partition: (field, access, number).

    What is written element by element is not among it, nor is an offset: it has one element in all.
    """
    operands = BY_CLASS[type(instruction)].operands
    single = [one for one in _named(instruction, operands.per_lane) if one[0] != OFFSET]
    if (few := operands.few) is None:
        return [(*one, 1) for one in single]
    several = _named(instruction, operands.beside + operands.results)
    return [(*one, 1) for one in single] + [(*one, few) for one in several]


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
    """Return the operands of an engine's instruction that are read element by element.

    Of one from which elements are picked, its first element stands for each of them.
    """
    operands = BY_CLASS[type(instruction)].operands
    found = _accesses(instruction, operands.reads)
    if operands.picked is None:  # it is asked often, and most pick none
        return found
    assert isinstance(instruction, OnEngine)
    (source,) = found
    return (replace(source, pattern=((0, target_of(instruction).elements),)),)


def picked_access(instruction: Instruction) -> Access | None:
    """Return the access from which an instruction picks elements, by numbers that it reads."""
    name = BY_CLASS[type(instruction)].operands.picked
    return None if name is None else getattr(instruction, name)


def writes(instruction: Instruction) -> tuple[Access, ...]:
    """Return the accesses an instruction writes: by element, their scales, then once per lane.

    Of a target that an offset moves these are all places that it may have.
    """
    operands = BY_CLASS[type(instruction)].operands
    if operands.moved is not None and operands.moved in operands.writes:
        assert isinstance(instruction, OnEngine)
        return _with_reach(instruction, operands.all_written)
    if operands.scales and isinstance(instruction, OnEngine):
        target = _accesses(instruction, operands.writes)
        return target + scales_touched(instruction) + results_per_lane(instruction)
    return _accesses(instruction, operands.all_written)


def effects_of(program: Program) -> Effects:
    """Return what each instruction reads, and what it writes."""
    return [(reads(instruction), writes(instruction)) for instruction in program.instructions]


def scales_of(instruction: Instruction) -> Access | None:
    """Return the access to the scales of an instruction, from the first partition to the last."""
    names = BY_CLASS[type(instruction)].operands.scales
    if not names:  # it is asked often, and most have none
        return None
    (scales,) = _accesses(instruction, names)
    return scales


def scales_touched(instruction: Instruction) -> tuple[Access, ...]:
    """Return what the scales of an instruction touch: an access for each quadrant."""
    scales = scales_of(instruction)
    return () if scales is None else scale_parts(scales)


def target_of(instruction: OnEngine) -> Access:
    """Return what an engine's instruction writes element by element."""
    (target,) = _accesses(instruction, BY_CLASS[type(instruction)].operands.writes)
    return target


def results_per_lane(instruction: Instruction) -> tuple[Access, ...]:
    """Return what an engine's instruction writes once per lane, behind its target."""
    return _accesses(instruction, BY_CLASS[type(instruction)].operands.results)


def elements_taken(instruction: OnEngine) -> int:
    """Return how many elements of each lane an engine takes, one group after another.

    They belong to an operand that is read element by element; without one, to the target.
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
    """Return (read, made): how many elements of each operand make how many of the target."""
    operands = BY_CLASS[type(instruction)].operands
    if operands.block is not None:
        side = int(getattr(instruction, operands.block))
        return side, side
    if operands.is_whole:
        return elements_taken(instruction), target_of(instruction).elements
    if operands.made is not None:
        return elements_taken(instruction), operands.made
    if operands.group is not None:
        return operands.group, operands.group
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


def times(instruction: Instruction, post: Post, chip: Chip) -> int:
    """Return how often an instruction makes a post on a chip."""
    if isinstance(instruction, DmaCopy):
        return chip.dma.posts_per_copy
    if post.on == "done" or not isinstance(instruction, MatMul):
        return 1
    return instruction.vectors if post.on == "row" else instruction.result.partitions
