"""Why a system takes its cycles: the way of the last arrival, summed up by link and reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from systolic.errors import SimulationError
from systolic.network.path import WayStep, last_way
from systolic.run.system import System, run_system


@dataclass(frozen=True, slots=True)
class WayRow:
    """Cycles of the way that were spent at a link for a reason; link "" between messages."""

    cycles: int
    link: str
    reason: str


@dataclass(frozen=True, slots=True)
class SystemExplanation:
    """rows: the costliest first; their cycles add up to the run's. steps: in time."""

    run: str
    cycles: int
    messages: int
    rows: tuple[WayRow, ...]
    steps: tuple[WayStep, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        steps = [each._asdict() for each in self.steps]
        return {
            "run": self.run,
            "cycles": self.cycles,
            "rows": [asdict(row) for row in self.rows],
            "steps": steps,
        }


def explain_system(system: System) -> SystemExplanation:
    """Return why a system takes its cycles; the system is run for it, every hop recorded."""
    result = run_system(system, hops=True)
    steps = last_way(system.network, system.traffic, result.outcome)
    spent = Counter[tuple[int, str]]()
    for step in steps:
        spent[step.link, step.reason] += step.stop - step.first
    if sum(spent.values()) != result.outcome.ticks:
        raise SimulationError(f"{system.name}: the way of the last arrival has a gap")
    links = system.network.links
    rows = tuple(
        WayRow(cycles, f"{number}: {links[number]}" if number >= 0 else "", reason)
        for (number, reason), cycles in sorted(spent.items(), key=lambda item: (-item[1], item[0]))
    )
    messages = len({step.message for step in steps})
    return SystemExplanation(system.name, result.outcome.ticks, messages, rows, tuple(steps))
