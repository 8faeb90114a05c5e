"""Twin of `register.dma.descriptors`: a DmaCopy cut into descriptors, a second time on purpose.

This twin finds runs that are contiguous on both sides, with whole arrays, and groups equal
neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from systolic.arrays import Integers
from systolic.hw.spec import Dma
from systolic.isa import Access, Buffer, DmaCopy, DmaTranspose
from systolic.isa.access import Pattern
from systolic.machine.event.dma.ends import CopyEnds


class HomesOf(Protocol):
    """Says which DRAM controller has which address, on a chip with several."""

    def stop_of(self, address: int) -> int:
        """Return the first address behind this one that is another controller's."""

    def number(self, addresses: list[Integers], many: int) -> Integers:
        """Return a number for the controllers of each descriptor, int64 [many].

        addresses: of each end that a controller has, [many].
        """


ONE_BANK = 1 << 40
"""The bytes of a bank where all of a side lies in one: more than a partition has."""


@dataclass(frozen=True, slots=True, eq=False)
class BundleGroup:
    """`count` bundles of `rows` descriptors of `size_bytes` each, that touch the same banks.

    The descriptors of a bundle move side by side, each in a partition of its own. starts: by end,
    the byte offset (in the partition) of the first descriptor. A group whose descriptors
    straddle banks has count 1. bank_bytes: of the buffers of the ends. partitions: of the
    first row of each bundle, int64 [ends, count]. home: a number for the DRAM controllers that it
    moves between, of a copy that is cut between them.
    """

    count: int
    size_bytes: int
    starts: tuple[int, ...]
    bank_bytes: tuple[int, ...]
    one_bank: bool
    rows: int
    partitions: Integers
    home: int = 0


@dataclass(frozen=True, eq=False)
class _RegularDescriptors:
    """Descriptors of a copy, in bytes relative to its first elements; neighbours with `alike`
    lengths begin at `edges`. partitions: relative to the first of each end, [ends, n]. starts: by
    end, int64 [n] each.
    rows: descriptors that move side by side, and share an entry. homes: as in a group,
    int64 [n]; None: they have none.
    """

    partitions: Integers
    starts: tuple[Integers, ...]
    lengths: Integers
    edges: list[int]
    rows: Integers
    homes: Integers | None = None


class Runs(NamedTuple):
    """The descriptors of a copy, in order, one by one: int64 [descriptors].

    source and target: byte offsets in the partition; length: bytes; partitions: [2, n], of source
    and target.
    """

    source: Integers
    target: Integers
    length: Integers
    partitions: Integers


def descriptor_runs(copy: DmaCopy) -> Runs:
    """Return the descriptors of a copy, one by one."""
    runs = _runs_of(copy, (copy.source, copy.target))
    source, target = runs.starts[0] + copy.source.start, runs.starts[1] + copy.target.start
    ends = copy.source, copy.target
    return Runs(source, target, runs.lengths, runs.partitions + _first_partitions(ends))


@dataclass(frozen=True, eq=False)
class CutRuns:
    """The descriptors of a copy, in order, one by one, that move between the same controllers.

    home: a number for these controllers. starts: by end, the byte in the partition, or in DRAM,
    int64 [descriptors] each. lengths: in bytes. partitions: int64 [ends, descriptors].
    """

    home: int
    starts: tuple[Integers, ...]
    lengths: Integers
    partitions: Integers


def cut_runs(copy: DmaCopy, ends: CopyEnds, homes: HomesOf | None) -> list[CutRuns]:
    """Return the descriptors of a copy, in the pieces that controllers cut it into."""
    runs = _descriptors(copy, ends, homes)
    partitions = runs.partitions + _first_partitions([end.access for end in ends])
    starts = [begin + end.access.start for begin, end in zip(runs.starts, ends, strict=True)]
    many = len(runs.lengths)
    home = np.zeros(many, np.int64) if runs.homes is None else runs.homes
    edges = [0, *(np.flatnonzero(np.diff(home)) + 1).tolist(), many]
    return [
        CutRuns(
            int(home[i]),
            tuple([begin[i:j] for begin in starts]),
            runs.lengths[i:j],
            partitions[:, i:j],
        )
        for i, j in pairwise(edges)
    ]


