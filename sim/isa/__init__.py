"""The instruction set: access patterns, instructions, programs, and the legality check."""

from sim.isa.access import Access, Buffer
from sim.isa.check import check_program
from sim.isa.instruction import (
    Activate,
    Copy,
    DmaCopy,
    Instruction,
    Iota,
    LoadWeights,
    MatMul,
    Memset,
    OnEngine,
    Pool,
    Post,
    Select,
    TensorScalar,
    TensorTensor,
    Wait,
)
from sim.isa.program import Program

__all__ = [
    "Access",
    "Activate",
    "Buffer",
    "Copy",
    "DmaCopy",
    "Instruction",
    "Iota",
    "LoadWeights",
    "MatMul",
    "Memset",
    "OnEngine",
    "Pool",
    "Post",
    "Program",
    "Select",
    "TensorScalar",
    "TensorTensor",
    "Wait",
    "check_program",
]
