"""Twin of `register.chip.bursts`: pieces of copies that lie in DRAM with channels and banks.

Bursts that move through the ports of one end settle these in `Channels`, as on a chip of one core.
For copies with ports at several ends, or that add to what is there, the arbiter decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from systolic.arrays import Integers
from systolic.hw.spec import Dma, Dram, MultiCoreChip
from systolic.hw.spec.places import ChipPlace
from systolic.isa import Buffer, DmaCopy, DmaMove
from systolic.machine.event.chip.ports import core_of
from systolic.machine.event.dma.bursts import READS, WRITES, BurstPlan, BurstStream
from systolic.machine.event.dma.descriptors import CutRuns, Runs
from systolic.machine.event.dma.ends import READ, WRITE, CopyEnd, CopyEnds
from systolic.machine.event.dram.channels import Channels
from systolic.machine.event.dram.near import Near, NearBanks
from systolic.machine.event.ports.beats import Beats, stretch
from systolic.machine.event.ports.ports import Need, Needs, Port, Stretch, mask_of, need_of
from systolic.machine.event.ports.stream import Asker, Holding, ShareOfBytes
from systolic.machine.event.ticks import TickEnvironment
from systolic.spans import Interval

NO_LANES = Interval(0, 1)
PaceOf = Callable[[tuple[Holding, ...], tuple[ShareOfBytes, ...]], tuple[int, ...]]
"""Gives the bytes that shares of these holdings allow in cycles 0, 1, ...; empty: any number."""


class BankedControllers:
    """The controllers of a chip whose DRAM has channels and banks, all alike.

    Addresses are numbered through over them, as their channels are.
    """

    def __init__(self, chip: MultiCoreChip) -> None:
        drams = chip.controller_drams
        self.numbers = [n for n, dram in enumerate(drams) if dram.organisation is not None]
        self.dram: Dram = drams[self.numbers[0]]
        self.banks = NearBanks(chip.core_chips)
        self._ranges, self._block, self._many = chip.ranges, chip.block_bytes, len(drams)

    @classmethod
    def of(cls, chip: MultiCoreChip) -> BankedControllers | None:
        """Return the controllers of a chip with such DRAM, if it has some."""
        if any(dram.organisation is not None for dram in chip.controller_drams):
            return cls(chip)
        return None

    def has(self, place: ChipPlace) -> bool:
        """Return whether a place is such a controller."""
        return place.kind == "controller" and place.number in self.numbers

    def addresses(self, bytes_: Integers, controller: int) -> Integers:
        """Return where bytes of a controller lie in the DRAM of all of them, int64."""
        if self._ranges is not None:
            inside = bytes_ - self._ranges[controller][0]
        else:
            rounds = bytes_ // (self._block * self._many)
            inside = rounds * self._block + bytes_ % self._block
        return self.numbers.index(controller) * self.dram.size_bytes + inside


@dataclass(frozen=True, eq=False)
class NearEnd:
    """An end on a core that the arbiter gives ports: where each descriptor begins, int64."""

    end: CopyEnd
    starts: Integers
    partitions: Integers


@dataclass(frozen=True, eq=False)
class BurstPiece:
    """A piece of a copy that moves in bursts.

    lanes: partitions of the end whose ports bursts settle. ends: if there are several, or one is
    added to: those on cores.
    """

    plan: BurstPlan
    holdings: tuple[Holding, ...]
    lanes: Interval
    ends: tuple[NearEnd, ...]


def burst_piece(
    copy: DmaCopy,
    ends: CopyEnds,
    places: Sequence[ChipPlace],
    cut: CutRuns,
    *,
    dma: Dma,
    banked: BankedControllers,
    holdings: tuple[Holding, ...],
) -> BurstPiece:
    """Return the piece of a copy between these places; one of them has banks.

    dma: of the queue.
    """
    within = [n for n, place in enumerate(places) if banked.has(place)]
    far = {n: banked.addresses(cut.starts[n], places[n].number) for n in within}
    near = [n for n, end in enumerate(ends) if not end.is_dram]
    adds = isinstance(copy, DmaMove) and copy.accumulate
    lead = within[0]
    opposite = WRITE if lead == 0 else READ
    is_simple = len(within) == 1 and [ends[n].directions for n in near] == [opposite]
    sides = READS | WRITES if len(within) > 1 else WRITES if lead else READS
    own = near[0] if is_simple else None
    zeros = np.zeros_like(cut.lengths)
    starts = zeros if own is None else cut.starts[own]
    lanes = np.stack([zeros, zeros] if own is None else [cut.partitions[own]] * 2)
    source = far[lead] if lead == 0 else starts
    target = far[within[-1]] if sides & WRITES else starts
    shape = _near(
        ends, own, dma, banked, adds_there=adds and 1 in within, alone=len(ends) > 2 or adds
    )
    mine = None if own is None else ends[own]
    plan = BurstPlan(
        Runs(source, target, cut.lengths, lanes),
        sides,
        shape,
        Buffer.STATE if mine is None else mine.access.buffer,
        0 if mine is None else mine.base,
        "write" if sides == READS else "read",
    )
    others = () if is_simple else near
    return BurstPiece(
        plan,
        holdings,
        NO_LANES if mine is None else mine.access.lanes,
        tuple([NearEnd(ends[n], cut.starts[n], cut.partitions[n]) for n in others]),
    )


def _near(
    ends: CopyEnds,
    own: int | None,
    dma: Dma,
    banked: BankedControllers,
    *,
    adds_there: bool,
    alone: bool,
) -> Near:
    """Return how bursts move; own: the end whose ports they settle among themselves."""
    parts = banked.dram.organisation
    assert parts is not None
    passing = [end.width for end in ends if end.width is not None]
    width = min(banked.dram.bytes_per_cycle // parts.channels, dma.queue_bytes_per_cycle, *passing)
    at_once = 1 if alone else max(1, dma.queue_bytes_per_cycle // width)
    if adds_there:
        width = max(1, width // 2)
    first_bank, bank_bytes, port_bytes, lanes = 0, 1, 0, 1
    if own is not None:
        core = core_of(ends[own].base)
        first_bank = banked.banks.first(ends[own].access.buffer, core)
        bank_bytes, port_bytes = ends[own].bank_bytes, ends[own].width or 0
        lanes = banked.banks.lanes_of(core)
    return Near(
        width=width,
        cycles=-(-parts.burst_bytes // width),
        at_once=at_once,
        has_ports=int(own is not None),
        first_bank=first_bank,
        bank_bytes=bank_bytes,
        port_bytes=port_bytes,
        lanes=lanes,
        fetch_cycles=dma.descriptor_cycles,
        overlaps=int(dma.descriptor_cost == "max"),
    )


class PieceOfBursts(BurstStream):
    """Descriptors of a piece in bursts, which hold shares of pools and of other controllers."""

    def __init__(
        self,
        env: TickEnvironment,
        channels: Channels,
        piece: BurstPiece,
        asker: Asker,
        *,
        queue: int,
        pace: PaceOf,
    ) -> None:
        super().__init__(env, channels, piece.plan, piece.lanes, asker, queue=queue)
        self._pace_of = pace
        self._pace: tuple[int, ...] = ()

    def set_shares(self, shares: tuple[ShareOfBytes, ...]) -> bool:
        """Hold these shares from now on; return if what it may move changes."""
        pace = self._pace_of(self.holdings, shares)
        if pace == self._pace:
            return False
        self._pace = pace
        self._channels.set_pace(self._queue, pace, self._env.tick)
        return True


class ArbitratedBursts(PieceOfBursts):
    """Bursts of a copy, one at a time, whose ports at each end the arbiter gives."""

    needs_arbiter = True

    def __init__(
        self,
        env: TickEnvironment,
        channels: Channels,
        piece: BurstPiece,
        asker: Asker,
        *,
        queue: int,
        pace: PaceOf,
    ) -> None:
        super().__init__(env, channels, piece, asker, queue=queue, pace=pace)
        self._near = piece.ends
        self._reach = tuple(_reach(piece.ends, piece.plan.runs.length))
        self.mask = self.wide_mask = mask_of(self._reach)
        self._asked: Needs = ()
        self._in_use: Needs = ()
        self._of_results: list[tuple[Need, int, int]] = []

    def needs(self) -> tuple[Needs, int]:
        """Return the ports the next cycle needs, and for how many cycles at least."""
        quiet, burst = self._channels.quiet_cycles(), self._channels.lead_burst(self._queue)
        self._asked = ()
        if burst is None:
            return (), quiet
        first, *others = burst.bytes
        self._asked = self._needs_of_bytes(burst.descriptor, *first)
        same = 1
        for low, high in others[: quiet - 1]:
            if self._needs_of_bytes(burst.descriptor, low, high) != self._asked:
                break
            same += 1
        return self._asked, same

    def needs_in_progress(self) -> Needs:
        """Return the ports of the cycle granted last."""
        return self._in_use

    def patience(self) -> int | None:
        """Return for how many cycles, if held, it asks for the same: for this one."""
        return 1

    def _needs_of_bytes(self, descriptor: int, low: int, high: int) -> Needs:
        """Return the ports of bytes of a descriptor, at the source first."""
        if low >= high:
            return ()
        found = list[Need]()
        for near in self._near:
            end, start = near.end, int(near.starts[descriptor])
            lane = int(near.partitions[descriptor])
            banks = range((start + low) // end.bank_bytes, (start + high - 1) // end.bank_bytes + 1)
            found += _ports(end, banks, Interval(lane, lane + 1))
        return tuple(found)

    def _move(self, cycles: int) -> None:
        self._in_use = self._asked
        for need in self._once(self._asked):
            if need.port.buffer == Buffer.RESULT:
                stop = self.tick + cycles * self.period
                self._of_results.append((need, self.tick, stop))
            else:
                self.port_cycles[need.port] = self.port_cycles.get(need.port, 0) + cycles
        super()._move(cycles)

    def _once(self, needs: Needs) -> list[Need]:
        """Return needs of a cycle without a need for a port that another of them has too."""
        found: dict[tuple[Port, int], Need] = {}
        for need in needs:
            has_own = any(
                near.end.is_split
                for near in self._near
                if core_of(near.end.base) == core_of(need.port.bank)
            )
            found[need.port, need.first if has_own else 0] = need
        return list(found.values())

    def port_use(self, stretches: Iterable[Stretch] = ()) -> Iterator[tuple[Need, Beats]]:
        """Yield each port of the result buffer and when it was used."""
        for need, first, stop in self._of_results:
            yield need, stretch(first, stop)


def _reach(ends: Sequence[NearEnd], lengths: Integers) -> Iterator[Need]:
    """Yield each port that may be needed, for all partitions of its end."""
    for near in ends:
        first = near.starts // near.end.bank_bytes
        last = (near.starts + lengths - 1) // near.end.bank_bytes
        banks = range(int(first.min()), int(last.max()) + 1)
        yield from _ports(near.end, banks, near.end.access.lanes)


def _ports(end: CopyEnd, banks: Iterable[int], lanes: Interval) -> list[Need]:
    return [
        need_of(end.access.buffer, bank + end.base, direction, lanes.first, lanes.stop)
        for direction in end.directions
        for bank in banks
    ]
