"""What the cycles in which a DMA copy moved were spent on: bytes, descriptors, other queues.

Not here: its latency, and refused ports (`systolic.critical_path.points`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from systolic.critical_path.points import Lives
from systolic.critical_path.several import JointLives
from systolic.hw.formulas.dram import queue_rate, run_cycles
from systolic.hw.units import unit_of
from systolic.isa import Access, Buffer, DmaCopy, DmaTranspose, Program
from systolic.machine import simulate

BYTES, DESCRIPTORS, ROWS = "moving bytes", "descriptors", "descriptors and DRAM rows"
OVER = "moving bytes over"
"""On a chip of several cores, before the links and controllers that a copy holds shares of."""
SHARING = "sharing bandwidth with"


@dataclass(eq=False)
class CopyTimes:
    """Divides the time of the copies of one run; a copy of each kind is simulated alone, once."""

    lives: Lives
    _alone: dict[Hashable, int] = field(default_factory=dict)

    def spent(self, index: int, ticks: int) -> dict[str, int]:
        """Return by reason what the ticks in which a copy moved were spent on.

        What it takes at the full rate counts as moving bytes. If it held a bandwidth together with
        copies of other queues, what it takes longer than alone counts as sharing. The rest are
        descriptors: their own cycles, and those in which short ones do not fill the rate. If DRAM
        has an organisation, the rest also has the cycles in which the copy waited for a row, a bank
        or a bus, even if other copies had closed the row.
        """
        if isinstance(self.lives, JointLives):
            names = self.lives.way_names(index)
            return {f"{OVER} {' and '.join(names)}" if names else BYTES: ticks}
        copy, period = self._copy(index), self.lives.period(index)
        organised = self._is_outside(copy) and self.lives.chip.dram.organisation is not None
        others = dict.fromkeys(self.lives.times[other].unit for other in self.sharers(index))
        shared = max(0, ticks - self._alone_cycles(copy) * period) if others else 0
        moving = min(ticks - shared, self._least_cycles(copy) * period)
        rest = ticks - shared - moving
        found = {BYTES: moving, ROWS if organised else DESCRIPTORS: rest}
        return {**found, f"{SHARING} {'+'.join(others)}": shared} if shared else found

    def _copy(self, index: int) -> DmaCopy:
        copy = self.lives.instruction(index)
        assert isinstance(copy, DmaCopy)
        return copy

    @staticmethod
    def _is_outside(copy: DmaCopy) -> bool:
        return Buffer.DRAM in (copy.source.buffer, copy.target.buffer)

    def _least_cycles(self, copy: DmaCopy) -> int:
        """Return the cycles of the bytes alone, at the full rate of the queue.

        While a matrix is turned, bytes move in a share of the cycles only.
        """
        cycles = self._full_rate_cycles(copy)
        turns = self.lives.chip.dma.transposes
        if turns is None or not isinstance(copy, DmaTranspose):
            return cycles
        first, of = turns.working(outside=self._is_outside(copy))
        return cycles * of // first

    def _full_rate_cycles(self, copy: DmaCopy) -> int:
        chip, size = self.lives.chip, copy.source.size_bytes
        rows = chip.dma.most_beside
        if not self._is_outside(copy):
            return -(-size // queue_rate(chip, rows))
        within = copy.source.buffer is copy.target.buffer
        return run_cycles(chip, size, within=within, rows=rows)

    def _alone_cycles(self, copy: DmaCopy) -> int:
        """Return the cycles in which a copy would move if there were no other queue."""
        key = type(copy), _shape(copy.source), _shape(copy.target)
        if key not in self._alone:
            lone = replace(copy, waits=(), posts=())
            trace = simulate(
                self.lives.chip, Program("alone", (lone,)), values=False, engine="event"
            ).trace
            lives = Lives(self.lives.chip, Program("alone", (lone,)), trace)
            ticks = lives.end(0).tick - lives.begin(0)
            self._alone[key] = ticks // lives.period(0)
        return self._alone[key]

    def sharers(self, index: int) -> list[int]:
        """Return the copies of other queues that held a bandwidth together with one, by queue.

        The list is empty where DRAM has an organisation: bursts take turns there, and no share has
        a holder.
        """
        if isinstance(self.lives, JointLives):
            return []
        mine, first, stop = self._copy(index), self.lives.begin(index), self.lives.end(index).tick
        if self._is_outside(mine) and self.lives.chip.dram.organisation is not None:
            return []
        return [
            other
            for queue, copies in self._timetable.items()
            if queue != mine.queue
            for other in _meeting(copies, first, stop)
            if self._share(mine, self._copy(other))
        ]

    def together(self, one: int, other: int) -> int:
        """Return the ticks in which two copies were both under way."""
        stop = min(self.lives.end(one).tick, self.lives.end(other).tick)
        return max(0, stop - max(self.lives.begin(one), self.lives.begin(other)))

    def _share(self, one: DmaCopy, other: DmaCopy) -> bool:
        dma = self.lives.chip.dma
        same_engine = dma.is_spread or (one.dma_queue - other.dma_queue) % dma.engine_count == 0
        return same_engine or (self._is_outside(one) and self._is_outside(other))

    @cached_property
    def _timetable(self) -> dict[str, list[tuple[int, int, int]]]:
        """Return, by queue, (end, begin, copy) of all copies in order."""
        lives = self.lives
        return {
            queue: [(lives.end(i).tick, lives.begin(i), i) for i in indices]
            for queue, indices in lives.queues.items()
            if unit_of(queue) == "dma"
        }


def _meeting(copies: list[tuple[int, int, int]], first: int, stop: int) -> Iterator[int]:
    """Yield the copies of a queue that were under way between two ticks."""
    for _, begin, index in copies[bisect_left(copies, (first + 1,)) :]:
        if begin >= stop:
            return
        yield index


def _shape(access: Access) -> Hashable:
    """Return what of an access decides how long a copy takes alone, in DRAM that is one rate."""
    return access.buffer, access.element_bytes, access.partitions, access.pattern
