"""The fourth pass: tasks become instructions in the queues of the units, with their dependencies.

Each queue is filled in the order of the tasks. A transfer is queued right before the task that
needs it, but in a DMA queue, which runs ahead as far as memory allows: that is the prefetching.
Sums go round the banks of the result buffer, so the next begin while the last are copied out.
Not here: semaphores (`sync`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from sim.compiler.dram import DramTensor, Rectangle
from sim.compiler.hazards import Key, Ref, Region, needed
from sim.compiler.matrix import Axes, Layers, Matrix
from sim.compiler.options import Options
from sim.compiler.residency import Residency, Resident, Stay
from sim.compiler.room import End, Room
from sim.compiler.tile import Span, Task, Tile, Tiled, tiling, whole_banks
from sim.errors import CompileError
from sim.hw.datatypes import PSUM_WORD_BYTES, data_type
from sim.hw.dram import dram_rate, run_cycles
from sim.hw.spec import Chip
from sim.isa import Access, Buffer, Copy, DmaCopy, Instruction, LoadWeights, MatMul, Select
from sim.layout import Block, Shape


@dataclass(frozen=True, slots=True)
class Draft:
    """An instruction without waits and posts: whom it must wait for, and the keys it may post.

    layer: the operation it belongs to. why: "data" (it reads what they write) or "memory" (it
    overwrites what they use) for each of `needs`.
    """

    instruction: Instruction
    layer: str
    needs: tuple[Ref, ...]
    keys: tuple[Key, ...]
    data: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A tile of an input or output on the chip: its tensor's matrix, slices of it, and place."""

    matrix: str
    slices: tuple[int | slice, ...]
    access: Access


@dataclass(frozen=True, slots=True)
class Scheduled:
    """The result of the fourth pass: drafts in order, tiles there at the start and at the end.

    stays: what lay where, when (the third pass). spilled: bytes written to DRAM for want of room.
    dram_bytes: how much of DRAM is used. identities: identity matrices that must be there.
    """

    drafts: tuple[Draft, ...]
    given: tuple[Piece, ...]
    kept: tuple[Piece, ...]
    identities: tuple[Access, ...]
    stays: tuple[Stay, ...]
    spilled_bytes: int
    dram_bytes: int


