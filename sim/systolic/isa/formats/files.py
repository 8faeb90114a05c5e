"""Program files: text or binary, told apart by their first bytes. Only reading is here."""

from __future__ import annotations

import codecs
from pathlib import Path

from systolic.errors import ProgramError
from systolic.isa.formats.binary import decode, is_binary
from systolic.isa.formats.chip_module import AnyModule
from systolic.isa.formats.read_text import parse_text
from systolic.reading import read_file

# About two million instructions as text; more than that no compiler here has ever made.
LIMIT_BYTES = 256 << 20


def read_bytes(path: Path) -> bytes:
    """Return a file's bytes; ProgramError names the file if it cannot be read, or is too large."""
    return read_file(path, LIMIT_BYTES, ProgramError, "a program")


def load_module(path: str | Path) -> AnyModule:
    """Return the program of a file in either form, of one core or of several.

    Raises:
        ProgramError: one line naming the file, and the line and column if it is text.

    """
    file = Path(path)
    return module_of(read_bytes(file), str(file))


def module_of(data: bytes, source: str) -> AnyModule:
    """Return the program that these bytes of a file hold, in either form."""
    if is_binary(data):
        return decode(data, source)
    try:
        text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ProgramError(
            f"{source}: neither a binary program nor UTF-8 text (byte {error.start})"
        ) from None
    return parse_text(text, source)
