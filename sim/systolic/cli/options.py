"""The options that several commands share, and what they mean for run files and for programs.

Not here: what a command does with them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from systolic.engine_kind import ENGINE_KINDS, EngineKind
from systolic.errors import SystolicError, perhaps, shortened
from systolic.examples import named_work

if TYPE_CHECKING:
    from systolic.config import Override

VALUES = ("exact", "none")
LONGEST_NUMBER = 18
MOST_NAMES = 20
NO_CONFIG = (
    "Missing argument 'CONFIG': needs a run file, a program, or --again SUMMARY "
    "(systolic run --help lists the options)"
)


def of_name(given: Path | None) -> Path | None:
    """Return the file that an argument means: the name of an example stands for its file."""
    return None if given is None else named_work(given)


def of_names(given: list[Path] | None) -> list[Path] | None:
    """Return the files that arguments mean."""
    return None if given is None else list(map(named_work, given))


CONFIG_HELP = "Run or system file (.toml), model (HLO text), program, or the name of an example."
Config = Annotated[Path, typer.Argument(help=CONFIG_HELP, metavar="CONFIG", callback=of_name)]
RunFilePath = Annotated[
    Path, typer.Argument(help="Run file, or an example's name.", metavar="CONFIG", callback=of_name)
]
EngineOption = Annotated[
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
        help="An input, or a folder that holds inputs as NAME.npy.",
    ),
]
Shapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="NAME=SIZES",
        help="Of a model: sizes of an input (x=1,3,224,224), or an open one (batch=8).",
    ),
]
NoCheck = Annotated[
    bool,
    typer.Option("--no-check", help="Run a program though the checker finds races in it."),
]


LayerRange = Annotated[
    str | None,
    typer.Option(
        "--layers",
        metavar="FIRST:STOP",
        help="Only these operations of a network, counted from 0, STOP not among them.",
    ),
]


ImageRange = Annotated[
    str | None,
    typer.Option(
        "--images",
        metavar="FIRST:STOP",
        help="Only these images of a network's batch, counted from 0, STOP not among them.",
    ),
]


HomeOption = Annotated[
    str | None,
    typer.Option("--home", help="Memory in which tensors live: dram or state_buffer."),
]
SeedOption = Annotated[
    int | None, typer.Option("--seed", min=0, help="Seed of what is drawn at random.")
]


WHEN_REFUSED = "another chip (--chip) may have the instructions, and --partial does it on the host"


@dataclass(frozen=True, slots=True)
class WorkOptions:
    """The options that say how a run file or a program is run; None: the option was not given.

    inputs, shapes, overrides, layers, images: the texts of these options. values: False for times
    only.
    """

    engine: str | None = None
    chip: str | None = None
    inputs: Sequence[str] | None = None
    overrides: Sequence[str] | None = None
    no_check: bool = False
    values: bool = True
    layers: str | None = None
    images: str | None = None
    home: str | None = None
    seed: int | None = None
    shapes: Sequence[str] | None = None


@contextmanager
def of_option(option: str) -> Iterator[None]:
    """Begin an error raised inside with the option whose value is at fault."""
    try:
        yield
    except SystolicError as error:
        raise type(error)(f"{option}: {error}", error.setting) from None


def values_wanted(values: str) -> bool:
    """Return whether --values asks for values; False for times only."""
    if values not in VALUES:
        raise SystolicError(
            f'--values: needs one of "exact", "none", found "{values}"{perhaps(values, VALUES)}'
        )
    return values == "exact"


def refuse_with_again(config: Path | None, options: WorkOptions) -> None:
    """Raise SystolicError if --again comes with an option that would make it another run."""
    given = {
        f'"{config}"': config,
        "--set": options.overrides,
        "--engine": options.engine,
        "--chip": options.chip,
        "--input": options.inputs,
        "--shape": options.shapes,
        "--layers": options.layers,
        "--images": options.images,
        "--home": options.home,
        "--seed": options.seed is not None,
        "--no-check": options.no_check,
        "--values none": not options.values,
    }
    for option, value in given.items():
        if value:
            raise SystolicError(
                f"--again: does the run of a summary as it was; it takes no {option} beside it"
            )


def is_program(path: Path) -> bool:
    """Return whether a file is taken for a program: every file but run files (.toml) and models."""
    if path.suffix.lower() == ".toml":
        return False
    from systolic.workload.importers.models import is_model

    return not is_model(path)


def refuse_jobs(config: Path, jobs: int | None) -> None:
    """Raise SystolicError if --jobs is given, since the run has no points to share out."""
    if jobs is not None:
        raise SystolicError(f"--jobs: is for run files with a [[sweep]], and {config} has none")


def checked_engine(engine: str) -> EngineKind:
    """Return the engine that --engine names; SystolicError if there is no such engine."""
    if engine in ENGINE_KINDS:
        return ENGINE_KINDS[engine]
    known = ", ".join(f'"{kind}"' for kind in ENGINE_KINDS)
    raise SystolicError(
        f'--engine: needs one of {known}, found "{engine}"{perhaps(engine, ENGINE_KINDS)}'
    )


def set_values(texts: Sequence[str] | None) -> list[Override]:
    """Return the overrides that the texts of --set mean."""
    from systolic.config import Override

    return [Override.parse(text, "--set") for text in texts or ()]


def run_file_overrides(config: Path, options: WorkOptions) -> list[Override]:
    """Return the overrides of a run file's values that the options mean."""
    from systolic.config import Override

    if options.no_check:
        raise SystolicError(f"--no-check: is for programs, and {config} is a run file")
    found = set_values(options.overrides)
    if options.chip is not None:
        text = f"chip={json.dumps(options.chip)}"
        found.append(Override(("chip",), options.chip, "--chip", Path(), text))
    if options.engine is not None:
        engine = checked_engine(options.engine)
        found.append(Override(("engine",), engine, "--engine", Path(), f"engine={engine}"))
    for key, given, what in (
        ("layers", options.layers, "operations"),
        ("images", options.images, "images"),
    ):
        if given is not None:
            part, option = _part(f"--{key}", given, what), f"--{key}"
            text = f"workload.{key}={part}"
            found.append(Override(("workload", key), part, option, Path(), text))
    for option, key, value in (("--home", "home", options.home), ("--seed", "seed", options.seed)):
        if value is not None:
            text = f"workload.{key}={json.dumps(value)}"
            found.append(Override(("workload", key), value, option, Path(), text))
    found += shape_overrides(options.shapes or ())
    return found + _input_data(config, options.inputs or (), found)


