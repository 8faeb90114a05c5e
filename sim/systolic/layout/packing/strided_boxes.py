"""The strided copies that make up a layout, and the numpy views they copy between.

Not here: making copies fast (``copying``), and choosing the copies (``packing``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from numpy.lib.stride_tricks import as_strided

from systolic.arrays import Array
from systolic.layout.boxes import Box, boxes, units
from systolic.layout.shape import Shape


@dataclass(frozen=True, slots=True)
class StridedBox:
    """A box of the array, and its place in memory: its first element, and its axes' strides."""

    box: Box
    base: int
    strides: tuple[int, ...]


@lru_cache(maxsize=256)
def strided_boxes(shape: Shape) -> tuple[StridedBox, ...] | None:
    """Return the strided copies that fill the memory of ``shape``; None if its layout folds."""
    digits = units(shape)
    parts = None if digits is None else boxes(shape.dims, digits)
    if parts is None:
        return None
    return tuple(StridedBox(box, box.base(shape), box.strides(shape)) for box in parts)


def as_plain(array: Array) -> Array:
    """Return ``array`` seen as integers of the same size.

    ``as_strided`` does not take the element types of ml_dtypes, which are also copied more slowly.
    """
    size = array.itemsize
    return array.view(f"u{size}") if size in (1, 2, 4, 8) else array


def in_memory(buffer: Array, part: StridedBox) -> Array:
    """Return the box's elements as a view of the flat ``buffer``."""
    sizes = [axis.size for axis in part.box.axes]
    steps = [stride * buffer.strides[0] for stride in part.strides]
    return as_strided(as_plain(buffer)[part.base :], sizes, steps)


def in_array(array: Array, box: Box) -> Array:
    """Return the box's elements as a view of the logical ``array``."""
    # Without the ellipsis a scalar would be copied.
    origin: tuple[Any, ...] = (*(slice(start, start + 1) for start in box.origin), ...)
    corner = as_plain(array)[origin]
    sizes = [axis.size for axis in box.axes]
    return as_strided(corner, sizes, [array.strides[axis.dim] * axis.unit for axis in box.axes])


@lru_cache(maxsize=256)
def logical_strides(shape: Shape) -> tuple[int, ...] | None:
    """Return one stride (in elements) for each logical dimension; None if the layout needs more."""
    found = strided_boxes(shape)
    if found is None or len(found) != 1:
        return None
    strides = [0] * shape.rank
    covered = [1] * shape.rank
    digits = sorted(zip(found[0].box.axes, found[0].strides, strict=True), key=_unit)
    for axis, stride in digits:
        if covered[axis.dim] == 1:
            strides[axis.dim] = stride
        elif stride != strides[axis.dim] * covered[axis.dim]:
            return None
        covered[axis.dim] *= axis.size
    return tuple(strides)


def _unit(digit: tuple[Any, int]) -> int:
    return int(digit[0].unit)
