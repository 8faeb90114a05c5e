"""The first pass: a graph of operations becomes layers of nodes and the matrices between them.

The builder holds, for each tensor, the matrices it is known as. A lowering (`lowerings`) asks for
the view it needs; the builder finds the cheapest way: it is there, its transpose is (a turn), or
DRAM has it. Not here: tiles, addresses on the chip, order.
"""

from __future__ import annotations

import math
from dataclasses import replace

from sim.compiler.dram import DramTensor
from sim.compiler.matrix import Axes, DramPlace, Kept, Layers, Matrix, Node
from sim.compiler.moves import move_cost
from sim.compiler.options import Options
from sim.compiler.spread import Change, Spread
from sim.errors import CompileError
from sim.hw.datatypes import DATA_TYPES
from sim.hw.spec import Chip
from sim.hw.timing import dma_cycles, load_reads, result_cycles
from sim.layout import Layout, Shape
from sim.workload import Graph, Tensor


def physical(shape: Shape) -> Axes:
    """Return the view that a tensor has on the chip: its dimensions from major to minor."""
    order = shape.layout.major_to_minor
    if len(order) < 2:
        return ((), tuple(order))
    return tuple((axis,) for axis in order)


def _ends_in(group: tuple[int, ...], minor: tuple[int, ...]) -> bool:
    return group[len(group) - len(minor) :] == minor


def swap(axes: Axes) -> Axes:
    """Return the view of the transposed matrices."""
    return (*axes[:-2], axes[-1], axes[-2])


def lies_as(shape: Shape, axes: Axes) -> bool:
    """Return whether a tensor of the shape may live on the chip as `axes`.

    A matrix has its minor dimension along the address and the other on the partitions. Of more
    dimensions, neighbours may share either: they lie in the layout's order from the batch over
    the partitions to the address.
    """
    if shape.rank <= 2:
        return axes == physical(shape)
    order = tuple(axis for group in axes for axis in group)
    return order == shape.layout.major_to_minor and bool(axes[-1])


