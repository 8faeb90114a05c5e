"""Estimates of ways to move elements from DRAM to DRAM in tiles, in ticks.

Queues, engines and the array work at the same time, so the busiest of them counts, and beside it
the way of one tile through all of them. Not here: the choice of arrangements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from systolic.compiler.cost.dma import bundle_cycles, transpose_cycles, transposes_type
from systolic.compiler.cost.engines import (
    drain_engine,
    engine_cycles,
    in_best_words,
    lane_copy_engines,
)
from systolic.compiler.cost.turns import carrier, casts_beside, parts_turned, turned_as
from systolic.compiler.ir.arrangement import Arrangement
from systolic.compiler.ir.factors import FactorPlaces, Move
from systolic.hw.datatypes import data_type
from systolic.hw.formulas.dram import dram_rate
from systolic.hw.formulas.timing import dma_latency_cycles, load_reads, result_cycles
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, Copy
from systolic.isa.access import MAX_PAIRS
from systolic.workload.options import Options


def moving_queues(chip: Chip, tiles: int) -> int:
    """Return how many queues bring tiles: half of them, unless one tile comes and then goes.

    Where copies are spread one queue has all engines: a second one would halve the partitions of
    each, and meet the first at the port of the tile's bank.
    """
    if chip.dma.is_spread:
        return 1
    return chip.dma.useful_queues if tiles == 1 else max(1, chip.dma.useful_queues // 2)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Ticks of the queues' copies in and out and of the work between them, all tiles together.

    moved: of all queues for both directions, if each brings and stores; 0: none does. queues: how
    many there are then. shared: how many move each tile together.
    """

    inwards: int
    outwards: int
    work: int
    tiles: int
    latency: int
    moved: int = 0
    queues: int = 1
    shared: int = 1

    @property
    def ticks(self) -> int:
        """Return about how many ticks the tiles take: the busiest unit, and the first tile."""
        if self.tiles == 1:
            return self.inwards + self.work + self.outwards
        stages = self.inwards, self.work, self.outwards
        divided = max(stages) + (sum(stages) - max(stages)) // self.tiles
        return min(divided, self._both_ways() or divided) + 2 * self.latency

    def _both_ways(self) -> int:
        """Return about how many ticks it takes if every queue brings and stores; 0: none does.

        All queues begin with a load and end with a store, and some have a part of a tile more to
        move than others. The work on the last tile is hidden by no copy, or of all work the copies
        of one tile.
        """
        if self.moved == 0:
            return 0
        queues, parts = self.queues, self.tiles * self.shared
        moved = self.moved * -(-parts // queues) * queues // parts
        return max(moved + self.work // self.tiles, self.work + moved * queues // parts)


@dataclass(frozen=True, slots=True)
class _Side:
    """The rows and columns of tiles on one side of a move.

    sizes: of all factors, as they are moved on that side.
    """

    rows: tuple[int, ...]
    cols: tuple[int, ...]
    places: FactorPlaces
    sizes: tuple[int, ...]

    @property
    def columns(self) -> int:
        """Return the columns of a tile."""
        return math.prod(self.sizes[n] for n in self.cols)

    @property
    def accesses(self) -> int:
        """Return how many accesses reach a tile: each has so many pairs."""
        steps, sizes = self.places.steps, self.sizes
        pairs: list[int] = []
        before = 0
        for number in (*self.rows, *self.cols):
            if pairs and before == steps[number] * sizes[number]:
                pairs[-1] *= sizes[number]
            else:
                pairs.append(sizes[number])
            before = steps[number]
        return math.prod(sorted(pairs)[: max(0, len(pairs) - MAX_PAIRS)])

    def bands(self, lanes: int) -> int:
        """Return in how many bands rows are moved where tiles have so many: a copy has one step.

        A band ends with a tile, and where the distance from row to row changes.
        """
        count, steady, before = math.prod(self.sizes[n] for n in self.rows), 1, 0
        if count <= lanes:
            return 1
        for number in reversed(self.rows):
            if steady > 1 and self.places.steps[number] != before:
                break
            steady *= self.sizes[number]
            before = self.places.steps[number] * self.sizes[number]
        both = math.lcm(lanes, steady)
        return -(-count // lanes) - (-count // steady) + (-count // both)


@dataclass(frozen=True, slots=True)
class Planner:
    """The chip and the options for which arrangements are estimated."""

    chip: Chip
    options: Options

    def can_copy(self, dtype: str) -> bool:
        """Return whether an engine copies elements of a type within the state buffer."""
        access = Access(Buffer.STATE, dtype, 0, 1, 0, ((1, 1),))
        return bool(lane_copy_engines(self.chip, Copy(engine="", source=access, target=access)))

    def can_transpose(self, dtype: str) -> bool:
        """Return whether DMA transposes elements of a type while it brings them."""
        return transposes_type(self.chip, dtype)

    def tiles(self, plan: Arrangement) -> int:
        """Return how many tiles come: rows beyond the partitions are a tile of their own."""
        return plan.count(plan.batch) * self._tall(plan)

    def _tall(self, plan: Arrangement) -> int:
        return -(-plan.count(plan.rows_in) // self.chip.state_buffer.partitions)

    def shared(self, plan: Arrangement) -> int:
        """Return how many queues together move a tile: one, if there are tiles for all of them."""
        tiles = self.tiles(plan)
        queues = moving_queues(self.chip, tiles)
        return 1 if tiles > 2 * queues else queues

    def least_ticks(self, plan: Arrangement) -> int:
        """Return a lower limit of the arrangement's estimates, found quickly."""
        chip = self.chip
        tiles, queues = self.tiles(plan), moving_queues(chip, self.tiles(plan))
        copies = tiles * self.shared(plan) // queues
        return copies * dma_latency_cycles(chip) * chip.period("dma")

    def by_runs(self, plan: Arrangement, cols: Sequence[int]) -> Estimate:
        """Return the estimate for tiles that are stored as they were brought."""
        return self._estimate(plan, cols, cols, 0)

    def by_transposes(self, plan: Arrangement) -> Estimate:
        """Return the estimate for tiles that DMA turns as it brings them: rows are runs there."""
        chip, dma = self.chip, self.chip.dma
        size = plan.count(plan.cols_out) * data_type(plan.move.dtype).size_bytes
        lines = dma.partitions_per_cycle
        if dma.is_spread:
            lines = dma.most_engines(plan.count(plan.rows_in))
        rounds = -(-plan.count(plan.batch) * plan.count(plan.rows_in) // lines)
        copies = self.tiles(plan) * self.shared(plan)
        side = _Side(plan.rows_in, plan.cols_out, plan.move.before, plan.move.sizes)
        copies *= side.accesses
        inwards = copies * dma_latency_cycles(chip) + rounds * transpose_cycles(chip, size, lines)
        stored = self._estimate(plan, plan.cols_out, plan.cols_out, 0)
        queues = moving_queues(chip, stored.tiles)
        turned = inwards // queues * chip.period("dma")
        moved = (turned + stored.outwards) * queues // stored.queues if stored.moved else 0
        return replace(stored, inwards=turned, moved=moved)

    def by_engine(self, plan: Arrangement) -> Estimate:
        """Return the estimate for tiles whose columns an engine puts in order, lane by lane."""
        _, apart = plan.engine_columns()
        copies = self.tiles(plan) * plan.count(apart)
        each = [
            engine_cycles(self.chip, work.engine, work) * self.chip.period(work.engine)
            for work in self._engine_copies(plan)
        ]
        return self._estimate(
            plan, plan.cols_in, plan.cols_out, -(-copies // len(each)) * max(each)
        )

    def words(self, plan: Arrangement) -> list[str]:
        """Return the types as which engines copy the columns of tiles."""
        return list(dict.fromkeys(work.target.dtype for work in self._engine_copies(plan)))

    def _engine_copies(self, plan: Arrangement) -> list[Copy]:
        """Return about what each engine does to put columns of a tile in order."""
        dtype, rows = plan.move.dtype, plan.count(plan.rows_in) // self._tall(plan)
        together, _ = plan.engine_columns()
        count, run = plan.count(together), plan.run_beside()
        access = Access(Buffer.STATE, dtype, 0, rows, 0, ((1, count),))
        work = Copy(engine="", source=access, target=access)
        works = [replace(work, engine=name) for name in lane_copy_engines(self.chip, work)]
        if run == 1:
            return works
        apart = replace(access, pattern=((2 * run, count // run), (1, run)))
        return [in_best_words(self.chip, replace(each, source=apart)) for each in works]

    def turns(self, move: Move) -> int:
        """Return how often the array turns a move's elements: once, or each of their parts."""
        return max(1, parts_turned(self.chip, move.dtype))

    def least_by_array(self, move: Move) -> int:
        """Return the fewest ticks in which the array turns all elements, if it can."""
        chip = self.chip
        dtype = carrier(chip, turned_as(chip, move.dtype))
        if dtype is None:
            return 0
        vectors = -(-math.prod(move.sizes) // chip.pe_array.cols)
        turn = chip.pe_array.turn_cycles(dtype) * chip.period("pe_array")
        return self.turns(move) * vectors * turn

    def by_array(self, plan: Arrangement) -> Estimate:
        """Return the estimate for tiles that the array turns, matrix by matrix or part by part."""
        chip, given = self.chip, turned_as(self.chip, plan.move.dtype)
        dtype = carrier(chip, given)
        assert dtype is not None
        rows, cols = plan.count(plan.rows_in), plan.count(plan.rows_out)
        turns = plan.count(plan.batch) * plan.count(plan.rest) * self.turns(plan.move)
        each = max(rows * chip.pe_array.turn_cycles(dtype), load_reads(chip, rows, cols, dtype))
        sums = Access(Buffer.RESULT, data_type(dtype).accumulator, 0, cols, 0, ((1, rows),))
        name = drain_engine(chip, self.options)
        drain = Copy(
            engine=name,
            source=sums,
            target=Access(Buffer.STATE, given, 0, cols, 0, ((1, rows),)),
        )
        ticks = turns * max(
            each * chip.period("pe_array"), engine_cycles(chip, name, drain) * chip.period(name)
        )
        ticks += (result_cycles(chip, cols) + rows) * chip.period("pe_array")
        if dtype != given:
            columns = plan.count_brought(plan.cols_in) * self.turns(plan.move)
            casts = self.tiles(plan) * columns * chip.period(name)
            ticks = max(ticks, casts) if casts_beside(chip, given) else ticks + casts
        return self._estimate(plan, plan.cols_in, plan.cols_out, ticks)

    def _estimate(
        self, plan: Arrangement, cols_in: Sequence[int], cols_out: Sequence[int], work: int
    ) -> Estimate:
        chip, tiles = self.chip, self.tiles(plan)
        period, queues = chip.period("dma"), moving_queues(chip, tiles)
        size, sizes = data_type(plan.move.dtype).size_bytes, plan.move.sizes
        here = _Side(plan.rows_in, tuple(cols_in), plan.move.before, plan.brought_sizes)
        there = _Side(plan.rows_out, tuple(cols_out), plan.move.after, sizes)
        inwards = self._copies(plan, here, plan.run_in(cols_in), plan.move.spaced)
        outwards = self._copies(plan, there, plan.run_out(cols_out))
        rate = dram_rate(chip, queues)
        brought = math.prod(here.sizes) * plan.move.spaced * size // rate
        stored = math.prod(sizes) * size // rate
        moved, all_queues = 0, chip.dma.useful_queues
        if self._may_do_both(plan, cols_in, cols_out):
            bytes_moved = (math.prod(here.sizes) * plan.move.spaced + math.prod(sizes)) * size
            moved = max(
                (inwards + outwards) // all_queues, bytes_moved // dram_rate(chip, all_queues)
            )
        return Estimate(
            max(inwards // queues, brought) * period,
            max(outwards // queues, stored) * period,
            work,
            tiles,
            dma_latency_cycles(chip) * period,
            moved * period,
            all_queues,
            self.shared(plan),
        )

    def _may_do_both(
        self, plan: Arrangement, cols_in: Sequence[int], cols_out: Sequence[int]
    ) -> bool:
        """Return whether each queue brings and stores tiles, if that is better.

        Where DRAM has rows to open, no run may be shorter than a burst.
        """
        parts = self.chip.dram.organisation
        if self.chip.dma.useful_queues == 1:
            return False
        run = min(plan.run_in(cols_in), plan.run_out(cols_out))
        return parts is None or run * data_type(plan.move.dtype).size_bytes >= parts.burst_bytes

    def _copies(self, plan: Arrangement, side: _Side, run: int, spaced: int = 1) -> int:
        """Return the cycles of the queues' copies of all tiles in one direction.

        run: how many elements lie side by side. spaced: elements are moved for each of them.
        """
        chip, tiles = self.chip, self.tiles(plan)
        size = run * spaced * data_type(plan.move.dtype).size_bytes
        lines = chip.dma.partitions_per_cycle if run == side.columns else 1
        if chip.dma.is_spread:
            lines = chip.dma.most_engines(plan.count(side.rows))
        runs = math.prod(side.sizes) // run
        copies = tiles * self.shared(plan) * side.accesses
        rounds, tall = -(-runs // lines), self._tall(plan)
        bands = side.bands(chip.state_buffer.partitions)
        copies = copies * bands // tall
        if chip.dma.is_spread:  # a band of few rows has few engines
            rounds = rounds * bands // tall
        return copies * dma_latency_cycles(chip) + rounds * bundle_cycles(chip, size, lines)
