"""Twin of `event.dma.bursts`: a DMA queue of DRAM with banks, its bursts cycle by cycle."""

from __future__ import annotations

from collections import Counter, deque

import numpy as np

from systolic.arrays import Array
from systolic.hw.spec import Chip
from systolic.isa import Buffer, DmaCopy
from systolic.machine.register.context import Context
from systolic.machine.register.dma.descriptors import Descriptor, descriptors
from systolic.machine.register.dma.unit import CopyJob, DmaQueue
from systolic.machine.register.dram.channels import Burst, DramChannels
from systolic.machine.register.ports.ports import Wanted
from systolic.machine.register.unit import Job


class FetchedDescriptor:
    """A descriptor that has been fetched.

    asked: bytes asked of the side whose bursts come first; back: bytes asked of the target, from
    DRAM to DRAM; left: bytes that have not yet reached the target; staged: what has been read, and
    has: which bytes of it are of bursts that have ended.
    """

    def __init__(self, part: Descriptor) -> None:
        self.part = part
        self.asked = self.back = 0
        self.left = part.size_bytes
        self.staged: Array = np.zeros(part.size_bytes, np.uint8)
        self.has: Array = np.zeros(part.size_bytes, bool)


class BurstJob(CopyJob):
    """A copy that touches DRAM.

    runs: descriptors by number, once fetched and until they end; newest: the number of that fetched
    last; fetched_at: the cycle in which it has been fetched; hand: bursts in hand; width: bytes
    that move in a cycle of a burst; port_bytes: that pass a port in a cycle.
    """

    def __init__(self, index: int, copy: DmaCopy, chip: Chip) -> None:
        super().__init__(index, copy, chip.dma)
        in_state = Buffer.STATE in (copy.source.buffer, copy.target.buffer)
        self.width, _ = chip.burst_cycles(in_state=in_state)
        self.port_bytes = chip.state_buffer.port_bytes if in_state else None
        self.from_dram = copy.source.buffer is Buffer.DRAM
        self.into_dram = copy.target.buffer is Buffer.DRAM
        self.to_fetch = deque(descriptors(copy.source, copy.target))
        self.runs: dict[int, FetchedDescriptor] = {}
        self.newest = -1
        self.fetched_at = 0
        self.hand: list[Burst] = []

    @property
    def is_over(self) -> bool:
        """Return whether every descriptor has ended."""
        return not self.to_fetch and not self.runs


