"""A DmaCopy cut into descriptors: runs contiguous on both sides, equal neighbours grouped."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from sim.hw.spec import Chip
from sim.isa import Access, Buffer, DmaCopy


@dataclass(frozen=True, slots=True)
class Group:
    """`count` descriptors of `size_bytes` each that touch the same banks.

    source and target: byte offsets (in the partition) of the first descriptor. A group whose
    descriptors straddle banks has count 1. `bank_bytes`: of the state buffer.
    """

    count: int
    size_bytes: int
    source: int
    target: int
    bank_bytes: int
    one_bank: bool


def descriptor_groups(copy: DmaCopy, chip: Chip) -> list[Group]:
    """Return the descriptors of a copy, in order, as groups."""
    size = copy.source.element_bytes
    source, target = _addresses(copy.source), _addresses(copy.target)
    starts = _run_starts(copy, source, target)
    lengths = np.diff(np.append(starts, len(source))) * size
    bank = chip.state_buffer.bank_bytes
    a, b = source[starts], target[starts]
    keys = np.stack(
        [
            lengths,
            *_banks(copy.source, a, lengths, bank),
            *_banks(copy.target, b, lengths, bank),
        ]
    )
    one_bank = (keys[1] == keys[2]) & (keys[3] == keys[4])
    fresh = np.ones(len(starts), bool)
    fresh[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0) | ~one_bank[1:] | ~one_bank[:-1]
    edges = [*np.flatnonzero(fresh).tolist(), len(starts)]
    return [
        Group(j - i, int(lengths[i]), int(a[i]), int(b[i]), bank, bool(one_bank[i]))
        for i, j in pairwise(edges)
    ]


def touched_banks(group: Group, index: int, first: int, stop: int) -> tuple[range, range]:
    """Return the banks of bytes first <= byte < stop of a descriptor, in source and target."""
    bank = group.bank_bytes
    if group.one_bank:
        first, stop = 0, 1
    return (
        range((group.source + first) // bank, (group.source + stop - 1) // bank + 1),
        range((group.target + first) // bank, (group.target + stop - 1) // bank + 1),
    )


def _addresses(access: Access) -> npt.NDArray[np.int64]:
    """Return the byte offset in its partition of every element, in order of the copy."""
    return np.tile(access.offsets() * access.element_bytes, access.partitions)


def _run_starts(
    copy: DmaCopy, source: npt.NDArray[np.int64], target: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the element numbers at which a new descriptor begins."""
    size = copy.source.element_bytes
    fresh = np.ones(len(source), bool)
    fresh[1:] = (np.diff(source) != size) | (np.diff(target) != size)
    for access in (copy.source, copy.target):
        fresh[:: access.elements] = True
    return np.flatnonzero(fresh)


def _banks(
    access: Access,
    offsets: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    bank_bytes: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    if access.buffer is Buffer.DRAM:
        return np.zeros_like(offsets), np.zeros_like(offsets)
    return offsets // bank_bytes, (offsets + lengths - 1) // bank_bytes
