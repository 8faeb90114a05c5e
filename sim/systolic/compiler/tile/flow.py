"""The order in which tasks flow: what is ready is worked on, first what a product needs first.

Nodes are cut one after another, so the tasks of a node stand together, and queues keep their order.
Where engines go over results before the next product takes them, as in a softmax, the array would
multiply all matrices of a batch, wait while engines go over all of them several times, and then
multiply again. Here tasks go through a small model of the machine: the array, its banks of sums,
the engines, and bytes that come from DRAM one tile after another. The order in which engines take
their work there is the order of the tasks. Then the array is at one matrix while engines are at
another. The model knows nothing of ports. Not here: addresses (`place`), instructions (`schedule`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from systolic.compiler.cost.engines import engines_for
from systolic.compiler.ir.nodes import Layers, Node, NodeKind
from systolic.compiler.ir.tasks import MatrixTile, Task, Tiled
from systolic.hw.datatypes import data_type
from systolic.hw.formulas.dram import dram_rate
from systolic.hw.formulas.timing import load_reads, result_cycles
from systolic.hw.spec import Chip
from systolic.isa import Buffer

FLOWING: tuple[NodeKind, ...] = (
    "multiply", "turn", "move", "convert", "reduce", "repeat", "store",
)  # fmt: skip
"""The kinds of nodes whose tasks change places. Images have an order of their own (`cut`)."""
WORKING: tuple[NodeKind, ...] = ("convert", "reduce")
"""The kinds that go over a whole result with engines."""
MOST_TASKS = 16_000
"""Work of more tasks keeps its order: its tiles come and go, and products are most of it."""

_What = Literal["ready", "free", "made", "done"]
"""A piece can begin; the array is free behind it; its sums are there; all of it is done."""


def waits_for_engines(layers: Layers) -> bool:
    """Return whether a product takes what engines make of another product's result."""
    if any(node.kind not in FLOWING for node in layers.nodes):
        return False
    holders = {matrix.name: matrix.holder for matrix in layers.matrices}
    multiplied, worked = set[str](), set[str]()
    for node in layers.nodes:
        inputs = {holders[name] for name in node.inputs}
        if node.kind == "multiply":
            if not worked.isdisjoint(inputs):
                return True
            multiplied.add(holders[node.output])
        elif not worked.isdisjoint(inputs):
            worked.update(holders[name] for name in node.made)
        elif not multiplied.isdisjoint(inputs):
            made = worked if node.kind in WORKING else multiplied
            made.update(holders[name] for name in node.made)
    return False


def in_order_of_flow(tiled: Tiled, layers: Layers, chip: Chip) -> Tiled:
    """Return the same tasks in the order in which they flow."""
    return replace(tiled, tasks=tuple(_Flow(tiled, layers, chip).tasks()))


