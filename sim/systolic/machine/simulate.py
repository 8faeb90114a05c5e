"""Run a Program on a chip: check it, fill the memories, hand it to one of the two engines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from systolic.collector import collector_at_rest
from systolic.engine_kind import EngineKind
from systolic.hw.spec import Chip
from systolic.isa import Program, check_program
from systolic.machine.memory import Image, Memory
from systolic.machine.spared import NOTHING, Spared
from systolic.trace.recorder import Recorder
from systolic.trace.records import Trace


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run leaves: the trace, and the memories as they stand at its end."""

    trace: Trace
    memory: Memory


def simulate(
    chip: Chip,
    program: Program,
    images: Iterable[Image] = (),
    *,
    engine: EngineKind = "event",
    kinds: Iterable[str] = (),
    grid: bool = False,
    values: bool = True,
    progress: Callable[[int, int], None] | None = None,
    spared: Spared = NOTHING,
    limit_ticks: int | None = None,
) -> Outcome:
    """Run `program` on `chip` from the given memory contents.

    Args:
        chip: the hardware.
        program: instructions for all its queues; checked for legality first.
        images: what the memories hold at cycle 0; everything else is 0.
        engine: "event" (default) or "register" (every register of every PE, every cycle).
        kinds: word kinds to record (see `systolic.trace.words.KINDS`).
        grid: keep schedules and operands, from which any cycle's grid can be drawn.
        values: False computes times only (event engine); memories then keep their images.
        progress: called now and then with instructions done and instructions in all.
        spared: what the machine is spared (event engine, times only).
        limit_ticks: a run that takes as many ticks is stopped (as `spared`).

    Raises:
        ProgramError: the program is not legal on the chip.
        SimulationError: deadlock, or memory that this host cannot hold.
        LimitReachedError: the run takes `limit_ticks` or more.

    """
    if (spared != NOTHING or limit_ticks is not None) and (values or engine == "register"):
        raise ValueError(
            "only the event engine can be spared anything, or stopped, and only for times"
        )
    check_program(program, chip)
    memory = Memory(chip, program, images)
    recorder = Recorder(chip.units, frozenset(kinds), grid)
    if engine == "register":
        from systolic.machine.register import run_register

        return Outcome(run_register(chip, program, memory, recorder, progress=progress), memory)
    from systolic.machine.event import run_event

    with collector_at_rest():  # a run has many objects, and leaves no cycles of references
        trace = run_event(
            chip,
            program,
            memory,
            recorder,
            values=values,
            progress=progress,
            spared=spared,
            limit_ticks=limit_ticks,
        )
    return Outcome(trace, memory)
