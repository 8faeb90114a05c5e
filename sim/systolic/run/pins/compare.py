"""A run against its pin: is it as pinned, and if not, what moved, by how much, and why?

A pin's tolerance has keys for counts: `cycles`, `units.UNIT.LABEL`, `operations.NAME`, and for all
counts of a table `units`, `units.UNIT` and `operations`. Of several keys that fit a count the
longest says how many cycles it may be off. A count without a key may not be off at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from systolic.config.chip_file import any_chip_of_tables
from systolic.errors import ConfigError, SystolicError
from systolic.hw.spec import Chip, MultiCoreChip
from systolic.run.difference import Compared, difference
from systolic.run.pins.pin import Pin, chip_changes, pin_of, pin_of_system
from systolic.run.pins.works import PinnedSystem, PinnedWork
from systolic.run.result import Result

CountsByTable = Mapping[str, Mapping[str, int]]
OPERATIONS = "operations"


@dataclass(frozen=True, slots=True)
class Finding:
    """One run compared: the text to print, and whether the counts are as pinned.

    is_new: the run has no pin yet. found, pinned: the counts; None if there are none.
    """

    name: str
    text: str
    ok: bool
    is_new: bool = False
    found: Pin | None = None
    pinned: Pin | None = None


def judge(work: PinnedWork | PinnedSystem, pinned: Pin | None) -> Finding:
    """Do a run and compare it with its pin; what has moved is explained as far as it can be."""
    if isinstance(work, PinnedSystem):
        return compare(work.name, pinned, pin_of_system(work.run(), work.reason))
    return judged(work, pinned, work.run())


def judged(work: PinnedWork, pinned: Pin | None, result: Result) -> Finding:
    """Compare a run that has been done with its pin.

    Raises:
        ConfigError: the pin is of a chip of another name.

    """
    found = pin_of(result, work.reason, with_chip=not work.is_point)
    _refuse_another_chip(work, pinned)
    finding = compare(work.name, pinned, found)
    if finding.ok or pinned is None:
        return finding
    why = "".join(f"\n  {line}" for line in _why(work, pinned, result))
    return replace(finding, text=f"{finding.text}{why}")


def compare(name: str, pinned: Pin | None, found: Pin) -> Finding:
    """Return whether a run is as pinned; if not, what moved and by how much.

    A pin without operations says nothing of them.
    """
    if pinned is None:
        text = f"{name}: {found.cycles} cycles, not pinned"
        return Finding(name, text, ok=False, is_new=True, found=found)
    moved = list(_moves(pinned.units, found.units, pinned, "units."))
    if pinned.operations is not None:
        sides = {OPERATIONS: pinned.operations}, {OPERATIONS: found.operations or {}}
        moved += _moves(*sides, pinned, "")
    ok = not moved and not _is_off("cycles", pinned, found.cycles - pinned.cycles)
    text = "\n  ".join([f"{name}: {_cycles(pinned, found, ok=ok)}", *moved])
    return Finding(name, text, ok=ok, found=found, pinned=pinned)


def _cycles(pinned: Pin, found: Pin, *, ok: bool) -> str:
    if not ok:
        return f"{_change(pinned.cycles, found.cycles)} cycles"
    if (pinned.cycles, pinned.units) == (found.cycles, found.units):
        return f"{found.cycles} cycles, as pinned"
    return f"{_change(pinned.cycles, found.cycles)} cycles, within the tolerance of the pin"


def _moves(pinned: CountsByTable, found: CountsByTable, pin: Pin, prefix: str) -> Iterator[str]:
    """Yield a line for each table with a count that is off by more than its tolerance."""
    for table in {**pinned, **found}:
        before, after = pinned.get(table, {}), found.get(table, {})
        changes = [
            f"{label} {_change(before.get(label, 0), after.get(label, 0))}"
            for label in {**before, **after}
            if _is_off(f"{prefix}{table}.{label}", pin, after.get(label, 0) - before.get(label, 0))
        ]
        if changes:
            yield f"{table}: {', '.join(changes)}"


def _is_off(key: str, pin: Pin, by: int) -> bool:
    """Return whether a count is off by more cycles than the longest key that fits it allows."""
    fitting = [each for each in pin.tolerance if key == each or key.startswith(f"{each}.")]
    return abs(by) > (pin.tolerance[max(fitting, key=len)] if fitting else 0)


def _change(before: int, after: int) -> str:
    return f"{before} -> {after} ({after - before:+})"


# -- why ------------------------------------------------------------------------------------------


def _refuse_another_chip(work: PinnedWork, pinned: Pin | None) -> None:
    if pinned is not None and pinned.chip is not None and pinned.chip["name"] != work.chip.name:
        raise ConfigError(
            f'{work.name}: runs on chip "{work.chip.name}", and its counts are of chip '
            f'"{pinned.chip["name"]}": needs counts of its own chip, which an update writes'
        )


def _why(work: PinnedWork, pinned: Pin, result: Result) -> Iterator[str]:
    """Yield what changed in the chip, and the difference from the run on the pinned chip.

    The run on the pinned chip is only told of if it has the pinned counts. Otherwise it is not the
    chip alone that changed.
    """
    if pinned.chip is None:
        return
    try:
        chip = any_chip_of_tables(dict(pinned.chip), Path(), work.name)
    except ConfigError as error:
        yield f"the pinned chip cannot be read by this version: {error}"
        return
    changes = chip_changes(chip, work.chip)
    if not changes:
        yield "the chip is as it was pinned: the run has changed, or systolic"
        return
    yield f"changed in the chip: {', '.join(changes)}"
    before = _with_pinned_counts(work, pinned, chip)
    if before is None:
        yield "more than the chip has changed: on the pinned chip too the counts are others"
        return
    found = difference(_side(work, before), _side(work, result))
    if found.first is not None:
        yield found.first.why


def _with_pinned_counts(work: PinnedWork, pinned: Pin, chip: Chip | MultiCoreChip) -> Result | None:
    """Return the run on the pinned chip, if that gives the pinned counts."""
    try:
        before = work.run(chip)
    except SystolicError:  # such as a chip that the run as it is now does not fit
        return None
    found = pin_of(before, work.reason, with_chip=False)
    same = (found.cycles, found.units) == (pinned.cycles, pinned.units)
    return before if same else None


def _side(work: PinnedWork, result: Result) -> Compared:
    return Compared(work.name, result.summary, result)
