"""Tensors on the chip that lie where their tiles, or unbroken rows, say.

Unbroken rows of a width are a view; rows that share partitions are strands (`strand_tensors`). To
other tiles no access pattern leads: their elements are scattered, so each is moved on its own, from
the tiles to a view or from a view to the tiles. Not here: what a text of tiles means for the chip
(`ir.on_chip.homes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from systolic.compiler.ir.carried import user_shape
from systolic.compiler.ir.change_of_view import ChangeOfView, Spread
from systolic.compiler.ir.nodes import (
    GIVEN,
    MADE,
    Axes,
    ConvertNode,
    Matrix,
    MoveNode,
    Source,
    TensorOnChip,
)
from systolic.compiler.ir.on_chip.chip_tiles import block_rows
from systolic.compiler.ir.on_chip.homes import (
    Rows,
    Scattered,
    as_rows,
    in_unbroken_rows,
    lies_unbroken,
)
from systolic.compiler.lower.moves.strand_tensors import StrandTensors
from systolic.compiler.lower.view_maker import ViewMaker
from systolic.layout import Shape

SCATTERED_COLUMNS = 1024
"""The columns of a tile of a matrix of places."""


class ChipHomes:
    """Where tensors of a graph that is being lowered lie on the chip.

    types: those that narrow tensors have for the user. whole: the shapes that tensors which are
    moved as bytes have for the user.
    """

    def __init__(
        self,
        builder: ViewMaker,
        strand_tensors: StrandTensors,
        types: Mapping[str, str],
        whole: Mapping[str, Shape],
    ) -> None:
        self._builder, self._types, self._whole = builder, types, whole
        self._strand_tensors = strand_tensors
        self._homes: list[TensorOnChip] = []
        self._scattered: dict[str, Matrix] = {}
        self._unpacked: dict[str, Scattered] = {}

    def given(self) -> tuple[TensorOnChip, ...]:
        """Return all places, with the shapes that their tensors have for the user."""
        return tuple(map(self._as_given, self._homes))

    def is_known(self, tensor: str) -> bool:
        """Return whether it is said where a tensor lies."""
        return any(home.tensor == tensor for home in self._homes)

    def is_scattered(self, tensor: str) -> bool:
        """Return whether a tensor's elements are scattered, and no view shows it yet."""
        return tensor in self._scattered and not self._builder.is_shown(tensor)

    def _rows(self, tensor: str) -> Rows | None:
        return as_rows(self._builder.graph.tensor(tensor), self._builder.chip)

    def place_in_tiles(self, tensor: str) -> None:
        """Let an input lie where its tiles say."""
        builder = self._builder
        builder.placed(tensor)
        if rows := self._rows(tensor):
            made = builder.make(tensor, rows.axes, GIVEN)
            matrix = builder.fixed(made, tensor, rows.width)
        elif lies := builder.interleaved(tensor):
            held = self._strand_tensors.new(tensor, lies.axes, lies.ways, GIVEN)
            matrix = self._strand_tensors.fix(tensor, held, lies.width).holder
        else:
            matrix = self._scattered[tensor] = self._scatter(tensor, GIVEN)
        self.lies_at(tensor, builder.graph.shape(tensor), matrix)

    def _places(self, tensor: str) -> Scattered:
        if tensor in self._unpacked:
            return self._unpacked[tensor]
        return Scattered.of(self._builder.graph.tensor(tensor), self._builder.chip)

    def share_place(self, names: tuple[str, str], lies: tuple[Shape, Shape], given: str) -> None:
        """Let an output lie where an input is, as both shapes in tiles say.

        names: of the input and of the output. given: which of them says where, if one does.
        """
        builder, graph = self._builder, self._builder.graph
        places = Scattered.of(replace(graph.tensor(names[0]), shape=lies[0]), builder.chip)
        matrix = self._scatter(given, GIVEN, places)
        builder.placed(names[0])
        for name, shape in zip(names, lies, strict=True):
            self.lies_at(name, shape, matrix, chosen=not graph.shape(name).layout.tiles)
        builder.keep_matrix(names[1], matrix, ((), ()))

    def _scatter(self, tensor: str, source: Source, places: Scattered | None = None) -> Matrix:
        """Return a matrix of all places that the tensor's tiles take, or of those given."""
        builder = self._builder
        _, rows, cols = (places or self._places(tensor)).sizes()
        name = builder.new_name(tensor)
        dtype, block = (
            builder.graph.shape(tensor).element_type,
            (rows, min(cols, SCATTERED_COLUMNS)),
        )
        matrix = Matrix(name, tensor, dtype, (rows, cols), ((), ()), source, block)
        return builder.fixed(matrix, tensor, cols)

    def hold(self, tensor: str, matrix: Matrix, places: Scattered, axes: Axes | None) -> None:
        """Note that a tensor's elements lie in a matrix, at these places.

        axes: the view as whose rows they lie, so that they are copied to it lane by lane.
        """
        builder = self._builder
        builder.placed(tensor)
        self._scattered[tensor], self._unpacked[tensor] = matrix, places
        if axes is not None:
            change = ChangeOfView(places, Spread(builder.graph.shape(tensor).dims, axes))
            builder.moved(matrix, change, tensor, axes)

    def holds_rows(self, tensor: str, matrix: Matrix, axes: Axes) -> None:
        """Note that a matrix is a tensor's elements, seen as `axes`."""
        self._builder.placed(tensor)
        self._builder.rename(matrix, tensor, axes)

    def deal_out(self, tensor: str, matrix: Matrix, places: Scattered, axes: Axes | None) -> None:
        """Bring the elements of a tensor to their places in a matrix, as a view if one is given."""
        builder = self._builder
        source, seen = builder.any_view(tensor)
        if axes is not None:
            source, seen = builder.view(tensor, axes), axes
        if source.window is not None:  # a move takes whole tiles of its source
            window, source = source, builder.result(tensor, seen)
            builder.node(ConvertNode, (window,), source)
        change = ChangeOfView(Spread(builder.graph.shape(tensor).dims, seen), places)
        builder.node(MoveNode, (source,), matrix, change)

    def lies_at(self, tensor: str, shape: Shape, matrix: Matrix, *, chosen: bool = False) -> None:
        """Note that a tensor lies where a matrix is, as a shape says; chosen: by the compiler."""
        self._homes.append(TensorOnChip(tensor, shape, matrix.name, chosen=chosen))

    def collected(self, tensor: str, axes: Axes) -> Matrix:
        """Return a scattered input as a view, element by element."""
        builder = self._builder
        change = ChangeOfView(self._places(tensor), Spread(builder.graph.shape(tensor).dims, axes))
        builder.choose(f"{tensor} is collected from its tiles, to which no access pattern leads")
        return builder.moved(self._scattered[tensor], change, tensor, axes)

    def unbroken(self, matrix: Matrix, tensor: str, axes: Axes) -> Matrix:
        """Let a tensor without tiles lie in unbroken rows from one byte on, if tiles can say so."""
        builder = self._builder
        p = matrix.block[0] if matrix.block else block_rows(builder.chip)
        unbroken = lies_unbroken(matrix.rows, p, builder.chip)
        if not unbroken or (matrix.lies.rows and matrix.lies.rows.width != matrix.cols):
            return matrix
        shape = builder.graph.shape(tensor)
        lies = in_unbroken_rows(shape, axes, p)
        self.lies_at(tensor, lies, matrix, chosen=not shape.layout.tiles)
        return builder.fixed(matrix, tensor, matrix.cols)

    def keep_in_tiles(self, tensor: str) -> None:
        """Keep an output on the chip where its tiles say."""
        builder = self._builder
        rows, shape = self._rows(tensor), builder.graph.shape(tensor)
        if rows:
            matrix = self._in_rows(tensor, rows)
        elif lies := builder.interleaved(tensor):
            matrix = self._strand_tensors.made(tensor, lies)
        else:
            matrix = self._on_chip(tensor)
        self.lies_at(tensor, shape, matrix)
        builder.keep_matrix(tensor, matrix, rows.axes if rows else ((), ()))

    def _on_chip(self, tensor: str) -> Matrix:
        """Return the places of an output's tiles, filled element by element."""
        builder = self._builder
        matrix, axes = builder.any_view(tensor)
        change = ChangeOfView(Spread(builder.graph.shape(tensor).dims, axes), self._places(tensor))
        builder.choose(f"{tensor} is dealt out to its tiles, to which no access pattern leads")
        scattered = self._scatter(tensor, MADE)
        builder.node(MoveNode, (matrix,), scattered, change)
        return scattered

    def _in_rows(self, tensor: str, rows: Rows) -> Matrix:
        """Return a matrix of an output in unbroken rows of its width."""
        builder = self._builder
        builder.settle(tensor)
        there = [
            m for m, axes in builder.views(tensor) if axes == rows.axes and m.source.kind != "dram"
        ]
        free = [m for m in there if not m.block and builder.may_lie(m, tensor, rows.width)]
        if free:
            return builder.fixed(free[0], tensor, rows.width)
        if there or builder.dram.holds(tensor) or builder.options.via == "dram":
            source, made = builder.view(tensor, rows.axes), builder.result(tensor, rows.axes)
            builder.node(ConvertNode, (source,), made)
            return builder.fixed(made, tensor, rows.width)
        return builder.fixed(builder.changed(tensor, rows.axes), tensor, rows.width)

    def _as_given(self, home: TensorOnChip) -> TensorOnChip:
        """Return a place on the chip with the shape that its tensor has for the user."""
        if home.tensor in self._whole:
            return replace(home, shape=self._whole[home.tensor])
        if home.tensor not in self._types:
            return home
        return replace(home, shape=user_shape(home.shape, self._types[home.tensor]))