class BurstQueue(DmaQueue):
    """One queue, whose copies from and to DRAM go burst by burst."""

    def __init__(self, context: Context, number: int, dram: DramChannels) -> None:
        super().__init__(context, number)
        parts = context.chip.dram.organisation
        assert parts is not None
        self._channels, self._most = dram, parts.outstanding
        self._moves_unfetched = context.chip.dma.descriptor_cost == "max"

    def begin(self, tick: int) -> None:
        """Start a cycle, and take bursts in hand."""
        super().begin(tick)
        job = self._job
        if isinstance(job, BurstJob) and not job.latency_left:
            while len(job.hand) < self._most and self._take(job):
                pass

    def request(self, tick: int) -> None:
        """Spend one cycle on the copy in hand."""
        job = self._job
        if isinstance(job, BurstJob) and not job.latency_left:
            self._continue(job, tick)
            self._end_runs(job, tick)
        else:
            super().request(tick)

    def _make_job(self) -> Job:
        assert isinstance(self.head, DmaCopy)
        if Buffer.DRAM in (self.head.source.buffer, self.head.target.buffer):
            return BurstJob(self.head_index, self.head, self.context.chip)
        return super()._make_job()

    def _take(self, job: BurstJob) -> bool:
        """Take one more burst in hand, or begin to fetch; return whether to go on in this cycle."""
        if job.from_dram and job.into_dram and self._take_back(job):
            return True
        run = job.runs.get(job.newest)
        is_known = self._moves_unfetched or self.now >= job.fetched_at
        if run is not None and run.asked < run.part.size_bytes and is_known:
            base = run.part.source.byte if job.from_dram else run.part.target.byte
            burst = self._ask(job, job.newest, base, run.asked, to_dram=not job.from_dram)
            run.asked = burst.high
            return True
        if not job.to_fetch or self.now < job.fetched_at:
            return False
        job.newest += 1
        job.runs[job.newest] = FetchedDescriptor(job.to_fetch.popleft())
        job.fetched_at = self.now + self._spec.descriptor_cycles
        return True

    def _take_back(self, job: BurstJob) -> bool:
        """Write the next burst of the target, if its bytes have been read."""
        for number, run in job.runs.items():
            size, base = run.part.size_bytes, run.part.target.byte
            if run.back == size:
                continue
            burst_bytes = self._burst_bytes
            high = min(size, run.back + burst_bytes - (base + run.back) % burst_bytes)
            if not run.has[run.back : high].all():
                return False
            run.back = self._ask(job, number, base, run.back, to_dram=True).high
            return True
        return False

    @property
    def _burst_bytes(self) -> int:
        parts = self._dram.organisation
        assert parts is not None
        return parts.burst_bytes

    def _ask(self, job: BurstJob, number: int, base: int, low: int, *, to_dram: bool) -> Burst:
        size = job.runs[number].part.size_bytes
        burst = self._channels.ask(
            self._number, number, base, low, size, to_dram=to_dram, now=self.now, width=job.width
        )
        job.hand.append(burst)
        return burst

    def _continue(self, job: BurstJob, tick: int) -> None:
        if job.hand:
            self._channels.arrange(self.now)
        moving = self._passing(job, [b for b in job.hand if self._channels.moves(b)])
        # Bursts that move in one cycle may need the same port: they share it.
        needs = {want for burst in moving for want in self._ports_of_burst(job, burst)}
        if not self._take_ports(job, tuple(sorted(needs)), tick):
            return
        self.claims.mark("streaming", self.now, self.now + 1)
        if moving:
            job.begin_work(tick)
        for burst in moving:
            low, high = self._bytes_now(burst)
            if low < high:
                self._carry(job, burst, low, high)
            if burst.pass_cycle() == burst.cycles:
                self._end_burst(job, burst)

    def _bytes_now(self, burst: Burst) -> tuple[int, int]:
        """Return the bytes of the descriptor that move in this cycle of the burst."""
        first = burst.low - burst.skipped + burst.cycle * burst.width
        return max(burst.low, first), min(burst.high, first + burst.width)

    def _passing(self, job: BurstJob, moving: list[Burst]) -> list[Burst]:
        """Return the bursts whose bytes pass the ports in this cycle beside those of older ones."""
        if job.port_bytes is None:
            return moving
        used: Counter[tuple[int, int]] = Counter()
        passing = []
        for burst in moving:  # the queue has them in the order in which they were taken
            more = used + self._bytes_by_bank(job, burst)
            if max(more.values(), default=0) <= job.port_bytes:
                passing.append(burst)
                used = more
        return passing

    def _bytes_by_bank(self, job: BurstJob, burst: Burst) -> Counter[tuple[int, int]]:
        """Return how many bytes of each (partition, bank) a burst moves in this cycle."""
        part = job.runs[burst.run].part
        near = part.source if burst.to_dram else part.target
        bank_bytes = self.context.chip.state_buffer.bank_bytes
        low, high = self._bytes_now(burst)
        return Counter((near.partition, (near.byte + at) // bank_bytes) for at in range(low, high))

    def _ports_of_burst(self, job: BurstJob, burst: Burst) -> tuple[Wanted, ...]:
        low, high = self._bytes_now(burst)
        if low >= high:
            return ()
        part = job.runs[burst.run].part
        if burst.to_dram:
            return self._ports_of(job.source, part.source, low, high - low, "read")
        return self._ports_of(job.target, part.target, low, high - low, "write")

    def _carry(self, job: BurstJob, burst: Burst, low: int, high: int) -> None:
        """Move bytes; they land in the next cycle."""
        run, planes = job.runs[burst.run], self.context.planes
        part = run.part
        if not (job.from_dram and burst.to_dram):
            source = planes.bytes_of(job.source.buffer)[part.source.partition]
            run.staged[low:high] = source[part.source.byte + low : part.source.byte + high]
        if burst.to_dram or not job.into_dram:
            target = planes.bytes_of(job.target.buffer)[part.target.partition]
            at = part.target.byte
            self._landing.append((target, slice(at + low, at + high), run.staged[low:high].copy()))

    def _end_burst(self, job: BurstJob, burst: Burst) -> None:
        self._channels.release(burst)
        job.hand.remove(burst)
        run = job.runs[burst.run]
        if not burst.to_dram:
            run.has[burst.low : burst.high] = True
        if burst.to_dram or not job.into_dram:
            run.left -= burst.high - burst.low

    def _end_runs(self, job: BurstJob, tick: int) -> None:
        """End the descriptors whose bytes have moved, the newest when it is fetched too."""
        for number in [n for n, run in job.runs.items() if not run.left]:
            if number == job.newest and self.now + 1 < job.fetched_at:
                continue
            run = job.runs.pop(number)
            self._record("read", job, run.part, run.staged, tick=tick)
            self._record("write", job, run.part, run.staged, tick=tick)
            job.sizes.append(run.part.size_bytes)
        if job.is_over:
            job.end_work(tick)
            self._job = None
            self.context.recorder.transfers.add((size, 1) for size in job.sizes)
            self._retire(job, tick)


def dma_queues(context: Context) -> list[DmaQueue]:
    """Return the queues of the chip's DMA engine."""
    numbers = range(context.chip.dma.queues)
    if context.dram is None:
        return [DmaQueue(context, number) for number in numbers]
    return [BurstQueue(context, number, context.dram) for number in numbers]
