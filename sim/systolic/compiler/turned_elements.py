"""Which elements of a tensor the array multiplies by an identity before an operation reads them.

The nodes of the layers are gone through in order, with the number of each element in the place of
its value. So it does not matter through which views, tiles and windows a tensor goes on its way.
Not here: what such products make of a NaN, an infinity or -0.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from systolic.arrays import Integers
from systolic.compiler.ir.carried import NARROW_BITS
from systolic.compiler.ir.nodes import (
    BounceNode,
    ConvertNode,
    Layers,
    Matrix,
    MoveNode,
    Node,
    PackNode,
    RepeatNode,
    StoreNode,
    TensorInDram,
    TurnNode,
    UnpackNode,
)
from systolic.compiler.ir.on_chip.chip_tiles import turn_rows
from systolic.compiler.ir.on_chip.homes import Scattered
from systolic.compiler.ir.windows import PartWindow
from systolic.hw.spec import Chip
from systolic.isa.instruction import Copy
from systolic.layout import Shape
from systolic.spans import Span
from systolic.workload import Graph

NOWHERE = -1
"""The number that stands where a place has no element of the tensor."""
MOVING = (TurnNode, BounceNode, MoveNode, RepeatNode, UnpackNode, PackNode)
"""Nodes that move elements; a conversion may be another."""
MOVES = ("transpose", "relayout", "reshape")
"""Operations whose result has the elements of their operand."""


class TurnedElements(NamedTuple):
    """Elements of a tensor that identity products sum up, as the operation `reader` reads it.

    reader: "" for the end of the run. at: row-major indices of elements, int64 [terms, sums], or
    `NOWHERE`: each column is multiplied by the columns of one identity. Later ones find what
    earlier ones have made.
    """

    reader: str
    tensor: str
    at: Integers


class Content(NamedTuple):
    """What a matrix holds: a tensor's elements, and which of them have been multiplied so far."""

    tensor: str
    sums: tuple[Integers, ...] = ()


def turned_nodes(layers: Layers, chip: Chip, by_engine: frozenset[int]) -> frozenset[int]:
    """Return the numbers of the nodes that are identity products, which lose signs of zeros.

    by_engine: the nodes that an engine turns. Parts of elements are integers, which products with
    an identity leave as they are.
    """
    matrices = {matrix.name: matrix for matrix in layers.matrices}
    return frozenset(
        number
        for number, node in enumerate(layers.nodes)
        if isinstance(node, TurnNode)
        and number not in by_engine
        and not isinstance(matrices[node.output].window, PartWindow)
        and not chip.pe_array.turns_by_passing(matrices[node.inputs[0]].dtype)
    )


def turned_elements(
    graph: Graph, layers: Layers, chip: Chip, block: tuple[int, int], by_engine: frozenset[int]
) -> tuple[TurnedElements, ...]:
    """Return what the array turns of the tensors of a graph, in order.

    block: of the tiles. by_engine: the nodes that an engine turns.
    """
    turned = turned_nodes(layers, chip, by_engine)
    return tuple(_Replay(graph, layers, chip, block).run(turned)) if turned else ()


