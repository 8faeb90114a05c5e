"""The file of pinned counts: reading it, every key checked, and writing it whole or not at all.

A table of the file is a pin, by the name of its run, but for the table `chips`: in it stand the
chips that the runs were counted on, each once, without the keys that have their defaults.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from systolic.config.dump import toml_key, toml_text
from systolic.config.toml_file import read_toml
from systolic.errors import ConfigError, listed, perhaps
from systolic.run.pins.pin import Pin, PinnedChip, flat
from systolic.shipped import CONFIGS
from systolic.writing import Writer, write_all

PINS = CONFIGS / "pinned_cycles.toml"
HEAD = """\
# Cycle counts of runs, compared by `systolic check`. A name is the path of a run file, from the
# folder of this file (of the shipped counts: from configs/runs, and networks/NAME), or from --runs
# DIR; no .toml.
#
# `systolic check --update --pins {file}` rewrites the numbers and keeps the
# reasons. A number that moves is a change of the machine or of the compiler: say in its reason why
# the new one is right.
"""
OWN_HEAD = """\
# Cycle counts of runs, compared by `systolic check` and by systolic's pytest plugin. A name is the
# path of a run file from the folder of this file, or from --runs DIR; no .toml.
#
# `systolic check --update` and `pytest --systolic-update` rewrite the numbers, and keep reasons and
# tolerances: say in a reason why the number is right.
"""
CHIPS = "chips"
NEEDED = {"tier": str, "reason": str, "cycles": int, "units": dict}
KINDS: dict[str, type] = {**NEEDED, "operations": dict, "tolerance": dict, "chip": str}
WORDS: dict[type, str] = {str: "text", int: "a whole number", dict: "a table"}
Pins = dict[str, Pin]


def is_shipped(file: Path) -> bool:
    """Return whether a file is the one with the counts that come with systolic."""
    try:
        return file.samefile(PINS)
    except (OSError, ValueError):  # no such file, or a name that cannot be one
        return False


# -- reading --------------------------------------------------------------------------------------


def read_pins(file: Path, *, may_be_new: bool = False) -> Pins:
    """Return the pinned counts by run.

    may_be_new: there are none if there is no such file yet. Otherwise that is a ConfigError, as is
    every table and key that does not belong into such a file.
    """
    with suppress(OSError):  # A bad name is reported below, by the function that reads.
        if not file.exists():
            if may_be_new:
                return {}
            raise ConfigError(f"{file}: no such file of pinned counts; an update makes it")
    tables = read_toml(file, "a file of pinned counts")
    chips = tables.pop(CHIPS, {})
    tables_of_chips = chips.values() if isinstance(chips, dict) else [None]
    if not all(isinstance(t, dict) and isinstance(t.get("name"), str) for t in tables_of_chips):
        raise ConfigError(f"{file}: [{CHIPS}] needs a table with a name for each chip")
    return {name: _pin(table, chips, f"{file}: [{name}]") for name, table in tables.items()}


def _pin(table: Any, chips: PinnedChip, where: str) -> Pin:
    """Return a pin; ConfigError, which begins with `where`, if the table is none."""
    if not isinstance(table, dict) or not all(key in table for key in NEEDED):
        raise ConfigError(f"{where} needs tier, reason, cycles and units")
    for key, value in table.items():
        _require_kind(key, value, where)
    for unit, labels in table["units"].items():
        _require_counts(labels, f"{where} units.{unit}")
    for key in ("operations", "tolerance"):
        _require_counts(table.get(key, {}), f"{where} {key}")
    chip = table.get("chip")
    if chip is not None and chip not in chips:
        raise ConfigError(f'{where} chip: there is no [{CHIPS}."{chip}"]{perhaps(chip, chips)}')
    pin = Pin(**{**table, "chip": None if chip is None else chips[chip]})
    _check_tolerance(pin, where)
    return pin


def _require_kind(key: str, value: Any, where: str) -> None:
    """Raise ConfigError unless a pin may have that key, with a value of that kind."""
    if key not in KINDS:
        raise ConfigError(
            f'{where} has no key "{key}" (known: {listed(KINDS)}){perhaps(key, KINDS)}'
        )
    if not isinstance(value, KINDS[key]) or isinstance(value, bool):
        raise ConfigError(f"{where} {key}: needs {WORDS[KINDS[key]]}, found {value!r}")


def _require_counts(counts: Any, where: str) -> None:
    """Raise ConfigError unless each value of a table is a number of cycles."""
    if not isinstance(counts, dict):
        raise ConfigError(f"{where}: needs a table, found {counts!r}")
    for key, value in counts.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ConfigError(f'{where} "{key}": needs a number of cycles, found {value!r}')


def _check_tolerance(pin: Pin, where: str) -> None:
    """Raise ConfigError for a tolerance of a count that the pin does not have."""
    known = list(keys_of(pin))
    for key in pin.tolerance:
        if key not in known:
            raise ConfigError(
                f'{where} tolerance: there is no count "{key}" (known: {listed(known)})'
                f"{perhaps(key, known)}"
            )


def keys_of(pin: Pin) -> Iterator[str]:
    """Yield the keys that a tolerance may have: of a count, or of all counts of a table."""
    yield from ("cycles", "units", *(f"units.{unit}" for unit in pin.units))
    yield from (f"units.{unit}.{label}" for unit, spent in pin.units.items() for label in spent)
    if pin.operations is not None:
        yield from ("operations", *(f"operations.{name}" for name in pin.operations))


# -- writing --------------------------------------------------------------------------------------


def write_pins(file: Path, pins: Mapping[str, Pin]) -> None:
    """Write a file of pinned counts, sorted by name, whole or not at all."""
    write_pin_files({file: pins})


def write_pin_files(files: Mapping[Path, Mapping[str, Pin]]) -> None:
    """Write several files of pinned counts: all of them, or none."""
    writers: dict[Path, Writer] = {}
    for file, pins in files.items():
        data = pins_text(pins, shipped=is_shipped(file)).encode()
        writers[file] = partial(Path.write_bytes, data=data)
    write_all(writers)


def pins_text(pins: Mapping[str, Pin], *, shipped: bool = False) -> str:
    """Return the text of a file of pinned counts."""
    chips: dict[str, PinnedChip] = {}
    blocks = [HEAD.format(file="configs/pinned_cycles.toml") if shipped else OWN_HEAD]
    for name, pin in sorted(pins.items()):
        if name == CHIPS:
            raise ConfigError(f'no run can be pinned as "{CHIPS}": needs another name')
        chip = None if pin.chip is None or shipped else _key_of(chips, pin.chip)
        blocks.append(_table(name, pin, chip))
    blocks += [_chip_table(name, tables) for name, tables in chips.items()]
    return "\n".join(blocks)


def _table(name: str, pin: Pin, chip: str | None) -> str:
    keys = asdict(replace(pin, chip=None))
    lines = [f"[{toml_key(name)}]"]
    lines += [f"{key} = {toml_text(keys[key])}" for key in ("tier", "reason", "cycles")]
    if chip is not None:
        lines.insert(-1, f"chip = {toml_text(chip)}")
    if pin.tolerance:
        lines.append(f"tolerance = {toml_text(keys['tolerance'])}")
    if pin.operations is not None:
        lines.append(f"operations = {toml_text(keys['operations'])}")
    lines += [
        f"units.{toml_key(unit)} = {toml_text(spent)}" for unit, spent in keys["units"].items()
    ]
    return "\n".join(lines) + "\n"


def _key_of(chips: dict[str, PinnedChip], tables: PinnedChip) -> str:
    """Return the key of a chip among a file's keys; one that is not yet there is added."""
    name, number = str(tables["name"]), 1
    key = name
    while chips.setdefault(key, tables) != tables:
        number += 1
        key = f"{name}, {number}"
    return key


def _chip_table(name: str, tables: PinnedChip) -> str:
    """Return the table of a chip, a line for each key, so that a change of one is one line."""
    lines = [f"[{CHIPS}.{toml_key(name)}]"]
    lines += [f"{'.'.join(map(toml_key, key))} = {toml_text(v)}" for key, v in flat(tables)]
    return "\n".join(lines) + "\n"
