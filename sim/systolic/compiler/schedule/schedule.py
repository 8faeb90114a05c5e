"""The fourth pass: tasks become instructions in the queues of the units, with their dependencies.

Each queue is filled in the order of the tasks. A transfer is queued right before the task that
needs it, but in a DMA queue. That queue runs ahead as far as memory allows, which is the
prefetching. `transfers`, `products` and `moves` make the instructions. Not here: semaphores
(`sync`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, takewhile

from systolic.compiler.cost.dma import load_cost
from systolic.compiler.cost.engine_turns import turned_by_engine
from systolic.compiler.ir.drafts import Draft, Drafts
from systolic.compiler.ir.nodes import (
    BounceNode,
    ConvertNode,
    DiagonalNode,
    GatherNode,
    Layers,
    MoveNode,
    MultiplyNode,
    Node,
    PackNode,
    PoolNode,
    ReduceNode,
    RepeatNode,
    RowsNode,
    StoreNode,
    TurnNode,
    UnpackNode,
    for_every_kind,
)
from systolic.compiler.ir.tasks import MatrixTile, Task, Tiled
from systolic.compiler.place.free_bytes import Wish, in_words
from systolic.compiler.place.residency import Resident, Stay
from systolic.compiler.place.tiles import OnChip, PlacedTile
from systolic.compiler.schedule.engine_work import EngineWork
from systolic.compiler.schedule.gathers import GatherMaker
from systolic.compiler.schedule.identities import Identities
from systolic.compiler.schedule.lanes import LaneMaker
from systolic.compiler.schedule.moves import MoveMaker
from systolic.compiler.schedule.packing import PackMaker
from systolic.compiler.schedule.products import ProductMaker
from systolic.compiler.schedule.sums import SumBanks
from systolic.compiler.schedule.transfers import AS_USUAL, CopyMaker, Sharing, may_join
from systolic.compiler.schedule.turns import TurnMaker
from systolic.errors import RoomError
from systolic.hw.spec import Chip
from systolic.isa import Access
from systolic.spans import Interval
from systolic.workload.options import Options


@dataclass(frozen=True, slots=True)
class Scheduled:
    """The result of the fourth pass: drafts in order, tiles there at the start and at the end.

    stays: the tiles' places and times (the third pass). spilled: bytes written to DRAM for want of
    room. dram_bytes: how much of DRAM is used. identities: identity matrices that must be in memory
    at cycle 0. turned_with: all identity matrices, also those that are written. evictions: how many
    tiles had to leave before their last use. bases: the first byte of each matrix that lies in
    unbroken rows. turned: multiply-adds of products with an identity. by_engine: the numbers of the
    nodes whose matrices an engine turns. brought: the drafts that bring each tile from DRAM for the
    first time.
    """

    drafts: tuple[Draft, ...]
    given: tuple[PlacedTile, ...]
    kept: tuple[PlacedTile, ...]
    identities: tuple[Access, ...]
    stays: tuple[Stay, ...]
    spilled_bytes: int
    dram_bytes: int
    evictions: int
    bases: tuple[tuple[str, int], ...] = ()
    turned: int = 0
    turned_with: tuple[Access, ...] = ()
    by_engine: frozenset[int] = frozenset()
    brought: tuple[tuple[MatrixTile, Interval], ...] = ()

    @property
    def all_bytes(self) -> int:
        """Return the bytes of each partition that all tiles would take side by side."""
        return sum({stay.tile: in_words(stay.size_bytes) for stay in self.stays}.values())


def schedule(
    layers: Layers,
    tiled: Tiled,
    chip: Chip,
    options: Options,
    *,
    both_ways: bool = False,
    sharing: Sharing = AS_USUAL,
    evicts: bool = True,
) -> Scheduled:
    """Return the instructions of all tasks.

    both_ways: every DMA queue brings and stores; otherwise they are divided. sharing: how many of
    them share a tile. evicts: whether tiles may leave before their last use.

    Raises CompileError if the tiles of a task have no room together, or some would have to leave.
    """
    made = _Scheduler(
        layers,
        tiled,
        chip,
        options,
        both_ways=both_ways,
        sharing=sharing,
        evicts=evicts,
    )
    return made.run()


def _inwards(
    layers: Layers, tiled: Tiled, chip: Chip, last_load: int, *, multiplies: bool
) -> float:
    """Return the share of the queues' time that loads take, each matrix counted once.

    last_load: the task that needs the last tile from DRAM. Stores behind that task do not count if
    all queues are free for them then, or if one queue has all DMA engines.
    """
    joins = chip.dma.is_spread or may_join(chip, multiplies=multiplies)
    places = {place.name: place.shape for place in layers.dram}
    come = sum(
        load_cost(chip, places[m.source.dram], m.axes)
        for m in layers.matrices
        if m.source.kind == "dram" and not m.window
    )
    stores, early = Counter[int](), Counter[int]()
    for number, task in enumerate(tiled.tasks):
        if task.kind is StoreNode:
            stores[task.node] += 1
            early[task.node] += number < last_load or not joins
    go = sum(
        load_cost(chip, places[node.dram], node.axes) * early[number] // stores[number]
        for number, node in enumerate(layers.nodes)
        if isinstance(node, StoreNode)
    )
    return come / (come + go) if come + go else 0.5


class _Scheduler:
    """Goes through the tasks once: brings tiles in, makes instructions, lets tiles leave."""

    def __init__(
        self,
        layers: Layers,
        tiled: Tiled,
        chip: Chip,
        options: Options,
        *,
        both_ways: bool,
        sharing: Sharing,
        evicts: bool,
    ) -> None:
        self._layers, self._tiled = layers, tiled
        self._drafts = Drafts(chip.access)
        self._tiles = OnChip(layers, tiled, chip)
        self._memory = self._tiles.memory
        self._last_load_task = self._find_last_load()
        self._stores_wait = self._all_stores_wait()
        multiplies = self._tiles.multiplies
        share = None
        if not both_ways:
            share = _inwards(layers, tiled, chip, self._last_load_task, multiplies=multiplies)
        self.transfers = CopyMaker(self._drafts, self._tiles, layers, share, sharing)
        by_engine = turned_by_engine(chip, options, layers, tiled.block)
        self._identities = Identities(self._drafts, self._tiles, layers, options, by_engine)
        self._engines = EngineWork(self._drafts, self._tiles, layers, options)
        words = chip.result_buffer.bank_words
        if all(not isinstance(node, MultiplyNode) for node in layers.nodes):
            words = min(words, self._identities.most_words(words))
        made_by = self._engines, SumBanks(chip, words), self._identities
        self.products = ProductMaker(self._drafts, self._tiles, *made_by[:2])
        self.turns = TurnMaker(self._drafts, self._tiles, options, made_by)
        self.lanes = LaneMaker(layers, self._tiles, self._engines, self._identities.casts)
        self.moves = MoveMaker(
            self._drafts, self._tiles, options, self.transfers, busy=self._engines.given
        )
        self.gathers = GatherMaker(
            self._drafts, self._tiles, options, self.transfers, busy=self._engines.given
        )
        self.packing = PackMaker(self._drafts, self._tiles, options)
        self._stores = sum(task.kind is StoreNode for task in tiled.tasks)
        self._begun = False
        self._brought: dict[MatrixTile, Interval] = {}
        self._evictions = 0
        self._evicts = evicts

    def _find_last_load(self) -> int:
        """Return the last task that is the first to need a tile from DRAM."""
        last = -1
        seen: set[MatrixTile] = set()
        for number, task in enumerate(self._tiled.tasks):
            for tile in task.reads:
                if self._tiles.matrices[tile.matrix].source.kind == "dram" and tile not in seen:
                    seen.add(tile)
                    last = number
        return last

    def _all_stores_wait(self) -> bool:
        """Return whether the first tile that is stored is finished after the last tile has come."""
        finished: dict[MatrixTile, int] = {}
        for number, task in enumerate(self._tiled.tasks):
            if task.kind is StoreNode:
                return finished.get(task.reads[0], -1) >= self._last_load_task
            finished.update(dict.fromkeys(task.writes, number))
        return False

    def _first_layer(self, kind: type[Node]) -> str:
        """Return the operation of the first node of a kind ("" if there is none)."""
        return next((node.layer for node in self._layers.nodes if isinstance(node, kind)), "")

    def run(self) -> Scheduled:
        """Return everything the later passes need."""
        matrices = self._layers.matrices
        kept = [t for m in matrices if m.lies.keep for t in self._tiles.all_tiles(m)]
        self._refuse_large_tasks()
        self._memory.plan(self._tiled.tasks, kept)
        pieces = self._tiles.give(matrices)
        self._tiles.reserve(matrices)
        self._drafts.begin(self._first_layer(TurnNode))
        self._identities.make()
        for number, task in enumerate(self._tiled.tasks):
            self._memory.begin(number)
            self._drafts.begin(self._layers.nodes[task.node].layer)
            self._begin_images(number)
            self._task(task)
            self._begun = self._begun or task.kind is not StoreNode
        self._memory.begin(len(self._tiled.tasks))
        makers = {each.matrix: each.layer for each in self._layers.kept}
        self._gather(kept, (), makers)
        ends = [self._tiles.piece(tile) for tile in kept]
        for resident in list(self._memory.resident.values()):
            self._memory.drop(resident)
        return Scheduled(
            tuple(self._drafts.found),
            tuple(pieces),
            tuple(ends),
            tuple(self._identities.stored),
            tuple(self._memory.stays),
            self.transfers.spilled_bytes,
            self.transfers.next_byte,
            self._evictions,
            tuple(self._tiles.bases.items()),
            self.turns.turned,
            self._identities.accesses,
            frozenset(self._identities.by_engine),
            tuple(self._brought.items()),
        )

    def _refuse_large_tasks(self) -> None:
        """Raise CompileError if the tiles of a task have no room together, whatever else is there.

        So work that does not fit is refused before instructions are made.
        """
        seen: set[tuple[tuple[str, int], ...]] = set()
        for task in self._tiled.tasks:
            tiles = dict.fromkeys((*task.reads, *task.writes))
            sizes = tuple((tile.matrix, in_words(self._tiles.size_bytes(tile))) for tile in tiles)
            if sizes in seen:
                continue
            seen.add(sizes)
            total, have = sum(size for _, size in sizes), self._memory.room.size_bytes
            if total > have:
                largest = max(tiles, key=self._tiles.size_bytes)
                size = in_words(self._tiles.size_bytes(largest))
                raise RoomError(
                    f"{self._memory.where} has no room for {largest}: it needs {size} bytes per "
                    f"partition beside {total - size} of the tiles used with it, found {have}"
                )

    def _begin_images(self, number: int) -> None:
        """Bring what a gather of images takes, and what the next sums take, before its copies.

        Its copies wait for one another and for the images before. What a queue brings behind them
        would wait too. Nothing leaves for it, and half of the free bytes stay free.
        """
        tasks, memory = self._tiled.tasks, self._memory
        task = tasks[number]
        if task.kind is not GatherNode or (number and tasks[number - 1].node == task.node):
            return
        (made,) = task.writes
        if self._tiles.matrices[made.matrix].block is None:
            return
        if task.cols[0].count < self._tiles.block(made).extents[1]:
            self._place_bands(number)
        for tile, layer in self._taken_by_sums(number):
            if tile in memory.resident or self._tiles.to_be_fixed(tile):
                continue
            if 2 * self._tiles.size_bytes(tile) > memory.room.free_bytes:
                break
            found = memory.place(tile, dirty=False)
            if found is None:
                break
            self._drafts.begin(layer)
            self._bring(tile, found)
        self._drafts.begin(self._layers.nodes[task.node].layer)

    def _place_bands(self, number: int) -> None:
        """Place tiles that are made band by band side by side, if there is room.

        They are made at the same time. Placed one by one, the first may leave too little room for
        the second in one piece.
        """
        task = self._tiled.tasks[number]
        rest = islice(self._tiled.tasks, number, None)
        made = takewhile(lambda other: other.node == task.node, rest)
        (first,) = task.writes
        below = (tile for other in made for tile in other.writes if tile.number == first.number)
        tiles = [*dict.fromkeys(tile for tile in below if tile.col == first.col)]
        size, resident = self._tiles.size_bytes(first), self._memory.resident
        if len(tiles) > 1 and size == in_words(size) and resident.keys().isdisjoint(tiles):
            wish = replace(self._tiles.banks.wish_of_all(first.matrix), only=True)
            if not self._memory.place_together(tiles, dirty=True, wish=wish):
                self._memory.place_together(tiles, dirty=True)

    def _taken_by_sums(self, number: int) -> Iterator[tuple[MatrixTile, str]]:
        """Yield the tiles from DRAM that a gather takes, and what comes behind it up to sums.

        Each with the operation that takes it.
        """
        gather = self._tiled.tasks[number].node
        for task in islice(self._tiled.tasks, number, None):
            fills = task.kind is GatherNode and not task.reads
            if task.node != gather and not fills and task.kind not in (TurnNode, MultiplyNode):
                return
            for tile in task.reads:
                if self._tiles.matrices[tile.matrix].source.kind == "dram":
                    yield tile, self._layers.nodes[task.node].layer
            if task.kind is MultiplyNode and task.last:
                return

    def _task(self, task: Task) -> None:
        self._gather(task.reads, task.writes)
        self._engines.begin(task)
        _MAKERS[task.kind](self, task, self._layers.nodes[task.node])
        for tile in dict.fromkeys((*task.reads, *task.writes)):
            if self._memory.used(tile):
                self._memory.drop(self._memory.resident[tile])

    def store(self, task: Task, node: StoreNode) -> None:
        """Copy a finished tile to DRAM; the last tile goes through all queues."""
        (tile,) = task.reads
        anywhere = self.transfers.joinable and self._memory.task > self._last_load_task
        if self._evictions:  # tiles that have left are brought again
            anywhere = anywhere and self.transfers.shareable
        elif anywhere:
            self.transfers.note_that_loads_are_over()
        if self._stores_wait:
            self.transfers.note_that_stores_wait_for_loads()
        resident = self._memory.resident[tile]
        number, tasks = self._memory.task, self._tiled.tasks
        is_last = number == len(tasks) - 1 and tasks[number - 1].kind is not StoreNode
        self._stores -= 1
        self.transfers.store(
            node, resident, anywhere=anywhere, alone=anywhere and is_last, following=self._stores
        )

    def _gather(
        self,
        reads: Sequence[MatrixTile],
        writes: Sequence[MatrixTile],
        layers: Mapping[str, str] | None = None,
    ) -> None:
        """Bring all these tiles into the state buffer together.

        `layers` names the operation for which a matrix's tiles are brought, if not the current one.
        Tiles that are there may leave no free piece large enough between them. Then all of them
        leave, and come back side by side, the largest first.
        """
        tiles = dict.fromkeys((*reads, *writes))
        for tile in tiles:
            if layers:
                self._drafts.begin(layers[tile.matrix])
            if not self._ensure(tile, tiles, write=tile in writes):
                break
        else:
            return
        for resident in [*self._memory.resident.values()]:
            if not resident.lasting:
                self._evict(resident)
        wish = None if self._tiles.grows else Wish("low")
        for tile in sorted(tiles, key=self._tiles.size_bytes, reverse=True):
            if not self._ensure(tile, tiles, write=tile in writes, wish=wish):
                raise self._memory.no_room(*self._tiles.placed_with(tile), tiles)

    def _ensure(
        self,
        tile: MatrixTile,
        pinned: Collection[MatrixTile],
        *,
        write: bool,
        wish: Wish | None = None,
    ) -> bool:
        """Bring the tile into the state buffer; False if there is no room beside pinned tiles."""
        if self._memory.holds(tile, write=write):
            return True
        if self._tiles.to_be_fixed(tile):
            return self._fix(tile, pinned)
        backed = self.transfers.backed(tile)
        dirty = write or not backed
        while (found := self._memory.place(tile, dirty=dirty, wish=wish)) is None:
            if (victim := self._memory.victim(pinned, tile)) is None:
                return False
            self._evict(victim)
        if backed:
            self._bring(tile, found)
        return True

    def _bring(self, tile: MatrixTile, resident: Resident) -> None:
        anywhere = self.transfers.joinable and not self._begun
        number, tasks = self._memory.task, self._tiled.tasks
        in_parts = anywhere and number < len(tasks)
        parts = partial(self.lanes.comes_in, tasks[number], tile) if in_parts else None
        first = len(self._drafts.found)
        self.transfers.bring(tile, resident, anywhere=anywhere, parts=parts)
        self._brought.setdefault(tile, Interval(first, len(self._drafts.found)))

    def _fix(self, tile: MatrixTile, pinned: Collection[MatrixTile]) -> bool:
        """Place the matrix of a tile for good; False if there is no room beside pinned tiles.

        A matrix that comes from DRAM is brought as a whole, because all its tiles are here now.
        """
        matrix = self._tiles.matrices[tile.matrix]
        while not self._tiles.fix(matrix):
            if (victim := self._memory.victim(pinned)) is None:
                return False
            self._evict(victim)
        for placed in self._tiles.all_tiles(matrix):
            if self.transfers.backed(placed):
                self._bring(placed, self._memory.resident[placed])
        return True

    def _evict(self, victim: Resident) -> None:
        if not self._evicts:
            raise RoomError(f"{self._memory.where} has no room for all tiles until their last use")
        if victim.dirty:
            self.transfers.spill(victim)
        self._evictions += 1
        self._memory.drop(victim)


_MAKERS: Mapping[type[Node], Callable[..., None]] = for_every_kind(
    {
        MultiplyNode: lambda scheduler, *work: scheduler.products.multiply(*work),
        DiagonalNode: lambda scheduler, *work: scheduler.lanes.diagonal(*work),
        TurnNode: lambda scheduler, *work: scheduler.turns.turn(*work),
        BounceNode: lambda scheduler, task, _: scheduler.transfers.bounce(task),
        MoveNode: lambda scheduler, *work: scheduler.moves.move(*work),
        GatherNode: lambda scheduler, *work: scheduler.gathers.gather(*work),
        ConvertNode: lambda scheduler, task, node: scheduler.lanes.convert(
            task, node, len(scheduler.transfers.came.get(task.reads[0], ()))
        ),
        ReduceNode: lambda scheduler, *work: scheduler.lanes.reduce(*work),
        RowsNode: lambda scheduler, *work: scheduler.lanes.whole_rows(*work),
        PoolNode: lambda scheduler, *work: scheduler.lanes.pool(*work),
        RepeatNode: lambda scheduler, *work: scheduler.transfers.repeat(*work),
        UnpackNode: lambda scheduler, *work: scheduler.packing.unpack(*work),
        PackNode: lambda scheduler, *work: scheduler.packing.pack(*work),
        StoreNode: _Scheduler.store,
    }
)
