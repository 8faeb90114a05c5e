"""Read the text form of a program, line by line. Driven by `systolic.isa.opcodes`.

Errors name file, line and column, what was needed, what was found and what was perhaps meant.
Not here: printing (`systolic.isa.formats.write_text`), legality on a chip
(`systolic.isa.legality`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, cast

from systolic.errors import ProgramError
from systolic.isa.access import Access, Buffer
from systolic.isa.formats.chip_module import (
    AnyModule,
    ChipModule,
    Section,
    check_chip_bindings,
)
from systolic.isa.formats.cursor import Cursor
from systolic.isa.formats.module import Binding, IndexBox, Module, Part, check_bindings
from systolic.isa.instruction import Command, DmaCopy, DmaMove, Instruction, Post, RemotePost, Wait
from systolic.isa.instruction.on_dma import CODE
from systolic.isa.instruction.on_processor import COMMANDS, CommandWord
from systolic.isa.opcodes import BARE, BY_MNEMONIC, Field, Kind
from systolic.isa.program import Program

VERSION, CHIP_VERSION = 1, 2
"""Of a program of one core, and of one of several."""
BUFFERS = {buffer.value: buffer for buffer in Buffer}
CHIP_BUFFERS = BUFFERS | {CODE: Buffer.DRAM}
"""The memories that a section may name: a core's code is one row of bytes, as DRAM is."""
MOVED = ("source", "target", "duplicate")
LAST_PLACE = 9999
EVENTS = ("done", "row", "partition")
HEADER = ("program", "chip", "semaphore", "input", "output")
_PAIR = re.compile(r"-?[0-9]+x-?[0-9]+")
_WAIT, _POST = re.compile(r"wait\b"), re.compile(r"post\b")
_CLAUSE = re.compile(r"(?:wait|post)\b(?!=)")
_BUFFER = re.compile("|".join(BUFFERS))
_AT = re.compile(r"((?:core|processor)[0-9]{1,4})\.")
_CODE = re.compile(rf"{CODE}\b")
_SECTION = re.compile(r"(core|processor)\b")
LONGEST_PAIR = 80


def parse_text(text: str, source: str = "<program>") -> AnyModule:
    """Return what a text describes: a program of one core (version 1), or of several (2).

    Raises:
        ProgramError: file, line, column, what was needed, what was found.

    """
    parser: _Parser | _ChipParser | None = None
    cursor = Cursor(source, 1, "")
    for number, line in enumerate(text.split("\n"), 1):
        cursor = Cursor(source, number, line)
        if cursor.at_end:
            continue
        if parser is None:
            is_one = _version(cursor) == VERSION
            parser = _Parser(source) if is_one else _ChipParser(source)
        else:
            parser.line(cursor)
    if parser is None:
        cursor.fail(f'"systolic program {VERSION}"')
    try:
        return parser.finished()
    except ProgramError as error:
        raise ProgramError(f"{source}: {error}") from None


def _version(cursor: Cursor) -> int:
    for word in ("systolic", "program"):
        if cursor.word(f'"systolic program {VERSION}" in the first line') != word:
            cursor.go_back(0)
            cursor.fail(f'"systolic program {VERSION}" in the first line')
    version = cursor.integer("the format's version")
    if version not in (VERSION, CHIP_VERSION):
        cursor.refuse(
            f"this simulator reads versions {VERSION} and {CHIP_VERSION} of the text form only"
        )
    cursor.end()
    return version


