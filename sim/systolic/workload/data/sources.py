"""Where a tensor's elements come from: counted, random, or read from a file.

Files are not trusted. Pickled objects are refused, dimensions are compared before elements are
read, and an integer type takes only numbers that it can hold. Not here: where the elements lie in a
chip's memories.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import ml_dtypes
import numpy as np
import numpy.typing as npt

from systolic.arrays import Array
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.data.archives import READERS
from systolic.workload.data.host_memory import check_host_memory
from systolic.workload.data.npy_csv import PLAIN_TYPES, check_dims, read_csv, read_npy

# Elements made at a time, so that making an array takes little more memory than the array.
CHUNK_ELEMENTS = 1 << 20


@dataclass(frozen=True, slots=True)
class BatchPart:
    """Images `first` to before `stop` of a batch of `count`, along the first dimension."""

    first: int
    stop: int
    count: int

    def of(self, array: Array) -> Array:
        """Return these images of the whole batch."""
        return array[self.first : self.stop]


@dataclass(frozen=True, slots=True)
class DataSource:
    """Where elements come from: "arange", "random" (with a seed), or "file" (with a path).

    deviation: the standard deviation of random floating-point numbers. array: which array of a file
    that holds several by name. images: only the elements of some images.
    """

    kind: Literal["arange", "random", "file"]
    seed: int = 0
    path: Path = Path()
    deviation: float = 1.0
    array: str = ""
    images: BatchPart | None = None

    def __str__(self) -> str:
        if self.images is not None:
            whole = replace(self, images=None)
            return f"{whole}, images {self.images.first} to {self.images.stop - 1}"
        if self.kind == "file":
            return f"{self.path}, {self.array}" if self.array else str(self.path)
        if self.kind == "arange":
            return self.kind
        spread = "" if self.deviation == 1 else f", deviation {self.deviation:g}"
        return f"random, seed {self.seed}{spread}"


def load_data(source: DataSource, shape: Shape) -> Array:
    """Return the elements of an array of that shape: row-major, in the shape's numpy dtype.

    * arange: 1, 2, 3, ... in row-major order. Integers wrap, pred too. Floats round to the type;
      numbers beyond its range become its infinity or NaN.
    * random: for floats, float32 standard normal numbers times the deviation (in float32), rounded
      to the type; for integers, numbers from the type's full range. They are drawn from
      `np.random.default_rng(seed)`.
    * file: an array of exactly the shape's dimensions. Floats round to the type; a number
      that the type cannot hold (300 or 0.5 as s8, 1e10 as f16) is refused.

    Raises:
        WorkloadError: a file cannot be used (the error names it, what was needed and what was
            found), or the array would not fit this computer's memory.

    """
    if (images := source.images) is not None:
        whole = Shape(shape.element_type, (images.count, *shape.dims[1:]))
        return np.array(images.of(load_data(replace(source, images=None), whole)))
    check_host_memory(shape)
    if source.kind == "file":
        return fitted(source.path, _read(source, shape.dims), shape)
    limits = number_limits(shape)
    if limits is not None and source.deviation != 1:
        raise WorkloadError(f"deviation {source.deviation:g}: only random floats have one: {shape}")
    flat = np.empty(shape.num_elements(), shape.dtype)
    parts = (flat[n : n + CHUNK_ELEMENTS] for n in range(0, flat.size, CHUNK_ELEMENTS))
    chunks = _counted(flat) if source.kind == "arange" else _drawn(source, limits, flat.size)
    with _quiet():
        for part, numbers in zip(parts, chunks, strict=True):
            part[:] = numbers.astype(flat.dtype)
    return flat.reshape(shape.dims)


def _counted(flat: Array) -> Iterator[Array]:
    """Yield 1, 2, 3, ... in chunks, for pred whether they are odd."""
    for first in range(0, flat.size, CHUNK_ELEMENTS):
        last = min(first + CHUNK_ELEMENTS, flat.size)
        numbers = np.arange(first + 1, last + 1, dtype=np.int64)
        yield numbers % 2 if flat.dtype == bool else numbers


def _drawn(source: DataSource, limits: tuple[int, int] | None, total: int) -> Iterator[Array]:
    """Yield as many random numbers in chunks. A run without them does not load numpy.random."""
    rng = np.random.default_rng(source.seed)
    for first in range(0, total, CHUNK_ELEMENTS):
        yield _random(rng, min(CHUNK_ELEMENTS, total - first), limits, source.deviation)


def number_limits(shape: Shape) -> tuple[int, int] | None:
    """Return the least and greatest integer of the type, None for floats; else WorkloadError."""
    types: Any = ml_dtypes  # its iinfo and finfo have no annotations
    if shape.element_type == "pred":
        return 0, 1
    if shape.dtype.kind not in "bc":
        with suppress(ValueError):
            info = types.iinfo(shape.dtype)
            return int(info.min), int(info.max)
        with suppress(ValueError):
            types.finfo(shape.dtype)
            return None
    raise WorkloadError(f"data type {shape.element_type} holds no real numbers to transpose")


def _random(
    rng: np.random.Generator, count: int, limits: tuple[int, int] | None, deviation: float
) -> Array:
    if limits is None:
        return rng.standard_normal(count, dtype=np.float32) * np.float32(deviation)
    low, high = limits
    return rng.integers(low, high, count, np.uint64 if low >= 0 else np.int64, endpoint=True)


def _read(source: DataSource, dims: tuple[int, ...]) -> Array:
    """Return the array of a file in the type of the file; WorkloadError for other dimensions."""
    path, suffix = source.path, source.path.suffix.lower()
    if suffix in READERS:
        return READERS[suffix](path, source.array, dims)
    found = read_csv(path) if suffix == ".csv" else read_npy(path)
    check_dims(path, found.shape, dims)
    return found


def fitted(path: Path | str, found: Array, shape: Shape) -> Array:
    """Return an array in the type of a shape: integers unchanged, floats rounded to nearest even.

    path: the file of the array, or another name of it, for messages.

    Raises:
        WorkloadError: the array holds something that the type cannot hold.

    """
    limits = number_limits(shape)
    if found.dtype.kind == "V":
        return _reinterpret(path, found, shape)
    if found.dtype.kind not in "biuf":
        raise WorkloadError(f"{path}: holds {found.dtype}, not real numbers")
    if limits is None:
        return _to_float(path, found, shape)
    return _to_integer(path, found, shape, limits)


def _reinterpret(path: Path | str, found: Array, shape: Shape) -> Array:
    # numpy writes types it does not know (bfloat16, float8) as plain bytes of their size.
    same_size = found.dtype.itemsize == shape.dtype.itemsize
    if found.dtype.names or not same_size or shape.dtype in PLAIN_TYPES:
        raise WorkloadError(f"{path}: holds {found.dtype}, which is not {shape.element_type}")
    return np.asarray(found, order="C").view(shape.dtype)


def _to_float(path: Path | str, found: Array, shape: Shape) -> Array:
    with _quiet():
        values = np.asarray(found.astype(shape.dtype), order="C")
        lost = np.isfinite(found) & ~np.isfinite(values)
    _refuse(path, found, lost, f"which {shape.element_type} cannot hold")
    return values


def _to_integer(path: Path | str, found: Array, shape: Shape, limits: tuple[int, int]) -> Array:
    low, high = limits
    with _quiet():
        # Found by comparisons alone: a NaN fails both, and a conversion could change the number.
        lost = ~((found >= low) & (found <= high))
        if found.dtype.kind == "f":
            lost |= found != np.floor(found)
        values = np.asarray(found.astype(shape.dtype), order="C")
    why = f"which {shape.element_type} cannot hold (whole numbers from {low} to {high})"
    _refuse(path, found, lost, why)
    return values


def _refuse(path: Path | str, found: Array, lost: npt.NDArray[np.bool_], why: str) -> None:
    if lost.any():
        index = [int(i) for i in np.argwhere(lost)[0]]
        raise WorkloadError(f"{path}: holds {found[tuple(index)]} at {index}, {why}")


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep numpy from warning of overflow in conversions, whose results the caller checks."""
    with np.errstate(all="ignore"):
        yield
