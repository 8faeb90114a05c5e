"""A program beside itself: each core of a chip of several runs it, in DRAM of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

from systolic.hw.spec import Chip, MultiCoreChip
from systolic.hw.spec.places import core, split
from systolic.isa import Access, Buffer, ChipModule, Instruction, Module, Program, Section
from systolic.machine import Image
from systolic.trace.records import Trace

STALLED, WAITING = "stalled by ", "waiting for "
OWN_REASONS = ("issue", "fetch")


def uncoupled(chip: Chip, copies: int) -> MultiCoreChip:
    """Return a chip of so many such cores, each with a DRAM controller of its own."""
    size = chip.dram.size_bytes
    ranges = [{"dram": chip.dram, "range": (n * size, (n + 1) * size)} for n in range(copies)]
    return MultiCoreChip.model_validate(
        {"name": "uncoupled", "cores": [{"count": copies, "core": chip}], "controllers": ranges}
    )


def beside_itself(
    chip: Chip, program: Program, images: Iterable[Image], copies: int
) -> tuple[ChipModule, dict[str, list[Image]]]:
    """Return the program on each of so many cores, each in the DRAM of its own controller."""
    given, sections, contents = tuple(images), [], {}
    for number in range(copies):
        further = number * chip.dram.size_bytes
        moved = tuple([_moved(each, further) for each in program.instructions])
        at = str(core(number))
        sections.append(Section(at, Module(replace(program, instructions=moved))))
        contents[at] = [Image(_further(i.access, further), i.values) for i in given]
    return ChipModule(program.name, tuple(sections)), contents


def _moved(instruction: Instruction, further: int) -> Instruction:
    changed = {
        field.name: _further(value, further)
        for field in fields(instruction)
        if isinstance(value := getattr(instruction, field.name), Access)
    }
    return replace(instruction, **changed) if further and changed else instruction


def _further(access: Access, size_bytes: int) -> Access:
    if access.buffer is not Buffer.DRAM:
        return access
    return replace(access, start=access.start + size_bytes)


def records(trace: Trace) -> dict[str, Any]:
    """Return the records of a run of one core, in a form that `records_of` gives too."""
    return {
        "times": sorted(trace.times),
        "stalls": sorted(trace.stalls),
        "semaphores": sorted(trace.semaphores),
        "fetches": sorted(trace.fetches),
        "labels": {u: _until_idle(runs) for u, runs in trace.labels.items()},
        "ports": Counter(trace.port_cycles),
        "periods": dict(trace.periods),
        "channels": [*trace.transfers.channels.values()],
        "waits": dict(trace.transfers.waits),
    }


def records_of(
    trace: Trace, number: int, instructions: int, semaphores: int, *, cores: int
) -> dict[str, Any]:
    """Return the records of a core of several, under the names and numbers that it has alone.

    cores: how many cores there are, each with a controller of its own.
    """
    at = str(core(number))
    first, first_semaphore = number * instructions, number * semaphores

    def mine(rows: Iterable[Any]) -> list[Any]:
        return [row for row in rows if split(row.unit)[0] == at]

    def numbered(rows: Iterable[Any]) -> list[Any]:
        return sorted(
            row._replace(unit=split(row.unit)[1], instruction=row.instruction - first)
            for row in mine(rows)
        )

    stalls = [
        stall._replace(buffer=split(stall.buffer)[1], winner=split(stall.winner)[1])
        for stall in numbered(trace.stalls)
    ]
    return {
        "times": numbered(trace.times),
        "stalls": sorted(stalls),
        "semaphores": sorted(
            row._replace(unit=split(row.unit)[1], semaphore=row.semaphore - first_semaphore)
            for row in mine(trace.semaphores)
        ),
        "fetches": numbered(trace.fetches),
        "labels": {
            split(unit)[1]: _until_idle([run._replace(label=_own(run.label)) for run in runs])
            for unit, runs in trace.labels.items()
            if split(unit)[0] == at
        },
        "ports": Counter(
            {
                (split(buffer)[1], bank, direction): ticks
                for (buffer, bank, direction), ticks in trace.port_cycles.items()
                if split(buffer)[0] == at
            }
        ),
        "periods": {split(u)[1]: p for u, p in trace.periods.items() if split(u)[0] == at},
        "channels": _part(sorted(trace.transfers.channels.items()), number, cores),
        "waits": {split(u)[1]: w for u, w in trace.transfers.waits.items() if split(u)[0] == at},
    }


def _part(channels: list[tuple[int, Any]], number: int, of: int) -> list[Any]:
    """Return what belongs to one of so many equal controllers."""
    each = len(channels) // of
    return [counts for _, counts in channels[number * each : (number + 1) * each]]


def _own(label: str) -> str:
    for before in (STALLED, WAITING):
        if label.startswith(before):
            whose = label.removeprefix(before).split("+")
            return before + "+".join(one if one in OWN_REASONS else split(one)[1] for one in whose)
    return label


def _until_idle(runs: Iterable[Any]) -> list[Any]:
    """Return the labels without what a unit is at the end when others still run: idle."""
    found = list(runs)
    return found[:-1] if found and found[-1].label == "idle" else found
