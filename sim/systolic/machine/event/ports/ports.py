"""What an instruction asks of the memory ports over its life, as stretches of constant demand.

A stretch may be any length; it costs one object. Nothing here knows of time or of other clients.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer
from systolic.trace.records import EXCLUSIVE, NO_BANK


class Port(NamedTuple):
    """The read or the write port of one bank: one for all partitions, or one for each."""

    buffer: str
    bank: int
    direction: str

    @property
    def is_of_partitions(self) -> bool:
        """Return whether each partition may have a port of its own here."""
        return self.buffer == Buffer.STATE and self.direction != EXCLUSIVE


class Need(NamedTuple):
    """A port wanted for partitions first <= p < stop."""

    port: Port
    first: int
    stop: int

    def meets(self, other: Need) -> bool:
        """Return whether both want the port for a partition in common."""
        return self.port == other.port and self.first < other.stop and other.first < self.stop


Needs = tuple[Need, ...]


_bits: dict[Port, int] = {}


def number_of(port: Port) -> int:
    """Return a number for a port, always the same one."""
    return _bits.setdefault(port, len(_bits))


@lru_cache(maxsize=4096)
def mask_of(needs: Needs) -> int:
    """Return a set of ports as the bits of an integer, so that sets can be compared quickly."""
    mask = 0
    for need in needs:
        mask |= 1 << number_of(need.port)
    return mask


def hull(needs: Iterable[Need]) -> Needs:
    """Return each port once, for all partitions between the outermost it is wanted for."""
    found: dict[Port, list[int]] = {}
    for port, first, stop in needs:
        outermost = found.get(port)
        if outermost is None:
            found[port] = [first, stop]
            continue
        if first < outermost[0]:
            outermost[0] = first
        if stop > outermost[1]:
            outermost[1] = stop
    return tuple([Need(port, first, stop) for port, (first, stop) in found.items()])


class Stretch(NamedTuple):
    """The same needs in slots first <= slot < stop."""

    first: int
    stop: int
    needs: Needs


class Timeline:
    """Needs by slot, piecewise constant; slots without needs carry an empty tuple."""

    def __init__(self, stretches: Iterable[Stretch], slots: int) -> None:
        self.slots = slots
        self._reach: Needs | None = None
        self._of_partitions: dict[Port, int] | None = None
        self._of_banks: list[Stretch] | None = None
        self._stretches = [s for s in stretches if s.stop > s.first]
        self._starts = [s.first for s in self._stretches]
        self.mask = 0
        for stretch in self._stretches:
            self.mask |= mask_of(stretch.needs)

    @property
    def reach(self) -> Needs:
        """Return each port of all stretches once, for all partitions between its outermost."""
        if self._reach is None:
            self._reach = hull(need for stretch in self._stretches for need in stretch.needs)
        return self._reach

    @property
    def of_partitions(self) -> dict[Port, int]:
        """Return the slots of each port that partitions have of their own, of all together."""
        if self._of_partitions is None:
            self._of_partitions = self._slots_of_partitions()
        return self._of_partitions

    def _slots_of_partitions(self) -> dict[Port, int]:
        found: dict[Port, int] = {}
        for first, stop, needs in self._stretches:
            for port, low, high in needs:
                if port in found or port.is_of_partitions:
                    found[port] = found.get(port, 0) + (stop - first) * (high - low)
        return found

    @property
    def of_banks(self) -> list[Stretch]:
        """Return the stretches, with the needs of ports that all partitions share."""
        if self._of_banks is None:
            self._of_banks = self._stretches_of_banks()
        return self._of_banks

    def _stretches_of_banks(self) -> list[Stretch]:
        ports = {need.port for need in self.reach if not need.port.is_of_partitions}
        if not ports:
            return []
        found: list[Stretch] = []
        for first, stop, needs in self._stretches:
            if shared := tuple([need for need in needs if need.port in ports]):
                found.append(Stretch(first, stop, shared))
        return found

    def in_banks(self, banks: Mapping[tuple[str, int], int]) -> Timeline:
        """Return the timeline with other banks for (buffer, bank); others stay as they are.

        No two banks become one.
        """
        moved = dict[Needs, Needs]()
        for _, _, needs in self._stretches:
            if needs not in moved:
                moved[needs] = tuple(
                    Need(port._replace(bank=banks.get(port[:2], port.bank)), first, stop)
                    for port, first, stop in needs
                )
        stretches = [Stretch(s.first, s.stop, moved[s.needs]) for s in self._stretches]
        return Timeline(stretches, self.slots)

    def at(self, slot: int) -> tuple[Needs, int]:
        """Return the needs in a slot and the slot from which they may differ."""
        place = bisect_right(self._starts, slot) - 1
        if place >= 0 and slot < self._stretches[place].stop:
            return self._stretches[place].needs, self._stretches[place].stop
        following = place + 1
        if following < len(self._starts):
            return (), self._starts[following]
        return (), self.slots

    def __iter__(self) -> Iterator[Stretch]:
        return iter(self._stretches)


def group_stretches(
    access: Access, group: int, bank_bytes: int, direction: str, shift: int = 0
) -> list[Stretch]:
    """Return stretches for elements read or written `group` at a time, from slot `shift` on."""
    if access.buffer is Buffer.DRAM:
        return []
    size = access.element_bytes
    bank = access.bank(bank_bytes)
    if bank is not None:
        slots = -(-access.elements // group)
        return [Stretch(shift, shift + slots, needs(access, (bank,), direction))]
    table = _touched(access.offsets() * size, size, group, bank_bytes)
    edges = np.flatnonzero((table[1:] != table[:-1]).any(axis=1)) + 1
    return [
        Stretch(a + shift, b + shift, needs(access, sorted(set(table[a].tolist())), direction))
        for a, b in pairwise([0, *edges.tolist(), len(table)])
    ]


def _touched(
    offsets: npt.NDArray[np.int64], size: int, group: int, bank_bytes: int
) -> npt.NDArray[np.int64]:
    """Return [slots, 2 * group]: the bank of each element's first and last byte, in order."""
    slots = -(-len(offsets) // group)
    padded = np.full(slots * group, offsets[-1], np.int64)
    padded[: len(offsets)] = offsets
    ends = np.stack([padded, padded + size - 1], axis=1) // bank_bytes
    return ends.reshape(slots, 2 * group)


def in_bank(access: Access, bank_bytes: int) -> Hashable:
    """Return an access with its bank instead of its first byte, if all of it lies in one.

    Where in a bank an access begins makes no difference to the ports that it needs, or when.
    """
    bank = access.bank(bank_bytes)
    if bank is None:
        return access
    partition, partitions = access.partition, access.partitions
    return access.buffer, bank, partition, partitions, access.dtype, access.pattern


def needs(access: Access, banks: Iterable[int], direction: str) -> Needs:
    """Return the needs of an access to these banks."""
    stop = access.partition + access.partitions
    return tuple(need_of(access.buffer, bank, direction, access.partition, stop) for bank in banks)


@lru_cache(maxsize=4096)
def need_of(buffer: Buffer, bank: int, direction: str, first: int, stop: int) -> Need:
    """Return what a port is wanted for: partitions first <= p < stop of one bank."""
    return Need(Port(buffer.value, bank, direction), first, stop)


def exclusive_needs(chip: Chip, engine: str, buffer: Buffer) -> Needs:
    """Return what an engine needs besides ports to use a buffer: to be alone of those it excludes.

    It is wanted for no partition, so that instructions of one engine never meet at it.
    """
    return tuple(
        Need(Port(buffer.value, NO_BANK - number, EXCLUSIVE), 0, 0)
        for number, exclusion in enumerate(chip.exclusions)
        if engine in exclusion.engines and exclusion.buffer == buffer.value
    )


def beside(stretches: list[Stretch], needs: Needs) -> list[Stretch]:
    """Return stretches that have other needs as well, before their own."""
    if not needs:
        return stretches
    return [Stretch(s.first, s.stop, (*needs, *s.needs)) for s in stretches]


@lru_cache(maxsize=4096)
def steady(needs: Needs, slots: int) -> Timeline:
    """Return the timeline with the same needs in every slot."""
    return Timeline([Stretch(0, slots, needs)], slots)


def merge(left: list[Stretch], right: list[Stretch], slots: int) -> Timeline:
    """Return the timeline in which both lists of stretches apply, `left`'s needs first."""
    return Timeline(merged(left, right, slots), slots)


def merged(left: list[Stretch], right: list[Stretch], slots: int) -> list[Stretch]:
    """Return the stretches of `merge`."""
    if not right:
        return left
    if left and left[-1].stop <= right[0].first:
        return [*left, *right]
    found: list[Stretch] = []
    mine, theirs = _without_gaps(left, slots), _without_gaps(right, slots)
    slot = until = stop = 0
    while slot < slots:
        if until <= slot:
            _, until, ours = next(mine)
        if stop <= slot:
            _, stop, others = next(theirs)
        last = until if until < stop else stop
        found.append(Stretch(slot, last, ours + others))
        slot = last
    return found


def _without_gaps(stretches: list[Stretch], slots: int) -> Iterator[Stretch]:
    """Yield stretches that follow one another, and what lies between them, to the last slot."""
    slot = 0
    for stretch in stretches:
        if stretch.first > slot:
            yield Stretch(slot, stretch.first, ())
        yield stretch
        slot = stretch.stop
    if slot < slots:
        yield Stretch(slot, slots, ())


def with_scales(data: list[Stretch], scales: list[Stretch], slots: int) -> list[Stretch]:
    """Return what data and the scales that go with them need: of one bank, a port once."""
    return [Stretch(s.first, s.stop, _once(s.needs)) for s in merged(data, scales, slots)]


def _once(needs: Needs) -> Needs:
    """Return the first need of each port."""
    found: dict[Port, Need] = {}
    for need in needs:
        found.setdefault(need.port, need)
    return tuple(found.values())
