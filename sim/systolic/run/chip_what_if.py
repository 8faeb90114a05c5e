"""What a run of several cores would take if one thing of the chip were better.

Each change is one of the chip's tables, and is simulated on its own with the same program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from systolic.hw.spec import Chip, MultiCoreChip
from systolic.machine.simulate_chip import simulate_chip
from systolic.machine.spared import NOTHING
from systolic.run.result import Result
from systolic.run.what_if import CHANGES, ChipTables, Ideal, Outlook, changed

Edit = Callable[[MultiCoreChip, ChipTables], None]


@dataclass(frozen=True, slots=True)
class ChipIdeal:
    """One thing of a chip of several cores made better; as `Ideal` of a chip of one."""

    what: str
    keys: str
    edit: Edit
    recompiles: bool = False


def chip_what_if(result: Result, names: frozenset[str]) -> list[Outlook]:
    """Return what a run would take with each change, the shortest first.

    names: of the links and controllers that the critical path goes through.
    """
    found = [_outlook(result, change) for change in _changes(result, names)]
    return sorted(found, key=lambda outlook: outlook.cycles)


def _changes(result: Result, names: frozenset[str]) -> Iterator[ChipIdeal]:
    joint = result.several
    assert joint is not None
    chip = joint.chip
    if chip.interconnect is not None:
        for times, word in ((2, "twice"), (4, "four times")):
            yield ChipIdeal(
                f"links {word} as wide", "interconnect.bytes_per_cycle", _wide_links(times)
            )
        yield ChipIdeal(
            "hops 0 cycles", "interconnect.hop_cycles, interconnect.post_cycles", _no_hops
        )
    yield from _wider_controllers(chip, names)
    if chip.processors:
        yield ChipIdeal(
            "commands and starts 1 cycle",
            "processors.command_cycles, processors.start_cycles",
            _quick_commands,
        )
    for change in CHANGES:
        if change.spared == NOTHING and not change.recompiles:
            yield ChipIdeal(change.what, change.keys, _everywhere(change))


def _wide_links(times: int) -> Edit:
    def edit(chip: MultiCoreChip, tables: ChipTables) -> None:
        tables["interconnect"]["bytes_per_cycle"] *= times

    return edit


def _no_hops(chip: MultiCoreChip, tables: ChipTables) -> None:
    tables["interconnect"] |= {"hop_cycles": 0, "post_cycles": 0}


def _quick_commands(chip: MultiCoreChip, tables: ChipTables) -> None:
    for each in tables["processors"]:
        each |= {"command_cycles": {}, "start_cycles": 1}


def _wider_controllers(chip: MultiCoreChip, names: frozenset[str]) -> Iterator[ChipIdeal]:
    """Yield all controllers twice as wide, and each by itself that the path goes through.

    Those whose DRAM has an organisation must be alike.
    """
    keys, many = "controllers.dram.bytes_per_cycle", len(chip.controllers and chip.controller_drams)
    if many:
        what = "controllers" if many > 1 else "controller0"
        yield ChipIdeal(f"{what} twice as wide", keys, _wide_controllers(range(many)))
    for number, dram in enumerate(chip.controller_drams if many > 1 else ()):
        if f"controller{number}" in names and dram.organisation is None:
            what = f"controller{number} twice as wide"
            yield ChipIdeal(what, keys, _wide_controllers(range(number, number + 1)))


def _wide_controllers(numbers: range) -> Edit:
    def edit(chip: MultiCoreChip, tables: ChipTables) -> None:
        single = [
            {**table, "count": 1, "dram": dict(table["dram"])}
            for table in tables["controllers"]
            for _ in range(table["count"])
        ]
        for number in numbers:
            single[number]["dram"]["bytes_per_cycle"] *= 2
        tables["controllers"] = single

    return edit


def _everywhere(change: Ideal) -> Edit:
    """Return a change of a chip of one core made on all cores, and on what else has such keys."""

    def edit(chip: MultiCoreChip, tables: ChipTables) -> None:
        for entry, table in zip(chip.cores, tables["cores"], strict=True):
            table["core"] = _dumped(changed(entry.core, change))
        for table in tables["controllers"]:
            table["dram"] = _changed_dram(chip, change, table["dram"])
        for spec in tables["processors"]:
            _change_processor(chip.cores[0].core, change, spec)

    return edit


def _changed_dram(chip: MultiCoreChip, change: Ideal, dram: dict[str, Any]) -> dict[str, Any]:
    """Return the table of a controller's DRAM after the change, as on a chip of one core.

    Unlimited is what the queues of all cores can move.
    """
    one = chip.cores[0].core
    tables = {**_dumped(one), "dram": dict(dram)}
    change.edit(one.model_copy(update={"dram": type(one.dram).model_validate(dram)}), tables)
    found: dict[str, Any] = tables["dram"]
    if found["bytes_per_cycle"] != dram["bytes_per_cycle"]:
        queues = sum(dma.queues * dma.lone_bytes_per_cycle for _, dma in chip.feeders)
        found["bytes_per_cycle"] = 2 * queues
    return found


def _change_processor(one: Chip, change: Ideal, spec: dict[str, Any]) -> None:
    tables = {**_dumped(one), "semaphore_cycles": spec["semaphore_cycles"]}
    if spec["dma"] is not None:
        tables["dma"] = spec["dma"]
    change.edit(one, tables)
    spec["semaphore_cycles"] = tables["semaphore_cycles"]


def _dumped(chip: Chip) -> ChipTables:
    return chip.model_dump(exclude={"provenance"})


def _outlook(result: Result, change: ChipIdeal) -> Outlook:
    joint = result.several
    assert joint is not None
    tables = joint.chip.model_dump(
        exclude={"provenance": True, "cores": {"__all__": {"core": {"provenance"}}}}
    )
    before = MultiCoreChip.model_validate(tables)
    change.edit(joint.chip, tables)
    chip = MultiCoreChip.model_validate(tables)
    if _flat(chip) == _flat(before):
        return Outlook(change, result.cycles, already=True)
    trace = simulate_chip(chip, joint.module, values=False).trace
    return Outlook(change, trace.cycles(), already=False)


def _flat(chip: MultiCoreChip) -> tuple[Any, ...]:
    """Return all of a chip, whatever tables say the same."""
    rest = chip.model_dump(exclude={"controllers", "provenance"})
    return rest, chip.controller_drams
