"""What instructions read, write and post, told from the names of their fields.

A field that is an access and is called `target` or `result` is written; every other access is read;
with `accumulate` the result is read as well. A new instruction that keeps to these names needs
nothing here. When things happen is not said here (`sim.isa.structure`).
"""

from __future__ import annotations

from functools import cache

from sim.isa.access import Access
from sim.isa.instruction import Instruction, MatMul, Post
from sim.isa.opcodes import BY_CLASS, Kind

WRITTEN = ("target", "result")


@cache
def _access_fields(cls: type) -> tuple[tuple[str, ...], tuple[str, ...]]:
    names = [f.name for f in BY_CLASS[cls].fields if f.kind is Kind.ACCESS]
    return (
        tuple(name for name in names if name not in WRITTEN),
        tuple(name for name in names if name in WRITTEN),
    )


def reads(instruction: Instruction) -> tuple[Access, ...]:
    """Return the accesses an instruction reads, its first operand first."""
    operands, results = _access_fields(type(instruction))
    found = [getattr(instruction, name) for name in operands]
    if getattr(instruction, "accumulate", False):
        found += [getattr(instruction, name) for name in results]
    return tuple(access for access in found if access is not None)


def writes(instruction: Instruction) -> tuple[Access, ...]:
    """Return the accesses an instruction writes."""
    _, results = _access_fields(type(instruction))
    return tuple(getattr(instruction, name) for name in results)


def lanes(instruction: Instruction) -> tuple[int, int]:
    """Return the lanes an engine's instruction holds: its first operand's, else its target's."""
    operands, results = _access_fields(type(instruction))
    access: Access = getattr(instruction, (operands or results)[0])
    return access.partition, access.partition + access.partitions


def times(instruction: Instruction, post: Post) -> int:
    """Return how often an instruction makes a post."""
    if post.on == "done" or not isinstance(instruction, MatMul):
        return 1
    return instruction.moving.elements if post.on == "row" else instruction.result.partitions
