"""Estimates of ways to move elements from DRAM to DRAM in tiles, in ticks.

Queues, engines and the array work at the same time, so the busiest of them counts, and beside it
the way of one tile through all of them. Not here: the choice of arrangements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from systolic.compiler.cost.dma import (
    beside_cycles,
    bundle_cycles,
    queues_of_tile,
    run_bytes,
    shares_help,
    transpose_cycles,
    transposes_type,
)
from systolic.compiler.cost.dram import Streams, burst_time, in_turn_cycles, scattered_cycles
from systolic.compiler.cost.engines import (
    drain_engine,
    engine_cycles,
    in_best_words,
    lane_copy_engines,
)
from systolic.compiler.cost.last_chip import LAST_CHIP
from systolic.compiler.cost.turns import (
    carrier,
    cast_ticks,
    casts_beside,
    parts_turned,
    turned_as,
    turns_copied_together,
)
from systolic.compiler.ir.arrangement import Arrangement
from systolic.compiler.ir.dram_tensor import coalesced
from systolic.compiler.ir.factors import FactorPlaces, Move
from systolic.hw.datatypes import data_type
from systolic.hw.formulas.dram import dram_rate, run_cycles
from systolic.hw.formulas.timing import dma_latency_cycles, load_reads, result_cycles
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, Copy
from systolic.isa.access import MAX_PAIRS, Pattern
from systolic.workload.options import Options

MOST_COUNTED = 64
"""The most copies of engines that an estimate counts one by one; of more, a part of them."""

ONE_BY_ONE = 1.03
"""How many times the estimate of two tiles that all queues move one after another counts.

Queues that move one tile together wait together. Of two moves on multi_clock_128x128 one with 0.2 %
less by estimate takes 5 % longer, and one with 3.5 % less takes 1.5 % less.
"""


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
    many there are then. shared: how many move each tile together. bytes_pass: until DRAM and the
    DMA engines, which both directions share, have passed all bytes. ends: how many times as
    many of them bring the first tile, and store the last one, where they are otherwise idle then.
    channels: for how long the busiest channels of DRAM have bursts of both directions; 0: it has
    none, or that is not known.
    """

    inwards: int
    outwards: int
    work: int
    tiles: int
    latency: int
    moved: int = 0
    queues: int = 1
    shared: int = 1
    bytes_pass: int = 0
    ends: int = 1
    channels: int = 0

    @property
    def ticks(self) -> int:
        """Return about how many ticks the tiles take: the busiest unit, and the first tile."""
        if self.tiles == 1:
            return self.inwards + self.work + self.outwards
        if self.tiles == 2 and self.shared == self.queues > 1:
            return round(self._one_by_one() * ONE_BY_ONE)
        stages = self.inwards, self.work, self.outwards
        busiest = max(*stages, self.bytes_pass)
        alone = sum(stages) - busiest
        if busiest == self.work:
            alone //= self.ends
        divided = busiest + max(0, alone) // self.tiles
        return min(divided, self._both_ways() or divided) + 2 * self.latency

    def _one_by_one(self) -> int:
        """Return about how many ticks two tiles take if all queues move each of them.

        The second one comes while there is work on the first one, which goes while there is work
        on the second one.
        """
        both = self.inwards, self.outwards
        return (sum(both) + sum(max(moved, self.work) for moved in both)) // 2 + 2 * self.latency

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


def shared_out(copies: int, each: Sequence[int]) -> int:
    """Return when `copies` equal copies are done; each: the ticks of every engine for one.

    Of each copy the engine takes it that is done first.
    """
    free = [0] * len(each)
    for _ in range(few := min(copies, MOST_COUNTED)):
        first = min(range(len(each)), key=lambda n: free[n] + each[n])
        free[first] += each[first]
    return max(free) * copies // max(1, few)


def _columns_pattern(
    plan: Arrangement, cols: Sequence[int], sizes: Sequence[int], together: Sequence[int]
) -> Pattern:
    """Return how some columns lie in a tile of `cols`; sizes: of all factors in that tile."""
    steps, step = dict[int, int](), 1
    for number in reversed(cols):
        steps[number] = step
        step *= sizes[number]
    return coalesced(tuple((steps[n], plan.move.sizes[n]) for n in together))


class EngineCopy(NamedTuple):
    """A copy within lanes, without its places: how many rows it has, and how their columns lie."""

    dtype: str
    rows: int
    source: Pattern
    target: Pattern


