"""Which accesses of a program meet without surely being in order? The pass of `races`, compiled.

Imported only for much work; cached on disk. It visits, compares and forgets accesses as that pass
does, with integers in place of objects, and takes less trouble: two sets that repeat bytes, or have
very many runs, may meet where their boxes do; an order that clocks alone do not show, and a read
that is hard to see covered, are left open. What is left open may be well (`systolic.isa.lint.proof`
looks at it). All else is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numba

from systolic.arrays import Array, Integers, Mask

# Columns of `places`. SHAPE: row of `shapes`. CELL, CELL_STOP: the pieces of buffers that it is in.
FIRST, STOP, LOW, HIGH, SHAPE, CELL, CELL_STOP, IN_RESULT, PLACE_COLUMNS = range(9)

# Columns of `shapes`: fields of a Footprint. IS_LONG: too many runs to be taken for a cover.
# From STEPS on: (step, count), PAIRS of them at most; a count of 0 stands where there is none.
RUN, REPEATS, IS_LONG, STEPS = range(4)
PAIRS = 5  # an access that an offset moves has a pair more than others
SHAPE_COLUMNS = STEPS + 2 * PAIRS

# What is larger, or takes longer, is left open. No set within MOST_IN_ALL and MOST_BYTES is so
# large that `systolic.isa.footprint` lets it meet another, or be uncovered, without a proof.
MOST_RUNS, MOST_IN_ALL = 1 << 10, 1 << 20
MOST_BYTES, MOST_LOOKS = 1 << 24, 1 << 14

# Columns of `found`. KIND: one of the three orders that may be missing, or NOT_COVERED, a read.
# EARLIER, LATER: accesses; INDEX: the instruction that made the earlier one last. Of a read that
# is not covered EARLIER and INDEX are the first, and the end, of what may cover it, in `covers`.
KIND, EARLIER, INDEX, LATER, FOUND_COLUMNS = range(5)
READ_AFTER_WRITE, WRITE_AFTER_WRITE, WRITE_AFTER_READ, NOT_COVERED = range(4)

# Columns of `records`: reads and writes that count. ACCESS: -1 is memory with contents at cycle 0.
ACCESS, BY, PLACE, VISIT, LIVE, SEEN, RECORD_COLUMNS = range(7)

# Rows of what there is of both.
WRITES, READS = range(2)

# Entries of `counts`: WRITES and READS that the access in hand may meet. VISITED, ACCESSES: the
# number of the visit, and how many accesses have been visited.
RECORDS, LINKS, FOUND, COVERS, VISITED, ACCESSES, COUNTS = range(2, 9)


class Sets(NamedTuple):
    """The sets of bytes: their places, and what many have in common."""

    places: Integers
    shapes: Integers


class Visits(NamedTuple):
    """What is visited.

    order [instructions]: as they can start. first, first_write [instructions + 1]: the first
    access of each, and its first write. place_of [accesses]. inputs: places with contents at cycle
    0; are_known: those are all. clock, known [instructions, queues], queue, after_reads
    [instructions]: `systolic.isa.lint.order`. of_array, multiplies, reads_target [instructions].
    """

    order: Integers
    first: Integers
    first_write: Integers
    place_of: Integers
    inputs: Integers
    are_known: bool
    sets: Sets
    clock: Array
    known: Array
    queue: Array
    after_reads: Array
    of_array: Mask
    multiplies: Mask
    reads_target: Mask


class Meetings(NamedTuple):
    """What is kept and found.

    last [2, cells]: the last link of each cell, of WRITES and of READS, -1: none. links: (record,
    its link before). met [2, records]: the records that the access in hand may meet. last_read
    [places, queues]: the record of the last read. is_covered [places]: that has been asked. lanes
    [partitions]: those found covered. fillers: places that may together fill the one in hand.
    """

    counts: Integers
    records: Integers
    last: Integers
    links: Integers
    met: Integers
    last_read: Array
    is_covered: Mask
    lanes: Integers
    fillers: Integers
    found: Integers
    covers: Integers


Loop = TypeVar("Loop", bound=Callable[..., object])


def _compile(loop: Loop) -> Loop:
    """Return the compiled form. Nothing allocates: to count references would double the time."""
    options: dict[str, Any] = {"nogil": True, "boundscheck": False, "_nrt": False}
    compiled: Loop = numba.njit(cache=True, error_model="numpy", **options)(loop)
    return compiled


@_compile
def visit_all(v: Visits, n: Meetings) -> bool:
    """Visit all accesses; return whether there was room for all that was found."""
    n.counts[VISITED] = -1
    for number in range(len(v.inputs)):
        _note(v, n, WRITES, _new_record(n, -1, -1, v.inputs[number]))
    for visit in range(len(v.order)):
        index = v.order[visit]
        n.counts[VISITED] = visit
        for access in range(v.first[index], v.first[index + 1]):
            n.counts[ACCESSES] += 1
            if access < v.first_write[index]:
                has_room = _read(v, n, index, access)
            else:
                has_room = _write(v, n, index, access)
            if not has_room:
                return False
    return True


@_compile
def _read(v: Visits, n: Meetings, index: int, access: int) -> bool:
    place, queue = v.place_of[access], v.queue[index]
    _meet(v, n, WRITES, place)
    for number in range(n.counts[WRITES]):
        record = n.met[WRITES, number]
        if not _is_written(v, n, record, index) and not _find(n, READ_AFTER_WRITE, record, access):
            return False
    if v.are_known and not n.is_covered[place]:
        n.is_covered[place] = True
        is_covered = _are_covering(v, n, WRITES, place, -2)
        if not (is_covered or _are_filling(v, n, place)) and not _find_covers(n, access):
            return False
    if v.multiplies[index] and v.sets.places[place, IN_RESULT]:
        return True  # a sum that is read together with its write
    record = n.last_read[place, queue]
    if (
        record >= 0
        and n.records[record, LIVE]
        and v.after_reads[n.records[record, BY]] <= v.clock[index, queue]
    ):
        n.records[record, ACCESS], n.records[record, BY] = access, index
        n.records[record, VISIT] = n.counts[VISITED]
        return True
    record = _new_record(n, access, index, place)
    n.last_read[place, queue] = record
    _note(v, n, READS, record)
    return True


@_compile
def _write(v: Visits, n: Meetings, index: int, access: int) -> bool:
    place = v.place_of[access]
    _meet(v, n, WRITES, place)
    _meet(v, n, READS, place)
    for number in range(n.counts[WRITES]):
        record = n.met[WRITES, number]
        if not _is_written(v, n, record, index) and not _find(n, WRITE_AFTER_WRITE, record, access):
            return False
    for number in range(n.counts[READS]):
        record = n.met[READS, number]
        if not _is_read(v, n, record, index) and not _find(n, WRITE_AFTER_READ, record, access):
            return False
    if v.sets.places[place, IN_RESULT] and not v.reads_target[index]:
        for number in range(n.counts[WRITES]):
            if not _is_drained(v, n, n.met[WRITES, number], place):
                return False
    for side in (WRITES, READS):
        for number in range(n.counts[side]):
            record = n.met[side, number]
            if side == WRITES or n.records[record, BY] != index:
                _overwrite(v, n, record, place)
    _note(v, n, WRITES, _new_record(n, access, index, place))
    return True


@_compile
def _is_written(v: Visits, n: Meetings, record: int, index: int) -> bool:
    """Return whether clocks show that a write is made when an instruction acts on its bytes."""
    by = n.records[record, BY]
    if by < 0 or (v.queue[by] == v.queue[index] and v.of_array[index]):
        return True
    return _is_done(v, by, index)


@_compile
def _is_done(v: Visits, by: int, index: int) -> bool:
    """Return whether an instruction surely is done when a later one starts."""
    for queue in range(v.clock.shape[1]):  # noqa: SIM110 (numba knows no `any` of this kind)
        if v.clock[index, queue] >= v.known[by, queue]:
            return True
    return False


@_compile
def _is_read(v: Visits, n: Meetings, record: int, index: int) -> bool:
    """Return whether clocks show that a read is made when an instruction starts, or is its own."""
    by = n.records[record, BY]
    if by == index or v.clock[index, v.queue[by]] >= v.after_reads[by]:
        return True
    return _is_done(v, by, index)


@_compile
def _is_drained(v: Visits, n: Meetings, record: int, place: int) -> bool:
    """Return whether something later surely has all bytes of a write that is overwritten."""
    if n.records[record, BY] < 0:
        return True
    since = n.records[record, VISIT]
    for wanted in (place, n.records[record, PLACE]):
        if _are_covering(v, n, READS, wanted, since) or _are_covering(v, n, WRITES, wanted, since):
            return True
    return False


# -- records --------------------------------------------------------------------------------------


@_compile
def _new_record(n: Meetings, access: int, index: int, place: int) -> int:
    record = int(n.counts[RECORDS])
    n.counts[RECORDS] += 1
    n.records[record, ACCESS], n.records[record, BY] = access, index
    n.records[record, PLACE], n.records[record, VISIT] = place, n.counts[VISITED]
    n.records[record, LIVE], n.records[record, SEEN] = 1, -1
    return record


@_compile
def _note(v: Visits, n: Meetings, side: int, record: int) -> None:
    """Keep a record in all cells of its place."""
    place = n.records[record, PLACE]
    for cell in range(v.sets.places[place, CELL], v.sets.places[place, CELL_STOP]):
        link = n.counts[LINKS]
        n.counts[LINKS] += 1
        n.links[link, 0], n.links[link, 1] = record, n.last[side, cell]
        n.last[side, cell] = link


@_compile
def _overwrite(v: Visits, n: Meetings, record: int, place: int) -> None:
    """Forget a record that a write covers entirely."""
    p, q = place, n.records[record, PLACE]
    places, shapes = v.sets.places, v.sets.shapes
    if places[p, FIRST] > places[q, FIRST] or places[q, STOP] > places[p, STOP]:
        return
    if places[p, LOW] > places[q, LOW] or places[q, HIGH] > places[p, HIGH]:
        return
    shape, other = places[p, SHAPE], places[q, SHAPE]
    if shapes[shape, STEPS + 1]:  # then only a set of the same runs is surely covered
        if places[p, LOW] != places[q, LOW] or shapes[shape, RUN] != shapes[other, RUN]:
            return
        for column in range(STEPS, SHAPE_COLUMNS):
            if shapes[shape, column] != shapes[other, column]:
                return
    n.records[record, LIVE] = 0


@_compile
def _meet(v: Visits, n: Meetings, side: int, place: int) -> None:
    """Gather the live records of a place's cells that may meet it, each once, the last first."""
    count, number = 0, n.counts[ACCESSES]
    for cell in range(v.sets.places[place, CELL], v.sets.places[place, CELL_STOP]):
        behind, link = -1, n.last[side, cell]
        while link >= 0:
            record, before = n.links[link, 0], n.links[link, 1]
            if not n.records[record, LIVE]:
                if behind < 0:
                    n.last[side, cell] = before
                else:
                    n.links[behind, 1] = before
            else:
                behind = link
                if n.records[record, SEEN] != number:
                    n.records[record, SEEN] = number
                    if _may_meet(v.sets, place, n.records[record, PLACE]):
                        n.met[side, count] = record
                        count += 1
            link = before
    n.counts[side] = count


