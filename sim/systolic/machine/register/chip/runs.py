"""The descriptors of a copy on a chip of several cores: runs between places, cut at controllers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from systolic.arrays import Array
from systolic.hw.spec import Dma, MultiCoreChip
from systolic.hw.spec.places import ChipPlace, controller, place_of
from systolic.isa import Access, Buffer, DmaCopy, DmaTranspose
from systolic.isa.instruction import DmaMove
from systolic.isa.instruction.on_dma import CODE
from systolic.machine.register.dma.descriptors import (
    Descriptor,
    RunStart,
    engine_of,
    turned_descriptors,
)


class PlacedEnd(NamedTuple):
    """Where a copy reads or writes: a core (None: DRAM alone), and the access there.

    is_code: it is the code of the core, a row of bytes without ports.
    """

    core: int | None
    access: Access
    is_code: bool = False

    @property
    def is_on_chip(self) -> bool:
        """Return whether it lies in a buffer of a core, with ports."""
        return self.access.buffer is not Buffer.DRAM

    @property
    def is_dram(self) -> bool:
        """Return whether it lies behind controllers."""
        return self.access.buffer is Buffer.DRAM and not self.is_code


@dataclass(frozen=True, slots=True)
class Run(Descriptor):
    """A descriptor: `places` are the endpoints of source, target and second target.

    second: where it begins in the second target.
    """

    places: tuple[ChipPlace, ...] = ()
    second: RunStart | None = None

    @property
    def starts(self) -> tuple[RunStart, ...]:
        """Return where it begins in each end."""
        two = self.source, self.target
        return two if self.second is None else (*two, self.second)


def ends_of(copy: DmaCopy, own: ChipPlace) -> tuple[PlacedEnd, ...]:
    """Return source, target and second target of a copy of a place's queue."""
    named = [("", copy.source), ("", copy.target)]
    if isinstance(copy, DmaMove):
        named = [(copy.source_at, copy.source), (copy.target_at, copy.target)]
        if copy.duplicate is not None:
            named.append((copy.duplicate_at, copy.duplicate))
    return tuple(_end(at, access, own) for at, access in named)


def _end(at: str, access: Access, own: ChipPlace) -> PlacedEnd:
    code = f".{CODE}"
    place = place_of(at.removesuffix(code)) if at else own
    assert place is not None
    return PlacedEnd(place.number if place.kind == "core" else None, access, at.endswith(code))


def runs_of(copy: DmaCopy, ends: tuple[PlacedEnd, ...], chip: MultiCoreChip) -> Iterator[Run]:
    """Yield the longest runs of bytes that lie together at all ends and with one controller."""
    if isinstance(copy, DmaTranspose):
        for turned in turned_descriptors(copy):
            yield from _turned(turned, ends, chip)
        return
    elements = [_elements(end.access) for end in ends]
    count, size = len(elements[0][0]), copy.source.element_bytes
    breaks = np.zeros(count - 1, bool)
    for partitions, offsets in elements:
        breaks |= (np.diff(partitions) != 0) | (np.diff(offsets) != 1)
    firsts = [0, *(np.flatnonzero(breaks) + 1).tolist(), count]
    for first, stop in pairwise(firsts):
        starts = [RunStart(int(p[first]), int(a[first]) * size) for p, a in elements]
        yield from _cut(starts, (stop - first) * size, ends, chip)


def _cut(
    starts: list[RunStart], size: int, ends: tuple[PlacedEnd, ...], chip: MultiCoreChip
) -> Iterator[Run]:
    """Yield a run in parts, each of one controller at each end."""
    done = 0
    while done < size:
        here = [RunStart(start.partition, start.byte + done) for start in starts]
        part = size - done
        for end, start in zip(ends, here, strict=True):
            if end.is_dram:
                part = min(part, chip.piece(start.byte).stop - start.byte)
        places = tuple(_endpoint(e, s, chip) for e, s in zip(ends, here, strict=True))
        yield Run(here[0], here[1], part, None, places, here[2] if len(here) > 2 else None)
        done += part