def _on_each_engine(
    chip: Chip, dtype: str, rows: int, source: Pattern, target: Pattern
) -> list[Copy]:
    """Return a copy within lanes on each engine that may execute it, in its best words."""
    out_of, into = (Access(Buffer.STATE, dtype, 0, rows, 0, side) for side in (source, target))
    work = Copy(engine="", source=out_of, target=into)
    works = [replace(work, engine=name) for name in lane_copy_engines(chip, work)]
    return [in_best_words(chip, each) for each in works]


def _engine_ticks(
    chip: Chip, dtype: str, rows: int, source: Pattern, target: Pattern
) -> tuple[int, ...]:
    """Return the ticks of each engine that may execute a copy within lanes."""
    works = _on_each_engine(chip, dtype, rows, source, target)
    return tuple(engine_cycles(chip, e.engine, e) * chip.period(e.engine) for e in works)


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
        """Return how many accesses reach a tile: an access has few pairs."""
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

    def access(self, dtype: str, spaced: int) -> Access:
        """Return the first tile as it lies in DRAM, row by row; spaced: elements for each."""
        steps, sizes = self.places.steps, self.sizes
        pairs = [(steps[n], sizes[n]) for n in (*self.rows, *self.cols)]
        pairs = [pair for pair in (*pairs, (1, spaced)) if pair[1] > 1]
        return Access(Buffer.DRAM, dtype, 0, 1, 0, coalesced(tuple(pairs) or ((1, 1),)))

    def bands(self, lanes: int) -> int:
        """Return in how many bands rows are moved if tiles have `lanes`: a copy has one step.

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
    """The chip and the options for which arrangements are estimated.

    by_address: where tiles lie in the channels and banks of DRAM counts as well. Such estimates are
    no less than the others, and take longer to find. alone: nothing but the move goes on, so that
    tiles may be cut finely for its stages to overlap. on_chip: a lone tile lies on the chip. What
    is cast, turned and copied out overlaps in part only then, so each turn counts with a copy of
    its own.
    """

    chip: Chip
    options: Options
    by_address: bool = False
    alone: bool = False
    on_chip: bool = False

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
        """Return how many queues together move a tile: one, if there are tiles for all of them.

        Of two tiles that the array turns one after another all queues move the first one first.
        Where DRAM has rows to open, further queues at once would close one another's.
        """
        tiles = self.tiles(plan)
        queues = self._queues(plan)
        run = max(plan.run_in(plan.cols_in), plan.run_out(plan.cols_out))
        size = run * data_type(plan.move.dtype).size_bytes
        return 1 if tiles > 2 * queues else min(queues, queues_of_tile(self.chip, size))

    def _queues(self, plan: Arrangement) -> int:
        """Return how many queues bring tiles: all, if they share each of two that are turned."""
        chip, tiles = self.chip, self.tiles(plan)
        turned = plan.rows_in != plan.rows_out
        if tiles == 2 and turned and chip.dram.organisation is None and not chip.dma.is_spread:
            return chip.dma.useful_queues
        return moving_queues(chip, tiles)

    def least_ticks(self, plan: Arrangement) -> int:
        """Return a lower limit of the arrangement's estimates, found quickly."""
        chip, tiles = self.chip, self.tiles(plan)
        copies = tiles * self.shared(plan) // self._queues(plan)
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

    def engine_work(self, plan: Arrangement) -> int:
        """Return the ticks in which engines put the columns of all tiles in order."""
        together, apart = self.engine_columns(plan)
        copies = self.tiles(plan) * plan.count(apart)
        return shared_out(copies, self._engine_ticks(plan, together))

    def by_engine(self, plan: Arrangement, work: int) -> Estimate:
        """Return the estimate for tiles whose columns engines put in order; work: their ticks."""
        return self._estimate(plan, plan.cols_in, plan.cols_out, work)

    def engine_columns(self, plan: Arrangement) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the columns of one engine copy, and the digits with a copy for each value.

        Where engines are slower if elements lie far apart, the factor comes last whose indices lie
        near one another before and after.
        """
        together, apart = plan.engine_columns()
        rates = (rate for engine in self.chip.lane_engines.values() for rate in engine.rates)
        if all(rate.stride_bytes is None for rate in rates):
            return together, apart
        orders = [together, *((*(n for n in together if n != last), last) for last in together)]
        copies = self.tiles(plan) * plan.count(apart)
        ticks = [self._engine_ticks(plan, order) for order in orders]
        best = min(range(len(orders)), key=lambda n: (shared_out(copies, ticks[n]), sum(ticks[n])))
        return orders[best], apart

    def words(self, plan: Arrangement) -> list[str]:
        """Return the types as which engines copy the columns of tiles."""
        copy = self.engine_copy(plan, self.engine_columns(plan)[0])
        works = _on_each_engine(self.chip, *copy)
        return list(dict.fromkeys(work.target.dtype for work in works))

    def _engine_ticks(self, plan: Arrangement, together: tuple[int, ...]) -> tuple[int, ...]:
        """Return the ticks of each engine for one copy."""
        return LAST_CHIP.of(_engine_ticks, self.chip, *self.engine_copy(plan, together))

    def engine_copy(self, plan: Arrangement, together: tuple[int, ...]) -> EngineCopy:
        """Return what an engine does to put columns of a tile in order, but for their places.

        On the chip a row has the columns of all matrices whose index lies within its order.
        """
        come, go = plan.brought, plan.cols_out
        if self.on_chip:
            come = tuple(n for n in range(len(plan.move.sizes)) if n not in plan.rows_in)
            go = tuple(n for n in plan.move.order if n not in plan.rows_out)
        sizes = (*plan.brought_sizes, plan.move.spaced)
        brought = _columns_pattern(plan, come, sizes, together)
        stored = _columns_pattern(plan, go, plan.move.sizes, together)
        rows = plan.count(plan.rows_in) // self._tall(plan)
        return EngineCopy(plan.move.dtype, rows, brought, stored)

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

    def array_work(self, plan: Arrangement) -> int:
        """Return the ticks in which the array turns all tiles, matrix by matrix or part by part."""
        chip, given = self.chip, turned_as(self.chip, plan.move.dtype)
        dtype = carrier(chip, given)
        assert dtype is not None
        rows, cols = plan.count(plan.rows_in), plan.count(plan.rows_out)
        high, wide = (-(-rows // chip.pe_array.rows), -(-cols // chip.pe_array.cols))
        turns = plan.count(plan.batch) * plan.count(plan.rest) * self.turns(plan.move) * wide
        lines, columns = -(-rows // high), min(cols, chip.pe_array.cols)
        each = high * max(
            lines * chip.pe_array.turn_cycles(dtype), load_reads(chip, lines, columns, dtype)
        )
        many = self._copied_together(plan, dtype, lines, columns) if high == wide == 1 else 1
        pattern = ((1, rows * many),)
        sums = Access(Buffer.RESULT, data_type(dtype).accumulator, 0, columns, 0, pattern)
        name, made = drain_engine(chip, self.options), self._turned_pattern(plan, given, many)
        drain = Copy(
            engine=name,
            source=sums,
            target=Access(Buffer.STATE, given, 0, columns, 0, made),
        )
        drained = engine_cycles(chip, name, drain) * chip.period(name)
        ends = (result_cycles(chip, columns) + lines) * chip.period("pe_array")
        ticks = -(-turns // many) * max(many * each * chip.period("pe_array"), drained)
        ticks += ends
        if dtype != given:
            columns, tiles = (
                plan.count_brought(plan.cols_in) * self.turns(plan.move),
                self.tiles(plan),
            )
            casts, one_engine = cast_ticks(chip, given, columns * tiles)
            if casts_beside(chip, given):
                ticks = max(ticks, casts)
            else:
                ticks = max(ticks, casts) + min(ticks, casts) // (1 if one_engine else tiles)
        return ticks

    def by_array(self, plan: Arrangement, work: int) -> Estimate:
        """Return the estimate for tiles that the array turns; work: the ticks of that."""
        found = self._estimate(plan, plan.cols_in, plan.cols_out, work)
        return replace(found, ends=2) if shares_help(self.chip) else found

    def can_reach(self, plan: Arrangement) -> bool:
        """Return whether an access names the columns that the array loads, and those it makes."""
        sizes = (*plan.brought_sizes, plan.move.spaced)
        loaded = _columns_pattern(plan, plan.brought, sizes, plan.rows_out)
        made = _columns_pattern(plan, plan.cols_out, plan.move.sizes, plan.rows_in)
        return max(len(loaded), len(made)) <= MAX_PAIRS

    def _copied_together(self, plan: Arrangement, dtype: str, rows: int, cols: int) -> int:
        """Return of how many turns the results are copied out together, of rows and columns each.

        Neighbours are the turns of the indices of one factor. One access must reach their results.
        """
        if not plan.rest or self.on_chip:
            return 1
        many = turns_copied_together(self.chip, self.options, dtype, rows, cols)
        many = min(many, plan.move.sizes[plan.rest[-1]])
        return many if len(self._turned_pattern(plan, dtype, many)) <= MAX_PAIRS else 1

    def _turned_pattern(self, plan: Arrangement, given: str, many: int) -> Pattern:
        """Return how the elements of `many` turns lie in a row of the result.

        given: the type as which the array turns them, or parts of them.
        """
        sizes, steps, step = plan.move.sizes, dict[int, int](), 1
        for number in reversed(plan.cols_out):
            steps[number] = step
            step *= sizes[number]
        found = [(steps[n], sizes[n]) for n in plan.rows_in]
        if many > 1:
            found.insert(0, (steps[plan.rest[-1]], many))
        parts = data_type(plan.move.dtype).size_bytes // data_type(given).size_bytes
        return tuple((step * max(1, parts), count) for step, count in coalesced(tuple(found)))

    def _estimate(
        self, plan: Arrangement, cols_in: Sequence[int], cols_out: Sequence[int], work: int
    ) -> Estimate:
        chip, tiles = self.chip, self.tiles(plan)
        period, queues = chip.period("dma"), self._queues(plan)
        size, sizes = data_type(plan.move.dtype).size_bytes, plan.move.sizes
        here = _Side(plan.rows_in, tuple(cols_in), plan.move.before, plan.brought_sizes)
        there = _Side(plan.rows_out, tuple(cols_out), plan.move.after, sizes)
        shared, run_in, run_out = self.shared(plan), plan.run_in(cols_in), plan.run_out(cols_out)
        inwards = self._copies(plan, here, tiles * shared, run_in, plan.move.spaced)
        outwards = self._copies(plan, there, tiles * shared, run_out)
        if tiles > 1:
            inwards, outwards = self._within_both(plan, (here, inwards), (there, outwards))
        bytes_in = math.prod(here.sizes) * plan.move.spaced * size
        bytes_out = math.prod(sizes) * size
        run_in, run_out = run_in * plan.move.spaced * size, run_out * size
        brought = self._passing(bytes_in, run_in, plan.count(plan.rows_in))
        stored = self._passing(bytes_out, run_out, plan.count(plan.rows_out))
        come = self._in_channels(plan, here, plan.move.spaced)
        go = self._in_channels(plan, there)
        moved, all_queues = 0, chip.dma.useful_queues
        bytes_pass = brought + stored
        if self._may_do_both(plan, cols_in, cols_out):
            moved = max((inwards + outwards) // all_queues, bytes_pass, come + go)
        return Estimate(
            max(inwards // queues, brought, come) * period,
            max(outwards // queues, stored, go) * period,
            work,
            tiles,
            dma_latency_cycles(chip) * period,
            moved * period,
            all_queues,
            shared,
            bytes_pass * period,
            channels=(come + go) * period,
        )

    def _within_both(self, plan: Arrangement, *directions: tuple[_Side, int]) -> tuple[int, ...]:
        """Return the cycles of the queues' copies in each direction, no more than DRAM has for all.

        Where queues have several bursts in hand, a run counts as if all queues moved such runs. If
        those of the other direction are fewer or longer, that is more than DRAM has to do at all.
        """
        chip = self.chip
        if chip.dram.organisation is None or self._waits_for_bursts():
            return tuple(cycles for _, cycles in directions)
        tiles, size = self.tiles(plan), data_type(plan.move.dtype).size_bytes
        runs = plan.run_in(directions[0][0].cols), plan.run_out(directions[1][0].cols)
        spaced = plan.move.spaced, 1
        busy = sum(
            math.prod(side.sizes) // run * scattered_cycles(chip, run * beside * size)
            for (side, _), run, beside in zip(directions, runs, spaced, strict=True)
        )
        most = busy / chip.dma.queues * moving_queues(chip, tiles)
        copies = tiles * self.shared(plan) * dma_latency_cycles(chip)
        return tuple(
            min(cycles, copies * side.accesses + round(most)) for side, cycles in directions
        )

    def _in_channels(self, plan: Arrangement, side: _Side, spaced: int = 1) -> int:
        """Return how long the busiest channel of DRAM has bursts of all tiles, if addresses count.

        All tiles are taken to be like the first one. spaced: elements are moved for each of them.
        """
        parts = self.chip.dram.organisation
        if not self.by_address or parts is None or parts.outstanding == 1:
            return 0
        tile = side.access(plan.move.dtype, spaced)
        channels = burst_time(self.chip, tile, run_bytes(tile)).channels
        return round(max(channels) * plan.count(plan.batch))

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

    def _copies(self, plan: Arrangement, side: _Side, parts: int, run: int, spaced: int = 1) -> int:
        """Return the cycles of the queues' copies of all tiles in one direction.

        parts: of all tiles, one for each queue that shares a tile. run: how many elements lie side
        by side. spaced: elements are moved for each of them.
        """
        chip = self.chip
        size = run * spaced * data_type(plan.move.dtype).size_bytes
        lines = chip.dma.partitions_per_cycle if run == side.columns else 1
        if chip.dma.is_spread:
            lines = chip.dma.most_engines(plan.count(side.rows))
        runs = math.prod(side.sizes) // run
        copies = parts * side.accesses
        if self.alone and self._waits_for_bursts():
            moving = runs * (run_cycles(chip, size) + chip.dma.descriptor_cycles)
            if self.by_address:
                moving = max(moving, self._in_turn(plan, side, size, spaced))
            return copies * dma_latency_cycles(chip) + moving
        rounds, tall = -(-runs // lines), self._tall(plan)
        bands = side.bands(chip.state_buffer.partitions)
        copies = copies * bands // tall
        if chip.dma.is_spread:
            rounds = self._rounds(plan.count(side.rows), runs) * bands // tall
            return copies * dma_latency_cycles(chip) + rounds * beside_cycles(chip, size, lines)
        return copies * dma_latency_cycles(chip) + rounds * bundle_cycles(chip, size, lines)

    def _waits_for_bursts(self) -> bool:
        """Return whether a queue has one burst of DRAM in hand, so that it waits for each."""
        parts = self.chip.dram.organisation
        return parts is not None and parts.outstanding == 1

    def _in_turn(self, plan: Arrangement, side: _Side, run_bytes: int, spaced: int) -> int:
        """Return the cycles of all queues for all tiles, each queue with one burst in hand.

        All tiles are taken to be like those that move first.
        """
        tiles, shared = self.tiles(plan), self.shared(plan)
        queues = moving_queues(self.chip, tiles)
        size = data_type(plan.move.dtype).size_bytes
        step = side.places.steps[plan.batch[-1]] * size if plan.batch else 0
        others = tuple(n * step for n in range(1, queues // shared))
        access = side.access(plan.move.dtype, spaced)
        cycles = in_turn_cycles(self.chip, Streams(access, run_bytes, shared, others))
        return round(cycles * tiles * shared)

    def _passing(self, size_bytes: int, run: int, rows: int) -> int:
        """Return how long all queues together take for bytes in runs of `run` bytes, latency apart.

        Each has its share of what DRAM passes in a cycle, also while it fetches a descriptor. Where
        copies are spread, the engines of the tiles' rows pass all bytes, whichever queue has them.
        """
        chip, queues = self.chip, self.chip.dma.useful_queues
        passing = size_bytes // dram_rate(chip, queues)
        if chip.dma.is_spread:
            deep = self._rounds(rows, size_bytes // run)
            return max(passing, deep * run // chip.dma.bytes_per_cycle)
        if chip.dma.descriptor_cost == "sum" and chip.dram.organisation is None:
            passing += size_bytes // run * chip.dma.descriptor_cycles // queues
        return passing

    def _rounds(self, rows: int, runs: int) -> int:
        """Return how many descriptors the busiest engines have in turn where copies are spread.

        Each partition has one engine: a tile of few rows keeps few engines busy as long as a full
        one keeps all.
        """
        dma, lanes = self.chip.dma, self.chip.state_buffer.partitions
        full, rest = divmod(rows, lanes)
        deep = full * -(-lanes // dma.most_engines(lanes))
        deep += -(-rest // dma.most_engines(rest)) if rest else 0
        return runs // rows * deep
