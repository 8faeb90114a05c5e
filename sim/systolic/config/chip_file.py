"""Chip files: reading one as a `Chip`, and finding one by its name.

Not here: what the figures mean (`systolic.hw.spec`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from systolic.config.explain import explain
from systolic.config.override import Override, apply, origin_of
from systolic.config.toml_file import read_toml
from systolic.errors import ConfigError, listed, perhaps, shortened
from systolic.hw.spec import Chip, MultiCoreChip
from systolic.reading import check_file
from systolic.shipped import CHIPS


def load_one_core(path: str | Path, overrides: Sequence[Override] = ()) -> Chip:
    """Return the chip of one core that a file describes, after overrides of its keys.

    Raises:
        ConfigError: one line naming file, table and key.

    """
    file = Path(path)
    return chip_of_tables(read_toml(file, "a chip file"), str(file), overrides)


def load_chip(path: str | Path, overrides: Sequence[Override] = ()) -> Chip | MultiCoreChip:
    """Return the chip a file describes, after overrides: of one core, or with [[cores]] of several.

    Raises:
        ConfigError: one line naming file, table and key.

    """
    file = Path(path)
    return any_chip_of_tables(read_toml(file, "a chip file"), file, str(file), overrides)


def any_chip_of_tables(
    tables: dict[str, Any], file: Path, origin: str, overrides: Sequence[Override] = ()
) -> Chip | MultiCoreChip:
    """Return the chip that tables describe; chips that they name are looked for beside `file`."""
    if "cores" not in tables:
        return chip_of_tables(tables, origin, overrides)
    tables = _with_named(apply(tables, overrides), file, origin)
    try:
        return MultiCoreChip.model_validate(tables)
    except ValidationError as error:
        raise explain(error, MultiCoreChip, lambda at: origin_of(at, overrides, origin)) from None


def _with_named(tables: dict[str, Any], file: Path, origin: str) -> dict[str, Any]:
    """Return the tables with the tables of the chips that they name in place of the names."""
    found = dict(tables)
    for table, key, part in (("cores", "core", None), ("controllers", "dram", "dram")):
        entries = tables.get(table)
        if isinstance(entries, list):
            found[table] = [_named_in(each, key, part, file, origin) for each in entries]
    return found


def _named_in(entry: Any, key: str, part: str | None, file: Path, origin: str) -> Any:
    name = entry.get(key) if isinstance(entry, dict) else None
    if not isinstance(name, str):
        return entry
    path = find_chip(name, file.parent, origin)
    tables = read_toml(path, "a chip file")
    if "cores" in tables:
        raise ConfigError(
            f'{origin}: {key}: "{shortened(name)}" has [[cores]] itself; needed a chip of one core'
        )
    chip_of_tables(tables, str(path))  # what is wrong in that file is said of that file
    return {**entry, key: tables if part is None else tables[part]}


def chip_of_tables(tables: dict[str, Any], origin: str, overrides: Sequence[Override] = ()) -> Chip:
    """Return the chip that tables describe, after overrides; messages call the tables `origin`."""
    if "cores" in tables:
        raise ConfigError(
            f"{origin}: is a chip of several cores ([[cores]]), which runs programs; needed a chip "
            "of one core"
        )
    try:
        return Chip.model_validate(apply(tables, overrides))
    except ValidationError as error:
        raise explain(error, Chip, lambda at: origin_of(at, overrides, origin)) from None


def find_chip(name: str, folder: Path, origin: str) -> Path:
    """Return the chip file that `name` means.

    A name that ends in .toml or holds a slash is a path from `folder`. A bare name is looked for
    as NAME.toml in `folder`, in ../chips beside it, and among the chips that come with systolic.
    """
    if name.endswith(".toml") or "/" in name:
        return _checked(folder / name, origin)
    places = (folder, folder.parent / "chips", CHIPS)
    for place in places:
        if _is_there(place / f"{name}.toml"):
            return _checked(place / f"{name}.toml", origin)
    known = sorted({path.stem for place in places[1:] for path in place.glob("*.toml")})
    looked = "" if known else f"; looked in {', '.join(map(str, dict.fromkeys(places)))}"
    raise ConfigError(
        f'{origin}: chip: no chip "{shortened(name)}" (known: {listed(known)}){looked}'
        f"{perhaps(name, known) or _as_path(folder / name, name)}"
    )


def _checked(path: Path, origin: str) -> Path:
    """Return the path if it is a file's; otherwise ConfigError says what is there."""
    try:
        check_file(path, ConfigError)
    except ConfigError as error:
        raise ConfigError(f"{origin}: chip: {error}") from None
    return path


def _as_path(path: Path, name: str) -> str:
    """Return a hint how to name the file that is called exactly `name`, if there is one."""
    return f'; the file of that name is "./{name}"' if _is_there(path) else ""


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
