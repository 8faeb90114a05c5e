"""The instruction set: instructions and programs as values, files of them, and their checker.

Everything public of the package is here; what its modules have besides is their own affair.

* What a program is made of: Access, Buffer, the instructions, Wait, Post, Program.
* What a program file holds: Module, Binding, Part; `load_module` reads one in either form.
* The two forms: `parse_text` and `format_text`, `decode` and `encode`.
* Is it right? `check_program` (legal on a chip), `lint` and `require_clean` (races besides).
"""

from typing import TYPE_CHECKING

from systolic.isa import instruction
from systolic.isa.access import Access, Buffer
from systolic.isa.instruction import *  # noqa: F403
from systolic.isa.legality.program import check_program
from systolic.isa.lint.diagnostic import Diagnostic
from systolic.isa.lint.lint import lint, require_clean
from systolic.isa.program import Program
from systolic.lazy import loader as _loader

if TYPE_CHECKING:
    from systolic.isa.formats.binary import decode, encode, is_binary
    from systolic.isa.formats.boxes import parts_of
    from systolic.isa.formats.chip_module import AnyModule, ChipModule, Section
    from systolic.isa.formats.files import load_module, module_of
    from systolic.isa.formats.module import (
        Binding,
        Module,
        Part,
        check_bindings,
        check_bindings_on,
        element_type,
    )
    from systolic.isa.formats.pack import instruction_bytes
    from systolic.isa.formats.read_text import parse_text
    from systolic.isa.formats.write_text import format_access, format_instruction, format_text

# Few runs read or write a program file.
LAZY = {
    "formats.binary": "decode encode is_binary",
    "formats.boxes": "parts_of",
    "formats.chip_module": "AnyModule ChipModule Section",
    "formats.files": "load_module module_of",
    "formats.module": "Binding Module Part check_bindings check_bindings_on element_type",
    "formats.pack": "instruction_bytes",
    "formats.read_text": "parse_text",
    "formats.write_text": "format_access format_instruction format_text",
}
__getattr__ = _loader(__name__, LAZY)

__all__ = [
    "Access",
    "AnyModule",
    "Binding",
    "Buffer",
    "ChipModule",
    "Diagnostic",
    "Module",
    "Part",
    "Program",
    "Section",
    "check_bindings",
    "check_bindings_on",
    "check_program",
    "decode",
    "element_type",
    "encode",
    "format_access",
    "format_instruction",
    "format_text",
    "instruction_bytes",
    "is_binary",
    "lint",
    "load_module",
    "module_of",
    "parse_text",
    "parts_of",
    "require_clean",
]
__all__ += instruction.__all__  # every instruction, and the words of their fields
