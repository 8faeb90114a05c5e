"""Twin of `register.dram.channels`: DRAM's channels and banks, all copies advanced together.

However many bursts lie between two decisions of the arbiter, they cost arithmetic, not events: a
copy needs one event for its end. Queues that meet at a state-buffer port settle that in the same
arithmetic. Only where a copy may meet another client there, the arbiter decides again whenever a
phase of any queue's burst ends.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from systolic.hw.spec import Chip
from systolic.hw.units import dma_queue
from systolic.isa import Buffer, DmaCopy, Program
from systolic.isa.access import Interval
from systolic.machine.event.dma.descriptors import Runs
from systolic.machine.event.dram import steps
from systolic.machine.event.dram.steps import Fixed, Table, Tables
from systolic.trace.records import Recorder
from systolic.trace.transfers import ChannelCounts, QueueWaits

NEVER = 1 << 48
LOG_LENGTH = 4096
SMALL_ELEMENTS = 20_000
"""Below this many elements in all copies, loading numba costs more than it saves."""


_LASTS = np.isin(np.arange(6), (steps.FETCHING, steps.OPENING, steps.MOVING))
"""By phase: whether it ends of itself."""


class Stall(NamedTuple):
    """A bank's port was refused from tick `first` to tick `stop`: a lower queue had it.

    partition: of the port, or ALL_PARTITIONS.
    """

    bank: int
    partition: int
    first: int
    stop: int


class Beat(NamedTuple):
    """Bytes low <= byte < high of a partition that move in one cycle; none if low >= high."""

    low: int
    high: int
    partition: int

    @property
    def lanes(self) -> Interval:
        """Return the partition as an interval."""
        return Interval(self.partition, self.partition + 1)


class Channels:
    """All channels of a chip, and the copies that use them. Times in cycles of the DMA engine."""

    def __init__(self, chip: Chip, *, ends: bool, large: bool) -> None:
        self.period = chip.period("dma")
        self._tables = _empty_tables(chip)
        self._stalls: dict[int, list[Stall]] = {}
        self._keeps_ends = ends
        self._used = 0
        self._members: set[int] = set()
        self._cycle = 0
        self._ahead: tuple[Tables, int] | None = None
        self._settled: Table | None = None
        self._quiet: int | None = None
        self._kernel: Any = _compiled() if large else steps

    def join(self, q: int, runs: Runs, sides: int, tick: int) -> None:
        """Let a queue begin with its descriptors in the cycle at `tick`."""
        if not self._members:
            self._used = 0
            self._cycle = tick // self.period
        self.advance(tick)
        self._changed()
        self._members.add(q)
        first = self._append(runs)
        queue, fixed = self._tables.queue, self._tables.fixed
        queue[: steps.BANK_WAIT, q] = 0
        queue[steps.PHASE, q], queue[steps.LEFT, q] = steps.FETCHING, fixed.fetch_cycles
        queue[steps.RUN, q], queue[steps.STOP, q] = first, first + len(runs.length)
        queue[steps.SIDES, q] = sides
        # Of the side that lies on the chip; from DRAM to DRAM no port is needed.
        partitions = runs.partitions[0 if sides == 2 else 1]
        self._tables.runs[steps.PARTITION, first : first + len(runs.length)] = partitions
        queue[steps.FIRST, q] = queue[steps.BEAT, q] = -1
        steps.take_in_hand(fixed, queue, self._tables.runs, q)

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
        if self._tables.queue[steps.HELD, q] != held:
            self._tables.queue[steps.HELD, q] = held
            self._changed()

    def is_done(self, q: int) -> bool:
        """Return whether the queue's copy has ended."""
        return bool(self._tables.queue[steps.PHASE, q] == steps.IDLE)

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

    def stalls(self, q: int) -> list[Stall]:
        """Return what other queues refused to the queue's copy, which has ended."""
        return self._stalls.pop(q, [])

    def span(self, q: int) -> tuple[int, int]:
        """Return the ticks of the first and the last cycle of the queue's bursts."""
        first, last = self._tables.queue[[steps.FIRST, steps.LAST], q].tolist()
        return first * self.period, last * self.period

    def ends(self, q: int, count: int) -> Table:
        """Return the ticks at which the queue's last `count` descriptors ended, int64."""
        stop = int(self._tables.queue[steps.STOP, q])
        ends: Table = self._tables.end[stop - count : stop] * self.period
        return ends

    def last_beat(self, q: int) -> Beat | None:
        """Return what moved in the last cycle that was done."""
        queue = self._tables.queue
        if queue[steps.BEAT, q] != self._cycle - 1:
            return None
        rows = steps.BEAT_LOW, steps.BEAT_HIGH, steps.BEAT_PARTITION
        low, high, partition = (int(queue[row, q]) for row in rows)
        return Beat(low, high, partition)

    def beats(self, q: int) -> list[Beat]:
        """Return what moves in each cycle left of the queue's burst; nothing if it waits."""
        queue = self._look()
        if queue[steps.PHASE, q] != steps.MOVING:
            return []
        cycles = int(self._tables.fixed.burst_cycles)
        runs = self._tables.runs
        partition = int(runs[steps.PARTITION, queue[steps.RUN, q]])
        return [
            Beat(*self._on_chip(queue, beat, q), partition)
            for beat in range(cycles - int(queue[steps.LEFT, q]), cycles)
        ]

    def _on_chip(self, queue: Table, beat: int, q: int) -> tuple[int, int]:
        tables = self._tables
        low, high = self._kernel.on_chip(tables.fixed, queue, tables.runs, beat, q)
        return int(low), int(high)

    def quiet_cycles(self) -> int:
        """Return for how many cycles no burst changes its phase, whatever ports are refused."""
        if self._quiet is None:
            queue = self._look()
            lasts = _LASTS[queue[steps.PHASE]]
            self._quiet = int(queue[steps.LEFT][lasts].min())
        return self._quiet

    def account(self, recorder: Recorder) -> None:
        """Hand all counts of the run to the recorder."""
        queue, channel, port = self._tables.queue, self._tables.channel, self._tables.port
        transfers = recorder.transfers
        for c, counts in enumerate(channel[steps.HITS :].T.tolist()):
            transfers.channels[c] = ChannelCounts(*counts)
        for q, waits in enumerate(queue[steps.BANK_WAIT :].T.tolist()):
            transfers.waits[dma_queue(q)] = QueueWaits(*waits)
        for direction, name in enumerate(("read", "write")):
            for bank in np.flatnonzero(port[direction]).tolist():
                key = Buffer.STATE.value, bank, name
                recorder.port_cycles[key] += int(port[direction, bank]) * self.period

    def _do(self, tables: Tables, until: int, *, stop_at_end: bool) -> int:
        return int(self._kernel.run(tables, self._cycle, until, stop_at_end))

    def _read_log(self) -> None:
        """Keep what is logged for the copies it belongs to."""
        logged = self._tables.log[:, : int(self._tables.logged[0])].T.tolist()
        for q, bank, partition, first, stop in logged:
            stall = Stall(bank, partition, first * self.period, stop * self.period)
            self._stalls.setdefault(q, []).append(stall)
        self._tables.logged[0] = 0

    def _changed(self) -> None:
        self._ahead = self._settled = self._quiet = None

    def _look(self) -> Table:
        """Return the queues as they will be once this cycle's banks and buses are given.

        Not done for good: another copy may yet join in this cycle.
        """
        if self._settled is None:
            tables = self._tables
            queue, bank, channel = tables.queue.copy(), tables.bank.copy(), tables.channel.copy()
            self._kernel.settle(tables.fixed, queue, bank, channel, self._cycle)
            self._settled = queue
        return self._settled

    def _append(self, runs: Runs) -> int:
        """Put descriptors behind those of the others, and return the place of the first."""
        count, first = len(runs.length), self._used
        if first + count > self._tables.runs.shape[1]:
            first = self._compact(count)
        self._tables.runs[: steps.PARTITION, first : first + count] = runs[: steps.PARTITION]
        self._used = first + count
        return first

    def _compact(self, count: int) -> int:
        """Make room for `count` more descriptors, and drop those of copies that have ended."""
        queue = self._tables.queue
        live = np.flatnonzero(queue[steps.PHASE])
        kept = [slice(int(queue[steps.RUN, q]), int(queue[steps.STOP, q])) for q in live]
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
        for q, part in zip(live, kept, strict=True):
            queue[steps.STOP, q] += base - part.start
            queue[steps.RUN, q] = base
            base += part.stop - part.start
        return used


