"""Where a tensor's elements come from: counted, random, or read from a .npy or .csv file.

Files are not trusted: no pickle, dimensions are compared before anything is read, and an integer
type takes only numbers it can hold. Not here: where the elements lie in a chip's memories.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import ml_dtypes
import numpy as np
import numpy.typing as npt

from sim.errors import WorkloadError
from sim.layout import Shape
from sim.workload.files import read_csv, read_npy
from sim.workload.host import check_host_memory

Array = npt.NDArray[Any]

# Elements made at a time: a random or counted array costs little more than itself.
CHUNK_ELEMENTS = 1 << 20


@dataclass(frozen=True, slots=True)
class DataSource:
    """Where elements come from: "arange", "random" (with a seed), or "file" (with a path)."""

    kind: Literal["arange", "random", "file"]
    seed: int = 0
    path: Path = Path()

    def __str__(self) -> str:
        if self.kind == "file":
            return str(self.path)
        return f"random, seed {self.seed}" if self.kind == "random" else self.kind


def load_data(source: DataSource, shape: Shape) -> Array:
    """Return the elements of an array of that shape: row-major, in the shape's numpy dtype.

    * arange: 1, 2, 3, ... in row-major order. Integers wrap; floats round to the type, beyond
      its range to its infinity or NaN.
    * random: standard normal, rounded to the type, for floats; the full range for integers.
    * file: .npy or .csv of exactly the shape's dimensions. Floats round to the type; a number
      that the type cannot hold (300 or 0.5 as s8, 1e10 as f16) is refused.

    Raises:
        WorkloadError: names the file, what was needed and what was found; or the array would
            not fit this computer's memory.

    """
    check_host_memory(shape)
    if source.kind == "file":
        return _from_file(source.path, shape)
    _check_number_type(shape)
    flat = np.empty(shape.num_elements(), shape.dtype)
    make = _counted() if source.kind == "arange" else _random(source.seed, shape.dtype)
    next(make)
    for first in range(0, flat.size, CHUNK_ELEMENTS):
        part = flat[first : first + CHUNK_ELEMENTS]
        with _quiet():
            part[:] = make.send(part.size).astype(shape.dtype)
    return flat.reshape(shape.dims)
