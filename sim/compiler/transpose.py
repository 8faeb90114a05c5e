"""Lower a set of matrix transposes to steps: through the array, or through DRAM and back.

One tile of work is a sub-block: at most as many rows and columns as the array has. Its transpose is
load, multiply by the identity, copy from column partitions to row partitions (patent, para 56-85).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

from sim.compiler.dram import DramTensor, Rectangle
from sim.compiler.options import Options
from sim.compiler.place import PsumMap, StateMap, place_psum, place_state
from sim.compiler.recognise import MatrixSet
from sim.compiler.steps import Signal, Step
from sim.errors import CompileError
from sim.hw.datatypes import PSUM_WORD_BYTES, data_type
from sim.hw.spec import Chip
from sim.isa import Access, Buffer, Copy, DmaCopy, LoadWeights, MatMul, Memset
from sim.isa.instruction import Event
from sim.layout import Block, Decomposition, Shape, decompose

EVENT_OF_DRAIN: dict[str, Event] = {"block": "done", "row": "row", "partition": "partition"}


@dataclass(frozen=True, slots=True)
class Piece:
    """A rectangle of one matrix and where it lies. `slices` index [batch..., rows, columns]."""

    access: Access
    slices: tuple[int | slice, ...]


@dataclass(frozen=True, slots=True)
class Tile:
    """A sub-block: its block, its own origin in the block, and its extents K x N."""

    block: Block
    row: int
    col: int
    K: int
    N: int


@dataclass
class Lowered:
    """Steps, where the source lies at the start and the result at the end, and the identity."""

    steps: list[Step] = field(default_factory=list)
    source: list[Piece] = field(default_factory=list)
    result: list[Piece] = field(default_factory=list)
    identity: Access | None = None
    tiles: list[Tile] = field(default_factory=list)


def cut(matrices: MatrixSet, chip: Chip, options: Options) -> Decomposition:
    """Return the blocks p x q of equation 1 and their sub-blocks, no larger than the array."""
    partitions = chip.state_buffer.partitions
    p, q = options.block or (partitions, partitions)
    if options.via == "pe" or options.block is None:
        for name, side in (("rows", p), ("columns", q)):
            if side > partitions:
                raise CompileError(
                    f"compile.block: {name} of a block lie in partitions before or after the "
                    f"transpose; {side} are wanted, {chip.name} has {partitions}"
                )
    if options.via == "dram":
        return decompose(matrices.shape, (p, q))
    sub = min(p, chip.pe_array.rows), min(q, chip.pe_array.cols)
    return decompose(matrices.shape, (p, q), sub)


Tensors = tuple[Shape, Shape]
"""Source and result, with their layouts (which matter in DRAM)."""


def lower_transpose(
    matrices: MatrixSet,
    tensors: Tensors,
    chip: Chip,
    options: Options,
    home: Literal["state_buffer", "dram"],
) -> Lowered:
    """Return the steps that transpose all the matrices of the set."""
    if 0 in matrices.dims:
        raise CompileError(f"{matrices.shape}: a tensor without elements has nothing to transpose")
    cls = ThroughArray if options.via == "pe" else ThroughDram
    return cls(matrices, tensors, chip, options, home).lower()


class _Lowering:
    """What both ways share: sizes, DRAM addresses, DMA queues, transfers of whole blocks."""

    def __init__(
        self, matrices: MatrixSet, tensors: Tensors, chip: Chip, options: Options, home: str
    ) -> None:
        self.matrices, self.chip, self.options = matrices, chip, options
        self.streamed = home == "dram"
        self.dtype = matrices.element_type
        self.size_bytes = data_type(self.dtype).size_bytes
        self.blocks = cut(matrices, chip, options)
        self.transposed = _transposed_numbers(self.blocks)
        self.out = Lowered()
        self.given: Counter[Signal] = Counter()
        self.source = DramTensor(tensors[0], 0, matrices.source_axes())
        self.result = DramTensor(tensors[1], self.source.size_bytes, matrices.result_axes())
        if self.streamed or options.via == "dram":
            self._refuse_large()

    def _refuse_large(self) -> None:
        need, have = self.source.size_bytes, self.chip.dram.size_bytes
        if self.streamed:
            need += self.result.size_bytes
        if need > have:
            raise CompileError(
                f"dram of {self.chip.name} has no room: {self.source.shape} and its result need "
                f"{need} bytes, found size_bytes = {have}"
            )

    def sb(self, partition: int, partitions: int, start: int, *pairs: tuple[int, int]) -> Access:
        """Return an access to the state buffer."""
        return Access(Buffer.STATE, self.dtype, partition, partitions, start, pairs)

    def copies_in(
        self, queue: int, tensor: DramTensor, block: Block, start: int, *, transposed: bool
    ) -> Iterator[DmaCopy]:
        """Yield copies of a block from DRAM to byte `start`: a row (or column) per partition."""
        for part in tensor.rectangles(
            block.batch, block.origin, block.extents, by_column=transposed
        ):
            yield DmaCopy(
                dma_queue=queue, source=part.access, target=self._at(start, part, transposed)
            )

    def copies_out(
        self, queue: int, tensor: DramTensor, block: Block, start: int, *, transposed: bool
    ) -> Iterator[DmaCopy]:
        """Yield copies from byte `start` to a block (or its transpose) in DRAM, row by row."""
        origin, extents = block.origin, block.extents
        if transposed:
            origin, extents = origin[::-1], extents[::-1]
        for part in tensor.rectangles(block.batch, origin, extents):
            yield DmaCopy(dma_queue=queue, source=self._at(start, part, False), target=part.access)

    def _at(self, start: int, part: Rectangle, transposed: bool) -> Access:
        """Return the state-buffer side of a rectangle: a row (or column) per partition."""
        row, rows, col, cols = part.row, part.rows, part.col, part.cols
        if transposed:
            row, rows, col, cols = col, cols, row, rows
        return self.sb(row, rows, start + col * self.size_bytes, (1, cols))

    def queue(self, block: Block, *, inwards: bool) -> int:
        """Return the DMA queue of a block: the first half of them brings, the second half takes."""
        queues = self.chip.dma.queues
        half = max(1, queues // 2)
        if inwards:
            return block.number % half
        return min(half, queues - 1) + block.number % max(1, queues - half)

    def give(self, signal: Signal, times: int = 1) -> int:
        """Count that a signal is given; return how often it then has been."""
        self.given[signal] += times
        return self.given[signal]

    def result_slices(self, block: Block) -> tuple[int | slice, ...]:
        """Return the slices of a transposed block in [batch..., columns, rows]."""
        *batch, rows, cols = block.slices
        return (*batch, cols, rows)


class ThroughArray(_Lowering):
    """Every sub-block by load, identity product and drain; neighbours overlap."""

    def __init__(
        self, matrices: MatrixSet, tensors: Tensors, chip: Chip, options: Options, home: str
    ) -> None:
        super().__init__(matrices, tensors, chip, options, home)
        self.tiles = [_tile(b, s) for b in self.blocks for s in self.blocks.sub_blocks(b)]
        self.rows = max(tile.K for tile in self.tiles)
        self.state: StateMap = place_state(
            chip, self.blocks, self.size_bytes, self.rows, streamed=self.streamed
        )
        self.psum: PsumMap = place_psum(chip, self.rows, len(self.tiles))
        self._identity_posts = 0

    def lower(self) -> Lowered:
        """Return the steps."""
        self.out.tiles = self.tiles
        self._identity()
        tasks = count()
        if not self.streamed:
            for block in self.blocks:
                self._resident(block)
                self._work(block, tasks)
            return self.out
        self._dram_pieces()
        ahead = self.state.source.count
        for number in range(ahead):
            self._bring(self.blocks.at(number))
        for block in self.blocks:
            self._work(block, tasks)
            if block.number + ahead < self.blocks.count:
                self._bring(self.blocks.at(block.number + ahead))
            self._send(block)
        return self.out

    def _work(self, block: Block, tasks: Iterator[int]) -> None:
        for tile in self._tiles_of(block):
            self._task(next(tasks), tile)

    def _tiles_of(self, block: Block) -> Iterator[Tile]:
        return (_tile(block, s) for s in self.blocks.sub_blocks(block))

    def _identity(self) -> None:
        start = self.state.identity
        access = self.sb(0, self.rows, start, (1, self.rows))
        if self.options.identity == "stored":
            self.out.identity = access
            return
        engine = self.options.drain_engine
        self.out.steps.append(Step(Memset(engine=engine, target=access, value=0)))
        for row in range(self.rows):
            one = self.sb(row, 1, start + row * self.size_bytes, (1, 1))
            memset = Memset(engine=engine, target=one, value=1)
            self.out.steps.append(Step(memset, gives=((("identity",), "done"),)))
        self._identity_posts = self.rows

    def _resident(self, block: Block) -> None:
        """Note where a block lies at cycle 0 and its transpose at the end."""
        K, N = block.extents
        source = self.sb(0, K, self.state.source.at(block.number), (1, N))
        result = self.sb(0, N, self._result_start(block), (1, K))
        self.out.source.append(Piece(source, block.slices))
        self.out.result.append(Piece(result, self.result_slices(block)))

    def _result_start(self, block: Block) -> int:
        number = block.number if self.streamed else self.transposed[block.number]
        return self.state.result.at(number)

    def _dram_pieces(self) -> None:
        self.out.source.append(Piece(self.source.whole(), ()))
        self.out.result.append(Piece(self.result.whole(), ()))

    def _bring(self, block: Block) -> None:
        slot = block.number % self.state.source.count
        free = ("source free", slot), self.given["source free", slot]
        start = self.state.source.at(slot)
        queue = self.queue(block, inwards=True)
        for copy in self.copies_in(queue, self.source, block, start, transposed=False):
            self.out.steps.append(Step(copy, (free,), ((("source", slot), "done"),)))
            self.give(("source", slot))

    def _send(self, block: Block) -> None:
        slot = block.number % self.state.result.count
        ready = ("result", slot), self.given["result", slot]
        start = self.state.result.at(slot)
        queue = self.queue(block, inwards=False)
        for copy in self.copies_out(queue, self.result, block, start, transposed=True):
            self.out.steps.append(Step(copy, (ready,), ((("result free", slot), "done"),)))
            self.give(("result free", slot))

    def _task(self, task: int, tile: Tile) -> None:
        """Emit load, multiply and drain of one sub-block."""
        self.out.steps.append(self._load(tile))
        slot, start = self.psum.at(task)
        self.out.steps.append(self._multiply(tile, slot, start))
        self.out.steps.extend(self._drain(tile, slot, start))

    def _load(self, tile: Tile) -> Step:
        start = self.state.source.at(tile.block.number) + tile.col * self.size_bytes
        load = LoadWeights(weights=self.sb(tile.row, tile.K, start, (1, tile.N)))
        if not self.streamed:
            return Step(load)
        slot = tile.block.number % self.state.source.count
        self.give(("source free", slot))
        return Step(
            load,
            needs=((("source", slot), self.given["source", slot]),),
            gives=((("source free", slot), "done"),),
        )

    def _multiply(self, tile: Tile, slot: int, start: int) -> Step:
        multiply = MatMul(
            moving=self.sb(0, tile.K, self.state.identity, (1, tile.K)),
            result=self._psum(0, tile.N, start, tile.K),
        )
        needs: list[tuple[Signal, int]] = [(("psum free", slot), self.given["psum free", slot])]
        if self._identity_posts:
            needs.append((("identity",), self._identity_posts))
        event = EVENT_OF_DRAIN[self.options.drain]
        return Step(multiply, tuple(needs), ((("psum", slot), event),))

    def _drain(self, tile: Tile, slot: int, start: int) -> Iterator[Step]:
        """Yield the copies of one sub-block's result to its second address."""
        out_slot = tile.block.number % self.state.result.count
        gives: tuple[tuple[Signal, Event], ...] = ((("psum free", slot), "done"),)
        needs: tuple[tuple[Signal, int], ...] = ()
        if self.streamed:
            gives += ((("result", out_slot), "done"),)
            needs = ((("result free", out_slot), self.given["result free", out_slot]),)
        for partition, partitions, row, rows in self._parts(tile):
            ready = self.give(("psum", slot))
            self.give(("psum free", slot))
            if self.streamed:
                self.give(("result", out_slot))
            target = self._result_start(tile.block) + (tile.row + row) * self.size_bytes
            copy = Copy(
                engine=self.options.drain_engine,
                source=self._psum(partition, partitions, start + row * PSUM_WORD_BYTES, rows),
                target=self.sb(tile.col + partition, partitions, target, (1, rows)),
            )
            yield Step(copy, ((("psum", slot), ready), *needs), gives)

    def _parts(self, tile: Tile) -> list[tuple[int, int, int, int]]:
        """Return (partition, partitions, row, rows) of each copy."""
        if self.options.drain == "row":
            return [(0, tile.N, row, 1) for row in range(tile.K)]
        if self.options.drain == "partition":
            return [(partition, 1, 0, tile.K) for partition in range(tile.N)]
        return [(0, tile.N, 0, tile.K)]

    def _psum(self, partition: int, partitions: int, start: int, rows: int) -> Access:
        accumulator = data_type(self.dtype).accumulator
        return Access(Buffer.RESULT, accumulator, partition, partitions, start, ((1, rows),))


