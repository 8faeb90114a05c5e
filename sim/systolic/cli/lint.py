"""`systolic lint`: what the checker finds in a program, without running it.

Plain functions make the findings and the lines; the command prints them. Not here: what is checked
(`systolic.isa.lint.lint`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from systolic.cli.options import of_name
from systolic.cli.run_program import chip_of
from systolic.errors import readable
from systolic.hw.spec import Chip, MultiCoreChip
from systolic.isa import ChipModule, Diagnostic, Module, lint, load_module
from systolic.isa.formats.lines import with_lines
from systolic.isa.lint.several import lint_chip
from systolic.run.chip_program import several

FINDINGS = 1
ProgramFile = Annotated[
    Path,
    typer.Argument(
        help="A program, text or binary.", metavar="PROGRAM", show_default=False, callback=of_name
    ),
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
    hardware = chip_of(module, program, chip)
    fitting = several(module, hardware)
    if isinstance(fitting, Module):
        assert isinstance(hardware, Chip)
        found = lint_module(fitting, hardware)
        lines = report(fitting, found, str(program))
    else:
        assert isinstance(hardware, MultiCoreChip)
        found = lint_chip(fitting, hardware)
        lines = report_several(fitting, found)
    for line in lines:
        typer.echo(line)
    if is_faulty(found):
        raise typer.Exit(FINDINGS)


def report_several(module: ChipModule, found: Sequence[Diagnostic]) -> list[str]:
    """Return what `report` does for a program of several cores."""
    count = sum(len(section.module.program.instructions) for section in module.sections)
    return [*(readable(str(each)) for each in found), _last(module.name, count, found)]


def lint_module(module: Module, chip: Chip) -> list[Diagnostic]:
    """Return the findings, if at cycle 0 memory holds the module's inputs and nothing else."""
    return lint(module.program, chip, module.input_accesses)


def report(module: Module, found: Sequence[Diagnostic], source: str) -> list[str]:
    """Return a line for each finding, and a last line that counts the findings.

    If the program was read as text, the line of a finding begins with the file and the line there.
    """
    last = _last(module.program.name, len(module.program.instructions), found)
    return [readable(line) for line in (*(_located(d, module, source) for d in found), last)]


def _last(name: str, instructions: int, found: Sequence[Diagnostic]) -> str:
    """Return the line that counts the findings."""
    counts = Counter(diagnostic.severity for diagnostic in found)
    count = ", ".join(f"{n} {severity}{'s' * (n > 1)}" for severity, n in counts.items())
    size = f"{instructions} instruction{'s' * (instructions != 1)}"
    return readable(f"{name}: {size}, {count or 'no findings'}")


def _located(diagnostic: Diagnostic, module: Module, source: str) -> str:
    text = with_lines(str(diagnostic), module.lines)
    if not module.lines or not diagnostic.instructions:
        return text
    return f"{source}:{module.lines[diagnostic.instructions[0][0]]}: {text}"


def is_faulty(found: Sequence[Diagnostic]) -> bool:
    """Return whether any finding is more than a hint."""
    return any(diagnostic.severity != "hint" for diagnostic in found)
