"""Checks of the result of `tile` for the later passes: every element is made once, then read.

Matrices are looked at element by element, which takes time, so a run omits these checks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from systolic.arrays import Integers
from systolic.compiler.ir.broken import BrokenPassError
from systolic.compiler.ir.nodes import (
    BounceNode,
    ConvertNode,
    DiagonalNode,
    GatherNode,
    Layers,
    Matrix,
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
    operand_number,
    rows_beside,
    spread_place,
)
from systolic.compiler.ir.tasks import MatrixTile, Task, Tiled, tiling
from systolic.compiler.ir.windows import PartWindow, StridedWindow
from systolic.compiler.tile.stored_places import StoredPlaces
from systolic.spans import Span


def verify_tiled(tiled: Tiled, layers: Layers) -> None:
    """Raise BrokenPassError unless the tasks do the work of the nodes.

    A task is of its node's kind, and its tiles are tiles of the node's matrices. It reads only
    elements that are there: given, in DRAM, or written by earlier tasks. A place in DRAM is
    read behind all that earlier nodes store there. Sums take all of K in order. In the end
    every element of every matrix that a node makes has been written once, and every tile that a
    node stores has been stored once.
    """
    verifier = _Verifier(tiled, layers)
    for number, task in enumerate(tiled.tasks):
        verifier.check(number, task)
    verifier.finish()


class _Verifier:
    """Goes through the tasks and notes which elements of each matrix have been written."""

    def __init__(self, tiled: Tiled, layers: Layers) -> None:
        self._tiled, self._nodes = tiled, layers.nodes
        self._matrices = {matrix.name: matrix for matrix in layers.matrices}
        self._written: dict[str, npt.NDArray[np.bool_]] = {
            m.name: np.zeros((m.matrices, m.rows, m.cols), bool)
            for m in layers.matrices
            if m.source.kind == "node" and not m.window
        }
        self._parts: dict[str, npt.NDArray[np.bool_]] = {
            m.holder: np.zeros((*self._written[m.holder].shape, m.window.many), bool)
            for m in layers.matrices
            if isinstance(m.window, PartWindow) and m.holder in self._written
        }
        self._blocks = {m.name: tiling(m, tiled.block) for m in layers.matrices}
        self._diagonals = {n.output: n.tiles for n in self._nodes if isinstance(n, DiagonalNode)}
        self._background = {
            n.output for n in layers.nodes if isinstance(n, UnpackNode) and n.background
        }
        self._stored: set[tuple[int, MatrixTile]] = set()
        self._places = StoredPlaces(layers)
        self._to_come = defaultdict[int, Counter[int]](Counter)
        for task in tiled.tasks:
            if task.kind is StoreNode:
                self._to_come[self._places.written(task)][task.node] += 1
        self._growing: dict[tuple[int, int, Span, Span], int] = {}

    def check(self, number: int, task: Task) -> None:
        """Check a task, and note the elements that it writes."""
        self._where = f"task {number}, {task.kind.word()}"
        node = self._nodes[task.node] if 0 <= task.node < len(self._nodes) else None
        if node is None or type(node) is not task.kind:
            raise self._broken(f"node {task.node} is {node}")
        for tile, names in self._tiles(task, node):
            holders = [self._matrices[name].holder for name in names]
            if tile.matrix not in holders or not self._exists(tile):
                raise self._broken(f"{tile} is no tile of {' or '.join(names)}")
        for place in self._places.read(task):
            stores = self._to_come[place].items()
            if any(count and earlier < task.node for earlier, count in stores):
                raise self._broken(f"the place at byte {place} of DRAM is read before it is stored")
        _CHECKS[task.kind](self, task, node)

    def finish(self) -> None:
        """Check that every element has been made, and every tile stored."""
        self._where = "after all tasks"
        if self._growing:
            raise self._broken("sums have begun and not ended")
        for node in self._nodes:
            if isinstance(node, MoveNode):
                self._pass_padding(node)
        for name, mask in self._written.items():
            missing = np.count_nonzero(self._elements(name) & ~mask)
            if missing and name not in self._background:
                raise self._broken(f"{missing} elements of {name} are not written")
        for number, node in enumerate(self._nodes):
            if isinstance(node, StoreNode):
                stored = sum(of == number for of, _ in self._stored)
                if stored != self._blocks[node.inputs[0]].count:
                    raise self._broken(f"{stored} tiles of {node.inputs[0]} are stored")

    def _pass_padding(self, node: MoveNode) -> None:
        """Let the padding of a move's target pass: no task has the tiles that are nothing else."""
        for number, written in enumerate(self._written[node.output]):
            rows, cols = (Span(0, size) for size in written.shape)
            written[node.change.target.logical(number, rows, cols) < 0] = True

    def _elements(self, name: str) -> npt.NDArray[np.bool_]:
        """Return where a matrix has elements of its tensor, if there is padding between them.

        None are beyond the last row of a strand.
        """
        within = [
            (m.rows, window.columns(0, 0, Span(0, m.cols)))
            for m in self._matrices.values()
            if m.holder == name and (window := _strand(m)) is not None
        ]
        found = np.full_like(self._written[name], not within)
        if (diagonal := self._diagonals.get(name)) is not None:
            found[:] = False
            for _, down, across in diagonal.tiles():
                found[:, down.first : down.stop, across.first : across.stop] = True
        for rows, columns in within:
            found[:, :rows, columns] = True
        return found

    # What tasks read and write

    def multiply(self, task: Task, node: MultiplyNode) -> None:
        """Check a task of this kind."""
        a, b = (self._matrices[name] for name in node.inputs[:2])
        out = self._matrices[node.output]
        if not task.rows:
            self._filled(task, node)
            return
        (rows,) = task.rows
        self._follow(task, rows, _needed_rows(node, a, task))
        for operand, columns in ((a, task.cols), (b, task.moving)):
            number = operand_number(operand, out, task.number)
            for span in columns:
                self._read(operand, number, rows, span, task.reads)
        if task.last:
            self._take_out(task, node)

    def _take_out(self, task: Task, node: MultiplyNode) -> None:
        """Check what a step writes of finished sums."""
        for some in task.cols:
            for other in task.moving:
                self._others(task, node, (some, other))
                self._write(self._matrices[node.output], task.number, some, other, task.writes)

    def _filled(self, task: Task, node: MultiplyNode) -> None:
        """Check that a select takes nothing of what is filled without sums."""
        (rows,), (cols,) = task.cols, task.moving
        if node.step.selects(rows, cols):
            raise self._broken("elements are filled that have sums")
        self._write(self._matrices[node.output], task.number, rows, cols, task.writes)

    def _follow(self, task: Task, rows: Span, needed: Sequence[int]) -> None:
        """Check that a K-tile comes behind the one before in each of its sums.

        needed: the rows that sums must take, in their order.
        """
        for cols in task.cols:
            for moving in task.moving:
                which = task.node, task.number, cols, moving
                if task.first != (which not in self._growing):
                    raise self._broken("sums begin twice, or go on without beginning")
                place = self._growing.pop(which, 0)
                taken = [row for row in range(rows.first, rows.stop) if row in needed]
                reached = place + len(taken)
                expected = list(needed[place:reached])
                if not taken or taken != expected or task.last != (reached == len(needed)):
                    where = f"{rows.first}:{rows.stop} of {len(needed)}"
                    raise self._broken(f"rows {where} come behind {place}")
                if not task.last:
                    self._growing[which] = reached

    def diagonal(self, task: Task, node: DiagonalNode) -> None:
        """Check a task of this kind: a column of the weights makes one tile."""
        (rows,), (cols, tap) = task.rows, task.cols
        self._read(self._matrices[node.inputs[0]], task.number, cols, tap, task.reads)
        self._write(self._matrices[node.output], task.number, rows, cols, task.writes)

    def turn(self, task: Task, node: TurnNode) -> None:
        """Check a task of this kind."""
        source, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        for rows in task.rows:
            for cols in task.cols:
                self._read(source, task.number, rows, cols, task.reads)
                self._write(out, task.number, cols, rows, task.writes)

    def bounce(self, task: Task, node: BounceNode) -> None:
        """Check a task of this kind."""
        rows, cols = self._read_all(task)
        self._write(self._matrices[node.output], task.number, cols, rows, task.writes)

    def convert(self, task: Task, node: ConvertNode) -> None:
        """Check a task of this kind."""
        (rows,), (cols,) = task.rows, task.cols
        self._operand(self._matrices[node.inputs[0]], task, node, (rows, cols))
        self._others(task, node, (rows, cols))
        self._write(self._matrices[node.output], task.number, rows, cols, task.writes)
        if node.reduced:
            p = self._tiled.block[0]
            made = Span(cols.first // p, -(-cols.count // p))
            self._write(self._matrices[node.reduced], task.number, rows, made, task.writes)

    def _others(self, task: Task, node: Node, where: tuple[Span, Span]) -> None:
        """Check that a step's further operands are there for all that is written."""
        for _, name in node.others:
            self._operand(self._matrices[name], task, node, where)

    def _operand(self, operand: Matrix, task: Task, node: Node, where: tuple[Span, Span]) -> None:
        """Check that an operand is there for rows and columns that a step makes of it."""
        (rows, cols), out = where, self._matrices[node.output]
        number, row, col = spread_place(operand, out, (task.number, rows.first, cols.first))
        wide = Span(col, cols.count if operand.cols > 1 else 1)
        self._read(operand, number, Span(row, rows.count), wide, task.reads)

    def reduce(self, task: Task, node: ReduceNode) -> None:
        """Check a task of this kind: every segment of p columns makes one."""
        (rows,), (cols,), p = task.rows, task.cols, self._tiled.block[0]
        self._read(self._matrices[node.inputs[0]], task.number, rows, cols, task.reads)
        made = Span(cols.first // p, -(-cols.count // p))
        self._write(self._matrices[node.output], task.number, rows, made, task.writes)

    def rows(self, task: Task, node: RowsNode) -> None:
        """Check a task of this kind: all columns of some rows of its inputs and its result."""
        (rows,), (cols,), out = task.rows, task.cols, self._matrices[node.output]
        for name in node.inputs:
            operand = self._matrices[name]
            number, there = rows_beside(operand, out, task.number, rows)
            self._read(operand, number, there, Span(0, operand.cols), task.reads)
        self._write(out, task.number, rows, cols, task.writes)

    def pool(self, task: Task, node: PoolNode) -> None:
        """Check a task of this kind: the images of a tile make the results of a tile."""
        (rows,), (cols,), pixels = task.rows, task.cols, node.pooled.pixels
        first, count = (size // pixels.made_columns for size in (cols.first, cols.count))
        read = Span(first * pixels.image_columns, count * pixels.image_columns)
        self._read(self._matrices[node.inputs[0]], task.number, rows, read, task.reads)
        self._write(self._matrices[node.output], task.number, rows, cols, task.writes)

    def repeat(self, task: Task, node: RepeatNode) -> None:
        """Check a task of this kind."""
        (row,), (cols,), out = task.rows, task.cols, self._matrices[node.output]
        self._read(self._matrices[node.inputs[0]], task.number, row, cols, task.reads)
        self._write(out, task.number, Span(0, out.rows), cols, task.writes)

    def unpack(self, task: Task, node: UnpackNode) -> None:
        """Check a task of this kind; what is written over later is not noted as written."""
        self._read_all(task)
        if not node.background:
            self._write_all(task)

    def pack(self, task: Task, node: PackNode) -> None:
        """Check a task of this kind; bytes that are there at the start are written over."""
        if node.inputs[0] not in self._background:
            self._read_all(task)
        if node.output in self._written:
            self._write_all(task)

    def store(self, task: Task, node: StoreNode) -> None:
        """Check a task of this kind."""
        self._read_all(task)
        if (task.node, task.reads[0]) in self._stored:
            raise self._broken(f"{task.reads[0]} is stored twice")
        self._stored.add((task.node, task.reads[0]))
        self._to_come[self._places.written(task)][task.node] -= 1

    def move(self, task: Task, node: MoveNode) -> None:
        """Check the elements that the tile it writes has of the tile it reads."""
        (read,), (written,) = task.reads, task.writes
        rows, cols = self._extents(written)
        logical = node.change.target.logical(written.number, rows, cols)
        number, down, across = node.change.source.locate(logical)
        there, other = self._extents(read)
        here = (number == read.number) & (logical >= 0)
        here &= (down >= there.first) & (down < there.stop)
        here &= (across >= other.first) & (across < other.stop)
        if read.matrix in self._written:
            made = self._written[read.matrix][number[here], down[here], across[here]]
            self._require_made(read.matrix, bool(made.all()))
        target = self._written[written.matrix][written.number]
        window = target[rows.first : rows.stop, cols.first : cols.stop]
        self._require_fresh(written.matrix, bool(window[here].any()))
        padding = logical < 0
        window[here | padding] = True  # nothing is written to padding

    def gather(self, task: Task, node: GatherNode) -> None:
        """Check the elements that the tile it writes has of a part, and of the tile it reads."""
        part, (tile,) = node.parts[task.number], task.writes
        (rows,), (cols,) = task.rows, task.cols
        down, across = part.rows[rows.first : rows.stop], part.cols[cols.first : cols.stop]
        number = int(part.numbers[tile.number])
        if task.reads:
            (read,) = task.reads
            there, other = self._extents(read)
            down = np.where((down < there.first) | (down >= there.stop), -1, down)
            across = np.where((across < other.first) | (across >= other.stop), -1, across)
            number = number if read.number == number else -1
        here = np.ix_(np.flatnonzero(down >= 0), np.flatnonzero(across >= 0))
        if number < 0 or 0 in (here[0].size, here[1].size):
            raise self._broken(f"{tile} has nothing of part {task.number}")
        if task.reads and read.matrix in self._written:
            made = self._written[read.matrix][number][np.ix_(down[down >= 0], across[across >= 0])]
            self._require_made(read.matrix, bool(made.all()))
        target = self._written[tile.matrix][tile.number]
        window = target[rows.first : rows.stop, cols.first : cols.stop]
        self._require_fresh(tile.matrix, bool(window[here].any()))
        window[here] = True

    # Elements

    def _read_all(self, task: Task) -> tuple[Span, Span]:
        """Check that the tile a task reads is there; return its rows and columns."""
        (tile,) = task.reads
        rows, cols = self._extents(tile)
        self._read(self._matrices[tile.matrix], tile.number, rows, cols, task.reads)
        return rows, cols

    def _write_all(self, task: Task) -> None:
        """Check that nothing of the tile that a task writes has been written."""
        (tile,) = task.writes
        rows, cols = self._extents(tile)
        self._write(self._matrices[tile.matrix], tile.number, rows, cols, task.writes)

    def _read(
        self, matrix: Matrix, number: int, rows: Span, cols: Span, tiles: tuple[MatrixTile, ...]
    ) -> None:
        name, number, rows, some = self._held(matrix, number, rows, cols, tiles)
        if name in self._written:
            made = self._written[name][number, rows.first : rows.stop]
            self._require_made(name, bool(made[:, some].all()))

    def _write(
        self, matrix: Matrix, number: int, rows: Span, cols: Span, tiles: tuple[MatrixTile, ...]
    ) -> None:
        name, number, rows, some = self._held(matrix, number, rows, cols, tiles)
        lines = self._written[name][number, rows.first : rows.stop]
        self._require_fresh(name, bool(lines[:, some].any()))
        every = self._parts.get(name)
        if every is None:
            lines[:, some] = True
            return
        parts = every[number, rows.first : rows.stop]
        which = matrix.window.part if isinstance(matrix.window, PartWindow) else slice(None)
        self._require_fresh(name, bool(parts[:, some, which].any()))
        parts[:, some, which] = True
        lines[:, some] = parts[:, some].all(axis=-1)

    def _held(
        self, matrix: Matrix, number: int, rows: Span, cols: Span, tiles: tuple[MatrixTile, ...]
    ) -> tuple[str, int, Span, slice | Integers]:
        """Return the matrix that holds the elements, which of its matrices, rows and columns."""
        if matrix.window is None:
            self._require_tile(matrix, number, rows, cols, tiles)
            return matrix.name, number, rows, slice(cols.first, cols.stop)
        held, there = self._matrices[matrix.holder], matrix.window.number(number)
        down = Span(matrix.window.row(rows.first), rows.count)
        columns = matrix.window.columns(number, rows.first, cols)
        first = int(columns.min())
        wide = Span(first, int(columns.max()) + 1 - first)
        self._require_tile(held, there, down, wide, tiles)
        return held.name, there, down, columns

    def _require_tile(
        self, matrix: Matrix, number: int, rows: Span, cols: Span, tiles: tuple[MatrixTile, ...]
    ) -> None:
        """Check that rows and columns lie in one of the tiles that the task names."""
        p, q = self._blocks[matrix.name].block
        tile = MatrixTile(matrix.name, number, rows.first // p, cols.first // q)
        if tile not in tiles:
            raise self._broken(f"{tile} is used, which the task does not name")
        if rows.stop > (tile.row + 1) * p or cols.stop > (tile.col + 1) * q:
            raise self._broken(f"rows {rows} and columns {cols} go beyond {tile}")

    def _require_made(self, name: str, made: bool) -> None:
        if not made:
            raise self._broken(f"elements of {name} are read before they are written")

    def _require_fresh(self, name: str, written: bool) -> None:
        if written:
            raise self._broken(f"elements of {name} are written twice")

    # Tiles

    def _tiles(self, task: Task, node: Node) -> list[tuple[MatrixTile, tuple[str, ...]]]:
        """Return the tiles of a task, and for each the matrices that it may belong to."""
        reads = [(tile, node.inputs) for tile in task.reads]
        return reads + [(tile, node.made) for tile in task.writes]

    def _exists(self, tile: MatrixTile) -> bool:
        blocks, matrix = self._blocks[tile.matrix], self._matrices[tile.matrix]
        rows, cols = blocks.grid
        inside = 0 <= tile.row < rows and 0 <= tile.col < cols
        return inside and 0 <= tile.number < matrix.matrices

    def _extents(self, tile: MatrixTile) -> tuple[Span, Span]:
        """Return the rows and columns of its matrix that a tile has."""
        matrix, (p, q) = self._matrices[tile.matrix], self._blocks[tile.matrix].block
        row, col = tile.row * p, tile.col * q
        return Span(row, min(p, matrix.rows - row)), Span(col, min(q, matrix.cols - col))

    def _broken(self, message: str) -> BrokenPassError:
        return BrokenPassError("tile", f"{self._where}: {message}")


def _strand(matrix: Matrix) -> StridedWindow | None:
    """Return where a strand, or a part of its elements, lies in its holder; None: it is none."""
    window = matrix.window.within if isinstance(matrix.window, PartWindow) else matrix.window
    return window if isinstance(window, StridedWindow) and window.within is None else None


def _needed_rows(node: MultiplyNode, stationary: Matrix, task: Task) -> Sequence[int]:
    """Return the rows of a stationary operand that sums of a task's columns must take, in order.

    Of a diagonal these are the rows of the columns' own channels, once for each tap.
    """
    if node.diagonal is None:
        return range(stationary.rows)
    (cols,), each = task.cols, stationary.rows // node.diagonal.taps
    return [
        tap * each + col
        for tap in range(node.diagonal.taps)
        for col in range(cols.first, cols.stop)
    ]


_CHECKS: Mapping[type[Node], Callable[..., None]] = for_every_kind(
    {
        MultiplyNode: _Verifier.multiply,
        DiagonalNode: _Verifier.diagonal,
        TurnNode: _Verifier.turn,
        BounceNode: _Verifier.bounce,
        MoveNode: _Verifier.move,
        GatherNode: _Verifier.gather,
        ConvertNode: _Verifier.convert,
        ReduceNode: _Verifier.reduce,
        RowsNode: _Verifier.rows,
        PoolNode: _Verifier.pool,
        RepeatNode: _Verifier.repeat,
        UnpackNode: _Verifier.unpack,
        PackNode: _Verifier.pack,
        StoreNode: _Verifier.store,
    }
)
