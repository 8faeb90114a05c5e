"""Batches in DRAM whose matrices are brought or stored all at once, as a lowering's views.

A tile has rows of all matrices (`ir.batch_rows`). Each matrix lies within such a tile, at a
distance (`ir.windows`). The estimates say whether that is better than matrix by matrix
(`cost.batches`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from systolic.arrays import Integers
from systolic.compiler.cost.batches import (
    Beside,
    apart_cost,
    apart_queue_cycles,
    queue_cycles,
    sharing_queues,
    together_cost,
)
from systolic.compiler.ir.batch_rows import BatchRows, whole_rows
from systolic.compiler.ir.change_of_view import Spread
from systolic.compiler.ir.nodes import Axes, Matrix
from systolic.compiler.ir.on_chip.chip_tiles import block_rows, whole_banks
from systolic.compiler.ir.on_chip.homes import as_rows, lies_unbroken
from systolic.compiler.ir.windows import MatrixWindow
from systolic.compiler.lower.view_maker import ViewMaker
from systolic.compiler.lower.views import physical, swap
from systolic.layout import Layout, Shape

ROOM = 8
"""A tile of a batch that is brought takes no more than this part of a partition."""


@dataclass(frozen=True, slots=True)
class _Together:
    """About how many `cycles` a batch in whole rows takes, seen as `axes`."""

    cycles: int
    axes: Axes


class Batches:
    """The batches of a graph that is being lowered: what is brought and stored in whole rows."""

    def __init__(self, builder: ViewMaker) -> None:
        self._builder = builder
        self._windows: dict[tuple[str, Axes], str] = {}

    def brought(self, tensor: str, axes: Axes, beside: Beside) -> Matrix | None:
        """Bring the matrices of a batch in whole rows; None if nothing is gained.

        beside: what happens meanwhile.
        """
        builder = self._builder
        if not (_can_be_together(axes) and builder.dram.holds(tensor) and self._may_arrange()):
            return None
        shape = builder.dram.shape(tensor)
        if not _has_whole_rows(shape):
            return None
        if builder.dram.of(tensor) != tensor:  # a matrix comes as soon as it has been moved there
            beside = replace(beside, in_turn_cycles=None)
        best, apart = self._best_to_bring(shape, axes, beside)
        if best is None or best.cycles >= apart:
            return None
        self._note(tensor, "brought", best, apart)
        matrix = self._together(tensor, shape, best.axes, builder.dram.of(tensor))
        return matrix if best.axes == axes else builder.turned(matrix, tensor, axes)

    def _best_to_bring(
        self, shape: Shape, axes: Axes, beside: Beside
    ) -> tuple[_Together | None, int]:
        """Return the best whole rows, turned if that is better, and the cycles matrix by matrix."""
        chip, seen = self._builder.chip, self._turned(shape, axes)
        found = [
            _Together(together_cost(chip, shape, view, beside) + turn, view)
            for view, turn in seen.items()
            if self._has_room(shape, _columns(shape, view))
        ]
        apart = min(apart_cost(chip, shape, view, beside) + turn for view, turn in seen.items())
        return min(found, key=lambda way: way.cycles, default=None), apart

    def _turned(self, shape: Shape, axes: Axes) -> dict[Axes, int]:
        """Return the views that can become `axes`, and about how many cycles their turns take."""
        seen = {axes: 0}
        if self._builder.can_turn(shape.element_type):
            seen[swap(axes)] = self._builder.cost_of_turning(shape, axes)
        return seen

    def result(self, tensor: str, axes: Axes, beside: Beside) -> Matrix | None:
        """Return the matrices of an output within whole rows; None if nothing is gained."""
        found = self._best_to_store(tensor, axes, beside)
        if found is None:
            return None
        best, apart = found
        self._note(tensor, "stored", best, apart)
        return self._together(tensor, self._builder.graph.shape(tensor), axes, "")

    def cost_of_storing(self, tensor: str, axes: Axes, beside: Beside) -> int | None:
        """Return about how many cycles a product stored many at a time takes; None if no gain."""
        found = self._best_to_store(tensor, axes, beside)
        return found[0].cycles if found else None

    def _best_to_store(
        self, tensor: str, axes: Axes, beside: Beside
    ) -> tuple[_Together, int] | None:
        """Return whole rows of an output and the cycles matrix by matrix; None if no gain."""
        builder = self._builder
        given = _can_be_together(axes) and tensor in builder.graph.outputs and self._may_arrange()
        if not given or builder.graph.tensor(tensor).home != "dram":
            return None
        shape = builder.graph.shape(tensor)
        if not _has_whole_rows(shape) or not self._may_store(shape, axes):
            return None
        best = _Together(together_cost(builder.chip, shape, axes, beside), axes)
        apart = apart_cost(builder.chip, shape, axes, beside)
        if physical(shape)[-1] == axes[-2]:
            apart = apart_cost(builder.chip, shape, swap(axes), beside)
            apart += builder.cost_of_turning(shape, axes)
        return (best, apart) if best.cycles < apart else None

    def least_queue_cycles(self, tensor: str, axes: Axes) -> int:
        """Return about how many cycles of all queues a tensor in DRAM takes at least."""
        builder = self._builder
        ends_there = tensor in builder.graph.outputs and builder.graph.tensor(tensor).home == "dram"
        if not (ends_there or builder.dram.holds(tensor)) or not _can_be_together(axes):
            return 0
        shape = builder.graph.shape(tensor) if ends_there else builder.dram.shape(tensor)
        if ends_there and len(shape.layout.tiles) > 1:  # it is stored without gaps first
            order = [axis for group in axes for axis in group]
            shape = Shape(shape.element_type, shape.dims, Layout(tuple(order)[::-1]))
        views = [axes, *([swap(axes)] if builder.can_turn(shape.element_type) else [])]
        found = [apart_queue_cycles(builder.chip, shape, view) for view in views]
        if _is_dense(shape):
            found += [queue_cycles(builder.chip, shape, view) for view in views]
        return min(found)

    def place(self, tensor: str, axes: Axes) -> None:
        """Let an input on the chip lie so that a product takes its matrices where they are.

        Without tiles the layout says the order of the dimensions, and which of them lie on
        partitions is free. If the rows of the view, or of its transpose, lie there, all matrices
        lie side by side, each at a distance, and none need be moved.
        """
        builder = self._builder
        alone = builder.uses(tensor) == 1 and tensor not in builder.graph.outputs
        if not alone or not builder.is_unplaced(tensor):
            return
        for seen in (axes, swap(axes)):
            if (view := self._rows_on_chip(tensor, seen)) is not None:
                self._window_on_chip(tensor, view, seen, given=True)
                return

    def may_be_made_on_chip(self, tensor: str, axes: Axes) -> bool:
        """Return whether `made_on_chip` has matrices for a product that makes this view."""
        return self._rows_made_on_chip(tensor, axes) is not None

    def _rows_made_on_chip(self, tensor: str, axes: Axes) -> Axes | None:
        builder = self._builder
        if tensor not in builder.graph.outputs or builder.uses(tensor):
            return None
        return self._rows_on_chip(tensor, axes)

    def made_on_chip(self, tensor: str, axes: Axes) -> Matrix | None:
        """Return the matrices of an output on the chip within rows of all; None if none suits."""
        builder, view = self._builder, self._rows_made_on_chip(tensor, axes)
        if view is None:
            return None
        made = self._window_on_chip(tensor, view, axes, given=False)
        held = builder.matrix(made.holder)
        builder.keep_matrix(tensor, held, held.axes)
        return made

    def _rows_on_chip(self, tensor: str, wanted: Axes) -> Axes | None:
        """Return the view as which a tensor lies on the chip so that a wanted one is within it.

        None: its usual view, or the one of its tiles, is wanted; or no other has these rows.
        """
        builder, (rows, cols) = self._builder, wanted[-2:]
        home, shape = builder.graph.tensor(tensor), builder.graph.shape(tensor)
        if home.home != "state_buffer" or builder.is_packed(tensor) or not self._may_arrange():
            return None
        if not _can_be_together(wanted):
            return None
        if shape.layout.tiles:
            lies = as_rows(home, builder.chip)
            view = lies.axes if lies else None
        elif home.partition or home.byte is not None:
            return None
        else:
            view = physical(shape)
            if view not in (wanted, swap(wanted)):
                view = _with_rows(shape, rows)
        if view is None or view in (wanted, swap(wanted)) or view[-2] != rows:
            return None
        within = {*cols} <= {*view[-1]} and self._may_lie(shape, view)
        return view if within else None

    def _may_lie(self, shape: Shape, view: Axes) -> bool:
        """Return whether tiles of whole rows may lie on the chip as unbroken rows."""
        chip = self._builder.chip
        rows, cols = (math.prod(shape.dims[d] for d in group) for group in view[-2:])
        p, bank = block_rows(chip), whole_banks(chip)
        if rows > p:
            return lies_unbroken(rows, p, chip)
        batch = math.prod(shape.dims[d] for group in view[:-2] for d in group)
        return not bank or batch * cols * shape.dtype.itemsize <= bank

    def _window_on_chip(self, tensor: str, view: Axes, seen: Axes, *, given: bool) -> Matrix:
        builder, shape = self._builder, self._builder.graph.shape(tensor)
        held = builder.in_lanes(tensor, view, given=given)
        how = "lies" if given else "is made"
        builder.choose(f"{tensor} {how} with its matrices side by side, each in reach of a product")
        return self._within(tensor, seen, held, BatchRows(shape, held.axes, seen))

    def _may_store(self, shape: Shape, axes: Axes) -> bool:
        """Return whether an output may be made in whole rows, all of it before it is stored.

        It is not if matrices could be stored one by one as they are.
        """
        chip = self._builder.chip
        tall = -(-math.prod(shape.dims[d] for d in axes[-2]) // block_rows(chip))
        size = _columns(shape, axes) * shape.dtype.itemsize
        have = chip.state_buffer.bytes_per_partition
        whole = tall * size * 5 <= have * 4 and size <= (whole_banks(chip) or have // 2)
        return whole and physical(shape)[-1] != axes[-1]

    def _has_room(self, shape: Shape, columns: int) -> bool:
        """Return whether a tile takes so few bytes that tiles of other matrices fit as well."""
        chip = self._builder.chip
        room = chip.state_buffer.bytes_per_partition // ROOM
        return columns * shape.dtype.itemsize <= min(room, whole_banks(chip) or room)

    def _may_arrange(self) -> bool:
        options = self._builder.options
        return options.via is None and options.block is None and options.tile_columns is None

    def _note(self, tensor: str, verb: str, best: _Together, apart: int) -> None:
        self._builder.choose(
            f"{tensor} is {verb} in whole rows of all its matrices (about {best.cycles} cycles "
            f"with the product; matrix by matrix: {apart})"
        )

    def _together(self, tensor: str, shape: Shape, axes: Axes, dram: str) -> Matrix:
        """Return matrices within tiles that come from DRAM or ("") are to be made."""
        builder, tiles = self._builder, whole_rows(shape, axes)
        held = builder.place_matrix(
            shape,
            tiles,
            tensor,
            dram=dram,
            shared=sharing_queues(builder.chip, shape, axes),
            height=block_rows(builder.chip),
        )
        builder.rename(held, tensor, tiles)
        found = self.window(tensor, axes)
        return found or self._within(tensor, axes, held, BatchRows(shape, tiles, axes))

    def _within(self, tensor: str, axes: Axes, held: Matrix, lies: BatchRows) -> Matrix:
        """Return the matrices of a batch, which lie within tiles of whole rows."""
        dims = lies.shape.dims
        window = MatrixWindow(held.name, Spread(dims, lies.tiles), Spread(dims, lies.matrices))
        matrix = self._builder.within(held, window)
        self._windows[tensor, axes] = matrix.name
        return matrix

    def window(self, tensor: str, axes: Axes) -> Matrix | None:
        """Return the view `axes` within a matrix of whole rows; None if there is none."""
        builder = self._builder
        if (found := self._windows.get((tensor, axes))) is not None:
            return builder.matrix(found)
        for held, seen in builder.views(tensor) if _can_be_together(axes) else ():
            if held.lies.shared and seen[-2] == axes[-2]:
                whole = BatchRows(builder.graph.shape(tensor), seen, axes)
                return self._within(tensor, axes, held, whole)
        return None


def _columns(shape: Shape, axes: Axes) -> int:
    """Return the columns of a tile of whole rows."""
    return math.prod(shape.dims[axis] for axis in whole_rows(shape, axes)[-1])


def _can_be_together(axes: Axes) -> bool:
    """Return whether a view is a batch whose matrices have their columns at one distance."""
    return any(axes[:-2]) and len(axes[-1]) == 1


def _with_rows(shape: Shape, rows: tuple[int, ...]) -> Axes | None:
    """Return the view of a layout's order that has these rows; None if there is none."""
    order = shape.layout.major_to_minor
    first = order.index(rows[0]) if rows else 0
    stop = first + len(rows)
    if not rows or order[first:stop] != rows or stop == len(order):
        return None
    return (*((axis,) for axis in order[:first]), rows, order[stop:])


def _is_dense(shape: Shape) -> bool:
    return not shape.layout.tiles and shape.padded_elements() == shape.num_elements()


def _has_whole_rows(shape: Shape) -> bool:
    """Return whether a row of all matrices of a tensor is one access.

    In tiles it is, without the gaps, if the indices of every dimension lie at one distance.
    """
    if _is_dense(shape):
        return True
    lines = (_places_along(shape, axis) for axis in range(shape.rank))
    return all((np.diff(line, 2) == 0).all() for line in lines)


def _places_along(shape: Shape, axis: int) -> Integers:
    """Return the place of each index along a dimension, in elements."""
    index = [np.asarray(0)] * shape.rank
    index[axis] = np.arange(shape.dims[axis])
    return np.broadcast_to(np.asarray(shape.linear_index(index)), (shape.dims[axis],))
