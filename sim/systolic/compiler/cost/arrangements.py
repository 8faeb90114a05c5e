"""Estimates of ways to move elements from DRAM to DRAM in tiles, in ticks.

Queues, engines and the array work at the same time, so the busiest of them counts, and beside it
the way of one tile through all of them. Not here: the choice of arrangements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from systolic.compiler.cost.dma import bundle_cycles, transpose_cycles, transposes_type
from systolic.compiler.cost.engines import drain_engine, engine_cycles, lane_copy_engines
from systolic.compiler.cost.turns import BYTES, bytes_turned, carrier
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
    """Ticks of the queues' copies in and out and of the work between them, all tiles together."""

    inwards: int
    outwards: int
    work: int
    tiles: int
    latency: int

    @property
    def ticks(self) -> int:
        """Return about how many ticks the tiles take: the busiest unit, and the first tile."""
        if self.tiles == 1:
            return self.inwards + self.work + self.outwards
        stages = self.inwards, self.work, self.outwards
        return max(stages) + (sum(stages) - max(stages)) // self.tiles + 2 * self.latency


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
        copies *= _accesses(plan, plan.rows_in, plan.cols_out, plan.move.before)
        inwards = copies * dma_latency_cycles(chip) + rounds * transpose_cycles(chip, size, lines)
        stored = self._estimate(plan, plan.cols_out, plan.cols_out, 0)
        queues = moving_queues(chip, stored.tiles)
        return replace(stored, inwards=inwards // queues * chip.period("dma"))

    def by_engine(self, plan: Arrangement) -> Estimate:
        """Return the estimate for tiles whose columns an engine puts in order, lane by lane."""
        together, apart = plan.engine_columns()
        copies = self.tiles(plan) * plan.count(apart)
        size, rows = plan.move.dtype, plan.count(plan.rows_in) // self._tall(plan)
        pattern = ((1, plan.count(together)),)
        access = Access(Buffer.STATE, size, 0, rows, 0, pattern)
        work = Copy(engine="", source=access, target=access)
        each = [
            engine_cycles(self.chip, name, work) * self.chip.period(name)
            for name in lane_copy_engines(self.chip, work)
        ]
        return self._estimate(
            plan, plan.cols_in, plan.cols_out, -(-copies // len(each)) * max(each)
        )

    def turns(self, move: Move) -> int:
        """Return how often the array turns a move's elements: once, or each of their bytes."""
        return max(1, bytes_turned(self.chip, move.dtype))

    def least_by_array(self, move: Move) -> int:
        """Return the fewest ticks in which the array turns all elements, if it can."""
        chip = self.chip
        dtype = carrier(chip, BYTES if bytes_turned(chip, move.dtype) else move.dtype)
        if dtype is None:
            return 0
        vectors = -(-math.prod(move.sizes) // chip.pe_array.cols)
        turn = chip.pe_array.turn_cycles(dtype) * chip.period("pe_array")
        return self.turns(move) * vectors * turn

    def by_array(self, plan: Arrangement) -> Estimate:
        """Return the estimate for tiles that the array turns, matrix by matrix or byte by byte."""
        chip, size = self.chip, bytes_turned(self.chip, plan.move.dtype)
        given = BYTES if size else plan.move.dtype
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
            columns = plan.count(plan.cols_in) * plan.move.spaced * self.turns(plan.move)
            ticks += self.tiles(plan) * columns * chip.period(name)
        return self._estimate(plan, plan.cols_in, plan.cols_out, ticks)

    def _estimate(
        self, plan: Arrangement, cols_in: Sequence[int], cols_out: Sequence[int], work: int
    ) -> Estimate:
        chip, tiles = self.chip, self.tiles(plan)
        period, queues = chip.period("dma"), moving_queues(chip, tiles)
        inwards = self._copies(
            plan,
            plan.rows_in,
            cols_in,
            plan.move.before,
            plan.run_in(cols_in),
            spaced=plan.move.spaced,
        )
        outwards = self._copies(
            plan, plan.rows_out, cols_out, plan.move.after, plan.run_out(cols_out)
        )
        moved = math.prod(plan.move.sizes) * data_type(plan.move.dtype).size_bytes
        least = moved // dram_rate(chip, queues)
        return Estimate(
            max(inwards // queues, least) * period,
            max(outwards // queues, least) * period,
            work,
            tiles,
            dma_latency_cycles(chip) * period,
        )

    def _copies(
        self,
        plan: Arrangement,
        rows: Sequence[int],
        cols: Sequence[int],
        places: FactorPlaces,
        run: int,
        *,
        spaced: int = 1,
    ) -> int:
        """Return the cycles of the queues' copies of all tiles in one direction.

        spaced: elements are moved for each that is wanted.
        """
        chip, tiles = self.chip, self.tiles(plan)
        size = run * spaced * data_type(plan.move.dtype).size_bytes
        lines = chip.dma.partitions_per_cycle if run == plan.count(cols) else 1
        if chip.dma.is_spread:
            lines = chip.dma.most_engines(plan.count(rows))
        runs = math.prod(plan.move.sizes) // run
        copies = tiles * self.shared(plan) * _accesses(plan, rows, cols, places)
        return copies * dma_latency_cycles(chip) + -(-runs // lines) * bundle_cycles(
            chip, size, lines
        )


def _accesses(
    plan: Arrangement, rows: Sequence[int], cols: Sequence[int], places: FactorPlaces
) -> int:
    """Return how many accesses reach a tile: each has so many pairs."""
    steps, sizes = places.steps, plan.move.sizes
    pairs: list[int] = []
    before = 0
    for number in (*rows, *cols):
        if pairs and before == steps[number] * sizes[number]:
            pairs[-1] *= sizes[number]
        else:
            pairs.append(sizes[number])
        before = steps[number]
    return math.prod(sorted(pairs)[: max(0, len(pairs) - MAX_PAIRS)])