def shape_overrides(texts: Sequence[str]) -> list[Override]:
    """Return overrides that give sizes to a model: NAME=1,3,224,224, or NAME=8."""
    from systolic.config import Override

    found = []
    for text in texts:
        name, _, sizes = text.rpartition("=")
        numbers = sizes.split(",")
        if not name or not all(map(is_number, numbers)):
            needed = "NAME=SIZES, such as x=1,3,224,224 or batch=8"
            raise SystolicError(f'--shape: needs {needed}, found "{shortened(text)}"')
        value = list(map(int, numbers))
        key = ("workload", "shapes", name)
        text_form = f"workload.shapes.{json.dumps(name)}={json.dumps(value)}"
        found.append(Override(key, value, f"--shape {text}", Path(), text_form))
    return found


def _input_data(config: Path, given: Sequence[str], others: Sequence[Override]) -> list[Override]:
    """Return overrides that take inputs from files: NAME=FILE, or a folder of NAME.npy files."""
    from systolic.config import Override, load_run
    from systolic.run.folder import npy_name

    found: list[Override] = []
    for text in given:
        name, equals, file = text.partition("=")
        if equals:
            pairs = [(name, Path(file))]
        elif Path(text).is_dir():
            names = load_run(config, others).graph.inputs
            pairs = [(each, Path(text) / npy_name(each)) for each in names]
            pairs = [(each, path) for each, path in pairs if path.exists()]
            if not pairs:
                known = ", ".join(npy_name(each) for each in names[:MOST_NAMES])
                raise SystolicError(f"--input: {text} holds none of the inputs ({known})")
        else:
            needed = "NAME=FILE.npy, or a folder of them"
            raise SystolicError(f'--input: needs {needed}, found "{shortened(text)}"')
        for each, path in pairs:
            key, value = ("workload", "tensors", each, "data"), str(path.resolve())
            text_form = f"workload.tensors.{json.dumps(each)}.data={json.dumps(value)}"
            found.append(Override(key, value, f"--input {text}", Path(), text_form))
    return found


def _part(option: str, text: str, what: str) -> list[int]:
    """Return the two numbers of an option; SystolicError if there are not two."""
    numbers = text.split(":")
    if len(numbers) != 2 or not all(map(is_number, numbers)):
        raise SystolicError(
            f'{option}: needs FIRST:STOP, two numbers of {what}, found "{shortened(text)}"'
        )
    return list(map(int, numbers))


def is_number(text: str) -> bool:
    """Return whether text is a whole number of at most LONGEST_NUMBER digits."""
    return text.isdecimal() and len(text) <= LONGEST_NUMBER
