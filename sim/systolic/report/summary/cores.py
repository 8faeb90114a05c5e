"""What each core of a chip did with its time, and the bytes that went between places.

A core is busy while its array or an engine works. Else it waits: for the link while one of its
queues moves bytes to or from another core, for DRAM while one moves bytes of it, for another core
while a unit waits for a post from there. What is neither is idle. Not here: how units spent theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from systolic.arrays import Array
from systolic.errors import SimulationError
from systolic.trace.records import Trace

CopyWay = Literal["dram", "link", "core"]
WAITS = "waiting for "
STATES = ("busy", "link", "dram", "other_core")


class Moved(NamedTuple):
    """A copy of a run: its instruction, its feeder, its way, and the bytes of each target."""

    instruction: int
    feeder: str
    way: CopyWay
    sent: tuple[int, ...]
    written: tuple[int, ...]


def traffic(copies: Sequence[Moved], trace: Trace) -> dict[str, int]:
    """Return the bytes sent, received and written by all copies; bytes of a second target again.

    Raises:
        SimulationError: they differ, which would be a mistake of the simulator.

    """
    again = sum(sum(copy.sent[1:]) for copy in copies)
    found = {
        "sent_bytes": sum(sum(copy.sent) for copy in copies),
        "received_bytes": trace.transfers.moved_bytes + again,
        "written_bytes": sum(sum(copy.written) for copy in copies),
    }
    if len(set(found.values())) > 1:
        raise SimulationError(f"bytes of copies: {found} should be one number")
    return found


TickStretch = tuple[int, int]


def core_times(
    cores: Sequence[str], copies: Iterable[Moved], trace: Trace
) -> dict[str, dict[str, int]]:
    """Return, by core, its cycles in each of the STATES and idle; they sum to the run."""
    found = core_stretches(cores, copies, trace)
    return {core: _cycles(found[core], core, trace) for core in cores}


def _cycles(
    stretches: Mapping[str, Sequence[TickStretch]], core: str, trace: Trace
) -> dict[str, int]:
    period = trace.periods[f"{core}.pe_array"]
    state = np.full(-(-trace.ticks // period), len(STATES), np.int64)
    for number, name in reversed([*enumerate(STATES)]):
        _paint(state, stretches[name], number, period)
    counted = np.bincount(state, minlength=len(STATES) + 1).tolist()
    return dict(zip((*STATES, "idle"), counted, strict=True))


def core_stretches(
    cores: Sequence[str], copies: Iterable[Moved], trace: Trace
) -> dict[str, dict[str, list[TickStretch]]]:
    """Return, by core, the ticks of each of the STATES; an earlier state counts where two meet."""
    moving: dict[tuple[str, CopyWay], list[tuple[int, int]]] = {}
    times = {each.instruction: each for each in trace.times}
    for copy in copies:
        if copy.instruction in times:
            one = times[copy.instruction]
            stop = one.done + trace.periods[one.unit]
            moving.setdefault((copy.feeder, copy.way), []).append((one.start, stop))
    return {core: _of_core(core, moving, trace) for core in cores}


def _of_core(
    core: str, moving: Mapping[tuple[str, CopyWay], list[TickStretch]], trace: Trace
) -> dict[str, list[TickStretch]]:
    busy, others = list(moving.get((core, "core"), ())), list[tuple[int, int]]()
    for unit, labels in trace.labels.items():
        if not unit.startswith(f"{core}.") or unit.startswith(f"{core}.dma"):
            continue
        period = trace.periods[unit]
        for first, stop, label in labels:
            stretch = first * period, stop * period
            if label.startswith(WAITS):
                if _is_elsewhere(core, label):
                    others.append(stretch)
            elif label != "idle":
                busy.append(stretch)
    link, dram = moving.get((core, "link"), []), moving.get((core, "dram"), [])
    return {"busy": busy, "link": link, "dram": dram, "other_core": others}


def _is_elsewhere(core: str, label: str) -> bool:
    """Return whether all that a unit waits for is in another core, or a processor."""
    names = label.removeprefix(WAITS).split("+")
    return all(
        not name.startswith(f"{core}.") and name.startswith(("core", "processor")) for name in names
    )


def _paint(state: Array, stretches: Iterable[tuple[int, int]], number: int, period: int) -> None:
    for first, stop in stretches:
        state[first // period : -(-stop // period)] = number
