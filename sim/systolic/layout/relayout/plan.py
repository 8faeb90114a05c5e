"""A plan for copying from one layout to another: its cost can be counted, and it moves data.

`systolic layout --to` and Python callers use it.

The plan is a set of strided boxes, from which the contiguous runs follow. A run is a longest
stretch of elements that is consecutive in both memories; runs are in the order of the target.
Padding is in no run. Not here: the cost of a run in cycles (the DMA engine's chip data).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from systolic.arrays import Integers
from systolic.layout.boxes import boxes, units
from systolic.layout.errors import LayoutError
from systolic.layout.packing.memory import packed_bits
from systolic.layout.packing.packing import pack, unpack
from systolic.layout.packing.subbyte import BitOrder
from systolic.layout.relayout.nest import Nest, merged_nest, seams
from systolic.layout.shape import Shape

MAX_RUNS = 2**25
"""The most runs that are listed one by one (three 64-bit numbers each)."""


class ContiguousRun(NamedTuple):
    """``length`` consecutive elements: from ``source`` to ``target``, all in elements."""

    source: int
    target: int
    length: int


@dataclass(frozen=True, slots=True)
class RelayoutPlan:
    """How to copy ``source`` memory to ``target`` memory. Integers count elements.

    ``nests`` are the strided parts. They are None if the two layouts do not nest in each other; the
    runs are then found element by element.
    """

    source: Shape
    target: Shape
    nests: tuple[Nest, ...] | None

    @property
    def elements(self) -> int:
        """Elements moved, padding not counted."""
        return self.source.num_elements()

    @property
    def size_bytes(self) -> int:
        """Bytes moved: elements times their size in the target, rounded up to a byte."""
        return -(-self.elements * self.target.element_bits // 8)

    @property
    def run_count(self) -> int:
        """How many contiguous runs there are, merged as far as possible."""
        if self.nests is None:
            return len(self.runs_as_arrays()[0])
        pairs = list(itertools.permutations(self.nests, 2))
        for first, second in pairs:
            _check_count(min(first.stretches, second.stretches), "runs at ragged edges")
        inside = sum(nest.run_count for nest in self.nests)
        return inside - sum(seams(first, second) for first, second in pairs)

    @property
    def is_identity(self) -> bool:
        """Whether every element stays at its offset."""
        sources, targets, _ = self.runs_as_arrays()
        return bool((sources == targets).all())

    def runs_as_arrays(self) -> tuple[Integers, Integers, Integers]:
        """Return (source offsets, target offsets, lengths) of all runs, in target order."""
        return _merged_runs(self)

    def runs(self) -> Iterator[ContiguousRun]:
        """Yield the runs in target order."""
        for source, target, length in zip(*self.runs_as_arrays(), strict=True):
            yield ContiguousRun(int(source), int(target), int(length))

    def apply(
        self,
        buffer: NDArray[Any],
        fill: Any = 0,
        *,
        order: BitOrder = "low",
    ) -> NDArray[Any]:
        """Return the target's memory made from the source's ``buffer``; padding holds ``fill``."""
        array = unpack(buffer, self.source, order=order)
        return pack(array, self.target, fill, order=order, copy=True)


def relayout(source: Shape, target: Shape) -> RelayoutPlan:
    """Return the plan that copies an array laid out as ``source`` to the layout of ``target``.

    Element type and dimensions must agree (LayoutError): a relayout moves, it does not convert.
    """
    if (source.element_type, source.dims) != (target.element_type, target.dims):
        raise LayoutError(f"relayout needs one array in two layouts, found {source} and {target}")
    packed_bits(source), packed_bits(target)
    return _plan(source, target)


@lru_cache(maxsize=128)
def _plan(source: Shape, target: Shape) -> RelayoutPlan:
    from_units, to_units = units(source), units(target)
    parts = None
    if from_units is not None and to_units is not None:
        parts = boxes(source.dims, from_units, to_units)
    if parts is None:
        return RelayoutPlan(source, target, None)
    nests = tuple(
        merged_nest(
            box.base(source),
            box.base(target),
            [axis.size for axis in box.axes],
            box.strides(source),
            box.strides(target),
        )
        for box in parts
    )
    return RelayoutPlan(source, target, nests)


@lru_cache(maxsize=2)
def _merged_runs(plan: RelayoutPlan) -> tuple[Integers, Integers, Integers]:
    sources, targets, lengths = _unmerged(plan)
    in_order = np.argsort(targets, kind="stable")
    sources, targets, lengths = sources[in_order], targets[in_order], lengths[in_order]
    if not len(targets):
        return sources, targets, lengths
    follows = (np.diff(targets) == lengths[:-1]) & (np.diff(sources) == lengths[:-1])
    first = np.flatnonzero(np.concatenate(([True], ~follows)))
    merged = (sources[first], targets[first], np.add.reduceat(lengths, first))
    for part in merged:
        part.setflags(write=False)  # the cache gives the same arrays to every caller
    return merged


def _unmerged(plan: RelayoutPlan) -> tuple[Integers, Integers, Integers]:
    if plan.nests is None:
        return _element_by_element(plan)
    count = sum(nest.stretches for nest in plan.nests)
    _check_count(count, "runs")
    empty = np.zeros(0, np.int64)
    starts = [nest.starts() for nest in plan.nests]
    return (
        np.concatenate([empty, *(source for source, _ in starts)]),
        np.concatenate([empty, *(target for _, target in starts)]),
        np.concatenate(
            [empty, *(np.full(nest.stretches, nest.length, np.int64) for nest in plan.nests)]
        ),
    )


def _element_by_element(plan: RelayoutPlan) -> tuple[Integers, Integers, Integers]:
    _check_count(plan.elements, "elements")
    index = np.ogrid[tuple(slice(0, size) for size in plan.source.dims)]
    sources = np.asarray(plan.source.linear_index(list(index))).reshape(-1)
    targets = np.asarray(plan.target.linear_index(list(index))).reshape(-1)
    return sources, targets, np.ones(sources.size, np.int64)


def _check_count(count: int, what: str) -> None:
    if count > MAX_RUNS:
        raise LayoutError(f"at most {MAX_RUNS} {what} can be listed one by one, found {count}")
