"""`systolic diff`: how do two runs differ, and from which instruction on?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from systolic.cli.explain import timed
from systolic.cli.options import WorkOptions, is_program, of_name
from systolic.cli.tables import table
from systolic.errors import printable
from systolic.report.summary.wording import number, plural

if TYPE_CHECKING:
    from systolic.run.difference import Compared, Difference, OfBoth

DIFFERENT = 1
ComparedPath = Annotated[
    Path,
    typer.Argument(
        help="Run file, model, program, summary.json, or the folder of a summary.json.",
        callback=of_name,
    ),
]


def diff_command(
    a: ComparedPath,
    b: ComparedPath,
    *,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Replace a value of B's run file, or chip."
        ),
    ] = None,
    chip: Annotated[
        str | None,
        typer.Option(
            "--chip",
            help="B's chip, by name or file; also A's, if A is a model, or a program without one.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, no tables.")] = False,
) -> None:
    """Say how run B differs from run A; exit status 1 if it does."""
    from systolic.run.difference import difference, of_summaries

    sides = _side(a, None, _chip_of_a(a, chip)), _side(b, overrides, chip)
    with of_summaries(a, b):
        found = difference(*sides)
        lines = [json.dumps(found.to_dict())] if as_json else list(text(found))
    for line in lines:
        typer.echo(line)
    if not found.equal:
        raise typer.Exit(DIFFERENT)


def _chip_of_a(a: Path, chip: str | None) -> str | None:
    """Return the chip for a program or a model A that names none."""
    from systolic.run.program import read_program
    from systolic.workload.importers.models import is_model

    if chip is None or _is_summary(a):
        return None
    if not is_program(a):
        return chip if is_model(a) else None
    return None if read_program(a)[0].chip else chip


def _is_summary(path: Path) -> bool:
    return path.suffix.lower() == ".json" or path.is_dir()


def _side(path: Path, overrides: list[str] | None, chip: str | None) -> Compared:
    """Return a side: the summary in a file, or a run for its times."""
    from systolic.errors import SystolicError
    from systolic.run.difference import Compared, summary_side

    if _is_summary(path):
        for option, given in (("--set", overrides), ("--chip", chip)):
            if given:
                raise SystolicError(
                    f"{option}: is for run files and programs, and {path} is a summary"
                )
        return summary_side(path)
    result = timed(path, WorkOptions(chip=chip, overrides=overrides, values=False))
    return Compared(str(path), result.summary, result)


def text(found: Difference) -> Iterator[str]:
    """Yield the lines that a person reads."""
    a, b = found.cycles
    if found.equal:
        yield f"equal: {plural(a, 'cycle')}"
        return
    yield f"cycles: {number(a)} -> {number(b)} ({b - a:+,})"
    if found.first is not None:
        yield found.first.why
    labels = {(u, label): pair for u, row in found.units.items() for label, pair in row.items()}
    yield from _table("units, in cycles of each", ("unit", "label"), labels)
    yield from _table("critical path", ("unit", "reason"), found.path)
    operations = {(printable(name),): pair for name, pair in found.operations.items()}
    yield from _table("operations", ("operation",), operations)
    kinds = {(kind,): pair for kind, pair in found.instructions.items()}
    yield from _table("instructions, how many", ("kind",), kinds)


def _table(title: str, names: tuple[str, ...], rows: Mapping[Any, OfBoth]) -> Iterator[str]:
    """Yield a table of rows by their keys, tuples of as many words as there are names."""
    if rows:
        yield ""
        yield title
        lines = [(*key, number(a), number(b), f"{b - a:+,}") for key, (a, b) in rows.items()]
        yield from table((*names, "A", "B", "change"), lines, numbers=-3)
