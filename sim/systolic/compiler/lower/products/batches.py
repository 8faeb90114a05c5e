"""Batches in DRAM whose matrices are brought or stored many at a time, as a lowering's views.

A tile has rows of all matrices, or of the matrices of a group (`ir.batch_groups`). Each matrix lies
within such a tile, at a distance (`ir.windows`). The estimates say whether that is better than
matrix by matrix (`cost.batches`). Not here: moves without products (`ways`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from systolic.arrays import Integers
from systolic.compiler.cost.batches import (
    ALONE,
    Beside,
    apart_cost,
    apart_queue_cycles,
    groups_cost,
    queue_cycles,
    sharing_queues,
)
from systolic.compiler.ir.batch_groups import BatchGroups, batch_groups, group_counts
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
ROOM_STORED = 4
"""A tile of a group that is stored takes no more than this part of a partition."""


@dataclass(frozen=True, slots=True)
class _InGroups:
    """About how many `cycles` a batch takes in `groups` groups, seen as `axes`."""

    cycles: int
    groups: int
    axes: Axes


class Batches:
    """The batches of a graph that is being lowered: what is brought and stored in groups."""

    def __init__(self, builder: ViewMaker) -> None:
        self._builder = builder
        self._windows: dict[tuple[str, Axes], str] = {}
        self._to_store: dict[str, tuple[Matrix, BatchGroups]] = {}

    def brought(self, tensor: str, axes: Axes, beside: Beside) -> Matrix | None:
        """Bring the matrices of a batch many at a time; None if nothing is gained.

        beside: what happens meanwhile. Without a product, the next operation asks for views of the
        tensor. A tensor in several groups has no such views.
        """
        builder = self._builder
        if not (_can_be_grouped(axes) and builder.dram.holds(tensor) and self._may_arrange()):
            return None
        shape = builder.dram.shape(tensor)
        if not _counts(shape, axes):
            return None
        if builder.dram.of(tensor) != tensor:  # a matrix comes as soon as it has been moved there
            beside = replace(beside, in_turn_cycles=None)
        best, apart = self._best_to_bring(shape, axes, beside)
        if best is None or best.cycles >= apart:
            return None
        self._note(tensor, "brought", best, apart)
        matrix = self._grouped(tensor, shape, best, builder.dram.of(tensor))
        return matrix if best.axes == axes else builder.turned(matrix, tensor, axes)

    def _best_to_bring(
        self, shape: Shape, axes: Axes, beside: Beside
    ) -> tuple[_InGroups | None, int]:
        """Return the best groups, turned if that is better, and the cycles matrix by matrix."""
        chip, seen = self._builder.chip, self._turned(shape, axes)
        found = [
            _InGroups(groups_cost(chip, shape, view, n, beside) + turn, n, view)
            for view, turn in seen.items()
            for n in _counts(shape, view)
            if n == 1 or beside != ALONE
            if self._has_room(shape, batch_groups(shape, view, n).columns)
        ]
        apart = min(apart_cost(chip, shape, view, beside) + turn for view, turn in seen.items())
        return _least(found), apart

    def _turned(self, shape: Shape, axes: Axes) -> dict[Axes, int]:
        """Return the views that can become `axes`, and about how many cycles their turns take."""
        seen = {axes: 0}
        if self._builder.can_turn(shape.element_type):
            seen[swap(axes)] = self._builder.cost_of_turning(shape, axes)
        return seen

    def result(self, tensor: str, axes: Axes, beside: Beside) -> Matrix | None:
        """Return the matrices of an output within tiles of many; None if nothing is gained.

        `store` stores them, if they are in groups.
        """
        found = self._best_to_store(tensor, axes, beside)
        if found is None:
            return None
        best, apart = found
        self._note(tensor, "stored", best, apart)
        return self._grouped(tensor, self._builder.graph.shape(tensor), best, "")

    def cost_of_storing(self, tensor: str, axes: Axes, beside: Beside) -> int | None:
        """Return about how many cycles a product stored many at a time takes; None if no gain."""
        found = self._best_to_store(tensor, axes, beside)
        return found[0].cycles if found else None

    def store(self, tensor: str) -> None:
        """Write an output that is made in groups to its place, if it is."""
        if tensor in self._to_store:
            held, groups = self._to_store.pop(tensor)
            self._builder.store_at(held, held.name, groups.tiles)
            self._builder.come_home(tensor)

    def _best_to_store(
        self, tensor: str, axes: Axes, beside: Beside
    ) -> tuple[_InGroups, int] | None:
        """Return the best groups of an output and the cycles matrix by matrix; None if no gain."""
        builder = self._builder
        given = _can_be_grouped(axes) and tensor in builder.graph.outputs and self._may_arrange()
        if not given or builder.graph.tensor(tensor).home != "dram":
            return None
        shape = builder.graph.shape(tensor)
        counts = [n for n in _counts(shape, axes) if self._may_store(tensor, axes, n)]
        if not counts:
            return None
        best = _least(
            [_InGroups(groups_cost(builder.chip, shape, axes, n, beside), n, axes) for n in counts]
        )
        apart = apart_cost(builder.chip, shape, axes, beside)
        if physical(shape)[-1] == axes[-2]:
            apart = apart_cost(builder.chip, shape, swap(axes), beside)
            apart += builder.cost_of_turning(shape, axes)
        return (best, apart) if best and best.cycles < apart else None

    def least_queue_cycles(self, tensor: str, axes: Axes) -> int:
        """Return about how many cycles of all queues a tensor in DRAM takes in its best groups."""
        builder = self._builder
        ends_there = tensor in builder.graph.outputs and builder.graph.tensor(tensor).home == "dram"
        if not (ends_there or builder.dram.holds(tensor)) or not _can_be_grouped(axes):
            return 0
        shape = builder.graph.shape(tensor) if ends_there else builder.dram.shape(tensor)
        if ends_there and len(shape.layout.tiles) > 1:  # it is stored without gaps first
            order = [axis for group in axes for axis in group]
            shape = Shape(shape.element_type, shape.dims, Layout(tuple(order)[::-1]))
        views = [axes, *([swap(axes)] if builder.can_turn(shape.element_type) else [])]
        found = [apart_queue_cycles(builder.chip, shape, view) for view in views]
        if _is_dense(shape):
            found += [
                queue_cycles(builder.chip, shape, view, n)
                for view in views
                for n in group_counts(shape, view)
            ]
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
        if not _can_be_grouped(wanted):
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
        return self._within(tensor, seen, held, BatchGroups(shape, held.axes, seen))

    def _may_store(self, tensor: str, axes: Axes, groups: int) -> bool:
        """Return whether an output may be made in `groups` groups.

        In one group all of it is made before it is stored: not if matrices could be stored one by
        one as they are. In several groups nothing else may take it, since no view shows it.
        """
        builder, shape = self._builder, self._builder.graph.shape(tensor)
        tall = -(-math.prod(shape.dims[d] for d in axes[-2]) // block_rows(builder.chip))
        size = batch_groups(shape, axes, groups).columns * shape.dtype.itemsize
        have = builder.chip.state_buffer.bytes_per_partition
        if groups > 1:
            fits = tall * size * ROOM_STORED <= have and size <= (whole_banks(builder.chip) or have)
            return fits and builder.uses(tensor) == 0
        whole = tall * size * 5 <= have * 4 and size <= (whole_banks(builder.chip) or have // 2)
        return whole and physical(shape)[-1] != axes[-1]

    def _has_room(self, shape: Shape, columns: int) -> bool:
        """Return whether a tile takes so few bytes that tiles of other matrices fit as well."""
        chip = self._builder.chip
        room = chip.state_buffer.bytes_per_partition // ROOM
        return columns * shape.dtype.itemsize <= min(room, whole_banks(chip) or room)

    def _may_arrange(self) -> bool:
        options = self._builder.options
        return options.via is None and options.block is None and options.tile_columns is None

    def _note(self, tensor: str, verb: str, best: _InGroups, apart: int) -> None:
        some = "all its matrices" if best.groups == 1 else f"its matrices, {best.groups} groups"
        self._builder.choose(
            f"{tensor} is {verb} in whole rows of {some} (about {best.cycles} cycles with the "
            f"product; matrix by matrix: {apart})"
        )

    def _grouped(self, tensor: str, shape: Shape, way: _InGroups, dram: str) -> Matrix:
        """Return matrices within tiles that come from DRAM or ("") are to be made."""
        builder, groups = self._builder, batch_groups(shape, way.axes, way.groups)
        if way.groups > 1 and dram:
            name = f"{tensor}.in{way.groups}"
            builder.dram.alias(name, dram, groups.shape)
            dram = name
        held = builder.place_matrix(
            groups.shape,
            groups.tiles,
            tensor,
            dram=dram,
            shared=sharing_queues(builder.chip, shape, way.axes, way.groups),
            height=block_rows(builder.chip),
        )
        if way.groups == 1:
            builder.rename(held, tensor, groups.tiles)
            whole = BatchGroups(shape, groups.tiles, way.axes)
            return self.window(tensor, way.axes) or self._within(tensor, way.axes, held, whole)
        if not dram:
            builder.dram.alias(held.name, tensor, groups.shape)
            self._to_store[tensor] = held, groups
        return self._within(tensor, way.axes, held, groups)

    def _within(self, tensor: str, axes: Axes, held: Matrix, groups: BatchGroups) -> Matrix:
        """Return the matrices of a batch, which lie within the tiles of its groups."""
        dims = groups.shape.dims
        window = MatrixWindow(held.name, Spread(dims, groups.tiles), Spread(dims, groups.matrices))
        matrix = self._builder.within(held, window)
        self._windows[tensor, axes] = matrix.name
        return matrix

    def window(self, tensor: str, axes: Axes) -> Matrix | None:
        """Return the view `axes` within a matrix of whole rows; None if there is none."""
        builder = self._builder
        if (found := self._windows.get((tensor, axes))) is not None:
            return builder.matrix(found)
        for held, seen in builder.views(tensor) if _can_be_grouped(axes) else ():
            if held.lies.shared and seen[-2] == axes[-2]:
                whole = BatchGroups(builder.graph.shape(tensor), seen, axes)
                return self._within(tensor, axes, held, whole)
        return None


def _least(ways: Sequence[_InGroups]) -> _InGroups | None:
    """Return the best groups; of several that are as good, the fewest."""
    return min(ways, key=lambda way: (way.cycles, way.groups), default=None)


def _can_be_grouped(axes: Axes) -> bool:
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


def _counts(shape: Shape, axes: Axes) -> list[int]:
    """Return into how many groups of matrices a tensor may be cut, which lie in whole rows.

    In tiles it may be in one group, if the indices of every dimension lie at one distance: then a
    row of all its matrices is one access, without the gaps.
    """
    if _is_dense(shape):
        return group_counts(shape, axes)
    lines = (_places_along(shape, axis) for axis in range(shape.rank))
    return [1] if all((np.diff(line, 2) == 0).all() for line in lines) else []


def _places_along(shape: Shape, axis: int) -> Integers:
    """Return the place of each index along a dimension, in elements."""
    index = [np.asarray(0)] * shape.rank
    index[axis] = np.arange(shape.dims[axis])
    return np.broadcast_to(np.asarray(shape.linear_index(index)), (shape.dims[axis],))
