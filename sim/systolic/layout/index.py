"""Where an element lies in memory, by the closed formula, and back.

``linear_index`` walks the tiles with floor division and remainder; ``from_linear_indices`` undoes
it. The same code serves single integers and whole arrays. ``packing/by_definition`` is the same
mapping a second time, by padding, reshaping and transposing; tests compare the two. Not here:
moving data.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from systolic.layout.errors import LayoutError
from systolic.layout.layout import Layout
from systolic.layout.steps import TileStep, ordered_dims

Coordinate = Any
"""A Python int, or an int64 array: the code below serves both."""


def linear_index(
    dims: tuple[int, ...],
    layout: Layout,
    steps: tuple[TileStep, ...],
    index: Sequence[Any],
) -> Any:
    """Return the offset, in elements, of ``index`` (integers, or arrays that broadcast)."""
    logical = _checked(dims, index)
    coordinates = [logical[number] for number in layout.major_to_minor]
    sizes = ordered_dims(dims, layout)
    for step in steps:
        coordinates = _into_tiles(step, coordinates)
        sizes = step.after
    offset = _horner(coordinates, sizes)
    shapes = [part.shape for part in logical if isinstance(part, np.ndarray)]
    if not shapes:
        return int(offset)
    return np.ascontiguousarray(np.broadcast_to(offset, np.broadcast_shapes(*shapes)))


def _checked(dims: tuple[int, ...], index: Sequence[Any]) -> list[Coordinate]:
    if len(index) != len(dims):
        raise LayoutError(f"an index needs {len(dims)} numbers, found {len(index)}")
    return [_in_range(part, dims[number], number) for number, part in enumerate(index)]


def _in_range(part: Any, size: int, number: int) -> Coordinate:
    """Return ``part`` as int or int64 array; LayoutError for an index not in ``range(size)``."""
    if not isinstance(part, np.ndarray):
        value = operator.index(part)
        if not 0 <= value < size:
            raise LayoutError(
                f"index {value} is out of range for dimension {number} of size {size}"
            )
        return value
    if part.dtype.kind not in "iu":
        raise LayoutError(f"indices must be integers, found {part.dtype} for dimension {number}")
    values = part.astype(np.int64, copy=False)
    # As an unsigned number a negative one is huge, so one pass finds both kinds of mistake.
    if values.size and int(values.view(np.uint64).max()) >= size:
        wrong = int(values[(values < 0) | (values >= size)].flat[0])
        raise LayoutError(f"index {wrong} is out of range for dimension {number} of size {size}")
    return values


def _into_tiles(step: TileStep, coordinates: list[Coordinate]) -> list[Coordinate]:
    """Return the coordinates after one tile: untouched, tile numbers, places inside the tile."""
    coordinates = [0] * step.missing + coordinates
    kept, rest = coordinates[: step.untouched], iter(coordinates[step.untouched :])
    folded = [_horner([next(rest) for _ in group], group) for group in step.groups]
    numbers, places = [], []
    for coordinate, dim, size in zip(folded, step.covered, step.sizes, strict=True):
        number, place = _split(coordinate, dim, size)
        numbers.append(number)
        places.append(place)
    return kept + numbers + places


def _split(coordinate: Coordinate, dim: int, size: int) -> tuple[Coordinate, Coordinate]:
    if size == 1:
        return coordinate, 0
    if size >= dim:
        return 0, coordinate
    number = coordinate // size
    return number, coordinate - number * size


def _horner(coordinates: Sequence[Coordinate], sizes: Sequence[int]) -> Coordinate:
    """Return linear_index(e, d) = (..(e_n d_{n-1} + e_{n-1}) d_{n-2} ..) + e_1, zeros skipped."""
    total: Coordinate = 0
    stride = math.prod(sizes)
    for coordinate, size in zip(coordinates, sizes, strict=True):
        stride = stride // size if size else 0
        if isinstance(coordinate, int) and coordinate == 0:
            continue
        term = coordinate if stride == 1 else coordinate * stride
        total = term if isinstance(total, int) and total == 0 else total + term
    return total


def from_linear_indices(
    dims: tuple[int, ...],
    layout: Layout,
    steps: tuple[TileStep, ...],
    offsets: NDArray[Any],
    places: int,
) -> tuple[tuple[NDArray[np.int64], ...], NDArray[np.bool_]]:
    """Return the logical index at each of ``offsets``, and a mask that is false at padding."""
    # Flat, and never 0-dimensional: the mask is cleared in place on the way.
    remaining = _offsets_in_range(offsets.reshape(-1), places)
    sizes = steps[-1].after if steps else ordered_dims(dims, layout)
    valid = remaining < math.prod(sizes)
    coordinates = _unravel(remaining, sizes)
    for step in reversed(steps):
        coordinates = _out_of_tiles(step, coordinates, valid)
    logical: list[NDArray[np.int64]] = [remaining] * len(dims)
    for number, coordinate in zip(layout.major_to_minor, coordinates, strict=True):
        valid &= coordinate < dims[number]
        logical[number] = coordinate
    return tuple(part.reshape(offsets.shape) for part in logical), valid.reshape(offsets.shape)


def _offsets_in_range(offsets: NDArray[Any], places: int) -> NDArray[np.int64]:
    if offsets.dtype.kind not in "iu":
        raise LayoutError(f"offsets must be integers, found {offsets.dtype}")
    if offsets.dtype == np.uint64 and offsets.size and int(offsets.max()) >= places:
        raise LayoutError(f"offset {int(offsets.max())} is out of range: there are {places} places")
    values = offsets.astype(np.int64)
    wrong = (values < 0) | (values >= places)
    if wrong.any():
        first = int(values[wrong].flat[0])
        raise LayoutError(f"offset {first} is out of range: there are {places} places")
    return values


def _unravel(offsets: NDArray[np.int64], sizes: Sequence[int]) -> list[NDArray[np.int64]]:
    coordinates: list[NDArray[np.int64]] = []
    for size in reversed(sizes):
        whole = offsets // max(size, 1)
        coordinates.append(offsets - whole * size)
        offsets = whole
    return coordinates[::-1]


def _out_of_tiles(
    step: TileStep, coordinates: list[NDArray[np.int64]], valid: NDArray[np.bool_]
) -> list[NDArray[np.int64]]:
    """Undo ``_into_tiles`` for one tile; clears ``valid`` where there is padding."""
    k = len(step.sizes)
    kept = coordinates[: step.untouched]
    numbers = coordinates[step.untouched : step.untouched + k]
    inside = coordinates[step.untouched + k :]
    unfolded: list[NDArray[np.int64]] = []
    for number, place, size, dim, group in zip(
        numbers, inside, step.sizes, step.covered, step.groups, strict=True
    ):
        folded = number * size + place
        valid &= folded < dim
        unfolded += _unravel(folded, group)
    return (kept + unfolded)[step.missing :]
