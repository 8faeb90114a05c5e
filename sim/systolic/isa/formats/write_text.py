"""The text form of a program: one instruction per line, `#` begins a comment.

`parse_text(format_text(m)) == m` for every module, legal or not, and printing what was parsed
changes nothing but blanks and comments. The grammar stands in docs/program_format.md. Printing is
here, reading in `systolic.isa.formats.read_text`; whether a program is legal is for
`systolic.isa.legality` to say.
"""

from __future__ import annotations

from typing import Any

from systolic.isa.access import Access
from systolic.isa.formats.chip_module import ChipModule, Section
from systolic.isa.formats.cursor import quoted, spelled
from systolic.isa.formats.module import Binding, Module, as_module
from systolic.isa.formats.read_text import CHIP_VERSION, MOVED, VERSION, parse_text
from systolic.isa.instruction import Command, DmaMove, Instruction, Post, RemotePost, Wait
from systolic.isa.instruction.on_dma import CODE
from systolic.isa.opcodes import BARE, BY_CLASS
from systolic.isa.program import Program

__all__ = ["VERSION", "format_access", "format_instruction", "format_text", "parse_text"]


def format_text(program: Program | Module | ChipModule) -> str:
    """Return the canonical text of a program."""
    if isinstance(program, ChipModule):
        return _chip_text(program)
    module = as_module(program)
    lines = [f"systolic program {VERSION}", f"program {quoted(module.program.name)}"]
    if module.chip:
        lines.append(f"chip {quoted(module.chip)}")
    lines += [*_names(module), "", *map(format_instruction, module.program.instructions)]
    return "\n".join(lines) + "\n"


def _names(module: Module) -> list[str]:
    """Return the lines of semaphores, inputs and outputs."""
    lines = [f"semaphore s{n} {quoted(name)}" for n, name in enumerate(module.program.semaphores)]
    for kind, bindings in (("input", module.inputs), ("output", module.outputs)):
        for binding in bindings:
            lines += _binding_lines(kind, binding)
    return lines


def _chip_text(module: ChipModule) -> str:
    lines = [f"systolic program {CHIP_VERSION}", f"program {quoted(module.name)}"]
    if module.chip:
        lines.append(f"chip {quoted(module.chip)}")
    for section in module.sections:
        lines += ["", *_section_lines(section)]
    return "\n".join(lines) + "\n"


def _section_lines(section: Section) -> list[str]:
    lines = [f"{section.place.kind} {section.place.number}"]
    if section.name != section.at:
        lines.append(f"program {quoted(section.name)}")
    lines += _names(section.module)
    return [*lines, *map(format_instruction, section.module.program.instructions)]


def format_instruction(instruction: Instruction) -> str:
    """Return the line of one instruction."""
    opcode = BY_CLASS[type(instruction)]
    if isinstance(instruction, Command):
        return _command_line(instruction)
    if isinstance(instruction, DmaMove):
        return " ".join([*_move_words(instruction), *_clauses(instruction)])
    words = [opcode.mnemonic]
    for field in opcode.fields:
        value = getattr(instruction, field.name)
        if field.name in BARE:
            words.append(BARE[field.name] + _value_text(value))
        elif value is True:
            words.append(field.name)
        elif field.required or value != field.default:
            words.append(f"{field.name}={_value_text(value)}")
    return " ".join([*words, *_clauses(instruction)])


def _clauses(instruction: Instruction) -> list[str]:
    """Return what an instruction waits for and posts, as words of its line."""
    words = []
    if instruction.waits:
        words.append(" wait " + _waits_text(instruction.waits))
    if instruction.posts:
        words.append(" post " + " ".join(map(_post_text, instruction.posts)))
    return words


def _move_words(move: DmaMove) -> list[str]:
    words = ["dma", f"q{move.dma_queue}"]
    ends = (move.source, move.target, move.duplicate)
    places = (move.source_at, move.target_at, move.duplicate_at)
    for name, at, access in zip(MOVED, places, ends, strict=True):
        if access is not None:
            words.append(f"{name}={_placed_text(at, access)}")
    return [*words, "accumulate"] if move.accumulate else words


def _placed_text(at: str, access: Access) -> str:
    text = format_access(access)
    if at.endswith(f".{CODE}"):
        return at + text.removeprefix(access.buffer)
    return f"{at}.{text}" if at else text


def _command_line(command: Command) -> str:
    words: list[str] = [command.word, command.at, spelled(command.program)]
    if not command.program:
        words.pop()
    words += [_waits_text(command.waits), *map(_post_text, command.posts)]
    return " ".join(filter(None, words))


def _waits_text(waits: tuple[Wait, ...]) -> str:
    return " ".join(f"s{wait.semaphore}>={wait.value}" for wait in waits)


def _post_text(post: Post) -> str:
    at = f"{post.at}." if isinstance(post, RemotePost) else ""
    return f"{at}s{post.semaphore}" + ("" if post.on == "done" else f":{post.on}")


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
