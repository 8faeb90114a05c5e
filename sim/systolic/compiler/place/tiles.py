"""Tiles on the chip: their sizes and places, and the accesses that reach parts of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from weakref import proxy

import numpy as np

from systolic.arrays import Mask
from systolic.compiler.ir.nodes import Layers, Matrix, MultiplyNode, RowsNode, TurnNode
from systolic.compiler.ir.on_chip.chip_tiles import whole_banks
from systolic.compiler.ir.parts import Made
from systolic.compiler.ir.tasks import MatrixTile, Tiled, tiling
from systolic.compiler.ir.windows import PartWindow
from systolic.compiler.place.banks import BanksByRole, Ring
from systolic.compiler.place.free_bytes import ALIGNMENT, Room, Wish, in_words
from systolic.compiler.place.residency import Residency, Resident
from systolic.errors import RoomError
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer
from systolic.isa.opcodes import BY_CLASS
from systolic.layout import Block
from systolic.spans import Interval, Span

REST_TASKS = 8
"""How many tasks a tile rests before others take its bytes: so far ahead tiles can be brought."""

CLEAR = 8
"""Other tiles leave this part of the state buffer clear before a result that grows tile by tile."""


@dataclass(frozen=True, slots=True)
class PlacedTile:
    """A tile of an input or output on the chip: its tensor's matrix, slices of it, and place."""

    matrix: str
    slices: tuple[int | slice, ...]
    access: Access


