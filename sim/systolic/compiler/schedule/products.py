"""Work of the array and the engines in the fourth pass: products, turns, conversions.

Sums go round the banks of the result buffer, so the next begin while the last are copied out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from systolic.compiler.ir.dependencies import Region
from systolic.compiler.ir.drafts import Drafts
from systolic.compiler.ir.nodes import Layers, Matrix, operand_number
from systolic.compiler.ir.tasks import Span, Task
from systolic.compiler.options import Options
from systolic.compiler.place.fixed import PsumMap, place_psum
from systolic.compiler.place.free_bytes import Wish, in_words
from systolic.compiler.place.residency import Resident
from systolic.compiler.place.tiles import OnChip
from systolic.errors import CompileError
from systolic.hw.datatypes import PSUM_WORD_BYTES, data_type
from systolic.isa import Access, Buffer, Copy, LoadWeights, MatMul, Select
from systolic.isa.instruction import Event


class ArrayWork:
    """Makes the instructions of tasks whose tiles are all in place.

    stored: identities that must be there at cycle 0.
    """

    def __init__(self, drafts: Drafts, tiles: OnChip, layers: Layers, options: Options) -> None:
        self._drafts, self._tiles, self._options = drafts, tiles, options
        self._nodes, self._chip = layers.nodes, tiles.chip
        self._matrices = tiles.matrices
        self._multiplies = any(node.kind == "multiply" for node in layers.nodes)
        self._slots = self._place_sums()
        self._banks: dict[int, Region] = {}
        self._next_bank = 0
        self._sums: list[int] = []
        self._identity: dict[str, tuple[Access, Region]] = {}
        self.stored: list[Access] = []

    # Products

    def multiply(self, task: Task) -> None:
        """Stream the moving tiles through each stationary one, adding to the group's sums."""
        node = self._nodes[task.node]
        a, b, out = (self._matrices[n] for n in (*node.inputs, node.output))
        ((k, height),) = task.rows
        if task.first:
            self._sums = [self._free_bank() for _ in range(len(task.cols) * len(task.moving))]
        banks = iter(self._sums)
        for c, width in task.cols:
            place = self._tiles.resident(a, operand_number(a, out, task.number), k, c)
            weights = self._part(place, (k, height), (c, width))
            self._drafts.add(LoadWeights(weights=weights), (place.region,), ())
            for moving in task.moving:
                self._product(task, (b, out), (k, height), (c, width), moving, next(banks))
        if task.last:
            self._sums = []

    def _free_bank(self) -> int:
        """Return the next bank in which no sums grow."""
        assert len(self._sums) < self._slots.count, "a tile is turned while every bank holds sums"
        while (bank := self._next_bank % self._slots.count) in self._sums:
            self._next_bank += 1
        self._next_bank += 1
        return bank

    def _product(
        self, task: Task, matrices: tuple[Matrix, Matrix], rows: Span, cols: Span, moving: Span,
        bank: int,
    ) -> None:  # fmt: skip
        """Add one chunk's products to a bank; if they are the last, copy the sums out."""
        b, out = matrices
        place = self._tiles.resident(b, operand_number(b, out, task.number), rows[0], moving[0])
        sums, region = self._psum(b.dtype, cols[1], moving[1], bank)
        vectors = self._part(place, rows, moving)
        multiply = MatMul(moving=vectors, result=sums, accumulate=not task.first)
        self._drafts.add(multiply, (place.region,), (region,), accumulates=not task.first)
        if task.last:
            target = self._tiles.resident(out, task.number, cols[0], moving[0])
            self._drain(sums, region, target, cols, moving)

    def _drain(
        self, sums: Access, region: Region, target: Resident, rows: Span, cols: Span,
        part: int = 0,
    ) -> None:  # fmt: skip
        """Copy finished sums from column partitions to row partitions, cast on the way."""
        copy = Copy(
            engine=self._options.drain_engine,
            source=sums, target=self._tiles.make_span(target, rows, cols),
        )  # fmt: skip
        self._drafts.add(copy, (region,), (target.region,), part=part)

    # Turns and conversions

    def turn(self, task: Task) -> None:
        """Transpose a tile: each sub-block is stationary, the identity moves."""
        source = self._tiles.memory.resident[task.reads[0]]
        out = self._matrices[self._nodes[task.node].output]
        identity, held = self._identity[self._matrices[source.tile.matrix].dtype]
        for r, height in task.rows:
            for c, width in task.cols:
                weights = self._part(source, (r, height), (c, width))
                self._drafts.add(LoadWeights(weights=weights), (source.region,), ())
                for i, vectors in _pieces(height, self._chip.result_buffer.bank_words):
                    sums, region = self._psum(identity.dtype, width, vectors, self._free_bank())
                    start = identity.start + i * identity.element_bytes
                    ones = Access(Buffer.STATE, identity.dtype, 0, height, start, ((1, vectors),))
                    multiply = MatMul(moving=ones, result=sums)
                    self._drafts.add(multiply, (held,), (region,), parts=self._posted(sums))
                    target = self._tiles.resident(out, task.number, c, r)
                    self._drain_turned(sums, region, target, (c, width), (r + i, vectors))

    def _posted(self, sums: Access) -> tuple[Event, int] | None:
        """Return on which event a multiply posts, and how often, if not once at its end."""
        if self._options.drain == "row":
            return "row", sums.elements
        return ("partition", sums.partitions) if self._options.drain == "partition" else None

    def _drain_turned(
        self, sums: Access, region: Region, target: Resident, rows: Span, cols: Span
    ) -> None:
        """Copy a sub-block whole, or every row or partition as soon as it is complete."""
        if self._options.drain == "block":
            self._drain(sums, region, target, rows, cols)
        elif self._options.drain == "row":
            for row in range(cols[1]):
                start = sums.start + row * PSUM_WORD_BYTES
                part = replace(sums, start=start, pattern=((1, 1),))
                self._drain(part, region, target, rows, (cols[0] + row, 1), part=row + 1)
        else:
            for lane in range(rows[1]):
                part = replace(sums, partition=lane, partitions=1)
                self._drain(part, region, target, (rows[0] + lane, 1), cols, part=lane + 1)

    def convert(self, task: Task) -> None:
        """Have an engine write one tile from another, element by element."""
        source, target = (self._tiles.memory.resident[t] for t in (task.reads[0], task.writes[0]))
        written = self._nodes[task.node].instruction(
            engine=self._options.drain_engine,
            source=self._tiles.whole(source),
            target=self._tiles.make_whole(target),
        )
        self._drafts.add(written, (source.region,), (target.region,))

    def make_identities(self) -> None:
        """Place an identity of each type that is turned; have it written if it is not stored."""
        heights: dict[str, int] = {}
        for matrix in self._turned():
            rows = self._turned_rows(matrix)
            heights[matrix.dtype] = max(heights.get(matrix.dtype, 0), rows)
        for dtype, rows in heights.items():
            self._make_identity(dtype, rows)

    def _turned(self) -> Iterator[Matrix]:
        return (self._matrices[n.inputs[0]] for n in self._nodes if n.kind == "turn")

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
        engine = self._options.drain_engine
        # One instruction: ones written over zeros would race with them where lanes are late.
        diagonal = Select(
            engine=engine, compare="equal", value=1, target=access, per_partition=1, per_element=-1
        )
        self._drafts.add(diagonal, (), (region,))

    def _wish_of_identity(self, size: int) -> Wish:
        """Return where an identity, which never goes, had best lie.

        Among what moves; but if no side of it then has room for the tiles of every task, at the
        end of the buffer.
        """
        room, wish = self._tiles.memory.room, self._tiles.banks.wish("moving")
        start = room.find(size, wish)
        if start is None:
            return wish
        largest = max(start, room.size_bytes - start - size)
        return wish if largest >= self._tiles.most_together else Wish("high")

    # Accesses

    def _part(self, place: Resident, rows: Span, cols: Span) -> Access:
        """Return the access to rows and columns of a matrix that lie in one tile."""
        return self._tiles.span(place, rows, cols)

    def _place_sums(self) -> PsumMap:
        """Return a slot for each bank, or as many as have room if nothing but turns needs them."""
        words = self._chip.result_buffer.bank_words
        if not self._multiplies:
            rows = max((self._turned_rows(matrix) for matrix in self._turned()), default=words)
            words = min(words, rows)
        return place_psum(self._chip, words)

    def _psum(self, dtype: str, columns: int, words: int, slot: int) -> tuple[Access, Region]:
        _, start = self._slots.at(slot)
        assert words <= self._slots.rows
        accumulator = data_type(dtype).accumulator
        access = Access(Buffer.RESULT, accumulator, 0, columns, start, ((1, words),))
        return access, self._banks.setdefault(slot, Region(f"psum{slot}"))


def _pieces(size: int, most: int) -> Iterator[Span]:
    """Yield (first, count) of pieces of at most `most`."""
    return ((first, min(most, size - first)) for first in range(0, size, most))


def identity_values(access: Access) -> np.ndarray:
    """Return the identity matrix that an access must hold, [rows, rows]."""
    return np.eye(access.partitions, dtype=data_type(access.dtype).numpy)
