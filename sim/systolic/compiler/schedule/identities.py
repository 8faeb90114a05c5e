"""The identity matrices with which the array turns tiles, and where they lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property, partial

import numpy as np

from systolic.compiler.cost.engines import on_cheapest
from systolic.compiler.ir.dependencies import Region
from systolic.compiler.ir.drafts import Drafts
from systolic.compiler.ir.nodes import ConvertNode, Layers, Matrix, TurnNode
from systolic.compiler.place.free_bytes import Wish, in_words
from systolic.compiler.place.tiles import OnChip
from systolic.errors import RoomError
from systolic.hw.datatypes import data_type
from systolic.isa import Access, Buffer, Select
from systolic.workload.options import Options


class Identities:
    """An identity of each type that is turned.

    by_engine: the side of the blocks of each node that an engine turns, by the node's number.
    stored: identities that must be in memory at cycle 0.
    """

    def __init__(
        self,
        drafts: Drafts,
        tiles: OnChip,
        layers: Layers,
        options: Options,
        by_engine: Mapping[int, int],
    ) -> None:
        """Begin with none."""
        self._drafts, self._tiles, self._options = drafts, tiles, options
        self._nodes, self._chip, self.by_engine = layers.nodes, tiles.chip, by_engine
        self._found: dict[str, tuple[Access, Region]] = {}
        self.stored: list[Access] = []

    @property
    def accesses(self) -> tuple[Access, ...]:
        """Return all identity matrices, stored or written."""
        return tuple(access for access, _ in self._found.values())

    def of(self, dtype: str) -> tuple[Access, Region]:
        """Return the identity of a type."""
        return self._found[dtype]

    def turned(self) -> Iterator[Matrix]:
        """Yield the matrices that the array turns."""
        for number, node in enumerate(self._nodes):
            if isinstance(node, TurnNode) and number not in self.by_engine:
                yield self._tiles.matrices[node.inputs[0]]

    @cached_property
    def casts(self) -> frozenset[str]:
        """The matrices that are made of another type because they are to be turned."""
        turned, matrices = {matrix.holder for matrix in self.turned()}, self._tiles.matrices
        return frozenset(
            node.output
            for node in self._nodes
            if isinstance(node, ConvertNode)
            and node.output in turned
            and matrices[node.inputs[0]].dtype != matrices[node.output].dtype
        )

    def rows(self, matrix: Matrix) -> int:
        """Return the most rows of a matrix that one identity product takes."""
        p = matrix.block[0] if matrix.block else self._tiles.p
        return min(self._chip.pe_array.rows, p, matrix.rows)

    def most_words(self, default: int) -> int:
        """Return the most words of a turn's results, `default` if there are no turns."""
        return max(map(self.rows, self.turned()), default=default)

    def make(self) -> None:
        """Place an identity of each type that is turned; if it is not stored, let it be written."""
        heights: dict[str, int] = {}
        for matrix in self.turned():
            heights[matrix.dtype] = max(heights.get(matrix.dtype, 0), self.rows(matrix))
        for dtype, rows in heights.items():
            self._make(dtype, rows)

    def _make(self, dtype: str, rows: int) -> None:
        # What grows from the lowest bytes begins behind the identity.
        size, room = in_words(rows * data_type(dtype).size_bytes), self._tiles.memory.room
        found = room.take(size, Wish("low" if self._tiles.grows else "high"))
        if found is None:
            raise no_room_beside(self._tiles, "the identity", size)
        region = Region(f"sb{found[0]}", before=found[1])
        access = Access(Buffer.STATE, dtype, 0, rows, found[0], ((1, rows),))
        self._found[dtype] = access, region
        if self._options.identity == "stored":
            self.stored.append(access)
            return
        # One instruction: ones written over zeros would race with them where lanes are late.
        ones = partial(Select, compare="equal", value=1, per_partition=1, per_element=-1)
        diagonal = on_cheapest(self._chip, self._options, ones, target=access)
        self._drafts.add(diagonal, (), (region,))


def no_room_beside(tiles: OnChip, what: str, size: int) -> RoomError:
    """Return the error of what has no room beside inputs and identities, in bytes per partition."""
    room = tiles.memory.room
    return RoomError(
        f"state_buffer of {tiles.chip.name} has no room for {what}: it needs {size} "
        f"bytes per partition beside {room.size_bytes - room.free_bytes} of inputs and "
        f"other identities, found {room.size_bytes}, of which the largest piece free is "
        f"{room.largest_piece} bytes"
    )


def identity_values(access: Access) -> np.ndarray:
    """Return the identity matrix that an access must hold, [rows, rows]."""
    return np.eye(access.partitions, dtype=data_type(access.dtype).numpy)
