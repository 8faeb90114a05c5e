"""The order in which tasks flow: what is ready is worked on, first what a product needs first.

Nodes are cut one after another, so the tasks of a node stand together, and queues keep their order.
Where engines go over results before the next product takes them, as in a softmax, the array would
multiply all matrices of a batch, wait while engines go over all of them several times, and then
multiply again. Here tasks go through a small model of the machine: the array, its banks of sums,
the engines, and bytes that come from DRAM one tile after another. The order in which engines take
their work there is the order of the tasks, and the engine that takes a task there does it. Then the
array is at one matrix while engines are at another. The model knows nothing of ports. Not here:
addresses (`place`), instructions (`schedule`).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from systolic.compiler.cost.dma import picked_cycles
from systolic.compiler.cost.engines import engines_for
from systolic.compiler.ir.lane_step import COPY
from systolic.compiler.ir.nodes import (
    ConvertNode,
    Layers,
    MoveNode,
    MultiplyNode,
    Node,
    ReduceNode,
    RepeatNode,
    SteppedNode,
    StoreNode,
    TurnNode,
)
from systolic.compiler.ir.tasks import MatrixTile, Task, Tiled
from systolic.compiler.tile.stored_places import StoredPlaces
from systolic.hw.datatypes import data_type
from systolic.hw.formulas.dram import dram_rate
from systolic.hw.formulas.timing import load_reads, result_cycles
from systolic.hw.spec import Chip
from systolic.isa import Buffer
from systolic.spans import Span

FLOWING = (MultiplyNode, TurnNode, MoveNode, ConvertNode, ReduceNode, RepeatNode, StoreNode)
"""The kinds of nodes whose tasks change places. Images have an order of their own (`cut`)."""
WORKING = (ConvertNode, ReduceNode)
"""The kinds that go over a whole result with engines."""
MOST_TASKS = 16_000
"""Work of more tasks keeps its order: its tiles come and go, and products are most of it."""

_Part = tuple[MatrixTile, int]
"""A tile, or as many columns of it as a block has rows, if these are turned one by one."""
_Rank = tuple[int, int, int]
"""The order in which the array would take products if all were ready."""
_What = Literal["ready", "free", "made", "done"]
"""A piece can begin; the array is free behind it; its sums are there; all of it is done."""
_Through = Callable[[Task], tuple[set[int], set[int]]]
"""The places in DRAM that a task reads, and those it writes, by their first bytes."""


def waits_for_engines(layers: Layers) -> bool:
    """Return whether a product takes what engines make of another product's result."""
    if not all(isinstance(node, FLOWING) for node in layers.nodes):
        return False
    holders = {matrix.name: matrix.holder for matrix in layers.matrices}
    multiplied, worked = set[str](), set[str]()
    for node in layers.nodes:
        inputs = {holders[name] for name in node.inputs}
        if isinstance(node, MultiplyNode):
            if not worked.isdisjoint(inputs):
                return True
            multiplied.add(holders[node.output])
        elif not worked.isdisjoint(inputs):
            worked.update(holders[name] for name in node.made)
        elif not multiplied.isdisjoint(inputs):
            made = worked if isinstance(node, WORKING) else multiplied
            made.update(holders[name] for name in node.made)
    return False


def in_order_of_flow(tiled: Tiled, layers: Layers, chip: Chip) -> Tiled:
    """Return the same tasks in the order in which they flow."""
    return replace(tiled, tasks=tuple(_Flow(tiled, layers, chip).tasks()))


@dataclass(slots=True)
class _Piece:
    """Tasks that stay together: one, or all K-tiles of a group of sums and what is between them.

    array: cycles for which the array has it; banks: how many its sums take meanwhile. engines:
    which may do the rest, and in how many cycles. ready: when its operands have come from DRAM.
    before: how many pieces it waits for; users: those that wait for it.
    """

    tasks: list[Task]
    array: int = 0
    banks: int = 0
    engines: tuple[str, ...] = ()
    cycles: int = 0
    ready: int = 0
    before: int = 0
    users: list[int] = field(default_factory=list)

    @property
    def is_product(self) -> bool:
        """Return whether it is a group of sums."""
        return self.tasks[-1].kind is MultiplyNode


