"""Which columns of a product are multiplied for a block's rows at a time, as engines finish these.

Engines go over a tensor, such as a layer norm's, tile by tile; the array turns what they have made
and multiplies it. A chunk of moving vectors holds the rows of several tiles, so a product in whole
chunks begins when the last tile is done. Some of its stationary columns are therefore multiplied
for the rows of one tile at a time: the array has work until the last rows come. Not here: the order
of tasks (`flow`).
"""

from __future__ import annotations

from systolic.compiler.cost.dma import picked_cycles
from systolic.compiler.ir.nodes import Layers, Matrix, MultiplyNode, TurnNode
from systolic.compiler.ir.on_chip.chip_tiles import block_rows
from systolic.compiler.tile.flow import WORKING, waits_for_engines
from systolic.hw.datatypes import data_type
from systolic.hw.formulas.timing import load_reads
from systolic.hw.spec import Chip
from systolic.isa import Select


class LateRows:
    """Chooses the columns of each product; products of one operand share the cycles to be bridged.

    flows: whether a product takes what engines make of another product's result, so that tasks
    change places (`flow`).
    """

    def __init__(self, layers: Layers, chip: Chip, room_bytes: int) -> None:
        """Begin with all products.

        room_bytes: the bytes of each partition of the state buffer to plan with.
        """
        self._chip, self._room_bytes, self._rows = chip, room_bytes, block_rows(chip)
        self.flows = waits_for_engines(layers)
        self._matrices = {matrix.name: matrix for matrix in layers.matrices}
        self._makers = {name: node for node in layers.nodes for name in node.made}
        self._bridged: dict[str, int] = {}

    def columns(self, node: MultiplyNode) -> int:
        """Return how many blocks of a product's stationary columns go row by row, from the first.

        None do if work keeps the order of nodes, if operands have to come more than once, or if
        loads of weights would not hide behind the vectors of one block's rows.
        """
        if not self.flows or node.diagonal is not None or node.step.cls is Select:
            return 0
        a, b, out = (self._matrices[name] for name in (*node.inputs[:2], node.output))
        plain = out.matrices == 1 and not any(m.block or m.window for m in (a, b, out))
        if not plain or b.cols <= self._rows or not self._have_room(a, b):
            return 0
        array = self._chip.pe_array
        stream = self._rows * array.vector_cycles(b.dtype)
        load = load_reads(self._chip, min(a.rows, array.rows), min(self._rows, array.cols), a.dtype)
        if array.weight_buffer != "double" or load > stream:
            return 0
        each, bridged = -(-a.rows // self._rows) * stream, self._bridged.get(b.name, 0)
        left = max(0, self._late_cycles(b) - bridged)
        found = min(-(-left // each), -(-a.cols // self._rows))
        self._bridged[b.name] = bridged + found * each
        return found

    def _have_room(self, *operands: Matrix) -> bool:
        """Return whether both operands stay on the chip: stationary tiles are loaded repeatedly."""
        return 2 * sum(map(self._lane_bytes, operands)) <= self._room_bytes

    def _lane_bytes(self, matrix: Matrix) -> int:
        size = data_type(matrix.dtype).size_bytes
        return -(-matrix.rows // self._rows) * matrix.cols * size

    def _late_cycles(self, turned: Matrix) -> int:
        """Return about how many cycles of the array pass between two tiles of what is turned.

        They are the elements that engines go over in each lane, step by step, since the array or
        DRAM gave them, and the way of rows that come from DRAM one by one. 0: no engine is between.
        """
        maker = self._makers.get(turned.name)
        if not isinstance(maker, TurnNode):
            return 0
        asked, seen = [maker.inputs[0]], set[str]()
        worked, brought, multiplied = 0, 0, False
        while asked:
            name = asked.pop()
            if name in seen:
                continue
            seen.add(name)
            if (matrix := self._matrices[name]).source.picked:
                brought += self._picked_cycles(matrix)
            made_by = self._makers.get(name)
            if isinstance(made_by, WORKING):
                worked += self._matrices[made_by.inputs[0]].cols
                asked += made_by.inputs
            elif isinstance(made_by, MultiplyNode):
                multiplied = True  # what else is taken has come long before
        return worked + (0 if multiplied else brought) if worked else 0

    def _picked_cycles(self, matrix: Matrix) -> int:
        """Return about how many cycles of the array the rows of a tile take to come from DRAM."""
        cycles = picked_cycles(self._chip, matrix.source.picked[: self._rows])
        return cycles * self._chip.period("dma") // self._chip.period("pe_array")
