"""Run a program of several cores on a chip: check it, fill the memories, hand it to an engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from systolic.collector import collector_at_rest
from systolic.engine_kind import EngineKind
from systolic.hw.spec import MultiCoreChip
from systolic.isa import ChipModule
from systolic.isa.joint import JointProgram
from systolic.isa.legality.chip_program import check_chip_program
from systolic.machine.memory import Image
from systolic.machine.values.chip_memory import ChipMemory
from systolic.progress import Progress
from systolic.trace.recorder import Recorder
from systolic.trace.records import Trace


@dataclass(frozen=True, eq=False)
class ChipOutcome:
    """What a run of a chip leaves: what ran, the trace, and the memories at its end."""

    joint: JointProgram
    trace: Trace
    memory: ChipMemory


def simulate_chip(
    chip: MultiCoreChip,
    module: ChipModule,
    images: Mapping[str, Iterable[Image]] | None = None,
    *,
    engine: EngineKind = "event",
    kinds: Iterable[str] = (),
    grid: bool = False,
    values: bool = True,
    progress: Progress | None = None,
) -> ChipOutcome:
    """Run a program of several cores from the given memory contents.

    Args:
        chip: the hardware.
        module: a section for each core and processor; checked for legality first.
        images: what the memories hold at cycle 0, by core ("core1"); everything else is 0.
        engine: "event" (default) or "register".
        kinds: word kinds to record (see `systolic.trace.words.KINDS`).
        grid: keep schedules and operands of the arrays.
        values: False computes times only (event engine).
        progress: called now and then with instructions done and instructions in all.

    Raises:
        ProgramError: the program is not legal on the chip.
        SimulationError: deadlock, or memory that this host cannot hold.

    """
    check_chip_program(module, chip)
    joint = JointProgram.of(module, chip)
    memory = ChipMemory(joint, images or {})
    recorder = Recorder(chip.units, frozenset(kinds), grid)
    if engine == "register":
        from systolic.machine.register.chip import run_register_chip

        trace = run_register_chip(joint, memory, recorder, progress=progress)
        return ChipOutcome(joint, trace, memory)
    from systolic.machine.event.chip.machine import run_event_chip

    with collector_at_rest():
        trace = run_event_chip(joint, memory, recorder, values=values, progress=progress)
    return ChipOutcome(joint, trace, memory)
