"""Where the array's time goes: what is useful for an operation, and what is lost.

An operation is under way from its first start to its last end, and others are under way meanwhile.
The array is at one operation after another: the run is divided among them (`stretches`). In each
cycle the array could do a multiply-add in every PE. The cycles that an operation's multiply-adds
need at that rate are useful. Each other cycle is lost, for one reason. So useful and lost cycles
sum to the time under way, and to the time in which the array is at it. Not here: DMA, engines.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from typing import NamedTuple

from systolic.compiler import CompiledGraph
from systolic.hw.spec import Chip
from systolic.isa import MatMul
from systolic.isa.streaming import Streaming
from systolic.trace.labels import LabelInterval
from systolic.trace.records import Trace

ARRAY = "pe_array"
STREAMING = "streaming"
TRANSPOSES, TILES, RATE, OTHERS = (
    "transposes", "tiles not full", "cycles of a vector", "other operations",
)  # fmt: skip
"""Reasons besides the labels of the array, such as ``loading`` and ``waiting for pooling``."""


class Streamed(NamedTuple):
    """Vectors that the multiplies of an operation stream, and cycles of the array for them.

    turned: cycles of identity products, which turn matrices.
    """

    vectors: int = 0
    cycles: int = 0
    turned: int = 0

    def plus(self, other: Streamed) -> Streamed:
        """Return the sums."""
        return Streamed(*(one + two for one, two in zip(self, other, strict=True)))


def streamed_by_layer(compiled: CompiledGraph, how: Mapping[int, Streaming]) -> dict[str, Streamed]:
    """Return what the multiplies of each operation stream; an operation without any is missing.

    how: each multiply's streaming (`systolic.critical_path.streamed`).
    """
    found: dict[str, Streamed] = {}
    turning = compiled.turns
    layers, instructions = compiled.synchronised.layers, compiled.program.instructions
    for index, each in how.items():
        multiply = instructions[index]
        assert isinstance(multiply, MatMul)
        vectors = multiply.moving.elements
        cycles = vectors * each.vector_cycles
        new = Streamed(0, cycles, cycles) if index in turning else Streamed(vectors, cycles)
        found[layers[index]] = found.get(layers[index], Streamed()).plus(new)
    return found


@dataclass(slots=True)
class LabelTimes:
    """How many cycles of a window have each label of the array.

    ends: for each label the first cycles of its intervals, and the cycles before each of them.
    """

    intervals: Sequence[LabelInterval]
    ends: dict[str, tuple[list[LabelInterval], list[int]]] = field(init=False)

    def __post_init__(self) -> None:
        by_label: dict[str, list[LabelInterval]] = {}
        for interval in sorted(self.intervals):
            by_label.setdefault(interval[2], []).append(interval)
        self.ends = {
            label: (each, [0, *accumulate(stop - first for first, stop, _ in each)])
            for label, each in by_label.items()
        }

    def within(self, *parts: tuple[int, int]) -> dict[str, int]:
        """Return the cycles of each label in parts of a run: (first, stop) of each of them."""
        return {
            label: sum(
                self._before(label, stop) - self._before(label, first) for first, stop in parts
            )
            for label in self.ends
        }

    def _before(self, label: str, cycle: int) -> int:
        """Return the cycles of a label before a cycle."""
        each, sums = self.ends[label]
        place = bisect_right(each, cycle, key=lambda interval: interval[0])
        if not place:
            return 0
        first, stop, _ = each[place - 1]
        return sums[place - 1] + min(cycle, stop) - first


class UnderWay(NamedTuple):
    """The cycles of the array that an operation touches, and how many it takes.

    Where clocks differ, it may take one less than it touches.
    """

    first: int
    stop: int
    cycles: int


def windows(layers: Sequence[str], trace: Trace) -> dict[str, UnderWay]:
    """Return the cycles of the array from each operation's first start to its last end."""
    period, found = trace.periods[ARRAY], dict[str, tuple[int, int]]()
    for time in trace.times:
        end = time.done + trace.periods[time.unit]
        first, last = found.get(layers[time.instruction], (time.start, end))
        found[layers[time.instruction]] = min(first, time.start), max(last, end)
    return {
        name: UnderWay(first // period, -(-last // period), -(-(last - first) // period))
        for name, (first, last) in found.items()
    }


def stretches(
    layers: Sequence[str], how: Mapping[int, Streaming], trace: Trace
) -> dict[str, list[tuple[int, int]]]:
    """Return the cycles in which the array is at each operation: (first, stop) of each stretch.

    From the last vector of a multiply to the last vector of the next one, with loads and waits
    between them, the array is at the operation of the next one. Behind the last vector of all it is
    at the operation that ends last. So the stretches of all operations are the whole run. There are
    none if nothing is multiplied.

    how: each multiply's streaming (`systolic.critical_path.streamed`).
    """
    period = trace.periods[ARRAY]
    ends = sorted(
        (each.last // period + how[each.instruction].vector_cycles, each.instruction)
        for each in trace.times
        if each.instruction in how
    )
    if not ends:
        return {}
    last = max(trace.times, key=lambda each: each.done + trace.periods[each.unit])
    found, first = dict[str, list[tuple[int, int]]](), 0
    ends.append((trace.cycles(), last.instruction))
    for layer, together in groupby(ends, key=lambda each: layers[each[1]]):
        *_, (end, _) = together
        stop = min(end, trace.cycles())
        if stop > first:
            found.setdefault(layer, []).append((first, stop))
            first = stop
    return found


def lost_cycles(
    cycles: int, seen: Mapping[str, int], own: Streamed, multiply_adds: int, chip: Chip
) -> dict[str, int]:
    """Return which of the array's cycles are lost, by reason, the costliest first.

    seen: how many of them have each label. own, multiply_adds: what an operation does in them.
    """
    useful = multiply_adds // (chip.pe_array.rows * chip.pe_array.cols)
    products = own.cycles - own.turned
    lost = Counter(
        {
            TRANSPOSES: own.turned,
            TILES: own.vectors - useful,
            RATE: products - own.vectors,
            OTHERS: max(0, seen.get(STREAMING, 0) - own.cycles),
            **{label: count for label, count in seen.items() if label != STREAMING},
        }
    )
    rest = cycles - useful - sum(lost.values())
    # Where clocks differ, a window may have a cycle more than its labels: the cycle in which the
    # run ends. Or it may take a cycle less than it touches, for which there is a label
    # nevertheless.
    lost["idle" if rest > 0 else max(lost, key=lambda each: lost[each])] += rest
    return dict(_costliest_first(lost))


def _costliest_first(lost: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    for reason in sorted(lost, key=lambda each: (-lost[each], each)):
        if lost[reason]:
            yield reason, lost[reason]
