"""A run as a waveform, a Value Change Dump (IEEE 1364), which GTKWave and Surfer open.

Each unit is a scope of signals, and so are the semaphores and the rows of PEs; of several cores
each has a scope that holds these. Only changes are written, so the file grows with the work and not
with the cycles; there is no clock signal. Labels and names are strings (`$var string`, which the
standard lacks and viewers know), blanks as "_".
"""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count, groupby
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from systolic.array_distances import cycles_to
from systolic.trace.exports.observed import Observed, place_in
from systolic.trace.labels import LabelInterval
from systolic.trace.records import FetchTimes, InstructionTimes, SemaphoreEvent, Stall

MOST_ROW_CHANGES = 1_000_000
"""Rows of PEs are left out of a run in which they would change more often than this."""
FEMTOSECONDS_PER_MICROSECOND = 10**9
SCALES = ("1 ns", 10**6), ("100 ps", 10**5), ("10 ps", 10**4), ("1 ps", 10**3), ("1 fs", 1)
ARRAY, IDLE, STREAMING = "pe_array", "idle", "streaming"
NONE = "none"
COMMANDS = "commands"
"""The scope of what a management processor does, within the processor's scope."""
SignalChange: TypeAlias = tuple[int, str]
"""A tick, and the value from then on."""


class _Kind(NamedTuple):
    """A type of signal: as it is declared, and what stands around a value."""

    declared: str
    before: str
    after: str


WIRE = _Kind("wire 1", "", "")
NUMBER = _Kind("integer 64", "b", " ")
TEXT = _Kind("string 1", "s", " ")


@dataclass(frozen=True, eq=False)
class _Signal:
    """changes: in order of time, taken once; before the first the value is `initial`."""

    name: str
    kind: _Kind
    initial: str
    changes: Iterable[SignalChange]


class _Scope(NamedTuple):
    """Signals under a name. place: the core or processor that has them, "" if there is one core."""

    place: str
    name: str
    signals: list[_Signal]


def vcd(observed: Observed) -> Iterator[str]:
    """Yield the file line by line; changes are merged as they come, and none is held."""
    scopes = list(_scopes(observed))
    signals = [signal for scope in scopes for signal in scope.signals]
    scale, femtoseconds = _scale(observed.ticks_mhz)
    yield f"$comment {_word(observed.run)}, ticks of {observed.ticks_mhz} MHz $end\n"
    if not _rows_fit(observed):
        yield f"$comment no rows of PEs: more than {MOST_ROW_CHANGES} changes $end\n"
    yield f"$timescale {scale} $end\n"
    yield from _declarations(scopes)
    yield "#0\n$dumpvars\n"
    yield from (_line(number, each, each.initial) for number, each in enumerate(signals))
    yield "$end\n"
    for tick, lines in _changes(signals, observed.trace.ticks):
        if tick:
            time = tick * FEMTOSECONDS_PER_MICROSECOND // (observed.ticks_mhz * femtoseconds)
            yield f"#{time}\n"
        yield from lines


def _scale(ticks_mhz: int) -> tuple[str, int]:
    """Return the coarsest timescale in which a tick is a whole number, and its femtoseconds.

    If there is none, as with 6000 MHz, times are femtoseconds, rounded down.
    """
    for scale, femtoseconds in SCALES:
        if FEMTOSECONDS_PER_MICROSECOND % (ticks_mhz * femtoseconds) == 0:
            return scale, femtoseconds
    return SCALES[-1]


def _declarations(scopes: Iterable[_Scope]) -> Iterator[str]:
    number = 0
    yield "$scope module systolic $end\n"
    for place, inner in groupby(scopes, key=lambda scope: scope.place):
        if place:
            yield f"$scope module {place} $end\n"
        for scope in inner:
            yield f"$scope module {scope.name} $end\n"
            for signal in scope.signals:
                yield f"$var {signal.kind.declared} {_code(number)} {signal.name} $end\n"
                number += 1
            yield "$upscope $end\n"
        if place:
            yield "$upscope $end\n"
    yield "$upscope $end\n$enddefinitions $end\n"


def _changes(signals: list[_Signal], end: int) -> Iterator[tuple[int, list[str]]]:
    """Yield each tick in which signals change, with their lines, and at last the end.

    Of several changes of a signal in a tick the last counts.
    """
    values = [each.initial for each in signals]
    merged = heapq.merge(*(_numbered(*each) for each in enumerate(signals)), key=itemgetter(0))
    last = 0
    for tick, together in groupby(merged, key=itemgetter(0)):
        found = {number: value for _, number, value in together}
        changed = {number: found[number] for number in found if values[number] != found[number]}
        if changed:
            last = tick
            yield tick, [_line(number, signals[number], changed[number]) for number in changed]
        for number, value in changed.items():
            values[number] = value
    if last < end:
        yield end, []


def _numbered(number: int, signal: _Signal) -> Iterator[tuple[int, int, str]]:
    return ((tick, number, value) for tick, value in signal.changes)


def _line(number: int, signal: _Signal, value: str) -> str:
    return f"{signal.kind.before}{value}{signal.kind.after}{_code(number)}\n"


