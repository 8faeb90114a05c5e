"""Products whose pixels are loaded: the filters stream, and identity products turn the sums.

The sums of several blocks of pixels are copied out side by side, wait until they are all there, and
are turned together. Not here: which products go so (`tile.loaded_pixels`).
"""

from __future__ import annotations

from dataclasses import replace

from systolic.compiler.ir.dependencies import Region
from systolic.compiler.ir.drafts import Drafts
from systolic.compiler.ir.lane_step import COPY
from systolic.compiler.ir.nodes import Layers, operand_number
from systolic.compiler.ir.tasks import Task, Tiled
from systolic.compiler.place.free_bytes import Wish, in_words
from systolic.compiler.place.tiles import OnChip
from systolic.compiler.schedule.engine_work import EngineWork, HeldAccess
from systolic.compiler.schedule.identities import Identities, no_room_beside
from systolic.compiler.schedule.sums import SumBanks
from systolic.hw.datatypes import data_type
from systolic.isa import Access, Buffer, LoadWeights, MatMul, PassThrough


class LoadedProductMaker:
    """Makes the instructions of such products. turned: the multiply-adds of their turns."""

    def __init__(
        self,
        drafts: Drafts,
        tiles: OnChip,
        layers: Layers,
        tiled: Tiled,
        made_by: tuple[EngineWork, SumBanks, Identities],
    ) -> None:
        """Begin with no sums that wait. made_by: engines, banks and identities."""
        self._drafts, self._tiles, self._nodes = drafts, tiles, layers.nodes
        self._chip, self._matrices, self._loops = tiles.chip, tiles.matrices, tiled.loops
        self._engines, self._sums, self._identities = made_by
        self._aside: list[HeldAccess] = []
        self._waiting: list[HeldAccess] = []
        self._next_aside = 0
        self.turned = 0

    def multiply(self, task: Task) -> None:
        """Stream the stationary columns through a block of moving ones, adding to its sums.

        Or turn the sums of a group of blocks.
        """
        if not task.rows:
            self._turn_sums(task)
            return
        node, (rows,), (cols,), (block,) = (
            self._nodes[task.node],
            task.rows,
            task.cols,
            task.moving,
        )
        a, b, out = (self._matrices[n] for n in (*node.inputs[:2], node.output))
        held, weights = self._tiles.reach(b, operand_number(b, out, task.number), rows, block)
        self._drafts.add(LoadWeights(weights=weights), (held.region,), ())
        dtype = data_type(b.dtype).accumulator
        which = (task.node, task.number, cols.first, block.first)
        bank = self._sums.grow(which, first=task.first, last=task.last)
        sums, region = self._sums.access(dtype, block.count, cols.count, bank)
        place, vectors = self._tiles.reach(a, operand_number(a, out, task.number), rows, cols)
        multiply = MatMul(moving=vectors, result=sums, accumulate=not task.first)
        self._drafts.add(multiply, (place.region,), (region,), accumulates=not task.first)
        if task.last:
            self._set_aside((sums, region), task)

    def of_sums(self) -> dict[str, int]:
        """Return the rows of the identities that turn sums, by the type of these."""
        return dict.fromkeys(self._to_turn(), self._chip.pe_array.cols)

    def make_room(self) -> None:
        """Place the sums that wait to be turned: room for so many groups as wait, and one more."""
        most = self._chip.pe_array.cols
        for dtype, (groups, columns) in self._to_turn().items():
            size = in_words(columns * data_type(dtype).size_bytes)
            for number in range(groups):
                found = self._tiles.memory.room.take(size, Wish("high"))
                if found is None:
                    raise no_room_beside(self._tiles, "sums that wait to be turned", size)
                region = Region(f"aside{number}", before=found[1])
                access = Access(Buffer.STATE, dtype, 0, most, found[0], ((1, columns),))
                self._aside.append((access, region))

    def _set_aside(self, held: HeldAccess, task: Task) -> None:
        """Copy the sums of a block out as they are, beside those of the blocks before."""
        (sums, region), (cols,), (block,) = held, task.cols, task.moving
        if task.beside == 0:
            self._waiting.append(self._aside[self._next_aside % len(self._aside)])
            self._next_aside += 1
        slot, place = self._waiting[-1]
        start = slot.start + task.beside * cols.count * slot.element_bytes
        columns = ((1, cols.count),)
        target = replace(slot, partitions=block.count, start=start, pattern=columns)
        self._engines.do(COPY, (region,), (place,), source=sums, target=target)

    def _turn_sums(self, task: Task) -> None:
        """Turn the sums of a group of blocks by one identity product, and take them out."""
        node, (cols,), blocks = self._nodes[task.node], task.cols, task.moving
        (slot, place), rows = self._waiting.pop(0), blocks[0].count
        identity, held = self._identities.of(slot.dtype)
        columns = len(blocks) * cols.count
        weights = replace(slot, partitions=rows, pattern=((1, columns),))
        self._drafts.add(LoadWeights(weights=weights), (place,), ())
        sums, region = self._sums.access(slot.dtype, columns, rows, self._sums.free())
        kind = PassThrough if self._chip.pe_array.turns_by_passing(slot.dtype) else MatMul
        ones = replace(identity, partitions=rows, pattern=((1, rows),))
        self._drafts.add(kind(moving=ones, result=sums), (held,), (region,))
        self.turned += rows * columns * rows
        out = self._matrices[node.output], task.number
        for number, block in enumerate(blocks):
            first = number * cols.count
            part = replace(sums, partition=first, partitions=cols.count)
            self._engines.take_out(node, (part, region), out, (cols, block))

    def _to_turn(self) -> dict[str, tuple[int, int]]:
        """Return, for the type of sums to be turned, how many groups wait, and their columns."""
        found: dict[str, tuple[int, int]] = {}
        for number, loops in self._loops:
            if loops.loaded:
                stationary = self._matrices[self._nodes[number].inputs[0]]
                dtype = data_type(stationary.dtype).accumulator
                groups, columns = found.get(dtype, (0, 0))
                wide = loops.loaded * stationary.cols
                found[dtype] = max(groups, loops.lag + 1), max(columns, wide)
        return found
