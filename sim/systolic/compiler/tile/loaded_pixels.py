"""Convolutions of few filters are cut: their pixels are loaded, and the filters stream.

All columns of the array work so, and identity products turn the sums. Where weights load fast that
takes less time. Not here: whether it does (`cost.loaded_pixels`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice

from systolic.compiler.cost.loaded_pixels import PixelsToLoad, loaded_pixels, usual_cycles
from systolic.compiler.ir.nodes import Layers, Matrix, Node, operand_number
from systolic.compiler.ir.pixels import PixelWindow
from systolic.compiler.ir.ranges import spans
from systolic.compiler.ir.tasks import Loops, MatrixTile, Task
from systolic.compiler.tile.order import TaskOrder
from systolic.compiler.tile.tiles import Tiles
from systolic.hw.spec import Chip
from systolic.isa import Select
from systolic.spans import Span
from systolic.workload.options import Options


class PixelLoader:
    """Cuts products whose pixels are loaded.

    room_bytes: the bytes of each partition of the state buffer to plan with.
    """

    def __init__(
        self, layers: Layers, chip: Chip, options: Options, tiles: Tiles, room_bytes: int
    ) -> None:
        """Note what lies on the chip besides."""
        self._layers, self._chip, self._options = layers, chip, options
        self._tiles, self._room_bytes = tiles, room_bytes
        self._holds_much = _holds_much(layers, chip, room_bytes)

    def loops(self, node: Node) -> Loops | None:
        """Return the loops of a product whose pixels are loaded; None if that is no gain."""
        a, b, out = self._matrices(node)
        asked = self._options.of(node.layer)
        chosen = asked.group is not None or asked.outer is not None
        if not isinstance(b.window, PixelWindow) or node.diagonal is not None or chosen:
            return None
        if a.dtype != b.dtype or node.step.cls is Select or self._holds_much:
            return None
        counts = [block.count for block in self._blocks(b, out)]
        work = PixelsToLoad(a.cols, a.rows, counts, b.dtype, self._room_bytes)
        found = loaded_pixels(self._chip, work, usual_cycles(self._chip, work))
        if found is None:
            return None
        group, cycles = (1, found.abreast), found.cycles * out.matrices
        return Loops(group, max(counts), "moving", cycles, loaded=found.abreast, lag=found.lag)

    def cut(self, number: int, loops: Loops, order: TaskOrder) -> None:
        """Cut a product whose moving columns are loaded: block by block, each for all of K.

        The sums of a group of blocks are turned when so many further groups have been multiplied
        that they have been copied out meanwhile. A tile of the result is finished before the next.
        """
        _, b, out = self._matrices(self._layers.nodes[number])
        batches = list[list[Task]]()
        for matrix in range(out.matrices):
            by_tile: dict[MatrixTile, list[Span]] = {}
            for block in self._blocks(b, out):
                made = self._tiles.holding(out, matrix, 0, block.first)
                by_tile.setdefault(made, []).append(block)
            for some in by_tile.values():
                groups = list(_alike(some, loops.loaded))
                products = [
                    [
                        task
                        for beside, block in enumerate(group)
                        for task in self._sums(number, matrix, block, beside)
                    ]
                    for group in groups
                ]
                for place, group in enumerate(groups):
                    ahead = products[place : place + loops.lag + 1]
                    if place:
                        ahead = products[place + loops.lag : place + loops.lag + 1]
                    turn = self._turn_of_sums(number, matrix, group)
                    batches.append([*(task for tasks in ahead for task in tasks), turn])
        order.defer(batches, ahead=True, images=out.name)

    def _matrices(self, node: Node) -> tuple[Matrix, Matrix, Matrix]:
        named = self._tiles.matrices
        return named[node.inputs[0]], named[node.inputs[1]], named[node.output]

    def _blocks(self, moving: Matrix, out: Matrix) -> list[Span]:
        """Return the blocks of pixels that are loaded one after another."""
        assert isinstance(moving.window, PixelWindow)
        assert out.block is not None
        most = min(self._chip.pe_array.cols, self._tiles.block[0])
        return moving.window.pixels.chunks(moving.cols, out.block[1], most)

    def _sums(self, number: int, matrix: int, block: Span, beside: int) -> Iterator[Task]:
        """Yield the tasks of a block of columns, one for each K-tile. beside: its place."""
        a, b, out = self._matrices(self._layers.nodes[number])
        p = self._tiles.block[0]
        tiles = list(spans(0, a.rows, p, min(p, self._chip.pe_array.rows)))
        for place, rows in enumerate(tiles):
            reads = (
                self._tiles.holding(a, operand_number(a, out, matrix), rows.first, 0),
                self._tiles.holding(b, operand_number(b, out, matrix), rows.first, block.first),
            )
            yield Task(
                "multiply",
                number,
                reads,
                (),
                matrix,
                (rows,),
                (Span(0, a.cols),),
                (block,),
                place == 0,
                place == len(tiles) - 1,
                beside=beside,
            )

    def _turn_of_sums(self, number: int, matrix: int, group: Sequence[Span]) -> Task:
        """Return the task that turns the sums of a group of blocks, and takes them out."""
        node = self._layers.nodes[number]
        out = self._tiles.matrices[node.output]
        cols = Span(0, out.rows)
        others = (tile for block in group for tile in self._tiles.others(node, matrix, cols, block))
        made = (self._tiles.holding(out, matrix, 0, block.first) for block in group)
        return Task(
            "multiply",
            number,
            tuple(dict.fromkeys(others)),
            tuple(dict.fromkeys(made)),
            matrix,
            (),
            (cols,),
            tuple(group),
            first=False,
            beside=len(group),
        )


def _holds_much(layers: Layers, chip: Chip, room_bytes: int) -> bool:
    """Return whether what lies on the chip from the start, or until the end, takes half of it.

    Sums that wait to be turned may then have no room.
    """
    kept = [m for m in layers.matrices if m.keep or m.source == "state_buffer"]
    each = chip.state_buffer.partitions
    return 2 * sum(-(-m.size_bytes // each) for m in kept if not m.window) > room_bytes


def _alike(blocks: Iterable[Span], most: int) -> Iterator[list[Span]]:
    """Yield groups of at most `most` blocks, one after another, of as many columns each."""
    for _, some in groupby(blocks, key=lambda block: block.count):
        while group := list(islice(some, most)):
            yield group
