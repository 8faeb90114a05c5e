"""Lowering of moves on the chip as relays: DMA sends runs, engines put elements in order.

The compiler chooses which digits of the indices count partitions while elements change their order
(`ir.relays`). Few of them make few lanes busy, and digits that are minor in memory on one side make
its runs short. So it tries the source's, the result's, and others beside them that
fill the partitions, and takes the least estimate. Not here: which way is cheaper than a relay.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import combinations, pairwise, product

from systolic.compiler.cost.engines import WORD_BYTES
from systolic.compiler.cost.relays import cheaper_leg, rough_ticks
from systolic.compiler.ir.change_of_view import ChangeOfView, Seen
from systolic.compiler.ir.chip_places import LANE, ChipPlaces
from systolic.compiler.ir.chip_tiles import block_rows, whole_banks
from systolic.compiler.ir.nodes import Matrix
from systolic.compiler.ir.relays import (
    BoxStep,
    RelayDigit,
    RelayEnds,
    RelayPlaces,
    leg_pieces,
    places_between,
    relay_ends,
    split_digit,
    steps_of_digits,
)
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.digit_moves import (
    SPARE_BYTES,
    cheapest_digit_move,
    emit_digit_move,
    holder_of_places,
    places_of_both,
)
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.workload.options import Options

LEAST_CYCLES = 1000
"""Ways that take no longer are not compared with relays: two legs wait for two latencies."""
FEWER = 1.05
"""Relays are done if estimates say that another way takes so many times their cycles."""
NEAR = 1.5
"""A way that takes at most this many times as long as an engine in all lanes is taken as it is."""
MOST_COPIES = 600
"""The most copies of a leg."""
ROUGHLY = 2
"""Relays are worked out if their rough estimates are at most this many times another way's cycles:
two engines may share rounds."""
TRIED = 8
"""For how many choices, those with the least rough estimates, copies are worked out."""
RAGGED = 2, 3, 4
"""How many parts a digit may have whose last part is smaller."""
MOST_BESIDE = 2
"""The most digits that fill partitions beside digits of the source or of the result."""


def moved_from_place_to_place(
    builder: LayerBuilder,
    names: tuple[str, str],
    permutation: Sequence[int] | None,
    by_views: float,
) -> bool:
    """Move a tensor on the chip by its digits or as a relay, if that is cheaper than by views.

    names, permutation: as below. by_views: about how many cycles it takes to turn and to move
    views. Returns whether it is done.
    """
    move = cheapest_digit_move(builder, names, permutation)
    both = all(builder.graph.shape(name).layout.tiles for name in names)
    if move is not None and not move.is_cheaper(by_views, both_placed=both):
        move = None
    others = by_views if move is None else min(by_views, move.cycles)
    if relayed(builder, names, permutation, others):
        return True
    if move is not None:
        emit_digit_move(builder, names, move)
    return move is not None


def relayed(
    builder: LayerBuilder,
    names: tuple[str, str],
    permutation: Sequence[int] | None,
    others: float,
) -> bool:
    """Move a tensor on the chip as a relay, if that is cheaper; return whether it is done.

    names, permutation: as below. others: about how many cycles another way takes. If an engine that
    is busy in all lanes took about as long, no relay is looked for.
    """
    if others <= LEAST_CYCLES or others < NEAR * in_all_lanes(builder, names[0]):
        return False
    relay = cheapest_relay(builder, names, permutation, others)
    if relay is None or relay.cycles * FEWER > others:
        return False
    emit_relay(builder, names, relay)
    return True


def _places(builder: LayerBuilder, names: tuple[str, str]) -> list[tuple[ChipPlaces, ChipPlaces]]:
    """Return the places between which a relay may go; none if the options leave no choice."""
    options, chip = builder.options, builder.chip
    source, result = (builder.graph.tensor(name) for name in names)
    if options.via or options.block or options.tile_columns or source.partition or result.partition:
        return []
    if whole_banks(chip):
        return []
    return [*product(*places_of_both(chip, (source, result)))]


def in_all_lanes(builder: LayerBuilder, tensor: str) -> float:
    """Return the array's cycles of an engine that copies a tensor, if all lanes are busy."""
    chip = builder.chip
    periods = [chip.period(name) for name in chip.lane_engines]
    shape = builder.graph.shape(tensor)
    words = math.prod(shape.dims) * data_type(shape.element_type).size_bytes / WORD_BYTES
    lines = words / block_rows(chip)
    return lines * min(periods, default=0) / chip.period("pe_array")


@dataclass(frozen=True, slots=True)
class Relay:
    """A tensor's places at home, and the legs between them.

    source, result: the places at home. cycles: about how many of the array's cycles all legs take.
    """

    source: ChipPlaces
    result: ChipPlaces
    legs: tuple[ChangeOfView, ...]
    cycles: int


