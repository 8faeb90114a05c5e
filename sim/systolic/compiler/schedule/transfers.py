"""DMA of the fourth pass: tiles are brought from DRAM, spilled to it, and stored there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from systolic.arrays import Mask
from systolic.compiler.cost.dma import (
    CopyTime,
    as_transpose,
    copy_time,
    queues_beside,
    queues_of_stores,
    run_bytes,
    shares_help,
    transpose_time,
)
from systolic.compiler.cost.pace import array_ticks
from systolic.compiler.ir.dependencies import Region
from systolic.compiler.ir.drafts import Drafts
from systolic.compiler.ir.dram_tensor import DramTensor, Rectangle, whole_bursts
from systolic.compiler.ir.nodes import Axes, Layers, RepeatNode, StoreNode, TensorInDram
from systolic.compiler.ir.parts import RowPart, parts_of
from systolic.compiler.ir.ranges import spans
from systolic.compiler.ir.tasks import MatrixTile, Task
from systolic.compiler.ir.windows import PartWindow
from systolic.compiler.place.residency import Resident
from systolic.compiler.place.tiles import OnChip
from systolic.compiler.schedule.queues import DmaQueues
from systolic.errors import CompileError
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, DmaCopy, DmaTranspose
from systolic.layout import Block
from systolic.spans import Span

MOST_PARTS = 4, 2
"""Into how many parts of its columns a tile is cut at most that work waits for."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """Whether more queues share tiles than usually do.

    even_loads: as many queues share tiles of a matrix as bring equally many parts each.
    spread_stores: all queues share each tile that is stored when nothing is brought any more, of
    the last as many as there are queues.
    """

    even_loads: bool = False
    spread_stores: bool = False


AS_USUAL = Sharing()


@dataclass(slots=True)
class _Spill:
    """The place of a tile in DRAM that has none of its own, and which elements are there.

    parts: of a tile that is there in part only, the parts that are there.
    """

    base: int
    region: Region
    stored: Mask
    parts: dict[PartWindow, Mask] = field(default_factory=dict)


def may_join(chip: Chip, *, multiplies: bool) -> bool:
    """Return whether queues of one direction help the other direction when they have no more.

    Where DRAM has rows to open, further queues at once would close one another's. Where all engines
    move each copy, further queues gain nothing unless products leave some idle. More than two
    queues that share fewer bytes than they are take turns at single bytes.
    """
    in_turn = chip.dma.useful_queues > max(2, chip.dram.bytes_per_cycle)
    idle = multiplies or not (chip.dma.is_spread or in_turn)
    return idle and (shares_help(chip) or chip.dram.organisation is None)


class CopyMaker:
    """Makes the copies between DRAM and the tiles on the chip.

    spilled_bytes: written to DRAM for want of room. next_byte: how much of DRAM is used. came: the
    columns of a tile that came one after another.
    """

    def __init__(
        self,
        drafts: Drafts,
        tiles: OnChip,
        layers: Layers,
        inwards_share: float | None,
        sharing: Sharing,
    ) -> None:
        self._drafts, self._tiles, self._chip, self._sharing = drafts, tiles, tiles.chip, sharing
        self._queues = DmaQueues(self._chip, inwards_share)
        self._nodes = layers.nodes
        self._places = {place.name: place for place in layers.dram}
        self._tensors: dict[tuple[str, Axes, tuple[int, ...]], DramTensor] = {}
        self._regions: dict[int, Region] = {}
        self._spills: dict[MatrixTile, _Spill] = {}
        self._backgrounds: set[str] = set()
        self.came: dict[MatrixTile, list[Span]] = {}
        self._loads_are_over = False
        self._stored: dict[int, tuple[int, int]] = {}
        self._brought: dict[str, int] = {}
        self.spilled_bytes = 0
        self.next_byte = max((p.base + p.size_bytes for p in layers.dram), default=0)
        self.shareable = shares_help(self._chip) and tiles.multiplies
        self.joinable = may_join(self._chip, multiplies=tiles.multiplies)

    def backed(self, tile: MatrixTile) -> bool:
        """Return whether DRAM has the tile."""
        return self._tiles.matrices[tile.matrix].source.kind == "dram" or tile in self._spills

    def bring(
        self,
        tile: MatrixTile,
        resident: Resident,
        *,
        anywhere: bool,
        parts: Callable[[int], list[Span]] | None = None,
    ) -> None:
        """Copy a tile from DRAM to its place.

        anywhere: the queues of stores are free as well. parts: the columns of a number of parts
        with which work may begin one after another, if all else waits for the tile.
        """
        if spill := self._spills.get(tile):
            for held in parts_of(spill.stored):
                source, target = self._spilled_part(spill, tile, held), self._held(resident, held)
                self._move(source, target, spill.region, resident.region, inwards=True)
            for window, stored in spill.parts.items():
                for held in parts_of(stored & ~spill.stored):
                    source, target = (
                        self._spilled_part(spill, tile, held),
                        self._held(resident, held),
                    )
                    ends = window.of(source), window.of(target)
                    self._move(*ends, spill.region, resident.region, inwards=True)
            return
        matrix = self._tiles.matrices[tile.matrix]
        tensor, region = self._tensor(matrix.source.dram, matrix.axes, matrix.source.picked)
        queues, shared = self._chip.dma.useful_queues, matrix.lies.shared
        # Copies of rows one by one are short, so that their latency counts more than their bytes.
        anywhere = anywhere or shared == queues or bool(matrix.source.picked)
        ways = shared or self._ways(anywhere=anywhere)
        if not shared and matrix.block and self._tiles.count(matrix) >= queues:
            ways = 1  # a tile for each queue: parts of it would only wait for further latencies
        evens = self._sharing.even_loads and self.shareable and not shared
        if evens and ways == 1 and not matrix.block:
            ways = self._even_ways(tile)
        block = self._tiles.block(tile)
        if parts is not None and resident.region.piece_bytes:
            self.came[tile] = self._columns(tensor, block, ways, parts)
        for whole in self.came.get(tile) or [Span(0, block.extents[1])]:
            shares, beside = self._beside(tensor, block, whole, inwards=True)
            for part in (p for cols in shares for p in self._parts(tensor, block, ways, cols)):
                target = self._tiles.part(resident, part.rows, part.cols)
                self._move(
                    part.access,
                    target,
                    region,
                    resident.region,
                    inwards=True,
                    anywhere=anywhere,
                    beside=beside,
                )

    def _even_ways(self, tile: MatrixTile) -> int:
        """Return how many queues share a tile if each queue is to bring as many parts of a matrix.

        The first tiles are shared, which work waits for first.
        """
        matrix, queues = self._tiles.matrices[tile.matrix], self._queues.of_loads
        place = self._brought.get(tile.matrix, 0)
        self._brought[tile.matrix] = place + 1
        tiles = self._tiles.count(matrix)
        each, more = divmod(-tiles % queues, tiles)
        return 1 + each + (place < more)

    def _columns(
        self, tensor: DramTensor, block: Block, ways: int, parts: Callable[[int], list[Span]]
    ) -> list[Span]:
        """Return the columns of a tile that come one after another, none if all come at once.

        An engine that takes an element in a cycle must still be busy with one part when the next
        has come, latency included.
        """
        width = block.extents[1]
        first = next(iter(self._parts(tensor, block, ways, Span(0, width))))
        target = replace(first.access, buffer=Buffer.STATE, partitions=first.rows.count)
        time = copy_time(self._chip, first.access, target)
        busy = width * min(map(self._chip.period, self._chip.lane_engines))
        for many in MOST_PARTS:
            taken = (many * time.latency + time.moving) * self._chip.period("dma")
            found = parts(many) if taken <= busy else []
            if sum(part.count for part in found) == width:
                return [Span(part.first % width, part.count) for part in found]
        return []

    def spill(self, resident: Resident) -> None:
        """Copy the finished part of a tile to DRAM, except the part that DRAM has already.

        No element is made twice, so the part in DRAM is up to date. If some parts of elements are
        made and others are not, these parts are copied one by one.
        """
        tile = resident.tile
        made, parts_made = self._tiles.made_mask(tile), self._tiles.parts_made(tile)
        if not made.any() and not any(mask.any() for _, mask in parts_made):
            return
        if tile not in self._spills:
            self._spills[tile] = _Spill(*self._reserve(tile), np.zeros_like(made))
        spill = self._spills[tile]
        for part in parts_of(made & ~spill.stored):
            source, target = self._held(resident, part), self._spilled_part(spill, tile, part)
            self.spilled_bytes += target.size_bytes
            self._move(source, target, resident.region, spill.region, inwards=False)
        spill.stored |= made
        for window, mask in parts_made:
            there = spill.parts.setdefault(window, np.zeros_like(made))
            for part in parts_of(mask & ~made & ~there):
                source, target = self._held(resident, part), self._spilled_part(spill, tile, part)
                source, target = window.of(source), window.of(target)
                self.spilled_bytes += target.size_bytes
                self._move(source, target, resident.region, spill.region, inwards=False)
            there |= mask & ~made

    def _held(self, resident: Resident, part: RowPart) -> Access:
        """Return the access to a part of a tile in the state buffer."""
        run = self._tiles.part(resident, part.rows, part.cols)
        if part.times == 1:
            return run
        return replace(run, pattern=((part.step, part.times), (1, part.cols.count)))

    def _spilled_part(self, spill: _Spill, tile: MatrixTile, part: RowPart) -> Access:
        """Return the access to a part of a spilled tile, which lies row by row in DRAM."""
        whole = self._spilled(tile, spill.base)
        _, cols = self._tiles.block(tile).extents
        first = part.rows.first * cols + part.cols.first
        start = spill.base + first * whole.element_bytes
        if part.cols.count == cols:
            return replace(whole, start=start, pattern=((1, part.rows.count * cols),))
        pairs = ((cols, part.rows.count), (part.step, part.times), (1, part.cols.count))
        pattern = tuple(pair for pair in pairs if pair[1] > 1) or ((1, 1),)
        return replace(whole, start=start, pattern=pattern)

    def done_within(self, source: Access, target: Access) -> int:
        """Return when a queue would be done with a copy on the chip, in ticks of all its work."""
        return self._queues.done(copy_time(self._chip, source, target)) * self._chip.period("dma")

    def within(self, source: Access, target: Access, read: Region, written: Region) -> None:
        """Copy from one place in the state buffer to another."""
        self._move(source, target, read, written, inwards=True, anywhere=True)

    def repeat(self, task: Task, node: RepeatNode) -> None:
        """Copy the only row of a tile to every partition of another, by a step of 0."""
        (row,), (cols,) = task.rows, task.cols
        matrix, out = (self._tiles.matrices[name] for name in (*node.inputs, node.output))
        source, once = self._tiles.reach(matrix, task.number, row, cols)
        target, made = self._tiles.make_reach(out, task.number, Span(0, out.rows), cols)
        again = replace(once, pattern=((0, made.partitions), *once.pattern))
        self.within(again, made, source.region, target.region)

    def bounce(self, task: Task) -> None:
        """Transpose a tile: write it to DRAM by rows, read it back by columns.

        Each direction has its own queues: two queues that write to one bank at once would hold each
        other up.
        """
        source, target = (self._tiles.memory.resident[t] for t in (*task.reads, *task.writes))
        base, region = self._reserve(source.tile)
        rows, cols = self._tiles.block(source.tile).extents
        out = self._spilled(source.tile, base)
        back = replace(out, pattern=((1, cols), (cols, rows)))
        self._move(self._tiles.whole(source), out, source.region, region, inwards=True)
        self._move(back, self._tiles.make_whole(target), region, target.region, inwards=False)

    def note_that_loads_are_over(self) -> None:
        """Note that nothing is brought any more."""
        if not self._loads_are_over:
            self._queues.loads_are_over()
            self._loads_are_over = True

    def note_that_stores_wait_for_loads(self) -> None:
        """Note that all that is stored depends on the last of what is brought."""
        if not self._stored:
            self._queues.only_loads_so_far()

    def store(
        self, node: StoreNode, resident: Resident, *, anywhere: bool, alone: bool, following: int
    ) -> None:
        """Copy a finished tile to its tensor in DRAM.

        anywhere: nothing is brought any more, so that the queues of loads are free as well. alone:
        no other tile is moved meanwhile. following: how many tiles are stored after it.
        """
        tensor, region = self._tensor(node.dram, node.axes)
        self._begin_phase(node, region)
        block = self._tiles.block(resident.tile)
        matrix = self._tiles.matrices[resident.tile.matrix]
        queues, shared = self._chip.dma.useful_queues, matrix.lies.shared
        if shared and alone and self.joinable and not self._tiles.multiplies:
            shared = queues
        anywhere = anywhere or shared == queues
        ways = shared or self._ways(anywhere=anywhere)
        if alone and self.shareable and not shared:
            ways = self._soonest(tensor, block)
        spreads = self._sharing.spread_stores and anywhere and self.shareable and not shared
        if spreads and following < queues:
            ways, following = queues, 0
        if not shared and following >= ways:  # sharing a tile would make every queue wait for it
            ways = 1
        taken: list[int] = []
        whole = Span(0, block.extents[1])
        shares, beside = self._beside(tensor, block, whole, inwards=False)
        for part in (p for cols in shares for p in self._parts(tensor, block, ways, cols)):
            source = self._tiles.part(resident, part.rows, part.cols)
            queue = self._move(
                source,
                part.access,
                resident.region,
                region,
                inwards=False,
                anywhere=anywhere,
                besides=taken,
                beside=beside,
            )
            taken.append(queue)
            self._stored[queue] = (
                len(self._drafts.found),
                copy_time(self._chip, source, part.access).cycles,
            )

    def _soonest(self, tensor: DramTensor, block: Block) -> int:
        """Return how many queues store the last tile soonest.

        All of them do, unless some are still at the tile before: so they are if the array has
        streamed for less time since that was made than its copies take.
        """
        period, drafts = self._chip.period("dma"), self._drafts.found
        waits = dict.fromkeys(range(self._chip.dma.useful_queues), 0)
        for queue, (first, cycles) in self._stored.items():
            since = array_ticks(drafts[first:], self._chip)
            waits[queue] = max(0, cycles * period - since)
        ends: dict[int, int] = {}
        for ways, wait in enumerate(sorted(waits.values()), 1):
            parts = self._parts(tensor, block, ways, Span(0, block.extents[1]))
            part = next(iter(parts))
            run, dtype = ((1, part.cols.count),), part.access.dtype
            source = Access(Buffer.STATE, dtype, 0, part.rows.count, 0, run)
            ends[ways] = wait + copy_time(self._chip, source, part.access).cycles * period
        return min(ends, key=lambda ways: (ends[ways], -ways))

    def _begin_phase(self, node: StoreNode, region: Region) -> None:
        """Let a store wait for the stores of a background over which it writes."""
        if node.background:
            self._backgrounds.add(region.name)
        elif region.name in self._backgrounds:
            self._backgrounds.remove(region.name)
            region.end_phase()

    def _reserve(self, tile: MatrixTile) -> tuple[int, Region]:
        size = whole_bursts(self._spilled(tile, 0).size_bytes)
        base, have = self.next_byte, self._chip.dram.size_bytes
        if base + size > have:
            raise CompileError(
                f"dram of {self._chip.name} has no room to spill {tile}: {size} bytes beside "
                f"{base} of others, found {have}"
            )
        self.next_byte += size
        return base, Region(f"spill{base}")

    def _spilled(self, tile: MatrixTile, base: int) -> Access:
        rows, cols = self._tiles.block(tile).extents
        dtype = self._tiles.matrices[tile.matrix].dtype
        return Access(Buffer.DRAM, dtype, 0, 1, base, ((1, rows * cols),))

    def _ways(self, *, anywhere: bool) -> int:
        """Return how many queues share a tile.

        If few tiles move, half of the queues share a tile, so that two tiles move at once. If all
        queues shared one, they would wait for one another at the port of the tile's bank.
        """
        return max(1, self._chip.dma.useful_queues // 2) if anywhere and self.shareable else 1

    def _parts(
        self, tensor: DramTensor, block: Block, ways: int, cols: Span
    ) -> Iterator[Rectangle]:
        """Yield the rectangles in DRAM of a tile's columns, its rows shared out.

        If the engines of DMA share a copy out by partition, its rows stay together.
        """
        wide = self._chip.dma.is_spread
        (row, col), (rows, _) = block.origin, block.extents
        share = -(-rows // ways)
        for first in range(0, rows, share):
            count = min(share, rows - first)
            origin, extents = (row + first, col + cols.first), (count, cols.count)
            for part in tensor.rectangles(block.batch, origin, extents, whole_rows=wide):
                yield Rectangle(
                    part.access,
                    Span(first + part.rows.first, part.rows.count),
                    Span(cols.first + part.cols.first, part.cols.count),
                )

    def _beside(
        self, tensor: DramTensor, block: Block, cols: Span, *, inwards: bool
    ) -> tuple[list[Span], int]:
        """Return the shares of a tile's columns that queues move side by side, and of how many.

        Where copies are spread, each share has all rows, and all engines. No run is cut, and no
        tile that DMA transposes: its runs are those on the chip. More queues store further tiles
        meanwhile, if runs are short. Loads wait for one another: work wants the first tile first.
        """
        if not self._chip.dma.is_spread:
            return [cols], 1
        first = next(iter(self._parts(tensor, block, 1, cols)))
        size, row = first.access.element_bytes, ((1, first.cols.count),)
        held = Access(Buffer.STATE, first.access.dtype, 0, first.rows.count, 0, row)
        if inwards and isinstance(self._cheapest(first.access, held)[0], DmaTranspose):
            return [cols], 1
        run = min(run_bytes(first.access) // size, cols.count)
        beside = queues_beside(self._chip, run * size)
        share = -(-cols.count // (run * beside)) * run
        shares = spans(0, cols.count, share, share)
        queues = beside if inwards else queues_of_stores(self._chip, run * size)
        return [Span(cols.first + part.first, part.count) for part in shares], queues

    def _tensor(
        self, place: str, axes: Axes, picked: tuple[int, ...] = ()
    ) -> tuple[DramTensor, Region]:
        where, key = self._places[place], (place, axes, picked)
        if key not in self._tensors:
            self._tensors[key] = DramTensor(where.shape, where.base, axes, picked)
        return self._tensors[key], self._region(where)

    def _region(self, place: TensorInDram) -> Region:
        return self._regions.setdefault(place.start, Region(f"dram{place.start}"))

    def _move(
        self,
        source: Access,
        target: Access,
        read: Region,
        written: Region,
        *,
        inwards: bool,
        anywhere: bool = False,
        besides: Collection[int] = (),
        beside: int = 1,
    ) -> int:
        """Add a copy, and return its queue."""
        copy, time = self._cheapest(source, target)
        queue = self._queues.pick(
            inwards=inwards, time=time, anywhere=anywhere, besides=besides, beside=beside
        )
        self._drafts.add(replace(copy, dma_queue=queue), (read,), (written,))
        return queue

    def _cheapest(self, source: Access, target: Access) -> tuple[DmaCopy, CopyTime]:
        """Return a copy, or the transpose by DMA that does the same sooner, and its time."""
        time = copy_time(self._chip, source, target)
        matrix = as_transpose(self._chip, source, target)
        if matrix is not None:
            turned = transpose_time(self._chip, matrix, target)
            if turned.cycles < time.cycles:
                return DmaTranspose(dma_queue=0, source=matrix, target=target), turned
        return DmaCopy(dma_queue=0, source=source, target=target), time
