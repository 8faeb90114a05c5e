"""The descriptors of a run's DMA copies: what each moved, from when to when.

They are derived from the records of a finished run, so a run pays for them only if they are asked
for. Not here: when a descriptor ends (each engine decides that, and records the words it moved).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from systolic.arrays import Array
from systolic.hw.formulas.timing import dma_latency_cycles
from systolic.hw.spec import Chip, Dma
from systolic.isa import Access, Buffer, DmaCopy, DmaTranspose
from systolic.run.result import Result

KIND = "descriptor"
WORDS_NEEDED = ("read",)
"""The kinds of words that a run must record so that its descriptors can be told."""

HEADER = "unit,first,last,direction,buffer,partition,address,bytes"


class DescriptorSide(NamedTuple):
    """One side of a descriptor: the bytes it read, or those it wrote.

    first, last: cycles of the DMA engine; in `first` the descriptor was begun. direction: "read" or
    "write". partition: 0 for DRAM. address: of the first byte in the partition. What a transpose
    writes side by side it reads apart: there the first element's place is given.
    """

    unit: str
    first: int
    last: int
    direction: str
    buffer: str
    partition: int
    address: int
    bytes: int


def csv(sides: Iterable[DescriptorSide]) -> Iterator[str]:
    """Yield CSV lines, the header first."""
    yield HEADER
    for side in sides:
        yield ",".join(map(str, side))


def descriptors(result: Result) -> Iterator[DescriptorSide]:
    """Yield both sides of every descriptor, queue by queue, in the order of their ends.

    `result` is of a run that recorded WORDS_NEEDED.
    """
    words = result.trace.words.of("read").rows
    words = words[np.argsort(words["instruction"], kind="stable")]  # by tick within each
    free: dict[str, int] = {}
    for times in sorted(result.trace.times, key=lambda t: (t.unit, t.start)):
        copy = result.program.instructions[times.instruction]
        if not isinstance(copy, DmaCopy):
            continue
        period = result.trace.periods[times.unit]
        ready = times.start + _latency_cycles(result, copy) * period
        begin = max(ready, free.get(times.unit, 0))
        free[times.unit] = times.done + period
        low, high = np.searchsorted(
            words["instruction"], [times.instruction, times.instruction + 1]
        )
        yield from _sides(result.chip, copy, words["tick"][low:high], begin, period)


def _latency_cycles(result: Result, copy: DmaCopy) -> int:
    outside = Buffer.DRAM in (copy.source.buffer, copy.target.buffer)
    return dma_latency_cycles(result.chip, dram=outside)


def _sides(
    chip: Chip, copy: DmaCopy, ticks: Array, begin: int, period: int
) -> Iterator[DescriptorSide]:
    """Yield the descriptors of a copy. ticks: at which each element was recorded."""
    source, target = _places(copy.source), _places(copy.target)
    size, sides = copy.source.element_bytes, [source, target]
    if isinstance(copy, DmaTranspose):
        shape = copy.target.elements, copy.target.partitions
        source = source.reshape(2, *shape).transpose(0, 2, 1).reshape(2, -1)
        sides = [target]
    follows = [np.diff(side, axis=1) == [[0], [size]] for side in sides]
    firsts = np.flatnonzero(np.append(True, ~np.concatenate(follows).all(axis=0)))
    stops = np.append(firsts[1:], len(ticks))
    order = _order(chip.dma, copy, source[0, firsts], target[0, firsts])
    firsts, stops = firsts[order], stops[order]
    ends = np.sort(ticks)[np.cumsum(stops - firsts) - 1]
    begun = _begun(ends, begin, period)
    rows = zip(firsts.tolist(), stops.tolist(), begun.tolist(), ends.tolist(), strict=True)
    for at, stop, first, last in rows:
        for direction, access, side in (
            ("read", copy.source, source),
            ("write", copy.target, target),
        ):
            yield DescriptorSide(
                copy.queue,
                first // period,
                last // period,
                direction,
                access.buffer.value,
                int(side[0, at]),
                int(side[1, at]),
                (stop - at) * size,
            )


def _order(dma: Dma, copy: DmaCopy, sources: Array, targets: Array) -> Array:
    """Return the numbers of a copy's descriptors in the order in which they move.

    sources, targets: partitions of the descriptors. Where engines share out a copy, all work on
    their first descriptors first.
    """
    number = np.arange(len(sources))
    if not dma.is_spread:
        return number
    engines = number % dma.engine_count
    for buffer, partitions in ((copy.source.buffer, sources), (copy.target.buffer, targets)):
        if buffer is not Buffer.DRAM:
            engines = np.array([dma.engine_of(int(partition)) for partition in partitions])
    turns = np.empty_like(number)
    for engine in np.unique(engines):
        turns[engines == engine] = np.arange(np.count_nonzero(engines == engine))
    return np.lexsort((engines, turns))


def _begun(ends: Array, begin: int, period: int) -> Array:
    """Return the tick in which each descriptor is begun: those that end together begin together.

    They need not end in the order of the copy, where engines share it out.
    """
    ticks, which = np.unique(ends, return_inverse=True)
    return np.append(begin, ticks[:-1] + period)[which]


def _places(access: Access) -> Array:
    """Return partition and byte address of every element, in order: int64 [2, elements]."""
    offsets = access.offsets() * access.element_bytes
    first, count = access.partition, access.partitions
    partitions = np.repeat(np.arange(first, first + count), len(offsets))
    return np.stack([partitions, np.tile(offsets, count)])
