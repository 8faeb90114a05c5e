"""How fast a DMA queue moves bytes: an amount per cycle that repeats, summed in closed form.

While as many shares of DRAM and of a DMA engine are held as now, what a queue gets in a cycle
depends only on the number of the cycle, and repeats. So the bytes of any stretch, and the end of
any number of equal descriptors, cost a division and a look in a table.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Hashable
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

FOREVER = (1 << 62) - 1
ALWAYS = 1, 1
"""(first, of): bytes move in the first cycles of every `of` cycles; here in each."""


class Orbit:
    """Equal descriptors one after another from some cycle on, each fetched, and moved.

    Where a descriptor begins in the pace decides how long it takes and where the next begins, so
    after a few descriptors the same lengths come again and again.

    ends: cycles after 0, 1, 2, ... descriptors; busy: how many of them moved bytes; from
    descriptor `start` on all that follows `start` in the lists repeats.
    """

    def __init__(self, ends: list[int], busy: list[int], start: int) -> None:
        self._ends, self._busy, self._start = ends, busy, start
        self._loop = len(ends) - 1 - start
        self._loop_cycles = ends[-1] - ends[start]

    def cycles(self, count: int) -> int:
        """Return the cycles that many descriptors take."""
        return self._at(self._ends, count)

    def ends(self, count: int) -> npt.NDArray[np.int64]:
        """Return the cycles that 0, 1, ... up to that many descriptors take, int64."""
        numbers, table = np.arange(count + 1), np.array(self._ends, np.int64)
        beyond = np.maximum(numbers - self._start, 0)
        turns = np.where(numbers < len(table), 0, beyond // self._loop)
        ends: npt.NDArray[np.int64] = table[numbers - turns * self._loop]
        ends += turns * self._loop_cycles
        return ends

    def busy(self, count: int) -> int:
        """Return the cycles in which bytes of that many descriptors move."""
        return self._at(self._busy, count)

    def whole(self, cycles: int) -> int:
        """Return how many descriptors end within that many cycles."""
        if cycles < self._ends[-1]:
            return bisect_right(self._ends, cycles) - 1
        turns, rest = divmod(cycles - self._ends[self._start], self._loop_cycles)
        place = bisect_right(self._ends, self._ends[self._start] + rest) - 1
        return place + turns * self._loop

    def _at(self, table: list[int], count: int) -> int:
        if count < len(table):
            return table[count]
        turns, rest = divmod(count - self._start, self._loop)
        return table[self._start + rest] + turns * (table[-1] - table[self._start])


class PacedDescriptor(NamedTuple):
    """A descriptor: cycles of its fetch, bytes, and whether they move while it is fetched.

    If so it takes the longer of the two, else their sum.
    """

    fetch: int
    size: int
    overlaps: bool


class BytePace:
    """Bytes by cycle: in cycle t amounts[t mod their number]. Not all are 0."""

    def __init__(self, amounts: tuple[int, ...]) -> None:
        self.amounts, self.phases = amounts, len(amounts)  # they repeat after as many cycles
        self.least, self.most = min(amounts), max(amounts)
        self._sums = [0, *accumulate(amounts)]
        self._counts = [0, *accumulate(amount > 0 for amount in amounts)]
        self._orbits: dict[tuple[PacedDescriptor, int], Orbit] = {}
        self._narrower: dict[int, BytePace] = {}

    def at_most(self, limit: int) -> BytePace:
        """Return this pace with no more than `limit` bytes in a cycle."""
        if self.most <= limit:
            return self
        if limit not in self._narrower:
            self._narrower[limit] = pace_of(tuple(min(amount, limit) for amount in self.amounts))
        return self._narrower[limit]

    def amount(self, cycle: int) -> int:
        """Return the bytes of one cycle."""
        return self.amounts[cycle % len(self.amounts)]

    def moved(self, cycle: int, cycles: int) -> int:
        """Return the bytes of `cycles` cycles from `cycle` on."""
        return self._until(self._sums, cycle + cycles) - self._until(self._sums, cycle)

    def busy(self, cycle: int, cycles: int) -> int:
        """Return in how many of `cycles` cycles from `cycle` on bytes move."""
        return self._until(self._counts, cycle + cycles) - self._until(self._counts, cycle)

    def cycles(self, cycle: int, size: int) -> int:
        """Return the cycles from `cycle` to the end of that in which the last of `size` moves."""
        wanted = self._until(self._sums, cycle) + size
        turns, rest = divmod(wanted - 1, self._sums[-1])
        return turns * len(self.amounts) + bisect_left(self._sums, rest + 1) - cycle

    def alike(self, cycle: int) -> int:
        """Return for how many cycles from `cycle` on bytes move as in `cycle`, or none as in it."""
        if self._counts[-1] == len(self.amounts):
            return FOREVER
        moves = self.amount(cycle) > 0
        return next(n for n in range(1, FOREVER) if (self.amount(cycle + n) > 0) != moves)

    def orbit(self, piece: PacedDescriptor, cycle: int) -> Orbit:
        """Return descriptors like `piece` one after another, the first begun in `cycle`."""
        key = piece, cycle % len(self.amounts)
        found = self._orbits.get(key)
        if found is None:
            found = self._orbits[key] = self._make_orbit(*key)
        return found

    def _make_orbit(self, piece: PacedDescriptor, phase: int) -> Orbit:
        ends, busy, seen, at = [0], [0], {phase: 0}, phase
        while True:
            first = at if piece.overlaps else at + piece.fetch
            moving = self.cycles(first, piece.size)
            busy.append(busy[-1] + self.busy(first, moving))
            at = max(first + moving, at + piece.fetch)
            ends.append(at - phase)
            start = seen.setdefault(at % len(self.amounts), len(ends) - 1)
            if start < len(ends) - 1:
                return Orbit(ends, busy, start)

    def _until(self, table: list[int], cycle: int) -> int:
        turns, rest = divmod(cycle, len(self.amounts))
        return turns * table[-1] + table[rest]


class SteadyPace(BytePace):
    """The same bytes in every cycle, as most copies have them: all sums are products."""

    def amount(self, cycle: int) -> int:
        """Return the bytes of one cycle."""
        return self.most

    def moved(self, cycle: int, cycles: int) -> int:
        """Return the bytes of `cycles` cycles from `cycle` on."""
        return cycles * self.most

    def busy(self, cycle: int, cycles: int) -> int:
        """Return in how many of `cycles` cycles from `cycle` on bytes move."""
        return cycles

    def cycles(self, cycle: int, size: int) -> int:
        """Return the cycles from `cycle` to the end of that in which the last of `size` moves."""
        return -(-size // self.most)

    def alike(self, cycle: int) -> int:
        """Return for how many cycles from `cycle` on bytes move as in `cycle`: always."""
        return FOREVER


def pace_of(amounts: tuple[int, ...]) -> BytePace:
    """Return the pace that has these bytes in cycles 0, 1, ... and then again."""
    return steady_pace(amounts[0]) if len(set(amounts)) == 1 else BytePace(amounts)


@lru_cache(maxsize=4096)
def steady_pace(rate: int) -> SteadyPace:
    """Return the pace that is `rate` in every cycle."""
    return SteadyPace((rate,))


@lru_cache(maxsize=4096)
def resting_pace(rate: int, working: tuple[int, int]) -> BytePace:
    """Return the pace that is `rate` in the first cycles of (first, of), and 0 in the others."""
    first, of = working
    return BytePace((rate,) * first + (0,) * (of - first))


class HeldShares(NamedTuple):
    """What a copy holds of a bandwidth of `total` bytes per cycle that is dealt out in `shares`.

    Shares first <= number < first + held; 2 are held of DRAM by a copy from DRAM to DRAM.
    """

    total: int
    first: int = 0
    held: int = 1
    shares: int = 1

    def amounts(self, cycle: int) -> list[int]:
        """Return the bytes of each share held in a cycle."""
        least, over = divmod(self.total, self.shares)
        return [
            least + ((self.first + k - cycle * over) % self.shares < over) for k in range(self.held)
        ]


@lru_cache(maxsize=4096)
def shared_pace(
    engine: HeldShares,
    dram: HeldShares | None,
    engines: int = 1,
    working: tuple[int, int] = ALWAYS,
) -> BytePace:
    """Return the pace of a copy that has these parts of its DMA engine and of DRAM.

    engines: how many at once; it has the same part of each. The pace of a copy from DRAM to
    DRAM counts every byte twice. working: (first, of), as `ALWAYS`.
    """
    first, of = working
    cycles = range(math.lcm(engine.shares, dram.shares if dram else 1, of))
    amounts = tuple(
        _amount(engine, dram, cycle, engines) if cycle % of < first else 0 for cycle in cycles
    )
    return pace_of(amounts)


def _amount(engine: HeldShares, dram: HeldShares | None, cycle: int, engines: int) -> int:
    (own,) = engine.amounts(cycle)
    own *= engines
    if dram is None:
        return own
    got = dram.amounts(cycle)
    if dram.held > 1 and dram.total < dram.shares:
        return sum(got)  # the two may never come in one cycle
    return dram.held * min(own, *got)


class SharedRate(NamedTuple):
    """Parts of a DMA engine and of DRAM that a copy has, whatever number of engines serves it.

    working: (first, of): bytes move in the first cycles of every `of`; not in all where a matrix is
    turned.
    """

    engine: HeldShares
    dram: HeldShares | None
    working: tuple[int, int] = ALWAYS

    @property
    def phases(self) -> int:
        """Return after how many cycles every pace at this rate repeats."""
        return math.lcm(self.engine.shares, self.dram.shares if self.dram else 1, self.working[1])

    def pace(self, engines: int) -> BytePace:
        """Return the pace of what `engines` engines move side by side."""
        return shared_pace(self.engine, self.dram, engines, self.working)


class BestRate(NamedTuple):
    """A rate that a copy never exceeds: its engine's own, and DRAM's if it holds shares of it.

    total: of several cores the least of what it holds a share of. working: bytes move in the first
    of so many cycles.
    """

    own: int
    total: int
    held: int
    working: tuple[int, int] = ALWAYS

    @property
    def phases(self) -> int:
        """Return after how many cycles every pace at this rate repeats."""
        return self.working[1]

    def pace(self, engines: int) -> BytePace:
        """Return the pace of what `engines` engines move side by side."""
        own = self.own * engines
        best = best_pace(own, self.total, self.held) if self.held else steady_pace(own)
        return best if self.working == ALWAYS else resting_pace(best.amount(0), self.working)


class CopyRate(Hashable, Protocol):
    """What a copy moves at: its paces by how many DMA engines serve it."""

    @property
    def phases(self) -> int:
        """Return after how many cycles every pace at this rate repeats."""

    def pace(self, engines: int) -> BytePace:
        """Return the pace of what `engines` engines move side by side."""


@lru_cache(maxsize=4096)
def best_pace(own: int, total: int, held: int) -> BytePace:
    """Return a pace that a copy never exceeds, however few share DRAM with it."""
    if held == 1:
        return steady_pace(min(own, total))
    return steady_pace(max(1, 2 * min(own, total // 2)))
