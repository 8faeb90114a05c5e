"""A graph run on both engines, which must agree with numpy and with one another."""

from __future__ import annotations

from typing import Any

import systolic
from systolic.hw.spec import Chip
from systolic.run.result import Result
from systolic.workload import Graph


def run_on_both_engines(graph: Graph, chip: Chip, inputs: dict[str, Any]) -> Result:
    """Return the event engine's result: values are numpy's, cycles agree and keep the bound."""
    event, register = (
        systolic.run(graph, chip, inputs, engine=engine) for engine in ("event", "register")
    )
    assert event.summary["values"]["equal"]
    assert register.summary["values"]["equal"]
    assert event.cycles == register.cycles
    assert event.cycles >= event.summary["bound"]["cycles"]
    return event
