"""The instruction set: access patterns, instructions, programs, and the legality check."""

from sim.isa.access import Access, Buffer
from sim.isa.check import check_program
from sim.isa.instruction import (
    Copy,
    DmaCopy,
    Instruction,
    LoadWeights,
    MatMul,
    Memset,
    Post,
    Wait,
)
from sim.isa.program import Program

__all__ = [
    "Access",
    "Buffer",
    "Copy",
    "DmaCopy",
    "Instruction",
    "LoadWeights",
    "MatMul",
    "Memset",
    "Post",
    "Program",
    "Wait",
    "check_program",
]
