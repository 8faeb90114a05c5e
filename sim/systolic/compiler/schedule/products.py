"""Work of the array and the engines in the fourth pass: products, turns, conversions.

Sums use the banks of the result buffer in turn, so that the next sums begin while the last ones are
copied out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, partial

import numpy as np

from systolic.compiler.cost.engine_turns import turned_by_engine
from systolic.compiler.cost.engines import drain_engine, engine_cycles, on_cheapest
from systolic.compiler.ir.dependencies import Region
from systolic.compiler.ir.drafts import Drafts
from systolic.compiler.ir.lane_step import ALONG_DIAGONAL, COPY
from systolic.compiler.ir.nodes import Layers, Matrix, Node, operand_number
from systolic.compiler.ir.pixels import PooledPixels
from systolic.compiler.ir.ranges import spans
from systolic.compiler.ir.tasks import MatrixTile, Task
from systolic.compiler.ir.windows import AnyWindow
from systolic.compiler.place.free_bytes import Wish, in_words
from systolic.compiler.place.psum import PsumMap, place_psum
from systolic.compiler.place.tiles import OnChip
from systolic.errors import CompileError
from systolic.hw.datatypes import PSUM_WORD_BYTES, data_type
from systolic.isa import (
    Access,
    Buffer,
    Copy,
    LoadWeights,
    MatMul,
    Memset,
    OnEngine,
    PassThrough,
    Select,
    Transpose,
)
from systolic.isa.access import MAX_PAIRS, Pattern
from systolic.isa.instruction import Event
from systolic.spans import Span
from systolic.workload.options import Options

_HeldAccess = tuple[Access, Region]
"""A place in a buffer, and the region that notes the instructions that use it."""
_Made = tuple[Matrix, int]
"""A matrix that is made: of which tensor's view, and which of its matrices."""


DRAINS_TICKS = 1 << 40
"""Ticks that the draining engine counts as busy, so that another one casts what is turned."""


