"""The second pass: nodes are cut into tasks on tiles, in the order in which they will be queued.

A turned operand is turned tile by tile, just before the first sums that need it; a store follows
the last task that writes its tile. The last sums of a product are made one by one and copied out
in parts, so that little is left to do after the last vector. Not here: addresses (`place`) and
instructions (`schedule`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np

from systolic.arrays import Integers
from systolic.compiler.cost.engines import some_engine_fills
from systolic.compiler.cost.products import ProductToCut, choose_loops, part_of_last, turning_banks
from systolic.compiler.ir.change_of_view import ChangeOfView
from systolic.compiler.ir.chip_tiles import block_rows, k_tiles
from systolic.compiler.ir.nodes import (
    Layers,
    Matrix,
    Node,
    NodeKind,
    for_every_kind,
    operand_number,
    spread_place,
)
from systolic.compiler.ir.pixels import PixelWindow
from systolic.compiler.ir.ranges import spans
from systolic.compiler.ir.tasks import Loops, MatrixTile, Task, Tiled, tiling
from systolic.compiler.tile.masks import taken_columns
from systolic.compiler.tile.width import tile_columns
from systolic.hw.datatypes import data_type
from systolic.hw.formulas.dram import dram_rate
from systolic.hw.formulas.timing import load_reads, result_cycles
from systolic.hw.spec import Chip
from systolic.isa import Select
from systolic.layout import Decomposition
from systolic.spans import Span
from systolic.workload.options import Options

_Place = tuple[int, int, int]
"""A tile: the number of its matrix, its block row and block column."""

MOST_LEAD = 3
"""The most sweeps of a batch by which a turn precedes its use: turns take banks of sums."""


def cut_tiles(
    layers: Layers,
    chip: Chip,
    options: Options,
    room_bytes: int | None = None,
    *,
    most_sums: bool = False,
) -> Tiled:
    """Return the tasks of all nodes.

    room_bytes: the bytes of each partition of the state buffer to plan with (None: all of them).
    most_sums: let as many sums of a product grow side by side as have room, whatever the estimate.

    Raises CompileError if `options` ask for an impossible group or impossible tiles.
    """
    room_bytes = room_bytes or chip.state_buffer.bytes_per_partition
    columns = tile_columns(layers, chip, options, room_bytes)
    block = block_rows(chip), columns
    cutter = _Cutter(layers, chip, options, block, room_bytes, most_sums=most_sums)
    for number, node in enumerate(layers.nodes):
        _CUTS[node.kind](cutter, number, node)
    return cutter.result()


@dataclass(slots=True, eq=False)
class _Deferred:
    """Tasks of a node that wait until a tile is needed that they write.

    following: the next such tasks of a product. Their operands are made before these tasks are
    queued, so that the array need not wait for them later.
    """

    tasks: list[Task]
    following: _Deferred | None = None
    added: bool = False


class _Cutter:
    """Collects tasks node by node.

    A task's place in the order is its number, and then its kind: 0 for work, 1 for turns of
    results, 2 for stores.
    """

    def __init__(
        self,
        layers: Layers,
        chip: Chip,
        options: Options,
        block: tuple[int, int],
        room_bytes: int,
        *,
        most_sums: bool,
    ) -> None:
        self._room_bytes, self._most_sums = room_bytes, most_sums
        self._layers, self._chip, self._options, self._block = layers, chip, options, block
        self._matrices = {m.name: m for m in layers.matrices}
        self._tasks: list[tuple[tuple[int, int], Task]] = []
        self._written: dict[MatrixTile, int] = {}
        self._loops: list[tuple[int, Loops]] = []
        self._loaded: set[str] = set()
        self._brought = 0.0
        self._ends: list[int] = []
        self._turns: dict[tuple[MatrixTile, int], Task] = {}
        self._deferred: dict[MatrixTile, list[_Deferred]] = {}
        self._in_images: set[str] = set()
        self._gone_over = {
            name
            for node in layers.nodes
            if node.kind in ("convert", "reduce")
            for name in node.inputs
        }
        self._made = {node.output for node in layers.nodes if node.kind == "multiply"}
        self._multiplied = {
            n
            for node in layers.nodes
            if node.kind in ("multiply", "diagonal")
            for n in node.inputs[:2]
        }
        self._turned_late = self._multiplied | self._with_images()

    def _with_images(self) -> set[str]:
        """Return the further operands, such as biases, that only convolutions take.

        Convolutions wait until their results are needed, so their biases should not come before.
        """
        taken: dict[str, bool] = {}
        for node in self._layers.nodes:
            waits = node.kind == "multiply" and isinstance(
                self._matrices[node.inputs[1]].window, PixelWindow
            )
            for name in node.inputs:
                taken[name] = waits and taken.get(name, True)
        further = {name for node in self._layers.nodes for _, name in node.others}
        return {self._matrices[name].holder for name in further if taken[name]}

    def result(self) -> Tiled:
        """Return the tasks in order."""
        for tile in list(self._deferred):
            self._need(tile)
        for turn in dict.fromkeys(self._turns.values()):  # of what no product takes
            self._add(turn)
        ordered = sorted(self._tasks, key=lambda item: item[0])
        return Tiled(self._block, tuple(self._loops), tuple(task for _, task in ordered))

    def _add(self, task: Task) -> None:
        """Add a task behind all others, and before it the turns for which it waits."""
        self._turn_for(task)
        self._put(task, len(self._tasks), 0)

    def _put(self, task: Task, place: int, rank: int) -> None:
        for tile in task.writes:
            self._written[tile] = max(place, self._written.get(tile, 0))
        self._tasks.append(((place, rank), task))

    def _turn_for(self, task: Task) -> None:
        """Add the tasks that make the tiles a task reads, if they have not been added."""
        for tile in task.reads if self._deferred else ():
            self._need(tile)
        for tile in task.reads if self._turns else ():
            for block in self._blocks_read(task, tile):
                if turn := self._turns.get((tile, block)):
                    for key in self._turn_keys(turn):
                        del self._turns[key]
                    self._add(turn)

    def _defer(self, batches: Sequence[list[Task]], *, ahead: bool = False) -> None:
        """Let tasks wait until their tiles are needed: images go through layer after layer then.

        So the results of some images, and not those of all, must be on the chip together.
        """
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
                self._turn_for(task)
        for each in waiting:
            if not each.added:
                each.added = True
                self._add_deferred(each)

    def _add_deferred(self, deferred: _Deferred) -> None:
        for task in deferred.tasks:
            self._turn_for(task)
        for task in deferred.following.tasks if deferred.following else ():
            self._turn_for(task)
        for task in deferred.tasks:
            self._add(task)
        if deferred.tasks[-1].kind == "multiply":
            self._ends.append(len(self._tasks) - 1)

    def _blocks_read(self, task: Task, tile: MatrixTile) -> Iterator[int]:
        """Yield which p columns of a tile a task reads, counted from the matrix's first."""
        p, q = self._block
        columns: tuple[Span, ...] = (Span(tile.col * q, q),)
        held, moving = (*self._layers.nodes[task.node].inputs, "", "")[:2]
        if task.kind == "multiply" and tile.matrix in (held, moving):
            columns = (task.cols if tile.matrix == held else ()) + (
                task.moving if tile.matrix == moving else ()
            )
        for span in columns:
            yield from range(span.first // p, -(-span.stop // p))

    def _turn_keys(self, turn: Task) -> Iterator[tuple[MatrixTile, int]]:
        """Yield the tiles that a turn makes, and which p columns of each."""
        return ((tile, turn.reads[0].row) for tile in turn.writes)

    def _tile(self, matrix: Matrix, number: int, row: int, col: int) -> MatrixTile:
        """Return the tile that holds an element: for a window, one of its holder's."""
        if matrix.window is not None:
            held = self._matrices[matrix.holder]
            window = matrix.window
            place = window.number(number), window.row(row), window.column(row, col)
            return self._tile(held, *place)
        p, q = matrix.block or self._block
        return MatrixTile(matrix.name, number, row // p, col // q)

    # Products

    def cut_multiply(self, number: int, node: Node) -> None:
        """Cut a product: group by group, inside it K-tile by K-tile."""
        a, b = (self._matrices[name] for name in node.inputs[:2])
        out = self._matrices[node.output]
        p, q = self._block
        cols = list(spans(0, a.cols, p, min(p, self._chip.pe_array.cols)))
        chunk = min(b.cols, q, self._chip.multiply_vectors)
        moving = self._chunks(b, out, chunk)
        chunk = max(span.count for span in moving)
        loops, ahead, banks = self._choose(node, (a, b, out), (len(cols), len(moving)), chunk)
        self._loops.append((number, loops))
        if node.diagonal is not None:  # each block of channels has rows of its own
            loops = replace(loops, group=(1, loops.group[1]))
        groups = list(_groups(cols, moving, loops))
        if isinstance(b.window, PixelWindow):
            self._in_images.add(out.name)
            self._defer(
                [
                    list(self._sweep(number, (a, b, out), matrix, some, others))
                    for matrix in range(out.matrices)
                    for some, others in groups
                ],
                ahead=True,
            )
            return
        if node.step.cls is Select and some_engine_fills(self._chip):
            self._cut_masked(number, (a, b, out), groups, ahead)
            return
        sweeps = list[list[Task]]()
        arrives = self._taken_as_it_arrives((a, b), out)
        for matrix in range(out.matrices):
            alone = arrives and out.matrices * len(groups) == 1
            is_last = matrix == out.matrices - 1 and not alone
            last = self._last_sums((a, b), groups[-1], banks) if is_last else groups[-1:]
            sweeps += [
                list(self._sweep(number, (a, b, out), matrix, some, others))
                for some, others in [*groups[:-1], *last]
            ]
        lead = self._lead((a, b, out), loops)
        for place, tasks in enumerate(sweeps):
            for soon in sweeps[place + 1 : place + 1 + lead]:
                self._turn_soon(tasks[0], soon)
            self._add_sweep(tasks, ahead)

    def _cut_masked(
        self,
        number: int,
        matrices: tuple[Matrix, Matrix, Matrix],
        groups: Sequence[tuple[Sequence[Span], Sequence[Span]]],
        ahead: int,
    ) -> None:
        """Cut a product of which a select takes some tiles only; the others are filled."""
        step, p = self._layers.nodes[number].step, self._block[0]
        for matrix in range(matrices[2].matrices):
            for col, others in ((col, others) for some, others in groups for col in some):
                parts = [taken_columns(step, col, moving, p) for moving in others]
                taken = [part for each, _ in parts for part in each]
                if taken:
                    sweep = self._sweep(number, matrices, matrix, [col], taken)
                    self._add_sweep(list(sweep), ahead)
                for rest in (part for _, each in parts for part in each):
                    tile = self._tile(matrices[2], matrix, col.first, rest.first)
                    fill = Task("multiply", number, (), (tile,), matrix, (), (col,), (rest,))
                    self._add(fill)

    def _chunks(self, moving: Matrix, out: Matrix, most: int) -> list[Span]:
        """Return the columns of each multiply."""
        if isinstance(moving.window, PixelWindow):
            assert out.block is not None
            most = self._chip.multiply_vectors
            return moving.window.pixels.chunks(moving.cols, out.block[1], most)
        return list(spans(0, moving.cols, self._block[1], most))

    def _add_sweep(self, tasks: Sequence[Task], ahead: int) -> None:
        for place, task in enumerate(tasks):
            for soon in tasks[place : place + ahead]:
                self._turn_for(soon)
            self._add(task)
        self._ends.append(len(self._tasks) - 1)

    def _turn_soon(self, now: Task, soon: Sequence[Task]) -> None:
        """Add the turns of a later sweep behind those for which the next task waits.

        The array then multiplies while what it has turned is copied out.
        """
        self._turn_for(now)
        for task in soon:
            self._turn_for(task)

    def _lead(self, matrices: tuple[Matrix, Matrix, Matrix], loops: Loops) -> int:
        """Return how many sweeps of a batch ahead of its use an operand is turned.

        That many sweeps last as long as a turned tile needs to go through the array and out.
        """
        a, b, out = matrices
        turned = self._turned_bytes((a, b), loops)
        if out.matrices == 1 or turned == 0:
            return 0
        p, array = self._block[0], self._chip.pe_array
        vectors = loops.group[0] * loops.group[1] * loops.chunk * -(-a.rows // p)
        sweep = (vectors + min(p, a.rows)) * array.cycles_per_vector[b.dtype]
        latency = result_cycles(self._chip, min(array.cols, a.rows)) + array.rows
        room = self._room_bytes // (4 * turned) - 1
        return max(0, min(MOST_LEAD, -(-latency // sweep), room))

    def _choose(
        self,
        node: Node,
        matrices: tuple[Matrix, Matrix, Matrix],
        counts: tuple[int, int],
        chunk: int,
    ) -> tuple[Loops, int, int]:
        """Return the loops, how many tasks ahead of its use an operand is turned, banks for sums.

        All operands of a sweep are turned ahead if there is room for them; otherwise they are
        turned tile by tile, while sums grow.
        """
        a, b, out = matrices
        banks = self._chip.result_buffer.banks
        P, K = a.cols, a.rows
        if node.diagonal is not None:
            P, counts = min(P, self._block[0]), (1, counts[1])
            K = node.diagonal.taps * P
        work = ProductToCut(
            P,
            b.cols,
            K,
            b.dtype,
            data_type(out.dtype).size_bytes,
            self._block,
            "dram" in (a.source, b.source),
            chunk,
            counts,
            node.layer,
            self._room_bytes,
            self._most_sums,
        )
        loops = choose_loops(self._chip, self._options, work)
        sweep = len(k_tiles(self._chip, K)) - 1
        if self._turned_bytes((a, b), loops) * 4 <= self._room_bytes:
            return loops, sweep, banks
        spare = turning_banks(self._chip, self._options, b.dtype)
        spared = choose_loops(self._chip, self._options, work, spare_banks=spare)
        taken = spared.group[0] * spared.group[1]
        if taken == banks:
            return loops, sweep, banks
        return spared, 2, max(1, banks - spare)

    def _taken_as_it_arrives(self, operands: tuple[Matrix, Matrix], out: Matrix) -> bool:
        """Return whether a lone group of sums should grow K-tile by K-tile, as operands arrive.

        It need not if the products before take longer than these operands, and those of all
        products before, take to come; and it should not if engines go over the result, which they
        can do tile by tile while the array makes the next one.
        """
        self._brought += sum(self._load_cycles(matrix) for matrix in operands)
        if "dram" not in (matrix.source for matrix in operands):
            return False
        before = sum(loops.estimate for _, loops in self._loops[:-1])
        waits = self._brought * self._chip.period("dma") > before * self._chip.period("pe_array")
        return waits or out.name not in self._gone_over

    def _load_cycles(self, matrix: Matrix) -> float:
        """Return about how many cycles all queues take to bring a matrix, the first time."""
        if matrix.source != "dram" or matrix.name in self._loaded:
            return 0.0
        self._loaded.add(matrix.name)
        return matrix.size_bytes / dram_rate(self._chip, self._chip.dma.useful_queues)

    def _turned_bytes(self, operands: tuple[Matrix, Matrix], loops: Loops) -> int:
        """Return the bytes of each partition that a sweep's turned tiles take."""
        total = 0
        widths = (loops.group[0] * self._chip.pe_array.cols, loops.group[1] * loops.chunk)
        for matrix, width in zip(operands, widths, strict=True):
            if any(tile.matrix == matrix.name for tile, _ in self._turns):
                rows = -(-matrix.rows // self._block[0])
                total += rows * min(width, matrix.cols) * data_type(matrix.dtype).size_bytes
        return total

    def _last_sums(
        self,
        operands: tuple[Matrix, Matrix],
        group: tuple[Sequence[Span], Sequence[Span]],
        banks: int,
    ) -> list[tuple[Sequence[Span], Sequence[Span]]]:
        """Cut the last group so that few sums are left to copy out and to store at the end.

        Its operands are used several times then, so they must have room on the chip meanwhile. Each
        chunk needs loads of its own, which must hide behind the chunk.
        """
        (some, others), (a, b) = group, operands
        array, K = self._chip.pe_array, a.rows
        room = self._room_bytes // 2
        for matrix, columns in ((a, some), (b, others)):
            if matrix.source != "state_buffer":
                width = sum(span.count for span in columns) * data_type(matrix.dtype).size_bytes
                room -= -(-K // self._block[0]) * width
        if room < 0:
            return [group]
        stream = min(span.count for span in others) * array.vector_cycles(b.dtype)
        hidden = load_reads(self._chip, min(K, array.rows), some[0].count, a.dtype) <= stream
        if not hidden or array.weight_buffer != "double" or self._chip.state_buffer.banks == 1:
            return [([col], others) for col in some]
        one_by_one = [([col], [chunk]) for col in some for chunk in others]
        (col,), (chunk,) = one_by_one[-1]
        part = part_of_last(self._chip, self._options, (chunk.count, K, col.count), b.dtype, banks)
        parts = [
            Span(chunk.first + n, min(part, chunk.count - n)) for n in range(0, chunk.count, part)
        ]
        return [*one_by_one[:-1], ([col], parts)]

    def _sweep(
        self,
        node: int,
        matrices: tuple[Matrix, Matrix, Matrix],
        number: int,
        cols: Sequence[Span],
        moving: Sequence[Span],
    ) -> Iterator[Task]:
        a, b, out = matrices
        rows, diagonal = self._block[0], self._layers.nodes[node].diagonal
        most = min(rows, self._chip.pe_array.rows)
        tiles = list(spans(0, a.rows, rows, most))
        if diagonal is not None:
            tiles = diagonal.rows_of(cols[0], most)
        outs = dict.fromkeys(
            self._tile(out, number, c.first, m.first) for c in cols for m in moving
        )
        for place, tall in enumerate(tiles):
            k = tall.first
            reads = [self._tile(a, operand_number(a, out, number), k, c.first) for c in cols]
            reads += [self._tile(b, operand_number(b, out, number), k, m.first) for m in moving]
            last = place == len(tiles) - 1
            if last:
                step, made = self._layers.nodes[node], ((c, m) for c in cols for m in moving)
                reads += [tile for where in made for tile in self._others(step, number, *where)]
            yield Task(
                "multiply",
                node,
                tuple(dict.fromkeys(reads)),
                tuple(outs) if last else (),
                number,
                (tall,),
                tuple(cols),
                tuple(moving),
                place == 0,
                last,
            )

    # Other nodes

    def cut_diagonal(self, number: int, node: Node) -> None:
        """Cut a diagonal: tile by tile, each when the first sums need it."""
        assert node.diagonal is not None
        source, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        for tap, rows, cols in node.diagonal.tiles():
            read = self._tile(source, 0, cols.first, tap)
            made = self._tile(out, 0, rows.first, cols.first)
            task = Task("diagonal", number, (read,), (made,), 0, (rows,), (cols, Span(tap, 1)))
            self._defer([[task]])

    def cut_turn(self, number: int, node: Node) -> None:
        """Cut a transpose tile by tile, each into sub-blocks of the array.

        The turns of an operand are added at its first use. A finished result is turned after the
        next sums, because it has surely been copied out by then.
        """
        for task in self._turn_tasks(number, node):
            if node.output in self._turned_late:
                self._turns.update(dict.fromkeys(self._turn_keys(task), task))
            elif node.inputs[0] in self._made and task.reads[0] not in self._deferred:
                written = self._written[task.reads[0]]
                following = bisect_right(self._ends, written)
                place = self._ends[following] if following < len(self._ends) else written
                self._put(task, place, 1)
            else:
                self._add(task)

    def _turn_tasks(self, number: int, node: Node) -> Iterator[Task]:
        source, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        p, array = (source.block or self._block)[0], self._chip.pe_array
        q = (out.block or self._block)[0]
        tiles = list(self._tiles(source))
        if source.source == "dram" and not source.block and not self._multiplied:
            # A tile of the result is as wide as `tall` source tiles are high. These are turned one
            # after another: the result's tile is then complete, and stored, as early as can be.
            tall = max(1, self._block[1] // self._block[0])
            tiles.sort(key=lambda item: (item[1].number, item[1].row // tall, item[1].col))
        for (row, col), tile in tiles:
            rows = tuple(spans(row.first, row.stop, p, min(array.rows, p)))
            cols = tuple(spans(col.first, col.stop, q, min(array.cols, q)))
            writes = dict.fromkeys(
                self._tile(out, tile.number, c.first, r.first) for c in cols for r in rows
            )
            read = self._tile(source, tile.number, row.first, col.first)
            yield Task("turn", number, (read,), tuple(writes), tile.number, rows, cols)

    def cut_bounce(self, number: int, node: Node) -> None:
        """Cut a transpose through DRAM: tile by tile, each becomes one tile of the result."""
        source, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        for _, tile in self._tiles(source):
            write = MatrixTile(out.name, tile.number, tile.col, tile.row)
            self._add(Task("bounce", number, (tile,), (write,), tile.number))

    def cut_move(self, number: int, node: Node) -> None:
        """Cut a change of view: from one tile to one tile at a time."""
        source, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        assert node.change is not None
        p, q = source.block or self._block
        places = _tile_pairs(node.change, (p, q), tiling(out, self._block))
        pairs = [
            (MatrixTile(source.name, *read), MatrixTile(out.name, *made)) for read, made in places
        ]
        tiles = {tile for pair in pairs for tile in pair}
        each = min(q, max(source.cols, out.cols)) * data_type(out.dtype).size_bytes
        roomy = 4 * len(tiles) * each <= self._room_bytes
        for read, tile in _crosswise(pairs) if roomy else pairs:
            self._add(Task("move", number, (read,), (tile,), tile.number))

    def cut_gather(self, number: int, node: Node) -> None:
        """Cut a gather: from one tile to one tile at a time; a part of one value has no source."""
        assert node.gather is not None
        self._in_images.add(node.output)
        for (rows, cols), tile in self._tiles(self._matrices[node.output]):
            tasks = list[Task]()
            for place, part in enumerate(node.gather.parts):
                there, down, across = (
                    part.numbers[tile.number],
                    part.rows[rows.first : rows.stop],
                    part.cols[cols.first : cols.stop],
                )
                if there < 0 or (down < 0).all() or (across < 0).all():
                    continue
                for reads in self._gathered(node, part.source, int(there), down, across):
                    tasks.append(Task("gather", number, reads, (tile,), place, (rows,), (cols,)))
            self._defer([tasks])

    def _gathered(
        self, node: Node, source: int | None, number: int, down: Integers, across: Integers
    ) -> Iterator[tuple[MatrixTile, ...]]:
        """Yield the tiles that rows and columns of a part come from, one at a time."""
        if source is None:
            yield ()
            return
        matrix = self._matrices[node.inputs[source]]
        p, q = matrix.block or self._block
        for row in _different(down[down >= 0] // p):
            for col in _different(across[across >= 0] // q):
                yield (MatrixTile(matrix.name, number, row, col),)

    def cut_convert(self, number: int, node: Node) -> None:
        """Cut a conversion: tile by tile, where all operands and the result have the same tiles."""
        source, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        p, q = source.block or self._block
        sides = {q, *(side for _, name in node.others if (side := self._sides(name)))}
        deferred = out.block is not None and not self._in_images.isdisjoint(node.inputs)
        if deferred:
            self._in_images.add(out.name)
        for (tall, wide), tile in self._tiles(out):
            tasks = list[Task]()
            for rows in spans(tall.first, tall.stop, p, p):
                for cols in _cut_at(wide, sides):
                    write = self._tile(out, tile.number, rows.first, cols.first)
                    first = self._operand(source, out, tile.number, rows, cols)
                    others = self._others(node, tile.number, rows, cols)
                    reads = tuple(dict.fromkeys((first, *others)))
                    made = (write, *self._sums_made(node, tile.number, rows, cols))
                    tasks.append(
                        Task("convert", number, reads, made, tile.number, (rows,), (cols,))
                    )
            if deferred:
                self._defer([tasks])
            for task in () if deferred else tasks:
                self._add(task)

    def _sums_made(self, node: Node, number: int, rows: Span, cols: Span) -> Iterator[MatrixTile]:
        """Yield the tile of the sums that a step makes of segments of what it makes."""
        if node.reduced:
            sums = self._matrices[node.reduced]
            yield self._tile(sums, number, rows.first, cols.first // self._block[0])

    def _sides(self, name: str) -> int:
        """Return the columns of an operand's tiles, if it has several in tiles of its own."""
        matrix = self._matrices[name]
        if matrix.cols == 1 or isinstance(matrix.window, PixelWindow):
            return 0
        return (matrix.block or self._block)[1] if matrix.block or not matrix.window else 0

    def _others(self, node: Node, number: int, rows: Span, cols: Span) -> Iterator[MatrixTile]:
        """Yield the tiles of a step's further operands for rows and columns of its result."""
        for _, name in node.others:
            out = self._matrices[node.output]
            yield self._operand(self._matrices[name], out, number, rows, cols)

    def _operand(
        self, operand: Matrix, out: Matrix, number: int, rows: Span, cols: Span
    ) -> MatrixTile:
        """Return the tile of an operand that a step spreads over rows and columns of a result."""
        there, row, col = spread_place(operand, out, (number, rows.first, cols.first))
        return self._tile(operand, there, row, col)

    def cut_reduce(self, number: int, node: Node) -> None:
        """Cut a reduction: each tile of the source makes some columns of the result."""
        source, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        for (rows, cols), tile in self._tiles(source):
            read = self._tile(source, tile.number, rows.first, cols.first)
            made = self._tile(out, tile.number, rows.first, cols.first // self._block[0])
            self._add(Task("reduce", number, (read,), (made,), tile.number, (rows,), (cols,)))

    def cut_pool(self, number: int, node: Node) -> None:
        """Cut pooling: each tile of images makes one tile of the result."""
        source, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        for (rows, cols), tile in self._tiles(out):
            read = MatrixTile(source.name, tile.number, tile.row, tile.col)
            task = Task("pool", number, (read,), (tile,), tile.number, (rows,), (cols,))
            self._defer([[task]])

    def cut_repeat(self, number: int, node: Node) -> None:
        """Cut the repetition of a row: tile by tile, of which there is one row."""
        source, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        _, q = source.block or self._block
        for (_, wide), tile in self._tiles(out):
            for cols in spans(wide.first, wide.stop, q, q):
                read = self._tile(source, tile.number, 0, cols.first)
                task = Task("repeat", number, (read,), (tile,), tile.number, (Span(0, 1),), (cols,))
                self._add(task)

    def cut_bytes(self, number: int, node: Node) -> None:
        """Cut unpacking or packing: a tile of bytes and the tile of its elements."""
        source, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        for _, tile in self._tiles(source):
            made = MatrixTile(out.name, tile.number, tile.row, tile.col)
            self._add(Task(node.kind, number, (tile,), (made,), tile.number))

    def cut_copy(self, number: int, node: Node) -> None:
        """Cut a copy from DRAM to DRAM: a part for each queue."""
        for part in range(self._chip.dma.useful_queues):
            self._add(Task("copy", number, (), (), part))

    def cut_store(self, number: int, node: Node) -> None:
        """Cut a transfer to DRAM: each tile as soon as it is complete."""
        for _, tile in self._tiles(self._matrices[node.inputs[0]]):
            store = Task("store", number, (tile,), (), tile.number)
            self._turn_for(store)
            self._put(store, self._written.get(tile, len(self._tasks)), 2)

    def _tiles(self, matrix: Matrix) -> Iterator[tuple[tuple[Span, Span], MatrixTile]]:
        blocks = tiling(matrix, self._block)
        for block in blocks:
            (row, col), (rows, cols) = block.origin, block.extents
            number = block.number // blocks.count_per_matrix
            yield (
                (Span(row, rows), Span(col, cols)),
                MatrixTile(matrix.name, number, block.row, block.column),
            )


_CUTS: Mapping[NodeKind, Callable[[_Cutter, int, Node], None]] = for_every_kind(
    {
        "multiply": _Cutter.cut_multiply,
        "diagonal": _Cutter.cut_diagonal,
        "turn": _Cutter.cut_turn,
        "bounce": _Cutter.cut_bounce,
        "move": _Cutter.cut_move,
        "gather": _Cutter.cut_gather,
        "convert": _Cutter.cut_convert,
        "copy": _Cutter.cut_copy,
        "reduce": _Cutter.cut_reduce,
        "pool": _Cutter.cut_pool,
        "repeat": _Cutter.cut_repeat,
        "unpack": _Cutter.cut_bytes,
        "pack": _Cutter.cut_bytes,
        "store": _Cutter.cut_store,
    }
)


def _cut_at(columns: Span, sides: Iterable[int]) -> Iterator[Span]:
    """Cut columns where tiles of so many columns end, for each of some sizes of tiles."""
    ends = {end for side in sides for end in range(side, columns.stop, side) if end > columns.first}
    edges = [columns.first, *sorted(ends), columns.stop]
    return (Span(first, stop - first) for first, stop in pairwise(edges))


def _different(numbers: Integers) -> list[int]:
    """Return the different ones of small numbers from 0 on, in order: faster than `np.unique`."""
    found: list[int] = np.flatnonzero(np.bincount(numbers)).tolist()
    return found


def _groups(
    cols: Sequence[Span], moving: Sequence[Span], loops: Loops
) -> Iterator[tuple[Sequence[Span], Sequence[Span]]]:
    """Yield stationary and moving columns whose sums stand side by side, in the loops' order."""
    p, q = loops.group
    some = [cols[n : n + p] for n in range(0, len(cols), p)]
    others = [moving[n : n + q] for n in range(0, len(moving), q)]
    if loops.outer == "stationary":
        for number, part in enumerate(some):
            for other in others if number % 2 == 0 else others[::-1]:
                yield part, other
    else:
        for number, other in enumerate(others):
            for part in some if number % 2 == 0 else some[::-1]:
                yield part, other


# The tiles of a change of view with elements in common, in the order in which they are copied.


@lru_cache(maxsize=1024)
def _tile_pairs(
    change: ChangeOfView, block: tuple[int, int], made: Decomposition
) -> tuple[tuple[_Place, _Place], ...]:
    """Return pairs (tile of the source, tile of the target) with elements in common.

    block: the tiles T(p,q) of the source's matrix. made: those of the target's. Equal changes of
    view, of layers of equal shape or in another plan, share their pairs.
    """
    p, q = block
    _, rows_of_source, cols_of_source = change.source.sizes()
    down, across = -(-rows_of_source // p), -(-cols_of_source // q)
    pairs: list[tuple[_Place, _Place]] = []
    for each in made:
        number = each.number // made.count_per_matrix
        logical = change.target.logical(number, each.rows, each.columns)
        matrix, row, col = change.source.locate(logical[logical >= 0])
        tiles = np.unique((matrix * down + row // p) * across + col // q)
        for there in tiles.tolist():
            read = there // (down * across), there // across % down, there % across
            pairs.append((read, (number, each.row, each.column)))
    return tuple(pairs)


def _crosswise(
    pairs: Sequence[tuple[MatrixTile, MatrixTile]],
) -> list[tuple[MatrixTile, MatrixTile]]:
    """Return pairs of tiles so that neighbours differ in both: then their lanes overlap."""
    sources = {tile: n for n, tile in enumerate(sorted({read for read, _ in pairs}))}
    targets = {tile: n for n, tile in enumerate(sorted({tile for _, tile in pairs}))}

    def diagonal(pair: tuple[MatrixTile, MatrixTile]) -> tuple[int, int]:
        source, target = sources[pair[0]], targets[pair[1]]
        return (target - source) % len(targets), source

    return sorted(pairs, key=diagonal)
