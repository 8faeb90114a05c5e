"""What identity products of a compiled graph make of tensors that hold a NaN, an infinity or -0.0.

The array turns a matrix by multiplying it with an identity. A NaN or an infinity spreads over the
block that is multiplied, and -0.0 becomes +0.0. All other values stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from systolic.arrays import Array, Integers
from systolic.compiler import CompiledGraph
from systolic.compiler.ir.carried import NARROW_BITS
from systolic.compiler.ir.nodes import (
    ConvertNode,
    Matrix,
    MoveNode,
    StoreNode,
    TensorInDram,
    TurnNode,
)
from systolic.compiler.ir.on_chip.chip_tiles import turn_rows
from systolic.compiler.ir.windows import DigitWindow, MatrixWindow, PartWindow, StridedWindow
from systolic.hw.spec import Chip
from systolic.layout import pack, unpack
from systolic.run.tensors import as_matrices, as_tensor
from systolic.spans import Span
from systolic.workload import (
    Graph,
    Operation,
    TransposeAttributes,
    numpy_transpose,
    reference_transpose,
)

ReaderTurns = dict[tuple[str, str], Callable[[Array], Array]]
"""An operation and a tensor: what identity products make of its values before they are read."""


class IdentityProducts:
    """The identity products of a compiled graph on a chip."""

    def __init__(self, compiled: CompiledGraph, chip: Chip) -> None:
        self._compiled, self._chip = compiled, chip
        self._graph, self._layers = compiled.graph, compiled.layers

    @property
    def lose_signs(self) -> bool:
        """Return whether the sign of some zero may be lost."""
        return any(map(self._multiplies, range(len(self._layers.nodes))))

    def transposed(self, op: Operation, data: Array) -> Array:
        """Return the result of a lone transpose as its identity products leave it."""
        axes = op.attributes_as(TransposeAttributes).axes
        nodes = enumerate(self._layers.nodes)
        turned = [n.inputs[0] for k, n in nodes if self._multiplies(k)]
        if turns_whole(data):
            return numpy_transpose(data, axes)  # what the array turns is as numpy has it
        if turned and self._has_window(DigitWindow):
            return self._as_digits_leave_it(op, data)
        if self._has_window(StridedWindow):
            return self._as_strands_leave_it(op, data)
        narrow = self._graph.shape(op.output).element_type in NARROW_BITS
        if not turned or narrow:
            return numpy_transpose(data, axes)
        matrix = self._layers.matrix(turned[0])
        if self._is_of_factors(matrix, op):
            return numpy_transpose(self._factors_as_turned(op.inputs[0], data), axes)
        back = {axis: place for place, axis in enumerate(axes)}
        *batch, rows, cols = (tuple(back[axis] for axis in group) for group in matrix.axes)
        found = self._turned(matrix, data)
        return as_tensor(found, (*batch, cols, rows), self._graph.shape(op.output).dims)

    def inputs_as_turned(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the inputs as identity products leave them.

        Signs of zeros matter too: a quotient shows them.
        """
        found, twice = dict(inputs), dict[str, Array]()
        first, *others = self._graph.operations
        if self._has_window(DigitWindow):
            return found | self._digits_as_turned(inputs)
        if first.kind == "relayout" and not others and self._has_window(StridedWindow):
            (name,) = first.inputs
            if turns_whole(inputs[name]):
                return found
            return {name: self._as_strands_leave_it(first, inputs[name])}
        for number, node in enumerate(self._layers.nodes):
            if not self._multiplies(number):
                continue
            matrix = self._layers.matrix(node.inputs[0])
            of_layer = [op for op in self._graph.operations if op.layer == node.layer]
            op = next((op for op in of_layer if op.output == matrix.tensor), of_layer[0])
            name = op.inputs[0] if self._is_of_factors(matrix, op) else matrix.tensor
            if name not in inputs or turns_whole(inputs[name]):
                continue
            place = self._shown_place(matrix)
            if place is not None and place.shape.dims != inputs[name].shape:
                found[name] = self._factors_as_turned(name, inputs[name])
                continue
            before = twice.get(matrix.holder, inputs[name])
            found[name] = self._as_left(matrix, before)
            twice[self._layers.matrix(node.output).holder] = found[name]
        return found

    def by_reader(self) -> ReaderTurns:
        """Return the tensors made on the way that identity products turn, by what reads them so."""
        graph, layers = self._graph, self._layers
        made = {op.output: op for op in graph.operations}
        turned: dict[str, tuple[str, Callable[[Array], Array]]] = {}
        found: ReaderTurns = {}
        if len(made) == 1 and graph.operations[0].kind in ("relayout", "reshape"):
            return found  # what its turns do, they do to its input (`inputs_as_turned`)
        for number, node in enumerate(layers.nodes):
            sources = [layers.matrix(name) for name in node.inputs]
            read = [each for each in sources if each.holder in turned]
            if self._multiplies(number):
                result = layers.matrix(node.output)
                known = result.tensor in made and sources[0].tensor in made
                if known and any(result.axes) and result.window is None:
                    axes = (*result.axes[:-2], result.axes[-1], result.axes[-2])
                    matrix = replace(sources[0], axes=axes)
                    turned[result.holder] = result.tensor, partial(self._as_left, matrix)
                continue
            if node.output and read and layers.matrix(node.output).tensor == read[0].tensor:
                turned[layers.matrix(node.output).holder] = turned[read[0].holder]
                continue
            for each in read:
                tensor, turn = turned[each.holder]
                layer = "" if isinstance(node, StoreNode) else node.layer
                found[_reader(graph, layer, tensor), tensor] = turn
        for kept in layers.kept:
            if (holder := layers.matrix(kept.matrix).holder) in turned:
                tensor, turn = turned[holder]
                found[_reader(graph, "", tensor), tensor] = turn
        return found

    def _turned(self, matrix: Matrix, data: Array) -> Array:
        """Return what identity products make of a matrix, [batch..., columns, rows]."""
        return self._turn(matrix, as_matrices(data, matrix.axes))

    def _turn(self, matrix: Matrix, matrices: Array) -> Array:
        """Return what identity products make of a matrix's elements, [batch..., columns, rows].

        If rows share partitions, the rows of each strand are multiplied together. Elements that
        pass through the array keep their bits.
        """
        last = matrices.ndim - 1
        swapped = (*range(last - 1), last, last - 1)
        if self._chip.pe_array.turns_by_passing(matrix.dtype):
            return matrices.transpose(swapped)
        ways = self._ways(matrix, matrices)
        if ways == 1:
            bounds = turn_rows(matrix, self._compiled.tiled.block, self._chip)
            return reference_transpose(matrices, swapped, row_blocks=bounds, row_axes=(last - 1,))
        found = np.empty([matrices.shape[axis] for axis in swapped], matrices.dtype)
        for strand in range(min(ways, matrices.shape[-2])):
            rows = matrices[..., strand::ways, :]
            bounds = turn_rows(
                replace(matrix, dims=(*matrix.batch, rows.shape[-2], matrix.cols)),
                self._compiled.tiled.block,
                self._chip,
            )
            turned = reference_transpose(rows, swapped, row_blocks=bounds, row_axes=(last - 1,))
            found[..., strand::ways] = turned
        return found

    def _multiplies(self, number: int) -> bool:
        """Return whether a node is made of identity products, in which signs of zeros are lost."""
        node = self._layers.nodes[number]
        if not isinstance(node, TurnNode) or number in self._compiled.scheduled.by_engine:
            return False
        source, made = (self._layers.matrix(name) for name in (node.inputs[0], node.output))
        if isinstance(made.window, PartWindow):
            return False  # parts are integers, which products with an identity leave as they are
        return not self._chip.pe_array.turns_by_passing(source.dtype)

    def _ways(self, matrix: Matrix, matrices: Array) -> int:
        """Return how many rows of a tensor share a row of the matrix in which they lie."""
        if not isinstance(matrix.window, StridedWindow):
            return 1
        columns: int = matrices.shape[-1]
        return self._layers.matrix(matrix.holder).cols // columns

    def _is_of_factors(self, matrix: Matrix, op: Operation) -> bool:
        """Return whether a turned matrix shows the factors of a move, not dimensions of a tensor.

        Rows that were picked from a place are dimensions of the result.
        """
        if matrix.tensor != op.output or op.row.index_map is not None:
            return False
        return self._shown_place(matrix) is not None

    def _shown_place(self, matrix: Matrix) -> TensorInDram | None:
        """Return the place in DRAM from which a matrix comes, as it is or in another type."""
        nodes = {node.output: node for node in self._layers.nodes}
        while (
            not matrix.source.dram
            and (node := nodes.get(matrix.holder))
            and isinstance(node, ConvertNode)
        ):
            matrix = self._layers.matrix(node.inputs[0])
        return next(
            (place for place in self._layers.dram if place.name == matrix.source.dram), None
        )

    def _factors_as_turned(self, name: str, data: Array) -> Array:
        """Return a tensor as identity products of its factors leave it, in logical order.

        Tiles that leave gaps cut it into parts, each with factors of its own; the array may turn
        some of the parts, and the padding that came with them stays behind.
        """
        shape, layers = self._graph.shape(name), self._layers
        start = next((place.start for place in layers.dram if place.name == name), None)
        if start is None:
            return data
        memory = pack(data, shape).ravel().copy()
        for number, node in enumerate(layers.nodes):
            if not self._multiplies(number):
                continue
            matrix = layers.matrix(node.inputs[0])
            part = self._shown_place(matrix)
            if part is not None and part.start == start:
                places = _places_shown(matrix, part)
                turned = np.swapaxes(self._turn(matrix, memory[places]), -1, -2)
                memory[places] = turned
        return unpack(memory, shape)

    def _as_left(self, matrix: Matrix, values: Array) -> Array:
        """Return a tensor as identity products of a matrix of it leave it, in logical order."""
        turned = np.swapaxes(self._turned(matrix, values), -1, -2)
        return as_tensor(turned, matrix.axes, values.shape)

    def _has_window(self, kind: type) -> bool:
        """Return whether a matrix is seen through a window of a kind."""
        return any(isinstance(m.window, kind) for m in self._layers.matrices)

    def _digits_as_turned(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the inputs that move from place to place, as identity products leave them."""
        found: dict[str, Array] = {}
        (first, *_), layers = self._graph.operations, self._layers
        for home in layers.homes:
            if home.tensor not in inputs or turns_whole(inputs[home.tensor]):
                continue
            data = inputs[home.tensor]
            held = self._held_by_digits(home.tensor, data)
            if len(held) == 1:
                continue
            last = layers.matrix([*held][-1])
            if any(last.axes):  # rows of an operand
                found[home.tensor] = as_tensor(held[last.name], last.axes, data.shape)
            else:
                made = self._as_digits_leave_it(first, data)
                found[home.tensor] = made.reshape(data.shape)
        return found

    def _as_digits_leave_it(self, op: Operation, data: Array) -> Array:
        """Return the result of a lone move between places on the chip as its products leave it."""
        held = self._held_by_digits(op.inputs[0], data)
        last = next(home.matrix for home in self._layers.homes if home.tensor == op.output)
        found = self._compiled.placements()[op.output].array(
            np.ascontiguousarray(held[last]).view(np.uint8)
        )
        return np.asarray(found)

    def _held_by_digits(self, tensor: str, data: Array) -> dict[str, Array]:
        """Return what the matrices hold that a tensor on the chip goes through, place by place."""
        layers = self._layers
        home = next(home for home in layers.homes if home.tensor == tensor)
        source = layers.matrix(home.matrix)
        if any(source.axes):
            return {source.name: data}
        image = self._compiled.placements()[tensor].image(data).view(data.dtype)
        held = {source.name: image.reshape(source.rows, source.cols)}
        for number, node in enumerate(layers.nodes):
            taken, made = layers.matrix(node.inputs[0]), layers.matrix(node.output)
            if taken.holder not in held or not isinstance(node, TurnNode | ConvertNode):
                continue
            if made.window is None:  # all places, in a type that the array takes
                held[made.name] = held[taken.holder]
                continue
            if not isinstance(made.window, DigitWindow):
                continue
            elements = held[taken.holder][_places_in_holder(taken)]
            if isinstance(node, TurnNode) and self._multiplies(number):
                elements = self._turn(taken, elements)
            elif isinstance(node, TurnNode):
                elements = elements.swapaxes(1, 2)
            there = layers.matrix(made.holder)
            empty = np.zeros((there.rows, there.cols), data.dtype)
            held.setdefault(made.holder, empty)[_places_in_holder(made)] = elements
        return held

    def _as_strands_leave_it(self, op: Operation, data: Array) -> Array:
        """Return the result of a lone transpose or relayout as all its identity products leave it.

        It may be turned twice, and each time a NaN or an infinity spreads over a block.
        """
        layers, held = self._layers, dict[str, Array]()
        for node in layers.nodes:
            if isinstance(node, StoreNode):
                stored = layers.matrix(node.inputs[0]).holder
                return as_tensor(held[stored], node.axes, self._graph.shape(op.output).dims)
            source, made = layers.matrix(node.inputs[0]), layers.matrix(node.output)
            if _is_scattered(source):  # it is collected from its tiles as a view
                held[made.holder] = as_matrices(data, made.axes)
            if _is_scattered(made):
                dims = self._graph.shape(source.tensor).dims
                return as_tensor(held[source.holder], source.axes, dims)
            if source.holder not in held and not _is_scattered(source):
                held[source.holder] = as_matrices(data, source.axes)
            if made.holder not in held:
                before = held[source.holder]
                held[made.holder] = (
                    self._turn(source, before)
                    if isinstance(node, TurnNode)
                    else self._moved(op, (source, made), before)
                    if isinstance(node, MoveNode)
                    else before
                )
        last = layers.matrix(layers.nodes[-1].output).holder
        axes = layers.matrix(last).axes
        return as_tensor(held[last], axes, self._graph.shape(op.output).dims)

    def _moved(self, op: Operation, ends: tuple[Matrix, Matrix], matrices: Array) -> Array:
        """Return the matrices of one view as another shows them, after a transpose between them."""
        (source, made), graph = ends, self._graph
        tensor = as_tensor(matrices, source.axes, graph.shape(source.tensor).dims)
        if source.tensor != made.tensor and op.kind == "transpose":
            tensor = tensor.transpose(op.attributes_as(TransposeAttributes).axes)
        return as_matrices(tensor, made.axes)


def _places_shown(matrix: Matrix, part: TensorInDram) -> Integers:
    """Return where elements of a part lie in its tensor, [batch..., rows, columns].

    A dimension of the part that the matrix does not show has padding behind its first index.
    """
    window = matrix.window
    dims = window.inner.dims if isinstance(window, MatrixWindow) else part.shape.dims
    shown = [axis for group in matrix.axes for axis in group]
    index = [np.asarray(0)] * len(dims)
    grid = np.indices([dims[axis] for axis in shown])
    for axis, numbers in zip(shown, grid, strict=True):
        index[axis] = numbers
    first = (part.base - part.start) // part.shape.dtype.itemsize
    found = np.asarray(first + part.shape.linear_index(index), np.int64)
    return found.reshape([math.prod(dims[axis] for axis in group) for group in matrix.axes])


def _reader(graph: Graph, layer: str, tensor: str) -> str:
    """Return the operation in a layer that takes a tensor, or another one that does."""
    if tensor in graph.outputs and not layer:
        return ""
    takers = [op for op in graph.operations if tensor in op.inputs]
    own = [op.name for op in takers if op.layer == layer]
    return next(iter([*own, *(op.name for op in takers)]), layer)


def _places_in_holder(matrix: Matrix) -> tuple[Array, Array]:
    """Return the holder's rows and columns of a matrix, [matrices, rows, columns]."""
    assert matrix.window is not None
    rows = matrix.window.row(0) + np.arange(matrix.rows)
    every = Span(0, matrix.cols)
    columns = [matrix.window.columns(n, 0, every) for n in range(matrix.matrices)]
    return rows[None, :, None], np.stack(columns)[:, None, :]


def _is_scattered(matrix: Matrix) -> bool:
    """Return whether a matrix is the places of a tensor's tiles, which no view shows."""
    return not any(matrix.axes)


def turns_whole(values: Array) -> bool:
    """Return whether identity products leave every element as it is."""
    with np.errstate(invalid="ignore"):  # a signalling NaN
        negative_zeros = (values == 0) & np.signbit(values)
        return bool(np.isfinite(values).all() and not negative_zeros.any())
