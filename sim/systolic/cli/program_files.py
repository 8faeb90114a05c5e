"""`systolic lint`, `assemble` and `disassemble`: programs as files.

Plain functions make the findings and the bytes; the commands print and write them. Not here: what
is checked (`systolic.isa.lint.lint`), and running a program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from systolic.cli.run_program import chip_of
from systolic.errors import ProgramError, readable
from systolic.hw.spec import Chip
from systolic.isa import (
    Diagnostic,
    Module,
    encode,
    format_text,
    is_binary,
    lint,
    load_module,
    module_of,
)
from systolic.isa.formats.files import read_bytes
from systolic.isa.formats.lines import with_lines
from systolic.writing import replacing, write_text

FINDINGS = 1
ProgramFile = Annotated[
    Path, typer.Argument(help="A program, text or binary.", metavar="PROGRAM", show_default=False)
]


def lint_command(
    program: ProgramFile,
    chip: Annotated[
        str | None,
        typer.Option("--chip", help="A chip's name or file (default: the program's own)."),
    ] = None,
) -> None:
    """Check a program without running it; exit status 1 if it has errors."""
    module = load_module(program)
    found = lint_module(module, chip_of(module, program, chip))
    for line in report(module, found, str(program)):
        typer.echo(line)
    if is_faulty(found):
        raise typer.Exit(FINDINGS)


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
    data = read_bytes(source)
    if not is_binary(data):
        raise ProgramError(f'{source}: not a binary program: needed "SYSB", found {data[:4]!r}')
    return format_text(module_of(data, str(source)))


def lint_module(module: Module, chip: Chip) -> list[Diagnostic]:
    """Return the findings; memory holds the module's inputs at cycle 0, and nothing else."""
    return lint(module.program, chip, module.input_accesses)


def report(module: Module, found: Sequence[Diagnostic], source: str) -> list[str]:
    """Return one line for each finding and one that counts them.

    A finding in a program that was read as text begins with the file and the line.
    """
    counts = Counter(diagnostic.severity for diagnostic in found)
    count = ", ".join(f"{n} {severity}{'s' * (n > 1)}" for severity, n in counts.items())
    instructions = len(module.program.instructions)
    size = f"{instructions} instruction{'s' * (instructions != 1)}"
    last = f"{module.program.name}: {size}, {count or 'no findings'}"
    return [readable(line) for line in (*(_located(d, module, source) for d in found), last)]


def _located(diagnostic: Diagnostic, module: Module, source: str) -> str:
    text = with_lines(str(diagnostic), module.lines)
    if not module.lines or not diagnostic.instructions:
        return text
    return f"{source}:{module.lines[diagnostic.instructions[0][0]]}: {text}"


def is_faulty(found: Sequence[Diagnostic]) -> bool:
    """Return whether anything more than a hint was found."""
    return any(diagnostic.severity != "hint" for diagnostic in found)
