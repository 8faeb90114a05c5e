"""A DMA queue of a chip of several cores: copies between any of its places, cycle by cycle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from systolic.arrays import Array
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Dma, MultiCoreChip
from systolic.hw.spec.places import ChipPlace, core, joined
from systolic.isa import Access, Buffer, DmaCopy
from systolic.isa.instruction import DmaMove
from systolic.machine.register.chip.banks import BankedControllers
from systolic.machine.register.chip.runs import PlacedEnd, Run, bundles_of, ends_of, engines_of
from systolic.machine.register.chip.shares import RunShares, SharesHeld, holding
from systolic.machine.register.context import Context
from systolic.machine.register.dma.descriptors import RunStart
from systolic.machine.register.dma.unit import CLIENT, CopyJob, DmaQueue, from_everywhere, where
from systolic.machine.register.planes import Planes
from systolic.machine.register.ports.ports import Ports, Refused, Wanted
from systolic.machine.register.unit import Job
from systolic.machine.values.chip_memory import added
from systolic.spans import Interval
from systolic.trace.words import Words


@dataclass(frozen=True)
class Surroundings:
    """What the DMA queues of a chip share: ports and planes of the cores, shares, banks of DRAM."""

    chip: MultiCoreChip
    ports: tuple[Ports, ...]
    planes: tuple[Planes, ...]
    shares: SharesHeld
    banks: BankedControllers | None


class RefusedAt(NamedTuple):
    """A port of a core that is refused, and the partition of it where each has its own."""

    port: int
    partition: int
    core: int


class ChipCopy(CopyJob):
    """A copy under way; its runs lie between any places of the chip."""

    def __init__(
        self, index: int, copy: DmaCopy, own: ChipPlace, dma: Dma, chip: MultiCoreChip
    ) -> None:
        self.ends = ends_of(copy, own)
        super().__init__(index, copy, dma, bundles_of(copy, self.ends, dma, chip))
        self.accumulates = isinstance(copy, DmaMove) and copy.accumulate
        self.is_code = self.ends[1].is_code
        within_dram = all(end.is_dram for end in self.ends)
        is_plain = len(self.ends) == 2 and not self.accumulates
        self.passes = 2 if within_dram and is_plain else 1
        self.is_dram = any(end.is_dram for end in self.ends)
        self.engines = engines_of(copy, dma) if dma.is_spread else frozenset()
        self._holdings: dict[tuple[ChipPlace, ...], RunShares] = {}
        self._chip = chip

    @property
    def run(self) -> Run:
        """Return the first, perhaps only, run in hand."""
        run = self.bundle[0]
        assert isinstance(run, Run)
        return run

    def holding(self, chip: MultiCoreChip) -> RunShares:
        """Return the shares that the bundle in hand holds."""
        places = self.run.places
        if places not in self._holdings:
            self._holdings[places] = holding(chip, places, accumulates=self.accumulates)
        return self._holdings[places]

    def port_bytes(self, end: int) -> int | None:
        """Return what passes a port at an end in a cycle; None if anything does."""
        core_of_end, access, _ = self.ends[end]
        if core_of_end is None or access.buffer is not Buffer.STATE:
            return None
        return self._chip.core_chips[core_of_end].state_buffer.port_bytes

    def bank_bytes(self, end: int) -> int:
        """Return the bytes of a bank of the state buffer at an end."""
        core_of_end = self.ends[end].core
        assert core_of_end is not None
        return self._chip.core_chips[core_of_end].state_buffer.bank_bytes

    def directions(self, end: int) -> tuple[str, ...]:
        """Return in which directions bytes pass the ports of an end, the source being end 0."""
        if end == 1 and self.accumulates:
            return "read", "write"
        return ("read",) if end == 0 else ("write",)

    def ways(self) -> set[tuple[ChipPlace, ...]]:
        """Return the endpoints of all runs that are still to come, and of the one in hand."""
        return {bundle[0].places for bundle in (self.bundle, *self.rest)}  # type: ignore[attr-defined]


class ChipQueue(DmaQueue):
    """One queue, which a core or a processor feeds."""

    def __init__(
        self,
        context: Context,
        number: int,
        own: ChipPlace,
        *,
        spec: Dma,
        period: int,
        around: Surroundings,
    ) -> None:
        self._own, self._around, self._chip = own, around, around.chip
        self._rank = around.chip.queue_numbers[joined(own, f"dma{number}")]
        super().__init__(context, number, spec, period)

    @property
    def rank(self) -> int:
        """Return its place among all queues of the chip."""
        return self._rank

    def _may_sleep(self) -> bool:
        """Return whether nothing is in flight; a processor wakes the queue that it feeds."""
        return super()._may_sleep() or (self._own.kind == "processor" and self._is_resting())

    def begin(self, tick: int) -> None:
        """Start a cycle, and say which shares this queue holds in it."""
        super().begin(tick)
        job = self._job
        if isinstance(job, ChipCopy) and job.latency_left == 0:
            held = job.holding(self._chip)
            self._around.shares.hold(self._rank, tick + self.period, held)

    def _make_job(self) -> Job:
        assert isinstance(self.head, DmaCopy)
        return ChipCopy(self.head_index, self.head, self._own, self._spec, self._chip)

    def _latency(self, job: CopyJob) -> int:
        """Return the cycles before the first run: DMA's, DRAM's and the longest way's."""
        assert isinstance(job, ChipCopy)
        chip, ways = self._chip, job.ways()
        touched = {p.number for places in ways for p in places if p.kind == "controller"}
        drams = [chip.controller_drams[number].latency_cycles for number in touched]
        hops = [
            way.hops
            for source, *targets in ways
            for target in targets
            if (way := chip.way(source, target)) is not None
        ]
        behind = max(hops) * chip.copy_hop_ticks
        return self._spec.latency_cycles + max(drams, default=0) + -(-behind // self.period)

    def _allowance(self, job: CopyJob) -> int:
        """Return what the copy may pass on in this cycle, within DRAM counted twice."""
        assert isinstance(job, ChipCopy)
        if job.is_turned and self._rests(job):
            return 0
        tick, shares, held = self.now * self.period, self._around.shares, job.holding(self._chip)
        got = shares.of_controllers(self._rank, held, tick, self.now)
        if job.passes > 1 and shares.is_short(held, self._rank, tick):
            return sum(got)  # one byte for each share at most, and perhaps never both at once
        own = self._of_engine(job, self._active())
        pools = shares.of_pools(held, tick, tick + self.period)
        return job.passes * min([own, *pools, *got])

    def _through_ports(self, job: CopyJob) -> int:
        assert isinstance(job, ChipCopy)
        widths = [job.port_bytes(end) for end in range(len(job.ends))]
        allowance = self._allowance(job)
        return min([allowance, *(w * len(job.bundle) for w in widths if w is not None)])

    # -- ports ------------------------------------------------------------------------------------

    def _has_ports(self, job: CopyJob, low: int, high: int, tick: int) -> bool:
        """Take the ports of both cores for these bytes of the bundle, all or none."""
        assert isinstance(job, ChipCopy)
        return self._take_each(job, self._needs(job, low, high), tick)

    def _take_each(self, job: ChipCopy, needs: list[tuple[int, Wanted]], tick: int) -> bool:
        """Take ports of any cores, all, or none and note the first that is refused."""
        for number, want in needs:
            if refused := self._around.ports[number].refused(want, tick):
                winner = self._record_stall(job, RefusedAt(*refused, number))  # type: ignore[arg-type]
                self.claims.mark(f"stalled by {winner}", self.now, self.now + 1)
                return False
        for number, want in _once(needs):
            self._around.ports[number].take(want, tick, self.period, CLIENT)
        return True

    def _needs(self, job: ChipCopy, low: int, high: int) -> list[tuple[int, Wanted]]:
        """Return the ports, each with its core: of the source, then of the targets."""
        rows = len(job.bundle)
        first, stop = low // rows, -(-high // rows)
        found: list[tuple[int, Wanted]] = []
        for number, (end, start) in enumerate(zip(job.ends, job.run.starts, strict=True)):
            if not end.is_on_chip:
                continue
            if number == 0 and job.is_turned:
                found += self._of_matrix(end)
                continue
            part = RunStart(start.partition, start.byte + first)
            for direction in job.directions(number):
                found += self._of_end(end, part, stop - first, rows, direction)
        return found

    def _of_end(
        self, end: PlacedEnd, start: RunStart, size: int, rows: int, direction: str
    ) -> list[tuple[int, Wanted]]:
        assert end.core is not None
        ports = self._around.ports[end.core]
        lanes = Interval(start.partition, start.partition + rows)
        needed = ports.of_bytes(end.access.buffer, start.byte, start.byte + size, direction)
        return [(end.core, Wanted(port, lanes)) for port in needed]

    def _of_matrix(self, end: PlacedEnd) -> list[tuple[int, Wanted]]:
        assert end.core is not None
        low, high = end.access.span
        needed = self._around.ports[end.core].of_bytes(end.access.buffer, low, high, "read")
        return [(end.core, Wanted(port, end.access.lanes)) for port in needed]

    def _key(self, refused: Refused) -> tuple[str, int, str]:
        assert isinstance(refused, RefusedAt)
        buffer, bank, direction = self._around.ports[refused.core].key(refused.port)
        return joined(core(refused.core), buffer), bank, direction

    def _winner(self, refused: Refused) -> str:
        assert isinstance(refused, RefusedAt)
        port = Refused(refused.port, refused.partition)
        winner = self._around.ports[refused.core].winner(port, self.now * self.period)
        return joined(core(refused.core), winner)

    # -- bytes ------------------------------------------------------------------------------------

    def _bytes_of(self, end: PlacedEnd) -> Array:
        number = 0 if end.core is None else end.core
        return self._around.planes[number].bytes_of(end.access.buffer)

    def _transfer(self, job: CopyJob, first: int, size: int, tick: int) -> None:
        """Move `size` bytes of the bundle from byte `first` on; they land in the next cycle."""
        assert isinstance(job, ChipCopy)
        self.claims.mark("streaming", self.now, self.now + 1)
        job.begin_work(tick)
        if job.is_code:
            return
        source, *targets = job.ends
        if job.is_turned:
            out_of: Any = from_everywhere(job.bundle, first, size)
        else:
            out_of = where([part.source for part in job.bundle], first, size)
        moving = self._bytes_of(source)[out_of].copy()
        job.words.append(moving)
        if job.accumulates:
            return
        for number, end in enumerate(targets, 1):
            starts = [run_of(part).starts[number] for part in job.bundle]
            self._landing.append((self._bytes_of(end), where(starts, first, size), moving))

    def _note_bundle(self, job: CopyJob, tick: int) -> None:
        """Record the words of the runs that have ended, and write what is added to the target."""
        assert isinstance(job, ChipCopy)
        rows = len(job.bundle)
        moved = np.concatenate(job.words) if job.words else None
        for row, part in enumerate(job.bundle):
            job.sizes.append(part.size_bytes)
            if moved is not None:
                self._conclude(job, run_of(part), np.ascontiguousarray(moved[row::rows]), tick)

    def _conclude(self, job: ChipCopy, run: Run, moved: Array, tick: int) -> None:
        """Record the words of a run, and write the sums of one that is added to its target."""
        source, *targets = job.ends
        self._note("read", job, source, _places(run, 0, source.access), moved, tick=tick)
        for number, end in enumerate(targets, 1):
            start, written = run.starts[number], moved
            if job.accumulates:
                written = self._sums(end, start, moved)
                at: Any = start.partition, slice(start.byte, start.byte + len(moved))
                self._landing.append((self._bytes_of(end), at, written))
            self._note("write", job, end, _places(run, number, end.access), written, tick=tick)

    def _sums(self, end: PlacedEnd, start: RunStart, moved: Array) -> Array:
        element = data_type(end.access.dtype).numpy
        plane = self._bytes_of(end)[start.partition]
        there = plane[start.byte : start.byte + len(moved)].copy().view(element)
        total = added(moved.view(element), there, end.access)
        return np.ascontiguousarray(total).view(np.uint8)

    def _note(
        self,
        kind: str,
        job: ChipCopy,
        end: PlacedEnd,
        places: tuple[Array, Array],
        values: Array,
        *,
        tick: int,
    ) -> None:
        if not self.context.recorder.wants(kind):
            return
        access, (partitions, addresses) = end.access, places
        self.context.recorder.words(
            kind,
            self.name,
            job.index,
            Words(
                buffer=access.buffer,
                ticks=np.full(len(partitions), tick, np.int64),
                partitions=partitions,
                addresses=addresses,
                dtype=access.dtype,
                values=values.view(data_type(access.dtype).numpy),
                core=end.core,
            ),
        )


def run_of(part: Any) -> Run:
    """Return a descriptor of a copy of several cores."""
    assert isinstance(part, Run)
    return part


def _places(run: Run, end: int, access: Access) -> tuple[Array, Array]:
    """Return partition and address of every element of a run at an end."""
    size = access.element_bytes
    if end == 0 and run.gathered is not None:
        partitions, starts = run.gathered
        return partitions, starts // size
    start, count = run.starts[end], run.size_bytes // size
    return np.full(count, start.partition), start.byte // size + np.arange(count)


def _once(needs: Sequence[tuple[int, Wanted]]) -> list[tuple[int, Wanted]]:
    """Return the ports with each partition once: accesses of a copy in one bank share its port."""
    lanes: dict[tuple[int, int], set[int]] = {}
    for number, want in needs:
        lanes.setdefault((number, want.port), set()).update(range(*want.lanes))
    return [
        (number, Wanted(port, part))
        for (number, port), members in lanes.items()
        for part in _stretches(sorted(members))
    ]


def _stretches(members: list[int]) -> list[Interval]:
    breaks = [k for k in range(1, len(members)) if members[k] != members[k - 1] + 1]
    bounds = [0, *breaks, len(members)]
    return [Interval(members[a], members[b - 1] + 1) for a, b in pairwise(bounds)]
