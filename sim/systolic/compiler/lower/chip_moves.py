"""Lowering of what only moves elements within the state buffer, and leaves them in their lanes.

On the chip the matrices of a tensor without tiles lie side by side in the same partitions. So they
are one matrix, [rows, all other dimensions]. If the same dimensions can lie on the partitions
before and after, an engine puts the columns of all matrices in order, lane by lane. Which
dimensions lie there is the compiler's choice. More rows than partitions are several tiles: row r
is in partition r mod p before and after, so it keeps its lane as well. Not here: tensors with
tiles, turns in blocks (`blocks`), and views of tensors that other work takes (`builder`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from systolic.compiler.cost.arrangements import Planner
from systolic.compiler.ir.arrangement import Arrangement
from systolic.compiler.ir.change_of_view import Spread
from systolic.compiler.ir.chip_tiles import block_rows, whole_banks
from systolic.compiler.ir.factors import Move
from systolic.compiler.ir.homes import lies_unbroken
from systolic.compiler.ir.nodes import Axes, Matrix
from systolic.compiler.ir.windows import MatrixWindow
from systolic.compiler.lower.builder import LayerBuilder
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.workload import Tensor
from systolic.workload.options import Options

MOST_INSTRUCTIONS = 3000
_SHARE = 3
"""Source and result each take at most this part of a partition."""


def may_stay_in_lanes(source: Tensor, result: Tensor, options: Options) -> bool:
    """Return whether the compiler may choose which dimensions of both lie on the partitions.

    A single matrix has no others beside it, and is turned in blocks.
    """
    asked = options.via or options.block or options.tile_columns
    return not asked and source.shape.rank > 2 and _is_free(source) and _is_free(result)


def move_in_lanes(
    builder: LayerBuilder, names: tuple[str, str], permutation: Sequence[int],
    other_cycles: int | None,
) -> bool:  # fmt: skip
    """Move a tensor in the state buffer to an output there; return whether it is done.

    names: of the source and of the result (`may_stay_in_lanes`). other_cycles: about how many of
    the array's cycles a turn in blocks takes (None: there is no room for one).
    """
    source, output = names
    graph, chip = builder.graph, builder.chip
    planner = Planner(chip, builder.options)
    move = _move(graph.tensor(source), graph.tensor(output), permutation)
    plans = {plan: planner.by_engine(plan).work for plan in _arrangements(planner, move)}
    if not plans:
        return False
    plan = min(plans, key=lambda plan: plans[plan])
    cycles = plans[plan] // chip.period("pe_array")
    if other_cycles is not None and other_cycles <= cycles:
        return False
    builder.choose(f"{source} becomes {output} lane by lane, all matrices together (about {cycles} "
                   f"cycles)")  # fmt: skip
    _emit(builder, plan, names, permutation)
    return True


def _is_free(tensor: Tensor) -> bool:
    """Return whether the compiler chooses where the tensor lies."""
    return not (tensor.shape.layout.tiles or tensor.partition or tensor.byte is not None)


def _move(before: Tensor, after: Tensor, permutation: Sequence[int]) -> Move:
    """Return the move whose factors are the source's dimensions, from major to minor in memory."""
    shape = before.shape
    order = shape.layout.major_to_minor
    place = {axis: at for at, axis in enumerate(order)}
    result = tuple(place[permutation[axis]] for axis in after.shape.layout.major_to_minor)
    return Move.dense(shape.element_type, [shape.dims[axis] for axis in order], result)


def _arrangements(planner: Planner, move: Move) -> Iterator[Arrangement]:
    """Yield arrangements of whole tensors with the same rows before and after, if there is room."""
    if not planner.can_copy(move.dtype):
        return
    after = set(_neighbours(move.order))
    for rows in _neighbours(range(len(move.sizes))):
        plan = Arrangement(move, _apart(planner.chip, move, rows), rows, rows)
        if rows in after and _is_short(planner, plan) and _fits(planner, plan):
            yield plan


def _apart(chip: Chip, move: Move, rows: tuple[int, ...]) -> tuple[int, ...]:
    """Return the factors whose matrices lie apart: those before the rows, if these are many.

    Rows up to the partitions are one tile, with the columns of all matrices. Of more rows, each
    matrix has tiles of its own, one after the other.
    """
    if math.prod(move.sizes[n] for n in rows) <= block_rows(chip):
        return ()
    orders = range(len(move.sizes)), move.order
    ahead = {n for order in orders for n in list(order)[: list(order).index(rows[0])]}
    return tuple(sorted(ahead))


def _is_short(planner: Planner, plan: Arrangement) -> bool:
    """Return whether the copies are few enough."""
    copies = planner.tiles(plan) * plan.count(plan.engine_columns()[1])
    return copies <= MOST_INSTRUCTIONS


def _fits(planner: Planner, plan: Arrangement) -> bool:
    chip, p = planner.chip, block_rows(planner.chip)
    room = chip.state_buffer.bytes_per_partition // _SHARE
    rows, every = plan.count(plan.rows_in), range(len(plan.move.sizes))
    lanes = [n for n in every if n not in plan.rows_in]
    size = -(-rows // p) * plan.count(lanes) * data_type(plan.move.dtype).size_bytes
    if rows > p and not lies_unbroken(rows, p, chip):
        return False
    return size <= min(room, whole_banks(chip) or room)


def _neighbours(order: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield factors that follow one another, and may lie on partitions: not the minor-most."""
    for first in range(len(order) - 1):
        for stop in range(first + 1, len(order)):
            yield tuple(order[first:stop])


def _emit(
    builder: LayerBuilder, plan: Arrangement, names: tuple[str, str], permutation: Sequence[int]
) -> None:
    """Place source and result, and add the copies between windows of them."""
    (source, output), move = names, plan.move
    together, apart = plan.engine_columns()
    axes: Axes = (*plan.groups, *((n,) for n in apart), plan.rows_in, together)
    into = dict(enumerate(builder.graph.shape(source).layout.major_to_minor))
    back = {axis: place for place, axis in enumerate(permutation)}
    out_of = {n: back[axis] for n, axis in into.items()}
    view = _view(range(len(into)), plan.rows_in, into)
    before = builder.in_lanes(source, view, given=True)
    view = _view(move.order, plan.rows_out, out_of)
    after = builder.in_lanes(output, view, given=False)
    builder.node(
        "convert",
        (_window(builder, before, axes, into),),
        _window(builder, after, axes, out_of),
    )
    builder.keep_matrix(output, after, after.axes)


def _view(order: Sequence[int], rows: tuple[int, ...], axis_of: Mapping[int, int]) -> Axes:
    """Return [batch..., rows, columns] in the order of memory, in dimensions of the tensor."""
    at = list(order).index(rows[0])
    groups: Axes = (*((n,) for n in order[:at]), rows, tuple(order[at + len(rows) :]))
    return tuple(tuple(axis_of[n] for n in group) for group in groups)


def _window(
    builder: LayerBuilder, held: Matrix, factors: Axes, axis_of: Mapping[int, int]
) -> Matrix:
    """Return a matrix within whole rows, its axes given by factors of the move."""
    dims = builder.graph.shape(held.tensor).dims
    axes = tuple(tuple(axis_of[n] for n in group) for group in factors)
    window = MatrixWindow(held.name, Spread(dims, held.axes), Spread(dims, axes))
    return builder.within(held, window)
