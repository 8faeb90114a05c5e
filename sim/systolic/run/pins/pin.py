"""A pin: what is expected of a run, with the reason for it and the chip that it was counted on.

A pin holds the run's cycles; the cycles of each label of each unit, so that a difference names the
unit that moved; the cycles of each operation, of a graph that has several; its tier; and the reason
for the number. The tier "operation" means one multiplication, "program" means more than one, and
"system" means messages on a network. The tier "unit" is in tests/machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from systolic.config.dump import toml_text
from systolic.hw.spec import Chip, MultiCoreChip
from systolic.report.summary.layers import has_layers
from systolic.run.result import Result
from systolic.run.system import SystemResult
from systolic.run.utilisation import multiplies

PinnedChip = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Pin:
    """The counts of a run.

    units: cycles by unit and label. operations: cycles by name; None says nothing of them.
    tolerance: by key of a count, the cycles that it may be off (`systolic.run.pins.compare`).
    chip: the chip's tables without the keys that have their defaults; None says nothing of it.
    """

    tier: str
    reason: str
    cycles: int
    units: Mapping[str, Mapping[str, int]]
    operations: Mapping[str, int] | None = None
    tolerance: Mapping[str, int] = field(default_factory=dict)
    chip: PinnedChip | None = None


def pin_of(result: Result, reason: str, *, with_chip: bool) -> Pin:
    """Return the pin that a finished run is as it should be."""
    summary = result.summary
    count = summary.get("sub_blocks", multiplies(summary["instructions"]))
    return Pin(
        tier="operation" if count == 1 else "program",
        reason=reason,
        cycles=summary["cycles"],
        units={unit: spent["labels"] for unit, spent in summary["units"].items()},
        operations={each["name"]: each["cycles"] for each in summary["operations"]}
        if has_layers(summary)
        else None,
        chip=chip_tables(result.several.chip if result.several else result.chip)
        if with_chip
        else None,
    )


def pin_of_system(result: SystemResult, reason: str) -> Pin:
    """Return the pin that a finished run of a system is as it should be.

    The links are one unit, in cycles of all of them; packets and their hops are operations.
    """
    outcome = result.outcome
    spent = {"sending": sum(outcome.busy_cycles), "blocked": sum(outcome.blocked_cycles)}
    return Pin(
        tier="system",
        reason=reason,
        cycles=outcome.ticks,
        units={"links": spent},
        operations={"packets": outcome.packets, "packet_hops": outcome.packet_hops},
    )


TOLD = {"description", "provenance"}
"""What a chip file tells its readers; no cycle depends on it."""


def chip_tables(chip: Chip | MultiCoreChip) -> dict[str, Any]:
    """Return the tables of a chip file without the keys that have their defaults."""
    return chip.model_dump(mode="json", exclude_none=True, exclude_defaults=True, exclude=TOLD)


def chip_changes(pinned: Chip | MultiCoreChip, found: Chip | MultiCoreChip) -> list[str]:
    """Return the keys of a chip file that have changed, each with both values."""
    before, after = (
        dict(flat(chip.model_dump(mode="json", exclude=TOLD))) for chip in (pinned, found)
    )
    return [
        f"{'.'.join(key)} {_shown(before.get(key))} -> {_shown(after.get(key))}"
        for key in {**before, **after}
        if before.get(key) != after.get(key)
    ]


def _shown(value: Any) -> str:
    return "none" if value is None else toml_text(value)


def flat(tables: PinnedChip, inside: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the values of tables in tables, each with its keys from the outermost in."""
    for key, value in tables.items():
        if isinstance(value, Mapping):
            yield from flat(value, (*inside, key))
        else:
            yield (*inside, key), value