class ThroughDram(_Lowering):
    """Every block written to DRAM and read back transposed (patent, para 13 and 98)."""

    def lower(self) -> Lowered:
        """Return the steps."""
        self.state = place_state(self.chip, self.blocks, self.size_bytes, 0, streamed=self.streamed)
        if self.streamed:
            self.out.source.append(Piece(self.source.whole(), ()))
            self.out.result.append(Piece(self.result.whole(), ()))
        for block in self.blocks:
            if self.streamed:
                self._from_dram(block)
            else:
                self._round_trip(block)
        self.out.tiles = [_tile(b, b) for b in self.blocks]
        return self.out

    def _from_dram(self, block: Block) -> None:
        """Read a block transposed, write it back."""
        slot = block.number % self.state.result.count
        start = self.state.result.at(slot)
        free, ready = ("result free", slot), ("result", slot)
        needs = ((free, self.given[free]),)
        queue = self.queue(block, inwards=True)
        for copy in self.copies_in(queue, self.source, block, start, transposed=True):
            self.out.steps.append(Step(copy, needs, ((ready, "done"),)))
            self.give(ready)
        needs = ((ready, self.given[ready]),)
        queue = self.queue(block, inwards=False)
        for copy in self.copies_out(queue, self.result, block, start, transposed=True):
            self.out.steps.append(Step(copy, needs, ((free, "done"),)))
            self.give(free)

    def _round_trip(self, block: Block) -> None:
        """Write a block out, read it back transposed."""
        K, N = block.extents
        start = self.state.source.at(block.number)
        second = self.state.result.at(self.transposed[block.number])
        self.out.source.append(Piece(self.sb(0, K, start, (1, N)), block.slices))
        result = Piece(self.sb(0, N, second, (1, K)), self.result_slices(block))
        self.out.result.append(result)
        written = ("written", block.number)
        queue = self.queue(block, inwards=True)
        for copy in self.copies_out(queue, self.source, block, start, transposed=False):
            self.out.steps.append(Step(copy, (), ((written, "done"),)))
            self.give(written)
        needs = ((written, self.given[written]),)
        queue = self.queue(block, inwards=False)
        for copy in self.copies_in(queue, self.source, block, second, transposed=True):
            self.out.steps.append(Step(copy, needs))


def _tile(block: Block, sub: Block) -> Tile:
    row, col = sub.origin[0] - block.origin[0], sub.origin[1] - block.origin[1]
    return Tile(block, row, col, *sub.extents)


def _transposed_numbers(blocks: Decomposition) -> list[int]:
    """Return, for each block (i, j), the number of block (j, i) of the transposed matrices."""
    down = blocks.grid[0]
    per_matrix = blocks.count_per_matrix
    return [
        block.number - block.number % per_matrix + block.column * down + block.row
        for block in blocks
    ]
