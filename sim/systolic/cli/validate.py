"""`systolic validate`: published figures of a machine against what the simulator gives."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from systolic.cli.tables import table
from systolic.errors import printable

if TYPE_CHECKING:
    from systolic.run.validation.validate import Judged

OUTSIDE = 1
KNOWN = "*"
"""Marks a row that is outside its tolerance for a reason that the table names."""


def validate_command(
    name: Annotated[
        str, typer.Argument(help="A shipped table, or a .csv file.", metavar="[TABLE]")
    ] = "neuroncore",
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, no table.")] = False,
) -> None:
    """Hold published figures against simulated ones.

    The exit status is 1 if a row is outside its tolerance for which the table names no reason.
    """
    from systolic.run.validation.table import read_table, table_file
    from systolic.run.validation.validate import validate

    found = list(validate(read_table(table_file(name))))
    if as_json:
        typer.echo(json.dumps([each.to_dict() for each in found]))
    else:
        for line in text(found):
            typer.echo(printable(line))
    if not all(each.ok or each.is_known for each in found):
        raise typer.Exit(OUTSIDE)


def text(found: Sequence[Judged]) -> Iterator[str]:
    """Yield the lines that a person reads: a table, then the rows that are off too far."""
    header = ("id", "published", "ours", "deviation", "tolerance", "unit", "what")
    yield from table(header, [_cells(each) for each in found], numbers=(1, 2, 3, 4))
    outside = [each for each in found if not each.ok]
    yield ""
    yield f"{len(found) - len(outside)} of {len(found)} rows within their tolerance"
    for each in outside:
        mark = f"{KNOWN} known" if each.is_known else "outside"
        why = f"we lack: {each.missing}" if each.is_known else "no reason is known"
        yield f"{mark}: {each.id}, {each.what} ({each.source}): {why}"


def _cells(row: Judged) -> tuple[str, ...]:
    off = "0" if row.deviation == 0 else f"{row.deviation:+.4g}"
    values = figure(row.published), figure(row.ours), off, figure(row.tolerance)
    name = f"{row.id} {KNOWN}" if row.is_known else row.id
    return (name, *values, row.unit, row.what)


def figure(value: float) -> str:
    """Return a number with at most six digits, whole if it is: ``64``, ``91.7504``, ``188``."""
    return f"{value:,.0f}" if value == round(value) else f"{value:.6g}"
