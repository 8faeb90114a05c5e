"""Free bytes of the state buffer's partitions: handed out by bank, and given back.

Fresh bytes go first, then bytes that were given back longest ago, so that a new tile seldom waits
for the last user of an old one. Not here: tiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from systolic.compiler.ir.dependencies import Ref
from systolic.spans import Interval

ALIGNMENT = 4
FEW_BANKS = ALIGNMENT + 1
"""How many banks are looked at from each end of a free interval.

Among so many, every way in which a whole bank can lie among whole words occurs.
"""

End = Literal["low", "high"]


def in_words(size_bytes: int) -> int:
    """Return the bytes rounded up to whole words, at which tiles begin and end."""
    return -(-size_bytes // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True, slots=True)
class Wish:
    """Wished-for ranges of bytes, the best first; if none has room, bytes come from `end`.

    only: no others will do.
    """

    end: End
    ranges: Iterable[Interval] = ()
    only: bool = False


@dataclass(slots=True)
class _Used:
    """Bytes given back, and the instructions that used them last."""

    start: int
    stop: int
    users: list[Ref]


@dataclass(slots=True)
class Room:
    """Free intervals of [0, size_bytes), sorted; bytes that were given back keep their last users.

    bank_bytes: a tile must not lie across two banks of that size (0: it may).
    """

    size_bytes: int
    bank_bytes: int = 0
    free: list[Interval] = field(init=False)
    fresh: list[Interval] = field(init=False)
    used: list[_Used] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.free = [Interval(0, self.size_bytes)]
        self.fresh = [Interval(0, self.size_bytes)]

    def take(self, size_bytes: int, wish: Wish) -> tuple[int, list[Ref]] | None:
        """Return the start of so many free bytes, and their last users; None if there is none."""
        size = in_words(size_bytes)
        start = self.find(size, wish)
        if start is None:
            return None
        self._remove(start, start + size)
        return start, self._users(start, start + size)

    def find(self, size: int, wish: Wish) -> int | None:
        """Return the first place for whole words, in the order of the wish, fresh before used."""
        for parts in (self.fresh, self.free):
            for wished in wish.ranges:
                if wished.count < size:
                    break  # all ranges are alike, and there may be millions
                inside = _within(parts, wished)
                if (start := self._fit(inside, size, wish.end)) is not None:
                    return start
        for parts in () if wish.only else (self.fresh, self.free):
            if (start := self._fit(parts, size, wish.end)) is not None:
                return start
        return None

    def give_back(self, start: int, size_bytes: int, users: list[Ref]) -> None:
        """Make bytes free again."""
        stop = start + in_words(size_bytes)
        self.used.append(_Used(start, stop, users))
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
        found: list[Ref] = []
        kept: list[_Used] = []
        for old in self.used:
            if old.stop <= start or stop <= old.start:
                kept.append(old)
                continue
            found += old.users
            if old.start < start:
                kept.append(_Used(old.start, start, old.users))
            if stop < old.stop:
                kept.append(_Used(stop, old.stop, old.users))
        self.used = kept
        return list(dict.fromkeys(found))


def _within(parts: list[Interval], wished: Interval) -> list[Interval]:
    """Return what lies inside an interval."""
    cut = (Interval(max(p.first, wished.first), min(p.stop, wished.stop)) for p in parts)
    return [part for part in cut if part.count > 0]


def _without(parts: list[Interval], taken: Interval) -> list[Interval]:
    """Return what is left without an interval."""
    halves = (
        half
        for part in parts
        for half in (
            Interval(part.first, min(part.stop, taken.first)),
            Interval(max(part.first, taken.stop), part.stop),
        )
    )
    return [half for half in halves if half.count > 0]
