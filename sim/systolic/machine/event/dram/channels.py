"""Twin of `register.dram.channels`: DRAM's channels and banks, all copies advanced together.

However many bursts lie between two decisions of the arbiter, they cost arithmetic, not events: a
copy needs one event for its end. Queues that meet at a state-buffer port settle that in the same
arithmetic. Only where a copy may meet another client there, the arbiter decides again whenever a
phase of any queue's burst ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from systolic.hw.spec import Chip, Dram
from systolic.hw.units import dma_queue
from systolic.isa import Buffer, DmaCopy, Program
from systolic.machine.event.dma.descriptors import Runs
from systolic.machine.event.dram import steps, tables
from systolic.machine.event.dram.hand import DRAM_IS_TARGET
from systolic.machine.event.dram.near import BankPlace, Near, NearBanks
from systolic.machine.event.dram.tables import NEVER, Table, Tables
from systolic.trace.recorder import Recorder
from systolic.trace.transfers import ChannelCounts, QueueWaits

LOG_LENGTH = 4096
SMALL_ELEMENTS = 20_000
"""Below this many elements in all copies, loading numba costs more than it saves."""


class BankRefusal(NamedTuple):
    """A bank's port was refused from tick `first` to tick `stop`: a lower queue had it."""

    place: BankPlace
    first: int
    stop: int


class Banks(NamedTuple):
    """Banks first <= bank <= last of a partition that a burst needs in a cycle."""

    first: int
    last: int
    partition: int


class LeadBurst(NamedTuple):
    """A burst of a copy's leading side that moves, and the bytes of each cycle that is left to it.

    bytes: first and end, relative to the first of its descriptor.
    """

    descriptor: int
    bytes: list[tuple[int, int]]


