"""Pinned cycle counts: compare runs with a file of counts, or rewrite that file.

Every run file is run for its times alone. A pin holds the run's cycles; the cycles of each label of
each unit, so that a difference names the unit that moved; the cycles of each operation, of a graph
that has several; its tier; and the reason for the number. The tier "operation" means one
multiplication, "program" means more than one. The tier "unit" is in tests/machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from systolic.config import RunConfig, expand, load_run
from systolic.config.dump import toml_key, toml_text
from systolic.config.toml_file import read_toml
from systolic.errors import ConfigError
from systolic.report.summary.layers import has_layers
from systolic.run.execute import run
from systolic.run.verdict import require_right
from systolic.shipped import CONFIGS
from systolic.writing import write_text

OPERATIONS = "operations"
PINS = CONFIGS / "pinned_cycles.toml"
HEAD = """\
# Cycle counts of runs, compared by `systolic check`. A name is the path of a run file, from the
# folder of this file (of the shipped counts: from configs/runs, and networks/NAME), or from --runs
# DIR; no .toml.
#
# `systolic check --update --pins configs/pinned_cycles.toml` rewrites the numbers and keeps the
# reasons. A number that moves is a change of the machine or of the compiler: say in its reason why
# the new one is right.
"""
Pin = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Finding:
    """One run compared: the text to print, and whether the counts are as pinned.

    is_new: the run has no pin yet.
    """

    text: str
    ok: bool
    is_new: bool = False


def check(
    configs: Sequence[Path] | None = None,
    pins: Path | None = None,
    *,
    update: bool = False,
    runs: Path | None = None,
) -> Iterator[Finding]:
    """Yield a finding for each run (of all shipped runs unless some are named).

    Args:
        configs: run files.
        pins: the file of pinned counts (default: the shipped one, which is only read).
        update: write the counts found to `pins`, keeping its reasons.
        runs: the folder from which the path of a run file is its name among the counts. Default:
            the folder of `pins`; for the shipped counts, and if no run files are named, the folder
            of the shipped runs (a shipped network is called networks/NAME).

    Raises:
        ConfigError: `update` without `pins`, or a run file that did not come with systolic is to
            be compared with the shipped counts.

    """
    if update and pins is None:
        raise ConfigError(
            "an update needs the file of counts to write (a new one is made; the counts that come "
            "with systolic are not overwritten)",
            setting="pins",
        )
    file = pins or PINS
    named = file.parent if configs and not _is_shipped(file) else None
    known, found = read_pins(file), dict[str, Pin]()
    for path in configs or shipped_runs():
        config = load_run(path)
        if pins is None and runs is None:
            _refuse_foreign(path)
        folder = runs or named or folder_of_shipped(path)
        for name, pin in measure(config, name_of(path, folder)):
            found[name] = pin
            if not update:
                yield compare(name, known.get(name), pin)
    if update:
        yield _updated(file, found, known, keeps_others=bool(configs))
    elif not configs:
        yield from _strangers(known, found)


def _updated(
    file: Path, found: dict[str, Pin], known: dict[str, Pin], *, keeps_others: bool
) -> Finding:
    """Write the counts found, with the reasons known, and say how many they are."""
    write_pins(file, {**(known if keeps_others else {}), **_with_reasons(found, known)})
    count = f"{len(found)} count{'s' * (len(found) != 1)}"
    return Finding(f"{count} written to {file}", ok=True)


def _strangers(known: dict[str, Pin], found: dict[str, Pin]) -> Iterator[Finding]:
    """Yield a finding for each pin that no shipped run has."""
    for name in known.keys() - found.keys():
        yield Finding(f"{name}: is pinned, but no shipped run has that name", ok=False)


def shipped_runs() -> list[Path]:
    """Return the run files that come with systolic: those of runs, then those of networks."""
    runs = sorted((CONFIGS / "runs").glob("*.toml"))
    if not runs:
        raise ConfigError(f"{CONFIGS / 'runs'}: no run files; name the ones to check")
    return [*runs, *sorted((CONFIGS / "networks").glob("*.toml"))]


def folder_of_shipped(path: Path) -> Path:
    """Return the folder from which the path of a shipped run file is its name."""
    in_networks = not name_of(path, CONFIGS / "networks").startswith("../")
    return CONFIGS if in_networks else CONFIGS / "runs"


def name_of(path: Path, folder: Path) -> str:
    """Return the name of a run file among the counts: its path from the folder, without .toml."""
    name = Path(os.path.relpath(path, folder)).as_posix()
    return name[: -len(".toml")] if name.lower().endswith(".toml") else name


def _is_shipped(file: Path) -> bool:
    try:
        return file.samefile(PINS)
    except (OSError, ValueError):  # no such file, or a name that cannot be one
        return False


def _refuse_foreign(path: Path) -> None:
    """Raise ConfigError for a run file that the shipped counts cannot have."""
    if name_of(path, folder_of_shipped(path)).startswith("../"):
        raise ConfigError(
            f"{path}: did not come with systolic, so the shipped counts do not have it: needs "
            "another file of counts, which an update writes",
            setting="pins",
        )


def measure(config: RunConfig, run: str) -> Iterator[tuple[str, Pin]]:
    """Yield name and counts of a run, or of each point of a sweep; `run` is the run's name."""
    if not config.sweep:
        yield run, _counts(config, config.description)
        return
    reasons = {sweep.name: sweep.description for sweep in config.sweep}
    for point in expand(config):
        yield f"{run}, {point.name}", _counts(point.config, reasons[point.sweep])


