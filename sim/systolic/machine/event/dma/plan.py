"""What a copy moves, bundle by bundle, and through which ports: the same for all that are alike.

A program has few kinds of copies, so what follows from the kind alone is found once. Not here:
when a copy moves what it moves.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from systolic.arrays import Integers
from systolic.hw.spec import Chip, Dma
from systolic.isa import Access, Buffer, DmaCopy, DmaTranspose
from systolic.isa.access import Pattern
from systolic.machine.event.dma.descriptors import BundleGroup, descriptor_groups, spread_order
from systolic.machine.event.dma.ends import CopyEnds, bank_bytes, ends_of
from systolic.machine.event.dma.needs import (
    all_needs,
    bank_edge,
    descriptor_needs,
    edges_of_lanes,
    group_needs,
)
from systolic.machine.event.dma.pace import BytePace, CopyRate, PacedDescriptor
from systolic.machine.event.ports.course import (
    EVERY_PARTITION,
    FIRST,
    HIGH,
    LOW,
    PORT,
    STOP,
    Course,
    PortUses,
    Use,
    UseTable,
)
from systolic.machine.event.ports.ports import Need, Needs, hull, in_bank, mask_of, number_of

MOST_KEPT = 512
"""The course of a copy of more bundles is not kept, but found whenever it is asked for."""


def dram_ends(copy: DmaCopy) -> int:
    """Return how many of a copy's two ends lie in DRAM."""
    return (copy.source.buffer, copy.target.buffer).count(Buffer.DRAM)


def likeness(copy: DmaCopy, chip: Chip) -> Hashable:
    """Return all of a copy on which its plan depends on a chip."""
    return type(copy), _in_bank(copy.source, chip), _in_bank(copy.target, chip)


def _in_bank(access: Access, chip: Chip) -> Hashable:
    """Return an access without its first byte, where that makes no difference to its ports.

    In DRAM it makes none how far apart elements lie that do not follow one another.
    """
    if access.buffer is Buffer.DRAM:
        return access.partitions, access.dtype, _joints(access.pattern)
    return in_bank(access, bank_bytes(access, chip))


@lru_cache(maxsize=4096)
def _joints(pattern: Pattern) -> tuple[tuple[bool, int], ...]:
    """Return of each pair, the last first, whether what it repeats follows itself, and how often.

    A run ends where it does not.
    """
    found, reach = list[tuple[bool, int]](), 0
    for step, count in reversed(pattern):
        if count > 1:
            found.append((step - reach == 1, count))
            reach += step * (count - 1)
    return tuple(found)


class GroupPorts(NamedTuple):
    """The ports of the bundles of a group, int64.

    low and high: partitions low <= p < high, [bundles, ports]; number: of the ports, [ports].
    """

    low: Integers
    high: Integers
    number: Integers


class PlannedCourse(NamedTuple):
    """When the bundles of a copy use which ports at steady paces, if nothing is refused.

    Its times are in ticks, the first bundle begins in tick 0. begins: of each bundle, and behind
    the last. groups: the number of the first bundle of each group, and behind the last.
    """

    begins: list[int]
    groups: list[int]
    course: Course


