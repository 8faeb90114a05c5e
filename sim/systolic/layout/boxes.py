"""Cutting an array into boxes inside which one or more layouts are plain strides.

A layout without ``*`` reads an index digit by digit: under ``T(4)`` index 6 is tile 1, place 2.
Where all given layouts read the same digits, the elements of whole tiles are a strided block in
each of the memories. So a copy between the memories takes one strided copy for each box. The
elements of a tile that is not full, at an edge, are a box of their own. Not here: data.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from systolic.layout.shape import Shape
from systolic.layout.steps import TileStep

MAX_BOXES = 256
"""The most boxes that are made; an array that needs more is copied without boxes."""


@dataclass(frozen=True, slots=True)
class Axis:
    """``size`` steps of ``unit`` elements along logical dimension ``dim``."""

    dim: int
    unit: int
    size: int


@dataclass(frozen=True, slots=True)
class Box:
    """The elements at ``origin`` plus every combination of steps along ``axes``."""

    origin: tuple[int, ...]
    axes: tuple[Axis, ...]

    def base(self, shape: Shape) -> int:
        """Return the offset of the box's first element in the memory of ``shape``."""
        return shape.linear_index(self.origin)

    def strides(self, shape: Shape) -> tuple[int, ...]:
        """Return how far, in elements, one step along each axis goes in the memory of ``shape``."""
        base = self.base(shape)
        found = []
        for axis in self.axes:
            moved = list(self.origin)
            moved[axis.dim] += axis.unit
            found.append(shape.linear_index(moved) - base)
        return tuple(found)


@dataclass(frozen=True, slots=True)
class _Digit:
    """A physical coordinate that is one digit of a logical index.

    Its values are 0 to ``values`` - 1, in steps of ``unit`` elements of dimension ``dim``. The
    physical dimension may be wider by what an earlier tile padded. No element lies there, so a
    later tile that cuts only the padding does not cut the digit.
    """

    dim: int
    unit: int
    values: int

    def cut(self, size: int) -> tuple[_Digit | None, _Digit | None]:
        """Return two digits: the tile's number, and the place in it. None for a digit always 0."""
        if size == 1:
            return self, None
        if size >= self.values:
            return None, self
        number = _Digit(self.dim, self.unit * size, -(-self.values // size))
        return number, _Digit(self.dim, self.unit, size)


def units(shape: Shape) -> tuple[frozenset[int], ...] | None:
    """Return, for each logical dimension, the digit units its layout reads; None if it folds.

    Under ``T(8)(2)`` the units are 8, 2 and 1: index 13 is 1 step of 8, then 2 of 2, then 1 of 1.
    Each digit is read from what the larger units leave over.
    """
    current: list[_Digit | None] = [
        _Digit(d, 1, shape.dims[d]) for d in shape.layout.major_to_minor
    ]
    found: list[set[int]] = [{1} for _ in shape.dims]
    for step in shape.steps():
        if any(sum(size != 1 for size in group) > 1 for group in step.groups):
            return None
        current = _cut(step, [*[None] * step.missing, *current])
        for digit in current:
            if digit is not None:
                found[digit.dim].add(digit.unit)
    return tuple(frozenset(part) for part in found)


def _cut(step: TileStep, digits: list[_Digit | None]) -> list[_Digit | None]:
    """Return the digits after a tile: untouched, tile numbers, places inside the tile."""
    rest = iter(digits[step.untouched :])
    numbers: list[_Digit | None] = []
    places: list[_Digit | None] = []
    for group, size in zip(step.groups, step.sizes, strict=True):
        members = [(next(rest), part) for part in group]
        digit = next((member for member, part in members if part != 1), None)
        number, place = (None, None) if digit is None else digit.cut(size)
        numbers.append(number)
        places.append(place)
    return digits[: step.untouched] + numbers + places


def boxes(dims: Sequence[int], *read: Sequence[frozenset[int]]) -> tuple[Box, ...] | None:
    """Return boxes that cover ``dims`` and are strided for every layout whose units are given.

    None if the layouts' digits do not nest in each other, or if there would be too many boxes.
    """
    along: list[list[_AxisSegment]] = []
    for dim, size in enumerate(dims):
        chain = _common(*(units_of[dim] for units_of in read))
        if chain is None:
            return None
        along.append(_segments(dim, size, chain))
    if math.prod(len(segments) for segments in along) > MAX_BOXES:
        return None
    return tuple(_box(segments) for segments in itertools.product(*along))


@dataclass(frozen=True, slots=True)
class _AxisSegment:
    """The part of one dimension from ``start`` on that all steps along ``axes`` reach."""

    start: int
    axes: tuple[Axis, ...]

    def inside(self, start: int, *outer: Axis) -> _AxisSegment:
        """Return the same segment, counted from ``start`` and repeated along ``outer``."""
        return _AxisSegment(start + self.start, (*outer, *self.axes))


def _box(segments: Sequence[_AxisSegment]) -> Box:
    axes = (axis for segment in segments for axis in segment.axes if axis.size > 1)
    return Box(tuple(segment.start for segment in segments), tuple(axes))


def _common(*chains: frozenset[int]) -> tuple[int, ...] | None:
    """Return the units of all layouts, the largest first, if every digit stays a digit."""
    distinct = {chain for chain in chains if len(chain) > 1}
    merged = sorted(frozenset({1}).union(*distinct), reverse=True)
    # The units of one layout need not divide each other. T(4)(3) has the units 4, 3 and 1: each
    # tile of 4 is cut into 3 and 1. Units of two layouts must: tiles of 4 begin at 0, 4, 8, those
    # of 3 at 0, 3, 6, and no box is strided for both.
    divide = all(larger % smaller == 0 for larger, smaller in itertools.pairwise(merged))
    return tuple(merged) if divide or len(distinct) < 2 else None


def _segments(dim: int, size: int, chain: tuple[int, ...]) -> list[_AxisSegment]:
    """Return the segments of a dimension of that size, each made of whole digits.

    Size 10 in units of 4 and 1 gives two: two steps of 4 with four of 1 in each, then, from 8 on,
    two steps of 1.
    """
    if size == 0:
        return []
    unit, rest = chain[0], chain[1:]
    if not rest:
        return [_AxisSegment(0, (Axis(dim, unit, size),))]
    whole, ragged = divmod(size, unit)
    found = []
    if whole:
        outer = Axis(dim, unit, whole)
        found += [segment.inside(0, outer) for segment in _segments(dim, unit, rest)]
    if ragged:
        found += [segment.inside(whole * unit) for segment in _segments(dim, ragged, rest)]
    return found