def cheapest_relay(
    builder: LayerBuilder,
    names: tuple[str, str],
    permutation: Sequence[int] | None,
    others: float,
) -> Relay | None:
    """Return the relay of the least estimate between two tensors on the chip; None without one.

    others: about how many cycles another way takes. names: of source and result. permutation: axis
    i of the result is axis permutation[i] of the source; None: a reshape.
    """
    places = _places(builder, names)
    dtype = builder.graph.shape(names[0]).element_type
    found = RelayPlanner(builder.chip, builder.options, dtype).relays(places, permutation, others)
    return min(found, key=lambda relay: relay.cycles, default=None)


@dataclass(frozen=True, slots=True)
class RelayChoice:
    """Digits of a relay, and which of them count partitions meanwhile, major to minor."""

    digits: tuple[RelayDigit, ...]
    lanes: tuple[RelayDigit, ...]

    def are_lanes(self, *, before: bool) -> bool:
        """Return whether digits count partitions as in the source (before), or as in the result."""
        step = LANE
        for digit in reversed(self.lanes):
            if (digit.before if before else digit.after) != step:
                return False
            step *= digit.size
        counted = (d for d in self.digits if (d.before if before else d.after) >= LANE)
        return all(digit in self.lanes for digit in counted)


@dataclass(frozen=True, slots=True)
class RelayPath:
    """A choice, and the orders of the columns in its lanes between two legs, major to minor."""

    choice: RelayChoice
    orders: tuple[tuple[RelayDigit, ...], ...]

    def steps(self) -> Iterator[list[BoxStep]]:
        """Yield the digits on both sides of each leg."""
        digits, lanes = self.choice.digits, steps_of_digits(self.choice.lanes, LANE)
        sides = [
            {digit: digit.before for digit in digits},
            *(lanes | steps_of_digits(order, 1) for order in self.orders),
            {digit: digit.after for digit in digits},
        ]
        for here, there in pairwise(sides):
            yield [BoxStep(digit.size, here[digit], there[digit]) for digit in digits]

    def places(self, dims: Sequence[int]) -> list[RelayPlaces]:
        """Return the places between the legs; dims: the sizes of the groups of dimensions."""
        return [places_between(dims, self.choice.lanes, order) for order in self.orders]


