"""Lower a set of matrix transposes to steps: through the array, or through DRAM and back.

One tile of work is a sub-block: at most as many rows and columns as the array has. Its transpose is
load, multiply by the identity, copy from column partitions to row partitions (patent, para 56-85).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from sim.compiler.options import Options
from sim.compiler.place import PsumMap, StateMap, place_psum, place_state
from sim.compiler.recognise import MatrixSet
from sim.compiler.steps import Signal, Step
from sim.errors import CompileError
from sim.hw.datatypes import PSUM_WORD_BYTES, data_type
from sim.hw.spec import Chip
from sim.isa import Access, Buffer, Copy, DmaCopy, LoadWeights, MatMul, Memset
from sim.isa.instruction import Event
from sim.layout import Block, Decomposition, decompose

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


def lower_transpose(
    matrices: MatrixSet, chip: Chip, options: Options, home: Literal["state_buffer", "dram"]
) -> Lowered:
    """Return the steps that transpose all the matrices of the set."""
    if 0 in matrices.dims:
        raise CompileError(f"{matrices.shape}: a tensor without elements has nothing to transpose")
    cls = ThroughArray if options.via == "pe" else ThroughDram
    return cls(matrices, chip, options, home).lower()


class _Lowering:
    """What both ways share: sizes, DRAM addresses, DMA queues, transfers of whole blocks."""

    def __init__(self, matrices: MatrixSet, chip: Chip, options: Options, home: str) -> None:
        self.matrices, self.chip, self.options = matrices, chip, options
        self.streamed = home == "dram"
        self.dtype = matrices.element_type
        self.size_bytes = data_type(self.dtype).size_bytes
        self.blocks = cut(matrices, chip, options)
        self.transposed = _transposed_numbers(self.blocks)
        self.out = Lowered()
        self.given: Counter[Signal] = Counter()
        elements = 1
        for dim in matrices.dims:
            elements *= dim
        self.tensor_bytes = -(-elements * self.size_bytes // 64) * 64
        queues = chip.dma.queues
        self.queue_in, self.queue_out = 0, min(1, queues - 1)

    def sb(self, partition: int, partitions: int, start: int, *pairs: tuple[int, int]) -> Access:
        """Return an access to the state buffer."""
        return Access(Buffer.STATE, self.dtype, partition, partitions, start, pairs)

    def in_dram(
        self, base: int, strides: tuple[int, ...], block: Block, origin: tuple[int, int],
        *, transposed: bool, extents: tuple[int, int]
    ) -> Access:  # fmt: skip
        """Return a DRAM access to a rectangle, row by row; strides of (batch..., row, column)."""
        *outer, row, col = strides
        offset = sum(i * s for i, s in zip(block.batch, outer, strict=True))
        offset += origin[0] * row + origin[1] * col
        pairs = ((row, extents[0]), (col, extents[1]))
        return Access(
            Buffer.DRAM, self.dtype, 0, 1, base + offset * self.size_bytes,
            pairs[::-1] if transposed else pairs,
        )  # fmt: skip

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

    def __init__(self, matrices: MatrixSet, chip: Chip, options: Options, home: str) -> None:
        super().__init__(matrices, chip, options, home)
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
        task = 0
        if self.streamed:
            self._dram_pieces()
        for block in self.blocks:
            if self.streamed:
                self._bring(block)
            else:
                self._resident(block)
            for tile in self._tiles_of(block):
                self._task(task, tile)
                task += 1
            if self.streamed:
                self._send(block)
        return self.out

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
        self.out.source.append(_whole(self.matrices, self.dtype, 0, source=True))
        self.out.result.append(_whole(self.matrices, self.dtype, self.tensor_bytes, source=False))

    def _bring(self, block: Block) -> None:
        slot = block.number % self.state.source.count
        source = self.in_dram(
            0, self.matrices.source_strides(), block, block.origin,
            transposed=False, extents=block.extents,
        )  # fmt: skip
        target = self.sb(0, block.extents[0], self.state.source.at(slot), (1, block.extents[1]))
        self.out.steps.append(
            Step(
                DmaCopy(dma_queue=self.queue_in, source=source, target=target),
                needs=((("source free", slot), self.given["source free", slot]),),
                gives=((("source", slot), "done"),),
            )
        )
        self.give(("source", slot))

    def _send(self, block: Block) -> None:
        slot = block.number % self.state.result.count
        K, N = block.extents
        target = self.in_dram(
            self.tensor_bytes, self.matrices.result_strides(), block, block.origin[::-1],
            transposed=False, extents=(N, K),
        )  # fmt: skip
        source = self.sb(0, N, self.state.result.at(slot), (1, K))
        self.out.steps.append(
            Step(
                DmaCopy(dma_queue=self.queue_out, source=source, target=target),
                needs=((("result", slot), self.given["result", slot]),),
                gives=((("result free", slot), "done"),),
            )
        )
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
            self.out.source.append(_whole(self.matrices, self.dtype, 0, source=True))
            self.out.result.append(
                _whole(self.matrices, self.dtype, self.tensor_bytes, source=False)
            )
        for block in self.blocks:
            self._round_trip(block)
        self.out.tiles = [_tile(b, b) for b in self.blocks]
        return self.out

    def _round_trip(self, block: Block) -> None:
        K, N = block.extents
        signal = ("written", block.number)
        if self.streamed:
            slot = block.number % self.state.result.count
            result = self.sb(0, N, self.state.result.at(slot), (1, K))
            free = ("result free", slot)
            self._copy(
                self.queue_in,
                self._dram(block, transposed=True),
                result,
                needs=((free, self.given[free]),),
                gives=signal,
            )
            self._copy(self.queue_out, result, self._dram_result(block), ((signal, 1),), free)
            self.give(free)
            return
        source = self.sb(0, K, self.state.source.at(block.number), (1, N))
        result = self.sb(0, N, self.state.result.at(self.transposed[block.number]), (1, K))
        self.out.source.append(Piece(source, block.slices))
        self.out.result.append(Piece(result, self.result_slices(block)))
        self._copy(self.queue_in, source, self._dram(block, transposed=False), (), signal)
        self._copy(self.queue_out, self._dram(block, transposed=True), result, ((signal, 1),), None)

    def _copy(
        self,
        queue: int,
        source: Access,
        target: Access,
        needs: tuple[tuple[Signal, int], ...],
        gives: Signal | None,
    ) -> None:
        done: Event = "done"
        self.out.steps.append(
            Step(
                DmaCopy(dma_queue=queue, source=source, target=target),
                needs,
                () if gives is None else ((gives, done),),
            )
        )

    def _dram(self, block: Block, *, transposed: bool) -> Access:
        return self.in_dram(
            0, self.matrices.source_strides(), block, block.origin,
            transposed=transposed, extents=block.extents,
        )  # fmt: skip

    def _dram_result(self, block: Block) -> Access:
        return self.in_dram(
            self.tensor_bytes, self.matrices.result_strides(), block, block.origin[::-1],
            transposed=False, extents=block.extents[::-1],
        )  # fmt: skip


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


def _whole(matrices: MatrixSet, dtype: str, base: int, *, source: bool) -> Piece:
    """Return the whole tensor, row-major in DRAM."""
    elements = 1
    for dim in matrices.dims:
        elements *= dim
    return Piece(Access(Buffer.DRAM, dtype, 0, 1, base, ((1, elements),)), ())
