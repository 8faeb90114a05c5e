"""Writing values as TOML: a Chip as a chip file, and the pinned cycle counts."""

from __future__ import annotations

import json
import math
from typing import Any

from systolic.hw.spec import Chip, MultiCoreChip


def to_toml(chip: Chip | MultiCoreChip) -> str:
    """Return the chip as the text of a chip file that gives the same chip when loaded."""
    if isinstance(chip, MultiCoreChip):
        keys = chip.model_dump(mode="json", exclude_none=True)
        lines = [f"{toml_key(key)} = {toml_text(value)}" for key, value in keys.items()]
        return "\n".join(lines) + "\n"
    keys = chip.model_dump(mode="json", exclude_none=True)
    engines = {f"engines.{name}": table for name, table in keys.pop("engines", {}).items()}
    tables = {name: value for name, value in keys.items() if isinstance(value, dict)}
    lines = [f"{key} = {toml_text(v)}" for key, v in keys.items() if key not in tables]
    for name, table in (tables | engines).items():
        lines += ["", f"[{name}]", *(f"{toml_key(k)} = {toml_text(v)}" for k, v in table.items())]
    return "\n".join(lines) + "\n"


def run_file_text(tables: dict[str, Any]) -> str:
    """Return the tables of a run file as text: a line for each tensor, a table for each step."""
    workload = dict(tables["workload"])
    tensors, ops = workload.pop("tensors", {}), workload.pop("ops", [])
    lines = [f"{key} = {toml_text(v)}" for key, v in tables.items() if key != "workload"]
    lines += ["", "[workload]", *(f"{toml_key(k)} = {toml_text(v)}" for k, v in workload.items())]
    lines += ["", "[workload.tensors]"]
    lines += [f"{toml_key(name)} = {toml_text(table)}" for name, table in tensors.items()]
    for op in ops:
        lines += ["", "[[workload.ops]]"]
        lines += [f"{toml_key(key)} = {toml_text(value)}" for key, value in op.items()]
    return "\n".join(lines) + "\n"


def toml_key(key: str) -> str:
    """Return a key as TOML writes it: quoted if it is not a bare word."""
    plain = key.isascii() and key.replace("_", "").replace("-", "").isalnum()
    return key if plain else toml_text(key)


def toml_text(value: Any) -> str:
    """Return text, an integer, a boolean, a list or a table as a TOML value on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{toml_key(k)} = {toml_text(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(toml_text, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    # JSON and TOML write text, integers, true and false alike, except one control character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
