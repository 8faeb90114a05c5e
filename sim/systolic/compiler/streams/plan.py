"""Plans of a frame: how it is cut and through which queues it goes, and which of them is taken.

Candidates come from the frame's modes and the chip's numbers. A closed form orders them: the time
of the busiest unit, and a tile's way through all units. The best few are simulated, times only, by
the judge that `run` hands in. They are counted, never timed, so that the same program is made on
every machine. Without a judge the first is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from systolic.compiler.cost.copies import (
    latency_cycles,
    pattern_cycles,
    runs_cycles,
    transposed_cycles,
)
from systolic.compiler.places.modes import stretch
from systolic.compiler.streams.emit_turned import TurnTypes
from systolic.compiler.streams.stage import StreamPlan
from systolic.compiler.streams.tiling import Cut, TileCopy, TileShape, TurnCut, tile_count, tiles
from systolic.compiler.streams.turn_plans import MOST_TURNS, turn_cuts, turn_ticks
from systolic.compiler.streams.turned import RESULT, SOURCE
from systolic.compiler.streams.work import StreamFrame
from systolic.hw.datatypes import SIZE_BYTES
from systolic.hw.formulas.dram import dram_rate, run_cycles
from systolic.hw.spec import Chip
from systolic.isa import Program
from systolic.workload.options import Options

TickJudge = Callable[[Program, int | None], int]
"""Returns the ticks that a program takes; the limit, if there is one and it takes as many or more.
"""

ALIKE = 2
"""How many plans of one cut are simulated: those that differ in slots and queues alone."""
JUDGED_BYTES = 2 << 20
"""The most bytes that a simulated plan moves in bursts of DRAM, in the mean of a frame's plans."""
JUDGED_INSTRUCTIONS = 500
"""The most instructions of a simulated plan, in the mean of a frame's plans."""
MOST_COPIES = 256
"""The most copies of a tile."""
MOST_GAPS = 9
"""Of more operands than these ways are for, all are brought with as many gaps at a time."""
MOST_TILES = 1024
"""More tiles than these are not looked at where fewer are possible."""


@dataclass(frozen=True, slots=True)
class Rated:
    """A plan, and about how many ticks it takes."""

    plan: StreamPlan
    ticks: float


class EngineTicks(NamedTuple):
    """What engines take for a tile: the busiest one, all steps one after the other.

    able: how many engines could do all of it.
    """

    busiest: float
    in_turn: float
    able: int

    def each(self, together: int) -> float:
        """Return the ticks from a tile to the next where some tiles are worked on together."""
        return max(self.busiest, self.in_turn / together)


EngineCost = Callable[[StreamFrame, Cut, TileShape], EngineTicks | None]
"""Returns what engines take for a tile; None if a tile does not fit."""


def rated_plans(
    chip: Chip, options: Options, frame: StreamFrame, engine_ticks: EngineCost
) -> list[Rated]:
    """Return the plans of a frame, the best by estimate first."""
    found = [*_straight(chip, frame), *_turned(chip, options, frame)]
    cuts: dict[Cut, None] = {}
    for cut in (*_transposing(chip, frame), *_cuts(chip, frame)):
        cuts.setdefault(cut)
    for cut in cuts:
        found += _tiled(chip, frame, cut, engine_ticks)
    return sorted(found, key=lambda each: (each.ticks, each.plan.load_ways, each.plan.store_ways))


# Within DRAM


