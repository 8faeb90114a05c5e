"""The arrangements of a move that are weighed: which factors count partitions, which the batch.

Rows are factors that follow one another in memory. The batch is taken from the major end of the
source's order or of the result's: a batch of anything else breaks runs and saves nothing. Where
rows or tiles would be too large, factors are cut: one at either end of the rows, or those at both
ends, or a lone one twice, so that its middle part is the rows. Not here: estimates and ways.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from systolic.compiler.ir.arrangement import Arrangement
from systolic.compiler.ir.factors import Move

PARTS = (2, 4, 8, 16, 64)
"""Into about how many parts a factor is cut if the batch takes its major part."""
MOST_TILES = 1000
POOR = 2
"""Rows stay whole if their best part fills less than one half of the partitions that they might."""

_Rows = tuple[Move, tuple[int, ...]]


class _Cuts(NamedTuple):
    """Which cuts of factors are tried; tall: also none, of rows that are more than partitions."""

    either_end: bool
    finely: bool
    tall: bool = False


_Sides = tuple[Move, tuple[int, ...], tuple[int, ...]]


def lane_by_lane(
    move: Move, lanes: int, *, either_end: bool = False, finely: bool = False
) -> Iterator[Arrangement]:
    """Yield arrangements with the same rows before and after.

    There may be more rows than lanes: then they are several tiles. either_end: rows may end with
    the major part of a factor, not only begin with the minor part of one. finely: rows may have
    parts of two factors, or the middle part of one.
    """
    cuts = _Cuts(either_end, finely)
    seen: set[_Rows] = set()
    places = range(len(move.sizes))
    for found in (*_whole_runs(move), *_on_partitions(move, places, lanes, cuts)):
        if found not in seen:
            seen.add(found)
            cut, rows = found
            yield from _batches(cut, rows, rows)


def turned(
    move: Move, rows: int, cols: int, *, either_end: bool = False, finely: bool = False
) -> Iterator[Arrangement]:
    """Yield arrangements that an array of `rows` x `cols` can turn.

    Rows of a number without good parts, such as a prime, may be more: then they are several tiles.
    either_end, finely: as of `lane_by_lane`.
    """
    cuts = _Cuts(either_end, finely, tall=True)
    seen: set[_Sides] = set()
    for cut, rows_in in _on_partitions(move, range(len(move.sizes)), rows, cuts):
        for finer, rows_out in _on_partitions(cut, cut.order, cols, cuts):
            found = finer, _renumbered(cut, finer, rows_in), rows_out
            if not set(found[1]) & set(rows_out) and found not in seen:
                seen.add(found)
                yield from _batches(*found)


def _whole_runs(move: Move) -> Iterator[_Rows]:
    count = len(move.sizes)
    for first in range(count):
        for stop in range(first + 1, count + 1):
            yield move, tuple(range(first, stop))


def _batches(
    move: Move, rows_in: tuple[int, ...], rows_out: tuple[int, ...]
) -> Iterator[Arrangement]:
    """Yield arrangements of these rows with every batch, one of whose factors may be cut."""
    before, after = (
        [n for n in order if n not in rows_in and n not in rows_out]
        for order in (range(len(move.sizes)), move.order)
    )
    seen: set[tuple[int, ...]] = set()
    for first in range(len(before) + 1):
        for second in range(len(after) + 1):
            batch = tuple(sorted({*before[:first], *after[:second]}))
            if batch in seen:
                continue
            seen.add(batch)
            plan = Arrangement(move, batch, rows_in, rows_out)
            if plan.count(batch) > MOST_TILES:
                continue
            yield plan
            following = {
                before[first] if first < len(before) else -1,
                after[second] if second < len(after) else -1,
            }
            for factor in sorted(following - {-1, *batch}):
                yield from _with_part(plan, factor)


def _with_part(plan: Arrangement, factor: int) -> Iterator[Arrangement]:
    """Yield the arrangement with the major part of one more factor in its batch."""
    size = plan.move.sizes[factor]
    parts = {
        next(n for n in range(part, size + 1) if size % n == 0) for part in PARTS if part < size
    }
    for part in sorted(parts - {size}):
        if plan.count(plan.batch) * part > MOST_TILES:
            break
        cut = plan.move.cut(factor, size // part)
        batch, rows_in, rows_out = (
            tuple(n + (n > factor) for n in numbers)
            for numbers in (plan.batch, plan.rows_in, plan.rows_out)
        )
        yield Arrangement(cut, tuple(sorted((*batch, factor))), rows_in, rows_out)


def _renumbered(before: Move, after: Move, rows: tuple[int, ...]) -> tuple[int, ...]:
    """Return factors of a move as factors of the same move with some of them cut."""
    parts, number = list[list[int]](), 0
    for size in before.sizes:
        parts.append([number])
        found = after.sizes[number]
        while found < size:
            number += 1
            parts[-1].append(number)
            found *= after.sizes[number]
        number += 1
    return tuple(part for each in rows for part in parts[each])


def _on_partitions(move: Move, order: Sequence[int], lanes: int, cuts: _Cuts) -> Iterator[_Rows]:
    """Yield factors that follow one another in `order` and have room on the partitions together.

    The most major one may be cut, and of it the minor part taken, or (either_end) the most minor
    one, and of it the major part; of a lone one, either part. Finely cut, both are, or a lone one's
    middle part is taken.
    """
    places = list(order)
    if cuts.either_end:
        yield from _with_major_part(move, places, lanes)
    if cuts.finely:
        yield from _with_both_parts(move, places, lanes)
        yield from _middle_parts(move, places, lanes)
    for first in range(len(places)):
        for last in range(first, len(places)):
            room = lanes
            inner = places[first + 1 : last + 1]
            for other in inner:
                room //= move.sizes[other]
            if room < 1:
                break
            head = places[first]
            size = move.sizes[head]
            part = divisor(size, room)
            if cuts.tall and not inner and part * POOR < min(size, room):
                yield move, (head,)
            if part == size:
                yield move, tuple(places[first : last + 1])
            elif part > 1:
                cut = move.cut(head, part)
                yield cut, tuple(n + (n >= head) for n in (head, *(n for n in inner)))
                if not inner:
                    yield move.cut(head, size // part), (head,)


def _with_major_part(move: Move, places: Sequence[int], lanes: int) -> Iterator[_Rows]:
    """Yield several factors, and of the most minor one the major part that has room beside them."""
    for first in range(len(places)):
        room = lanes // move.sizes[places[first]]
        for last in range(first + 1, len(places)):
            tail = places[last]
            size = move.sizes[tail]
            if room < 2:
                break
            part = divisor(size, room)
            if 1 < part < size:
                rows = tuple(n + (n > tail) for n in places[first : last + 1])
                yield move.cut(tail, size // part), rows
            room //= size


def _middle_parts(move: Move, places: Sequence[int], lanes: int) -> Iterator[_Rows]:
    """Yield one factor's middle part: the batch may take its major part, and runs its minor one."""
    for factor in places:
        for major in PARTS:
            size, uneven = divmod(move.sizes[factor], major)
            middle = divisor(size, lanes) if size else 1
            if not uneven and 1 < middle < size:
                yield move.cut(factor, size).cut(factor + 1, size // middle), (factor + 1,)


def _with_both_parts(move: Move, places: Sequence[int], lanes: int) -> Iterator[_Rows]:
    """Yield several factors, the minor part of the most major one, the major of the most minor.

    Of these only such as fill more than half of the partitions.
    """
    for first, head in enumerate(places):
        room = lanes
        for last in range(first + 1, len(places)):
            tail = places[last]
            for minor in PARTS:
                major = divisor(move.sizes[tail], max(1, room // minor))
                whole = move.sizes[head] % minor or minor >= move.sizes[head]
                if whole or not 1 < major < move.sizes[tail] or 2 * minor * major <= room:
                    continue
                cut = move.cut(head, minor)
                begin, *rows = (n + (n >= head) for n in places[first : last + 1])
                end = rows[-1]
                finer = cut.cut(end, move.sizes[tail] // major)
                yield finer, tuple(n + (n > end) for n in (begin, *rows))
            room //= move.sizes[tail]


def divisor(size: int, most: int) -> int:
    """Return the largest part of a size that is at most `most`."""
    return next(part for part in range(min(size, most), 0, -1) if size % part == 0)
