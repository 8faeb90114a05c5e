"""JSON schemas of chip and run files, for editors that complete and check TOML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from systolic.config.run_file import RunFile
from systolic.errors import ConfigError, perhaps, shortened
from systolic.hw.spec import Chip

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
    return {"$schema": DRAFT, **files[kind].model_json_schema()}
