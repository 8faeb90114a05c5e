"""The summary of a run: one dict of plain values, exactly what summary.json holds.

The parts come from the trace, the verdict and the bound; nothing is measured or judged here. The
accounting law (the labels of each unit sum to the length of the run) is checked on the way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol

from systolic.report.summary.transfers import transfer_record
from systolic.trace.labels import tally
from systolic.trace.records import Trace


class Timed(Protocol):
    """What the summary asks of a chip, of one core or of several."""

    @property
    def name(self) -> str:
        """Return its name."""

    @property
    def ticks_mhz(self) -> int:
        """Return its ticks in a microsecond."""


def summarize(
    *,
    run: str,
    chip: Timed,
    engine: str,
    trace: Trace,
    instructions: Mapping[str, int],
    blocks: int | None = None,
    sub_blocks: int | None = None,
    array_multiplies: int | None = None,
    values: Mapping[str, Any] | None = None,
    bound: Mapping[str, Any] | None = None,
    layouts: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the summary of a run.

    Args:
        run: name of the run.
        chip: the hardware it ran on.
        engine: "event" or "register".
        trace: what was observed.
        instructions: how many of each kind were executed, by class name.
        blocks: blocks the work was cut into (equation 1).
        sub_blocks: multiplications these were cut into.
        array_multiplies: passes in which the array streamed vectors, of a chip that has several.
        values: checked, equal, max_abs_error, differs_from_numpy.
        bound: cycles and why.
        layouts: source, result (shapes as XLA writes them) and blocks (the same as tiles of it).

    Returns:
        A dict with keys in the order of the source, without those whose value is None. A program
        written by hand, for example, has no blocks, bound or reference. `cycles` are counted in
        the array's clock, also under `ports`; under `units` and `stalls` in the unit's own clock.
        Where each partition has ports of its own (`port_scope`), the cycles of all are added up.

    Raises:
        SimulationError: the labels of a unit do not sum to the length of the run.

    """
    found = {
        "run": run,
        "chip": chip.name,
        "engine": engine,
        "cycles": trace.cycles(),
        "time_ns": trace.ticks * 1000 / chip.ticks_mhz,
        "blocks": blocks,
        "sub_blocks": sub_blocks,
        "array_multiplies": array_multiplies,
        "layouts": layouts and dict(layouts),
        "instructions": dict(sorted(instructions.items())),
        "units": {unit: _unit(trace, unit) for unit in trace.labels},
        "ports": _ports(trace),
        "stalls": _stalls(trace),
        "transfers": transfer_record(trace.transfers),
        "values": values and dict(values),
        "bound": bound and dict(bound),
    }
    return {key: value for key, value in found.items() if value is not None}


def _unit(trace: Trace, unit: str) -> dict[str, Any]:
    total = trace.cycles(unit)
    return {"total": total, "labels": tally(trace.labels[unit], total, unit)}


def _ports(trace: Trace) -> dict[str, dict[str, dict[str, int]]]:
    """Return {buffer: {bank: {"read": cycles, "write": cycles}}} of the banks in use."""
    period = trace.periods[trace.array]
    ports: dict[str, dict[str, dict[str, int]]] = {}
    for (buffer, bank, direction), ticks in sorted(trace.port_cycles.items()):
        if ticks:
            busy = ports.setdefault(str(buffer), {}).setdefault(str(bank), {"read": 0, "write": 0})
            busy[direction] = -(-ticks // period)
    return ports


def _stalls(trace: Trace) -> list[dict[str, Any]]:
    """Return the refused ports, summed over the run, the costliest first."""
    cycles: Counter[tuple[str, str, int, str, str]] = Counter()
    for s in trace.stalls:
        cycles[s.unit, s.buffer, s.bank, s.direction, s.winner] += s.cycles
    names = ("unit", "buffer", "bank", "direction", "winner")
    ranked = sorted(cycles.items(), key=lambda item: (-item[1], item[0]))
    return [dict(zip(names, key, strict=True)) | {"cycles": n} for key, n in ranked]
