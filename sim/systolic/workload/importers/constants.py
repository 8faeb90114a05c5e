"""The constants of a model as an .npz file, in types that numpy knows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from systolic.arrays import Array
from systolic.layout.element_types import element_type_of


def save_constants(path: Path, constants: Mapping[str, Array]) -> None:
    """Write constants by name; types that numpy does not know are written as wider ones."""
    arrays = {name: _as_plain(array) for name, array in constants.items()}
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def _as_plain(array: Array) -> Array:
    if array.dtype.kind != "V":
        return array
    integers = element_type_of(array.dtype).integer_range is not None
    return array.astype(np.int8 if integers else np.float32)
