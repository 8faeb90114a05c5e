"""The second pass: nodes are cut into tasks on tiles, in the order in which they will be queued.

A turned operand is turned tile by tile, just before the first sums that need it; a store follows
the last task that writes its tile (`order`). Products and gathers have files of their own. Not
here: addresses (`place`) and instructions (`schedule`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise

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
    rows_beside,
)
from systolic.compiler.ir.on_chip.chip_tiles import block_rows
from systolic.compiler.ir.pixels import PixelWindow
from systolic.compiler.ir.ranges import spans
from systolic.compiler.ir.tasks import MatrixTile, Task, Tiled, tiling
from systolic.compiler.ir.windows import PartWindow
from systolic.compiler.tile.gathers import GatherCutter
from systolic.compiler.tile.moves import crosswise, tile_pairs
from systolic.compiler.tile.order import TaskOrder
from systolic.compiler.tile.products import ProductCutter
from systolic.compiler.tile.tiles import Tiles
from systolic.compiler.tile.width import tile_columns
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.spans import Interval, Span
from systolic.workload.options import Options


def cut_tiles(
    layers: Layers,
    chip: Chip,
    options: Options,
    room_bytes: int | None = None,
) -> Tiled:
    """Return the tasks of all nodes.

    room_bytes: the bytes of each partition of the state buffer to plan with (None: all of them).

    Raises CompileError if `options` ask for an impossible group or impossible tiles.
    """
    room_bytes = room_bytes or chip.state_buffer.bytes_per_partition
    columns = tile_columns(layers, chip, options, room_bytes)
    block = block_rows(chip), columns
    tiles, order = Tiles(layers, block), TaskOrder(layers, block)
    products = ProductCutter(layers, chip, options, room_bytes, (tiles, order))
    cutter = _Cutter(layers, chip, room_bytes, products, (tiles, order))
    for first, stop in _turns_together(layers):
        before = order.count
        for number in range(first, stop):
            node = layers.nodes[number]
            _CUTS[type(node)](cutter, number, node)
        if stop - first > 1:
            order.finish_tile_by_tile(before)
    return Tiled(block, tuple(products.loops), order.tasks())


def _turns_together(layers: Layers) -> Iterator[Interval]:
    """Yield intervals of nodes: those that turn the parts of one matrix together, others alone."""
    matrices = {matrix.name: matrix for matrix in layers.matrices}

    def turned(number: int) -> str:
        """Return the matrix that a node turns a part of, or casts to be turned; "" if none."""
        for node in layers.nodes[number : number + 2]:
            if isinstance(node, TurnNode):
                made = matrices[node.output]
                return made.holder if isinstance(made.window, PartWindow) else ""
            if not isinstance(node, ConvertNode):
                break
        return ""

    first = 0
    while first < len(layers.nodes):
        stop, holder = first + 1, turned(first)
        while holder and stop < len(layers.nodes) and turned(stop) == holder:
            stop += 1
        yield Interval(first, stop)
        first = stop


class _Cutter:
    """Cuts nodes of every kind."""

    def __init__(
        self,
        layers: Layers,
        chip: Chip,
        room_bytes: int,
        products: ProductCutter,
        growing: tuple[Tiles, TaskOrder],
    ) -> None:
        self._layers, self._chip, self._room_bytes = layers, chip, room_bytes
        self._tiles, self._order = growing
        self._matrices, self._block = self._tiles.matrices, self._tiles.block
        self._shapes = {place.name: place.shape for place in layers.dram}
        self.products = products
        self.gathers = GatherCutter(layers, chip, *growing)
        self._made = {node.output for node in layers.nodes if isinstance(node, MultiplyNode)}
        self._multiplied = {
            n
            for node in layers.nodes
            if isinstance(node, MultiplyNode | DiagonalNode)
            for n in node.inputs[:2]
        }
        self._turned_late = self._multiplied | self._with_images()

    def _with_images(self) -> set[str]:
        """Return the further operands, such as biases, that only convolutions take.

        Convolutions wait until their results are needed, so their biases should not come before.
        """
        taken: dict[str, bool] = {}
        for node in self._layers.nodes:
            waits = isinstance(node, MultiplyNode) and isinstance(
                self._matrices[node.inputs[1]].window, PixelWindow
            )
            for name in node.inputs:
                taken[name] = waits and taken.get(name, True)
        further = {name for node in self._layers.nodes for _, name in node.others}
        return {self._matrices[name].holder for name in further if taken[name]}

    def cut_diagonal(self, number: int, node: DiagonalNode) -> None:
        """Cut a diagonal: tile by tile, each when the first sums need it."""
        source, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        for tap, rows, cols in node.tiles.tiles():
            read = self._tiles.holding(source, 0, cols.first, tap)
            made = self._tiles.holding(out, 0, rows.first, cols.first)
            task = Task(DiagonalNode, number, (read,), (made,), 0, (rows,), (cols, Span(tap, 1)))
            self._order.defer([[task]])

    def cut_turn(self, number: int, node: TurnNode) -> None:
        """Cut a transpose tile by tile, each into sub-blocks of the array.

        The turns of an operand are added at its first use. A finished result is turned after the
        next sums, because it has surely been copied out by then.
        """
        for task in self._turn_tasks(number, node):
            if node.output in self._turned_late:
                self._order.turn_when_read(task)
            elif node.inputs[0] in self._made:
                self._order.turn_result(task)
            else:
                self._order.add(task)

    def _turn_tasks(self, number: int, node: TurnNode) -> Iterator[Task]:
        source, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        p, array = (source.block or self._block)[0], self._chip.pe_array
        q = (out.block or self._block)[0]
        tiles = list(self._tiles.of(source))
        if source.source.kind == "dram" and not source.block and not self._multiplied:
            # A tile of the result is as wide as `tall` source tiles are high. These are turned one
            # after another: the result's tile is then complete, and stored, as early as can be.
            tall = max(1, self._block[1] // self._block[0])
            tiles.sort(key=lambda item: (item[1].number, item[1].row // tall, item[1].col))
        for (row, col), tile in tiles:
            rows = tuple(spans(row.first, row.stop, p, min(array.rows, p)))
            cols = tuple(spans(col.first, col.stop, q, min(array.cols, q)))
            writes = dict.fromkeys(
                self._tiles.holding(out, tile.number, c.first, r.first) for c in cols for r in rows
            )
            read = self._tiles.holding(source, tile.number, row.first, col.first)
            yield Task(TurnNode, number, (read,), tuple(writes), tile.number, rows, cols)

    def cut_bounce(self, number: int, node: BounceNode) -> None:
        """Cut a transpose through DRAM: tile by tile, each becomes one tile of the result."""
        source, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        for _, tile in self._tiles.of(source):
            write = MatrixTile(out.name, tile.number, tile.col, tile.row)
            self._order.add(Task(BounceNode, number, (tile,), (write,), tile.number))

    def cut_move(self, number: int, node: MoveNode) -> None:
        """Cut a change of view: from one tile to one tile at a time."""
        source, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        p, q = source.block or self._block
        places = tile_pairs(node.change, (p, q), tiling(out, self._block))
        pairs = [
            (MatrixTile(source.name, *read), MatrixTile(out.name, *made)) for read, made in places
        ]
        tiles = {tile for pair in pairs for tile in pair}
        each = min(q, max(source.cols, out.cols)) * data_type(out.dtype).size_bytes
        roomy = 4 * len(tiles) * each <= self._room_bytes
        for read, tile in crosswise(pairs) if roomy else pairs:
            self._order.add(Task(MoveNode, number, (read,), (tile,), tile.number))

    def cut_convert(self, number: int, node: ConvertNode) -> None:
        """Cut a conversion: tile by tile, where all operands and the result have the same tiles."""
        source, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        p, q = source.block or self._block
        sides = {q, *(side for _, name in node.others if (side := self._tiles.sides(name)))}
        deferred = out.block is not None and self._order.are_images(node.inputs)
        for (tall, wide), tile in self._tiles.of(out):
            tasks = list[Task]()
            for rows in spans(tall.first, tall.stop, p, p):
                for cols in _cut_at(wide, sides):
                    write = self._tiles.holding(out, tile.number, rows.first, cols.first)
                    first = self._tiles.operand(source, out, tile.number, rows, cols)
                    others = self._tiles.others(node, tile.number, rows, cols)
                    reads = tuple(dict.fromkeys((first, *others)))
                    made = (write, *self._tiles.sums_made(node, tile.number, rows, cols))
                    tasks.append(
                        Task(ConvertNode, number, reads, made, tile.number, (rows,), (cols,))
                    )
            if deferred:
                self._order.defer([tasks], images=out.name)
            for task in () if deferred else tasks:
                self._order.add(task)

    def cut_reduce(self, number: int, node: ReduceNode) -> None:
        """Cut a reduction: each tile of the source makes some columns of the result."""
        source, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        for (rows, cols), tile in self._tiles.of(source):
            read = self._tiles.holding(source, tile.number, rows.first, cols.first)
            made = self._tiles.holding(out, tile.number, rows.first, cols.first // self._block[0])
            self._order.add(
                Task(ReduceNode, number, (read,), (made,), tile.number, (rows,), (cols,))
            )

    def cut_rows(self, number: int, node: RowsNode) -> None:
        """Cut work on whole rows: the rows of a tile of the result, with all of their columns."""
        out = self._matrices[node.output]
        operands = [self._matrices[name] for name in node.inputs]
        for (rows, cols), tile in self._tiles.of(out):
            reads = dict[MatrixTile, None]()
            for operand in operands:
                there, lines = rows_beside(operand, out, tile.number, rows)
                reads[self._tiles.holding(operand, there, lines.first, 0)] = None
            task = Task(RowsNode, number, tuple(reads), (tile,), tile.number, (rows,), (cols,))
            self._order.add(task)

    def cut_pool(self, number: int, node: PoolNode) -> None:
        """Cut pooling: each tile of images makes one tile of the result."""
        source, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        for (rows, cols), tile in self._tiles.of(out):
            read = MatrixTile(source.name, tile.number, tile.row, tile.col)
            task = Task(PoolNode, number, (read,), (tile,), tile.number, (rows,), (cols,))
            self._order.defer([[task]])

    def cut_repeat(self, number: int, node: RepeatNode) -> None:
        """Cut the repetition of a row tile by tile; there is one row of tiles."""
        source, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        _, q = source.block or self._block
        for (_, wide), tile in self._tiles.of(out):
            for cols in spans(wide.first, wide.stop, q, q):
                read = self._tiles.holding(source, tile.number, 0, cols.first)
                task = Task(
                    RepeatNode, number, (read,), (tile,), tile.number, (Span(0, 1),), (cols,)
                )
                self._order.add(task)

    def cut_bytes(self, number: int, node: Node) -> None:
        """Cut unpacking or packing: a tile of bytes and the tile of its elements."""
        source, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        for _, tile in self._tiles.of(source):
            made = MatrixTile(out.name, tile.number, tile.row, tile.col)
            self._order.add(Task(type(node), number, (tile,), (made,), tile.number))

    def cut_store(self, number: int, node: StoreNode) -> None:
        """Cut a transfer to DRAM: each tile as soon as it is complete."""
        for _, tile in self._tiles.of(self._matrices[node.inputs[0]]):
            self._order.add_store(Task(StoreNode, number, (tile,), (), tile.number))


_CUTS: Mapping[type[Node], Callable[..., None]] = for_every_kind(
    {
        MultiplyNode: lambda cutter, number, node: cutter.products.cut(number, node),
        DiagonalNode: _Cutter.cut_diagonal,
        TurnNode: _Cutter.cut_turn,
        BounceNode: _Cutter.cut_bounce,
        MoveNode: _Cutter.cut_move,
        GatherNode: lambda cutter, number, node: cutter.gathers.cut(number, node),
        ConvertNode: _Cutter.cut_convert,
        ReduceNode: _Cutter.cut_reduce,
        RowsNode: _Cutter.cut_rows,
        PoolNode: _Cutter.cut_pool,
        RepeatNode: _Cutter.cut_repeat,
        UnpackNode: _Cutter.cut_bytes,
        PackNode: _Cutter.cut_bytes,
        StoreNode: _Cutter.cut_store,
    }
)


def _cut_at(columns: Span, sides: Iterable[int]) -> Iterator[Span]:
    """Cut columns where tiles end, for each of some numbers of columns of a tile."""
    ends = {end for side in sides for end in range(side, columns.stop, side) if end > columns.first}
    edges = [columns.first, *sorted(ends), columns.stop]
    return (Span(first, stop - first) for first, stop in pairwise(edges))
