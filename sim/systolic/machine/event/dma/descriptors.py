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
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from systolic.arrays import Integers
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, DmaCopy, DmaTranspose
from systolic.isa.access import Pattern
from systolic.machine.event.ports.ports import Need, Needs, need_of
from systolic.spans import Interval

ONE_BANK = 1 << 40
"""The bytes of a bank where all of a side lies in one: more than a partition has."""


@dataclass(frozen=True, slots=True, eq=False)
class BundleGroup:
    """`count` bundles of `rows` descriptors of `size_bytes` each, that touch the same banks.

    The descriptors of a bundle move side by side, each in a partition of its own. source and
    target: byte offsets (in the partition) of the first descriptor. A group whose descriptors
    straddle banks has count 1. bank_bytes: of the buffers of source and target. partitions: of the
    first row of each bundle, in source and target, int64 [2, count].
    """

    count: int
    size_bytes: int
    source: int
    target: int
    bank_bytes: tuple[int, int]
    one_bank: bool
    rows: int
    partitions: Integers


@dataclass(frozen=True, eq=False)
class _RegularDescriptors:
    """Descriptors of a copy, in bytes relative to its first elements; neighbours with `alike`
    lengths begin at `edges`. partitions: relative to the first of source and target, [2, n].
    rows: descriptors that move side by side, each entry standing for so many.
    """

    partitions: Integers
    source: Integers
    target: Integers
    lengths: Integers
    edges: list[int]
    rows: Integers


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
    runs = _runs_of(copy)
    source, target = runs.source + copy.source.start, runs.target + copy.target.start
    return Runs(source, target, runs.lengths, runs.partitions + _first_partitions(copy))


def _first_partitions(copy: DmaCopy) -> Integers:
    return np.array([[copy.source.partition], [copy.target.partition]], np.int64)


