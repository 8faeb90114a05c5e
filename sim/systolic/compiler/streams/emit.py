"""Instructions of a stream: loads, the steps of engines and stores of each tile, over slots.

Tiles go through slots of the state buffer in turn. A tile is loaded `slots - 1` tiles ahead of the
steps that take it, so that queues and engines work at the same time. Each instruction is a draft: it
waits for those that wrote what it reads, and for those that used what it overwrites.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from systolic.compiler.cost.copies import move_cycles
from systolic.compiler.cost.engines import on_cheapest
from systolic.compiler.ir.chip_tiles import block_rows
from systolic.compiler.ir.dependencies import Region
from systolic.compiler.ir.drafts import Drafts
from systolic.compiler.ir.lane_step import COPY, LaneStep, with_each, with_lane
from systolic.compiler.streams.lying import Lying, Order, named_by_four, pattern_access, shared
from systolic.compiler.streams.reductions import levels, segments
from systolic.compiler.streams.tiling import Cut, Move, Shape, Tile, pairs_of, tiles
from systolic.compiler.streams.work import Frame, Part, Step
from systolic.errors import CompileError
from systolic.hw.datatypes import SIZE_BYTES, data_type
from systolic.hw.spec import Chip
from systolic.isa import (
    Access,
    Activate,
    Buffer,
    CopyPredicated,
    DmaCopy,
    Memset,
    OnEngine,
    Pool,
    Requantise,
    TensorScalar,
    TensorTensor,
)
from systolic.isa.access import MAX_PAIRS, Pattern
from systolic.spans import Interval
from systolic.workload.options import Options

WORD_BYTES = 4
ALIGNED_BYTES = 64
"""Where buffers begin: a multiple of every element's size, and of a burst."""


class Plan(NamedTuple):
    """How a frame is done.

    cut: None if its elements are copied within DRAM, through any queues. slots: tiles in the state buffer at a time.
    load_queues, store_queues: how many of the first, and of the last, DMA queues load and store.
    load_ways, store_ways: among how many queues each copy is shared. shares: of a tile's columns,
    an engine each; buffers lie with the middle of a row on the edge of two banks, so that the
    engines have ports of their own.
    """

    cut: Cut | None
    slots: int = 1
    load_queues: int = 1
    store_queues: int = 1
    load_ways: int = 1
    store_ways: int = 1
    shares: int = 1


