"""Instructions of a frame: loads, the work of engines and stores of each tile, over slots.

Tiles go through slots of the state buffer in turn. A tile is loaded `slots - 1` tiles ahead of the
work on it, so that queues and engines work at the same time. Each instruction is a draft: it waits
for those that wrote what it reads, and for those that used what it overwrites.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest

from systolic.compiler.ir.on_chip.chip_tiles import block_rows
from systolic.compiler.streams.buffers import BufferSize
from systolic.compiler.streams.emit_turned import TurnEmitter, TurnTypes
from systolic.compiler.streams.plan import tiles_together
from systolic.compiler.streams.stage import Stage, StreamPlan, TileBuffer
from systolic.compiler.streams.tile_work import (
    OUT,
    BufferKey,
    TileWork,
    buffer_sizes,
    input_key,
    load_table,
)
from systolic.compiler.streams.tiling import (
    Cut,
    TileCopy,
    TileRange,
    TileShape,
    TurnCut,
    tiles,
)
from systolic.compiler.streams.within_dram import emit_within
from systolic.compiler.streams.work import StreamFrame
from systolic.hw.datatypes import SIZE_BYTES
from systolic.isa import Access

WORD_BYTES = 4


def emit(stage: Stage, frame: StreamFrame, plan: StreamPlan, layer: str) -> bool:
    """Add the instructions of a frame; return whether its tiles fit the chip."""
    stage.begin()
    if plan.cut is None:
        emit_within(stage, frame, plan, layer)
        return True
    if isinstance(plan.cut, TurnCut):
        types = TurnTypes.on(stage.chip, frame.sides[0].dtype)
        assert types is not None
        return TurnEmitter(stage, frame, plan, plan.cut, layer, types).run()
    return _Emitter(stage, frame, plan, plan.cut, layer).run()


@dataclass(slots=True)
class _Slot:
    """A buffer for each operand and each result of a step, and what is filled in them."""

    buffers: dict[BufferKey, TileBuffer] = field(default_factory=dict)
    filled: set[tuple[tuple[int, ...], int]] = field(default_factory=set)


class _Emitter:
    """Emits a frame tile by tile."""

    def __init__(
        self, stage: Stage, frame: StreamFrame, plan: StreamPlan, cut: Cut, layer: str
    ) -> None:
        self._stage, self._frame, self._plan, self._cut = stage, frame, plan, cut
        self._layer = layer
        self._tiles = list(tiles(frame, cut))
        self._shapes: dict[tuple[int, ...], TileShape] = {}
        self._resident = {side for part in frame.parts for side in part.kernel.inputs}
        if len(self._tiles) == 1:
            self._resident.clear()
        queues = stage.chip.dma.queues
        self._load_queues = range(plan.load_queues)
        self._store_queues = range(queues - plan.store_queues, queues)
        self._slots = [_Slot() for _ in range(min(plan.slots, len(self._tiles)))]

    def run(self) -> bool:
        """Emit all tiles; return whether they fit."""
        self._resident = {side for side in self._resident if self._is_one(side)}
        if not self._place():
            return False
        for part in self._frame.parts:
            for step in part.kernel.steps:
                load_table(self._stage, step, self._slots[0].buffers[OUT])
        several = self._frame.has_several_steps
        together = tiles_together(self._stage.chip, len(self._slots)) if several else 1
        ahead, last = len(self._slots) - together, len(self._tiles) - 1
        begun = 0
        for number in range(len(self._tiles) + ahead):
            if number <= last:
                self._load(number)
            worked = number - ahead
            if worked - begun == together - 1 or worked == last:
                self._work(range(begun, worked + 1))
                for each in range(begun, worked + 1):
                    self._store(each)
                begun = worked + 1
        return True

    def _shape(self, tile: TileRange) -> TileShape:
        if tile.counts not in self._shapes:
            self._shapes[tile.counts] = TileShape(self._frame, self._cut, tile.counts)
        return self._shapes[tile.counts]

    # -- places

    def _is_one(self, side: int) -> bool:
        """Return whether an operand is the same for all tiles, so that it is loaded once.

        A tile of fewer partitions takes the first of those between which the operand is repeated.
        """
        (part,) = (p for p in self._frame.parts if side in p.kernel.inputs)
        first: list[object] | None = None
        for tile in self._tiles:
            found: list[object] = [
                (move.chip_at, move.chip_pattern, self._first_byte(side, tile, move), moving)
                for move in self._shape(tile).loads(part, side, 1)
                for moving in [tuple(pair for pair in move.dram_pattern if pair[0])]
            ]
            if found != (first := first or found):
                return False
        return True

    def _place(self) -> bool:
        """Give every buffer of every slot its bytes; a buffer is as large as its largest tile."""
        sizes: dict[BufferKey, int] = {}
        for counts in dict.fromkeys(tile.counts for tile in self._tiles):
            shape = TileShape(self._frame, self._cut, counts)
            if shape.lanes > self._stage.chip.state_buffer.partitions:
                return False
            for key, size in buffer_sizes(shape, block_rows(self._stage.chip)):
                sizes[key] = max(size, sizes.get(key, 0))
        resident = {input_key(side) for side in self._resident}
        needed = [(key, [slot]) for key in sizes if key not in resident for slot in self._slots] + [
            (key, self._slots) for key in sizes if key in resident
        ]
        wanted = [BufferSize(sizes[key], self._middle(key, sizes[key])) for key, _ in needed]
        names = [
            f"{self._stage.frames}.{'.'.join(map(str, key))}.{number}"
            for number, (key, _) in enumerate(needed)
        ]
        found = self._stage.buffers(names, wanted)
        for (key, slots), buffer in zip(needed, found or (), strict=bool(found)):
            for slot in slots:
                slot.buffers[key] = buffer
        return found is not None

    def _middle(self, key: BufferKey, size: int) -> int:
        """Return the byte of a buffer at which the second engine's columns begin; 0: anywhere."""
        if self._plan.shares == 1 or key in {input_key(side) for side in self._resident}:
            return 0
        count = self._shape(self._tiles[0]).held(None, 0).elements
        width = size // count if size % count == 0 else 0
        return count // self._plan.shares * width // WORD_BYTES * WORD_BYTES

    # -- instructions

    def _first_byte(self, side: int, tile: TileRange, move: TileCopy) -> int:
        """Return the byte in DRAM with which a copy of a tile begins."""
        at = self._frame.at[side] + move.dram_at
        for mode, start in zip(self._frame.modes, tile.starts, strict=True):
            at += mode.steps[side] * start
        tensor = self._frame.sides[side]
        return self._stage.bases[tensor.tensor] + at * SIZE_BYTES[tensor.dtype]

    def _ends(
        self, side: int, tile: TileRange, buffer: TileBuffer, move: TileCopy
    ) -> tuple[Access, Access]:
        """Return the accesses of a copy: in DRAM and on the chip."""
        size = SIZE_BYTES[self._frame.sides[side].dtype]
        outside = self._first_byte(side, tile, move) - move.dram_at * size
        return move.ends(self._frame.sides[side].dtype, outside, buffer.first)

    def _load(self, number: int) -> None:
        tile, slot = self._tiles[number], self._slots[number % len(self._slots)]
        for part in self._frame.parts:
            for side in part.kernel.inputs:
                if number and side in self._resident:
                    continue
                buffer, tensor = slot.buffers[input_key(side)], self._frame.sides[side].tensor
                regions = self._stage.tensor(tensor), buffer.region
                for move in self._shape(tile).loads(part, side, self._plan.load_ways):
                    ends = self._ends(side, tile, buffer, move)
                    self._stage.copy(self._layer, self._load_queues, ends, regions)

    def _work(self, numbers: range) -> None:
        works: list[Iterator[None]] = []
        for number in numbers:
            tile, slot = self._tiles[number], self._slots[number % len(self._slots)]
            shape = self._shape(tile)
            work = TileWork(self._stage, shape, slot.buffers, self._plan.shares, self._layer)
            for place, part in enumerate(self._frame.parts):
                if part.kernel.fill is None:
                    if not shape.passes:
                        works.append(work.steps(place))
                elif (tile.counts, place) not in slot.filled:
                    slot.filled.add((tile.counts, place))
                    work.fill(part)
        for _ in zip_longest(*works):
            pass  # each round is a step of every tile

    def _store(self, number: int) -> None:
        tile, slot = self._tiles[number], self._slots[number % len(self._slots)]
        shape, part = self._shape(tile), self._frame.parts[0]
        key = input_key(part.kernel.inputs[0]) if shape.passes else OUT
        buffer = slot.buffers[key]
        regions = buffer.region, self._stage.tensor(self._frame.sides[0].tensor)
        for move in shape.stores(self._plan.store_ways):
            outside, inside = self._ends(0, tile, buffer, move)
            self._stage.copy(self._layer, self._store_queues, (inside, outside), regions)
