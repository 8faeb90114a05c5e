"""The first pass: a graph of operations becomes layers of nodes and the matrices between them.

The builder holds, for each tensor, the matrices that show it. A lowering (`table`) asks for the
view that it needs, and the builder finds the cheapest way to it: the view is there already; its
transpose is there and is turned; another view is moved on the chip; or the view is brought from
DRAM. Not here: tiles, addresses on the chip, order.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from systolic.compiler.cost.dma import RowsCost, load_cost, rows_cost
from systolic.compiler.cost.moves import move_cost
from systolic.compiler.cost.turns import carrier, turn_cost
from systolic.compiler.ir.carried import user_shape
from systolic.compiler.ir.change_of_view import ChangeOfView, Spread
from systolic.compiler.ir.chip_tiles import block_rows, whole_banks
from systolic.compiler.ir.gathers import Gather
from systolic.compiler.ir.homes import (
    Interleaved,
    Rows,
    Scattered,
    as_interleaved,
    as_rows,
    in_unbroken_rows,
    lies_unbroken,
)
from systolic.compiler.ir.lane_step import COPY, LaneStep
from systolic.compiler.ir.nodes import (
    Axes,
    Kept,
    Layers,
    Matrix,
    Node,
    NodeKind,
    Source,
    TensorOnChip,
)
from systolic.compiler.ir.pixels import PixelWindow, PooledPixels
from systolic.compiler.ir.windows import MatrixWindow, StridedWindow
from systolic.compiler.lower.dram_places import DramPlaces
from systolic.compiler.lower.strands import StrandPart, Strands, turned_parts
from systolic.compiler.lower.views import ends_in, home_views, physical, swap, whole_rows
from systolic.hw.spec import Chip
from systolic.layout import Shape
from systolic.workload import Graph, Tensor
from systolic.workload.options import Options

BlockSize = tuple[int, int] | None
"""A matrix's own tile T(p,q); None for that of the compilation."""
ROOM = 8
"""Whole rows of a batch take no more than this part of a partition."""
SCATTERED_COLUMNS = 1024
"""Of a tile of a matrix of places."""


@dataclass(frozen=True, slots=True)
class _WayToView:
    """A way to the view `axes`: a matrix is moved from one view to another, and perhaps turned."""

    cycles: int
    matrix: Matrix
    first: Axes
    last: Axes
    axes: Axes


