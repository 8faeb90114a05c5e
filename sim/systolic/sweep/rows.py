"""Running one point, in the process that is to run it: from its work to the row of its results.

A row is a plain dict. It has the keys `sweep` and `vary`, and either the summary of the run,
or `error` and whose `failure` it is. Nothing is printed or written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from systolic.compiler import CompiledGraph
from systolic.config import RunConfig
from systolic.engine_kind import EngineKind
from systolic.errors import SystolicError
from systolic.hw.spec import Chip
from systolic.isa import Module
from systolic.report.sweeps.pairs import PointRow
from systolic.run.execute import compile_run, run, run_compiled
from systolic.run.processes import Ended
from systolic.run.result import Result

POINT, MACHINE = "point", "machine"
"""Whose failure an error is: the point's, or the fault of the machine it ran on."""
NO_MEMORY = "this computer has too little memory for this"
RESULTS = (
    "cycles", "time_ns", "bound_cycles", "bound_why", "utilisation", "multiplying", "equal",
    "error",
)  # fmt: skip
"""The columns of results that stand in sweep.csv too."""


@dataclass(frozen=True, slots=True)
class ProgramWork:
    """A program on a chip, for its times."""

    module: Module
    chip: Chip
    engine: EngineKind


@dataclass(frozen=True, slots=True)
class PointTask:
    """A point to run, as other processes receive it.

    key: of the point. work: what is run. compiled_for: the run whose program is taken, with its
    key; None if the work is compiled itself.
    """

    key: str
    work: RunConfig | ProgramWork
    compiled_for: tuple[str, RunConfig] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a run gave: its results as the inside of a JSON object, without sweep and varied keys.

    failure: "" of a run that went well. is_wrong: its result is not what the reference says.
    """

    results: bytes
    failure: str = ""
    is_wrong: bool = False


@dataclass(frozen=True, slots=True)
class PointManner:
    """How points are run. values: False for times only. summaries: keep whole summaries."""

    values: bool
    summaries: bool = False


def answer(task: PointTask, manner: PointManner) -> Answer:
    """Run a point; never raises but for Ctrl-C."""
    found = _caught(lambda: _result(task, manner.values))
    program = "once" if task.compiled_for else "each"
    if isinstance(found, dict):
        return failed(found["error"], found["failure"], program)
    summary = found.summary
    results = {**flat(summary), "program": program}
    if manner.summaries:
        results["summary"] = json.dumps(summary)
    equal = summary.get("values", {}).get("equal")
    return Answer(_inside(results), is_wrong=equal is False)


def failed(error: str, failure: str, program: str = "each") -> Answer:
    """Return the answer for a point that could not be run."""
    row = {"error": " ".join(error.split()), "failure": failure, "program": program}
    return Answer(_inside(row), failure)


def ended_text(ended: Ended) -> str:
    """Return the error of a point whose processes were ended from outside."""
    return (
        f"the process that ran this was ended from outside {ended.times} times (too little memory?)"
    )


def _inside(row: Mapping[str, Any]) -> bytes:
    """Return a row as the inside of a JSON object; what is no finite number is null."""
    finite = {k: None if isinstance(v, float) and not isfinite(v) else v for k, v in row.items()}
    return json.dumps(finite, separators=(",", ":"), allow_nan=False).encode()[1:-1]


def _result(task: PointTask, values: bool) -> Result:
    work = task.work
    if isinstance(work, ProgramWork):
        return run(work.module, work.chip, engine=work.engine)
    if task.compiled_for is None:
        return run(work, values=values)
    return run_compiled(work, _compiled(*task.compiled_for), values=values)


_programs: dict[str, CompiledGraph] = {}
MOST_PROGRAMS = 4


def _compiled(key: str, config: RunConfig) -> CompiledGraph:
    """Return the program of a run; this process keeps the last few."""
    if key not in _programs:
        if len(_programs) >= MOST_PROGRAMS:
            del _programs[next(iter(_programs))]
        _programs[key] = compile_run(config)
    return _programs[key]


def _caught(result: Callable[[], Result]) -> Result | dict[str, str]:
    """Return the result of a run, or the `error` that it ended with and whose `failure` it is."""
    try:
        return result()
    except SystolicError as error:
        return {"error": str(error), "failure": POINT}
    except MemoryError:
        return {"error": NO_MEMORY, "failure": MACHINE}
    except OSError as error:
        return {"error": str(error), "failure": MACHINE}
    except Exception as error:
        if os.environ.get("SYSTOLIC_DEBUG") == "1":
            raise
        text = f"a bug in systolic: {type(error).__name__}: {error}"
        return {"error": text, "failure": POINT}


# -- columns --------------------------------------------------------------------------------------

NOT_COUNTS = {
    "run", "chip", "engine", "schema", "version", "config", "overrides", "files", "options",
    "inputs", "outputs", "stalls", "on_chip", "operations", "checker", "layouts", "values", "bound",
    "ports",
}  # fmt: skip
"""Keys of a summary that are no counts of the run, or that `flat` treats by themselves."""


def flat(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a run: as in sweep.csv, then every count of its summary.

    The name of a count is its path in the summary, such as "transfers.descriptors". Those of a
    unit's labels are "units.pe_array.streaming". Those of ports are sums over the banks of a
    buffer: "ports.state_buffer.read". Counts of the operations of a graph are in its summary only.
    A program has no shares of the array, because nobody says what of its multiplies work needs.
    """
    bound, values = summary["bound"], summary.get("values", {})
    row = {
        "cycles": summary["cycles"],
        "time_ns": summary["time_ns"],
        "bound_cycles": bound["cycles"],
        "bound_why": bound["why"],
        "utilisation": summary.get("utilisation"),
        "multiplying": summary.get("multiplying"),
        "equal": values.get("equal"),
    }
    row |= _ports(summary.get("ports", {}))
    row |= dict(_counts("", {k: v for k, v in summary.items() if k not in NOT_COUNTS}))
    row |= dict(_counts("values", values))
    return row


def _counts(path: str, found: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(found, bool) or not isinstance(found, int | float | Mapping):
        return
    if isinstance(found, Mapping):
        for key, value in found.items():
            inner = path if key == "labels" else f"{path}.{key}" if path else str(key)
            yield from _counts(inner, value)
    else:
        yield path, found


def _ports(ports: Mapping[str, Mapping[str, Mapping[str, int]]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for buffer, banks in ports.items():
        for bank in banks.values():
            for direction, count in bank.items():
                name = f"ports.{buffer}.{direction}"
                found[name] = found.get(name, 0) + count
    return found


# -- rows with whole summaries --------------------------------------------------------------------


def summary_row(row: PointRow, task: PointTask, values: bool) -> PointRow:
    """Return the row of a point: its sweep and varied values, and its summary or its error."""
    found = _caught(lambda: _result(task, values))
    if isinstance(found, dict):
        return {**row, "error": found["error"]}
    return {**row, **found.summary}
