"""Products in the order in which their operands arrive, and their results are needed.

Products are cut one after another: all sums of a group grow side by side, K-tile by K-tile, and the
next product begins behind the last of them. Here the sums of small work are taken one by one. The
array takes, of the K-tiles whose operands are there, the one whose sum leads to the first result.
So the first tiles are finished, and stored, while later ones grow; and what a product takes of the
one before has been copied out before it is loaded. When operands come from DRAM is known from a
schedule of the same tasks (`cost.pace`). Not here: addresses (`place`), instructions (`schedule`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from systolic.compiler.cost.engines import take_out_cycles
from systolic.compiler.ir.lane_step import COPY, LaneStep
from systolic.compiler.ir.nodes import (
    Layers,
    MultiplyNode,
    Node,
    RepeatNode,
    StoreNode,
    TurnNode,
    operand_number,
)
from systolic.compiler.ir.pixels import PixelWindow
from systolic.compiler.ir.ranges import spans
from systolic.compiler.ir.tasks import MatrixTile, Task, Tiled
from systolic.compiler.tile.stored_places import StoredPlaces
from systolic.compiler.tile.tiles import Tiles
from systolic.hw.formulas.timing import load_reads, result_cycles
from systolic.hw.spec import Chip
from systolic.isa import Select
from systolic.spans import Span

SEEN_CYCLES = 3
"""From the last read of sums to when what is made of them can be loaded."""

MOST_STEPS = 400
"""The most K-tiles of sums that change places: in longer work the beginning and end count less."""

MOST_LOOKED_AT = 60_000
"""The most times that a step of a sum is looked at, which takes some microseconds."""

_Part = tuple[Span, Span]
"""Rows and columns of a matrix."""
_Rank = tuple[int, int, int]
"""The order of sums whose operands are there: by the first result that needs them, by node."""


def only_products(tiled: Tiled, layers: Layers) -> bool:
    """Return whether the work is products of plain matrices, and few K-tiles of sums.

    Loaded pixels, masks and images have an order of their own, and so have tensors in DRAM that
    are read behind stores.
    """
    matrices = {matrix.name: matrix for matrix in layers.matrices}
    places, steps = StoredPlaces(layers), 0
    stored, read = set[int](), set[int]()
    for task in tiled.tasks:
        node = layers.nodes[task.node]
        if task.kind not in (MultiplyNode, TurnNode, RepeatNode, StoreNode):
            return False
        if task.kind is StoreNode:
            stored.add(places.written(task))
            continue
        read |= places.read(task)
        steps += len(task.cols) * len(task.moving or task.rows)
        if not isinstance(node, MultiplyNode):
            continue
        windows = (matrices[name].window for name in (*node.inputs[:2], node.output))
        plain = not any(isinstance(window, PixelWindow) for window in windows)
        if not plain or node.diagonal is not None or node.step.cls is Select:
            return False
    multiplies = any(task.kind is MultiplyNode for task in tiled.tasks)
    return multiplies and steps <= MOST_STEPS and stored.isdisjoint(read)


def in_order_of_arrival(
    tiled: Tiled, layers: Layers, chip: Chip, came: Mapping[MatrixTile, int]
) -> Tiled | None:
    """Return the same work in the order of arrival, None if sums would need too many banks.

    None as well if there are too many parts to try quickly. came: the cycle of the array by
    which each tile from DRAM has come.
    """
    steps = _Steps(tiled, layers, chip, came)
    if len(steps.sums) * sum(len(each.steps) for each in steps.sums) > MOST_LOOKED_AT:
        return None
    order = _Array(chip, steps.sums).order()
    if order is None:
        return None
    tasks = tuple(_with_stores(_joined(order), tiled.tasks))
    return replace(tiled, tasks=tasks, waited_columns=steps.waited_columns)


@dataclass(slots=True, eq=False)
class _Step:
    """A K-tile of a sum, or a turn: what the array loads, and then streams.

    held, moved: the cycles by which what is loaded, and what is streamed, has come from DRAM.
    after_held, after_moved: the sums and turns that make it.
    """

    task: Task
    load: int
    stream: int
    held: int
    moved: int
    after_held: list[_Sum] = field(default_factory=list)
    after_moved: list[_Sum] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Sum:
    """Some columns of a product's result, which grow step by step, or what a turn makes.

    made: rows and columns of the result (none: all of the tiles that the task writes). step: by
    which engines take it out. banks: those in which it grows. drained: the elements of each lane
    that engines take out at the end, part by part.
    """

    number: int
    node: int
    steps: list[_Step] = field(default_factory=list)
    out: str = ""
    made: _Part | None = None
    writes: tuple[MatrixTile, ...] = ()
    step: LaneStep = COPY
    banks: int = 1
    drained: tuple[int, ...] = ()
    users: list[_Sum] = field(default_factory=list)
    root: int = -1

    @property
    def rank(self) -> _Rank:
        """Return the rank of its steps."""
        return self.root, self.node, self.number


class _Steps:
    """The steps of all sums. waited_columns: into parts of how many columns results are cut."""

    def __init__(
        self, tiled: Tiled, layers: Layers, chip: Chip, came: Mapping[MatrixTile, int]
    ) -> None:
        self._chip, self._nodes, self._came = chip, layers.nodes, came
        self._tiles = Tiles(layers, tiled.block)
        self._matrices = self._tiles.matrices
        self._rows, self._banks = tiled.block[0], chip.result_buffer.banks
        self._taken = {
            self._matrices[name].holder
            for node in layers.nodes
            if isinstance(node, MultiplyNode | TurnNode)
            for name in node.inputs
        }
        self.waited_columns = 0
        self.sums: list[_Sum] = []
        self._growing: dict[tuple[int, int, int, int], _Sum] = {}
        self._makers: dict[MatrixTile, list[_Sum]] = {}
        for task in tiled.tasks:
            if task.kind is TurnNode:
                self._add_turn(task)
            elif task.kind is RepeatNode:
                self._add_repeat(task)
            elif task.kind is MultiplyNode:
                self._add_product(task)
        for each in reversed(self.sums):
            each.root = min((user.root for user in each.users), default=each.number)

    def _add_turn(self, task: Task) -> None:
        """Add a turn: each sub-block as a sum of its own."""
        array, node = self._chip.pe_array, self._nodes[task.node]
        matrix, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        arrived = max((self._came.get(tile, 0) for tile in task.reads), default=0)
        for rows in task.rows:
            stream = rows.count * array.vector_cycles(matrix.dtype)
            for cols in task.cols:
                made = self._tiles.holding(out, task.number, cols.first, rows.first)
                piece = replace(task, rows=(rows,), cols=(cols,), writes=(made,))
                load = load_reads(self._chip, rows.count, cols.count, matrix.dtype)
                step = _Step(piece, load, stream, arrived, 0)
                found = self._begin(piece, (rows.count,))
                found.steps.append(step)
                for tile in task.reads:
                    self._follow(found, step.after_held, self._makers.get(tile, ()))
                self._end(found)

    def _add_repeat(self, task: Task) -> None:
        """Add the repetition of a row, which the array does not see."""
        arrived = max((self._came.get(tile, 0) for tile in task.reads), default=0)
        found = self._begin(task, ())
        found.steps.append(_Step(task, 0, 0, arrived, 0))
        for tile in task.reads:
            self._follow(found, found.steps[0].after_held, self._makers.get(tile, ()))
        self._end(found)

    def _add_product(self, task: Task) -> None:
        """Add a K-tile of a group of sums: a step of each of them."""
        node = self._nodes[task.node]
        for cols in task.cols:
            for moving in self._parts(node, task, cols):
                key = task.node, task.number, cols.first, moving[0].first
                if task.first:
                    self._growing[key] = self._begin(task, tuple(span.count for span in moving))
                    self._growing[key].made = cols, _hull(moving)
                found = self._growing[key]
                found.steps.append(self._step(found, node, task, cols, moving))
                if task.last:
                    self._end(self._growing.pop(key))

    def _parts(self, node: Node, task: Task, cols: Span) -> list[tuple[Span, ...]]:
        """Return the moving columns of each sum: a block's rows, if the next product takes them.

        Last results are not taken apart, but their sums are copied out in such parts. Nothing is
        cut if a load would not hide behind the vectors of a part.
        """
        array = self._chip.pe_array
        a, b, out = (self._matrices[name] for name in (*node.inputs[:2], node.output))
        stream = self._rows * array.vector_cycles(b.dtype)
        load = load_reads(self._chip, min(a.rows, array.rows), cols.count, a.dtype)
        hidden = array.weight_buffer == "double" and load <= stream
        if not hidden or out.window or b.cols <= self._rows:
            return [task.moving]
        parts = [
            part
            for span in task.moving
            for part in spans(span.first, span.stop, self._rows, self._rows)
        ]
        if out.holder not in self._taken:
            return [tuple(parts)] if 2 * len(parts) <= self._banks else [task.moving]
        self.waited_columns = self._rows
        return [(part,) for part in parts]

    def _step(
        self, found: _Sum, node: Node, task: Task, cols: Span, moving: tuple[Span, ...]
    ) -> _Step:
        (rows,), array = task.rows, self._chip.pe_array
        a, b, out = (self._matrices[name] for name in (*node.inputs[:2], node.output))
        one, other = (operand_number(matrix, out, task.number) for matrix in (a, b))
        held = [self._tiles.holding(a, one, rows.first, cols.first)]
        moved = [self._tiles.holding(b, other, rows.first, span.first) for span in moving]
        besides = [
            tile
            for span in (moving if task.last else ())
            for tile in self._tiles.others(node, task.number, cols, span)
        ]
        writes = dict.fromkeys(
            self._tiles.holding(out, task.number, cols.first, span.first) for span in moving
        )
        piece = replace(
            task,
            reads=tuple(dict.fromkeys((*held, *moved, *besides))),
            writes=tuple(writes) if task.last else (),
            cols=(cols,),
            moving=moving,
        )
        found.writes = tuple(writes)
        step = _Step(
            piece,
            load_reads(self._chip, rows.count, cols.count, a.dtype),
            sum(span.count for span in moving) * array.vector_cycles(b.dtype),
            max(self._came.get(tile, 0) for tile in held),
            max(self._came.get(tile, 0) for tile in moved),
        )
        self._follow(found, step.after_held, self._making(a.name, held, (rows, cols)))
        wide = rows, _hull(moving)
        self._follow(found, step.after_moved, self._making(b.name, moved, wide))
        for tile in besides:
            self._follow(found, step.after_moved, self._makers.get(tile, ()))
        return step

    def _making(self, name: str, tiles: Iterable[MatrixTile], part: _Part) -> Iterator[_Sum]:
        """Yield what makes a part of a matrix, which lies in these tiles."""
        for tile in tiles:
            for maker in self._makers.get(tile, ()):
                if maker.made is None or maker.out != name or _meet(maker.made, part):
                    yield maker

    @staticmethod
    def _follow(found: _Sum, after: list[_Sum], makers: Iterable[_Sum]) -> None:
        for maker in makers:
            after.append(maker)
            maker.users.append(found)

    def _begin(self, task: Task, drained: tuple[int, ...]) -> _Sum:
        node = self._nodes[task.node]
        found = _Sum(len(self.sums), task.node, out=node.output, writes=task.writes)
        found.step = node.step if isinstance(node, MultiplyNode) else COPY
        found.banks, found.drained = len(drained), drained
        self.sums.append(found)
        return found

    def _end(self, found: _Sum) -> None:
        """Note what a sum or a turn makes."""
        for tile in found.writes:
            self._makers.setdefault(tile, []).append(found)


class _Array:
    """The array and the engines on their way through the steps. Cycles are the array's."""

    def __init__(self, chip: Chip, sums: Sequence[_Sum]) -> None:
        self._chip, self._left = chip, sorted(sums, key=lambda each: each.rank)
        self._done: dict[_Sum, int] = {}
        self._place = dict.fromkeys(sums, 0)
        self._may_load = self._loaded = self._free = 0
        self._engines = dict.fromkeys(chip.lane_engines, 0)
        self._growing = 0
        self._given_back: list[int] = []

    def order(self) -> list[_Step] | None:
        """Return all steps in order, None if all banks hold sums that cannot go on."""
        order = list[_Step]()
        while self._left:
            starts = [(start, each) for each in self._left if (start := self._start(each)) >= 0]
            if not starts:
                return None
            first = min(start for start, _ in starts)
            found = next(each for start, each in starts if start == first)  # the least rank
            order.append(found.steps[self._place[found]])
            self._take(found, first)
        return order

    def _start(self, found: _Sum) -> int:
        """Return when the next step of a sum can stream, -1 if that is not known."""
        step = found.steps[self._place[found]]
        if any(each not in self._done for each in (*step.after_held, *step.after_moved)):
            return -1
        held = max(step.held, *(self._done[each] for each in step.after_held), 0)
        moved = max(step.moved, *(self._done[each] for each in step.after_moved), 0)
        if not found.banks:
            return held
        load = max(held, self._may_load, self._loaded)
        start = max(load + step.load, moved, self._free)
        if self._place[found] == 0:
            banks = self._chip.result_buffer.banks - self._growing - found.banks
            if banks < 0:
                return -1
            waits = sorted(self._given_back)
            start = max(start, waits[-banks - 1] if banks < len(waits) else 0)
        return start

    def _take(self, found: _Sum, start: int) -> None:
        """Let the array take the next step of a sum."""
        step = found.steps[self._place[found]]
        if not found.banks:
            self._left.remove(found)
            self._done[found] = start + self._chip.dma.latency_cycles
            return
        self._loaded = start
        double = self._chip.pe_array.weight_buffer == "double"
        self._free = start + step.stream
        self._may_load = start if double else self._free
        if self._place[found] == 0:
            self._growing += found.banks
            self._given_back = [end for end in self._given_back if end > start]
        self._place[found] += 1
        if self._place[found] == len(found.steps):
            self._finish(found, step)

    def _finish(self, found: _Sum, step: _Step) -> None:
        """Let the engine take out finished sums that is done with them first."""
        self._left.remove(found)
        self._growing -= found.banks
        cycles = [self._cycles(found, count) for count in found.drained]
        ends = {name: self._taken_out(found, step, cycles, name) for name in cycles[0]}
        name = min(ends, key=lambda each: ends[each][-1])
        self._engines[name] = ends[name][-1]
        self._given_back += ends[name]
        self._done[found] = ends[name][-1] + SEEN_CYCLES
        step.task = replace(step.task, engine=name)

    def _cycles(self, found: _Sum, columns: int) -> dict[str, int]:
        """Return the cycles of each engine that takes `columns` columns of a sum out ("": any)."""
        return take_out_cycles(self._chip, found.step, columns) or {"": columns}

    def _taken_out(
        self, found: _Sum, step: _Step, cycles: Sequence[Mapping[str, int]], engine: str
    ) -> list[int]:
        """Return when an engine would have read each part of finished sums."""
        ends, left, busy = list[int](), sum(found.drained), self._engines.get(engine, 0)
        vectors = left
        for count, each in zip(found.drained, cycles, strict=True):
            left -= count
            made = self._free - step.stream * left // vectors
            made += result_cycles(self._chip, self._chip.pe_array.cols)
            busy = max(made, busy) + each[engine]
            ends.append(busy)
        return ends


