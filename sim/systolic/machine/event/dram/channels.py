"""DRAM's channels and banks in the event engine: all copies under way, advanced together.

However many bursts lie between two decisions of the arbiter, they cost arithmetic, not events: a
copy needs one event for its end. Queues that meet at a state-buffer port settle that in the same
arithmetic. Only where a copy may meet another client there, the arbiter decides again whenever a
phase of any queue's burst ends.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from systolic.hw.spec import Chip
from systolic.isa import Buffer, DmaCopy, Program
from systolic.machine.event.dma.descriptors import Runs
from systolic.machine.event.dram import steps as dram_steps
from systolic.machine.event.dram import tables
from systolic.trace.records import Recorder
from systolic.trace.transfers import ChannelCounts, QueueWaits

Table = npt.NDArray[np.int64]
NEVER = 1 << 48
LOG_LENGTH = 4096
SMALL_ELEMENTS = 20_000
"""Below this many elements in all copies, loading numba costs more than it saves."""


_LASTS = np.isin(np.arange(6), (tables.FETCHING, tables.OPENING, tables.MOVING))
"""By phase: whether it ends of itself."""


class State(NamedTuple):
    """What changes from burst to burst (rows: `dram_tables`); copied to look ahead."""

    queue: Table
    bank: Table
    channel: Table
    port: Table
    logged: Table

    def copy(self) -> State:
        """Return a state that may be changed without changing this one."""
        return State(*(table.copy() for table in self))


class Stall(NamedTuple):
    """A bank's port was refused from tick `first` to tick `stop`: a lower queue had it."""

    bank: int
    first: int
    stop: int


class Beat(NamedTuple):
    """Bytes low <= byte < high of a partition that move in one cycle; none if low >= high."""

    low: int
    high: int