@dataclass(slots=True)
class _Queues:
    """DMA queues by direction, and how busy each will be."""

    chip: Chip
    busy: dict[int, int] = field(default_factory=dict)

    def pick(self, *, inwards: bool, cycles: int, everywhere: bool) -> int:
        """Return the queue that will be free first."""
        count = self.chip.dma.queues
        bring = count - max(1, count // 4) if count > 1 else 1
        some = range(bring) if inwards else range(min(bring, count - 1), count)
        queue = min(range(count) if everywhere else some, key=lambda q: self.busy.get(q, 0))
        self.busy[queue] = self.busy.get(queue, 0) + cycles
        return queue


def schedule(layers: Layers, tiled: Tiled, chip: Chip, options: Options) -> Scheduled:
    """Return the instructions of all tasks."""
    return Scheduler(layers, tiled, chip, options).run()


class Scheduler:
    """Goes through the tasks once; brings tiles in, makes instructions, lets tiles go."""

    def __init__(self, layers: Layers, tiled: Tiled, chip: Chip, options: Options) -> None:
        self.layers, self.tiled, self.chip, self.options = layers, tiled, chip, options
        self.p, self.q = tiled.block
        self.matrices = {m.name: m for m in layers.matrices}
        self.blocks = {m.name: tiling(m, tiled.block) for m in layers.matrices}
        self.drafts: list[Draft] = []
        self.layer = ""
        self.queues = _Queues(chip)
        self.places = {d.name: d for d in layers.dram}
        self._dram: dict[tuple[str, Axes], DramTensor] = {}
        self._dram_regions: dict[int, Region] = {}
        self._next_byte = max((d.base + d.size_bytes for d in layers.dram), default=0)
        self._spills: dict[Tile, tuple[int, Region]] = {}
        self._spilled_bytes = 0
        self._banks = [Region(f"psum{b}") for b in range(chip.result_buffer.banks)]
        self._next_bank = 0
        self._identity: dict[str, tuple[Access, Region]] = {}
        self._stored_identities: list[Access] = []
        moving = {node.inputs[1] for node in layers.nodes if node.kind == "multiply"}
        held = {node.inputs[0] for node in layers.nodes if node.kind == "multiply"}
        turned = {node.output for node in layers.nodes if node.kind == "turn"}
        self._high = moving | (turned - held)
        self.memory = Residency(
            Room(chip.state_buffer.bytes_per_partition, whole_banks(chip)), self._end_of,
            self._tile_bytes, f"state_buffer of {chip.name}",
        )  # fmt: skip
        self._last_store = max(
            (n for n, t in enumerate(tiled.tasks) if t.kind == "store"), default=-1
        )
        self._last_load_task = self._find_last_load()
        # Queues that share DRAM's rate would only hold one another's bank for longer.
        self._shared = dram_rate(chip, 2) >= 2 * dram_rate(chip, 1)
        self._spread = self._shared

    def _find_last_load(self) -> int:
        """Return the last task that is the first to need a tile from DRAM."""
        seen: set[str] = set()
        last = -1
        tiles: set[Tile] = set()
        for number, task in enumerate(self.tiled.tasks):
            for tile in task.reads:
                if self.matrices[tile.matrix].source == "dram" and tile not in tiles:
                    tiles.add(tile)
                    seen.add(tile.matrix)
                    last = number
        return last

    # The walk

    def run(self) -> Scheduled:
        """Return everything the later passes need."""
        kept = [t for m in self.layers.matrices if m.keep for t in self._all_tiles(m)]
        self.memory.plan(self.tiled.tasks, kept)
        given = [t for m in self.layers.matrices if m.source == "state_buffer"
                 for t in self._all_tiles(m)]  # fmt: skip
        pieces = [self._give(tile) for tile in given]
        for dtype in dict.fromkeys(self._turned_types()):
            self._make_identity(dtype)
        for number, task in enumerate(self.tiled.tasks):
            self.memory.task = number
            self.layer = self.layers.nodes[task.node].layer
            self._task(task)
            if task.kind != "store":
                self._spread = False
        self.memory.task = len(self.tiled.tasks)
        for tile in kept:
            self._ensure(tile, set(kept), write=False)
        ends = [self._piece(tile, self.memory.resident[tile]) for tile in kept]
        for resident in list(self.memory.resident.values()):
            self.memory.drop(resident)
        return Scheduled(
            tuple(self.drafts), tuple(pieces), tuple(ends), tuple(self._stored_identities),
            tuple(self.memory.stays), self._spilled_bytes, self._next_byte,
        )  # fmt: skip

    def _task(self, task: Task) -> None:
        pinned = set(task.reads) | set(task.writes)
        for tile in task.reads:
            self._ensure(tile, pinned, write=False)
        for tile in task.writes:
            self._ensure(tile, pinned, write=True)
        getattr(self, f"_{task.kind}")(task)
        for tile in dict.fromkeys((*task.reads, *task.writes)):
            if self.memory.used(tile):
                self.memory.drop(self.memory.resident[tile])

    def _turned_types(self) -> Iterator[str]:
        for node in self.layers.nodes:
            if node.kind == "turn":
                yield self.matrices[node.inputs[0]].dtype

    # Tiles

    def _all_tiles(self, matrix: Matrix) -> Iterator[Tile]:
        blocks = self.blocks[matrix.name]
        for block in blocks:
            yield Tile(
                matrix.name, block.number // blocks.count_per_matrix, block.row, block.column
            )

    def _block(self, tile: Tile) -> Block:
        blocks = self.blocks[tile.matrix]
        number = tile.number * blocks.count_per_matrix + tile.row * blocks.grid[1] + tile.col
        return blocks.at(number)

    def _size(self, tile: Tile) -> int:
        return data_type(self.matrices[tile.matrix].dtype).size_bytes

    def _tile_bytes(self, tile: Tile) -> int:
        return self._block(tile).extents[1] * self._size(tile)

    def _end_of(self, tile: Tile) -> End:
        # Moving vectors and weights are read in the same cycles: never from one bank.
        return "high" if tile.matrix in self._high else "low"

    def _piece(self, tile: Tile, resident: Resident) -> Piece:
        block = self._block(tile)
        rows, cols = block.extents
        return Piece(tile.matrix, block.slices, self._sb(resident, 0, rows, 0, cols))

    def _give(self, tile: Tile) -> Piece:
        """Place a tile that is there at cycle 0."""
        found = self.memory.place(tile, dirty=True, pinned=())
        if not isinstance(found, Resident):
            need = sum(
                self._tile_bytes(t) for m in self.layers.matrices if m.source == "state_buffer"
                for t in self._all_tiles(m)
            )  # fmt: skip
            raise CompileError(
                f"state_buffer of {self.chip.name} has no room for the inputs: they need {need} "
                f"bytes per partition, found {self.memory.room.size_bytes}"
            )
        return self._piece(tile, found)

    def _ensure(self, tile: Tile, pinned: set[Tile], *, write: bool) -> Resident:
        """Return the tile's place in the state buffer; bring it there if it is not."""
        if resident := self.memory.resident.get(tile):
            resident.dirty = resident.dirty or write
            return resident
        backed = self.matrices[tile.matrix].source == "dram" or tile in self._spills
        found = self.memory.place(tile, dirty=write or not backed, pinned=pinned)
        while not isinstance(found, Resident):
            self._evict(found[-1])
            found = self.memory.place(tile, dirty=write or not backed, pinned=pinned)
        if backed:
            self._bring(tile, found)
        return found

    def _evict(self, victim: Resident) -> None:
        if victim.dirty:
            self._spill(victim)
        self.memory.drop(victim)

    # Transfers

    def _bring(self, tile: Tile, resident: Resident) -> None:
        block = self._block(tile)
        if tile in self._spills:
            base, region = self._spills[tile]
            self._move(self._spill_access(tile, base), self._whole(tile, resident), region,
                       resident.region, inwards=True)  # fmt: skip
            return
        matrix = self.matrices[tile.matrix]
        tensor, region = self._tensor(matrix.dram, matrix.axes)
        for part in self._parts(tensor, block, everywhere=self._spread):
            target = self._sb(resident, part.row, part.rows, part.col, part.cols)
            self._move(part.access, target, region, resident.region, inwards=True,
                       everywhere=self._spread)  # fmt: skip

    def _spill(self, resident: Resident) -> None:
        tile = resident.tile
        if tile not in self._spills:
            rows, cols = self._block(tile).extents
            size = -(-rows * cols * self._size(tile) // 64) * 64
            if self._next_byte + size > self.chip.dram.size_bytes:
                raise CompileError(
                    f"dram of {self.chip.name} has no room to spill {tile}: {size} bytes beside "
                    f"{self._next_byte} of others, found {self.chip.dram.size_bytes}"
                )
            self._spills[tile] = self._next_byte, Region(f"spill{self._next_byte}")
            self._next_byte += size
        base, region = self._spills[tile]
        access = self._spill_access(tile, base)
        self._spilled_bytes += access.size_bytes
        self._move(self._whole(tile, resident), access, resident.region, region, inwards=False)

    def _spill_access(self, tile: Tile, base: int) -> Access:
        rows, cols = self._block(tile).extents
        return Access(
            Buffer.DRAM, self.matrices[tile.matrix].dtype, 0, 1, base, ((1, rows * cols),)
        )

    def _whole(self, tile: Tile, resident: Resident) -> Access:
        rows, cols = self._block(tile).extents
        return self._sb(resident, 0, rows, 0, cols)

    def _store(self, task: Task) -> None:
        (tile,) = task.reads
        node = self.layers.nodes[task.node]
        tensor, region = self._tensor(node.dram, node.axes)
        resident, block = self.memory.resident[tile], self._block(tile)
        everywhere = self._shared and self.memory.task > self._last_load_task
        for part in self._parts(tensor, block, everywhere=everywhere):
            source = self._sb(resident, part.row, part.rows, part.col, part.cols)
            self._move(source, part.access, resident.region, region, inwards=False,
                       everywhere=everywhere)  # fmt: skip

    def _parts(self, tensor: DramTensor, block: Block, *, everywhere: bool) -> Iterator[Rectangle]:
        """Yield a tile's rectangles in DRAM; if all queues are to share it, by rows."""
        (row, col), (rows, cols) = block.origin, block.extents
        share = -(-rows // self.chip.dma.queues) if everywhere else rows
        for first in range(0, rows, share):
            count = min(share, rows - first)
            for part in tensor.rectangles(block.batch, (row + first, col), (count, cols)):
                yield Rectangle(part.access, first + part.row, part.rows, part.col, part.cols)

    def _tensor(self, place: str, axes: Axes) -> tuple[DramTensor, Region]:
        if (place, axes) not in self._dram:
            where = self.places[place]
            self._dram[place, axes] = DramTensor(Shape.parse(where.shape), where.base, axes)
        base = self.places[place].base
        region = self._dram_regions.setdefault(base, Region(f"dram{base}"))
        return self._dram[place, axes], region

    def _move(
        self, source: Access, target: Access, read: Region, written: Region, *,
        inwards: bool, everywhere: bool = False,
    ) -> None:  # fmt: skip
        cycles = self.chip.dma.latency_cycles + self.chip.dram.latency_cycles
        rows = max(source.partitions, target.partitions)
        row = -(-source.size_bytes // rows)
        moving = -(-row // self.chip.dma.bytes_per_cycle)
        if self.chip.dram.organisation is not None:
            moving = run_cycles(self.chip, row)
        cycles += rows * (self.chip.dma.descriptor_cycles + moving)
        queue = self.queues.pick(inwards=inwards, cycles=cycles, everywhere=everywhere)
        copy = DmaCopy(dma_queue=queue, source=source, target=target)
        self._draft(copy, (read,), (written,))

    # Work of the array and the engines

    def _multiply(self, task: Task) -> None:
        node = self.layers.nodes[task.node]
        a, b, out = (self.matrices[n] for n in (*node.inputs, node.output))
        ((k, height),) = task.rows
        if task.first:
            first = self._next_bank
            self._next_bank += len(task.cols) * len(task.moving)
        else:
            first = self._next_bank - len(task.cols) * len(task.moving)
        bank = first
        for c, width in task.cols:
            place = self._resident(a, task.number, k, c)
            weights = self._sb(place, k % self.p, height, c % self.q, width)
            self._draft(LoadWeights(weights=weights), (place.region,), ())
            for m, vectors in task.moving:
                self._product(task, (b, out), (k, height), (c, width), (m, vectors), bank)
                bank += 1

    def _product(
        self, task: Task, matrices: tuple[Matrix, Matrix], rows: Span, cols: Span, moving: Span,
        bank: int,
    ) -> None:  # fmt: skip
        b, out = matrices
        (k, height), (c, width), (m, vectors) = rows, cols, moving
        place = self._resident(b, task.number, k, m)
        sums, region = self._psum(b.dtype, width, vectors, bank)
        vectors_read = self._sb(place, k % self.p, height, m % self.q, vectors)
        multiply = MatMul(moving=vectors_read, result=sums, accumulate=not task.first)
        self._draft(multiply, (place.region,), (region,), accumulates=not task.first)
        if task.last:
            target = self._resident(out, task.number, c, m)
            self._drain(sums, region, target, (c, width), (m, vectors))

    def _drain(
        self, sums: Access, region: Region, target: Resident, rows: Span, cols: Span
    ) -> None:
        """Copy finished sums from column partitions to row partitions, cast on the way."""
        engine = self.options.drain_engine
        place = self._sb(target, rows[0] % self.p, rows[1], cols[0] % self.q, cols[1])
        self._draft(Copy(engine=engine, source=sums, target=place), (region,), (target.region,))

    def _turn(self, task: Task) -> None:
        source = self.memory.resident[task.reads[0]]
        out = self.matrices[self.layers.nodes[task.node].output]
        identity, held = self._identity[self.matrices[source.tile.matrix].dtype]
        for r, height in task.rows:
            for c, width in task.cols:
                weights = self._sb(source, r % self.p, height, c % self.q, width)
                self._draft(LoadWeights(weights=weights), (source.region,), ())
                for i, vectors in _pieces(height, self.chip.result_buffer.bank_words):
                    sums, region = self._psum(identity.dtype, width, vectors, self._next_bank)
                    self._next_bank += 1
                    start = identity.start + i * identity.element_bytes
                    ones = Access(Buffer.STATE, identity.dtype, 0, height, start, ((1, vectors),))
                    self._draft(MatMul(moving=ones, result=sums), (held,), (region,))
                    target = self._resident(out, task.number, c, r)
                    self._drain(sums, region, target, (c, width), (r + i, vectors))

    def _convert(self, task: Task) -> None:
        source, target = (self.memory.resident[t] for t in (task.reads[0], task.writes[0]))
        rows, cols = self._block(source.tile).extents
        copy = Copy(
            engine=self.options.drain_engine,
            source=self._sb(source, 0, rows, 0, cols),
            target=self._sb(target, 0, rows, 0, cols),
        )
        self._draft(copy, (source.region,), (target.region,))

    def _make_identity(self, dtype: str) -> None:
        rows = min(self.chip.pe_array.rows, self.p)
        size = data_type(dtype).size_bytes
        found = self.memory.room.take(rows * size, "high")
        if found is None:
            raise CompileError(
                f"state_buffer of {self.chip.name} has no room for the identity: it needs "
                f"{rows * size} bytes per partition beside the inputs"
            )
        region = Region(f"sb{found[0]}", before=found[1])
        access = Access(Buffer.STATE, dtype, 0, rows, found[0], ((1, rows),))
        self._identity[dtype] = access, region
        if self.options.identity == "stored":
            self._stored_identities.append(access)
            return
        # One instruction: ones written over zeros would race with them where lanes are late.
        diagonal = Select(
            engine=self.options.drain_engine, compare="equal", value=1, target=access,
            per_partition=1, per_element=-1,
        )  # fmt: skip
        self._draft(diagonal, (), (region,))

    # Accesses and drafts

    def _resident(self, matrix: Matrix, number: int, row: int, col: int) -> Resident:
        return self.memory.resident[Tile(matrix.name, number, row // self.p, col // self.q)]

    def _sb(self, place: Resident, partition: int, rows: int, col: int, cols: int) -> Access:
        dtype = self.matrices[place.tile.matrix].dtype
        start = place.start + col * data_type(dtype).size_bytes
        return Access(Buffer.STATE, dtype, partition, rows, start, ((1, cols),))

    def _psum(self, dtype: str, columns: int, words: int, number: int) -> tuple[Access, Region]:
        bank = number % self.chip.result_buffer.banks
        start = bank * self.chip.result_buffer.bank_bytes
        accumulator = data_type(dtype).accumulator
        access = Access(Buffer.RESULT, accumulator, 0, columns, start, ((1, words),))
        assert words * PSUM_WORD_BYTES <= self.chip.result_buffer.bank_bytes
        return access, self._banks[bank]

    def _draft(
        self, instruction: Instruction, reads: Iterable[Region], writes: Iterable[Region], *,
        accumulates: bool = False,
    ) -> None:  # fmt: skip
        step, queue = len(self.drafts), instruction.queue
        refs: list[Ref] = []
        keys: list[Key] = []
        for region in reads:
            refs += region.read(step, queue, streams=isinstance(instruction, MatMul))
            keys.append(region.readers[-1].key)
        data = len(dict.fromkeys(needed(refs, queue)))
        for region in writes:
            refs += region.write(step, queue, accumulates=accumulates)
            keys.append(region.writers[-1].key)
        self.drafts.append(
            Draft(
                instruction,
                self.layer,
                tuple(dict.fromkeys(needed(refs, queue))),
                tuple(dict.fromkeys(keys)),
                data,
            )
        )


def _pieces(size: int, most: int) -> Iterator[Span]:
    """Yield (first, count) of pieces of at most `most`."""
    return ((first, min(most, size - first)) for first in range(0, size, most))


def identity_values(access: Access) -> np.ndarray:
    """Return the identity matrix that an access must hold, [rows, rows]."""
    return np.eye(access.partitions, dtype=data_type(access.dtype).numpy)
