"""Twin of `event.dma.bursts`: a DMA queue of DRAM with banks, one burst in hand, cycle by cycle."""

from __future__ import annotations

import numpy as np

from systolic.arrays import Array
from systolic.isa import Buffer, DmaCopy
from systolic.machine.register.context import Context
from systolic.machine.register.dma.unit import CopyJob, DmaQueue
from systolic.machine.register.dram.channels import Burst, Dram
from systolic.machine.register.ports.ports import Wanted
from systolic.machine.register.unit import Job


class BurstJob(CopyJob):
    """A copy that touches DRAM.

    burst: the one in hand; read, written: bytes of the descriptor that have left the source and
    reached the target; staged: what has been read on the way from DRAM to DRAM.
    """

    def __init__(self, index: int, copy: DmaCopy) -> None:
        super().__init__(index, copy)
        self.from_dram = copy.source.buffer is Buffer.DRAM
        self.into_dram = copy.target.buffer is Buffer.DRAM
        self.burst: Burst | None = None
        self.read = self.written = 0
        self.staged: Array = np.zeros(0, np.uint8)


class BurstQueue(DmaQueue):
    """One queue, whose copies from and to DRAM go burst by burst."""

    def __init__(self, context: Context, number: int, dram: Dram) -> None:
        super().__init__(context, number)
        self._channels = dram

    def begin(self, tick: int) -> None:
        """Start a cycle; a burst whose descriptor has been fetched is asked for in it."""
        super().begin(tick)
        job = self._job
        if isinstance(job, BurstJob) and not (job.latency_left or job.fetch_left or job.burst):
            job.burst = self._next_burst(job)
            self._channels.ask(job.burst)

    def request(self, tick: int) -> None:
        """Spend one cycle on the copy in hand."""
        job = self._job
        if isinstance(job, BurstJob) and job.burst:
            self._channels.arrange(self.now)
            self._continue(job, job.burst, tick)
        else:
            super().request(tick)

    def _make_job(self) -> Job:
        assert isinstance(self.head, DmaCopy)
        if Buffer.DRAM in (self.head.source.buffer, self.head.target.buffer):
            return BurstJob(self.head_index, self.head)
        return super()._make_job()

    def _next_burst(self, job: BurstJob) -> Burst:
        part, size = job.descriptor, job.descriptor.size_bytes
        if job.into_dram:
            write = self._channels.burst(
                self._number, part.target.byte, job.written, size, to_dram=True
            )
            if not job.from_dram or write.high <= job.read:
                return write
        return self._channels.burst(self._number, part.source.byte, job.read, size, to_dram=False)

    def _continue(self, job: BurstJob, burst: Burst, tick: int) -> None:
        if not self._channels.moves(burst):
            self.claims.mark("streaming", self.now, self.now + 1)
            return
        low, high = self._bytes_now(burst)
        ports = self._ports_of_burst(job, burst, low, high)
        if not self._take_ports(job, ports, tick):
            return
        self.claims.mark("streaming", self.now, self.now + 1)
        if job.first < 0:
            job.first = tick
        if low < high:
            self._carry(job, burst, low, high)
        burst.cycle += 1
        if burst.cycle == self._channels.burst_cycles:
            self._end_burst(job, burst, tick)

    def _bytes_now(self, burst: Burst) -> tuple[int, int]:
        """Return the bytes of the descriptor that move in this cycle of the burst."""
        width = self._channels.width
        first = burst.low - burst.skipped + burst.cycle * width
        return max(burst.low, first), min(burst.high, first + width)

    def _ports_of_burst(
        self, job: BurstJob, burst: Burst, low: int, high: int
    ) -> tuple[Wanted, ...]:
        if low >= high:
            return ()
        part = job.descriptor
        if burst.to_dram:
            return self._ports_of(job.source, part.source, low, high - low, "read")
        return self._ports_of(job.target, part.target, low, high - low, "write")

    def _carry(self, job: BurstJob, burst: Burst, low: int, high: int) -> None:
        """Move bytes; they land in the next cycle."""
        part, planes = job.descriptor, self.context.planes
        target = planes.bytes_of(job.target.buffer)[part.target.partition]
        both = job.from_dram and job.into_dram
        if both and burst.to_dram:
            moving = job.staged[low:high]
        else:
            source = planes.bytes_of(job.source.buffer)[part.source.partition]
            moving = source[part.source.byte + low : part.source.byte + high].copy()
            job.words.append(moving)
        if both and not burst.to_dram:
            job.staged = np.concatenate([job.staged, moving])
        else:
            at = part.target.byte
            self._landing.append((target, slice(at + low, at + high), moving))

    def _end_burst(self, job: BurstJob, burst: Burst, tick: int) -> None:
        self._channels.release(burst)
        job.burst = None
        if burst.to_dram:
            job.written = burst.high
        else:
            job.read = burst.high
        through = job.written if job.into_dram else job.read
        if through == job.descriptor.size_bytes:
            job.read = job.written = 0
            job.staged = job.staged[:0]
            job.last = tick
            self._end_descriptor(job, tick)


def dma_queues(context: Context) -> list[DmaQueue]:
    """Return the queues of the chip's DMA engine."""
    numbers = range(context.chip.dma.queues)
    if context.dram is None:
        return [DmaQueue(context, number) for number in numbers]
    return [BurstQueue(context, number, context.dram) for number in numbers]
