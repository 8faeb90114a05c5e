"""The table of model files that can be run, and the model that one of them holds.

A further format is a file with a reader and a row here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from systolic.arrays import Array
from systolic.errors import WorkloadError, listed, perhaps, shortened
from systolic.layout import Shape
from systolic.reading import read_file
from systolic.workload.importers.errors import ImportFileError, line_and_column
from systolic.workload.importers.given import NOTHING_GIVEN, ModelGiven, given_of_text
from systolic.workload.importers.graph import Imported, as_graph
from systolic.workload.importers.hlo.interpret import lower_module, refuse_not_done
from systolic.workload.importers.hlo.read import read_module
from systolic.workload.importers.onnx.lower import lower_onnx
from systolic.workload.importers.onnx.read import parsed
from systolic.workload.importers.stablehlo import as_hlo

LIMIT_BYTES = (2 << 30) - 1
"""A byte less than 2 GiB: protobuf reads no more."""
LIMIT_TEXT_BYTES = 512 << 20
"""A text is in memory twice, as bytes and as letters."""


@dataclass(frozen=True, slots=True)
class ModelFormat:
    """A kind of model file: how it begins (b"": any), and the function that reads its contents.

    read: takes the contents, the folder of the file, and what the user says of the model.
    limit_bytes: larger files are not read.
    """

    begins: bytes
    read: Callable[[bytes, Path, ModelGiven], Imported]
    limit_bytes: int = LIMIT_TEXT_BYTES


def _hlo(data: bytes, folder: Path, given: ModelGiven) -> Imported:
    return read_hlo(_text(data))


def _onnx(data: bytes, folder: Path, given: ModelGiven) -> Imported:
    return read_onnx(parsed(data), folder, given)


def read_onnx(model: Any, folder: Path, given: ModelGiven = NOTHING_GIVEN) -> Imported:
    """Return a model that is a message of the package onnx. folder: of external data."""
    lowered = lower_onnx(model, folder, given)
    shapes = [lowered.form.shape(each) for each in lowered.results]
    plain = [Shape(each.element_type, each.dims) for each in shapes]
    found = as_graph(lowered.form, lowered.results, plain, lowered.names)
    return replace(
        found,
        names=lowered.inputs,
        known=lowered.constants,
        int64=lowered.int64,
        is_open=lowered.is_open,
    )


def _stablehlo(data: bytes, folder: Path, given: ModelGiven) -> Imported:
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
    ".onnx": ModelFormat(b"", _onnx, LIMIT_BYTES),
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


def read_model(path: Path, given: ModelGiven = NOTHING_GIVEN) -> Imported:
    """Return the model of a file.

    given: sizes and values that the file leaves open.

    Raises:
        WorkloadError: one line with the file, and the line and column where something is wrong.

    """
    limit_bytes = FORMATS[path.suffix.lower()].limit_bytes
    data = read_file(path, limit_bytes, WorkloadError, "a model that can be read")
    return _read(path, data, _Given(given))


def _check_shapes(found: Imported, given: ModelGiven) -> None:
    """Raise WorkloadError if a shape is given that an input does not have."""
    shapes = dict(zip(found.inputs, found.input_shapes, strict=True))
    for name, dims in given.shapes.items():
        if name in shapes and shapes[name].dims != dims:
            own = ",".join(map(str, shapes[name].dims))
            raise WorkloadError(
                f'input "{shortened(name)}": has dimensions {own}, found {",".join(map(str, dims))}'
            )
        if name not in shapes and not found.is_open:
            raise WorkloadError(
                f'shape of "{shortened(name)}": is no input of the model (known: {listed(shapes)})'
                f"{perhaps(name, shapes)}"
            )


class _Given:
    """What a user says of a model, told apart from others by its contents."""

    def __init__(self, given: ModelGiven) -> None:
        self.given = given
        self._key = given.key

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Given) and self._key == other._key


@lru_cache(maxsize=4)
def _read(path: Path, data: bytes, given: _Given) -> Imported:
    try:
        found = FORMATS[path.suffix.lower()].read(data, path.parent, given.given)
        _check_shapes(found, given.given)
        return found
    except WorkloadError as error:
        raise type(error)(f"{path}: {error}", error.setting) from None


def constant_name(name: str, given: str) -> str:
    """Return the name by which a constant is found again; given: `ModelGiven.text`, if any."""
    return f"{name}?{given}" if given else name


def read_constant(path: Path, wanted: str, dims: tuple[int, ...]) -> Array:
    """Return a constant of a model by the name of its tensor, as archives give their arrays."""
    name, has_given, given = wanted.partition("?{")
    constants = read_model(path, given_of_text("{" + given if has_given else "")).constants
    if name not in constants:
        raise WorkloadError(
            f'{path}: holds no constant "{shortened(name)}", but {listed(constants)}'
            f"{perhaps(name, constants)}"
        )
    if constants[name].shape != dims:
        raise WorkloadError(f"{path}: {shortened(name)} has dimensions {constants[name].shape}")
    return constants[name]
