"""Engines that share the work on the tiles of a move that the array turns.

Of a move from DRAM to DRAM with nothing else beside it, every engine casts, copies out or orders
some tiles: whole ones, since two engines at one tile would wait for one another at the ports of its
bank. An engine keeps its order, so a tile is cast not long before it is turned, and is ordered and
stored as soon as it has been turned: else it would wait behind the work on all other tiles. Not
here: the instructions (`schedule`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from systolic.compiler.cost.engine_shares import TilesShared, TileWork, shares_of
from systolic.compiler.ir.nodes import Layers
from systolic.compiler.ir.tasks import MatrixTile, Task, Tiled
from systolic.compiler.ir.windows import PartWindow
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, Copy
from systolic.workload.options import Options

ALONE = {"convert", "turn", "store"}
"""The kinds of nodes of such moves."""
AHEAD = 2
"""How many tiles are cast, or being cast, when the first of them is turned.

With one more, two engines meet at a bank: there are few for the tiles of each kind.
"""


def with_shared_turns(tiled: Tiled, layers: Layers, chip: Chip, options: Options) -> Tiled:
    """Return the same tasks in an order in which tiles flow, and an engine named by each.

    They are as they were if there is other work, if tiles are not those of an arrangement, if
    elements are turned in parts, or if the user has chosen an engine.
    """
    kinds = {node.kind for node in layers.nodes}
    if "turn" not in kinds or not kinds <= ALONE or options.drain_engine is not None:
        return tiled
    if any(isinstance(matrix.window, PartWindow) for matrix in layers.matrices):
        return tiled
    if not all(matrix.source == "node" or matrix.shared for matrix in layers.matrices):
        return tiled
    tasks = _as_soon_as_made([*_interleaved(tiled.tasks, _casts(tiled, layers))])
    return replace(tiled, tasks=tuple(_Sharing(layers, chip).named([*tasks])))


def _casts(tiled: Tiled, layers: Layers) -> dict[MatrixTile, list[Task]]:
    """Return the tasks that cast a tile from DRAM to be turned, by what they make."""
    dram = {matrix.name for matrix in layers.matrices if matrix.source == "dram"}
    turned = {tile for task in tiled.tasks if task.kind == "turn" for tile in task.reads}
    found: dict[MatrixTile, list[Task]] = {}
    for task in tiled.tasks:
        if task.kind != "convert" or task.writes[0] not in turned:
            continue
        if all(tile.matrix in dram for tile in task.reads):
            found.setdefault(task.writes[0], []).append(task)
    return found


def _interleaved(tasks: Sequence[Task], casts: Mapping[MatrixTile, list[Task]]) -> Iterator[Task]:
    """Yield the tasks, each cast `AHEAD` tiles before the tile that it makes is turned."""
    read = (tile for task in tasks if task.kind == "turn" for tile in task.reads)
    held = iter(dict.fromkeys(tile for tile in read if tile in casts))
    for tile in islice(held, AHEAD - 1):
        yield from casts[tile]
    begun = set[MatrixTile]()
    for task in tasks:
        if task.kind == "convert" and task.writes[0] in casts:
            continue
        for tile in task.reads:
            if task.kind == "turn" and tile in casts and tile not in begun:
                begun.add(tile)
                if (following := next(held, None)) is not None:
                    yield from casts[following]
        yield task


def _as_soon_as_made(tasks: Sequence[Task]) -> Iterator[Task]:
    """Yield the tasks, each copy or store of what is turned behind what makes the tile it reads."""
    made = {tile for task in tasks if task.kind == "turn" for tile in task.writes}
    later, makers = dict[MatrixTile, list[Task]](), Counter[MatrixTile]()
    first = list[Task]()
    for task in tasks:
        makers.update(task.writes)
        if task.kind in ("convert", "store") and made.issuperset(task.reads):
            made.update(task.writes)
            later.setdefault(task.reads[0], []).append(task)
        else:
            first.append(task)
    ready = deque(first)
    while ready:
        task = ready.popleft()
        yield task
        done = list[Task]()
        for tile in task.writes:
            makers[tile] -= 1
            if makers[tile] == 0:
                done += later.pop(tile, ())
        ready.extendleft(reversed(done))


@dataclass(slots=True)
class _Sharing:
    """Gives the work on each tile to engines; engines: of each tile that is written."""

    layers: Layers
    chip: Chip
    shares: TilesShared = field(default_factory=TilesShared)
    engines: dict[MatrixTile, str] = field(default_factory=dict)

    def named(self, tasks: Sequence[Task]) -> Iterator[Task]:
        """Yield the tasks with the engines that do them."""
        turns, copies = dict[MatrixTile, list[Task]](), dict[MatrixTile, list[Task]]()
        for task in tasks:
            if task.kind == "turn":
                turns.setdefault(task.reads[0], []).append(task)
            elif task.kind == "convert":
                copies.setdefault(task.writes[0], []).append(task)
        for task in tasks:
            if task.kind == "store" or task.engine:
                yield task
                continue
            (made,) = task.writes[:1]
            if task.kind == "turn":
                self._give([], turns[task.reads[0]])
            elif made not in self.engines:
                self._give(copies[made], turns.get(made, ()))
            yield replace(task, engine=self.engines[made])

    def _give(self, copies: Sequence[Task], turns: Sequence[Task]) -> None:
        """Choose the engines of a tile's copies, and of the results of its turns."""
        results = [task for task in turns if task.writes[0] not in self.engines]
        works = list[TileWork]()
        if copies:
            works.append(shares_of(self.chip, [self._copy(task) for task in copies]))
        if results:
            works.append(shares_of(self.chip, [self._drain(task) for task in results]))
        if not works:
            return
        best = self.shares.give(*works)
        self.engines |= {task.writes[0]: best[0] for task in copies}
        self.engines |= {task.writes[0]: best[-1] for task in results}

    def _copy(self, task: Task) -> tuple[Copy, int]:
        """Return about the copy of a task, and that there is one."""
        source, out = (self.layers.matrix(tile.matrix) for tile in (*task.reads, *task.writes))
        rows, columns = task.rows[0].count, sum(span.count for span in task.cols)
        held = Access(Buffer.STATE, source.dtype, 0, rows, 0, ((1, columns),))
        return Copy(engine="", source=held, target=replace(held, dtype=out.dtype)), 1

    def _drain(self, task: Task) -> tuple[Copy, int]:
        """Return the copy of the result of one of a task's turns, and how many there are."""
        node, array = self.layers.nodes[task.node], self.chip.pe_array
        source, out = (self.layers.matrix(name) for name in (node.inputs[0], node.output))
        passes = array.turns_by_passing(source.dtype)
        dtype = source.dtype if passes else data_type(source.dtype).accumulator
        words = ((1, task.rows[0].count),)
        sums = Access(Buffer.RESULT, dtype, 0, task.cols[0].count, 0, words)
        made = replace(sums, buffer=Buffer.STATE, dtype=out.dtype)
        return Copy(engine="", source=sums, target=made), len(task.rows) * len(task.cols)
