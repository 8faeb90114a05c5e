"""The table of model files that can be run, and the model that one of them holds.

A further format is a file with a reader and a row here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from systolic.arrays import Array
from systolic.errors import WorkloadError, listed, perhaps, shortened
from systolic.reading import read_file
from systolic.workload.importers.errors import ImportFileError, line_and_column
from systolic.workload.importers.graph import Imported, as_graph
from systolic.workload.importers.hlo.interpret import lower_module, refuse_not_done
from systolic.workload.importers.hlo.read import read_module
from systolic.workload.importers.stablehlo import as_hlo

LIMIT_BYTES = 2 << 30


@dataclass(frozen=True, slots=True)
class ModelFormat:
    """A kind of model file: how it begins (b"": any), and the function that reads its contents."""

    begins: bytes
    read: Callable[[bytes], Imported]


def _hlo(data: bytes) -> Imported:
    return read_hlo(_text(data))


def _stablehlo(data: bytes) -> Imported:
    return read_hlo(as_hlo(_text(data)))


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ImportFileError(f"line {line}: is not UTF-8 text") from None


def read_hlo(text: str) -> Imported:
    """Return the model of an HLO text; ImportFileError with line and column."""
    module = read_module(text)
    lowered = lower_module(module)
    refuse_not_done(module, lowered)
    return as_graph(
        lowered.form,
        lowered.results,
        lowered.result_shapes,
        place=lambda offset: "line {}, column {}".format(*line_and_column(text, offset)),
    )


FORMATS: Mapping[str, ModelFormat] = {
    ".hlo": ModelFormat(b"HloModule", _hlo),
    ".txt": ModelFormat(b"HloModule", _hlo),
    ".mlir": ModelFormat(b"", _stablehlo),
}
"""By the ending of the file's name; a file of several kinds is told by its first bytes."""


def is_model(path: Path) -> bool:
    """Return whether a file is a model, by the ending of its name and how it begins."""
    found = FORMATS.get(path.suffix.lower())
    if found is None:
        return False
    if not path.is_file():  # to open a pipe would wait for who writes it
        return path.suffix.lower() != ".txt"
    try:
        with path.open("rb") as file:
            return file.read(1 << 12).lstrip().startswith(found.begins)
    except OSError:
        return path.suffix.lower() != ".txt"


def read_model(path: Path) -> Imported:
    """Return the model of a file.

    Raises:
        WorkloadError: one line with the file, and the line and column where something is wrong.

    """
    data = read_file(path, LIMIT_BYTES, WorkloadError, "a model")
    return _read(path, data)


@lru_cache(maxsize=4)
def _read(path: Path, data: bytes) -> Imported:
    try:
        return FORMATS[path.suffix.lower()].read(data)
    except WorkloadError as error:
        raise type(error)(f"{path}: {error}") from None


def read_constant(path: Path, name: str, dims: tuple[int, ...]) -> Array:
    """Return a constant of a model by the name of its tensor, as archives give their arrays."""
    constants = read_model(path).constants
    if name not in constants:
        raise WorkloadError(
            f'{path}: holds no constant "{shortened(name)}", but {listed(constants)}'
            f"{perhaps(name, constants)}"
        )
    if constants[name].shape != dims:
        raise WorkloadError(f"{path}: {shortened(name)} has dimensions {constants[name].shape}")
    return constants[name]
