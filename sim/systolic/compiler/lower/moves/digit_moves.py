"""Lowering of what only moves elements on the chip from tiles or to tiles, by their digits.

Tiles say where every element lies, in which partition and which column. So do unbroken rows, in
which the compiler lets a tensor without tiles lie as suits the move best. If all elements go from
place to place in few copies and turns (`ir.on_chip.digit_moves`), the tensor is moved so, unless
views and changes of view are cheaper. So does a reshape without tiles. Not here: tensors that other
operations take.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from systolic.compiler.cost.digit_moves import (
    casts_apart,
    digit_move_cycles,
    shared_move_cycles,
)
from systolic.compiler.cost.turns import carrier, parts_turned, placed_as, strands_cost
from systolic.compiler.ir.nodes import GIVEN, MADE, Axes, ConvertNode, Matrix, Source
from systolic.compiler.ir.on_chip.chip_places import ChipPlaces, any_rows, places_of, row_groups
from systolic.compiler.ir.on_chip.chip_tiles import block_rows, whole_banks
from systolic.compiler.ir.on_chip.digit_moves import Limits, MovePiece, PieceEnd, move_pieces
from systolic.compiler.ir.on_chip.homes import as_rows, in_unbroken_rows, lies_unbroken
from systolic.compiler.ir.on_chip.rows_at_places import rows_at_places
from systolic.compiler.ir.windows import DigitWindow
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.moves.rows_together import places_beside, rows_of_tiles
from systolic.compiler.lower.views import home_views, physical, swap
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.layout import Layout, Shape
from systolic.workload import Tensor
from systolic.workload.options import Options

SPARE_BYTES = 2048
"""The bytes of each partition that are left for identities, and between tensors."""


ADVANTAGE = 1.05
"""Turns by digits between two tensors in tiles are done if estimates say that views take more than
this many times their cycles."""


@dataclass(frozen=True, slots=True)
class ViewsAtHome:
    """The views in which work takes a tensor on the chip, and what it costs to turn it to them.

    interleaved: its rows share partitions, so it is turned strand by strand.
    """

    views: tuple[Axes, ...]
    cycles: int
    interleaved: bool


def views_at_home(builder: LayerBuilder, tensor: str) -> ViewsAtHome | None:
    """Return the views of a tensor that lives on the chip; None if no access pattern reaches it."""
    home = builder.graph.tensor(tensor)
    if not home.shape.layout.tiles:
        given = tensor in builder.graph.inputs
        views = [physical(home.shape)] if given else home_views(home.shape)
        return ViewsAtHome(tuple(dict.fromkeys(views)), 0, interleaved=False)
    if rows := as_rows(home, builder.chip):
        return ViewsAtHome((rows.axes,), 0, interleaved=False)
    if lies := builder.interleaved(tensor):
        dims = [math.prod(home.shape.dims[axis] for axis in group) for group in lies.axes]
        cycles = strands_cost(builder.chip, dims, lies.ways, home.shape.element_type)
        return ViewsAtHome((swap(lies.axes),), cycles, interleaved=True)
    return None


@dataclass(frozen=True, slots=True)
class DigitMove:
    """The places of a tensor before, between and after its moves, and the pieces of each move.

    cycles: about how many all of them take.
    """

    places: tuple[ChipPlaces, ...]
    moves: tuple[tuple[MovePiece, ...], ...]
    cycles: int

    @property
    def turns(self) -> bool:
        """Return whether the array turns some pieces."""
        return any(piece.turned for pieces in self.moves for piece in pieces)

    @property
    def copies(self) -> bool:
        """Return whether engines copy some pieces."""
        return any(not piece.turned for pieces in self.moves for piece in pieces)

    def is_cheaper(self, other_cycles: float, *, both_placed: bool = False) -> bool:
        """Return whether to move so, and not another way, by its estimate.

        Of equals a copy lane by lane has fewer instructions; turns have as many as views have.
        both_placed: source and result have tiles. They may be those that the compiler chose in a
        run before, which turned views, so these must be notably dearer.
        """
        if not self.turns:
            return other_cycles >= self.cycles
        return other_cycles > self.cycles * (ADVANTAGE if both_placed else 1)

    def then(self, other: DigitMove) -> DigitMove:
        """Return a move with another one after it, from the places to which it goes."""
        return DigitMove(
            (*self.places, *other.places[1:]),
            (*self.moves, *other.moves),
            self.cycles + other.cycles,
        )


class OtherWays(NamedTuple):
    """About how many cycles a tensor takes by views and in blocks: what a move is held against.

    of_turns: if the array turns some of it. of_copies: if engines copy all of it, lane by lane.
    Views of tensors without tiles are no other way then: they take many copies, or turns.
    """

    of_turns: float
    of_copies: float


def moved_from_place_to_place(
    builder: LayerBuilder,
    names: tuple[str, str],
    permutation: Sequence[int] | None,
    others: OtherWays,
) -> bool:
    """Move a tensor on the chip by its digits, if that is cheaper than by views.

    names: of source and result. permutation: axis i of the result is axis permutation[i] of the
    source; None: a reshape. Returns whether it is done.
    """
    move = cheapest_digit_move(builder, names, permutation)
    both = all(builder.graph.shape(name).layout.tiles for name in names)
    if move is None:
        return False
    other_cycles = others.of_turns if move.turns else others.of_copies
    if not move.is_cheaper(other_cycles, both_placed=both):
        return False
    emit_digit_move(builder, names, move)
    return True


def cheapest_digit_move(
    builder: LayerBuilder, names: tuple[str, str], permutation: Sequence[int] | None
) -> DigitMove | None:
    """Return the best places of a source and a result on the chip with the moves between them.

    If elements cross partitions so that no piece brings them home, they go over unbroken rows, in
    which no element is in its partition.

    names: of both. permutation: axis i of the result is axis permutation[i] of the source; None: a
    reshape. None if one of them has no choice of places, or no pieces suit.
    """
    graph, chip, options = builder.graph, builder.chip, builder.options
    source, result = (graph.tensor(name) for name in names)
    if options.via or options.block or options.tile_columns or source.partition or result.partition:
        return None
    planner = DigitPlanner(chip, options, alone=len(graph.operations) == 1)
    starts, stops = places_of_both(chip, (source, result), permutation)
    direct = planner.cheapest(starts, stops, permutation)
    if direct is not None:
        return direct
    best: DigitMove | None = None
    same = tuple(range(source.shape.rank)), tuple(range(result.shape.rank))
    for tensor, first, last in ((source, same[0], permutation), (result, permutation, same[1])):
        plain = tensor.shape.with_layout(Layout(tensor.shape.layout.minor_to_major))
        for between in in_rows(chip, plain, any_rows(plain)):
            found = planner.over(starts, between, stops, (first, last))
            if found is not None and (best is None or found.cycles < best.cycles):
                best = found
    return best


@dataclass(frozen=True, slots=True)
class DigitPlanner:
    """The chip and the options for which moves are estimated.

    alone: engines share the copies of a move, since nothing else is to be done.
    """

    chip: Chip
    options: Options
    alone: bool

    def cheapest(
        self,
        starts: Sequence[ChipPlaces],
        stops: Sequence[ChipPlaces],
        permutation: Sequence[int] | None,
    ) -> DigitMove | None:
        """Return the cheapest move from one of some places to one of others, if there is any."""
        moves = (self.move(a, b, permutation) for a in starts for b in stops)
        found = [move for move in moves if move is not None and self.has_room(move)]
        return min(found, key=lambda move: move.cycles, default=None)

    def over(
        self,
        starts: Sequence[ChipPlaces],
        between: ChipPlaces,
        stops: Sequence[ChipPlaces],
        permutations: tuple[Sequence[int] | None, Sequence[int] | None],
    ) -> DigitMove | None:
        """Return the cheapest move to places between, and on from there."""
        come = self.cheapest(starts, [between], permutations[0])
        go = self.cheapest([between], stops, permutations[1]) if come else None
        if come is None or go is None:
            return None
        both = come.then(go)
        return both if self.has_room(both) else None

    def move(
        self, source: ChipPlaces, result: ChipPlaces, permutation: Sequence[int] | None
    ) -> DigitMove | None:
        """Return the move from one of both places to the other; None if no pieces suit."""
        chip, rows = self.chip, block_rows(self.chip)
        limits = Limits(
            min(chip.pe_array.rows, rows, chip.result_buffer.bank_words),
            min(chip.pe_array.cols, rows),
        )
        pieces = move_pieces(source, result, permutation, limits)
        if pieces is None:
            return None
        dtype = source.shape.element_type
        cycles = digit_move_cycles(chip, self.options, pieces, dtype, source.columns)
        if cycles is not None and self.alone:
            sides = source.columns, result.columns
            shared = shared_move_cycles(chip, self.options, pieces, dtype, sides)
            cycles = cycles if shared is None else min(cycles, shared)
        return None if cycles is None else DigitMove((source, result), (pieces,), cycles)

    def has_room(self, move: DigitMove) -> bool:
        """Return whether all places have room together, also those in a type that is turned."""
        chip, dtype = self.chip, move.places[0].shape.element_type
        size, needed = data_type(dtype).size_bytes, SPARE_BYTES
        needed += sum(end.columns * size for end in move.places)
        given = placed_as(chip, dtype)
        through = carrier(chip, given)
        if move.turns and through is not None and through != given:
            needed += sum(end.columns for end in move.places[:-1]) * data_type(through).size_bytes
        bank = whole_banks(chip)
        return needed <= chip.state_buffer.bytes_per_partition and not (
            bank and any(end.columns * size > bank for end in move.places)
        )


def emit_digit_move(builder: LayerBuilder, names: tuple[str, str], move: DigitMove) -> None:
    """Place source and result, and add copies and turns between windows of them."""
    first, *between, last = move.places
    held = [holder_of_places(builder, names[0], first, GIVEN)]
    held += [matrix_of_places(builder, names[1], places) for places in between]
    held += [holder_of_places(builder, names[1], last, MADE)]
    ways = " and ".join(
        word for word, some in (("turns", move.turns), ("copies", move.copies)) if some
    )
    builder.choose(
        f"{names[0]} goes to {names[1]} by {ways} from place to place on the chip"
        f"{', over rows of others' if between else ''} (about {move.cycles} cycles)"
    )
    for (source, result), pieces in zip(pairwise(held), move.moves, strict=True):
        emit_pieces(builder, source, result, pieces)
    builder.keep_matrix(names[1], held[-1], held[-1].axes)


def emit_pieces(
    builder: LayerBuilder, source: Matrix, result: Matrix, pieces: Sequence[MovePiece]
) -> None:
    """Add copies and turns between windows of two matrices, each in one tile."""
    turned = [piece for piece in pieces if piece.turned]
    by_parts = parts_turned(builder.chip, source.dtype) > 0
    apart = not by_parts and casts_apart(builder.chip, turned, source.dtype, source.cols)
    carried = source if by_parts or apart or not turned else builder.carried(source)
    for piece in pieces:
        held, sides = carried if piece.turned else source, (piece.rows, piece.cols)
        before = _window(builder, held, piece.source, sides)
        if piece.turned and apart:
            before = builder.carried(before)
        after = _window(builder, result, piece.result, sides[::-1] if piece.turned else sides)
        if piece.turned:
            builder.turn(before, after)
        else:
            builder.node(ConvertNode, (before,), after)


def places_at_home(chip: Chip, tensor: Tensor, *, seen: bool = True) -> Iterator[ChipPlaces]:
    """Yield the places in which a tensor may lie: in its tiles, or in any unbroken rows.

    seen: no places of tiles that are rows of a view.
    """
    shape = tensor.shape
    if not shape.layout.tiles:
        yield from in_rows(chip, shape, row_groups(shape))
        return
    rows = () if seen and as_rows(tensor, chip) is not None else rows_of_tiles(shape)
    found = places_of(shape, chip.state_buffer.partitions, rows)
    if found is not None and found.rows <= block_rows(chip):
        yield found


def places_of_both(
    chip: Chip, tensors: tuple[Tensor, Tensor], permutation: Sequence[int] | None
) -> tuple[list[ChipPlaces], list[ChipPlaces]]:
    """Return the places in which source and result of a move may lie.

    permutation: axis i of the result is its axis permutation[i]; None: a reshape.
    """
    free = tuple(not tensor.shape.layout.tiles for tensor in tensors)
    seen = all(
        not tensor.shape.layout.tiles or as_rows(tensor, chip) is not None for tensor in tensors
    )
    starts, stops = ([*places_at_home(chip, tensor, seen=seen)] for tensor in tensors)
    before, after = places_beside(chip, starts, stops, permutation, (free[0], free[1]))
    return [*starts, *before], [*stops, *after]


def in_rows(chip: Chip, shape: Shape, views: Sequence[Axes]) -> Iterator[ChipPlaces]:
    """Yield the places of a tensor without tiles in unbroken rows of views."""
    partitions, p = chip.state_buffer.partitions, block_rows(chip)
    for view in views:
        rows = math.prod(shape.dims[axis] for axis in view[-2])
        if not lies_unbroken(rows, p, chip):
            continue
        found = places_of(in_unbroken_rows(shape, view, p), partitions, view[-2])
        line = math.prod(shape.dims[axis] for axis in view[-2][1:])
        if found is None and line < p // 2:  # whole lines of the minor dimensions fit
            tall = p // line * line
            found = places_of(in_unbroken_rows(shape, view, tall), partitions, view[-2])
        if found is not None and found.rows <= p:
            yield found


def holder_of_places(
    builder: LayerBuilder, tensor: str, places: ChipPlaces, source: Source
) -> Matrix:
    """Return the matrix of all places of a tensor where it lives, one tile."""
    builder.placed(tensor)
    matrix = replace(matrix_of_places(builder, tensor, places), source=source)
    builder.homes.lies_at(tensor, places.shape, matrix)
    return builder.fixed(matrix, tensor, places.columns)


def matrix_of_places(builder: LayerBuilder, tensor: str, places: ChipPlaces) -> Matrix:
    """Return a new matrix of all places in which a tensor lies between two moves, one tile."""
    name, dtype = builder.new_name(tensor), places.shape.element_type
    block = block_rows(builder.chip), places.columns
    dims = places.rows, places.columns
    return builder.add(Matrix(name, tensor, dtype, dims, ((), ()), block=block))


def matrices_at_places(
    builder: LayerBuilder, held: Matrix, places: ChipPlaces, axes: Axes
) -> Matrix:
    """Return the matrices of a view, as `rows_at_places` finds them within all places."""
    window = rows_at_places(places, axes, block_rows(builder.chip), held.name)
    assert window is not None, "matrices lie at no distance"
    rows, cols = (math.prod(places.dims[axis] for axis in group) for group in axes[-2:])
    return builder.at_digits(held, window, rows, cols)


def _window(builder: LayerBuilder, held: Matrix, end: PieceEnd, sides: tuple[int, int]) -> Matrix:
    """Return rows and columns of a piece as a matrix within a holder."""
    rows, cols = sides
    window = DigitWindow(held.name, end.down, end.first, end.batch, end.cols)
    return builder.at_digits(held, window, rows, cols)
