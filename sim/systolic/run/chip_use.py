"""How the cores, links and controllers of a chip of several cores were used in a finished run."""

from __future__ import annotations

from collections.abc import Iterator

from systolic.critical_path.several import JointLives
from systolic.isa import DmaCopy
from systolic.report.plots.subject import ChipUse, WayUse
from systolic.report.summary.cores import core_stretches
from systolic.run.chip_program import moved
from systolic.run.result import Result


def chip_use(result: Result) -> ChipUse:
    """Return how a chip of several cores was used."""
    joint = result.several
    assert joint is not None
    chip, trace = joint.chip, result.trace
    cores = [f"core{number}" for number in range(chip.core_count)]
    lives = JointLives(joint, trace)
    uses = list(_uses(lives))
    wires = chip.interconnect
    per_tick = 0.0 if wires is None else wires.bytes_per_cycle / chip.interconnect_period
    names = sorted({use.name for use in uses if not use.name.startswith("controller")})
    capacity = dict.fromkeys(names, per_tick)
    for number, dram in enumerate(chip.controller_drams):
        capacity[f"controller{number}"] = dram.bytes_per_cycle / chip.core_chips[0].period("dma")
    return ChipUse(core_stretches(cores, moved(joint), trace), uses, capacity)


def _uses(lives: JointLives) -> Iterator[WayUse]:
    """Yield what each copy moves over each link; its bytes are dealt out among its controllers."""
    for index, times in lives.times.items():
        copy = lives.instruction(index)
        if not isinstance(copy, DmaCopy):
            continue
        names = lives.way_names(index)
        stop = times.done + lives.period(index)
        many = sum(name.startswith("controller") for name in names)
        for name in names:
            size = copy.source.size_bytes
            yield WayUse(
                name, times.first, stop, size // many if name.startswith("controller") else size
            )
