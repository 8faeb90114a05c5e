"""What instructions read, write and post, told from the names of their fields.

A field that is an access and is called `target` or `result` is written; every other access is read;
with `accumulate` the result is read as well. A new instruction that keeps to these names needs
nothing here. When things happen is not said here (`sim.isa.structure`).
"""

from __future__ import annotations

from sim.isa.access import Access
from sim.isa.instruction import Instruction, MatMul, Post
from sim.isa.opcodes import OPCODES, Kind, Opcode

WRITTEN = ("target", "result")


def _access_fields(opcode: Opcode) -> tuple[tuple[str, ...], tuple[str, ...]]:
    names = [field.name for field in opcode.fields if field.kind is Kind.ACCESS]
    return (
        tuple(name for name in names if name not in WRITTEN),
        tuple(name for name in names if name in WRITTEN),
    )


_FIELDS: dict[type, tuple[tuple[str, ...], tuple[str, ...]]] = {
    opcode.cls: _access_fields(opcode) for opcode in OPCODES
}


def reads(instruction: Instruction) -> tuple[Access, ...]:
    """Return the accesses an instruction reads, its first operand first."""
    operands, results = _FIELDS[type(instruction)]
    found = [getattr(instruction, name) for name in operands]
    if getattr(instruction, "accumulate", False):
        found += [getattr(instruction, name) for name in results]
    return tuple(access for access in found if access is not None)


def writes(instruction: Instruction) -> tuple[Access, ...]:
    """Return the accesses an instruction writes."""
    _, results = _FIELDS[type(instruction)]
    return tuple(getattr(instruction, name) for name in results)


def lanes(instruction: Instruction) -> tuple[int, int]:
    """Return the lanes an engine's instruction holds: its first operand's, else its target's."""
    operands, results = _FIELDS[type(instruction)]
    access: Access = getattr(instruction, (operands or results)[0])
    return access.partition, access.partition + access.partitions


def times(instruction: Instruction, post: Post) -> int:
    """Return how often an instruction makes a post."""
    if post.on == "done" or not isinstance(instruction, MatMul):
        return 1
    return instruction.moving.elements if post.on == "row" else instruction.result.partitions
