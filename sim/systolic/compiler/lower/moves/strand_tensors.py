"""Tensors in strands: how they are made, turned, and brought to where an output's tiles say.

What strands are says `strands`. Not here: whether a tensor lies so (`Matrices.interleaved`).
"""

from __future__ import annotations

import math
from dataclasses import replace

from systolic.compiler.cost.turns import carrier
from systolic.compiler.ir.lane_step import LaneStep
from systolic.compiler.ir.nodes import MADE, Axes, ConvertNode, Matrix, Source, TurnNode
from systolic.compiler.ir.on_chip.chip_tiles import block_rows
from systolic.compiler.ir.on_chip.homes import Interleaved
from systolic.compiler.ir.windows import StridedWindow
from systolic.compiler.lower.moves.strands import StrandPart, Strands, turned_parts
from systolic.compiler.lower.view_maker import ViewMaker
from systolic.compiler.lower.views import swap


class StrandTensors:
    """The tensors of a graph that is being lowered which lie in strands."""

    def __init__(self, builder: ViewMaker) -> None:
        self._builder = builder
        self._known: dict[str, Strands] = {}
        self._parts: dict[tuple[str, StrandPart], Matrix] = {}

    def known(self, tensor: str) -> Strands | None:
        """Return the strands of a tensor; None if it never lay so."""
        return self._known.get(tensor)

    def rename(self, strands: Strands, tensor: str, axes: Axes) -> None:
        """Let strands also be `tensor`, seen as `axes`: the same elements, nothing is moved."""
        self._known[tensor] = replace(strands, axes=axes)

    def new(self, tensor: str, axes: Axes, ways: int, source: Source = MADE) -> Strands:
        """Return strands of a tensor, in a matrix of their own."""
        builder = self._builder
        shape = builder.graph.shape(tensor)
        *batch, rows, cols = (math.prod(shape.dims[d] for d in group) for group in axes)
        name, block = builder.new_name(tensor), (block_rows(builder.chip), cols * ways)
        dims = (*batch, -(-rows // ways), cols * ways)
        holder = Matrix(name, tensor, shape.element_type, dims, axes, source, block)
        builder.add(holder)
        self._known[tensor] = Strands(holder, axes, ways, rows)
        return self._known[tensor]

    def fix(self, tensor: str, strands: Strands, width: int) -> Strands:
        """Return strands whose holder lies in unbroken rows, where the tensor's place is."""
        holder = self._builder.fixed(strands.holder, tensor, width)
        self._known[tensor] = replace(strands, holder=holder)
        return self._known[tensor]

    def _part_of(self, strands: Strands, part: StrandPart) -> Matrix:
        """Return a part of strands as a matrix, which lies in the holder at a distance."""
        builder = self._builder
        held = strands.holder
        if (held.name, part) not in self._parts:
            window = StridedWindow(held.name, part.first, part.step)
            matrix = replace(
                held.seen_in(window, builder.new_name(held.tensor)),
                dims=(*held.batch, part.rows, part.cols),
                block=(block_rows(builder.chip), part.cols),
            )
            self._parts[held.name, part] = builder.add(matrix)
        return self._parts[held.name, part]

    def rows_of(self, strands: Strands) -> list[Matrix]:
        """Return the strands one by one: rows of the tensor at one step."""
        many = min(strands.ways, strands.rows)
        return [self._part_of(strands, strands.part(row)) for row in range(many)]

    def each(self, operands: tuple[Strands, ...], output: str, step: LaneStep) -> None:
        """Let an engine make a tensor of others that lie in strands alike: strand by strand."""
        made = self.new(output, operands[0].axes, operands[0].ways)
        rows = [self.rows_of(strands) for strands in operands]
        for *inputs, result in zip(*rows, self.rows_of(made), strict=True):
            self._builder.node(ConvertNode, tuple(inputs), result, step=step)

    def _turn_strands(self, source: Strands, target: Strands) -> None:
        """Turn every strand of a tensor into the columns of its transpose, or into its strands."""
        carried = self._carried_strands(source)
        for here, there in turned_parts(carried, target):
            self._builder.node(
                TurnNode, (self._part_of(carried, here),), self._part_of(target, there)
            )

    def _carried_strands(self, strands: Strands) -> Strands:
        """Return strands in a type that the array takes and that has all of their numbers."""
        builder = self._builder
        held = strands.holder
        dtype = carrier(builder.chip, held.dtype)
        if dtype is None or dtype == held.dtype:
            return strands
        block = block_rows(builder.chip), held.cols
        holder = replace(held.anew(builder.new_name(held.tensor)), dtype=dtype, block=block)
        builder.add(holder)
        made = replace(strands, holder=holder)
        builder.choose(f"{held.tensor} is turned as {dtype}, which carries {held.dtype} exactly")
        for one, other in zip(self.rows_of(strands), self.rows_of(made), strict=True):
            builder.node(ConvertNode, (one,), other)
        return made

    def turned_whole(self, tensor: str) -> Matrix:
        """Return the transpose of a tensor in strands: each of them is turned to its columns."""
        builder = self._builder
        strands = self._known[tensor]
        axes = swap(strands.axes)
        block = block_rows(builder.chip), strands.rows
        matrix = builder.make(tensor, axes, MADE, block)
        self._turn_strands(strands, Strands(matrix, axes, 1, matrix.rows))
        builder.choose(f"{tensor} is turned strand by strand, {strands.ways} to a partition")
        return matrix

    def made(self, tensor: str, lies: Interleaved) -> Matrix:
        """Return the holder of an output whose rows share partitions."""
        builder = self._builder
        builder.place_tiled(tensor)
        before = builder.strands(tensor)
        if before and (before.axes, before.ways) == (lies.axes, lies.ways):
            return self._strands_at_home(tensor, before, lies).holder
        if before is None or before.axes != swap(lies.axes):
            whole = self._whole_columns(builder.view(tensor, swap(lies.axes)))
            before = Strands(whole, swap(lies.axes), 1, whole.rows)
        made = self.new(tensor, lies.axes, lies.ways)
        made = self.fix(tensor, made, lies.width)
        self._turn_strands(before, made)
        builder.choose(f"{tensor} is made strand by strand, {lies.ways} to a partition")
        return made.holder

    def _strands_at_home(self, tensor: str, before: Strands, lies: Interleaved) -> Strands:
        """Return strands where an output's tiles say: those that are there, or a copy of them."""
        if before.holder.tensor == tensor and before.holder.lies.rows is None:
            return self.fix(tensor, before, lies.width)
        if self._builder.may_lie(before.holder, tensor, lies.width):
            return self.fix(tensor, before, lies.width)
        made = self.new(tensor, lies.axes, lies.ways)
        made = self.fix(tensor, made, lies.width)
        for one, other in zip(self.rows_of(before), self.rows_of(made), strict=True):
            self._builder.node(ConvertNode, (one,), other)
        return made

    def _whole_columns(self, matrix: Matrix) -> Matrix:
        """Return a matrix each of whose tiles has all of its columns; a copy if need be."""
        builder = self._builder
        if matrix.window is None and matrix.block and matrix.block[1] >= matrix.cols:
            return matrix
        block = block_rows(builder.chip), matrix.cols
        copy = replace(matrix.anew(builder.new_name(matrix.tensor)), block=block)
        copy = builder.add(copy.lying(shared=0))
        builder.node(ConvertNode, (matrix,), copy)
        return copy
