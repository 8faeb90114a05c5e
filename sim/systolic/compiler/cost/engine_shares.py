"""How engines share the work on tiles: each piece of work on a tile is for one of them.

Of all choices for a tile that one is taken with which the busiest engine has the least to do.
Engines that have a buffer in turns count as one there, beside what each has to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import NamedTuple

from systolic.compiler.cost.engines import engine_cycles, lane_copy_engines
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, Copy
from systolic.isa.access import Pattern

MOST_COUNTED = 12
"""The most tiles that an estimate counts one by one; of more, a part of them."""
TileWork = Mapping[str, Mapping[str, int]]
"""Work on a tile: by each engine that can do it, the ticks of that engine, and of each exclusion of
engines, by its number."""


def shares_of(chip: Chip, copies: Sequence[tuple[Copy, int]]) -> TileWork:
    """Return what each engine that may execute copies has to do for so many of each.

    Copies count element by element: in which words they go depends on how their columns lie. Of
    copies that only their parts can be made of, any engine is to take some ("").
    """
    found: dict[str, Mapping[str, int]] = {}
    (first, _), *_ = copies
    touched = {first.source.buffer, first.target.buffer}
    for name in lane_copy_engines(chip, first):
        ticks = chip.period(name) * sum(
            times * engine_cycles(chip, name, replace(copy, engine=name)) for copy, times in copies
        )
        in_turns = (
            str(number)
            for number, each in enumerate(chip.exclusions)
            if name in each.engines and each.buffer in touched
        )
        found[name] = dict.fromkeys((name, *in_turns), ticks)
    return found or {"": {}}


class Drained(NamedTuple):
    """The result of a turn that is copied out: the types of elements as turned, and as made.

    words: of each of the columns; pattern: how they lie in a tile.
    """

    turned: str
    made: str
    words: int
    columns: int
    pattern: Pattern


def drain_shares(chip: Chip, result: Drained, times: int) -> TileWork:
    """Return what engines have to do to copy out so many results of turns."""
    passes = chip.pe_array.turns_by_passing(result.turned)
    dtype = result.turned if passes else data_type(result.turned).accumulator
    sums = Access(Buffer.RESULT, dtype, 0, result.columns, 0, ((1, result.words),))
    target = Access(Buffer.STATE, result.made, 0, result.columns, 0, result.pattern)
    return shares_of(chip, [(Copy(engine="", source=sums, target=target), times)])


def cast_shares(chip: Chip, given: str, turned: str, rows: int, columns: int) -> TileWork:
    """Return what engines have to do to cast columns of a tile."""
    held = Access(Buffer.STATE, given, 0, rows, 0, ((1, columns),))
    return shares_of(chip, [(Copy(engine="", source=held, target=replace(held, dtype=turned)), 1)])


def least_ticks(work: TileWork) -> int:
    """Return the ticks of the engine that takes the fewest."""
    return min(max(ticks.values(), default=0) for ticks in work.values())


def shared_ticks(tiles: int, *works: TileWork) -> int:
    """Return about when engines are done with so many tiles; works: on each, as of `shares_of`."""
    shares = TilesShared()
    for _ in range(few := min(tiles, MOST_COUNTED)):
        shares.give(*works)
    return shares.ticks * tiles // few


@dataclass(slots=True)
class TilesShared:
    """What each engine, and each exclusion of engines, has been given so far, in ticks."""

    given: dict[str, int] = field(default_factory=dict)

    @property
    def ticks(self) -> int:
        """Return what the busiest has to do."""
        return max(self.given.values(), default=0)

    def give(self, *works: TileWork) -> tuple[str, ...]:
        """Return the engine of each piece of work on a tile; works: as of `shares_of`."""
        best = min(product(*works), key=lambda names: self._after(works, names))
        self.given = self._with(works, best)
        return best

    def _after(self, works: Sequence[TileWork], names: Sequence[str]) -> list[int]:
        return sorted(self._with(works, names).values(), reverse=True)

    def _with(self, works: Sequence[TileWork], names: Sequence[str]) -> dict[str, int]:
        after = dict(self.given)
        for work, name in zip(works, names, strict=True):
            for each, ticks in work[name].items():
                after[each] = after.get(each, 0) + ticks
        return after
