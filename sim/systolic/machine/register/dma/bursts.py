"""Twin of `event.dma.bursts`: a DMA queue of DRAM with banks, its bursts cycle by cycle."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from systolic.arrays import Array
from systolic.hw.spec import Chip, Dma, DramOrganisation
from systolic.isa import Buffer, DmaCopy
from systolic.machine.register.context import Context
from systolic.machine.register.dma.descriptors import Descriptor, descriptors
from systolic.machine.register.dma.unit import CopyJob, DmaQueue
from systolic.machine.register.dram.channels import Burst, DramChannels
from systolic.machine.register.ports.ports import Wanted
from systolic.machine.register.unit import Job

AddressOf = Callable[[Descriptor], int]


class FetchedDescriptor:
    """A descriptor that has been fetched.

    asked: bytes asked of the side whose bursts come first; back: bytes asked of the target that is
    written when they have been read; left: bytes that have not yet reached the target; staged: what
    has been read, and has: which bytes of it are of bursts that have ended.
    """

    def __init__(self, part: Descriptor) -> None:
        self.part = part
        self.asked = self.back = 0
        self.left = part.size_bytes
        self.staged: Array = np.zeros(part.size_bytes, np.uint8)
        self.has: Array = np.zeros(part.size_bytes, bool)


@dataclass(frozen=True)
class BurstSides:
    """The ends in DRAM with banks of descriptors: where in it their bytes begin.

    lead: of the end whose bursts come first, which are writes if `lead_writes`; back: of the end
    that is written when they have been read, if there is one. width: bytes that move in a cycle of
    a burst. at_once: bursts of the queue that may move.
    """

    lead: AddressOf
    lead_writes: bool
    back: AddressOf | None
    width: int
    at_once: int


class BurstWork:
    """Descriptors that move in bursts, those that are fetched, and the bursts in hand.

    runs: descriptors by number, once fetched and until they end; newest: the number of that fetched
    last; fetched_at: the cycle in which it has been fetched; hand: bursts in hand.
    """

    def __init__(
        self,
        channels: DramChannels,
        rest: Iterable[Descriptor],
        sides: BurstSides,
        *,
        queue: int,
        parts: DramOrganisation,
        spec: Dma,
    ) -> None:
        self._channels, self._parts, self._queue, self._spec = channels, parts, queue, spec
        self._sides = sides
        self._rest = deque(rest)
        self.runs: dict[int, FetchedDescriptor] = {}
        self.newest = -1
        self.fetched_at = 0
        self.hand: list[Burst] = []

    @property
    def is_over(self) -> bool:
        """Return whether every descriptor has ended."""
        return not self._rest and not self.runs

    def take_all(self, now: int) -> None:
        """Take as many bursts in hand as there may be in a cycle."""
        while len(self.hand) < self._parts.outstanding and self._take(now):
            pass

    def is_back(self, burst: Burst) -> bool:
        """Return whether a burst writes what others have read from such DRAM."""
        return self._sides.back is not None and burst.to_dram

    def moving(self, now: int) -> list[Burst]:
        """Return the bursts that have a bus in a cycle, the oldest first."""
        if self.hand:
            self._channels.arrange(now)
        return [burst for burst in self.hand if self._channels.moves(burst)]

    def pass_cycle(self, burst: Burst) -> None:
        """Let a cycle of a burst pass, and end it with its last."""
        if burst.pass_cycle() < burst.cycles:
            return
        self._channels.release(burst)
        self.hand.remove(burst)
        run = self.runs[burst.run]
        if self._sides.back is None or burst.to_dram:
            run.left -= burst.high - burst.low
        else:
            run.has[burst.low : burst.high] = True

    def ended(self, now: int) -> Iterator[FetchedDescriptor]:
        """Yield the descriptors whose bytes have moved, the newest when it is fetched too."""
        for number in [n for n, run in self.runs.items() if not run.left]:
            if number != self.newest or self.fetched_at <= now + 1:
                yield self.runs.pop(number)

    def _take(self, now: int) -> bool:
        """Take one more burst in hand, or begin to fetch; return whether to go on in this cycle."""
        sides = self._sides
        if sides.back is not None and self._take_back(sides.back, now):
            return True
        run = self.runs.get(self.newest)
        is_known = self._spec.descriptor_cost == "max" or now >= self.fetched_at
        if run is not None and run.asked < run.part.size_bytes and is_known:
            base = sides.lead(run.part)
            run.asked = self._ask(self.newest, base, run.asked, to_dram=sides.lead_writes, now=now)
            return True
        if not self._rest or now < self.fetched_at:
            return False
        self.newest += 1
        self.runs[self.newest] = FetchedDescriptor(self._rest.popleft())
        self.fetched_at = now + self._spec.descriptor_cycles
        return True

    def _take_back(self, back: AddressOf, now: int) -> bool:
        """Write the next burst of the target, if its bytes have been read."""
        size_of_burst = self._parts.burst_bytes
        for number, run in self.runs.items():
            size, base = run.part.size_bytes, back(run.part)
            if run.back == size:
                continue
            high = min(size, run.back + size_of_burst - (base + run.back) % size_of_burst)
            if not run.has[run.back : high].all():
                return False
            run.back = self._ask(number, base, run.back, to_dram=True, now=now)
            return True
        return False

    def _ask(self, number: int, base: int, low: int, *, to_dram: bool, now: int) -> int:
        """Take a burst in hand; return the end of its bytes of the descriptor."""
        burst = self._channels.ask(
            self._queue,
            number,
            base,
            low,
            self.runs[number].part.size_bytes,
            to_dram=to_dram,
            now=now,
            width=self._sides.width,
            at_once=self._sides.at_once,
        )
        self.hand.append(burst)
        return burst.high


def bytes_now(burst: Burst) -> tuple[int, int]:
    """Return the bytes of its descriptor that move in this cycle of a burst."""
    first = burst.low - burst.skipped + burst.cycle * burst.width
    return max(burst.low, first), min(burst.high, first + burst.width)


class BurstJob(CopyJob):
    """A copy that touches DRAM. port_bytes: that pass a port in a cycle."""

    def __init__(self, index: int, copy: DmaCopy, chip: Chip) -> None:
        super().__init__(index, copy, chip.dma)
        in_state = Buffer.STATE in (copy.source.buffer, copy.target.buffer)
        self.port_bytes = chip.state_buffer.port_bytes if in_state else None
        self.from_dram = copy.source.buffer is Buffer.DRAM
        self.into_dram = copy.target.buffer is Buffer.DRAM
        width, _ = chip.burst_cycles(in_state=in_state)
        self.sides = BurstSides(
            _source_byte if self.from_dram else _target_byte,
            not self.from_dram,
            _target_byte if self.from_dram and self.into_dram else None,
            width,
            max(1, chip.dma.queue_bytes_per_cycle // width),
        )


def _source_byte(part: Descriptor) -> int:
    return part.source.byte


def _target_byte(part: Descriptor) -> int:
    return part.target.byte


class BurstQueue(DmaQueue):
    """One queue, whose copies from and to DRAM go burst by burst."""

    def __init__(self, context: Context, number: int, dram: DramChannels) -> None:
        super().__init__(context, number)
        parts = context.chip.dram.organisation
        assert parts is not None
        self._channels, self._parts = dram, parts
        self._works: dict[int, BurstWork] = {}

    def begin(self, tick: int) -> None:
        """Start a cycle, and take bursts in hand."""
        super().begin(tick)
        job = self._job
        if isinstance(job, BurstJob) and not job.latency_left:
            self._work(job).take_all(self.now)

    def request(self, tick: int) -> None:
        """Spend one cycle on the copy in hand."""
        job = self._job
        if isinstance(job, BurstJob) and not job.latency_left:
            work = self._work(job)
            self._continue(job, work, tick)
            self._end_runs(job, work, tick)
        else:
            super().request(tick)

    def _make_job(self) -> Job:
        assert isinstance(self.head, DmaCopy)
        if Buffer.DRAM in (self.head.source.buffer, self.head.target.buffer):
            return BurstJob(self.head_index, self.head, self.context.chip)
        return super()._make_job()

    def _work(self, job: BurstJob) -> BurstWork:
        """Return the bursts of a copy, which begin when its latency is over."""
        if job.index not in self._works:
            rest = descriptors(job.source, job.target)
            self._works[job.index] = BurstWork(
                self._channels,
                rest,
                job.sides,
                queue=self._number,
                parts=self._parts,
                spec=self._spec,
            )
        return self._works[job.index]

    def _continue(self, job: BurstJob, work: BurstWork, tick: int) -> None:
        moving = self._passing(job, work, work.moving(self.now))
        # Bursts that move in one cycle may need the same port: they share it.
        needs = {want for burst in moving for want in self._ports_of_burst(job, work, burst)}
        if not self._take_ports(job, tuple(sorted(needs)), tick):
            return
        self.claims.mark("streaming", self.now, self.now + 1)
        if moving:
            job.begin_work(tick)
        for burst in moving:
            low, high = bytes_now(burst)
            if low < high:
                self._carry(job, work, burst, low, high)
            work.pass_cycle(burst)

    def _passing(self, job: BurstJob, work: BurstWork, moving: list[Burst]) -> list[Burst]:
        """Return the bursts whose bytes pass the ports in this cycle beside older ones."""
        if job.port_bytes is None:
            return moving
        used: Counter[tuple[int, int]] = Counter()
        passing = []
        for burst in moving:
            more = used + self._bytes_by_bank(work, burst)
            if max(more.values(), default=0) <= job.port_bytes:
                passing.append(burst)
                used = more
        return passing

    def _bytes_by_bank(self, work: BurstWork, burst: Burst) -> Counter[tuple[int, int]]:
        """Return how many bytes of each (partition, bank) a burst moves in this cycle."""
        part = work.runs[burst.run].part
        near = part.source if burst.to_dram else part.target
        bank_bytes = self.context.chip.state_buffer.bank_bytes
        low, high = bytes_now(burst)
        return Counter((near.partition, (near.byte + at) // bank_bytes) for at in range(low, high))

    def _ports_of_burst(self, job: BurstJob, work: BurstWork, burst: Burst) -> tuple[Wanted, ...]:
        low, high = bytes_now(burst)
        if low >= high:
            return ()
        part = work.runs[burst.run].part
        if burst.to_dram:
            return self._ports_of(job.source, part.source, low, high - low, "read")
        return self._ports_of(job.target, part.target, low, high - low, "write")

    def _carry(self, job: BurstJob, work: BurstWork, burst: Burst, low: int, high: int) -> None:
        """Move bytes; they land in the next cycle."""
        run, planes = work.runs[burst.run], self.context.planes
        part = run.part
        if not work.is_back(burst):
            source = planes.bytes_of(job.source.buffer)[part.source.partition]
            run.staged[low:high] = source[part.source.byte + low : part.source.byte + high]
        if burst.to_dram or not job.into_dram:
            target = planes.bytes_of(job.target.buffer)[part.target.partition]
            at = part.target.byte
            self._landing.append((target, slice(at + low, at + high), run.staged[low:high].copy()))

    def _end_runs(self, job: BurstJob, work: BurstWork, tick: int) -> None:
        """End the descriptors whose bytes have moved."""
        for run in work.ended(self.now):
            self._record("read", job, run.part, run.staged, tick=tick)
            self._record("write", job, run.part, run.staged, tick=tick)
            job.sizes.append(run.part.size_bytes)
        if work.is_over:
            job.end_work(tick)
            self._job = None
            del self._works[job.index]
            self.context.recorder.transfers.add((size, 1) for size in job.sizes)
            self._retire(job, tick)


def dma_queues(context: Context) -> list[DmaQueue]:
    """Return the queues of the chip's DMA engine."""
    numbers = range(context.chip.dma.queues)
    if context.dram is None:
        return [DmaQueue(context, number) for number in numbers]
    return [BurstQueue(context, number, context.dram) for number in numbers]
