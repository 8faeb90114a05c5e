"""The descriptors of a run's DMA copies: what each moved, from when to when.

They are derived from the records of a finished run, so a run pays for them only if they are asked
for. Not here: when a descriptor ends (each engine decides that, and records the words it moved).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from systolic.arrays import Array
from systolic.hw.spec import Dma
from systolic.isa import Access, Buffer, DmaCopy, DmaTranspose
from systolic.isa.legality.chip_program import copy_ends
from systolic.run.explanation import lives_of
from systolic.run.result import Result
from systolic.trace.records import InstructionTimes

KIND = "descriptor"
WORDS_NEEDED = ("read",)
"""The kinds of words that a run must record so that its descriptors can be told."""

HEADER = "unit,first,last,direction,buffer,partition,address,bytes"


class DescriptorSide(NamedTuple):
    """One side of a descriptor: the bytes it read, or those it wrote.

    unit, buffer: of several cores with the core in front. first, last: cycles of the DMA engine; in
    `first` the descriptor was begun. direction: "read" or "write". partition: 0 for DRAM. address:
    of the first byte in the partition. What a transpose writes side by side it reads apart: there
    the first element's place is given.
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


class _End(NamedTuple):
    """An end of a copy: the name of its buffer, and the access there."""

    buffer: str
    direction: str
    access: Access


def descriptors(result: Result) -> Iterator[DescriptorSide]:
    """Yield all sides of every descriptor, queue by queue, in the order of their ends.

    `result` is of a run that recorded WORDS_NEEDED.
    """
    words = result.trace.words.of("read").rows
    words = words[np.argsort(words["instruction"], kind="stable")]  # by tick within each
    free: dict[str, int] = {}
    lives = lives_of(result)
    for times in sorted(result.trace.times, key=lambda t: (t.unit, t.start)):
        copy = result.program.instructions[times.instruction]
        if not isinstance(copy, DmaCopy):
            continue
        period = result.trace.periods[times.unit]
        ready = times.start + lives.latency_ticks(times.instruction)
        begin = max(ready, free.get(times.unit, 0))
        free[times.unit] = times.done + period
        low, high = np.searchsorted(
            words["instruction"], [times.instruction, times.instruction + 1]
        )
        ends = _ends(result, times.instruction, copy)
        if high > low:  # code has no words
            yield from _sides(result, times, ends, words["tick"][low:high], begin)


def _ends(result: Result, index: int, copy: DmaCopy) -> list[_End]:
    """Return the ends of a copy: what it reads, then what it writes."""
    joint = result.several
    own = "" if joint is None else joint.launches[joint.launch_of[index]].at
    found = []
    for number, (_, at, access) in enumerate(copy_ends(copy)):
        place = "" if access.buffer is Buffer.DRAM else at or own
        buffer = f"{place}.{access.buffer.value}" if place else access.buffer.value
        found.append(_End(buffer, "write" if number else "read", access))
    return found


def _sides(
    result: Result, times: InstructionTimes, ends: list[_End], ticks: Array, begin: int
) -> Iterator[DescriptorSide]:
    """Yield the descriptors of a copy. ticks: at which each element was recorded."""
    copy = result.program.instructions[times.instruction]
    assert isinstance(copy, DmaCopy)
    places = [_places(end.access) for end in ends]
    size, joined = ends[0].access.element_bytes, places
    if isinstance(copy, DmaTranspose):
        shape = copy.target.elements, copy.target.partitions
        places[0] = places[0].reshape(2, *shape).transpose(0, 2, 1).reshape(2, -1)
        joined = places[1:]
    follows = [(np.diff(place, axis=1) == [[0], [size]]).all(axis=0) for place in joined]
    follows += [
        _same_controller(result, end, place) for end, place in zip(ends, places, strict=True)
    ]
    firsts = np.flatnonzero(np.append(True, ~np.stack(follows).all(axis=0)))
    stops = np.append(firsts[1:], len(ticks))
    order = _order(
        _dma_of(result, times.instruction), copy, places[0][0, firsts], places[1][0, firsts]
    )
    firsts, stops = firsts[order], stops[order]
    period = result.trace.periods[times.unit]
    ended = np.sort(ticks)[np.cumsum(stops - firsts) - 1]
    begun = _begun(ended, begin, period)
    rows = zip(firsts.tolist(), stops.tolist(), begun.tolist(), ended.tolist(), strict=True)
    for at, stop, first, last in rows:
        for end, side in zip(ends, places, strict=True):
            yield DescriptorSide(
                times.unit,
                first // period,
                last // period,
                end.direction,
                end.buffer,
                int(side[0, at]),
                int(side[1, at]),
                (stop - at) * size,
            )


def _same_controller(result: Result, end: _End, places: Array) -> Array:
    """Return whether each element but the first lies with the controller of the one before."""
    joint = result.several
    if joint is None or end.access.buffer is not Buffer.DRAM:
        return np.ones(places.shape[1] - 1, np.bool_)
    owners = [joint.chip.piece(address).controller for address in places[1].tolist()]
    return np.asarray(np.diff(owners) == 0)


def _dma_of(result: Result, index: int) -> Dma:
    """Return the queues of the core or processor that feeds a copy."""
    joint = result.several
    if joint is None:
        return result.chip.dma
    return joint.chip.feeder_chips[joint.launches[joint.launch_of[index]].section.place].dma


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
