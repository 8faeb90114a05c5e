"""Chip files: TOML -> `Chip`, and finding them by name.

Not here: what the figures mean (`sim.hw.spec`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sim.config.explain import explain
from sim.config.override import Override, apply, origin_of
from sim.config.toml_file import read_toml
from sim.errors import ConfigError, perhaps
from sim.hw.spec import Chip

SHIPPED = Path(__file__).resolve().parents[2] / "configs" / "chips"


def load_chip(path: str | Path, overrides: Sequence[Override] = ()) -> Chip:
    """Return the chip a file describes, after overrides of its keys.

    Raises:
        ConfigError: one line naming file, table and key.

    """
    file = Path(path)
    return chip_of_tables(read_toml(file), str(file), overrides)


def chip_of_tables(tables: dict[str, Any], origin: str, overrides: Sequence[Override] = ()) -> Chip:
    """Return the chip that tables describe, after overrides; `origin` is how messages call them."""
    try:
        return Chip.model_validate(apply(tables, overrides))
    except ValidationError as error:
        raise explain(error, Chip, lambda at: origin_of(at, overrides, origin)) from None


def find_chip(name: str, folder: Path, origin: str) -> Path:
    """Return the chip file meant by `name`.

    A name that ends in .toml or holds a slash is a path from `folder`. A bare name is looked for
    as NAME.toml in `folder`, in ../chips beside it, and among the chips that come with systolic.
    """
    if name.endswith(".toml") or "/" in name:
        if not _is_file(folder / name):
            raise ConfigError(f"{origin}: chip: {folder / name}: no such file")
        return folder / name
    places = (folder, folder.parent / "chips", SHIPPED)
    for place in places:
        if _is_file(place / f"{name}.toml"):
            return place / f"{name}.toml"
    known = sorted({path.stem for place in places[1:] for path in place.glob("*.toml")})
    raise ConfigError(
        f'{origin}: chip: no chip "{name}" (known: {", ".join(known)}){perhaps(name, known)}'
    )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
