"""The DMA queues of a chip: their copies go piece by piece, to and from any core."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import simpy

from systolic.hw.spec.places import ChipPlace, place_of
from systolic.isa import DmaCopy, DmaMove, DmaTranspose, Instruction
from systolic.isa.legality.chip_program import copy_ends
from systolic.machine.event.chip.bursts import ArbitratedBursts, BurstPiece, PieceOfBursts
from systolic.machine.event.chip.stream import PieceStream
from systolic.machine.event.chip.ways import PiecePlan, Ways, WholePlan
from systolic.machine.event.dma.descriptors import source_order
from systolic.machine.event.dma.unit import PLANS_KEPT, DmaUnit, InLine
from systolic.machine.event.dram.channels import Channels
from systolic.machine.event.ports.stream import Asker
from systolic.machine.event.unit import Context
from systolic.machine.values.chip_memory import ChipMemory
from systolic.trace.records import InstructionTimes
from systolic.trace.words import Words

Plans = dict[Hashable, WholePlan]
ChipStream = PieceStream | PieceOfBursts


class ChipDmaUnit(DmaUnit):
    """One queue of a core or processor.

    Args:
        context: of the place that feeds it.
        place: that core or processor.
        number: of the queue there.
        on_chip: of the queue among all of the chip.
        queue: its instructions.
        ways: where copies of the place go.
        channels: of controllers whose DRAM has banks.
        plans: of copies that were planned before.
        memory: of the chip.
        on_code: called with the core whose code has come, and the tick from which it is there.

    """

    def __init__(
        self,
        context: Context,
        place: ChipPlace,
        number: int,
        on_chip: int,
        queue: Sequence[int],
        *,
        ways: Ways,
        channels: Channels | None,
        plans: Plans,
        memory: ChipMemory,
        on_code: Callable[[str, int], None],
    ) -> None:
        super().__init__(context, number, queue)
        self._place, self._on_chip = place, on_chip
        self._ways, self._channels = ways, channels
        self._whole_plans, self._chip_memory = plans, memory
        self._on_code = on_code

    def start(self, index: int, instruction: Instruction, *, asks_last: bool) -> None:
        """Begin a copy in the present tick."""
        assert isinstance(instruction, DmaCopy)
        plan = self._whole(instruction)
        streams = [self._stream_of(index, piece) for piece in plan.pieces]
        values = self._moved_values(instruction)
        start, ready = self.env.tick, self.env.tick + plan.latency_cycles * self.period
        sources: Any = None
        first = streams[0]
        if isinstance(first, PieceStream) and len(streams) == 1 and self._outstanding == 1:
            sources = self._foretell(first, instruction, ready)
        else:
            self._under_way += 1
        self.claim("filling", start, ready)
        for before, after in pairwise(streams):
            before.then(self._follow(before, after))
        streams[-1].then(
            lambda: self._end(
                index, instruction, plan, streams, start, values=values, sources=sources
            )
        )
        if self._outstanding == 1:
            self._stream = streams[0]
            self.add_later(streams[0], plan.latency_cycles)
        else:
            self._line.append(InLine(streams[0], ready))
            self._look_at_line(plan.latency_cycles)

    def _stream_of(self, index: int, piece: PiecePlan | BurstPiece) -> ChipStream:
        """Return a piece of a copy on its way."""
        rank, held = (self._rank, self._on_chip), piece.holdings
        asker = Asker(self.name, "dma", index, rank, self.period, held)
        if isinstance(piece, PiecePlan):
            return PieceStream(self.env, self.chip, piece, self._ways, asker)
        make = ArbitratedBursts if piece.ends else PieceOfBursts
        assert self._channels is not None
        return make(
            self.env,
            self._channels,
            piece,
            asker,
            queue=self._on_chip,
            pace=self._ways.burst_pace,
        )

    def _follow(self, before: ChipStream, stream: ChipStream) -> Callable[[], None]:
        """Return what begins with the next piece, in the cycle after the last of the one before."""

        def begin() -> None:
            if isinstance(before, PieceOfBursts):
                before.conclude()
            self._stream = stream
            at_once = simpy.Timeout(self.env, 0)
            at_once.callbacks.append(lambda _: self.context.arbiter.add(stream))

        return begin

    def _whole(self, copy: DmaCopy) -> WholePlan:
        key = self._ways.likeness(copy, self._number)
        plan = self._whole_plans.get(key)
        if plan is None:
            plan = self._whole_plans[key] = self._ways.plan(copy, self._number)
            if len(self._whole_plans) > PLANS_KEPT:
                del self._whole_plans[next(iter(self._whole_plans))]
        return plan

    def _moved_values(self, copy: DmaCopy) -> tuple[npt.NDArray[Any], npt.NDArray[Any]] | None:
        """Make the copy in the memories; return what was read and written, if that is recorded."""
        if not self.context.values:
            return None
        own = str(self._place)
        if isinstance(copy, DmaTranspose):
            memory = self._chip_memory.of("", own)
            read = memory.read(copy.source).ravel()
            memory.turn(copy.source, copy.target)
            return read, read[source_order(copy)]
        _, at, source = copy_ends(copy)[0]
        read = self._chip_memory.of(at, own).read(source).ravel()
        written = self._chip_memory.copy(copy, own)
        return None if written is None else (read, written)

    def _end(
        self,
        index: int,
        copy: DmaCopy,
        plan: WholePlan,
        streams: list[ChipStream],
        start: int,
        *,
        values: tuple[npt.NDArray[Any], npt.NDArray[Any]] | None,
        sources: Any,
    ) -> None:
        last = streams[-1]
        if isinstance(last, PieceOfBursts):
            last.conclude()
        first, done = _first_of(streams[0]), last.span()[1]
        recorder = self.context.recorder
        recorder.transfers.add([run for stream in streams for run in stream.runs_by_size()])
        for stream in streams:
            for run in stream.progress:
                self.claim("streaming", run.tick, run.tick + run.slots * self.period)
        is_foretold = sources is not None
        if not is_foretold:
            seen = (done + self.post_delay,) * self.chip.dma.posts_per_copy
            sources = self.announce(copy.posts, lambda _: lambda: seen)
        self.settle(sources)
        times = InstructionTimes(index, self.name, start, first, done, done)
        for stream in streams[:-1]:
            self.note_stalls(index, stream)
            self.context.use_ports(stream)
        self.finish(times, streams[-1])
        for stream in streams:
            for port, cycles in stream.port_cycles.items():
                recorder.port_cycles[port] += cycles * self.period
        if values is not None and (recorder.wants("read") or recorder.wants("write")):
            self._record_words(index, copy, plan, streams, values)
        if isinstance(copy, DmaMove) and copy.brings_code:
            self._on_code(copy.target_at.removesuffix(".code"), done + self.period)
        if not is_foretold:
            self._free_place()

    def _record_words(
        self,
        index: int,
        copy: DmaCopy,
        plan: WholePlan,
        streams: list[ChipStream],
        values: tuple[npt.NDArray[Any], npt.NDArray[Any]],
    ) -> None:
        ticks = _ordered(np.concatenate([s.descriptor_ticks() for s in streams]), plan)
        sizes = _ordered(np.concatenate([s.sizes for s in streams]), plan)
        read, written = values
        is_turned = isinstance(copy, DmaTranspose)
        order: Any = source_order(copy) if isinstance(copy, DmaTranspose) else slice(None)
        for number, (_, at, access) in enumerate(copy_ends(copy)):
            core = place_of(at) or self._place
            kind = "write" if number else "read"
            if not self.context.recorder.wants(kind):
                continue
            mine: Any = order if number == 0 and is_turned else slice(None)
            partitions = np.repeat(np.arange(access.partitions) + access.partition, access.elements)
            addresses = np.tile(access.offsets(), access.partitions)
            found = Words(
                buffer=access.buffer,
                ticks=np.repeat(ticks, sizes // access.element_bytes),
                partitions=partitions[mine],
                addresses=addresses[mine],
                dtype=access.dtype,
                values=read[mine] if number == 0 else written,
                core=core.number,
            )
            self.context.recorder.words(kind, self.name, index, found)


def _first_of(stream: ChipStream) -> int:
    """Return the tick of the first byte of a piece that has ended, before others perhaps."""
    if isinstance(stream, PieceOfBursts):
        return stream.span()[0]
    assert stream.first_byte is not None, "each piece moves something"
    return stream.first_byte


def _ordered(moved: npt.NDArray[np.int64], plan: WholePlan) -> npt.NDArray[np.int64]:
    """Return numbers of the descriptors as they were moved in the order of the copy."""
    if plan.order is None:
        return moved
    found = np.empty_like(moved)
    found[plan.order] = moved
    return found
