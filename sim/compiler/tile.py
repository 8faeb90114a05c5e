"""The second pass: nodes are cut into tasks on tiles, in the order in which they will be queued.

A tile T(p,q) is what is moved, kept or thrown away as one: p partitions, q columns, the same for
all matrices of a compilation. A task is what the array or an engine does between two looks at
where tiles are. Dependencies between tasks follow from the tiles they read and write. Not here:
addresses (`place`) and instructions (`schedule`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from sim.compiler.cost import Loops, Work, choose_loops
from sim.compiler.matrix import Layers, Matrix, Node
from sim.compiler.options import Options
from sim.errors import CompileError
from sim.hw.datatypes import data_type
from sim.hw.spec import Chip
from sim.layout import Decomposition, Shape, decompose

LARGEST_COLUMNS = 1024
FEWEST_TILES = 4
"""Of the largest matrix: with fewer, loading, work and storing hardly overlap."""

Span = tuple[int, int]
"""First index and how many."""


class Tile(NamedTuple):
    """A tile of a matrix: number of the matrix in its batch, block row, block column."""

    matrix: str
    number: int
    row: int
    col: int

    def __str__(self) -> str:
        return f"{self.matrix}[{self.number};{self.row},{self.col}]"


@dataclass(frozen=True, slots=True)
class Task:
    """A piece of a node.

    multiply: `rows` of the contraction for the stationary columns `cols` and the moving columns
    `moving`, all sums side by side; `first` and `last` of a sum. turn: `rows` x `cols` sub-blocks
    of the tile it reads. move: what one tile has of another. bounce, convert and store: one whole
    tile.
    """

    kind: Literal["multiply", "turn", "bounce", "move", "convert", "store"]
    node: int
    reads: tuple[Tile, ...]
    writes: tuple[Tile, ...]
    number: int = 0
    rows: tuple[Span, ...] = ()
    cols: tuple[Span, ...] = ()
    moving: tuple[Span, ...] = ()
    first: bool = True
    last: bool = True


@dataclass(frozen=True, slots=True)
class Tiled:
    """The result of the second pass: the tile T(p,q), loops by node, tasks in order."""

    block: tuple[int, int]
    loops: tuple[tuple[int, Loops], ...]
    tasks: tuple[Task, ...]


def tiling(matrix: Matrix, block: tuple[int, int]) -> Decomposition:
    """Return the matrix cut into tiles, as the layouts say it: its own, or T(p,q) of `block`."""
    return decompose(Shape(matrix.dtype, matrix.dims), matrix.block or block)


def turn_rows(matrix: Matrix, block: tuple[int, int], chip: Chip) -> list[int]:
    """Return the boundaries of the rows of a matrix that an identity product takes together."""
    p, _ = matrix.block or block
    return [0, *(r + n for r, n in _spans(0, matrix.rows, p, min(chip.pe_array.rows, p)))]


def k_tiles(chip: Chip, K: int) -> list[int]:
    """Return the boundaries of the K-tiles of a contraction: at most R rows, none across blocks."""
    bounds = [0]
    for _, rows in _spans(0, K, block_rows(chip), min(chip.pe_array.rows, block_rows(chip))):
        bounds.append(bounds[-1] + rows)
    return bounds


def block_rows(chip: Chip) -> int:
    """Return p: as many partitions as whole K-tiles fill."""
    rows = min(chip.pe_array.rows, chip.state_buffer.partitions)
    return chip.state_buffer.partitions // rows * rows


def cut_tiles(layers: Layers, chip: Chip, options: Options) -> Tiled:
    """Return the tasks of all nodes."""
    columns = _columns(layers, chip, options)
    cutter = _Cutter(layers, chip, options, (block_rows(chip), columns))
    for number, node in enumerate(layers.nodes):
        getattr(cutter, f"cut_{node.kind}")(number, node)
    return cutter.result()


def _columns(layers: Layers, chip: Chip, options: Options) -> int:
    """Return q: as wide as long runs in DRAM ask for, but so that a task's tiles fit twice."""
    p = block_rows(chip)
    most = max((m.cols for m in layers.matrices), default=p)
    q = options.tile_columns or min(LARGEST_COLUMNS // p * p or p, -(-most // p) * p)
    if q % p:
        raise CompileError(f"compile.tile_columns: must be a multiple of {p}, found {q}")
    widest = max((data_type(m.dtype).size_bytes for m in layers.matrices), default=4)
    have = chip.state_buffer.bytes_per_partition
    bank = whole_banks(chip)
    while (
        not options.tile_columns
        and q > p
        and (
            8 * q * widest > have
            or 0 < bank < q * widest
            or _most_tiles(layers, (p, q)) < _fewest_tiles(layers, chip)
        )
    ):
        q = max(p, q // 2 // p * p)
    return q


def _fewest_tiles(layers: Layers, chip: Chip) -> int:
    """Return how many tiles the largest matrix must have at least.

    Where DRAM has rows to open, and nothing is multiplied, overlap is worth more than long runs.
    """
    multiplies = any(node.kind == "multiply" for node in layers.nodes)
    return FEWEST_TILES if chip.dram.organisation is None or multiplies else 2 * FEWEST_TILES


def _most_tiles(layers: Layers, block: tuple[int, int]) -> int:
    return max((tiling(m, block).count for m in layers.matrices), default=0)


def whole_banks(chip: Chip) -> int:
    """Return the bytes of a bank if no tile may lie across two, else 0."""
    # On the top path a row of weights is read in one cycle, through one port.
    return chip.state_buffer.bank_bytes if chip.pe_array.weight_path == "top" else 0


def _spans(first: int, stop: int, block: int, piece: int) -> Iterator[Span]:
    """Yield pieces of at most `piece`, none across a multiple of `block`."""
    while first < stop:
        size = min(piece, stop - first, block - first % block)
        yield first, size
        first += size


class _Cutter:
    """Collects tasks node by node; a store follows the last task that writes its tile."""

    def __init__(
        self, layers: Layers, chip: Chip, options: Options, block: tuple[int, int]
    ) -> None:
        self._layers, self._chip, self._options, self._block = layers, chip, options, block
        self._matrices = {m.name: m for m in layers.matrices}
        self._tasks: list[tuple[tuple[int, int], Task]] = []
        self._written: dict[Tile, int] = {}
        self._loops: list[tuple[int, Loops]] = []

    def result(self) -> Tiled:
        """Return the tasks in order."""
        ordered = sorted(self._tasks, key=lambda item: item[0])
        return Tiled(self._block, tuple(self._loops), tuple(task for _, task in ordered))

    def _add(self, task: Task) -> None:
        place = len(self._tasks)
        for tile in task.writes:
            self._written[tile] = place
        self._tasks.append(((place, 0), task))

    def _tile(self, matrix: Matrix, number: int, row: int, col: int) -> Tile:
        p, q = matrix.block or self._block
        return Tile(matrix.name, number, row // p, col // q)

    # One method per kind of node

    def cut_multiply(self, number: int, node: Node) -> None:
        """Cut a product: group by group, inside it K-tile by K-tile."""
        a, b = (self._matrices[name] for name in node.inputs)
        out = self._matrices[node.output]
        loops = self._choose(a, b, out)
        self._loops.append((number, loops))
        p, q = self._block
        cols = list(_spans(0, a.cols, p, min(p, self._chip.pe_array.cols)))
        moving = list(_spans(0, b.cols, q, loops.chunk))
        groups = list(_groups(cols, moving, loops))
        for matrix in range(a.matrices):
            for some, others in groups:
                for task in self._sweep(number, (a, b, out), matrix, some, others):
                    self._add(task)

    def _choose(self, a: Matrix, b: Matrix, out: Matrix) -> Loops:
        streamed = "dram" in (a.source, b.source)
        size = data_type(out.dtype).size_bytes
        work = Work(a.cols, b.cols, a.rows, b.dtype, size, self._block, streamed)
        return choose_loops(self._chip, self._options, work)

    def _sweep(
        self, node: int, matrices: tuple[Matrix, Matrix, Matrix], number: int,
        cols: Sequence[Span], moving: Sequence[Span],
    ) -> Iterator[Task]:  # fmt: skip
        a, b, out = matrices
        rows = self._block[0]
        tiles = list(_spans(0, a.rows, rows, min(rows, self._chip.pe_array.rows)))
        outs = dict.fromkeys(self._tile(out, number, c, m) for c, _ in cols for m, _ in moving)
        for place, (k, height) in enumerate(tiles):
            reads = [self._tile(a, number, k, c) for c, _ in cols]
            reads += [self._tile(b, number, k, m) for m, _ in moving]
            last = place == len(tiles) - 1
            yield Task(
                "multiply", node, tuple(dict.fromkeys(reads)), tuple(outs) if last else (),
                number, ((k, height),), tuple(cols), tuple(moving), place == 0, last,
            )  # fmt: skip

    def cut_turn(self, number: int, node: Node) -> None:
        """Cut a transpose: tile by tile, each into sub-blocks of the array."""
        source, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        p, array = (source.block or self._block)[0], self._chip.pe_array
        q, height = source.block[1] if source.block else p, min(array.rows, p)
        tiles = list(self._tiles(source))
        streamed = source.source == "dram" and not source.block
        if streamed and not any(n.kind == "multiply" for n in self._layers.nodes):
            # Down the columns: the tiles of the result are complete, and gone, the sooner.
            tiles.sort(key=lambda item: (item[1].number, item[1].col, item[1].row))
        for block, tile in tiles:
            row, col = block
            rows = tuple(_spans(row[0], row[0] + row[1], p, height))
            cols = tuple(_spans(col[0], col[0] + col[1], q, min(array.cols, q)))
            writes = (self._tile(out, tile.number, c, r) for c, _ in cols for r, _ in rows)
            self._add(
                Task("turn", number, (tile,), tuple(dict.fromkeys(writes)), tile.number, rows, cols)
            )

    def cut_bounce(self, number: int, node: Node) -> None:
        """Cut a transpose through DRAM: tile by tile, each becomes one tile of the result."""
        source, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        for _, tile in self._tiles(source):
            write = Tile(out.name, tile.number, tile.col, tile.row)
            self._add(Task("bounce", number, (tile,), (write,), tile.number))

    def cut_move(self, number: int, node: Node) -> None:
        """Cut a change of view: from one tile to one tile at a time."""
        source, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        p, q = source.block or self._block
        assert node.change is not None
        pairs: list[tuple[Tile, Tile]] = []
        for (rows, cols), tile in self._tiles(out):
            logical = node.change.target.logical(tile.number, rows, cols)
            matrix, row, col = node.change.source.locate(logical)
            places = np.stack((matrix, row // p, col // q), axis=-1).reshape(-1, 3)
            reads = [Tile(source.name, *place) for place in np.unique(places, axis=0).tolist()]
            pairs += [(read, tile) for read in reads]
        size = data_type(out.dtype).size_bytes
        tiles = {tile for pair in pairs for tile in pair}
        roomy = 4 * len(tiles) * q * size <= self._chip.state_buffer.bytes_per_partition
        for read, tile in _crosswise(pairs) if roomy else pairs:
            self._add(Task("move", number, (read,), (tile,), tile.number))

    def cut_convert(self, number: int, node: Node) -> None:
        """Cut a conversion: tile by tile."""
        source, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        for _, tile in self._tiles(source):
            write = tile._replace(matrix=out.name)
            self._add(Task("convert", number, (tile,), (write,), tile.number))

    def cut_store(self, number: int, node: Node) -> None:
        """Cut a transfer to DRAM: each tile as soon as it is complete."""
        for _, tile in self._tiles(self._matrices[node.inputs[0]]):
            place = self._written.get(tile, len(self._tasks))
            self._tasks.append(((place, 1), Task("store", number, (tile,), (), tile.number)))

    def _tiles(self, matrix: Matrix) -> Iterator[tuple[tuple[Span, Span], Tile]]:
        blocks = tiling(matrix, self._block)
        for block in blocks:
            (row, col), (rows, cols) = block.origin, block.extents
            number = block.number // blocks.count_per_matrix
            yield ((row, rows), (col, cols)), Tile(matrix.name, number, block.row, block.column)


def _crosswise(pairs: Sequence[tuple[Tile, Tile]]) -> list[tuple[Tile, Tile]]:
    """Return pairs of tiles so that neighbours differ in both: then their lanes overlap."""
    sources = {tile: n for n, tile in enumerate(sorted({read for read, _ in pairs}))}
    targets = {tile: n for n, tile in enumerate(sorted({tile for _, tile in pairs}))}

    def diagonal(pair: tuple[Tile, Tile]) -> tuple[int, int]:
        source, target = sources[pair[0]], targets[pair[1]]
        return (target - source) % len(targets), source

    return sorted(pairs, key=diagonal)


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