class OnChip:
    """The tiles T(p,q) of all matrices, and the state buffer in which they have places."""

    def __init__(self, layers: Layers, tiled: Tiled, chip: Chip) -> None:
        self.chip = chip
        self.p, self.q = tiled.block
        self._sides = {m.name: m.block or tiled.block for m in layers.matrices}
        self.matrices = {m.name: m for m in layers.matrices}
        self._blocks = {m.name: tiling(m, tiled.block) for m in layers.matrices}
        self._block_of: dict[MatrixTile, Block] = {}
        self._waited = dict.fromkeys(
            (node.output for node in layers.nodes if isinstance(node, MultiplyNode)),
            tiled.waited_columns,
        )
        self.banks = BanksByRole(layers, chip)
        room = Room(chip.state_buffer.bytes_per_partition, whole_banks(chip))
        where = f"state_buffer of {chip.name}"
        of_tiles = proxy(self)  # they hold the memory; were they held by it, they would stay
        self.memory = Residency(
            room,
            lambda tile: of_tiles._wish_of(tile),
            lambda tile: of_tiles.size_bytes(tile),
            where,
            REST_TASKS,
            lambda tile: of_tiles._piece_bytes(tile),
        )
        self.multiplies = any(isinstance(node, MultiplyNode) for node in layers.nodes)
        self._padded = {home.matrix for home in layers.homes if home.shape.holds_padding}
        self._made: dict[MatrixTile, Made] = {}
        self._parts_made: dict[MatrixTile, tuple[str, list[Made]]] = {}
        self._in_one_bank = {
            node.output if operands.moved == "target" else node.inputs[0]
            for node in layers.nodes
            if isinstance(node, RowsNode)
            and ((operands := BY_CLASS[node.step.cls].operands).moved or operands.picked)
        }
        self.bases: dict[str, int] = {}
        """The first byte of each matrix in unbroken rows that has been placed."""
        self._growing: set[str] = set()
        sources = {n.inputs[0] for n in layers.nodes if isinstance(n, TurnNode)}
        turned = {self.matrices[name].dtype for name in sources}
        self._identity_bytes = sum(in_words(self.p * data_type(d).size_bytes) for d in turned)

    # Tiles

    def all_tiles(self, matrix: Matrix) -> Iterator[MatrixTile]:
        """Yield the tiles of a matrix in logical order."""
        blocks = self._blocks[matrix.name]
        for block in blocks:
            yield MatrixTile(
                matrix.name, block.number // blocks.count_per_matrix, block.row, block.column
            )

    def count(self, matrix: Matrix) -> int:
        """Return how many tiles a matrix has."""
        return self._blocks[matrix.name].count

    def block(self, tile: MatrixTile) -> Block:
        """Return a tile as a block of its matrix: origin, extents, slices."""
        if tile not in self._block_of:
            blocks = self._blocks[tile.matrix]
            number = tile.number * blocks.count_per_matrix + tile.row * blocks.grid[1] + tile.col
            self._block_of[tile] = blocks.at(number)
        return self._block_of[tile]

    def size_bytes(self, tile: MatrixTile) -> int:
        """Return the bytes a tile takes of each partition: all alike in a matrix of blocks."""
        matrix = self.matrices[tile.matrix]
        own = matrix.block if matrix.lies.rows is None else None
        if own:
            return own[1] * self.element_bytes(tile)
        blocks = self._blocks[tile.matrix]
        left = blocks.columns - tile.col * blocks.block[1]
        return min(blocks.block[1], left) * self.element_bytes(tile)

    def element_bytes(self, tile: MatrixTile) -> int:
        """Return the bytes of an element."""
        return data_type(self.matrices[tile.matrix].dtype).size_bytes

    def _piece_bytes(self, tile: MatrixTile) -> int:
        """Return the bytes that are waited for alone; 0 if a tile holds no more."""
        columns = self._waited.get(tile.matrix) or self.chip.multiply_vectors
        piece = columns * self.element_bytes(tile)
        return piece if piece < self.size_bytes(tile) else 0

    def _wish_of(self, tile: MatrixTile) -> Wish:
        """Return the wish for a tile's place: apart from what is read while it is streamed.

        A tile of a matrix that grows may lie in its own place only, and other tiles rather lie
        where it will not come soon.
        """
        if tile.matrix in self._growing:
            start = self.bases[tile.matrix] + self._fixed_byte(self.matrices[tile.matrix], tile)
            place = Interval(start, start + in_words(self.size_bytes(tile)))
            return Wish("low", [place], only=True, lasting=True)
        if self._growing:
            held = self.memory.resident.values()
            grown = [r.start + r.size_bytes for r in held if r.tile.matrix in self._growing]
            size = self.memory.room.size_bytes
            clear = in_words(max(grown, default=0) + size // CLEAR)
            return Wish("high", [Interval(min(clear, size), size)])
        wish, besides = self.banks.wish_of(tile.matrix), self.banks.besides(tile.matrix)
        if tile.matrix in self._in_one_bank:
            size, count = self.chip.state_buffer.bank_bytes, self.chip.state_buffer.banks
            return replace(wish, ranges=(*wish.ranges, *Ring(0, count, size)), only=True)
        if not besides:
            return wish
        return self.banks.apart(tile.matrix, wish, self._banks_of_all(besides))

    def _banks_of_all(self, matrices: Collection[str]) -> set[int]:
        """Return the banks in which tiles of matrices lie."""
        there = self.memory.resident.values()
        return {bank for r in there if r.tile.matrix in matrices for bank in self._banks_of(r)}

    def _banks_of(self, there: Resident) -> range:
        """Return the banks in which a tile lies."""
        size = self.chip.state_buffer.bank_bytes
        return range(there.start // size, -(-(there.start + there.size_bytes) // size))

    def made(self, tile: MatrixTile) -> Made:
        """Return the finished part of a tile: all of it, unless nodes make it piece by piece."""
        if tile not in self._made:
            rows, cols = self._all_of(tile)
            self._made[tile] = Made(rows.count, cols.count)
            if self.matrices[tile.matrix].source.kind != "node":
                self._made[tile].add(rows, cols)
        return self._made[tile]

    def made_mask(self, tile: MatrixTile) -> Mask:
        """Return whether each element of a tile is made, with all of its bytes."""
        found = self.made(tile).mask()
        if tile in self._parts_made:
            _, parts = self._parts_made[tile]
            found = found | np.logical_and.reduce([made.mask() for made in parts])
        return found

    def parts_made(self, tile: MatrixTile) -> list[tuple[PartWindow, Mask]]:
        """Return each part of a tile's elements, and the elements it is made of, part by part."""
        dtype, made = self._parts_made.get(tile, ("", []))
        return [
            (PartWindow(tile.matrix, len(made), part, dtype), each.mask())
            for part, each in enumerate(made)
        ]

    def _made_of(self, tile: MatrixTile, matrix: Matrix) -> Made:
        """Return what is noted of a tile by what makes a matrix: of its elements, or of a part."""
        if not isinstance(matrix.window, PartWindow):
            return self.made(tile)
        if tile not in self._parts_made:
            rows, cols = self._all_of(tile)
            each = [Made(rows.count, cols.count) for _ in range(matrix.window.many)]
            self._parts_made[tile] = matrix.window.dtype, each
        return self._parts_made[tile][1][matrix.window.part]

    # Places

    def give(self, matrices: Iterable[Matrix]) -> list[PlacedTile]:
        """Place the tiles that are there at cycle 0, and return their places."""
        matrices = tuple(matrices)
        self._settle_placed(matrices)
        there = [m for m in matrices if m.source.kind == "state_buffer" and not m.window]
        given = [m for m in there if _byte(m) is None]
        if self._let_grow(matrices, given):
            return [self.piece(tile) for matrix in there for tile in self.all_tiles(matrix)]
        if not (all(self._settle(m) for m in given) or self._settle_anew(given)):
            tiles = [tile for m in given for tile in self.all_tiles(m)]
            need = sum(in_words(self.size_bytes(t)) for t in tiles if not self._is_fixed(t))
            need += sum(in_words(self._fixed_bytes(m)) for m in given if m.lies.rows is not None)
            raise RoomError(
                f"state_buffer of {self.chip.name} has no room for the inputs: they need "
                f"{need} bytes per partition{self._rounding(tiles)}, "
                f"found {self.memory.room.size_bytes}"
            )
        return [self.piece(tile) for matrix in there for tile in self.all_tiles(matrix)]

    def _settle_placed(self, matrices: Iterable[Matrix]) -> None:
        """Place what must begin at a byte that is given, results too, before all others."""
        for matrix in matrices:
            byte = _byte(matrix)
            if byte is not None and not self.fix(matrix):
                stop = byte + self._fixed_bytes(matrix)
                raise RoomError(
                    f"state_buffer of {self.chip.name} has no room for {matrix.tensor} at byte "
                    f"{byte}: bytes {byte} to {stop - 1} of its partitions must be "
                    f"free, begin at a multiple of {ALIGNMENT}, and lie within "
                    f"{self.memory.room.size_bytes}"
                )

    def _let_grow(self, matrices: Iterable[Matrix], given: Sequence[Matrix]) -> bool:
        """Let a result have its bytes one tile after another; return whether it does.

        Where inputs and a result in unbroken rows have no room side by side, the inputs lie at the
        end of the buffer, their first tiles lowest, and the result grows from its beginning, behind
        the identities. A tile of it is placed when it is made, and what is still needed in its
        bytes leaves for it. Without that all inputs in the way of any tile would leave before the
        first is made.
        """
        kept = [
            m
            for m in matrices
            if m.lies.keep and m.source.kind == "node" and m.lies.rows is not None
        ]
        room = self.memory.room
        if len(kept) != 1 or self.bases or room.bank_bytes or kept[0].name in self._padded:
            return False
        (grown,) = kept
        tiles = [(m, [*self.all_tiles(m)]) for m in given]
        need = sum(
            self._fixed_bytes(m) if m.lies.rows is not None else sum(map(self.size_bytes, each))
            for m, each in tiles
        )
        first, size = self._identity_bytes, self._fixed_bytes(grown)
        if first + size > room.size_bytes or first + need + size <= room.size_bytes:
            return False
        if any(m.lies.keep for m in given) or not all(map(self._in_whole_words, [grown, *given])):
            return False  # bytes that share a word with others are never given back
        high = Wish("high")
        for matrix, each in reversed(tiles):
            if matrix.lies.rows is not None:
                placed = self.fix(matrix, high)
            else:
                placed = all(
                    self.memory.place(t, dirty=True, wish=high) is not None for t in reversed(each)
                )
            if not placed:
                self.memory.forget()
                self.bases.clear()
                return False
        self.bases[grown.name] = first
        self._growing.add(grown.name)
        return True

    def _in_whole_words(self, matrix: Matrix) -> bool:
        """Return whether each tile of a matrix begins and ends at whole words."""
        return all(
            size % ALIGNMENT == 0
            for tile in self.all_tiles(matrix)
            for size in (
                self.size_bytes(tile),
                0 if matrix.lies.rows is None else self._fixed_byte(matrix, tile),
            )
        )

    @property
    def grows(self) -> bool:
        """Return whether a result has its bytes one tile after another."""
        return bool(self._growing)

    def _settle_anew(self, matrices: Iterable[Matrix]) -> bool:
        """Place inputs side by side, the largest first: their wishes left no room for all."""
        self.memory.forget()
        self._settle_placed(self.matrices.values())
        blocks = [m for m in matrices if m.block or m.lies.rows is not None]
        others = (tile for m in matrices if m not in blocks for tile in self.all_tiles(m))
        return all(self._settle(matrix) for matrix in blocks) and all(
            self.memory.place(t, dirty=True, wish=Wish("low")) is not None
            for t in sorted(others, key=self.size_bytes, reverse=True)
        )

    def _rounding(self, tiles: list[MatrixTile]) -> str:
        """Return in words why tiles need more bytes than their elements take."""
        words = any(self.size_bytes(tile) % ALIGNMENT for tile in tiles)
        banks = self.memory.room.bank_bytes
        return (f", each of {len(tiles)} tiles in whole words of {ALIGNMENT}" if words else "") + (
            f", none across two banks of {banks}" if banks else ""
        )

    def reserve(self, matrices: Iterable[Matrix]) -> None:
        """Place the blocks that must be there at the end, if they have room beside the inputs."""
        for matrix in matrices:
            placed = matrix.block is not None or matrix.lies.rows is not None
            kept = matrix.lies.keep and matrix.source.kind == "node" and placed
            if not kept or _byte(matrix) is not None or matrix.name in self._growing:
                continue
            if not self._settle(matrix) and matrix.name in self._padded:
                raise RoomError(
                    f"state_buffer of {self.chip.name} has no room for {matrix.tensor} beside the "
                    f"inputs: its padding_value is there from the start, in "
                    f"{self._fixed_bytes(matrix)} bytes per partition"
                )

    def _settle(self, matrix: Matrix) -> bool:
        """Place all tiles of a matrix for good, blocks one after another."""
        if matrix.lies.rows is not None:
            return self.fix(matrix)
        tiles = list(self.all_tiles(matrix))
        if matrix.block and self.memory.place_together(tiles, dirty=True):
            return True
        return all(self.memory.place(tile, dirty=True) is not None for tile in tiles)

    def fix(self, matrix: Matrix, wish: Wish | None = None) -> bool:
        """Place a matrix in unbroken rows from some byte on; False if it has no room.

        wish: for its place, instead of its own.
        """
        starts = {tile: self._fixed_byte(matrix, tile) for tile in self.all_tiles(matrix)}
        first = next(iter(starts))
        size = self._fixed_bytes(matrix)
        if wish is None:
            wish = self.banks.wish_of_all(matrix.name)
            besides = self.banks.besides(matrix.name)
            if besides and size <= self.chip.state_buffer.bank_bytes:
                own = self.banks.wish_of(matrix.name)
                wish = self.banks.apart(matrix.name, own, self._banks_of_all(besides))
        if (byte := _byte(matrix)) is not None:
            wish = Wish("low", [Interval(byte, byte + in_words(size))], only=True)
        found = self.memory.fix(starts, size, wish, forever=matrix.lies.keep)
        if found:
            self.bases[matrix.name] = self.memory.resident[first].start
        return found

    def to_be_fixed(self, tile: MatrixTile) -> bool:
        """Return whether a tile's matrix lies in unbroken rows, and has not been placed yet."""
        return self._is_fixed(tile) and tile.matrix not in self.bases

    def placed_with(self, tile: MatrixTile) -> tuple[str, int]:
        """Return the name and the bytes of what needs room for a tile: itself, or all its matrix.

        A matrix of unbroken rows is placed as a whole, padding included.
        """
        if not self.to_be_fixed(tile):
            return str(tile), self.size_bytes(tile)
        matrix = self.matrices[tile.matrix]
        return f"the rows of {matrix.tensor}, padding included", self._fixed_bytes(matrix)

    def _is_fixed(self, tile: MatrixTile) -> bool:
        return self.matrices[tile.matrix].lies.rows is not None

    def _fixed_bytes(self, matrix: Matrix) -> int:
        """Return the bytes of each partition of a matrix of unbroken rows, padding included."""
        down, lies = matrix.matrices * self._blocks[matrix.name].grid[0], matrix.lies.rows
        return down * (lies.width if lies else 0) * data_type(matrix.dtype).size_bytes

    def _fixed_byte(self, matrix: Matrix, tile: MatrixTile) -> int:
        """Return the first byte of a tile in its matrix of unbroken rows."""
        assert matrix.lies.rows is not None
        blocks, (_, q) = self._blocks[matrix.name], self._sides[matrix.name]
        down = tile.number * blocks.grid[0] + tile.row
        return (down * matrix.lies.rows.width + tile.col * q) * self.element_bytes(tile)

    def piece(self, tile: MatrixTile) -> PlacedTile:
        """Return the place of a tile, and the elements that make it up."""
        return PlacedTile(
            tile.matrix, self.block(tile).slices, self.whole(self.memory.resident[tile])
        )

    def resident(self, matrix: Matrix, number: int, row: int, col: int) -> Resident:
        """Return the place of the tile that holds an element."""
        p, q = self._sides[matrix.name]
        return self.memory.resident[MatrixTile(matrix.name, number, row // p, col // q)]

    def reach(self, matrix: Matrix, number: int, rows: Span, cols: Span) -> tuple[Resident, Access]:
        """Return rows and columns of a matrix, all in one tile: the tile's place and the access."""
        if matrix.window is None:
            place = self.resident(matrix, number, rows.first, cols.first)
            return place, self.span(place, rows, cols)
        held = self.matrices[matrix.holder]
        row, (p, q) = matrix.window.row(rows.first), self._sides[held.name]
        col = matrix.window.column(rows.first, cols.first)
        place = self.resident(held, matrix.window.number(number), row, col)
        (columns,) = matrix.window.segments(number, rows.first, cols)
        first = self.part(place, Span(row % p, rows.count), Span(columns.base % q, 1))
        found = replace(first, pattern=columns.pairs)
        if isinstance(matrix.window, PartWindow):
            found = matrix.window.of(found)
        return place, found

    def make_reach(
        self, matrix: Matrix, number: int, rows: Span, cols: Span
    ) -> tuple[Resident, Access]:
        """Return what `reach` does, for elements that are made by the access."""
        place, access = self.reach(matrix, number, rows, cols)
        if matrix.window is None:
            return place, self.make_span(place, rows, cols)
        made = self._made_of(place.tile, matrix)
        p, q = self._sides[place.tile.matrix]
        within = Span(matrix.window.row(rows.first) % p, rows.count)
        made.add_columns(within, matrix.window.columns(number, rows.first, cols) % q)
        return place, access

    def whole(self, resident: Resident) -> Access:
        """Return the access to all of a tile."""
        return self.part(resident, *self._all_of(resident.tile))

    def span(self, place: Resident, rows: Span, cols: Span) -> Access:
        """Return the access to rows and columns of a matrix that lie in one tile."""
        return self.part(place, *self._within(place, rows, cols))

    def spread(
        self, operand: Matrix, number: int, rows: Span, cols: Span, *, per_lane: bool = False
    ) -> tuple[Resident, Access]:
        """Return what `reach` does, for an operand that a step spreads over rows and columns.

        An operand of one column is read again for each column, by a step of 0, or once per lane.
        """
        if operand.lies.repeats:
            rows = Span(rows.first % operand.rows, rows.count)
        if operand.cols > 1:
            return self.reach(operand, number, rows, cols)
        place, one = self.reach(operand, number, rows, Span(0, 1))
        if per_lane or cols.count == 1:
            return place, one
        return place, replace(one, pattern=((0, cols.count),))

    def make(self, place: Resident, rows: Span, cols: Span) -> Access:
        """Return the access by which rows and columns of a tile, counted from its first, are made.

        The part that is written by it is noted: if the tile must leave half made, only the finished
        part is moved.
        """
        self.made(place.tile).add(rows, cols)
        return self.part(place, rows, cols)

    def make_span(self, place: Resident, rows: Span, cols: Span) -> Access:
        """Return the access by which rows and columns of a matrix, all in one tile, are made."""
        return self.make(place, *self._within(place, rows, cols))

    def make_whole(self, place: Resident) -> Access:
        """Return the access by which all of a tile is made."""
        return self.make(place, *self._all_of(place.tile))

    def part(self, place: Resident, rows: Span, cols: Span) -> Access:
        """Return the access to rows and columns of a tile, counted from its first."""
        matrix = self.matrices[place.tile.matrix]
        start = place.start + cols.first * data_type(matrix.dtype).size_bytes
        first = matrix.partition + rows.first
        return Access(Buffer.STATE, matrix.dtype, first, rows.count, start, ((1, cols.count),))

    def _within(self, place: Resident, rows: Span, cols: Span) -> tuple[Span, Span]:
        """Return rows and columns of a matrix counted from the first of the tile they are in."""
        p, q = self._sides[place.tile.matrix]
        return Span(rows.first % p, rows.count), Span(cols.first % q, cols.count)

    def _all_of(self, tile: MatrixTile) -> tuple[Span, Span]:
        """Return all rows and columns of a tile."""
        rows, cols = self.block(tile).extents
        return Span(0, rows), Span(0, cols)


def _byte(matrix: Matrix) -> int | None:
    """Return the byte at which the unbroken rows of a matrix must begin; None: anywhere."""
    return matrix.lies.rows.byte if matrix.lies.rows else None
