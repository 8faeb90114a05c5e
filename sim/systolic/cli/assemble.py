"""`systolic assemble` and `disassemble`: a program's two forms, as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from systolic.errors import ProgramError
from systolic.isa import decode, encode, format_text, is_binary, module_of
from systolic.isa.formats.files import read_bytes
from systolic.writing import replacing, write_text


def assemble_command(
    source: Annotated[Path, typer.Argument(help="A program as text.", metavar="IN.txt")],
    target: Annotated[Path, typer.Argument(help="Where its binary form goes.", metavar="OUT.bin")],
) -> None:
    """Write the binary form of a program."""
    data = assemble(source)
    with replacing(target) as temporary:
        temporary.write_bytes(data)


def disassemble_command(
    source: Annotated[Path, typer.Argument(help="A binary program.", metavar="IN.bin")],
    target: Annotated[
        Path | None,
        typer.Argument(help="Where its text goes (default: printed).", metavar="[OUT.txt]"),
    ] = None,
) -> None:
    """Print, or write, the text form of a program."""
    text = disassemble(source)
    if target is None:
        typer.echo(text, nl=False)
    else:
        write_text(target, text)


def assemble(source: Path) -> bytes:
    """Return the binary form of a text file."""
    data = read_bytes(source)
    if is_binary(data):
        raise ProgramError(f"{source}: is a binary program already; needed text")
    return encode(module_of(data, str(source)))


def disassemble(source: Path) -> str:
    """Return the text form of a binary file."""
    return format_text(decode(read_bytes(source), str(source)))
