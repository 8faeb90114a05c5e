"""Twin of `register.dma.bursts`: a copy of DRAM with channels and banks, as the arbiter sees it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from systolic.hw.spec import Chip
from systolic.isa import Buffer, DmaCopy
from systolic.machine.event.dma.descriptors import Runs, descriptor_runs
from systolic.machine.event.dma.ends import bank_bytes
from systolic.machine.event.dram.channels import BankRefusal, Banks, Channels
from systolic.machine.event.dram.near import Near, NearBanks
from systolic.machine.event.ports.ports import Need, Needs, Port, Timeline, mask_of
from systolic.machine.event.ports.stream import Asker, Granted, Lost, Refusal, Stream
from systolic.machine.event.ticks import TickEnvironment
from systolic.spans import Interval

READS, WRITES = 1, 2


class BurstPlan(NamedTuple):
    """What a copy moves in bursts, or a piece of one.

    runs: its descriptors, as `Channels.join` takes them. buffer, base, direction: of its ports on
    the chip, if bursts ask for them in `Channels`; base is added to the number of a bank.
    """

    runs: Runs
    sides: int
    near: Near
    buffer: Buffer
    base: int
    direction: str

    def reach(self, lanes: Interval) -> Needs:
        """Return each port that it may need; lanes: its partitions."""
        return tuple([self.need(bank, lanes) for bank in self._all_banks()])

    def need(self, bank: int, lanes: Interval) -> Need:
        """Return the port of a bank, for these partitions."""
        return Need(Port(self.buffer.value, bank + self.base, self.direction), *lanes)

    def _all_banks(self) -> list[int]:
        if not self.near.has_ports:
            return []
        runs, size = self.runs, self.near.bank_bytes
        base = runs.target if self.sides == READS else runs.source
        first, last = base // size, (base + runs.length - 1) // size
        found = set(np.unique(first).tolist()) | set(np.unique(last).tolist())
        for straddles in np.flatnonzero(last - first > 1).tolist():
            found |= set(range(int(first[straddles]), int(last[straddles])))
        return sorted(found)


def burst_plan(copy: DmaCopy, chip: Chip, banks: NearBanks) -> BurstPlan:
    """Return the plan of a copy of one core, from or to DRAM with an organisation."""
    sides = READS * (copy.source.buffer is Buffer.DRAM)
    sides |= WRITES * (copy.target.buffer is Buffer.DRAM)
    on_chip = copy.target if sides == READS else copy.source
    near = on_chip.buffer
    width, cycles = chip.burst_cycles(in_state=near is Buffer.STATE)
    passing = chip.state_buffer.port_bytes or 0 if near is Buffer.STATE else 0
    shape = Near(
        width=width,
        cycles=cycles,
        at_once=max(1, chip.dma.queue_bytes_per_cycle // width),
        has_ports=int(sides != READS | WRITES),
        first_bank=banks.first(near, 0),
        bank_bytes=bank_bytes(on_chip, chip),
        port_bytes=passing,
        lanes=banks.lanes_of(0),
        fetch_cycles=chip.dma.descriptor_cycles,
        overlaps=int(chip.dma.descriptor_cost == "max"),
    )
    direction = "write" if sides == READS else "read"
    return BurstPlan(descriptor_runs(copy), sides, shape, near, 0, direction)


class BurstStream(Stream):
    """Descriptors on their way, burst by burst; `Channels` knows how far they are.

    It asks for ports only in cycles in which its bytes move. lanes: its partitions on the chip.
    """

    settles_ports = True
    has_course = False  # when its bursts move depends on the other queues

    def __init__(
        self,
        env: TickEnvironment,
        channels: Channels,
        plan: BurstPlan,
        lanes: Interval,
        asker: Asker,
        *,
        queue: int,
    ) -> None:
        super().__init__(env, asker, Timeline([], 0), is_awaited=True)  # the next may start
        self.port_cycles: dict[Port, int] = {}  # `Channels` counts them
        self._channels, self._plan, self._queue = channels, plan, queue
        self._reach = plan.reach(lanes)
        self.mask = self.wide_mask = mask_of(self._reach)
        self._span = 0, 0
        self._ends: npt.NDArray[np.int64] | None = None

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Return the bytes of each descriptor, int64."""
        return self._plan.runs.length

    def runs_by_size(self) -> Iterator[tuple[int, int]]:
        """Yield (bytes, how many) for the descriptors."""
        sizes, counts = np.unique(self._plan.runs.length, return_counts=True)
        return zip(sizes.tolist(), counts.tolist(), strict=True)

    def begin(self, tick: int) -> None:
        """Take part from the cycle at `tick` on."""
        super().begin(tick)
        plan = self._plan
        self._channels.join(self._queue, plan.runs, plan.sides, plan.near, tick)

    def remaining(self) -> int:
        """Return the cycles until this or another copy ends if nothing is refused any more."""
        return self._channels.remaining(self._queue)

    def settle_ports(self, *, among_themselves: bool) -> None:
        """Say whether copies that meet at a port settle it, or the arbiter does."""
        self._channels.settle_ports(among_themselves=among_themselves)

    def done(self, tick: int) -> bool:
        """Return whether the copy has ended, the cycle of its last burst being over at `tick`."""
        return self.tick <= tick and self._channels.is_done(self._queue)

    def reach(self) -> Needs:
        """Return each port it may need, for all partitions between the outermost."""
        return self._reach

    def needs(self) -> tuple[Needs, int]:
        """Return the ports the next cycle needs, and for how many cycles at least."""
        banks, cycles = self._channels.needs(self._queue)
        return self._needs_of(banks), cycles

    def patience(self) -> int | None:
        """Return for how many cycles, if held, it asks for the same; None: until it is granted."""
        return self._channels.patience()

    def needs_in_progress(self) -> Needs:
        """Return the ports of the cycle granted last."""
        return self._needs_of(self._channels.last_banks(self._queue))

    def grant(self) -> None:
        """Let bytes move from now on."""
        super().grant()
        self._channels.hold(self._queue, held=False)

    def refuse(self, lost: Lost) -> None:
        """Keep bytes from moving; the burst keeps its bank and its bus."""
        super().refuse(lost)
        self._channels.hold(self._queue, held=True)

    def advance(self, tick: int) -> None:
        """Account for every cycle that began before `tick`, as last decided."""
        self._channels.advance(tick)
        super().advance(tick)

    def _move(self, cycles: int) -> None:
        self._note_progress(0, cycles)

    def span(self) -> tuple[int, int]:
        """Return the ticks of the first cycle in which it moved, and of the last of its bursts."""
        return self._span

    def descriptor_ticks(self) -> npt.NDArray[np.int64]:
        """Return the tick at which each descriptor ended, int64."""
        assert self._ends is not None, "they are kept where words are recorded"
        return self._ends

    def conclude(self) -> None:
        """Take over what is known of the copy, which has ended, and give up its place."""
        channels, q = self._channels, self._queue
        self._span = channels.span(q)
        if channels.keeps_ends:
            self._ends = channels.ends(q, len(self._plan.runs.length))
        self._take_over(channels.stalls(q))
        channels.leave(q)

    def _take_over(self, stalls: list[BankRefusal]) -> None:
        """Take over what other queues refused."""
        if not stalls:
            return
        for place, first, stop in stalls:
            port = Port(place.buffer.value, place.bank, self._plan.direction)
            cycles = (stop - first) // self.period
            self.refusals.append(Refusal(first, cycles, Lost(port, self.client, place.partition)))
        self.refusals = _merged(self.refusals, self.period)
        start, end = self.progress[0].tick, self.tick
        if self.refusals[0].tick < start:
            start = self.refusals[0].tick
        self.progress = []
        for refusal in self.refusals:
            self._note(start, refusal.tick)
            start = refusal.tick + refusal.cycles * self.period
        self._note(start, end)

    def _note(self, first: int, stop: int) -> None:
        if first < stop:
            self.progress.append(Granted(0, first, (stop - first) // self.period))

    def _needs_of(self, found: list[Banks]) -> Needs:
        """Return the ports of bursts that move, each once, the lowest bank and partition first.

        A copy within DRAM needs none.
        """
        if not self._reach:
            return ()
        places = {(bank, b.partition) for b in found for bank in range(b.first, b.last + 1)}
        return tuple(self._plan.need(bank, Interval(p, p + 1)) for bank, p in sorted(places))


def _merged(refusals: list[Refusal], period: int) -> list[Refusal]:
    """Return refusals in the order of time, those that continue one another as one."""
    found: list[Refusal] = []
    for each in sorted((r for r in refusals if r.cycles), key=lambda r: r.tick):
        last = found[-1] if found else None
        if last and last.tick + last.cycles * period == each.tick and last.lost == each.lost:
            found[-1] = Refusal(last.tick, last.cycles + each.cycles, last.lost)
        else:
            found.append(each)
    return found
