"""A run for Perfetto and chrome://tracing, as JSON of the Trace Event Format.

Tracks: for each unit its labels, and its instructions as slices; semaphores as counters; operations
as slices; arrows from posts to waits. Slices of one track never overlap in part: instructions that
do stand on tracks beside one another. A tick is written as a microsecond, a whole number: viewers
round what is finer than a nanosecond, and then slices would overlap. With one clock it is a cycle.
"""

from __future__ import annotations

import heapq
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from systolic.trace.exports.observed import Observed, place_in
from systolic.trace.records import InstructionTimes

UNITS, OPERATIONS, SEMAPHORES, PLACES = 1, 2, 3, 10
"""Numbers of the groups of tracks ("processes"); of several cores each has one, from PLACES on."""
IDLE = "idle"
TraceEvent = dict[str, Any]


class _Slice(NamedTuple):
    """A name on a track, from tick `first` to before tick `stop`."""

    first: int
    stop: int
    name: str
    args: dict[str, Any]
    instruction: int = -1


def perfetto(observed: Observed) -> Iterator[str]:
    """Yield the file line by line; no event is held."""
    yield '{"displayTimeUnit": "ns", "traceEvents": [\n'
    first = True
    for event in _events(observed):
        yield ("" if first else ",\n") + json.dumps(event)
        first = False
    yield "\n]}\n"


def _events(observed: Observed) -> Iterator[TraceEvent]:
    scale = f"1 us is a tick of {observed.ticks_mhz} MHz"
    for place in observed.places or ("",):
        name = (
            f"{place} of {observed.run} ({scale})"
            if place
            else f"units of {observed.run} ({scale})"
        )
        yield _named("process_name", _group(observed, place), 0, name)
    tracks = _Tracks(observed)
    for unit in observed.trace.labels:
        yield from tracks.of_unit(unit)
    if observed.operations is not None:
        yield _named("process_name", OPERATIONS, 0, "operations")
        yield from tracks.of_operations()
    yield _named("process_name", SEMAPHORES, 0, "semaphores")
    yield from _counters(observed)
    yield from tracks.arrows()


def _group(observed: Observed, place: str) -> int:
    """Return the number of the group of a core or processor; of one core the units' group."""
    return PLACES + observed.places.index(place) if place else UNITS


def _named(kind: str, group: int, track: int, name: str) -> TraceEvent:
    return {"ph": "M", "name": kind, "pid": group, "tid": track, "args": {"name": name}}


class _Tracks:
    """The tracks so far, and on which of them each instruction stands."""

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._track = 0
        self._of: dict[int, int] = {}
        self._groups: dict[int, int] = {}
        self._times: defaultdict[str, list[InstructionTimes]] = defaultdict(list)
        for times in observed.trace.times:
            self._times[times.unit].append(times)

    def of_unit(self, unit: str) -> Iterator[TraceEvent]:
        """Yield the labels of a unit, and beside them its instructions."""
        labels = (each for each in self._labels(unit) if each.name != IDLE)
        group = _group(self._observed, place_in(unit))
        yield from self._put(group, unit, labels)
        for part in self._observed.parts_of(unit):
            yield from self._put(
                group, part or f"{unit} instructions", self._instructions(unit, part)
            )

    def of_operations(self) -> Iterator[TraceEvent]:
        """Yield each operation, from the first start of its instructions to their last end."""
        observed, spans = self._observed, dict[str, tuple[int, int]]()
        assert observed.operations is not None
        for times in observed.trace.times:
            name = observed.operations[times.instruction]
            stop = times.done + observed.trace.periods[times.unit]
            first, last = spans.get(name, (times.start, stop))
            spans[name] = min(first, times.start), max(last, stop)
        slices = [_Slice(first, stop, name, {}) for name, (first, stop) in spans.items()]
        yield from self._put(OPERATIONS, "operations", sorted(slices, key=lambda s: s.first))

    def arrows(self) -> Iterator[TraceEvent]:
        """Yield an arrow for each post that a start waited for."""
        for number, arrow in enumerate(self._observed.arrows()):
            ends = ("s", arrow.poster, arrow.posted), ("f", arrow.waiter, arrow.started)
            for phase, instruction, tick in ends:
                yield {
                    "ph": phase,
                    "id": number,
                    "name": "semaphore",
                    "cat": "semaphore",
                    "bp": "e",
                    "pid": self._groups[instruction],
                    "tid": self._of[instruction],
                    "ts": tick,
                }

    def _labels(self, unit: str) -> Iterator[_Slice]:
        period = self._observed.trace.periods[unit]
        for first, stop, label in self._observed.trace.labels[unit]:
            yield _Slice(first * period, stop * period, label, {"cycle": first})

    def _instructions(self, unit: str, part: str) -> Iterator[_Slice]:
        """Yield the instructions of a part of a unit."""
        observed, period = self._observed, self._observed.trace.periods[unit]
        for times in self._times[unit]:
            index = times.instruction
            if observed.part_of(unit, index) != part:
                continue
            args: dict[str, Any] = {
                "instruction": index,
                "cycle": times.start // period,
                "first": times.first // period,
                "last": times.last // period,
            }
            if observed.operations is not None:
                args["operation"] = observed.operations[index]
            name = f"{observed.names[index]} #{index}"
            yield _Slice(times.start, times.done + period, name, args, index)

    def _put(self, group: int, name: str, slices: Iterable[_Slice]) -> Iterator[TraceEvent]:
        """Yield slices on as many tracks as are needed, the first that is free for each.

        slices: in order of time, as instructions of a queue start, so that none need be held.
        """
        free: list[int] = []
        busy: list[tuple[int, int]] = []
        base = self._track
        for each in slices:
            while busy and busy[0][0] <= each.first:
                heapq.heappush(free, heapq.heappop(busy)[1])
            if not free:
                self._track += 1
                heapq.heappush(free, self._track)
                beside = self._track - base
                title = name if beside == 1 else f"{name} ({beside})"
                yield _named("thread_name", group, self._track, title)
            track = heapq.heappop(free)
            heapq.heappush(busy, (each.stop, track))
            self._of[each.instruction] = track
            self._groups[each.instruction] = group
            yield {
                "ph": "X",
                "name": each.name,
                "pid": group,
                "tid": track,
                "ts": each.first,
                "dur": each.stop - each.first,
                "args": each.args,
            }


def _counters(observed: Observed) -> Iterator[TraceEvent]:
    """Yield the count of each semaphore after every post."""
    for event in observed.trace.semaphores:
        if event.kind == "post":
            name = observed.semaphores[event.semaphore]
            yield {
                "ph": "C",
                "name": name,
                "pid": SEMAPHORES,
                "id": event.semaphore,
                "ts": event.tick,
                "args": {"count": event.value},
            }