class ProductMaker:
    """Makes the instructions of tasks whose tiles are all in place.

    by_engine: the side of the blocks of each node that an engine turns, by the node's number.
    stored: identities that must be in memory at cycle 0. given: the ticks of work that each engine
    has been given.
    """

    def __init__(
        self,
        drafts: Drafts,
        tiles: OnChip,
        layers: Layers,
        options: Options,
        block: tuple[int, int],
    ) -> None:
        self._drafts, self._tiles, self._options = drafts, tiles, options
        self._nodes, self._chip = layers.nodes, tiles.chip
        self._matrices = tiles.matrices
        self._multiplies = any(node.kind == "multiply" for node in layers.nodes)
        self.by_engine = turned_by_engine(self._chip, options, layers, block)
        self._slots = self._place_sums()
        self._banks: dict[int, Region] = {}
        self._next_bank = 0
        self._sums: list[int] = []
        self._busy: dict[str, int] = {}
        self.given: dict[str, int] = {}
        self._cast_to_turn = self._casts()
        self._identity: dict[str, tuple[Access, Region]] = {}
        self.turned = 0
        self.stored: list[Access] = []

    @cached_property
    def _drain_engine(self) -> str:
        return drain_engine(self._chip, self._options)

    # Products

    def multiply(self, task: Task) -> None:
        """Stream the moving tiles through each stationary one, adding to the group's sums."""
        node = self._nodes[task.node]
        a, b, out = (self._matrices[n] for n in (*node.inputs[:2], node.output))
        if not task.rows:
            self._fill(task, out, node.step.settings["other"])
            return
        (rows,) = task.rows
        if task.first:
            self._sums = [self._free_bank() for _ in range(len(task.cols) * len(task.moving))]
        banks = iter(self._sums)
        for cols in task.cols:
            number = operand_number(a, out, task.number)
            place, weights = self._tiles.reach(a, number, rows, cols)
            self._drafts.add(LoadWeights(weights=weights), (place.region,), ())
            for moving in task.moving:
                self._product(task, (b, out), cols, moving, next(banks))
        if task.last:
            self._sums = []

    def _fill(self, task: Task, out: Matrix, value: float) -> None:
        """Write one value to a part of a result of which no sums are wanted."""
        (rows,), (cols,) = task.cols, task.moving
        target, made = self._tiles.make_reach(out, task.number, rows, cols)
        step = partial(Memset, value=value)
        filled = on_cheapest(self._chip, self._options, step, self._busy, target=made)
        self._note(filled)
        self._drafts.add(filled, (), (target.region,))

    def _free_bank(self) -> int:
        """Return the next bank in which no sums grow."""
        assert len(self._sums) < self._slots.count, "a tile is turned while every bank holds sums"
        while (bank := self._next_bank % self._slots.count) in self._sums:
            self._next_bank += 1
        self._next_bank += 1
        return bank

    def _product(
        self, task: Task, matrices: tuple[Matrix, Matrix], cols: Span, moving: Span, bank: int
    ) -> None:
        """Add one chunk's products to a bank; if they are the last, copy the sums out."""
        (b, out), (rows,) = matrices, task.rows
        number = operand_number(b, out, task.number)
        sums, region = self._psum(data_type(b.dtype).accumulator, cols.count, moving.count, bank)
        place, vectors = self._tiles.reach(b, number, rows, moving)
        multiply = MatMul(moving=vectors, result=sums, accumulate=not task.first)
        self._drafts.add(multiply, (place.region,), (region,), accumulates=not task.first)
        if task.last:
            node, made = self._nodes[task.node], (out, task.number)
            self._take_out(node, (sums, region), made, (cols, moving))

    def _drain(
        self, held: _HeldAccess, out: _Made, rows: Span, cols: Span, *, part: int = 0
    ) -> None:
        """Copy finished sums from column partitions to row partitions, cast on the way."""
        sums, region = held
        target, made = self._tiles.make_reach(*out, rows, cols)
        copy = Copy(engine=self._drain_engine, source=sums, target=made)
        self._note(copy)
        self._drafts.add(copy, (region,), (target.region,), part=part)

    def _take_out(
        self, node: Node, held: _HeldAccess, out: _Made, where: tuple[Span, Span]
    ) -> None:
        """Take finished sums out of the result buffer by the step of a product."""
        if node.step == COPY:
            self._drain(held, out, *where)
        else:
            self._lane_step(node, held, out, where)

    def _lane_step(
        self,
        node: Node,
        first: _HeldAccess,
        out: _Made,
        where: tuple[Span, Span],
        *,
        busy: dict[str, int] | None = None,
    ) -> None:
        """Let an engine write rows and columns of a result of its operands there.

        busy: what engines have been given before, if not all work of this kind counts.
        """
        source, region = first
        fields, regions = {node.step.first: source}, [region]
        matrix, number = out
        for name, other in node.others:
            operand, per_lane = self._matrices[other], node.step.per_lane(name)
            there = operand_number(operand, matrix, number)
            place, fields[name] = self._tiles.spread(operand, there, *where, per_lane=per_lane)
            regions.append(place.region)
        target, made = self._tiles.make_reach(*out, *where)
        busy = self._busy if busy is None else busy
        if node.step.onto:
            fields.pop(node.step.first)
            self._beneath((source, regions.pop(0)), (made, target.region), busy)
            regions.append(target.region)
        step = node.step.at(*(span.first for span in where))
        wrote = [target.region]
        if node.reduced:
            fields["reduced"], sums = self._sums_of(node, number, *where)
            wrote.append(sums)
        written = on_cheapest(self._chip, self._options, step, busy, target=made, **fields)
        self._note(written)
        self._drafts.add(written, regions, wrote)

    def _sums_of(self, node: Node, number: int, rows: Span, cols: Span) -> _HeldAccess:
        """Return the place of the sums of a segment of columns."""
        made = Span(cols.first // self._tiles.p, 1)
        place, access = self._tiles.make_reach(self._matrices[node.reduced], number, rows, made)
        return access, place.region

    def _beneath(self, held: _HeldAccess, out: _HeldAccess, busy: dict[str, int]) -> None:
        """Let an engine copy what the next instruction keeps some of to that one's target."""
        (source, read), (target, made) = held, out
        copy = on_cheapest(self._chip, self._options, COPY, busy, source=source, target=target)
        self._note(copy)
        self._drafts.add(copy, (read,), (made,))

    def _note(self, work: OnEngine) -> None:
        """Note the ticks that an engine is given."""
        ticks = engine_cycles(self._chip, work.engine, work) * self._chip.period(work.engine)
        self.given[work.engine] = self.given.get(work.engine, 0) + ticks

    # Turns and conversions

    def turn(self, task: Task) -> None:
        """Transpose a tile: each sub-block is stationary, the identity moves.

        Where that is not slower the array passes the sub-block on, and its bits stay as they are.
        """
        node = self._nodes[task.node]
        matrix, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        if side := self.by_engine.get(task.node):
            self._turn_by_engine(task, (matrix, out), side)
            return
        identity, held = self._identity[matrix.dtype]
        kind, dtype = MatMul, data_type(matrix.dtype).accumulator
        if self._chip.pe_array.turns_by_passing(matrix.dtype):
            kind, dtype = PassThrough, matrix.dtype
        for rows in task.rows:
            for cols in task.cols:
                source, weights = self._tiles.reach(matrix, task.number, rows, cols)
                self._drafts.add(LoadWeights(weights=weights), (source.region,), ())
                for some in _pieces(rows, self._chip.result_buffer.bank_words):
                    sums, region = self._psum(dtype, cols.count, some.count, self._free_bank())
                    start = identity.start + (some.first - rows.first) * identity.element_bytes
                    ones = replace(
                        identity, partitions=rows.count, start=start, pattern=((1, some.count),)
                    )
                    multiply = kind(moving=ones, result=sums)
                    self.turned += rows.count * cols.count * some.count
                    self._drafts.add(multiply, (held,), (region,), parts=self._posted(sums))
                    self._drain_turned((sums, region), (out, task.number), cols, some)

    def _turn_by_engine(self, task: Task, ends: tuple[Matrix, Matrix], side: int) -> None:
        """Transpose a tile block by block: block (i, j) becomes block (j, i)."""
        ((rows,), (cols,)), (matrix, out) = (task.rows, task.cols), ends
        step = partial(Transpose, side=side)
        for row in spans(rows.first, rows.stop, rows.stop, side):
            for col in spans(cols.first, cols.stop, cols.stop, side):
                source, taken = self._tiles.reach(matrix, task.number, row, col)
                target, made = self._tiles.make_reach(out, task.number, col, row)
                turned = on_cheapest(
                    self._chip, self._options, step, self._busy, source=taken, target=made
                )
                self._note(turned)
                self._drafts.add(turned, (source.region,), (target.region,))

    def _posted(self, sums: Access) -> tuple[Event, int] | None:
        """Return the event on which a multiply posts, and how often, if not once at its end."""
        if self._options.drain == "row":
            return "row", sums.elements
        return ("partition", sums.partitions) if self._options.drain == "partition" else None

    def _drain_turned(self, held: _HeldAccess, out: _Made, rows: Span, cols: Span) -> None:
        """Copy a sub-block whole, or every row or partition as soon as it is complete."""
        sums, region = held
        if self._options.drain == "block":
            self._drain(held, out, rows, cols)
        elif self._options.drain == "row":
            for row in range(cols.count):
                start = sums.start + row * PSUM_WORD_BYTES
                part = replace(sums, start=start, pattern=((1, 1),))
                column = Span(cols.first + row, 1)
                self._drain((part, region), out, rows, column, part=row + 1)
        else:
            for lane in range(rows.count):
                part = replace(sums, partition=lane, partitions=1)
                line = Span(rows.first + lane, 1)
                self._drain((part, region), out, line, cols, part=lane + 1)

    def convert(self, task: Task, came: int = 0) -> None:
        """Let an engine write one tile from another, element by element.

        A tile of many sums is written piece by piece, so that what reads it need not wait for all.

        came: in how many parts the tile that is read has come from DRAM, if not at once.
        """
        node, (rows,), (cols,) = self._nodes[task.node], task.rows, task.cols
        matrix, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        number = operand_number(matrix, out, task.number)
        casts = out.name in self._cast_to_turn
        busy = {self._drain_engine: DRAINS_TICKS} if casts else None
        piece = cols.count if self._windows(node) else self._chip.multiply_vectors
        if node.reduced:
            piece = self._tiles.p
        parts = self.comes_in(task, task.reads[0], came) if came else []
        for part in parts or spans(cols.first, cols.stop, cols.stop, piece):
            source, read = self._tiles.spread(matrix, number, rows, part)
            made = out, task.number
            self._lane_step(node, (read, source.region), made, (rows, part), busy=busy)

    def _windows(self, node: Node) -> list[AnyWindow]:
        """Return the windows through which a node reads and writes several columns."""
        matrices = (self._matrices[name] for name in (*node.inputs, node.output))
        return [m.window for m in matrices if m.window is not None and m.cols > 1]

    def comes_in(self, task: Task, tile: MatrixTile, many: int) -> list[Span]:
        """Return the columns that `convert` may take one after another, in so many equal parts.

        None unless the tile is all that the task reads, as it lies, and each part is one access in
        all windows.
        """
        node = self._nodes[task.node]
        if node.kind != "convert" or node.reduced or task.reads != (tile,):
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

    def diagonal(self, task: Task) -> None:
        """Let an engine write a weight of each lane along the diagonal of a tile, zeros beside it.

        A tap's weight is read again for each column, and taken where the column is the lane's.
        """
        node, (rows,), (cols, tap) = self._nodes[task.node], task.rows, task.cols
        matrix, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        source, one = self._tiles.reach(matrix, 0, cols, tap)
        target, made = self._tiles.make_reach(out, 0, rows, cols)
        weight = replace(one, pattern=((0, cols.count),))
        written = on_cheapest(
            self._chip, self._options, ALONG_DIAGONAL, self._busy, value=weight, target=made
        )
        self._note(written)
        self._drafts.add(written, (source.region,), (target.region,))

    def reduce(self, task: Task) -> None:
        """Let an engine reduce a tile: all whole segments of columns at once, then what is left."""
        (cols,), p = task.cols, self._tiles.p
        whole = cols.count // p
        for first, count, window in ((0, whole, p), (whole, 1, cols.count % p)):
            if count and window:
                read = Span(cols.first + first * p, count * window)
                made = Span(cols.first // p + first, count)
                self._reduce(task, read, made, window)

    def _reduce(self, task: Task, read: Span, made: Span, window: int) -> None:
        """Reduce windows of columns that are read to columns that are made."""
        node, (rows,) = self._nodes[task.node], task.rows
        matrix, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        source, taken = self._tiles.reach(matrix, task.number, rows, read)
        target, given = self._tiles.make_reach(out, task.number, rows, made)
        written = on_cheapest(
            self._chip,
            self._options,
            partial(node.step, window=window),
            self._busy,
            source=taken,
            target=given,
        )
        self._drafts.add(written, (source.region,), (target.region,))

    def pool(self, task: Task) -> None:
        """Let an engine reduce the windows of a tile's images: of all at once, if one access can.

        Otherwise of one image after another, and of a large image some rows after others.
        """
        pooled, (cols,) = self._nodes[task.node].pooled, task.cols
        assert pooled is not None
        made = pooled.pixels.made_columns
        images = cols.count // made
        at_once = max(1, self._chip.multiply_vectors // pooled.pixels.made[1])
        if at_once < pooled.pixels.made[0]:
            for image in range(images):
                self._pool_by_rows(task, pooled, cols.first // made + image, at_once)
            return
        together = images if len(pooled.pairs(images)) <= MAX_PAIRS else 1
        for first in range(0, images, together):
            pattern = pooled.pairs(together)
            number = cols.first // made + first
            read = Span(number * pooled.pixels.image_columns, 1)
            self._pool(task, (read, pattern), Span(number * made, together * made))

    def _pool_by_rows(self, task: Task, pooled: PooledPixels, image: int, at_once: int) -> None:
        """Reduce the windows of a large image: of so many rows of results at once."""
        pixels, (height, width) = pooled.pixels, pooled.pixels.made
        for rows in spans(0, height, height, at_once):
            read = image * pixels.image_columns + rows.first * pooled.columns_down
            made = image * pixels.made_columns + rows.first * width
            pattern = pooled.pairs(1, rows.count)
            self._pool(task, (Span(read, 1), pattern), Span(made, rows.count * width))

    def _pool(self, task: Task, read: tuple[Span, Pattern], made: Span) -> None:
        """Reduce the windows that lie in a pattern from a column on to columns of the result."""
        node, (rows,), (column, pattern) = self._nodes[task.node], task.rows, read
        matrix, out = self._matrices[node.inputs[0]], self._matrices[node.output]
        source, first = self._tiles.reach(matrix, task.number, rows, column)
        target, given = self._tiles.make_reach(out, task.number, rows, made)
        taken = replace(first, pattern=pattern)
        written = on_cheapest(
            self._chip, self._options, node.step, self._busy, source=taken, target=given
        )
        self._note(written)
        self._drafts.add(written, (source.region,), (target.region,))

    def _casts(self) -> set[str]:
        """Return the matrices that are made of another type because they are to be turned."""
        turned = {matrix.holder for matrix in self._turned()}
        return {
            node.output
            for node in self._nodes
            if node.kind == "convert"
            and node.output in turned
            and self._matrices[node.inputs[0]].dtype != self._matrices[node.output].dtype
        }

    @property
    def identities(self) -> tuple[Access, ...]:
        """Return all identity matrices, stored or written."""
        return tuple(access for access, _ in self._identity.values())

    def make_identities(self) -> None:
        """Place an identity of each type that is turned; if it is not stored, let it be written."""
        heights: dict[str, int] = {}
        for matrix in self._turned():
            rows = self._turned_rows(matrix)
            heights[matrix.dtype] = max(heights.get(matrix.dtype, 0), rows)
        for dtype, rows in heights.items():
            self._make_identity(dtype, rows)

    def _turned(self) -> Iterator[Matrix]:
        """Yield the matrices that the array turns."""
        for number, node in enumerate(self._nodes):
            if node.kind == "turn" and number not in self.by_engine:
                yield self._matrices[node.inputs[0]]

    def _turned_rows(self, matrix: Matrix) -> int:
        """Return the most rows of a matrix that one identity product takes."""
        p = matrix.block[0] if matrix.block else self._tiles.p
        return min(self._chip.pe_array.rows, p, matrix.rows)

    def _make_identity(self, dtype: str, rows: int) -> None:
        size, room = in_words(rows * data_type(dtype).size_bytes), self._tiles.memory.room
        found = room.take(size, self._wish_of_identity(size))
        if found is None:
            raise CompileError(
                f"state_buffer of {self._chip.name} has no room for the identity: it needs {size} "
                f"bytes per partition beside {room.size_bytes - room.free_bytes} of inputs and "
                f"other identities, found {room.size_bytes}, of which the largest piece free is "
                f"{room.largest_piece} bytes"
            )
        region = Region(f"sb{found[0]}", before=found[1])
        access = Access(Buffer.STATE, dtype, 0, rows, found[0], ((1, rows),))
        self._identity[dtype] = access, region
        if self._options.identity == "stored":
            self.stored.append(access)
            return
        # One instruction: ones written over zeros would race with them where lanes are late.
        ones = partial(Select, compare="equal", value=1, per_partition=1, per_element=-1)
        diagonal = on_cheapest(self._chip, self._options, ones, target=access)
        self._drafts.add(diagonal, (), (region,))

    def _wish_of_identity(self, size: int) -> Wish:
        return Wish("high")

    # Accesses

    def _place_sums(self) -> PsumMap:
        """Return a slot for each bank; if only turns need slots, as many as have room."""
        words = self._chip.result_buffer.bank_words
        if not self._multiplies:
            rows = max((self._turned_rows(matrix) for matrix in self._turned()), default=words)
            words = min(words, rows)
        return place_psum(self._chip, words)

    def _psum(self, dtype: str, columns: int, words: int, slot: int) -> tuple[Access, Region]:
        _, start = self._slots.at(slot)
        assert words <= self._slots.rows
        access = Access(Buffer.RESULT, dtype, 0, columns, start, ((1, words),))
        return access, self._banks.setdefault(slot, Region(f"psum{slot}"))


def _pieces(span: Span, most: int) -> Iterator[Span]:
    """Cut a span into spans of at most `most`, counted from its first."""
    firsts = range(span.first, span.stop, most)
    return (Span(first, min(most, span.stop - first)) for first in firsts)


def identity_values(access: Access) -> np.ndarray:
    """Return the identity matrix that an access must hold, [rows, rows]."""
    return np.eye(access.partitions, dtype=data_type(access.dtype).numpy)


def _is_as_held(matrix: Matrix, number: int, rows: Span, cols: Span) -> bool:
    """Return whether columns of a matrix are the same columns of the matrix that holds it."""
    if matrix.window is None:
        return True
    found = [
        (segment.base, segment.pairs)
        for segment in matrix.window.segments(number, rows.first, cols)
    ]
    return found == [(cols.first, ((1, cols.count),))]
