"""Gathers are cut, such as the taps of images: part by part, and if it is of use band by band.

Taps are copied in bands of pixels, each band for all taps, so that sums begin with the first band.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from systolic.arrays import Integers
from systolic.compiler.cost.moves import bands_of_copy
from systolic.compiler.ir.gathers import GatherPart
from systolic.compiler.ir.nodes import DiagonalNode, GatherNode, Layers, Matrix, MultiplyNode
from systolic.compiler.ir.pixels import PixelWindow
from systolic.compiler.ir.ranges import spans
from systolic.compiler.ir.tasks import MatrixTile, Task
from systolic.compiler.tile.order import TaskOrder
from systolic.compiler.tile.tiles import Tiles
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.spans import Span


class GatherCutter:
    """Cuts gathers one after another."""

    def __init__(self, layers: Layers, chip: Chip, tiles: Tiles, order: TaskOrder) -> None:
        """Note which matrices products take, whose first bands are wanted early."""
        self._layers, self._chip, self._tiles, self._order = layers, chip, tiles, order
        self._matrices, self._block = tiles.matrices, tiles.block
        self._held_by_products = {
            self._matrices[name].holder
            for node in layers.nodes
            if isinstance(node, MultiplyNode | DiagonalNode)
            for name in node.inputs[:2]
        }

    def cut(self, number: int, node: GatherNode) -> None:
        """Cut a gather: from one tile to one tile at a time; a part of one value has no source.

        Of images cut into bands, the first band of all tiles that lie below one another comes
        before the second: a product takes them together.
        """
        out = self._matrices[node.output]
        together = dict[tuple[int, int], list[tuple[Span, Span, MatrixTile]]]()
        for (rows, cols), tile in self._tiles.of(out):
            key = (tile.number, tile.col) if out.block else (len(together), 0)
            together.setdefault(key, []).append((rows, cols, tile))
        for tiles in together.values():
            bands = self._bands(node.parts, out, tiles)
            if len(bands) == 1:
                for rows, cols, tile in tiles:
                    made = list(self._gather_tasks(number, node, tile, rows, cols))
                    self._order.defer([made], images=out.name)
                continue
            tasks = (
                task
                for band in bands
                for rows, _, tile in tiles
                for task in self._gather_tasks(number, node, tile, rows, band)
            )
            self._order.defer([list(tasks)], images=out.name)

    def _gather_tasks(
        self, number: int, node: GatherNode, tile: MatrixTile, rows: Span, cols: Span
    ) -> Iterator[Task]:
        """Yield the tasks that make rows and columns of one tile, part by part."""
        for place, part in enumerate(node.parts):
            there, down, across = (
                part.numbers[tile.number],
                part.rows[rows.first : rows.stop],
                part.cols[cols.first : cols.stop],
            )
            if there < 0 or (down < 0).all() or (across < 0).all():
                continue
            for reads in self._gathered(node, part.source, int(there), down, across):
                yield Task(GatherNode, number, reads, (tile,), place, (rows,), (cols,))

    def _bands(
        self,
        parts: Sequence[GatherPart],
        out: Matrix,
        tiles: Sequence[tuple[Span, Span, MatrixTile]],
    ) -> list[Span]:
        """Cut the columns of tiles into bands, if what reads them waits piece by piece.

        Each band is copied for all parts before the next, so what reads the first pixels of an
        image need not wait for the last. The first band of images that are all in one tile has
        at most half as many columns as others: nothing is multiplied while it is copied.
        """
        (rows, cols, _), many = tiles[0], 1
        taken = out.name in self._held_by_products
        if out.block and taken and cols.count > self._chip.multiply_vectors:
            some = [part.rows[rows.first : rows.stop] for part in parts if part.source == 0]
            tall = max((int((index >= 0).sum()) for index in some), default=0)
            size_bytes = data_type(out.dtype).size_bytes
            many = bands_of_copy(self._chip, tall, cols.count, size_bytes) if tall else 1
        each = -(-cols.count // min(many, max(1, cols.count // self._chip.multiply_vectors)))
        bands = list(spans(0, cols.count, cols.count, each))
        if cols.count == out.cols and len(bands) > 1 and each >= self._chip.multiply_vectors:
            first = self._for_whole_multiplies(out, each // 2)
            bands[:1] = [Span(0, first), Span(first, each - first)]
        return [Span(cols.first + band.first, band.count) for band in bands]

    def _for_whole_multiplies(self, out: Matrix, most: int) -> int:
        """Return the columns of a product's first multiplies, but at most `most`.

        What a band has beyond that is of no use before the next band.
        """
        for node in self._layers.nodes:
            moving = self._matrices[node.inputs[1]] if isinstance(node, MultiplyNode) else out
            if isinstance(moving.window, PixelWindow) and moving.holder == out.name:
                pixels, reach = moving.window.pixels, max(moving.window.taps, default=0)
                tile = pixels.in_a_tile * pixels.made_columns
                chunks = pixels.chunks(min(most, tile), tile, self._chip.multiply_vectors)
                ends = [pixels.column(span.stop - 1) + 1 + reach for span in chunks]
                return max((end for end in ends if end <= most), default=most)
        return most

    def _gathered(
        self, node: GatherNode, source: int | None, number: int, down: Integers, across: Integers
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


def _different(numbers: Integers) -> list[int]:
    """Return the different ones of small numbers from 0 on, in order: faster than `np.unique`."""
    found: list[int] = np.flatnonzero(np.bincount(numbers)).tolist()
    return found
