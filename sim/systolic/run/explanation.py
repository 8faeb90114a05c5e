"""Why a run takes its cycles: the critical path by reason and operation, links, slack, what if.

Everything but "what if" is derived from the records of the finished run. Not here: the path itself
(`systolic.critical_path`), how it is printed (`systolic.cli.explain`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from systolic.critical_path.causes import Causes
from systolic.critical_path.path import Link, critical_path, in_cycles
from systolic.critical_path.points import Lives
from systolic.critical_path.several import JointLives
from systolic.critical_path.slack import slacks
from systolic.run.chip_what_if import chip_what_if
from systolic.run.copy_times import SHARING, CopyTimes
from systolic.run.result import Result
from systolic.run.what_if import Outlook, what_if

MOST_LINKS = 10


@dataclass(frozen=True, slots=True)
class PathRow:
    """Cycles of the critical path with one unit, for one reason, in one operation."""

    unit: str
    reason: str
    operation: str | None
    cycles: int


@dataclass(frozen=True, slots=True)
class LongLink:
    """A stretch of the path with one instruction, from cycle `start` to before cycle `end`.

    reasons: cycles by reason; they sum to end - start. shared_with: of a copy that shared a
    bandwidth, the copies it shared it with, the one that was there longest first.
    """

    instruction: int
    name: str
    unit: str
    start: int
    end: int
    reason: str
    reasons: dict[str, int]
    operation: str | None
    shared_with: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class UnitSlack:
    """Slack of the instructions of a unit, in cycles of the array.

    on_path: instructions with a link. critical: instructions without slack. ties: critical ones
    beside the path, through which another path is as long. median, most: of the others.
    """

    unit: str
    instructions: int
    on_path: int
    critical: int
    ties: int
    least: int
    median: int
    most: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a run takes its cycles; cycles are cycles of the array's clock.

    path: the rows sum to `cycles`, the longest first. links: the longest. outlooks: the run with
    one thing made ideal, for each such thing; empty if that was not asked for. operations: the
    records of the summary, which say what is transposed on the way; none of a program.
    """

    run: str
    chip: str
    cycles: int
    path: tuple[PathRow, ...]
    links: tuple[LongLink, ...]
    slack: tuple[UnitSlack, ...]
    outlooks: tuple[Outlook, ...]
    operations: tuple[Mapping[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain values."""
        return {
            "run": self.run,
            "chip": self.chip,
            "cycles": self.cycles,
            "path": [_plain(row) for row in self.path],
            "links": [_plain(link) for link in self.links],
            "slack": [_plain(row) for row in self.slack],
            "transposed": [
                {"operation": each["name"], "streamed_vectors": each["streamed_vectors"], **one}
                for each in self.operations
                for one in each["transposed"]
            ],
            "what_if": [
                {
                    "change": each.change.what,
                    "cycles": each.cycles,
                    "percent": round(100 * (each.cycles - self.cycles) / max(1, self.cycles), 1),
                    "program": each.program,
                    "keys": each.change.keys,
                    "already": each.already,
                }
                for each in self.outlooks
            ],
        }


def explain(result: Result, *, outlooks: bool = True) -> Explanation:
    """Return why a run takes its cycles. outlooks: also simulate the run with each ideal.

    The run may have been for times only.
    """
    lives = lives_of(result)
    causes = Causes(lives)
    copies = CopyTimes(lives)
    links = critical_path(causes, copies.spent)
    operations = _operations(result)
    period = result.trace.periods[result.trace.array]
    return Explanation(
        run=result.summary["run"],
        chip=result.chip.name,
        cycles=result.cycles,
        path=tuple(_rows(links, operations, period)),
        links=tuple(_longest(links, operations, period, copies)),
        slack=tuple(_slack(causes, links, period)),
        outlooks=tuple(_outlooks(result, links)) if outlooks else (),
        operations=tuple(result.summary.get("operations", ())),
    )


def _outlooks(result: Result, links: list[Link]) -> list[Outlook]:
    if result.several is None:
        return what_if(result)
    reasons = [reason for link in links for reason in link.reasons]
    return chip_what_if(result, frozenset(word for each in reasons for word in each.split()))


def lives_of(result: Result) -> Lives:
    """Return what the instructions of a finished run did, on one core or on several."""
    if result.several is not None:
        return JointLives(result.several, result.trace)
    return Lives(result.chip, result.program, result.trace)


def _operations(result: Result) -> tuple[str, ...] | None:
    """Return the operation of each instruction; None if the work was a program."""
    return tuple(result.compiled.synchronised.layers) if result.compiled else None


def _of(operations: tuple[str, ...] | None, index: int) -> str | None:
    return None if operations is None else operations[index]


def _rows(links: list[Link], operations: tuple[str, ...] | None, period: int) -> list[PathRow]:
    parts = [(link, reason, ticks) for link in links for reason, ticks in link.reasons.items()]
    found = Counter[tuple[str, str, str | None]]()
    cycles = in_cycles([ticks for _, _, ticks in parts], period)
    for (link, reason, _), each in zip(parts, cycles, strict=True):
        found[link.unit, reason, _of(operations, link.instruction)] += each
    rows = [PathRow(*key, each) for key, each in found.items() if each]
    return sorted(rows, key=lambda row: -row.cycles)


def _longest(
    links: list[Link], operations: tuple[str, ...] | None, period: int, copies: CopyTimes
) -> list[LongLink]:
    longest = sorted(links, key=lambda link: (link.first - link.stop, link.first))[:MOST_LINKS]
    return [
        LongLink(
            instruction=link.instruction,
            name=type(copies.lives.instruction(link.instruction)).__name__,
            unit=link.unit,
            start=-(-link.first // period),
            end=-(-link.stop // period),
            reason=link.reason,
            reasons=_in_cycles(link, period),
            operation=_of(operations, link.instruction),
            shared_with=_sharers(link, copies),
        )
        for link in longest
    ]


def _sharers(link: Link, copies: CopyTimes) -> tuple[int, ...]:
    if not any(reason.startswith(SHARING) for reason in link.reasons):
        return ()
    found = copies.sharers(link.instruction)
    return tuple(sorted(found, key=lambda other: -copies.together(link.instruction, other)))


def _in_cycles(link: Link, period: int) -> dict[str, int]:
    each = in_cycles([link.first, *link.reasons.values()], period)[1:]
    return dict(zip(link.reasons, each, strict=True))


def _slack(causes: Causes, links: list[Link], period: int) -> list[UnitSlack]:
    lives = causes.lives
    found, on_path = slacks(causes), {link.instruction for link in links}
    rows = []
    for unit, queue in sorted(lives.queues.items(), key=lambda item: _place(lives, item[0])):
        others = [found[index] // period for index in queue if found[index] >= period]
        rows.append(
            UnitSlack(
                unit=unit,
                instructions=len(queue),
                on_path=len(on_path.intersection(queue)),
                critical=len(queue) - len(others),
                ties=sum(found[i] < period for i in queue if i not in on_path),
                least=min(others, default=0),
                median=int(median(others)) if others else 0,
                most=max(others, default=0),
            )
        )
    return rows


def _place(lives: Lives, unit: str) -> int:
    return [*lives.trace.periods].index(unit)


def _plain(row: PathRow | LongLink | UnitSlack) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__slots__}