@dataclass(slots=True)
class Buffers:
    """Where the buffers of a frame lie: a bank of their own for each, as far as there are any.

    Each has the same bytes of every partition.
    """

    chip: Chip
    taken: list[int] = field(init=False)

    def __post_init__(self) -> None:
        """Begin with empty banks."""
        self.taken = [0] * self.chip.state_buffer.banks

    def place(self, size_bytes: int, middle: int = 0) -> int | None:
        """Return the first byte of a buffer; None if there is no room.

        A buffer of less than a bank lies in one bank, the emptiest; a longer one in banks of its own.
        middle: of two banks of its own, the byte with which the second begins (0: anywhere).
        """
        bank = self.chip.state_buffer.bank_bytes
        if middle and max(middle, size_bytes - middle) <= bank:
            for number in range(0, len(self.taken) - 1, 2):
                if not any(self.taken[number : number + 2]):
                    self.taken[number] = self.taken[number + 1] = bank
                    return (number + 1) * bank - middle
        needed = -(-size_bytes // ALIGNED_BYTES) * ALIGNED_BYTES
        if needed <= bank:
            number = min(range(len(self.taken)), key=lambda n: self.taken[n])
            if self.taken[number] + size_bytes > bank:
                return None
            first = number * bank + self.taken[number]
            self.taken[number] += needed
            return first
        banks = -(-size_bytes // bank)
        for number in range(len(self.taken) - banks + 1):
            if not any(self.taken[number : number + banks]):
                for each in range(number, number + banks):
                    self.taken[each] = bank
                return number * bank
        return None


@dataclass(slots=True)
class Stage:
    """The instructions so far, where tensors lie in DRAM, and who uses what bytes of the chip."""

    chip: Chip
    options: Options
    bases: dict[str, int]
    drafts: Drafts
    dram: dict[str, Region] = field(default_factory=dict)
    used: list[tuple[Interval, Region]] = field(default_factory=list)
    busy: dict[str, int] = field(default_factory=dict)
    queued: dict[int, float] = field(default_factory=dict)
    held_tables: set[str] = field(default_factory=set)
    buffers: Buffers | None = None
    frames: int = 0

    def tensor(self, name: str) -> Region:
        """Return the region of a tensor in DRAM."""
        return self.dram.setdefault(name, Region(f"dram:{name}"))

    def region(self, name: str, first: int, size_bytes: int) -> Region:
        """Return a region of the chip, which begins when all users of its bytes so far are done."""
        place = Interval(first, first + size_bytes)
        before = [ref for span, other in self.used if span.meets(place) for ref in other.users()]
        return Region(name, before=list(dict.fromkeys(before)))

    def copy(self, layer: str, queues: Sequence[int], source: Access, target: Access) -> DmaCopy:
        """Return a copy through the queue that has least to do."""
        queue = min(queues, key=lambda q: self.queued.get(q, 0.0))
        cost = move_cycles(self.chip, source, target)
        self.queued[queue] = self.queued.get(queue, 0.0) + cost
        self.drafts.begin(layer)
        return DmaCopy(dma_queue=queue, source=source, target=target)


@dataclass(slots=True)
class _Slot:
    """A buffer for each operand and each result of a step: its first byte and its region."""

    bytes_at: dict[object, int] = field(default_factory=dict)
    regions: dict[object, Region] = field(default_factory=dict)
    filled: set[object] = field(default_factory=set)


def emit(stage: Stage, frame: Frame, plan: Plan, layer: str) -> bool:
    """Add the instructions of a frame; return whether its tiles fit the chip."""
    stage.frames += 1
    if plan.cut is None:
        _emit_straight(stage, frame, plan, layer)
        return True
    return _Emitter(stage, frame, plan, plan.cut, layer).run()


def _emit_straight(stage: Stage, frame: Frame, plan: Plan, layer: str) -> None:
    """Copy the elements within DRAM, in runs as they lie on both sides."""
    (part,) = frame.parts
    (number,) = part.kernel.inputs
    source, target = frame.sides[number], frame.sides[0]
    modes = sorted([*frame.modes, *part.inner], key=lambda m: (m.count > 1, -m.steps[0]))
    starts = [n + d for n, d in zip(frame.at, part.at or (0,) * len(frame.at), strict=True)]
    found = _within(
        [(m.steps[number], m.steps[0], m.count) for m in modes if m.count > 1],
        starts[number],
        starts[0],
        plan.store_ways,
    )
    size = SIZE_BYTES[target.dtype]
    queues = range(stage.chip.dma.queues)
    for at, to, here, there in found:
        begin = stage.bases[source.tensor] + at * size
        read = Access(Buffer.DRAM, source.dtype, 0, 1, begin, here)
        written = Access(
            Buffer.DRAM, target.dtype, 0, 1, stage.bases[target.tensor] + to * size, there
        )
        copy = stage.copy(layer, queues, read, written)
        stage.drafts.add(copy, [stage.tensor(source.tensor)], [stage.tensor(target.tensor)])


def _within(
    modes: list[tuple[int, int, int]], at: int, to: int, ways: int
) -> Iterable[tuple[int, int, Pattern, Pattern]]:
    """Yield (source, target, patterns of both) of copies within DRAM, in about so many equal ones."""
    if ways > 1 and modes:
        (step, there, count), *inner = modes
        shares = min(ways, count)
        for share in range(shares):
            begin, end = count * share // shares, count * (share + 1) // shares
            some = [(step, there, end - begin), *inner]
            yield from _within(some, at + begin * step, to + begin * there, 1)
        return
    read = pairs_of([(step, count) for step, _, count in modes])
    written = pairs_of([(there, count) for _, there, count in modes])
    if max(len(read), len(written)) <= MAX_PAIRS:
        yield at, to, read, written
        return
    (step, there, count), *inner = modes
    for n in range(count):
        yield from _within(inner, at + n * step, to + n * there, 1)


class _Emitter:
    """Emits a frame tile by tile."""

    def __init__(self, stage: Stage, frame: Frame, plan: Plan, cut: Cut, layer: str) -> None:
        self.stage, self.frame, self.plan, self.cut, self.layer = stage, frame, plan, cut, layer
        self.tiles = list(tiles(frame, cut))
        self.shapes: dict[tuple[int, ...], Shape] = {}
        self.resident: dict[object, tuple[int, Region]] = {}
        dma = stage.chip.dma.queues
        self.load_queues = range(plan.load_queues)
        self.store_queues = range(dma - plan.store_queues, dma)
        self.slots = [_Slot() for _ in range(min(plan.slots, len(self.tiles)))]

    def shape(self, tile: Tile) -> Shape:
        """Return the shape of a tile."""
        if tile.counts not in self.shapes:
            self.shapes[tile.counts] = Shape(self.frame, self.cut, tile.counts)
        return self.shapes[tile.counts]

    def run(self) -> bool:
        """Emit all tiles; return whether they fit."""
        if not self._place():
            return False
        self._load_tables()
        ahead = len(self.slots) - 1
        for number in range(len(self.tiles) + ahead):
            if number < len(self.tiles):
                self._load(number)
            if number >= ahead:
                self._compute(number - ahead)
                self._store(number - ahead)
        return True

    # -- places

    def _sides_of(self, part: Part) -> tuple[int, ...]:
        return part.kernel.inputs

    def _passes(self, part: Part, shape: Shape) -> bool:
        """Return whether what was loaded can be stored as it lies, without an engine."""
        if not part.kernel.moves or len(self.frame.parts) > 1:
            return False
        (side,) = part.kernel.inputs
        here, there = shape.held(part, side), shape.held(None, 0)
        return here == there

    def _place(self) -> bool:
        """Give every buffer of every slot its bytes; a buffer is as large as its largest tile."""
        sizes: dict[object, int] = {}
        for tile in {t.counts: t for t in self.tiles}.values():
            shape = self.shape(tile)
            if shape.lanes > self.stage.chip.state_buffer.partitions:
                return False
            for key, size in self._sizes(shape):
                sizes[key] = max(size, sizes.get(key, 0))
        wanted = [
            (key, number)
            for key in sizes
            for number in range(1 if self._resident_key(key) else len(self.slots))
        ]
        found = self._room([(sizes[key], self._middle(key, sizes[key])) for key, _ in wanted])
        if found is None:
            return False
        places: list[tuple[Interval, Region]] = []
        for (key, number), first in zip(wanted, found, strict=True):
            name = f"{self.stage.frames}.{_named(key)}.{number}"
            region = self.stage.region(name, first, sizes[key])
            places.append((Interval(first, first + sizes[key]), region))
            for slot in self.slots if self._resident_key(key) else [self.slots[number]]:
                slot.bytes_at[key], slot.regions[key] = first, region
        self.stage.used = [
            (span, region)
            for span, region in self.stage.used
            if not any(span.meets(new) for new, _ in places)
        ] + places
        return True

    def _middle(self, key: object, size: int) -> int:
        """Return the byte of a buffer at which the second engine's columns begin; 0: anywhere."""
        if self.plan.shares == 1 or self._resident_key(key):
            return 0
        count = self.shape(self.tiles[0]).held(None, 0).elements
        width = size // count if count and size % count == 0 else 0
        return count // self.plan.shares * width // WORD_BYTES * WORD_BYTES

    def _room(self, sizes: Sequence[tuple[int, int]]) -> list[int] | None:
        """Return where buffers begin: beside those of the frames before, or over them."""
        for begun in (self.stage.buffers, None):
            buffers = Buffers(self.stage.chip)
            if begun is not None:
                buffers.taken = list(begun.taken)
            found = [buffers.place(size, middle) for size, middle in sizes]
            if None not in found:
                self.stage.buffers = buffers
                return [first for first in found if first is not None]
        return None

    def _resident_key(self, key: object) -> bool:
        """Return whether an operand is one and the same for all tiles, so that it is loaded once."""
        if not isinstance(key, tuple) or key[0] != "in" or len(self.tiles) == 1:
            return False
        side = key[1]
        if len({tile.counts for tile in self.tiles}) > 1 and not self._constant(side):
            return False
        return all(
            mode.steps[side] == 0 or mode.count <= c * p
            for mode, c, p in zip(
                self.frame.modes, self.cut.columns, self.cut.partitions, strict=True
            )
        )

    def _constant(self, side: int) -> bool:
        """Return whether the lanes and columns that a side moves in are whole in every tile."""
        whole = self.shape(self.tiles[0])
        for tile in self.tiles:
            shape = self.shape(tile)
            if shape.lanes > whole.lanes or shape.ragged != whole.ragged:
                return False
            for n, mode in enumerate(self.frame.modes):
                changed = (shape.columns[n], shape.partitions[n]) != (
                    whole.columns[n],
                    whole.partitions[n],
                )
                if changed and mode.steps[side]:
                    return False
                if shape.partitions[n] != whole.partitions[n] and any(
                    whole.partitions[m] > 1 for m in range(n)
                ):
                    return False
        return True

    def _sizes(self, shape: Shape) -> Iterable[tuple[object, int]]:
        """Yield the key and the bytes of each buffer of a tile."""
        for number, part in enumerate(self.frame.parts):
            for side in part.kernel.inputs:
                size = SIZE_BYTES[self.frame.sides[side].dtype]
                yield ("in", side), shape.held(part, side).elements * size
            if self._passes(part, shape):
                return
            elements = _count(shape, part)
            for at, step in enumerate(part.kernel.steps[:-1]):
                yield ("step", number, at), elements * SIZE_BYTES[step.dtype]
            for at, step in enumerate(part.kernel.steps):
                if step.lane.cls is Requantise:
                    yield ("scaled", number, at), elements * SIZE_BYTES["f32"]
                if step.lane.cls is Pool:
                    yield from self._reduced_sizes(shape, part, number)
        yield ("out",), shape.held(None, 0).elements * SIZE_BYTES[self.frame.sides[0].dtype]

    def _reduced_sizes(self, shape: Shape, part: Part, number: int) -> Iterable[tuple[object, int]]:
        """Yield the buffers of a reduction that takes more than one level."""
        most = block_rows(self.stage.chip)
        modes = shape.modes(part)
        count = math.prod(mode.count for mode in modes if not mode.steps[0])
        if count <= most:
            return
        kept = math.prod(mode.count for mode in modes if mode.steps[0])
        (side,) = part.kernel.inputs
        yield ("compact", number), kept * count * SIZE_BYTES[self.frame.sides[side].dtype]
        for level, left in enumerate(segments(count, most)):
            yield ("level", number, level), kept * left * 4

    # -- instructions

    def _load_tables(self) -> None:
        """Let an engine that loads a table for a function do so at once, beside the first loads."""
        chip = self.stage.chip
        for part in self.frame.parts:
            for step in part.kernel.steps:
                if step.lane.cls is not Activate:
                    continue
                function = str(step.lane.settings["function"])
                tables = [e for e in chip.lane_engines.values() for t in e.tables if function in t]
                if not tables or function in self.stage.held_tables:
                    continue
                self.stage.held_tables.add(function)
                self._load_table(step)

    def _load_table(self, step: Step) -> None:
        """Run the function once on one element that an engine has written."""
        slot = self.slots[0]
        target = slot.regions[("out",)] if ("out",) in slot.regions else None
        if target is None:
            return
        first = slot.bytes_at[("out",)]
        one = Access(Buffer.STATE, step.dtype, 0, 1, first, ((1, 1),))
        self.stage.drafts.begin(step.layer)
        try:
            memset = on_cheapest(self.stage.chip, self.stage.options, _memset(0), target=one)
            run = on_cheapest(
                self.stage.chip, self.stage.options, step.lane, source=one, target=one
            )
        except CompileError:
            return
        self.stage.drafts.add(memset, [], [target])
        self.stage.drafts.add(run, [target], [target])
        target.end_phase()

    def _dram(self, side: int, tile: Tile, move: Move) -> Access:
        """Return the access to the elements of a tile that a copy moves, in DRAM."""
        tensor = self.frame.sides[side]
        at = self.frame.at[side] + move.dram_at
        for mode, start in zip(self.frame.modes, tile.starts, strict=True):
            at += mode.steps[side] * start
        first = self.stage.bases[tensor.tensor] + at * SIZE_BYTES[tensor.dtype]
        return Access(Buffer.DRAM, tensor.dtype, 0, 1, first, move.dram_pattern)

    def _chip(self, slot: _Slot, key: object, dtype: str, move: Move) -> Access:
        first = slot.bytes_at[key] + move.chip_at * SIZE_BYTES[dtype]
        return Access(Buffer.STATE, dtype, move.first, move.partitions, first, move.chip_pattern)

    def _load(self, number: int) -> None:
        tile, slot = self.tiles[number], self.slots[number % len(self.slots)]
        shape = self.shape(tile)
        for part in self.frame.parts:
            for side in part.kernel.inputs:
                key = ("in", side)
                if number and self._resident_key(key):
                    continue
                tensor = self.frame.sides[side]
                for move in shape.loads(part, side, self.plan.load_ways):
                    copy = self.stage.copy(
                        self.layer,
                        self.load_queues,
                        self._dram(side, tile, move),
                        self._chip(slot, key, tensor.dtype, move),
                    )
                    region = self.stage.tensor(tensor.tensor)
                    self.stage.drafts.add(copy, [region], [slot.regions[key]])

    def _store(self, number: int) -> None:
        tile, slot = self.tiles[number], self.slots[number % len(self.slots)]
        shape = self.shape(tile)
        part = self.frame.parts[0]
        key: object = ("out",)
        if self._passes(part, shape):
            key = ("in", part.kernel.inputs[0])
        tensor = self.frame.sides[0]
        for move in shape.stores(self.plan.store_ways):
            copy = self.stage.copy(
                self.layer,
                self.store_queues,
                self._chip(slot, key, tensor.dtype, move),
                self._dram(0, tile, move),
            )
            region = self.stage.tensor(tensor.tensor)
            self.stage.drafts.add(copy, [slot.regions[key]], [region])

    def _compute(self, number: int) -> None:
        tile, slot = self.tiles[number], self.slots[number % len(self.slots)]
        shape = self.shape(tile)
        for place, part in enumerate(self.frame.parts):
            if self._passes(part, shape):
                continue
            if part.kernel.fill is not None:
                if (tile.counts, place) not in slot.filled:
                    slot.filled.add((tile.counts, place))
                    self._fill(slot, shape, part)
                continue
            self._steps(slot, shape, part, place)

    def _fill(self, slot: _Slot, shape: Shape, part: Part) -> None:
        assert part.kernel.fill is not None
        dtype = self.frame.sides[0].dtype
        value: int | float = part.kernel.fill
        if dtype in ("s8", "u8", "s32", "u16"):
            value = int(value)
        target = self._out(slot, shape, part)
        region = slot.regions[("out",)]
        for (access,) in named_by_four([target], _order(shape, part)):
            self._on_engine(self.layer, _memset(value), {"target": access}, [], [region])

    def _steps(self, slot: _Slot, shape: Shape, part: Part, place: int) -> None:
        kernel = part.kernel
        steps = kernel.steps or (Step(COPY, (0,), self.frame.sides[0].dtype, self.layer),)
        order = _order(shape, part)
        operands: list[tuple[Lying, Region]] = []
        for side in kernel.inputs:
            held, dtype = shape.held(part, side), self.frame.sides[side].dtype
            lying = Lying(
                dtype, slot.bytes_at[("in", side)], shape.lanes, held.steps, held.elements
            )
            operands.append((lying, slot.regions[("in", side)]))
        for at, step in enumerate(steps):
            if at == len(steps) - 1:
                target, region = self._out(slot, shape, part), slot.regions[("out",)]
            else:
                kept = self._kept(shape, part, order) if step.lane.cls is Pool else order
                target = self._temporary(slot, shape, part, ("step", place, at), step.dtype, kept)
                region = slot.regions[("step", place, at)]
            taken = [operands[n] for n in step.operands]
            if step.lane.cls is Pool:
                self._reduce(slot, shape, part, place, step, taken[0], (target, region))
            elif step.lane.cls is Requantise and taken[1][0].elements > 1:
                key = ("scaled", place, at)
                scaled = self._temporary(slot, shape, part, key, "f32")
                self._one(
                    step.layer, with_each("multiply"), taken, (scaled, slot.regions[key]), order
                )
                lane = step.lane.with_number("scale", 1.0)
                self._one(step.layer, lane, [(scaled, slot.regions[key])], (target, region), order)
            else:
                self._one(step.layer, step.lane, taken, (target, region), order)
            operands.append((target, region))
            if step.lane.cls is Pool:
                order = self._kept(shape, part, order)

    def _kept(self, shape: Shape, part: Part, order: Order) -> Order:
        """Return the modes in which the result moves."""
        modes = shape.modes(part)
        return [(n, count) for n, count in order if modes[n].steps[0]]

    def _reduce(
        self,
        slot: _Slot,
        shape: Shape,
        part: Part,
        place: int,
        step: Step,
        taken: tuple[Lying, Region],
        made: tuple[Lying, Region],
    ) -> None:
        """Reduce the modes in which the result does not move, level by level."""
        modes, order = shape.modes(part), _order(shape, part)
        kept = self._kept(shape, part, order)
        inner = [(n, count) for n, count in order if not modes[n].steps[0]]
        (source, read), (target, written) = taken, made
        most = block_rows(self.stage.chip)
        count = math.prod(count for _, count in inner)
        reduced = list(pairs_of([(source.steps[n], many) for n, many in inner]))
        if count > most and len(reduced) > 1:
            key = ("compact", place)
            compact = self._temporary(slot, shape, part, key, source.dtype)
            self._one(step.layer, COPY, [taken], (compact, slot.regions[key]), order)
            source, read = compact, slot.regions[key]
            reduced = [(1, count)]
        here = [source.steps[n] for n, _ in kept]
        steps = segments(count, most)
        function = str(step.lane.settings["function"])
        divides = function == "mean" and len(steps) > 1
        for level, left in enumerate(steps):
            last = level == len(steps) - 1 and not divides
            goal, region = target, written
            there = [target.steps[n] for n, _ in kept]
            if not last:
                key = ("level", place, level)
                total = math.prod(n for _, n in kept)
                goal = Lying(
                    data_type(source.dtype).accumulator,
                    slot.bytes_at[key],
                    source.lanes,
                    (),
                    total * left,
                )
                region = slot.regions[key]
                there = [left * math.prod(n for _, n in kept[at + 1 :]) for at in range(len(kept))]
            make = LaneStep(Pool, {"function": "sum" if divides else function})
            pairs = [(a, b, n) for a, b, (_, n) in zip(here, there, kept, strict=True)]
            for each in levels(source, goal, pairs, reduced, most):
                lane = replace(make, settings={**make.settings, "window": each.window})
                self._on_engine(
                    step.layer,
                    lane,
                    {"source": each.source, "target": each.target},
                    [read],
                    [region],
                )
            source, read, here, reduced = goal, region, there, [(1, left)]
        if divides:
            lane = LaneStep(TensorScalar, {"op": "divide", "scalar": float(count)})
            flat = pattern_access(source, [(s, n) for s, (_, n) in zip(here, kept, strict=True)])
            goal_access = pattern_access(target, [(target.steps[n], c) for n, c in kept])
            named = {"source": flat, "target": goal_access}
            self._on_engine(step.layer, lane, named, [read], [written])

    def _one(
        self,
        layer: str,
        lane: LaneStep,
        taken: Sequence[tuple[Lying, Region]],
        made: tuple[Lying, Region],
        order: Order,
    ) -> None:
        """Add the instruction of one step, or several where four pairs do not name its elements."""
        lane, taken = _by_lane(lane, list(taken), order)
        target, region = made
        if lane.cls is CopyPredicated:
            self._one(layer, COPY, taken[:1], made, order)
            kept, taken = [region], taken[1:]
            fields = list(lane.others)
        else:
            kept = []
            fields = [lane.first, *lane.others]
        wide = [t for name, (t, _) in zip(fields, taken, strict=True) if not lane.per_lane(name)]
        regions = [*(r for _, r in taken), *kept]
        for accesses in shared([*wide, target], order, self.plan.shares):
            *read, written = accesses
            named: dict[str, Access] = {"target": written}
            rest = iter(read)
            for name, (lying, _) in zip(fields, taken, strict=True):
                named[name] = lying.one() if lane.per_lane(name) else next(rest)
            self._on_engine(layer, lane, named, regions, [region])

    def _on_engine(
        self,
        layer: str,
        make: object,
        named: dict[str, Access],
        reads: Sequence[Region],
        writes: Sequence[Region],
    ) -> None:
        stage = self.stage
        stage.drafts.begin(layer)
        made: OnEngine = on_cheapest(stage.chip, stage.options, make, stage.busy, **named)  # type: ignore[arg-type]
        stage.drafts.add(made, _once(reads), writes)

    def _out(self, slot: _Slot, shape: Shape, part: Part) -> Lying:
        held = shape.held(None, 0)
        dtype = self.frame.sides[0].dtype
        first = slot.bytes_at[("out",)]
        if part.inner and part.at:
            axis = len(self.frame.modes)
            index = part.at[0] // part.inner[0].steps[0]
            first += index * held.steps[axis] * SIZE_BYTES[dtype]
        return Lying(dtype, first, shape.lanes, held.steps, held.elements)

    def _temporary(
        self,
        slot: _Slot,
        shape: Shape,
        part: Part,
        key: object,
        dtype: str,
        order: Order | None = None,
    ) -> Lying:
        steps, size = [0] * len(shape.modes(part)), 1
        for number, count in reversed(_order(shape, part) if order is None else order):
            steps[number] = size
            size *= count
        return Lying(dtype, slot.bytes_at[key], shape.lanes, tuple(steps), size)


def _order(shape: Shape, part: Part) -> Order:
    """Return (number, count) of the modes of columns, in the order of the result's memory.

    What the result does not move in comes last, as it stands: it is reduced.
    """
    modes = shape.modes(part)
    found = [(n, mode.count) for n, mode in enumerate(modes) if mode.count > 1]
    return sorted(found, key=lambda each: -modes[each[0]].steps[0])


def _count(shape: Shape, part: Part) -> int:
    found = 1
    for _, count in _order(shape, part):
        found *= count
    return found


def _by_lane(
    lane: LaneStep, taken: list[tuple[Lying, Region]], order: list[tuple[int, int]]
) -> tuple[LaneStep, list[tuple[Lying, Region]]]:
    """Return a step of two tensors as one of a tensor and a number per lane, if one is that."""
    if lane.cls is not TensorTensor:
        return lane, taken
    (left, _), (right, _) = taken
    if right.elements == 1:
        return with_lane(lane.settings["op"]), taken
    if left.elements == 1:
        return with_lane(lane.settings["op"], reverse=True), taken[::-1]
    return lane, taken


def _once(regions: Sequence[Region]) -> list[Region]:
    found: list[Region] = []
    for region in regions:
        if not any(region is other for other in found):
            found.append(region)
    return found


def _memset(value: int | float) -> LaneStep:
    """Return the step that writes a value."""
    return LaneStep(Memset, {"value": value}, first="target")


def _named(key: object) -> str:
    """Return a buffer's name."""
    return ".".join(map(str, key)) if isinstance(key, tuple) else str(key)
