"""The copies of a chip of several cores: their ends, their pieces, and what each piece holds.

Twin of `register.chip.runs` and `register.chip.shares`, written apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from systolic.arrays import Integers
from systolic.hw.spec import Chip, Dma, MultiCoreChip
from systolic.hw.spec.places import ChipPlace, controller, place_of
from systolic.isa import Access, Buffer, DmaCopy, DmaMove
from systolic.isa.legality.chip_program import copy_ends
from systolic.machine.event.chip.bursts import BankedControllers, BurstPiece, burst_piece
from systolic.machine.event.chip.ports import base_of, core_of
from systolic.machine.event.chip.rates import WayRate, WireBeats, beats_of
from systolic.machine.event.dma.costs import working_cycles
from systolic.machine.event.dma.descriptors import (
    BundleGroup,
    cut_runs,
    descriptor_groups,
    spread_order,
)
from systolic.machine.event.dma.ends import READ, READ_AND_WRITE, WRITE, CopyEnd, CopyEnds, end_of
from systolic.machine.event.dma.needs import group_needs
from systolic.machine.event.dma.pace import ALWAYS, BestRate, HeldShares
from systolic.machine.event.dma.plan import CopyPlan
from systolic.machine.event.ports.ports import Need, Needs
from systolic.machine.event.ports.stream import Holding, ShareOfBytes

MORE_THAN_ANY = 1 << 40
"""Bytes that no bursts move in a cycle."""
ENGINE = ".dma engine "
"""In the name of the bandwidth of a DMA engine, behind the place that feeds it."""


class ControllerMap:
    """Which controller has which address, of a chip with several."""

    def __init__(self, chip: MultiCoreChip) -> None:
        self._block, self._many = chip.block_bytes, len(chip.controller_drams)
        self._ranges = chip.ranges
        if self._ranges is not None:
            order = sorted(range(len(self._ranges)), key=self._ranges.__getitem__)
            self._order = np.array(order, np.int64)
            self._stops = np.array([self._ranges[n][1] for n in order], np.int64)

    def controllers(self, addresses: Integers) -> Integers:
        """Return the controllers of addresses, int64."""
        if self._ranges is None:
            found: Integers = addresses // self._block % self._many
            return found
        return self._order[np.searchsorted(self._stops, addresses, side="right")]

    def stop_of(self, address: int) -> int:
        """Return the first address behind this one that is another controller's."""
        if self._ranges is None:
            return (address // self._block + 1) * self._block
        return int(self._stops[np.searchsorted(self._stops, address, side="right")])

    def number(self, addresses: list[Integers], many: int) -> Integers:
        """Return a number for the controllers of each descriptor: digits, one for each end."""
        found = np.zeros(many, np.int64)
        for each in addresses:
            found = found * self._many + self.controllers(each)
        return found

    def digits(self, home: int, ends: int) -> list[int]:
        """Return the controllers that a number stands for, one for each end in DRAM."""
        found = []
        for _ in range(ends):
            home, digit = divmod(home, self._many)
            found.append(digit)
        return found[::-1]


class PiecePlan(CopyPlan):
    """The bundles of one piece of a copy, and what it holds while it moves."""

    def __init__(
        self,
        copy: DmaCopy,
        ends: CopyEnds,
        dma: Dma,
        groups: list[BundleGroup],
        holdings: tuple[Holding, ...],
    ) -> None:
        self.knows_course = all(_are_ports_apart(ends, group) for group in groups)
        if not self.knows_course:  # then each bundle has ports of its own, and no course
            groups = [single for group in groups for single in _singles(group)]
        self._set(copy, ends, dma, groups, times=1, order=None)
        self.holdings = holdings
        self.has_course = self.has_course and self.knows_course

    def once(self, needs: Needs) -> Needs:
        """Return needs of a cycle, each port of a partition once."""
        if self.knows_course:
            return needs
        return _apart([n if self.has_own_port(n) else Need(n.port, 0, 1) for n in needs])

    def has_own_port(self, need: Need) -> bool:
        """Return whether each partition has a port of its own where this one is needed."""
        core = core_of(need.port.bank)
        return any(end.is_split for end in self.ends if core_of(end.base) == core)


def _are_ports_apart(ends: CopyEnds, group: BundleGroup) -> bool:
    """Return whether no two ends read, or write, through one port."""
    ports = [need.port for _, need in group_needs(ends, group)]
    return len(set(ports)) == len(ports)


def _singles(group: BundleGroup) -> list[BundleGroup]:
    """Return the bundles of a group, each as a group of its own."""
    return [
        replace(group, count=1, partitions=group.partitions[:, n : n + 1])
        for n in range(group.count)
    ]


def _apart(needs: list[Need]) -> Needs:
    """Return needs without partitions that an earlier one has of the same port."""
    found = list[Need]()
    for need in sorted(needs):
        last = found[-1] if found else None
        if last is not None and last.port == need.port and need.first < last.stop:
            found[-1] = Need(last.port, last.first, max(last.stop, need.stop))
        else:
            found.append(need)
    return tuple(found)


@dataclass(frozen=True)
class WholePlan:
    """A copy of a chip: its pieces in the order in which they move, and its latency.

    order: of the descriptors as they move, [descriptors]; None if it is the copy's own.
    """

    pieces: list[PiecePlan | BurstPiece]
    latency_cycles: int
    order: Integers | None


class Ways:
    """What the queues of one place hold, and where their copies go.

    place: the core or processor that feeds the queues. chip: its units, as a chip of one core.
    """

    def __init__(self, chip: MultiCoreChip, place: ChipPlace, own: Chip) -> None:
        self._chip, self._place, self._own = chip, place, own
        self._dma = own.dma
        self._period = own.period("dma")
        self._drams = chip.controller_drams
        self._map = ControllerMap(chip) if len(self._drams) > 1 else None
        self._banked = BankedControllers.of(chip)
        self._beats = beats_of(self._period, chip.interconnect_period)
        self._wires = chip.interconnect.bytes_per_cycle if chip.interconnect else 0

    @property
    def beats(self) -> WireBeats:
        """Return how many cycles of the interconnect begin in the cycles of the queues."""
        return self._beats

    def likeness(self, copy: DmaCopy, queue: int) -> Hashable:
        """Return all of a copy on which its plan depends."""
        return copy_key(copy), queue % self._dma.engine_count

    def plan(self, copy: DmaCopy, queue: int) -> WholePlan:
        """Return the plan of a copy of a queue, by its number among the queues of the place."""
        ends = self._ends(copy)
        groups = descriptor_groups(copy, ends, self._dma, self._map)
        order = None
        if self._dma.is_spread:
            order = spread_order(copy, ends, self._dma, self._map)
        cuts = cut_runs(copy, ends, self._map) if self._banked is not None else []
        pieces, hops = list[PiecePlan | BurstPiece](), 0
        touched = set[int]()
        for number, (home, of_home) in enumerate(groupby(groups, key=lambda group: group.home)):
            places = self._places(copy, ends, home)
            touched |= {place.number for place in places if place.kind == "controller"}
            held, far = self._held(copy, places)
            hops = max(hops, far)
            engines = self._engines(copy, queue)
            holdings = (*engines, *held)
            if self._banked is not None and any(map(self._banked.has, places)):
                banked, cut = self._banked, cuts[number]
                pieces.append(
                    burst_piece(
                        copy, ends, places, cut, dma=self._dma, banked=banked, holdings=holdings
                    )
                )
            else:
                pieces.append(PiecePlan(copy, ends, self._dma, list(of_home), holdings))
        latency = self._dma.latency_cycles
        latency += max([self._drams[number].latency_cycles for number in touched], default=0)
        latency += -(-hops * self._chip.copy_hop_ticks // self._period)
        return WholePlan(pieces, latency, order)

    def _ends(self, copy: DmaCopy) -> CopyEnds:
        accumulates = isinstance(copy, DmaMove) and copy.accumulate
        directions = [READ, READ_AND_WRITE if accumulates else WRITE, WRITE]
        return tuple(
            [
                self._end(at, access, which)
                for (_, at, access), which in zip(copy_ends(copy), directions, strict=False)
            ]
        )

    def _end(self, at: str, access: Access, directions: tuple[str, ...]) -> CopyEnd:
        if access.buffer is Buffer.DRAM:
            return end_of(access, self._own, directions)._replace(is_mapped=not _is_code(at))
        place = place_of(at) or self._place
        chip = self._chip.core_chips[place.number]
        return end_of(access, chip, directions, base_of(place.number))

    def _places(self, copy: DmaCopy, ends: CopyEnds, home: int) -> list[ChipPlace]:
        """Return where a piece of a copy begins and ends: cores, or the controllers of it."""
        named = copy_ends(copy)
        every = sum([end.is_mapped for end in ends])
        numbers = iter(self._map.digits(home, every) if self._map else [0] * every)
        found = list[ChipPlace]()
        for end, (_, at, _) in zip(ends, named, strict=True):
            if end.is_mapped:
                found.append(controller(next(numbers)))
            else:
                found.append(place_of(at.removesuffix(".code")) or self._place)
        return found

    def _held(self, copy: DmaCopy, places: list[ChipPlace]) -> tuple[list[Holding], int]:
        """Return the shares of controllers and pools of a piece, and its hops."""
        accumulates = isinstance(copy, DmaMove) and copy.accumulate
        shares, pools, hops = Counter[str](), dict[str, int](), 0
        for number, place in enumerate(places):
            if place.kind == "controller" and self._drams[place.number].organisation is None:
                shares[str(place)] += 2 if number == 1 and accumulates else 1
        for number, place in enumerate(places[1:], 1):
            way = self._chip.way(places[0], place)
            assert way is not None, "the program is legal"
            hops = max(hops, way.hops)
            for pool in way.pools:
                pools[pool] = max(pools.get(pool, 0), 1)
            if accumulates and number == 1 and way.pools:
                pools[way.pools[-1]] = 2
        return [*_holdings(shares), *_holdings(pools)], hops

    def _engines(self, copy: DmaCopy, queue: int) -> list[Holding]:
        if self._dma.queues_per_engine == 1:
            return []
        name = f"{self._place}{ENGINE}"
        return [Holding(f"{name}{engine}", 1) for engine in self._serving(copy, queue)]

    def _serving(self, copy: DmaCopy, queue: int) -> list[int]:
        """Return the DMA engines that serve a copy, in order."""
        dma = self._dma
        if not dma.is_spread:
            return [queue % dma.engine_count]
        for access in (copy.target, copy.source):
            if access.buffer is not Buffer.DRAM:
                lanes = range(access.partition, access.partition + access.partitions)
                return sorted({dma.engine_of(partition) for partition in lanes})
        return list(range(dma.engine_count))

    def rate(
        self, copy: DmaCopy, holdings: tuple[Holding, ...], shares: tuple[ShareOfBytes, ...]
    ) -> WayRate:
        """Return the rate that shares, in the order of the holdings, allow."""
        own = HeldShares(self._dma.bytes_per_cycle)
        for (pool, _), share in zip(holdings, shares, strict=True):
            if ENGINE in pool and share.of > own.shares:
                own = HeldShares(self._dma.bytes_per_cycle, *share)
        return self._rate(own, holdings, shares, working_cycles(self._own, copy))

    def _rate(
        self,
        own: HeldShares,
        holdings: tuple[Holding, ...],
        shares: tuple[ShareOfBytes, ...],
        working: tuple[int, int] = ALWAYS,
    ) -> WayRate:
        drams, most = list[HeldShares](), 0
        for (pool, _), share in zip(holdings, shares, strict=True):
            if pool in self.controllers:
                total = self._drams[self.controllers[pool]].bytes_per_cycle
                drams.append(HeldShares(total, *share))
            elif ENGINE not in pool:
                most = max(most, share.of)
        wires = self._wires // most if most else 0
        beats = self._beats if most else (1,)
        return WayRate(own, tuple(drams), wires, beats, working)

    def burst_pace(
        self, holdings: tuple[Holding, ...], shares: tuple[ShareOfBytes, ...]
    ) -> tuple[int, ...]:
        """Return the bytes that shares let bursts move in cycles 0, 1, ...; empty: any number."""
        rate = self._rate(HeldShares(MORE_THAN_ANY), holdings, shares)
        return rate.amounts() if rate.drams or rate.wires else ()

    @property
    def controllers(self) -> dict[str, int]:
        """Return the numbers of the controllers by their names."""
        return _controllers(len(self._drams))

    def best(self, copy: DmaCopy, holdings: tuple[Holding, ...]) -> BestRate:
        """Return a rate that a piece with these holdings never exceeds."""
        limits = list[int]()
        for pool, held in holdings:
            if pool in self.controllers:
                total = self._drams[self.controllers[pool]].bytes_per_cycle
                limits.append(-(-total // held))
            elif ENGINE not in pool:
                limits.append(self._wires // held * max(self._beats))
        most = min(limits) if limits else 0
        own, held = self._dma.bytes_per_cycle, 1 if most else 0
        return BestRate(own, most, held, working_cycles(self._own, copy))


def _is_code(at: str) -> bool:
    return at.endswith(".code")


def _holdings(held: dict[str, int]) -> list[Holding]:
    return [Holding(pool, shares) for pool, shares in held.items()]


_NAMES: dict[int, dict[str, int]] = {}


def _controllers(many: int) -> dict[str, int]:
    if many not in _NAMES:
        _NAMES[many] = {str(controller(number)): number for number in range(many)}
    return _NAMES[many]


def copy_key(copy: DmaCopy) -> Hashable:
    """Return a copy without what it waits for and posts."""
    if isinstance(copy, DmaMove):
        places = copy.source_at, copy.target_at, copy.duplicate_at
        return type(copy), copy.source, copy.target, places, copy.accumulate, copy.duplicate
    return type(copy), copy.source, copy.target
