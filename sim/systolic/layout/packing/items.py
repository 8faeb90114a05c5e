"""Packing and unpacking layouts whose elements are whole items of a numpy array.

A layout without ``*`` takes a few strided copies (``strided_boxes``). A ``*`` in the first tile
takes a reshape before them. All other layouts are padded, reshaped and transposed tile by tile
(``by_definition``). Not here: checks (``memory``).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from systolic.arrays import Array
from systolic.layout.packing import by_definition
from systolic.layout.packing.copying import copy_strided
from systolic.layout.packing.memory import NUMPY_RANK
from systolic.layout.packing.strided_boxes import in_array, in_memory, strided_boxes
from systolic.layout.shape import Shape
from systolic.layout.tile import Tile


def pack_items(source: Array, shape: Shape, fill: Any, buffer: Array, *, fresh: bool) -> None:
    """Write ``source`` and its padding to ``buffer``; a ``fresh`` buffer has zeros as padding."""
    legacy = shape.layout.padded_dimensions not in (None, shape.dims)
    parts = None if legacy else strided_boxes(shape)
    if parts is None:
        folded = None if legacy else without_fold(shape)
        if folded is None:
            if buffer.size:
                buffer[...] = by_definition.into_memory(source, shape, fill)
            return
        ordered = source.transpose(shape.layout.major_to_minor).reshape(folded.dims)
        pack_items(ordered, folded, fill, buffer, fresh=fresh)
        return
    _fill_padding(buffer, shape, fill, fresh=fresh)
    for part in parts:
        copy_strided(in_memory(buffer, part), in_array(source, part.box))


def unpack_items(memory: Array, shape: Shape, array: Array) -> None:
    """Read the elements in ``memory`` into ``array``."""
    parts = strided_boxes(shape)
    if parts is not None:
        for part in parts:
            copy_strided(in_array(array, part.box), in_memory(memory, part))
        return
    folded = without_fold(shape)
    if folded is None:
        array[...] = by_definition.out_of_memory(memory, shape)
        return
    ordered = array.transpose(shape.layout.major_to_minor)
    merged = np.empty(folded.dims, shape.dtype)
    unpack_items(memory, folded, merged)
    ordered[...] = merged.reshape(ordered.shape)


@lru_cache(maxsize=256)
def without_fold(shape: Shape) -> Shape | None:
    """Return the same memory as a row-major shape whose first tile has no ``*``.

    Its dimensions are the folded physical dimensions. None if a later tile folds, or if legacy
    padding lies inside the folded dimensions.
    """
    steps = shape.steps()
    if shape.layout.padded_dimensions not in (None, shape.dims):
        return None
    if not steps or not steps[0].folds or any(step.folds for step in steps[1:]):
        return None
    first = steps[0]
    dims = first.before[: first.untouched] + first.covered
    tiles = tuple(Tile(step.sizes) for step in steps)
    order = tuple(range(len(dims) - 1, -1, -1))
    layout = replace(shape.layout, minor_to_major=order, tiles=tiles, padded_dimensions=None)
    return Shape(shape.element_type, dims, layout)


def _fill_padding(buffer: Array, shape: Shape, fill: Any, *, fresh: bool) -> None:
    """Write ``fill`` wherever padding may lie; elements are written over it later."""
    if shape.padded_elements() == shape.num_elements():
        return
    if fresh and _is_zero(fill, buffer.dtype):
        return
    steps = shape.steps()
    only_first = (
        steps
        and shape.padded_elements() == math.prod(shape.physical_dims())
        and not any(step.pads or len(step.sizes) > len(steps[0].sizes) for step in steps[1:])
        and len(steps[0].after) <= NUMPY_RANK
    )
    if not only_first:
        buffer[...] = fill
        return
    first = steps[0]
    tiles = buffer.reshape((*first.before[: first.untouched], *first.counts, -1))
    for axis, (dim, size) in enumerate(zip(first.covered, first.sizes, strict=True)):
        if dim % size:
            edge: list[slice | int] = [slice(None)] * (first.untouched + axis)
            tiles[(*edge, -1)] = fill


def _is_zero(fill: Any, dtype: np.dtype[Any]) -> bool:
    return not np.asarray(fill).astype(dtype).tobytes().strip(b"\0")
