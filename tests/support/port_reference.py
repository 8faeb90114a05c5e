"""Ports of the state buffer, stepped tick by tick: a third model, for whole programs of accesses.

Every byte of every access is a wish for one port of one partition; in every tick all are asked for
one by one. Knows fills and copies of the engines (one at a time), loads, and DMA copies on the
chip, without semaphores and dispatch. Shares no code with the machine. Rules:
docs/timing_model.md, sections 4 to 6.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, Copy, DmaCopy, Instruction, LoadWeights, Memset, Program
from systolic.trace.records import ALL_PARTITIONS, Stall

Wish = tuple[int, str, int]
"""Bank, direction, partition."""
Run = tuple[tuple[int, int], tuple[int, int], int]
"""Partition and byte of a descriptor's source, of its target, and its bytes."""


@dataclass
class Job:
    """An instruction: the wishes of each of its cycles, and what became of it.

    reads: cycles after whose last another may start; cycles: ticks at which each was spent.
    """

    index: int
    unit: str
    client: str
    period: int
    wishes: list[list[Wish]]
    reads: int
    start: int = -1
    cycles: list[int] = field(default_factory=list)
    lost: list[tuple[int, Wish, str]] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return len(self.cycles) == len(self.wishes)


@dataclass
class Holder:
    """A port in use: by what, for which partition, until when."""

    unit: str
    client: str
    partition: int
    until: int