class _Replay:
    """Follows tensors through the nodes. `_contents`: of each matrix with tiles of its own."""

    def __init__(self, graph: Graph, layers: Layers, chip: Chip, block: tuple[int, int]) -> None:
        self._graph, self._layers, self._chip, self._block = graph, layers, chip, block
        self._matrices = {matrix.name: matrix for matrix in layers.matrices}
        self._tensors = {name for name, _ in graph.tensors}
        self._contents: dict[str, Content] = {}
        self._numbers: dict[str, Integers | None] = {}
        self._read: dict[tuple[str, str], list[Integers]] = {}
        self._made = {op.output for op in graph.operations}
        if len(graph.operations) == 1 and graph.operations[0].kind in MOVES:
            self._made = set()  # nothing but the operation's own input is turned
        self._makers: dict[str, list[Node]] = {}
        for node in layers.nodes:
            for name in node.made:
                self._makers.setdefault(self._matrices[name].holder, []).append(node)
        starts = {place.name: place.start for place in layers.dram}
        tensors = (*self._made, *graph.inputs)
        self._at = {starts[name]: name for name in tensors if name in starts}

    def run(self, turned: frozenset[int]) -> Iterator[TurnedElements]:
        """Go through all nodes; yield what is read behind identity products."""
        for number, node in enumerate(self._layers.nodes):
            self._follow(node, multiplied=number in turned)
        for kept in self._layers.kept:
            self._note(self._content(self._matrices[kept.matrix]), "")
        for (reader, tensor), sums in self._read.items():
            if self._graph.shape(tensor).element_type not in NARROW_BITS:
                yield from (TurnedElements(reader, tensor, at) for at in sums)

    def _follow(self, node: Node, *, multiplied: bool) -> None:
        """Note what a node reads, and what the matrix holds that it makes."""
        sources = [self._matrices[name] for name in node.inputs]
        contents = [self._content(source) for source in sources]
        if multiplied:
            before = contents[0]
            contents = [before._replace(sums=(*before.sums, *self._sums(sources[0])))]
        if isinstance(node, StoreNode):
            self._note(contents[0], "")
            return
        out = self._matrices[node.output]
        made = Content(out.tensor)
        if contents and (contents[0].tensor == out.tensor or self._goes_on(node, out)):
            made, *contents = contents
        for content in contents:
            self._note(content, node.layer)
        there = self._contents.get(out.holder, made).sums
        self._contents[out.holder] = made._replace(sums=_joined(there, made.sums))

    def _goes_on(self, node: Node, out: Matrix) -> bool:
        """Return whether a node moves elements, and the result is not seen as another tensor."""
        moves = isinstance(node, MOVING) or (
            isinstance(node, ConvertNode) and node.step.cls is Copy
        )
        return moves and (out.tensor not in self._made or self._view(out) is None)

    def _note(self, content: Content, layer: str) -> None:
        """Note that an operation of a layer reads what a matrix holds.

        What the compiler adds, such as a predicate, is finite: turned, it is what it was.
        """
        if content.sums and content.tensor in self._tensors:
            key = _reader(self._graph, layer, content.tensor), content.tensor
            self._read[key] = [*_joined(self._read.get(key, ()), content.sums)]

    def _content(self, matrix: Matrix) -> Content:
        """Return what a matrix holds: of what comes from DRAM, the tensor that lies there."""
        if matrix.holder in self._contents:
            return self._contents[matrix.holder]
        source = self._matrices[matrix.holder].source
        if source.kind != "dram" or source.picked:
            return Content(matrix.tensor)
        return Content(self._at.get(self._place(source.dram).start, matrix.tensor))

    def _place(self, name: str) -> TensorInDram:
        return next(place for place in self._layers.dram if place.name == name)

    def _sums(self, source: Matrix) -> Iterator[Integers]:
        """Yield the elements that identity products of a matrix multiply together."""
        numbers = self._seen(source)
        if numbers is None:
            return
        for first, stop in pairwise(turn_rows(source, self._block, self._chip)):
            together = np.moveaxis(numbers[:, first:stop], 1, 0).reshape(stop - first, -1)
            if (together != NOWHERE).any():
                yield together

    # The number of the element in each place of a matrix, [matrices, rows, columns]

    def _seen(self, matrix: Matrix) -> Integers | None:
        """Return the elements of a matrix, through its window; None if they have no numbers."""
        if matrix.holder not in self._numbers:
            self._numbers[matrix.holder] = None
            self._numbers[matrix.holder] = self._held(self._matrices[matrix.holder])
        held = self._numbers[matrix.holder]
        return held if held is None or matrix.window is None else held[_places(matrix)]

    def _held(self, matrix: Matrix) -> Integers | None:
        """Return the elements in the tiles of a matrix."""
        source, tensor = matrix.source, self._content(matrix).tensor
        if source.kind == "dram" and not source.picked and tensor in self._at.values():
            return self._in_dram(matrix, self._graph.shape(tensor))
        view = self._view(matrix) if matrix.tensor == tensor else None
        if view is not None:
            return view
        if source.kind == "state_buffer":
            return self._at_home(matrix)
        held = np.full((matrix.matrices, matrix.rows, matrix.cols), NOWHERE)
        for node in self._makers.get(matrix.name, ()):
            out = self._matrices[node.output]
            seen = self._seen(self._matrices[node.inputs[0]]) if node.inputs else None
            found = None if seen is None else _moved(node, seen, (out.matrices, out.rows, out.cols))
            if found is None:
                return None
            held[... if out.window is None else _places(out)] = found
        return held

    def _view(self, matrix: Matrix) -> Integers | None:
        """Return the elements of a tensor as a matrix shows it; None if it is no view.

        Nor is it one if it shows a tensor that the compiler adds.
        """
        if matrix.tensor not in self._tensors:
            return None
        dims = self._graph.shape(matrix.tensor).dims
        order = [axis for group in matrix.axes for axis in group]
        if sorted(order) != [*range(len(dims))]:
            return None
        sizes = tuple(int(np.prod([dims[axis] for axis in group])) for group in matrix.axes)
        if sizes != matrix.dims:
            return None
        numbers = np.arange(int(np.prod(dims))).reshape(dims).transpose(order)
        return numbers.reshape(matrix.matrices, matrix.rows, matrix.cols)

    def _in_dram(self, matrix: Matrix, shape: Shape) -> Integers:
        """Return the elements of a matrix from a tensor's place, as a part or in other dimensions.

        A dimension of the place that the matrix does not show has padding behind its first index.
        """
        place = self._place(matrix.source.dram)
        dims, order = place.shape.dims, [axis for group in matrix.axes for axis in group]
        index = [np.asarray(0)] * len(dims)
        for axis, numbers in zip(order, np.indices([dims[a] for a in order]), strict=True):
            index[axis] = numbers
        at = np.asarray(place.shape.linear_index(index), np.int64)
        at = at + (place.base - place.start) // place.shape.dtype.itemsize
        found = numbers_at(shape, at)
        return found.reshape(matrix.matrices, matrix.rows, matrix.cols)

    def _at_home(self, matrix: Matrix) -> Integers | None:
        """Return the elements in the places of a tensor's tiles on the chip."""
        homes = (home for home in self._layers.homes if home.matrix == matrix.name)
        home, lies = next(homes, None), matrix.lies.rows
        if home is None or lies is None:
            return None
        tensor = replace(self._graph.tensor(home.tensor), shape=home.shape)
        places = Scattered.of(tensor, self._chip)
        _, partitions, elements = places.sizes()
        held = np.full((partitions + 1, elements + 1), NOWHERE)  # beyond: no element
        held[:-1, :-1] = places.logical(0, Span(0, partitions), Span(0, elements))
        p = (matrix.block or self._block)[0]
        number, row, col = np.ogrid[: matrix.matrices, : matrix.rows, : matrix.cols]
        down = number * -(-matrix.rows // p) + row // p
        address = np.minimum(down * lies.width + col, elements)
        return np.asarray(held[np.minimum(row % p, partitions), address])


def _moved(node: Node, source: Integers, sizes: tuple[int, int, int]) -> Integers | None:
    """Return the elements that a node makes of others; None if it is no move of them."""
    if isinstance(node, TurnNode | BounceNode):
        return np.asarray(source.swapaxes(1, 2))
    if isinstance(node, MoveNode):
        every, change = [Span(0, size) for size in sizes[1:]], node.change
        logical = np.stack([change.target.logical(n, *every) for n in range(sizes[0])])
        return np.asarray(np.where(logical < 0, NOWHERE, source[change.source.locate(logical)]))
    if isinstance(node, RepeatNode):
        return np.asarray(np.broadcast_to(source, sizes))
    return source if source.shape == sizes else None


def _places(matrix: Matrix) -> tuple[Integers, Integers, Integers]:
    """Return the holder's matrices, rows and columns of a matrix, [matrices, rows, columns]."""
    window, every = matrix.window, Span(0, matrix.cols)
    assert window is not None
    numbers = np.array([window.number(n) for n in range(matrix.matrices)])
    rows = np.array([window.row(row) for row in range(matrix.rows)])
    columns = [
        [window.columns(n, row, every) for row in range(matrix.rows)]
        for n in range(matrix.matrices)
    ]
    shape = matrix.matrices, matrix.rows, matrix.cols
    return numbers[:, None, None], rows[None, :, None], np.asarray(columns).reshape(shape)


def numbers_at(shape: Shape, places: Integers) -> Integers:
    """Return the row-major index of the element at each place of a tensor's memory."""
    at = np.asarray(shape.linear_index([*np.indices(shape.dims)]), np.int64).reshape(-1)
    found = np.full(max(int(at.max()), int(places.max())) + 1, NOWHERE)
    found[at] = np.arange(at.size)
    return np.asarray(found[places])


def _joined(before: Sequence[Integers], more: Sequence[Integers]) -> tuple[Integers, ...]:
    """Return sums and further ones: of several matrices that are turned, some are the same."""
    known = {id(each) for each in before}
    return (*before, *(each for each in more if id(each) not in known))


def _reader(graph: Graph, layer: str, tensor: str) -> str:
    """Return the operation in a layer that takes a tensor, or another one that does."""
    if tensor in graph.outputs and not layer:
        return ""
    takers = [op for op in graph.operations if tensor in op.inputs]
    own = [op.name for op in takers if op.layer == layer]
    return next(iter([*own, *(op.name for op in takers)]), layer)