class Channels:
    """All channels of a chip, and the copies that use them. Times in cycles of the DMA engines.

    Args:
        dram: behind each controller; it has an organisation.
        cores: whose buffers the copies use.
        queues: the DMA queues by name; their numbers are their order.
        period: ticks of a cycle of all queues.
        controllers: how many there are of such DRAM; addresses are numbered through over them.
        ends: keep when descriptors end. large: use the compiled form.

    """

    def __init__(
        self,
        dram: Dram,
        cores: Sequence[Chip],
        queues: Sequence[str],
        period: int,
        *,
        controllers: int = 1,
        ends: bool,
        large: bool,
    ) -> None:
        self.period = period
        self.banks = NearBanks(cores)
        self._queues = tuple(queues)
        self._tables = Tables.empty(
            dram,
            self.banks,
            controllers=controllers,
            queues=len(queues),
            log_length=LOG_LENGTH,
        )
        self._stalls: dict[int, list[BankRefusal]] = {}
        self._has_paces = False
        self._uses: list[tuple[int, int, int]] = []
        self._keeps_ends = ends
        self._used = 0
        self._members: set[int] = set()
        self._cycle = 0
        self._ahead: tuple[Tables, int] | None = None
        self._settled: Tables | None = None
        self._quiet: int | None = None
        self._kernel: Any = _compiled() if large else steps

    @property
    def keeps_ends(self) -> bool:
        """Return whether it is kept when descriptors end."""
        return self._keeps_ends

    def join(self, q: int, runs: Runs, sides: int, near: Near, tick: int) -> None:
        """Let a queue begin with its descriptors in the cycle at `tick`.

        runs: in bytes of the DRAM of all controllers, or of a partition.
        """
        if not self._members:
            self._used = 0
            self._cycle = tick // self.period
        self.advance(tick)
        self._changed()
        self._members.add(q)
        first = self._append(runs)
        # Of the side that lies on the chip; from DRAM to DRAM no port is needed.
        partitions = runs.partitions[0 if sides == DRAM_IS_TARGET else 1]
        self._tables.runs[tables.PARTITION, first : first + len(runs.length)] = partitions
        queue = self._tables.queue
        queue[: tables.BANK_WAIT, q] = 0
        queue[[tables.ACTIVE, tables.SIDES, tables.FIRST], q] = 1, sides, -1
        queue[[tables.FETCHED, tables.LOOK], q] = tick // self.period
        queue[[tables.RUN, tables.BACK_RUN], q] = first - 1, first
        queue[tables.STOP, q] = first + len(runs.length)
        queue[tables.WIDTH : tables.OVERLAPS + 1, q] = near

    def set_pace(self, q: int, amounts: Sequence[int], tick: int) -> None:
        """Say what shares of bandwidths let a queue move from the cycle at `tick` on.

        amounts: bytes in cycles 0, 1, ... of the queue, which repeat.
        """
        self.advance(tick)
        self._changed()
        self._has_paces = True
        pace, many = self._tables.pace, len(amounts)
        if pace.shape[1] < many:
            wider = np.zeros((pace.shape[0], many), np.int64)
            wider[:, : pace.shape[1]] = pace
            self._tables, pace = self._tables._replace(pace=wider), wider
        pace[q, :many] = amounts
        self._tables.queue[[tables.PHASES, tables.LEAST], q] = many, min(amounts)

    def leave(self, q: int) -> None:
        """Forget the descriptors of a queue's copy, which has ended."""
        self._members.discard(q)

    def advance(self, tick: int) -> None:
        """Do every cycle that begins before `tick`."""
        until = -(-tick // self.period)
        if until <= self._cycle:
            return
        if self._ahead and self._ahead[1] == until:
            self._tables, self._cycle = self._ahead
            self._read_log()
        while self._cycle < until:
            self._cycle = self._do(self._tables, until, stop_at_end=False)
            self._read_log()
        self._changed()

    def settle_ports(self, *, among_themselves: bool) -> None:
        """Say whether queues that meet at a port leave it to the lowest, or ask the arbiter."""
        fixed = self._tables.fixed
        if fixed.arbitrates != among_themselves:
            self._tables = self._tables._replace(fixed=fixed._replace(arbitrates=among_themselves))
            self._changed()

    def hold(self, q: int, held: bool) -> None:
        """Say whether a port is refused to the queue from now on."""
        if self._tables.queue[tables.HELD, q] != held:
            self._tables.queue[tables.HELD, q] = held
            self._changed()

    def is_done(self, q: int) -> bool:
        """Return whether the queue's copy has ended."""
        return not self._tables.queue[tables.ACTIVE, q]

    def remaining(self, q: int) -> int:
        """Return the cycles until the first copy ends if nothing changes; 0 if this one has.

        While the arbiter decides at every change of a phase there is no need to look further.
        """
        if self.is_done(q):
            return 0
        if self._settled is not None:
            return self.quiet_cycles()
        if self._ahead is None:
            copy = self._tables.copy()
            self._ahead = copy, self._do(copy, NEVER, stop_at_end=True)
        return self._ahead[1] - self._cycle

    def stalls(self, q: int) -> list[BankRefusal]:
        """Return what other queues refused to the queue's copy, which has ended."""
        return self._stalls.pop(q, [])

    def span(self, q: int) -> tuple[int, int]:
        """Return the ticks of the first and the last cycle of the queue's bursts."""
        first, last = self._tables.queue[[tables.FIRST, tables.LAST], q].tolist()
        return first * self.period, last * self.period

    def ends(self, q: int, count: int) -> Table:
        """Return the ticks at which the queue's last `count` descriptors ended, int64."""
        stop = int(self._tables.queue[tables.STOP, q])
        ends: Table = self._tables.end[stop - count : stop] * self.period
        return ends

    def last_banks(self, q: int) -> list[Banks]:
        """Return the banks that the queue's bursts used in the last cycle that was done."""
        places = self._tables.fixed.outstanding
        slot = self._tables.slot[:, q * places : (q + 1) * places]
        used = (slot[tables.BEAT] == self._cycle - 1) & (slot[tables.BEAT_LOW] >= 0)
        found = slot[tables.BEAT_LOW : tables.BEAT_LANE + 1, used]
        return [self._banks(q, row) for row in found.T.tolist()]

    def _banks(self, q: int, row: list[int]) -> Banks:
        base = int(self._tables.queue[tables.FIRST_BANK, q])
        return Banks(row[0] - base, row[1] - base, row[2])

    def needs(self, q: int) -> tuple[list[Banks], int]:
        """Return the banks that the queue's next cycle needs, and for how many cycles at least."""
        looked = self._look()
        cycles = steps.find_all_banks(looked, q, self.quiet_cycles())
        steps.share(looked, self._cycle, q)
        moving = looked.moving[q, : looked.queue[tables.ON_BUS, q]].tolist()
        found = []
        for s in moving:
            row = looked.slot[tables.PORT_LOW : tables.PORT_LANE + 1, s].tolist()
            if row[0] >= 0 and not looked.slot[tables.STANDS, s]:
                found.append(self._banks(q, row))
        return found, int(cycles)

    def quiet_cycles(self) -> int:
        """Return for how many cycles no burst changes its phase, whatever ports are refused."""
        if self._quiet is None:
            looked = self._look()
            event = steps.next_event(looked) - self._cycle
            self._quiet = 1
            if not self._is_bound():
                self._quiet = int(steps.shortest(looked, event, held_too=True))
        return self._quiet

    def _is_bound(self) -> bool:
        """Return whether shares of bandwidths may keep a burst from moving in the next cycle."""
        if not self._has_paces:
            return False
        queue = self._look().queue
        return any(steps.is_bound(queue, q) for q in self._members)

    def lead_burst(self, q: int) -> LeadBurst | None:
        """Return the burst that moves in the next cycle, of a queue that has one on a bus at most.

        None if there is none, if it stands, or if it brings to DRAM what was read before.
        """
        looked = self._look()
        steps.find_all_banks(looked, q, 1)
        steps.share(looked, self._cycle, q)
        slot, queue = looked.slot, looked.queue
        if not queue[tables.ON_BUS, q]:
            return None
        s = int(looked.moving[q, 0])
        is_back = queue[tables.SIDES, q] == steps.BOTH_SIDES and slot[tables.WRITES, s]
        if slot[tables.STANDS, s] or is_back:
            return None
        d = slot[tables.DESCRIPTOR, s]
        near = int(looked.runs[tables.SOURCE if slot[tables.WRITES, s] else tables.TARGET, d])
        last = int(queue[tables.CYCLES, q])
        found = [steps.bytes_of(looked, b, s) for b in range(last - slot[tables.LEFT, s], last)]
        bytes_ = [(int(low) - near, int(high) - near) for low, high in found]
        return LeadBurst(int(d - queue[tables.STOP, q]), bytes_)

    def patience(self) -> int | None:
        """Return for how many cycles a queue that is refused a port asks for the same ones.

        With a single burst in hand: until it is granted. Else another of its bursts may come along.
        """
        if self._is_bound():
            return 1
        if self._tables.fixed.outstanding == 1:
            return None
        looked = self._look()
        event = steps.next_event(looked) - self._cycle
        cycles = int(steps.shortest(looked, event, held_too=False))
        return cycles if cycles < NEVER // 2 else None

    def account(self, recorder: Recorder) -> None:
        """Hand all counts of the run to the recorder."""
        queue, channel, port = self._tables.queue, self._tables.channel, self._tables.port
        transfers = recorder.transfers
        for c, (hits, opened, conflicts, busy) in enumerate(channel[tables.HITS :].T.tolist()):
            counts = transfers.channels.setdefault(c, ChannelCounts())
            counts.count(hits=hits, opened=opened, conflicts=conflicts, busy=busy)
        for name, (bank, row, bus) in zip(
            self._queues, queue[tables.BANK_WAIT :].T.tolist(), strict=True
        ):
            transfers.waits.setdefault(name, QueueWaits()).count(bank=bank, row=row, bus=bus)
        for direction, name in enumerate(("read", "write")):
            for bank in np.flatnonzero(port[direction]).tolist():
                key = Buffer.STATE.value, self.banks.state_bank(bank), name
                recorder.port_cycles[key] += int(port[direction, bank]) * self.period

    def result_use(self) -> Iterator[tuple[int, int, int]]:
        """Yield (bank, first tick, tick after the last) in which the result buffer was read."""
        for bank in range(self._tables.using.shape[1]):
            steps.log_use(self._tables, bank)
            self._read_log()
        for bank, first, stop in self._uses:
            yield self.banks.result_bank(bank), first * self.period, stop * self.period

    def _do(self, of: Tables, until: int, *, stop_at_end: bool) -> int:
        return int(self._kernel.run(of, self._cycle, until, stop_at_end))

    def _read_log(self) -> None:
        """Keep what is logged for the copies, or the ports, it belongs to."""
        logged = int(self._tables.misc[tables.LOGGED])
        for q, port, first, stop in self._tables.log[:, :logged].T.tolist():
            if q < 0:
                self._uses.append((port, first, stop))
                continue
            place = self.banks.place_of(port)
            stall = BankRefusal(place, first * self.period, stop * self.period)
            self._stalls.setdefault(q, []).append(stall)
        self._tables.misc[tables.LOGGED] = 0

    def _changed(self) -> None:
        self._ahead = self._settled = self._quiet = None

    def _look(self) -> Tables:
        """Return the tables as they will be once this cycle's banks and buses are given.

        Not done for good: another copy may yet join in this cycle.
        """
        if self._settled is None:
            self._settled = self._tables.copy()
            self._kernel.arrange_cycle(self._settled, self._cycle)
        return self._settled

    def _append(self, runs: Runs) -> int:
        """Put descriptors behind the others', and return the place of the first."""
        count, first = len(runs.length), self._used
        if first + count > self._tables.runs.shape[1]:
            first = self._compact(count)
        self._tables.runs[: tables.PARTITION, first : first + count] = runs[: tables.PARTITION]
        self._used = first + count
        return first

    def _compact(self, count: int) -> int:
        """Make room for `count` more descriptors; descriptors of ended copies are dropped."""
        queue = self._tables.queue
        live = np.flatnonzero(queue[tables.ACTIVE])
        kept = [slice(self._first_run(q), int(queue[tables.STOP, q])) for q in live.tolist()]
        if self._keeps_ends:
            kept = [slice(0, self._used)] if self._members else []
        used = sum(part.stop - part.start for part in kept)
        size = max(1024, 2 * (used + count))
        self._tables = self._tables._replace(runs=_moved_up(self._tables.runs, kept, size))
        if self._keeps_ends:
            end = _moved_up(self._tables.end[None], kept, size)
            self._tables = self._tables._replace(end=end[0])
            return used
        base = 0
        slot, places = self._tables.slot, self._tables.fixed.outstanding
        for q, part in zip(live.tolist(), kept, strict=True):
            queue[[tables.STOP, tables.RUN, tables.BACK_RUN], q] += base - part.start
            slot[tables.DESCRIPTOR, q * places : (q + 1) * places] += base - part.start
            base += part.stop - part.start
        return used

    def _first_run(self, q: int) -> int:
        """Return the first descriptor of a queue's copy that is not yet over."""
        queue, places = self._tables.queue, self._tables.fixed.outstanding
        slot = self._tables.slot[:, q * places : (q + 1) * places]
        first: list[int] = slot[tables.DESCRIPTOR, slot[tables.PHASE] != tables.FREE].tolist()
        first.append(int(queue[tables.RUN, q]))
        if queue[tables.SIDES, q] == steps.BOTH_SIDES:
            first.append(int(queue[tables.BACK_RUN, q]))
        return max(0, min(first))


def _moved_up(table: Table, kept: list[slice], size: int) -> Table:
    """Return a table of `size` columns that begins with the kept ones of another."""
    columns = np.concatenate([table[:, :0], *(table[:, part] for part in kept)], axis=1)
    bigger = np.zeros((len(table), size), np.int64)
    bigger[:, : columns.shape[1]] = columns
    return bigger


def channels_of(chip: Chip, program: Program, recorder: Recorder) -> Channels:
    """Return the channels of a chip whose DRAM has an organisation."""
    queues = [dma_queue(q) for q in range(chip.dma.queues)]
    return Channels(
        chip.dram,
        (chip,),
        queues,
        chip.period("dma"),
        ends=wants_ends(recorder),
        large=is_large(program),
    )


def is_large(program: Program) -> bool:
    """Return whether the copies of a program are worth loading the compiled form."""
    copies = [i for i in program.instructions if isinstance(i, DmaCopy)]
    return sum(copy.source.partitions * copy.source.elements for copy in copies) > SMALL_ELEMENTS


def wants_ends(recorder: Recorder) -> bool:
    """Return whether a run records when the words of copies move."""
    return recorder.wants("read") or recorder.wants("write")


def _compiled() -> ModuleType:
    """Return the compiled form, or the plain one without numba."""
    try:
        from systolic.machine.event.dram import compiled
    except ImportError:
        return steps
    return compiled
