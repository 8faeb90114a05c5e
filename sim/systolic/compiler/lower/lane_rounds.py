"""Where elements lie between the rounds of a move from lanes to lanes on the chip.

A move goes from its source to its result at once, or over places between in which some digits of
both ends count partitions: the major ones of the source, so that the first leg leaves those lanes
in place, and the minor ones of the result, so that the second leg moves many lanes together. The
first leg has an instruction for each lane of the source and each value that arrives there, the
second one for each group of lanes. Not here: the instructions (`ir.lane_rounds`), and whether
another way is cheaper (`relays`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from systolic.compiler.cost.lane_rounds import (
    MOST_PIECES,
    independent_engines,
    roughly,
    rounds_leg,
)
from systolic.compiler.ir.change_of_view import ChangeOfView
from systolic.compiler.ir.chip_places import LANE
from systolic.compiler.ir.lane_rounds import rounds_of_box
from systolic.compiler.ir.relays import (
    BoxStep,
    RelayDigit,
    RelayEnds,
    RelayPlaces,
    leg_pieces,
    places_between,
    split_digit,
    steps_of_digits,
)
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.workload.options import Options

SIZES = (2, 4, 8, 16, 32)
"""How many lanes may go together on the second leg."""


@dataclass(frozen=True, slots=True)
class RoundsChoice:
    """Digits of a move, and those that count partitions and columns between two legs.

    lanes, columns: major to minor; none: the move has one leg. cycles: rough, of an engine.
    """

    digits: tuple[RelayDigit, ...]
    lanes: tuple[RelayDigit, ...]
    columns: tuple[RelayDigit, ...]
    cycles: int


def rounds_choices(
    chip: Chip, options: Options, ends: RelayEnds, dtype: str, rows: int
) -> Iterator[RoundsChoice]:
    """Yield how a move may go in rounds, with rough estimates; rows: the lanes that there are."""
    counted = [digit for digit in ends.digits if max(digit.before, digit.after) >= LANE]
    stays = all(digit.before == digit.after for digit in counted)  # any engine copies lane by lane
    if stays or not independent_engines(chip, options):
        return
    size = data_type(dtype).size_bytes
    direct = [BoxStep(d.size, d.before, d.after) for d in ends.digits]
    rough = roughly(chip, direct, size)
    if rough is not None:
        yield RoundsChoice(ends.digits, (), (), rough)
    for together in SIZES:
        found = _lanes_between(ends.digits, together, rows)
        if found is None:
            continue
        digits, lanes = found
        rest = [digit for digit in digits if digit not in lanes]
        for place in (3, 4):
            columns = tuple(sorted(rest, key=lambda digit: _order(digit, place)))
            between = {**steps_of_digits(lanes, LANE), **steps_of_digits(columns, 1)}
            cycles = [
                roughly(chip, [BoxStep(d.size, *sides(d, between[d])) for d in digits], size)
                for sides in (_come, _go)
            ]
            if None not in cycles:
                yield RoundsChoice(digits, lanes, columns, sum(filter(None, cycles)))


def _order(digit: RelayDigit, place: int) -> tuple[bool, int]:
    """Return the order of columns between two legs; digits of all copies of both legs are major.

    So each engine may keep to a half of them. Those side by side stay minor, as parts of words.
    """
    stays = max(digit.before, digit.after) < LANE and min(digit.before, digit.after) > 1
    return not stays, -digit[place]


def _come(digit: RelayDigit, between: int) -> tuple[int, int]:
    return digit.before, between


def _go(digit: RelayDigit, between: int) -> tuple[int, int]:
    return between, digit.after


def _at_once(digit: RelayDigit, between: int) -> tuple[int, int]:
    return digit.before, digit.after


def _lanes_between(
    digits: Sequence[RelayDigit], together: int, rows: int
) -> tuple[tuple[RelayDigit, ...], tuple[RelayDigit, ...]] | None:
    """Return all digits, cut where need be, and those that count partitions between the legs.

    together: how many minor lanes of the result; at least two of them lie in columns before.
    """
    left = list(digits)
    minor = _minor_lanes(left, together)
    if minor is None:
        return None
    major, taken = list[RelayDigit](), math.prod(digit.size for digit in minor)
    for digit in sorted(left, key=lambda digit: -digit.before):
        room = rows // taken
        if digit.before < LANE or digit in minor or room < 2:
            continue
        if digit.size > room:
            part = min((n for n in range(2, digit.size) if digit.size % n == 0
                        and digit.size // n <= room), default=0)  # fmt: skip
            if not part:
                break
            left.remove(digit)
            digit, rest = split_digit(digit, part)
            left += [digit, rest]
        major.append(digit)
        taken *= digit.size
    return (tuple(left), (*major, *minor)) if major else None


def _minor_lanes(left: list[RelayDigit], together: int) -> tuple[RelayDigit, ...] | None:
    """Return digits that make up the minor lanes of the result, cutting one of `left` for it."""
    found, step = list[RelayDigit](), 1
    for digit in sorted(left, key=lambda digit: digit.after):
        if digit.after != step * LANE or step == together:
            continue
        if digit.size * step > together:
            size, rest = divmod(together, step)
            if rest or size < 2 or digit.size % size:
                return None
            left.remove(digit)
            major, digit = split_digit(digit, size)
            left += [major, digit]
        found.append(digit)
        step *= digit.size
    arrives = any(digit.before < LANE for digit in found)
    return tuple(reversed(found)) if step == together and arrives else None


def rounds(
    chip: Chip, options: Options, ends: RelayEnds, choice: RoundsChoice, dtype: str
) -> tuple[tuple[ChangeOfView, ...], int] | None:
    """Return the legs of a choice, and about how many ticks they take; None if there are none."""
    places: list[RelayPlaces] = [ends.source, ends.result]
    if choice.lanes:
        places.insert(1, places_between(ends.source.dims, choice.lanes, choice.columns))
    size = data_type(dtype).size_bytes
    if sum(place.columns for place in places) * size > chip.state_buffer.bytes_per_partition:
        return None
    legs, ticks = [], 0
    between = {**steps_of_digits(choice.lanes, LANE), **steps_of_digits(choice.columns, 1)}
    sides = (_come, _go) if choice.lanes else (_at_once,)
    for (before, after), ends_of in zip(pairwise(places), sides, strict=True):
        pieces = leg_pieces(before, after, choice.digits, MOST_PIECES, rounds_of_box)
        if pieces is None:
            return None
        steps = [BoxStep(d.size, *ends_of(d, between.get(d, 0))) for d in choice.digits]
        change = ChangeOfView(before, after, pieces)
        found = rounds_leg(chip, options, change, steps, dtype)
        if found is None:
            return None
        legs.append(found[0])
        ticks += found[1]
    return tuple(legs), ticks