def _hull(parts: Sequence[Span]) -> Span:
    """Return the columns from the first to the last of some parts."""
    first = min(part.first for part in parts)
    return Span(first, max(part.stop for part in parts) - first)


def _meet(one: _Part, other: _Part) -> bool:
    return all(a.first < b.stop and b.first < a.stop for a, b in zip(one, other, strict=True))


def _joined(order: Iterable[_Step]) -> Iterator[Task]:
    """Yield the tasks of steps; those that follow one another with one load are one task."""
    last: Task | None = None
    for task in (step.task for step in order):
        if last is not None and _same_load(last, task):
            reads = tuple(dict.fromkeys((*last.reads, *task.reads)))
            writes = tuple(dict.fromkeys((*last.writes, *task.writes)))
            moving = (*last.moving, *task.moving)
            last = replace(last, reads=reads, writes=writes, moving=moving)
            continue
        if last is not None:
            yield last
        last = task
    if last is not None:
        yield last


def _same_load(one: Task, other: Task) -> bool:
    """Return whether two tasks load the same weights, and both or neither complete their sums."""
    if TurnNode in (one.kind, other.kind):
        return False
    alike = one.node, one.number, one.rows, one.cols, one.last, one.engine
    return alike == (other.node, other.number, other.rows, other.cols, other.last, other.engine)


def _with_stores(tasks: Iterable[Task], before: Sequence[Task]) -> Iterator[Task]:
    """Yield tasks, and each store right behind the last of them that writes its tile."""
    order = list(tasks)
    last = {tile: number for number, task in enumerate(order) for tile in task.writes}
    stores: dict[int, list[Task]] = {}
    for task in before:
        if task.kind is StoreNode:
            stores.setdefault(last.get(task.reads[0], len(order) - 1), []).append(task)
    for number, task in enumerate(order):
        yield task
        yield from stores.get(number, ())
