"""How two runs differ: by unit, label, kind of instruction and operation, and where it begins.

Each side is a finished run, or the summary of one. A summary has no times of instructions, so of
summaries the first instruction that differs cannot be told. Nothing is run or printed here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from systolic.critical_path.causes import Causes
from systolic.critical_path.path import critical_path
from systolic.critical_path.points import Lives
from systolic.errors import SystolicError, listed, shortened
from systolic.isa import Instruction
from systolic.report.summary.wording import number
from systolic.run.again import summary_object
from systolic.run.copy_times import CopyTimes
from systolic.run.explanation import lives_of
from systolic.run.provenance import SCHEMA
from systolic.run.result import Result
from systolic.trace.records import EXCLUSIVE

OfBoth = tuple[int, int]
RowKey = TypeVar("RowKey")
NEEDED = ("cycles", "units", "instructions")
MOST_PARTS = 3
"""The most parts of a change of the critical path that are named."""


@dataclass(frozen=True, eq=False)
class Compared:
    """One of the two: its name for messages, its summary, and the run if there is one."""

    name: str
    summary: Mapping[str, Any]
    result: Result | None = None

    @cached_property
    def lives(self) -> Lives | None:
        """Return what the instructions did; None for a summary."""
        found = self.result
        return None if found is None else lives_of(found)


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """The first instruction, in time, whose times differ, by its number in A, and why."""

    instruction: int
    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs. Each table holds only rows that differ; pairs are of A and of B.

    cycles: of both runs. units: cycles by unit and label. instructions: how many, by kind.
    operations: cycles by operation. path: cycles of the critical path by unit and reason.
    """

    cycles: OfBoth
    units: Mapping[str, Mapping[str, OfBoth]]
    instructions: Mapping[str, OfBoth]
    operations: Mapping[str, OfBoth]
    path: Mapping[tuple[str, str], OfBoth]
    first: FirstDifference | None

    @property
    def equal(self) -> bool:
        """Return whether nothing differs: cycles, labels, counts, and times if they are known."""
        tables = self.units, self.instructions, self.operations
        return self.cycles[0] == self.cycles[1] and not any(tables) and self.first is None

    def to_dict(self) -> dict[str, Any]:
        """Return the difference as plain values."""
        first = self.first
        return {
            "equal": self.equal,
            "cycles": list(self.cycles),
            "units": {
                unit: {label: list(pair) for label, pair in labels.items()}
                for unit, labels in self.units.items()
            },
            "instructions": {kind: list(pair) for kind, pair in self.instructions.items()},
            "operations": {name: list(pair) for name, pair in self.operations.items()},
            "path": [
                {"unit": unit, "reason": reason, "cycles": list(pair)}
                for (unit, reason), pair in self.path.items()
            ],
            "first": first
            and {"instruction": first.instruction, "name": first.name, "why": first.why},
        }


def summary_side(path: Path) -> Compared:
    """Return the side of a summary.json; SystolicError if it is none that can be compared."""
    found = summary_object(path)
    if "points" in found:
        raise SystolicError(f"{path}: is the summary of a sweep; needed that of one run")
    if found.get("schema") != SCHEMA:
        has = found.get("schema")
        raise SystolicError(
            f"{path}: is of summary schema {has}; needed schema {SCHEMA}, which this systolic reads"
            if isinstance(has, int)
            else f"{path}: is no summary.json: needed a key schema"
        )
    if not isinstance(found.get("cycles"), int) or not all(
        isinstance(found.get(key), dict) for key in NEEDED[1:]
    ):
        raise SystolicError(f"{path}: is no summary of a run: needed {', '.join(NEEDED)}")
    return Compared(str(path), found)


@contextmanager
def of_summaries(*paths: Path) -> Iterator[None]:
    """Blame the summaries among files for what is missing or of another kind in them.

    A summary is a file of the user's like any other: what reads an entry of it may find anything.
    """
    blamed = [str(path) for path in paths if path.suffix.lower() == ".json" or path.is_dir()]
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if not blamed:
            raise
        what = shortened(f"{type(error).__name__}: {error}")
        raise SystolicError(
            f"{' or '.join(blamed)}: is no summary as systolic writes it ({what})"
        ) from None


def difference(a: Compared, b: Compared) -> Difference:
    """Return how two runs differ."""
    found = Difference(
        cycles=(a.summary["cycles"], b.summary["cycles"]),
        units=dict(_units(a.summary["units"], b.summary["units"])),
        instructions=_pairs(a.summary["instructions"], b.summary["instructions"]),
        operations=_pairs(_operations(a), _operations(b)),
        path={},
        first=None,
    )
    if a.lives is None or b.lives is None:
        return found
    path = _pairs(_path(a.lives), _path(b.lives))
    pair = _first_pair(a.lives, b.lives)
    if pair is None:
        return replace(found, path=path)
    name = type(a.lives.instruction(pair[0])).__name__
    why = f"{_total(found.cycles, path)}, from {name} #{pair[0]} on: {_why(a.lives, b.lives, pair)}"
    return replace(found, path=path, first=FirstDifference(pair[0], name, why))


# -- tables ---------------------------------------------------------------------------------------


def _pairs(a: Mapping[RowKey, int], b: Mapping[RowKey, int]) -> dict[RowKey, OfBoth]:
    """Return what differs, with 0 where a side has no such key."""
    both = {key: (a.get(key, 0), b.get(key, 0)) for key in {**a, **b}}
    return {key: pair for key, pair in both.items() if pair[0] != pair[1]}


