"""`systolic trace`: one run's words or events as lines of CSV."""

from __future__ import annotations

from collections.abc import Iterator

from systolic.config import RunConfig
from systolic.errors import SystolicError, perhaps
from systolic.run.execute import run
from systolic.run.result import Result
from systolic.run.verdict import require_right
from systolic.trace.records import Trace
from systolic.trace.words import KINDS

HEADER = "cycle,unit,partition,address,value"
EVENTS = ("stall", "wait", "post")


def trace_lines(config: RunConfig, kind: str) -> Iterator[str]:
    """Yield CSV lines of one kind of record; cycles are the unit's own, events have no partition.

    Words: address is the element's index in the partition. stall: a row for each refused cycle,
    address is the bank, value the client that had it. wait and post: address is the semaphore,
    value its count. Raises SystolicError if there is no such kind.
    """
    words = needs_values(kind)
    if config.sweep:
        raise SystolicError(f"{config.path}: is a sweep; --set sweep=[] traces the run it varies")
    values = words or config.engine == "register"  # which has no mode for times only
    result = run(config, kinds=(kind,) if words else (), values=values)
    return _lines_then_verdict(result, kind)


def _lines_then_verdict(result: Result, kind: str) -> Iterator[str]:
    """Yield all lines of a run; then raise ResultError if its result is wrong."""
    yield from lines_of(result.trace, kind)
    require_right(result.summary)


def needs_values(kind: str) -> bool:
    """Return whether records of that kind are words; SystolicError if there is no such kind."""
    known = (*KINDS, *EVENTS)
    if kind not in known:
        raise SystolicError(
            f'--kind: there is no "{kind}" (known: {", ".join(known)}){perhaps(kind, known)}'
        )
    return kind in KINDS


def lines_of(trace: Trace, kind: str) -> Iterator[str]:
    """Yield the CSV lines of one kind of record of a trace."""
    if kind in KINDS:
        return trace.words.of(kind).csv(trace.periods)
    return _stalls(trace) if kind == "stall" else _semaphores(trace, kind)


def _stalls(trace: Trace) -> Iterator[str]:
    yield HEADER
    rows = [
        (stall.tick + i * trace.periods[stall.unit], stall.unit, stall.bank, stall.winner)
        for stall in trace.stalls
        for i in range(stall.cycles)
    ]
    for tick, unit, bank, winner in sorted(rows):
        yield f"{tick // trace.periods[unit]},{unit},,{bank},{winner}"


def _semaphores(trace: Trace, kind: str) -> Iterator[str]:
    yield HEADER
    for event in trace.semaphores:
        if event.kind == kind:
            cycle = event.tick // trace.periods[event.unit]
            yield f"{cycle},{event.unit},,{event.semaphore},{event.value}"
