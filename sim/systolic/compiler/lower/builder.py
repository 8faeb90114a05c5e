"""The first pass: a graph of operations becomes layers of nodes and the matrices between them.

A lowering (`table`) asks for the view of a tensor that it needs, and the builder finds the cheapest
way to it: the view is there already (`matrices`); its transpose is there and is turned; another
view is moved on the chip; or the view is brought from DRAM. Tensors that lie in tiles on the chip
have rooms of their own (`chip_homes`, `strand_tensors`). Not here: tiles, addresses on the chip,
order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from systolic.compiler.cost.batches import ALONE, Beside
from systolic.compiler.cost.dma import load_cost
from systolic.compiler.cost.moves import UNLIMITED, move_cost
from systolic.compiler.cost.turns import turn_cost
from systolic.compiler.ir.change_of_view import ChangeOfView, Spread
from systolic.compiler.ir.nodes import (
    GIVEN,
    MADE,
    Axes,
    ConvertNode,
    Layers,
    Matrix,
    MoveNode,
    Node,
    RepeatNode,
    TurnNode,
)
from systolic.compiler.ir.on_chip.chip_tiles import block_rows
from systolic.compiler.ir.on_chip.homes import as_rows, in_unbroken_rows
from systolic.compiler.lower.dram_places import DramPlaces
from systolic.compiler.lower.matrices import BlockSize
from systolic.compiler.lower.moves.chip_homes import ChipHomes
from systolic.compiler.lower.moves.strand_tensors import StrandTensors
from systolic.compiler.lower.moves.strands import Strands
from systolic.compiler.lower.products.batches import Batches
from systolic.compiler.lower.view_maker import ViewMaker
from systolic.compiler.lower.views import ends_in, home_views, physical, swap
from systolic.errors import CompileError
from systolic.hw.spec import Chip
from systolic.layout import Shape
from systolic.workload import Graph
from systolic.workload.options import Options

MAKES_ONE = (ConvertNode, TurnNode, MoveNode, RepeatNode)
"""Kinds of nodes that do nothing but make a matrix on the chip."""

BY_FAR = 4
"""A transposing DMA must take this many times the cycles of a turn byte by byte on the array."""


@dataclass(frozen=True, slots=True)
class _WayToView:
    """A way to the view `axes`: a matrix is moved from one view to another, and perhaps turned."""

    cycles: int
    matrix: Matrix
    first: Axes
    last: Axes
    axes: Axes


@dataclass(frozen=True, slots=True)
class Remake:
    """How an operation, whose layer is named, makes its result as a view; None if it cannot.

    Without a view it makes one that its operands allow. due: it must, rather than be turned by
    products: the graph turns an operand, so that the function would come in front of the turn, or
    the function makes infinities of small numbers.
    """

    layer: str
    due: bool
    make: Callable[[Axes | None], Matrix | None]


class LayerBuilder(ViewMaker):
    """Collects nodes and matrices while operations are lowered one by one."""

    def __init__(
        self,
        graph: Graph,
        chip: Chip,
        options: Options,
        dram: DramPlaces | None = None,
        *,
        types: Mapping[str, str] | None = None,
        packed: Collection[str] = (),
        whole: Mapping[str, Shape] | None = None,
    ) -> None:
        """Begin with a graph.

        dram: places that there are already. types: those that narrow tensors, which the graph has
        as u8, have for the user. packed: tensors that lie on the chip with several elements in a
        byte, so that no lowering may choose how they lie. whole: tensors that are moved as bytes,
        with their shapes for the user.
        """
        super().__init__(graph, chip, options, dram, types=types or {}, packed=packed)
        self._folds: dict[tuple[str, Axes], str] = {}
        self._again: dict[str, Remake] = {}
        self.batches = Batches(self)
        self.strand_tensors = StrandTensors(self)
        self.homes = ChipHomes(self, self.strand_tensors, types or {}, whole or {})

    def layers(self) -> Layers:
        """Return the layers with all nodes and matrices."""
        nodes = self._needed()
        used = {n for node in nodes for n in (*node.inputs, *node.made)}
        used |= {kept.matrix for kept in self._kept}
        used |= {self._matrices[name].holder for name in used}
        matrices = tuple(m for m in self._matrices.values() if m.name in used)
        kept, choices = tuple(self._kept), tuple(self._choices)
        places, homes = self.dram.places(), self.homes.given()
        return Layers(nodes, matrices, places, kept, choices, homes)

    def _needed(self) -> tuple[Node, ...]:
        """Return the nodes whose results something takes: a tensor may have been made again."""
        wanted = {self._matrices[kept.matrix].holder for kept in self._kept}
        found = list[Node]()
        for node in reversed(self._nodes):
            made = [self._matrices[name].holder for name in node.made]
            if isinstance(node, MAKES_ONE) and not wanted.intersection(made):
                continue
            wanted.update(self._matrices[name].holder for name in node.inputs)
            found.append(node)
        return tuple(reversed(found))

    def note_remake(
        self, tensor: str, make: Callable[[Axes | None], Matrix | None], *, due: bool
    ) -> None:
        """Note how a tensor is made as another view, from its operands (see `Remake`)."""
        self._again[tensor] = Remake(self._layer, due, make)

    def is_due(self, tensor: str) -> bool:
        """Return whether a tensor is made again rather than turned by products."""
        return tensor in self._again and self._again[tensor].due

    def forget_remake(self, tensor: str) -> None:
        """Note that the operands of a tensor are not there to make it again."""
        self._again.pop(tensor, None)

    def has_remake(self, tensor: str) -> bool:
        """Return whether a tensor can be made as another view from its operands."""
        return tensor in self._again

    def made_again(self, tensor: str, axes: Axes | None) -> Matrix | None:
        """Return the tensor made from its operands as a view; None if it cannot be."""
        if tensor not in self._again:
            return None
        before, again = self._layer, self._again[tensor]
        self._layer = again.layer
        found = again.make(axes)
        self._layer = before
        return found

    def place(self, tensor: str, axes: Axes, block: BlockSize = None) -> Matrix:
        """Let an input on the chip lie as `axes` from the start, in its own blocks if given."""
        self.placed(tensor)
        return self.homes.unbroken(self.make(tensor, axes, GIVEN, block), tensor, axes)

    def unplaced(self, tensor: str) -> bool:
        """Return whether a tensor is an input on the chip whose place can still be chosen."""
        return self.is_unplaced(tensor) and not self.graph.shape(tensor).layout.tiles

    def place_tiled(self, tensor: str) -> None:
        """Let an input on the chip lie where its tiles say, if it has tiles and no place yet."""
        if tensor in self._unplaced and self.graph.shape(tensor).layout.tiles:
            self.homes.place_in_tiles(tensor)

    def settle(self, tensor: str) -> None:
        """Let a tensor on the chip be a matrix of some view, so that `views` has it."""
        self.place_tiled(tensor)
        if tensor in self._unplaced:  # no lowering has chosen another place than its layout's
            self.place(tensor, physical(self.graph.shape(tensor)))
        if self.homes.is_scattered(tensor):
            self.homes.collected(tensor, physical(self.graph.shape(tensor)))
        if self.strands(tensor):
            self.strand_tensors.turned_whole(tensor)

    def views(self, tensor: str) -> list[tuple[Matrix, Axes]]:
        """Return the matrices that show the tensor so far, each with the axes of its view.

        Matrices within them (`windows`) are not among them: only `view` gives one.
        """
        return [(self._matrices[name], axes) for name, axes in self._views.get(tensor, ())]

    def known(self, tensor: str, axes: Axes) -> Matrix | None:
        """Return the matrix that shows the tensor as this view; None if there is none."""
        return next((matrix for matrix, seen in self.views(tensor) if seen == axes), None)

    def any_view(self, tensor: str) -> tuple[Matrix, Axes]:
        """Return some matrix of the tensor, brought if there is none, with the axes of its view."""
        self.settle(tensor)
        if views := self.views(tensor):
            return views[0]
        if self.is_withdrawn(tensor) and self.made_again(tensor, None):
            return self.views(tensor)[0]
        axes = physical(self.dram.shape(tensor))
        return self.load(tensor, axes), axes

    def turned(self, source: Matrix, tensor: str, axes: Axes) -> Matrix:
        """Return the tensor as `axes`, the transpose of `source`: turned by identity products.

        Where products spread infinities, the result of a function may have to be made again
        instead, from turned operands (`Remake.due`).
        """
        again = self._again.get(tensor)
        due = again is not None and again.due and self.spreads(source.dtype)
        if due and (found := self.made_again(tensor, axes)):
            return found
        result = self.result(tensor, axes)
        self.turn(source, result)
        return result

    def moved(self, source: Matrix, change: ChangeOfView, tensor: str, axes: Axes) -> Matrix:
        """Return the elements of `source` as the matrices of another view, moved on the chip."""
        result = self.result(tensor, axes)
        self.node(MoveNode, (source,), result, change)
        return result

    def view(self, tensor: str, axes: Axes, beside: Beside = ALONE) -> Matrix:
        """Return a matrix of the tensor seen as `axes`, moved or turned if need be.

        beside: what happens while it is brought.
        """
        self.place_tiled(tensor)
        if self.homes.is_scattered(tensor):
            return self.homes.collected(tensor, axes)
        self.settle(tensor)
        if found := self.known(tensor, axes):
            return self._in_common_tiles(found, tensor, axes)
        if window := self.batches.window(tensor, axes):
            return window
        if self.is_withdrawn(tensor) and self.has_remake(tensor):
            return self.made_again(tensor, axes) or self._made_in_own_view(tensor, axes)
        source = self.known(tensor, swap(axes)) or self.batches.window(tensor, swap(axes))
        if source is None and (folded := self._folded(tensor, axes)):
            return folded
        if source is None and (whole := self.batches.brought(tensor, axes, beside)):
            return whole
        if source is None and self.dram.holds(tensor):
            if not self.turn_is_cheaper(tensor, axes):
                return self.load(tensor, axes)
            return self.turned(self.load(tensor, swap(axes)), tensor, axes)
        if self.options.via == "dram":
            self.to_dram(tensor)
            return self.load(tensor, axes)
        if source is not None and self.can_turn(source.dtype, at_once=True):
            return self.turned(source, tensor, axes)
        return self.changed(tensor, axes)

    def _made_in_own_view(self, tensor: str, axes: Axes) -> Matrix:
        """Return a tensor as a view that its operands do not allow, from one that they do."""
        self.made_again(tensor, None)
        return self.view(tensor, axes)

    def _folded(self, tensor: str, axes: Axes) -> Matrix | None:
        """Return a vector in DRAM as a column, turned many rows at once; None if no time is saved.

        A row of 2048 elements takes an array of 128 columns 16 loads of weights, each for a single
        vector. The same bytes as 16 rows of 128 take one.
        """
        if (tensor, axes) in self._folds:
            return self.matrix(self._folds[tensor, axes])
        if not self.dram.holds(tensor) or self.options.via is not None:
            return None
        shape, p = self.dram.shape(tensor), block_rows(self.chip)
        pieces, rest = divmod(math.prod(shape.dims), p)
        is_vector = len(shape.dims) == 1 and axes == ((0,), ()) and not shape.layout.tiles
        if not is_vector or rest or not 1 < pieces <= p or not self.can_turn(shape.element_type):
            return None
        place = f"{self.dram.of(tensor)}, {pieces} rows"
        rows = Shape(shape.element_type, (pieces, p))
        cycles = load_cost(self.chip, rows, ((0,), (1,)))
        cycles += turn_cost(self.chip, rows.dims, shape.element_type)
        direct = load_cost(self.chip, shape, axes)
        if cycles >= direct:
            return None
        self.dram.alias(place, self.dram.of(tensor), rows)
        source = self.place_matrix(rows, ((0,), (1,)), tensor, dram=place)
        holder = self.scratch(tensor, shape.element_type, (1, p, pieces), None)
        self.turn(source, holder)
        column = self.folded_within(holder, axes)
        self._folds[tensor, axes] = column.name
        self.choose(
            f"{tensor} is turned as {pieces} rows of {p} (about {cycles} cycles; a transposing "
            f"DMA: {direct})"
        )
        return column

    def with_tiles(self, tensor: str, axes: Axes) -> Matrix:
        """Return a view of a tensor that has tiles of its own."""
        matrix = self.view(tensor, axes)
        if matrix.window is None:
            return matrix
        copy = self.result(tensor, axes)
        self.node(ConvertNode, (matrix,), copy)
        return copy

    def _in_common_tiles(self, matrix: Matrix, tensor: str, axes: Axes) -> Matrix:
        """Return a view of a tensor in the compilation's tiles: a copy, if there is none."""
        if not self.has_own_tiles(matrix):
            return matrix
        for other, seen in self.views(tensor):
            if seen == axes and not self.has_own_tiles(other):
                return other
        copy = self.result(tensor, axes)
        self.node(ConvertNode, (matrix,), copy)
        return copy

    def turn_is_cheaper(self, tensor: str, axes: Axes) -> bool:
        """Return whether to bring the transpose of the view and turn it; note it if so."""
        shape = self.dram.shape(tensor)
        if self.options.via == "dram" or not self.can_turn(shape.element_type):
            return False
        through = load_cost(self.chip, shape, swap(axes)) + self.cost_of_turning(shape, swap(axes))
        direct = load_cost(self.chip, shape, axes)
        at_once = self.can_turn(shape.element_type, at_once=True)
        if self.options.via is None and direct <= through * (1 if at_once else BY_FAR):
            return False
        self.choose(
            f"{tensor} is turned by identity products (about {through} cycles; a transposing "
            f"DMA: {direct})"
        )
        return True

    def cost_of_turning(self, shape: Shape, axes: Axes) -> int:
        """Return about how many cycles it takes to turn a tensor that is seen as `axes`."""
        dims = [math.prod(shape.dims[d] for d in group) for group in axes]
        return turn_cost(self.chip, dims, shape.element_type)

    def changed(self, tensor: str, *targets: Axes) -> Matrix:
        """Move a tensor on the chip to the cheapest of some views, directly or with a turn."""
        self.settle(tensor)
        way = self._cheapest_way(tensor, targets)
        self.choose(f"{tensor} changes its view on the chip (about {way.cycles} cycles)")
        first = self.known(tensor, way.first) or self.turned(way.matrix, tensor, way.first)
        if way.first != way.last:
            change = self._change(tensor, way.first, way.last)
            first = self.moved(first, change, tensor, way.last)
        return first if way.last == way.axes else self.turned(first, tensor, way.axes)

    def change_cost(
        self, tensor: str, seen: Axes, targets: Sequence[Axes], limit: int = UNLIMITED
    ) -> int:
        """Return about how many cycles it takes to move a view on the chip to the cheapest one.

        At most `limit`: what takes as long is not looked at to its end.
        """
        shape = self.graph.shape(tensor)
        ways = [(seen, axes, 0) for axes in targets]
        if self.can_turn(shape.element_type):
            for axes in targets:
                turn = self.cost_of_turning(shape, axes)
                ways += [(seen, swap(axes), turn), (swap(seen), axes, turn)]
        for first, last, turn in ways:
            limit = min(limit, turn + self._move_cost(tensor, first, last, limit - turn))
        return limit

    def _cheapest_way(self, tensor: str, targets: Sequence[Axes]) -> _WayToView:
        best: _WayToView | None = None
        for matrix, seen in self.views(tensor):
            for axes in targets:
                for first, last, turn in self._legs(tensor, matrix, seen, axes):
                    limit = best.cycles - turn if best else UNLIMITED
                    cycles = turn + self._move_cost(tensor, first, last, limit)
                    if best is None or cycles < best.cycles:
                        best = _WayToView(cycles, matrix, first, last, axes)
        if best is None:
            raise CompileError(
                f'"{tensor}": {self.graph.shape(tensor)} lies on the chip as its operation cannot '
                "take it, and no way leads from there to another view"
            )
        return best

    def _legs(
        self, tensor: str, matrix: Matrix, seen: Axes, axes: Axes
    ) -> Iterator[tuple[Axes, Axes, int]]:
        """Yield the views before and after a move, and the cycles of a turn beside it, if any."""
        yield seen, axes, 0
        if self.can_turn(matrix.dtype):
            shape = self.graph.shape(tensor)
            yield seen, swap(axes), self.cost_of_turning(shape, swap(axes))
            yield swap(seen), axes, self.cost_of_turning(shape, seen)

    def _move_cost(self, tensor: str, seen: Axes, wanted: Axes, limit: int = UNLIMITED) -> int:
        if seen == wanted:
            return 0
        dtype = self.graph.shape(tensor).element_type
        return self.cost_of(self._change(tensor, seen, wanted), dtype, limit)

    def cost_of(self, change: ChangeOfView, dtype: str, limit: int = UNLIMITED) -> int:
        """Return about how many cycles a move on the chip takes, or some from `limit` on."""
        return move_cost(self.chip, self.options, change, dtype, limit)

    def _change(self, tensor: str, seen: Axes, wanted: Axes) -> ChangeOfView:
        dims = self.graph.shape(tensor).dims
        return ChangeOfView(Spread(dims, seen), Spread(dims, wanted))

    def to_dram(self, tensor: str) -> None:
        """Write the tensor to DRAM if it is not there."""
        if not self.dram.holds(tensor):
            matrix, axes = self.any_view(tensor)
            shape = self.graph.shape(tensor)
            self.store(matrix, tensor, Shape(shape.element_type, shape.dims), axes)

    def storable(self, tensor: str, minor: tuple[int, ...]) -> tuple[Matrix, Axes]:
        """Return the view of a tensor to write to DRAM, where it has those dimensions minor-most.

        It is a view whose columns end in these dimensions, so that runs are long. It is there
        already, or comes by a turn or a move.
        """
        matrix, axes = self.any_view(tensor)
        views = [view for view in self.views(tensor) if ends_in(view[1][-1], minor)]
        if views:
            return views[0]
        rest = [axis for group in axes for axis in group if axis not in minor]
        wanted = (*((axis,) for axis in rest), minor)
        if ends_in(axes[-2], minor) and self._turn_is_best(matrix.dtype, tensor, axes, wanted):
            return self.turned(matrix, tensor, swap(axes)), swap(axes)
        if self.options.via == "dram" or not rest:
            return matrix, axes
        return self.changed(tensor, wanted), wanted

    def _turn_is_best(self, dtype: str, tensor: str, axes: Axes, wanted: Axes) -> bool:
        """Return whether to turn a view that is wanted in another order.

        Byte by byte that takes longer than to move the few elements of many small matrices.
        """
        if self.can_turn(dtype, at_once=True):
            return True
        if not self.can_turn(dtype) or len(wanted) == 1:  # a vector is written as it is seen
            return False
        turn = self.cost_of_turning(self.graph.shape(tensor), axes)
        return turn <= self._move_cost(tensor, axes, wanted)

    def keep(self, tensor: str) -> None:
        """Keep the tensor on the chip until the end, as one of the views in which it may live."""
        shape = self.graph.shape(tensor)
        if shape.layout.tiles:
            self.homes.keep_in_tiles(tensor)
            return
        legal = tuple(home_views(shape))
        self.settle(tensor)
        there = [(m, v) for m, v in self.views(tensor) if m.source.kind != "dram" and v in legal]
        if there:
            matrix, axes = min(there, key=lambda view: legal.index(view[1]))
        elif self.dram.holds(tensor) or self.options.via == "dram":
            axes = legal[0]
            loaded, matrix = self.view(tensor, axes), self.result(tensor, axes)
            self.node(ConvertNode, (loaded,), matrix)
        else:
            matrix = self.changed(tensor, *dict.fromkeys(legal))
            axes = next(seen for found, seen in self.views(tensor) if found == matrix)
        self.keep_matrix(tensor, matrix, axes)

    def strands(self, tensor: str) -> Strands | None:
        """Return the strands in which a tensor lies, if nothing else shows it yet."""
        return None if self.is_shown(tensor) else self.strand_tensors.known(tensor)

    def rename_strands(self, strands: Strands, tensor: str, axes: Axes) -> None:
        """Let strands also be `tensor`, seen as `axes`: the same elements, nothing is moved."""
        self.strand_tensors.rename(strands, tensor, axes)

    def in_lanes(self, tensor: str, view: Axes, *, given: bool) -> Matrix:
        """Return a tensor on the chip in tiles of whole rows.

        Without tiles, all of its matrices lie side by side, as one matrix of the same bytes, unless
        they have more rows than there are partitions.

        view: [batch..., rows, columns] in the order of memory: of its tiles if it has any.
        given: the tensor is there at cycle 0.
        """
        shape, p = self.graph.shape(tensor), block_rows(self.chip)
        *batch, rows, cols = axes = view
        lies = as_rows(self.graph.tensor(tensor), self.chip) if shape.layout.tiles else None
        if lies is None and self.size(tensor, rows) <= p:
            axes = (rows, tuple(axis for group in (*batch, cols) for axis in group))
        columns = self.size(tensor, axes[-1])
        self.placed(tensor)
        matrix = self.make(tensor, axes, GIVEN if given else MADE, (p, columns))
        home = shape if lies else in_unbroken_rows(shape, view, p)
        self.homes.lies_at(tensor, home, matrix, chosen=lies is None)
        return self.fixed(matrix, tensor, lies.width if lies else columns)

    def keep_matrix(self, tensor: str, matrix: Matrix, axes: Axes) -> None:
        """Keep a matrix, which shows the tensor as `axes`, on the chip until the end."""
        matrix = self._matrices[matrix.name]
        if not self.homes.is_known(tensor):
            matrix = self.homes.unbroken(matrix, tensor, axes)
        self.keep_at_end(matrix, tensor, axes)
        self._at_home.add(tensor)