def _code(number: int) -> str:
    """Return the short name of a signal in the file: digits of base 94, from "!" on."""
    code = chr(33 + number % 94)
    return code if number < 94 else _code(number // 94 - 1) + code


# -- signals --------------------------------------------------------------------------------------


def _scopes(observed: Observed) -> Iterator[_Scope]:
    """Yield each scope; scopes of a core stand together."""
    units, rows_fit = _Units(observed), _rows_fit(observed)
    for place in observed.places or ("",):
        for unit in observed.trace.labels:
            if place_in(unit) == place:
                yield _Scope(place, _within(unit, place) or COMMANDS, list(units.signals(unit)))
        yield _Scope(place, "semaphores", list(_semaphores(observed, place)))
        array = f"{place}.{ARRAY}" if place else ARRAY
        if rows_fit and array in observed.shapes:
            yield _Scope(place, "pe_rows", list(_rows(observed, array)))


def _within(name: str, place: str) -> str:
    """Return the name of something in its core or processor."""
    return name.removeprefix(place).removeprefix(".") if place else name


class _Units:
    """The records of a run by unit, each in order of time."""

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._times: defaultdict[str, list[InstructionTimes]] = defaultdict(list)
        self._stalls: defaultdict[str, list[Stall]] = defaultdict(list)
        self._fetches: defaultdict[str, list[FetchTimes]] = defaultdict(list)
        for times in observed.trace.times:
            self._times[times.unit].append(times)
        for stall in observed.trace.stalls:
            self._stalls[stall.unit].append(stall)
        for fetch in observed.trace.fetches:
            self._fetches[fetch.unit].append(fetch)

    def signals(self, unit: str) -> Iterator[_Signal]:
        """Yield the signals of a unit."""
        trace, times, period = self._observed.trace, self._times[unit], self._period(unit)
        yield _Signal("state", TEXT, IDLE, _states(trace.labels[unit], period))
        spans = ((each.start, each.done + period) for each in times)
        yield _Signal("busy", WIRE, "0", _wire(spans))
        stalls = ((s.tick, s.tick + s.cycles * period) for s in self._stalls[unit])
        yield _Signal("refused", WIRE, "0", _wire(stalls))
        starts = ((each.start, f"{each.instruction:b}") for each in times)
        yield _Signal("program_counter", NUMBER, "x", starts)
        yield _Signal("instruction", TEXT, NONE, _named(times, self._observed.names))
        if self._observed.operations is not None:
            named = _named(times, self._observed.operations)
            yield _Signal("operation", TEXT, NONE, named)
        if trace.fetches:
            arrived = sorted((each.arrival, each.instruction) for each in self._fetches[unit])
            changes = ((tick, f"{instruction:b}") for tick, instruction in arrived)
            yield _Signal("fetched", NUMBER, "x", changes)

    def _period(self, unit: str) -> int:
        return self._observed.trace.periods[unit]


def _states(labels: Iterable[LabelInterval], period: int) -> Iterator[SignalChange]:
    return ((each.first * period, _word(each.label)) for each in labels)


def _named(times: Iterable[InstructionTimes], names: Sequence[str]) -> Iterator[SignalChange]:
    return ((each.start, _word(names[each.instruction])) for each in times)


def _wire(spans: Iterable[tuple[int, int]]) -> Iterator[SignalChange]:
    """Yield the changes of a wire that is 1 within spans of ticks, which may overlap.

    spans: (first, stop), in order of their firsts.
    """
    end = -1
    for first, stop in spans:
        if first > end:
            if end >= 0:
                yield end, "0"
            yield first, "1"
        end = max(end, stop)
    if end >= 0:
        yield end, "0"


def _semaphores(observed: Observed, place: str) -> Iterator[_Signal]:
    """Yield the count of each semaphore of a place, from the cycle of a post on."""
    posts: defaultdict[int, list[SemaphoreEvent]] = defaultdict(list)
    for event in observed.trace.semaphores:
        if event.kind == "post":
            posts[event.semaphore].append(event)
    numbers = [
        n for n, name in enumerate(observed.semaphores) if not place or place_in(name) == place
    ]
    names = _distinct(_within(observed.semaphores[number], place) for number in numbers)
    for number, name in zip(numbers, names, strict=True):
        counts = ((event.tick, f"{event.value:b}") for event in posts[number])
        yield _Signal(name, NUMBER, "0", counts)


def _rows(observed: Observed, array: str) -> Iterator[_Signal]:
    """Yield a wire for each row of PEs: 1 while vectors are in its first PE."""
    shape, period = observed.shapes[array], observed.trace.periods[array]
    for row in range(shape.rows):
        delay = shape.entry + cycles_to(row, shape.hop[0], shape.cell[0])
        yield _Signal(f"row{row}", WIRE, "0", _wire(_streams(observed, array, delay, period)))


def _streams(observed: Observed, array: str, delay: int, period: int) -> Iterator[tuple[int, int]]:
    """Yield the ticks in which an array streams, that many cycles later."""
    for each in observed.trace.labels[array]:
        if each.label == STREAMING:
            yield (each.first + delay) * period, (each.stop + delay) * period


def _rows_fit(observed: Observed) -> bool:
    """Return whether the rows of PEs change so seldom that they can be shown."""
    changes = (
        2 * shape.rows * sum(each.label == STREAMING for each in observed.trace.labels[array])
        for array, shape in observed.shapes.items()
    )
    return sum(changes) <= MOST_ROW_CHANGES


def _distinct(names: Iterable[str]) -> Iterator[str]:
    """Yield names as words; a name whose word another one has already gets a number behind it."""
    taken: set[str] = set()
    for name in names:
        word = _word(name)
        numbered = (f"{word}_{number}" for number in count(2))
        word = word if word not in taken else next(w for w in numbered if w not in taken)
        taken.add(word)
        yield word


@cache
def _word(text: str) -> str:
    """Return a text as one word: what is no letter, digit or one of a few signs becomes "_"."""
    return re.sub(r"[^A-Za-z0-9_.+/-]", "_", text) or "_"