class _Flow:
    """Pieces on their way through the model of the machine. Cycles are the array's."""

    def __init__(self, tiled: Tiled, layers: Layers, chip: Chip) -> None:
        self._chip, self._block = chip, tiled.block
        self._nodes = layers.nodes
        self._matrices = {matrix.name: matrix for matrix in layers.matrices}
        turned = (node.output for node in layers.nodes if isinstance(node, TurnNode))
        self._turned = {name for name in turned if self._matrices[name].block is None}
        self._able = [self._engines(node) for node in layers.nodes]
        self._pieces = [self._piece(tasks) for tasks in _together(tiled.tasks)]
        _let_wait(self._pieces, self._touched, _through_dram(tiled.tasks, layers))
        self._needed = _first_needed(self._pieces, self._ranks(tiled))
        self._arrive()
        self._events: list[tuple[int, int, _What]] = []
        self._for_array: list[tuple[_Rank, int]] = []
        self._for_engines: list[tuple[_Rank, int]] = []
        self._free = dict.fromkeys(chip.lane_engines, 0)
        array = chip.period("pe_array")
        self._pace = {name: chip.period(name) / array for name in self._free}
        self._banks, self._array_free = chip.result_buffer.banks, 0
        self._order: list[int] = []
        self._copies: dict[int, list[int]] = {}
        self._waiting = set[int]()

    def tasks(self) -> Iterator[Task]:
        """Yield all tasks, in order."""
        for number, piece in enumerate(self._pieces):
            if piece.before == 0:
                heapq.heappush(self._events, (piece.ready, number, "ready"))
        while self._events:
            now = self._events[0][0]
            while self._events and self._events[0][0] == now:
                _, number, what = heapq.heappop(self._events)
                self._happens(number, what, now)
            self._start_product(now)
            self._start_engines(now)
        for number in self._order:
            yield from self._pieces[number].tasks

    def _happens(self, number: int, what: _What, now: int) -> None:
        piece, turn = self._pieces[number], (self._needed[number], number)
        if what == "ready" and piece.array:
            heapq.heappush(self._for_array, turn)
        elif what == "made" or (what == "ready" and piece.engines):
            heapq.heappush(self._for_engines, turn)
        elif what == "ready":  # copies: a queue of DMA has made them when they are needed
            self._wait_or_put(number)
            self._later(now + 1, number, "done")
        elif what == "done":
            self._banks += piece.banks
            self._release(piece, now)

    def _wait_or_put(self, number: int) -> None:
        """Let a copy wait until the first piece that takes it is put, unless it is a store."""
        piece = self._pieces[number]
        for user in piece.users:
            self._copies.setdefault(user, []).append(number)
        if piece.users and piece.tasks[-1].kind is not StoreNode:
            self._waiting.add(number)
        else:
            self._put(number)

    def _put(self, number: int) -> None:
        """Put a piece behind all others, and right before it the copies that wait for it.

        The queues of DMA run ahead of all other units. A copy that stood earlier, although nothing
        takes its tile yet, would hold back what the array waits for.
        """
        for copy in self._copies.get(number, ()):
            if copy in self._waiting:
                self._waiting.remove(copy)
                self._put(copy)
        self._order.append(number)

    def _later(self, time: int, number: int, what: _What) -> None:
        heapq.heappush(self._events, (time, number, what))

    def _release(self, piece: _Piece, now: int) -> None:
        """Let the users of what a piece has made begin, if they wait for nothing else."""
        for number in piece.users:
            user = self._pieces[number]
            user.before -= 1
            if user.before == 0:
                self._later(max(now, user.ready), number, "ready")

    def _start_product(self, now: int) -> None:
        """Let the array take the first piece, if it is free and the sums have room."""
        if not self._for_array or now < self._array_free:
            return
        number = self._for_array[0][1]
        piece = self._pieces[number]
        if piece.banks <= self._banks:
            heapq.heappop(self._for_array)
            self._banks -= piece.banks
            self._array_free = now + piece.array
            self._later(self._array_free, number, "free")
            made = self._array_free + result_cycles(self._chip, self._chip.pe_array.cols)
            self._later(made, number, "made")

    def _start_engines(self, now: int) -> None:
        """Let engines that are free take the first pieces that they may do."""
        others = list[tuple[_Rank, int]]()
        while self._for_engines and min(self._free.values()) <= now:
            turn = heapq.heappop(self._for_engines)
            piece = self._pieces[turn[1]]
            engine = min(piece.engines, key=lambda name: self._free[name])
            if self._free[engine] > now:
                others.append(turn)
                continue
            self._put(turn[1])
            piece.tasks[-1] = replace(piece.tasks[-1], engine=engine)
            self._free[engine] = now + max(1, int(piece.cycles * self._pace[engine]))
            self._later(self._free[engine], turn[1], "done")
        for turn in others:
            heapq.heappush(self._for_engines, turn)

    def _ranks(self, tiled: Tiled) -> list[_Rank]:
        """Return the ranks of products: their numbers, with two exceptions.

        Where sums grow by rows, all such products of one operand take the rows that are there
        before the next. What a product needs over whose sums engines go comes right before that
        product: so the engines have work while the array is at all other products.
        """
        loops, first = dict(tiled.loops), dict[str, int]()
        ranks, fed = list[_Rank](), self._feeding()
        for number, piece in enumerate(self._pieces):
            task, rank = piece.tasks[-1], (number, 0, number)
            if task.kind is MultiplyNode and task.rows:
                moving = self._nodes[task.node].inputs[1]
                if task.cols[0].first < loops[task.node].by_rows * self._block[0]:
                    rank = first.setdefault(moving, number), task.moving[0].first, number
                elif fed[number] < len(self._pieces):
                    rank = fed[number], int(fed[number] == number), number
            ranks.append(rank)
        return ranks

    def _feeding(self) -> list[int]:
        """Return, for each piece, the first product on its way whose sums engines go over.

        That is a product behind which engines work before the next product: of the piece itself or
        of those that need it. The number of pieces, if there is none.
        """
        none = len(self._pieces)
        found, needed, worked = [none] * none, [False] * none, [False] * none
        for number in reversed(range(none)):
            piece = self._pieces[number]
            others = [user for user in piece.users if not self._pieces[user].is_product]
            works = any(worked[user] for user in others)
            found[number] = min((found[user] for user in piece.users), default=none)
            if piece.is_product and works:
                found[number] = number
            elif not piece.is_product:
                by_product = len(others) < len(piece.users)
                needed[number] = by_product or any(needed[user] for user in others)
                goes_over = piece.tasks[-1].kind in WORKING
                worked[number] = works or (goes_over and needed[number])
        return found

    # What pieces take

    def _engines(self, node: Node) -> tuple[str, ...]:
        """Return the engines that do a node's step: all, if only copies by DMA can."""
        if not isinstance(node, FLOWING) or isinstance(node, RepeatNode | StoreNode):
            return ()
        step = node.step if isinstance(node, SteppedNode) else COPY
        if isinstance(node, ReduceNode):
            step = replace(step, settings={**step.settings, "window": 1})
        source = Buffer.RESULT if isinstance(node, MultiplyNode | TurnNode) else Buffer.STATE
        return tuple(engines_for(self._chip, step, source)) or tuple(self._chip.lane_engines)

    def _touched(self, task: Task, tile: MatrixTile) -> Iterable[int]:
        """Return which parts of a tile a task touches: what is turned is made part by part."""
        if tile.matrix not in self._turned:
            return (0,)
        (p, q), node = self._block, self._nodes[task.node]
        columns: tuple[Span, ...] = (Span(tile.col * q, q),)
        if task.kind is TurnNode and tile in task.writes:
            columns = task.rows
        elif task.kind is MultiplyNode and tile.matrix in node.inputs[:2]:
            held, moving = node.inputs[:2]
            columns = (task.cols if tile.matrix == held else ()) + (
                task.moving if tile.matrix == moving else ()
            )
        return {n for span in columns for n in range(span.first // p, -(-span.stop // p))}

    def _piece(self, tasks: list[Task]) -> _Piece:
        piece, most = _Piece(tasks), self._chip.result_buffer.banks
        for task in tasks:
            if task.kind is MultiplyNode and task.rows:
                self._add_product(piece, task)
            elif task.kind is TurnNode:
                vectors = sum(span.count for span in task.rows) * len(task.cols)
                piece.array += vectors
                piece.cycles += vectors
                piece.banks = max(piece.banks, 1)
            elif self._able[task.node]:
                piece.cycles += self._columns(task)
        piece.engines = self._able[tasks[-1].node]
        piece.banks = min(piece.banks, most)
        return piece

    def _add_product(self, piece: _Piece, task: Task) -> None:
        """Count the loads and vectors of a K-tile, and behind the last the sums."""
        array, node = self._chip.pe_array, self._nodes[task.node]
        held, moving = (self._matrices[name] for name in node.inputs[:2])
        vectors = sum(span.count for span in task.moving)
        stream = vectors * array.vector_cycles(moving.dtype)
        for cols in task.cols:
            load = load_reads(self._chip, task.rows[0].count, cols.count, held.dtype)
            piece.array += max(stream, load)
        if task.last:
            piece.cycles += vectors * len(task.cols)
            piece.banks = max(piece.banks, len(task.cols) * len(task.moving))

    def _columns(self, task: Task) -> int:
        """Return how many elements of each lane an engine goes over."""
        if task.kind is MoveNode:
            return min(self._block[1], self._matrices[self._nodes[task.node].output].cols)
        return (task.moving or task.cols)[0].count

    def _arrive(self) -> None:
        """Let tiles come from DRAM one after another, in the order of their first readers."""
        rate = dram_rate(self._chip, self._chip.dma.useful_queues)
        latency = self._chip.dma.latency_cycles + self._chip.dram.latency_cycles
        came, moved = dict[MatrixTile, int](), 0.0
        for piece in _in_order(self._pieces, self._needed):
            for tile in (tile for task in piece.tasks for tile in task.reads):
                matrix = self._matrices[tile.matrix]
                if matrix.source.kind != "dram":
                    continue
                if tile not in came:
                    p, q = matrix.block or self._block
                    elements = min(p, matrix.rows) * min(q, matrix.cols)
                    moved += elements * data_type(matrix.dtype).size_bytes / rate
                    if matrix.source.picked:
                        moved += picked_cycles(self._chip, matrix.source.picked[tile.row * p :][:p])
                    came[tile] = latency + int(moved)
                piece.ready = max(piece.ready, came[tile])


def _together(tasks: Sequence[Task]) -> Iterator[list[Task]]:
    """Yield tasks in pieces: from the first K-tile of a group of sums to its last."""
    sums = list[Task]()
    for task in tasks:
        is_product = task.kind is MultiplyNode and bool(task.rows)
        if not sums and not (is_product and task.first):
            yield [task]
            continue
        sums.append(task)
        if is_product and task.last:
            yield sums
            sums = []


def _through_dram(tasks: Sequence[Task], layers: Layers) -> _Through:
    """Return which places in DRAM a task reads, and which it writes, if it is one that others read.

    Places that are only read, or only written, are left out: their tasks need no order.
    """
    places = StoredPlaces(layers)
    stored = {places.written(task) for task in tasks if task.kind is StoreNode}
    both = stored & {start for task in tasks for start in places.read(task)}

    def through(task: Task) -> tuple[set[int], set[int]]:
        written = {places.written(task)} if task.kind is StoreNode else set[int]()
        return (places.read(task) & both, written & both) if both else (set(), set())

    return through


def _let_wait(
    pieces: Sequence[_Piece],
    touched: Callable[[Task, MatrixTile], Iterable[int]],
    through: _Through,
) -> None:
    """Note which pieces wait for which: what writes a tile, and what reads it, keep their order.

    So the writers of a tile keep theirs, and a reader comes behind all that has been written then.
    touched: which parts of a tile a task reads or writes, if it is made part by part. through:
    which places in DRAM it reads and writes.
    """
    writers: dict[_Part | int, list[int]] = {}
    readers: dict[_Part | int, list[int]] = {}
    for number, piece in enumerate(pieces):
        before = set[int]()
        reads: set[_Part | int] = {
            (t, n) for task in piece.tasks for t in task.reads for n in touched(task, t)
        }
        writes: set[_Part | int] = {
            (t, n) for task in piece.tasks for t in task.writes for n in touched(task, t)
        }
        for task in piece.tasks:
            read, written = through(task)
            reads |= read
            writes |= written
        for part in reads:
            before.update(writers.get(part, ()))
            readers.setdefault(part, []).append(number)
        for part in writes:
            before.update(readers.get(part, ()), writers.get(part, ())[-1:])
            writers.setdefault(part, []).append(number)
        for other in before - {number}:
            pieces[other].users.append(number)
        piece.before = len(before - {number})


def _first_needed(pieces: Sequence[_Piece], ranks: Sequence[_Rank]) -> list[_Rank]:
    """Return, for each piece, the first product that needs it; of a product, the product itself.

    What no product needs comes last.
    """
    needed = [(len(pieces), 0, 0)] * len(pieces)
    for number in reversed(range(len(pieces))):
        piece = pieces[number]
        needed[number] = min((needed[user] for user in piece.users), default=needed[number])
        if piece.is_product:
            needed[number] = ranks[number]
    return needed


def _in_order(pieces: Sequence[_Piece], needed: Sequence[_Rank]) -> Iterator[_Piece]:
    """Yield pieces in the order in which products need them."""
    for number in sorted(range(len(pieces)), key=lambda each: (needed[each], each)):
        yield pieces[number]
