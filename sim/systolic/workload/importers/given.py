"""What a user says of a model besides its file: sizes, and values of inputs on which shapes depend.

Both can be written as a text, by which a constant that follows from them is found again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from systolic.arrays import Array
from systolic.workload.data.npy_csv import read_npy


@dataclass(frozen=True, slots=True)
class ModelGiven:
    """Sizes that a file leaves open, and arrays of inputs; a reader takes what it needs.

    shapes: the dimensions of an input by its name, or one size by the name of an open dimension.
    values: arrays by the names of inputs, or the .npy files that hold them. An open size is taken
    from the array.
    """

    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    values: Mapping[str, Array | Path] = field(default_factory=dict)

    def named(self, names: Sequence[str]) -> ModelGiven:
        """Return the same with names in place of numbers, which count the inputs of the file."""
        values = {
            names[int(key)] if key not in names and key.isdecimal() and int(key) < len(names)
            else key: value
            for key, value in self.values.items()
        }  # fmt: skip
        return ModelGiven(self.shapes, values)

    def array(self, name: str) -> Array | None:
        """Return the value of an input; None if there is none. WorkloadError for a bad file."""
        found = self.values.get(name)
        return read_npy(found) if isinstance(found, Path) else found

    @property
    def key(self) -> tuple[object, ...]:
        """Return what tells this apart from others, for a cache."""
        values = [(name, _key(value)) for name, value in sorted(self.values.items())]
        return tuple(sorted(self.shapes.items())), tuple(values)

    def text(self) -> str:
        """Return sizes and files as a text; "" if there are none. Arrays have no place in it."""
        files = {n: str(value) for n, value in self.values.items() if isinstance(value, Path)}
        if not self.shapes and not files:
            return ""
        return json.dumps({"shapes": {k: list(v) for k, v in self.shapes.items()}, "files": files})


NOTHING_GIVEN = ModelGiven()
"""A model with its own sizes; none of its shapes depends on an input."""


def given_of_text(text: str) -> ModelGiven:
    """Return what `ModelGiven.text` wrote."""
    if not text:
        return NOTHING_GIVEN
    found = json.loads(text)
    shapes = {name: tuple(sizes) for name, sizes in found["shapes"].items()}
    return ModelGiven(shapes, {name: Path(file) for name, file in found["files"].items()})


def _key(value: Array | Path) -> tuple[object, ...]:
    if isinstance(value, Path):
        return str(value), value.stat().st_mtime_ns if value.is_file() else 0
    return value.dtype.name, value.shape, value.tobytes()