# -- sets of bytes: the questions of `systolic.isa.footprint` --------------------------------------


@_compile
def _may_meet(s: Sets, p: int, q: int) -> bool:
    """Return False only if two places surely have no byte in common."""
    places, shapes = s.places, s.shapes
    if places[p, FIRST] >= places[q, STOP] or places[q, FIRST] >= places[p, STOP]:
        return False
    if places[p, LOW] >= places[q, HIGH] or places[q, LOW] >= places[p, HIGH]:
        return False
    shape, other = places[p, SHAPE], places[q, SHAPE]
    if not shapes[shape, STEPS + 1] and not shapes[other, REPEATS]:
        return _touches(s, q, places[p, LOW], places[p, HIGH])
    if not shapes[other, STEPS + 1] and not shapes[shape, REPEATS]:
        return _touches(s, p, places[q, LOW], places[q, HIGH])
    if shapes[shape, REPEATS] or shapes[other, REPEATS]:
        return True
    mine, theirs = _runs(s, shape), _runs(s, other)
    if min(mine, theirs) > MOST_RUNS or mine + theirs > MOST_IN_ALL:
        return True
    return _run_touches(s, p, q) if mine <= theirs else _run_touches(s, q, p)


@_compile
def _runs(s: Sets, shape: int) -> int:
    found = 1
    for column in range(STEPS, SHAPE_COLUMNS, 2):
        found *= max(1, s.shapes[shape, column + 1])
    return found


