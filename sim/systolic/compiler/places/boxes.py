"""Ragged edges as boxes: the places of a tensor's dimensions, cut into pieces that are nests.

A dimension of 300 in tiles of 128 is two whole tiles and a rest of 44, so two boxes: one nest each.
A slice may begin within a tile, and two tensors may have tiles of different sizes. So the places of
one dimension, on all sides, are looked at over one *period*, the least number of indices after
which every side's tiles begin anew: from a period to the next, places differ by one number. Within
a period the pieces are found from the places themselves; a period has as many indices as a tile.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from systolic.arrays import Integers
from systolic.compiler.places.modes import Mode, Modes, coalesce
from systolic.layout import Shape


class ModePiece(NamedTuple):
    """Some indices of a dimension: the place of the first on each side, and a nest from there.

    They need not be neighbours: of tiles that a slice cuts unevenly, a piece has one part of each.
    """

    at: tuple[int, ...]
    nest: Modes


@dataclass(frozen=True, slots=True)
class ModeBox:
    """A part of an index space: the place of its first element on each side, nests by dimension."""

    at: tuple[int, ...]
    dims: tuple[Modes, ...]

    @property
    def nest(self) -> Modes:
        """Return one nest for all dimensions, the first outermost."""
        return coalesce(mode for nest in self.dims for mode in nest)


@dataclass(frozen=True, slots=True)
class Along:
    """How one side follows a dimension: as dimension `dim` of a shape, from `first` on by `step`.

    shape: None if the side does not follow it: all its indices have the same place. numbers: the
    indices of `dim` one by one, if they lie at no one distance.
    """

    shape: Shape | None = None
    dim: int = 0
    first: int = 0
    step: int = 1
    numbers: Sequence[int] = ()

    def places(self, count: int) -> Integers:
        """Return the element in memory at each of the first `count` indices, int64."""
        if self.shape is None:
            return np.zeros(count, np.int64)
        numbers = self.first + self.step * np.arange(count, dtype=np.int64)
        if self.numbers:
            numbers = np.array(self.numbers[:count], np.int64)
        index = [np.zeros(1, np.int64)] * self.shape.rank
        index[self.dim] = numbers
        return np.broadcast_to(np.asarray(self.shape.linear_index(index)), (count,))

    def period(self) -> int:
        """Return after how many indices the shape's tiles begin anew."""
        if self.shape is None:
            return 1
        if self.numbers:
            return len(self.numbers)
        tile = _tile_of(self.shape, self.dim)
        return tile // math.gcd(tile, self.step)


@dataclass(frozen=True, slots=True)
class AlongDims:
    """How one side follows an index that runs through several dimensions, the last fastest."""

    shape: Shape
    dims: tuple[int, ...]

    def places(self, count: int) -> Integers:
        """Return the element in memory at each of the first `count` indices, int64."""
        left, index = np.arange(count, dtype=np.int64), [np.zeros(1, np.int64)] * self.shape.rank
        for place, dim in reversed(list(enumerate(self.dims))):
            left, index[dim] = np.divmod(left, self.shape.dims[dim]) if place else (left, left)
        return np.broadcast_to(np.asarray(self.shape.linear_index(index)), (count,))

    def period(self) -> int:
        """Return after how many indices the shape's tiles begin anew."""
        if not self.dims:
            return 1
        first, *others = self.dims
        return _tile_of(self.shape, first) * math.prod(self.shape.dims[dim] for dim in others)


def _tile_of(shape: Shape, dim: int) -> int:
    """Return how many neighbours of a dimension lie in one tile: the outermost tile's size."""
    place = list(shape.layout.major_to_minor).index(dim)
    for step in shape.steps()[:1]:
        number = place + step.missing - step.untouched
        if number >= 0:
            return step.sizes[number]
    return 1


def is_separable(shape: Shape) -> bool:
    """Return whether an element's place is a sum of one number for each dimension's index."""
    return not any(step.folds for step in shape.steps())


def pieces(count: int, sides: Sequence[Along | AlongDims]) -> Iterator[ModePiece]:
    """Yield the pieces of a dimension of `count` indices that several sides follow."""
    period = min(count, math.lcm(*(side.period() for side in sides)))
    whole, rest = divmod(count, period)
    places = np.stack([side.places(min(count, 2 * period)) for side in sides], axis=1)
    outer = tuple(int(n) for n in places[min(period, len(places) - 1)] - places[0])
    for piece in _recognised(places[:period]):
        yield piece._replace(nest=coalesce((Mode(whole, outer), *piece.nest)))
    if rest:
        for piece in _recognised(places[:rest]):
            at = tuple(here + whole * step for here, step in zip(piece.at, outer, strict=True))
            yield ModePiece(at, piece.nest)


def _recognised(places: Integers) -> Iterator[ModePiece]:
    """Yield pieces of places, [indices, sides]: each is the longest nest that begins there."""
    first = 0
    while first < len(places):
        nest = _nest_from(places[first:])
        at = tuple(int(n) for n in places[first])
        yield ModePiece(at, nest)
        first += math.prod(mode.extent for mode in nest)


def _nest_from(places: Integers) -> Modes:
    """Return a nest for the first of some places: blocks, blocks of blocks, as long as they go."""
    found: Modes = ()
    block = 1
    while True:
        repeats = _repeats(places, block)
        if repeats == 1:
            return found
        steps = tuple(int(n) for n in places[block] - places[0])
        found = (Mode(repeats, steps), *found)
        block *= repeats


def _repeats(places: Integers, block: int) -> int:
    """Return how often a block of places comes, each time moved by one and the same number."""
    whole = len(places) // block
    if whole < 2:
        return 1
    blocks = places[: whole * block].reshape(whole, block, -1)
    step = blocks[1, 0] - blocks[0, 0]
    wanted = blocks[0] + np.arange(whole)[:, None, None] * step
    alike = (blocks == wanted).all(axis=(1, 2))
    return int(whole if alike.all() else alike.argmin())


def boxes(dims: Sequence[int], sides: Sequence[Sequence[Along | AlongDims]]) -> Iterator[ModeBox]:
    """Yield the boxes of an index space that several sides follow, dimension by dimension.

    sides: for each side how it follows each dimension; the shapes are separable.
    """
    found = [list(pieces(count, [side[dim] for side in sides])) for dim, count in enumerate(dims)]
    for chosen in product(*found):
        at = tuple(sum(piece.at[n] for piece in chosen) for n in range(len(sides)))
        yield ModeBox(at, tuple(piece.nest for piece in chosen))