def _straight(chip: Chip, frame: StreamFrame) -> Iterator[Rated]:
    """Yield plans that copy a frame's elements within DRAM."""
    if not frame.is_straight:
        return
    (number,) = frame.parts[0].kernel.inputs
    modes = [*frame.modes, *frame.parts[0].inner]
    run, outer = 1, 1
    for mode in sorted(modes, key=lambda m: m.steps[0]):
        if mode.steps[0] == mode.steps[number] == run:
            run *= mode.extent
        else:
            outer *= mode.extent
    size = SIZE_BYTES[frame.sides[0].dtype]
    pairs = len(modes)
    largest = max((m.extent for m in modes), default=1)
    for queues in _queue_counts(chip):
        # A lone run is cut among the queues.
        runs, length = outer, run
        if outer == 1:
            runs, length = min(queues, run), -(-run // min(queues, run))
        copies = max(queues, outer // largest if pairs > 4 else 1)
        total = runs_cycles(chip, runs, length * size, 1, within=True)
        rate = total / min(queues, runs)
        if chip.dma.is_spread:  # queues wait for their own descriptors, but share the engines
            rate = max(rate, run_cycles(chip, runs * length * size, within=True))
        shared = max(
            runs * length * size / dram_rate(chip, queues),
            2 * runs * length * size / chip.dram.bytes_per_cycle,
        )
        lats = 1 if chip.dma.outstanding > 1 else -(-copies // queues)
        cycles = lats * latency_cycles(chip) + max(rate, shared)
        yield Rated(StreamPlan(None, store_ways=queues), cycles * chip.period("dma"))


def _queue_counts(chip: Chip) -> list[int]:
    most = chip.dma.queues
    return [n for n in (1, 2, 4, 8, 16) if n < most] + [most]


# Through the state buffer


def _cuts(chip: Chip, frame: StreamFrame) -> Iterator[Cut]:
    """Yield ways to cut a frame: columns grow from nothing, mode by mode, as long as a tile fits.

    Each step takes the mode whose columns make the fewest runs. From each of these columns the
    partitions follow, from the innermost mode outwards, up to some numbers of them.
    """
    room = chip.state_buffer.bytes_per_partition
    sides = len(frame.sides)
    for gaps in _gap_choices(frame):
        columns = [1] * len(frame.modes)
        seen = set()
        while True:
            key = tuple(columns)
            if key in seen:
                break
            seen.add(key)
            for lanes in _lane_counts(chip):
                cut = _with_partitions(frame, key, lanes, gaps)
                yield cut
                yield from _balanced(frame, cut)
            grown = _grown(frame, columns, room, sides)
            if grown is None:
                break
            columns = grown
    if not frame.modes:
        yield Cut((), (), (0,) * sides)


def _balanced(frame: StreamFrame, cut: Cut) -> Iterator[Cut]:
    """Yield the cut with the columns of its outermost partition mode evened out over the tiles."""
    several = [n for n, p in enumerate(cut.partitions) if p > 1]
    for n in several[:1]:
        count, c, p = frame.modes[n].extent, cut.columns[n], cut.partitions[n]
        blocks = -(-count // (c * p))
        even = -(-count // (blocks * p))
        if even != c:
            columns = tuple(even if k == n else v for k, v in enumerate(cut.columns))
            yield cut._replace(columns=columns)


def _lane_counts(chip: Chip) -> list[int]:
    most = chip.state_buffer.partitions
    found, count = [], most
    while count >= max(1, most // 16):
        found.append(count)
        if count > 2:
            found.append(count * 3 // 4)
        count //= 2
    return found


def _gap_choices(frame: StreamFrame) -> Iterator[tuple[int, ...]]:
    """Yield how many innermost modes of each side are brought with their gaps."""
    yield (0,) * len(frame.sides)
    choices: list[list[int]] = [[0]]
    for side in range(1, len(frame.sides)):
        modes = sorted(
            (
                m
                for m in (*frame.modes, *(m for p in frame.parts for m in p.inner))
                if m.steps[side]
            ),
            key=lambda m: m.steps[side],
        )
        own, unit = [0], 1
        if frame.sides[side].holes:
            choices.append(own)
            continue
        for number, mode in enumerate(modes, 1):
            if mode.steps[side] < 0:
                break
            if mode.steps[side] != unit and stretch([mode], side) <= 64 * mode.extent * max(
                1, unit
            ):
                own.append(number)
            unit = max(unit, mode.steps[side] * mode.extent)
        choices.append(own[:3])
    if math.prod(map(len, choices)) <= MOST_GAPS:
        yield from (chosen for chosen in product(*choices) if any(chosen))
        return
    for level in range(1, max(map(len, choices))):
        yield tuple(own[min(level, len(own) - 1)] for own in choices)


def _grown(frame: StreamFrame, columns: list[int], room: int, sides: int) -> list[int] | None:
    """Return the columns with one mode's columns enlarged; None if no tile would fit."""
    best: tuple[float, list[int]] | None = None
    inner = math.prod(mode.extent for mode in frame.inner)
    for n, mode in enumerate(frame.modes):
        for more in _next_columns(mode.extent, columns[n]):
            tried = [*columns[:n], more, *columns[n + 1 :]]
            size = math.prod(tried) * inner * sum(SIZE_BYTES[side.dtype] for side in frame.sides)
            if size > room:
                continue
            runs = sum(_runs_per_element(frame, tried, side) for side in range(sides))
            key = (runs, -n)
            if best is None or key < best[0]:  # type: ignore[operator]
                best = (key, tried)  # type: ignore[assignment]
    return best[1] if best else None


def _next_columns(count: int, now: int) -> list[int]:
    """Return the next larger columns of a mode: its next divisor, or about half as many again."""
    if now >= count:
        return []
    found = {min(count, max(now + 1, now * 3 // 2))}
    found.update(d for d in _divisors(count) if now < d <= 2 * now)
    return sorted(found)[:3]


def _divisors(count: int) -> list[int]:
    small = [d for d in range(1, math.isqrt(count) + 1) if count % d == 0]
    return sorted({*small, *(count // d for d in small)})


def _runs_per_element(frame: StreamFrame, columns: list[int], side: int) -> float:
    """Return how many runs a side has for each element of a tile."""
    run, total = 1, math.prod(columns)
    order = sorted(range(len(columns)), key=lambda n: abs(frame.modes[n].steps[side]))
    for n in order:
        step = abs(frame.modes[n].steps[side])
        if step == 0:
            continue
        if step != run:
            break
        run *= columns[n]
        if columns[n] != frame.modes[n].extent:
            break
    moved = math.prod(c for c, m in zip(columns, frame.modes, strict=True) if m.steps[side])
    return moved / run / total


def _transposing(chip: Chip, frame: StreamFrame) -> Iterator[Cut]:
    """Yield cuts in which neighbours of the source go to partitions of their own.

    So DMA may transpose them. The other modes lie in columns, the innermost of the result first.
    """
    if chip.dma.transposes is None or not frame.is_straight:
        return
    inner = [n for n, mode in enumerate(frame.modes) if mode.steps[SOURCE] == 1]
    room = chip.state_buffer.bytes_per_partition // (4 * SIZE_BYTES[frame.sides[0].dtype])
    for lanes in (n for n in inner if frame.modes[n].steps[RESULT] != 1):
        columns = [1] * len(frame.modes)
        for n in reversed(range(len(columns))):
            if n == lanes:
                continue
            columns[n] = min(frame.modes[n].extent, max(1, room // math.prod(columns)))
            for many in _lane_counts(chip):
                partitions = [1] * len(columns)
                partitions[lanes] = min(many, frame.modes[lanes].extent)
                yield Cut(tuple(columns), tuple(partitions), (0,) * len(frame.sides))


def _with_partitions(
    frame: StreamFrame, columns: tuple[int, ...], lanes: int, gaps: tuple[int, ...]
) -> Cut:
    """Return the cut with as many partitions as can be: the innermost modes first."""
    partitions = [1] * len(columns)
    left = lanes
    for n in reversed(range(len(columns))):
        rest = -(-frame.modes[n].extent // columns[n])
        if rest == 1 or left <= 1:
            continue
        partitions[n] = min(rest, left)
        uneven = frame.modes[n].extent % (columns[n] * partitions[n])
        left = 1 if partitions[n] < rest or uneven else left // partitions[n]
    return Cut(columns, tuple(partitions), gaps)


def tiles_together(chip: Chip, slots: int) -> int:
    """Return of how many tiles each step is done before the next step of any.

    An engine then works on one tile while another engine works on the tile beside it.
    """
    return max(1, min(len(chip.lane_engines), slots - 1))


def _tiled(chip: Chip, frame: StreamFrame, cut: Cut, engine_ticks: EngineCost) -> Iterator[Rated]:
    """Yield the plans of a cut: slots and queues."""
    number = tile_count(frame, cut)
    if number > MOST_TILES:
        return
    first = next(tiles(frame, cut))
    try:
        shape = TileShape(frame, cut, first.counts)
        loads = [
            (frame.sides[side].dtype, move)
            for part in frame.parts
            for side in part.kernel.inputs
            for move in shape.loads(part, side, 1)
        ]
        stores = [(frame.sides[0].dtype, move) for move in shape.stores(1)]
    except ValueError:
        return
    if len(loads) + len(stores) > MOST_COPIES:
        return
    found = engine_ticks(frame, cut, shape)
    if found is None:
        return
    work = TileTime(number, loads, stores, found, chip.state_buffer.banks)
    work = work._replace(several=frame.has_several_steps)
    for rated in _rated(chip, cut, work):
        yield rated
        slots = rated.plan.slots
        if found.able > 1 and len(frame.sides) * slots * 2 <= chip.state_buffer.banks:
            saved = found.busiest * (1 - 1 / found.able)
            yield Rated(rated.plan._replace(shares=found.able), rated.ticks - saved)


def _turned(chip: Chip, options: Options, frame: StreamFrame) -> Iterator[Rated]:
    """Yield plans in which the array turns the tiles of a frame whose elements only move."""
    if not frame.is_straight or frame.parts[0].inner or not frame.modes:
        return
    dtype = frame.sides[RESULT].dtype
    types = TurnTypes.on(chip, dtype)
    if types is None or dtype != frame.sides[SOURCE].dtype:
        return
    if frame.keeps_bits and not types.keeps_bits(chip):
        return
    for cut in dict.fromkeys(turn_cuts(chip, frame, types)):
        number = tile_count(frame, cut)
        if number > MOST_TILES:
            continue
        shape = types.shape(chip, frame, cut, next(tiles(frame, cut)).counts)
        found = turn_ticks(chip, options, types, shape)
        if found is None or found[1] * number > MOST_TURNS:
            continue
        loads, stores = (
            [(types.given, move) for move in shape.copies(side, 1)] for side in (SOURCE, RESULT)
        )
        if len(loads) + len(stores) <= MOST_COPIES:
            # The array reads the identity all the time: it has a bank for itself.
            banks = sum(each.banks for each in types.buffers(shape))
            most = (chip.state_buffer.banks - 1) // banks
            apart = shape.banks(SOURCE), shape.banks(RESULT)
            engine = EngineTicks(found[0], found[0], 1)
            work = TileTime(number, loads, stores, engine, most, apart)
            yield from _rated(chip, cut, work)


class TileTime(NamedTuple):
    """What the time of a plan follows from: its tiles, with their loads and stores by type.

    engine: what engines, or the array, take for a tile. several: it has several steps. most_slots:
    more share banks, and units that meet in a bank wait for one another where it has one port for
    all partitions. apart: in how many banks a tile lies when it is loaded, and when it is stored.
    """

    number: int
    loads: list[tuple[str, TileCopy]]
    stores: list[tuple[str, TileCopy]]
    engine: EngineTicks
    most_slots: int
    apart: tuple[int, int] = (1, 1)
    several: bool = False


def _rated(chip: Chip, cut: Cut | TurnCut, work: TileTime) -> Iterator[Rated]:
    """Yield the plans of a cut, with slots and queues, by what a tile takes."""
    number, apart = work.number, work.apart
    latency, period = latency_cycles(chip), chip.period("dma")
    load, store = _moving(chip, work.loads), _moving(chip, work.stores)
    all_cycles = (load.bytes + store.bytes) * number / dram_rate(chip, chip.dma.queues)
    for plan in _queue_plans(chip, cut, number):
        if plan.slots > max(2, work.most_slots) and not chip.state_buffer.is_split:
            continue
        together = tiles_together(chip, plan.slots) if work.several else 1
        engine_cycles = work.engine.each(together) / period
        loading, storing = plan.load_queues, plan.store_queues
        tile_in = load.cycles(chip, loading, plan.load_ways, apart[0])
        tile_out = store.cycles(chip, storing, plan.store_ways, apart[1])
        wait = 0 if chip.dma.outstanding > 1 else latency
        load_work = load.alone + wait * load.copies * plan.load_ways
        store_work = store.alone + wait * store.copies * plan.store_ways
        if loading + storing > chip.dma.queues:
            queue = number * (load_work + store_work) / chip.dma.queues
        else:
            queue = max(number * load_work / loading, number * store_work / storing)
        slots = number * (max(tile_in, tile_out) + engine_cycles) / plan.slots
        busiest = max(queue, all_cycles, slots, number * engine_cycles) * number / (number + 1)
        once = tile_in + work.engine.in_turn / period + tile_out
        yield Rated(plan, (once + busiest * (number > 1)) * period)


@dataclass(frozen=True, slots=True)
class _Moving:
    """Copies of a tile: number, bytes, cycles of all in turn, and cycles of the longest."""

    copies: int
    bytes: int
    alone: float
    longest: float

    def cycles(self, chip: Chip, queues: int, ways: int, apart: int) -> float:
        """Return the cycles of all through some queues, `ways` for each copy, with latencies.

        apart: in how many banks the tile lies.
        """
        if not self.copies:
            return 0.0
        together = self.copies * ways
        rounds = 1 if chip.dma.outstanding > 1 else -(-together // queues)
        shared = ways if chip.state_buffer.is_split else min(ways, apart)  # they wait at a port
        alone, longest = self.alone, self.longest
        parts = chip.dram.organisation
        if parts is not None and parts.outstanding > 1:  # a lone queue has all channels
            alone, longest = alone / chip.dma.queues, longest / chip.dma.queues
        moving = max(
            self.bytes / dram_rate(chip, queues),
            alone / min(queues, self.copies * shared),
            longest / shared,
        )
        return rounds * latency_cycles(chip) + moving


def _queue_plans(chip: Chip, cut: Cut | TurnCut, number: int) -> Iterator[StreamPlan]:
    queues = chip.dma.queues
    lanes = max(cut.lanes)
    if chip.dma.is_spread:
        shares = [(1, 1), (2, 1), (2, 2), (4, 2), (4, 4), (8, 8)]
    else:
        shares = [(queues, queues)] + [(n, queues - n) for n in range(1, queues)]
    slots = [1] if number == 1 else [n for n in (2, 3, 4, 6, 8) if n <= number]
    for loading, storing in shares:
        if loading > queues or storing > queues:
            continue
        for many in slots:
            load_ways, store_ways = (
                sorted({1, 2, queues_of} & set(range(1, min(lanes, queues_of) + 1)))
                for queues_of in (loading, storing)
            )
            for ways in product(load_ways, store_ways):
                yield StreamPlan(cut, many, loading, storing, *ways)


def _moving(chip: Chip, moves: list[tuple[str, TileCopy]]) -> _Moving:
    """Return what some copies take in a queue alone, without their latency."""
    alone, bytes_ = [0.0], 0
    for dtype, move in moves:
        size = SIZE_BYTES[dtype]
        run = move.run * size
        cycles = pattern_cycles(chip, move.dram_pattern, size, run, move.partitions)
        alone.append(min(cycles, transposed_cycles(chip, *move.ends(dtype))))
        bytes_ += move.elements * size
    return _Moving(len(moves), bytes_, sum(alone), max(alone))
