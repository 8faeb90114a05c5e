"""The twin of ``index``: tiling as seed 002 describes it, by padding, reshaping, transposing.

It is the plain way to move data into any layout and out of it, folds and nested padding included,
and takes a copy for each tile. It is slow: ``packing`` uses it only for layouts that strided copies
cannot express.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from systolic.layout.shape import Shape
from systolic.layout.steps import TileStep, ordered_dims

Flat = NDArray[Any]


def into_memory(array: NDArray[Any], shape: Shape, fill: Any) -> Flat:
    """Return the memory of ``shape`` holding ``array``, one item for each place; a new array."""
    ordered = array.transpose(shape.layout.major_to_minor)
    widths = ordered_dims(shape.dims, shape.layout)
    flat = _padded(ordered.reshape(-1), ordered.shape, widths, shape.layout.padding_value)
    for step in shape.steps():
        untouched = step.before[: step.untouched]
        whole = untouched + tuple(c * t for c, t in zip(step.counts, step.sizes, strict=True))
        flat = _padded(flat, untouched + step.covered, whole, fill)
        flat = _reordered(flat, *_split(step))
    tail = shape.padded_elements() - flat.size
    return _padded(flat, (flat.size,), (flat.size + tail,), fill)


def out_of_memory(flat: Flat, shape: Shape) -> NDArray[Any]:
    """Return the array that lies in ``flat``, undoing ``into_memory``."""
    widths = ordered_dims(shape.dims, shape.layout)
    ordered = tuple(shape.dims[number] for number in shape.layout.major_to_minor)
    steps = shape.steps()
    flat = flat[: int(np.prod(shape.physical_dims(), dtype=object))]
    for step in reversed(steps):
        sizes, order = _split(step)
        back = tuple(int(axis) for axis in np.argsort(order))
        flat = _reordered(flat, tuple(sizes[axis] for axis in order), back)
        untouched = step.before[: step.untouched]
        whole = untouched + tuple(c * t for c, t in zip(step.counts, step.sizes, strict=True))
        flat = _cropped(flat, whole, untouched + step.covered)
    inverse = np.argsort(shape.layout.major_to_minor) if shape.rank else ()
    return _cropped(flat, widths, ordered).reshape(ordered).transpose(tuple(inverse))


def _split(step: TileStep) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sizes after each covered dimension is split in two, and the new order of axes."""
    interleaved = step.before[: step.untouched]
    for count, size in zip(step.counts, step.sizes, strict=True):
        interleaved += (count, size)
    first, k = step.untouched, len(step.sizes)
    numbers = tuple(range(first, first + 2 * k, 2))
    places = tuple(range(first + 1, first + 2 * k, 2))
    return interleaved, (*range(first), *numbers, *places)


def _reordered(flat: Flat, sizes: Sequence[int], order: Sequence[int]) -> Flat:
    """Return ``flat``, seen in ``sizes``, transposed; axes of size 1 are left out for numpy."""
    kept = [axis for axis in range(len(sizes)) if sizes[axis] != 1]
    rank = {axis: position for position, axis in enumerate(kept)}
    view = flat.reshape([sizes[axis] for axis in kept])
    return view.transpose([rank[axis] for axis in order if axis in rank]).reshape(-1)


def _padded(flat: Flat, sizes: Sequence[int], wider: Sequence[int], fill: Any) -> Flat:
    if tuple(sizes) == tuple(wider):
        return flat
    kept = [axis for axis in range(len(sizes)) if wider[axis] != 1]
    result = np.full([wider[axis] for axis in kept], fill, dtype=flat.dtype)
    corner = tuple(slice(0, sizes[axis]) for axis in kept)
    result[corner] = flat.reshape([sizes[axis] for axis in kept])
    return result.reshape(-1)


def _cropped(flat: Flat, sizes: Sequence[int], narrower: Sequence[int]) -> Flat:
    if tuple(sizes) == tuple(narrower):
        return flat
    kept = [axis for axis in range(len(sizes)) if sizes[axis] != 1]
    corner = tuple(slice(0, narrower[axis]) for axis in kept)
    return flat.reshape([sizes[axis] for axis in kept])[corner].reshape(-1)
