"""Twin of `event.dma.unit`: a DMA queue, descriptor by descriptor, with bytes in every cycle.

The latencies of the copies behind the one in hand run meanwhile, of as many as the chip allows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from systolic.arrays import Array
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip, Dma
from systolic.hw.units import dma_queue
from systolic.isa import Access, Buffer, DmaCopy, DmaTranspose
from systolic.machine.register.context import Context
from systolic.machine.register.dma.descriptors import (
    Descriptor,
    RunStart,
    bundles,
    spread_bundles,
)
from systolic.machine.register.ports.ports import Wanted, wanted
from systolic.machine.register.unit import Job, Unit
from systolic.spans import Interval
from systolic.trace.words import Words

CLIENT = "dma"


class CopyJob(Job):
    """A DmaCopy under way: cycles of latency and fetching left, and the descriptors in hand.

    bundle: descriptors that move side by side, byte 0 of each, then byte 1 of each, and so on; the
    chip's DMA engines decide which do. words: the bytes they moved, in that order. shares: of
    DRAM's bandwidth; passes: how often DRAM or the queue passes each byte on; moved: of the bundle,
    in bytes passed on, so twice its bytes from DRAM to DRAM. engines: that serve the copy, where it
    is spread.
    """

    def __init__(
        self,
        index: int,
        copy: DmaCopy,
        dma: Dma,
        bundles: Iterable[tuple[Descriptor, ...]] | None = None,
    ) -> None:
        super().__init__(index)
        self.source = copy.source
        self.target = copy.target
        self.is_turned = isinstance(copy, DmaTranspose)
        self.is_dram = Buffer.DRAM in (copy.source.buffer, copy.target.buffer)
        self.shares = (copy.source.buffer, copy.target.buffer).count(Buffer.DRAM)
        self.passes = max(1, self.shares)
        self.latency_left = 0
        self.fetch_left = 0
        self.rest = deque(_bundles(copy, dma) if bundles is None else bundles)
        self.engines = _engines(copy, dma) if dma.is_spread else frozenset()
        self.bundle = self.rest.popleft()
        self.moved = 0
        self.words: list[Array] = []
        self.sizes: list[int] = []

    @property
    def descriptor(self) -> Descriptor:
        """Return the first, perhaps only, descriptor in hand."""
        return self.bundle[0]

    @property
    def passed_bytes(self) -> int:
        """Return the bytes that are passed on for the whole bundle."""
        return self.descriptor.size_bytes * len(self.bundle) * self.passes


def _bundles(copy: DmaCopy, dma: Dma) -> Iterator[tuple[Descriptor, ...]]:
    if dma.is_spread:
        return spread_bundles(copy, dma)
    return bundles(copy, dma.partitions_per_cycle)


def _engines(copy: DmaCopy, dma: Dma) -> frozenset[int]:
    """Return the engines whose partitions a copy writes, or else reads; all within DRAM."""
    for access in (copy.target, copy.source):
        if access.buffer is not Buffer.DRAM:
            return frozenset(dma.engine_of(access.partition + n) for n in range(access.partitions))
    return frozenset(range(dma.engine_count))


def latency_cycles(chip: Chip, job: CopyJob) -> int:
    """Return the cycles in which nothing happens before a copy's first descriptor."""
    if job.is_dram:
        return chip.dma.latency_cycles + chip.dram.latency_cycles
    return chip.dma.latency_cycles


