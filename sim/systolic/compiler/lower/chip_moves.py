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
from dataclasses import dataclass

from systolic.compiler.cost.arrangements import Planner
from systolic.compiler.ir.arrangement import Arrangement
from systolic.compiler.ir.change_of_view import Spread
from systolic.compiler.ir.chip_tiles import block_rows, whole_banks
from systolic.compiler.ir.factors import Move
from systolic.compiler.ir.homes import lies_unbroken
from systolic.compiler.ir.nodes import Axes, Matrix
from systolic.compiler.ir.windows import MatrixWindow
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.relays import relayed
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.layout import Shape
from systolic.workload import Tensor
from systolic.workload.options import Options

MOST_INSTRUCTIONS = 3000
_SHARE = 3
"""Source and result each take at most this part of a partition, if other tensors lie there."""


def may_stay_in_lanes(source: Tensor, result: Tensor, options: Options) -> bool:
    """Return whether the compiler may choose which dimensions of both lie on the partitions.

    A single matrix has no others beside it, and is turned in blocks.
    """
    asked = options.via or options.block or options.tile_columns
    rank = max(source.shape.rank, result.shape.rank)
    return not asked and rank > 2 and _is_free(source) and _is_free(result)


@dataclass(frozen=True, slots=True)
class _End:
    """A tensor whose dimensions are made of atoms, which the factors of a move are.

    sizes: of the atoms. atoms: of each dimension, major to minor. atom_of: by the factor's number.
    """

    name: str
    shape: Shape
    sizes: tuple[int, ...]
    atoms: Axes
    atom_of: Mapping[int, int]

    def in_order(self) -> list[int]:
        """Return the atoms as the layout has them, major to minor."""
        return [atom for axis in self.shape.layout.major_to_minor for atom in self.atoms[axis]]

    def dims(self, factors: Sequence[int]) -> tuple[int, ...] | None:
        """Return the dimensions that factors make up, in order; None if one is not whole."""
        left, found = [self.atom_of[n] for n in factors], list[int]()
        dim_of = {atoms[0]: axis for axis, atoms in enumerate(self.atoms)}
        while left:
            axis = dim_of.get(left[0])
            if axis is None or tuple(left[: len(self.atoms[axis])]) != self.atoms[axis]:
                return None
            found.append(axis)
            del left[: len(self.atoms[axis])]
        return tuple(found)

    def view(self, order: Sequence[int], rows: Sequence[int]) -> Axes | None:
        """Return [batch..., rows, columns] in the order of memory; None if a dimension is cut."""
        at = list(order).index(rows[0])
        groups = [self.dims(n) for n in (order[:at], rows, order[at + len(rows) :])]
        if None in groups:
            return None
        batch, down, along = (group or () for group in groups)
        return (*((axis,) for axis in batch), down, along)


def permute_in_lanes(
    builder: LayerBuilder,
    names: tuple[str, str],
    permutation: Sequence[int],
    other_cycles: int | None,
) -> bool:
    """Permute a tensor in the state buffer to an output there; return whether it is done.

    names: of the source and of the result (`may_stay_in_lanes`). other_cycles: about how many of
    the array's cycles a turn in blocks takes (None: there is no room for one).
    """
    before, after = (builder.graph.shape(name) for name in names)
    alone = tuple((axis,) for axis in range(before.rank))
    back = {axis: place for place, axis in enumerate(permutation)}
    into = dict(enumerate(before.layout.major_to_minor))
    out_of = {n: back[axis] for n, axis in into.items()}
    source = _End(names[0], before, before.dims, alone, into)
    result = _End(names[1], after, after.dims, alone, out_of)
    return _moved(builder, (source, result), other_cycles, permutation)


def reshape_in_lanes(
    builder: LayerBuilder, names: tuple[str, str], nested: tuple[Axes, Axes], other_cycles: int
) -> bool:
    """Reshape a tensor in the state buffer to an output there; return whether it is done.

    names: as above. nested: the common factors that make up the dimensions of each, in logical
    order; no dimension has none.
    """
    before, after = (builder.graph.shape(name) for name in names)
    old, new = nested
    sizes = factor_sizes((before.dims, old), (after.dims, new))
    order = [atom for axis in before.layout.major_to_minor for atom in old[axis]]
    into = dict(enumerate(order))
    source = _End(names[0], before, sizes, old, into)
    return _moved(builder, (source, _End(names[1], after, sizes, new, into)), other_cycles, None)