def _units(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, OfBoth]]]:
    for unit in {**a, **b}:
        labels = [side.get(unit, {}).get("labels", {}) for side in (a, b)]
        if found := _pairs(*labels):
            yield unit, found


def _operations(side: Compared) -> dict[str, int]:
    return {each["name"]: each["cycles"] for each in side.summary.get("operations", ())}


def _path(lives: Lives) -> Counter[tuple[str, str]]:
    """Return the critical path by unit and reason, in cycles of the array, rounded down."""
    ticks = Counter[tuple[str, str]]()
    for link in critical_path(Causes(lives), CopyTimes(lives).spent):
        for reason, each in link.reasons.items():
            ticks[link.unit, reason] += each
    period = lives.trace.periods[lives.trace.array]
    return Counter({key: each // period for key, each in ticks.items()})


# -- the first instruction that differs -----------------------------------------------------------


def _first_pair(a: Lives, b: Lives) -> tuple[int, int] | None:
    """Return the two instructions, of one place in one queue, that differ first in time."""
    found = []
    for place, queue in enumerate({**a.queues, **b.queues}):
        mine, theirs = a.queues.get(queue, []), b.queues.get(queue, [])
        for one, other in zip(mine, theirs, strict=False):
            if (tick := _parting(a, b, one, other)) is not None:
                found.append((tick, place, one, other))
                break
    return min(found)[2:] if found else None


def _parting(a: Lives, b: Lives, one: int, other: int) -> float | None:
    """Return about when two instructions part, in cycles of the array of A; None if they do not."""
    times = _cycles(a, one), _cycles(b, other)
    differ = [min(mine, theirs) for mine, theirs in zip(*times, strict=True) if mine != theirs]
    if not differ:
        return None
    return min(differ) * a.period(one) / a.trace.periods[a.trace.array]


def _cycles(lives: Lives, index: int) -> tuple[int, ...]:
    """Return start, first, last and end of an instruction in cycles of its unit."""
    times, period = lives.times[index], lives.period(index)
    return tuple(tick // period for tick in (times.start, times.first, times.last, times.done))


# -- why ------------------------------------------------------------------------------------------


def _total(cycles: OfBoth, path: Mapping[tuple[str, str], OfBoth]) -> str:
    """Return the change of the run's length, and where on the critical path it is."""
    change = cycles[1] - cycles[0]
    parts = sorted(path.items(), key=lambda item: -abs(item[1][1] - item[1][0]))
    if not parts:
        return f"{_signed(change)} cycles"
    if len(parts) == 1 and change:
        (unit, reason), _ = parts[0]
        return f"{_signed(change)} cycles, all in {unit} {reason}"
    named = (f"{_signed(b - a)} {unit} {reason}" for (unit, reason), (a, b) in parts)
    return f"{_signed(change)} cycles (critical path: {listed(named, MOST_PARTS)})"


def _signed(change: int) -> str:
    return f"{'-' if change < 0 else '+'}{number(abs(change))}"


def _why(a: Lives, b: Lives, pair: tuple[int, int]) -> str:
    """Return in what two instructions differ: themselves, how long they took, or their start."""
    one, other = pair
    if _bare(a.instruction(one)) != _bare(b.instruction(other)):
        kind = type(b.instruction(other)).__name__
        return f"another instruction stands there, {kind} #{other}"
    starts = _cycles(a, one)[0], _cycles(b, other)[0]
    if starts[0] != starts[1]:
        change = "later" if starts[1] > starts[0] else "earlier"
        before, now = _cause(a, one), _cause(b, other)
        waited = f"it waits for {now}{', as' if now == before else f', and for {before}'} in A"
        return f"it starts {number(abs(starts[1] - starts[0]))} cycles {change}; {waited}"
    spent = _pairs(_spent(a, one), _spent(b, other))
    return ", ".join(_part(a, b, pair, reason, each) for reason, each in spent.items())


def _bare(instruction: Instruction) -> Instruction:
    return replace(instruction, waits=(), posts=())


def _spent(lives: Lives, index: int) -> dict[str, int]:
    """Return by reason what an instruction did from its start to its end, in its cycles."""
    found = Counter[str]()
    for stint in lives.stints(lives.end(index)):
        found[stint.reason] += (stint.stop - stint.first) // lives.period(index)
    return found


def _part(a: Lives, b: Lives, pair: tuple[int, int], reason: str, cycles: OfBoth) -> str:
    text = f"{_signed(cycles[1] - cycles[0])} {reason}"
    lives, index = (b, pair[1]) if cycles[1] > cycles[0] else (a, pair[0])
    stall = next(
        (s for s in lives.stalls.get(index, ()) if f"stalled by {s.winner}" == reason), None
    )
    if stall is None:
        return text
    bank = "" if stall.direction == EXCLUSIVE else f" bank {stall.bank}"
    return f"{text} at {stall.buffer}{bank} ({stall.direction})"


def _cause(lives: Lives, index: int) -> str:
    """Return the last cause of a start in words."""
    cause = Causes(lives).last(index)
    if cause is None:
        return "nothing"
    if cause.point is None:
        return cause.reason
    before = cause.point.instruction
    name = f"{type(lives.instruction(before)).__name__} #{before}"
    return (
        f"{name} of its own queue" if lives.times[before].unit == lives.times[index].unit else name
    )