@_compile
def _run_touches(s: Sets, p: int, q: int) -> bool:
    """Return whether a run of a set touches another; neither repeats a byte."""
    for number in range(_runs(s, s.places[p, SHAPE])):
        low = _start_of(s, p, number)
        high = low + s.shapes[s.places[p, SHAPE], RUN]
        if high > s.places[q, LOW] and low < s.places[q, HIGH] and _touches(s, q, low, high):
            return True
    return False


@_compile
def _start_of(s: Sets, place: int, number: int) -> int:
    """Return the first byte of a run, by its number."""
    shape, low = s.places[place, SHAPE], s.places[place, LOW]
    for column in range(STEPS, SHAPE_COLUMNS, 2):
        count = s.shapes[shape, column + 1]
        if count:
            low += number % count * s.shapes[shape, column]
            number //= count
    return int(low)


@_compile
def _touches(s: Sets, place: int, low: int, high: int) -> bool:
    """Return whether a set that repeats no byte, and begins before `high`, has one from `low`."""
    shape = s.places[place, SHAPE]
    rest = high - 1 - s.places[place, LOW]
    for pair in range(PAIRS - 1, -1, -1):
        step, count = s.shapes[shape, STEPS + 2 * pair], s.shapes[shape, STEPS + 2 * pair + 1]
        if count:
            rest -= min(rest // step, count - 1) * step
    return bool(high - 1 - rest + s.shapes[shape, RUN] > low)


@_compile
def _are_covering(v: Visits, n: Meetings, side: int, wanted: int, since: int) -> bool:
    """Return whether records have a place, each all bytes of some partitions.

    Those count that are met, later than the visit `since`, and not of the access in hand.
    """
    first, stop = v.sets.places[wanted, FIRST], v.sets.places[wanted, STOP]
    missing = stop - first
    for lane in range(first, stop):
        n.lanes[lane] = 0
    for number in range(n.counts[side]):
        record = n.met[side, number]
        cover, visit = n.records[record, PLACE], n.records[record, VISIT]
        if not since < visit < n.counts[VISITED] or not _spans_all(v.sets, cover, wanted):
            continue
        for lane in range(
            max(first, v.sets.places[cover, FIRST]), min(stop, v.sets.places[cover, STOP])
        ):
            missing -= 1 - n.lanes[lane]
            n.lanes[lane] = 1
        if missing == 0:
            return True
    return False


@_compile
def _are_filling(v: Visits, n: Meetings, wanted: int) -> bool:
    """Return whether writes that have all partitions of a place have all its bytes.

    False, too, if it takes long to tell.
    """
    lanes = v.sets.places[wanted, STOP] - v.sets.places[wanted, FIRST]
    bytes_in_all = (v.sets.places[wanted, HIGH] - v.sets.places[wanted, LOW]) * lanes
    if v.sets.shapes[v.sets.places[wanted, SHAPE], REPEATS] or bytes_in_all > MOST_BYTES:
        return False
    kept = 0
    for number in range(n.counts[WRITES]):
        cover = n.records[n.met[WRITES, number], PLACE]
        shape = v.sets.places[cover, SHAPE]
        if (
            v.sets.places[cover, FIRST] <= v.sets.places[wanted, FIRST]
            and v.sets.places[wanted, STOP] <= v.sets.places[cover, STOP]
            and not v.sets.shapes[shape, REPEATS]
            and not v.sets.shapes[shape, IS_LONG]
        ):
            n.fillers[kept] = cover
            kept += 1
    shape, looks, last, end = v.sets.places[wanted, SHAPE], 0, 0, 0
    for number in range(_runs(v.sets, shape)):
        byte = _start_of(v.sets, wanted, number)
        stop = byte + v.sets.shapes[shape, RUN]
        while byte < stop:
            for _ in range(kept):  # the one that had the byte before is asked first
                end = _end_at(v.sets, n.fillers[last], byte)
                if end > byte:
                    break
                last = last + 1 if last + 1 < kept else 0
            looks += kept
            if end <= byte or looks > MOST_LOOKS:
                return False
            byte = end
    return True


@_compile
def _end_at(s: Sets, place: int, byte: int) -> int:
    """Return the end of the run that has a byte, in a set that repeats none; 0 if it has it not."""
    shape, rest = s.places[place, SHAPE], byte - s.places[place, LOW]
    if rest < 0:
        return 0
    for pair in range(PAIRS - 1, -1, -1):
        step, count = s.shapes[shape, STEPS + 2 * pair], s.shapes[shape, STEPS + 2 * pair + 1]
        if count:
            rest -= min(rest // step, count - 1) * step
    return byte - rest + s.shapes[shape, RUN] if rest < s.shapes[shape, RUN] else 0


@_compile
def _spans_all(s: Sets, p: int, q: int) -> bool:
    """Return whether a set surely has every byte of another, partitions apart."""
    places, shapes = s.places, s.shapes
    if places[p, LOW] > places[q, LOW] or places[q, HIGH] > places[p, HIGH]:
        return False
    shape, other = places[p, SHAPE], places[q, SHAPE]
    if not shapes[shape, STEPS + 1]:
        return True
    if shapes[shape, REPEATS] or shapes[other, REPEATS] or shapes[shape, IS_LONG]:
        return False
    within = places[q, LOW] - places[p, LOW]
    reach = 0
    for pair in range(PAIRS):
        column = STEPS + 2 * pair
        reach += shapes[other, column] * (shapes[other, column + 1] - 1)
    for pair in range(PAIRS - 1, -1, -1):
        column = STEPS + 2 * pair
        step, count = shapes[shape, column], shapes[shape, column + 1]
        if not count:
            continue
        place = within // step
        within -= place * step
        taken = 1
        for its in range(STEPS, SHAPE_COLUMNS, 2):
            if shapes[other, its + 1] and shapes[other, its] == step:
                taken = shapes[other, its + 1]
        reach -= step * (taken - 1)
        if place + taken > count:
            return False
    return bool(within + reach + shapes[other, RUN] <= shapes[shape, RUN])


# -- what is found --------------------------------------------------------------------------------


@_compile
def _find(n: Meetings, kind: int, record: int, later: int) -> bool:
    """Note that an order may be missing; return whether there is room for more."""
    number = n.counts[FOUND]
    n.found[number, KIND], n.found[number, LATER] = kind, later
    n.found[number, EARLIER] = n.records[record, ACCESS]
    n.found[number, INDEX] = n.records[record, BY]
    n.counts[FOUND] += 1
    return bool(n.counts[FOUND] < len(n.found))


@_compile
def _find_covers(n: Meetings, access: int) -> bool:
    """Note that a read may find bytes that nothing has written; return whether there is room."""
    start, number, count = n.counts[COVERS], n.counts[FOUND], n.counts[WRITES]
    if start + count > len(n.covers):
        return False
    for each in range(count):
        n.covers[start + each] = n.records[n.met[WRITES, each], PLACE]
    n.counts[COVERS] += count
    n.found[number, KIND], n.found[number, LATER] = NOT_COVERED, access
    n.found[number, EARLIER], n.found[number, INDEX] = start, start + count
    n.counts[FOUND] += 1
    return bool(n.counts[FOUND] < len(n.found))
