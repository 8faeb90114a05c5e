"""What the options of `systolic run` and `trace` come to, for run files and for programs.

Not here: the options themselves (`systolic.cli.main`), and what is done with them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from systolic.errors import SystolicError, perhaps

EngineName = Literal["event", "register"]
ENGINES: dict[str, EngineName] = {"event": "event", "register": "register"}
VALUES = ("exact", "none")
# The option that gives what an error of the library asks for, by the error's `setting`.
OPTION_OF = {
    "chip": "--chip CHIP",
    "folder": "--out FOLDER",
    "jobs": "--jobs N",
    "pins": "--pins FILE",
}
NO_CONFIG = (
    "Missing argument 'CONFIG': needs a run file, a program, or --again SUMMARY "
    "(systolic run --help lists the options)"
)


@dataclass(frozen=True, slots=True)
class ProgramOptions:
    """What the command line says of a program: the file, its chip, inputs, engine and checks."""

    path: Path
    chip: str | None = None
    inputs: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    engine: EngineName = "event"
    values: bool = True
    check: bool = True


def message_of(error: SystolicError) -> str:
    """Return an error's message, with the option that gives what it asks for."""
    return str(error) if error.setting is None else f"{error} ({OPTION_OF[error.setting]})"


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


def _checked_engine(engine: str) -> EngineName:
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