def _turned(run: Descriptor, ends: tuple[PlacedEnd, ...], chip: MultiCoreChip) -> Iterator[Run]:
    """Yield a run of a transpose in parts whose elements come from one controller each."""
    assert run.gathered is not None
    from_dram, size = ends[0].is_dram, ends[0].access.element_bytes
    partitions, starts = run.gathered
    owners = [chip.piece(int(byte)).controller if from_dram else 0 for byte in starts]
    breaks = (np.flatnonzero(np.diff(owners)) + 1).tolist()
    for first, stop in zip([0, *breaks], [*breaks, len(owners)], strict=True):
        source = RunStart(int(partitions[first]), int(starts[first]))
        target = RunStart(run.target.partition, run.target.byte + first * size)
        places = _endpoint(ends[0], source, chip), _endpoint(ends[1], target, chip)
        gathered = run.gathered[:, first:stop]
        yield Run(source, target, (stop - first) * size, gathered, places)


def _endpoint(end: PlacedEnd, start: RunStart, chip: MultiCoreChip) -> ChipPlace:
    """Return where the way of a run begins or leads to."""
    if end.is_dram:
        return controller(chip.piece(start.byte).controller)
    assert end.core is not None
    return ChipPlace("core", end.core)


def bundles_of(
    copy: DmaCopy, ends: tuple[PlacedEnd, ...], dma: Dma, chip: MultiCoreChip
) -> Iterator[tuple[Run, ...]]:
    """Yield the runs in bundles that move side by side, as the queue's table says."""
    if dma.is_spread:
        yield from _spread(copy, ends, dma, chip)
        return
    bundle: list[Run] = []
    for run in runs_of(copy, ends, chip):
        full = len(bundle) == dma.partitions_per_cycle
        if bundle and (full or not _is_next(bundle[-1], run, ends)):
            yield tuple(bundle)
            bundle.clear()
        bundle.append(run)
    yield tuple(bundle)


def _spread(
    copy: DmaCopy, ends: tuple[PlacedEnd, ...], dma: Dma, chip: MultiCoreChip
) -> Iterator[tuple[Run, ...]]:
    """Yield rounds: of each engine the next run, side by side with those that are like it."""
    queues: dict[int, deque[Run]] = {}
    for number, run in enumerate(runs_of(copy, ends, chip)):
        engine = engine_of(run, copy.source, copy.target, dma, number)
        queues.setdefault(engine, deque()).append(run)
    while any(queues.values()):
        bundle: list[Run] = []
        for _, queue in sorted(queues.items()):
            if not queue:
                continue
            if bundle and not _is_like(bundle[-1], queue[0], ends):
                yield tuple(bundle)
                bundle.clear()
            bundle.append(queue.popleft())
        yield tuple(bundle)


def engines_of(copy: DmaCopy, dma: Dma) -> frozenset[int]:
    """Return the engines that serve a copy, where it is spread: by what it writes, else reads."""
    for access in (copy.target, copy.source):
        if access.buffer is not Buffer.DRAM:
            return frozenset(dma.engine_of(access.partition + n) for n in range(access.partitions))
    return frozenset(range(dma.engine_count))


def _is_like(one: Run, other: Run, ends: tuple[PlacedEnd, ...]) -> bool:
    """Return whether two runs have one length, ways alike, and one byte in their partitions."""
    if (one.size_bytes, one.places) != (other.size_bytes, other.places):
        return False
    return all(a.byte == b.byte for a, b in _sides(one, other, ends))


def _is_next(one: Run, other: Run, ends: tuple[PlacedEnd, ...]) -> bool:
    """Return whether a run lies beside another, in the next partition at each end on the chip."""
    sides = _sides(one, other, ends)
    if not sides or (one.size_bytes, one.places) != (other.size_bytes, other.places):
        return False
    return all(b == RunStart(a.partition + 1, a.byte) for a, b in sides)


def _sides(one: Run, other: Run, ends: tuple[PlacedEnd, ...]) -> list[tuple[RunStart, RunStart]]:
    """Return where both begin, at each end on the chip; a transpose gathers its source."""
    return [
        (a, b)
        for number, (end, a, b) in enumerate(zip(ends, one.starts, other.starts, strict=True))
        if end.is_on_chip and not (number == 0 and one.gathered is not None)
    ]


def _elements(access: Access) -> tuple[Array, Array]:
    """Return partition and element index of every element, in the order of the accesses."""
    offsets = access.offsets()
    partitions = np.arange(access.partition, access.partition + access.partitions)
    return np.repeat(partitions, len(offsets)), np.tile(offsets, access.partitions)
