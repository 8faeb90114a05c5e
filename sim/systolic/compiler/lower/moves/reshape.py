"""Lowering of a reshape: the same elements, in logical order, in other dimensions.

Often nothing moves: the dimensions nest, and the same matrices show both; or the tensor lies in
DRAM in logical order. Otherwise its elements change places on the chip.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from systolic.compiler.cost.dma import store_cost
from systolic.compiler.cost.moves import UNLIMITED
from systolic.compiler.cost.turns import turn_cost
from systolic.compiler.ir.change_of_view import ChangeOfView, Spread
from systolic.compiler.ir.nodes import Axes, Matrix
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.views import home_views, lies_as, physical, row_major, swap
from systolic.layout import Shape
from systolic.workload import Graph, Operation

Atoms = tuple[tuple[int, ...], ...]
"""For each dimension its factors, by their numbers over all dimensions, major to minor."""


def lower_reshape(builder: LayerBuilder, op: Operation) -> None:
    """Show the tensor in other dimensions without a move, or else move it, on chip or by DRAM."""
    (source,), output = op.inputs, op.output
    if builder.dram.holds(source):
        _in_dram(builder, source, output)
        return
    _place(builder, op)
    before, after = builder.graph.shape(source), builder.graph.shape(output)
    builder.settle(source)
    views = builder.views(source)
    shown = [(m, seen) for m, axes in views if (seen := regroup(axes, before.dims, after.dims))]
    for matrix, seen in shown:
        builder.rename(matrix, output, seen)
    if shown:
        return
    if _straight_to_dram(builder.graph, output):
        minor = physical(Shape(before.element_type, before.dims))[-1]
        matrix, axes = builder.storable(source, minor)
        builder.store_reshaped(matrix, source, output, axes)
    elif builder.options.via == "dram":
        _by_dram(builder, source, output)
    else:
        _moved(builder, source, output)


def _moved(builder: LayerBuilder, source: str, output: str) -> None:
    """Move the elements to the result's matrices; the source is turned before if that is cheaper.

    The result may be made as the transpose of its matrices, and turned by what takes it.
    """
    views = [seen for _, seen in builder.views(source)]
    cycles, first, change = _cheapest_move(builder, (source, output), views)
    assert isinstance(change.target, Spread)
    if _brought(builder, (source, output), cycles):
        return
    builder.moved(builder.view(source, first), change, output, change.target.axes)


def _brought(builder: LayerBuilder, names: tuple[str, str], other_cycles: int) -> bool:
    """Bring a view of the result from DRAM if that is cheaper than a move; return if it is done.

    The source is there as a view of what lies in DRAM, and each of its dimensions is part of one of
    the result's: then rows of the result are rows in DRAM, in another order. A source that nothing
    else takes need not come for a move.
    """
    before, after = (builder.graph.shape(name) for name in names)
    nested = common_factors(before.dims, after.dims)
    if nested is None or any(len(factors) > 1 for factors in nested[0]):
        return False
    dim_of = {factors[0]: dim for dim, factors in enumerate(nested[0]) if factors}
    ways: list[tuple[int, Matrix, Axes, Axes]] = []
    for matrix, seen in builder.views(names[0]):
        has_all = (
            matrix.source.kind == "dram" and not matrix.source.picked and matrix.window is None
        )
        if not has_all or [*map(len, matrix.axes)] != [*map(len, seen)]:
            continue
        there = {
            dim: place
            for dims, places in zip(seen, matrix.axes, strict=True)
            for dim, place in zip(dims, places, strict=True)
        }
        for last in home_views(Shape(after.element_type, after.dims)):
            axes = tuple(
                tuple(there[dim_of[n]] for dim in group for n in nested[1][dim]) for group in last
            )
            cycles = store_cost(builder.chip, builder.dram.place(matrix.source.dram), axes)
            ways.append((cycles, matrix, axes, last))
    best = min(ways, key=lambda way: way[0], default=None)
    if best is None:
        return False
    cycles, matrix, axes, last = best
    if builder.uses(names[0]) == 1:
        other_cycles += store_cost(
            builder.chip, builder.dram.place(matrix.source.dram), matrix.axes
        )
    if cycles >= other_cycles:
        return False
    builder.choose(
        f"{names[1]} is brought from DRAM in its own order (about {cycles} cycles; moved: "
        f"{other_cycles})"
    )
    place = builder.dram.place(matrix.source.dram)
    found = builder.place_matrix(place, axes, names[1], dram=matrix.source.dram)
    builder.rename(found, names[1], last)
    return True


def _cheapest_move(
    builder: LayerBuilder, names: tuple[str, str], views: Sequence[Axes]
) -> tuple[int, Axes, ChangeOfView]:
    """Return the cycles of the cheapest move of a source, the view that it takes, and the change.

    views: in which the source is there.
    """
    graph, chip, (source, output) = builder.graph, builder.chip, names
    before, after = graph.shape(source), graph.shape(output)
    turns = builder.can_turn(before.element_type)
    wanted = physical(after)
    turned_home = builder.interleaved(output) is not None
    best: tuple[int, Axes, ChangeOfView] | None = None
    for seen in views:
        for first in (seen, swap(seen)) if turns else (seen,):
            for last in (wanted, swap(wanted)) if turns else (wanted,):
                change = ChangeOfView(Spread(before.dims, first), Spread(after.dims, last))
                cycles = 0
                if first != seen:
                    cycles += turn_cost(chip, _sizes(before, first), before.element_type)
                if output in graph.outputs and (last != wanted) != turned_home:
                    cycles += turn_cost(chip, _sizes(after, last), before.element_type)
                limit = best[0] - cycles if best else UNLIMITED
                cycles += builder.cost_of(change, before.element_type, limit)
                if best is None or cycles < best[0]:
                    best = cycles, first, change
    assert best is not None, "a tensor on the chip has a view"
    return best


def _sizes(shape: Shape, axes: Axes) -> list[int]:
    return [math.prod(shape.dims[axis] for axis in group) for group in axes]


def _straight_to_dram(graph: Graph, output: str) -> bool:
    """Return whether the result goes to DRAM in logical order, and nowhere else."""
    tensor = graph.tensor(output)
    return output in graph.outputs and tensor.home == "dram" and row_major(tensor.shape)


def _place(builder: LayerBuilder, op: Operation) -> None:
    """Let an input on the chip lie from the start in the view of the result, if possible."""
    (source,), graph = op.inputs, builder.graph
    before, after = graph.shape(source), graph.shape(op.output)
    users = sum(source in other.inputs for other in graph.operations)
    if builder.unplaced(source) and users == 1 and (shared := shared_home(before, after)):
        builder.place(source, shared)


def shared_home(before: Shape, after: Shape) -> Axes | None:
    """Return a view in which both `before` and `after` may live on the chip; None if none is."""
    for axes in home_views(before):
        seen = regroup(axes, before.dims, after.dims)
        if seen and lies_as(after, seen):
            return axes
    return None


def _in_dram(builder: LayerBuilder, source: str, output: str) -> None:
    if row_major(builder.dram.shape(source)):
        _alias(builder, output, builder.dram.of(source))
    else:
        _by_dram(builder, source, output)


def _by_dram(builder: LayerBuilder, source: str, output: str) -> None:
    """Write the tensor to DRAM in logical order, in which both shapes have the same bytes."""
    matrix, axes = builder.any_view(source)
    shape, name = builder.graph.shape(source), f"{source}.linear"
    builder.store(matrix, source, Shape(shape.element_type, shape.dims), axes, name)
    _alias(builder, output, name)


def _alias(builder: LayerBuilder, output: str, place: str) -> None:
    """Note that the result lies in DRAM, at the place where its elements are in logical order."""
    shape, name = builder.graph.shape(output), f"{output}.linear"
    builder.dram.alias(name, place, Shape(shape.element_type, shape.dims))
    builder.dram.put(output, name)


def regroup(axes: Axes, before: Sequence[int], after: Sequence[int]) -> Axes | None:
    """Return the view `axes` of dimensions `before` as a view of `after`; None if there is none.

    [2, 14, 14, 32] seen as ((0,), (1, 2), (3,)) is [2, 196, 32] seen as ((0,), (1,), (2,)).
    """
    if (found := common_factors(before, after)) is None:
        return None
    old, new = found
    dim_of = {atoms: dim for dim, atoms in enumerate(new) if atoms}
    groups: list[tuple[int, ...]] = []
    for group in axes:
        dims = _dims_of(tuple(atom for dim in group for atom in old[dim]), dim_of)
        if dims is None:
            return None
        groups.append(dims)
    return _with_units(groups, [dim for dim, atoms in enumerate(new) if not atoms])


def _with_units(groups: Sequence[tuple[int, ...]], units: Sequence[int]) -> Axes:
    """Return the groups with dimensions of one put before their successors, or at the very end."""
    found = [list(group) for group in groups]
    for unit in reversed(units):
        later = [(dim, group) for group in found for dim in group if dim > unit]
        dim, group = min(later, key=lambda item: item[0], default=(None, found[-1]))
        group.insert(len(group) if dim is None else group.index(dim), unit)
    return tuple(map(tuple, found))


def _dims_of(atoms: tuple[int, ...], dim_of: dict[tuple[int, ...], int]) -> tuple[int, ...] | None:
    """Return the dimensions that the factors make up, in order; None if one is not whole."""
    dims: list[int] = []
    first = 0
    while first < len(atoms):
        stops = range(first + 1, len(atoms) + 1)
        stop = next((stop for stop in stops if atoms[first:stop] in dim_of), None)
        if stop is None:
            return None
        dims.append(dim_of[atoms[first:stop]])
        first = stop
    return tuple(dims)


def common_factors(one: Sequence[int], other: Sequence[int]) -> tuple[Atoms, Atoms] | None:
    """Return the factors that make up the dimensions of both shapes; None if they do not nest.

    (6, 4) and (3, 2, 4) give factors 3, 2, 4: ((0, 1), (2,)) and ((0,), (1,), (2,)). A dimension
    of one has none. (6, 4) and (8, 3) do not nest.
    """
    made: tuple[list[list[int]], list[list[int]]] = ([[] for _ in one], [[] for _ in other])
    a, b, left, right, atoms = -1, -1, 1, 1, 0
    while True:
        while left == 1 and a + 1 < len(one):
            a, left = a + 1, one[a + 1]
        while right == 1 and b + 1 < len(other):
            b, right = b + 1, other[b + 1]
        if left == 1 or right == 1:
            break
        factor = min(left, right)
        if left % factor or right % factor:
            return None
        made[0][a].append(atoms)
        made[1][b].append(atoms)
        left, right, atoms = left // factor, right // factor, atoms + 1
    return tuple(map(tuple, made[0])), tuple(map(tuple, made[1]))
