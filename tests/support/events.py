"""How many events simpy serves in a run of the event engine."""

from __future__ import annotations

import pytest

from systolic.hw.spec import Chip
from systolic.isa import Program
from systolic.machine import simulate
from systolic.machine.event.ticks import TickEnvironment


def events_and_cycles(chip: Chip, program: Program) -> tuple[int, int]:
    """Run a program for times only; return the events served and the cycles it took."""
    served = 0
    step = TickEnvironment.step

    def counted(env: TickEnvironment) -> None:
        nonlocal served
        served += 1
        step(env)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TickEnvironment, "step", counted)
        cycles = simulate(chip, program, values=False).trace.cycles()
    return served, cycles