@dataclass(slots=True)
class _Piece:
    """Tasks that stay together: one, or all K-tiles of a group of sums and what is between them.

    array: cycles for which the array has it; banks: those that its sums take meanwhile. engines:
    which may do the rest, for so many cycles. ready: when its operands have come from DRAM. before:
    how many pieces it waits for; users: those that wait for it.
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
        return self.tasks[-1].kind == "multiply"


class _Flow:
    """Pieces on their way through the model of the machine. Cycles are those of the array."""

    def __init__(self, tiled: Tiled, layers: Layers, chip: Chip) -> None:
        self._chip, self._block = chip, tiled.block
        self._nodes = layers.nodes
        self._matrices = {matrix.name: matrix for matrix in layers.matrices}
        self._able = [self._engines(node) for node in layers.nodes]
        self._pieces = [self._piece(tasks) for tasks in _together(tiled.tasks)]
        _let_wait(self._pieces)
        self._arrive()
        self._needed = _first_needed(self._pieces)
        self._events: list[tuple[int, int, _What]] = []
        self._for_array: list[tuple[int, int]] = []
        self._for_engines: list[tuple[int, int]] = []
        self._free = dict.fromkeys(chip.lane_engines, 0)
        self._banks, self._array_free = chip.result_buffer.banks, 0
        self._order: list[int] = []

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
        elif what == "ready":  # copies: queues of DMA run ahead of all others
            self._order.append(number)
            self._later(now + 1, number, "done")
        elif what == "done":
            self._banks += piece.banks
            self._release(piece, now)

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
        others = list[tuple[int, int]]()
        while self._for_engines and min(self._free.values()) <= now:
            turn = heapq.heappop(self._for_engines)
            piece = self._pieces[turn[1]]
            engine = min(piece.engines, key=lambda name: self._free[name])
            if self._free[engine] > now:
                others.append(turn)
                continue
            self._order.append(turn[1])
            ticks = piece.cycles * self._chip.period(engine)
            self._free[engine] = now + max(1, ticks // self._chip.period("pe_array"))
            self._later(self._free[engine], turn[1], "done")
        for turn in others:
            heapq.heappush(self._for_engines, turn)

    # What pieces take

    def _engines(self, node: Node) -> tuple[str, ...]:
        """Return the engines that do a node's step: all, if only copies by DMA can."""
        if node.kind not in FLOWING or node.kind in ("repeat", "store"):
            return ()
        step = node.step
        if node.kind == "reduce":
            step = replace(step, settings={**step.settings, "window": 1})
        source = Buffer.RESULT if node.kind in ("multiply", "turn") else Buffer.STATE
        return tuple(engines_for(self._chip, step, source)) or tuple(self._chip.lane_engines)

    def _piece(self, tasks: list[Task]) -> _Piece:
        piece, most = _Piece(tasks), self._chip.result_buffer.banks
        for task in tasks:
            if task.kind == "multiply" and task.rows:
                self._add_product(piece, task)
            elif task.kind == "turn":
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
        if task.kind == "move":
            return min(self._block[1], self._matrices[self._nodes[task.node].output].cols)
        return (task.moving or task.cols)[0].count

    def _arrive(self) -> None:
        """Let tiles come from DRAM one after another, in the order of their first readers."""
        rate = dram_rate(self._chip, self._chip.dma.useful_queues)
        latency = self._chip.dma.latency_cycles + self._chip.dram.latency_cycles
        came, moved = dict[MatrixTile, int](), 0.0
        for piece in self._pieces:
            for tile in (tile for task in piece.tasks for tile in task.reads):
                matrix = self._matrices[tile.matrix]
                if matrix.source != "dram":
                    continue
                if tile not in came:
                    p, q = matrix.block or self._block
                    elements = min(p, matrix.rows) * min(q, matrix.cols)
                    moved += elements * data_type(matrix.dtype).size_bytes / rate
                    came[tile] = latency + int(moved)
                piece.ready = max(piece.ready, came[tile])


def _together(tasks: Sequence[Task]) -> Iterator[list[Task]]:
    """Yield tasks in pieces: from the first K-tile of a group of sums to its last."""
    sums = list[Task]()
    for task in tasks:
        is_product = task.kind == "multiply" and bool(task.rows)
        if not sums and not (is_product and task.first):
            yield [task]
            continue
        sums.append(task)
        if is_product and task.last:
            yield sums
            sums = []


def _let_wait(pieces: Sequence[_Piece]) -> None:
    """Note which pieces wait for which: what writes a tile, and what reads it, keep their order.

    So the writers of a tile keep theirs, and a reader comes behind all that has been written then.
    """
    writers: dict[MatrixTile, list[int]] = {}
    readers: dict[MatrixTile, list[int]] = {}
    for number, piece in enumerate(pieces):
        before = set[int]()
        reads = {tile for task in piece.tasks for tile in task.reads}
        writes = {tile for task in piece.tasks for tile in task.writes}
        for tile in reads:
            before.update(writers.get(tile, ()))
            readers.setdefault(tile, []).append(number)
        for tile in writes:
            before.update(readers.get(tile, ()), writers.get(tile, ())[-1:])
            writers.setdefault(tile, []).append(number)
        for other in before - {number}:
            pieces[other].users.append(number)
        piece.before = len(before - {number})


def _first_needed(pieces: Sequence[_Piece]) -> list[int]:
    """Return, for each piece, the first product that needs it; of a product, the product itself.

    What no product needs comes last.
    """
    needed = [len(pieces)] * len(pieces)
    for number in reversed(range(len(pieces))):
        users = pieces[number].users
        needed[number] = min((needed[user] for user in users), default=len(pieces))
        if pieces[number].is_product:
            needed[number] = number
    return needed