class _Parser:
    """What has been read so far of a program, or of a section.

    here: the place that a section is of; None: a program of one core. homes: of each array of a
    section, the place that its line names.
    """

    def __init__(self, source: str, name: str = "", here: str | None = None) -> None:
        self._name = name or source
        self._here = here
        self._chip = ""
        self._semaphores: list[str] = []
        self._instructions: list[Instruction] = []
        self._lines: list[int] = []
        self._bindings: dict[str, list[Binding]] = {"input": [], "output": []}
        self._open: tuple[str, Binding, list[Part]] | None = None
        self.homes: dict[tuple[str, str], str] = {}

    def finished(self) -> Module:
        """Return what was read, its bindings checked."""
        module = self.module()
        check_bindings(module)
        return module

    def module(self) -> Module:
        """Return what was read."""
        self._close()
        program = Program(self._name, tuple(self._instructions), tuple(self._semaphores))
        inputs, outputs = (tuple(self._bindings[kind]) for kind in ("input", "output"))
        return Module(program, inputs, outputs, self._chip, tuple(self._lines))

    def line(self, cursor: Cursor) -> None:
        """Read one line."""
        if self._open and cursor.text.lstrip().startswith("["):
            box = _box(cursor)
            cursor.expect("=")
            kind, binding, parts = self._open
            parts.append(Part(box, self._place(cursor, kind, binding.name)))
        else:
            self._close()
            self._statement(cursor)
        cursor.end()

    def _statement(self, cursor: Cursor) -> None:
        known = _words_of(self._here)
        word = cursor.word("an instruction", (*known, *HEADER))
        if word in known:
            self._instructions.append(_instruction(cursor, word, self._here))
            self._lines.append(cursor.line)
        elif self._instructions:
            cursor.go_back(0)
            cursor.refuse(f'"{word}" must stand before the first instruction')
        else:
            self._header(cursor, word)

    def _header(self, cursor: Cursor, word: str) -> None:
        if word == "program":
            self._name = cursor.string("the program's name")
        elif word == "chip":
            self._chip = cursor.string("the chip's name")
        elif word == "semaphore":
            start = cursor.position
            if _semaphore(cursor) != len(self._semaphores):
                cursor.go_back(start)
                cursor.fail(f'semaphore "s{len(self._semaphores)}" (they are numbered in order)')
            self._semaphores.append(cursor.string("the semaphore's name"))
        else:
            self._bind(cursor, word)

    def _bind(self, cursor: Cursor, kind: str) -> None:
        name = cursor.word(f"the {kind}'s name")
        shape = _integers(cursor, "a size")
        if cursor.accept("="):
            access = self._place(cursor, kind, name)
            self._bindings[kind].append(Binding.whole(name, shape, access))
        else:
            self._open = kind, Binding(name, shape, ()), []

    def _place(self, cursor: Cursor, kind: str, name: str) -> Access:
        """Return where a part of an array lies; a section's may name a core, the same for all."""
        if self._here is None:
            return _access(cursor)
        start = cursor.position
        at, access = _placed(cursor, self._here)
        if access.buffer is not Buffer.DRAM and self.homes.setdefault((kind, name), at) != at:
            cursor.go_back(start)
            cursor.refuse(f"an array lies in the buffers of one core, or in DRAM: {kind} {name}")
        return access

    def _close(self) -> None:
        if self._open:
            kind, binding, parts = self._open
            self._bindings[kind].append(Binding(binding.name, binding.shape, tuple(parts)))
            self._open = None