def _moved_up(table: Table, kept: list[slice], size: int) -> Table:
    """Return a table of `size` columns that begins with the kept ones of another."""
    columns = np.concatenate([table[:, :0], *(table[:, part] for part in kept)], axis=1)
    bigger = np.zeros((len(table), size), np.int64)
    bigger[:, : columns.shape[1]] = columns
    return bigger


def _empty_tables(chip: Chip) -> Tables:
    """Return the tables of a chip before anything is under way, and without descriptors."""
    parts = chip.dram.organisation
    assert parts is not None
    bank = np.full((steps.BANK_ROWS, parts.channels * parts.banks), -1, np.int64)
    channel = np.zeros((steps.CHANNEL_ROWS, parts.channels), np.int64)
    channel[steps.BUS_HOLDER] = -1
    return Tables(
        fixed=Fixed.of(chip),
        queue=np.zeros((steps.QUEUE_ROWS, chip.dma.queues), np.int64),
        bank=bank,
        channel=channel,
        port=np.zeros((2, chip.state_buffer.banks), np.int64),
        logged=np.zeros(1, np.int64),
        log=np.zeros((steps.LOG_ROWS, LOG_LENGTH + 2 * chip.dma.queues), np.int64),
        runs=np.zeros((steps.RUN_ROWS, 0), np.int64),
        end=np.zeros(0, np.int64),
    )


def channels_of(chip: Chip, program: Program, recorder: Recorder) -> Channels | None:
    """Return the channels of a chip whose DRAM has an organisation."""
    if chip.dram.organisation is None:
        return None
    copies = [i for i in program.instructions if isinstance(i, DmaCopy)]
    elements = sum(copy.source.partitions * copy.source.elements for copy in copies)
    ends = recorder.wants("read") or recorder.wants("write")
    return Channels(chip, ends=ends, large=elements > SMALL_ELEMENTS)


def _compiled() -> ModuleType:
    """Return the compiled form, or the plain one without numba."""
    try:
        from systolic.machine.event.dram import compiled
    except ImportError:
        return steps
    return compiled
