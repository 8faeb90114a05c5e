"""One core of a chip of several, as views of a core are given it: under the names it has alone.

What other cores and processors move into its buffers, or out of them, is among its instructions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np

from systolic.critical_path.several import JointLives
from systolic.hw.spec.places import split
from systolic.isa import Access, Buffer, DmaCopy, MatMul
from systolic.isa.streaming import streaming
from systolic.report.plots.subject import Multiply, PlotRun, Touch
from systolic.run.lifetimes import lifetimes
from systolic.run.observe import observed
from systolic.run.result import Result
from systolic.run.snapshot import grid_of
from systolic.trace.records import Trace
from systolic.trace.words import WordTable

Of = TypeVar("Of")
"""What is known of a unit."""


def core_run(result: Result, core: str) -> PlotRun:
    """Return what views are given of a core ("core1") of a run of several."""
    joint = result.several
    assert joint is not None
    number = int(core.removeprefix("core"))
    own = joint.chip.core_chips[number]
    chip = own.model_copy(update={"name": f"{core} of {result.chip.name}"})
    chip = chip.on_chip(own.dram, joint.chip.ticks_mhz)
    lives, trace = JointLives(joint, result.trace), _core_trace(result, core)

    def accesses(index: int) -> Iterator[tuple[Access, bool]]:
        return _accesses(lives, index, core)

    return PlotRun(
        summary=result.summary,
        chip=chip,
        observed=replace(observed(result), trace=trace, shapes={"pe_array": trace.grid.shape}),
        touches=lambda: [
            Touch(index, str(a.buffer), is_write, a.lanes, a.span, a.size_bytes)
            for index in lives.times
            for a, is_write in accesses(index)
        ],
        multiplies=lambda: [
            Multiply(
                index,
                each.moving.partitions * each.result.partitions,
                each.vectors,
                streaming(each, own.pe_array).vector_cycles,
            )
            for index, each in enumerate(joint.program.instructions)
            if isinstance(each, MatMul) and str(lives.place(index)) == core
        ],
        lives=lambda: lifetimes(joint.program, chip, trace, accesses),
    )


def _accesses(lives: JointLives, index: int, core: str) -> Iterator[tuple[Access, bool]]:
    """Yield what an instruction reads and writes of a core's buffers; its own copies also of DRAM.

    True stands for a write.
    """
    is_own = str(lives.place(index)) == core
    instruction = lives.instruction(index)
    for is_write in (False, True):
        for name, access in lives.touched(index, is_read=not is_write):
            is_dram = access.buffer is Buffer.DRAM and isinstance(instruction, DmaCopy)
            if is_own if is_dram else split(name)[0] == core:
                yield access, is_write


def _core_trace(result: Result, core: str) -> Trace:
    """Return the records of a core, under the names that it has alone.

    Copies of others that reach its buffers are among them, and keep their names: ``core0.dma1``.
    """
    trace, joint = result.trace, result.several
    assert joint is not None
    lives = JointLives(joint, trace)

    def local(name: str) -> str:
        place, rest = split(name)
        return rest if place == core else name

    def is_mine(name: str) -> bool:
        return split(name)[0] == core

    def own(of_unit: Mapping[str, Of]) -> dict[str, Of]:
        return {local(unit): each for unit, each in of_unit.items() if is_mine(unit)}

    rows, units = trace.words.rows, trace.words.units
    mine = [number for number, name in enumerate(units) if is_mine(name)]
    return replace(
        trace,
        periods={local(unit): period for unit, period in trace.periods.items()},
        labels=own(trace.labels),
        times=tuple(
            each._replace(unit=local(each.unit))
            for each in trace.times
            if is_mine(each.unit) or any(_accesses(lives, each.instruction, core))
        ),
        stalls=tuple(
            each._replace(
                unit=local(each.unit), buffer=local(each.buffer), winner=local(each.winner)
            )
            for each in trace.stalls
            if is_mine(each.buffer)
        ),
        semaphores=tuple(
            each._replace(unit=local(each.unit)) for each in trace.semaphores if is_mine(each.unit)
        ),
        port_cycles={
            (local(buffer), bank, direction): ticks
            for (buffer, bank, direction), ticks in trace.port_cycles.items()
            if is_mine(buffer)
        },
        words=WordTable(rows[np.isin(rows["unit"], mine)], tuple(map(local, units))),
        grid=grid_of(result, core),
        transfers=replace(trace.transfers, waits=own(trace.transfers.waits)),
        fetches=tuple(
            each._replace(unit=local(each.unit)) for each in trace.fetches if is_mine(each.unit)
        ),
    )
