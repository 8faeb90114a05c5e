"""A move between two places on the chip as rectangles: copies lane by lane, and turns.

The digits of a box of elements (`stretches`) count partitions or columns, before and after. If
those that count partitions do so on both sides, elements stay in their lanes, or all lanes go up or
down together: an engine copies them. If they count columns on the other side, each rectangle of
rows and columns becomes columns and rows: the array turns it. Not here: estimates and nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import NamedTuple

from systolic.compiler.ir.on_chip.chip_places import LANE, ChipPlaces
from systolic.compiler.ir.stretches import MOST_PARTS, Digit, DigitStretch, merged, stretches
from systolic.compiler.ir.windows import ColumnSteps
from systolic.isa.access import MAX_PAIRS

MOST_PIECES = 64
"""The most pieces of a move: each has matrices of its own."""


class Limits(NamedTuple):
    """The most rows that are turned together, and the most columns: they become rows."""

    rows: int
    cols: int


@dataclass(frozen=True, slots=True)
class PieceEnd:
    """Where the elements of a piece lie in a holder, on one side of a move: as in `DigitWindow`.

    down, first: row and column of the first element.
    """

    down: int
    first: int
    batch: ColumnSteps
    cols: ColumnSteps


@dataclass(frozen=True, slots=True)
class MovePiece:
    """Matrices of `rows` x `cols` elements of the source, and where they go.

    turned: rows of the source are columns of the result.
    """

    source: PieceEnd
    result: PieceEnd
    rows: int
    cols: int
    turned: bool

    @property
    def matrices(self) -> int:
        """Return how many matrices there are."""
        return math.prod(size for size, _ in self.source.batch)


class _Part(NamedTuple):
    """Digits of a box, and the places of its first element."""

    digits: list[Digit]
    source: int
    result: int


def move_pieces(
    source: ChipPlaces, result: ChipPlaces, permutation: Sequence[int] | None, limits: Limits
) -> tuple[MovePiece, ...] | None:
    """Return the pieces that make up a move; None if it has other ones, or too many."""
    found = stretches(source, result, permutation)
    if found is None or math.prod(map(len, found)) > MOST_PARTS:
        return None
    pieces: list[MovePiece] = []
    for box in product(*map(_alike, found)):
        made = _pieces(_part(box), limits)
        if made is None:
            return None
        pieces += made
        if len(pieces) > MOST_PIECES:
            return None
    return tuple(pieces)


def _alike(found: list[DigitStretch]) -> list[DigitStretch]:
    """Return stretches cut otherwise, if the last one is the beginning of another line of digits.

    Of 7 rows by two the last line has one: rows 0, 2, 4, 6, and rows 1, 3, 5 begin alike.
    """
    if len(found) != 2 or len(found[0].digits) != 2:
        return found
    first, last = found
    major, minor = first.digits
    if len(last.digits) != 1:
        return found
    (some,) = last.digits
    follows = first.source + major.size * major.source, first.result + major.size * major.result
    steps = (some.source, some.result) == (minor.source, minor.result)
    if (last.source, last.result) != follows or not (steps or some.size == 1):
        return found
    longer = (major._replace(size=major.size + 1), minor._replace(size=some.size))
    rest = (major, minor._replace(size=minor.size - some.size))
    return [
        DigitStretch(longer, first.source, first.result),
        DigitStretch(
            rest,
            first.source + some.size * minor.source,
            first.result + some.size * minor.result,
        ),
    ]


def _part(box: Sequence[DigitStretch]) -> _Part:
    digits = [digit for stretch in box for digit in stretch.digits if digit.size > 1]
    digits = merged(sorted(digits, key=lambda digit: -digit.source))
    return _Part(digits, sum(each.source for each in box), sum(each.result for each in box))


def _pieces(part: _Part, limits: Limits) -> list[MovePiece] | None:
    """Return the pieces of a part; None if it has some that cross partitions another way."""
    digits = part.digits
    if not all(_is_straight(step) for digit in digits for step in digit[1:]):
        return None
    leave = [digit for digit in digits if _counts_lanes(digit.source)]
    arrive = [digit for digit in digits if _counts_lanes(digit.result)]
    inside = [digit for digit in digits if digit not in leave and digit not in arrive]
    if leave == arrive:
        return _copied(part, leave, inside)
    if any(digit in arrive for digit in leave):
        return None
    return _turned(part, (leave, arrive, inside), limits)


def _is_straight(step: int) -> bool:
    """Return whether a step goes up by partitions or on by columns, not both, and never back."""
    lanes = (step + LANE // 2) // LANE
    return step >= 0 and (lanes == 0 or step == lanes * LANE)


def _counts_lanes(step: int) -> bool:
    return step >= LANE


def _copied(part: _Part, lanes: list[Digit], inside: list[Digit]) -> list[MovePiece] | None:
    """Return copies of a part whose elements stay in their lanes, or go up or down together."""
    rows = 1
    apart: list[Digit] = []
    for digit in sorted(lanes, key=lambda digit: digit.source):
        if digit.source == digit.result == rows * LANE:
            rows *= digit.size
        else:
            apart.append(digit)
    cols, batch = _inner_close(inside), list[Digit]()
    while _pairs(cols) > MAX_PAIRS:
        least = min(cols, key=lambda digit: digit.size)
        cols.remove(least)
        batch.append(least)
    if math.prod(digit.size for digit in apart) > MOST_PIECES:
        return None
    found = []
    for source, result in _starts(part, apart):
        ends = (_end(source, "source", batch, cols), _end(result, "result", batch, cols))
        found.append(MovePiece(*ends, rows, _count(cols), turned=False))
    return found


def _inner_close(digits: Sequence[Digit]) -> list[Digit]:
    """Return digits along the address in the order of the source, or of the result.

    Engines may be slower where neighbours of an access lie far apart. Neighbours of one side are
    neighbours of the access in its order, so that order is taken in which they lie less far apart
    on the other side.
    """
    orders = (
        sorted(digits, key=lambda digit: -digit.source),
        sorted(digits, key=lambda digit: -digit.result),
    )
    return min(orders, key=lambda order: max(order[-1][1:], default=0) if order else 0)


def _turned(
    part: _Part, kinds: tuple[list[Digit], list[Digit], list[Digit]], limits: Limits
) -> list[MovePiece] | None:
    """Return turns of a part of whose digits none counts partitions on both sides.

    kinds: digits that leave the partitions, digits that arrive there, and the others.
    """
    leave = sorted(kinds[0], key=lambda digit: -digit.source)
    arrive = sorted(kinds[1], key=lambda digit: -digit.result)
    if part.source >= LANE or not _side_by_side([(d.size, d.source) for d in leave]):
        return None  # the array takes rows from the first partition on
    if not _side_by_side([(d.size, d.result) for d in arrive]):
        return None
    apart: list[Digit] = []
    if _count(arrive) > limits.cols and len(arrive) > 1:
        major, rest = arrive[0], arrive[1:]
        size = max(
            (n for n in range(1, major.size + 1) if major.size % n == 0
             and n * _count(rest) <= limits.cols), default=0)  # fmt: skip
        if not size:
            return None
        apart.append(Digit(major.size // size, major.source * size, major.result * size))
        arrive = [major._replace(size=size), *rest]
    if _count(leave) > limits.rows and len(leave) > 1:
        return None
    if max(_pairs(leave), _pairs(arrive)) > MAX_PAIRS:
        return None
    found = []
    for source, result in _starts(part, apart):
        ends = _end(source, "source", kinds[2], arrive), _end(result, "result", kinds[2], leave)
        found.append(MovePiece(*ends, _count(leave), _count(arrive), turned=True))
    return found


def _side_by_side(lanes: Sequence[tuple[int, int]]) -> bool:
    """Return whether digits (size, step), major to minor, count partitions without gaps."""
    next_ = LANE
    for size, step in reversed(lanes):
        if step != next_:
            return False
        next_ *= size
    return True


def _starts(part: _Part, apart: list[Digit]) -> Iterator[tuple[int, int]]:
    """Yield the places of the first element for each index of some digits."""
    for index in product(*(range(digit.size) for digit in apart)):
        yield (
            part.source + sum(n * d.source for n, d in zip(index, apart, strict=True)),
            part.result + sum(n * d.result for n, d in zip(index, apart, strict=True)),
        )


def _end(place: int, side: str, batch: Sequence[Digit], cols: Sequence[Digit]) -> PieceEnd:
    down, first = divmod(place, LANE)
    steps = [
        tuple((d.size, d.source if side == "source" else d.result) for d in digits)
        for digits in (batch, cols)
    ]
    return PieceEnd(down, first, *steps)


def _count(digits: Sequence[Digit]) -> int:
    return math.prod(digit.size for digit in digits)


def _pairs(digits: Sequence[Digit]) -> int:
    """Return the most pairs that an access to these columns has, on either side."""
    most = 0
    for steps in ([(d.size, d.source) for d in digits], [(d.size, d.result) for d in digits]):
        inside = [(size, step) for size, step in steps if step < LANE]
        outer = sum(step != size * minor for (_, step), (size, minor) in pairwise(inside))
        most = max(most, outer + bool(inside))
    return most
