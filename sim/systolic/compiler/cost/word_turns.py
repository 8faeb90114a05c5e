"""Estimates of moves whose elements the array turns in words (`lower.word_ways`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from systolic.compiler.cost.arrangements import Estimate, Planner
from systolic.compiler.cost.engine_shares import (
    Drained,
    TileWork,
    drain_shares,
    least_ticks,
    shared_ticks,
    shares_of,
)
from systolic.compiler.cost.last_chip import LAST_CHIP
from systolic.compiler.cost.turns import carrier
from systolic.compiler.cost.word_relays import word_type
from systolic.compiler.ir.arrangement import Arrangement
from systolic.compiler.ir.dram_tensor import coalesced
from systolic.hw.datatypes import data_type
from systolic.hw.formulas.timing import load_reads, result_cycles
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, Copy
from systolic.isa.access import MAX_PAIRS, Pattern


@dataclass(frozen=True, slots=True)
class WordsTurned:
    """The words of a chip: so many elements of a move, and the type as which they are turned."""

    elements: int
    dtype: str

    def word(self, plan: Arrangement) -> int | None:
        """Return the factor whose indices are the elements of a word; None if it does not stay.

        It must stay on the address, and all other elements lie at multiples of words.
        """
        steps, sizes = plan.move.before.steps, plan.move.sizes
        found = next((n for n in plan.rest if steps[n] == 1 and sizes[n] == self.elements), None)
        apart = (step for n, step in enumerate(steps) if n != found and sizes[n] > 1)
        return None if any(step % self.elements for step in apart) else found

    def between(self, plan: Arrangement) -> tuple[int, ...]:
        """Return the columns of a tile that has been turned: the words of a turn side by side."""
        word = self.word(plan)
        assert word is not None
        return (*(n for n in plan.rest if n != word), *plan.rows_in, word)

    def reaches(self, plan: Arrangement) -> bool:
        """Return whether an access names the words that the array loads, and those it makes."""
        loaded = _pattern(plan, plan.cols_in, plan.rows_out)
        made = _pattern(plan, self.between(plan), plan.rows_in)
        return max(len(loaded), len(made)) <= MAX_PAIRS

    def ordered(self, plan: Arrangement) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the columns of a copy that puts elements in order, and those of copies apart.

        The factor comes last whose indices lie nearest to one another on both sides: where distance
        costs an engine cycles, that counts.
        """
        factors = [n for n in plan.cols_out if plan.move.sizes[n] > 1]
        few = max(0, len(factors) - MAX_PAIRS)
        apart = sorted(factors, key=lambda n: plan.move.sizes[n])[:few]
        together = [n for n in factors if n not in apart]
        sides = [_steps(plan, cols) for cols in (self.between(plan), plan.cols_out)]
        last = min(together, key=lambda n: max(steps[n] for steps in sides))
        return (*(n for n in together if n != last), last), tuple(apart)

    def ticks(self, planner: Planner, plan: Arrangement) -> int:
        """Return the ticks of the array, or of the engines if those take longer.

        An engine does all of its work on a tile, so a lone tile has two of them, one after another.
        """
        chip, array = planner.chip, planner.chip.pe_array
        rows, columns = plan.count(plan.rows_in), plan.count(plan.rows_out)
        high, wide = -(-rows // array.rows), -(-columns // array.cols)
        lines, columns = -(-rows // high), min(columns, array.cols)
        turns = plan.count(plan.batch) * plan.count(plan.rest) // self.elements * wide * high
        vectors = max(lines, min(array.min_vectors, columns))
        each = max(
            vectors * array.turn_cycles(self.dtype), load_reads(chip, lines, columns, self.dtype)
        )
        array_ticks = turns * each * chip.period("pe_array")
        ends = (result_cycles(chip, columns) + lines) * chip.period("pe_array")
        drains, orders = self._of_tile(planner, plan)
        tiles = planner.tiles(plan)
        if tiles == 1:
            return max(array_ticks, least_ticks(drains)) + least_ticks(orders) + ends
        return max(array_ticks, shared_ticks(tiles, drains, orders)) + ends

    def estimate(self, planner: Planner, plan: Arrangement, work: int) -> Estimate:
        """Return the estimate for tiles of words; work: the ticks between loads and stores."""
        found = planner.by_engine(plan, work)
        alone = sum(least_ticks(each) for each in self._of_tile(planner, plan))
        alone = max(0, alone - work // found.tiles) if found.tiles > 1 else 0
        return replace(found, alone=alone)

    def _of_tile(self, planner: Planner, plan: Arrangement) -> tuple[TileWork, ...]:
        """Return what each engine has to do to copy a tile's results out, and to order a tile."""
        chip, array = planner.chip, planner.chip.pe_array
        rows, columns = plan.count(plan.rows_in), plan.count(plan.rows_out)
        high, wide = -(-rows // array.rows), -(-columns // array.cols)
        turns = plan.count(plan.rest) // self.elements * wide * high
        turns = -(-turns * plan.count(plan.batch) // planner.tiles(plan))
        lines, columns = -(-rows // high), min(columns, array.cols)
        together, apart = self.ordered(plan)
        ordered = self._order(planner, plan, together)
        order = LAST_CHIP.of(_ordering, chip, ordered, plan.count(apart))
        drained = Drained(self.dtype, self.dtype, lines, columns, ((1, lines),))
        return LAST_CHIP.of(drain_shares, chip, drained, turns), order

    def _order(self, planner: Planner, plan: Arrangement, together: tuple[int, ...]) -> _Ordered:
        """Return the copy of some columns that puts them in order."""
        rows = min(plan.count(plan.rows_out), planner.chip.state_buffer.partitions)
        source, target = (
            _pattern(plan, cols, together) for cols in (self.between(plan), plan.cols_out)
        )
        return _Ordered(plan.move.dtype, rows, source, target)


class _Ordered(NamedTuple):
    """A copy that puts elements in order: their type, the rows, and the columns on both sides."""

    dtype: str
    rows: int
    source: Pattern
    target: Pattern


def words_turned(chip: Chip, dtype: str) -> WordsTurned | None:
    """Return the words in which elements of a type are turned; None if they gain nothing.

    Elements that the array takes need no cast, and to put a word's elements in order takes an
    engine as long as the copies that a word saves. So words are of elements that need a cast.
    """
    words = word_type(chip)
    if words is None or carrier(chip, dtype) == dtype:
        return None
    many = data_type(words).size_bytes // data_type(dtype).size_bytes
    return WordsTurned(many, words) if many > 1 else None


def _ordering(chip: Chip, lanes: _Ordered, times: int) -> TileWork:
    source, target = (
        Access(Buffer.STATE, lanes.dtype, 0, lanes.rows, 0, side)
        for side in (lanes.source, lanes.target)
    )
    return shares_of(chip, [(Copy(engine="", source=source, target=target), times)])


def _steps(plan: Arrangement, cols: tuple[int, ...]) -> dict[int, int]:
    """Return the distance from one index of each factor to the next in a tile of `cols`."""
    steps, step = dict[int, int](), 1
    for number in reversed(cols):
        steps[number] = step
        step *= plan.move.sizes[number]
    return steps


def _pattern(plan: Arrangement, cols: tuple[int, ...], together: tuple[int, ...]) -> Pattern:
    """Return how some columns lie in a tile whose columns are `cols`."""
    steps = _steps(plan, cols)
    return coalesced(tuple((steps[n], plan.move.sizes[n]) for n in together))