class Channels:
    """All channels of a chip, and the copies that use them. Times in cycles of the DMA engine."""

    def __init__(self, chip: Chip, *, ends: bool, large: bool) -> None:
        parts = chip.dram.organisation
        assert parts is not None
        width, cycles = chip.burst_cycles
        self.period = chip.period("dma")
        self._fixed = np.array(
            [parts.burst_bytes, parts.interleave_bytes, parts.channels, parts.banks,
             parts.row_bytes, width, cycles, parts.activate_cycles, parts.precharge_cycles,
             chip.dma.descriptor_cycles, chip.state_buffer.bank_bytes, True], np.int64,
        )  # fmt: skip
        queue = np.zeros((tables.QUEUE_ROWS, chip.dma.queues), np.int64)
        bank = np.full((tables.BANK_ROWS, parts.channels * parts.banks), -1, np.int64)
        channel = np.zeros((tables.CHANNEL_ROWS, parts.channels), np.int64)
        channel[tables.BUS_HOLDER] = -1
        port = np.zeros((2, chip.state_buffer.banks), np.int64)
        self._state = State(queue, bank, channel, port, np.zeros(1, np.int64))
        self._log = np.zeros((tables.LOG_ROWS, LOG_LENGTH + 2 * chip.dma.queues), np.int64)
        self._stalls: dict[int, list[Stall]] = {}
        self._runs = Runs(*[np.zeros(0, np.int64)] * 3)
        self._keeps_ends = ends
        self._ends: Table = np.zeros(0, np.int64)
        self._used = 0
        self._members: set[int] = set()
        self._cycle = 0
        self._ahead: tuple[State, int] | None = None
        self._settled: Table | None = None
        self._quiet: int | None = None
        self._kernel: Any = _compiled() if large else dram_steps

    def join(self, q: int, runs: Runs, sides: int, tick: int) -> None:
        """Let a queue begin with its descriptors in the cycle at `tick`."""
        if not self._members:
            self._used = 0
            self._cycle = tick // self.period
        self.advance(tick)
        self._changed()
        self._members.add(q)
        first = self._append(runs)
        queue = self._state.queue
        queue[: tables.BANK_WAIT, q] = 0
        queue[tables.PHASE, q], queue[tables.LEFT, q] = tables.FETCHING, self._fixed[tables.FETCH]
        queue[tables.RUN, q], queue[tables.STOP, q] = first, first + len(runs.length)
        queue[tables.SIDES, q] = sides
        queue[tables.FIRST, q] = queue[tables.BEAT, q] = -1
        dram_steps.take_in_hand(self._fixed, queue, *self._runs, q)

    def leave(self, q: int) -> None:
        """Forget the descriptors of a queue's copy, which has ended."""
        self._members.discard(q)

    def advance(self, tick: int) -> None:
        """Do every cycle that begins before `tick`."""
        until = -(-tick // self.period)
        if until <= self._cycle:
            return
        if self._ahead and self._ahead[1] == until:
            self._state, self._cycle = self._ahead
            self._read_log()
        while self._cycle < until:
            self._cycle = self._do(self._state, until, stop_at_end=False)
            self._read_log()
        self._changed()

    def settle_ports(self, *, among_themselves: bool) -> None:
        """Say whether queues that meet at a port leave it to the lowest, or ask the arbiter."""
        if self._fixed[tables.ARBITRATES] != among_themselves:
            self._fixed[tables.ARBITRATES] = among_themselves
            self._changed()

    def hold(self, q: int, held: bool) -> None:
        """Say whether a port is refused to the queue from now on."""
        if self._state.queue[tables.HELD, q] != held:
            self._state.queue[tables.HELD, q] = held
            self._changed()

    def is_done(self, q: int) -> bool:
        """Return whether the queue's copy has ended."""
        return bool(self._state.queue[tables.PHASE, q] == tables.IDLE)

    def remaining(self, q: int) -> int:
        """Return the cycles until the first copy ends if nothing changes; 0 if this one has.

        While the arbiter decides at every change of a phase there is no need to look further.
        """
        if self.is_done(q):
            return 0
        if self._settled is not None:
            return self.quiet_cycles()
        if self._ahead is None:
            state = self._state.copy()
            self._ahead = state, self._do(state, NEVER, stop_at_end=True)
        return self._ahead[1] - self._cycle

    def stalls(self, q: int) -> list[Stall]:
        """Return what other queues refused to the queue's copy, which has ended."""
        return self._stalls.pop(q, [])

    def span(self, q: int) -> tuple[int, int]:
        """Return the ticks of the first and the last cycle of the queue's bursts."""
        first, last = self._state.queue[[tables.FIRST, tables.LAST], q].tolist()
        return first * self.period, last * self.period

    def ends(self, q: int, count: int) -> Table:
        """Return the ticks at which the queue's last `count` descriptors ended, int64."""
        stop = int(self._state.queue[tables.STOP, q])
        return self._ends[stop - count : stop] * self.period

    def last_beat(self, q: int) -> Beat | None:
        """Return what moved in the last cycle that was done."""
        queue = self._state.queue
        if queue[tables.BEAT, q] != self._cycle - 1:
            return None
        return Beat(int(queue[tables.BEAT_LOW, q]), int(queue[tables.BEAT_HIGH, q]))

    def beats(self, q: int) -> list[Beat]:
        """Return what moves in each cycle left of the queue's burst; nothing if it waits."""
        queue = self._look()
        if queue[tables.PHASE, q] != tables.MOVING:
            return []
        cycles = int(self._fixed[tables.BURST_CYCLES])
        source, target, _ = self._runs
        return [
            Beat(*map(int, self._kernel.on_chip(self._fixed, queue, source, target, beat, q)))
            for beat in range(cycles - int(queue[tables.LEFT, q]), cycles)
        ]

    def quiet_cycles(self) -> int:
        """Return for how many cycles no burst changes its phase, whatever ports are refused."""
        if self._quiet is None:
            queue = self._look()
            lasts = _LASTS[queue[tables.PHASE]]
            self._quiet = int(queue[tables.LEFT][lasts].min())
        return self._quiet

    def account(self, recorder: Recorder) -> None:
        """Hand all counts of the run to the recorder."""
        queue, _, channel, port, _ = self._state
        transfers = recorder.transfers
        for c, counts in enumerate(channel[tables.HITS :].T.tolist()):
            transfers.channels[c] = ChannelCounts(*counts)
        for q, waits in enumerate(queue[tables.BANK_WAIT :].T.tolist()):
            transfers.waits[f"dma{q}"] = QueueWaits(*waits)
        for direction, name in enumerate(("read", "write")):
            for bank in np.flatnonzero(port[direction]).tolist():
                key = Buffer.STATE.value, bank, name
                recorder.port_cycles[key] += int(port[direction, bank]) * self.period

    def _do(self, state: State, until: int, *, stop_at_end: bool) -> int:
        queue, bank, channel, port, logged = state
        stopped = self._kernel.run(
            self._fixed, queue, bank, channel, port, logged, self._log, *self._runs,
            self._ends, self._cycle, until, stop_at_end,
        )  # fmt: skip
        return int(stopped)

    def _read_log(self) -> None:
        """Keep what is logged for the copies it belongs to."""
        for q, bank, first, stop in self._log[:, : int(self._state.logged[0])].T.tolist():
            stall = Stall(bank, first * self.period, stop * self.period)
            self._stalls.setdefault(q, []).append(stall)
        self._state.logged[0] = 0

    def _changed(self) -> None:
        self._ahead = self._settled = self._quiet = None

    def _look(self) -> Table:
        """Return the queues as they will be once this cycle's banks and buses are given.

        Not done for good: another copy may yet join in this cycle.
        """
        if self._settled is None:
            queue, bank, channel = self._state[:3]
            queue = queue.copy()
            self._kernel.settle(self._fixed, queue, bank.copy(), channel.copy(), self._cycle)
            self._settled = queue
        return self._settled

    def _append(self, runs: Runs) -> int:
        """Put descriptors behind those of the others, and return the place of the first."""
        count, first = len(runs.length), self._used
        if first + count > len(self._runs[0]):
            first = self._compact(count)
        for table, new in zip(self._runs, runs, strict=True):
            table[first : first + count] = new
        self._used = first + count
        return first

    def _compact(self, count: int) -> int:
        """Make room for `count` more descriptors, and drop those of copies that have ended."""
        queue = self._state.queue
        live = np.flatnonzero(queue[tables.PHASE])
        kept = [slice(int(queue[tables.RUN, q]), int(queue[tables.STOP, q])) for q in live]
        if self._keeps_ends:
            kept = [slice(0, self._used)] if self._members else []
        used = sum(part.stop - part.start for part in kept)
        size = max(1024, 2 * (used + count))
        fresh = []
        for table in (*self._runs, *([self._ends] if self._keeps_ends else [])):
            bigger = np.zeros(size, np.int64)
            bigger[:used] = np.concatenate([table[:0], *(table[part] for part in kept)])
            fresh.append(bigger)
        if not self._keeps_ends:
            base = 0
            for q, part in zip(live, kept, strict=True):
                queue[tables.STOP, q] += base - part.start
                queue[tables.RUN, q] = base
                base += part.stop - part.start
        self._runs = Runs(*fresh[:3])
        self._ends = fresh[3] if self._keeps_ends else self._ends
        return used


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
        from systolic.machine.event.dram import compiled as dram_numba
    except ImportError:
        return dram_steps
    return dram_numba
