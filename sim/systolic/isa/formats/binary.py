"""The binary form of a program: versioned, checksummed, little-endian (docs/program_format.md).

`decode(encode(m)) == m` for every module whose integers fit 64 bits. Whatever is damaged is refused
with one ProgramError before it is believed: no count is trusted beyond the bytes that are there.
Driven by `systolic.isa.opcodes`. Not here: whether the program is legal on a chip.
"""

from __future__ import annotations

import struct
import zlib

from systolic.errors import ProgramError
from systolic.isa.formats.chip_module import AnyModule, ChipModule, check_chip_bindings
from systolic.isa.formats.module import Module, as_module, check_bindings
from systolic.isa.formats.pack import ByteWriter, write_chip_module, write_module
from systolic.isa.formats.unpack import Reader, read_chip_module, read_module
from systolic.isa.program import Program

MAGIC = b"SYSB"
VERSION, CHIP_VERSION = 1, 2
"""Of a program of one core, and of one of several."""
_HEADER = struct.Struct("<4sHHQ")
_CHECK = struct.Struct("<I")


def encode(program: Program | Module | ChipModule) -> bytes:
    """Return the binary form.

    Raises:
        ProgramError: a number does not fit 64 bits, or a name is not valid text.

    """
    writer, version = ByteWriter(), VERSION
    if isinstance(program, ChipModule):
        version = CHIP_VERSION
        write_chip_module(writer, program)
    else:
        write_module(writer, as_module(program))
    body = writer.finish()
    data = _HEADER.pack(MAGIC, version, 0, len(body)) + body
    return data + _CHECK.pack(zlib.crc32(data))


def is_binary(data: bytes) -> bool:
    """Return whether the bytes begin as a binary program does."""
    return data[: len(MAGIC)] == MAGIC


def decode(data: bytes, source: str = "<program>") -> AnyModule:
    """Return the module that `encode` wrote.

    Raises:
        ProgramError: one line saying what is wrong with the bytes.

    """
    try:
        version, body = _body(data)
        if version == CHIP_VERSION:
            several = read_chip_module(Reader(body, several=True))
            check_chip_bindings(several)
            return several
        module = read_module(Reader(body))
        check_bindings(module)
    except ProgramError as error:
        raise ProgramError(f"{source}: {error}") from None
    return module


def _body(data: bytes) -> tuple[int, bytes]:
    """Return the version and what stands between header and checksum."""
    if not is_binary(data):
        raise ProgramError(f'not a binary program: needed "SYSB", found {data[:4]!r}')
    if len(data) < _HEADER.size + _CHECK.size:
        raise ProgramError(f"cut off: {len(data)} bytes are too few for a header")
    _, version, flags, size = _HEADER.unpack_from(data)
    if version not in (VERSION, CHIP_VERSION) or flags:
        raise ProgramError(
            f"this simulator reads versions {VERSION} and {CHIP_VERSION} of the binary form "
            f"without flags, found version {version}, flags {flags}"
        )
    needed = _HEADER.size + size + _CHECK.size
    if len(data) != needed:
        what = "cut off" if len(data) < needed else "too long"
        raise ProgramError(f"{what}: needed {needed} bytes, found {len(data)}")
    (check,) = _CHECK.unpack_from(data, needed - _CHECK.size)
    found = zlib.crc32(data[: -_CHECK.size])
    if check != found:
        raise ProgramError(f"damaged: its checksum is {check:08x}, its bytes give {found:08x}")
    return version, data[_HEADER.size : -_CHECK.size]
