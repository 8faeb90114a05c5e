"""Tasks that engines do alone: conversions, reductions, pooling, and diagonals of matrices."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial

from systolic.compiler.ir.dependencies import Region
from systolic.compiler.ir.lane_step import ALONG_DIAGONAL, COPY, LaneStep
from systolic.compiler.ir.nodes import (
    ConvertNode,
    DiagonalNode,
    Layers,
    Matrix,
    Node,
    PoolNode,
    ReduceNode,
    RowsNode,
    operand_number,
    rows_beside,
)
from systolic.compiler.ir.ranges import spans
from systolic.compiler.ir.tasks import MatrixTile, Task
from systolic.compiler.ir.windows import AnyWindow
from systolic.compiler.place.tiles import OnChip
from systolic.compiler.schedule.engine_work import EngineWork
from systolic.isa import Access
from systolic.isa.access import MAX_PAIRS, Pattern
from systolic.isa.opcodes import BY_CLASS
from systolic.spans import Span

DRAINS_TICKS = 1 << 40
"""Ticks that the draining engine counts as busy, so that another one casts what is turned."""


class LaneMaker:
    """Makes the instructions of such tasks, whose tiles are all in place."""

    def __init__(
        self,
        layers: Layers,
        tiles: OnChip,
        engines: EngineWork,
        cast_to_turn: Collection[str],
    ) -> None:
        """Note what engines work on. cast_to_turn: matrices that are cast to be turned."""
        self._nodes, self._tiles, self._engines = layers.nodes, tiles, engines
        self._chip, self._matrices = tiles.chip, tiles.matrices
        self._cast_to_turn = cast_to_turn
        self._casting: dict[str, int] = {}

    def convert(self, task: Task, node: ConvertNode, came: int = 0) -> None:
        """Let an engine write one tile from another, element by element.

        A tile of many sums is written piece by piece, so that what reads it need not wait for all.

        came: in how many parts the tile that is read has come from DRAM, if not at once.
        """
        (rows,), (cols,) = task.rows, task.cols
        matrix, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        number = operand_number(matrix, out, task.number)
        casts = out.name in self._cast_to_turn
        busy = {**self._casting, self._engines.drain_engine: DRAINS_TICKS} if casts else None
        piece = cols.count if self._windows(node) else self._chip.multiply_vectors
        if node.reduced:
            piece = self._tiles.p
        parts = self.comes_in(task, task.reads[0], came) if came else []
        for part in parts or spans(cols.first, cols.stop, cols.stop, piece):
            source, read = self._tiles.spread(matrix, number, rows, part)
            made = out, task.number
            self._engines.lane_step(node, (read, source.region), made, (rows, part), busy=busy)
            if busy is not None and part.first == cols.first:
                self._keep_casting(busy)

    def _keep_casting(self, busy: dict[str, int]) -> None:
        """Let the engine that has begun to cast a tile cast all of it, and note the tile.

        Two engines at one tile would wait for one another at the ports of its bank. The next tile
        is for another engine if that is as fast. busy: the ticks of all engines after a piece.
        """
        for name in self._chip.lane_engines:
            before, after = self._casting.get(name, 0), busy.get(name, 0)
            if before < after < DRAINS_TICKS:
                self._casting[name] = before + 1
                busy.update(dict.fromkeys(self._chip.lane_engines, DRAINS_TICKS), **{name: after})
                return

    def comes_in(self, task: Task, tile: MatrixTile, many: int) -> list[Span]:
        """Return the columns that `convert` may take one after another, in `many` equal parts.

        None unless the tile is all that the task reads, as it lies, and each part is one access in
        all windows.
        """
        node = self._nodes[task.node]
        if not isinstance(node, ConvertNode) or node.reduced or task.reads != (tile,):
            return []
        (rows,), (cols,), matrix = task.rows, task.cols, self._matrices[node.inputs[0]]
        if cols.count % many or not _is_as_held(matrix, task.number, rows, cols):
            return []
        parts = list(spans(cols.first, cols.stop, cols.stop, cols.count // many))
        regular = all(
            len(window.segments(task.number, rows.first, part)) == 1
            for window in self._windows(node)
            for part in parts
        )
        return parts if regular else []

    def diagonal(self, task: Task, node: DiagonalNode) -> None:
        """Let an engine write a weight of each lane along the diagonal of a tile, zeros beside it.

        A tap's weight is read again for each column, and taken where the column is the lane's.
        """
        (rows,), (cols, tap) = task.rows, task.cols
        matrix, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        source, one = self._tiles.reach(matrix, 0, cols, tap)
        target, made = self._tiles.make_reach(out, 0, rows, cols)
        weight = replace(one, pattern=((0, cols.count),))
        regions = (source.region,), (target.region,)
        self._engines.do(ALONG_DIAGONAL, *regions, value=weight, target=made)

    def reduce(self, task: Task, node: ReduceNode) -> None:
        """Let an engine reduce a tile: whole segments of columns together, then what is left.

        They are as many as the sums of a bank have: so the first need not wait for all columns.
        """
        (cols,), p = task.cols, self._tiles.p
        whole = cols.count // p
        together = spans(0, whole, whole, max(1, self._chip.multiply_vectors // p))
        windows = [(some, p) for some in together] if whole else []
        if rest := cols.count % p:
            windows.append((Span(whole, 1), rest))
        for some, window in windows:
            read = Span(cols.first + some.first * p, some.count * window)
            made = Span(cols.first // p + some.first, some.count)
            self._reduce(task, node, read, made, window)

    def whole_rows(self, task: Task, node: RowsNode) -> None:
        """Let an engine make whole rows of whole rows, by one instruction."""
        (rows,), (cols,) = task.rows, task.cols
        out, step = self._matrices[node.output], node.step
        fields, regions = dict[str, Access](), list[Region]()
        for name, each in zip((step.first, *step.others), node.inputs, strict=True):
            operand = self._matrices[each]
            number, lines = rows_beside(operand, out, task.number, rows)
            place, fields[name] = self._tiles.reach(operand, number, lines, Span(0, operand.cols))
            regions.append(place.region)
        target, fields["made"] = self._tiles.make_reach(out, task.number, rows, cols)
        if node.backwards:
            fields = {name: _backwards(each) for name, each in fields.items()}
        made = fields.pop("made")
        if step.onto:
            before, read = fields.pop(step.first), regions.pop(0)
            self._engines.do(COPY, (read,), (target.region,), source=before, target=made)
            regions.append(target.region)
        fields["target"] = made
        _fit(step, fields)
        self._engines.do(step, regions, (target.region,), "", **fields)

    def pool(self, task: Task, node: PoolNode) -> None:
        """Let an engine reduce the windows of a tile's images: of all at once, if one access can.

        Otherwise of one image after another, and of a large image some rows after others: as many
        as have about the pixels of one bank of sums, so that the first windows need few sums.
        """
        pooled, (cols,) = node.pooled, task.cols
        made = pooled.pixels.made_columns
        images = cols.count // made
        at_once = pooled.rows_at_once(self._chip.multiply_vectors)
        if at_once < pooled.pixels.made[0]:
            for image in range(images):
                self._pool_by_rows(task, node, cols.first // made + image, at_once)
            return
        together = images if len(pooled.pairs(images)) <= MAX_PAIRS else 1
        for first in range(0, images, together):
            pattern = pooled.pairs(together)
            number = cols.first // made + first
            read = Span(number * pooled.pixels.image_columns, 1)
            self._pool(task, node, (read, pattern), Span(number * made, together * made))

    def _windows(self, node: Node) -> list[AnyWindow]:
        """Return the windows through which a node reads and writes several columns."""
        matrices = (self._matrices[name] for name in (*node.inputs, node.output))
        return [m.window for m in matrices if m.window is not None and m.cols > 1]

    def _reduce(self, task: Task, node: ReduceNode, read: Span, made: Span, window: int) -> None:
        """Reduce windows of columns that are read to columns that are made."""
        (rows,) = task.rows
        matrix, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        source, taken = self._tiles.reach(matrix, task.number, rows, read)
        target, given = self._tiles.make_reach(out, task.number, rows, made)
        step, regions = partial(node.step, window=window), ((source.region,), (target.region,))
        self._engines.do(step, *regions, self._engines.engine, source=taken, target=given)

    def _pool_by_rows(self, task: Task, node: PoolNode, image: int, at_once: int) -> None:
        """Reduce the windows of a large image: `at_once` rows of results at once."""
        pooled, pixels, (height, width) = node.pooled, node.pooled.pixels, node.pooled.pixels.made
        for rows in spans(0, height, height, at_once):
            read = image * pixels.image_columns + rows.first * pooled.columns_down
            made = image * pixels.made_columns + rows.first * width
            pattern = pooled.pairs(1, rows.count)
            self._pool(task, node, (Span(read, 1), pattern), Span(made, rows.count * width))

    def _pool(self, task: Task, node: PoolNode, read: tuple[Span, Pattern], made: Span) -> None:
        """Reduce the windows that lie in a pattern from a column on to columns of the result."""
        (rows,), (column, pattern) = task.rows, read
        matrix, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        source, first = self._tiles.reach(matrix, task.number, rows, column)
        target, given = self._tiles.make_reach(out, task.number, rows, made)
        taken = replace(first, pattern=pattern)
        regions = (source.region,), (target.region,)
        self._engines.do(node.step, *regions, source=taken, target=given)


def _fit(step: LaneStep, fields: dict[str, Access]) -> None:
    """Give the accesses of a step as many elements as it takes.

    What is moved has as many as what it is copied from, or to. One element stands beside all.
    """
    operands, made = BY_CLASS[step.cls].operands, fields["target"]
    if operands.moved:
        other = fields["source" if operands.moved == "target" else "target"]
        fields[operands.moved] = replace(fields[operands.moved], pattern=((1, other.elements),))
        return
    for name in operands.reads:
        if fields[name].elements == 1:
            fields[name] = replace(fields[name], pattern=((0, made.elements),))


def _backwards(access: Access) -> Access:
    """Return an access to elements side by side that goes from the last to the first."""
    if access.elements == 1 or access.pattern[0][0] == 0:
        return access
    last = access.start + (access.elements - 1) * access.element_bytes
    return replace(access, start=last, pattern=((-1, access.elements),))


def _is_as_held(matrix: Matrix, number: int, rows: Span, cols: Span) -> bool:
    """Return whether columns of a matrix are the same columns of the matrix that holds it."""
    if matrix.window is None:
        return True
    found = [
        (segment.base, segment.pairs)
        for segment in matrix.window.segments(number, rows.first, cols)
    ]
    return found == [(cols.first, ((1, cols.count),))]
