"""Which instruction had the port that was refused to another.

A refused cycle names the client that had the port. Which of its instructions that was is told from
their accesses and times: it was on in that cycle, has bytes behind the port, and was not refused
itself. Not here: where the path goes from there (`path`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from systolic.critical_path.points import Lives
from systolic.hw.units import kind_of
from systolic.isa import Access, Buffer, LoadWeights
from systolic.trace.records import ALL_PARTITIONS, Stall


@dataclass(frozen=True, eq=False)
class Holders:
    """The instructions of a finished run that had ports which were refused to others."""

    lives: Lives

    def of(self, stall: Stall) -> int | None:
        """Return the instruction that had the port in the last tick of a stall.

        None if the records do not say: nothing that was on has bytes there.
        """
        lives = self.lives
        tick = stall.tick + stall.cycles * lives.trace.periods[stall.unit] - 1
        found = [
            index
            for index in self._on(self._client_of(stall.winner), tick)
            if index != stall.instruction and self._uses(index, stall, tick)
        ]
        return min((i for i in found if not self._is_refused(i, tick)), default=None)

    def _client_of(self, winner: str) -> str:
        """Return the client that a stall names; DMA queues of any core may have a core's port."""
        return "dma" if winner.endswith(".dma") else winner

    def _on(self, client: str, tick: int) -> Iterator[int]:
        """Yield the instructions of a client that were on in a tick, the latest of a queue first.

        A few at the end of a queue's past are enough: at most `outstanding` copies, or engines'
        instructions on lanes of their own, are on together.
        """
        starts, queues = self._queues
        for queue in queues.get(client, ()):
            past = bisect_right(starts[queue], (tick, len(self.lives.program.instructions)))
            for start in reversed(starts[queue][max(0, past - MOST_TOGETHER) : past]):
                index = start[1]
                if tick < self.lives.end(index).tick:
                    yield index

    @cached_property
    def _queues(self) -> tuple[dict[str, list[tuple[int, int]]], dict[str, list[str]]]:
        """Return, by queue of a client, (start, instruction) in order; and each client's queues."""
        starts: dict[str, list[tuple[int, int]]] = {}
        queues: dict[str, list[str]] = {}
        for index, times in self.lives.times.items():
            queue = f"{times.unit} {self._client(index)}"
            if queue not in starts:
                queues.setdefault(self._client(index), []).append(queue)
            starts.setdefault(queue, []).append((times.start, index))
        return {queue: sorted(each) for queue, each in starts.items()}, queues

    def _client(self, index: int) -> str:
        unit = self.lives.times[index].unit
        local = self.lives.local(unit)
        if kind_of(local) == "array":
            is_load = isinstance(self.lives.instruction(index), LoadWeights)
            return unit.removesuffix(local) + ("weights" if is_load else "moving")
        return "dma" if kind_of(local) == "dma" else unit

    def _uses(self, index: int, stall: Stall, tick: int) -> bool:
        """Return whether an instruction was reading, or writing, behind the port in a tick."""
        lives = self.lives
        times, period = lives.times[index], lives.period(index)
        is_read = stall.direction == "read"
        within = times.first <= tick < (times.last if is_read else times.done) + period
        return within and any(
            name == stall.buffer and self._is_behind(name, access, stall)
            for name, access in lives.touched(index, is_read=is_read)
        )

    def _is_behind(self, name: str, access: Access, stall: Stall) -> bool:
        """Return whether an access to a buffer has bytes behind the refused port."""
        chip = self.lives.chip_with(name)
        is_state = access.buffer is Buffer.STATE
        size = chip.state_buffer.bank_bytes if is_state else chip.result_buffer.bank_bytes
        bytes_ = access.span
        banks = range(bytes_.first // size, -(-bytes_.stop // size))
        lanes = range(access.lanes.first, access.lanes.stop)
        return stall.bank in banks and (
            stall.partition == ALL_PARTITIONS or stall.partition in lanes
        )

    def _is_refused(self, index: int, tick: int) -> bool:
        for stall in self.lives.stalls.get(index, ()):
            stop = stall.tick + stall.cycles * self.lives.trace.periods[stall.unit]
            if stall.tick <= tick < stop:
                return True
        return False


MOST_TOGETHER = 16
"""How many instructions of a queue, back from a tick, are looked at."""
