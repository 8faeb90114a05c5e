"""The text form of a program: one instruction per line, `#` begins a comment.

`parse_text(format_text(m)) == m` for every module, legal or not, and printing what was parsed
changes nothing but blanks and comments. The grammar stands in docs/program_format.md. Printing is
here, reading in `systolic.isa.formats.read_text`; whether a program is legal is for
`systolic.isa.legality` to say.
"""

from __future__ import annotations

from typing import Any

from systolic.isa.access import Access
from systolic.isa.formats.cursor import quoted, spelled
from systolic.isa.formats.module import Binding, Module, as_module
from systolic.isa.formats.read_text import VERSION, parse_text
from systolic.isa.instruction import Instruction, Post
from systolic.isa.opcodes import BARE, BY_CLASS
from systolic.isa.program import Program

__all__ = ["VERSION", "format_access", "format_instruction", "format_text", "parse_text"]


def format_text(program: Program | Module) -> str:
    """Return the canonical text of a program."""
    module = as_module(program)
    lines = [f"systolic program {VERSION}", f"program {quoted(module.program.name)}"]
    if module.chip:
        lines.append(f"chip {quoted(module.chip)}")
    for number, name in enumerate(module.program.semaphores):
        lines.append(f"semaphore s{number} {quoted(name)}")
    for kind, bindings in (("input", module.inputs), ("output", module.outputs)):
        for binding in bindings:
            lines += _binding_lines(kind, binding)
    lines.append("")
    lines += [format_instruction(i) for i in module.program.instructions]
    return "\n".join(lines) + "\n"


def format_instruction(instruction: Instruction) -> str:
    """Return the line of one instruction."""
    opcode = BY_CLASS[type(instruction)]
    words = [opcode.mnemonic]
    for field in opcode.fields:
        value = getattr(instruction, field.name)
        if field.name in BARE:
            words.append(BARE[field.name] + _value_text(value))
        elif value is True:
            words.append(field.name)
        elif field.required or value != field.default:
            words.append(f"{field.name}={_value_text(value)}")
    if instruction.waits:
        words.append(" wait " + " ".join(f"s{w.semaphore}>={w.value}" for w in instruction.waits))
    if instruction.posts:
        words.append(" post " + " ".join(map(_post_text, instruction.posts)))
    return " ".join(words)


def _post_text(post: Post) -> str:
    return f"s{post.semaphore}" + ("" if post.on == "done" else f":{post.on}")


def _value_text(value: Any) -> str:
    if isinstance(value, Access):
        return format_access(value)
    if isinstance(value, str):
        return spelled(value)
    if isinstance(value, tuple):
        return "(" + ", ".join(map(str, value)) + ")"
    if value is None:
        return "none"
    return repr(value.item() if hasattr(value, "item") else value).lower()


def format_access(access: Access) -> str:
    """Return an access as ``state_buffer[0:4]+16 f32 (1x4)``."""
    last = access.partition + access.partitions
    pairs = " ".join(f"{step}x{count}" for step, count in access.pattern)
    where = f"{access.buffer}[{access.partition}:{last}]+{access.start}"
    return f"{where} {spelled(access.dtype)} ({pairs})"


def _binding_lines(kind: str, binding: Binding) -> list[str]:
    shape = ", ".join(map(str, binding.shape))
    head = f"{kind} {spelled(binding.name)} ({shape})"
    if binding.is_whole:
        return [f"{head} = {format_access(binding.parts[0].access)}"]
    return [head] + [
        f"  [{', '.join(f'{a}:{b}' for a, b in part.box)}] = {format_access(part.access)}"
        for part in binding.parts
    ]
