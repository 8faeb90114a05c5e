"""JSON schemas of chip and run files, for editors that complete and check TOML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from systolic.config.run_file import RunFile
from systolic.errors import ConfigError, perhaps, shortened
from systolic.hw.spec import Chip, MultiCoreChip

DRAFT = "https://json-schema.org/draft/2020-12/schema"
FILES: dict[str, type[BaseModel]] = {"chip": Chip, "run": RunFile}


def schema(kind: str, others: Mapping[str, type[BaseModel]] | None = None) -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of "chip" or "run" files.

    others: further kinds, whose tables are defined in rooms that this one does not know.
    """
    files = FILES | dict(others or {})
    if kind not in files:
        known = f"(known: {', '.join(files)}){perhaps(kind, files)}"
        raise ConfigError(f'no schema "{shortened(kind)}" {known}')
    found = files[kind].model_json_schema()
    return {"$schema": DRAFT, **(_of_either_kind(found) if kind == "chip" else found)}


def _of_either_kind(one: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of chip files, of one core or with [[cores]], whose cores may be names."""
    several = MultiCoreChip.model_json_schema()
    parts = one.pop("$defs") | several.pop("$defs")
    for table, key in (("CoreEntry", "core"), ("Controllers", "dram")):
        entry = parts[table]["properties"]
        told = entry[key].pop("description")
        entry[key] = {"anyOf": [entry[key], {"type": "string"}], "description": told}
    return {"$defs": parts, "anyOf": [one, several]}
