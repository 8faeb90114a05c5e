"""`systolic trace`: one run's words or events as lines of CSV."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from systolic.cli.options import (
    ChipName,
    Config,
    EngineOption,
    Inputs,
    NoCheck,
    Overrides,
    Shapes,
    WorkOptions,
    is_program,
    run_file_overrides,
)
from systolic.errors import SystolicError, perhaps

if TYPE_CHECKING:
    from systolic.config import RunConfig
    from systolic.run.result import Result
    from systolic.trace.records import Trace

EVENTS = ("stall", "wait", "post")


def trace_command(
    config: Config,
    *,
    kind: Annotated[
        str,
        typer.Option(
            "--kind", help="load, inject, psum_write, read, write, stall, wait, post or descriptor."
        ),
    ] = "psum_write",
    engine: EngineOption = None,
    chip: ChipName = None,
    inputs: Inputs = None,
    shapes: Shapes = None,
    no_check: NoCheck = False,
    overrides: Overrides = None,
) -> None:
    """Print words, events or descriptors as CSV: cycle,unit,buffer,partition,address,value."""
    from systolic.config import load_run

    options = WorkOptions(
        engine=engine,
        chip=chip,
        inputs=inputs,
        shapes=shapes,
        overrides=overrides,
        no_check=no_check,
        values=needs_values(kind),
    )
    if is_program(config):
        from systolic.cli.run_program import prepare, run_job

        lines = lines_of(run_job(prepare(config, options), recorded(kind)), kind)
    else:
        lines = trace_lines(load_run(config, run_file_overrides(config, options)), kind)
    for line in lines:
        sys.stdout.write(line + "\n")


def trace_lines(config: RunConfig, kind: str) -> Iterator[str]:
    """Yield CSV lines of one kind of record; cycles are counted in the unit's own clock.

    Words: the address is the element's index in the partition. stall: there is a line for each
    refused cycle; its address is the bank, its value the client that had the port. wait and post:
    the address is the semaphore, the value its count; there is no buffer or partition. descriptor:
    there are two lines for each, of what it read and of what it wrote, with columns of their own
    (`systolic.run.descriptors`). Raises SystolicError if there is no such kind.
    """
    words = needs_values(kind)
    if config.sweep:
        raise SystolicError(f"{config.path}: is a sweep; --set sweep=[] traces the run it varies")
    values = words or config.engine == "register"  # that engine has no mode for times only
    from systolic.cli.heartbeat import ProgressBar
    from systolic.run.execute import run

    with ProgressBar(config.name) as progress:
        result = run(config, kinds=recorded(kind), values=values, progress=progress)
    return _lines_then_verdict(result, kind)


def _lines_then_verdict(result: Result, kind: str) -> Iterator[str]:
    """Yield all lines of a run, and at the end raise ResultError if its result is wrong."""
    from systolic.run.verdict import require_right

    yield from lines_of(result, kind)
    require_right(result.summary)


def needs_values(kind: str) -> bool:
    """Return whether that kind is told by words; SystolicError if there is no such kind."""
    from systolic.run.descriptors import KIND
    from systolic.trace.words import KINDS

    known = (*KINDS, *EVENTS, KIND)
    if kind not in known:
        raise SystolicError(
            f'--kind: there is no "{kind}" (known: {", ".join(known)}){perhaps(kind, known)}'
        )
    return kind not in EVENTS


def recorded(kind: str) -> tuple[str, ...]:
    """Return the kinds of words that a run must record to tell one kind of record."""
    from systolic.run.descriptors import KIND, WORDS_NEEDED

    if kind == KIND:
        return WORDS_NEEDED
    return () if kind in EVENTS else (kind,)


def lines_of(result: Result, kind: str) -> Iterator[str]:
    """Yield the CSV lines of one kind of record of a run."""
    from systolic.run.descriptors import KIND, csv, descriptors

    trace = result.trace
    if kind == KIND:
        return csv(descriptors(result))
    if kind not in EVENTS:
        return trace.words.of(kind).csv(trace.periods)
    return _stalls(trace) if kind == "stall" else _semaphores(trace, kind)


def _stalls(trace: Trace) -> Iterator[str]:
    from systolic.trace.records import ALL_PARTITIONS
    from systolic.trace.words import HEADER

    yield HEADER
    rows = [
        (stall.tick + i * trace.periods[stall.unit], stall.unit, stall)
        for stall in trace.stalls
        for i in range(stall.cycles)
    ]
    for tick, unit, stall in sorted(rows):
        partition = "" if stall.partition == ALL_PARTITIONS else stall.partition
        cycle = tick // trace.periods[unit]
        yield f"{cycle},{unit},{stall.buffer},{partition},{stall.bank},{stall.winner}"


def _semaphores(trace: Trace, kind: str) -> Iterator[str]:
    from systolic.trace.words import HEADER

    yield HEADER
    for event in trace.semaphores:
        if event.kind == kind:
            cycle = event.tick // trace.periods[event.unit]
            yield f"{cycle},{event.unit},,,{event.semaphore},{event.value}"
