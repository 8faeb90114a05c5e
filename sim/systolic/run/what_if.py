"""What a run would take if one thing were ideal: a table of changes, each simulated on its own.

A change is a change of the chip, or it spares the machine something that no chip can spare it, such
as refused ports. Most changes keep the program as it is; a row says if the compiler makes another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from systolic.compiler import compile_graph
from systolic.hw.spec import Chip
from systolic.isa import LoadWeights, Program
from systolic.machine import simulate
from systolic.machine.spared import NOTHING, Spared
from systolic.run.judge import judge_on
from systolic.run.result import Result

ChipTables = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ideal:
    """One thing made ideal.

    what: in words. keys: of the chip file that are changed, or "" if no key can say it. edit:
    changes the tables of a chip. recompiles: the compiler makes another program for the new chip.
    """

    what: str
    keys: str
    edit: Callable[[Chip, ChipTables], None] = lambda chip, tables: None
    spared: Spared = NOTHING
    recompiles: bool = False


class ChipChange(Protocol):
    """What a report says of a change: an `Ideal`, or one of a chip of several cores."""

    @property
    def what(self) -> str:
        """Return the change in words."""

    @property
    def keys(self) -> str:
        """Return the keys of the chip file that are changed, or ""."""

    @property
    def recompiles(self) -> bool:
        """Return whether the compiler makes another program for the new chip."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a run would take with a change; already: the chip is so, nothing was simulated."""

    change: ChipChange
    cycles: int
    already: bool

    @property
    def program(self) -> str:
        """Return which program was simulated."""
        return "recompiled" if self.change.recompiles else "same program"


def _no_latency(chip: Chip, tables: ChipTables) -> None:
    tables["dma"]["latency_cycles"] = tables["dram"]["latency_cycles"] = 0


def _all_of_dram(chip: Chip, tables: ChipTables) -> None:
    """Give each of two shares of every queue all that an engine can move."""
    wide = 2 * chip.dma.queues * chip.dma.lone_bytes_per_cycle
    narrow = chip.dram.organisation is not None or chip.dram.bytes_per_cycle < wide
    if narrow:
        tables["dram"] |= {"organisation": None, "bytes_per_cycle": wide}


def _quick_semaphores(chip: Chip, tables: ChipTables) -> None:
    tables |= {"semaphore_cycles": 1, "handoff_cycles": {}}


def _wide_engines(chip: Chip, tables: ChipTables) -> None:
    """Double the rates of each engine, unless ports of the state buffer could not carry that."""
    listed = tables if chip.engines is None else tables["engines"]
    for name in chip.lane_engines:
        before = listed[name]
        rates = [{**rate, "elements": 2 * rate["elements"]} for rate in before["rates"]]
        wide = {"elements_per_cycle": 2 * before["elements_per_cycle"], "rates": rates}
        listed[name] = {**before, **wide}
        try:
            Chip.model_validate(tables)
        except ValueError:
            listed[name] = before


def _no_fetch(chip: Chip, tables: ChipTables) -> None:
    tables["fetch"] = None


def _more_banks(chip: Chip, tables: ChipTables) -> None:
    tables["result_buffer"]["banks"] *= 2


CHANGES = (
    Ideal(
        "DMA latency 0", "dma.latency_cycles, dram.latency_cycles", _no_latency
    ),
    Ideal(
        "DRAM bandwidth unlimited", "dram.bytes_per_cycle, dram.organisation", _all_of_dram
    ),
    Ideal("no port conflicts", "", spared=Spared(ports=True)),
    Ideal("semaphores 1 cycle", "semaphore_cycles, handoff_cycles", _quick_semaphores),
    Ideal("weights loaded for free", "", spared=Spared(loads=True)),
    Ideal("engines twice as wide", "elements_per_cycle, rates of every engine", _wide_engines),
    Ideal("instructions there at once", "fetch", _no_fetch),
    Ideal("twice the PSUM banks", "result_buffer.banks", _more_banks, recompiles=True),
)  # fmt: skip


def what_if(result: Result) -> list[Outlook]:
    """Return what a run would take with each change, the shortest first.

    A program has no compiler behind it, so changes that need another program are left out.
    """
    changes = [each for each in CHANGES if result.compiled or not each.recompiles]
    found = [_outlook(result, change) for change in changes]
    return sorted(found, key=lambda outlook: outlook.cycles)


def _outlook(result: Result, change: Ideal) -> Outlook:
    chip = changed(result.chip, change)
    if chip == result.chip and not _spares(result, change.spared):
        return Outlook(change, result.cycles, already=True)
    program = _recompiled(result, chip) if change.recompiles else result.program
    trace = simulate(chip, program, values=False, spared=change.spared).trace
    return Outlook(change, trace.cycles(), already=False)


def changed(chip: Chip, change: Ideal) -> Chip:
    """Return the chip with the change."""
    tables = chip.model_dump(exclude={"provenance"})  # which may speak of a key that is changed
    change.edit(chip, tables)
    return Chip.model_validate(tables).model_copy(update={"provenance": chip.provenance})


def _spares(result: Result, spared: Spared) -> bool:
    """Return whether what is spared is there in the run: refused ports, or loads."""
    return (spared.ports and bool(result.trace.stalls)) or (
        spared.loads and any(isinstance(each, LoadWeights) for each in result.program.instructions)
    )


def _recompiled(result: Result, chip: Chip) -> Program:
    compiled = result.compiled
    assert compiled is not None
    return compile_graph(
        compiled.program.name, compiled.graph, chip, compiled.options, judge=judge_on(chip)
    ).program