class PortReference:
    """One run. `times`: by instruction (start, first, last, done); `stalls`: as the trace's."""

    def __init__(self, chip: Chip, program: Program) -> None:
        self.chip = chip
        self.split = chip.state_buffer.port_scope == "partition"
        self.queues: dict[str, list[Job]] = defaultdict(list)
        for index, instruction in enumerate(program.instructions):
            job = self.job(index, instruction)
            self.queues[job.unit].append(job)
        self.jobs = [job for queue in self.queues.values() for job in queue]
        self.held: dict[tuple[int, str], list[Holder]] = defaultdict(list)
        self.step_all()

    def step_all(self) -> None:
        tick = 0
        while not all(job.is_over for job in self.jobs):
            for client in self.chip.port_priority:
                for job in self.ready(client, tick):
                    self.spend(job, tick)
            tick += 1

    def ready(self, client: str, tick: int) -> Iterator[Job]:
        """Yield the jobs of a client that have a cycle at `tick`, the first of them first."""
        for unit in sorted(self.queues):
            earlier: Job | None = None
            for job in self.queues[unit]:
                if job.client != client or tick % job.period:
                    break
                if earlier is not None and (
                    len(earlier.cycles) < earlier.reads or earlier.cycles[earlier.reads - 1] == tick
                ):
                    break
                if job.start < 0:
                    job.start = tick
                earlier = job
                if not job.is_over:
                    yield job

    def spend(self, job: Job, tick: int) -> None:
        """Take all ports of the job's next cycle, or none and note the first that is held."""
        wishes = job.wishes[len(job.cycles)]
        for wish in wishes:
            holder = self.holder(job, wish, tick)
            if holder is not None:
                job.lost.append((tick, wish, holder.client))
                return
        for bank, direction, partition in wishes:
            holder = Holder(job.unit, job.client, partition, tick + job.period)
            self.held[bank, direction].append(holder)
        job.cycles.append(tick)

    def holder(self, job: Job, wish: Wish, tick: int) -> Holder | None:
        bank, direction, partition = wish
        live = [h for h in self.held[bank, direction] if h.until > tick]
        self.held[bank, direction] = live
        for holder in live:
            if holder.partition == partition or not (self.split or holder.unit == job.unit):
                return holder
        return None

    @property
    def times(self) -> dict[int, tuple[int, int, int, int]]:
        found = {}
        for job in self.jobs:
            needed = [t for t, wishes in zip(job.cycles, job.wishes, strict=True) if wishes]
            if job.client == "dma":
                found[job.index] = job.start, needed[0], needed[-1], needed[-1]
            else:
                last = job.cycles[job.reads - 1]
                found[job.index] = job.start, job.cycles[0], last, job.cycles[-1]
        return found

    @property
    def stalls(self) -> tuple[Stall, ...]:
        return tuple(sorted(stall for job in self.jobs for stall in self._stalls(job)))

    def _stalls(self, job: Job) -> Iterator[Stall]:
        runs: list[tuple[int, tuple[int, str, str, int], int]] = []
        for tick, (bank, direction, partition), winner in job.lost:
            named = partition if self.split else ALL_PARTITIONS
            what = (bank, direction, winner, named)
            if runs and runs[-1][1] == what and runs[-1][0] + runs[-1][2] * job.period == tick:
                runs[-1] = (runs[-1][0], what, runs[-1][2] + 1)
            else:
                runs.append((tick, what, 1))
        for tick, (bank, direction, winner, named), cycles in runs:
            yield Stall(
                tick, job.unit, job.index, cycles, "state_buffer", bank, direction, winner, named
            )

    # What an instruction wishes for, cycle by cycle.

    def job(self, index: int, instruction: Instruction) -> Job:
        chip = self.chip
        match instruction:
            case Copy() | Memset():
                engine = {"activation": chip.activation, "pooling": chip.pooling}[
                    instruction.engine
                ]
                wishes = self.of_engine(
                    instruction, engine.elements_per_cycle, engine.latency_cycles
                )
                unit = client = instruction.engine
                reads = len(wishes) - engine.latency_cycles
            case LoadWeights():
                unit, client, wishes = "pe_array", "weights", self.of_load(instruction.weights)
                reads = len(wishes)
            case DmaCopy():
                unit, client = f"dma{instruction.dma_queue}", "dma"
                wishes = list(self.of_copy(instruction))
                reads = len(wishes)
            case _:
                raise AssertionError(f"{instruction} is not known here")
        clock = "dma" if client == "dma" else unit
        return Job(index, unit, client, chip.period(clock), wishes, reads)

    def of_engine(self, instruction: Copy | Memset, rate: int, latency: int) -> list[list[Wish]]:
        target = instruction.target
        groups = -(-target.elements // rate)
        wishes: list[list[Wish]] = [[] for _ in range(groups + latency)]
        for group in range(groups):
            mine = slice(group * rate, (group + 1) * rate)
            if isinstance(instruction, Copy):
                wishes[group] += self.of_elements(instruction.source, mine, "read")
        for group in range(groups):
            mine = slice(group * rate, (group + 1) * rate)
            wishes[group + latency] += self.of_elements(target, mine, "write")
        return wishes

    def of_load(self, weights: Access) -> list[list[Wish]]:
        array = self.chip.pe_array
        f, whole = array.fast_load, slice(None)
        if array.weight_path == "left":
            columns = range(0, weights.elements, f)
            return [self.of_elements(weights, slice(c, c + f), "read") for c in columns]
        stop = weights.partition + weights.partitions
        return [
            self.of_elements(weights, whole, "read", range(p, min(p + f, stop)))
            for p in range(weights.partition, stop, f)
        ]

    def of_copy(self, copy: DmaCopy) -> Iterator[list[Wish]]:
        """Yield latency, then for each bundle of descriptors its fetches and its bytes."""
        yield from ([] for _ in range(self.chip.dma.latency_cycles))
        dma, width = self.chip.dma, self.chip.state_buffer.port_bytes
        for ((p, a), (q, b), size), rows in self.bundles(copy):
            yield from ([] for _ in range(rows * dma.descriptor_cycles))
            rate = min(dma.bytes_per_cycle, rows * (width or dma.bytes_per_cycle))
            for low in range(0, rows * size, rate):
                moving = [byte // rows for byte in range(low, min(rows * size, low + rate))]
                yield [
                    *self.of_bytes([a + m for m in moving], range(p, p + rows), "read"),
                    *self.of_bytes([b + m for m in moving], range(q, q + rows), "write"),
                ]

    def bundles(self, copy: DmaCopy) -> list[tuple[Run, int]]:
        """Return the first descriptor of each bundle, and of how many rows it is."""
        found: list[tuple[Run, int]] = []
        for run in self.descriptors(copy):
            if found:
                ((p, a), (q, b), size), rows = found[-1]
                beside = run == ((p + rows, a), (q + rows, b), size)
                if beside and rows < self.chip.dma.partitions_per_cycle:
                    found[-1] = found[-1][0], rows + 1
                    continue
            found.append((run, 1))
        return found

    def descriptors(self, copy: DmaCopy) -> list[Run]:
        size = copy.source.element_bytes
        found: list[Run] = []
        pairs = zip(self.places(copy.source), self.places(copy.target), strict=True)
        for (p, a), (q, b) in pairs:
            if found:
                (p0, a0), (q0, b0), length = found[-1]
                if (p, a, q, b) == (p0, a0 + length, q0, b0 + length):
                    found[-1] = (p0, a0), (q0, b0), length + size
                    continue
            found.append(((p, a), (q, b), size))
        return found

    def places(self, access: Access) -> list[tuple[int, int]]:
        first = access.partition
        return [
            (p, e * access.element_bytes)
            for p in range(first, first + access.partitions)
            for e in access.offsets().tolist()
        ]

    def of_elements(
        self, access: Access, which: slice, direction: str, partitions: range | None = None
    ) -> list[Wish]:
        if access.buffer is not Buffer.STATE:
            return []
        size = access.element_bytes
        numbers = [e * size + k for e in access.offsets()[which].tolist() for k in range(size)]
        first = access.partition
        lanes = range(first, first + access.partitions) if partitions is None else partitions
        return self.of_bytes(numbers, lanes, direction)

    def of_bytes(self, numbers: range | list[int], partitions: range, direction: str) -> list[Wish]:
        size = self.chip.state_buffer.bytes_per_partition // self.chip.state_buffer.banks
        banks = sorted({number // size for number in numbers})
        return [(bank, direction, p) for bank in banks for p in partitions]
