"""Twin of `register.dma.unit`: a DMA queue; equal descriptors are a group, one event for all."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import simpy

from systolic.hw.spec import Chip
from systolic.hw.units import dma_queue
from systolic.isa import Access, Buffer, DmaCopy, Instruction
from systolic.machine.event.dma.bursts import BurstStream
from systolic.machine.event.dma.descriptors import (
    Group,
    all_needs,
    descriptor_groups,
    descriptor_needs,
    group_needs,
)
from systolic.machine.event.dma.pace import FOREVER, Orbit, Pace, best_pace, dram_pace, steady_pace
from systolic.machine.event.ports.meeting import Course, course_of, joined
from systolic.machine.event.ports.ports import Needs, Port, Timeline, hull, mask_of, number_of
from systolic.machine.event.ports.stream import Stream
from systolic.machine.event.ticks import TickEnvironment
from systolic.machine.event.unit import Context, Unit
from systolic.trace.records import InstructionTimes

Ticks = npt.NDArray[np.int64]


def latency_cycles(chip: Chip, copy: DmaCopy) -> int:
    """Return the cycles from the start of a copy to that of its first descriptor."""
    touches_dram = Buffer.DRAM in (copy.source.buffer, copy.target.buffer)
    return chip.dma.latency_cycles + touches_dram * chip.dram.latency_cycles


class _Finished(NamedTuple):
    """`number` descriptors ended, one every `cycles` cycles, the first at `tick`.

    Between two of them others may have ended, which other records name.
    """

    tick: int
    number: int
    cycles: int


class DmaStream(Stream):
    """Descriptors on their way: fetch, then bytes at a pace that DRAM's users share.

    A copy from DRAM to DRAM holds two shares and counts every byte twice, as read and as written.
    """

    def __init__(
        self, env: TickEnvironment, chip: Chip, copy: DmaCopy, groups: Sequence[Group], **who: Any
    ) -> None:
        super().__init__(env, timeline=Timeline([], 0), **who)
        self._reach = hull(all_needs(copy, groups))
        self.mask = mask_of(self._reach)
        self._copy, self._groups = copy, groups
        self._fetch = chip.dma.descriptor_cycles
        self._own_rate, self._dram_rate = chip.dma.bytes_per_cycle, chip.dram.bytes_per_cycle
        self.dram_shares = (copy.source.buffer, copy.target.buffer).count(Buffer.DRAM)
        self._times = max(1, self.dram_shares)
        self._best_pace = steady_pace(self._own_rate)
        if self.dram_shares:
            self._best_pace = best_pace(self._own_rate, self._dram_rate, self.dram_shares)
        self._pace = self._best_pace
        self._group = self._index = self._fetched = self._moved = 0
        self._suffix: dict[Pace, dict[tuple[int, int], int]] = {}
        self.ended: list[_Finished] = []
        self.port_cycles: dict[Port, int] = {}
        self.first_byte: int | None = None
        self._last_byte = -1

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Return the bytes of each descriptor, int64."""
        return np.repeat(
            np.array([g.size_bytes for g in self._groups]), [g.count for g in self._groups]
        )

    def runs_by_size(self) -> Iterator[tuple[int, int]]:
        """Yield (bytes, how many) for the descriptors."""
        return ((g.size_bytes, g.count) for g in self._groups)

    def span(self) -> tuple[int, int]:
        """Return the ticks of the first and the last cycle in which bytes moved."""
        assert self.first_byte is not None
        return self.first_byte, self.end_tick()

    def set_share(self, first: int, shares: int) -> None:
        """Hold shares of DRAM's bandwidth, beginning with number `first` of that many."""
        pace = dram_pace(self._own_rate, self._dram_rate, first, self.dram_shares, shares)
        if pace is not self._pace:
            self._pace, self._course = pace, None

    def remaining(self) -> int:
        """Return the cycles to the end at the present pace."""
        return self._remaining(self._pace, self.tick // self.period)

    def _size(self, group: Group) -> int:
        return group.size_bytes * self._times

    def _remaining(self, pace: Pace, cycle: int) -> int:
        """Return the cycles from `cycle` to the end at a pace."""
        if self._group == len(self._groups):
            return 0
        group, at, begun = self._groups[self._group], cycle, bool(self._fetched or self._moved)
        if begun:
            at += self._fetch - self._fetched
            at += pace.cycles(at, self._size(group) - self._moved)
        count = group.count - self._index - begun
        at += pace.orbit(self._fetch, self._size(group), at).cycles(count)
        return at - cycle + self._after(self._group + 1, pace, at)

    def _after(self, place: int, pace: Pace, cycle: int) -> int:
        """Return the cycles of all groups from `place` on at a pace, the first begun in `cycle`."""
        known = self._suffix.setdefault(pace, {})
        path: list[tuple[tuple[int, int], int]] = []
        phase, rest = cycle % pace.phases, 0
        while place < len(self._groups):
            key = place, phase
            if key in known:
                rest = known[key]
                break
            group = self._groups[place]
            cost = pace.orbit(self._fetch, self._size(group), phase).cycles(group.count)
            path.append((key, cost))
            place, phase = place + 1, (phase + cost) % pace.phases
        for key, cost in reversed(path):
            rest += cost
            known[key] = rest
        return rest

    def reach(self) -> Needs:
        """Return each port it may need, for all partitions between the outermost."""
        return self._reach

    def needs(self) -> tuple[Needs, int]:
        """Return the ports the next cycle needs, and for how many cycles."""
        if self._fetched < self._fetch:
            return (), self._fetch - self._fetched
        group, pace, cycle = self._groups[self._group], self._pace, self.tick // self.period
        needed = self._ports_in(cycle)
        if not pace.amount(cycle):
            return needed, pace.alike(cycle)
        if group.one_bank:
            to_end = pace.cycles(cycle, self._size(group) - self._moved)
            return needed, min(to_end, pace.alike(cycle))
        return needed, 1

    def _course_ahead(self) -> Course:
        """Return what it will use at the present pace, descriptor by descriptor."""
        cycle, parts = self.tick // self.period, [course_of(())]
        fetched, moved, index = self._fetched, self._moved, self._index
        for group in self._groups[self._group :]:
            while (fetched or moved) and index < group.count:  # the one in hand
                first = cycle + self._fetch - fetched
                cycle = first + self._pace.cycles(first, self._size(group) - moved)
                parts.append(self._course_of(group, index, np.array([first]), np.array([cycle])))
                fetched, moved, index = 0, 0, index + 1
            if index < group.count:
                orbit = self._pace.orbit(self._fetch, self._size(group), cycle)
                ends = cycle + orbit.ends(group.count - index)
                parts.append(self._course_of(group, index, ends[:-1] + self._fetch, ends[1:]))
                cycle = int(ends[-1])
            index = 0
        return joined(parts)

    def _course_of(self, group: Group, index: int, first: Ticks, stop: Ticks) -> Course:
        """Return the use of ports by descriptors that move from `first` to `stop`, in cycles."""
        needs = [
            (number_of(need.port), group.partitions[side, index : index + len(first)])
            for side, need in group_needs(self._copy, group)
        ]
        if not needs:
            return course_of(())
        each, lanes = len(needs), np.stack([lanes for _, lanes in needs], axis=1).ravel()
        ports = np.tile(np.array([port for port, _ in needs]), len(first))
        begin, end = (np.repeat(ticks * self.period, each) for ticks in (first, stop))
        return Course(begin, end, ports, lanes, lanes + 1)

    def patience(self) -> int | None:
        """Return for how many cycles it asks for the same: its share may be another in the next."""
        if self._pace.phases == 1:
            return None
        same = self._pace.alike(self.tick // self.period)
        if not self._groups[self._group].one_bank:
            return 1
        return None if same == FOREVER else same

    def _ports_in(self, cycle: int) -> Needs:
        """Return the ports of the bytes that move next, if they move in this cycle."""
        amount, group = self._pace.amount(cycle), self._groups[self._group]
        if not amount:
            return ()
        stop = min(self._moved + amount, self._size(group))
        return descriptor_needs(self._copy, group, self._index, self._moved, stop)

    def needs_in_progress(self) -> Needs:
        """Return the ports of the cycle granted last."""
        return self._last_needs

    _last_needs: Needs = ()

    def _move(self, cycles: int) -> None:
        cycle = self.tick // self.period
        stop = cycle + cycles
        self._note_progress(0, cycles)
        while cycle < stop and self._group < len(self._groups):
            group = self._groups[self._group]
            if not self._fetched and not self._moved and group.one_bank:
                orbit = self._pace.orbit(self._fetch, self._size(group), cycle)
                whole = min(orbit.whole(stop - cycle), group.count - self._index)
                if whole:
                    self._end_descriptors(group, whole, cycle, orbit)
                    cycle += orbit.cycles(whole)
                    continue
            cycle += self._step(group, stop - cycle, cycle)

    def _step(self, group: Group, cycles: int, cycle: int) -> int:
        """Work on a single descriptor for up to `cycles` cycles; return the cycles spent."""
        if self._fetched < self._fetch:
            spent = min(cycles, self._fetch - self._fetched)
            self._fetched += spent
            self._last_needs = ()
            return spent
        pace, left = self._pace, self._size(group) - self._moved
        spent = min(cycles, pace.cycles(cycle, left)) if group.one_bank else 1
        moving = cycle + pace.cycles(cycle, 1) - 1
        if moving < cycle + spent:
            self._see_first_byte(moving)
            for need in self._ports_in(moving):
                self._count(need.port, pace.busy(cycle, spent))
        self._last_needs = self._ports_in(cycle + spent - 1)
        self._moved += min(left, pace.moved(cycle, spent))
        if self._moved == self._size(group):
            self._note_end(cycle + spent, 1, 0)
            self._next(group, 1)
        return spent

    def _see_first_byte(self, cycle: int) -> None:
        if self.first_byte is None:
            self.first_byte = cycle * self.period

    def _note_end(self, stop: int, number: int, cycles: int) -> None:
        """Note descriptors of which the first ended in the cycle before `stop`."""
        tick = (stop - 1) * self.period
        self.ended.append(_Finished(tick, number, cycles))
        self._last_byte = max(self._last_byte, tick + (number - 1) * cycles * self.period)

    def _end_descriptors(self, group: Group, count: int, cycle: int, orbit: Orbit) -> None:
        """Note that `count` descriptors, begun in `cycle`, have been moved whole."""
        moving = cycle + self._fetch
        self._see_first_byte(moving + self._pace.cycles(moving, 1) - 1)
        self._last_needs = descriptor_needs(self._copy, group, self._index + count - 1)
        for need in self._last_needs:
            self._count(need.port, orbit.busy(count))
        for end, number, distance in orbit.series(count):
            self._note_end(cycle + end, number, distance)
        self._next(group, count)

    def _count(self, port: Port, cycles: int) -> None:
        self.port_cycles[port] = self.port_cycles.get(port, 0) + cycles

    def _next(self, group: Group, count: int) -> None:
        self._index += count
        self._fetched = self._moved = 0
        if self._index == group.count:
            self._group, self._index = self._group + 1, 0

    def end_tick(self) -> int:
        """Return the tick of the last byte: final once it has moved, else the earliest possible.

        Others may leave DRAM to this copy, so what is to come is reckoned at the best rate.
        """
        self.advance(self._env.tick)
        if self._group == len(self._groups):
            return self._last_byte
        tick = self.tick
        if not self.granted:
            tick = max(tick, -(-self._env.tick // self.period) * self.period)
        return tick + (self._remaining(self._best_pace, tick // self.period) - 1) * self.period

    def descriptor_ticks(self) -> npt.NDArray[np.int64]:
        """Return the tick of each descriptor's last byte, int64."""
        parts = [
            e.tick + np.arange(e.number, dtype=np.int64) * e.cycles * self.period
            for e in self.ended
        ]
        return np.sort(np.concatenate(parts))  # no two end in one cycle


class DmaUnit(Unit):
    """One queue: a copy after the other."""

    def __init__(self, context: Context, number: int, queue: Sequence[int]) -> None:
        spec = context.chip.dma
        super().__init__(context, dma_queue(number), "dma", queue, spec)
        self._number = number
        self._stream: DmaStream | BurstStream | None = None
        self._ended: simpy.Event | None = None
        self._rank = context.chip.port_priority.index("dma")

    def earliest(self, instruction: Instruction) -> int:
        """Return the tick after the last byte of the copy before."""
        return self._stream.end_tick() + self.period if isinstance(self._stream, DmaStream) else 0

    def _await(self, instruction: Instruction) -> Generator[simpy.Event, Any, bool]:
        # How long bursts take depends on the copies that join them: the end is known when it comes.
        if self._ended is not None:
            yield self._ended
            self._ended = None
        return (yield from super()._await(instruction))

    def start(self, index: int, instruction: Instruction, *, asks_last: bool) -> None:
        """Begin a copy in the present tick."""
        assert isinstance(instruction, DmaCopy)
        is_dram = Buffer.DRAM in (instruction.source.buffer, instruction.target.buffer)
        latency = latency_cycles(self.chip, instruction)
        self._stream = stream = self._make(index, instruction, is_dram)
        recorder, values = self.context.recorder, None
        if self.context.values:
            if recorder.wants("read") or recorder.wants("write"):
                values = self.context.memory.read(instruction.source)
            self.context.memory.move(instruction.source, instruction.target)
        delay = self.post_delay
        sources: Any = None
        if isinstance(stream, DmaStream):
            stream.begin(self.env.tick + latency * self.period)
            sources = self.announce(
                instruction.posts, lambda _: lambda: (stream.end_tick() + delay,)
            )
        else:
            self._ended = self.env.event()
        start, ready = self.env.tick, self.env.tick + latency * self.period
        self.claim("filling", start, ready)
        stream.then(lambda: self._finish(index, instruction, stream, start, values, sources))
        self.add_later(stream, latency)

    def _make(self, index: int, copy: DmaCopy, is_dram: bool) -> DmaStream | BurstStream:
        who: dict[str, Any] = {
            "unit": self.name, "client": "dma", "instruction": index,
            "rank": (self._rank, self._number), "period": self.period,
        }  # fmt: skip
        channels = self.context.dram
        if is_dram and channels is not None:
            bank = self.chip.state_buffer.bank_bytes
            return BurstStream(self.env, channels, copy, self._number, bank, **who)
        return DmaStream(self.env, self.chip, copy, descriptor_groups(copy, self.chip), **who)

    def _finish(
        self, index: int, copy: DmaCopy, stream: DmaStream | BurstStream, start: int,
        values: Any, sources: Any,
    ) -> None:  # fmt: skip
        if isinstance(stream, BurstStream):
            stream.conclude()
        first, done = stream.span()
        self.context.recorder.transfers.add(stream.runs_by_size())
        for run in stream.progress:
            self.claim("streaming", run.tick, run.tick + run.slots * self.period)
        if sources is None:
            delay = self.post_delay
            sources = self.announce(copy.posts, lambda _: lambda: (done + delay,))
        self.settle(sources)
        self.finish(InstructionTimes(index, self.name, start, first, done, done), stream)
        for port, cycles in stream.port_cycles.items():
            self.context.recorder.port_cycles[port] += cycles * self.period
        if values is not None:
            self._record("read", index, copy.source, stream, values)
            self._record("write", index, copy.target, stream, values)
        if isinstance(stream, BurstStream):
            stream.leave()
            assert self._ended is not None
            self._ended.succeed()

    def _record(
        self, kind: str, index: int, access: Access, stream: DmaStream | BurstStream, values: Any
    ) -> None:
        if not self.context.recorder.wants(kind):
            return
        sizes = stream.sizes // access.element_bytes
        partitions = np.repeat(np.arange(access.partitions) + access.partition, access.elements)
        self.context.recorder.words(
            kind, self.name, index, np.repeat(stream.descriptor_ticks(), sizes), partitions,
            np.tile(access.offsets(), access.partitions), access.dtype, values.ravel(),
        )  # fmt: skip
