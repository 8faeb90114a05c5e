"""Free bytes of the state buffer's partitions: handed out by bank, and given back.

Fresh bytes go first, then bytes that were given back longest ago, so that a new tile seldom waits
for the last user of an old one. Not here: tiles.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from systolic.compiler.ir.dependencies import Ref
from systolic.spans import Interval

ALIGNMENT = 4
FEW_BANKS = ALIGNMENT + 1
"""How many banks are looked at from each end of a free interval.

Among this many, every way in which a whole bank can lie among whole words occurs.
"""

RECENT = 4
"""How many of the places given back last are the last choice: what a few tasks gave back."""

End = Literal["low", "high"]


def in_words(size_bytes: int) -> int:
    """Return the bytes rounded up to whole words, at which tiles begin and end."""
    return -(-size_bytes // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True, slots=True)
class Wish:
    """Wished-for ranges of bytes, the best first; if none has room, bytes come from `end`.

    only: no others will do. lasting: what lies there stays.
    """

    end: End
    ranges: Iterable[Interval] = ()
    only: bool = False
    lasting: bool = False


@dataclass(slots=True)
class _Used:
    """Bytes given back, the instructions that used them last, and a number that grows with time."""

    start: int
    stop: int
    users: list[Ref]
    number: int


@dataclass(slots=True)
class Room:
    """Free intervals of [0, size_bytes), sorted; bytes that were given back keep their last users.

    used: the bytes that were given back, sorted as well; no two overlap.
    bank_bytes: a tile must not lie across two banks of that size (0: it may).
    """

    size_bytes: int
    bank_bytes: int = 0
    free: list[Interval] = field(init=False)
    fresh: list[Interval] = field(init=False)
    used: list[_Used] = field(default_factory=list)
    _given_back: int = 0
    _starts: list[int] = field(default_factory=list)
    _stops: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.free = [Interval(0, self.size_bytes)]
        self.fresh = [Interval(0, self.size_bytes)]

    def take(self, size_bytes: int, wish: Wish) -> tuple[int, list[Ref]] | None:
        """Return the start of `size_bytes` that are free, and their last users, or None."""
        size = in_words(size_bytes)
        start = self.find(size, wish)
        if start is None:
            return None
        self._remove(start, start + size)
        return start, self._users(start, start + size)

    def find(self, size: int, wish: Wish) -> int | None:
        """Return the first place for whole words, in the order of the wish, fresh before used.

        Bytes that were given back just now are the last choice: their users may have much to do.
        """
        recent: int | None = None
        for parts, find in ((self.fresh, self._fit), (self.free, self._longest_free)):
            for wished in wish.ranges:
                if wished.count < size:
                    break  # all ranges are alike, and there may be millions
                inside = _within(parts, wished)
                if (start := find(inside, size, wish.end)) is None:
                    continue
                if wish.only or not self._is_recent(start, size):
                    return start
                recent = start if recent is None else recent
        if recent is not None:
            return self._elsewhere(size, wish.end, recent)
        for parts in () if wish.only else (self.fresh, self.free):
            if (start := self._fit(parts, size, wish.end)) is not None:
                return start
        return None

    def _elsewhere(self, size: int, end: End, recent: int) -> int:
        """Return a place outside the wished-for ranges, or `recent` if there is none as good."""
        if (start := self._fit(self.fresh, size, end)) is not None:
            return start
        start = self._longest_free(self.free, size, end)
        return recent if start is None or self._is_recent(start, size) else start

    def _is_recent(self, start: int, size: int) -> bool:
        """Return whether some of these bytes are among the last that were given back."""
        used = self._overlapping(start, start + size)
        return any(self._given_back - each.number < RECENT for each in used)

    def give_back(self, start: int, size_bytes: int, users: list[Ref]) -> None:
        """Make bytes free again."""
        stop = start + in_words(size_bytes)
        self._given_back += 1
        place = bisect_left(self._stops, stop)
        self._replace(place, place, [_Used(start, stop, users, self._given_back)])
        merged: list[Interval] = []
        for part in sorted([*self.free, Interval(start, stop)]):
            if merged and merged[-1].stop == part.first:
                merged[-1] = Interval(merged[-1].first, part.stop)
            else:
                merged.append(part)
        self.free = merged

    @property
    def free_bytes(self) -> int:
        """Return how many bytes are free."""
        return sum(part.count for part in self.free)

    @property
    def largest_piece(self) -> int:
        """Return the size of the largest tile that has room, a multiple of `ALIGNMENT`."""
        inside = (part.count for free in self.free for part in self._in_banks(free, "low"))
        return max(inside, default=0)

    def _fit(self, parts: list[Interval], size: int, end: End) -> int | None:
        high_first = end == "high"
        for free in sorted(parts, reverse=high_first):
            for part in self._in_banks(free, end):
                if part.count >= size:
                    return part.stop - size if high_first else part.first
        return None

    def _longest_free(self, parts: list[Interval], size: int, end: End) -> int | None:
        """Return the place whose bytes have all been free for longest.

        Only places that begin or end where a free piece, or bytes given back together, begin or end
        are looked at.
        """
        high_first = end == "high"
        best: tuple[int, int] | None = None
        for free in parts:
            for piece in self._in_banks(free, end):
                found = self._oldest(piece, size, high_first=high_first)
                if found is not None and (best is None or found < best):
                    best = found
        return best and (-best[1] if high_first else best[1])

    def _oldest(self, piece: Interval, size: int, *, high_first: bool) -> tuple[int, int] | None:
        """Return the best place in a free piece, and before it the number of its latest bytes.

        The number belongs to the bytes of the place that were given back last. The place is
        negative if the highest is wanted. The places are gone through in order. `latest` is a queue
        of bytes in the place. Bytes leave it once bytes behind them were given back later, so its
        first entry was given back last of all. Each entry comes and goes once, so the work grows
        with the number of entries, not with the number of places times entries.
        """
        first, last = piece.first, piece.stop - size
        if last < first:
            return None
        used = self._overlapping(first, piece.stop)
        latest, reached, count = deque[_Used](), 0, len(used)
        age, best = self._given_back + 1, first
        for place in _places(used, first, last, size):
            stop = place + size
            while reached < count and used[reached].start < stop:
                newest = used[reached]
                while latest and latest[-1].number < newest.number:
                    latest.pop()
                latest.append(newest)
                reached += 1
            while latest and latest[0].stop <= place:
                latest.popleft()
            there = latest[0].number if latest else 0
            if there < age or (high_first and there == age):
                age, best = there, place
        return age, -best if high_first else best

    def _overlapping(self, start: int, stop: int) -> list[_Used]:
        """Return what was given back among some bytes, in order."""
        first = bisect_right(self._stops, start)
        return self.used[first : bisect_left(self._starts, stop, lo=first)]

    def _replace(self, first: int, stop: int, used: list[_Used]) -> None:
        """Put others in the place of some of what was given back."""
        self.used[first:stop] = used
        self._starts[first:stop] = [each.start for each in used]
        self._stops[first:stop] = [each.stop for each in used]

    def _in_banks(self, free: Interval, end: End) -> Iterator[Interval]:
        """Yield the pieces in which a tile may lie, from that end: in one bank, in whole words.

        A buffer may have millions of whole banks. They are alike in the words they hold, so only a
        few of them are looked at. Tiles begin and end at whole words; banks need not.
        """
        bank = self.bank_bytes or self.size_bytes
        first, last = free.first // bank, (free.stop - 1) // bank
        if last - first > 2 * FEW_BANKS:
            numbers = [*range(first, first + FEW_BANKS), *range(last - FEW_BANKS + 1, last + 1)]
        else:
            numbers = [*range(first, last + 1)]
        for number in numbers if end == "low" else reversed(numbers):
            start, stop = max(free.first, number * bank), min(free.stop, (number + 1) * bank)
            yield Interval(in_words(start), stop // ALIGNMENT * ALIGNMENT)

    def _remove(self, start: int, stop: int) -> None:
        taken = Interval(start, stop)
        self.free = _without(self.free, taken)
        self.fresh = _without(self.fresh, taken)

    def _users(self, start: int, stop: int) -> list[Ref]:
        """Take some bytes out of those given back, and return their last users."""
        overlapping = self._overlapping(start, stop)
        kept: list[_Used] = []
        for old in overlapping:
            if old.start < start:
                kept.append(_Used(old.start, start, old.users, old.number))
            if stop < old.stop:
                kept.append(_Used(stop, old.stop, old.users, old.number))
        first = bisect_right(self._stops, start)
        self._replace(first, first + len(overlapping), kept)
        by_age = sorted(overlapping, key=lambda old: old.number)
        return list(dict.fromkeys(user for old in by_age for user in old.users))


def _places(used: Iterable[_Used], first: int, last: int, size: int) -> list[int]:
    """Return the places from first to last that begin, or end, where something was given back."""
    places = {first, last}
    # The outermost are there already, so only what lies between them is to be added.
    places.update([old.start for old in used if first < old.start < last])
    places.update([old.stop - size for old in used if first < old.stop - size < last])
    return sorted(places)


def _within(parts: list[Interval], wished: Interval) -> list[Interval]:
    """Return what lies inside an interval."""
    first, stop = wished
    return [
        Interval(max(part.first, first), min(part.stop, stop))
        for part in parts
        if part.first < stop and first < part.stop
    ]


def _without(parts: list[Interval], taken: Interval) -> list[Interval]:
    """Return what is left without an interval."""
    left: list[Interval] = []
    for part in parts:
        if part.stop <= taken.first or taken.stop <= part.first:
            left.append(part)
            continue
        if part.first < taken.first:
            left.append(Interval(part.first, taken.first))
        if taken.stop < part.stop:
            left.append(Interval(taken.stop, part.stop))
    return left