def _counts(config: RunConfig, reason: str) -> Pin:
    # The register engine has no mode for times only.
    summary = run(config, values=config.engine == "register").summary
    require_right(summary)
    pin = {
        "tier": "operation" if summary["sub_blocks"] == 1 else "program",
        "reason": reason,
        "cycles": summary["cycles"],
        "units": {unit: spent["labels"] for unit, spent in summary["units"].items()},
    }
    if has_layers(summary):
        pin[OPERATIONS] = {each["name"]: each["cycles"] for each in summary["operations"]}
    return pin


def compare(name: str, pinned: Pin | None, found: Pin) -> Finding:
    """Return whether a run is as pinned; if not, what moved and by how much.

    A pin without operations says nothing of them.
    """
    cycles = found["cycles"]
    if pinned is None:
        return Finding(f"{name}: {cycles} cycles, not pinned", ok=False, is_new=True)
    moved = [f"  {line}" for line in _moves(pinned["units"], found["units"])]
    if OPERATIONS in pinned:
        sides = ({OPERATIONS: side.get(OPERATIONS, {})} for side in (pinned, found))
        moved += [f"  {line}" for line in _moves(*sides)]
    if pinned["cycles"] == cycles and not moved:
        return Finding(f"{name}: {cycles} cycles, as pinned", ok=True)
    head = f"{name}: {_change(pinned['cycles'], cycles)} cycles"
    return Finding("\n".join([head, *moved]), ok=False)


def _moves(pinned: Pin, found: Pin) -> Iterator[str]:
    for unit in {**pinned, **found}:
        before, after = pinned.get(unit, {}), found.get(unit, {})
        labels = [label for label in {**before, **after} if before.get(label) != after.get(label)]
        if labels:
            changes = (
                f"{label} {_change(before.get(label, 0), after.get(label, 0))}" for label in labels
            )
            yield f"{unit}: {', '.join(changes)}"


def _change(before: int, after: int) -> str:
    return f"{before} -> {after} ({after - before:+})"


def _with_reasons(found: dict[str, Pin], known: dict[str, Pin]) -> dict[str, Pin]:
    return {
        name: {**pin, "reason": known[name]["reason"] if name in known else pin["reason"]}
        for name, pin in found.items()
    }


def read_pins(file: Path) -> dict[str, Pin]:
    """Return the pinned counts by run; none if there is no such file yet."""
    with suppress(OSError):  # A bad name is reported below, by the function that reads.
        if not file.exists():
            return {}
    pins = read_toml(file, "a file of pinned counts")
    for name, pin in pins.items():
        shape = {"tier": str, "reason": str, "cycles": int, "units": dict}
        if not isinstance(pin, dict) or any(
            not isinstance(pin.get(key), kind) for key, kind in shape.items()
        ):
            raise ConfigError(f"{file}: [{name}] needs tier, reason, cycles and units")
    return pins


def write_pins(file: Path, pins: dict[str, Pin]) -> None:
    """Write the file of pinned counts, sorted by name, whole or not at all."""
    blocks = [HEAD]
    for name, pin in sorted(pins.items()):
        lines = [f"[{toml_key(name)}]"]
        lines += [f"{key} = {toml_text(pin[key])}" for key in ("tier", "reason", "cycles")]
        if OPERATIONS in pin:
            lines.append(f"{OPERATIONS} = {toml_text(pin[OPERATIONS])}")
        lines += [f"units.{unit} = {toml_text(spent)}" for unit, spent in pin["units"].items()]
        blocks.append("\n".join(lines) + "\n")
    write_text(file, "\n".join(blocks))
