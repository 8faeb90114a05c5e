"""Twin of `register.dma.bursts`: a copy of DRAM with channels and banks, as the arbiter sees it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from systolic.hw.spec import Chip
from systolic.isa import Buffer, DmaCopy
from systolic.machine.event.dma.descriptors import descriptor_runs
from systolic.machine.event.dma.ends import bank_bytes
from systolic.machine.event.dram.channels import Banks, Channels
from systolic.machine.event.ports.ports import Need, Needs, Port, Timeline, mask_of
from systolic.machine.event.ports.stream import Asker, Granted, Lost, Refusal, Stream
from systolic.machine.event.ticks import TickEnvironment
from systolic.spans import Interval

READS, WRITES = 1, 2


class BurstStream(Stream):
    """Descriptors on their way, burst by burst; `Channels` knows how far they are.

    It asks for ports only in cycles in which its bytes move.
    """

    settles_ports = True
    has_course = False  # when its bursts move depends on the other queues

    def __init__(
        self,
        env: TickEnvironment,
        channels: Channels,
        copy: DmaCopy,
        chip: Chip,
        asker: Asker,
        *,
        queue: int,
    ) -> None:
        super().__init__(env, asker, Timeline([], 0), is_awaited=True)  # the next may start
        self.port_cycles: dict[Port, int] = {}  # `Channels` counts them
        self._channels, self._queue = channels, queue
        self._runs = descriptor_runs(copy)
        self._sides = READS * (copy.source.buffer is Buffer.DRAM)
        self._sides |= WRITES * (copy.target.buffer is Buffer.DRAM)
        on_chip = copy.target if self._sides == READS else copy.source
        self._buffer, self._bank_bytes = on_chip.buffer, bank_bytes(on_chip, chip)
        self._direction = "write" if self._sides == READS else "read"
        self._reach = tuple(self._need(bank, on_chip.lanes) for bank in self._all_banks())
        self.mask = self.wide_mask = mask_of(self._reach)

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Return the bytes of each descriptor, int64."""
        return self._runs.length

    def runs_by_size(self) -> Iterator[tuple[int, int]]:
        """Yield (bytes, how many) for the descriptors."""
        sizes, counts = np.unique(self._runs.length, return_counts=True)
        return zip(sizes.tolist(), counts.tolist(), strict=True)

    def begin(self, tick: int) -> None:
        """Take part from the cycle at `tick` on."""
        super().begin(tick)
        self._channels.join(self._queue, self._runs, self._sides, self._buffer, tick)

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
        return self._channels.span(self._queue)

    def descriptor_ticks(self) -> npt.NDArray[np.int64]:
        """Return the tick at which each descriptor ended, int64."""
        return self._channels.ends(self._queue, len(self._runs.length))

    def conclude(self) -> None:
        """Take over what other queues refused, now that the copy has ended."""
        stalls = self._channels.stalls(self._queue)
        if not stalls:
            return
        for buffer, bank, partition, first, stop in stalls:
            port = Port(buffer.value, bank, self._direction)
            cycles = (stop - first) // self.period
            self.refusals.append(Refusal(first, cycles, Lost(port, self.client, partition)))
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

    def leave(self) -> None:
        """Give up its place: nothing more will be asked of it."""
        self._channels.leave(self._queue)

    def _all_banks(self) -> list[int]:
        if self._sides == READS | WRITES:
            return []
        runs = self._runs
        base = runs.target if self._sides == READS else runs.source
        first, last = base // self._bank_bytes, (base + runs.length - 1) // self._bank_bytes
        found = set(np.unique(first).tolist()) | set(np.unique(last).tolist())
        for straddles in np.flatnonzero(last - first > 1).tolist():
            found |= set(range(int(first[straddles]), int(last[straddles])))
        return sorted(found)

    def _needs_of(self, found: list[Banks]) -> Needs:
        """Return the ports of bursts that move, each once, the lowest bank and partition first.

        A copy within DRAM needs none.
        """
        if not self._reach:
            return ()
        places = {(bank, b.partition) for b in found for bank in range(b.first, b.last + 1)}
        return tuple(self._need(bank, Interval(p, p + 1)) for bank, p in sorted(places))

    def _need(self, bank: int, lanes: Interval) -> Need:
        return Need(Port(self._buffer.value, bank, self._direction), *lanes)


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