@dataclass(frozen=True, slots=True)
class RelayPlanner:
    """The chip, the options and the type for which relays are estimated."""

    chip: Chip
    options: Options
    dtype: str

    @property
    def _size(self) -> int:
        return data_type(self.dtype).size_bytes

    def relays(
        self,
        places: Sequence[tuple[ChipPlaces, ChipPlaces]],
        permutation: Sequence[int] | None,
        others: float,
    ) -> Iterator[Relay]:
        """Yield relays between some of these places: those of the best rough estimates.

        others: about how many cycles another way takes, which relays must not take by far.
        """
        limit = others * ROUGHLY * self.chip.period("pe_array")
        paths = [
            (ticks, path, both, ends)
            for both in places
            if (ends := relay_ends(*both, permutation)) is not None
            for path in self.paths(ends.digits)
            if (ticks := self.roughly(path)) < limit
        ]
        for _, path, both, ends in nsmallest(TRIED, paths, key=lambda some: some[0]):
            relay = self._relay(both, ends, path)
            if relay is not None:
                yield relay

    def paths(self, digits: Sequence[RelayDigit]) -> Iterator[RelayPath]:
        """Yield the paths of a relay, each once."""
        known: set[object] = set()
        for choice in relay_choices(digits, block_rows(self.chip)):
            path = relay_path(choice)
            key = path if path.orders else ()
            if key not in known:
                known.add(key)
                yield path

    def roughly(self, path: RelayPath) -> int:
        """Return about how many ticks a relay takes, without its copies in detail."""
        return sum(rough_ticks(self.chip, steps, self._size) for steps in path.steps())

    def _relay(
        self, ends: tuple[ChipPlaces, ChipPlaces], relay: RelayEnds, path: RelayPath
    ) -> Relay | None:
        between = path.places(relay.source.dims)
        places = [relay.source, *between, relay.result]
        columns = sum(place.columns for place in places)
        if columns * self._size + SPARE_BYTES > self.chip.state_buffer.bytes_per_partition:
            return None
        found = self.legs(places, path.choice.digits)
        if found is None:
            return None
        return Relay(*ends, found[0], -(-found[1] // self.chip.period("pe_array")))

    def legs(
        self, places: Sequence[RelayPlaces], digits: Sequence[RelayDigit]
    ) -> tuple[tuple[ChangeOfView, ...], int] | None:
        """Return the legs from place to place, and about how many ticks they take.

        None if one has too many pieces.
        """
        legs, ticks = [], 0
        for before, after in pairwise(places):
            found = self._leg(before, after, digits)
            if found is None:
                return None
            legs.append(found[0])
            ticks += found[1]
        return tuple(legs), ticks

    def _leg(
        self, before: RelayPlaces, after: RelayPlaces, digits: Sequence[RelayDigit]
    ) -> tuple[ChangeOfView, int] | None:
        """Return a leg in the way of the least estimate, and its ticks; None if none suits."""
        pieces = leg_pieces(before, after, digits, MOST_COPIES)
        if pieces is None:
            return None
        change = ChangeOfView(before, after, pieces)
        return cheaper_leg(self.chip, self.options, change, self.dtype)


def relay_choices(digits: Sequence[RelayDigit], most: int) -> Iterator[RelayChoice]:
    """Yield which digits may count partitions: those of one side, and others that fill the rest."""
    here, there = (
        tuple(sorted((d for d in digits if d[place] >= LANE), key=lambda d: -d[place]))
        for place in (3, 4)
    )
    for base in dict.fromkeys((here, there, ())):
        taken = math.prod(digit.size for digit in base)
        if taken > most:
            continue
        others = [digit for digit in digits if digit not in base]
        for count in range(min(MOST_BESIDE, len(others)) + 1):
            for beside in combinations(others, count):
                lanes = taken * math.prod(digit.size for digit in beside)
                if lanes > most:
                    continue
                yield RelayChoice(tuple(digits), (*beside, *base))
                yield from _with_parts(digits, (*beside, *base), most // lanes)


def _with_parts(
    digits: Sequence[RelayDigit], lanes: tuple[RelayDigit, ...], room: int
) -> Iterator[RelayChoice]:
    """Yield choices of the same digits and a part of another one that has room beside them."""
    for digit in digits:
        if room < 2 or digit in lanes or digit.size <= room:
            continue
        part = max(n for n in range(1, room + 1) if digit.size % n == 0)
        for minor in {part, digit.size // part} - {1, digit.size}:
            both = split_digit(digit, minor)
            new = both[1] if minor == part else both[0]
            if new.size <= room:
                yield _with_part(digits, digit, both, (new, *lanes))
        if part * 2 <= room and _is_major(digit, digits):
            for count in {room, *RAGGED}:
                both = split_digit(digit, -(-digit.size // count))
                if count <= room and 1 < both[0].size <= room:
                    yield _with_part(digits, digit, both, (both[0], *lanes))


def _with_part(
    digits: Sequence[RelayDigit],
    whole: RelayDigit,
    both: tuple[RelayDigit, RelayDigit],
    lanes: tuple[RelayDigit, ...],
) -> RelayChoice:
    return RelayChoice((*(digit for digit in digits if digit != whole), *both), lanes)


def _is_major(digit: RelayDigit, digits: Sequence[RelayDigit]) -> bool:
    """Return whether a digit is the major one of its dimensions."""
    return digit.worth == max(each.worth for each in digits if each.group == digit.group)


def relay_path(choice: RelayChoice) -> RelayPath:
    """Return how elements lie in the lanes of a choice between the legs."""
    first, last = columns_between(choice)
    stays = choice.are_lanes(before=True), choice.are_lanes(before=False)
    orders = [order for order, at_home in zip((first, last), stays, strict=True) if not at_home]
    return RelayPath(choice, tuple(orders) if first != last else ())


def columns_between(
    choice: RelayChoice,
) -> tuple[tuple[RelayDigit, ...], tuple[RelayDigit, ...]]:
    """Return the digits along the address behind the first leg and before the last.

    They are in the order of the source and of the result; digits that count partitions there are
    major, so that runs stay long.
    """
    rest = [digit for digit in choice.digits if digit not in choice.lanes]
    return (
        tuple(sorted(rest, key=lambda digit: -digit.before)),
        tuple(sorted(rest, key=lambda digit: -digit.after)),
    )


def emit_relay(builder: LayerBuilder, names: tuple[str, str], relay: Relay) -> None:
    """Place source and result, and add the legs between them."""
    name, dtype = names[1], relay.source.shape.element_type
    held = [holder_of_places(builder, names[0], relay.source, "state_buffer")]
    held += [lanes_between(builder, name, dtype, leg.target) for leg in relay.legs[:-1]]
    held.append(holder_of_places(builder, name, relay.result, "node"))
    legs = len(relay.legs)
    builder.choose(
        f"{names[0]} goes to {name} as a relay of {legs} leg{'s' if legs > 1 else ''} (about "
        f"{relay.cycles} cycles)"
    )
    for (source, result), leg in zip(pairwise(held), relay.legs, strict=True):
        builder.node("move", (source,), result, leg)
    builder.keep_matrix(name, held[-1], held[-1].axes)


def lanes_between(builder: LayerBuilder, tensor: str, dtype: str, places: Seen) -> Matrix:
    """Return the matrix of all places between two legs, one tile."""
    _, rows, cols = places.sizes()
    block = block_rows(builder.chip), cols
    name = builder.new_name(tensor)
    return builder.add(Matrix(name, tensor, dtype, (), rows, cols, ((), ()), "node", block=block))
