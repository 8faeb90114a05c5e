"""Modules to bytes: the body of the binary form. Its counterpart, field by field, is `unpack`.

Every integer is a signed 64-bit number, every count an unsigned 32-bit one; strings stand once,
in a table in front, and are named by their number.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from systolic.errors import ProgramError
from systolic.isa.access import Access, Buffer
from systolic.isa.instruction import Instruction, RemotePost
from systolic.isa.opcodes import BY_CLASS, Field, Kind

if TYPE_CHECKING:
    from systolic.isa.formats.chip_module import ChipModule
    from systolic.isa.formats.module import Binding, Module

BUFFER_NUMBERS = {Buffer.STATE: 0, Buffer.RESULT: 1, Buffer.DRAM: 2}
EVENT_NUMBERS = {"done": 0, "row": 1, "partition": 2}
REMOTE = 128
"""Added to the number of a post's event: the place that it is for stands behind it."""
ABSENT, PRESENT = 0, 1
INT, FLOAT, ACCESS = 0, 1, 2


def instruction_bytes(instruction: Instruction) -> int:
    """Return the bytes of an instruction in the binary form, from its opcode to its last post.

    The strings it names are not among them: they stand once, in the table of the program.
    """
    writer = ByteWriter()
    _instruction(writer, instruction)
    return writer.size_bytes


class ByteWriter:
    """Bytes under construction, and the strings they name."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._strings: dict[str, int] = {}

    @property
    def size_bytes(self) -> int:
        """Return the bytes written so far, the string table apart."""
        return sum(map(len, self._parts))

    def finish(self) -> bytes:
        """Return the string table and the bytes behind it."""
        table = [struct.pack("<I", len(self._strings))]
        for text in self._strings:
            try:
                data = text.encode("utf-8")
            except UnicodeEncodeError:
                raise ProgramError(f"{text!a} is not valid text") from None
            table.append(struct.pack("<I", len(data)) + data)
        return b"".join([*table, *self._parts])

    def byte(self, value: int) -> None:
        """Append an unsigned byte."""
        self._parts.append(struct.pack("<B", value))

    def count(self, value: int) -> None:
        """Append the length of a list."""
        self._parts.append(struct.pack("<I", value))

    def integers(self, *values: int) -> None:
        """Append integers."""
        try:
            self._parts.append(struct.pack(f"<{len(values)}q", *values))
        except struct.error:
            raise ProgramError(f"{values}: an integer does not fit 64 bits") from None

    def real(self, value: float) -> None:
        """Append a float64."""
        self._parts.append(struct.pack("<d", value))

    def string(self, text: str) -> None:
        """Append the number of a string."""
        self.count(self._strings.setdefault(text, len(self._strings)))


def write_module(writer: ByteWriter, module: Module) -> None:
    """Append a whole module."""
    program = module.program
    writer.string(program.name)
    writer.string(module.chip)
    writer.count(len(program.semaphores))
    for name in program.semaphores:
        writer.string(name)
    for bindings in (module.inputs, module.outputs):
        writer.count(len(bindings))
        for binding in bindings:
            _binding(writer, binding)
    writer.count(len(program.instructions))
    for instruction in program.instructions:
        _instruction(writer, instruction)


def write_chip_module(writer: ByteWriter, module: ChipModule) -> None:
    """Append a program of several cores: its names, and each section behind its place."""
    writer.string(module.name)
    writer.string(module.chip)
    writer.count(len(module.sections))
    for section in module.sections:
        writer.string(section.at)
        write_module(writer, section.module)


def _binding(writer: ByteWriter, binding: Binding) -> None:
    writer.string(binding.name)
    writer.count(len(binding.shape))
    writer.integers(*binding.shape)
    writer.count(len(binding.parts))
    for part in binding.parts:
        writer.count(len(part.box))
        for pair in part.box:
            writer.integers(*pair)
        write_access(writer, part.access)


def write_access(writer: ByteWriter, access: Access) -> None:
    """Append an access."""
    writer.byte(BUFFER_NUMBERS[access.buffer])
    writer.string(access.dtype)
    writer.integers(access.partition, access.partitions, access.start)
    writer.count(len(access.pattern))
    for pair in access.pattern:
        writer.integers(*pair)


def _instruction(writer: ByteWriter, instruction: Instruction) -> None:
    opcode = BY_CLASS[type(instruction)]
    writer.byte(opcode.number)
    for field in opcode.fields:
        _field(writer, field, getattr(instruction, field.name))
    writer.count(len(instruction.waits))
    for wait in instruction.waits:
        writer.integers(wait.semaphore, wait.value)
    writer.count(len(instruction.posts))
    for post in instruction.posts:
        writer.integers(post.semaphore)
        if isinstance(post, RemotePost):
            writer.byte(EVENT_NUMBERS[post.on] + REMOTE)
            writer.string(post.at)
        else:
            writer.byte(EVENT_NUMBERS[post.on])


def _field(writer: ByteWriter, field: Field, value: Any) -> None:
    if field.optional:
        writer.byte(ABSENT if value is None else PRESENT)
        if value is None:
            return
    _WRITE[field.kind](writer, value)


def _flag(writer: ByteWriter, value: bool) -> None:
    writer.byte(bool(value))


def _number(writer: ByteWriter, value: int | float) -> None:
    if isinstance(value, float):
        writer.byte(FLOAT)
        writer.real(value)
    else:
        writer.byte(INT)
        writer.integers(value)


def _operand(writer: ByteWriter, value: Access | int | float) -> None:
    if isinstance(value, Access):
        writer.byte(ACCESS)
        write_access(writer, value)
    else:
        _number(writer, value)


def _list(writer: ByteWriter, values: tuple[int, ...]) -> None:
    writer.count(len(values))
    writer.integers(*values)


_WRITE: dict[Kind, Callable[[ByteWriter, Any], None]] = {
    Kind.ACCESS: write_access,
    Kind.FLAG: _flag,
    Kind.INTEGER: ByteWriter.integers,
    Kind.NUMBER: _number,
    Kind.OPERAND: _operand,
    Kind.WORD: ByteWriter.string,
    Kind.LIST: _list,
}
