"""Bytes to modules: the body of the binary form. Its counterpart, field by field, is `pack`.

Hostile bytes cost no more than their own length: a count is compared with the bytes that are left
before anything is made of it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from systolic.errors import ProgramError
from systolic.hw.spec.places import place_of
from systolic.isa.access import Access
from systolic.isa.formats.chip_module import ChipModule, Section
from systolic.isa.formats.module import Binding, Module, Part
from systolic.isa.formats.pack import (
    ABSENT,
    ACCESS,
    BUFFER_NUMBERS,
    EVENT_NUMBERS,
    FLOAT,
    INT,
    PRESENT,
    REMOTE,
)
from systolic.isa.instruction import Command, DmaMove, Instruction, Post, RemotePost, Wait
from systolic.isa.opcodes import BY_NUMBER, Field, Kind
from systolic.isa.program import Program

T = TypeVar("T")
BUFFERS = {number: buffer for buffer, number in BUFFER_NUMBERS.items()}
EVENTS: dict[int, Any] = {number: event for event, number in EVENT_NUMBERS.items()}
CHIP_EVENTS: dict[int, tuple[Any, bool]] = {
    number + remote * REMOTE: (event, remote)
    for number, event in EVENTS.items()
    for remote in (False, True)
}
OF_SEVERAL_CORES = (DmaMove, Command)


class Reader:
    """Bytes and how far they have been read. several: they are a program of several cores."""

    def __init__(self, data: bytes, *, several: bool = False) -> None:
        self._data, self._at, self.several = data, 0, several
        self._strings: list[str] = []
        self._strings = self.many(self._text, 4)

    def _take(self, layout: str) -> tuple[Any, ...]:
        size = struct.calcsize(layout)
        if self._at + size > len(self._data):
            self.refuse(f"needed {size} more bytes, found {len(self._data) - self._at}")
        values = struct.unpack_from(layout, self._data, self._at)
        self._at += size
        return values

    def refuse(self, message: str) -> NoReturn:
        """Raise ProgramError at this place."""
        raise ProgramError(f"damaged at byte {self._at} of its body: {message}")

    def byte(self) -> int:
        """Return an unsigned byte."""
        return int(self._take("<B")[0])

    def one_of(self, known: dict[int, T], what: str) -> T:
        """Return what a byte stands for."""
        number = self.byte()
        if number not in known:
            self.refuse(f"{what} {number} is unknown")
        return known[number]

    def integer(self) -> int:
        """Return an integer."""
        return int(self._take("<q")[0])

    def real(self) -> float:
        """Return a float64."""
        return float(self._take("<d")[0])

    def many(self, item: Callable[[], T], item_bytes: int) -> list[T]:
        """Return a counted list of items that take at least `item_bytes` each."""
        (count,) = self._take("<I")
        left = len(self._data) - self._at
        if count * item_bytes > left:
            self.refuse(f"{count} items of {item_bytes} bytes or more, but {left} bytes are left")
        return [item() for _ in range(count)]

    def _text(self) -> str:
        (size,) = self._take("<I")
        (data,) = self._take(f"<{min(size, len(self._data) + 1)}s")
        try:
            return str(bytes(data), "utf-8")
        except UnicodeDecodeError:
            self.refuse("a string is not UTF-8")

    def string(self) -> str:
        """Return a string of the table."""
        (number,) = self._take("<I")
        if number >= len(self._strings):
            self.refuse(f"string {number} does not exist (there are {len(self._strings)})")
        return self._strings[int(number)]

    def end(self) -> None:
        """Refuse bytes that are left over."""
        if self._at != len(self._data):
            self.refuse(f"bytes left over: {len(self._data) - self._at}")


def read_chip_module(reader: Reader) -> ChipModule:
    """Return a whole program of several cores; nothing may be left behind it."""
    name, chip = reader.string(), reader.string()
    sections = reader.many(lambda: _section(reader), 28)
    reader.end()
    return ChipModule(name, tuple(sections), chip)


def _section(reader: Reader) -> Section:
    at = reader.string()
    if place_of(at) is None:
        reader.refuse(f'needed a place such as core0, found "{at[:60]}"')
    return Section(at, _module(reader))


def read_module(reader: Reader) -> Module:
    """Return a whole module; nothing may be left behind it."""
    module = _module(reader)
    reader.end()
    return module


def _module(reader: Reader) -> Module:
    name, chip = reader.string(), reader.string()
    semaphores = reader.many(reader.string, 4)
    inputs = reader.many(lambda: _binding(reader), 12)
    outputs = reader.many(lambda: _binding(reader), 12)
    instructions = reader.many(lambda: _instruction(reader), 9)
    program = Program(name, tuple(instructions), tuple(semaphores))
    return Module(program, tuple(inputs), tuple(outputs), chip)


def _pair(reader: Reader) -> tuple[int, int]:
    return reader.integer(), reader.integer()


def _binding(reader: Reader) -> Binding:
    name = reader.string()
    shape = reader.many(reader.integer, 8)
    parts = reader.many(lambda: _part(reader), 37)
    return Binding(name, tuple(shape), tuple(parts))


def _part(reader: Reader) -> Part:
    box = reader.many(lambda: _pair(reader), 16)
    return Part(tuple(box), _access(reader))


def _access(reader: Reader) -> Access:
    buffer = reader.one_of(BUFFERS, "buffer")
    dtype = reader.string()
    partition, partitions, start = reader.integer(), reader.integer(), reader.integer()
    pattern = reader.many(lambda: _pair(reader), 16)
    return Access(buffer, dtype, partition, partitions, start, tuple(pattern))


def _instruction(reader: Reader) -> Instruction:
    opcode = reader.one_of(BY_NUMBER, "operation")
    if opcode.cls in OF_SEVERAL_CORES and not reader.several:
        reader.refuse(f"operation {opcode.number} is unknown")
    values = {field.name: _field(reader, field) for field in opcode.fields}
    waits = reader.many(lambda: Wait(*_pair(reader)), 16)
    posts = reader.many(lambda: _post(reader), 9)
    made: Instruction = opcode.cls(**values, waits=tuple(waits), posts=tuple(posts))
    return made


def _post(reader: Reader) -> Post:
    semaphore = reader.integer()
    if not reader.several:
        return Post(semaphore, reader.one_of(EVENTS, "event"))
    event, is_remote = reader.one_of(CHIP_EVENTS, "event")
    return RemotePost(semaphore, event, reader.string()) if is_remote else Post(semaphore, event)


def _field(reader: Reader, field: Field) -> Any:
    if field.optional and not reader.one_of({ABSENT: False, PRESENT: True}, "presence"):
        return None
    match field.kind:
        case Kind.ACCESS:
            return _access(reader)
        case Kind.FLAG:
            return reader.one_of({0: False, 1: True}, field.name)
        case Kind.INTEGER:
            return reader.integer()
        case Kind.NUMBER:
            return reader.one_of({INT: reader.integer, FLOAT: reader.real}, "kind of number")()
        case Kind.OPERAND:
            return _operand(reader)
        case Kind.LIST:
            return tuple(reader.many(reader.integer, 8))
        case Kind.WORD:
            return _word(reader, field)


def _operand(reader: Reader) -> Access | int | float:
    kinds: dict[int, Callable[[], Access | int | float]] = {
        INT: reader.integer,
        FLOAT: reader.real,
        ACCESS: lambda: _access(reader),
    }
    return reader.one_of(kinds, "kind of operand")()


def _word(reader: Reader, field: Field) -> str:
    word = reader.string()
    if field.words and word not in field.words:
        reader.refuse(f'{field.name}: needed {" or ".join(field.words)}, found "{word}"')
    return word
