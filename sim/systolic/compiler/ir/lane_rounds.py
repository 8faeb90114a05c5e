"""Moves between lanes in rounds: in each, an engine copies groups of lanes to other lanes.

In one instruction all lanes go equally far up or down, and read and write at the same addresses. So
what goes from columns to partitions, or from partitions to columns, takes an instruction for each
of its values. Where an engine's lanes are independent, instructions of different lanes are at work
at once. So those that have neither a source nor a target lane in common follow one another: a
*round*. Let o count the values that leave the partitions, and i those that arrive there: in round n
are those with o - i = n, modulo the larger number of both. Not here: estimates, and where elements
lie between two rounds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product

from systolic.compiler.ir.change_of_view import MOST_PAIRS, Piece
from systolic.compiler.ir.chip_places import LANE
from systolic.compiler.ir.relays import BoxStep, box_patterns, goes_on

LONG = 8
"""Copies of this many elements for each element of a round begin later than the round ends."""


def rounds_of_box(starts: Sequence[int], steps: Sequence[BoxStep]) -> Iterator[Piece]:
    """Yield the pieces of a box, round by round.

    starts: the places of its first element on both sides. steps: its digits.
    """
    lanes = [step for step in steps if step.source >= LANE or step.result >= LANE]
    columns = sorted(
        (step for step in steps if step not in lanes),
        key=lambda step: (-max(step.source, step.result), -step.result),
    )  # far steps are major, so that an access seldom goes from bank to bank
    rows, kept = _together([s for s in lanes if s.source >= LANE and s.result >= LANE])
    leave = [step for step in lanes if step.result < LANE]
    arrive = [step for step in lanes if step.source < LANE]
    apart: list[BoxStep] = []
    while True:
        pairs, runs = box_patterns(columns, ())
        if max(len(pairs), len(runs)) <= MOST_PAIRS:
            break
        least = min(columns, key=lambda step: (goes_on(step, columns), step.size))
        columns.remove(least)
        apart.append(least)
    run = runs[-1] if runs and runs[-1][0] == 1 else (1, 1)
    outer = runs[:-1] if runs and runs[-1][0] == 1 else runs
    turn = max(_count(leave), _count(arrive)) * _count(kept)
    long = _count(columns) >= LONG * turn
    for base in _places(starts, apart):
        for first in _of_rounds(base, leave, arrive, long=long):
            for at in _places(first, kept):
                (source_row, source_col), (row, col) = (divmod(place, LANE) for place in at)
                yield Piece(
                    row, rows, col, run[1], source_row, rows, source_col,
                    pairs or ((1, 1),), outer,
                )  # fmt: skip


def in_rounds(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """Return the pieces of several boxes in rounds of all of them.

    Boxes that are cut off behind the last whole value have few lanes, and rounds of their own would
    leave the others idle. With lanes counted on either side, s and t, pieces of equal s - t, modulo
    the larger count, have no lane in common; copies of the same lanes follow one another.
    """
    lanes = [
        {row: rank for rank, row in enumerate(sorted({*rows}))}
        for rows in ((p.source_row for p in pieces), (p.row for p in pieces))
    ]
    turns = {pair: turn for turn, pair in enumerate(_pairs_in_rounds(*map(len, lanes)))}
    few = min(map(len, lanes))
    before: Counter[int] = Counter()
    keys = list[tuple[int, int, int]]()
    for piece in pieces:
        turn = turns[lanes[0][piece.source_row], lanes[1][piece.row]]
        keys.append((turn // few, before[turn], turn))
        before[turn] += 1
    return tuple(pieces[at] for at in sorted(range(len(pieces)), key=keys.__getitem__))


def _together(lanes: Sequence[BoxStep]) -> tuple[int, list[BoxStep]]:
    """Return how many partitions go together, and the digits of the others."""
    rows, kept = 1, []
    for step in sorted(lanes, key=lambda step: step.source):
        if step.source == step.result == rows * LANE:
            rows *= step.size
        else:
            kept.append(step)
    return rows, kept


def _count(steps: Sequence[BoxStep]) -> int:
    return math.prod(step.size for step in steps)


def _of_rounds(
    base: tuple[int, ...], leave: Sequence[BoxStep], arrive: Sequence[BoxStep], *, long: bool
) -> Iterator[tuple[int, ...]]:
    """Yield the places of the first elements, one round after another.

    long: copies take longer than all of a round take to begin.
    """
    out, into = ([*_places((0, 0), steps)] for steps in (leave, arrive))
    for o, i in _pairs_in_rounds(len(out), len(into), long=long):
        yield tuple(map(sum, zip(base, out[o], into[i], strict=True)))


def _pairs_in_rounds(leave: int, arrive: int, *, long: bool = False) -> Iterator[tuple[int, int]]:
    """Yield the numbers of values that leave and that arrive, one round after another.

    A lane should be free in the turn in which the round takes it, so the round before took it in
    the same turn or an earlier one. If as many values leave as arrive, a lane comes first that came
    last before, for which short copies would wait; so theirs come a turn later instead.
    """
    rounds = max(leave, arrive)
    if leave < arrive or (long and leave == arrive):
        for number in range(rounds):
            yield from ((o, (o - number) % rounds) for o in range(leave))
        return
    down = arrive < leave
    for number in reversed(range(rounds)) if down else range(rounds):
        yield from (((i + number) % rounds, i) for i in range(arrive))


def _places(starts: Sequence[int], steps: Sequence[BoxStep]) -> Iterator[tuple[int, ...]]:
    """Yield the places on both sides for each index of some digits."""
    for index in product(*(range(step.size) for step in steps)):
        yield tuple(
            start + sum(n * step[side] for n, step in zip(index, steps, strict=True))
            for side, start in enumerate(starts, 1)
        )