class LayerBuilder:
    """Collects nodes and matrices while operations are lowered one by one."""

    def __init__(self, graph: Graph, chip: Chip, options: Options) -> None:
        self.graph, self.chip, self.options = graph, chip, options
        self.layer = ""
        self._nodes: list[Node] = []
        self._matrices: dict[str, Matrix] = {}
        self._views: dict[str, list[str]] = {}
        self._dram: dict[str, tuple[Shape, int]] = {}
        self._in_dram: dict[str, str] = {}
        self._next_byte = 0
        self._choices: list[str] = []
        self._kept: list[Kept] = []
        self._renamed: dict[tuple[str, Axes], str] = {}
        self._unplaced: set[str] = set()
        self._at_home: set[str] = set()
        for name in graph.inputs:
            self._input(name, graph.tensor(name))
        for name in graph.outputs:
            if graph.tensor(name).home == "dram":
                self._reserve(name, graph.shape(name))

    def layers(self) -> Layers:
        """Return what has been collected."""
        dram = tuple(
            DramPlace(name, str(shape), base, _dram_bytes(shape))
            for name, (shape, base) in self._dram.items()
        )
        used = {n for node in self._nodes for n in (*node.inputs, node.output)}
        used |= {kept.matrix for kept in self._kept}
        matrices = tuple(m for m in self._matrices.values() if m.name in used)
        return Layers(tuple(self._nodes), matrices, dram, tuple(self._kept), tuple(self._choices))

    def choose(self, text: str) -> None:
        """Note a decision."""
        self._choices.append(f"{self.layer}: {text}")

    # Tensors and their places

    def _input(self, name: str, tensor: Tensor) -> None:
        if tensor.home == "dram":
            self._reserve(name, tensor.shape)
            self._in_dram[name] = name
        else:
            self._unplaced.add(name)

    def _reserve(self, name: str, shape: Shape) -> None:
        size = _dram_bytes(shape)
        have = self.chip.dram.size_bytes
        if self._next_byte + size > have:
            raise CompileError(
                f"dram of {self.chip.name} has no room for {name}: {shape} needs {size} bytes "
                f"beside {self._next_byte} of others, found size_bytes = {have}"
            )
        self._dram[name] = shape, self._next_byte
        self._next_byte += size

    def place(
        self, tensor: str, axes: Axes, block: tuple[int, int] | None = None
    ) -> Matrix:  # fmt: skip
        """Have an input on the chip lie as `axes` from the start, in blocks of its own if given."""
        self._unplaced.discard(tensor)
        return self._add(self._make(tensor, axes, "state_buffer", block=block))

    def _settle(self, tensor: str) -> None:
        """Have an input on the chip that nobody has placed lie as its layout says."""
        if tensor in self._unplaced:
            self.place(tensor, physical(self.graph.shape(tensor)))

    def _make(self, tensor: str, axes: Axes, source: str, **more: object) -> Matrix:
        shape = self.graph.shape(tensor)
        sizes = [math.prod(shape.dims[d] for d in group) for group in axes]
        number = len(self._matrices)
        return Matrix(
            f"{tensor}.{number}", tensor, shape.element_type, tuple(sizes[:-2]), sizes[-2],
            sizes[-1], axes, source, **more,  # type: ignore[arg-type]
        )  # fmt: skip

    def _add(self, matrix: Matrix) -> Matrix:
        self._matrices[matrix.name] = matrix
        self._views.setdefault(matrix.tensor, []).append(matrix.name)
        return matrix

    # What lowerings ask for

    def result(
        self, tensor: str, axes: Axes, block: tuple[int, int] | None = None
    ) -> Matrix:  # fmt: skip
        """Return a new matrix for a node to make: `tensor` seen as `axes`."""
        return self._add(self._make(tensor, axes, "node", block=block))

    def load(
        self, tensor: str, axes: Axes, block: tuple[int, int] | None = None
    ) -> Matrix:  # fmt: skip
        """Return a matrix that is brought from DRAM so."""
        place = self._in_dram[tensor]
        return self._add(self._make(tensor, axes, "dram", dram=place, block=block))

    def node(self, kind: str, inputs: tuple[Matrix, ...], output: Matrix) -> None:
        """Add a node."""
        names = tuple(m.name for m in inputs)
        self._nodes.append(Node(kind, self.layer, names, output.name))  # type: ignore[arg-type]

    def rename(self, matrix: Matrix, tensor: str, axes: Axes) -> None:
        """Let `matrix` also be `tensor`, seen as `axes`: the same elements, nothing is moved."""
        self._renamed[tensor, axes] = matrix.name

    def view(self, tensor: str, axes: Axes) -> Matrix:
        """Return a matrix of the tensor seen as `axes`, moved or turned if need be."""
        if found := self.known(tensor, axes):
            return found
        turned = swap(axes)
        source = self.known(tensor, turned)
        if source is None and tensor in self._in_dram:
            if not self.turn_is_cheaper(tensor, axes):
                return self.load(tensor, axes)
            source = self.load(tensor, turned)
        if self.options.via == "dram":
            self.to_dram(tensor)
            return self.load(tensor, axes)
        if source is not None and self.can_turn(source.dtype):
            return self.turned(source, tensor, axes)
        return self._changed(tensor, axes)

    def turned(self, source: Matrix, tensor: str, axes: Axes) -> Matrix:
        """Return `source` turned by identity products, which shows the tensor as `axes`."""
        result = self.result(tensor, axes)
        self.node("turn", (source,), result)
        return result

    def moved(self, source: Matrix, change: Change, tensor: str, axes: Axes) -> Matrix:
        """Return the elements of `source` as the matrices of another view, moved on the chip."""
        result = self.result(tensor, axes)
        names, kind = (source.name,), "move"
        self._nodes.append(Node(kind, self.layer, names, result.name, change=change))  # type: ignore[arg-type]
        return result

    def _changed(self, tensor: str, axes: Axes) -> Matrix:
        """Move what is on the chip to another view: at once, or by way of a turn."""
        dims, size = self.graph.shape(tensor).dims, self.graph.shape(tensor).dtype.itemsize

        def change(seen: Axes, wanted: Axes) -> Change:
            return Change(Spread(dims, seen), Spread(dims, wanted))

        def cost(seen: Axes, wanted: Axes) -> int:
            if seen == wanted:
                return 0
            return move_cost(self.chip, self.options, change(seen, wanted), size)

        ways: list[tuple[int, Matrix, Axes, Axes]] = []
        for matrix, seen in self.views(tensor):
            ways.append((cost(seen, axes), matrix, seen, axes))
            if self.can_turn(matrix.dtype):
                ways.append((cost(seen, swap(axes)) + self.turn_cost(tensor, swap(axes)),
                             matrix, seen, swap(axes)))  # fmt: skip
                ways.append((cost(swap(seen), axes) + self.turn_cost(tensor, seen),
                             matrix, swap(seen), axes))  # fmt: skip
        cycles, matrix, seen, wanted = min(ways, key=lambda way: way[0])
        self.choose(f"{tensor} changes its view on the chip (about {cycles} cycles)")
        first = self.known(tensor, seen) or self.turned(matrix, tensor, seen)
        if seen != wanted:
            first = self.moved(first, change(seen, wanted), tensor, wanted)
        return first if wanted == axes else self.turned(first, tensor, axes)

    def turn_is_cheaper(self, tensor: str, axes: Axes) -> bool:
        """Return whether to bring the transpose of the view and turn it; note it if so."""
        if self.options.via == "dram":
            return False
        turned = (*axes[:-2], axes[-1], axes[-2])
        direct, through = self.load_cost(tensor, axes), self._turned_cost(tensor, turned)
        if self.options.via is None and direct <= through:
            return False
        self.choose(
            f"{tensor} is turned by identity products (about {through} cycles; a transposing "
            f"DMA: {direct})"
        )
        return True

    def known(self, tensor: str, axes: Axes) -> Matrix | None:
        """Return the matrix that shows the tensor so, if there is one."""
        self._settle(tensor)
        if name := self._renamed.get((tensor, axes)):
            return self._matrices[name]
        names = self._views.get(tensor, ())
        return next((m for n in names if (m := self._matrices[n]).axes == axes), None)

    def views(self, tensor: str) -> list[tuple[Matrix, Axes]]:
        """Return all matrices that show the tensor, and as which axes."""
        self._settle(tensor)
        named = [
            (self._matrices[matrix], axes)
            for (name, axes), matrix in self._renamed.items() if name == tensor
        ]  # fmt: skip
        own = [self._matrices[name] for name in self._views.get(tensor, ())]
        return named + [(matrix, matrix.axes) for matrix in own]

    def any_view(self, tensor: str) -> tuple[Matrix, Axes]:
        """Return some matrix of the tensor, and the axes it shows."""
        if views := self.views(tensor):
            return views[0]
        axes = physical(self.dram_shape(tensor))
        return self.load(tensor, axes), axes

    def can_turn(self, dtype: str) -> bool:
        """Return whether the array takes the type."""
        return dtype in self.chip.pe_array.cycles_per_vector

    def in_dram(self, tensor: str) -> bool:
        """Return whether the tensor lies in DRAM."""
        return tensor in self._in_dram

    def to_dram(self, tensor: str) -> str:
        """Have the tensor written to DRAM if it is not there; return the name of its place."""
        if tensor not in self._in_dram:
            matrix, axes = self.any_view(tensor)
            shape = self.graph.shape(tensor)
            plain = Shape(shape.element_type, shape.dims)
            self.store(matrix, tensor, plain, axes)
        return self._in_dram[tensor]

    def store(self, matrix: Matrix, tensor: str, shape: Shape, axes: Axes) -> None:
        """Write a matrix, which shows `axes` of the tensor, to its place in DRAM."""
        if tensor not in self._dram:
            self._reserve(tensor, shape)
        self._nodes.append(Node("store", self.layer, (matrix.name,), "", tensor, axes))
        self._in_dram[tensor] = tensor

    def alias(self, tensor: str, place: str) -> None:
        """Say that a row-major tensor lies in DRAM where another row-major one does."""
        _, base = self._dram[place]
        shape = self.graph.shape(tensor)
        name = f"{tensor}.linear"
        self._dram[name] = Shape(shape.element_type, shape.dims), base
        self._in_dram[tensor] = name

    def place_of(self, tensor: str) -> str:
        """Return the name of the tensor's place in DRAM."""
        return self._in_dram[tensor]

    def dram_shape(self, tensor: str) -> Shape:
        """Return the shape, with layout, of the tensor as it lies in DRAM."""
        return self._dram[self._in_dram[tensor]][0]

    def store_reshaped(self, matrix: Matrix, source: str, tensor: str, axes: Axes) -> None:
        """Write a view of `source` to where a row-major output lives that has its elements."""
        shape, name = self.graph.shape(source), f"{tensor}.linear"
        self._dram[name] = Shape(shape.element_type, shape.dims), self._dram[tensor][1]
        self._nodes.append(Node("store", self.layer, (matrix.name,), "", name, axes))
        self._at_home.add(tensor)

    def unplaced(self, tensor: str) -> bool:
        """Return whether a tensor is an input on the chip that may still lie as one likes."""
        return tensor in self._unplaced

    def store_as(self, matrix: Matrix, tensor: str, place: str, shape: Shape, axes: Axes) -> None:
        """Write a matrix of `tensor` to a place of another name in DRAM."""
        self._reserve(place, shape)
        self._nodes.append(Node("store", self.layer, (matrix.name,), "", place, axes))
        self._in_dram.setdefault(tensor, place)
        self._in_dram[place] = place

    def storable(self, tensor: str, minor: tuple[int, ...]) -> tuple[Matrix, Axes]:
        """Return the view of a tensor to write to DRAM, where it has those dimensions minor-most.

        One whose columns end in them, so that runs are long: there, turned, or moved.
        """
        matrix, axes = self.any_view(tensor)
        views = [view for view in self.views(tensor) if _ends_in(view[1][-1], minor)]
        if views:
            return views[0]
        if _ends_in(axes[-2], minor) and self.can_turn(matrix.dtype):
            return self.turned(matrix, tensor, swap(axes)), swap(axes)
        rest = [axis for group in axes for axis in group if axis not in minor]
        if self.options.via == "dram" or not rest:
            return matrix, axes
        wanted = (*((axis,) for axis in rest), minor)
        return self._changed(tensor, wanted), wanted

    def keep(self, tensor: str, axes: Axes) -> None:
        """Have the tensor stand on the chip at the end, seen as `axes` or as they allow."""
        if not self.known(tensor, axes):
            shape = self.graph.shape(tensor)
            seen = [v for m, v in self.views(tensor) if m.source != "dram" and lies_as(shape, v)]
            axes = seen[0] if seen else axes
        matrix = self.view(tensor, axes)
        if matrix.source == "dram":
            copied = self.result(tensor, axes)
            self.node("convert", (matrix,), copied)
            matrix = copied
        self.keep_matrix(tensor, matrix, axes)

    def keep_matrix(self, tensor: str, matrix: Matrix, axes: Axes) -> None:
        """Have a matrix, which shows the tensor as `axes`, stand on the chip at the end."""
        self._matrices[matrix.name] = replace(matrix, keep=True)
        self._kept.append(Kept(tensor, matrix.name, axes))
        self._at_home.add(tensor)

    def store_as_seen(self, matrix: Matrix, tensor: str, axes: Axes) -> None:
        """Write a matrix to where an output lives in DRAM, as which it shows `axes`."""
        self.store(matrix, tensor, self.graph.shape(tensor), axes)
        self._at_home.add(tensor)

    def at_home(self, tensor: str) -> bool:
        """Return whether an output has been brought to where it lives."""
        return tensor in self._at_home

    # Estimates

    def load_cost(self, tensor: str, axes: Axes) -> int:
        """Return about how many cycles a queue takes to bring the tensor as `axes`."""
        shape, base = self._dram[self._in_dram[tensor]]
        dram = DramTensor(shape, base, axes)
        matrix = self._make(tensor, axes, "dram")
        rows, cols = min(matrix.rows, 8), min(matrix.cols, 256)
        size = shape.dtype.itemsize
        batch = (0,) * len(matrix.batch)
        cycles = 0
        for part in dram.rectangles(batch, (0, 0), (rows, cols)):
            step, run = part.access.pattern[-1]
            length = min(run, part.cols) if step == 1 else 1
            count = part.rows * part.cols // length
            cycles += dma_cycles(self.chip, [(count, length * size)], dram=False)
            cycles -= self.chip.dma.latency_cycles
        return cycles * matrix.matrices * matrix.rows * matrix.cols // (rows * cols)

    def _turned_cost(self, tensor: str, turned: Axes) -> int:
        """Return about how many cycles it takes to bring the transpose and to turn it."""
        if not self.can_turn(self.graph.shape(tensor).element_type):
            return 1 << 62
        return self.load_cost(tensor, turned) + self.turn_cost(tensor, turned)

    def turn_cost(self, tensor: str, axes: Axes) -> int:
        """Return about how many cycles it takes to turn the tensor, seen as `axes`."""
        matrix = self._make(tensor, axes, "node")
        array = self.chip.pe_array
        v = array.cycles_per_vector[matrix.dtype]
        blocks = matrix.matrices * -(-matrix.rows // array.rows) * -(-matrix.cols // array.cols)
        K, N = min(matrix.rows, array.rows), min(matrix.cols, array.cols)
        alone = result_cycles(self.chip, N) + K  # the last block's way through and out
        return blocks * max(K * v, load_reads(array, K, N)) + alone


def _dram_bytes(shape: Shape) -> int:
    if shape.element_type not in DATA_TYPES:
        raise CompileError(f"{shape}: the machine has no type {shape.element_type}")
    return -(-shape.size_bytes() // 64) * 64


def row_major(shape: Shape) -> bool:
    """Return whether the elements lie in logical order without gaps."""
    return shape.layout == Layout.row_major(shape.rank)