def _first_partitions(accesses: Sequence[Access]) -> Integers:
    return np.array([[access.partition] for access in accesses], np.int64)


def descriptor_groups(
    copy: DmaCopy, ends: CopyEnds, dma: Dma, homes: HomesOf | None = None
) -> list[BundleGroup]:
    """Return the descriptors of a copy, in order, as groups.

    homes: cuts descriptors between DRAM controllers.
    """
    runs = _descriptors(copy, ends, homes)
    if dma.is_spread:
        runs = _spread(copy, ends, runs, dma)
    elif dma.partitions_per_cycle > 1:
        runs = _side_by_side(copy, ends, runs, dma.partitions_per_cycle)
    bank = tuple([end.bank_bytes for end in ends])
    starts = [begin + end.access.start for begin, end in zip(runs.starts, ends, strict=True)]
    if isinstance(copy, DmaTranspose):  # its source is read in all partitions, and in one bank
        starts[0] = np.full_like(starts[0], copy.source.span.first // bank[0] * ONE_BANK)
        bank = ONE_BANK, bank[1]
    partitions = runs.partitions + _first_partitions([end.access for end in ends])
    edges, straddles = runs.edges, np.zeros(0, bool)
    if not all(_in_one_bank(end.access, size) for end, size in zip(ends, bank, strict=True)):
        edges, straddles = _edges(ends, runs, starts, bank)
    return [
        BundleGroup(
            j - i,
            int(runs.lengths[i]),
            tuple([int(begin[i]) for begin in starts]),
            bank,
            not (straddles.size and straddles[i]),
            int(runs.rows[i]),
            partitions[:, i:j],
            0 if runs.homes is None else int(runs.homes[i]),
        )
        for i, j in pairwise(edges)
    ]


def _descriptors(copy: DmaCopy, ends: CopyEnds, homes: HomesOf | None) -> _RegularDescriptors:
    """Return the descriptors of a copy, cut between DRAM controllers if there are several."""
    runs = _runs_of(copy, tuple([end.access for end in ends]))
    return runs if homes is None else _cut(ends, runs, homes)


def _cut(ends: CopyEnds, runs: _RegularDescriptors, homes: HomesOf) -> _RegularDescriptors:
    """Cut descriptors where they go from one DRAM controller to another, at any end."""
    dram = [number for number, end in enumerate(ends) if end.is_mapped]
    firsts, lengths = list[int](), list[int]()
    for run, length in enumerate(runs.lengths.tolist()):
        at = 0
        while at < length:
            left = length - at
            for number in dram:
                address = int(runs.starts[number][run]) + ends[number].access.start + at
                left = min(left, homes.stop_of(address) - address)
            firsts.append(run)
            lengths.append(left)
            at += left
    place, size = np.array(firsts, np.int64), np.array(lengths, np.int64)
    ahead = np.cumsum(size) - size
    begins = ahead - ahead[np.searchsorted(place, place)]
    starts = tuple([begin[place] + begins for begin in runs.starts])
    home = homes.number([starts[number] + ends[number].access.start for number in dram], len(place))
    changes = (np.diff(size) != 0) | (np.diff(home) != 0)
    edges = [0, *(np.flatnonzero(changes) + 1).tolist(), len(place)]
    return _RegularDescriptors(
        runs.partitions[:, place], starts, size, edges, np.ones(len(place), np.int64), home
    )


def source_order(copy: DmaTranspose) -> Integers:
    """Return the numbers of the source's elements in the order of the target's, int64."""
    shape = copy.target.elements, copy.target.partitions
    return np.arange(shape[0] * shape[1]).reshape(shape).T.ravel()


_Pattern = tuple[int, int, Pattern]


def _pattern(access: Access) -> _Pattern:
    """Return what of an access decides its runs: element size, partitions, pairs."""
    return access.element_bytes, access.partitions, access.pattern


def _runs_of(copy: DmaCopy, ends: tuple[Access, ...]) -> _RegularDescriptors:
    """Return the descriptors of a copy, or of a transpose, whose runs are its target's."""
    if isinstance(copy, DmaTranspose):
        return _turned_runs(_pattern(copy.target))
    return _runs(tuple([_pattern(access) for access in ends]))


@lru_cache(maxsize=256)
def _turned_runs(target: _Pattern) -> _RegularDescriptors:
    """Return the runs of a target that are filled from every row of a matrix."""
    runs = _runs((target, target))
    places = np.stack([np.zeros_like(runs.partitions[0]), runs.partitions[1]])
    starts = np.zeros_like(runs.starts[0]), runs.starts[1]
    return replace(runs, partitions=places, starts=starts)


@lru_cache(maxsize=256)
def _runs(patterns: tuple[_Pattern, ...]) -> _RegularDescriptors:
    """Return the descriptors of a copy between two patterns, or to several.

    What is looked at one by one are pieces that are contiguous on all sides at least.
    """
    joints = [_contiguous(pattern[2]) for pattern in patterns]
    elements = math.gcd(*[most for most, _ in joints])
    size = patterns[0][0] * elements
    places = [
        _relative(pattern, (*outer, (elements, most // elements)))
        for pattern, (most, outer) in zip(patterns, joints, strict=True)
    ]
    total = len(places[0])
    fresh = np.zeros(total, bool)
    fresh[0] = True
    for place, (_, partitions, _) in zip(places, patterns, strict=True):
        fresh[1:] |= np.diff(place) != size
        fresh[:: total // partitions] = True
    starts = np.flatnonzero(fresh)
    lengths = np.diff(np.append(starts, total)) * size
    edges = [0, *(np.flatnonzero(lengths[1:] != lengths[:-1]) + 1).tolist(), len(starts)]
    lanes = np.stack([starts // (total // count) for _, count, _ in patterns])
    begins = tuple([place[starts] for place in places])
    return _RegularDescriptors(lanes, begins, lengths, edges, np.ones(len(starts), np.int64))


def _side_by_side(
    copy: DmaCopy, ends: CopyEnds, runs: _RegularDescriptors, most: int
) -> _RegularDescriptors:
    """Return the same descriptors in bundles of at most `most`, the first of each for all.

    A descriptor goes beside the one before it if both have one length and, wherever on the chip the
    copy reads or writes, the same place in neighbouring partitions. What a transpose reads for each
    lies in all partitions of its source.
    """
    sides = [
        (places, offsets)
        for number, (end, places, offsets) in enumerate(
            zip(ends, runs.partitions, runs.starts, strict=True)
        )
        if not end.is_dram and not (isinstance(copy, DmaTranspose) and number == 0)
    ]
    beside = np.zeros(len(runs.lengths), bool)
    beside[1:] = (np.diff(runs.lengths) == 0) & bool(sides)
    for places, offsets in sides:
        beside[1:] &= (np.diff(places) == 1) & (np.diff(offsets) == 0)
    if runs.homes is not None:
        beside[1:] &= np.diff(runs.homes) == 0
    number = np.arange(len(beside))
    chain = np.maximum.accumulate(np.where(beside, 0, number))
    first = np.flatnonzero((number - chain) % most == 0)
    rows, lengths = np.diff(np.append(first, len(beside))), runs.lengths[first]
    starts = tuple([begin[first] for begin in runs.starts])
    return _bundled(runs.partitions[:, first], starts, lengths, rows, _at(runs.homes, first))


def _bundled(
    partitions: Integers,
    starts: tuple[Integers, ...],
    lengths: Integers,
    rows: Integers,
    homes: Integers | None,
) -> _RegularDescriptors:
    """Return bundles, with the edges between those that differ."""
    changes = (np.diff(lengths) != 0) | (np.diff(rows) != 0)
    if homes is not None:
        changes |= np.diff(homes) != 0
    edges = [0, *(np.flatnonzero(changes) + 1).tolist(), len(lengths)]
    return _RegularDescriptors(partitions, starts, lengths, edges, rows, homes)


def _at(homes: Integers | None, places: Integers) -> Integers | None:
    return None if homes is None else homes[places]


def spread_order(copy: DmaCopy, ends: CopyEnds, dma: Dma, homes: HomesOf | None = None) -> Integers:
    """Return the numbers of a copy's descriptors in the order in which engines move them.

    All engines work at once: first comes the first descriptor of each engine, then the second of
    each. int64 [descriptors].
    """
    engine, turn = _deal(copy, _descriptors(copy, ends, homes), dma)
    return np.lexsort((engine, turn))


def _deal(copy: DmaCopy, runs: _RegularDescriptors, dma: Dma) -> tuple[Integers, Integers]:
    """Return the engine of each descriptor, and which of that engine's it is, from 0."""
    number = np.arange(len(runs.lengths))
    if copy.target.buffer is Buffer.DRAM and copy.source.buffer is Buffer.DRAM:
        turn, engine = np.divmod(number, dma.engine_count)
        return engine, turn
    side = 0 if copy.target.buffer is Buffer.DRAM else 1
    access = (copy.source, copy.target)[side]
    served, engines = dma.partitions_per_engine, dma.engine_count
    engine = (access.partition + runs.partitions[side]) // served % engines
    turn = np.empty_like(number)
    for each in np.unique(engine):
        mine = engine == each
        turn[mine] = np.arange(np.count_nonzero(mine))
    return engine, turn


def _spread(
    copy: DmaCopy, ends: CopyEnds, runs: _RegularDescriptors, dma: Dma
) -> _RegularDescriptors:
    """Return the descriptors in the order of the engines, in bundles of those that are alike.

    A bundle has at most one descriptor of each engine, of one length and, wherever on the chip the
    copy reads or writes, at one place of its partition.
    """
    engine, turn = _deal(copy, runs, dma)
    order = np.lexsort((engine, turn))
    lengths, partitions = runs.lengths[order], runs.partitions[:, order]
    sides = [begin[order] for begin in runs.starts]
    homes = _at(runs.homes, order)
    fresh = np.ones(len(order), bool)
    fresh[1:] = (np.diff(turn[order]) != 0) | (np.diff(lengths) != 0)
    for end, offsets in zip(ends, sides, strict=True):
        if not end.is_dram:
            fresh[1:] |= np.diff(offsets) != 0
    if homes is not None:
        fresh[1:] |= np.diff(homes) != 0
    first = np.flatnonzero(fresh)
    rows, lengths = np.diff(np.append(first, len(order))), lengths[first]
    starts = tuple([offsets[first] for offsets in sides])
    return _bundled(partitions[:, first], starts, lengths, rows, _at(homes, first))


def _contiguous(pairs: Pattern) -> tuple[int, Pattern]:
    """Return how many elements surely follow one another, and the pairs that repeat these."""
    elements = 1
    for place in range(len(pairs), 0, -1):
        step, count = pairs[place - 1]
        if count > 1 and step != elements:
            return elements, pairs[:place]
        elements *= count
    return elements, ()


def _relative(pattern: _Pattern, pairs: Pattern) -> Integers:
    """Return the byte offset of every piece from the first one of its partition, in order.

    pairs: of the pieces of a partition, with steps in elements.
    """
    size, partitions, _ = pattern
    index = np.zeros(1, np.int64)
    for step, count in pairs:
        index = (index[:, None] + step * np.arange(count, dtype=np.int64)).reshape(-1)
    return np.tile(index * size, partitions)


def _in_one_bank(access: Access, bank_bytes: int) -> bool:
    low, high = access.span
    return access.buffer is Buffer.DRAM or low // bank_bytes == (high - 1) // bank_bytes


def _edges(
    ends: CopyEnds, runs: _RegularDescriptors, starts: Sequence[Integers], bank: tuple[int, ...]
) -> tuple[list[int], npt.NDArray[np.bool_]]:
    """Return where a group begins because lengths or banks change, and which runs straddle."""
    keys, straddles = [runs.lengths, runs.rows], np.zeros(len(runs.lengths), bool)
    if runs.homes is not None:
        keys.append(runs.homes)
    for end, begin, size in zip(ends, starts, bank, strict=True):
        first, last = _banks(end.access, begin, runs.lengths, size)
        keys += [first, last]
        straddles |= first != last
    table = np.stack(keys)
    fresh = np.ones(len(straddles), bool)
    fresh[1:] = (table[:, 1:] != table[:, :-1]).any(axis=0) | straddles[1:] | straddles[:-1]
    return [*np.flatnonzero(fresh).tolist(), len(straddles)], straddles


def _banks(
    access: Access, offsets: Integers, lengths: Integers, bank_bytes: int
) -> tuple[Integers, Integers]:
    if access.buffer is Buffer.DRAM:
        return np.zeros_like(offsets), np.zeros_like(offsets)
    return offsets // bank_bytes, (offsets + lengths - 1) // bank_bytes
