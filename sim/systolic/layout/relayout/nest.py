"""Loop nests of equal stretches: the strided form of a copy between two memories.

Not here: making the nests from two layouts (``plan``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from systolic.arrays import Integers


@dataclass(frozen=True, slots=True)
class Nest:
    """Equal stretches at regular distances: loops over ``sizes``, the target's slowest first."""

    source: int
    target: int
    sizes: tuple[int, ...]
    source_strides: tuple[int, ...]
    target_strides: tuple[int, ...]
    length: int

    @property
    def stretches(self) -> int:
        """How many times ``length`` elements are moved."""
        return math.prod(self.sizes)

    @property
    def run_count(self) -> int:
        """How many runs the stretches make: neighbours in both memories are one run."""
        merged, outer = 0, 1
        for axis, size in enumerate(self.sizes):
            if self._carries_on(axis, self.source_strides) and self._carries_on(
                axis, self.target_strides
            ):
                merged += outer * (size - 1)
            outer *= size
        return outer - merged

    def _carries_on(self, axis: int, strides: tuple[int, ...]) -> bool:
        """Return whether a step along ``axis``, inner axes back at 0, leads to a stretch's end."""
        inner = zip(self.sizes[axis + 1 :], strides[axis + 1 :], strict=True)
        return strides[axis] - sum((size - 1) * stride for size, stride in inner) == self.length

    def starts(self) -> tuple[Integers, Integers]:
        """Return the source and target offsets of all stretches, in the target's order."""
        return (
            _lattice(self.source, self.sizes, self.source_strides),
            _lattice(self.target, self.sizes, self.target_strides),
        )

    def stretch_at(self, targets: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """Return the sources of stretches that begin at ``targets``, and which of these exist."""
        rest = targets - self.target
        sources = np.full(targets.shape, self.source, np.int64)
        found = rest >= 0
        for size, from_stride, to_stride in zip(
            self.sizes, self.source_strides, self.target_strides, strict=True
        ):
            # The target's strides are strides of nested digits: dividing by the largest first gives
            # the only possible digits.
            digit = rest // to_stride
            rest = rest - digit * to_stride
            sources = sources + digit * from_stride
            found &= digit < size
        return sources, found & (rest == 0)


def seams(first: Nest, second: Nest) -> int:
    """Return how many stretches of ``second`` begin, in both memories, where ``first``'s end."""
    fewer, other = sorted((first, second), key=lambda nest: nest.stretches)
    ahead = first.length if fewer is first else -first.length
    sources, targets = fewer.starts()
    found, is_there = other.stretch_at(targets + ahead)
    return int(np.count_nonzero(is_there & (found == sources + ahead)))


def merged_nest(
    source: int,
    target: int,
    sizes: list[int],
    source_strides: tuple[int, ...],
    target_strides: tuple[int, ...],
) -> Nest:
    """Return the loop nest, in which each axis that continues the axis inside it is merged."""
    axes = sorted(zip(target_strides, source_strides, sizes, strict=True))
    length = 1
    kept: list[tuple[int, int, int]] = []
    for to_stride, from_stride, size in axes:
        if not kept and to_stride == from_stride == length:
            length *= size
        elif kept and all(
            stride == kept[-1][2] * inner
            for stride, inner in zip((to_stride, from_stride), kept[-1], strict=False)
        ):
            kept[-1] = (*kept[-1][:2], kept[-1][2] * size)
        else:
            kept.append((to_stride, from_stride, size))
    kept.reverse()
    return Nest(
        source=source,
        target=target,
        sizes=tuple(size for _, _, size in kept),
        source_strides=tuple(stride for _, stride, _ in kept),
        target_strides=tuple(stride for stride, _, _ in kept),
        length=length,
    )


def _lattice(start: int, sizes: tuple[int, ...], strides: tuple[int, ...]) -> Integers:
    found = np.full(1, start, np.int64)
    for size, stride in zip(sizes, strides, strict=True):
        found = (found[:, np.newaxis] + np.arange(size, dtype=np.int64) * stride).reshape(-1)
    return found
