"""`systolic examples`: what comes with systolic, and the text of one of its files."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from systolic.cli.tables import table
from systolic.errors import SystolicError, perhaps, shortened
from systolic.examples import KINDS, examples

USE = {
    "runs": "systolic run NAME",
    "networks": "systolic run NAME",
    "programs": "systolic explain NAME, or systolic run NAME with its inputs",
    "chips": "systolic chip show NAME, or --chip NAME",
}


def examples_command(
    name: Annotated[str | None, typer.Argument(help="Print the file of this name.")] = None,
) -> None:
    """List the runs, networks, programs and chips that come with systolic, or print one of them."""
    if name is not None:
        typer.echo(_file(name).read_text(encoding="utf-8"), nl=False)
        return
    for line in _listing():
        typer.echo(line)


def _file(name: str) -> Path:
    known = {each: path for kind in KINDS for each, path in examples(kind).items()}
    if name not in known:
        raise SystolicError(
            f'examples: there is no "{shortened(name)}"{perhaps(name, known)} (without a name they '
            f"are listed)"
        )
    return known[name]


def _listing() -> Iterator[str]:
    for kind in KINDS:
        yield f"{kind} ({USE[kind]})"
        yield from table(("name", "what"), _rows(kind), numbers=0)
        yield ""
    yield "systolic examples NAME prints the file."


def _rows(kind: str) -> list[tuple[str, str]]:
    return [(name, _about(path)) for name, path in examples(kind).items()]


def _about(path: Path) -> str:
    """Return what a file says of itself."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".toml":
        return str(tomllib.loads(text)["description"])
    comment = next(line for line in text.splitlines() if line.startswith("#"))
    return comment.removeprefix("# ").partition(". ")[0]
