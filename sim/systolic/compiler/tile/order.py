"""The order of tasks as it grows: what waits until it is needed, and what goes behind something.

A turn of an operand waits for the first task that reads its tile, and the layers of images wait for
those that take their results. A result is turned behind the next sums, and stored behind the last
task that writes its tile. Not here: which tasks there are (`cut`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from systolic.compiler.ir.nodes import Layers, MultiplyNode, TurnNode
from systolic.compiler.ir.tasks import MatrixTile, Task
from systolic.spans import Span


@dataclass(slots=True, eq=False)
class _Deferred:
    """Tasks of a node that wait until a tile is needed that they write.

    following: the next such tasks of a product. Their operands are made before these tasks are
    queued, so that the array need not wait for them later.
    """

    tasks: list[Task]
    following: _Deferred | None = None
    added: bool = False


class TaskOrder:
    """Collects tasks.

    A task's place in the order is its number, and then its kind: 0 for work, 1 for turns of
    results, 2 for stores.
    """

    def __init__(self, layers: Layers, block: tuple[int, int]) -> None:
        """Begin with no tasks. block: p rows and q columns of a tile."""
        self._nodes, self._block = layers.nodes, block
        self._tasks: list[tuple[tuple[int, int], Task]] = []
        self._written: dict[MatrixTile, int] = {}
        self._ends: list[int] = []
        self._turns: dict[tuple[MatrixTile, int], Task] = {}
        self._have_turns: set[MatrixTile] = set()  # the tiles among the keys, also of old
        self._deferred: dict[MatrixTile, list[_Deferred]] = {}
        self._images: set[str] = set()

    @property
    def count(self) -> int:
        """Return how many tasks there are so far."""
        return len(self._tasks)

    def finish_tile_by_tile(self, first: int) -> None:
        """Put tasks from a number on, which turn parts of elements, in the order of what they make.

        All parts of a tile are made before the next tile is begun. Tiles with only one part made
        would have to leave a small state buffer with every second or fourth byte.
        """
        added = self._tasks[first:]
        by_node: dict[int, list[Task]] = {}
        for _, task in added:
            by_node.setdefault(task.node, []).append(task)
        turns = next(each for each in by_node.values() if each[0].kind is TurnNode)
        alike = all(len(each) == len(turns) for each in by_node.values())
        if not alike or any(rank for (_, rank), _ in added):
            return
        tiles = {made: n for n, made in enumerate(dict.fromkeys(task.writes for task in turns))}
        order = [tiles[task.writes] for task in turns]
        ranked = [pair for each in by_node.values() for pair in zip(order, each, strict=True)]
        del self._tasks[first:]
        for _, task in sorted(ranked, key=lambda pair: pair[0]):
            self._put(task, len(self._tasks), 0)

    def tasks(self) -> tuple[Task, ...]:
        """Return all tasks in order, those that still wait at the end."""
        for tile in list(self._deferred):
            self._need(tile)
        for turn in dict.fromkeys(self._turns.values()):  # of what no product takes
            self.add(turn)
        return tuple(task for _, task in sorted(self._tasks, key=lambda item: item[0]))

    def add(self, task: Task) -> None:
        """Add a task behind all others, and before it the turns for which it waits."""
        self.prepare(task)
        self._put(task, len(self._tasks), 0)

    def add_sums(self, tasks: Sequence[Task], ahead: int) -> None:
        """Add the tasks of a group of sums. ahead: before each, turns of that many from it on."""
        prepared = 0
        for place, task in enumerate(tasks):
            for soon in tasks[prepared : place + ahead]:
                self.prepare(soon)
            prepared = place + ahead
            self.add(task)
        self._ends.append(len(self._tasks) - 1)

    def add_store(self, task: Task) -> None:
        """Add a store behind the last task that has written its tile."""
        self.prepare(task)
        self._put(task, self._written.get(task.reads[0], len(self._tasks)), 2)

    def turn_when_read(self, turn: Task) -> None:
        """Let the turn of an operand wait for the first task that reads what it makes."""
        self._turns.update(dict.fromkeys(self._turn_keys(turn), turn))
        self._have_turns.update(turn.writes)

    def waits_to_be_turned(self, matrix: str) -> bool:
        """Return whether turns wait that make tiles of a matrix."""
        return any(tile.matrix == matrix for tile, _ in self._turns)

    def turn_result(self, turn: Task) -> None:
        """Add the turn of a product's result behind the sums after it.

        The result has surely been copied out by then.
        """
        if turn.reads[0] in self._deferred:
            self.add(turn)
            return
        written = self._written[turn.reads[0]]
        following = bisect_right(self._ends, written)
        self._put(turn, self._ends[following] if following < len(self._ends) else written, 1)

    def are_images(self, matrices: Iterable[str]) -> bool:
        """Return whether some of these matrices are images, which are made as they are needed."""
        return not self._images.isdisjoint(matrices)

    def prepare(self, task: Task) -> None:
        """Add the tasks that make the tiles a task reads, if they have not been added."""
        for tile in task.reads if self._deferred else ():
            self._need(tile)
        for tile in task.reads if self._turns else ():
            for block in self._blocks_read(task, tile) if tile in self._have_turns else ():
                if turn := self._turns.get((tile, block)):
                    for key in self._turn_keys(turn):
                        del self._turns[key]
                    self.add(turn)

    def defer(
        self, batches: Sequence[list[Task]], *, ahead: bool = False, images: str = ""
    ) -> None:
        """Let tasks wait until their tiles are needed: images go through layer after layer then.

        So the results of some images, and not of all, must be on the chip together. ahead: of
        each batch, make the operands of the next one before it. images: the matrix that they make,
        if what engines make of it waits too.
        """
        self._images |= {images} if images else set()
        waiting = [_Deferred(list(tasks)) for tasks in batches]
        for each, following in pairwise(waiting) if ahead else ():
            each.following = following
        for each in waiting:
            for tile in dict.fromkeys(tile for task in each.tasks for tile in task.writes):
                self._deferred.setdefault(tile, []).append(each)

    def _need(self, tile: MatrixTile) -> None:
        """Add the deferred tasks that write a tile.

        Padding comes right before the images that are made within it, and behind what these read.
        Else all padding would take its bytes at the beginning.
        """
        waiting = self._deferred.pop(tile, [])
        padding, images = waiting[:1], waiting[1:2]
        if images and not any(task.reads for task in padding[0].tasks):
            for task in images[0].tasks:
                self.prepare(task)
        for each in waiting:
            if not each.added:
                each.added = True
                self._add_deferred(each)

    def _add_deferred(self, deferred: _Deferred) -> None:
        for task in deferred.tasks:
            self.prepare(task)
        for task in deferred.following.tasks if deferred.following else ():
            self.prepare(task)
        for task in deferred.tasks:
            self.add(task)
        if deferred.tasks[-1].kind is MultiplyNode:
            self._ends.append(len(self._tasks) - 1)

    def _blocks_read(self, task: Task, tile: MatrixTile) -> Iterator[int]:
        """Yield which p columns of a tile a task reads, counted from the matrix's first."""
        p, q = self._block
        columns: tuple[Span, ...] = (Span(tile.col * q, q),)
        held, moving = (*self._nodes[task.node].inputs, "", "")[:2]
        if task.kind is MultiplyNode and tile.matrix in (held, moving):
            columns = (task.cols if tile.matrix == held else ()) + (
                task.moving if tile.matrix == moving else ()
            )
        for span in columns:
            yield from range(span.first // p, -(-span.stop // p))

    def _turn_keys(self, turn: Task) -> Iterator[tuple[MatrixTile, int]]:
        """Yield the tiles that a turn makes, and which p columns of each."""
        return ((tile, turn.reads[0].row) for tile in turn.writes)

    def _put(self, task: Task, place: int, rank: int) -> None:
        for tile in task.writes:
            self._written[tile] = max(place, self._written.get(tile, 0))
        self._tasks.append(((place, rank), task))