class _ChipParser:
    """What has been read so far of a program of several cores."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._head = _Parser(source, here="")
        self._sections: list[tuple[str, _Parser]] = []

    def line(self, cursor: Cursor) -> None:
        """Read one line."""
        if _SECTION.match(cursor.text, cursor.position):
            kind = cursor.word("a section")
            number = cursor.integer(f"the number of the {kind}")
            cursor.end()
            if not 0 <= number <= LAST_PLACE:
                cursor.refuse(f"a {kind} has a number from 0 to {LAST_PLACE}, found {number}")
            at = f"{kind}{number}"
            self._sections.append((at, _Parser(self._source, at, at)))
        elif self._sections:
            if cursor.text[cursor.position :].startswith("chip "):
                cursor.refuse('"chip" must stand before the first section')
            self._sections[-1][1].line(cursor)
        else:
            if not re.match("program|chip|input|output|\\[", cursor.text[cursor.position :]):
                cursor.fail('a section such as "core 0" before', ("core", "processor"))
            self._head.line(cursor)

    def finished(self) -> ChipModule:
        """Return what was read, its bindings checked."""
        head = self._head.module()
        modules = [(at, parser.module()) for at, parser in self._sections]
        modules = self._brought_home(head, modules)
        sections = tuple(Section(at, module) for at, module in modules)
        found = ChipModule(head.program.name, sections, head.chip)
        check_chip_bindings(found)
        return found

    def _brought_home(
        self, head: Module, modules: list[tuple[str, Module]]
    ) -> list[tuple[str, Module]]:
        """Give each array to the section of the core that it lies in; those in DRAM stay."""
        found = [(at, replace(module, inputs=(), outputs=())) for at, module in modules]
        readers = [("", head, self._head.homes)]
        readers += [
            (at, module, parser.homes)
            for (at, parser), (_, module) in zip(self._sections, modules, strict=True)
        ]
        for number, (at, module, homes) in enumerate(readers):
            for kind, bindings in (("input", module.inputs), ("output", module.outputs)):
                for binding in bindings:
                    home = homes.get((kind, binding.name), "") or at
                    if not home and (kind, binding.name) in homes:
                        raise ProgramError(
                            f'{kind} "{binding.name}": needed a core, such as core0.state_buffer'
                        )
                    self._give(found, home, number - 1, kind, binding)
        return found

    def _give(
        self,
        found: list[tuple[str, Module]],
        home: str,
        own: int,
        kind: str,
        binding: Binding,
    ) -> None:
        place = own if own >= 0 and found[own][0] == home else -1
        if place < 0:
            place = next((n for n, (at, _) in enumerate(found) if not home or at == home), -1)
        if place < 0:
            found.append((home or "core0", Module(Program(home or "core0", ()))))
        at, module = found[place]
        inputs, outputs = module.inputs, module.outputs
        if kind == "input":
            inputs = (*inputs, binding)
        else:
            outputs = (*outputs, binding)
        found[place] = at, replace(module, inputs=inputs, outputs=outputs)


def _integers(cursor: Cursor, needed: str) -> tuple[int, ...]:
    cursor.expect("(")
    found: list[int] = []
    while not cursor.accept(")"):
        if found:
            cursor.expect(",")
        found.append(cursor.integer(needed))
    return tuple(found)


def _box(cursor: Cursor) -> IndexBox:
    cursor.expect("[")
    found: list[tuple[int, int]] = []
    while not cursor.accept("]"):
        if found:
            cursor.expect(",")
        first = cursor.integer("the first index of an axis")
        cursor.expect(":")
        found.append((first, cursor.integer("the index after the last")))
    return tuple(found)


def _words_of(here: str | None) -> Collection[str]:
    """Return what may stand first in a line of a program, or of a section of that place."""
    if here is None or not here.startswith("processor"):
        return BY_MNEMONIC
    return ("dma", "copy", *COMMANDS)


def _placed(cursor: Cursor, here: str) -> tuple[str, Access]:
    """Return an access and the core that it names; "" for the section's own, and for DRAM.

    Of a core's code it is the core's name and ``.code``.
    """
    start = cursor.position
    at = _at(cursor, here)
    is_code = bool(_CODE.match(cursor.text, cursor.position))
    access = _access(cursor, CHIP_BUFFERS)
    if at and access.buffer is Buffer.DRAM and not is_code:
        cursor.go_back(start)
        cursor.refuse("DRAM is the chip's: needed dram without a core")
    return f"{at or here}.{CODE}" if is_code else at, access


def _at(cursor: Cursor, here: str) -> str:
    """Go past the name of a place and its dot; return it, "" if there is none or it is `here`."""
    found = cursor.take(_AT)
    if found is None or found[:-1] == here:
        return ""
    return found[:-1]


def _access(cursor: Cursor, buffers: Mapping[str, Buffer] = BUFFERS) -> Access:
    buffer = buffers[cursor.word("a buffer", tuple(buffers))]
    cursor.expect("[")
    first = cursor.integer("the first partition")
    cursor.expect(":")
    stop = cursor.integer("the partition after the last")
    cursor.expect("]")
    cursor.expect("+")
    start = cursor.integer("the first byte")
    dtype = cursor.word("a data type")
    cursor.expect("(")
    pairs: list[tuple[int, int]] = []
    while not cursor.accept(")"):
        pair = cursor.take(_PAIR)
        if pair is None or len(pair) > LONGEST_PAIR:
            cursor.fail('a pair such as "1x64" (step x count), or ")"')
        step, count = pair.split("x")
        pairs.append((int(step), int(count)))
    return Access(buffer, dtype, first, stop - first, start, tuple(pairs))


def _semaphore(cursor: Cursor) -> int:
    if not cursor.accept("s", inside_word=True):
        cursor.fail('a semaphore such as "s0"')
    return cursor.integer("the semaphore's number")


def _instruction(cursor: Cursor, mnemonic: str, here: str | None) -> Instruction:
    if here is not None:
        if here.startswith("processor") and mnemonic not in ("dma", "copy"):
            return _command(cursor, mnemonic, here)
        if mnemonic == "dma" or here.startswith("processor"):
            return _move(cursor, here)
    opcode = BY_MNEMONIC[mnemonic]
    values: dict[str, Any] = {}
    named = {field.name: field for field in opcode.fields if field.name not in BARE}
    for field in opcode.fields:
        if field.name in BARE:
            if BARE[field.name] and not cursor.accept(BARE[field.name]):
                cursor.fail(f'"{BARE[field.name]}" and a number')
            values[field.name] = _bare_value(cursor, field)
    while not cursor.at_end and not _CLAUSE.match(cursor.text, cursor.position):
        _named_value(cursor, mnemonic, named, values)
    waits, posts = _waits(cursor), _posts(cursor, here)
    missing = [f.name for f in opcode.fields if f.required and f.name not in values]
    if missing:
        cursor.refuse(f"{mnemonic} needs {missing[0]}=...")
    made: Instruction = opcode.cls(**values, waits=waits, posts=posts)
    return made


def _move(cursor: Cursor, here: str) -> DmaCopy:
    """Read a copy of a section; it is a plain one if it names no other core and does no more."""
    if not cursor.accept("q"):
        cursor.fail('"q" and a number')
    values: dict[str, Any] = {"dma_queue": cursor.integer("a whole number for dma_queue")}
    while not cursor.at_end and not _CLAUSE.match(cursor.text, cursor.position):
        start = cursor.position
        name = cursor.word("a field of dma, wait or post", (*MOVED, "accumulate", "wait", "post"))
        if name in values:
            cursor.go_back(start)
            cursor.refuse(f'dma: "{name}" is given twice')
        if name == "accumulate":
            given = cursor.word("true or false", ("true", "false")) if cursor.accept("=") else ""
            values[name] = given != "false"
        elif name in MOVED:
            cursor.expect("=")
            values[f"{name}_at"], values[name] = _placed(cursor, here)
        else:
            cursor.fail(f'a blank and a semaphore such as s0 after "{name}"')
    values |= {"waits": _waits(cursor), "posts": _posts(cursor, here)}
    missing = [name for name in ("source", "target") if name not in values]
    if missing:
        cursor.refuse(f"dma needs {missing[0]}=...")
    plain = {"dma_queue", "source", "target", "waits", "posts"}
    if not any(value for name, value in values.items() if name not in plain):
        return DmaCopy(**{name: values[name] for name in plain})
    return DmaMove(**values)


def _command(cursor: Cursor, word: str, here: str) -> Command:
    """Read a command of a processor, whose word has been read."""
    at = program = ""
    waits, posts = tuple[Wait, ...](), tuple[Post, ...]()
    if word == "wait":
        waits = _all_waits(cursor)
    elif word in ("post", "ring"):
        posts = _all_posts(cursor, here)
    elif word == "start":
        at = cursor.word('a core such as "core0"')
        program = "" if cursor.at_end else cursor.word("the name of the core's program")
    return Command(word=cast(CommandWord, word), at=at, program=program, waits=waits, posts=posts)


def _named_value(
    cursor: Cursor, mnemonic: str, named: dict[str, Field], values: dict[str, Any]
) -> None:
    start = cursor.position
    name = cursor.word(f"a field of {mnemonic}, wait or post", (*named, "wait", "post"))
    if name in values:
        cursor.go_back(start)
        cursor.refuse(f'{mnemonic}: "{name}" is given twice')
    if name not in named:
        cursor.fail(f'a blank and a semaphore such as s0 after "{name}"')
    field = named[name]
    if cursor.accept("="):
        values[name] = _value(cursor, field)
    elif field.kind is Kind.FLAG:
        values[name] = True
    else:
        cursor.fail(f'"=" and the value of {name}')


def _bare_value(cursor: Cursor, field: Field) -> Any:
    start = cursor.position
    value = _value(cursor, field)
    if not cursor.at_end and cursor.text[cursor.position] == "=":
        cursor.go_back(start)
        cursor.fail(f"the instruction's {field.name}")
    return value


def _value(cursor: Cursor, field: Field) -> Any:
    if field.optional and cursor.accept("none"):
        return None
    match field.kind:
        case Kind.ACCESS:
            return _access(cursor)
        case Kind.INTEGER:
            return cursor.integer(f"a whole number for {field.name}")
        case Kind.NUMBER:
            return cursor.number(f"a number for {field.name}")
        case Kind.OPERAND:
            return _operand(cursor, field)
        case Kind.FLAG:
            return cursor.word("true or false", ("true", "false")) == "true"
        case Kind.LIST:
            return _integers(cursor, f"a whole number of {field.name}")
        case Kind.WORD:
            wanted = " or ".join(field.words) or f"a word for {field.name}"
            return cursor.word(wanted, field.words)


def _operand(cursor: Cursor, field: Field) -> Access | int | float:
    if _BUFFER.match(cursor.text, cursor.position):
        return _access(cursor)
    return cursor.number(f"a number or an access for {field.name}")


def _waits(cursor: Cursor) -> tuple[Wait, ...]:
    return _all_waits(cursor) if cursor.take(_WAIT) else ()


def _all_waits(cursor: Cursor) -> tuple[Wait, ...]:
    found: list[Wait] = []
    while not found or cursor.text.startswith("s", cursor.position):
        semaphore = _semaphore(cursor)
        cursor.expect(">=")
        found.append(Wait(semaphore, cursor.integer("how many posts to wait for")))
    return tuple(found)


def _posts(cursor: Cursor, here: str | None) -> tuple[Post, ...]:
    return _all_posts(cursor, here) if cursor.take(_POST) else ()


def _all_posts(cursor: Cursor, here: str | None) -> tuple[Post, ...]:
    found: list[Post] = []
    while not found or cursor.text.startswith(("s", "core", "processor"), cursor.position):
        at = "" if here is None else _at(cursor, here)
        semaphore = _semaphore(cursor)
        event: Any = cursor.word("an event", EVENTS) if cursor.accept(":") else "done"
        found.append(RemotePost(semaphore, event, at) if at else Post(semaphore, event))
    return tuple(found)
