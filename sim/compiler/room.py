"""Room in the state buffer: bytes of every partition, handed out from either end, and given back.

Fresh bytes go first, then those that were given back longest ago, so that a new tile seldom waits
for the last user of an old one. Knows nothing of tiles.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sim.compiler.hazards import Ref

ALIGNMENT = 4
End = Literal["low", "high"]


@dataclass(slots=True)
class _Used:
    """Bytes given back, and who used them last."""

    start: int
    stop: int
    users: list[Ref]


@dataclass(slots=True)
class Room:
    """Free intervals of [0, size_bytes), sorted; what was given back remembers its users.

    bank_bytes: nothing may lie across two banks of that size (0: it may).
    """

    size_bytes: int
    bank_bytes: int = 0
    free: list[tuple[int, int]] = field(init=False)
    fresh: list[tuple[int, int]] = field(init=False)
    used: list[_Used] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.free = [(0, self.size_bytes)]
        self.fresh = [(0, self.size_bytes)]

    def take(
        self, size_bytes: int, end: End, within: tuple[int, int] | None = None
    ) -> tuple[int, list[Ref]] | None:  # fmt: skip
        """Return where so many bytes are free, and who used them before; None if nowhere.

        within: bytes that are best, if there is room in them.
        """
        size = -(-size_bytes // ALIGNMENT) * ALIGNMENT
        start = None
        if within:
            for parts in (self.fresh, self.free):
                inside = [(max(a, within[0]), min(b, within[1])) for a, b in parts]
                start = self._fit(inside, size, end) if start is None else start
        if start is None:
            start = self._fit(self.fresh, size, end)
        if start is None:
            start = self._longest_idle(size, end)
        if start is None:
            return None
        self._remove(start, start + size)
        return start, self._users(start, start + size)

    def give_back(self, start: int, size_bytes: int, users: list[Ref]) -> None:
        """Make bytes free again."""
        stop = start + -(-size_bytes // ALIGNMENT) * ALIGNMENT
        self.used.append(_Used(start, stop, users))
        merged: list[tuple[int, int]] = []
        for low, high in sorted([*self.free, (start, stop)]):
            if merged and merged[-1][1] == low:
                merged[-1] = merged[-1][0], high
            else:
                merged.append((low, high))
        self.free = merged

    def _fit(self, parts: list[tuple[int, int]], size: int, end: End) -> int | None:
        parts = [part for low, high in parts for part in self._in_banks(low, high)]
        if end == "low":
            return next((low for low, high in sorted(parts) if high - low >= size), None)
        high_first = sorted(parts, reverse=True)
        return next((high - size for low, high in high_first if high - low >= size), None)

    def _longest_idle(self, size: int, end: End) -> int | None:
        """Return where bytes were given back longest ago: the next owner waits the least."""
        parts = [*self.free]
        for old in self.used:
            parts += [
                (max(old.start, low), high) for low, high in self.free if low <= old.start < high
            ]
        starts = {self._fit([part], size, end) for part in parts}
        found = sorted(start for start in starts if start is not None)
        return min(found, key=lambda start: self._last_use(start, start + size), default=None)

    def _last_use(self, start: int, stop: int) -> int:
        return max(
            (ref.step for old in self.used if old.start < stop and start < old.stop
             for ref in old.users), default=-1,
        )  # fmt: skip

    def _in_banks(self, low: int, high: int) -> list[tuple[int, int]]:
        bank = self.bank_bytes
        if not bank:
            return [(low, high)]
        edges = range(low - low % bank, high, bank)
        return [(max(low, edge), min(high, edge + bank)) for edge in edges]

    def _remove(self, start: int, stop: int) -> None:
        self.free = _without(self.free, start, stop)
        self.fresh = _without(self.fresh, start, stop)

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


def _without(parts: list[tuple[int, int]], start: int, stop: int) -> list[tuple[int, int]]:
    return [
        part
        for low, high in parts
        for part in ((low, min(high, start)), (max(low, stop), high))
        if part[0] < part[1]
    ]