class CopyPlan:
    """The bundles of a copy, and of all that are alike.

    copy: one of them; where in its banks it lies may differ from where others do.
    engines: by group, how many DMA engines move a bundle. pieces: by group, what a bundle costs.
    order: of the descriptors as they are moved, [descriptors]; None if it is the copy's own.
    has_course: its course at paces that never vary is kept (`course`).
    rates: what a copy moves at, and its paces, by the shares of bandwidths that it holds; the
    streams keep them.
    """

    def __init__(self, copy: DmaCopy, chip: Chip) -> None:
        ends, many = ends_of(copy, chip), dram_ends(copy)
        groups = descriptor_groups(copy, ends, chip.dma)
        times = many if many > 1 and chip.dram.organisation is None else 1
        order = spread_order(copy, ends, chip.dma) if chip.dma.is_spread else None
        self._set(copy, ends, chip.dma, groups, times=times, order=order)

    def _set(
        self,
        copy: DmaCopy,
        ends: CopyEnds,
        dma: Dma,
        groups: list[BundleGroup],
        *,
        times: int,
        order: Integers | None,
    ) -> None:
        """Take over what the plan is made of. times: how often each byte counts."""
        self.copy, self.ends, self.groups, self.times = copy, ends, groups, times
        self.order = order
        self.reach = hull(all_needs(ends, self.groups))
        self.mask = mask_of(self.reach)
        is_spread = dma.is_spread
        # Within DRAM all engines share every descriptor.
        in_dram = dram_ends(copy) > 1
        rows = [dma.engine_count if in_dram else group.rows for group in self.groups]
        self.engines = rows if is_spread else [1] * len(rows)
        self.uses_results = any(end.access.buffer is Buffer.RESULT for end in ends)
        widths = [end.width for end in ends if end.width is not None]
        self._width = min(widths) if widths else None
        self.is_split = any(end.is_split for end in ends)
        self.pieces = [
            PacedDescriptor(
                dma.descriptor_cycles * (1 if is_spread else group.rows),
                group.size_bytes * group.rows * self.times,
                dma.descriptor_cost == "max",
            )
            for group in self.groups
        ]
        self.rates: dict[Hashable, tuple[CopyRate, tuple[BytePace, ...]]] = {}
        self._rest: dict[CopyRate, dict[tuple[int, int], int]] = {}
        self._paces: dict[CopyRate, tuple[BytePace, ...]] = {}
        self._needs: dict[tuple[int, int], Needs] = {}
        self._ports: dict[int, GroupPorts] = {}
        self._courses: dict[tuple[tuple[BytePace, ...], int], PlannedCourse] = {}
        self._lane_edges: list[list[int]] | None = None
        bundles = sum(group.count for group in self.groups)
        self.has_course = bundles <= MOST_KEPT and all(group.one_bank for group in self.groups)

    @property
    def sizes(self) -> Integers:
        """Return the bytes of each descriptor, int64, in the order of the copy."""
        sizes = np.array([g.size_bytes for g in self.groups])
        return self.in_order(np.repeat(sizes, [g.count * g.rows for g in self.groups]))

    def in_order(self, moved: Integers) -> Integers:
        """Return numbers of the descriptors as they were moved in the order of the copy."""
        if self.order is None:
            return moved
        found = np.empty_like(moved)
        found[self.order] = moved
        return found

    def once(self, needs: Needs) -> Needs:
        """Return needs of a cycle, each port once."""
        return needs

    def has_own_port(self, need: Need) -> bool:
        """Return whether each partition has a port of its own where this one is needed."""
        return self.is_split

    def paces(self, rate: CopyRate) -> tuple[BytePace, ...]:
        """Return the paces of all groups at a rate: the same object for rates that differ in none.

        The pace of a group's bundles is what their ports let pass.
        """
        found = self._paces.get(rate)
        if found is None:
            width = self._width
            paces = tuple(rate.pace(engines) for engines in self.engines)
            if width is not None:
                limits = (width * group.rows for group in self.groups)
                paces = tuple(map(BytePace.at_most, paces, limits))
            found = next((same for same in self._paces.values() if same == paces), paces)
            self._paces[rate] = found
        return found

    def cycles_from(self, place: int, rate: CopyRate, cycle: int) -> int:
        """Return the cycles of all groups from `place` on at a rate, the first begun in `cycle`."""
        if place == len(self.groups):  # as where all bundles are alike
            return 0
        known, paces = self._rest.setdefault(rate, {}), self.paces(rate)
        path: list[tuple[tuple[int, int], int]] = []
        phase, rest = cycle % rate.phases, 0
        while place < len(self.groups):
            key = place, phase
            if key in known:
                rest = known[key]
                break
            orbit = paces[place].orbit(self.pieces[place], phase)
            cost = orbit.cycles(self.groups[place].count)
            path.append((key, cost))
            place, phase = place + 1, (phase + cost) % rate.phases
        for key, cost in reversed(path):
            rest += cost
            known[key] = rest
        return rest

    def needs(self, place: int, index: int) -> Needs:
        """Return the ports of a bundle of a group, all of whose bytes lie in one bank."""
        found = self._needs.get((place, index))
        if found is None:
            found = descriptor_needs(self.copy, self.ends, self.groups[place], index)
            self._needs[place, index] = found
        return found

    def ports(self, place: int) -> GroupPorts:
        """Return the ports of the bundles of a group, each bundle in one bank."""
        found = self._ports.get(place)
        if found is None:
            found = self._ports[place] = self._find_ports(place)
        return found

    def course(self, paces: tuple[BytePace, ...], period: int) -> PlannedCourse:
        """Return when its bundles, each in one bank, use ports at paces that never vary.

        paces: of all groups. period: ticks of a cycle.
        """
        found = self._courses.get((paces, period))
        if found is None:
            found = self._courses[paces, period] = self._make_course(paces, period)
        return found

    def _make_course(self, paces: tuple[BytePace, ...], period: int) -> PlannedCourse:
        begins, groups, ports = [0], [0], dict[int, tuple[list[int], ...]]()
        for place, (group, piece) in enumerate(zip(self.groups, self.pieces, strict=True)):
            ends = paces[place].orbit(piece, 0).ends(group.count) * period + begins[-1]
            fetch = 0 if piece.overlaps else piece.fetch * period
            first, stop = (ends[:-1] + fetch).tolist(), ends[1:].tolist()
            lows, highs, numbers = self.ports(place)
            for column, number in enumerate(numbers.tolist()):  # a side each, so no port twice
                uses = ports.setdefault(number, ([], [], [], []))
                low, high = lows[:, column].tolist(), highs[:, column].tolist()
                for kept, added in zip(uses, (first, stop, low, high), strict=True):
                    kept += added
            begins += stop
            groups.append(groups[-1] + group.count)
        uses_of = {number: PortUses(number, *columns) for number, columns in ports.items()}
        return PlannedCourse(begins, groups, Course(uses_of))

    def cycles_in_banks(self, group: BundleGroup, cycle: int, moved: int, pace: BytePace) -> int:
        """Return for how many cycles from `cycle` on a bundle's bytes move in the same banks.

        moved: bytes before. A cycle whose bytes lie on both sides of an edge is by itself; so it
        takes one cycle in which bytes move at least.
        """
        left = group.size_bytes * group.rows * self.times - moved
        within = left if group.one_bank else bank_edge(self.ends, group, moved) - moved
        if left <= within:
            return pace.cycles(cycle, left)
        return max(pace.cycles(cycle, 1), pace.cycles(cycle, within + 1) - 1)

    def uses_over_banks(
        self, place: int, pace: BytePace, cycle: int, moved: int, period: int
    ) -> Iterator[Use]:
        """Yield when the one bundle of a group uses which bank, its bytes moving from `cycle` on.

        moved: bytes before. period: ticks of a cycle.
        """
        group = self.groups[place]
        while moved < self.pieces[place].size:
            spent = self.cycles_in_banks(group, cycle, moved, pace)
            stop = min(moved + pace.moved(cycle, spent), self.pieces[place].size)
            for need in descriptor_needs(self.copy, self.ends, group, 0, first=moved, stop=stop):
                yield Use(need, cycle * period, (cycle + spent) * period)
            cycle, moved = cycle + spent, stop

    def table_of(self, place: int, index: int, first: Integers, stop: Integers) -> UseTable:
        """Return the use of ports by bundles that move from `first` to `stop`, in any unit of time.

        The bundles belong to a group, and are numbered from `index` on.
        """
        low, high, ports = self.ports(place)
        bundles = slice(index, index + len(first))
        found = np.empty((5, len(first), len(ports)), np.int64)
        found[FIRST], found[STOP] = first[:, None], stop[:, None]
        found[PORT], found[LOW], found[HIGH] = ports, low[bundles], high[bundles]
        return found.reshape(5, -1)

    def _find_ports(self, place: int) -> GroupPorts:
        group = self.groups[place]
        sides = group_needs(self.ends, group)
        shape = group.count, len(sides)
        low = np.zeros(shape, np.int64)
        many = np.full(shape, EVERY_PARTITION, np.int64)
        for column, (side, need) in enumerate(sides):
            if need.port.buffer != Buffer.RESULT:  # whose ports serve all partitions
                low[:, column] = group.partitions[side]
                many[:, column] = self._partitions(side, group)
        numbers = np.array([number_of(need.port) for _, need in sides], np.int64)
        return GroupPorts(low, low + many, numbers)

    def _partitions(self, side: int, group: BundleGroup) -> int:
        """Return in how many partitions of an end a bundle moves, from the lowest on."""
        is_turned = isinstance(self.copy, DmaTranspose) and side == 0
        return self.copy.source.partitions if is_turned else group.rows

    @property
    def lane_edges(self) -> list[list[int]]:
        """Return by group where the partitions of its bundles change, and its end."""
        if self._lane_edges is None:
            self._lane_edges = [edges_of_lanes(group) for group in self.groups]
        return self._lane_edges
