"""Moves on the chip in words that the array turns twice, so that elements change their partitions.

An engine leaves elements in their partitions, or moves all partitions by the same distance. The
array brings a matrix of words to other partitions, if it passes bits on as they are: a word has
several neighbouring elements. So a *relay of words* has four legs:

* Where the source has few partitions, an engine copies parts of it beside one another, to more.
* An engine puts the elements in order within their partitions, so that neighbours of the result lie
  side by side: words.
* The array turns words: their partitions become columns, and words lie on partitions.
* The array turns them back, where they have been put in order, to the partitions of the result.

Some digits of the indices count columns before the move and after it: for each of their values
there is a *band*, whose legs wait for no other band. So all legs are at work at the same time, each
on a band of its own. If the first leg brings parts to the partitions of the result, engines put
them in order there, and no words are turned. Not here: cycles, and nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np

from systolic.compiler.ir.change_of_view import ChangeOfView
from systolic.compiler.ir.chip_places import LANE
from systolic.compiler.ir.relays import (
    RelayDigit,
    RelayEnds,
    RelayPlaces,
    leg_pieces,
    split_digit,
    steps_of_digits,
)
from systolic.compiler.ir.windows import ColumnSteps, DigitWindow

MOST_PIECES = 16
"""The most copies of a leg in one band."""

SHARES = 1, 2
"""Words are turned on all partitions, or on a half of them: then there are twice as many bands."""

BAND_SHARES = 1, 2, 4, 8
"""Bands that are put in order where they end have so many elements of a partition, or a share."""

Values = tuple[tuple[RelayDigit, int], ...]
"""Digits, and the value that each of them has."""


@dataclass(frozen=True, slots=True)
class WordDigits:
    """The digits of a relay of words by what they count between the legs, all major to minor.

    source: the partitions of the source. beside: what goes to partitions beside those first. words:
    the partitions of words that have been turned once. element: the elements of a word. result: the
    partitions of the result. bands: what counts columns at all times.
    """

    source: tuple[RelayDigit, ...]
    beside: tuple[RelayDigit, ...]
    words: tuple[RelayDigit, ...]
    element: RelayDigit
    result: tuple[RelayDigit, ...]
    bands: tuple[RelayDigit, ...]

    @property
    def lanes(self) -> tuple[RelayDigit, ...]:
        """Those that count partitions while elements are put in order."""
        return (*self.beside, *self.source)

    @property
    def apart(self) -> tuple[RelayDigit, ...]:
        """Those partitions of the result that count columns before the words are turned."""
        return tuple(digit for digit in self.result if digit not in self.lanes)

    @property
    def batch(self) -> tuple[RelayDigit, ...]:
        """Those partitions that count columns of the result: a turn for each of their values."""
        return tuple(digit for digit in self.lanes if digit not in self.result)

    @property
    def moved(self) -> tuple[RelayDigit, ...]:
        """All digits of a band."""
        return (*self.lanes, *self.apart, *self.words, self.element)


def word_digits(ends: RelayEnds, many: int, most: tuple[int, int]) -> Iterator[WordDigits]:
    """Yield the ways to move words of `many` elements.

    most: the partitions of which elements are turned together, and the words of each.
    """
    digits = _whole_words(ends, many)
    if digits is None:
        return
    element, rest = digits
    source = _by_step([d for d in rest if d.before >= LANE], after=False)
    result = _by_step([d for d in rest if d.after >= LANE], after=True)
    if not _fill(source, after=False) or not _fill(result, after=True):
        return
    inside = [d for d in rest if d.before < LANE and d.after < LANE]
    taken = math.prod(digit.size for digit in source)
    for beside, others in _beside(inside, most[0] // taken):
        if (*beside, *source) == result:
            continue  # they need no turn
        for share in SHARES:
            words, bands = _parted(_by_step(others, after=True), most[1] // share)
            if words:
                yield WordDigits(source, beside, words, element, result, bands)


def digits_in_lanes(ends: RelayEnds, most: tuple[int, int]) -> Iterator[WordDigits]:
    """Yield the ways to put elements in order where they end, in the partitions of the result.

    Those of the source are there already, if other ones come beside them. So no words are turned.

    most: the partitions, and the elements of each of them in a band.
    """
    source = _by_step([d for d in ends.digits if d.before >= LANE], after=False)
    result = _by_step([d for d in ends.digits if d.after >= LANE], after=True)
    beside, same = result[: -len(source)], result[-len(source) :]
    if not beside or same != source or any(digit.before != digit.after for digit in source):
        return
    lanes = math.prod(digit.size for digit in result)
    if lanes > most[0] or not _fill(source, after=False) or not _fill(result, after=True):
        return
    inside = [d for d in ends.digits if d.before < LANE and d.after < LANE]
    for share in BAND_SHARES:
        moved, bands = _parted(_by_step(inside, after=True), most[1] // share)
        if moved:
            yield WordDigits(source, beside, moved[:-1], moved[-1], result, bands)


def _whole_words(ends: RelayEnds, many: int) -> tuple[RelayDigit, list[RelayDigit]] | None:
    """Return the elements of a word as a digit, and all other digits; None if words are broken."""
    sizes: dict[int, int] = {}
    for digit in ends.digits:
        sizes[digit.group] = sizes.get(digit.group, 1) * digit.size
    whole = all(sizes.get(n, 1) == size for n, size in enumerate(ends.source.dims))
    minor = next((digit for digit in ends.digits if digit.after == 1), None)
    if not whole or minor is None or minor.size % many or minor.before >= LANE:
        return None
    major, element = split_digit(minor, many)
    rest = [digit for digit in (*ends.digits, major) if digit != minor and digit.size > 1]
    if any(digit.after % many for digit in rest if digit.after < LANE):
        return None
    starts = (int(of[0]) for of in ends.result.offsets)
    return None if sum(starts) % many else (element, rest)


def _by_step(digits: Sequence[RelayDigit], *, after: bool) -> tuple[RelayDigit, ...]:
    return tuple(sorted(digits, key=lambda d: -(d.after if after else d.before)))


def _fill(lanes: Sequence[RelayDigit], *, after: bool) -> bool:
    """Return whether digits count partitions one by one."""
    steps = steps_of_digits(lanes, LANE)
    return all((d.after if after else d.before) == steps[d] for d in lanes)


def _beside(
    inside: Sequence[RelayDigit], room: int
) -> Iterator[tuple[tuple[RelayDigit, ...], list[RelayDigit]]]:
    """Yield digits that go to partitions beside those of the source, and those that are left."""
    yield (), [*inside]
    for digit in inside:
        for size in (n for n in range(2, min(room, digit.size) + 1) if digit.size % n == 0):
            others = [other for other in inside if other != digit]
            if size == digit.size:
                yield (digit,), others
                continue
            major, minor = split_digit(digit, digit.size // size)
            yield (major,), [*others, minor]


def _parted(
    digits: Sequence[RelayDigit], most: int
) -> tuple[tuple[RelayDigit, ...], tuple[RelayDigit, ...]]:
    """Return the minor digits of at most so many values together, and the others.

    digits: major to minor.
    """
    words, left = list[RelayDigit](), list(digits)
    room = most
    while left and room > 1:
        digit = left.pop()
        part = max(n for n in range(1, room + 1) if digit.size % n == 0)
        if part == digit.size:
            words.insert(0, digit)
        elif part > 1:
            major, minor = split_digit(digit, part)
            words.insert(0, minor)
            left.append(major)
        else:
            left.append(digit)
        room //= part
        if part < digit.size:
            break
    return tuple(words), tuple(left)


class WordTurn(NamedTuple):
    """A turn of words: where they lie in their holders before and after.

    rows, cols: of each matrix before the turn. The names of holders are yet to be given.
    """

    source: DigitWindow
    result: DigitWindow
    rows: int
    cols: int


@dataclass(frozen=True, slots=True)
class WordRelay:
    """The legs of a relay of words; elements of all places count one column each."""

    ends: RelayEnds
    digits: WordDigits

    @property
    def in_lanes(self) -> bool:
        """Return whether elements are put in order in the partitions of the result."""
        return self.digits.result == self.digits.lanes

    def bands(self) -> list[Values]:
        """Return the values of each band."""
        return _values(self.digits.bands)

    def parts(self) -> list[Values]:
        """Return the values of each part of a band that is put in order by itself."""
        return _values(self.digits.apart)

    def columns_back(self) -> list[Values]:
        """Return the values of what is turned back by itself, of each band."""
        return _values(self.digits.batch)

    def half(self, band: Values) -> int:
        """Return in which half of the source's columns a band begins."""
        first = sum(digit.before * value for digit, value in band)
        return int(2 * first >= self.ends.source.columns)

    def end_half(self, band: Values) -> int | None:
        """Return in which half of the result's columns a band ends; None if it is in both."""
        first = sum(digit.after * value for digit, value in band)
        inside = [digit for digit in self.digits.moved if digit.after < LANE]
        last = first + sum(digit.after * (digit.size - 1) for digit in inside)
        halves = {2 * column >= self.ends.result.columns for column in (first, last)}
        return int(halves.pop()) if len(halves) == 1 else None

    def halves_of(self, leg: ChangeOfView, band: Values) -> tuple[int, ...]:
        """Return in which half of the source's columns each piece of a band begins.

        leg: of the first band; that of another one begins some columns behind it.
        """
        first = sum(digit.before * value for digit, value in band)
        columns = self.ends.source.columns
        return tuple(int(2 * (piece.source_col + first) >= columns) for piece in leg.given)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The columns of a band beside one another, of a part in order, and turned once."""
        words = math.prod(d.size for d in (*self.digits.words, self.digits.element))
        apart = math.prod(d.size for d in self.digits.apart)
        lanes = math.prod(d.size for d in self.digits.lanes)
        return words * apart, words, lanes * apart * self.digits.element.size

    def brought(self, band: Values) -> ChangeOfView | None:
        """Return how a band goes beside one another; None if that takes too many copies."""
        source = {digit: digit.before for digit in self.digits.moved}
        return self._leg((source, self.ends.source, band), self._together(), ())

    def all_ordered(self, band: Values) -> ChangeOfView | None:
        """Return how a band is put in order as a whole; None if that takes too many copies."""
        return self._leg(self._here(band), self._in_order(), ())

    def sent(self, band: Values) -> ChangeOfView | None:
        """Return how DMA sends a band that is in order; None if that takes too many copies."""
        steps, (places, _) = self._in_order()
        after = {digit: digit.after for digit in self.digits.moved}
        leg = self._leg((steps, places, ()), (after, self._home(band)), ())
        return None if leg is None else replace(leg, sent=True, in_part=True)

    def at_home(self, band: Values) -> ChangeOfView | None:
        """Return how a band is put in order where it ends; None if that takes too many copies."""
        after = {digit: digit.after for digit in self.digits.moved}
        leg = self._leg(self._here(band), (after, self._home(band)), ())
        return None if leg is None else replace(leg, in_part=True)

    def _home(self, band: Values) -> tuple[RelayPlaces, int]:
        """Return the places of the result, and the first column of a band."""
        first = self.ends.result.first
        return self.ends.result, first + sum(digit.after * value for digit, value in band)

    def _in_order(self) -> tuple[dict[RelayDigit, int], tuple[RelayPlaces, int]]:
        """Return the places of a band that is in order as a whole."""
        digits = self.digits
        columns = steps_of_digits((*digits.apart, *digits.words, digits.element), 1)
        rows = math.prod(digit.size for digit in digits.lanes)
        return self._lanes() | columns, (RelayPlaces((), rows, self.sizes[0]), 0)

    def _here(self, band: Values) -> tuple[dict[RelayDigit, int], RelayPlaces, Values]:
        """Return where a band lies before it is put in order."""
        if not self.digits.beside:
            steps = {digit: digit.before for digit in self.digits.moved}
            return steps, self.ends.source, band
        steps, (places, _) = self._together()
        return steps, places, ()

    def ordered(self, band: Values, part: Values) -> ChangeOfView | None:
        """Return how a part of a band is put in order; None if that takes too many copies."""
        digits, known, here = self.digits, dict(part), self._here(band)
        target = self._lanes() | steps_of_digits((*digits.words, digits.element), 1)
        rows = math.prod(digit.size for digit in digits.lanes)
        size = RelayPlaces((), rows, self.sizes[1])
        return self._leg(here, (target | dict.fromkeys(known, 0), (size, 0)), part)

    def _together(self) -> tuple[dict[RelayDigit, int], tuple[RelayPlaces, int]]:
        digits = self.digits
        columns = _by_step((*digits.apart, *digits.words, digits.element), after=False)
        rows = math.prod(digit.size for digit in digits.lanes)
        steps = self._lanes() | steps_of_digits(columns, 1)
        return steps, (RelayPlaces((), rows, self.sizes[0]), 0)

    def _lanes(self) -> dict[RelayDigit, int]:
        return steps_of_digits(self.digits.lanes, LANE)

    def _leg(
        self,
        here: tuple[dict[RelayDigit, int], RelayPlaces, Values],
        there: tuple[dict[RelayDigit, int], tuple[RelayPlaces, int]],
        part: Values,
    ) -> ChangeOfView | None:
        """Return a leg of the digits that have no value yet; None if it has too many pieces.

        here: steps and places, and the values of digits that it has besides. there: steps, places,
        and the first column.
        """
        steps, places, band = here
        after, (room, start) = there
        first = places.first
        first += sum(digit.before * value for digit, value in band)
        first += sum(steps[digit] * value for digit, value in part)
        known = dict(part)
        free = [digit for digit in self.digits.moved if digit not in known]
        lines = [np.arange(digit.size) for digit in free]
        before = [line * steps[digit] for line, digit in zip(lines, free, strict=True)]
        behind = [line * after[digit] for line, digit in zip(lines, free, strict=True)]
        before[0], behind[0] = before[0] + first, behind[0] + start
        source = RelayPlaces(tuple(before), places.rows, places.columns)
        target = RelayPlaces(tuple(behind), room.rows, room.columns)
        own = [RelayDigit(n, 1, d.size, steps[d], after[d]) for n, d in enumerate(free)]
        pieces = leg_pieces(source, target, own, MOST_PIECES)
        if pieces is None:
            return None
        return ChangeOfView(source, target, pieces)

    def turned(self, part: Values) -> WordTurn:
        """Return how a part of a band is turned: words in order become rows."""
        digits, many = self.digits, self.digits.element.size
        steps = self._turned_steps()
        rows = math.prod(digit.size for digit in digits.lanes)
        cols = math.prod(digit.size for digit in digits.words)
        first = sum(steps[digit] * value for digit, value in part)
        return WordTurn(
            DigitWindow("", 0, 0, (), ((cols, many),)),
            DigitWindow("", 0, first, (), _steps(digits.lanes, steps)),
            rows,
            cols,
        )

    def turned_back(self, band: Values, some: Values) -> WordTurn:
        """Return how some columns of a band are turned back, to the places of the result."""
        digits, steps = self.digits, self._turned_steps()
        first = self.ends.result.first
        first += sum(digit.after * value for digit, value in (*band, *some))
        down, column = divmod(first, LANE)
        here = sum(steps[digit] * value for digit, value in some)
        words = tuple((digit.size, digit.after) for digit in digits.words)
        return WordTurn(
            DigitWindow("", 0, here, (), _steps(digits.result, steps)),
            DigitWindow("", down, column, (), words),
            math.prod(digit.size for digit in digits.words),
            math.prod(digit.size for digit in digits.result),
        )

    def _turned_steps(self) -> dict[RelayDigit, int]:
        """Return the columns from one value to the next of what has been turned once."""
        digits = self.digits
        return steps_of_digits((*digits.batch, *digits.result), digits.element.size)


def _steps(digits: Sequence[RelayDigit], steps: dict[RelayDigit, int]) -> ColumnSteps:
    return tuple((digit.size, steps[digit]) for digit in digits)


def _values(digits: Sequence[RelayDigit]) -> list[Values]:
    ranges = product(*(range(digit.size) for digit in digits))
    return [tuple(zip(digits, values, strict=True)) for values in ranges]
