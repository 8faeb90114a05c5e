"""The instruction set: instructions and programs as values, files of them, and their checker.

Everything public of the package is here; what its modules have besides is their own affair.

* What a program is made of: Access, Buffer, the instructions, Wait, Post, Program.
* What a program file holds: Module, Binding, Part; `load_module` reads one in either form.
* The two forms: `parse_text` and `format_text`, `decode` and `encode`.
* Is it right? `check_program` (legal on a chip), `lint` and `require_clean` (races besides).
"""

from sim.isa.access import Access, Buffer
from sim.isa.binary import decode, encode, is_binary
from sim.isa.bindings import Binding, Module, Part, check_bindings
from sim.isa.bindings_on_chip import check_bindings_on, element_type
from sim.isa.boxes import parts_of
from sim.isa.check import check_program
from sim.isa.diagnostic import Diagnostic
from sim.isa.files import load_module, module_of
from sim.isa.instruction import (
    Activate,
    Comparison,
    Copy,
    DmaCopy,
    EngineName,
    Event,
    Function,
    Instruction,
    Iota,
    LoadWeights,
    MatMul,
    Memset,
    OnEngine,
    Operation,
    Pool,
    Post,
    Reduction,
    Select,
    TensorScalar,
    TensorTensor,
    Wait,
)
from sim.isa.lint import lint, require_clean
from sim.isa.parse import parse_text
from sim.isa.program import Program
from sim.isa.text import format_access, format_instruction, format_text

__all__ = [
    "Access",
    "Activate",
    "Binding",
    "Buffer",
    "Comparison",
    "Copy",
    "Diagnostic",
    "DmaCopy",
    "EngineName",
    "Event",
    "Function",
    "Instruction",
    "Iota",
    "LoadWeights",
    "MatMul",
    "Memset",
    "Module",
    "OnEngine",
    "Operation",
    "Part",
    "Pool",
    "Post",
    "Program",
    "Reduction",
    "Select",
    "TensorScalar",
    "TensorTensor",
    "Wait",
    "check_bindings",
    "check_bindings_on",
    "check_program",
    "decode",
    "element_type",
    "encode",
    "format_access",
    "format_instruction",
    "format_text",
    "is_binary",
    "lint",
    "load_module",
    "module_of",
    "parse_text",
    "parts_of",
    "require_clean",
]