def descriptor_groups(copy: DmaCopy, chip: Chip) -> list[BundleGroup]:
    """Return the descriptors of a copy, in order, as groups."""
    runs = _runs_of(copy)
    if chip.dma.is_spread:
        runs = _spread(copy, runs, chip)
    elif chip.dma.partitions_per_cycle > 1:
        runs = _side_by_side(copy, runs, chip.dma.partitions_per_cycle)
    bank = bank_bytes(copy.source, chip), bank_bytes(copy.target, chip)
    source, target = runs.source + copy.source.start, runs.target + copy.target.start
    if isinstance(copy, DmaTranspose):  # its source is read in all partitions, and in one bank
        source = np.full_like(source, copy.source.span.first // bank[0] * ONE_BANK)
        bank = ONE_BANK, bank[1]
    partitions = runs.partitions + _first_partitions(copy)
    edges, straddles = runs.edges, np.zeros(0, bool)
    if not (_in_one_bank(copy.source, bank[0]) and _in_one_bank(copy.target, bank[1])):
        edges, straddles = _edges(copy, runs, source, target, bank)
    return [
        BundleGroup(
            j - i,
            int(runs.lengths[i]),
            int(source[i]),
            int(target[i]),
            bank,
            not (straddles.size and straddles[i]),
            int(runs.rows[i]),
            partitions[:, i:j],
        )
        for i, j in pairwise(edges)
    ]


def touched_banks(group: BundleGroup, index: int, first: int, stop: int) -> tuple[range, range]:
    """Return the banks of bytes first <= byte < stop of a bundle, in source and target.

    A bundle moves byte 0 of each of its rows, then byte 1, and so on.
    """
    left, right = group.bank_bytes
    if group.rows > 1:
        first, stop = first // group.rows, -(-stop // group.rows)
    if group.one_bank:
        first, stop = 0, 1
    return (
        range((group.source + first) // left, (group.source + stop - 1) // left + 1),
        range((group.target + first) // right, (group.target + stop - 1) // right + 1),
    )


def bank_edge(copy: DmaCopy, group: BundleGroup, byte: int) -> int:
    """Return the first byte of a bundle, after `byte`, whose row has come to another bank.

    Bytes before it, from `byte` on, touch the same banks of the buffers on the chip.
    """
    row = byte // group.rows
    to_edge = [
        bank - (base + row) % bank
        for access, base, bank in (
            (copy.source, group.source, group.bank_bytes[0]),
            (copy.target, group.target, group.bank_bytes[1]),
        )
        if access.buffer is not Buffer.DRAM
    ]
    return (row + min(to_edge, default=group.size_bytes)) * group.rows


def bank_bytes(access: Access, chip: Chip) -> int:
    """Return the bytes of a bank of the buffer on the chip that an access names (DRAM: any)."""
    in_results = access.buffer is Buffer.RESULT
    return chip.result_buffer.bank_bytes if in_results else chip.state_buffer.bank_bytes


def needs_of(
    copy: DmaCopy, banks: tuple[Sequence[int], Sequence[int]], lanes: Sequence[Interval]
) -> Needs:
    """Return the ports of these banks of a copy's source and target.

    lanes: partitions first <= p < stop of either.
    """
    found = []
    for access, direction, numbers, lane in (
        (copy.source, "read", banks[0], lanes[0]),
        (copy.target, "write", banks[1], lanes[1]),
    ):
        if access.buffer is not Buffer.DRAM:
            found += [need_of(access.buffer, b, direction, lane.first, lane.stop) for b in numbers]
    return tuple(found)


_lanes = lru_cache(maxsize=4096)(Interval)
"""Partitions first <= p < stop: few in a program, and asked for again and again."""


def descriptor_needs(
    copy: DmaCopy, group: BundleGroup, index: int, first: int = 0, stop: int = 1
) -> Needs:
    """Return the ports of bytes first <= byte < stop of a bundle, in the partitions of its rows."""
    lanes = [_lanes(p, p + group.rows) for p in group.partitions[:, index].tolist()]
    if isinstance(copy, DmaTranspose):
        lanes[0] = copy.source.lanes
    return needs_of(copy, touched_banks(group, index, first, stop), lanes)


def group_needs(copy: DmaCopy, group: BundleGroup) -> list[tuple[int, Need]]:
    """Return the ports of the bundles of a group, with the side: 0 its source, 1 its target."""
    lanes = copy.source.lanes, copy.target.lanes
    needs = needs_of(copy, touched_banks(group, 0, 0, group.size_bytes * group.rows), lanes)
    return [(int(need.port.direction == "write"), need) for need in needs]


def edges_of_lanes(group: BundleGroup) -> list[int]:
    """Return where the partitions of a group's bundles change, and its end."""
    changes = (np.diff(group.partitions, axis=1) != 0).any(axis=0)
    return [*(np.flatnonzero(changes) + 1).tolist(), group.count]


def all_needs(copy: DmaCopy, groups: Sequence[BundleGroup]) -> list[Need]:
    """Return every port that these descriptors of a copy may need."""
    return [need for group in groups for _, need in group_needs(copy, group)]


def source_order(copy: DmaTranspose) -> Integers:
    """Return the numbers of the source's elements in the order of the target's, int64."""
    shape = copy.target.elements, copy.target.partitions
    return np.arange(shape[0] * shape[1]).reshape(shape).T.ravel()


_Pattern = tuple[int, int, Pattern]


def _pattern(access: Access) -> _Pattern:
    """Return what of an access decides its runs: element size, partitions, pairs."""
    return access.element_bytes, access.partitions, access.pattern


def _runs_of(copy: DmaCopy) -> _RegularDescriptors:
    """Return the descriptors of a copy, or of a transpose, whose runs are those of its target."""
    if isinstance(copy, DmaTranspose):
        return _turned_runs(_pattern(copy.target))
    return _runs(_pattern(copy.source), _pattern(copy.target))


@lru_cache(maxsize=256)
def _turned_runs(target: _Pattern) -> _RegularDescriptors:
    """Return the runs of a target that are filled from every row of a matrix."""
    runs = _runs(target, target)
    places = np.stack([np.zeros_like(runs.partitions[0]), runs.partitions[1]])
    return replace(runs, partitions=places, source=np.zeros_like(runs.source))


@lru_cache(maxsize=256)
def _runs(source: _Pattern, target: _Pattern) -> _RegularDescriptors:
    """Return the descriptors of a copy between two patterns.

    What is looked at one by one are pieces that are contiguous on both sides at least.
    """
    (most, outer), (other_most, other_outer) = _contiguous(source[2]), _contiguous(target[2])
    elements = math.gcd(most, other_most)
    size = source[0] * elements
    a = _relative(source, (*outer, (elements, most // elements)))
    b = _relative(target, (*other_outer, (elements, other_most // elements)))
    fresh = np.ones(len(a), bool)
    fresh[1:] = (np.diff(a) != size) | (np.diff(b) != size)
    for _, partitions, _ in (source, target):
        fresh[:: len(a) // partitions] = True
    starts = np.flatnonzero(fresh)
    lengths = np.diff(np.append(starts, len(a))) * size
    edges = [0, *(np.flatnonzero(lengths[1:] != lengths[:-1]) + 1).tolist(), len(starts)]
    places = np.stack([starts // (len(a) // count) for _, count, _ in (source, target)])
    return _RegularDescriptors(
        places, a[starts], b[starts], lengths, edges, np.ones(len(starts), np.int64)
    )


def _side_by_side(copy: DmaCopy, runs: _RegularDescriptors, most: int) -> _RegularDescriptors:
    """Return the same descriptors in bundles of at most `most`, the first of each for all.

    A descriptor goes beside the one before it if both have one length and, wherever on the chip the
    copy reads or writes, the same place in neighbouring partitions. What a transpose reads for each
    lies in all partitions of its source.
    """
    sides = [
        (places, offsets)
        for access, places, offsets in (
            (copy.source, runs.partitions[0], runs.source),
            (copy.target, runs.partitions[1], runs.target),
        )
        if access.buffer is not Buffer.DRAM
        and not (isinstance(copy, DmaTranspose) and access is copy.source)
    ]
    beside = np.zeros(len(runs.lengths), bool)
    beside[1:] = (np.diff(runs.lengths) == 0) & bool(sides)
    for places, offsets in sides:
        beside[1:] &= (np.diff(places) == 1) & (np.diff(offsets) == 0)
    number = np.arange(len(beside))
    chain = np.maximum.accumulate(np.where(beside, 0, number))
    first = np.flatnonzero((number - chain) % most == 0)
    rows, lengths = np.diff(np.append(first, len(beside))), runs.lengths[first]
    changes = (np.diff(lengths) != 0) | (np.diff(rows) != 0)
    edges = [0, *(np.flatnonzero(changes) + 1).tolist(), len(first)]
    return _RegularDescriptors(
        runs.partitions[:, first], runs.source[first], runs.target[first], lengths, edges, rows
    )


def spread_order(copy: DmaCopy, chip: Chip) -> Integers:
    """Return the numbers of a copy's descriptors in the order in which engines move them.

    All engines work at once: first comes the first descriptor of each engine, then the second of
    each. int64 [descriptors].
    """
    runs = _runs_of(copy)
    engine, turn = _deal(copy, runs, chip)
    return np.lexsort((engine, turn))


def _deal(copy: DmaCopy, runs: _RegularDescriptors, chip: Chip) -> tuple[Integers, Integers]:
    """Return the engine of each descriptor, and which of that engine's it is, from 0."""
    number = np.arange(len(runs.lengths))
    if copy.target.buffer is Buffer.DRAM and copy.source.buffer is Buffer.DRAM:
        turn, engine = np.divmod(number, chip.dma.engine_count)
        return engine, turn
    side = 0 if copy.target.buffer is Buffer.DRAM else 1
    access = (copy.source, copy.target)[side]
    served, engines = chip.dma.partitions_per_engine, chip.dma.engine_count
    engine = (access.partition + runs.partitions[side]) // served % engines
    turn = np.empty_like(number)
    for each in np.unique(engine):
        mine = engine == each
        turn[mine] = np.arange(np.count_nonzero(mine))
    return engine, turn


def _spread(copy: DmaCopy, runs: _RegularDescriptors, chip: Chip) -> _RegularDescriptors:
    """Return the descriptors in the order of the engines, in bundles of those that are alike.

    A bundle has at most one descriptor of each engine, of one length and, wherever on the chip the
    copy reads or writes, at one place of its partition.
    """
    _, turn = _deal(copy, runs, chip)
    order = spread_order(copy, chip)
    lengths, partitions = runs.lengths[order], runs.partitions[:, order]
    sides = [runs.source[order], runs.target[order]]
    fresh = np.ones(len(order), bool)
    fresh[1:] = (np.diff(turn[order]) != 0) | (np.diff(lengths) != 0)
    for access, offsets in zip((copy.source, copy.target), sides, strict=True):
        if access.buffer is not Buffer.DRAM:
            fresh[1:] |= np.diff(offsets) != 0
    first = np.flatnonzero(fresh)
    rows, lengths = np.diff(np.append(first, len(order))), lengths[first]
    changes = (np.diff(lengths) != 0) | (np.diff(rows) != 0)
    edges = [0, *(np.flatnonzero(changes) + 1).tolist(), len(first)]
    source, target = (offsets[first] for offsets in sides)
    return _RegularDescriptors(partitions[:, first], source, target, lengths, edges, rows)


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
    copy: DmaCopy,
    runs: _RegularDescriptors,
    source: Integers,
    target: Integers,
    bank: tuple[int, int],
) -> tuple[list[int], npt.NDArray[np.bool_]]:
    """Return where a group begins because lengths or banks change, and which runs straddle."""
    first_a, last_a = _banks(copy.source, source, runs.lengths, bank[0])
    first_b, last_b = _banks(copy.target, target, runs.lengths, bank[1])
    keys = np.stack([runs.lengths, runs.rows, first_a, last_a, first_b, last_b])
    straddles = (first_a != last_a) | (first_b != last_b)
    fresh = np.ones(len(source), bool)
    fresh[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0) | straddles[1:] | straddles[:-1]
    return [*np.flatnonzero(fresh).tolist(), len(source)], straddles


def _banks(
    access: Access, offsets: Integers, lengths: Integers, bank_bytes: int
) -> tuple[Integers, Integers]:
    if access.buffer is Buffer.DRAM:
        return np.zeros_like(offsets), np.zeros_like(offsets)
    return offsets // bank_bytes, (offsets + lengths - 1) // bank_bytes