class LayerBuilder:
    """Collects nodes and matrices while operations are lowered one by one."""

    def __init__(
        self, graph: Graph, chip: Chip, options: Options, dram: DramPlaces | None = None, *,
        types: Mapping[str, str] | None = None, packed: Collection[str] = (),
        whole: Mapping[str, Shape] | None = None,
    ) -> None:  # fmt: skip
        """Begin with a graph.

        dram: places that there are already. types: those that narrow tensors, which the graph has
        as u8, have for the user. packed: tensors that lie on the chip with several elements in a
        byte, so that no lowering may choose how they lie. whole: tensors that are moved as bytes,
        with their shapes for the user.
        """
        self.graph, self.chip, self.options = graph, chip, options
        self._types, self._packed, self._whole = types or {}, frozenset(packed), whole or {}
        self._layer = ""
        self.dram = dram or DramPlaces(chip)
        self._nodes: list[Node] = []
        self._matrices: dict[str, Matrix] = {}
        self._views: dict[str, list[tuple[str, Axes]]] = {}
        self._windows: dict[tuple[str, Axes], str] = {}
        self._own_tiles: set[str] = set()
        self._choices: list[str] = []
        self._kept: list[Kept] = []
        self._unplaced: set[str] = set()
        self._at_home: set[str] = set()
        self._homes: list[TensorOnChip] = []
        self._scattered: dict[str, Matrix] = {}
        self._unpacked: dict[str, Scattered] = {}
        self._strands: dict[str, Strands] = {}
        self._parts: dict[tuple[str, StrandPart], Matrix] = {}
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

    def begin(self, layer: str) -> None:
        """Begin an operation, to which the following nodes belong."""
        self._layer = layer

    def layers(self) -> Layers:
        """Return the layers with all nodes and matrices."""
        used = {n for node in self._nodes for n in (*node.inputs, node.output)}
        used |= {kept.matrix for kept in self._kept}
        used |= {self._matrices[name].holder for name in used if name}
        matrices = tuple(m for m in self._matrices.values() if m.name in used)
        kept, choices = tuple(self._kept), tuple(self._choices)
        places, homes = self.dram.places(), tuple(map(self._as_given, self._homes))
        return Layers(tuple(self._nodes), matrices, places, kept, choices, homes)

    def is_packed(self, tensor: str) -> bool:
        """Return whether a tensor lies on the chip with several elements in a byte."""
        return tensor in self._packed

    def user_type(self, tensor: str) -> str:
        """Return the element type that a tensor has for the user."""
        return self._types.get(tensor, self.graph.shape(tensor).element_type)

    def _as_given(self, home: TensorOnChip) -> TensorOnChip:
        """Return a place on the chip with the shape that its tensor has for the user."""
        if home.tensor in self._whole:
            return replace(home, shape=self._whole[home.tensor])
        if home.tensor not in self._types:
            return home
        return replace(home, shape=user_shape(home.shape, self._types[home.tensor]))

    def choose(self, text: str) -> None:
        """Note a decision."""
        self._choices.append(f"{self._layer}: {text}")

    # Matrices

    def _make(
        self, tensor: str, axes: Axes, source: str, block: BlockSize = None, dram: str = ""
    ) -> Matrix:
        shape = self.graph.shape(tensor)
        *batch, rows, cols = (math.prod(shape.dims[d] for d in group) for group in axes)
        if block is None and tensor in self._dealt and self._is_narrow(cols, shape):
            block = block_rows(self.chip), cols
        matrix = Matrix(
            f"{tensor}.{len(self._matrices)}", tensor, shape.element_type, tuple(batch), rows,
            cols, axes, source, dram=dram, block=block,  # type: ignore[arg-type]
        )  # fmt: skip
        self._matrices[matrix.name] = matrix
        self.rename(matrix, tensor, axes)
        return matrix

    def place(self, tensor: str, axes: Axes, block: BlockSize = None) -> Matrix:
        """Let an input on the chip lie as `axes` from the start, in its own blocks if given."""
        self._unplaced.discard(tensor)
        return self._unbroken(self._make(tensor, axes, "state_buffer", block), tensor, axes)

    def unplaced(self, tensor: str) -> bool:
        """Return whether a tensor is an input on the chip whose place can still be chosen."""
        return tensor in self._unplaced and not self.graph.shape(tensor).layout.tiles

    def result(self, tensor: str, axes: Axes, block: BlockSize = None) -> Matrix:
        """Return a new matrix for a node to make: `tensor` seen as `axes`."""
        return self._make(tensor, axes, "node", block)

    def result_like(self, tensor: str, axes: Axes, matrix: Matrix) -> Matrix:
        """Return a new matrix for a node to make, in the tiles of another matrix if it has any."""
        return self.result_in(tensor, axes, matrix.block if self.has_own_tiles(matrix) else None)

    def result_in(self, tensor: str, axes: Axes, block: BlockSize) -> Matrix:
        """Return a new matrix for a node to make, in tiles of its own.

        Element-wise work takes it as it is. `view` gives a copy in the compilation's tiles.
        """
        matrix = self._make(tensor, axes, "node", block)
        if block:
            self._own_tiles.add(matrix.name)
        return matrix

    def has_own_tiles(self, matrix: Matrix) -> bool:
        """Return whether a matrix has tiles that products and reductions cannot take."""
        return matrix.name in self._own_tiles

    def in_tiles(self, matrix: Matrix, block: BlockSize) -> Matrix:
        """Return a matrix in such tiles: a copy, if it has others."""
        if matrix.block == block or matrix.shared:
            return matrix
        name = f"{matrix.tensor}.{len(self._matrices)}"
        copy = replace(matrix, name=name, source="node", dram="", keep=False, block=block,
                       width=None, partition=0, byte=None, window=None)  # fmt: skip
        self._matrices[name] = copy
        self.node("convert", (matrix,), copy)
        return copy

    def load(self, tensor: str, axes: Axes, block: BlockSize = None) -> Matrix:
        """Return a matrix that is brought from DRAM as this view."""
        return self._make(tensor, axes, "dram", block, self.dram.of(tensor))

    def place_matrix(
        self, shape: Shape, axes: Axes, tensor: str, *, dram: str = "", shared: int = 0,
        height: int = 0,
    ) -> Matrix:  # fmt: skip
        """Return a matrix of a place seen as `shape`, for a move to `tensor`.

        dram: the place it is brought from ("": a node makes it). shared: so many queues move each
        of its tiles, which have all of its columns (0: tiles as the compilation cuts them).
        height: the rows of such a tile (0: as many as there are partitions).
        """
        *batch, rows, cols = (math.prod(shape.dims[d] for d in group) for group in axes)
        block = (height or self.chip.state_buffer.partitions, cols) if shared else None
        matrix = Matrix(
            f"{tensor}.{len(self._matrices)}", tensor, shape.element_type, tuple(batch), rows,
            cols, axes, "dram" if dram else "node", dram=dram, block=block, shared=shared,
        )  # fmt: skip
        self._matrices[matrix.name] = matrix
        return matrix

    def scratch(
        self, tensor: str, dtype: str, dims: tuple[int, int, int], block: BlockSize
    ) -> Matrix:
        """Return a new matrix [matrices, rows, columns] for a node to make: no view of a tensor."""
        (count, rows, cols), name = dims, f"{tensor}.{len(self._matrices)}"
        batch, groups = ((count,), ((), (), ())) if count > 1 else ((), ((), ()))
        made = Matrix(name, tensor, dtype, batch, rows, cols, groups, "node", block=block)
        self._matrices[name] = made
        return made

    def within_pixels(self, holder: Matrix, window: PixelWindow, rows: int, cols: int) -> Matrix:
        """Return the matrix that a convolution multiplies, which lies within images."""
        name = f"{holder.tensor}.{len(self._matrices)}"
        made = replace(holder, name=name, rows=rows, cols=cols, window=window)
        self._matrices[name] = made
        return made

    def within(self, holder: Matrix, window: MatrixWindow) -> Matrix:
        """Return a matrix whose elements lie within another one's tiles."""
        dims, axes = window.inner.dims, window.inner.axes
        *batch, rows, cols = (math.prod(dims[d] for d in group) for group in axes)
        matrix = replace(
            holder, name=f"{holder.tensor}.{len(self._matrices)}", batch=tuple(batch), rows=rows,
            cols=cols, axes=axes, block=holder.block and (holder.block[0], cols), window=window,
            keep=False, width=None,
        )  # fmt: skip
        self._matrices[matrix.name] = matrix
        return matrix

    def rename(self, matrix: Matrix, tensor: str, axes: Axes) -> None:
        """Let `matrix` also be `tensor`, seen as `axes`: the same elements, nothing is moved."""
        self._views.setdefault(tensor, []).append((matrix.name, axes))

    def views(self, tensor: str) -> list[tuple[Matrix, Axes]]:
        """Return all matrices that show the tensor, each with the axes of its view.

        Matrices within them (`windows`) are not among them: only `view` gives one.
        """
        if tensor in self._unplaced:  # no lowering has chosen another place than that of its layout
            if self.graph.shape(tensor).layout.tiles:
                self._place_in_tiles(tensor)
            else:
                self.place(tensor, physical(self.graph.shape(tensor)))
        if tensor in self._scattered and tensor not in self._views:
            self._collected(tensor, physical(self.graph.shape(tensor)))
        if tensor in self._strands and tensor not in self._views:
            self._turned_whole(tensor)
        return [(self._matrices[name], axes) for name, axes in self._views.get(tensor, ())]

    def known(self, tensor: str, axes: Axes) -> Matrix | None:
        """Return the matrix that shows the tensor as this view; None if there is none."""
        return next((matrix for matrix, seen in self.views(tensor) if seen == axes), None)

    def any_view(self, tensor: str) -> tuple[Matrix, Axes]:
        """Return some matrix of the tensor, with the axes of its view."""
        if views := self.views(tensor):
            return views[0]
        axes = physical(self.dram.shape(tensor))
        return self.load(tensor, axes), axes

    # Nodes

    def node(
        self, kind: NodeKind, inputs: tuple[Matrix, ...], output: Matrix,
        change: ChangeOfView | None = None, *, step: LaneStep = COPY, layer: str = "",
        gather: Gather | None = None, pooled: PooledPixels | None = None,
    ) -> None:  # fmt: skip
        """Add a node to the operation that was begun last, or to `layer`."""
        names = tuple(m.name for m in inputs)
        self._nodes.append(
            Node(
                kind,
                layer or self._layer,
                names,
                output.name,
                change=change,
                step=step,
                gather=gather,
                pooled=pooled,
            )
        )

    def unpack(
        self, packed: Matrix, elements: Matrix, bits: int, *, background: bool = False
    ) -> None:
        """Add the unpacking of bytes; background: work writes over some of the elements."""
        names = (packed.name,)
        self._nodes.append(
            Node("unpack", self._layer, names, elements.name, bits=bits, background=background)
        )

    def pack(self, elements: Matrix, packed: Matrix, bits: int) -> None:
        """Add the packing of elements, of which nothing is left."""
        self._nodes.append(Node("pack", self._layer, (elements.name,), packed.name, bits=bits))

    def maker(self, tensor: str) -> Node | None:
        """Return the node that makes a tensor which nothing but one operation takes; else None."""
        shown = self._views.get(tensor, ())
        if self.uses(tensor) != 1 or len(shown) != 1:
            return None
        (name, _), every = shown[0], [view for views in self._views.values() for view in views]
        if sum(matrix == name for matrix, _ in every) > 1:
            return None
        return next((node for node in self._nodes if node.output == name), None)

    def uses(self, tensor: str) -> int:
        """Return how often operations take a tensor."""
        return sum(op.inputs.count(tensor) for op in self.graph.operations)

    def matrix(self, name: str) -> Matrix:
        """Return the matrix of that name."""
        return self._matrices[name]

    def size(self, tensor: str, group: tuple[int, ...]) -> int:
        """Return how many elements a group of a tensor's dimensions makes."""
        dims = self.graph.shape(tensor).dims
        return math.prod(dims[axis] for axis in group)

    def temporary(self, like: Matrix, dtype: str, cols: int) -> Matrix:
        """Return a new matrix of so many columns, which is no view of a tensor of the graph."""
        name = f"{like.tensor}.{len(self._matrices)}"
        made = replace(like, name=name, dtype=dtype, cols=cols, source="node", dram="",
                       keep=False, block=None, width=None, partition=0, byte=None, window=None,
                       shared=0)  # fmt: skip
        self._matrices[name] = made
        return made

    def repeated(self, matrix: Matrix, tensor: str, rows: int) -> Matrix:
        """Return a matrix of one row, with that row in as many partitions as tiles of `rows` use.

        It is no view of the tensor, whose elements are there several times.
        """
        name = f"{tensor}.{len(self._matrices)}"
        tall = min(rows, block_rows(self.chip))
        made = replace(matrix, name=name, rows=tall, source="node", dram="", keep=False,
                       block=None, width=None, partition=0, byte=None, window=None,
                       shared=0, repeats=True)  # fmt: skip
        self._matrices[name] = made
        self.node("repeat", (matrix,), made)
        return made

    def withdraw(self, node: Node) -> tuple[tuple[Matrix, ...], Axes]:
        """Take back the only maker of a tensor; return its inputs, and the view that it made.

        The operation that takes the tensor makes a node of its own, which does both.
        """
        self._nodes.remove(node)
        made = self._matrices[node.output]
        del self._views[made.tensor]
        return tuple(self._matrices[name] for name in node.inputs), made.axes

    def turned(self, source: Matrix, tensor: str, axes: Axes) -> Matrix:
        """Return `source` turned by identity products, which shows the tensor as `axes`."""
        result = self.result(tensor, axes)
        self.node("turn", (self.carried(source),), result)
        return result

    def carried(self, source: Matrix) -> Matrix:
        """Return a matrix in a type that the array takes and that has all of its numbers."""
        dtype = carrier(self.chip, source.dtype)
        if dtype is None or dtype == source.dtype:
            return source
        matrix = replace(
            source, name=f"{source.tensor}.{len(self._matrices)}", dtype=dtype, source="node",
            dram="", keep=False, width=None, partition=0, byte=None, window=None,
        )  # fmt: skip
        self._matrices[matrix.name] = matrix
        self.choose(f"{source.tensor} is turned as {dtype}, which carries {source.dtype} exactly")
        self.node("convert", (source,), matrix)
        return matrix

    def moved(self, source: Matrix, change: ChangeOfView, tensor: str, axes: Axes) -> Matrix:
        """Return the elements of `source` as the matrices of another view, moved on the chip."""
        result = self.result(tensor, axes)
        self.node("move", (source,), result, change)
        return result

    # What lowerings ask for

    def view(self, tensor: str, axes: Axes, work_cycles: int = 0) -> Matrix:
        """Return a matrix of the tensor seen as `axes`, moved or turned if need be.

        work_cycles: the work for which it is wanted takes about so many cycles of the array.
        """
        if tensor in self._unplaced and self.graph.shape(tensor).layout.tiles:
            self._place_in_tiles(tensor)
        if tensor in self._scattered and tensor not in self._views:
            return self._collected(tensor, axes)
        if tensor in self._strands and tensor not in self._views:
            self._turned_whole(tensor)
        if found := self.known(tensor, axes):
            return self._in_common_tiles(found, tensor, axes)
        if window := self._window(tensor, axes):
            return window
        source = self.known(tensor, swap(axes)) or self._window(tensor, swap(axes))
        if source is None and (whole := self._from_whole_rows(tensor, axes, work_cycles)):
            return whole
        if source is None and self.dram.holds(tensor):
            if not self.turn_is_cheaper(tensor, axes):
                return self.load(tensor, axes)
            source = self.load(tensor, swap(axes))
        if self.options.via == "dram":
            self.to_dram(tensor)
            return self.load(tensor, axes)
        if source is not None and self.can_turn(source.dtype):
            return self.turned(source, tensor, axes)
        return self._changed(tensor, axes)

    def _in_common_tiles(self, matrix: Matrix, tensor: str, axes: Axes) -> Matrix:
        """Return a view of a tensor in the compilation's tiles: a copy, if there is none."""
        if not self.has_own_tiles(matrix):
            return matrix
        for other, seen in self.views(tensor):
            if seen == axes and not self.has_own_tiles(other):
                return other
        copy = self.result(tensor, axes)
        self.node("convert", (matrix,), copy)
        return copy

    def _from_whole_rows(self, tensor: str, axes: Axes, work_cycles: int) -> Matrix | None:
        """Bring the matrices of a batch side by side, row by row; None if nothing is gained.

        A row of all matrices is brought by all queues, and each matrix is read with an access of
        its own, at a distance (`windows`).
        """
        if not (_in_rows_of_all(axes) and self.dram.holds(tensor) and self._may_arrange()):
            return None
        shape, seen = self.dram.shape(tensor), axes
        rows = self._rows_cost(shape, axes, work_cycles)
        if self.can_turn(shape.element_type):
            turning = self._rows_cost(shape, swap(axes), work_cycles)
            turning = turning.plus(self._turn_cost(shape, axes))
            rows, seen = min((rows, axes), (turning, swap(axes)), key=lambda way: way[0].whole)
            apart = min(rows.apart, turning.apart, self._rows_cost(shape, axes, work_cycles).apart)
        else:
            apart = rows.apart
        if rows.whole >= apart or not self._has_room(shape, seen):
            return None
        self.choose(
            f"{tensor} is brought in whole rows of all its matrices (about {rows.whole} cycles "
            f"with the product; matrix by matrix: {apart})"
        )
        matrix = self._in_whole_rows(tensor, shape, seen, self.dram.of(tensor))
        return matrix if seen == axes else self.turned(matrix, tensor, axes)

    def _may_arrange(self) -> bool:
        options = self.options
        return options.via is None and options.block is None and options.tile_columns is None

    def _rows_cost(self, shape: Shape, axes: Axes, work_cycles: int) -> RowsCost:
        return rows_cost(self.chip, shape, (axes, whole_rows(shape, axes)), work_cycles)

    def _has_room(self, shape: Shape, axes: Axes) -> bool:
        """Return whether whole rows take so few bytes that tiles of other matrices fit as well."""
        if shape.layout.tiles or shape.padded_elements() != shape.num_elements():
            return False
        cols = math.prod(shape.dims[d] for d in whole_rows(shape, axes)[-1])
        room = self.chip.state_buffer.bytes_per_partition // ROOM
        bank = whole_banks(self.chip) or room
        return cols * shape.dtype.itemsize <= min(room, bank)

    def _has_room_for_all(self, shape: Shape, axes: Axes) -> bool:
        """Return whether a result in whole rows leaves room, though all of it is made together."""
        rows, cols = (math.prod(shape.dims[d] for d in g) for g in whole_rows(shape, axes))
        have = self.chip.state_buffer.bytes_per_partition
        size = cols * shape.dtype.itemsize
        tall = -(-rows // block_rows(self.chip))
        gaps = shape.layout.tiles or shape.padded_elements() != shape.num_elements()
        fits = tall * size * 5 <= have * 4 and size <= (whole_banks(self.chip) or have // 2)
        return not gaps and fits

    def _in_whole_rows(self, tensor: str, shape: Shape, axes: Axes, dram: str) -> Matrix:
        """Return a matrix within one of whole rows, which comes from DRAM or ("") is to be made."""
        rows = whole_rows(shape, axes)
        held = self.place_matrix(
            shape, rows, tensor, dram=dram, shared=self.chip.dma.queues,
            height=block_rows(self.chip),
        )  # fmt: skip
        self.rename(held, tensor, rows)
        window = self._window(tensor, axes)
        assert window is not None
        return window

    def _window(self, tensor: str, axes: Axes) -> Matrix | None:
        """Return the view `axes` within a matrix of whole rows; None if there is none."""
        if (found := self._windows.get((tensor, axes))) is not None:
            return self._matrices[found]
        for held, seen in self.views(tensor) if _in_rows_of_all(axes) else ():
            if held.shared and seen[-2] == axes[-2]:
                dims = self.graph.shape(tensor).dims
                window = MatrixWindow(held.name, Spread(dims, seen), Spread(dims, axes))
                matrix = self.within(held, window)
                self._windows[tensor, axes] = matrix.name
                return matrix
        return None

    def stored_whole(self, tensor: str, axes: Axes, work_cycles: int) -> Matrix | None:
        """Return the matrices of an output within whole rows of DRAM; None if nothing is gained."""
        if self.stores_whole(tensor, axes, work_cycles) is None:
            return None
        return self._in_whole_rows(tensor, self.graph.shape(tensor), axes, "")

    def stores_whole(self, tensor: str, axes: Axes, work_cycles: int) -> int | None:
        """Return about how many cycles a product stored in whole rows takes; None if no gain."""
        if not (_in_rows_of_all(axes) and tensor in self.graph.outputs and self._may_arrange()):
            return None
        shape = self.graph.shape(tensor)
        if self.graph.tensor(tensor).home != "dram" or not self._has_room_for_all(shape, axes):
            return None
        if physical(shape)[-1] == axes[-1]:  # stored while the next matrix is made
            return None
        rows = self._rows_cost(shape, axes, work_cycles)
        apart = rows.apart
        if physical(shape)[-1] == axes[-2]:
            apart = self._rows_cost(shape, swap(axes), work_cycles).apart
            apart += self._turn_cost(shape, axes)
        return rows.whole if rows.whole < apart else None

    def turn_is_cheaper(self, tensor: str, axes: Axes) -> bool:
        """Return whether to bring the transpose of the view and turn it; note it if so."""
        shape = self.dram.shape(tensor)
        if self.options.via == "dram" or not self.can_turn(shape.element_type):
            return False
        through = load_cost(self.chip, shape, swap(axes)) + self._turn_cost(shape, swap(axes))
        direct = load_cost(self.chip, shape, axes)
        if self.options.via is None and direct <= through:
            return False
        self.choose(
            f"{tensor} is turned by identity products (about {through} cycles; a transposing "
            f"DMA: {direct})"
        )
        return True

    def _turn_cost(self, shape: Shape, axes: Axes) -> int:
        """Return about how many cycles it takes to turn a tensor that is seen as `axes`."""
        dims = [math.prod(shape.dims[d] for d in group) for group in axes]
        return turn_cost(self.chip, dims, shape.element_type)

    def can_turn(self, dtype: str) -> bool:
        """Return whether the array takes the type, or another one that carries it exactly."""
        return carrier(self.chip, dtype) is not None

    def _changed(self, tensor: str, *targets: Axes) -> Matrix:
        """Move a tensor on the chip to the cheapest of some views, directly or with a turn."""
        ways = [way for matrix, seen in self.views(tensor) for axes in targets
                for way in self._ways(tensor, matrix, seen, axes)]  # fmt: skip
        way = min(ways, key=lambda way: way.cycles)
        self.choose(f"{tensor} changes its view on the chip (about {way.cycles} cycles)")
        first = self.known(tensor, way.first) or self.turned(way.matrix, tensor, way.first)
        if way.first != way.last:
            change = self._change(tensor, way.first, way.last)
            first = self.moved(first, change, tensor, way.last)
        return first if way.last == way.axes else self.turned(first, tensor, way.axes)

    def change_cost(self, tensor: str, seen: Axes, targets: Sequence[Axes]) -> int:
        """Return about how many cycles it takes to move a view on the chip to the cheapest one."""
        shape = self.graph.shape(tensor)
        turns = ((seen, swap), (swap(seen), tuple)) if self.can_turn(shape.element_type) else ()
        found = [self._move_cost(tensor, seen, axes) for axes in targets]
        for first, last in turns:
            found += [
                self._move_cost(tensor, first, last(axes)) + self._turn_cost(shape, axes)
                for axes in targets
            ]
        return min(found)

    def _ways(self, tensor: str, matrix: Matrix, seen: Axes, axes: Axes) -> list[_WayToView]:
        ways = [_WayToView(self._move_cost(tensor, seen, axes), matrix, seen, axes, axes)]
        if self.can_turn(matrix.dtype):
            shape = self.graph.shape(tensor)
            for first, last, turn in ((seen, swap(axes), swap(axes)), (swap(seen), axes, seen)):
                cycles = self._move_cost(tensor, first, last) + self._turn_cost(shape, turn)
                ways.append(_WayToView(cycles, matrix, first, last, axes))
        return ways

    def _move_cost(self, tensor: str, seen: Axes, wanted: Axes) -> int:
        if seen == wanted:
            return 0
        dtype = self.graph.shape(tensor).element_type
        return self.cost_of(self._change(tensor, seen, wanted), dtype)

    def cost_of(self, change: ChangeOfView, dtype: str) -> int:
        """Return about how many cycles a move on the chip takes."""
        return move_cost(self.chip, self.options, change, dtype)

    def _change(self, tensor: str, seen: Axes, wanted: Axes) -> ChangeOfView:
        dims = self.graph.shape(tensor).dims
        return ChangeOfView(Spread(dims, seen), Spread(dims, wanted))

    # DRAM and the end

    def to_dram(self, tensor: str) -> None:
        """Write the tensor to DRAM if it is not there."""
        if not self.dram.holds(tensor):
            matrix, axes = self.any_view(tensor)
            shape = self.graph.shape(tensor)
            self.store(matrix, tensor, Shape(shape.element_type, shape.dims), axes)

    def store(self, matrix: Matrix, tensor: str, shape: Shape, axes: Axes, place: str = "") -> None:
        """Write a matrix, which shows `axes` of the tensor, to its place in DRAM."""
        place = place or tensor
        self.dram.reserve(place, shape)
        self._nodes.append(Node("store", self._layer, (matrix.name,), "", place, axes))
        self.dram.put(tensor, place)

    def store_at(self, matrix: Matrix, place: str, axes: Axes, *, background: bool = False) -> None:
        """Write a matrix to a place in DRAM, whose dimensions it shows as `axes`."""
        names = (matrix.name,)
        self._nodes.append(
            Node("store", self._layer, names, "", place, axes, background=background)
        )

    def copied(self, origin: str, place: str) -> None:
        """Copy all bytes of one place in DRAM to another."""
        self._nodes.append(Node("copy", self._layer, (), "", place, origin=origin))

    def come_home(self, tensor: str) -> None:
        """Note that an output is made in the place in DRAM where it lives."""
        self.dram.put(tensor, tensor)
        self._at_home.add(tensor)

    def storable(self, tensor: str, minor: tuple[int, ...]) -> tuple[Matrix, Axes]:
        """Return the view of a tensor to write to DRAM, where it has those dimensions minor-most.

        It is a view whose columns end in these dimensions, so that runs are long. It is there
        already, or comes by a turn or a move.
        """
        matrix, axes = self.any_view(tensor)
        views = [view for view in self.views(tensor) if ends_in(view[1][-1], minor)]
        if views:
            return views[0]
        if ends_in(axes[-2], minor) and self.can_turn(matrix.dtype):
            return self.turned(matrix, tensor, swap(axes)), swap(axes)
        rest = [axis for group in axes for axis in group if axis not in minor]
        if self.options.via == "dram" or not rest:
            return matrix, axes
        wanted = (*((axis,) for axis in rest), minor)
        return self._changed(tensor, wanted), wanted

    def keep(self, tensor: str) -> None:
        """Keep the tensor on the chip until the end, as one of the views in which it may live."""
        shape = self.graph.shape(tensor)
        if shape.layout.tiles:
            self._keep_in_tiles(tensor)
            return
        legal = tuple(home_views(shape))
        there = [(m, v) for m, v in self.views(tensor) if m.source != "dram" and v in legal]
        if there:
            matrix, axes = min(there, key=lambda view: legal.index(view[1]))
        elif self.dram.holds(tensor) or self.options.via == "dram":
            axes = legal[0]
            loaded, matrix = self.view(tensor, axes), self.result(tensor, axes)
            self.node("convert", (loaded,), matrix)
        else:
            matrix = self._changed(tensor, *dict.fromkeys(legal))
            axes = next(seen for found, seen in self.views(tensor) if found == matrix)
        self.keep_matrix(tensor, matrix, axes)

    # Tensors on the chip whose tiles say where they lie

    def _rows(self, tensor: str) -> Rows | None:
        return as_rows(self.graph.tensor(tensor), self.chip)

    def _place_in_tiles(self, tensor: str) -> None:
        """Let an input lie where its tiles say."""
        self._unplaced.discard(tensor)
        if rows := self._rows(tensor):
            made = self._make(tensor, rows.axes, "state_buffer")
            matrix = self._fixed(made, tensor, rows.width)
        elif lies := self.interleaved(tensor):
            held = self._new_strands(tensor, lies.axes, lies.ways, "state_buffer")
            matrix = self._fix_strands(tensor, held, lies.width).holder
        else:
            matrix = self._scattered[tensor] = self._scatter(tensor, "state_buffer")
        self._homes.append(TensorOnChip(tensor, self.graph.shape(tensor), matrix.name))

    def _places(self, tensor: str) -> Scattered:
        if tensor in self._unpacked:
            return self._unpacked[tensor]
        return Scattered.of(self.graph.tensor(tensor), self.chip)

    def _scatter(self, tensor: str, source: Source) -> Matrix:
        """Return a matrix of all places that the tensor's tiles take."""
        _, rows, cols = self._places(tensor).sizes()
        name = f"{tensor}.{len(self._matrices)}"
        matrix = Matrix(
            name, tensor, self.graph.shape(tensor).element_type, (), rows, cols, ((), ()), source,
            block=(rows, min(cols, SCATTERED_COLUMNS)),
        )  # fmt: skip
        return self._fixed(matrix, tensor, cols)

    def whole_rows(self, tensor: str, dims: tuple[int, ...], axes: Axes, tall: int) -> Matrix:
        """Return a matrix of u8 for a node to make, in tiles of whole rows, `tall` of them."""
        *batch, rows, cols = dims
        name = f"{tensor}.{len(self._matrices)}"
        matrix = Matrix(
            name, tensor, "u8", tuple(batch), rows, cols, axes, "node", block=(tall, cols)
        )
        self._matrices[name] = matrix
        return matrix

    def at_place(self, matrix: Matrix, home: Tensor, width: int, *, given: bool) -> Matrix:
        """Return a matrix in unbroken rows where a home says; given: it is there at cycle 0."""
        found = replace(
            matrix, source="state_buffer" if given else "node", width=width,
            partition=home.partition, byte=home.byte,
        )  # fmt: skip
        self._matrices[matrix.name] = found
        return found

    def hold(self, tensor: str, matrix: Matrix, places: Scattered, axes: Axes | None) -> None:
        """Note that a tensor's elements lie in a matrix, at these places.

        axes: the view as whose rows they lie, so that they are copied to it lane by lane.
        """
        self._unplaced.discard(tensor)
        self._scattered[tensor], self._unpacked[tensor] = matrix, places
        if axes is not None:
            change = ChangeOfView(places, Spread(self.graph.shape(tensor).dims, axes))
            self.moved(matrix, change, tensor, axes)

    def holds_rows(self, tensor: str, matrix: Matrix, axes: Axes) -> None:
        """Note that a matrix is a tensor's elements, seen as `axes`."""
        self._unplaced.discard(tensor)
        self.rename(matrix, tensor, axes)

    def deal_out(self, tensor: str, matrix: Matrix, places: Scattered, axes: Axes | None) -> None:
        """Bring the elements of a tensor to their places in a matrix, as a view if one is given."""
        source, seen = self.any_view(tensor)
        if axes is not None:
            source, seen = self.view(tensor, axes), axes
        if source.window is not None:  # a move takes whole tiles of its source
            window, source = source, self.result(tensor, seen)
            self.node("convert", (window,), source)
        change = ChangeOfView(Spread(self.graph.shape(tensor).dims, seen), places)
        self.node("move", (source,), matrix, change)

    def lies_at(self, tensor: str, shape: Shape, matrix: Matrix) -> None:
        """Note that a tensor lies where a matrix is, as a shape in tiles says."""
        self._homes.append(TensorOnChip(tensor, shape, matrix.name))

    def keep_bytes(self, tensor: str, matrix: Matrix) -> None:
        """Keep the bytes of a tensor on the chip until the end."""
        self._matrices[matrix.name] = replace(matrix, keep=True)
        self._kept.append(Kept(tensor, matrix.name, ((), ()), self._layer))

    def _collected(self, tensor: str, axes: Axes) -> Matrix:
        """Return a scattered input as a view, element by element."""
        change = ChangeOfView(self._places(tensor), Spread(self.graph.shape(tensor).dims, axes))
        self.choose(f"{tensor} is collected from its tiles, to which no access pattern leads")
        return self.moved(self._scattered[tensor], change, tensor, axes)

    # Tensors of whose rows several lie in one

    def interleaved(self, tensor: str) -> Interleaved | None:
        """Return how a tensor's rows share partitions, if accesses with steps can use them so."""
        shape = self.graph.shape(tensor)
        if self.options.via == "dram" or not self.can_turn(shape.element_type):
            return None
        found = as_interleaved(self.graph.tensor(tensor), self.chip)
        if found is None:
            return None
        rows, cols = (math.prod(shape.dims[axis] for axis in group) for group in found.axes[-2:])
        return found if self._is_narrow(max(rows, cols * found.ways), shape) else None

    def _is_narrow(self, cols: int, shape: Shape) -> bool:
        """Return whether a tile may have so many columns: tiles of other matrices fit as well."""
        return cols * shape.dtype.itemsize <= self.chip.state_buffer.bytes_per_partition // ROOM

    def _find_dealt(self) -> set[str]:
        """Return the tensors of which a view may be turned to strands: its tiles are not cut.

        These are outputs whose rows share partitions, and what is only put in another order.
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
        return found

    def strands(self, tensor: str) -> Strands | None:
        """Return the strands in which a tensor lies, if nothing else shows it yet."""
        if tensor in self._unplaced and self.graph.shape(tensor).layout.tiles:
            self._place_in_tiles(tensor)
        return None if tensor in self._views else self._strands.get(tensor)

    def _new_strands(self, tensor: str, axes: Axes, ways: int, source: Source = "node") -> Strands:
        """Return strands of a tensor, in a matrix of their own."""
        shape = self.graph.shape(tensor)
        *batch, rows, cols = (math.prod(shape.dims[d] for d in group) for group in axes)
        block = block_rows(self.chip), cols * ways
        holder = Matrix(
            f"{tensor}.{len(self._matrices)}", tensor, shape.element_type, tuple(batch),
            -(-rows // ways), cols * ways, axes, source, block=block,
        )  # fmt: skip
        self._matrices[holder.name] = holder
        self._strands[tensor] = Strands(holder, axes, ways, rows)
        return self._strands[tensor]

    def _fix_strands(self, tensor: str, strands: Strands, width: int) -> Strands:
        """Return strands whose holder lies in unbroken rows, where the tensor's place is."""
        holder = self._fixed(strands.holder, tensor, width)
        self._strands[tensor] = replace(strands, holder=holder)
        return self._strands[tensor]

    def part_of(self, strands: Strands, part: StrandPart) -> Matrix:
        """Return a part of strands as a matrix, which lies in the holder at a distance."""
        held = strands.holder
        if (held.name, part) not in self._parts:
            matrix = replace(
                held, name=f"{held.tensor}.{len(self._matrices)}", rows=part.rows, cols=part.cols,
                block=(block_rows(self.chip), part.cols), keep=False, width=None, byte=None,
                window=StridedWindow(held.name, part.first, part.step),
            )  # fmt: skip
            self._matrices[matrix.name] = matrix
            self._parts[held.name, part] = matrix
        return self._parts[held.name, part]

    def rows_of(self, strands: Strands) -> list[Matrix]:
        """Return the strands one by one: every so many rows of the tensor."""
        many = min(strands.ways, strands.rows)
        return [self.part_of(strands, strands.part(row)) for row in range(many)]

    def each_strand(
        self, operands: tuple[Strands, ...], output: str, step: LaneStep
    ) -> None:  # fmt: skip
        """Let an engine make a tensor of others that lie in strands alike: strand by strand."""
        made = self._new_strands(output, operands[0].axes, operands[0].ways)
        rows = [self.rows_of(strands) for strands in operands]
        for *inputs, result in zip(*rows, self.rows_of(made), strict=True):
            self.node("convert", tuple(inputs), result, step=step)

    def rename_strands(self, strands: Strands, tensor: str, axes: Axes) -> None:
        """Let strands also be `tensor`, seen as `axes`: the same elements, nothing is moved."""
        self._strands[tensor] = replace(strands, axes=axes)

    def _turn_strands(self, source: Strands, target: Strands) -> None:
        """Turn every strand of a tensor into the columns of its transpose, or into its strands."""
        carried = self._carried_strands(source)
        for here, there in turned_parts(carried, target):
            self.node("turn", (self.part_of(carried, here),), self.part_of(target, there))

    def _carried_strands(self, strands: Strands) -> Strands:
        """Return strands in a type that the array takes and that has all of their numbers."""
        held = strands.holder
        dtype = carrier(self.chip, held.dtype)
        if dtype is None or dtype == held.dtype:
            return strands
        holder = replace(
            held, name=f"{held.tensor}.{len(self._matrices)}", dtype=dtype, source="node",
            dram="", keep=False, width=None, block=(block_rows(self.chip), held.cols),
            partition=0, byte=None,
        )  # fmt: skip
        self._matrices[holder.name] = holder
        made = replace(strands, holder=holder)
        self.choose(f"{held.tensor} is turned as {dtype}, which carries {held.dtype} exactly")
        for one, other in zip(self.rows_of(strands), self.rows_of(made), strict=True):
            self.node("convert", (one,), other)
        return made

    def _turned_whole(self, tensor: str) -> Matrix:
        """Return the transpose of a tensor in strands: each of them is turned to its columns."""
        strands = self._strands[tensor]
        axes = swap(strands.axes)
        block = block_rows(self.chip), strands.rows
        matrix = self._make(tensor, axes, "node", block)
        self._turn_strands(strands, Strands(matrix, axes, 1, matrix.rows))
        self.choose(f"{tensor} is turned strand by strand, {strands.ways} to a partition")
        return matrix

    def _in_strands(self, tensor: str, lies: Interleaved) -> Matrix:
        """Return the holder of an output whose rows share partitions."""
        before = self.strands(tensor)
        if before and (before.axes, before.ways) == (lies.axes, lies.ways):
            return self._strands_at_home(tensor, before, lies).holder
        if before is None or before.axes != swap(lies.axes):
            whole = self._whole_columns(self.view(tensor, swap(lies.axes)))
            before = Strands(whole, swap(lies.axes), 1, whole.rows)
        made = self._new_strands(tensor, lies.axes, lies.ways)
        made = self._fix_strands(tensor, made, lies.width)
        self._turn_strands(before, made)
        self.choose(f"{tensor} is made strand by strand, {lies.ways} to a partition")
        return made.holder

    def _strands_at_home(self, tensor: str, before: Strands, lies: Interleaved) -> Strands:
        """Return strands where an output's tiles say: those that are there, or a copy of them."""
        if before.holder.tensor == tensor and before.holder.width is None:
            return self._fix_strands(tensor, before, lies.width)
        if self._may_lie(before.holder, tensor, lies.width):
            return self._fix_strands(tensor, before, lies.width)
        made = self._new_strands(tensor, lies.axes, lies.ways)
        made = self._fix_strands(tensor, made, lies.width)
        for one, other in zip(self.rows_of(before), self.rows_of(made), strict=True):
            self.node("convert", (one,), other)
        return made

    def _whole_columns(self, matrix: Matrix) -> Matrix:
        """Return a matrix each of whose tiles has all of its columns; a copy if need be."""
        if matrix.window is None and matrix.block and matrix.block[1] >= matrix.cols:
            return matrix
        copy = replace(
            matrix, name=f"{matrix.tensor}.{len(self._matrices)}", source="node", dram="",
            block=(block_rows(self.chip), matrix.cols), keep=False, width=None, partition=0,
            byte=None, window=None, shared=0,
        )  # fmt: skip
        self._matrices[copy.name] = copy
        self.node("convert", (matrix,), copy)
        return copy

    def _unbroken(self, matrix: Matrix, tensor: str, axes: Axes) -> Matrix:
        """Let a tensor without tiles lie in unbroken rows from one byte on, if tiles can say so."""
        p = matrix.block[0] if matrix.block else block_rows(self.chip)
        unbroken = lies_unbroken(matrix.rows, p, self.chip)
        if not unbroken or matrix.width not in (None, matrix.cols):
            return matrix
        shape = self.graph.shape(tensor)
        lies = in_unbroken_rows(shape, axes, p)
        self._homes.append(TensorOnChip(tensor, lies, matrix.name, chosen=not shape.layout.tiles))
        return self._fixed(matrix, tensor, matrix.cols)

    def _fixed(self, matrix: Matrix, tensor: str, width: int) -> Matrix:
        """Return the matrix in unbroken rows of so many elements, where the tensor's place is."""
        home = self.graph.tensor(tensor)
        byte = matrix.byte if home.byte is None else home.byte
        found = replace(matrix, width=width, partition=home.partition, byte=byte)
        self._matrices[matrix.name] = found
        return found

    def _keep_in_tiles(self, tensor: str) -> None:
        """Keep an output on the chip where its tiles say."""
        rows, shape = self._rows(tensor), self.graph.shape(tensor)
        if rows:
            matrix = self._in_rows(tensor, rows)
        elif lies := self.interleaved(tensor):
            matrix = self._in_strands(tensor, lies)
        else:
            matrix = self._on_chip(tensor)
        self._homes.append(TensorOnChip(tensor, shape, matrix.name))
        self.keep_matrix(tensor, matrix, rows.axes if rows else ((), ()))

    def _on_chip(self, tensor: str) -> Matrix:
        """Return the places of an output's tiles, filled element by element."""
        matrix, axes = self.any_view(tensor)
        change = ChangeOfView(Spread(self.graph.shape(tensor).dims, axes), self._places(tensor))
        self.choose(f"{tensor} is dealt out to its tiles, to which no access pattern leads")
        scattered = self._scatter(tensor, "node")
        self.node("move", (matrix,), scattered, change)
        return scattered

    def _in_rows(self, tensor: str, rows: Rows) -> Matrix:
        """Return a matrix of an output in unbroken rows of its width."""
        there = [m for m, axes in self.views(tensor) if axes == rows.axes and m.source != "dram"]
        free = [m for m in there if not m.block and self._may_lie(m, tensor, rows.width)]
        if free:
            return self._fixed(free[0], tensor, rows.width)
        if there or self.dram.holds(tensor) or self.options.via == "dram":
            source, made = self.view(tensor, rows.axes), self.result(tensor, rows.axes)
            self.node("convert", (source,), made)
            return self._fixed(made, tensor, rows.width)
        return self._fixed(self._changed(tensor, rows.axes), tensor, rows.width)

    def _may_lie(self, matrix: Matrix, tensor: str, width: int) -> bool:
        """Return whether a matrix lies where a tensor's tiles say, or may be placed there."""
        home = self.graph.tensor(tensor)
        if matrix.width is None:
            return True
        there = matrix.width == width and matrix.partition == home.partition
        return there and (home.byte is None or home.byte == matrix.byte)

    def keep_matrix(self, tensor: str, matrix: Matrix, axes: Axes) -> None:
        """Keep a matrix, which shows the tensor as `axes`, on the chip until the end."""
        matrix = self._matrices[matrix.name]
        if all(home.tensor != tensor for home in self._homes):
            matrix = self._unbroken(matrix, tensor, axes)
        self._matrices[matrix.name] = replace(matrix, keep=True)
        self._kept.append(Kept(tensor, matrix.name, axes, self._layer))
        self._at_home.add(tensor)

    def store_home(self, matrix: Matrix, tensor: str, axes: Axes) -> None:
        """Write a matrix, which shows an output as `axes`, to the output's place in DRAM."""
        self.store(matrix, tensor, self.graph.shape(tensor), axes)
        self._at_home.add(tensor)

    def store_reshaped(self, matrix: Matrix, source: str, tensor: str, axes: Axes) -> None:
        """Write a view of `source` to the place of a row-major output with the same elements."""
        shape, name = self.graph.shape(source), f"{tensor}.linear"
        self.dram.alias(name, tensor, Shape(shape.element_type, shape.dims))
        self._nodes.append(Node("store", self._layer, (matrix.name,), "", name, axes))
        self._at_home.add(tensor)

    def at_home(self, tensor: str) -> bool:
        """Return whether an output is in the memory in which it lives."""
        return tensor in self._at_home


def _in_rows_of_all(axes: Axes) -> bool:
    """Return whether a view is a batch that may lie in whole rows: columns at one distance."""
    return len(axes) > 2 and len(axes[-1]) == 1
