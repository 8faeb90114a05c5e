"""Instructions of a frame whose tiles the array turns: loads, casts, turns, stores, over slots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from systolic.compiler.cost.turns import carrier, turned_as, turns_copied_together
from systolic.compiler.ir.lane_step import COPY
from systolic.compiler.streams.buffers import BufferSize
from systolic.compiler.streams.stage import Stage, StreamPlan, TileBuffer
from systolic.compiler.streams.tiling import TileCopy, TileRange, TurnCut, pairs_of, tiles
from systolic.compiler.streams.turned import RESULT, SOURCE, StridePairs, TurnShape
from systolic.compiler.streams.work import StreamFrame
from systolic.hw.datatypes import PSUM_WORD_BYTES, SIZE_BYTES, data_type
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, LoadWeights, MatMul, PassThrough
from systolic.isa.access import MAX_PAIRS

WHOLE = ("s8", "u8", "u16", "s32")
"""Types of numbers that products with an identity leave as they are."""
CASTS = 4
"""In how many instructions a tile is cast, so that several engines share it."""


@dataclass(frozen=True, slots=True)
class TurnTypes:
    """How the array turns elements: in parts of `given` each, as `taken`."""

    given: str
    taken: str
    parts: int

    @classmethod
    def on(cls, chip: Chip, dtype: str) -> TurnTypes | None:
        """Return how a chip's array turns a type; None if it cannot."""
        given = turned_as(chip, dtype)
        taken = carrier(chip, given)
        if taken is None:
            return None
        return cls(given, taken, SIZE_BYTES[dtype] // SIZE_BYTES[given])

    def keeps_bits(self, chip: Chip) -> bool:
        """Return whether every element arrives as it is, a NaN, an infinity and -0.0 too."""
        return self.given in WHOLE or chip.pe_array.turns_by_passing(self.taken)

    def shape(
        self, chip: Chip, frame: StreamFrame, cut: TurnCut, counts: tuple[int, ...]
    ) -> TurnShape:
        """Return the tiles of a frame that have `counts` indices of the modes."""
        bank = chip.state_buffer.bank_bytes // SIZE_BYTES[self.given]
        return TurnShape(frame, cut, counts, self.parts, bank)

    def buffers(self, shape: TurnShape) -> tuple[BufferSize, ...]:
        """Return the buffers that a tile needs: of the source, of the result, and to cast."""
        source, result = shape.held[SOURCE].elements, shape.held[RESULT].elements
        size = SIZE_BYTES[self.given]
        found = [
            BufferSize(count * size, 0, shape.banks(side), shape.block(side) * size)
            for side, count in ((SOURCE, source), (RESULT, result))
        ]
        if self.taken != self.given:
            found.append(BufferSize(source * SIZE_BYTES[self.taken]))
        return tuple(found)


@dataclass(slots=True)
class TurnEmitter:
    """Emits a frame tile by tile."""

    stage: Stage
    frame: StreamFrame
    plan: StreamPlan
    cut: TurnCut
    layer: str
    types: TurnTypes
    _shapes: dict[tuple[int, ...], TurnShape] = field(default_factory=dict)
    _slots: list[list[TileBuffer]] = field(default_factory=list)

    def run(self) -> bool:
        """Emit all tiles; return whether they fit."""
        every = list(tiles(self.frame, self.cut))
        slots = min(self.plan.slots, len(every))
        if not self._place(every, slots):
            return False
        ahead = slots - 1
        for number in range(len(every) + ahead):
            if number < len(every):
                self._load(every[number], self._slots[number % slots])
            if number >= ahead:
                tile, buffers = every[number - ahead], self._slots[(number - ahead) % slots]
                self._turn(tile, buffers)
                self._store(tile, buffers)
        return True

    def _shape(self, tile: TileRange) -> TurnShape:
        if tile.counts not in self._shapes:
            chip = self.stage.chip
            shape = self.types.shape(chip, self.frame, self.cut, tile.counts)
            self._shapes[tile.counts] = shape
        return self._shapes[tile.counts]

    def _place(self, every: list[TileRange], slots: int) -> bool:
        """Give every buffer of every slot its bytes; a buffer is as large as its largest tile."""
        shapes = {tile.counts: self._shape(tile) for tile in every}.values()
        sizes = [
            each[0]._replace(
                size_bytes=max(b.size_bytes for b in each), banks=max(b.banks for b in each)
            )
            for each in zip(*map(self.types.buffers, shapes), strict=True)
        ]
        # The buffers of all slots of one use come after one another, so that banks alternate.
        wanted = [(use, size) for use, size in enumerate(sizes) for _ in range(slots)]
        names = [f"{self.stage.frames}.{use}.{n}" for n, (use, _) in enumerate(wanted)]
        found = self.stage.buffers(names, [size for _, size in wanted])
        if found is None:
            return False
        self._slots = [found[slot::slots] for slot in range(slots)]
        return True

    def _ends(
        self, side: int, tile: TileRange, buffer: TileBuffer, move: TileCopy
    ) -> tuple[Access, Access]:
        """Return the accesses of a copy: in DRAM and on the chip."""
        at, size = self.frame.at[side], SIZE_BYTES[self.types.given]
        for mode, start in zip(self.frame.modes, tile.starts, strict=True):
            at += mode.steps[side] * start
        outside = self.stage.bases[self.frame.sides[side].tensor] + at * self.types.parts * size
        return move.ends(self.types.given, outside, buffer.first)

    def _load(self, tile: TileRange, buffers: list[TileBuffer]) -> None:
        queues, tensor = range(self.plan.load_queues), self.frame.sides[SOURCE].tensor
        regions = self.stage.tensor(tensor), buffers[0].region
        for move in self._shape(tile).copies(SOURCE, self.plan.load_ways):
            self.stage.copy(self.layer, queues, self._ends(SOURCE, tile, buffers[0], move), regions)

    def _store(self, tile: TileRange, buffers: list[TileBuffer]) -> None:
        every, tensor = self.stage.chip.dma.queues, self.frame.sides[RESULT].tensor
        queues = range(every - self.plan.store_queues, every)
        regions = buffers[1].region, self.stage.tensor(tensor)
        for move in self._shape(tile).copies(RESULT, self.plan.store_ways):
            outside, inside = self._ends(RESULT, tile, buffers[1], move)
            self.stage.copy(self.layer, queues, (inside, outside), regions)

    def _turn(self, tile: TileRange, buffers: list[TileBuffer]) -> None:
        shape, stage, taken = self._shape(tile), self.stage, self.types.taken
        source = buffers[0] if taken == self.types.given else self._cast(shape, buffers)
        passes = stage.chip.pe_array.turns_by_passing(taken)
        kind = PassThrough if passes else MatMul
        made = taken if passes else data_type(taken).accumulator
        identity, held = stage.identity(taken)
        for turned in shape.turns(partial(turns_copied_together, stage.chip, stage.options, taken)):
            region, bank = stage.bank()
            rows, lanes = turned.rows, turned.columns
            for number, first in enumerate(turned.firsts):
                at = source.first + first * SIZE_BYTES[taken]
                weights = Access(Buffer.STATE, taken, 0, rows, at, turned.taken)
                stage.drafts.begin(self.layer)
                stage.drafts.add(LoadWeights(weights=weights), [source.region], [])
                ones = Access(Buffer.STATE, taken, 0, rows, identity.start, ((1, rows),))
                start = bank + number * rows * PSUM_WORD_BYTES
                sums = Access(Buffer.RESULT, made, 0, lanes, start, ((1, rows),))
                stage.drafts.add(kind(moving=ones, result=sums), [held], [region])
            count = rows * len(turned.firsts)
            read = Access(Buffer.RESULT, made, 0, lanes, bank, ((1, count),))
            begin = buffers[1].first + turned.at * SIZE_BYTES[self.types.given]
            there = Access(Buffer.STATE, self.types.given, 0, lanes, begin, turned.made)
            named = {"source": read, "target": there}
            stage.on_engine(self.layer, COPY, named, [region], buffers[1].region)

    def _cast(self, shape: TurnShape, buffers: list[TileBuffer]) -> TileBuffer:
        """Cast a tile to the type that the array takes, in a buffer of its own."""
        here, _, there = buffers
        ends = ("source", self.types.given, here), ("target", self.types.taken, there)
        for lanes, begin, columns in shape.filled(SOURCE):
            for at, some in _in_shares(begin, columns):
                named = {
                    name: Access(
                        Buffer.STATE, t, 0, lanes, to.first + at * SIZE_BYTES[t], pairs_of(some)
                    )
                    for name, t, to in ends
                }
                self.stage.on_engine(self.layer, COPY, named, [here.region], there.region)
        return there


def _in_shares(at: int, columns: StridePairs) -> Iterator[tuple[int, StridePairs]]:
    """Yield columns in a few shares, so that several engines cast them."""
    (step, count), *inner = pairs = list(pairs_of(columns))
    if len(pairs) > MAX_PAIRS:
        for n in range(count):
            yield from _in_shares(at + n * step, inner)
        return
    shares = min(CASTS, count)
    for share in range(shares):
        first, stop = count * share // shares, count * (share + 1) // shares
        yield at + first * step, [(step, stop - first), *inner]
