"""What the options of `systolic run` and `trace` come to, for run files and for programs.

The options that several commands share are here too. Not here: what is done with them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from systolic.errors import SystolicError, perhaps

EngineKind = Literal["event", "register"]
ENGINES: dict[str, EngineKind] = {"event": "event", "register": "register"}
VALUES = ("exact", "none")
LONGEST_NUMBER = 18
NO_CONFIG = (
    "Missing argument 'CONFIG': needs a run file, a program, or --again SUMMARY "
    "(systolic run --help lists the options)"
)


Config = Annotated[
    Path,
    typer.Argument(help="Run file (.toml), or a program (any other file).", metavar="CONFIG"),
]
RunFilePath = Annotated[Path, typer.Argument(help="Run file.", metavar="CONFIG")]
Engine = Annotated[
    str | None, typer.Option("--engine", help="event or register (default: as the run file says).")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help='Replace a value of the run file, or "chip." of its chip.',
    ),
]
ChipName = Annotated[
    str | None, typer.Option("--chip", help="A chip's name or file (default: the file's own).")
]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="NAME=FILE.npy",
        help="An input of a program, or a folder that holds them as NAME.npy.",
    ),
]
NoCheck = Annotated[
    bool,
    typer.Option("--no-check", help="Run a program though the checker finds races in it."),
]


@dataclass(frozen=True, slots=True)
class ProgramOptions:
    """What the command line says of a program: the file, its chip, inputs, engine and checks."""

    path: Path
    chip: str | None = None
    inputs: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    engine: EngineKind = "event"
    values: bool = True
    check: bool = True


@contextmanager
def of_option(option: str) -> Iterator[None]:
    """Begin an error raised inside with the option whose value is at fault."""
    try:
        yield
    except SystolicError as error:
        raise type(error)(f"{option}: {error}", error.setting) from None


def values_wanted(values: str) -> bool:
    """Return whether --values asks for values and not for times only."""
    if values not in VALUES:
        raise SystolicError(
            f'--values: needs one of "exact", "none", found "{values}"{perhaps(values, VALUES)}'
        )
    return values == "exact"


def refuse_with_again(
    config: Path | None,
    overrides: list[str] | None,
    engine: str | None,
    chip: str | None,
    inputs: list[str] | None,
    no_check: bool,
    exact: bool,
) -> None:
    """Raise SystolicError if --again comes with something that would make it another run."""
    given = {
        f'"{config}"': config, "--set": overrides, "--engine": engine, "--chip": chip,
        "--input": inputs, "--no-check": no_check, "--values none": not exact,
    }  # fmt: skip
    for option, value in given.items():
        if value:
            raise SystolicError(
                f"--again: does the run of a summary as it was; it takes no {option} beside it"
            )


def is_program(path: Path) -> bool:
    """Return whether a file is taken for a program: whatever is not called .toml."""
    return path.suffix.lower() != ".toml"


def refuse_jobs(config: Path, jobs: int | None) -> None:
    """Refuse --jobs where there are no points to share out."""
    if jobs is not None:
        raise SystolicError(f"--jobs: is for run files with a [[sweep]], and {config} has none")


def _checked_engine(engine: str) -> EngineKind:
    if engine in ENGINES:
        return ENGINES[engine]
    raise SystolicError(
        f'--engine: needs one of "event", "register", found "{engine}"{perhaps(engine, ENGINES)}'
    )


def run_file_overrides(
    config: Path,
    overrides: list[str] | None,
    engine: str | None,
    chip: str | None,
    inputs: list[str] | None,
    no_check: bool,
) -> list[str]:
    """Return the overrides that a run file's options come to."""
    for option, given in (("--input", inputs), ("--no-check", no_check)):
        if given:
            raise SystolicError(f"{option}: is for programs, and {config} is a run file")
    found = list(overrides or [])
    if chip is not None:
        found.append(f"chip={json.dumps(chip)}")
    if engine is not None:
        found.append(f"engine={_checked_engine(engine)}")
    return found


def program_options(
    path: Path,
    chip: str | None,
    inputs: list[str] | None,
    overrides: list[str] | None,
    engine: str | None,
    values: bool,
    check: bool,
) -> ProgramOptions:
    """Return what the options of a program come to."""
    return ProgramOptions(
        path=path,
        chip=chip,
        inputs=tuple(inputs or ()),
        overrides=tuple(overrides or ()),
        engine=_checked_engine(engine or "event"),
        values=values,
        check=check,
    )


def is_number(text: str) -> bool:
    """Return whether text is a whole number, and not longer than one can mean."""
    return text.isdecimal() and len(text) <= LONGEST_NUMBER
