"""Cutting an array into boxes inside which one or more layouts are plain strides.

A layout without folds sees a logical index digit by digit (which tile, which place in it, ...).
Where all layouts in question read the same digits, a box of digits is a strided block in each of
them, so copies and copy plans are a handful of strided copies. Ragged edges are boxes of their own.
Not here: data.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from sim.layout.shape import Shape

MAX_BOXES = 256
"""More boxes than this and the plain way is better."""


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


def units(shape: Shape) -> tuple[frozenset[int], ...] | None:
    """Return, for each logical dimension, the digit units its layout reads; None if it folds."""
    current: list[tuple[int, int] | None] = [(d, 1) for d in shape.layout.major_to_minor]
    found: list[set[int]] = [{1} for _ in shape.dims]
    for step in shape.steps():
        if any(sum(size != 1 for size in group) > 1 for group in step.groups):
            return None
        none: list[tuple[int, int] | None] = [None] * step.missing
        current = none + current
        rest = iter(current[step.untouched :])
        numbers: list[tuple[int, int] | None] = []
        places: list[tuple[int, int] | None] = []
        for group, covered, size in zip(step.groups, step.covered, step.sizes, strict=True):
            members = [(next(rest), part) for part in group]
            digit = next((axis for axis, part in members if part != 1), None)
            number, place = _digits(digit, covered, size)
            numbers.append(number)
            places.append(place)
        current = current[: step.untouched] + numbers + places
        for axis in current:
            if axis is not None:
                found[axis[0]].add(axis[1])
    return tuple(frozenset(part) for part in found)


def _digits(
    digit: tuple[int, int] | None, covered: int, size: int
) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    """Split one digit (dimension, unit) by a tile size into the tile's number and the place."""
    if digit is None or size == 1:
        return digit, None
    if size >= covered:
        return None, digit
    return (digit[0], digit[1] * size), digit


def boxes(dims: Sequence[int], *read: Sequence[frozenset[int]]) -> tuple[Box, ...] | None:
    """Return boxes that cover ``dims`` and are strided for every layout whose units are given.

    None where the layouts' digits do not nest in each other, or where there would be too many.
    """
    columns = []
    for number, size in enumerate(dims):
        chain = _common(*(units_of[number] for units_of in read))
        if chain is None:
            return None
        columns.append(_pieces(size, chain))
    total = 1
    for column in columns:
        total *= len(column)
    if total > MAX_BOXES:
        return None
    return tuple(_box(pieces) for pieces in itertools.product(*columns))


def _box(pieces: Sequence[tuple[int, tuple[tuple[int, int], ...]]]) -> Box:
    axes = [
        Axis(dim, unit, size)
        for dim, (_, digits) in enumerate(pieces)
        for unit, size in digits
        if size > 1
    ]
    return Box(tuple(start for start, _ in pieces), tuple(axes))


def _common(*chains: frozenset[int]) -> tuple[int, ...] | None:
    """Return the units of all chains, the largest first, if every digit stays a digit."""
    distinct = {chain for chain in chains if len(chain) > 1}
    merged = sorted(frozenset({1}).union(*distinct), reverse=True)
    nested = all(a % b == 0 for a, b in itertools.pairwise(merged))
    # A single layout's digits always nest in its own sense: ragged inside a tile, not across.
    return tuple(merged) if nested or len(distinct) < 2 else None


def _pieces(size: int, chain: tuple[int, ...]) -> list[tuple[int, tuple[tuple[int, int], ...]]]:
    """Return (start, ((unit, count), ...)) of the pieces of range(size) that are whole digits."""
    if size == 0:
        return []
    unit, rest = chain[0], chain[1:]
    if not rest:
        return [(0, ((unit, size),))]
    whole, ragged = divmod(size, unit)
    found = []
    if whole:
        found += [(start, ((unit, whole), *digits)) for start, digits in _pieces(unit, rest)]
    if ragged:
        found += [(whole * unit + start, digits) for start, digits in _pieces(ragged, rest)]
    return found
