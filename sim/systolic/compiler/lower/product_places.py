"""How operands of batched products come from tiles on the chip to rows in reach of the array.

The array takes an element of each partition in a cycle. So an operand in few partitions is first
spread over many of them, in long runs, before its matrices are turned or copied from place to
place. It may also go all the way as a relay. Not here: operands in DRAM (`batches`), and changes of
view of all matrices (`builder`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from itertools import product

from systolic.compiler.ir.change_of_view import ChangeOfView
from systolic.compiler.ir.chip_places import ChipPlaces, row_groups
from systolic.compiler.ir.chip_tiles import block_rows, whole_banks
from systolic.compiler.ir.homes import in_unbroken_rows
from systolic.compiler.ir.nodes import Axes
from systolic.compiler.ir.relays import RelayEnds, relay_ends
from systolic.compiler.ir.rows_at_places import rows_at_places
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.digit_moves import (
    DigitMove,
    DigitPlanner,
    holder_of_places,
    in_rows,
    matrices_at_places,
    places_at_home,
    views_at_home,
)
from systolic.compiler.lower.relays import (
    LEAST_CYCLES,
    NEAR,
    RelayPath,
    RelayPlanner,
    columns_between,
    in_all_lanes,
    relay_choices,
)
from systolic.compiler.lower.room import bytes_at_home
from systolic.compiler.lower.views import home_views
from systolic.layout import Layout

LEFT = 4
"""One of this many parts of the state buffer is left free where an operand is moved, not turned."""
TRIED = 4
"""Of how many ways to spread an operand the copies are worked out."""

FEWER = 1.25
"""An operand is spread, or goes as a relay, if another way takes this many times the cycles by its
estimate.
"""


@dataclass(frozen=True, slots=True)
class OperandWay:
    """How an operand comes to its rows: legs of a relay, and then a move from there.

    move: none if the legs lead to the rows. cycles: about how many of the array's all takes.
    """

    source: ChipPlaces
    rows: ChipPlaces
    legs: tuple[ChangeOfView, ...]
    move: DigitMove | None
    cycles: int


def is_in_rounds(way: OperandWay) -> bool:
    """Return whether engines alone make all of a way, from lanes to lanes."""
    return way.move is None and bool(way.legs) and all(leg.engine and leg.given for leg in way.legs)


@dataclass(frozen=True, slots=True)
class MovedOperand:
    """A tensor that a product takes as the matrices `axes`, and how it comes to their rows.

    turned: about how many of the array's cycles it takes to turn it instead (None: it is moved).
    """

    tensor: str
    axes: Axes
    way: OperandWay
    turned: int | None = None

    @property
    def is_sooner_moved(self) -> bool:
        """Whether to move it all at once takes less time than to turn it."""
        return self.turned is None or self.way.cycles * FEWER <= self.turned


def lies_in_reach(builder: LayerBuilder, tensor: str, axes: Axes) -> bool:
    """Let an input on the chip lie so that a product takes its matrices as they are, if it can.

    axes: the view [batch..., K, columns] that the product takes. Its rows may lie on partitions,
    and its columns and matrices at any distances along the address. Return whether they do.
    """
    if not _is_alone(builder, tensor, axes) or builder.is_packed(tensor):
        return False
    if builder.batches.may_lie_for(tensor, axes):
        return False  # with its matrices side by side, or as they are
    home, p = builder.graph.tensor(tensor), block_rows(builder.chip)
    found = [
        places
        for places in places_at_home(builder.chip, home, seen=False)
        if rows_at_places(places, axes, p, tensor) and _may_lie(builder, tensor, places)
    ]
    if not found:
        return False
    places = min(found, key=lambda each: each.columns)
    builder.choose(f"{tensor} lies in reach of a product, its columns at a distance")
    held = holder_of_places(builder, tensor, places, "state_buffer")
    builder.batches.lies_as(tensor, axes, matrices_at_places(builder, held, places, axes))
    return True


def _may_lie(builder: LayerBuilder, tensor: str, places: ChipPlaces) -> bool:
    """Return whether an input has room at some places, beside all that is at home on the chip."""
    chip, size = builder.chip, places.columns * places.shape.dtype.itemsize
    if (bank := whole_banks(chip)) and size > bank:
        return False
    taken = bytes_at_home(builder.graph, chip) + size
    return LEFT * taken <= (LEFT - 1) * chip.state_buffer.bytes_per_partition


def place_for_product(builder: LayerBuilder, tensor: str, axes: Axes) -> MovedOperand | None:
    """Return how an operand in tiles on the chip comes to rows in which a product reaches it.

    axes: the view [batch..., K, columns] that the product takes. None unless that is cheaper than
    to change the view of all matrices.
    """
    if not _may_be_placed(builder, tensor, axes):
        return None
    home, p = builder.graph.tensor(tensor), block_rows(builder.chip)
    view = rows_side_by_side(axes)
    plain = home.shape.with_layout(Layout(home.shape.layout.minor_to_major))
    if home.shape in [in_unbroken_rows(plain, v, p) for v in home_views(plain)]:
        return None  # so the compiler's own choice is printed, which must give the same run again
    ways = OperandWays(
        builder,
        tuple(places_at_home(builder.chip, home)),
        tuple(in_rows(builder.chip, plain, [view])),
    )
    usual = _usual_cycles(builder, tensor, axes)
    way = ways.cheapest(tensor, usual)
    if way is not None:
        return MovedOperand(tensor, axes, way)
    if math.isinf(usual) or usual <= LEAST_CYCLES or not _has_room(builder, tensor, axes[-2]):
        return None
    relays = ways.relayed(tensor, usual)
    found = min(filter(is_in_rounds, relays), key=lambda each: each.cycles, default=None)
    return None if found is None else MovedOperand(tensor, axes, found, round(usual))


def move_instead_of_turning(builder: LayerBuilder, tensor: str, axes: Axes) -> MovedOperand | None:
    """Return how an operand in unbroken rows on the chip moves to rows in reach of a product.

    axes: as above. None unless the array would turn the operand otherwise. The rows may be those
    that the compiler chooses or prints, or others that tiles say.
    """
    home, p = builder.graph.tensor(tensor), block_rows(builder.chip)
    if not _is_alone(builder, tensor, axes) or home.byte is not None:
        return None
    rows, view = axes[-2], rows_side_by_side(axes)
    plain = home.shape.with_layout(Layout(home.shape.layout.minor_to_major))
    free = not home.shape.layout.tiles
    views = [v for v in row_groups(plain) if free or in_unbroken_rows(plain, v, p) == home.shape]
    if not views:
        return None
    if builder.batches.may_lie_for(tensor, axes) or not builder.can_turn(plain.element_type):
        return None
    turned = builder.cost_of_turning(plain, axes)
    if whole_banks(builder.chip) or turned <= LEAST_CYCLES or not _has_room(builder, tensor, rows):
        return None
    ends = (in_rows(builder.chip, plain, some) for some in (views, [view]))
    ways = OperandWays(builder, *map(tuple, ends))
    found = min(ways.relayed(tensor, turned), key=lambda way: way.cycles, default=None)
    return None if found is None else MovedOperand(tensor, axes, found, turned)


def rows_side_by_side(axes: Axes) -> Axes:
    """Return the view of all matrices [batch..., rows, columns] side by side in their rows."""
    *batch, rows, cols = axes
    return rows, tuple(axis for group in (*batch, cols) for axis in group)


def _has_room(builder: LayerBuilder, tensor: str, rows: Sequence[int]) -> bool:
    """Return whether an operand may lie in rows twice, beside all that is at home on the chip.

    rows: the axes that count its rows; each line of them has all other indices side by side. A
    quarter of the state buffer is left to what the product needs meanwhile.
    """
    shape, chip = builder.graph.shape(tensor), builder.chip
    tall = math.prod(shape.dims[axis] for axis in rows)
    line = shape.num_elements() // tall * shape.dtype.itemsize
    taken = bytes_at_home(builder.graph, chip) + 2 * line * -(-tall // block_rows(chip))
    return LEFT * taken <= (LEFT - 1) * chip.state_buffer.bytes_per_partition


def _may_be_placed(builder: LayerBuilder, tensor: str, axes: Axes) -> bool:
    return bool(builder.graph.shape(tensor).layout.tiles) and _is_alone(builder, tensor, axes)


def _is_alone(builder: LayerBuilder, tensor: str, axes: Axes) -> bool:
    """Return whether an operand is of one product that takes one of several matrices at a time."""
    home = builder.graph.tensor(tensor)
    lone = builder.is_unplaced(tensor) and builder.uses(tensor) == 1
    *batch, _, cols = axes
    asked = builder.options.via or builder.options.block or builder.options.tile_columns
    return bool(lone and not asked and not home.partition and any(batch) and len(cols) == 1)


def _usual_cycles(builder: LayerBuilder, tensor: str, axes: Axes) -> float:
    """Return about how many cycles a change of view of all matrices takes."""
    here = views_at_home(builder, tensor)
    if here is None:
        return math.inf
    return here.cycles + min(builder.change_cost(tensor, seen, [axes]) for seen in here.views)


@dataclass(frozen=True, slots=True)
class OperandWays:
    """The ways of an operand from places at home to rows in reach of a product."""

    builder: LayerBuilder
    starts: Sequence[ChipPlaces]
    stops: Sequence[ChipPlaces]

    def cheapest(self, tensor: str, usual: float) -> OperandWay | None:
        """Return the way of the least estimate; None if the usual one is as good."""
        planner = DigitPlanner(self.builder.chip, self.builder.options)
        axes = range(len(self.builder.graph.shape(tensor).dims))
        direct = planner.cheapest(self.starts, self.stops, axes)
        best: OperandWay | None = None
        if direct is not None and direct.is_cheaper(usual):
            best = OperandWay(direct.places[0], direct.places[-1], (), direct, direct.cycles)
        least = best.cycles if best else usual
        if least <= LEAST_CYCLES or least < NEAR * in_all_lanes(self.builder, tensor):
            return best
        ways = [*self._spread(planner, tensor), *self.relayed(tensor, least)]
        found = min(ways, key=lambda way: way.cycles, default=None)
        return best if found is None or found.cycles * FEWER > least else found

    def _spread(self, planner: DigitPlanner, tensor: str) -> Iterator[OperandWay]:
        """Yield ways that spread an operand first: the runs of its home go to other partitions."""
        builder, shape = self.builder, self.builder.graph.shape(tensor)
        relays = RelayPlanner(builder.chip, builder.options, shape.element_type)
        period = builder.chip.period("pe_array")
        for start, stop in product(self.starts, self.stops):
            ends = relay_ends(start, stop, range(shape.rank))
            if ends is None:
                continue
            moves = [
                (relays.first_leg_roughly(path) + move.cycles * period, path, move)
                for path in self._spread_paths(ends)
                if (move := self._from(planner, path, ends, stop)) is not None
            ]
            for _, path, move in nsmallest(TRIED, moves, key=lambda each: each[0]):
                places = [ends.source, *path.places(ends.source.dims)]
                found = relays.legs(places, path.choice.digits)
                whole = replace(move, places=(start, *move.places))
                if found is not None and planner.has_room(whole):
                    cycles = move.cycles + -(-found[1] // period)
                    yield OperandWay(start, stop, found[0], move, cycles)

    def _spread_paths(self, ends: RelayEnds) -> Sequence[RelayPath]:
        """Return where an operand may lie between, in the order in which its home has it."""
        choices = relay_choices(ends.digits, block_rows(self.builder.chip))
        paths = (RelayPath(choice, (columns_between(choice)[0],)) for choice in choices)
        return tuple(dict.fromkeys(paths))

    def _from(
        self, planner: DigitPlanner, path: RelayPath, ends: RelayEnds, stop: ChipPlaces
    ) -> DigitMove | None:
        """Return the move from where a path's first leg leads."""
        (between,) = path.places(ends.source.dims)
        places = ChipPlaces(stop.shape, between.offsets, between.rows, between.columns)
        return planner.move(places, stop, range(stop.rank))

    def relayed(self, tensor: str, others: float) -> Iterator[OperandWay]:
        """Yield ways as a relay; others: about how many cycles another way takes."""
        builder, shape = self.builder, self.builder.graph.shape(tensor)
        places = [(start, stop) for start in self.starts for stop in self.stops]
        if whole_banks(builder.chip) or not places:
            return
        axes = range(places[0][0].rank)  # less than the tensor's if the places are of a part of it
        relays = RelayPlanner(builder.chip, builder.options, shape.element_type)
        for planned in (relays.relays, relays.in_rounds):
            for relay in planned(places, axes, others):
                yield OperandWay(relay.source, relay.result, relay.legs, None, relay.cycles)
