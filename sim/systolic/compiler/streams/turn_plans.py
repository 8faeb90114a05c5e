"""Plans in which the array turns the tiles of a frame.

Some modes lie on partitions when a tile is loaded, others when it is stored. Candidates are sets of
one or two modes for either. From the least tile of each, the indices of one mode after another
grow: always the one that leaves the copies the least time for each element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations

from systolic.compiler.cost.copies import runs_cycles
from systolic.compiler.cost.engines import drain_engine, drain_interval, engines_able
from systolic.compiler.cost.turns import turns_copied_together
from systolic.compiler.streams.emit_turned import TurnTypes
from systolic.compiler.streams.tiling import TurnCut
from systolic.compiler.streams.turned import RESULT, SOURCE, TurnShape, source_gap
from systolic.compiler.streams.work import StreamFrame
from systolic.hw.datatypes import SIZE_BYTES
from systolic.hw.formulas.timing import turn_interval_cycles
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, Copy
from systolic.isa.access import MAX_PAIRS
from systolic.workload.options import Options

CutCost = Callable[[Chip, StreamFrame, TurnCut], float]
MOST_SETS = 8
"""How many pairs of sets of modes are looked at: those that leave the least partitions idle."""
MOST_TURNS = 4096
"""Plans of more turns than these are not looked at."""


def turn_cuts(chip: Chip, frame: StreamFrame, types: TurnTypes) -> Iterator[TurnCut]:
    """Yield cuts of a frame whose tiles the array turns."""
    lanes, array = chip.state_buffer.partitions, chip.pe_array
    most_in = min(lanes, array.rows, chip.result_buffer.bank_words)
    sides = (RESULT, min(lanes, array.cols)), (SOURCE, most_in)
    outside, inside = (list(_lane_sets(frame, side, most)) for side, most in sides)
    pairs = [
        (math.prod(o) * math.prod(i), i, o)
        for i in inside
        for o in outside
        if all(a == 1 or b == 1 for a, b in zip(i, o, strict=True))
    ]
    for _, i, o in sorted(pairs, key=lambda pair: (-pair[0], pair[1:]))[:MOST_SETS]:
        for key in (_copy_cycles, _shortest_run):
            yield from _grown(chip, frame, types, TurnCut(tuple(map(max, i, o)), i, o), key)


def _lane_sets(frame: StreamFrame, side: int, most: int) -> Iterator[tuple[int, ...]]:
    """Yield how many indices of each mode lie on partitions: of one mode or of two.

    Runs begin with the innermost mode of a side, which therefore stays in columns.
    """
    run = source_gap(frame) if side == SOURCE else 1
    able = [n for n, mode in enumerate(frame.modes) if abs(mode.steps[side]) > run]
    for n in able:
        for some in _shares(frame.modes[n].extent, most):
            yield tuple(some if k == n else 1 for k in range(len(frame.modes)))
    for pair in combinations(able, 2):
        extents = [mode.extent for mode in frame.modes]
        for whole, part in (pair, pair[::-1]):
            if extents[whole] * 2 > most or extents[part] == 1:
                continue
            for some in _shares(extents[part], most // extents[whole]):
                mine = {part: some, whole: extents[whole]}
                yield tuple(mine.get(k, 1) for k in range(len(frame.modes)))


def _shares(extent: int, most: int) -> list[int]:
    """Return how many of some indices lie on partitions: all that can, or about equally many."""
    if extent <= most:
        return [extent]
    even = -(-extent // -(-extent // most))
    return sorted({most, even})


def _grown(
    chip: Chip, frame: StreamFrame, types: TurnTypes, cut: TurnCut, cost: CutCost
) -> Iterator[TurnCut]:
    """Yield a cut with ever larger tiles, those that cost the least, as long as one fits."""
    while True:
        yield cut
        if any(n > max(i, o) > 1 for n, i, o in zip(*cut[:3], strict=True)):
            yield cut._replace(in_runs=True)
            if types.taken == types.given and not chip.state_buffer.is_split:
                yield cut._replace(in_banks=True)
        best: tuple[float, int, TurnCut] | None = None
        for n, mode in enumerate(frame.modes):
            for more in _larger(cut, n, mode.extent):
                tried = cut._replace(block=(*cut.block[:n], more, *cut.block[n + 1 :]))
                if not _fits(chip, frame, types, tried):
                    continue
                key = cost(chip, frame, tried), -n, tried
                if best is None or key < best:
                    best = key
        if best is None:
            return
        cut = best[2]


def _larger(cut: TurnCut, n: int, extent: int) -> list[int]:
    """Return the next larger numbers of indices of a mode."""
    unit, now = max(cut.inside[n], cut.outside[n]), cut.block[n]
    if now >= extent:
        return []
    if unit > 1:
        return sorted({min(extent, 2 * now), extent if extent < 4 * now else min(extent, 2 * now)})
    found = {min(extent, max(now + 1, now * 3 // 2))}
    found.update(d for d in range(now + 1, 2 * now + 1) if extent % d == 0)
    return sorted(found)[-2:]


def _fits(chip: Chip, frame: StreamFrame, types: TurnTypes, cut: TurnCut) -> bool:
    buffers = types.buffers(types.shape(chip, frame, cut, cut.block))
    size = sum(each.size_bytes * each.banks for each in buffers)
    return size < chip.state_buffer.bytes_per_partition


def _shortest_run(chip: Chip, frame: StreamFrame, cut: TurnCut) -> float:
    """Return a cost that is less the longer the shortest runs are, on both sides."""
    runs = sorted(_run(frame, cut, *each) for each in ((RESULT, cut.outside), (SOURCE, cut.inside)))
    return 1 / runs[0] + math.prod(cut.block) / (1 << 60)


def _copy_cycles(chip: Chip, frame: StreamFrame, cut: TurnCut) -> float:
    """Return the DMA cycles of an element, loaded and stored in runs, each with its descriptor."""
    total, size = math.prod(cut.block), SIZE_BYTES[frame.sides[0].dtype]
    cycles = 0.0
    for side, lanes in ((RESULT, cut.outside), (SOURCE, cut.inside)):
        run = _run(frame, cut, side, lanes)
        brought = total * source_gap(frame) if side == SOURCE else total
        cycles += runs_cycles(chip, brought // run, run * size, math.prod(lanes)) / total
    return cycles


def _run(frame: StreamFrame, cut: TurnCut, side: int, lanes: tuple[int, ...]) -> int:
    """Return the elements of the runs of a tile on a side, padding that is brought among them."""
    run = source_gap(frame) if side == SOURCE else 1
    for n in sorted(range(len(frame.modes)), key=lambda n: abs(frame.modes[n].steps[side])):
        if frame.modes[n].steps[side] != run or lanes[n] > 1:
            break
        run *= cut.block[n]
        if cut.block[n] < frame.modes[n].extent:
            break
    return run


def turn_ticks(
    chip: Chip, options: Options, types: TurnTypes, shape: TurnShape
) -> tuple[float, int] | None:
    """Return for how many ticks a tile keeps the array or engines busy, and in how many turns.

    None if an access would need more pairs than there are.
    """
    array = drains = 0.0
    number = 0
    passes = chip.pe_array.turns_by_passing(types.taken)
    engine = drain_engine(chip, options)
    copy = _drain(types, 1, 1)
    able = len(engines_able(chip, copy)) if options.drain_engine is None else 1
    for turned in shape.turns(partial(turns_copied_together, chip, options, types.taken)):
        if max(len(turned.taken), len(turned.made)) > MAX_PAIRS or number > MOST_TURNS:
            return None
        each = turn_interval_cycles(
            chip, turned.rows, turned.columns, types.taken, is_pass_through=passes
        )
        count = len(turned.firsts)
        number += count
        array += count * each
        drains += drain_interval(chip, options, types.given, turned.rows * count)
    casts = 0.0
    if types.taken != types.given:
        for _, _, columns in shape.filled(SOURCE):
            casts += math.prod(count for _, count in columns)
    busy = (drains + casts) * chip.period(engine) / able
    return max(array * chip.period("pe_array"), busy), number


def _drain(types: TurnTypes, lanes: int, words: int) -> Copy:
    """Return a copy of results to a tile, on no engine yet."""
    source = Access(Buffer.RESULT, "f32", 0, lanes, 0, ((1, words),))
    target = Access(Buffer.STATE, types.given, 0, lanes, 0, ((1, words),))
    return Copy(engine="", source=source, target=target)