def factor_sizes(*ends: tuple[Sequence[int], Axes]) -> tuple[int, ...]:
    """Return the sizes of the common factors of two shapes: dimensions, and the factors of each."""
    dim_of = [{atom: axis for axis, atoms in enumerate(nest) for atom in atoms} for _, nest in ends]
    left = [[*dims] for dims, _ in ends]
    sizes: list[int] = []
    for atom in sorted(dim_of[0]):
        size = min(rest[of[atom]] for rest, of in zip(left, dim_of, strict=True))
        for rest, of in zip(left, dim_of, strict=True):
            rest[of[atom]] //= size
        sizes.append(size)
    return tuple(sizes)


def _moved(
    builder: LayerBuilder,
    ends: tuple[_End, _End],
    other_cycles: int | None,
    permutation: Sequence[int] | None,
) -> bool:
    chip = builder.chip
    planner = Planner(chip, builder.options, on_chip=True)
    move = _move(*ends)
    alone = len(builder.graph.operations) == 1
    copied = _arrangements(planner, move, ends, alone=alone)
    plans = {plan: planner.engine_work(plan) for plan in copied}
    if not plans:
        return False
    plan = min(plans, key=lambda plan: plans[plan])
    cycles = plans[plan] // chip.period("pe_array")
    if other_cycles is not None and other_cycles <= cycles:
        return False
    source, result = ends
    names = source.name, result.name
    if relayed(builder, names, permutation, cycles, copied=True):
        return True
    words = [word for word in planner.words(plan) if word != move.dtype]
    how = f"lane by lane{' in words of ' if words else ''}{' or '.join(words)}"
    builder.choose(
        f"{source.name} becomes {result.name} {how}, all matrices together (about {cycles} cycles)"
    )
    _emit(builder, plan, ends, planner.engine_columns(plan))
    return True


def _is_free(tensor: Tensor) -> bool:
    """Return whether the compiler chooses where the tensor lies."""
    return not (tensor.shape.layout.tiles or tensor.partition or tensor.byte is not None)


def _move(before: _End, after: _End) -> Move:
    """Return the move whose factors are the source's atoms, from major to minor in memory."""
    number = {atom: n for n, atom in after.atom_of.items()}
    sizes = [before.sizes[atom] for atom in before.in_order()]
    result = [number[atom] for atom in after.in_order()]
    return Move.dense(before.shape.element_type, sizes, result)


def _arrangements(
    planner: Planner, move: Move, ends: tuple[_End, _End], *, alone: bool
) -> Iterator[Arrangement]:
    """Yield arrangements of whole tensors with the same rows before and after, if there is room.

    alone: as of `_fits`.
    """
    if not planner.can_copy(move.dtype):
        return
    before, after = ends
    first = range(len(move.sizes))
    there = {rows for rows in _neighbours(move.order) if after.view(move.order, rows)}
    for rows in _neighbours(first):
        if rows not in there or not before.view(first, rows):
            continue
        plan = Arrangement(move, _apart(planner.chip, move, rows), rows, rows)
        if _is_short(planner, plan) and _fits(planner, plan, alone=alone):
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


def _fits(planner: Planner, plan: Arrangement, *, alone: bool) -> bool:
    """Return whether source and result have room.

    alone: nothing else lies on the chip, so each may take a half, less a bank to lie across two.
    """
    chip, p = planner.chip, block_rows(planner.chip)
    buffer = chip.state_buffer
    room = buffer.bytes_per_partition // _SHARE
    if alone:
        room = max(room, buffer.bytes_per_partition // 2 - buffer.bank_bytes)
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
    builder: LayerBuilder,
    plan: Arrangement,
    ends: tuple[_End, _End],
    columns: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    """Place source and result, and add the copies between windows of them.

    columns: of one copy, and the digits with a copy for each value.
    """
    (before, after), move = ends, plan.move
    together, apart = columns
    factors: Axes = (*plan.groups, *((n,) for n in apart), plan.rows_in, together)
    view, made = (
        before.view(range(len(move.sizes)), plan.rows_in),
        after.view(move.order, plan.rows_out),
    )
    assert view
    assert made
    source = builder.in_lanes(before.name, view, given=True)
    result = builder.in_lanes(after.name, made, given=False)
    builder.node(
        "convert",
        (_window(builder, source, factors, before),),
        _window(builder, result, factors, after),
    )
    builder.keep_matrix(after.name, result, result.axes)


def _window(builder: LayerBuilder, held: Matrix, factors: Axes, end: _End) -> Matrix:
    """Return a matrix within whole rows, its axes given by factors of the move."""
    outer = tuple(tuple(atom for axis in group for atom in end.atoms[axis]) for group in held.axes)
    inner = tuple(tuple(end.atom_of[n] for n in group) for group in factors)
    window = MatrixWindow(held.name, Spread(end.sizes, outer), Spread(end.sizes, inner))
    return builder.within(held, window)
