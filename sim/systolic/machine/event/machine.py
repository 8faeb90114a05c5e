"""Twin of `register.machine`: all units of a chip around one simpy environment, run to a Trace."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

from systolic.errors import SimulationError
from systolic.hw.spec import Chip
from systolic.hw.units import dma_queue
from systolic.isa import Program
from systolic.machine.array_shape import grid_shape
from systolic.machine.event.dma.unit import DmaUnit
from systolic.machine.event.lane_engine.unit import EngineUnit
from systolic.machine.event.pe_array.row_order import form_for, in_numpy
from systolic.machine.event.pe_array.unit import PEArrayUnit
from systolic.machine.event.ports.arbiter import Arbiter
from systolic.machine.event.semaphores import Semaphores, posted_in_order
from systolic.machine.event.ticks import TickEnvironment
from systolic.machine.event.unit import Context, Unit
from systolic.machine.memory import Memory
from systolic.machine.spared import NOTHING, Spared
from systolic.progress import Progress
from systolic.trace.recorder import Recorder
from systolic.trace.records import Trace

if TYPE_CHECKING:
    from systolic.machine.event.dram.channels import Channels
    from systolic.machine.event.fetch import InstructionFetch


def run_event(
    chip: Chip,
    program: Program,
    memory: Memory,
    recorder: Recorder,
    *,
    values: bool = True,
    progress: Progress | None = None,
    shuffle: random.Random | None = None,
    spared: Spared = NOTHING,
    limit_ticks: int | None = None,
) -> Trace:
    """Run `program` and return its Trace; `memory` is changed in place.

    `spared` takes something off the machine (for times only: `values` is False then).
    `shuffle` builds the units in a random order, which must not matter (a test says so).
    Raises SimulationError on deadlock, LimitReachedError if it takes `limit_ticks` or more.
    """
    env = TickEnvironment()
    context = Context(
        env=env,
        chip=chip,
        program=program,
        memory=memory,
        recorder=recorder,
        semaphores=Semaphores(env, posted_in_order(program)),
        arbiter=_arbiter(env, chip, spared),
        is_split=chip.state_buffer.is_split,
        posters=program.posters(),
        values=values,
        product_form=form_for(program.products()) if values else in_numpy,
        on_done=_counter(len(program.instructions), progress),
        dram=_channels(chip, program, recorder),
        fetch=(fetch := _fetch(env, chip, program, recorder)),
        limit_ticks=limit_ticks,
    )
    units = _build(context, spared)
    if shuffle:
        shuffle.shuffle(units)
    for unit in units:
        env.process(unit.process())
    if fetch:
        env.process(fetch.process())
    env.run()
    context.arbiter.conclude()
    _refuse_deadlock(context, units)
    if context.dram:
        context.use_result_ports(context.dram.result_use())
        context.dram.account(recorder)
    context.account_ports()
    return recorder.finish(context.end, chip.queue_periods, grid_shape(chip))


def _arbiter(env: TickEnvironment, chip: Chip, spared: Spared) -> Arbiter:
    is_split = chip.state_buffer.is_split
    if not spared.ports:
        return Arbiter(env, is_split=is_split)
    from systolic.machine.event.ports.free_ports import FreePorts

    return FreePorts(env, is_split=is_split)


def _array(context: Context, queue: list[int], spared: Spared) -> PEArrayUnit:
    if not spared.loads:
        return PEArrayUnit(context, queue)
    from systolic.machine.event.pe_array.free_loads import FreeLoadsUnit

    return FreeLoadsUnit(context, queue)


def _channels(chip: Chip, program: Program, recorder: Recorder) -> Channels | None:
    """Return DRAM's channels if it has an organisation; else their modules are not loaded."""
    if chip.dram.organisation is None:
        return None
    from systolic.machine.event.dram.channels import channels_of

    return channels_of(chip, program, recorder)


def _fetch(
    env: TickEnvironment, chip: Chip, program: Program, recorder: Recorder
) -> InstructionFetch | None:
    """Return the fetch of instructions if the chip has one; else its module is not loaded."""
    if chip.fetch is None:
        return None
    from systolic.machine.event.fetch import InstructionFetch

    return InstructionFetch(env, chip, program, recorder, queues=program.queues())


def _build(context: Context, spared: Spared) -> list[Unit]:
    queues: defaultdict[str, list[int]] = defaultdict(list, context.program.queues())
    units: list[Unit] = [_array(context, queues["pe_array"], spared)]
    units += [EngineUnit(context, name, queues[name]) for name in context.chip.lane_engines]
    count = context.chip.dma.queues
    units += [DmaUnit(context, q, queues[dma_queue(q)]) for q in range(count)]
    return units


def _counter(total: int, progress: Progress | None) -> Callable[[], None]:
    done = 0

    def count() -> None:
        nonlocal done
        done += 1
        if progress:
            progress(done, total)

    return count


def _refuse_deadlock(context: Context, units: list[Unit]) -> None:
    stuck = [unit for unit in units if unit.place < len(unit.queue)]
    if stuck:
        raise SimulationError(
            "deadlock: " + "; ".join(sorted(_who_waits(context, unit) for unit in stuck))
        )


def _who_waits(context: Context, unit: Unit) -> str:
    index = unit.queue[unit.place]
    instruction = context.program.instructions[index]
    since = unit.cycle(unit.head_since)
    for wait in instruction.waits:
        if context.semaphores.tick_of(wait) is None:
            name = context.program.semaphores[wait.semaphore]
            count = context.semaphores.count(wait.semaphore, context.env.tick)
            return (
                f"{unit.name} waits since cycle {since} with instruction {index} "
                f"({type(instruction).__name__}) for semaphore {wait.semaphore} ({name}) to reach "
                f"{wait.value}; it stands at {count}"
            )
    raise AssertionError(f"{unit.name} stopped without waiting")