def from_everywhere(bundle: Sequence[Descriptor], first: int, size: int) -> Any:
    """Return the index of `size` bytes that fill the runs of a transpose, from byte `first` on."""
    column, row = np.divmod(np.arange(first, first + size), len(bundle))
    gathered = [part.gathered for part in bundle if part.gathered is not None]
    places = np.stack(gathered)  # [rows, 2, elements]
    element, byte = np.divmod(column, bundle[0].size_bytes // places.shape[2])
    return places[row, 0, element], places[row, 1, element] + byte


def where(places: Sequence[RunStart], first: int, size: int) -> Any:
    """Return the index, in a buffer's bytes, of `size` bytes of a bundle from byte `first` on."""
    if len(places) == 1:
        low = places[0].byte + first
        return places[0].partition, slice(low, low + size)
    column, row = np.divmod(np.arange(first, first + size), len(places))
    starts = np.array(places)
    return starts[row, 0], starts[row, 1] + column


class DmaQueue(Unit):
    """One queue of a DMA engine. Queues share their engine's bandwidth, DRAM's, and ports."""

    def __init__(
        self, context: Context, number: int, spec: Dma | None = None, period: int | None = None
    ) -> None:
        chip = context.chip
        self._number = number
        self._spec, self._dram = spec or chip.dma, chip.dram
        self._job: CopyJob | None = None
        self._line: deque[CopyJob] = deque()
        self._landing: list[tuple[Array, Any, Array]] = []
        super().__init__(context, dma_queue(number), period or chip.period("dma"), self._spec)

    def begin(self, tick: int) -> None:
        """Start a cycle, and say whether this queue holds shares in it."""
        if self._job is None and self._line:
            self._job = self._line.popleft()
        super().begin(tick)
        job = self._job
        if job is not None and job.latency_left == 0:
            self.context.dma_shares[self._number] = self.now, job.shares
            self.context.dma_engines[self._number] = job.engines
        for behind in self._line:
            if behind.latency_left:
                behind.latency_left -= 1
                self.claims.mark("filling", self.now, self.now + 1)

    def request(self, tick: int) -> None:
        """Spend one cycle on the copy in hand."""
        job = self._job
        if job is None:
            return
        if job.latency_left:
            job.latency_left -= 1
            self.claims.mark("filling", self.now, self.now + 1)
        elif self._spec.descriptor_cost == "max":
            self._fetch_and_move(job, tick)
        elif job.fetch_left:
            job.fetch_left -= 1
            self.claims.mark("streaming", self.now, self.now + 1)
        else:
            self._move(job, tick)
            self._end_if_over(job, tick)

    def _fetch_and_move(self, job: CopyJob, tick: int) -> None:
        """Spend one cycle on a descriptor whose bytes move while it is fetched."""
        job.fetch_left = max(0, job.fetch_left - 1)
        if job.moved < job.passed_bytes:
            self._move(job, tick)
        else:
            self.claims.mark("streaming", self.now, self.now + 1)
        self._end_if_over(job, tick)

    def _land(self) -> None:
        for row, where, values in self._landing:
            row[where] = values
        self._landing.clear()

    def _is_resting(self) -> bool:
        return self._job is None and not self._line

    def _can_start(self, cycle: int) -> bool:
        return (self._job is not None) + len(self._line) < self._spec.outstanding

    def _make_job(self) -> Job:
        assert isinstance(self.head, DmaCopy)
        return CopyJob(self.head_index, self.head, self._spec)

    def _launch(self, job: Job, cycle: int) -> None:
        assert isinstance(job, CopyJob)
        job.latency_left = self._latency(job)
        job.fetch_left = self._cost(job)
        if self._job is None:
            self._job = job
        else:
            self._line.append(job)

    def _latency(self, job: CopyJob) -> int:
        return latency_cycles(self.context.chip, job)

    def _cost(self, job: CopyJob) -> int:
        """Return the cost of the bundle in hand: engines pay for theirs at the same time."""
        each = self._spec.descriptor_cycles
        return each if self._spec.is_spread else each * len(job.bundle)

    def _of_engines(self, job: CopyJob, active: dict[int, int]) -> int:
        """Return what the engines of the bundle in hand pass on in this cycle.

        All keep pace with the one that most copies share. active: queues under way.
        """
        rate, users = self._spec.bytes_per_cycle, self.context.dma_engines
        mates = [[q for q in active if engine in users[q]] for engine in sorted(job.engines)]
        most = max(mates, key=len)
        before = sum(queue < self._number for queue in most)
        at_once = self._spec.engine_count if job.shares > 1 else len(job.bundle)
        return at_once * self._share(rate, before, len(most))

    def _allowance(self, job: CopyJob) -> int:
        """Return what the copy may pass on in this cycle, from DRAM to DRAM counted twice."""
        if job.is_turned and self._rests(job):
            return 0
        active = self._active()
        own = self._of_engine(job, active)
        if not job.is_dram:
            return own
        first = sum(shares for queue, shares in active.items() if queue < self._number)
        total, shares = self._dram.bytes_per_cycle, sum(active.values())
        got = [self._share(total, first + k, shares) for k in range(job.shares)]
        if job.shares == 1:
            return min(own, got[0])
        if total < shares:
            return sum(got)  # one byte for each share at most, and perhaps never both at once
        return 2 * min(own, *got)

    def _active(self) -> dict[int, int]:
        """Return the shares of DRAM that queues hold in this cycle, by queue."""
        held = self.context.dma_shares.items()
        return {queue: shares for queue, (cycle, shares) in held if cycle == self.now}

    def _of_engine(self, job: CopyJob, active: dict[int, int]) -> int:
        """Return what the copy gets in this cycle of its engine, or of all that serve it."""
        if self._spec.is_spread:
            return self._of_engines(job, active)
        engines = self._spec.engine_count
        mates = [queue for queue in active if queue % engines == self._number % engines]
        before = sum(queue < self._number for queue in mates)
        return self._share(self._spec.bytes_per_cycle, before, len(mates))

    def _rests(self, job: CopyJob) -> bool:
        """Return whether nothing of a transpose moves in this cycle."""
        turns = self._spec.transposes
        assert turns is not None
        percent = turns.percent(outside=job.is_dram)
        assert percent is not None
        moving = Fraction(percent, 100)
        return self.now % moving.denominator >= moving.numerator

    def _share(self, total: int, number: int, shares: int) -> int:
        """Return the bytes of one share in this cycle: what remains of all goes round."""
        each, over = divmod(total, shares)
        return each + ((number - self.now * over) % shares < over)

    def _move(self, job: CopyJob, tick: int) -> None:
        stop = min(job.moved + self._through_ports(job), job.passed_bytes)
        if stop == job.moved:  # its turn at DRAM comes in a later cycle
            self.claims.mark("streaming", self.now, self.now + 1)
            return
        low, size = job.moved // job.passes, stop // job.passes - job.moved // job.passes
        if self._has_ports(job, low, low + size, tick):
            job.moved = stop
            self._transfer(job, low, size, tick)

    def _has_ports(self, job: CopyJob, low: int, high: int, tick: int) -> bool:
        """Take the ports of bytes low <= byte < high of the bundle, all or none."""
        return self._take_ports(job, self._ports_of_bundle(job, low, high), tick)

    def _through_ports(self, job: CopyJob) -> int:
        """Return the allowance, or what the ports of the bundle's partitions let pass of it."""
        allowance, width = self._allowance(job), self.context.chip.state_buffer.port_bytes
        if width is None or Buffer.STATE not in (job.source.buffer, job.target.buffer):
            return allowance
        return min(allowance, width * len(job.bundle))

    def _ports_of_bundle(self, job: CopyJob, low: int, high: int) -> tuple[Wanted, ...]:
        """Return the ports of bytes low <= byte < high of the bundle, taken in all of its rows.

        Its rows have one byte offset, so the same banks, in partitions next to one another.
        """
        rows = len(job.bundle)
        first, size = low // rows, -(-high // rows) - low // rows
        if job.is_turned:
            return (
                *self._ports_of_matrix(job.source),
                *self._ports_of(job.target, job.descriptor.target, first, size, "write", rows=rows),
            )
        return (
            *self._ports_of(job.source, job.descriptor.source, first, size, "read", rows=rows),
            *self._ports_of(job.target, job.descriptor.target, first, size, "write", rows=rows),
        )

    def _ports_of_matrix(self, source: Access) -> tuple[Wanted, ...]:
        """Return the ports of a transpose's source: its only bank, in all of its partitions."""
        low, high = source.span
        ports = self._ports.of_bytes(source.buffer, low, high, "read")
        return wanted(ports, source.lanes)

    def _take_ports(self, job: Job, needs: tuple[Wanted, ...], tick: int) -> bool:
        """Take all ports for this cycle, or none and note the first that is refused."""
        for want in needs:
            if refused := self._ports.refused(want, tick):
                winner = self._record_stall(job, refused)
                self.claims.mark(f"stalled by {winner}", self.now, self.now + 1)
                return False
        for want in needs:
            self._ports.take(want, tick, self.period, CLIENT)
        return True

    def _ports_of(
        self,
        access: Access,
        place: RunStart,
        moved: int,
        size: int,
        direction: str,
        *,
        rows: int = 1,
    ) -> tuple[Wanted, ...]:
        """Return the ports of bytes of `rows` runs, each in a partition of its own from `place`."""
        low = place.byte + moved
        ports = self._ports.of_bytes(access.buffer, low, low + size, direction)
        return wanted(ports, Interval(place.partition, place.partition + rows))

    def _transfer(self, job: CopyJob, first: int, size: int, tick: int) -> None:
        """Move `size` bytes of the descriptor from byte `first` on; they land in the next cycle."""
        self.claims.mark("streaming", self.now, self.now + 1)
        job.begin_work(tick)
        planes = self.context.planes
        source, target = planes.bytes_of(job.source.buffer), planes.bytes_of(job.target.buffer)
        if job.is_turned:
            out_of = from_everywhere(job.bundle, first, size)
        else:
            out_of = where([part.source for part in job.bundle], first, size)
        moving = source[out_of].copy()
        into = where([part.target for part in job.bundle], first, size)
        self._landing.append((target, into, moving))
        job.words.append(moving)

    def _end_if_over(self, job: CopyJob, tick: int) -> None:
        """End the descriptor in hand if it has been fetched and all of its bytes have moved."""
        if job.moved == job.passed_bytes and not job.fetch_left:
            job.end_work(tick)
            self._end_descriptor(job, tick)

    def _note_bundle(self, job: CopyJob, tick: int) -> None:
        """Record the words of the descriptors that have ended."""
        moved = np.concatenate(job.words)
        for row, part in enumerate(job.bundle):
            mine = np.ascontiguousarray(moved[row :: len(job.bundle)])
            self._record("read", job, part, mine, tick=tick)
            self._record("write", job, part, mine, tick=tick)
            job.sizes.append(part.size_bytes)

    def _end_descriptor(self, job: CopyJob, tick: int) -> None:
        self._note_bundle(job, tick)
        self._next_descriptor(job, tick)

    def _next_descriptor(self, job: CopyJob, tick: int) -> None:
        """Go on with the next descriptor, or end the copy."""
        job.words.clear()
        job.moved = 0
        if job.rest:
            job.bundle = job.rest.popleft()
            job.fetch_left = self._cost(job)
        else:
            self._job = None
            self.context.recorder.transfers.add((size, 1) for size in job.sizes)
            self._retire(job, tick)

    def _record(
        self, kind: str, job: CopyJob, part: Descriptor, moved: Array, *, tick: int
    ) -> None:
        """Record the words of a descriptor that were read, or written."""
        if not self.context.recorder.wants(kind):
            return
        access, place = (job.source, part.source) if kind == "read" else (job.target, part.target)
        values = moved.view(data_type(access.dtype).numpy)
        count = len(values)
        if kind == "read" and part.gathered is not None:
            partitions, starts = part.gathered
            addresses = starts // access.element_bytes
        else:
            partitions = np.full(count, place.partition)
            addresses = place.byte // access.element_bytes + np.arange(count)
        self.context.recorder.words(
            kind,
            self.name,
            job.index,
            Words(
                ticks=np.full(count, tick, np.int64),
                partitions=partitions,
                addresses=addresses,
                buffer=access.buffer,
                dtype=access.dtype,
                values=values,
            ),
        )
