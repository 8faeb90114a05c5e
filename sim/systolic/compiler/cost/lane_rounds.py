"""Estimates for moves between lanes in rounds, on an engine whose lanes are independent.

Not here: the pieces of a round (`ir.lane_rounds`), and where elements lie between two rounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from systolic.compiler.cost.engines import (
    WORD_BYTES,
    engine_cycles,
    engines_able,
    in_best_words,
)
from systolic.compiler.ir.change_of_view import ChangeOfView, Piece
from systolic.compiler.ir.chip_places import LANE
from systolic.compiler.ir.lane_rounds import in_rounds
from systolic.compiler.ir.relays import BoxStep
from systolic.hw.datatypes import data_type
from systolic.hw.spec import Chip
from systolic.isa import Access, Buffer, Copy
from systolic.workload.options import Options

MOST_PIECES = 2560
"""The most copies of a leg: 20 values for each of 128 lanes."""
LEAST_SHARED = 80
"""Copies of a round of so few cycles of the array are not shared by engines: others follow them
without a latency between them, and each part is an instruction more."""
PER_CYCLE = 8
"""So many instructions cost a cycle besides: of choices that are as quick few are better."""
TOGETHER = 0.9
"""Unlike boxes go in rounds of all of them if that takes this part of the time one by one."""
SHARED = 0.6
"""The part of the time that two engines take which share all copies, if they hardly meet."""


def independent_engines(chip: Chip, options: Options) -> list[str]:
    """Return the engines that may do rounds: their lanes are independent."""
    chosen = options.drain_engine
    return [
        name
        for name, engine in chip.lane_engines.items()
        if engine.independent_lanes and chosen in (None, name)
    ]


def roughly(chip: Chip, steps: Sequence[BoxStep], size_bytes: int) -> int | None:
    """Return about how many cycles of an engine the rounds of a leg take, if it is one box.

    None if it has more than `MOST_PIECES`.

    steps: the digits, and what they count before and after. In a round each lane copies its share
    of one value, in words if elements stay side by side; each instruction starts a cycle later.
    """
    leave = math.prod(s.size for s in steps if s.source >= LANE > s.result)
    arrive = math.prod(s.size for s in steps if s.result >= LANE > s.source)
    inside = [s for s in steps if s.source < LANE and s.result < LANE]
    rows, apart = 1, 1
    both = [s for s in steps if s.source >= LANE and s.result >= LANE]
    for step in sorted(both, key=lambda step: step.source):
        if step.source == step.result == rows * LANE:
            rows *= step.size
        else:
            apart *= step.size
    word = _word_bytes(steps, size_bytes) // size_bytes
    copied = math.prod(s.size for s in inside) // word
    if leave * arrive * apart > MOST_PIECES:
        return None
    return max(leave, arrive) * max(copied, min(leave, arrive) * apart)


def _word_bytes(steps: Sequence[BoxStep], size_bytes: int) -> int:
    """Return the bytes of a word in which a leg may be copied: elements side by side on both sides.

    Words lie at multiples of their bytes, so all distances are such multiples too.
    """
    alike, apart = 1, list[BoxStep]()
    for step in sorted(steps, key=lambda step: step.source):
        if step.source == step.result == alike:
            alike *= step.size
        else:
            apart.append(step)
    places = [alike, *(at for step in apart for at in step[1:])]
    return math.gcd(WORD_BYTES, *(at * size_bytes for at in places))


class _Lanes(NamedTuple):
    """When lanes are free, to read and to write."""

    source: list[int]
    target: list[int]


def rounds_leg(
    chip: Chip, options: Options, leg: ChangeOfView, steps: Sequence[BoxStep], dtype: str
) -> tuple[ChangeOfView, int] | None:
    """Return a leg on the engine that does its pieces soonest, and its ticks; None without one.

    steps: its digits. Pieces begin in their order, each a cycle or more behind the one before and
    when its lanes are free. Two engines share them if either may keep to a half of all columns on
    both sides, so that it has banks of its own. Boxes of unlike pieces go one by one, or in rounds
    of all of them.
    """
    parts = _parts_each(steps)
    able = independent_engines(chip, options) if parts else []
    able = able or independent_engines(chip, options)[:1]
    shares = parts if len(able) > 1 else 0
    found = [
        (replace(leg, engine=name), ticks)
        for name in able
        if (ticks := _ticks(chip, name, leg.given, dtype, shares=shares)) is not None
    ]
    best = min(found, key=lambda each: each[1], default=None)
    if best is None or len({(each.cols, each.runs, each.pairs) for each in leg.given}) == 1:
        return best
    together = replace(best[0], given=in_rounds(leg.given))
    name = together.engine or ""
    ticks = _ticks(chip, name, together.given, dtype, shares=shares)
    return best if ticks is None or ticks > TOGETHER * best[1] else (together, ticks)


def lone_ticks(chip: Chip, leg: ChangeOfView, dtype: str) -> int:
    """Return about how many ticks one engine takes for a leg in rounds, the one that it names."""
    ticks = None
    if leg.engine is not None:
        ticks = _ticks(chip, leg.engine, leg.given, dtype, shares=0)
    return ticks or 0


def turns_ticks(chip: Chip, turns: Sequence[Sequence[Copy]]) -> int:
    """Return about how many ticks engines take for copies, turn by turn.

    All engines have done a turn before the next begins. The copies of an engine begin in their
    order, each a cycle or more behind the one before and when its lanes are free.
    """
    ticks, partitions = 0, chip.state_buffer.partitions
    for turn in turns:
        free: dict[str, _Lanes] = {}
        begin: dict[str, int] = {}
        for copy in turn:
            lanes = free.setdefault(copy.engine, _Lanes([0] * partitions, [0] * partitions))
            reads, writes = copy.source, copy.target
            read = slice(reads.partition, reads.partition + reads.partitions)
            written = slice(writes.partition, writes.partition + writes.partitions)
            first = max(begin.get(copy.engine, 0), *lanes.source[read], *lanes.target[written])
            cycles = engine_cycles(chip, copy.engine, copy)
            lanes.source[read] = lanes.target[written] = [first + cycles] * reads.partitions
            begin[copy.engine] = first + 1
        ticks += max(max(each.source) * chip.period(name) for name, each in free.items())
    return ticks


def _parts_each(steps: Sequence[BoxStep]) -> int:
    """Return in how many parts an engine of two makes its half of each copy; 0 if it has none.

    Two if the farthest step of columns is not the same before and after: a half of both halves.
    """
    found = list[BoxStep]()
    for side in (1, 2):
        columns = [step for step in steps if step[side] < LANE]
        farthest = max(columns, key=lambda step: step[side], default=None)
        if farthest is None or max(farthest[1:]) >= LANE:
            return 0
        found.append(farthest)
    return len({*found})


def _ticks(
    chip: Chip, name: str, pieces: Sequence[Piece], dtype: str, *, shares: int
) -> int | None:
    """Return the ticks of an engine for pieces; shares: how many of each copy's parts it makes."""
    partitions = chip.state_buffer.partitions
    free, begin = _Lanes([0] * partitions, [0] * partitions), 0
    known: dict[tuple[object, ...], int | None] = {}
    for piece in pieces:
        key = piece.rows, piece.cols, piece.pairs, piece.runs, piece.source_col % 4, piece.col % 4
        if key not in known:
            known[key] = _cycles(chip, name, piece, dtype, shared=shares > 0)
        cycles = known[key]
        if cycles is None:
            return None
        read = slice(piece.source_row, piece.source_row + piece.rows)
        written = slice(piece.row, piece.row + piece.rows)
        begin = max(begin, *free.source[read], *free.target[written])
        free.source[read] = free.target[written] = [begin + cycles] * piece.rows
        begin += max(1, shares)
    cycles = max(free.source) + len(pieces) // PER_CYCLE + chip.engine(name).latency_cycles
    return cycles * chip.period(name)


def _cycles(chip: Chip, name: str, piece: Piece, dtype: str, *, shared: bool) -> int | None:
    size = data_type(dtype).size_bytes
    ends = [
        Access(Buffer.STATE, dtype, row, piece.rows, col * size, pattern)
        for row, col, pattern in (
            (piece.source_row, piece.source_col, piece.pairs),
            (piece.row, piece.col, piece.into),
        )
    ]
    copy = Copy(engine=name, source=ends[0], target=ends[1])
    if name not in engines_able(chip, copy):
        return None
    cycles = engine_cycles(chip, name, in_best_words(chip, copy))
    if shared and cycles * chip.period(name) > LEAST_SHARED * chip.period("pe_array"):
        return int(SHARED * cycles)
    return cycles
