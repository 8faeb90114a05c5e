"""Which ports the bundles of a copy need: the banks of their bytes, and their partitions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from systolic.isa import DmaCopy, DmaTranspose
from systolic.machine.event.dma.descriptors import BundleGroup
from systolic.machine.event.dma.ends import CopyEnds
from systolic.machine.event.ports.ports import Need, Needs, need_of
from systolic.spans import Interval


def touched_banks(group: BundleGroup, index: int, first: int, stop: int) -> list[range]:
    """Return the banks of bytes first <= byte < stop of a bundle, by end.

    A bundle moves byte 0 of each of its rows, then byte 1, and so on.
    """
    if group.rows > 1:
        first, stop = first // group.rows, -(-stop // group.rows)
    if group.one_bank:
        first, stop = 0, 1
    return [
        range((begin + first) // bank, (begin + stop - 1) // bank + 1)
        for begin, bank in zip(group.starts, group.bank_bytes, strict=True)
    ]


def bank_edge(ends: CopyEnds, group: BundleGroup, byte: int) -> int:
    """Return the first byte of a bundle, after `byte`, whose row has come to another bank.

    Bytes before it, from `byte` on, touch the same banks of the buffers on the chip.
    """
    row = byte // group.rows
    to_edge = [
        bank - (begin + row) % bank
        for end, begin, bank in zip(ends, group.starts, group.bank_bytes, strict=True)
        if not end.is_dram
    ]
    return (row + min(to_edge, default=group.size_bytes)) * group.rows


def needs_of(ends: CopyEnds, banks: Sequence[range], lanes: Sequence[Interval]) -> Needs:
    """Return the ports of these banks of a copy's ends.

    lanes: partitions first <= p < stop of each.
    """
    return tuple([need for _, need in _sided_needs(ends, banks, lanes)])


def _sided_needs(
    ends: CopyEnds, banks: Sequence[range], lanes: Sequence[Interval]
) -> list[tuple[int, Need]]:
    found = list[tuple[int, Need]]()
    for number, (end, touched, lane) in enumerate(zip(ends, banks, lanes, strict=True)):
        if end.is_dram:
            continue
        buffer = end.access.buffer
        for direction in end.directions:
            for bank in touched:
                need = need_of(buffer, bank + end.base, direction, lane.first, lane.stop)
                found.append((number, need))
    return found


_lanes = lru_cache(maxsize=4096)(Interval)
"""Partitions first <= p < stop: few in a program, and asked for again and again."""


def descriptor_needs(
    copy: DmaCopy,
    ends: CopyEnds,
    group: BundleGroup,
    index: int,
    *,
    first: int = 0,
    stop: int = 1,
) -> Needs:
    """Return the ports of bytes first <= byte < stop of a bundle, in the partitions of its rows."""
    lanes = [_lanes(p, p + group.rows) for p in group.partitions[:, index].tolist()]
    if isinstance(copy, DmaTranspose):
        lanes[0] = copy.source.lanes
    return needs_of(ends, touched_banks(group, index, first, stop), lanes)


def group_needs(ends: CopyEnds, group: BundleGroup) -> list[tuple[int, Need]]:
    """Return the ports of the bundles of a group, with the number of the end."""
    lanes = [end.access.lanes for end in ends]
    return _sided_needs(ends, touched_banks(group, 0, 0, group.size_bytes * group.rows), lanes)


def edges_of_lanes(group: BundleGroup) -> list[int]:
    """Return where the partitions of a group's bundles change, and its end."""
    changes = (np.diff(group.partitions, axis=1) != 0).any(axis=0)
    return [*(np.flatnonzero(changes) + 1).tolist(), group.count]


def all_needs(ends: CopyEnds, groups: Sequence[BundleGroup]) -> list[Need]:
    """Return every port that these descriptors of a copy may need."""
    return [need for group in groups for _, need in group_needs(ends, group)]
