"""Read the text form of a program, line by line. Driven by `systolic.isa.opcodes`.

Errors name file, line and column, what was needed, what was found and what was perhaps meant.
Not here: printing (`systolic.isa.formats.write_text`), legality on a chip
(`systolic.isa.legality`).
"""

from __future__ import annotations

import re
from typing import Any

from systolic.errors import ProgramError
from systolic.isa.access import Access, Buffer
from systolic.isa.formats.cursor import Cursor
from systolic.isa.formats.module import Binding, IndexBox, Module, Part, check_bindings
from systolic.isa.instruction import Instruction, Post, Wait
from systolic.isa.opcodes import BARE, BY_MNEMONIC, Field, Kind
from systolic.isa.program import Program

VERSION = 1
BUFFERS = {buffer.value: buffer for buffer in Buffer}
EVENTS = ("done", "row", "partition")
HEADER = ("program", "chip", "semaphore", "input", "output")
_PAIR = re.compile(r"-?[0-9]+x-?[0-9]+")
_WAIT, _POST = re.compile(r"wait\b"), re.compile(r"post\b")
_CLAUSE = re.compile(r"(?:wait|post)\b(?!=)")
_BUFFER = re.compile("|".join(BUFFERS))
LONGEST_PAIR = 80


def parse_text(text: str, source: str = "<program>") -> Module:
    """Return the module a text describes.

    Raises:
        ProgramError: file, line, column, what was needed, what was found.

    """
    parser = _Parser(source)
    cursor = Cursor(source, 1, "")
    for number, line in enumerate(text.split("\n"), 1):
        cursor = Cursor(source, number, line)
        if not cursor.at_end:
            parser.line(cursor)
    if not parser.is_begun:
        cursor.fail(f'"systolic program {VERSION}"')
    module = parser.module()
    try:
        check_bindings(module)
    except ProgramError as error:
        raise ProgramError(f"{source}: {error}") from None
    return module


class _Parser:
    """What has been read so far."""

    def __init__(self, source: str) -> None:
        self.is_begun = False
        self._name = source
        self._chip = ""
        self._semaphores: list[str] = []
        self._instructions: list[Instruction] = []
        self._lines: list[int] = []
        self._bindings: dict[str, list[Binding]] = {"input": [], "output": []}
        self._open: tuple[str, Binding, list[Part]] | None = None

    def module(self) -> Module:
        """Return what was read."""
        self._close()
        program = Program(self._name, tuple(self._instructions), tuple(self._semaphores))
        inputs, outputs = (tuple(self._bindings[kind]) for kind in ("input", "output"))
        return Module(program, inputs, outputs, self._chip, tuple(self._lines))

    def line(self, cursor: Cursor) -> None:
        """Read one line."""
        if not self.is_begun:
            self._begin(cursor)
        elif self._open and cursor.text.lstrip().startswith("["):
            box = _box(cursor)
            cursor.expect("=")
            self._open[2].append(Part(box, _access(cursor)))
        else:
            self._close()
            word = cursor.word("an instruction", (*BY_MNEMONIC, *HEADER))
            if word in BY_MNEMONIC:
                self._instructions.append(_instruction(cursor, word))
                self._lines.append(cursor.line)
            elif self._instructions:
                cursor.go_back(0)
                cursor.refuse(f'"{word}" must stand before the first instruction')
            else:
                self._header(cursor, word)
        cursor.end()

    def _begin(self, cursor: Cursor) -> None:
        for word in ("systolic", "program"):
            if cursor.word(f'"systolic program {VERSION}" in the first line') != word:
                cursor.go_back(0)
                cursor.fail(f'"systolic program {VERSION}" in the first line')
        if cursor.integer("the format's version") != VERSION:
            cursor.refuse(f"this simulator reads version {VERSION} of the text form only")
        self.is_begun = True

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
            self._bindings[kind].append(Binding.whole(name, shape, _access(cursor)))
        else:
            self._open = kind, Binding(name, shape, ()), []

    def _close(self) -> None:
        if self._open:
            kind, binding, parts = self._open
            self._bindings[kind].append(Binding(binding.name, binding.shape, tuple(parts)))
            self._open = None


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


def _access(cursor: Cursor) -> Access:
    buffer = BUFFERS[cursor.word("a buffer", tuple(BUFFERS))]
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


def _instruction(cursor: Cursor, mnemonic: str) -> Instruction:
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
    waits, posts = _waits(cursor), _posts(cursor)
    missing = [f.name for f in opcode.fields if f.required and f.name not in values]
    if missing:
        cursor.refuse(f"{mnemonic} needs {missing[0]}=...")
    made: Instruction = opcode.cls(**values, waits=waits, posts=posts)
    return made


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
    found: list[Wait] = []
    if cursor.take(_WAIT):
        while not found or cursor.text.startswith("s", cursor.position):
            semaphore = _semaphore(cursor)
            cursor.expect(">=")
            found.append(Wait(semaphore, cursor.integer("how many posts to wait for")))
    return tuple(found)


def _posts(cursor: Cursor) -> tuple[Post, ...]:
    found: list[Post] = []
    if cursor.take(_POST):
        while not found or cursor.text.startswith("s", cursor.position):
            semaphore = _semaphore(cursor)
            event: Any = cursor.word("an event", EVENTS) if cursor.accept(":") else "done"
            found.append(Post(semaphore, event))
    return tuple(found)
