"""The algebra of modes: shape and stride, with a step on each of several sides at once.

A *mode* is an extent: a number of indices, and for each *side* how far the place moves from an
index to the next. A side is what an index leads to: a byte of a tensor in DRAM, one of another
tensor, a partition, a byte of a partition. A *nest* is a tuple of modes, the outermost first. It
maps an index to a place on every side: the index is written in digits, one for each mode, the last
mode's digit running fastest, and the place is the sum of digit times step. The field calls it a
layout, shape : stride (CuTe); here one shape has several strides.

An example. f32[4,6] in rows of 24 bytes, and the same elements turned, in rows of 16 bytes, are

    (Mode(4, (24, 4)), Mode(6, (4, 16)))

Index 7 has the digits (1, 1): byte 28 here, byte 20 there. The first side alone coalesces to one
mode, ``Mode(24, (4,))``, as its rows follow one another; both together do not. ``split(mode, 3)``
makes ``(Mode(2, (12, 48)), Mode(3, (4, 16)))`` of the inner mode: two tiles of three columns. Two
windows of three rows, one row apart, are ``(Mode(2, (24, 4)), Mode(3, (24, 4)), ...)``: a mode's
step may be less than what the modes inside it stretch over.

Not here: which modes become partitions, columns or tiles, and what that costs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from systolic.arrays import Integers


class Mode(NamedTuple):
    """An extent (a number of indices), and a step on each side; a step of 0 repeats one place."""

    extent: int
    steps: tuple[int, ...]

    def times(self, factor: int) -> tuple[int, ...]:
        """Return the steps of a mode that takes `factor` indices at a time."""
        return tuple(step * factor for step in self.steps)


Modes = tuple[Mode, ...]


def size(nest: Modes) -> int:
    """Return how many indices a nest has."""
    return math.prod(mode.extent for mode in nest)


def seen(nest: Iterable[Mode], *sides: int) -> Modes:
    """Return the nest with these sides alone, in this order."""
    return tuple(Mode(mode.extent, tuple(mode.steps[n] for n in sides)) for mode in nest)


def places(nest: Modes, side: int = 0) -> Integers:
    """Return the place of each index on a side, int64, in the order of the indices."""
    found = np.zeros(1, np.int64)
    for mode in nest:
        digits = mode.steps[side] * np.arange(mode.extent, dtype=np.int64)
        found = (found[:, None] + digits).reshape(-1)
    return found


def stretch(nest: Iterable[Mode], side: int = 0) -> int:
    """Return the places from the lowest to the highest on a side, both counted."""
    return 1 + sum(abs(mode.steps[side]) * (mode.extent - 1) for mode in nest)


# Modes that follow one another


def coalesce(nest: Iterable[Mode]) -> Modes:
    """Return the same map with as few modes as can be.

    Two neighbours are one mode where the outer step is the inner one times the inner count, on
    every side. A mode of one index says nothing. The empty nest has one index, at place 0.
    """
    found: list[Mode] = []
    for mode in nest:
        if mode.extent == 1:
            continue
        if found and found[-1].steps == mode.times(mode.extent):
            mode = Mode(found.pop().extent * mode.extent, mode.steps)
        found.append(mode)
    return tuple(found)


def split(mode: Mode, inner: int) -> tuple[Mode, Mode]:
    """Return a mode as an outer and an inner one of `inner` indices.

    Raises ValueError unless `inner` divides the count.
    """
    if mode.extent % inner:
        raise ValueError(f"a mode of {mode.extent} indices has no parts of {inner}")
    return Mode(mode.extent // inner, mode.times(inner)), Mode(inner, mode.steps)


# Orders


def by_step(nest: Sequence[Mode], side: int) -> Modes:
    """Return the modes in the order of a side's memory: the largest step first, repeats outermost.

    Another order of the same elements: an index no longer leads where it did.
    """

    def key(mode: Mode) -> tuple[bool, int]:
        return mode.steps[side] != 0, -abs(mode.steps[side])

    return tuple(sorted(nest, key=key))
