"""Matrices and nodes of a graph that is being lowered, and the views in which tensors are there.

Each method makes or notes one thing. Which matrix is wanted, and the way to it, is the builder's
business (`builder`). Not here: tiles, addresses on the chip, order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Concatenate, ParamSpec

from systolic.compiler.cost.turns import BYTES, HALVES, carrier, parts_turned, placed_as, turned_as
from systolic.compiler.ir.change_of_view import Spread
from systolic.compiler.ir.gathers import GatherPart
from systolic.compiler.ir.lane_step import LaneStep
from systolic.compiler.ir.nodes import (
    GIVEN,
    MADE,
    Axes,
    ConvertNode,
    GatherNode,
    Kept,
    Lies,
    Matrix,
    Node,
    RepeatNode,
    Source,
    StoreNode,
    TurnNode,
    UnbrokenRows,
)
from systolic.compiler.ir.on_chip.chip_tiles import block_rows
from systolic.compiler.ir.on_chip.homes import Interleaved, as_interleaved
from systolic.compiler.ir.pixels import PixelWindow
from systolic.compiler.ir.windows import FoldedWindow, MatrixWindow, PartWindow
from systolic.compiler.lower.dram_places import DramPlaces
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.layout import Shape
from systolic.workload import Graph, Tensor
from systolic.workload.options import Options

BlockSize = tuple[int, int] | None
"""A matrix's own tile T(p,q); None for the compilation's."""
_Fields = ParamSpec("_Fields")
PRODUCTS = ("matmul", "conv2d")
"""Operations whose sums keep engines busy: beside them bytes are turned, which need no cast."""
ROOM = 8
"""Whole rows of a batch take no more than this part of a partition."""


class Matrices:
    """What operations have made so far of a graph: matrices, nodes, places in DRAM."""

    def __init__(
        self,
        graph: Graph,
        chip: Chip,
        options: Options,
        dram: DramPlaces | None = None,
        *,
        types: Mapping[str, str],
        packed: Collection[str],
    ) -> None:
        """Begin with a graph; the builder takes the same arguments."""
        self.graph, self.chip, self.options = graph, chip, options
        self._types, self._packed = types, frozenset(packed)
        self._layer = ""
        self.dram = dram or DramPlaces(chip)
        self._nodes: list[Node] = []
        self._matrices: dict[str, Matrix] = {}
        self._views: dict[str, list[tuple[str, Axes]]] = {}
        self._own_tiles: set[str] = set()
        self._choices: list[str] = []
        self._kept: list[Kept] = []
        self._unplaced: set[str] = set()
        self._at_home: set[str] = set()
        self._withdrawn: set[str] = set()
        self._dealt = self._find_dealt()
        for name in graph.inputs:
            if graph.tensor(name).home == "dram":
                self.dram.reserve(name, graph.shape(name))
                self.dram.put(name, name)
            else:
                self._unplaced.add(name)
        for name in graph.outputs:
            if graph.tensor(name).home == "dram":
                self.dram.reserve(name, graph.shape(name))

    def new_name(self, tensor: str) -> str:
        """Return the name of the matrix that is made next."""
        return f"{tensor}.{len(self._matrices)}"

    def add(self, matrix: Matrix) -> Matrix:
        """Note a matrix, in place of an earlier one of the same name, and return it."""
        self._matrices[matrix.name] = matrix
        return matrix

    def placed(self, tensor: str) -> None:
        """Note that the place of an input on the chip is chosen."""
        self._unplaced.discard(tensor)

    def is_unplaced(self, tensor: str) -> bool:
        """Return whether no lowering has said yet how an input on the chip lies."""
        return tensor in self._unplaced

    def is_shown(self, tensor: str) -> bool:
        """Return whether some matrix shows the tensor."""
        return tensor in self._views

    def keep_at_end(self, matrix: Matrix, tensor: str, axes: Axes) -> None:
        """Keep a matrix, in which a tensor lies as `axes`, on the chip until the end."""
        self.add(matrix.lying(keep=True))
        self._kept.append(Kept(tensor, matrix.name, axes, self._layer))

    def begin(self, layer: str) -> None:
        """Begin an operation, to which the following nodes belong."""
        self._layer = layer

    def choose(self, text: str) -> None:
        """Note a decision."""
        self._choices.append(f"{self._layer}: {text}")

    def is_packed(self, tensor: str) -> bool:
        """Return whether a tensor lies on the chip with several elements in a byte."""
        return tensor in self._packed

    def user_type(self, tensor: str) -> str:
        """Return the element type that a tensor has for the user."""
        return self._types.get(tensor, self.graph.shape(tensor).element_type)

    def uses(self, tensor: str) -> int:
        """Return how often operations take a tensor; an output is taken once more, at the end."""
        taken = sum(op.inputs.count(tensor) for op in self.graph.operations)
        return taken + (tensor in self.graph.named)

    def size(self, tensor: str, group: tuple[int, ...]) -> int:
        """Return how many elements a group of a tensor's dimensions makes."""
        dims = self.graph.shape(tensor).dims
        return math.prod(dims[axis] for axis in group)

    def maker(self, tensor: str) -> Node | None:
        """Return the node that makes a tensor which nothing but one operation takes; else None."""
        shown = self._views.get(tensor, ())
        if self.uses(tensor) != 1 or len(shown) != 1:
            return None
        (name, _), every = shown[0], [view for views in self._views.values() for view in views]
        if sum(matrix == name for matrix, _ in every) > 1:
            return None
        return next((node for node in self._nodes if node.made == (name,)), None)

    def matrix(self, name: str) -> Matrix:
        """Return the matrix of that name."""
        return self._matrices[name]

    def make(
        self, tensor: str, axes: Axes, source: Source = MADE, block: BlockSize = None
    ) -> Matrix:
        """Return a new matrix of a tensor seen as `axes`, in its own tiles if any are given."""
        shape, name = self.graph.shape(tensor), self.new_name(tensor)
        dims = tuple(math.prod(shape.dims[d] for d in group) for group in axes)
        if block is None and tensor in self._dealt and self._is_narrow(dims[-1], shape):
            block = block_rows(self.chip), dims[-1]
        matrix = self.add(Matrix(name, tensor, shape.element_type, dims, axes, source, block))
        self.rename(matrix, tensor, axes)
        return matrix

    def result(self, tensor: str, axes: Axes, block: BlockSize = None) -> Matrix:
        """Return a new matrix for a node to make: `tensor` seen as `axes`."""
        return self.make(tensor, axes, MADE, block)

    def result_like(self, tensor: str, axes: Axes, matrix: Matrix) -> Matrix:
        """Return a new matrix for a node to make, in the tiles of another matrix if it has any."""
        return self.result_in(tensor, axes, matrix.block if self.has_own_tiles(matrix) else None)

    def result_in(self, tensor: str, axes: Axes, block: BlockSize) -> Matrix:
        """Return a new matrix for a node to make, in tiles of its own.

        Element-wise work takes it as it is. `view` gives a copy in the compilation's tiles.
        """
        matrix = self.make(tensor, axes, MADE, block)
        if block:
            self._own_tiles.add(matrix.name)
        return matrix

    def has_own_tiles(self, matrix: Matrix) -> bool:
        """Return whether a matrix has tiles that products and reductions cannot take."""
        return matrix.name in self._own_tiles

    def in_tiles(self, matrix: Matrix, block: BlockSize) -> Matrix:
        """Return a matrix in such tiles: a copy, if it has others."""
        if matrix.block == block or matrix.lies.shared:
            return matrix
        copy = self.add(replace(matrix.anew(self.new_name(matrix.tensor)), block=block))
        self.node(ConvertNode, (matrix,), copy)
        return copy

    def in_whole_rows(self, matrix: Matrix) -> Matrix:
        """Return a matrix in tiles of whole rows: itself if nothing has taken it yet, or a copy."""
        block, matrix = (block_rows(self.chip), matrix.cols), self._matrices[matrix.name]
        free = matrix.lies == Lies(repeats=matrix.lies.repeats)
        if free and matrix.block == block:
            return matrix
        taken = any(matrix.name in node.inputs for node in self._nodes)
        if free and not taken and not matrix.block and matrix.source.kind != "state_buffer":
            self._own_tiles.add(matrix.name)
            return self.add(replace(matrix, block=block))
        copy = replace(matrix.anew(self.new_name(matrix.tensor)), block=block)
        copy = self.add(copy.lying(shared=0))
        self.node(ConvertNode, (matrix,), copy)
        return copy

    def load(self, tensor: str, axes: Axes, block: BlockSize = None) -> Matrix:
        """Return a matrix that is brought from DRAM as this view."""
        return self.make(tensor, axes, Source("dram", self.dram.of(tensor)), block)

    def load_rows(self, tensor: str, table: str, rows: Sequence[int]) -> Matrix:
        """Return a matrix of rows of another tensor, which are brought from DRAM one by one."""
        source = Source("dram", self.dram.of(table), tuple(rows))
        return self.make(tensor, ((0,), (1,)), source)

    def place_matrix(
        self,
        shape: Shape,
        axes: Axes,
        tensor: str,
        *,
        dram: str = "",
        shared: int = 0,
        height: int = 0,
    ) -> Matrix:
        """Return a matrix of a place seen as `shape`, for a move to `tensor`.

        dram: the place it is brought from ("": a node makes it). shared: how many queues move each
        of its tiles, which have all of its columns (0: tiles as the compilation cuts them).
        height: the rows of such a tile (0: as many as there are partitions).
        """
        dims = tuple(math.prod(shape.dims[d] for d in group) for group in axes)
        block = (height or self.chip.state_buffer.partitions, dims[-1]) if shared else None
        source, name = Source("dram", dram) if dram else MADE, self.new_name(tensor)
        lies = Lies(shared=shared)
        return self.add(Matrix(name, tensor, shape.element_type, dims, axes, source, block, lies))

    def scratch(
        self, tensor: str, dtype: str, dims: tuple[int, int, int], block: BlockSize
    ) -> Matrix:
        """Return a new matrix [matrices, rows, columns] for a node to make: no view of a tensor."""
        sizes, name = dims if dims[0] > 1 else dims[1:], self.new_name(tensor)
        return self.add(Matrix(name, tensor, dtype, sizes, ((),) * len(sizes), block=block))

    def within_pixels(self, holder: Matrix, window: PixelWindow, rows: int, cols: int) -> Matrix:
        """Return the matrix that a convolution multiplies, which lies within images."""
        name = self.new_name(holder.tensor)
        made = replace(holder, name=name, dims=(*holder.batch, rows, cols))
        return self.add(made.lying(window=window))

    def folded_within(self, holder: Matrix, axes: Axes) -> Matrix:
        """Return the column, seen as `axes`, whose pieces are the columns of a matrix."""
        dims, made = (holder.cols, holder.rows), (*holder.batch, holder.rows * holder.cols, 1)
        outer, inner = Spread(dims, ((1,), (0,))), Spread(dims, ((0, 1), ()))
        window, name = FoldedWindow(holder.name, outer, inner), self.new_name(holder.tensor)
        return self.add(replace(holder, name=name, dims=made, axes=axes).lying(window=window))

    def make_within(
        self, matrix: Matrix, window: PixelWindow, rest: tuple[GatherPart, ...], value: float
    ) -> None:
        """Let the node that makes a matrix write it within another one; a gather makes the rest."""
        number = next(n for n, node in enumerate(self._nodes) if node.output == matrix.name)
        layer = self._nodes[number].layer
        self._nodes.insert(number, GatherNode(layer, (), window.holder, rest, value))
        self.add(matrix.lying(window=window))

    def within(self, holder: Matrix, window: MatrixWindow | FoldedWindow) -> Matrix:
        """Return a matrix whose elements lie within another one's tiles."""
        dims, axes = window.inner.dims, window.inner.axes
        sizes = tuple(math.prod(dims[d] for d in group) for group in axes)
        matrix = replace(
            holder.seen_in(window, self.new_name(holder.tensor)),
            dims=sizes,
            axes=axes,
            block=holder.block and (holder.block[0], sizes[-1]),
        )
        return self.add(matrix)

    def whole_rows(self, tensor: str, dims: tuple[int, ...], axes: Axes, tall: int) -> Matrix:
        """Return a matrix of u8 for a node to make, in tiles of whole rows, `tall` of them."""
        name, block = self.new_name(tensor), (tall, dims[-1])
        return self.add(Matrix(name, tensor, "u8", dims, axes, block=block))

    def at_place(self, matrix: Matrix, home: Tensor, width: int, *, given: bool) -> Matrix:
        """Return a matrix in unbroken rows where a home says; given: it is there at cycle 0."""
        found = replace(matrix, source=GIVEN if given else MADE)
        return self.add(found.lying(rows=UnbrokenRows(width, home.partition, home.byte)))

    def temporary(self, like: Matrix, dtype: str, cols: int) -> Matrix:
        """Return a new matrix of `cols` columns (0: as many), no view of a tensor of the graph."""
        made = like.anew(self.new_name(like.tensor))
        made = replace(made, dtype=dtype, dims=(*made.dims[:-1], cols), block=None)
        return self.add(made.lying(shared=0))

    def repeated(self, matrix: Matrix, tensor: str, rows: int) -> Matrix:
        """Return a matrix of one row, with that row in as many partitions as tiles of `rows` use.

        It is no view of the tensor, whose elements are there several times.
        """
        made, tall = matrix.anew(self.new_name(tensor)), min(rows, block_rows(self.chip))
        made = replace(made, dims=(*made.batch, tall, made.cols), block=None)
        made = self.add(made.lying(shared=0, repeats=True))
        self.node(RepeatNode, (matrix,), made)
        return made

    def turn(self, source: Matrix, result: Matrix) -> None:
        """Let the array make the transpose of a matrix, in parts if no type carries its own."""
        if not parts_turned(self.chip, source.dtype):
            self.node(TurnNode, (self.carried(source),), result)
            return
        if not isinstance(source.window, MatrixWindow | None):
            window, source = source, self.temporary(source, source.dtype, source.cols)
            self.node(ConvertNode, (window,), source)
        given = turned_as(self.chip, source.dtype)
        products = any(op.kind in PRODUCTS for op in self.graph.operations)
        if given == HALVES and (products or not self._has_room_for_halves(source, result)):
            given = placed_as(self.chip, source.dtype)
        many = data_type(source.dtype).size_bytes // data_type(given).size_bytes
        through = carrier(self.chip, given)
        assert through is not None
        how = "byte by byte" if given == BYTES else "half by half"
        cast = "" if through == given else f", as {through}"
        turns = f"{many} turn{'s' if many > 1 else ''}"
        self.choose(f"{source.tensor} is turned {how}{cast}: {turns}")
        for number in range(many):
            taken = self._part(source, many, number, given)
            if through != given:
                taken = self._cast(taken, through)
            self.node(TurnNode, (taken,), self._part(result, many, number, given))

    def _has_room_for_halves(self, source: Matrix, result: Matrix) -> bool:
        """Return whether source, result, halves that are cast and an identity lie side by side."""
        cast = data_type(carrier(self.chip, HALVES) or HALVES).size_bytes
        holders = [self._matrices[name] for name in (source.holder, result.holder)]
        sizes = [data_type(holder.dtype).size_bytes for holder in holders]
        p = block_rows(self.chip)
        needed = sum(
            matrix.matrices * -(-matrix.rows // p) * matrix.cols * size
            for matrix, size in zip((*holders, source), (*sizes, cast), strict=True)
        )
        return needed + p * cast <= self.chip.state_buffer.bytes_per_partition

    def _part(self, matrix: Matrix, many: int, number: int, dtype: str) -> Matrix:
        """Return one byte, or one half, of every element of a matrix, as a matrix within it."""
        assert isinstance(matrix.window, MatrixWindow | None)
        window = PartWindow(matrix.holder, many, number, dtype, matrix.window)
        found = matrix.seen_in(window, self.new_name(matrix.tensor))
        return self.add(replace(found, dtype=dtype))

    def carried(self, source: Matrix) -> Matrix:
        """Return a matrix in a type that the array takes and that has all of its numbers."""
        dtype = carrier(self.chip, source.dtype)
        if dtype is None or dtype == source.dtype:
            return source
        self.choose(f"{source.tensor} is turned as {dtype}, which carries {source.dtype} exactly")
        return self._cast(source, dtype)

    def _cast(self, source: Matrix, dtype: str) -> Matrix:
        """Return a copy of a matrix in another type, for the array."""
        matrix = self.add(replace(source.anew(self.new_name(source.tensor)), dtype=dtype))
        self.node(ConvertNode, (source,), matrix)
        return matrix

    def fixed(self, matrix: Matrix, tensor: str, width: int) -> Matrix:
        """Return the matrix in unbroken rows of `width` elements, where the tensor's place is."""
        home, before = self.graph.tensor(tensor), matrix.lies.rows
        byte = before.byte if before and home.byte is None else home.byte
        return self.add(matrix.lying(rows=UnbrokenRows(width, home.partition, byte)))

    def rename(self, matrix: Matrix, tensor: str, axes: Axes) -> None:
        """Let `matrix` also be `tensor`, seen as `axes`: the same elements, nothing is moved."""
        self._views.setdefault(tensor, []).append((matrix.name, axes))

    def node(
        self,
        kind: Callable[Concatenate[str, tuple[str, ...], str, _Fields], Node],
        inputs: tuple[Matrix, ...],
        output: Matrix,
        *fields: _Fields.args,
        **others: _Fields.kwargs,
    ) -> None:
        """Add a node of a class, with the fields of that class, to the operation begun last."""
        names = tuple(m.name for m in inputs)
        self._nodes.append(kind(self._layer, names, output.name, *fields, **others))

    def add_node(self, node: Node) -> None:
        """Add a node as it is."""
        self._nodes.append(node)

    def sum_up(self, matrix: Matrix, sums: Matrix, step: LaneStep) -> None:
        """Let the node that makes a matrix sum its segments up, by a step that does both."""
        number = next(n for n, node in enumerate(self._nodes) if node.output == matrix.name)
        node = self._nodes[number]
        assert isinstance(node, ConvertNode)
        self._nodes[number] = replace(node, step=step, reduced=sums.name)

    def converted(self, matrix: Matrix) -> ConvertNode | None:
        """Return the node that makes a matrix element by element, and does nothing else."""
        made = (node for node in self._nodes if node.made == (matrix.name,))
        return next((node for node in made if isinstance(node, ConvertNode)), None)

    def withdraw(self, node: Node) -> tuple[tuple[Matrix, ...], Axes]:
        """Take back the only maker of a tensor; return its inputs, and the view that it made.

        The operation that takes the tensor makes a node of its own, which does both.
        """
        self._nodes.remove(node)
        made = self._matrices[node.output]
        del self._views[made.tensor]
        self._withdrawn.add(made.tensor)
        return tuple(self._matrices[name] for name in node.inputs), made.axes

    def is_withdrawn(self, tensor: str) -> bool:
        """Return whether one instruction made a tensor and what took it: nothing shows it."""
        return tensor in self._withdrawn and not self._views.get(tensor)

    def store(self, matrix: Matrix, tensor: str, shape: Shape, axes: Axes, place: str = "") -> None:
        """Write a matrix, which shows `axes` of the tensor, to its place in DRAM."""
        place = place or tensor
        self.dram.reserve(place, shape)
        self.store_at(matrix, place, axes)
        self.dram.put(tensor, place)

    def store_at(self, matrix: Matrix, place: str, axes: Axes, *, background: bool = False) -> None:
        """Write a matrix to a place in DRAM, whose dimensions it shows as `axes`."""
        self._nodes.append(StoreNode(self._layer, (matrix.name,), place, axes, background))

    def store_home(self, matrix: Matrix, tensor: str, axes: Axes) -> None:
        """Write a matrix, which shows an output as `axes`, to the output's place in DRAM."""
        self.store(matrix, tensor, self.graph.shape(tensor), axes)
        self._at_home.add(tensor)

    def store_reshaped(self, matrix: Matrix, source: str, tensor: str, axes: Axes) -> None:
        """Write a view of `source` to the place of a row-major output with the same elements."""
        shape, name = self.graph.shape(source), f"{tensor}.linear"
        self.dram.alias(name, tensor, Shape(shape.element_type, shape.dims))
        self.store_at(matrix, name, axes)
        self._at_home.add(tensor)

    def at_home(self, tensor: str) -> bool:
        """Return whether an output is in the memory in which it lives."""
        return tensor in self._at_home

    def interleaved(self, tensor: str) -> Interleaved | None:
        """Return how a tensor's rows share partitions, if accesses with steps can use them so."""
        shape = self.graph.shape(tensor)
        if self.options.via == "dram" or carrier(self.chip, shape.element_type) is None:
            return None
        found = as_interleaved(self.graph.tensor(tensor), self.chip)
        if found is None:
            return None
        rows, cols = (math.prod(shape.dims[axis] for axis in group) for group in found.axes[-2:])
        return found if self._is_narrow(max(rows, cols * found.ways), shape) else None

    def can_turn(self, dtype: str, *, at_once: bool = False) -> bool:
        """Return whether the array takes the type, one that carries it exactly, or its bytes.

        at_once: the bytes of an element are not turned one after another.
        """
        whole = carrier(self.chip, dtype) is not None
        return whole or (not at_once and parts_turned(self.chip, dtype) > 0)

    def may_lie(self, matrix: Matrix, tensor: str, width: int) -> bool:
        """Return whether a matrix lies where a tensor's tiles say, or may be placed there."""
        home, lies = self.graph.tensor(tensor), matrix.lies.rows
        if lies is None:
            return True
        there = lies.width == width and lies.partition == home.partition
        return there and (home.byte is None or home.byte == lies.byte)

    def spreads(self, dtype: str) -> bool:
        """Return whether a turn of the type spreads infinities and NaN: it multiplies floats."""
        floats = data_type(dtype).accumulator == "f32" and not parts_turned(self.chip, dtype)
        return floats and not self.chip.pe_array.turns_by_passing(dtype)

    def _is_narrow(self, cols: int, shape: Shape) -> bool:
        """Return whether a tile of `cols` columns leaves room for tiles of other matrices."""
        return cols * shape.dtype.itemsize <= self.chip.state_buffer.bytes_per_partition // ROOM

    def _find_dealt(self) -> set[str]:
        """Return the tensors with a view that may be turned to strands: its tiles are not cut.

        They are outputs whose rows share partitions, the tensors that a transpose or a relayout
        brings into such an output, and the operand whose columns become its rows in a product.
        """
        makers = {op.output: op for op in self.graph.operations}
        found: set[str] = set()
        for tensor in self.graph.outputs:
            dealt = self.interleaved(tensor) is not None
            while dealt and tensor not in found:
                found.add(tensor)
                op = makers.get(tensor)
                if op and op.kind in ("transpose", "relayout") and self.uses(op.inputs[0]) == 1:
                    (tensor,) = op.inputs
                elif op and op.kind == "matmul" and (lies := self.interleaved(tensor)):
                    found.add(op.inputs[lies.axes[-2] != (self.graph.shape(tensor).rank - 2,)])
        return found
