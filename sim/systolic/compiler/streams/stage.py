"""What streams have in common while they are emitted: drafts, regions of memory, busy units."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from systolic.compiler.cost.copies import copied_or_transposed, move_cycles, transposed_cycles
from systolic.compiler.cost.engines import on_cheapest
from systolic.compiler.ir.dependencies import Ref, Region
from systolic.compiler.ir.drafts import Drafts
from systolic.compiler.ir.lane_step import LaneStep
from systolic.compiler.streams.buffers import Buffers, BufferSize
from systolic.compiler.streams.tiling import Cut, TurnCut
from systolic.hw.datatypes import SIZE_BYTES
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, DmaTranspose, MatMul, Select
from systolic.spans import Interval
from systolic.workload.options import Options


class StreamPlan(NamedTuple):
    """How a frame is done.

    cut: None if its elements are copied within DRAM, through any queues. slots: tiles in the state
    buffer at a time. load_queues, store_queues: the first DMA queues load, the last ones store.
    load_ways, store_ways: among how many queues each copy is shared. shares: of a tile's columns,
    an engine each; buffers lie with the middle of a row on the edge of two banks, so that engines
    have ports of their own.
    """

    cut: Cut | TurnCut | None
    slots: int = 1
    load_queues: int = 1
    store_queues: int = 1
    load_ways: int = 1
    store_ways: int = 1
    shares: int = 1


@dataclass(slots=True)
class Stage:
    """The drafts so far, where tensors lie in DRAM, and who uses which bytes.

    bases: the first byte of each tensor in DRAM. turned: the types that the array turns; for each
    there is an identity; stored: the types whose identity is there at cycle 0. busy: the ticks that
    each engine has been given; queued: the cycles of each DMA queue. tables: functions whose tables
    engines have been told of.
    """

    chip: Chip
    options: Options
    bases: dict[str, int]
    drafts: Drafts
    frames: int = 0
    tables: set[str] = field(default_factory=set)
    turned: Sequence[str] = ()
    stored: list[Access] = field(default_factory=list)
    _dram: dict[str, Region] = field(default_factory=dict)
    _used: list[tuple[Interval, Region]] = field(default_factory=list)
    _busy: dict[str, int] = field(default_factory=dict)
    _queued: dict[int, float] = field(default_factory=dict)
    _buffers: Buffers | None = None
    _identities: dict[str, tuple[Access, Region]] = field(default_factory=dict)
    _banks: list[Region] = field(default_factory=list)
    _turns: int = 0
    _free: int = 0

    def __post_init__(self) -> None:
        """Place an identity of each type that the array turns, at the end of the memory."""
        free = self.chip.state_buffer.bytes_per_partition
        array = self.chip.pe_array
        rows = min(array.rows, self.chip.state_buffer.partitions)
        for dtype in dict.fromkeys(self.turned):
            free -= -(-rows * SIZE_BYTES[dtype] // 64) * 64
            access = Access(Buffer.STATE, dtype, 0, rows, free, ((1, rows),))
            region = Region(f"identity.{dtype}")
            self._identities[dtype] = access, region
            if self.options.identity == "stored":
                self.stored.append(access)
                continue
            ones = LaneStep(
                Select,
                {"compare": "equal", "value": 1, "per_partition": 1, "per_element": -1},
                first="target",
            )
            self.on_engine("identity", ones, {"target": access}, [], region)
        self._free = free

    @property
    def turned_with(self) -> tuple[Access, ...]:
        """Return all identities."""
        return tuple(access for access, _ in self._identities.values())

    def identity(self, dtype: str) -> tuple[Access, Region]:
        """Return the identity of a type, [rows, rows], and its region."""
        return self._identities[dtype]

    @property
    def room(self) -> int:
        """Return the bytes of a partition before the identities."""
        return self._free

    def busiest(self) -> float:
        """Return about for how many ticks the busiest unit works."""
        array = sum(
            draft.instruction.moving.elements
            for draft in self.drafts.found
            if isinstance(draft.instruction, MatMul)
        )
        queued = sum(self._queued.values()) / self.chip.dma.queues * self.chip.period("dma")
        return max(
            array * self.chip.period("pe_array"),
            *self._busy.values(),
            queued,
            *(each * self.chip.period("dma") for each in self._queued.values()),
            0,
        )

    def bank(self) -> tuple[Region, int]:
        """Return the next bank of the result buffer, and its first byte."""
        if not self._banks:
            count = self.chip.result_buffer.banks
            self._banks = [Region(f"sums.{n}") for n in range(count)]
        number = self._turns % len(self._banks)
        self._turns += 1
        return self._banks[number], number * self.chip.result_buffer.bank_bytes

    def begin(self) -> None:
        """Begin a frame: its buffers have names of their own."""
        self.frames += 1

    def tensor(self, name: str) -> Region:
        """Return the region of a tensor in DRAM."""
        return self._dram.setdefault(name, Region(f"dram:{name}"))

    def buffers(
        self, names: Sequence[str], wanted: Sequence[BufferSize]
    ) -> list[TileBuffer] | None:
        """Return buffers beside the buffers of earlier frames, or over them; None without room.

        The users of a buffer wait for all earlier users of its bytes.
        """
        for begun in (self._buffers, Buffers.of(self.chip, self._free)):
            found = begun and begun.place_all(wanted)
            if found:
                self._buffers, firsts = found
                bank = self.chip.state_buffer.bank_bytes
                sizes = [each.size_bytes + (each.banks - 1) * bank for each in wanted]
                spans = [Interval(a, a + n) for a, n in zip(firsts, sizes, strict=True)]
                return self._regions(names, spans, [each.piece_bytes for each in wanted])
        return None

    def _regions(
        self, names: Sequence[str], spans: Sequence[Interval], pieces: Sequence[int]
    ) -> list[TileBuffer]:
        made = [
            (span, Region(name, list(dict.fromkeys(self._users(span))), place=span, piece_bytes=n))
            for name, span, n in zip(names, spans, pieces, strict=True)
        ]
        kept = [(left, region) for span, region in self._used for left in _left(span, spans)]
        self._used = [*kept, *made]
        return [TileBuffer(span.first, region) for span, region in made]

    def _users(self, span: Interval) -> Iterable[Ref]:
        for other, region in self._used:
            if span.meets(other):
                yield from region.users()

    def copy(
        self,
        layer: str,
        queues: Sequence[int],
        ends: tuple[Access, Access],
        regions: tuple[Region, Region],
    ) -> None:
        """Add a copy from a source to a target, through the queue that has least to do."""
        source, target = ends
        queue = min(queues, key=lambda q: self._queued.get(q, 0.0))
        copy = copied_or_transposed(self.chip, queue, source, target)
        cycles = move_cycles(self.chip, source, target)
        if isinstance(copy, DmaTranspose):
            cycles = round(transposed_cycles(self.chip, source, target))
        self._queued[queue] = self._queued.get(queue, 0.0) + cycles
        self.drafts.begin(layer)
        read, written = regions
        self.drafts.add(copy, [read], [written])

    def on_engine(
        self,
        layer: str,
        step: LaneStep,
        named: dict[str, Access],
        reads: Sequence[Region],
        write: Region,
        *,
        wanted: str = "",
    ) -> None:
        """Add a step's instruction, on the engine that has done it first, or on a wanted one.

        Raises CompileError if the chip has no engine for it.
        """
        made = on_cheapest(self.chip, self.options, step, self._busy, wanted, **named)
        self.drafts.begin(layer)
        self.drafts.add(made, list({id(region): region for region in reads}.values()), [write])


class TileBuffer(NamedTuple):
    """The first byte of a buffer in each partition, and the region that tells who uses it."""

    first: int
    region: Region


def _left(span: Interval, taken: Sequence[Interval]) -> list[Interval]:
    """Return what is left of some bytes when others have been taken over."""
    found = [span]
    for each in taken:
        found = [
            part
            for left in found
            for part in (
                Interval(left.first, min(left.stop, each.first)),
                Interval(max(left.first, each.stop), left.stop),
            )
            if part.first < part.stop
        ]
    return found
